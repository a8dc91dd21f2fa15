/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the parts of the simulator have in common: the run's parameters, randomness, time, failure.
 */
#ifndef SIM_H
#define SIM_H

#include <stdbool.h>
#include <stdint.h>
#include "config.h"
#include "event.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SIM_NODES_MAX	64

/* Streams of random numbers, so that a change of one part does not shift what the others draw */
enum sim_stream {
	SIM_RANDOM_CONFIG,
	SIM_RANDOM_KERNEL,
	SIM_RANDOM_SCHEDULE,
	SIM_RANDOM_WIRE,
	SIM_RANDOM_CM,
	SIM_RANDOM_APP,
	SIM_RANDOM_FAULT,
	SIM_RANDOM_ALLOC,
	SIM_RANDOM_INTERRUPT,
	SIM_STREAMS
};

extern struct sim_config sim_config;
/* sim_memory_busy() - has a worker that copies or pins user memory anything to do, on any node? */
bool sim_memory_busy(void);
/* sim_troubled - the time of faults: afterwards nothing goes wrong any more */
extern bool sim_troubled;
extern bool sim_tracing;
/* sim_only_processes - in this run nothing but processes is ever late (witness.c) */
extern bool sim_only_processes;

void sim_seed(u64 seed);
u64 sim_random(enum sim_stream stream);
/* sim_below() - 0 to @n - 1; 0 if @n is 0 */
u64 sim_below(enum sim_stream stream, u64 n);
/* sim_chance() - true in @ppm of a million cases */
bool sim_chance(enum sim_stream stream, u64 ppm);

/* sim_fail() - the run has failed: @check names what was violated, the rest says how. Does not return */
void sim_fail(const char *check, const char *format, ...) __attribute__((noreturn, format(printf, 2, 3)));
void sim_trace(const char *format, ...) __attribute__((format(printf, 1, 2)));
#define sim_trace(...)	do { if (__builtin_expect(sim_tracing, 0)) (sim_trace)(__VA_ARGS__); } while (0)
/* sim_note() - goes into the fingerprint of the run, by which two runs are compared */
void sim_note(u64 value);

/* What is counted over all runs */
struct sim_counts {
	u64 events, packets, lost, accepted, preempted, messages, delivered, bytes, connections, lanes, refused_allocs;
	u64 rejected_old, written, resets, mapped, regions, steps;
};

extern struct sim_counts sim_counts;
extern u64 sim_fingerprint;

/* ---- event.cpp: time and contexts ---- */

/* sim_node - on whose behalf something is done now */
u32 sim_node(void);
void sim_after(u64 delay_ns, enum sim_context context, u32 node, void (*function)(void *), void *argument);
/* sim_run() - until that time, or until nothing is left that could happen. Return: something is left */
bool sim_run(u64 until);
void sim_pause_node(u32 node, u64 until);
void sim_jump(u64 ns);
/* sim_preempt() - something else may run here */
void sim_preempt(void);
void sim_interrupt(void);
/* sim_preempt_off - above 0: nothing does */
extern int sim_preempt_off;
/* sim_enter(), sim_leave() - do something on behalf of a node, in a context */
void sim_enter(enum sim_context context, u32 node, u64 serial);
void sim_leave(void);
/* sim_switch_node() - called whenever another node's turn has come (world.c) */
void sim_switch_node(u32 node);
u64 sim_next_serial(void);
void sim_rcu_flush(void);
/* sim_forget() - an object that is freed after a grace period is no path any more (witness.c) */
void sim_forget(const void *object);

/* lock.cpp: of the thing that is running */
struct sim_held {
	struct sim_lock *lock[8];
	u8 locks, mutexes, bh, rcu;
	enum sim_context context;
};

struct sim_held *sim_held_now(void);

/* ---- alloc.cpp ---- */

/* sim_alloc_check() - nothing may be left at the end */
void sim_alloc_check(void);
u64 sim_alloc_live(void);
/* sim_alloc_bytes() - what is allocated on behalf of a node */
u64 sim_alloc_bytes(u32 node);

#ifdef __cplusplus
}
#endif

#endif /* SIM_H */
