#include <gtest/gtest.h>

#include "link.hpp"

namespace
{

using Losses = std::vector<Side::Lost>;

rel_config config_ample()
{
	rel_config config = config_usual();

	config.peer_credit_pkts = 10000;
	return config;
}

// A side that knows its path: 100 us there and back, and nothing in flight.
struct Warm : Side {
	u32 n; // next number

	explicit Warm(const rel_config &config = config_ample()) : Side(config)
	{
		for (int i = 0; i < 50; i++) {
			send();
			now += 100 * us;
			take(peer_ack(conn.sender.next));
		}
		acked.clear();
		n = conn.sender.next;
		next_id = 1;
	}

	// Sends so many, this far apart.
	void send_spaced(int count, u64 apart_ns)
	{
		while (count--) {
			send();
			now += apart_ns;
		}
	}
};

constexpr u64 probe_ns = 2 * (100 * us) + 200 * us; // two round trips and the peer's ACK delay

} // namespace

TEST(rel_loss_handle_reorder, lost_after_a_round_trip_and_a_quarter)
{
	Warm side;
	u64 sent = side.now;

	side.send_spaced(2, 10 * us);
	side.now = sent + 110 * us;
	side.take(side.peer_ack(side.n, {0}));
	EXPECT_TRUE(side.lost.empty()) << "may just be late";
	EXPECT_EQ(side.next_timeout(), sent + 100 * us + 25 * us);
	side.run_timeout();
	EXPECT_EQ(side.lost, (Losses{{1, REL_LOST_RACK}}));
	EXPECT_EQ(side.conn.stats.lost[REL_LOST_RACK], 1u);
	EXPECT_EQ(side.next_timeout(), REL_TIME_NEVER);
}

TEST(rel_loss_handle_reorder, at_once_when_it_is_old_enough)
{
	Warm side;

	side.send_spaced(2, 26 * us);
	side.now += 100 * us - 26 * us;
	side.take(side.peer_ack(side.n, {0}));
	EXPECT_EQ(side.lost, (Losses{{1, REL_LOST_RACK}}));
}

TEST(rel_loss_handle_reorder, three_later_arrivals_need_no_window)
{
	Warm side;

	side.send_spaced(5, 1 * us);
	side.now += 96 * us;
	side.take(side.peer_ack(side.n, {0}));
	side.now += 1 * us;
	side.take(side.peer_ack(side.n, {0, 1}));
	EXPECT_TRUE(side.lost.empty());
	side.now += 1 * us;
	side.take(side.peer_ack(side.n, {0, 1, 2}));
	EXPECT_EQ(side.lost, (Losses{{1, REL_LOST_RACK}}));
}

TEST(rel_loss_handle_reorder, not_even_those_of_one_burst)
{
	Warm side;

	side.send_many(5);
	side.now += 100 * us;
	side.take(side.peer_ack(side.n, {0, 1, 2}));
	EXPECT_EQ(side.lost, (Losses{{1, REL_LOST_RACK}}));
}

TEST(rel_loss_handle_reorder, nor_if_the_window_is_full)
{
	Warm side;

	side.send_many(64);
	for (u32 i : {63, 64}) {
		rel_loss_declare(&side.conn, side.n + i, REL_LOST_PROBE);
		side.send();
	}
	side.now += 100 * us;
	side.take(side.peer_ack(side.n, {64})); // 63 to 65 are not in flight
	EXPECT_EQ(side.conn.stats.lost[REL_LOST_RACK], 63u);
}

TEST(rel_loss_handle_reorder, two_do_even_if_nothing_later_was_sent)
{
	Warm side;

	side.send_spaced(3, 1 * us);
	side.now += 98 * us;
	side.take(side.peer_ack(side.n, {0, 1}));
	EXPECT_TRUE(side.lost.empty());
}

TEST(rel_loss_handle_reorder, but_three_do_where_the_path_reorders)
{
	Warm side;

	side.send_spaced(2, 1 * us);
	side.now += 100 * us;
	side.take(side.peer_ack(side.n, {0}));
	side.take(side.peer_ack(side.n + 2)); // late, and acknowledged after its successor
	EXPECT_TRUE(side.conn.loss.reordered);

	u64 sent = side.now;

	side.send_spaced(5, 1 * us);
	side.now = sent + 105 * us;
	side.take(side.peer_ack(side.n + 2, {0, 1, 2, 3}));
	EXPECT_TRUE(side.lost.empty());
	EXPECT_EQ(side.next_timeout(), sent + 101 * us + 25 * us);
}

TEST(rel_loss_handle_reorder, without_a_sample_the_packet_itself_is_the_measure)
{
	Side side;
	u64 sent = side.now;

	side.send_many(2);
	side.now += 80 * us;
	side.take(side.peer_ack(side.start(), {0}, 65535));
	ASSERT_EQ(side.conn.rtt.srtt_ns, 0u);
	EXPECT_EQ(side.next_timeout(), sent + 80 * us + 20 * us);
}

TEST(rel_loss_handle_reorder, oldest_first_and_no_more_than_that)
{
	Warm side;

	side.send_spaced(8, 1 * us);
	side.now += 92 * us;
	side.take(
		side.peer_ack(side.n + 1, {2, 4})); // cookies 5 and 7; 2, 3, 4 and 6 are missing, 8 is newer
	EXPECT_TRUE(side.lost.empty()) << "two later arrivals";
	side.now += 18 * us;
	rel_handle_timeout(&side.conn, side.now);
	EXPECT_TRUE(side.lost.empty());
	for (uintptr_t id : {2, 3, 4, 6}) {
		side.run_timeout();
		EXPECT_EQ(side.lost.back(), (Side::Lost{id, REL_LOST_RACK}));
	}
	EXPECT_EQ(side.lost.size(), 4u);
	EXPECT_EQ(rel_in_flight(&side.conn), 1u);
	EXPECT_EQ(side.conn.sender.floor, side.n + 7);
	EXPECT_EQ(side.conn.timer_ns[REL_TIMER_REORDER], REL_TIME_NEVER);
	EXPECT_NE(side.conn.timer_ns[REL_TIMER_TAIL], REL_TIME_NEVER);
}

