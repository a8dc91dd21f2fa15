// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Choosing a door, and going through it; see door.hpp.
#include "door.hpp"

#include <cerrno>
#include <cstring>
#include <strings.h>

#include "system.hpp"

namespace sys = ibrelk::system;

namespace ibrelk
{

namespace
{

// One batch is in the queue at a time, so that two entries would do; the kernel's minimum is as good.
constexpr unsigned uring_entries = 4;

constexpr struct {
	const char *name;
	ibrelk_door door;
} door_names[] = {
	{"auto", IBRELK_DOOR_AUTO},
	{"ioctl", IBRELK_DOOR_IOCTL},
	{"uring", IBRELK_DOOR_URING},
	{"prefer-uring", IBRELK_DOOR_PREFER_URING},
};

int door_from_name(const char *name) noexcept
{
	for (const auto &entry : door_names) {
		if (::strcasecmp(name, entry.name) == 0)
			return static_cast<int>(entry.door);
	}
	return -EINVAL;
}

} // namespace

Door::~Door()
{
	if (kind_ == IBRELK_DOOR_URING)
		sys::uring_exit(&uring_);
}

int Door::open(int endpoint_fd, std::uint32_t wanted, const char *environment) noexcept
{
	fd_ = endpoint_fd;
	if (wanted == IBRELK_DOOR_AUTO && environment && *environment) {
		int named = door_from_name(environment);

		if (named < 0)
			return named;
		wanted = static_cast<std::uint32_t>(named);
	}
	switch (wanted) {
	case IBRELK_DOOR_AUTO:
	case IBRELK_DOOR_IOCTL: return 0;
	case IBRELK_DOOR_PREFER_URING: (void)open_uring(); return 0;
	case IBRELK_DOOR_URING: return open_uring() < 0 ? -ENOTSUP : 0;
	default: return -EINVAL;
	}
}

// io_uring may be missing, forbidden by sysctl or a filter, too old for commands, or the module may have been
// built without them. All of that shows in one harmless command that leaves no completion.
int Door::open_uring() noexcept
{
	int error = sys::uring_init(uring_entries, &uring_);

	if (error < 0)
		return error;

	ibrelk_command probe{};

	probe.opcode = IBRELK_OP_NOP;
	probe.flags = IBRELK_CMD_NO_SUCCESS;
	error = submit_uring(&probe, 1);
	if (error < 0) {
		sys::uring_exit(&uring_);
		return error;
	}
	kind_ = IBRELK_DOOR_URING;
	return 0;
}

int Door::submit(const ibrelk_command *commands, std::uint32_t count) noexcept
{
	if (kind_ == IBRELK_DOOR_URING)
		return submit_uring(commands, count);

	ibrelk_submit batch{};

	batch.commands = reinterpret_cast<std::uintptr_t>(commands);
	batch.count = count;
	return sys::ioctl(fd_, IBRELK_IOC_SUBMIT, &batch);
}

int Door::submit_uring(const ibrelk_command *commands, std::uint32_t count) noexcept
{
	const sys::KeepErrno keep; // liburing's inline functions, too
	std::scoped_lock guard(uring_lock_);
	::io_uring_sqe *sqe = broken_ ? nullptr : ::io_uring_get_sqe(&uring_);

	if (!sqe)
		return -EIO;

	ibrelk_submit_uring batch{};

	batch.commands = reinterpret_cast<std::uintptr_t>(commands);
	batch.count = count;
	::io_uring_prep_rw(IORING_OP_URING_CMD, sqe, fd_, nullptr, 0, 0);
	sqe->cmd_op = IBRELK_IOC_SUBMIT;
	static_assert(sizeof(batch) == 16, "the command area of a plain submission entry has 16 bytes");
	std::memcpy(sqe->cmd, &batch, sizeof(batch));

	// Interrupted before the kernel took the entry, the call is simply made again: nothing was submitted.
	int submitted;

	do {
		submitted = sys::uring_submit(&uring_);
	} while (submitted == -EINTR || submitted == -EAGAIN || submitted == -EBUSY);
	if (submitted != 1) {
		broken_ = true;
		return submitted < 0 ? submitted : -EIO;
	}

	// The command has completed by now; the waiting is for kernels that would do it a moment later.
	::io_uring_cqe *cqe = nullptr;
	int error = ::io_uring_peek_cqe(&uring_, &cqe);

	while (error == -EAGAIN || error == -EINTR)
		error = sys::uring_wait(&uring_, &cqe);
	if (error < 0) {
		broken_ = true;
		return error;
	}

	int accepted = cqe->res;

	::io_uring_cqe_seen(&uring_, cqe);
	return accepted;
}

} // namespace ibrelk
