#include <memory>
#include <tuple>

#include <gtest/gtest.h>

#include "link.hpp"

namespace
{

constexpr u32 pkt = REL_CONGESTION_PKT;

rel_config config_delay(u32 target_us = 100)
{
	rel_config config = config_usual();

	config.congestion = &rel_congestion_delay;
	config.target_us = target_us;
	return config;
}

// A round trip: as many packets as the window allows, up to most, and after the delay an ACK of all of them.
// Returns how many they were.
u32 round_trip(Side &side, u64 delay_ns, u32 most = 1000)
{
	u32 count = 0;

	while (count < most && side.can_send()) {
		side.send();
		count++;
	}
	side.now += delay_ns;
	wire_header ack = side.peer_ack(side.conn.sender.next);

	ack.credit = cpu_to_le32(side.conn.sender.next + 128);
	side.take(ack);
	return count;
}

// Up to a window of so many packets, and not in its slow start any more.
void grown(Side &side, u32 window_pkts)
{
	round_trip(side, 50 * us);
	side.conn.congestion.window = window_pkts * pkt;
	side.conn.congestion.threshold = window_pkts * pkt;
	side.conn.congestion.window_pkts = window_pkts;
}

// Likewise, with a window of at most a packet, in 1/256.
void small(Side &side, u32 window)
{
	grown(side, 16);
	side.conn.congestion.window = window;
	side.conn.congestion.threshold = window;
	side.conn.congestion.window_pkts = 1;
}

} // namespace

TEST(rel_congestion_fixed, is_always_the_configured_window)
{
	Side side;

	EXPECT_EQ(round_trip(side, 50 * us), 64u);
	EXPECT_EQ(round_trip(side, 50 * ms), 64u);
	side.send_many(2);
	side.run_timeout(); // tail probe
	side.run_timeout();
	EXPECT_EQ(side.conn.stats.timeouts, 1u);
	EXPECT_EQ(rel_window_256(&side.conn), 64 * pkt);
	EXPECT_EQ(side.conn.stats.window_cuts, 0u);
}

TEST(rel_congestion_delay, starts_small_and_doubles)
{
	Side side(config_delay());

	EXPECT_EQ(round_trip(side, 50 * us), 8u);
	EXPECT_EQ(round_trip(side, 50 * us), 16u);
	EXPECT_EQ(round_trip(side, 50 * us), 32u);
	EXPECT_EQ(round_trip(side, 50 * us), 64u);
	EXPECT_EQ(round_trip(side, 50 * us), 64u) << "the configured window is the most";
	EXPECT_EQ(side.conn.stats.window_cuts, 0u);
}

TEST(rel_congestion_delay, does_not_grow_unless_it_is_used_up)
{
	Side side(config_delay());

	grown(side, 8);
	for (int i = 0; i < 20; i++)
		EXPECT_EQ(round_trip(side, 50 * us, 7), 7u);
	EXPECT_EQ(rel_window_256(&side.conn), 8 * pkt);
}

// Half a window is answered for before it is full. If that were no use of it, it would stay as it is, and
// every fourth packet would cost an ACK for as long as somebody sends like this.
TEST(rel_congestion_delay, doubles_while_half_of_it_is_used)
{
	Side side(config_delay());

	for (int i = 0; i < 20; i++)
		EXPECT_EQ(round_trip(side, 50 * us, 3), 3u);
	EXPECT_EQ(rel_window_256(&side.conn), 8 * pkt) << "less than half";

	EXPECT_EQ(round_trip(side, 50 * us, 4), 4u);
	EXPECT_EQ(rel_window_256(&side.conn), 12 * pkt) << "by what was sent";
	for (int i = 0; i < 20; i++)
		round_trip(side, 50 * us, 6);
	EXPECT_EQ(rel_window_256(&side.conn), 18 * pkt) << "a third is less than half";
	EXPECT_EQ(side.conn.stats.window_cuts, 0u);
}

TEST(rel_congestion_delay, half_of_it_is_no_use_if_late)
{
	Side side(config_delay());

	round_trip(side, 50 * us, 3);
	for (int i = 0; i < 20; i++)
		EXPECT_EQ(round_trip(side, 10 * ms, 6), 6u);
	EXPECT_EQ(rel_window_256(&side.conn), 8 * pkt);
	EXPECT_EQ(side.conn.stats.window_cuts, 0u);
}

