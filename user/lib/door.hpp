// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// The two doors by which a batch of commands enters the kernel: an ioctl, and an io_uring command.
//
// Which is better? The kernel accepts a batch before either call returns and leaves nothing pending, so
// io_uring cannot overlap anything here; it adds the handling of two queues to the same single system call
// (about 1.1 us against 0.3 us for an empty command, measured in instructions). Hence IBRELK_DOOR_AUTO means
// the ioctl. The io_uring door is for programs that live in io_uring anyway, and for systems on which ioctl
// is filtered; it is complete, and the tests drive both.
#pragma once

#include <cstdint>
#include <mutex>

#include <liburing.h>

#include <ibrelk/ibrelk.h>

namespace ibrelk
{

class Door
{
public:
	Door() noexcept = default;
	Door(const Door &) = delete;
	Door &operator=(const Door &) = delete;
	~Door();

	/// Chooses the door and makes it ready. @p wanted is enum ibrelk_door, @p environment the value of
	/// IBRELK_DOOR or nullptr. Returns 0, -EINVAL (no such door), -ENOTSUP (io_uring forced in vain).
	int open(int endpoint_fd, std::uint32_t wanted, const char *environment) noexcept;

	/// Hands over a batch; returns the number accepted, or a negative errno.
	int submit(const ibrelk_command *commands, std::uint32_t count) noexcept;

	[[nodiscard]] ibrelk_door kind() const noexcept
	{
		return kind_;
	}

private:
	int open_uring() noexcept;
	int submit_uring(const ibrelk_command *commands, std::uint32_t count) noexcept;

	int fd_ = -1;
	ibrelk_door kind_ = IBRELK_DOOR_IOCTL;
	bool broken_ = false;   // of the io_uring: it failed in a way that leaves its queue in doubt
	std::mutex uring_lock_; // protects uring_ and broken_: an io_uring has one submitter at a time
	::io_uring uring_{};
};

} // namespace ibrelk