TEST(rel_loss_handle_reorder, late_arrival_does_not_hide_what_is_newer)
{
	Warm side;
	u64 sent = side.now;

	side.send_spaced(4, 1 * us);
	side.now = sent + 103 * us;
	side.take(side.peer_ack(side.n, {2}));     // the fourth
	side.take(side.peer_ack(side.n + 1, {1})); // the first, late
	EXPECT_EQ(side.next_timeout(), sent + 1 * us + 100 * us + 25 * us);
	side.run_timeout();
	side.run_timeout();
	EXPECT_EQ(side.lost, (Losses{{2, REL_LOST_RACK}, {3, REL_LOST_RACK}}));
}

TEST(rel_loss_handle_reorder, nothing_sent_later_was_acknowledged)
{
	Warm side;

	side.send_many(5);
	side.now += 100 * us;
	side.take(side.peer_ack(side.n + 3));
	EXPECT_EQ(side.conn.timer_ns[REL_TIMER_REORDER], REL_TIME_NEVER);
	rel_loss_handle_reorder(&side.conn, side.now + 1000 * ms);
	EXPECT_TRUE(side.lost.empty());
}

TEST(rel_loss_handle_late, an_ack_that_cannot_know_of_the_loss_proves_arrival)
{
	Warm side;

	side.send_spaced(4, 1 * us);
	side.now += 96 * us;
	side.take(side.peer_ack(side.n, {0, 1, 2}));
	ASSERT_EQ(side.lost.size(), 1u);
	EXPECT_EQ(side.conn.loss.window_steps, 1u);
	side.take(side.peer_ack(side.n + 4));
	EXPECT_EQ(side.conn.stats.spurious, 1u);
	EXPECT_EQ(side.conn.loss.window_steps, 2u);
	EXPECT_TRUE(side.conn.loss.reordered);
	side.take(side.peer_ack(side.n + 4));
	EXPECT_EQ(side.conn.stats.spurious, 1u) << "once";
	EXPECT_EQ(side.acked.size(), 3u) << "the cookie went back to its owner";
}

TEST(rel_loss_handle_late, an_ack_that_may_have_been_told_does_not)
{
	Warm side;

	side.send_spaced(4, 1 * us);
	side.now += 96 * us;
	side.take(side.peer_ack(side.n, {0, 1, 2}));
	ASSERT_EQ(side.lost.size(), 1u);
	side.send(); // n + 4 tells that the floor is n + 4
	side.now += 100 * us;
	side.take(side.peer_ack(side.n + 5));
	EXPECT_EQ(side.conn.stats.spurious, 0u);
	EXPECT_EQ(side.conn.loss.window_steps, 1u);
	EXPECT_FALSE(rel_bits_any(side.conn.loss.lost)) << "forgotten";
}

TEST(rel_loss_handle_late, a_sack_bit_always_does)
{
	Warm side;

	side.send_spaced(5, 1 * us);
	side.now += 95 * us;
	side.take(side.peer_ack(side.n, {1, 2, 3})); // n and n + 1 are missing
	ASSERT_EQ(side.lost.size(), 2u);
	side.send();
	side.now += 100 * us;
	side.take(side.peer_ack(side.n, {0, 1, 2, 3, 4})); // n + 1 has come, and n + 5 as well
	EXPECT_EQ(side.conn.stats.spurious, 1u);
	EXPECT_EQ(side.conn.loss.window_steps, 2u);
}

TEST(rel_loss_handle_late, remembers_until_the_slot_is_used_again)
{
	Warm side;

	side.send();
	rel_loss_declare(&side.conn, side.n, REL_LOST_RACK);
	for (u32 i = 1; i < REL_SPAN_MAX; i++) {
		EXPECT_TRUE(rel_bits_any(side.conn.loss.lost)) << i;
		side.send();
		rel_bits_clear(&side.conn.sender.flight, 0);
		side.conn.sender.in_flight--;
		rel_send_advance(&side.conn.sender);
	}
	side.send();
	EXPECT_FALSE(rel_bits_any(side.conn.loss.lost));
	side.take(side.peer_ack(side.n + 1));
	EXPECT_EQ(side.conn.stats.spurious, 0u);
}

TEST(rel_loss_handle_late, knows_the_oldest_number_that_is_remembered)
{
	Warm side;

	side.send();
	rel_loss_declare(&side.conn, side.n, REL_LOST_RACK);
	for (u32 i = 1; i < REL_SPAN_MAX; i++) {
		side.send();
		rel_bits_clear(&side.conn.sender.flight, 0);
		side.conn.sender.in_flight--;
		rel_send_advance(&side.conn.sender);
	}
	side.take(side.peer_ack(side.n + 1));
	EXPECT_EQ(side.conn.stats.spurious, 1u);
	EXPECT_FALSE(rel_bits_any(side.conn.loss.lost));
}

TEST(rel_loss_handle_late, other_causes_do_not_widen_the_window)
{
	for (rel_cause cause : {REL_LOST_PROBE, REL_LOST_TIMEOUT, REL_LOST_RESET}) {
		Warm side;

		side.send();
		rel_loss_declare(&side.conn, side.n, cause);
		side.take(side.peer_ack(side.n + 1));
		EXPECT_EQ(side.conn.stats.spurious, 1u);
		EXPECT_EQ(side.conn.loss.window_steps, 1u);
		EXPECT_FALSE(side.conn.loss.reordered);
	}
}

TEST(rel_loss_handle_late, window_widens_once_for_each_round_trip)
{
	Warm side;

	for (u32 round = 0; round < 4; round++) {
		u32 first = side.conn.sender.next;

		side.send_many(3);
		for (u32 i = 0; i < 3; i++)
			rel_loss_declare(&side.conn, first + i, REL_LOST_RACK);
		side.take(side.peer_ack(first + 3));
		EXPECT_EQ(side.conn.stats.spurious, 3 * (round + 1));
		EXPECT_EQ(side.conn.loss.window_steps, 2 + round);
	}
}

TEST(rel_loss_handle_late, the_first_packet_of_a_round_trip_counts)
{
	Warm side;

	for (u32 round = 0; round < 4; round++) {
		side.send();
		rel_loss_declare(&side.conn, side.n + round, REL_LOST_RACK);
		side.take(side.peer_ack(side.n + round + 1));
		EXPECT_EQ(side.conn.loss.window_steps, 2 + round);
	}
}

