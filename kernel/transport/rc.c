// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reliable connections: the adapter repeats what is lost, and reports a peer that stays silent. For
 * comparison, and for devices that have nothing else (iWARP).
 */
#include "../connect.h"
#include "verbs.h"

/* iWARP has no immediate value that tells what was written. */
static struct ibr_qp *rc_rdma(struct ibr_path *path)
{
	struct ibr_qp *qp = ibr_verbs_rdma(path);

	return qp && qp->port->layer != IBR_LINK_IWARP ? qp : NULL;
}

const struct ibr_transport ibr_transport_rc = {
	.name = "rc",
	.type = IB_QPT_RC,
	.slot = ibr_verbs_slot,
	.post = ibr_verbs_post,
	.rdma = rc_rdma,
	.late_write_breaks = true,
	.flush = ibr_verbs_flush,
	.connect = ibr_connect_start,
	.disconnect = ibr_connect_stop,
};
