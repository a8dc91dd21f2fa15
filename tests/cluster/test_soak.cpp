// SPDX-License-Identifier: GPL-2.0-only
//
// Everything at once, for a long time (check-long only): several processes in random modes, with random
// sizes, while the wire loses, repeats, reorders and damages packets, the link goes down and up, queue pairs
// are killed, and now and then a process is. Every byte of every message is verified, and no node may need
// more memory in the end than it did in the beginning.
//
// IBRELK_SOAK_S in the environment says for how many seconds (60), IBRELK_SEED with what random choices.
#include "cluster.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <random>
#include <vector>

#include <fmt/format.h>

namespace cluster
{

namespace
{

using Clock = std::chrono::steady_clock;

constexpr int servers = 3;
constexpr int port_first = 7500, port_step = 20;

class Soak : public ClusterTest
{
protected:
	struct Client {
		lab::Job job;
		std::string what;
		bool reliable = true;
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
		for (int i = static_cast<int>(server_.size()); i < servers; i++) {
			const int port = port_first + i * port_step;

			server_.push_back(lab().start(2,
				fmt::format("{} --server --modes all --quiet --port {}",
					built("user/tools/ibrelk-perf"), port)));
			lab().wait_until(2,
				fmt::format("{} show endpoints | grep -q ':{}#'", built("user/tools/ibrelk"),
					port + 6));
		}
	}

	Client start_client(int index)
	{
		static constexpr const char *modes[] = {"uc-reliable", "uc-reliable", "ud-reliable",
			"ud-reliable", "rc-reliable", "uc-native", "ud-native"};
		static constexpr const char *tests[] = {"bandwidth", "bibandwidth", "rate", "latency"};
		static constexpr const char *doors[] = {"ioctl", "uring"};
		const std::string mode = pick(modes), test = pick(tests);
		/* As many short ones as long ones, up to 256 KiB; about 4 MiB in all. */
		const auto size = static_cast<long>(std::exp2(draw(19)) + draw(16));
		const long most = test == "latency" ? 200 : 3000;
		const long count = std::max(10l, std::min(most, (4l << 20) / size));
		Client client;

		client.reliable = mode.find("reliable") != std::string::npos;
		client.what = fmt::format(
			"{} 10.1.0.2 --verify {} --mode {} --door {} --size {} --iterations {} --seed {} "
			"--port {} --quiet --timeout 90 --connect-timeout 90",
			test, draw(2) ? "--mixed" : "", mode, pick(doors), size, count, draw(1 << 30),
			port_first + index * port_step);
		client.job = lab().start(1, built("user/tools/ibrelk-perf") + " " + client.what);
		return client;
	}

	void disturb(std::vector<Client> &clients)
	{
		static constexpr const char *faults[] = {"loss 1%", "loss 5%", "loss 15%", "duplicate 5%",
			"delay 2ms reorder 30% 50%", "corrupt 1%",
			"loss 2% duplicate 2% delay 1ms 1ms corrupt 0.5%"};
		const int node = 1 + draw(2);

		switch (draw(8)) {
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
					"resealed-number-far,resealed-ack-far,resealed-frame-type,resealed-"
					"eager-offset",
					8);
			} else {
				Client &client = clients[static_cast<std::size_t>(
					draw(static_cast<int>(clients.size())))];

				client.job.kill(9);
				client.killed = true;
				killed_++;
			}
			break;
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
		const int count = 1 + draw(servers);
		clients.reserve(count);
		for (int i = 0; i < count; i++)
			clients.push_back(start_client(i));
		/* So long a patience, and no longer: then the wire is left alone. */
		const auto peace = Clock::now() + std::chrono::seconds(20);
		while (any_running(clients) && Clock::now() < peace)
			disturb(clients);
		for (int node = 1; node <= 2; node++)
			lab().clear_fault(node);
		for (Client &client : clients) {
			const Result result = client.job.wait(Duration(300));

			runs_++;
			killed |= client.killed;
			EXPECT_EQ(result.output.find("WRONG"), std::string::npos) << client.what << "\n"
										  << result.output;
			/* Native messages may be missing, and so may the answer that says how many. */
			if (client.reliable && !client.killed) {
				EXPECT_EQ(result.status, 0) << client.what << "\n" << result.output;
			}
		}
		/* A server waits for the messages of one that was killed. */
		if (killed) {
			for (auto &server : server_) {
				server.kill(15);
				server.wait(Duration(60));
			}
			server_.clear();
		}
		EXPECT_EQ(lab().check(), "") << "a kernel complained";
		for (int node = 1; node <= 2; node++)
			memory_kib_[node - 1].push_back(memory_kib(node));
	}

	/* What the kernel and all processes have allocated. What it takes for pages of files is not of
	 * interest. */
	static long memory_kib(int node)
	{
		return std::stol(lab().run_ok(node,
			"awk "
			"'/^(SUnreclaim|VmallocUsed|Percpu|KernelStack|PageTables|AnonPages):/ "
			"{ sum += $2 } END { print sum }' /proc/meminfo"));
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
	std::vector<lab::Job> server_;
	std::array<std::vector<long>, 2> memory_kib_;
	int duration_s_ = 0, runs_ = 0, kills_ = 0, killed_ = 0;
};

TEST_F(Soak, everything_at_once)
{
	const auto end = Clock::now() + std::chrono::seconds(duration_s_);
	Growth reconnects(
		"connections made anew", [] { return counter(1, "reconnects") + counter(2, "reconnects"); });

	stop_server();
	while (Clock::now() < end && !HasFailure())
		round();
	fmt::print("{} runs, {} attacks on queue pairs, {} connections made anew, {} processes killed\n",
		runs_, kills_, reconnects.value(), killed_);
	expect_no_growth();
	for (auto &server : server_) {
		server.kill(15);
		server.wait(Duration(60));
	}
	if (HasFailure())
		fmt::print("again: IBRELK_SEED={} IBRELK_SOAK_S={}\n", seed_, duration_s_);
}

} // namespace

} // namespace cluster
