/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the engine's files offer one another; owners include rel.h only. Grouped by the file that
 * defines it.
 */
#ifndef REL_ENGINE_H
#define REL_ENGINE_H

#include "rel.h"
#include "seq.h"

/* ---- send.c ---- */

/** rel_slot() - where the ring keeps a number */
static inline struct rel_sent *rel_slot(struct rel_conn *conn, u32 number)
{
	return &conn->ring[number % REL_SPAN_MAX];
}

void rel_send_init(struct rel_conn *conn);

/** rel_send_advance() - move the floor to the oldest number in flight, after some have left */
void rel_send_advance(struct rel_sender *sender);

/** rel_send_fits() - is there room in the span of numbers? */
static inline bool rel_send_fits(const struct rel_conn *conn)
{
	return conn->sender.next - conn->sender.floor < REL_SPAN_MAX;
}

/**
 * rel_send_waits() - it begins to wait for the peer, unless it does for what was lost, and nothing was heard since
 * @conn: the connection
 * @now: time, ns
 *
 * (What is lost is counted in packets. Its owner may need fewer to send it again, so that it seems to wait for ever.)
 */
static inline void rel_send_waits(struct rel_conn *conn, u64 now)
{
	if (!conn->sender.repeats || conn->heard_ns > conn->sender.sent_ns)
		conn->sender.waiting_ns = now;
}

/* ---- receive.c ---- */

/**
 * REL_AHEAD_MAX - so far after the largest number that came a peer can be
 *
 * Where no credit bounds it (control packets of native modes) an honest one has sent some hundred since then, until it
 * gives this side up; and if only its PROBEs ever arrive (the others being too large for some link), a window for each
 * time-out, of which this is days. Where one does, somebody may have forged it.
 */
#define REL_AHEAD_MAX	(1u << 24)

void rel_receive_init(struct rel_conn *conn, u64 now);

/* ---- ack.c ---- */

/** rel_ack_fill() - put ACK and credit into a header; what was due is done by that */
void rel_ack_fill(struct rel_conn *conn, struct wire_header *header, u64 now);

/** rel_ack_note() - a packet was received: acknowledge it, at once or when the policy says so */
void rel_ack_note(struct rel_conn *conn, bool at_once, u64 now);
/** rel_ack_note_reply() - a header goes with frames, after an ACK had waited for that in vain */
void rel_ack_note_reply(struct rel_conn *conn, u64 now);
/** rel_ack_handle_delay() - an ACK has waited long enough */
void rel_ack_handle_delay(struct rel_conn *conn);

/**
 * rel_ack_handle() - take in what a received header acknowledges
 * @conn: connection
 * @header: valid
 * @late: set to: some of that was declared lost
 * @now: ns
 *
 * Return: false if it acknowledges what was never sent; then nothing has been taken in
 */
bool rel_ack_handle(struct rel_conn *conn, const struct wire_header *header, bool *late, u64 now);

/* ---- loss.c ---- */

void rel_loss_init(struct rel_conn *conn);

/** rel_loss_declare() - a number in flight is given up; its owner is told */
void rel_loss_declare(struct rel_conn *conn, u32 number, enum rel_cause cause);

/** rel_loss_declare_all() - everything in flight is given up, oldest first */
void rel_loss_declare_all(struct rel_conn *conn, enum rel_cause cause);

/** rel_loss_handle_send() - @first: nothing was in flight before. Arms the tail probe or the RTO */
void rel_loss_handle_send(struct rel_conn *conn, bool first, u64 now);

/** rel_loss_handle_acked() - something in flight was acknowledged: look for losses, arm timers */
void rel_loss_handle_acked(struct rel_conn *conn, u64 now);

/** rel_loss_handle_late() - @last: see ack.c. Return: an ACK tells that numbers have arrived that were declared lost */
bool rel_loss_handle_late(struct rel_conn *conn, u32 ack, const struct rel_bits *sack, u32 last);

