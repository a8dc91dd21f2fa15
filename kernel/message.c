// SPDX-License-Identifier: GPL-2.0-only
/*
 * Messages that arrive. A flow's messages are put in order, exactly once, and then matched with the
 * endpoint's posted receives; what finds none waits as unexpected in the endpoint's own, limited
 * memory. A message that comes in one piece and in turn, and finds its receive, is copied straight
 * into the user's buffer.
 */
#include <linux/genalloc.h>
#include <linux/memcontrol.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "atomic.h"
#include "drive.h"
#include "flow.h"
#include "params.h"
#include "pins.h"

/* No honest sender is further ahead for long: it has at most 64 packets in flight, of 16 messages each. */
#define AHEAD_MAX	4096

/* ---- memory of messages -------------------------------------------------------------------- */

static struct ibr_message *message_alloc(struct ibr_inflow *flow, u32 data)
{
	struct ibr_endpoint *endpoint = flow->endpoint;
	size_t size = struct_size((struct ibr_message *)NULL, data, data);
	struct ibr_message *message = NULL;
	struct mem_cgroup *old;

	if (ibr_alloc_fails())
		return NULL;
	/* The pool is large enough for all credit, but it may be fragmented. */
	if (data)
		message = (struct ibr_message *)gen_pool_alloc(endpoint->pool, size);
	if (message) {
		memset(message, 0, sizeof(*message));
		message->pooled = true;
	} else {
		old = set_active_memcg(endpoint->memcg);
		message = kzalloc(size, GFP_ATOMIC | __GFP_ACCOUNT | __GFP_NOWARN);
		set_active_memcg(old);
		if (!message)
			return NULL;
	}
	INIT_LIST_HEAD(&message->link);
	ibr_inflow_get(flow);
	message->flow = flow;
	message->room = data;
	return message;
}

void ibr_message_free(struct ibr_message *message)
{
	struct ibr_inflow *flow = message->flow;

	if (message->pooled)
		gen_pool_free(flow->endpoint->pool, (unsigned long)message,
			      struct_size(message, data, message->room));
	else
		kfree(message);
	ibr_inflow_put(flow);
}

/* ---- matching ------------------------------------------------------------------------------ */

static u8 message_space(u8 wire_flags)
{
	return wire_flags & WIRE_MSG_UNTAGGED ? MATCH_UNTAGGED : MATCH_TAGGED;
}

static void message_matched(struct ibr_inflow *flow, u8 wire_flags, u32 sequence, int error)
{
	struct wire_frame frame = {
		.type = WIRE_FRAME_MATCHED,
		.flow = cpu_to_le32(flow->remote_handle),
		.matched.sequence = cpu_to_le32(sequence),
		.matched.status = cpu_to_le32(-error),
	};

	if (wire_flags & WIRE_MSG_SYNC)
		ibr_inflow_answer(flow, &frame, 0);
}

/* Copy an eager message into its receive and complete that. */
static void message_deliver(struct ibr_inflow *flow, struct ibr_recv *recv, const void *data, u32 length,
			    u64 tag, u64 immediate, u8 wire_flags)
{
	struct ibr_recv_result result = {
		.status = length > recv->umem.length ? -EMSGSIZE : 0,
		.source = flow->contact,
		.length = length,
		.tag = tag,
		.immediate = immediate,
		.wire_flags = wire_flags,
	};

	if (length)
		ibr_umem_copy_to(&recv->umem, 0, data, min_t(u64, length, recv->umem.length));
	ibr_recv_complete(recv, &result);
}

static void endpoint_count(struct ibr_endpoint *endpoint, u64 length, bool unexpected)
{
	lockdep_assert_held(&endpoint->lock);
	endpoint->counters.rx_messages++;
	endpoint->counters.rx_bytes += length;
	endpoint->counters.unexpected_messages += unexpected;
}

static void path_count(struct ibr_path *path, u64 length, bool unexpected)
{
	path->counters.rx_messages++;
	path->counters.rx_bytes += length;
	path->counters.unexpected_messages += unexpected;
}

/* It is held no more. */
static void message_return(struct ibr_inflow *flow, const struct ibr_message *message)
{
	if (message->rts)
		ibr_inflow_return_header(flow);
	else
		ibr_inflow_return(flow, ibr_message_cost(message->length));
}

