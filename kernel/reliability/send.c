// SPDX-License-Identifier: GPL-2.0-only
/*
 * The sender's window: packets get rising numbers, wait in the ring under number % REL_SPAN_MAX,
 * and leave it when they are acknowledged or given up. A number is used once: what is sent again is
 * sent under a new one. The old number stays behind as a hole, which the floor, told in every
 * packet, lets the receiver step over.
 *
 * When does a packet ask for an ACK at once? Not whenever the owner has nothing more to send: in a
 * ping-pong that would cost an ACK packet for each message, although the reply is about to carry
 * the ACK for free. The receiver's own policy (every few packets, else after a short delay) serves
 * most cases. Only where the sender knows more than the receiver, it asks:
 *  - half a window has been sent since the last request or sign of progress (the receiver may be
 *    counting to a larger number than that);
 *  - this packet closes the window, or ends a burst that was long enough to be worth an ACK, and no
 *    earlier request is on its way: at most one such request per round trip, or a small window
 *    would break up into ever smaller pieces with an ACK each;
 *  - the first and every fourth packet that is sent again, so that a second loss is found quickly.
 * A single packet that is not repeated, and answers one of the other side, asks for nothing, not even
 * if it closes the window: the next question will bring its ACK. (After a time-out the window is one
 * packet, and in a ping-pong, which needs no more, it stays that: each message would cost an ACK packet.)
 */
#include "engine.h"

#define REPEATS_PER_ASK	4
#define BARE_SPAN	(REL_BITS - 32)	/* the other side takes numbers up to REL_BITS after the oldest it awaits */
#define BURST_PKTS	16	/* so that asking at its end costs at most 1 ACK per 16 packets */

void rel_send_init(struct rel_conn *conn)
{
	struct rel_sender *sender = &conn->sender;

	sender->next = conn->config.number_start;
	sender->floor = conn->config.number_start;
	sender->unreliable_next = conn->config.number_start;
	sender->told = conn->config.number_start;
}

void rel_send_advance(struct rel_sender *sender)
{
	u32 by;

	if (!sender->in_flight) {
		sender->floor = sender->next;
		return;
	}
	by = rel_bits_first(sender->flight);
	sender->flight = rel_bits_down(sender->flight, by);
	sender->floor += by;
}

bool rel_can_send(struct rel_conn *conn, enum rel_kind kind, u64 now)
{
	if (kind == REL_UNRELIABLE) {
		if (rel_assert(conn->config.native))
			return false;
	} else {
		if (!conn->ring || !rel_send_fits(conn) || conn->loss.silent)
			return false;
		if (!rel_congestion_allows(conn) ||
		    (unlikely(conn->congestion.pace_ns) && rel_congestion_paced(conn, now))) {
			conn->congestion.limited = true;
			return false;
		}
		if (conn->config.native)
			return true;
	}
	if (likely(rel_credit_allows(conn)))
		return true;
	rel_credit_block(conn, now);
	return false;
}

/* Is the packet just accounted for the last one that may be sent for now? */
static bool window_closed(const struct rel_conn *conn)
{
	return !rel_congestion_allows(conn) || !rel_send_fits(conn) ||
	       (!conn->config.native && !rel_credit_allows(conn));
}

/* Shall the packet just accounted for ask for an ACK at once? (See above.) */
static bool shall_ask(struct rel_conn *conn, bool more)
{
	struct rel_sender *sender = &conn->sender;
	bool burst_over = !more && sender->burst >= BURST_PKTS;
	/* If more was sent since the last ACK, that was lost, and this one repeats it. */
	bool answers = !more && sender->answering && sender->since_ask == 1 && !sender->repeats;
	bool ask = false;

	sender->answering = false;
	if (!more)
		sender->burst = 0;
	if (unlikely(sender->repeats)) {
		ask = sender->repeated++ % REPEATS_PER_ASK == 0;
		if (!--sender->repeats)
			sender->repeated = 0;
	}
	if (answers)
		return false;
	if (sender->since_ask >= conn->congestion.window_half) {
		ask = true;
		conn->congestion.half_used = true;
	} else if (!sender->asking && (burst_over || window_closed(conn))) {
		ask = true;
	}
	return ask;
}

