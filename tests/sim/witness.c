// SPDX-License-Identifier: GPL-2.0-only
/*
 * Checkers that look inside the module: which packets it takes, and whether its queues, credits and timers are as
 * they must be. They read, and never change, what they look at.
 */
#include "module.h"
#include "device.h"
#include "drive.h"
#include "flow.h"
#include "path.h"
#include "pins.h"
#include "params.h"
#include "reliability/engine.h"
#include "reliability/seq.h"
#include "shim.h"
#include "transport/transport.h"
#include "transport/verbs.h"

#define PATHS_MAX	4096
#define AHEAD_MAX	4096

#define WAITING_MAX	64
#define CALM_MS		100		/* ... after which a connection is no new one */
#define BEHIND_MAX	4		/* fragments of transfers that may go before a message that waits */

/* struct watch - what a path was like when it was last looked at */
struct watch {
	u64 lives;
	u64 up_since;
	u64 timeouts;
	u64 calm_since, calm_lives, calm_timeouts;	/* check_calm() */
	u64 owing;			/* since when it has owed something, and nothing was heard; 0: not */
	bool down;
	const struct ibr_outflow *turn;	/* who has sent last ... */
	const struct ibr_outflow *next;	/* ... and whose turn comes after it ... */
	u32 messages;			/* ... so many in a row, since this one waits */
	struct {
		const struct ibr_outflow *flow;	/* it waits for its turn ... */
		u64 message;			/* ... to send this one, by its user's data, ... */
		u32 behind;			/* ... since so many fragments of transfers */
	} waiting[WAITING_MAX];
};

static struct ibr_path *paths[PATHS_MAX];
static struct watch watches[PATHS_MAX];		/* each beside its path */
static u32 path_count;

/* ---- which paths there are ---- */

void __real_ibr_drive_init(struct ibr_path *path);
void __wrap_ibr_drive_init(struct ibr_path *path);

void __wrap_ibr_drive_init(struct ibr_path *path)
{
	if (path_count == PATHS_MAX)
		sim_fail("shim", "too many paths");
	memset(&watches[path_count], 0, sizeof(watches[0]));
	paths[path_count++] = path;
	/* Handles have 24 bits. */
	if (sim_config.wrap)
		path->handle_next = (1u << 24) - (u32)sim_config.wrap;
	__real_ibr_drive_init(path);
}

void sim_forget(const void *object)
{
	u32 i;

	for (i = 0; i < path_count; i++)
		if (paths[i] == object) {
			paths[i] = paths[--path_count];
			watches[i] = watches[path_count];
			return;
		}
}

struct ibr_path *sim_path(u32 i)
{
	return i < path_count ? paths[i] : NULL;
}

/* ---- which packets are taken ---- */

bool sim_origin(void *context, const struct ib_send_wr *wr, u32 *token, u32 *to);
bool sim_carries(const void *context);
/* C++: see adapter.cpp */
bool sim_packet_take(const void *packet, u32 token, u32 remote_token, u64 remote_instance, bool frames);
/* An event that comes late is still to come. */
bool sim_event_to_come(const struct ib_cq *cq);
void sim_written(struct ib_qp *qp, u32 immediate, u32 length, u32 token, u32 remote_token, u64 remote_instance, bool taken);

bool sim_origin(void *context, const struct ib_send_wr *wr, u32 *token, u32 *to)
{
	const struct ibr_send_slot *slot = container_of(wr, struct ibr_send_slot, wr.wr);
	const struct ibr_qp *qp = context;
	const struct ibr_path *path = qp->path ? qp->path : slot->dest ? slot->dest->path : NULL;

	if (!path)
		return false;
	*token = path->token;
	*to = path->remote.token;
	return true;
}

bool sim_carries(const void *context)
{
	const struct ibr_qp *qp = context;

	return qp->path && qp->path->established && (qp->path->qp == qp || !qp->path->qp);
}

static struct watch *watch_of(const struct ibr_path *path)
{
	u32 i;

	for (i = 0; i < path_count; i++)
		if (paths[i] == path)
			return &watches[i];
	sim_fail("shim", "an unknown path");
}

bool __real_ibr_lane_up(struct ibr_path *path, const struct ibr_remote *remote, struct ibr_qp *qp);
bool __wrap_ibr_lane_up(struct ibr_path *path, const struct ibr_remote *remote, struct ibr_qp *qp);

bool __wrap_ibr_lane_up(struct ibr_path *path, const struct ibr_remote *remote, struct ibr_qp *qp)
{
	bool up = __real_ibr_lane_up(path, remote, qp);

	sim_counts.lanes += up;
	return up;
}

