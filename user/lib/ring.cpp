// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// The consumer's side of a completion ring. The kernel writes entries and then tail (release); we read tail
// (acquire), then entries, and give their room back by writing head (release), so that no entry is
// overwritten while it is being read. When the ring was full, completions wait in the kernel: then a look
// into an empty ring asks for them, which is the only system call of the polling path.
#include "ring.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <new>

#include "device.hpp"
#include "system.hpp"

namespace sys = ibrelk::system;

namespace
{

// The clock is read once for this many looks at the ring: it costs as much as several of them.
constexpr unsigned looks_per_clock = 16;

std::uint32_t available(const ibrelk_ring *ring) noexcept
{
	std::uint32_t tail = __atomic_load_n(&ring->header->tail, __ATOMIC_ACQUIRE);

	// More than the ring holds would be a broken module; reading beyond the mapping helps nobody.
	return std::min(tail - ring->head, ring->mask + 1);
}

bool overflowed(const ibrelk_ring *ring) noexcept
{
	return __atomic_load_n(&ring->header->flags, __ATOMIC_RELAXED) & IBRELK_RING_OVERFLOW;
}

int kernel_wait(const ibrelk_ring *ring, std::uint32_t count, std::uint64_t timeout_ns,
	std::uint64_t busy_poll_ns) noexcept
{
	ibrelk_ring_wait wait{};

	wait.count = count;
	wait.timeout_ns = timeout_ns;
	wait.busy_poll_ns = busy_poll_ns;
	return sys::ioctl(ring->fd, IBRELK_IOC_RING_WAIT, &wait);
}

void relax() noexcept
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	asm volatile("yield" ::: "memory");
#endif
}

// Watches the mapped ring for a while; returns whether enough came.
bool spin(const ibrelk_ring *ring, std::uint32_t count, std::uint64_t until_ns) noexcept
{
	do {
		for (unsigned look = 0; look < looks_per_clock; look++) {
			if (available(ring) >= count)
				return true;
			relax();
		}
	} while (!overflowed(ring) && sys::now_ns() < until_ns);
	return false;
}

} // namespace

int ibrelk::ring_map(int fd, std::size_t map_bytes, ibrelk_ring **ring) noexcept
{
	const sys::KeepErrno keep; // new, too
	int error = -EPROTO;

	if (map_bytes < sizeof(ibrelk_ring_header))
		return error;

	void *address = sys::map(fd, map_bytes, &error);

	if (!address)
		return error;

	auto *header = static_cast<ibrelk_ring_header *>(address);
	const std::uint64_t entries = header->entries;
	const std::uint64_t offset = header->entries_offset;
	const bool sound = std::has_single_bit(entries) && offset >= sizeof(ibrelk_ring_header) &&
		offset % alignof(ibrelk_completion) == 0 &&
		offset + entries * sizeof(ibrelk_completion) <= map_bytes;
	auto *made = sound ? new (std::nothrow) ibrelk_ring{} : nullptr;

	if (!made) {
		sys::unmap(address, map_bytes);
		return sound ? -ENOMEM : -EPROTO;
	}
	made->fd = fd;
	made->mask = static_cast<std::uint32_t>(entries - 1);
	made->head = header->head;
	made->header = header;
	made->entries =
		reinterpret_cast<const ibrelk_completion *>(static_cast<const std::byte *>(address) + offset);
	made->map_bytes = map_bytes;
	*ring = made;
	return 0;
}

extern "C" int ibrelk_ring_open(
	const struct ibrelk_device *device, uint32_t entries, struct ibrelk_ring **ring) noexcept
{
	ibrelk_ring_create create{};

	create.entries = entries;

	int error = sys::ioctl(device->fd, IBRELK_IOC_RING_CREATE, &create);

	if (error < 0)
		return error;
	error = ibrelk::ring_map(create.fd, create.map_bytes, ring);
	if (error < 0)
		sys::close(create.fd);
	return error;
}

extern "C" void ibrelk_ring_close(struct ibrelk_ring *ring) noexcept
{
	if (!ring)
		return;
	sys::unmap(ring->header, ring->map_bytes);
	sys::close(ring->fd);
	delete ring;
}

extern "C" int ibrelk_ring_fd(const struct ibrelk_ring *ring) noexcept
{
	return ring->fd;
}

extern "C" uint32_t ibrelk_ring_entries(const struct ibrelk_ring *ring) noexcept
{
	return ring->mask + 1;
}

extern "C" const struct ibrelk_completion *ibrelk_ring_peek(
	struct ibrelk_ring *ring, uint32_t *count) noexcept
{
	std::uint32_t there = available(ring);

	if (there == 0 && overflowed(ring)) {
		// Its result does not matter: what it moved shows in the ring.
		(void)kernel_wait(ring, 1, 0, 0);
		there = available(ring);
	}

	std::uint32_t index = ring->head & ring->mask;

	*count = std::min(there, ring->mask + 1 - index);
	return there ? ring->entries + index : nullptr;
}

extern "C" void ibrelk_ring_advance(struct ibrelk_ring *ring, uint32_t count) noexcept
{
	ring->head += std::min(count, available(ring));
	__atomic_store_n(&ring->header->head, ring->head, __ATOMIC_RELEASE);
}

extern "C" uint32_t ibrelk_ring_poll(
	struct ibrelk_ring *ring, struct ibrelk_completion *completions, uint32_t count) noexcept
{
	std::uint32_t taken = 0;

	while (taken < count) {
		std::uint32_t run = 0;
		const ibrelk_completion *first = ibrelk_ring_peek(ring, &run);

		if (!first)
			break;
		run = std::min(run, count - taken);
		std::copy_n(first, run, completions + taken);
		ibrelk_ring_advance(ring, run);
		taken += run;
	}
	return taken;
}

extern "C" int ibrelk_ring_wait_for(
	struct ibrelk_ring *ring, const struct ibrelk_wait_options *options) noexcept
{
	const std::uint32_t count = options->count;

	if (count == 0 || count > ring->mask + 1 || options->flags)
		return -EINVAL;

	std::uint32_t there = available(ring);

	if (there >= count)
		return static_cast<int>(there);

	std::uint64_t timeout_ns = options->timeout_ns;

	if (const std::uint64_t spin_ns = std::min(options->spin_ns, timeout_ns)) {
		const std::uint64_t start_ns = sys::now_ns();

		if (spin(ring, count, start_ns + std::min(spin_ns, IBRELK_NO_LIMIT - start_ns)))
			return static_cast<int>(available(ring));
		if (timeout_ns != IBRELK_NO_LIMIT)
			timeout_ns -= std::min(timeout_ns, sys::now_ns() - start_ns);
	}
	if (timeout_ns == 0 && !overflowed(ring))
		return static_cast<int>(available(ring));
	return kernel_wait(ring, count, timeout_ns, options->busy_poll_ns);
}
