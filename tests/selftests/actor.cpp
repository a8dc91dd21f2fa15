// SPDX-License-Identifier: GPL-2.0-only
//
// actor plays the part of a process in a test on the cluster, where ibrelk-perf would be too well-behaved:
//
//	actor serve --endpoints 16 --expect 400
//		opens endpoints --number, --number + 1 ..., receives, and looks at every byte of every message
//		and at the order of those from one sender, by the receives that they came to. Says so when
//		--expect messages have come
//	actor reuse --bytes 1048576 --expect 10 --hold /tmp/hold
//		receives into one buffer, which is its own again as soon as a message has come: it looks at
//		the message, fills the buffer with something else at once, and then looks --looks times, and
//		as long as the file --hold exists ("holding"), whether all of that stays; only then the
//		buffer is posted again. It does the same when a message was given up (ECONNRESET;
//		"reset" and how many those were)
//	actor send --to 10.1.0.2 --endpoints 16 --count 5
//		from so many endpoints of its own, sends each of as many endpoints of the peer --count
//		messages, numbered from --first on, and waits until all are complete (--level). Prints the
//		first error, if any, as "status -111: ..." and fails; else it leaves at once as --leave says:
//		it returns, calls _exit(), or kills itself. With --spoil N, a buffer consists of bytes N as
//		soon as what was sent from it is complete; with --hasty, before that
//	actor flood --to 10.1.0.2 --count 3000 --bytes 4000 --long 300000 --go /tmp/go --hold /tmp/hold
//		opens endpoint --number ("open"), and when --go exists sends --count messages to its like
//		there, every 16th of --long bytes and the others of --bytes, as many at a time as may be
//		under way, and receives nothing. Says how many that were ("flooding") when no more are
//		accepted and none of them ends. Once --hold has gone it receives as many, looks at every
//		byte, and sends the rest
//	actor die --to 10.1.0.2 --step eager --end kill
//		goes as far as the step and stays there (it prints "ready"), to be killed; or calls exec(), or
//		forks and leaves the child behind
//
// The steps of a life: open (an endpoint, nothing more), connect (a message is on its way to a peer that
// there is no connection to yet), and, after one message has been delivered ("connected" is printed) and --go
// exists: eager (many short messages), rendezvous (a long one), poll (waits for a message that never comes).
#include "need.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

#include <CLI/CLI.hpp>

namespace
{

using Bytes = std::vector<std::byte>;
using std::chrono::milliseconds;

constexpr std::uint64_t tag = 77;
constexpr std::uint32_t slots_each = 8; // receives posted on each endpoint

struct Options {
	std::string command;
	std::string to;
	std::string mode = "uc-reliable";
	std::string door = "auto";
	std::string step = "open";
	std::string end = "kill";
	std::string go;
	std::string level = "delivered";
	std::string leave = "return";
	std::uint32_t number = 9000;
	std::uint32_t endpoints = 1;
	std::uint64_t count = 1;
	std::uint64_t bytes = 64;
	std::uint64_t long_bytes = 300000;
	std::uint64_t expect = 0;
	std::uint64_t first = 0;
	std::uint64_t looks = 1;
	std::string hold;
	int spoil = -1;
	bool hasty = false;
};

std::byte pattern(std::uint64_t sender, std::uint64_t number, std::uint64_t offset)
{
	return static_cast<std::byte>(sender * 31 + number * 7 + offset * 13 + (offset >> 8));
}

// Sender and number of a message travel as its immediate.
std::uint64_t immediate_of(std::uint64_t sender, std::uint64_t number)
{
	return sender << 32 | number;
}

std::uint32_t door_of(const std::string &name)
{
	return name == "ioctl" ? IBRELK_DOOR_IOCTL : name == "uring" ? IBRELK_DOOR_URING : IBRELK_DOOR_AUTO;
}

std::uint8_t level_of(const std::string &name)
{
	return name == "buffered"   ? IBRELK_LEVEL_BUFFERED
		: name == "matched" ? IBRELK_LEVEL_MATCHED
				    : IBRELK_LEVEL_DELIVERED;
}

class Actor
{
public:
	explicit Actor(const Options &options) :
		options_(options),
		device_(need(ibrelk::Device::open(), IBRELK_CALL_OPEN, "cannot open the device")),
		ring_(need(
			ibrelk::Ring::create(device_, 4096), IBRELK_CALL_RING_CREATE, "cannot make a ring"))
	{
	}

