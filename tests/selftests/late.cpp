// SPDX-License-Identifier: GPL-2.0-only
//
// late sends the RDMA writes of this node once more, when they come too late: what a network does
// that keeps a copy of a packet for a while. It runs as root on a node of the lab.
//
//	late record --to 10.1.0.2 --file writes.pcap --packets 100
//		keeps the next 100 writes that this node sends to the peer
//	late send --to 10.1.0.2 --file writes.pcap
//		sends them, to the last bit as they were; with --redirect, to the queue pair that
//		this node sends to just now, with the PSN that is expected there
//	late shadow --to 10.1.0.2 --with copy --spread-us 20000
//		as long as it is not told to end (SIGTERM), sends something after each write that
//		has left the node: a copy of it, so much later at most; or at once --with key, a
//		write of the file with the key that is in use just now; or --with damage, the same
//		write with each bit of its data turned over, which is to do harm: it shows that
//		whoever looks for harm would find it
//	late watch --to 10.1.0.2 --byte 238
//		looks at what this node sends, also if it is no write, and counts what ends with
//		many of these bytes
//
// Of a UC queue pair soft-RoCE takes a packet that is a whole write whatever its PSN is, as the
// specification has it, and looks at its key. Of an RC one it must have the PSN that is expected. All that is
// sent here overtakes what netem holds back on this node, and is not seen by record, shadow and watch. Each
// prints "listening" when it does so, and, in the end, what it has done as one JSON object.
#include "ethernet.hpp"
#include "roce.hpp"

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace
{

using ethernet::Clock;
using ethernet::Interface;
using ethernet::Listener;
using ethernet::microseconds;
using ethernet::Sender;

/* What ends with so many bytes of one value is taken to consist of it. */
constexpr std::size_t tail_bytes = 256;

struct Options {
	std::string command;
	std::string interface = "eth0";
	std::string to;
	std::string file;
	std::string with = "copy";
	bool redirect = false;
	std::uint32_t packets = 100;
	std::uint32_t count = 1;
	std::uint32_t limit_s = 60;
	std::uint32_t gap_us = 500;
	std::uint32_t spread_us = 20000;
	std::uint32_t byte = 0;
	std::uint64_t seed = 1;
};

volatile std::sig_atomic_t told_to_end = 0;

struct Counts {
	std::uint64_t seen = 0; /* what was to be looked at */
	std::uint64_t sent = 0;
	std::uint64_t spoiled = 0; /* ends with the bytes that it must not have */
	std::uint64_t missed = 0;  /* no room to look at */
};

void print(const Counts &counts)
{
	std::printf("{\"seen\": %llu, \"sent\": %llu, \"spoiled\": %llu, \"missed\": %llu}\n",
		static_cast<unsigned long long>(counts.seen), static_cast<unsigned long long>(counts.sent),
		static_cast<unsigned long long>(counts.spoiled),
		static_cast<unsigned long long>(counts.missed));
}

/* A frame to the peer that this node has sent. */
struct Seen {
	roce::View frame;
	roce::Layout layout;

	[[nodiscard]] roce::View payload() const
	{
		return frame.subspan(layout.payload, layout.payload_bytes);
	}

	/* One that netem has damaged is no good to be sent again. */
	[[nodiscard]] bool is_write() const
	{
		return layout.is_write_only() && roce::icrc(frame) == roce::icrc_sent(frame);
	}

	/* A request over a connection; of a reliable one there are answers as well, with the numbers of the
	 * other way. */
	[[nodiscard]] bool is_connected() const
	{
		constexpr std::uint8_t write_only_with_immediate = 0x0b;
		const auto transport = roce::transport_of(layout.opcode);

		return (transport == roce::uc || transport == roce::rc) &&
			(layout.opcode & 0x1f) <= write_only_with_immediate;
	}
};

class Late
{
public:
	explicit Late(const Options &options) :
		options_(options), interface_(options.interface), peer_(ethernet::address_of(options.to)),
		listener_(interface_), sender_(interface_, microseconds(options.gap_us), true)
	{
		std::printf("listening\n");
		std::fflush(stdout);
	}

	void record()
	{
		ethernet::PcapWriter file(options_.file);
		const auto end = Clock::now() + std::chrono::seconds(options_.limit_s);

		while (counts_.seen < options_.packets) {
			const auto seen = next(end);

			if (!seen)
				break;
			if (seen->is_write()) {
				file.add(seen->frame);
				counts_.seen++;
			}
		}
		file.finish();
		finish();
	}

	void send()
	{
		const std::vector<roce::Bytes> frames = read();
		roce::Changes changes;

		if (options_.redirect) {
			const auto end = Clock::now() + std::chrono::seconds(options_.limit_s);

			while (!changes.qpn && follow(changes, end))
				;
			if (!changes.qpn)
				throw std::runtime_error(
					"no packet to a connected queue pair of " + options_.to);
		}
		for (std::uint32_t i = 0; !options_.count || i < options_.count; i++) {
			for (const roce::Bytes &frame : frames) {
				if (told_to_end)
					return finish();
				while (options_.redirect && follow(changes, Clock::now()))
					;
				emit(roce::with_changes(frame, changes));
			}
		}
		finish();
	}

	void shadow()
	{
		if (options_.with == "copy")
			shadow_copies();
		else
			shadow_at_once();
		finish();
	}

	void watch()
	{
		for (;;) {
			const bool ends = told_to_end;
			const auto seen = next(patience(ends));

			if (!seen && ends)
				break;
			if (!seen || seen->layout.payload_bytes < tail_bytes)
				continue;
			counts_.seen++;
			counts_.spoiled += std::ranges::all_of(seen->payload().last(tail_bytes),
				[&](std::uint8_t byte) { return byte == options_.byte; });
		}
		finish();
	}

private:
	/* How long the next frame is waited for; at the end, what has come is still looked at. */
	static Clock::time_point patience(bool ends)
	{
		return Clock::now() + std::chrono::seconds(ends ? 0 : 1);
	}

	/* The next frame to the peer, valid until the next call. */
	std::optional<Seen> next(Clock::time_point deadline)
	{
		while (const auto frame = listener_.next(deadline)) {
			const auto layout = roce::parse(*frame);

			if (layout && layout->destination == peer_)
				return Seen{*frame, *layout};
		}
		return std::nullopt;
	}

	/* By the next frame, what is expected by the queue pair that frames go to. */
	bool follow(roce::Changes &changes, Clock::time_point deadline)
	{
		const auto seen = next(deadline);

		if (seen && seen->is_connected()) {
			changes.qpn = seen->layout.qpn;
			changes.psn = (seen->layout.psn + 1) & 0xffffff;
		}
		return seen.has_value();
	}

	std::vector<roce::Bytes> read()
	{
		ethernet::PcapReader file(options_.file);
		std::vector<roce::Bytes> frames;

		while (auto frame = file.next())
			frames.push_back(std::move(*frame));
		if (frames.empty())
			throw std::runtime_error("nothing in " + options_.file);
		return frames;
	}

	void emit(roce::View frame)
	{
		if (!sender_.send(frame))
			throw std::runtime_error("the frame is longer than the interface takes");
		counts_.sent++;
	}

	/* Copies are kept until their time has come. */
	void shadow_copies()
	{
		std::multimap<Clock::time_point, roce::Bytes> kept;
		std::mt19937_64 random(options_.seed);
		std::uniform_int_distribution<std::uint32_t> delay_us(0, options_.spread_us);

		for (;;) {
			const bool ends = told_to_end;
			const auto seen = next(kept.empty() ? patience(ends) : kept.begin()->first);

			if (!seen && ends && kept.empty())
				break;
			if (seen && seen->is_write()) {
				counts_.seen++;
				kept.emplace(Clock::now() + microseconds(delay_us(random)),
					roce::Bytes(seen->frame.begin(), seen->frame.end()));
			}
			while (!kept.empty() && kept.begin()->first <= Clock::now()) {
				emit(kept.begin()->second);
				kept.erase(kept.begin());
			}
		}
	}

	void shadow_at_once()
	{
		const bool damage = options_.with == "damage";
		const std::vector<roce::Bytes> frames = damage ? std::vector<roce::Bytes>() : read();

		for (;;) {
			const bool ends = told_to_end;
			const auto seen = next(patience(ends));

			if (!seen && ends)
				break;
			if (!seen || !seen->is_write())
				continue;
			if (damage)
				emit(turned_over(*seen));
			else
				emit(roce::with_changes(frames[counts_.seen % frames.size()],
					{.qpn = seen->layout.qpn,
						.psn = (seen->layout.psn + 1) & 0xffffff,
						.rkey = seen->layout.rkey}));
			counts_.seen++;
		}
	}

	static roce::Bytes turned_over(const Seen &seen)
	{
		roce::Bytes payload(seen.payload().begin(), seen.payload().end());

		for (std::uint8_t &byte : payload)
			byte = static_cast<std::uint8_t>(~byte);
		return roce::with_payload(seen.frame, payload);
	}

	void finish()
	{
		counts_.missed = listener_.missed();
		print(counts_);
	}

	const Options &options_;
	Interface interface_;
	std::uint32_t peer_;
	Listener listener_;
	Sender sender_;
	Counts counts_;
};

} // namespace

