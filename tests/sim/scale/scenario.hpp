// SPDX-License-Identifier: GPL-2.0-only
//
// What is simulated, and what it is judged by.

#pragma once

#include "cluster.hpp"

#include <string>
#include <vector>

namespace scale
{

struct Scenario {
	std::string name;
	bool exchange = false; // each node sends to its neighbours; else all send to one
	u32 senders = 0;
	u32 peers = 0;  // exchange: neighbours of each
	u32 rounds = 1; // exchange: messages of each size to each neighbour
	u32 kib = 0;    // incast: that each sends
	// The least goodput, and the longest that 99 of 100 may take, both of the ideal; 0: any.
	double goodput = 0;
	double p99 = 0;
	Wire wire;
	Engine engine;
};

// Sizes of the messages of an exchange.
constexpr u32 exchange_sizes[] = {64, 4096, 65536};

struct Times {
	u32 bytes = 0; // of a message; incast: of all that one sends
	u64 count = 0;
	u64 ideal_ns = 0;
	u64 p50_ns = 0, p99_ns = 0, p999_ns = 0, most_ns = 0;
};

struct Outcome {
	u64 conns = 0;
	u64 elapsed_ns = 0;
	u64 ideal_ns = 0; // for all of it
	u64 bytes = 0;
	std::vector<Times> times;
	Cluster::Totals totals{};
	Network::Counts counts;
	Cluster::Memory memory; // of the engines; all are idle by now
	u64 fingerprint = 0;
	std::string broken; // which rule was

	[[nodiscard]] double goodput() const // of the ideal
	{
		return elapsed_ns ? static_cast<double>(ideal_ns) / static_cast<double>(elapsed_ns) : 0;
	}
	[[nodiscard]] double acks_per_message() const
	{
		return totals.messages ? static_cast<double>(totals.acks_explicit + totals.acks_credit) /
				static_cast<double>(totals.messages)
				       : 0;
	}
	// Bytes of the engine for a peer with which there is nothing to do.
	[[nodiscard]] double idle_bytes() const
	{
		return each(memory.now);
	}
	// ... and on average over all peers, when most of them were busy.
	[[nodiscard]] double peak_bytes() const
	{
		return each(memory.most);
	}

private:
	[[nodiscard]] double each(u64 bytes) const
	{
		return conns ? static_cast<double>(bytes) / static_cast<double>(conns) : 0;
	}
};

Outcome simulate(const Scenario &scenario, u64 seed);

} // namespace scale
