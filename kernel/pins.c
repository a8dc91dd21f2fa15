// SPDX-License-Identifier: GPL-2.0-only
/*
 * Pinned ranges, and the cache of those that nobody uses at the moment. There is one for each address space that has
 * an endpoint open, with one MMU notifier, which only marks and unlinks: unpinning, which may sleep, is put off to
 * the next system call, or to a worker if there is none.
 *
 * How a range can be used by the next transfer, though nobody told us that its memory is the same: before the page
 * tables change, the kernel calls invalidate_range_start(), which hides the range from whoever looks for one. So that
 * nothing is missed, a range is known (hidden) before its pages are looked up, and remains hidden if a change was under
 * way then, or came before it was done.
 */
#include <linux/atomic.h>
#include <linux/bitmap.h>
#include <linux/capability.h>
#include <linux/delay.h>
#include <linux/hugetlb.h>
#include <linux/jiffies.h>
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/mmap_lock.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/wait.h>
#include <ibrelk/uapi.h>

#include "compat.h"
#include "pins.h"
#include "user.h"

#define FLUSH_DELAY_MS		10	/* what is to be unpinned stays so no longer than this */
#define IDLE_MS			5000	/* nor does what is idle */
#define WALK_MAX		64	/* ranges in one go under the lock */
#define PIN_PAGES		512	/* pages in one go, during which no interrupt may come */
#define FLUSH_PAGES		1024	/* pages that a system call unpins, whoever has let go of them */
#define CACHE_SHARE		2	/* the cache takes no more than this part of what a process may pin */

static unsigned int pin_cache_mib = 64;
module_param(pin_cache_mib, uint, 0644);
MODULE_PARM_DESC(pin_cache_mib, "memory that stays pinned for later transfers, each process, in MiB; 0: none (default: 64)");

struct workqueue_struct *ibr_pins_queue;
static struct kmem_cache *pins_cache;

static DEFINE_PER_CPU(struct llist_head, dead_pins);	/* ranges to be unpinned */
static LLIST_HEAD(dead_rest);				/* ... by the worker, or their own process */

static void pins_flush_work(struct work_struct *work);
static DECLARE_DELAYED_WORK(dead_work, pins_flush_work);

/* ---- letting go ------------------------------------------------------------------------------ */

static void pins_destroy(struct ibr_pins *pins)
{
	if (pins->pages != pins->inline_pages)
		kvfree(pins->pages);
	ibr_space_put(pins->space);
	kmem_cache_free(pins_cache, pins);
}

/* Context: process, may sleep. */
static void pins_unpin(struct ibr_pins *pins, unsigned long nr_pages, bool dirty)
{
	unsigned long done, part;

	for (done = 0; done < nr_pages; done += part) {
		part = min_t(unsigned long, nr_pages - done, PIN_PAGES);
		unpin_user_pages_dirty_lock(pins->pages + done, part, dirty);
		cond_resched();
	}
}

/* Context: process, may sleep. */
static void pins_free(struct ibr_pins *pins)
{
	struct ibr_space *space = pins->space;

	pins_unpin(pins, pins->nr_pages, pins->write);
	atomic64_sub(pins->nr_pages, &space->mm->pinned_vm);
	spin_lock_bh(&space->lock);
	list_del(&pins->idle);
	spin_unlock_bh(&space->lock);
	if (wq_has_sleeper(&space->unpinned))
		wake_up_all(&space->unpinned);
	pins_destroy(pins);
}

/*
 * Have a range unpinned later. Who finds the list empty sees to it that the work runs: it either is
 * pending, and then empties the list after this, or is queued. llist_add() orders the two looks.
 */
static void pins_defer(struct ibr_pins *pins, struct llist_head *list)
{
	if (llist_add(&pins->dead, list) && !delayed_work_pending(&dead_work))
		queue_delayed_work(ibr_pins_queue, &dead_work, msecs_to_jiffies(FLUSH_DELAY_MS));
}

/*
 * Unpin what is in a list of @mm, and so many pages of others; what is left is the worker's, as it may take seconds.
 * What takes long here comes last: others may be waiting for theirs.
 */
