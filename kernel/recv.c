// SPDX-License-Identifier: GPL-2.0-only
/*
 * Receives: posted, completed, cancelled; receives of many messages, which share one buffer; and what looks
 * for messages that wait without posting anything: probe, claim, discard.
 *
 * A multi-receive is one entry of the match table that stays there, and a part for each message that it
 * takes: a receive of its own, whose memory is a stretch of the buffer. So whoever fills a receive need not
 * know. The parts are made with the multi-receive, which is why the user says how many messages it may take:
 * a completion is reserved for each of them.
 */
#include <linux/memcontrol.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include "drive.h"
#include "flow.h"
#include "params.h"

#define PART_ALIGN	8	/* bytes: where messages start in the buffer of a multi-receive */

/**
 * struct ibr_multi - a multi-receive
 * @entry: its last completion, which gives the buffer back
 * @match: stays posted while it takes messages
 * @endpoint: with a reference; immutable
 * @umem: the buffer, all of it resident
 * @refs: one while it takes messages, one for each part in use, one while it is being posted
 * @room: it ends when fewer bytes than this are left; immutable
 * @used: bytes given to parts, each rounded up to PART_ALIGN
 * @taken: messages that it took
 * @parts: parts for more, by their .entry.link
 * @spare: how many
 * @over: it takes no more
 * @status: of @entry
 * @free_work: frees it, as there may be many parts that were not used
 *
 * From @used on under endpoint->lock, until it is @over.
 */
struct ibr_multi {
	struct ibr_ring_entry entry;
	struct match_recv match;
	struct ibr_endpoint *endpoint;
	struct ibr_umem umem;
	refcount_t refs;
	u64 room;
	u64 used;
	u32 taken;
	u32 spare;
	struct list_head parts;
	bool over;
	int status;
	struct work_struct free_work;
};

static_assert(IBR_MULTI_MAX <= IBR_UMEM_RESIDENT);

static struct kmem_cache *recv_cache;

static void multi_put(struct ibr_multi *multi);

/* ---- one receive --------------------------------------------------------------------------- */

static void match_setup(struct match_recv *match, const struct ibrelk_command *command)
{
	match->tag = command->tag;
	match->ignore = command->ignore;
	match->cookie = command->user_data;
	match->source = command->peer;
	match->space = command->flags & IBRELK_CMD_UNTAGGED ? MATCH_UNTAGGED : MATCH_TAGGED;
}

static int recv_buffer(struct ibr_endpoint *endpoint, struct ibr_umem *umem, const struct ibrelk_command *command)
{
	struct ibr_buffer buffer;
	int ret;

	ret = ibr_buffer_import(&buffer, command);
	if (ret)
		return ret;
	ret = ibr_umem_init(umem, endpoint->space, &buffer, true);
	if (ret)
		ibr_buffer_drop(&buffer);
	else
		ibr_endpoint_buffer_begin(endpoint);
	return ret;
}

static struct ibr_recv *recv_create(struct ibr_endpoint *endpoint, const struct ibrelk_command *command)
{
	struct ibr_recv *recv;
	int ret;

	recv = kmem_cache_zalloc(recv_cache, GFP_KERNEL_ACCOUNT);
	if (!recv)
		return ERR_PTR(-ENOMEM);
	ret = recv_buffer(endpoint, &recv->umem, command);
	if (ret) {
		kmem_cache_free(recv_cache, recv);
		return ERR_PTR(ret);
	}
	match_setup(&recv->match, command);
	recv->no_success = command->flags & IBRELK_CMD_NO_SUCCESS;
	ibr_endpoint_get(endpoint);
	recv->endpoint = endpoint;
	return recv;
}

static void recv_entry_release(struct ibr_ring_entry *entry)
{
	struct ibr_recv *recv = container_of(entry, struct ibr_recv, entry);
	struct ibr_endpoint *endpoint = recv->endpoint;

	ibr_endpoint_recvs_done(endpoint, 1);
	kmem_cache_free(recv_cache, recv);
	ibr_endpoint_put(endpoint);
}

