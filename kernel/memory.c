// SPDX-License-Identifier: GPL-2.0-only
/*
 * User memory, for as long as a transfer needs it. A buffer is held in windows of 2 MiB, at most
 * two at a time, so that a message of 1 GiB pins no more than a short one. Each window is either
 * pinned (FOLL_LONGTERM, charged to the process as ib_umem does) or, where that is not possible
 * (limit, kind of mapping), stood in for by a bounce buffer.
 *
 * What a window holds is a struct ibr_pins of its own and not part of the umem, because the two die
 * at different times: the umem with the completion, in softirq as a rule; the pins a little later,
 * as unpinning may sleep. Until then they wait in a list of their CPU, which the next system call
 * empties, or a delayed work if there is none.
 */
#include <linux/atomic.h>
#include <linux/bvec.h>
#include <linux/capability.h>
#include <linux/highmem.h>
#include <linux/kthread.h>
#include <linux/llist.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/pagemap.h>
#include <linux/percpu.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/workqueue.h>

#include "memory.h"
#include "params.h"

#define INLINE_PAGES		3	/* a buffer of 8 KiB, wherever it starts */
#define BOUNCE_SHARE		8	/* bounce buffers take no more than this part of memory */
#define READERS_STOP		(1 << 30)	/* the worker waits for the last reader */
#define FLUSH_DELAY_MS		10	/* an idle process keeps its pins no longer than this */

/**
 * struct ibr_stretch - the part of a window that is in one piece of the user's memory
 * @start: where it begins in the window, bytes
 * @page: its first page, in pins->pages
 * @offset: where it begins in that page, bytes
 */
struct ibr_stretch {
	u32 start;
	u32 page;
	u32 offset;
};

/**
 * struct ibr_pins - what holds one window of a user's memory
 * @dead: in the list of those that wait to be freed
 * @mm: address space, referenced (mmgrab), whose pinned_vm is charged with @nr_pages
 * @nr_pages: pages pinned; 0: none
 * @pages: these; @inline_pages or an allocation; NULL: none
 * @bounce: bounce buffer, or NULL
 * @bounce_bytes: its size
 * @filled: bytes from its start that hold data for the user
 * @limit: of an anchor: how many pages the process may pin
 * @write: pages are dirty when they are unpinned
 * @slow: some belong to a file, so that unpinning may have to wait for its file system
 * @offset: where in the first page the window begins, if @stretches is NULL
 * @stretches: of a window of several pieces: where in @pages each of them is, in order, and one more behind the
 *	last; else NULL
 * @inline_pages: room for the pages of a small buffer
 */
struct ibr_pins {
	struct llist_node dead;
	struct mm_struct *mm;
	u32 nr_pages;
	bool write;
	bool slow;
	struct page **pages;
	void *bounce;
	u32 bounce_bytes;
	u32 filled;
	unsigned long limit;
	u32 offset;
	struct ibr_stretch *stretches;
	struct page *inline_pages[INLINE_PAGES];
};

static struct kmem_cache *pins_cache;
static struct workqueue_struct *memory_queue;

/*
 * Pins to be freed. Those in @slow_pins have a work of their own, and nothing else frees them:
 * nobody is to wait for a file system that he has nothing to do with.
 */
static DEFINE_PER_CPU(struct llist_head, dead_pins);
static LLIST_HEAD(slow_pins);

static void ibr_umem_flush_work(struct work_struct *work);
static DECLARE_DELAYED_WORK(dead_work, ibr_umem_flush_work);
static void ibr_umem_slow_work(struct work_struct *work);
static DECLARE_DELAYED_WORK(slow_work, ibr_umem_slow_work);

/*
 * Bounce buffers are accounted to the memory cgroup of their process, but not everybody has one.
 * This bounds what those can take who post more receives than they may pin.
 */
static unsigned int bounce_max_mib = 256;
module_param(bounce_max_mib, uint, 0644);
MODULE_PARM_DESC(bounce_max_mib, "most memory for bounce buffers, all processes together, in MiB");
static atomic64_t bounce_bytes = ATOMIC64_INIT(0);

/* ---- failing allocations on purpose ---------------------------------------------------------- */

unsigned int ibr_fail_alloc_nth;
module_param_named(fail_alloc_nth, ibr_fail_alloc_nth, uint, 0644);
MODULE_PARM_DESC(fail_alloc_nth, "for tests: each n-th allocation in interrupt context fails");

static atomic_t alloc_asked = ATOMIC_INIT(0);
static atomic_t alloc_failed = ATOMIC_INIT(0);

