// SPDX-License-Identifier: GPL-2.0-only
//
// mingle is half of a conversation in which everything that matching knows is done at random, in memory that
// comes and goes:
//
//	mingle --to 10.1.0.2 --number 9000 --mode uc-reliable --count 300 --seed 7 --go /tmp/go [--second]
//
// Each of two such processes (of which one is --second) opens endpoint --number ("open"), and when --go
// exists sends --count messages to the other one, of every length and level. It takes as many, by receives
// with and without wildcards, of any length, by multi-receives, and by claims, some of which are discarded;
// it probes, and cancels. Much of the memory for that is new, and goes afterwards; some is used again. Each
// message must come exactly once, be what its number says, and be matched in its turn: of those with one tag,
// the earlier one by the earlier command. Beside it nothing may change, nor afterwards, when the memory is
// used for something else at once. At the end it says "done", or what is WRONG, and fails.
#include "need.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

namespace
{

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::uint64_t tags = 6;
constexpr std::uint64_t any_tag = ~0ull;
constexpr std::size_t longest = 1 << 20;
constexpr std::size_t multi_bytes = 128 << 10;
constexpr std::size_t sends_most = 16, receives_most = 12;
constexpr auto patience = seconds(120);  // until a message is sent, or comes
constexpr auto stuck = milliseconds(50); // until it is tried with other receives

struct Options {
	std::string to, mode = "uc-reliable", go;
	std::uint32_t number = 9000;
	std::uint64_t count = 300, seed = 1;
	bool second = false;
};

void say(const std::string &text)
{
	std::printf("%s\n", text.c_str());
	std::fflush(stdout);
}

// What follows from the number of a message, and who sends it.
struct Message {
	bool of_second;
	std::uint64_t number;

	[[nodiscard]] std::uint64_t hash(std::uint64_t salt) const
	{
		std::uint64_t x = (number * 2 + of_second) * 0x9e3779b97f4a7c15 + salt;

		for (int i = 0; i < 3; i++) {
			x ^= x >> 29;
			x *= 0xbf58476d1ce4e5b9;
		}
		return x ^ x >> 32;
	}
	[[nodiscard]] std::size_t length() const
	{
		const std::uint64_t x = hash(1);

		return x % 16 == 0 ? 0 : (x >> 8) % (std::size_t{1} << (1 + (x >> 40) % 20)) + (x >> 60);
	}
	[[nodiscard]] std::uint64_t tag() const
	{
		return hash(2) % tags;
	}
	[[nodiscard]] unsigned char byte(std::size_t offset) const
	{
		return static_cast<unsigned char>(number * 7 + (number >> 8) * 11 + of_second * 31 +
			offset * 13 + (offset >> 8) * 5 + (offset >> 16) * 3);
	}
};

// Some bytes of anonymous or shared memory, which begin anywhere, and go when it does.
class Memory
{
public:
	Memory(std::size_t bytes, std::mt19937_64 &random) : bytes_(bytes)
	{
		const std::size_t shift = random() % 4096;
		const int kind = random() % 3 ? MAP_PRIVATE : MAP_SHARED;

		mapped_ = bytes + shift + 1;
		base_ = static_cast<unsigned char *>(
			mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, kind | MAP_ANONYMOUS, -1, 0));
		if (base_ == MAP_FAILED)
			throw Failed("no memory");
		data_ = base_ + shift;
	}
	Memory(const Memory &) = delete;
	Memory &operator=(const Memory &) = delete;
	~Memory()
	{
		munmap(base_, mapped_);
	}

	void write(const Message &message)
	{
		for (std::size_t i = 0; i < bytes_; i++)
			data_[i] = message.byte(i);
	}
	[[nodiscard]] bool holds(const Message &message, std::size_t offset, std::size_t length) const
	{
		for (std::size_t i = 0; i < length; i++)
			if (data_[offset + i] != message.byte(i))
				return false;
		return true;
	}
	void spoil()
	{
		background_ = 238;
		std::memset(data_, background_, bytes_);
	}
	// Whether that is as it was before a message came.
	[[nodiscard]] bool untouched(std::size_t begin, std::size_t end) const
	{
		return std::all_of(data_ + std::min(begin, bytes_), data_ + std::min(end, bytes_),
			[&](unsigned char byte) { return byte == background_; });
	}

	[[nodiscard]] std::size_t bytes() const
	{
		return bytes_;
	}
	[[nodiscard]] std::span<std::byte> span()
	{
		return std::as_writable_bytes(std::span(data_, bytes_));
	}

private:
	std::size_t bytes_, mapped_ = 0;
	unsigned char background_ = 0;
	unsigned char *base_ = nullptr, *data_ = nullptr;
};

