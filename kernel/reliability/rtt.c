// SPDX-License-Identifier: GPL-2.0-only
/*
 * The round trip's estimate (RFC 6298) and the times that follow from it. Samples are clean: a
 * number is sent only once, and the receiver says how long it held the ACK back. What it may hold
 * back is added again to the time-outs: .ack_delay_us, or what it was seen to if that is more.
 */
#include "engine.h"

/*
 * Time for a process to wake up and to reply, and for a second packet of a stream of short messages.
 * The sender reckons with .ack_delay_us anyway.
 */
#define ACK_DELAY_MIN_NS	150000u
#define REPLY_DELAY_MAX_NS	10000000u	/* well below what the header can tell (65 ms), and rto_max */

void rel_rtt_init(struct rel_conn *conn)
{
	const struct rel_config *config = &conn->config;
	struct rel_rtt *rtt = &conn->rtt;

	rtt->round_end = config->number_start;
	rtt->rto_max_ns = config->rto_max_us * 1000ull;
	rtt->rto_ns = min_t(u64, config->rto_initial_us * 1000ull, rtt->rto_max_ns);
	rtt->probe_ns = rtt->rto_ns;	/* RFC 8985, 7.2: without a sample, as the RTO */
	rtt->ack_delay_ns = min_t(u64, config->ack_delay_us * 1000ull, U32_MAX);
}

void rel_rtt_sample(struct rel_conn *conn, u64 sample_ns)
{
	const struct rel_config *config = &conn->config;
	struct rel_rtt *rtt = &conn->rtt;
	u64 most_ns = config->ack_delay_us * 1000ull;
	u64 peer_delay_ns = max_t(u64, most_ns, rtt->held_ns);
	u32 sample = min_t(u64, sample_ns, U32_MAX / 8);

	rtt->latest_ns = sample;
	if (!rtt->srtt_ns) {
		rtt->srtt_ns = sample;
		rtt->var_ns = sample / 2;
		rtt->min_ns = sample;
	} else {
		u32 deviation = sample > rtt->srtt_ns ? sample - rtt->srtt_ns :
							rtt->srtt_ns - sample;

		rtt->var_ns = rtt->var_ns - rtt->var_ns / 4 + deviation / 4;
		rtt->srtt_ns = rtt->srtt_ns - rtt->srtt_ns / 8 + sample / 8;
		if (sample < rtt->min_ns || rtt->min_old)
			rtt->min_ns = sample;
	}
	rtt->min_old = false;

	/*
	 * RFC 8985, 7.2, without its special case for a single packet: it costs nothing to wait. Where round trips are
	 * as different as those of short and long bursts, twice their mean is less than many of them (RFC 9002, 6.2.1).
	 */
	rtt->probe_ns = rtt->srtt_ns + max_t(u64, rtt->srtt_ns, 2ull * rtt->var_ns) + peer_delay_ns;
	rtt->rto_ns = rtt->srtt_ns + 4ull * rtt->var_ns + peer_delay_ns;
	rtt->rto_ns = max(rtt->rto_ns, rtt->probe_ns);
	rtt->rto_ns = max_t(u64, rtt->rto_ns, config->rto_min_us * 1000ull);
	rtt->rto_ns = min(rtt->rto_ns, rtt->rto_max_ns);
	rtt->probe_ns = min(rtt->probe_ns, rtt->rto_ns);
	rtt->ack_delay_ns = min_t(u64, max(rtt->srtt_ns, ACK_DELAY_MIN_NS), most_ns);
}

u32 rel_rtt_reply_delay(const struct rel_rtt *rtt)
{
	return max(rtt->ack_delay_ns, min(rtt->srtt_ns, REPLY_DELAY_MAX_NS));
}

void rel_rtt_held(struct rel_conn *conn, u64 delay_ns)
{
	struct rel_rtt *rtt = &conn->rtt;

	rtt->held_ns -= rtt->held_ns / 8;
	/* From two round trips on it is no delay: an earlier ACK was lost, and the other side has repeated something. */
	if (delay_ns < 2ull * rtt->srtt_ns && delay_ns > rtt->held_ns)
		rtt->held_ns = delay_ns;
}

u64 rel_rtt_backoff(struct rel_conn *conn, u8 times)
{
	const struct rel_rtt *rtt = &conn->rtt;
	u64 time_ns = min_t(u64, rtt->rto_ns << times, rtt->rto_max_ns);

	/* Xorshift (Marsaglia 2003): those who lost their packets together shall not all ask together. */
	conn->random ^= conn->random << 13;
	conn->random ^= conn->random >> 17;
	conn->random ^= conn->random << 5;
	return times ? time_ns - time_ns / 1024 * (conn->random & 255) : time_ns;
}
