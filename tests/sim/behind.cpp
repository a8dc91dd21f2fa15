// SPDX-License-Identifier: GPL-2.0-only
//
// A receiver that is behind its sender: the memory for messages that nobody has asked for is full, and what
// follows has to wait for credit, or goes by RTS. A stream must not stay in that state when the receiver has
// caught up, and a message that somebody waits for must not wait for those before it that nobody wants. Nor
// may two that are behind each other keep each other from going on. And what a node that is behind with its
// queue hears of a write late is not said of another message. Prints "N passed, N failed".
//
//	ibrelk-behind [--trace] [NAME]		all, or one of: stall, last, busy, beside, flood-uc,
//						flood-ud, flood-auto, told-late

#include "scene.hpp"

#include "wire.hpp"

#include <cstdio>
#include <cstring>
#include <string>

namespace
{

using sim::ms;
using sim::second;
using sim::us;

constexpr u32 bytes = 4096;
constexpr u32 commands = 1024;                      // outstanding at each end
constexpr u64 unwanted = 0, common = 1, wanted = 2; // tags
constexpr u64 warm = 300;
constexpr u64 step_ns = 65 * us; // what the receiver needs for a message

enum { sender, receiver };

struct Process : sim::Process {
	using sim::Process::Process;
	u64 begun = 0;
};

// Two processes on two nodes. The sender has as many messages under way as it may.
class Scene : public sim::Stage<Process>
{
public:
	// Of @messages, some have the tag that nobody wants, after those of warm_up(), and the last one has
	// that which is wanted.
	explicit Scene(u64 messages, u64 unwanted = 0) : Stage(2, 1), messages_(messages), unwanted_(unwanted)
	{
		for (u32 node : {sender, receiver})
			open(node, bytes,
				{.mode = IBRELK_MODE_UC_RELIABLE,
					.entries = 2 * commands,
					.sends = commands,
					.recvs = commands},
				1 - node);
		begun_ = sim_now();
	}

	// Time goes on by @ns; then the sender has its turn.
	void run(u64 ns)
	{
		sim_run(sim_now() + ns);
		for (u32 node : {sender, receiver})
			look_around(node);
		Process &process = at(sender);
		while (process.begun < messages_ && process.outstanding < commands &&
			post(sender, tag_of(process.begun)))
			;
		sim_check_all();
	}

	bool post(u32 node, u64 tag)
	{
		Process &process = at(node);
		ibrelk_command command{};

		command.opcode = node == sender ? IBRELK_OP_SEND : IBRELK_OP_RECV;
		command.level = node == sender ? IBRELK_LEVEL_BUFFERED : 0;
		command.peer = process.peer;
		command.addr = reinterpret_cast<u64>(process.memory);
		command.length = bytes;
		command.tag = tag;
		if (submit(node, command) != 1)
			return false;
		process.outstanding++;
		process.begun++;
		return true;
	}

	// Time since it began.
	[[nodiscard]] u64 now() const
	{
		return sim_now() - begun_;
	}

	// Messages that were received, of a tag.
	[[nodiscard]] u64 received(u64 tag) const
	{
		return received_[tag];
	}

	[[nodiscard]] u64 by_rts() const
	{
		struct sim_look seen;
		sim_look_at(sender, receiver, IBRELK_MODE_UC_RELIABLE, &seen);
		return seen.rendezvous;
	}

	// The first messages are received as they come, so that the flow has all the memory that it may have.
	void warm_up()
	{
		for (u64 i = 0; i < warm; i++)
			post(receiver, common);
		while (received(common) < warm)
			run(20 * us);
		begun_ = sim_now();
	}

	// The tag of a message.
	[[nodiscard]] u64 tag_of(u64 i) const
	{
		return i + 1 == messages_ ? wanted : i - warm < unwanted_ ? unwanted : common;
	}

private:
	void look_around(u32 node)
	{
		reap(node, [&](const ibrelk_completion &completion) {
			if (completion.status)
				sim_fail("status", "process %u: %d", node, completion.status);
			at(node).outstanding--;
			if (node == receiver)
				received_[completion.tag]++;
		});
	}

