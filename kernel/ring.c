// SPDX-License-Identifier: GPL-2.0-only
/*
 * Completion rings. The kernel writes entries and the tail, user space reads them and moves the
 * head; both see the same pages, so nothing in them is believed but the head, and that only as far
 * as it agrees with the kernel's own tail. What finds the ring full waits in a list, linked through
 * the commands' own objects: so delivering a completion needs no memory and cannot fail.
 */
#include <linux/anon_inodes.h>
#include <linux/cred.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/hrtimer.h>
#include <linux/kref.h>
#include <linux/ktime.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/poll.h>
#include <linux/sched/signal.h>
#include <linux/sched/stat.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "compat.h"
#include "device.h"
#include "pins.h"
#include "params.h"
#include "ring.h"

#define OVERFLOW_MIN	1024	/* completions that may wait for room even in a tiny ring */
#define DRAIN_BATCH	64	/* moved in at a time with the lock held */

/**
 * struct ibr_ring - a completion ring
 * @ref: held by the descriptor, and by each endpoint that writes to it
 * @uid: who made it
 * @entries: entries, a power of two
 * @overflow_max: most completions in @overflow before new commands are turned away
 * @map_bytes: size of the mapping
 * @header: the mapping, user-writable
 * @entry: entries, in the mapping
 * @free_work: frees it, as the last reference may be dropped in softirq
 * @lock: softirq-safe, innermost
 * @tail: entries ever written
 * @published: those of them that the tail in @header tells of; read without the lock by waiters, because
 *	@header belongs to the user
 * @head: the last plausible head of user space. Reading the real one only when this one says "full"
 *	spares a cache miss for each completion
 * @overflow: completions that wait for room, in order
 * @overflow_count: how many; read without the lock where a guess will do
 * @closed: the descriptor is gone, and every mapping with it: nobody can ever read a completion
 * @wait: who waits until there are completions, or room; has its own lock, never taken under @lock
 */
struct ibr_ring {
	struct kref ref;
	kuid_t uid;			/* immutable from here ... */
	u32 entries;
	u32 overflow_max;
	size_t map_bytes;
	struct ibrelk_ring_header *header;
	struct ibrelk_completion *entry;	/* ... to here */
	struct work_struct free_work;

	spinlock_t lock;		/* covers what follows, up to @wait */
	u32 tail;
	u32 published;
	u32 head;
	struct list_head overflow;
	u32 overflow_count;
	bool closed;

	wait_queue_head_t wait ____cacheline_aligned_in_smp;
};

/* A sleeper in IBRELK_IOC_RING_WAIT, who is not to be woken for less than what he waits for. */
struct ibr_ring_waiter {
	struct wait_queue_entry entry;
	struct ibr_ring *ring;
	u32 count;
};

static struct workqueue_struct *ring_queue;

/* ---- writing --------------------------------------------------------------------------------- */

static u32 ibr_ring_room(struct ibr_ring *ring)
{
	u32 head;

	lockdep_assert_held(&ring->lock);
	if (ring->tail - ring->head < ring->entries)
		return ring->entries - (ring->tail - ring->head);
	/* Acquire: the user's reads of an entry come before we write it anew. */
	head = smp_load_acquire(&ring->header->head);
	if (ring->tail - head > ring->entries)
		return 0;
	ring->head = head;
	return ring->entries - (ring->tail - head);
}

static void ibr_ring_push(struct ibr_ring *ring, const struct ibrelk_completion *completion)
{
	lockdep_assert_held(&ring->lock);
	ring->entry[ring->tail & (ring->entries - 1)] = *completion;
	ring->tail++;
}

static void ibr_ring_publish(struct ibr_ring *ring)
{
	lockdep_assert_held(&ring->lock);
	/* Release: whoever sees the tail sees the entries before it. */
	smp_store_release(&ring->header->tail, ring->tail);
	/* And who is told by us that there are some, sees that tail. Pairs with ibr_ring_available(). */
	smp_store_release(&ring->published, ring->tail);
}

