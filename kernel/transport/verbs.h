/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Queue pairs, and what they need: completion queues, a ring of send slots, receive buffers. This
 * is what the transports rc, uc and ud share. The devices and ports behind them are here too,
 * because nobody else looks inside them.
 *
 * A queue pair of a connection belongs to one path; a datagram queue pair belongs to a port and is
 * shared by all of its paths, which are told apart by the token in each packet.
 */
#ifndef IBR_VERBS_H
#define IBR_VERBS_H

#include <linux/completion.h>
#include <linux/irq_poll.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/refcount.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/workqueue.h>
#include <rdma/ib_verbs.h>
#include "../reliability/wire.h"
#include "transport.h"

struct bio_vec;
struct ibr_mrs;
struct ibr_path;
struct ibr_port;
struct rdma_cm_id;

#define IBR_PACKET_MIN		256	/* smallest packet_max that a path can work with */
#define IBR_PACKET_MAX		4096	/* largest: one packet of the largest path MTU */
#define IBR_WRITE_SEGMENTS	4	/* that one RDMA write may take from: two pages, four where pieces meet */
#define IBR_QKEY		0xc1b5e1cdu	/* top bit set: only kernels may use it */

/**
 * struct ibr_device - an RDMA device in use
 * @ib: the device
 * @pd: protection domain of everything on it
 * @types: bit (1 << IB_QPT_...) for each queue pair type that it can make
 * @mrs: its memory regions, or NULL: it has none
 * @port_count: entries of @ports
 * @ports: those that speak something we know, usable or not
 * @users: one for being registered, one for each queue pair and address handle, and for each port that somebody
 *	looks at
 * @idle: completed when @users is 0
 * @link: in device.c's table, under its lock
 * @refresh_lock: one refresh at a time
 * @removing: refreshes are over; @refresh_lock
 * @retry_s: seconds until @retry_work, if something failed; @refresh_lock
 * @refresh_work: looks at all ports anew, soon after something has changed
 * @retry_work: likewise, some time after something failed
 * @events: the device's events, which queue that
 */
struct ibr_device {
	struct ib_device *ib;		/* immutable from here ... */
	struct ib_pd *pd;
	u32 types;
	struct ibr_mrs *mrs;
	u32 port_count;
	struct ibr_port *ports;		/* ... to here */
	refcount_t users;
	struct completion idle;
	struct list_head link;
	struct mutex refresh_lock;	/* one refresh at a time */
	bool removing;
	u32 retry_s;
	struct delayed_work refresh_work;
	struct delayed_work retry_work;
	struct ib_event_handler events;
};

/** enum ibr_link_layer - what a port speaks; decides how its addresses are found and written */
enum ibr_link_layer {
	IBR_LINK_ROCE,
	IBR_LINK_IB,
	IBR_LINK_IWARP,
};

/**
 * struct ibr_port - a port of a device in use
 * @device: that it belongs to; immutable
 * @num: the device's number for it; immutable
 * @layer: immutable
 * @ud: its datagram queue pair, or NULL; changes under device.c's table lock
 * @breaks: how often ibr_paths_break() was called for it
 * @addrs: its addresses, likewise
 * @mtu: bytes of one packet's payload, likewise
 * @reason: why it is not usable, or empty; likewise
 * @drops: by enum wire_verdict, received packets that no path could count
 */
struct ibr_port {
	struct ibr_device *device;
	u32 num;
	enum ibr_link_layer layer;
	u32 mtu;
	struct ibr_qp *ud;
	atomic_t breaks;
	struct list_head addrs;
	char reason[64];
	atomic64_t drops[WIRE_VERDICTS];
};

/** ibr_device_get() - Return: false: the device is being removed */
bool ibr_device_get(struct ibr_device *device);
void ibr_device_put(struct ibr_device *device);

/**
 * ibr_port_find() - the port with this number, usable or not
 * @ib: of which device
 * @num: number
 *
 * Return: port, with a reference to its device (ibr_port_put()), or NULL. Context: any but hardirq.
 */