	void open(std::uint32_t first_number, std::uint32_t sends = 0)
	{
		for (std::uint32_t i = 0; i < options_.endpoints; i++) {
			ibrelk::EndpointOptions wanted;
			const int mode = ibrelk_mode_from_name(options_.mode.c_str());

			if (mode < 0)
				throw Failed("no such mode: " + options_.mode);
			wanted.mode = static_cast<std::uint32_t>(mode);
			wanted.door = door_of(options_.door);
			wanted.sends = sends;
			if (first_number)
				wanted.local.set_endpoint(first_number + i);
			endpoints_.push_back(need(ibrelk::Endpoint::create(device_, ring_, wanted),
				IBRELK_CALL_ENDPOINT_CREATE, "cannot make an endpoint"));
		}
	}

	// A peer of endpoint @from: the @to-th endpoint there.
	ibrelk::Peer peer(std::uint32_t from, std::uint32_t to)
	{
		auto address = need(
			ibrelk::Address::from_text(options_.to + ":" + std::to_string(options_.number + to)),
			IBRELK_CALL_ADDRESS, "not an address");

		return need(endpoints_[from].peer_add(address), IBRELK_CALL_PEER, "cannot add the peer");
	}

	void send(std::uint32_t from, ibrelk::Peer peer, const Bytes &message, std::uint64_t immediate,
		std::uint8_t level)
	{
		auto command = ibrelk_command_send(peer, message.data(), message.size(), tag, 0);

		command.level = level;
		command.flags = IBRELK_CMD_IMMEDIATE;
		command.immediate = immediate;
		for (;;) {
			auto accepted = endpoints_[from].submit(std::span(&command, 1));

			if (!accepted)
				throw Failed(std::string("cannot send: ") +
					ibrelk_error_text(IBRELK_CALL_SUBMIT, accepted.error()));
			if (*accepted)
				break;
			complete();
		}
		outstanding_++;
	}

	// Takes one completion of a send.
	void complete()
	{
		auto completion = next();

		outstanding_--;
		if (completion.status)
			throw Failed("status " + std::to_string(completion.status) + ": " +
				ibrelk_error_text(IBRELK_CALL_COMPLETION, completion.status));
	}

	void complete_all()
	{
		while (outstanding_)
			complete();
	}

	ibrelk::Completion next()
	{
		for (;;) {
			if (auto completion = ring_.next())
				return *completion;
			need(ring_.wait(), IBRELK_CALL_WAIT, "cannot wait");
		}
	}

	// The number of the receive on its endpoint is in the upper half of what comes back with it.
	void post(std::uint32_t endpoint, std::uint32_t slot)
	{
		const std::uint32_t index = endpoint * slots_each + slot;

		if (auto posted = endpoints_[endpoint].recv(
			    ibrelk::any_peer, buffers_[index], tag, 0, posted_[endpoint]++ << 32 | index);
			!posted)
			throw Failed(std::string("cannot post a receive: ") +
				ibrelk_error_text(IBRELK_CALL_SUBMIT, posted.error()));
	}

	[[noreturn]] void serve()
	{
		// Messages are received in the order in which they were sent, but one may be complete before
		// another one ahead of it. What counts is which receives they came to.
		struct Received {
			std::uint64_t peer, sender, number;
			bool here; // else the receive was ended by its sender's death
		};
		std::vector<std::map<std::uint64_t, Received>> complete(options_.endpoints);
		std::vector<std::uint64_t> looked_at(options_.endpoints);
		std::map<std::pair<std::uint32_t, std::uint64_t>, std::uint64_t> numbers;
		std::uint64_t received = 0, wrong = 0;
		const auto check = [&](bool right, const Received &message) {
			if (right)
				return;
			wrong++;
			std::printf("WRONG: message %llu of sender %llu\n",
				static_cast<unsigned long long>(message.number),
				static_cast<unsigned long long>(message.sender));
		};

		open(options_.number);
		buffers_.assign(std::size_t{options_.endpoints} * slots_each, Bytes(options_.bytes));
		posted_.assign(options_.endpoints, 0);
		for (std::uint32_t i = 0; i < options_.endpoints; i++)
			for (std::uint32_t slot = 0; slot < slots_each; slot++)
				post(i, slot);
		say("serving");
		while (!options_.expect || received < options_.expect) {
			const auto completion = next();
			const auto index = static_cast<std::uint32_t>(completion.user_data);
			const std::uint32_t endpoint = index / slots_each;
			auto &mine = complete[endpoint];
			const Received message = {completion.peer, completion.immediate >> 32,
				completion.immediate & 0xffffffff, completion.status == 0};

			if (message.here) {
				received++;
				check(intact(index, completion.length, message.sender, message.number),
					message);
			} else if (completion.status != -ECONNRESET) {
				throw Failed("receive status " + std::to_string(completion.status));
			}
			mine.emplace(completion.user_data >> 32, message);
			for (auto it = mine.begin(); it != mine.end() && it->first == looked_at[endpoint];
				it = mine.erase(it), looked_at[endpoint]++)
				if (it->second.here)
					check(it->second.number == numbers[{endpoint, it->second.peer}]++,
						it->second);
			post(endpoint, index % slots_each);
		}
		// Who waits for so many has no receive that was passed over.
		for (const auto &mine : complete)
			for (const auto &[number, message] : mine)
				check(false, message);
		std::printf("received %llu, wrong %llu\n", static_cast<unsigned long long>(received),
			static_cast<unsigned long long>(wrong));
		std::fflush(stdout);
		/* Who has sent the last one may not know yet that it has arrived. */
		for (;;)
			::pause();
	}

