// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Overlap of communication and computation: what a trial is, and what is made of many. It is the
// post-work-wait method of COMB (Lawry, Wilson, Maccabe and Brightwell, 2002) and of the Sandia
// microbenchmark SMB (Doerfler and Brightwell, 2006): post an operation, work without calling the library,
// wait. The work takes twice as long as the operation does alone, which is where SMB ends, too: longer than
// any transfer that can be hidden behind it.
//
//	transfer   median time of the operation without any work
//	compute    median time of the work alone
//	total      median time of the operation with the work in between
//	overlap    1 - (total - compute) / transfer: SMB's availability, and the formula of the OSU benchmarks
//	first      how many operations the first poll after the work finds complete
//	stolen     by how much the work has become longer: what the kernel, and whoever else runs here, took
// from it
//
// OSU takes for compute what the work takes beside the transfer, so that what was stolen counts as
// overlapped. Here it does not; so overlap is what the application gains, and first is whether it was needed.
//
// What is measured is behind an interface: ibrelk in transfer.cpp, libfabric in tests/bench/fi_overlap.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compute.hpp"

namespace perf
{

/// The work takes so many times what the operation takes.
constexpr unsigned overlap_work = 2;

/// What is to be overlapped: one operation after the other, on one side.
class Operation
{
public:
	/// Gets ready: what is no part of the operation. Returns whether it is; so do the others.
	virtual bool prepare() = 0;
	/// Begins it.
	virtual bool post() = 0;
	/// One look whether it is complete, that does nothing for it but what a look does.
	virtual bool poll() = 0;
	/// Waits until it is complete.
	virtual bool wait() = 0;
	/// Waits until the other side is ready for the next.
	virtual bool settle() = 0;

protected:
	~Operation() = default;
};

struct OverlapTrial {
	std::uint64_t total_ns = 0;
	std::uint64_t loop_ns = 0;                 // of this, the work and the poll
	bool found = false;                        // by the first poll
	std::optional<std::uint64_t> kernel_insns; // in the kernel while it worked
};

struct OverlapSummary {
	std::uint64_t trials = 0;
	double transfer_us = 0;
	double compute_us = 0;
	double total_us = 0;
	double overlap_pct = 0;
	double first_pct = 0;
	double stolen_us = 0;
	double stolen_pct = 0;              // of the time of the work
	std::optional<double> kernel_insns; // median; nothing where they cannot be counted
};

OverlapSummary summarise_overlap(std::vector<std::uint64_t> transfers_ns, std::vector<std::uint64_t> alone_ns,
	const std::vector<OverlapTrial> &trials);

/// Measures one side, attempt by attempt, on one processor.
class OverlapMeter
{
public:
	/// @p warmup operations are not measured.
	OverlapMeter(Operation &operation, std::uint64_t warmup, std::uint64_t trials);

	/// How many operations that takes.
	static std::uint64_t attempts(std::uint64_t warmup, std::uint64_t trials) noexcept;
	/// The next one. Returns whether it came to its end.
	bool attempt();
	[[nodiscard]] OverlapSummary summary() const
	{
		return summarise_overlap(transfers_ns_, alone_ns_, trials_);
	}

private:
	void prepare_trial();
	bool run(OverlapTrial &trial);

	Operation &operation_;
	const std::uint64_t warmup_;
	Pinned pinned_;
	KernelInsns insns_;
	std::uint64_t done_ = 0;
	std::uint64_t rounds_ = 0; // of work; 0: none yet
	std::vector<std::uint64_t> transfers_ns_;
	std::vector<std::uint64_t> alone_ns_;
	std::vector<OverlapTrial> trials_;
};

/// Columns of a table.
std::string overlap_heading();
std::string overlap_text(const char *side, const OverlapSummary &summary);

/// Gives each metric of the CSV file, as overlap_SIDE_NAME, its value and its unit.
template<class F>
void for_each_overlap_metric(const std::string &side, const OverlapSummary &summary, F &&metric)
{
	const std::string start = "overlap_" + side + "_";

	metric(start + "transfer_us", summary.transfer_us, "us");
	metric(start + "compute_us", summary.compute_us, "us");
	metric(start + "total_us", summary.total_us, "us");
	metric(start + "pct", summary.overlap_pct, "%");
	metric(start + "first_pct", summary.first_pct, "%");
	metric(start + "stolen_us", summary.stolen_us, "us");
}

} // namespace perf
