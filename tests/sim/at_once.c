// SPDX-License-Identifier: GPL-2.0-only
/*
 * Two threads at once in kernel/pins.c, which the simulator does not have: it lets each run to its end. One tells of a
 * change of memory, and lets go of the lock after so many ranges, as it does; meanwhile the other one fails to pin the
 * range that this one has come to, or tells of another change. Or one unpins what others have let go of, while
 * another one has no room. What is wrong then, AddressSanitizer sees, or the test.
 * Prints "N passed, N failed".
 */
#include "shim.h"

/* What the process may do with its memory is what the test says. */
#undef find_vma
#define find_vma(mm, at)		(&memory)

/* Between the two looks at how much is charged. */
static bool others_pin(void);
#undef ns_capable_noaudit
#define ns_capable_noaudit(ns, x)	others_pin()

/* Whoever waits lets the thread that unpins go on until he is woken, and is stuck if that ends without. */
static bool others_go_on(void);
static bool woken;
#undef wait_event_killable
#undef wq_has_sleeper
#undef wake_up_all
#define wq_has_sleeper(wq)			true
#define wake_up_all(wq)				((void)(woken = true))
#define wait_event_killable(wq, condition)	\
	({ bool met_; while (!(met_ = (condition)) && others_go_on()); met_ ? 0 : -EINTR; })

static struct vm_area_struct memory = { 0, -1ul, 0, VM_READ | VM_WRITE };

#include "pins.c"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>

/* ---- what the simulator has for one thread ---------------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;	/* there is one space, and so one that matters */
static sem_t pinning, paused;
static __thread bool teller;
static bool pauses, over;
static int looks;		/* of the other thread, while the teller pauses */
static u64 now = 1;
static struct mm_struct mm;
static struct sim_task task;

struct sim_task *sim_current = &task;

void *calloc(size_t count, size_t size);
void free(void *memory);

void sim_bh_disable(void) { }
void sim_bh_enable(void) { }
void sim_lock_init(struct sim_lock *l, const char *name, bool softirq) { }
void sim_lock_check(const struct sim_lock *l, const char *what) { }
void sim_might_sleep(const char *what) { }
void sim_ref_bad(const char *what) { }
bool sim_alloc_refuse(gfp_t flags) { return false; }
bool sim_page_of_file(const struct page *page) { return false; }
u64 sim_now(void) { return now; }
void *sim_alloc(size_t size, gfp_t gfp, const char *who) { return calloc(1, size); }
void *kmem_cache_alloc(struct kmem_cache *cache, gfp_t gfp) { return calloc(1, sizeof(struct ibr_pins)); }
void kmem_cache_free(struct kmem_cache *cache, void *object) { free(object); }

static unsigned long unpinned;		/* pages */
static __thread bool flusher;		/* the thread that unpins, which stops before each range */
static sem_t stopped, go_on;

void unpin_user_pages(struct page **pages, unsigned long count)
{
	if (flusher) {
		sem_post(&stopped);
		sem_wait(&go_on);
	}
	unpinned += count;
	while (count--)
		free(pages[count]);
}

void sim_sleep(u64 ns) { sched_yield(); }
void mmdrop(struct mm_struct *of) { }
struct ibr_user *ibr_user_get_current(void) { return NULL; }
void ibr_user_put(struct ibr_user *user) { }
bool queue_work(struct workqueue_struct *queue, struct work_struct *work) { return work->function(work), true; }
bool queue_delayed_work(struct workqueue_struct *queue, struct delayed_work *work, unsigned long delay) { return true; }
bool cancel_delayed_work(struct delayed_work *work) { return false; }
void sim_free(const void *memory) { free((void *)memory); }

void sim_lock_acquire(struct sim_lock *l)
{
	pthread_mutex_lock(&lock);
	if (!teller && !pauses)
		looks++;
}

