// SPDX-License-Identifier: GPL-2.0-only
/*
 * The drive. Everything that happens to a path ends here, under its connection lock: a packet came
 * in, the timer ran out, a message was queued, a slot became free. It takes from the queues what the
 * engine lets go (control first, then repeats, then requests for flows, messages and windows of transfers by turns),
 * acknowledges what is left to be acknowledged, and arms one timer for all that the engine waits for.
 *
 * Fragments that are waiting when the drive runs share packets. When the drive ends, all that may go is gone. Who waits
 * for company does so before: after eager messages of a stream the drive may be put off for a moment
 * (ibr_path_drive_soon()), until some packets are full or anything else happens to the path.
 */
#include <linux/module.h>
#include <linux/slab.h>

#include "compat.h"
#include "drive.h"
#include "flow.h"
#include "memory.h"
#include "params.h"
#include "transport/transport.h"
#include "transport/verbs.h"

#define STARVED_NS		(1 * NSEC_PER_MSEC)
#define COALESCE_US_MAX		1000
#define COALESCE_SOFTWARE_US	20	/* other adapters: 0 */
/* Of the slot, if short messages wait for others: room is left for one of any length that may be among them. */
#define HELD_SPARE	(sizeof(struct wire_header) + sizeof(struct wire_frame) + IBR_FRAG_SMALL)
#define HELD_PACKETS	4		/* full ones for which messages wait, at most */
#define HELD_URGENT	(1u << 31)	/* in path->held: something may not wait */

bool ibr_aggregate = true;
module_param_named(aggregate, ibr_aggregate, bool, 0644);
MODULE_PARM_DESC(aggregate, "messages that wait for the same path travel in one packet, as far as they fit");

static int coalesce_us = -1;
module_param(coalesce_us, int, 0644);
MODULE_PARM_DESC(coalesce_us, "an eager message of a stream may wait so long for others, us; 0: not at all; -1: 20 on soft-RoCE, else 0");

static enum rel_kind path_kind(const struct ibr_path *path, bool control)
{
	return path->native && !control ? REL_UNRELIABLE : REL_RELIABLE;
}

/* Is anything else going to follow at once? A guess: it only decides about an ACK request. */
static bool path_more(const struct ibr_path *path)
{
	return !list_empty(&path->control) || !list_empty(&path->repeat) || !list_empty(&path->opening) ||
	       !list_empty(&path->ready) || !list_empty(&path->bulk);
}

/* The longest packet of this life: the peer may take longer ones by now, and shorter ones again later. */
static u32 packet_bytes(const struct ibr_path *path)
{
	return sizeof(struct wire_header) + sizeof(struct wire_frame) + path->payload_max;
}

/* A payload that is long travels from where it lies, and so does what comes behind one: their order is the frames'. */
static bool payload_apart(u32 apart, u32 payload)
{
	return payload > (apart ? 0 : IBR_FRAG_SMALL);
}

/* Bytes of payload for which there is room with one more frame; negative: not even for that. */
static int packet_room(const struct ibr_path *path, enum rel_kind kind)
{
	const struct ibr_packet *packet = &path->packet;

	if (!packet->slot || packet->kind != kind || packet->frames == WIRE_FRAMES_MAX ||
	    packet->bytes + sizeof(struct wire_frame) > IBR_SLOT_BYTES)
		return -1;
	return (int)packet_bytes(path) - packet->bytes - packet->apart_bytes - (int)sizeof(struct wire_frame);
}

static bool packet_takes(const struct ibr_path *path, enum rel_kind kind, u32 payload)
{
	const struct ibr_packet *packet = &path->packet;

	if ((int)payload > packet_room(path, kind))
		return false;
	if (payload_apart(packet->apart, payload))
		return READ_ONCE(ibr_aggregate) && packet->apart < packet->slot->frags_max;
	return packet->bytes + sizeof(struct wire_frame) + payload <= IBR_SLOT_BYTES;
}

/*
 * May it wait for others, until the drive ends? Not in native modes: one lost packet of several RTS would put
 * its messages further behind those that arrive than the receiver remembers (protocol.rst).
 */
static bool frag_shares(const struct ibr_path *path, const struct ibr_frag *frag)
{
	return !path->native && (frag->control || READ_ONCE(ibr_aggregate));
}