/* A put whose turn it is: the address space of the process, if it can still be reached, with a reference; or NULL. */
static struct ibr_space *put_count(struct ibr_inflow *flow, u64 length)
{
	struct ibr_endpoint *endpoint = flow->endpoint;
	struct ibr_space *space = NULL;

	spin_lock_bh(&endpoint->lock);
	if (endpoint->open) {
		space = endpoint->space;
		ibr_space_get(space);
		endpoint_count(endpoint, length, false);
		endpoint->counters.rx_remote++;
	}
	spin_unlock_bh(&endpoint->lock);
	path_count(flow->path, length, false);
	flow->path->counters.rx_remote++;
	return space;
}

/* The get that an answer names, if it is one to that. */
static struct ibr_send *ask_find(struct ibr_inflow *flow, u64 handle, u64 length)
{
	struct ibr_send *ask = ibr_handle_find(flow->path, (u32)handle, IBR_HANDLE_SEND);

	if (!ask || !ask->answer || ask->length != length || ask->flow->endpoint != flow->endpoint ||
	    ask->flow->remote.endpoint != flow->src_endpoint) {
		flow->path->counters.drop_flow++;
		return NULL;
	}
	return ask;
}

/* The answer to a get has come, all of it. Return: 0, or -ECONNRESET: nobody waits for it any more. */
static int answer_whole(struct ibr_inflow *flow, u64 handle, const void *data, u32 length)
{
	struct ibr_send *ask = ask_find(flow, handle, length);
	struct ibr_recv_result result = {};
	struct ibr_recv *recv;

	if (!ask)
		return -ECONNRESET;
	recv = ask->answer;
	ask->answer = NULL;
	if (length)
		ibr_umem_copy_to(&recv->umem, 0, data, length);
	result.length = length;
	ibr_recv_complete(recv, &result);
	ibr_send_retire(ask, 0);
	return 0;
}

/* The RTS of one. */
static void answer_announced(struct ibr_inflow *flow, const struct ibr_message *message)
{
	struct ibr_send *ask = ask_find(flow, message->immediate, message->length);
	struct ibr_recv *recv;

	if (!ask) {
		ibr_transfer_refuse(flow, message, -ECONNRESET);
		return;
	}
	recv = ask->answer;
	ask->answer = NULL;
	ibr_send_get(ask);
	ibr_transfer_start(flow, message, recv);
	/* It ends with the transfer, and until then may still be told that there is no more of it. */
	if (!ask->fetch)
		ibr_send_retire(ask, 0);
	ibr_send_put(ask);
}

/* All of a put, or of an answer, has come. */
static void put_whole(struct ibr_inflow *flow, u8 wire_flags, u32 sequence, u64 address, u64 key, const void *data,
		      u32 length)
{
	struct ibr_space *space;
	int error;

	if (wire_flags & WIRE_MSG_ANSWER) {
		error = answer_whole(flow, key, data, length);
		message_matched(flow, WIRE_MSG_SYNC, sequence, error);
		return;
	}
	space = put_count(flow, length);
	if (!space)
		return;
	error = ibr_region_write(space, key, address, data, length);
	ibr_space_put(space);
	message_matched(flow, WIRE_MSG_SYNC, sequence, error);
}

/* The RTS of a put. Return: its header is returned when the transfer is over. */
static bool put_announced(struct ibr_inflow *flow, const struct ibr_message *message)
{
	struct ibr_space *space = put_count(flow, message->length);
	struct ibr_recv *recv;

	if (!space)
		return false;
	recv = ibr_recv_remote(flow, space, message);
	ibr_space_put(space);
	if (!IS_ERR(recv))
		return ibr_transfer_start(flow, message, recv);
	ibr_transfer_refuse(flow, message, PTR_ERR(recv));
	return false;
}

int ibr_message_compute(const struct ibr_message *message, struct ibr_space *space, void *before)
{
	struct ibr_atomic atomic = {
		.op = message->atomic & WIRE_ATOMIC_OP,
		.type = 1 + ((message->atomic & WIRE_ATOMIC_TYPE) >> WIRE_ATOMIC_TYPE_SHIFT),
		.length = message->length,
	};

	if (message->room)
		atomic.operand = message->data;
	if (message->room > message->length)
		atomic.compare = message->data + message->length;
	return ibr_region_atomic(space, message->immediate, message->match.tag, &atomic, before);
}