/* The teller pauses until the other one has gone on, or waits for it to. */
void sim_lock_release(struct sim_lock *l)
{
	bool pause = teller && pauses;

	pauses = pauses && !pause;
	looks = pause ? 0 : looks;
	pthread_mutex_unlock(&lock);
	if (!pause)
		return;
	sem_post(&paused);
	for (bool wait = true; wait; sched_yield()) {
		pthread_mutex_lock(&lock);
		wait = !over && looks < 10;
		pthread_mutex_unlock(&lock);
	}
}

static bool writable = true;		/* so page tables say */

/* The one that fails does when the other one has come to it. */
int pin_user_pages_fast(unsigned long start, int count, unsigned int flags, struct page **pages)
{
	if (!writable)
		return -EFAULT;
	if (pauses) {
		sem_post(&pinning);
		sem_wait(&paused);
		return -EFAULT;
	}
	for (int i = 0; i < count; i++)
		pages[i] = calloc(1, sizeof(struct page));
	return count;
}

/* Page tables show what is mapped no more, mmap_lock does not: see unmapped_before_told(). */
static bool mapped = true;

long pin_user_pages(unsigned long start, unsigned long count, unsigned int flags, struct page **pages)
{
	return mapped ? pin_user_pages_fast(start, count, flags, pages) : -EFAULT;
}

/* Ranges in the order of their starts. What is next is asked of the node itself, as in the kernel. */
static struct entry {
	struct entry *next;
	struct interval_tree_node *node;
} *entries;

void interval_tree_insert(struct interval_tree_node *node, struct rb_root_cached *root)
{
	struct entry **at = &entries, *entry = calloc(1, sizeof(*entry));

	while (*at && (*at)->node->start <= node->start)
		at = &(*at)->next;
	*entry = (struct entry) { *at, node };
	node->root = root;
	*at = entry;
}

void interval_tree_remove(struct interval_tree_node *node, struct rb_root_cached *root)
{
	struct entry **at = &entries, *gone;

	while ((*at)->node != node)
		at = &(*at)->next;
	gone = *at;
	*at = gone->next;
	free(gone);
}

static struct interval_tree_node *first_of(struct entry *entry, struct rb_root_cached *root, unsigned long start,
					   unsigned long last)
{
	for (; entry; entry = entry->next)
		if (entry->node->root == root && entry->node->start <= last && entry->node->last >= start)
			return entry->node;
	return NULL;
}

struct interval_tree_node *interval_tree_iter_first(struct rb_root_cached *root, unsigned long start, unsigned long last)
{
	return first_of(entries, root, start, last);
}

struct interval_tree_node *interval_tree_iter_next(struct interval_tree_node *node, unsigned long start,
						   unsigned long last)
{
	struct entry *entry = entries;

	while (entry && entry->node != node)
		entry = entry->next;
	return entry ? first_of(entry->next, node->root, start, last) : NULL;
}

/* ---- the tests -------------------------------------------------------------------------------- */

#define FIRST	0x100000ul
#define APART	0x10000ul

/* What the kernel announces, to be told by another thread. */
struct announced {
	struct ibr_space *space;
	struct mmu_notifier_range range;
};

static void *tell(void *argument)
{
	struct announced *announced = argument;

	sem_wait(&pinning);
	teller = true;
	space_invalidate_start(&announced->space->notifier, &announced->range);
	return NULL;
}

/* A space with ranges in use that nobody else is to find, as they were changed while they were made: told of first. */
static struct ibr_space *space_make(long hidden)
{
	struct ibr_space *space = space_alloc(&mm);
	long i;

	space->watched = true;
	space->openers = 1;
	space->invalidating = 1;
	for (i = 0; i < hidden; i++)
		ibr_pins_get(space, FIRST + i * APART, PAGE_SIZE, true, IBR_LIMIT_OWN);
	space->invalidating = 0;
	return space;
}

static pthread_t start(struct announced *announced)
{
	pthread_t thread;

	over = false;
	sem_init(&pinning, 0, 0);
	sem_init(&paused, 0, 0);
	pthread_create(&thread, NULL, tell, announced);
	pauses = true;
	return thread;
}

static void finish(pthread_t thread)
{
	pthread_mutex_lock(&lock);
	over = true;
	pthread_mutex_unlock(&lock);
	pthread_join(thread, NULL);
}

