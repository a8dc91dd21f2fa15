#include <gtest/gtest.h>

#include "link.hpp"

namespace
{

rel_config config_pair(bool native = false)
{
	rel_config config = config_usual();

	config.native = native;
	config.peer_number_start = config.number_start;
	config.ack_delay_us = 1000;
	return config;
}

// Takes peer packets first to first + count - 1, in order.
void take_many(Side &side, u32 first, u32 count)
{
	for (u32 i = 0; i < count; i++)
		ASSERT_EQ(side.take(side.peer_packet(first + i)), REL_NEW);
}

} // namespace

TEST(rel_ack_fill, says_all_that_was_received)
{
	Side side;
	u32 n = side.peer_start();
	wire_header header{};

	for (u32 number : {n, n + 2, n + 65, n + 66, n + 127})
		side.take(side.peer_packet(number, number - n));
	side.now += 77 * us;
	ASSERT_TRUE(side.poll(header));
	EXPECT_EQ(header.version, WIRE_VERSION);
	EXPECT_EQ(header.type, WIRE_PACKET_ACK);
	EXPECT_EQ(le32_to_cpu(header.ack), n + 1);
	EXPECT_EQ(le64_to_cpu(header.sack[0]), 1ull | 1ull << 63); // n + 2 and n + 65
	EXPECT_EQ(le64_to_cpu(header.sack[1]), 1ull | 1ull << 61); // n + 66 and n + 127
	EXPECT_EQ(le16_to_cpu(header.ack_delay), 77u);
	EXPECT_EQ(le32_to_cpu(header.credit), n + 128 + 128);
	EXPECT_EQ(number_of(header), side.start());
	EXPECT_EQ(header.floor_delta, 0u);
	EXPECT_EQ(header.flags, 0u);
	EXPECT_EQ(header.frames, 0u);
}

TEST(rel_ack_fill, delay_counts_from_the_largest_number_and_saturates)
{
	Side side;
	u32 n = side.peer_start();

	side.take(side.peer_packet(n + 1, 1));
	side.now += 5 * us;
	side.take(side.peer_packet(n));
	EXPECT_EQ(le16_to_cpu(side.send().ack_delay), 5u);
	side.now += 65529 * us + 999;
	EXPECT_EQ(le16_to_cpu(side.send().ack_delay), 65534u);
	side.now += 1;
	EXPECT_EQ(le16_to_cpu(side.send().ack_delay), 65535u);
	side.now += 1 * us;
	EXPECT_EQ(le16_to_cpu(side.send().ack_delay), 65535u);
	side.now += 1000000 * ms;
	EXPECT_EQ(le16_to_cpu(side.send().ack_delay), 65535u);
}

TEST(rel_ack_note, after_so_many_packets)
{
	Side side;
	u32 n = side.peer_start();

	take_many(side, n, 15);
	EXPECT_FALSE(side.polled());
	take_many(side, n + 15, 1);
	EXPECT_TRUE(side.polled());
	EXPECT_FALSE(side.polled());
	EXPECT_EQ(side.next_timeout(), REL_TIME_NEVER);
	EXPECT_EQ(side.conn.stats.acks_explicit, 1u);
}

TEST(rel_ack_note, after_twice_as_many_if_an_ack_will_let_this_side_send)
{
	Side side;
	u32 n = side.peer_start();

	side.send();
	take_many(side, n, 31);
	EXPECT_FALSE(side.polled());
	take_many(side, n + 31, 1);
	EXPECT_TRUE(side.polled());
}

TEST(rel_ack_note, after_a_delay_that_starts_with_the_first)
{
	Side side;
	u32 n = side.peer_start();
	u64 begin = side.now;

	take_many(side, n, 1);
	side.now += 150 * us;
	take_many(side, n + 1, 1);
	EXPECT_EQ(side.next_timeout(), begin + 200 * us);
	side.run_timeout();
	EXPECT_TRUE(side.polled());
	EXPECT_EQ(side.next_timeout(), REL_TIME_NEVER);
}

TEST(rel_ack_note, delay_follows_the_round_trip)
{
	Side side;
	u64 begin = side.now;

	side.send();
	side.now += 170 * us;
	side.take(side.peer_ack(side.start() + 1));
	take_many(side, side.peer_start(), 1);
	EXPECT_EQ(side.next_timeout(), begin + 2 * (170 * us));
}

