// SPDX-License-Identifier: GPL-2.0-only
/*
 * Queue pairs. The completion queues are made with ib_create_cq() instead of ib_alloc_cq(), so that
 * a process that waits can poll them itself instead of the softirq.
 *
 * Who polls the receive queue: whoever sets IBR_QP_OWNED. An event clears @armed, and then, unless
 * somebody owns the queue, schedules the softirq. Whoever gives the queue up arms it, clears the bit,
 * and then looks at @armed again: if it is not set, or completions had come before it was armed, he
 * schedules the softirq. With a full barrier between the two steps on either side, one
 * of them sees the other, and no completion is forgotten. An event handler may run in hard or soft
 * interrupt, in a workqueue, or even inside our own posting with the connection lock held: all that
 * it does is to schedule.
 *
 * Send completions have a queue of their own that raises no events while there are free slots. They
 * are collected when packets arrive, when slots run low, and by a slow timer while a work request
 * still holds on to a fragment. A work request reports its completion if it is the eighth that
 * would not have, or if it is the last of a chain in which a fragment is held; all before it are
 * complete then, because a send queue completes in order. (An address handle may stay in use a
 * little longer.)
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>
#include <linux/log2.h>
#include <linux/module.h>
#include <linux/rculist.h>
#include <linux/slab.h>
#include <rdma/ib_cache.h>
#include <rdma/rdma_cm.h>

#include "../flow.h"
#include "../params.h"
#include "../path.h"
#include "verbs.h"

#define CHUNK_BYTES		(32u << 10)
#define POLL_BUDGET		64
#define BUSY_BUDGET		16
#define SIGNAL_EVERY		8
#define PACKET_SEGMENTS_MIN	2
#define PACKET_SEGMENTS		(1 + IBR_SLOT_PAYLOADS)	/* of a work request: header and payloads */
#define SEND_DEPTH		128
#define SEND_DEPTH_UD		512
/* Data, the half of it again for repeats that credits do not see, acknowledgements and control. */
#define RECV_DEPTH		(IBR_CREDIT_PKTS + IBR_CREDIT_PKTS / 2 + 16)
#define RECV_SLACK		64	/* bytes of a receive buffer behind the longest packet */
#define REAP_MS			10
#define REBUILD_MS		100u	/* until the second attempt; doubled each time ... */
#define REBUILD_MAX_MS		10000u	/* ... up to this, for which one that is back has to last */
#define TOUCHED_MAX		16
#define SHARE_PERIOD		(HZ / 10)	/* those who have sent so recently share the receive queue */
#define SHARE_MIN		1u

static unsigned int ud_recv_depth = 1024;
module_param(ud_recv_depth, uint, 0444);
MODULE_PARM_DESC(ud_recv_depth, "receives posted on each port's datagram queue pair, 64 to 16384");

static LIST_HEAD(qp_list);		/* RCU */
static DEFINE_SPINLOCK(qp_list_lock);

/* ---- memory ------------------------------------------------------------------------------- */

static void area_free(struct ibr_area *area)
{
	u32 i;

	for (i = 0; i < area->chunks; i++) {
		ib_dma_unmap_single(area->ib, area->chunk[i].dma, CHUNK_BYTES, area->direction);
		free_pages((unsigned long)area->chunk[i].memory, get_order(CHUNK_BYTES));
	}
	kfree(area->chunk);
	area->chunk = NULL;
	area->chunks = 0;
}

static int area_alloc(struct ibr_area *area, struct ib_device *ib, u32 piece, u32 count,
		      enum dma_data_direction direction)
{
	struct ibr_chunk *chunk;
	u32 chunks;

	area->ib = ib;
	area->direction = direction;
	area->piece = ALIGN(piece, 64);
	area->per_chunk = CHUNK_BYTES / area->piece;
	area->chunks = 0;
	chunks = DIV_ROUND_UP(count, area->per_chunk);
	area->chunk = kcalloc(chunks, sizeof(*area->chunk), GFP_KERNEL);
	if (!area->chunk)
		return -ENOMEM;

	for (chunk = area->chunk; area->chunks < chunks; chunk++, area->chunks++) {
		chunk->memory = (void *)__get_free_pages(GFP_KERNEL | __GFP_ZERO,
							 get_order(CHUNK_BYTES));
		if (!chunk->memory)
			goto err_free;
		chunk->dma = ib_dma_map_single(ib, chunk->memory, CHUNK_BYTES, direction);
		if (ib_dma_mapping_error(ib, chunk->dma)) {
			free_pages((unsigned long)chunk->memory, get_order(CHUNK_BYTES));
			goto err_free;
		}
	}
	return 0;

err_free:
	area_free(area);
	return -ENOMEM;
}

static void *area_piece(const struct ibr_area *area, u32 index, dma_addr_t *dma)
{
	const struct ibr_chunk *chunk = &area->chunk[index / area->per_chunk];
	u32 offset = index % area->per_chunk * area->piece;

	*dma = chunk->dma + offset;
	return (u8 *)chunk->memory + offset;
}

/* ---- destinations of datagrams ------------------------------------------------------------ */

static void dest_free_work(struct work_struct *work)
{
	struct ibr_dest *dest = container_of(work, struct ibr_dest, free_work);

	rdma_destroy_ah(dest->ah, RDMA_DESTROY_AH_SLEEPABLE);
	ibr_path_put(dest->path);
	ibr_device_put(dest->device);
	kfree(dest);
}

struct ibr_dest *ibr_dest_create(struct ibr_port *port, struct ibr_path *path,
				 struct rdma_ah_attr *attr, u32 qpn)
{
	struct ibr_dest *dest;
	struct ib_ah *ah;

	dest = kzalloc(sizeof(*dest), GFP_KERNEL);
	if (!dest)
		return ERR_PTR(-ENOMEM);
	if (!ibr_device_get(port->device)) {
		kfree(dest);
		return ERR_PTR(-ENODEV);
	}
	ah = rdma_create_ah(port->device->pd, attr, RDMA_CREATE_AH_SLEEPABLE);
	if (IS_ERR(ah)) {
		ibr_device_put(port->device);
		kfree(dest);
		return ERR_CAST(ah);
	}
	kref_init(&dest->ref);
	dest->device = port->device;
	dest->ah = ah;
	dest->qpn = qpn;
	INIT_LIST_HEAD(&dest->starved);
	INIT_WORK(&dest->free_work, dest_free_work);
	ibr_path_get(path);
	dest->path = path;
	return dest;
}

void ibr_dest_get(struct ibr_dest *dest)
{
	kref_get(&dest->ref);
}

static void dest_release(struct kref *ref)
{
	struct ibr_dest *dest = container_of(ref, struct ibr_dest, ref);

	queue_work(ibr_wq, &dest->free_work);
}

void ibr_dest_put(struct ibr_dest *dest)
{
	if (dest)
		kref_put(&dest->ref, dest_release);
}

/* ---- scheduling the softirq --------------------------------------------------------------- */

