// SPDX-License-Identifier: GPL-2.0-only
/* The ways in which a self-test damages ibrelk's packets; see mutation.hpp. */
#include "mutation.hpp"

#include <algorithm>
#include <cstring>

extern "C" {
#include "reliability/wire.h"
}

namespace mutation
{

namespace
{

/* A copy of the header that goes back into the packet when it is destroyed. */
class Header
{
public:
	explicit Header(Bytes &packet) : packet_(packet)
	{
		std::memcpy(&fields_, packet.data(), sizeof fields_);
	}

	~Header()
	{
		std::memcpy(packet_.data(), &fields_, sizeof fields_);
	}

	Header(const Header &) = delete;
	Header &operator=(const Header &) = delete;

	wire_header *operator->()
	{
		return &fields_;
	}

private:
	Bytes &packet_;
	wire_header fields_{};
};

wire_header header_of(std::span<const std::uint8_t> packet)
{
	wire_header header;

	std::memcpy(&header, packet.data(), sizeof header);
	return header;
}

std::size_t frames_of(std::span<const std::uint8_t> packet)
{
	return le16_to_cpu(header_of(packet).frames);
}

std::size_t header_len_of(std::span<const std::uint8_t> packet)
{
	return le16_to_cpu(header_of(packet).header_len);
}

std::uint8_t draw_bit(Random &random)
{
	return static_cast<std::uint8_t>(1u << random() % 8);
}

/* Changes one frame, chosen at random, of those that have the right type (0: any). */
template<typename Change>
bool change_frame(Bytes &packet, Random &random, int type, Change change)
{
	const std::size_t frames = frames_of(packet);
	const std::size_t first = frames ? random() % frames : 0;

	for (std::size_t i = 0; i < frames; i++) {
		std::uint8_t *place =
			packet.data() + sizeof(wire_header) + (first + i) % frames * sizeof(wire_frame);
		wire_frame frame;

		std::memcpy(&frame, place, sizeof frame);
		if (type && frame.type != type)
			continue;
		change(frame);
		std::memcpy(place, &frame, sizeof frame);
		return true;
	}
	return false;
}

bool verbatim(Bytes &, Random &)
{
	return true;
}

bool version(Bytes &packet, Random &)
{
	Header(packet)->version++;
	return true;
}

bool type_unknown(Bytes &packet, Random &)
{
	Header(packet)->type = 200;
	return true;
}

bool type_zero(Bytes &packet, Random &)
{
	Header(packet)->type = 0;
	return true;
}

/* A packet with frames that says it has none to have. The other way round is no damage if it is resealed,
 * but the forgery of a new packet, which would make the receiver take the next real one for a copy. */
bool type_ack(Bytes &packet, Random &)
{
	Header header(packet);

	if (!header->frames)
		return false;
	header->type = WIRE_PACKET_ACK;
	return true;
}

bool header_len_zero(Bytes &packet, Random &)
{
	Header(packet)->header_len = 0;
	return true;
}

bool header_len_huge(Bytes &packet, Random &)
{
	Header(packet)->header_len = cpu_to_le16(0xffff);
	return true;
}

bool header_len_plus_frame(Bytes &packet, Random &)
{
	Header header(packet);

	header->header_len = cpu_to_le16(le16_to_cpu(header->header_len) + sizeof(wire_frame));
	return true;
}

bool token(Bytes &packet, Random &random)
{
	Header header(packet);

	header->token = cpu_to_le32(le32_to_cpu(header->token) ^ 1u << random() % 32);
	return true;
}

bool number(Bytes &packet, Random &)
{
	Header header(packet);

	header->number = cpu_to_le32(le32_to_cpu(header->number) + 1);
	return true;
}

/* No acknowledgement, whose number means something else. */
bool number_later(Bytes &packet, std::uint32_t by)
{
	Header header(packet);

	if (!header->frames)
		return false;
	header->number = cpu_to_le32(le32_to_cpu(header->number) + by);
	return true;
}

/* Far outside any window. */
bool number_far(Bytes &packet, Random &)
{
	return number_later(packet, 0x40000000);
}

/* Outside any window, too, but who sends without credit could have come as far as that. */
bool number_ahead(Bytes &packet, Random &)
{
	return number_later(packet, 0x100000);
}

/* Acknowledges what was never sent. */
bool ack_far(Bytes &packet, Random &)
{
	Header header(packet);

	header->ack = cpu_to_le32(le32_to_cpu(header->ack) + 0x40000000);
	return true;
}

bool sack(Bytes &packet, Random &random)
{
	Header header(packet);

	header->sack[random() % 2] ^= cpu_to_le64(1ull << random() % 64);
	return true;
}

bool credit(Bytes &packet, Random &)
{
	Header header(packet);

	header->credit = cpu_to_le32(le32_to_cpu(header->credit) + 1000);
	return true;
}

bool floor_delta(Bytes &packet, Random &)
{
	Header header(packet);

	header->floor_delta = cpu_to_le16(le16_to_cpu(header->floor_delta) ^ 0x4000);
	return true;
}

bool flags(Bytes &packet, Random &)
{
	Header header(packet);

	header->flags = cpu_to_le16(le16_to_cpu(header->flags) ^ 0x8000);
	return true;
}

bool frames_zero(Bytes &packet, Random &)
{
	Header header(packet);

	if (!header->frames)
		return false;
	header->frames = 0;
	return true;
}

bool frames_more(Bytes &packet, Random &)
{
	Header header(packet);

	header->frames = cpu_to_le16(le16_to_cpu(header->frames) + 1);
	return true;
}

bool frames_huge(Bytes &packet, Random &)
{
	Header(packet)->frames = cpu_to_le16(0xffff);
	return true;
}

/* Both agree with each other, but not with the limit, nor with the packet's length. */
bool frames_huge_consistent(Bytes &packet, Random &)
{
	Header header(packet);

	header->frames = cpu_to_le16(WIRE_FRAMES_MAX + 1);
	header->header_len = cpu_to_le16(sizeof(wire_header) + (WIRE_FRAMES_MAX + 1) * sizeof(wire_frame));
	return true;
}

bool checksum(Bytes &packet, Random &random)
{
	Header header(packet);

	header->checksum = cpu_to_le32(le32_to_cpu(header->checksum) ^ 1u << random() % 32);
	return true;
}

bool frame_type(Bytes &packet, Random &random)
{
	return change_frame(packet, random, 0, [](wire_frame &frame) { frame.type ^= 0x40; });
}

bool frame_flags(Bytes &packet, Random &random)
{
	return change_frame(packet, random, 0, [](wire_frame &frame) { frame.flags ^= 0x80; });
}

bool frame_payload_less(Bytes &packet, Random &random)
{
	return change_frame(packet, random, 0, [](wire_frame &frame) {
		const std::uint16_t bytes = le16_to_cpu(frame.payload_len);

		frame.payload_len = cpu_to_le16(static_cast<std::uint16_t>(bytes ? bytes - 1 : 0xffff));
	});
}

bool frame_payload_huge(Bytes &packet, Random &random)
{
	return change_frame(
		packet, random, 0, [](wire_frame &frame) { frame.payload_len = cpu_to_le16(0xffff); });
}

bool frame_flow(Bytes &packet, Random &random)
{
	return change_frame(
		packet, random, 0, [](wire_frame &frame) { frame.flow ^= cpu_to_le32(0x00010001); });
}

/* The fragment reaches beyond its message's end. */
bool eager_offset(Bytes &packet, Random &random)
{
	return change_frame(packet, random, WIRE_FRAME_EAGER,
		[](wire_frame &frame) { frame.eager.offset = cpu_to_le32(0xfffffff0); });
}

bool eager_length(Bytes &packet, Random &random)
{
	return change_frame(packet, random, WIRE_FRAME_EAGER, [](wire_frame &frame) {
		const bool empty = frame.payload_len == 0;

		/* Less than the fragment itself, or more than an empty fragment may stand for. */
		frame.eager.length = cpu_to_le32(empty ? 1 : 0);
	});
}

/* Sum of offset and length wraps. */
bool data_offset(Bytes &packet, Random &random)
{
	return change_frame(packet, random, WIRE_FRAME_DATA,
		[](wire_frame &frame) { frame.data.offset = cpu_to_le64(~0ull); });
}

bool truncated_to_nothing(Bytes &packet, Random &)
{
	packet.clear();
	return true;
}

bool truncated_header(Bytes &packet, Random &random)
{
	packet.resize(1 + random() % (sizeof(wire_header) - 1));
	return true;
}

bool truncated_frames(Bytes &packet, Random &random)
{
	if (!frames_of(packet))
		return false;
	packet.resize(sizeof(wire_header) + random() % (header_len_of(packet) - sizeof(wire_header)));
	return true;
}

bool truncated_payload(Bytes &packet, Random &random)
{
	const std::size_t headers = header_len_of(packet);

	if (packet.size() <= headers)
		return false;
	packet.resize(headers + random() % (packet.size() - headers));
	return true;
}

/* By so little that it can still fit the receiver's buffer. */
bool extended_payload(Bytes &packet, Random &random)
{
	packet.resize(packet.size() + 1 + random() % 16, 0xee);
	return true;
}

/* Longer than any buffer that the receiver can have posted: its queue pair goes to error. The sender cuts it
 * to what the interface takes. */
bool oversized(Bytes &packet, Random &)
{
	packet.resize(65536, 0xee);
	return true;
}

bool payload_bit(Bytes &packet, Random &random)
{
	const std::size_t headers = header_len_of(packet);

	if (packet.size() <= headers)
		return false;
	packet[headers + random() % (packet.size() - headers)] ^= draw_bit(random);
	return true;
}

bool header_bit(Bytes &packet, Random &random)
{
	packet[random() % header_len_of(packet)] ^= draw_bit(random);
	return true;
}

bool noise(Bytes &packet, Random &random)
{
	std::ranges::generate(packet, [&] { return static_cast<std::uint8_t>(random()); });
	return true;
}

/* Right version and token, and nothing else. */
bool noise_after_token(Bytes &packet, Random &random)
{
	std::ranges::generate(
		std::span(packet).subspan(8), [&] { return static_cast<std::uint8_t>(random()); });
	return true;
}

constexpr Kind table[] = {
	{"verbatim", verbatim, false, false, "duplicate"},
	{"version", version, false, false, "drop_version"},
	{"type-unknown", type_unknown, false, false, "drop_checksum"},
	{"type-zero", type_zero, false, false, "drop_checksum"},
	{"type-ack", type_ack, false, false, "drop_checksum"},
	{"header-len-zero", header_len_zero, false, false, "drop_length"},
	{"header-len-huge", header_len_huge, false, false, "drop_length"},
	{"header-len-plus-frame", header_len_plus_frame, false, false, "drop_length"},
	{"token", token, false, false, "drop_token"},
	{"number", number, false, false, "drop_checksum"},
	{"ack-far", ack_far, false, false, "drop_checksum"},
	{"sack", sack, false, false, "drop_checksum"},
	{"credit", credit, false, false, "drop_checksum"},
	{"floor-delta", floor_delta, false, false, "drop_checksum"},
	{"flags", flags, false, false, "drop_checksum"},
	{"frames-zero", frames_zero, false, false, "drop_length"},
	{"frames-more", frames_more, false, false, "drop_length"},
	{"frames-huge", frames_huge, false, false, "drop_length"},
	{"checksum", checksum, false, false, "drop_checksum"},
	{"frame-type", frame_type, false, false, "drop_checksum"},
	{"frame-flags", frame_flags, false, false, "drop_checksum"},
	{"frame-payload-less", frame_payload_less, false, false, "drop_checksum"},
	{"frame-flow", frame_flow, false, false, "drop_checksum"},
	{"truncated-to-nothing", truncated_to_nothing, false, false, "drop_length"},
	{"truncated-header", truncated_header, false, false, "drop_length"},
	{"truncated-frames", truncated_frames, false, false, "drop_length"},
	{"truncated-payload", truncated_payload, false, false, "drop_malformed"},
	{"extended-payload", extended_payload, false, false, "drop_malformed"},
	{"payload-bit", payload_bit, false, false, "duplicate"},
	{"header-bit", header_bit, false, false, "any drop"},
	{"noise", noise, false, false, "any drop"},
	{"noise-after-token", noise_after_token, false, false, "drop_length or drop_checksum"},

	{"resealed-version", version, true, false, "drop_version"},
	{"resealed-type-unknown", type_unknown, true, false, "drop_malformed"},
	{"resealed-type-zero", type_zero, true, false, "drop_malformed"},
	{"resealed-type-ack", type_ack, true, false, "drop_malformed"},
	{"resealed-number-far", number_far, true, false, "drop_window"},
	{"resealed-number-ahead", number_ahead, true, false,
		"drop_window, or, without credit, the path is given up"},
	{"resealed-ack-far", ack_far, true, false, "drop_window, or the acknowledgement is ignored"},
	{"resealed-credit", credit, true, false, "drop_window, for what is sent by it"},
	{"resealed-frames-huge", frames_huge_consistent, true, false, "drop_length"},
	{"resealed-frame-type", frame_type, true, false, "drop_malformed"},
	{"resealed-frame-flags", frame_flags, true, false, "drop_malformed"},
	{"resealed-frame-payload-less", frame_payload_less, true, false, "drop_malformed"},
	{"resealed-frame-payload-huge", frame_payload_huge, true, false, "drop_malformed"},
	{"resealed-frame-flow", frame_flow, true, false, "duplicate"},
	{"resealed-eager-offset", eager_offset, true, false, "drop_malformed"},
	{"resealed-eager-length", eager_length, true, false, "drop_malformed"},
	{"resealed-data-offset", data_offset, true, false, "drop_malformed"},

	{"oversized", oversized, false, true, "the queue pair goes to error and is rebuilt"},
};

/*
 * CRC32C over the header and frames with the checksum member zero, as wire_seal() does it. The length
 * is given because a packet's own word for it may be part of the damage.
 */
std::uint32_t sum(Bytes packet, std::size_t length, std::uint32_t seed)
{
	Header(packet)->checksum = 0;
	return crc32c(seed, packet.data(), std::min(length, packet.size()));
}

void reseal(Bytes &packet, std::uint32_t seed)
{
	const std::uint32_t crc = sum(packet, header_len_of(packet), seed);

	Header(packet)->checksum = cpu_to_le32(crc);
}

} // namespace

std::span<const Kind> kinds()
{
	return table;
}

const Kind *find(std::string_view name)
{
	const auto *kind = std::ranges::find(table, name, &Kind::name);

	return kind == std::end(table) ? nullptr : kind;
}

bool is_packet(std::span<const std::uint8_t> packet)
{
	if (packet.size() < sizeof(wire_header))
		return false;

	const wire_header header = header_of(packet);

	return header.version == WIRE_VERSION && header.type >= WIRE_PACKET_RELIABLE &&
		header.type <= WIRE_PACKET_PROBE && frames_of(packet) <= WIRE_FRAMES_MAX &&
		header_len_of(packet) == sizeof(wire_header) + frames_of(packet) * sizeof(wire_frame) &&
		header_len_of(packet) <= packet.size();
}

std::uint32_t token_of(std::span<const std::uint8_t> packet)
{
	return le32_to_cpu(header_of(packet).token);
}

/*
 * Each step of the calculation can be taken back: the bit that was shifted out decides whether the
 * polynomial was added, and as the polynomial's highest bit is set, that bit can be read off the result.
 */
std::uint32_t seed_of(std::span<const std::uint8_t> packet)
{
	Bytes bytes(packet.begin(), packet.begin() + static_cast<std::ptrdiff_t>(header_len_of(packet)));
	std::uint32_t crc = le32_to_cpu(header_of(packet).checksum);

	Header(bytes)->checksum = 0;
	for (auto byte = bytes.rbegin(); byte != bytes.rend(); ++byte) {
		for (int bit = 0; bit < 8; bit++) {
			const std::uint32_t shifted_out = crc >> 31;

			crc = (crc ^ (shifted_out ? 0x82f63b78u : 0)) << 1 | shifted_out;
		}
		crc ^= *byte;
	}
	return crc;
}

std::optional<Bytes> mutate(const Kind &kind, std::span<const std::uint8_t> packet, Random &random)
{
	Bytes result(packet.begin(), packet.end());

	if (!kind.apply(result, random))
		return std::nullopt;
	if (kind.resealed)
		reseal(result, seed_of(packet));
	return result;
}

} // namespace mutation
