// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// The command line of ibrelk-perf.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <ibrelk/ibrelk.hpp>

#include "plan.hpp"

namespace perf
{

enum class Role { client, server, self };

struct Options {
	Role role = Role::client;
	Test test = Test::latency;
	std::vector<std::uint32_t> modes; // empty: all that the node can do
	ibrelk::Address local;            // --local, or the first address of --self
	ibrelk::Address peer;             // PEER, or the second address of --self
	std::uint32_t port = default_port;
	std::uint32_t door = IBRELK_DOOR_AUTO;
	std::uint32_t level = IBRELK_LEVEL_DEFAULT;
	std::uint64_t job_key = 0;
	std::uint32_t sends = 0;
	std::uint32_t recvs = 0;
	std::uint64_t unexpected_bytes = 0;
	std::uint32_t ring_entries = 0; // 0: as many as the window needs

	std::vector<std::uint64_t> sizes;
	std::optional<std::uint64_t> iterations; // not given: fewer for large messages
	std::optional<std::uint64_t> warmup;
	std::uint32_t window = 64;
	std::uint32_t batch = 16;
	bool verify = false;
	bool mixed = false;
	std::uint64_t seed = 1;
	Wait wait;
	bool wait_given = false; // a server waits as the client does, unless told how
	double timeout_s = 30;
	double connect_timeout_s = 10;
	bool once = false;

	bool json = false;
	bool counters = false;
	bool quiet = false;
	std::string csv;
	std::string csv_loss = "0";
	std::string csv_delay = "0";
};

/// Reads the command line. On --help, --version and errors prints what there is to say, and returns the exit
/// code in @p code and no options.
std::optional<Options> parse_options(int argc, const char *const *argv, int &code);

/// 4096, 4k, 64K, 1M, 1G (powers of 1024). Empty if it is none.
std::optional<std::uint64_t> parse_size(const std::string &text);

/// "8", "8,64,1k" or "8:64k": from the first size, doubling, up to the last. Empty if it is none of these.
std::vector<std::uint64_t> parse_sizes(const std::string &text);

/// "all" gives an empty list. Empty optional if a name is no mode.
std::optional<std::vector<std::uint32_t>> parse_modes(const std::string &text);

std::uint64_t default_iterations(Test test, std::uint64_t bytes);
std::uint64_t default_warmup(std::uint64_t iterations);

} // namespace perf
