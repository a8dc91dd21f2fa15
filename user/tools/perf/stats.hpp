// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Samples of a latency test, and what is made of them. All samples are kept: percentiles are then exact, and
// room for them is made before the clock runs.
#pragma once

#include <cstdint>
#include <vector>

namespace perf
{

struct LatencySummary {
	std::uint64_t samples = 0;
	double min_us = 0;
	double avg_us = 0;
	double p50_us = 0;
	double p99_us = 0;
	double p999_us = 0;
	double max_us = 0;
};

class Samples
{
public:
	/// Makes room; samples beyond it are ignored.
	void reserve(std::uint64_t count);
	void add(std::uint64_t time_ns) noexcept
	{
		if (times_ns_.size() < times_ns_.capacity())
			times_ns_.push_back(time_ns);
	}
	/// Sums up, dividing each time by @p divisor (2 makes one way of a round trip). Sorts the samples.
	LatencySummary summarise(double divisor);

private:
	std::vector<std::uint64_t> times_ns_;
};

/// Nearest-rank percentile of a sorted list: the smallest value such that @p permille of 1000 are not larger.
std::uint64_t percentile(const std::vector<std::uint64_t> &sorted, unsigned permille) noexcept;

} // namespace perf