/* The last one that is told of in one go is just being made, and fails. */
static bool fails_while_told(void)
{
	struct announced unmap = {
		.space = space_make(WALK_MAX - 1),
		.range = { .mm = &mm, .start = FIRST, .end = FIRST + WALK_MAX * APART, .event = MMU_NOTIFY_UNMAP },
	};
	pthread_t thread = start(&unmap);
	struct ibr_pins *pins;

	pins = ibr_pins_get(unmap.space, FIRST + (WALK_MAX - 1) * APART, PAGE_SIZE, true, IBR_LIMIT_OWN);
	finish(thread);
	return pins == ERR_PTR(-EFAULT) && !pauses;
}

/*
 * The second page of a range that is found is unmapped; before that is told, another change, of its first one, hides
 * it, and who tells of the unmapping has passed its place among the hidden ones.
 */
static bool changed_while_told(void)
{
	const unsigned long place = FIRST - 2 * PAGE_SIZE;
	struct announced unmap = {
		.space = space_make(WALK_MAX),
		.range = { .mm = &mm, .start = place + PAGE_SIZE, .end = FIRST + WALK_MAX * APART,
			   .event = MMU_NOTIFY_UNMAP },
	};
	const struct mmu_notifier_range other = {
		.mm = &mm, .start = place, .end = place + PAGE_SIZE, .event = MMU_NOTIFY_CLEAR,
	};
	struct ibr_pins *pins = ibr_pins_get(unmap.space, place, 2 * PAGE_SIZE, true, IBR_LIMIT_OWN);
	pthread_t thread = start(&unmap);

	sem_post(&pinning);
	sem_wait(&paused);
	space_invalidate_start(&unmap.space->notifier, &other);
	finish(thread);
	return !pauses && ibr_pins_gone(pins, place + PAGE_SIZE, PAGE_SIZE) && !ibr_pins_gone(pins, place, PAGE_SIZE);
}

/* Memory is being unmapped, which was announced before there was a range to be told of it. */
static bool unmapped_before_told(void)
{
	struct ibr_space *space = space_make(0);
	const struct mmu_notifier_range unmap = {
		.mm = &mm, .start = FIRST, .end = FIRST + PAGE_SIZE, .event = MMU_NOTIFY_UNMAP,
	};
	struct ibr_pins *pins;

	space_invalidate_start(&space->notifier, &unmap);
	mapped = false;
	pins = ibr_pins_get(space, FIRST, PAGE_SIZE, true, IBR_LIMIT_OWN);
	mapped = true;
	sim_free(space);
	return pins == ERR_PTR(-EFAULT);
}

static struct ibr_pins *pin(struct ibr_space *space, unsigned long pages)
{
	return ibr_pins_get(space, FIRST, pages * PAGE_SIZE, true, IBR_LIMIT_OWN);
}

/* How many pages are unpinned by whoever submits something, or waits. */
static unsigned long flush(void)
{
	unsigned long before = unpinned;

	ibr_pins_flush();
	return unpinned - before;
}

/* What others have let go of is unpinned by a system call if it is short, and else by the worker. */
static bool unpinned_by_worker(void)
{
	const unsigned long many = 5000;
	struct ibr_space *space = space_make(0);
	struct ibr_pins *large = pin(space, many), *small = pin(space, 1);
	unsigned long before;
	bool good;

	ibr_pins_put(large);
	ibr_pins_put(small);
	ibr_space_put(space);
	good = flush() == 1 && flush() == 0;
	before = unpinned;
	pins_flush_work(NULL);
	return good && unpinned - before == many && !mm.pinned_vm.counter;
}

