// SPDX-License-Identifier: GPL-2.0-only
/*
 * A region is a pinned range that has a user for as long as its descriptor is open. Transfers find it as they find what
 * other transfers have left (pins.c), and like that it is of no use once other memory has come to be there.
 *
 * Peers that know its key may write to it, read from it, or compute in it, if the user says so: what is short, and
 * atomics, at once, under the region's lock; what is long by a transfer, an access. Its user ends that by closing the
 * descriptor, and waits until the last access is over, so that he can use the memory for something else. What he closes
 * is not always the last of its descriptors, since they are inherited: so it is flush() that does it, not release().
 */
#include <linux/anon_inodes.h>
#include <linux/delay.h>
#include <linux/fs.h>
#include <linux/highmem.h>
#include <linux/module.h>
#include <linux/pagemap.h>
#include <linux/random.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/uaccess.h>
#include <linux/wait.h>
#include <linux/xarray.h>
#include <ibrelk/uapi.h>

#include "atomic.h"
#include "drive.h"
#include "flow.h"
#include "params.h"
#include "pins.h"
#include "region.h"

#define TRIES		50	/* to pin it while nothing changes, with a pause after each */
#define END_S		2	/* who ends waits for who uses his regions no longer than this */
#define REGION_REMOTE	(IBRELK_REGION_REMOTE_WRITE | IBRELK_REGION_REMOTE_READ)

/**
 * struct ibr_region - a region
 * @ref: held by the descriptor, and by each access
 * @space: whose memory it is; opened until the descriptor is released. Immutable
 * @owner: table of descriptors that it was made in, only to be compared; immutable
 * @pins: the range; may be used until the region has ended, or the process (ibr_pins_share())
 * @address: where it begins; immutable
 * @length: bytes; immutable
 * @flags: IBRELK_REGION_*; immutable
 * @key: by which peers know it; its lower half is its number. 0: not at all. Immutable
 * @lock: softirq-safe, inside path->lock; covers the rest
 * @ended: nobody writes to it any more, but for those in @ending
 * @accesses: under way
 * @ending: ... and aborted
 * @quiet: woken when there are none any more
 * @rcu: frees it, as others may be looking at it
 */
struct ibr_region {
	struct kref ref;
	struct ibr_space *space;
	fl_owner_t owner;
	struct ibr_pins *pins;
	u64 address;
	u64 length;
	u32 flags;
	u64 key;

	spinlock_t lock;		/* the rest */
	bool ended;
	struct list_head accesses;
	struct list_head ending;
	wait_queue_head_t quiet;
	struct rcu_head rcu;
};

static DEFINE_XARRAY_FLAGS(regions, XA_FLAGS_ALLOC1);	/* those that have a key, by their number */
static u32 region_next;

static void region_free(struct kref *ref)
{
	kfree_rcu(container_of(ref, struct ibr_region, ref), rcu);
}

static void region_put(struct ibr_region *region)
{
	kref_put(&region->ref, region_free);
}

/* ---- peers --------------------------------------------------------------------------------- */

/* The process's region with this key, with a reference; or NULL. */
static struct ibr_region *region_find(struct ibr_space *space, u64 key)
{
	struct ibr_region *region;

	rcu_read_lock();
	region = xa_load(&regions, (u32)key);
	if (region && (region->key != key || region->space != space || !kref_get_unless_zero(&region->ref)))
		region = NULL;
	rcu_read_unlock();
	return region;
}

/*
 * Have a part of the region as user memory, for what @rights say. Return: 0 or as ibr_region_write(). Context:
 * region->lock held.
 */
static int region_stand(struct ibr_region *region, struct ibr_umem *umem, u64 address, u64 length, u32 rights)
{
	lockdep_assert_held(&region->lock);
	if (region->ended || rights & ~region->flags)
		return -EACCES;
	if (address < region->address || address - region->address > region->length ||
	    length > region->length - (address - region->address))
		return -EFAULT;
	if (!ibr_pins_share(region->space, region->pins))
		return -EACCES;
	ibr_umem_stand(umem, region->pins, address, length);
	return 0;
}

static void region_stood(struct ibr_umem *umem)
{
}

