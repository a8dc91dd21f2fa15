#include <gtest/gtest.h>

#include "side.hpp"

TEST(rel_rtt_init, initial_timeout_until_there_is_a_sample)
{
	rel_config config = config_usual();

	EXPECT_EQ(Side(config).conn.rtt.rto_ns, 10 * ms);
	EXPECT_EQ(Side(config).conn.rtt.probe_ns, 10 * ms);
	EXPECT_EQ(Side(config).conn.rtt.ack_delay_ns, 200 * us);
	EXPECT_EQ(Side(config).conn.rtt.srtt_ns, 0u);
	config.rto_initial_us = 200000;
	EXPECT_EQ(Side(config).conn.rtt.rto_ns, 100 * ms) << "bounded by rto_max_us";
}

TEST(rel_rtt_sample, first_one)
{
	Side side;

	rel_rtt_sample(&side.conn, 800 * us);
	EXPECT_EQ(side.conn.rtt.srtt_ns, 800 * us);
	EXPECT_EQ(side.conn.rtt.var_ns, 400 * us);
	EXPECT_EQ(side.conn.rtt.min_ns, 800 * us);
	// RFC 6298, 2.2, and the most that the peer may hold an ACK back.
	EXPECT_EQ(side.conn.rtt.rto_ns, 800 * us + 4 * (400 * us) + 200 * us);
	EXPECT_EQ(side.conn.rtt.probe_ns, 2 * (800 * us) + 200 * us);
}

TEST(rel_rtt_sample, takes_the_least_anew_once)
{
	Side side;

	rel_rtt_sample(&side.conn, 100 * us);
	side.conn.rtt.min_old = true;
	rel_rtt_sample(&side.conn, 800 * us);
	EXPECT_EQ(side.conn.rtt.min_ns, 800 * us);
	rel_rtt_sample(&side.conn, 900 * us);
	EXPECT_EQ(side.conn.rtt.min_ns, 800 * us);
}

TEST(rel_rtt_sample, later_ones)
{
	Side side;

	rel_rtt_sample(&side.conn, 800 * us);
	rel_rtt_sample(&side.conn, 1600 * us);
	EXPECT_EQ(side.conn.rtt.var_ns, 300 * us + 200 * us); // 3/4 and 1/4 of |800 - 1600|
	EXPECT_EQ(side.conn.rtt.srtt_ns, 900 * us);           // 7/8 and 1/8
	rel_rtt_sample(&side.conn, 100 * us);
	EXPECT_EQ(side.conn.rtt.var_ns, 375 * us + 200 * us);
	EXPECT_EQ(side.conn.rtt.srtt_ns, 787500 + 12500u);
	EXPECT_EQ(side.conn.rtt.min_ns, 100 * us);
	EXPECT_EQ(side.conn.rtt.latest_ns, 100 * us);
}

// Of short messages and long ones by turns.
TEST(rel_rtt_sample, probe_waits_for_the_longer_of_two_kinds)
{
	Side side;
	const rel_rtt &rtt = side.conn.rtt;

	for (int i = 0; i < 100; i++) {
		rel_rtt_sample(&side.conn, i % 4 == 3 ? 900 * us : 50 * us);
		EXPECT_LE(rtt.probe_ns, rtt.rto_ns);
		if (i >= 20) {
			EXPECT_EQ(rtt.probe_ns, rtt.srtt_ns + 2 * rtt.var_ns + 200 * us);
			EXPECT_GT(rtt.probe_ns, 900 * us);
			EXPECT_GT(rtt.var_ns, rtt.srtt_ns / 2) << "or twice SRTT would do";
		}
	}
}

TEST(rel_rtt_sample, steady_path_has_the_smallest_timeout)
{
	Side side;

	for (int i = 0; i < 100; i++)
		rel_rtt_sample(&side.conn, 50 * us);
	EXPECT_EQ(side.conn.rtt.rto_ns, 1 * ms) << "rto_min_us";
	EXPECT_EQ(side.conn.rtt.probe_ns, 2 * (50 * us) + 200 * us);
	EXPECT_EQ(side.conn.rtt.ack_delay_ns, 150 * us) << "time for a process to reply";
}