static void qp_schedule(struct ibr_qp *qp)
{
	/*
	 * From a task, a raised softirq would wait for ksoftirqd; enabling bottom halves runs it at
	 * once, or as soon as the caller's own spinlock is released.
	 */
	if (in_task() && !irqs_disabled()) {
		local_bh_disable();
		irq_poll_sched(&qp->poll);
		local_bh_enable();
	} else {
		irq_poll_sched(&qp->poll);
	}
}

/*
 * Something is to be done that no event of the receive queue will tell of. A softirq that runs already may have passed
 * it, and cannot be scheduled once more before it is over; so whoever polls looks at IBR_QP_AGAIN when he gives up.
 */
static void qp_kick(struct ibr_qp *qp)
{
	smp_mb__before_atomic(); /* pairs with the one in qp_take() */
	set_bit(IBR_QP_AGAIN, &qp->state);
	qp_schedule(qp);
}

static void qp_recv_event(struct ib_cq *cq, void *context)
{
	struct ibr_qp *qp = context;

	WRITE_ONCE(qp->armed, false);
	smp_mb(); /* pairs with the one in qp_give_up() */
	if (!test_bit(IBR_QP_OWNED, &qp->state))
		qp_schedule(qp);
}

/* Armed only when slots have run out. */
static void qp_send_event(struct ib_cq *cq, void *context)
{
	qp_kick(context);
}

static void qp_fail(struct ibr_qp *qp, int error)
{
	if (!READ_ONCE(qp->failed))
		WRITE_ONCE(qp->failed, error);
	qp_kick(qp);
}

/* A completion queue that has failed is never good again. */
static void qp_cq_error(struct ib_event *event, void *context)
{
	struct ibr_qp *qp = context;

	WRITE_ONCE(qp->spoilt, true);
	smp_mb(); /* pairs with the one in qp_rebuild_work() */
	qp_fail(qp, -EIO);
}

static void qp_event(struct ib_event *event, void *context)
{
	switch (event->event) {
	case IB_EVENT_QP_FATAL:
	case IB_EVENT_QP_REQ_ERR:
	case IB_EVENT_QP_ACCESS_ERR:
		qp_fail(context, -EIO);
		break;
	default:
		break;
	}
}

/* An event is wanted when there is something in the queue. Return: there is already. */
static bool qp_arm(struct ibr_qp *qp, struct ib_cq *cq)
{
	int ret = ib_req_notify_cq(cq, IB_CQ_NEXT_COMP | IB_CQ_REPORT_MISSED_EVENTS);

	/* Once: to fail asks for a poll, which may come here again until the queue pair is made anew. */
	if (unlikely(ret < 0) && !READ_ONCE(qp->failed))
		qp_fail(qp, ret);
	return ret > 0;
}

static bool qp_take(struct ibr_qp *qp)
{
	if (test_and_set_bit(IBR_QP_OWNED, &qp->state))
		return false;
	/* What was asked for so far is about to be done. */
	if (test_bit(IBR_QP_AGAIN, &qp->state)) {
		clear_bit(IBR_QP_AGAIN, &qp->state);
		smp_mb__after_atomic(); /* pairs with the one in qp_kick() */
	}
	return true;
}

/*
 * The last that is done with the adapter's queues, so that whoever owns them afterwards may destroy them. An event that
 * comes while the queue is still owned asks for no poll; it shows in @armed.
 */
static void qp_give_up(struct ibr_qp *qp)
{
	bool more = false;

	if (!READ_ONCE(qp->armed)) {
		WRITE_ONCE(qp->armed, true);
		more = qp_arm(qp, qp->recv_cq);
	}
	clear_bit_unlock(IBR_QP_OWNED, &qp->state);
	smp_mb(); /* pairs with those in qp_recv_event(), qp_kick() and qp_softirq() */
	if (more || test_bit(IBR_QP_AGAIN, &qp->state) || !READ_ONCE(qp->armed))
		qp_schedule(qp);
}

/* ---- sending ------------------------------------------------------------------------------ */

/* What was written from is the user's again; the slot is one for packets. */
static void slot_unmap_write(struct ibr_qp *qp, struct ibr_send_slot *send)
{
	while (send->writes) {
		send->writes--;
		ib_dma_unmap_page(qp->device->ib, send->sge[send->writes].addr, send->sge[send->writes].length,
				  DMA_TO_DEVICE);
	}
	send->sge[0].addr = send->slot.dma;
	send->wr.wr.opcode = IB_WR_SEND;
}

/* The payloads of the first @frags fragments. */
static void slot_unmap(struct ibr_qp *qp, struct ibr_send_slot *send, int frags)
{
	while (frags) {
		struct ib_sge *sge = &send->sge[frags--];

		ib_dma_unmap_single(qp->device->ib, sge->addr, sge->length, DMA_TO_DEVICE);
	}
}

/* Context: qp->lock held. */
static void slot_release(struct ibr_qp *qp, struct ibr_send_slot *send)
{
	struct ibr_slot *slot = &send->slot;

	if (unlikely(send->writes)) {
		slot_unmap_write(qp, send);
		ibr_umem_read_end(&slot->frag[0]->send->umem);
	} else {
		slot_unmap(qp, send, slot->frags);
	}
	while (slot->frags)
		ibr_frag_put(slot->frag[--slot->frags]);
	if (send->dest) {
		ibr_dest_put(send->dest);
		send->dest = NULL;
	}
	qp->free[qp->free_count++] = send->slot.index;
}

/* Everything up to work request number @end is complete. Context: qp->lock held. */
static void qp_complete(struct ibr_qp *qp, u32 end)
{
	/* A number that cannot be is a driver's fault; believing it would corrupt the ring. */
	if (WARN_ON_ONCE(end - qp->completed > qp->posted - qp->completed))
		end = qp->posted;
	while (qp->completed != end) {
		u16 index = qp->order[qp->completed % qp->send_depth];

		qp->completed++;
		slot_release(qp, &qp->slots[index]);
	}
}

static int wc_error(const struct ib_wc *wc)
{
	return wc->status == IB_WC_WR_FLUSH_ERR ? -ECONNRESET : -EIO;
}

/* Collect send completions. Context: qp->lock held. */
static void qp_reap(struct ibr_qp *qp)
{
	int i, count;

	lockdep_assert_held(&qp->lock);
	do {
		count = ib_poll_cq(qp->send_cq, ARRAY_SIZE(qp->send_wc), qp->send_wc);
		for (i = 0; i < count; i++) {
			const struct ib_wc *wc = &qp->send_wc[i];

			if (unlikely(wc->status != IB_WC_SUCCESS)) {
				/* Flushed ones come behind what made the queue pair fail. */
				if (!READ_ONCE(qp->failed))
					qp_fail(qp, wc_error(wc));
			}
			qp_complete(qp, (u32)wc->wr_id + 1);
		}
	} while (count == ARRAY_SIZE(qp->send_wc));
}

/* Is there a completion to come that somebody should look for? Context: qp->lock held. */
static bool qp_reapable(const struct ibr_qp *qp)
{
	return (s32)(qp->reapable - qp->completed) > 0;
}

