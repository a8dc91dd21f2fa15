/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Processes: who calls, its memory and descriptors. User memory is the simulator's own, so a user address is a
 * pointer. Once it is unmapped, what had pinned it has other memory (process.cpp).
 */
#ifndef SIM_PROCESS_H
#define SIM_PROCESS_H

#include "alloc.h"
#include "event.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
	u32 value;
} kuid_t;

struct user_namespace {
	struct user_namespace *parent;
	kuid_t owner;
};

extern struct user_namespace init_user_ns;

struct mmu_notifier;

struct mm_struct {
	atomic64_t pinned_vm;
	struct mmu_notifier *notifier;
	int count;		/* mmgrab() */
	int users;		/* mmget(); 0: the process is gone, and its memory with it */
	s64 pages;		/* pinned now, by the simulator's own count */
};

struct sim_task {
	struct mm_struct *mm;
	void *files;
	u32 pid;
	u32 uid;
	unsigned long memlock;	/* bytes */
	u32 flags;
	u64 timer_slack_ns;
	u64 start_boottime;
};

extern struct sim_task *sim_current;
#ifndef __cplusplus
#define current			sim_current
#endif

#define current_euid()		((kuid_t) { current->uid })
#define current_uid()		current_euid()
#define PF_EXITING		4
#define uid_eq(a, b)		((a).value == (b).value)
#define from_kuid(ns, uid)	((uid).value)
#define from_kuid_munged(ns, uid)	((uid).value)
#define current_user_ns()	(&init_user_ns)
#define GLOBAL_ROOT_UID		((kuid_t) { 0 })
#define task_tgid_vnr(task)	((pid_t)(task)->pid)
#define capable(x)		true
#define ns_capable_noaudit(ns, x)	false
#define CAP_NET_ADMIN		12
#define CAP_IPC_LOCK		14
#define rlimit(x)		(current->memlock)
#define RLIMIT_MEMLOCK		8
#define signal_pending(task)	false
#define fatal_signal_pending(task)	false
#define single_task_running()	false

/* Memory */
struct page {
	struct mm_struct *mm;
	unsigned char *address;	/* where its bytes are */
	u64 pins;
	bool mapped;		/* these are still the process's */
};

struct folio {
	void *mapping;
};
struct mem_cgroup;
#define FOLL_WRITE		1u
#define FOLL_LONGTERM		2u
#define mmgrab(mm)		((void)((mm)->count++))
void mmdrop(struct mm_struct *mm);
bool mmget_not_zero(struct mm_struct *mm);
void mmput(struct mm_struct *mm);
void kthread_use_mm(struct mm_struct *mm);
void kthread_unuse_mm(struct mm_struct *mm);
#define get_mem_cgroup_from_mm(mm)	((struct mem_cgroup *)NULL)
#define set_active_memcg(memcg)	(memcg)
#define mem_cgroup_put(memcg)	((void)(memcg))
#define totalram_pages()	(1ul << 24)
int pin_user_pages_fast(unsigned long start, int count, unsigned int flags, struct page **pages);
long pin_user_pages(unsigned long start, unsigned long count, unsigned int flags, struct page **pages);
void unpin_user_pages(struct page **pages, unsigned long count);
#define unpin_user_pages_dirty_lock(pages, count, dirty)	unpin_user_pages(pages, count)
bool sim_page_of_file(const struct page *page);
#define page_folio(page)	((struct folio *)(page))
#define folio_test_hugetlb(folio)	false
#define folio_test_anon(folio)	(!sim_page_of_file((struct page *)(folio)))
#define folio_test_swapbacked(folio)	true	/* files are in memory */
#define memcpy_to_page(page, offset, from, bytes)	memcpy((page)->address + (offset), from, bytes)
#define kmap_local_page(page)	((void *)(page)->address)
#define kunmap_local(address)	((void)(address))
#define flush_dcache_page(page)	((void)(page))
#define memcpy_from_page(to, page, offset, bytes)	memcpy(to, (page)->address + (offset), bytes)

/* All of it may be read and written. */
#define VM_READ		1ul
#define VM_WRITE	2ul
#define VM_EXEC		4ul
#define VM_SHARED	8ul
#define VM_UFFD_WP	16ul
#define VM_MAYEXEC	32ul
#define vm_flags_clear(vma, flags)	((void)((vma)->vm_flags &= ~(flags)))

struct vm_area_struct {
	unsigned long vm_start, vm_end, vm_pgoff, vm_flags;
};

static inline int mmap_read_lock_killable(struct mm_struct *mm)
{
	(void)mm;
	sim_might_sleep("mmap_read_lock_killable");
	return 0;
}

#define mmap_read_unlock(mm)	((void)(mm))

static inline struct vm_area_struct *find_vma(struct mm_struct *mm, unsigned long address)
{
	static struct vm_area_struct all = { 0, -1ul, 0, VM_READ | VM_WRITE };

	(void)mm;
	(void)address;
	return &all;
}

/* Being told what becomes of it */
enum mmu_notifier_event { MMU_NOTIFY_UNMAP, MMU_NOTIFY_CLEAR, MMU_NOTIFY_PROTECTION_VMA };

struct mmu_notifier_range {
	struct mm_struct *mm;
	unsigned long start, end;
	enum mmu_notifier_event event;
};

