#include <gtest/gtest.h>

#include "link.hpp"

namespace
{

rel_config config_credit(bool native, u16 ours, u16 peers)
{
	rel_config config = config_usual();

	config.native = native;
	config.credit_pkts = ours;
	config.peer_credit_pkts = peers;
	return config;
}

wire_header grant(const Side &side, u32 limit)
{
	wire_header header = side.peer_header(WIRE_PACKET_ACK, side.peer_start());

	header.credit = cpu_to_le32(limit);
	return header;
}

} // namespace

TEST(rel_credit_handle, only_ever_rises)
{
	Side side(config_credit(true, 8, 4));
	u32 n = side.start();

	EXPECT_EQ(side.conn.credit.limit, n + 4);
	side.take(grant(side, n + 20));
	EXPECT_EQ(side.conn.credit.limit, n + 20) << "across the wrap";
	side.take(grant(side, n + 10));
	side.take(grant(side, n - 100));
	side.take(grant(side, n + 20 + 0x80000000));
	EXPECT_EQ(side.conn.credit.limit, n + 20);
	EXPECT_EQ(side.conn.stats.nonsense, 0u);
}

// Somebody may have moved the other side's idea of where this one is; and then that is all it can grant.
TEST(rel_credit_handle, more_than_can_be_is_the_most_that_can_be)
{
	for (u32 more : {32767u, 32768u, 0x1000000u, 0x7fffffffu}) {
		Side side(config_credit(true, 8, 4));
		u32 n = side.start();

		side.take(grant(side, n + more));
		EXPECT_EQ(side.conn.credit.limit, n + 32767);
		EXPECT_EQ(side.conn.stats.nonsense, more > 32767);
		side.send(false, REL_UNRELIABLE);
		side.take(grant(side, n + more + 1));
		EXPECT_EQ(side.conn.credit.limit, n + 32768);
	}
}

TEST(rel_credit_handle, more_than_can_be_lets_a_blocked_sender_go_on)
{
	Side side(config_credit(true, 8, 1));

	side.send(false, REL_UNRELIABLE);
	ASSERT_FALSE(side.can_send(REL_UNRELIABLE));
	side.take(grant(side, side.start() + 0x1000000));
	EXPECT_TRUE(side.can_send(REL_UNRELIABLE));
	EXPECT_FALSE(side.conn.credit.blocked);
}

// As far ahead of the last limit as a number can be, it is behind the next number, which is a little older:
// taken for one that is small, it would block the sender for ever.
TEST(rel_credit_handle, more_than_can_be__behind_the_next_number)
{
	Side side(config_credit(true, 8, 100));
	u32 limit = side.start() + 100;

	side.take(grant(side, limit + 0x7fffffff - 50));
	EXPECT_EQ(side.conn.credit.limit, side.start() + 32767);
	side.take(grant(side, side.start() + 32767 + 0x7fffffff));
	EXPECT_EQ(side.conn.credit.limit, side.start() + 32767);
	EXPECT_EQ(side.conn.stats.nonsense, 2u);
	EXPECT_TRUE(side.can_send(REL_UNRELIABLE));
}

// The owner may have dropped what was lost, and does not ask again.
TEST(rel_credit_block, asks_when_what_was_in_flight_is_lost)
{
	rel_config config = config_usual();

	config.peer_credit_pkts = 2;
	Side side(config);
	wire_header header{};

	side.send_many(2);
	ASSERT_FALSE(side.can_send());
	ASSERT_FALSE(side.polled()) << "what is in flight asks";
	side.now += 100 * us;
	side.take(side.peer_ack(side.start(), {0}));
	ASSERT_FALSE(side.polled());
	side.run_timeout();
	ASSERT_EQ(side.lost, (std::vector<Side::Lost>{{1, REL_LOST_RACK}}));
	ASSERT_EQ(rel_in_flight(&side.conn), 0u);
	ASSERT_TRUE(side.poll(header));
	EXPECT_EQ(header.type, WIRE_PACKET_PROBE);
}

