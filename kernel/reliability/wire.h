/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What travels between two nodes: the packet header, the frames behind it, and the handshake.
 * This is the only place that knows the layouts; wire.c is the only place that believes a received
 * byte, after it has checked it. Documentation/protocol.rst is the prose.
 *
 * A packet is one work request:
 *
 *	+---------------+---------+- - - -+---------+-----------+- - - -+-----------+
 *	| packet header | frame 1 |       | frame n | payload 1 |       | payload n |
 *	|     48 B      |  40 B   |       |  40 B   |           |       |           |
 *	+---------------+---------+- - - -+---------+-----------+- - - -+-----------+
 *	|<------- covered by the checksum ------->|
 *
 * All integers are little endian.
 */
#ifndef REL_WIRE_H
#define REL_WIRE_H

#include "port.h"

#define WIRE_VERSION		1
#define WIRE_FRAMES_MAX		16	/* frames in one packet */

/**
 * enum wire_packet_type - what a packet is
 * @WIRE_PACKET_RELIABLE: carries frames; its number is acknowledged
 * @WIRE_PACKET_UNRELIABLE: carries frames; native modes; numbered in a space of its own, for credits
 * @WIRE_PACKET_ACK: carries no frames and has no number; acknowledges, and conveys credits
 * @WIRE_PACKET_PROBE: as ACK, and asks for an ACK at once
 */
enum wire_packet_type {
	WIRE_PACKET_RELIABLE = 1,
	WIRE_PACKET_UNRELIABLE = 2,
	WIRE_PACKET_ACK = 3,
	WIRE_PACKET_PROBE = 4,
};

#define WIRE_ACK_REQUEST	0x0001	/* acknowledge this packet at once */
#define WIRE_ANSWER		0x0002	/* a PROBE has come since the last packet: what it knows is up to date */

/**
 * struct wire_header - first 48 bytes of each packet
 *
 *	 0      1      2             4                           8
 *	+------+------+-------------+---------------------------+
 *	|ver.  |type  | header len  | token                     |
 *	+------+------+-------------+---------------------------+  8
 *	| number                    | ack                       |
 *	+---------------------------+---------------------------+ 16
 *	| sack, 128 bits                                        |
 *	|                                                       |
 *	+---------------------------+-------------+-------------+ 32
 *	| credit                    | ack delay   | floor delta |
 *	+-------------+-------------+-------------+-------------+ 40
 *	| flags       | frames      | checksum                  |
 *	+-------------+-------------+---------------------------+ 48
 *
 * @version: WIRE_VERSION
 * @type: enum wire_packet_type
 * @header_len: bytes of this header and all frames, so the offset of the first payload
 * @token: the receiver's random token for this path life; anything else is dropped
 * @number: packet number. RELIABLE, UNRELIABLE: of this packet, in its space. ACK, PROBE: the next
 *	number of the space that credits govern (reliable in reliable modes, else unreliable)
 * @ack: every reliable number before this one is acknowledged or given up by the sender
 * @sack: bit i acknowledges @ack + 1 + i
 * @credit: data packets numbered before this one may be sent (the governed space, see @number)
 * @ack_delay: time since the arrival of the largest number acknowledged here, in units of 1 us,
 *	saturating; lets the sender take it out of its RTT sample
 * @floor_delta: RELIABLE: @number - @floor_delta is the lowest number that the sender still waits
 *	for; older ones were acknowledged, or sent again under a new number. Else 0
 * @flags: WIRE_ACK_REQUEST, WIRE_ANSWER
 * @frames: frames that follow: RELIABLE, UNRELIABLE: 1 to WIRE_FRAMES_MAX; ACK, PROBE: 0
 * @checksum: CRC32C of @header_len bytes, with this member zero, seeded with the path's secret
 */
struct wire_header {
	u8 version;
	u8 type;
	__le16 header_len;
	__le32 token;
	__le32 number;
	__le32 ack;
	__le64 sack[2];
	__le32 credit;
	__le16 ack_delay;
	__le16 floor_delta;
	__le16 flags;
	__le16 frames;
	__le32 checksum;
};

