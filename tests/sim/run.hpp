// SPDX-License-Identifier: GPL-2.0-only
//
// One run, from loading the module to unloading it, and what became of it.

#pragma once

#include "config.hpp"
#include "sim.h"

#include <string>

namespace sim
{

struct Outcome {
	bool failed = false;
	std::string check;  // which one failed; a crash has the name of what crashed
	std::string report; // all that was said
	u64 fingerprint = 0;
	struct sim_counts counts {
	};
	u64 virtual_ns = 0;
};

// In a process of its own, so that nothing of one run is left for the next, and a crash is a result like any
// other.
Outcome run_apart(u64 seed, const struct sim_config &config, bool tracing);

} // namespace sim
