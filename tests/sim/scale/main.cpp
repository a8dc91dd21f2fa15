// SPDX-License-Identifier: GPL-2.0-only
//
// The engine at scale: many nodes, each with an engine for each peer, on a simulated network. What is printed
// depends on the options only.

// Before the kernel's names.
#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "scenario.hpp"

namespace
{

using scale::Outcome;
using scale::Scenario;

struct Options {
	u64 seed = 1;
	u64 memory_gib = 8;
	std::string csv;
	bool check = false;
	std::vector<std::string> names;
	scale::Wire wire;
	scale::Engine engine;
};

constexpr u32 peers_max = 504; // of each node in the paper
constexpr double idle_goal_bytes = 1024;
constexpr double growth_goal = 1.01; // of the bytes of a peer, from the fewest peers to the most

Scenario incast(std::string name, u32 senders, u32 kib, u32 queue_kib = 0)
{
	Scenario scenario;

	scenario.name = std::move(name);
	scenario.senders = senders;
	scenario.kib = kib;
	scenario.goodput = 0.90;
	scenario.p99 = 3;
	scenario.wire.queue_kib = queue_kib;
	return scenario;
}

// By datagrams, of which so many senders share the receives of one queue pair (qp_share() of verbs.c).
Scenario datagrams(Scenario scenario, u16 credit_pkts)
{
	scenario.name += "-ud";
	scenario.engine.credit_pkts = credit_pkts;
	return scenario;
}

Scenario stream(std::string name, u32 lost_of_million, double goodput)
{
	Scenario scenario = incast(std::move(name), 1, 65536);

	scenario.goodput = goodput;
	scenario.wire.lost_of_million = lost_of_million;
	return scenario;
}

Scenario exchange(std::string name, u32 nodes, u32 peers)
{
	Scenario scenario;

	scenario.name = std::move(name);
	scenario.exchange = true;
	scenario.senders = nodes;
	scenario.peers = peers;
	scenario.wire.queue_kib = 0;
	return scenario;
}

// A queue of 0 is that of the options.
std::vector<Scenario> scenarios()
{
	return {
		stream("stream-lossless", 0, 0.95),
		stream("stream-loss-1%", 10000, 0.95),
		stream("stream-loss-5%", 50000, 0.85),
		incast("incast-128x64k", 128, 64),
		incast("incast-128x1m", 128, 1024),
		incast("incast-1024x64k", 1024, 64),
		incast("incast-1024x1m", 1024, 1024),
		datagrams(incast("incast-128x64k", 128, 64), 4),
		datagrams(incast("incast-1024x64k", 1024, 64), 1),
		datagrams(incast("incast-1024x1m", 1024, 1024), 1),
		incast("incast-128x1m-shallow", 128, 1024, 1024),
		incast("incast-1024x1m-shallow", 1024, 1024, 1024),
		exchange("exchange-200", 200, 100),
		exchange("exchange-1000", 1000, peers_max),
		exchange("exchange-10000", 10000, peers_max),
		exchange("exchange-100000", 100000, peers_max),
	};
}

// What make check has the time for, and what must always be reached.
bool is_quick(const Scenario &scenario)
{
	constexpr u32 nodes_max = 200;

	return scenario.exchange ? scenario.senders <= nodes_max : !scenario.wire.queue_kib;
}

void print_heading()
{
	fmt::print("{:<23}{:>7}{:>6}{:>9}{:>9}{:>9}{:>9}{:>10}{:>6}{:>9}{:>7}{:>9}{:>9}\n", "", "", "peers",
		"", "ideal", "P50", "P99", "P99.9", "P99/", "goodput", "ACKs/", "dropped", "repeated");
	fmt::print("{:<23}{:>7}{:>6}{:>9}{:>9}{:>9}{:>9}{:>10}{:>6}{:>9}{:>7}{:>9}{:>9}\n", "scenario",
		"nodes", "each", "bytes", "us", "us", "us", "us", "ideal", "of ideal", "msg", "%", "%");
}

double percent(u64 part, u64 whole)
{
	return whole ? 100 * static_cast<double>(part) / static_cast<double>(whole) : 0;
}

double microseconds(u64 ns)
{
	return static_cast<double>(ns) / 1000;
}

double to_ideal(const scale::Times &times)
{
	return static_cast<double>(times.p99_ns) / static_cast<double>(std::max<u64>(times.ideal_ns, 1));
}

// A row for each size of message; what is about all of them is in the first.
void print_rows(const Scenario &scenario, const Outcome &outcome)
{
	bool first = true;

	if (!outcome.broken.empty())
		fmt::print("{:<23}BROKEN: {}\n", scenario.name, outcome.broken);
	for (const auto &times : outcome.times) {
		fmt::print("{:<23}{:>7}{:>6}{:>9}{:>9.1f}{:>9.1f}{:>9.1f}{:>10.1f}{:>6.2f}",
			first ? scenario.name : "", scenario.senders, scenario.exchange ? scenario.peers : 1,
			times.bytes, microseconds(times.ideal_ns), microseconds(times.p50_ns),
			microseconds(times.p99_ns), microseconds(times.p999_ns), to_ideal(times));
		if (first)
			fmt::print("{:>9.3f}{:>7.2f}{:>9.2f}{:>9.2f}", outcome.goodput(),
				outcome.acks_per_message(),
				percent(outcome.counts.dropped, outcome.counts.packets),
				percent(outcome.totals.repeats, outcome.counts.packets));
		fmt::print("\n");
		first = false;
	}
	std::fflush(stdout);
}

void write_rows(std::FILE *file, const Scenario &scenario, const Outcome &outcome)
{
	for (const auto &times : outcome.times)
		fmt::print(file,
			"{},{},{},{},{},{},{},{},{},{},{:.4f},{:.4f},{},{},{},{},{},{},{:.1f},{:.1f},{},{:"
			"016x}\n",
			scenario.name, scenario.senders, scenario.exchange ? scenario.peers : 1,
			outcome.conns, times.bytes, times.count, times.ideal_ns, times.p50_ns, times.p99_ns,
			times.p999_ns, outcome.goodput(), outcome.acks_per_message(), outcome.counts.packets,
			outcome.counts.dropped, outcome.counts.lost, outcome.totals.repeats,
			outcome.totals.in_vain, outcome.totals.timeouts, outcome.idle_bytes(),
			outcome.peak_bytes(), outcome.memory.rings_most, outcome.fingerprint);
}

// Prints whether a goal is reached; returns the same.
bool goal(const std::string &text, double value, double bound, bool at_most)
{
	const bool reached = at_most ? value <= bound : value >= bound;

	fmt::print("{:<74} {:>8.3f}  {}\n",
		fmt::format("{} (goal {}{:.2f})", text, at_most ? "at most " : "", bound), value,
		reached ? "reached" : "missed");
	return reached;
}

class Run
{
public:
	explicit Run(const Options &options) : options_(options)
	{
	}

