// SPDX-License-Identifier: GPL-2.0-only
/*
 * Acknowledgements: when to send one, what it says, and what a received one means.
 *
 * Every packet carries the whole state of the receiver (cumulative number, 128 bits of SACK, the
 * delay since the newest arrival, absolute credits), so a lost ACK harms nothing, and one that is
 * overtaken says nothing new. A packet of its own is spent only (after RFC 9000, 13.2, and RFC
 * 5681, 4.2)
 *  - at once, on a new gap, a late arrival, a duplicate, or a request: the sender is about to
 *    decide something on what it knows;
 *  - after ack_every_pkts packets, or a few packets while there is a gap;
 *  - after a delay otherwise. It is one smoothed round trip, bounded by the configuration: long
 *    enough for a reply to take the ACK along, in proportion to what the sender waits anyway.
 *    Where replies are seen to come later than the bound, but within a round trip, it is that: or
 *    each message of a ping-pong would cost an ACK packet.
 */
#include "engine.h"

#define GAP_PKTS	4		/* packets per ACK while there is a gap */
#define LATE_REPLIES	3		/* in a row, and the next one is waited for */
#define DELAY_MAX_US	0xffff		/* saturated .ack_delay: no sample can be taken from it */

/* Time since the newest arrival, as the header has it. */
static u16 ack_delay_us(const struct rel_receiver *receiver, u64 now)
{
	u64 delay_ns = now - receiver->newest_ns;

	if (delay_ns >= DELAY_MAX_US * 1000ull)
		return DELAY_MAX_US;
	return (u32)delay_ns / 1000;
}

void rel_ack_fill(struct rel_conn *conn, struct wire_header *header, u64 now)
{
	struct rel_receiver *receiver = &conn->receiver;
	struct rel_credit *credit = &conn->credit;

	header->ack = cpu_to_le32(receiver->cum);
	header->sack[0] = cpu_to_le64(receiver->seen.word[0]);
	header->sack[1] = cpu_to_le64(receiver->seen.word[1]);
	header->ack_delay = cpu_to_le16(ack_delay_us(receiver, now));
	credit->granted = rel_seq_max(credit->granted, credit->base + credit->pkts);
	header->credit = cpu_to_le32(credit->granted);
	if (unlikely(receiver->probed))
		header->flags |= cpu_to_le16(WIRE_ANSWER);

	receiver->pending = 0;
	receiver->ack_now = false;
	receiver->probed = false;
	rel_timer_disarm(conn, REL_TIMER_ACK);
}

void rel_ack_note(struct rel_conn *conn, bool at_once, u64 now)
{
	struct rel_receiver *receiver = &conn->receiver;
	u32 limit = conn->config.ack_every_pkts;

	if (rel_bits_any(receiver->seen))
		limit = min_t(u32, limit, GAP_PKTS);
	else if (conn->sender.in_flight)
		limit *= 2;	/* an ACK will soon let this side send, and take this one along */
	if (receiver->waited || at_once)
		receiver->late_replies = 0;
	receiver->waited = false;
	/* What leaves something of this side's unacknowledged is no question that waits for its answer. */
	conn->sender.answering = !conn->sender.in_flight;
	if (++receiver->pending >= limit || at_once) {
		receiver->ack_now = true;
	} else if (receiver->pending == 1) {
		bool longer = conn->sender.answering && receiver->late_replies >= LATE_REPLIES;

		receiver->pending_ns = (u32)now;
		rel_timer_arm(conn, REL_TIMER_ACK,
			      now + (longer ? rel_rtt_reply_delay(&conn->rtt) : conn->rtt.ack_delay_ns));
	}
}

void rel_ack_note_reply(struct rel_conn *conn, u64 now)
{
	struct rel_receiver *receiver = &conn->receiver;
	u32 delay_ns = rel_rtt_reply_delay(&conn->rtt);

	receiver->waited = false;
	/* The first packet came within the delay of an ACK before the newest. */
	if (now - receiver->newest_ns >= delay_ns || (u32)now - receiver->pending_ns >= delay_ns)
		receiver->late_replies = 0;
	else
		receiver->late_replies++;	/* up to LATE_REPLIES: rel_ack_handle_delay() */
}

void rel_ack_handle_delay(struct rel_conn *conn)
{
	struct rel_receiver *receiver = &conn->receiver;

	rel_timer_disarm(conn, REL_TIMER_ACK);
	receiver->ack_now = true;
	receiver->waited = conn->sender.answering;
	if (receiver->late_replies >= LATE_REPLIES)
		receiver->late_replies = 0;
}

bool rel_control_due(const struct rel_conn *conn)
{
	return conn->credit.probe_due || conn->receiver.ack_now || rel_credit_due(conn);
}