int __real_ibr_connect_start(struct ibr_path *path);
int __wrap_ibr_connect_start(struct ibr_path *path);

/* An endpoint that is closed drives all paths, those of other nodes too; each of these answers for itself. */
int __wrap_ibr_connect_start(struct ibr_path *path)
{
	int ret;

	sim_enter(SIM_WORK, sim_node_of_gid(path->key.local_gid), 0);
	ret = __real_ibr_connect_start(path);
	sim_leave();
	return ret;
}

void __real_ibr_path_receive(struct ibr_path *path, const void *packet, u32 length, const struct ibr_qp *qp, u16 share);
void __wrap_ibr_path_receive(struct ibr_path *path, const void *packet, u32 length, const struct ibr_qp *qp, u16 share);

void __wrap_ibr_path_receive(struct ibr_path *path, const void *packet, u32 length, const struct ibr_qp *qp, u16 share)
{
	u64 frames = path->counters.rx_segments, control = path->rel.stats.acks_received;
	u64 duplicates = path->counters.rx_duplicates, lives = path->counters.lives;
	u64 dropped = path->counters.drop_window + path->counters.drop_memory;
	bool took_frames;
	u64 instance;

	__real_ibr_path_receive(path, packet, length, qp, share);
	took_frames = path->counters.rx_segments != frames;
	if (took_frames || path->rel.stats.acks_received != control || path->counters.rx_duplicates != duplicates ||
	    path->counters.drop_window + path->counters.drop_memory != dropped)
		watch_of(path)->owing = 0;
	if (path->counters.lives != lives || path->transport == &ibr_transport_loop)
		return;
	memcpy(&instance, path->remote.instance, sizeof(instance));
	if (took_frames || path->rel.stats.acks_received != control)
		sim_packet_take(packet, path->token, path->remote.token, instance, took_frames);
	else if (path->counters.rx_duplicates == duplicates)
		sim_counts.rejected_old++;
}

void __real_ibr_path_written(struct ibr_path *path, u32 immediate, u32 length, const struct ibr_qp *qp);
void __wrap_ibr_path_written(struct ibr_path *path, u32 immediate, u32 length, const struct ibr_qp *qp);

void __wrap_ibr_path_written(struct ibr_path *path, u32 immediate, u32 length, const struct ibr_qp *qp)
{
	u64 before = path->counters.rx_written;
	u64 instance;

	__real_ibr_path_written(path, immediate, length, qp);
	memcpy(&instance, path->remote.instance, sizeof(instance));
	sim_written(qp->qp, immediate, length, path->token, path->remote.token, instance,
		    path->counters.rx_written != before);
}

/* ---- who goes first ---- */

bool __real_ibr_send_start(struct ibr_path *path, struct ibr_outflow *flow);
bool __wrap_ibr_send_start(struct ibr_path *path, struct ibr_outflow *flow);
bool __real_ibr_bulk_fill(struct ibr_path *path, struct ibr_send *send);
bool __wrap_ibr_bulk_fill(struct ibr_path *path, struct ibr_send *send);

/* Has it to wait for credit, since of those that went by RTS for want of it as many as may be are not asked for? */
static bool must_wait(const struct ibr_path *path, const struct ibr_outflow *flow)
{
	const struct ibr_send *send = list_first_entry(&flow->queue, struct ibr_send, link);
	u32 cost = ibr_message_cost(send->length);

	if (send->started || !send->data || send->length > (u64)IBR_EAGER_FRAGS_MAX * path->payload_max ||
	    (path->native && send->level > IBRELK_LEVEL_BUFFERED))
		return false;
	return flow->cost + cost > flow->limit && cost <= flow->grant && ibr_credit_wait_us &&
	       flow->unpaid >= flow->unpaid_max;
}

static const struct ibr_outflow *next_turn(const struct ibr_path *path, const struct ibr_outflow *flow)
{
	const struct ibr_outflow *other;

	list_for_each_entry(other, &path->ready, ready)
		if (other != flow)
			return other;
	return NULL;
}