static int fail_alloc_count_get(char *buffer, const struct kernel_param *param)
{
	return sysfs_emit(buffer, "%u\n", (unsigned int)atomic_read(&alloc_failed));
}

static const struct kernel_param_ops fail_alloc_count_ops = {
	.get = fail_alloc_count_get,
};
module_param_cb(fail_alloc_count, &fail_alloc_count_ops, NULL, 0444);
MODULE_PARM_DESC(fail_alloc_count, "how many allocations failed because of fail_alloc_nth");

bool ibr_alloc_fails_now(void)
{
	unsigned int nth = READ_ONCE(ibr_fail_alloc_nth);

	/* Root may have changed it between the caller's look and ours. */
	if (!nth || (unsigned int)atomic_inc_return(&alloc_asked) % nth)
		return false;
	atomic_inc(&alloc_failed);
	return true;
}

void *ibr_alloc_atomic(size_t size)
{
	if (ibr_alloc_fails())
		return NULL;
	return kmalloc(size, GFP_ATOMIC | __GFP_NOWARN);
}

/* ---- pins ------------------------------------------------------------------------------------ */

static struct ibr_pins *ibr_pins_alloc(struct mm_struct *mm, bool write)
{
	struct ibr_pins *pins = kmem_cache_alloc(pins_cache, GFP_KERNEL_ACCOUNT);

	if (!pins)
		return NULL;
	mmgrab(mm);
	pins->mm = mm;
	pins->nr_pages = 0;
	pins->write = write;
	pins->slow = false;
	pins->pages = NULL;
	pins->bounce = NULL;
	pins->bounce_bytes = 0;
	pins->filled = 0;
	pins->offset = 0;
	pins->stretches = NULL;
	return pins;
}

/* Context: process, may sleep. */
static void ibr_pins_free(struct ibr_pins *pins)
{
	if (pins->nr_pages) {
		unpin_user_pages_dirty_lock(pins->pages, pins->nr_pages, pins->write);
		atomic64_sub(pins->nr_pages, &pins->mm->pinned_vm);
	}
	if (pins->pages != pins->inline_pages)
		kvfree(pins->pages);
	kvfree(pins->stretches);
	if (pins->bounce) {
		kvfree(pins->bounce);
		atomic64_sub(pins->bounce_bytes, &bounce_bytes);
	}
	mmdrop(pins->mm);
	kmem_cache_free(pins_cache, pins);
}

static void ibr_pins_free_list(struct llist_head *list)
{
	struct llist_node *dead;
	struct ibr_pins *pins, *next;

	if (llist_empty(list))
		return;
	dead = llist_del_all(list);
	llist_for_each_entry_safe(pins, next, dead, dead) {
		ibr_pins_free(pins);
		cond_resched();
	}
}

/*
 * Have pins freed later. Who finds the list empty sees to it that the work runs: it either is
 * pending, and then empties the list after this, or is queued. llist_add() orders the two looks.
 */
static void ibr_pins_defer(struct ibr_pins *pins)
{
	struct llist_head *list = raw_cpu_ptr(&dead_pins);
	struct delayed_work *work = &dead_work;

	if (!pins)
		return;
	if (pins->slow) {
		list = &slow_pins;
		work = &slow_work;
	}
	if (llist_add(&pins->dead, list) && !delayed_work_pending(work))
		queue_delayed_work(memory_queue, work, msecs_to_jiffies(FLUSH_DELAY_MS));
}

static void ibr_umem_flush_all(void)
{
	int cpu;

	for_each_possible_cpu(cpu)
		ibr_pins_free_list(per_cpu_ptr(&dead_pins, cpu));
}

static void ibr_umem_flush_work(struct work_struct *work)
{
	ibr_umem_flush_all();
}

static void ibr_umem_slow_work(struct work_struct *work)
{
	ibr_pins_free_list(&slow_pins);
}

void ibr_umem_flush(void)
{
	/* It does no harm to be moved to another CPU: the list belongs to nobody. */
	ibr_pins_free_list(raw_cpu_ptr(&dead_pins));
}

/* ---- buffers: what is where ------------------------------------------------------------------ */

/* A place in a buffer. */
struct ibr_cursor {
	const struct ibrelk_iovec *piece;
	u32 index;
	u64 into;
};

static struct ibr_cursor ibr_buffer_cursor(const struct ibr_buffer *buffer)
{
	return (struct ibr_cursor) { .piece = buffer->pieces ?: &buffer->one };
}

static struct ibr_cursor ibr_cursor_at(const struct ibr_umem *umem, u64 offset)
{
	struct ibr_cursor cursor = ibr_buffer_cursor(&umem->buffer);

