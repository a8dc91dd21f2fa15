// SPDX-License-Identifier: GPL-2.0-only
/*
 * Flows: how the stream from one endpoint to another is opened, granted credit, and closed; and the
 * handles by which frames name the objects of a path. What flows through them is in send.c, message.c and
 * rendezvous.c.
 */
#include <linux/jhash.h>
#include <linux/memcontrol.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "compat.h"
#include "device.h"
#include "drive.h"
#include "flow.h"
#include "params.h"
#include "transport/transport.h"

#define STREAM_MESSAGES	4u	/* so many behind unacknowledged ones are a stream: the last of them may wait for others */

/*
 * Handles are given out round robin in 24 bits, so that one which was given back names nothing for a
 * long time, and a late frame for it is recognised.
 */
#define HANDLE_LIMIT	XA_LIMIT(1, (1u << 24) - 1)

int ibr_handle_add(struct ibr_path *path, struct ibr_handle *handle, enum ibr_handle_type type)
{
	int ret;

	if (ibr_alloc_fails())
		return -ENOMEM;
	handle->type = type;
	ret = xa_alloc_cyclic(&path->handles, &handle->id, handle, HANDLE_LIMIT, &path->handle_next,
			      GFP_ATOMIC | __GFP_NOWARN);
	if (ret < 0) {
		handle->id = 0;
		return -ENOMEM;
	}
	return 0;
}

void ibr_handle_remove(struct ibr_path *path, struct ibr_handle *handle)
{
	if (handle->id)
		xa_erase(&path->handles, handle->id);
	handle->id = 0;
}

void *ibr_handle_find(struct ibr_path *path, u32 id, enum ibr_handle_type type)
{
	struct ibr_handle *handle = xa_load(&path->handles, id);

	return handle && handle->type == type ? handle : NULL;
}

int ibr_wire_error(__le32 status)
{
	u32 error = le32_to_cpu(status);

	switch (error) {
	case EIO:
	case ENOMEM:
	case EACCES:
	case EFAULT:
	case EBUSY:
	case ENODEV:
	case ETIMEDOUT:
	case ECONNREFUSED:
	case ECONNRESET:
	case ESTALE:
	case EUSERS:
		return -(int)error;
	default:
		return -EREMOTEIO;
	}
}

/* Return: the fragment that was queued, or NULL. Context: path->lock held. */
static struct ibr_frag *control_queue(struct ibr_path *path, const struct wire_frame *frame)
{
	struct ibr_frag *frag = NULL;

	lockdep_assert_held(&path->lock);
	/* A peer that makes us answer and does not take the answers is no honest one. */
	if (path->queue < IBR_CONTROL_MAX)
		frag = ibr_frag_alloc(0);
	if (!frag)
		return NULL;
	frag->control = true;
	frag->frame = *frame;
	list_add_tail(&frag->link, &path->control);
	path->queue++;
	path->queue_peak = max(path->queue_peak, path->queue);
	return frag;
}

/* The same. Without memory, the reserve's included, a protocol step is missing, so this life cannot go on. */
static struct ibr_frag *control_must(struct ibr_path *path, const struct wire_frame *frame)
{
	struct ibr_frag *frag = control_queue(path, frame);

	if (!frag) {
		path->doomed = -ENOMEM;
		path->starved = true;
	}
	return frag;
}

int ibr_control_try(struct ibr_path *path, const struct wire_frame *frame)
{
	return control_queue(path, frame) ? 0 : -ENOMEM;
}

int ibr_control_send(struct ibr_path *path, const struct wire_frame *frame)
{
	return control_must(path, frame) ? 0 : -ENOMEM;
}

/* ---- contacts ------------------------------------------------------------------------------ */

/* The contact of just this address, or NULL and the place to insert it. Context: endpoint->lock held. */
static struct ibr_contact *contact_place(struct ibr_endpoint *endpoint, const struct ibrelk_addr *addr,
					 struct rb_node ***place, struct rb_node **parent)
{
	struct ibr_contact *contact;
	int order;

	*place = &endpoint->contact_tree.rb_node;
	*parent = NULL;
	while (**place) {
		*parent = **place;
		contact = rb_entry(*parent, struct ibr_contact, node);
		order = memcmp(addr, &contact->addr, sizeof(*addr));
		if (!order)
			return contact;
		*place = order < 0 ? &(*parent)->rb_left : &(*parent)->rb_right;
	}
	return NULL;
}

/*
 * @learned: the address was seen in a packet, so its generation is the real one; a contact that the user added for any
 * generation stands for it too, unless he has added just that one. The place is that of the address itself.
 */
static struct ibr_contact *contact_find(struct ibr_endpoint *endpoint, const struct ibrelk_addr *addr, bool learned,
					struct rb_node ***place, struct rb_node **parent)
{
	struct ibr_contact *contact = contact_place(endpoint, addr, place, parent);
	struct rb_node **any_place, *any_parent;
	struct ibrelk_addr any = *addr;

	lockdep_assert_held(&endpoint->lock);
	if (contact || !learned || !addr->generation)
		return contact;
	any.generation = 0;
	return contact_place(endpoint, &any, &any_place, &any_parent);
}

struct ibr_contact *ibr_contact_find(struct ibr_endpoint *endpoint, u32 handle)
{
	return xa_load(&endpoint->contacts, handle);
}

