// SPDX-License-Identifier: GPL-2.0-only
//
// MPI over two nodes, over our libfabric provider: programs of our own (tests/mpi), and other people's.
#include "cluster.hpp"
#include "mpi.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>

#include <fmt/format.h>

namespace cluster
{

namespace
{

class MpiTest : public ClusterTest
{
protected:
	void SetUp() override
	{
		ClusterTest::SetUp();
		mpi::prepare(lab());
	}

	// Runs it, and expects that node 2 received so many messages by us, and not by TCP.
	static Result run(const mpi::Job &job, long messages, Duration limit = Duration(600))
	{
		auto received = growth(2, "rx_messages", job.mode);
		Result result = lab().run(1, mpi::command(job), limit);

		EXPECT_EQ(result.status, 0) << result.output;
		EXPECT_GE(received.value(), messages) << result.output;
		return result;
	}

	static void expect_verified(const Result &result, const std::string &verified = "verified")
	{
		EXPECT_EQ(result.status, 0) << result.output;
		EXPECT_NE(result.output.find(verified + "\n"), std::string::npos) << result.output;
	}

	// Does something while packets are lost, some of which are repeated.
	static void while_packets_are_lost(const std::string &mode, const std::function<void()> &something)
	{
		// The connection manager repeats a lost datagram only after seconds: connect on the clean
		// wire.
		perf("latency --iterations 2 --size 8 --mode " + mode);
		lab().set_fault(1, "loss 1%");
		lab().set_fault(2, "loss 1%");

		auto repeated = growth(1, "retransmits_rack", mode);
		auto probed = growth(1, "retransmits_probe", mode);
		auto timed_out = growth(1, "retransmits_timeout", mode);

		something();
		// An RC queue pair repeats by itself what is lost.
		if (mode != "rc-reliable") {
			EXPECT_GT(repeated.value() + probed.value() + timed_out.value(), 0);
		}
	}

	static Result run_while_packets_are_lost(
		const mpi::Job &job, long messages, Duration limit = Duration(600))
	{
		Result result;

		while_packets_are_lost(job.mode, [&] { result = run(job, messages, limit); });
		return result;
	}

	// What "requests" of onesided puts to the next rank, and gets from it, on the other node: one of each
	// for each length but 0. It has no accumulates, which would be counted, too.
	static constexpr long puts_and_gets_of_requests = 10;

	// Runs it, and expects that it goes by RMA, and so much in either direction.
	static Result run_by_rma(const mpi::Job &job, long at_least)
	{
		auto received = growth(2, "rx_remote", job.mode);
		auto sent = growth(2, "tx_remote", job.mode);
		Result result = run(job, 1);

		const long there = received.value();
		const long back = sent.value();

		EXPECT_GT(there + back, 0) << result.output;
		EXPECT_GE(std::min(there, back), at_least) << result.output;
		return result;
	}

	static void wait_until_nobody_is_left()
	{
		for (int either : {1, 2})
			lab().wait_until(either, "! pidof pingpong");
	}

	// A command on a node ends an endless ping-pong, and nothing stays behind: how the job ended.
	static Result run_until(const std::string &command, int node, const mpi::Job &pingpong)
	{
		stop_server();

		lab::Job endless = start_endless(pingpong);

		lab().run_ok(node, command);

		const auto ended = std::chrono::steady_clock::now();
		Result result = endless.wait(Duration(60));

		fmt::print("mpirun ends {:.1f} s later\n",
			std::chrono::duration<double>(std::chrono::steady_clock::now() - ended).count());
		wait_until_nobody_is_left();
		renew_modules();
		return result;
	}

	// So ends it when the rank on node 2 is killed.
	static Result run_until_a_rank_is_killed(const mpi::Job &pingpong)
	{
		return run_until("kill -KILL $(pidof pingpong)", 2, pingpong);
	}

	// It stands still for 10 s: the job goes on when it does.
	static Result run_while_a_rank_is_stopped(const mpi::Job &pingpong)
	{
		lab::Job endless = start_endless(pingpong);

		lab().run_ok(2, "kill -STOP $(pidof pingpong)");
		/* The condition is time itself. */
		lab().run_ok(2, "sleep 10");
		EXPECT_TRUE(endless.running()) << endless.output();
		lab().run_ok(2, "kill -CONT $(pidof pingpong)");
		return end_endless(endless);
	}