bool __wrap_ibr_send_start(struct ibr_path *path, struct ibr_outflow *flow)
{
	const struct ibr_outflow *next;
	struct watch *watch = watch_of(path);
	u32 unpaid = flow->unpaid, announced = flow->announced;
	bool waits = must_wait(path, flow), sent = __real_ibr_send_start(path, flow);
	u32 i;

	if (waits && flow->announced != announced)
		sim_fail("bound", "outflow %u: a message went by RTS for want of credit, beside %u of %u", flow->h.id,
			 unpaid, flow->unpaid_max);
	if (flow->unpaid != unpaid && (flow->unpaid != unpaid + 1 || flow->unpaid > flow->unpaid_max))
		sim_fail("bound", "outflow %u: %u went by RTS for want of credit, then %u of %u", flow->h.id, unpaid,
			 flow->unpaid, flow->unpaid_max);
	if (!sent)
		return false;
	for (i = 0; i < WAITING_MAX; i++)
		if (watch->waiting[i].flow == flow)
			watch->waiting[i].flow = NULL;
	/* What it sent while it was alone, or while another waited who has left, was not at the cost of this one. */
	next = next_turn(path, flow);
	if (watch->turn != flow || watch->next != next)
		watch->messages = 0;
	watch->turn = flow;
	watch->next = next;
	if (next && ++watch->messages > WIRE_FRAMES_MAX + 1)
		sim_fail("turn", "path: a flow sent %u messages in a row while another waits", watch->messages);
	return true;
}

static u64 first_message(const struct ibr_outflow *flow)
{
	return list_first_entry(&flow->queue, struct ibr_send, link)->user_data;
}

/* A flow may have left since, because its message was taken back, and wait anew with another one. */
static u32 behind(const struct watch *watch, const struct ibr_outflow *flow)
{
	u32 i;

	for (i = 0; i < WAITING_MAX; i++)
		if (watch->waiting[i].flow == flow && watch->waiting[i].message == first_message(flow))
			return watch->waiting[i].behind;
	return 0;
}

bool __wrap_ibr_bulk_fill(struct ibr_path *path, struct ibr_send *send)
{
	struct watch *watch = watch_of(path);
	const struct watch before = *watch;
	bool filled = __real_ibr_bulk_fill(path, send);
	const struct ibr_outflow *flow;
	u32 count = 0;

	memset(watch->waiting, 0, sizeof(watch->waiting));
	list_for_each_entry(flow, &path->ready, ready) {
		if (count == WAITING_MAX)
			break;
		watch->waiting[count].flow = flow;
		watch->waiting[count].message = first_message(flow);
		watch->waiting[count].behind = behind(&before, flow) + filled;
		if (watch->waiting[count].behind > BEHIND_MAX)
			sim_fail("turn", "path: %u fragments of transfers went before a message that waits",
				 watch->waiting[count].behind);
		count++;
	}
	return filled;
}

/* ---- what must hold at any time ---- */

static u32 count_list(const struct list_head *head)
{
	const struct list_head *entry;
	u32 count = 0;

	list_for_each(entry, head)
		count++;
	return count;
}

static u64 path_memory(const struct ibr_path *path)
{
	const struct rel_sender *sender = &path->rel.sender;
	const struct ibr_frag *frag;
	u64 bytes = 0;
	u32 i;

	for (i = 0; i < REL_SPAN_MAX; i++) {
		if (!rel_bits_test(&sender->flight, i))
			continue;
		frag = path->ring[(sender->floor + i) % REL_SPAN_MAX].cookie;
		for (; frag; frag = frag->next)
			bytes += frag->payload_len;
	}
	return bytes;
}

static void check_inflow(const struct ibr_inflow *flow)
{
	const struct ibr_message *message;
	const struct ibr_transfer *transfer;
	u32 count = 0, last = flow->next - 1;

	list_for_each_entry(transfer, &flow->transfers, link)
		count += (transfer->wire_flags & (WIRE_MSG_REMOTE | WIRE_MSG_ANSWER)) == WIRE_MSG_REMOTE;
	if (count > flow->headers_waiting)
		sim_fail("bound", "inflow %u: %u puts are under way, of %u headers", flow->h.id, count,
			 flow->headers_waiting);
	count = 0;
	if (flow->grant != flow->limit - flow->spent + flow->waiting_cost)
		sim_fail("credit", "inflow %u: granted %llu, but limit %llu - spent %llu + waiting %llu", flow->h.id,
			 flow->grant, flow->limit, flow->spent, flow->waiting_cost);
	if (flow->grant > IBR_GRANT_MAX || flow->waiting_cost > flow->grant)
		sim_fail("bound", "inflow %u: grant %llu, waiting %llu", flow->h.id, flow->grant, flow->waiting_cost);
	if (flow->headers_waiting > flow->headers || flow->headers > IBR_SENDS_MAX)
		sim_fail("bound", "inflow %u: %u headers wait, %u may", flow->h.id, flow->headers_waiting,
			 flow->headers);
	list_for_each_entry(message, &flow->early, link) {
		if (!rel_seq_after(message->sequence, last))
			sim_fail("order", "inflow %u: early messages are not in order", flow->h.id);
		last = message->sequence;
		count++;
	}
	if (count > AHEAD_MAX + 1)
		sim_fail("bound", "inflow %u: %u messages wait for their turn", flow->h.id, count);
}

