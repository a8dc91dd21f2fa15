// SPDX-License-Identifier: GPL-2.0-only
/*
 * Atomics. All types are computed in 64 bits: of what is narrower the lower half comes out the same, and how it is
 * widened says how it compares.
 */
#include <linux/atomic.h>
#include <linux/compiler.h>
#include <linux/string.h>

#include "atomic.h"

static_assert(sizeof(unsigned long) == sizeof(u64), "a processor that compares and exchanges 64 bits");

static bool is_signed(u8 type)
{
	return type == IBRELK_ATOMIC_S32 || type == IBRELK_ATOMIC_S64;
}

static u64 widen(u8 type, u32 value)
{
	return is_signed(type) ? (u64)(s64)(s32)value : value;
}

static bool less(u8 type, u64 left, u64 right)
{
	return is_signed(type) ? (s64)left < (s64)right : left < right;
}

/* What takes the place of @old. */
static u64 compute(u8 op, u8 type, u64 old, u64 operand, u64 compare)
{
	switch (op) {
	case IBRELK_ATOMIC_MIN:
		return less(type, operand, old) ? operand : old;
	case IBRELK_ATOMIC_MAX:
		return less(type, old, operand) ? operand : old;
	case IBRELK_ATOMIC_SUM:
		return old + operand;
	case IBRELK_ATOMIC_PROD:
		return old * operand;
	case IBRELK_ATOMIC_LOR:
		return old || operand;
	case IBRELK_ATOMIC_LAND:
		return old && operand;
	case IBRELK_ATOMIC_BOR:
		return old | operand;
	case IBRELK_ATOMIC_BAND:
		return old & operand;
	case IBRELK_ATOMIC_LXOR:
		return !old != !operand;
	case IBRELK_ATOMIC_BXOR:
		return old ^ operand;
	case IBRELK_ATOMIC_WRITE:
		return operand;
	case IBRELK_ATOMIC_CSWAP:
		return compare == old ? operand : old;
	case IBRELK_ATOMIC_CSWAP_NE:
		return compare != old ? operand : old;
	case IBRELK_ATOMIC_CSWAP_LE:
		return !less(type, old, compare) ? operand : old;
	case IBRELK_ATOMIC_CSWAP_LT:
		return less(type, compare, old) ? operand : old;
	case IBRELK_ATOMIC_CSWAP_GE:
		return !less(type, compare, old) ? operand : old;
	case IBRELK_ATOMIC_CSWAP_GT:
		return less(type, old, compare) ? operand : old;
	case IBRELK_ATOMIC_MSWAP:
		return (old & ~compare) | (operand & compare);
	default:
		return old;
	}
}

/* What stays the same is not written: memory that is only read may be read-only. */
static u32 apply_32(const struct ibr_atomic *atomic, u32 *target, u32 operand, u32 compare)
{
	u32 old = READ_ONCE(*target), new;

	do {
		new = compute(atomic->op, atomic->type, widen(atomic->type, old), widen(atomic->type, operand),
			      widen(atomic->type, compare));
	} while (new != old && !try_cmpxchg(target, &old, new));
	return old;
}

static u64 apply_64(const struct ibr_atomic *atomic, u64 *target, u64 operand, u64 compare)
{
	u64 old = READ_ONCE(*target), new;

	do {
		new = compute(atomic->op, atomic->type, old, operand, compare);
	} while (new != old && !try_cmpxchg(target, &old, new));
	return old;
}

static u64 load(const void *from, u32 offset, u32 size)
{
	u64 value = 0;
	u32 half = 0;

	if (!from)
		return 0;
	if (size == sizeof(value)) {
		memcpy(&value, from + offset, size);
		return value;
	}
	memcpy(&half, from + offset, size);
	return half;
}

void ibr_atomic_apply(const struct ibr_atomic *atomic, u32 offset, void *target, u32 bytes, void *before)
{
	u32 size = ibr_atomic_size(atomic->type);
	u32 end = offset + bytes;

	for (; offset < end; offset += size, target += size) {
		u64 operand = load(atomic->operand, offset, size);
		u64 compare = load(atomic->compare, offset, size);

		if (size == sizeof(u32)) {
			u32 old = apply_32(atomic, target, operand, compare);

			if (before)
				memcpy(before + offset, &old, size);
		} else {
			u64 old = apply_64(atomic, target, operand, compare);

			if (before)
				memcpy(before + offset, &old, size);
		}
	}
}