/* Write the frames behind the header, and the short payloads; and say where the others are. */
static void packet_fill(struct ibr_packet *packet, struct wire_header *header)
{
	struct wire_frame *frame = (struct wire_frame *)(header + 1);
	u8 *payload = (u8 *)(frame + packet->frames);
	struct ibr_slot *slot = packet->slot;
	struct ibr_frag *frag;

	slot->frags = 0;
	for (frag = packet->first; frag; frag = frag->next) {
		memcpy(frame++, &frag->frame, sizeof(*frame));
		if (payload_apart(slot->frags, frag->payload_len)) {
			slot->frag[slot->frags++] = frag;
			continue;
		}
		memcpy(payload, frag->payload, frag->payload_len);
		payload += frag->payload_len;
	}
}

/* Number the packet that has been assembled, and queue it. */
static void packet_send(struct ibr_path *path)
{
	struct ibr_packet *packet = &path->packet;
	struct ibr_slot *slot = packet->slot;
	struct wire_header *header;
	struct ibr_frag *frag, *next;

	if (!slot)
		return;
	header = slot->header;
	rel_send(&path->rel, packet->kind, packet->first, path_more(path), path->now, header);
	header->token = cpu_to_le32(path->remote.token);
	header->header_len = cpu_to_le16(sizeof(*header) + packet->frames * sizeof(struct wire_frame));
	header->frames = cpu_to_le16(packet->frames);
	packet_fill(packet, header);
	wire_seal(header, path->remote.secret);
	packet->slot = NULL;
	path->transport->post(path, slot, packet->bytes);

	for (frag = packet->first; frag; frag = next) {
		next = frag->next;
		if (!frag->repeated) {
			frag->repeated = true;
			path->counters.tx_segments++;
		}
		if (packet->kind == REL_UNRELIABLE)
			ibr_frag_put(frag);
		else
			path->memory += frag->payload_len;
	}
	path->memory_peak = max(path->memory_peak, path->memory);
}

/* The engine needs memory for what it sends. */
static bool path_has_ring(struct ibr_path *path)
{
	if (likely(path->rel.ring))
		return true;
	if (!path->ring && !ibr_alloc_fails())
		path->ring = kmalloc(REL_RING_BYTES, GFP_ATOMIC | __GFP_NOWARN);
	if (!path->ring) {
		path->starved = true;
		return false;
	}
	rel_ring_give(&path->rel, path->ring);
	path->look_at = min(path->look_at, path->now + IBR_LOOK_MS * NSEC_PER_MSEC);
	return true;
}

/* A packet of its own; the one that is being assembled goes before it. */
static bool path_can_begin(struct ibr_path *path, enum rel_kind kind)
{
	packet_send(path);
	if (kind == REL_RELIABLE && unlikely(!path_has_ring(path)))
		return false;
	return rel_can_send(&path->rel, kind, path->now);
}

bool ibr_path_can_emit(struct ibr_path *path, bool control, u32 payload)
{
	enum rel_kind kind = path_kind(path, control);

	if (path->state != IBRELK_PATH_UP)
		return false;
	if (packet_takes(path, kind, payload))
		return true;
	return path_can_begin(path, kind);
}

u32 ibr_path_room(const struct ibr_path *path)
{
	const struct ibr_packet *packet = &path->packet;
	int room = packet_room(path, path_kind(path, false));

	return room > 0 && packet->apart < packet->slot->frags_max && READ_ONCE(ibr_aggregate) ? room : 0;
}

bool ibr_path_can_write(struct ibr_path *path)
{
	return path->state == IBRELK_PATH_UP && path_can_begin(path, path_kind(path, false));
}

bool ibr_path_emit(struct ibr_path *path, struct ibr_frag *frag)
{
	struct ibr_packet *packet = &path->packet;

	frag->next = NULL;
	if (packet->slot) {
		packet->last->next = frag;
	} else {
		packet->slot = path->transport->slot(path);
		if (!packet->slot)
			return false;
		packet->first = frag;
		packet->kind = path_kind(path, frag->control);
		packet->frames = 0;
		packet->bytes = sizeof(struct wire_header);
		packet->apart = 0;
		packet->apart_bytes = 0;
	}
	packet->last = frag;
	packet->frames++;
	packet->bytes += sizeof(struct wire_frame);
	if (payload_apart(packet->apart, frag->payload_len)) {
		packet->apart++;
		packet->apart_bytes += frag->payload_len;
	} else {
		packet->bytes += frag->payload_len;
	}
	if (!frag_shares(path, frag))
		packet_send(path);
	return true;
}

