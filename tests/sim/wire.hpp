// SPDX-License-Identifier: GPL-2.0-only
//
// The network between the nodes: what happens to a packet on its way, and which nodes can reach each other.

#pragma once

#include "sim.h"

#include <memory>
#include <vector>

namespace sim
{

// What is known of a packet beside its bytes: the checkers' knowledge, which no code under test sees.
struct Origin {
	u64 id = 0;
	u32 node = 0;
	u32 epoch = 0; // of the node
	u64 instance = 0;
	u32 token = 0; // by which the sender names this life of its path
	u32 to = 0;    // ... and that of the receiver, as far as the sender knew
	u32 accepted = 0;
	bool known = false;
};

struct Packet {
	u32 from_node, from_qp;
	u32 to_node, to_qp;
	std::vector<u8> bytes;
	std::shared_ptr<Origin> origin;
	bool damaged = false;
	bool written = false; // an RDMA write, with an immediate value
	u64 address = 0;
	u32 key = 0, immediate = 0;
};

// What the network did to a packet: nothing, one, or more arrivals.
struct Fate {
	std::vector<u64> arrivals; // delays, ns
	bool damaged = false;
};

class Wire
{
public:
	// Draws the fate of a packet of so many bytes. `carries`: it has frames. `faithful`: of an adapter
	// that repeats what is lost, so that loss is all that can happen.
	Fate send(u32 from, u32 to, std::size_t bytes, bool carries, bool faithful);

	[[nodiscard]] bool reachable(u32 from, u32 to) const;
	// One way only.
	void cut(u32 from, u32 to, u64 until);
	void down(u32 node, u64 until);
	void dead(u32 node, bool dead);
	// The next so many packets with something in them that a node sends.
	void lose(u32 node, u32 count);
	void heal();

private:
	bool lost(u32 from, bool carries);

	u64 cut_until_[SIM_NODES_MAX][SIM_NODES_MAX] = {};
	u64 down_until_[SIM_NODES_MAX] = {};
	bool dead_[SIM_NODES_MAX] = {};
	u64 out_busy_[SIM_NODES_MAX] = {};
	u64 in_busy_[SIM_NODES_MAX] = {};
	u64 burst_left_[SIM_NODES_MAX] = {};
	u32 lose_[SIM_NODES_MAX] = {};
};

extern Wire wire;

} // namespace sim
