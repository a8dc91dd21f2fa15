// SPDX-License-Identifier: GPL-2.0-only
/* A network interface of this node; see ethernet.hpp. */
#include "ethernet.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <system_error>
#include <thread>

#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

namespace ethernet
{

namespace
{

/* Room for what a node sends while the one who listens to it is not scheduled. */
constexpr int listen_bytes = 32 << 20;

sockaddr_ll link_address(const Interface &interface, std::uint16_t protocol)
{
	sockaddr_ll address{};

	address.sll_family = AF_PACKET;
	address.sll_protocol = htons(protocol);
	address.sll_ifindex = interface.index;
	return address;
}

ifreq ask(const std::string &name, unsigned long what, const char *complaint)
{
	const Socket socket(AF_INET, SOCK_DGRAM, 0);
	ifreq request{};

	name.copy(request.ifr_name, sizeof request.ifr_name - 1);
	if (ioctl(socket.fd(), what, &request) < 0)
		fail_errno(std::string(complaint) + " " + name);
	return request;
}

/* The header of a pcap file and of each frame in it, in the byte order of the machine that wrote it. */
struct PcapFile {
	std::uint32_t magic = 0xa1b2c3d4;
	std::uint16_t major = 2, minor = 4;
	std::uint32_t zone = 0, accuracy = 0, bytes_max = 65536, link = 1; /* Ethernet */
};

struct PcapFrame {
	std::uint32_t seconds = 0, fraction = 0, bytes_stored = 0, bytes = 0;
};

} // namespace

void fail_errno(const std::string &what)
{
	throw std::system_error(errno, std::generic_category(), what);
}

std::uint32_t address_of(const std::string &text)
{
	in_addr address{};

	if (inet_pton(AF_INET, text.c_str(), &address) != 1)
		throw std::invalid_argument("not an IPv4 address: " + text);
	return ntohl(address.s_addr);
}

std::string text_of(std::uint32_t address)
{
	char text[INET_ADDRSTRLEN];
	const in_addr in{htonl(address)};

	inet_ntop(AF_INET, &in, text, sizeof text);
	return text;
}

Socket::Socket(int domain, int type, int protocol) : fd_(socket(domain, type | SOCK_CLOEXEC, protocol))
{
	if (fd_ < 0)
		fail_errno("socket");
}

Socket::~Socket()
{
	close(fd_);
}

Interface::Interface(const std::string &interface_name) : name(interface_name)
{
	index = ask(name, SIOCGIFINDEX, "no interface").ifr_ifindex;

	const ifreq hardware = ask(name, SIOCGIFHWADDR, "no MAC address of");

	std::memcpy(mac.data(), hardware.ifr_hwaddr.sa_data, mac.size());
	mtu = static_cast<std::size_t>(ask(name, SIOCGIFMTU, "no MTU of").ifr_mtu);
}

std::uint32_t Interface::address() const
{
	const ifreq request = ask(name, SIOCGIFADDR, "no IPv4 address of");
	sockaddr_in address{};

	std::memcpy(&address, &request.ifr_addr, sizeof address);
	return ntohl(address.sin_addr.s_addr);
}

Sender::Sender(const Interface &interface, microseconds gap, bool ahead) :
	interface_(interface), gap_(gap), socket_(AF_PACKET, SOCK_RAW, 0)
{
	const sockaddr_ll address = link_address(interface, 0);
	const int bypass = ahead;

	if (bind(socket_.fd(), reinterpret_cast<const sockaddr *>(&address), sizeof address) < 0)
		fail_errno("cannot bind to " + interface.name);
	if (setsockopt(socket_.fd(), SOL_PACKET, PACKET_QDISC_BYPASS, &bypass, sizeof bypass) < 0)
		fail_errno("cannot send ahead on " + interface.name);
}

bool Sender::send(roce::View frame)
{
	if (frame.size() > interface_.mtu + ETH_HLEN)
		return false;
	/* A full queue is waited for: the socket blocks, but the queue itself may say ENOBUFS. */
	while (::send(socket_.fd(), frame.data(), frame.size(), 0) < 0) {
		if (errno != ENOBUFS && errno != EINTR)
			fail_errno("cannot send on " + interface_.name);
		std::this_thread::sleep_for(milliseconds(1));
	}
	if (gap_.count())
		std::this_thread::sleep_for(gap_);
	return true;
}

Listener::Listener(const Interface &interface) :
	socket_(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL)), buffer_(65536)
{
	const sockaddr_ll address = link_address(interface, ETH_P_ALL);

	if (setsockopt(socket_.fd(), SOL_SOCKET, SO_RCVBUFFORCE, &listen_bytes, sizeof listen_bytes) < 0)
		fail_errno("no room to listen on " + interface.name);
	if (bind(socket_.fd(), reinterpret_cast<const sockaddr *>(&address), sizeof address) < 0)
		fail_errno("cannot listen on " + interface.name);
}

