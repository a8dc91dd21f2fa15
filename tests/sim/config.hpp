// SPDX-License-Identifier: GPL-2.0-only
//
// What a run is like: drawn from its seed, or set by name.

#pragma once

#include <cstdint>

#include "base.h"
#include "config.h"

#include <string>
#include <vector>

namespace sim
{

// Nothing goes wrong, and there is little of everything.
struct sim_config config_usual();
struct sim_config config_draw(u64 seed);
// "name=value". Returns whether there is such a name.
bool config_set(struct sim_config &config, const std::string &text);
// What has to be set to get from one to the other.
std::vector<std::string> config_differences(const struct sim_config &from, const struct sim_config &to);
std::string config_text(const struct sim_config &config);
std::vector<u64 sim_config::*> config_faults();
std::vector<u64 sim_config::*> config_members();
// Is there nothing but processes that could be late?
bool config_only_processes(const struct sim_config &config);
std::string config_help();

} // namespace sim
