// SPDX-License-Identifier: GPL-2.0-only
//
// See wire.hpp.

#include "wire.hpp"

#include <algorithm>

namespace sim
{

Wire wire;

namespace
{

constexpr auto stream = SIM_RANDOM_WIRE;
constexpr u64 copies_max = 3;

} // namespace

bool Wire::reachable(u32 from, u32 to) const
{
	const u64 now = sim_now();

	return !dead_[from] && !dead_[to] && cut_until_[from][to] <= now && down_until_[from] <= now &&
		down_until_[to] <= now;
}

void Wire::cut(u32 from, u32 to, u64 until)
{
	cut_until_[from][to] = std::max(cut_until_[from][to], until);
}

void Wire::down(u32 node, u64 until)
{
	down_until_[node] = std::max(down_until_[node], until);
}

void Wire::dead(u32 node, bool dead)
{
	dead_[node] = dead;
}

void Wire::lose(u32 node, u32 count)
{
	lose_[node] = count;
}

void Wire::heal()
{
	for (auto &row : cut_until_)
		std::fill(std::begin(row), std::end(row), 0);
	std::fill(std::begin(down_until_), std::end(down_until_), 0);
	std::fill(std::begin(burst_left_), std::end(burst_left_), 0);
}

bool Wire::lost(u32 from, bool carries)
{
	const auto &config = sim_config;
	u64 loss = config.loss + (carries ? config.loss_data : config.loss_control);

	if (carries && lose_[from]) {
		lose_[from]--;
		return true;
	}
	if (!sim_troubled)
		return false;
	if (from == 0)
		loss += config.loss_one_way;
	if (burst_left_[from]) {
		burst_left_[from]--;
		return true;
	}
	if (sim_chance(stream, config.burst)) {
		burst_left_[from] = sim_below(stream, 2 * config.burst_pkts);
		return true;
	}
	return sim_chance(stream, loss);
}

Fate Wire::send(u32 from, u32 to, std::size_t bytes, bool carries, bool faithful)
{
	const auto &config = sim_config;
	const u64 now = sim_now();
	Fate fate;

	if (!reachable(from, to) || lost(from, carries))
		return fate;
	u64 at = now;
	if (config.bandwidth_mbps) {
		const u64 takes = (bytes + 60) * 8000 / config.bandwidth_mbps;
		out_busy_[from] = std::max(out_busy_[from], at) + takes;
		at = std::max(out_busy_[from], in_busy_[to]);
		// The switch's buffer before the port that leads to the receiver.
		if ((at - std::min(at, out_busy_[from])) * config.bandwidth_mbps / 8000 >
			config.queue_kib * 1024)
			return fate;
		in_busy_[to] = at + takes;
	}
	at += config.delay_ns + sim_below(stream, config.jitter_ns + 1);
	if (sim_troubled && !faithful) {
		if (sim_chance(stream, config.reorder))
			at += sim_below(stream, config.reorder_us * 1000 + 1);
		fate.damaged = sim_chance(stream, config.corrupt);
	}
	fate.arrivals.push_back(at - now);
	while (sim_troubled && !faithful && fate.arrivals.size() < copies_max &&
		sim_chance(stream, config.duplicate))
		fate.arrivals.push_back(at - now + sim_below(stream, config.reorder_us * 1000 + 1));
	return fate;
}

} // namespace sim
