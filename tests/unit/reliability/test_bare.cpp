// Packets without a header, of whose number only some bits travel.

#include <gtest/gtest.h>

#include "side.hpp"

namespace
{

constexpr u32 mask = (1u << REL_BARE_BITS) - 1;
constexpr u32 half = (mask + 1) / 2;

// Two ends that agree on where numbers begin.
struct Both {
	static rel_config config(u32 start, u32 peer_start, bool native)
	{
		rel_config config = config_usual();

		config.number_start = start;
		config.peer_number_start = peer_start;
		config.native = native;
		return config;
	}

	explicit Both(u32 start = 0xfffffff0, bool native = false) :
		left(config(start, 5, native)), right(config(5, start, native)), since(start)
	{
	}

	u32 send(rel_kind kind = REL_RELIABLE, bool more = true)
	{
		EXPECT_TRUE(left.can_send(kind));
		EXPECT_TRUE(rel_can_send_bare(&left.conn));
		ask = true; // the engine must not rely on what it was
		return rel_send_bare(&left.conn, kind, cookie_of(left.next_id++), more, left.now, &ask);
	}

	rel_verdict take(u32 number, rel_kind kind = REL_RELIABLE)
	{
		memset(&header, 0xa5, sizeof(header)); // nor here
		rel_verdict verdict =
			rel_handle_bare(&right.conn, kind, number & mask, since, ask, right.now, &header);

		if (verdict == REL_NEW) {
			EXPECT_EQ(number_of(header), number);
			rel_commit(&right.conn, &header, right.now);
		}
		return verdict;
	}

	// The receiver's ACK.
	void answer()
	{
		wire_header ack{};

		right.conn.receiver.ack_now = true;
		EXPECT_TRUE(right.poll(ack));
		EXPECT_EQ(left.take(ack), REL_NOTHING);
	}

	Side left, right;
	u32 since;
	bool ask = false;
	wire_header header{};
};

} // namespace

TEST(bare, is_numbered_and_acknowledged_like_any_packet)
{
	Both both;

	for (uintptr_t i = 1; i <= 40; i++)
		EXPECT_EQ(both.take(both.send()), REL_NEW);
	EXPECT_EQ(both.right.conn.receiver.cum, both.left.conn.sender.next);
	both.left.now += 50 * us;
	both.answer();
	EXPECT_EQ(both.left.acked.size(), 40u);
	EXPECT_EQ(rel_in_flight(&both.left.conn), 0u);
	EXPECT_GT(both.left.conn.rtt.srtt_ns, 0u);
}

TEST(bare, takes_no_ack_along)
{
	Both both;

	EXPECT_EQ(both.left.take(both.left.peer_packet(both.left.peer_start())), REL_NEW);
	ASSERT_EQ(both.left.conn.receiver.pending, 1u);
	both.send();
	EXPECT_EQ(both.left.conn.receiver.pending, 1u);
	EXPECT_EQ(both.left.conn.stats.acks_piggybacked, 0u);
	both.left.send();
	EXPECT_EQ(both.left.conn.receiver.pending, 0u);
}

TEST(bare, asks_for_an_ack_like_any_packet)
{
	Both both;
	bool asked = false;

	for (int i = 0; i < 32; i++) {
		u32 number = both.send(REL_RELIABLE, i < 31);

		asked |= both.ask;
		EXPECT_EQ(both.take(number), REL_NEW);
		EXPECT_GE(rel_control_due(&both.right.conn), both.ask);
	}
	EXPECT_TRUE(asked);
}

TEST(bare, is_acknowledged_at_once_only_if_it_asks)
{
	for (bool ask : {false, true}) {
		Both both;
		u32 number = both.send();

		both.ask = ask;
		EXPECT_EQ(both.take(number), REL_NEW);
		EXPECT_EQ(rel_control_due(&both.right.conn), ask);
	}
}

TEST(bare, is_a_sign_of_life)
{
	Both both;

	both.right.send();
	both.right.now += 5 * ms;
	EXPECT_EQ(rel_silence_ns(&both.right.conn, both.right.now), 5 * ms);
	EXPECT_EQ(both.take(both.send()), REL_NEW);
	both.right.now += 3 * ms;
	EXPECT_EQ(rel_silence_ns(&both.right.conn, both.right.now), 3 * ms);
}

TEST(bare, number_is_found_wherever_it_wraps)
{
	for (u32 start : {0u, 0xffffff80u, mask - 70, (mask + 1) / 2 - 70, 5 * (mask + 1) - 70}) {
		Both both(start);

		for (int i = 0; i < 300; i++) {
			EXPECT_EQ(both.take(both.send()), REL_NEW);
			if (i % 50 == 49)
				both.answer();
		}
	}
}