/* A worker has copied what was bounced, or has not; the sender waits for that. Context: process. */
static void recv_tell(struct ibr_recv *recv, int error)
{
	struct ibr_path *path = recv->tells->path;

	ibr_path_get(path);
	ibr_frag_refill();
	spin_lock_bh(&path->lock);
	ibr_transfer_tell(recv, error);
	ibr_path_drive_locked(path);
	spin_unlock_bh(&path->lock);
	ibr_path_put(path);
}

/* The answer to a get: it is the get that completes. */
static void answer_released(struct ibr_recv *recv)
{
	int status = recv->entry.completion.status ?: recv->umem.error;
	struct ibr_endpoint *endpoint = recv->endpoint;
	struct ibr_send *ask = recv->ask;

	if (recv->umem.bounced)
		atomic64_add(recv->umem.bounced, &endpoint->bounced_bytes);
	ibr_endpoint_buffer_end(endpoint);
	ibr_send_complete(ask, status);
	kmem_cache_free(recv_cache, recv);
	ibr_endpoint_put(endpoint);
	ibr_send_put(ask);
}

static void recv_released(struct ibr_umem *umem)
{
	struct ibr_recv *recv = container_of(umem, struct ibr_recv, umem);
	struct ibrelk_completion *completion = &recv->entry.completion;
	struct ibr_multi *multi = recv->multi;

	if (recv->tells)
		recv_tell(recv, umem->error ?: completion->status);
	if (recv->ask) {
		answer_released(recv);
		return;
	}
	if (recv->access.region) {
		/* It is nobody's receive. */
		ibr_access_end(&recv->access);
		ibr_endpoint_put(recv->endpoint);
		kmem_cache_free(recv_cache, recv);
		return;
	}
	if (umem->error && (!completion->status || completion->status == -EMSGSIZE))
		completion->status = umem->error;
	if (umem->bounced)
		atomic64_add(umem->bounced, &recv->endpoint->bounced_bytes);
	/* The buffer of a multi-receive is not a part's. */
	if (!multi)
		ibr_endpoint_buffer_end(recv->endpoint);
	recv->entry.release = recv_entry_release;
	if (recv->no_success && !completion->status)
		recv_entry_release(&recv->entry);
	else
		ibr_ring_complete(recv->endpoint->recv_ring, &recv->entry);
	/* Only now: that the buffer is given back has to come after this in the ring. */
	if (multi)
		multi_put(multi);
}

static void completion_describe(struct ibrelk_completion *completion, const struct ibr_recv_result *result)
{
	completion->status = result->status;
	if (result->wire_flags & WIRE_MSG_IMMEDIATE)
		completion->flags |= IBRELK_CQE_IMMEDIATE;
	completion->peer = result->source;
	completion->length = result->length;
	completion->tag = result->tag;
	completion->immediate = result->immediate;
}

void ibr_recv_complete(struct ibr_recv *recv, const struct ibr_recv_result *result)
{
	struct ibrelk_completion *completion = &recv->entry.completion;
	bool good = false;

	completion->user_data = recv->match.cookie;
	completion->opcode = recv->multi ? IBRELK_OP_RECV_MULTI : IBRELK_OP_RECV;
	completion->flags = recv->match.space == MATCH_UNTAGGED ? IBRELK_CQE_UNTAGGED : 0;
	completion->endpoint = recv->endpoint->id;
	completion->offset = recv->offset;
	completion_describe(completion, result);
	if (!result->status || result->status == -EMSGSIZE) {
		good = !ibr_umem_gone(&recv->umem, result->length);
		if (unlikely(!good))
			completion->status = -EFAULT;
	}
	/* But for what a worker is going to copy, which is not certain yet. */
	if (recv->tells && !(good && ibr_umem_bounced(&recv->umem)))
		ibr_transfer_tell(recv, completion->status);
	ibr_umem_finish(&recv->umem, good, recv_released);
}

struct ibr_recv *ibr_recv_answer(struct ibr_send *ask, struct ibr_endpoint *endpoint, struct ibr_buffer *buffer)
{
	struct ibr_recv *recv;
	int ret;

	recv = kmem_cache_zalloc(recv_cache, GFP_KERNEL_ACCOUNT);
	if (!recv)
		return ERR_PTR(-ENOMEM);
	ret = ibr_umem_init(&recv->umem, endpoint->space, buffer, true);
	if (ret) {
		kmem_cache_free(recv_cache, recv);
		return ERR_PTR(ret);
	}
	ibr_endpoint_buffer_begin(endpoint);
	ibr_endpoint_get(endpoint);
	recv->endpoint = endpoint;
	ibr_send_get(ask);
	recv->ask = ask;
	return recv;
}

