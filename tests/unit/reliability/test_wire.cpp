#include <array>
#include <functional>

#include <gtest/gtest.h>

#include "link.hpp"

namespace
{

constexpr u32 token = 0x12345678;
constexpr u32 secret = 0x9abcdef0;

// A packet under construction; the buffer is exactly as long as the packet, so that ASan sees each byte
// beyond.
struct Draft {
	wire_header header{};
	std::vector<wire_frame> frames;
	u32 payload = 0;

	Draft()
	{
		header.version = WIRE_VERSION;
		header.type = WIRE_PACKET_RELIABLE;
		header.token = cpu_to_le32(token);
	}

	Draft &add(int type, u16 payload_len = 0)
	{
		wire_frame frame{};

		frame.type = static_cast<u8>(type);
		frame.payload_len = cpu_to_le16(payload_len);
		payload += payload_len;
		frames.push_back(frame);
		return *this;
	}

	Draft &eager(u32 offset, u32 length, u16 payload_len)
	{
		add(WIRE_FRAME_EAGER, payload_len);
		frames.back().eager.offset = cpu_to_le32(offset);
		frames.back().eager.length = cpu_to_le32(length);
		return *this;
	}

	Draft &cts(u64 offset, u32 length, u32 unit)
	{
		add(WIRE_FRAME_CTS);
		frames.back().cts.offset = cpu_to_le64(offset);
		frames.back().cts.length = cpu_to_le32(length);
		frames.back().cts.unit = cpu_to_le32(unit);
		return *this;
	}

	Draft &data(u64 offset, u16 payload_len)
	{
		add(WIRE_FRAME_DATA, payload_len);
		frames.back().data.offset = cpu_to_le64(offset);
		return *this;
	}

	// A frame of this type with nothing wrong but perhaps the type.
	Draft &sound(int type)
	{
		switch (type) {
		case WIRE_FRAME_EAGER: return eager(0, 9, 3);
		case WIRE_FRAME_CTS: return cts(0, 9, 9);
		case WIRE_FRAME_DATA: return data(0, 3);
		default: return add(type);
		}
	}

	[[nodiscard]] std::vector<u8> bytes() const
	{
		u32 header_len = sizeof(header) + frames.size() * sizeof(wire_frame);
		std::vector<u8> all(header_len + payload);
		wire_header first = header;

		first.header_len = cpu_to_le16(header_len);
		first.frames = cpu_to_le16(frames.size());
		memcpy(all.data(), &first, sizeof(first));
		if (!frames.empty())
			memcpy(all.data() + sizeof(first), frames.data(), frames.size() * sizeof(wire_frame));
		wire_seal(reinterpret_cast<wire_header *>(all.data()), secret);
		return all;
	}

	[[nodiscard]] wire_verdict parse() const
	{
		std::vector<u8> all = bytes();

		return wire_parse(all.data(), all.size(), token, secret);
	}
};

wire_verdict parse(const std::vector<u8> &bytes)
{
	return wire_parse(bytes.data(), bytes.size(), token, secret);
}

wire_hello hello_usual()
{
	wire_hello hello{};

	hello.magic = cpu_to_le32(WIRE_MAGIC);
	hello.version = WIRE_VERSION;
	hello.step = WIRE_WELCOME;
	hello.mode = 5;
	hello.token = cpu_to_le32(77);
	return hello;
}

} // namespace

TEST(port, crc32c__check_value)
{
	// The check value of CRC-32C (RFC 3720, B.4) is for a seed and a result that are inverted.
	EXPECT_EQ(~rel_crc32c(~0u, "123456789", 9), 0xe3069283u);
	EXPECT_EQ(rel_crc32c(rel_crc32c(5, "1234", 4), "56789", 5), rel_crc32c(5, "123456789", 9));
}

TEST(wire_token, reads_nothing_but_a_whole_header)
{
	std::vector<u8> bytes = Draft().eager(0, 5, 5).bytes();
	u32 found = 0;

	EXPECT_EQ(wire_token(bytes.data(), bytes.size(), &found), WIRE_OK);
	EXPECT_EQ(found, token);
	for (u32 len = 0; len < sizeof(wire_header); len++) {
		std::vector<u8> cut(bytes.begin(), bytes.begin() + len);

		EXPECT_EQ(wire_token(cut.data(), len, &found), WIRE_BAD_LENGTH);
	}
	bytes[0] = WIRE_VERSION + 1;
	EXPECT_EQ(wire_token(bytes.data(), bytes.size(), &found), WIRE_BAD_VERSION);
}