/* Who has no room unpins what his process has let go of, however much, and not what others have. */
static bool unpinned_for_room(void)
{
	static struct mm_struct other_mm;
	struct ibr_space *space = space_make(0), *other = space_make(0);
	struct ibr_pins *others, *own, *pins;
	unsigned long before = unpinned;
	bool good;

	other->mm = &other_mm;
	others = pin(other, 1);
	own = pin(space, 5000);
	ibr_pins_put(others);
	ibr_pins_put(own);
	pins = ibr_pins_get(space, FIRST, PAGE_SIZE, true, 1);
	good = !IS_ERR(pins) && unpinned - before == 5000 && other_mm.pinned_vm.counter == 1;
	if (!IS_ERR(pins))
		ibr_pins_put(pins);
	ibr_space_put(space);
	ibr_space_put(other);
	pins_flush_work(NULL);
	return good && !mm.pinned_vm.counter && !other_mm.pinned_vm.counter;
}

static pthread_t flushing;
static bool flusher_over;
static int waited;			/* for so many ranges */
static bool stuck;

static void *flush_stopping(void *what)
{
	flusher = true;
	((void (*)(void))what)();
	flusher_over = true;
	sem_post(&stopped);
	return NULL;
}

static void flusher_starts(void (*what)(void))
{
	sem_init(&stopped, 0, 0);
	sem_init(&go_on, 0, 0);
	flusher_over = stuck = false;
	waited = 0;
	pthread_create(&flushing, NULL, flush_stopping, what);
	sem_wait(&stopped);
}

static void flusher_goes_on(void)
{
	sem_post(&go_on);
	sem_wait(&stopped);
}

static void flusher_ends(void)
{
	while (!flusher_over)
		flusher_goes_on();
	pthread_join(flushing, NULL);
}

static struct ibr_pins *in_use[50];	/* that are let go of, one after the other, while somebody waits */
static int left_in_use;

static bool others_go_on(void)
{
	woken = false;
	while (!woken) {
		stuck = flusher_over;
		if (stuck)
			return false;
		now += NSEC_PER_SEC / HZ;
		if (left_in_use)
			ibr_pins_put(in_use[--left_in_use]);
		waited++;
		flusher_goes_on();
	}
	return true;
}

static struct ibr_pins *pin_page(struct ibr_space *space, int place, unsigned long limit)
{
	return ibr_pins_get(space, FIRST + place * APART, PAGE_SIZE, true, limit);
}

static bool give_back(struct ibr_space *space, struct ibr_pins *pins)
{
	bool good = !IS_ERR(pins);

	if (good)
		ibr_pins_put(pins);
	ibr_space_put(space);
	pins_flush_work(NULL);
	return good && !stuck;
}

/* Another one is unpinning what the process has let go of, and nobody finds it any more; it is still charged. */
static bool room_while_unpinned(void)
{
	struct ibr_space *space = space_make(0);
	struct ibr_pins *pins;

	ibr_pins_put(pin_page(space, 0, IBR_LIMIT_OWN));
	flusher_starts(ibr_pins_flush);
	pins = pin_page(space, 1, 1);
	flusher_ends();
	return give_back(space, pins) && waited == 1;
}

/* ... and of the second one that is unpinned he is not in need. */
static bool room_before_all_unpinned(void)
{
	struct ibr_space *space = space_make(0);
	struct ibr_pins *pins, *first = pin_page(space, 0, IBR_LIMIT_OWN), *second = pin_page(space, 1, IBR_LIMIT_OWN);

	ibr_pins_put(first);
	ibr_pins_put(second);
	flusher_starts(ibr_pins_flush);
	pins = pin_page(space, 2, 2);
	flusher_ends();
	return give_back(space, pins) && waited == 1;
}

static void flush_on(void)
{
	while (!llist_empty(raw_cpu_ptr(&dead_pins)))
		ibr_pins_flush();
}

/* There is always something that waits to be unpinned, as others go on to let go of some, but never enough room. */
static bool no_room_while_others_go_on(void)
{
	struct ibr_space *space = space_make(0);
	struct ibr_pins *pins;
	bool good;
	int i;

	for (i = 0; i < ARRAY_SIZE(in_use); i++)
		in_use[i] = pin_page(space, i, IBR_LIMIT_OWN);
	ibr_pins_put(in_use[--i]);
	flusher_starts(flush_on);
	left_in_use = i;
	pins = pin_page(space, i, 0);
	good = pins == ERR_PTR(-EPERM) && !stuck && waited == 1;
	while (left_in_use)
		ibr_pins_put(in_use[--left_in_use]);
	flusher_ends();
	give_back(space, pins);
	return good;
}

