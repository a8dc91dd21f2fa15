// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sends: a message from its acceptance to its completion. Short ones are copied and, while the
 * receiver's credit lasts, sent eagerly; long ones, and short ones without credit, are announced by an
 * RTS and wait until they are asked for, so that none ever blocks a later one.
 */
#include <linux/memcontrol.h>
#include <linux/module.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "drive.h"
#include "flow.h"
#include "params.h"

#define PIECE_MIN	512	/* bytes; a shorter one is not worth the work that it makes at the other end */

unsigned int ibr_credit_wait_us = 5000;
module_param_named(credit_wait_us, ibr_credit_wait_us, uint, 0644);
MODULE_PARM_DESC(credit_wait_us, "how long messages wait for eager credit before they go by RTS, us; 0: not at all");

static struct kmem_cache *send_cache;

static void send_umem_released(struct ibr_umem *umem);

static int send_copy(struct ibr_send *send, const struct ibr_buffer *buffer)
{
	if (send->length <= IBR_FRAG_SMALL) {
		send->data = send->frag.inline_payload;
	} else {
		send->data = kmalloc(send->length, GFP_KERNEL_ACCOUNT);
		if (!send->data)
			return -ENOMEM;
	}
	return ibr_buffer_read(buffer, send->data);
}

static int send_pin(struct ibr_outflow *flow, struct ibr_send *send, struct ibr_buffer *buffer)
{
	int ret;

	memset(&send->umem, 0, sizeof(send->umem));
	send->umem.ready = ibr_send_umem_ready;
	send->pinned = true;
	ret = ibr_umem_init(&send->umem, flow->endpoint->space, buffer, false);
	if (!ret)
		ibr_endpoint_buffer_begin(flow->endpoint);
	return ret;
}

static struct ibr_send *send_alloc(gfp_t gfp)
{
	struct ibr_send *send = kmem_cache_alloc(send_cache, gfp);

	if (!send)
		return NULL;
	memset(send, 0, offsetof(struct ibr_send, umem));
	send->data = NULL;
	kref_init(&send->ref);
	INIT_LIST_HEAD(&send->link);
	INIT_LIST_HEAD(&send->bulk);
	INIT_LIST_HEAD(&send->redo);
	INIT_LIST_HEAD(&send->announcing);
	RB_CLEAR_NODE(&send->matching);
	return send;
}

/* Does something come back that it ends with? */
static bool send_is_answered(const struct ibr_send *send)
{
	return send->opcode == IBRELK_OP_GET || send->atomic & WIRE_ATOMIC_FETCH;
}

/* A get sends nothing but its request; the buffer is where the answer goes. */
static int send_ask_for(struct ibr_outflow *flow, struct ibr_send *send, struct ibr_buffer *buffer)
{
	struct ibr_recv *answer = ibr_recv_answer(send, flow->endpoint, buffer);

	if (IS_ERR(answer))
		return PTR_ERR(answer);
	send->answer = answer;
	return 0;
}

static_assert(WIRE_ATOMIC_READ == IBRELK_ATOMIC_READ && WIRE_ATOMIC_CSWAP == IBRELK_ATOMIC_CSWAP &&
	      WIRE_ATOMIC_MSWAP == IBRELK_ATOMIC_MSWAP && WIRE_ATOMIC_BYTES == IBRELK_ATOMIC_BYTES &&
	      2 * IBRELK_ATOMIC_BYTES <= IBR_FRAG_SMALL);

/* An atomic sends its operands with the request. */
static int send_atomic(struct ibr_outflow *flow, struct ibr_send *send, const struct ibrelk_command *command,
		       const struct ibr_buffer *operand)
{
	struct ibrelk_command before = { .addr = command->tag, .length = command->length };
	u8 *data = send->frag.inline_payload;
	u32 type = command->messages >> 16;
	struct ibr_buffer buffer;
	int ret = 0;

	send->atomic = (command->messages & WIRE_ATOMIC_OP) | (type - 1) << WIRE_ATOMIC_TYPE_SHIFT;
	if (command->tag)
		send->atomic |= WIRE_ATOMIC_FETCH;
	if (wire_atomic_payload(send->atomic, send->length))
		ret = ibr_buffer_read(operand, data);
	if (!ret && wire_atomic_payload(send->atomic, send->length) > send->length &&
	    copy_from_user(data + send->length, u64_to_user_ptr(command->ignore), send->length))
		ret = -EFAULT;
	if (ret || !command->tag)
		return ret;
	ret = ibr_buffer_import(&buffer, &before);
	if (ret)
		return ret;
	ret = send_ask_for(flow, send, &buffer);
	if (ret)
		ibr_buffer_drop(&buffer);
	return ret;
}