namespace
{

// A side that knows that a round trip takes 500 us.
struct Far : Side {
	u32 next = peer_start();

	explicit Far(bool native = false) : Side(config_pair_of(native))
	{
		send();
		now += 500 * us;
		take(peer_ack(start() + 1));
	}

	static rel_config config_pair_of(bool native)
	{
		rel_config config = config_usual();

		config.native = native;
		return config;
	}

	// Takes a packet; how long is its ACK put off?
	u64 put_off()
	{
		take(peer_packet(next++));
		return next_timeout() - now;
	}

	void pass(u64 delay_ns)
	{
		const u64 at = now + delay_ns;

		while (next_timeout() <= at) {
			run_timeout();
			polled();
		}
		now = at;
	}

	// Replies so long after the packet of put_off(), and that is acknowledged.
	void reply_after(u64 delay_ns, rel_kind kind = REL_RELIABLE)
	{
		pass(delay_ns);
		send(false, kind);
		take(peer_ack(conn.sender.next));
	}

	// So many late replies; after three the next one is waited for.
	void reply_late(int times = 3)
	{
		for (int i = 0; i < times; i++) {
			EXPECT_EQ(put_off(), 200 * us) << i;
			reply_after(300 * us);
		}
	}
};

} // namespace

TEST(rel_ack_note, waits_longer_for_who_replies_a_little_too_late)
{
	Far side;

	side.reply_late();
	EXPECT_EQ(side.conn.stats.acks_explicit, 3u);
	for (int i = 0; i < 500; i++) {
		EXPECT_EQ(side.put_off(), 500 * us) << i;
		EXPECT_EQ(side.conn.rtt.srtt_ns, 500 * us) << "or this test is about something else";
		side.pass(300 * us);
		side.take(side.peer_ack(side.conn.sender.next));
		side.send();
		side.now += 500 * us;
		side.take(side.peer_ack(side.conn.sender.next));
	}
	EXPECT_EQ(side.conn.stats.acks_explicit, 3u) << "the others went with the replies";
}

TEST(rel_ack_note, waits_no_longer_for_who_replies_later_than_that)
{
	Far side;

	for (int i = 0; i < 5; i++) {
		EXPECT_EQ(side.put_off(), 200 * us) << i;
		side.reply_after(500 * us);
	}
	for (int i = 0; i < 2; i++) {
		EXPECT_EQ(side.put_off(), 200 * us);
		side.reply_after(500 * us - 1);
	}
	EXPECT_EQ(side.put_off(), 200 * us);
	side.reply_after(500 * us);
	for (int i = 0; i < 3; i++) {
		EXPECT_EQ(side.put_off(), 200 * us) << "counting has begun anew";
		side.reply_after(500 * us - 1);
	}
	EXPECT_EQ(side.put_off(), 500 * us);
}

TEST(rel_ack_note, counts_the_time_of_a_reply_from_the_first_packet)
{
	Far side;

	for (int i = 0; i < 5; i++) {
		EXPECT_EQ(side.put_off(), 200 * us) << i;
		side.pass(150 * us);
		side.put_off();
		side.reply_after(350 * us);
	}
}

TEST(rel_ack_note, waits_no_longer_once_no_reply_has_come)
{
	Far side;

	side.reply_late();
	EXPECT_EQ(side.put_off(), 500 * us);
	side.run_timeout();
	EXPECT_TRUE(side.polled());
	EXPECT_EQ(side.put_off(), 200 * us);
	side.reply_after(300 * us);
	EXPECT_EQ(side.put_off(), 200 * us) << "all was forgotten";
}

TEST(rel_ack_note, a_reply_in_time_changes_nothing)
{
	Far side;

	side.reply_late();
	EXPECT_EQ(side.put_off(), 500 * us);
	side.reply_after(100 * us);
	EXPECT_EQ(side.put_off(), 500 * us);
}

TEST(rel_ack_note, what_is_sent_later_without_another_packet_is_no_reply)
{
	Far side;

	side.reply_late();
	side.pass(1000 * us);
	side.send();
	side.take(side.peer_ack(side.conn.sender.next));
	EXPECT_EQ(side.put_off(), 500 * us);
}