static void qp_reap_work(struct work_struct *work)
{
	struct ibr_qp *qp = container_of(to_delayed_work(work), struct ibr_qp, reap_work);

	spin_lock_bh(&qp->lock);
	if (!qp->closed) {
		qp_reap(qp);
		if (qp_reapable(qp))
			queue_delayed_work(ibr_wq, &qp->reap_work, msecs_to_jiffies(REAP_MS));
	}
	spin_unlock_bh(&qp->lock);
}

/* Look for a free slot; if there is none, be told of the next one. Context: qp->lock held. Return: there is one. */
static bool qp_seek_slot(struct ibr_qp *qp)
{
	qp_reap(qp);
	if (!qp->free_count && qp_arm(qp, qp->send_cq))
		qp_reap(qp);
	return qp->free_count;
}

/* No slot is free: wait for one. Context: qp->lock held. Return: one has become free. */
static bool qp_starve(struct ibr_qp *qp, struct ibr_dest *dest)
{
	if (qp_seek_slot(qp))
		return true;
	if (!dest) {
		qp->starved = true;
	} else if (list_empty(&dest->starved)) {
		ibr_dest_get(dest);
		list_add_tail(&dest->starved, &qp->starved_dests);
	}
	return false;
}

struct ibr_slot *ibr_qp_slot(struct ibr_qp *qp, struct ibr_dest *dest)
{
	struct ibr_slot *slot = NULL;

	spin_lock(&qp->lock);
	if (qp->free_count < qp->send_depth / 4 && !qp->closed)
		qp_reap(qp);
	if (!qp->free_count || qp->closed) {
		if (qp->closed) {
			/* Datagrams: it is being rebuilt; else it is gone for good. */
			if (dest && list_empty(&dest->starved)) {
				ibr_dest_get(dest);
				list_add_tail(&dest->starved, &qp->starved_dests);
			}
			goto out;
		}
		if (!qp_starve(qp, dest))
			goto out;
	}
	slot = &qp->slots[qp->free[--qp->free_count]].slot;
out:
	spin_unlock(&qp->lock);
	return slot;
}

/* The other parts of the work request: payloads of fragments, where they lie. */
static int slot_attach(struct ibr_qp *qp, struct ibr_send_slot *send)
{
	struct ib_device *ib = qp->device->ib;
	struct ibr_slot *slot = &send->slot;
	int i;

	for (i = 0; i < slot->frags; i++) {
		struct ib_sge *sge = &send->sge[1 + i];

		sge->length = slot->frag[i]->payload_len;
		sge->addr = ib_dma_map_single(ib, slot->frag[i]->payload, sge->length, DMA_TO_DEVICE);
		if (ib_dma_mapping_error(ib, sge->addr)) {
			slot_unmap(qp, send, i);
			return -ENOMEM;
		}
	}
	for (i = 0; i < slot->frags; i++)
		ibr_frag_get(slot->frag[i]);
	send->wr.wr.num_sge = 1 + slot->frags;
	return 0;
}

/* Context: qp->lock held. */
static void qp_chain(struct ibr_qp *qp, struct ibr_send_slot *send)
{
	struct ib_send_wr *wr = &send->wr.wr;

	wr->wr_id = qp->posted;
	qp->order[qp->posted++ % qp->send_depth] = send->slot.index;
	qp->holds |= !!send->slot.frags;
	if (++qp->unsignalled >= SIGNAL_EVERY) {
		wr->send_flags = IB_SEND_SIGNALED;
		qp->unsignalled = 0;
		qp->holds = false;
		qp->reapable = qp->posted;
	}
	if (qp->chain)
		qp->chain_last->next = wr;
	else
		qp->chain = wr;
	qp->chain_last = wr;
}

/*
 * There is no memory to map a payload with. An unreliable queue pair may lose a packet, and this one is lost here;
 * of a reliable one each has to arrive, so it is of no use any more. Context: qp->lock held.
 */
static void qp_unmapped(struct ibr_qp *qp, struct ibr_send_slot *send)
{
	slot_release(qp, send);
	if (qp->type == IB_QPT_RC)
		qp_fail(qp, -ENOMEM);
	pr_warn_ratelimited("%s port %u: payloads cannot be mapped for DMA (IOMMU or swiotlb exhausted, see swiotlb=): they are %s\n",
			    dev_name(&qp->device->ib->dev), qp->port->num,
			    qp->type == IB_QPT_RC ? "sent by another connection" : "lost, and repeated");
}

void ibr_qp_post(struct ibr_qp *qp, struct ibr_slot *slot, u32 length)
{
	struct ibr_send_slot *send = container_of(slot, struct ibr_send_slot, slot);
	struct ib_send_wr *wr = &send->wr.wr;

	send->sge[0].length = length;
	wr->send_flags = 0;
	wr->next = NULL;
	ib_dma_sync_single_for_device(qp->device->ib, slot->dma, length, DMA_TO_DEVICE);

	spin_lock(&qp->lock);
	if (unlikely(qp->closed)) {
		slot->frags = 0;
		slot_release(qp, send);
		goto out;
	}
	if (unlikely(slot_attach(qp, send))) {
		slot->frags = 0;
		qp_unmapped(qp, send);
		goto out;
	}
	qp_chain(qp, send);
out:
	spin_unlock(&qp->lock);
}

/* The work request takes from where the user's memory lies. */
static int slot_attach_write(struct ibr_qp *qp, struct ibr_send_slot *send, const struct bio_vec *segment,
			     int segments, struct ibr_frag *frag)
{
	struct ib_device *ib = qp->device->ib;
	int i;

	for (i = 0; i < segments; i++) {
		struct ib_sge *sge = &send->sge[i];

		sge->addr = ib_dma_map_page(ib, segment[i].bv_page, segment[i].bv_offset, segment[i].bv_len,
					    DMA_TO_DEVICE);
		if (ib_dma_mapping_error(ib, sge->addr)) {
			slot_unmap_write(qp, send);
			return -ENOMEM;
		}
		sge->length = segment[i].bv_len;
		send->writes++;
	}
	ibr_frag_get(frag);
	send->slot.frag[0] = frag;
	send->slot.frags = 1;
	ibr_umem_read_begin(&frag->send->umem);
	return 0;
}

void ibr_qp_write(struct ibr_qp *qp, struct ibr_slot *slot, const struct bio_vec *segment, int segments, u64 address,
		  u32 key, u32 immediate, struct ibr_frag *frag)
{
	struct ibr_send_slot *send = container_of(slot, struct ibr_send_slot, slot);
	struct ib_send_wr *wr = &send->wr.wr;

	spin_lock(&qp->lock);
	if (unlikely(qp->closed)) {
		slot_release(qp, send);
		goto out;
	}
	if (unlikely(slot_attach_write(qp, send, segment, segments, frag))) {
		qp_unmapped(qp, send);
		goto out;
	}
	wr->num_sge = segments;
	wr->send_flags = 0;
	wr->next = NULL;
	wr->opcode = IB_WR_RDMA_WRITE_WITH_IMM;
	wr->ex.imm_data = cpu_to_be32(immediate);
	send->write.remote_addr = address;
	send->write.rkey = key;
	qp_chain(qp, send);
out:
	spin_unlock(&qp->lock);
}

/*
 * What the adapter did not take is not in its queue, so it will never complete: it counts as
 * complete here. The queue pair is of no use any more. Context: qp->lock held.
 */
