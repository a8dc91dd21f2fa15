// SPDX-License-Identifier: GPL-2.0-only
/*
 * inject sends RoCEv2 frames with a valid ICRC from a raw socket, so that what is wrong with them gets
 * past soft-RoCE's own check and is the module's to find. (Damage done by netem never gets that far.) It
 * runs as root on a node of the lab and has three modes:
 *
 *	one frame from the command line, --count times:
 *		inject --interface eth0 --to 10.1.0.2 --qpn 18 --opcode uc-send-only --payload-hex 00ff
 *	packets that this node is sending to its peer just now, once more, as they were and damaged in each
 *	way that mutation.cpp knows:
 *		inject --interface eth0 --to 10.1.0.2 --replay-mutated
 *	the same with packets from a pcap file, which --save or tcpdump has written:
 *		inject --interface eth0 --to 10.1.0.2 --corrupt-of old.pcap
 *	with --redirect, to the queue pair that this node is sending to just now instead of the one then
 *
 * What was sent is printed as one JSON object. With RC there is little to attack: soft-RoCE takes a
 * packet only at its turn (--psn), and an old one never reaches the module.
 */
#include "mutation.hpp"
#include "roce.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

namespace
{

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;
using std::chrono::milliseconds;

struct Options {
	std::string interface;
	std::string to;
	std::string from;
	std::string dmac = "auto";
	std::string opcode = "uc-send-only";
	std::uint32_t qpn = 0;
	std::uint32_t psn = 0;
	std::uint32_t qkey = 0;
	std::uint32_t src_qpn = 0;
	std::uint64_t address = 0;
	std::uint32_t rkey = 0;
	std::uint32_t immediate = 0;
	std::string payload_hex;
	std::string payload_file;
	std::string corrupt_of;
	std::string save;
	std::vector<std::string> kinds;
	bool replay_mutated = false;
	bool redirect = false;
	bool list_kinds = false;
	std::uint32_t count = 1;
	std::uint32_t packets = 32;
	std::uint32_t limit_s = 10;
	std::uint32_t gap_us = 500;
	std::uint64_t seed = 1;
};

[[noreturn]] void fail_errno(const std::string &what)
{
	throw std::system_error(errno, std::generic_category(), what);
}

class Socket
{
public:
	Socket(int domain, int type, int protocol) : fd_(socket(domain, type | SOCK_CLOEXEC, protocol))
	{
		if (fd_ < 0)
			fail_errno("socket");
	}

	~Socket()
	{
		close(fd_);
	}

	Socket(const Socket &) = delete;
	Socket &operator=(const Socket &) = delete;

	[[nodiscard]] int fd() const
	{
		return fd_;
	}

private:
	int fd_;
};

/* What the kernel says about a network interface. */
struct Interface {
	explicit Interface(const std::string &interface_name) : name(interface_name)
	{
		ifreq request = ask(SIOCGIFINDEX, "no interface");

		index = request.ifr_ifindex;
		request = ask(SIOCGIFHWADDR, "no MAC address of");
		std::memcpy(mac.data(), request.ifr_hwaddr.sa_data, mac.size());
		request = ask(SIOCGIFMTU, "no MTU of");
		mtu = static_cast<std::size_t>(request.ifr_mtu);
	}

	[[nodiscard]] std::uint32_t address() const
	{
		const ifreq request = ask(SIOCGIFADDR, "no IPv4 address of");
		sockaddr_in address{};

		std::memcpy(&address, &request.ifr_addr, sizeof address);
		return ntohl(address.sin_addr.s_addr);
	}

