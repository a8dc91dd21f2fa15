// SPDX-License-Identifier: GPL-2.0-only
/*
 * Loss detection after RFC 8985 (RACK-TLP), which is simpler here than in TCP because a number is
 * sent only once and numbers rise in the order of sending: what RACK takes for lost is always the
 * oldest packet in flight.
 *
 *  - RACK: a packet is lost if one sent later was acknowledged, and a round trip plus a reordering
 *    window has passed since its own sending. The window starts at a quarter of the smallest round
 *    trip; it widens when ACKs come for packets that had been declared lost, and shrinks back after
 *    16 recoveries without. On a path that never reordered, three later arrivals need no window.
 *  - Tail loss probe: if no ACK comes for two round trips (more where they differ much, and the ACK delay) after the
 *    last packet, that packet is sent again, once, if the window allows it (RFC 8985 has it sent anyway, which costs
 *    more than it gains where many senders fill a queue). Its ACK lets RACK find the rest. For want of credit it only
 *    asks, and then it is the answer that tells what is lost.
 *  - Time-out (RFC 6298): after a probe, or if nothing else helped. It says that the peer is silent, not that
 *    anything is lost: so it asks, by a packet without payload, and nothing that would have to be
 *    acknowledged is sent until there is an answer. What was in flight by then and is not in the answer is
 *    lost. Doubled each time until there is an answer, and never armed together with the probe.
 *
 * An ACK for a number that was declared lost shows the declaration to have been spurious. But the
 * receiver's cumulative number also steps over lost ones when it is told the new floor. So each
 * lost number is remembered, in its slot of the ring, with the first number that told of the loss:
 * only an ACK that does not know of that one yet, or a SACK bit, is proof of arrival.
 */
#include "engine.h"

#define DUPTHRESH	3	/* RFC 8985, 6.2, step 4 */
#define STEPS_MAX	255
#define KEEP_RECOVERIES	16	/* RFC 8985, 6.2, step 4 */
#define BACKOFF_MAX	16
#define ANSWERS_MAX	16	/* in a row without news that put off, or shorten, a time-out */

void rel_loss_init(struct rel_conn *conn)
{
	struct rel_loss *loss = &conn->loss;
	u32 start = conn->config.number_start;

	loss->newest = start - 1;
	loss->round_end = start;
	loss->recovery_end = start;
	loss->overtaken = start;
	loss->window_steps = 1;
}

static void timers_disarm(struct rel_conn *conn)
{
	rel_timer_disarm(conn, REL_TIMER_REORDER);
	rel_timer_disarm(conn, REL_TIMER_TAIL);
	rel_timer_disarm(conn, REL_TIMER_RTO);
}

/* Does it tell congestion control something that it does not know? */
static bool loss_counts(const struct rel_conn *conn, u32 number, enum rel_cause cause)
{
	return (cause == REL_LOST_RACK || cause == REL_LOST_PROBE) &&
	       !rel_seq_before(number, conn->congestion.since);
}

void rel_loss_declare(struct rel_conn *conn, u32 number, enum rel_cause cause)
{
	struct rel_sender *sender = &conn->sender;
	struct rel_sent *sent = rel_slot(conn, number);
	void *cookie = sent->cookie;

	sent->told = sender->next;
	sent->cause = cause;
	rel_bits_set(&conn->loss.lost, number % REL_SPAN_MAX);
	rel_bits_clear(&sender->flight, number - sender->floor);
	sender->in_flight--;
	sender->repeats++;
	rel_send_advance(sender);
	if (!sender->in_flight) {
		timers_disarm(conn);
		conn->loss.silent = false;	/* the repeats ask */
	}
	if (loss_counts(conn, number, cause))
		conn->congestion.lost++;
	conn->stats.lost[cause]++;
	conn->ops->lost(conn, cookie, cause);
}

void rel_loss_declare_all(struct rel_conn *conn, enum rel_cause cause)
{
	while (conn->sender.in_flight)
		rel_loss_declare(conn, conn->sender.floor, cause);
}

void rel_loss_handle_send(struct rel_conn *conn, bool first, u64 now)
{
	struct rel_loss *loss = &conn->loss;
	const struct rel_rtt *rtt = &conn->rtt;
	u64 probe_at = now + rtt->probe_ns;
	u64 rto_at;

	if (first)
		loss->progress_ns = now;
	if (unlikely(loss->probed)) {
		if (!rel_timer_armed(conn, REL_TIMER_RTO))
			rel_timer_arm(conn, REL_TIMER_RTO, now + rel_rtt_backoff(conn, loss->backoff));
		return;
	}
	rto_at = loss->progress_ns + rtt->rto_ns;
	rel_timer_arm(conn, REL_TIMER_TAIL, min(probe_at, rto_at));
}