static void qp_post_failed(struct ibr_qp *qp, const struct ib_send_wr *bad, int error)
{
	u32 end = (u32)bad->wr_id;

	while (qp->posted != end) {
		qp->posted--;
		slot_release(qp, &qp->slots[qp->order[qp->posted % qp->send_depth]]);
	}
	if (qp_reapable(qp) && (s32)(qp->reapable - end) > 0)
		qp->reapable = end;
	qp->unsignalled = 0;
	qp->holds = false;
	qp_fail(qp, error);
}

void ibr_qp_flush(struct ibr_qp *qp)
{
	const struct ib_send_wr *bad = NULL;
	struct ib_send_wr *chain;
	int ret;

	spin_lock(&qp->lock);
	chain = qp->chain;
	if (!chain)
		goto out;
	if (qp->holds) {
		qp->chain_last->send_flags = IB_SEND_SIGNALED;
		qp->unsignalled = 0;
		qp->holds = false;
		qp->reapable = qp->posted;
	}
	qp->chain = NULL;
	ret = ib_post_send(qp->qp, chain, &bad);
	if (unlikely(ret))
		qp_post_failed(qp, bad ?: chain, ret);
	else if (qp_reapable(qp) && !delayed_work_pending(&qp->reap_work))
		queue_delayed_work(ibr_wq, &qp->reap_work, msecs_to_jiffies(REAP_MS));
out:
	spin_unlock(&qp->lock);
}

struct ibr_slot *ibr_verbs_slot(struct ibr_path *path)
{
	return path->qp ? ibr_qp_slot(path->qp, path->transport_data) : NULL;
}

void ibr_verbs_post(struct ibr_path *path, struct ibr_slot *slot, u32 length)
{
	ibr_qp_post(path->qp, slot, length);
}

struct ibr_qp *ibr_verbs_rdma(struct ibr_path *path)
{
	return path->qp;
}

void ibr_verbs_flush(struct ibr_path *path)
{
	if (path->qp)
		ibr_qp_flush(path->qp);
}

/* ---- receiving ---------------------------------------------------------------------------- */

/* Paths that got packets in this batch; each is driven once, when the batch is done. */
struct touched {
	u32 count;
	struct ibr_path *path[TOUCHED_MAX];
};

static void touched_drive(struct touched *touched)
{
	while (touched->count) {
		struct ibr_path *path = touched->path[--touched->count];

		ibr_path_drive(path);
		ibr_path_put(path);
	}
}

/* Return: the path may be given packets */
static bool touched_add(struct touched *touched, struct ibr_path *path)
{
	u32 i;

	for (i = touched->count; i > 0; i--)
		if (touched->path[i - 1] == path)
			return true;
	/* One that was found by its token may be on its way out. */
	if (!kref_get_unless_zero(&path->ref))
		return false;
	if (touched->count == TOUCHED_MAX)
		touched_drive(touched);
	touched->path[touched->count++] = path;
	return true;
}

/* Post a chain of receive buffers. Context: owner. */
static void qp_post_recvs(struct ibr_qp *qp, struct ib_recv_wr *chain)
{
	const struct ib_recv_wr *bad;
	int ret;

	if (!chain)
		return;
	ret = ib_post_recv(qp->qp, chain, &bad);
	if (unlikely(ret))
		qp_fail(qp, ret);
}

static void recv_chain(struct ib_recv_wr **chain, struct ibr_recv_slot *recv)
{
	recv->wr.next = *chain;
	*chain = &recv->wr;
}

/* A packet that belongs to nobody is counted by the port. */
static void qp_count_drop(struct ibr_qp *qp, enum wire_verdict verdict)
{
	atomic64_inc(&qp->port->drops[verdict]);
}

/*
 * How many packets may this peer have on their way? Datagrams: half of the receive queue is for those who send
 * now, in equal parts; the other half for those who begin, for repeats and for control. In powers of two, or each
 * that comes or goes would be news to all others.
 * Context: owner.
 */
static u16 qp_share(struct ibr_qp *qp, struct ibr_path *path)
{
	u64 now;
	u32 share;

	if (qp->path)
		return qp->credits;
	now = get_jiffies_64();
	if (now >= qp->period_end) {
		qp->senders_before = now < qp->period_end + SHARE_PERIOD ? qp->senders : 0;
		qp->senders = 0;
		qp->period++;
		qp->period_end = now + SHARE_PERIOD;
	}
	if (path->share_period != qp->period) {
		path->share_period = qp->period;
		qp->senders++;
	}
	share = qp->recv_depth / 2 / max3(qp->senders, qp->senders_before, 1u);
	return share < SHARE_MIN ? SHARE_MIN : min_t(u32, rounddown_pow_of_two(share), qp->credits);
}

static void qp_deliver(struct ibr_qp *qp, struct ibr_recv_slot *recv, u32 length,
		       struct touched *touched)
{
	const u8 *packet = (u8 *)recv->data + qp->grh;
	struct ibr_path *path = qp->path;
	enum wire_verdict verdict;
	u32 token;

	if (!path) {
		verdict = wire_token(packet, length, &token);
		if (verdict == WIRE_OK)
			path = ibr_path_find_token(token);
		if (unlikely(!path)) {
			qp_count_drop(qp, verdict ?: WIRE_BAD_TOKEN);
			return;
		}
	}
	if (unlikely(!touched_add(touched, path))) {
		qp_count_drop(qp, WIRE_BAD_TOKEN);
		return;
	}
	ibr_path_receive(path, packet, length, qp, qp_share(qp, path));
}

/*
 * A packet before ibr_qp_start(). The other side may send as soon as it has our answer, and its
 * confirmation, a datagram of the connection manager, may come later or be lost. A packet with our
 * token and the right checksum proves just as well that our answer has arrived. Whoever asked does not know
 * the checksum yet, and keeps what comes: all is checked again, by the path.
 * Return: the packet is kept. Context: owner.
 */
static bool qp_hold(struct ibr_qp *qp, struct ibr_recv_slot *recv, u32 length)
{
	enum wire_verdict verdict = WIRE_OK;

	if (qp->early)
		verdict = wire_parse((u8 *)recv->data + qp->grh, length, qp->token, qp->secret);
	if (verdict != WIRE_OK) {
		qp_count_drop(qp, verdict);
		return false;
	}
	recv->held = length;
	qp->held[qp->held_count++] = recv - qp->recvs;
	if (!qp->early_called && qp->early) {
		qp->early_called = true;
		qp->early(qp->context);
	}
	return true;
}

static void qp_deliver_held(struct ibr_qp *qp, struct touched *touched)
{
	struct ib_recv_wr *chain = NULL;
	u32 i;

	for (i = 0; i < qp->held_count; i++) {
		struct ibr_recv_slot *recv = &qp->recvs[qp->held[i]];

		qp_deliver(qp, recv, recv->held, touched);
		recv->held = 0;
		recv_chain(&chain, recv);
	}
	qp->held_count = 0;
	qp_post_recvs(qp, chain);
}

