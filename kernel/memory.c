// SPDX-License-Identifier: GPL-2.0-only
/*
 * User memory, for as long as a transfer needs it. A buffer is held in windows of 2 MiB, at most
 * two at a time, so that a message of many GiB pins no more than a short one. Each window is either
 * pinned (pins.c) or, where that is not possible (limit, kind of mapping), stood in for by a bounce
 * buffer.
 */
#include <linux/atomic.h>
#include <linux/bvec.h>
#include <linux/capability.h>
#include <linux/highmem.h>
#include <linux/kthread.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/pagemap.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/workqueue.h>

#include "memory.h"
#include "params.h"
#include "pins.h"
#include "user.h"

#define BOUNCE_SHARE		8	/* bounce buffers take no more than this part of memory */
#define USER_SHARE		2	/* ... and those of one user than this part of that */
#define READERS_STOP		0x40000000	/* the worker waits for the last reader */

/**
 * struct ibr_stretch - the part of a window that is in one piece of the user's memory
 * @start: where it begins in the window, bytes
 * @place: where it begins in its first page, bytes
 * @pages: its pages
 * @pins: what they belong to
 */
struct ibr_stretch {
	u32 start;
	u32 place;
	struct page **pages;
	struct ibr_pins *pins;
};

/**
 * struct ibr_bounce - what stands in for a window that cannot be pinned
 * @user: whose; the address space that it belongs to keeps him
 * @bytes: its size
 * @filled: bytes from its start that hold data for the user
 * @data: the data
 */
struct ibr_bounce {
	struct ibr_user *user;
	u32 bytes;
	u32 filled;
	u8 data[];
};

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

