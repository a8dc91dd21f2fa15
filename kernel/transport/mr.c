// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory regions; mr.h says how they are made and why they are used once.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/dma-mapping.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/random.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <linux/workqueue.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_verbs.h>

#include "../compat.h"
#include "mr.h"
#include "verbs.h"

#define GIDS_MAX	64	/* addresses of a port that are tried */
#define MR_PAGES	(IBR_MR_MAX / PAGE_SIZE + 1)	/* a stretch may begin and end inside a page */

static unsigned int regions = 128;
module_param(regions, uint, 0444);
MODULE_PARM_DESC(regions, "memory regions of each device for messages without a copy, at most 4096; 0: none");

static struct workqueue_struct *mr_queue;

/**
 * struct ibr_mr - a region
 * @link: in mrs->idle
 * @mrs: whose; immutable
 * @ib: in the device; NULL: it could not be made anew
 * @cqe: called when it is registered
 * @wr: work request that does that
 * @sg: the pages, while it is in use
 * @entries: how many
 * @pages: as it was opened with
 * @place: likewise
 * @length: likewise
 * @ops: likewise
 * @context: likewise
 * @mapped: @sg is
 * @posted: the key may have become known to the adapter, and is not used again
 * @waiting: bit 0: it is being registered, and opened() not called yet
 * @closing: @work is to end it, not to begin it
 * @work: what may sleep
 */
struct ibr_mr {
	struct list_head link;
	struct ibr_mrs *mrs;
	struct ib_mr *ib;
	struct ib_cqe cqe;
	struct ib_reg_wr wr;
	struct scatterlist *sg;
	int entries;
	struct page **pages;
	u32 place;
	u32 length;
	const struct ibr_mr_ops *ops;
	void *context;
	bool mapped;
	bool posted;
	unsigned long waiting;
	bool closing;
	struct delayed_work work;
};

/**
 * struct ibr_mrs - the regions of a device
 * @device: whose; immutable
 * @cq: of @qp
 * @qp: registers; NULL: it could not be made. Under @post_lock
 * @count: regions; immutable
 * @post_lock: nothing is posted to @qp while it is made anew
 * @state: bit MRS_FAILED: nothing is registered until @qp is made anew; MRS_SYNCED: nor ever, since the processor has
 *	to be told of what the device writes; MRS_STOPPED: nor ever, since the device is being removed
 * @rebuild_work: does that, and tries again if the adapter refuses
 * @tries: ... how often; its own
 * @lock: softirq-safe, a leaf; covers what follows
 * @idle: regions that nobody uses
 * @mr: all of them
 */
struct ibr_mrs {
	struct ibr_device *device;
	struct ib_cq *cq;
	struct ib_qp *qp;
	u32 count;
	struct mutex post_lock;		/* posting, or making @qp anew */
	unsigned long state;
	struct delayed_work rebuild_work;
	u32 tries;
	spinlock_t lock;		/* @idle */
	struct list_head idle;
	struct ibr_mr *mr;
};

#define MRS_FAILED	0
#define MRS_SYNCED	1
#define MRS_STOPPED	2
#define MRS_RETRY_MS	1000	/* before the queue pair is to be made once more, doubled each time */
#define MRS_RETRY_MAX	6u	/* ... so often */

/* ---- the queue pair that is connected to itself -------------------------------------------- */

static int mrs_modify(struct ibr_mrs *mrs, struct ib_qp_attr *attr, enum ib_qp_state state, int mask)
{
	attr->qp_state = state;
	return ib_modify_qp(mrs->qp, attr, mask | IB_QP_STATE);
}

static int mrs_create_qp(struct ibr_mrs *mrs)
{
	struct ib_device *ib = mrs->device->ib;
	struct ib_qp_init_attr attr = {
		.send_cq = mrs->cq,
		.recv_cq = mrs->cq,
		.cap = {
			.max_send_wr = mrs->count + 1,	/* and one to drain it with */
			.max_recv_wr = 1,
			.max_send_sge = 1,
			.max_recv_sge = 1,
		},
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		.qp_type = IB_QPT_RC,
		.port_num = rdma_start_port(ib),
	};
	struct ib_qp *qp = ib_create_qp(mrs->device->pd, &attr);

	if (IS_ERR(qp))
		return PTR_ERR(qp);
	mrs->qp = qp;
	return 0;
}