struct ibr_contact *ibr_contact_get_addr(struct ibr_endpoint *endpoint, const struct ibrelk_addr *addr,
					 bool learned, gfp_t gfp)
{
	struct ibr_contact *contact, *other;
	struct rb_node **place, *parent;
	bool full;
	int ret;

	spin_lock_bh(&endpoint->lock);
	contact = contact_find(endpoint, addr, learned, &place, &parent);
	if (learned)
		full = endpoint->learned >= IBR_SOURCES_MAX;
	else
		full = endpoint->flow_count - endpoint->learned >= IBR_PEERS_MAX;
	spin_unlock_bh(&endpoint->lock);
	if (contact)
		return contact;
	if (full)
		return ERR_PTR(learned ? -EUSERS : -ENOSPC);

	contact = kzalloc(sizeof(*contact), gfp);
	if (!contact)
		return ERR_PTR(-ENOMEM);
	contact->addr = *addr;
	/* Only reserved, because handles can be guessed: nobody may find what may yet be thrown away. */
	ret = xa_alloc_bh(&endpoint->contacts, &contact->handle, NULL,
			  XA_LIMIT(0, IBRELK_PEER_ANY - 1), gfp);
	if (ret) {
		kfree(contact);
		return ERR_PTR(ret == -EBUSY ? -ENOSPC : ret);
	}

	spin_lock_bh(&endpoint->lock);
	other = contact_find(endpoint, addr, learned, &place, &parent);
	if (!other) {
		rb_link_node(&contact->node, parent, place);
		rb_insert_color(&contact->node, &endpoint->contact_tree);
		endpoint->flow_count++;
		endpoint->learned += learned;
		/* Into a reserved place, which takes no memory. */
		xa_store_bh(&endpoint->contacts, contact->handle, contact, GFP_ATOMIC);
	}
	spin_unlock_bh(&endpoint->lock);
	if (other) {
		xa_erase_bh(&endpoint->contacts, contact->handle);
		kfree(contact);
		return other;
	}
	return contact;
}

/* ---- shares of users ----------------------------------------------------------------------- */

static struct ibr_share *share_find(struct ibr_path *path, kuid_t user)
{
	struct ibr_share *share;

	list_for_each_entry(share, &path->shares, node)
		if (uid_eq(share->user, user))
			return share;
	return NULL;
}

/* Where flows of the endpoint's user are counted, made if need be; or NULL: no memory. */
static struct ibr_share *share_get(struct ibr_path *path, const struct ibr_endpoint *endpoint)
{
	struct ibr_share *share = share_find(path, endpoint->user);

	if (share)
		return share;
	share = ibr_alloc_atomic(endpoint->memcg, sizeof(*share));
	if (!share)
		return NULL;
	share->user = endpoint->user;
	share->inflows = 0;
	share->openings = 0;
	list_add(&share->node, &path->shares);
	return share;
}

static void share_put(struct ibr_share *share)
{
	if (share->inflows || share->openings)
		return;
	list_del(&share->node);
	kfree(share);
}

/* The endpoint's user has one more flow. Return: where it is counted, or NULL: no memory. */
static struct ibr_share *share_take(struct ibr_path *path, const struct ibr_endpoint *endpoint)
{
	struct ibr_share *share = share_get(path, endpoint);

	if (share) {
		share->inflows++;
		path->inflow_count++;
	}
	return share;
}

static void share_return(struct ibr_path *path, struct ibr_share *share)
{
	path->inflow_count--;
	share->inflows--;
	share_put(share);
}

/* Nobody has more flows than are left for all others, so that these get some, too. */
static bool share_has_room(struct ibr_path *path, const struct ibr_endpoint *endpoint)
{
	const struct ibr_share *share = share_find(path, endpoint->user);

	return (share ? share->inflows : 0) < IBR_INFLOWS_MAX - path->inflow_count;
}

/* The same of those that are being opened. Return: 0, or -ENOMEM. */
static int share_open(struct ibr_path *path, struct ibr_outflow *flow)
{
	struct ibr_share *share = share_get(path, flow->endpoint);

	if (!share)
		return -ENOMEM;
	if (share->openings >= IBR_OPENINGS_MAX - path->opening_count) {
		share_put(share);
		return -ENOMEM;
	}
	share->openings++;
	path->opening_count++;
	flow->share = share;
	return 0;
}

static struct ibr_share *share_leave(struct ibr_outflow *flow)
{
	struct ibr_share *share = flow->share;

	flow->share = NULL;
	flow->path->opening_count--;
	share->openings--;
	return share;
}

/* It is open, or is not going to be. */
static void share_opened(struct ibr_outflow *flow)
{
	if (flow->share)
		share_put(share_leave(flow));
}

/* ---- outflows ------------------------------------------------------------------------------ */

static void outflow_setup(struct ibr_outflow *flow, struct ibr_endpoint *endpoint, struct ibr_path *path)
{
	kref_init(&flow->ref);
	ibr_endpoint_get(endpoint);
	flow->endpoint = endpoint;
	flow->path = path;
	flow->state = IBR_OUTFLOW_CLOSED;
	INIT_LIST_HEAD(&flow->queue);
	INIT_LIST_HEAD(&flow->sent);
	INIT_LIST_HEAD(&flow->announcing);
	flow->matching = RB_ROOT;
	INIT_LIST_HEAD(&flow->ready);
	INIT_LIST_HEAD(&flow->on_path);
}

struct ibr_outflow *ibr_outflow_get(struct ibr_endpoint *endpoint, struct ibr_contact *contact)
{
	struct ibr_path_key key = { .mode = endpoint->mode };
	struct ibr_outflow *flow, *old;
	struct ibr_path *path;
	bool same_node;
	int ret;

	rcu_read_lock();
	flow = rcu_dereference(contact->out);
	if (flow && (READ_ONCE(flow->path->removed) || !kref_get_unless_zero(&flow->ref)))
		flow = NULL;
	rcu_read_unlock();
	if (likely(flow))
		return flow;

	mutex_lock(&endpoint->setup_lock);
	old = rcu_dereference_protected(contact->out, lockdep_is_held(&endpoint->setup_lock));
	if (old && !READ_ONCE(old->path->removed)) {
		flow = old;
		goto out;
	}

