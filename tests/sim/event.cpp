// SPDX-License-Identifier: GPL-2.0-only
//
// Virtual time: one queue of events, and the rules by which one may interrupt another. See shim/event.h.

#include "sim.h"

#include "process.h"

#include <array>
#include <cstring>
#include <map>
#include <tuple>
#include <vector>

namespace
{

// Of a run: more is no run but a storm. Not counted are the steps of applications, which come by the clock,
// whatever the module does: of sixteen that look each 3 us there are more in 2 s.
constexpr u64 events_max = 5'000'000;
constexpr std::size_t depth_max = 4;

struct Key {
	u64 at, tie, id;
	auto operator<=>(const Key &) const = default; // NOLINT(modernize-use-nullptr): there is none
};

struct Event {
	sim_timer *timer; // or null: nobody can take it back
	sim_context context;
	u32 node;
	void (*function)(void *);
	void *argument;
	u64 serial;
};

struct Frame {
	sim_held held;
	u32 node;
	u64 serial;
	sim_task *task;
};

std::map<Key, Event> queue;
std::vector<Frame> frames(1);
std::array<u64, SIM_NODES_MAX> paused{};
std::vector<const void *> rcu_waiting;
u64 now = 1'000'000'000;
u64 next_id = 1;
u64 next_serial = 1;

void insert(Key key, const Event &event)
{
	queue.emplace(key, event);
	if (event.timer) {
		event.timer->at = key.at;
		event.timer->tie = key.tie;
		event.timer->id = key.id;
	}
}

Key new_key(u64 at)
{
	return {at, sim_random(SIM_RANDOM_SCHEDULE), next_id++};
}

// May it run while all that is on the stack stands still?
bool may_nest(const Event &event)
{
	if (frames.size() > depth_max)
		return false;
	if (event.context == SIM_WIRE || event.context == SIM_SOFTIRQ)
		return true;
	if (event.context == SIM_ADMIN)
		return frames.size() == 1;
	for (std::size_t i = 1; i < frames.size(); i++) {
		const auto &frame = frames[i];
		if (frame.held.mutexes || frame.held.context == event.context)
			return false;
		if (event.serial && frame.serial == event.serial)
			return false;
	}
	return true;
}

void run(std::map<Key, Event>::iterator it)
{
	const Event event = it->second;
	const Key key = it->first;
	if (event.timer) {
		if (event.timer->id != key.id)
			sim_fail("timer",
				"something that was freed, or overwritten, is still in the queue of events");
		event.timer->id = 0;
	}
	queue.erase(it);
	if (paused[event.node] > std::max(now, key.at) && event.context != SIM_WIRE &&
		event.context != SIM_ADMIN) {
		Key later = key;
		later.at = paused[event.node];
		insert(later, event);
		return;
	}
	if (++sim_counts.events - sim_counts.steps > events_max)
		sim_fail("storm", "more than %llu events", events_max);
	now = std::max(now, key.at);
	sim_enter(event.context, event.node, event.serial);
	event.function(event.argument);
	sim_leave();
}

} // namespace

u64 sim_now()
{
	return now;
}

u32 sim_node()
{
	return frames.back().node;
}

u64 sim_next_serial()
{
	return next_serial++;
}

sim_held *sim_held_now()
{
	return &frames.back().held;
}

void sim_enter(sim_context context, u32 node, u64 serial)
{
	Frame frame{};
	frame.held.context = context;
	frame.node = node;
	frame.serial = serial;
	frame.task = sim_current;
	if (frames.back().node != node)
		sim_switch_node(node);
	frames.push_back(frame);
}

void sim_leave()
{
	const Frame frame = frames.back();
	if (frame.held.locks || frame.held.bh || frame.held.rcu)
		sim_fail("lock", "something ended with a lock held: %s",
			frame.held.locks        ? frame.held.lock[0]->name
				: frame.held.bh ? "bh"
						: "rcu");
	frames.pop_back();
	sim_current = frame.task;
	if (frames.back().node != frame.node)
		sim_switch_node(frames.back().node);
}

void sim_timer_start(sim_timer *timer, u64 at, sim_context context, void (*function)(void *), void *argument)
{
	sim_timer_stop(timer);
	if (!timer->serial)
		timer->serial = next_serial++;
	insert(new_key(std::max(at, now)), {timer, context, sim_node(), function, argument, timer->serial});
}