bool ibr_path_write(struct ibr_path *path, struct ibr_frag *frag, u32 immediate, u64 address, u32 key)
{
	enum rel_kind kind = path_kind(path, false);
	struct bio_vec segment[IBR_WRITE_SEGMENTS];
	struct ibr_send *send = frag->send;
	struct ibr_slot *slot;
	struct ibr_qp *qp;
	int segments;
	bool ask;

	qp = path->transport->rdma ? path->transport->rdma(path) : NULL;
	if (!qp || (kind == REL_RELIABLE && !rel_can_send_bare(&path->rel)))
		return false;
	segments = ibr_umem_segments(&send->umem, le64_to_cpu(frag->frame.data.offset),
				     le16_to_cpu(frag->frame.payload_len), segment, qp->segments);
	if (!segments)
		return false;
	slot = path->transport->slot(path);
	if (!slot)
		return false;
	frag->next = NULL;
	frag->written = true;
	frag->repeated = true;
	immediate |= rel_send_bare(&path->rel, kind, frag, path_more(path), path->now, &ask) &
		     (BIT(REL_BARE_BITS) - 1);
	if (ask)
		immediate |= WIRE_IMMEDIATE_ASK;
	ibr_qp_write(qp, slot, segment, segments, address, key, immediate, frag);
	path->counters.tx_segments++;
	path->counters.tx_written++;
	if (kind == REL_UNRELIABLE)
		ibr_frag_put(frag);
	return true;
}

static void drive_acked(struct rel_conn *conn, void *cookie)
{
	struct ibr_path *path = container_of(conn, struct ibr_path, rel);
	struct ibr_frag *frag, *next;
	struct ibr_inflow *answered;

	for (frag = cookie; frag; frag = next) {
		next = frag->next;
		path->memory -= frag->payload_len;
		if (frag->send)
			ibr_send_acked(frag->send);
		answered = frag->answers;
		if (frag->fence)
			ibr_windows_fenced(path, frag->fence);
		ibr_frag_put(frag);
		if (answered)
			ibr_inflow_answered(answered, false);
	}
}

static void drive_lost(struct rel_conn *conn, void *cookie, enum rel_cause cause)
{
	struct ibr_path *path = container_of(conn, struct ibr_path, rel);
	struct ibr_frag *frag;

	frag = cookie;
	if (frag->written) {
		ibr_bulk_redo(path, frag);
		return;
	}
	for (; frag; frag = frag->next) {
		path->memory -= frag->payload_len;
		list_add_tail(&frag->link, &path->repeat);
		path->queue++;
	}
	path->queue_peak = max(path->queue_peak, path->queue);
}

const struct rel_ops ibr_drive_ops = {
	.acked = drive_acked,
	.lost = drive_lost,
};

/* Send from a queue of fragments until it is empty or something blocks. Return: it is empty. */
static bool drive_queue(struct ibr_path *path, struct list_head *queue)
{
	struct ibr_frag *frag;

	while ((frag = list_first_entry_or_null(queue, struct ibr_frag, link))) {
		if (!ibr_path_can_emit(path, frag->control, frag->payload_len))
			return false;
		list_del_init(&frag->link);
		if (!ibr_path_emit(path, frag)) {
			list_add(&frag->link, queue);
			return false;
		}
		path->queue--;
	}
	return true;
}

/* The turn of the first flow that is to be opened. Return: false when blocked. */
static bool drive_opening(struct ibr_path *path)
{
	struct ibr_outflow *flow = list_first_entry(&path->opening, struct ibr_outflow, ready);

	if (!ibr_outflow_request(path, flow))
		return false;
	path->opening_turns--;
	return true;
}