	void simulate(Scenario scenario)
	{
		complete(scenario);
		Outcome outcome = scale::simulate(scenario, options_.seed);

		print_rows(scenario, outcome);
		results_.emplace_back(std::move(scenario), std::move(outcome));
	}

	void write(std::FILE *file) const
	{
		fmt::print(file,
			"scenario,nodes,peers,conns,bytes,count,ideal_ns,p50_ns,p99_ns,p999_ns,goodput,"
			"acks_per_msg,packets,dropped,lost,repeats,in_vain,timeouts,idle_bytes,"
			"peak_bytes,rings_most,fingerprint\n");
		for (const auto &[scenario, outcome] : results_)
			write_rows(file, scenario, outcome);
	}

	// What the engines have been given: a structure for each peer, and a ring for what is in flight.
	void print_memory() const
	{
		fmt::print("\n{:<23}{:>7}{:>6}{:>10}{:>9}{:>9}{:>9}\n", "", "", "peers", "ends of", "engine",
			"at the", "rings,");
		fmt::print("{:<23}{:>7}{:>6}{:>10}{:>9}{:>9}{:>9}\n", "bytes for a peer", "nodes", "each",
			"paths", "idle", "peak", "% of all");
		for (const auto &[scenario, outcome] : results_)
			fmt::print("{:<23}{:>7}{:>6}{:>10}{:>9.1f}{:>9.1f}{:>9.2f}\n", scenario.name,
				scenario.senders, scenario.exchange ? scenario.peers : 1, outcome.conns,
				outcome.idle_bytes(), outcome.peak_bytes(),
				percent(outcome.memory.rings_most, outcome.conns));
	}

	void goals()
	{
		fmt::print("\n");
		for (const auto &[scenario, outcome] : results_) {
			if (!outcome.broken.empty()) {
				judge(false);
				broken++;
				continue;
			}
			if (scenario.goodput > 0)
				judge(goal(scenario.name + ": goodput", outcome.goodput(), scenario.goodput,
					false));
			if (scenario.p99 > 0)
				judge(goal(scenario.name + ": P99, of the ideal", to_ideal(outcome.times[0]),
					scenario.p99, true));
		}
		goals_of_memory();
	}

	// Another run of the same does the same.
	void same_twice(Scenario scenario)
	{
		complete(scenario);
		const u64 first = scale::simulate(scenario, options_.seed).fingerprint;
		const u64 second = scale::simulate(scenario, options_.seed).fingerprint;
		const u64 other = scale::simulate(scenario, options_.seed + 1).fingerprint;

		fmt::print("{} twice: {:016x}, {:016x}; with another seed: {:016x}\n", scenario.name, first,
			second, other);
		judge(first == second && first != other);
	}

	void judge(bool good)
	{
		(good ? passed : failed)++;
	}