	[[noreturn]] void reuse()
	{
		constexpr std::uint64_t nobody = 0x5a;
		std::uint64_t received = 0, wrong = 0, changed = 0, looks = 0, given_up = 0;

		open(options_.number);
		buffers_.assign(1, Bytes(options_.bytes));
		posted_.assign(1, 0);
		post(0, 0);
		say("serving");
		while (received < options_.expect) {
			const auto completion = next();

			if (completion.status == -ECONNRESET) {
				changed += use(nobody, ++given_up, received, looks);
				say("reset", given_up);
				post(0, 0);
				continue;
			}
			if (completion.status)
				throw Failed("receive status " + std::to_string(completion.status));

			const std::uint64_t sender = completion.immediate >> 32;
			const std::uint64_t number = completion.immediate & 0xffffffff;

			received++;
			if (!intact(0, completion.length, sender, number)) {
				wrong++;
				std::printf("WRONG: message %llu\n", static_cast<unsigned long long>(number));
			}
			changed += use(sender, number, received, looks);
			post(0, 0);
		}
		std::printf("received %llu, wrong %llu, changed %llu, looks %llu, given up %llu\n",
			static_cast<unsigned long long>(received), static_cast<unsigned long long>(wrong),
			static_cast<unsigned long long>(changed), static_cast<unsigned long long>(looks),
			static_cast<unsigned long long>(given_up));
		std::fflush(stdout);
		for (;;)
			::pause();
	}

	[[noreturn]] void flood()
	{
		constexpr std::uint32_t sends = 1024, receives = 32;
		constexpr auto calm = std::chrono::seconds(1);
		std::vector<Bytes> messages(options_.count);
		std::vector<std::uint32_t> slots; // of receives that are not posted
		std::uint64_t sent = 0, done = 0, posted = 0, received = 0, wrong = 0;

		open(options_.number, sends);
		buffers_.assign(receives, Bytes(options_.long_bytes));
		for (std::uint32_t slot = 0; slot < receives; slot++)
			slots.push_back(slot);
		for (std::uint64_t number = 0; number < options_.count; number++) {
			messages[number].resize(number % 16 == 15 ? options_.long_bytes : options_.bytes);
			fill(messages[number], options_.number, number);
		}
		say("open");
		while (!std::filesystem::exists(options_.go))
			std::this_thread::sleep_for(milliseconds(10));

		const ibrelk::Peer to = peer(0, 0);
		const auto send_more = [&] {
			for (; sent < options_.count; sent++) {
				auto command = ibrelk_command_send(
					to, messages[sent].data(), messages[sent].size(), tag, 0);

				command.level = static_cast<std::uint8_t>(sent % 3); // each of them
				command.flags = IBRELK_CMD_IMMEDIATE;
				command.immediate = immediate_of(options_.number, sent);

				auto accepted = endpoints_[0].submit(std::span(&command, 1));

				if (!accepted)
					throw Failed(std::string("cannot send: ") +
						ibrelk_error_text(IBRELK_CALL_SUBMIT, accepted.error()));
				if (!*accepted)
					return;
			}
		};
		// Messages are received in the order in which they were sent, but a short one may be complete
		// before a long one ahead of it.
		const auto look = [&] {
			bool any = false;

			for (; auto completion = ring_.next(); any = true) {
				if (completion->status)
					throw Failed("status " + std::to_string(completion->status));
				if (completion->opcode == IBRELK_OP_SEND) {
					done++;
					continue;
				}

				const auto slot =
					static_cast<std::uint32_t>(completion->user_data % receives);
				const std::uint64_t number = completion->user_data / receives;

				received++;
				if (completion->immediate != immediate_of(options_.number, number) ||
					completion->length != messages[number].size() ||
					!intact(slot, completion->length, options_.number, number)) {
					wrong++;
					say("WRONG: message", number);
				}
				slots.push_back(slot);
			}
			return any;
		};

		for (auto last = std::chrono::steady_clock::now();
			std::chrono::steady_clock::now() - last < calm;) {
			send_more();
			if (look())
				last = std::chrono::steady_clock::now();
		}
		say("flooding", sent);
		while (std::filesystem::exists(options_.hold)) {
			send_more();
			if (!look())
				std::this_thread::sleep_for(milliseconds(10));
		}
		while (received < options_.count || done < options_.count) {
			for (; posted < options_.count && !slots.empty(); posted++) {
				const std::uint32_t slot = slots.back();

				if (auto accepted = endpoints_[0].recv(ibrelk::any_peer, buffers_[slot], tag,
					    0, posted * receives + slot);
					!accepted)
					throw Failed("cannot post a receive");
				slots.pop_back();
			}
			send_more();
			if (!look())
				need(ring_.wait(), IBRELK_CALL_WAIT, "cannot wait");
		}
		std::printf("received %llu, wrong %llu\n", static_cast<unsigned long long>(received),
			static_cast<unsigned long long>(wrong));
		std::fflush(stdout);
		for (;;)
			::pause();
	}

