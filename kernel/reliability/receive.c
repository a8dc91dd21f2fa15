// SPDX-License-Identifier: GPL-2.0-only
/*
 * What has been received, and what a newly received number means. Reliable packets are taken in any
 * order: a cumulative number and a bitmap say which have come. Whatever lies before the cumulative
 * number was received, or the sender has said, by its floor, that it sends it under a new number.
 *
 * Nothing is remembered of a packet before its owner commits it, so that one that could not be kept
 * is simply not acknowledged. A header comes from a peer that knows the path's secret, but may be
 * an old copy, or made by a broken peer: its numbers are compared with what an honest peer could
 * send now, and all that follows takes the same short time for any number.
 */
#include "engine.h"

void rel_receive_init(struct rel_conn *conn, u64 now)
{
	struct rel_receiver *receiver = &conn->receiver;
	u32 start = conn->config.peer_number_start;

	receiver->cum = start;
	receiver->end = start;
	receiver->newest_ns = now;
	receiver->unreliable_end = start;
	receiver->unreliable_seen = rel_bits_low(REL_BITS);	/* none is older */
}

/* The cumulative number itself has come, too: step over it and all that follow it without a gap. */
static void cum_advance(struct rel_receiver *receiver)
{
	u32 by = 1;

	if (unlikely(rel_bits_any(receiver->seen))) {
		by += rel_bits_ones(receiver->seen);
		receiver->seen = rel_bits_down(receiver->seen, by);
	}
	receiver->cum += by;
}

/* The sender waits for nothing before @floor, which is after the cumulative number. */
static void cum_skip(struct rel_receiver *receiver, u32 floor)
{
	u32 by = floor - receiver->cum;
	bool floor_seen = by <= REL_BITS && rel_bits_test(&receiver->seen, by - 1);

	receiver->seen = rel_bits_down(receiver->seen, by);
	receiver->cum = floor;
	if (floor_seen)
		cum_advance(receiver);
}

static enum rel_verdict reliable_classify(struct rel_conn *conn, const struct wire_header *header)
{
	struct rel_receiver *receiver = &conn->receiver;
	u32 number = le32_to_cpu(header->number);
	u32 delta = le16_to_cpu(header->floor_delta);
	u32 above = number - receiver->cum - 1;
	u32 bound = conn->config.native ? receiver->end + REL_AHEAD_MAX : conn->credit.granted;

	if (unlikely(delta > REL_SPAN_MAX || !rel_seq_before(number, bound))) {
		conn->stats.outside_window++;
		return REL_DROP;
	}
	if (rel_seq_before(number, receiver->cum) ||
	    (above < REL_BITS && rel_bits_test(&receiver->seen, above))) {
		conn->stats.duplicates++;
		receiver->ack_now = true;	/* its ACK may have been lost */
		return REL_DUPLICATE;
	}
	return REL_NEW;
}

static void reliable_commit(struct rel_conn *conn, const struct wire_header *header, u64 now)
{
	struct rel_receiver *receiver = &conn->receiver;
	u32 number = le32_to_cpu(header->number);
	u32 floor = number - le16_to_cpu(header->floor_delta);
	bool at_once = le16_to_cpu(header->flags) & WIRE_ACK_REQUEST;

	if (rel_seq_after(floor, receiver->cum))
		cum_skip(receiver, floor);
	if (likely(number == receiver->cum)) {
		cum_advance(receiver);
	} else {
		u32 above = number - receiver->cum - 1;

		if (above >= REL_BITS || rel_bits_test(&receiver->seen, above))
			return;		/* committed before */
		rel_bits_set(&receiver->seen, above);
	}

	if (likely(!rel_seq_before(number, receiver->end))) {
		if (rel_seq_after(number, rel_seq_max(receiver->end, floor)))
			at_once = true;		/* a new gap */
		receiver->end = number + 1;
		receiver->newest_ns = now;
	} else {
		at_once = true;		/* late, not lost: tell before the sender repeats it */
	}
	if (!conn->config.native)
		conn->credit.base = rel_seq_max(conn->credit.base, number + 1);
	rel_ack_note(conn, at_once, now);
}

/*
 * Native data is not acknowledged, but UD may reorder it, and the wire may repeat it: of the last
 * 128 numbers it is known which have come, and older ones are taken for repeated.
 */
static enum rel_verdict unreliable_classify(struct rel_conn *conn, u32 number)
{
	const struct rel_receiver *receiver = &conn->receiver;
	u32 below = receiver->unreliable_end - 1 - number;

	if (unlikely(!conn->config.native || !rel_seq_before(number, conn->credit.granted))) {
		conn->stats.outside_window++;
		return REL_DROP;
	}
	if (!rel_seq_before(number, receiver->unreliable_end))
		return REL_NEW;
	if (below < REL_BITS && !rel_bits_test(&receiver->unreliable_seen, below))
		return REL_NEW;
	conn->stats.duplicates++;
	return REL_DUPLICATE;
}

