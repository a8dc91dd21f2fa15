// SPDX-License-Identifier: GPL-2.0-only
//
// A receiver that is behind its sender: the memory for messages that nobody has asked for is full, and what
// follows has to wait for credit, or goes by RTS. A stream must not stay in that state when the receiver has
// caught up, and a message that somebody waits for must not wait for those before it that nobody wants.
// Prints "N passed, N failed".
//
//	ibrelk-behind [--trace] [NAME]		all, or one of: stall, last, busy, beside

#include "apart.hpp"

#include "look.h"
#include "process.h"
#include "wire.hpp"

#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <sys/mman.h>

namespace
{

constexpr u64 us = 1000;
constexpr u64 ms = 1000 * us;
constexpr u64 second = 1000 * ms;
constexpr u32 bytes = 4096;
constexpr u32 commands = 1024;                      // outstanding at each end
constexpr u64 unwanted = 0, common = 1, wanted = 2; // tags
constexpr u64 step_ns = 65 * us;                    // what the receiver needs for a message

enum { sender, receiver };

struct Process {
	sim_task task{};
	mm_struct mm{};
	ibr_endpoint *endpoint = nullptr;
	ibrelk_ring_header *ring = nullptr;
	int fd = -1;
	u32 peer = 0;
	u8 *memory = nullptr;
	u32 outstanding = 0;
	u64 begun = 0;

	~Process()
	{
		munmap(memory, bytes);
	}
};

// Two processes on two nodes. The sender has as many messages under way as it may.
class Scene
{
public:
	// Of @messages, the first have the tag that nobody wants, and the last one has that which is wanted.
	explicit Scene(u64 messages, u64 first = 0) : messages_(messages), first_(first)
	{
		sim_seed(1);
		as(SIM_ADMIN, 0, [] { sim_module_load(); });
		for (u32 node : {sender, receiver})
			as(SIM_ADMIN, node, [node] { sim_node_start(node); });
		for (u32 node : {sender, receiver})
			open(node);
		begun_ = sim_now();
	}

	// Time goes on by @ns; then the sender has its turn.
	void run(u64 ns)
	{
		sim_run(sim_now() + ns);
		for (u32 node : {sender, receiver})
			reap(node);
		Process &process = process_[sender];
		while (process.begun < messages_ && process.outstanding < commands &&
			post(sender, tag_of(process.begun)))
			;
		sim_check_all();
	}

