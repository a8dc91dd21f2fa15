/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Atomics: what a peer lets this node compute in the memory of a process.
 */
#ifndef IBR_ATOMIC_H
#define IBR_ATOMIC_H

#include <linux/types.h>
#include <ibrelk/uapi.h>

/**
 * struct ibr_atomic - an atomic, of some elements of one type
 * @op: enum ibrelk_atomic_op
 * @type: enum ibrelk_atomic_type
 * @length: bytes of the elements, at most IBRELK_ATOMIC_BYTES, a multiple of an element's size
 * @operand: as many; not used by IBRELK_ATOMIC_READ
 * @compare: as many, for those that compare, and IBRELK_ATOMIC_MSWAP
 */
struct ibr_atomic {
	u8 op;
	u8 type;
	u32 length;
	const void *operand;
	const void *compare;
};

/** ibr_atomic_size() - bytes of an element of this enum ibrelk_atomic_type */
static inline u32 ibr_atomic_size(u8 type)
{
	return type == IBRELK_ATOMIC_S32 || type == IBRELK_ATOMIC_U32 ? 4 : 8;
}

/** ibr_atomic_compares() - does this enum ibrelk_atomic_op have a second operand? */
static inline bool ibr_atomic_compares(u8 op)
{
	return op >= IBRELK_ATOMIC_CSWAP;
}

/**
 * ibr_atomic_apply() - compute some of the elements
 * @atomic: what
 * @offset: of the first one, bytes
 * @target: where it is: mapped, aligned to the size of an element
 * @bytes: how much
 * @before: what was there, from this offset on; or NULL
 *
 * Each element is replaced as by one instruction of a processor: also for processes that work on it by atomic
 * instructions of theirs. Context: any.
 */
void ibr_atomic_apply(const struct ibr_atomic *atomic, u32 offset, void *target, u32 bytes, void *before);

#endif /* IBR_ATOMIC_H */