static void mrs_destroy_qp(struct ibr_mrs *mrs)
{
	if (mrs->qp)
		ib_destroy_qp(mrs->qp);
	mrs->qp = NULL;
}

/* From RESET to RTS by one of the port's addresses. */
static int mrs_connect(struct ibr_mrs *mrs, const struct ib_gid_attr *gid, u32 index)
{
	struct ib_device *ib = mrs->device->ib;
	u32 port = rdma_start_port(ib);
	struct ib_port_attr port_attr;
	struct ib_qp_attr attr = {
		.port_num = port,
		.path_mtu = IB_MTU_256,
		.dest_qp_num = mrs->qp->qp_num,
		.min_rnr_timer = 12,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
	};
	int ret;

	attr.ah_attr.type = rdma_ah_find_type(ib, port);
	rdma_ah_set_port_num(&attr.ah_attr, port);
	rdma_ah_set_grh(&attr.ah_attr, (union ib_gid *)&gid->gid, 0, index, 1, 0);
	rdma_ah_set_ah_flags(&attr.ah_attr, IB_AH_GRH);
	if (!ib_query_port(ib, port, &port_attr))
		rdma_ah_set_dlid(&attr.ah_attr, port_attr.lid);
	/* For a queue pair of the kernel's nobody else looks it up; some adapters take it for that of their address. */
	if (attr.ah_attr.type == RDMA_AH_ATTR_TYPE_ROCE) {
		ret = rdma_read_gid_l2_fields(gid, NULL, attr.ah_attr.roce.dmac);
		if (ret)
			return ret;
	}

	ret = mrs_modify(mrs, &attr, IB_QPS_INIT, IB_QP_PKEY_INDEX | IB_QP_PORT | IB_QP_ACCESS_FLAGS);
	if (!ret)
		ret = mrs_modify(mrs, &attr, IB_QPS_RTR, IB_QP_AV | IB_QP_PATH_MTU | IB_QP_DEST_QPN | IB_QP_RQ_PSN |
				 IB_QP_MAX_DEST_RD_ATOMIC | IB_QP_MIN_RNR_TIMER);
	if (!ret)
		ret = mrs_modify(mrs, &attr, IB_QPS_RTS, IB_QP_TIMEOUT | IB_QP_RETRY_CNT | IB_QP_RNR_RETRY |
				 IB_QP_SQ_PSN | IB_QP_MAX_QP_RD_ATOMIC);
	return ret;
}

/*
 * Nothing is ever sent, so it matters little by which address; but some may not lead anywhere. A queue pair that has
 * begun is not reset for the next one: not all adapters do that, and nobody else knows its number.
 */
static int mrs_make_qp(struct ibr_mrs *mrs)
{
	struct ib_device *ib = mrs->device->ib;
	const struct ib_gid_attr *gid;
	int ret = -ENODEV;
	u32 i;

	for (i = 0; ret && i < GIDS_MAX; i++) {
		gid = rdma_get_gid_attr(ib, rdma_start_port(ib), i);
		if (IS_ERR(gid))
			continue;
		ret = mrs_create_qp(mrs);
		if (!ret)
			ret = mrs_connect(mrs, gid, i);
		rdma_put_gid_attr(gid);
		if (ret)
			mrs_destroy_qp(mrs);
	}
	return ret;
}

/* Whatever is under way comes back with an error; if the adapter refuses that, it may still be done. */
static int mrs_drain(struct ibr_mrs *mrs)
{
	struct ib_qp_attr attr = {};
	int ret;

	if (!mrs->qp)
		return 0;
	ret = mrs_modify(mrs, &attr, IB_QPS_ERR, 0);
	if (!ret)
		ib_drain_sq(mrs->qp);
	return ret;
}

