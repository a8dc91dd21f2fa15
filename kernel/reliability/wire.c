// SPDX-License-Identifier: GPL-2.0-only
/*
 * Believing what came over the wire: everything received passes through here before anybody looks
 * at it. The order of the checks matters: lengths before what they cover, the checksum before
 * anything that it protects, so that a damaged packet counts as damaged rather than as malformed.
 */
#include "wire.h"

/* The header and the first frame, which most packets have exactly one of. */
struct front {
	struct wire_header header;
	struct wire_frame frame;
};

static_assert(sizeof(struct front) == sizeof(struct wire_header) + sizeof(struct wire_frame),
	      "front");

/* What a type of frame may have; a type that is not in the table does not exist. */
static const struct {
	bool exists;
	bool payload;
	u8 flags;
} frame_rules[] = {
	[WIRE_FRAME_EAGER] = { true, true,
			       WIRE_MSG_UNTAGGED | WIRE_MSG_IMMEDIATE | WIRE_MSG_SYNC | WIRE_MSG_REMOTE },
	[WIRE_FRAME_RTS] = { true, false,
			     WIRE_MSG_UNTAGGED | WIRE_MSG_IMMEDIATE | WIRE_MSG_REMOTE | WIRE_MSG_LENGTH },
	[WIRE_FRAME_CTS] = { true, false, WIRE_CTS_KEY | (WIRE_CTS_NAMES - 1) },
	[WIRE_FRAME_DATA] = { true, true, 0 },
	[WIRE_FRAME_FIN] = { true, false, 0 },
	[WIRE_FRAME_ABORT] = { true, false, 0 },
	[WIRE_FRAME_MATCHED] = { true, false, 0 },
	[WIRE_FRAME_FLOW_OPEN] = { true, false, 0 },
	[WIRE_FRAME_FLOW_ACCEPT] = { true, false, 0 },
	[WIRE_FRAME_FLOW_REFUSE] = { true, false, 0 },
	[WIRE_FRAME_FLOW_CREDIT] = { true, false, 0 },
	[WIRE_FRAME_FLOW_CLOSE] = { true, false, 0 },
	[WIRE_FRAME_WINDOW_END] = { true, false, 0 },
	[WIRE_FRAME_ASK] = { true, false, 0 },
	[WIRE_FRAME_ATOMIC] = { true, true, 0xff },
};

/*
 * The checksum of a received packet's headers, taken as if .checksum were zero. The buffer must
 * stay as it is, so the front is copied; with at most one frame it is all there is, and one call
 * does (a call costs more than the bytes do, because the kernel's crc32c() goes through the crypto
 * layer).
 */
static u32 checksum(const void *packet, u32 header_len, u32 secret)
{
	struct front front;
	u32 front_len = header_len;
	u32 crc;

	if (header_len > sizeof(front))
		front_len = sizeof(front);
	if (front_len == sizeof(front))
		memcpy(&front, packet, sizeof(front));
	else
		memcpy(&front, packet, sizeof(front.header));
	front.header.checksum = 0;
	crc = rel_crc32c(secret, &front, front_len);
	if (header_len > front_len)
		crc = rel_crc32c(crc, (const u8 *)packet + front_len, header_len - front_len);
	return crc;
}

static bool atomic_is_sound(const struct wire_frame *frame, u32 payload_len)
{
	u64 length = le64_to_cpu(frame->ask.length);
	u32 size = frame->flags & WIRE_ATOMIC_64 ? 8 : 4;
	u8 op = frame->flags & WIRE_ATOMIC_OP;

	if (!op || op > WIRE_ATOMIC_MSWAP || (op == WIRE_ATOMIC_READ && !(frame->flags & WIRE_ATOMIC_FETCH)))
		return false;
	if (!length || length > WIRE_ATOMIC_BYTES || (length | le64_to_cpu(frame->ask.address)) & (size - 1))
		return false;
	return payload_len == wire_atomic_payload(frame->flags, length);
}