// What brings credits, and tells of the loss as well, leaves nothing to ask for.
TEST(rel_credit_block, asks_not_if_credits_come_with_the_loss)
{
	rel_config config = config_usual();

	config.peer_credit_pkts = 4;
	Side side(config);

	side.send_many(4);
	ASSERT_FALSE(side.can_send());
	side.now += 100 * us;

	wire_header ack = side.peer_ack(side.start(), {0, 1, 2});

	ack.credit = cpu_to_le32(side.start() + 8);
	side.take(ack);
	ASSERT_EQ(side.lost.size(), 1u);
	ASSERT_EQ(rel_in_flight(&side.conn), 0u);
	EXPECT_FALSE(side.polled());
	EXPECT_TRUE(side.can_send());
}

TEST(rel_credit_handle, opens_a_blocked_window)
{
	Side side(config_credit(false, 8, 1));
	u32 n = side.start();

	side.send();
	EXPECT_FALSE(side.can_send());
	wire_header header = side.peer_ack(n + 1);

	header.credit = cpu_to_le32(n + 2);
	side.now += 10 * us;
	side.take(header);
	EXPECT_TRUE(side.can_send());
	EXPECT_FALSE(side.polled()) << "no probe was needed";
	EXPECT_EQ(side.next_timeout(), REL_TIME_NEVER);
}

TEST(rel_credit_block, reliable_waits_while_an_ack_may_come)
{
	Side side(config_credit(false, 8, 1));

	side.send();
	EXPECT_FALSE(side.can_send());
	EXPECT_FALSE(side.polled());
	EXPECT_EQ(side.conn.timer_ns[REL_TIMER_PROBE], REL_TIME_NEVER);
}

TEST(rel_credit_block, reliable_probes_at_once_when_nothing_is_in_flight)
{
	Side side(config_credit(false, 8, 0));
	wire_header header{};

	EXPECT_FALSE(side.can_send());
	EXPECT_FALSE(side.can_send());
	ASSERT_TRUE(side.poll(header));
	EXPECT_EQ(header.type, WIRE_PACKET_PROBE);
	EXPECT_EQ(number_of(header), side.start());
	EXPECT_TRUE(asks(header));
	EXPECT_FALSE(side.can_send());
	EXPECT_FALSE(side.polled()) << "one at a time";
}

TEST(rel_credit_block, probes_back_off)
{
	Side side(config_credit(false, 8, 0));

	EXPECT_FALSE(side.can_send());
	EXPECT_TRUE(side.polled());
	for (u64 pause : {10 * ms, 20 * ms, 40 * ms, 80 * ms, 100 * ms, 100 * ms}) {
		EXPECT_EQ(side.next_timeout(), side.now + pause);
		side.run_timeout();
		EXPECT_TRUE(side.polled());
		EXPECT_FALSE(side.polled());
	}
	for (int i = 0; i < 300; i++) {
		side.run_timeout();
		EXPECT_TRUE(side.polled());
		EXPECT_LE(side.next_timeout(), side.now + 100 * ms);
	}
	EXPECT_EQ(side.conn.stats.probes_sent, 307u);
}

TEST(rel_credit_block, backoff_doubles_sixteen_times_at_most)
{
	rel_config config = config_credit(false, 8, 0);

	config.rto_initial_us = 10;
	config.rto_max_us = 4000000000;
	Side side(config);

	EXPECT_FALSE(side.can_send());
	for (int i = 0; i < 30; i++) {
		EXPECT_TRUE(side.polled());
		EXPECT_EQ(side.next_timeout() - side.now, 10 * us << std::min(i, 16));
		side.run_timeout();
	}
}