static void region_copy(struct ibr_umem *umem, void *data, u32 length, u32 right)
{
	if (length && right == IBRELK_REGION_REMOTE_WRITE)
		ibr_umem_copy_to(umem, 0, data, length);
	else if (length)
		ibr_umem_copy_from(umem, 0, data, length);
}

static void region_compute(struct ibr_umem *umem, const struct ibr_atomic *atomic, void *before)
{
	u32 place, offset, part;
	struct page **pages = ibr_umem_pages(umem, 0, atomic->length, &place);

	for (offset = 0; offset < atomic->length; offset += part, place += part) {
		struct page *page = pages[place >> PAGE_SHIFT];
		void *mapped = kmap_local_page(page);

		part = min_t(u32, atomic->length - offset, PAGE_SIZE - offset_in_page(place));
		ibr_atomic_apply(atomic, offset, mapped + offset_in_page(place), part, before);
		flush_dcache_page(page);
		kunmap_local(mapped);
	}
}

/* A copy to or from @data, as @rights say; or @atomic, which tells @data what was there. */
static int region_use(struct ibr_space *space, u64 key, u64 address, void *data, u32 length, u32 rights,
		      const struct ibr_atomic *atomic)
{
	struct ibr_region *region = region_find(space, key);
	struct ibr_umem umem = {};
	int ret;

	if (!region)
		return -EACCES;
	spin_lock_bh(&region->lock);
	ret = region_stand(region, &umem, address, length, rights);
	if (!ret) {
		/* Half of an atomic would be wrong; of a put it does not matter. */
		if (ibr_umem_gone(&umem, length))
			ret = -EFAULT;
		else if (atomic)
			region_compute(&umem, atomic, data);
		else
			region_copy(&umem, data, length, rights);
		if (!atomic && ibr_umem_gone(&umem, length))
			ret = -EFAULT;
		ibr_umem_finish(&umem, false, region_stood);
	}
	spin_unlock_bh(&region->lock);
	region_put(region);
	return ret;
}

int ibr_region_write(struct ibr_space *space, u64 key, u64 address, const void *data, u32 length)
{
	return region_use(space, key, address, (void *)data, length, IBRELK_REGION_REMOTE_WRITE, NULL);
}

int ibr_region_read(struct ibr_space *space, u64 key, u64 address, void *data, u32 length)
{
	return region_use(space, key, address, data, length, IBRELK_REGION_REMOTE_READ, NULL);
}

int ibr_region_atomic(struct ibr_space *space, u64 key, u64 address, const struct ibr_atomic *atomic, void *before)
{
	u32 rights = (atomic->op == IBRELK_ATOMIC_READ ? 0 : IBRELK_REGION_REMOTE_WRITE) |
		     (before ? IBRELK_REGION_REMOTE_READ : 0);

	return region_use(space, key, address, before, atomic->length, rights, atomic);
}

int ibr_access_begin(struct ibr_access *access, struct ibr_umem *umem, struct ibr_path *path, struct ibr_space *space,
		     u64 key, u64 address, u64 length)
{
	struct ibr_region *region = region_find(space, key);
	int ret;

	lockdep_assert_held(&path->lock);
	if (!region)
		return -EACCES;
	spin_lock_bh(&region->lock);
	ret = region_stand(region, umem, address, length,
			   access->send ? IBRELK_REGION_REMOTE_READ : IBRELK_REGION_REMOTE_WRITE);
	/* What is unmapped later is sent as it was; of what is written, the transfer looks once more. */
	if (!ret && ibr_umem_gone(umem, length)) {
		ibr_umem_finish(umem, false, region_stood);
		ret = -EFAULT;
	}
	if (!ret) {
		access->region = region;
		access->path = path;
		list_add_tail(&access->link, &region->accesses);
	}
	spin_unlock_bh(&region->lock);
	if (ret)
		region_put(region);
	return ret;
}

static bool region_quiet(const struct ibr_region *region)
{
	return list_empty(&region->accesses) && list_empty(&region->ending);
}

void ibr_access_end(struct ibr_access *access)
{
	struct ibr_region *region = access->region;

	if (!access->send)
		lockdep_assert_held(&access->path->lock);
	spin_lock_bh(&region->lock);
	list_del(&access->link);
	if (region_quiet(region))
		wake_up_all(&region->quiet);
	spin_unlock_bh(&region->lock);
	region_put(region);
}

