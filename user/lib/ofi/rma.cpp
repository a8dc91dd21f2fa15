// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Reads and writes of a peer's memory, of which it is told nothing, but for data that goes along with a
// write.
#include <optional>

#include <rdma/fi_rma.h>

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
std::uint64_t flags(fid_ep *ep, std::uint64_t known) noexcept
{
	return endpoint(ep).tx_flags() & known;
}

iovec piece(const void *buffer, std::size_t length) noexcept
{
	return {const_cast<void *>(buffer), length};
}

fi_rma_iov place(const iovec *pieces, std::size_t count, std::uint64_t address, std::uint64_t key) noexcept
{
	return {.addr = address, .len = length_of(pieces, count), .key = key};
}

ssize_t readv(fid_ep *ep, const iovec *pieces, void **, std::size_t count, fi_addr_t source,
	std::uint64_t address, std::uint64_t key, void *context)
{
	const fi_rma_iov from = place(pieces, count, address, key);

	return endpoint(ep).read({.pieces = pieces,
		.count = count,
		.address = source,
		.context = context,
		.flags = flags(ep, read_flags),
		.remote = &from,
		.remote_count = 1});
}

ssize_t read(fid_ep *ep, void *buffer, std::size_t length, void *, fi_addr_t source, std::uint64_t address,
	std::uint64_t key, void *context)
{
	const iovec whole = piece(buffer, length);

	return readv(ep, &whole, nullptr, 1, source, address, key, context);
}

ssize_t readmsg(fid_ep *ep, const fi_msg_rma *message, std::uint64_t flags)
{
	return endpoint(ep).read({.pieces = message->msg_iov,
		.count = message->iov_count,
		.address = message->addr,
		.context = message->context,
		.flags = flags,
		.remote = message->rma_iov,
		.remote_count = message->rma_iov_count});
}

ssize_t writev(fid_ep *ep, const iovec *pieces, void **, std::size_t count, fi_addr_t target,
	std::uint64_t address, std::uint64_t key, void *context)
{
	const fi_rma_iov to = place(pieces, count, address, key);

	return endpoint(ep).write({.pieces = pieces,
		.count = count,
		.address = target,
		.context = context,
		.flags = flags(ep, write_flags),
		.remote = &to,
		.remote_count = 1});
}

ssize_t writemsg(fid_ep *ep, const fi_msg_rma *message, std::uint64_t flags)
{
	return endpoint(ep).write({.pieces = message->msg_iov,
		.count = message->iov_count,
		.address = message->addr,
		.context = message->context,
		.flags = flags,
		.data = message->data,
		.remote = message->rma_iov,
		.remote_count = message->rma_iov_count});
}

// In one piece, and maybe with data, or injected.
ssize_t write_piece(fid_ep *ep, const void *buffer, std::size_t length, std::optional<std::uint64_t> data,
	fi_addr_t target, std::uint64_t address, std::uint64_t key, void *context, bool injected)
{
	const iovec whole = piece(buffer, length);
	const fi_rma_iov to = place(&whole, 1, address, key);

	return endpoint(ep).write({.pieces = &whole,
		.count = 1,
		.address = target,
		.context = context,
		.flags = flags(ep, write_flags) | (data ? FI_REMOTE_CQ_DATA : 0),
		.data = data.value_or(0),
		.remote = &to,
		.remote_count = 1,
		.injected = injected});
}

ssize_t write(fid_ep *ep, const void *buffer, std::size_t length, void *, fi_addr_t target,
	std::uint64_t address, std::uint64_t key, void *context)
{
	return write_piece(ep, buffer, length, std::nullopt, target, address, key, context, false);
}

ssize_t inject(fid_ep *ep, const void *buffer, std::size_t length, fi_addr_t target, std::uint64_t address,
	std::uint64_t key)
{
	return write_piece(ep, buffer, length, std::nullopt, target, address, key, nullptr, true);
}

ssize_t writedata(fid_ep *ep, const void *buffer, std::size_t length, void *, std::uint64_t data,
	fi_addr_t target, std::uint64_t address, std::uint64_t key, void *context)
{
	return write_piece(ep, buffer, length, data, target, address, key, context, false);
}

ssize_t injectdata(fid_ep *ep, const void *buffer, std::size_t length, std::uint64_t data, fi_addr_t target,
	std::uint64_t address, std::uint64_t key)
{
	return write_piece(ep, buffer, length, data, target, address, key, nullptr, true);
}

} // namespace

fi_ops_rma rma_ops = {
	.size = sizeof(fi_ops_rma),
	.read = read,
	.readv = readv,
	.readmsg = readmsg,
	.write = write,
	.writev = writev,
	.writemsg = writemsg,
	.inject = inject,
	.writedata = writedata,
	.injectdata = injectdata,
};

} // namespace ibrelk::ofi
