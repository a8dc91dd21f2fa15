// SPDX-License-Identifier: GPL-2.0-only
//
// Peers that are not there, or do not speak as they should: a clear error in a bounded time, and no harm to
// others. And connecting over a wire that loses the connection manager's own datagrams.
#include "cluster.hpp"

#include <fmt/format.h>

namespace cluster
{

namespace
{

class Peers : public ClusterTest
{
protected:
	static std::string cmpeer(const std::string &arguments)
	{
		return built("tests/selftests/cmpeer") + " " + arguments;
	}

	static Result send(const std::string &mode, const std::string &more = "")
	{
		return lab().run(1,
			built("tests/selftests/actor") + " send --to 10.1.0.2 --mode " + mode + " " + more,
			Duration(120));
	}

	// Node 2 without the module. What waits for a peer that was there once does so for eight
	// seconds: far more than the silence after which it is looked up again.
	static void leave_node_2()
	{
		stop_server();
		const Result result = unload_module(2);
		ASSERT_EQ(result.status, 0) << result.output;
		set(1, "peer_timeout_ms", 8000);
	}

	static void join_node_2()
	{
		set(1, "peer_timeout_ms", 30000);
		load_module(2);
		expect_working();
	}

	static void expect_working()
	{
		for (const auto &mode : reliable_modes)
			perf("bandwidth --iterations 20 --size 8,8192 --mode " + mode);
	}
};

TEST_F(Peers, a_node_without_the_module_refuses)
{
	leave_node_2();
	for (const auto &mode : {"rc-reliable", "uc-reliable", "ud-reliable"}) {
		const Result result = send(mode);
		EXPECT_NE(result.status, 0);
		EXPECT_NE(result.output.find("status -111"), std::string::npos)
			<< mode << ": " << result.output;
	}
	join_node_2();
}

struct Answer {
	const char *say;
	int status; // of the send, negative errno
};

class Answers : public Peers
{
protected:
	// A peer that answers, but not with what the protocol allows.
	static void expect(std::initializer_list<Answer> answers)
	{
		leave_node_2();
		for (const bool ud : {false, true}) {
			for (const Answer &answer : answers) {
				// Who says nothing uses all of it; others are asked again after a second.
				set(1, "connect_timeout_ms", answer.status == -ETIMEDOUT ? 1500 : 5000);

				const std::string what = fmt::format(
					"listen 10.1.0.2 --say {}{}", answer.say, ud ? " --ud" : "");
				auto peer = lab().start(2, cmpeer(what));

				peer.wait_for_output("listening", Duration(30));
				const Result result = send(ud ? "ud-reliable" : "rc-reliable");
				EXPECT_NE(result.status, 0) << what;
				EXPECT_NE(result.output.find(fmt::format("status {}:", answer.status)),
					std::string::npos)
					<< what << ": " << result.output << peer.output();
				peer.wait_for_output("CONNECT_REQUEST", Duration(30));
				peer.kill(9);
				peer.wait(Duration(30));
			}
		}
		set(1, "connect_timeout_ms", 10000);
		join_node_2();
	}
};

TEST_F(Answers, that_make_no_sense)
{
	expect({{"refuse-version", -EPROTONOSUPPORT}, {"welcome-version", -EPROTONOSUPPORT},
		{"refuse-2", -EOPNOTSUPP}, {"welcome-noise", -EPROTO}});
}

TEST_F(Answers, long_that_make_no_sense)
{
	expect({{"refuse-1", -EPROTONOSUPPORT}, {"refuse-5", -EPROTO}, {"refuse-99", -EPROTO},
		{"refuse-4", -EBUSY}, {"welcome-echo", -EPROTO}, {"welcome-mode", -EPROTO},
		{"welcome-credits", -EPROTO}, {"welcome-magic", -EPROTO}, {"silence", -ETIMEDOUT}});
}

// The other way round: what the module says to callers that do not know the protocol.
TEST_F(Peers, callers_that_make_no_sense)
{
	constexpr std::pair<const char *, const char *> calls[] = {
		{"version", "refused 1"},
		{"mode", "refused 2"},
		{"magic", "refused 5"},
		{"mode-unknown", "refused 5"},
		{"credits", "refused 5"},
		{"packet-max", "refused 5"},
		{"step", "refused 5"},
		{"noise", "refused 5"},
	};

	need_server();
	auto traffic = lab().start(1,
		built("user/tools/ibrelk-perf") +
			" rate 10.1.0.2 --verify --mixed --size 600 --iterations 20000 --timeout 60 --mode "
			"uc-reliable");
	for (const bool ud : {false, true}) {
		for (const auto &[say, expected] : calls) {
			const Result result = lab().run(
				1, cmpeer(fmt::format("call 10.1.0.2 --say {}{}", say, ud ? " --ud" : "")));
			EXPECT_NE(result.output.find(expected), std::string::npos)
				<< say << (ud ? " (UD): " : ": ") << result.output;
		}
	}
	const Result result = traffic.wait(Duration(240));
	EXPECT_EQ(result.status, 0) << result.output;
	expect_working();
}

// Nobody needs the connection manager to reach the own node; who asks nevertheless leaves nothing behind.
TEST_F(Peers, callers_from_the_own_node)
{
	need_server();
	for (const char *kind : {"", " --ud"}) {
		const Result result = lab().run(2, cmpeer(std::string("call 10.1.0.2 --say hello") + kind));
		EXPECT_NE(result.output.find("refused 2"), std::string::npos)
			<< kind << ": " << result.output;
	}
	expect_working();
}

// One that says HELLO, and then nothing more, holds up nobody; the right one behind the same address
// included.
TEST_F(Peers, a_caller_that_never_confirms)
{
	need_server();
	for (const char *kind : {"", " --ud"})
		for (int i = 0; i < 3; i++) {
			const Result result =
				lab().run(1, cmpeer(std::string("call 10.1.0.2 --say hello") + kind));
			EXPECT_EQ(result.status, 0) << result.output;
		}
	expect_working();
}

TEST_F(Peers, connecting_while_datagrams_get_lost)
{
	need_server();
	const Result unloaded = unload_module(1);
	ASSERT_EQ(unloaded.status, 0) << unloaded.output;
	load_module(1);
	for (const auto &mode : reliable_modes) {
		for (int node = 1; node <= 2; node++)
			lab().set_fault(node, "loss 30%");
		auto job = lab().start(1,
			built("user/tools/ibrelk-perf") +
				" bandwidth 10.1.0.2 --verify --iterations 20 --size 8 --connect-timeout 90 "
				"--timeout 60 --mode " +
				mode);
		lab().wait_until(1,
			fmt::format("{} show paths | grep -q '{} *up'", built("user/tools/ibrelk"), mode),
			Duration(90));
		/* It is connecting that is tried here. RC's own repetition does not get far over such a wire.
		 */
		for (int node = 1; node <= 2; node++)
			lab().clear_fault(node);
		const Result result = job.wait(Duration(120));
		EXPECT_EQ(result.status, 0) << result.output;
	}
}

TEST_F(Peers, ipv6)
{
	for (int node = 1; node <= 2; node++) {
		lab().run_ok(
			node, fmt::format("ip -6 address replace fd00:1b7e::{}/64 dev eth0 nodad", node));
		lab().wait_until(node,
			fmt::format(
				"{} show ports | grep -q fd00:1b7e::{}", built("user/tools/ibrelk"), node));
	}
	need_server();
	for (const auto &mode : reliable_modes) {
		const Result result = try_perf("bandwidth [fd00:1b7e::2]:" +
			std::to_string(7471 + (mode[1] == 'c' ? mode[0] == 'r' ? 4 : 5 : 6)) +
			" --verify --iterations 20 --size 8,8192,65536 --timeout 60 --mode " + mode);
		EXPECT_EQ(result.status, 0) << result.output;
	}
	EXPECT_NE(lab().run_ok(1, built("user/tools/ibrelk") + " show paths").find("fd00:1b7e::2"),
		std::string::npos);
	for (int node = 1; node <= 2; node++)
		lab().run_ok(node, fmt::format("ip -6 address del fd00:1b7e::{}/64 dev eth0", node));
	/* Nobody may bind an address before it is known that no other node has it, and no event tells when
	 * that is. */
	lab().run_ok(1,
		"echo 1 >/proc/sys/net/ipv6/conf/eth0/accept_dad && "
		"ip -6 address add fd00:1b7e::9/64 dev eth0 && ip -6 address show dev eth0 | grep tentative");
	lab().wait_until(1, fmt::format("{} show ports | grep -q fd00:1b7e::9", built("user/tools/ibrelk")));
	lab().run_ok(1,
		"ip -6 address del fd00:1b7e::9/64 dev eth0 && echo 0 "
		">/proc/sys/net/ipv6/conf/eth0/accept_dad");
	/* What went by those addresses is over; by the others it goes on. */
	for (int node = 1; node <= 2; node++)
		lab().wait_until(
			node, fmt::format("! {} show ports | grep -q fd00:1b7e", built("user/tools/ibrelk")));
	expect_working();
}

} // namespace

} // namespace cluster
