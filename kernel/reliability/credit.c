// SPDX-License-Identifier: GPL-2.0-only
/*
 * Credits: unreliable queue pairs drop what meets no posted receive, so a sender may send only as
 * many packets beyond the newest one known to have arrived as the receiver keeps buffers for.
 * Limits are absolute numbers, only ever rise, and ride in every header, so that a lost, repeated
 * or overtaken one does no harm.
 *
 * What could hang is a sender whose last credits, or whose last packets, were all lost. It probes:
 * at once when nothing is in flight whose ACK could bring credits, and again with back-off. The
 * probe says the sender's next number, and the receiver takes everything before it for arrived or
 * gone, and grants from there. A receiver tells its limit without being asked when half of it has
 * become free since it last told; that includes the case that the sender has used up everything it
 * knows of.
 *
 * The receiver's owner may have more or fewer buffers for this sender as others come and go. What was granted
 * is never taken back; there is only nothing new until the sender has used up what is more than its share.
 */
#include "engine.h"

#define PROBES_MAX	16		/* for the back-off; there is no limit to their number */
#define CREDIT_MAX	32767		/* beyond the next number; whoever grants more has granted this */

void rel_credit_init(struct rel_conn *conn)
{
	const struct rel_config *config = &conn->config;
	struct rel_credit *credit = &conn->credit;

	credit->limit = config->number_start + config->peer_credit_pkts;
	credit->base = config->peer_number_start;
	credit->pkts = config->credit_pkts;
	credit->granted = credit->base + credit->pkts;
}

bool rel_credit_allows(const struct rel_conn *conn)
{
	return rel_seq_before(rel_credit_next(conn), conn->credit.limit);
}

void rel_credit_block(struct rel_conn *conn, u64 now)
{
	struct rel_credit *credit = &conn->credit;
	struct rel_sender *sender = &conn->sender;

	if (!credit->blocked) {
		credit->blocked = true;
		credit->probes = 0;
		if (!sender->in_flight)
			rel_send_waits(conn, now);
	}
	if (credit->probe_due || rel_timer_armed(conn, REL_TIMER_PROBE))
		return;
	if (conn->config.native)
		/* Data has surely arrived, or not; news of it is what takes a round trip. */
		rel_timer_arm(conn, REL_TIMER_PROBE, now + conn->rtt.probe_ns);
	else if (!sender->in_flight)
		credit->probe_due = true;
}

void rel_credit_handle(struct rel_conn *conn, u32 limit, u64 now)
{
	struct rel_credit *credit = &conn->credit;

	if (rel_seq_after(limit, credit->limit)) {
		/* Not signed: what is after a limit that is ahead of the next number can be half the numbers off. */
		if (unlikely(limit - rel_credit_next(conn) > CREDIT_MAX)) {
			conn->stats.nonsense++;
			limit = rel_seq_max(credit->limit, rel_credit_next(conn) + CREDIT_MAX);
		}
		credit->limit = limit;
		if (unlikely(credit->blocked)) {
			credit->blocked = false;
			rel_timer_disarm(conn, REL_TIMER_PROBE);
		}
	} else if (unlikely(credit->blocked)) {
		rel_credit_block(conn, now);
	}
}

void rel_credit_handle_probe(struct rel_conn *conn, u32 next)
{
	struct rel_credit *credit = &conn->credit;
	u32 end = rel_received(conn, conn->config.native ? REL_UNRELIABLE : REL_RELIABLE);

	/*
	 * It may be beyond what was granted, if somebody has granted more in this side's name. What was sent by that was
	 * dropped, as all that follows would be. But it has a bound that does not move with what is believed here, or
	 * several that are forged would take it half the numbers off.
	 */
	if (unlikely(rel_seq_after(next, end + REL_AHEAD_MAX)))
		conn->stats.nonsense++;
	else
		credit->base = rel_seq_max(credit->base, next);
}

bool rel_credit_due(const struct rel_conn *conn)
{
	const struct rel_credit *credit = &conn->credit;

	return rel_seq_diff(credit->base + credit->pkts, credit->granted) >= (credit->pkts + 1) / 2;
}

void rel_credit_share(struct rel_conn *conn, u16 pkts)
{
	conn->credit.pkts = pkts;
}

void rel_credit_probe_sent(struct rel_conn *conn, u64 now)
{
	struct rel_credit *credit = &conn->credit;

	credit->probe_due = false;
	if (!credit->blocked && !credit->asked)
		return;
	rel_timer_arm(conn, REL_TIMER_PROBE, now + rel_rtt_backoff(conn, credit->probes));
	if (credit->probes < PROBES_MAX)
		credit->probes++;
}