	memcpy(key.remote_gid, contact->addr.gid, sizeof(key.remote_gid));
	same_node = ibr_gid_loopback(key.remote_gid);
	ret = same_node ? 0 : ibr_device_select(endpoint->local.gid, key.remote_gid, key.local_gid,
						&same_node);
	if (ret)
		goto err;
	if (same_node && (ibr_loopback || ibr_gid_loopback(key.remote_gid)))
		memcpy(key.local_gid, key.remote_gid, sizeof(key.local_gid));
	path = ibr_path_get_key(&key, false);
	if (IS_ERR(path)) {
		ret = PTR_ERR(path);
		goto err;
	}
	flow = kzalloc(sizeof(*flow), GFP_KERNEL_ACCOUNT);
	if (!flow) {
		ibr_path_put(path);
		ret = -ENOMEM;
		goto err;
	}
	outflow_setup(flow, endpoint, path);
	flow->remote = contact->addr;

	/* A flow over a port that went away is of no more use; its sends have failed. */
	rcu_assign_pointer(contact->out, flow);
	if (old)
		ibr_outflow_put(old);
out:
	kref_get(&flow->ref);
	mutex_unlock(&endpoint->setup_lock);
	return flow;
err:
	mutex_unlock(&endpoint->setup_lock);
	return ERR_PTR(ret);
}

static void outflow_free(struct kref *ref)
{
	struct ibr_outflow *flow = container_of(ref, struct ibr_outflow, ref);

	ibr_path_put(flow->path);
	ibr_endpoint_put(flow->endpoint);
	kfree_rcu(flow, rcu);
}

void ibr_outflow_put(struct ibr_outflow *flow)
{
	kref_put(&flow->ref, outflow_free);
}

void ibr_outflow_wake(struct ibr_outflow *flow)
{
	lockdep_assert_held(&flow->path->lock);
	if (flow->state == IBR_OUTFLOW_OPEN && !list_empty(&flow->queue) && list_empty(&flow->ready))
		list_add_tail(&flow->ready, &flow->path->ready);
}

/* Ask the endpoint for the flow, once more if need be, as soon as the path lets it. Context: path->lock held. */
void ibr_outflow_ask(struct ibr_outflow *flow)
{
	lockdep_assert_held(&flow->path->lock);
	list_move_tail(&flow->ready, &flow->path->opening);
}

bool ibr_outflow_request(struct ibr_path *path, struct ibr_outflow *flow)
{
	struct ibr_frag *frag;

	if (!ibr_path_can_emit(path, true, 0))
		return false;
	frag = ibr_frag_alloc_bulk();
	if (!frag) {
		path->starved = true;
		return false;
	}
	frag->control = true;
	frag->frame = (struct wire_frame) {
		.type = WIRE_FRAME_FLOW_OPEN,
		.flow = cpu_to_le32(flow->h.id),
		.open.src_endpoint = cpu_to_le32(flow->endpoint->id),
		.open.src_generation = cpu_to_le32(flow->endpoint->generation),
		.open.dst_endpoint = cpu_to_le32(flow->remote.endpoint),
		.open.dst_generation = cpu_to_le32(flow->remote.generation),
		.open.job = cpu_to_le64(flow->endpoint->job),
	};
	if (!ibr_path_emit(path, frag)) {
		ibr_frag_put(frag);
		return false;
	}
	list_del_init(&flow->ready);
	return true;
}

static int outflow_open(struct ibr_outflow *flow)
{
	struct ibr_path *path = flow->path;
	int ret;

	ret = share_open(path, flow);
	if (ret)
		return ret;
	ret = ibr_handle_add(path, &flow->h, IBR_HANDLE_OUTFLOW);
	if (ret) {
		/* The share stays, though empty: whoever tries again needs less memory. */
		share_leave(flow);
		return ret;
	}
	ibr_outflow_ask(flow);
	flow->state = IBR_OUTFLOW_OPENING;
	flow->unpaid_max = 0;
	flow->unpaid_at = 0;
	flow->patient_until = 0;
	flow->streak = 0;
	flow->sequence = IBR_COUNTERS_START;
	flow->cost = IBR_COUNTERS_START;
	flow->limit = IBR_COUNTERS_START;
	flow->announced = IBR_COUNTERS_START;
	flow->announce_limit = IBR_COUNTERS_START;
	kref_get(&flow->ref);		/* held by the path's list */
	list_add_tail(&flow->on_path, &path->outflows);
	ibr_path_add_flow(path);
	return 0;
}

/*
 * May it wait for others to share their packets? If it is complete as soon as it is queued, and the next one of a
 * stream: the latest messages of the flow were queued before all that were sent were acknowledged. So who sends one and
 * waits for an answer is not kept waiting, nor are the first ones after a pause; nor does one wait after which there is
 * no place for another one. An ACK may come just before a message of a stream, which is one again soon after that.
 */
static bool send_may_wait(struct ibr_outflow *flow, const struct ibr_send *send)
{
	const struct ibr_send *before = list_last_entry(&flow->sent, struct ibr_send, link);

	if (!list_empty(&flow->queue) || (!list_empty(&flow->sent) && before->unacked))
		flow->streak = min(flow->streak + 1, STREAM_MESSAGES);
	else
		flow->streak /= 2;
	return flow->streak == STREAM_MESSAGES && flow->state == IBR_OUTFLOW_OPEN && !flow->path->native &&
	       send->level == IBRELK_LEVEL_BUFFERED && send->data &&
	       atomic_read(&flow->endpoint->sends) < flow->endpoint->sends_max;
}

/*
 * Queue a send. Takes over the caller's reference to @send. Return: 0, or -errno: nothing was queued. Context: process.
 */