static void pins_free_list(struct llist_head *list, const struct mm_struct *mm, unsigned long pages)
{
	struct llist_node *dead, *last = NULL;
	struct ibr_pins *pins, *next;

	if (llist_empty(list))
		return;
	dead = llist_del_all(list);
	llist_for_each_entry_safe(pins, next, dead, dead) {
		bool own = pins->space->mm == mm;

		if (!own && pins->nr_pages > pages) {
			pins_defer(pins, &dead_rest);
		} else if (own || pins->nr_pages > FLUSH_PAGES) {
			pins->dead.next = last;
			last = &pins->dead;
		} else {
			pages -= pins->nr_pages;
			pins_free(pins);
		}
		cond_resched();
	}
	llist_for_each_entry_safe(pins, next, last, dead) {
		pins_free(pins);
		cond_resched();
	}
}

static void pins_flush(const struct mm_struct *mm, unsigned long pages)
{
	int cpu;

	for_each_possible_cpu(cpu)
		pins_free_list(per_cpu_ptr(&dead_pins, cpu), mm, pages);
	pins_free_list(&dead_rest, mm, pages);
}

static void pins_flush_all(void)
{
	pins_flush(NULL, ULONG_MAX);
}

static void pins_flush_work(struct work_struct *work)
{
	pins_flush_all();
}

void ibr_pins_flush(void)
{
	/* It does no harm to be moved to another CPU: the list belongs to nobody. */
	pins_free_list(raw_cpu_ptr(&dead_pins), NULL, FLUSH_PAGES);
}

/* ---- the cache: under space->lock ------------------------------------------------------------ */

static struct rb_root_cached *pins_tree(const struct ibr_pins *pins)
{
	return pins->fresh ? &pins->space->found : &pins->space->hidden;
}

static void pins_show(struct ibr_pins *pins, bool show)
{
	interval_tree_remove(&pins->range, pins_tree(pins));
	WRITE_ONCE(pins->fresh, show);
	interval_tree_insert(&pins->range, pins_tree(pins));
}

static void pins_unidle(struct ibr_pins *pins)
{
	list_del_init(&pins->idle);
	pins->space->idle_pages -= pins->nr_pages;
}

/* Nobody uses it, and nobody is to find it. */
static void pins_forget(struct ibr_pins *pins)
{
	interval_tree_remove(&pins->range, pins_tree(pins));
	pins->idle_since = jiffies;
	list_add_tail(&pins->idle, &pins->space->dead);
	pins_defer(pins, raw_cpu_ptr(&dead_pins));
}

/* Let what was idle longest go until no more than so many pages are left. Return: it has not done all of it. */
static bool space_shrink(struct ibr_space *space, unsigned long pages)
{
	struct ibr_pins *pins;
	u32 count = 0;

	while (space->idle_pages > pages) {
		if (count++ == WALK_MAX)
			return true;
		pins = list_first_entry(&space->idle, struct ibr_pins, idle);
		pins_unidle(pins);
		pins_forget(pins);
	}
	return false;
}

/* Not one that is much larger: it would all stay pinned and charged for as long as this is used. */
static bool pins_fit(const struct ibr_pins *pins, unsigned long wanted)
{
	return pins->regions || pins->nr_pages <= 2 * wanted + IBR_PINS_INLINE;
}

static struct ibr_pins *space_find(struct ibr_space *space, unsigned long first, unsigned long last, bool write)
{
	unsigned long wanted = (last - first + 1) >> PAGE_SHIFT;
	struct interval_tree_node *node;
	u32 count = 0;

	/* Nobody would be told of changes. */
	if (!space->openers)
		return NULL;
	for (node = interval_tree_iter_first(&space->found, first, first); node;
	     node = interval_tree_iter_next(node, first, first)) {
		struct ibr_pins *pins = container_of(node, struct ibr_pins, range);

		/* That there is none is always a right answer. */
		if (count++ == WALK_MAX)
			break;

		if (node->last >= last && (pins->write || !write) && pins_fit(pins, wanted))
			return pins;
	}
	return NULL;
}