	u64 messages_;
	u64 unwanted_;
	u64 begun_ = 0;
	u64 received_[wanted + 1] = {};
};

// More than there is memory for, so that the rest goes by RTS.
constexpr u64 full = 200;

void must_go_by_rts(const Scene &scene, u64 least, u64 most)
{
	std::fprintf(stderr, "%llu by RTS, %llu ms\n", scene.by_rts(), scene.now() / ms);
	if (scene.by_rts() < least || scene.by_rts() > most)
		sim_fail("rts", "%llu messages went by RTS, and not %llu to %llu", scene.by_rts(), least,
			most);
}

// The receiver takes a message every 65 us, and once nothing for a while. Before and after it, what there is
// credit for goes eagerly.
void stall()
{
	constexpr u64 messages = 8000, pause = 40 * ms;
	Scene scene(messages);

	for (u64 taken = 0; scene.received(wanted) == 0;) {
		if (scene.now() > messages * step_ns * 3 / 2)
			sim_fail("stall", "%llu messages arrive in %llu ms", taken, scene.now() / ms);
		if (scene.received(common) == taken)
			scene.post(receiver, scene.tag_of(taken++));
		scene.run(taken == messages / 8 ? pause : step_ns);
	}
	must_go_by_rts(scene, 16, messages / 4);
	scene.end();
}

// The receiver wants the last message, and none of those before. @busy: or one of them every 4 ms, which have
// gone by RTS as well.
void last(bool busy)
{
	constexpr u64 messages = warm + commands;
	Scene scene(messages, full);
	const u64 most = busy ? 500 * ms : 100 * ms;

	scene.warm_up();
	scene.post(receiver, wanted);
	for (u64 next = 0; !scene.received(wanted); scene.run(100 * us)) {
		if (scene.now() > most)
			sim_fail("late", "after %llu ms it has not arrived", scene.now() / ms);
		if (busy && scene.now() >= next) {
			scene.post(receiver, common);
			next = scene.now() + 4 * ms;
		}
	}
	if (busy && scene.received(common) == warm)
		sim_fail("busy", "none was received before it");
	must_go_by_rts(scene, commands / 2, messages);
	scene.end();
}

// Messages that nobody wants occupy the memory for good; those behind them are received as they come, and go
// by RTS as fast as they are.
void beside()
{
	constexpr u64 messages = 8000;
	Scene scene(messages, full);
	u64 taken = warm + full;

	scene.warm_up();
	while (scene.received(wanted) == 0) {
		if (scene.now() > 100 * ms)
			sim_fail("beside", "%llu messages are received in %llu ms", scene.received(common),
				scene.now() / ms);
		for (; taken < messages && taken - full < scene.received(common) + 32; taken++)
			scene.post(receiver, scene.tag_of(taken));
		scene.run(20 * us);
	}
	must_go_by_rts(scene, messages - warm - 2 * full, messages);
	scene.end();
}

} // namespace
namespace
{

// ---- two that flood each other -----------------------------------------------------------------

// Two nodes, two processes on each: one that has as many messages under way to its like on the other node as
// it may, and receives nothing before it is told to; and one that has nothing to do with that. All messages
// of a flood have one tag, so that they must be received as they were sent.
class Flood
{
public:
	static constexpr u32 nodes = 2;
	static constexpr u64 messages = 4000; // each way
	enum Part { flooder, other, parts };

	explicit Flood(u32 mode) : mode_(mode)
	{
		sim_seed(1);
		sim_enter(SIM_ADMIN, 0, 0);
		sim_module_load();
		sim_leave();
		for (u32 node = 0; node < nodes; node++) {
			sim_enter(SIM_ADMIN, node, 0);
			sim_node_start(node);
			sim_leave();
		}
		for (u32 node = 0; node < nodes; node++)
			for (const Part part : {flooder, other})
				open(node, part);
	}

	// The first messages are received as they come, so that either flow is given memory. Of the others
	// nobody has asked for any: both send until there is no more room, neither there nor here.
	void fill()
	{
		u64 sent = 0;

		wanted_ = warm;
		while (end(0, flooder).received < warm || end(1, flooder).received < warm) {
			if (sim_now() > 20 * second)
				sim_fail("flood", "not even the first messages arrive");
			run(50 * us);
		}

		do {
			sent = end(0, flooder).sent + end(1, flooder).sent;
			run(50 * ms);
		} while (end(0, flooder).sent + end(1, flooder).sent > sent);
		for (u32 node = 0; node < nodes; node++) {
			const auto seen = look(node);
			const u64 unasked = end(node, flooder).sent - warm, headers = seen.waiting;

			std::fprintf(stderr,
				"node %u: %llu messages sent that nobody wants, %llu headers of them\n", node,
				unasked, headers);
			if (unasked + warm == messages)
				sim_fail("flood", "node %u: nothing ever stopped it", node);
			// Those that are eager by their length are so as long as there is memory for them.
			if (headers < unasked / long_each + 100 || headers + 50 > unasked)
				sim_fail("flood", "node %u: the memory is not full, or was not used", node);
		}
	}