/*
 * What tells a peer's process of a put: a message, which is sent when the put is in its place. Its memory is there
 * before the put goes, so that it does not fail for want of that here.
 */
static struct ibr_send *send_notice(const struct ibrelk_command *command, u64 length)
{
	struct ibr_send *notice = send_alloc(GFP_KERNEL_ACCOUNT);

	if (!notice)
		return NULL;
	notice->opcode = IBRELK_OP_SEND;
	notice->level = IBRELK_LEVEL_DELIVERED;
	notice->wire_flags = WIRE_MSG_UNTAGGED | WIRE_MSG_IMMEDIATE;
	notice->tag = IBRELK_TAG_WRITTEN | length;
	notice->immediate = command->immediate;
	notice->data = notice->frag.inline_payload;
	return notice;
}

static struct ibr_send *send_alloc_for(const struct ibrelk_command *command, u64 length)
{
	struct ibr_send *send = send_alloc(GFP_KERNEL_ACCOUNT);

	if (!send || command->opcode != IBRELK_OP_PUT || !(command->flags & IBRELK_CMD_IMMEDIATE))
		return send;
	send->notice = send_notice(command, length);
	if (send->notice)
		return send;
	kmem_cache_free(send_cache, send);
	return NULL;
}

struct ibr_send *ibr_send_create(struct ibr_outflow *flow, const struct ibrelk_command *command)
{
	struct ibr_buffer buffer;
	struct ibr_send *send;
	int ret;

	ret = ibr_buffer_import(&buffer, command);
	if (ret)
		return ERR_PTR(ret);
	send = send_alloc_for(command, buffer.length);
	if (!send) {
		ibr_buffer_drop(&buffer);
		return ERR_PTR(-ENOMEM);
	}
	send->length = buffer.length;
	send->tag = command->tag;
	send->immediate = command->immediate;
	send->level = command->level;
	send->opcode = command->opcode;
	send->peer = command->peer;
	send->user_data = command->user_data;
	send->no_success = command->flags & IBRELK_CMD_NO_SUCCESS;
	if (command->opcode != IBRELK_OP_SEND) {
		/* It is a message to a region instead of a receive. */
		send->tag = command->remote_addr;
		send->immediate = command->remote_key;
		send->level = IBRELK_LEVEL_MATCHED;
		send->wire_flags |= WIRE_MSG_REMOTE;
	} else if (command->flags & IBRELK_CMD_IMMEDIATE) {
		send->wire_flags |= WIRE_MSG_IMMEDIATE;
	}
	if (command->flags & IBRELK_CMD_UNTAGGED)
		send->wire_flags |= WIRE_MSG_UNTAGGED;
	if (send->opcode == IBRELK_OP_GET) {
		ret = send_ask_for(flow, send, &buffer);
		if (ret)
			ibr_buffer_drop(&buffer);
	} else if (send->opcode == IBRELK_OP_ATOMIC) {
		ret = send_atomic(flow, send, command, &buffer);
		ibr_buffer_drop(&buffer);
	} else if (send->length <= ibr_eager_max) {
		ret = send_copy(send, &buffer);
		ibr_buffer_drop(&buffer);
		if (!send->level)
			send->level = IBRELK_LEVEL_BUFFERED;
	} else {
		ret = send_pin(flow, send, &buffer);
		if (ret)
			ibr_buffer_drop(&buffer);
		if (!send->level)
			send->level = IBRELK_LEVEL_DELIVERED;
	}
	if (send->level == IBRELK_LEVEL_MATCHED)
		send->wire_flags |= WIRE_MSG_SYNC;
	if (ret) {
		if (send->data && send->data != send->frag.inline_payload)
			kfree(send->data);
		if (send->notice)
			kmem_cache_free(send_cache, send->notice);
		kmem_cache_free(send_cache, send);
		return ERR_PTR(ret);
	}
	kref_get(&flow->ref);
	send->flow = flow;
	return send;
}