TEST(rel_loss_handle_late, so_does_the_first_packet_of_all)
{
	Side side;

	side.send();
	rel_loss_declare(&side.conn, side.start(), REL_LOST_RACK);
	side.take(side.peer_ack(side.start() + 1));
	EXPECT_EQ(side.conn.loss.window_steps, 2u);
}

TEST(rel_loss_handle_late, window_stops_widening)
{
	Warm side;

	side.conn.loss.window_steps = 253;
	for (u32 steps : {254u, 255u, 255u, 255u}) {
		u32 number = side.conn.sender.next;

		side.send();
		rel_loss_declare(&side.conn, number, REL_LOST_RACK);
		side.take(side.peer_ack(number + 1));
		EXPECT_EQ(side.conn.loss.window_steps, steps);
	}
}

TEST(rel_loss_handle_late, an_ack_of_long_ago_says_nothing_beyond_its_bits)
{
	for (u32 behind = 120; behind < 140; behind++) {
		Warm side;
		std::vector<u32> sacked;

		side.send();
		rel_loss_declare(&side.conn, side.n, REL_LOST_RACK);
		for (u32 i = 0; i < std::min(behind, 128u); i++)
			sacked.push_back(i);
		side.take(side.peer_ack(side.n - behind, sacked));
		EXPECT_EQ(side.conn.stats.spurious, behind <= 128 ? 1u : 0u) << behind;
	}
}

TEST(rel_loss_handle_late, window_is_at_most_a_round_trip)
{
	Warm side;

	side.conn.loss.reordered = true;
	side.conn.loss.window_steps = 200;
	u64 sent = side.now;

	side.send_spaced(2, 1 * us);
	side.now = sent + 101 * us;
	side.take(side.peer_ack(side.n, {0}));
	EXPECT_EQ(side.next_timeout(), sent + 100 * us + side.conn.rtt.srtt_ns);
}

TEST(rel_loss_handle_late, window_shrinks_after_quiet_recoveries)
{
	Warm side;

	side.send();
	rel_loss_declare(&side.conn, side.n, REL_LOST_RACK);
	side.take(side.peer_ack(side.n + 1));
	ASSERT_EQ(side.conn.loss.window_steps, 2u);
	for (int recovery = 1; recovery <= 16; recovery++) {
		EXPECT_EQ(side.conn.loss.window_steps, 2u);
		u32 first = side.conn.sender.next;

		side.send_many(3); // two losses, but one recovery
		side.now += 200 * us;
		side.send();
		side.now += 100 * us;
		side.take(side.peer_ack(first, {2}));
		EXPECT_EQ(side.conn.stats.lost[REL_LOST_RACK], 1u + 3 * recovery);
		side.send(); // tells of the loss
		side.take(side.peer_ack(side.conn.sender.next));
	}
	EXPECT_EQ(side.conn.loss.window_steps, 1u);
	EXPECT_EQ(side.conn.stats.spurious, 1u);
}

TEST(rel_loss_handle_late, what_is_sent_after_a_loss_belongs_to_the_next_recovery)
{
	Warm side;

	side.conn.loss.reordered = true;
	side.conn.loss.window_steps = 2;
	side.conn.loss.window_keep = 16;
	for (u32 recovery = 1; recovery <= 16; recovery++) {
		u32 first = side.conn.sender.next;

		EXPECT_EQ(side.conn.loss.window_steps, 2u);
		side.send();
		side.now += 200 * us;
		side.send();
		side.now += 100 * us;
		side.take(side.peer_ack(first, {0}));
		EXPECT_EQ(side.conn.stats.lost[REL_LOST_RACK], recovery);
	}
	EXPECT_EQ(side.conn.loss.window_steps, 1u);
}

TEST(rel_loss_handle_late, and_the_first_loss_of_all_to_one)
{
	Side side;

	side.conn.loss.window_steps = 2;
	side.conn.loss.window_keep = 1;
	side.send();
	side.now += 200 * us;
	side.send();
	side.now += 100 * us;
	side.take(side.peer_ack(side.start(), {0}));
	EXPECT_EQ(side.lost, (Losses{{1, REL_LOST_RACK}}));
	EXPECT_EQ(side.conn.loss.window_steps, 1u);
}

// Else, half the numbers later, they would be ahead of all that is sent, and no window would widen, or
// shrink, any more.
TEST(rel_loss_handle_late, what_marks_a_round_trip_and_a_recovery_moves_on)
{
	Warm side;

	rel_loss_declare_all(&side.conn, REL_LOST_RACK);
	for (int i = 0; i < 10; i++) {
		side.send_many(64);
		side.now += 100 * us;
		side.take(side.peer_ack(side.conn.sender.next));
		EXPECT_EQ(side.conn.loss.recovery_end, side.conn.sender.next);
	}
	EXPECT_EQ(side.conn.loss.round_end, side.conn.sender.next - REL_SPAN_MAX)
		<< "what has been sent before it has no slot any more";
}

TEST(rel_loss_declare, nothing_is_waited_for_when_nothing_is_in_flight)
{
	Warm side;

	side.send_spaced(2, 10 * us);
	side.now += 90 * us;
	side.take(side.peer_ack(side.n, {0}));
	EXPECT_NE(side.conn.timer_ns[REL_TIMER_REORDER], REL_TIME_NEVER);
	EXPECT_NE(side.conn.timer_ns[REL_TIMER_TAIL], REL_TIME_NEVER);
	rel_loss_declare_all(&side.conn, REL_LOST_RESET);
	EXPECT_EQ(side.next_timeout(), REL_TIME_NEVER);
}

TEST(rel_loss_handle_tail, sends_the_last_packet_again_once)
{
	Warm side;

	side.send_spaced(3, 1 * us);
	EXPECT_EQ(side.next_timeout(), side.now - 1 * us + probe_ns);
	side.run_timeout();
	EXPECT_EQ(side.lost, (Losses{{3, REL_LOST_PROBE}}));
	EXPECT_FALSE(side.polled()) << "the packet itself is the probe";
	EXPECT_TRUE(asks(side.send()));
	EXPECT_EQ(side.next_timeout(), side.now + side.conn.rtt.rto_ns) << "then the time-out";
	side.now += 100 * us;
	side.take(side.peer_ack(side.n, {2})); // only the repetition arrived
	EXPECT_EQ(side.lost.size(), 3u) << "RACK finds the rest";
	EXPECT_EQ(side.conn.stats.lost[REL_LOST_RACK], 2u);
	EXPECT_EQ(side.conn.stats.lost[REL_LOST_TIMEOUT], 0u);
}

