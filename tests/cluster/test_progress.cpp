// SPDX-License-Identifier: GPL-2.0-only
//
// Progress without the application: a process that is stopped, or frozen, is no slow peer; and one that has
// exited has sent what it was told is sent.
#include "cluster.hpp"

#include <csignal>
#include <fmt/format.h>
#include <functional>

namespace cluster
{

namespace
{

// A process on node 2 that has posted a receive, for the first of so many messages, and is stopped before
// they come.
lab::Job stopped_receiver(const std::string &mode, int bytes, int count)
{
	auto receiver = the_lab().start(2,
		fmt::format("exec {} reuse --mode {} --bytes {} --expect {}", built("tests/selftests/actor"),
			mode, bytes, count));

	receiver.wait_for_output("serving", Duration(60));
	receiver.kill(SIGSTOP);
	return receiver;
}

class Progress : public ClusterTest, public testing::WithParamInterface<std::string>
{
protected:
	static constexpr const char *number = "10.1.0.2:78";
	static constexpr const char *group = "/sys/fs/cgroup/traffic";

	// A program is started as a member of a control group, by which it can be frozen.
	static std::string grouped(const std::string &command)
	{
		return fmt::format("mkdir -p {0} && echo $$ >{0}/cgroup.procs && exec {1}", group, command);
	}

	static void freeze(int node, bool frozen)
	{
		lab().run_ok(node, fmt::format("echo {} >{}/cgroup.freeze", int{frozen}, group));
		lab().wait_until(
			node, fmt::format("grep -q '^frozen {}' {}/cgroup.events", int{frozen}, group));
	}

	// A server beside the one that all tests share.
	static lab::Job server()
	{
		auto job = lab().start(2,
			grouped(built("user/tools/ibrelk-perf") +
				fmt::format(" --server --local {} --modes {}", number, GetParam())));

		lab().wait_until(2, built("user/tools/ibrelk") + " show endpoints | grep -q 10.1.0.2:78");
		return job;
	}

	static lab::Job client(const std::string &size, int iterations)
	{
		return lab().start(1,
			grouped(built("user/tools/ibrelk-perf") +
				fmt::format(" bandwidth {} --verify --iterations {} --size {} "
					    "--timeout 120 --connect-timeout 60 --mode {}",
					number, iterations, size, GetParam())));
	}

	// Until all has moved that the kernels can move by themselves. (ibrelk-perf asks a receiver that says
	// nothing, which is a message or two a second.)
	static void wait_for_quiet()
	{
		lab().wait_until(1,
			"moved() { echo $(($(" + built("user/tools/ibrelk") +
				" show paths --json | grep -oE '\"[rt]x_(segments|written)\": *[0-9]+' | "
				"grep -oE '[0-9]+$' | paste -sd+))); }; "
				"quiet() { before=$(moved); sleep 1; more=$(($(moved) - before)); "
				"test $more -ge 0 -a $more -lt 5; }; quiet && quiet",
			Duration(120));
	}

	// One end of some traffic is stopped for ten seconds, while other traffic goes on; then all of it
	// arrives.
	static void stopped(
		const std::function<void()> &stop, const std::function<void()> &go_on, lab::Job &client)
	{
		Growth segments = growth(2, "rx_segments", GetParam());

		ASSERT_TRUE(segments.reaches(50, Duration(120), [&] { return client.running(); }))
			<< client.output();
		stop();

		Growth lives = growth(1, "lives", GetParam());

		perf("latency --iterations 200 --size 8 --mode " + GetParam());
		// What was on its way is acknowledged by the kernel; so nothing has to be sent again (but for
		// tail probes, and what they find, as an emulated node may answer late), and hardly anything
		// be asked.
		wait_for_quiet();
		std::vector<std::pair<std::string, Growth>> repeats;
		for (int node : {1, 2})
			for (const std::string why : {"rack", "probe", "timeout"})
				repeats.emplace_back(fmt::format("retransmits_{} of node {}", why, node),
					growth(node, "retransmits_" + why, GetParam()));
		Growth acks = growth(2, "tx_acks_explicit", GetParam());
		/* The condition is time itself. */
		lab().run_ok(2, "sleep 10");
		for (auto &[name, repeat] : repeats)
			EXPECT_LE(repeat.value(), 10) << name;
		EXPECT_LE(acks.value(), 50);
		perf("bandwidth --iterations 50 --size 65536 --mode " + GetParam());
		EXPECT_TRUE(client.running()) << client.output();
		EXPECT_EQ(lives.value(), 0);

		go_on();
		const Result result = client.wait(Duration(240));
		EXPECT_EQ(result.status, 0) << result.output;
	}

