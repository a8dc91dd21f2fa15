// SPDX-License-Identifier: GPL-2.0-only
//
// What happens when something ends that should not have: a process, a node, a link, a device, the
// module. Whatever it is, it ends within seconds and without harm to others, and the next one works.
#include "cluster.hpp"

#include <cstdlib>
#include <random>

#include <fmt/format.h>

namespace cluster
{

namespace
{

class Lifetimes : public ClusterTest
{
protected:
	// Traffic that goes on until it is stopped.
	static lab::Job endless(const std::string &mode, const std::string &size = "65536")
	{
		return lab().start(1,
			built("user/tools/ibrelk-perf") +
				" bandwidth 10.1.0.2 --iterations 100000000 --size " + size +
				" --timeout 600 --mode " + mode);
	}

	// Waits until 20 more packets of the job have arrived at node 2.
	static void wait_for_traffic(const lab::Job &job, const std::string &mode)
	{
		Growth segments = growth(2, "rx_segments", mode);

		ASSERT_TRUE(segments.reaches(20, Duration(120), [&] { return job.running(); }))
			<< job.output();
	}

	static void expect_working(const std::string &mode)
	{
		perf("bandwidth --iterations 20 --size 8,8192,65536 --mode " + mode);
	}
};

TEST_F(Lifetimes, killed_sender)
{
	for (const auto &mode : {"uc-reliable", "ud-reliable", "rc-reliable", "uc-native"}) {
		need_server();
		auto job = endless(mode);
		wait_for_traffic(job, mode);
		job.kill(9);
		EXPECT_EQ(job.wait(Duration(30)).status, 128 + 9);
		/* A server that noticed is as good as one that serves on; a new one must work in any case. */
		stop_server();
		expect_working(mode);
	}
}

TEST_F(Lifetimes, killed_receiver_is_an_error_for_the_sender)
{
	for (const auto &mode : {"uc-reliable", "ud-reliable"}) {
		need_server();
		auto job = endless(mode);
		wait_for_traffic(job, mode);
		stop_server();
		const Result result = job.wait(Duration(60));
		EXPECT_NE(result.status, 0) << "the sender did not notice";
		expect_working(mode);
	}
}

TEST_F(Lifetimes, link_down_for_three_seconds)
{
	for (const auto &mode : {"uc-reliable", "ud-reliable"}) {
		need_server();
		auto job = lab().start(1,
			built("user/tools/ibrelk-perf") +
				" bandwidth 10.1.0.2 --verify --iterations 3000 --size 16384 --timeout 60 "
				"--mode " +
				mode);
		wait_for_traffic(job, mode);
		lab().link_down(1);
		/* The condition is time itself: an outage of three seconds. */
		lab().run_ok(2, "sleep 3");
		lab().link_up(1);
		const Result result = job.wait(Duration(240));
		EXPECT_EQ(result.status, 0) << result.output;
	}
}

// All modes at once, as each tries for as long as it was told.
TEST_F(Lifetimes, absent_peer_is_a_clear_error)
{
	struct Attempt {
		std::string reason; // what is to be said
		lab::Job job;
	};
	std::vector<Attempt> attempts;
	const auto attempt = [&](const std::string &peer, int limit_s, const std::string &mode,
				     const std::string &reason) {
		attempts.push_back({reason,
			lab().start(1,
				fmt::format("exec {} latency {} --iterations 1 --size 8 --connect-timeout {} "
					    "--mode {}",
					built("user/tools/ibrelk-perf"), peer, limit_s, mode))});
	};

	for (const auto &mode : {"uc-reliable", "ud-reliable", "rc-reliable"}) {
		/* No node has this address. */
		attempt("10.1.0.77", 20, mode, "10.1.0.77");
		/* The node is there, the endpoint is not. */
		attempt("10.1.0.2:4242", 15, mode, "refused");
	}
	for (auto &[reason, job] : attempts) {
		const Result result = job.wait(Duration(120));

		EXPECT_NE(result.status, 0);
		EXPECT_NE(result.output.find(reason), std::string::npos) << result.output;
	}
}

TEST_F(Lifetimes, module_cannot_be_removed_while_open_and_can_afterwards)
{
	need_server();
	auto job = endless("uc-reliable");
	wait_for_traffic(job, "uc-reliable");
	Result result = unload_module(1);
	EXPECT_NE(result.status, 0);
	EXPECT_NE(result.output.find("in use"), std::string::npos) << result.output;
	job.kill(9);
	job.wait(Duration(30));
	/* Buffered sends may linger; they do not hold the module. */
	result = unload_module(1);
	EXPECT_EQ(result.status, 0) << result.output;
	/* Its server has noticed only if a message was on its way, and serves nobody else otherwise. */
	stop_server();
	load_module(1);
	expect_working("uc-reliable");
	expect_working("ud-reliable");
}

TEST_F(Lifetimes, device_removal_under_load)
{
	for (const auto &mode : {"uc-reliable", "ud-reliable", "rc-reliable"}) {
		need_server();
		auto job = endless(mode);
		wait_for_traffic(job, mode);
		lab().run_ok(1, "rdma link del rxe0");
		const Result result = job.wait(Duration(60));
		EXPECT_NE(result.status, 0) << "the sender did not notice that its device went away";
		lab().run_ok(1, "rdma link add rxe0 type rxe netdev eth0");
		lab().wait_until(1, built("user/tools/ibrelk") + " show ports | grep -q yes");
		stop_server();
		expect_working(mode);
	}
}

// One side has given its peer up, and the other one, which had nothing to say, does not know. When the other
// one calls, both begin anew.
TEST_F(Lifetimes, one_side_has_given_up_and_the_other_calls)
{
	const std::string actor = built("tests/selftests/actor");

	for (const std::string mode : {"uc-reliable", "ud-reliable", "rc-reliable"}) {
		need_server();
		expect_working(mode);
		/* Both ways, so that node 2 has flows of its own that outlive node 1's. */
		auto there = lab().start(1, fmt::format("{} serve --endpoints 1 --mode {}", actor, mode));
		there.wait_for_output("serving", Duration(30));
		lab().run_ok(2, fmt::format("{} send --to 10.1.0.1 --count 300 --mode {}", actor, mode),
			Duration(120));
		stop_server();

		const std::string mourned = fmt::format(
			"dmesg | grep -cE '{} [^ ]*10.1.0.1 to [^ ]*10.1.0.2: peer given up: heard [0-9]+ ms "
			"ago, epoch [0-9a-f]{{16}}, life [0-9a-f]{{8}}, acknowledged up to [0-9a-f]{{8}}, "
			"sent "
			"up to [0-9a-f]{{8}}, in flight [0-9a-f]{{32}}, RTT [1-9][0-9]* us, time-outs "
			"[0-9]+, "
			"repeats [0-9]+, handshakes [0-9]+$'",
			mode);
		Growth given_up(
			"what node 1 has given up", [&] { return std::stol(lab().run(1, mourned).output); });
		set(1, "peer_timeout_ms", 2000);
		/* Node 1 speaks into the void until it has had enough. Node 2 hears none of it. */
		lab().set_fault(1, "loss 100%");
		const Result result = lab().run(
			1, fmt::format("{} send --to 10.1.0.2 --mode {}", actor, mode), Duration(120));
		EXPECT_NE(result.status, 0) << result.output;
		lab().wait_until(1,
			fmt::format("! {} show paths | grep '10.1.0.2 ' | grep {} | grep -qE ' "
				    "(up|connecting|broken) '",
				built("user/tools/ibrelk"), mode),
			Duration(120));
		EXPECT_GT(given_up.value(), 0) << lab().dmesg(1);
		lab().wait_until(2,
			fmt::format("{} show paths | grep '10.1.0.1 ' | grep {} | grep -q ' up '",
				built("user/tools/ibrelk"), mode));
		set(1, "peer_timeout_ms", 30000);
		lab().clear_fault(1);

		const Result back =
			lab().run(2, fmt::format("{} send --to 10.1.0.1 --count 300 --mode {}", actor, mode),
				Duration(120));
		EXPECT_EQ(back.status, 0) << mode << ": " << back.output << there.output();
		there.kill(15);
		there.wait(Duration(30));
		expect_working(mode);
	}
}

// Long messages one after the other, and SIGKILL for either end after a random number of packets: the other
// end is told, or serves the next one, and nothing is left on either node.
class Killed : public Lifetimes
{
protected:
	static constexpr const char *bytes = "6291456"; // more than is pinned at a time