	std::string name;
	int index = 0;
	roce::Mac mac{};
	std::size_t mtu = 0;

private:
	[[nodiscard]] ifreq ask(unsigned long what, const char *complaint) const
	{
		const Socket socket(AF_INET, SOCK_DGRAM, 0);
		ifreq request{};

		name.copy(request.ifr_name, sizeof request.ifr_name - 1);
		if (ioctl(socket.fd(), what, &request) < 0)
			fail_errno(std::string(complaint) + " " + name);
		return request;
	}
};

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

roce::Mac mac_of(const std::string &text)
{
	roce::Mac mac{};
	int end = 0;

	if (std::sscanf(text.c_str(), "%2hhx:%2hhx:%2hhx:%2hhx:%2hhx:%2hhx%n", &mac[0], &mac[1], &mac[2],
		    &mac[3], &mac[4], &mac[5], &end) != 6 ||
		static_cast<std::size_t>(end) != text.size())
		throw std::invalid_argument("not a MAC address: " + text);
	return mac;
}

/* The neighbour's MAC address as the kernel knows it now, or an empty text. */
std::string neighbour(const Interface &interface, std::uint32_t address)
{
	std::ifstream table("/proc/net/arp");
	std::string line;

	std::getline(table, line);
	while (std::getline(table, line)) {
		std::istringstream fields(line);
		std::string ip, type, flags, mac, mask, device;

		fields >> ip >> type >> flags >> mac >> mask >> device;
		if (ip == text_of(address) && device == interface.name && flags != "0x0")
			return mac;
	}
	return {};
}

/* Makes the kernel ask for the neighbour, by a datagram to the discard port, and waits for the answer. */
roce::Mac resolve(const Interface &interface, std::uint32_t address, milliseconds limit)
{
	const Socket socket(AF_INET, SOCK_DGRAM, 0);
	const auto deadline = Clock::now() + limit;
	sockaddr_in discard{};

	discard.sin_family = AF_INET;
	discard.sin_port = htons(9);
	discard.sin_addr.s_addr = htonl(address);
	setsockopt(socket.fd(), SOL_SOCKET, SO_BINDTODEVICE, interface.name.c_str(),
		static_cast<socklen_t>(interface.name.size()));
	for (;;) {
		const std::string mac = neighbour(interface, address);

		if (!mac.empty())
			return mac_of(mac);
		if (Clock::now() > deadline)
			throw std::runtime_error(
				"no answer to ARP from " + text_of(address) + " on " + interface.name);
		sendto(socket.fd(), "", 0, 0, reinterpret_cast<const sockaddr *>(&discard), sizeof discard);
		std::this_thread::sleep_for(milliseconds(50));
	}
}

sockaddr_ll link_address(const Interface &interface, std::uint16_t protocol)
{
	sockaddr_ll address{};

	address.sll_family = AF_PACKET;
	address.sll_protocol = htons(protocol);
	address.sll_ifindex = interface.index;
	return address;
}

/* Sends frames one by one and counts them. */
class Sender
{
public:
	Sender(const Interface &interface, microseconds gap) :
		interface_(interface), gap_(gap), socket_(AF_PACKET, SOCK_RAW, 0)
	{
		const sockaddr_ll address = link_address(interface, 0);

		if (bind(socket_.fd(), reinterpret_cast<const sockaddr *>(&address), sizeof address) < 0)
			fail_errno("cannot bind to " + interface.name);
	}

	/* Says false if the frame is longer than the interface takes. */
	bool send(roce::View frame)
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

private:
	const Interface &interface_;
	microseconds gap_;
	Socket socket_;
};

/* A packet of ibrelk's in its frame, and where it is there. */
struct Sample {
	roce::Bytes frame;
	roce::Layout layout;

	[[nodiscard]] roce::View packet() const
	{
		return roce::View(frame).subspan(layout.payload, layout.payload_bytes);
	}
};

std::optional<Sample> sample_of(roce::View frame, std::uint32_t destination)
{
	const auto layout = roce::parse(frame);

	if (!layout || layout->destination != destination || !layout->is_send_only())
		return std::nullopt;

	// A capture is behind netem, which may have damaged the packet; a copy with a good ICRC would be
	// believed.
	if (roce::icrc(frame) != roce::icrc_sent(frame))
		return std::nullopt;

	Sample sample{{frame.begin(), frame.end()}, *layout};

	if (!mutation::is_packet(sample.packet()))
		return std::nullopt;
	return sample;
}

/* The samples wanted: some of each, so that a stream of acknowledgements does not crowd out the data. */
class Samples
{
public:
	explicit Samples(std::size_t wanted) : wanted_(wanted)
	{
	}

	void offer(Sample sample)
	{
		const bool data = sample.packet()[1] <= 2;
		std::size_t &count = data ? data_ : other_;

		if (count < (data ? wanted_ - wanted_ / 4 : wanted_ / 4)) {
			count++;
			list_.push_back(std::move(sample));
		}
	}

	[[nodiscard]] bool full() const
	{
		return list_.size() == wanted_;
	}