/* A get or an atomic. Return: its header is returned when it is answered. */
static bool ask_arrive(struct ibr_inflow *flow, const struct ibr_message *message)
{
	struct ibr_space *space = put_count(flow, 0);
	bool answers = !message->atomic || message->atomic & WIRE_ATOMIC_FETCH;
	int error;

	if (!space)
		return false;
	if (answers)
		error = ibr_send_answer(flow, space, message);
	else
		error = ibr_message_compute(message, space, NULL);
	ibr_space_put(space);
	if (error || !answers)
		ibr_transfer_refuse(flow, message, error);
	return answers && !error;
}

static void put_arrive(struct ibr_inflow *flow, struct ibr_message *message)
{
	bool kept = false;

	if (message->ask)
		kept = ask_arrive(flow, message);
	else if (message->rts && message->wire_flags & WIRE_MSG_ANSWER)
		answer_announced(flow, message);
	else if (message->rts)
		kept = put_announced(flow, message);
	else
		put_whole(flow, message->wire_flags, message->sequence, message->match.tag, message->immediate,
			  message->data, message->length);
	if (!kept)
		message_return(flow, message);
	ibr_message_free(message);
}

/* A whole message whose turn it is. The caller gives it away. Context: path->lock held. */
static void message_arrive(struct ibr_inflow *flow, struct ibr_message *message)
{
	struct ibr_endpoint *endpoint = flow->endpoint;
	struct ibr_recv *recv = NULL;
	bool open;

	if (message->wire_flags & WIRE_MSG_REMOTE) {
		put_arrive(flow, message);
		return;
	}
	spin_lock_bh(&endpoint->lock);
	open = endpoint->open;
	if (open) {
		recv = ibr_recv_take(endpoint, flow->contact, message_space(message->wire_flags),
				     message->match.tag, message->length);
		endpoint_count(endpoint, message->length, !recv);
		if (!recv) {
			message->match.source = flow->contact;
			message->match.space = message_space(message->wire_flags);
			match_message_keep(&endpoint->match, &message->match);
			if (!message->rts)
				endpoint->unexpected_bytes += ibr_message_cost(message->length);
			endpoint->unexpected_bytes_peak = max(endpoint->unexpected_bytes_peak,
							      endpoint->unexpected_bytes);
		}
	}
	spin_unlock_bh(&endpoint->lock);
	path_count(flow->path, message->length, open && !recv);
	if (open && !recv)
		return;
	if (recv && message->rts) {
		ibr_transfer_start(flow, message, recv);
	} else if (recv) {
		message_matched(flow, message->wire_flags, message->sequence, 0);
		message_deliver(flow, recv, message->data, message->length, message->match.tag,
				message->immediate, message->wire_flags);
	}
	message_return(flow, message);
	ibr_message_free(message);
}

/* A receive has been posted for a message that waited. Context: process, no locks. */
void ibr_message_give(struct ibr_message *message, struct ibr_recv *recv)
{
	struct ibr_inflow *flow = message->flow;
	struct ibr_path *path = flow->path;

	ibr_frag_refill();
	if (!message->rts)
		message_deliver(flow, recv, message->data, message->length, message->match.tag,
				message->immediate, message->wire_flags);
	spin_lock_bh(&path->lock);
	path->now = ktime_get_ns();
	if (message->rts)
		ibr_transfer_start(flow, message, recv);
	else
		message_matched(flow, message->wire_flags, message->sequence, 0);
	message_return(flow, message);
	ibr_path_drive_locked(path);
	ibr_path_get(path);		/* freeing the message may drop the flow's reference */
	spin_unlock_bh(&path->lock);
	ibr_message_free(message);
	ibr_path_put(path);
}

void ibr_message_result(const struct ibr_message *message, int status, struct ibr_recv_result *result)
{
	result->status = status;
	result->source = message->flow->contact;
	result->length = message->length;
	result->tag = message->match.tag;
	result->immediate = message->immediate;
	result->wire_flags = message->wire_flags;
}

