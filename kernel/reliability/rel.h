/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The reliability engine's public face: one struct rel_conn for each path (one way to a peer in one
 * mode). The engine numbers packets, remembers those that are not acknowledged, decides what is
 * acknowledged and what is lost, and says when it wants to be woken. It never sees a message: what
 * a packet carries is its owner's cookie.
 *
 * It is pure: no clock, lock, sleep, allocation or print. The owner passes the time in
 * (nanoseconds, any origin, never backwards), serialises all calls on one connection, and supplies
 * callbacks.
 *
 * Numbers: in a reliable mode all packets with frames share one number space, and a packet that is
 * sent again gets a new number. In a native mode control packets (REL_RELIABLE) are treated the
 * same way, while data packets (REL_UNRELIABLE) are counted in a second space, for credits only.
 * Credits govern the data of the mode: the first space in reliable modes, the second in native
 * ones.
 */
#ifndef REL_H
#define REL_H

#include "port.h"
#include "wire.h"

#define REL_SPAN_MAX		128	/* from the oldest awaited number to the next one */
#define REL_TIME_NEVER		(~0ull)

struct rel_conn;
struct rel_sent;
struct rel_congestion_ops;

/** rel_congestion_fixed - always the configured window (congestion.c) */
extern const struct rel_congestion_ops rel_congestion_fixed;
/** rel_congestion_delay - as much as the path bears without a long queue (congestion.c) */
extern const struct rel_congestion_ops rel_congestion_delay;

/** enum rel_cause - why a packet is to be sent again */
enum rel_cause {
	REL_LOST_RACK,		/* something sent sufficiently later was acknowledged (RFC 8985) */
	REL_LOST_PROBE,		/* tail loss probe (RFC 8985, 7): may well have arrived; or a PROBE has overtaken it */
	REL_LOST_TIMEOUT,	/* not known to a peer that answers after a time-out (RFC 6298) */
	REL_LOST_RESET,		/* rel_conn_requeue(): the queue pair was rebuilt */
	REL_CAUSES
};

/**
 * struct rel_ops - what the engine tells its owner, from within a rel_handle_*() call or rel_conn_requeue()
 * @acked: the packet with this cookie has arrived; the cookie is forgotten
 * @lost: send what this cookie stands for again, under a new number; the cookie is forgotten
 *
 * Neither may call back into the engine.
 */
struct rel_ops {
	void (*acked)(struct rel_conn *conn, void *cookie);
	void (*lost)(struct rel_conn *conn, void *cookie, enum rel_cause cause);
};

/**
 * struct rel_config - limits and times of a connection; constant in its life
 * @native: data packets are not acknowledged (see above)
 * @congestion: how many packets may be in flight; NULL: &rel_congestion_fixed
 * @target_us: rel_congestion_delay: how much longer than at best a round trip may take, 1 to 100000
 * @window_pkts: most packets in flight, 1 to REL_SPAN_MAX / 2
 * @credit_pkts: data packets that this side takes at a time (its posted receives), 1 to 32767; see rel_credit_share()
 * @peer_credit_pkts: the same of the other side: initial credit
 * @number_start: first number of both spaces of this side (tests start just below the wrap)
 * @peer_number_start: first number of both spaces of the other side
 * @ack_every_pkts: an ACK is sent at once after this many unacknowledged packets, 1 to 64
 * @ack_delay_us: longest delay of an ACK, but where replies are seen to come later; the other side's too, until it is
 *	seen to delay more
 * @rto_initial_us: before there is a sample
 * @rto_min_us: lower bound
 * @rto_max_us: upper bound of the backed-off time-out
 * @seed: of the jitter of backed-off time-outs; 0: none
 */
struct rel_config {
	bool native;
	const struct rel_congestion_ops *congestion;
	u32 target_us;
	u16 window_pkts;
	u16 credit_pkts;
	u16 peer_credit_pkts;
	u32 number_start;
	u32 peer_number_start;
	u16 ack_every_pkts;
	u32 ack_delay_us;
	u32 rto_initial_us;
	u32 rto_min_us;
	u32 rto_max_us;
	u32 seed;
};

/** struct rel_stats - what the engine counts; read them as one likes */
struct rel_stats {
	u64 acks_explicit;	/* ACK packets built to acknowledge */
	u64 acks_piggybacked;	/* packets with frames that took a pending ACK along */
	u64 acks_credit;	/* ACK packets built only for credits */
	u64 acks_received;	/* ACK and PROBE packets handled */
	u64 probes_sent;
	u64 timeouts;		/* retransmission time-outs */
	u64 duplicates;		/* packets received again */
	u64 outside_window;	/* numbers that no honest peer could send now */
	u64 nonsense;		/* ACKs of numbers never sent, impossible credits, and PROBEs of such numbers */
	u64 lost[REL_CAUSES];
	u64 spurious;		/* declared lost, but acknowledged later, as far as can be known */
	u64 unreliable_missing;	/* gaps seen in the unreliable space */
	u64 window_cuts;	/* the window was made smaller: delay, loss, or silence */
};

