// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "mr.hpp"

#include <cerrno>
#include <cstring>
#include <span>

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "provider.hpp"

namespace ibrelk::ofi
{

namespace
{

constexpr std::uint64_t local_access = FI_SEND | FI_RECV | FI_READ | FI_WRITE;
constexpr std::uint64_t remote_access = FI_REMOTE_READ | FI_REMOTE_WRITE;

// What peers only read may be read-only here.
result<Region> open_region(const Device &device, const iovec &memory, std::uint64_t access) noexcept
{
	const std::span bytes(static_cast<std::byte *>(memory.iov_base), memory.iov_len);

	if ((access & remote_access) == FI_REMOTE_READ)
		return Region::to_get(device, bytes);
	if ((access & remote_access) == FI_REMOTE_WRITE)
		return Region::to_put(device, bytes);
	return Region::to_share(device, bytes);
}

// A region is a descriptor. A quarter of those that there may be are left to the program, which may not look
// at what it gets: MPICH 4.0 ends by a segmentation fault where there is none for a window's shared memory.
bool descriptors_are_scarce(const Device &device) noexcept
{
	rlimit limit{};
	const int next = ::fcntl(device.fd(), F_DUPFD_CLOEXEC, 0); // the lowest that is free

	if (next < 0)
		return true;
	::close(next);
	return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
		static_cast<rlim_t>(next) >= limit.rlim_cur - limit.rlim_cur / 4;
}

} // namespace

// It is ready when it is made, and not bound to anything.
fi_ops MemoryRegion::fid_ops = {
	.size = sizeof(fi_ops),
	.close = MemoryRegion::close,
	.bind = unsupported,
	.control = MemoryRegion::control,
	.ops_open = unsupported,
	.tostr = unsupported,
	.ops_set = unsupported,
};

MemoryRegion::MemoryRegion(Domain &domain, std::optional<Region> region, const fi_mr_attr &attr) noexcept :
	fid_mr{}, domain_(domain.users()), region_(std::move(region)), base_(attr.mr_iov->iov_base)
{
	fid = {.fclass = FI_CLASS_MR, .context = attr.context, .ops = &fid_ops};
	mem_desc = this;
	key = region_ ? region_->key() : FI_KEY_NOTAVAIL;
}

int MemoryRegion::reg(Fid *domain, const void *buffer, std::size_t length, std::uint64_t access,
	std::uint64_t offset, std::uint64_t requested_key, std::uint64_t flags, fid_mr **mr, void *context)
{
	const iovec whole{const_cast<void *>(buffer), length};

	return regv(domain, &whole, 1, access, offset, requested_key, flags, mr, context);
}

int MemoryRegion::regv(Fid *domain, const iovec *pieces, std::size_t count, std::uint64_t access,
	std::uint64_t offset, std::uint64_t requested_key, std::uint64_t flags, fid_mr **mr, void *context)
{
	fi_mr_attr attr{};

	attr.mr_iov = pieces;
	attr.iov_count = count;
	attr.access = access;
	attr.offset = offset;
	attr.requested_key = requested_key;
	attr.context = context;
	return regattr(domain, &attr, flags, mr);
}

// The key that was requested does not matter: FI_MR_PROV_KEY says so.
int MemoryRegion::regattr(Fid *any, const fi_mr_attr *attr, std::uint64_t flags, fid_mr **mr)
{
	auto &domain = *object_of<Domain, fid_domain>(any);
	std::optional<Region> region;

	if (flags)
		return -FI_EBADFLAGS;
	if (attr->iov_count != 1 || attr->offset != 0 || (attr->access & ~(local_access | remote_access)))
		return -FI_EINVAL;
	// Before, there was no such member.
	if (FI_VERSION_GE(domain.api_version(), FI_VERSION(1, 5)) && attr->auth_key_size != 0)
		return -FI_EINVAL;
	// Who has not agreed to FI_MR_PROV_KEY and its like would tell his peers something else.
	if ((attr->access & remote_access) && !domain.shares()) {
		FI_WARN(&provider, FI_LOG_MR,
			"no memory is for others in a domain that was opened without FI_MR_VIRT_ADDR, "
			"FI_MR_ALLOCATED and FI_MR_PROV_KEY\n");
		return -FI_EOPNOTSUPP;
	}
	// Of nothing there is nothing to read or write, and nothing to pin. (A window of MPI may be empty.)
	if ((attr->access & remote_access) && attr->mr_iov->iov_len > 0) {
		auto opened = descriptors_are_scarce(domain.device())
			? failure(EMFILE)
			: open_region(domain.device(), *attr->mr_iov, attr->access);

		if (!opened) {
			FI_WARN(&provider, FI_LOG_MR, "%s\n",
				ibrelk_error_text(IBRELK_CALL_REGION, opened.error()));
			return -opened.error();
		}
		region.emplace(std::move(*opened));
	}

	auto *made = new (std::nothrow) MemoryRegion(domain, std::move(region), *attr);

	if (!made)
		return -FI_ENOMEM;
	*mr = made;
	return 0;
}

// When this returns, nobody reads or writes the memory any more.
int MemoryRegion::close(Fid *any)
{
	delete object_of<MemoryRegion, fid_mr>(any);
	return 0;
}

// What peers need to name it is a key of 64 bits, raw or not.
int MemoryRegion::control(Fid *any, int command, void *argument)
{
	const auto *region = object_of<MemoryRegion, fid_mr>(any);

	switch (command) {
	case FI_ENABLE: return 0;
	case FI_GET_RAW_MR: {
		const auto &raw = *static_cast<struct fi_mr_raw_attr *>(argument);
		const std::size_t room = *raw.key_size;

		*raw.key_size = sizeof(region->key);
		if (room < sizeof(region->key))
			return -FI_ETOOSMALL;
		std::memcpy(raw.raw_key, &region->key, sizeof(region->key));
		*raw.base_addr = reinterpret_cast<std::uintptr_t>(region->base_);
		return 0;
	}
	default: return -FI_ENOSYS;
	}
}

} // namespace ibrelk::ofi