TEST(rel_credit_block, backoff_starts_anew_each_time)
{
	Side side(config_credit(false, 8, 0));

	EXPECT_FALSE(side.can_send());
	for (int i = 0; i < 3; i++) {
		EXPECT_TRUE(side.polled());
		side.run_timeout();
	}
	side.polled();
	side.take(grant(side, side.start() + 1));
	EXPECT_TRUE(side.can_send());
	side.send();
	side.take(side.peer_ack(side.start() + 1));
	EXPECT_FALSE(side.can_send());
	EXPECT_TRUE(side.polled());
	EXPECT_EQ(side.next_timeout() - side.now, side.conn.rtt.rto_ns);
}

TEST(rel_credit_block, probe_follows_the_timeout_that_lost_a_whole_window)
{
	Side side(config_credit(false, 8, 4));
	wire_header header{};

	side.send_many(4);
	EXPECT_FALSE(side.can_send());
	side.run_timeout(); // the tail probe cannot carry a packet, for want of credits
	EXPECT_TRUE(side.lost.empty());
	ASSERT_TRUE(side.poll(header));
	EXPECT_EQ(header.type, WIRE_PACKET_PROBE);
	side.run_timeout(); // time-out
	EXPECT_FALSE(side.can_send());
	ASSERT_TRUE(side.poll(header)) << "at the time-out itself";
	EXPECT_EQ(header.type, WIRE_PACKET_PROBE);
	EXPECT_EQ(number_of(header), side.start() + 4);
}

TEST(rel_credit_block, timeout_probes_even_if_the_owner_does_not_ask_again)
{
	Side side(config_credit(false, 8, 4));

	side.send_many(4);
	EXPECT_FALSE(side.can_send());
	rel_loss_handle_rto(&side.conn, side.now);
	EXPECT_TRUE(side.polled());
}

TEST(rel_credit_block, acknowledged_without_new_credits)
{
	Side side(config_credit(false, 8, 2));

	side.send_many(2);
	EXPECT_FALSE(side.can_send());
	side.now += 10 * us;
	side.take(side.peer_ack(side.start() + 2)); // from a strange peer
	EXPECT_TRUE(side.polled()) << "nothing else could bring credits";
}

TEST(rel_credit_block, native_gives_news_a_round_trip)
{
	Side side(config_credit(true, 8, 2));

	side.send(false, REL_UNRELIABLE);
	side.send(false, REL_UNRELIABLE);
	EXPECT_EQ(side.next_timeout(), REL_TIME_NEVER);
	EXPECT_FALSE(side.can_send(REL_UNRELIABLE));
	EXPECT_FALSE(side.polled());
	EXPECT_EQ(side.next_timeout(), side.now + 10 * ms);
	side.now += 5 * ms;
	EXPECT_FALSE(side.can_send(REL_UNRELIABLE));
	EXPECT_EQ(side.next_timeout(), side.now + 5 * ms) << "asking again postpones nothing";
	side.run_timeout();
	wire_header header{};

	ASSERT_TRUE(side.poll(header));
	EXPECT_EQ(header.type, WIRE_PACKET_PROBE);
	EXPECT_EQ(number_of(header), side.start() + 2);
	side.take(grant(side, side.start() + 10));
	EXPECT_TRUE(side.can_send(REL_UNRELIABLE));
	EXPECT_EQ(side.next_timeout(), REL_TIME_NEVER);
}

TEST(rel_credit_handle_probe, grants_from_the_next_number_on)
{
	for (bool native : {false, true}) {
		Side side(config_credit(native, 8, 8));
		u32 n = side.peer_start();
		wire_header header{};

		side.take(side.peer_header(WIRE_PACKET_PROBE, n + 5));
		ASSERT_TRUE(side.poll(header));
		EXPECT_EQ(header.type, WIRE_PACKET_ACK);
		EXPECT_EQ(le32_to_cpu(header.credit), n + 5 + 8);
		EXPECT_EQ(le32_to_cpu(header.ack), n) << "the numbers may still come";
		side.take(side.peer_header(WIRE_PACKET_PROBE, n + 3)); // overtaken
		ASSERT_TRUE(side.poll(header));
		EXPECT_EQ(le32_to_cpu(header.credit), n + 13);
	}
}

