// SPDX-License-Identifier: GPL-2.0-only
//
// See shrink.hpp.

#include "shrink.hpp"

#include <algorithm>

namespace sim
{

namespace
{

constexpr int runs_max = 600;

} // namespace

Shrunk shrink(u64 seed, const struct sim_config &config, const Outcome &outcome)
{
	const struct sim_config usual = config_usual();
	Shrunk best{config, outcome};
	int runs = 0;
	bool better = true;

	const auto try_value = [&](u64 sim_config::*member, u64 value) {
		if (best.config.*member == value || runs >= runs_max)
			return false;
		struct sim_config smaller = best.config;
		smaller.*member = value;
		runs++;
		auto result = run_apart(seed, smaller, false);
		if (!result.failed || result.check != outcome.check)
			return false;
		best = {smaller, std::move(result)};
		return true;
	};
	while (better) {
		better = false;
		for (auto fault : config_faults())
			better |= try_value(fault, 0);
		for (auto member : config_members())
			better |= try_value(member, usual.*member);
		for (auto member : {&sim_config::messages, &sim_config::nodes, &sim_config::endpoints,
			     &sim_config::size_max, &sim_config::faults_ms})
			for (;;) {
				const u64 least = member == &sim_config::nodes ? 2 : 1,
					  value = best.config.*member;
				if (value <= least ||
					(!try_value(member, std::max(least, value / 2)) &&
						!try_value(member, value - 1)))
					break;
				better = true;
			}
	}
	return best;
}

} // namespace sim