void *ibr_alloc_atomic(struct mem_cgroup *payer, size_t size)
{
	struct mem_cgroup *old;
	void *memory;

	if (ibr_alloc_fails())
		return NULL;
	old = set_active_memcg(payer);
	memory = kmalloc(size, GFP_ATOMIC | __GFP_ACCOUNT | __GFP_NOWARN);
	set_active_memcg(old);
	return memory;
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
static u64 ibr_cursor_next(struct ibr_cursor *cursor, u64 length, unsigned long *start)
{
	if (!length)
		return 0;
	if (cursor->into == cursor->piece->length) {
		cursor->piece++;
		cursor->index++;
		cursor->into = 0;
	}
	*start = cursor->piece->addr + cursor->into;
	length = min(length, cursor->piece->length - cursor->into);
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

/* ---- pinning: current->mm is the owner's address space --------------------------------------- */

/* @stretch: .pins and .pages are set */
static int ibr_stretch_pin(struct ibr_umem *umem, struct ibr_stretch *stretch, unsigned long start, u32 length)
{
	struct ibr_pins *pins = ibr_pins_get(umem->space, start, length, umem->write, umem->limit);

	if (IS_ERR(pins))
		return PTR_ERR(pins);
	stretch->pins = pins;
	stretch->pages = pins->pages + ((start - pins->range.start) >> PAGE_SHIFT);
	stretch->place = offset_in_page(start);
	return 0;
}

static void ibr_stretches_put(struct ibr_stretch *stretches)
{
	struct ibr_stretch *stretch;

	for (stretch = stretches; stretch->pins; stretch++)
		ibr_pins_put(stretch->pins);
	kvfree(stretches);
}

/* A window of several pieces, the first of which is where @cursor is. Return: stretches or ERR_PTR. */
static struct ibr_stretch *ibr_pieces_pin(struct ibr_umem *umem, struct ibr_cursor cursor, u32 length)
{
	struct ibr_stretch *stretches, *stretch;
	unsigned long start = 0;
	u32 done, part;
	int ret;

	/* There are no more stretches than pieces, from the first one on. */
	stretches = kvcalloc(umem->buffer.count - cursor.index + 1, sizeof(*stretches), GFP_KERNEL_ACCOUNT);
	if (!stretches)
		return ERR_PTR(-ENOMEM);
	stretch = stretches;
	for (done = 0; done < length; done += part, stretch++) {
		part = ibr_cursor_next(&cursor, length - done, &start);
		ret = ibr_stretch_pin(umem, stretch, start, part);
		if (ret) {
			ibr_stretches_put(stretches);
			return ERR_PTR(ret);
		}
		stretch->start = done;
	}
	stretch->start = length;
	return stretches;
}

static int ibr_window_pin(struct ibr_umem *umem, struct ibr_umem_window *window, u64 offset, u32 length)
{
	struct ibr_cursor cursor = ibr_cursor_at(umem, offset), first = cursor;
	struct ibr_stretch stretch = {}, *stretches;
	unsigned long start = 0;
	int ret;

	if (ibr_cursor_next(&cursor, length, &start) == length) {
		ret = ibr_stretch_pin(umem, &stretch, start, length);
		if (ret)
			return ret;
		window->pins = stretch.pins;
		window->pages = stretch.pages;
		window->place = stretch.place;
		return 0;
	}
	stretches = ibr_pieces_pin(umem, first, length);
	if (IS_ERR(stretches))
		return PTR_ERR(stretches);
	window->stretches = stretches;
	return 0;
}

/*
 * Was some of a window's memory unmapped meanwhile? Then nobody sees what was written to what is pinned. @length: bytes
 * from its start that matter
 */
static bool ibr_window_gone(const struct ibr_umem *umem, const struct ibr_umem_window *window, u64 length)
{
	const struct ibr_stretch *stretch = window->stretches;
	struct ibr_cursor cursor;
	unsigned long start = 0;
	u64 left = min_t(u64, length, umem->standing ? umem->length : IBR_UMEM_WINDOW), part;

	if (window->pins && likely(ibr_pins_fresh(window->pins)))
		return false;
	if (!left || (!window->pins && !stretch))
		return false;
	cursor = ibr_cursor_at(umem, window->offset);
	if (window->pins) {
		part = ibr_cursor_next(&cursor, left, &start);
		return ibr_pins_gone(window->pins, start, part);
	}
	for (; left && stretch->pins; stretch++, left -= part) {
		part = ibr_cursor_next(&cursor, min_t(u64, left, stretch[1].start - stretch->start), &start);
		if (!ibr_pins_fresh(stretch->pins) && ibr_pins_gone(stretch->pins, start, part))
			return true;
	}
	return false;
}

/* ---- bounce buffers: likewise ---------------------------------------------------------------- */

static void ibr_bounce_free(struct ibr_bounce *bounce)
{
	if (!bounce)
		return;
	atomic64_sub(bounce->bytes, &bounce->user->bounced);
	atomic64_sub(bounce->bytes, &bounce_bytes);
	kvfree(bounce);
}

static struct ibr_bounce *ibr_bounce_alloc(struct ibr_user *user, u32 length)
{
	u64 limit = min((u64)READ_ONCE(bounce_max_mib) << 20,
			((u64)totalram_pages() << PAGE_SHIFT) / BOUNCE_SHARE);
	struct ibr_bounce *bounce;

	if ((u64)atomic64_add_return(length, &user->bounced) > limit / USER_SHARE)
		goto uncharge_user;
	if ((u64)atomic64_add_return(length, &bounce_bytes) > limit)
		goto uncharge;
	bounce = kvmalloc(struct_size(bounce, data, length), GFP_KERNEL_ACCOUNT);
	if (!bounce)
		goto uncharge;
	bounce->user = user;
	bounce->bytes = length;
	return bounce;

uncharge:
	atomic64_sub(length, &bounce_bytes);
uncharge_user:
	atomic64_sub(length, &user->bounced);
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
static struct ibr_bounce *ibr_umem_bounce(struct ibr_umem *umem, u64 offset, u32 length,
					  struct ibr_bounce **spare)
{
	struct ibr_bounce *bounce;

	if (!ibr_user_memory_valid(umem, offset, length))
		return ERR_PTR(-EFAULT);

	bounce = *spare;
	*spare = NULL;
	if (bounce && bounce->bytes < length) {
		ibr_bounce_free(bounce);
		bounce = NULL;
	}
	if (!bounce)
		bounce = ibr_bounce_alloc(umem->space->user, length);
	if (!bounce)
		return ERR_PTR(-ENOMEM);

	bounce->filled = 0;
	if (umem->write) {
		/* Holes must not tell the user what was in this memory before. */
		memset(bounce->data, 0, length);
		return bounce;
	}
	if (ibr_umem_copy_user(umem, offset, bounce->data, length, false)) {
		ibr_bounce_free(bounce);
		return ERR_PTR(-EFAULT);
	}
	umem->bounced += length;
	return bounce;
}

/* ---- windows --------------------------------------------------------------------------------- */

static struct ibr_umem_window *ibr_umem_window(struct ibr_umem *umem, u64 index)
{
	return &umem->window[index & 1];
}

/* Which window, of those of the buffer. */
static u64 ibr_umem_index(const struct ibr_umem *umem, u64 offset)
{
	return umem->standing ? 0 : div_u64(offset, IBR_UMEM_WINDOW);
}

void ibr_umem_stand(struct ibr_umem *umem, struct ibr_pins *pins, unsigned long address, unsigned long length)
{
	struct ibr_umem_window *window = &umem->window[0];

	ibr_space_get(pins->space);
	umem->space = pins->space;
	umem->buffer.one.addr = address;
	umem->buffer.one.length = length;
	umem->buffer.count = 1;
	umem->length = length;
	umem->write = pins->write;
	umem->standing = true;
	window->pins = pins;
	window->pages = pins->pages + ((address - pins->range.start) >> PAGE_SHIFT);
	window->place = offset_in_page(address);
	window->length = length;
}

void ibr_umem_part(struct ibr_umem *part, struct ibr_umem *whole, u64 offset, u64 length)
{
	part->buffer.one.addr = whole->buffer.one.addr + offset;
	part->buffer.one.length = length;
	part->buffer.count = 1;
	part->length = length;
	part->write = whole->write;
	part->whole = whole;
}

/* Make a window resident. @spare: see ibr_umem_bounce() */
static int ibr_umem_fill(struct ibr_umem *umem, u64 index, struct ibr_bounce **spare)
{
	struct ibr_umem_window *window = ibr_umem_window(umem, index);
	u64 offset = index * IBR_UMEM_WINDOW;
	u32 length = min_t(u64, IBR_UMEM_WINDOW, umem->length - offset);
	struct ibr_bounce *bounce;
	int error;

	error = ibr_window_pin(umem, window, offset, length);
	/* Who is killed does not need another one. */
	if (error == -EINTR)
		return error;
	if (error) {
		bounce = ibr_umem_bounce(umem, offset, length, spare);
		if (IS_ERR(bounce))
			return error == -ENOMEM ? -ENOMEM : PTR_ERR(bounce);
		window->bounce = bounce;
	}
	window->offset = offset;
	/* Pairs with ibr_umem_resident() and the copies: the owner may look meanwhile. */
	smp_store_release(&window->length, length);
	return 0;
}

/* Context: any */
static void ibr_window_unpin(struct ibr_umem_window *window)
{
	if (window->pins)
		ibr_pins_put(window->pins);
	if (window->stretches)
		ibr_stretches_put(window->stretches);
	window->pins = NULL;
	window->pages = NULL;
	window->stretches = NULL;
}

/* Of memory that is gone, the other end is told whether somebody has unmapped it, or its process has ended. */
static int umem_lost(bool alive)
{
	return alive ? -EFAULT : -ECONNRESET;
}

/*
 * Let a window go: what was bounced for the user is copied to him. @alive: the address space is
 * still there, and current->mm. @spare: where to keep a bounce buffer for another window; NULL:
 * nowhere
 */
static void ibr_umem_retire(struct ibr_umem *umem, struct ibr_umem_window *window, bool alive,
			    struct ibr_bounce **spare)
{
	struct ibr_bounce *bounce = window->bounce;
	/* What is done with is complete; in the end the owner has looked himself. */
	bool lost = umem->write && !umem->released && ibr_window_gone(umem, window, IBR_UMEM_WINDOW);

	ibr_window_unpin(window);
	window->length = 0;
	window->bounce = NULL;
	if (bounce && umem->write && bounce->filled) {
		if (alive && !ibr_umem_copy_user(umem, window->offset, bounce->data, bounce->filled, true))
			umem->bounced += bounce->filled;
		else
			lost = true;
	}
	if (lost && !umem->error)
		umem->error = umem_lost(alive);
	if (spare && !*spare)
		*spare = bounce;
	else
		ibr_bounce_free(bounce);
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

		if (window->bounce) {
			if (!alive || ibr_umem_copy_user(part->whole, offset, window->bounce->data + start, length,
							 true))
				part->error = umem_lost(alive);
			else
				part->bounced += length;
		}
		offset += length;
	}
}

/* The last of it, but for what it belongs to. */
static void ibr_umem_drop(struct ibr_umem *umem)
{
	if (umem->space)
		ibr_space_put(umem->space);
	umem->space = NULL;
	ibr_buffer_drop(&umem->buffer);
}

bool ibr_umem_bounced(const struct ibr_umem *umem)
{
	const struct ibr_umem *whole = umem->whole ?: umem;
	int slot;

	for (slot = 0; slot < 2; slot++) {
		const struct ibr_bounce *bounce = whole->window[slot].bounce;

		if (bounce && umem->write && umem->length && READ_ONCE(bounce->filled))
			return true;
	}
	return false;
}

/* Does its work touch the user's memory, or only let go of it? */
static bool umem_copies(const struct ibr_umem *umem)
{
	return !umem->released || umem->whole || ibr_umem_bounced(umem);
}

/* ---- workers --------------------------------------------------------------------------------- */

/* Those that a worker has, or will have. */
static atomic_t umems_working = ATOMIC_INIT(0);

static struct ibr_space *umem_space(const struct ibr_umem *umem)
{
	return (umem->whole ?: umem)->space;
}

/* What only has to be let go of does not wait behind what may wait for a process that is not there. */
static void umem_queue(struct ibr_umem *umem)
{
	atomic_inc(&umems_working);
	queue_work(umem_copies(umem) ? umem_space(umem)->user->queue : ibr_pins_queue, &umem->work);
}

static void ibr_umem_work(struct work_struct *work)
{
	struct ibr_umem *umem = container_of(work, struct ibr_umem, work);
	void (*released)(struct ibr_umem *umem) = umem->released;
	struct ibr_space *space = umem_space(umem);
	struct mm_struct *mm = space->mm;
	struct ibr_bounce *spare = NULL;
	struct mem_cgroup *memcg = NULL, *old = NULL;
	/* To be the last that lets go of a process's memory may take long. */
	bool alive = umem_copies(umem) && mmget_not_zero(mm);
	int slot, error = 0;
	u64 index;

	atomic_sub(READERS_STOP, &umem->readers);
	ibr_space_get(space);

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
			error = alive ? ibr_umem_fill(umem, index, &spare) : umem_lost(false);
			if (error)
				break;
		}
		if (error && !umem->error)
			umem->error = error;
	}
	ibr_bounce_free(spare);

	if (alive) {
		set_active_memcg(old);
		mem_cgroup_put(memcg);
		kthread_unuse_mm(mm);
		mmput(mm);
	}

	if (released) {
		ibr_umem_drop(umem);
		released(umem);
	} else {
		umem->ready(umem);
	}

	ibr_space_put(space);
	atomic_dec(&umems_working);
}