struct ibr_port *ibr_port_find(struct ib_device *ib, u32 num);
/** ibr_port_find_gid() - the port that has this address; otherwise as ibr_port_find() */
struct ibr_port *ibr_port_find_gid(const u8 gid[16]);
void ibr_port_put(struct ibr_port *port);
/**
 * ibr_port_ud() - the port's datagram queue pair
 * @port: port, which the caller has a reference to
 *
 * Return: with a reference, or NULL. Context: any but hardirq.
 */
struct ibr_qp *ibr_port_ud(struct ibr_port *port);

/** struct ibr_area - DMA-mapped memory, cut into equal pieces that lie in chunks of pages */
struct ibr_area {
	struct ib_device *ib;
	enum dma_data_direction direction;
	u32 piece;			/* bytes */
	u32 per_chunk;			/* pieces */
	u32 chunks;
	struct ibr_chunk {
		void *memory;
		dma_addr_t dma;
	} *chunk;
};

/**
 * struct ibr_send_slot - a work request of the send queue
 * @slot: the part that the drive sees
 * @wr: what the adapter gets; connections use only its .wr ...
 * @write: ... unless it is an RDMA write
 * @sge: the header, and the fragments' payloads, which are mapped; of an RDMA write, the memory that it takes from
 * @writes: entries of @sge that are user memory, which is mapped; 0: it is no RDMA write
 * @dest: UD: where it goes, with a reference while posted
 */
struct ibr_send_slot {
	struct ibr_slot slot;
	union {
		struct ib_ud_wr wr;
		struct ib_rdma_wr write;
	};
	struct ib_sge sge[IBR_WRITE_SEGMENTS];
	int writes;
	struct ibr_dest *dest;
};

static_assert(1 + IBR_SLOT_PAYLOADS <= IBR_WRITE_SEGMENTS);

/** struct ibr_recv_slot - a receive buffer */
struct ibr_recv_slot {
	struct ib_recv_wr wr;
	struct ib_sge sge;
	void *data;
	u32 held;			/* length of a packet that came before its time, or 0 */
};

/* Bits of ibr_qp->state. */
#define IBR_QP_OWNED		0	/* somebody polls */
#define IBR_QP_AGAIN		1	/* the softirq was asked for meanwhile: ask again */
#define IBR_QP_STOPPING		2	/* it will not be rebuilt any more */

/**
 * struct ibr_qp - a queue pair
 * @ref: held by its connection (connect.c) or port, and by the path that uses it
 * @rcu: frees it, as busy pollers and event handlers may still see it
 * @link: in the list of all queue pairs that are open; RCU
 * @device: with a reference
 * @port: where it is
 * @path: that it belongs to, with a reference; NULL for UD
 * @type: IB_QPT_RC, IB_QPT_UC or IB_QPT_UD
 * @segments: places that a work request may take from
 * @packet_max: bytes of the longest packet that its buffers are made for
 * @grh: bytes before a received packet
 * @send_depth: work requests in the send queue, so slots; a power of two
 * @recv_depth: buffers in the receive queue
 * @credits: data packets that a peer may have on their way to it, 1 to IBR_CREDIT_PKTS
 * @qp: in the device; NULL until it is open
 * @number: of @qp, for those who do not own it; of datagrams, of the last one that was ready
 * @pkey_index: UD: place of the default partition's key in the port's table when it was made ready
 * @send_cq: completions of sends, under @lock
 * @recv_cq: completions of receives, the owner's
 * @token: what a packet must carry to count before the connection is confirmed; see @early
 * @secret: likewise
 * @early: called once, from the polling context, when such a packet came before ibr_qp_start()
 * @context: for @early; both are set before it is open
 * @state: bits IBR_QP_* of verbs.c; atomic
 * @armed: the receive queue will raise an event
 * @live: packets go up; before, they are held. Never taken back
 * @failed: negative errno; sticky until rebuilt
 * @spoilt: a completion queue has failed
 * @poll: the softirq
 * @rebuild_work: UD: brings one that has failed back
 * @reap_work: collects send completions that nobody else has come by for
 * @rebuilds: attempts of @rebuild_work that have failed in a row
 * @recvs: receive buffers, @recv_depth of them; from here on the owner's
 * @recv_area: their memory
 * @held: buffers with packets that came early, in order
 * @held_count: how many
 * @early_called: @early was called; connect.c looks at it without being the owner
 * @reported: it was said that the queue pair has failed
 * @rebuilt_at: UD: when it was brought back, jiffies (64 bits)
 * @pause_ms: ... until it is brought back next time, if it fails soon
 * @period: number of the period in which @senders are counted
 * @period_end: jiffies (64 bits)
 * @senders: UD: paths that have sent something in this period
 * @senders_before: ... and in the one before
 * @received: completions of the receive queue that have been dealt with
 * @recv_wc: room for polling
 * @lock: softirq-safe, inside a path's lock; covers the rest
 * @closed: nothing may be posted
 * @starved: the path waits for a slot
 * @starved_dests: UD: those that do (dest->starved)
 * @slots: send slots, @send_depth of them
 * @send_area: memory of their headers
 * @free: stack of free slots
 * @free_count: how many
 * @order: slots in the order of posting, a ring of @send_depth
 * @posted: work requests ever chained
 * @completed: ... and known complete
 * @unsignalled: work requests chained since the last one that will report
 * @holds: one of those holds a fragment
 * @reapable: number behind the last one that will report
 * @chain: work requests not handed over yet
 * @chain_last: the last of them; valid if there is one
 * @send_wc: room for polling
 *
 * The receive completion queue is polled by whoever owns it: bit IBR_QP_OWNED of @state; either the
 * softirq or a busy poller. It is armed again by whoever gives it up. Send completions are
 * collected under @lock by anybody who passes by; they raise an event only when the queue has run
 * full.
 */