/* Are the bounds inside of a frame those of a message that can exist? */
static bool frame_is_sound(const struct wire_frame *frame, u32 payload_len)
{
	switch (frame->type) {
	case WIRE_FRAME_EAGER: {
		u32 length = le32_to_cpu(frame->eager.length);
		u32 offset = le32_to_cpu(frame->eager.offset);

		if (offset > length || payload_len > length - offset)
			return false;
		if (frame->flags & WIRE_MSG_REMOTE &&
		    (frame->flags & ~WIRE_MSG_ANSWER) != (WIRE_MSG_REMOTE | WIRE_MSG_SYNC))
			return false;
		return payload_len || !length;
	}
	case WIRE_FRAME_RTS:
		return !(frame->flags & WIRE_MSG_REMOTE) ||
		       (frame->flags & ~(WIRE_MSG_LENGTH | WIRE_MSG_ANSWER)) == WIRE_MSG_REMOTE;
	case WIRE_FRAME_ASK:
		return le64_to_cpu(frame->ask.length) <= WIRE_MSG_LENGTH_MAX;
	case WIRE_FRAME_ATOMIC:
		return atomic_is_sound(frame, payload_len);
	case WIRE_FRAME_CTS: {
		u64 offset = le64_to_cpu(frame->cts.offset);
		u32 length = le32_to_cpu(frame->cts.length);

		return length && frame->cts.unit && offset + length >= offset &&
		       (frame->flags & WIRE_CTS_KEY || !frame->flags);
	}
	case WIRE_FRAME_DATA: {
		u64 offset = le64_to_cpu(frame->data.offset);

		return payload_len && offset + payload_len >= offset;
	}
	default:
		return true;
	}
}

/* Checks @count frames, whose payloads must add up to @payload_len. */
static bool frames_are_sound(const struct wire_frame *frame, u32 count, u32 payload_len)
{
	u32 sum = 0;

	for (; count; count--, frame++) {
		u32 len = le16_to_cpu(frame->payload_len);

		if (frame->type >= ARRAY_SIZE(frame_rules) || !frame_rules[frame->type].exists)
			return false;
		if (frame->flags & ~frame_rules[frame->type].flags)
			return false;
		if (len && !frame_rules[frame->type].payload)
			return false;
		if (!frame_is_sound(frame, len))
			return false;
		sum += len;
	}
	return sum == payload_len;
}

enum wire_verdict wire_token(const void *packet, u32 len, u32 *token)
{
	const struct wire_header *header = packet;

	if (len < sizeof(*header))
		return WIRE_BAD_LENGTH;
	if (header->version != WIRE_VERSION)
		return WIRE_BAD_VERSION;
	*token = le32_to_cpu(header->token);
	return WIRE_OK;
}

enum wire_verdict wire_parse(const void *packet, u32 len, u32 token, u32 secret)
{
	const struct wire_header *header = packet;
	u32 header_len;
	u32 frames;

	if (len < sizeof(*header))
		return WIRE_BAD_LENGTH;
	if (header->version != WIRE_VERSION)
		return WIRE_BAD_VERSION;
	if (le32_to_cpu(header->token) != token)
		return WIRE_BAD_TOKEN;

	frames = le16_to_cpu(header->frames);
	header_len = le16_to_cpu(header->header_len);
	if (frames > WIRE_FRAMES_MAX || header_len > len ||
	    header_len != sizeof(*header) + frames * sizeof(struct wire_frame))
		return WIRE_BAD_LENGTH;
	if (le32_to_cpu(header->checksum) != checksum(packet, header_len, secret))
		return WIRE_BAD_CHECKSUM;

	switch (header->type) {
	case WIRE_PACKET_RELIABLE:
	case WIRE_PACKET_UNRELIABLE:
		/* One without would use up a number for nothing. */
		if (!frames)
			return WIRE_BAD_FRAME;
		break;
	case WIRE_PACKET_ACK:
	case WIRE_PACKET_PROBE:
		if (frames)
			return WIRE_BAD_FRAME;
		break;
	default:
		return WIRE_BAD_FRAME;
	}
	if (le16_to_cpu(header->flags) & ~(WIRE_ACK_REQUEST | WIRE_ANSWER))
		return WIRE_BAD_FRAME;
	if (!frames_are_sound(wire_frames(header), frames, len - header_len))
		return WIRE_BAD_FRAME;
	return WIRE_OK;
}

void wire_seal(struct wire_header *header, u32 secret)
{
	header->checksum = 0;
	header->checksum = cpu_to_le32(rel_crc32c(secret, header, le16_to_cpu(header->header_len)));
}

enum wire_verdict wire_hello_parse(const void *data, u32 len, struct wire_hello *hello)
{
	struct wire_hello copy;

	if (len < sizeof(copy))
		return WIRE_BAD_LENGTH;
	memcpy(&copy, data, sizeof(copy));	/* private data need not be aligned */
	if (le32_to_cpu(copy.magic) != WIRE_MAGIC)
		return WIRE_BAD_FRAME;
	if (copy.version != WIRE_VERSION) {
		*hello = copy;
		return WIRE_BAD_VERSION;
	}
	if (copy.step < WIRE_HELLO || copy.step > WIRE_REJECT)
		return WIRE_BAD_FRAME;
	if (!copy.mode || copy.mode > WIRE_MODES)
		return WIRE_BAD_FRAME;
	*hello = copy;
	return WIRE_OK;
}