class Mingle
{
public:
	explicit Mingle(const Options &options) :
		options_(options), random_(options.seed * 2 + options.second),
		device_(need(ibrelk::Device::open(), IBRELK_CALL_OPEN, "cannot open the device")),
		ring_(need(
			ibrelk::Ring::create(device_, 1024), IBRELK_CALL_RING_CREATE, "cannot make a ring")),
		endpoint_(make_endpoint()), taken_(options.count)
	{
	}

	int run()
	{
		to_ = need(endpoint_.peer_add(need(ibrelk::Address::from_text(options_.to + ":" +
							   std::to_string(options_.number)),
				   IBRELK_CALL_ADDRESS, "not an address")),
			IBRELK_CALL_PEER, "cannot add the peer");
		eager_max_ = need(device_.query(), IBRELK_CALL_DEVICE, "cannot query the device").eager_max;
		say("open");
		while (!std::filesystem::exists(options_.go))
			std::this_thread::sleep_for(milliseconds(10));
		last_ = std::chrono::steady_clock::now();
		while (received_ < options_.count || sends_.size() || sent_ < options_.count) {
			/* Sometimes receives wait, and sometimes messages do. */
			if (!draw(30))
				appetite_ = draw(2) ? receives_most : draw(3);
			if (sent_ < options_.count && sends_.size() < sends_most && draw(2))
				send();
			else if (!draw(4))
				look();
			else if (receives_.size() < appetite_)
				receive();
			else if (!any_completion(stuck))
				give_way();
			while (any_completion(milliseconds(0)))
				;
			if (std::chrono::steady_clock::now() - last_ > patience)
				throw Failed("nothing comes: " + std::to_string(sent_) + " sent, " +
					std::to_string(sends_.size()) + " of them under way, " +
					std::to_string(received_) + " received");
		}
		/* What nobody wants any more. */
		while (!receives_.empty() || cancels_) {
			if (!receives_.empty())
				cancel(receives_.begin()->first);
			if (!any_completion(patience))
				throw Failed("what was cancelled does not end");
		}
		/* Nothing came twice. */
		receives_[ids_] = Posted{nullptr, {}, ids_, 0, any_tag, {}};
		submit(ibrelk_command_claim(ibrelk::any_peer, 0, any_tag, ids_));
		if (!any_completion(patience) || !receives_.empty())
			throw Failed("WRONG: a message is left");
		if (cancelled_ != told_cancelled_)
			throw Failed("WRONG: " + std::to_string(told_cancelled_) +
				" receives should have been cancelled, " + std::to_string(cancelled_) +
				" were");
		while (!used_.empty())
			forget_used();
		check_order();
		say("done: " + std::to_string(received_) + " received, " + std::to_string(cut_) + " cut, " +
			std::to_string(discarded_) + " discarded, " + std::to_string(probes_) + " probed, " +
			std::to_string(parts_) + " parts, " + std::to_string(cancelled_) + " cancelled");
		return 0;
	}

private:
	// Where a part of a multi-receive is. Empty ones are at the place of the one that follows.
	struct Part {
		std::uint64_t offset;
		bool any;
		std::uint64_t number;
		auto operator<=>(const Part &) const = default;
	};

	struct Posted {
		std::unique_ptr<Memory> memory; // none of a claim or probe
		std::vector<Part> parts;
		std::uint64_t turn = 0; // of the command by which its message was matched
		std::uint64_t tag = 0, ignore = 0;
		std::optional<std::uint64_t> claimed; // the message's number, if it was
	};

	ibrelk::Endpoint make_endpoint()
	{
		ibrelk::EndpointOptions wanted;
		const int mode = ibrelk_mode_from_name(options_.mode.c_str());

		if (mode < 0)
			throw Failed("no such mode: " + options_.mode);
		wanted.mode = static_cast<std::uint32_t>(mode);
		wanted.local.set_endpoint(options_.number);
		return need(ibrelk::Endpoint::create(device_, ring_, wanted), IBRELK_CALL_ENDPOINT_CREATE,
			"cannot make an endpoint");
	}

	std::uint64_t draw(std::uint64_t below)
	{
		return random_() % below;
	}

	[[noreturn]] static void wrong(const Message &message, const std::string &what)
	{
		throw Failed("WRONG: message " + std::to_string(message.number) + ": " + what);
	}

	// Return: it was accepted.
	bool submit(const ibrelk::Command &command)
	{
		return need(endpoint_.submit({&command, 1}), IBRELK_CALL_SUBMIT, "cannot submit") == 1;
	}

