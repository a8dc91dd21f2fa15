// SPDX-License-Identifier: GPL-2.0-only
//
// Draws what a run is like from its seed. Most faults are absent from most runs, so that what one of them
// does can be seen, and all combinations occur.

#include "config.hpp"

#include "sim.h"

#include <ibrelk/uapi.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>

namespace sim
{

namespace
{

constexpr auto stream = SIM_RANDOM_CONFIG;

u64 pick(std::initializer_list<u64> values)
{
	return values.begin()[sim_below(stream, values.size())];
}

u64 between(u64 low, u64 high)
{
	return low + sim_below(stream, high - low + 1);
}

// As many from each order of magnitude (of two), without floating point, which differs between machines.
u64 scaled(u64 low, u64 high)
{
	u64 steps = 0;
	for (u64 value = low; value < high; value *= 2)
		steps++;
	const u64 base = low << sim_below(stream, steps + 1);
	const u64 value = base + sim_below(stream, base);
	return value < high ? value : high;
}

bool maybe(u64 percent)
{
	return sim_chance(stream, percent * 10'000);
}

struct Name {
	const char *name;
	const char *what;
	u64 sim_config::*member;
	u64 usual;
};

const Name names[] = {
#define X(name, what, usual) {#name, what, &sim_config::name, usual},
	SIM_CONFIG(X)
#undef X
};

void draw_programs(struct sim_config &c)
{
	c.nodes = maybe(50) ? 2 : between(2, 8);
	c.endpoints = between(1, c.nodes > 4 ? 2 : 3);
	c.modes = 0;
	for (u64 n = between(1, maybe(60) ? 1 : 3); n; n--)
		c.modes |= 1u << pick({1, 2, 3, 4, 5, 5, 5, 6, 6, 6});
	c.messages = scaled(8, 400);
	c.size_max = pick({0, 64, 200, 4100, 9000, 33000, 70000});
	if (maybe(20)) {
		c.big = scaled(10'000, 300'000);
		c.messages = c.messages > 24 ? 24 : c.messages;
	}
	c.loop = maybe(10);
	c.app_us = scaled(1, 500);
	c.tags = pick({1, 1, 2, 3, 10});
	c.untagged = maybe(20) ? between(1, 500'000) : 0;
	c.wild_source = pick({0, 200'000, 500'000, 1'000'000});
	c.wild_tag = pick({0, 0, 200'000, 600'000, 1'000'000});
	c.short_buffer = maybe(15) ? between(1, 300'000) : 0;
	c.late = maybe(30) ? scaled(10, 20'000) : 0;
	c.batch = pick({1, 1, 2, 8, 32});
	c.levels = maybe(50) ? 1 : between(1, 15);
	c.cancels = maybe(20) ? between(1, 300'000) : 0;
	c.closes = maybe(20) ? between(1, 3) : 0;
	c.ring = maybe(80) ? 1024 : pick({1, 2, 8, 64});
	c.ring_lazy = maybe(20) ? between(1, 990'000) : 0;
	c.sends_max = maybe(85) ? 4096 : pick({1, 2, 16});
	c.recvs_max = maybe(90) ? 65536 : pick({2, 4, 16});
	c.unexpected_kib = maybe(75) ? 1024 : pick({64, 64, 128});
	c.memlock_kib = maybe(85) ? 65536 : pick({0, 16, 4096});
	c.quiet = maybe(15) ? between(1, 500'000) : 0;
	c.wrong_job = maybe(5);
}

void draw_module(struct sim_config &c)
{
	c.window_pkts = maybe(60) ? 64 : pick({2, 3, 8, 16, 32});
	c.rto_min_us = pick({4000, 4000, 1000, 20000});
	c.eager_max = maybe(70) ? 8192 : pick({0, 100, 4096, 32768});
	c.aggregate = maybe(50);
	c.ud_recv_depth = maybe(80) ? 1024 : pick({64, 128});
	c.peer_timeout_ms = maybe(93) ? 30000 : pick({100, 1000, 3000});
	c.connect_timeout_ms = maybe(95) ? 10000 : pick({100, 2000});
	c.linger_ms = maybe(90) ? 30000 : pick({0, 10, 1000, 10000});
}

void draw_wire(struct sim_config &c)
{
	c.mtu = maybe(60) ? 4096 : pick({256, 512, 1024, 2048});
	c.delay_ns = scaled(500, maybe(10) ? 20'000'000 : 50'000);
	c.jitter_ns = maybe(50) ? scaled(1, 4 * c.delay_ns) : 0;
	c.bandwidth_mbps = maybe(25) ? pick({100, 1000, 10'000, 100'000}) : 0;
	c.wr_max = maybe(85) ? 16384 : pick({16, 40, 130});
	c.post_ns = maybe(80) ? 200 : scaled(1000, 50'000);
	c.queue_kib = pick({16, 64, 1024});
	c.loss = maybe(40) ? scaled(100, 300'000) : 0;
	c.loss_data = maybe(7) ? scaled(1000, 300'000) : 0;
	c.loss_control = maybe(7) ? scaled(1000, 800'000) : 0;
	c.loss_one_way = maybe(7) ? scaled(1000, 400'000) : 0;
	c.burst = maybe(15) ? scaled(100, 30'000) : 0;
	c.burst_pkts = scaled(2, 100);
	c.cm_loss = maybe(20) ? scaled(1000, 600'000) : 0;
	c.cm_delay_us = maybe(70) ? 50 : scaled(100, 2'000'000);
	c.duplicate = maybe(20) ? scaled(100, 300'000) : 0;
	c.reorder = maybe(25) ? scaled(100, 500'000) : 0;
	c.reorder_us = scaled(1, 20'000);
	c.corrupt = maybe(15) ? scaled(100, 200'000) : 0;
	c.replay = maybe(20) ? scaled(100, 300'000) : 0;
}

void draw_nodes(struct sim_config &c)
{
	c.faults_ms = scaled(2, maybe(10) ? 4000 : 200);
	c.partitions = maybe(12) ? between(1, 4) : 0;
	c.partition_ms = scaled(1, maybe(20) ? 5000 : 500);
	c.flaps = maybe(12) ? between(1, 6) : 0;
	c.flap_ms = scaled(1, 500);
	c.wedges = maybe(12) ? between(1, 4) : 0;
	c.qp_errors = maybe(12) ? between(1, 4) : 0;
	c.post_errors = maybe(8) ? scaled(100, 30'000) : 0;
	c.mtu_changes = maybe(8) ? between(1, 3) : 0;
	c.restarts = maybe(12) ? between(1, 3) : 0;
	c.pauses = maybe(12) ? between(1, 4) : 0;
	c.pause_ms = scaled(1, 2000);
	c.jumps = maybe(6) ? between(1, 3) : 0;
	c.jump_ms = scaled(1, 3000);
	c.alloc = maybe(12) ? scaled(100, 100'000) : 0;
	c.pin = maybe(10) ? scaled(1000, 500'000) : 0;
	c.preempt = maybe(60) ? scaled(1000, 500'000) : 0;
	c.softirq_us = scaled(1, maybe(10) ? 1000 : 10);
	c.work_us = scaled(1, maybe(10) ? 10'000 : 100);
	c.reuse = maybe(50);
}

void draw_congestion(struct sim_config &c)
{
	c.congestion = maybe(40) ? 1 : pick({0, 2});
	c.target_us = maybe(50) ? 0 : pick({1, 20, 1000, 100'000});
}

// What was added later is drawn last, so that seeds stay what they are.
void draw_memory(struct sim_config &c)
{
	c.slow_memory = maybe(7) ? scaled(10'000, 1'000'000) : 0;
	c.slow_memory_ms = scaled(1, 500);
	c.rush = maybe(3);
}

void draw_rebuilding(struct sim_config &c)
{
	c.rebuild_errors = maybe(7) ? scaled(100'000, 1'000'000) : 0;
}

// Lanes that come and go: much more eager than anybody would set them.
void draw_auto(struct sim_config &c)
{
	if (!maybe(35))
		return;
	c.modes = maybe(50) ? 1u << IBRELK_MODE_AUTO : c.modes | 1u << IBRELK_MODE_AUTO;
	c.auto_uc_rate = pick({1, 20, 300, 2000});
	c.auto_uc_idle_ms = maybe(30) ? 10'000 : scaled(10, 1000);
	c.auto_uc_max = maybe(80) ? 256 : between(0, 3);
	c.faults_ms = maybe(50) ? c.faults_ms : scaled(200, 4000);
}

void draw_interrupts(struct sim_config &c)
{
	c.interrupt = maybe(25) ? scaled(1000, 500'000) : 0;
}

void draw_arming(struct sim_config &c)
{
	c.arm_errors = maybe(5) ? scaled(100, 30'000) : 0;
}

void draw_looking(struct sim_config &c)
{
	c.multis = maybe(15) ? scaled(10'000, 1'000'000) : 0;
	c.claims = maybe(15) ? scaled(10'000, 600'000) : 0;
	c.pieces = maybe(15) ? scaled(10'000, 1'000'000) : 0;
}

void draw_regions(struct sim_config &c, bool calm)
{
	c.zero_copy_min = maybe(60) ? pick({1, 100, 9000}) : 131072;
	c.regions = maybe(80) ? 16 : pick({0, 1, 2, 3});
	if (!calm)
		c.reg_errors = maybe(7) ? scaled(1000, 300'000) : 0;
}

void draw_mapping(struct sim_config &c)
{
	c.pin_cache_mib = maybe(80) ? 64 : pick({0, 1});
	c.unmap = maybe(40) ? pick({10'000, 300'000, 1'000'000}) : 0;
}

// What is due to processes alone shows best where nothing else goes wrong.
void draw_stops(struct sim_config &c, bool calm)
{
	c.stops = maybe(calm ? 50 : 12) ? between(1, 8) : 0;
	c.stop_ms = scaled(1, 8000);
}

void draw_credit(struct sim_config &c)
{
	c.credit_wait_us = maybe(70) ? 5000 : pick({0, 0, 50, 100'000});
	c.fabric = pick({0, 0, 0, 0, 0, 0, 0, 0, SIM_FABRIC_SOFTWARE, SIM_FABRIC_IB});
	c.send_sges = maybe(85) ? 30 : pick({2, 3});
}

void draw_adapters(struct sim_config &c, bool calm)
{
	c.twins = !calm && maybe(8) ? between(1, 3) : 0;
	c.late_events = !calm && maybe(10) ? scaled(1000, 500'000) : 0;
	c.late_events_us = scaled(10, 5000);
	c.dma_sync = maybe(5);
}

void draw_moves(struct sim_config &c, bool calm)
{
	c.moves = !calm && maybe(8) ? between(1, 3) : 0;
}

void draw_payloads(struct sim_config &c, bool calm)
{
	c.map_errors = !calm && maybe(10) ? scaled(100, 200'000) : 0;
}

void draw_finality(struct sim_config &c, bool calm)
{
	c.final_errors = maybe(15);
	c.cq_errors = !calm && maybe(8) ? between(1, 3) : 0;
}

void draw_stuck(struct sim_config &c, bool calm)
{
	c.stuck_errors = !calm && maybe(8) ? scaled(10'000, 1'000'000) : 0;
	c.destroy_errors = !calm && maybe(8) ? scaled(100'000, 1'000'000) : 0;
	c.fresh_cq_errors = !calm && maybe(8) ? scaled(100'000, 1'000'000) : 0;
}

void draw_coalescing(struct sim_config &c)
{
	c.coalesce_us = pick({20, ~0ull, 0, 100, 1000});
}

void draw_puts(struct sim_config &c)
{
	c.puts = maybe(25) ? pick({20'000, 100'000, 300'000}) : 0;
}

void draw_notices(struct sim_config &c)
{
	c.tells = c.puts ? pick({0, 300'000, 1'000'000}) : 0;
}

} // namespace

struct sim_config config_usual()
{
	struct sim_config c = {};
	for (const auto &name : names)
		c.*name.member = name.usual;
	return c;
}

struct sim_config config_draw(u64 seed)
{
	sim_seed(seed);
	struct sim_config c = config_usual();
	draw_programs(c);
	draw_module(c);
	draw_wire(c);
	draw_nodes(c);
	draw_congestion(c);
	// One in ten has no faults at all.
	const bool calm = maybe(10);
	c.wrap = maybe(50) ? scaled(1, 300) : 0;
	draw_memory(c);
	draw_rebuilding(c);
	if (calm) {
		const struct sim_config usual = config_usual();
		for (auto fault : config_faults())
			c.*fault = usual.*fault;
	}
	draw_auto(c);
	draw_interrupts(c);
	if (!calm)
		draw_arming(c);
	draw_looking(c);
	draw_regions(c, calm);
	draw_mapping(c);
	draw_stops(c, calm);
	draw_credit(c);
	draw_puts(c);
	draw_adapters(c, calm);
	draw_moves(c, calm);
	draw_payloads(c, calm);
	draw_finality(c, calm);
	draw_stuck(c, calm);
	draw_coalescing(c);
	draw_notices(c);
	return c;
}

bool config_set(struct sim_config &c, const std::string &text)
{
	const auto equals = text.find('=');
	if (equals == std::string::npos)
		return false;
	for (const auto &name : names)
		if (text.compare(0, equals, name.name) == 0) {
			c.*name.member = std::stoull(text.substr(equals + 1), nullptr, 0);
			return true;
		}
	return false;
}

std::vector<std::string> config_differences(const struct sim_config &from, const struct sim_config &to)
{
	std::vector<std::string> texts;
	for (const auto &name : names)
		if (from.*name.member != to.*name.member)
			texts.push_back(std::string(name.name) + "=" + std::to_string(to.*name.member));
	return texts;
}

std::string config_text(const struct sim_config &c)
{
	std::string text;
	for (const auto &difference : config_differences(config_usual(), c))
		text += (text.empty() ? "" : " ") + difference;
	return text;
}

std::vector<u64 sim_config::*> config_faults()
{
	return {&sim_config::loss, &sim_config::loss_data, &sim_config::loss_control,
		&sim_config::loss_one_way, &sim_config::burst, &sim_config::cm_loss, &sim_config::duplicate,
		&sim_config::reorder, &sim_config::corrupt, &sim_config::replay, &sim_config::partitions,
		&sim_config::flaps, &sim_config::wedges, &sim_config::qp_errors, &sim_config::restarts,
		&sim_config::post_errors, &sim_config::mtu_changes, &sim_config::pauses, &sim_config::jumps,
		&sim_config::alloc, &sim_config::pin, &sim_config::closes, &sim_config::cancels,
		&sim_config::slow_memory, &sim_config::rush, &sim_config::rebuild_errors,
		&sim_config::arm_errors, &sim_config::reg_errors, &sim_config::unmap, &sim_config::stops,
		&sim_config::twins, &sim_config::late_events, &sim_config::moves, &sim_config::map_errors,
		&sim_config::cq_errors, &sim_config::stuck_errors, &sim_config::destroy_errors,
		&sim_config::fresh_cq_errors};
}

// No fault but those of processes, no queue that is too short for all of them, and whatever takes time, to a
// full window of packets and back, is done before the least time-out.
bool config_only_processes(const struct sim_config &c)
{
	constexpr u64 ack_delay_us = 200;
	const std::vector<u64 sim_config::*> of_processes = {&sim_config::stops, &sim_config::cancels,
		&sim_config::unmap, &sim_config::pin, &sim_config::slow_memory};
	const struct sim_config usual = config_usual();
	const u64 nodes_packets = c.nodes * c.window_pkts;
	const u64 way_us =
		2 * (c.delay_ns + c.jitter_ns + 2 * nodes_packets * c.post_ns) / 1000 + 8 * c.softirq_us;
	const u64 round_trip_us = way_us + std::max(ack_delay_us, way_us); // which a late reply is waited for

	for (auto fault : config_faults())
		if (c.*fault != usual.*fault &&
			std::find(of_processes.begin(), of_processes.end(), fault) == of_processes.end())
			return false;
	// Nor any processor that is taken away, from all nodes at once: sim_preempt().
	return !c.preempt && !c.bandwidth_mbps && c.cm_delay_us <= usual.cm_delay_us &&
		2 * nodes_packets < c.ud_recv_depth && round_trip_us < c.rto_min_us;
}

std::vector<u64 sim_config::*> config_members()
{
	std::vector<u64 sim_config::*> members;
	for (const auto &name : names)
		members.push_back(name.member);
	return members;
}

std::string config_help()
{
	std::string text;
	for (const auto &name : names) {
		std::string line = "  " + std::string(name.name);
		line.resize(24, ' ');
		text += line + name.what + "\n";
	}
	return text;
}

} // namespace sim
