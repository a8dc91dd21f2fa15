/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What all processes of a user have in common, so that what one user keeps busy, or takes of what there is for all,
 * others do not miss: workers that wait for memory, and bounce buffers (memory.c).
 */
#ifndef IBR_USER_H
#define IBR_USER_H

#include <linux/atomic.h>
#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/uidgid.h>

struct ibr_umem;

/**
 * struct ibr_user - a user
 * @uid: who
 * @refs: address spaces of his processes
 * @node: among all users; this and @refs under the lock of all
 * @lock: softirq-safe, innermost; covers what follows
 * @waiting: user memory for which no worker is free, the oldest first
 * @running: workers that he has
 * @bounced: bytes of his bounce buffers
 */
struct ibr_user {
	kuid_t uid;
	u32 refs;
	struct list_head node;

	spinlock_t lock;		/* the next two */
	struct list_head waiting;
	u32 running;
	atomic64_t bounced;
};

/** ibr_user_get_current() - the user whose process this is; NULL: no memory. Context: process */
struct ibr_user *ibr_user_get_current(void);
/** ibr_user_put() - give it back. Context: any */
void ibr_user_put(struct ibr_user *user);

#endif /* IBR_USER_H */