// Whoever else has made the queue: this one may double again when it is gone.
TEST(rel_congestion_delay, a_cut_of_what_was_half_used_is_no_threshold)
{
	Side side(config_delay());

	round_trip(side, 50 * us, 7);
	round_trip(side, 50 * us, 8);
	EXPECT_EQ(rel_window_256(&side.conn), 23 * pkt);
	for (int i = 0; i < 5; i++)
		round_trip(side, 10 * ms, 4);
	EXPECT_EQ(rel_window_256(&side.conn), 8 * pkt);
	EXPECT_GT(side.conn.stats.window_cuts, 0u);
	EXPECT_EQ(round_trip(side, 50 * us), 8u);
	EXPECT_EQ(round_trip(side, 50 * us), 16u);
	EXPECT_EQ(round_trip(side, 50 * us), 32u);
}

// A queue that has dropped packets is not tried by who does not need it.
TEST(rel_congestion_delay, half_of_it_is_no_use_if_wary)
{
	Side side(config_delay());

	grown(side, 32);
	side.send_many(2);
	side.run_timeout(); // tail probe
	side.run_timeout();
	EXPECT_EQ(side.conn.stats.timeouts, 1u);
	EXPECT_EQ(rel_window_256(&side.conn), pkt);
	side.take(side.peer_ack(side.conn.sender.next));
	for (int i = 0; i < 20; i++)
		round_trip(side, 50 * us, 1);
	EXPECT_LE(rel_window_256(&side.conn), 2 * pkt);
}

TEST(rel_congestion_delay, grows_by_a_packet_each_round_trip)
{
	Side side(config_delay());

	grown(side, 20);
	EXPECT_EQ(round_trip(side, 60 * us), 20u);
	EXPECT_EQ(round_trip(side, 60 * us), 21u);
	EXPECT_EQ(rel_window_256(&side.conn), 22 * pkt);
}

TEST(rel_congestion_delay, target_is_above_the_smallest_round_trip)
{
	Side side(config_delay());

	grown(side, 16);
	// 50 us at best, 100 us more, and 1/4 of that for a window of 16.
	round_trip(side, 175 * us);
	EXPECT_EQ(rel_window_256(&side.conn), 17 * pkt) << "not above it";
	round_trip(side, 176 * us);
	EXPECT_LT(rel_window_256(&side.conn), 17 * pkt);
	EXPECT_EQ(side.conn.stats.window_cuts, 1u);
}

TEST(rel_congestion_delay, shrinks_in_proportion_to_the_excess_and_at_most_to_half)
{
	Side side(config_delay());

	grown(side, 16);
	round_trip(side, 250 * us); // 75 of 250 are too much: 0.8 * 0.3 less
	EXPECT_NEAR(rel_window_256(&side.conn), 16 * pkt * 0.76, pkt / 8.0);
	Side worse(config_delay());

	grown(worse, 16);
	round_trip(worse, 900 * ms);
	EXPECT_EQ(rel_window_256(&worse.conn), 8 * pkt);
}

TEST(rel_congestion_delay, many_senders_have_a_target_that_is_farther_away_within_bounds)
{
	for (const bool late : {false, true}) {
		Side side(config_delay());

		small(side, pkt / 32);
		side.conn.congestion.lost = 1;
		round_trip(side, (50 + 100 + 4 * 100) * us + late);
		EXPECT_EQ(rel_window_256(&side.conn), late ? pkt / 64 : pkt / 32 + pkt / 32 / 4);
	}
}

TEST(rel_congestion_delay, target_is_exact)
{
	for (const bool late : {false, true}) {
		Side side(config_delay(100000));

		grown(side, 16);
		side.conn.congestion.lost = 1; // which counts only if it is late
		round_trip(side, 50 * us + 125 * ms + late);
		EXPECT_EQ(side.conn.stats.window_cuts, late);
	}
}

TEST(rel_congestion_delay, too_little_to_shrink_is_no_cut)
{
	Side side(config_delay());

	grown(side, 16);
	round_trip(side, 175 * us + 1);
	EXPECT_EQ(rel_window_256(&side.conn), 16 * pkt);
	EXPECT_EQ(side.conn.stats.window_cuts, 0u);
}

TEST(rel_congestion_delay, share_of_the_excess_is_exact)
{
	Side side(config_delay(100000));

	grown(side, 64);
	round_trip(side, 225321 * us);
	EXPECT_EQ(rel_window_256(&side.conn), 9840u);
}

TEST(rel_congestion_delay, very_short_round_trips)
{
	Side side(config_delay(1));

	round_trip(side, 1 * us);
	side.conn.congestion.window = 16 * pkt;
	side.conn.congestion.window_pkts = 16;
	round_trip(side, 3 * us); // 750 ns are too much, which counts as 250 of 1024
	EXPECT_EQ(rel_window_256(&side.conn), 16 * pkt - 16 * pkt * 200 / 1024);
}

