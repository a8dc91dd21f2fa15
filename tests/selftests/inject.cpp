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
 *	with --redirect, to the queue pair that this node is sending to just now instead of the one then (or,
 *	for one frame, instead of --qpn)
 *
 * What was sent is printed as one JSON object. With RC there is little to attack: soft-RoCE takes a
 * packet only at its turn (--psn), and an old one never reaches the module.
 */
#include "ethernet.hpp"
#include "mutation.hpp"
#include "roce.hpp"

#include <algorithm>
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
#include <thread>
#include <utility>
#include <vector>

#include <arpa/inet.h>
#include <net/ethernet.h>
#include <sys/socket.h>

#include <CLI/CLI.hpp>

namespace
{

using ethernet::address_of;
using ethernet::Clock;
using ethernet::Interface;
using ethernet::microseconds;
using ethernet::milliseconds;
using ethernet::Sender;
using ethernet::Socket;
using ethernet::text_of;

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

/* Listens to what this node sends, by one transport or any, until there are enough samples or the time is
 * over. */
void capture(const Interface &interface, std::uint32_t destination, milliseconds limit, Samples &samples,
	std::optional<roce::Transport> transport = {})
{
	ethernet::Listener listener(interface);
	const auto deadline = Clock::now() + limit;

	while (!samples.full()) {
		const auto frame = listener.next(deadline);

		if (!frame)
			return;

		auto sample = sample_of(*frame, destination);

		if (sample && (!transport || roce::transport_of(sample->layout.opcode) == *transport))
			samples.offer(std::move(*sample));
	}
}

void pcap_write(const std::string &path, const std::vector<Sample> &samples)
{
	ethernet::PcapWriter file(path);

	for (const Sample &sample : samples)
		file.add(sample.frame);
	file.finish();
}

void pcap_read(const std::string &path, std::uint32_t destination, Samples &samples)
{
	ethernet::PcapReader file(path);

	while (!samples.full()) {
		const auto frame = file.next();

		if (!frame)
			return;
		if (auto sample = sample_of(*frame, destination))
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

/* The queue pair that this node sends data to now, by a transport if there is one to be named. */
std::uint32_t queue_pair_in_use(const Options &options, const Interface &interface, std::uint32_t destination,
	std::optional<roce::Transport> transport = {})
{
	Samples fresh(1);

	capture(interface, destination, std::chrono::seconds(options.limit_s), fresh, transport);
	if (fresh.list().empty())
		throw std::runtime_error("no packet of ibrelk to " + options.to + " was seen");
	return fresh.list().front().layout.qpn;
}

/* Makes old packets go to it. */
std::vector<Sample> redirected(std::uint32_t qpn, std::vector<Sample> samples)
{
	for (Sample &sample : samples)
		sample.frame = roce::with_changes(sample.frame, {.qpn = qpn});
	return samples;
}

void send_one(const Options &options, const Interface &interface, std::uint32_t destination)
{
	const std::uint8_t opcode = roce::opcode_of(options.opcode).value();
	const roce::Headers headers{
		.source_mac = interface.mac,
		.destination_mac = options.dmac == "auto"
			? resolve(interface, destination, std::chrono::seconds(options.limit_s))
			: mac_of(options.dmac),
		.source = options.from.empty() ? interface.address() : address_of(options.from),
		.destination = destination,
		.opcode = opcode,
		.qpn = options.redirect
			? queue_pair_in_use(options, interface, destination, roce::transport_of(opcode))
			: options.qpn,
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
		? redirected(queue_pair_in_use(options, interface, destination), captured.list())
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
		if (!options.replay_mutated && options.corrupt_of.empty() && !options.redirect && !*qpn)
			throw CLI::ValidationError(
				"one of --qpn, --redirect, --replay-mutated and --corrupt-of is needed");
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