	u32 passed = 0;
	u32 failed = 0;
	u32 broken = 0;

private:
	const Options &options_;
	std::vector<std::pair<Scenario, Outcome>> results_;

	// At most so much for each peer, however many there are.
	void goals_of_memory()
	{
		double least = 0, most = 0;

		for (const auto &[scenario, outcome] : results_) {
			if (!outcome.broken.empty())
				continue;
			least = least > 0 ? std::min(least, outcome.idle_bytes()) : outcome.idle_bytes();
			most = std::max(most, outcome.idle_bytes());
		}
		judge(goal("bytes of the engine for an idle peer, at most", most, idle_goal_bytes, true));
		if (least > 0)
			judge(goal("the most of these by the least", most / least, growth_goal, true));
	}

	// By the options; and as many peers as there is memory for.
	void complete(Scenario &scenario) const
	{
		if (!scenario.wire.queue_kib)
			scenario.wire.queue_kib = options_.wire.queue_kib;
		scenario.wire.gbps = options_.wire.gbps;
		scenario.wire.hop_ns = options_.wire.hop_ns;
		scenario.wire.notice_ns = options_.wire.notice_ns;
		const u16 credit_pkts = std::min(scenario.engine.credit_pkts, options_.engine.credit_pkts);
		scenario.engine = options_.engine;
		scenario.engine.credit_pkts = credit_pkts;
		if (!scenario.exchange)
			return;

		const u64 conns = (options_.memory_gib << 30) / scale::Cluster::conn_bytes();
		const u64 peers = std::min<u64>(conns / scenario.senders, scenario.senders - 1) / 2 * 2;

		scenario.peers = static_cast<u32>(std::min<u64>(scenario.peers, peers));
	}
};

bool run(const Options &options)
{
	Run run(options);

	fmt::print("seed {}; {} Gb/s, {} ns a hop, queues of {} KiB\n", options.seed, options.wire.gbps,
		options.wire.hop_ns, options.wire.queue_kib);
	print_heading();
	for (auto &scenario : scenarios()) {
		const auto named = std::find(options.names.begin(), options.names.end(), scenario.name);

		if (options.check ? !is_quick(scenario)
				  : !options.names.empty() && named == options.names.end())
			continue;
		run.simulate(std::move(scenario));
		// Each time: of hours of work something is left if the next one is too large for this
		// machine.
		if (options.csv.empty())
			continue;
		const std::unique_ptr<std::FILE, int (*)(std::FILE *)> file(
			std::fopen(options.csv.c_str(), "w"), std::fclose);

		if (!file)
			throw std::runtime_error("cannot write " + options.csv);
		run.write(file.get());
	}
	run.print_memory();
	run.goals();
	if (options.check)
		run.same_twice(exchange("exchange-50", 50, 20));
	fmt::print("{} passed, {} failed\n", run.passed, run.failed);
	return options.check ? !run.failed : !run.broken;
}

} // namespace

int main(int argc, char **argv)
{
	CLI::App app("Simulates many engines on one network, and says what they cost and how they share it.",
		"ibrelk-scale");
	Options options;
	std::vector<std::string> names;

	for (const auto &scenario : scenarios())
		names.push_back(scenario.name);
	app.add_option("SCENARIO", options.names, "which (all by default)")->check(CLI::IsMember(names));
	app.add_option("--seed", options.seed, "of all that is random")->capture_default_str();
	app.add_option("--memory", options.memory_gib, "GiB for connections; fewer peers if they do not fit")
		->capture_default_str()
		->check(CLI::Range(1, 1024));
	app.add_option("--csv", options.csv, "also write rows to this file");
	app.add_flag("--check", options.check,
		"only the quick ones, which all have to reach their goals, and one of them twice");
	app.add_option("--gbps", options.wire.gbps, "bandwidth of all links")
		->capture_default_str()
		->check(CLI::Range(1, 1600));
	app.add_option("--hop", options.wire.hop_ns, "ns of each of the four links")->capture_default_str();
	app.add_option("--notice", options.wire.notice_ns, "ns at most until a host deals with a packet")
		->capture_default_str();
	app.add_option("--queue", options.wire.queue_kib, "KiB of a switch that a port can use")
		->capture_default_str();
	app.add_option("--window", options.engine.window_pkts, "module parameter window_pkts")
		->capture_default_str()
		->check(CLI::Range(1, 64));
	app.add_option("--target", options.engine.target_us, "module parameter target_us")
		->capture_default_str()
		->check(CLI::Range(1, 100000));
	app.add_option("--credit", options.engine.credit_pkts,
		   "packets that a receiver grants, at most, once the 64 of the handshake are used up")
		->check(CLI::Range(1, 64));
	app.add_flag("--fixed", options.engine.fixed, "no congestion control");
	CLI11_PARSE(app, argc, argv);

	try {
		return run(options) ? 0 : 1;
	} catch (const std::exception &error) {
		fmt::print(stderr, "ibrelk-scale: {}\n", error.what());
		return 2;
	}
}