TEST(rel_ack_note, a_packet_in_place_of_a_reply_begins_anew)
{
	Far side;

	// The first packet of two waits for its completion, and only the second is replied to.
	for (int i = 0; i < 10; i++) {
		EXPECT_EQ(side.put_off(), 200 * us) << i;
		side.pass(250 * us);
		EXPECT_EQ(side.put_off(), 200 * us) << i;
		side.reply_after(300 * us);
	}
}

TEST(rel_ack_note, what_is_acknowledged_at_once_begins_anew)
{
	Far side;

	side.reply_late();
	wire_header header = side.peer_packet(side.next++);

	header.flags = cpu_to_le16(WIRE_ACK_REQUEST);
	side.take(header);
	EXPECT_TRUE(side.polled());
	side.reply_late(2);
	EXPECT_EQ(side.put_off(), 200 * us) << "those before do not count";
}

TEST(rel_ack_note, a_reply_in_time_to_a_packet_in_place_of_one_is_not_late)
{
	Far side;

	side.put_off();
	side.pass(250 * us);
	side.put_off();
	side.reply_after(100 * us);
	side.reply_late(2);
	EXPECT_EQ(side.put_off(), 200 * us);
}

// It takes no ACK along, so the other side's packet is still to be acknowledged.
TEST(rel_ack_note, what_goes_without_a_header_is_no_reply)
{
	Far side;
	bool ask = false;

	side.reply_late();
	EXPECT_EQ(side.put_off(), 500 * us);
	rel_send_bare(&side.conn, REL_RELIABLE, cookie_of(side.next_id++), false, side.now, &ask);
	side.take(side.peer_ack(side.conn.sender.next));
	side.pass(500 * us);
	EXPECT_EQ(side.conn.stats.acks_explicit, 4u);
	side.reply_late(2);
	EXPECT_EQ(side.put_off(), 200 * us) << "all was forgotten";
}

TEST(rel_ack_note, waits_no_longer_while_something_is_in_flight)
{
	Far side;

	side.reply_late();
	side.send();
	side.take(side.peer_packet(side.next++));
	EXPECT_EQ(side.conn.timer_ns[REL_TIMER_ACK] - side.now, 200 * us)
		<< "the peer may be waiting for this one's ACK as this side does";
	side.take(side.peer_ack(side.conn.sender.next));
	side.send();
	side.take(side.peer_ack(side.conn.sender.next));
	EXPECT_EQ(side.put_off(), 500 * us) << "that was no conversation, and says nothing about one";
}

TEST(rel_ack_note, what_goes_late_after_packets_that_crossed_is_no_reply)
{
	Far side;

	for (int i = 0; i < 3; i++) {
		side.send();
		side.take(side.peer_packet(side.next++));
		side.now = side.conn.timer_ns[REL_TIMER_ACK];
		rel_handle_timeout(&side.conn, side.now);
		EXPECT_TRUE(side.polled());
		side.take(side.peer_ack(side.conn.sender.next));
		side.now += 100 * us;
	}
	side.send();
	side.take(side.peer_ack(side.conn.sender.next));
	EXPECT_EQ(side.put_off(), 200 * us);
}

TEST(rel_ack_note, native_data_is_a_reply_too)
{
	Far side(true);

	for (int i = 0; i < 3; i++) {
		EXPECT_EQ(side.put_off(), 200 * us) << i;
		side.reply_after(300 * us, REL_UNRELIABLE);
	}
	EXPECT_EQ(side.put_off(), 500 * us);
}

TEST(rel_ack_note, what_carries_no_header_is_no_reply)
{
	Far side;

	for (int i = 0; i < 5; i++) {
		bool ask;

		EXPECT_EQ(side.put_off(), 200 * us) << i;
		side.pass(300 * us);
		rel_send_bare(&side.conn, REL_RELIABLE, cookie_of(side.next_id++), false, side.now, &ask);
		side.take(side.peer_ack(side.conn.sender.next));
	}
}

