// SPDX-License-Identifier: GPL-2.0-only
//
// Automatic mode: datagrams, and a UC queue pair while there is much to carry. Whatever comes and goes below,
// every message arrives once, in order, and right.
#include "cluster.hpp"

#include <fmt/format.h>

namespace cluster
{

namespace
{

class Auto : public ClusterTest
{
protected:
	static constexpr const char *shows_lane = " show paths | grep -q auto+uc";

	void SetUp() override
	{
		ClusterTest::SetUp();
		need_server();
	}

	void TearDown() override
	{
		set("auto_uc_idle_ms", 10000);
		set("auto_uc_max", 256);
		ClusterTest::TearDown();
	}

	static void wait_for_lane()
	{
		for (int node : {1, 2})
			lab().wait_until(node, built("user/tools/ibrelk") + shows_lane);
	}

	static void wait_for_none()
	{
		for (int node : {1, 2})
			lab().wait_until(node, "! " + built("user/tools/ibrelk") + shows_lane);
	}

	static lab::Job endless(unsigned bytes = 32768)
	{
		return lab().start(1,
			fmt::format("exec {} bibandwidth 10.1.0.2 --mixed --verify --timeout 60 --iterations "
				    "100000000 "
				    "--size {} --mode auto",
				built("user/tools/ibrelk-perf"), bytes));
	}

	static void stop(lab::Job &job)
	{
		ASSERT_TRUE(job.running()) << job.output();
		job.kill(15);
		const Result result = job.wait(Duration(60));

		EXPECT_EQ(result.output.find("WRONG"), std::string::npos) << result.output;
	}
};

TEST_F(Auto, is_the_default)
{
	EXPECT_NE(perf("latency --iterations 2 --size 8").find("auto"), std::string::npos);
}

TEST_F(Auto, much_traffic_gets_a_connection_that_is_given_back)
{
	perf("latency --iterations 2 --size 8 --mode auto");
	EXPECT_NE(lab().run(1, built("user/tools/ibrelk") + shows_lane).status, 0)
		<< "a few messages are not worth a connection";
	set("auto_uc_idle_ms", 1000);
	for (int i = 0; i < 3; i++) {
		auto traffic = endless();

		wait_for_lane();
		stop(traffic);
		wait_for_none();
		perf("latency --iterations 2 --size 8,65536 --mode auto");
	}
}

TEST_F(Auto, long_messages_are_written_by_it)
{
	Growth written = growth(2, "rx_written", "auto");
	auto traffic = endless(1 << 20);

	EXPECT_TRUE(written.reaches(1000, Duration(60), [&] { return traffic.running(); }));
	stop(traffic);
}

TEST_F(Auto, comes_and_goes_on_a_bad_wire)
{
	perf("latency --iterations 2 --size 8 --mode auto");
	set("auto_uc_idle_ms", 20);
	for (int node : {1, 2})
		lab().set_fault(node, "loss 2% duplicate 2% delay 1ms 1ms corrupt 0.5%");

	long lanes = counter(1, "lanes");

	for (int i = 0; i < 3; i++) {
		perf("bibandwidth --mixed --iterations 200 --size 32768 --mode auto");
		wait_for_none();
	}
	EXPECT_GT(counter(1, "lanes"), lanes) << "it never came";
}

TEST_F(Auto, does_without_where_there_are_enough)
{
	set("auto_uc_idle_ms", 100);
	set("auto_uc_max", 0);
	wait_for_none();

	const long lanes = counter(1, "lanes");

	perf("bibandwidth --mixed --iterations 300 --size 32768 --mode auto");
	EXPECT_EQ(counter(1, "lanes"), lanes);
}

TEST_F(Auto, survives_the_removal_of_its_device)
{
	set("auto_uc_idle_ms", 1000);
	auto traffic = endless();

	wait_for_lane();
	lab().run_ok(2, "rdma link del rxe0");
	EXPECT_NE(traffic.wait(Duration(60)).status, 0);
	stop_server();
	lab().run_ok(2, "rdma link add rxe0 type rxe netdev eth0");
	perf("bandwidth --iterations 20 --size 8,8192,65536 --mode auto");
}

} // namespace

} // namespace cluster