static void ibr_ring_queue(struct ibr_ring *ring, struct ibr_ring_entry *entry)
{
	lockdep_assert_held(&ring->lock);
	list_add_tail(&entry->link, &ring->overflow);
	WRITE_ONCE(ring->overflow_count, ring->overflow_count + 1);
	WRITE_ONCE(ring->header->flags, IBRELK_RING_OVERFLOW);
}

/* Move a batch of what waits into the ring; the entries written go to @written, to be released. */
static void ibr_ring_refill(struct ibr_ring *ring, struct list_head *written)
{
	u32 moved = 0;

	lockdep_assert_held(&ring->lock);
	while (moved < DRAIN_BATCH && !list_empty(&ring->overflow) && ibr_ring_room(ring)) {
		struct ibr_ring_entry *entry =
			list_first_entry(&ring->overflow, struct ibr_ring_entry, link);

		ibr_ring_push(ring, &entry->completion);
		list_move_tail(&entry->link, written);
		moved++;
	}
	if (!moved)
		return;
	WRITE_ONCE(ring->overflow_count, ring->overflow_count - moved);
	ibr_ring_publish(ring);
	if (list_empty(&ring->overflow))
		WRITE_ONCE(ring->header->flags, 0);
}

static void ibr_ring_wake(struct ibr_ring *ring)
{
	/* The barrier in here pairs with that of ibr_ring_sleep() and ibr_ring_poll(). */
	if (wq_has_sleeper(&ring->wait))
		wake_up_poll(&ring->wait, EPOLLIN | EPOLLRDNORM);
}

/*
 * The same when there may be room for commands again. Whoever waits looks what there is room for: io_uring would take
 * what a wake-up says for the answer, and hears none that only says EPOLLPRI. All do, as one that is to be woken alone
 * (EPOLLEXCLUSIVE) may wait for something else.
 */
void ibr_ring_wake_room(struct ibr_ring *ring)
{
	if (wq_has_sleeper(&ring->wait))
		wake_up_all(&ring->wait);
}

/* Nothing here touches the ring: it may go with the last of them. */
static void ibr_ring_release_written(struct list_head *written)
{
	struct ibr_ring_entry *entry, *next;

	list_for_each_entry_safe(entry, next, written, link)
		entry->release(entry);
}

void ibr_ring_complete(struct ibr_ring *ring, struct ibr_ring_entry *entry)
{
	LIST_HEAD(written);

	spin_lock_bh(&ring->lock);
	if (likely(list_empty(&ring->overflow) && ibr_ring_room(ring))) {
		ibr_ring_push(ring, &entry->completion);
		ibr_ring_publish(ring);
		spin_unlock_bh(&ring->lock);
		ibr_ring_wake(ring);
		entry->release(entry);
		return;
	}
	/* Whoever reads the ring may move the entry in and release it as soon as the lock is free. */
	ibr_ring_get(ring);
	if (unlikely(ring->closed)) {
		list_add_tail(&entry->link, &written);
	} else {
		ibr_ring_queue(ring, entry);
		ibr_ring_refill(ring, &written);
	}
	spin_unlock_bh(&ring->lock);
	ibr_ring_wake_room(ring);
	ibr_ring_put(ring);
	ibr_ring_release_written(&written);
}

static void ibr_ring_entry_free(struct ibr_ring_entry *entry)
{
	kfree(entry);
}

struct ibr_ring_entry *ibr_ring_entry_alloc(void)
{
	struct ibr_ring_entry *entry = kzalloc(sizeof(*entry), GFP_KERNEL_ACCOUNT);

	if (entry)
		entry->release = ibr_ring_entry_free;
	return entry;
}

int ibr_ring_write(struct ibr_ring *ring, const struct ibrelk_completion *completion)
{
	struct ibr_ring_entry *entry;
	bool written = false;

	spin_lock_bh(&ring->lock);
	if (list_empty(&ring->overflow) && ibr_ring_room(ring)) {
		ibr_ring_push(ring, completion);
		ibr_ring_publish(ring);
		written = true;
	}
	spin_unlock_bh(&ring->lock);
	if (written) {
		ibr_ring_wake(ring);
		return 0;
	}

	entry = ibr_ring_entry_alloc();
	if (!entry)
		return -ENOMEM;
	entry->completion = *completion;
	ibr_ring_complete(ring, entry);
	return 0;
}

