// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// A memory region. One that others may read or write has a region of the kernel, and the key of that; no
// operation of the application itself needs its memory registered, so all others are only an object.
#pragma once

#include <optional>

#include <sys/uio.h>

#include <rdma/fi_domain.h>

#include <ibrelk/ibrelk.hpp>

#include "domain.hpp"
#include "support.hpp"

namespace ibrelk::ofi
{

class MemoryRegion : public fid_mr
{
public:
	static int reg(Fid *domain, const void *buffer, std::size_t length, std::uint64_t access,
		std::uint64_t offset, std::uint64_t requested_key, std::uint64_t flags, fid_mr **mr,
		void *context);
	static int regv(Fid *domain, const iovec *pieces, std::size_t count, std::uint64_t access,
		std::uint64_t offset, std::uint64_t requested_key, std::uint64_t flags, fid_mr **mr,
		void *context);
	static int regattr(Fid *domain, const fi_mr_attr *attr, std::uint64_t flags, fid_mr **mr);

private:
	MemoryRegion(Domain &domain, std::optional<Region> region, const fi_mr_attr &attr) noexcept;

	static int close(Fid *any);
	static int control(Fid *any, int command, void *argument);

	static fi_ops fid_ops;

	Use domain_;
	std::optional<Region> region_;
	const void *const base_;
};

} // namespace ibrelk::ofi