/* What has nothing more to send is not ready. */
static bool flow_goes_on(const struct ibr_path *path, struct ibr_outflow *flow)
{
	if (list_empty(&flow->queue))
		list_del_init(&flow->ready);
	return list_is_first(&flow->ready, &path->ready);
}

/*
 * The turn of the first flow: a message, and more until the packet in which it ends is full, or is sent since the next
 * one did not find room. Once the first one is sent it has had its turn, whatever becomes of the others. Return: false
 * when blocked.
 */
static bool drive_flow(struct ibr_path *path)
{
	struct ibr_outflow *flow = list_first_entry(&path->ready, struct ibr_outflow, ready);
	const struct ibr_slot *slot;
	bool turn, sent;

	/* A closing flow may drop its last reference with its last message. */
	kref_get(&flow->ref);
	turn = ibr_send_start(path, flow);
	slot = path->packet.slot;
	sent = turn;
	while (flow_goes_on(path, flow) && sent && slot && slot == path->packet.slot &&
	       packet_room(path, path->packet.kind) >= 0)
		sent = ibr_send_start(path, flow);
	if (turn && path->flow_turns)
		path->flow_turns--;
	if (turn && flow_goes_on(path, flow))
		list_move_tail(&flow->ready, &path->ready);
	ibr_outflow_put(flow);
	return sent;
}

static u32 path_ready_flows(const struct ibr_path *path)
{
	const struct list_head *entry;
	u32 count = 0;

	list_for_each(entry, &path->ready)
		count++;
	return count;
}

/*
 * Requests for flows, flows with messages, and windows of transfers take turns, in rounds: as many requests as a packet
 * has room for, each flow that was ready when the round began, but at least one, and then some fragments of windows. So
 * no message waits for more than those, however many flows and transfers there are. Return: false when blocked; then it
 * goes on in the same place.
 */
static bool drive_turn(struct ibr_path *path)
{
	struct ibr_send *send = list_first_entry_or_null(&path->bulk, struct ibr_send, bulk);

	if (path->opening_turns && !list_empty(&path->opening)) {
		if (drive_opening(path))
			return true;
		/* Others may need less: no memory, and of native modes no window. */
		if (list_empty(&path->ready) && !send)
			return false;
	}
	if (list_empty(&path->ready))
		path->flow_turns = min(path->flow_turns, 1u);
	else if (path->flow_turns)
		return drive_flow(path);
	if (path->bulk_turns && send) {
		if (ibr_bulk_fill(path, send)) {
			path->bulk_turns--;
			return true;
		}
		/* A message may need less: no memory, and of native modes no credit. */
		return !list_empty(&path->ready) && drive_flow(path);
	}
	path->flow_turns = max(path_ready_flows(path), 1u);
	path->bulk_turns = IBR_BULK_TURNS;
	path->opening_turns = WIRE_FRAMES_MAX;
	return true;
}

static void drive_control(struct ibr_path *path)
{
	const struct ibr_transport *transport = path->transport;
	struct wire_header *header;
	struct ibr_slot *slot;

	while (rel_control_due(&path->rel)) {
		slot = transport->slot(path);
		if (!slot)
			return;
		header = slot->header;
		rel_poll_control(&path->rel, path->now, header);
		header->token = cpu_to_le32(path->remote.token);
		header->header_len = cpu_to_le16(sizeof(*header));
		header->frames = 0;
		wire_seal(header, path->remote.secret);
		transport->post(path, slot, sizeof(*header));
	}
}

/*
 * Flows that have waited long enough for credit go on without, but with few messages at a time: what waits at the
 * receiver by RTS is in the way of all that follows, and has to be asked for. With more and more, as the receiver may
 * want a later one; ever faster, if it asks for none of them.
 */
static void drive_patient(struct ibr_path *path)
{
	struct ibr_outflow *flow;

	while ((flow = list_first_entry_or_null(&path->patient, struct ibr_outflow, ready))) {
		if (flow->patient_until > path->now)
			break;
		flow->unpaid_max += flow->unpaid_answered ? IBR_UNPAID_STEP : max(flow->unpaid_max, IBR_UNPAID_STEP);
		flow->unpaid_max = min(flow->unpaid_max, IBR_SENDS_MAX);
		flow->patient_until = 0;
		list_move_tail(&flow->ready, &path->ready);
	}
}

