/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The state of one connection, by the file that owns each part. It is here for its size (owners
 * embed a struct rel_conn) and for reading; nobody but the engine's own files writes to it.
 *
 * Invariants, with "in flight" for sent, not acknowledged, and not declared lost:
 *  - the sender's floor is the oldest number in flight, or the next number if nothing is;
 *  - next - floor <= REL_SPAN_MAX, so the ring never holds two numbers in one slot, and the
 *    receiver's cumulative number and 128 SACK bits can always say everything;
 *  - a cookie is in the ring exactly while its number is in flight;
 *  - there is a ring while anything is in flight, or remembered as lost.
 */
#ifndef REL_CONN_H
#define REL_CONN_H

#include "bits.h"
#include "rel.h"

/**
 * struct rel_sent - one slot of the ring of sent packets, at number % REL_SPAN_MAX
 * @sent_ns: when; stays valid until the slot is used again, or the ring goes
 * @cookie: while in flight: what it carries
 * @told: while remembered as lost: packets from this number on tell the receiver of the loss
 * @cause: likewise: enum rel_cause
 */
struct rel_sent {
	u64 sent_ns;
	union {
		void *cookie;
		struct {
			u32 told;
			u8 cause;
		};
	};
};

/**
 * struct rel_sender - send.c: the window of numbers that this side sends
 * @flight: bit i: number @floor + i is in flight
 * @next: number that the next reliable packet gets
 * @floor: see above
 * @told: the other side awaits nothing before this number: its last ACK has said so, or the last header sent, if that
 *	arrives
 * @unreliable_next: the same as @next for the unreliable space
 * @in_flight: bits in @flight
 * @since_ask: packets sent since the last ACK request or the last progress
 * @burst: packets sent since the owner last had nothing more to send
 * @repeats: lost packets that the owner has not sent again yet, as far as the engine can know
 * @repeated: packets sent since the first of these
 * @asked: the last number that carried an ACK request
 * @asking: and nothing from there on has been acknowledged yet
 * @answering: a reliable packet has come since the last one was sent, and found nothing in flight
 * @sent_ns: when the last packet was sent
 * @waiting_ns: since when something has been in flight, or lost and to be sent again, or blocked for want of credits,
 *	or asked, without a word from the peer before that
 */
struct rel_sender {
	struct rel_bits flight;
	u32 next;
	u32 floor;
	u32 unreliable_next;
	u16 in_flight;
	u16 since_ask;
	u16 burst;
	u16 repeats;
	u16 repeated;
	bool asking;
	bool answering;
	u32 asked;
	u32 told;
	u64 sent_ns;
	u64 waiting_ns;
};

/**
 * struct rel_receiver - receive.c, ack.c: what has come from the other side
 * @seen: bit i: number @cum + 1 + i was received (the layout of the header's SACK)
 * @cum: oldest number that may still come: everything before was received, or given up
 * @end: largest number received, + 1
 * @pending: packets received since the last ACK that was sent
 * @ack_now: an ACK must not wait for the timer
 * @probed: a PROBE has come since the last packet that was sent
 * @waited: an ACK has waited for a reply in vain, and neither a reply nor another packet has come since
 * @late_replies: in a row that came after such an ACK, but within rel_rtt_reply_delay()
 * @newest_ns: when the largest number arrived
 * @unreliable_seen: bit i: number @unreliable_end - 1 - i was received
 * @unreliable_end: @end of the unreliable space
 * @pending_ns: low half of the time when the first packet arrived that such an ACK waited for a reply to
 */
struct rel_receiver {
	struct rel_bits seen;
	u32 cum;
	u32 end;
	u16 pending;
	bool ack_now;
	bool probed;
	bool waited;
	u8 late_replies;
	u64 newest_ns;
	struct rel_bits unreliable_seen;
	u32 unreliable_end;
	u32 pending_ns;
};

