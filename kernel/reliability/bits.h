/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A set of 128 bits, one for each number of the largest span: what is in flight, what has been
 * seen, and the SACK field of the header, whose layout it shares. Sets are relative to a base
 * number, so that they move by shifting and two of them are compared by two instructions. (Two
 * words rather than __int128, which 32-bit kernels lack.)
 */
#ifndef REL_BITS_H
#define REL_BITS_H

#include "port.h"

#define REL_BITS	128

/** struct rel_bits - bit i is bit i % 64 of word[i / 64] */
struct rel_bits {
	u64 word[2];
};

static inline bool rel_bits_any(struct rel_bits bits)
{
	return bits.word[0] | bits.word[1];
}

static inline bool rel_bits_test(const struct rel_bits *bits, u32 i)
{
	return bits->word[i / 64] >> (i % 64) & 1;
}

static inline void rel_bits_set(struct rel_bits *bits, u32 i)
{
	bits->word[i / 64] |= 1ull << (i % 64);
}

static inline void rel_bits_clear(struct rel_bits *bits, u32 i)
{
	bits->word[i / 64] &= ~(1ull << (i % 64));
}

/** rel_bits_first() - index of the lowest bit; the set must not be empty */
static inline u32 rel_bits_first(struct rel_bits bits)
{
	return bits.word[0] ? __ffs64(bits.word[0]) : 64 + __ffs64(bits.word[1]);
}

/** rel_bits_last() - index of the highest bit; the set must not be empty */
static inline u32 rel_bits_last(struct rel_bits bits)
{
	return bits.word[1] ? 63 + fls64(bits.word[1]) : fls64(bits.word[0]) - 1;
}

/** rel_bits_ones() - how many bits are set from bit 0 on without a hole */
static inline u32 rel_bits_ones(struct rel_bits bits)
{
	if (~bits.word[0])
		return __ffs64(~bits.word[0]);
	return ~bits.word[1] ? 64 + __ffs64(~bits.word[1]) : REL_BITS;
}

/** rel_bits_low() - the set of bits 0 to @count - 1; @count may be anything */
static inline struct rel_bits rel_bits_low(u32 count)
{
	struct rel_bits bits = { { ~0ull, ~0ull } };

	if (count < 64)
		bits.word[0] = (1ull << count) - 1;
	if (count <= 64)
		bits.word[1] = 0;
	else if (count < REL_BITS)
		bits.word[1] = (1ull << (count - 64)) - 1;
	return bits;
}

/** rel_bits_down() - the set as seen from a base that is @by higher; @by may be anything */
static inline struct rel_bits rel_bits_down(struct rel_bits bits, u32 by)
{
	if (by >= REL_BITS)
		return (struct rel_bits){ { 0, 0 } };
	if (by >= 64)
		return (struct rel_bits){ { bits.word[1] >> (by - 64), 0 } };
	if (!by)
		return bits;
	return (struct rel_bits){ { bits.word[0] >> by | bits.word[1] << (64 - by),
				    bits.word[1] >> by } };
}

/** rel_bits_up() - the set as seen from a base that is @by lower; @by may be anything */
static inline struct rel_bits rel_bits_up(struct rel_bits bits, u32 by)
{
	if (by >= REL_BITS)
		return (struct rel_bits){ { 0, 0 } };
	if (by >= 64)
		return (struct rel_bits){ { 0, bits.word[0] << (by - 64) } };
	if (!by)
		return bits;
	return (struct rel_bits){ { bits.word[0] << by,
				    bits.word[1] << by | bits.word[0] >> (64 - by) } };
}

#endif /* REL_BITS_H */