int ibr_outflow_queue(struct ibr_outflow *flow, struct ibr_send *send, struct ibr_path **undriven)
{
	struct ibr_path *path = flow->path;
	int ret = 0;

	spin_lock_bh(&path->lock);
	if (path->removed)
		ret = -ENODEV;
	else if (flow->state == IBR_OUTFLOW_CLOSED)
		ret = outflow_open(flow);
	if (ret) {
		spin_unlock_bh(&path->lock);
		return ret;
	}
	path->counters.tx_messages++;
	path->counters.tx_bytes += ibr_send_asks(send) ? 0 : send->length;
	if (send_may_wait(flow, send))
		ibr_path_hold(path, send->length);
	else
		ibr_path_urge(path);
	list_add_tail(&send->link, &flow->queue);
	if (flow->state == IBR_OUTFLOW_OPEN) {
		if (send->level == IBRELK_LEVEL_BUFFERED && send->data)
			ibr_send_complete(send, 0);
		ibr_outflow_wake(flow);
	}
	if (!*undriven) {
		ibr_path_get(path);
		*undriven = path;
	} else if (*undriven != path) {
		ibr_path_drive_locked(path);
	}
	spin_unlock_bh(&path->lock);
	return 0;
}

int ibr_outflow_begin(struct ibr_outflow *flow)
{
	return flow->state == IBR_OUTFLOW_CLOSED ? outflow_open(flow) : 0;
}

void ibr_outflow_answer(struct ibr_send *send)
{
	list_add_tail(&send->link, &send->flow->queue);
	ibr_outflow_wake(send->flow);
}

/* A flow that nobody here will use was accepted: nobody else would ever tell the other side. */
static int flow_refuse_accept(struct ibr_path *path, const struct wire_frame *accept)
{
	struct wire_frame frame = {
		.type = WIRE_FRAME_FLOW_CLOSE,
		.flow = accept->accept.handle,
	};

	return ibr_control_try(path, &frame);
}

/* The endpoint takes more. Context: path->lock held. */
static void outflow_granted(struct ibr_outflow *flow, u64 limit, u32 announce)
{
	if (limit > flow->limit) {
		flow->limit = limit;
		/* The receiver may have taken some of it back: no less than what it has now tells how much is left. */
		flow->grant = max(limit - flow->cost, flow->grant - flow->grant / 8);
		flow->unpaid_max = 0;
		flow->unpaid_at = 0;
		if (flow->patient_until) {
			flow->patient_until = 0;
			list_del_init(&flow->ready);
		}
	}
	if ((s32)(announce - flow->announce_limit) > 0)
		flow->announce_limit = announce;
	ibr_outflow_wake(flow);
}

/* The endpoint agreed. Return: 0, or -ENOMEM: not received. Context: path->lock held. */
static int outflow_accepted(struct ibr_outflow *flow, const struct wire_frame *frame)
{
	struct ibr_send *send;

	if (flow->state == IBR_OUTFLOW_OPEN) {
		/* The request came twice, and the second answer may grant more. */
		if (flow->remote_handle != le32_to_cpu(frame->accept.handle))
			return flow_refuse_accept(flow->path, frame);
		outflow_granted(flow, le64_to_cpu(frame->accept.credit), le32_to_cpu(frame->accept.announce));
		return 0;
	}
	if (flow->state != IBR_OUTFLOW_OPENING)
		return 0;
	flow->state = IBR_OUTFLOW_OPEN;
	share_opened(flow);
	list_del_init(&flow->ready);	/* only a dishonest peer agrees to what was not asked */
	flow->remote_handle = le32_to_cpu(frame->accept.handle);
	flow->limit = le64_to_cpu(frame->accept.credit);
	flow->grant = flow->limit - flow->cost;
	flow->announce_limit = le32_to_cpu(frame->accept.announce);
	list_for_each_entry(send, &flow->queue, link)
		if (send->level == IBRELK_LEVEL_BUFFERED && send->data)
			ibr_send_complete(send, 0);
	ibr_outflow_wake(flow);
	ibr_outflow_idle(flow);
	return 0;
}

/* All sends of the flow fail; the next one asks anew. Context: path->lock held. */
void ibr_outflow_fail(struct ibr_outflow *flow, int error)
{
	struct ibr_path *path = flow->path;
	struct ibr_send *send;
	bool listed = flow->state != IBR_OUTFLOW_CLOSED;

	lockdep_assert_held(&path->lock);
	flow->state = IBR_OUTFLOW_CLOSED;
	share_opened(flow);
	flow->patient_until = 0;
	list_del_init(&flow->ready);
	while (!list_empty(&flow->announcing))
		list_del_init(flow->announcing.next);
	ibr_handle_remove(path, &flow->h);
	if (!list_empty(&flow->on_path)) {
		list_del_init(&flow->on_path);
		path->flow_count--;
	}
	while ((send = list_first_entry_or_null(&flow->sent, struct ibr_send, link)))
		ibr_send_retire(send, error);
	while ((send = list_first_entry_or_null(&flow->queue, struct ibr_send, link)))
		ibr_send_retire(send, error);
	if (listed)
		ibr_outflow_put(flow);
}

static void flow_say_close(struct ibr_path *path, u32 handle)
{
	struct wire_frame frame = {
		.type = WIRE_FRAME_FLOW_CLOSE,
		.flow = cpu_to_le32(handle),
	};

	ibr_control_send(path, &frame);
}

/* A closing flow that has nothing left to do says good-bye. Context: path->lock held. */
void ibr_outflow_idle(struct ibr_outflow *flow)
{
	if (!flow->closing || !list_empty(&flow->queue) || !list_empty(&flow->sent))
		return;
	if (flow->state == IBR_OUTFLOW_OPEN) {
		flow_say_close(flow->path, flow->remote_handle);
		ibr_outflow_fail(flow, -ECONNRESET);
	}
}

/* Is it all here? Of an atomic that fetches, what was there would have to go to the process. */
static bool send_is_buffered(const struct ibr_send *send)
{
	return send->data || (send->atomic && !(send->atomic & WIRE_ATOMIC_FETCH));
}

static bool sends_are_buffered(const struct list_head *sends)
{
	const struct ibr_send *send;

	list_for_each_entry(send, sends, link)
		if (!send_is_buffered(send))
			return false;
	return true;
}