struct ibr_recv *ibr_recv_remote(struct ibr_inflow *flow, struct ibr_space *space, const struct ibr_message *message)
{
	struct ibr_recv *recv = NULL;
	struct mem_cgroup *old;
	int ret;

	if (!ibr_alloc_fails()) {
		old = set_active_memcg(flow->endpoint->memcg);
		recv = kmem_cache_zalloc(recv_cache, GFP_ATOMIC | __GFP_ACCOUNT | __GFP_NOWARN);
		set_active_memcg(old);
	}
	if (!recv)
		return ERR_PTR(-ENOMEM);
	ret = ibr_access_begin(&recv->access, &recv->umem, flow->path, space, message->immediate, message->match.tag,
			       message->length);
	if (ret) {
		kmem_cache_free(recv_cache, recv);
		return ERR_PTR(ret);
	}
	ibr_endpoint_get(flow->endpoint);
	recv->endpoint = flow->endpoint;
	return recv;
}

/* ---- many messages into one buffer --------------------------------------------------------- */

static void multi_free(struct ibr_multi *multi)
{
	struct ibr_recv *part, *next;

	list_for_each_entry_safe(part, next, &multi->parts, entry.link) {
		kmem_cache_free(recv_cache, part);
		cond_resched();
	}
	kfree(multi);
}

static void multi_free_work(struct work_struct *work)
{
	struct ibr_multi *multi = container_of(work, struct ibr_multi, free_work);
	struct ibr_endpoint *endpoint = multi->endpoint;

	multi_free(multi);
	ibr_endpoint_put(endpoint);
}

static struct ibr_multi *multi_create(struct ibr_endpoint *endpoint, const struct ibrelk_command *command)
{
	struct ibr_multi *multi;
	struct ibr_recv *part;
	int ret = -ENOMEM;

	multi = kzalloc(sizeof(*multi), GFP_KERNEL_ACCOUNT);
	if (!multi)
		return ERR_PTR(-ENOMEM);
	INIT_LIST_HEAD(&multi->parts);
	INIT_WORK(&multi->free_work, multi_free_work);
	match_setup(&multi->match, command);
	multi->match.stays = true;
	for (; multi->spare < command->messages; multi->spare++) {
		part = kmem_cache_zalloc(recv_cache, GFP_KERNEL_ACCOUNT);
		if (!part)
			goto free;
		part->match.cookie = multi->match.cookie;
		part->match.space = multi->match.space;
		part->multi = multi;
		list_add_tail(&part->entry.link, &multi->parts);
		cond_resched();
		if (fatal_signal_pending(current)) {
			ret = -EINTR;
			goto free;
		}
	}
	ret = recv_buffer(endpoint, &multi->umem, command);
	if (ret)
		goto free;
	multi->room = max(command->room, 1ull);
	refcount_set(&multi->refs, 2);
	ibr_endpoint_get(endpoint);
	multi->endpoint = endpoint;
	return multi;

free:
	multi_free(multi);
	return ERR_PTR(ret);
}

static void multi_entry_release(struct ibr_ring_entry *entry)
{
	struct ibr_multi *multi = container_of(entry, struct ibr_multi, entry);

	ibr_endpoint_recvs_done(multi->endpoint, 1 + multi->spare);
	queue_work(ibr_wq, &multi->free_work);
}

static void multi_released(struct ibr_umem *umem)
{
	struct ibr_multi *multi = container_of(umem, struct ibr_multi, umem);
	struct ibrelk_completion *completion = &multi->entry.completion;

	completion->user_data = multi->match.cookie;
	completion->status = multi->status;
	completion->opcode = IBRELK_OP_RECV_MULTI;
	completion->flags = IBRELK_CQE_RELEASED;
	if (multi->match.space == MATCH_UNTAGGED)
		completion->flags |= IBRELK_CQE_UNTAGGED;
	completion->endpoint = multi->endpoint->id;
	completion->peer = IBRELK_PEER_ANY;
	completion->length = multi->taken;
	completion->offset = multi->used;
	ibr_endpoint_buffer_end(multi->endpoint);
	multi->entry.release = multi_entry_release;
	ibr_ring_complete(multi->endpoint->recv_ring, &multi->entry);
}