TEST(rel_congestion_delay, delay_counts_whether_the_window_is_used_up_or_not)
{
	Side side(config_delay());

	grown(side, 20);
	round_trip(side, 900 * us, 5);
	EXPECT_EQ(rel_window_256(&side.conn), 10 * pkt);
	side.conn.congestion.window = 8 * pkt;
	side.conn.congestion.threshold = 8 * pkt;
	side.conn.congestion.window_pkts = 8;
	round_trip(side, 900 * us);
	EXPECT_EQ(rel_window_256(&side.conn), 9 * pkt) << "but not at the first window";
}

// A processor that is busy with something else looks the same as a queue.
TEST(rel_congestion_delay, delay_alone_leaves_what_it_began_with)
{
	Side side(config_delay());

	grown(side, 20);
	for (int i = 0; i < 10; i++)
		round_trip(side, 900 * us);
	EXPECT_EQ(rel_window_256(&side.conn), 8 * pkt);
}

TEST(rel_congestion_delay, delay_alone_does_not_keep_it_from_coming_back)
{
	Side side(config_delay());

	grown(side, 4);
	for (int i = 0; i < 3; i++)
		round_trip(side, 900 * us);
	EXPECT_EQ(rel_window_256(&side.conn), 7 * pkt);
}

// A loss shows that it is a queue's.
TEST(rel_congestion_delay, does_not_grow_while_it_is_late_after_a_loss)
{
	Side side(config_delay());

	grown(side, 8);
	side.conn.congestion.lost = 1;
	round_trip(side, 900 * us);
	EXPECT_EQ(rel_window_256(&side.conn), 4 * pkt);
	for (int i = 0; i < 10; i++)
		round_trip(side, 900 * us);
	EXPECT_EQ(rel_window_256(&side.conn), 4 * pkt);
	round_trip(side, 60 * us);
	EXPECT_EQ(rel_window_256(&side.conn), 5 * pkt);
}

TEST(rel_congestion_delay, a_loss_counts_for_64_round_trips)
{
	Side side(config_delay());

	grown(side, 8);
	side.conn.congestion.lost = 1;
	round_trip(side, 900 * us);
	for (int i = 0; i < 64; i++)
		round_trip(side, 900 * us);
	EXPECT_EQ(rel_window_256(&side.conn), 4 * pkt);
	round_trip(side, 900 * us);
	EXPECT_EQ(rel_window_256(&side.conn), 5 * pkt) << "then the delay is a processor's again";
}

// Of which each packet is a part only, if there is less than one in a round trip.
TEST(rel_congestion_delay, a_loss_counts_for_64_round_trips_below_a_packet)
{
	Side side(config_delay());

	small(side, pkt / 32);
	side.conn.congestion.wary = 64;
	for (int i = 0; i < 2; i++) {
		side.conn.congestion.pace_ns = 0;
		ASSERT_EQ(round_trip(side, 900 * us), 1u);
		EXPECT_EQ(rel_window_256(&side.conn), pkt / 32);
	}
	side.conn.congestion.pace_ns = 0;
	ASSERT_EQ(round_trip(side, 900 * us), 1u);
	EXPECT_EQ(rel_window_256(&side.conn), pkt / 32 * 5 / 4);
}

TEST(rel_congestion_delay, a_loss_counts_until_the_window_is_above_what_it_began_with)
{
	Side side(config_delay());

	grown(side, 7);
	side.conn.congestion.wary = 64;
	round_trip(side, 60 * us);
	EXPECT_EQ(rel_window_256(&side.conn), 8 * pkt);
	EXPECT_EQ(side.conn.congestion.wary, 63u);
	round_trip(side, 60 * us);
	EXPECT_EQ(rel_window_256(&side.conn), 9 * pkt);
	EXPECT_EQ(side.conn.congestion.wary, 0u);
}

TEST(rel_congestion_delay, a_loss_that_leaves_much_makes_it_not_wary)
{
	Side side(config_delay());

	grown(side, 40);
	side.conn.congestion.lost = 1;
	round_trip(side, 900 * us);
	EXPECT_EQ(rel_window_256(&side.conn), 20 * pkt);
	EXPECT_EQ(side.conn.congestion.wary, 0u);
	grown(side, 20);
	side.conn.congestion.lost = 1;
	round_trip(side, 60 * us);
	EXPECT_EQ(side.conn.congestion.wary, 0u) << "nor one that says nothing";
}

