// SPDX-License-Identifier: GPL-2.0-only
//
// Queue pairs that die while verified traffic goes on: by a packet that is longer than any receive buffer
// (UC, UD), or because nobody answers (RC). And ones that go deaf without dying. They are rebuilt, and no
// message is lost, doubled, or damaged.
#include "cluster.hpp"

#include <fmt/format.h>

namespace cluster
{

namespace
{

class Rebuild : public ClusterTest, public ::testing::WithParamInterface<std::string>
{
protected:
	// Verified runs, one after the other, until stop() is called.
	static lab::Job start_traffic(const std::string &mode)
	{
		lab().run_ok(1, "rm -f /tmp/enough");
		return lab().start(1,
			fmt::format("for seed in $(seq 100000); do "
				    "{0} bibandwidth 10.1.0.2 --verify --mixed --size 600 --iterations 4000 "
				    "--timeout 60 --connect-timeout 60 --quiet --seed $seed --mode {1} && "
				    "{0} bibandwidth 10.1.0.2 --verify --mixed --size 30000 --iterations 150 "
				    "--timeout 60 --connect-timeout 60 --quiet --seed $seed --mode {1} || "
				    "exit 1; "
				    "test ! -e /tmp/enough || exit 0; done",
				built("user/tools/ibrelk-perf"), mode));
	}

	static void stop_traffic(lab::Job &job)
	{
		lab().run_ok(1, "touch /tmp/enough");
		const Result result = job.wait(Duration(400));
		EXPECT_EQ(result.status, 0) << result.output;
	}

	// How often this node has made a queue pair anew. The datagram queue pair belongs to a port, and is
	// not counted with any path; the kernel's log tells.
	static Growth rebuilds(int node, const std::string &mode)
	{
		if (mode != "ud-reliable")
			return growth(node, "reconnects", mode);
		return {fmt::format("how often node {} has rebuilt its queue pair", node), [node] {
				return std::stol(lab().run(node, "dmesg | grep -c 'rebuilding it'").output);
			}};
	}

	// Until both nodes' queue pairs have been rebuilt so often.
	static void kill_queue_pairs(lab::Job &traffic, const std::string &mode, int times)
	{
		for (int i = 0; i < 2 * times && traffic.running(); i++) {
			const int from = 1 + i % 2, victim = 3 - from;
			Growth rebuilt = rebuilds(victim, mode);

			rebuilt.reaches(1, Duration(90), [&] {
				/* While the connection is being made, there may be no packet to damage. */
				lab().run(from,
					fmt::format("{} --interface eth0 --to {} --replay-mutated --kinds "
						    "oversized "
						    "--packets 4 --limit 3 --seed {}",
						built("tests/selftests/inject"), Lab::address(victim), i));
				return traffic.running();
			});
		}
		EXPECT_TRUE(traffic.running()) << traffic.output();
	}

	static void under_traffic(const std::string &mode, int times)
	{
		if (lab().options().kernel != "6.1")
			GTEST_SKIP() << "from 6.12 on soft-RoCE drops a packet that is too long, and its "
					"queue pair "
					"lives on: there is nothing to repair";
		need_server();
		perf("latency --iterations 2 --size 8 --mode " + mode);
		auto traffic = start_traffic(mode);
		kill_queue_pairs(traffic, mode, times);
		stop_traffic(traffic);
	}
};

TEST_P(Rebuild, of_killed_queue_pairs_under_traffic)
{
	under_traffic(GetParam(), 2);
}

TEST_P(Rebuild, long_of_killed_queue_pairs_under_traffic)
{
	under_traffic(GetParam(), 40);
}

INSTANTIATE_TEST_SUITE_P(All, Rebuild, ::testing::Values("uc-reliable", "ud-reliable"),
	[](const auto &info) { return test_name(info.param); });

class RebuildDeaf : public Rebuild
{
protected:
	// The first packet of an RDMA write whose other packets never come: from then on soft-RoCE's receiver
	// waits for them, drops all else, and says nothing of it. The write is of 0 bytes, which needs no
	// key.
	static void deafen(int victim)
	{
		lab().run_ok(3 - victim,
			fmt::format("{} --interface eth0 --to {} --redirect --opcode uc-write-first",
				built("tests/selftests/inject"), Lab::address(victim)));
	}

	// Deafens either node's queue pair; each time another takes its place, as @p replaced tells, a
	// counter of node 1. @p spared, if given, is one that does not grow.
	static void under_traffic(
		const std::string &mode, const std::string &replaced, const std::string &spared = "")
	{
		if (lab().options().kernel != "6.1")
			GTEST_SKIP() << "from 6.12 on soft-RoCE drops a first packet that is not full";
		need_server();
		perf("latency --iterations 2 --size 8 --mode " + mode);
		auto traffic = start_traffic(mode);
		const long before = spared.empty() ? 0 : counter(1, spared, mode);
		for (const int victim : {2, 1}) {
			if (mode == "auto")
				lab().wait_until(
					1, built("user/tools/ibrelk") + " show paths | grep -q auto+uc");
			Growth rebuilt = growth(1, replaced, mode);
			deafen(victim);
			EXPECT_TRUE(rebuilt.reaches(1, Duration(90), [&] { return traffic.running(); }))
				<< traffic.output();
		}
		stop_traffic(traffic);
		if (!spared.empty()) {
			EXPECT_EQ(counter(1, spared, mode), before);
		}
	}
};

TEST_F(RebuildDeaf, of_connections)
{
	under_traffic("uc-reliable", "reconnects");
}

// The connection below the lane hears well, and stays.
TEST_F(RebuildDeaf, of_lanes)
{
	under_traffic("auto", "lanes", "reconnects");
}

class RebuildRc : public Rebuild
{
};

// An RC queue pair gives up when a packet has been repeated seven times without an answer.
TEST_F(RebuildRc, of_queue_pairs_that_gave_up)
{
	const std::string mode = "rc-reliable";

	need_server();
	perf("latency --iterations 2 --size 8 --mode " + mode);
	auto traffic = start_traffic(mode);
	for (int i = 0; i < 2; i++) {
		Growth segments = growth(2, "rx_segments", mode);

		lab().wait_until(1,
			fmt::format("{} show paths | grep -q 'rc-reliable *up'", built("user/tools/ibrelk")));
		ASSERT_TRUE(segments.reaches(20, Duration(60), [&] { return traffic.running(); }))
			<< traffic.output();
		Growth reconnects = growth(1, "reconnects", mode);
		lab().link_down(1);
		lab().wait_until(1,
			fmt::format(
				"! {} show paths | grep -q 'rc-reliable *up'", built("user/tools/ibrelk")),
			Duration(60));
		lab().link_up(1);
		EXPECT_TRUE(reconnects.reaches(1));
	}
	stop_traffic(traffic);
}

} // namespace

} // namespace cluster