TEST(rel_rtt_sample, ack_delay_is_one_round_trip_within_bounds)
{
	Side side;

	for (int i = 0; i < 100; i++)
		rel_rtt_sample(&side.conn, 160 * us);
	EXPECT_EQ(side.conn.rtt.ack_delay_ns, 160 * us);
	for (int i = 0; i < 100; i++)
		rel_rtt_sample(&side.conn, 900 * us);
	EXPECT_EQ(side.conn.rtt.ack_delay_ns, 200 * us) << "ack_delay_us";
}

TEST(rel_rtt_sample, a_reply_is_waited_for_as_long_as_a_round_trip)
{
	Side side;

	EXPECT_EQ(rel_rtt_reply_delay(&side.conn.rtt), 200 * us) << "no sample yet";
	for (int i = 0; i < 100; i++)
		rel_rtt_sample(&side.conn, 50 * us);
	EXPECT_EQ(rel_rtt_reply_delay(&side.conn.rtt), 150 * us) << "no shorter than other ACKs";
	for (int i = 0; i < 200; i++)
		rel_rtt_sample(&side.conn, 900 * us);
	EXPECT_EQ(rel_rtt_reply_delay(&side.conn.rtt), side.conn.rtt.srtt_ns);
	EXPECT_GE(side.conn.rtt.srtt_ns, 890 * us);
	for (int i = 0; i < 200; i++)
		rel_rtt_sample(&side.conn, 50 * ms);
	EXPECT_EQ(rel_rtt_reply_delay(&side.conn.rtt), 10 * ms);
}

TEST(rel_rtt_sample, a_long_usual_delay_is_not_shortened_for_replies)
{
	rel_config config = config_usual();

	config.ack_delay_us = 20000;
	Side side(config);

	for (int i = 0; i < 200; i++)
		rel_rtt_sample(&side.conn, 15 * ms);
	EXPECT_EQ(side.conn.rtt.ack_delay_ns, side.conn.rtt.srtt_ns);
	EXPECT_EQ(rel_rtt_reply_delay(&side.conn.rtt), side.conn.rtt.srtt_ns);
}

TEST(rel_rtt_held, is_added_to_the_timeouts_and_falls_again)
{
	rel_config config = config_usual();

	config.rto_min_us = 0;
	Side side(config);
	rel_rtt &rtt = side.conn.rtt;

	for (int i = 0; i < 200; i++)
		rel_rtt_sample(&side.conn, 800 * us);
	EXPECT_EQ(rtt.probe_ns, 2ull * rtt.srtt_ns + 200 * us);
	rel_rtt_held(&side.conn, 799 * us);
	rel_rtt_sample(&side.conn, 800 * us);
	EXPECT_EQ(rtt.held_ns, 799 * us);
	EXPECT_EQ(rtt.probe_ns, 2ull * rtt.srtt_ns + 799 * us);
	EXPECT_EQ(rtt.ack_delay_ns, 200 * us) << "of this side";
	rel_rtt_held(&side.conn, 0);
	rel_rtt_sample(&side.conn, 800 * us);
	EXPECT_EQ(rtt.held_ns, 799 * us - 799 * us / 8);
	EXPECT_EQ(rtt.probe_ns, 2ull * rtt.srtt_ns + rtt.held_ns);
	rel_rtt_held(&side.conn, 750 * us);
	EXPECT_EQ(rtt.held_ns, 750 * us);
	for (int i = 0; i < 100; i++)
		rel_rtt_held(&side.conn, 100 * us);
	EXPECT_EQ(rtt.held_ns, 100 * us);
	rel_rtt_sample(&side.conn, 800 * us);
	EXPECT_EQ(rtt.probe_ns, 2ull * rtt.srtt_ns + 200 * us) << "ack_delay_us";
}