	void send()
	{
		const Message message{options_.second, sent_};
		auto memory = fresh(message.length());
		const std::uint64_t id = ids_++;

		memory->write(message);
		auto command =
			ibrelk_command_send(to_, memory->span().data(), memory->bytes(), message.tag(), id);
		command.level = std::array<std::uint8_t, 3>{
			IBRELK_LEVEL_BUFFERED, IBRELK_LEVEL_DELIVERED, IBRELK_LEVEL_MATCHED}[draw(3)];
		command.flags = IBRELK_CMD_IMMEDIATE;
		command.immediate = message.number;
		if (!submit(command))
			return;
		/* The kernel has a copy. */
		if (message.length() <= eager_max_)
			memory->spoil();
		sends_[id] = std::move(memory);
		sent_++;
	}

	void receive()
	{
		const ibrelk::Peer from = draw(2) ? ibrelk::any_peer : to_;
		const std::uint64_t tag = draw(tags), ignore = draw(2) ? 0 : draw(2) ? any_tag : 3;
		const std::uint64_t what = draw(20);

		if (what < 13)
			take(from, tag, ignore, draw(4) ? longest + 16 : draw(20000));
		else if (what < 17)
			take_many(from, tag, ignore);
		else if (what < 19 && !receives_.empty())
			cancel(any_receive());
		else if (!draw(4))
			be_copied();
	}

	// For a message that waits.
	void look()
	{
		const std::uint64_t id = ids_++, tag = draw(tags), ignore = draw(3) ? any_tag : 0;
		const ibrelk::Peer from = draw(2) ? ibrelk::any_peer : to_;

		if (submit(draw(3) ? ibrelk_command_claim(from, tag, ignore, id)
				   : ibrelk_command_probe(from, tag, ignore, id)))
			receives_[id] = Posted{nullptr, {}, id, tag, ignore, {}};
	}

	// Nothing has come for a while: what is posted may be for other messages than those that wait.
	void give_way()
	{
		if (receives_.size() >= receives_most)
			cancel(any_receive());
		else
			take(ibrelk::any_peer, 0, any_tag, longest + 16);
	}

	std::uint64_t any_receive()
	{
		return std::next(receives_.begin(), static_cast<long>(draw(receives_.size())))->first;
	}

	void take(ibrelk::Peer from, std::uint64_t tag, std::uint64_t ignore, std::size_t bytes)
	{
		const std::uint64_t id = ids_++;
		auto memory = fresh(bytes);

		if (submit(ibrelk_command_recv(from, memory->span().data(), bytes, tag, ignore, id)))
			receives_[id] = Posted{std::move(memory), {}, id, tag, ignore, {}};
	}

	void take_many(ibrelk::Peer from, std::uint64_t tag, std::uint64_t ignore)
	{
		const std::uint64_t id = ids_++;
		auto memory = fresh(multi_bytes);
		auto command = ibrelk_command_recv_multi(from, memory->span().data(), multi_bytes,
			static_cast<std::uint32_t>(1 + draw(8)), tag, ignore, id);

		command.room = draw(2) * 1000;
		if (submit(command))
			receives_[id] = Posted{std::move(memory), {}, id, tag, ignore, {}};
	}

	void cancel(std::uint64_t id)
	{
		if (submit(ibrelk_command_cancel(id, cancelling)))
			cancels_++;
	}

	// The kernel is told of it wherever memory is pinned.
	static void be_copied()
	{
		const pid_t child = fork();

		if (child == 0)
			_exit(0);
		if (child < 0 || waitpid(child, nullptr, 0) != child)
			throw Failed("cannot fork");
	}

	bool any_completion(milliseconds limit)
	{
		auto completion = ring_.next();

		if (!completion && limit.count()) {
			need(ring_.wait(1, limit), IBRELK_CALL_WAIT, "cannot wait");
			completion = ring_.next();
		}
		if (!completion)
			return false;
		complete(*completion);
		return true;
	}

