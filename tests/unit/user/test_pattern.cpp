// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// user/tools/perf/pattern.cpp: contents of verified messages.
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "pattern.hpp"

using namespace perf;

using Bytes = std::vector<std::byte>;

static Bytes filled(std::size_t length, std::uint64_t seed, std::uint64_t number)
{
	Bytes bytes(length);

	pattern_fill(bytes, seed, number);
	return bytes;
}

TEST(pattern, any_length)
{
	for (std::size_t length = 0; length < 50; length++)
		EXPECT_EQ(pattern_check(filled(length, 1, 2), 1, 2), length);
}

TEST(pattern, a_prefix_is_the_same)
{
	Bytes longer = filled(100, 3, 4);

	longer.resize(61);
	EXPECT_EQ(longer, filled(61, 3, 4));
}

TEST(pattern, every_wrong_bit_is_found)
{
	Bytes bytes = filled(37, 5, 6);

	for (std::size_t i = 0; i < bytes.size(); i++) {
		for (unsigned bit = 0; bit < 8; bit++) {
			bytes[i] ^= std::byte(1u << bit);
			EXPECT_EQ(pattern_check(bytes, 5, 6), i);
			bytes[i] ^= std::byte(1u << bit);
		}
	}
}

TEST(pattern, other_messages_differ)
{
	EXPECT_LT(pattern_check(filled(64, 1, 1), 1, 2), 8u);
	EXPECT_LT(pattern_check(filled(64, 1, 1), 2, 1), 8u);

	// A message that lost eight bytes in its middle.
	Bytes bytes = filled(64, 1, 1);

	bytes.erase(bytes.begin() + 16, bytes.begin() + 24);
	EXPECT_EQ(pattern_check(bytes, 1, 1), 16u);
}

TEST(mixed_size, covers_the_range)
{
	std::set<std::uint64_t> seen;

	for (std::uint64_t number = 0; number < 1000; number++) {
		const std::uint64_t size = mixed_size(5000, 1, number);

		EXPECT_LE(size, 5000u);
		EXPECT_EQ(size, mixed_size(5000, 1, number));
		seen.insert(size);
	}
	EXPECT_TRUE(seen.contains(0));
	EXPECT_TRUE(seen.contains(5000));
	EXPECT_GT(seen.size(), 300u);
	EXPECT_EQ(mixed_size(0, 1, 1), 0u);
	EXPECT_LE(mixed_size(3, 7, 12345), 3u);
}