TEST(wire_parse, every_type_of_packet)
{
	EXPECT_EQ(Draft().eager(0, 100, 100).parse(), WIRE_OK);
	for (u8 type : {WIRE_PACKET_RELIABLE, WIRE_PACKET_UNRELIABLE, WIRE_PACKET_ACK, WIRE_PACKET_PROBE}) {
		const bool numbered = type == WIRE_PACKET_RELIABLE || type == WIRE_PACKET_UNRELIABLE;
		Draft draft;

		draft.header.type = type;
		EXPECT_EQ(draft.parse(), numbered ? WIRE_BAD_FRAME : WIRE_OK);
		draft.add(WIRE_FRAME_FIN);
		EXPECT_EQ(draft.parse(), numbered ? WIRE_OK : WIRE_BAD_FRAME);
	}
	for (u8 type : {0, 5, 255}) {
		Draft draft;

		draft.header.type = type;
		EXPECT_EQ(draft.parse(), WIRE_BAD_FRAME);
	}
}

TEST(wire_parse, leaves_the_packet_as_it_is)
{
	std::vector<u8> bytes = Draft().eager(0, 3, 3).bytes();
	const std::vector<u8> before(bytes.begin(), bytes.end());

	EXPECT_EQ(parse(bytes), WIRE_OK);
	EXPECT_EQ(bytes, before);
}

TEST(wire_parse, cut_off_anywhere)
{
	std::vector<u8> bytes = Draft().eager(0, 5, 5).cts(0, 1, 1).bytes();

	for (size_t len = 0; len < bytes.size(); len++)
		EXPECT_NE(parse({bytes.begin(), bytes.begin() + len}), WIRE_OK) << len;
	bytes.push_back(0);
	EXPECT_EQ(parse(bytes), WIRE_BAD_FRAME) << "more payload than the frames say";
}

TEST(wire_parse, any_flipped_bit_of_the_headers)
{
	for (int frames : {0, 1, 2, 16}) {
		Draft draft;

		if (!frames)
			draft.header.type = WIRE_PACKET_ACK;
		for (int i = 0; i < frames; i++)
			draft.eager(0, 5, 5);
		std::vector<u8> bytes = draft.bytes();
		size_t header_len = sizeof(wire_header) + frames * sizeof(wire_frame);

		EXPECT_EQ(parse(bytes), WIRE_OK);
		for (size_t bit = 0; bit < header_len * 8; bit++) {
			bytes[bit / 8] ^= 1 << bit % 8;
			EXPECT_NE(parse(bytes), WIRE_OK) << "bit " << bit << " with frames " << frames;
			bytes[bit / 8] ^= 1 << bit % 8;
		}
	}
}

TEST(wire_parse, order_of_the_checks)
{
	std::vector<u8> bytes = Draft().eager(0, 5, 5).bytes();
	auto *header = reinterpret_cast<wire_header *>(bytes.data());

	// Everything is wrong at once; each repair uncovers the next.
	header->version = 9;
	header->token = 0;
	header->frames = cpu_to_le16(17);
	header->type = 200;
	EXPECT_EQ(parse(bytes), WIRE_BAD_VERSION);
	header->version = WIRE_VERSION;
	EXPECT_EQ(parse(bytes), WIRE_BAD_TOKEN);
	header->token = cpu_to_le32(token);
	EXPECT_EQ(parse(bytes), WIRE_BAD_LENGTH);
	header->frames = cpu_to_le16(1);
	EXPECT_EQ(parse(bytes), WIRE_BAD_CHECKSUM);
	wire_seal(header, secret);
	EXPECT_EQ(parse(bytes), WIRE_BAD_FRAME);
	header->type = WIRE_PACKET_RELIABLE;
	wire_seal(header, secret);
	EXPECT_EQ(parse(bytes), WIRE_OK);
	EXPECT_EQ(wire_parse(bytes.data(), bytes.size(), token, secret + 1), WIRE_BAD_CHECKSUM);
}

TEST(wire_parse, header_length_and_frames_must_agree)
{
	std::vector<u8> bytes = Draft().eager(0, 5, 5).bytes();
	auto *header = reinterpret_cast<wire_header *>(bytes.data());

	for (u32 frames = 0; frames <= 0xffff; frames += frames < 40 ? 1 : 997) {
		for (int off : {-40, -1, 0, 1, 40}) {
			u32 header_len = sizeof(wire_header) + frames * sizeof(wire_frame) + off;

			if (frames == 1 && off == 0)
				continue;
			header->frames = cpu_to_le16(frames);
			header->header_len = cpu_to_le16(header_len);
			EXPECT_EQ(parse(bytes), off == 0 && frames == 0 ? WIRE_BAD_CHECKSUM : WIRE_BAD_LENGTH)
				<< frames << " " << off;
		}
	}
}