TEST(rel_congestion_delay, does_not_double_after_it_has_shrunk)
{
	Side side(config_delay());

	round_trip(side, 50 * us);
	round_trip(side, 50 * us);
	round_trip(side, 50 * us);
	round_trip(side, 900 * us);
	EXPECT_EQ(rel_window_256(&side.conn), 32 * pkt) << "half of 64";
	round_trip(side, 50 * us);
	EXPECT_EQ(rel_window_256(&side.conn), 33 * pkt);
}

TEST(rel_congestion_delay, some_loss_alone_says_nothing)
{
	Side side(config_delay());

	grown(side, 32);
	side.conn.congestion.lost = 5; // 1, and an eighth of 32
	round_trip(side, 60 * us);
	EXPECT_EQ(rel_window_256(&side.conn), 33 * pkt);
	side.conn.congestion.lost = 7; // 1, and an eighth of 33, which is 5
	round_trip(side, 60 * us);
	EXPECT_EQ(rel_window_256(&side.conn), (33 * pkt + 1) / 2);
}

TEST(rel_congestion_delay, one_of_eight_may_be_lost)
{
	for (const bool more : {false, true}) {
		Side side(config_delay());

		grown(side, 57);
		side.conn.congestion.lost = 9 + more; // 1, and an eighth of 57, which is 8
		round_trip(side, 60 * us);
		EXPECT_EQ(rel_window_256(&side.conn), more ? 57 * pkt / 2 : 58 * pkt);
	}
}

// Whoever has little to send finds out about what was lost when he had much.
TEST(rel_congestion_delay, losses_may_be_of_the_round_trip_before)
{
	for (const bool more : {false, true}) {
		Side side(config_delay());

		grown(side, 40);
		round_trip(side, 60 * us);
		side.conn.congestion.lost = 6 + more; // 1, and an eighth of 40
		round_trip(side, 60 * us, 10);
		EXPECT_EQ(rel_window_256(&side.conn), more ? 41 * pkt / 2 : 41 * pkt);
		EXPECT_EQ(side.conn.stats.window_cuts, more ? 1u : 0u);
	}
}

TEST(rel_congestion_delay, what_got_through_is_what_the_path_bears)
{
	for (const auto &[lost, left] : {std::pair{12u, 4u}, std::pair{16u, 1u}, std::pair{40u, 1u}}) {
		Side side(config_delay());

		grown(side, 16);
		side.conn.congestion.lost = lost;
		round_trip(side, 60 * us);
		EXPECT_EQ(rel_window_256(&side.conn), left * pkt) << lost;
	}
}

TEST(rel_congestion_delay, loss_counts_from_the_first_round_trip_on)
{
	for (const auto &[sent, lost, left] : {std::tuple{7, 5u, 8 * pkt * 2 / 7}, std::tuple{3, 3u, pkt}}) {
		Side side(config_delay());

		side.send_many(sent);
		side.conn.congestion.lost = lost;
		round_trip(side, 50 * us, 0);
		EXPECT_EQ(rel_window_256(&side.conn), left)
			<< sent << ": also if the window is not used up, nor half of it";
	}
}

TEST(rel_congestion_delay, grows_by_a_quarter_below_a_packet)
{
	Side side(config_delay());

	small(side, pkt / 2);
	round_trip(side, 60 * us);
	EXPECT_EQ(rel_window_256(&side.conn), pkt / 2 + pkt / 8);
	side.conn.congestion.window = pkt;
	side.conn.congestion.threshold = pkt;
	side.conn.congestion.pace_ns = 0;
	round_trip(side, 60 * us);
	EXPECT_EQ(rel_window_256(&side.conn), 2 * pkt);
}

TEST(rel_congestion_delay, loss_with_delay_says_much)
{
	Side side(config_delay());

	grown(side, 16);
	side.conn.congestion.lost = 1;
	round_trip(side, 176 * us);
	EXPECT_EQ(rel_window_256(&side.conn), 8 * pkt);
}

TEST(rel_congestion_delay, counts_what_rack_declares_and_takes_back_what_was_wrong)
{
	Side side(config_delay());

	grown(side, 16);
	side.send_many(8);
	side.now += 50 * us;

	const u32 next = side.conn.sender.next;

	side.take(side.peer_ack(next - 7));
	side.take(side.peer_ack(next - 7, {0, 1, 2, 3, 4, 5})); // all but one, in the same round trip
	EXPECT_EQ(side.conn.stats.lost[REL_LOST_RACK], 1u);
	EXPECT_EQ(side.conn.congestion.lost, 1u);
	side.take(side.peer_ack(next));
	EXPECT_EQ(side.conn.stats.spurious, 1u);
	EXPECT_EQ(side.conn.congestion.lost, 0u);
}