TEST(rel_ack_note, rides_on_what_is_sent)
{
	Side side;
	u32 n = side.peer_start();

	take_many(side, n, 16);
	EXPECT_EQ(le32_to_cpu(side.send().ack), n + 16);
	EXPECT_FALSE(side.polled());
	EXPECT_EQ(side.conn.timer_ns[REL_TIMER_ACK], REL_TIME_NEVER);
	EXPECT_EQ(side.conn.stats.acks_piggybacked, 1u);
	EXPECT_EQ(side.conn.stats.acks_explicit, 0u);
	side.send();
	EXPECT_EQ(side.conn.stats.acks_piggybacked, 1u) << "no ACK was due";
	take_many(side, n + 16, 15);
	EXPECT_FALSE(side.polled()) << "counting has started again";
}

TEST(rel_ack_note, rides_on_native_data)
{
	rel_config config = config_usual();

	config.native = true;
	Side side(config);

	take_many(side, side.peer_start(), 1);
	wire_header header = side.send(false, REL_UNRELIABLE);

	EXPECT_EQ(header.type, WIRE_PACKET_UNRELIABLE);
	EXPECT_EQ(le32_to_cpu(header.ack), side.peer_start() + 1);
	EXPECT_EQ(side.conn.stats.acks_piggybacked, 1u);
	EXPECT_EQ(side.next_timeout(), REL_TIME_NEVER) << "native data waits for nothing";
}

TEST(rel_ack_note, on_request)
{
	Side side;
	wire_header header = side.peer_packet(side.peer_start());

	header.flags = cpu_to_le16(WIRE_ACK_REQUEST);
	EXPECT_EQ(rel_handle_header(&side.conn, &header, side.now), REL_NEW);
	EXPECT_FALSE(side.polled()) << "not before it is kept";
	rel_commit(&side.conn, &header, side.now);
	EXPECT_TRUE(side.polled());
}

TEST(rel_ack_note, at_once_on_a_new_gap_then_every_few_packets)
{
	Side side;
	u32 n = side.peer_start();

	take_many(side, n, 1);
	side.take(side.peer_packet(n + 2, 1));
	EXPECT_TRUE(side.polled()) << "a new gap";
	for (u32 i = 3; i < 6; i++) {
		side.take(side.peer_packet(n + i, i - 1));
		EXPECT_FALSE(side.polled()) << i;
	}
	side.take(side.peer_packet(n + 6, 5));
	EXPECT_TRUE(side.polled()) << "every few packets";
	side.take(side.peer_packet(n + 8, 7));
	EXPECT_TRUE(side.polled()) << "another gap";
	side.take(side.peer_packet(n + 7, 6));
	EXPECT_TRUE(side.polled()) << "late, not lost";
	side.take(side.peer_packet(n + 9, 0)); // closes the first gap by its floor
	EXPECT_FALSE(side.polled());
	side.take(side.peer_packet(n + 12, 2)); // 10 and 11 are missing
	EXPECT_TRUE(side.polled());
	side.take(side.peer_packet(n + 20, 0)); // what is missing was given up at the same time
	EXPECT_FALSE(side.polled());
	take_many(side, n + 21, 14);
	EXPECT_FALSE(side.polled()) << "no gap is left";
	take_many(side, n + 35, 1);
	EXPECT_TRUE(side.polled());
}

TEST(rel_ack_note, small_ack_every_also_counts_in_a_gap)
{
	rel_config config = config_usual();

	config.ack_every_pkts = 2;
	Side side(config);
	u32 n = side.peer_start();

	side.take(side.peer_packet(n + 1, 1));
	EXPECT_TRUE(side.polled());
	side.take(side.peer_packet(n + 2, 2));
	EXPECT_FALSE(side.polled());
	side.take(side.peer_packet(n + 3, 3));
	EXPECT_TRUE(side.polled());
}

TEST(rel_ack_handle, cumulative_across_the_wrap)
{
	Side side;
	u32 n = side.start();

	side.send_many(40);
	side.take(side.peer_ack(n + 20));
	EXPECT_EQ(side.acked.size(), 20u);
	EXPECT_EQ(side.acked.front(), 1u);
	EXPECT_EQ(side.acked.back(), 20u);
	EXPECT_EQ(rel_in_flight(&side.conn), 20u);
	EXPECT_EQ(side.conn.sender.floor, n + 20);
	side.take(side.peer_ack(n + 10)); // overtaken
	side.take(side.peer_ack(n + 20)); // repeated
	EXPECT_EQ(side.acked.size(), 20u);
	side.take(side.peer_ack(n + 40));
	EXPECT_EQ(side.acked.size(), 40u);
	EXPECT_EQ(rel_in_flight(&side.conn), 0u);
	EXPECT_EQ(side.next_timeout(), REL_TIME_NEVER);
	EXPECT_TRUE(side.lost.empty());
}

