// SPDX-License-Identifier: GPL-2.0-only
//
// The adapters: queue pairs and completion queues behind the verbs of shim/rdma.h. What they send goes over
// the wire of wire.hpp. Memory is read when a packet leaves and written when one arrives, not when it is
// posted, and nothing is completed before its time, as with a real adapter.

#pragma once

#include "module.h"
#include "sim.h"
#include "wire.hpp"

#include "rdma.h"

#include <functional>

namespace sim
{

// The queue pair's way to RTS, taken by the connection manager.
void adapter_connect(ib_qp *qp, u32 node, u32 remote_qp);

// Some queue pair of a connection (or any) of a running node, or null.
ib_qp *adapter_pick(bool connections_only);
ib_qp *adapter_of(u32 node, ib_qp_type type); // a connection of a node to another one
ib_qp *adapter_datagrams(u32 node);           // the queue pair of datagrams of a running node
void adapter_deafen(ib_qp *qp);
void adapter_move(u32 node); // as if its LID or MAC address had changed
void adapter_break(ib_qp *qp);
void adapter_break_cq(); // some completion queue of datagrams
std::size_t adapter_left();
// From now on a node's adapter keeps what it has sent over connections and datagrams, and may read it again;
// until it is told to let go.
void adapter_hold(u32 node, bool hold);
// From now on a node is not told that something has come; until then.
void adapter_hold_events(u32 node, bool hold);
// What a node has given its adapter to send so far: in how many calls, how many work requests, and of these
// how many that report their completion.
struct Posted {
	u64 calls, requests, signalled;
};
Posted adapter_posted(u32 node);
// Is there anything posted, or registered, by which this memory may be read, or written, later?
bool adapter_may_read(const u8 *memory, u64 bytes);
bool adapter_may_write(const u8 *memory, u64 bytes);

// By whom the packet in a receive buffer was sent; for the checkers.
const Packet *adapter_packet(const void *buffer);

} // namespace sim

extern "C" {
// witness.c: who posts a work request. Return: known
bool sim_origin(void *context, const struct ib_send_wr *wr, u32 *token, u32 *to);
// A path that has a peer has this queue pair (the context that it was made with), or is about to have it.
bool sim_carries(const void *context);
}
