// SPDX-License-Identifier: GPL-2.0-only
/*
 * A connection's life: it starts, may see its queue pair rebuilt, and ends.
 */
#include "engine.h"

void rel_conn_init(struct rel_conn *conn, const struct rel_config *config,
		   const struct rel_ops *ops, u64 now)
{
	memset(conn, 0, sizeof(*conn));
	conn->ops = ops;
	conn->config = *config;
	conn->heard_ns = now;
	conn->random = config->seed;
	rel_timer_init(conn);
	rel_rtt_init(conn);
	rel_congestion_init(conn);
	rel_send_init(conn);
	rel_receive_init(conn, now);
	rel_credit_init(conn);
	rel_loss_init(conn);
}

void rel_conn_drain(struct rel_conn *conn, void (*forget)(struct rel_conn *conn, void *cookie))
{
	struct rel_sender *sender = &conn->sender;

	while (sender->in_flight) {
		void *cookie = rel_slot(conn, sender->floor)->cookie;

		rel_bits_clear(&sender->flight, 0);
		sender->in_flight--;
		rel_send_advance(sender);
		forget(conn, cookie);
	}
	rel_timer_init(conn);
}

/* Does the peer owe an answer? */
static bool conn_waits(const struct rel_conn *conn)
{
	return conn->sender.in_flight || conn->credit.blocked || conn->credit.asked;
}

void rel_ring_give(struct rel_conn *conn, struct rel_sent *ring)
{
	BUILD_BUG_ON(REL_SPAN_MAX * sizeof(*ring) > REL_RING_BYTES);
	conn->ring = ring;
}

bool rel_ring_drop(struct rel_conn *conn)
{
	if (conn->sender.in_flight)
		return false;
	conn->loss.lost = (struct rel_bits){};
	conn->ring = NULL;
	return true;
}

void rel_conn_requeue(struct rel_conn *conn, u64 now)
{
	/* What is sent again is another packet, but the same debt. */
	if (conn_waits(conn) && !conn->owed_ns)
		conn->owed_ns = max(conn->sender.waiting_ns, conn->heard_ns);
	rel_loss_declare_all(conn, REL_LOST_RESET);
	rel_loss_revive(&conn->loss);
	conn->congestion.ops->pause(conn, U64_MAX);
	conn->credit.probes = 0;
	conn->credit.probe_due = true;
	conn->made_ns = now;
}

void rel_ask(struct rel_conn *conn, u64 now)
{
	struct rel_credit *credit = &conn->credit;

	if (conn->sender.in_flight || credit->blocked || credit->asked)
		return;
	credit->asked = true;
	credit->probes = 0;
	credit->probe_due = true;
	conn->sender.waiting_ns = now;
}

u64 rel_silence_ns(const struct rel_conn *conn, u64 now)
{
	u64 since = max3(conn->sender.waiting_ns, conn->heard_ns, conn->made_ns);

	return conn_waits(conn) && now > since ? now - since : 0;
}

u64 rel_debt_ns(const struct rel_conn *conn, u64 now)
{
	u64 since = conn->owed_ns ?: max(conn->sender.waiting_ns, conn->heard_ns);

	return conn_waits(conn) && now > since ? now - since : 0;
}

void rel_debt_begin(struct rel_conn *conn, u64 now)
{
	conn->owed_ns = conn_waits(conn) ? now : 0;
}