static_assert(sizeof(struct wire_header) == 48, "wire_header");

/**
 * enum wire_frame_type - what a frame is
 * @WIRE_FRAME_EAGER: a message, or a fragment of one
 * @WIRE_FRAME_RTS: request to send: a message's envelope, its data to be asked for
 * @WIRE_FRAME_CTS: clear to send: asks for one window of a message's data
 * @WIRE_FRAME_DATA: a fragment of a window
 * @WIRE_FRAME_FIN: the receiver has all of it, or wants no more of it
 * @WIRE_FRAME_ABORT: the sender gives a rendezvous up
 * @WIRE_FRAME_MATCHED: an eager message that asked for it was matched, or, of a put, is in its place
 * @WIRE_FRAME_FLOW_OPEN: asks an endpoint for a flow
 * @WIRE_FRAME_FLOW_ACCEPT: grants it
 * @WIRE_FRAME_FLOW_REFUSE: refuses it
 * @WIRE_FRAME_FLOW_CREDIT: raises a flow's limits of unexpected bytes and of RTS
 * @WIRE_FRAME_FLOW_CLOSE: one end of the flow is gone
 * @WIRE_FRAME_WINDOW_END: native modes: all of a window was sent; what is missing may be asked for again
 * @WIRE_FRAME_ASK: a get: asks for a part of a region
 * @WIRE_FRAME_ATOMIC: asks to compute in a part of a region
 */
enum wire_frame_type {
	WIRE_FRAME_EAGER = 1,
	WIRE_FRAME_RTS = 2,
	WIRE_FRAME_CTS = 3,
	WIRE_FRAME_DATA = 4,
	WIRE_FRAME_FIN = 5,
	WIRE_FRAME_ABORT = 6,
	WIRE_FRAME_MATCHED = 7,
	WIRE_FRAME_FLOW_OPEN = 8,
	WIRE_FRAME_FLOW_ACCEPT = 9,
	WIRE_FRAME_FLOW_REFUSE = 10,
	WIRE_FRAME_FLOW_CREDIT = 11,
	WIRE_FRAME_FLOW_CLOSE = 12,
	WIRE_FRAME_WINDOW_END = 13,
	WIRE_FRAME_ASK = 14,
	WIRE_FRAME_ATOMIC = 15,
};

#define WIRE_CTS_KEY		0x80	/* CTS: .key and .address are valid; the other bits are the window's name */
#define WIRE_CTS_NAMES		32	/* names of windows that a path may write to */

/*
 * The immediate value of an RDMA write: what it would have a header and a frame for.
 *
 *	31 asks for an ACK | 30..26 name of the window | 25..15 which unit of it | 14..0 of the packet's number
 */
#define WIRE_IMMEDIATE_ASK	BIT(31)
#define WIRE_IMMEDIATE_NAME	26
#define WIRE_IMMEDIATE_UNIT	15
#define WIRE_IMMEDIATE_UNITS	2048

#define WIRE_MSG_UNTAGGED	0x01	/* EAGER, RTS: untagged match space */
#define WIRE_MSG_IMMEDIATE	0x02	/* EAGER, RTS: .immediate is valid */
#define WIRE_MSG_SYNC		0x04	/* EAGER: answer with MATCHED */
#define WIRE_MSG_REMOTE		0x08	/* EAGER, RTS: a put: .tag is the address, .immediate the key of a region */
#define WIRE_MSG_ANSWER		0x01	/* with REMOTE: to an ASK, whose handle .immediate is */
#define WIRE_ATOMIC_OP		0x1f	/* ATOMIC: enum ibrelk_atomic_op */
#define WIRE_ATOMIC_TYPE	0x60	/* ATOMIC: enum ibrelk_atomic_type, less 1; the upper bit: 64 bits wide */
#define WIRE_ATOMIC_TYPE_SHIFT	5
#define WIRE_ATOMIC_64		0x40
#define WIRE_ATOMIC_FETCH	0x80	/* ATOMIC: answer with what was there; else with FIN */
#define WIRE_ATOMIC_BYTES	64	/* the most that one works on */
/* Of enum ibrelk_atomic_op: the one without operands, the first and the last of those that have two */
#define WIRE_ATOMIC_READ	11
#define WIRE_ATOMIC_CSWAP	13
#define WIRE_ATOMIC_MSWAP	19
#define WIRE_MSG_LENGTH		0xf0	/* RTS: the message's length, bits 35 to 32 */
#define WIRE_MSG_LENGTH_MAX	(BIT_ULL(36) - 1)