static u16 reliable_send(struct rel_conn *conn, void *cookie, bool more, u64 now)
{
	struct rel_sender *sender = &conn->sender;
	u32 number = sender->next;
	struct rel_sent *sent = rel_slot(conn, number);
	bool first = !sender->in_flight;

	if (first) {
		u64 pause_ns = now - sender->sent_ns;

		if (pause_ns > conn->rtt.rto_ns)
			conn->congestion.ops->pause(conn, pause_ns);
		/*
		 * The owner may drop what it was told to send again. If it has let this much time
		 * pass, it has, and the peer's silence since then means nothing.
		 */
		if (pause_ns > 2 * conn->rtt.rto_max_ns)
			sender->repeats = 0;
		rel_send_waits(conn, now);
	}
	if (unlikely(rel_bits_any(conn->loss.lost)))
		rel_bits_clear(&conn->loss.lost, number % REL_SPAN_MAX);

	sent->cookie = cookie;
	sent->sent_ns = now;
	sender->sent_ns = now;
	rel_bits_set(&sender->flight, number - sender->floor);
	sender->next++;
	sender->in_flight++;
	sender->since_ask++;
	sender->burst++;
	rel_loss_handle_send(conn, first, now);

	if (!shall_ask(conn, more))
		return 0;
	sender->since_ask = 0;
	sender->asking = true;
	sender->asked = number;
	return WIRE_ACK_REQUEST;
}

void rel_send(struct rel_conn *conn, enum rel_kind kind, void *cookie, bool more, u64 now,
	      struct wire_header *header)
{
	struct rel_sender *sender = &conn->sender;
	u32 floor_delta = 0;
	u16 flags = 0;
	u32 number;
	u8 type;

	if (kind == REL_UNRELIABLE) {
		type = WIRE_PACKET_UNRELIABLE;
		number = sender->unreliable_next++;
	} else {
		type = WIRE_PACKET_RELIABLE;
		number = sender->next;
		floor_delta = number - sender->floor;
		if (rel_assert(floor_delta < REL_SPAN_MAX)) {
			memset(header, 0, sizeof(*header));	/* which the peer drops */
			return;
		}
		flags = reliable_send(conn, cookie, more, now);
		sender->told = rel_seq_max(sender->told, number - floor_delta);
	}

	if (conn->receiver.pending || conn->receiver.ack_now)
		conn->stats.acks_piggybacked++;
	if (unlikely(conn->receiver.waited))
		rel_ack_note_reply(conn, now);
	header->version = WIRE_VERSION;
	header->type = type;
	header->number = cpu_to_le32(number);
	header->floor_delta = cpu_to_le16(floor_delta);
	header->flags = cpu_to_le16(flags);
	header->frames = 0;
	rel_ack_fill(conn, header, now);
}

u32 rel_next(const struct rel_conn *conn, enum rel_kind kind)
{
	return kind == REL_RELIABLE ? conn->sender.next : conn->sender.unreliable_next;
}

bool rel_can_send_bare(const struct rel_conn *conn)
{
	return conn->sender.next - conn->sender.told < BARE_SPAN;
}

u32 rel_send_bare(struct rel_conn *conn, enum rel_kind kind, void *cookie, bool more, u64 now, bool *ask)
{
	struct rel_sender *sender = &conn->sender;
	u32 number;

	*ask = false;
	if (kind == REL_UNRELIABLE)
		return sender->unreliable_next++;
	number = sender->next;
	if (!rel_assert(number - sender->floor < REL_SPAN_MAX))
		*ask = reliable_send(conn, cookie, more, now);
	return number;
}

u32 rel_window_256(const struct rel_conn *conn)
{
	return conn->congestion.window;
}

u32 rel_in_flight(const struct rel_conn *conn)
{
	return conn->sender.in_flight;
}