	[[nodiscard]] const std::vector<Sample> &list() const
	{
		return list_;
	}

private:
	std::size_t wanted_;
	std::size_t data_ = 0;
	std::size_t other_ = 0;
	std::vector<Sample> list_;
};

/* Listens to what this node sends, until there are enough samples or the time is over. */
void capture(const Interface &interface, std::uint32_t destination, milliseconds limit, Samples &samples)
{
	const Socket socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL));
	const sockaddr_ll address = link_address(interface, ETH_P_ALL);
	const auto deadline = Clock::now() + limit;
	roce::Bytes buffer(65536);

	if (bind(socket.fd(), reinterpret_cast<const sockaddr *>(&address), sizeof address) < 0)
		fail_errno("cannot listen on " + interface.name);
	while (!samples.full()) {
		const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
		pollfd ready{socket.fd(), POLLIN, 0};
		sockaddr_ll sender{};
		socklen_t sender_bytes = sizeof sender;

		if (left.count() <= 0 || poll(&ready, 1, static_cast<int>(left.count())) == 0)
			return;

		const ssize_t bytes = recvfrom(socket.fd(), buffer.data(), buffer.size(), MSG_DONTWAIT,
			reinterpret_cast<sockaddr *>(&sender), &sender_bytes);

		if (bytes < 0 || sender.sll_pkttype != PACKET_OUTGOING)
			continue;
		if (auto sample = sample_of(
			    roce::View(buffer).first(static_cast<std::size_t>(bytes)), destination))
			samples.offer(std::move(*sample));
	}
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

void pcap_write(const std::string &path, const std::vector<Sample> &samples)
{
	std::ofstream file(path, std::ios::binary);
	const PcapFile header;

	file.write(reinterpret_cast<const char *>(&header), sizeof header);
	for (const Sample &sample : samples) {
		PcapFrame frame;

		frame.bytes = frame.bytes_stored = static_cast<std::uint32_t>(sample.frame.size());
		file.write(reinterpret_cast<const char *>(&frame), sizeof frame);
		file.write(reinterpret_cast<const char *>(sample.frame.data()), frame.bytes);
	}
	if (!file.flush())
		throw std::runtime_error("cannot write " + path);
}

void pcap_read(const std::string &path, std::uint32_t destination, Samples &samples)
{
	std::ifstream file(path, std::ios::binary);
	const PcapFile expected;
	PcapFile header;
	PcapFrame frame;

	if (!file.read(reinterpret_cast<char *>(&header), sizeof header) ||
		(header.magic != expected.magic && header.magic != 0xa1b23c4d) ||
		header.link != expected.link)
		throw std::runtime_error("not a pcap file of Ethernet frames: " + path);
	while (!samples.full() && file.read(reinterpret_cast<char *>(&frame), sizeof frame)) {
		roce::Bytes bytes(std::min<std::uint32_t>(frame.bytes_stored, 1 << 20));

		if (!file.read(reinterpret_cast<char *>(bytes.data()),
			    static_cast<std::streamsize>(bytes.size())))
			throw std::runtime_error("ends within a frame: " + path);
		if (auto sample = sample_of(bytes, destination))
			samples.offer(std::move(*sample));
	}
}

roce::Bytes payload_of(const Options &options)
{
	roce::Bytes payload;

	if (!options.payload_file.empty()) {
		std::ifstream file(options.payload_file, std::ios::binary);

		if (!file)
			throw std::runtime_error("cannot read " + options.payload_file);
		payload.assign(std::istreambuf_iterator<char>(file), {});
	}
	if (options.payload_hex.size() % 2)
		throw std::invalid_argument("--payload-hex needs two digits for each byte");
	for (std::size_t i = 0; i < options.payload_hex.size(); i += 2) {
		const std::string digits = options.payload_hex.substr(i, 2);
		std::size_t used = 0;
		const unsigned long byte = std::stoul(digits, &used, 16);

		if (used != 2)
			throw std::invalid_argument("not hexadecimal: " + digits);
		payload.push_back(static_cast<std::uint8_t>(byte));
	}
	return payload;
}

using Counts = std::map<std::string, std::uint64_t, std::less<>>;

void print_counts(const char *name, const Counts &counts)
{
	const char *separator = "";

	std::printf("\"%s\": {", name);
	for (const auto &[kind, count] : counts) {
		std::printf(
			"%s\"%s\": %llu", separator, kind.c_str(), static_cast<unsigned long long>(count));
		separator = ", ";
	}
	std::printf("}");
}