void rel_loss_handle_reorder(struct rel_conn *conn, u64 now);
void rel_loss_handle_tail(struct rel_conn *conn, u64 now);
void rel_loss_handle_rto(struct rel_conn *conn, u64 now);

/**
 * rel_loss_handle_answer() - a header came that left after a PROBE had come, and its ACK has been handled
 * @conn: connection
 * @late: it tells of the arrival of what had been declared lost
 * @now: ns
 */
void rel_loss_handle_answer(struct rel_conn *conn, bool late, u64 now);

/** rel_loss_revive() - what was sent arrives: no time-out counts any more */
static inline void rel_loss_revive(struct rel_loss *loss)
{
	loss->probed = false;
	loss->excused = false;
	loss->silent = false;
	loss->answers = 0;
	loss->backoff = 0;
}

/* ---- rtt.c ---- */

void rel_rtt_init(struct rel_conn *conn);

/** rel_rtt_reply_delay() - how long this side delays an ACK where replies are seen to come later than .ack_delay_ns */
u32 rel_rtt_reply_delay(const struct rel_rtt *rtt);
/** rel_rtt_held() - the other side has delayed an ACK by that; before the sample which that ACK gives */
void rel_rtt_held(struct rel_conn *conn, u64 delay_ns);
/** rel_rtt_sample() - one round trip, without the receiver's delay; more than 0 */
void rel_rtt_sample(struct rel_conn *conn, u64 sample_ns);

/** rel_rtt_backoff() - a time-out doubled @times times, bounded, and up to a quarter shorter, at random */
u64 rel_rtt_backoff(struct rel_conn *conn, u8 times);

/* ---- credit.c ---- */

void rel_credit_init(struct rel_conn *conn);

/** rel_credit_allows() - do credits allow the governed space's next number? */
bool rel_credit_allows(const struct rel_conn *conn);

/** rel_credit_block() - there is something to send, and nothing but credits is lacking */
void rel_credit_block(struct rel_conn *conn, u64 now);

/** rel_credit_handle() - take in the limit in a received header */
void rel_credit_handle(struct rel_conn *conn, u32 limit, u64 now);

/** rel_credit_handle_probe() - the other side probes; nothing before @next is still to come */
void rel_credit_handle_probe(struct rel_conn *conn, u32 next);

/** rel_credit_due() - has the limit risen enough to be worth a packet of its own? */
bool rel_credit_due(const struct rel_conn *conn);

/** rel_credit_probe_sent() - a PROBE was built: when shall the next one follow? */
void rel_credit_probe_sent(struct rel_conn *conn, u64 now);

/** rel_credit_next() - next number of the governed space */
static inline u32 rel_credit_next(const struct rel_conn *conn)
{
	return conn->config.native ? conn->sender.unreliable_next : conn->sender.next;
}

/* ---- congestion.c ---- */

void rel_congestion_init(struct rel_conn *conn);

/** rel_congestion_allows() - may one more packet be in flight? */
static inline bool rel_congestion_allows(const struct rel_conn *conn)
{
	return conn->sender.in_flight < conn->congestion.window_pkts;
}

/** rel_congestion_paced() - is it too early for the next packet? The timer will say when it is not */
bool rel_congestion_paced(struct rel_conn *conn, u64 now);

/* ---- timer.c ---- */

static inline void rel_timer_arm(struct rel_conn *conn, enum rel_timer timer, u64 at)
{
	conn->timer_ns[timer] = at;
}

static inline void rel_timer_disarm(struct rel_conn *conn, enum rel_timer timer)
{
	conn->timer_ns[timer] = REL_TIME_NEVER;
}

static inline bool rel_timer_armed(const struct rel_conn *conn, enum rel_timer timer)
{
	return conn->timer_ns[timer] != REL_TIME_NEVER;
}

void rel_timer_init(struct rel_conn *conn);

#endif /* REL_ENGINE_H */