/* Give up what refers to the process's memory, at most @budget sends. Return: what is left of it. */
static u32 outflow_abort_pinned(struct list_head *sends, u32 budget)
{
	struct ibr_send *send, *next;

	list_for_each_entry_safe(send, next, sends, link) {
		if (send_is_buffered(send))
			continue;
		if (!budget)
			break;
		ibr_send_abort(send, -ECONNRESET);
		budget--;
	}
	return budget;
}

/* All of it is given up, for which one frame is enough. Context: path->lock held. */
static void outflow_end(struct ibr_outflow *flow, int error)
{
	if (flow->state == IBR_OUTFLOW_OPEN)
		flow_say_close(flow->path, flow->remote_handle);
	if (flow->state != IBR_OUTFLOW_CLOSED)
		ibr_outflow_fail(flow, error);
}

/*
 * The endpoint is closed: what refers to the process's memory is given up, what was buffered still
 * goes out. But where the peer has not taken what waits for long, a flow that has any of the former ends with all that
 * it has: to abort one by one might use up what all processes have in common. Context: process.
 */
void ibr_outflow_close(struct ibr_outflow *flow)
{
	struct ibr_path *path = flow->path;
	u32 budget;

	do {
		ibr_frag_refill();
		spin_lock_bh(&path->lock);
		flow->closing = true;
		if (path->queue >= IBR_CONTROL_CROWD &&
		    !(sends_are_buffered(&flow->sent) && sends_are_buffered(&flow->queue)))
			outflow_end(flow, -ECONNRESET);
		budget = outflow_abort_pinned(&flow->sent, IBR_FRAG_BATCH);
		budget = outflow_abort_pinned(&flow->queue, budget);
		if (budget)
			ibr_outflow_idle(flow);
		ibr_path_drive_locked(path);
		spin_unlock_bh(&path->lock);
	} while (!budget);
}

/* Give up what lingers. Context: process. */
void ibr_outflow_cut(struct ibr_outflow *flow)
{
	ibr_frag_refill();
	spin_lock_bh(&flow->path->lock);
	outflow_end(flow, -ETIMEDOUT);
	ibr_path_drive_locked(flow->path);
	spin_unlock_bh(&flow->path->lock);
}

/* ---- inflows ------------------------------------------------------------------------------- */

void ibr_inflow_get(struct ibr_inflow *flow)
{
	kref_get(&flow->ref);
}

static void inflow_free(struct kref *ref)
{
	struct ibr_inflow *flow = container_of(ref, struct ibr_inflow, ref);
	struct ibr_endpoint *endpoint = flow->endpoint;

	spin_lock_bh(&endpoint->lock);
	endpoint->sources--;
	endpoint->headers_granted -= flow->headers;
	spin_unlock_bh(&endpoint->lock);
	ibr_path_put(flow->path);
	ibr_endpoint_put(flow->endpoint);
	kfree(flow);
}

void ibr_inflow_put(struct ibr_inflow *flow)
{
	kref_put(&flow->ref, inflow_free);
}

struct ibr_outflow *ibr_inflow_back(struct ibr_inflow *flow)
{
	struct ibr_outflow *back = flow->back;

	if (back)
		return back;
	back = ibr_alloc_atomic(flow->endpoint->memcg, sizeof(*back));
	if (!back)
		return NULL;
	memset(back, 0, sizeof(*back));
	ibr_path_get(flow->path);
	outflow_setup(back, flow->endpoint, flow->path);
	/* It goes to whoever has asked, by the way that he came. */
	memcpy(back->remote.gid, flow->path->key.remote_gid, sizeof(back->remote.gid));
	back->remote.endpoint = flow->src_endpoint;
	back->remote.generation = flow->src_generation;
	flow->back = back;
	return back;
}

/* Nobody waits for an answer any more. */
static void inflow_drop_back(struct ibr_inflow *flow)
{
	struct ibr_outflow *back = flow->back;

	flow->back = NULL;
	if (!back)
		return;
	outflow_end(back, -ECONNRESET);
	ibr_outflow_put(back);
}

/* What a new flow may use of the endpoint's unexpected memory: little, since it may stay idle. Return: cost bytes. */
static u64 inflow_reserve(struct ibr_endpoint *endpoint)
{
	u64 grant;

	spin_lock_bh(&endpoint->lock);
	/* At most a quarter of what is left, so that later ones get something too. */
	grant = min((u64)IBR_GRANT_FIRST, (endpoint->unexpected_max - endpoint->unexpected_granted) / 4);
	endpoint->unexpected_granted += grant;
	spin_unlock_bh(&endpoint->lock);
	return grant;
}

/*
 * @cost has come back (0: a header). Who uses the memory gets more of it, up to the part that is the same for all. The
 * parts are of three quarters, so that there is something for newcomers while all others are idle; when these use the
 * rest, who has more than his part, as there were fewer flows before, gets that much less back.
 */
static void inflow_regrant(struct ibr_inflow *flow, u32 cost)
{
	struct ibr_endpoint *endpoint = flow->endpoint;
	u64 room = endpoint->unexpected_max - endpoint->unexpected_max / 4;
	u64 part, more = 0, less = 0;

	spin_lock_bh(&endpoint->lock);
	part = min_t(u64, IBR_GRANT_MAX, div_u64(room, max(endpoint->sources, 1u)));
	if (flow->grant < part)
		more = min3(part - flow->grant, (endpoint->unexpected_max - endpoint->unexpected_granted) / 4,
			    (u64)IBR_GRANT_FIRST);
	else if (endpoint->unexpected_granted + IBR_GRANT_FIRST > room)
		less = min_t(u64, cost, flow->grant - part);
	endpoint->unexpected_granted += more - less;
	spin_unlock_bh(&endpoint->lock);
	flow->grant += more - less;
	flow->limit += cost + more - less;
}

static void inflow_unreserve(struct ibr_endpoint *endpoint, u64 cost)
{
	spin_lock_bh(&endpoint->lock);
	endpoint->unexpected_granted -= cost;
	spin_unlock_bh(&endpoint->lock);
}