TEST(rel_ack_handle, selective)
{
	Side side;
	u32 n = side.start();

	side.send_many(10);
	side.now += 100 * us;
	side.take(side.peer_ack(n, {2, 4})); // n + 3 and n + 5
	EXPECT_EQ(side.acked, (std::vector<uintptr_t>{4, 6}));
	EXPECT_EQ(side.conn.sender.floor, n);
	EXPECT_EQ(rel_in_flight(&side.conn), 8u);
	side.take(side.peer_ack(n + 1, {1, 3, 5}));
	EXPECT_EQ(side.acked, (std::vector<uintptr_t>{4, 6, 1, 8}));
	EXPECT_EQ(side.conn.sender.floor, n + 1);
}

TEST(rel_ack_handle, selective_far_above_the_floor)
{
	Side side;
	u32 n = side.start();

	side.send_many(64);
	for (u32 i = 1; i <= 50; i++) {
		rel_loss_declare(&side.conn, n + i, REL_LOST_RACK);
		side.send();
	}
	side.now += 100 * us;
	side.take(side.peer_ack(n, {20, 70, 110})); // n + 21, which is late, n + 71 and n + 111
	EXPECT_EQ(side.acked, (std::vector<uintptr_t>{72, 112}));
	for (u32 i : {80, 90})
		rel_loss_declare(&side.conn, n + i, REL_LOST_RACK);
	side.acked.clear();
	side.take(side.peer_ack(n, {79, 99})); // n + 80, which is late, and n + 100
	EXPECT_EQ(side.acked, (std::vector<uintptr_t>{101}));
}

TEST(rel_ack_handle, every_distance_between_ack_and_floor)
{
	// The receiver may know less than the floor (it has not been told yet) or more.
	for (u32 given_up = 0; given_up < 60; given_up += 7) {
		for (u32 ack = 0; ack <= 64; ack += 1) {
			for (u32 above = 0; ack + 1 + above < 64; above += 5) {
				Side side;
				u32 n = side.start();
				u32 expected = 0;

				side.send_many(64);
				for (u32 i = 0; i < given_up; i++)
					rel_loss_declare(&side.conn, n + i, REL_LOST_RACK);
				EXPECT_EQ(side.conn.sender.floor, n + given_up);
				side.take(side.peer_ack(n + ack, {above}));
				for (uintptr_t id : side.acked) {
					u32 i = id - 1;

					EXPECT_TRUE(i >= given_up && (i < ack || i == ack + 1 + above)) << i;
				}
				for (u32 i = given_up; i < 64; i++)
					expected += i < ack || i == ack + 1 + above;
				ASSERT_EQ(side.acked.size(), expected)
					<< given_up << " " << ack << " " << above;
			}
		}
	}
}

TEST(rel_ack_handle, numbers_never_sent)
{
	Side side;
	u32 n = side.start();

	side.send_many(10);
	for (u32 ack : {n + 11, n + 12, n + 128, n + 1000, n + 0x7fffffff, n + 0x40000000}) {
		side.take(side.peer_ack(ack));
		side.take(side.peer_ack(ack, {127}));
	}
	side.take(side.peer_ack(n, {9}));
	side.take(side.peer_ack(n + 9, {0}));
	side.take(side.peer_ack(n, {127}));
	side.take(side.peer_ack(n + 10 + 0x80000000u - 20, {127})); // the SACK wraps around to the past
	EXPECT_TRUE(side.acked.empty());
	EXPECT_EQ(side.conn.stats.nonsense, 16u);
	EXPECT_EQ(rel_in_flight(&side.conn), 10u);
	side.take(side.peer_ack(n + 9));
	EXPECT_EQ(side.acked.size(), 9u);
}

TEST(rel_ack_handle, long_past)
{
	Side side;
	u32 n = side.start();

	side.send_many(10);
	side.take(side.peer_ack(n - 1));
	for (u32 ack : {n - 101, n - 128, n - 129, n - 130, n - 0x40000000})
		side.take(side.peer_ack(ack, {0, 64, 99}));
	EXPECT_TRUE(side.acked.empty());
	EXPECT_EQ(side.conn.stats.nonsense, 0u);
}

