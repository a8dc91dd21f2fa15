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
 * ibr_path_hold() - a message was queued that may wait for others, in ibr_path_drive_soon()
 * @path: path
 * @payload: its bytes, at most IBR_EAGER_MAX_LIMIT
 *
 * Context: path->lock held
 */
void ibr_path_hold(struct ibr_path *path, u32 payload);

/** ibr_path_urge() - something was queued that may not. Context: path->lock held */
void ibr_path_urge(struct ibr_path *path);

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

/**
 * ibr_path_room() - how much of a message that is cut up anyway may go in the packet that is being assembled
 * @path: path
 *
 * Return: bytes of payload, 0: there is no such packet, or nothing goes along. Context: path->lock held
 */
u32 ibr_path_room(const struct ibr_path *path);

/** ibr_path_can_write() - the same for ibr_path_write(), or ibr_path_emit() of what it refuses. Context: as above */
bool ibr_path_can_write(struct ibr_path *path);

/**
 * ibr_path_write() - send a fragment by RDMA write, for which ibr_path_can_write() said yes
 * @path: path
 * @frag: without payload, its frame filled in; taken over on success
 * @immediate: which unit of which window, as the peer is told (wire.h)
 * @address: where to
 * @key: with this key
 *
 * Return: false: it has to go as a packet: there is no queue pair for that, or no slot, the memory is not what an
 * adapter can read, or a header is due. Context: path->lock held
 */
bool ibr_path_write(struct ibr_path *path, struct ibr_frag *frag, u32 immediate, u64 address, u32 key);

#endif /* IBR_DRIVE_H */
