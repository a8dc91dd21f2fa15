// SPDX-License-Identifier: GPL-2.0-only
//
// See mpi.hpp.
#include "mpi.hpp"

#include <cstdlib>
#include <regex>
#include <sstream>
#include <stdexcept>

#include <fmt/format.h>

namespace mpi
{

namespace
{

const std::string scripts = std::string(IBRELK_SOURCE) + "/tests/mpi";
const std::string keys = std::string(IBRELK_BUILD) + "/tests/mpi/keys";

void on_host(const std::string &command)
{
	if (std::system(command.c_str()) != 0)
		throw std::runtime_error("failed: " + command);
}

} // namespace

void prepare(lab::Lab &lab)
{
	on_host(fmt::format("mkdir -p {0} && for k in id host; do test -e {0}/$k || "
			    "ssh-keygen -q -t ed25519 -N '' -f {0}/$k; done",
		keys));
	for (int node = 1; node <= lab.nodes(); node++)
		lab.run_ok(node, fmt::format("{}/node.sh {}", scripts, keys));
}

void prepare_slurm(lab::Lab &lab)
{
	on_host(fmt::format("test -e {0}/munge || (umask 077 && head -c 128 /dev/urandom >{0}/munge)", keys));
	for (int node = 1; node <= lab.nodes(); node++)
		lab.run_ok(node, fmt::format("{}/slurm.sh {}/munge", scripts, keys));
	lab.wait_until(1, "sinfo --noheader --format='%D %T' | grep -qx '2 idle'", lab::Duration(120));
}

std::string command(const Job &job)
{
	if (job.slurm)
		return fmt::format("FI_IBRELK_MODE={} {}/srun.sh {}/user/lib/ofi {} {} {}", job.mode, scripts,
			IBRELK_BUILD, job.ranks, job.options, job.program);
	if (!job.mpich.empty())
		return fmt::format(
			"FI_IBRELK_MODE={} {}/mpiexec.sh {} {} {}/user/lib/ofi {},{} -n {} -ppn {} {} {}",
			job.mode, scripts, job.mpich, keys, IBRELK_BUILD, lab::Lab::address(1),
			lab::Lab::address(2), job.in_all ? job.in_all : 2 * job.ranks, job.ranks, job.options,
			job.program);
	return fmt::format("FI_IBRELK_MODE={} {}/mpirun.sh {} {}/user/lib/ofi '{}' {}:{},{}:{} {} {}",
		job.mode, scripts, keys, IBRELK_BUILD, job.over, lab::Lab::address(1), job.ranks,
		lab::Lab::address(2), job.ranks, job.options, job.program);
}

Job lammps(const std::string &name, int steps)
{
	const std::string folder = fmt::format("{}/tests/mpi/lammps-{}", IBRELK_BUILD, steps);
	Job job;

	on_host(fmt::format("{}/lammps.sh {} {} {}", scripts, steps, folder, name));
	job.options = "-wdir " + folder;
	// The temperature that the chain's heat bath is to have.
	job.program = fmt::format("lmp -in in.{} -var t 1.0 -log none -nocite", name);
	return job;
}

double loop_time(const std::string &output)
{
	std::smatch match;

	return std::regex_search(output, match, std::regex("Loop time of ([0-9.]+)")) ? std::stod(match[1])
										      : 0;
}

std::string thermodynamics(const std::string &output)
{
	std::istringstream lines(output);
	std::string line, all;
	bool inside = false;

	while (std::getline(lines, line)) {
		if (line.starts_with("Loop time"))
			inside = false;
		else if (line.starts_with("Step ") || line.starts_with("   Step ") ||
			line.starts_with("---------------- Step"))
			inside = true;
		if (inside)
			all += line + "\n";
	}
	/* How long each took is no part of it. */
	return std::regex_replace(all, std::regex("CPU = *[0-9.]+ \\(sec\\)"), "");
}

} // namespace mpi
