// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tests of mutation.cpp against the module's own parser, wire.c: every kind of damage is refused by it for
 * the reason that the kind states, or, where it says that the packet is still well formed, is taken. So the
 * lab's attacks are known to reach the checks that they are meant for.
 */
#include "mutation.hpp"

#include <cstring>
#include <string>

#include <gtest/gtest.h>

extern "C" {
#include "reliability/wire.h"
}

namespace
{

using mutation::Bytes;

constexpr std::uint32_t token = 0x1badcafe;
constexpr std::uint32_t secret = 0x5ec2e7ed;

void append(Bytes &packet, const void *data, std::size_t bytes)
{
	const auto *from = static_cast<const std::uint8_t *>(data);

	packet.insert(packet.end(), from, from + bytes);
}

/* An intact packet with these frames, and the payload that they announce. */
Bytes packet_of(std::uint8_t type, const std::vector<wire_frame> &frames)
{
	Bytes packet;
	wire_header header{};
	std::size_t payload = 0;

	header.version = WIRE_VERSION;
	header.type = type;
	header.header_len =
		cpu_to_le16(static_cast<std::uint16_t>(sizeof header + frames.size() * sizeof(wire_frame)));
	header.token = cpu_to_le32(token);
	header.number = cpu_to_le32(1000);
	header.ack = cpu_to_le32(2000);
	header.credit = cpu_to_le32(1064);
	header.frames = cpu_to_le16(static_cast<std::uint16_t>(frames.size()));
	append(packet, &header, sizeof header);
	for (const wire_frame &frame : frames) {
		append(packet, &frame, sizeof frame);
		payload += le16_to_cpu(frame.payload_len);
	}
	wire_seal(reinterpret_cast<wire_header *>(packet.data()), secret);
	packet.resize(packet.size() + payload, 0x77);
	return packet;
}

wire_frame eager(std::uint16_t bytes)
{
	wire_frame frame{};

	frame.type = WIRE_FRAME_EAGER;
	frame.payload_len = cpu_to_le16(bytes);
	frame.flow = cpu_to_le32(3);
	frame.eager.length = cpu_to_le32(bytes);
	return frame;
}

wire_frame data(std::uint16_t bytes)
{
	wire_frame frame{};

	frame.type = WIRE_FRAME_DATA;
	frame.payload_len = cpu_to_le16(bytes);
	frame.data.offset = cpu_to_le64(65536);
	return frame;
}

wire_frame matched()
{
	wire_frame frame{};

	frame.type = WIRE_FRAME_MATCHED;
	return frame;
}

struct Sample {
	std::string name;
	Bytes packet;
};

std::vector<Sample> samples()
{
	return {
		{"eager", packet_of(WIRE_PACKET_RELIABLE, {eager(100)})},
		{"eager_empty", packet_of(WIRE_PACKET_RELIABLE, {eager(0)})},
		{"eager_unreliable", packet_of(WIRE_PACKET_UNRELIABLE, {eager(8)})},
		{"several", packet_of(WIRE_PACKET_RELIABLE, {eager(8), matched(), eager(0), data(16)})},
		{"data", packet_of(WIRE_PACKET_RELIABLE, {data(3000)})},
		{"control", packet_of(WIRE_PACKET_RELIABLE, {matched()})},
		{"most_frames",
			packet_of(WIRE_PACKET_RELIABLE, std::vector<wire_frame>(WIRE_FRAMES_MAX, eager(1)))},
		{"ack", packet_of(WIRE_PACKET_ACK, {})},
		{"probe", packet_of(WIRE_PACKET_PROBE, {})},
	};
}

bool is_expected(enum wire_verdict verdict, std::string_view expected)
{
	if (expected.starts_with("any drop"))
		return verdict != WIRE_OK;

	std::string_view name = "duplicate";

	switch (verdict) {
	case WIRE_OK: return !expected.starts_with("drop_") || expected.starts_with("drop_window");
	case WIRE_BAD_LENGTH: name = "drop_length"; break;
	case WIRE_BAD_VERSION: name = "drop_version"; break;
	case WIRE_BAD_TOKEN: name = "drop_token"; break;
	case WIRE_BAD_CHECKSUM: name = "drop_checksum"; break;
	case WIRE_BAD_FRAME: name = "drop_malformed"; break;
	}
	return expected.find(name) != std::string_view::npos;
}

} // namespace

TEST(Mutation, is_packet__knows_intact_ones)
{
	for (const Sample &sample : samples()) {
		EXPECT_TRUE(mutation::is_packet(sample.packet)) << sample.name;
		EXPECT_EQ(wire_parse(sample.packet.data(), static_cast<u32>(sample.packet.size()), token,
				  secret),
			WIRE_OK)
			<< sample.name;
	}
	EXPECT_FALSE(mutation::is_packet(Bytes{}));
	EXPECT_FALSE(mutation::is_packet(Bytes(200, 0)));
	EXPECT_FALSE(mutation::is_packet(Bytes(200, 1)));
}

TEST(Mutation, seed_of__is_the_secret)
{
	for (const Sample &sample : samples()) {
		EXPECT_EQ(mutation::seed_of(sample.packet), secret) << sample.name;
		EXPECT_EQ(mutation::token_of(sample.packet), token) << sample.name;
	}
}

TEST(Mutation, mutate__is_met_by_the_check_that_it_is_meant_for)
{
	mutation::Random random(1);

	for (const mutation::Kind &kind : mutation::kinds()) {
		int applied = 0;

		/* What soft-RoCE itself stumbles over never reaches the parser. */
		if (kind.on_request)
			continue;

		for (int round = 0; round < 50; round++) {
			for (const Sample &sample : samples()) {
				const auto packet = mutation::mutate(kind, sample.packet, random);

				if (!packet)
					continue;
				applied++;

				/* The parser is promised an aligned buffer, and must not look beyond its end.
				 */
				Bytes exact(packet->begin(), packet->end());
				const enum wire_verdict verdict = wire_parse(
					exact.data(), static_cast<u32>(exact.size()), token, secret);

				ASSERT_TRUE(is_expected(verdict, kind.expected))
					<< kind.name << " of " << sample.name << ": verdict " << verdict
					<< ", expected " << kind.expected;
			}
		}
		EXPECT_GT(applied, 0) << kind.name;
	}
}

TEST(Mutation, mutate__changes_the_packet_unless_it_is_verbatim)
{
	mutation::Random random(1);

	for (const mutation::Kind &kind : mutation::kinds()) {
		for (const Sample &sample : samples()) {
			const auto packet = mutation::mutate(kind, sample.packet, random);

			if (packet) {
				EXPECT_EQ(*packet == sample.packet, kind.name == "verbatim")
					<< kind.name << " of " << sample.name;
			}
		}
	}
}

TEST(Mutation, find__knows_every_kind)
{
	for (const mutation::Kind &kind : mutation::kinds())
		EXPECT_EQ(mutation::find(kind.name), &kind);
	EXPECT_EQ(mutation::find("nonsense"), nullptr);
}