/*
 * Memory of RTS that wait for a receive is limited too. Every flow may have a few, and be it one; the more of
 * them wait, the more it gets, until the endpoint has no more to give: then the sender waits, and nothing is
 * lost. As with memory, a quarter of what is left, so that later ones get something too.
 */
static void inflow_reserve_headers(struct ibr_inflow *flow, u32 wanted, u32 least)
{
	struct ibr_endpoint *endpoint = flow->endpoint;
	u32 left;

	spin_lock_bh(&endpoint->lock);
	left = IBR_HEADERS_MAX - min(endpoint->headers_granted, IBR_HEADERS_MAX);
	wanted = max(min(wanted, left / 4), least);
	endpoint->headers_granted += wanted;
	spin_unlock_bh(&endpoint->lock);
	flow->headers += wanted;
}

static void inflow_enlarge(struct ibr_inflow *flow)
{
	if (flow->headers_waiting <= flow->headers / 2)
		return;
	/* No sender has more commands outstanding than IBR_SENDS_MAX. */
	inflow_reserve_headers(flow, min(flow->headers, IBR_SENDS_MAX - min(flow->headers, IBR_SENDS_MAX)), 0);
}

/* A flow that is over needs no more than what waits. */
static void inflow_reduce(struct ibr_inflow *flow)
{
	struct ibr_endpoint *endpoint = flow->endpoint;

	spin_lock_bh(&endpoint->lock);
	endpoint->headers_granted -= flow->headers - flow->headers_waiting;
	spin_unlock_bh(&endpoint->lock);
	flow->headers = flow->headers_waiting;
}

/* How many RTS the sender may send in all. */
static u32 inflow_announce(const struct ibr_inflow *flow)
{
	return flow->announced - flow->headers_waiting + flow->headers;
}

static int inflow_accept(struct ibr_inflow *flow)
{
	struct wire_frame frame = {
		.type = WIRE_FRAME_FLOW_ACCEPT,
		.flow = cpu_to_le32(flow->remote_handle),
		.accept.handle = cpu_to_le32(flow->h.id),
		.accept.generation = cpu_to_le32(flow->endpoint->generation),
		.accept.credit = cpu_to_le64(flow->limit),
		.accept.announce = cpu_to_le32(inflow_announce(flow)),
	};

	flow->advertised = flow->limit;
	flow->announce_told = inflow_announce(flow);
	return ibr_control_try(flow->path, &frame);
}

static struct hlist_head *inflow_bucket(struct ibr_path *path, const struct wire_frame *open)
{
	u32 hash = jhash_3words(le32_to_cpu(open->flow), le32_to_cpu(open->open.src_endpoint),
				le32_to_cpu(open->open.src_generation), path->hash_seed);

	return &path->inflow_hash[hash % ARRAY_SIZE(path->inflow_hash)];
}

static struct ibr_inflow *inflow_find(struct ibr_path *path, const struct wire_frame *open)
{
	struct ibr_inflow *flow;

	hlist_for_each_entry(flow, inflow_bucket(path, open), node)
		if (flow->remote_handle == le32_to_cpu(open->flow) &&
		    flow->src_endpoint == le32_to_cpu(open->open.src_endpoint) &&
		    flow->src_generation == le32_to_cpu(open->open.src_generation))
			return flow;
	return NULL;
}

/* Count one more source of the endpoint. Return: it may have one more. */
static bool inflow_admit(struct ibr_path *path, struct ibr_endpoint *endpoint)
{
	bool admitted;

	if (!share_has_room(path, endpoint))
		return false;
	spin_lock_bh(&endpoint->lock);
	admitted = endpoint->sources < IBR_SOURCES_MAX;
	endpoint->sources += admitted;
	spin_unlock_bh(&endpoint->lock);
	return admitted;
}

static void inflow_unadmit(struct ibr_endpoint *endpoint)
{
	spin_lock_bh(&endpoint->lock);
	endpoint->sources--;
	spin_unlock_bh(&endpoint->lock);
}

/*
 * Where a flow comes from. On the own node the path is named by the address that it leads to, which tells nothing of
 * who sends; but the flow's other end is on it too: an endpoint that is bound to an address is known by that one.
 * Context: path->lock held.
 */
static void inflow_source(struct ibr_path *path, const struct wire_frame *open, struct ibrelk_addr *addr)
{
	const struct ibr_endpoint *source;
	const struct ibr_outflow *out;

	memset(addr, 0, sizeof(*addr));
	memcpy(addr->gid, path->key.remote_gid, sizeof(addr->gid));
	addr->endpoint = le32_to_cpu(open->open.src_endpoint);
	addr->generation = le32_to_cpu(open->open.src_generation);
	if (path->transport != &ibr_transport_loop)
		return;
	out = ibr_handle_find(path, le32_to_cpu(open->flow), IBR_HANDLE_OUTFLOW);
	source = out ? out->endpoint : NULL;
	if (source && source->id == addr->endpoint && source->generation == addr->generation &&
	    memchr_inv(source->local.gid, 0, sizeof(addr->gid)))
		memcpy(addr->gid, source->local.gid, sizeof(addr->gid));
}

