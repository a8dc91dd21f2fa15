// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// A descriptor that is readable while something is set: what threads that sleep are woken by, beside the
// kernel's rings.
#pragma once

#include <cerrno>
#include <cstdint>
#include <span>

#include <poll.h>

namespace ibrelk::ofi
{

class Wake
{
public:
	/// @counts: each set() wants a clear() of its own.
	explicit Wake(bool counts = false) noexcept;
	Wake(const Wake &) = delete;
	Wake &operator=(const Wake &) = delete;
	~Wake();

	[[nodiscard]] bool works() const noexcept
	{
		return fd_ >= 0;
	}
	[[nodiscard]] int fd() const noexcept
	{
		return fd_;
	}
	void set() noexcept;
	/// False: it was not set (any more).
	bool clear() noexcept;

private:
	int fd_;
};

/// A descriptor to sleep on, readable while one of several others is (epoll).
class WaitSet
{
public:
	WaitSet() noexcept = default;
	WaitSet(const WaitSet &) = delete;
	WaitSet &operator=(const WaitSet &) = delete;
	~WaitSet();

	/// Makes the descriptor; false: there is none left.
	[[nodiscard]] bool open() noexcept;
	/// One more, if it is open; false: no memory, or too many (fs.epoll.max_user_watches).
	[[nodiscard]] bool add(int fd) noexcept;
	void remove(int fd) noexcept;
	/// -1 if it is not open.
	[[nodiscard]] int fd() const noexcept
	{
		return fd_;
	}

private:
	int fd_ = -1;
};

/// One of several threads that wait may take the news from another, which then looks after this time.
inline constexpr int shared_wait_ms = 10;

/// A point in time after so many milliseconds; negative: never.
class Deadline
{
public:
	explicit Deadline(int timeout_ms) noexcept;
	[[nodiscard]] Deadline earlier(const Deadline &other) const noexcept
	{
		return until_ns_ < other.until_ns_ ? *this : other;
	}
	/// What is left, in milliseconds rounded up; -1: no limit.
	[[nodiscard]] int left_ms() const noexcept;
	[[nodiscard]] bool over() const noexcept
	{
		return left_ms() == 0;
	}

private:
	std::int64_t until_ns_;
};

/// Sleeps until one of the descriptors is readable or time runs out. False: a signal came.
[[nodiscard]] bool sleep_on(std::span<pollfd> descriptors, const Deadline &deadline) noexcept;

} // namespace ibrelk::ofi