	// The other processes do not notice.
	void beside()
	{
		for (const u64 length : {64ull, 4096ull, long_bytes})
			for (u32 i = 0; i < 50; i++)
				for (u32 from = 0; from < nodes; from++) {
					End &source = end(from, other), &target = end(1 - from, other);
					const u64 before = target.received, limit = sim_now() + 20 * ms;

					target.length = length;
					if (!receive(1 - from, other) || !send(from, other, length))
						sim_fail("beside", "a command of node %u is not accepted",
							from);
					while (target.received == before || source.done != source.sent) {
						if (sim_now() >= limit)
							sim_fail("beside",
								"message %u of %llu bytes of node %u does "
								"not arrive",
								i, length, from);
						run(10 * us);
					}
				}
		for (u32 node = 0; node < nodes; node++)
			if (end(node, flooder).received != warm)
				sim_fail("beside", "the flood is over");
	}

	// Now both receive, and go on until all is sent.
	void drain()
	{
		const u64 limit = sim_now() + 60 * second;
		const auto over = [&](u32 node) {
			const End &here = end(node, flooder);
			return here.received == messages && here.done == messages;
		};

		wanted_ = messages;
		while (!over(0) || !over(1)) {
			if (sim_now() >= limit)
				sim_fail("drain", "%llu and %llu messages are received, %llu and %llu sent",
					end(0, flooder).received, end(1, flooder).received,
					end(0, flooder).done, end(1, flooder).done);
			run(50 * us);
		}
	}

	// A process ends while its memory is written to, and of what was written its node hears only when
	// another message is being written to memory of another process.
	void told_late()
	{
		constexpr u32 to = 1;
		// Whole fragments, and less of them than a window of packets, which is what is told late.
		constexpr u64 short_bytes = u64{48} * 4008;
		End &target = end(to, other);
		const auto until = [&](const char *what, auto done) {
			for (const u64 limit = sim_now() + 100 * ms; !done(); sim_run(sim_now() + 1 * us))
				if (sim_now() >= limit)
					sim_fail("told-late", "%s does not happen", what);
		};

		target.length = short_bytes;
		send(0, other, short_bytes);
		until("the announcement", [&] { return look(0).waiting == 1; });
		receive(to, flooder);
		send(0, flooder, long_bytes);
		until("the first window", [&] { return look(0).open == 1; });
		sim::adapter_hold_events(to, true);
		sim_run(sim_now() + 1 * ms);
		if (look(0).touched)
			sim_fail("told-late", "it was told of");
		std::fprintf(stderr, "none of %u fragments is known to have come\n", look(0).missing);
		end_of(to, flooder);
		until("the end of the first window", [&] { return look(0).transfers == 0; });
		sim_run(sim_now() + 1 * ms); // and its region is gone
		receive(to, other);
		until("the second window", [&] { return look(0).open == 1; });
		sim::adapter_hold_events(to, false);
		until("the message", [&] {
			reap(to, other);
			return target.received == 1;
		});
	}

	void end_of(u32 node, Part part)
	{
		End &here = end(node, part);

		if (!here.endpoint)
			return;
		as(node, part, [](End &ending) {
			sim_mm_end(&ending.mm);
			sim_endpoint_close(ending.endpoint);
			sim_fd_close(ending.fd);
		});
		here.endpoint = nullptr;
	}

