/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Fragments: what a packet carries, and what is kept until it has arrived. A fragment never changes
 * after it was queued: each transmission writes its own header into a slot of the send queue, so a
 * retransmission cannot disturb an earlier work request that the adapter may still be reading.
 */
#ifndef IBR_FRAG_H
#define IBR_FRAG_H

#include <linux/list.h>
#include <linux/refcount.h>
#include <linux/types.h>
#include "reliability/wire.h"

struct ibr_inflow;
struct ibr_outflow;
struct ibr_send;

#define IBR_FRAG_SMALL		168	/* payload up to this is copied into the slot, but behind a longer one */
#define IBR_FRAG_PAYLOAD_MAX	4096
#define IBR_FRAG_BATCH		64	/* most control frames queued at a time in process context */

/**
 * struct ibr_frag - one frame and its payload
 * @ref: held by the path (queued, or in flight), and by each posted work request
 * @link: in one of the path's queues
 * @next: the next fragment of the same packet, from its assembly until it is acknowledged or lost
 * @send: message that it belongs to, referenced; or NULL
 * @answers: flow of which it tells how a message fared, referenced until that is acknowledged, or in vain; or NULL
 * @fence: what ibr_windows_fenced() is told when it is acknowledged; 0: nothing
 * @embedded: part of @send's memory, so not freed by itself
 * @control: reliable in native modes too
 * @repeated: transmitted before
 * @written: goes by RDMA write the first time, from @send's memory: there is no payload, and no header
 * @small: of the small size, so that it may come from, and refill, the reserve
 * @payload_len: bytes of payload
 * @payload: physically contiguous kernel memory: @inline_payload, or a part of the copy that @send has
 * @frame: as it travels
 * @inline_payload: room for what ibr_frag_alloc() was asked for; of an embedded one, IBR_FRAG_SMALL bytes
 */
struct ibr_frag {
	refcount_t ref;
	u16 payload_len;
	bool embedded;
	bool control;
	bool repeated;
	bool written;
	bool small;
	struct list_head link;
	struct ibr_frag *next;
	struct ibr_send *send;
	struct ibr_inflow *answers;
	u32 fence;
	void *payload;
	struct wire_frame frame;
	u8 inline_payload[] __aligned(8);
};

/**
 * ibr_frag_alloc() - a fragment with a zeroed frame and room for some payload
 * @payload: bytes of it, at most IBR_FRAG_PAYLOAD_MAX; up to IBR_FRAG_SMALL the reserve helps out
 *
 * Return: fragment, or NULL: no memory. Context: any but hardirq; never sleeps.
 */
struct ibr_frag *ibr_frag_alloc(u32 payload);
/** ibr_frag_alloc_bulk() - one without payload, for those who can wait: not from the reserve. Otherwise the same */
struct ibr_frag *ibr_frag_alloc_bulk(void);
/**
 * ibr_frag_refill() - wait for memory until the reserve of small fragments is worth something again
 * For those who are going to queue control frames, at most IBR_FRAG_BATCH, under a lock and may sleep before they
 * take it. Context: process.
 */
void ibr_frag_refill(void);
/** ibr_frag_setup() - start the life of a fragment that is embedded in @send; takes a reference to it */
void ibr_frag_setup(struct ibr_frag *frag, struct ibr_send *send);
void ibr_frag_get(struct ibr_frag *frag);
/** ibr_frag_put() - Context: any */
void ibr_frag_put(struct ibr_frag *frag);

int ibr_frag_init(void);
void ibr_frag_exit(void);

#endif /* IBR_FRAG_H */