void ibr_message_discard(struct ibr_message *message, bool received)
{
	struct ibr_inflow *flow = message->flow;
	struct ibr_path *path = flow->path;

	ibr_frag_refill();
	ibr_path_get(path);
	spin_lock_bh(&path->lock);
	path->now = ktime_get_ns();
	if (received && message->rts)
		ibr_transfer_refuse(flow, message, 0);
	else if (received)
		message_matched(flow, message->wire_flags, message->sequence, 0);
	message_return(flow, message);
	ibr_path_drive_locked(path);
	spin_unlock_bh(&path->lock);
	ibr_message_free(message);
	ibr_path_put(path);
}

/* ---- order --------------------------------------------------------------------------------- */

static bool message_complete(const struct ibr_message *message)
{
	return message->rts || message->received >= message->length;
}

/* The turn goes to the next message. @missing: this one will never be delivered. */
static void inflow_step(struct ibr_inflow *flow, bool missing)
{
	flow->missing = flow->missing << 1 | missing;
	flow->next++;
}

/* Messages whose predecessors have all arrived now. */
static void inflow_advance(struct ibr_inflow *flow)
{
	struct ibr_message *message;

	while ((message = list_first_entry_or_null(&flow->early, struct ibr_message, link))) {
		if (message->sequence != flow->next || !message_complete(message))
			return;
		list_del_init(&message->link);
		inflow_step(flow, false);
		message_arrive(flow, message);
		if (flow->gone)
			return;
	}
}

/*
 * Native modes: message @sequence is here, so earlier ones that are not complete never will be. What is
 * complete among them is delivered, in order.
 */
static void inflow_skip(struct ibr_inflow *flow, u32 sequence)
{
	struct ibr_message *message;

	while (flow->next != sequence && !flow->gone) {
		message = list_first_entry_or_null(&flow->early, struct ibr_message, link);
		if (message && message->sequence == flow->next) {
			list_del_init(&message->link);
			if (message_complete(message)) {
				inflow_step(flow, false);
				message_arrive(flow, message);
				continue;
			}
			ibr_inflow_return(flow, ibr_message_cost(message->length));
			ibr_message_free(message);
		}
		flow->path->counters.lost_messages++;
		inflow_step(flow, true);
	}
}

/* Credit that went down with lost messages (native modes) comes back. */
static void inflow_recover_credit(struct ibr_inflow *flow, u32 spent)
{
	u32 lost = spent - (u32)flow->spent;

	if (!lost || lost > flow->limit - flow->spent)
		return;
	flow->spent += lost;
	flow->waiting_cost += lost;
	ibr_inflow_return(flow, lost);
}

/* Take the cost of a new message out of the flow's credit. Return: the sender had that much. */
static bool inflow_spend(struct ibr_inflow *flow, u32 cost)
{
	if (flow->spent + cost > flow->limit)
		return false;
	flow->spent += cost;
	flow->waiting_cost += cost;
	return true;
}

/* The message @sequence of the early ones, or the place to insert it: before *@where. */
static struct ibr_message *inflow_early(struct ibr_inflow *flow, u32 sequence, struct list_head **where)
{
	struct ibr_message *message;

	list_for_each_entry_reverse(message, &flow->early, link) {
		if (message->sequence == sequence)
			return message;
		if ((s32)(message->sequence - sequence) < 0)
			break;
	}
	*where = message->link.next;
	return NULL;
}