void send_one(const Options &options, const Interface &interface, std::uint32_t destination)
{
	const roce::Headers headers{
		.source_mac = interface.mac,
		.destination_mac = options.dmac == "auto"
			? resolve(interface, destination, std::chrono::seconds(options.limit_s))
			: mac_of(options.dmac),
		.source = options.from.empty() ? interface.address() : address_of(options.from),
		.destination = destination,
		.opcode = roce::opcode_of(options.opcode).value(),
		.qpn = options.qpn,
		.psn = options.psn,
		.qkey = options.qkey,
		.source_qpn = options.src_qpn,
		.address = options.address,
		.rkey = options.rkey,
		.immediate = options.immediate,
	};
	const roce::Bytes frame = roce::build(headers, payload_of(options));
	Sender sender(interface, microseconds(options.gap_us));
	Counts sent;

	for (std::uint32_t i = 0; i < options.count; i++) {
		if (!sender.send(frame))
			throw std::runtime_error("the frame is longer than the interface takes");
		sent[options.opcode]++;
	}
	std::printf("{");
	print_counts("sent", sent);
	std::printf("}\n");
}

std::vector<const mutation::Kind *> kinds_wanted(const Options &options)
{
	std::vector<const mutation::Kind *> wanted;

	for (const mutation::Kind &kind : mutation::kinds())
		if (options.kinds.empty() && !kind.on_request)
			wanted.push_back(&kind);
	for (const std::string &name : options.kinds) {
		const mutation::Kind *kind = mutation::find(name);

		if (!kind)
			throw std::invalid_argument("no such kind of damage (see --list-kinds): " + name);
		wanted.push_back(kind);
	}
	return wanted;
}

/*
 * All packets of a path have one token and one checksum seed, so their seeds tell whether the module
 * still calculates the checksum in the way that mutation.cpp takes back.
 */
bool seeds_agree(const std::vector<Sample> &samples)
{
	std::map<std::uint32_t, std::uint32_t> seeds;
	bool agree = true;

	for (const Sample &sample : samples) {
		const std::uint32_t seed = mutation::seed_of(sample.packet());

		agree &= seeds.try_emplace(mutation::token_of(sample.packet()), seed).first->second == seed;
	}
	return agree;
}

/* Sends a damaged packet in the frame of the sample. One that was made longer is cut to what the interface
 * takes; if nothing of the damage is left then, it says false. */
bool send_damaged(Sender &sender, const Interface &interface, const Sample &sample, roce::View packet)
{
	const std::size_t room = interface.mtu + ETH_HLEN - sample.layout.payload - sizeof(std::uint32_t);

	if (packet.size() > room && sample.packet().size() >= room)
		return false;
	return sender.send(
		roce::with_payload(sample.frame, packet.first(std::min(packet.size(), room & ~3ul))));
}

/* Makes old packets go to the queue pair that is in use now. */
std::vector<Sample> redirected(const Options &options, const Interface &interface, std::uint32_t destination,
	std::vector<Sample> samples)
{
	constexpr std::size_t qpn_at = 14 + 20 + 8 + 5; /* Ethernet, IPv4, UDP, in the BTH */
	Samples fresh(4);

	capture(interface, destination, std::chrono::seconds(options.limit_s), fresh);
	if (fresh.list().empty())
		throw std::runtime_error("no packet of ibrelk to " + options.to + " was seen");
	for (Sample &sample : samples) {
		const std::uint32_t qpn = fresh.list().front().layout.qpn;

		/* with_payload() makes a new ICRC. */
		for (int i = 0; i < 3; i++)
			sample.frame.at(qpn_at + i) = static_cast<std::uint8_t>(qpn >> (16 - 8 * i));
	}
	return samples;
}

void replay(const Options &options, const Interface &interface, std::uint32_t destination)
{
	const auto kinds = kinds_wanted(options);
	Samples captured(options.packets);
	Sender sender(interface, microseconds(options.gap_us));
	mutation::Random random(options.seed);
	Counts sent;
	Counts skipped;

	if (options.corrupt_of.empty())
		capture(interface, destination, std::chrono::seconds(options.limit_s), captured);
	else
		pcap_read(options.corrupt_of, destination, captured);
	if (captured.list().empty())
		throw std::runtime_error("no packet of ibrelk to " + options.to + " was seen");
	if (!options.save.empty())
		pcap_write(options.save, captured.list());

	const std::vector<Sample> samples = options.redirect
		? redirected(options, interface, destination, captured.list())
		: captured.list();

	for (const mutation::Kind *kind : kinds)
		sent[std::string(kind->name)] = 0;
	for (std::uint32_t i = 0; i < options.count; i++) {
		for (const mutation::Kind *kind : kinds) {
			for (const Sample &sample : samples) {
				const auto packet = mutation::mutate(*kind, sample.packet(), random);
				const bool fits = packet && send_damaged(sender, interface, sample, *packet);

				(fits ? sent : skipped)[std::string(kind->name)]++;
			}
		}
	}
	std::printf("{\"captured\": %zu, \"seeds_agree\": %s, ", samples.size(),
		seeds_agree(samples) ? "true" : "false");
	print_counts("sent", sent);
	std::printf(", ");
	print_counts("not_applicable", skipped);
	std::printf("}\n");
}