	// The launcher gives its ranks a key: who has none is refused, though he is the same user.
	static Result run_while_others_call(const mpi::Job &pingpong)
	{
		lab::Job endless = start_endless(pingpong);
		const std::string rank = endpoint_of(2, "pingpong");
		const Result other = try_perf(
			fmt::format("latency --connect-timeout 60 --iterations 1 --size 8 --mode {} {}",
				pingpong.mode, rank));

		EXPECT_NE(other.status, 0);
		EXPECT_NE(other.output.find("the peer's endpoint has another job key"), std::string::npos)
			<< other.output;
		return end_endless(endless);
	}

	// Each rank has a job key of its own, so that none of its messages arrive.
	static mpi::Job of_two_jobs(mpi::Job job)
	{
		job.program =
			fmt::format("sh -c 'FI_IBRELK_JOB_KEY=$OMPI_COMM_WORLD_RANK exec {}'", job.program);
		return job;
	}

	// MPI itself says at most that a send has failed.
	static void expect_another_job_key(const std::string &output, const std::string &what)
	{
		EXPECT_TRUE(std::regex_search(output,
			std::regex(what +
				" 10\\.1\\.0\\.[12]:[0-9#]+ [a-z ]+: the peer's endpoint has another job "
				"key")))
			<< output;
	}

private:
	static Result end_endless(lab::Job &endless)
	{
		lab().run_ok(1, fmt::format("touch {}", stop));

		Result result = endless.wait(Duration(120));

		lab().run_ok(1, fmt::format("rm {}", stop));
		return result;
	}

	// What `ibrelk show` has of a process: 10.1.0.2:70000. Empty: nothing, or there is not just one.
	static std::string endpoint_of(int node, const std::string &program)
	{
		const std::string shown =
			lab().run_ok(node, built("user/tools/ibrelk") + " show endpoints --json");
		std::string pid = lab().run(node, "pidof " + program).output;
		std::smatch match;

		pid.erase(pid.find_last_not_of(" \n") + 1);
		std::regex_search(shown, match,
			std::regex(
				"\"address\": *\"([0-9.]+:[0-9]+)[^\"]*\",[^{}]*\"pid\": *" + pid + "\\b"));
		EXPECT_FALSE(match.empty()) << "process " << pid << " in " << shown;
		return match[1];
	}

	// It goes on as long as a file does not exist, and has begun.
	static lab::Job start_endless(mpi::Job pingpong)
	{
		pingpong.program += fmt::format(" --until {}", stop);

		lab::Job endless = lab().start(1, mpi::command(pingpong));

		endless.wait_for_output("going", Duration(120));
		return endless;
	}

	static constexpr const char *stop = "/tmp/mpi-stop";
};

class Mpi : public MpiTest, public testing::WithParamInterface<std::string>
{
protected:
	static mpi::Job job(const std::string &program, int ranks = 1)
	{
		return {.program = built("tests/mpi/" + program), .mode = GetParam(), .ranks = ranks};
	}

	// By puts, gets and atomics of ours: windows are osc/rdma's then, by btl/ofi; messages go as before.
	// (But for dynamic windows: Open MPI 4.1.4 waits there for a lock that it has, see mpi.rst.)
	static void puts_and_gets()
	{
		for (const std::string piece :
			{"fence", "'everybody to everybody'", "'post, start, complete, wait'", "locks",
				"'exclusive locks exclude'", "'lock all and flush'", "requests", "allocated",
				"units", "datatypes", "sums", "operations", "'in order'"}) {
			mpi::Job by_rma = job("onesided " + piece);
			const bool counted = piece == "requests";

			SCOPED_TRACE(piece);
			by_rma.options = mpi::by_rma + " --mca osc_rdma_acc_use_amo 0";
			expect_verified(
				run_by_rma(by_rma, counted ? puts_and_gets_of_requests : 0), "verified 1");
		}
	}

