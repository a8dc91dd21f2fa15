// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// See overlap.hpp.
#include "overlap.hpp"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "stats.hpp"

namespace perf
{

namespace
{

// Of so many the median is the time of the operation, and of the work, alone.
constexpr std::uint64_t transfers = 11;
constexpr unsigned alone = 5;

std::uint64_t clock_ns() noexcept
{
	return static_cast<std::uint64_t>(
		std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
}

double median(std::vector<std::uint64_t> &values)
{
	std::sort(values.begin(), values.end());
	return static_cast<double>(percentile(values, 500));
}

} // namespace

OverlapSummary summarise_overlap(std::vector<std::uint64_t> transfers_ns, std::vector<std::uint64_t> alone_ns,
	const std::vector<OverlapTrial> &trials)
{
	OverlapSummary summary;
	std::vector<std::uint64_t> totals_ns;
	std::vector<std::uint64_t> loops_ns;
	std::vector<std::uint64_t> insns;
	std::uint64_t found = 0;

	if (transfers_ns.empty() || alone_ns.empty() || trials.empty())
		return summary;
	for (const OverlapTrial &trial : trials) {
		totals_ns.push_back(trial.total_ns);
		loops_ns.push_back(trial.loop_ns);
		found += trial.found;
		if (trial.kernel_insns)
			insns.push_back(*trial.kernel_insns);
	}

	const double transfer_ns = std::max(median(transfers_ns), 1.0);
	const double compute_ns = median(alone_ns);
	const double total_ns = median(totals_ns);
	const double loop_ns = std::max(median(loops_ns), 1.0);
	// A loop may also have been lucky.
	const double stolen_ns = std::max(loop_ns - compute_ns, 0.0);

	summary.trials = trials.size();
	summary.transfer_us = transfer_ns / 1000;
	summary.compute_us = compute_ns / 1000;
	summary.total_us = total_ns / 1000;
	summary.overlap_pct = 100 * std::clamp(1 - (total_ns - compute_ns) / transfer_ns, 0.0, 1.0);
	summary.first_pct = 100 * static_cast<double>(found) / static_cast<double>(trials.size());
	summary.stolen_us = stolen_ns / 1000;
	summary.stolen_pct = 100 * stolen_ns / loop_ns;
	if (!insns.empty())
		summary.kernel_insns = median(insns);
	return summary;
}

OverlapMeter::OverlapMeter(Operation &operation, std::uint64_t warmup, std::uint64_t trials) :
	operation_(operation), warmup_(warmup), insns_(pinned_.cpu())
{
	transfers_ns_.reserve(transfers);
	alone_ns_.reserve(alone);
	trials_.reserve(trials);
}

std::uint64_t OverlapMeter::attempts(std::uint64_t warmup, std::uint64_t trials) noexcept
{
	return warmup + transfers + trials;
}

bool OverlapMeter::attempt()
{
	const std::uint64_t number = done_++;
	OverlapTrial trial;

	if (number >= warmup_ + transfers)
		prepare_trial();
	if (!run(trial))
		return false;
	if (number >= warmup_ + transfers)
		trials_.push_back(trial);
	else if (number >= warmup_)
		transfers_ns_.push_back(trial.total_ns);
	return true;
}

// The work alone is timed in front of the first trials, each time once: the other side does not wait for
// ever.
void OverlapMeter::prepare_trial()
{
	if (!rounds_) {
		auto sorted = transfers_ns_;

		rounds_ = compute_rounds(static_cast<std::uint64_t>(overlap_work * median(sorted)));
	}
	if (alone_ns_.size() < alone) {
		const std::uint64_t start_ns = clock_ns();

		compute(rounds_);
		alone_ns_.push_back(clock_ns() - start_ns);
	}
}

bool OverlapMeter::run(OverlapTrial &trial)
{
	if (!operation_.prepare())
		return false;

	const auto insns = insns_.read();
	const std::uint64_t start_ns = clock_ns();

	if (!operation_.post())
		return false;
	if (rounds_) {
		const std::uint64_t posted_ns = clock_ns();

		compute(rounds_);
		trial.found = operation_.poll();

		const std::uint64_t polled_ns = clock_ns();

		trial.loop_ns = polled_ns - posted_ns;
		trial.total_ns = polled_ns - start_ns;
		if (const auto after = insns_.read(); insns && after)
			trial.kernel_insns = *after - *insns;
	}
	if (!trial.found) {
		if (!operation_.wait())
			return false;
		trial.total_ns = clock_ns() - start_ns;
	}
	return operation_.settle();
}

std::string overlap_heading()
{
	return fmt::format("{:>6}{:>13}{:>12}{:>12}{:>12}{:>10}{:>12}{:>11}{:>13}", "side", "transfer[us]",
		"compute[us]", "total[us]", "overlap[%]", "first[%]", "stolen[us]", "stolen[%]",
		"kernel insns");
}

std::string overlap_text(const char *side, const OverlapSummary &s)
{
	return fmt::format("{:>6}{:>13.2f}{:>12.2f}{:>12.2f}{:>12.1f}{:>10.1f}{:>12.2f}{:>11.1f}{:>13}", side,
		s.transfer_us, s.compute_us, s.total_us, s.overlap_pct, s.first_pct, s.stolen_us,
		s.stolen_pct, s.kernel_insns ? fmt::format("{:.0f}", *s.kernel_insns) : "n/a");
}

} // namespace perf
