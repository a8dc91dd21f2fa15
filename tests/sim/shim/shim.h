/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What stands behind every <linux/...>, <net/...> and <rdma/...> header when kernel/ is compiled for the simulator.
 */
#ifndef SIM_SHIM_H
#define SIM_SHIM_H

#include "alloc.h"
#include "base.h"
#include "event.h"
#include "lock.h"
#include "process.h"
#include "rdma.h"
#include "table.h"

/* Where counters that wrap begin, of all that is made from now on. */
extern u32 sim_counters_start;
#define IBR_COUNTERS_START	sim_counters_start

/* compat.h speaks of it; the simulator comes by ibr_command_batch(). */
struct io_uring_sqe {
	u8 cmd[16];
};

struct io_uring_cmd {
	const struct io_uring_sqe *sqe;
};

#endif /* SIM_SHIM_H */