static void mrs_rebuild_work(struct work_struct *work)
{
	struct ibr_mrs *mrs = container_of(to_delayed_work(work), struct ibr_mrs, rebuild_work);
	const char *name = dev_name(&mrs->device->ib->dev);
	int ret;

	mutex_lock(&mrs->post_lock);
	if (test_bit(MRS_STOPPED, &mrs->state)) {
		mutex_unlock(&mrs->post_lock);
		return;
	}
	ret = mrs_drain(mrs);
	if (!ret) {
		mrs_destroy_qp(mrs);
		ret = mrs_make_qp(mrs);
	}
	if (!ret)
		clear_bit(MRS_FAILED, &mrs->state);
	mutex_unlock(&mrs->post_lock);
	if (ret) {
		/* There may be no address yet, no memory just now, or a firmware that does not answer. */
		queue_delayed_work(mr_queue, &mrs->rebuild_work,
				   msecs_to_jiffies(MRS_RETRY_MS << min(mrs->tries, MRS_RETRY_MAX)));
		if (!mrs->tries++)
			pr_warn("%s: memory cannot be registered (%d): long messages are copied until it can\n",
				name, ret);
	} else if (mrs->tries) {
		pr_info("%s: memory can be registered again\n", name);
		mrs->tries = 0;
	}
}

static void mrs_fail(struct ibr_mrs *mrs)
{
	if (!test_and_set_bit(MRS_FAILED, &mrs->state))
		queue_delayed_work(mr_queue, &mrs->rebuild_work, 0);
}

/* ---- opening -------------------------------------------------------------------------------- */

/* Once, by the completion or ibr_mrs_stop(). */
static void mr_opened(struct ibr_mr *mr, int error)
{
	if (test_and_clear_bit(0, &mr->waiting))
		mr->ops->opened(mr->context, error);
}

static void mr_registered(struct ib_cq *cq, struct ib_wc *wc)
{
	struct ibr_mr *mr = container_of(wc->wr_cqe, struct ibr_mr, cqe);

	if (unlikely(wc->status != IB_WC_SUCCESS)) {
		mrs_fail(mr->mrs);
		mr_opened(mr, -EIO);
		return;
	}
	mr_opened(mr, 0);
}

/* With a key that nobody has had. */
static int mr_make(struct ibr_mr *mr)
{
	struct ib_mr *ib = ib_alloc_mr(mr->mrs->device->pd, IB_MR_TYPE_MEM_REG, MR_PAGES);

	if (IS_ERR(ib))
		return PTR_ERR(ib);
	mr->ib = ib;
	return 0;
}

static void mr_unmap(struct ibr_mr *mr)
{
	if (mr->mapped)
		ib_dma_unmap_sg(mr->mrs->device->ib, mr->sg, mr->entries, DMA_FROM_DEVICE);
	mr->mapped = false;
}

/* The pages as the adapter sees them. */
static int mr_map(struct ibr_mr *mr)
{
	struct ib_device *ib = mr->mrs->device->ib;
	u32 place = mr->place, left = mr->length, part;
	struct scatterlist *sg;
	int mapped;

	mr->entries = DIV_ROUND_UP(offset_in_page(place) + left, PAGE_SIZE);
	sg_init_table(mr->sg, mr->entries);
	for (sg = mr->sg; left; sg = sg_next(sg), left -= part, place += part) {
		part = min_t(u32, left, PAGE_SIZE - offset_in_page(place));
		sg_set_page(sg, mr->pages[place >> PAGE_SHIFT], part, offset_in_page(place));
	}
	mapped = ib_dma_map_sg(ib, mr->sg, mr->entries, DMA_FROM_DEVICE);
	if (!mapped)
		return -ENOMEM;
	mr->mapped = true;
	/*
	 * What the kernel copies there meanwhile, it must not lose when this is undone. So it is undone at once: what
	 * is not written by the adapter is all copied. Other windows would fare no better.
	 */
	for (sg = mr->sg; sg < mr->sg + mapped; sg++)
		if (!ib_uses_virt_dma(ib) && dma_need_sync(ib->dma_device, sg_dma_address(sg))) {
			mr_unmap(mr);
			if (!test_and_set_bit(MRS_SYNCED, &mr->mrs->state))
				pr_info("%s: what it writes has to be synchronized: long messages are copied\n",
					dev_name(&ib->dev));
			return -EOPNOTSUPP;
		}
	if (ib_map_mr_sg(mr->ib, mr->sg, mapped, NULL, PAGE_SIZE) != mapped)
		return -EINVAL;
	/* Where it is in the peer's view is nobody's business, and not to be guessed from another one. */
	mr->ib->iova = (get_random_u64() & PAGE_MASK & S64_MAX) | offset_in_page(mr->place);
	return 0;
}