static void pins_idle(struct ibr_pins *pins)
{
	struct ibr_space *space = pins->space;

	if (space_shrink(space, space->idle_max - pins->nr_pages)) {
		pins_forget(pins);
		return;
	}
	pins->idle_since = jiffies;
	list_add_tail(&pins->idle, &space->idle);
	space->idle_pages += pins->nr_pages;
	if (!delayed_work_pending(&space->age_work) &&
	    queue_delayed_work(ibr_pins_queue, &space->age_work, msecs_to_jiffies(IDLE_MS)))
		refcount_inc(&space->refs);
}

static void pins_put(struct ibr_pins *pins, u32 users)
{
	struct ibr_space *space = pins->space;

	pins->users -= users;
	if (pins->users)
		return;
	if (pins->fresh && !pins->passing && space->openers && pins->nr_pages <= space->idle_max)
		pins_idle(pins);
	else
		pins_forget(pins);
}

void ibr_pins_put(struct ibr_pins *pins)
{
	struct ibr_space *space = pins->space;

	spin_lock_bh(&space->lock);
	pins_put(pins, 1);
	spin_unlock_bh(&space->lock);
}

bool ibr_pins_gone(const struct ibr_pins *pins, unsigned long start, unsigned long length)
{
	unsigned long first = (max(start, pins->range.start) - pins->range.start) >> PAGE_SHIFT;
	unsigned long last = (min(start + length - 1, pins->range.last) - pins->range.start) >> PAGE_SHIFT;
	bool gone;

	if (start > pins->range.last || start + length <= pins->range.start)
		return false;
	spin_lock_bh(&pins->space->lock);
	gone = find_next_bit(pins->gone, last + 1, first) <= last;
	spin_unlock_bh(&pins->space->lock);
	return gone;
}

bool ibr_pins_region(struct ibr_pins *pins)
{
	struct ibr_space *space = pins->space;
	bool good;

	spin_lock_bh(&space->lock);
	good = !space->ended;
	pins->regions += good;
	spin_unlock_bh(&space->lock);
	return good;
}

void ibr_pins_put_region(struct ibr_space *space, struct ibr_pins *pins)
{
	spin_lock_bh(&space->lock);
	if (!space->ended) {
		pins->regions--;
		pins_put(pins, 1);
	}
	spin_unlock_bh(&space->lock);
}

bool ibr_pins_share(struct ibr_space *space, struct ibr_pins *pins)
{
	bool good;

	spin_lock_bh(&space->lock);
	good = !space->ended;
	if (good)
		pins->users++;
	spin_unlock_bh(&space->lock);
	return good;
}

/* ---- what the kernel tells: nothing here may wait, or allocate ------------------------------- */

static struct ibr_space *space_of(struct mmu_notifier *notifier)
{
	return container_of(notifier, struct ibr_space, notifier);
}

/**
 * struct ibr_unmap - memory that the kernel is unmapping, while its ranges are told
 * @link: in space->unmaps
 * @first: where it begins
 * @last: its last byte
 */
struct ibr_unmap {
	struct list_head link;
	unsigned long first;
	unsigned long last;
};

static void pins_mark(struct ibr_pins *pins, const struct ibr_unmap *unmap)
{
	unsigned long first = max(unmap->first, pins->range.start), last = min(unmap->last, pins->range.last);

	if (first > last)
		return;
	first = (first - pins->range.start) >> PAGE_SHIFT;
	last = (last - pins->range.start) >> PAGE_SHIFT;
	bitmap_set(pins->gone, first, last - first + 1);
}

static void pins_change(struct ibr_pins *pins)
{
	const struct ibr_unmap *unmap;

	pins->changed = true;
	if (!pins->users) {
		pins_unidle(pins);
		pins_forget(pins);
		return;
	}
	/*
	 * Some others may have come past the place where it is going to be hidden. To be told twice does no harm: what
	 * is unmapped remains so.
	 */
	list_for_each_entry(unmap, &pins->space->unmaps, link)
		pins_mark(pins, unmap);
	if (pins->fresh)
		pins_show(pins, false);
}