// With a window of a packet or two nothing comes after a loss by which RACK would find it.
TEST(rel_congestion_delay, counts_what_the_tail_probe_repeats_and_takes_back_what_was_wrong)
{
	Side side(config_delay());

	grown(side, 16);
	side.send_many(1);
	side.run_timeout();
	ASSERT_EQ(side.conn.stats.lost[REL_LOST_PROBE], 1u);
	EXPECT_EQ(side.conn.congestion.lost, 1u);
	side.take(side.peer_ack(side.conn.sender.next)); // before it is repeated
	EXPECT_EQ(side.conn.stats.spurious, 1u);
	EXPECT_EQ(side.conn.congestion.lost, 0u);
	EXPECT_FALSE(side.conn.loss.reordered) << "which is no reordering";
}

TEST(rel_congestion_delay, does_not_count_what_a_new_queue_pair_loses)
{
	Side side(config_delay());

	grown(side, 16);
	side.send_many(3);
	side.conn.congestion.lost = 1;
	rel_conn_requeue(&side.conn, side.now);
	EXPECT_EQ(side.conn.congestion.lost, 1u);
	side.take(side.peer_ack(side.conn.sender.next));
	EXPECT_EQ(side.conn.stats.spurious, 3u);
	EXPECT_EQ(side.conn.congestion.lost, 1u);
}

// So that the repeats are sent by the window that fits.
TEST(rel_congestion_delay, an_ack_that_tells_of_losses_and_of_the_round_trip_counts_at_once)
{
	Side side(config_delay());

	grown(side, 16);
	side.send_many(16);
	side.now += 50 * us;
	side.take(side.peer_ack(side.conn.sender.next - 16, {11, 12, 13, 14}));
	EXPECT_EQ(side.conn.stats.lost[REL_LOST_RACK], 12u);
	EXPECT_EQ(rel_window_256(&side.conn), 4 * pkt);
	side.take(side.peer_ack(side.conn.sender.next));
	EXPECT_EQ(side.conn.stats.spurious, 12u);
	EXPECT_EQ(side.conn.congestion.lost, 0u) << "nothing to take back in this round trip";
}

TEST(rel_congestion_delay, silence_leaves_one_packet_and_then_less)
{
	Side side(config_delay());

	grown(side, 40);
	round_trip(side, 60 * us, 1);
	side.send_many(30);
	side.run_timeout(); // tail probe
	side.run_timeout();
	ASSERT_EQ(side.conn.stats.timeouts, 1u);
	EXPECT_EQ(rel_window_256(&side.conn), 1 * pkt);
	EXPECT_EQ(side.conn.congestion.threshold, 20 * pkt);
	EXPECT_EQ(side.conn.congestion.pace_ns, 0u) << "a whole packet";
	EXPECT_EQ(side.conn.stats.window_cuts, 1u);
	side.polled();
	while (side.conn.stats.timeouts == 1)
		side.run_timeout();
	EXPECT_EQ(rel_window_256(&side.conn), pkt / 2);
	EXPECT_EQ(side.conn.congestion.threshold, 20 * pkt) << "what it was before";
	for (int i = 0; i < 20; i++) {
		while (side.conn.stats.timeouts < 3u + i)
			side.run_timeout();
	}
	EXPECT_EQ(rel_window_256(&side.conn), pkt / 64) << "never less";
}

TEST(rel_congestion_delay, after_silence_it_doubles_to_half_of_what_was_too_much)
{
	Side side(config_delay());

	grown(side, 40);
	round_trip(side, 60 * us, 1);
	side.send_many(30);
	side.run_timeout(); // tail probe: one is lost
	side.run_timeout();
	ASSERT_EQ(side.conn.stats.timeouts, 1u);
	side.polled();
	side.now += 60 * us;
	side.take(side.answering(side.peer_ack(side.conn.sender.floor)));
	ASSERT_EQ(rel_in_flight(&side.conn), 0u);
	for (u32 window : {1, 2, 4, 8, 16, 20, 21}) {
		EXPECT_EQ(rel_window_256(&side.conn), window * pkt);
		EXPECT_EQ(round_trip(side, 60 * us), window);
	}
	EXPECT_EQ(side.conn.stats.window_cuts, 1u);
}