	bool post(u32 node, u64 tag)
	{
		Process &process = process_[node];
		ibrelk_command command{};
		int accepted = 0;

		command.opcode = node == sender ? IBRELK_OP_SEND : IBRELK_OP_RECV;
		command.level = node == sender ? IBRELK_LEVEL_BUFFERED : 0;
		command.peer = process.peer;
		command.addr = reinterpret_cast<u64>(process.memory);
		command.length = bytes;
		command.tag = tag;
		as(SIM_PROCESS, node, [&] { accepted = sim_submit(process.endpoint, &command, 1); });
		if (accepted != 1)
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

	// The tag of a message.
	[[nodiscard]] u64 tag_of(u64 i) const
	{
		return i + 1 == messages_ ? wanted : i < first_ ? unwanted : common;
	}

	void end()
	{
		for (u32 node : {sender, receiver})
			as(SIM_PROCESS, node, [&] {
				sim_mm_end(&process_[node].mm);
				sim_endpoint_close(process_[node].endpoint);
				sim_fd_close(process_[node].fd);
			});
		sim_run(sim_now() + 12 * second);
		for (u32 node : {sender, receiver})
			as(SIM_ADMIN, node, [node] { sim_node_stop(node); });
		sim_run(sim_now() + 100 * ms);
		as(SIM_ADMIN, 0, [] { sim_module_unload(); });
		sim_run(sim_now() + 100 * ms);
		sim_rcu_flush();
		sim_alloc_check();
	}

private:
	template<typename Function>
	void as(sim_context context, u32 node, Function function)
	{
		sim_enter(context, node, 0);
		if (process_[node].endpoint || context == SIM_PROCESS)
			sim_current = &process_[node].task;
		function();
		sim_leave();
	}

	void open(u32 node)
	{
		Process &process = process_[node];
		ibrelk_endpoint_create create{};
		ibrelk_addr other{};

		process.task = {&process.mm, 1000 + node, 100, 1ul << 30, 0};
		process.mm.users = 1;
		process.memory = static_cast<u8 *>(
			mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
		as(SIM_PROCESS, node, [&] {
			process.fd = sim_ring_create(2 * commands, &process.ring);
			create.mode = IBRELK_MODE_UC_RELIABLE;
			create.send_ring = create.recv_ring = process.fd;
			create.sends = create.recvs = commands;
			sim_gid(node, false, create.local.gid);
			create.local.endpoint = 100 + node;
			if (sim_endpoint_create(&create, &process.endpoint))
				sim_fail("open", "an endpoint cannot be made");
			sim_gid(1 - node, false, other.gid);
			other.endpoint = 101 - node;
			if (sim_peer_add(process.endpoint, &other, &process.peer))
				sim_fail("open", "a peer cannot be added");
		});
	}

	void reap(u32 node)
	{
		Process &process = process_[node];
		auto *ring = process.ring;
		const auto *entries = reinterpret_cast<const ibrelk_completion *>(
			reinterpret_cast<const u8 *>(ring) + ring->entries_offset);

		for (; ring->head != ring->tail; ring->head++) {
			const auto &completion = entries[ring->head & (ring->entries - 1)];
			if (completion.status)
				sim_fail("status", "process %u: %d", node, completion.status);
			process.outstanding--;
			if (node == receiver)
				received_[completion.tag]++;
		}
	}

	u64 messages_;
	u64 first_;
	u64 begun_ = 0;
	u64 received_[wanted + 1] = {};
	Process process_[2];
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
	constexpr u64 messages = commands;
	Scene scene(messages, full);
	const u64 most = busy ? 500 * ms : 100 * ms;

	scene.post(receiver, wanted);
	for (u64 next = 0; !scene.received(wanted); scene.run(100 * us)) {
		if (scene.now() > most)
			sim_fail("late", "after %llu ms it has not arrived", scene.now() / ms);
		if (busy && scene.now() >= next) {
			scene.post(receiver, common);
			next = scene.now() + 4 * ms;
		}
	}
	if (busy && scene.received(common) == 0)
		sim_fail("busy", "none was received before it");
	must_go_by_rts(scene, messages / 2, messages);
	scene.end();
}

// Messages that nobody wants occupy the memory for good; those behind them are received as they come, and go
// by RTS as fast as they are.
void beside()
{
	constexpr u64 messages = 8000;
	Scene scene(messages, full);
	u64 taken = full;

	while (scene.received(wanted) == 0) {
		if (scene.now() > 100 * ms)
			sim_fail("beside", "%llu messages are received in %llu ms", scene.received(common),
				scene.now() / ms);
		for (; taken < messages && taken - full < scene.received(common) + 32; taken++)
			scene.post(receiver, scene.tag_of(taken));
		scene.run(20 * us);
	}
	must_go_by_rts(scene, messages - 2 * full, messages);
	scene.end();
}

} // namespace

int main(int argc, char **argv)
{
	const struct {
		const char *name;
		std::function<void()> body;
	} tests[] = {{"stall", stall},
		{"last",
			[] {
				last(false);
			}},
		{"busy",
			[] {
				last(true);
			}},
		{"beside", beside}};
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
		const auto outcome = sim::apart(config, trace, test.body);
		std::printf("%s: %s%s", test.name, outcome.failed ? "FAILED " : "", outcome.report.c_str());
		(outcome.failed ? failed : passed)++;
	}
	std::printf("%llu passed, %llu failed\n", passed, failed);
	return failed || !passed ? 1 : 0;
}
