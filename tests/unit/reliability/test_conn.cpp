#include <algorithm>
#include <cstring>

#include <gtest/gtest.h>

#include "side.hpp"

namespace
{

void remember(rel_conn *conn, void *cookie)
{
	Side::of(conn).forgotten.push_back(id_of(cookie));
}

} // namespace

TEST(rel_conn, size)
{
	EXPECT_LE(sizeof(rel_conn), 600u);
	EXPECT_EQ(u32{REL_RING_BYTES}, 2048u);
}

TEST(rel_conn_init, is_at_rest)
{
	Side side;

	EXPECT_EQ(rel_in_flight(&side.conn), 0u);
	EXPECT_EQ(side.next_timeout(), REL_TIME_NEVER);
	EXPECT_EQ(rel_silence_ns(&side.conn, side.now + 1000 * ms), 0u);
	EXPECT_FALSE(side.polled());
	EXPECT_TRUE(side.can_send());
	EXPECT_EQ(side.conn.heard_ns, side.now) << "as if the peer had just said something";
}

TEST(rel_ring, without_one_nothing_is_sent_but_what_is_not_kept)
{
	Side side;
	rel_config config = config_usual();

	EXPECT_TRUE(rel_ring_drop(&side.conn));
	EXPECT_FALSE(side.can_send());
	wire_header header = side.peer_packet(side.peer_start());
	header.flags |= cpu_to_le16(WIRE_ACK_REQUEST);
	side.take(header);
	EXPECT_TRUE(side.polled()) << "an ACK";
	rel_ring_give(&side.conn, side.ring);
	EXPECT_TRUE(side.can_send());

	config.native = true;
	Side native(config);

	EXPECT_TRUE(rel_ring_drop(&native.conn));
	EXPECT_FALSE(native.can_send());
	EXPECT_TRUE(native.can_send(REL_UNRELIABLE));
}

TEST(rel_ring, stays_while_something_is_in_flight)
{
	Side side;

	side.send_many(2);
	side.now += 10 * us;
	side.take(side.peer_ack(side.start() + 1));
	EXPECT_FALSE(rel_ring_drop(&side.conn));
	side.take(side.peer_ack(side.start() + 2));
	EXPECT_TRUE(rel_ring_drop(&side.conn));
}

// What was in it has no meaning any more: neither the losses that it remembered nor the times.
TEST(rel_ring, another_one_may_hold_anything)
{
	Side side;
	u32 n = side.start();

	side.send_many(3);
	side.now += 10 * us;
	rel_conn_requeue(&side.conn, side.now);
	ASSERT_TRUE(rel_bits_any(side.conn.loss.lost));
	ASSERT_TRUE(rel_ring_drop(&side.conn));
	std::memset(side.ring, 0xa5, sizeof(side.ring));
	for (rel_sent &sent : side.ring)
		sent.told = n + 1000; // as if the peer could not know yet, and had got it
	rel_ring_give(&side.conn, side.ring);
	side.send();
	side.take(side.peer_ack(n + 4));
	EXPECT_EQ(side.acked, (std::vector<uintptr_t>{4}));
	EXPECT_EQ(side.conn.stats.spurious, 0u);
	EXPECT_EQ(side.conn.rtt.latest_ns, 0u) << "no time has passed";
}

TEST(rel_conn_drain, gives_cookies_back_in_order)
{
	Side side;
	u32 n = side.start();

	side.send_many(20);
	side.now += 10 * us;
	side.take(side.peer_ack(n + 3, {2, 7}));
	rel_loss_declare(&side.conn, n + 4, REL_LOST_RACK);
	rel_conn_drain(&side.conn, remember);
	EXPECT_EQ(side.acked, (std::vector<uintptr_t>{1, 2, 3, 7, 12}));
	EXPECT_EQ(side.lost.size(), 1u);
	EXPECT_TRUE(std::is_sorted(side.forgotten.begin(), side.forgotten.end()));
	EXPECT_EQ(side.acked.size() + side.lost.size() + side.forgotten.size(), 20u);
	EXPECT_EQ(rel_in_flight(&side.conn), 0u);
	EXPECT_EQ(side.next_timeout(), REL_TIME_NEVER);
}