bool sim_timer_stop(sim_timer *timer)
{
	if (!timer->id)
		return false;
	if (!queue.erase({timer->at, timer->tie, timer->id}))
		sim_fail("timer", "a timer that is taken back is not in the queue");
	timer->id = 0;
	return true;
}

void sim_after(u64 delay_ns, sim_context context, u32 node, void (*function)(void *), void *argument)
{
	insert(new_key(now + delay_ns), {nullptr, context, node, function, argument, 0});
}

u64 sim_soon(sim_context context)
{
	const u64 most = (context == SIM_WORK ? sim_config.work_us : sim_config.softirq_us) * 1000;
	return now + 100 + sim_below(SIM_RANDOM_SCHEDULE, most);
}

bool sim_serial_running(u64 serial)
{
	for (const auto &frame : frames)
		if (serial && frame.serial == serial)
			return true;
	return false;
}

bool sim_run(u64 until)
{
	while (!queue.empty()) {
		auto it = queue.begin();
		if (it->first.at > until) {
			now = std::max(now, until);
			return true;
		}
		run(it);
	}
	now = std::max(now, until);
	return false;
}

bool sim_run_one()
{
	for (auto it = queue.begin(); it != queue.end(); ++it)
		if (may_nest(it->second)) {
			run(it);
			return true;
		}
	return false;
}

int sim_preempt_off;

