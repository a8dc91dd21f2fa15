// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tests of roce.cpp. The proof of the ICRC are frames that soft-RoCE itself has sent: captured between two
 * nodes of the lab while perftest ran, with every transport and every length of pad.
 */
#include "roce.hpp"

#include <cstdlib>
#include <ostream>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace
{

using roce::Bytes;

struct Captured {
	std::string_view name;
	std::string_view hex;
	std::size_t payload_bytes;
	std::uint32_t qpn;
	std::uint32_t psn;
};

std::ostream &operator<<(std::ostream &stream, const Captured &captured)
{
	return stream << captured.name;
}

/* From 10.1.0.1 to 10.1.0.2, or (UC write) back. */
constexpr Captured captures[] = {
	{"uc_send_only_8",
		"525400000102525400000101080045000034556f40004011d1450a0100010a010002c12112b700200000"
		"2400ffff0000001100be5417ed469511f1308e1395667106",
		8, 0x11, 0xbe5417},
	{"uc_send_only_7",
		"52540000010252540000010108004500003456ee40004011cfc60a0100010a010002c14412b700200000"
		"2410ffff0000001200ecb9c9cd9c3467c6d0b80025912975",
		7, 0x12, 0xecb9c9},
	{"uc_send_only_1",
		"525400000102525400000101080045000030580b40004011cead0a0100010a010002c16912b7001c0000"
		"2430ffff00000013007d0fdcce000000df824cdc",
		1, 0x13, 0x7d0fdc},
	{"ud_send_only_6",
		"52540000010252540000010108004500003c5aa140004011cc0b0a0100010a010002e8ea12b700280000"
		"6420ffff0000001400a9bdc41111111100000014b4799604d5be0000b00d1835",
		6, 0x14, 0xa9bdc4},
	{"uc_write_only_9",
		"525400000101525400000102080045000048a98b400040117d150a0100020a010001c1b912b700340000"
		"2a30ffff00000015005bfd85000055bf6879f000000006070000000900000000000000000100000026"
		"5d7323",
		9, 0x15, 0x5bfd85},
	{"rc_send_only_5",
		"5254000001025254000001010800450000345ba240004011cb120a0100010a010002c1e412b700200000"
		"0430ffff0000001680df3b46ff23985058000000794818ee",
		5, 0x16, 0xdf3b46},
};

Bytes bytes_of(std::string_view hex)
{
	Bytes bytes;

	for (std::size_t i = 0; i < hex.size(); i += 2)
		bytes.push_back(static_cast<std::uint8_t>(
			std::strtoul(std::string(hex.substr(i, 2)).c_str(), nullptr, 16)));
	return bytes;
}

roce::View payload_of(const Bytes &frame)
{
	const auto layout = roce::parse(frame).value();

	return roce::View(frame).subspan(layout.payload, layout.payload_bytes);
}

class Frame : public ::testing::TestWithParam<Captured>
{
protected:
	Bytes frame = bytes_of(GetParam().hex);
};

} // namespace

TEST_P(Frame, parse__understands_it)
{
	const auto layout = roce::parse(frame);
	const bool back = GetParam().name == "uc_write_only_9";

	ASSERT_TRUE(layout);
	EXPECT_EQ(layout->payload_bytes, GetParam().payload_bytes);
	EXPECT_EQ(layout->qpn, GetParam().qpn);
	EXPECT_EQ(layout->psn, GetParam().psn);
	EXPECT_EQ(layout->source, back ? 0x0a010002u : 0x0a010001u);
	EXPECT_EQ(layout->destination, back ? 0x0a010001u : 0x0a010002u);
	EXPECT_EQ(layout->is_send_only(), !back);
	EXPECT_EQ(layout->is_write_only(), back);
	EXPECT_EQ(layout->address, back ? 0x55bf6879f000u : 0u);
	EXPECT_EQ(layout->rkey, back ? 0x607u : 0u);
}

TEST_P(Frame, parse__refuses_every_shorter_one)
{
	for (std::size_t bytes = 0; bytes < frame.size(); bytes++)
		EXPECT_FALSE(roce::parse(
			roce::View(Bytes(frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(bytes)))))
			<< bytes;
}

TEST_P(Frame, icrc__is_what_soft_roce_sent)
{
	EXPECT_EQ(roce::icrc(frame), roce::icrc_sent(frame));
}

TEST_P(Frame, icrc__leaves_out_what_routers_change)
{
	/* Type of service, time to live, IP checksum, UDP checksum, congestion bits. */
	for (const std::size_t offset : {15u, 22u, 24u, 25u, 40u, 41u, 46u}) {
		Bytes changed = frame;

		changed[offset] ^= 0x55;
		EXPECT_EQ(roce::icrc(changed), roce::icrc_sent(frame)) << offset;
	}
}