/* The peer has written to memory; its immediate value says where. The buffer is as it was. */
static void qp_written(struct ibr_qp *qp, const struct ib_wc *wc, struct touched *touched)
{
	struct ibr_path *path = qp->path;

	if (unlikely(!path || !touched_add(touched, path))) {
		qp_count_drop(qp, WIRE_BAD_TOKEN);
		return;
	}
	/*
	 * A queue pair that replaces another one, which the peer has already, and the path has not. Unlike a packet,
	 * this cannot wait: the memory may be somebody else's by then. It is sent again.
	 */
	if (unlikely(!READ_ONCE(qp->live))) {
		ibr_path_count_early(path);
		return;
	}
	ibr_path_written(path, be32_to_cpu(wc->ex.imm_data), wc->byte_len, qp);
}

/* Context: owner. Return: the buffer is free again */
static bool qp_receive(struct ibr_qp *qp, const struct ib_wc *wc, struct touched *touched)
{
	struct ibr_recv_slot *recv = &qp->recvs[wc->wr_id];
	bool keep = false;

	if (unlikely(wc->status != IB_WC_SUCCESS)) {
		if (!READ_ONCE(qp->failed))
			WRITE_ONCE(qp->failed, wc_error(wc));
		return false;
	}
	if (wc->opcode == IB_WC_RECV_RDMA_WITH_IMM) {
		qp_written(qp, wc, touched);
		return true;
	}
	if (unlikely(wc->byte_len < qp->grh || wc->byte_len > recv->sge.length)) {
		qp_count_drop(qp, WIRE_BAD_LENGTH);
		return true;
	}
	ib_dma_sync_single_for_cpu(qp->device->ib, recv->sge.addr, wc->byte_len, DMA_FROM_DEVICE);
	if (likely(READ_ONCE(qp->live)))
		qp_deliver(qp, recv, wc->byte_len - qp->grh, touched);
	else
		keep = qp_hold(qp, recv, wc->byte_len - qp->grh);
	ib_dma_sync_single_for_device(qp->device->ib, recv->sge.addr, wc->byte_len,
				      DMA_FROM_DEVICE);
	return !keep;
}

/* Collect send completions, and let those go on that waited for a slot. Context: owner. */
static void qp_poll_sends(struct ibr_qp *qp, struct touched *touched)
{
	struct ibr_dest *dest, *next;
	bool starved = false, waiting;
	LIST_HEAD(dests);

	spin_lock(&qp->lock);
	waiting = qp->starved || !list_empty(&qp->starved_dests);
	if (!qp->closed && !waiting && qp_reapable(qp))
		qp_reap(qp);
	/* Somebody who passed by may have taken the slot that the event was about: then another event is needed. */
	if (!qp->closed && waiting && qp_seek_slot(qp)) {
		starved = qp->starved;
		qp->starved = false;
		list_for_each_entry_safe(dest, next, &qp->starved_dests, starved)
			list_move_tail(&dest->starved, &dests);
	}
	/* Off the list one by one, so that a destination can starve again while it is driven. */
	while ((dest = list_first_entry_or_null(&dests, struct ibr_dest, starved))) {
		list_del_init(&dest->starved);
		spin_unlock(&qp->lock);
		touched_add(touched, dest->path);
		ibr_dest_put(dest);
		spin_lock(&qp->lock);
	}
	spin_unlock(&qp->lock);
	if (starved)
		touched_add(touched, qp->path);
}

/* One that fails soon after it is back is given more and more time. Context: owner. */
static void qp_rebuild(struct ibr_qp *qp)
{
	if (get_jiffies_64() - qp->rebuilt_at > msecs_to_jiffies(REBUILD_MAX_MS))
		qp->pause_ms = 0;
	queue_delayed_work(ibr_wq, &qp->rebuild_work, msecs_to_jiffies(qp->pause_ms));
	qp->pause_ms = clamp(2 * qp->pause_ms, REBUILD_MS, REBUILD_MAX_MS);
}

/* The queue pair has failed; say so once. Context: owner. */
static void qp_report(struct ibr_qp *qp)
{
	struct ibr_path *path = qp->path;

	/* A connection that is not up yet fails by the connection manager, or when it comes up. */
	if (qp->reported || !READ_ONCE(qp->live))
		return;
	qp->reported = true;
	if (!path) {
		if (!test_bit(IBR_QP_STOPPING, &qp->state))
			qp_rebuild(qp);
		return;
	}
	spin_lock(&path->lock);
	path->counters.send_errors++;
	spin_unlock(&path->lock);
	ibr_path_broken(path, qp, READ_ONCE(qp->failed));
}

/* Context: owner, bottom halves disabled. Return: completions found */
static int qp_poll(struct ibr_qp *qp, int budget)
{
	struct touched touched = { .count = 0 };
	int i, count, found = 0;

	rcu_read_lock();
	qp_poll_sends(qp, &touched);
	if (unlikely(qp->held_count) && READ_ONCE(qp->live))
		qp_deliver_held(qp, &touched);
	do {
		struct ib_recv_wr *chain = NULL;

		count = ib_poll_cq(qp->recv_cq, min_t(int, budget - found, ARRAY_SIZE(qp->recv_wc)),
				   qp->recv_wc);
		for (i = 0; i < count; i++)
			if (qp_receive(qp, &qp->recv_wc[i], &touched))
				recv_chain(&chain, &qp->recvs[qp->recv_wc[i].wr_id]);
		/* Before there are buffers for more: see ibr_qp_drain(). */
		if (count > 0) {
			found += count;
			WRITE_ONCE(qp->received, qp->received + count);
		}
		/* Buffers first: what the drive is going to send grants credits for them. */
		qp_post_recvs(qp, chain);
		touched_drive(&touched);
	} while (count == ARRAY_SIZE(qp->recv_wc) && found < budget);
	if (unlikely(READ_ONCE(qp->failed)))
		qp_report(qp);
	rcu_read_unlock();
	return found;
}

static int qp_softirq(struct irq_poll *poll, int budget)
{
	struct ibr_qp *qp = container_of(poll, struct ibr_qp, poll);
	int found;

	if (!qp_take(qp)) {
		/* Not an event, or the owner would look for it: tell him there is more. */
		irq_poll_complete(poll);
		set_bit(IBR_QP_AGAIN, &qp->state);
		smp_mb(); /* pairs with the one in qp_give_up() */
		if (!test_bit(IBR_QP_OWNED, &qp->state))
			irq_poll_sched(poll);
		return 0;
	}
	found = qp_poll(qp, budget);
	if (found < budget) {
		irq_poll_complete(poll);
		qp_give_up(qp);
	} else {
		clear_bit_unlock(IBR_QP_OWNED, &qp->state);
	}
	return found;
}

void ibr_qp_drain(struct ibr_qp *qp)
{
	u32 received = READ_ONCE(qp->received);
	int found = BUSY_BUDGET;

	/* There are no more than there were buffers for: as many later ones are as good as an empty queue. */
	while (found >= BUSY_BUDGET && !READ_ONCE(qp->closed) && READ_ONCE(qp->received) - received < qp->recv_depth) {
		local_bh_disable();
		if (qp_take(qp)) {
			found = qp_poll(qp, BUSY_BUDGET);
			qp_give_up(qp);
			local_bh_enable();
		} else {
			local_bh_enable();
			usleep_range(50, 100);
		}
	}
}

