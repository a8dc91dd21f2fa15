// SPDX-License-Identifier: GPL-2.0-only
//
// What `make demo` shows: two nodes with a stock kernel, soft-RoCE and ibrelk.ko, exchanging verified
// messages while the wire between them loses packets; then MPI programs on both.
#include <cstdio>
#include <regex>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "lab.hpp"
#include "mpi.hpp"

namespace
{

using lab::Duration;
using lab::Lab;

const std::string perf = std::string(IBRELK_BUILD) + "/user/tools/ibrelk-perf";

struct Case {
	const char *mode;
	const char *name;
	double loss_pct;
	long bytes;
	int messages;
};

constexpr double mpi_loss_pct = 1;
constexpr int lammps_steps = 20;

struct LammpsCase {
	const char *over;
	const char *mode;
	double loss_pct;
};

// The first is what the others are compared with.
constexpr LammpsCase lammps_cases[] = {
	{"tcp", "auto", 0},
	{"tcp", "auto", 1},
	{"ibrelk", "uc-reliable", 0},
	{"ibrelk", "uc-reliable", 1},
	{"ibrelk", "ud-reliable", 1},
};

// What is lost in a native mode is lost, so these run on the clean wire, for comparison.
constexpr Case cases[] = {
	{"uc-reliable", "UC-reliable", 0, 65536, 200},
	{"uc-reliable", "UC-reliable", 1, 65536, 200},
	{"uc-reliable", "UC-reliable", 5, 65536, 200},
	{"uc-reliable", "UC-reliable", 1, 64, 1000},
	{"ud-reliable", "UD-reliable", 0, 65536, 200},
	{"ud-reliable", "UD-reliable", 1, 65536, 200},
	{"ud-reliable", "UD-reliable", 5, 65536, 200},
	{"ud-reliable", "UD-reliable", 1, 64, 1000},
	{"rc-reliable", "RC-reliable", 0, 65536, 200},
	{"rc-native", "RC-native", 0, 65536, 200},
	{"uc-native", "UC-native", 0, 65536, 200},
	{"ud-native", "UD-native", 0, 65536, 200},
};

double number(const std::string &json, const std::string &name, std::size_t from = 0)
{
	const std::regex pattern("\"" + name + "\": *([0-9.eE+-]+)");
	std::smatch match;
	const std::string rest = json.substr(from);

	return std::regex_search(rest, match, pattern) ? std::stod(match[1]) : 0;
}

// Sum of the client's and the server's count.
double both(const std::string &json, const std::string &name)
{
	const std::size_t server = json.find("\"server\"");

	return number(json, name) + (server == std::string::npos ? 0 : number(json, name, server));
}

void lose(Lab &lab, double loss_pct)
{
	for (int node = 1; node <= lab.nodes(); node++) {
		if (loss_pct > 0)
			lab.set_fault(node, fmt::format("loss {}%", loss_pct));
		else
			lab.clear_fault(node);
	}
}

bool run_case(Lab &lab, const Case &test)
{
	lose(lab, test.loss_pct);
	const lab::Result result = lab.run(1,
		fmt::format("{} bandwidth 10.1.0.2 --mode {} --size {} --iterations {} --verify --counters "
			    "--json --timeout 60",
			perf, test.mode, test.bytes, test.messages),
		Duration(300));
	const std::string &json = result.output;
	const double verified = number(json, "verified");
	const double repeated = both(json, "retransmits_rack") + both(json, "retransmits_probe") +
		both(json, "retransmits_timeout");
	const bool good = result.status == 0 && verified >= test.messages;

	fmt::print("{:<12} {:>7} {:>6} {:>9} {:>10.2f} {:>9.0f} {:>9.0f} {:>9}  {}\n", test.name, test.bytes,
		fmt::format("{}%", test.loss_pct), test.messages, number(json, "mb_per_s"),
		number(json, "messages_per_s"), repeated,
		fmt::format("{:.2f}", number(json, "acks_per_message")),
		good ? fmt::format("{:.0f} verified", verified) : "FAILED");
	if (!good)
		fmt::print("{}\n", result.output);
	std::fflush(stdout);
	return good;
}

// What mpirun has printed, if that is good.
std::string mpirun(Lab &lab, const mpi::Job &job, double loss_pct)
{
	lose(lab, loss_pct);

	const lab::Result result = lab.run(1, mpi::command(job), Duration(300));

	if (result.status != 0)
		throw lab::Error(
			fmt::format("mpirun ended with status {}:\n{}", result.status, result.output));
	return result.output;
}

bool run_mpi(Lab &lab)
{
	mpi::prepare(lab);
	fmt::print("\nThe second act: mpirun starts a ping-pong on both nodes over the libfabric provider, "
		   "{} % of "
		   "packets lost.\n\n{}",
		mpi_loss_pct,
		mpirun(lab, {.program = std::string(IBRELK_BUILD) + "/tests/mpi/pingpong"}, mpi_loss_pct));
	std::fflush(stdout);
	fmt::print("\nLAMMPS, 32,000 atoms in chains, {} steps, a rank on each node, over Open MPI's own TCP "
		   "and over "
		   "ibrelk:\n\n{:<12} {:>6} {:>8}  {}\n",
		lammps_steps, "over", "loss", "loop s", "result");

	mpi::Job job = mpi::lammps("chain", lammps_steps);
	std::string expected;
	bool good = true;

	for (const auto &[over, mode, loss_pct] : lammps_cases) {
		job.over = over;
		job.mode = mode;

		const std::string output = mpirun(lab, job, loss_pct);
		const std::string energies = mpi::thermodynamics(output);

		if (expected.empty())
			expected = energies;

		const bool same = !energies.empty() && energies == expected;

		fmt::print("{:<12} {:>6} {:>8.2f}  {}\n", job.over == "tcp" ? "TCP" : mode,
			fmt::format("{}%", loss_pct), mpi::loop_time(output),
			same ? "the same energies, to the last digit" : "OTHER ENERGIES");
		std::fflush(stdout);
		good &= same;
	}
	return good;
}

int run_demo()
{
	fmt::print("Booting two nodes in QEMU (no hardware virtualisation needed)...\n");
	std::fflush(stdout);

	Lab lab;
	const std::string series = lab.options().kernel;
	bool good = true;

	for (int node = 1; node <= 2; node++)
		lab.run_ok(node,
			fmt::format("{}/tests/load-module.sh {}/module-{}/ibrelk.ko allow_native=1",
				IBRELK_SOURCE, IBRELK_BUILD, series));
	fmt::print("{}",
		lab.run_ok(1, "echo \"node1: Linux $(uname -r), $(ls /sys/class/infiniband), ibrelk.ko\""));
	fmt::print("{}",
		lab.run_ok(2, "echo \"node2: Linux $(uname -r), $(ls /sys/class/infiniband), ibrelk.ko\""));

	lab::Job server = lab.start(2, perf + " --server --modes all --quiet");
	lab.wait_until(
		2, std::string(IBRELK_BUILD) + "/user/tools/ibrelk show endpoints | grep -q rc-native");
	/* The connection manager repeats a lost datagram only after seconds: connect on the clean wire. */
	for (const Case &test : cases)
		lab.run_ok(1,
			fmt::format("{} latency 10.1.0.2 --mode {} --size 8 --iterations 2", perf, test.mode),
			Duration(120));

	fmt::print(
		"\nEvery byte of every message is compared with what was sent. Emulated processors: compare "
		"the\n"
		"lines with each other, not with hardware (`make bench` counts instructions instead).\n\n");
	fmt::print("{:<12} {:>7} {:>6} {:>9} {:>10} {:>9} {:>9} {:>9}  {}\n", "mode", "bytes", "loss",
		"messages", "MB/s", "msg/s", "repeated", "acks/msg", "result");
	for (const Case &test : cases)
		good &= run_case(lab, test);
	server = {};
	good &= run_mpi(lab);

	const std::string report = lab.check();
	if (!report.empty())
		fmt::print("\na kernel complained:\n{}\n", report);
	fmt::print("\n{}\n",
		good && report.empty() ? "All messages arrived, once, in order, and intact." : "FAILED");
	return good && report.empty() ? 0 : 1;
}

} // namespace

int main()
{
	try {
		return run_demo();
	} catch (const std::exception &error) {
		fmt::print("the demo failed: {}\n", error.what());
		return 1;
	}
}