static void space_tell(struct ibr_space *space, unsigned long first, unsigned long last)
{
	struct interval_tree_node *node, *next;
	u32 count = 0;

	/*
	 * First those that were hidden before. Whoever begins to pin something while the lock is let go sees that
	 * this is under way; what is shown then, because it was not told yet, is told below.
	 */
	for (node = interval_tree_iter_first(&space->hidden, first, last); node; node = next) {
		struct ibr_pins *pins = container_of(node, struct ibr_pins, range);
		u32 regions = space->ended ? pins->regions : 0;
		bool pause = ++count % WALK_MAX == 0;

		pins_change(pins);
		/* One of a process that has ended is of no more use to its region. */
		pins->regions -= regions;
		pins->users += pause;
		if (pause) {
			spin_unlock_bh(&space->lock);
			spin_lock_bh(&space->lock);
		}
		next = interval_tree_iter_next(node, first, last);
		if (regions || pause)
			pins_put(pins, regions + pause);
	}
	while ((node = interval_tree_iter_first(&space->found, first, last))) {
		pins_change(container_of(node, struct ibr_pins, range));
		if (++count % WALK_MAX == 0) {
			spin_unlock_bh(&space->lock);
			spin_lock_bh(&space->lock);
		}
	}
}

static void space_tell_unmapped(struct ibr_space *space, unsigned long first, unsigned long last)
{
	struct ibr_unmap unmap = { .first = first, .last = last };

	list_add_tail(&unmap.link, &space->unmaps);
	space_tell(space, first, last);
	list_del(&unmap.link);
}

/*
 * mprotect() leaves the memory where it is. So does the kernel when it wants to know which node uses it, which it does
 * every few seconds on a machine that has several: it takes all access away for a moment, and announces the same.
 */
static bool only_permissions(const struct mmu_notifier_range *range)
{
	return range->event == MMU_NOTIFY_PROTECTION_VMA;
}

static int space_invalidate_start(struct mmu_notifier *notifier, const struct mmu_notifier_range *range)
{
	struct ibr_space *space = space_of(notifier);

	spin_lock_bh(&space->lock);
	if (only_permissions(range)) {
		space->permissions++;
	} else {
		space->invalidating++;
		if (range->event == MMU_NOTIFY_UNMAP)
			space_tell_unmapped(space, range->start, range->end - 1);
		else
			space_tell(space, range->start, range->end - 1);
	}
	spin_unlock_bh(&space->lock);
	return 0;
}

static void space_invalidate_end(struct mmu_notifier *notifier, const struct mmu_notifier_range *range)
{
	struct ibr_space *space = space_of(notifier);

	if (only_permissions(range))
		return;
	spin_lock_bh(&space->lock);
	space->invalidating--;
	spin_unlock_bh(&space->lock);
}

/* The process ends, or becomes another program. What is still sent or received has its pages. */
static void space_end(struct mmu_notifier *notifier, struct mm_struct *mm)
{
	struct ibr_space *space = space_of(notifier);

	spin_lock_bh(&space->lock);
	space->invalidating++;	/* for ever */
	space_tell(space, 0, ULONG_MAX);
	/* Now all are hidden; once more, for the regions, which nothing finds any more. */
	space->ended = true;
	space_tell(space, 0, ULONG_MAX);
	spin_unlock_bh(&space->lock);
}

/* ---- address spaces -------------------------------------------------------------------------- */

static void space_free_work(struct work_struct *work)
{
	struct ibr_space *space = container_of(work, struct ibr_space, free_work);

	mmdrop(space->mm);
	if (space->user)
		ibr_user_put(space->user);
	kfree(space);
}

static void space_age_work(struct work_struct *work)
{
	struct ibr_space *space = container_of(to_delayed_work(work), struct ibr_space, age_work);
	unsigned long old = jiffies - msecs_to_jiffies(IDLE_MS);
	struct ibr_pins *pins;
	bool again = false;
	u32 count = 0;

	spin_lock_bh(&space->lock);
	while (!list_empty(&space->idle)) {
		pins = list_first_entry(&space->idle, struct ibr_pins, idle);
		if (time_after(pins->idle_since, old) || count++ == WALK_MAX) {
			again = queue_delayed_work(ibr_pins_queue, &space->age_work,
						   count > WALK_MAX ? 0 : pins->idle_since - old);
			break;
		}
		pins_unidle(pins);
		pins_forget(pins);
	}
	spin_unlock_bh(&space->lock);
	ibr_pins_flush();
	if (!again)
		ibr_space_put(space);
}