/* Does the next message wait for something that only the peer can give? */
static bool outflow_waits(const struct ibr_outflow *flow)
{
	const struct ibr_send *first = list_first_entry_or_null(&flow->announcing, struct ibr_send, announcing);
	const struct ibr_send *send = list_first_entry(&flow->queue, struct ibr_send, link);
	const struct ibr_path *path = flow->path;

	if (send->started)
		return false;
	if (send->data && send->length <= (u64)IBR_EAGER_FRAGS_MAX * path->payload_max &&
	    !(path->native && send->level > IBRELK_LEVEL_BUFFERED) &&
	    flow->cost + ibr_message_cost(send->length) <= flow->limit)
		return first;
	return flow->announced == flow->announce_limit ||
	       (first && flow->sequence - first->sequence >= IBR_MISSING_MAX);
}

/*
 * Of the messages that went by RTS for want of credit, those that nobody has asked for are counted. When credit comes
 * they may be fewer again (unpaid_max begins anew), while more of them are still there; so that they are no more than
 * may be is seen where one is added (ibr_send_start()).
 */
static void check_unpaid(const struct ibr_outflow *flow)
{
	const struct ibr_send *send;
	u32 unpaid = 0;

	list_for_each_entry(send, &flow->sent, link)
		unpaid += send->unpaid;
	list_for_each_entry(send, &flow->queue, link)
		if (send->unpaid)
			sim_fail("count", "outflow %u: a message that is not announced is counted as such", flow->h.id);
	if (unpaid != flow->unpaid)
		sim_fail("count", "outflow %u: %u went by RTS for want of credit, counted %u", flow->h.id, unpaid,
			 flow->unpaid);
	if (flow->unpaid > IBR_SENDS_MAX || flow->unpaid_max > IBR_SENDS_MAX || flow->unpaid_max % IBR_UNPAID_STEP)
		sim_fail("bound", "outflow %u: %u of %u may go by RTS", flow->h.id, flow->unpaid, flow->unpaid_max);
}

static void check_outflow(const struct ibr_outflow *flow)
{
	check_unpaid(flow);
	if (flow->state == IBR_OUTFLOW_CLOSED)
		sim_fail("state", "a closed outflow is on its path");
	if (flow->cost > flow->limit)
		sim_fail("credit", "outflow %u spent %llu of %llu", flow->h.id, flow->cost, flow->limit);
	if (flow->state == IBR_OUTFLOW_OPEN && (s32)(flow->announce_limit - flow->announced) < 0)
		sim_fail("credit", "outflow %u announced %u of %u", flow->h.id, flow->announced, flow->announce_limit);
	if ((u32)atomic_read(&flow->endpoint->sends) > flow->endpoint->sends_max)
		sim_fail("bound", "an endpoint has %d sends", atomic_read(&flow->endpoint->sends));
	if (flow->state == IBR_OUTFLOW_OPENING && !list_empty(&flow->sent))
		sim_fail("state", "outflow %u has sent before it is open", flow->h.id);
	if (flow->state == IBR_OUTFLOW_OPEN && !list_empty(&flow->queue) && list_empty(&flow->ready) &&
	    !outflow_waits(flow))
		sim_fail("wake", "outflow %u may go on, and is not ready", flow->h.id);
}

/* Whoever waits for a slot is told when there is one: by a completion that is still to come, or by a poll. */
static void check_slots(const struct ibr_qp *qp)
{
	if (qp->closed || qp->failed || !qp->live || test_bit(IBR_QP_OWNED, &qp->state) || qp->poll.scheduled)
		return;
	if (test_bit(IBR_QP_AGAIN, &qp->state))
		sim_fail("wake", "queue pair: a poll was asked for, and nobody polls");
	if (!qp->free_count || (s32)(qp->reapable - qp->completed) > 0 || sim_event_to_come(qp->send_cq))
		return;
	if (qp->starved || !list_empty(&qp->starved_dests))
		sim_fail("wake", "queue pair: somebody waits for one of %u slots, and nobody polls", qp->free_count);
}

/* The other end of a path, by address; it may be in another life. */
static const struct ibr_path *path_back(const struct ibr_path *path)
{
	u32 i;

	for (i = 0; i < path_count; i++)
		if (paths[i]->key.mode == path->key.mode && !paths[i]->removed &&
		    !memcmp(paths[i]->key.local_gid, path->key.remote_gid, 16) &&
		    !memcmp(paths[i]->key.remote_gid, path->key.local_gid, 16))
			return paths[i];
	return NULL;
}

