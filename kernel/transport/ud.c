// SPDX-License-Identifier: GPL-2.0-only
/*
 * Unreliable datagrams: one queue pair for all paths of a port. Each work request says where it
 * goes and carries our Q_Key, which is a privileged one, so that no queue pair of a user program
 * can send into ours.
 */
#include "../connect.h"
#include "../path.h"
#include "verbs.h"

void ibr_ud_post(struct ibr_path *path, struct ibr_slot *slot, u32 length)
{
	struct ibr_send_slot *send = container_of(slot, struct ibr_send_slot, slot);
	struct ibr_dest *dest = path->transport_data;

	/* The adapter may look the handle up until the work request is complete. */
	ibr_dest_get(dest);
	send->dest = dest;
	send->wr.ah = dest->ah;
	send->wr.remote_qpn = dest->qpn;
	send->wr.remote_qkey = IBR_QKEY;
	ibr_verbs_post(path, slot, length);
}

const struct ibr_transport ibr_transport_ud = {
	.name = "ud",
	.type = IB_QPT_UD,
	.slot = ibr_verbs_slot,
	.post = ibr_ud_post,
	.flush = ibr_verbs_flush,
	.connect = ibr_connect_start,
	.disconnect = ibr_connect_stop,
};
