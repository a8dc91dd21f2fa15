// SPDX-License-Identifier: GPL-2.0-only
//
// MPI on the lab's nodes: real sshd, mpirun on node 1, programs that the host has.
#pragma once

#include <string>

#include "lab.hpp"

namespace mpi
{

/// What is run, and over what.
struct Job {
	std::string program;         // with its arguments
	std::string mode = "auto";   // of ibrelk
	std::string over = "ibrelk"; // or another network that mpirun.sh knows
	int ranks = 1;               // of each node
	int in_all = 0;              // of both, if node 2 has fewer; MPICH only
	std::string options{};       // more for mpirun
	std::string mpich{};         // folder of an MPICH, instead of Open MPI
	bool slurm = false;          // started by srun, instead of mpirun: after prepare_slurm()
};

/// Options by which Open MPI's windows go by RMA. Only told by its name does osc/rdma take this BTL at once,
/// and only told so does that take our provider.
inline const std::string by_rma = "--mca osc rdma --mca osc_rdma_btl_names ofi --mca btl ofi,self --mca "
				  "btl_ofi_provider_include ibrelk";

/// Makes the nodes such that mpirun can start processes there. Does no harm where they are already.
void prepare(lab::Lab &lab);

/// Makes them a Slurm cluster. After prepare(), and no harm where they are one.
void prepare_slurm(lab::Lab &lab);

/// The shell command, for node 1.
std::string command(const Job &job);

/// Makes the input of a LAMMPS benchmark, "chain", "eam" or "rhodo", that ends after some steps. Returns the
/// job.
Job lammps(const std::string &name, int steps);

/// Seconds that LAMMPS says its steps have taken; 0 if it does not say it.
double loop_time(const std::string &output);

/// What LAMMPS printed about each step: the same over each network.
std::string thermodynamics(const std::string &output);

} // namespace mpi
