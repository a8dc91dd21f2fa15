#include <gtest/gtest.h>

#include "side.hpp"

namespace
{

// What the next ACK would say, without sending it.
u32 cum(const Side &side)
{
	return side.conn.receiver.cum;
}

bool seen(const Side &side, u32 number)
{
	u32 above = number - cum(side) - 1;

	return above < 128 && rel_bits_test(&side.conn.receiver.seen, above);
}

rel_config config_native()
{
	rel_config config = config_usual();

	config.native = true;
	return config;
}

} // namespace

TEST(rel_handle_header, in_order_across_the_wrap)
{
	Side side;
	u32 first = side.peer_start();

	for (u32 i = 0; i < 300; i++) {
		side.polled(); // raises the credit
		EXPECT_EQ(side.take(side.peer_packet(first + i)), REL_NEW);
		EXPECT_EQ(cum(side), first + i + 1);
		EXPECT_FALSE(rel_bits_any(side.conn.receiver.seen));
	}
	EXPECT_EQ(side.conn.stats.duplicates, 0u);
	EXPECT_EQ(side.conn.stats.outside_window, 0u);
}

TEST(rel_handle_header, new_packet_changes_nothing_until_committed)
{
	Side side;
	wire_header header = side.peer_packet(side.peer_start());
	u32 credit = side.conn.credit.base;

	for (int i = 0; i < 3; i++) {
		EXPECT_EQ(rel_handle_header(&side.conn, &header, side.now), REL_NEW);
		EXPECT_EQ(cum(side), side.peer_start());
		EXPECT_EQ(side.conn.credit.base, credit);
		EXPECT_FALSE(side.polled());
	}
	EXPECT_EQ(side.take(header), REL_NEW);
	EXPECT_EQ(side.take(header), REL_DUPLICATE);
}

TEST(rel_handle_header, duplicate_below_and_above_the_cumulative_number)
{
	Side side;
	u32 n = side.peer_start();

	side.take(side.peer_packet(n));
	side.take(side.peer_packet(n + 2, 2));
	EXPECT_TRUE(side.polled());
	EXPECT_EQ(side.take(side.peer_packet(n)), REL_DUPLICATE);
	EXPECT_TRUE(side.polled()) << "acknowledged again at once";
	EXPECT_EQ(side.take(side.peer_packet(n + 2, 2)), REL_DUPLICATE);
	EXPECT_TRUE(side.polled());
	EXPECT_EQ(side.conn.stats.duplicates, 2u);
}

TEST(rel_handle_header, late_packet_is_not_a_duplicate)
{
	Side side;
	u32 n = side.peer_start();

	for (u32 number : {n + 5, n + 3, n + 4, n + 1})
		EXPECT_EQ(side.take(side.peer_packet(number, number - n)), REL_NEW);
	EXPECT_EQ(cum(side), n);
	EXPECT_EQ(side.take(side.peer_packet(n)), REL_NEW);
	EXPECT_EQ(cum(side), n + 2);
	EXPECT_FALSE(seen(side, n + 2));
	for (u32 number : {n + 3, n + 4, n + 5})
		EXPECT_TRUE(seen(side, number));
	EXPECT_EQ(side.take(side.peer_packet(n + 2, 2)), REL_NEW);
	EXPECT_EQ(cum(side), n + 6);
	EXPECT_FALSE(rel_bits_any(side.conn.receiver.seen));
	EXPECT_EQ(side.conn.stats.duplicates, 0u);
}

TEST(rel_handle_header, floor_steps_over_holes)
{
	Side side;
	u32 n = side.peer_start();

	side.take(side.peer_packet(n));
	side.take(side.peer_packet(n + 3, 2));
	side.take(side.peer_packet(n + 6, 5));
	EXPECT_EQ(cum(side), n + 1);
	side.take(side.peer_packet(n + 7, 5)); // floor n + 2: n + 1 is given up
	EXPECT_EQ(cum(side), n + 2);
	EXPECT_TRUE(seen(side, n + 3));
	EXPECT_TRUE(seen(side, n + 6));
	side.take(side.peer_packet(n + 8, 5)); // floor n + 3, which has come
	EXPECT_EQ(cum(side), n + 4);
	EXPECT_TRUE(seen(side, n + 6));
	EXPECT_TRUE(seen(side, n + 8));
	side.take(side.peer_packet(n + 9, 4)); // floor n + 5, which has not
	EXPECT_EQ(cum(side), n + 5);
	EXPECT_EQ(side.take(side.peer_packet(n + 4, 0)), REL_DUPLICATE) << "given up by its sender";
	side.take(side.peer_packet(n + 10, 4)); // floor n + 6: everything from there on has come
	EXPECT_EQ(cum(side), n + 11);
	EXPECT_FALSE(rel_bits_any(side.conn.receiver.seen));
}