/*
 * One access by this path that is to be aborted, or NULL. Context: path->lock held, so that it cannot end meanwhile,
 * but for a send's, which may be waiting for an adapter already: that has a reference more.
 */
static struct ibr_access *region_next_access(struct ibr_region *region, const struct ibr_path *path)
{
	struct ibr_access *access, *found = NULL;

	spin_lock_bh(&region->lock);
	list_for_each_entry(access, &region->accesses, link) {
		if (access->path == path) {
			list_move_tail(&access->link, &region->ending);
			found = access;
			if (access->send)
				ibr_send_get(access->send);
			break;
		}
	}
	spin_unlock_bh(&region->lock);
	return found;
}

static void region_abort_send(struct ibr_send *send)
{
	if (!send->finished)
		ibr_send_abort(send, -EACCES);
	ibr_send_put(send);
}

/* Peers cannot begin anything any more, and what they have begun is aborted. Context: process, no locks */
static void region_end(struct ibr_region *region)
{
	struct ibr_access *access;
	struct ibr_path *path;

	spin_lock_bh(&region->lock);
	region->ended = true;
	while ((access = list_first_entry_or_null(&region->accesses, struct ibr_access, link))) {
		path = access->path;
		ibr_path_get(path);
		spin_unlock_bh(&region->lock);

		ibr_frag_refill();
		spin_lock_bh(&path->lock);
		path->now = ktime_get_ns();
		access = region_next_access(region, path);
		if (access && access->send)
			region_abort_send(access->send);
		else if (access)
			ibr_transfer_revoke(container_of(access, struct ibr_recv, access)->transfer);
		ibr_path_drive_locked(path);
		spin_unlock_bh(&path->lock);
		ibr_path_put(path);
		cond_resched();

		spin_lock_bh(&region->lock);
	}
	spin_unlock_bh(&region->lock);
}

static bool region_is_quiet(struct ibr_region *region)
{
	bool quiet;

	spin_lock_bh(&region->lock);
	quiet = region_quiet(region);
	spin_unlock_bh(&region->lock);
	return quiet;
}

/* The regions of its address space have END_S together: how many there are does not put the end of a process off. */
static void region_wait_exiting(struct ibr_region *region)
{
	struct ibr_space *space = region->space;
	u64 who = current->start_boottime;
	long left = READ_ONCE(space->exiting) == who ? READ_ONCE(space->exit_left) : END_S * HZ;

	left = wait_event_timeout(region->quiet, region_is_quiet(region), left);
	WRITE_ONCE(space->exit_left, left);
	WRITE_ONCE(space->exiting, who);
}

/* ---- the descriptor ------------------------------------------------------------------------ */

/*
 * Somebody closes one of its descriptors: is it the process that made it? Not one that has inherited it, even if it
 * is at the same memory for a moment (vfork()). Who is killed need not wait. No signal reaches who ends: its memory is
 * gone by then (but for vfork()'s), and does not keep it for long.
 */
static int region_flush(struct file *file, fl_owner_t owner)
{
	struct ibr_region *region = file->private_data;

	if (!region->key || owner != region->owner)
		return 0;
	region_end(region);
	if (current->flags & PF_EXITING)
		region_wait_exiting(region);
	else
		wait_event_killable(region->quiet, region_is_quiet(region));
	return 0;
}

static void region_close(struct ibr_region *region)
{
	if (region->key) {
		region_end(region);
		xa_erase(&regions, (u32)region->key);
	}
	ibr_pins_put_region(region->space, region->pins);
	ibr_space_close(region->space);
	region_put(region);
}

static int region_release(struct inode *inode, struct file *file)
{
	region_close(file->private_data);
	return 0;
}

static const struct file_operations region_fops = {
	.owner = THIS_MODULE,
	.flush = region_flush,
	.release = region_release,
};

/* Give it a key, by which it can be found from then on. */
static int region_publish(struct ibr_region *region)
{
	u32 number;
	int ret;

	/* Only reserved, until it has the key. */
	ret = xa_alloc_cyclic(&regions, &number, NULL, XA_LIMIT(1, INT_MAX), &region_next, GFP_KERNEL_ACCOUNT);
	if (ret < 0)
		return ret == -EBUSY ? -ENOSPC : ret;
	region->key = (u64)get_random_u32() << 32 | number;
	xa_store(&regions, number, region, GFP_KERNEL);
	return 0;
}

