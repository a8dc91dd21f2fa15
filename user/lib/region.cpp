// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Regions: memory that stays pinned, and that peers may put into, as long as a descriptor is open.
#include <cerrno>
#include <new>

#include <ibrelk/ibrelk.h>

#include "device.hpp"
#include "system.hpp"

namespace sys = ibrelk::system;

struct ibrelk_region {
	int fd;
	uint64_t key;
};

extern "C" int ibrelk_region_open(const struct ibrelk_device *device, const void *address, size_t length,
	uint32_t flags, struct ibrelk_region **region) noexcept
{
	const sys::KeepErrno keep; // new, too
	ibrelk_region_create create{};

	create.addr = reinterpret_cast<uintptr_t>(address);
	create.length = length;
	create.flags = flags;
	create.fd = -1;

	int error = sys::ioctl(device->fd, IBRELK_IOC_REGION_CREATE, &create);

	if (error < 0)
		return error;

	auto *made = new (std::nothrow) ibrelk_region{create.fd, create.key};

	if (!made) {
		sys::close(create.fd);
		return -ENOMEM;
	}
	*region = made;
	return 0;
}

extern "C" uint64_t ibrelk_region_key(const struct ibrelk_region *region) noexcept
{
	return region->key;
}

extern "C" void ibrelk_region_close(struct ibrelk_region *region) noexcept
{
	const sys::KeepErrno keep;

	if (!region)
		return;
	sys::close(region->fd);
	delete region;
}
