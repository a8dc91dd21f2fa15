#include <gtest/gtest.h>

#include "side.hpp"

TEST(rel_can_send, window)
{
	Side side;

	for (int i = 0; i < 64; i++) {
		EXPECT_TRUE(side.can_send());
		side.send();
	}
	EXPECT_FALSE(side.can_send());
	EXPECT_FALSE(side.polled()) << "not a matter of credits";
	side.take(side.peer_ack(side.start() + 1));
	EXPECT_TRUE(side.can_send());
}

TEST(rel_can_send, window_out_of_range)
{
	for (u16 window : {0, 65, 65535}) {
		rel_config config = config_usual();

		config.window_pkts = window;
		Side side(config);
		u32 sent = 0;

		while (side.can_send()) {
			side.send();
			sent++;
		}
		EXPECT_EQ(sent, window ? REL_SPAN_MAX / 2 : 1u);
	}
}

TEST(rel_can_send, span_of_numbers)
{
	rel_config config = config_usual();

	config.peer_credit_pkts = 1000;
	Side side(config);
	u32 n = side.start();

	// All but the first are acknowledged as soon as they are sent; RACK does not get the time to give it
	// up.
	side.send();
	for (u32 i = 1; i < REL_SPAN_MAX; i++) {
		ASSERT_TRUE(side.can_send()) << i;
		side.send();
		rel_bits_clear(&side.conn.sender.flight, i);
		side.conn.sender.in_flight--;
	}
	EXPECT_EQ(rel_in_flight(&side.conn), 1u);
	EXPECT_FALSE(side.can_send());
	side.take(side.peer_ack(n + 1));
	EXPECT_TRUE(side.can_send());
}

TEST(rel_can_send, native_data_has_no_window)
{
	rel_config config = config_usual();

	config.native = true;
	Side side(config);

	for (int i = 0; i < 128; i++) {
		EXPECT_TRUE(side.can_send(REL_UNRELIABLE));
		wire_header header = side.send(true, REL_UNRELIABLE);

		EXPECT_EQ(number_of(header), side.start() + i);
		EXPECT_EQ(header.flags, 0u);
		EXPECT_EQ(header.floor_delta, 0u);
	}
	EXPECT_FALSE(side.can_send(REL_UNRELIABLE)) << "credits";
	EXPECT_TRUE(side.can_send(REL_RELIABLE)) << "control needs none";
	EXPECT_EQ(rel_in_flight(&side.conn), 0u);
	EXPECT_EQ(number_of(side.send()), side.start()) << "a space of its own";
}

TEST(rel_can_send, misuse_is_caught)
{
	Side side;

	EXPECT_DEATH(side.can_send(REL_UNRELIABLE), "WARN");
	side.send_many(64);
	EXPECT_DEATH(side.send_many(65), "WARN") << "beyond the ring";
}

TEST(rel_send, fills_the_header)
{
	Side side;
	u32 n = side.start();
	wire_header header = side.send();

	EXPECT_EQ(header.version, WIRE_VERSION);
	EXPECT_EQ(header.type, WIRE_PACKET_RELIABLE);
	EXPECT_EQ(number_of(header), n);
	EXPECT_EQ(le32_to_cpu(header.ack), side.peer_start());
	EXPECT_EQ(header.sack[0] | header.sack[1], 0u);
	EXPECT_EQ(le32_to_cpu(header.credit), side.peer_start() + 128);
	EXPECT_EQ(header.floor_delta, 0u);
	EXPECT_EQ(header.flags, 0u);
	EXPECT_EQ(header.frames, 0u) << "the owner counts them";
	EXPECT_EQ(header.ack_delay, 0u) << "since nothing has been received";
}

TEST(rel_send, floor_is_the_oldest_in_flight)
{
	Side side;
	u32 n = side.start();

	side.send_many(10);
	EXPECT_EQ(le16_to_cpu(side.send().floor_delta), 10u);
	side.take(side.peer_ack(n + 4));
	EXPECT_EQ(le16_to_cpu(side.send().floor_delta), 11u - 4);
	rel_loss_declare(&side.conn, n + 4, REL_LOST_RACK);
	EXPECT_EQ(le16_to_cpu(side.send().floor_delta), 12u - 5) << "a lost one is not waited for";
	side.now += 100 * us;
	side.take(side.peer_ack(n + 13));
	EXPECT_EQ(le16_to_cpu(side.send().floor_delta), 0u) << "nothing else is in flight";
}

TEST(rel_send, nothing_in_flight_for_a_time_out_is_no_pause_yet)
{
	static std::vector<u64> pauses;
	static const rel_congestion_ops ops = [] {
		rel_congestion_ops ops = rel_congestion_fixed;

		ops.pause = [](rel_conn *, u64 pause_ns) {
			pauses.push_back(pause_ns);
		};
		return ops;
	}();
	rel_config config = config_usual();

	config.congestion = &ops;
	Side side(config);

	side.send();
	side.take(side.peer_ack(side.conn.sender.next));
	pauses.clear();
	side.now += side.conn.rtt.rto_ns;
	side.send();
	EXPECT_EQ(pauses, (std::vector<u64>{}));
	side.take(side.peer_ack(side.conn.sender.next));
	side.now += side.conn.rtt.rto_ns + 1;
	side.send();
	EXPECT_EQ(pauses, (std::vector<u64>{side.conn.rtt.rto_ns + 1}));
	side.now += side.conn.rtt.rto_ns + 1;
	side.send();
	EXPECT_EQ(pauses.size(), 1u) << "something was in flight";
}

