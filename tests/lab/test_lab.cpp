// SPDX-License-Identifier: GPL-2.0-only
//
// The lab tested on itself: that it reports faithfully what happens on its
// nodes, and never waits for ever.

#include "bench.hpp"
#include "lab.hpp"
#include "process.hpp"
#include "report.hpp"

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace
{

using lab::Duration;
using testing::HasSubstr;
using testing::Not;

// One cluster serves all tests that leave it as they found it.
class LabTest : public testing::Test
{
protected:
	static void SetUpTestSuite()
	{
		cluster = std::make_unique<lab::Lab>();
	}

	static void TearDownTestSuite()
	{
		cluster.reset();
	}

	void TearDown() override
	{
		EXPECT_EQ(cluster->check(), "");
	}

	// What a call throws, as text.
	template<typename Thrown, typename Call>
	static std::string message_of(Call call)
	{
		try {
			call();
		} catch (const Thrown &error) {
			return error.what();
		}
		ADD_FAILURE() << "nothing was thrown";
		return "";
	}

	static std::unique_ptr<lab::Lab> cluster;
};

std::unique_ptr<lab::Lab> LabTest::cluster;

TEST_F(LabTest, nodes__have_names_addresses_and_devices)
{
	for (int node = 1; node <= cluster->nodes(); node++) {
		EXPECT_EQ(cluster->run_ok(node, "hostname"), "node" + std::to_string(node) + "\n");
		EXPECT_THAT(
			cluster->run_ok(node, "ip -4 addr show eth0"), HasSubstr(lab::Lab::address(node)));
		EXPECT_THAT(cluster->run_ok(node, "rdma link"), HasSubstr("rxe0/1 state ACTIVE"));
	}
	cluster->run_ok(1, "ping -c 1 node2");
	cluster->run_ok(2, "ping -c 1 node1");
}

TEST_F(LabTest, nodes__see_what_was_built_and_keep_their_changes)
{
	const std::string self = std::filesystem::read_symlink("/proc/self/exe");
	cluster->run_ok(1, "test -x " + self);
	cluster->run_ok(1, "echo changed >/etc/lab-was-here");
	EXPECT_FALSE(std::filesystem::exists("/etc/lab-was-here"));
	EXPECT_NE(cluster->run(2, "test -e /etc/lab-was-here").status, 0);
	EXPECT_NE(cluster->run(1, "touch " + self + ".new").status, 0);
}

TEST_F(LabTest, nodes__speak_rdma)
{
	lab::Job server = cluster->start(2, "ib_send_bw -e -d rxe0 -x 1 -m 4096 -s 65536 -n 100");
	cluster->wait_until(1, "ib_send_bw -e -d rxe0 -x 1 -m 4096 -s 65536 -n 100 10.1.0.2", Duration(60));
	EXPECT_EQ(server.wait(Duration(30)).status, 0);
}

// What becomes of a kernel that uses it, is said where its parameters are. To programs it is there.
TEST_F(LabTest, nodes__do_without_the_instruction_that_spoils_flags)
{
	for (int node = 1; node <= cluster->nodes(); node++)
		EXPECT_EQ(cluster->run(node, "grep -qw cx16 /proc/cpuinfo").status, 1);
}

// A node that the host has not run for half a minute has not stood still by its own fault.
TEST_F(LabTest, nodes__wait_a_minute_before_they_report_a_lockup)
{
	for (int node = 1; node <= cluster->nodes(); node++) {
		EXPECT_EQ(cluster->run_ok(node, "cat /proc/sys/kernel/watchdog_thresh"), "30\n");
		EXPECT_EQ(cluster->run_ok(node, "cat /sys/module/rcupdate/parameters/rcu_cpu_stall_timeout"),
			"60\n");
	}
}

TEST_F(LabTest, nodes__are_told_how_fast_their_clock_is)
{
	for (int node = 1; node <= cluster->nodes(); node++)
		cluster->run_ok(node,
			"told=$(sed 's/.*tsc_early_khz=\\([0-9]*\\).*/\\1/' /proc/cmdline) && "
			"dmesg | grep \"tsc: Detected $((told / 1000))[.]$(printf %03d $((told % 1000))) "
			"MHz\"");
}

TEST_F(LabTest, run__returns_status_and_output)
{
	EXPECT_EQ(cluster->run(1, "true").status, 0);
	EXPECT_EQ(cluster->run(1, "exit 42").status, 42);
	EXPECT_EQ(cluster->run(1, "kill -SEGV $$").status, 128 + SIGSEGV);
	EXPECT_EQ(cluster->run(2, "echo out; echo err >&2").output, "out\nerr\n");
	EXPECT_EQ(cluster->run(2, "no-such-command").status, 127);
	EXPECT_EQ(cluster->run(1, "head -c 5000000 /dev/zero").output.size(), 5000000U);
	EXPECT_THROW(cluster->run(3, "true"), lab::Error);
	EXPECT_THAT(message_of<lab::Error>([] { cluster->run_ok(2, "echo bad; exit 7"); }),
		testing::AllOf(HasSubstr("node 2"), HasSubstr("status 7"), HasSubstr("bad")));
}

TEST_F(LabTest, run__says_what_it_waited_for)
{
	const std::string message = message_of<lab::TimedOut>(
		[] { cluster->run(1, "echo so far; sleep 1234 & sleep 1234", Duration(5)); });
	EXPECT_THAT(message, HasSubstr("sleep 1234"));
	EXPECT_THAT(message, HasSubstr("so far"));
	EXPECT_THAT(message, HasSubstr("nanosleep")); // where it is in the kernel
	cluster->wait_until(1, "! pgrep -f '[s]leep 1234'");
}

TEST_F(LabTest, start__runs_jobs_side_by_side)
{
	std::vector<lab::Job> jobs;
	jobs.reserve(10);
	for (int i = 0; i < 10; i++)
		jobs.push_back(cluster->start(
			1 + i % 2, "echo job " + std::to_string(i) + "; read line; sleep 1000"));
	for (int i = 0; i < 10; i++)
		jobs[static_cast<std::size_t>(i)].wait_for_output(
			"job " + std::to_string(i) + "\n", Duration(20));
	for (auto &job : jobs) {
		EXPECT_TRUE(job.running());
		job.kill(SIGTERM);
	}
	for (auto &job : jobs)
		EXPECT_EQ(job.wait(Duration(20)).status, 128 + SIGTERM);
}

TEST_F(LabTest, start__kills_what_is_let_go)
{
	{
		const lab::Job job = cluster->start(2, "exec sleep 4321");
		cluster->wait_until(2, "pgrep -f '[s]leep 4321'");
	}
	cluster->wait_until(2, "! pgrep -f '[s]leep 4321'");
}

TEST_F(LabTest, wait_for_output__does_not_wait_for_the_dead)
{
	lab::Job job = cluster->start(1, "echo something else");
	EXPECT_THAT(message_of<lab::Error>([&] { job.wait_for_output("the word", Duration(30)); }),
		testing::AllOf(HasSubstr("the word"), HasSubstr("something else")));
}

TEST_F(LabTest, terminal__is_one)
{
	lab::Job shell = cluster->start(1, "exec bash --norc -i", {30, 100});
	shell.type("tty; stty size\n");
	shell.wait_for_output("30 100", Duration(20));
	EXPECT_THAT(shell.output(), HasSubstr("/dev/pts/"));
	shell.type("exit 5\n");
	EXPECT_EQ(shell.wait(Duration(20)).status, 5);
}

TEST_F(LabTest, set_fault__drops_packets)
{
	const std::string ping = "ping -q -c 40 -i 0.02 -W 1 10.1.0.2";
	cluster->run_ok(1, "ping -c 1 10.1.0.2");
	cluster->set_fault(1, "loss 50%");
	EXPECT_THAT(cluster->run(1, ping).output, Not(HasSubstr(" 0% packet loss")));
	cluster->set_fault(1, "loss 100%");
	EXPECT_THAT(cluster->run(1, "ping -q -c 2 -W 1 10.1.0.2").output, HasSubstr("100% packet loss"));
	cluster->clear_fault(1);
	EXPECT_THAT(cluster->run(1, ping).output, HasSubstr(" 0% packet loss"));
	cluster->clear_fault(1);
}

// From 6.12 on soft-RoCE takes any packet that the device does not take for the end of its queue pair, and if
// it was that of the connection manager (QP 1) the node cannot connect any more.
TEST_F(LabTest, set_fault__drops_nothing_else)
{
	const std::string errors = "cat /sys/class/infiniband/rxe0/ports/1/hw_counters/send_err";
	const std::string stream = "ib_send_bw -c UC -d rxe0 -x 1 -m 4096 -s 4096 -D 60";
	const std::string before = cluster->run_ok(1, errors);
	lab::Job server = cluster->start(2, stream);
	cluster->wait_until(2, "grep -q ':4853 .* 0A ' /proc/net/tcp");
	lab::Job client = cluster->start(1, stream + " 10.1.0.2");
	cluster->wait_until(1, "rdma res show qp | grep -q 'type UC state RTS'");

	for (int i = 0; i < 10; i++) {
		cluster->set_fault(1, "delay 1ms");
		cluster->clear_fault(1);
	}
	EXPECT_TRUE(client.running()) << client.output();
	client.kill(9);
	server.kill(9);
	client.wait(Duration(20));
	server.wait(Duration(20));
	EXPECT_EQ(cluster->run_ok(1, errors), before);
}

TEST_F(LabTest, set_fault__duplicates_and_delays)
{
	cluster->set_fault(2, "duplicate 100%");
	EXPECT_THAT(cluster->run(1, "ping -c 4 -i 0.1 10.1.0.2").output, HasSubstr("DUP!"));
	cluster->set_fault(2, "delay 300ms");
	EXPECT_THAT(cluster->run_ok(1, "ping -c 2 -i 0.1 10.1.0.2"),
		testing::AllOf(HasSubstr("time="), Not(testing::ContainsRegex("time=[0-9]{1,2}\\."))));
	cluster->clear_fault(2);
	EXPECT_THROW(cluster->set_fault(2, "nonsense"), lab::Error);
}

TEST_F(LabTest, link_down__takes_the_carrier)
{
	cluster->link_down(1);
	EXPECT_THAT(cluster->run_ok(1, "cat /sys/class/infiniband/rxe0/ports/1/state"), HasSubstr("DOWN"));
	EXPECT_NE(cluster->run(1, "ping -c 1 -W 1 10.1.0.2").status, 0);
	cluster->link_up(1);
	cluster->wait_until(1, "grep ACTIVE /sys/class/infiniband/rxe0/ports/1/state");
	cluster->wait_until(1, "ping -c 1 -W 1 10.1.0.2");
}

TEST_F(LabTest, check__reports_a_warning_once)
{
	const std::string warning = "WARNING: CPU: 0 PID: 1 at drivers/made/up.c:1 made_up+0x1/0x2";
	cluster->run_ok(2, "echo '<4>" + warning + "' >/dev/kmsg");
	EXPECT_THAT(cluster->check(), testing::AllOf(HasSubstr("node2"), HasSubstr(warning)));
	EXPECT_EQ(cluster->check(), "");
	EXPECT_THAT(cluster->dmesg(2), HasSubstr(warning));
	EXPECT_THAT(cluster->console(2), HasSubstr(warning));
}

TEST_F(LabTest, crash__ends_jobs_and_boot_begins_anew)
{
	cluster->run_ok(2, "echo here >/tmp/before");
	lab::Job job = cluster->start(2, "sleep 1000");
	cluster->crash(2);
	EXPECT_FALSE(cluster->alive(2));
	EXPECT_THAT(message_of<lab::Error>([&] { job.wait(Duration(30)); }), HasSubstr("went down"));
	EXPECT_THROW(cluster->run(2, "true"), lab::Error);
	EXPECT_NE(cluster->run(1, "ping -c 1 -W 1 10.1.0.2").status, 0);
	EXPECT_EQ(cluster->check(), ""); // it was wanted
	cluster->boot(2);
	EXPECT_NE(cluster->run(2, "test -e /tmp/before").status, 0);
	cluster->wait_until(1, "ping -c 1 -W 1 10.1.0.2");
	cluster->run_ok(2, "rdma link | grep ACTIVE");
}

TEST_F(LabTest, panic__is_noticed)
{
	lab::Job sleeper = cluster->start(1, "echo asleep; exec sleep 1000");
	sleeper.wait_for_output("asleep", Duration(60));
	const lab::Job trigger = cluster->start(1, "echo c >/proc/sysrq-trigger");
	EXPECT_THAT(message_of<lab::Error>([&] { sleeper.wait(Duration(60)); }), HasSubstr("went down"));
	EXPECT_THAT(cluster->check(), testing::AllOf(HasSubstr("Kernel panic"), HasSubstr("node 1 died")));
	cluster->reboot(1);
	cluster->run_ok(1, "ping -c 1 10.1.0.2");
}

TEST(Switch, joins_three_nodes_with_two_processors)
{
	lab::Options options;
	options.nodes = 3;
	options.cpus = 2;
	lab::Lab cluster(options);
	for (int node = 1; node <= 3; node++) {
		EXPECT_EQ(cluster.run_ok(node, "nproc"), "2\n");
		for (int peer = 1; peer <= 3; peer++)
			cluster.wait_until(node, "ping -c 1 -W 1 node" + std::to_string(peer));
	}
	cluster.crash(3);
	EXPECT_NE(cluster.run(1, "ping -c 1 -W 1 node3").status, 0);
	cluster.run_ok(1, "ping -c 1 node2");
	cluster.boot(3);
	cluster.wait_until(1, "ping -c 1 -W 1 node3");
	EXPECT_EQ(cluster.check(), "");
}

TEST(Boot, that_fails_says_why)
{
	lab::Options options;
	options.append = "rdinit=/no/such/init init=/no/such/init";
	try {
		const lab::Lab cluster(options);
		FAIL() << "it booted";
	} catch (const lab::Error &error) {
		EXPECT_THAT(error.what(),
			testing::AllOf(HasSubstr("died while it booted"), HasSubstr("Kernel panic")));
	}
}

TEST(Bench, repeats_itself_to_the_bit)
{
	lab::BenchOptions options;
	options.limit = Duration(600);
	options.files = {"/usr/bin/ib_send_bw", "/usr/bin/ib_send_lat"};
	options.arguments = {"an argument", "it's another"};
	options.script = "#!/bin/sh\n"
			 "echo \"$# $1 $2\"; cat /proc/uptime; echo kept >/out/file\n"
			 // As above: it does without, too.
			 "grep -qw cx16 /proc/cpuinfo && exit 4\n"
			 "tc qdisc add dev v0 root netem loss 30% delay 1ms\n"
			 "ping -c 50 -I v0 10.9.0.2; tc qdisc del dev v0 root\n"
			 "ib_send_bw -e -d rxe0 -s 8 -n 1000 >/dev/null & server=$!\n"
			 "until netstat -ltn | grep -q :18515; do sleep 0.01; done\n"
			 "ib_send_bw -e -d rxe1 -s 8 -n 1000 10.9.0.1; wait $server\n"
			 // Runs differ first in how much idle time is skipped, of which there is much here.
			 "tc qdisc add dev v0 root netem delay 1ms\n"
			 "ib_send_lat -e -d rxe0 -s 65536 -n 3000 >/dev/null & server=$!\n"
			 "until netstat -ltn | grep -q :18515; do sleep 0.01; done\n"
			 "ib_send_lat -e -d rxe1 -s 65536 -n 3000 10.9.0.1; wait $server\n"
			 "sleep 600; cat /proc/uptime; exit 3\n";
	options.out_dir = testing::TempDir() + "lab-bench-" + std::to_string(getpid());
	const auto first = lab::bench(options);
	EXPECT_EQ(first.status, 3);
	EXPECT_EQ(first.reports, "");
	EXPECT_THAT(first.output, testing::StartsWith("2 an argument it's another\n"));
	EXPECT_THAT(first.output, HasSubstr("MsgRate"));
	std::string kept;
	std::getline(std::ifstream(options.out_dir / "file"), kept);
	EXPECT_EQ(kept, "kept");
	std::filesystem::remove_all(options.out_dir);
	options.out_dir.clear();
	EXPECT_EQ(lab::bench(options).output, first.output);
}

TEST(Bench, has_folders_with_what_is_in_them)
{
	const std::filesystem::path folder = testing::TempDir() + "lab-folder-" + std::to_string(getpid());
	std::filesystem::create_directories(folder / "deep");
	std::ofstream(folder / "deep/text") << "found";
	std::filesystem::copy_file("/usr/sbin/ethtool", folder / "tool");
	lab::BenchOptions options;
	options.limit = Duration(300);
	options.folders = {folder};
	options.arguments = {folder};
	options.script = "#!/bin/sh\ncat $1/deep/text && $1/tool --version\n";
	const auto result = lab::bench(options);
	std::filesystem::remove_all(folder);
	EXPECT_EQ(result.status, 0);
	EXPECT_THAT(result.output, testing::StartsWith("foundethtool version"));
}

TEST(Bench, has_a_limit)
{
	lab::BenchOptions options;
	options.limit = Duration(3);
	options.script = "#!/bin/sh\nwhile :; do :; done\n";
	try {
		lab::bench(options);
		FAIL() << "it ended";
	} catch (const lab::TimedOut &error) {
		EXPECT_THAT(error.what(), HasSubstr("within 3 s"));
	}
}

// `make bench` without a module and without programs: nothing can finish.
TEST(Bench, rows_of_what_does_not_finish)
{
	const std::string guest = LAB_SOURCE_TREE "/tests/bench/guest.sh";
	const std::vector<std::string> modes = {
		"uc-reliable", "ud-native", "perftest-rc", "ofi-rxd", "tcp", "ofi-tcp"};
	lab::BenchOptions options;
	options.limit = Duration(300);
	std::stringstream script;
	script << std::ifstream(guest).rdbuf();
	options.script = script.str();
	options.arguments = modes;
	std::vector<std::string> command = {"sh", guest, "--rows"};
	command.insert(command.end(), modes.begin(), modes.end());
	const std::string expected = lab::output_of(command);
	std::stringstream output(lab::bench(options).output);
	std::string rows;
	for (std::string line; std::getline(output, line);)
		if (line.starts_with("row: "))
			rows += line + "\n";
	EXPECT_THAT(expected, HasSubstr("row: uc-reliable,msg_rate_kps,8,0,0,0,k/s\n"));
	EXPECT_THAT(expected, HasSubstr("row: perftest-rc,insns_per_msg,65536,0,0,0,1\n"));
	EXPECT_THAT(expected, HasSubstr("row: uc-reliable,bandwidth_mbps,65536,5,1,0,MB/s\n"));
	EXPECT_THAT(expected, HasSubstr("row: tcp,latency_p99_us,8,1,0,0,us\n"));
	EXPECT_THAT(expected, HasSubstr("row: ofi-rxd,overlap_send_first_pct,65536,0,0,0,%\n"));
	EXPECT_EQ(rows, expected);
}

TEST(Report, finds_what_matters)
{
	EXPECT_EQ(lab::kernel_reports(
			  "[    1.0] ibrelk: warning, the peer is away\n[    2.0] random: init done\n"),
		"");
	const std::string warning = "[    3.0] ------------[ cut here ]------------\n"
				    "[    3.0] WARNING: CPU: 0 PID: 1 at a.c:1 f+0x1/0x2\n"
				    "[    3.0] Call Trace:\n"
				    "[    3.0]  f+0x1/0x2\n"
				    "[    3.0] ---[ end trace 0000000000000000 ]---\n";
	EXPECT_EQ(lab::kernel_reports("[    2.0] before\n" + warning + "[    4.0] after\n"), warning);
	for (const auto *line :
		{"BUG: unable to handle page fault for address: 0", "BUG: KASAN: use-after-free in f",
			"WARNING: possible circular locking dependency detected",
			"INFO: task a:1 blocked for more than 60 seconds.",
			"rcu: INFO: rcu_preempt self-detected stall on CPU", "Kernel panic - not syncing: x",
			"watchdog: BUG: soft lockup - CPU#0 stuck for 22s!", "general protection fault: 0000",
			"Oops: 0000 [#1] PREEMPT SMP", "refcount_t: underflow; use-after-free."})
		EXPECT_THAT(lab::kernel_reports(std::string("[    1.0] ") + line + "\r\n"), HasSubstr(line));
}

} // namespace
