// SPDX-License-Identifier: GPL-2.0-only
//
// See wire.hpp.

#include "wire.hpp"

#include <cerrno>

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

namespace lab
{

namespace
{

// Beyond this a switch drops frames, as real ones do.
constexpr std::size_t queue_frames_max = 1000;
constexpr std::size_t frame_bytes_max = 65536;

void discard_waiting(int fd)
{
	char byte;
	while (recv(fd, &byte, sizeof byte, MSG_DONTWAIT | MSG_TRUNC) >= 0)
		;
}

} // namespace

Wire::Wire(int nodes) :
	ports_(static_cast<std::size_t>(nodes)), switched_(nodes != 2),
	wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))
{
	if (switched_) {
		for (auto &port : ports_)
			std::tie(port.inner, port.outer) = File::socket_pair(SOCK_DGRAM);
	} else {
		std::tie(ports_[0].inner, ports_[1].inner) = File::socket_pair(SOCK_DGRAM);
	}
	thread_ = std::thread([this] { work(); });
}

Wire::~Wire()
{
	{
		const std::lock_guard lock(mutex_);
		stop_ = true;
	}
	wake();
	thread_.join();
}

std::string Wire::mac(int node)
{
	return fmt::format("52:54:00:00:01:{:02x}", node);
}

void Wire::wake() const
{
	eventfd_write(wake_.fd(), 1);
}

void Wire::connect(int node)
{
	const std::lock_guard lock(mutex_);
	Port &port = ports_[index(node)];
	port.queue.clear();
	discard_waiting(port.inner.fd());
	port.up = true;
	wake();
}

void Wire::disconnect(int node)
{
	const std::lock_guard lock(mutex_);
	ports_[index(node)].up = false;
	wake();
}

void Wire::flush(Port &port)
{
	while (!port.queue.empty()) {
		const auto &frame = port.queue.front();
		if (send(port.outer.fd(), frame.data(), frame.size(), MSG_DONTWAIT) < 0 &&
			(errno == EAGAIN || errno == ENOBUFS))
			return;
		port.queue.pop_front();
	}
}

void Wire::forward(std::size_t from, const std::string &frame)
{
	if (frame.size() < 6)
		return;
	const auto *destination = reinterpret_cast<const unsigned char *>(frame.data());
	const bool group = destination[0] & 1;
	for (std::size_t to = 0; to < ports_.size(); to++) {
		Port &port = ports_[to];
		if (to == from || !port.up || (!group && destination[5] != to + 1))
			continue;
		if (port.queue.size() < queue_frames_max)
			port.queue.push_back(frame);
		flush(port);
	}
}

void Wire::work()
{
	std::string frame;
	for (;;) {
		std::vector<pollfd> fds{{wake_.fd(), POLLIN, 0}};
		{
			const std::lock_guard lock(mutex_);
			if (stop_)
				return;
			for (const auto &port : ports_) {
				fds.push_back({port.up ? -1 : port.inner.fd(), POLLIN, 0});
				const short events = port.queue.empty() ? POLLIN : POLLIN | POLLOUT;
				fds.push_back({switched_ ? port.outer.fd() : -1, events, 0});
			}
		}
		poll(fds.data(), fds.size(), -1);

		const std::lock_guard lock(mutex_);
		eventfd_t value;
		eventfd_read(wake_.fd(), &value);
		for (std::size_t i = 0; i < ports_.size(); i++) {
			Port &port = ports_[i];
			if (!port.up)
				discard_waiting(port.inner.fd());
			if (!switched_)
				continue;
			flush(port);
			for (int n = 0; n < 64; n++) {
				frame.resize(frame_bytes_max);
				const ssize_t length =
					recv(port.outer.fd(), frame.data(), frame.size(), MSG_DONTWAIT);
				if (length < 0)
					break;
				frame.resize(static_cast<std::size_t>(length));
				forward(i, frame);
			}
		}
	}
}

} // namespace lab
