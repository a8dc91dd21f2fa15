/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Regions: memory that stays pinned because the user says so, and not only until something else needs the room.
 */
#ifndef IBR_REGION_H
#define IBR_REGION_H

struct file;
struct ibrelk_region_create;

/**
 * ibr_region_create() - IBRELK_IOC_REGION_CREATE without the descriptor
 * @create: what is asked for
 *
 * Return: a file whose release ends the region; ERR_PTR: see Documentation/uapi.rst. Context: process.
 */
struct file *ibr_region_create(const struct ibrelk_region_create *create);

#endif /* IBR_REGION_H */