TEST(rel_ack_handle, in_every_type_of_packet)
{
	for (wire_packet_type type :
		{WIRE_PACKET_RELIABLE, WIRE_PACKET_UNRELIABLE, WIRE_PACKET_ACK, WIRE_PACKET_PROBE}) {
		rel_config config = config_usual();

		config.native = true;
		Side side(config);

		side.send();
		wire_header header = side.peer_header(type, side.peer_start());

		header.ack = cpu_to_le32(side.start() + 1);
		side.take(header);
		EXPECT_EQ(side.acked.size(), 1u) << type;
	}
}

TEST(rel_ack_handle, sample_without_the_delay)
{
	Side side;

	side.send();
	side.now += 500 * us;
	side.take(side.peer_ack(side.start() + 1, {}, 380));
	EXPECT_EQ(side.conn.rtt.srtt_ns, 120 * us);
}

TEST(rel_ack_handle, sample_of_less_than_the_unit_of_the_delay)
{
	Side side;

	side.send();
	side.now += 999 * us + 500;
	side.take(side.peer_ack(side.start() + 1, {}, 999));
	EXPECT_EQ(side.conn.rtt.srtt_ns, 500u);
}

TEST(rel_ack_handle, no_sample_from_a_delay_that_cannot_be)
{
	for (u16 delay_us : {500, 501, 65534, 65535}) {
		Side side;

		side.send();
		side.now += 500 * us;
		side.take(side.peer_ack(side.start() + 1, {}, delay_us));
		EXPECT_EQ(side.conn.rtt.srtt_ns, 0u) << delay_us;
		EXPECT_EQ(side.conn.rtt.rto_ns, 10 * ms) << "as it was";
		EXPECT_EQ(side.acked.size(), 1u);
	}
	Side side;

	side.send();
	side.now += 100000 * us;
	side.take(side.peer_ack(side.start() + 1, {}, 65535));
	EXPECT_EQ(side.conn.rtt.srtt_ns, 0u) << "saturated";
}

TEST(rel_ack_handle, no_sample_unless_the_largest_is_new)
{
	Side side;
	u32 n = side.start();

	side.send_many(3);
	side.now += 100 * us;
	side.take(side.peer_ack(n, {1}, 65535)); // n + 2; unusable
	side.now += 10 * us;
	side.take(side.peer_ack(n + 3, {}, 10)); // n and n + 1 are new, but the delay is not theirs
	EXPECT_EQ(side.conn.rtt.latest_ns, 0u);
	EXPECT_TRUE(side.lost.empty()) << "without a sample there is some patience, too";
	EXPECT_EQ(side.acked.size(), 3u);
}

TEST(rel_ack_handle, one_sample_for_each_round_trip)
{
	Side side;
	u32 n = side.start();

	side.send_many(4);
	side.now += 100 * us;
	side.take(side.peer_ack(n + 1));
	EXPECT_EQ(side.conn.rtt.latest_ns, 100 * us);
	side.send();
	side.now += 50 * us;
	side.take(side.peer_ack(n + 4));
	EXPECT_EQ(side.conn.rtt.latest_ns, 100 * us) << "was in flight when the last sample was taken";
	side.take(side.peer_ack(n + 5));
	EXPECT_EQ(side.conn.rtt.latest_ns, 50 * us);
}

TEST(ack_policy, saturated_one_way_stream)
{
	for (u64 serial_ns : {300ull, 1 * us, 3 * us, 10 * us}) {
		Link link(config_pair(), config_pair(), 1);

		for (End &end : link.ends) {
			end.weather.delay_ns = 15 * us;
			end.weather.serial_ns = serial_ns;
		}
		link.plan(0, link.now, 20000);
		ASSERT_TRUE(link.run(link.now + 10000 * ms));
		EXPECT_EQ(link.ends[0].packets, 20000u);
		EXPECT_LE(link.ends[1].controls, 20000u / 16 + 2) << serial_ns;
		EXPECT_EQ(link.ends[0].controls, 0u);
	}
}