TEST(rel_conn_requeue, everything_is_lost_and_the_peer_is_asked)
{
	Side side;
	u32 n = side.start();

	side.send_many(5);
	side.now += 10 * us;
	side.take(side.peer_ack(n + 1));
	rel_conn_requeue(&side.conn, side.now);
	EXPECT_EQ(side.lost,
		(std::vector<Side::Lost>{
			{2, REL_LOST_RESET}, {3, REL_LOST_RESET}, {4, REL_LOST_RESET}, {5, REL_LOST_RESET}}));
	EXPECT_EQ(side.conn.stats.lost[REL_LOST_RESET], 4u);
	EXPECT_EQ(rel_in_flight(&side.conn), 0u);

	wire_header header{};

	ASSERT_TRUE(side.poll(header));
	EXPECT_EQ(header.type, WIRE_PACKET_PROBE);
	EXPECT_TRUE(asks(header));
	EXPECT_FALSE(side.polled());
	EXPECT_EQ(number_of(side.send()), n + 5) << "numbers live on";
}

TEST(rel_conn_requeue, forgets_the_backoff)
{
	Side side;

	side.send();
	side.run_timeout(); // tail probe
	side.send();
	side.run_timeout(); // time-out
	side.send();
	EXPECT_EQ(side.next_timeout() - side.now, 20 * ms);
	rel_conn_requeue(&side.conn, side.now);
	side.send();
	EXPECT_EQ(side.next_timeout() - side.now, 10 * ms);
	side.run_timeout();
	EXPECT_EQ(side.conn.stats.lost[REL_LOST_PROBE], 2u) << "the tail is probed again";
	side.send();
	side.run_timeout();
	side.send();
	EXPECT_EQ(side.next_timeout() - side.now, 20 * ms) << "the first time-out of the new one";
}

TEST(rel_conn_requeue, forgets_the_backoff_of_probes)
{
	rel_config config = config_usual();

	config.peer_credit_pkts = 0;
	Side side(config);

	EXPECT_FALSE(side.can_send());
	for (int i = 0; i < 3; i++) {
		EXPECT_TRUE(side.polled());
		side.run_timeout();
	}
	rel_conn_requeue(&side.conn, side.now);
	EXPECT_TRUE(side.polled());
	EXPECT_FALSE(side.can_send());
	EXPECT_FALSE(side.polled());
	EXPECT_EQ(side.next_timeout() - side.now, 10 * ms);
}

TEST(rel_conn_requeue, is_a_sign_of_life)
{
	Side side;

	side.send();
	side.now += 150 * ms;
	EXPECT_EQ(rel_silence_ns(&side.conn, side.now), 150 * ms);
	rel_conn_requeue(&side.conn, side.now);
	side.send();
	EXPECT_EQ(rel_silence_ns(&side.conn, side.now + 3 * ms), 3 * ms);
}

TEST(rel_debt_ns, outlives_the_queue_pair)
{
	Side side;
	u64 begin = side.now;

	side.send();
	// Pauses of more than twice rto_max_us between the packets, too.
	for (u64 pause : {150 * ms, 150 * ms, 3000 * ms, 1 * ms}) {
		side.now += pause;
		EXPECT_EQ(rel_debt_ns(&side.conn, side.now), side.now - begin);
		rel_conn_requeue(&side.conn, side.now);
		EXPECT_EQ(rel_debt_ns(&side.conn, side.now), 0u) << "nothing waits";
		side.send();
		EXPECT_EQ(rel_debt_ns(&side.conn, side.now), side.now - begin);
		EXPECT_EQ(rel_silence_ns(&side.conn, side.now), 0u);
	}
	side.now += 2 * ms;
	side.take(side.peer_ack(side.conn.sender.floor)); // acknowledges nothing
	EXPECT_EQ(rel_debt_ns(&side.conn, side.now + 3 * ms), 3 * ms);
	rel_conn_requeue(&side.conn, side.now + 4 * ms);
	side.now += 5 * ms;
	side.send();
	EXPECT_EQ(rel_debt_ns(&side.conn, side.now), 5 * ms) << "since it was last heard";
	side.take(side.peer_ack(side.conn.sender.next));
	EXPECT_EQ(rel_debt_ns(&side.conn, side.now + 100 * ms), 0u);
}

TEST(rel_debt_ns, begins_when_something_waits)
{
	Side side;

	side.now += 5000 * ms;
	rel_conn_requeue(&side.conn, side.now);
	side.now += 5000 * ms;
	EXPECT_EQ(rel_debt_ns(&side.conn, side.now), 0u);
	side.send();
	EXPECT_EQ(rel_debt_ns(&side.conn, side.now + 7 * ms), 7 * ms);
}