// What came meanwhile, this side has not looked at either.
TEST(rel_loss_handle_tail, waits_once_more_if_this_side_is_late)
{
	for (const u64 late : {0 * us, probe_ns / 4, probe_ns / 4 + 1, 100 * ms}) {
		Warm side;
		const bool excused = late > probe_ns / 4;

		side.send_many(3);
		side.now = side.next_timeout() + late;
		rel_handle_timeout(&side.conn, side.now);
		ASSERT_EQ(side.lost.size(), excused ? 0u : 1u) << late;
		if (!excused)
			continue;
		EXPECT_EQ(side.next_timeout(), side.now + side.conn.rtt.probe_ns);
		side.now = side.next_timeout() + late;
		rel_handle_timeout(&side.conn, side.now);
		EXPECT_EQ(side.lost, (Losses{{3, REL_LOST_PROBE}})) << "but only once";
	}
}

// Nor does what is sent meanwhile bring back the time that was over.
TEST(rel_loss_handle_tail, what_is_sent_then_has_its_time)
{
	Warm side;

	side.send_many(3);
	side.now = side.next_timeout() + 100 * ms;
	rel_handle_timeout(&side.conn, side.now);
	side.now += 10 * us;
	side.send();
	EXPECT_EQ(side.next_timeout(), side.now + side.conn.rtt.probe_ns);
	side.now += 10 * us;
	rel_handle_timeout(&side.conn, side.now);
	EXPECT_TRUE(side.lost.empty());
}

// What the window has no room for is not given up in vain.
TEST(rel_loss_handle_tail, beyond_the_window_a_probe_asks)
{
	for (const u32 window : {8, 7}) {
		rel_config config = config_ample();

		config.congestion = &rel_congestion_delay;
		config.target_us = 100;
		Warm side(config);

		side.send_many(8);
		side.conn.congestion.window = window * REL_CONGESTION_PKT;
		side.conn.congestion.window_pkts = window;
		side.run_timeout();
		EXPECT_EQ(side.lost, (window == 8 ? Losses{{8, REL_LOST_PROBE}} : Losses{}));
		EXPECT_EQ(side.can_send(), window == 8);
		EXPECT_EQ(side.polled(), window == 7);
		EXPECT_NE(side.conn.timer_ns[REL_TIMER_RTO], REL_TIME_NEVER);
	}
}

TEST(rel_loss_handle_tail, may_be_late_again_after_progress)
{
	Warm side;

	side.send_many(3);
	for (u32 acked = 1; acked <= 2; acked++) {
		side.now = side.next_timeout() + 100 * ms;
		rel_handle_timeout(&side.conn, side.now);
		ASSERT_EQ(side.lost.size(), 0u) << acked;
		side.take(side.peer_ack(side.n + acked));
	}
}

TEST(rel_loss_handle_tail, is_armed_again_after_progress)
{
	Warm side;

	side.send_many(2);
	side.run_timeout();
	side.send();
	side.take(side.peer_ack(side.n + 1));
	side.send();
	EXPECT_EQ(side.next_timeout(), side.now + side.conn.rtt.probe_ns);
	side.run_timeout();
	EXPECT_EQ(side.conn.stats.lost[REL_LOST_PROBE], 2u);
}

TEST(rel_loss_handle_tail, counts_from_the_last_packet_not_from_the_last_ack)
{
	Warm side;
	u64 sent = side.now;

	side.send_many(20);
	side.now += 300 * us;
	side.take(side.peer_ack(side.n + 16, {}, 200));
	EXPECT_EQ(side.next_timeout(), sent + probe_ns);
	side.now = sent + probe_ns - 1 * us;
	side.take(side.peer_ack(side.n + 17, {}, 200));
	EXPECT_EQ(side.next_timeout(), side.now + side.conn.rtt.srtt_ns / 4)
		<< "but an ACK may be just behind";
}

TEST(rel_loss_handle_tail, counts_from_the_very_last_packet)
{
	Warm side;

	side.send_spaced(3, 10 * us);
	side.now += 80 * us;
	side.take(side.peer_ack(side.n + 1));
	EXPECT_EQ(side.next_timeout(), side.now - 90 * us + side.conn.rtt.probe_ns);
}

TEST(rel_loss_handle_tail, sending_on_does_not_put_it_off_for_ever)
{
	Warm side;
	u64 begin = side.now;

	side.send();
	for (int i = 1; i < 60; i++) {
		side.now += 50 * us;
		if (side.now >= side.next_timeout())
			break;
		side.send();
	}
	EXPECT_EQ(side.next_timeout(), begin + side.conn.rtt.rto_ns);
}

TEST(rel_loss_handle_tail, without_credit_a_probe_asks)
{
	rel_config config = config_usual();

	config.peer_credit_pkts = 2;
	Side side(config);
	wire_header header{};

	side.send_many(2);
	side.run_timeout();
	EXPECT_TRUE(side.lost.empty());
	ASSERT_TRUE(side.poll(header));
	EXPECT_EQ(header.type, WIRE_PACKET_PROBE);
	EXPECT_EQ(side.next_timeout(), side.now + side.conn.rtt.rto_ns);
}

TEST(rel_loss_handle_tail, without_a_number_a_probe_asks)
{
	Warm side;
	wire_header header{};

	for (u32 i = 0; i < REL_SPAN_MAX; i++) {
		side.send();
		if (i) { // acknowledged at once
			rel_bits_clear(&side.conn.sender.flight, i);
			side.conn.sender.in_flight--;
		}
	}
	side.run_timeout();
	EXPECT_TRUE(side.lost.empty()) << "there is none for the repeat";
	ASSERT_TRUE(side.poll(header));
	EXPECT_EQ(header.type, WIRE_PACKET_PROBE);
}