/**
 * struct rel_credit - credit.c: absolute limits in the space that credits govern
 * @limit: sender: numbers before this one may be sent
 * @base: receiver: numbers before this one have arrived or will not come
 * @granted: receiver: the largest limit that a header has told the other side
 * @pkts: receiver: how many the other side may have on their way
 * @blocked: sender: the owner has something to send, and only credits are lacking
 * @probe_due: sender: a PROBE is to be sent (also for other reasons than credits)
 * @asked: sender: the owner wants to know whether the peer is there, and has not been told
 * @probes: sender: sent since blocked or asked, for the back-off
 */
struct rel_credit {
	u32 limit;
	u32 base;
	u32 granted;
	u16 pkts;
	bool blocked;
	bool probe_due;
	bool asked;
	u8 probes;
};

/**
 * struct rel_rtt - rtt.c: the estimate of the round trip, and the times that follow from it
 * @srtt_ns: smoothed; 0: no sample yet
 * @var_ns: mean deviation
 * @min_ns: smallest sample
 * @latest_ns: last sample
 * @min_old: @min_ns is to be taken anew from the next sample
 * @round_end: the next sample is taken from this number or a later one
 * @ack_delay_ns: how long this side delays an ACK
 * @held_ns: how long the other side was seen to delay its ACKs of late
 * @rto_ns: retransmission time-out, without back-off
 * @probe_ns: tail loss probe after this time without an ACK; at most @rto_ns
 * @rto_max_ns: bound of the backed-off time-out
 */
struct rel_rtt {
	u32 srtt_ns;
	u32 var_ns;
	u32 min_ns;
	u32 latest_ns;
	bool min_old;
	u32 round_end;
	u32 ack_delay_ns;
	u32 held_ns;
	u64 rto_ns;
	u64 probe_ns;
	u64 rto_max_ns;
};

/**
 * struct rel_loss - loss.c: when to think that a packet is lost
 * @lost: bit number % REL_SPAN_MAX: this number was declared lost and its slot tells about it
 * @newest: largest number that was acknowledged (RACK.segment of RFC 8985)
 * @overtaken: what was sent before this number was sent before a tail probe that could only ask, for want of credit,
 *	and nothing was heard of it since; at most the floor if there is none
 * @newest_rtt_ns: time from its sending to its ACK (RACK.rtt)
 * @progress_ns: last time that something was acknowledged, that sending began, or that the tail probe was put off
 * @round_end: the reordering window widens at most once until this number is acknowledged
 * @recovery_end: losses before this number belong to the same recovery
 * @window_steps: the reordering window in quarters of the smallest RTT
 * @window_keep: recoveries until it shrinks back
 * @reordered: the path has been seen to reorder
 * @probed: a tail loss probe was sent, and nothing was acknowledged since: now the RTO counts
 * @excused: the tail probe was put off, since this node was late itself, and nothing was acknowledged since
 * @silent: a time-out has passed since, and no header came: the peer is asked, and sent nothing else. Only while
 *	something is in flight
 * @answers: to time-outs, and to tail probes that could only ask, since something was acknowledged; counted up to some
 * @backoff: time-outs since something was acknowledged, or, at first, since an answer
 */
struct rel_loss {
	struct rel_bits lost;
	u32 newest;
	u32 round_end;
	u32 recovery_end;
	u32 overtaken;
	u64 newest_rtt_ns;
	u64 progress_ns;
	u8 window_steps;
	u8 window_keep;
	bool reordered;
	bool probed;
	bool excused;
	bool silent;
	u8 answers;
	u8 backoff;
};

/** REL_CONGESTION_PKT - a packet, in units of windows */
#define REL_CONGESTION_PKT	256u