void rel_loss_handle_acked(struct rel_conn *conn, u64 now)
{
	struct rel_loss *loss = &conn->loss;
	const struct rel_rtt *rtt = &conn->rtt;
	u64 probe_at, soonest;

	loss->progress_ns = now;
	/* Marks that nothing moves for 2^31 numbers would lie ahead. */
	loss->round_end = rel_seq_max(loss->round_end, conn->sender.floor - REL_SPAN_MAX);
	loss->recovery_end = rel_seq_max(loss->recovery_end, conn->sender.floor);
	loss->overtaken = conn->sender.floor;
	rel_loss_revive(loss);
	timers_disarm(conn);
	rel_loss_handle_reorder(conn, now);
	if (!conn->sender.in_flight)
		return;
	/*
	 * Counted from the last packet, not from this ACK, so that a lost tail is repaired as soon
	 * as its ACK is overdue; but one is not overdue just because an earlier one took long.
	 */
	probe_at = conn->sender.sent_ns + rtt->probe_ns;
	soonest = now + rtt->srtt_ns / 4;
	rel_timer_arm(conn, REL_TIMER_TAIL, max(probe_at, soonest));
}

/* Takes note that a number declared lost has arrived after all. */
static void declared_wrongly(struct rel_conn *conn, u32 number, enum rel_cause cause)
{
	struct rel_loss *loss = &conn->loss;

	conn->stats.spurious++;
	if (conn->congestion.lost && loss_counts(conn, number, cause))
		conn->congestion.lost--;
	if (cause != REL_LOST_RACK)
		return;
	loss->reordered = true;
	loss->window_keep = KEEP_RECOVERIES;
	if (rel_seq_before(number, loss->round_end))
		return;
	loss->round_end = conn->sender.next;
	if (loss->window_steps < STEPS_MAX)
		loss->window_steps++;
}

bool rel_loss_handle_late(struct rel_conn *conn, u32 ack, const struct rel_bits *sack, u32 last)
{
	struct rel_bits lost = conn->loss.lost;
	u32 newest = conn->sender.next - 1;
	bool late = false;

	while (rel_bits_any(lost)) {
		u32 i = rel_bits_first(lost);
		u32 number = newest - (newest - i) % REL_SPAN_MAX;
		const struct rel_sent *sent = rel_slot(conn, number);
		u32 above = number - ack - 1;
		bool arrived;

		rel_bits_clear(&lost, i);
		if (!rel_seq_before(number, ack)) {
			arrived = above < REL_BITS && rel_bits_test(sack, above);
			if (!arrived)
				continue;
		} else {
			arrived = rel_seq_before(last, sent->told);
		}
		rel_bits_clear(&conn->loss.lost, i);
		if (arrived)
			declared_wrongly(conn, number, sent->cause);
		late |= arrived;
	}
	return late;
}

/* How much later than expected an ACK may come before its packet counts as lost. */
static u64 reorder_window_ns(const struct rel_conn *conn)
{
	const struct rel_loss *loss = &conn->loss;
	const struct rel_sender *sender = &conn->sender;
	u64 window_ns = (u64)loss->window_steps * (conn->rtt.min_ns / 4);

	if (!loss->reordered) {
		u32 count = loss->newest + 1 - sender->floor;
		struct rel_bits low = rel_bits_low(count);

		count -= hweight64(sender->flight.word[0] & low.word[0]) +
			 hweight64(sender->flight.word[1] & low.word[1]);
		if (count >= DUPTHRESH)
			return 0;
	}
	if (unlikely(!conn->rtt.srtt_ns))
		return loss->newest_rtt_ns / 4;		/* no clean sample yet */
	return min_t(u64, window_ns, conn->rtt.srtt_ns);
}

void rel_loss_handle_reorder(struct rel_conn *conn, u64 now)
{
	struct rel_loss *loss = &conn->loss;
	struct rel_sender *sender = &conn->sender;
	u64 patience_ns;

	rel_timer_disarm(conn, REL_TIMER_REORDER);
	if (likely(!sender->in_flight || !rel_seq_before(sender->floor, loss->newest)))
		return;
	patience_ns = loss->newest_rtt_ns + reorder_window_ns(conn);
	while (sender->in_flight && rel_seq_before(sender->floor, loss->newest)) {
		u64 lost_at = rel_slot(conn, sender->floor)->sent_ns + patience_ns;

		if (lost_at > now) {
			rel_timer_arm(conn, REL_TIMER_REORDER, lost_at);
			return;
		}
		if (!rel_seq_before(sender->floor, loss->recovery_end)) {
			loss->recovery_end = sender->next;
			if (loss->window_keep && !--loss->window_keep)
				loss->window_steps = 1;
		}
		rel_loss_declare(conn, sender->floor, REL_LOST_RACK);
	}
}