	int send_all()
	{
		std::vector<std::vector<ibrelk::Peer>> peers(options_.endpoints);
		// Native modes have no other level.
		const std::uint8_t level =
			level_of(options_.mode.ends_with("-native") ? "buffered" : options_.level);
		// By turns, so that one stays spoiled while a message is sent from the other.
		std::array<Bytes, 2> messages{Bytes(options_.bytes), Bytes(options_.bytes)};

		open(0);
		for (std::uint32_t from = 0; from < options_.endpoints; from++)
			for (std::uint32_t to = 0; to < options_.endpoints; to++)
				peers[from].push_back(peer(from, to));
		for (std::uint64_t number = options_.first; number < options_.first + options_.count;
			number++) {
			Bytes &message = messages[number % messages.size()];

			for (std::uint32_t from = 0; from < options_.endpoints; from++) {
				fill(message, from, number);
				for (ibrelk::Peer to : peers[from])
					send(from, to, message, immediate_of(from, number), level);
				/* The buffer is used again. */
				if (!options_.hasty)
					complete_all();
				if (options_.spoil >= 0)
					std::ranges::fill(message, static_cast<std::byte>(options_.spoil));
				complete_all();
			}
		}
		if (options_.leave == "exit")
			::_exit(0);
		if (options_.leave == "kill")
			::kill(::getpid(), SIGKILL);
		say("done");
		return 0;
	}

	[[noreturn]] void die()
	{
		Bytes message(64);
		Bytes large(4u << 20);

		open(0);
		if (options_.step != "open") {
			const ibrelk::Peer to = peer(0, 0);

			fill(message, 0, 0);
			send(0, to, message, immediate_of(0, 0), IBRELK_LEVEL_DELIVERED);
			if (options_.step != "connect") {
				complete_all();
				say("connected");
				while (!options_.go.empty() && !std::filesystem::exists(options_.go))
					std::this_thread::sleep_for(milliseconds(10));
				begin(to, large);
			}
		}
		end();
		if (options_.step == "poll")
			next();
		for (;;)
			::pause();
	}

private:
	void say(const char *what)
	{
		std::printf("%s\n", what);
		std::fflush(stdout);
	}

	static void say(const char *what, std::uint64_t number)
	{
		std::printf("%s %llu\n", what, static_cast<unsigned long long>(number));
		std::fflush(stdout);
	}

	static void fill(Bytes &message, std::uint64_t sender, std::uint64_t number)
	{
		for (std::size_t i = 0; i < message.size(); i++)
			message[i] = pattern(sender, number, i);
	}

	[[nodiscard]] bool intact(
		std::uint32_t slot, std::uint64_t length, std::uint64_t sender, std::uint64_t number) const
	{
		for (std::uint64_t i = 0; i < length; i++)
			if (buffers_[slot][i] != pattern(sender, number, i))
				return false;
		return true;
	}

