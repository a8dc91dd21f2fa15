#include <bitset>

#include <gtest/gtest.h>

#include "link.hpp"

namespace
{

using Naive = std::bitset<128>;

Naive naive(const rel_bits &bits)
{
	return Naive(bits.word[1]) << 64 | Naive(bits.word[0]);
}

// Random sets, and those at which words begin and end.
std::vector<rel_bits> samples()
{
	std::vector<rel_bits> all = {{{0, 0}}, {{1, 0}}, {{0, 1}}, {{~0ull, 0}}, {{0, ~0ull}},
		{{~0ull, ~0ull}}, {{1ull << 63, 0}}, {{0, 1ull << 63}}, {{~0ull, 1}}, {{~0ull >> 1, ~0ull}}};
	Random random(1);

	for (int i = 0; i < 20; i++)
		all.push_back({{random.next() & random.next(), random.next() | random.next()}});
	return all;
}

} // namespace

TEST(bits, up_and_down__by_any_count)
{
	for (const rel_bits &bits : samples()) {
		for (u32 by :
			{0u, 1u, 31u, 63u, 64u, 65u, 127u, 128u, 129u, 1000u, 0x80000000u, 0xffffffffu}) {
			bool gone = by >= 128;

			EXPECT_EQ(naive(rel_bits_up(bits, by)), gone ? Naive() : naive(bits) << by) << by;
			EXPECT_EQ(naive(rel_bits_down(bits, by)), gone ? Naive() : naive(bits) >> by) << by;
		}
	}
}

TEST(bits, low__of_any_count)
{
	for (u32 count : {0u, 1u, 2u, 63u, 64u, 65u, 127u, 128u, 129u, 0xffffffffu}) {
		Naive expected;

		for (u32 i = 0; i < std::min(count, 128u); i++)
			expected.set(i);
		EXPECT_EQ(naive(rel_bits_low(count)), expected) << count;
	}
}

TEST(bits, first_last_ones_test__agree_with_a_slow_search)
{
	for (const rel_bits &bits : samples()) {
		Naive slow = naive(bits);
		u32 first = 128, last = 128, ones = 0;

		for (u32 i = 0; i < 128; i++) {
			EXPECT_EQ(rel_bits_test(&bits, i), slow.test(i));
			if (slow.test(i) && first == 128)
				first = i;
			if (slow.test(i))
				last = i;
			if (slow.test(i) && ones == i)
				ones++;
		}
		EXPECT_EQ(rel_bits_any(bits), slow.any());
		EXPECT_EQ(rel_bits_ones(bits), ones);
		if (slow.any()) {
			EXPECT_EQ(rel_bits_first(bits), first);
			EXPECT_EQ(rel_bits_last(bits), last);
		}
	}
}

TEST(bits, set_and_clear__touch_one_bit)
{
	for (u32 i = 0; i < 128; i++) {
		rel_bits bits = {{0x5555, 0x5555}};
		Naive expected = naive(bits);

		rel_bits_set(&bits, i);
		EXPECT_EQ(naive(bits), Naive(expected).set(i));
		rel_bits_clear(&bits, i);
		EXPECT_EQ(naive(bits), Naive(expected).reset(i));
	}
}