	// Short messages, or long ones, or both; the end on a node is stopped, or frozen.
	static void of_sizes(const std::vector<std::string> &sizes, int node, bool frozen)
	{
		auto receiver = server();

		for (const auto &size : sizes) {
			auto sender = client(size, size == "4096" ? 20000 : 300);
			lab::Job &job = node == 1 ? sender : receiver;

			if (frozen)
				stopped([&] { freeze(node, true); }, [&] { freeze(node, false); }, sender);
			else
				stopped([&] { job.kill(SIGSTOP); }, [&] { job.kill(SIGCONT); }, sender);
		}
		receiver.kill(15);
		receiver.wait(Duration(30));
	}

	static void both_sizes(int node, bool frozen)
	{
		of_sizes({"4096", "1048576"}, node, frozen);
	}
};

TEST_P(Progress, stopped_receiver_of_long_messages)
{
	of_sizes({"1048576"}, 2, false);
}

TEST_P(Progress, frozen_sender_of_long_messages)
{
	of_sizes({"1048576"}, 1, true);
}

TEST_P(Progress, long_stopped_sender)
{
	both_sizes(1, false);
}

TEST_P(Progress, long_stopped_receiver)
{
	both_sizes(2, false);
}

TEST_P(Progress, long_frozen_sender)
{
	both_sizes(1, true);
}

TEST_P(Progress, long_frozen_receiver)
{
	both_sizes(2, true);
}

// Of a message of 100 MB: the sender's adapter writes straight into the receiver's memory, but for datagrams;
// automatic paths begin with these.
void expect_written(Growth &written, const std::string &mode)
{
	constexpr long packets = (100 << 20) / 4096;

	if (mode == "ud-reliable")
		EXPECT_EQ(written.value(), 0);
	else
		EXPECT_GT(written.value(), mode == "auto" ? packets / 2 : packets * 9 / 10);
}

// A receiver that has posted a buffer is not needed any more: it is stopped before the first byte comes, and
// the sender learns that all of it has arrived while that is so.
TEST_P(Progress, hundred_megabytes_for_a_stopped_receiver)
{
	constexpr int bytes = 100 << 20;
	const std::string actor = built("tests/selftests/actor");
	Growth written = growth(2, "rx_written", GetParam());
	auto receiver = stopped_receiver(GetParam(), bytes, 1);

	const Result sent = lab().run(1,
		fmt::format("{} send --to 10.1.0.2 --mode {} --bytes {} --level delivered", actor, GetParam(),
			bytes),
		Duration(300));

	EXPECT_EQ(sent.status, 0) << sent.output;
	EXPECT_EQ(receiver.output().find("received"), std::string::npos) << "it was not stopped";
	expect_written(written, GetParam());
	receiver.kill(SIGCONT);
	receiver.wait_for_output("received 1, wrong 0, changed 0", Duration(60));
	receiver.kill(15);
	receiver.wait(Duration(30));
}

// A sender that has posted its message is not needed any more either: all of it comes while it is stopped.
TEST_P(Progress, hundred_megabytes_of_a_stopped_sender)
{
	constexpr int bytes = 100 << 20;
	const std::string actor = built("tests/selftests/actor");
	auto receiver = lab().start(
		2, fmt::format("exec {} reuse --mode {} --bytes {} --expect 1", actor, GetParam(), bytes));

	receiver.wait_for_output("serving", Duration(60));

	Growth written = growth(2, "rx_written", GetParam());
	Growth segments = growth(2, "rx_segments", GetParam());
	auto sender = lab().start(1,
		fmt::format("exec {} send --to 10.1.0.2 --mode {} --bytes {} --level delivered", actor,
			GetParam(), bytes));

	ASSERT_TRUE(segments.reaches(100, Duration(60), [&] { return sender.running(); })) << sender.output();
	sender.kill(SIGSTOP);
	ASSERT_EQ(receiver.output().find("received"), std::string::npos) << "stopped too late";
	receiver.wait_for_output("received 1, wrong 0, changed 0", Duration(300));
	EXPECT_EQ(sender.output().find("done"), std::string::npos) << "it was not stopped";
	expect_written(written, GetParam());
	sender.kill(SIGCONT);
	EXPECT_EQ(sender.wait(Duration(60)).status, 0) << sender.output();
	receiver.kill(15);
	receiver.wait(Duration(30));
}

INSTANTIATE_TEST_SUITE_P(modes, Progress,
	testing::Values("uc-reliable", "ud-reliable", "rc-reliable", "auto"),
	[](const auto &info) { return test_name(info.param); });

// What is sent, and how much of it.
struct Sent {
	const char *what;
	std::uint64_t bytes;
	int count;
	const char *level;
};

// The last packets of most of them are lost once or more by the time that the process is gone.
// None of them runs out of eager credit, or some would go by rendezvous, and complete after those behind
// them.
constexpr Sent sent[] = {
	{"short", 64, 200, "buffered"},
	{"eager", 8000, 30, "buffered"},
	{"delivered", 8000, 20, "delivered"},
	{"matched", 100, 20, "matched"},
	{"rendezvous", 70'000, 20, "delivered"},
	{"written", 1 << 20, 3, "delivered"},
};

class Gone : public ClusterTest, public testing::WithParamInterface<std::string>
{
};

// A process that goes as soon as it has been told that its sends are complete, in whatever way: all of it
// arrives.
TEST_P(Gone, what_a_process_has_sent_arrives)
{
	const std::string actor = built("tests/selftests/actor");

	lab().set_fault(1, "loss 5%");
	lab().set_fault(2, "loss 5%");
	for (const auto &[what, bytes, count, level] : sent) {
		for (const char *leave : {"return", "exit", "kill"}) {
			SCOPED_TRACE(fmt::format("{}, {}", what, leave));
			auto server = lab().start(2,
				fmt::format("{} serve --bytes {} --expect {} --mode {}", actor, bytes, count,
					GetParam()));
			server.wait_for_output("serving", Duration(60));
			const Result result = lab().run(1,
				fmt::format(
					"{} send --to 10.1.0.2 --bytes {} --count {} --level {} --leave {} "
					"--mode {}",
					actor, bytes, count, level, leave, GetParam()),
				Duration(240));
			EXPECT_EQ(result.status, leave == std::string("kill") ? 128 + SIGKILL : 0)
				<< result.output;
			server.wait_for_output(fmt::format("received {}, wrong 0", count), Duration(60));
			server.kill(15);
			server.wait(Duration(30));
		}
	}
}

// Far more than the receiver has granted, and it stands still for longer than that takes; its sender is gone.
TEST_P(Gone, long_what_a_stopped_process_is_sent_arrives)
{
	constexpr int count = 2000;
	constexpr unsigned linger_ms = 30000;
	const std::string actor = built("tests/selftests/actor");

	/* However slow the emulated nodes are. */
	set(1, "linger_ms", 10 * linger_ms);
	auto receiver = stopped_receiver(GetParam(), 4000, count);

	const Result sent = lab().run(1,
		fmt::format("{} send --to 10.1.0.2 --mode {} --bytes 4000 --count {} --level buffered "
			    "--leave exit",
			actor, GetParam(), count),
		Duration(60));

	EXPECT_EQ(sent.status, 0) << sent.output;
	EXPECT_NE(lab().run_ok(1, built("user/tools/ibrelk") + " show endpoints").find("gone"),
		std::string::npos)
		<< "all of it has gone out already";
	/* The condition is time itself. */
	lab().run_ok(2, "sleep 15");
	receiver.kill(SIGCONT);
	receiver.wait_for_output(fmt::format("received {}, wrong 0, changed 0", count), Duration(240));
	receiver.kill(15);
	receiver.wait(Duration(30));
	set(1, "linger_ms", linger_ms);
}

INSTANTIATE_TEST_SUITE_P(modes, Gone, testing::Values("uc-reliable", "ud-reliable", "rc-reliable", "auto"),
	[](const auto &info) { return test_name(info.param); });

} // namespace
} // namespace cluster
