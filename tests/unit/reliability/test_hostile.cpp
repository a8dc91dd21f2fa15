// A peer that knows the secret and sends headers that no honest one would: whatever they say, nothing breaks,
// no cookie is lost or given back twice, and the bounds hold. (ASan and UBSan watch.)

#include <gtest/gtest.h>

#include "link.hpp"

namespace
{

// Numbers near to those that mean something, and far away.
u32 number_drawn(Random &random, u32 near)
{
	switch (random.upto(5)) {
	case 0: return near + static_cast<u32>(random.upto(4)) - 2;
	case 1: return near + static_cast<u32>(random.upto(300)) - 150;
	case 2: return near + 0x80000000u + static_cast<u32>(random.upto(400)) - 200;
	case 3: return near + 128 + static_cast<u32>(random.upto(4)) - 2;
	case 4: return near;
	default: return static_cast<u32>(random.next());
	}
}

wire_header header_drawn(Random &random, const Side &side)
{
	wire_header header{};
	const rel_conn &conn = side.conn;

	header.type = random.between(0, 5);
	header.number = cpu_to_le32(number_drawn(
		random, random.chance(500000) ? conn.receiver.cum : conn.receiver.unreliable_end));
	header.ack = cpu_to_le32(
		number_drawn(random, random.chance(500000) ? conn.sender.floor : conn.sender.next));
	for (auto &word : header.sack)
		word = random.chance(500000) ? 0 : cpu_to_le64(random.next() & random.next() & random.next());
	header.credit = cpu_to_le32(number_drawn(random, conn.credit.limit));
	header.ack_delay = cpu_to_le16(random.next());
	header.floor_delta = cpu_to_le16(random.chance(800000) ? random.upto(130) : random.next());
	header.flags = cpu_to_le16(random.next() & WIRE_ACK_REQUEST);
	return header;
}

void attack(u64 seed, bool native)
{
	Random random(seed);
	rel_config config = config_usual();

	config.native = native;
	config.window_pkts = random.between(1, 64);
	config.credit_pkts = random.between(1, 200);
	config.peer_credit_pkts = random.between(0, 200);
	Side side(config);
	wire_header header{};

	for (int i = 0; i < 2000; i++) {
		switch (random.upto(6)) {
		case 0:
			while (side.can_send() && !random.chance(200000))
				side.send(random.chance(500000));
			break;
		case 1:
			if (native && side.can_send(REL_UNRELIABLE)) {
				rel_send(&side.conn, REL_UNRELIABLE, nullptr, false, side.now, &header);
			}
			break;
		case 2:
			side.now += random.upto(random.chance(100000) ? 10000 * ms : 200 * us);
			rel_handle_timeout(&side.conn, side.now);
			break;
		case 3:
			for (int controls = 0; side.poll(header); controls++)
				require(controls < 2, "control packets come to an end");
			break;
		case 4: {
			const u32 low = static_cast<u32>(random.upto(1u << REL_BARE_BITS));
			const u32 end = side.conn.receiver.end;
			const u32 since = random.chance(500000) ? end - static_cast<u32>(random.upto(200))
								: static_cast<u32>(random.upto(1ull << 32));
			const rel_kind kind = native && random.chance(500000) ? REL_UNRELIABLE : REL_RELIABLE;
			const rel_verdict verdict = rel_handle_bare(&side.conn, kind,
				random.chance(500000)
					? (end + static_cast<u32>(random.upto(9)) - 4) % (1u << REL_BARE_BITS)
					: low,
				since, random.chance(300000), side.now, &header);

			require(verdict != REL_NOTHING, "a packet without a header carries something");
			if (verdict == REL_NEW)
				rel_commit(&side.conn, &header, side.now);
			break;
		}
		default: {
			header = header_drawn(random, side);
			rel_verdict verdict = rel_handle_header(&side.conn, &header, side.now);

			if (verdict == REL_NEW && random.chance(900000))
				rel_commit(&side.conn, &header, side.now);
			if (random.chance(50000))
				rel_commit(&side.conn, &header, side.now); // a confused owner
			break;
		}
		}
		const rel_sender &sender = side.conn.sender;

		require(sender.in_flight <= config.window_pkts, "the window is kept");
		require(sender.next - sender.floor <= REL_SPAN_MAX, "the span is kept");
		require(side.conn.receiver.pending < 10000, "pending is bounded");
		require(rel_silence_ns(&side.conn, side.now) <= side.now, "silence is a time");
	}
	rel_conn_drain(&side.conn,
		[](rel_conn *conn, void *cookie) { Side::of(conn).forgotten.push_back(id_of(cookie)); });

	std::set<uintptr_t> back;

	for (uintptr_t id : side.acked)
		require(back.insert(id).second, "acknowledged once");
	for (const Side::Lost &lost : side.lost)
		require(back.insert(lost.id).second, "lost once");
	for (uintptr_t id : side.forgotten)
		require(back.insert(id).second, "forgotten once");
	require(back.size() == side.next_id - 1, "every cookie came back");
}

} // namespace