TEST(rel_handle_header, floor_beyond_everything_seen)
{
	Side side;
	u32 n = side.peer_start();

	side.take(side.peer_packet(n + 1, 1));
	side.take(side.peer_packet(n + 127, 127));
	side.polled();
	side.take(side.peer_packet(n + 250, 2)); // all between was lost, and is sent again
	EXPECT_EQ(cum(side), n + 248);
	EXPECT_TRUE(seen(side, n + 250));
	side.take(side.peer_packet(n + 251, 0));
	EXPECT_EQ(cum(side), n + 252);
}

TEST(rel_handle_header, floor_up_to_the_edge_of_the_bitmap)
{
	for (u32 by : {1u, 62u, 63u, 64u, 65u, 125u, 126u, 127u, 128u}) {
		Side side;
		u32 n = side.peer_start();

		side.take(side.peer_packet(n + 63, 63));
		side.take(side.peer_packet(n + 127, 127));
		side.polled();
		EXPECT_EQ(side.take(side.peer_packet(n + 129, 129 - by)), REL_NEW);
		// Numbers 63, 127 and 129 have come; the first that has not, from the floor on:
		u32 expected = by == 63 || by == 127 ? by + 1 : by;

		EXPECT_EQ(cum(side), n + expected) << by;
		EXPECT_EQ(seen(side, n + 63), expected < 63) << by;
		EXPECT_EQ(seen(side, n + 127), expected < 127) << by;
		EXPECT_TRUE(seen(side, n + 129)) << by;
	}
}

TEST(rel_handle_header, floor_at_the_very_last_bit)
{
	Side side;
	u32 n = side.peer_start();

	side.take(side.peer_packet(n + 1, 1));
	side.polled();
	EXPECT_EQ(side.take(side.peer_packet(n + 128, 128)), REL_NEW); // one more than an honest peer sends
	side.polled();
	side.take(side.peer_packet(n + 130, 2));
	EXPECT_EQ(cum(side), n + 129);
}

TEST(rel_handle_header, nonsensical_floor)
{
	Side side;
	u32 n = side.peer_start();

	EXPECT_EQ(side.take(side.peer_packet(n, REL_SPAN_MAX + 1)), REL_DROP);
	EXPECT_EQ(side.take(side.peer_packet(n, 0xffff)), REL_DROP);
	EXPECT_EQ(side.conn.stats.outside_window, 2u);
	EXPECT_EQ(cum(side), n);
	EXPECT_EQ(side.take(side.peer_packet(n, REL_SPAN_MAX)), REL_NEW);
}

TEST(rel_handle_header, beyond_the_credit_that_was_granted)
{
	Side side;
	u32 n = side.peer_start();

	EXPECT_EQ(side.take(side.peer_packet(n + 128)), REL_DROP);
	EXPECT_EQ(side.take(side.peer_packet(n + 0x7fffffff)), REL_DROP);
	EXPECT_EQ(side.conn.stats.outside_window, 2u);
	EXPECT_EQ(side.take(side.peer_packet(n + 127)), REL_NEW);
	EXPECT_EQ(side.take(side.peer_packet(n + 128)), REL_DROP) << "free again, but not told yet";
	EXPECT_TRUE(side.polled());
	EXPECT_EQ(side.take(side.peer_packet(n + 128)), REL_NEW);
}

TEST(rel_handle_header, unknown_type)
{
	Side side;

	EXPECT_EQ(side.take(side.peer_header(static_cast<wire_packet_type>(9), 0)), REL_DROP);
}

TEST(rel_handle_header, control_packets)
{
	Side side;
	u32 n = side.peer_start();
	wire_header ack = side.peer_header(WIRE_PACKET_ACK, n);

	EXPECT_EQ(side.take(ack), REL_NOTHING);
	EXPECT_FALSE(side.polled()) << "ACKs are not acknowledged";
	ack.flags = cpu_to_le16(WIRE_ACK_REQUEST);
	EXPECT_EQ(side.take(ack), REL_NOTHING);
	EXPECT_TRUE(side.polled()) << "but requests are answered";
	EXPECT_EQ(side.take(side.peer_header(WIRE_PACKET_PROBE, n)), REL_NOTHING);
	EXPECT_TRUE(side.polled());
	EXPECT_FALSE(side.polled()) << "once";
	EXPECT_EQ(side.conn.stats.acks_received, 3u);
}

// What leaves first after a PROBE has come says so, whatever it is, and nothing else does.
TEST(rel_handle_header, the_answer_to_a_probe)
{
	Side side;
	wire_header request = side.peer_header(WIRE_PACKET_ACK, side.peer_start());

	const auto answers = [](const wire_header &header) {
		return le16_to_cpu(header.flags) & WIRE_ANSWER;
	};
	const auto probed = [&] {
		side.take(side.peer_header(WIRE_PACKET_PROBE, side.peer_start()));
	};

	request.flags = cpu_to_le16(WIRE_ACK_REQUEST);
	for (int turn = 0; turn < 2; turn++) {
		wire_header header{};

		EXPECT_FALSE(answers(side.send()));
		side.take(request);
		ASSERT_TRUE(side.poll(header));
		EXPECT_FALSE(answers(header));
		probed();
		ASSERT_TRUE(side.poll(header));
		EXPECT_TRUE(answers(header));
		EXPECT_FALSE(answers(side.send()));
		probed();
		EXPECT_TRUE(answers(side.send()));
		EXPECT_FALSE(answers(side.send()));
		EXPECT_FALSE(side.polled()) << "it was the answer";
	}
}