struct ibr_qp {
	struct kref ref;
	struct rcu_head rcu;
	struct list_head link;
	struct ibr_device *device;	/* immutable from here ... */
	struct ibr_port *port;
	struct ibr_path *path;
	enum ib_qp_type type;
	u32 segments;
	u32 packet_max;
	u32 grh;
	u32 send_depth;
	u32 recv_depth;
	u16 credits;			/* ... to here */
	struct ib_qp *qp;
	u32 number;
	u16 pkey_index;
	struct ib_cq *send_cq;
	struct ib_cq *recv_cq;
	u32 token;
	u32 secret;
	void (*early)(void *context);
	void *context;

	unsigned long state;
	bool armed;
	bool live;
	int failed;
	bool spoilt;
	struct irq_poll poll;
	struct delayed_work rebuild_work;
	struct delayed_work reap_work;
	unsigned int rebuilds;

	/* of the owner of the receive queue */
	struct ibr_recv_slot *recvs;
	struct ibr_area recv_area;
	u16 *held;
	u32 held_count;
	bool early_called;
	bool reported;
	u64 rebuilt_at;
	unsigned int pause_ms;
	u32 period;
	u64 period_end;
	u32 senders;
	u32 senders_before;
	u32 received;
	struct ib_wc recv_wc[16];

	spinlock_t lock;		/* the rest */
	bool closed;
	bool starved;
	struct list_head starved_dests;
	struct ibr_send_slot *slots;
	struct ibr_area send_area;
	u16 *free;
	u32 free_count;
	u16 *order;
	u32 posted;
	u32 completed;
	u32 unsignalled;
	bool holds;
	u32 reapable;
	struct ib_send_wr *chain;
	struct ib_send_wr *chain_last;
	struct ib_wc send_wc[8];
};

/**
 * struct ibr_dest - UD: where a path's datagrams go
 * @ref: held by its path, its connection, each posted work request, and while starved
 * @device: with a reference; immutable
 * @path: with a reference; immutable
 * @ah: address handle of the peer's port; immutable
 * @qpn: number of the peer's queue pair; immutable
 * @starved: in qp->starved_dests, while the path waits for a slot; qp->lock
 * @free_work: frees it, because destroying an address handle may sleep
 */
struct ibr_dest {
	struct kref ref;
	struct ibr_device *device;
	struct ibr_path *path;
	struct ib_ah *ah;
	u32 qpn;
	struct list_head starved;
	struct work_struct free_work;
};