static int mr_register(struct ibr_mr *mr)
{
	struct ibr_mrs *mrs = mr->mrs;
	const struct ib_send_wr *bad;
	int ret = -EIO;

	mr->cqe.done = mr_registered;
	memset(&mr->wr, 0, sizeof(mr->wr));
	mr->wr.wr.wr_cqe = &mr->cqe;
	mr->wr.wr.opcode = IB_WR_REG_MR;
	mr->wr.wr.send_flags = IB_SEND_SIGNALED;
	mr->wr.mr = mr->ib;
	mr->wr.key = mr->ib->rkey;
	mr->wr.access = IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE;
	mutex_lock(&mrs->post_lock);
	if (!test_bit(MRS_FAILED, &mrs->state)) {
		set_bit(0, &mr->waiting);
		ret = ib_post_send(mrs->qp, &mr->wr.wr, &bad);
		if (ret)
			clear_bit(0, &mr->waiting);
	}
	mr->posted = !ret;
	mutex_unlock(&mrs->post_lock);
	return ret;
}

static void mr_open(struct ibr_mr *mr)
{
	int ret = mr->ib ? 0 : mr_make(mr);

	if (!ret)
		ret = mr_map(mr);
	if (!ret)
		ret = mr_register(mr);
	if (ret)
		mr->ops->opened(mr->context, ret);
}

/* ---- closing -------------------------------------------------------------------------------- */

static void mr_give_back(struct ibr_mr *mr)
{
	struct ibr_mrs *mrs = mr->mrs;

	spin_lock_bh(&mrs->lock);
	list_add_tail(&mr->link, &mrs->idle);
	spin_unlock_bh(&mrs->lock);
}

static void mr_close(struct ibr_mr *mr)
{
	struct ibr_device *device = mr->mrs->device;

	/* As long as it is there, it can be written to. One that was never registered is as good as new. */
	if (mr->posted && ib_dereg_mr(mr->ib)) {
		pr_err_ratelimited("%s: a memory region cannot be deregistered; trying again\n",
				   dev_name(&device->ib->dev));
		queue_delayed_work(mr_queue, &mr->work, HZ);
		return;
	}
	if (mr->posted)
		mr->ib = NULL;
	mr->posted = false;
	mr_unmap(mr);
	mr->ops->closed(mr->context);
	/* One that cannot be made anew now is made when it is wanted. */
	if (!mr->ib)
		mr_make(mr);
	mr_give_back(mr);
	ibr_device_put(device);
}

static void mr_work(struct work_struct *work)
{
	struct ibr_mr *mr = container_of(to_delayed_work(work), struct ibr_mr, work);

	if (mr->closing)
		mr_close(mr);
	else
		mr_open(mr);
}

/* ---- for those who write and are written to ------------------------------------------------- */

struct ibr_mr *ibr_mr_open(struct ibr_device *device, struct page **pages, u32 place, u32 length,
			   const struct ibr_mr_ops *ops, void *context)
{
	struct ibr_mrs *mrs = device->mrs;
	struct ibr_mr *mr = NULL;

	if (!mrs || READ_ONCE(mrs->state) || length > IBR_MR_MAX || !ibr_device_get(device))
		return NULL;
	spin_lock_bh(&mrs->lock);
	mr = list_first_entry_or_null(&mrs->idle, struct ibr_mr, link);
	if (mr)
		list_del_init(&mr->link);
	spin_unlock_bh(&mrs->lock);
	if (!mr) {
		ibr_device_put(device);
		return NULL;
	}
	mr->pages = pages;
	mr->place = place;
	mr->length = length;
	mr->ops = ops;
	mr->context = context;
	mr->closing = false;
	queue_delayed_work(mr_queue, &mr->work, 0);
	return mr;
}

u32 ibr_mr_key(const struct ibr_mr *mr, u64 *address)
{
	*address = mr->ib->iova;
	return mr->ib->rkey;
}

void ibr_mr_close(struct ibr_mr *mr)
{
	mr->closing = true;
	queue_delayed_work(mr_queue, &mr->work, 0);
}