/*
 * Or, if an adapter is still reading, the last reader queues it: one that was told to read something twice may not
 * have come to the second time yet.
 */
static void ibr_umem_queue_work(struct ibr_umem *umem)
{
	INIT_WORK(&umem->work, ibr_umem_work);
	if (atomic_add_return(READERS_STOP, &umem->readers) == READERS_STOP)
		umem_queue(umem);
}

int ibr_umem_init(struct ibr_umem *umem, struct ibr_space *space, struct ibr_buffer *buffer, bool write)
{
	struct ibr_bounce *spare = NULL;
	u64 length = buffer->length;
	int error;

	umem->buffer = *buffer;
	umem->length = length;
	umem->write = write;
	if (!length)
		return 0;

	umem->space = ibr_space_current(space);
	if (!umem->space) {
		umem->buffer.pieces = NULL;
		return -ENOMEM;
	}
	/* A worker, which has other limits, will pin the rest of it. */
	umem->limit = length > IBR_UMEM_RESIDENT ? ibr_pins_limit() : IBR_LIMIT_OWN;

	error = ibr_umem_fill(umem, 0, &spare);
	if (!error && length > IBR_UMEM_WINDOW)
		error = ibr_umem_fill(umem, 1, &spare);
	if (error) {
		ibr_umem_retire(umem, &umem->window[0], false, NULL);
		umem->buffer.pieces = NULL;
		ibr_umem_drop(umem);
	}
	return error;
}