TEST(wire_parse, most_frames)
{
	Draft draft;

	for (int i = 0; i < WIRE_FRAMES_MAX; i++)
		draft.eager(0, 1, 1);
	EXPECT_EQ(draft.parse(), WIRE_OK);
	draft.eager(0, 1, 1);
	EXPECT_EQ(draft.parse(), WIRE_BAD_LENGTH);
}

TEST(wire_parse, header_flags)
{
	Draft draft;

	draft.add(WIRE_FRAME_FIN);
	draft.header.flags = cpu_to_le16(WIRE_ACK_REQUEST);
	EXPECT_EQ(draft.parse(), WIRE_OK);
	draft.header.flags = cpu_to_le16(WIRE_ANSWER);
	EXPECT_EQ(draft.parse(), WIRE_OK);
	for (int bit = 2; bit < 16; bit++) {
		draft.header.flags = cpu_to_le16(1 << bit);
		EXPECT_EQ(draft.parse(), WIRE_BAD_FRAME) << bit;
	}
}

TEST(wire_parse, frame_types_flags_and_payload)
{
	u8 message = WIRE_MSG_UNTAGGED | WIRE_MSG_IMMEDIATE;

	for (int type = 0; type < 256; type++) {
		bool exists = type >= WIRE_FRAME_EAGER && type <= WIRE_FRAME_ATOMIC;
		bool carries =
			type == WIRE_FRAME_EAGER || type == WIRE_FRAME_DATA || type == WIRE_FRAME_ATOMIC;

		// Its flags say what it has to carry: below.
		if (type == WIRE_FRAME_ATOMIC)
			continue;

		for (int flags = 0; flags < 256; flags++) {
			bool put = flags & WIRE_MSG_REMOTE &&
				(type == WIRE_FRAME_EAGER || type == WIRE_FRAME_RTS);
			// A put has neither a match space nor an immediate value; a short one asks for an
			// answer.
			bool bare = type == WIRE_FRAME_EAGER
				? (flags & ~WIRE_MSG_ANSWER) == (WIRE_MSG_REMOTE | WIRE_MSG_SYNC)
				: !(flags & WIRE_MSG_IMMEDIATE);
			u8 allowed = type == WIRE_FRAME_EAGER ? message | WIRE_MSG_SYNC
				: type == WIRE_FRAME_RTS      ? message | WIRE_MSG_LENGTH
				: type == WIRE_FRAME_CTS      ? WIRE_CTS_KEY | (WIRE_CTS_NAMES - 1)
							      : 0;
			if (put)
				allowed |= WIRE_MSG_REMOTE;
			bool nameless = type == WIRE_FRAME_CTS && flags && !(flags & WIRE_CTS_KEY);
			Draft draft = Draft().sound(type);

			draft.frames.back().flags = flags;
			EXPECT_EQ(draft.parse(),
				exists && !(flags & ~allowed) && !nameless && (!put || bare) ? WIRE_OK
											     : WIRE_BAD_FRAME)
				<< type << " " << flags;
		}
		if (exists && !carries) {
			Draft draft = Draft().sound(type);

			draft.frames.back().payload_len = cpu_to_le16(1);
			draft.payload = 1;
			EXPECT_EQ(draft.parse(), WIRE_BAD_FRAME) << type;
		}
	}
}

TEST(wire_parse, payload_must_be_what_the_frames_say)
{
	Draft draft = Draft().eager(0, 5, 5).eager(0, 7, 7);

	EXPECT_EQ(draft.parse(), WIRE_OK);
	draft.payload++;
	EXPECT_EQ(draft.parse(), WIRE_BAD_FRAME);
	draft.payload -= 2;
	EXPECT_EQ(draft.parse(), WIRE_BAD_FRAME);
}