int ibr_qps_poll(void)
{
	struct ibr_qp *qp;
	int found = 0;

	local_bh_disable();
	rcu_read_lock();
	list_for_each_entry_rcu(qp, &qp_list, link) {
		if (!qp_take(qp))
			continue;
		found += qp_poll(qp, BUSY_BUDGET);
		qp_give_up(qp);
	}
	rcu_read_unlock();
	local_bh_enable();
	return found;
}

/* ---- life --------------------------------------------------------------------------------- */

static void qp_rebuild_work(struct work_struct *work);

/* Prepare the slots of both queues, which never change afterwards. */
static void qp_prepare(struct ibr_qp *qp)
{
	u32 lkey = qp->device->pd->local_dma_lkey;
	u32 i, k;

	for (i = 0; i < qp->send_depth; i++) {
		struct ibr_send_slot *send = &qp->slots[i];

		send->slot.header = area_piece(&qp->send_area, i, &send->slot.dma);
		send->slot.index = i;
		send->slot.frags_max = min_t(u32, qp->segments - 1, IBR_SLOT_PAYLOADS);
		send->sge[0].addr = send->slot.dma;
		for (k = 0; k < ARRAY_SIZE(send->sge); k++)
			send->sge[k].lkey = lkey;
		send->wr.wr.sg_list = send->sge;
		send->wr.wr.opcode = IB_WR_SEND;
		qp->free[qp->send_depth - 1 - i] = i;
	}
	qp->free_count = qp->send_depth;

	for (i = 0; i < qp->recv_depth; i++) {
		struct ibr_recv_slot *recv = &qp->recvs[i];

		recv->data = area_piece(&qp->recv_area, i, &recv->sge.addr);
		recv->sge.length = qp->recv_area.piece;
		recv->sge.lkey = lkey;
		recv->wr.wr_id = i;
		recv->wr.sg_list = &recv->sge;
		recv->wr.num_sge = 1;
	}
}

static void qp_free_memory(struct ibr_qp *qp)
{
	area_free(&qp->send_area);
	area_free(&qp->recv_area);
	kvfree(qp->slots);
	kvfree(qp->recvs);
	kfree(qp->free);
	kfree(qp->order);
	kfree(qp->held);
	qp->slots = NULL;
	qp->recvs = NULL;
	qp->free = NULL;
	qp->order = NULL;
	qp->held = NULL;
}

static int qp_alloc_memory(struct ibr_qp *qp)
{
	struct ib_device *ib = qp->device->ib;
	int ret;

	qp->slots = kvcalloc(qp->send_depth, sizeof(*qp->slots), GFP_KERNEL);
	qp->recvs = kvcalloc(qp->recv_depth, sizeof(*qp->recvs), GFP_KERNEL);
	qp->free = kcalloc(qp->send_depth, sizeof(*qp->free), GFP_KERNEL);
	qp->order = kcalloc(qp->send_depth, sizeof(*qp->order), GFP_KERNEL);
	qp->held = kcalloc(qp->recv_depth, sizeof(*qp->held), GFP_KERNEL);
	if (!qp->slots || !qp->recvs || !qp->free || !qp->order || !qp->held)
		return -ENOMEM;
	ret = area_alloc(&qp->send_area, ib, IBR_SLOT_BYTES, qp->send_depth, DMA_TO_DEVICE);
	if (ret)
		return ret;
	return area_alloc(&qp->recv_area, ib, qp->packet_max + qp->grh + RECV_SLACK, qp->recv_depth,
			  DMA_FROM_DEVICE);
}

static int qp_create_cqs(struct ibr_qp *qp, struct ib_cq **recv_cq, struct ib_cq **send_cq)
{
	struct ib_device *ib = qp->device->ib;
	struct ib_cq_init_attr attr = {};

	if (ib->num_comp_vectors)
		attr.comp_vector = raw_smp_processor_id() % ib->num_comp_vectors;
	attr.cqe = qp->recv_depth + 1;
	*recv_cq = ib_create_cq(ib, qp_recv_event, qp_cq_error, qp, &attr);
	if (IS_ERR(*recv_cq))
		return PTR_ERR(*recv_cq);
	attr.cqe = qp->send_depth + 1;
	*send_cq = ib_create_cq(ib, qp_send_event, qp_cq_error, qp, &attr);
	if (IS_ERR(*send_cq)) {
		ib_destroy_cq(*recv_cq);
		return PTR_ERR(*send_cq);
	}
	return 0;
}

struct ibr_qp *ibr_qp_create(struct ibr_port *port, struct ibr_path *path, enum ib_qp_type type,
			     u32 packet_max)
{
	bool ud = type == IB_QPT_UD;
	struct ibr_qp *qp;
	int ret;

	qp = kzalloc(sizeof(*qp), GFP_KERNEL);
	if (!qp)
		return ERR_PTR(-ENOMEM);
	if (!ibr_device_get(port->device)) {
		kfree(qp);
		return ERR_PTR(-ENODEV);
	}
	kref_init(&qp->ref);
	qp->device = port->device;
	qp->port = port;
	qp->type = type;
	/* Header and payloads; for a write, as many as there may be. Some adapters have three. */
	qp->segments = min_t(u32, ud ? PACKET_SEGMENTS : IBR_WRITE_SEGMENTS, qp->device->ib->attrs.max_send_sge);
	qp->packet_max = packet_max;
	qp->grh = ud ? sizeof(struct ib_grh) : 0;
	/* A power of two, so that the place of a work request in @order does not jump when its number wraps. */
	qp->send_depth = rounddown_pow_of_two(min_t(u32, ud ? SEND_DEPTH_UD : SEND_DEPTH,
						    qp->device->ib->attrs.max_qp_wr));
	qp->recv_depth = min_t(u32, ud ? clamp(ud_recv_depth, 64u, 16384u) : RECV_DEPTH,
			       qp->device->ib->attrs.max_qp_wr);
	/* Of a queue that had to be shorter, data may take the same part. */
	qp->credits = clamp(qp->recv_depth * IBR_CREDIT_PKTS / RECV_DEPTH, 1u, (u32)IBR_CREDIT_PKTS);
	spin_lock_init(&qp->lock);
	INIT_LIST_HEAD(&qp->starved_dests);
	INIT_LIST_HEAD(&qp->link);
	INIT_DELAYED_WORK(&qp->rebuild_work, qp_rebuild_work);
	INIT_DELAYED_WORK(&qp->reap_work, qp_reap_work);
	irq_poll_init(&qp->poll, POLL_BUDGET, qp_softirq);
	/* Nobody polls before it is open. */
	set_bit(IBR_QP_OWNED, &qp->state);

	ret = qp_alloc_memory(qp);
	if (ret)
		goto err_memory;
	qp_prepare(qp);
	qp->posted = IBR_COUNTERS_START;
	qp->completed = IBR_COUNTERS_START;
	qp->reapable = IBR_COUNTERS_START;
	ret = qp_create_cqs(qp, &qp->recv_cq, &qp->send_cq);
	if (ret)
		goto err_memory;
	if (path) {
		ibr_path_get(path);
		qp->path = path;
	}
	return qp;

err_memory:
	qp_free_memory(qp);
	ibr_device_put(qp->device);
	kfree(qp);
	return ERR_PTR(ret);
}

