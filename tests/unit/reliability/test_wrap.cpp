// Counters that wrap. Numbers only matter in relation to one another: wherever they begin, the same link with
// the same weather does the same, packet by packet. Smaller counters are taken past their wrap as they are.

#include <gtest/gtest.h>

#include <iterator>
#include <utility>

#include "link.hpp"

namespace
{

// All that can be seen of a run, but for the numbers themselves.
struct Outcome {
	u64 ended_ns;
	std::vector<u64> counts;

	bool operator==(const Outcome &) const = default;
};

Outcome outcome(
	bool native, u32 start, u32 peer_start, u64 seed, const rel_congestion_ops *congestion = nullptr)
{
	rel_config left = config_usual();

	left.native = native;
	if (congestion) {
		left.congestion = congestion;
		left.target_us = 100;
	}
	left.window_pkts = 32;
	left.credit_pkts = 48;
	left.peer_credit_pkts = 48;
	left.number_start = start;
	left.peer_number_start = peer_start;
	rel_config right = left;

	std::swap(right.number_start, right.peer_number_start);
	Link link(left, right, seed);

	for (End &end : link.ends) {
		end.weather.jitter_ns = 15 * us;
		end.weather.loss = 50000;
		end.weather.control_loss = 50000;
		end.weather.duplicate = 30000;
		end.weather.straggle = 30000;
		link.plan(end.index, link.now + 10 * us, 250);
		link.plan(end.index, link.now + 30 * ms, 100);
		if (native)
			link.plan(end.index, link.now + 20 * us, 300, REL_UNRELIABLE);
	}
	link.run(link.now + 100000 * ms);
	EXPECT_TRUE(link.done());
	link.settle(link.now + 100000 * ms);

	Outcome outcome{link.now, {}};

	for (const End &end : link.ends) {
		const rel_stats &stats = end.conn.stats;

		outcome.counts.insert(outcome.counts.end(),
			{end.packets, end.controls, end.delivered, stats.acks_explicit,
				stats.acks_piggybacked, stats.acks_credit, stats.acks_received,
				stats.probes_sent, stats.timeouts, stats.duplicates, stats.outside_window,
				stats.nonsense, stats.spurious, stats.unreliable_missing,
				end.conn.rtt.srtt_ns, end.conn.loss.window_steps});
		outcome.counts.insert(outcome.counts.end(), std::begin(stats.lost), std::end(stats.lost));
	}
	return outcome;
}

} // namespace

class Wrap : public ::testing::TestWithParam<bool>
{
};

INSTANTIATE_TEST_SUITE_P(
	modes, Wrap, ::testing::Bool(), [](const auto &info) { return info.param ? "native" : "reliable"; });

// Each packet of the run is the one before the wrap in one of them, in either direction.
TEST_P(Wrap, numbers_begin_anywhere)
{
	Outcome usual = outcome(GetParam(), 1000000, 1000000, 7);

	for (u32 below = 0; below <= 420; below++) {
		try {
			ASSERT_EQ(outcome(GetParam(), -below, 1000000, 7), usual)
				<< below << " below the wrap";
			ASSERT_EQ(outcome(GetParam(), -below, below - 420, 7), usual)
				<< below << " below the wrap";
		} catch (const Broken &broken) {
			FAIL() << below << " below the wrap: " << broken.what();
		}
	}
}

// The same for the rounds of the window that follows delay and loss.
TEST_P(Wrap, rounds_of_a_window_that_changes)
{
	Outcome usual = outcome(GetParam(), 1000000, 1000000, 9, &rel_congestion_delay);

	EXPECT_NE(usual, outcome(GetParam(), 1000000, 1000000, 9)) << "it is a window that never changes";
	for (u32 below = 0; below <= 420; below++)
		ASSERT_EQ(outcome(GetParam(), -below, 1000000, 9, &rel_congestion_delay), usual)
			<< below << " below the wrap";
}

// Where the sign changes there is no wrap, and nothing must be made of it.
TEST_P(Wrap, numbers_begin_below_the_change_of_sign)
{
	Outcome usual = outcome(GetParam(), 1000000, 1000000, 8);

	for (u32 below = 0; below <= 420; below += 7)
		ASSERT_EQ(outcome(GetParam(), 0x80000000u - below, 0x7fffffffu, 8), usual) << below;
}

// rel_receiver.pending: an owner that never polls, and more packets than it can count.
TEST(wrap, packets_that_wait_for_an_ack)
{
	rel_config config = config_usual();

	config.native = true; // its control packets need no credit
	Side side(config);

	for (u32 i = 0; i < 65536 + 5; i++) {
		ASSERT_EQ(side.take(side.peer_packet(side.peer_start() + i)), REL_NEW);
		ASSERT_EQ(rel_control_due(&side.conn), i + 1 >= config.ack_every_pkts) << i;
	}
	wire_header header{};

	ASSERT_TRUE(side.poll(header));
	EXPECT_EQ(le32_to_cpu(header.ack), side.peer_start() + 65536 + 5);
	EXPECT_FALSE(side.polled());
}

// rel_sender.burst: whoever never pauses asks when half a window is out, as before.
TEST(wrap, packets_of_a_burst)
{
	Side side;
	u32 half = (side.conn.config.window_pkts + 1u) / 2;

	for (u32 i = 1; i <= 65536 + half; i++) {
		wire_header header = side.send(true);

		ASSERT_EQ(asks(header), i % half == 0) << i;
		if (asks(header)) {
			side.now += 20 * us;
			wire_header ack = side.peer_ack(number_of(header) + 1);

			ack.credit = cpu_to_le32(number_of(header) + 1 + 128);
			side.take(ack);
		}
	}
	EXPECT_EQ(side.acked.size(), 65536u + half);
}

// rel_sender.repeated: nothing but repeats, so that their count never begins anew; each fourth one asks.
TEST(wrap, packets_sent_again)
{
	rel_config config = config_usual();

	config.native = true;
	Side side(config);

	side.send_many(2);
	for (u32 i = 0; i < 65536 + 8; i++) {
		// One is given up before the other has been sent again.
		rel_loss_declare(&side.conn, side.conn.sender.floor, REL_LOST_RACK);
		if (!i)
			continue;
		ASSERT_EQ(side.conn.sender.repeats, 2) << i;
		ASSERT_EQ(asks(side.send()), (i - 1) % 4 == 0) << i;
	}
}