/* Return: flow, or ERR_PTR(-ENOMEM; -EUSERS: there are as many as there may be). */
static struct ibr_inflow *inflow_create(struct ibr_path *path, struct ibr_endpoint *endpoint,
					const struct wire_frame *frame)
{
	struct ibr_contact *contact;
	struct ibrelk_addr addr;
	struct mem_cgroup *old;
	struct ibr_inflow *flow;
	int ret;

	inflow_source(path, frame, &addr);
	if (!inflow_admit(path, endpoint))
		return ERR_PTR(-EUSERS);
	old = set_active_memcg(endpoint->memcg);
	contact = ibr_contact_get_addr(endpoint, &addr, true, GFP_ATOMIC | __GFP_ACCOUNT);
	set_active_memcg(old);
	ret = PTR_ERR_OR_ZERO(contact);
	if (ret)
		goto err_unadmit;
	ret = -ENOMEM;
	flow = ibr_alloc_atomic(endpoint->memcg, sizeof(*flow));
	if (!flow)
		goto err_unadmit;
	memset(flow, 0, sizeof(*flow));
	kref_init(&flow->ref);
	flow->contact = contact->handle;
	flow->remote_handle = le32_to_cpu(frame->flow);
	flow->src_endpoint = addr.endpoint;
	flow->src_generation = addr.generation;
	INIT_LIST_HEAD(&flow->early);
	INIT_LIST_HEAD(&flow->transfers);
	flow->share = share_take(path, endpoint);
	if (!flow->share)
		goto err_free;
	ret = ibr_handle_add(path, &flow->h, IBR_HANDLE_INFLOW);
	if (ret)
		goto err_share;
	ibr_endpoint_get(endpoint);
	flow->endpoint = endpoint;
	ibr_path_get(path);
	flow->path = path;
	flow->next = IBR_COUNTERS_START;
	flow->announced = IBR_COUNTERS_START;
	flow->spent = IBR_COUNTERS_START;
	flow->grant = inflow_reserve(endpoint);
	flow->limit = flow->spent + flow->grant;
	inflow_reserve_headers(flow, IBR_HEADERS_FIRST, 1);
	list_add_tail(&flow->on_path, &path->inflows);
	hlist_add_head(&flow->node, inflow_bucket(path, frame));
	ibr_path_add_flow(path);
	return flow;

err_share:
	share_return(path, flow->share);
err_free:
	kfree(flow);
err_unadmit:
	inflow_unadmit(endpoint);
	/* No handle is left, which is no reason to ask again either. */
	return ERR_PTR(ret == -ENOSPC ? -EUSERS : ret);
}

static int inflow_refuse(struct ibr_path *path, const struct wire_frame *open, int reason)
{
	struct wire_frame frame = {
		.type = WIRE_FRAME_FLOW_REFUSE,
		.flow = open->flow,
		.refuse.reason = cpu_to_le32(reason),
	};

	return ibr_control_try(path, &frame);
}

static int inflow_open(struct ibr_path *path, const struct wire_frame *frame)
{
	u32 generation = le32_to_cpu(frame->open.dst_generation);
	struct ibr_endpoint *endpoint;
	struct ibr_inflow *flow;
	int ret;

	/* The same request again: so is the answer. */
	flow = inflow_find(path, frame);
	if (flow)
		return inflow_accept(flow);

	endpoint = ibr_endpoint_find(le32_to_cpu(frame->open.dst_endpoint));
	if (!endpoint)
		return inflow_refuse(path, frame, ECONNREFUSED);
	if (endpoint->job != le64_to_cpu(frame->open.job)) {
		ret = inflow_refuse(path, frame, EACCES);
	} else if (generation && generation != endpoint->generation) {
		ret = inflow_refuse(path, frame, ESTALE);
	} else if (!ibr_endpoint_serves(endpoint, path)) {
		ret = inflow_refuse(path, frame, ECONNREFUSED);
	} else {
		flow = inflow_create(path, endpoint, frame);
		ret = PTR_ERR_OR_ZERO(flow);
		if (!ret) {
			ret = inflow_accept(flow);
		} else if (ret == -EUSERS) {
			path->counters.drop_limit++;
			ret = inflow_refuse(path, frame, EUSERS);
		}
	}
	ibr_endpoint_put(endpoint);
	return ret;
}

/* Tell the sender its limits when that is worth a packet, or when it may be waiting for it. */
static void inflow_tell(struct ibr_inflow *flow)
{
	struct wire_frame frame = { .type = WIRE_FRAME_FLOW_CREDIT };
	u32 announce = inflow_announce(flow), more = announce - flow->announce_told;

	if (flow->limit - flow->advertised < max(flow->grant / 2, 1ull) && more < max(flow->headers / 2, 1u) &&
	    !(more && flow->announced == flow->announce_told))
		return;
	frame.flow = cpu_to_le32(flow->remote_handle);
	frame.credit.limit = cpu_to_le64(flow->limit);
	frame.credit.announce = cpu_to_le32(announce);
	flow->advertised = flow->limit;
	flow->announce_told = announce;
	ibr_control_send(flow->path, &frame);
}

/*
 * Some of the flow's unexpected memory is free again (or was not needed): raise its limit, and tell the
 * sender when it is worth a packet. Context: path->lock held.
 */
void ibr_inflow_return(struct ibr_inflow *flow, u32 cost)
{
	lockdep_assert_held(&flow->path->lock);
	flow->waiting_cost -= cost;
	if (flow->gone) {
		inflow_unreserve(flow->endpoint, cost);
		return;
	}
	inflow_regrant(flow, cost);
	inflow_tell(flow);
}

void ibr_inflow_return_header(struct ibr_inflow *flow)
{
	flow->headers_waiting--;
	/* There may be eager credit by now for a flow that got none. */
	ibr_inflow_return(flow, 0);
}

void ibr_inflow_announced(struct ibr_inflow *flow)
{
	if (flow->gone)
		return;
	inflow_enlarge(flow);
	inflow_tell(flow);
}

void ibr_inflow_answer(struct ibr_inflow *flow, const struct wire_frame *frame, u32 fence)
{
	struct ibr_frag *frag;

	if (flow->gone && !fence)
		return;
	frag = control_must(flow->path, frame);
	if (!frag)
		return;
	frag->fence = fence;
	/* FLOW_CLOSE may overtake this one, if it is repeated: both say the same. */
	if (flow->gone)
		return;
	ibr_inflow_get(flow);
	frag->answers = flow;
	flow->answers++;
}