/* Nobody believes to have more credit than the other end has granted: what is sent beyond that finds no buffer. */
static void check_credit(const struct ibr_path *path)
{
	const struct ibr_path *back = path_back(path);

	if (!back || !path->established || !back->established || back->remote.token != path->token ||
	    path->remote.token != back->token)
		return;
	if (rel_seq_after(path->rel.credit.limit, back->rel.credit.granted))
		sim_fail("credit", "path: may send up to %u, and is granted %u", path->rel.credit.limit,
			 back->rel.credit.granted);
}

static void check_path(const struct ibr_path *path)
{
	const struct rel_conn *rel = &path->rel;
	const struct ibr_outflow *out;
	const struct ibr_share *share;
	const struct ibr_inflow *in;
	u32 outs = 0, openings = 0, ins = 0, shared = 0, shared_openings = 0;

	if (path->lock.lock.held)
		sim_fail("shim", "a path is checked while it is locked");
	if (path->queue != count_list(&path->control) + count_list(&path->repeat))
		sim_fail("count", "path: %u fragments wait, counted %u", count_list(&path->control) +
			 count_list(&path->repeat), path->queue);
	if (path->held_until && !path->removed && path->timer_at > path->held_until)
		sim_fail("wake", "path: messages wait for others until %llu, and the timer until %llu", path->held_until,
			 path->timer_at);
	list_for_each_entry(out, &path->outflows, on_path) {
		check_outflow(out);
		outs++;
		openings += out->state == IBR_OUTFLOW_OPENING;
	}
	list_for_each_entry(in, &path->inflows, on_path) {
		check_inflow(in);
		ins++;
	}
	if (ins != path->inflow_count || ins + outs != path->flow_count || ins > IBR_INFLOWS_MAX)
		sim_fail("count", "path: %u inflows and %u outflows, counted %u and %u", ins, outs, path->inflow_count,
			 path->flow_count);
	list_for_each_entry(share, &path->shares, node) {
		shared += share->inflows;
		shared_openings += share->openings;
	}
	if (shared != ins)
		sim_fail("count", "path: %u inflows, of which users have %u", ins, shared);
	if (openings != path->opening_count || openings != shared_openings)
		sim_fail("count", "path: %u flows are being opened, counted %u, of which users have %u", openings,
			 path->opening_count, shared_openings);
	if (!path->established) {
		if (path->memory)
			sim_fail("count", "path: %llu bytes in flight without a peer", path->memory);
		return;
	}
	if (rel_in_flight(rel) > rel->config.window_pkts)
		sim_fail("bound", "path: %u packets in flight", rel_in_flight(rel));
	if (rel->sender.next - rel->sender.floor > REL_SPAN_MAX)
		sim_fail("bound", "path: numbers %u to %u", rel->sender.floor, rel->sender.next);
	if (rel_seq_after(rel_credit_next(rel), rel->credit.limit))
		sim_fail("credit", "path: sent up to %u, but may only to %u", rel_credit_next(rel), rel->credit.limit);
	if (path->queue > IBR_CONTROL_MAX + REL_SPAN_MAX * WIRE_FRAMES_MAX)
		sim_fail("bound", "path: %u fragments wait", path->queue);
	if (path->memory != path_memory(path))
		sim_fail("count", "path: %llu bytes in flight, counted %llu", path_memory(path), path->memory);
	/* Whatever the engine waits for, something will wake it up, and by then. */
	if (path->state == IBRELK_PATH_UP && !path->removed && rel_next_timeout(rel) != REL_TIME_NEVER &&
	    !path->timer.timer.id)
		sim_fail("timer", "path: the engine waits for %llu, and no timer runs", rel_next_timeout(rel));
	if (path->state == IBRELK_PATH_UP && !path->removed && path->established && path->timer_at > rel_next_timeout(rel))
		sim_fail("timer", "path: the engine waits for %llu, and the timer for %llu", rel_next_timeout(rel),
			 path->timer_at);
	if (!path->removed && path->starved && !path->timer.timer.id)
		sim_fail("timer", "path: starved, and no timer runs");
	if (path->qp)
		check_slots(path->qp);
	if (path->lane.qp)
		check_slots(path->lane.qp);
}

/*
 * No time-out means anything, and none takes the window back, while nothing could have been sent. Nobody waits for ever
 * for a peer that says nothing.
 */
