// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "atomic.hpp"

#include <algorithm>
#include <cstring>

#include "ep.hpp"
#include "provider.hpp"

namespace ibrelk::ofi
{

namespace
{

Endpoint &endpoint(fid_ep *ep) noexcept
{
	return static_cast<Endpoint &>(*ep);
}

// Flags of the endpoint are meant for messages, too.
std::uint64_t usual_flags(fid_ep *ep) noexcept
{
	return endpoint(ep).tx_flags() & write_flags;
}

// The kernel's number of a type; 0: it does not know it. Numbers with a point are read and written as what
// they are made of; there is no computing with them.
std::uint32_t kernel_type(fi_datatype type, fi_op op) noexcept
{
	const bool moves = op == FI_ATOMIC_READ || op == FI_ATOMIC_WRITE;

	switch (type) {
	case FI_FLOAT: return moves ? IBRELK_ATOMIC_U32 : 0;
	case FI_DOUBLE: return moves ? IBRELK_ATOMIC_U64 : 0;
	case FI_INT32: return IBRELK_ATOMIC_S32;
	case FI_UINT32: return IBRELK_ATOMIC_U32;
	case FI_INT64: return IBRELK_ATOMIC_S64;
	case FI_UINT64: return IBRELK_ATOMIC_U64;
	default: return 0;
	}
}

bool is_of_kind(AtomicKind kind, fi_op op) noexcept
{
	if (op >= FI_CSWAP && op <= FI_MSWAP)
		return kind == AtomicKind::compare;
	if (op == FI_ATOMIC_READ)
		return kind == AtomicKind::fetch;
	return op >= FI_MIN && op <= FI_ATOMIC_WRITE && kind != AtomicKind::compare;
}

fi_ioc buffer(const void *first, std::size_t count) noexcept
{
	return {.addr = const_cast<void *>(first), .count = count};
}

fi_msg_atomic described(const fi_ioc *operands, std::size_t count, fi_addr_t address,
	const fi_rma_ioc *target, fi_datatype type, fi_op op, void *context) noexcept
{
	return {.msg_iov = operands,
		.desc = nullptr,
		.iov_count = count,
		.addr = address,
		.rma_iov = target,
		.rma_iov_count = 1,
		.datatype = type,
		.op = op,
		.context = context,
		.data = 0};
}

// Of all that an atomic has, there are as many elements. Who only reads needs no operand.
ssize_t perform(fid_ep *ep, AtomicKind kind, const fi_msg_atomic &message, const fi_ioc *compares,
	std::size_t compare_count, const fi_ioc *results, std::size_t result_count, std::uint64_t flags,
	bool injected = false)
{
	const bool reads = message.op == FI_ATOMIC_READ;
	const bool fetches = kind != AtomicKind::base;
	const bool compares_too = kind == AtomicKind::compare;

	if (message.rma_iov_count != 1 || message.rma_iov->count == 0)
		return -FI_EINVAL;

	const std::size_t count = message.rma_iov->count;

	const Elements none;
	const Elements operands = reads ? none : Elements{message.msg_iov, message.iov_count};
	const Elements compared = compares_too ? Elements{compares, compare_count} : none;
	const Elements before = fetches ? Elements{results, result_count} : none;

	if (std::max({operands.pieces_count, compared.pieces_count, before.pieces_count}) > iov_limit)
		return -FI_EINVAL;
	if ((!reads && operands.count() != count) || (compares_too && compared.count() != count) ||
		(fetches && before.count() != count))
		return -FI_EINVAL;
	if (!operands.exists() || !compared.exists() || !before.exists())
		return -FI_EINVAL;
	return endpoint(ep).atomic({.kind = kind,
		.type = message.datatype,
		.op = message.op,
		.count = count,
		.address = message.addr,
		.remote_addr = message.rma_iov->addr,
		.remote_key = message.rma_iov->key,
		.context = message.context,
		.flags = flags,
		.operands = operands,
		.compares = compared,
		.results = before,
		.injected = injected});
}

// ---- nothing comes back -----------------------------------------------------------------------------------

ssize_t writemsg(fid_ep *ep, const fi_msg_atomic *message, std::uint64_t flags)
{
	return perform(ep, AtomicKind::base, *message, nullptr, 0, nullptr, 0, flags);
}

ssize_t writev(fid_ep *ep, const fi_ioc *operands, void **, std::size_t count, fi_addr_t target,
	std::uint64_t address, std::uint64_t key, fi_datatype type, fi_op op, void *context)
{
	const fi_rma_ioc place{.addr = address, .count = Elements{operands, count}.count(), .key = key};
	const fi_msg_atomic message = described(operands, count, target, &place, type, op, context);

	return writemsg(ep, &message, usual_flags(ep));
}

ssize_t write(fid_ep *ep, const void *operand, std::size_t count, void *, fi_addr_t target,
	std::uint64_t address, std::uint64_t key, fi_datatype type, fi_op op, void *context)
{
	const fi_ioc whole = buffer(operand, count);

	return writev(ep, &whole, nullptr, 1, target, address, key, type, op, context);
}

ssize_t inject(fid_ep *ep, const void *operand, std::size_t count, fi_addr_t target, std::uint64_t address,
	std::uint64_t key, fi_datatype type, fi_op op)
{
	const fi_ioc whole = buffer(operand, count);
	const fi_rma_ioc place{.addr = address, .count = count, .key = key};
	const fi_msg_atomic message = described(&whole, 1, target, &place, type, op, nullptr);

	return perform(ep, AtomicKind::base, message, nullptr, 0, nullptr, 0, usual_flags(ep), true);
}

// ---- what was there before comes back ---------------------------------------------------------------------

ssize_t readwritemsg(fid_ep *ep, const fi_msg_atomic *message, fi_ioc *results, void **,
	std::size_t result_count, std::uint64_t flags)
{
	return perform(ep, AtomicKind::fetch, *message, nullptr, 0, results, result_count, flags);
}

ssize_t readwritev(fid_ep *ep, const fi_ioc *operands, void **, std::size_t count, fi_ioc *results, void **,
	std::size_t result_count, fi_addr_t target, std::uint64_t address, std::uint64_t key,
	fi_datatype type, fi_op op, void *context)
{
	const fi_rma_ioc place{.addr = address, .count = Elements{results, result_count}.count(), .key = key};
	const fi_msg_atomic message = described(operands, count, target, &place, type, op, context);

	return readwritemsg(ep, &message, results, nullptr, result_count, usual_flags(ep));
}

ssize_t readwrite(fid_ep *ep, const void *operand, std::size_t count, void *, void *result, void *,
	fi_addr_t target, std::uint64_t address, std::uint64_t key, fi_datatype type, fi_op op, void *context)
{
	const fi_ioc whole = buffer(operand, count);
	fi_ioc before = buffer(result, count);

	return readwritev(
		ep, &whole, nullptr, 1, &before, nullptr, 1, target, address, key, type, op, context);
}

// ---- and something is compared ----------------------------------------------------------------------------

ssize_t compwritemsg(fid_ep *ep, const fi_msg_atomic *message, const fi_ioc *compares, void **,
	std::size_t compare_count, fi_ioc *results, void **, std::size_t result_count, std::uint64_t flags)
{
	return perform(
		ep, AtomicKind::compare, *message, compares, compare_count, results, result_count, flags);
}

ssize_t compwritev(fid_ep *ep, const fi_ioc *operands, void **, std::size_t count, const fi_ioc *compares,
	void **, std::size_t compare_count, fi_ioc *results, void **, std::size_t result_count,
	fi_addr_t target, std::uint64_t address, std::uint64_t key, fi_datatype type, fi_op op, void *context)
{
	const fi_rma_ioc place{.addr = address, .count = Elements{results, result_count}.count(), .key = key};
	const fi_msg_atomic message = described(operands, count, target, &place, type, op, context);

	return compwritemsg(ep, &message, compares, nullptr, compare_count, results, nullptr, result_count,
		usual_flags(ep));
}

ssize_t compwrite(fid_ep *ep, const void *operand, std::size_t count, void *, const void *compare, void *,
	void *result, void *, fi_addr_t target, std::uint64_t address, std::uint64_t key, fi_datatype type,
	fi_op op, void *context)
{
	const fi_ioc whole = buffer(operand, count);
	const fi_ioc other = buffer(compare, count);
	fi_ioc before = buffer(result, count);

	return compwritev(ep, &whole, nullptr, 1, &other, nullptr, 1, &before, nullptr, 1, target, address,
		key, type, op, context);
}

// ---- what there is ----------------------------------------------------------------------------------------

template<AtomicKind kind>
int valid(fid_ep *, fi_datatype type, fi_op op, std::size_t *count)
{
	fi_atomic_attr limits{};
	const int error = limits_of(kind, type, op, limits);

	*count = limits.count;
	return error;
}

} // namespace

std::size_t Elements::count() const noexcept
{
	std::size_t sum = 0;

	for (std::size_t i = 0; i < pieces_count; i++) {
		if (pieces[i].count > IBRELK_ATOMIC_BYTES)
			return pieces[i].count;
		sum += pieces[i].count;
	}
	return sum;
}

bool Elements::exists() const noexcept
{
	return std::all_of(pieces, pieces + pieces_count,
		[](const fi_ioc &piece) { return piece.addr || !piece.count; });
}

void Elements::gather(std::byte *into, std::size_t element_bytes) const noexcept
{
	for (std::size_t i = 0; i < pieces_count; i++) {
		const std::size_t bytes = pieces[i].count * element_bytes;

		if (bytes)
			std::memcpy(into, pieces[i].addr, bytes);
		into += bytes;
	}
}

void Elements::scatter(const std::byte *from, std::size_t element_bytes) const noexcept
{
	for (std::size_t i = 0; i < pieces_count; i++) {
		const std::size_t bytes = pieces[i].count * element_bytes;

		if (bytes)
			std::memcpy(pieces[i].addr, from, bytes);
		from += bytes;
	}
}

int limits_of(AtomicKind kind, fi_datatype type, fi_op op, fi_atomic_attr &limits) noexcept
{
	limits = {};
	const std::uint32_t known = kernel_type(type, op);

	if (!known || !is_of_kind(kind, op))
		return -FI_EOPNOTSUPP;
	limits.size = known == IBRELK_ATOMIC_S32 || known == IBRELK_ATOMIC_U32 ? 4 : 8;
	limits.count = IBRELK_ATOMIC_BYTES / limits.size;
	return 0;
}

// Its operations are libfabric's, from 1 on.
std::uint32_t kernel_atomic(fi_datatype type, fi_op op) noexcept
{
	static_assert(FI_MIN + 1 == static_cast<int>(IBRELK_ATOMIC_MIN) &&
		FI_ATOMIC_WRITE + 1 == static_cast<int>(IBRELK_ATOMIC_WRITE) &&
		FI_MSWAP + 1 == static_cast<int>(IBRELK_ATOMIC_MSWAP));
	return IBRELK_ATOMIC(static_cast<std::uint32_t>(op) + 1, kernel_type(type, op));
}

fi_ops_atomic atomic_ops = {
	.size = sizeof(fi_ops_atomic),
	.write = write,
	.writev = writev,
	.writemsg = writemsg,
	.inject = inject,
	.readwrite = readwrite,
	.readwritev = readwritev,
	.readwritemsg = readwritemsg,
	.compwrite = compwrite,
	.compwritev = compwritev,
	.compwritemsg = compwritemsg,
	.writevalid = valid<AtomicKind::base>,
	.readwritevalid = valid<AtomicKind::fetch>,
	.compwritevalid = valid<AtomicKind::compare>,
};

} // namespace ibrelk::ofi