void ibr_space_get(struct ibr_space *space)
{
	refcount_inc(&space->refs);
}

void ibr_space_put(struct ibr_space *space)
{
	if (refcount_dec_and_test(&space->refs))
		queue_work(ibr_pins_queue, &space->free_work);
}

static struct ibr_space *space_alloc(struct mm_struct *mm)
{
	struct ibr_space *space = kzalloc(sizeof(*space), GFP_KERNEL_ACCOUNT);

	if (!space)
		return NULL;
	mmgrab(mm);
	space->mm = mm;
	refcount_set(&space->refs, 1);
	INIT_WORK(&space->free_work, space_free_work);
	spin_lock_init(&space->lock);
	space->found = RB_ROOT_CACHED;
	space->hidden = RB_ROOT_CACHED;
	INIT_LIST_HEAD(&space->idle);
	INIT_LIST_HEAD(&space->dead);
	init_waitqueue_head(&space->unpinned);
	INIT_LIST_HEAD(&space->unmaps);
	INIT_DELAYED_WORK(&space->age_work, space_age_work);
	return space;
}

static struct mmu_notifier *space_alloc_notifier(struct mm_struct *mm)
{
	struct ibr_space *space = space_alloc(mm);

	if (!space)
		return ERR_PTR(-ENOMEM);
	space->watched = true;
	return &space->notifier;
}

static void space_free_notifier(struct mmu_notifier *notifier)
{
	ibr_space_put(space_of(notifier));
}

static const struct mmu_notifier_ops space_ops = {
	.release = space_end,
	.invalidate_range_start = space_invalidate_start,
	.invalidate_range_end = space_invalidate_end,
	.alloc_notifier = space_alloc_notifier,
	.free_notifier = space_free_notifier,
};

unsigned long ibr_pins_limit(void)
{
	/* It is no offence to lack this one. */
	if (ns_capable_noaudit(&init_user_ns, CAP_IPC_LOCK))
		return ULONG_MAX;
	return rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT;
}

struct ibr_space *ibr_space_open(void)
{
	unsigned long cache = (unsigned long)READ_ONCE(pin_cache_mib) << (20 - PAGE_SHIFT);
	struct ibr_user *user = ibr_user_get_current();
	struct mmu_notifier *notifier;
	struct ibr_space *space;

	if (!user)
		return ERR_PTR(-ENOMEM);
	notifier = mmu_notifier_get(&space_ops, current->mm);
	if (IS_ERR(notifier)) {
		ibr_user_put(user);
		/* It gives up for any signal, of which programs that use timers have many. */
		return notifier == ERR_PTR(-EINTR) ? ERR_PTR(-ERESTARTNOINTR) : ERR_CAST(notifier);
	}
	space = space_of(notifier);
	/* It stays that of the first one who opens it. (Where it is allocated, mmap_lock is held.) */
	if (cmpxchg(&space->user, NULL, user))
		ibr_user_put(user);
	spin_lock_bh(&space->lock);
	space->openers++;
	space->idle_max = min(cache, ibr_pins_limit() / CACHE_SHARE);
	spin_unlock_bh(&space->lock);
	return space;
}

void ibr_space_info(struct ibr_space *space, struct ibrelk_endpoint_info *info)
{
	spin_lock_bh(&space->lock);
	info->pin_hits = space->hits;
	info->pin_misses = space->misses;
	info->pinned_idle_bytes = (u64)space->idle_pages << PAGE_SHIFT;
	spin_unlock_bh(&space->lock);
}

/* Let go of what is idle beyond so many pages. Context: process */
static void space_trim(struct ibr_space *space, unsigned long pages)
{
	bool more;

	do {
		spin_lock_bh(&space->lock);
		more = space_shrink(space, pages);
		spin_unlock_bh(&space->lock);
		cond_resched();
	} while (more);
}