/**
 * struct rel_congestion - congestion.c: how much may be in flight
 * @ops: who decides
 * @window_pkts: the window in whole packets, at least 1
 * @window_half: half of it, rounded up
 * @limited: since the last sample, something had to wait for the window
 * @half_used: since the last sample, half of it was sent without news
 * @wary: round trips for which it does not grow while they are late
 * @sent: packets sent in the round trip before the last sample, among which some of @lost may be
 * @lost: packets that RACK or the tail probe have declared lost since then
 * @round: next number to be sent, then
 * @since: losses of numbers before this one are those that the last time-out was for
 * @window: in 1/256 packets
 * @window_max: the configured one, packets
 * @threshold: it doubles below this, in the same units
 * @pace_ns: a packet is sent so long after the one before; 0: at once
 */
struct rel_congestion {
	const struct rel_congestion_ops *ops;
	u16 window_pkts;
	u16 window_half;
	bool limited : 1;
	bool half_used : 1;
	u8 wary;
	u16 sent;
	u32 lost;
	u32 round;
	u32 window;
	u32 window_max;
	u32 threshold;
	u32 since;
	u64 pace_ns;
};

/**
 * struct rel_congestion_ops - decides about the window
 * @name: for people
 * @init: the first window. rel_congestion_init() has set the rest
 * @sample: once for each round trip
 * @silent: a retransmission time-out
 * @pause: nothing is in flight, and nothing was sent for so long, which is more than an RTO; U64_MAX: the queue pair
 *	is another
 */
struct rel_congestion_ops {
	const char *name;
	void (*init)(struct rel_conn *conn);
	void (*sample)(struct rel_conn *conn, u32 sample_ns);
	void (*silent)(struct rel_conn *conn);
	void (*pause)(struct rel_conn *conn, u64 pause_ns);
};

/**
 * enum rel_timer - what may be due; each is armed by the file that owns it
 * @REL_TIMER_ACK: ack.c: the delay of an ACK is over
 * @REL_TIMER_REORDER: loss.c: the oldest packet in flight can no longer just be late
 * @REL_TIMER_TAIL: loss.c: tail loss probe. Never armed together with @REL_TIMER_RTO
 * @REL_TIMER_RTO: loss.c: retransmission time-out
 * @REL_TIMER_PROBE: credit.c: still blocked, or not answered: ask (again)
 * @REL_TIMER_PACE: congestion.c: the next packet may go
 * @REL_TIMERS: how many there are
 */
enum rel_timer {
	REL_TIMER_ACK,
	REL_TIMER_REORDER,
	REL_TIMER_TAIL,
	REL_TIMER_RTO,
	REL_TIMER_PROBE,
	REL_TIMER_PACE,
	REL_TIMERS
};

/**
 * struct rel_conn - one connection
 * @ops: the owner's
 * @sender: what this side sends
 * @receiver: what it receives
 * @credit: both ways
 * @rtt: of what it sends
 * @loss: likewise
 * @congestion: likewise
 * @heard_ns: when the peer last said something that can be true
 * @made_ns: when the queue pair was last made anew; 0: it is the first
 * @owed_ns: 0, or, if that was while the peer owed an answer, and nothing was heard since: from when on it has
 * @timer_ns: deadline of each timer, or REL_TIME_NEVER
 * @random: state of a small generator, for jitter
 * @estranged: the last header acknowledged what was never sent: nothing was heard since then
 * @config: the owner's
 * @stats: for the owner
 * @ring: REL_SPAN_MAX sent packets, the owner's memory; NULL: there is none, and no reliable packet can be sent
 */
struct rel_conn {
	const struct rel_ops *ops;
	struct rel_sender sender;
	struct rel_receiver receiver;
	struct rel_credit credit;
	struct rel_rtt rtt;
	struct rel_loss loss;
	struct rel_congestion congestion;
	u64 heard_ns;
	u64 made_ns;
	u64 owed_ns;
	u64 timer_ns[REL_TIMERS];
	u32 random;
	bool estranged;
	struct rel_config config;
	struct rel_stats stats;
	struct rel_sent *ring;
};

#endif /* REL_CONN_H */
