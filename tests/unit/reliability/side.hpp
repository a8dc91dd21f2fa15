// One end of a connection, with an owner that only writes down what the engine tells it, and headers made by
// hand: for tests that say packet by packet what happens.

#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

extern "C" {
#include "engine.h"
}

constexpr u64 us = 1000;
constexpr u64 ms = 1000 * us;

inline void *cookie_of(uintptr_t id)
{
	return reinterpret_cast<void *>(id);
}

inline uintptr_t id_of(void *cookie)
{
	return reinterpret_cast<uintptr_t>(cookie);
}

// What most tests start from; both directions begin just below the wrap.
inline rel_config config_usual()
{
	rel_config config{};

	config.window_pkts = 64;
	config.credit_pkts = 128;
	config.peer_credit_pkts = 128;
	config.number_start = 0xfffffff0;
	config.peer_number_start = 0xffffff80;
	config.ack_every_pkts = 16;
	config.ack_delay_us = 200;
	config.rto_initial_us = 10000;
	config.rto_min_us = 1000;
	config.rto_max_us = 100000;
	return config;
}

struct Side {
	struct Lost {
		uintptr_t id;
		rel_cause cause;
		bool operator==(const Lost &) const = default;
	};

	rel_conn conn; // the first member, so that the callbacks find the rest
	rel_sent ring[REL_SPAN_MAX];
	u64 now = 1000 * ms;
	uintptr_t next_id = 1;
	std::vector<uintptr_t> acked;
	std::vector<Lost> lost;
	std::vector<uintptr_t> forgotten;

	explicit Side(const rel_config &config = config_usual())
	{
		static const rel_ops ops = {
			[](rel_conn *conn, void *cookie) { of(conn).acked.push_back(id_of(cookie)); },
			[](rel_conn *conn, void *cookie, rel_cause cause) {
				of(conn).lost.push_back({id_of(cookie), cause});
			},
		};
		memset(&conn, 0xa5, sizeof(conn)); // init must not rely on cleared memory
		rel_conn_init(&conn, &config, &ops, now);
		rel_ring_give(&conn, ring);
	}
	Side(const Side &) = delete;
	Side &operator=(const Side &) = delete;

	static Side &of(rel_conn *conn)
	{
		return *reinterpret_cast<Side *>(conn);
	}

	bool can_send(rel_kind kind = REL_RELIABLE)
	{
		return rel_can_send(&conn, kind, now);
	}

	// Sends the next cookie (1, 2, ...) without asking whether that may be done.
	wire_header send(bool more = false, rel_kind kind = REL_RELIABLE)
	{
		wire_header header;

		memset(&header, 0xa5, sizeof(header)); // nor on a cleared header
		rel_send(&conn, kind, cookie_of(next_id++), more, now, &header);
		return header;
	}

	void send_many(int count, bool more = false)
	{
		while (count--)
			send(more);
	}

	// Takes a header in, and commits it if it is new.
	rel_verdict take(const wire_header &header)
	{
		rel_verdict verdict = rel_handle_header(&conn, &header, now);

		if (verdict == REL_NEW)
			rel_commit(&conn, &header, now);
		return verdict;
	}

	bool poll(wire_header &header)
	{
		bool due = rel_control_due(&conn);

		memset(&header, 0xa5, sizeof(header));
		bool polled = rel_poll_control(&conn, now, &header);

		rel_assert(polled == due);
		return polled;
	}

	// Is a control packet due? Takes it if so.
	bool polled()
	{
		wire_header header{};

		return poll(header);
	}

	u64 next_timeout() const
	{
		return rel_next_timeout(&conn);
	}

	// Lets time pass up to the next deadline, and handles it.
	void run_timeout()
	{
		now = next_timeout();
		rel_handle_timeout(&conn, now);
	}

	// A header as the peer would make it that has received everything up to here, and nothing new to say.
	wire_header peer_header(wire_packet_type type, u32 number) const
	{
		wire_header header{};

		header.version = WIRE_VERSION;
		header.type = type;
		header.number = cpu_to_le32(number);
		header.ack = cpu_to_le32(conn.sender.floor);
		header.credit = cpu_to_le32(conn.credit.limit);
		return header;
	}

	// A reliable packet; floor_delta says how much older what its sender waits for is.
	wire_header peer_packet(u32 number, u16 floor_delta = 0) const
	{
		wire_header header = peer_header(WIRE_PACKET_RELIABLE, number);

		header.floor_delta = cpu_to_le16(floor_delta);
		return header;
	}

	// An ACK packet: everything before ack, and ack + 1 + i for each given i.
	wire_header peer_ack(u32 ack, const std::vector<u32> &sacked = {}, u16 delay_us = 0) const
	{
		wire_header header = peer_header(WIRE_PACKET_ACK, 0);

		header.ack = cpu_to_le32(ack);
		for (u32 i : sacked)
			header.sack[i / 64] |= cpu_to_le64(1ull << (i % 64));
		header.ack_delay = cpu_to_le16(delay_us);
		return header;
	}

	// The same if a PROBE has come meanwhile.
	static wire_header answering(wire_header header)
	{
		header.flags |= cpu_to_le16(WIRE_ANSWER);
		return header;
	}

	u32 start() const
	{
		return conn.config.number_start;
	}

	u32 peer_start() const
	{
		return conn.config.peer_number_start;
	}
};

inline bool asks(const wire_header &header)
{
	return le16_to_cpu(header.flags) & WIRE_ACK_REQUEST;
}

inline u32 number_of(const wire_header &header)
{
	return le32_to_cpu(header.number);
}