void ibr_space_close(struct ibr_space *space)
{
	const struct mm_struct *mm = space->mm;
	bool last, cancelled;

	spin_lock_bh(&space->lock);
	last = --space->openers == 0;
	spin_unlock_bh(&space->lock);
	if (last) {
		/* Nothing becomes idle any more, unless somebody else opens it now. */
		space_trim(space, 0);
		spin_lock_bh(&space->lock);
		cancelled = !space->openers && cancel_delayed_work(&space->age_work);
		spin_unlock_bh(&space->lock);
		if (cancelled)
			ibr_space_put(space);
	}
	mmu_notifier_put(&space->notifier);
	pins_flush(mm, FLUSH_PAGES);
}

struct ibr_space *ibr_space_current(struct ibr_space *space)
{
	struct ibr_space *other;

	if (likely(space->mm == current->mm)) {
		refcount_inc(&space->refs);
		return space;
	}
	other = space_alloc(current->mm);
	if (other) {
		refcount_inc(&space->user->refs);
		other->user = space->user;
	}
	return other;
}

/* ---- pinning: current->mm is the owner's address space --------------------------------------- */

static bool pins_try_charge(struct ibr_space *space, unsigned long nr_pages, unsigned long limit)
{
	s64 charged = atomic64_read(&space->mm->pinned_vm);
	bool own = limit == IBR_LIMIT_OWN;

	if (own)
		limit = rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT;
	/* What is refused is not charged for a moment either: others may find room for less. */
	do {
		if ((u64)charged + nr_pages > limit && !(own && ibr_pins_limit() == ULONG_MAX))
			return false;
	} while (!atomic64_try_cmpxchg(&space->mm->pinned_vm, &charged, charged + nr_pages));
	return true;
}

/* Is all unpinned that was dead @then? */
static bool space_unpinned(struct ibr_space *space, unsigned long then)
{
	const struct ibr_pins *oldest;
	bool unpinned;

	spin_lock_bh(&space->lock);
	oldest = list_first_entry_or_null(&space->dead, struct ibr_pins, idle);
	unpinned = !oldest || time_after(oldest->idle_since, then);
	spin_unlock_bh(&space->lock);
	return unpinned;
}

static bool pins_charge(struct ibr_space *space, unsigned long nr_pages, unsigned long limit)
{
	unsigned long idle, then;
	bool charged;

	if (pins_try_charge(space, nr_pages, limit))
		return true;
	/* What is in the way may be idle, or dead already. */
	idle = READ_ONCE(space->idle_pages);
	space_trim(space, idle > nr_pages ? idle - nr_pages : 0);
	pins_flush(space->mm, 0);
	if (pins_try_charge(space, nr_pages, limit))
		return true;
	space_trim(space, 0);
	pins_flush(space->mm, 0);
	/*
	 * What somebody is just unpinning is in no list, and still charged. Neither he nor the worker that has the rest
	 * (of ibr_pins_queue) waits for who waits here. What dies from now on, which may never end, is not waited for.
	 */
	then = jiffies;
	wait_event_killable(space->unpinned,
			    (charged = pins_try_charge(space, nr_pages, limit)) || space_unpinned(space, then));
	return charged || pins_try_charge(space, nr_pages, limit);
}

static bool pages_of_hugetlb(struct page **pages, unsigned long nr_pages)
{
	while (nr_pages--)
		if (folio_test_hugetlb(page_folio(*pages++)))
			return true;
	return false;
}

/*
 * Of a file whose pages are written back: its file system wants to be told before each time that a page is written,
 * which adapters do not do. Kernels from 6.5 on refuse to pin these for writing. Pages that belong to no mapping are
 * a driver's, or no longer of the file.
 */
static bool pages_written_back(struct page **pages, unsigned long nr_pages)
{
	while (nr_pages--) {
		struct folio *folio = page_folio(*pages++);

		if (!folio_test_anon(folio) && !folio_test_swapbacked(folio) && !folio_test_hugetlb(folio) &&
		    READ_ONCE(folio->mapping))
			return true;
	}
	return false;
}

/*
 * While the kernel is about to change something, of which this range was not told: what is being unmapped is nowhere to
 * be found once we have mmap_lock, but page tables may still show it.
 */