void list_kinds()
{
	for (const mutation::Kind &kind : mutation::kinds())
		std::printf("%-28.*s %.*s%s\n", static_cast<int>(kind.name.size()), kind.name.data(),
			static_cast<int>(kind.expected.size()), kind.expected.data(),
			kind.on_request ? " (only on request)" : "");
}

void run(const Options &options)
{
	if (options.list_kinds) {
		list_kinds();
		return;
	}

	const Interface interface(options.interface);
	const std::uint32_t destination = address_of(options.to);

	if (options.replay_mutated || !options.corrupt_of.empty())
		replay(options, interface, destination);
	else
		send_one(options, interface, destination);
}

void add_options(CLI::App &app, Options &options)
{
	const auto opcodes = roce::opcode_names();
	auto *list = app.add_flag("--list-kinds", options.list_kinds, "list the kinds of damage and leave");

	app.add_option("--interface", options.interface, "network interface to send on");
	app.add_option("--to", options.to, "IPv4 address of the peer");
	app.add_option("--from", options.from, "IPv4 address to claim; else the interface's");
	app.add_option("--dmac", options.dmac, "MAC address of the peer, or auto: ask for it by ARP");
	auto *qpn = app.add_option("--qpn", options.qpn, "queue pair to send to");
	app.add_option("--opcode", options.opcode, "opcode")->check(CLI::IsMember(opcodes));
	app.add_option("--psn", options.psn, "packet sequence number");
	app.add_option("--qkey", options.qkey, "UD: Q_Key");
	app.add_option("--src-qpn", options.src_qpn, "UD: queue pair to claim");
	app.add_option("--address", options.address, "WRITE: remote address");
	app.add_option("--rkey", options.rkey, "WRITE: remote key");
	app.add_option("--immediate", options.immediate, "opcodes with an immediate: its value");
	auto *hex = app.add_option("--payload-hex", options.payload_hex, "payload");
	app.add_option("--payload-file", options.payload_file, "payload")->excludes(hex);
	auto *replay = app.add_flag("--replay-mutated", options.replay_mutated,
		"capture what this node sends to the peer, and send it again, damaged");
	app.add_option("--corrupt-of", options.corrupt_of, "the same with the frames of a pcap file")
		->excludes(replay)
		->excludes(qpn);
	app.add_flag("--redirect", options.redirect,
		"send to the queue pair in use now, which is learned from what this node sends");
	app.add_option(
		   "--kinds", options.kinds, "kinds of damage, separated by commas; else all harmless ones")
		->delimiter(',');
	app.add_option("--packets", options.packets, "how many packets to capture, at most")
		->check(CLI::Range(4, 100000));
	app.add_option("--limit", options.limit_s, "seconds to wait, for packets or for ARP");
	app.add_option("--save", options.save, "write the captured frames to this pcap file");
	app.add_option("--seed", options.seed, "of the random choices in damaging");
	app.add_option("--count", options.count, "send this many of each");
	app.add_option("--gap-us", options.gap_us, "microseconds between frames");
	replay->excludes(qpn);
	app.callback([&options, list, qpn] {
		if (*list)
			return;
		if (options.interface.empty() || options.to.empty())
			throw CLI::ValidationError("--interface and --to are needed");
		if (!options.replay_mutated && options.corrupt_of.empty() && !*qpn)
			throw CLI::ValidationError(
				"one of --qpn, --replay-mutated and --corrupt-of is needed");
	});
}

} // namespace

int main(int argc, char **argv)
{
	CLI::App app("Sends RoCEv2 frames with a valid ICRC from a raw socket.");
	Options options;

	add_options(app, options);
	CLI11_PARSE(app, argc, argv);
	try {
		run(options);
	} catch (const std::exception &error) {
		std::fprintf(stderr, "inject: %s\n", error.what());
		return 1;
	}
	return 0;
}
