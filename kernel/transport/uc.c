// SPDX-License-Identifier: GPL-2.0-only
/*
 * Unreliable connections: one queue pair for each path, in which packets may be lost, and no word
 * comes back from the adapter. Everything else is as with reliable connections.
 */
#include "../connect.h"
#include "verbs.h"

const struct ibr_transport ibr_transport_uc = {
	.name = "uc",
	.type = IB_QPT_UC,
	.slot = ibr_verbs_slot,
	.post = ibr_verbs_post,
	.rdma = ibr_verbs_rdma,
	.flush = ibr_verbs_flush,
	.connect = ibr_connect_start,
	.disconnect = ibr_connect_stop,
};