	while (offset >= cursor.piece->length && cursor.index + 1 < umem->buffer.count) {
		offset -= cursor.piece->length;
		cursor.piece++;
		cursor.index++;
	}
	cursor.into = offset;
	return cursor;
}

/* What comes next, in one piece: at most @length bytes, and not beyond the end of the buffer, at *@start. */
static u32 ibr_cursor_next(struct ibr_cursor *cursor, u32 length, unsigned long *start)
{
	if (!length)
		return 0;
	if (cursor->into == cursor->piece->length) {
		cursor->piece++;
		cursor->index++;
		cursor->into = 0;
	}
	*start = cursor->piece->addr + cursor->into;
	length = min_t(u64, length, cursor->piece->length - cursor->into);
	cursor->into += length;
	return length;
}

static bool ibr_piece_valid(const struct ibrelk_iovec *piece)
{
	return piece->addr == (unsigned long)piece->addr && piece->length == (size_t)piece->length &&
	       access_ok((const void __user *)(unsigned long)piece->addr, piece->length);
}

static int ibr_buffer_import_pieces(struct ibr_buffer *buffer, const struct ibrelk_command *command)
{
	const void __user *user = u64_to_user_ptr(command->addr);
	u32 count = command->length, i;
	int ret = -EFAULT;

	if (!count)
		return 0;
	buffer->pieces = kmalloc_array(count, sizeof(*buffer->pieces), GFP_KERNEL_ACCOUNT);
	if (!buffer->pieces)
		return -ENOMEM;
	if (copy_from_user(buffer->pieces, user, count * sizeof(*buffer->pieces)))
		goto free;
	for (i = 0; i < count; i++) {
		struct ibrelk_iovec *piece = &buffer->pieces[i];

		if (!piece->length)
			continue;
		ret = -EINVAL;
		if (piece->length > IBR_MESSAGE_MAX - buffer->length)
			goto free;
		ret = -EFAULT;
		if (!ibr_piece_valid(piece))
			goto free;
		buffer->length += piece->length;
		buffer->pieces[buffer->count++] = *piece;
	}
	return 0;

free:
	kfree(buffer->pieces);
	return ret;
}

int ibr_buffer_import(struct ibr_buffer *buffer, const struct ibrelk_command *command)
{
	memset(buffer, 0, sizeof(*buffer));
	if (command->flags & IBRELK_CMD_IOVEC)
		return ibr_buffer_import_pieces(buffer, command);
	buffer->one.addr = command->addr;
	buffer->one.length = command->length;
	buffer->length = command->length;
	buffer->count = 1;
	return !buffer->length || ibr_piece_valid(&buffer->one) ? 0 : -EFAULT;
}

void ibr_buffer_drop(struct ibr_buffer *buffer)
{
	kfree(buffer->pieces);
	buffer->pieces = NULL;
}

int ibr_buffer_read(const struct ibr_buffer *buffer, void *data)
{
	struct ibr_cursor cursor = ibr_buffer_cursor(buffer);
	u32 left = buffer->length, part;
	unsigned long start;

	while ((part = ibr_cursor_next(&cursor, left, &start))) {
		if (copy_from_user(data, (const void __user *)start, part))
			return -EFAULT;
		data += part;
		left -= part;
	}
	return 0;
}

/* ---- charging and pinning: current->mm is the owner's address space -------------------------- */

static bool ibr_umem_try_charge(struct ibr_umem *umem, u32 nr_pages)
{
	struct ibr_pins *anchor = umem->anchor;
	unsigned long limit = anchor ? anchor->limit : rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT;

	if ((u64)atomic64_add_return(nr_pages, &umem->mm->pinned_vm) <= limit)
		return true;
	/*
	 * The worker has other capabilities than the process: there the anchor's limit must do.
	 * And it is no offence to lack this one.
	 */
	if (!anchor && ns_capable_noaudit(&init_user_ns, CAP_IPC_LOCK))
		return true;
	atomic64_sub(nr_pages, &umem->mm->pinned_vm);
	return false;
}

static bool ibr_umem_charge(struct ibr_umem *umem, u32 nr_pages)
{
	if (ibr_umem_try_charge(umem, nr_pages))
		return true;
	/* What is in the way may be dead already. */
	ibr_umem_flush_all();
	return ibr_umem_try_charge(umem, nr_pages);
}

static bool ibr_pages_of_file(struct page **pages, u32 nr_pages)
{
	while (nr_pages--)
		if (!folio_test_anon(page_folio(*pages++)))
			return true;
	return false;
}