static void multi_put(struct ibr_multi *multi)
{
	/* Each part has seen to its own stretch, if it was bounced. */
	if (refcount_dec_and_test(&multi->refs))
		ibr_umem_finish(&multi->umem, false, multi_released);
}

/* It takes no more messages. Context: endpoint->lock held, or nobody else can find it. */
static void multi_end(struct ibr_multi *multi, int status)
{
	multi->over = true;
	multi->status = status;
	multi_put(multi);
}

/*
 * A part for a message of this length. One that is too long for what is left is for the next receive; one that is
 * too long for the whole buffer gets it all, and is cut. Return: NULL: it does not fit; the multi-receive is over,
 * and may be gone. Context: endpoint->lock held.
 */
static struct ibr_recv *multi_take(struct ibr_multi *multi, u64 length)
{
	u64 left = multi->umem.length - multi->used;
	struct ibr_recv *part = NULL;

	if (length <= left || !multi->taken) {
		part = list_first_entry(&multi->parts, struct ibr_recv, entry.link);
		list_del_init(&part->entry.link);
		multi->spare--;
		multi->taken++;
		refcount_inc(&multi->refs);
		ibr_endpoint_get(multi->endpoint);
		part->endpoint = multi->endpoint;
		part->offset = multi->used;
		length = min(length, left);
		ibr_umem_part(&part->umem, &multi->umem, multi->used, length);
		multi->used += min(ALIGN(length, PART_ALIGN), left);
	}
	if (!part || !multi->spare || multi->umem.length - multi->used < multi->room) {
		if (multi->match.posted)
			match_recv_remove(&multi->endpoint->match, &multi->match);
		multi_end(multi, 0);
	}
	return part;
}

/* ---- meeting of receive and message -------------------------------------------------------- */

struct ibr_recv *ibr_recv_take(struct ibr_endpoint *endpoint, u32 source, u8 space, u64 tag, u64 length)
{
	struct match_recv *found;
	struct ibr_recv *part;

	lockdep_assert_held(&endpoint->lock);
	while ((found = match_message_take(&endpoint->match, source, space, tag))) {
		if (!found->stays)
			return container_of(found, struct ibr_recv, match);
		part = multi_take(container_of(found, struct ibr_multi, match), length);
		if (part)
			return part;
	}
	return NULL;
}

/*
 * Completions for a command, if there is room for any: what room there is shall not depend on how many are wanted, or
 * nobody could wait for it. So a multi-receive may take the endpoint above its limit, by less than that once more.
 * Return: they are reserved.
 */
static bool recv_reserve(struct ibr_endpoint *endpoint, u32 count)
{
	if (!ibr_ring_has_room(endpoint->recv_ring))
		return false;
	if (atomic_add_return(count, &endpoint->recvs) - count < endpoint->recvs_max)
		return true;
	ibr_endpoint_recvs_done(endpoint, count);
	return false;
}

/* A message that waited leaves the match table. Context: endpoint->lock held. */
static void message_unwait(struct ibr_endpoint *endpoint, struct ibr_message *message)
{
	match_message_remove(&endpoint->match, &message->match);
	ibr_message_unhold(endpoint, message);
}

int ibr_endpoint_recv(struct ibr_endpoint *endpoint, const struct ibrelk_command *command)
{
	struct match_message *found;
	struct ibr_message *message;
	struct ibr_recv *recv;

	if (command->peer != IBRELK_PEER_ANY && !ibr_contact_find(endpoint, command->peer))
		return -ENOENT;
	if (!recv_reserve(endpoint, 1))
		return 1;
	recv = recv_create(endpoint, command);
	if (IS_ERR(recv)) {
		ibr_endpoint_recvs_done(endpoint, 1);
		return PTR_ERR(recv);
	}

	spin_lock_bh(&endpoint->lock);
	found = match_recv_post(&endpoint->match, &recv->match);
	message = found ? container_of(found, struct ibr_message, match) : NULL;
	if (message)
		ibr_message_unhold(endpoint, message);
	spin_unlock_bh(&endpoint->lock);
	if (message)
		ibr_message_give(message, recv);
	return 0;
}