TEST(rel_next, is_what_the_next_packet_of_that_kind_gets)
{
	rel_config config = config_usual();

	config.native = true;
	Side side(config);

	side.send_many(3);
	for (rel_kind kind : {REL_RELIABLE, REL_UNRELIABLE, REL_UNRELIABLE, REL_RELIABLE}) {
		u32 next = rel_next(&side.conn, kind);

		EXPECT_EQ(number_of(side.send(true, kind)), next);
	}
}

TEST(rel_send, does_not_ask_in_a_ping_pong)
{
	Side side;

	for (u32 i = 0; i < 1000; i++) {
		EXPECT_FALSE(asks(side.send()));
		side.now += 30 * us;
		wire_header reply = side.peer_packet(side.peer_start() + i);

		reply.ack = cpu_to_le32(side.start() + i + 1);
		reply.credit = cpu_to_le32(side.start() + i + 1 + 128);
		EXPECT_EQ(side.take(reply), REL_NEW);
	}
	EXPECT_EQ(side.acked.size(), 1000u);
	EXPECT_FALSE(side.polled());
}

TEST(rel_send, asks_after_half_a_window_without_progress)
{
	Side side;
	u32 n = side.start();

	for (int i = 1; i <= 31; i++)
		EXPECT_FALSE(asks(side.send(true))) << i;
	EXPECT_TRUE(asks(side.send(true)));
	for (int i = 33; i <= 40; i++)
		EXPECT_FALSE(asks(side.send(true))) << i;
	side.now += 10 * us;
	side.take(side.peer_ack(n + 1));
	for (int i = 1; i <= 24; i++)
		EXPECT_FALSE(asks(side.send(true))) << i;
}

TEST(rel_send, asks_when_it_closes_the_window_unless_it_has)
{
	rel_config config = config_usual();

	config.window_pkts = 4;
	Side side(config);
	u32 n = side.start();

	EXPECT_FALSE(asks(side.send(true)));
	EXPECT_TRUE(asks(side.send(true))) << "half";
	EXPECT_FALSE(asks(side.send(true)));
	EXPECT_TRUE(asks(side.send(true))) << "half again";
	side.now += 10 * us;
	side.take(side.peer_ack(n + 1));
	EXPECT_FALSE(asks(side.send(true))) << "an answer is on its way";
	side.take(side.peer_ack(n + 4));
	EXPECT_FALSE(asks(side.send(true)));
	side.take(side.peer_ack(n + 5));
	EXPECT_FALSE(asks(side.send(true)));
	EXPECT_TRUE(asks(side.send(true))) << "half since the last progress";
}

TEST(rel_send, does_not_ask_in_a_ping_pong_whose_window_is_one_packet)
{
	rel_config config = config_usual();

	config.window_pkts = 1;
	Side side(config);
	u32 n = side.peer_start();

	EXPECT_TRUE(asks(side.send())) << "nobody has asked";
	for (u32 i = 0; i < 10; i++) {
		wire_header header = side.peer_packet(n + i);

		header.ack = cpu_to_le32(side.conn.sender.next);
		side.take(header);
		EXPECT_FALSE(asks(side.send())) << i;
	}
	side.take(side.peer_ack(side.conn.sender.next));
	EXPECT_TRUE(asks(side.send())) << "an ACK is no question";
	side.take(side.peer_ack(side.conn.sender.next));
	side.take(side.peer_packet(n + 10));
	EXPECT_TRUE(asks(side.send(true))) << "more waits for this ACK";
	side.take(side.peer_ack(side.conn.sender.next));
	EXPECT_TRUE(asks(side.send())) << "the answer was the one before";
	side.take(side.peer_packet(n + 11));
	side.take(side.peer_ack(side.conn.sender.next));
	EXPECT_TRUE(asks(side.send())) << "what crosses is no question";
}

TEST(rel_send, asks_with_the_second_packet_of_an_answer_that_closes_the_window)
{
	rel_config config = config_usual();

	config.window_pkts = 2;
	Side side(config);

	side.take(side.peer_packet(side.peer_start()));
	EXPECT_FALSE(asks(side.send()));
	EXPECT_TRUE(asks(side.send())) << "it is not the only one in flight";
}

TEST(rel_send, asks_when_it_closes_the_window_soon_after_progress)
{
	rel_config config = config_usual();

	config.window_pkts = 8;
	Side side(config);

	for (u32 round = 1; round <= 3; round++) {
		for (int i = 0; i < 3; i++)
			EXPECT_FALSE(asks(side.send(true)));
		side.now += 1 * us;
		side.take(side.peer_ack(side.start() + round));
	}
	EXPECT_FALSE(asks(side.send(true)));
	EXPECT_TRUE(asks(side.send(true))) << "the eighth in flight";
}