void rel_loss_handle_tail(struct rel_conn *conn, u64 now)
{
	struct rel_loss *loss = &conn->loss;
	struct rel_sender *sender = &conn->sender;
	u64 late_ns = now - conn->timer_ns[REL_TIMER_TAIL];
	bool credit;

	rel_timer_disarm(conn, REL_TIMER_TAIL);
	if (rel_assert(sender->in_flight))
		return;
	/*
	 * For so long this node has not come to look after its timers, and so hardly after what it has received: that
	 * nothing is known to be acknowledged says nothing yet. Once, or it would never find out.
	 */
	if (late_ns > conn->rtt.probe_ns / 4 && !loss->excused) {
		loss->excused = true;
		loss->progress_ns = now;
		rel_timer_arm(conn, REL_TIMER_TAIL, now + conn->rtt.probe_ns);
		return;
	}
	loss->probed = true;
	credit = conn->config.native || rel_credit_allows(conn);
	loss->overtaken = credit ? sender->floor : sender->next;
	if (credit && rel_send_fits(conn) && sender->in_flight <= conn->congestion.window_pkts)
		rel_loss_declare(conn, sender->floor + rel_bits_last(sender->flight),
				 REL_LOST_PROBE);
	else
		conn->credit.probe_due = true;	/* the packet could not be sent: just ask */
	if (sender->in_flight)
		rel_timer_arm(conn, REL_TIMER_RTO, now + conn->rtt.rto_ns);
}

void rel_loss_handle_rto(struct rel_conn *conn, u64 now)
{
	struct rel_loss *loss = &conn->loss;

	rel_timer_disarm(conn, REL_TIMER_RTO);
	if (rel_assert(conn->sender.in_flight))
		return;
	conn->stats.timeouts++;
	loss->silent = true;
	conn->congestion.ops->silent(conn);
	conn->credit.probe_due = true;
	if (loss->backoff < BACKOFF_MAX)
		loss->backoff++;
	rel_timer_arm(conn, REL_TIMER_RTO, now + rel_rtt_backoff(conn, loss->backoff));
}

/* The peer is there again, and what it does not know by now has not arrived. */
static void answer_to_rto(struct rel_conn *conn, u64 now)
{
	struct rel_loss *loss = &conn->loss;
	struct rel_sender *sender = &conn->sender;
	u64 age_ns = conn->rtt.srtt_ns ?: conn->rtt.rto_ns;

	loss->silent = false;
	loss->overtaken = sender->floor;	/* this is the answer to that PROBE, too */
	/*
	 * The peer is there, and how fast to go on is the window's business. But if nothing but probes ever
	 * arrives (packets too large for some link), to be patient is all that helps.
	 */
	if (loss->answers < ANSWERS_MAX) {
		loss->answers++;
		loss->backoff = 0;
	}
	/* Younger ones may still be under way; the timer that is armed stays so, and looks after them. */
	while (sender->in_flight && now - rel_slot(conn, sender->floor)->sent_ns >= age_ns)
		rel_loss_declare(conn, sender->floor, REL_LOST_TIMEOUT);
}

/*
 * The tail probe could only ask, for want of credit. So it is RACK's evidence (RFC 8985, 6.2, with the PROBE for a
 * later packet, and the largest reordering window) that what was sent so long before it has not arrived.
 */
static void answer_to_tail(struct rel_conn *conn, u64 now)
{
	struct rel_loss *loss = &conn->loss;
	struct rel_sender *sender = &conn->sender;
	u64 age_ns = 2 * (u64)conn->rtt.srtt_ns ?: conn->rtt.rto_ns;

	/* As above: if nothing but probes ever arrives, the time-out is patient. */
	if (now - rel_slot(conn, sender->floor)->sent_ns < age_ns || loss->answers >= ANSWERS_MAX)
		return;
	/* Once may be chance. Again, and a time-out would have come, and been less polite. */
	if (loss->answers++)
		conn->congestion.ops->silent(conn);
	while (rel_seq_before(sender->floor, loss->overtaken) &&
	       now - rel_slot(conn, sender->floor)->sent_ns >= age_ns)
		rel_loss_declare(conn, sender->floor, REL_LOST_PROBE);
	/* What is repeated has a tail probe again, unless the time-out looks after younger ones. */
	if (!sender->in_flight)
		loss->probed = false;
}

void rel_loss_handle_answer(struct rel_conn *conn, bool late, u64 now)
{
	/* If something was acknowledged, neither holds: RACK finds the rest, and a peer that is only slow is spared. */
	if (conn->loss.silent)
		answer_to_rto(conn, now);
	else if (!late && rel_seq_before(conn->sender.floor, conn->loss.overtaken))
		answer_to_tail(conn, now);
}