TEST(rel_rtt_held, what_remains_of_a_repeat_is_no_delay)
{
	Side side;

	rel_rtt_held(&side.conn, 300 * us);
	EXPECT_EQ(side.conn.rtt.held_ns, 0u) << "no round trip is known";
	rel_rtt_sample(&side.conn, 800 * us);
	rel_rtt_held(&side.conn, 1600 * us);
	EXPECT_EQ(side.conn.rtt.held_ns, 0u);
	rel_rtt_held(&side.conn, 1600 * us - 1);
	EXPECT_EQ(side.conn.rtt.held_ns, 1600 * us - 1);
	rel_rtt_held(&side.conn, 1600 * us);
	EXPECT_EQ(side.conn.rtt.held_ns, 1600 * us - 1 - (1600 * us - 1) / 8);
}

TEST(rel_rtt_held, is_what_an_ack_says)
{
	Side side;

	side.send();
	side.now += 800 * us;
	side.take(side.peer_ack(side.start() + 1));
	side.send();
	side.now += 1200 * us;
	side.take(side.peer_ack(side.start() + 2, {}, 400));
	EXPECT_EQ(side.conn.rtt.held_ns, 400 * us);
	EXPECT_EQ(side.conn.rtt.srtt_ns, 800 * us);
	EXPECT_EQ(side.conn.rtt.probe_ns, 2 * (800 * us) + 400 * us) << "of the same ACK";
}

TEST(rel_rtt_sample, timeout_is_never_sooner_than_the_tail_probe)
{
	rel_config config = config_usual();

	config.rto_min_us = 0;
	Side side(config);

	for (int i = 0; i < 100; i++)
		rel_rtt_sample(&side.conn, 3 * ms);
	EXPECT_EQ(side.conn.rtt.probe_ns, 2 * (3 * ms) + 200 * us);
	EXPECT_EQ(side.conn.rtt.rto_ns, side.conn.rtt.probe_ns);
}

TEST(rel_rtt_sample, absurd_values_saturate)
{
	Side side;

	for (u64 sample : {~0ull, 1ull, 1ull, ~0ull, 1ull << 32, 1ull, 1ull}) {
		rel_rtt_sample(&side.conn, sample);
		EXPECT_LE(side.conn.rtt.rto_ns, 100 * ms);
		EXPECT_GE(side.conn.rtt.rto_ns, 1 * ms);
		EXPECT_LE(side.conn.rtt.probe_ns, side.conn.rtt.rto_ns);
		EXPECT_GT(side.conn.rtt.srtt_ns, 0u);
	}
}

TEST(rel_rtt_sample, of_more_than_32_bits)
{
	Side side;

	rel_rtt_sample(&side.conn, (1ull << 32) + 1);
	EXPECT_EQ(side.conn.rtt.srtt_ns, U32_MAX / 8);
}

TEST(rel_rtt_backoff, doubles_up_to_the_bound)
{
	Side side;

	EXPECT_EQ(rel_rtt_backoff(&side.conn, 0), 10 * ms);
	EXPECT_EQ(rel_rtt_backoff(&side.conn, 1), 20 * ms);
	EXPECT_EQ(rel_rtt_backoff(&side.conn, 3), 80 * ms);
	EXPECT_EQ(rel_rtt_backoff(&side.conn, 4), 100 * ms);
	EXPECT_EQ(rel_rtt_backoff(&side.conn, 16), 100 * ms);
}

TEST(rel_rtt_backoff, jitter_is_a_quarter_by_xorshift)
{
	rel_config config = config_usual();
	u32 x = 12345;

	config.seed = x;
	Side side(config);

	for (int i = 0; i < 1000; i++) {
		x ^= x << 13;
		x ^= x >> 17;
		x ^= x << 5;
		EXPECT_EQ(rel_rtt_backoff(&side.conn, 1), 20 * ms - 20 * ms / 1024 * (x % 256)) << i;
	}
	EXPECT_EQ(rel_rtt_backoff(&side.conn, 0), 10 * ms) << "nothing that backs off";
}