// A side whose credit is used up by what it has in flight, of which nothing arrives, when it has asked.
struct Asked : Warm {
	static rel_config config()
	{
		rel_config config = config_usual();

		config.peer_credit_pkts = 52; // two more than the path was learned with
		return config;
	}

	Asked() : Warm(config())
	{
		send_many(2);
		run_timeout();
		EXPECT_TRUE(lost.empty());
		EXPECT_TRUE(polled());
		now += 100 * us;
	}

	// What the peer says when the PROBE has come.
	wire_header granted(u32 ack, u32 pkts) const
	{
		wire_header header = answering(peer_ack(ack));

		header.credit = cpu_to_le32(conn.credit.limit + pkts);
		return header;
	}
};

TEST(rel_loss_handle_answer, what_the_probe_has_overtaken_is_lost)
{
	Asked side;
	const auto cuts = side.conn.stats.window_cuts;

	side.take(side.granted(side.n, 2));
	EXPECT_EQ(side.lost, (Losses{{1, REL_LOST_PROBE}, {2, REL_LOST_PROBE}}));
	EXPECT_EQ(side.conn.stats.timeouts, 0u);
	EXPECT_EQ(side.conn.stats.window_cuts, cuts) << "nobody was silent";
	ASSERT_TRUE(side.can_send());
	side.send_many(2);
	EXPECT_EQ(side.next_timeout(), side.now + side.conn.rtt.probe_ns) << "a tail probe again";
	side.now += 100 * us;
	side.take(side.peer_ack(side.conn.sender.next));
	EXPECT_EQ(side.conn.stats.spurious, 0u);
	EXPECT_EQ(side.conn.loss.answers, 0u);
}

// A share that has grown, say, of which any packet tells.
TEST(rel_loss_handle_answer, more_credit_is_no_answer)
{
	Asked side;
	const u64 next = side.next_timeout();
	wire_header header = side.granted(side.n, 2);

	header.flags = 0;
	side.take(header);
	EXPECT_TRUE(side.lost.empty());
	EXPECT_EQ(side.next_timeout(), next) << "the time-out";
}

// What the peer says of one thing that it cannot know, it may as well say of another.
TEST(rel_loss_handle_answer, an_ack_that_cannot_be_is_no_answer)
{
	Asked side;
	const u64 next = side.next_timeout();
	const u32 limit = side.conn.credit.limit;

	side.take(side.granted(side.n + 3, 2));
	EXPECT_EQ(side.conn.stats.nonsense, 1u);
	EXPECT_TRUE(side.lost.empty());
	EXPECT_EQ(side.next_timeout(), next) << "the time-out";
	EXPECT_EQ(side.conn.credit.limit, limit);
}

TEST(rel_loss_handle_answer, what_is_acknowledged_and_what_rack_has_to_judge_is_not_lost)
{
	Asked side;

	side.take(side.granted(side.n + 1, 1));
	EXPECT_TRUE(side.lost.empty());
	EXPECT_EQ(rel_in_flight(&side.conn), 1u);
	side.run_timeout();
	EXPECT_EQ(side.lost, (Losses{{2, REL_LOST_PROBE}})) << "by a tail probe with payload";
}

TEST(rel_loss_handle_answer, where_there_was_credit_more_of_it_says_nothing)
{
	Warm side;

	side.send_many(2);
	side.run_timeout();
	ASSERT_EQ(side.lost, (Losses{{2, REL_LOST_PROBE}}));
	side.now += side.conn.rtt.srtt_ns;
	wire_header header = side.answering(side.peer_ack(side.n));
	header.credit = cpu_to_le32(side.conn.credit.limit + 1);
	side.take(header);
	EXPECT_EQ(side.lost.size(), 1u);
}

TEST(rel_loss_handle_answer, before_a_tail_probe_more_credit_says_nothing)
{
	Warm side(Asked::config());

	side.send_many(2);
	side.now += 2 * side.conn.rtt.srtt_ns;
	wire_header header = side.answering(side.peer_ack(side.n));
	header.credit = cpu_to_le32(side.conn.credit.limit + 1);
	side.take(header);
	EXPECT_TRUE(side.lost.empty());
	EXPECT_EQ(side.conn.loss.answers, 0u);
}

TEST(rel_loss_handle_answer, two_round_trips_are_the_measure)
{
	for (u64 younger_ns : {0, 1}) {
		Asked side;

		rel_slot(&side.conn, side.n + 1)->sent_ns = side.now - 2 * side.conn.rtt.srtt_ns + younger_ns;
		const u64 due = side.next_timeout(); // the time-out
		side.take(side.granted(side.n, 2));
		EXPECT_EQ(rel_in_flight(&side.conn), younger_ns) << "to the nanosecond";
		side.send();
		EXPECT_EQ(side.next_timeout() == due, younger_ns == 1) << "looks after the younger one";
	}
}

// Before there was a round trip, the time-out, as for other answers.
TEST(rel_loss_handle_answer, without_a_round_trip_a_time_out_is_the_measure)
{
	for (u64 younger_ns : {0, 1}) {
		rel_config config = config_usual();

		config.peer_credit_pkts = 1;
		Side side(config);

		side.send();
		const u64 sent_ns = side.now;

		side.run_timeout();
		EXPECT_TRUE(side.polled());
		side.now = sent_ns + 10 * ms - younger_ns;
		wire_header header = side.answering(side.peer_ack(side.start()));
		header.credit = cpu_to_le32(side.conn.credit.limit + 1);
		side.take(header);
		EXPECT_EQ(rel_in_flight(&side.conn), younger_ns);
	}
}

// Packets too large for some link, say: PROBEs get through, and bring credit each time.
TEST(rel_loss_handle_answer, answers_without_progress_do_not_put_off_time_outs_for_ever)
{
	Asked side;

	for (u32 answers = 0; answers < 16; answers++) {
		side.take(side.granted(side.n, 2));
		ASSERT_EQ(rel_in_flight(&side.conn), 0u);
		side.send_many(2);
		EXPECT_EQ(side.next_timeout() - side.now, side.conn.rtt.probe_ns);
		side.run_timeout();
		EXPECT_TRUE(side.polled());
		side.now += 100 * us;
	}
	side.take(side.granted(side.n, 2));
	EXPECT_EQ(rel_in_flight(&side.conn), 2u);
	const u64 due = side.next_timeout();

	side.run_timeout();
	EXPECT_EQ(side.conn.stats.timeouts, 1u) << "at " << due;
}