	// What btl/ofi knows of the operations of MPI is done by one atomic each; it ends at those that it
	// does not know.
	static void atomics()
	{
		for (const std::string piece : {"tickets", "'compare and swap'", "sums"}) {
			mpi::Job atomics = job("onesided " + piece);
			auto remote = growth(2, "tx_remote", atomics.mode);

			// All are for rank 0, which is on node 1.
			SCOPED_TRACE(piece);
			atomics.options = mpi::by_rma;
			expect_verified(run(atomics, 1), "verified 1");
			EXPECT_GE(remote.value(), 10);
		}
	}
};

TEST_P(Mpi, ping_pong)
{
	expect_verified(run(job("pingpong"), 24));
}

TEST_P(Mpi, ping_pong_while_packets_are_lost)
{
	expect_verified(run_while_packets_are_lost(job("pingpong"), 24));
}

// Two ranks on each node: so some are neighbours.
TEST_P(Mpi, point_to_point)
{
	expect_verified(run(job("pointtopoint", 2), 400), "verified 20");
}

TEST_P(Mpi, point_to_point_while_packets_are_lost)
{
	expect_verified(run_while_packets_are_lost(job("pointtopoint"), 400), "verified 20");
}

// Puts, gets and accumulates that Open MPI makes of messages.
TEST_P(Mpi, one_sided_by_messages)
{
	mpi::Job by_messages = job("onesided", 2);

	by_messages.options = "--mca osc pt2pt";
	expect_verified(run(by_messages, 400), "verified 16");
}

TEST_P(Mpi, one_sided_by_messages_while_packets_are_lost)
{
	mpi::Job by_messages = job("onesided");

	by_messages.options = "--mca osc pt2pt";
	expect_verified(run_while_packets_are_lost(by_messages, 400), "verified 16");
}

// The same by puts and gets of ours, and by atomics.
TEST_P(Mpi, one_sided_by_rma)
{
	puts_and_gets();
}

TEST_P(Mpi, one_sided_by_rma_while_packets_are_lost)
{
	while_packets_are_lost(GetParam(), [] { puts_and_gets(); });
}

TEST_P(Mpi, one_sided_by_atomics)
{
	atomics();
}

TEST_P(Mpi, one_sided_by_atomics_while_packets_are_lost)
{
	while_packets_are_lost(GetParam(), [] { atomics(); });
}

// The job dies, and says why; nothing stays behind.
TEST_P(Mpi, a_rank_is_killed)
{
	const Result result = run_until_a_rank_is_killed(job("pingpong"));

	EXPECT_NE(result.status, 0);
	// Now and then mpirun cannot read the message that it is to show, or has no room for it, and says
	// that.
	EXPECT_TRUE(std::regex_search(result.output,
		std::regex("signal 9 \\(Killed\\)|ORTE_ERROR_LOG: (Data unpack|Out of resource)")))
		<< result.output;
}

// A process that stands still is none that is dead.
TEST_P(Mpi, a_rank_is_stopped)
{
	expect_verified(run_while_a_rank_is_stopped(job("pingpong")));
}

TEST_P(Mpi, others_are_refused)
{
	expect_verified(run_while_others_call(job("pingpong")));
}

// Of a short message MPI knows nothing any more when it fails.
TEST_P(Mpi, says_why_a_short_message_is_lost)
{
	lab::Job waits = lab().start(1, mpi::command(of_two_jobs(job("pingpong"))));

	waits.wait_for_output("has another job key", Duration(120));
	lab().run_ok(1, "kill $(pidof mpirun)");

	const Result result = waits.wait(Duration(60));

	EXPECT_NE(result.status, 0);
	expect_another_job_key(result.output, "what was injected to");
	wait_until_nobody_is_left();
}

TEST_P(Mpi, says_why_a_long_message_fails)
{
	mpi::Job fails = of_two_jobs(job("pingpong --until /tmp/never"));

	fails.options = "-x FI_LOG_LEVEL=warn";

	const Result result = lab().run(1, mpi::command(fails), Duration(120));

	EXPECT_NE(result.status, 0);
	expect_another_job_key(result.output, "an operation with");
	wait_until_nobody_is_left();
}

INSTANTIATE_TEST_SUITE_P(Modes, Mpi, testing::Values("uc-reliable", "ud-reliable", "auto"),
	[](const auto &info) { return test_name(info.param); });

// Programs as they come from Debian. Where the order of additions is the same, so is each bit of what comes
// out.
struct Case {
	std::string name;
	int ranks = 1; // of each node
	std::string mode;
	int loss_pct = 0;
};

std::string case_name(const testing::TestParamInfo<Case> &info)
{
	const Case &c = info.param;

	return fmt::format("{}_{}_{}_loss_{}", c.name, 2 * c.ranks, test_name(c.mode), c.loss_pct);
}

class Lammps : public MpiTest, public testing::WithParamInterface<Case>
{
protected:
	static constexpr int steps = 20;