// The losses before a time-out are what it was for, whoever finds them, and when: the answer's SACK, or the
// timer that it arms, or the next tail probe. Those after it count.
TEST(rel_congestion_delay, after_silence_what_was_lost_before_counts_no_more)
{
	Side side(config_delay());

	grown(side, 40);
	round_trip(side, 60 * us, 1);

	const u32 first = side.conn.sender.next;

	side.send_many(30);
	side.run_timeout();
	side.run_timeout();
	ASSERT_EQ(side.conn.stats.timeouts, 1u);
	side.polled();
	side.now += 60 * us;
	side.take(side.peer_ack(first, {3, 4, 5, 6, 7, 8, 20}));
	ASSERT_GT(side.conn.stats.lost[REL_LOST_RACK], 10u);
	EXPECT_EQ(rel_window_256(&side.conn), 1 * pkt);
	EXPECT_EQ(side.conn.congestion.threshold, 20 * pkt);
	rel_loss_handle_tail(&side.conn, side.conn.timer_ns[REL_TIMER_TAIL]);
	EXPECT_EQ(side.conn.congestion.lost, 0u);
	side.take(side.peer_ack(side.conn.sender.next));
	ASSERT_EQ(rel_in_flight(&side.conn), 0u);
	ASSERT_EQ(round_trip(side, 60 * us), 1u);
	EXPECT_EQ(rel_window_256(&side.conn), 2 * pkt);
	EXPECT_EQ(side.conn.stats.window_cuts, 1u);

	side.send_many(2);
	side.run_timeout();
	EXPECT_EQ(side.conn.congestion.lost, 1u);
}

// The share of what is lost after it is of what is sent after it.
TEST(rel_congestion_delay, after_silence_what_was_sent_before_counts_no_more)
{
	Side side(config_delay());

	grown(side, 40);
	ASSERT_EQ(round_trip(side, 60 * us), 40u);
	side.send_many(30);
	side.run_timeout();
	side.run_timeout();
	side.polled();
	side.now += 60 * us;
	side.take(side.answering(side.peer_ack(side.conn.sender.floor)));
	ASSERT_EQ(rel_in_flight(&side.conn), 0u);
	ASSERT_EQ(side.conn.stats.window_cuts, 1u);

	const u32 first = side.conn.sender.next;
	side.send_many(7);
	side.now += 60 * us;
	side.take(side.peer_ack(first, {2, 3, 4, 5}));
	EXPECT_EQ(side.conn.stats.lost[REL_LOST_RACK], 3u);
	EXPECT_EQ(side.conn.stats.window_cuts, 2u) << "3 of 7, not of 37 or 40";
}

// Else, half the numbers later, all losses would seem to be of before.
TEST(rel_congestion_delay, what_counts_no_more_moves_on)
{
	Side side(config_delay());

	for (int i = 0; i < 3; i++) {
		const u32 first = side.conn.sender.next;

		round_trip(side, 60 * us);
		EXPECT_EQ(side.conn.congestion.since, side.conn.sender.next);
		EXPECT_NE(side.conn.congestion.since, first);
	}
}

// It was a loss, and a late answer says that it was a queue's.
TEST(rel_congestion_delay, after_silence_it_comes_back_while_there_is_no_queue)
{
	for (const bool late : {false, true}) {
		Side side(config_delay());

		grown(side, 40);
		round_trip(side, 60 * us, 1);
		side.send_many(30);
		side.run_timeout();
		side.run_timeout();
		side.polled();
		side.now += 60 * us;
		side.take(side.answering(side.peer_ack(side.conn.sender.floor)));
		ASSERT_EQ(rel_window_256(&side.conn), 1 * pkt);
		round_trip(side, (50 + 100 + 100) * us + late);
		EXPECT_EQ(rel_window_256(&side.conn), (late ? 1 : 2) * pkt);
		EXPECT_EQ(side.conn.stats.window_cuts, 1u);
	}
}

// RFC 5681, 3.1: up to the threshold, and from there by a packet each round trip.
TEST(rel_congestion_delay, doubles_no_farther_than_to_the_threshold)
{
	Side side(config_delay());

	grown(side, 16);
	side.conn.congestion.threshold = 24 * pkt;
	EXPECT_EQ(round_trip(side, 60 * us), 16u);
	EXPECT_EQ(round_trip(side, 60 * us), 24u);
	EXPECT_EQ(round_trip(side, 60 * us), 25u);
}

