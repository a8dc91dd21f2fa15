// SPDX-License-Identifier: GPL-2.0-only
/*
 * Pinned ranges, and the cache of those that nobody uses at the moment. There is one for each address space that has
 * an endpoint open, with one MMU notifier, which only marks and unlinks: unpinning, which may sleep, is put off to
 * the next system call, or to a worker if there is none.
 *
 * How a range can be used by the next transfer, though nobody told us that its memory is the same: before the page
 * tables change, the kernel calls invalidate_range_start(), which finds the range in the tree and marks it as not
 * fresh. A range that is being pinned meanwhile is not in the tree yet; so changes are counted, and one that began, or
 * was under way, since before the pages were looked up makes it not fresh from the start (as in
 * mmu_interval_read_retry()).
 */
#include <linux/atomic.h>
#include <linux/capability.h>
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <ibrelk/uapi.h>

#include "pins.h"

#define FLUSH_DELAY_MS		10	/* what is to be unpinned stays so no longer than this */
#define CACHE_SHARE		2	/* the cache takes no more than this part of what a process may pin */

static unsigned int pin_cache_mib = 64;
module_param(pin_cache_mib, uint, 0644);
MODULE_PARM_DESC(pin_cache_mib, "memory that stays pinned for later transfers, each process, in MiB; 0: none (default: 64)");

struct workqueue_struct *ibr_memory_queue;
static struct kmem_cache *pins_cache;

/*
 * Ranges to be unpinned. Those in @slow_pins have a work of their own, and nothing else frees them:
 * nobody is to wait for a file system that he has nothing to do with.
 */
static DEFINE_PER_CPU(struct llist_head, dead_pins);
static LLIST_HEAD(slow_pins);

static void pins_flush_work(struct work_struct *work);
static DECLARE_DELAYED_WORK(dead_work, pins_flush_work);
static void pins_slow_work(struct work_struct *work);
static DECLARE_DELAYED_WORK(slow_work, pins_slow_work);

/* ---- letting go ------------------------------------------------------------------------------ */

/* Context: process, may sleep. */
static void pins_free(struct ibr_pins *pins)
{
	unpin_user_pages_dirty_lock(pins->pages, pins->nr_pages, pins->write);
	atomic64_sub(pins->nr_pages, &pins->space->mm->pinned_vm);
	if (pins->pages != pins->inline_pages)
		kvfree(pins->pages);
	ibr_space_put(pins->space);
	kmem_cache_free(pins_cache, pins);
}

static void pins_free_list(struct llist_head *list)
{
	struct llist_node *dead;
	struct ibr_pins *pins, *next;

	if (llist_empty(list))
		return;
	dead = llist_del_all(list);
	llist_for_each_entry_safe(pins, next, dead, dead) {
		pins_free(pins);
		cond_resched();
	}
}

/*
 * Have a range unpinned later. Who finds the list empty sees to it that the work runs: it either is
 * pending, and then empties the list after this, or is queued. llist_add() orders the two looks.
 */
static void pins_defer(struct ibr_pins *pins)
{
	struct llist_head *list = raw_cpu_ptr(&dead_pins);
	struct delayed_work *work = &dead_work;

	if (pins->slow) {
		list = &slow_pins;
		work = &slow_work;
	}
	if (llist_add(&pins->dead, list) && !delayed_work_pending(work))
		queue_delayed_work(ibr_memory_queue, work, msecs_to_jiffies(FLUSH_DELAY_MS));
}

static void pins_flush_all(void)
{
	int cpu;

	for_each_possible_cpu(cpu)
		pins_free_list(per_cpu_ptr(&dead_pins, cpu));
}

static void pins_flush_work(struct work_struct *work)
{
	pins_flush_all();
}

static void pins_slow_work(struct work_struct *work)
{
	pins_free_list(&slow_pins);
}

void ibr_pins_flush(void)
{
	/* It does no harm to be moved to another CPU: the list belongs to nobody. */
	pins_free_list(raw_cpu_ptr(&dead_pins));
}

/* ---- the cache: under space->lock ------------------------------------------------------------ */

static void pins_unidle(struct ibr_pins *pins)
{
	list_del_init(&pins->idle);
	pins->space->idle_pages -= pins->nr_pages;
}

/* Nobody uses it, and nobody is to find it. */
static void pins_forget(struct ibr_pins *pins)
{
	interval_tree_remove(&pins->range, &pins->space->tree);
	pins_defer(pins);
}

/* Let what was idle longest go until no more than so many pages are left. */
static void space_shrink(struct ibr_space *space, unsigned long pages)
{
	struct ibr_pins *pins;

	while (space->idle_pages > pages) {
		pins = list_first_entry(&space->idle, struct ibr_pins, idle);
		pins_unidle(pins);
		pins_forget(pins);
	}
}

