// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// user/tools/perf/options.cpp: the command line.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "options.hpp"

using namespace perf;

namespace
{

std::optional<Options> parse(std::vector<const char *> words, int *code = nullptr)
{
	int ignored = 0;

	words.insert(words.begin(), "ibrelk-perf");
	testing::internal::CaptureStdout();
	testing::internal::CaptureStderr();

	auto options = parse_options(static_cast<int>(words.size()), words.data(), code ? *code : ignored);

	testing::internal::GetCapturedStdout();
	testing::internal::GetCapturedStderr();
	return options;
}

} // namespace

TEST(parse_size, units)
{
	EXPECT_EQ(parse_size("0"), 0u);
	EXPECT_EQ(parse_size("4k"), 4096u);
	EXPECT_EQ(parse_size("4K"), 4096u);
	EXPECT_EQ(parse_size("3M"), 3u << 20);
	EXPECT_EQ(parse_size("1g"), 1u << 30);
	for (const char *text :
		{"", "k", "-1", "1kk", "1x", "1.5k", "99999999999999999999", "18446744073709551615k"})
		EXPECT_FALSE(parse_size(text)) << text;
}

TEST(parse_sizes, lists_and_ranges)
{
	using Sizes = std::vector<std::uint64_t>;

	EXPECT_EQ(parse_sizes("8"), (Sizes{8}));
	EXPECT_EQ(parse_sizes("8,64,1k"), (Sizes{8, 64, 1024}));
	EXPECT_EQ(parse_sizes("1:8"), (Sizes{1, 2, 4, 8}));
	EXPECT_EQ(parse_sizes("0:4"), (Sizes{0, 1, 2, 4}));
	EXPECT_EQ(parse_sizes("3:20"), (Sizes{3, 6, 12, 20}));
	EXPECT_EQ(parse_sizes("5:5"), (Sizes{5}));
	EXPECT_EQ(parse_sizes("1:18446744073709551615").size(), 65u);
	for (const char *text : {"", "8,", "8,,9", "9:8", "1:", ":1", "1:2:3", "a:b"})
		EXPECT_TRUE(parse_sizes(text).empty() || std::string(text) == "8,") << text;
}

TEST(parse_modes, names)
{
	EXPECT_EQ(parse_modes("all")->size(), 0u);
	EXPECT_EQ(*parse_modes("uc-native,UD-reliable"),
		(std::vector<std::uint32_t>{IBRELK_MODE_UC_NATIVE, IBRELK_MODE_UD_RELIABLE}));
	EXPECT_FALSE(parse_modes("uc"));
	EXPECT_FALSE(parse_modes(""));
}

TEST(parse_options, client)
{
	auto options = parse({"latency", "10.1.0.2", "--mode", "uc-reliable", "--size", "8", "-n", "100",
		"--events", "--verify", "--local", "10.1.0.1:5", "--job-key", "0x2a", "--door", "uring",
		"--level", "matched"});

	ASSERT_TRUE(options);
	EXPECT_EQ(options->role, Role::client);
	EXPECT_EQ(options->test, perf::Test::latency);
	EXPECT_EQ(options->peer.text(), "10.1.0.2:0");
	EXPECT_EQ(options->local.text(), "10.1.0.1:5");
	EXPECT_EQ(options->modes, (std::vector<std::uint32_t>{IBRELK_MODE_UC_RELIABLE}));
	EXPECT_EQ(options->iterations, 100u);
	EXPECT_EQ(options->wait.kind, WaitKind::events);
	EXPECT_TRUE(options->wait_given);
	EXPECT_TRUE(options->verify);
	EXPECT_EQ(options->job_key, 42u);
	EXPECT_EQ(options->door, IBRELK_DOOR_URING);
	EXPECT_EQ(options->level, IBRELK_LEVEL_MATCHED);
}

TEST(parse_options, server_serves_all_modes_unless_told)
{
	EXPECT_TRUE(parse({"--server"})->modes.empty());
	EXPECT_TRUE(parse({"--server", "--modes", "all"})->modes.empty());
	EXPECT_EQ(parse({"-s", "--mode", "rc-native"})->modes.size(), 1u);
	EXPECT_EQ(parse({"bw", "10.1.0.2"})->modes, (std::vector<std::uint32_t>{IBRELK_MODE_DEFAULT}));
}

TEST(parse_options, self)
{
	auto options = parse({"--self", "10.1.0.1", "10.1.0.2", "rate"});

	ASSERT_TRUE(options);
	EXPECT_EQ(options->role, Role::self);
	EXPECT_EQ(options->sizes, (std::vector<std::uint64_t>{8}));
	EXPECT_EQ(options->peer.text(), "10.1.0.2:0");
	EXPECT_TRUE(parse({"rate", "--self", "10.1.0.1", "10.1.0.2"}));
}

TEST(parse_options, what_is_wrong)
{
	const std::vector<std::vector<const char *>> wrong = {{}, {"latency"}, {"speed", "10.1.0.2"},
		{"latency", "nowhere"}, {"--server", "latency"},
		{"--server", "--self", "10.1.0.1", "10.1.0.2"}, {"latency", "10.1.0.2", "--mode", "x"},
		{"latency", "10.1.0.2", "--size", "x"}, {"latency", "10.1.0.2", "--events", "--spin"},
		{"latency", "10.1.0.2", "--window", "0"}, {"latency", "10.1.0.2", "--batch", "65"},
		{"latency", "10.1.0.2", "--job-key", "z"}, {"latency", "10.1.0.2", "-n", "0"},
		{"latency", "10.1.0.2", "--what"}, {"latency", "10.1.0.2", "--self", "10.1.0.1"},
		{"latency", "10.1.0.2", "--timeout", "0"}, {"overlap", "10.1.0.2", "--mixed"}};

	for (const auto &words : wrong) {
		int code = 0;

		EXPECT_FALSE(parse(words, &code)) << (words.empty() ? "" : words.back());
		EXPECT_EQ(code, 2) << (words.empty() ? "" : words.back());
	}
}

TEST(parse_options, help_and_version)
{
	for (const char *word : {"--help", "--version"}) {
		int code = 99;

		EXPECT_FALSE(parse({word}, &code));
		EXPECT_EQ(code, 0);
	}
}

TEST(parse_options, overlap)
{
	auto options = parse({"overlap", "10.1.0.2"});

	ASSERT_TRUE(options);
	EXPECT_EQ(options->test, perf::Test::overlap);
	EXPECT_EQ(options->sizes.front(), 64u << 10);
	EXPECT_EQ(options->sizes.back(), 64u << 20);
	EXPECT_EQ(options->sizes.size(), 11u);
}

TEST(defaults, iterations)
{
	EXPECT_EQ(default_iterations(perf::Test::overlap, 0), 100u);
	EXPECT_EQ(default_iterations(perf::Test::overlap, 1u << 20), 64u);
	EXPECT_EQ(default_iterations(perf::Test::overlap, 64u << 20), 10u);
	EXPECT_EQ(default_iterations(perf::Test::latency, 8), 1000u);
	EXPECT_EQ(default_iterations(perf::Test::latency, 64 << 10), 100u);
	EXPECT_EQ(default_iterations(perf::Test::bandwidth, 1u << 30), 10u);
	EXPECT_EQ(default_warmup(1000), 100u);
	EXPECT_EQ(default_warmup(100'000), 1000u);
}
