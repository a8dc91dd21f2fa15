/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Regions: memory that stays pinned because the user says so, and not only until something else needs the room; and
 * that peers may write to, if he allows that.
 */
#ifndef IBR_REGION_H
#define IBR_REGION_H

#include <linux/list.h>
#include <linux/types.h>

struct file;
struct ibr_atomic;
struct ibr_path;
struct ibr_region;
struct ibr_send;
struct ibr_space;
struct ibr_umem;
struct ibrelk_region_create;

/**
 * struct ibr_access - a peer's access to a region, that takes a while
 * @link: in one of the region's lists
 * @region: to which, with a reference; NULL: none
 * @path: by which; the access begins under its lock
 * @send: that reads it, and contains this; NULL: a struct ibr_recv does, and the access ends under the lock, too
 */
struct ibr_access {
	struct list_head link;
	struct ibr_region *region;
	struct ibr_path *path;
	struct ibr_send *send;
};

/**
 * ibr_region_create() - IBRELK_IOC_REGION_CREATE without the descriptor
 * @create: what is asked for; on success .key is set
 *
 * Return: a file whose release ends the region; ERR_PTR: see Documentation/uapi.rst. Context: process.
 */
struct file *ibr_region_create(struct ibrelk_region_create *create);

/**
 * ibr_region_write() - a peer writes to a region
 * @space: of the process that it talks to
 * @key: by which it knows the region
 * @address: where to, in that process
 * @data: what
 * @length: bytes; 0 is fine
 *
 * Return: 0; -EACCES: no region of this process has that key, or it is not to be written by peers, or ends; -EFAULT:
 * not in the region, or not mapped any more. Context: any but hardirq.
 */
int ibr_region_write(struct ibr_space *space, u64 key, u64 address, const void *data, u32 length);

/** ibr_region_read() - a peer reads from a region, to @data; otherwise as ibr_region_write() */
int ibr_region_read(struct ibr_space *space, u64 key, u64 address, void *data, u32 length);

/**
 * ibr_region_atomic() - a peer has something computed in a region
 * @space: of the process that it talks to
 * @key: by which it knows the region
 * @address: where, in that process; aligned
 * @atomic: what
 * @before: set to what was there; or NULL
 *
 * The region has to be one that peers may write to, unless it only reads; and one that they may read from, if @before
 * is asked for. Return: as ibr_region_write(). Context: any but hardirq.
 */
int ibr_region_atomic(struct ibr_space *space, u64 key, u64 address, const struct ibr_atomic *atomic, void *before);

/**
 * ibr_access_begin() - a peer is going to write to a region, or to read from it
 * @access: zeroed but for @send; in a struct ibr_recv or ibr_send
 * @umem: that one's memory, zeroed: the part of the region, on success
 * @path: where the peer is
 * @space: as for ibr_region_write(), like the next two
 * @key: key
 * @address: address
 * @length: bytes
 *
 * A receive's transfer begins before @path->lock is let go. Should the region end, it is aborted.
 * Return: as ibr_region_write(). Context: path->lock held.
 */
int ibr_access_begin(struct ibr_access *access, struct ibr_umem *umem, struct ibr_path *path, struct ibr_space *space,
		     u64 key, u64 address, u64 length);
/** ibr_access_end() - nothing is written or read any more. Context: any; of a receive, path->lock held */
void ibr_access_end(struct ibr_access *access);

#endif /* IBR_REGION_H */
