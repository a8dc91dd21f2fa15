// SPDX-License-Identifier: GPL-2.0-only
//
// Checks of locks and contexts: see shim/lock.h. Two classes of locks that are taken in both orders are found
// even if nothing ever goes wrong, as lockdep does.

#include "sim.h"

#include <bitset>
#include <cstring>
#include <vector>

namespace
{

constexpr std::size_t classes_max = 64;
std::vector<const char *> classes{"none"};
std::bitset<classes_max> after[classes_max]; // after[a][b]: b was taken with a held

u16 class_of(const char *name)
{
	for (std::size_t i = 1; i < classes.size(); i++)
		if (!std::strcmp(classes[i], name))
			return static_cast<u16>(i);
	if (classes.size() == classes_max)
		sim_fail("shim", "too many classes of locks");
	classes.push_back(name);
	return static_cast<u16>(classes.size() - 1);
}

bool leads_to(std::size_t from, std::size_t to, std::bitset<classes_max> &seen)
{
	if (after[from][to])
		return true;
	seen[from] = true;
	for (std::size_t i = 1; i < classes.size(); i++)
		if (after[from][i] && !seen[i] && leads_to(i, to, seen))
			return true;
	return false;
}

void order_check(const sim_lock *held, const sim_lock *lock)
{
	if (held->class_id == lock->class_id)
		sim_fail("lock", "%s is taken with another %s held", lock->name, held->name);
	if (after[held->class_id][lock->class_id])
		return;
	std::bitset<classes_max> seen;
	if (leads_to(lock->class_id, held->class_id, seen))
		sim_fail("lock", "%s is taken with %s held, and elsewhere the other way round", lock->name,
			held->name);
	after[held->class_id][lock->class_id] = true;
}

} // namespace

void sim_lock_init(sim_lock *lock, const char *name, bool sleeps)
{
	lock->name = name;
	lock->class_id = 0;
	lock->sleeps = sleeps;
	lock->held = false;
}

void sim_lock_acquire(sim_lock *lock)
{
	auto *now = sim_held_now();

	if (!lock->class_id)
		lock->class_id = class_of(lock->name);
	if (lock->sleeps)
		sim_might_sleep(lock->name);
	else if (!now->bh && now->context != SIM_SOFTIRQ)
		sim_fail("lock", "%s is taken with bottom halves enabled", lock->name);
	if (lock->held)
		sim_fail("lock", "%s is taken twice", lock->name);
	for (u8 i = 0; i < now->locks; i++)
		order_check(now->lock[i], lock);
	if (now->locks == 8)
		sim_fail("shim", "too many locks");
	now->lock[now->locks++] = lock;
	now->mutexes += lock->sleeps;
	lock->held = true;
}

void sim_lock_release(sim_lock *lock)
{
	auto *now = sim_held_now();
	u8 i = now->locks;

	while (i && now->lock[i - 1] != lock)
		i--;
	if (!i || !lock->held)
		sim_fail("lock", "%s is given back, but not held", lock->name);
	for (; i < now->locks; i++)
		now->lock[i - 1] = now->lock[i];
	now->locks--;
	now->mutexes -= lock->sleeps;
	lock->held = false;
	if (lock->sleeps)
		sim_preempt();
	else
		sim_interrupt();
}

void sim_lock_check(const sim_lock *lock, const char *where)
{
	if (!lock || !lock->held)
		sim_fail("lock", "%s() without %s", where, lock ? lock->name : "its lock");
}

void sim_bh_disable()
{
	sim_held_now()->bh++;
}

void sim_bh_enable()
{
	auto *now = sim_held_now();

	if (!now->bh)
		sim_fail("lock", "bottom halves are enabled once too often");
	if (!--now->bh)
		sim_preempt();
}

void sim_might_sleep(const char *what)
{
	const auto *now = sim_held_now();

	if (now->context == SIM_SOFTIRQ || now->bh || now->rcu || now->locks > now->mutexes)
		sim_fail("lock", "%s may sleep, but must not here", what);
}

void sim_rcu_lock()
{
	sim_held_now()->rcu++;
}

void sim_rcu_unlock()
{
	if (!sim_held_now()->rcu--)
		sim_fail("lock", "left an RCU section that was not entered");
}

bool sim_in_task()
{
	const auto context = sim_held_now()->context;

	return context == SIM_WORK || context == SIM_PROCESS || context == SIM_ADMIN || context == SIM_NOBODY;
}

void sim_ref_bad(const char *what)
{
	sim_fail("reference", "%s", what);
}
