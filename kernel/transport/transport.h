/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The transports' ops table: what differs between queue pair types, and nothing else. The drive fills
 * slots (header memory of a send work request) and posts them; received packets go up by
 * ibr_path_receive().
 */
#ifndef IBR_TRANSPORT_H
#define IBR_TRANSPORT_H

#include <linux/types.h>
#include <rdma/ib_verbs.h>
#include <ibrelk/uapi.h>

struct ibr_frag;
struct ibr_path;
struct ibr_qp;

#define IBR_CREDIT_PKTS	64	/* data packets that a path takes at a time, at most */
#define IBR_SLOT_BYTES	1024	/* packet header, frames, and their payloads of up to IBR_FRAG_SMALL each */
#define IBR_SLOT_PAYLOADS	3	/* other payloads of a packet, at most */

/**
 * struct ibr_slot - a send work request
 * @header: IBR_SLOT_BYTES of memory, DMA-mapped where there is an adapter, zero cost to write
 * @dma: its DMA address
 * @frag: whose payloads follow what is at @header, from where they lie. Set by who posts a packet; the transport has a
 *	reference to each meanwhile, and to that of an RDMA write
 * @frags: how many
 * @frags_max: how many the adapter takes, 1 to IBR_SLOT_PAYLOADS
 * @index: of the slot in its queue pair
 *
 * All but @header, @frag and @frags is the transport's.
 */
struct ibr_slot {
	void *header;
	dma_addr_t dma;
	struct ibr_frag *frag[IBR_SLOT_PAYLOADS];
	u16 frags;
	u16 frags_max;
	u32 index;
};

/**
 * struct ibr_transport - one queue pair type
 * @name: "uc", "ud", "rc", "auto", "loop"
 * @type: of the queue pair that a path cannot be without; loop, which needs none: IB_QPT_UD
 * @slot: a free slot, or NULL: the send queue is full; ibr_path_drive() will be called when there is
 *	room. Context: connection lock held
 * @post: queue a packet: @length bytes at slot->header (the headers, and payloads that are small), then the payloads
 *	of slot->frag. Errors are reported by ibr_path_broken(), later. Context: connection lock held
 * @rdma: the queue pair by which both ends may write to one another's memory, and of which @slot gives slots; NULL:
 *	there is none now. Context: connection lock held
 * @late_write_breaks: what is written too late, when its key has ended, ends the connection (a reliable one), and is
 *	not just dropped
 * @flush: hand what was queued to the adapter, as one chain. Context: connection lock held
 * @prepare: allocate what the path keeps for it as long as it exists; or NULL. Who runs pays. Return: 0 or -ENOMEM.
 *	Context: process; nobody knows the path yet
 * @release: free that. Context: process; nothing of the path is running
 * @connect: make or renew the connection (connect.c); reports by ibr_path_connected() or
 *	ibr_path_failed(). Context: process, path->connect_lock held
 * @disconnect: end it, tell the peer if possible, wait until nothing of it is running. Context: process,
 *	path->connect_lock held
 */
struct ibr_transport {
	const char *name;
	enum ib_qp_type type;
	struct ibr_slot *(*slot)(struct ibr_path *path);
	void (*post)(struct ibr_path *path, struct ibr_slot *slot, u32 length);
	struct ibr_qp *(*rdma)(struct ibr_path *path);
	bool late_write_breaks;
	void (*flush)(struct ibr_path *path);
	int (*prepare)(struct ibr_path *path);
	void (*release)(struct ibr_path *path);
	int (*connect)(struct ibr_path *path);
	void (*disconnect)(struct ibr_path *path);
};

extern const struct ibr_transport ibr_transport_rc;
extern const struct ibr_transport ibr_transport_uc;
extern const struct ibr_transport ibr_transport_ud;
extern const struct ibr_transport ibr_transport_auto;
extern const struct ibr_transport ibr_transport_loop;

static inline bool ibr_mode_native(u32 mode)
{
	return mode >= IBRELK_MODE_RC_NATIVE && mode <= IBRELK_MODE_UD_NATIVE;
}

#endif /* IBR_TRANSPORT_H */