int ibr_endpoint_recv_multi(struct ibr_endpoint *endpoint, const struct ibrelk_command *command)
{
	struct match_message *found;
	struct ibr_message *message;
	struct ibr_multi *multi;
	struct ibr_recv *part;

	if (command->messages >= endpoint->recvs_max)
		return -EINVAL;
	if (command->peer != IBRELK_PEER_ANY && !ibr_contact_find(endpoint, command->peer))
		return -ENOENT;
	if (!recv_reserve(endpoint, 1 + command->messages))
		return 1;
	multi = multi_create(endpoint, command);
	if (IS_ERR(multi)) {
		ibr_endpoint_recvs_done(endpoint, 1 + command->messages);
		return PTR_ERR(multi);
	}

	/* First what waits, in its order; posted is what nothing waits for any more. */
	do {
		part = NULL;
		spin_lock_bh(&endpoint->lock);
		found = match_message_find(&endpoint->match, &multi->match);
		if (found) {
			message = container_of(found, struct ibr_message, match);
			part = multi_take(multi, message->length);
			if (part)
				message_unwait(endpoint, message);
		} else {
			match_recv_post(&endpoint->match, &multi->match);
		}
		spin_unlock_bh(&endpoint->lock);
		if (part)
			ibr_message_give(message, part);
		cond_resched();
		/* It is not posted yet, so nobody else ends it. */
		if (part && !multi->over && fatal_signal_pending(current))
			multi_end(multi, -ECANCELED);
	} while (part && !multi->over);
	multi_put(multi);
	return 0;
}

/* ---- cancelling ---------------------------------------------------------------------------- */

void ibr_recv_cancel(struct match_recv *posted)
{
	struct ibr_recv_result cancelled = { .status = -ECANCELED, .source = IBRELK_PEER_ANY };

	if (posted->stays)
		multi_end(container_of(posted, struct ibr_multi, match), -ECANCELED);
	else
		ibr_recv_complete(container_of(posted, struct ibr_recv, match), &cancelled);
}

/* The completion of a command that posts nothing, reserved before anything is done. */
static struct ibr_ring_entry *entry_reserve(struct ibr_endpoint *endpoint, const struct ibrelk_command *command)
{
	struct ibr_ring_entry *entry = ibr_ring_entry_alloc();

	if (!entry)
		return NULL;
	entry->completion.user_data = command->user_data;
	entry->completion.opcode = command->opcode;
	entry->completion.endpoint = endpoint->id;
	entry->completion.peer = IBRELK_PEER_ANY;
	if (command->flags & IBRELK_CMD_UNTAGGED)
		entry->completion.flags = IBRELK_CQE_UNTAGGED;
	return entry;
}

static void entry_complete(struct ibr_endpoint *endpoint, const struct ibrelk_command *command,
			   struct ibr_ring_entry *entry)
{
	if (!entry->completion.status && command->flags & IBRELK_CMD_NO_SUCCESS)
		entry->release(entry);
	else
		ibr_ring_complete(endpoint->recv_ring, entry);
}

int ibr_endpoint_cancel(struct ibr_endpoint *endpoint, const struct ibrelk_command *command)
{
	struct match_recv *posted, *next;
	struct ibr_ring_entry *entry;
	LIST_HEAD(found);
	u32 count;

	if (!ibr_ring_has_room(endpoint->recv_ring))
		return 1;
	entry = entry_reserve(endpoint, command);
	if (!entry)
		return -ENOMEM;
	spin_lock_bh(&endpoint->lock);
	count = match_cancel_all(&endpoint->match, command->addr, &found);
	spin_unlock_bh(&endpoint->lock);
	list_for_each_entry_safe(posted, next, &found, links.all)
		ibr_recv_cancel(posted);
	entry->completion.length = count;
	entry->completion.status = count ? 0 : -ENOENT;
	entry_complete(endpoint, command, entry);
	return 0;
}

/* ---- looking at what waits ----------------------------------------------------------------- */