	void complete(const ibrelk::Completion &completion)
	{
		if (completion.opcode == IBRELK_OP_SEND) {
			const auto sent = sends_.find(completion.user_data);

			if (sent == sends_.end())
				throw Failed("WRONG: a completion of no send");
			expect_status(completion, 0);
			use(std::move(sent->second));
			sends_.erase(sent);
			last_ = std::chrono::steady_clock::now();
			return;
		}
		if (completion.opcode == IBRELK_OP_CANCEL) {
			expect_status(completion, completion.length ? 0 : -ENOENT);
			if (completion.length > 1)
				throw Failed("WRONG: more than one receive is cancelled");
			told_cancelled_ += completion.length;
			cancels_--;
			return;
		}

		const auto it = receives_.find(completion.user_data);
		if (it == receives_.end())
			throw Failed("WRONG: a completion of nothing");
		Posted &posted = it->second;
		const bool looks =
			completion.opcode == IBRELK_OP_PROBE || completion.opcode == IBRELK_OP_CLAIM;

		if (completion.opcode == IBRELK_OP_DISCARD) {
			expect_status(completion, 0);
			discarded_++;
			count({!options_.second, posted.claimed.value()}, posted.turn, 0);
			end(it);
		} else if (completion.flags & IBRELK_CQE_RELEASED) {
			released(posted, completion);
			end(it);
		} else if (looks && completion.status) {
			expect_status(completion, -ENOMSG);
			end(it);
		} else if (completion.opcode == IBRELK_OP_RECV && completion.status == -ECANCELED) {
			cancelled_++;
			if (!posted.memory->untouched(0, near))
				throw Failed("WRONG: there is something where a receive was cancelled");
			end(it);
		} else if (looks) {
			found(it, completion);
		} else {
			received(posted, completion);
			if (completion.opcode == IBRELK_OP_RECV)
				end(it);
		}
	}

	static void expect_status(const ibrelk::Completion &completion, int status)
	{
		if (completion.status != status)
			throw Failed("WRONG: command " + std::to_string(completion.opcode) +
				" ends with status " + std::to_string(completion.status));
	}

	[[nodiscard]] Message message_of(const Posted &posted, const ibrelk::Completion &completion) const
	{
		const Message message{!options_.second, completion.immediate};

		if (!(completion.flags & IBRELK_CQE_IMMEDIATE) || message.number >= options_.count)
			wrong(message, "no such number, status " + std::to_string(completion.status));
		if (completion.peer != to_)
			wrong(message, "of somebody else");
		if (completion.tag != message.tag() || ((completion.tag ^ posted.tag) & ~posted.ignore))
			wrong(message, "tag");
		if (completion.length != message.length())
			wrong(message, "length " + std::to_string(completion.length));
		if (posted.claimed && *posted.claimed != message.number)
			wrong(message, "it is " + std::to_string(*posted.claimed) + " that was claimed");
		return message;
	}

	void received(Posted &posted, const ibrelk::Completion &completion)
	{
		const Message message = message_of(posted, completion);
		const Memory &memory = *posted.memory;
		const std::size_t begin = completion.offset, end = begin + message.length();
		const bool cut = end > memory.bytes();

		expect_status(completion, cut ? -EMSGSIZE : 0);
		if (cut && begin)
			wrong(message, "cut, though it is not the first one");
		cut_ += cut;
		if (!memory.holds(message, begin, std::min(end, memory.bytes()) - begin))
			wrong(message, "bytes");
		count(message, posted.turn, begin);
		if (completion.opcode == IBRELK_OP_RECV_MULTI) {
			parts_++;
			posted.parts.push_back({begin, message.length() != 0, message.number});
		} else if (!memory.untouched(end, end + near)) {
			wrong(message, "there is something behind it");
		}
	}

	// A multi-receive is over: what it has taken is all there, one after the other, and nothing else.
	void released(Posted &posted, const ibrelk::Completion &completion)
	{
		if (completion.status == -ECANCELED)
			cancelled_++;
		else
			expect_status(completion, 0);
		if (completion.length != posted.parts.size())
			throw Failed("WRONG: a multi-receive tells of " + std::to_string(completion.length) +
				" messages, and has " + std::to_string(posted.parts.size()));
		std::ranges::sort(posted.parts);
		std::size_t at = 0;
		for (std::size_t i = 0; i < posted.parts.size(); i++) {
			const Part &part = posted.parts[i];
			const Message message{!options_.second, part.number};
			const std::size_t room = posted.memory->bytes() - part.offset;

			if (i && posted.parts[i - 1].number > part.number)
				wrong(message, "overtaken in a multi-receive");
			if (part.offset < at || !posted.memory->untouched(at, part.offset))
				wrong(message, "there is something before it");
			if (!posted.memory->holds(message, part.offset, std::min(message.length(), room)))
				wrong(message, "bytes, later");
			at = part.offset + message.length();
		}
		if (!posted.memory->untouched(at, at + near))
			throw Failed("WRONG: there is something behind a multi-receive's messages");
	}

	using Receives = std::map<std::uint64_t, Posted>;

	// By a probe or claim.
	void found(Receives::iterator it, const ibrelk::Completion &completion)
	{
		const Message message = message_of(it->second, completion);

		expect_status(completion, 0);
		if (taken_[message.number])
			wrong(message, "waits, and was received");
		if (completion.opcode == IBRELK_OP_CLAIM) {
			claimed(it, message, completion.claim);
			return;
		}
		probes_++;
		end(it);
	}