static void flush_own(void)
{
	pins_flush(&mm, 0);
}

/* Who unpins what takes long, all of his own or a worker, does not keep back meanwhile what others need. */
static bool room_while_others_are_unpinned(void (*what)(void), unsigned long pages, int waits)
{
	static struct mm_struct other_mm;
	struct ibr_space *space = space_make(0), *other = space_make(0);
	struct ibr_pins *others, *own, *pins;

	other->mm = &other_mm;
	others = pin_page(other, 0, IBR_LIMIT_OWN);
	own = pin(space, pages);
	ibr_pins_put(others);
	ibr_pins_put(own);
	flusher_starts(what);
	pins = pin_page(other, 2, 1);
	flusher_ends();
	ibr_space_put(space);
	return give_back(other, pins) && waited == waits;
}

/* mprotect() has announced that memory is to be read only, which page tables do not say yet. */
static bool protected_while_pinned(void)
{
	struct ibr_space *space = space_make(0);
	const struct mmu_notifier_range protect = {
		.mm = &mm, .start = FIRST, .end = FIRST + PAGE_SIZE, .event = MMU_NOTIFY_PROTECTION_VMA,
	};
	struct ibr_pins *pins, *first;

	space_invalidate_start(&space->notifier, &protect);
	first = pin_page(space, 0, IBR_LIMIT_OWN);
	writable = false;
	memory.vm_flags = VM_READ;
	pins = pin_page(space, 0, IBR_LIMIT_OWN);
	writable = true;
	memory.vm_flags |= VM_WRITE;
	return give_back(space, first) && pins == ERR_PTR(-EFAULT);
}

/* What is write-protected by userfaultfd is looked at each time, and refused, but not kept each time. */
static bool refused_is_not_kept(void)
{
	struct ibr_space *space = space_make(0);
	bool good = true;
	int i;

	space->idle_max = 100;
	memory.vm_flags |= VM_UFFD_WP;
	for (i = 0; i < 5; i++) {
		struct ibr_pins *pins = pin_page(space, 0, IBR_LIMIT_OWN);

		good &= !IS_ERR(pins);
		if (!IS_ERR(pins))
			ibr_pins_put(pins);
	}
	memory.vm_flags &= ~VM_UFFD_WP;
	good &= space->idle_pages == 1;
	space_trim(space, 0);
	pins_flush_all();
	sim_free(space);
	return good;
}

static struct ibr_space *pinning_too;
static struct ibr_pins *pinned_too;

static bool others_pin(void)
{
	struct ibr_space *space = pinning_too;

	pinning_too = NULL;
	if (space)
		pinned_too = pin_page(space, 1, IBR_LIMIT_OWN);
	return false;
}

/* Somebody asks for more than there is room for, and another one at that moment for less. */
static bool room_while_refused(void)
{
	struct ibr_space *space = space_make(0);

	task.memlock = 10 * PAGE_SIZE;
	pinning_too = space;
	return pin(space, 20) == ERR_PTR(-EPERM) && give_back(space, pinned_too);
}

int main(void)
{
	int passed = 0;

	task.mm = &mm;
	task.memlock = 1ul << 40;
	passed += fails_while_told();
	passed += changed_while_told();
	passed += unmapped_before_told();
	/* Those have left some behind. */
	mm.pinned_vm.counter = 0;
	passed += unpinned_by_worker();
	passed += unpinned_for_room();
	passed += room_while_unpinned();
	passed += room_before_all_unpinned();
	passed += no_room_while_others_go_on();
	passed += room_while_others_are_unpinned(flush_own, 1, 0);
	passed += room_while_others_are_unpinned(pins_flush_all, 5000, 1);
	passed += protected_while_pinned();
	passed += refused_is_not_kept();
	passed += room_while_refused();
	printf("%d passed, %d failed\n", passed, 13 - passed);
	return passed != 13;
}
