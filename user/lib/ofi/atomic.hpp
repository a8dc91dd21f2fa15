// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Atomics: integers of 32 and 64 bits, which the peer's kernel computes with.
#pragma once

#include <cstddef>
#include <cstdint>

#include <rdma/fi_atomic.h>

namespace ibrelk::ofi
{

extern fi_ops_atomic atomic_ops;

/// What comes back, and what goes there for it: nothing; what was there before; the same, and a comparison.
enum class AtomicKind : std::uint8_t { base, fetch, compare };

/// The buffers of one kind, which an atomic takes for one that is cut into pieces.
struct Elements {
	const fi_ioc *pieces = nullptr;
	std::size_t pieces_count = 0;

	/// Elements of all pieces; what is too many for any atomic is some such number.
	[[nodiscard]] std::size_t count() const noexcept;
	/// Whether there is memory for each piece.
	[[nodiscard]] bool exists() const noexcept;
	/// Where they are if they are in one piece, else nullptr.
	[[nodiscard]] void *whole() const noexcept
	{
		return pieces_count == 1 ? pieces->addr : nullptr;
	}
	/// Moves what they are, or become, from or to one piece of memory.
	void gather(std::byte *into, std::size_t element_bytes) const noexcept;
	void scatter(const std::byte *from, std::size_t element_bytes) const noexcept;
};

/// An atomic as an operation has it; members that an operation does not have stay as they are here.
struct Atomic {
	AtomicKind kind;
	fi_datatype type;
	fi_op op;
	std::size_t count; // elements of each buffer
	fi_addr_t address;
	std::uint64_t remote_addr;
	std::uint64_t remote_key;
	void *context;
	std::uint64_t flags;
	Elements operands;
	Elements compares;
	Elements results;
	bool injected = false;
};

/// How many elements one may have, and their size; -FI_EOPNOTSUPP.
int limits_of(AtomicKind kind, fi_datatype type, fi_op op, fi_atomic_attr &limits) noexcept;

/// The kernel's word for what limits_of() allows.
std::uint32_t kernel_atomic(fi_datatype type, fi_op op) noexcept;

} // namespace ibrelk::ofi