static void qp_init_attr(struct ibr_qp *qp, struct ib_qp_init_attr *attr)
{
	*attr = (struct ib_qp_init_attr) {
		.event_handler = qp_event,
		.qp_context = qp,
		.send_cq = qp->send_cq,
		.recv_cq = qp->recv_cq,
		.cap = {
			.max_send_wr = qp->send_depth,
			.max_recv_wr = qp->recv_depth,
			.max_send_sge = qp->segments,
			.max_recv_sge = 1,
		},
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		.qp_type = qp->type,
		.port_num = qp->port->num,
	};
}

/* Every buffer to the adapter. Context: owner. */
static int qp_fill(struct ibr_qp *qp)
{
	const struct ib_recv_wr *bad;
	u32 i;

	for (i = 0; i < qp->recv_depth; i++) {
		qp->recvs[i].held = 0;
		qp->recvs[i].wr.next = i + 1 < qp->recv_depth ? &qp->recvs[i + 1].wr : NULL;
	}
	qp->held_count = 0;
	return ib_post_recv(qp->qp, &qp->recvs[0].wr, &bad);
}

static void qp_publish(struct ibr_qp *qp)
{
	spin_lock_bh(&qp_list_lock);
	list_add_tail_rcu(&qp->link, &qp_list);
	spin_unlock_bh(&qp_list_lock);
	qp_give_up(qp);
}

int ibr_qp_open_cm(struct ibr_qp *qp, struct rdma_cm_id *id)
{
	struct ib_qp_init_attr attr;
	int ret;

	qp_init_attr(qp, &attr);
	ret = rdma_create_qp(id, qp->device->pd, &attr);
	if (ret)
		return ret;
	qp->qp = id->qp;
	WRITE_ONCE(qp->number, qp->qp->qp_num);
	ret = qp_fill(qp);
	if (ret)
		return ret;
	qp_publish(qp);
	return 0;
}

/* On InfiniBand it may be anywhere; peers are called in that partition (connect.c). */
static int qp_find_pkey(struct ibr_qp *qp, u16 *index)
{
	return ib_find_cached_pkey(qp->device->ib, qp->port->num, IB_DEFAULT_PKEY_FULL, index);
}

/* From RESET to RTS, with receives posted. Context: owner. */
static int qp_ready_ud(struct ibr_qp *qp)
{
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_INIT,
		.port_num = qp->port->num,
		.qkey = IBR_QKEY,
		.pkey_index = qp->pkey_index,
	};
	int ret;

	ret = ib_modify_qp(qp->qp, &attr,
			   IB_QP_STATE | IB_QP_PKEY_INDEX | IB_QP_PORT | IB_QP_QKEY);
	if (ret)
		return ret;
	ret = qp_fill(qp);
	if (ret)
		return ret;
	attr.qp_state = IB_QPS_RTR;
	ret = ib_modify_qp(qp->qp, &attr, IB_QP_STATE);
	if (ret)
		return ret;
	attr.qp_state = IB_QPS_RTS;
	attr.sq_psn = 0;
	return ib_modify_qp(qp->qp, &attr, IB_QP_STATE | IB_QP_SQ_PSN);
}

int ibr_qp_open_ud(struct ibr_qp *qp)
{
	struct ib_qp_init_attr attr;
	struct ib_qp *ib_qp;
	int ret;

	ret = qp_find_pkey(qp, &qp->pkey_index);
	if (ret)
		return ret;
	qp_init_attr(qp, &attr);
	ib_qp = ib_create_qp(qp->device->pd, &attr);
	if (IS_ERR(ib_qp))
		return PTR_ERR(ib_qp);
	qp->qp = ib_qp;
	WRITE_ONCE(qp->number, ib_qp->qp_num);
	ret = qp_ready_ud(qp);
	if (ret)
		return ret;
	qp->live = true;
	qp_publish(qp);
	return 0;
}

void ibr_qp_start(struct ibr_qp *qp)
{
	WRITE_ONCE(qp->live, true);
	/* What was held, and a failure that nobody heard of, wait for the poller. */
	qp_kick(qp);
}

static void qp_own(struct ibr_qp *qp)
{
	while (!qp_take(qp))
		usleep_range(50, 100);
}

/* Give everything back that is in the send queue; the adapter has let go of it. */
static void qp_drop_sends(struct ibr_qp *qp)
{
	spin_lock_bh(&qp->lock);
	while (ib_poll_cq(qp->send_cq, ARRAY_SIZE(qp->send_wc), qp->send_wc) > 0)
		;
	qp->chain = NULL;
	qp_complete(qp, qp->posted);
	qp->reapable = qp->completed;
	qp->unsignalled = 0;
	qp->holds = false;
	spin_unlock_bh(&qp->lock);
}

static void qp_close(struct ibr_qp *qp)
{
	spin_lock_bh(&qp->lock);
	qp->closed = true;
	qp->chain = NULL;
	spin_unlock_bh(&qp->lock);
	cancel_delayed_work_sync(&qp->reap_work);
}

static void qp_drop_starved(struct ibr_qp *qp)
{
	struct ibr_dest *dest;

	spin_lock_bh(&qp->lock);
	while ((dest = list_first_entry_or_null(&qp->starved_dests, struct ibr_dest, starved))) {
		list_del_init(&dest->starved);
		ibr_dest_put(dest);
	}
	spin_unlock_bh(&qp->lock);
}

/* Ready, if there is an event when something comes. Context: owner, closed. */
static int qp_back_ud(struct ibr_qp *qp)
{
	int ret;

	qp_drop_sends(qp);
	/* Here, and not when it is given up: if it fails, so does the attempt. */
	WRITE_ONCE(qp->armed, true);
	ret = ib_req_notify_cq(qp->recv_cq, IB_CQ_NEXT_COMP);
	return ret ?: qp_ready_ud(qp);
}

/* Under the same number, so that nobody else has to know. Context: owner, closed. */
static int qp_reset_ud(struct ibr_qp *qp)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };
	int ret;

	ib_modify_qp(qp->qp, &attr, IB_QP_STATE);
	attr.qp_state = IB_QPS_RESET;
	ret = ib_modify_qp(qp->qp, &attr, IB_QP_STATE);
	while (ib_poll_cq(qp->recv_cq, ARRAY_SIZE(qp->recv_wc), qp->recv_wc) > 0)
		;
	return ret ?: qp_back_ud(qp);
}

/*
 * Another one, with completion queues of its own, in the place of this one. The old ones stay until there are new ones,
 * so that there are always some, and if the adapter does not take the old one away. Context: owner, closed.
 */