/**
 * struct wire_frame - 40 bytes; .flow is the handle that the frame's receiver gave out
 *
 * @type: enum wire_frame_type
 * @flags: WIRE_MSG_*, WIRE_CTS_*, WIRE_ATOMIC_*
 * @payload_len: bytes of payload; EAGER, DATA and ATOMIC (operands, then those to compare with) only, else 0
 * @flow: EAGER, RTS, ASK, ATOMIC, MATCHED, FLOW_ACCEPT, _REFUSE, _CREDIT, _CLOSE: the receiver's flow handle.
 *	FLOW_OPEN: the opener's. CTS, FIN: the sender's message handle (from its RTS, ASK or ATOMIC).
 *	DATA, WINDOW_END, ABORT: the receiver's transfer handle (from its CTS)
 * @eager: EAGER
 * @rts: RTS
 * @cts: CTS
 * @data: DATA, WINDOW_END
 * @fin: FIN
 * @abort: ABORT
 * @matched: MATCHED
 * @ask: ASK, ATOMIC
 * @open: FLOW_OPEN
 * @accept: FLOW_ACCEPT
 * @refuse: FLOW_REFUSE
 * @credit: FLOW_CREDIT
 * @close: FLOW_CLOSE
 *
 * @eager.sequence: number of the message in its flow
 * @eager.offset: of this fragment's payload in the message
 * @eager.length: of the whole message
 * @eager.spent: eager cost of the flow before this message, low 32 bits; lets native modes find credit
 *	that was lost with a message
 * @rts.spent: likewise
 * @rts.message: handle that CTS and FIN name
 * @rts.length: of the message, bits 31 to 0; for the others see wire_rts_length()
 * @cts.transfer: handle that DATA names
 * @cts.offset: where the window starts; windows are asked for in rising order, in native modes again if
 *	something of one was lost
 * @cts.length: bytes of the window
 * @cts.unit: payload of each fragment of the window but the last
 * @data.offset: DATA: of the payload in the message; WINDOW_END: of the window
 * @fin.status: 0, or an errno (positive) such as EMSGSIZE: the receiver took only a part
 * @abort.status: errno (positive)
 * @matched.status: of a put: 0, or an errno (positive) that says why it is not there
 * @ask.message: handle that FIN and the answer name
 * @ask.address: in the process of the receiver
 * @ask.key: of a region there
 * @ask.length: bytes, at most WIRE_MSG_LENGTH_MAX; ATOMIC: WIRE_ATOMIC_BYTES
 * @open.job: hash of the job key; both ends must agree
 */
