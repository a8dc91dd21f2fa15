/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Time, and whatever happens at some time: high-resolution timers, work, tasklets, polling softirqs. All of it is
 * events in one queue of virtual time (event.cpp). Which of two that are due at the same time goes first is drawn
 * from the seed. An event belongs to the node on whose behalf it was made, so that a node can be stopped as a whole.
 */
#ifndef SIM_EVENT_H
#define SIM_EVENT_H

#include "lock.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Which rules hold while it runs */
enum sim_context {
	SIM_NOBODY,		/* outside of every event */
	SIM_WIRE,		/* the network and the adapters themselves */
	SIM_SOFTIRQ,
	SIM_WORK,
	SIM_PROCESS,		/* a system call */
	SIM_ADMIN,		/* the administrator, or a checker: interrupts nothing */
};

struct sim_timer {
	u64 at, tie, id;	/* place in the queue; id 0: in none */
	u64 serial;		/* tells the object from others that have had its address; 0: to be given */
};

u64 sim_now(void);
void sim_timer_start(struct sim_timer *timer, u64 at, enum sim_context context, void (*function)(void *),
		     void *argument);
bool sim_timer_stop(struct sim_timer *timer);
/* sim_soon() - a short time from now, drawn from the seed: what it takes until a softirq or a worker runs */
u64 sim_soon(enum sim_context context);
/* sim_run_one() - let something happen, in process context, while the caller waits. Return: there was something */
bool sim_run_one(void);
bool sim_serial_running(u64 serial);

/* Time */
#define HZ			250
#define KTIME_MAX		S64_MAX
#define jiffies			((unsigned long)(sim_now() / (NSEC_PER_SEC / HZ)))
#define get_jiffies_64()	((u64)jiffies)
#define time_after(a, b)	((long)((b) - (a)) < 0)
#define time_after_eq(a, b)	((long)((a) - (b)) >= 0)
#define time_before(a, b)	((long)((a) - (b)) < 0)
#define time_after_eq64(a, b)	((s64)((a) - (b)) >= 0)
#define ktime_get_ns()		sim_now()
#define ktime_get()		((ktime_t)sim_now())
#define ns_to_ktime(ns)		((ktime_t)(ns))
#define ktime_compare(a, b)	((a) < (b) ? -1 : (a) > (b))
#define ktime_add_safe(a, b)	((a) + (b) < 0 ? KTIME_MAX : (a) + (b))

static inline unsigned long msecs_to_jiffies(unsigned int ms)
{
	return ((unsigned long)ms * HZ + 999) / 1000;
}

static inline unsigned int jiffies_to_msecs(unsigned long j)
{
	return j * 1000 / HZ;
}

#define usleep_range(a, b)	sim_sleep((a) * 1000ull)
#define msleep(ms)		sim_sleep((ms) * 1000000ull)
void sim_sleep(u64 ns);

/* hrtimer */
enum hrtimer_restart { HRTIMER_NORESTART, HRTIMER_RESTART };
enum hrtimer_mode { HRTIMER_MODE_ABS, HRTIMER_MODE_ABS_SOFT };
struct hrtimer {
	struct sim_timer timer;
	enum hrtimer_restart (*function)(struct hrtimer *timer);
};

#ifndef CLOCK_MONOTONIC
#define CLOCK_MONOTONIC 1
#endif
void hrtimer_setup(struct hrtimer *timer, enum hrtimer_restart (*function)(struct hrtimer *), int clock,
		   enum hrtimer_mode mode);
void hrtimer_start(struct hrtimer *timer, ktime_t at, enum hrtimer_mode mode);
int hrtimer_cancel(struct hrtimer *timer);
extern u64 sim_hrtimers_fired; /* so many have gone off */

/* Work */
struct workqueue_struct;
struct work_struct {
	struct sim_timer timer;
	struct workqueue_struct *wq;
	void (*function)(struct work_struct *work);
	struct list_head entry;		/* of what is pending in wq, delayed work excepted */
	bool at_once;			/* without a delay: who flushes the queue waits for it */
};

struct delayed_work {
	struct work_struct work;
};

#define WQ_UNBOUND	0
#define WQ_MEM_RECLAIM	0
#define WQ_HIGHPRI	0
#define INIT_WORK(w, f)		(*(w) = (struct work_struct) { .function = (f) })
#define INIT_DELAYED_WORK(w, f)	(*(w) = (struct delayed_work) { .work = { .function = (f) } })
#define DECLARE_DELAYED_WORK(name, f)	struct delayed_work name = { .work = { .function = (f) } }
#define to_delayed_work(w)	container_of(w, struct delayed_work, work)
struct workqueue_struct *alloc_workqueue(const char *name, int flags, int max, ...);
void destroy_workqueue(struct workqueue_struct *wq);
void flush_workqueue(struct workqueue_struct *wq);
bool queue_work(struct workqueue_struct *wq, struct work_struct *work);
bool queue_delayed_work(struct workqueue_struct *wq, struct delayed_work *work, unsigned long delay);
bool mod_delayed_work(struct workqueue_struct *wq, struct delayed_work *work, unsigned long delay);
bool cancel_delayed_work(struct delayed_work *work);
bool cancel_work_sync(struct work_struct *work);
bool flush_work(struct work_struct *work);
#define cancel_delayed_work_sync(dw)	cancel_work_sync(&(dw)->work)
#define delayed_work_pending(dw)	((dw)->work.timer.id != 0)

/* Tasklets and polling softirqs */
struct tasklet_struct {
	struct sim_timer timer;
	void (*function)(struct tasklet_struct *tasklet);
};

#define from_tasklet(var, t, member)	container_of(t, __typeof__(*var), member)
void tasklet_setup(struct tasklet_struct *tasklet, void (*function)(struct tasklet_struct *));
void tasklet_schedule(struct tasklet_struct *tasklet);
void tasklet_kill(struct tasklet_struct *tasklet);

struct irq_poll {
	struct sim_timer timer;
	bool scheduled;
	bool disabled;
	int weight;
	int (*function)(struct irq_poll *poll, int budget);
};

void irq_poll_init(struct irq_poll *poll, int weight, int (*function)(struct irq_poll *, int));
void irq_poll_sched(struct irq_poll *poll);
void irq_poll_complete(struct irq_poll *poll);
void irq_poll_disable(struct irq_poll *poll);

/* Waiting */
struct completion {
	bool done;
};

#define init_completion(c)	((c)->done = false)
#define complete(c)		((c)->done = true)
void wait_for_completion(struct completion *completion);

#ifdef __cplusplus
}
#endif

#endif /* SIM_EVENT_H */
