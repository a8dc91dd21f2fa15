// SPDX-License-Identifier: GPL-2.0-only
//
// Self-tests that run as programs of their own on a node, and attacks on the wire.
#include "cluster.hpp"

namespace cluster
{

namespace
{

class Programs : public ClusterTest
{
};

// The program reports in KTAP; here it counts as one test.
TEST_F(Programs, abi)
{
	const Result result = lab().run(1, built("tests/selftests/abi"), Duration(240));

	EXPECT_EQ(result.status, 0) << result.output;
	EXPECT_EQ(result.output.find("\nnot ok"), std::string::npos) << result.output;
	EXPECT_NE(result.output.find("\nok 1"), std::string::npos) << result.output;
}

class Attacks : public Programs
{
protected:
	// Verified traffic in the background while damaged copies of its own packets are sent along.
	static void attack(const std::string &mode, const std::string &inject_arguments, int rounds)
	{
		need_server();
		perf("latency --iterations 2 --size 8 --mode " + mode);
		auto job = lab().start(1, built("user/tools/ibrelk-perf") +
			" rate 10.1.0.2 --verify --mixed --size 600 --iterations 30000 --timeout 60 --mode " + mode);
		job.wait_for_output("# mode", Duration(60));
		for (int i = 0; i < rounds && job.running(); i++)
			lab().run(1, built("tests/selftests/inject") +
				" --interface eth0 --to 10.1.0.2 --replay-mutated " + inject_arguments, Duration(60));
		const Result result = job.wait(Duration(240));
		EXPECT_EQ(result.status, 0) << result.output;
	}
};

TEST_F(Attacks, damaged_packets_are_dropped_and_counted)
{
	for (const char *mode : {"uc-reliable", "ud-reliable"})
		attack(mode, "--packets 10 --limit 20", 2);
	for (const char *cause : {"drop_checksum", "drop_version", "drop_length", "rx_duplicates"})
		EXPECT_GT(counter(2, cause), 0) << cause;
}

// A datagram's path is found by its token: what has none is counted by the port, and the port lives on.
TEST_F(Attacks, datagrams_of_no_path_are_counted_by_the_port)
{
	attack("ud-reliable", "--packets 10 --limit 20", 2);
	for (const char *cause : {"drop_token", "drop_version", "drop_length"})
		EXPECT_GT(counter(2, cause, "ports"), 0) << cause;
	perf("latency --iterations 10 --size 8 --mode ud-reliable");
}

} // namespace

} // namespace cluster
