// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// The system calls that the library makes, all of them and nothing else, each returning a negative errno and
// leaving errno as it was. They stand apart so that a unit test can bring its own system.cpp and with it a
// device that does not exist.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>

#include <liburing.h>

namespace ibrelk::system
{

/// Puts errno back when it goes: what libc does is nothing that our callers asked for.
class KeepErrno
{
public:
	KeepErrno() noexcept : kept_(errno)
	{
	}
	~KeepErrno()
	{
		errno = kept_;
	}
	KeepErrno(const KeepErrno &) = delete;
	KeepErrno &operator=(const KeepErrno &) = delete;

private:
	int kept_;
};

int open(const char *path) noexcept;
void close(int fd) noexcept;
int ioctl(int fd, unsigned long request, void *argument) noexcept;
/// Maps shared, readable and writable, from offset 0; nullptr and *error (negative errno) on failure.
void *map(int fd, std::size_t bytes, int *error) noexcept;
void unmap(void *address, std::size_t bytes) noexcept;
/// CLOCK_MONOTONIC in nanoseconds.
std::uint64_t now_ns() noexcept;
void sleep_ns(std::uint64_t time_ns) noexcept;

/// Waits for one of the events; 1, or 0 if time ran out. A time of UINT64_MAX has no limit.
int poll(int fd, short events, std::uint64_t timeout_ns) noexcept;

int uring_init(unsigned entries, ::io_uring *ring) noexcept;
void uring_exit(::io_uring *ring) noexcept;
/// Submits what is queued; returns the number submitted.
int uring_submit(::io_uring *ring) noexcept;
/// Blocks until a completion is there.
int uring_wait(::io_uring *ring, ::io_uring_cqe **cqe) noexcept;

} // namespace ibrelk::system