void ibr_send_get(struct ibr_send *send)
{
	kref_get(&send->ref);
}

static void send_free(struct kref *ref)
{
	struct ibr_send *send = container_of(ref, struct ibr_send, ref);

	bool copied = send->data && send->data != send->frag.inline_payload;

	if (send->serves && copied)
		atomic64_sub(send->length, &send->flow->endpoint->answer_bytes);
	if (send->serves)
		ibr_inflow_put(send->serves);
	else if (send->put)
		ibr_send_put(send->put);
	else
		ibr_endpoint_send_done(send->flow->endpoint);
	if (send->notice)
		kmem_cache_free(send_cache, send->notice);
	ibr_outflow_put(send->flow);
	if (copied)
		kfree(send->data);
	kmem_cache_free(send_cache, send);
}

void ibr_send_put(struct ibr_send *send)
{
	kref_put(&send->ref, send_free);
}

static void send_entry_release(struct ibr_ring_entry *entry)
{
	ibr_send_put(container_of(entry, struct ibr_send, entry));
}

static void send_tell(struct ibr_send *send, int status)
{
	struct ibrelk_completion *completion = &send->entry.completion;
	struct ibr_endpoint *endpoint = send->flow->endpoint;

	if (!status && send->no_success)
		return;
	memset(completion, 0, sizeof(*completion));
	completion->user_data = send->user_data;
	completion->status = status;
	completion->opcode = send->opcode;
	completion->endpoint = endpoint->id;
	completion->peer = send->peer;
	completion->length = send->length;
	if (send->opcode == IBRELK_OP_SEND)
		completion->tag = send->tag;
	if (send->wire_flags & WIRE_MSG_UNTAGGED)
		completion->flags |= IBRELK_CQE_UNTAGGED;
	send->entry.release = send_entry_release;
	ibr_send_get(send);
	ibr_ring_complete(endpoint->send_ring, &send->entry);
}

void ibr_send_complete(struct ibr_send *send, int status)
{
	struct ibr_send *whole = send->put ?: send;

	if (send->completed)
		return;
	send->completed = true;
	if (!atomic_read(&whole->parts)) {
		send_tell(whole, status);
		return;
	}
	/* Only the notice can fail now. Who is the last sees what the other one has left. */
	if (status)
		whole->status = status;
	if (atomic_dec_and_test(&whole->parts))
		send_tell(whole, whole->status);
}

/* A put is in its place: its notice may go, by the same life of the flow. Context: path->lock held. */
static void send_notify(struct ibr_send *put)
{
	struct ibr_send *notice = put->notice;
	struct ibr_outflow *flow = put->flow;

	atomic64_inc(&flow->endpoint->tx_messages);
	flow->path->counters.tx_messages++;
	put->notice = NULL;
	atomic_set(&put->parts, 2);
	ibr_send_get(put);
	notice->put = put;
	kref_get(&flow->ref);
	notice->flow = flow;
	list_add_tail(&notice->link, &flow->queue);
	ibr_outflow_wake(flow);
}

static void send_umem_released(struct ibr_umem *umem)
{
	struct ibr_send *send = container_of(umem, struct ibr_send, umem);

	if (umem->bounced)
		atomic64_add(umem->bounced, &send->flow->endpoint->bounced_bytes);
	if (send->access.region)
		ibr_access_end(&send->access);
	else
		ibr_endpoint_buffer_end(send->flow->endpoint);
	ibr_send_complete(send, send->status);
	ibr_send_put(send);
}