static void check_watch(const struct ibr_path *path, struct watch *watch)
{
	const struct sim_config *c = &sim_config;
	bool down = path->established && path->state != IBRELK_PATH_UP;
	/* To notice takes a while, and so does an attempt to connect that was begun before the time was over. */
	u64 most_ms = c->peer_timeout_ms + c->connect_timeout_ms + 4000 + c->pauses * c->pause_ms +
		      c->jumps * c->jump_ms;
	u64 owing = watch->owing;

	if (down && watch->down && watch->lives == path->counters.lives && watch->up_since == path->up_since &&
	    watch->timeouts != path->rel.stats.timeouts)
		sim_fail("window", "path: %llu time-outs while it is not up", path->rel.stats.timeouts - watch->timeouts);
	if (!path->established || watch->lives != path->counters.lives ||
	    (!rel_in_flight(&path->rel) && list_empty(&path->repeat)))
		owing = 0;
	else if (!owing)
		owing = sim_now();
	else if (sim_now() - owing > most_ms * NSEC_PER_MSEC)
		sim_fail("silence", "path: the peer owes an answer for %llu ms, and is not given up",
			 (sim_now() - owing) / NSEC_PER_MSEC);
	watch->owing = owing;
	watch->down = down;
	watch->lives = path->counters.lives;
	watch->up_since = path->up_since;
	watch->timeouts = path->rel.stats.timeouts;
}

bool sim_only_processes;

/*
 * Whatever processes do, or leave undone: their nodes are never late, and are not taken for gone. While a connection is
 * new, what was sent by one that it replaces may be repeated; and so may be what went by a lane that comes or goes.
 */
static void check_calm(const struct ibr_path *path, struct watch *watch)
{
	if (path->native || path->key.mode == IBRELK_MODE_AUTO || !path->established)
		return;
	if (!watch->calm_since || sim_now() - watch->calm_since < CALM_MS * NSEC_PER_MSEC) {
		watch->calm_since = watch->calm_since ?: sim_now();
		watch->calm_lives = path->counters.lives;
		watch->calm_timeouts = path->rel.stats.timeouts;
	} else if (path->rel.stats.timeouts != watch->calm_timeouts || path->counters.lives != watch->calm_lives) {
		sim_fail("calm", "path: time-out %llu in life %llu, and only processes can be late",
			 path->rel.stats.timeouts, path->counters.lives);
	}
}

void sim_check_all(void)
{
	u32 i;

	for (i = 0; i < path_count; i++) {
		check_path(paths[i]);
		check_credit(paths[i]);
		check_watch(paths[i], &watches[i]);
		if (sim_only_processes)
			check_calm(paths[i], &watches[i]);
	}
}

static void check_space(const struct ibr_space *space)
{
	const struct ibr_pins *pins;
	unsigned long pages = 0;

	list_for_each_entry(pins, &space->idle, idle) {
		if (pins->users || !pins->fresh || pins->space != space)
			sim_fail("bound", "what is pinned, and idle, is in use, or not what is there");
		pages += pins->nr_pages;
	}
	if (pages != space->idle_pages || pages > space->idle_max)
		sim_fail("bound", "%lu pages are pinned and idle, counted %lu of %lu", pages, space->idle_pages,
			 space->idle_max);
}

void sim_check_endpoint(const struct ibr_endpoint *endpoint)
{
	const struct match_message *match;
	const struct ibr_message *message;
	const struct ibr_inflow *flow;
	u64 bytes = 0, granted = 0;
	u32 space, count = 0, claimed = 0, sources = 0, i;
	unsigned long claim;

	if (endpoint->space)
		check_space(endpoint->space);
	for (space = 0; space < MATCH_SPACES; space++)
		list_for_each_entry(match, &endpoint->match.message_all[space], links.all) {
			message = container_of(match, struct ibr_message, match);
			if (!message->rts)
				bytes += ibr_message_cost(message->length);
			count++;
		}
	if (count != endpoint->match.messages)
		sim_fail("count", "endpoint %u: %u messages wait, counted %u", endpoint->id, count,
			 endpoint->match.messages);
	xa_for_each((struct xarray *)&endpoint->claims, claim, message) {
		if (!message->rts)
			bytes += ibr_message_cost(message->length);
		claimed++;
	}
	if (claimed != endpoint->claimed)
		sim_fail("count", "endpoint %u: %u messages are claimed, counted %u", endpoint->id, claimed,
			 endpoint->claimed);
	if (bytes != endpoint->unexpected_bytes || bytes > endpoint->unexpected_max)
		sim_fail("bound", "endpoint %u: %llu bytes wait, counted %llu of %llu", endpoint->id, bytes,
			 endpoint->unexpected_bytes, endpoint->unexpected_max);
	if ((u64)atomic64_read(&endpoint->answer_bytes) > endpoint->unexpected_max)
		sim_fail("bound", "endpoint %u: %lld bytes of answers of %llu", endpoint->id,
			 (long long)atomic64_read(&endpoint->answer_bytes), endpoint->unexpected_max);
	if (endpoint->unexpected_granted > endpoint->unexpected_max)
		sim_fail("credit", "endpoint %u: granted %llu of %llu", endpoint->id, endpoint->unexpected_granted,
			 endpoint->unexpected_max);
	if (endpoint->headers_granted > IBR_HEADERS_MAX || endpoint->sources > IBR_SOURCES_MAX)
		sim_fail("bound", "endpoint %u: %u headers granted, %u sources", endpoint->id,
			 endpoint->headers_granted, endpoint->sources);
	/* A multi-receive is accepted while there is room for one. */
	if ((u32)atomic_read(&endpoint->recvs) >= 2 * endpoint->recvs_max ||
	    endpoint->match.recvs > (u32)atomic_read(&endpoint->recvs))
		sim_fail("bound", "endpoint %u: %u receives, %d outstanding", endpoint->id, endpoint->match.recvs,
			 atomic_read(&endpoint->recvs));
	for (i = 0; i < path_count; i++)
		list_for_each_entry(flow, &paths[i]->inflows, on_path)
			if (flow->endpoint == endpoint) {
				granted += flow->grant;
				sources++;
			}
	/* Flows that are over keep what their messages occupy. */
	if (granted > endpoint->unexpected_granted || (sources == endpoint->sources &&
						       granted != endpoint->unexpected_granted))
		sim_fail("credit", "endpoint %u: %u of %u flows have %llu, counted %llu", endpoint->id, sources,
			 endpoint->sources, granted, endpoint->unexpected_granted);
}

