// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// user/tools/perf/overlap.cpp and compute.cpp: what is made of trials, and what a trial is.
#include <string>
#include <unistd.h>

#include <gtest/gtest.h>

#include "overlap.hpp"

using namespace perf;

namespace
{

constexpr std::uint64_t us = 1000;

std::vector<OverlapTrial> trials(
	std::uint64_t count, std::uint64_t total_us, std::uint64_t loop_us, bool found)
{
	return {count, OverlapTrial{total_us * us, loop_us * us, found, std::nullopt}};
}

// Writes down what is done with it. So many polls in a hundred find it complete.
class Scripted : public Operation
{
public:
	explicit Scripted(unsigned found_pct) : found_pct_(found_pct)
	{
	}
	bool prepare() override
	{
		return step('a');
	}
	bool post() override
	{
		return step('b');
	}
	bool poll() override
	{
		log += 'c';
		return polls_++ % 100 < found_pct_;
	}
	bool wait() override
	{
		return step('d');
	}
	bool settle() override
	{
		return step('e');
	}

	std::string log;
	char fails = 0; // this step does

private:
	bool step(char name)
	{
		log += name;
		return name != fails;
	}

	const unsigned found_pct_;
	unsigned polls_ = 0;
};

std::string repeated(const std::string &text, std::uint64_t times)
{
	std::string all;

	for (std::uint64_t i = 0; i < times; i++)
		all += text;
	return all;
}

// How many operations are timed without work.
const std::uint64_t transfers = OverlapMeter::attempts(0, 0);

} // namespace

// A transfer of 100 us behind 200 us of work.
TEST(summarise_overlap, formula)
{
	struct Case {
		std::uint64_t total_us;
		double overlap_pct;
	};
	for (const Case &c : {Case{200, 100}, Case{225, 75}, Case{300, 0}, Case{450, 0}, Case{190, 100}}) {
		const auto s = summarise_overlap({100 * us}, {200 * us}, trials(1, c.total_us, 200, true));

		EXPECT_DOUBLE_EQ(s.overlap_pct, c.overlap_pct) << c.total_us;
		EXPECT_DOUBLE_EQ(s.total_us, static_cast<double>(c.total_us));
	}
}

TEST(summarise_overlap, medians)
{
	std::vector<OverlapTrial> some = trials(3, 250, 240, true);

	some.push_back({10'000 * us, 9'000 * us, false, std::nullopt});

	const auto s = summarise_overlap({900 * us, 100 * us, 90 * us}, {200 * us, 190 * us, 700 * us}, some);

	EXPECT_EQ(s.trials, 4u);
	EXPECT_DOUBLE_EQ(s.transfer_us, 100);
	EXPECT_DOUBLE_EQ(s.compute_us, 200);
	EXPECT_DOUBLE_EQ(s.total_us, 250);
	EXPECT_DOUBLE_EQ(s.overlap_pct, 50);
	EXPECT_DOUBLE_EQ(s.first_pct, 75);
	EXPECT_DOUBLE_EQ(s.stolen_us, 40);
	EXPECT_DOUBLE_EQ(s.stolen_pct, 100 * 40.0 / 240);
	EXPECT_FALSE(s.kernel_insns);
}

TEST(summarise_overlap, instructions_where_they_were_counted)
{
	auto some = trials(3, 250, 240, true);

	some[0].kernel_insns = 10;
	some[1].kernel_insns = 30;
	some[2].kernel_insns = 20;
	EXPECT_DOUBLE_EQ(*summarise_overlap({100 * us}, {200 * us}, some).kernel_insns, 20);
}

// As when everything was lost.
TEST(summarise_overlap, of_nothing)
{
	EXPECT_EQ(summarise_overlap({}, {}, {}).trials, 0u);
	EXPECT_EQ(summarise_overlap({100 * us}, {}, {}).overlap_pct, 0);
	EXPECT_EQ(summarise_overlap({0}, {0}, trials(1, 0, 0, false)).first_pct, 0);
}

// One poll in each trial, behind the work; whoever is not found complete is waited for, and time goes on.
TEST(OverlapMeter, what_a_trial_is)
{
	for (unsigned found_pct : {0u, 25u, 100u}) {
		Scripted operation(found_pct);
		OverlapMeter meter(operation, 3, 100);

		for (std::uint64_t i = 0; i < OverlapMeter::attempts(3, 100); i++)
			EXPECT_TRUE(meter.attempt());
		EXPECT_EQ(operation.log,
			repeated("abde", 3 + transfers) + repeated("abce", found_pct) +
				repeated("abcde", 100 - found_pct));

		const auto s = meter.summary();

		EXPECT_EQ(s.trials, 100u);
		EXPECT_DOUBLE_EQ(s.first_pct, found_pct);
		EXPECT_GT(s.transfer_us, 0);
		EXPECT_GT(s.compute_us, 0);
		EXPECT_GE(s.total_us, 0);
	}
}

// A message that was lost is no trial, and no transfer.
TEST(OverlapMeter, what_does_not_end_does_not_count)
{
	for (char step : {'a', 'b', 'd', 'e'}) {
		Scripted operation(0);
		OverlapMeter meter(operation, 0, 10);

		for (std::uint64_t i = 0; i < OverlapMeter::attempts(0, 10); i++) {
			operation.fails = i == transfers - 1 || i == transfers + 5 ? step : 0;
			EXPECT_EQ(meter.attempt(), !operation.fails);
		}
		EXPECT_EQ(meter.summary().trials, 9u) << step;
	}
}

TEST(overlap_text, columns_line_up)
{
	OverlapSummary summary;

	EXPECT_EQ(overlap_text("send", summary).size(), overlap_heading().size());
	EXPECT_NE(overlap_text("send", summary).find("n/a"), std::string::npos);
	summary.kernel_insns = 12345;
	EXPECT_EQ(overlap_text("send", summary).size(), overlap_heading().size());
	EXPECT_NE(overlap_text("send", summary).find("12345"), std::string::npos);
}

TEST(compute, more_rounds_for_more_time)
{
	const std::uint64_t some = compute_rounds(1'000'000);

	EXPECT_GT(some, 1000u);
	EXPECT_GE(compute_rounds(0), 1u);
	EXPECT_GT(compute_rounds(1'000'000'000), some);
	compute(0);
}

TEST(Pinned, as_long_as_it_lives)
{
	cpu_set_t before;
	cpu_set_t now;

	ASSERT_EQ(::sched_getaffinity(0, sizeof(before), &before), 0);
	{
		const Pinned pinned;

		ASSERT_EQ(::sched_getaffinity(0, sizeof(now), &now), 0);
		EXPECT_EQ(CPU_COUNT(&now), 1);
		EXPECT_TRUE(CPU_ISSET(pinned.cpu(), &now));
		EXPECT_EQ(::sched_getcpu(), pinned.cpu());
	}
	ASSERT_EQ(::sched_getaffinity(0, sizeof(now), &now), 0);
	EXPECT_TRUE(CPU_EQUAL(&now, &before));
}

// An emulated processor has no counter; another one counts what the kernel does for us.
TEST(KernelInsns, grow_where_they_are_counted)
{
	const Pinned pinned;
	const KernelInsns insns(pinned.cpu());
	const auto before = insns.read();

	for (unsigned i = 0; i < 1000; i++)
		::getppid();

	const auto after = insns.read();

	EXPECT_EQ(before.has_value(), after.has_value());
	EXPECT_TRUE(!before || !after || *after > *before);
}