/* The memory is not in use any more: let it go, then tell the user. */
static void send_finish(struct ibr_send *send)
{
	struct ibr_recv_result nothing = { .status = send->status ?: -EREMOTEIO };
	struct ibr_recv *answer = send->answer;

	if (send_is_answered(send)) {
		/* What the answer goes to completes it; as it ends without, so does that. */
		send->answer = NULL;
		if (answer)
			ibr_recv_complete(answer, &nothing);
		else if (send->fetch)
			ibr_transfer_abort(send->fetch, nothing.status, false);
		ibr_send_put(send);
		return;
	}
	if (send->pinned) {
		send->pinned = false;
		ibr_umem_finish(&send->umem, false, send_umem_released);
		return;
	}
	ibr_send_complete(send, send->status);
	ibr_send_put(send);
}

/* If it went by RTS for want of credit, another one may. */
void ibr_send_answered(struct ibr_send *send)
{
	struct ibr_outflow *flow = send->flow;

	if (!send->unpaid)
		return;
	send->unpaid = false;
	flow->unpaid--;
	flow->unpaid_answered = true;
	if (flow->patient_until && flow->unpaid < flow->unpaid_max) {
		flow->patient_until = 0;
		list_move_tail(&flow->ready, &flow->path->ready);
	}
}

/* A get, or an atomic, was answered, or cannot be. */
static void send_served(struct ibr_send *send, int status)
{
	struct ibr_inflow *flow = send->serves;

	if (status)
		ibr_transfer_refuse_handle(flow, send->asked, status);
	ibr_inflow_return_header(flow);
}

void ibr_send_retire(struct ibr_send *send, int status)
{
	struct ibr_outflow *flow = send->flow;
	struct ibr_frag *frag, *next;

	lockdep_assert_held(&flow->path->lock);
	if (send->finished)
		return;
	send->finished = true;
	send->status = status;
	ibr_send_answered(send);
	list_del_init(&send->link);
	list_del_init(&send->bulk);
	list_for_each_entry_safe(frag, next, &send->redo, link) {
		list_del_init(&frag->link);
		ibr_frag_put(frag);
	}
	if (!RB_EMPTY_NODE(&send->matching)) {
		rb_erase(&send->matching, &flow->matching);
		RB_CLEAR_NODE(&send->matching);
	}
	/* What is ready has something to send. (What is to be opened will be, all the same.) */
	if (list_empty(&flow->queue) && flow->state == IBR_OUTFLOW_OPEN) {
		list_del_init(&flow->ready);
		flow->patient_until = 0;
	}
	ibr_handle_remove(flow->path, &send->h);
	if (send->serves)
		send_served(send, status);
	if (send->notice && !status)
		send_notify(send);
	if (!send->umem_busy)
		send_finish(send);
	/* If it was the one that kept those behind it waiting. */
	ibr_outflow_wake(flow);
	ibr_outflow_idle(flow);
}

void ibr_send_discard(struct ibr_send *send)
{
	send->completed = true;
	send->finished = true;
	send_finish(send);
}

void ibr_send_abort(struct ibr_send *send, int status)
{
	ibr_send_tell_abort(send, status);
	ibr_send_retire(send, status);
}

/* A worker has moved the pinned windows on, or failed to. Context: process. */
void ibr_send_umem_ready(struct ibr_umem *umem)
{
	struct ibr_send *send = container_of(umem, struct ibr_send, umem);
	struct ibr_path *path = send->flow->path;

	ibr_frag_refill();
	spin_lock_bh(&path->lock);
	send->umem_busy = false;
	if (send->finished)
		send_finish(send);
	else if (umem->error)
		ibr_send_abort(send, umem->error);
	else if (ibr_send_wanted(send) && list_empty(&send->bulk))
		list_add_tail(&send->bulk, &path->bulk);
	ibr_path_drive_locked(path);
	spin_unlock_bh(&path->lock);
	ibr_send_put(send);
}

/* All of an eager message has been transmitted: what is it waiting for? */
static void send_check(struct ibr_send *send)
{
	if (send->sent && !send->unacked && !(send->wire_flags & WIRE_MSG_SYNC))
		ibr_send_retire(send, 0);
}

void ibr_send_acked(struct ibr_send *send)
{
	/* Its RTS has arrived, as a rule: those behind it may go. */
	if (!list_empty(&send->announcing)) {
		list_del_init(&send->announcing);
		ibr_outflow_wake(send->flow);
	}
	if (send->finished)
		return;
	if (send->unacked)
		send->unacked--;
	send_check(send);
}