	// Uses the buffer that a message was received into for something else. Returns whether anybody else
	// did so, too.
	bool use(std::uint64_t sender, std::uint64_t number, std::uint64_t received, std::uint64_t &looks)
	{
		Bytes &buffer = buffers_[0];
		bool held = false, more = true, changed = false;

		for (std::size_t i = 0; i < buffer.size(); i++)
			buffer[i] = ~pattern(sender, number, i);

		const Bytes mine = buffer;

		for (std::uint64_t i = 0; more && !changed; i++) {
			// Asked before looking, so that the last look is behind all that happened while it
			// was held.
			const bool hold = !options_.hold.empty() && std::filesystem::exists(options_.hold);

			if (hold && !held)
				say("holding", received);
			held |= hold;
			more = hold || i + 1 < options_.looks;
			changed = buffer != mine;
			looks++;
		}
		if (changed) {
			std::printf("CHANGED: byte %td of the buffer, after message %llu\n",
				std::ranges::mismatch(buffer, mine).in1 - buffer.begin(),
				static_cast<unsigned long long>(number));
		}
		if (held)
			say("held", received);
		return changed;
	}

	void begin(ibrelk::Peer to, Bytes &large)
	{
		Bytes message(4000);

		if (options_.step == "eager") {
			for (std::uint64_t number = 1; number <= 20; number++) {
				fill(message, 0, number);
				send(0, to, message, immediate_of(0, number), IBRELK_LEVEL_BUFFERED);
			}
		} else if (options_.step == "rendezvous") {
			fill(large, 0, 1);
			send(0, to, large, immediate_of(0, 1), IBRELK_LEVEL_DELIVERED);
		} else if (options_.step == "poll") {
			if (!endpoints_[0].recv(ibrelk::any_peer, large, tag + 1))
				throw Failed("cannot post a receive");
		}
	}

	void end()
	{
		say("ready");
		if (options_.end == "exec") {
			::execl("/bin/sh", "sh", "-c", "echo replaced", nullptr);
			throw Failed("cannot exec");
		}
		/* The child has everything that is open, and outlives its parent with it. */
		if (options_.end == "fork") {
			const pid_t parent = ::getpid();

			if (::fork() > 0)
				::_exit(0);
			while (::getppid() == parent)
				std::this_thread::sleep_for(milliseconds(10));
			::_exit(0);
		}
	}

	const Options &options_;
	ibrelk::Device device_;
	ibrelk::Ring ring_;
	std::vector<Bytes> buffers_;
	std::vector<std::uint64_t> posted_; // receives on each endpoint
	std::vector<ibrelk::Endpoint> endpoints_;
	std::uint64_t outstanding_ = 0;
};

} // namespace

int main(int argc, char **argv)
{
	CLI::App app("Plays the part of a process in a test.");
	Options options;

	app.add_option("COMMAND", options.command)
		->required()
		->check(CLI::IsMember({"serve", "reuse", "send", "flood", "die"}));
	app.add_option("--to", options.to, "IP address of the peer");
	app.add_option("--mode", options.mode, "mode");
	app.add_option("--door", options.door, "ioctl, uring or auto");
	app.add_option("--number", options.number, "number of the server's first endpoint");
	app.add_option("--endpoints", options.endpoints, "how many endpoints, on either side");
	app.add_option("--count", options.count, "messages from each endpoint to each");
	app.add_option("--bytes", options.bytes, "of a message, and of a buffer of the server");
	app.add_option("--long", options.long_bytes, "of every 16th message of a flood");
	app.add_option("--expect", options.expect, "messages after which the server says how it went");
	app.add_option("--first", options.first, "number of the first message to send");
	app.add_option("--spoil", options.spoil, "what a sent buffer is filled with")
		->check(CLI::Range(0, 255));
	app.add_flag("--hasty", options.hasty, "... before it is complete");
	app.add_option("--looks", options.looks, "how often to look at a buffer before it is posted again");
	app.add_option(
		"--hold", options.hold, "file during whose life it is not posted again, or nothing received");
	app.add_option("--step", options.step, "how far to go")
		->check(CLI::IsMember({"open", "connect", "eager", "rendezvous", "poll"}));
	app.add_option("--end", options.end, "kill (wait for it), exec or fork")
		->check(CLI::IsMember({"kill", "exec", "fork"}));
	app.add_option("--level", options.level, "when a message is complete that is sent")
		->check(CLI::IsMember({"buffered", "delivered", "matched"}));
	app.add_option("--leave", options.leave, "what to do when all is sent: return, exit or kill")
		->check(CLI::IsMember({"return", "exit", "kill"}));
	app.add_option("--go", options.go, "file to wait for when connected, or open");
	CLI11_PARSE(app, argc, argv);
	try {
		Actor actor(options);

		if (options.command == "serve")
			actor.serve();
		if (options.command == "reuse")
			actor.reuse();
		if (options.command == "flood")
			actor.flood();
		if (options.command == "send")
			return actor.send_all();
		actor.die();
	} catch (const std::exception &error) {
		std::printf("actor: %s\n", error.what());
		return 1;
	}
}