/** enum rel_kind - kind of a packet with frames */
enum rel_kind {
	REL_RELIABLE,		/* numbered, acknowledged, repeated */
	REL_UNRELIABLE,		/* native data: numbered, counted, forgotten */
};

/** enum rel_verdict - what to do with a packet that passed wire_parse() */
enum rel_verdict {
	REL_NEW,		/* deliver its frames, then rel_commit() */
	REL_DUPLICATE,		/* drop; it will be acknowledged again */
	REL_DROP,		/* drop; outside the window */
	REL_NOTHING,		/* ACK or PROBE: there is nothing to deliver */
};

/**
 * rel_conn_init() - start a connection's life
 * @conn: memory of the owner
 * @config: copied
 * @ops: kept
 * @now: time
 */
void rel_conn_init(struct rel_conn *conn, const struct rel_config *config,
		   const struct rel_ops *ops, u64 now);

/* What rel_ring_give() needs. */
#define REL_RING_BYTES	(REL_SPAN_MAX * 16)

/**
 * rel_ring_give() - memory for what is in flight
 * @conn: connection, which has none
 * @ring: REL_RING_BYTES, aligned for a pointer, with any contents; the owner's, until rel_ring_drop() says so or the
 *	life is over
 *
 * A connection that has nothing to send needs none, which is most of its memory. Without it rel_can_send() lets
 * nothing reliable go.
 */
void rel_ring_give(struct rel_conn *conn, struct rel_sent *ring);

/**
 * rel_ring_drop() - the owner wants its memory back
 * @conn: connection
 *
 * Return: true: it is not used any more; false: something is in flight.
 */
bool rel_ring_drop(struct rel_conn *conn);

/**
 * rel_conn_drain() - give every remembered cookie back, in order of sending
 * @conn: connection
 * @forget: gets them
 *
 * For tearing a connection down; afterwards only rel_conn_init() may follow.
 */
void rel_conn_drain(struct rel_conn *conn, void (*forget)(struct rel_conn *conn, void *cookie));

/**
 * rel_conn_requeue() - the queue pair was rebuilt
 * @conn: connection
 * @now: time
 *
 * Declares everything in flight lost (REL_LOST_RESET) and asks the peer for an ACK. Numbers,
 * credits and the receive state live on. The rebuilding counts as a sign of life.
 */
void rel_conn_requeue(struct rel_conn *conn, u64 now);

/**
 * rel_can_send() - may a packet be sent now?
 * @conn: connection
 * @kind: kind of the packet
 * @now: time
 *
 * Window, pacing, number span and (for what credits govern) credits. In a native mode control packets
 * (REL_RELIABLE) need no credits. When a reliable-mode sender or native data is blocked by credits
 * alone, the engine notes it (rel_poll_control() and rel_next_timeout() then see to the probe that
 * must be sent), so call it only when there is something to send, and again when anything has
 * happened.
 *
 * Return: whether rel_send() may be called, once.
 */
bool rel_can_send(struct rel_conn *conn, enum rel_kind kind, u64 now);

/**
 * rel_send() - account for a packet and fill its header in
 * @conn: connection for which rel_can_send() said yes
 * @kind: kind
 * @cookie: for acked() and lost(); ignored for REL_UNRELIABLE
 * @more: the owner is going to send more at once. A hint: the last packet of a burst may ask for an
 *	ACK (send.c says which packets do)
 * @now: time
 * @header: all but .token, .header_len, .frames, .checksum is filled in
 *
 * What was lost should be sent again before anything new: the engine takes the next packets after a
 * loss for the repeats, and lets some of them ask for an ACK.
 */
void rel_send(struct rel_conn *conn, enum rel_kind kind, void *cookie, bool more, u64 now,
	      struct wire_header *header);

/* How many bits of its number a bare packet carries. */
#define REL_BARE_BITS		15

/**
 * rel_can_send_bare() - may the packet for which rel_can_send() said yes go without a header?
 * @conn: connection
 *
 * A bare packet carries some bits of its number, and whether it asks for an ACK, by some other way (an RDMA write's
 * immediate value), and nothing else. So it cannot say which numbers are not awaited any more; before the other side
 * could get too far behind, a packet with a header has to.
 */
bool rel_can_send_bare(const struct rel_conn *conn);

/**
 * rel_send_bare() - account for a packet without a header
 * @conn: connection for which rel_can_send() and rel_can_send_bare() said yes
 * @kind: kind
 * @cookie: for acked() and lost(); ignored for REL_UNRELIABLE
 * @more: as for rel_send()
 * @now: time
 * @ask: set: it asks for an ACK
 *
 * It takes no ACK along. Return: its number, of which the low REL_BARE_BITS travel.
 */
u32 rel_send_bare(struct rel_conn *conn, enum rel_kind kind, void *cookie, bool more, u64 now, bool *ask);

/**
 * rel_control_due() - is a packet without frames (ACK, PROBE) due?
 * @conn: connection
 *
 * Ask after everything that can be sent has been sent (so that the ACK can ride along), and after
 * each timeout; again until false.
 *
 * Return: whether rel_poll_control() has a header to be sent.
 */
bool rel_control_due(const struct rel_conn *conn);

