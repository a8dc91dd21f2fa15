// SPDX-License-Identifier: GPL-2.0-only
/*
 * Deadlines: a handful, so an array and its minimum. The owner may be early (nothing happens) or
 * late.
 */
#include "engine.h"

void rel_timer_init(struct rel_conn *conn)
{
	int i;

	for (i = 0; i < REL_TIMERS; i++)
		rel_timer_disarm(conn, i);
}

u64 rel_next_timeout(const struct rel_conn *conn)
{
	u64 next = REL_TIME_NEVER;
	int i;

	for (i = 0; i < REL_TIMERS; i++) {
		if (conn->timer_ns[i] < next)
			next = conn->timer_ns[i];
	}
	return next;
}

void rel_handle_timeout(struct rel_conn *conn, u64 now)
{
	const u64 *at = conn->timer_ns;

	if (now >= at[REL_TIMER_ACK])
		rel_ack_handle_delay(conn);
	if (now >= at[REL_TIMER_REORDER]) {
		rel_loss_handle_reorder(conn, now);
		/* What is in flight asks for credits. If that was the last, its owner may have dropped it. */
		if (unlikely(conn->credit.blocked))
			rel_credit_block(conn, now);
	}
	if (now >= at[REL_TIMER_TAIL])
		rel_loss_handle_tail(conn, now);
	if (now >= at[REL_TIMER_RTO])
		rel_loss_handle_rto(conn, now);
	if (now >= at[REL_TIMER_PROBE]) {
		rel_timer_disarm(conn, REL_TIMER_PROBE);
		conn->credit.probe_due = true;
	}
	if (now >= at[REL_TIMER_PACE])
		rel_timer_disarm(conn, REL_TIMER_PACE);	/* that the owner sends is all there is to do */
}