/*
 * What the engine waits for counts only while packets can be sent: before that no silence means anything, and
 * it would take the window back for what was lost. A path that comes up again begins with rel_conn_requeue(), and
 * what is due by then (an ACK, a probe) is done at once.
 */
static bool drive_times(const struct ibr_path *path)
{
	return path->established && path->state == IBRELK_PATH_UP;
}

static void drive_arm_at(struct ibr_path *path, u64 at)
{
	if (path->removed)
		return;
	/* A timer that is too early does no harm: it looks again. So most packets arm nothing. */
	if (at >= path->timer_at)
		return;
	path->timer_at = at;
	hrtimer_start(&path->timer, ns_to_ktime(max(at, path->now)), HRTIMER_MODE_ABS_SOFT);
}

static u64 drive_next(struct ibr_path *path)
{
	u64 at = drive_times(path) ? rel_next_timeout(&path->rel) : REL_TIME_NEVER;
	const struct ibr_outflow *flow = list_first_entry_or_null(&path->patient, struct ibr_outflow, ready);

	if (path->starved)
		at = min(at, path->now + STARVED_NS);
	if (flow)
		at = min(at, flow->patient_until);
	at = min(at, path->look_at);
	if (path->lane.qp)
		at = min(at, path->lane.look_at);
	return at;
}

/*
 * Question and answer move the deadlines of an ACK and of the tail probe with each message. What is armed and would go off
 * within a round trip, before the next packet can be there, is set anew if nothing is due by then: on the processor that
 * it is armed on, that is cheaper than an interrupt. (Where a round trip is longer than an ACK is delayed, and much goes
 * both ways, that is up to twice for a packet: for the ACK, and when it has gone.)
 */
static void drive_arm(struct ibr_path *path)
{
	u64 soon = path->now + path->rel.rtt.srtt_ns;
	u64 at = drive_next(path);

	if (path->timer_at < soon && at >= soon && at != REL_TIME_NEVER)
		path->timer_at = REL_TIME_NEVER;
	drive_arm_at(path, at);
}

void ibr_path_drive_locked(struct ibr_path *path)
{
	lockdep_assert_held(&path->lock);
	path->now = ktime_get_ns();
	path->starved = false;
	path->held = 0;
	path->held_until = 0;
	if (unlikely(path->doomed))
		ibr_path_give_up(path, path->doomed);
	drive_patient(path);
	if (unlikely(path->now >= path->lane.look_at))
		ibr_lane_look(path);
	if (path->state == IBRELK_PATH_UP) {
		if (drive_queue(path, &path->control) && drive_queue(path, &path->repeat)) {
			while (!list_empty(&path->opening) || !list_empty(&path->ready) || !list_empty(&path->bulk)) {
				if (!drive_turn(path))
					break;
				if (!list_empty(&path->control) && !drive_queue(path, &path->control))
					break;
			}
		}
		packet_send(path);
		drive_control(path);
		path->transport->flush(path);
	} else if (!list_empty(&path->control) || !list_empty(&path->repeat) || !list_empty(&path->opening) ||
		   !list_empty(&path->ready)) {
		ibr_path_want(path);
	}
	drive_arm(path);
}

/* What fills a packet, in the units of path->held. */
static u32 held_full(const struct ibr_path *path)
{
	return packet_bytes(path) - sizeof(struct wire_header);
}

void ibr_path_hold(struct ibr_path *path, u32 payload)
{
	u32 slot = min_t(u32, IBR_SLOT_BYTES, packet_bytes(path));
	u32 bytes = sizeof(struct wire_frame) + payload;

	if (slot <= HELD_SPARE) {
		ibr_path_urge(path);
		return;
	}
	/* Short ones fill the slot, or are as many as there may be frames, before they fill a packet; others, as payloads. */
	slot -= HELD_SPARE;
	if (payload <= IBR_FRAG_SMALL)
		bytes = max_t(u32, bytes, slot / WIRE_FRAMES_MAX) * held_full(path) / slot;
	else
		bytes = max_t(u32, bytes, DIV_ROUND_UP(held_full(path), IBR_SLOT_PAYLOADS));
	path->held = min(path->held + bytes, HELD_URGENT);
	path->held_messages++;
}

