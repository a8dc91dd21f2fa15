// SPDX-License-Identifier: GPL-2.0-only
//
// The simulator's command line: runs seeds, shrinks what fails. What is printed depends on the seeds only.

#include "config.hpp"
#include "run.hpp"
#include "shrink.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace
{

struct Options {
	u64 seed = 1;
	u64 count = 1;
	double hours = 0;
	u64 failures = 1;
	bool usual = false;
	bool shrink = true;
	bool trace = false;
	bool verbose = false;
	std::vector<std::string> scripts;
	std::vector<std::string> set;
};

void usage()
{
	std::printf("usage: ibrelk-sim [options] [name=value ...]\n"
		    "  --seed S     the first seed (default 1)\n"
		    "  --runs N     as many runs, with seeds S, S+1 ... (default 1)\n"
		    "  --hours H    runs for so long, at least N\n"
		    "  --failures F stop after so many failures (default 1)\n"
		    "  --no-shrink  do not look for a smaller run that fails alike\n"
		    "  --usual      draw nothing: all values are the usual ones, but for those given\n"
		    "  --script F   run what file F says: lines \"# why\", \"seed S\" and \"name=value "
		    "...\", the rest usual\n"
		    "  --verbose    a line for each run\n"
		    "  --trace      say what happens (of one run)\n"
		    "values that a run is made of:\n%s",
		sim::config_help().c_str());
}

struct sim_config config_of(const Options &options, u64 seed)
{
	auto config = options.usual ? sim::config_usual() : sim::config_draw(seed);
	for (const auto &text : options.set)
		if (!sim::config_set(config, text)) {
			std::fprintf(stderr, "no such value: %s\n", text.c_str());
			std::exit(2);
		}
	return config;
}

// A run kept in a file: all values that are not named are the usual ones, so that it stays what it is.
bool script_run(const std::string &path)
{
	std::ifstream file(path);
	struct sim_config config = sim::config_usual();
	std::string line, word;
	u64 seed = 1;

	if (!file) {
		std::printf("%s cannot be read\n", path.c_str());
		return false;
	}
	while (std::getline(file, line)) {
		std::istringstream words(line);
		while (words >> word) {
			if (word[0] == '#')
				break;
			if (word == "seed")
				words >> seed;
			else if (!sim::config_set(config, word)) {
				std::printf("FAILED %s: no such value: %s\n", path.c_str(), word.c_str());
				return false;
			}
		}
	}
	const auto outcome = sim::run_apart(seed, config, false);
	std::printf("%s %s%s%s\n", outcome.failed ? "FAILED" : "ok", path.substr(path.rfind('/') + 1).c_str(),
		outcome.failed ? ": " : "", outcome.check.c_str());
	if (outcome.failed)
		std::printf("%s", outcome.report.c_str());
	return !outcome.failed;
}

void report(const Options &options, u64 seed, const struct sim_config &config, const sim::Outcome &outcome)
{
	std::printf("seed %llu FAILED: %s\n%s", seed, outcome.check.c_str(), outcome.report.c_str());
	std::printf("values: %s\n", sim::config_text(config).c_str());
	std::fflush(stdout);
	if (!options.shrink)
		return;
	const auto small = sim::shrink(seed, config, outcome);
	std::printf("smaller: ibrelk-sim --seed %llu --usual %s\n%s", seed,
		sim::config_text(small.config).c_str(), small.outcome.report.c_str());
	std::fflush(stdout);
}

void add(struct sim_counts &sum, const struct sim_counts &more)
{
	auto *to = reinterpret_cast<u64 *>(&sum);
	const auto *from = reinterpret_cast<const u64 *>(&more);
	for (std::size_t i = 0; i < sizeof(sum) / sizeof(u64); i++)
		to[i] += from[i];
}

} // namespace

int main(int argc, char **argv)
{
	sim::use_huge_pages(argv);

	Options options;

	for (int i = 1; i < argc; i++) {
		const std::string text = argv[i];
		const auto value = [&] {
			return i + 1 < argc ? argv[++i] : "0";
		};
		if (text == "--seed")
			options.seed = std::strtoull(value(), nullptr, 0);
		else if (text == "--runs")
			options.count = std::strtoull(value(), nullptr, 0);
		else if (text == "--hours")
			options.hours = std::strtod(value(), nullptr);
		else if (text == "--failures")
			options.failures = std::strtoull(value(), nullptr, 0);
		else if (text == "--script")
			options.scripts.emplace_back(value());
		else if (text == "--usual")
			options.usual = true;
		else if (text == "--no-shrink")
			options.shrink = false;
		else if (text == "--verbose")
			options.verbose = true;
		else if (text == "--trace")
			options.trace = true;
		else if (text.find('=') != std::string::npos)
			options.set.push_back(text);
		else {
			usage();
			return text == "--help" ? 0 : 2;
		}
	}

	if (!options.scripts.empty()) {
		u64 bad = 0;
		for (const auto &path : options.scripts)
			bad += !script_run(path);
		std::printf("%llu passed, %llu failed\n", options.scripts.size() - bad, bad);
		return bad ? 1 : 0;
	}
	std::printf("seed %llu\n", options.seed);
	const std::time_t begin = std::time(nullptr);
	struct sim_counts sum {
	};
	u64 failed = 0, runs = 0, fingerprint = 0;
	for (u64 seed = options.seed; failed < options.failures; seed++, runs++) {
		if (runs >= options.count &&
			static_cast<double>(std::time(nullptr) - begin) >= options.hours * 3600)
			break;
		const auto config = config_of(options, seed);
		if (options.trace)
			std::printf("values: %s\n", sim::config_text(config).c_str());
		const auto outcome = sim::run_apart(seed, config, options.trace);
		add(sum, outcome.counts);
		fingerprint = fingerprint * 31 + outcome.fingerprint;
		if (options.verbose)
			std::printf("seed %llu: %s, %llu events, %llu packets, %llu messages, %llu "
				    "delivered, %016llx\n",
				seed, outcome.failed ? outcome.check.c_str() : "ok", outcome.counts.events,
				outcome.counts.packets, outcome.counts.messages, outcome.counts.delivered,
				outcome.fingerprint);
		if (outcome.failed) {
			failed++;
			report(options, seed, config, outcome);
		}
	}
	std::printf("%llu runs, %llu messages, %llu delivered, %llu MiB, %llu packets (%llu lost, %llu "
		    "refused, %llu writes), %llu lanes, "
		    "%llu events, %llu interruptions, fingerprint %016llx\n",
		runs, sum.messages, sum.delivered, sum.bytes >> 20, sum.packets, sum.lost, sum.rejected_old,
		sum.written, sum.lanes, sum.events, sum.preempted, fingerprint);
	std::printf("%llu passed, %llu failed\n", runs - failed, failed);
	return failed ? 1 : 0;
}