	static const std::string &over_tcp(const Case &c)
	{
		static std::map<std::pair<std::string, int>, std::string> known;
		std::string &text = known[{c.name, c.ranks}];

		if (text.empty()) {
			mpi::Job job = mpi::lammps(c.name, steps);

			job.ranks = c.ranks;
			job.over = "tcp";
			text = mpi::thermodynamics(lab().run_ok(1, mpi::command(job), Duration(900)));
		}
		return text;
	}
};

TEST_P(Lammps, computes_what_it_does_over_tcp)
{
	const Case &c = GetParam();
	const std::string expected = over_tcp(c);
	mpi::Job job = mpi::lammps(c.name, steps);

	job.ranks = c.ranks;
	job.mode = c.mode;

	const Result result = c.loss_pct ? run_while_packets_are_lost(job, 10L * steps, Duration(900))
					 : run(job, 10L * steps, Duration(900));

	EXPECT_GT(std::count(expected.begin(), expected.end(), '\n'), steps) << expected;
	EXPECT_EQ(mpi::thermodynamics(result.output), expected) << result.output;
}

std::vector<Case> lammps_cases()
{
	std::vector<Case> all;

	for (const std::string name : {"chain", "eam", "rhodo"})
		for (int ranks : {1, 2})
			for (const std::string &mode : reliable_modes)
				for (int loss_pct : {0, 1})
					all.push_back({name, ranks, mode, loss_pct});
	return all;
}

INSTANTIATE_TEST_SUITE_P(All, Lammps, testing::ValuesIn(lammps_cases()), case_name);

class Suites : public MpiTest, public testing::WithParamInterface<std::string>
{
};

// Sends to and fro, of many lengths, and looks at what has come.
TEST_P(Suites, netpipe)
{
	const mpi::Job job{.program = "NPopenmpi -i -u 262144 -o /tmp/netpipe", .mode = GetParam()};
	const Result result = run(job, 100);

	EXPECT_NE(result.output.find("Integrity check passed"), std::string::npos) << result.output;
	EXPECT_EQ(result.output.find("Integrity check failed"), std::string::npos) << result.output;
}

// Linear algebra, transposition, random access, Fourier transforms, latencies: each compares with what is
// right.
TEST_P(Suites, hpcc)
{
	for (int node : {1, 2})
		lab().run_ok(node,
			fmt::format("mkdir -p /tmp/hpcc && rm -f /tmp/hpcc/* && {}/tests/mpi/hpccinf.sh 200 "
				    ">/tmp/hpcc/hpccinf.txt",
				IBRELK_SOURCE));
	run({.program = "hpcc", .mode = GetParam(), .options = "-wdir /tmp/hpcc"}, 1000, Duration(1800));

	const std::string output = lab().run_ok(1, "cat /tmp/hpcc/hpccoutf.txt");

	EXPECT_NE(output.find("Success=1"), std::string::npos) << output;
	EXPECT_EQ(output.find("FAILED"), std::string::npos) << output;
}

INSTANTIATE_TEST_SUITE_P(Modes, Suites, testing::ValuesIn(reliable_modes),
	[](const auto &info) { return test_name(info.param); });

// The same, started by Slurm.
class SlurmCluster : public MpiTest
{
protected:
	void SetUp() override
	{
		MpiTest::SetUp();
		mpi::prepare_slurm(lab());
	}
};

// Also from a shell that may pin less.
TEST_F(SlurmCluster, ranks_may_pin_as_much_as_slurmd)
{
	EXPECT_EQ(lab().run_ok(1, "bash -c 'ulimit -l 64 && srun --nodes=2 bash -c \"ulimit -l\"'"),
		"unlimited\nunlimited\n");
}

class Slurm : public SlurmCluster, public testing::WithParamInterface<std::string>
{
protected:
	static mpi::Job job(const std::string &program, int ranks = 1)
	{
		return {.program = built("tests/mpi/" + program),
			.mode = GetParam(),
			.ranks = ranks,
			.slurm = true};
	}
};

TEST_P(Slurm, point_to_point)
{
	expect_verified(run(job("pointtopoint", 2), 400), "verified 20");
}

TEST_P(Slurm, others_are_refused)
{
	expect_verified(run_while_others_call(job("pingpong")));
}

TEST_P(Slurm, a_rank_is_killed)
{
	const Result result = run_until_a_rank_is_killed(job("pingpong"));

	EXPECT_NE(result.status, 0);
	EXPECT_NE(result.output.find("task 1: Killed"), std::string::npos) << result.output;
}

TEST_P(Slurm, the_job_is_cancelled)
{
	const Result result = run_until("scancel --user=root", 1, job("pingpong"));

	EXPECT_NE(result.status, 0);
	EXPECT_NE(result.output.find("CANCELLED"), std::string::npos) << result.output;
}

INSTANTIATE_TEST_SUITE_P(Modes, Slurm, testing::ValuesIn(reliable_modes),
	[](const auto &info) { return test_name(info.param); });

// The same programs, built for MPICH by tests/mpi/mpich-programs.sh.
class Mpich : public MpiTest, public testing::WithParamInterface<std::string>
{
protected:
	static mpi::Job job(const std::string &program, int ranks = 1)
	{
		const char *folder = std::getenv("IBRELK_MPICH");

		if (!folder)
			throw lab::Error("IBRELK_MPICH is not set: run this by `make check-mpich`");
		return {.program = built("tests/mpich/" + program),
			.mode = GetParam(),
			.ranks = ranks,
			.mpich = folder};
	}