TEST(hostile, any_headers_in_any_order)
{
	for (u64 seed = 1; seed <= 400; seed++) {
		try {
			attack(seed, seed % 2);
		} catch (const Broken &broken) {
			FAIL() << "seed " << seed << ": " << broken.what();
		}
	}
}

TEST(hostile, packet_from_the_other_half_of_the_numbers)
{
	rel_config config = config_usual();

	config.native = true;
	Side side(config);

	for (u32 off : {0x7fffff00u, 0x7fffffffu, 0x80000000u, 0x80000001u, 0x800000ffu, 0xffffffffu}) {
		for (u16 delta : {0, 1, 127, 128, 129}) {
			side.take(side.peer_packet(side.conn.receiver.cum + off, delta));
			side.polled();
		}
	}
	u32 cum = side.conn.receiver.cum;

	EXPECT_EQ(side.take(side.peer_packet(cum)), REL_NEW) << "still alive";
}

// Without credit nothing else bounds them.
TEST(hostile, number_that_no_peer_can_have_reached)
{
	rel_config config = config_usual();

	config.native = true;
	Side side(config);
	const u32 end = side.conn.receiver.end, bound = 1u << 24;

	for (u32 off : {bound, bound + 1, 0x40000000u, 0x7fffffffu})
		EXPECT_EQ(side.take(side.peer_packet(end + off)), REL_DROP) << off;
	EXPECT_EQ(side.conn.stats.outside_window, 4u);
	EXPECT_EQ(side.take(side.peer_packet(end)), REL_NEW);
	EXPECT_EQ(side.take(side.peer_packet(end + bound)), REL_NEW)
		<< "a peer of whom nothing came for days";
}

TEST(hostile, who_acknowledges_what_was_never_sent_says_nothing)
{
	Side side;
	const u32 n = side.start();
	const u64 begin = side.now;
	wire_header header{};

	side.send();
	std::size_t repeats = 0;
	for (int i = 0; i < 1000; i++) {
		side.now += 30 * ms;
		rel_handle_timeout(&side.conn, side.now);
		for (; repeats < side.lost.size() && side.can_send(); repeats++)
			side.send();
		while (side.polled())
			;
		side.take(Side::answering(side.peer_ack(n + 100)));
		// Nor by what has no header, and so no ACK.
		rel_handle_bare(&side.conn, REL_RELIABLE,
			side.conn.receiver.end & ((1u << REL_BARE_BITS) - 1), side.conn.receiver.end, false,
			side.now, &header);
	}
	EXPECT_EQ(rel_silence_ns(&side.conn, side.now), side.now - begin);
	EXPECT_EQ(rel_debt_ns(&side.conn, side.now), side.now - begin);
	EXPECT_EQ(side.conn.stats.nonsense, 1000u);
	EXPECT_TRUE(side.acked.empty());
	EXPECT_LE(repeats, 1u) << "one tail probe, and not again and again";

	side.take(side.peer_ack(side.conn.sender.next));
	EXPECT_EQ(rel_silence_ns(&side.conn, side.now), 0u) << "it is there again";
	side.send();
	side.now += 1 * ms;
	rel_handle_bare(&side.conn, REL_RELIABLE, side.conn.receiver.end & ((1u << REL_BARE_BITS) - 1),
		side.conn.receiver.end, false, side.now, &header);
	EXPECT_EQ(rel_silence_ns(&side.conn, side.now), 0u) << "also by what has no header";
}

namespace
{

// Two ends without a wire between them: the left one has so much to say, and repeats what is lost of that, if
// it is reliable.
struct Pair {
	Side left, right;
	const rel_kind kind;
	std::size_t fresh = 0, repeated = 0, delivered = 0;

	explicit Pair(const rel_config &config, rel_kind kind = REL_RELIABLE) :
		left(config), right(config), kind(kind)
	{
	}

	static rel_config config(bool native)
	{
		rel_config config = config_usual();

		config.native = native;
		config.peer_number_start = config.number_start;
		return config;
	}

	void run(u64 time_ns)
	{
		for (const u64 end = left.now + time_ns; left.now < end; left.now += 5 * ms) {
			right.now = left.now;
			rel_handle_timeout(&left.conn, left.now);
			rel_handle_timeout(&right.conn, right.now);
			exchange();
		}
	}