TEST(rel_congestion_delay, less_than_a_packet_is_paced)
{
	Side side(config_delay());

	small(side, pkt);
	side.conn.congestion.lost = 1;
	ASSERT_EQ(round_trip(side, 5 * ms), 1u);
	ASSERT_EQ(rel_window_256(&side.conn), pkt / 2);

	u64 sent = side.now - 5 * ms;
	u64 gap = 2 * side.conn.rtt.srtt_ns;

	side.now = sent + gap - 1;
	EXPECT_FALSE(side.can_send());
	EXPECT_EQ(side.next_timeout(), sent + gap);
	side.run_timeout();
	EXPECT_EQ(side.next_timeout(), REL_TIME_NEVER) << "once";
	EXPECT_TRUE(side.can_send());
}

// Whether the window changes or not.
TEST(rel_congestion_delay, is_paced_by_what_a_round_trip_is_now)
{
	Side side(config_delay());

	small(side, pkt / 2);
	side.conn.congestion.wary = 64;
	for (int i = 0; i < 5; i++) {
		while (!side.can_send())
			side.run_timeout();
		ASSERT_EQ(round_trip(side, 3 * ms), 1u);
		ASSERT_EQ(rel_window_256(&side.conn), pkt / 2);
		EXPECT_EQ(side.conn.congestion.pace_ns, 2 * side.conn.rtt.srtt_ns);
	}
}

// Found by fuzz-engine: half a minute between two packets.
TEST(rel_congestion_delay, pacing_is_bounded)
{
	Side side(config_delay());

	small(side, pkt / 64);
	side.conn.congestion.lost = 1;
	round_trip(side, 900 * ms);
	side.can_send();
	EXPECT_EQ(side.conn.congestion.pace_ns, 100 * ms) << "rto_max_us";
}

TEST(rel_congestion_delay, forgets_half_with_each_time_out_of_a_pause)
{
	// Since the last packet was sent, in time-outs; and what is left of 41 packets.
	for (const auto &[pause, left] : {std::pair{0u, 41 * pkt}, std::pair{1u, 41 * pkt / 2},
		     std::pair{2u, 41 * pkt / 4}, std::pair{3u, 8 * pkt}, std::pair{1000u, 8 * pkt}}) {
		Side side(config_delay());

		grown(side, 40);
		side.conn.congestion.threshold = 20 * pkt;
		round_trip(side, 60 * us);
		side.now = side.conn.sender.sent_ns + pause * side.conn.rtt.rto_ns + 1;
		ASSERT_TRUE(side.can_send());
		side.send();
		EXPECT_EQ(rel_window_256(&side.conn), left) << pause;
		EXPECT_EQ(side.conn.congestion.threshold, pause ? 41 * pkt - 41 * pkt / 4 : 20 * pkt)
			<< pause;
	}
}

TEST(rel_congestion_delay, forgets_nothing_before_a_time_out_is_over)
{
	Side side(config_delay());

	grown(side, 40);
	round_trip(side, 60 * us);
	side.now = side.conn.sender.sent_ns + 2 * side.conn.rtt.rto_ns;
	side.send();
	EXPECT_EQ(rel_window_256(&side.conn), 41 * pkt / 2) << "the second one ends now";
}

// Else a few packets after a pause would bring all of it back.
TEST(rel_congestion_delay, grows_by_no_more_than_was_sent)
{
	Side side(config_delay());

	grown(side, 16);
	side.conn.congestion.threshold = 64 * pkt;
	side.conn.congestion.limited = true;
	round_trip(side, 60 * us, 4);
	EXPECT_EQ(rel_window_256(&side.conn), 20 * pkt);
}

TEST(rel_congestion_delay, a_pause_makes_no_small_window_larger)
{
	Side side(config_delay());

	grown(side, 16);
	side.conn.congestion.window = 3 * pkt;
	side.conn.congestion.threshold = 3 * pkt;
	side.conn.congestion.window_pkts = 3;
	side.now = side.conn.sender.sent_ns + 10 * side.conn.rtt.rto_ns;
	side.send();
	EXPECT_EQ(rel_window_256(&side.conn), 3 * pkt);
	EXPECT_EQ(side.conn.congestion.threshold, 3 * pkt);
}

TEST(rel_congestion_delay, learns_the_smallest_round_trip_anew_after_a_long_pause)
{
	Side side(config_delay());

	grown(side, 40);
	side.now = side.conn.sender.sent_ns + 10000 * ms;
	round_trip(side, 400 * us, 1);
	EXPECT_EQ(side.conn.rtt.min_ns, 50 * us);
	side.now = side.conn.sender.sent_ns + 10000 * ms + 1;
	round_trip(side, 400 * us, 1);
	EXPECT_EQ(side.conn.rtt.min_ns, 400 * us) << "the route may be another";
}

