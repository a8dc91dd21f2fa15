// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// The device node: opened, checked for a module that speaks our ABI, and asked.
#include "device.hpp"

#include <cerrno>
#include <cstring>
#include <new>

#include <ibrelk/ibrelk.h>

#include "system.hpp"

namespace sys = ibrelk::system;

extern "C" int ibrelk_device_open(const char *path, struct ibrelk_device **device) noexcept
{
	const sys::KeepErrno keep; // new, too
	int fd = sys::open(path ? path : IBRELK_DEVICE_PATH);

	if (fd < 0)
		return fd;

	ibrelk_device opened{fd};
	ibrelk_query query{};
	int error = ibrelk_device_query(&opened, &query);

	if (error == 0 && query.abi_version != IBRELK_ABI_VERSION)
		error = -EPROTO;

	auto *made = error == 0 ? new (std::nothrow) ibrelk_device{fd} : nullptr;

	if (!made) {
		sys::close(fd);
		return error ? error : -ENOMEM;
	}
	*device = made;
	return 0;
}

extern "C" void ibrelk_device_close(struct ibrelk_device *device) noexcept
{
	if (!device)
		return;
	sys::close(device->fd);
	delete device;
}

extern "C" int ibrelk_device_fd(const struct ibrelk_device *device) noexcept
{
	return device->fd;
}

extern "C" int ibrelk_device_query(const struct ibrelk_device *device, struct ibrelk_query *query) noexcept
{
	ibrelk_query asked{};
	int error = sys::ioctl(device->fd, IBRELK_IOC_QUERY, &asked);

	if (error < 0)
		return error;
	*query = asked;
	return 0;
}

extern "C" int ibrelk_device_dump(const struct ibrelk_device *device, uint32_t kind, void *buffer,
	uint32_t entry_bytes, uint32_t *entries, uint32_t *total) noexcept
{
	ibrelk_dump dump{};

	// A module of another version may fill less of each entry than we know of.
	if (buffer)
		std::memset(buffer, 0, static_cast<size_t>(entry_bytes) * *entries);
	dump.kind = kind;
	dump.buffer = reinterpret_cast<uintptr_t>(buffer);
	dump.entry_bytes = entry_bytes;
	dump.entries = *entries;

	int error = sys::ioctl(device->fd, IBRELK_IOC_DUMP, &dump);

	if (error < 0)
		return error;
	*entries = dump.entries;
	*total = dump.total;
	return 0;
}