bool ibr_ring_has_room(struct ibr_ring *ring)
{
	return READ_ONCE(ring->overflow_count) < ring->overflow_max;
}

/* Move in whatever waits and fits. Context: process. */
static void ibr_ring_drain(struct ibr_ring *ring)
{
	bool more;

	if (likely(!READ_ONCE(ring->overflow_count)))
		return;
	do {
		LIST_HEAD(written);

		spin_lock_bh(&ring->lock);
		ibr_ring_refill(ring, &written);
		more = !list_empty(&written);
		spin_unlock_bh(&ring->lock);
		if (more)
			ibr_ring_wake_room(ring);
		/* The caller came by the descriptor, which holds a reference of its own. */
		ibr_ring_release_written(&written);
		cond_resched();
	} while (more);
}

/* ---- waiting --------------------------------------------------------------------------------- */

/* Completions in the ring; a head that makes no sense counts as a full one. */
static u32 ibr_ring_available(const struct ibr_ring *ring)
{
	/* Read first: another thread may consume what is published in between. */
	u32 head = smp_load_acquire(&ring->header->head);

	/* Acquire: pairs with ibr_ring_publish(). */
	return min(smp_load_acquire(&ring->published) - head, ring->entries);
}

static int ibr_ring_waiter_wake(struct wait_queue_entry *entry, unsigned int mode, int flags,
				void *key)
{
	struct ibr_ring_waiter *waiter = container_of(entry, struct ibr_ring_waiter, entry);

	if (ibr_ring_available(waiter->ring) < waiter->count)
		return 0;
	return autoremove_wake_function(entry, mode, flags, key);
}

/* Look by turns at the ring and at the adapters, as long as nobody else wants this CPU. */
static void ibr_ring_busy_poll(struct ibr_ring *ring, u32 count, ktime_t until)
{
	while (ibr_ring_available(ring) < count) {
		if (!single_task_running() || signal_pending(current))
			break;
		if (ktime_compare(ktime_get(), until) >= 0)
			break;
		if (!ibr_device_busy_poll())
			cpu_relax();
		ibr_ring_drain(ring);
		cond_resched();
	}
}

/*
 * Sleep until there are @count completions, or until @deadline (NULL: for ever).
 *
 * A signal without a handler (the process was stopped and continued, or traced) does not end a wait for ever, as
 * the system call begins anew; one with a time limit would begin its time anew as well, and is given up.
 */
static int ibr_ring_sleep(struct ibr_ring *ring, u32 count, ktime_t *deadline)
{
	struct ibr_ring_waiter waiter = { .ring = ring, .count = count };
	bool timed_out = false;
	int error = 0;

	init_waitqueue_func_entry(&waiter.entry, ibr_ring_waiter_wake);
	waiter.entry.private = current;
	INIT_LIST_HEAD(&waiter.entry.entry);

	for (;;) {
		prepare_to_wait(&ring->wait, &waiter.entry, TASK_INTERRUPTIBLE);
		if (ibr_ring_available(ring) >= count || timed_out)
			break;
		if (signal_pending(current)) {
			error = deadline ? -EINTR : -ERESTARTNOHAND;
			break;
		}
		if (READ_ONCE(ring->overflow_count)) {
			/* Another thread has made room, and no further completion may ever come. */
			finish_wait(&ring->wait, &waiter.entry);
			ibr_ring_drain(ring);
			continue;
		}
		timed_out = !schedule_hrtimeout_range(deadline, current->timer_slack_ns,
						      HRTIMER_MODE_ABS);
	}
	finish_wait(&ring->wait, &waiter.entry);
	return error;
}

static ktime_t ibr_deadline(ktime_t now, u64 timeout_ns)
{
	return ktime_add_safe(now, ns_to_ktime(min_t(u64, timeout_ns, KTIME_MAX)));
}