static u32 ibr_pages_of(unsigned long start, u32 length)
{
	return PAGE_ALIGN(offset_in_page(start) + length) >> PAGE_SHIFT;
}

/* Where the pieces of a window are going to be in its pages. Return: the number of pages, or -ENOMEM. */
static int ibr_pins_lay_out(struct ibr_pins *pins, const struct ibr_umem *umem, u64 offset, u32 length)
{
	struct ibr_cursor cursor = ibr_cursor_at(umem, offset);
	struct ibr_stretch *stretch;
	unsigned long start = 0;
	u32 done, part, page = 0;

	part = ibr_cursor_next(&cursor, length, &start);
	if (part == length) {
		pins->offset = offset_in_page(start);
		return ibr_pages_of(start, length);
	}
	/* There are no more stretches than pieces, from the first one on. */
	pins->stretches = kvmalloc_array(umem->buffer.count - cursor.index + 2, sizeof(*stretch), GFP_KERNEL_ACCOUNT);
	if (!pins->stretches)
		return -ENOMEM;
	stretch = pins->stretches;
	for (done = 0; part; part = ibr_cursor_next(&cursor, length - done, &start)) {
		*stretch++ = (struct ibr_stretch) { .start = done, .page = page, .offset = offset_in_page(start) };
		page += ibr_pages_of(start, part);
		done += part;
	}
	*stretch = (struct ibr_stretch) { .start = length, .page = page };
	return page;
}

static int ibr_pins_pin(struct ibr_pins *pins, const struct ibr_umem *umem, u64 offset, u32 length)
{
	unsigned int flags = FOLL_LONGTERM | (umem->write ? FOLL_WRITE : 0);
	struct ibr_cursor cursor = ibr_cursor_at(umem, offset);
	unsigned long start;
	u32 part, pinned = 0;
	int ret, wanted;

	while (length) {
		part = ibr_cursor_next(&cursor, length, &start);
		wanted = ibr_pages_of(start, part);
		ret = pin_user_pages_fast(start & PAGE_MASK, wanted, flags, pins->pages + pinned);
		if (ret > 0)
			pinned += ret;
		if (unlikely(ret != wanted)) {
			if (pinned)
				unpin_user_pages(pins->pages, pinned);
			return ret < 0 ? ret : -EFAULT;
		}
		length -= part;
	}
	return 0;
}

/* A window of the user's memory, pinned. Return: pins or ERR_PTR. */
static struct ibr_pins *ibr_umem_pin(struct ibr_umem *umem, u64 offset, u32 length)
{
	struct ibr_pins *pins;
	int nr_pages, ret;

	pins = ibr_pins_alloc(umem->mm, umem->write);
	if (!pins)
		return ERR_PTR(-ENOMEM);

	nr_pages = ibr_pins_lay_out(pins, umem, offset, length);
	ret = nr_pages;
	if (nr_pages < 0)
		goto free;
	pins->pages = pins->inline_pages;
	if (nr_pages > INLINE_PAGES) {
		pins->pages = kvmalloc_array(nr_pages, sizeof(*pins->pages), GFP_KERNEL_ACCOUNT);
		ret = -ENOMEM;
		if (!pins->pages)
			goto free;
	}

	ret = -EPERM;
	if (!ibr_umem_charge(umem, nr_pages))
		goto free;
	ret = ibr_pins_pin(pins, umem, offset, length);
	if (likely(!ret)) {
		pins->nr_pages = nr_pages;
		pins->slow = umem->write && ibr_pages_of_file(pins->pages, nr_pages);
		return pins;
	}
	atomic64_sub(nr_pages, &umem->mm->pinned_vm);
free:
	ibr_pins_free(pins);
	return ERR_PTR(ret);
}

/* ---- bounce buffers: likewise ---------------------------------------------------------------- */

static struct ibr_pins *ibr_bounce_alloc(struct ibr_umem *umem, u32 length)
{
	u64 limit = min((u64)READ_ONCE(bounce_max_mib) << 20,
			((u64)totalram_pages() << PAGE_SHIFT) / BOUNCE_SHARE);
	struct ibr_pins *pins;

	pins = ibr_pins_alloc(umem->mm, umem->write);
	if (!pins)
		return NULL;
	if ((u64)atomic64_add_return(length, &bounce_bytes) > limit)
		goto uncharge;
	pins->bounce = kvmalloc(length, GFP_KERNEL_ACCOUNT);
	if (!pins->bounce)
		goto uncharge;
	pins->bounce_bytes = length;
	return pins;

uncharge:
	atomic64_sub(length, &bounce_bytes);
	ibr_pins_free(pins);
	return NULL;
}