TEST(rel_debt_begin, forgets_what_was_owed_before)
{
	Side side;

	side.send();
	side.now += 5000 * ms;
	rel_debt_begin(&side.conn, side.now);
	EXPECT_EQ(rel_debt_ns(&side.conn, side.now + 3 * ms), 3 * ms);
	side.now += 4 * ms;
	rel_conn_requeue(&side.conn, side.now);
	rel_debt_begin(&side.conn, side.now);
	side.now += 6 * ms;
	side.send();
	EXPECT_EQ(rel_debt_ns(&side.conn, side.now + 2 * ms), 2 * ms)
		<< "nothing was waiting: since it is sent";
}

TEST(rel_debt_ns, of_credits_and_questions)
{
	rel_config config = config_usual();

	config.peer_credit_pkts = 0;
	for (bool asks : {false, true}) {
		Side side(config);
		u64 begin = side.now += 10 * ms;

		if (asks)
			rel_ask(&side.conn, side.now);
		else
			EXPECT_FALSE(side.can_send());
		side.now += 20 * ms;
		rel_conn_requeue(&side.conn, side.now);
		side.now += 30 * ms;
		EXPECT_EQ(rel_debt_ns(&side.conn, side.now), side.now - begin);
		EXPECT_EQ(rel_silence_ns(&side.conn, side.now), 30 * ms);
	}
}

TEST(rel_silence_ns, only_while_something_waits)
{
	Side side;

	side.now += 5000 * ms;
	EXPECT_EQ(rel_silence_ns(&side.conn, side.now), 0u);
	side.send();
	EXPECT_EQ(rel_silence_ns(&side.conn, side.now), 0u) << "counts from the sending";
	EXPECT_EQ(rel_silence_ns(&side.conn, side.now + 7 * ms), 7 * ms);
	side.now += 7 * ms;
	side.take(side.peer_ack(side.start())); // acknowledges nothing, but is a sign of life
	EXPECT_EQ(rel_silence_ns(&side.conn, side.now + 2 * ms), 2 * ms);
	side.take(side.peer_ack(side.start() + 1));
	EXPECT_EQ(rel_silence_ns(&side.conn, side.now + 2 * ms), 0u);
}

TEST(rel_ask, probes_until_something_is_heard)
{
	Side side;
	wire_header header{};
	u64 begin = side.now;

	rel_ask(&side.conn, side.now);
	for (u64 pause : {10 * ms, 20 * ms, 40 * ms, 80 * ms, 100 * ms, 100 * ms}) {
		ASSERT_TRUE(side.poll(header));
		EXPECT_EQ(header.type, WIRE_PACKET_PROBE);
		EXPECT_FALSE(side.polled());
		EXPECT_EQ(side.next_timeout() - side.now, pause);
		EXPECT_EQ(rel_silence_ns(&side.conn, side.now), side.now - begin);
		side.run_timeout();
	}
	side.polled();
	side.take(side.peer_ack(side.start()));
	EXPECT_EQ(side.next_timeout(), REL_TIME_NEVER);
	EXPECT_EQ(rel_silence_ns(&side.conn, side.now + 5 * ms), 0u);
	EXPECT_FALSE(side.polled());
}

TEST(rel_ask, begins_anew_each_time)
{
	Side side;

	rel_ask(&side.conn, side.now);
	for (int i = 0; i < 3; i++) {
		EXPECT_TRUE(side.polled());
		side.run_timeout();
	}
	side.take(side.peer_ack(side.start()));
	side.now += 50 * ms;
	rel_ask(&side.conn, side.now);
	EXPECT_EQ(rel_silence_ns(&side.conn, side.now + 1 * ms), 1 * ms) << "of that question";
	EXPECT_TRUE(side.polled());
	EXPECT_EQ(side.next_timeout() - side.now, 10 * ms) << "and its own pauses";
}

TEST(rel_ask, nothing_more_if_an_answer_is_awaited_anyway)
{
	Side side;

	side.send();
	rel_ask(&side.conn, side.now);
	EXPECT_FALSE(side.polled());
	side.take(side.peer_ack(side.start() + 1));
	EXPECT_EQ(rel_silence_ns(&side.conn, side.now + 5 * ms), 0u);
}

TEST(rel_ask, nor_if_credits_are_asked_for_or_it_has_been_asked)
{
	rel_config config = config_usual();

	config.peer_credit_pkts = 0;
	Side side(config);

	EXPECT_FALSE(side.can_send());
	EXPECT_TRUE(side.polled());
	rel_ask(&side.conn, side.now);
	EXPECT_FALSE(side.polled());
	EXPECT_EQ(side.conn.timer_ns[REL_TIMER_PROBE], side.now + 10 * ms);

	Side idle;

	rel_ask(&idle.conn, idle.now);
	EXPECT_TRUE(idle.polled());
	idle.now += 5 * ms;
	rel_ask(&idle.conn, idle.now);
	EXPECT_FALSE(idle.polled());
	EXPECT_EQ(rel_silence_ns(&idle.conn, idle.now), 5 * ms) << "since the first time";
}

