// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Tagged messages: libfabric's many ways to say the same.
#include <rdma/fi_tagged.h>

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

// Multi-receives are of messages without tags: that they are usual for receives is not meant here.
std::uint64_t rx_flags(fid_ep *ep) noexcept
{
	return endpoint(ep).rx_flags() & ~FI_MULTI_RECV;
}

iovec piece(const void *buffer, std::size_t length) noexcept
{
	return {const_cast<void *>(buffer), length};
}

ssize_t recv(fid_ep *ep, void *buffer, std::size_t length, void *, fi_addr_t source, std::uint64_t tag,
	std::uint64_t ignore, void *context)
{
	const iovec whole = piece(buffer, length);

	return endpoint(ep).receive({.pieces = &whole,
		.count = 1,
		.address = source,
		.context = context,
		.flags = rx_flags(ep),
		.tagged = true,
		.tag = tag,
		.ignore = ignore});
}

ssize_t recvv(fid_ep *ep, const iovec *pieces, void **, std::size_t count, fi_addr_t source,
	std::uint64_t tag, std::uint64_t ignore, void *context)
{
	return endpoint(ep).receive({.pieces = pieces,
		.count = count,
		.address = source,
		.context = context,
		.flags = rx_flags(ep),
		.tagged = true,
		.tag = tag,
		.ignore = ignore});
}

ssize_t recvmsg(fid_ep *ep, const fi_msg_tagged *message, std::uint64_t flags)
{
	return endpoint(ep).receive({.pieces = message->msg_iov,
		.count = message->iov_count,
		.address = message->addr,
		.context = message->context,
		.flags = flags,
		.tagged = true,
		.tag = message->tag,
		.ignore = message->ignore});
}

ssize_t send(fid_ep *ep, const void *buffer, std::size_t length, void *, fi_addr_t target, std::uint64_t tag,
	void *context)
{
	const iovec whole = piece(buffer, length);

	return endpoint(ep).send({.pieces = &whole,
		.count = 1,
		.address = target,
		.context = context,
		.flags = endpoint(ep).tx_flags(),
		.tagged = true,
		.tag = tag});
}

ssize_t sendv(fid_ep *ep, const iovec *pieces, void **, std::size_t count, fi_addr_t target,
	std::uint64_t tag, void *context)
{
	return endpoint(ep).send({.pieces = pieces,
		.count = count,
		.address = target,
		.context = context,
		.flags = endpoint(ep).tx_flags(),
		.tagged = true,
		.tag = tag});
}

ssize_t sendmsg(fid_ep *ep, const fi_msg_tagged *message, std::uint64_t flags)
{
	return endpoint(ep).send({.pieces = message->msg_iov,
		.count = message->iov_count,
		.address = message->addr,
		.context = message->context,
		.flags = flags,
		.tagged = true,
		.tag = message->tag,
		.data = message->data});
}

ssize_t inject(fid_ep *ep, const void *buffer, std::size_t length, fi_addr_t target, std::uint64_t tag)
{
	const iovec whole = piece(buffer, length);

	return endpoint(ep).send({.pieces = &whole,
		.count = 1,
		.address = target,
		.context = nullptr,
		.flags = endpoint(ep).tx_flags(),
		.tagged = true,
		.tag = tag,
		.injected = true});
}

ssize_t senddata(fid_ep *ep, const void *buffer, std::size_t length, void *, std::uint64_t data,
	fi_addr_t target, std::uint64_t tag, void *context)
{
	const iovec whole = piece(buffer, length);

	return endpoint(ep).send({.pieces = &whole,
		.count = 1,
		.address = target,
		.context = context,
		.flags = endpoint(ep).tx_flags() | FI_REMOTE_CQ_DATA,
		.tagged = true,
		.tag = tag,
		.data = data});
}

ssize_t injectdata(fid_ep *ep, const void *buffer, std::size_t length, std::uint64_t data, fi_addr_t target,
	std::uint64_t tag)
{
	const iovec whole = piece(buffer, length);

	return endpoint(ep).send({.pieces = &whole,
		.count = 1,
		.address = target,
		.context = nullptr,
		.flags = endpoint(ep).tx_flags() | FI_REMOTE_CQ_DATA,
		.tagged = true,
		.tag = tag,
		.data = data,
		.injected = true});
}

} // namespace

fi_ops_tagged tagged_ops = {
	.size = sizeof(fi_ops_tagged),
	.recv = recv,
	.recvv = recvv,
	.recvmsg = recvmsg,
	.send = send,
	.sendv = sendv,
	.sendmsg = sendmsg,
	.inject = inject,
	.senddata = senddata,
	.injectdata = injectdata,
};

} // namespace ibrelk::ofi
