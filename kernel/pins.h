/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Pinned ranges of user memory, and the address spaces that they belong to. A range that nobody uses any more stays
 * pinned for the next transfer from or to the same place; the kernel's MMU notifiers say when what is at an address is
 * no longer the memory that was pinned there.
 */
#ifndef IBR_PINS_H
#define IBR_PINS_H

#include <linux/interval_tree.h>
#include <linux/list.h>
#include <linux/llist.h>
#include <linux/mmu_notifier.h>
#include <linux/refcount.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#define IBR_PINS_INLINE		3	/* pages of a buffer of 8 KiB, wherever it starts */

struct ibr_pins;
struct ibr_user;
struct ibrelk_endpoint_info;
struct mm_struct;
struct page;

/**
 * struct ibr_space - an address space whose memory is pinned
 * @notifier: by which the kernel tells what becomes of it; one for all endpoints of a process
 * @mm: the address space, referenced (mmgrab)
 * @user: whose process it is, or was when it opened its first endpoint or region; or who opened the endpoint that it
 *	uses
 * @refs: by the notifier, by each range, and by each struct ibr_umem
 * @free_work: frees it, as the last reference may go where nobody can sleep
 * @unpinned: woken when a range of it is
 * @watched: has a notifier; without, nothing stays pinned
 * @exiting: start_boottime of a task that ends, and waits for who uses regions here; of the last one, if there are more
 * @exit_left: for how long it still does, jiffies
 * @lock: softirq-safe, innermost; covers the rest, and all that changes in its ranges. The notifier takes it, so
 *	nothing may be allocated under it
 * @found: ranges that transfers find, by address
 * @hidden: ranges that somebody uses, and nobody else is to find: being pinned, changed since, or never to be shared
 * @idle: those of @found that nobody uses, in the order in which they became so
 * @dead: ranges that are to be unpinned, or just are, in the order in which they became so
 * @age_work: lets those go that have been idle for long; pending, it has a reference
 * @idle_pages: pages of these
 * @idle_max: at most so many
 * @openers: open endpoints and regions; without any, nothing stays pinned
 * @ended: the process has: regions have let go of what they had
 * @invalidating: changes that the kernel has announced, and not finished
 * @unmaps: those of them by which memory goes, while their ranges are told (struct ibr_unmap)
 * @permissions: counts the times that it announced a change only of what the process may do with its memory
 * @hits: ranges that were found pinned
 * @misses: ... and that were not
 */
struct ibr_space {
	struct mmu_notifier notifier;
	struct mm_struct *mm;
	struct ibr_user *user;
	refcount_t refs;
	struct work_struct free_work;
	wait_queue_head_t unpinned;
	bool watched;
	u64 exiting;
	long exit_left;

	spinlock_t lock;		/* the rest */
	struct rb_root_cached found;
	struct rb_root_cached hidden;
	struct list_head idle;
	struct list_head dead;
	struct delayed_work age_work;
	unsigned long idle_pages;
	unsigned long idle_max;
	u32 openers;
	bool ended;
	u32 invalidating;
	struct list_head unmaps;
	u64 permissions;
	u64 hits;
	u64 misses;
};

/**
 * struct ibr_pins - a range of pinned user memory, whole pages
 * @range: their addresses; in space->found or space->hidden, unless it is dead
 * @space: whose, with a reference
 * @idle: in space->idle or space->dead, or empty
 * @idle_since: since when, jiffies
 * @dead: in a list of those that wait to be unpinned
 * @pages: these
 * @nr_pages: how many
 * @users: who has it; when they are gone it becomes idle, if it is fresh, and not @passing
 * @regions: those of them that are regions
 * @write: may be written; pages are dirty when they are unpinned
 * @passing: huge pages of hugetlbfs, which fork() copies at once as long as they are pinned, and of which there may be
 *	none left: not to become idle
 * @fresh: in space->found: what is pinned is still what is there, as far as is known
 * @changed: the kernel has announced a change of it
 * @permitted: what space->permissions was when the process was last seen to be permitted what @write says
 * @gone: a bit for each page that was unmapped while somebody used the range
 * @inline_gone: room for the bits of a small range
 * @inline_pages: ... and for its pages
 * Only @pages, @range and @space, which do not change, are for users to read.
 */
struct ibr_pins {
	struct interval_tree_node range;
	struct ibr_space *space;
	struct list_head idle;
	unsigned long idle_since;
	struct llist_node dead;
	struct page **pages;
	unsigned long nr_pages;
	u32 users;
	u32 regions;
	bool write;
	bool passing;
	bool fresh;
	bool changed;
	u64 permitted;
	unsigned long *gone;
	unsigned long inline_gone;
	struct page *inline_pages[IBR_PINS_INLINE];
};

