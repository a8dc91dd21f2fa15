/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Locks, contexts, RCU, atomics and reference counts. The simulator runs one thing at a time, so a lock keeps
 * nobody out: it is only checked. Taking one twice, out of order, or in the wrong context, sleeping under a
 * spinlock, and giving back what is not held are failures of the run (lock.cpp).
 *
 * Where a spinlock is given back in process context something else may run at once, as on a real machine with
 * several processors: see sim_preempt().
 */
#ifndef SIM_LOCK_H
#define SIM_LOCK_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

struct sim_lock {
	const char *name;	/* its class; all locks of one class are ordered alike */
	u16 class_id;
	bool sleeps;
	bool held;
};

typedef struct {
	struct sim_lock lock;
} spinlock_t;

struct mutex {
	struct sim_lock lock;
};

void sim_lock_init(struct sim_lock *lock, const char *name, bool sleeps);
void sim_lock_acquire(struct sim_lock *lock);
void sim_lock_release(struct sim_lock *lock);
void sim_lock_check(const struct sim_lock *lock, const char *where);
void sim_bh_disable(void);
void sim_bh_enable(void);
void sim_might_sleep(const char *what);
void sim_rcu_lock(void);
void sim_rcu_unlock(void);
bool sim_in_task(void);

#define DEFINE_SPINLOCK(x)	spinlock_t x = { { .name = #x } }
#define DEFINE_MUTEX(x)		struct mutex x = { { .name = #x, .sleeps = true } }
#define spin_lock_init(l)	sim_lock_init(&(l)->lock, #l, false)
#define mutex_init(l)		sim_lock_init(&(l)->lock, #l, true)
#define spin_lock(l)		sim_lock_acquire(&(l)->lock)
#define spin_unlock(l)		sim_lock_release(&(l)->lock)
#define spin_lock_bh(l)		do { sim_bh_disable(); sim_lock_acquire(&(l)->lock); } while (0)
#define spin_unlock_bh(l)	do { sim_lock_release(&(l)->lock); sim_bh_enable(); } while (0)
#define mutex_lock(l)		sim_lock_acquire(&(l)->lock)
#define mutex_unlock(l)		sim_lock_release(&(l)->lock)
#define lockdep_assert_held(l)	sim_lock_check(&(l)->lock, __func__)
#define lockdep_is_held(l)	((l)->lock.held)
#define local_bh_disable()	sim_bh_disable()
#define local_bh_enable()	sim_bh_enable()
#define might_sleep()		sim_might_sleep(__func__)
#define in_task()		sim_in_task()
#define irqs_disabled()		false

/* RCU: what was freed is freed later, when nobody is inside (sim_rcu_free()). */
void sim_rcu_free(const void *memory);
void rcu_barrier(void);
void synchronize_rcu(void);
#define rcu_read_lock()		sim_rcu_lock()
#define rcu_read_unlock()	sim_rcu_unlock()
#define rcu_dereference(p)	(p)
#define rcu_dereference_protected(p, condition)	({ if (!(condition)) sim_lock_check(NULL, __func__); (p); })
#define rcu_assign_pointer(p, value)	((p) = (value))
#define RCU_INIT_POINTER(p, value)	((p) = (value))
#define kfree_rcu(p, member)	sim_rcu_free(p)

/* One processor, nothing is reordered. */
#define smp_mb()		do { } while (0)
#define smp_mb__before_atomic()	do { } while (0)
#define smp_mb__after_atomic()	do { } while (0)
#define smp_rmb()	smp_mb()
#define smp_load_acquire(p)	READ_ONCE(*(p))
#define smp_store_release(p, value)	WRITE_ONCE(*(p), value)
#define try_cmpxchg(p, old, new)	(*(p) == *(old) ? (*(p) = (new), true) : (*(old) = *(p), false))
#define cmpxchg(p, old, new)	({ __typeof__(*(p)) was_ = *(p); if (was_ == (old)) *(p) = (new); was_; })
#define cpu_relax()		do { } while (0)
#define cond_resched()		do { } while (0)

/* Atomics */
typedef struct {
	int counter;
} atomic_t;

typedef struct {
	s64 counter;
} atomic64_t;

#define ATOMIC_INIT(i)		{ i }
#define ATOMIC64_INIT(i)	{ i }
#define atomic_read(v)		((v)->counter)
#define atomic_set(v, i)	((v)->counter = (i))
#define atomic_add(i, v)	((void)((v)->counter += (i)))
#define atomic_inc(v)		((void)((v)->counter++))
#define atomic_dec(v)		((void)((v)->counter--))
#define atomic_inc_return(v)	(++(v)->counter)
#define atomic_sub_return(i, v)	((v)->counter -= (i))
#define atomic_sub(i, v)	((void)((v)->counter -= (i)))
#define atomic_dec_return(v)	(--(v)->counter)
#define atomic_dec_and_test(v)	(--(v)->counter == 0)
#define atomic_add_unless(v, i, u)	((v)->counter != (int)(u) ? ((v)->counter += (i), true) : false)
#define atomic_add_return(i, v)	((v)->counter += (i))
#define atomic64_read(v)	((v)->counter)
#define atomic64_inc(v)		((void)((v)->counter++))
#define atomic64_add(i, v)	((void)((v)->counter += (s64)(i)))
#define atomic64_sub(i, v)	((void)((v)->counter -= (s64)(i)))
#define atomic64_add_return(i, v)	((v)->counter += (s64)(i))
#define atomic64_try_cmpxchg(v, old, new)	try_cmpxchg(&(v)->counter, old, new)

/* Reference counts; one that was 0 may not come back, nor go below. */
typedef struct {
	int refs;
} refcount_t;

void sim_ref_bad(const char *what);

static inline void refcount_set(refcount_t *r, int n)
{
	r->refs = n;
}

static inline int refcount_read(const refcount_t *r)
{
	return r->refs;
}

static inline void refcount_inc(refcount_t *r)
{
	if (r->refs <= 0 || r->refs > (1 << 24))
		sim_ref_bad("a reference is taken to what has none");
	r->refs++;
}

static inline bool refcount_inc_not_zero(refcount_t *r)
{
	if (r->refs < 0 || r->refs > (1 << 24))
		sim_ref_bad("a reference count is nonsense");
	if (!r->refs)
		return false;
	r->refs++;
	return true;
}

static inline bool refcount_dec_and_test(refcount_t *r)
{
	if (r->refs <= 0 || r->refs > (1 << 24))
		sim_ref_bad("a reference is dropped that nobody has");
	return !--r->refs;
}

static inline bool refcount_dec_and_mutex_lock(refcount_t *r, struct mutex *lock)
{
	if (!refcount_dec_and_test(r))
		return false;
	mutex_lock(lock);
	return true;
}

struct kref {
	refcount_t refcount;
};

static inline void kref_init(struct kref *ref)
{
	refcount_set(&ref->refcount, 1);
}

static inline unsigned int kref_read(const struct kref *ref)
{
	return refcount_read(&ref->refcount);
}

static inline void kref_get(struct kref *ref)
{
	refcount_inc(&ref->refcount);
}

static inline bool kref_get_unless_zero(struct kref *ref)
{
	return refcount_inc_not_zero(&ref->refcount);
}

static inline int kref_put(struct kref *ref, void (*release)(struct kref *ref))
{
	if (!refcount_dec_and_test(&ref->refcount))
		return 0;
	release(ref);
	return 1;
}

#ifdef __cplusplus
}
#endif

#endif /* SIM_LOCK_H */