/* The bytes of a window that are resident. Pairs with ibr_umem_fill(). */
static unsigned long ibr_umem_window_length(const struct ibr_umem *umem, u64 index)
{
	const struct ibr_umem_window *window = &umem->window[index & 1];
	unsigned long length = smp_load_acquire(&window->length);	/* see above */

	return length && window->offset == index * IBR_UMEM_WINDOW ? length : 0;
}

u64 ibr_umem_resident(const struct ibr_umem *umem, u64 offset)
{
	u64 index = ibr_umem_index(umem, offset);
	u64 end = offset;
	int i;

	if (umem->whole)
		return umem->length - offset;
	for (i = 0; i < 2; i++, index++) {
		u64 length = ibr_umem_window_length(umem, index);

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

bool ibr_umem_gone(const struct ibr_umem *umem, u64 length)
{
	const struct ibr_umem *whole = umem->whole;
	int slot;

	for (slot = 0; slot < 2; slot++) {
		const struct ibr_umem_window *window = whole ? &whole->window[slot] : &umem->window[slot];

		if (!whole) {
			if (length > window->offset && ibr_window_gone(umem, window, length - window->offset))
				return true;
		} else if (length && window->pins && !ibr_pins_fresh(window->pins) &&
			   ibr_pins_gone(window->pins, umem->buffer.one.addr, min(length, umem->length))) {
			return true;
		}
	}
	return false;
}

void ibr_umem_finish(struct ibr_umem *umem, bool keep_bounced,
		     void (*released)(struct ibr_umem *umem))
{
	int slot;

	if ((keep_bounced && ibr_umem_bounced(umem)) || unlikely(atomic_read(&umem->readers))) {
		umem->released = released;
		ibr_umem_queue_work(umem);
		return;
	}

	for (slot = 0; slot < 2; slot++) {
		struct ibr_umem_window *window = &umem->window[slot];

		window->length = 0;
		ibr_window_unpin(window);
		ibr_bounce_free(window->bounce);
		window->bounce = NULL;
	}
	ibr_umem_drop(umem);
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
		umem_queue(umem);
}

/* The window that all of this is resident in, and @into: where there. Or NULL. */
static const struct ibr_umem_window *umem_window(const struct ibr_umem *umem, u64 offset, u32 length,
						 unsigned long *into)
{
	const struct ibr_umem_window *window;
	unsigned long resident;

	if (umem->whole) {
		offset += ibr_part_offset(umem);
		umem = umem->whole;
	}
	window = &umem->window[ibr_umem_index(umem, offset) & 1];
	resident = smp_load_acquire(&window->length);	/* see ibr_umem_fill() */
	offset -= window->offset;	/* of another window: far too large */
	if (offset >= resident || length > resident - offset)
		return NULL;
	*into = offset;
	return window;
}

struct page **ibr_umem_pages(const struct ibr_umem *umem, u64 offset, u32 length, u32 *place)
{
	const struct ibr_umem_window *window;
	unsigned long into;

	window = umem_window(umem, offset, length, &into);
	if (!window || !window->pages)
		return NULL;
	into += window->place;
	*place = offset_in_page(into);
	return window->pages + (into >> PAGE_SHIFT);
}

/* @place: in bytes from the start of the first page. Return: segments, or 0: more than @max */
static int pages_segments(struct page **pages, unsigned long place, u32 length, struct bio_vec *segment, int max)
{
	int count = 0;

	while (length) {
		u32 part = min_t(u32, length, PAGE_SIZE - offset_in_page(place));

		if (count == max)
			return 0;
		segment[count].bv_page = pages[place >> PAGE_SHIFT];
		segment[count].bv_offset = offset_in_page(place);
		segment[count++].bv_len = part;
		place += part;
		length -= part;
	}
	return count;
}

int ibr_umem_segments(const struct ibr_umem *umem, u64 offset, u32 length, struct bio_vec *segment, int max)
{
	const struct ibr_umem_window *window;
	const struct ibr_stretch *stretch;
	int count = 0, more;
	unsigned long into;
	u32 part;

	window = umem_window(umem, offset, length, &into);
	if (!window)
		return 0;
	if (likely(window->pages))
		return pages_segments(window->pages, window->place + into, length, segment, max);
	stretch = window->stretches;
	if (!stretch)
		return 0;
	while (stretch[1].start <= into)
		stretch++;
	for (; length; stretch++) {
		part = min_t(u32, length, stretch[1].start - into);
		more = pages_segments(stretch->pages, stretch->place + into - stretch->start, part, segment + count,
				      max - count);
		if (!more)
			return 0;
		count += more;
		into += part;
		length -= part;
	}
	return count;
}

/* ---- copying --------------------------------------------------------------------------------- */

/* @place: in bytes from the start of the first page */
static __always_inline void ibr_pages_copy(struct page **pages, unsigned long place, void *data, u32 length,
					   bool to_user)
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

static noinline void ibr_pieces_copy(const struct ibr_stretch *stretch, u32 offset, void *data, u32 length,
				     bool to_user)
{
	while (stretch[1].start <= offset)
		stretch++;
	for (; length; stretch++) {
		u32 into = offset - stretch->start;
		u32 part = min(length, stretch[1].start - offset);

		ibr_pages_copy(stretch->pages, stretch->place + into, data, part, to_user);
		offset += part;
		data += part;
		length -= part;
	}
}

static void ibr_bounce_copy(struct ibr_bounce *bounce, u32 offset, void *data, u32 length, bool to_user)
{
	if (!to_user) {
		memcpy(data, bounce->data + offset, length);
		return;
	}
	memcpy(bounce->data + offset, data, length);
	/* Parts fill theirs at the same time: of a whole no more is asked than whether it is 0. */
	WRITE_ONCE(bounce->filled, max(READ_ONCE(bounce->filled), offset + length));
}

static __always_inline void ibr_window_copy(struct ibr_umem_window *window, unsigned long offset, void *data,
					    u32 length, bool to_user)
{
	if (likely(window->pages))
		ibr_pages_copy(window->pages, window->place + offset, data, length, to_user);
	else if (window->bounce)
		ibr_bounce_copy(window->bounce, offset, data, length, to_user);
	else
		ibr_pieces_copy(window->stretches, offset, data, length, to_user);
}

static __always_inline void ibr_umem_copy(struct ibr_umem *umem, u64 offset, void *data, u32 length,
					  bool to_user)
{
	if (unlikely(umem->whole)) {
		offset += ibr_part_offset(umem);
		umem = umem->whole;
	}
	while (length) {
		u64 index = ibr_umem_index(umem, offset);
		struct ibr_umem_window *window = ibr_umem_window(umem, index);
		unsigned long resident = smp_load_acquire(&window->length);	/* see ibr_umem_fill() */
		unsigned long start = offset - index * IBR_UMEM_WINDOW;
		u32 part;

		/* The owner asked ibr_umem_resident(): this is for our own mistakes. */
		if (WARN_ON_ONCE(start >= resident || window->offset + start != offset))
			return;
		part = min_t(unsigned long, length, resident - start);
		ibr_window_copy(window, start, data, part, to_user);
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

void ibr_memory_drain(void)
{
	/*
	 * Each that ends may leave bounced data to be copied, by one more work. What there is when none is left
	 * has only not returned yet.
	 */
	do {
		ibr_users_flush();
		flush_workqueue(ibr_pins_queue);
	} while (atomic_read(&umems_working));
	ibr_users_flush();
	flush_workqueue(ibr_pins_queue);
}

void ibr_memory_exit(void)
{
	WARN_ON_ONCE(atomic64_read(&bounce_bytes));
}