extern struct workqueue_struct *ibr_pins_queue;		/* for what waits for nobody's file system or page faults */

/**
 * ibr_space_open() - for an endpoint: the address space of the calling process
 *
 * Return: space, the same for all who ask in a process; ibr_space_close() gives it back. ERR_PTR: -ENOMEM;
 * -ERESTARTNOINTR (a signal came before anything was done: the system call begins anew). Context: process.
 */
struct ibr_space *ibr_space_open(void);
/** ibr_space_info() - fill in what is told of it. Context: any */
void ibr_space_info(struct ibr_space *space, struct ibrelk_endpoint_info *info);
/** ibr_space_close() - an endpoint is closed: after the last one what is idle is unpinned. Context: process */
void ibr_space_close(struct ibr_space *space);
/**
 * ibr_space_current() - the calling process's, which need not be the one that opened the endpoint
 * @space: the endpoint's
 *
 * Return: @space, or one in which nothing stays pinned; with a reference. NULL: no memory. Context: process.
 */
struct ibr_space *ibr_space_current(struct ibr_space *space);
/** ibr_space_get() - one more reference. Context: any */
void ibr_space_get(struct ibr_space *space);
/** ibr_space_put() - give a reference back. Context: any */
void ibr_space_put(struct ibr_space *space);

#define IBR_LIMIT_OWN		(ULONG_MAX - 1)

/** ibr_pins_limit() - how many pages the calling process may have pinned; ULONG_MAX: any number. Context: process */
unsigned long ibr_pins_limit(void);

/**
 * ibr_pins_get() - a range of memory, pinned
 * @space: whose; its address space is current->mm
 * @start: address of the first byte
 * @length: bytes, at least 1
 * @write: it is going to be written
 * @limit: pages that the process may have pinned, since a worker has other limits and capabilities; IBR_LIMIT_OWN:
 *	what holds for the caller
 *
 * Return: a range that contains it and is not much larger, or a region, until ibr_pins_put(), before which @space must
 * not be given back; ERR_PTR: -EFAULT (not mapped, or not writable), -EPERM (the
 * limit), -ENOMEM, -EINTR (killed), or what the kernel says of memory that cannot be pinned. Context: process.
 */
struct ibr_pins *ibr_pins_get(struct ibr_space *space, unsigned long start, unsigned long length, bool write,
			      unsigned long limit);
/**
 * ibr_pins_put() - give it back
 * @pins: what ibr_pins_get() gave
 *
 * It stays pinned, or is unpinned soon, by a worker or the next system call. Context: any, also under spinlocks.
 */
void ibr_pins_put(struct ibr_pins *pins);
/** ibr_pins_fresh() - nothing has happened to the memory since it was pinned, as far as is known. Context: any */
static inline bool ibr_pins_fresh(const struct ibr_pins *pins)
{
	return READ_ONCE(pins->fresh);
}

/**
 * ibr_pins_gone() - was some of it unmapped since ibr_pins_get()?
 * @pins: a range that the caller has
 * @start: address of the first byte that matters
 * @length: bytes that do
 *
 * Other changes (fork, madvise(), migration) do not count: a transfer under way has the memory that was there when it
 * began. An unmapping that had begun before ibr_pins_get() need not be seen. Context: any.
 */
bool ibr_pins_gone(const struct ibr_pins *pins, unsigned long start, unsigned long length);

/**
 * ibr_pins_region() - it becomes one of the user's regions, to be found whatever its size
 * @pins: what the caller has got
 *
 * Return: it did, and ibr_pins_put_region() gives it back instead of ibr_pins_put(); false: the process has ended.
 * Context: any.
 */
bool ibr_pins_region(struct ibr_pins *pins);
/**
 * ibr_pins_put_region() - the region ends
 * @space: its space
 * @pins: the range, if the process has not ended; else that has let go of it already
 *
 * Context: any.
 */
void ibr_pins_put_region(struct ibr_space *space, struct ibr_pins *pins);

/**
 * ibr_pins_share() - use what a region has, for a transfer
 * @space: its space
 * @pins: the range, whose region has not ended, unless the process has
 *
 * Return: it can be used until ibr_pins_put(); false: the process has ended. Context: any.
 */
bool ibr_pins_share(struct ibr_space *space, struct ibr_pins *pins);

/** ibr_pins_flush() - unpin now what was put off on this CPU, unless it is much. Context: process */
void ibr_pins_flush(void);

int ibr_pins_init(void);
/** ibr_pins_exit() - every space must have been given back, but for what waits to be freed */
void ibr_pins_exit(void);

#endif /* IBR_PINS_H */
