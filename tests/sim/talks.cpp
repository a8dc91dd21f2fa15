// SPDX-License-Identifier: GPL-2.0-only
//
// Scenes of streams.cpp in which nobody streams: question and answer.

#include "streams.hpp"

#include <cstdio>

namespace streams
{

namespace
{

// Two processes. Who gets a message answers it.
class Talk : public sim::Stage<sim::Process>
{
public:
	explicit Talk(u32 mode) : Stage(2, 1)
	{
		for (u32 node : {0, 1}) {
			open(node, memory_bytes, {.mode = mode}, 1 - node);
			command(node, IBRELK_OP_RECV);
		}
		command(0, IBRELK_OP_SEND);
	}

	void exchanges(u64 count)
	{
		const u64 end = exchanges_ + count, limit = sim_now() + second;

		while (exchanges_ < end) {
			if (sim_now() >= limit)
				sim_fail("talk", "%llu exchanges are missing", end - exchanges_);
			sim_run(sim_now() + 5 * us);
			for (u32 node : {0, 1})
				look_around(node);
			sim_check_all();
		}
	}

private:
	void command(u32 node, u32 opcode)
	{
		ibrelk_command command{};

		command.opcode = opcode;
		command.user_data = opcode;
		command.peer = at(node).peer;
		command.addr = reinterpret_cast<u64>(at(node).memory);
		command.length = 8;
		if (submit(node, command) != 1)
			sim_fail("talk", "a command is not accepted");
	}

	void look_around(u32 node)
	{
		u32 messages = 0;

		reap(node, [&](const ibrelk_completion &completion) {
			if (completion.status)
				sim_fail("status", "the process of node %u is told %d", node,
					completion.status);
			messages += completion.user_data == IBRELK_OP_RECV;
		});
		for (; messages; messages--) {
			exchanges_ += !node;
			command(node, IBRELK_OP_RECV);
			command(node, IBRELK_OP_SEND);
		}
	}

	u64 exchanges_ = 0;
};

// A round trip takes longer than an ACK waits for its reply, so the deadline of the ACK, or of the tail
// probe, would be over in each. No timer goes off for what has been done by then.
void undisturbed(u32 mode)
{
	constexpr u64 exchanges = 200, most = exchanges / 10;
	Talk talk(mode);

	talk.exchanges(50);
	const u64 before = sim_hrtimers_fired;
	talk.exchanges(exchanges);
	const u64 found = sim_hrtimers_fired - before;
	std::fprintf(stderr, "talk: %llu timers in %llu exchanges\n", found, exchanges);
	if (found > most)
		sim_fail("talk", "%llu timers in %llu exchanges", found, exchanges);
	talk.end();
}

} // namespace

void talks_tests(std::vector<Test> &tests)
{
	for (const Mode &mode : modes)
		tests.push_back({std::string("talk-") + mode.name, distant(), [mode] {
					 undisturbed(mode.id);
				 }});
}

} // namespace streams