// One answer without news may be chance; more would have been time-outs, which make the window smaller.
TEST(rel_loss_handle_answer, the_window_is_smaller_from_the_second_answer_on)
{
	Asked side;

	side.conn.congestion.ops = &rel_congestion_delay;
	for (u32 answers = 0; answers < 4; answers++) {
		side.take(side.granted(side.n, 2));
		ASSERT_EQ(rel_in_flight(&side.conn), 0u);
		EXPECT_EQ(side.conn.stats.window_cuts, answers);
		side.send_many(2);
		side.run_timeout();
		EXPECT_TRUE(side.polled());
		side.now += 100 * us;
	}
}

TEST(rel_loss_handle_answer, what_nothing_is_given_up_for_does_not_count)
{
	Asked side;

	for (u32 i = 0; i < 2; i++)
		rel_slot(&side.conn, side.n + i)->sent_ns = side.now;
	side.take(side.granted(side.n, 2));
	EXPECT_EQ(rel_in_flight(&side.conn), 2u);
	EXPECT_EQ(side.conn.loss.answers, 0u);
}

// Each PROBE has an answer. The first one ends a silence; the second one says nothing of the repeats, which
// were sent after it.
TEST(rel_loss_handle_answer, what_was_sent_after_the_probe_is_not_lost)
{
	Asked side;

	side.run_timeout();
	EXPECT_TRUE(side.polled());
	side.now += 100 * us;
	side.take(side.granted(side.n, 2));
	ASSERT_EQ(side.lost, (Losses{{1, REL_LOST_TIMEOUT}, {2, REL_LOST_TIMEOUT}}));
	EXPECT_EQ(side.conn.loss.answers, 1u) << "one header, one answer";
	side.send_many(2);
	side.now += 2 * side.conn.rtt.srtt_ns;
	side.take(side.granted(side.n, 2));
	EXPECT_EQ(side.lost.size(), 2u);
	EXPECT_EQ(side.conn.loss.answers, 1u);
}

TEST(rel_loss_handle_answer, a_tail_probe_with_payload_overtakes_nothing)
{
	Warm side;

	side.conn.credit.limit = side.n + 3;
	side.send_many(2);
	side.run_timeout();
	ASSERT_EQ(side.lost, (Losses{{2, REL_LOST_PROBE}}));
	side.send();
	side.now += 2 * side.conn.rtt.srtt_ns;
	wire_header header = side.answering(side.peer_ack(side.n));
	header.credit = cpu_to_le32(side.n + 4);
	side.take(header);
	EXPECT_EQ(side.lost.size(), 1u);
}

// Each arrival of what was given up too early brings credit. The PROBE is still behind it.
TEST(rel_loss_handle_answer, late_arrivals_bring_credit_and_say_nothing_of_the_rest)
{
	Asked side;

	side.take(side.granted(side.n, 2));
	ASSERT_EQ(side.lost.size(), 2u);
	side.send_many(2);
	side.run_timeout();
	EXPECT_TRUE(side.polled());
	side.now += 100 * us;
	side.take(side.granted(side.n + 1, 1));
	EXPECT_EQ(side.conn.stats.spurious, 1u);
	EXPECT_EQ(side.lost.size(), 2u);
	EXPECT_EQ(rel_in_flight(&side.conn), 2u);
}

TEST(rel_loss_handle_tail, native_control_needs_no_credit)
{
	rel_config config = config_usual();

	config.native = true;
	config.peer_credit_pkts = 0;
	Side side(config);

	side.send_many(2);
	side.run_timeout();
	ASSERT_EQ(side.lost.size(), 1u);
	EXPECT_FALSE(side.polled());
	// So when there is some, that says nothing of what is in flight.
	side.now += 20 * ms;
	wire_header header = side.peer_ack(side.start());
	header.credit = cpu_to_le32(side.conn.credit.limit + 1);
	side.take(header);
	EXPECT_EQ(side.lost.size(), 1u);
}

TEST(rel_loss_handle_rto, sending_on_does_not_put_it_off)
{
	Warm side;

	side.send_many(2);
	side.run_timeout();
	u64 due = side.next_timeout();

	EXPECT_EQ(due, side.now + side.conn.rtt.rto_ns);
	for (int i = 0; i < 5; i++) {
		side.now += 10 * us;
		side.send();
		EXPECT_EQ(side.next_timeout(), due);
	}
}

// A side with five packets in flight, the last one a tail probe, that has heard nothing, and has asked.
struct Silent : Warm {
	Silent()
	{
		wire_header header{};

		send_many(5);
		run_timeout();
		send();
		run_timeout();
		EXPECT_EQ(lost, (Losses{{5, REL_LOST_PROBE}})) << "nobody has said that anything is lost";
		EXPECT_TRUE(poll(header));
		EXPECT_EQ(header.type, WIRE_PACKET_PROBE);
		EXPECT_FALSE(can_send()) << "into the void";
	}
};

TEST(rel_loss_handle_rto, asks_and_gives_up_what_the_answer_does_not_know)
{
	Silent side;

	// The link is there again, and nothing had come.
	side.now += 100 * us;
	side.take(side.answering(side.peer_ack(side.n)));
	EXPECT_EQ(side.lost,
		(Losses{{5, REL_LOST_PROBE}, {1, REL_LOST_TIMEOUT}, {2, REL_LOST_TIMEOUT},
			{3, REL_LOST_TIMEOUT}, {4, REL_LOST_TIMEOUT}, {6, REL_LOST_TIMEOUT}}));
	EXPECT_EQ(rel_in_flight(&side.conn), 0u);
	EXPECT_EQ(side.conn.sender.floor, side.conn.sender.next);
	EXPECT_EQ(side.next_timeout(), REL_TIME_NEVER) << "until something is sent again";
	EXPECT_TRUE(side.can_send());
	EXPECT_EQ(side.conn.stats.timeouts, 1u);
}