	void close()
	{
		for (u32 node = 0; node < nodes; node++)
			for (const Part part : {flooder, other})
				end_of(node, part);
		sim_run(sim_now() + 12 * second);
		for (u32 node = 0; node < nodes; node++) {
			sim_enter(SIM_ADMIN, node, 0);
			sim_node_stop(node);
			sim_leave();
		}
		sim_run(sim_now() + 100 * ms);
		sim_enter(SIM_ADMIN, 0, 0);
		sim_module_unload();
		sim_leave();
		sim_run(sim_now() + 100 * ms);
		sim_rcu_flush();
		sim_alloc_check();
	}

private:
	static constexpr u64 long_bytes = 300'000, long_each = 16; // every 16th is so long
	static constexpr u64 pool_bytes = 1 << 20;
	static constexpr u32 receives = 16; // posted at a time

	struct End {
		sim_task task{};
		mm_struct mm{};
		ibr_endpoint *endpoint = nullptr;
		ibrelk_ring_header *ring = nullptr;
		int fd = -1;
		u32 peer = 0;
		u8 *pool = nullptr, *target = nullptr; // what is sent is somewhere in the pool
		std::vector<u64> free;                 // parts of the target that no receive has
		u64 sent = 0, done = 0, posted = 0, received = 0;
		u64 length = 0; // of what is to come, of the other processes
	};

	End &end(u32 node, Part part)
	{
		return end_[node][part];
	}

	// All nodes live in one module, so each number is used once.
	[[nodiscard]] static u32 number_of(u32 node, Part part)
	{
		return 100 + node * parts + part;
	}

	[[nodiscard]] sim_look look(u32 node) const
	{
		sim_look seen;
		sim_look_at(node, 1 - node, mode_, &seen);
		return seen;
	}

	template<typename Function>
	void as(u32 node, Part part, Function function)
	{
		sim_enter(SIM_PROCESS, node, 0);
		sim_current = &end(node, part).task;
		function(end(node, part));
		sim_leave();
	}

