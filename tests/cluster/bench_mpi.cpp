// SPDX-License-Identifier: GPL-2.0-only
//
// `make bench-mpi`: Open MPI between two nodes over ibrelk and over what else there is, in one boot, on a
// clean wire and on one that loses. In each round every network has its turn; of the rounds the median
// counts. Emulated processors: what counts is the ratio of two lines.
//
//	ibrelk-bench-mpi [--rounds N] [--network NAME]... [--loss PERCENT]... [--output FOLDER]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "lab.hpp"
#include "mpi.hpp"

namespace
{

using lab::Duration;
using lab::Lab;

constexpr double bench_limit_s = 150, lammps_limit_s = 90;

struct Lammps {
	const char *input;
	const char *metric;
	int steps;        // that take some seconds
	bool on_any_wire; // or on the clean one only: they take half a minute to begin, and compute most of
			  // the time
};

constexpr Lammps lammps_all[] = {
	{"chain", "lammps_chain_s", 20, true},
	{"eam", "lammps_eam_s", 5, false},
	{"rhodo", "lammps_rhodo_s", 1, false},
};

/// What carries the messages of MPI, and its windows.
struct Network {
	std::string name;
	std::string over; // see mpirun.sh
	std::string mode = "auto";
	// Options for mpirun. (Over libfabric's own providers Open MPI 4.1.4 with libfabric 1.17 makes no
	// window by RMA, tcp;ofi_rxm, or dies of it, verbs;ofi_rxd.)
	std::string windows = "--mca osc pt2pt";
};

const std::vector<Network> networks = {
	{"uc-reliable", "ibrelk", "uc-reliable", mpi::by_rma},
	{"ud-reliable", "ibrelk", "ud-reliable", mpi::by_rma},
	{"auto", "ibrelk", "auto", mpi::by_rma},
	{"ofi-tcp", "tcp;ofi_rxm"},
	{"ofi-rxd", "verbs;ofi_rxd"},
	{"ucx-ud", "ucx-ud_v", "auto", "--mca osc ucx"},
	{"openmpi-tcp", "tcp"},
};

/// All that was measured: a value from each round that came to its end.
class Figures
{
public:
	void add(const std::string &network, const std::string &metric, long size, int loss_pct, double value,
		const std::string &unit)
	{
		values_[{network, metric, size, loss_pct}].push_back(value);
		units_[metric] = unit;
	}

	/// Less than 0: there is none.
	[[nodiscard]] double median(
		const std::string &network, const std::string &metric, long size, int loss_pct) const
	{
		const auto found = values_.find({network, metric, size, loss_pct});

		if (found == values_.end())
			return -1;

		std::vector<double> sorted = found->second;

		std::sort(sorted.begin(), sorted.end());
		return (sorted[(sorted.size() - 1) / 2] + sorted[sorted.size() / 2]) / 2;
	}

	/// As rows of `make bench`.
	void write(std::ostream &out) const
	{
		out << "mode,metric,size,loss_pct,delay_ms,value,unit\n";
		for (const auto &[key, values] : values_) {
			const auto &[network, metric, size, loss_pct] = key;

			out << fmt::format("{},{},{},{},0,{:.4f},{}\n", network, metric, size, loss_pct,
				median(network, metric, size, loss_pct), units_.at(metric));
		}
	}