// The peer sends, and so may be late in looking after what it has received: what left before the PROBE came
// knows nothing of what came with it.
TEST(rel_loss_handle_rto, what_left_before_the_probe_came_is_no_answer)
{
	Silent side;
	const u64 due = side.next_timeout();

	for (u32 i = 0; i < 20; i++) {
		side.now += 20 * us;
		EXPECT_EQ(side.take(side.peer_packet(side.peer_start() + i)), REL_NEW);
	}
	EXPECT_EQ(side.lost.size(), 1u) << "by the tail probe";
	EXPECT_FALSE(side.can_send());
	EXPECT_EQ(side.next_timeout(), std::min(due, side.conn.timer_ns[REL_TIMER_ACK]));
	side.take(side.answering(side.peer_packet(side.peer_start() + 20)));
	EXPECT_EQ(side.lost.size(), 6u);
	EXPECT_TRUE(side.can_send());
}

TEST(rel_loss_handle_rto, an_answer_that_knows_something_leaves_the_rest_to_rack)
{
	Warm side;
	u64 begin = side.now;

	side.send_many(5);
	side.run_timeout();
	side.send();
	side.run_timeout();
	side.now += 100 * us;
	side.take(side.peer_ack(side.n + 1, {}, (side.now - begin) / us - 100));
	EXPECT_EQ(side.lost.size(), 1u) << "the peer may only be slow";
	EXPECT_TRUE(side.can_send());
	side.run_timeout();
	EXPECT_GT(side.lost.size(), 1u) << "but what is lost is found";
}

TEST(rel_loss_handle_rto, an_answer_that_knows_everything_repeats_nothing)
{
	Warm side;

	side.send_many(5);
	side.run_timeout();
	side.send();
	side.run_timeout();
	side.now += 100 * us;
	side.take(side.peer_ack(side.conn.sender.next));
	EXPECT_EQ(side.lost.size(), 1u);
	EXPECT_EQ(rel_in_flight(&side.conn), 0u);
	EXPECT_TRUE(side.can_send());
}

TEST(rel_loss_handle_rto, what_has_just_been_sent_may_be_under_way)
{
	Warm side;

	side.send();
	side.run_timeout();
	side.send();
	side.now = side.next_timeout() - 10 * us;
	side.send();
	side.run_timeout();
	u64 next = side.next_timeout();
	side.now += 5 * us;
	side.take(side.answering(side.peer_ack(side.n)));
	EXPECT_EQ(side.lost, (Losses{{1, REL_LOST_PROBE}, {2, REL_LOST_TIMEOUT}}));
	EXPECT_EQ(rel_in_flight(&side.conn), 1u);
	EXPECT_EQ(side.next_timeout(), next) << "and is looked after";
	EXPECT_TRUE(side.can_send()) << "the peer is there";
}

TEST(rel_loss_handle_rto, an_answer_knows_what_was_sent_a_round_trip_before)
{
	for (u64 younger_ns : {0, 1}) {
		Warm side;
		u64 age_ns = side.conn.rtt.srtt_ns - younger_ns;

		side.send();
		side.run_timeout();
		side.send();
		side.now = side.next_timeout() - 10 * us;
		side.send();
		side.run_timeout();
		side.now += age_ns - 10 * us;
		side.take(side.answering(side.peer_ack(side.n)));
		EXPECT_EQ(rel_in_flight(&side.conn), younger_ns) << "to the nanosecond";
	}
}

// If there was no round trip yet, a time-out is what is known; not one that has been doubled, or the answer
// to the second one would not be enough to repeat what was sent before the first.
TEST(rel_loss_handle_rto, without_a_round_trip_a_time_out_is_the_measure)
{
	for (u64 younger_ns : {0, 1}) {
		Side side;

		side.send();
		side.run_timeout();
		side.send();
		const u64 sent_ns = side.now;
		side.run_timeout();
		EXPECT_TRUE(side.polled());
		side.run_timeout();
		EXPECT_TRUE(side.polled());
		EXPECT_EQ(side.conn.stats.timeouts, 2u);
		EXPECT_GT(side.now - sent_ns, 10 * ms) << "rto_initial_us";
		side.now = sent_ns + 10 * ms - younger_ns;
		side.take(side.answering(side.peer_ack(side.start())));
		EXPECT_EQ(rel_in_flight(&side.conn), younger_ns);
	}
}

TEST(rel_loss_handle_rto, doubles_up_to_the_bound_and_starts_anew_with_an_answer)
{
	Warm side;

	side.send();
	side.run_timeout();
	side.send();
	for (u64 pause : {1 * ms, 2 * ms, 4 * ms, 8 * ms, 16 * ms, 32 * ms, 64 * ms, 100 * ms, 100 * ms}) {
		EXPECT_EQ(side.next_timeout() - side.now, pause);
		side.run_timeout();
		EXPECT_TRUE(side.polled());
		EXPECT_FALSE(side.polled()) << "one question at a time";
	}
	EXPECT_EQ(side.conn.stats.lost[REL_LOST_TIMEOUT], 0u);
	side.now += 100 * us;
	side.take(side.answering(side.peer_ack(side.n)));
	EXPECT_EQ(side.conn.stats.lost[REL_LOST_TIMEOUT], 1u);
	side.send();
	EXPECT_EQ(side.next_timeout() - side.now, 1 * ms);
	side.now += 100 * us;
	side.take(side.peer_ack(side.conn.sender.next));
	EXPECT_EQ(side.conn.loss.backoff, 0u);
	side.send();
	EXPECT_EQ(side.next_timeout() - side.now, side.conn.rtt.probe_ns);
}

// Packets too large for some link, say: probes get through.
TEST(rel_loss_handle_rto, answers_without_progress_are_not_for_ever_a_new_start)
{
	Warm side;

	side.send();
	side.run_timeout();
	for (u32 answers = 0; answers < 20; answers++) {
		side.send();
		EXPECT_EQ(side.next_timeout() - side.now, answers <= 16 ? 1 * ms : 1 * ms << (answers - 16));
		while (!side.polled())
			side.run_timeout();
		side.now += 500 * us;
		side.take(side.answering(side.peer_ack(side.n)));
		ASSERT_EQ(rel_in_flight(&side.conn), 0u);
	}
	side.send();
	side.take(side.peer_ack(side.conn.sender.next));
	EXPECT_EQ(side.conn.loss.answers, 0u);
	EXPECT_EQ(side.conn.loss.backoff, 0u);
}

