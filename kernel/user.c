// SPDX-License-Identifier: GPL-2.0-only
/*
 * Users: few, and looked for only when a process opens an endpoint or a region. Each has a workqueue, as one limit for
 * all would let one user's workers, which may wait for ever, leave none to the others.
 */
#include <linux/cred.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/user_namespace.h>
#include <linux/workqueue.h>

#include "user.h"

#define USER_WORKERS	256	/* at a time; before Linux 6.9 for each NUMA node */

static LIST_HEAD(users);
static DEFINE_MUTEX(users_lock);

/* Whoever may have many names (newuidmap(1)) is told by his own. */
static kuid_t user_uid(void)
{
	struct user_namespace *ns = current_user_ns();
	kuid_t uid = current_uid();

	for (; ns != &init_user_ns && !uid_eq(ns->owner, GLOBAL_ROOT_UID); ns = ns->parent)
		uid = ns->owner;
	return uid;
}

/* Context: users_lock held */
static struct ibr_user *user_find(kuid_t uid)
{
	struct ibr_user *user;

	list_for_each_entry(user, &users, node) {
		if (uid_eq(user->uid, uid)) {
			refcount_inc(&user->refs);
			return user;
		}
	}
	return NULL;
}

static struct ibr_user *user_create(kuid_t uid)
{
	struct ibr_user *user = kzalloc(sizeof(*user), GFP_KERNEL_ACCOUNT);

	if (!user)
		return NULL;
	user->queue = alloc_workqueue("ibrelk_memory/%u", WQ_UNBOUND, USER_WORKERS,
				      from_kuid(&init_user_ns, uid));
	if (!user->queue) {
		kfree(user);
		return NULL;
	}
	user->uid = uid;
	refcount_set(&user->refs, 1);
	return user;
}

static void user_destroy(struct ibr_user *user)
{
	destroy_workqueue(user->queue);
	kfree(user);
}

struct ibr_user *ibr_user_get_current(void)
{
	kuid_t uid = user_uid();
	struct ibr_user *user, *created;

	mutex_lock(&users_lock);
	user = user_find(uid);
	mutex_unlock(&users_lock);
	if (user)
		return user;

	/* To make one may take long, where memory is short: others do not wait for that. */
	created = user_create(uid);
	mutex_lock(&users_lock);
	user = user_find(uid);
	if (!user && created) {
		list_add(&created->node, &users);
		user = created;
		created = NULL;
	}
	mutex_unlock(&users_lock);
	if (created)
		user_destroy(created);
	return user;
}

void ibr_user_put(struct ibr_user *user)
{
	if (!refcount_dec_and_mutex_lock(&user->refs, &users_lock))
		return;
	list_del(&user->node);
	mutex_unlock(&users_lock);
	user_destroy(user);
}

/* The one after @user, or the first one, with a reference; @user's is given back. */
static struct ibr_user *user_next(struct ibr_user *user)
{
	struct ibr_user *next = NULL;
	struct list_head *at;

	mutex_lock(&users_lock);
	at = user ? user->node.next : users.next;
	if (at != &users) {
		next = list_entry(at, struct ibr_user, node);
		refcount_inc(&next->refs);
	}
	mutex_unlock(&users_lock);
	if (user)
		ibr_user_put(user);
	return next;
}

void ibr_users_flush(void)
{
	struct ibr_user *user = NULL;

	while ((user = user_next(user)))
		flush_workqueue(user->queue);
}