static void send_announcement(const struct ibr_outflow *flow, const struct ibr_send *send, struct wire_frame *frame)
{
	frame->flow = cpu_to_le32(flow->remote_handle);
	if (ibr_send_asks(send)) {
		frame->type = send->atomic ? WIRE_FRAME_ATOMIC : WIRE_FRAME_ASK;
		frame->flags = send->atomic;
		frame->ask.sequence = cpu_to_le32(flow->sequence);
		frame->ask.message = cpu_to_le32(send->h.id);
		frame->ask.address = cpu_to_le64(send->tag);
		frame->ask.key = cpu_to_le64(send->immediate);
		frame->ask.length = cpu_to_le64(send->length);
		return;
	}
	frame->type = WIRE_FRAME_RTS;
	/* No MATCHED is asked for: FIN says it. */
	frame->flags = send->wire_flags & ~WIRE_MSG_SYNC;
	frame->rts.sequence = cpu_to_le32(flow->sequence);
	frame->rts.message = cpu_to_le32(send->h.id);
	wire_rts_set_length(frame, send->length);
	frame->rts.spent = cpu_to_le32((u32)flow->cost);
	frame->rts.tag = cpu_to_le64(send->tag);
	frame->rts.immediate = cpu_to_le64(send->immediate);
}

/* Announce the message; its data waits for the CTS. Or ask, if it is a get or an atomic. */
static bool send_rts(struct ibr_path *path, struct ibr_outflow *flow, struct ibr_send *send)
{
	u32 payload = send->atomic ? wire_atomic_payload(send->atomic, send->length) : 0;
	struct ibr_frag *frag = &send->frag;
	const struct ibr_send *first;

	if (flow->announced == flow->announce_limit) {
		/* So many wait for a receive there. Comes back with the credit for more. */
		list_del_init(&flow->ready);
		return true;
	}
	/*
	 * Native modes: one that is overtaken is passed over, and refused when it comes. The receiver knows for so
	 * many what was passed over. Comes back with the next ACK.
	 */
	first = list_first_entry_or_null(&flow->announcing, struct ibr_send, announcing);
	if (first && flow->sequence - first->sequence >= IBR_MISSING_MAX) {
		list_del_init(&flow->ready);
		return true;
	}
	if (!ibr_path_can_emit(path, true, payload))
		return false;
	if (ibr_handle_add(path, &send->h, IBR_HANDLE_SEND)) {
		path->starved = true;
		return false;
	}
	ibr_frag_setup(frag, send);
	frag->control = true;
	send_announcement(flow, send, &frag->frame);
	if (payload) {
		frag->payload = frag->inline_payload;
		frag->payload_len = payload;
		frag->frame.payload_len = cpu_to_le16(payload);
	}
	if (!ibr_path_emit(path, frag)) {
		ibr_handle_remove(path, &send->h);
		ibr_frag_put(frag);
		return false;
	}
	send->sequence = flow->sequence++;
	flow->announced++;
	if (path->native)
		list_add_tail(&send->announcing, &flow->announcing);
	list_move_tail(&send->link, &flow->sent);
	path->counters.tx_rendezvous += !ibr_send_asks(send);
	path->counters.tx_remote += send->opcode == IBRELK_OP_PUT || ibr_send_asks(send);
	return true;
}

static struct ibr_frag *send_eager_frag(struct ibr_send *send)
{
	struct ibr_frag *frag = &send->frag;

	if (!send->offset) {
		ibr_frag_setup(frag, send);
		return frag;
	}
	frag = ibr_frag_alloc(0);
	if (frag) {
		ibr_send_get(send);
		frag->send = send;
	}
	return frag;
}

/*
 * Bytes of the next piece: a packet's. A message that is cut up anyway begins in the packet that is being assembled,
 * behind the end of the one before it. (The receiver tells pieces apart by the 64th of the message in which they begin.)
 */
static_assert(PIECE_MIN >= IBR_EAGER_MAX_LIMIT / 64);

static u32 send_eager_piece(const struct ibr_path *path, const struct ibr_send *send)
{
	u32 rest = send->length - send->offset;
	u32 room;

	if (rest > path->payload_max && !send->offset) {
		room = ibr_path_room(path);
		if (room >= PIECE_MIN)
			return room;
	}
	return min(rest, path->payload_max);
}

