// SPDX-License-Identifier: GPL-2.0-only
//
// Scenes of streams.cpp: the queue pair of datagrams, which a port has one of, fails.

#include "streams.hpp"

namespace streams
{

namespace
{

// An adapter can only be given another one, and does not take the old one away for a while.
void datagrams_kept()
{
	constexpr u32 sender = 1;
	Scene scene({.mode = IBRELK_MODE_UD_RELIABLE, .bytes = 64, .depth = 1});
	const std::size_t queue_pairs = sim::adapter_left();

	scene.sends = 1ull << sender;
	scene.until("some arrive", second, [&] { return scene.received(sender) > 10; });
	sim_config.destroy_errors = 1'000'000;
	sim_troubled = true;
	sim::adapter_break(sim::adapter_datagrams(receiver));
	scene.run(2 * second);
	if (sim::adapter_left() != queue_pairs)
		sim_fail("datagrams", "%zu queue pairs, and %zu before", sim::adapter_left(), queue_pairs);
	sim_troubled = false;
	const u64 before = scene.received(sender);
	scene.until("more arrive", 20 * second, [&] { return scene.received(sender) > before + 10; });
	scene.end();
}

// An adapter can only be given another one, and that does not get ready for a while. As long as nobody can be
// told of one that is ready, paths stay as they are; then they are made anew.
void datagrams_unready()
{
	constexpr u32 sender = 1;
	Scene scene({.mode = IBRELK_MODE_UD_RELIABLE, .bytes = 64, .depth = 1});

	scene.sends = 1ull << sender;
	scene.until("some arrive", second, [&] { return scene.received(sender) > 10; });
	scene.sends = 0;
	scene.run(second);
	sim_config.rebuild_errors = 1'000'000;
	sim_troubled = true;
	sim::adapter_break(sim::adapter_datagrams(sender));
	scene.run(2 * second);
	if (!scene.look(sender, receiver).up)
		sim_fail("datagrams", "the path is broken before there is another queue pair");
	sim_troubled = false;
	scene.until("the path is made anew", 20 * second, [&] { return !scene.look(sender, receiver).up; });
	const u64 before = scene.received(sender);
	scene.sends = 1ull << sender;
	scene.until("more arrive", second, [&] { return scene.received(sender) > before + 10; });
	scene.end();
}

// One is replaced when the peer was told of the old one, and its answer is still on its way.
void datagrams_told()
{
	constexpr u32 sender = 1;
	Scene scene({.mode = IBRELK_MODE_UD_RELIABLE, .bytes = 64, .depth = 1});

	scene.sends = 1ull << sender;
	scene.until("the peer knows", second, [&] { return scene.look(receiver, sender).up; });
	if (scene.look(sender, receiver).up)
		sim_fail("datagrams", "its answer is there");
	sim::adapter_break(sim::adapter_datagrams(sender));
	// Before silence would tell.
	scene.until("some arrive", second, [&] { return scene.received(sender) > 10; });
	scene.end();
}

// One fails again whenever it is back: less and less often. One that has lasted is brought back at once.
void datagrams_again()
{
	constexpr u32 sender = 1;
	Scene scene({.mode = IBRELK_MODE_UD_RELIABLE, .bytes = 64, .depth = 1});
	const u64 resets = sim_counts.resets;
	u64 broken = ~0ull;

	scene.sends = 1ull << sender;
	scene.until("some arrive", second, [&] { return scene.received(sender) > 10; });
	scene.run(
		5 * second,
		[&] {
			if (broken != sim_counts.resets)
				sim::adapter_break(sim::adapter_datagrams(receiver));
			broken = sim_counts.resets;
		},
		ms);
	std::fprintf(stderr, "brought back %llu times\n", sim_counts.resets - resets);
	if (sim_counts.resets - resets > 10)
		sim_fail("datagrams", "brought back %llu times", sim_counts.resets - resets);
	const u64 before = scene.received(sender);
	scene.until("more arrive", 10 * second, [&] { return scene.received(sender) > before + 10; });
	scene.sends = 0;
	scene.run(11 * second, nullptr, 100 * ms);
	broken = sim_counts.resets;
	sim::adapter_break(sim::adapter_datagrams(receiver));
	scene.until("it is back", 10 * ms, [&] { return sim_counts.resets != broken; });
	scene.end();
}

// One is replaced, and a completion queue of the new one fails before it is ready.
void datagrams_spoilt()
{
	constexpr u32 sender = 1;
	Scene scene({.mode = IBRELK_MODE_UD_RELIABLE, .bytes = 64, .depth = 1});

	scene.sends = 1ull << sender;
	scene.until("some arrive", second, [&] { return scene.received(sender) > 10; });
	sim_config.fresh_cq_errors = 1'000'000;
	sim_troubled = true;
	sim::adapter_break(sim::adapter_datagrams(receiver));
	scene.run(50 * ms);
	sim_troubled = false;
	const u64 before = scene.received(sender);
	scene.until("more arrive", 10 * second, [&] { return scene.received(sender) > before + 10; });
	scene.end();
}

// A subnet manager moves the default partition in the table of a port's keys.
void datagrams_moved()
{
	constexpr u32 sender = 1;
	Scene scene({.mode = IBRELK_MODE_UD_RELIABLE, .bytes = 64, .depth = 1});

	scene.sends = 1ull << sender;
	for (const u32 node : {sender, receiver}) {
		scene.until("some arrive", second, [&] { return scene.received(sender) > 10; });
		scene.as(SIM_ADMIN, node, [node] { sim_set_pkey(node, 3); });
		const u64 before = scene.received(sender);
		scene.until("more arrive", second, [&] { return scene.received(sender) > before + 10; });
	}
	scene.end();
}

// It has taken it away, and a queue pair fails: nothing is gained by another one before it is there again.
void datagrams_nowhere()
{
	constexpr u32 sender = 1;
	Scene scene({.mode = IBRELK_MODE_UD_RELIABLE, .bytes = 64, .depth = 1});

	scene.sends = 1ull << sender;
	scene.until("some arrive", second, [&] { return scene.received(sender) > 10; });
	const u32 number = sim::adapter_datagrams(receiver)->qp_num;
	scene.as(SIM_ADMIN, receiver, [] { sim_set_pkey(receiver, -1); });
	sim::adapter_break(sim::adapter_datagrams(receiver));
	scene.run(2 * second);
	if (sim::adapter_datagrams(receiver)->qp_num != number)
		sim_fail("datagrams", "there is another one");
	scene.as(SIM_ADMIN, receiver, [] { sim_set_pkey(receiver, 0); });
	const u64 before = scene.received(sender);
	scene.until("more arrive", 10 * second, [&] { return scene.received(sender) > before + 10; });
	scene.end();
}

} // namespace

void datagrams_tests(std::vector<Test> &tests)
{
	auto config = sim::config_usual();
	tests.push_back({"datagrams-again", config, datagrams_again});
	tests.push_back({"datagrams-moved", config, datagrams_moved});
	config.final_errors = 1;
	tests.push_back({"datagrams-nowhere", config, datagrams_nowhere});
	tests.push_back({"datagrams-kept", config, datagrams_kept});
	tests.push_back({"datagrams-unready", config, datagrams_unready});
	tests.push_back({"datagrams-spoilt", config, datagrams_spoilt});
	config.cm_delay_us = 30'000;
	tests.push_back({"datagrams-told", config, datagrams_told});
}

} // namespace streams
