/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Serial arithmetic (RFC 1982) on 32-bit packet numbers, which wrap. Numbers may be compared only
 * by these helpers, and only while they are less than 2^31 apart; whoever compares a received
 * number makes sure that being wrong about one that is farther away does no harm.
 */
#ifndef REL_SEQ_H
#define REL_SEQ_H

#include "port.h"

/** rel_seq_diff() - how far @a is ahead of @b; negative if it is behind */
static inline s32 rel_seq_diff(u32 a, u32 b)
{
	return (s32)(a - b);
}

/** rel_seq_before() - is @a older than @b? */
static inline bool rel_seq_before(u32 a, u32 b)
{
	return rel_seq_diff(a, b) < 0;
}

/** rel_seq_after() - is @a newer than @b? */
static inline bool rel_seq_after(u32 a, u32 b)
{
	return rel_seq_diff(a, b) > 0;
}

/** rel_seq_max() - the newer one; @a if they are exactly 2^31 apart, so that what only rises does not jump */
static inline u32 rel_seq_max(u32 a, u32 b)
{
	return rel_seq_after(b, a) ? b : a;
}

#endif /* REL_SEQ_H */