/* Takes the message out for a claim. Return: 0 or -ENOMEM. Context: endpoint->lock held. */
static int message_claim(struct ibr_endpoint *endpoint, struct ibr_message *message, u64 *claim)
{
	u32 id;
	int ret;

	ret = xa_alloc_cyclic(&endpoint->claims, &id, message, XA_LIMIT(1, INT_MAX), &endpoint->claim_next,
			      GFP_ATOMIC | __GFP_NOWARN);
	if (ret < 0)
		return -ENOMEM;
	match_message_remove(&endpoint->match, &message->match);
	endpoint->claimed++;
	*claim = id;
	return 0;
}

int ibr_endpoint_probe(struct ibr_endpoint *endpoint, const struct ibrelk_command *command)
{
	struct ibrelk_completion *completion;
	struct match_recv wanted = {};
	struct ibr_recv_result result;
	struct match_message *found;
	struct ibr_ring_entry *entry;
	struct ibr_message *message;
	int ret = 0;

	if (command->peer != IBRELK_PEER_ANY && !ibr_contact_find(endpoint, command->peer))
		return -ENOENT;
	if (!ibr_ring_has_room(endpoint->recv_ring))
		return 1;
	entry = entry_reserve(endpoint, command);
	if (!entry)
		return -ENOMEM;
	completion = &entry->completion;
	completion->status = -ENOMSG;
	match_setup(&wanted, command);
	spin_lock_bh(&endpoint->lock);
	found = match_message_find(&endpoint->match, &wanted);
	if (found) {
		message = container_of(found, struct ibr_message, match);
		ibr_message_result(message, 0, &result);
		completion_describe(completion, &result);
		if (command->opcode == IBRELK_OP_CLAIM)
			ret = message_claim(endpoint, message, &completion->claim);
	}
	spin_unlock_bh(&endpoint->lock);
	if (ret)
		entry->release(entry);
	else
		ibr_ring_complete(endpoint->recv_ring, entry);
	return ret;
}

/* The message behind a claim that a command names, or NULL. */
static struct ibr_message *claim_find(struct ibr_endpoint *endpoint, const struct ibrelk_command *command)
{
	return command->tag == (u32)command->tag ? xa_load(&endpoint->claims, command->tag) : NULL;
}

/* The same, and the claim is over. */
static struct ibr_message *claim_take(struct ibr_endpoint *endpoint, const struct ibrelk_command *command)
{
	struct ibr_message *message;

	spin_lock_bh(&endpoint->lock);
	message = claim_find(endpoint, command);
	if (message) {
		xa_erase(&endpoint->claims, command->tag);
		endpoint->claimed--;
		ibr_message_unhold(endpoint, message);
	}
	spin_unlock_bh(&endpoint->lock);
	return message;
}

int ibr_endpoint_recv_claimed(struct ibr_endpoint *endpoint, const struct ibrelk_command *command)
{
	struct ibr_message *message;
	struct ibr_recv *recv;

	if (!claim_find(endpoint, command))
		return -ENOENT;
	if (!recv_reserve(endpoint, 1))
		return 1;
	recv = recv_create(endpoint, command);
	if (IS_ERR(recv)) {
		ibr_endpoint_recvs_done(endpoint, 1);
		return PTR_ERR(recv);
	}
	message = claim_take(endpoint, command);
	if (!message) {
		/* Another thread was faster. */
		recv->no_success = true;
		ibr_umem_finish(&recv->umem, false, recv_released);
		return -ENOENT;
	}
	recv->match.space = message->match.space;
	ibr_message_give(message, recv);
	return 0;
}

int ibr_endpoint_discard(struct ibr_endpoint *endpoint, const struct ibrelk_command *command)
{
	struct ibr_ring_entry *entry;
	struct ibr_message *message;

	if (!ibr_ring_has_room(endpoint->recv_ring))
		return 1;
	entry = entry_reserve(endpoint, command);
	if (!entry)
		return -ENOMEM;
	message = claim_take(endpoint, command);
	if (!message) {
		entry->release(entry);
		return -ENOENT;
	}
	ibr_message_discard(message, true);
	entry_complete(endpoint, command, entry);
	return 0;
}

/* ---- life of the module -------------------------------------------------------------------- */

int ibr_recv_init(void)
{
	recv_cache = kmem_cache_create("ibrelk_recv", sizeof(struct ibr_recv), 0, SLAB_HWCACHE_ALIGN, NULL);
	return recv_cache ? 0 : -ENOMEM;
}

void ibr_recv_exit(void)
{
	kmem_cache_destroy(recv_cache);
}
