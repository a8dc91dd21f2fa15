// SPDX-License-Identifier: GPL-2.0-only
/*
 * Users: few, and looked for only when a process opens its first endpoint or region.
 */
#include <linux/cred.h>
#include <linux/slab.h>

#include "user.h"

static LIST_HEAD(users);
static DEFINE_SPINLOCK(users_lock);

/* Context: users_lock held */
static struct ibr_user *user_find(kuid_t uid)
{
	struct ibr_user *user;

	list_for_each_entry(user, &users, node) {
		if (uid_eq(user->uid, uid)) {
			user->refs++;
			return user;
		}
	}
	return NULL;
}

struct ibr_user *ibr_user_get_current(void)
{
	struct ibr_user *user, *made;
	kuid_t uid = current_uid();

	spin_lock_bh(&users_lock);
	user = user_find(uid);
	spin_unlock_bh(&users_lock);
	if (user)
		return user;

	made = kzalloc(sizeof(*made), GFP_KERNEL_ACCOUNT);
	if (!made)
		return NULL;
	made->uid = uid;
	made->refs = 1;
	spin_lock_init(&made->lock);
	INIT_LIST_HEAD(&made->waiting);

	spin_lock_bh(&users_lock);
	user = user_find(uid);
	if (!user)
		list_add(&made->node, &users);
	spin_unlock_bh(&users_lock);
	if (!user)
		return made;
	kfree(made);
	return user;
}

void ibr_user_put(struct ibr_user *user)
{
	bool last;

	spin_lock_bh(&users_lock);
	last = !--user->refs;
	if (last)
		list_del(&user->node);
	spin_unlock_bh(&users_lock);
	if (last)
		kfree(user);
}