static long ibr_ring_wait(struct ibr_ring *ring, const struct ibrelk_ring_wait __user *argument)
{
	struct ibrelk_ring_wait wait;
	ktime_t now, deadline, *limit;
	int error = 0;

	if (copy_from_user(&wait, argument, sizeof(wait)))
		return -EFAULT;
	if (wait.flags || !wait.count || wait.count > ring->entries)
		return -EINVAL;

	ibr_ring_drain(ring);
	if (!wait.timeout_ns || ibr_ring_available(ring) >= wait.count)
		return ibr_ring_available(ring);

	/* Whoever waits submits nothing now, and should not keep others from pinning. */
	ibr_pins_flush();

	now = ktime_get();
	deadline = ibr_deadline(now, wait.timeout_ns);
	limit = wait.timeout_ns == ~0ull ? NULL : &deadline;
	if (wait.busy_poll_ns) {
		u64 busy_ns = min(wait.busy_poll_ns, wait.timeout_ns);

		ibr_ring_busy_poll(ring, wait.count, ibr_deadline(now, busy_ns));
	}
	if (ibr_ring_available(ring) < wait.count)
		error = ibr_ring_sleep(ring, wait.count, limit);
	return error ? error : ibr_ring_available(ring);
}

/* ---- the descriptor -------------------------------------------------------------------------- */

static __poll_t ibr_ring_poll(struct file *file, struct poll_table_struct *table)
{
	struct ibr_ring *ring = file->private_data;

	poll_wait(file, &ring->wait, table);
	/* We are in the queue before we look; pairs with ibr_ring_wake(). */
	smp_mb();
	ibr_ring_drain(ring);
	return ibr_ring_available(ring) ? EPOLLIN | EPOLLRDNORM : 0;
}

void ibr_ring_poll_room(struct ibr_ring *ring, struct file *file, struct poll_table_struct *table)
{
	poll_wait(file, &ring->wait, table);
	/* We are in the queue before we look; pairs with ibr_ring_wake_room(). */
	smp_mb();
	ibr_ring_drain(ring);
}

static int ibr_ring_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct ibr_ring *ring = file->private_data;
	size_t offset;
	int error;

	if (vma->vm_pgoff || vma->vm_end - vma->vm_start != ring->map_bytes)
		return -EINVAL;
	if (!(vma->vm_flags & VM_SHARED))
		return -EINVAL;
	if (vma->vm_flags & VM_EXEC)
		return -EPERM;
	vm_flags_clear(vma, VM_MAYEXEC);

	/* Page by page: remap_vmalloc_range() wants vmalloc_user(), which is not accounted. */
	for (offset = 0; offset < ring->map_bytes; offset += PAGE_SIZE) {
		error = vm_insert_page(vma, vma->vm_start + offset,
				       vmalloc_to_page((void *)ring->header + offset));
		if (error)
			return error;
	}
	return 0;
}

static long ibr_ring_ioctl(struct file *file, unsigned int command, unsigned long argument)
{
	struct ibr_ring *ring = file->private_data;

	switch (command) {
	case IBRELK_IOC_RING_WAIT:
		return ibr_ring_wait(ring, (const struct ibrelk_ring_wait __user *)argument);
	default:
		return -ENOTTY;
	}
}

/*
 * What still waits for room is let go, and so is all that comes later and finds the ring full: it
 * would hold its endpoint for ever, and that the ring.
 */
static int ibr_ring_close(struct inode *inode, struct file *file)
{
	struct ibr_ring *ring = file->private_data;
	LIST_HEAD(written);

	spin_lock_bh(&ring->lock);
	ring->closed = true;
	list_splice_init(&ring->overflow, &written);
	WRITE_ONCE(ring->overflow_count, 0);
	spin_unlock_bh(&ring->lock);
	ibr_ring_release_written(&written);
	/* Whoever waits for room here waits for a ring that takes everything now. */
	ibr_ring_wake_room(ring);
	ibr_ring_put(ring);
	return 0;
}

static const struct file_operations ibr_ring_fops = {
	.owner = THIS_MODULE,
	.poll = ibr_ring_poll,
	.mmap = ibr_ring_mmap,
	.unlocked_ioctl = ibr_ring_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.release = ibr_ring_close,
};

/* ---- life ------------------------------------------------------------------------------------ */