/**
 * rel_poll_control() - the packet without frames that is due
 * @conn: connection
 * @now: time
 * @header: filled in as by rel_send(), with .frames 0
 *
 * Return: whether @header is to be sent; false: nothing is due.
 */
bool rel_poll_control(struct rel_conn *conn, u64 now, struct wire_header *header);

/**
 * rel_handle_header() - take in a received header that wire_parse() has checked
 * @conn: connection
 * @header: header
 * @now: time
 *
 * First acknowledgements and credits, which calls acked() and lost(), then its number. REL_NEW
 * changes no receive state: if the owner cannot keep the packet (no memory) it simply does not
 * commit, and the peer will send it again.
 *
 * Return: the verdict.
 */
enum rel_verdict rel_handle_header(struct rel_conn *conn, const struct wire_header *header,
				   u64 now);

/** rel_next() - the number that the next packet of this kind will have */
u32 rel_next(const struct rel_conn *conn, enum rel_kind kind);

/**
 * rel_received() - where the numbers received so far end
 * @conn: connection
 * @kind: of packets
 *
 * Return: for rel_handle_bare(), later: no packet with a number before it, that is new now, has to be told apart.
 */
u32 rel_received(const struct rel_conn *conn, enum rel_kind kind);

/**
 * rel_handle_bare() - take in a packet that came without a header
 * @conn: connection
 * @kind: kind
 * @low: low REL_BARE_BITS of its number; the owner knows that it was sent by the other side in this life
 * @since: what rel_received() was before the first packet like this one can have been sent
 * @ask: it asks for an ACK
 * @now: time
 * @header: filled in for rel_commit()
 *
 * Its number is the one nearest to what has been received. It is dropped if that is before @since, and if so many have
 * come since @since that an old copy could be taken for a new packet: then it will be sent again with a header.
 * Return: the verdict; not REL_NOTHING.
 */
enum rel_verdict rel_handle_bare(struct rel_conn *conn, enum rel_kind kind, u32 low, u32 since, bool ask, u64 now,
				 struct wire_header *header);

/**
 * rel_commit() - a packet has been delivered and counts as received
 * @conn: connection
 * @header: its header, for which the verdict was REL_NEW
 * @now: time
 */
void rel_commit(struct rel_conn *conn, const struct wire_header *header, u64 now);

/**
 * rel_handle_timeout() - rel_next_timeout() has passed
 * @conn: connection
 * @now: time; being early or late does no harm
 */
void rel_handle_timeout(struct rel_conn *conn, u64 now);

/**
 * rel_next_timeout() - when to call rel_handle_timeout()
 * @conn: connection
 *
 * Return: time, which may be past, or REL_TIME_NEVER.
 */
u64 rel_next_timeout(const struct rel_conn *conn);

/**
 * rel_window_256() - how many packets may be in flight
 * @conn: connection
 *
 * Return: the window, in 1/256 packets.
 */
u32 rel_window_256(const struct rel_conn *conn);

/**
 * rel_in_flight() - packets sent, not acknowledged and not declared lost
 * @conn: connection
 *
 * Return: how many.
 */
u32 rel_in_flight(const struct rel_conn *conn);

/**
 * rel_credit_share() - from now on, this side takes more or fewer packets at a time
 * @conn: connection
 * @pkts: 1 to 32767
 *
 * For an owner whose buffers several senders share. What the peer was granted is not taken back: with fewer, it is
 * granted nothing new until it has used up what is more than that.
 */
void rel_credit_share(struct rel_conn *conn, u16 pkts);

/**
 * rel_ask() - is the peer there?
 * @conn: connection
 * @now: time
 *
 * For an owner that waits for what only the peer can begin, when nothing has been heard for long. If nothing else
 * waits for an answer, a PROBE does, and is repeated until something is heard (rel_poll_control(),
 * rel_next_timeout()).
 */
void rel_ask(struct rel_conn *conn, u64 now);

/**
 * rel_silence_ns() - how long the peer has not answered over this queue pair
 * @conn: connection
 * @now: time
 *
 * The owner makes the queue pair anew above its limit.
 *
 * Return: time for which something has been in flight, blocked for want of credits, or asked, without any
 * sign of life from the peer, its part in rel_conn_requeue() included; 0 if nothing waits.
 */
u64 rel_silence_ns(const struct rel_conn *conn, u64 now);

/**
 * rel_debt_ns() - how long the peer has not answered over whichever queue pair
 * @conn: connection
 * @now: time
 *
 * The owner declares the peer dead above its limit. A peer that takes part in making queue pairs and of which no
 * packet ever comes is as good as dead.
 *
 * Return: as rel_silence_ns(), but only packets count as signs of life.
 */
u64 rel_debt_ns(const struct rel_conn *conn, u64 now);

/**
 * rel_debt_begin() - whatever the peer owes, it owes from now on
 * @conn: connection
 * @now: time
 *
 * For an owner that has not tried to reach the peer for a while, as there was nothing to say: until now nobody has
 * missed it.
 */
void rel_debt_begin(struct rel_conn *conn, u64 now);

#include "conn.h"

#endif /* REL_H */
