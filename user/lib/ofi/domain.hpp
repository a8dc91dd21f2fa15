// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// A domain: one open /dev/ibrelk. Makes endpoints, address vectors, completion queues, counters and memory
// regions.
#pragma once

#include <string>

#include <rdma/fi_domain.h>

#include <ibrelk/ibrelk.hpp>

#include "fabric.hpp"
#include "support.hpp"

namespace ibrelk::ofi
{

class Domain : public fid_domain
{
public:
	static int open(fid_fabric *fabric, fi_info *info, fid_domain **domain, void *context);
	static int open_with_flags(
		fid_fabric *fabric, fi_info *info, fid_domain **domain, std::uint64_t flags, void *context);

	[[nodiscard]] const Device &device() const noexcept
	{
		return device_;
	}
	[[nodiscard]] const Query &query() const noexcept
	{
		return query_;
	}
	[[nodiscard]] Fabric *fabric() const noexcept
	{
		return fabric_;
	}
	/// The device that it was opened for; empty: none in particular.
	[[nodiscard]] const std::string &name() const noexcept
	{
		return name_;
	}
	/// The port that it was opened for, by its address; any, if none in particular.
	[[nodiscard]] const ::ibrelk_addr &local() const noexcept
	{
		return local_;
	}
	/// Whether its memory may be registered for others.
	[[nodiscard]] bool shares() const noexcept
	{
		return shares_;
	}
	/// The version of libfabric's interface that the application was written for.
	[[nodiscard]] std::uint32_t api_version() const noexcept
	{
		return api_version_;
	}
	Users &users() noexcept
	{
		return users_;
	}

private:
	Domain(Fabric &fabric, Device device, const Query &query, bool shares, std::string name,
		const ::ibrelk_addr &local, void *context) noexcept;
	static int close(Fid *any);
	static int bind(Fid *any, Fid *other, std::uint64_t flags);
	static int control(Fid *any, int command, void *argument);
	static int query_atomic(fid_domain *domain, fi_datatype datatype, fi_op op, fi_atomic_attr *attr,
		std::uint64_t flags);

	static fi_ops fid_ops;
	static fi_ops_domain domain_ops;
	static fi_ops_mr mr_ops;
	Fabric *const fabric_;
	Use fabric_use_;
	const std::uint32_t api_version_;
	Device device_;
	Query query_;
	const bool shares_;
	const std::string name_;
	const ::ibrelk_addr local_;
	Use events_use_;
	Users users_;
};

} // namespace ibrelk::ofi
