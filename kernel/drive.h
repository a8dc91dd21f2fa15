/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The drive: the only code that feeds the engine, posts what it says, and arms its timer.
 */
#ifndef IBR_DRIVE_H
#define IBR_DRIVE_H

#include "path.h"

struct ibr_frag;

extern const struct rel_ops ibr_drive_ops;
extern bool ibr_aggregate;	/* see the module parameter; root may change it at run time */

/** ibr_drive_init() - set the timer of a new path up */
void ibr_drive_init(struct ibr_path *path);

/** ibr_path_drive_locked() - ibr_path_drive() for those that hold the lock. Context: path->lock held */
void ibr_path_drive_locked(struct ibr_path *path);

/**
 * ibr_path_can_emit() - does the engine let a fragment of this kind go?
 * @path: path
 * @control: fragment with a control frame
 * @payload: its bytes of payload
 *
 * It may join the packet that is being assembled; if it cannot, that one is sent.
 *
 * Return: whether ibr_path_emit() may be called, once. Context: path->lock held
 */
bool ibr_path_can_emit(struct ibr_path *path, bool control, u32 payload);

/**
 * ibr_path_emit() - send a fragment, for which ibr_path_can_emit() said yes
 * @path: path
 * @frag: fragment, in no list; takes over the caller's reference
 *
 * Return: true; false: no slot (the reference stays with the caller). Context: path->lock held
 */
bool ibr_path_emit(struct ibr_path *path, struct ibr_frag *frag);

#endif /* IBR_DRIVE_H */
