// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// See stats.hpp.
#include "stats.hpp"

#include <algorithm>
#include <numeric>

namespace perf
{

void Samples::reserve(std::uint64_t count)
{
	times_ns_.clear();
	times_ns_.reserve(count);
}

LatencySummary Samples::summarise(double divisor)
{
	LatencySummary summary;

	if (times_ns_.empty())
		return summary;
	std::sort(times_ns_.begin(), times_ns_.end());

	const double scale = 1000.0 * divisor;
	const double sum = std::accumulate(times_ns_.begin(), times_ns_.end(), 0.0);

	summary.samples = times_ns_.size();
	summary.min_us = static_cast<double>(times_ns_.front()) / scale;
	summary.avg_us = sum / static_cast<double>(times_ns_.size()) / scale;
	summary.p50_us = static_cast<double>(percentile(times_ns_, 500)) / scale;
	summary.p99_us = static_cast<double>(percentile(times_ns_, 990)) / scale;
	summary.p999_us = static_cast<double>(percentile(times_ns_, 999)) / scale;
	summary.max_us = static_cast<double>(times_ns_.back()) / scale;
	return summary;
}

std::uint64_t percentile(const std::vector<std::uint64_t> &sorted, unsigned permille) noexcept
{
	if (sorted.empty())
		return 0;

	const std::uint64_t rank = (sorted.size() * permille + 999) / 1000;

	return sorted[std::clamp<std::uint64_t>(rank, 1, sorted.size()) - 1];
}

} // namespace perf