void ibr_inflow_answered(struct ibr_inflow *flow, bool over)
{
	lockdep_assert_held(&flow->path->lock);
	flow->answers--;
	if (flow->tells && !flow->answers && !over)
		ibr_control_send(flow->path, &flow->close);
	ibr_inflow_put(flow);
}

/*
 * The flow is over on this side. Messages that wait for a receive and are complete stay; a rendezvous
 * that waits can no longer be served, and says so when it is matched. Context: path->lock held.
 */
void ibr_inflow_drop(struct ibr_inflow *flow, int error, bool tell)
{
	struct wire_frame frame = {
		.type = WIRE_FRAME_FLOW_CLOSE,
		.flow = cpu_to_le32(flow->remote_handle),
		.close.reason = cpu_to_le32(-error),
		.close.handle = cpu_to_le32(flow->h.id),
	};
	struct ibr_message *message;
	struct ibr_transfer *transfer;

	lockdep_assert_held(&flow->path->lock);
	if (flow->gone)
		return;
	flow->gone = true;
	list_del_init(&flow->on_path);
	hlist_del_init(&flow->node);
	share_return(flow->path, flow->share);
	flow->path->flow_count--;
	ibr_handle_remove(flow->path, &flow->h);
	while ((transfer = list_first_entry_or_null(&flow->transfers, struct ibr_transfer, link)))
		ibr_transfer_abort(transfer, error, !tell);
	while ((message = list_first_entry_or_null(&flow->early, struct ibr_message, link))) {
		list_del_init(&message->link);
		if (message->rts)
			flow->headers_waiting--;
		else
			flow->waiting_cost -= ibr_message_cost(message->length);
		ibr_message_free(message);
	}
	inflow_drop_back(flow);
	/* What messages that wait for a receive hold of it is given back with them. */
	inflow_unreserve(flow->endpoint, flow->grant - flow->waiting_cost);
	inflow_reduce(flow);
	/* It must not overtake an answer that is lost and repeated: that message has arrived. */
	flow->tells = tell && flow->answers;
	flow->close = frame;
	if (tell && !flow->answers)
		ibr_control_send(flow->path, &frame);
	ibr_inflow_put(flow);
}

/* ---- control frames ------------------------------------------------------------------------ */

static int flow_close(struct ibr_path *path, const struct wire_frame *frame)
{
	u32 id = le32_to_cpu(frame->flow);
	struct ibr_outflow *out = ibr_handle_find(path, id, IBR_HANDLE_OUTFLOW);
	struct ibr_inflow *in = ibr_handle_find(path, id, IBR_HANDLE_INFLOW);

	if (in)
		ibr_inflow_drop(in, -ECONNRESET, false);
	/* A request that was repeated may have made a second flow after the end of the one that this is about. */
	else if (out && (out->state != IBR_OUTFLOW_OPEN || out->remote_handle == le32_to_cpu(frame->close.handle)))
		ibr_outflow_fail(out, -ECONNRESET);
	return 0;
}

/*
 * As many may wait as there are sends, and the peer says which it means: so they are in a tree, which needs no memory
 * of its own. Its order is that of plain numbers, because a send may wait for so long that serial arithmetic, which
 * orders half of them only, contradicts itself.
 */
void ibr_outflow_expect(struct ibr_outflow *flow, struct ibr_send *send)
{
	struct rb_node **place = &flow->matching.rb_node, *parent = NULL;

	lockdep_assert_held(&flow->path->lock);
	while (*place) {
		parent = *place;
		if (send->sequence < rb_entry(parent, struct ibr_send, matching)->sequence)
			place = &parent->rb_left;
		else
			place = &parent->rb_right;
	}
	rb_link_node(&send->matching, parent, place);
	rb_insert_color(&send->matching, &flow->matching);
}

static void flow_matched(struct ibr_outflow *flow, u32 sequence, __le32 status)
{
	struct rb_node *node = flow->matching.rb_node;
	struct ibr_send *send;

	while (node) {
		send = rb_entry(node, struct ibr_send, matching);
		if (send->sequence == sequence) {
			ibr_send_retire(send, status ? ibr_wire_error(status) : 0);
			return;
		}
		node = sequence < send->sequence ? node->rb_left : node->rb_right;
	}
}

/* Frames about flows. Return: 0, or -ENOMEM: not received. Context: path->lock held. */
int ibr_flow_handle_control(struct ibr_path *path, const struct wire_frame *frame, const void *payload)
{
	struct ibr_outflow *flow;

	switch (frame->type) {
	case WIRE_FRAME_FLOW_OPEN:
		return inflow_open(path, frame);
	case WIRE_FRAME_FLOW_CLOSE:
		return flow_close(path, frame);
	case WIRE_FRAME_RTS:
	case WIRE_FRAME_ASK:
	case WIRE_FRAME_ATOMIC:
		return ibr_rts_receive(path, frame, payload);
	}

	flow = ibr_handle_find(path, le32_to_cpu(frame->flow), IBR_HANDLE_OUTFLOW);
	if (!flow) {
		path->counters.drop_flow++;
		return frame->type == WIRE_FRAME_FLOW_ACCEPT ? flow_refuse_accept(path, frame) : 0;
	}
	switch (frame->type) {
	case WIRE_FRAME_FLOW_ACCEPT:
		return outflow_accepted(flow, frame);
	case WIRE_FRAME_FLOW_REFUSE:
		/* A repeated request was accepted meanwhile. */
		if (flow->state == IBR_OUTFLOW_OPENING)
			ibr_outflow_fail(flow, ibr_wire_error(frame->refuse.reason));
		break;
	case WIRE_FRAME_FLOW_CREDIT:
		outflow_granted(flow, le64_to_cpu(frame->credit.limit), le32_to_cpu(frame->credit.announce));
		break;
	case WIRE_FRAME_MATCHED:
		flow_matched(flow, le32_to_cpu(frame->matched.sequence), frame->matched.status);
		break;
	default:
		path->counters.drop_malformed++;
		break;
	}
	return 0;
}
