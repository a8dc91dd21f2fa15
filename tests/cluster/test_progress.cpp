// SPDX-License-Identifier: GPL-2.0-only
//
// Progress without the application: a process that is stopped is no slow peer.
#include "cluster.hpp"

#include <csignal>
#include <fmt/format.h>

namespace cluster
{

namespace
{

class Progress : public ClusterTest, public testing::WithParamInterface<std::string>
{
protected:
	static constexpr const char *number = "10.1.0.2:78";

	// A server beside the one that all tests share.
	static lab::Job server()
	{
		auto job = lab().start(2,
			built("user/tools/ibrelk-perf") +
				fmt::format(" --server --local {} --modes {}", number, GetParam()));

		lab().wait_until(2, built("user/tools/ibrelk") + " show endpoints | grep -q 10.1.0.2:78");
		return job;
	}

	static lab::Job client(const std::string &size, int iterations)
	{
		return lab().start(1,
			built("user/tools/ibrelk-perf") +
				fmt::format(" bandwidth {} --verify --iterations {} --size {} --timeout 120 "
					    "--mode {}",
					number, iterations, size, GetParam()));
	}

	// One end of some traffic is stopped for ten seconds, while other traffic goes on; then all of it
	// arrives.
	static void stopped(lab::Job &job, lab::Job &client)
	{
		Growth segments = growth(2, "rx_segments", GetParam());

		ASSERT_TRUE(segments.reaches(50, Duration(120), [&] { return client.running(); }))
			<< client.output();
		job.kill(SIGSTOP);

		Growth lives = growth(1, "lives", GetParam());

		perf("latency --iterations 200 --size 8 --mode " + GetParam());
		// What is on its way is acknowledged by the kernel; so hardly anything is sent again (an
		// emulated node may be late for a tail probe), or asked.
		std::vector<std::pair<std::string, Growth>> repeats;
		for (const std::string name :
			{"retransmits_rack", "retransmits_probe", "retransmits_timeout"})
			for (int node : {1, 2})
				repeats.emplace_back(fmt::format("{} of node {}", name, node),
					growth(node, name, GetParam()));
		Growth acks = growth(2, "tx_acks_explicit", GetParam());
		/* The condition is time itself. */
		lab().run_ok(2, "sleep 10");
		for (auto &[name, repeat] : repeats)
			EXPECT_LE(repeat.value(), 10) << name;
		EXPECT_LE(acks.value(), 50);
		perf("bandwidth --iterations 50 --size 65536 --mode " + GetParam());
		EXPECT_TRUE(client.running()) << client.output();
		EXPECT_EQ(lives.value(), 0);

		job.kill(SIGCONT);
		const Result result = client.wait(Duration(240));
		EXPECT_EQ(result.status, 0) << result.output;
	}
};

TEST_P(Progress, long_stopped_sender)
{
	auto receiver = server();

	for (const auto &size : {"4096", "1048576"}) {
		auto sender = client(size, size == std::string("4096") ? 20000 : 300);

		stopped(sender, sender);
	}
	receiver.kill(15);
	receiver.wait(Duration(30));
}

TEST_P(Progress, long_stopped_receiver)
{
	auto receiver = server();

	for (const auto &size : {"4096", "1048576"}) {
		auto sender = client(size, size == std::string("4096") ? 20000 : 300);

		stopped(receiver, sender);
	}
	receiver.kill(15);
	receiver.wait(Duration(30));
}

INSTANTIATE_TEST_SUITE_P(modes, Progress, testing::Values("uc-reliable", "ud-reliable"),
	[](const auto &info) { return test_name(info.param); });

} // namespace
} // namespace cluster