void ibr_path_urge(struct ibr_path *path)
{
	path->held = HELD_URGENT;
}

/* How long may what is queued wait for others? 0: not at all. */
static u64 drive_patience_ns(const struct ibr_path *path)
{
	int wait_us = READ_ONCE(coalesce_us);

	if (!READ_ONCE(ibr_aggregate) || path->state != IBRELK_PATH_UP || path->removed ||
	    !rel_in_flight(&path->rel) || path->held == HELD_URGENT)
		return 0;
	if (wait_us < 0)
		wait_us = path->fabric == IBR_FABRIC_SOFTWARE ? COALESCE_SOFTWARE_US : 0;
	return min(wait_us, COALESCE_US_MAX) * (u64)NSEC_PER_USEC;
}

void ibr_path_drive_soon(struct ibr_path *path)
{
	u64 patience;
	u32 packets;

	spin_lock_bh(&path->lock);
	patience = drive_patience_ns(path);
	if (patience)
		path->now = ktime_get_ns();
	/* The timer may come late, as its softirq does on a busy processor. */
	if (patience && path->held_until && path->held_until <= path->now)
		patience = 0;
	/* Who sends several in one call does so again, rather than one by one: they wait for one full packet only. */
	packets = path->held_messages > 1 ? 1 : HELD_PACKETS;
	path->held_messages = 0;
	if (!patience || !path->held || path->held >= packets * held_full(path)) {
		ibr_path_drive_locked(path);
	} else {
		if (!path->held_until)
			path->held_until = path->now + patience;
		drive_arm_at(path, path->held_until);
	}
	spin_unlock_bh(&path->lock);
}

void ibr_path_drive(struct ibr_path *path)
{
	spin_lock_bh(&path->lock);
	ibr_path_drive_locked(path);
	spin_unlock_bh(&path->lock);
}

static enum hrtimer_restart drive_timer(struct hrtimer *timer)
{
	struct ibr_path *path = container_of(timer, struct ibr_path, timer);
	const u64 deaf = IBR_DEAF_MS * NSEC_PER_MSEC;
	u64 silence, at;

	spin_lock_bh(&path->lock);
	path->timer_at = REL_TIME_NEVER;
	path->now = ktime_get_ns();
	/* It may have been for messages that are gone: those that wait now have a time of their own. */
	at = path->held_until ? min(path->held_until, drive_next(path)) : 0;
	if (at > path->now) {
		drive_arm_at(path, at);
		goto out;
	}
	if (drive_times(path))
		rel_handle_timeout(&path->rel, path->now);
	/* While it is being connected, connecting tells whether the peer is there, and why not. */
	if (path->state == IBRELK_PATH_UP) {
		silence = rel_silence_ns(&path->rel, path->now);
		/* A peer that has just been reached again may say something first, however long it has owed it. */
		if (silence > min(deaf, ibr_peer_timeout_ns()) && ibr_path_overdue(path)) {
			ibr_path_mourn(path);
			ibr_path_give_up(path, -ETIMEDOUT);
		} else if (silence > deaf) {
			ibr_path_suspect(path);
		}
	}
	if (path->now >= path->look_at)
		ibr_path_look(path);
	ibr_path_drive_locked(path);
out:
	spin_unlock_bh(&path->lock);
	return HRTIMER_NORESTART;
}