int main(int argc, char **argv)
{
	CLI::App app("Sends the RDMA writes of this node once more, too late.");
	Options options;

	app.add_option("COMMAND", options.command)
		->required()
		->check(CLI::IsMember({"record", "send", "shadow", "watch"}));
	app.add_option("--interface", options.interface, "network interface to listen and send on");
	app.add_option("--to", options.to, "IPv4 address of the peer")->required();
	app.add_option("--file", options.file, "pcap file of writes");
	app.add_option("--packets", options.packets, "record: how many writes");
	app.add_flag("--redirect", options.redirect,
		"send: to the queue pair in use now, with the PSN expected there");
	app.add_option("--count", options.count, "send: each so often; 0: until it is told to end");
	app.add_option("--with", options.with, "shadow: what follows a write")
		->check(CLI::IsMember({"copy", "key", "damage"}));
	app.add_option("--spread-us", options.spread_us,
		"shadow: how much later a copy comes at most, microseconds");
	app.add_option("--byte", options.byte, "watch: what nothing should end with")
		->check(CLI::Range(0, 255));
	app.add_option("--limit", options.limit_s, "seconds to wait for packets");
	app.add_option("--gap-us", options.gap_us, "microseconds between frames");
	app.add_option("--seed", options.seed, "of the random choices");
	CLI11_PARSE(app, argc, argv);

	struct sigaction end {
	};

	/* No SA_RESTART: what waits is to wake up. */
	end.sa_handler = [](int) {
		told_to_end = 1;
	};
	sigaction(SIGTERM, &end, nullptr);
	try {
		Late late(options);

		if (options.command == "record")
			late.record();
		else if (options.command == "send")
			late.send();
		else if (options.command == "shadow")
			late.shadow();
		else
			late.watch();
	} catch (const std::exception &error) {
		std::fprintf(stderr, "late: %s\n", error.what());
		return 1;
	}
	return 0;
}