TEST(ack_policy, saturated_stream_of_small_bursts_and_uneven_batches)
{
	Link link(config_pair(), config_pair(), 1);

	for (End &end : link.ends) {
		end.weather.delay_ns = 15 * us;
		end.weather.serial_ns = 2 * us;
		end.batch = 7;
	}
	for (u32 i = 0; i < 20000; i += 17)
		link.plan(0, link.now + i * 1990ull, 17);
	ASSERT_TRUE(link.run(link.now + 10000 * ms));
	EXPECT_LE(link.ends[1].controls, link.ends[0].packets / 14);
}

TEST(ack_policy, bidirectional_stream_within_the_rate_of_the_wire)
{
	Link link(config_pair(), config_pair(), 1);

	for (u32 i = 0; i < 10000; i++) {
		link.plan(0, link.now + i * (4 * us), 1);
		link.plan(1, link.now + i * (4 * us) + 1700, 1);
	}
	for (End &end : link.ends)
		end.weather.delay_ns = 15 * us;
	ASSERT_TRUE(link.run(link.now + 10000 * ms));
	EXPECT_LE(link.ends[0].controls + link.ends[1].controls, 4u);
}

// Both ends are always blocked by their windows, and what is on its way carries an ACK that was made before
// it queued: the worst case, in which ACKs must be sent, or both ends would wait for their timers.
TEST(ack_policy, bidirectional_stream_beyond_the_rate_of_the_wire)
{
	Link link(config_pair(), config_pair(), 1);

	for (End &end : link.ends) {
		end.weather.delay_ns = 15 * us;
		end.weather.serial_ns = 2 * us;
	}
	link.plan(0, link.now, 20000);
	link.plan(1, link.now, 20000);
	ASSERT_TRUE(link.run(link.now + 10000 * ms));
	for (End &end : link.ends) {
		EXPECT_EQ(end.packets, 20000u);
		EXPECT_LE(end.controls, 20000u / 32 + 2);
	}
}

TEST(ack_policy, ping_pong)
{
	for (bool native : {false, true}) {
		Link link(config_pair(native), config_pair(native), 1);

		for (End &end : link.ends) {
			end.weather.delay_ns = 13 * us;
			end.replies = 5000;
			end.think_ns = 20 * us;
		}
		link.plan(0, link.now, 1, native ? REL_UNRELIABLE : REL_RELIABLE);
		while (link.step(link.now + 10000 * ms))
			;
		EXPECT_EQ(link.ends[0].packets + link.ends[1].packets, 10001u);
		EXPECT_LE(link.ends[0].controls + link.ends[1].controls, native ? 200u : 2u);
		EXPECT_EQ(link.ends[0].repeat.size(), 0u);
	}
}

TEST(ack_policy, ping_pong_of_who_thinks_for_longer_than_the_usual_delay)
{
	for (u64 think_us : {250, 400, 480}) {
		for (u16 window : {1, 2, 64}) {
			rel_config config = config_pair();

			config.ack_delay_us = 200;
			config.window_pkts = window;
			Link link(config, config, think_us + window);

			for (End &end : link.ends) {
				end.weather.delay_ns = 250 * us;
				end.weather.jitter_ns = 100 * us;
				end.replies = 1000;
				end.think_ns = think_us * us;
			}
			link.plan(0, link.now, 1);
			while (link.step(link.now + 10000 * ms))
				;
			u64 controls = link.ends[0].controls + link.ends[1].controls;

			EXPECT_EQ(link.ends[0].packets + link.ends[1].packets, 2001u)
				<< think_us << ": nothing is sent again in vain";
			EXPECT_LE(controls, 20u) << think_us << ", window " << window;
		}
	}
}

TEST(ack_policy, window_smaller_than_what_the_receiver_counts_to)
{
	for (u16 window : {1, 2, 3, 8, 15}) {
		rel_config config = config_pair();

		config.window_pkts = window;
		config.ack_every_pkts = 64;
		Link link(config, config, 1);
		u64 begin = link.now;

		for (End &end : link.ends)
			end.weather.delay_ns = 10 * us;
		link.plan(0, link.now, 1000);
		ASSERT_TRUE(link.run(link.now + 10000 * ms));
		// Two round trips for each window at most, and only the last waits for the receiver's timer.
		EXPECT_LE(link.now - begin, (1000 / window + 1) * (40 * us) + 1100 * us) << window;
	}
}
