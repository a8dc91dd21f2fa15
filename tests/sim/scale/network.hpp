// SPDX-License-Identifier: GPL-2.0-only
//
// A Clos network of the kind that has as much bandwidth in its spine as at its edge. Every packet crosses
// four links (host, leaf, spine, leaf, host), each of which takes it whole before the next. Queues form in
// two places: in the adapter of the sender, which serves its queue pairs in turn and drops nothing; and at
// the port of the last switch, which drops what no longer fits. The spine loses packets at random.

#pragma once

#include "calendar.hpp"
#include "pool.hpp"
#include "random.hpp"

#include <functional>

extern "C" {
#include "rel.h"
}

namespace scale
{

// Preamble, gap, Ethernet with a VLAN tag and FCS, IPv4, UDP, BTH, ICRC: around each packet of ours.
constexpr u32 framing_bytes = 86;
// From the sender's adapter to the queue of the last switch; the last link is the fourth.
constexpr u32 links_before_queue = 3;

struct Wire {
	u32 gbps = 100;
	u32 hop_ns = 1000;
	// At most, from a packet's arrival until its host deals with it. Without, senders whose packets
	// happen to come just after others have left would get all of a full queue (Floyd and Jacobson 1992,
	// on phase effects).
	u32 notice_ns = 1000;
	// A quarter of a switch with 16 MiB for all ports, which buffer management commonly leaves to a
	// single busy one.
	u32 queue_kib = 4096;
	u32 lost_of_million = 100;

	// Rounded up to whole nanoseconds.
	[[nodiscard]] u64 time_ns(u64 bytes) const
	{
		return (bytes * 8 + gbps - 1) / gbps;
	}
};

// What the events of the calendar are about.
enum EventKind : u32 {
	event_adapter, // a host: its adapter is free again
	event_queue,   // a packet: it comes to the last switch
	event_arrival, // a packet: it comes to its host
	event_timer,   // a connection
	event_work,    // whatever the workload planned
};

struct Packet {
	wire_header header;
	u32 to;      // connection
	u32 host;    // of that
	u32 bytes;   // without framing
	u32 message; // none: no frames
	u32 serial;  // of the message: whether it is still that one
	u32 segment;
	u32 next;
};

class Network
{
public:
	struct Counts {
		u64 packets = 0; // sent
		u64 lost = 0;    // by the spine
		u64 dropped = 0; // for want of room
		u64 queue_peak_ns = 0;
	};

	Network(const Wire &wire, u32 hosts, Calendar &calendar, u64 seed) :
		wire_(wire), calendar_(calendar), random_(seed), hosts_(hosts),
		queue_ns_(wire.time_ns(wire.queue_kib * 1024ull))
	{
	}

	// A queue pair of its own for a connection, which are numbered from 0.
	void queue_pair_add()
	{
		queue_pairs_.emplace_back();
	}

	// Takes the packet; @from is the connection that sends it, on @host.
	void post(u32 host, u32 from, u32 packet, u64 now);
	void adapter_free(u32 host, u64 now);
	void queue(u32 packet, u64 now);

	Pool<Packet> packets;
	Counts counts;

private:
	struct QueuePair {
		List posted;
		u32 next = none;    // of those of the host that have something posted
		u64 queue_ns = 0;   // when its last packet comes to the last switch
		u64 arrival_ns = 0; // when the last packet to it is dealt with
	};
	struct Host {
		u32 first = none, last = none; // queue pairs that have something posted
		bool planned = false;          // the adapter is busy, and there is more to send
		u64 adapter_free_ns = 0;
		u64 port_free_ns = 0; // of the switch, towards the host
	};

	Wire wire_;
	Calendar &calendar_;
	Random random_;
	std::vector<Host> hosts_;
	std::vector<QueuePair> queue_pairs_;
	u64 queue_ns_;

	void transmit(Host &host, u32 packet, u64 now);
};

} // namespace scale