static struct ibr_pins *space_find(struct ibr_space *space, unsigned long first, unsigned long last, bool write)
{
	struct interval_tree_node *node;

	for (node = interval_tree_iter_first(&space->tree, first, first); node;
	     node = interval_tree_iter_next(node, first, first)) {
		struct ibr_pins *pins = container_of(node, struct ibr_pins, range);

		if (node->last >= last && pins->fresh && (pins->write || !write))
			return pins;
	}
	return NULL;
}

void ibr_pins_put(struct ibr_pins *pins)
{
	struct ibr_space *space = pins->space;

	spin_lock_bh(&space->lock);
	if (--pins->users == 0) {
		if (pins->fresh && space->openers && pins->nr_pages <= space->idle_max) {
			list_add_tail(&pins->idle, &space->idle);
			space->idle_pages += pins->nr_pages;
			space_shrink(space, space->idle_max);
		} else {
			pins_forget(pins);
		}
	}
	spin_unlock_bh(&space->lock);
}

bool ibr_pins_gone(const struct ibr_pins *pins, unsigned long start, unsigned long length)
{
	bool gone;

	spin_lock_bh(&pins->space->lock);
	gone = pins->gone_first < start + length && pins->gone_last >= start;
	spin_unlock_bh(&pins->space->lock);
	return gone;
}

/* ---- what the kernel tells: nothing here may wait, or allocate ------------------------------- */

static struct ibr_space *space_of(struct mmu_notifier *notifier)
{
	return container_of(notifier, struct ibr_space, notifier);
}

static void space_invalidate(struct ibr_space *space, unsigned long first, unsigned long last, bool unmapped)
{
	struct interval_tree_node *node, *next;

	for (node = interval_tree_iter_first(&space->tree, first, last); node; node = next) {
		struct ibr_pins *pins = container_of(node, struct ibr_pins, range);

		next = interval_tree_iter_next(node, first, last);
		WRITE_ONCE(pins->fresh, false);
		if (!pins->users) {
			pins_unidle(pins);
			pins_forget(pins);
		} else if (unmapped) {
			pins->gone_first = min(pins->gone_first, max(first, node->start));
			pins->gone_last = max(pins->gone_last, min(last, node->last));
		}
	}
}

static int space_invalidate_start(struct mmu_notifier *notifier, const struct mmu_notifier_range *range)
{
	struct ibr_space *space = space_of(notifier);

	spin_lock_bh(&space->lock);
	space->seq++;
	space->invalidating++;
	space_invalidate(space, range->start, range->end - 1, range->event == MMU_NOTIFY_UNMAP);
	spin_unlock_bh(&space->lock);
	return 0;
}

static void space_invalidate_end(struct mmu_notifier *notifier, const struct mmu_notifier_range *range)
{
	struct ibr_space *space = space_of(notifier);

	spin_lock_bh(&space->lock);
	space->invalidating--;
	spin_unlock_bh(&space->lock);
}

/* The process ends, or becomes another program. What is still sent or received has its pages. */
static void space_end(struct mmu_notifier *notifier, struct mm_struct *mm)
{
	struct ibr_space *space = space_of(notifier);

	spin_lock_bh(&space->lock);
	space->seq++;
	space->invalidating++;	/* for ever */
	space_invalidate(space, 0, ULONG_MAX, false);
	spin_unlock_bh(&space->lock);
}

/* ---- address spaces -------------------------------------------------------------------------- */

static void space_free_work(struct work_struct *work)
{
	struct ibr_space *space = container_of(work, struct ibr_space, free_work);

	mmdrop(space->mm);
	kfree(space);
}

