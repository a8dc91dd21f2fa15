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

struct ibr_path;
struct ibr_port;
struct rdma_cm_id;

#define IBR_PACKET_MIN		256	/* smallest packet_max that a path can work with */
#define IBR_PACKET_MAX		4096	/* largest: one packet of the largest path MTU */
#define IBR_QKEY		0xc1b5e1cdu	/* top bit set: only kernels may use it */

/**
 * struct ibr_device - an RDMA device in use
 * @ib: the device
 * @pd: protection domain of everything on it
 * @types: bit (1 << IB_QPT_...) for each queue pair type that it can make
 * @users: one for being registered, one for each queue pair and address handle
 * @idle: completed when @users is 0
 */
struct ibr_device {
	struct ib_device *ib;		/* immutable from here ... */
	struct ib_pd *pd;
	u32 types;
	u32 port_count;
	struct ibr_port *ports;		/* ... to here */
	refcount_t users;
	struct completion idle;
	struct list_head link;		/* in device.c's table, under its lock */
	struct mutex refresh_lock;	/* one refresh at a time */
	bool removing;			/* @refresh_lock */
	struct delayed_work refresh_work;
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
 * @ud: its datagram queue pair, or NULL; changes under device.c's table lock
 * @addrs: its addresses, likewise
 * @mtu: bytes of one packet's payload, likewise
 * @reason: why it is not usable, or empty; likewise
 * @drops: by enum wire_verdict, received packets that no path could count
 */
struct ibr_port {
	struct ibr_device *device;	/* immutable */
	u32 num;			/* immutable */
	enum ibr_link_layer layer;	/* immutable */
	u32 mtu;
	struct ibr_qp *ud;
	struct list_head addrs;
	char reason[64];
	atomic64_t drops[WIRE_VERDICTS];
};

/** ibr_device_get() - Return: false: the device is being removed */
bool ibr_device_get(struct ibr_device *device);
void ibr_device_put(struct ibr_device *device);

/**
 * ibr_port_find() - the usable port with this number
 * Return: port, with a reference to its device (ibr_port_put()), or NULL. Context: any but hardirq.
 */
struct ibr_port *ibr_port_find(struct ib_device *ib, u32 num);
/** ibr_port_find_gid() - the port that has this address; otherwise as ibr_port_find() */
struct ibr_port *ibr_port_find_gid(const u8 gid[16]);
void ibr_port_put(struct ibr_port *port);
/**
 * ibr_port_ud() - the port's datagram queue pair
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
 * @frag_dma: mapping of the fragment's payload, if there is one
 * @dest: UD: where it goes, with a reference while posted
 */
struct ibr_send_slot {
	struct ibr_slot slot;
	struct ib_ud_wr wr;
	struct ib_sge sge[2];
	dma_addr_t frag_dma;
	u32 frag_len;
	struct ibr_dest *dest;
};

/** struct ibr_recv_slot - a receive buffer */
struct ibr_recv_slot {
	struct ib_recv_wr wr;
	struct ib_sge sge;
	void *data;
	u32 held;			/* length of a packet that came before its time, or 0 */
};

/**
 * struct ibr_qp - a queue pair
 * @ref: held by its connection (connect.c) or port, and by the path that uses it
 * @path: that it belongs to, with a reference; NULL for UD
 * @token: what a packet must carry to count before the connection is confirmed; see @early
 * @secret: likewise
 * @early: called once, from the polling context, when such a packet came before ibr_qp_start()
 *
 * The receive completion queue is polled by whoever owns it: bit IBR_QP_OWNED of @state; either the
 * softirq or a busy poller. It is armed again by whoever gives it up. Send completions are
 * collected under @lock by anybody who passes by; they raise an event only when the queue has run
 * full.
 */
struct ibr_qp {
	struct kref ref;
	struct rcu_head rcu;
	struct list_head link;		/* all queue pairs; RCU */
	struct ibr_device *device;	/* immutable from here ... */
	struct ibr_port *port;
	struct ibr_path *path;
	enum ib_qp_type type;
	u32 packet_max;
	u32 grh;			/* bytes before a received packet */
	u32 send_depth;
	u32 recv_depth;			/* ... to here */
	struct ib_qp *qp;
	struct ib_cq *send_cq;
	struct ib_cq *recv_cq;
	u32 token;
	u32 secret;
	void (*early)(void *context);
	void *context;