/* One piece, in turn: into the receive, or at once into its place as unexpected. */
static int eager_whole(struct ibr_inflow *flow, const struct wire_frame *frame, const void *payload)
{
	struct ibr_endpoint *endpoint = flow->endpoint;
	u32 length = le32_to_cpu(frame->eager.length);
	u64 tag = le64_to_cpu(frame->eager.tag);
	u8 space = message_space(frame->flags);
	struct ibr_message *message = NULL;
	struct ibr_recv *recv;

	if (frame->flags & WIRE_MSG_REMOTE) {
		put_whole(flow, frame->flags, flow->next, tag, le64_to_cpu(frame->eager.immediate), payload, length);
		goto taken;
	}
	spin_lock_bh(&endpoint->lock);
	if (unlikely(!endpoint->open)) {
		spin_unlock_bh(&endpoint->lock);
		goto taken;
	}
	recv = ibr_recv_take(endpoint, flow->contact, space, tag, length);
	if (!recv) {
		message = message_alloc(flow, length);
		if (!message) {
			spin_unlock_bh(&endpoint->lock);
			return -ENOMEM;
		}
		message->match.tag = tag;
		message->match.source = flow->contact;
		message->match.space = space;
		message->wire_flags = frame->flags;
		message->sequence = flow->next;
		message->length = length;
		message->immediate = le64_to_cpu(frame->eager.immediate);
		memcpy(message->data, payload, length);
		match_message_keep(&endpoint->match, &message->match);
		endpoint->unexpected_bytes += ibr_message_cost(length);
		endpoint->unexpected_bytes_peak = max(endpoint->unexpected_bytes_peak,
						      endpoint->unexpected_bytes);
	}
	endpoint_count(endpoint, length, !recv);
	spin_unlock_bh(&endpoint->lock);
	path_count(flow->path, length, !recv);
	if (!recv) {
		flow->spent += ibr_message_cost(length);
		flow->waiting_cost += ibr_message_cost(length);
		inflow_step(flow, false);
		return 0;
	}
	message_matched(flow, frame->flags, flow->next, 0);
	message_deliver(flow, recv, payload, length, tag, le64_to_cpu(frame->eager.immediate), frame->flags);
taken:
	inflow_step(flow, false);
	inflow_spend(flow, ibr_message_cost(length));
	ibr_inflow_return(flow, ibr_message_cost(length));
	return 0;
}

/* A piece of a message, or one ahead of its turn: assemble it in the endpoint's memory. */
static int eager_piece(struct ibr_inflow *flow, const struct wire_frame *frame, const void *payload)
{
	u32 sequence = le32_to_cpu(frame->eager.sequence);
	u32 length = le32_to_cpu(frame->eager.length);
	u32 offset = le32_to_cpu(frame->eager.offset);
	u32 bytes = le16_to_cpu(frame->payload_len);
	struct ibr_message *message;
	struct list_head *where;
	u32 grain, index;

	message = inflow_early(flow, sequence, &where);
	if (!message) {
		if (!inflow_spend(flow, ibr_message_cost(length))) {
			flow->path->counters.drop_limit++;
			return 0;
		}
		message = message_alloc(flow, length);
		if (!message) {
			flow->spent -= ibr_message_cost(length);
			flow->waiting_cost -= ibr_message_cost(length);
			return -ENOMEM;
		}
		message->match.tag = le64_to_cpu(frame->eager.tag);
		message->wire_flags = frame->flags;
		message->sequence = sequence;
		message->length = length;
		message->immediate = le64_to_cpu(frame->eager.immediate);
		/* Fragments of a dishonest sender need not cover it, and other messages have been there. */
		memset(message->data, 0, length);
		list_add_tail(&message->link, where);
	}
	if (message->rts || message->length != length) {
		flow->path->counters.drop_malformed++;
		return 0;
	}
	/* Fragments are at least this long but for the last, so no two share a bit. */
	grain = max(DIV_ROUND_UP(length, 64), 1u);
	index = min(offset / grain, 63u);
	if (message->fragments & BIT_ULL(index)) {
		flow->path->counters.rx_duplicates++;
		return 0;
	}
	message->fragments |= BIT_ULL(index);
	memcpy(message->data + offset, payload, bytes);
	message->received += bytes;
	return 0;
}

int ibr_eager_receive(struct ibr_path *path, const struct wire_frame *frame, const void *payload)
{
	struct ibr_inflow *flow = ibr_handle_find(path, le32_to_cpu(frame->flow), IBR_HANDLE_INFLOW);
	u32 sequence = le32_to_cpu(frame->eager.sequence);
	u32 length = le32_to_cpu(frame->eager.length);
	s32 ahead;
	int ret;

	if (unlikely(!flow)) {
		path->counters.drop_flow++;
		return 0;
	}
	ahead = sequence - flow->next;
	if (unlikely(ahead < 0)) {
		path->counters.rx_duplicates++;
		return 0;
	}
	if (unlikely(ahead > AHEAD_MAX && !path->native))
		return -ENOMEM;		/* not acknowledged: it comes again when those before it have come */
	if (unlikely(ahead > AHEAD_MAX || length > IBR_EAGER_MAX_LIMIT)) {
		path->counters.drop_malformed++;
		return 0;
	}
	if (unlikely(path->native && ahead)) {
		inflow_skip(flow, sequence);
		if (flow->gone)
			return 0;
		inflow_recover_credit(flow, le32_to_cpu(frame->eager.spent));
		ahead = 0;
	}
	if (likely(!ahead && le16_to_cpu(frame->payload_len) == length &&
		   flow->spent + ibr_message_cost(length) <= flow->limit))
		ret = eager_whole(flow, frame, payload);
	else
		ret = eager_piece(flow, frame, payload);
	if (!ret && !list_empty(&flow->early))
		inflow_advance(flow);
	return ret;
}

