// SPDX-License-Identifier: GPL-2.0-only
//
// Doing something in a process of its own, so that nothing of one run is left for the next, and a crash is a
// result like any other.

#pragma once

#include "config.hpp"
#include "sim.h"

#include <functional>
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

// @body is done with @config in force; it fails by sim_fail().
Outcome apart(const struct sim_config &config, bool tracing, const std::function<void()> &body);

// Called first in main(): each process of its own has all its memory to touch anew, and page faults by the
// small page were two thirds of the time of a run. The C library takes this from its environment only, when
// it starts; so the program is started once more. @argv: what main() was given.
void use_huge_pages(char **argv);

} // namespace sim
