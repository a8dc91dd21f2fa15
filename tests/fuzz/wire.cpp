// The parsers of what comes over the wire, beside others that were written from Documentation/protocol.rst
// and only care about being right. The input is a packet, or the private data of a handshake; so that the
// fuzzer gets past the checksum, what it made up can be repaired first.

#include <cstring>
#include <memory>

#include "input.hpp"

extern "C" {
#include "wire.h"
}

namespace
{

constexpr u32 token = 0x70c3f00d;
constexpr u32 secret = 0x5ec4e700;

enum Repair : u8 {
	VERSION = 1,
	TOKEN = 2,
	LENGTH = 4,   // header_len follows from frames
	FRAMES = 8,   // ... and these from what is there, at most so many as the next bits say
	PAYLOAD = 16, // the last frame's payload is what is left
	CHECKSUM = 32,
	HELLO = 64, // no packet, but a handshake
	DAMAGE = 128,
};

u32 get(const u8 *packet, size_t at, size_t bytes)
{
	u32 value = 0;

	while (bytes--)
		value = value << 8 | packet[at + bytes];
	return value;
}

u64 get64(const u8 *packet, size_t at)
{
	return get(packet, at, 4) | static_cast<u64>(get(packet, at + 4, 4)) << 32;
}

void put(u8 *packet, size_t at, size_t bytes, u32 value)
{
	for (; bytes; bytes--, value >>= 8)
		packet[at++] = static_cast<u8>(value);
}

u32 checksum(const u8 *packet, size_t length)
{
	std::unique_ptr<u8[]> copy(new u8[length]);

	memcpy(copy.get(), packet, length);
	put(copy.get(), 44, 4, 0);
	return crc32c(secret, copy.get(), length);
}

bool adds_up(u64 a, u64 b)
{
	return a <= ~0ull - b;
}

bool frame_right(const u8 *frame, u32 payload)
{
	u8 flags = frame[1];

	switch (frame[0]) {
	case WIRE_FRAME_EAGER: {
		u64 offset = get(frame, 12, 4), length = get(frame, 16, 4);

		if ((flags > 7 && (flags & 0xfe) != 12) || offset + payload > length)
			return false;
		return payload > 0 || length == 0;
	}
	case WIRE_FRAME_RTS: return (!(flags & 0xc) || (flags & 0xe) == 8) && !payload;
	case WIRE_FRAME_CTS: {
		u32 length = get(frame, 12, 4);

		return (!flags || (flags & 0xe0) == 0x80) && !payload && length && get(frame, 24, 4) &&
			adds_up(get64(frame, 16), length);
	}
	case WIRE_FRAME_DATA: return !flags && payload && adds_up(get64(frame, 8), payload);
	case WIRE_FRAME_FIN:
	case WIRE_FRAME_ABORT:
	case WIRE_FRAME_MATCHED:
	case WIRE_FRAME_FLOW_OPEN:
	case WIRE_FRAME_FLOW_ACCEPT:
	case WIRE_FRAME_FLOW_REFUSE:
	case WIRE_FRAME_FLOW_CREDIT:
	case WIRE_FRAME_FLOW_CLOSE:
	case WIRE_FRAME_WINDOW_END: return !flags && !payload;
	case WIRE_FRAME_ASK: return !flags && !payload && get64(frame, 32) < 1ull << 36;
	case WIRE_FRAME_ATOMIC: {
		u64 length = get64(frame, 32), size = flags & 0x40 ? 8 : 4;
		u32 op = flags & 31, operands = op == 11 ? 0 : op < 13 ? 1 : 2;

		if (op < 1 || op > 19 || flags == 11 || flags == 0x2b || flags == 0x4b || flags == 0x6b)
			return false;
		return length >= 4 && length <= 64 && length % size == 0 && get64(frame, 16) % size == 0 &&
			payload == operands * length;
	}
	default: return false;
	}
}

wire_verdict expected(const u8 *packet, size_t length)
{
	if (length < 48)
		return WIRE_BAD_LENGTH;
	if (packet[0] != 1)
		return WIRE_BAD_VERSION;
	if (get(packet, 4, 4) != token)
		return WIRE_BAD_TOKEN;
	u32 frames = get(packet, 42, 2);
	size_t headers = 48 + 40ul * frames;

	if (frames > 16 || get(packet, 2, 2) != headers || headers > length)
		return WIRE_BAD_LENGTH;
	if (checksum(packet, headers) != get(packet, 44, 4))
		return WIRE_BAD_CHECKSUM;
	if (packet[1] < 1 || packet[1] > 4 || (packet[1] <= 2) != (frames > 0) || get(packet, 40, 2) > 3)
		return WIRE_BAD_FRAME;

	size_t payloads = 0;

	for (const u8 *frame = packet + 48; frames; frames--, frame += 40) {
		u32 payload = get(frame, 2, 2);

		if (!frame_right(frame, payload))
			return WIRE_BAD_FRAME;
		payloads += payload;
	}
	return payloads == length - headers ? WIRE_OK : WIRE_BAD_FRAME;
}

void repair(u8 *packet, size_t length, u8 repairs, u8 frames_most)
{
	if (length < 48)
		return;
	if (repairs & VERSION)
		packet[0] = 1;
	if (repairs & TOKEN)
		put(packet, 4, 4, token);
	if (repairs & FRAMES) {
		size_t fit = (length - 48) / 40;

		fit = fit < frames_most ? fit : frames_most;
		put(packet, 42, 2, static_cast<u32>(fit));
	}
	u32 frames = get(packet, 42, 2);
	size_t headers = 48 + 40ul * frames;

	if (repairs & LENGTH)
		put(packet, 2, 2, static_cast<u32>(headers));
	if (headers > length)
		return;
	if ((repairs & PAYLOAD) && frames)
		put(packet, headers - 38, 2, static_cast<u32>(length - headers));
	if (repairs & CHECKSUM)
		put(packet, 44, 4, checksum(packet, headers));
}

void check_packet(const u8 *packet, size_t length)
{
	u32 found = 0;
	wire_verdict verdict = wire_token(packet, static_cast<u32>(length), &found);
	wire_verdict right = expected(packet, length);

	if (length < 48)
		must(verdict == WIRE_BAD_LENGTH, "no token in what is too short");
	else if (packet[0] != 1)
		must(verdict == WIRE_BAD_VERSION, "no token in what is another version");
	else
		must(verdict == WIRE_OK && found == get(packet, 4, 4), "the token is found");
	must(wire_parse(packet, static_cast<u32>(length), token, secret) == right, "the verdict is right");
}

void check_hello(const u8 *data, size_t length)
{
	wire_hello hello;
	wire_verdict verdict;

	memset(&hello, 0xa5, sizeof(hello));
	verdict = wire_hello_parse(data, static_cast<u32>(length), &hello);
	if (length < 56) {
		must(verdict == WIRE_BAD_LENGTH, "a short handshake is too short");
		return;
	}
	bool known = verdict == WIRE_OK || verdict == WIRE_BAD_VERSION;

	must(!known || !memcmp(&hello, data, 56), "a handshake is handed on as it is");
	if (get(data, 0, 4) != WIRE_MAGIC)
		must(verdict == WIRE_BAD_FRAME, "a handshake is somebody else's");
	else if (data[4] != 1)
		must(verdict == WIRE_BAD_VERSION, "a handshake is of another version");
	else
		must((verdict == WIRE_OK) == (data[5] >= 1 && data[5] <= 3 && data[6] >= 1 && data[6] <= 7),
			"a handshake is possible");
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	Input input(data, size);
	u8 repairs = input.byte();
	u8 frames_most = input.byte();
	u16 damage = input.half();
	size_t length = input.left();
	const u8 *bytes = input.take(&length);
	// Of exactly this size, so that the sanitizer sees one byte too many.
	std::unique_ptr<u8[]> packet(new u8[length]);

	if (length)
		memcpy(packet.get(), bytes, length);
	if (repairs & HELLO) {
		if (length >= 5 && (repairs & CHECKSUM))
			put(packet.get(), 0, 4, WIRE_MAGIC);
		check_hello(packet.get(), length);
		return 0;
	}
	repair(packet.get(), length, repairs, frames_most);
	check_packet(packet.get(), length);
	if ((repairs & DAMAGE) &&
		wire_parse(packet.get(), static_cast<u32>(length), token, secret) == WIRE_OK) {
		// One to three bits in a row, anywhere in the headers, are always noticed.
		u32 at = damage % (8 * get(packet.get(), 2, 2) - 2);

		for (u32 i = at; i <= at + damage % 3; i++)
			packet[i / 8] ^= static_cast<u8>(1 << (i % 8));
		must(wire_parse(packet.get(), static_cast<u32>(length), token, secret) != WIRE_OK,
			"damage is noticed");
	}
	return 0;
}