/* Is there memory of the right kind at all? Nothing of it may be changed by asking. */
static bool ibr_user_memory_valid(const struct ibr_umem *umem, u64 offset, u32 length)
{
	struct ibr_cursor cursor = ibr_cursor_at(umem, offset);
	unsigned long start;
	u32 part;

	for (; length; length -= part) {
		part = ibr_cursor_next(&cursor, length, &start);
		if (umem->write ? fault_in_safe_writeable((char __user *)start, part) :
				  fault_in_readable((char __user *)start, part))
			return false;
	}
	return true;
}

/* Between the user's memory and a bounce buffer. */
static int ibr_umem_copy_user(const struct ibr_umem *umem, u64 offset, void *data, u32 length, bool to_user)
{
	struct ibr_cursor cursor = ibr_cursor_at(umem, offset);
	unsigned long start;
	u32 part;

	for (; length; length -= part, data += part) {
		part = ibr_cursor_next(&cursor, length, &start);
		if (to_user ? copy_to_user((void __user *)start, data, part) :
			      copy_from_user(data, (const void __user *)start, part))
			return -EFAULT;
	}
	return 0;
}

/*
 * @spare: a bounce buffer of an earlier window, which is taken if it is there, so that a transfer
 * that has begun does not fail for want of another one.
 */
static struct ibr_pins *ibr_umem_bounce(struct ibr_umem *umem, u64 offset, u32 length,
					struct ibr_pins **spare)
{
	struct ibr_pins *pins;

	if (!ibr_user_memory_valid(umem, offset, length))
		return ERR_PTR(-EFAULT);

	pins = *spare;
	*spare = NULL;
	if (pins && pins->bounce_bytes < length) {
		ibr_pins_free(pins);
		pins = NULL;
	}
	if (!pins)
		pins = ibr_bounce_alloc(umem, length);
	if (!pins)
		return ERR_PTR(-ENOMEM);

	pins->filled = 0;
	if (umem->write) {
		/* Holes must not tell the user what was in this memory before. */
		memset(pins->bounce, 0, length);
		return pins;
	}
	if (ibr_umem_copy_user(umem, offset, pins->bounce, length, false)) {
		ibr_pins_free(pins);
		return ERR_PTR(-EFAULT);
	}
	umem->bounced += length;
	return pins;
}

/* ---- windows --------------------------------------------------------------------------------- */

static struct ibr_umem_window *ibr_umem_window(struct ibr_umem *umem, u64 index)
{
	return &umem->window[index & 1];
}

void ibr_umem_part(struct ibr_umem *part, struct ibr_umem *whole, u64 offset, u64 length)
{
	part->mm = whole->mm;
	part->buffer.one.addr = whole->buffer.one.addr + offset;
	part->buffer.one.length = length;
	part->buffer.count = 1;
	part->length = length;
	part->write = whole->write;
	part->whole = whole;
}

/* Make a window resident. @spare: see ibr_umem_bounce() */
static int ibr_umem_fill(struct ibr_umem *umem, u64 index, struct ibr_pins **spare)
{
	struct ibr_umem_window *window = ibr_umem_window(umem, index);
	u64 offset = index * IBR_UMEM_WINDOW;
	u32 length = min_t(u64, IBR_UMEM_WINDOW, umem->length - offset);
	struct ibr_pins *pins;

	pins = ibr_umem_pin(umem, offset, length);
	if (IS_ERR(pins)) {
		int error = PTR_ERR(pins);

		pins = ibr_umem_bounce(umem, offset, length, spare);
		if (IS_ERR(pins))
			return error == -ENOMEM ? -ENOMEM : PTR_ERR(pins);
	}
	window->offset = offset;
	window->pins = pins;
	/* Pairs with ibr_umem_resident() and the copies: the owner may look meanwhile. */
	smp_store_release(&window->length, length);
	return 0;
}

/*
 * Let a window go: what was bounced for the user is copied to him. @alive: the address space is
 * still there, and current->mm. @spare: where to keep a bounce buffer for another window; NULL:
 * nowhere
 */
static void ibr_umem_retire(struct ibr_umem *umem, struct ibr_umem_window *window, bool alive,
			    struct ibr_pins **spare)
{
	struct ibr_pins *pins = window->pins;

