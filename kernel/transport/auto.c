// SPDX-License-Identifier: GPL-2.0-only
/*
 * Automatic: datagrams, and while there is much to carry between two nodes, a UC queue pair for it, the
 * lane (lane.c). The engine neither knows nor cares which of both brought a packet.
 */
#include "../connect.h"
#include "../path.h"
#include "verbs.h"

static struct ibr_slot *auto_slot(struct ibr_path *path)
{
	return path->lane.qp ? ibr_qp_slot(path->lane.qp, NULL) : ibr_verbs_slot(path);
}

static void auto_post(struct ibr_path *path, struct ibr_slot *slot, u32 length)
{
	if (path->lane.qp)
		ibr_qp_post(path->lane.qp, slot, length);
	else
		ibr_ud_post(path, slot, length);
}

static struct ibr_qp *auto_rdma(struct ibr_path *path)
{
	return path->lane.qp;
}

static void auto_flush(struct ibr_path *path)
{
	if (path->lane.qp)
		ibr_qp_flush(path->lane.qp);
	else
		ibr_verbs_flush(path);
}

const struct ibr_transport ibr_transport_auto = {
	.name = "auto",
	.type = IB_QPT_UD,
	.slot = auto_slot,
	.post = auto_post,
	.rdma = auto_rdma,
	.flush = auto_flush,
	.connect = ibr_connect_start,
	.disconnect = ibr_connect_stop,
};