bool rel_poll_control(struct rel_conn *conn, u64 now, struct wire_header *header)
{
	u16 flags = 0;
	u8 type = WIRE_PACKET_ACK;

	if (conn->credit.probe_due) {
		type = WIRE_PACKET_PROBE;
		flags = WIRE_ACK_REQUEST;
		conn->stats.probes_sent++;
		rel_credit_probe_sent(conn, now);
	} else if (conn->receiver.ack_now) {
		conn->stats.acks_explicit++;
	} else if (rel_credit_due(conn)) {
		if (conn->receiver.pending)
			conn->stats.acks_explicit++;
		else
			conn->stats.acks_credit++;
	} else {
		return false;
	}
	header->version = WIRE_VERSION;
	header->type = type;
	header->number = cpu_to_le32(rel_credit_next(conn));
	header->floor_delta = 0;
	header->flags = cpu_to_le16(flags);
	header->frames = 0;
	rel_ack_fill(conn, header, now);
	return true;
}

/* Calls acked() for the numbers floor + i of each bit i. */
static u32 cookies_release(struct rel_conn *conn, struct rel_bits acked)
{
	u32 base = conn->sender.floor;
	u32 count = 0;
	int i;

	for (i = 0; i < 2; i++, base += 64) {
		u64 word = acked.word[i];

		for (; word; word &= word - 1, count++)
			conn->ops->acked(conn, rel_slot(conn, base + __ffs64(word))->cookie);
	}
	return count;
}

bool rel_ack_handle(struct rel_conn *conn, const struct wire_header *header, bool *late, u64 now)
{
	struct rel_sender *sender = &conn->sender;
	struct rel_loss *loss = &conn->loss;
	struct rel_bits sack = { { le64_to_cpu(header->sack[0]), le64_to_cpu(header->sack[1]) } };
	u32 ack = le32_to_cpu(header->ack);
	s32 ahead = rel_seq_diff(ack, sender->floor);
	u32 last = ack - 1;	/* the largest number that this ACK is about */
	struct rel_bits acked;
	u32 oldest, newest;
	bool sampled = false;
	u64 rtt_ns;

	*late = false;
	if (rel_bits_any(sack))
		last = ack + 1 + rel_bits_last(sack);
	if (unlikely(rel_seq_after(ack, sender->next) || !rel_seq_before(last, sender->next))) {
		conn->stats.nonsense++;
		return false;
	}
	sender->told = rel_seq_max(sender->told, ack);
	if (unlikely(rel_bits_any(loss->lost)))
		*late = rel_loss_handle_late(conn, ack, &sack, last);

	if (ahead <= 0 && !rel_bits_any(sack))
		return true;	/* nothing new, as in most packets of a one-way stream */

	/* From numbers relative to @ack to numbers relative to the floor, as .flight is. */
	acked = rel_bits_low(ahead > 0 ? ahead : 0);
	if (rel_bits_any(sack)) {
		sack = ahead >= 0 ? rel_bits_up(sack, ahead + 1) :
				    rel_bits_down(sack, sender->floor - ack - 1);
		acked.word[0] |= sack.word[0];
		acked.word[1] |= sack.word[1];
	}
	acked.word[0] &= sender->flight.word[0];
	acked.word[1] &= sender->flight.word[1];
	if (!rel_bits_any(acked))
		return true;

	oldest = sender->floor + rel_bits_first(acked);
	newest = sender->floor + rel_bits_last(acked);
	rtt_ns = now - rel_slot(conn, newest)->sent_ns;
	if (newest == last && !rel_seq_before(newest, conn->rtt.round_end)) {
		u32 delay_us = le16_to_cpu(header->ack_delay);

		/*
		 * A number is sent once, so the sample cannot be ambiguous (RFC 6298, 3). One for
		 * each round trip is what the estimator's gains are made for, and is cheaper.
		 */
		if (delay_us < DELAY_MAX_US && delay_us * 1000ull < rtt_ns) {
			rel_rtt_held(conn, delay_us * 1000ull);
			rel_rtt_sample(conn, rtt_ns - delay_us * 1000ull);
			conn->rtt.round_end = sender->next;
			sampled = true;
		}
	}
	if (rel_seq_before(oldest, loss->newest))
		loss->reordered = true;
	if (rel_seq_after(newest, loss->newest)) {
		loss->newest = newest;
		loss->newest_rtt_ns = rtt_ns;
	}

	sender->flight.word[0] &= ~acked.word[0];
	sender->flight.word[1] &= ~acked.word[1];
	sender->in_flight -= cookies_release(conn, acked);
	sender->since_ask = 0;
	if (!rel_seq_before(last, sender->asked))
		sender->asking = false;
	rel_send_advance(sender);
	rel_loss_handle_acked(conn, now);
	if (sampled)
		conn->congestion.ops->sample(conn, conn->rtt.latest_ns);
	return true;
}