static bool send_eager(struct ibr_path *path, struct ibr_outflow *flow, struct ibr_send *send)
{
	u32 cost = ibr_message_cost(send->length);
	struct wire_frame *frame;
	struct ibr_frag *frag;
	u32 length;

	do {
		length = send_eager_piece(path, send);
		if (!ibr_path_can_emit(path, false, length))
			return false;
		frag = send_eager_frag(send);
		if (!frag) {
			path->starved = true;
			return false;
		}
		frag->payload = (u8 *)send->data + send->offset;
		frag->payload_len = length;
		frame = &frag->frame;
		frame->type = WIRE_FRAME_EAGER;
		frame->flags = send->wire_flags;
		frame->payload_len = cpu_to_le16(length);
		frame->flow = cpu_to_le32(flow->remote_handle);
		frame->eager.sequence = cpu_to_le32(flow->sequence);
		frame->eager.offset = cpu_to_le32(send->offset);
		frame->eager.length = cpu_to_le32(send->length);
		frame->eager.spent = cpu_to_le32((u32)flow->cost);
		frame->eager.tag = cpu_to_le64(send->tag);
		frame->eager.immediate = cpu_to_le64(send->immediate);
		if (!ibr_path_emit(path, frag)) {
			ibr_frag_put(frag);
			return false;
		}
		if (!path->native)
			send->unacked++;
		send->started = true;
		send->offset += length;
	} while (send->offset < send->length);

	send->sequence = flow->sequence++;
	flow->cost += cost;
	send->sent = true;
	list_move_tail(&send->link, &flow->sent);
	if (send->wire_flags & WIRE_MSG_SYNC)
		ibr_outflow_expect(flow, send);
	path->counters.tx_eager++;
	path->counters.tx_remote += send->opcode == IBRELK_OP_PUT;
	send_check(send);
	return true;
}

/*
 * There is no eager credit for the next message. It comes back as soon as the receiver's process has had its
 * turn, as a rule, and an RTS would cost both ends far more than waiting for that: so the flow waits, but not for
 * long, since the messages behind may be the ones that the receiver waits for. Return: it does.
 */
static bool send_waits(struct ibr_path *path, struct ibr_outflow *flow, u32 cost)
{
	u32 wait_us = READ_ONCE(ibr_credit_wait_us);
	struct ibr_outflow *before;

	if (flow->unpaid < flow->unpaid_max || cost > flow->grant || !wait_us)
		return false;
	/* What it has waited already counts, if an answer has made it go on meanwhile. */
	if (flow->unpaid_at <= path->now) {
		flow->unpaid_at = path->now + (u64)wait_us * NSEC_PER_USEC;
		flow->unpaid_answered = false;
		path->counters.tx_credit_waits++;
	}
	flow->patient_until = flow->unpaid_at;
	list_for_each_entry_reverse(before, &path->patient, ready)
		if (before->patient_until <= flow->patient_until)
			break;
	list_move(&flow->ready, &before->ready);
	return true;
}

/* The next message goes by RTS for want of credit. Return: false when blocked. */
static bool send_unpaid(struct ibr_path *path, struct ibr_outflow *flow, struct ibr_send *send)
{
	u32 announced = flow->announced;
	bool sent = send_rts(path, flow, send);

	if (flow->announced != announced && flow->unpaid < flow->unpaid_max) {
		send->unpaid = true;
		flow->unpaid++;
	}
	return sent;
}

bool ibr_send_start(struct ibr_path *path, struct ibr_outflow *flow)
{
	struct ibr_send *send = list_first_entry(&flow->queue, struct ibr_send, link);
	u32 cost;

	if (send->started)
		return send_eager(path, flow, send);
	if (!send->data || send->length > (u64)IBR_EAGER_FRAGS_MAX * path->payload_max)
		return send_rts(path, flow, send);
	/* Native data may get lost without anybody noticing, which these levels do not allow for. */
	if (path->native && send->level > IBRELK_LEVEL_BUFFERED)
		return send_rts(path, flow, send);
	cost = ibr_message_cost(send->length);
	if (flow->cost + cost > flow->limit)
		return send_waits(path, flow, cost) || send_unpaid(path, flow, send);
	if (!list_empty(&flow->announcing)) {
		/*
		 * Native data that overtakes a lost RTS would make the receiver give that message up. Comes
		 * back with its ACK.
		 */
		list_del_init(&flow->ready);
		return true;
	}
	return send_eager(path, flow, send);
}

