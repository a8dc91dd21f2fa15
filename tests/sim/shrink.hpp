// SPDX-License-Identifier: GPL-2.0-only
//
// Makes a failing run smaller: values are put back to the usual ones, or halved, as long as the same check
// fails.

#pragma once

#include "run.hpp"

namespace sim
{

struct Shrunk {
	struct sim_config config;
	Outcome outcome;
};

Shrunk shrink(u64 seed, const struct sim_config &config, const Outcome &outcome);

} // namespace sim