TEST(wire_parse, eager_bounds)
{
	EXPECT_EQ(Draft().eager(0, 0, 0).parse(), WIRE_OK) << "a message of length 0";
	EXPECT_EQ(Draft().eager(0, 10, 0).parse(), WIRE_BAD_FRAME) << "an empty fragment";
	EXPECT_EQ(Draft().eager(4, 10, 6).parse(), WIRE_OK);
	EXPECT_EQ(Draft().eager(5, 10, 6).parse(), WIRE_BAD_FRAME);
	EXPECT_EQ(Draft().eager(11, 10, 1).parse(), WIRE_BAD_FRAME);
	EXPECT_EQ(Draft().eager(0, 0, 1).parse(), WIRE_BAD_FRAME);
	EXPECT_EQ(Draft().eager(1, 0, 0).parse(), WIRE_BAD_FRAME);
	EXPECT_EQ(Draft().eager(0xffffffff, 10, 11).parse(), WIRE_BAD_FRAME) << "overflow";
	EXPECT_EQ(Draft().eager(0xfffffffe, 0xffffffff, 1).parse(), WIRE_OK);
	EXPECT_EQ(Draft().eager(0xfffffffe, 0xffffffff, 2).parse(), WIRE_BAD_FRAME);
}

TEST(wire_rts, length_of_36_bits_beside_the_flags)
{
	for (u64 length :
		{0ull, 1ull, 0xffffffffull, 1ull << 32, 5ull << 32 | 7, 1ull << 35, WIRE_MSG_LENGTH_MAX}) {
		wire_frame frame{};

		frame.flags = WIRE_MSG_IMMEDIATE | 0xf0;
		wire_rts_set_length(&frame, length);
		EXPECT_EQ(wire_rts_length(&frame), length);
		EXPECT_EQ(frame.flags & ~WIRE_MSG_LENGTH, WIRE_MSG_IMMEDIATE);
		frame.flags |= WIRE_MSG_UNTAGGED;
		EXPECT_EQ(wire_rts_length(&frame), length);
	}
}

TEST(wire_parse, cts_bounds)
{
	EXPECT_EQ(Draft().cts(0, 1, 1).parse(), WIRE_OK);
	EXPECT_EQ(Draft().cts(0, 0, 1).parse(), WIRE_BAD_FRAME);
	EXPECT_EQ(Draft().cts(0, 1, 0).parse(), WIRE_BAD_FRAME) << "a fragment of nothing";
	EXPECT_EQ(Draft().cts(~0ull - 1, 1, 1).parse(), WIRE_OK);
	EXPECT_EQ(Draft().cts(~0ull, 1, 1).parse(), WIRE_BAD_FRAME) << "overflow";
}

TEST(wire_parse, ask_bounds)
{
	Draft draft = Draft().add(WIRE_FRAME_ASK);

	draft.frames.back().ask.length = cpu_to_le64(WIRE_MSG_LENGTH_MAX);
	EXPECT_EQ(draft.parse(), WIRE_OK);
	draft.frames.back().ask.length = cpu_to_le64(WIRE_MSG_LENGTH_MAX + 1);
	EXPECT_EQ(draft.parse(), WIRE_BAD_FRAME);
	draft.frames.back().ask.length = cpu_to_le64(~0ull);
	EXPECT_EQ(draft.parse(), WIRE_BAD_FRAME);
}

// What is said of a frame here is all that the parser believes; the fuzzer has a model of the same.
TEST(wire_parse, atomic_bounds)
{
	const auto parse = [](u8 flags, u64 address, u64 length, u32 payload) {
		Draft draft = Draft().add(WIRE_FRAME_ATOMIC, payload);

		draft.frames.back().flags = flags;
		draft.frames.back().ask.address = cpu_to_le64(address);
		draft.frames.back().ask.length = cpu_to_le64(length);
		return draft.parse();
	};
	constexpr u8 sum = 3, read = 11, write = 12, cswap = 13, mswap = 19, wide = WIRE_ATOMIC_64,
		     fetch = WIRE_ATOMIC_FETCH;

	for (u8 op = 0; op < 32; op++) {
		bool exists = op >= 1 && op <= mswap;
		u32 operands = op == read ? 0 : op < cswap ? 1 : 2;

		for (u8 type : {0x00, 0x20, 0x40, 0x60}) {
			EXPECT_EQ(parse(fetch | type | op, 8, 16, operands * 16),
				exists ? WIRE_OK : WIRE_BAD_FRAME)
				<< int(op);
			EXPECT_EQ(parse(type | op, 8, 16, operands * 16),
				exists && op != read ? WIRE_OK : WIRE_BAD_FRAME)
				<< int(op);
			EXPECT_EQ(parse(fetch | type | op, 8, 16, operands * 16 + 4), WIRE_BAD_FRAME);
			if (operands) {
				EXPECT_EQ(parse(fetch | type | op, 8, 16, operands * 16 - 4), WIRE_BAD_FRAME);
			}
		}
	}
	EXPECT_EQ(parse(sum, 0, 4, 4), WIRE_OK);
	EXPECT_EQ(parse(sum, 4, 64, 64), WIRE_OK);
	EXPECT_EQ(parse(mswap | wide, ~0ull - 7, 64, 128), WIRE_OK);
	EXPECT_EQ(parse(sum, 4, 68, 68), WIRE_BAD_FRAME);
	EXPECT_EQ(parse(sum, 4, 0, 0), WIRE_BAD_FRAME);
	EXPECT_EQ(parse(write | wide, 4, 8, 8), WIRE_BAD_FRAME);
	EXPECT_EQ(parse(write | wide, 8, 12, 12), WIRE_BAD_FRAME);
	EXPECT_EQ(parse(write, 6, 4, 4), WIRE_BAD_FRAME);
	EXPECT_EQ(parse(write, 4, 6, 6), WIRE_BAD_FRAME);
	EXPECT_EQ(parse(write, 4, (1ull << 32) + 4, 4), WIRE_BAD_FRAME);
}