static int qp_replace_ud(struct ibr_qp *qp)
{
	struct ib_qp_init_attr attr;
	bool spoilt = READ_ONCE(qp->spoilt);
	struct ib_cq *recv_cq, *send_cq;
	struct ib_qp *ib_qp;
	int ret;

	/* Before there are new ones, which may fail at once. */
	WRITE_ONCE(qp->spoilt, false);
	ret = qp_create_cqs(qp, &recv_cq, &send_cq);
	if (ret)
		goto err_spoilt;
	qp_init_attr(qp, &attr);
	attr.recv_cq = recv_cq;
	attr.send_cq = send_cq;
	ib_qp = ib_create_qp(qp->device->pd, &attr);
	if (IS_ERR(ib_qp)) {
		ret = PTR_ERR(ib_qp);
		goto err_cqs;
	}
	ret = ib_destroy_qp(qp->qp);
	if (ret) {
		ib_destroy_qp(ib_qp);
		goto err_cqs;
	}
	qp_drop_sends(qp);
	ib_destroy_cq(qp->send_cq);
	ib_destroy_cq(qp->recv_cq);
	qp->qp = ib_qp;
	qp->send_cq = send_cq;
	qp->recv_cq = recv_cq;
	return qp_back_ud(qp);

err_cqs:
	ib_destroy_cq(send_cq);
	ib_destroy_cq(recv_cq);
err_spoilt:
	if (spoilt)
		WRITE_ONCE(qp->spoilt, true);
	return ret;
}

/*
 * A datagram queue pair that has failed is reset, or replaced by another one if its adapter cannot do that (irdma
 * leaves it in error) or a completion queue has failed. What was in its queues is lost, which the engines repair.
 * Nobody else would ever bring it back, so this goes on until it succeeds; what hinders it, such as a firmware that is
 * being reset, may last.
 */
static void qp_rebuild_work(struct work_struct *work)
{
	struct ibr_qp *qp = container_of(to_delayed_work(work), struct ibr_qp, rebuild_work);
	unsigned int delay_ms;
	bool moved = false;
	u16 pkey_index;
	int ret;

	if (test_bit(IBR_QP_STOPPING, &qp->state))
		return;
	if (!qp->rebuilds && READ_ONCE(qp->failed))
		pr_info_ratelimited("%s port %u: datagram queue pair failed (%d), rebuilding it\n",
				    dev_name(&qp->device->ib->dev), qp->port->num, qp->failed);
	qp_own(qp);
	qp_close(qp);
	/* First: without it no other one would get ready. */
	ret = qp_find_pkey(qp, &pkey_index);
	if (!ret) {
		WRITE_ONCE(qp->pkey_index, pkey_index);
		ret = READ_ONCE(qp->spoilt) ? -EIO : qp_reset_ud(qp);
		if (ret)
			ret = qp_replace_ud(qp);
	}
	if (!ret) {
		/* What peers were told last, however many there were meanwhile that did not get ready. */
		moved = qp->number != qp->qp->qp_num;
		WRITE_ONCE(qp->number, qp->qp->qp_num);
		qp->rebuilt_at = get_jiffies_64();
		qp->reported = false;
		WRITE_ONCE(qp->failed, 0);
		smp_mb(); /* pairs with the one in qp_cq_error() */
		/* A completion queue that has failed meanwhile says so only once. */
		if (READ_ONCE(qp->spoilt))
			qp_fail(qp, -EIO);
		spin_lock_bh(&qp->lock);
		qp->closed = false;
		spin_unlock_bh(&qp->lock);
	}
	qp_give_up(qp);
	/* Peers send to the old one, and are told when they are looked up anew. */
	if (moved)
		ibr_paths_break(qp->port, qp, -ECONNRESET);

	if (!ret) {
		if (qp->rebuilds)
			pr_info("%s port %u: datagram queue pair is back\n", dev_name(&qp->device->ib->dev),
				qp->port->num);
		qp->rebuilds = 0;
		/* Those that found it closed wait on the list of the starved. */
		qp_kick(qp);
		return;
	}
	if (!qp->rebuilds)
		pr_err("%s port %u: datagram queue pair cannot be rebuilt (%d), will go on trying\n",
		       dev_name(&qp->device->ib->dev), qp->port->num, ret);
	delay_ms = min(REBUILD_MS << min(qp->rebuilds, 7u), REBUILD_MAX_MS);
	qp->rebuilds++;
	queue_delayed_work(ibr_wq, &qp->rebuild_work, msecs_to_jiffies(delay_ms));
}

void ibr_qp_check_pkey(struct ibr_qp *qp)
{
	u16 index;

	/* If it has gone, it may come back to the same place. */
	if (!qp_find_pkey(qp, &index) && index != READ_ONCE(qp->pkey_index))
		queue_delayed_work(ibr_wq, &qp->rebuild_work, 0);
}

/*
 * (1) Nothing is posted any more; (2) the softirq, busy pollers and work are over; (3) the device
 * forgets it, and what it held is given back.
 */
void ibr_qp_stop(struct ibr_qp *qp)
{
	if (!qp->slots)
		return;
	set_bit(IBR_QP_STOPPING, &qp->state);
	cancel_delayed_work_sync(&qp->rebuild_work);
	qp_close(qp);

	if (!list_empty(&qp->link)) {
		spin_lock_bh(&qp_list_lock);
		list_del_rcu(&qp->link);
		spin_unlock_bh(&qp_list_lock);
		qp_own(qp);
	}
	irq_poll_disable(&qp->poll);
	/* The poller may have asked for it just before. */
	cancel_delayed_work_sync(&qp->rebuild_work);

	if (qp->qp)
		ib_destroy_qp(qp->qp);
	qp_drop_sends(qp);
	qp_drop_starved(qp);
	ib_destroy_cq(qp->send_cq);
	ib_destroy_cq(qp->recv_cq);
	qp_free_memory(qp);
}

void ibr_qp_get(struct ibr_qp *qp)
{
	kref_get(&qp->ref);
}

static void qp_release(struct kref *ref)
{
	struct ibr_qp *qp = container_of(ref, struct ibr_qp, ref);

	WARN_ON_ONCE(qp->slots);
	if (qp->path)
		ibr_path_put(qp->path);
	ibr_device_put(qp->device);
	/* Some drivers' event handlers may still be about to return. */
	kfree_rcu(qp, rcu);
}

void ibr_qp_put(struct ibr_qp *qp)
{
	kref_put(&qp->ref, qp_release);
}

static void probe_event(struct ib_cq *cq, void *context)
{
}

bool ibr_qp_probe(struct ib_device *ib, struct ib_pd *pd, enum ib_qp_type type)
{
	struct ib_cq_init_attr cq_attr = { .cqe = 4 };
	struct ib_qp_init_attr attr = {
		.cap = {
			.max_send_wr = 2,
			.max_recv_wr = 2,
			.max_send_sge = PACKET_SEGMENTS_MIN,
			.max_recv_sge = 1,
		},
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		.qp_type = type,
		.port_num = rdma_start_port(ib),
	};
	struct ib_qp *qp;
	struct ib_cq *cq;

	cq = ib_create_cq(ib, probe_event, NULL, NULL, &cq_attr);
	if (IS_ERR(cq))
		return false;
	attr.send_cq = cq;
	attr.recv_cq = cq;
	qp = ib_create_qp(pd, &attr);
	if (!IS_ERR(qp))
		ib_destroy_qp(qp);
	ib_destroy_cq(cq);
	return !IS_ERR(qp);
}
