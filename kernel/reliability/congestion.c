// SPDX-License-Identifier: GPL-2.0-only
/*
 * How many packets may be in flight. Two answers, each a struct rel_congestion_ops:
 *
 *  - fixed, for lossless fabrics: the configured window, always.
 *  - delay, for Ethernet that drops what does not fit: after Swift (Kumar et al., SIGCOMM 2020). The delay of a
 *    packet is compared with a target; the window grows by a packet each round trip below it, and is
 *    multiplied by less than one, the more so the farther above it, once each round trip. It starts small and
 *    doubles until the first time that it has to shrink (RFC 5681). Below one packet the sender is
 *    paced: one packet each round trip divided by the window, so that a thousand senders to one receiver find a
 *    rate that fits.
 *
 * Where it departs from Swift, and why:
 *  - The target lies above the path's own smallest round trip, instead of being made of hops and a constant: the
 *    same code runs on adapters that need 2 us and on emulated ones that need 300.
 *  - The round trip is taken once for each (rtt.c), so the window is thought about once for each, which also
 *    bounds decreases to one a round trip; nothing is spent on the other packets.
 *  - Delay alone neither takes away what may be sent before anything is known, nor keeps it from coming back.
 *    Without timestamps by the adapter, a processor that is busy with something else looks the same as a queue, and
 *    a few packets for each sender are a queue that most switches can bear. What they cannot bear they drop: then it
 *    is known that the delay is a queue's, and for some round trips the window comes back only while there is none.
 *  - Loss alone is not congestion: bits are lost on cables, too, and repeating is cheap here. It counts if the
 *    delay says the same, or if more is lost than any sane cable loses (as in BBRv2: Cardwell et al., IETF 105).
 */
#include "engine.h"

#define ONE_PKT		REL_CONGESTION_PKT
#define WINDOW_MIN	(ONE_PKT / 64)	/* one every 64 round trips: at 10 Gb/s enough for 10000 senders */
#define WINDOW_FIRST	(8 * ONE_PKT)	/* at first, and after a pause: any eager message */
#define WARY_ROUNDS	64		/* round trips after a cut by loss; 1 packet in 1000 makes half of them wary */
#define SCALE_MAX	4		/* small windows: the target is at most so many times farther away */
#define DECREASE_MAX	2		/* by delay at most to 1/2 (Swift's max_mdf) */
#define LOST_FREE	1		/* packets lost in a round trip without saying anything ... */
#define LOST_SHARE	8		/* ... and one of so many */
#define PAUSE_NS	10000000000ull	/* after which the smallest round trip is learned anew */

static void window_set(struct rel_conn *conn, u32 window)
{
	struct rel_congestion *congestion = &conn->congestion;

	window = clamp(window, WINDOW_MIN, congestion->window_max * ONE_PKT);
	congestion->window = window;
	congestion->window_pkts = max(window / ONE_PKT, 1u);
	congestion->window_half = (congestion->window_pkts + 1) / 2;
	congestion->pace_ns = 0;
	if (window < ONE_PKT) {
		congestion->pace_ns = (u64)conn->rtt.srtt_ns * (ONE_PKT * ONE_PKT / window) / ONE_PKT;
		/* Who sends less often than he would ask seems to be gone. */
		congestion->pace_ns = min(congestion->pace_ns, conn->rtt.rto_max_ns);
	}
}

static void fixed_init(struct rel_conn *conn)
{
	window_set(conn, conn->congestion.window_max * ONE_PKT);
}

static void fixed_sample(struct rel_conn *conn, u32 sample_ns)
{
	(void)conn;
	(void)sample_ns;
}

static void fixed_silent(struct rel_conn *conn)
{
	(void)conn;
}

static void fixed_pause(struct rel_conn *conn, u64 pause_ns)
{
	(void)conn;
	(void)pause_ns;
}

const struct rel_congestion_ops rel_congestion_fixed = {
	.name = "fixed",
	.init = fixed_init,
	.sample = fixed_sample,
	.silent = fixed_silent,
	.pause = fixed_pause,
};

static void delay_init(struct rel_conn *conn)
{
	conn->congestion.threshold = conn->congestion.window_max * ONE_PKT;
	window_set(conn, WINDOW_FIRST);
}

/*
 * Swift, 3.1 and 3.5. Many senders with small windows need a target that is farther away: their number makes
 * the queue longer and more restless. And who has less then finds the delay acceptable for longer, so that
 * shares even out.
 */
static u64 target_ns(const struct rel_conn *conn)
{
	u32 window = conn->congestion.window;
	u32 base_ns = conn->config.target_us * 1000;
	u32 scale_ns = base_ns * 16 / (u32)int_sqrt(window);	/* 1 / sqrt(packets) */

	return (u64)conn->rtt.min_ns + base_ns + min(scale_ns, SCALE_MAX * base_ns);
}