void ibr_space_put(struct ibr_space *space)
{
	if (refcount_dec_and_test(&space->refs))
		queue_work(ibr_memory_queue, &space->free_work);
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
	space->tree = RB_ROOT_CACHED;
	INIT_LIST_HEAD(&space->idle);
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
	struct mmu_notifier *notifier;
	struct ibr_space *space;

	notifier = mmu_notifier_get(&space_ops, current->mm);
	if (IS_ERR(notifier))
		return ERR_CAST(notifier);
	space = space_of(notifier);
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

void ibr_space_close(struct ibr_space *space)
{
	spin_lock_bh(&space->lock);
	if (--space->openers == 0)
		space_shrink(space, 0);
	spin_unlock_bh(&space->lock);
	mmu_notifier_put(&space->notifier);
}

struct ibr_space *ibr_space_current(struct ibr_space *space)
{
	if (unlikely(space->mm != current->mm))
		return space_alloc(current->mm);
	refcount_inc(&space->refs);
	return space;
}

/* ---- pinning: current->mm is the owner's address space --------------------------------------- */

static bool pins_try_charge(struct ibr_space *space, unsigned long nr_pages, unsigned long limit)
{
	bool own = limit == IBR_LIMIT_OWN;

	if (own)
		limit = rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT;
	if ((u64)atomic64_add_return(nr_pages, &space->mm->pinned_vm) <= limit)
		return true;
	if (own && ibr_pins_limit() == ULONG_MAX)
		return true;
	atomic64_sub(nr_pages, &space->mm->pinned_vm);
	return false;
}

static bool pins_charge(struct ibr_space *space, unsigned long nr_pages, unsigned long limit)
{
	if (pins_try_charge(space, nr_pages, limit))
		return true;
	/* What is in the way may be idle, or dead already. */
	spin_lock_bh(&space->lock);
	space_shrink(space, 0);
	spin_unlock_bh(&space->lock);
	pins_flush_all();
	return pins_try_charge(space, nr_pages, limit);
}

static bool pages_of_file(struct page **pages, unsigned long nr_pages)
{
	while (nr_pages--)
		if (!folio_test_anon(page_folio(*pages++)))
			return true;
	return false;
}

static int pins_pin(struct ibr_pins *pins)
{
	unsigned int flags = FOLL_LONGTERM | (pins->write ? FOLL_WRITE : 0);
	int ret;

	ret = pin_user_pages_fast(pins->range.start, pins->nr_pages, flags, pins->pages);
	if (likely(ret == (long)pins->nr_pages))
		return 0;
	if (ret > 0)
		unpin_user_pages(pins->pages, ret);
	return ret < 0 ? ret : -EFAULT;
}

static struct ibr_pins *pins_create(struct ibr_space *space, unsigned long first, unsigned long last, bool write,
				    unsigned long limit)
{
	struct ibr_pins *pins = kmem_cache_alloc(pins_cache, GFP_KERNEL_ACCOUNT);
	int ret = -ENOMEM;

	if (!pins)
		return ERR_PTR(-ENOMEM);
	pins->range.start = first;
	pins->range.last = last;
	pins->nr_pages = (last - first + 1) >> PAGE_SHIFT;
	pins->write = write;
	pins->users = 1;
	pins->gone_first = ULONG_MAX;
	pins->gone_last = 0;
	INIT_LIST_HEAD(&pins->idle);
	pins->pages = pins->inline_pages;
	if (pins->nr_pages > IBR_PINS_INLINE)
		pins->pages = kvmalloc_array(pins->nr_pages, sizeof(*pins->pages), GFP_KERNEL_ACCOUNT);
	if (!pins->pages)
		goto free;
	ret = -EPERM;
	if (!pins_charge(space, pins->nr_pages, limit))
		goto free_pages;
	ret = pins_pin(pins);
	if (unlikely(ret))
		goto uncharge;
	pins->slow = write && pages_of_file(pins->pages, pins->nr_pages);
	refcount_inc(&space->refs);
	pins->space = space;
	return pins;

uncharge:
	atomic64_sub(pins->nr_pages, &space->mm->pinned_vm);
free_pages:
	if (pins->pages != pins->inline_pages)
		kvfree(pins->pages);
free:
	kmem_cache_free(pins_cache, pins);
	return ERR_PTR(ret);
}

struct ibr_pins *ibr_pins_get(struct ibr_space *space, unsigned long start, unsigned long length, bool write,
			      unsigned long limit)
{
	unsigned long first = start & PAGE_MASK, last = PAGE_ALIGN(start + length) - 1;
	struct ibr_pins *pins;
	bool quiet;
	u64 seq;

	spin_lock_bh(&space->lock);
	pins = space_find(space, first, last, write);
	if (pins) {
		if (pins->users++ == 0)
			pins_unidle(pins);
		space->hits++;
		spin_unlock_bh(&space->lock);
		return pins;
	}
	space->misses++;
	seq = space->seq;
	quiet = space->watched && !space->invalidating;
	spin_unlock_bh(&space->lock);

	pins = pins_create(space, first, last, write, limit);
	if (IS_ERR(pins))
		return pins;

	spin_lock_bh(&space->lock);
	/* Pages of files may be written back, and want to be told of each time that they are written. */
	pins->fresh = quiet && space->seq == seq && !pins->slow;
	interval_tree_insert(&pins->range, &space->tree);
	spin_unlock_bh(&space->lock);
	return pins;
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
	ibr_memory_queue = alloc_workqueue("ibrelk_memory", WQ_UNBOUND, 0);
	if (!ibr_memory_queue) {
		kmem_cache_destroy(pins_cache);
		return -ENOMEM;
	}
	return 0;
}

void ibr_pins_exit(void)
{
	cancel_delayed_work_sync(&dead_work);
	cancel_delayed_work_sync(&slow_work);
	pins_flush_all();
	pins_free_list(&slow_pins);
	/* The last reference to a space is its range's or its notifier's. */
	mmu_notifier_synchronize();
	destroy_workqueue(ibr_memory_queue);
	kmem_cache_destroy(pins_cache);
}