	void open(u32 node, Part part)
	{
		const auto memory = [](u64 size) {
			return static_cast<u8 *>(mmap(
				nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
		};

		as(node, part, [&](End &here) {
			ibrelk_endpoint_create create{};
			ibrelk_addr peer{};

			here.task = {&here.mm, nullptr, 1000 + node * parts + part, 100, 1ul << 30, 0, 0, 0};
			here.mm.users = 1;
			here.pool = memory(pool_bytes);
			here.target = memory(receives * long_bytes);
			for (u64 slot = 0; slot < receives; slot++)
				here.free.push_back(slot);
			for (u64 i = 0; i < pool_bytes; i++)
				here.pool[i] =
					static_cast<u8>((i * 2654435761u + u64{node} * 77 + part) >> 11);
			here.fd = sim_ring_create(4 * commands, &here.ring);
			create.mode = mode_;
			create.send_ring = create.recv_ring = here.fd;
			create.sends = create.recvs = commands;
			sim_gid(node, false, create.local.gid);
			create.local.endpoint = number_of(node, part);
			if (sim_endpoint_create(&create, &here.endpoint))
				sim_fail("open", "an endpoint cannot be made");
			sim_gid(1 - node, false, peer.gid);
			peer.endpoint = number_of(1 - node, part);
			if (sim_peer_add(here.endpoint, &peer, &here.peer))
				sim_fail("open", "a peer cannot be added");
		});
	}

	[[nodiscard]] static u64 length_of(u64 i)
	{
		return i % long_each == long_each - 1 ? long_bytes : i % 5 == 4 ? 64 : 4096;
	}

	[[nodiscard]] static u64 place_of(u64 i, u64 length)
	{
		return i * 4099 % (pool_bytes - length);
	}

	bool submit(u32 node, Part part, ibrelk_command command)
	{
		int accepted = 0;

		as(node, part, [&](const End &here) { accepted = sim_submit(here.endpoint, &command, 1); });
		return accepted == 1;
	}

	bool send(u32 node, Part part, u64 length)
	{
		End &here = end(node, part);
		ibrelk_command command{};

		command.opcode = IBRELK_OP_SEND;
		command.level = static_cast<u8>(here.sent % 3); // buffered, delivered, matched
		command.peer = here.peer;
		command.addr = reinterpret_cast<u64>(here.pool + place_of(here.sent, length));
		command.length = length;
		command.tag = common;
		if (!submit(node, part, command))
			return false;
		here.sent++;
		return true;
	}

	bool receive(u32 node, Part part)
	{
		End &here = end(node, part);
		ibrelk_command command{};

		command.opcode = IBRELK_OP_RECV;
		command.peer = IBRELK_PEER_ANY;
		command.addr = reinterpret_cast<u64>(here.target + here.free.back() * long_bytes);
		command.length = long_bytes;
		command.tag = common;
		command.user_data = here.posted * receives + here.free.back();
		if (!submit(node, part, command))
			return false;
		here.posted++;
		here.free.pop_back();
		return true;
	}

	// Time goes on by @ns; then each process looks around.
	void run(u64 ns)
	{
		sim_run(sim_now() + ns);
		for (u32 node = 0; node < nodes; node++) {
			End &here = end(node, flooder);

			for (const Part part : {flooder, other})
				reap(node, part);
			while (here.posted < wanted_ && !here.free.empty() && receive(node, flooder))
				;
			while (here.sent < messages && send(node, flooder, length_of(here.sent)))
				;
		}
		sim_check_all();
	}

	// The k-th receive takes the k-th message, and that is what was sent. It may be complete before one
	// ahead of it, if that is longer.
	void reap(u32 node, Part part)
	{
		End &here = end(node, part);
		auto *ring = here.ring;
		const auto *entries = reinterpret_cast<const ibrelk_completion *>(
			reinterpret_cast<const u8 *>(ring) + ring->entries_offset);

		for (; ring->head != ring->tail; ring->head++) {
			const auto &completion = entries[ring->head & (ring->entries - 1)];

			if (completion.status)
				sim_fail(
					"status", "process %u of node %u: %d", part, node, completion.status);
			if (completion.opcode == IBRELK_OP_SEND) {
				here.done++;
				continue;
			}
			const u64 number = completion.user_data / receives,
				  slot = completion.user_data % receives;
			const u64 length = part == flooder ? length_of(number) : here.length;

			if (completion.length != length)
				sim_fail("order", "message %llu to node %u has %llu bytes instead of %llu",
					number, node, completion.length, length);
			if (std::memcmp(here.target + slot * long_bytes,
				    end(1 - node, part).pool + place_of(number, length), length) != 0)
				sim_fail("bytes", "message %llu to node %u is not what was sent", number,
					node);
			here.free.push_back(slot);
			here.received++;
		}
	}

	u32 mode_;
	u64 wanted_ = 0; // messages that each of the two may receive so far
	End end_[nodes][parts];
};

// All that either end has room for is taken by messages that nobody wants, long ones and short ones, and so
// at both ends. Nobody else notices; and when they are wanted, all of them are there.
void flood(u32 mode)
{
	Flood flood(mode);

	flood.fill();
	flood.beside();
	flood.drain();
	flood.close();
}

} // namespace

int main(int argc, char **argv)
{
	sim::use_huge_pages(argv);

	const struct {
		const char *name;
		std::function<void()> body;
		u64 delay_ns = sim::config_usual().delay_ns;
	} tests[] = {{"stall", stall},
		{"last",
			[] {
				last(false);
			}},
		{"busy",
			[] {
				last(true);
			}},
		{"beside", beside},
		{"flood-uc",
			[] {
				flood(IBRELK_MODE_UC_RELIABLE);
			}},
		{"flood-ud",
			[] {
				flood(IBRELK_MODE_UD_RELIABLE);
			}},
		{"flood-auto",
			[] {
				flood(IBRELK_MODE_AUTO);
			}},
		{"told-late",
			[] {
				Flood flood(IBRELK_MODE_UC_RELIABLE);
				flood.told_late();
				flood.close();
			},
			100 * us}}; // so that nothing has arrived that is said to have
	bool trace = false;
	std::string name;
	u64 passed = 0, failed = 0;

	for (int i = 1; i < argc; i++)
		if (std::strcmp(argv[i], "--trace") == 0)
			trace = true;
		else
			name = argv[i];
	for (const auto &test : tests) {
		auto config = sim::config_usual();
		if (!name.empty() && name != test.name)
			continue;
		config.memlock_kib = 1 << 20;
		config.delay_ns = test.delay_ns;
		const auto outcome = sim::apart(config, trace, test.body);
		std::printf("%s: %s%s", test.name, outcome.failed ? "FAILED " : "", outcome.report.c_str());
		(outcome.failed ? failed : passed)++;
	}
	std::printf("%llu passed, %llu failed\n", passed, failed);
	return failed || !passed ? 1 : 0;
}