static long pins_pin_locked(struct ibr_pins *pins, unsigned long start, unsigned long max, unsigned int flags,
			    struct page **pages)
{
	struct mm_struct *mm = pins->space->mm;
	long ret;

	if (mmap_read_lock_killable(mm))
		return -EINTR;
	ret = pin_user_pages(start, max, flags, pages);
	mmap_read_unlock(mm);
	return ret;
}

/* Return: 0, and all of @max are pinned; or the error that ended it, and none is */
static int pins_pin_some(struct ibr_pins *pins, unsigned long first, unsigned long max, bool settled)
{
	unsigned int flags = FOLL_LONGTERM | (pins->write ? FOLL_WRITE : 0);
	unsigned long start = pins->range.start + (first << PAGE_SHIFT);
	struct page **pages = pins->pages + first;
	long ret;

	if (likely(settled))
		ret = pin_user_pages_fast(start, max, flags, pages);
	else
		ret = pins_pin_locked(pins, start, max, flags, pages);
	if (likely(ret == (long)max)) {
		if (!pins->write || likely(!pages_written_back(pages, max)))
			return 0;
		unpin_user_pages(pages, ret);
		return -EFAULT;
	}
	if (ret > 0)
		unpin_user_pages(pages, ret);
	return ret < 0 ? ret : -EFAULT;
}

static int pins_pin(struct ibr_pins *pins, bool settled)
{
	unsigned long done, part;
	int ret;

	for (done = 0; done < pins->nr_pages; done += part) {
		part = min_t(unsigned long, pins->nr_pages - done, PIN_PAGES);
		ret = fatal_signal_pending(current) ? -EINTR : pins_pin_some(pins, done, part, settled);
		if (ret) {
			pins_unpin(pins, done, false);
			return ret;
		}
		pins->passing |= pages_of_hugetlb(pins->pages + done, part);
		cond_resched();
	}
	return 0;
}

static struct ibr_pins *pins_create(struct ibr_space *space, unsigned long first, unsigned long last, bool write)
{
	struct ibr_pins *pins = kmem_cache_alloc(pins_cache, GFP_KERNEL_ACCOUNT);
	unsigned long words;

	if (!pins)
		return NULL;
	memset(pins, 0, offsetof(struct ibr_pins, inline_pages));
	pins->range.start = first;
	pins->range.last = last;
	pins->nr_pages = (last - first + 1) >> PAGE_SHIFT;
	pins->write = write;
	pins->users = 1;
	INIT_LIST_HEAD(&pins->idle);
	pins->pages = pins->inline_pages;
	pins->gone = &pins->inline_gone;
	if (pins->nr_pages > IBR_PINS_INLINE) {
		words = BITS_TO_LONGS(pins->nr_pages);
		pins->pages = kvmalloc_array(pins->nr_pages + words, sizeof(*pins->pages), GFP_KERNEL_ACCOUNT);
		if (!pins->pages) {
			kmem_cache_free(pins_cache, pins);
			return NULL;
		}
		pins->gone = (unsigned long *)(pins->pages + pins->nr_pages);
		bitmap_zero(pins->gone, pins->nr_pages);
	}
	refcount_inc(&space->refs);
	pins->space = space;
	return pins;
}

/*
 * May the process still do what the range is pinned for, and does nobody want to be told of it (userfaultfd)?
 * @permissions: space->permissions before. Whoever changes them has mmap_lock for writing when that is announced, so
 * what is not seen here has not been counted.
 */
static bool pins_permitted(struct ibr_pins *pins, u64 permissions)
{
	unsigned long needed = pins->write ? VM_WRITE : VM_READ;
	unsigned long at = pins->range.start;
	struct ibr_space *space = pins->space;
	struct vm_area_struct *vma;

	if (mmap_read_lock_killable(space->mm))
		return false;
	do {
		vma = find_vma(space->mm, at);
		if (!vma || vma->vm_start > at || !(vma->vm_flags & needed) || vma->vm_flags & VM_UFFD_WP)
			break;
		at = vma->vm_end;
	} while (at <= pins->range.last);
	mmap_read_unlock(space->mm);
	if (at <= pins->range.last)
		return false;
	spin_lock_bh(&space->lock);
	pins->permitted = permissions;
	spin_unlock_bh(&space->lock);
	return true;
}