// Somebody has granted that in this side's name. What was sent by it was dropped.
TEST(rel_credit_handle_probe, beyond_what_was_granted)
{
	for (bool native : {false, true}) {
		const u32 most = 1u << 24;
		Side side(config_credit(native, 8, 8));
		u32 n = side.peer_start();
		wire_header header{};

		side.take(side.peer_header(WIRE_PACKET_PROBE, n + most + 1));
		side.take(side.peer_header(WIRE_PACKET_PROBE, n + 0x7fffffff));
		EXPECT_EQ(side.conn.stats.nonsense, 2u) << "more than can be";
		ASSERT_TRUE(side.poll(header)) << "answered nevertheless";
		EXPECT_EQ(le32_to_cpu(header.credit), n + 8);
		side.take(side.peer_header(WIRE_PACKET_PROBE, n + 40000));
		ASSERT_TRUE(side.poll(header));
		EXPECT_EQ(le32_to_cpu(header.credit), n + 40000 + 8);
		side.take(side.peer_header(WIRE_PACKET_PROBE, n + most));
		ASSERT_TRUE(side.poll(header));
		EXPECT_EQ(le32_to_cpu(header.credit), n + most + 8);
		EXPECT_EQ(side.conn.stats.nonsense, 2u);
		// The bound is the same whatever was believed before.
		side.take(side.peer_header(WIRE_PACKET_PROBE, n + most + 1));
		EXPECT_EQ(side.conn.stats.nonsense, 3u);
	}
}

// Half of all numbers away from what credit is counted from, just when all that was granted has been used.
TEST(rel_credit_handle_probe, from_the_other_half_of_the_numbers)
{
	Side side(config_credit(false, 8, 8));
	u32 n = side.peer_start();

	side.take(side.peer_header(WIRE_PACKET_PROBE, n + 8));
	for (u32 off : {0x7fffffffu, 0x80000000u, 0x80000001u})
		side.take(side.peer_header(WIRE_PACKET_PROBE, n + 8 + off));
	EXPECT_EQ(side.conn.credit.base, n + 8);
}

TEST(rel_credit_due, after_half_of_what_was_granted)
{
	for (u16 credits : {1, 2, 3, 8, 9}) {
		Side side(config_credit(true, credits, 8));
		u32 n = side.peer_start();
		u32 half = (credits + 1) / 2;

		for (u32 round = 0; round < 5; round++) {
			for (u32 i = 0; i < half; i++) {
				EXPECT_FALSE(side.polled()) << credits;
				side.take(side.peer_header(WIRE_PACKET_UNRELIABLE, n++));
			}
			wire_header header{};

			ASSERT_TRUE(side.poll(header)) << credits;
			EXPECT_EQ(header.type, WIRE_PACKET_ACK);
			EXPECT_EQ(le32_to_cpu(header.credit), n + credits);
		}
		EXPECT_EQ(side.conn.stats.acks_credit, 5u);
		EXPECT_EQ(side.conn.stats.acks_explicit, 0u);
	}
}

TEST(rel_credit_due, not_when_something_else_told)
{
	Side side(config_credit(true, 8, 8));
	u32 n = side.peer_start();

	for (u32 i = 0; i < 20; i++) {
		side.take(side.peer_header(WIRE_PACKET_UNRELIABLE, n + i));
		if (i % 3 == 2) {
			EXPECT_EQ(le32_to_cpu(side.send().credit), n + i + 1 + 8);
		}
		EXPECT_FALSE(side.polled());
	}
}