	window->length = 0;
	window->pins = NULL;
	if (!pins)
		return;
	if (umem->write && pins->filled) {
		if (alive && !ibr_umem_copy_user(umem, window->offset, pins->bounce, pins->filled, true))
			umem->bounced += pins->filled;
		else if (!umem->error)
			umem->error = -EFAULT;
	}
	if (spare && !*spare && pins->bounce)
		*spare = pins;
	else
		ibr_pins_free(pins);
}

/* Where a part begins in its whole, which is in one piece. */
static u64 ibr_part_offset(const struct ibr_umem *part)
{
	return part->buffer.one.addr - part->whole->buffer.one.addr;
}

/* What was bounced of a part is copied to the user. */
static void ibr_umem_retire_part(struct ibr_umem *part, bool alive)
{
	u64 offset = ibr_part_offset(part), end = offset + part->length;

	while (offset < end) {
		u64 index = div_u64(offset, IBR_UMEM_WINDOW);
		struct ibr_umem_window *window = ibr_umem_window(part->whole, index);
		u32 start = offset - window->offset;
		u32 length = min_t(u64, window->length - start, end - offset);

		if (window->pins->bounce) {
			if (!alive || ibr_umem_copy_user(part->whole, offset, window->pins->bounce + start, length,
							 true))
				part->error = -EFAULT;
			else
				part->bounced += length;
		}
		offset += length;
	}
}

static void ibr_umem_work(struct work_struct *work)
{
	struct ibr_umem *umem = container_of(work, struct ibr_umem, work);
	void (*released)(struct ibr_umem *umem) = umem->released;
	struct mm_struct *mm = umem->mm;
	struct ibr_pins *spare = NULL;
	struct mem_cgroup *memcg = NULL, *old = NULL;
	bool alive = mmget_not_zero(mm);
	int slot, error = 0;
	u64 index;

	atomic_sub(READERS_STOP, &umem->readers);

	/*
	 * A worker's allocations would be charged to nobody, and its user accesses go nowhere, but
	 * for this: it works for the process whose memory it is.
	 */
	if (alive) {
		kthread_use_mm(mm);
		memcg = get_mem_cgroup_from_mm(mm);
		old = set_active_memcg(memcg);
	}

	if (umem->whole)
		ibr_umem_retire_part(umem, alive);
	for (slot = 0; slot < 2; slot++) {
		struct ibr_umem_window *window = &umem->window[slot];

		if (released || !window->length)
			ibr_umem_retire(umem, window, alive, released ? NULL : &spare);
	}
	if (!released) {
		for (index = umem->want; index < umem->want + 2; index++) {
			if (index * IBR_UMEM_WINDOW >= umem->length)
				break;
			if (ibr_umem_window(umem, index)->length)
				continue;
			error = alive ? ibr_umem_fill(umem, index, &spare) : -EFAULT;
			if (error)
				break;
		}
		if (error && !umem->error)
			umem->error = error;
	}
	if (spare)
		ibr_pins_free(spare);

	if (alive) {
		set_active_memcg(old);
		mem_cgroup_put(memcg);
		kthread_unuse_mm(mm);
		mmput(mm);
	}

	if (released) {
		if (umem->anchor)
			ibr_pins_free(umem->anchor);
		ibr_buffer_drop(&umem->buffer);
		released(umem);
	} else {
		umem->ready(umem);
	}
}

/*
 * Or, if an adapter is still reading, the last reader queues it: one that was told to read something twice may not
 * have come to the second time yet.
 */
static void ibr_umem_queue_work(struct ibr_umem *umem)
{
	INIT_WORK(&umem->work, ibr_umem_work);
	if (atomic_add_return(READERS_STOP, &umem->readers) == READERS_STOP)
		queue_work(memory_queue, &umem->work);
}

int ibr_umem_init(struct ibr_umem *umem, struct ibr_buffer *buffer, bool write)
{
	struct ibr_pins *spare = NULL;
	u64 length = buffer->length;
	int error;

	umem->mm = current->mm;
	umem->buffer = *buffer;
	umem->length = length;
	umem->write = write;
	if (!length)
		return 0;

	if (length > IBR_UMEM_RESIDENT) {
		unsigned long limit = rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT;
		struct ibr_pins *anchor = ibr_pins_alloc(umem->mm, false);

		if (!anchor)
			return -ENOMEM;
		if (ns_capable_noaudit(&init_user_ns, CAP_IPC_LOCK))
			limit = ULONG_MAX;
		anchor->limit = limit;
		umem->anchor = anchor;
	}

	error = ibr_umem_fill(umem, 0, &spare);
	if (!error && length > IBR_UMEM_WINDOW)
		error = ibr_umem_fill(umem, 1, &spare);
	if (error) {
		ibr_umem_retire(umem, &umem->window[0], false, NULL);
		if (umem->anchor)
			ibr_pins_free(umem->anchor);
		umem->anchor = NULL;
		umem->buffer.pieces = NULL;
	}
	return error;
}