/*
 * Native modes: a rendezvous that was given up for lost cannot be delivered in order any more. (In reliable
 * ones, and if it was not given up, it is here for the second time.)
 */
static void rts_too_late(struct ibr_path *path, struct ibr_inflow *flow, const struct wire_frame *rts)
{
	u32 behind = flow->next - le32_to_cpu(rts->rts.sequence);
	struct wire_frame frame = {
		.type = WIRE_FRAME_FIN,
		.flow = rts->rts.message,	/* where an ASK has it, too */
		.fin.status = cpu_to_le32(EIO),
	};

	if (behind > IBR_MISSING_MAX || !(flow->missing & BIT_ULL(behind - 1))) {
		path->counters.rx_duplicates++;
		return;
	}
	if (flow->announced == flow->announce_told) {
		path->counters.drop_limit++;
		return;
	}
	flow->missing &= ~BIT_ULL(behind - 1);
	ibr_control_send(path, &frame);
	flow->announced++;
	ibr_inflow_announced(flow);
}

int ibr_rts_receive(struct ibr_path *path, const struct wire_frame *frame, const void *payload)
{
	struct ibr_inflow *flow = ibr_handle_find(path, le32_to_cpu(frame->flow), IBR_HANDLE_INFLOW);
	u32 sequence = le32_to_cpu(frame->rts.sequence);
	struct ibr_message *message;
	struct list_head *where;
	s32 ahead;

	if (!flow) {
		path->counters.drop_flow++;
		return 0;
	}
	ahead = sequence - flow->next;
	if (ahead < 0) {
		rts_too_late(path, flow, frame);
		return 0;
	}
	if (unlikely(ahead > AHEAD_MAX && !path->native))
		return -ENOMEM;		/* as with eager ones */
	if (ahead > AHEAD_MAX) {
		path->counters.drop_malformed++;
		return 0;
	}
	if (path->native && ahead) {
		inflow_skip(flow, sequence);
		if (flow->gone)
			return 0;
		if (frame->type == WIRE_FRAME_RTS)
			inflow_recover_credit(flow, le32_to_cpu(frame->rts.spent));
	}
	if (inflow_early(flow, sequence, &where)) {
		path->counters.rx_duplicates++;
		return 0;
	}
	if (flow->announced == flow->announce_told) {
		path->counters.drop_limit++;
		return 0;
	}
	message = message_alloc(flow, le16_to_cpu(frame->payload_len));
	if (!message)
		return -ENOMEM;
	flow->announced++;
	flow->headers_waiting++;
	message->rts = true;
	message->sequence = sequence;
	message->rts_message = le32_to_cpu(frame->rts.message);
	if (frame->type != WIRE_FRAME_RTS) {
		message->ask = true;
		message->atomic = frame->type == WIRE_FRAME_ATOMIC ? frame->flags : 0;
		memcpy(message->data, payload, message->room);
		message->match.tag = le64_to_cpu(frame->ask.address);
		message->wire_flags = WIRE_MSG_REMOTE;
		message->length = le64_to_cpu(frame->ask.length);
		message->immediate = le64_to_cpu(frame->ask.key);
	} else {
		message->match.tag = le64_to_cpu(frame->rts.tag);
		message->wire_flags = frame->flags & ~WIRE_MSG_LENGTH;
		message->length = wire_rts_length(frame);
		message->immediate = le64_to_cpu(frame->rts.immediate);
	}
	list_add_tail(&message->link, where);
	inflow_advance(flow);
	ibr_inflow_announced(flow);
	return 0;
}