TEST(rel_credit_due, reliable_with_few_buffers)
{
	Side side(config_credit(false, 8, 8));
	u32 n = side.peer_start();

	for (u32 i = 0; i < 3; i++)
		side.take(side.peer_packet(n + i));
	EXPECT_FALSE(side.polled());
	side.take(side.peer_packet(n + 3));
	EXPECT_TRUE(side.polled());
	EXPECT_EQ(side.conn.stats.acks_explicit, 1u) << "it acknowledges as well";
	EXPECT_EQ(side.conn.stats.acks_credit, 0u);
}

// What was granted is kept; what is granted next is as if it had never been more.
TEST(rel_credit_share, fewer_takes_nothing_back)
{
	Side side(config_credit(true, 64, 8));
	u32 n = side.peer_start();

	rel_credit_share(&side.conn, 4);
	EXPECT_FALSE(side.polled());
	EXPECT_EQ(le32_to_cpu(side.send().credit), n + 64);
	for (u32 i = 0; i < 61; i++) {
		side.take(side.peer_header(WIRE_PACKET_UNRELIABLE, n + i));
		EXPECT_FALSE(side.polled()) << i;
	}
	EXPECT_EQ(le32_to_cpu(side.send().credit), n + 61 + 4);
	side.take(side.peer_header(WIRE_PACKET_UNRELIABLE, n + 61));
	EXPECT_FALSE(side.polled());
	side.take(side.peer_header(WIRE_PACKET_UNRELIABLE, n + 62));
	EXPECT_TRUE(side.polled()) << "half of four";
	EXPECT_EQ(side.conn.credit.granted, n + 63 + 4);
}

TEST(rel_credit_share, more_is_told_at_once)
{
	Side side(config_credit(false, 4, 8));
	u32 n = side.peer_start();

	side.take(side.peer_packet(n));
	EXPECT_FALSE(side.polled());
	rel_credit_share(&side.conn, 64);
	EXPECT_TRUE(side.polled());
	EXPECT_EQ(side.conn.credit.granted, n + 1 + 64);
}

TEST(rel_credit_share, goes_on_across_the_wrap)
{
	Side side(config_credit(true, 64, 8));
	u32 n = side.peer_start();

	for (u32 i = 0; i < 400; i++) {
		rel_credit_share(&side.conn, i % 7 ? 2 : 64);
		ASSERT_TRUE(rel_seq_before(n + i, side.conn.credit.granted));
		side.take(side.peer_header(WIRE_PACKET_UNRELIABLE, n + i));
		side.polled();
	}
	EXPECT_EQ(side.conn.stats.nonsense, 0u);
}

TEST(credit, native_stream_whose_credit_updates_are_all_lost)
{
	rel_config config = config_credit(true, 8, 8);

	config.peer_number_start = config.number_start;
	Link link(config, config, 1);
	u32 lost = 0;

	// Until a probe asks, all that the receiver says on its own is lost.
	link.drops = [&](const End &from, const Packet &) {
		return from.index == 1 && link.ends[0].conn.stats.probes_sent == 0 && ++lost;
	};
	link.plan(0, link.now, 20, REL_UNRELIABLE);
	EXPECT_TRUE(link.run(link.now + 100 * ms));
	EXPECT_GT(lost, 0u);
	EXPECT_EQ(link.ends[0].conn.stats.probes_sent, 1u);
	link.settle(link.now + 1000 * ms);
	EXPECT_EQ(link.ends[0].delivered, 20u);
}

TEST(credit, native_stream_whose_data_is_all_lost)
{
	rel_config config = config_credit(true, 8, 8);

	config.peer_number_start = config.number_start;
	Link link(config, config, 1);

	link.drops = [](const End &from, const Packet &packet) {
		return from.index == 0 && packet.id;
	};
	link.plan(0, link.now, 100, REL_UNRELIABLE);
	EXPECT_TRUE(link.run(link.now + 1000 * ms));
	link.settle(link.now + 1000 * ms);
	EXPECT_EQ(link.ends[0].delivered, 0u);
}
