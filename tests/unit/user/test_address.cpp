// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// user/lib/address.cpp: addresses from text and to text, names of modes.
#include <cerrno>
#include <string>

#include <gtest/gtest.h>

#include <ibrelk/ibrelk.hpp>

using ibrelk::Address;

static std::string round_trip(const char *text)
{
	auto address = Address::from_text(text);

	return address ? address->text() : "error " + std::to_string(address.error());
}

TEST(address, from_text__ipv4)
{
	auto address = Address::from_text("10.1.0.2:77");

	ASSERT_TRUE(address);
	EXPECT_EQ(address->endpoint(), 77u);
	EXPECT_EQ(address->generation(), 0u);

	const unsigned char gid[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 1, 0, 2};

	EXPECT_EQ(std::memcmp(address->raw().gid, gid, 16), 0);
}

TEST(address, from_text__ipv6_and_generation)
{
	auto address = Address::from_text("[fe80::1]:4294967295#5");

	ASSERT_TRUE(address);
	EXPECT_EQ(address->endpoint(), 4294967295u);
	EXPECT_EQ(address->generation(), 5u);
	EXPECT_EQ(address->raw().gid[0], 0xfe);
	EXPECT_EQ(address->raw().gid[1], 0x80);
	EXPECT_EQ(address->raw().gid[15], 1);
}

TEST(address, from_text__parts_may_be_missing)
{
	EXPECT_EQ(round_trip("10.1.0.2"), "10.1.0.2:0");
	EXPECT_EQ(round_trip("10.1.0.2#3"), "10.1.0.2:0#3");
	EXPECT_EQ(round_trip("[::ffff:10.1.0.2]:4"), "10.1.0.2:4");
	EXPECT_EQ(round_trip("*:77"), "*:77");
	EXPECT_EQ(round_trip("*"), "*:0");
	EXPECT_EQ(round_trip("[::]:7"), "*:7");
}

TEST(address, from_text__what_is_none)
{
	for (const char *text : {"", ":", ":77", "10.1.0.2:", "10.1.0.2:4294967296", "10.1.0.2:-1",
		     "10.1.0.2:7x", "10.1.0", "10.1.0.256:1", "fe80::1:77", "[fe80::1", "[fe80::1]77", "[]:7",
		     "[fe80::1%eth0]:7", "[10.1.0.2]:7", "host:7", "10.1.0.2:7#", "10.1.0.2:7#x",
		     "10.1.0.2:7#1#2", "10.1.0.2#5:7", "10.1.0.2 :7", " 10.1.0.2:7", "**:1", "10.1.0.2:0x10",
		     "10.1.0.2:7 ", "[0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000]:7"}) {
		Address untouched = *Address::from_text("1.2.3.4:5");
		ibrelk_addr raw = untouched.raw();

		EXPECT_EQ(ibrelk_address_from_text(text, &raw), -EINVAL) << text;
		EXPECT_EQ(Address(raw), untouched) << text;
	}
	EXPECT_EQ(ibrelk_address_from_text(nullptr, nullptr), -EINVAL);
}

TEST(address, to_text__round_trip)
{
	for (const char *text : {"10.1.0.2:77", "10.1.0.2:77#5", "[fe80::1]:77", "[fe80::1]:77#4294967295",
		     "*:9", "[ff02:1:2:3:4:5:6:7]:4294967295#4294967295"})
		EXPECT_EQ(round_trip(text), text);
}

TEST(address, to_text__too_little_room)
{
	auto address = *Address::from_text("10.1.0.2:77");
	char buffer[12];

	EXPECT_EQ(ibrelk_address_to_text(&address.raw(), buffer, sizeof(buffer)), 11);
	EXPECT_EQ(ibrelk_address_to_text(&address.raw(), buffer, 11), -ENOSPC);
	EXPECT_EQ(ibrelk_address_to_text(&address.raw(), buffer, 0), -ENOSPC);
	EXPECT_EQ(ibrelk_address_to_text(nullptr, buffer, sizeof(buffer)), -EINVAL);
	EXPECT_EQ(address.to_text(std::span(buffer, 3)).error(), ENOSPC);
}

TEST(address, longest_text_fits)
{
	ibrelk_addr raw;

	std::memset(&raw, 0xfe, sizeof(raw));

	char buffer[IBRELK_ADDRESS_TEXT_MAX];

	EXPECT_GT(ibrelk_address_to_text(&raw, buffer, sizeof(buffer)), 0);
}

TEST(mode, names)
{
	for (unsigned mode = 0; mode < IBRELK_MODE_COUNT; mode++)
		EXPECT_EQ(ibrelk_mode_from_name(ibrelk_mode_name(mode)), static_cast<int>(mode));
	EXPECT_EQ(ibrelk_mode_from_name("UC-Reliable"), IBRELK_MODE_UC_RELIABLE);
	EXPECT_EQ(ibrelk_mode_from_name("tcp"), -EINVAL);
	EXPECT_EQ(ibrelk_mode_from_name(nullptr), -EINVAL);
	EXPECT_STREQ(ibrelk_mode_name(99), "unknown");
}