/* The bytes of a window that are resident. Pairs with ibr_umem_fill(). */
static u32 ibr_umem_window_length(const struct ibr_umem *umem, u64 index)
{
	const struct ibr_umem_window *window = &umem->window[index & 1];
	u32 length = smp_load_acquire(&window->length);	/* see above */

	return length && window->offset == index * IBR_UMEM_WINDOW ? length : 0;
}

u64 ibr_umem_resident(const struct ibr_umem *umem, u64 offset)
{
	u64 index = div_u64(offset, IBR_UMEM_WINDOW);
	u64 end = offset;
	int i;

	if (umem->whole)
		return umem->length - offset;
	for (i = 0; i < 2; i++, index++) {
		u32 length = ibr_umem_window_length(umem, index);

		if (!length)
			break;
		end = max(end, index * IBR_UMEM_WINDOW + length);
	}
	return end - offset;
}

void ibr_umem_advance(struct ibr_umem *umem, u64 offset)
{
	u64 index = div_u64(offset, IBR_UMEM_WINDOW);
	int slot;

	for (slot = 0; slot < 2; slot++) {
		struct ibr_umem_window *window = &umem->window[slot];
		u64 ahead = window->offset - index * IBR_UMEM_WINDOW;

		/* Neither window @index nor the next one? An earlier one wraps around. */
		if (window->length && ahead >= 2 * IBR_UMEM_WINDOW)
			WRITE_ONCE(window->length, 0);
	}
	umem->want = index;
	ibr_umem_queue_work(umem);
}

/* Is there anything in a bounce buffer that the user should get? */
static bool ibr_umem_is_bounced(const struct ibr_umem *umem)
{
	const struct ibr_umem *whole = umem->whole ?: umem;
	int slot;

	for (slot = 0; slot < 2; slot++) {
		const struct ibr_pins *pins = whole->window[slot].pins;

		if (pins && umem->write && umem->length && READ_ONCE(pins->filled))
			return true;
	}
	return false;
}

void ibr_umem_finish(struct ibr_umem *umem, bool keep_bounced,
		     void (*released)(struct ibr_umem *umem))
{
	int slot;

	if ((keep_bounced && ibr_umem_is_bounced(umem)) || unlikely(atomic_read(&umem->readers))) {
		umem->released = released;
		ibr_umem_queue_work(umem);
		return;
	}

	for (slot = 0; slot < 2; slot++) {
		umem->window[slot].length = 0;
		ibr_pins_defer(umem->window[slot].pins);
		umem->window[slot].pins = NULL;
	}
	ibr_pins_defer(umem->anchor);
	umem->anchor = NULL;
	ibr_buffer_drop(&umem->buffer);
	released(umem);
}

/* ---- for adapters ---------------------------------------------------------------------------- */

void ibr_umem_read_begin(struct ibr_umem *umem)
{
	atomic_inc(&umem->readers);
}

void ibr_umem_read_end(struct ibr_umem *umem)
{
	if (unlikely(atomic_dec_return(&umem->readers) == READERS_STOP))
		queue_work(memory_queue, &umem->work);
}

struct page **ibr_umem_pages(const struct ibr_umem *umem, u64 offset, u32 length, u32 *place)
{
	const struct ibr_umem_window *window;
	u32 resident;

	if (umem->whole) {
		offset += ibr_part_offset(umem);
		umem = umem->whole;
	}
	window = &umem->window[div_u64(offset, IBR_UMEM_WINDOW) & 1];
	resident = smp_load_acquire(&window->length);	/* see ibr_umem_fill() */
	offset -= window->offset;	/* of another window: far too large */
	if (offset >= resident || length > resident - (u32)offset || window->pins->bounce || window->pins->stretches)
		return NULL;
	*place = window->pins->offset + (u32)offset;
	return window->pins->pages;
}

int ibr_umem_segments(const struct ibr_umem *umem, u64 offset, u32 length, struct bio_vec *segment, int max)
{
	struct page **pages;
	int count = 0;
	u32 place;

	pages = ibr_umem_pages(umem, offset, length, &place);
	if (!pages)
		return 0;
	for (; length; segment++) {
		u32 part = min_t(u32, length, PAGE_SIZE - offset_in_page(place));

		if (count++ == max)
			return 0;
		segment->bv_page = pages[place >> PAGE_SHIFT];
		segment->bv_offset = offset_in_page(place);
		segment->bv_len = part;
		place += part;
		length -= part;
	}
	return count;
}

