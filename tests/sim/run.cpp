// SPDX-License-Identifier: GPL-2.0-only
//
// See run.hpp.

#include "run.hpp"

#include <algorithm>

#include "adapter.hpp"
#include "app.hpp"
#include "model.hpp"
#include "module.h"

namespace
{

constexpr u64 ms = 1'000'000;
constexpr u64 drain_limit_ns = 100'000 * ms; // and longer for much over a long way
// So long that who still waits for a peer that is gone has asked it, and knows.
constexpr u64 settle_ns = 12'000 * ms;

constexpr auto stream = SIM_RANDOM_FAULT;
u64 checks_until;
u64 healed_at;

u32 any_node()
{
	return static_cast<u32>(sim_below(stream, sim_config.nodes));
}

u64 any_ns(u64 most_ms)
{
	return 1 + sim_below(stream, most_ms * ms);
}

void partition(void *)
{
	if (!sim_troubled)
		return;
	const u64 until = sim_now() + any_ns(sim_config.partition_ms);
	const u64 side = sim_random(stream);
	const bool one_way = sim_chance(stream, 500'000);
	sim_trace("partition %llx%s for %llu us", side & 0xff, one_way ? " one way" : "",
		(until - sim_now()) / 1000);
	for (u32 from = 0; from < sim_config.nodes; from++)
		for (u32 to = 0; to < sim_config.nodes; to++)
			if ((side >> from & 1) != (side >> to & 1) && (!one_way || side >> from & 1))
				sim::wire.cut(from, to, until);
}

void flap(void *)
{
	if (!sim_troubled)
		return;
	const u32 node = any_node();
	const u64 length = any_ns(sim_config.flap_ms);
	sim_trace("link of node %u down for %llu us", node, length / 1000);
	sim::wire.down(node, sim_now() + length);
}

void wedge(void *)
{
	ib_qp *qp = sim_troubled ? sim::adapter_pick(true) : nullptr;
	if (qp)
		sim::adapter_deafen(qp);
}

void move(void *)
{
	if (sim_troubled)
		sim::adapter_move(any_node());
}

void qp_error(void *)
{
	ib_qp *qp = sim_troubled ? sim::adapter_pick(false) : nullptr;
	if (qp)
		sim::adapter_break(qp);
}

void cq_error(void *)
{
	if (sim_troubled)
		sim::adapter_break_cq();
}

void pause(void *)
{
	if (!sim_troubled)
		return;
	const u32 node = any_node();
	const u64 length = any_ns(sim_config.pause_ms);
	sim_trace("node %u stands still for %llu us", node, length / 1000);
	sim_pause_node(node, sim_now() + length);
}

void stop(void *)
{
	if (sim_troubled)
		sim::apps.stop_random(any_ns(sim_config.stop_ms));
}

void jump(void *)
{
	if (!sim_troubled)
		return;
	const u64 length = any_ns(sim_config.jump_ms);
	sim_trace("the clock jumps by %llu us", length / 1000);
	sim_jump(length);
}

void change_mtu(void *)
{
	if (sim_troubled)
		sim_set_mtu(sim_node(), 256u << sim_below(stream, 5));
}

u32 least_mtu()
{
	u32 least = sim_mtu(0);

	for (u32 node = 1; node < sim_config.nodes; node++)
		least = std::min(least, sim_mtu(node));
	return least;
}

void close_one(void *)
{
	if (sim_troubled)
		sim::apps.close_random();
}

bool node_is_down[SIM_NODES_MAX];
bool unloaded;

void boot(void *argument)
{
	const u32 node = static_cast<u32>(reinterpret_cast<u64>(argument));

	if (unloaded)
		return;
	sim_trace("node %u comes back", node);
	sim::wire.dead(node, false);
	sim_node_start(node);
	node_is_down[node] = false;
	sim::apps.node_up(node);
}

void twin(void *)
{
	if (!sim_troubled || node_is_down[sim_node()])
		return;
	sim_trace("another device of node %u", sim_node());
	sim_node_twin(sim_node());
}

// A crash says good-bye to nobody; a module that is removed does.
void restart(void *argument)
{
	const u32 node = sim_node();
	const bool crash = sim_chance(stream, 700'000);

	(void)argument;
	if (!sim_troubled || node_is_down[node])
		return;
	sim_trace("node %u %s", node, crash ? "crashes" : "goes down");
	node_is_down[node] = true;
	sim::wire.dead(node, crash);
	sim_set_linger(0);
	sim::apps.node_down(node);
	sim_node_stop(node);
	sim_set_linger(static_cast<u32>(sim_config.linger_ms));
	sim_after(any_ns(200), SIM_ADMIN, node, boot, reinterpret_cast<void *>(u64{node}));
}

void check(void *)
{
	sim_check_all();
	for (const auto &life : sim::apps.lives)
		if (life->open)
			sim_check_endpoint(life->endpoint);
	// Less and less often when nothing happens any more.
	const u64 most = healed_at ? (sim_now() - healed_at) / 8 : sim_config.faults_ms * ms / 20;
	if (sim_now() < checks_until)
		sim_after(20'000 + sim_below(stream, most + 1), SIM_ADMIN, 0, check, nullptr);
}

void schedule(u64 count, void (*fault)(void *))
{
	while (count--)
		sim_after(
			sim_below(stream, sim_config.faults_ms * ms), SIM_ADMIN, any_node(), fault, nullptr);
}

void enter(u32 node, void (*function)())
{
	sim_enter(SIM_ADMIN, node, 0);
	function();
	sim_leave();
}

bool all_up()
{
	for (u32 node = 0; node < sim_config.nodes; node++)
		if (node_is_down[node])
			return false;
	return true;
}

// Whatever is under way, all processes exit and the module is removed.
void rush()
{
	sim_trace("everybody goes");
	checks_until = 0;
	enter(0, [] { sim::apps.close_all(); });
	enter(0, [] { sim::apps.reap_all(); });
	enter(0, [] { sim::apps.shut(); });
}

void unload()
{
	for (u32 node = 0; node < sim_config.nodes; node++) {
		if (node_is_down[node])
			continue;
		sim_enter(SIM_ADMIN, node, 0);
		sim_node_stop(node);
		sim_leave();
	}
	if (!sim_config.rush)
		sim_run(sim_now() + 100 * ms);
	enter(0, sim_module_unload);
	unloaded = true;
	sim_troubled = false;
	sim_run(sim_now() + 100 * ms);
	sim_rcu_flush();
}

void check_left()
{
	sim::model_check_closed();
	s64 pinned = 0;
	for (const auto &life : sim::apps.lives)
		pinned += life->mm.pages;
	if (pinned != sim_unpinned())
		sim_fail("leak", "%lld pages were pinned, and %lld let go", pinned, sim_unpinned());
	if (sim::adapter_left() || sim_cm_left())
		sim_fail("leak", "%zu queue pairs and %llu conversations are left", sim::adapter_left(),
			sim_cm_left());
	sim_alloc_check();
}

void run(u64 seed)
{
	sim_seed(seed);
	sim_only_processes = sim::config_only_processes(sim_config);
	enter(0, sim_module_load);
	for (u32 node = 0; node < sim_config.nodes; node++) {
		sim_enter(SIM_ADMIN, node, 0);
		sim_node_start(node);
		sim_leave();
	}
	enter(0, [] { sim::apps.start(); });

	const u64 begin = sim_now();
	sim_troubled = true;
	checks_until = ~0ull;
	schedule(sim_config.partitions, partition);
	schedule(sim_config.flaps, flap);
	schedule(sim_config.wedges, wedge);
	schedule(sim_config.qp_errors, qp_error);
	schedule(sim_config.pauses, pause);
	schedule(sim_config.jumps, jump);
	schedule(sim_config.stops, stop);
	schedule(sim_config.mtu_changes, change_mtu);
	schedule(sim_config.closes, close_one);
	schedule(sim_config.restarts, restart);
	schedule(sim_config.twins, twin);
	schedule(sim_config.moves, move);
	schedule(sim_config.cq_errors, cq_error);
	sim_after(1000, SIM_ADMIN, 0, check, nullptr);
	sim_run(begin + sim_config.faults_ms * ms);

	if (sim_config.rush) {
		rush();
		unload();
		check_left();
		return;
	}

	// From now on the world is perfect, and everything has to come to its end.
	sim_trace("no more faults");
	sim_troubled = false;
	sim::wire.heal();
	sim::apps.drain();
	const u64 healed = healed_at = sim_now();
	// Congestion control may have come to four packets in a round trip, for good; or there may never be
	// more than two.
	const u64 round_pkts = std::min<u64>(sim_config.window_pkts, 4);
	// Where an answer may take longer than is waited for, to connect is a matter of luck; likewise where
	// who is up first gives the other one up before he can know.
	const bool by_luck = 2 * sim_config.cm_delay_us > 1000 * sim_config.connect_timeout_ms ||
		sim_config.cm_delay_us > 1000 * sim_config.peer_timeout_ms;
	const u64 limit = (by_luck ? 20 : 1) * drain_limit_ns +
		sim::apps.left() / (least_mtu() / 2) / round_pkts * 2 * sim_config.delay_ns;
	while (!sim::apps.done() || !all_up()) {
		if (sim_now() > healed + limit)
			sim_fail("progress", "still under way: %s", sim::apps.stuck().c_str());
		sim_run(sim_now() + (sim_now() - healed < 20 * ms ? ms / 2 : 20 * ms));
		enter(0, [] { sim::apps.reap_closed(); });
	}
	// Who is paced sends a packet in 64 round trips; and what native modes may lose, or nobody is told
	// of, is not waited for above.
	do
		sim_run(sim_now() + settle_ns + 400 * (sim_config.delay_ns + sim_config.jitter_ns));
	while (sim_busy() && sim_now() <= healed + limit);
	checks_until = 0;
	enter(0, [] { sim::apps.reap_all(); });
	enter(0, [] { check(nullptr); });
	sim_check_quiet(sim::model_gentle());
	sim::model_check();

	sim_only_processes = false;
	enter(0, [] { sim::apps.close_all(); });
	sim_run(sim_now() + (sim_config.linger_ms + 2000) * ms);
	enter(0, [] { sim::apps.reap_all(); });
	enter(0, [] { sim::apps.shut(); });
	sim_run(sim_now() + 100 * ms);
	unload();
	check_left();
}

} // namespace

namespace sim
{

Outcome run_apart(u64 seed, const struct sim_config &config, bool tracing)
{
	return apart(config, tracing, [seed] { run(seed); });
}

} // namespace sim
