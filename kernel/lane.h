/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The lane of an automatic path: a UC queue pair of its own, beside the datagrams, while there is much to carry.
 *
 * A path has at most one. Packets go there while it is up, and as datagrams otherwise; the other side does as
 * it likes, and takes both. Numbers, acknowledgements, credits and the checksum's seed are the path's, so a
 * switch is nothing but reordering to the engine: nothing is lost, repeated or out of order above it.
 */
#ifndef IBR_LANE_H
#define IBR_LANE_H

#include <linux/types.h>
#include <linux/workqueue.h>

struct ibr_cm;
struct ibr_path;
struct ibr_qp;
struct ibr_remote;

/**
 * enum ibr_lane_state - where a lane is
 * @IBR_LANE_NONE: there is none
 * @IBR_LANE_ASKED: the path has so much to carry that it asks for one
 * @IBR_LANE_UP: in use
 * @IBR_LANE_CLOSING: out of use; the connection is going to be closed
 */
enum ibr_lane_state {
	IBR_LANE_NONE,
	IBR_LANE_ASKED,
	IBR_LANE_UP,
	IBR_LANE_CLOSING,
};

/**
 * struct ibr_lane - part of struct ibr_path, under its lock
 * @qp: UP: in RTS, with a reference; else NULL
 * @state: see above
 * @failures: attempts that have failed in a row, and lanes that broke
 * @retry_at: no attempt before this time, ns
 * @look_at: when to look next whether the path needs one, ns; REL_TIME_NEVER: its mode has none
 * @since: when fragments were last counted, ns
 * @frames: how many they were, both ways
 * @heard_at: when a packet last came by it, or it came up, ns
 * @cm: attempts under way and connection; connect.c's, as is the lock of the pointer
 * @work: connects or closes
 */
struct ibr_lane {
	struct ibr_qp *qp;
	enum ibr_lane_state state;
	u8 failures;
	u64 retry_at;
	u64 look_at;
	u64 since;
	u64 frames;
	u64 heard_at;
	struct ibr_cm *cm;
	struct work_struct work;
};

void ibr_lane_init(struct ibr_path *path);

/** ibr_lane_start() - a life begins: begin to count. Context: path->lock held */
void ibr_lane_start(struct ibr_path *path);

/**
 * ibr_lane_look() - ask for a lane, or give it back
 * @path: whose @look_at has come
 *
 * A path asks if it has carried auto_uc_rate fragments a second, both ways, for at least a hundredth of
 * auto_uc_idle_ms, and gives it back after auto_uc_idle_ms, but no less than eight round trips, with less than a tenth
 * of that rate. Context: path->lock held.
 */
void ibr_lane_look(struct ibr_path *path);

/** ibr_lane_knows() - may this be the peer's lane: is it the peer of the life that is up? Context: process */
bool ibr_lane_knows(struct ibr_path *path, const struct ibr_remote *remote);

/**
 * ibr_lane_up() - the connection is made (connect.c)
 * @path: whose
 * @remote: what the peer said of itself
 * @qp: in RTS; the path takes over the caller's reference. It replaces the one in use
 *
 * Return: true; false: the life for which it was made is over, nothing was taken over. Context: process,
 * path->connect_lock held.
 */
bool ibr_lane_up(struct ibr_path *path, const struct ibr_remote *remote, struct ibr_qp *qp);

/** ibr_lane_failed() - the attempt has failed: not again too soon. Context: process */
void ibr_lane_failed(struct ibr_path *path);

/**
 * ibr_lane_lose() - the queue pair can carry nothing any more; what was in flight is sent again as datagrams
 * @path: whose
 * @qp: which; if it is not the one in use, nothing is done
 * @broken: there is something wrong with it: the next attempt waits longer. Else the peer has given it back
 *
 * Who calls it drives the path afterwards. Context: path->lock held.
 */
void ibr_lane_lose(struct ibr_path *path, struct ibr_qp *qp, bool broken);

/**
 * ibr_lane_heard() - a valid packet came
 * @path: with a lane
 * @qp: by which it came
 *
 * A peer that has lost its end of the lane, and whose word of it has been lost, sends datagrams, and hears nothing:
 * so does who gets datagrams, and for a while nothing else, lose his end. Who calls it drives the path afterwards.
 * Context: path->lock held.
 */
void ibr_lane_heard(struct ibr_path *path, const struct ibr_qp *qp);

/** ibr_lane_drop() - out of use, if there is one, without sending anything again. Context: path->lock held */
void ibr_lane_drop(struct ibr_path *path);

/** ibr_lane_reserve() - Return: one connection more is within auto_uc_max. Context: any */
bool ibr_lane_reserve(void);
void ibr_lane_release(void);

#endif /* IBR_LANE_H */