TEST(bare, reordered_and_repeated)
{
	Both both;
	u32 number[60];

	for (u32 &n : number)
		n = both.send();
	for (int i = 59; i >= 0; i--)
		EXPECT_EQ(both.take(number[i]), REL_NEW);
	for (u32 n : number)
		EXPECT_EQ(both.take(n), REL_DUPLICATE);
	both.answer();
	EXPECT_EQ(both.left.acked.size(), 60u);
}

TEST(bare, copy_is_told_from_new_until_so_many_have_come)
{
	Both both;
	u32 old = both.send(), count = 1;

	EXPECT_EQ(both.take(old), REL_NEW);
	for (;; count++) {
		rel_verdict verdict = both.take(old);

		if (verdict != REL_DUPLICATE)
			break;
		u32 number = both.send();

		both.since = number;
		EXPECT_EQ(both.take(number), REL_NEW);
		both.since = old;
		if (count % 32 == 0)
			both.answer();
		ASSERT_LT(count, 2 * mask);
	}
	EXPECT_EQ(count - 1, half - 256) << "so many may have come, says the protocol";
	EXPECT_EQ(both.take(old), REL_DROP);
	// What was announced later is not touched by that.
	u32 number = both.send();

	both.since = number;
	EXPECT_EQ(both.take(number), REL_NEW);
}

// Even if its number is still awaited.
TEST(bare, sent_before_there_can_have_been_any_is_dropped)
{
	Both both;
	u32 missing = both.send();

	EXPECT_EQ(both.take(both.send()), REL_NEW);
	both.since = rel_received(&both.right.conn, REL_RELIABLE);
	EXPECT_EQ(both.take(missing), REL_DROP);
	EXPECT_EQ(both.right.conn.stats.outside_window, 1u);
	EXPECT_EQ(both.take(both.send()), REL_NEW);
	EXPECT_EQ(both.right.conn.receiver.cum, missing);
}

// Only who has very many credits can be that far ahead; an old packet taken for a new one would be worse.
TEST(bare, half_a_turn_away_is_old)
{
	Both both(0xfffffff0, true);

	rel_credit_share(&both.right.conn, 32767);
	both.answer();
	EXPECT_EQ(both.take(both.since + half, REL_UNRELIABLE), REL_DROP);
	EXPECT_EQ(both.take(both.since + half - 1, REL_UNRELIABLE), REL_NEW);
}

TEST(bare, goes_only_while_the_other_side_knows_what_is_not_awaited)
{
	// The first one is lost, and found to be; nothing tells the other side. Headers that were sent before
	// it was found do not, either.
	for (bool headers : {false, true}) {
		Both both;
		u32 first = headers ? number_of(both.left.send(true)) : both.send();

		for (int i = 0; i < 60; i++)
			EXPECT_EQ(headers ? both.right.take(both.left.send(true)) : both.take(both.send()),
				REL_NEW);
		both.left.now += 1 * ms;
		both.answer();
		both.left.now += 10 * ms;
		rel_handle_timeout(&both.left.conn, both.left.now);
		both.answer();
		ASSERT_EQ(both.left.lost.size(), 1u);
		EXPECT_EQ(both.right.conn.receiver.cum, first);
		while (rel_can_send_bare(&both.left.conn)) {
			EXPECT_EQ(both.take(both.send()), REL_NEW);
			both.answer();
			ASSERT_LT(both.left.conn.sender.next - first, 1000u);
		}
		EXPECT_EQ(both.left.conn.sender.next - first, 96u) << "so far, says the protocol";
		// A header does.
		wire_header header = both.left.send();

		EXPECT_EQ(both.right.take(header), REL_NEW);
		EXPECT_TRUE(rel_can_send_bare(&both.left.conn));
		both.answer();
		EXPECT_EQ(both.take(both.send()), REL_NEW);
		EXPECT_EQ(both.right.conn.receiver.cum, both.left.conn.sender.next);
	}
}

TEST(bare, native_data_is_counted_and_credited)
{
	Both both(0xffffff00, true);

	for (int i = 0; i < 100; i++) {
		u32 number = both.send(REL_UNRELIABLE);

		EXPECT_FALSE(both.ask);
		if (i % 10 == 5)
			continue;
		EXPECT_EQ(both.take(number, REL_UNRELIABLE), REL_NEW);
		EXPECT_EQ(both.take(number, REL_UNRELIABLE), REL_DUPLICATE);
	}
	EXPECT_EQ(both.right.conn.stats.unreliable_missing, 10u);
	EXPECT_EQ(both.right.conn.credit.base, both.left.conn.sender.unreliable_next);
}