	static lab::Job serve(const std::string &mode)
	{
		auto job = lab().start(2,
			fmt::format("{} serve --bytes {} --mode {}", built("tests/selftests/actor"), bytes,
				mode));

		job.wait_for_output("serving", Duration(60));
		return job;
	}

	static void kill_often(int times)
	{
		const char *given = std::getenv("IBRELK_SEED");
		const auto seed = given ? std::strtoull(given, nullptr, 0) : std::random_device()();
		std::mt19937_64 random(seed);
		const std::string send =
			built("tests/selftests/actor") + " send --to 10.1.0.2 --bytes " + bytes;

		fmt::print("IBRELK_SEED={}\n", seed);
		std::fflush(stdout);
		stop_server();
		wait_for_no_endpoints();
		const Pinned before = pinned_pages();
		for (const std::string mode : {"uc-reliable", "ud-reliable"}) {
			auto server = serve(mode);

			for (int i = 0; i < times / 2; i++) {
				const bool receiver = random() & 1;
				const auto packets = static_cast<long>(random() % 4000);
				SCOPED_TRACE(fmt::format("{}, {} after {} packets", mode,
					receiver ? "receiver" : "sender", packets));
				auto client = lab().start(
					1, fmt::format("{} --count 1000000 --mode {}", send, mode));
				Growth segments = growth(2, "rx_segments", mode);
				ASSERT_TRUE(segments.reaches(
					packets + 1, Duration(240), [&] { return client.running(); }))
					<< client.output() << server.output();
				(receiver ? server : client).kill(9);
				const Result result = client.wait(Duration(120));
				if (receiver) {
					/* Between two messages, nobody is there for the next. */
					EXPECT_TRUE(result.output.find("status -104") != std::string::npos ||
						result.output.find("status -111") != std::string::npos)
						<< result.output;
					server.wait(Duration(30));
					server = serve(mode);
				} else {
					EXPECT_EQ(result.status, 128 + 9) << result.output;
				}
				/* The next one, on the same path. */
				const Result next = lab().run(
					1, fmt::format("{} --count 2 --mode {}", send, mode), Duration(240));
				EXPECT_EQ(next.status, 0) << next.output << server.output();
				EXPECT_EQ(server.output().find("WRONG"), std::string::npos)
					<< server.output();
			}
			server.kill(9);
			server.wait(Duration(30));
		}
		expect_all_given_back(before);
	}
};

TEST_F(Killed, in_the_middle_of_long_messages)
{
	kill_often(6);
}

TEST_F(Killed, long_in_the_middle_of_long_messages)
{
	kill_often(30);
}

// How a process ends, and how far it has come by then.
class Ends : public Lifetimes, public ::testing::WithParamInterface<std::tuple<std::string, std::string>>
{
protected:
	static void play(const std::string &step, const std::string &end, const std::string &door,
		const std::string &mode)
	{
		const bool connects = step != "open" && step != "connect";
		const std::string what =
			fmt::format("die --to {} --mode {} --step {} --end {} --door {} --go /tmp/go",
				step == "connect" ? "10.1.0.77" : "10.1.0.2", mode, step, end, door);

		SCOPED_TRACE(what);
		lab().run_ok(1, "rm -f /tmp/go");
		auto job = lab().start(1, built("tests/selftests/actor") + " " + what);
		if (connects) {
			job.wait_for_output("connected", Duration(60));
			/* What follows stays in flight. */
			lab().set_fault(1, step == "rendezvous" ? "rate 4mbit" : "loss 100%");
			Growth segments = growth(2, "rx_segments", mode);
			lab().run_ok(1, "touch /tmp/go");
			job.wait_for_output("ready", Duration(60));
			/* The others end at once, with what they have begun. */
			if (step == "rendezvous" && end == "kill") {
				ASSERT_TRUE(segments.reaches(3, Duration(60), [&] { return job.running(); }))
					<< "the transfer does not begin: " << job.output();
			}
		} else {
			job.wait_for_output("ready", Duration(60));
		}
		if (end != "exec")
			job.kill(9);
		job.wait(Duration(60));
		lab().clear_fault(1);
		/* Nothing of it stays, as soon as what it had sent is delivered, or given up. */
		lab().wait_until(1, built("user/tools/ibrelk") + " show endpoints | grep -q '^no endpoints'",
			Duration(60));
	}
};

TEST_P(Ends, leave_nothing_behind)
{
	const auto &[end, door] = GetParam();
	const std::string mode = door == "ioctl" ? "uc-reliable" : "ud-reliable";

	need_server();
	auto peer = lab().start(2, built("tests/selftests/actor") + " serve --bytes 4194304 --mode " + mode);
	peer.wait_for_output("serving", Duration(60));
	for (const char *step : {"open", "connect", "eager", "rendezvous", "poll"})
		play(step, end, door, mode);
	EXPECT_TRUE(peer.running()) << peer.output();
	EXPECT_EQ(peer.output().find("WRONG"), std::string::npos) << peer.output();
	peer.kill(15);
	peer.wait(Duration(60));
	const Result result = unload_module(1);
	EXPECT_EQ(result.status, 0) << result.output;
	load_module(1);
	expect_working(mode);
}

INSTANTIATE_TEST_SUITE_P(By, Ends,
	::testing::Combine(::testing::Values("kill", "exec", "fork"), ::testing::Values("ioctl", "uring")),
	[](const auto &info) { return test_name(std::get<0>(info.param) + "_" + std::get<1>(info.param)); });

TEST_F(Lifetimes, crashed_peer_comes_back)
{
	need_server();
	expect_working("uc-reliable");
	expect_working("ud-reliable");
	auto job = endless("uc-reliable");
	wait_for_traffic(job, "uc-reliable");
	stop_server();
	job.kill(9);
	job.wait(Duration(30));
	lab().reboot(2);
	load_module(2);
	expect_working("uc-reliable");
	expect_working("ud-reliable");
}

} // namespace

} // namespace cluster