	// In the name of the right side, and in that of the left one.
	void forge_credit(u32 limit)
	{
		wire_header forged = left.peer_header(WIRE_PACKET_ACK, 0);

		forged.credit = cpu_to_le32(limit);
		left.take(forged);
	}

	void forge_probe(u32 next)
	{
		right.take(right.peer_header(WIRE_PACKET_PROBE, next));
	}

	u32 next() const
	{
		return rel_next(&left.conn, kind);
	}

private:
	void send()
	{
		delivered += right.take(left.send(false, kind)) == REL_NEW;
	}

	void exchange()
	{
		wire_header header{};

		for (; repeated < left.lost.size() && left.can_send(kind); repeated++)
			send();
		for (; fresh && left.can_send(kind); fresh--)
			send();
		while (left.poll(header))
			right.take(header);
		while (right.poll(header))
			left.take(header);
	}
};

} // namespace

// Somebody else's packet, with a number that the peer has not reached: from then on its own are duplicates,
// and the ACKs are about numbers that it has not sent. It finds that out by itself.
TEST(hostile, peer_of_one_who_was_deceived_gives_him_up)
{
	Pair pair(Pair::config(true));
	Side &left = pair.left;
	const u64 begin = left.now;

	ASSERT_EQ(pair.right.take(pair.right.peer_packet(pair.right.peer_start() + 100000)), REL_NEW);
	pair.fresh = 1;
	pair.run(10000 * ms);
	EXPECT_LE(pair.repeated, 1u) << "who does not answer is asked, and sent nothing else";
	for (int i = 0; i < 10; i++) {
		rel_conn_requeue(&left.conn, left.now);
		pair.run(2000 * ms);
	}
	EXPECT_LE(pair.repeated, 21u) << "once for each queue pair, and a tail probe";
	EXPECT_GE(rel_debt_ns(&left.conn, left.now), left.now - begin - 100 * ms);
	EXPECT_EQ(pair.delivered, 0u);
}

// A limit that was not granted is believed. What is sent by it is dropped; the PROBE for what is lost says
// how far that went, and the receiver grants from there.
TEST(hostile, forged_credit_costs_time_outs)
{
	rel_config config = Pair::config(false);

	config.credit_pkts = config.peer_credit_pkts = 16;
	Pair pair(config);

	pair.forge_credit(pair.next() + 32767);
	pair.fresh = 40000;
	pair.run(1000 * ms);
	EXPECT_GT(pair.right.conn.stats.outside_window, 0u) << "or this test is about something else";
	pair.run(100000 * ms);
	EXPECT_EQ(pair.delivered, 40000u);
	EXPECT_EQ(pair.fresh, 0u);
	EXPECT_EQ(rel_in_flight(&pair.left.conn), 0u);
}

// Native messages are lost, as many as are sent before the credit is used up; and the more, the more often
// somebody does that. Then all arrive again.
TEST(hostile, forged_credits_cost_native_messages)
{
	rel_config config = Pair::config(true);

	config.credit_pkts = config.peer_credit_pkts = 16;
	Pair pair(config, REL_UNRELIABLE);

	for (int i = 0; i < 5; i++) {
		pair.forge_credit(pair.next() + 32767);
		pair.fresh += 30000;
		pair.run(10 * ms);
	}
	EXPECT_LE(pair.delivered, 16u);
	pair.fresh += 32767 - 30000; // what is left of the last one
	pair.run(1000 * ms);
	pair.fresh += 10000;
	pair.delivered = 0;
	pair.run(100000 * ms);
	EXPECT_EQ(pair.fresh, 0u);
	EXPECT_EQ(pair.delivered, 10000u);
}

// The receiver grants more than its peer can believe, who believes what it can.
TEST(hostile, forged_probes_keep_nobody_from_sending)
{
	for (rel_kind kind : {REL_RELIABLE, REL_UNRELIABLE}) {
		rel_config config = Pair::config(kind == REL_UNRELIABLE);

		config.credit_pkts = config.peer_credit_pkts = 16;
		Pair pair(config, kind);

		for (u32 beyond :
			{16u, 17u, 32767u, 32768u, 40000u, 1000000u, 1u << 24, 1u << 30, 1u << 31}) {
			const std::size_t before = pair.delivered;

			pair.forge_probe(pair.next() + beyond);
			pair.forge_probe(pair.next() + 2 * beyond);
			pair.fresh = 1000;
			pair.run(10000 * ms);
			EXPECT_EQ(pair.fresh, 0u) << kind << " " << beyond;
			EXPECT_EQ(pair.delivered - before, 1000u) << kind << " " << beyond;
		}
	}
}