static void delay_sample(struct rel_conn *conn, u32 sample_ns)
{
	struct rel_congestion *congestion = &conn->congestion;
	u32 window = congestion->window;
	u32 sent = conn->sender.next - congestion->round;
	u32 lost = congestion->lost;
	u32 among = max_t(u32, sent, congestion->sent);
	u32 least = window - window / DECREASE_MAX;
	bool wary = congestion->wary;
	bool used = congestion->limited;
	u64 target;
	bool late;

	/* There is a sample for each packet, if there is less than one in a round trip. */
	if (wary)
		congestion->wary -= min_t(u32, congestion->wary, max(ONE_PKT / window, 1u));
	if (!lost && !used && !congestion->half_used && window <= WINDOW_FIRST)
		goto out;			/* question and answer: nothing to think about */
	target = target_ns(conn);
	late = sample_ns > target;
	/*
	 * Half a window brings an ACK, so who sends no faster than ACKs come never fills it: while it doubles, and
	 * nothing speaks against it, that is use enough. He would ask after every few packets for ever after.
	 */
	used |= congestion->half_used && !late && !wary && window < congestion->threshold;
	if (lost > LOST_FREE + DIV_ROUND_UP(among, LOST_SHARE) || (lost && late)) {
		/* What got through is what the path bears. */
		window = min(least, max(window * (among - min(lost, among)) / max(among, 1u), ONE_PKT));
		congestion->wary = WARY_ROUNDS;
	} else if (late && window > WINDOW_FIRST) {
		/* By 0.8 of the part of the delay that is too much (Swift's beta). */
		u32 excess = (sample_ns - (u32)target) / (sample_ns / 1024 + 1);

		window = max3(window - window * (excess * 4 / 5) / 1024, least, WINDOW_FIRST);
	} else if (!used) {
		goto out;			/* what was not used cannot be said to be too little */
	} else if (late && wary) {
		goto out;			/* of the queue that has dropped something */
	} else if (window < congestion->threshold) {
		window = min(window + min(window, sent * ONE_PKT), congestion->threshold);
	} else {
		window += window < ONE_PKT ? window / 4 : ONE_PKT;
	}
	if (window > WINDOW_FIRST)
		congestion->wary = 0;
	if (window < congestion->window) {
		if (lost || congestion->limited)
			congestion->threshold = window;	/* else it was not this window that was too much */
		conn->stats.window_cuts++;
	}
out:
	window_set(conn, window);	/* which also paces by what a round trip is now */
	/* Or it would be half the numbers off one day. */
	congestion->since = rel_seq_max(congestion->since, conn->sender.floor);
	congestion->round = conn->sender.next;
	congestion->sent = min_t(u32, sent, U16_MAX);
	congestion->lost = 0;
	congestion->limited = false;
	congestion->half_used = false;
}

/* RFC 5681, 3.1: from one packet, quickly to half of what was too much. Again in vain: less than one. */
static void delay_silent(struct rel_conn *conn)
{
	struct rel_congestion *congestion = &conn->congestion;

	if (congestion->window > ONE_PKT)
		congestion->threshold = congestion->window / 2;
	conn->stats.window_cuts++;
	window_set(conn, min(congestion->window / 2, ONE_PKT));
	/* What was lost before has been counted by that; and if a queue has dropped it, that is still there. */
	congestion->since = conn->sender.next;
	congestion->wary = WARY_ROUNDS;
	congestion->round = conn->sender.next;
	congestion->sent = 0;
	congestion->lost = 0;
}

/*
 * What was learned before a pause gets old (RFC 5681, 4.1), by half with each RTO, and is found again quickly
 * (RFC 2861, 3.2): who answers at length pauses for as long as the other side asks at length.
 */
static void delay_pause(struct rel_conn *conn, u64 pause_ns)
{
	struct rel_congestion *congestion = &conn->congestion;
	u32 window = congestion->window;
	u64 old_ns = pause_ns;

	if (window > WINDOW_FIRST) {
		congestion->threshold = max(congestion->threshold, window - window / 4);
		while (window > WINDOW_FIRST && old_ns > conn->rtt.rto_ns) {
			window = max(window / 2, WINDOW_FIRST);
			old_ns -= conn->rtt.rto_ns;
		}
		window_set(conn, window);
	}
	if (pause_ns > PAUSE_NS)
		conn->rtt.min_old = true;	/* the route may be another; now there is no queue of our own */
}

const struct rel_congestion_ops rel_congestion_delay = {
	.name = "delay",
	.init = delay_init,
	.sample = delay_sample,
	.silent = delay_silent,
	.pause = delay_pause,
};

void rel_congestion_init(struct rel_conn *conn)
{
	struct rel_congestion *congestion = &conn->congestion;

	congestion->ops = conn->config.congestion ?: &rel_congestion_fixed;
	congestion->window_max = clamp_t(u32, conn->config.window_pkts, 1, REL_SPAN_MAX / 2);
	congestion->round = conn->config.number_start;
	congestion->since = conn->config.number_start;
	congestion->ops->init(conn);
}

bool rel_congestion_paced(struct rel_conn *conn, u64 now)
{
	u64 at = conn->sender.sent_ns + conn->congestion.pace_ns;

	if (now >= at)
		return false;
	rel_timer_arm(conn, REL_TIMER_PACE, at);
	return true;
}