	// MPICH has its windows read and written by RMA of itself, which our counters tell.
	static void windows()
	{
		expect_verified(run(job("onesided"), 400), "verified 16");
		expect_verified(
			run_by_rma(job("onesided requests"), puts_and_gets_of_requests), "verified 1");
	}

	// So are its accumulates of integers, which could be messages as well: all are for rank 0, on node 1.
	static void atomics()
	{
		for (const std::string piece : {"tickets", "'compare and swap'", "sums"}) {
			mpi::Job atomics = job("onesided " + piece);
			auto remote = growth(2, "tx_remote", atomics.mode);

			SCOPED_TRACE(piece);
			expect_verified(run(atomics, 1), "verified 1");
			EXPECT_GE(remote.value(), 10);
		}
	}
};

TEST_P(Mpich, ping_pong)
{
	expect_verified(run(job("pingpong"), 24));
}

TEST_P(Mpich, ping_pong_while_packets_are_lost)
{
	expect_verified(run_while_packets_are_lost(job("pingpong"), 24));
}

TEST_P(Mpich, point_to_point)
{
	expect_verified(run(job("pointtopoint", 2), 400), "verified 20");
}

TEST_P(Mpich, point_to_point_while_packets_are_lost)
{
	expect_verified(run_while_packets_are_lost(job("pointtopoint"), 400), "verified 20");
}

TEST_P(Mpich, one_sided)
{
	windows();
}

TEST_P(Mpich, one_sided_while_packets_are_lost)
{
	while_packets_are_lost(GetParam(), [] { windows(); });
}

TEST_P(Mpich, one_sided_by_atomics)
{
	atomics();
}

TEST_P(Mpich, one_sided_by_atomics_while_packets_are_lost)
{
	while_packets_are_lost(GetParam(), [] { atomics(); });
}

TEST_P(Mpich, a_rank_is_killed)
{
	const Result result = run_until_a_rank_is_killed(job("pingpong"));

	EXPECT_NE(result.status, 0);
	// Either the starter hears of it first, or the other rank, whose send or receive fails then.
	EXPECT_TRUE(result.output.find("EXIT CODE: 9") != std::string::npos ||
		result.output.find("Fatal error in ") != std::string::npos)
		<< result.output;
}

TEST_P(Mpich, a_rank_is_stopped)
{
	expect_verified(run_while_a_rank_is_stopped(job("pingpong")));
}

INSTANTIATE_TEST_SUITE_P(Modes, Mpich, testing::ValuesIn(reliable_modes),
	[](const auto &info) { return test_name(info.param); });

// A test that comes with MPICH, as its list has it: tests/mpi/mpich-suite.sh builds them.
struct Own {
	std::string folder{};
	std::string program{}; // with its arguments
	std::string options{}; // of mpiexec: its environment
	std::string mode{};
	int ranks = 0;
	int limit_s = 900; // there are those that lock a window 32,000 times
};

// Those of two to four ranks: more would wait for each other's polling, on one processor. Without those that
// are expected to fail over libfabric, as they cancel what was sent, and those that want more memory than
// nodes have. Each mode has its turn.
std::vector<Own> own_tests()
{
	const std::array modes = {"auto", "uc-reliable", "ud-reliable"};
	const char *suite = std::getenv("IBRELK_MPICH_SUITE");
	std::vector<Own> all;

	for (const std::string folder : {"pt2pt", "rma"}) {
		std::ifstream list(fmt::format("{}/{}/testlist", suite ? suite : "", folder));
		std::string line, word;

		while (std::getline(list, line)) {
			std::istringstream words(line);
			Own test{.folder = fmt::format("{}/{}", suite, folder)};
			bool wanted = true;

			if (!(words >> test.program >> test.ranks) || test.program.starts_with('#'))
				continue;
			while (words >> word) {
				const std::string name = word.substr(0, word.find('='));
				const std::string value = word.substr(std::min(name.size() + 1, word.size()));

				// A benchmark, rma_contig: 515,000 locks. 6,000 take three minutes here.
				if (name == "arg" && value == "-iter=10000")
					test.program += " -iter=100";
				else if (name == "arg")
					test.program += " '" + value + "'";
				else if (name == "env")
					test.options +=
						fmt::format(" -genv {} {}", value.substr(0, value.find('=')),
							value.substr(value.find('=') + 1));
				else if (name == "timeLimit") // of machines that are not emulated
					test.limit_s = std::max(test.limit_s, 3 * std::stoi(value));
				else if (name == "xfail" || name == "mem")
					wanted = false;
			}
			test.mode = modes[all.size() % modes.size()];
			if (wanted && test.ranks >= 2 && test.ranks <= 4)
				all.push_back(test);
		}
	}
	if (suite && all.empty())
		throw lab::Error(fmt::format("IBRELK_MPICH_SUITE: there are no tests in {}", suite));
	return all;
}

class MpichOwn : public MpiTest, public testing::WithParamInterface<Own>
{
};

// While packets are lost, too; that of few packets some are is not looked at.
TEST_P(MpichOwn, passes)
{
	const Own &test = GetParam();
	const char *mpich = std::getenv("IBRELK_MPICH");

	if (!mpich)
		throw lab::Error("IBRELK_MPICH is not set: run this by `make check-mpich`");
	for (int node : {1, 2})
		lab().set_fault(node, "loss 1%");

	const Result result = lab().run(1,
		mpi::command({.program = "./" + test.program,
			.mode = test.mode,
			.ranks = (test.ranks + 1) / 2,
			.in_all = test.ranks,
			.options = fmt::format("-wdir {}{}", test.folder, test.options),
			.mpich = mpich}),
		Duration(test.limit_s));

	EXPECT_EQ(result.status, 0) << result.output;
	EXPECT_NE(result.output.find("No Errors"), std::string::npos) << result.output;
}

std::string own_name(const testing::TestParamInfo<Own> &info)
{
	const Own &test = info.param;

	return fmt::format("{}_{}_{}_{}", test.folder.substr(test.folder.rfind('/') + 1),
		test_name(test.program.substr(0, test.program.find(' '))), test.ranks, info.index);
}

// None without that folder.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(MpichOwn);
INSTANTIATE_TEST_SUITE_P(Tests, MpichOwn, testing::ValuesIn(own_tests()), own_name);

} // namespace

} // namespace cluster