TEST(rel_send, asks_with_the_last_credit)
{
	rel_config config = config_usual();

	config.peer_credit_pkts = 3;
	Side side(config);

	EXPECT_FALSE(asks(side.send(true)));
	EXPECT_FALSE(asks(side.send(true)));
	EXPECT_TRUE(asks(side.send(true)));
}

TEST(rel_send, asks_with_the_last_number_of_the_span)
{
	rel_config config = config_usual();

	config.peer_credit_pkts = 1000;
	Side side(config);

	for (u32 i = 0; i < REL_SPAN_MAX; i++) {
		EXPECT_EQ(asks(side.send(true)), i == REL_SPAN_MAX - 1) << i;
		if (i) { // acknowledged at once
			rel_bits_clear(&side.conn.sender.flight, i);
			side.conn.sender.in_flight--;
			side.conn.sender.since_ask = 0;
		}
	}
}

TEST(rel_send, asks_at_the_end_of_a_long_burst)
{
	Side side;

	for (int i = 0; i < 14; i++)
		EXPECT_FALSE(asks(side.send(true)));
	EXPECT_FALSE(asks(side.send(false))) << "15 packets";
	side.now += 10 * us;
	side.take(side.peer_ack(side.start() + 15));
	for (int i = 0; i < 15; i++)
		EXPECT_FALSE(asks(side.send(true)));
	EXPECT_TRUE(asks(side.send(false))) << "16 packets";
	for (int i = 0; i < 15; i++)
		EXPECT_FALSE(asks(side.send(true)));
	EXPECT_FALSE(asks(side.send(false))) << "an answer is on its way";
	side.take(side.peer_ack(side.conn.sender.next));
	for (int i = 0; i < 15; i++)
		EXPECT_FALSE(asks(side.send(true)));
	EXPECT_TRUE(asks(side.send(false))) << "it has come";
	side.take(side.peer_ack(side.conn.sender.next));
	for (int i = 0; i < 14; i++)
		EXPECT_FALSE(asks(side.send(true)));
	EXPECT_FALSE(asks(side.send(false))) << "15 packets again";
}

TEST(rel_send, the_answer_to_a_request_knows_the_packet_that_asked)
{
	for (bool knows : {false, true}) {
		Side side;
		u32 n = side.start();

		for (int i = 0; i < 15; i++)
			EXPECT_FALSE(asks(side.send(true)));
		EXPECT_TRUE(asks(side.send(false)));
		side.now += 10 * us;
		side.take(side.peer_ack(n + 15 + knows));
		for (int i = 0; i < 15; i++)
			EXPECT_FALSE(asks(side.send(true)));
		EXPECT_EQ(asks(side.send(false)), knows);
	}
}

TEST(rel_send, half_of_an_odd_window_is_the_larger_half)
{
	rel_config config = config_usual();

	config.window_pkts = 3;
	Side side(config);

	EXPECT_FALSE(asks(side.send(true)));
	EXPECT_TRUE(asks(side.send(true)));
}

TEST(rel_send, asks_with_the_first_and_every_fourth_repeat)
{
	rel_config config = config_usual();

	config.peer_credit_pkts = 1000;
	Side side(config);

	side.send_many(10);
	rel_loss_declare_all(&side.conn, REL_LOST_TIMEOUT);
	for (int i = 0; i < 10; i++)
		EXPECT_EQ(asks(side.send(true)), i % 4 == 0) << i;
	EXPECT_FALSE(asks(side.send(true))) << "not a repeat";
	rel_loss_declare(&side.conn, side.conn.sender.floor, REL_LOST_RACK);
	EXPECT_TRUE(asks(side.send(true))) << "counting has begun anew";
}

TEST(rel_send, a_repeat_asks_though_it_is_an_answer)
{
	rel_config config = config_usual();

	config.window_pkts = 1;
	Side side(config);

	side.send();
	rel_loss_declare_all(&side.conn, REL_LOST_TIMEOUT);
	side.take(side.peer_packet(side.peer_start()));
	EXPECT_TRUE(asks(side.send()));
	// One more that was repeated, as far as the engine knows, and is not the first of these.
	side.conn.sender.repeats = 1;
	side.conn.sender.repeated = 1;
	side.take(side.peer_ack(side.conn.sender.next));
	side.take(side.peer_packet(side.peer_start() + 1));
	EXPECT_TRUE(asks(side.send())) << "it closes the window";
}

TEST(rel_send, what_follows_a_lost_answer_asks_however_late)
{
	rel_config config = config_usual();

	config.window_pkts = 1;
	Side side(config);

	side.take(side.peer_packet(side.peer_start()));
	EXPECT_FALSE(asks(side.send()));
	rel_loss_declare_all(&side.conn, REL_LOST_TIMEOUT);
	side.now += 200 * ms + 1;
	side.take(side.peer_packet(side.peer_start() + 1));
	EXPECT_TRUE(asks(side.send())) << "half a window has been sent since anything was heard of it";
}