/* ---- copying --------------------------------------------------------------------------------- */

/* @place: in bytes from the start of the first page */
static __always_inline void ibr_pages_copy(struct page **pages, u32 place, void *data, u32 length, bool to_user)
{
	u32 position = offset_in_page(place);

	pages += place >> PAGE_SHIFT;
	while (length) {
		u32 part = min_t(u32, length, PAGE_SIZE - position);

		if (to_user)
			memcpy_to_page(*pages, position, data, part);
		else
			memcpy_from_page(data, *pages, position, part);
		data += part;
		length -= part;
		position = 0;
		pages++;
	}
}

static noinline void ibr_pins_copy_pieces(struct ibr_pins *pins, u32 offset, void *data, u32 length, bool to_user)
{
	const struct ibr_stretch *stretch = pins->stretches;

	while (stretch[1].start <= offset)
		stretch++;
	for (; length; stretch++) {
		u32 into = offset - stretch->start;
		u32 part = min(length, stretch[1].start - offset);

		ibr_pages_copy(pins->pages + stretch->page, stretch->offset + into, data, part, to_user);
		offset += part;
		data += part;
		length -= part;
	}
}

static __always_inline void ibr_pins_copy(struct ibr_pins *pins, u32 offset, void *data, u32 length, bool to_user)
{
	if (unlikely(pins->bounce)) {
		if (to_user) {
			memcpy(pins->bounce + offset, data, length);
			/* Parts fill theirs at the same time: of a whole no more is asked than whether it is 0. */
			WRITE_ONCE(pins->filled, max(READ_ONCE(pins->filled), offset + length));
		} else {
			memcpy(data, pins->bounce + offset, length);
		}
		return;
	}

	if (unlikely(pins->stretches)) {
		ibr_pins_copy_pieces(pins, offset, data, length, to_user);
		return;
	}
	ibr_pages_copy(pins->pages, pins->offset + offset, data, length, to_user);
}

static __always_inline void ibr_umem_copy(struct ibr_umem *umem, u64 offset, void *data, u32 length,
					  bool to_user)
{
	if (unlikely(umem->whole)) {
		offset += ibr_part_offset(umem);
		umem = umem->whole;
	}
	while (length) {
		u64 index = div_u64(offset, IBR_UMEM_WINDOW);
		struct ibr_umem_window *window = ibr_umem_window(umem, index);
		u32 resident = smp_load_acquire(&window->length);	/* see ibr_umem_fill() */
		u32 start = offset - index * IBR_UMEM_WINDOW;
		u32 part;

		/* The owner asked ibr_umem_resident(): this is for our own mistakes. */
		if (WARN_ON_ONCE(start >= resident || window->offset + start != offset))
			return;
		part = min(length, resident - start);
		ibr_pins_copy(window->pins, start, data, part, to_user);
		offset += part;
		data += part;
		length -= part;
	}
}

void ibr_umem_copy_to(struct ibr_umem *umem, u64 offset, const void *data, u32 length)
{
	ibr_umem_copy(umem, offset, (void *)data, length, true);
}

void ibr_umem_copy_from(struct ibr_umem *umem, u64 offset, void *data, u32 length)
{
	ibr_umem_copy(umem, offset, data, length, false);
}

/* ---- life of the module ---------------------------------------------------------------------- */

int ibr_memory_init(void)
{
	int cpu;

	for_each_possible_cpu(cpu)
		init_llist_head(per_cpu_ptr(&dead_pins, cpu));

	pins_cache = KMEM_CACHE(ibr_pins, 0);
	if (!pins_cache)
		return -ENOMEM;
	memory_queue = alloc_workqueue("ibrelk_memory", WQ_UNBOUND, 0);
	if (!memory_queue) {
		kmem_cache_destroy(pins_cache);
		return -ENOMEM;
	}
	return 0;
}

void ibr_memory_drain(void)
{
	/* Of what a worker ends, bounced data may be left to be copied, by one more work, which is the last. */
	flush_workqueue(memory_queue);
	flush_workqueue(memory_queue);
}

void ibr_memory_exit(void)
{
	cancel_delayed_work_sync(&dead_work);
	cancel_delayed_work_sync(&slow_work);
	destroy_workqueue(memory_queue);
	ibr_umem_flush_all();
	ibr_pins_free_list(&slow_pins);
	kmem_cache_destroy(pins_cache);
	WARN_ON_ONCE(atomic64_read(&bounce_bytes));
}