void sim_preempt()
{
	const Frame &frame = frames.back();
	const auto context = frame.held.context;
	if ((context != SIM_WORK && context != SIM_PROCESS && context != SIM_ADMIN) || frame.held.bh ||
		frame.held.locks > frame.held.mutexes || frame.held.rcu || frames.size() > depth_max ||
		sim_preempt_off || !sim_chance(SIM_RANDOM_SCHEDULE, sim_config.preempt))
		return;
	// Mostly for a moment, sometimes for as long as a processor may be taken away.
	now += sim_below(SIM_RANDOM_SCHEDULE, sim_chance(SIM_RANDOM_SCHEDULE, 100'000) ? 2'000'000 : 10'000);
	for (u64 more = 1 + sim_below(SIM_RANDOM_SCHEDULE, 4); more; more--) {
		auto it = queue.begin();
		while (it != queue.end() && it->first.at <= now && !may_nest(it->second))
			++it;
		if (it == queue.end() || it->first.at > now)
			return;
		sim_counts.preempted++;
		run(it);
	}
}

static void rcu_grace(void *);

// Adapters go on while a softirq runs, and say so by interrupts: at the end of a part that holds a spinlock.
void sim_interrupt()
{
	if (frames.back().held.context != SIM_SOFTIRQ || frames.size() > depth_max || sim_preempt_off ||
		!sim_config.interrupt || !sim_chance(SIM_RANDOM_INTERRUPT, sim_config.interrupt))
		return;
	now += sim_below(SIM_RANDOM_INTERRUPT, 10'000);
	for (auto it = queue.begin(); it != queue.end() && it->first.at <= now; ++it) {
		if (it->second.context != SIM_WIRE || it->second.function == rcu_grace)
			continue;
		sim_counts.preempted++;
		run(it);
		return;
	}
}

void sim_pause_node(u32 node, u64 until)
{
	paused[node] = until;
}

void sim_jump(u64 ns)
{
	now += ns;
}

void sim_sleep(u64 ns)
{
	static int spinning;
	static u64 since;

	sim_might_sleep("sleep");
	spinning = since == now ? spinning + 1 : 0;
	since = now;
	if (spinning > 1000)
		sim_fail("lock", "waits for what cannot happen");
	(void)ns;
	sim_preempt();
}

// ---- RCU ---------------------------------------------------------------------------------------

void sim_rcu_flush()
{
	std::vector<const void *> free;
	free.swap(rcu_waiting);
	for (const void *memory : free)
		sim_free(memory);
}

static void rcu_grace(void *)
{
	sim_rcu_flush();
}

void sim_rcu_free(const void *memory)
{
	if (!memory)
		return;
	if (rcu_waiting.empty())
		sim_after(1000 + sim_below(SIM_RANDOM_SCHEDULE, 20'000'000), SIM_WIRE, sim_node(), rcu_grace,
			nullptr);
	rcu_waiting.push_back(memory);
}

void rcu_barrier()
{
	sim_might_sleep("rcu_barrier");
	sim_rcu_flush();
}

void synchronize_rcu()
{
	sim_might_sleep("synchronize_rcu");
	sim_preempt();
}

// ---- timers ------------------------------------------------------------------------------------

u64 sim_hrtimers_fired;

static void hrtimer_fire(void *argument)
{
	auto *timer = static_cast<hrtimer *>(argument);
	sim_hrtimers_fired++;
	if (timer->function(timer) != HRTIMER_NORESTART)
		sim_fail("shim", "timers that start themselves again are not simulated");
}

void hrtimer_setup(hrtimer *timer, hrtimer_restart (*function)(hrtimer *), int, hrtimer_mode)
{
	*timer = {};
	timer->function = function;
}

void hrtimer_start(hrtimer *timer, ktime_t at, hrtimer_mode)
{
	const u64 late = sim_below(SIM_RANDOM_SCHEDULE, sim_config.softirq_us * 1000 + 1);
	if (at < 0)
		sim_fail("shim", "a timer that is to go off at %lld, at once in a kernel", at);
	sim_timer_start(&timer->timer, static_cast<u64>(at) + late, SIM_SOFTIRQ, hrtimer_fire, timer);
}

int hrtimer_cancel(hrtimer *timer)
{
	sim_might_sleep("hrtimer_cancel");
	return sim_timer_stop(&timer->timer);
}

// ---- work --------------------------------------------------------------------------------------

struct workqueue_struct {
	list_head pending;
	bool memory; // of user memory
	bool slow;   // its work may be
};

static u32 memory_running;

static void work_start(work_struct *work, u64 at);

static void work_fire(void *argument)
{
	auto *work = static_cast<work_struct *>(argument);
	const bool memory = work->wq->memory;
	list_del_init(&work->entry);
	memory_running += memory;
	work->function(work);
	memory_running -= memory;
}

bool sim_memory_busy()
{
	for (const auto &[key, event] : queue) {
		if (event.function != work_fire)
			continue;
		const auto *work = static_cast<work_struct *>(event.argument);
		if (work->wq->memory && work->at_once)
			return true;
	}
	return memory_running > 0;
}

workqueue_struct *alloc_workqueue(const char *name, int, int, ...)
{
	auto *wq = static_cast<workqueue_struct *>(kzalloc(sizeof(workqueue_struct), GFP_KERNEL));
	if (wq) {
		INIT_LIST_HEAD(&wq->pending);
		wq->memory = !std::strncmp(name, "ibrelk_memory", std::strlen("ibrelk_memory"));
		wq->slow = wq->memory || !std::strcmp(name, "ibrelk_pins");
	}
	return wq;
}

static void work_start(work_struct *work, u64 at)
{
	if (!work->entry.next)
		INIT_LIST_HEAD(&work->entry);
	sim_timer_start(&work->timer, at, SIM_WORK, work_fire, work);
	list_add_tail(&work->entry, &work->wq->pending);
}

bool queue_work(workqueue_struct *wq, work_struct *work)
{
	if (work->timer.id)
		return false;
	work->wq = wq;
	work->at_once = true;
	u64 at = sim_soon(SIM_WORK);
	// Pages may have to come from a disk first.
	if (wq->slow && sim_troubled && sim_chance(SIM_RANDOM_FAULT, sim_config.slow_memory))
		at += sim_below(SIM_RANDOM_FAULT, sim_config.slow_memory_ms * 1'000'000);
	work_start(work, at);
	return true;
}

bool queue_delayed_work(workqueue_struct *wq, delayed_work *work, unsigned long delay)
{
	if (work->work.timer.id)
		return false;
	work->work.wq = wq;
	work->work.at_once = !delay;
	// A delay of some jiffies ends with one of them.
	work_start(&work->work,
		delay ? (now / 4'000'000 + delay) * 4'000'000 + sim_soon(SIM_WORK) - now
		      : sim_soon(SIM_WORK));
	return true;
}

bool cancel_delayed_work(delayed_work *work)
{
	if (!sim_timer_stop(&work->work.timer))
		return false;
	list_del_init(&work->work.entry);
	return true;
}

bool mod_delayed_work(workqueue_struct *wq, delayed_work *work, unsigned long delay)
{
	const bool pending = cancel_delayed_work(work);
	queue_delayed_work(wq, work, delay);
	return pending;
}

// Work runs to its end in one go, so there is nothing to wait for but by mistake. (Work whose time has come
// but that has not begun is not waited for either: the module flushes only what runs by the clock.)
bool flush_work(work_struct *work)
{
	sim_might_sleep("flush_work");
	if (sim_serial_running(work->timer.serial))
		sim_fail("lock", "waits for work by which it was called");
	return false;
}

bool cancel_work_sync(work_struct *work)
{
	sim_might_sleep("cancel_work_sync");
	if (sim_serial_running(work->timer.serial))
		sim_fail("lock", "waits for work by which it was called");
	if (!sim_timer_stop(&work->timer))
		return false;
	list_del_init(&work->entry);
	return true;
}

// Delayed work is not flushed, as in the kernel, unless its time has come.
void flush_workqueue(workqueue_struct *wq)
{
	sim_might_sleep("flush_workqueue");
	for (;;) {
		auto it = queue.begin();
		for (; it != queue.end(); ++it) {
			if (it->second.function != work_fire)
				continue;
			const auto *work = static_cast<work_struct *>(it->second.argument);
			if (work->wq == wq &&
				(work->at_once || it->first.at <= now + 2 * sim_config.work_us * 1000) &&
				may_nest(it->second))
				break;
		}
		if (it == queue.end())
			return;
		run(it);
	}
}

void destroy_workqueue(workqueue_struct *wq)
{
	flush_workqueue(wq);
	if (!list_empty(&wq->pending))
		sim_fail("work", "delayed work is pending in a queue that goes");
	kfree(wq);
}

void wait_for_completion(completion *completion)
{
	const u64 limit = now + 60'000'000'000;

	sim_might_sleep("wait_for_completion");
	while (!completion->done)
		if (now > limit || !sim_run_one())
			sim_fail("progress", "what is waited for does not come");
}

// ---- softirqs ----------------------------------------------------------------------------------

static void tasklet_fire(void *argument)
{
	auto *tasklet = static_cast<tasklet_struct *>(argument);
	tasklet->function(tasklet);
}

void tasklet_setup(tasklet_struct *tasklet, void (*function)(tasklet_struct *))
{
	*tasklet = {};
	tasklet->function = function;
}

void tasklet_schedule(tasklet_struct *tasklet)
{
	if (!tasklet->timer.id)
		sim_timer_start(&tasklet->timer, sim_soon(SIM_SOFTIRQ), SIM_SOFTIRQ, tasklet_fire, tasklet);
}

void tasklet_kill(tasklet_struct *tasklet)
{
	sim_might_sleep("tasklet_kill");
	sim_timer_stop(&tasklet->timer);
}

static void irq_poll_fire(void *argument)
{
	auto *poll = static_cast<irq_poll *>(argument);
	const int done = poll->function(poll, poll->weight);
	// One that has used its budget up is still scheduled, and runs again.
	if (done >= poll->weight && poll->scheduled)
		sim_timer_start(&poll->timer, sim_soon(SIM_SOFTIRQ), SIM_SOFTIRQ, irq_poll_fire, poll);
}

void irq_poll_init(irq_poll *poll, int weight, int (*function)(irq_poll *, int))
{
	*poll = {};
	poll->weight = weight;
	poll->function = function;
}

void irq_poll_sched(irq_poll *poll)
{
	if (poll->scheduled || poll->disabled)
		return;
	poll->scheduled = true;
	sim_timer_start(&poll->timer, sim_soon(SIM_SOFTIRQ), SIM_SOFTIRQ, irq_poll_fire, poll);
}

void irq_poll_complete(irq_poll *poll)
{
	poll->scheduled = false;
}

// In the kernel it waits until the softirq has run for the last time.
void irq_poll_disable(irq_poll *poll)
{
	sim_might_sleep("irq_poll_disable");
	if (sim_timer_stop(&poll->timer)) {
		sim_enter(SIM_SOFTIRQ, sim_node(), poll->timer.serial);
		irq_poll_fire(poll);
		sim_leave();
		sim_timer_stop(&poll->timer);
	}
	poll->scheduled = true;
	poll->disabled = true;
}
