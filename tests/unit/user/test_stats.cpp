// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// user/tools/perf/stats.cpp: percentiles.
#include <gtest/gtest.h>

#include "stats.hpp"

using namespace perf;

TEST(percentile, nearest_rank)
{
	std::vector<std::uint64_t> hundred;

	for (std::uint64_t i = 1; i <= 100; i++)
		hundred.push_back(i);
	EXPECT_EQ(percentile(hundred, 500), 50u);
	EXPECT_EQ(percentile(hundred, 990), 99u);
	EXPECT_EQ(percentile(hundred, 999), 100u);
	EXPECT_EQ(percentile(hundred, 0), 1u);
	EXPECT_EQ(percentile(hundred, 1000), 100u);
	EXPECT_EQ(percentile({7}, 500), 7u);
	EXPECT_EQ(percentile({}, 500), 0u);
	EXPECT_EQ(percentile({1, 2}, 500), 1u);
}

TEST(samples, summary)
{
	Samples samples;

	samples.reserve(4);
	for (std::uint64_t time : {4000, 2000, 8000, 2000})
		samples.add(time);

	const LatencySummary summary = samples.summarise(2);

	EXPECT_EQ(summary.samples, 4u);
	EXPECT_DOUBLE_EQ(summary.min_us, 1);
	EXPECT_DOUBLE_EQ(summary.avg_us, 2);
	EXPECT_DOUBLE_EQ(summary.p50_us, 1);
	EXPECT_DOUBLE_EQ(summary.p99_us, 4);
	EXPECT_DOUBLE_EQ(summary.max_us, 4);
}

TEST(samples, never_allocates_while_adding)
{
	Samples samples;

	samples.reserve(3);
	for (int i = 0; i < 1000; i++)
		samples.add(1);
	EXPECT_LT(samples.summarise(1).samples, 100u);
	EXPECT_EQ(Samples().summarise(2).samples, 0u);
}
