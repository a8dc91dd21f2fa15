// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "wake.hpp"

#include <algorithm>
#include <climits>
#include <ctime>

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace ibrelk::ofi
{

namespace
{

std::int64_t now_ns() noexcept
{
	timespec time;

	::clock_gettime(CLOCK_MONOTONIC, &time);
	return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

} // namespace

Wake::Wake(bool counts) noexcept :
	fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | (counts ? EFD_SEMAPHORE : 0)))
{
}

Wake::~Wake()
{
	if (fd_ >= 0)
		::close(fd_);
}

void Wake::set() noexcept
{
	const std::uint64_t one = 1;

	// Fails only if it is set already, as often as it can be.
	(void)!::write(fd_, &one, sizeof(one));
}

bool Wake::clear() noexcept
{
	std::uint64_t count;

	return ::read(fd_, &count, sizeof(count)) > 0;
}

WaitSet::~WaitSet()
{
	if (fd_ >= 0)
		::close(fd_);
}

bool WaitSet::open() noexcept
{
	fd_ = ::epoll_create1(EPOLL_CLOEXEC);
	return fd_ >= 0;
}

bool WaitSet::add(int fd) noexcept
{
	epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};

	return fd_ < 0 || ::epoll_ctl(fd_, EPOLL_CTL_ADD, fd, &event) == 0;
}

void WaitSet::remove(int fd) noexcept
{
	if (fd_ >= 0)
		::epoll_ctl(fd_, EPOLL_CTL_DEL, fd, nullptr);
}

Deadline::Deadline(int timeout_ms) noexcept :
	until_ns_(timeout_ms < 0 ? INT64_MAX : now_ns() + std::int64_t{timeout_ms} * 1'000'000)
{
}

int Deadline::left_ms() const noexcept
{
	if (until_ns_ == INT64_MAX)
		return -1;

	const std::int64_t left = (until_ns_ - now_ns() + 999'999) / 1'000'000;

	return static_cast<int>(std::clamp<std::int64_t>(left, 0, INT_MAX));
}

bool sleep_on(std::span<pollfd> descriptors, const Deadline &deadline) noexcept
{
	const int saved = errno;
	const bool interrupted =
		::poll(descriptors.data(), descriptors.size(), deadline.left_ms()) < 0 && errno == EINTR;

	errno = saved;
	return !interrupted;
}

} // namespace ibrelk::ofi