// Found by test_pair with seed 398: the connection never sent anything again.
TEST(rel_loss_handle_rto, what_rack_gives_up_meanwhile_may_be_sent_again)
{
	Warm side;

	side.send_many(3);
	side.run_timeout();
	side.send();
	side.now = side.next_timeout();
	rel_timer_arm(&side.conn, REL_TIMER_REORDER, side.now + 10 * us);
	rel_handle_timeout(&side.conn, side.now);
	EXPECT_FALSE(side.can_send());
	side.polled();
	side.conn.loss.newest = side.conn.sender.next;
	side.run_timeout();
	EXPECT_EQ(rel_in_flight(&side.conn), 0u);
	EXPECT_TRUE(side.can_send());
	side.send();
	EXPECT_NE(side.next_timeout(), REL_TIME_NEVER);
}

TEST(rel_loss_handle_rto, doubles_sixteen_times_at_most)
{
	rel_config config = config_usual();

	config.rto_initial_us = 10;
	config.rto_min_us = 1;
	config.rto_max_us = 4000000000;
	Side side(config);

	side.send();
	side.run_timeout();
	side.send();
	for (int i = 0; i < 30; i++)
		side.run_timeout();
	EXPECT_EQ(side.next_timeout() - side.now, 10 * us << 16);
}

TEST(rel_loss_handle_rto, jitter)
{
	rel_config config = config_usual();

	config.seed = 12345;
	Side side(config);
	u64 least = ~0ull, most = 0;

	side.send();
	side.run_timeout();
	side.send();
	for (int i = 0; i < 12; i++)
		side.run_timeout();
	for (int i = 0; i < 1000; i++) {
		u64 pause = side.next_timeout() - side.now;

		least = std::min(least, pause);
		most = std::max(most, pause);
		side.run_timeout();
	}
	EXPECT_GE(least, 75 * ms);
	EXPECT_LT(least, 76 * ms);
	EXPECT_LE(most, 100 * ms);
	EXPECT_GT(most, 99 * ms);
}

TEST(rel_loss_handle_rto, a_rebuilt_queue_pair_ends_the_silence)
{
	Warm side;

	side.send();
	side.run_timeout();
	side.send();
	side.run_timeout();
	EXPECT_FALSE(side.can_send());
	rel_conn_requeue(&side.conn, side.now);
	EXPECT_TRUE(side.can_send());
	EXPECT_EQ(side.next_timeout(), REL_TIME_NEVER);
}

TEST(rel_loss_handle_rto, backoff_does_not_overflow)
{
	Warm side;

	side.send();
	side.run_timeout();
	side.send();
	for (int i = 0; i < 1000; i++) {
		side.run_timeout();
		EXPECT_LE(side.next_timeout(), side.now + 100 * ms);
		EXPECT_GE(side.next_timeout(), side.now + probe_ns);
	}
}

// Of a burst, the last packets are lost. How long does it take until all have arrived?
TEST(loss_recovery, lost_tail)
{
	constexpr u64 one_way_ns = 50 * us;

	for (u32 burst = 1; burst <= 40; burst += 3) {
		for (u32 tail = 1; tail <= std::min(burst, 10u); tail++) {
			rel_config config = config_ample();

			config.peer_number_start = config.number_start;
			config.credit_pkts = config.peer_credit_pkts;
			config.ack_delay_us = 100;
			Link link(config, config, 1);
			u32 sent = 0;
			bool warm = false;

			for (End &end : link.ends)
				end.weather.delay_ns = one_way_ns;
			for (u32 i = 0; i < 60; i++)
				link.plan(0, link.now + i * (500 * us), 1);
			ASSERT_TRUE(link.run(link.now + 100 * ms));
			link.drops = [&](const End &from, const Packet &packet) {
				if (from.index || !packet.id || !warm)
					return false;
				sent++;
				return sent > burst - tail && sent <= burst;
			};
			warm = true;
			u64 begin = link.now;

			link.plan(0, begin, burst);
			ASSERT_TRUE(link.run(link.now + 100 * ms));
			u64 last_ns = 0;

			for (const Message &message : link.ends[0].messages)
				last_ns = std::max(last_ns, message.delivered_ns);
			// What a loss of one adds: 2.2 round trips and the ACK delay. RACK takes one more for
			// the rest.
			u64 bound = (tail == 1 ? 22 : 32) * (2 * one_way_ns) / 10 + 100 * us;

			EXPECT_LE(last_ns - begin - one_way_ns, bound) << burst << " " << tail;
			EXPECT_EQ(link.ends[0].conn.stats.lost[REL_LOST_TIMEOUT], 0u) << burst << " " << tail;
		}
	}
}

// What fraction of the wire's capacity is useful?
TEST(loss_recovery, goodput_of_a_saturated_stream)
{
	for (auto [loss, least_pct] : {std::pair{0u, 99u}, {1000u, 99u}, {10000u, 95u}, {50000u, 85u}}) {
		rel_config config = config_usual();

		config.peer_number_start = config.number_start;
		Link link(config, config, 7);

		for (End &end : link.ends) {
			end.weather.delay_ns = 20 * us;
			end.weather.loss = loss;
		}
		link.ends[0].weather.serial_ns = 4 * us;
		u64 begin = link.now;

		link.plan(0, begin, 20000);
		ASSERT_TRUE(link.run(link.now + 10000 * ms));
		u64 pct = 20000 * (4 * us) * 100 / (link.now - begin);

		EXPECT_GE(pct, least_pct) << loss;
		EXPECT_EQ(link.ends[0].conn.stats.spurious, 0u);
	}
}

TEST(loss_recovery, reordering_stops_being_taken_for_loss)
{
	rel_config config = config_usual();

	config.peer_number_start = config.number_start;
	Link link(config, config, 3);

	for (End &end : link.ends) {
		end.weather.delay_ns = 20 * us;
		end.weather.serial_ns = 2 * us;
		end.weather.jitter_ns = 20 * us;
	}
	link.plan(0, link.now, 20000);
	ASSERT_TRUE(link.run(link.now + 10000 * ms));
	EXPECT_LE(link.ends[0].packets, 20000u * 101 / 100) << "repeats";
}
