// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "eq.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace ibrelk::ofi
{

namespace
{

// Who does not read his events is told of no more.
constexpr std::size_t events_max = 65536;

} // namespace

fi_ops EventQueue::fid_ops = {
	.size = sizeof(fi_ops),
	.close = EventQueue::close,
	.bind = unsupported,
	.control = EventQueue::control,
	.ops_open = unsupported,
	.tostr = unsupported,
	.ops_set = unsupported,
};

fi_ops_eq EventQueue::eq_ops = {
	.size = sizeof(fi_ops_eq),
	.read = EventQueue::read,
	.readerr = EventQueue::readerr,
	.write = EventQueue::write,
	.sread = EventQueue::sread,
	.strerror = EventQueue::strerror,
};

EventQueue::EventQueue(Fabric &fabric, const fi_eq_attr &attr, void *context) :
	fid_eq{}, fabric_(fabric.users()), wait_(attr.wait_obj), writable_(attr.flags & FI_WRITE)
{
	fid = {.fclass = FI_CLASS_EQ, .context = context, .ops = &fid_ops};
	ops = &eq_ops;
}

int EventQueue::open(fid_fabric *fabric, fi_eq_attr *attr, fid_eq **eq, void *context)
{
	const fi_eq_attr usual{};
	const fi_eq_attr &wanted = attr ? *attr : usual;

	if (wanted.wait_obj == FI_WAIT_SET || wanted.wait_obj == FI_WAIT_MUTEX_COND ||
		wanted.wait_obj == FI_WAIT_POLLFD)
		return -FI_ENOSYS;
	return guarded([&] {
		auto *made = new EventQueue(static_cast<Fabric &>(*fabric), wanted, context);

		if (!made->wake_.works()) {
			delete made;
			return -FI_EMFILE;
		}
		*eq = made;
		return 0;
	});
}

int EventQueue::close(Fid *any)
{
	auto *eq = object_of<EventQueue, fid_eq>(any);

	if (eq->users_.any())
		return -FI_EBUSY;
	delete eq;
	return 0;
}

int EventQueue::control(Fid *any, int command, void *argument)
{
	auto *eq = object_of<EventQueue, fid_eq>(any);

	switch (command) {
	case FI_GETWAIT:
		if (eq->wait_ != FI_WAIT_FD)
			return -FI_ENOSYS;
		*static_cast<int *>(argument) = eq->wake_.fd();
		return 0;
	case FI_GETWAITOBJ: *static_cast<fi_wait_obj *>(argument) = eq->wait_; return 0;
	default: return -FI_ENOSYS;
	}
}

ssize_t EventQueue::add(std::uint32_t event, const void *data, std::size_t bytes)
{
	return guarded([&] {
		const auto *first = static_cast<const std::byte *>(data);
		const std::lock_guard guard(lock_);

		if (events_.size() >= events_max)
			return -FI_EOVERRUN;
		events_.push_back({event, std::vector<std::byte>(first, first + bytes), {}});
		wake_.set();
		return static_cast<int>(bytes);
	});
}

int EventQueue::add_error(const fi_eq_err_entry &error)
{
	return guarded([&] {
		const std::lock_guard guard(lock_);

		if (events_.size() >= events_max)
			return -FI_EOVERRUN;
		events_.push_back({0, {}, error});
		wake_.set();
		return 0;
	});
}

bool EventQueue::has_something()
{
	const std::lock_guard guard(lock_);

	return !events_.empty();
}

ssize_t EventQueue::take(std::uint32_t *event, void *buffer, std::size_t bytes, std::uint64_t flags)
{
	const std::lock_guard guard(lock_);

	if (events_.empty())
		return -FI_EAGAIN;

	const Event &first = events_.front();

	if (first.error.err)
		return -FI_EAVAIL;

	const std::size_t length = first.data.size();

	if (length > bytes)
		return -FI_ETOOSMALL;
	*event = first.kind;
	std::copy(first.data.begin(), first.data.end(), static_cast<std::byte *>(buffer));
	if (!(flags & FI_PEEK))
		pop();
	return static_cast<ssize_t>(length);
}

void EventQueue::pop()
{
	events_.pop_front();
	if (events_.empty())
		wake_.clear();
}

ssize_t EventQueue::read(
	fid_eq *eq, std::uint32_t *event, void *buffer, std::size_t bytes, std::uint64_t flags)
{
	return static_cast<EventQueue &>(*eq).take(event, buffer, bytes, flags);
}

ssize_t EventQueue::sread(
	fid_eq *any, std::uint32_t *event, void *buffer, std::size_t bytes, int timeout, std::uint64_t flags)
{
	auto &eq = static_cast<EventQueue &>(*any);
	const Deadline deadline(timeout);

	for (;;) {
		const ssize_t taken = eq.take(event, buffer, bytes, flags);

		if (taken != -FI_EAGAIN || deadline.over())
			return taken;

		std::array<pollfd, 1> descriptors = {{{eq.wake_.fd(), POLLIN, 0}}};

		if (!sleep_on(descriptors, deadline))
			return eq.take(event, buffer, bytes, flags);
	}
}

ssize_t EventQueue::readerr(fid_eq *any, fi_eq_err_entry *entry, std::uint64_t flags)
{
	auto &eq = static_cast<EventQueue &>(*any);
	const std::lock_guard guard(eq.lock_);

	if (flags & ~FI_PEEK)
		return -FI_EBADFLAGS;
	if (eq.events_.empty() || !eq.events_.front().error.err)
		return -FI_EAGAIN;

	// There is nothing more to say; the buffer for it is the caller's, if he has one.
	void *const room = entry->err_data_size ? entry->err_data : nullptr;

	*entry = eq.events_.front().error;
	entry->err_data = room;
	if (!(flags & FI_PEEK))
		eq.pop();
	return sizeof(*entry);
}

ssize_t EventQueue::write(
	fid_eq *any, std::uint32_t event, const void *buffer, std::size_t bytes, std::uint64_t flags)
{
	auto &eq = static_cast<EventQueue &>(*any);

	if (!eq.writable_ || flags)
		return -FI_EINVAL;
	return eq.add(event, buffer, bytes);
}

const char *EventQueue::strerror(fid_eq *, int provider_error, const void *, char *text, std::size_t length)
{
	const char *known = fi_strerror(provider_error);

	if (text && length > 0) {
		std::strncpy(text, known, length - 1);
		text[length - 1] = '\0';
	}
	return known;
}

} // namespace ibrelk::ofi
