// SPDX-License-Identifier: GPL-2.0-only
//
// A TCP connection between the two ends of a yardstick, without Nagle's algorithm.
#pragma once

#include <cerrno>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

class Socket
{
public:
	/// Listens there, and takes the first who comes.
	static Socket accept_one(const char *where, std::uint16_t port)
	{
		const sockaddr_in address = address_of(where, port);
		Socket listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));

		listener.set(SOL_SOCKET, SO_REUSEADDR);
		check(::bind(listener.fd_, reinterpret_cast<const sockaddr *>(&address), sizeof(address)),
			"bind");
		check(::listen(listener.fd_, 1), "listen");

		Socket socket(::accept4(listener.fd_, nullptr, nullptr, SOCK_CLOEXEC));

		socket.set(IPPROTO_TCP, TCP_NODELAY);
		return socket;
	}

	static Socket connect_to(const char *where, std::uint16_t port)
	{
		const sockaddr_in address = address_of(where, port);
		Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));

		check(::connect(socket.fd_, reinterpret_cast<const sockaddr *>(&address), sizeof(address)),
			"connect");
		socket.set(IPPROTO_TCP, TCP_NODELAY);
		return socket;
	}

	Socket(Socket &&other) noexcept : fd_(std::exchange(other.fd_, -1))
	{
	}
	Socket(const Socket &) = delete;
	Socket &operator=(const Socket &) = delete;
	~Socket()
	{
		if (fd_ >= 0)
			::close(fd_);
	}

	void send(const void *data, std::size_t bytes)
	{
		const auto *next = static_cast<const char *>(data);

		while (bytes) {
			const auto sent = check(::send(fd_, next, bytes, MSG_NOSIGNAL), "send");

			next += sent;
			bytes -= static_cast<std::size_t>(sent);
		}
	}

	/// Returns whether there was something, or throws if there was less.
	bool receive_any(void *data, std::size_t bytes)
	{
		auto *next = static_cast<char *>(data);
		std::size_t left = bytes;

		while (left) {
			const auto got = check(::recv(fd_, next, left, MSG_WAITALL), "recv");

			if (got == 0 && left == bytes)
				return false;
			if (got == 0)
				throw std::runtime_error("the peer has gone");
			next += got;
			left -= static_cast<std::size_t>(got);
		}
		return true;
	}

	/// Is there something to receive, or has the peer gone?
	[[nodiscard]] bool readable() const
	{
		pollfd entry{fd_, POLLIN, 0};

		return check(::poll(&entry, 1, 0), "poll") > 0;
	}

	void receive(void *data, std::size_t bytes)
	{
		if (bytes && !receive_any(data, bytes))
			throw std::runtime_error("the peer has gone");
	}

private:
	explicit Socket(int fd) : fd_(static_cast<int>(check(fd, "socket")))
	{
	}

	static ssize_t check(ssize_t result, const char *call)
	{
		if (result < 0)
			throw std::system_error(errno, std::generic_category(), call);
		return result;
	}

	static sockaddr_in address_of(const char *text, std::uint16_t port)
	{
		sockaddr_in address{};

		address.sin_family = AF_INET;
		address.sin_port = htons(port);
		if (::inet_pton(AF_INET, text, &address.sin_addr) != 1)
			throw std::runtime_error(std::string(text) + " is no address");
		return address;
	}

	void set(int level, int option)
	{
		const int on = 1;

		check(::setsockopt(fd_, level, option, &on, sizeof(on)), "setsockopt");
	}

	int fd_;
};