TEST(rel_congestion_delay, starts_again_on_another_queue_pair)
{
	Side side(config_delay());

	grown(side, 40);
	rel_conn_requeue(&side.conn, side.now);
	EXPECT_EQ(rel_window_256(&side.conn), 8 * pkt);
	round_trip(side, 70 * us);
	EXPECT_EQ(side.conn.rtt.min_ns, 70 * us);
}

namespace
{

// A switch's port: packets of 4 KiB leave it one after the other at 10 Gb/s, and what does not fit is
// dropped.
struct Bottleneck {
	static constexpr u64 packet_ns = 3300;

	u64 most;
	u64 free_ns = 0;
	u64 passed = 0;
	u64 dropped = 0;

	bool takes(u64 now)
	{
		if (free_ns > now + most * packet_ns) {
			dropped++;
			return false;
		}
		free_ns = std::max(free_ns, now) + packet_ns;
		passed++;
		return true;
	}
};

struct Incast {
	double goodput = 0; // of what the bottleneck can carry, until all is delivered
	double dropped = 0; // of what came to it
	bool done = true;
};

// Many senders with as much each for one receiver, all within 10 us; how they follow each other is drawn.
Incast incast(u32 senders, u32 packets_each, u32 queue_pkts, const rel_config &config, u64 seed = 0)
{
	Bottleneck port{queue_pkts};
	std::vector<std::unique_ptr<Link>> links;
	Incast result;
	Random random(seed);
	u64 started = 0, last = 0;

	for (u32 i = 0; i < senders; i++) {
		rel_config mine = config, other = config;

		mine.peer_credit_pkts = other.credit_pkts = 256;
		other.number_start = mine.peer_number_start;
		other.peer_number_start = mine.number_start;
		mine.seed = i + 1;
		links.push_back(std::make_unique<Link>(mine, other, i));
		Link &link = *links.back();

		link.drops = [&port, &link](const End &from, const Packet &packet) {
			return from.index == 0 && packet.id && !port.takes(link.now);
		};
		link.queue = [&port, &link](const End &from, const Packet &packet) {
			return from.index == 0 && packet.id ? port.free_ns - link.now : 0;
		};
		// One packet first: flows are opened before anything is sent on them.
		started = link.now + 2 * ms;
		link.plan(0, link.now, 1);
		link.plan(0, started + random.upto(10 * us), packets_each);
	}
	// When something happens next on each: most have nothing to do most of the time.
	std::vector<u64> due(links.size());
	for (u64 now = started, left = senders; last == 0 && now < started + 60000 * ms; now += 2 * us) {
		for (std::size_t i = 0; i < links.size(); i++) {
			if (due[i] > now)
				continue;
			const bool done = links[i]->run(now);
			due[i] = done ? REL_TIME_NEVER : links[i]->next_event();
			left -= done;
		}
		if (!left)
			last = now;
	}
	result.done = last != 0;
	if (!result.done)
		return result;
	result.goodput = static_cast<double>(senders) * packets_each * Bottleneck::packet_ns /
		static_cast<double>(last - started);
	result.dropped = static_cast<double>(port.dropped) / static_cast<double>(port.dropped + port.passed);
	return result;
}

} // namespace

// What is sent before anybody can know of the others costs the more the less there is after it; and then it
// depends on who comes when, so this is a mean. ibrelk-scale looks at more and larger ones.
TEST(rel_congestion_delay, incast_does_not_collapse)
{
	for (const auto &[senders, each, least] : {std::tuple{2u, 6400u, 0.95}, std::tuple{16u, 800u, 0.95},
		     std::tuple{128u, 1000u, 0.95}, std::tuple{128u, 100u, 0.65}}) {
		double goodput = 0, dropped = 0;

		for (const u64 seed : {1, 2, 3, 4}) {
			const Incast result = incast(senders, each, 128, config_delay(), seed);

			ASSERT_TRUE(result.done) << senders;
			goodput += result.goodput / 4;
			dropped += result.dropped / 4;
		}
		EXPECT_GT(goodput, least) << senders << " senders of " << each;
		EXPECT_LT(dropped, 0.35) << senders << " senders of " << each;
	}
}

// The same without: most of what is sent is dropped.
TEST(rel_congestion_fixed, incast_collapses)
{
	const Incast result = incast(128, 100, 128, config_usual());

	ASSERT_TRUE(result.done);
	EXPECT_GT(result.dropped, 0.8);
}