TEST(rel_handle_header, unreliable_only_in_native_mode)
{
	Side side;

	EXPECT_EQ(side.take(side.peer_header(WIRE_PACKET_UNRELIABLE, side.peer_start())), REL_DROP);
	EXPECT_EQ(side.conn.stats.outside_window, 1u);
}

TEST(rel_handle_header, native_control_needs_no_credit)
{
	Side side(config_native());
	u32 n = side.peer_start();

	for (u32 i = 0; i < 1000; i++)
		EXPECT_EQ(side.take(side.peer_packet(n + i)), REL_NEW);
	EXPECT_EQ(side.take(side.peer_packet(n + 1000000, 3)), REL_NEW) << "all between was lost";
	EXPECT_EQ(cum(side), n + 1000000 - 3);
}

TEST(rel_commit, twice_is_harmless)
{
	Side side;
	u32 n = side.peer_start();

	for (u32 number : {n, n + 2}) {
		wire_header header = side.peer_packet(number, number - n);

		EXPECT_EQ(side.take(header), REL_NEW);
		u32 pending = side.conn.receiver.pending;

		rel_commit(&side.conn, &header, side.now);
		EXPECT_EQ(cum(side), n + 1);
		EXPECT_EQ(side.conn.receiver.pending, pending);
	}
}

TEST(rel_commit, of_packets_that_were_classified_together)
{
	Side side;
	u32 n = side.peer_start();
	wire_header first = side.peer_packet(n), second = side.peer_packet(n + 1, 1);

	EXPECT_EQ(rel_handle_header(&side.conn, &first, side.now), REL_NEW);
	EXPECT_EQ(rel_handle_header(&side.conn, &second, side.now), REL_NEW);
	rel_commit(&side.conn, &second, side.now);
	rel_commit(&side.conn, &first, side.now);
	EXPECT_EQ(cum(side), n + 2);
}

TEST(rel_commit, unreliable_counts_what_is_missing)
{
	Side side(config_native());
	u32 n = side.peer_start();
	auto packet = [&](u32 number) {
		return side.peer_header(WIRE_PACKET_UNRELIABLE, number);
	};

	EXPECT_EQ(side.take(packet(n)), REL_NEW);
	EXPECT_EQ(side.take(packet(n)), REL_DUPLICATE);
	EXPECT_EQ(side.conn.stats.unreliable_missing, 0u);
	EXPECT_EQ(side.take(packet(n + 4)), REL_NEW);
	EXPECT_EQ(side.conn.stats.unreliable_missing, 3u);
	EXPECT_EQ(side.take(packet(n + 2)), REL_NEW) << "UD may reorder";
	EXPECT_EQ(side.conn.stats.unreliable_missing, 2u);
	EXPECT_EQ(side.take(packet(n + 2)), REL_DUPLICATE);
	EXPECT_EQ(side.take(packet(n + 4)), REL_DUPLICATE);
	EXPECT_EQ(side.take(packet(n - 1)), REL_DUPLICATE) << "before the first";
	EXPECT_EQ(side.conn.stats.duplicates, 4u);
	EXPECT_EQ(cum(side), n) << "the other space is untouched";
	EXPECT_EQ(side.next_timeout(), REL_TIME_NEVER) << "nothing to acknowledge";
}

TEST(rel_commit, unreliable_older_than_is_remembered)
{
	Side side(config_native());
	u32 n = side.peer_start();
	auto packet = [&](u32 number) {
		return side.peer_header(WIRE_PACKET_UNRELIABLE, number);
	};

	EXPECT_EQ(side.take(packet(n + 127)), REL_NEW);
	side.polled();
	EXPECT_EQ(side.take(packet(n + 129)), REL_NEW);
	EXPECT_EQ(side.conn.stats.unreliable_missing, 128u);
	EXPECT_EQ(side.take(packet(n + 1)), REL_DUPLICATE) << "129 - 1 = 128 before the newest";
	EXPECT_EQ(side.take(packet(n + 2)), REL_NEW);
	EXPECT_EQ(side.conn.stats.unreliable_missing, 127u);
	const wire_header old = packet(n + 1);
	rel_commit(&side.conn, &old, side.now);
	EXPECT_EQ(side.conn.stats.unreliable_missing, 127u) << "nor is that remembered";
}

TEST(rel_commit, unreliable_beyond_the_credit_that_was_granted)
{
	Side side(config_native());
	u32 n = side.peer_start();

	EXPECT_EQ(side.take(side.peer_header(WIRE_PACKET_UNRELIABLE, n + 128)), REL_DROP);
	EXPECT_EQ(side.take(side.peer_header(WIRE_PACKET_UNRELIABLE, n + 127)), REL_NEW);
}
