/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the pure code (the engine and matching) needs from its surroundings, and nothing else. In the
 * kernel that is a few headers; in user space (unit tests, simulator, fuzzers) tests/unit/port_user.h
 * supplies the same names, so that the same source files compile unchanged in both.
 */
#ifndef REL_PORT_H
#define REL_PORT_H

#ifdef __KERNEL__
#include <linux/bitops.h>
#include <linux/bug.h>
#include <linux/build_bug.h>
#include <linux/byteorder/generic.h>
#include <linux/crc32c.h>
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/minmax.h>
#include <linux/string.h>
#include <linux/types.h>

/* A broken invariant of our own code; nothing that a peer or a user sends may trigger it. */
#define rel_assert(condition)	WARN_ON_ONCE(!(condition))

static inline u32 rel_crc32c(u32 seed, const void *data, u32 len)
{
	return crc32c(seed, data, len);
}
#else
#include "port_user.h"
#endif

#endif /* REL_PORT_H */