void ibr_drive_init(struct ibr_path *path)
{
	hrtimer_setup(&path->timer, drive_timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
}

static void drive_count_drop(struct ibr_path *path, enum wire_verdict verdict)
{
	switch (verdict) {
	case WIRE_BAD_LENGTH:
		path->counters.drop_length++;
		break;
	case WIRE_BAD_VERSION:
		path->counters.drop_version++;
		break;
	case WIRE_BAD_TOKEN:
		path->counters.drop_token++;
		break;
	case WIRE_BAD_CHECKSUM:
		path->counters.drop_checksum++;
		break;
	default:
		path->counters.drop_malformed++;
		break;
	}
}

/*
 * Hand a packet's frames to their owners. Return: 0, or -ENOMEM: the packet counts as not received (what
 * was delivered of it is recognised when it comes again).
 */
static int drive_deliver(struct ibr_path *path, const struct wire_header *header)
{
	const struct wire_frame *frame = wire_frames(header);
	const u8 *payload = (const u8 *)header + le16_to_cpu(header->header_len);
	u32 frames = le16_to_cpu(header->frames);
	int ret = 0;

	for (; frames && !ret; frames--, frame++) {
		switch (frame->type) {
		case WIRE_FRAME_EAGER:
			ret = ibr_eager_receive(path, frame, payload);
			break;
		case WIRE_FRAME_DATA:
		case WIRE_FRAME_CTS:
		case WIRE_FRAME_FIN:
		case WIRE_FRAME_ABORT:
		case WIRE_FRAME_WINDOW_END:
			ret = ibr_rendezvous_receive(path, frame, payload);
			break;
		default:
			ret = ibr_flow_handle_control(path, frame, payload);
			break;
		}
		payload += le16_to_cpu(frame->payload_len);
	}
	return ret;
}

void ibr_path_receive(struct ibr_path *path, const void *packet, u32 length, const struct ibr_qp *qp, u16 share)
{
	const struct wire_header *header = packet;
	enum wire_verdict verdict;

	spin_lock_bh(&path->lock);
	if (unlikely(!path->established || path->removed)) {
		path->counters.drop_token++;
		goto out;
	}
	verdict = wire_parse(packet, length, path->token, path->remote.secret);
	if (unlikely(verdict != WIRE_OK)) {
		drive_count_drop(path, verdict);
		goto out;
	}
	path->now = ktime_get_ns();
	if (unlikely(share != path->share)) {
		path->share = share;
		rel_credit_share(&path->rel, share);
	}
	if (path->lane.qp)
		ibr_lane_heard(path, qp);
	switch (rel_handle_header(&path->rel, header, path->now)) {
	case REL_NEW:
		if (unlikely(drive_deliver(path, header))) {
			path->counters.drop_memory++;
			break;
		}
		path->counters.rx_segments += le16_to_cpu(header->frames);
		rel_commit(&path->rel, header, path->now);
		break;
	case REL_DUPLICATE:
		path->counters.rx_duplicates++;
		break;
	case REL_DROP:
		path->counters.drop_window++;
		break;
	case REL_NOTHING:
		break;
	}
out:
	spin_unlock_bh(&path->lock);
}

void ibr_path_count_early(struct ibr_path *path)
{
	spin_lock_bh(&path->lock);
	path->counters.drop_flow++;
	spin_unlock_bh(&path->lock);
}

void ibr_path_written(struct ibr_path *path, u32 immediate, u32 length, const struct ibr_qp *qp)
{
	u32 unit = immediate >> WIRE_IMMEDIATE_UNIT & (WIRE_IMMEDIATE_UNITS - 1);
	u32 name = immediate >> WIRE_IMMEDIATE_NAME & (WIRE_CTS_NAMES - 1);
	struct ibr_window *window;
	struct wire_header header;

	spin_lock_bh(&path->lock);
	window = path->written[name];
	/* The adapter has checked the key: this is of the window that has the name now, maybe in a former life. */
	if (unlikely(!path->established || path->removed || !window || path->transport->rdma(path) != qp ||
		     (window->transfer->dying && window->state != IBR_WINDOW_FENCED))) {
		path->counters.drop_flow++;
		goto out;
	}
	path->now = ktime_get_ns();
	if (unlikely(!ibr_window_expects(window, unit, length))) {
		path->counters.drop_malformed++;
		goto out;
	}
	if (path->lane.qp)
		ibr_lane_heard(path, qp);
	switch (rel_handle_bare(&path->rel, path_kind(path, false), immediate & (BIT(REL_BARE_BITS) - 1),
				window->since, immediate & WIRE_IMMEDIATE_ASK, path->now, &header)) {
	case REL_NEW:
		path->counters.rx_segments++;
		path->counters.rx_written++;
		rel_commit(&path->rel, &header, path->now);
		ibr_window_written(window, unit);
		break;
	case REL_DUPLICATE:
		path->counters.rx_duplicates++;
		break;
	default:
		path->counters.drop_window++;
		break;
	}
out:
	spin_unlock_bh(&path->lock);
}
