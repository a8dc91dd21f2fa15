// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// System calls as they are; see system.hpp.
#include "system.hpp"

#include <cerrno>
#include <ctime>
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace ibrelk::system
{

int open(const char *path) noexcept
{
	const KeepErrno keep;
	int fd = ::open(path, O_RDWR | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

void close(int fd) noexcept
{
	const KeepErrno keep;

	::close(fd);
}

int ioctl(int fd, unsigned long request, void *argument) noexcept
{
	const KeepErrno keep;
	int value = ::ioctl(fd, request, argument);

	return value < 0 ? -errno : value;
}

void *map(int fd, std::size_t bytes, int *error) noexcept
{
	const KeepErrno keep;
	void *address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (address == MAP_FAILED) {
		*error = -errno;
		return nullptr;
	}
	return address;
}

void unmap(void *address, std::size_t bytes) noexcept
{
	const KeepErrno keep;

	::munmap(address, bytes);
}

std::uint64_t now_ns() noexcept
{
	timespec time;

	::clock_gettime(CLOCK_MONOTONIC, &time);
	return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000u +
		static_cast<std::uint64_t>(time.tv_nsec);
}

void sleep_ns(std::uint64_t time_ns) noexcept
{
	const KeepErrno keep;
	timespec time{
		static_cast<time_t>(time_ns / 1'000'000'000u), static_cast<long>(time_ns % 1'000'000'000u)};

	::nanosleep(&time, nullptr);
}

int poll(int fd, short events, std::uint64_t timeout_ns) noexcept
{
	const KeepErrno keep;
	const timespec limit{static_cast<time_t>(timeout_ns / 1'000'000'000u),
		static_cast<long>(timeout_ns % 1'000'000'000u)};
	pollfd entry{fd, events, 0};
	int ready = ::ppoll(&entry, 1, timeout_ns == UINT64_MAX ? nullptr : &limit, nullptr);

	return ready < 0 ? -errno : ready;
}

int uring_init(unsigned entries, ::io_uring *ring) noexcept
{
	const KeepErrno keep;

	return ::io_uring_queue_init(entries, ring, 0);
}

void uring_exit(::io_uring *ring) noexcept
{
	const KeepErrno keep;

	::io_uring_queue_exit(ring);
}

int uring_submit(::io_uring *ring) noexcept
{
	const KeepErrno keep;

	return ::io_uring_submit(ring);
}

int uring_wait(::io_uring *ring, ::io_uring_cqe **cqe) noexcept
{
	const KeepErrno keep;

	return ::io_uring_wait_cqe(ring, cqe);
}

} // namespace ibrelk::system
