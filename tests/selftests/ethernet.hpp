// SPDX-License-Identifier: GPL-2.0-only
/*
 * A network interface of this node as the self-tests use it that send and record whole Ethernet frames: what
 * the kernel says about it, sending by a raw socket, listening to what the node itself sends, and pcap files.
 */
#ifndef SELFTESTS_ETHERNET_HPP
#define SELFTESTS_ETHERNET_HPP

#include "roce.hpp"

#include <chrono>
#include <cstdint>
#include <fstream>
#include <optional>
#include <string>

namespace ethernet
{

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;
using std::chrono::milliseconds;

[[noreturn]] void fail_errno(const std::string &what);

/* Addresses in host byte order. */
std::uint32_t address_of(const std::string &text);
std::string text_of(std::uint32_t address);

class Socket
{
public:
	Socket(int domain, int type, int protocol);
	~Socket();
	Socket(const Socket &) = delete;
	Socket &operator=(const Socket &) = delete;

	[[nodiscard]] int fd() const
	{
		return fd_;
	}

private:
	int fd_;
};

struct Interface {
	explicit Interface(const std::string &interface_name);

	[[nodiscard]] std::uint32_t address() const;

	std::string name;
	int index = 0;
	roce::Mac mac{};
	std::size_t mtu = 0;
};

/* Sends frames one by one, and waits for so long after each. */
class Sender
{
public:
	/* With ahead, frames pass what waits on this node, for netem to let it go. */
	Sender(const Interface &interface, microseconds gap, bool ahead = false);

	/* Says false if the frame is longer than the interface takes. */
	bool send(roce::View frame);

private:
	const Interface &interface_;
	microseconds gap_;
	Socket socket_;
};

/* Listens to what this node sends, when it leaves: behind netem, and without what a Sender sends ahead. */
class Listener
{
public:
	explicit Listener(const Interface &interface);

	/* The next frame, valid until the next call; nothing, if none comes until then. */
	std::optional<roce::View> next(Clock::time_point deadline);
	/* How many frames there was no room for since it was asked last. */
	std::uint64_t missed();

private:
	Socket socket_;
	roce::Bytes buffer_;
};

/* A pcap file of Ethernet frames that is written. */
class PcapWriter
{
public:
	explicit PcapWriter(const std::string &path);

	void add(roce::View frame);
	/* Throws if not all has been written. */
	void finish();

private:
	std::string path_;
	std::ofstream file_;
};

/* One that is read. */
class PcapReader
{
public:
	explicit PcapReader(const std::string &path);

	/* The next frame, or nothing at the end. */
	std::optional<roce::Bytes> next();

private:
	std::string path_;
	std::ifstream file_;
};

} // namespace ethernet

#endif