/* ---- answers to gets and atomics ------------------------------------------------------------ */

/* A copy, unless there are too many already: who asks need not take what he gets. Return: 0, -ENOMEM, -ENOBUFS. */
static int answer_copy(struct ibr_send *send)
{
	struct ibr_endpoint *endpoint = send->flow->endpoint;

	if (send->length <= IBR_FRAG_SMALL) {
		send->data = send->frag.inline_payload;
		return 0;
	}
	if (send->length > ibr_eager_max)
		return -ENOBUFS;
	if (atomic64_add_return(send->length, &endpoint->answer_bytes) <= endpoint->unexpected_max) {
		send->data = ibr_alloc_atomic(endpoint->memcg, send->length);
		if (send->data)
			return 0;
		atomic64_sub(send->length, &endpoint->answer_bytes);
		return -ENOMEM;
	}
	atomic64_sub(send->length, &endpoint->answer_bytes);
	return -ENOBUFS;
}

/* What is short is copied, what is long is sent from where it is. */
static int answer_take(struct ibr_send *send, struct ibr_space *space, const struct ibr_message *message)
{
	u64 key = message->immediate, address = message->match.tag;
	int ret = answer_copy(send);

	if (message->atomic)
		return ret ?: ibr_message_compute(message, space, send->data);

	if (ret == -ENOBUFS) {
		memset(&send->umem, 0, sizeof(send->umem));
		send->access.send = send;
		send->pinned = true;
		return ibr_access_begin(&send->access, &send->umem, send->flow->path, space, key, address,
					send->length);
	}
	return ret ?: ibr_region_read(space, key, address, send->data, send->length);
}

int ibr_send_answer(struct ibr_inflow *flow, struct ibr_space *space, const struct ibr_message *message)
{
	struct ibr_outflow *back = ibr_inflow_back(flow);
	struct ibr_send *send = NULL;
	struct mem_cgroup *old;
	int ret;

	if (back && !ibr_outflow_begin(back) && !ibr_alloc_fails()) {
		old = set_active_memcg(flow->endpoint->memcg);
		send = send_alloc(GFP_ATOMIC | __GFP_ACCOUNT | __GFP_NOWARN);
		set_active_memcg(old);
	}
	if (!send)
		return -ENOMEM;
	send->opcode = IBRELK_OP_NOP;
	send->level = IBRELK_LEVEL_MATCHED;
	send->wire_flags = WIRE_MSG_REMOTE | WIRE_MSG_ANSWER | WIRE_MSG_SYNC;
	send->completed = true;
	send->length = message->length;
	send->immediate = message->rts_message;
	send->asked = message->rts_message;
	kref_get(&back->ref);
	send->flow = back;
	ibr_inflow_get(flow);
	send->serves = flow;
	/* What was computed has to be told: there is nothing that can go wrong from here on. */
	ret = answer_take(send, space, message);
	if (ret) {
		send->pinned = false;
		send->finished = true;
		send_finish(send);
	} else {
		ibr_outflow_answer(send);
	}
	return ret;
}

/* With a constructor, memory is not zeroed twice; ibr_send_create() sets what has to be set. */
static void send_construct(void *send)
{
	memset(send, 0, sizeof(struct ibr_send));
}

int ibr_send_init(void)
{
	send_cache = kmem_cache_create_usercopy("ibrelk_send",
						sizeof(struct ibr_send) + IBR_FRAG_SMALL, 0,
						SLAB_HWCACHE_ALIGN,
						offsetof(struct ibr_send, frag.inline_payload),
						IBR_FRAG_SMALL, send_construct);
	return send_cache ? 0 : -ENOMEM;
}

void ibr_send_exit(void)
{
	kmem_cache_destroy(send_cache);
}
