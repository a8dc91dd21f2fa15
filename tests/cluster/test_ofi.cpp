// SPDX-License-Identifier: GPL-2.0-only
//
// The libfabric provider: its conformance tests on a node, and Open MPI over two.
#include "cluster.hpp"

#include <cstdlib>

#include <fmt/format.h>

namespace cluster
{

namespace
{

class Ofi : public ClusterTest
{
protected:
	static std::string provider()
	{
		return built("user/lib/ofi");
	}
};

TEST_F(Ofi, fi_info)
{
	const std::string output = lab().run_ok(1, "FI_PROVIDER_PATH=" + provider() + " fi_info -p ibrelk");

	EXPECT_NE(output.find("provider: ibrelk"), std::string::npos) << output;
	EXPECT_NE(output.find("type: FI_EP_RDM"), std::string::npos) << output;
}

// The program has tests of its own; here it counts as one.
TEST_F(Ofi, conformance)
{
	const Result result = lab().run(
		1, fmt::format("FI_PROVIDER_PATH={} {}", provider(), built("tests/ofi/ofi")), Duration(300));

	EXPECT_EQ(result.status, 0) << result.output;
	EXPECT_NE(result.output.find("[  PASSED  ]"), std::string::npos) << result.output;
}

class Mpi : public Ofi, public testing::WithParamInterface<std::string>
{
protected:
	static std::string keys()
	{
		return built("tests/mpi/keys");
	}

	void SetUp() override
	{
		Ofi::SetUp();

		const std::string make = fmt::format("mkdir -p {0} && for k in id host; do test -e {0}/$k || "
						     "ssh-keygen -q -t ed25519 -N '' "
						     "-f {0}/$k; done",
			keys());

		ASSERT_EQ(std::system(make.c_str()), 0);
		for (int node = 1; node <= lab().nodes(); node++)
			lab().run_ok(node, fmt::format("{}/tests/mpi/node.sh {}", IBRELK_SOURCE, keys()));
	}

	// With so many ranks on each node.
	static std::string mpirun(const std::string &program, int ranks = 1)
	{
		return fmt::format("FI_IBRELK_MODE={0} {1}/tests/mpi/mpirun.sh {2} {3} "
				   "10.1.0.1:{4},10.1.0.2:{4} {5}",
			GetParam(), IBRELK_SOURCE, keys(), provider(), ranks, built("tests/mpi/" + program));
	}

	static void expect_verified(const Result &result)
	{
		EXPECT_EQ(result.status, 0) << result.output;
		EXPECT_NE(result.output.find("verified"), std::string::npos) << result.output;
	}

	static void run(const std::string &program, int ranks, long messages)
	{
		auto received = growth(2, "rx_messages", GetParam());
		const Result result = lab().run(1, mpirun(program, ranks), Duration(600));

		expect_verified(result);
		// It went by us, and not by TCP.
		EXPECT_GE(received.value(), messages) << result.output;
	}

	static void run_while_packets_are_lost(const std::string &program, int ranks, long messages)
	{
		lab().set_fault(1, "loss 1%");
		lab().set_fault(2, "loss 1%");

		auto repeated = growth(1, "retransmits_rack", GetParam());
		auto probed = growth(1, "retransmits_probe", GetParam());
		auto timed_out = growth(1, "retransmits_timeout", GetParam());

		run(program, ranks, messages);
		EXPECT_GT(repeated.value() + probed.value() + timed_out.value(), 0);
	}

	// A ping-pong that goes on as long as a file does not exist; it has begun.
	static lab::Job start_endless()
	{
		lab::Job job = lab().start(1, mpirun(fmt::format("pingpong --until {}", stop)));

		job.wait_for_output("going", Duration(120));
		return job;
	}

	static constexpr const char *stop = "/tmp/mpi-stop";
};

TEST_P(Mpi, ping_pong)
{
	run("pingpong", 1, 24);
}

TEST_P(Mpi, ping_pong_while_packets_are_lost)
{
	run_while_packets_are_lost("pingpong", 1, 24);
}

// Two ranks on each node: so some are neighbours.
TEST_P(Mpi, point_to_point)
{
	run("pointtopoint", 2, 400);
}

TEST_P(Mpi, point_to_point_while_packets_are_lost)
{
	run_while_packets_are_lost("pointtopoint", 1, 400);
}

// The job dies, and says why; nothing stays behind.
TEST_P(Mpi, a_rank_is_killed)
{
	lab::Job job = start_endless();

	lab().run_ok(2, "kill -KILL $(pidof pingpong)");

	const Result result = job.wait(Duration(60));

	EXPECT_NE(result.status, 0);
	EXPECT_NE(result.output.find("signal 9 (Killed)"), std::string::npos) << result.output;
	lab().wait_until(1, "! pidof pingpong");
	for (const int node : {1, 2}) {
		const Result unloaded = unload_module(node);

		EXPECT_EQ(unloaded.status, 0) << unloaded.output;
		load_module(node);
	}
}

// A process that stands still is none that is dead: the job goes on when it does.
TEST_P(Mpi, a_rank_is_stopped)
{
	lab::Job job = start_endless();

	lab().run_ok(2, "kill -STOP $(pidof pingpong)");
	lab().run_ok(2, "sleep 10");
	EXPECT_TRUE(job.running()) << job.output();
	lab().run_ok(2, "kill -CONT $(pidof pingpong)");
	lab().run_ok(1, fmt::format("touch {}", stop));

	const Result result = job.wait(Duration(120));

	lab().run_ok(1, fmt::format("rm {}", stop));
	expect_verified(result);
}

INSTANTIATE_TEST_SUITE_P(Modes, Mpi, testing::Values("uc-reliable", "ud-reliable", "auto"),
	[](const auto &info) { return test_name(info.param); });

} // namespace

} // namespace cluster
