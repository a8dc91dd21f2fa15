#include <gtest/gtest.h>

#include "side.hpp"

TEST(seq, diff__across_the_wrap)
{
	EXPECT_EQ(rel_seq_diff(5, 3), 2);
	EXPECT_EQ(rel_seq_diff(3, 5), -2);
	EXPECT_EQ(rel_seq_diff(1, 0xffffffff), 2);
	EXPECT_EQ(rel_seq_diff(0xffffffff, 1), -2);
}

TEST(seq, before_and_after__across_the_wrap)
{
	EXPECT_TRUE(rel_seq_before(0xffffffff, 0));
	EXPECT_FALSE(rel_seq_before(0, 0xffffffff));
	EXPECT_FALSE(rel_seq_before(7, 7));
	EXPECT_TRUE(rel_seq_after(0, 0xffffffff));
	EXPECT_FALSE(rel_seq_after(0xffffffff, 0));
	EXPECT_FALSE(rel_seq_after(7, 7));
}

TEST(seq, max__is_the_newer_one)
{
	EXPECT_EQ(rel_seq_max(0xfffffff0, 3), 3u);
	EXPECT_EQ(rel_seq_max(3, 0xfffffff0), 3u);
	EXPECT_EQ(rel_seq_max(9, 9), 9u);
	EXPECT_EQ(rel_seq_max(7, 7 + 0x80000000u), 7u) << "neither";
}
