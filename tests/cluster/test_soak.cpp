// SPDX-License-Identifier: GPL-2.0-only
//
// Everything at once, for a long time (check-long only): up to eight processes on each node that send to the
// other one in random modes, messages of random sizes, some of them several MiB long, and one more that does
// all that matching knows, in memory that comes and goes, while the wire loses, repeats, reorders and damages
// packets, the link goes down and up, queue pairs are killed, and now and then a process is, or stopped for
// some seconds. Every byte of every message is verified; long ones are written by RDMA in the modes that do
// that; and no node may need more memory in the end than it did in the beginning.
//
// IBRELK_SOAK_S in the environment says for how many seconds (60), IBRELK_SEED with what random choices.
#include "cluster.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace cluster
{

namespace
{

using Clock = std::chrono::steady_clock;

constexpr int servers = 8; // on each node, one for each client of the other
constexpr int port_first = 7500, port_step = 20;

class Soak : public ClusterTest
{
protected:
	struct Client {
		lab::Job job;
		std::string what;
		std::string mode;
		bool reliable = true;
		bool is_long = false; // its messages are written, in modes that do that
		bool killed = false;
	};

	void SetUp() override
	{
		ClusterTest::SetUp();
		const char *given = std::getenv("IBRELK_SEED");
		const char *seconds = std::getenv("IBRELK_SOAK_S");

		seed_ = given ? std::strtoull(given, nullptr, 0) : std::random_device()();
		random_.seed(seed_);
		duration_s_ = seconds ? std::atoi(seconds) : 60;
		fmt::print("IBRELK_SEED={} IBRELK_SOAK_S={}\n", seed_, duration_s_);
		std::fflush(stdout);
		/* So many processes leave each path little; a connection should come all the same. */
		set("auto_uc_rate", 100);
	}

	void TearDown() override
	{
		set("auto_uc_rate", 2000);
		ClusterTest::TearDown();
	}

	int draw(int below)
	{
		return std::uniform_int_distribution<int>(0, below - 1)(random_);
	}

	template<class T, std::size_t count>
	const T &pick(const T (&list)[count])
	{
		return list[static_cast<std::size_t>(draw(count))];
	}

	void start_servers()
	{
		for (int node : {1, 2}) {
			auto &running = server_[node - 1];

			for (int i = static_cast<int>(running.size()); i < servers; i++)
				running.push_back(lab().start(node,
					fmt::format("{} --server --modes all --quiet --port {}",
						built("user/tools/ibrelk-perf"), port_of(i))));
			for (int i = 0; i < servers; i++)
				lab().wait_until(node,
					fmt::format("{} show endpoints | grep -q ':{}#'",
						built("user/tools/ibrelk"), port_of(i) + 6));
		}
	}

	void stop_servers()
	{
		for (auto &running : server_) {
			for (auto &server : running)
				server.kill(15);
			for (auto &server : running)
				server.wait(Duration(60));
			running.clear();
		}
	}

	static int port_of(int server)
	{
		return port_first + server * port_step;
	}

	Client start_client(int node, int index)
	{
		static constexpr const char *modes[] = {"uc-reliable", "uc-reliable", "ud-reliable", "auto",
			"auto", "rc-reliable", "uc-native", "ud-native"};
		static constexpr const char *tests[] = {"bandwidth", "bibandwidth", "rate", "latency"};
		static constexpr const char *doors[] = {"ioctl", "uring"};
		const std::string mode = pick(modes), test = pick(tests);
		Client client;

		client.is_long = draw(5) == 0;
		/* Several MiB; or as many short ones as longer ones, up to 256 KiB. About 4 MiB in all. */
		const auto size = client.is_long ? (1l << 20) + draw(5 << 20)
						 : static_cast<long>(std::exp2(draw(19)) + draw(16));
		const long most = test == "latency" ? 200 : 3000;
		const long least = client.is_long ? 4 : 10;
		const long count = std::max(least, std::min(most, (4l << 20) / size));

		client.mode = mode;
		client.reliable = mode.find("native") == std::string::npos;
		client.what = fmt::format(
			"{} {} --verify {} --mode {} --door {} --size {} --iterations {} --seed {} "
			"--port {} --quiet --timeout 240 --connect-timeout 240 {}",
			test, Lab::address(3 - node), draw(2) ? "--mixed" : "", mode, pick(doors), size,
			count, draw(1 << 30), port_of(index), client.is_long ? "--window 3" : "");
		client.job = lab().start(node, built("user/tools/ibrelk-perf") + " " + client.what);
		return client;
	}

	void disturb(std::vector<Client> &clients)
	{
		static constexpr const char *faults[] = {"loss 1%", "loss 5%", "loss 15%", "duplicate 5%",
			"delay 2ms reorder 30% 50%", "corrupt 1%",
			"loss 2% duplicate 2% delay 1ms 1ms corrupt 0.5%"};
		const int node = 1 + draw(2);

		switch (draw(9)) {
		case 0:
		case 1:
		case 2: lab().set_fault(node, pick(faults)); break;
		case 3: lab().clear_fault(node); break;
		case 4: link_down(node, 0.1 * draw(30)); break;
		case 5:
		case 6:
			inject(node, "oversized", 4);
			kills_++;
			break;
		case 7:
			/* No damage to the payload: if the packet itself was lost, its copy would be taken
			 * for it. */
			if (draw(4)) {
				inject(node,
					"verbatim,version,token,number,ack-far,credit,frames-more,checksum,"
					"noise-after-token,"
					"resealed-number-far,resealed-ack-far,resealed-credit,"
					"resealed-frame-type,resealed-eager-offset",
					8);
			} else {
				Client &client = clients[static_cast<std::size_t>(
					draw(static_cast<int>(clients.size())))];

				client.job.kill(9);
				client.killed = true;
				killed_++;
			}
			break;
		case 8: {
			Client &client =
				clients[static_cast<std::size_t>(draw(static_cast<int>(clients.size())))];

			client.job.kill(SIGSTOP);
			/* The condition is time itself. */
			lab().run_ok(node, fmt::format("sleep {}", 0.1 * draw(30)));
			client.job.kill(SIGCONT);
			stopped_++;
			break;
		}
		}
	}

	/* From 6.12 on soft-RoCE's queue pair 1, and with it the connection manager, may not outlive a link
	 * that goes down (transport.rst). There the wire loses everything instead. */
	void link_down(int node, double seconds)
	{
		const bool cable = lab().options().kernel == "6.1";

		if (cable)
			lab().link_down(node);
		else
			lab().set_fault(node, "loss 100%");
		/* The condition is time itself. */
		lab().run_ok(3 - node, fmt::format("sleep {}", seconds));
		if (cable)
			lab().link_up(node);
		else
			lab().clear_fault(node);
	}

	void inject(int from, const char *kinds, int packets)
	{
		lab().run(from,
			fmt::format("{} --interface eth0 --to {} --replay-mutated --kinds {} --packets {} "
				    "--limit 3 --seed {}",
				built("tests/selftests/inject"), Lab::address(3 - from), kinds, packets,
				draw(1 << 30)));
	}

	static bool any_running(const std::vector<Client> &clients)
	{
		for (const Client &client : clients)
			if (client.job.running())
				return true;
		return false;
	}

	void round()
	{
		std::vector<Client> clients;
		bool killed = false;

		start_servers();
		measure();
		std::vector<std::pair<std::string, Growth>> written;
		for (const char *mode : writing_modes)
			for (int node : {1, 2})
				written.emplace_back(mode, growth(node, "rx_written", mode));
		const std::string &mode = reliable_modes[static_cast<std::size_t>(draw(4))];
		const int messages = 20 + draw(200);
		auto mingling = mingle(mode, messages, static_cast<unsigned>(draw(1 << 30)));
		const int count = 1 + draw(servers);
		clients.reserve(2 * static_cast<std::size_t>(count));
		for (int i = 0; i < count; i++)
			for (int node : {1, 2})
				clients.push_back(start_client(node, i));
		/* So long a patience, and no longer: then the wire is left alone. */
		const auto peace = Clock::now() + std::chrono::seconds(20);
		while ((any_running(clients) || mingling[0].running() || mingling[1].running()) &&
			Clock::now() < peace)
			disturb(clients);
		for (int node = 1; node <= 2; node++)
			lab().clear_fault(node);
		for (Client &client : clients) {
			const Result result = client.job.wait(Duration(600));

			runs_++;
			killed |= client.killed;
			if (client.is_long && !client.killed && result.status == 0 && client.mode != mode)
				long_runs_[client.mode]++;
			EXPECT_EQ(result.output.find("WRONG"), std::string::npos) << client.what << "\n"
										  << result.output;
			/* Native messages may be missing, and so may the answer that says how many. */
			if (client.reliable && !client.killed) {
				EXPECT_EQ(result.status, 0) << client.what << "\n" << result.output;
			}
		}
		for (auto &job : mingling) {
			const Result result = job.wait(Duration(600));

			EXPECT_EQ(result.status, 0) << mode << "\n" << result.output;
			mingled_ += messages;
		}
		for (auto &running : server_) {
			for (auto &server : running)
				EXPECT_TRUE(server.running()) << "a server has ended:\n" << server.output();
		}
		/* Those that mingle send long messages, too. */
		for (auto &[writing, fragments] : written)
			if (writing != mode)
				written_[writing] += fragments.value();
		/* A server waits for the messages of one that was killed. */
		if (killed)
			stop_servers();
		EXPECT_EQ(lab().check(), "") << "a kernel complained";
	}

	/* Where there was something to write, it was written. */
	void expect_written()
	{
		for (const char *mode : writing_modes) {
			fmt::print("{}: {} runs of long messages, {} fragments written\n", mode,
				long_runs_[mode], written_[mode]);
			if (long_runs_[mode]) {
				EXPECT_GT(written_[mode], 0) << mode;
			} else {
				EXPECT_LT(duration_s_, 600) << "enough time for long messages, " << mode;
			}
		}
	}

	/* Each mode has a path, with queue pairs of some MiB, as long as it is of use; and a lane of mode
	 * auto has some more. So each has one now, and none has a lane. */
	void measure()
	{
		for (const auto *modes : {&reliable_modes, &native_modes})
			for (const std::string &mode : *modes)
				lab().run_ok(1,
					fmt::format(
						"{} latency {} --mode {} --size 8 --iterations 10 --port {} "
						"--quiet --timeout 240 --connect-timeout 240",
						built("user/tools/ibrelk-perf"), Lab::address(2), mode,
						port_of(0)),
					Duration(500));
		for (int node = 1; node <= 2; node++) {
			lab().wait_until(node,
				"! " + built("user/tools/ibrelk") + " show paths | grep -q auto+uc",
				Duration(120));
			memory_kib_[node - 1].push_back(memory_kib(node));
			fmt::print(
				"node {}: {} KiB: {}", node, memory_kib_[node - 1].back(), memory_of(node));
		}
		std::fflush(stdout);
	}

	/* All memory that is in use, whatever for, but for what can be had back: pages of files, and what
	 * each processor keeps of free ones, which may be 50 MiB. */
	static long memory_kib(int node)
	{
		return std::stol(lab().run_ok(node,
			"awk '/^(MemTotal|Shmem):/ { sum += $2 } /^(MemFree|Buffers|Cached|SReclaimable):/ { "
			"sum -= $2 } $1 == \"count:\" { sum -= 4 * $2 } END { print sum }' /proc/meminfo "
			"/proc/zoneinfo"));
	}

	/* Of what it is: who reads of growth wants to know that first. */
	static std::string memory_of(int node)
	{
		return lab().run_ok(node,
			"awk "
			"'/^(AnonPages|Unevictable|SUnreclaim|KernelStack|PageTables|VmallocUsed|Percpu):/ { "
			"printf \"%s %d, \", $1, $2 } END { print \"\" }' /proc/meminfo");
	}

	/* Rounds differ, so quarters of the time are compared; the first round warms up. */
	void expect_no_growth()
	{
		constexpr long slack_kib = 4096;

		for (int node = 1; node <= 2; node++) {
			std::vector<long> kib = memory_kib_[node - 1];
			const std::size_t quarter = kib.size() / 4;

			if (quarter < 3) {
				fmt::print("node {}: too few rounds to tell whether memory grows\n", node);
				EXPECT_LT(duration_s_, 600) << "enough time for more rounds";
				continue;
			}

			const auto median = [](std::vector<long>::iterator first, std::size_t count) {
				const auto middle = first + static_cast<std::ptrdiff_t>(count / 2);

				std::nth_element(first, middle, first + static_cast<std::ptrdiff_t>(count));
				return *middle;
			};
			const long before = median(kib.begin() + 1, quarter),
				   after = median(kib.end() - static_cast<std::ptrdiff_t>(quarter), quarter);

			fmt::print("node {}: {} rounds, {} KiB in the first quarter, {} in the last\n", node,
				kib.size(), before, after);
			EXPECT_LE(after, before + slack_kib) << "node " << node;
		}
	}

	std::uint64_t seed_ = 0;
	std::mt19937_64 random_;
	static constexpr const char *writing_modes[] = {"uc-reliable", "uc-native", "rc-reliable", "auto"};
	std::array<std::vector<lab::Job>, 2> server_;
	std::map<std::string, long> written_, long_runs_; // by mode
	std::array<std::vector<long>, 2> memory_kib_;
	int duration_s_ = 0, runs_ = 0, kills_ = 0, killed_ = 0, stopped_ = 0, mingled_ = 0;
};

TEST_F(Soak, everything_at_once)
{
	const auto end = Clock::now() + std::chrono::seconds(duration_s_);
	Growth reconnects(
		"connections made anew", [] { return counter(1, "reconnects") + counter(2, "reconnects"); });

	stop_server();
	wait_for_no_endpoints();
	const Pinned before = pinned_pages();
	while (Clock::now() < end && !HasFailure())
		round();
	fmt::print("{} runs, {} attacks on queue pairs, {} connections made anew, {} processes killed, {} "
		   "stopped, {} messages matched at random\n",
		runs_, kills_, reconnects.value(), killed_, stopped_, mingled_);
	expect_written();
	expect_no_growth();
	stop_servers();
	expect_all_given_back(before);
	if (HasFailure())
		fmt::print("again: IBRELK_SEED={} IBRELK_SOAK_S={}\n", seed_, duration_s_);
}

} // namespace

} // namespace cluster