	/// Values of each round, to see how much they differ.
	void write_all(std::ostream &out) const
	{
		for (const auto &[key, values] : values_) {
			const auto &[network, metric, size, loss_pct] = key;

			out << fmt::format("{},{},{},{}", network, metric, size, loss_pct);
			for (const double value : values)
				out << fmt::format(",{:.4f}", value);
			out << "\n";
		}
	}

private:
	std::map<std::tuple<std::string, std::string, long, int>, std::vector<double>> values_;
	std::map<std::string, std::string> units_;
};

// ---- measuring --------------------------------------------------------------------------------------------

/// "METRIC,SIZE,VALUE,UNIT" of each row that a program printed.
void take_rows(Figures &figures, const std::string &network, int loss_pct, const std::string &output)
{
	std::istringstream lines(output);
	std::string line;

	while (std::getline(lines, line)) {
		std::string metric, size, value, unit;

		if (!line.starts_with("row: "))
			continue;
		std::istringstream fields(line.substr(5));
		if (!std::getline(fields, metric, ',') || !std::getline(fields, size, ',') ||
			!std::getline(fields, value, ',') || !std::getline(fields, unit))
			throw lab::Error("a row that is none: " + line);
		figures.add(network, metric, std::stol(size), loss_pct, std::stod(value), unit);
	}
}

struct Outcome {
	bool good = false;
	std::string output;
};

// What a job that was killed, or has died, has left on the nodes would take time from the next.
void clean_up(Lab &lab)
{
	for (int node = 1; node <= lab.nodes(); node++)
		lab.run(node, "kill -KILL $(pidof bench lmp orted mpirun)");
}

// Another network than ours may hang, or die, on a wire that loses: that is a result.
Outcome run(Lab &lab, const mpi::Job &job, double limit_s)
{
	auto running = lab.start(1, mpi::command(job));
	Outcome outcome;

	try {
		const lab::Result result = running.wait(Duration(limit_s));

		outcome = {result.status == 0, result.output};
	} catch (const lab::TimedOut &) {
		outcome = {false, running.output() + fmt::format("\nnot over after {} s\n", limit_s)};
	}
	if (!outcome.good)
		clean_up(lab);
	return outcome;
}

/// One of the jobs that are measured.
struct Piece {
	mpi::Job job;
	double limit_s;
	const Lammps *lammps = nullptr; // it is this one, and says itself how long it took
};

std::vector<Piece> pieces_of(const Network &network, int loss_pct)
{
	const std::string bench = std::string(IBRELK_BUILD) + "/tests/mpi/bench ";
	// What windows are made of would be polled for messages, too.
	std::vector<Piece> pieces = {{{.program = bench + "point-to-point"}, bench_limit_s},
		{{.program = bench + "one-sided", .options = network.windows}, bench_limit_s}};

	for (const Lammps &lammps : lammps_all)
		if (loss_pct == 0 || lammps.on_any_wire)
			pieces.push_back({mpi::lammps(lammps.input, lammps.steps), lammps_limit_s, &lammps});
	for (Piece &piece : pieces) {
		piece.job.mode = network.mode;
		piece.job.over = network.over;
	}
	return pieces;
}

// What the job was is in the log.
bool measure(Lab &lab, Figures &figures, const Network &network, int loss_pct, std::ostream &log,
	const Piece &piece)
{
	const Outcome outcome = run(lab, piece.job, piece.limit_s);

	log << fmt::format("== {} at {} % of loss: {}\n{}\n", network.name, loss_pct, piece.job.program,
		       outcome.output)
	    << std::flush;
	if (!outcome.good)
		return false;
	take_rows(figures, network.name, loss_pct, outcome.output);
	if (!piece.lammps)
		return true;

	const double loop_s = mpi::loop_time(outcome.output);

	if (loop_s > 0)
		figures.add(network.name, piece.lammps->metric, piece.lammps->steps, loss_pct, loop_s, "s");
	return loop_s > 0;
}

// What the same messages take without MPI. Where the only processor of a node is also the kernel's, who
// sleeps is faster than who polls without ever giving way, and MPI's ranks give way.
void measure_without_mpi(Lab &lab, Figures &figures, const std::string &mode)
{
	const std::string perf = std::string(IBRELK_BUILD) + "/user/tools/ibrelk-perf";
	const std::string csv = "/tmp/bench-mpi.csv";

	auto server = lab.start(2, perf + " --server --quiet --mode " + mode);

	lab.wait_until(2, std::string(IBRELK_BUILD) + "/user/tools/ibrelk show endpoints | grep -q " + mode);
	lab.run_ok(1, "rm -f " + csv);
	lab.run_ok(1,
		fmt::format("{} latency 10.1.0.2 --mode {} --size 8,1k,4k,8k,64k,1m --iterations 50 --events "
			    "--quiet "
			    "--csv {}",
			perf, mode, csv),
		Duration(240));

	std::istringstream lines(lab.run_ok(1, "cat " + csv));
	std::string line;

	while (std::getline(lines, line)) {
		std::vector<std::string> fields;
		std::string field;

		for (std::istringstream rest(line); std::getline(rest, field, ',');)
			fields.push_back(field);
		if (fields.size() == 7 && fields[1] == "latency_us")
			figures.add(
				mode, "perf_latency_us", std::stol(fields[2]), 0, std::stod(fields[5]), "us");
	}
}

// ---- showing ----------------------------------------------------------------------------------------------

struct Column {
	const char *title;
	const char *metric;
	long size;
};

void print_table(
	const Figures &figures, int loss_pct, const std::string &title, const std::vector<Column> &columns)
{
	fmt::print("\n{:<20}", loss_pct ? fmt::format("{}, {} % loss", title, loss_pct) : title);
	for (const Column &column : columns)
		fmt::print(" {:>9}", column.title);
	fmt::print("\n");
	for (const Network &network : networks) {
		fmt::print("{:<20}", network.name);
		for (const Column &column : columns) {
			const double value =
				figures.median(network.name, column.metric, column.size, loss_pct);

			fmt::print(" {:>9}", value >= 0 ? fmt::format("{:.2f}", value) : "-");
		}
		fmt::print("\n");
	}
}

struct Size {
	const char *name;
	long bytes;
};

constexpr Size sizes[] = {
	{"8 B", 8}, {"1 KiB", 1024}, {"4 KiB", 4096}, {"8 KiB", 8192}, {"64 KiB", 65536}, {"1 MiB", 1 << 20}};

// A column for each size.
std::vector<Column> columns_of(const char *metric)
{
	std::vector<Column> columns;

	for (const Size &size : sizes)
		columns.push_back({size.name, metric, size.bytes});
	return columns;
}

std::vector<Column> one_sided_columns()
{
	return {{"put 8 B", "put_us", 8}, {"4 KiB", "put_us", 4096}, {"64 KiB", "put_us", 65536},
		{"get 8 B", "get_us", 8}, {"4 KiB", "get_us", 4096}, {"64 KiB", "get_us", 65536},
		{"acc. 8 B", "accumulate_us", 8}, {"fetch 8 B", "fetch_and_op_us", 8}};
}

std::vector<Column> lammps_columns()
{
	std::vector<Column> columns;

	for (const Lammps &lammps : lammps_all)
		columns.push_back({lammps.input, lammps.metric, lammps.steps});
	return columns;
}

struct Table {
	const char *title;
	std::vector<Column> columns;
};

std::vector<Table> tables()
{
	return {{"latency, us", columns_of("latency_us")}, {"messages, k/s", columns_of("msg_rate_kps")},
		{"MB/s", columns_of("bandwidth_mbps")}, {"overlap, %", columns_of("overlap_pct")},
		{"one-sided, us", one_sided_columns()}, {"LAMMPS, s", lammps_columns()}};
}

/// The least that one of ours is ahead of another network by, and in what.
struct Lead {
	double least = 0; // 1 is alike; 0: there is a figure that we do not have, or the other has none
	std::string where{};
	int compared = 0; // what the other came to the end of
};

Lead lead_of(const Figures &figures, const std::string &ours, const std::string &other, int loss_pct,
	const std::vector<Column> &metrics)
{
	Lead lead;

	for (const Column &column : metrics) {
		const double a = figures.median(ours, column.metric, column.size, loss_pct);
		const double b = figures.median(other, column.metric, column.size, loss_pct);
		// Of times less is more.
		const bool time = std::string(column.metric).ends_with("_us") ||
			std::string(column.metric).ends_with("_s");

		if (b <= 0)
			continue;
		if (a <= 0)
			return {.where = fmt::format("no {} of {}", column.metric, column.size)};

		const double now = time ? b / a : a / b;

		lead.compared++;
		if (lead.least == 0 || now < lead.least) {
			lead.least = now;
			lead.where = fmt::format("{} of {}", column.metric, column.size);
		}
	}
	return lead;
}

void print_goal(const std::string &text, double value, double goal)
{
	const bool most = goal < 0;

	fmt::print("{:<110} {:>7}  {}\n",
		fmt::format("{} (goal {}{:g})", text, most ? "at most " : "", std::abs(goal)),
		value > 0 ? fmt::format("{:.2f}", value) : "-",
		value == 0                                        ? "not measured"
			: (most ? value <= -goal : value >= goal) ? "reached"
								  : "missed");
}

void print_goals(const Figures &figures, const std::vector<int> &losses_pct)
{
	std::vector<Column> latencies = columns_of("latency_us");

	latencies.pop_back(); // up to 64 KiB
	fmt::print("\n");

	const auto ahead = [&](const std::string &ours, const std::string &other, int loss_pct,
				   const std::string &what, const std::vector<Column> &metrics, double goal) {
		const Lead lead = lead_of(figures, ours, other, loss_pct, metrics);

		print_goal(fmt::format("{} ahead of {} at {} % loss, {}, least of {} of {}: {}", ours, other,
				   loss_pct, what, lead.compared, metrics.size(), lead.where),
			lead.least, goal);
	};

	for (const std::string ours : {"uc-reliable", "ud-reliable", "auto"}) {
		for (const std::string other : {"ofi-rxd", "ucx-ud"}) {
			for (const int loss_pct : losses_pct)
				for (const auto &[title, columns] : tables())
					ahead(ours, other, loss_pct, title, columns, loss_pct ? 5 : 1);
		}
		if (std::find(losses_pct.begin(), losses_pct.end(), 0) == losses_pct.end())
			continue;
		ahead(ours, "ofi-tcp", 0, "latency up to 64 KiB", latencies, 1);
		if (ours == "auto")
			continue;
		for (const Column &column : latencies) {
			const double mpi = figures.median(ours, "latency_us", column.size, 0);
			const double without = figures.median(ours, "perf_latency_us", column.size, 0);

			print_goal(
				fmt::format("latency of {} bytes, MPI / ibrelk-perf, {}", column.size, ours),
				without > 0 ? mpi / without : 0, -1.15);
		}
	}
}

int run_bench(int rounds, const std::vector<std::string> &wanted, const std::vector<int> &losses_pct,
	const std::filesystem::path &folder)
{
	Lab lab;
	Figures figures;
	// Of a network, on a wire, the job.
	std::map<std::tuple<std::string, int, std::string>, int> failures;
	bool ours_good = true;

	std::filesystem::create_directories(folder);
	std::ofstream log(folder / "mpi.txt");

	for (int node = 1; node <= lab.nodes(); node++)
		lab.run_ok(node,
			fmt::format("{}/tests/load-module.sh {}/module-{}/ibrelk.ko", IBRELK_SOURCE,
				IBRELK_BUILD, lab.options().kernel));
	mpi::prepare(lab);

	for (const int loss_pct : losses_pct) {
		for (int node = 1; node <= lab.nodes(); node++) {
			if (loss_pct)
				lab.set_fault(node, fmt::format("loss {}%", loss_pct));
			else
				lab.clear_fault(node);
		}
		for (int round = 1; round <= rounds; round++) {
			for (const Network &network : networks) {
				if (!wanted.empty() &&
					std::find(wanted.begin(), wanted.end(), network.name) == wanted.end())
					continue;
				fmt::print("{} % of loss, round {}: {}", loss_pct, round, network.name);
				std::fflush(stdout);
				if (network.over == "ibrelk" && network.mode != "auto" && loss_pct == 0)
					measure_without_mpi(lab, figures, network.mode);
				for (const Piece &piece : pieces_of(network, loss_pct)) {
					int &failed = failures[{network.name, loss_pct, piece.job.program}];

					// Once or twice may be chance.
					if (failed == 3 ||
						measure(lab, figures, network, loss_pct, log, piece))
						continue;
					failed++;
					fmt::print("; did not come to its end: {}", piece.job.program);
					// What becomes of others is a result.
					ours_good &= network.over != "ibrelk";
				}
				fmt::print("\n");
			}
			// What there is so far is kept, whatever becomes of the next round.
			std::ofstream rows(folder / "mpi.csv"), rounds_of(folder / "mpi-rounds.csv");

			figures.write(rows);
			figures.write_all(rounds_of);
		}
	}
	for (const int loss_pct : losses_pct)
		for (const auto &[title, columns] : tables())
			print_table(figures, loss_pct, title, columns);
	print_goals(figures, losses_pct);

	const std::string report = lab.check();

	if (!report.empty())
		fmt::print("\na kernel complained:\n{}\n", report);
	fmt::print("\nmedians of {}: {}; each round: mpi-rounds.csv; what was printed: mpi.txt\n", rounds,
		(folder / "mpi.csv").string());

	return ours_good && report.empty() ? 0 : 1;
}

} // namespace

int main(int argc, char **argv)
{
	CLI::App app("Open MPI over ibrelk and over other networks, on two emulated nodes");
	int rounds = 5;
	std::vector<std::string> wanted;
	std::vector<int> losses_pct = {0, 1};
	std::string folder = std::string(IBRELK_BUILD) + "/bench";

	app.add_option("--rounds", rounds, "how often each is measured")->check(CLI::Range(1, 100));
	app.add_option("--network", wanted, "only this one (may be given more than once)");
	app.add_option("--loss", losses_pct,
		   "only on a wire that loses so much, in percent (may be given more than once)")
		->check(CLI::Range(0, 99));
	app.add_option("--output", folder, "where mpi.csv and the log are written");
	CLI11_PARSE(app, argc, argv);
	try {
		return run_bench(rounds, wanted, losses_pct, folder);
	} catch (const std::exception &error) {
		fmt::print("the benchmark failed: {}\n", error.what());
		return 1;
	}
}
