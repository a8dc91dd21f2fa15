/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What all processes of a user have in common, so that what one user keeps busy, or takes of what there is for all,
 * others do not miss: workers that wait for memory, and bounce buffers (memory.c).
 */
#ifndef IBR_USER_H
#define IBR_USER_H

#include <linux/atomic.h>
#include <linux/list.h>
#include <linux/refcount.h>
#include <linux/uidgid.h>

struct workqueue_struct;

/**
 * struct ibr_user - a user
 * @uid: who; whoever made a user namespace stands for all who are in it, but for root's, in which all are themselves
 * @refs: by address spaces
 * @node: among all users
 * @queue: for work that needs the process whose memory it is, and may have to wait for it or for its file system
 * @bounced: bytes of his bounce buffers
 */
struct ibr_user {
	kuid_t uid;
	refcount_t refs;
	struct list_head node;
	struct workqueue_struct *queue;
	atomic64_t bounced;
};

/** ibr_user_get_current() - whose process this is. Return: he, or NULL: no memory. Context: process, may sleep */
struct ibr_user *ibr_user_get_current(void);
/** ibr_user_put() - give it back. Context: process, not in a work of his queue; may sleep */
void ibr_user_put(struct ibr_user *user);
/** ibr_users_flush() - wait for what is in the queues of all. Context: process */
void ibr_users_flush(void);

#endif /* IBR_USER_H */