struct wire_frame {
	u8 type;
	u8 flags;
	__le16 payload_len;
	__le32 flow;
	union {
		struct {
			__le32 sequence;
			__le32 offset;
			__le32 length;
			__le32 spent;
			__le64 tag;
			__le64 immediate;
		} eager;
		struct {
			__le32 sequence;
			__le32 message;
			__le32 length;
			__le32 spent;
			__le64 tag;
			__le64 immediate;
		} rts;
		struct {
			__le32 transfer;
			__le32 length;
			__le64 offset;
			__le32 unit;
			__le32 key;		/* with WIRE_CTS_KEY: the window may be written to ... */
			__le64 address;		/* ... from here on */
		} cts;
		struct {
			__le64 offset;
			__le64 reserved[3];
		} data;
		struct {
			__le32 status;
			__le32 reserved;
			__le64 length;
			__le64 reserved2[2];
		} fin;
		struct {
			__le32 status;
			__le32 reserved;
			__le64 reserved2[3];
		} abort;
		struct {
			__le32 sequence;
			__le32 status;
			__le64 reserved[3];
		} matched;
		struct {
			__le32 sequence;
			__le32 message;
			__le64 address;
			__le64 key;
			__le64 length;
		} ask;
		struct {
			__le32 src_endpoint;
			__le32 src_generation;
			__le32 dst_endpoint;
			__le32 dst_generation;
			__le64 job;
			__le64 reserved;
		} open;
		struct {
			__le32 handle;		/* the accepting side's handle of the flow */
			__le32 generation;	/* of the accepting endpoint */
			__le64 credit;		/* absolute, as in credit */
			__le32 announce;	/* likewise */
			__le32 reserved;
			__le64 reserved2;
		} accept;
		struct {
			__le32 reason;		/* errno (positive) */
			__le32 reserved;
			__le64 reserved2[3];
		} refuse;
		struct {
			__le64 limit;		/* eager cost that may be sent in all, see protocol.rst */
			__le32 announce;	/* RTS that may be sent in all */
			__le32 reserved;
			__le64 reserved2[2];
		} credit;
		struct {
			__le32 reason;		/* errno (positive) */
			__le32 handle;		/* from the receiver: what FLOW_ACCEPT said; else 0 */
			__le64 reserved2[3];
		} close;
	};
};

static_assert(sizeof(struct wire_frame) == 40, "wire_frame");

/** wire_atomic_payload() - what an ATOMIC with these flags, that works on @length bytes, has as payload, bytes */
static inline u32 wire_atomic_payload(u8 flags, u32 length)
{
	u8 op = flags & WIRE_ATOMIC_OP;

	return op == WIRE_ATOMIC_READ ? 0 : op < WIRE_ATOMIC_CSWAP ? length : 2 * length;
}

/** wire_rts_length() - length of an RTS's message, bytes */
static inline u64 wire_rts_length(const struct wire_frame *frame)
{
	return (u64)(frame->flags & WIRE_MSG_LENGTH) << 28 | le32_to_cpu(frame->rts.length);
}

/** wire_rts_set_length() - at most WIRE_MSG_LENGTH_MAX bytes; all else of .flags stays */
static inline void wire_rts_set_length(struct wire_frame *frame, u64 length)
{
	frame->flags = (frame->flags & ~WIRE_MSG_LENGTH) | (length >> 28 & WIRE_MSG_LENGTH);
	frame->rts.length = cpu_to_le32((u32)length);
}

#define WIRE_MAGIC		0x69627231u	/* "ibr1" */
#define WIRE_MODES		7		/* enum ibrelk_mode: 1 to this; a default never travels */

/** enum wire_hello_step - HELLO is the request, WELCOME the reply */
enum wire_hello_step {
	WIRE_HELLO = 1,
	WIRE_WELCOME = 2,
	WIRE_REJECT = 3,
};

/** enum wire_reject_reason - why a HELLO was turned down */
enum wire_reject_reason {
	WIRE_REJECT_VERSION = 1,	/* other protocol version (.version says which) */
	WIRE_REJECT_MODE = 2,		/* mode not possible or not allowed here */
	WIRE_REJECT_SIMULTANEOUS = 3,	/* both asked: yours gives way to mine */
	WIRE_REJECT_BUSY = 4,		/* no memory, too many already, or shutting down */
	WIRE_REJECT_MALFORMED = 5,
	WIRE_REJECT_UNKNOWN = 6,	/* lane: not of a life that is up here */
};

/**
 * struct wire_hello - private data of the connection manager's messages, 56 bytes (all that fits)
 *
 * @magic: WIRE_MAGIC
 * @version: WIRE_VERSION of the sender
 * @step: enum wire_hello_step
 * @mode: enum ibrelk_mode that the path shall have
 * @reason: REJECT: enum wire_reject_reason
 * @instance: the sender's module life
 * @nonce: random, of this attempt
 * @echo: WELCOME, REJECT: the HELLO's nonce
 * @token: packets to the sender on this path shall carry it
 * @qpn: UD: the sender's queue pair number, else 0
 * @credits: data packets that the sender takes before it grants more
 * @packet_max: largest packet that the sender can take, bytes
 * @reserved: 0
 */
