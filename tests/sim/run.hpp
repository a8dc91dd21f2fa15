// SPDX-License-Identifier: GPL-2.0-only
//
// One run, from loading the module to unloading it, and what became of it.

#pragma once

#include "apart.hpp"

namespace sim
{

Outcome run_apart(u64 seed, const struct sim_config &config, bool tracing);

} // namespace sim