	unsigned long state;
	bool armed;			/* the receive queue will raise an event */
	bool live;			/* packets go up */
	int failed;			/* negative errno; sticky until rebuilt */
	struct irq_poll poll;
	struct work_struct rebuild_work;
	struct delayed_work reap_work;
	unsigned int rebuilds;

	/* of the owner of the receive queue */
	struct ibr_recv_slot *recvs;
	struct ibr_area recv_area;
	u16 *held;			/* buffers with packets that came early, in order */
	u32 held_count;
	bool early_called;
	bool reported;
	struct ib_wc recv_wc[16];

	spinlock_t lock;		/* softirq-safe, inside a path's lock; covers the rest */
	bool closed;			/* nothing may be posted */
	bool starved;			/* the path waits for a slot */
	struct list_head starved_dests;	/* UD: those that do */
	struct ibr_send_slot *slots;
	struct ibr_area send_area;
	u16 *free;			/* stack of free slots */
	u32 free_count;
	u16 *order;			/* slots in the order of posting */
	u32 posted;			/* work requests ever chained */
	u32 completed;			/* ... and known complete */
	u32 unsignalled;		/* since the last one that will report */
	bool holds;			/* one of those holds a fragment */
	u32 reapable;			/* number behind the last one that will report */
	struct ib_send_wr *chain;	/* not handed over yet */
	struct ib_send_wr *chain_last;
	struct ib_wc send_wc[8];
};

/**
 * struct ibr_dest - UD: where a path's datagrams go
 * @ref: held by its path, its connection, each posted work request, and while starved
 */
struct ibr_dest {
	struct kref ref;
	struct ibr_device *device;
	struct ibr_path *path;		/* with a reference */
	struct ib_ah *ah;
	u32 qpn;
	struct list_head starved;	/* qp->lock */
	struct work_struct free_work;
};

/**
 * ibr_qp_create() - a queue pair's memory and completion queues
 * @port: where
 * @path: whose, or NULL for UD
 * @type: which
 * @packet_max: bytes of the largest packet
 * Return: queue pair, not yet made in the device, or ERR_PTR. Context: process.
 */
struct ibr_qp *ibr_qp_create(struct ibr_port *port, struct ibr_path *path, enum ib_qp_type type,
			     u32 packet_max);
/** ibr_qp_open_cm() - make it in the device for a connection, receives posted. Context: process */
int ibr_qp_open_cm(struct ibr_qp *qp, struct rdma_cm_id *id);
/** ibr_qp_open_ud() - make it in the device for datagrams, ready to send. Context: process */
int ibr_qp_open_ud(struct ibr_qp *qp);
/** ibr_qp_start() - the path has it: deliver what comes, and what has come. Context: process */
void ibr_qp_start(struct ibr_qp *qp);
/**
 * ibr_qp_stop() - take it out of the device; afterwards nothing of it runs and no memory is
 * referenced May be called twice. Context: process; no path may still use it
 */
void ibr_qp_stop(struct ibr_qp *qp);
void ibr_qp_get(struct ibr_qp *qp);
/** ibr_qp_put() - Context: any */
void ibr_qp_put(struct ibr_qp *qp);
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

/* The ops that the transports share; contexts as in transport.h. */
struct ibr_slot *ibr_verbs_slot(struct ibr_path *path);
void ibr_verbs_post(struct ibr_path *path, struct ibr_slot *slot, u32 length,
		    struct ibr_frag *frag);
void ibr_verbs_flush(struct ibr_path *path);

#endif /* IBR_VERBS_H */