/* ---- what must hold when nothing is under way ---- */

/* Both ends of a flow agree on what was sent, and what may be. */
static void check_ends(const struct ibr_outflow *out, const struct ibr_path *back)
{
	const struct ibr_inflow *in;

	list_for_each_entry(in, &back->inflows, on_path) {
		if (in->h.id != out->remote_handle)
			continue;
		if (out->limit > in->limit)
			sim_fail("credit", "the sender believes in a limit of %llu, the receiver in %llu", out->limit,
				 in->limit);
		/* Control is reliable in native modes, too. */
		if (out->announced != in->announced || out->announce_limit != in->announce_told)
			sim_fail("credit", "announced %u/%u of %u/%u", out->announced, in->announced,
				 out->announce_limit, in->announce_told);
		if (!back->native && (out->cost != in->spent || out->sequence != in->next ||
				      out->limit != in->advertised))
			sim_fail("credit", "cost %llu/%llu, messages %u/%u, limit %llu/%llu", out->cost, in->spent,
				 out->sequence, in->next, out->limit, in->advertised);
		return;
	}
	sim_fail("state", "an open flow has no other end");
}

/* Nobody sends before the other side can know his packets. */
static void check_known(const struct ibr_path *path)
{
	const struct sim_config *c = &sim_config;
	struct ibr_port *port;

	if (c->replay || c->corrupt || c->wedges || c->qp_errors || c->post_errors || c->arm_errors || c->flaps ||
	    c->partitions)
		return;
	/*
	 * A call that is overtaken by the next one, made after a second (ANSWER_MS), is answered in its place; and the answer's
	 * queue pair may get the number of that which the peer was told of.
	 */
	if (c->reuse && c->cm_delay_us > 1000000)
		return;
	port = ibr_port_find_gid(path->key.local_gid);
	if (!port)
		return;
	if (atomic64_read(&port->drops[WIRE_BAD_TOKEN]))
		sim_fail("known", "a port has dropped %llu packets that it did not know",
			 (u64)atomic64_read(&port->drops[WIRE_BAD_TOKEN]));
	ibr_port_put(port);
}

bool sim_busy(void)
{
	const struct ibr_inflow *in;
	u32 i;

	for (i = 0; i < path_count; i++)
		list_for_each_entry(in, &paths[i]->inflows, on_path)
			if (!list_empty(&in->transfers))
				return true;
	return false;
}