std::optional<roce::View> Listener::next(Clock::time_point deadline)
{
	for (;;) {
		const std::int64_t left =
			std::max<std::int64_t>(std::chrono::nanoseconds(deadline - Clock::now()).count(), 0);
		const timespec patience{left / 1000000000, left % 1000000000};
		pollfd ready{socket_.fd(), POLLIN, 0};
		sockaddr_ll sender{};
		socklen_t sender_bytes = sizeof sender;

		/* A signal ends it, too. */
		if (ppoll(&ready, 1, &patience, nullptr) <= 0)
			return std::nullopt;

		const ssize_t bytes = recvfrom(socket_.fd(), buffer_.data(), buffer_.size(), MSG_DONTWAIT,
			reinterpret_cast<sockaddr *>(&sender), &sender_bytes);

		if (bytes >= 0 && sender.sll_pkttype == PACKET_OUTGOING)
			return roce::View(buffer_).first(static_cast<std::size_t>(bytes));
	}
}

std::uint64_t Listener::missed()
{
	tpacket_stats stats{};
	socklen_t bytes = sizeof stats;

	if (getsockopt(socket_.fd(), SOL_PACKET, PACKET_STATISTICS, &stats, &bytes) < 0)
		fail_errno("no statistics of what was listened to");
	return stats.tp_drops;
}

PcapWriter::PcapWriter(const std::string &path) : path_(path), file_(path, std::ios::binary)
{
	const PcapFile header;

	file_.write(reinterpret_cast<const char *>(&header), sizeof header);
}

void PcapWriter::add(roce::View frame)
{
	PcapFrame header;

	header.bytes = header.bytes_stored = static_cast<std::uint32_t>(frame.size());
	file_.write(reinterpret_cast<const char *>(&header), sizeof header);
	file_.write(reinterpret_cast<const char *>(frame.data()), header.bytes);
}

void PcapWriter::finish()
{
	if (!file_.flush())
		throw std::runtime_error("cannot write " + path_);
}

PcapReader::PcapReader(const std::string &path) : path_(path), file_(path, std::ios::binary)
{
	const PcapFile expected;
	PcapFile header;

	if (!file_.read(reinterpret_cast<char *>(&header), sizeof header) ||
		(header.magic != expected.magic && header.magic != 0xa1b23c4d) ||
		header.link != expected.link)
		throw std::runtime_error("not a pcap file of Ethernet frames: " + path);
}

std::optional<roce::Bytes> PcapReader::next()
{
	PcapFrame header;

	if (!file_.read(reinterpret_cast<char *>(&header), sizeof header))
		return std::nullopt;

	roce::Bytes frame(std::min<std::uint32_t>(header.bytes_stored, 1 << 20));

	if (!file_.read(reinterpret_cast<char *>(frame.data()), static_cast<std::streamsize>(frame.size())))
		throw std::runtime_error("ends within a frame: " + path_);
	return frame;
}

} // namespace ethernet