struct wire_hello {
	__le32 magic;
	u8 version;
	u8 step;
	u8 mode;
	u8 reason;
	u8 instance[16];
	__le64 nonce;
	__le64 echo;
	__le32 token;
	__le32 qpn;
	__le16 credits;
	__le16 packet_max;
	__le32 reserved;
};

static_assert(sizeof(struct wire_hello) == 56, "wire_hello");

/**
 * struct wire_caller - what precedes a HELLO on InfiniBand
 *
 * For IP the connection manager puts a header of its own there, which says who calls. Without, it writes the version of
 * that into the first byte nevertheless, and the one called looks for it, and knows nobody's address who asks for
 * datagrams.
 *
 * @zero: 0 (no version, and of no version of IP)
 * @gid: the caller's GID
 * @reserved: 0
 */
struct wire_caller {
	u8 zero[4];
	u8 gid[16];
	u8 reserved[16];
};

static_assert(sizeof(struct wire_caller) == 36, "wire_caller");
static_assert(sizeof(struct wire_caller) + sizeof(struct wire_hello) <= 92, "more than a REQ carries");

/** enum wire_verdict - what wire_parse() made of a packet; everything but WIRE_OK is dropped */
enum wire_verdict {
	WIRE_OK = 0,
	WIRE_BAD_LENGTH,
	WIRE_BAD_VERSION,
	WIRE_BAD_TOKEN,
	WIRE_BAD_CHECKSUM,
	WIRE_BAD_FRAME,
};

#define WIRE_VERDICTS		(WIRE_BAD_FRAME + 1)

/**
 * wire_token() - the token of a received packet, for finding its path
 * @packet: received bytes
 * @len: how many
 * @token: set on success
 *
 * Return: WIRE_OK, WIRE_BAD_LENGTH or WIRE_BAD_VERSION. Nothing else has been checked yet.
 */
enum wire_verdict wire_token(const void *packet, u32 len, u32 *token);

/**
 * wire_parse() - check all of a received packet's headers
 * @packet: received bytes, 8-byte aligned
 * @len: how many
 * @token: the path's token
 * @secret: the path's checksum seed
 *
 * Checks, in this order: length, version, token, header length against @frames, checksum, type, that
 * types with frames have some, and others none, the header's flags, each frame's type, flags, payload lengths
 * (their sum must be exactly the rest of the packet; none where the type has none) and the bounds
 * inside each frame (eager, rts: a put has no other flags, but for SYNC, which an eager one needs, and ANSWER; eager:
 * offset + payload <= length, no empty fragment but for a message of length 0; data: no empty payload and no
 * overflow of offset + payload; cts: length and unit not 0 and no overflow; ask: length; atomic: operation, length and
 * alignment, and exactly the payload that they have).
 *
 * Return: WIRE_OK or the first thing found wrong. Context: any.
 */
enum wire_verdict wire_parse(const void *packet, u32 len, u32 token, u32 secret);

/**
 * wire_seal() - fill the checksum in before a packet is posted
 * @header: header with its frames behind it, .header_len filled in
 * @secret: the path's checksum seed
 */
void wire_seal(struct wire_header *header, u32 secret);

/** wire_frames() - the frames behind a checked header */
static inline const struct wire_frame *wire_frames(const struct wire_header *header)
{
	return (const struct wire_frame *)(header + 1);
}

/**
 * wire_hello_parse() - check a handshake message
 * @data: received private data
 * @len: how many bytes (the connection manager may have padded it)
 * @hello: filled on success, and on WIRE_BAD_VERSION as far as it can be understood
 *
 * Return: WIRE_OK, WIRE_BAD_LENGTH, WIRE_BAD_VERSION, or WIRE_BAD_FRAME (magic, step, or mode impossible).
 */
enum wire_verdict wire_hello_parse(const void *data, u32 len, struct wire_hello *hello);

#endif /* REL_WIRE_H */