TEST(rel_ask, credits_that_are_lacking_are_still_asked_for_after_the_answer)
{
	rel_config config = config_usual();

	config.peer_credit_pkts = 0;
	Side side(config);

	rel_ask(&side.conn, side.now);
	EXPECT_TRUE(side.polled());
	EXPECT_FALSE(side.can_send()) << "now there is something to send";
	side.now += 1 * ms;
	side.take(side.peer_ack(side.start()));
	EXPECT_EQ(side.next_timeout(), side.now + 9 * ms);
	EXPECT_EQ(rel_silence_ns(&side.conn, side.now + 3 * ms), 3 * ms);
}

TEST(rel_silence_ns, goes_on_through_timeouts)
{
	rel_config config = config_usual();

	config.peer_credit_pkts = 1000;
	Side side(config);
	u64 begin = side.now;

	side.send();
	for (int i = 0; i < 50; i++) {
		side.run_timeout();
		if (side.can_send())
			side.send();
		EXPECT_EQ(side.lost.size(), 1u) << "by the tail probe";
		EXPECT_EQ(rel_silence_ns(&side.conn, side.now), side.now - begin);
	}
}

TEST(rel_silence_ns, of_a_sender_blocked_by_credits)
{
	rel_config config = config_usual();

	config.peer_credit_pkts = 0;
	Side side(config);

	side.now += 5000 * ms;
	u64 begin = side.now;

	EXPECT_FALSE(side.can_send());
	for (int i = 0; i < 50; i++) {
		EXPECT_TRUE(side.polled());
		side.run_timeout();
		EXPECT_FALSE(side.can_send());
		EXPECT_EQ(rel_silence_ns(&side.conn, side.now), side.now - begin);
	}
}

TEST(rel_silence_ns, lack_of_credits_does_not_start_it_anew)
{
	for (bool lost : {false, true}) {
		rel_config config = config_usual();

		config.peer_credit_pkts = 1;
		Side side(config);

		side.send();
		if (lost)
			rel_loss_declare_all(&side.conn, REL_LOST_RACK);
		side.now += 5 * ms;
		EXPECT_FALSE(side.can_send());
		EXPECT_EQ(rel_silence_ns(&side.conn, side.now), 5 * ms) << lost;
	}
}

TEST(rel_silence_ns, starts_anew_when_the_owner_dropped_what_was_lost)
{
	Side side;

	side.send();
	side.run_timeout();
	ASSERT_EQ(side.lost.size(), 1u);
	EXPECT_EQ(rel_silence_ns(&side.conn, side.now), 0u) << "nothing waits";
	side.now += 3600000 * ms;
	side.send();
	EXPECT_EQ(rel_silence_ns(&side.conn, side.now), 0u);
}

// Three small packets were lost, and what they carried went in one; then, after a pause, there is something
// new.
TEST(rel_silence_ns, starts_anew_when_the_peer_has_spoken_since)
{
	for (bool credit : {false, true}) {
		rel_config config = config_usual();

		config.peer_credit_pkts = credit ? 128 : 8;
		Side side(config);

		side.send_many(7);
		side.now += 50 * us;
		side.take(side.peer_ack(side.start(), {2, 3, 4, 5}));
		ASSERT_EQ(side.lost.size(), 3u);
		side.send();
		side.now += 50 * us;
		side.take(side.peer_ack(side.conn.sender.next));
		ASSERT_EQ(rel_in_flight(&side.conn), 0u);
		side.now += 150 * ms;
		EXPECT_EQ(side.can_send(), credit);
		if (credit)
			side.send();
		EXPECT_EQ(rel_silence_ns(&side.conn, side.now), 0u);
		side.now += 1 * ms;
		EXPECT_EQ(rel_silence_ns(&side.conn, side.now), 1 * ms);
	}
}

TEST(rel_silence_ns, goes_on_when_what_was_lost_is_sent_again_in_time)
{
	for (u64 late_ns : {0, 1}) {
		Side side;
		u64 begin = side.now;

		side.send();
		side.run_timeout();
		ASSERT_EQ(side.lost.size(), 1u);
		side.now = begin + 2 * (100 * ms) + late_ns; // twice rto_max_us
		side.send();
		EXPECT_EQ(rel_silence_ns(&side.conn, side.now), late_ns ? 0 : 200 * ms);
	}
}