TEST_P(Frame, icrc__covers_everything_else)
{
	const std::string_view left_out("\x0f\x16\x18\x19\x28\x29\x2e", 7);

	for (std::size_t offset = 14; offset < frame.size() - 4; offset++) {
		Bytes changed = frame;

		changed[offset] ^= 1;
		if (left_out.find(static_cast<char>(offset)) == std::string_view::npos) {
			EXPECT_NE(roce::icrc(changed), roce::icrc_sent(frame)) << offset;
		}
	}
}

TEST_P(Frame, with_payload__of_its_own_changes_nothing)
{
	EXPECT_EQ(roce::with_payload(frame, payload_of(frame)), frame);
}

TEST_P(Frame, with_payload__of_any_length_is_whole)
{
	for (std::size_t bytes = 0; bytes < 40; bytes++) {
		const Bytes payload(bytes, 0xab);
		const Bytes changed = roce::with_payload(frame, payload);
		const auto layout = roce::parse(changed);

		ASSERT_TRUE(layout) << bytes;
		EXPECT_EQ(changed.size() % 4, frame.size() % 4);
		EXPECT_EQ(layout->payload_bytes, bytes);
		EXPECT_TRUE(std::ranges::equal(payload_of(changed), payload));
		EXPECT_EQ(roce::icrc(changed), roce::icrc_sent(changed)) << bytes;
	}
}

TEST_P(Frame, with_changes__of_nothing_changes_nothing)
{
	EXPECT_EQ(roce::with_changes(frame, {}), frame);
}

TEST_P(Frame, with_changes__changes_what_it_is_told_and_nothing_else)
{
	const bool write = GetParam().name == "uc_write_only_9";
	roce::Changes changes{.qpn = 0x123456, .psn = 0xabcdef};

	if (write) {
		changes.address = 0x0123456789abcdef;
		changes.rkey = 0xfedcba98;
	}

	const Bytes changed = roce::with_changes(frame, changes);
	const auto layout = roce::parse(changed).value();

	EXPECT_EQ(layout.qpn, 0x123456u);
	EXPECT_EQ(layout.psn, 0xabcdefu);
	EXPECT_EQ(layout.address, write ? 0x0123456789abcdefu : 0u);
	EXPECT_EQ(layout.rkey, write ? 0xfedcba98u : 0u);
	EXPECT_EQ(roce::icrc(changed), roce::icrc_sent(changed));
	changes.qpn = GetParam().qpn;
	changes.psn = GetParam().psn;
	if (write) {
		changes.address = 0x55bf6879f000;
		changes.rkey = 0x607;
	}
	EXPECT_EQ(roce::with_changes(changed, changes), frame);
}

TEST_P(Frame, with_changes__refuses_a_key_where_there_is_none)
{
	if (GetParam().name != "uc_write_only_9") {
		EXPECT_THROW(roce::with_changes(frame, {.rkey = 1}), std::invalid_argument);
		EXPECT_THROW(roce::with_changes(frame, {.address = 1}), std::invalid_argument);
	}
}

INSTANTIATE_TEST_SUITE_P(Captured, Frame, ::testing::ValuesIn(captures),
	[](const auto &info) { return std::string(info.param.name); });

/* Where build() is not free to choose (IP identification, UDP source port), the captured frame decides. */
TEST(Build, build__makes_the_frames_that_soft_roce_makes)
{
	for (const Captured &captured : captures) {
		Bytes expected = bytes_of(captured.hex);
		const auto layout = roce::parse(expected).value();
		roce::Headers headers;

		std::copy_n(expected.begin(), 6, headers.destination_mac.begin());
		std::copy_n(expected.begin() + 6, 6, headers.source_mac.begin());
		headers.source = layout.source;
		headers.destination = layout.destination;
		headers.source_port = static_cast<std::uint16_t>(expected[34] << 8 | expected[35]);
		headers.opcode = layout.opcode;
		headers.qpn = layout.qpn;
		headers.psn = layout.psn;
		headers.qkey = 0x11111111;
		headers.source_qpn = 0x14;
		headers.address = 0x55bf6879f000;
		headers.rkey = 0x607;
		expected[18] = expected[19] = 0;
		EXPECT_EQ(roce::build(headers, payload_of(expected)),
			roce::with_payload(expected, payload_of(expected)))
			<< captured.name;
	}
}

TEST(Opcode, opcode_of__knows_every_name)
{
	for (const std::string &name : roce::opcode_names())
		EXPECT_TRUE(roce::opcode_of(name)) << name;
	EXPECT_EQ(roce::opcode_of("rc-send-only"), 0x04);
	EXPECT_EQ(roce::opcode_of("uc-send-only"), 0x24);
	EXPECT_EQ(roce::opcode_of("uc-write-only-immediate"), 0x2b);
	EXPECT_EQ(roce::opcode_of("ud-send-only"), 0x64);
	EXPECT_FALSE(roce::opcode_of("ud-write-only"));
	EXPECT_FALSE(roce::opcode_of("uc-"));
	EXPECT_FALSE(roce::opcode_of(""));
}
