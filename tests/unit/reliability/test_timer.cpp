#include <gtest/gtest.h>

#include "side.hpp"

TEST(rel_next_timeout, is_the_soonest)
{
	Side side;

	EXPECT_EQ(side.next_timeout(), REL_TIME_NEVER);
	for (int i = 0; i < REL_TIMERS; i++) {
		rel_timer_arm(&side.conn, static_cast<rel_timer>(i), side.now + 10 - i);
		EXPECT_EQ(side.next_timeout(), side.now + 10 - i);
	}
	for (int i = REL_TIMERS - 1; i > 0; i--) {
		rel_timer_disarm(&side.conn, static_cast<rel_timer>(i));
		EXPECT_EQ(side.next_timeout(), side.now + 10 - i + 1);
	}
}

TEST(rel_handle_timeout, early_does_nothing)
{
	Side side;

	side.send_many(5);
	side.take(side.peer_packet(side.peer_start()));
	u64 due = side.next_timeout();

	side.now = due - 1;
	rel_handle_timeout(&side.conn, side.now);
	EXPECT_EQ(side.next_timeout(), due);
	EXPECT_TRUE(side.lost.empty());
	EXPECT_FALSE(side.polled());
}

// An owner that has not sent yet what it should would else be called again and again.
TEST(rel_handle_timeout, what_has_run_out_is_waited_for_no_more)
{
	Side acking, asking;

	acking.take(acking.peer_packet(acking.peer_start()));
	EXPECT_EQ(acking.next_timeout(), acking.conn.timer_ns[REL_TIMER_ACK]);
	acking.run_timeout();
	EXPECT_EQ(acking.next_timeout(), REL_TIME_NEVER);
	EXPECT_TRUE(acking.polled());

	rel_ask(&asking.conn, asking.now);
	EXPECT_TRUE(asking.polled());
	EXPECT_EQ(asking.next_timeout(), asking.conn.timer_ns[REL_TIMER_PROBE]);
	asking.run_timeout();
	EXPECT_EQ(asking.next_timeout(), REL_TIME_NEVER);
	EXPECT_TRUE(asking.polled());
}

TEST(rel_handle_timeout, without_any)
{
	Side side;

	rel_handle_timeout(&side.conn, side.now + 1000000 * ms);
	EXPECT_EQ(side.next_timeout(), REL_TIME_NEVER);
	EXPECT_FALSE(side.polled());
}

TEST(rel_handle_timeout, very_late_does_one_thing_of_each)
{
	Side side;

	side.send_many(5);
	side.take(side.peer_packet(side.peer_start()));
	side.now += 100000 * ms;
	rel_handle_timeout(&side.conn, side.now);
	EXPECT_TRUE(side.polled()) << "the delayed ACK";
	EXPECT_EQ(side.lost.size(), 0u) << "the peer's ACK may be here and not looked at";
	EXPECT_GT(side.next_timeout(), side.now);
	side.now += 100000 * ms;
	rel_handle_timeout(&side.conn, side.now);
	EXPECT_EQ(side.lost.size(), 1u) << "the tail probe comes before the time-out";
	EXPECT_GT(side.next_timeout(), side.now);
}