/**
 * ibr_qp_create() - a queue pair's memory and completion queues
 * @port: where
 * @path: whose, or NULL for UD
 * @type: which
 * @packet_max: bytes of the largest packet
 *
 * Return: queue pair, not yet made in the device, or ERR_PTR. Context: process.
 */
struct ibr_qp *ibr_qp_create(struct ibr_port *port, struct ibr_path *path, enum ib_qp_type type,
			     u32 packet_max);
/** ibr_qp_open_cm() - make it in the device for a connection, receives posted. Context: process */
int ibr_qp_open_cm(struct ibr_qp *qp, struct rdma_cm_id *id);
/** ibr_qp_open_ud() - make it in the device for datagrams, ready to send. Context: process */
int ibr_qp_open_ud(struct ibr_qp *qp);
/** ibr_qp_check_pkey() - datagrams: a port's table of keys may have changed. Context: any, not while it is stopped */
void ibr_qp_check_pkey(struct ibr_qp *qp);
/** ibr_qp_start() - the path has it: deliver what comes, and what has come. Context: process */
void ibr_qp_start(struct ibr_qp *qp);
/**
 * ibr_qp_stop() - take it out of the device; afterwards nothing of it runs and no memory is referenced
 * @qp: queue pair, open or not; one that was stopped before is left alone
 *
 * Context: process; no path may still use it.
 */
void ibr_qp_stop(struct ibr_qp *qp);
void ibr_qp_get(struct ibr_qp *qp);
/** ibr_qp_put() - Context: any */
void ibr_qp_put(struct ibr_qp *qp);
/**
 * ibr_qp_drain() - have everything delivered that is in a receive queue by now
 * @qp: queue pair
 *
 * Returns at once if the queue pair is stopped: then nothing of it is delivered any more. Context: process, may sleep.
 */
void ibr_qp_drain(struct ibr_qp *qp);

/** ibr_qps_poll() - poll every receive queue that nobody polls. Return: completions found */
int ibr_qps_poll(void);
/** ibr_qp_probe() - can the device make this type? Context: process */
bool ibr_qp_probe(struct ib_device *ib, struct ib_pd *pd, enum ib_qp_type type);

/** ibr_dest_create() - Return: destination or ERR_PTR. Context: process */
struct ibr_dest *ibr_dest_create(struct ibr_port *port, struct ibr_path *path,
				 struct rdma_ah_attr *attr, u32 qpn);
void ibr_dest_get(struct ibr_dest *dest);
/** ibr_dest_put() - Context: any; NULL is fine */
void ibr_dest_put(struct ibr_dest *dest);

/* What the ops of the transports do with a queue pair; @dest: datagrams: where they go. Contexts as in transport.h. */
struct ibr_slot *ibr_qp_slot(struct ibr_qp *qp, struct ibr_dest *dest);
void ibr_qp_post(struct ibr_qp *qp, struct ibr_slot *slot, u32 length);
/**
 * ibr_qp_write() - likewise: an RDMA write with an immediate value
 * @qp: of a connection
 * @slot: free slot; its header is not used
 * @segment: user memory, resident until the work request is complete: the transport tells by ibr_umem_read_end()
 * @segments: 1 to @qp->segments
 * @address: where to, as the peer has said
 * @key: likewise
 * @immediate: for the peer
 * @frag: of a send whose memory it is; the transport takes a reference for the life of the work request
 *
 * Errors are reported by ibr_path_broken(), later.
 */
void ibr_qp_write(struct ibr_qp *qp, struct ibr_slot *slot, const struct bio_vec *segment, int segments, u64 address,
		  u32 key, u32 immediate, struct ibr_frag *frag);
void ibr_qp_flush(struct ibr_qp *qp);

/* The ops themselves, for the path's own queue pair. */
struct ibr_slot *ibr_verbs_slot(struct ibr_path *path);
void ibr_verbs_post(struct ibr_path *path, struct ibr_slot *slot, u32 length);
struct ibr_qp *ibr_verbs_rdma(struct ibr_path *path);
void ibr_verbs_flush(struct ibr_path *path);
/* Likewise, to the path's destination. */
void ibr_ud_post(struct ibr_path *path, struct ibr_slot *slot, u32 length);

#endif /* IBR_VERBS_H */