struct mmu_notifier_ops {
	void (*release)(struct mmu_notifier *notifier, struct mm_struct *mm);
	int (*invalidate_range_start)(struct mmu_notifier *notifier, const struct mmu_notifier_range *range);
	void (*invalidate_range_end)(struct mmu_notifier *notifier, const struct mmu_notifier_range *range);
	struct mmu_notifier *(*alloc_notifier)(struct mm_struct *mm);
	void (*free_notifier)(struct mmu_notifier *notifier);
};

struct mmu_notifier {
	const struct mmu_notifier_ops *ops;
	struct mm_struct *mm;
	int users;
};

struct mmu_notifier *mmu_notifier_get(const struct mmu_notifier_ops *ops, struct mm_struct *mm);
void mmu_notifier_put(struct mmu_notifier *notifier);
#define mmu_notifier_synchronize()	do { } while (0)
/* Of whole pages: they are another memory from now on (MMU_NOTIFY_UNMAP), or only seem so. */
void sim_mm_change(struct mm_struct *mm, void *start, u64 bytes, enum mmu_notifier_event event);
/* How many of its pages are pinned now, of those that it still has. */
u64 sim_pages_pinned(const struct mm_struct *mm);
/* The process ends. */
void sim_mm_end(struct mm_struct *mm);

#define access_ok(p, bytes)	true
#define fault_in_safe_writeable(p, bytes)	0
#define fault_in_readable(p, bytes)		0

static inline unsigned long copy_from_user(void *to, const void *from, unsigned long bytes)
{
	sim_might_sleep("copy_from_user");
	memcpy(to, from, bytes);
	return 0;
}

static inline unsigned long copy_to_user(void *to, const void *from, unsigned long bytes)
{
	sim_might_sleep("copy_to_user");
	memcpy(to, from, bytes);
	return 0;
}

static inline unsigned long clear_user(void *to, unsigned long bytes)
{
	memset(to, 0, bytes);
	return 0;
}

/* Descriptors */
struct inode;
struct file;
struct poll_table_struct;
#define vm_insert_page(vma, address, page)	0
#define vmalloc_to_page(address)		((struct page *)(address))

typedef void *fl_owner_t;

struct file_operations {
	struct module *owner;
	__poll_t (*poll)(struct file *file, struct poll_table_struct *table);
	int (*mmap)(struct file *file, struct vm_area_struct *vma);
	long (*unlocked_ioctl)(struct file *file, unsigned int command, unsigned long argument);
	long (*compat_ioctl)(struct file *file, unsigned int command, unsigned long argument);
	int (*flush)(struct file *file, fl_owner_t id);
	int (*release)(struct inode *inode, struct file *file);
};

struct file {
	const struct file_operations *f_op;
	void *private_data;
	int refs;
	int fd;
};

#define compat_ptr_ioctl	NULL
#ifndef O_CLOEXEC
#define O_CLOEXEC	02000000
#endif
#ifndef O_RDWR
#define O_RDWR		2
#endif
struct file *anon_inode_getfile(const char *name, const struct file_operations *ops, void *data, int flags);
struct file *fget(int fd);
void fput(struct file *file);
int sim_fd_install(struct file *file);
void sim_fd_close(int fd);

/* Waiting in the kernel: nobody does, the simulator's processes look again later. */
#define EPOLLIN		0x001u
#define EPOLLPRI	0x002u
#define EPOLLOUT	0x004u
#define EPOLLRDNORM	0x040u
#define EPOLLWRNORM	0x100u
#define EPOLLWRBAND	0x200u
#define TASK_INTERRUPTIBLE	1

typedef struct wait_queue_head {
	struct list_head head;
} wait_queue_head_t;

#ifndef __cplusplus
struct wait_queue_entry {
	void *private;
	int (*func)(struct wait_queue_entry *entry, unsigned int mode, int flags, void *key);
	struct list_head entry;
};
#endif

#define DECLARE_WAIT_QUEUE_HEAD(wq)	wait_queue_head_t wq = { LIST_HEAD_INIT((wq).head) }
#define init_waitqueue_head(wq)		INIT_LIST_HEAD(&(wq)->head)
#define waitqueue_active(wq)		(!list_empty(&(wq)->head))
#define wq_has_sleeper(wq)		waitqueue_active(wq)
#define wake_up_poll(wq, mask)		do { } while (0)
#define wake_up_all(wq)			do { } while (0)
/* Whoever would wait is killed. */
#define wait_event_killable(wq, condition)	((condition) ? 0 : -EINTR)
#define wait_event_timeout(wq, condition, timeout)	({ long t_ = (timeout); (condition) ? (t_ > 0 ? t_ : 1) : 0; })
#define init_waitqueue_func_entry(e, f)	((e)->func = (f))
#define autoremove_wake_function(e, mode, flags, key)	1
#define prepare_to_wait(wq, e, state)	do { } while (0)
#define finish_wait(wq, e)		do { } while (0)
#define schedule_hrtimeout_range(deadline, slack, mode)	(sim_ref_bad("the simulator does not sleep here"), 0)
#define poll_wait(file, wq, table)	do { } while (0)

#ifdef __cplusplus
}
#endif

#endif /* SIM_PROCESS_H */