static void unreliable_commit(struct rel_conn *conn, u32 number)
{
	struct rel_receiver *receiver = &conn->receiver;
	u32 below = receiver->unreliable_end - 1 - number;

	if (likely(!rel_seq_before(number, receiver->unreliable_end))) {
		u32 missing = number - receiver->unreliable_end;

		conn->stats.unreliable_missing += missing;
		receiver->unreliable_seen = rel_bits_up(receiver->unreliable_seen, missing + 1);
		rel_bits_set(&receiver->unreliable_seen, 0);
		receiver->unreliable_end = number + 1;
		conn->credit.base = rel_seq_max(conn->credit.base, number + 1);
	} else if (below < REL_BITS && !rel_bits_test(&receiver->unreliable_seen, below)) {
		rel_bits_set(&receiver->unreliable_seen, below);
		conn->stats.unreliable_missing--;	/* was counted when it was passed over */
	}
}

/*
 * The other side is there. One whose ACKs are about numbers that were never sent is not: whatever has confused it, it
 * will never acknowledge what was sent, and only a new life helps.
 */
static void rel_heard(struct rel_conn *conn, u64 now)
{
	conn->heard_ns = now;
	conn->owed_ns = 0;
	if (unlikely(conn->credit.asked)) {
		conn->credit.asked = false;
		if (!conn->credit.blocked)
			rel_timer_disarm(conn, REL_TIMER_PROBE);
	}
}

enum rel_verdict rel_handle_header(struct rel_conn *conn, const struct wire_header *header, u64 now)
{
	bool late;

	conn->estranged = !rel_ack_handle(conn, header, &late, now);
	if (likely(!conn->estranged)) {
		rel_heard(conn, now);
		/* Before there is credit, for which what it declares lost may wait. */
		if (unlikely(le16_to_cpu(header->flags) & WIRE_ANSWER))
			rel_loss_handle_answer(conn, late, now);
		rel_credit_handle(conn, le32_to_cpu(header->credit), now);
	}

	switch (header->type) {
	case WIRE_PACKET_RELIABLE:
		return reliable_classify(conn, header);
	case WIRE_PACKET_UNRELIABLE:
		return unreliable_classify(conn, le32_to_cpu(header->number));
	case WIRE_PACKET_PROBE:
		rel_credit_handle_probe(conn, le32_to_cpu(header->number));
		conn->receiver.ack_now = true;
		conn->receiver.probed = true;
		conn->stats.acks_received++;
		return REL_NOTHING;
	case WIRE_PACKET_ACK:
		if (le16_to_cpu(header->flags) & WIRE_ACK_REQUEST)
			conn->receiver.ack_now = true;
		conn->stats.acks_received++;
		return REL_NOTHING;
	default:
		return REL_DROP;	/* wire_parse() lets none through */
	}
}

u32 rel_received(const struct rel_conn *conn, enum rel_kind kind)
{
	return kind == REL_RELIABLE ? conn->receiver.end : conn->receiver.unreliable_end;
}

enum rel_verdict rel_handle_bare(struct rel_conn *conn, enum rel_kind kind, u32 low, u32 since, bool ask, u64 now,
				 struct wire_header *header)
{
	const u32 half = 1u << (REL_BARE_BITS - 1);
	u32 end = rel_received(conn, kind);
	u32 ahead = (low - end) & (2 * half - 1);
	u32 number = end + ahead - (ahead >= half ? 2 * half : 0);

	if (likely(!conn->estranged))
		rel_heard(conn, now);
	/*
	 * What was sent since then, and is still on its way, or comes again, is less than half a turn behind; what was
	 * sent before is none of those.
	 */
	if (end - since > half - 2 * REL_SPAN_MAX || rel_seq_before(number, since)) {
		conn->stats.outside_window++;
		return REL_DROP;
	}
	memset(header, 0, sizeof(*header));
	header->number = cpu_to_le32(number);
	header->flags = cpu_to_le16(ask ? WIRE_ACK_REQUEST : 0);
	if (kind == REL_UNRELIABLE) {
		header->type = WIRE_PACKET_UNRELIABLE;
		return unreliable_classify(conn, number);
	}
	header->type = WIRE_PACKET_RELIABLE;
	/*
	 * It says nothing about its sender's floor, so that stays where it is. (This fits: .end is at most
	 * REL_SPAN_MAX + 1 after .cum, and the number less than half a turn after .end.)
	 */
	if (rel_seq_after(number, conn->receiver.cum))
		header->floor_delta = cpu_to_le16(number - conn->receiver.cum);
	return reliable_classify(conn, header);
}

void rel_commit(struct rel_conn *conn, const struct wire_header *header, u64 now)
{
	if (header->type == WIRE_PACKET_RELIABLE)
		reliable_commit(conn, header, now);
	else if (header->type == WIRE_PACKET_UNRELIABLE)
		unreliable_commit(conn, le32_to_cpu(header->number));
}
