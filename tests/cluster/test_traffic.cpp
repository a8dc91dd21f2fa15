// SPDX-License-Identifier: GPL-2.0-only
//
// Traffic in every mode: sizes across every boundary, both doors, and every kind of fault on the wire.
// Each byte of each message is compared with what was sent.
#include "cluster.hpp"

#include <regex>

#include <fmt/format.h>

namespace cluster
{

namespace
{

// Around: nothing, the payload that travels in the header's buffer, one packet, the eager threshold, two
// fragments of a rendezvous, one window of a transfer, and two.
constexpr const char *boundary_sizes =
	"0,1,167,168,169,4007,4008,4009,8016,8191,8192,8193,65536,2097151,2097152,2097153,4194305";

class Modes : public ClusterTest, public ::testing::WithParamInterface<std::string>
{
};

TEST_P(Modes, sizes_across_every_boundary)
{
	Growth written = growth(2, "rx_written", GetParam());

	perf("bandwidth --iterations 3 --warmup 0 --mode " + GetParam() + " --size " + boundary_sizes);
	/* Automatic mode does while it has a connection. */
	if (GetParam().starts_with("uc-") || GetParam().starts_with("rc-")) {
		EXPECT_GT(written.value(), 0);
	} else if (GetParam() != "auto") {
		EXPECT_EQ(written.value(), 0);
	}
}

TEST_P(Modes, ping_pong_and_both_directions)
{
	perf("latency --iterations 100 --size 8,4096,65536 --mode " + GetParam());
	perf("bibandwidth --mixed --iterations 200 --size 16384 --mode " + GetParam());
}

TEST_P(Modes, both_doors)
{
	perf("rate --iterations 500 --size 8 --door ioctl --mode " + GetParam());
	perf("rate --iterations 500 --size 8 --door uring --mode " + GetParam());
}

INSTANTIATE_TEST_SUITE_P(All, Modes, ::testing::ValuesIn([] {
	auto modes = reliable_modes;
	modes.insert(modes.end(), native_modes.begin(), native_modes.end());
	return modes;
}()),
	[](const auto &info) { return test_name(info.param); });

struct Fault {
	const char *name;
	const char *netem;
};

class Faults : public ClusterTest, public ::testing::WithParamInterface<std::tuple<std::string, Fault>>
{
};

TEST_P(Faults, every_message_arrives_once_and_in_order)
{
	const auto &[mode, fault] = GetParam();

	/* Connect first: the connection manager repeats a lost datagram only after seconds. */
	perf("latency --iterations 2 --size 8 --mode " + mode);
	lab().set_fault(1, fault.netem);
	lab().set_fault(2, fault.netem);
	perf("bibandwidth --mixed --iterations 300 --size 32768 --mode " + mode);
	perf("latency --iterations 50 --size 8 --mode " + mode);
}

INSTANTIATE_TEST_SUITE_P(Wire, Faults,
	::testing::Combine(::testing::Values("uc-reliable", "ud-reliable"),
		::testing::Values(Fault{"loss_1", "loss 1%"}, Fault{"loss_5", "loss 5%"},
			Fault{"duplication", "duplicate 5%"},
			Fault{"reordering", "delay 2ms reorder 30% 50%"}, Fault{"corruption", "corrupt 1%"},
			Fault{"everything", "loss 2% duplicate 2% delay 1ms 1ms corrupt 0.5%"})),
	[](const auto &info) {
		return test_name(std::get<0>(info.param) + "_" + std::get<1>(info.param).name);
	});

class NativeLoss : public ClusterTest, public ::testing::WithParamInterface<std::string>
{
};

// Messages may be missing, and are counted; what arrives is whole and right, and nothing hangs.
TEST_P(NativeLoss, what_arrives_is_right_and_what_is_missing_is_counted)
{
	perf("latency --iterations 2 --size 8 --mode " + GetParam());
	Growth lost = growth(2, "lost_messages", GetParam());
	lab().set_fault(1, "loss 5%");
	lab().set_fault(2, "loss 5%");
	const std::string out = perf("bandwidth --iterations 300 --size 64,8192,65536 --mode " + GetParam());

	EXPECT_EQ(out.find("WRONG"), std::string::npos) << out;
	EXPECT_GT(lost.value(), 0) << out;
}

INSTANTIATE_TEST_SUITE_P(All, NativeLoss, ::testing::Values("uc-native", "ud-native"),
	[](const auto &info) { return test_name(info.param); });

class Regions : public ClusterTest, public ::testing::WithParamInterface<int>
{
};

// What cannot be registered is copied, and counted; the rest is written. Without any region nothing is, nor
// could be.
TEST_P(Regions, what_has_none_is_copied_and_counted)
{
	stop_server();
	ASSERT_EQ(unload_module(2).status, 0);
	load_module(2, "regions=" + std::to_string(GetParam()));
	perf("latency --iterations 2 --size 8 --mode uc-reliable");
	Growth written = growth(2, "rx_written", "uc-reliable");
	Growth copied = growth(2, "windows_copied", "uc-reliable");

	perf("bandwidth --iterations 20 --window 4 --size 1048576 --mode uc-reliable");
	EXPECT_EQ(written.value() > 0, GetParam() > 0) << written.value();
	EXPECT_EQ(copied.value() > 0, GetParam() > 0) << copied.value();
	stop_server();
	ASSERT_EQ(unload_module(2).status, 0);
	load_module(2);
}

INSTANTIATE_TEST_SUITE_P(Few, Regions, ::testing::Values(0, 1, 2), ::testing::PrintToStringParamName());

class Large : public ClusterTest, public ::testing::WithParamInterface<std::string>
{
};

// Filling and comparing that much takes an emulated processor long, before the first byte moves.
TEST_P(Large, one_gibibyte)
{
	Growth written = growth(2, "rx_written", GetParam());
	Growth copied = growth(2, "windows_copied", GetParam());

	perf("bandwidth --iterations 1 --warmup 0 --size 1G --connect-timeout 300 --timeout 300 --mode " +
			GetParam(),
		900);
	/* No fragment is longer than a packet. */
	if (GetParam() != "ud-reliable") {
		EXPECT_GT(written.value(), (1 << 30) / 4096 / 2);
	} else {
		EXPECT_EQ(written.value(), 0);
	}
	EXPECT_EQ(copied.value(), 0) << "all of it could be registered";
}

INSTANTIATE_TEST_SUITE_P(All, Large, ::testing::Values("uc-reliable", "ud-reliable", "rc-reliable"),
	[](const auto &info) { return test_name(info.param); });

class Flood : public ClusterTest, public ::testing::WithParamInterface<std::string>
{
};

// Two processes send each other more than either has room for, and receive nothing. Others on the same nodes,
// and on the same path, do not notice; and when both receive, everything is there.
TEST_P(Flood, beyond_the_memory_of_either_end)
{
	constexpr int messages = 2000;
	std::vector<lab::Job> both;
	std::vector<Growth> announced;

	perf("latency --iterations 2 --size 8 --mode " + GetParam());
	for (int node : {1, 2}) {
		lab().run_ok(node, "rm -f /tmp/go && touch /tmp/hold");
		both.push_back(lab().start(node,
			fmt::format("{} flood --to {} --mode {} --count {} --bytes 4000 --long 140000 "
				    "--go /tmp/go --hold /tmp/hold",
				built("tests/selftests/actor"), Lab::address(3 - node), GetParam(),
				messages)));
		announced.push_back(growth(node, "tx_rendezvous", GetParam()));
	}
	for (auto &job : both)
		job.wait_for_output("open\n", Duration(60));
	for (int node : {1, 2})
		lab().run_ok(node, "touch /tmp/go");
	for (std::size_t i = 0; i < both.size(); i++) {
		std::smatch sent;

		both[i].wait_for_output("flooding", Duration(120));
		const std::string output = both[i].output();
		ASSERT_TRUE(std::regex_search(output, sent, std::regex("flooding ([0-9]+)"))) << output;
		EXPECT_LT(std::stol(sent[1]), messages) << "nothing has stopped it";
		/* Eager ones have to wait for room, too. */
		EXPECT_TRUE(announced[i].reaches(std::stol(sent[1]) / 16 + 101));
	}
	perf("latency --iterations 100 --size 8,4096,200000 --mode " + GetParam());
	perf("bibandwidth --mixed --iterations 100 --size 65536 --mode " + GetParam());
	for (auto &job : both)
		EXPECT_EQ(job.output().find("received"), std::string::npos) << job.output();
	for (int node : {1, 2})
		lab().run_ok(node, "rm /tmp/hold");
	for (auto &job : both) {
		job.wait_for_output("received ", Duration(240));
		EXPECT_NE(job.output().find(fmt::format("received {}, wrong 0", messages)), std::string::npos)
			<< job.output();
	}
	for (auto &job : both) {
		job.kill(15);
		job.wait(Duration(60));
	}
}

INSTANTIATE_TEST_SUITE_P(Both, Flood, ::testing::ValuesIn(reliable_modes),
	[](const auto &info) { return test_name(info.param); });

class Mingle : public ClusterTest, public ::testing::WithParamInterface<std::string>
{
};

// Two processes do all that matching knows, in memory that comes and goes, while the wire loses packets.
TEST_P(Mingle, everything_that_matching_knows)
{
	for (int node : {1, 2})
		lab().set_fault(node, "loss 1%");
	for (auto &job : mingle(GetParam(), 300, 1)) {
		const Result result = job.wait(Duration(240));

		EXPECT_EQ(result.status, 0) << result.output;
		EXPECT_NE(result.output.find("300 received"), std::string::npos) << result.output;
		for (const std::string what : {"cut", "discarded", "probed", "parts", "cancelled"})
			EXPECT_EQ(result.output.find(" 0 " + what), std::string::npos) << result.output;
	}
}

INSTANTIATE_TEST_SUITE_P(Both, Mingle, ::testing::ValuesIn(reliable_modes),
	[](const auto &info) { return test_name(info.param); });

class Cluster : public ClusterTest
{
};

TEST_F(Cluster, many_processes_share_a_path)
{
	need_server();
	std::vector<lab::Job> jobs;

	jobs.reserve(6);
	for (int i = 0; i < 6; i++)
		jobs.push_back(lab().start(1,
			built("user/tools/ibrelk-perf") +
				" bandwidth 10.1.0.2 --verify --mixed --iterations 100 --size 20000 "
				"--timeout 60 --mode " +
				reliable_modes[i % 2] + " --seed " + std::to_string(i)));
	for (auto &job : jobs) {
		const Result result = job.wait(Duration(240));
		EXPECT_EQ(result.status, 0) << result.output;
	}
}

TEST_F(Cluster, same_node_and_self)
{
	for (const auto &mode : reliable_modes) {
		for (const char *ends : {"127.0.0.1 127.0.0.1", "10.1.0.1 10.1.0.1"}) {
			const Result result = try_perf("bandwidth --self " + std::string(ends) +
				" --verify --iterations 50 --size 8,8192,100000 --mode " + mode);
			EXPECT_EQ(result.status, 0) << result.output;
		}
	}
}

// Through the adapter, an address reaches itself by datagrams; a connection to itself is refused.
TEST_F(Cluster, an_address_and_itself_without_loopback)
{
	const std::string self =
		"bandwidth --self 10.1.0.1 10.1.0.1 --verify --iterations 20 --size 8,100000 --mode ";

	/* Paths that are there already stay as they are. */
	ASSERT_EQ(unload_module(1).status, 0);
	load_module(1);
	set(1, "loopback", 0);
	Result result = try_perf(self + "ud-reliable");
	EXPECT_EQ(result.status, 0) << result.output;
	for (const char *mode : {"uc-reliable", "rc-reliable"}) {
		/* It asks until its own patience is over; no path is even begun. */
		result = try_perf(self + mode + " --connect-timeout 2");
		EXPECT_NE(result.status, 0) << result.output;
		lab().run_ok(1, "! " + built("user/tools/ibrelk") + " show paths | grep -q " + mode);
	}
	set(1, "loopback", 1);
	result = try_perf(self + "uc-reliable");
	EXPECT_EQ(result.status, 0) << result.output;
}

} // namespace

} // namespace cluster
