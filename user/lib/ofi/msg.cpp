// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Messages without tags, which only messages without tags are received by.
#include <rdma/fi_endpoint.h>

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

iovec piece(const void *buffer, std::size_t length) noexcept
{
	return {const_cast<void *>(buffer), length};
}

ssize_t recv(fid_ep *ep, void *buffer, std::size_t length, void *, fi_addr_t source, void *context)
{
	const iovec whole = piece(buffer, length);

	return endpoint(ep).receive({.pieces = &whole,
		.count = 1,
		.address = source,
		.context = context,
		.flags = endpoint(ep).rx_flags(),
		.tagged = false});
}

ssize_t recvv(fid_ep *ep, const iovec *pieces, void **, std::size_t count, fi_addr_t source, void *context)
{
	return endpoint(ep).receive({.pieces = pieces,
		.count = count,
		.address = source,
		.context = context,
		.flags = endpoint(ep).rx_flags(),
		.tagged = false});
}

ssize_t recvmsg(fid_ep *ep, const fi_msg *message, std::uint64_t flags)
{
	return endpoint(ep).receive({.pieces = message->msg_iov,
		.count = message->iov_count,
		.address = message->addr,
		.context = message->context,
		.flags = flags,
		.tagged = false});
}

ssize_t send(fid_ep *ep, const void *buffer, std::size_t length, void *, fi_addr_t target, void *context)
{
	const iovec whole = piece(buffer, length);

	return endpoint(ep).send({.pieces = &whole,
		.count = 1,
		.address = target,
		.context = context,
		.flags = endpoint(ep).tx_flags(),
		.tagged = false});
}

ssize_t sendv(fid_ep *ep, const iovec *pieces, void **, std::size_t count, fi_addr_t target, void *context)
{
	return endpoint(ep).send({.pieces = pieces,
		.count = count,
		.address = target,
		.context = context,
		.flags = endpoint(ep).tx_flags(),
		.tagged = false});
}

ssize_t sendmsg(fid_ep *ep, const fi_msg *message, std::uint64_t flags)
{
	return endpoint(ep).send({.pieces = message->msg_iov,
		.count = message->iov_count,
		.address = message->addr,
		.context = message->context,
		.flags = flags,
		.tagged = false,
		.data = message->data});
}

ssize_t inject(fid_ep *ep, const void *buffer, std::size_t length, fi_addr_t target)
{
	const iovec whole = piece(buffer, length);

	return endpoint(ep).send({.pieces = &whole,
		.count = 1,
		.address = target,
		.context = nullptr,
		.flags = endpoint(ep).tx_flags(),
		.tagged = false,
		.injected = true});
}

ssize_t senddata(fid_ep *ep, const void *buffer, std::size_t length, void *, std::uint64_t data,
	fi_addr_t target, void *context)
{
	const iovec whole = piece(buffer, length);

	return endpoint(ep).send({.pieces = &whole,
		.count = 1,
		.address = target,
		.context = context,
		.flags = endpoint(ep).tx_flags() | FI_REMOTE_CQ_DATA,
		.tagged = false,
		.data = data});
}

ssize_t injectdata(fid_ep *ep, const void *buffer, std::size_t length, std::uint64_t data, fi_addr_t target)
{
	const iovec whole = piece(buffer, length);

	return endpoint(ep).send({.pieces = &whole,
		.count = 1,
		.address = target,
		.context = nullptr,
		.flags = endpoint(ep).tx_flags() | FI_REMOTE_CQ_DATA,
		.tagged = false,
		.data = data,
		.injected = true});
}

} // namespace

fi_ops_msg msg_ops = {
	.size = sizeof(fi_ops_msg),
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