TEST(wire_parse, matched_says_anything)
{
	EXPECT_EQ(offsetof(wire_frame, matched.status),
		offsetof(wire_frame, matched.sequence) + sizeof(__le32));
	for (u32 status : {0u, 13u, 14u, ~0u}) {
		Draft draft = Draft().add(WIRE_FRAME_MATCHED);

		draft.frames.back().matched.status = cpu_to_le32(status);
		EXPECT_EQ(draft.parse(), WIRE_OK) << status;
	}
}

TEST(wire_parse, data_bounds)
{
	EXPECT_EQ(Draft().data(0, 1).parse(), WIRE_OK);
	EXPECT_EQ(Draft().data(0, 0).parse(), WIRE_BAD_FRAME);
	EXPECT_EQ(Draft().data(~0ull - 1, 1).parse(), WIRE_OK);
	EXPECT_EQ(Draft().data(~0ull, 1).parse(), WIRE_BAD_FRAME) << "overflow";
}

TEST(wire_hello_parse, whole_and_padded)
{
	std::array<u8, 100> data{};
	wire_hello hello = hello_usual();
	wire_hello out{};

	memcpy(data.data() + 1, &hello, sizeof(hello)); // at an odd address
	EXPECT_EQ(wire_hello_parse(data.data() + 1, sizeof(hello), &out), WIRE_OK);
	EXPECT_EQ(memcmp(&out, &hello, sizeof(out)), 0);
	EXPECT_EQ(wire_hello_parse(data.data() + 1, 99, &out), WIRE_OK);
	EXPECT_EQ(wire_hello_parse(data.data() + 1, sizeof(hello) - 1, &out), WIRE_BAD_LENGTH);
	EXPECT_EQ(wire_hello_parse(data.data() + 1, 0, &out), WIRE_BAD_LENGTH);
}

TEST(wire_hello_parse, each_member_that_can_be_wrong)
{
	auto verdict = [](const std::function<void(wire_hello &)> &spoil, bool filled) {
		wire_hello hello = hello_usual();
		wire_hello out{};

		spoil(hello);
		wire_verdict verdict = wire_hello_parse(&hello, sizeof(hello), &out);

		EXPECT_EQ(out.token != 0, filled);
		return verdict;
	};

	EXPECT_EQ(verdict([](wire_hello &h) { h.magic++; }, false), WIRE_BAD_FRAME);
	EXPECT_EQ(verdict([](wire_hello &h) { h.version++; }, true), WIRE_BAD_VERSION);
	EXPECT_EQ(verdict([](wire_hello &h) { h.version = 0; }, true), WIRE_BAD_VERSION);
	EXPECT_EQ(verdict([](wire_hello &h) { h.step = 0; }, false), WIRE_BAD_FRAME);
	EXPECT_EQ(verdict([](wire_hello &h) { h.step = 4; }, false), WIRE_BAD_FRAME);
	EXPECT_EQ(verdict([](wire_hello &h) { h.step = 3; }, true), WIRE_OK);
	EXPECT_EQ(verdict([](wire_hello &h) { h.mode = 0; }, false), WIRE_BAD_FRAME);
	EXPECT_EQ(verdict([](wire_hello &h) { h.mode = WIRE_MODES; }, true), WIRE_OK);
	EXPECT_EQ(verdict([](wire_hello &h) { h.mode = WIRE_MODES + 1; }, false), WIRE_BAD_FRAME);
}
