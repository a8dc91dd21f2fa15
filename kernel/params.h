/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What an administrator can set (module parameters, main.c), and the limits that everybody who
 * opens the device lives within.
 */
#ifndef IBR_PARAMS_H
#define IBR_PARAMS_H

#include <linux/types.h>

/* Where counters that wrap begin; the simulator has them begin just below the wrap (testing.rst). */
#ifndef IBR_COUNTERS_START
#define IBR_COUNTERS_START	0u
#endif

/* Limits of the user interface, reported by IBRELK_IOC_QUERY. */
#define IBR_MESSAGE_MAX		(32ull << 30)	/* bytes of a message, and of a posted receive */
#define IBR_BATCH_MAX		1024u		/* commands in one submission */
#define IBR_RECVS_MAX		(128u << 10)	/* receives posted on an endpoint */
#define IBR_MULTI_MAX		(4u << 20)	/* bytes of a multi-receive's buffer; at most IBR_UMEM_RESIDENT */
#define IBR_SENDS_MAX		(64u << 10)	/* sends outstanding on an endpoint */
#define IBR_RING_ENTRIES_MAX	(256u << 10)	/* completions in a ring: 16 MiB */

#define IBR_EAGER_MAX_DEFAULT	8192u
#define IBR_EAGER_MAX_LIMIT	32768u

/*
 * ibr_allow_native - endpoints may use the native modes, which lose messages when the wire does
 *
 * Root may change it at run time; read it with READ_ONCE().
 */
extern bool ibr_allow_native;

/* ibr_eager_max - longest message sent without a rendezvous, bytes; constant after loading */
extern unsigned int ibr_eager_max;

/* ibr_credit_wait_us - how long messages wait for eager credit before they go by RTS; READ_ONCE() */
extern unsigned int ibr_credit_wait_us;

/* ibr_loopback - messages to the own node go through memory instead of the adapter; READ_ONCE() */
extern bool ibr_loopback;

#endif /* IBR_PARAMS_H */
