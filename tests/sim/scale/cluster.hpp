// SPDX-License-Identifier: GPL-2.0-only
//
// Hosts with one engine for each peer, and what the module around the engine does with it, in short: messages
// are cut into packets, repeats go first, flows are opened before they are used, and a timer is armed only if
// it is to fire earlier than it would anyhow. A message is delivered when all of it and all before it has
// come.

#pragma once

#include "network.hpp"

#include <deque>
#include <memory>
#include <string>
#include <vector>

namespace scale
{

constexpr u32 packet_bytes_max = 4096;
constexpr u32 header_bytes = sizeof(wire_header) + sizeof(wire_frame);
constexpr u32 segment_bytes = packet_bytes_max - header_bytes;
constexpr u32 segments_max = 64;

enum class Kind : u8 { open, accept, data };

struct Message {
	u32 conn;
	u32 serial;
	u32 bytes;
	u32 sent;  // segments
	u32 acked; // segments
	u32 owner; // what the workload likes to know
	Kind kind;
	bool delivered;
	u64 arrived; // bit for each segment
	u64 submitted_ns;
	u32 next;

	[[nodiscard]] u32 segments() const
	{
		return bytes ? (bytes + segment_bytes - 1) / segment_bytes : 1;
	}

	[[nodiscard]] bool complete() const
	{
		return arrived == ~0ull >> (64 - segments());
	}
};

struct Engine {
	u16 window_pkts = 64;
	u32 target_us = 100;
	bool fixed = false;
	u16 credit_pkts = 64;
};

class Cluster;

// Who decides what is sent.
class Workload
{
public:
	virtual ~Workload() = default;
	virtual void begin(Cluster &cluster) = 0;
	virtual void work(Cluster &cluster, u32 object) = 0;
	// In order, and once.
	virtual void delivered(Cluster &cluster, const Message &message) = 0;
	[[nodiscard]] virtual bool done() const = 0;
};

class Cluster
{
public:
	struct Totals : rel_stats {
		u64 repeats = 0; // packets with frames that were sent again
		u64 in_vain = 0; // packets with frames that brought nothing new
		u64 messages = 0;
	};

	Cluster(const Wire &wire, const Engine &engine, u32 hosts, u64 seed);
	Cluster(const Cluster &) = delete;
	Cluster &operator=(const Cluster &) = delete;

	// One end of a new connection; the other end is the next number.
	u32 connect(u32 host, u32 peer);
	// Both may be called again.
	void open(u32 conn);
	void submit(u32 conn, u32 bytes, u32 owner);
	void plan(u64 at, u32 object);

	// Until the workload is done and all is quiet. Throws Broken.
	void run(Workload &workload, u64 limit_ns);

	// Memory that a connection takes here, about.
	static u64 conn_bytes();

	// Bytes that engines have been given. They have no others: there is nothing in port.h to allocate
	// with.
	struct Memory {
		u64 now = 0;
		u64 most = 0;  // at one moment
		u32 rings = 0; // in use
		u32 rings_most = 0;

		void give(u64 bytes)
		{
			now += bytes;
			most = std::max(most, now);
		}
	};

	[[nodiscard]] const Memory &memory() const
	{
		return memory_;
	}

	[[nodiscard]] Totals totals() const;
	[[nodiscard]] const Network::Counts &counts() const
	{
		return network_.counts;
	}
	[[nodiscard]] u32 conns() const
	{
		return static_cast<u32>(conns_.size());
	}
	[[nodiscard]] u64 fingerprint() const
	{
		return fingerprint_;
	}

	u64 now = 0;
	u64 last_delivery_ns = 0;

private:
	struct Conn {
		rel_conn rel; // the first member, so that the callbacks find the rest
		std::unique_ptr<rel_sent[]> ring;
		Cluster *cluster;
		u32 number;
		u32 host;
		bool opening = false;
		bool opened = false;
		u32 sending = none; // the first message that is not completely sent
		List messages;      // not delivered
		List waiting;       // for the flow to be open
		List repeats;
		u64 timer_ns = REL_TIME_NEVER;
	};
	struct Repeat {
		u32 message;
		u32 segment;
		u32 next;
	};

	static const rel_ops ops;

	Engine engine_;
	Calendar calendar_;
	Network network_;
	Random random_;
	std::deque<Conn> conns_;
	std::vector<std::unique_ptr<rel_sent[]>> rings_; // that nobody uses
	Pool<Message> messages_;
	Pool<Repeat> repeats_;
	Workload *workload_ = nullptr;
	u64 fingerprint_ = 0;
	u32 serial_ = 0;
	Totals totals_{};
	Memory memory_;

	static void acked(rel_conn *rel, void *cookie);
	static void lost(rel_conn *rel, void *cookie, rel_cause cause);

	u32 conn_add(u32 host, u32 number_start, u32 peer_number_start);
	u32 message_add(Conn &conn, Kind kind, u32 bytes, u32 owner);
	void message_queue(Conn &conn, u32 index);
	bool packet_next(Conn &conn, u32 &message, u32 &segment);
	void packet_post(Conn &conn, const wire_header &header, u32 message, u32 segment);
	void ring_give(Conn &conn);
	void ring_drop(Conn &conn);
	void drive(Conn &conn);
	void receive(u32 packet);
	void segment_take(u32 message, u32 segment);
	void deliver(Conn &sender);
	void rest_check();
};

} // namespace scale