	void claimed(Receives::iterator it, const Message &message, std::uint64_t claim)
	{
		const std::uint64_t id = ids_++;
		Posted next{nullptr, {}, it->second.turn, message.tag(), 0, message.number};
		ibrelk::Command command = ibrelk_command_discard(claim, id);

		if (draw(3)) {
			next.memory = fresh(draw(4) ? message.length() : draw(20000));
			command = ibrelk_command_recv_claimed(
				claim, next.memory->span().data(), next.memory->bytes(), id);
		}
		/* It has room for hundreds. */
		if (!submit(command))
			throw Failed("WRONG: no room for a command");
		receives_.erase(it);
		receives_.emplace(id, std::move(next));
	}

	void end(Receives::iterator it)
	{
		if (it->second.memory)
			use(std::move(it->second.memory));
		receives_.erase(it);
	}

	// Some memory, which is sometimes what was used before.
	std::unique_ptr<Memory> fresh(std::size_t bytes)
	{
		const auto again = std::ranges::find_if(
			used_, [&](const auto &memory) { return memory->bytes() == bytes && draw(2); });

		if (again == used_.end())
			return std::make_unique<Memory>(bytes, random_);

		auto memory = std::move(*again);

		used_.erase(again);
		expect_unchanged(*memory);
		return memory;
	}

	static void expect_unchanged(const Memory &memory)
	{
		if (!memory.untouched(0, memory.bytes()))
			throw Failed("WRONG: memory was changed after its completion");
	}

	// It is the application's now, which writes something else there, and looks later whether that stays.
	void use(std::unique_ptr<Memory> memory)
	{
		memory->spoil();
		used_.push_back(std::move(memory));
		if (used_.size() > 8)
			forget_used();
	}

	void forget_used()
	{
		const std::size_t index = draw(used_.size());

		expect_unchanged(*used_[index]);
		used_.erase(used_.begin() + static_cast<long>(index));
	}

	void count(const Message &message, std::uint64_t turn, std::uint64_t offset)
	{
		if (taken_[message.number])
			wrong(message, "twice");
		taken_[message.number] = true;
		received_++;
		last_ = std::chrono::steady_clock::now();
		order_[message.tag()].emplace_back(turn, offset, message.length() != 0, message.number);
	}

	// Messages without a byte are at the same place of a multi-receive as the one that follows.
	void check_order()
	{
		for (auto &[tag, taken] : order_) {
			std::ranges::sort(taken);
			for (std::size_t i = 1; i < taken.size(); i++)
				if (std::get<3>(taken[i]) < std::get<3>(taken[i - 1]))
					wrong({!options_.second, std::get<3>(taken[i])}, "overtaken");
		}
	}

	static constexpr std::uint64_t cancelling = ~0ull;
	static constexpr std::size_t near = 16384; // so far is looked for what is beside a message
	Options options_;
	std::mt19937_64 random_;
	ibrelk::Device device_;
	ibrelk::Ring ring_;
	std::map<std::uint64_t, std::unique_ptr<Memory>> sends_;
	Receives receives_;
	std::vector<std::unique_ptr<Memory>> used_;
	ibrelk::Endpoint endpoint_; // goes before the memory that it may write to
	ibrelk::Peer to_ = ibrelk::any_peer;
	std::vector<bool> taken_;
	std::map<std::uint64_t, std::vector<std::tuple<std::uint64_t, std::uint64_t, bool, std::uint64_t>>>
		order_;
	std::size_t appetite_ = receives_most;
	std::uint64_t ids_ = 0, sent_ = 0, received_ = 0, cancels_ = 0, told_cancelled_ = 0, eager_max_ = 0;
	std::chrono::steady_clock::time_point last_;
	std::uint64_t cut_ = 0, discarded_ = 0, probes_ = 0, parts_ = 0, cancelled_ = 0;
};

} // namespace

int main(int argc, char **argv)
{
	Options options;
	CLI::App app{"One of two processes that do at random what matching knows"};

	app.add_option("--to", options.to)->required();
	app.add_option("--number", options.number);
	app.add_option("--mode", options.mode);
	app.add_option("--count", options.count)->check(CLI::Range(1, 1000000));
	app.add_option("--seed", options.seed);
	app.add_option("--go", options.go)->required();
	app.add_flag("--second", options.second);
	CLI11_PARSE(app, argc, argv);
	try {
		return Mingle(options).run();
	} catch (const std::exception &error) {
		say(error.what());
		return 1;
	}
}