/* ---- life ----------------------------------------------------------------------------------- */

static int mrs_create_cq(struct ibr_mrs *mrs)
{
	struct ib_cq *cq = ib_alloc_cq(mrs->device->ib, mrs, mrs->count + 2, 0, IB_POLL_SOFTIRQ);

	if (IS_ERR(cq))
		return PTR_ERR(cq);
	mrs->cq = cq;
	return 0;
}

static int mrs_make_regions(struct ibr_mrs *mrs)
{
	u32 i;

	for (i = 0; i < mrs->count; i++) {
		struct ibr_mr *mr = &mrs->mr[i];

		mr->mrs = mrs;
		INIT_LIST_HEAD(&mr->link);
		INIT_DELAYED_WORK(&mr->work, mr_work);
		mr->sg = kcalloc(MR_PAGES, sizeof(*mr->sg), GFP_KERNEL);
		if (!mr->sg || mr_make(mr))
			return -ENOMEM;
		mr_give_back(mr);
	}
	return 0;
}

void ibr_mrs_stop(struct ibr_mrs *mrs)
{
	u32 i;

	if (!mrs)
		return;
	mutex_lock(&mrs->post_lock);
	set_bit(MRS_STOPPED, &mrs->state);
	set_bit(MRS_FAILED, &mrs->state);
	mrs_drain(mrs);
	mrs_destroy_qp(mrs);
	mutex_unlock(&mrs->post_lock);
	/* If it could not be drained, nobody else tells those that wait. */
	for (i = 0; i < mrs->count; i++)
		mr_opened(&mrs->mr[i], -EIO);
}

void ibr_mrs_destroy(struct ibr_mrs *mrs)
{
	u32 i;

	if (!mrs)
		return;
	cancel_delayed_work_sync(&mrs->rebuild_work);
	/* The last work may still be returning. */
	flush_workqueue(mr_queue);
	for (i = 0; mrs->mr && i < mrs->count; i++) {
		if (mrs->mr[i].ib)
			ib_dereg_mr(mrs->mr[i].ib);
		kfree(mrs->mr[i].sg);
	}
	mrs_destroy_qp(mrs);
	if (mrs->cq)
		ib_free_cq(mrs->cq);
	kvfree(mrs->mr);
	kfree(mrs);
}

struct ibr_mrs *ibr_mrs_create(struct ibr_device *device)
{
	const struct ib_device_attr *attrs = &device->ib->attrs;
	struct ibr_mrs *mrs;
	int ret;

	if (!regions || !(attrs->device_cap_flags & IB_DEVICE_MEM_MGT_EXTENSIONS) ||
	    attrs->max_fast_reg_page_list_len < MR_PAGES || !(device->types & BIT(IB_QPT_RC)))
		return NULL;
	mrs = kzalloc(sizeof(*mrs), GFP_KERNEL);
	if (!mrs)
		return NULL;
	mrs->device = device;
	mrs->count = min3(regions, 4096u, (u32)attrs->max_qp_wr - 1);
	mutex_init(&mrs->post_lock);
	INIT_DELAYED_WORK(&mrs->rebuild_work, mrs_rebuild_work);
	spin_lock_init(&mrs->lock);
	INIT_LIST_HEAD(&mrs->idle);
	mrs->mr = kvcalloc(mrs->count, sizeof(*mrs->mr), GFP_KERNEL);
	ret = mrs->mr ? mrs_make_regions(mrs) : -ENOMEM;
	if (!ret)
		ret = mrs_create_cq(mrs);
	if (ret) {
		pr_warn("%s: no memory regions (%d): long messages are copied\n", dev_name(&device->ib->dev), ret);
		ibr_mrs_destroy(mrs);
		return NULL;
	}
	/* A device may have its first address later. */
	if (mrs_make_qp(mrs))
		mrs_fail(mrs);
	return mrs;
}

int ibr_mr_init(void)
{
	mr_queue = alloc_workqueue("ibrelk_mr", WQ_UNBOUND | WQ_HIGHPRI, 0);
	return mr_queue ? 0 : -ENOMEM;
}

void ibr_mr_exit(void)
{
	destroy_workqueue(mr_queue);
}