void sim_check_quiet(bool gentle)
{
	const struct ibr_path *path, *back;
	const struct ibr_outflow *out;
	const struct ibr_inflow *in;
	bool joined;
	u32 i;

	for (i = 0; i < path_count; i++) {
		path = paths[i];
		if (path->removed)
			continue;
		back = path_back(path);
		joined = back && path->state == IBRELK_PATH_UP && back->state == IBRELK_PATH_UP &&
			 back->remote.token == path->token && path->remote.token == back->token;
		if (gentle)
			check_known(path);
		/* Who has lost the other end may look for it for long, only to say good-bye. */
		if ((gentle || joined) &&
		    (path->queue || path->memory || (path->established && rel_in_flight(&path->rel))))
			sim_fail("progress", "path: %u fragments wait, %u packets in flight", path->queue,
				 rel_in_flight(&path->rel));
		list_for_each_entry(in, &path->inflows, on_path)
			if (in->headers_waiting && list_empty(&in->early) && !in->endpoint->match.messages &&
			    !in->endpoint->claimed)
				sim_fail("credit", "inflow %u: %u headers wait for nothing", in->h.id, in->headers_waiting);
		if (!joined)
			continue;
		if (path->lane.qp && back->lane.qp && path->remote.packet_max > back->lane.qp->packet_max)
			sim_fail("bound", "packets of %u bytes for a lane with buffers of %u", path->remote.packet_max,
				 back->lane.qp->packet_max);
		list_for_each_entry(out, &path->outflows, on_path)
			if (out->state == IBR_OUTFLOW_OPEN)
				check_ends(out, back);
	}
}

u64 sim_lost_messages(const u8 local[16], const u8 remote[16], u32 mode)
{
	u64 lost = 0;
	u32 i;

	for (i = 0; i < path_count; i++)
		if (paths[i]->key.mode == mode && !memcmp(paths[i]->key.local_gid, local, 16) &&
		    !memcmp(paths[i]->key.remote_gid, remote, 16))
			lost += paths[i]->counters.lost_messages;
	return lost;
}

/* ---- for people ---- */

static void describe_path(const struct ibr_path *path)
{
	const struct ibr_transfer *transfer;
	const struct ibr_message *message;
	const struct ibr_outflow *out;
	const struct ibr_inflow *in;
	const struct ibr_send *send;

	fprintf(stderr, "path %u -> %u mode %u: state %u error %d removed %u established %u timer %s next %llu starved %u "
		"doomed %d\n", path->key.local_gid[15], path->key.remote_gid[15], path->key.mode, path->state,
		path->error, path->removed, path->established, path->timer.timer.id ? "runs" : "off",
		rel_next_timeout(&path->rel), path->starved, path->doomed);
	fprintf(stderr, "  control %u repeat %u ready %u bulk %u in flight %u next %x floor %x blocked %u limit %x cum %x\n",
		count_list(&path->control), count_list(&path->repeat), count_list(&path->ready),
		count_list(&path->bulk), rel_in_flight(&path->rel), path->rel.sender.next, path->rel.sender.floor,
		path->rel.credit.blocked, path->rel.credit.limit, path->rel.receiver.cum);
	fprintf(stderr, "  drops: length %llu malformed %llu window %llu flow %llu memory %llu checksum %llu token %llu "
		"limit %llu\n", path->counters.drop_length, path->counters.drop_malformed, path->counters.drop_window,
		path->counters.drop_flow, path->counters.drop_memory, path->counters.drop_checksum,
		path->counters.drop_token, path->counters.drop_limit);
	list_for_each_entry(out, &path->outflows, on_path) {
		fprintf(stderr, "  outflow %u: state %u queue %u sent %u cost %llu limit %llu announced %u of %u "
			"announcing %u ready %u closing %u\n", out->h.id, out->state, count_list(&out->queue),
			count_list(&out->sent), out->cost, out->limit, out->announced, out->announce_limit,
			count_list(&out->announcing), !list_empty(&out->ready), out->closing);
		list_for_each_entry(send, &out->sent, link)
			fprintf(stderr, "    send %u: sequence %u length %llu offset %llu windows %u busy %u unacked %u "
				"transfer %u data %u flags %x\n", send->h.id, send->sequence, send->length,
				send->offset, send->windows, send->umem_busy, send->unacked, send->transfer,
				!!send->data, send->wire_flags);
	}
	list_for_each_entry(in, &path->inflows, on_path) {
		fprintf(stderr, "  inflow %u: next %u early %u spent %llu limit %llu headers %u of %u\n", in->h.id, in->next,
			count_list(&in->early), in->spent, in->limit, in->headers_waiting, in->headers);
		list_for_each_entry(message, &in->early, link)
			fprintf(stderr, "    early %u: length %llu received %u rts %u\n", message->sequence, message->length,
				message->received, message->rts);
		list_for_each_entry(transfer, &in->transfers, link)
			fprintf(stderr, "    transfer %u: length %llu asked %llu done %llu busy %u missing %u+%u\n",
				transfer->h.id, transfer->length, transfer->asked, transfer->done, transfer->umem_busy,
				transfer->window[0].state ? transfer->window[0].missing : 0,
				transfer->window[1].state ? transfer->window[1].missing : 0);
	}
}

void sim_describe(void)
{
	u32 i;

	for (i = 0; i < path_count; i++)
		describe_path(paths[i]);
}