/* A range that is pinned already, or NULL. */
static struct ibr_pins *pins_find(struct ibr_space *space, unsigned long first, unsigned long last, bool write)
{
	struct ibr_pins *pins;
	u64 permissions;
	bool good;

	spin_lock_bh(&space->lock);
	permissions = space->permissions;
	pins = space_find(space, first, last, write);
	if (pins && pins->users++ == 0)
		pins_unidle(pins);
	good = pins && pins->permitted == permissions;
	space->hits += good;
	space->misses += !pins;
	spin_unlock_bh(&space->lock);
	if (likely(!pins || good))
		return pins;

	good = pins_permitted(pins, permissions);
	spin_lock_bh(&space->lock);
	space->hits += good;
	space->misses += !good;
	if (!good && pins->users == 1) {
		/* It would be found, and refused, again, and another one is about to be pinned. */
		pins->users = 0;
		pins_forget(pins);
	} else if (!good) {
		pins_put(pins, 1);
	}
	spin_unlock_bh(&space->lock);
	return good ? pins : NULL;
}

/*
 * Nobody else can have found it; but who tells all ranges of a change may be at this one, and goes on from here when he
 * has the lock again. Context: space->lock held; it is let go meanwhile.
 */
static void pins_fail(struct ibr_pins *pins)
{
	struct ibr_space *space = pins->space;

	while (pins->users > 1) {
		spin_unlock_bh(&space->lock);
		usleep_range(10, 50);
		spin_lock_bh(&space->lock);
	}
	interval_tree_remove(&pins->range, &space->hidden);
}

struct ibr_pins *ibr_pins_get(struct ibr_space *space, unsigned long start, unsigned long length, bool write,
			      unsigned long limit)
{
	unsigned long first = start & PAGE_MASK, last = PAGE_ALIGN(start + length) - 1;
	struct ibr_pins *pins;
	bool settled, share;
	int ret;

	pins = pins_find(space, first, last, write);
	if (pins)
		return pins;
	pins = pins_create(space, first, last, write);
	if (!pins)
		return ERR_PTR(-ENOMEM);
	ret = -EPERM;
	if (!pins_charge(space, pins->nr_pages, limit))
		goto destroy;

	spin_lock_bh(&space->lock);
	settled = !space->invalidating;
	share = settled && space->watched && space->openers;
	/* A change may have been announced that page tables do not show yet: who finds it first looks. */
	pins->permitted = space->permissions - 1;
	interval_tree_insert(&pins->range, &space->hidden);
	spin_unlock_bh(&space->lock);

	ret = pins_pin(pins, settled);

	spin_lock_bh(&space->lock);
	if (unlikely(ret))
		pins_fail(pins);
	else if (share && !pins->changed)
		pins_show(pins, true);
	spin_unlock_bh(&space->lock);
	if (likely(!ret))
		return pins;

	atomic64_sub(pins->nr_pages, &space->mm->pinned_vm);
destroy:
	pins_destroy(pins);
	return ERR_PTR(ret);
}

/* ---- life of the module ---------------------------------------------------------------------- */

int ibr_pins_init(void)
{
	int cpu;

	for_each_possible_cpu(cpu)
		init_llist_head(per_cpu_ptr(&dead_pins, cpu));

	pins_cache = KMEM_CACHE(ibr_pins, 0);
	if (!pins_cache)
		return -ENOMEM;
	ibr_pins_queue = alloc_workqueue("ibrelk_pins", WQ_UNBOUND, 0);
	if (!ibr_pins_queue)
		goto err_cache;
	return 0;

err_cache:
	kmem_cache_destroy(pins_cache);
	return -ENOMEM;
}

void ibr_pins_exit(void)
{
	cancel_delayed_work_sync(&dead_work);
	pins_flush_all();
	/* The last reference to a space is its range's or its notifier's. */
	mmu_notifier_synchronize();
	destroy_workqueue(ibr_pins_queue);
	kmem_cache_destroy(pins_cache);
}