/* As ibr_pins_get(), but what cannot be found later is an error. */
static struct ibr_pins *region_pin(struct ibr_space *space, unsigned long start, unsigned long length, bool write)
{
	struct ibr_pins *pins = ERR_PTR(-EAGAIN);
	int try;

	for (try = 0; try < TRIES; try++) {
		pins = ibr_pins_get(space, start, length, write, IBR_LIMIT_OWN);
		if (IS_ERR(pins) || ibr_pins_fresh(pins))
			break;
		ibr_pins_put(pins);
		pins = ERR_PTR(-EAGAIN);
		usleep_range(100, 200);
	}
	/* What is there, but cannot be pinned, is of a file that is written back. */
	if (pins == ERR_PTR(-EFAULT) && write && !fault_in_safe_writeable((char __user *)start, length))
		return ERR_PTR(-EOPNOTSUPP);
	return pins == ERR_PTR(-EPERM) ? ERR_PTR(-ENOMEM) : pins;
}

/*
 * What peers read later is to be what the process has written until then. To be pinned for reading, memory that was
 * not written yet, or is shared with a child, may be pages that it leaves behind when it writes (always so before
 * Linux 6.2): so it is pinned for writing, unless it cannot be written.
 */
static struct ibr_pins *region_pin_as(struct ibr_space *space, const struct ibrelk_region_create *create)
{
	bool write = create->flags & IBRELK_REGION_WRITE;
	struct ibr_pins *pins;

	if (!write && create->flags & IBRELK_REGION_REMOTE_READ) {
		pins = region_pin(space, create->addr, create->length, true);
		if (pins != ERR_PTR(-EFAULT) && pins != ERR_PTR(-EOPNOTSUPP))
			return pins;
	}
	return region_pin(space, create->addr, create->length, write);
}

struct file *ibr_region_create(struct ibrelk_region_create *create)
{
	const void __user *user = u64_to_user_ptr(create->addr);
	struct ibr_region *region;
	struct file *file;
	int ret;

	if (create->flags & ~(IBRELK_REGION_WRITE | REGION_REMOTE) || create->key || !create->length ||
	    create->length > IBRELK_REGION_MAX)
		return ERR_PTR(-EINVAL);
	if (create->flags & IBRELK_REGION_REMOTE_WRITE && !(create->flags & IBRELK_REGION_WRITE))
		return ERR_PTR(-EINVAL);
	if (create->addr != (unsigned long)create->addr || !access_ok(user, create->length))
		return ERR_PTR(-EFAULT);

	region = kzalloc(sizeof(*region), GFP_KERNEL_ACCOUNT);
	if (!region)
		return ERR_PTR(-ENOMEM);
	kref_init(&region->ref);
	region->owner = current->files;
	region->address = create->addr;
	region->length = create->length;
	region->flags = create->flags;
	spin_lock_init(&region->lock);
	INIT_LIST_HEAD(&region->accesses);
	INIT_LIST_HEAD(&region->ending);
	init_waitqueue_head(&region->quiet);
	region->space = ibr_space_open();
	file = ERR_CAST(region->space);
	if (IS_ERR(region->space))
		goto free;
	region->pins = region_pin_as(region->space, create);
	file = ERR_CAST(region->pins);
	if (IS_ERR(region->pins))
		goto close;
	if (!ibr_pins_region(region->pins)) {
		ibr_pins_put(region->pins);
		file = ERR_PTR(-EAGAIN);	/* nobody sees it */
		goto close;
	}
	if (create->flags & REGION_REMOTE) {
		ret = region_publish(region);
		if (ret) {
			file = ERR_PTR(ret);
			goto unpin;
		}
	}
	file = anon_inode_getfile("[ibrelk-region]", &region_fops, region, O_RDWR | O_CLOEXEC);
	if (IS_ERR(file))
		region_close(region);
	else
		create->key = region->key;
	return file;

unpin:
	ibr_pins_put_region(region->space, region->pins);
close:
	ibr_space_close(region->space);
free:
	kfree(region);
	return file;
}