static void ibr_ring_free(struct ibr_ring *ring)
{
	WARN_ON_ONCE(!list_empty(&ring->overflow));
	vfree(ring->header);
	kfree(ring);
}

static void ibr_ring_free_work(struct work_struct *work)
{
	ibr_ring_free(container_of(work, struct ibr_ring, free_work));
}

static struct ibr_ring *ibr_ring_alloc(u32 entries)
{
	struct ibr_ring *ring = kzalloc(sizeof(*ring), GFP_KERNEL_ACCOUNT);

	if (!ring)
		return NULL;
	kref_init(&ring->ref);
	ring->uid = current_euid();
	ring->entries = entries;
	ring->overflow_max = max_t(u32, entries, OVERFLOW_MIN);
	INIT_WORK(&ring->free_work, ibr_ring_free_work);
	spin_lock_init(&ring->lock);
	INIT_LIST_HEAD(&ring->overflow);
	init_waitqueue_head(&ring->wait);

	BUILD_BUG_ON(sizeof(struct ibrelk_ring_header) > PAGE_SIZE);
	BUILD_BUG_ON(sizeof(struct ibrelk_completion) != 64);
	ring->map_bytes = PAGE_ALIGN(PAGE_SIZE + (size_t)entries * sizeof(*ring->entry));
	ring->header = __vmalloc(ring->map_bytes, GFP_KERNEL_ACCOUNT | __GFP_ZERO | __GFP_NOWARN);
	if (!ring->header) {
		kfree(ring);
		return NULL;
	}
	ring->entry = (void *)ring->header + PAGE_SIZE;
	ring->tail = IBR_COUNTERS_START;
	ring->published = IBR_COUNTERS_START;
	ring->head = IBR_COUNTERS_START;
	ring->header->tail = IBR_COUNTERS_START;
	ring->header->head = IBR_COUNTERS_START;
	ring->header->entries = entries;
	ring->header->entries_offset = PAGE_SIZE;
	return ring;
}

struct file *ibr_ring_create(struct ibrelk_ring_create *create)
{
	struct ibr_ring *ring;
	struct file *file;

	if (create->flags || create->reserved0)
		return ERR_PTR(-EINVAL);
	if (memchr_inv(create->reserved, 0, sizeof(create->reserved)))
		return ERR_PTR(-EINVAL);
	if (!create->entries || create->entries > IBR_RING_ENTRIES_MAX)
		return ERR_PTR(-EINVAL);

	ring = ibr_ring_alloc(roundup_pow_of_two(create->entries));
	if (!ring)
		return ERR_PTR(-ENOMEM);
	file = anon_inode_getfile("[ibrelk-ring]", &ibr_ring_fops, ring, O_RDWR | O_CLOEXEC);
	if (IS_ERR(file)) {
		ibr_ring_free(ring);
		return file;
	}
	create->entries = ring->entries;
	create->map_bytes = ring->map_bytes;
	return file;
}

struct ibr_ring *ibr_ring_get_fd(int fd)
{
	struct ibr_ring *ring = ERR_PTR(-EBADF);
	struct file *file = fget(fd);

	if (!file)
		return ring;
	if (file->f_op == &ibr_ring_fops) {
		struct ibr_ring *found = file->private_data;

		if (uid_eq(found->uid, current_euid())) {
			ring = found;
			ibr_ring_get(ring);
		}
	}
	fput(file);
	return ring;
}

void ibr_ring_get(struct ibr_ring *ring)
{
	kref_get(&ring->ref);
}

static void ibr_ring_last(struct kref *ref)
{
	queue_work(ring_queue, &container_of(ref, struct ibr_ring, ref)->free_work);
}

void ibr_ring_put(struct ibr_ring *ring)
{
	kref_put(&ring->ref, ibr_ring_last);
}

struct ibrelk_ring_header *ibr_ring_header(struct ibr_ring *ring)
{
	return ring->header;
}

int ibr_ring_init(void)
{
	ring_queue = alloc_workqueue("ibrelk_ring", WQ_UNBOUND, 0);
	return ring_queue ? 0 : -ENOMEM;
}

void ibr_ring_exit(void)
{
	destroy_workqueue(ring_queue);
}
