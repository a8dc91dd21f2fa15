/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Paths: one way from a local port to a remote one, in one mode. A path owns a connection of the
 * reliability engine, its transport (a queue pair), the queues of fragments, and the flows that use
 * it. It outlives its queue pair: a broken one is rebuilt, and what was in flight is sent again.
 */
#ifndef IBR_PATH_H
#define IBR_PATH_H

#include <linux/hrtimer.h>
#include <linux/kref.h>
#include <linux/mutex.h>
#include <linux/rhashtable.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/types.h>
#include <linux/uidgid.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>
#include <ibrelk/uapi.h>
#include "device.h"
#include "lane.h"
#include "reliability/rel.h"

#define IBR_INFLOWS_MAX		(128u << 10)	/* incoming flows of a path; of a user no more than are left */
#define IBR_OPENINGS_MAX	(128u << 10)	/* outgoing ones that are being opened; likewise */
#define IBR_DEAF_MS		1500ull	/* silence after which the connection is made anew */
#define IBR_LOOK_MS		5000ull	/* without a word from a peer: does anything wait for it? */

struct loop;
struct ibr_frag;
struct ibr_slot;
struct ibr_transport;
struct ibr_qp;
struct ibr_cm;
struct ibr_port;
struct ibr_endpoint;

/** struct ibr_path_key - what identifies a path on this node */
struct ibr_path_key {
	u8 local_gid[16];
	u8 remote_gid[16];
	u32 mode;
};

/* 127.0.0.0/8 (mapped) and ::1 name this node without any adapter: such paths are always loop paths. */
static inline bool ibr_gid_loopback(const u8 gid[16])
{
	static const u8 mapped[12] = { [10] = 0xff, [11] = 0xff };
	static const u8 one[16] = { [15] = 1 };

	return (!memcmp(gid, mapped, sizeof(mapped)) && gid[12] == 127) || !memcmp(gid, one, sizeof(one));
}

/** struct ibr_remote - what the handshake told about the other side */
struct ibr_remote {
	u8 instance[16];
	u32 token;			/* goes into our packets */
	u32 secret;			/* checksum seed, both directions */
	u16 credits;
	u16 packet_max;			/* bytes; the smaller of both sides and the path MTU */
	u16 packet_said;		/* what the peer said of it */
};

/** struct ibr_share - the flows of a path whose endpoints one user has; as a rule there are some. Under path->lock */
struct ibr_share {
	struct list_head node;		/* in path->shares */
	kuid_t user;
	u32 inflows;
	u32 openings;			/* outflows that are OPENING */
};

/**
 * struct ibr_packet - fragments that are going to travel together
 * @slot: of the send queue; NULL: there is no packet
 * @first: the fragments, chained by ibr_frag.next
 * @last: the last of them
 * @kind: of all of them
 * @frames: how many they are
 * @bytes: of the slot in use: headers and short payloads
 * @apart: payloads that travel from where they lie, and all that have some behind the first of these
 * @apart_bytes: of them
 */
struct ibr_packet {
	struct ibr_slot *slot;
	struct ibr_frag *first;
	struct ibr_frag *last;
	enum rel_kind kind;
	u16 frames;
	u16 bytes;
	u16 apart;
	u16 apart_bytes;
};

/**
 * struct ibr_path - see Documentation/locking.rst
 * @ref: held by the table, by each flow half that uses the path, by the queue pair of a connection, by
 *	each destination (UD), by connecting, and by whoever uses it for a moment
 * @node: in the table by @key
 * @token_node: in the table by @token, if @hashed
 * @all: in the list of paths, under the table's lock
 * @used: when somebody last asked the table for it, jiffies; under the table's lock
 * @rcu: frees it, as who looks a token up may still see it
 * @key: immutable
 * @hash_seed: of @inflow_hash, random; immutable
 * @token: what packets to us carry; changes only with a new life, under both locks, so either is enough to read it
 * @transport: by @key; immutable
 * @fabric: what carries the packets; immutable
 * @native: mode in which data is sent once and may be lost; immutable
 * @asked: made because a peer asked; immutable
 * @loop: of a loop path: its queue (loop.c); immutable
 * @connect_lock: serialises connecting and disconnecting; taken before @lock
 * @cm: attempts under way and connection, or NULL; connect.c's, as is the lock of the pointer
 * @connect_tries: connections that could not be begun for want of memory, one after the other; @connect_lock
 * @connect_work: connects, reconnects or tears down; only path.c queues it
 * @lock: the connection lock; softirq-safe. Covers everything below it but what says otherwise
 * @state: enum ibrelk_path_state
 * @removed: unreachable: module, device or address is going. Never taken back; may be read without the lock
 * @established: @rel is initialised: there is a peer
 * @remote: the peer, by the last handshake
 * @qp: with a reference; NULL: no queue pair. UD: the port's
 * @transport_data: transport's own (UD: struct ibr_dest, with a reference; loop: @loop)
 * @rel: the engine
 * @lane: mode auto: a UC queue pair beside @qp
 * @ring: of @rel, while it has sent something lately; else NULL
 * @timer: wakes the drive up for what the engine waits for, and when @starved
 * @timer_at: when it runs out, ns, or REL_TIME_NEVER
 * @share: packets that the peer may have on their way, by the queue pair that the last one came by
 * @share_period: of the owner of the datagram queue pair's receive queue
 * @look_at: when to look whether somebody waits for a peer that says nothing, ns, or REL_TIME_NEVER
 * @payload_max: most payload with one frame, bytes
 * @now: time of the call that is running, ns, as ktime_get_ns()
 * @packet: being assembled, while the drive runs; drive.c
 * @starved: an allocation failed: the timer tries again
 * @held: what waits for others, in bytes of packets that it fills; ibr_path_hold()
 * @held_messages: how many of them came since ibr_path_drive_soon() was called last
 * @held_until: ns: when it is driven, if nothing else drives it before; 0: nothing waits for that
 * @doomed: negative errno: this life is to end; drive does it. Else 0
 * @broken_since: ns; 0: not broken
 * @up_since: time of the last handshake, ns
 * @renew: the next handshake needs a new token
 * @hashed: found by token
 * @error: last error, negative errno, or 0
 * @control: fragments with control frames: sent first
 * @repeat: fragments to be sent again: second
 * @opening: outflows that are to be asked for (outflow->ready)
 * @ready: outflows with messages to send (outflow->ready)
 * @patient: ... whose next message waits a little for eager credit; by outflow->patient_until
 * @bulk: sends with a window to fill (send->bulk)
 * @opening_turns: requests for flows that have their turn before messages do
 * @flow_turns: flows that have their turn before windows do
 * @bulk_turns: fragments of windows that have theirs in this round; drive.c
 * @outflows: those that are OPENING or OPEN (outflow->on_path)
 * @inflows: those that are not gone (inflow->on_path)
 * @inflow_hash: the same, by what the opener calls them
 * @inflow_count: how many; at most IBR_INFLOWS_MAX
 * @opening_count: outflows that are OPENING; at most IBR_OPENINGS_MAX
 * @shares: both of each user
 * @flow_count: ... with the outflows
 * @queue: fragments in @control and @repeat
 * @queue_peak: the most that it ever was
 * @memory: bytes of payload in flight, reliable packets only
 * @memory_peak: the most that it ever was
 * @written: windows that the peer may write to, by name
 * @written_next: where the search for a free name goes on
 * @fence: the last one that was told (transfer_fence()); not 0 then
 * @handles: wire handle -> flow, send or transfer
 * @handle_next: where the search for a free one goes on
 * @counters: of all lives, but without what @rel has counted in this one
 */
struct ibr_path {
	struct kref ref;
	struct rhash_head node;
	struct rhash_head token_node;
	struct list_head all;
	unsigned long used;
	struct rcu_head rcu;
	struct ibr_path_key key;
	u32 hash_seed;
	u32 token;
	const struct ibr_transport *transport;
	enum ibr_fabric fabric;
	bool native;
	bool asked;
	struct loop *loop;

	struct mutex connect_lock;		/* connecting */
	struct ibr_cm *cm;
	u32 connect_tries;
	struct delayed_work connect_work;

	spinlock_t lock;			/* the rest */
	enum ibrelk_path_state state;
	bool removed;
	bool established;
	struct ibr_remote remote;
	struct ibr_qp *qp;
	void *transport_data;
	struct ibr_lane lane;
	struct rel_conn rel;
	struct rel_sent *ring;
	struct hrtimer timer;
	u64 timer_at;
	u64 look_at;
	u32 payload_max;
	u16 share;
	u32 share_period;

	u64 now;
	struct ibr_packet packet;
	bool starved;
	u32 held;
	u32 held_messages;
	u64 held_until;
	int doomed;
	u64 broken_since;
	u64 up_since;
	bool renew;
	bool hashed;
	int error;

	struct list_head control;
	struct list_head repeat;
	struct list_head opening;
	struct list_head ready;
	struct list_head patient;
	struct list_head bulk;
	u32 opening_turns;
	u32 flow_turns;
	u32 bulk_turns;
	struct list_head outflows;
	struct list_head inflows;
	struct hlist_head inflow_hash[256];
	u32 inflow_count;
	u32 opening_count;
	struct list_head shares;
	u32 flow_count;
	u32 queue;
	u32 queue_peak;
	u64 memory;
	u64 memory_peak;
	struct ibr_window *written[WIRE_CTS_NAMES];
	u32 written_next;
	u32 fence;
	struct xarray handles;
	u32 handle_next;
	struct ibrelk_counters counters;
};

/* ---- what flows, connect.c and transports use (path.c, drive.c) ---- */

/** ibr_path_find_key() - find the path. Return: path with a reference, or NULL: there is none. Context: process */
struct ibr_path *ibr_path_find_key(const struct ibr_path_key *key);

/**
 * ibr_path_get_key() - find the path, or make it (state DOWN)
 * @key: both addresses and the mode
 * @asked: a peer asks for it, for whom there are at most so many
 *
 * Return: path with a reference, or ERR_PTR(-ENOMEM; -ENODEV: no port has that GID or the queue pair
 * type, a peer asks for one that leads back to this node, or the module is going; -EHOSTUNREACH:
 * both ends are the same address, which only loop and UD can do; -EUSERS: there are as many as peers
 * may make). Context: process.
 */
struct ibr_path *ibr_path_get_key(const struct ibr_path_key *key, bool asked);
/** ibr_path_find_token() - the live path with this token, or NULL. Context: RCU read side */
struct ibr_path *ibr_path_find_token(u32 token);
void ibr_path_get(struct ibr_path *path);
void ibr_path_put(struct ibr_path *path);

/**
 * ibr_path_receive() - a packet has arrived (from the transport)
 * @path: for which
 * @packet: 8-byte aligned, without GRH; the caller may reuse it on return
 * @length: bytes
 * @qp: by which it came; NULL: loop
 * @share: packets of this peer for which there is room in its receive queue, 1 to IBR_CREDIT_PKTS
 *
 * Parses, feeds the engine, delivers. Does not send anything: call ibr_path_drive() once per batch.
 * Context: softirq or BH disabled; takes the connection lock.
 */
void ibr_path_receive(struct ibr_path *path, const void *packet, u32 length, const struct ibr_qp *qp, u16 share);

/**
 * ibr_path_written() - the peer has written to a window (from the transport)
 * @path: whose
 * @immediate: as it came (wire.h)
 * @length: bytes that were written
 * @qp: by which
 *
 * Context: as ibr_path_receive().
 */
void ibr_path_written(struct ibr_path *path, u32 immediate, u32 length, const struct ibr_qp *qp);

/** ibr_path_count_early() - what cannot be known yet was dropped. Context: as ibr_path_receive() */
void ibr_path_count_early(struct ibr_path *path);

/** ibr_path_drive() - send what can be sent, acknowledge, arm the timer. Context: any but hardirq */
void ibr_path_drive(struct ibr_path *path);

/**
 * ibr_path_drive_soon() - the same after messages were queued, but not at once, if all of them may wait
 * @path: path
 *
 * Eager messages of a stream may (ibr_path_hold()), for coalesce_us, while packets are unacknowledged, and until they
 * fill some packets. Whatever else drives the path sends them. After Nagle (RFC 896), but per flow and with a bound.
 *
 * Context: any but hardirq
 */
void ibr_path_drive_soon(struct ibr_path *path);

/**
 * ibr_path_connected() - the handshake succeeded (from connect.c, @connect_lock held)
 * @path: which has no queue pair now
 * @remote: what the peer said; copied
 * @qp: queue pair in RTS for this path; the path takes over the caller's reference. (UD: the port's shared one;
 *	loop: NULL)
 * @transport_data: likewise
 *
 * If @remote->instance or ->token is not the one known so far (peer restarted, or ended its life of the path),
 * the old life ends: its flows, but those that are only being opened, fail with -ECONNRESET. Else the path goes
 * on where it was.
 *
 * Return: true; false: this side's life has ended since the peer was told its token (or does so now, because
 * packets have become smaller): nothing was taken over, and there must be another handshake, which has been asked
 * for if anything waits. Context: process.
 */
bool ibr_path_connected(struct ibr_path *path, const struct ibr_remote *remote, struct ibr_qp *qp,
			void *transport_data);

/**
 * ibr_path_renew_token() - before each handshake, whoever began it
 * @path: whose; nothing is done unless @path->renew
 *
 * A life that ended on this side alone must not be taken for the same one by the peer: the next
 * handshake presents a new token.
 *
 * Return: 0, or -errno: the path has none, and cannot connect. Context: process, path->connect_lock held.
 */
int ibr_path_renew_token(struct ibr_path *path);

/** ibr_path_failed() - the attempt failed for good: messages that wait complete with @error. Context: process */
void ibr_path_failed(struct ibr_path *path, int error);

/**
 * ibr_path_broken() - the queue pair died or the peer left (from CM events, completions in error)
 * @path: whose
 * @qp: the one meant, so that news of an earlier one is ignored
 * @error: why, negative errno
 *
 * Schedules reconnection, which happens if something waits to be sent. Context: any but hardirq.
 */
void ibr_path_broken(struct ibr_path *path, struct ibr_qp *qp, int error);

/**
 * ibr_path_detach() - take the queue pair away from a path; nothing will post to it afterwards
 * @path: whose; one that is UP is BROKEN then
 * @transport_data: set to the path's, or to NULL if it has none; its reference goes to the caller
 *
 * Return: the queue pair with the path's reference, or NULL. Context: process.
 */
struct ibr_qp *ibr_path_detach(struct ibr_path *path, void **transport_data);

/** ibr_path_want() - something waits to be sent: connect if need be. Context: path->lock held */
void ibr_path_want(struct ibr_path *path);
/** ibr_path_reset() - end this life: all that is on the path fails with @error. Context: path->lock held */
void ibr_path_reset(struct ibr_path *path, int error);
/** ibr_path_give_up() - the same for a path that may be up. Context: path->lock held */
void ibr_path_give_up(struct ibr_path *path, int error);
/** ibr_path_look() - ask a peer of whom nothing was heard if somebody waits for it. Context: path->lock held */
void ibr_path_look(struct ibr_path *path);
/** ibr_path_overdue() - has the peer owed an answer for longer than it may? Context: path->lock held */
bool ibr_path_overdue(const struct ibr_path *path);
/** ibr_path_mourn() - say in the log what is known of a peer that is given up. Context: path->lock held */
void ibr_path_mourn(const struct ibr_path *path);
/** ibr_path_suspect() - nothing was heard for IBR_DEAF_MS: look whether the peer is there. Context: path->lock held */
void ibr_path_suspect(struct ibr_path *path);
/**
 * ibr_paths_break() - what paths have agreed with their peers does not hold any more: they have to do it anew
 * @port: all that are up by a queue pair of this one, or come up by what was told before (its breaks)
 * @qp: ... or only by this queue pair; NULL: any
 * @error: why, negative errno
 *
 * Context: process.
 */
void ibr_paths_break(struct ibr_port *port, const struct ibr_qp *qp, int error);
/** ibr_paths_drop_endpoint() - end every incoming flow of an endpoint, and say so. Context: process */
void ibr_paths_drop_endpoint(const struct ibr_endpoint *endpoint);
/** ibr_paths_dump() - fill up to @max entries. Return: how many paths exist. Context: process */
u32 ibr_paths_dump(struct ibrelk_path_info *info, u32 max);
/** ibr_path_add_engine() - add what the engine has counted in this life (stats.c). Context: path->lock held */
void ibr_path_add_engine(const struct ibr_path *path, struct ibrelk_counters *counters);
/** ibr_path_info() - one entry (stats.c) */
void ibr_path_info(struct ibr_path *path, struct ibrelk_path_info *info);
/** ibr_peer_timeout_ns() - see the module parameter peer_timeout_ms */
u64 ibr_peer_timeout_ns(void);

/** ibr_paths_remove_port() - the port goes away: fail and tear down every path on it, and wait. Context: process */
void ibr_paths_remove_port(const u8 gid[16]);

/**
 * ibr_paths_prune() - remove paths that nobody uses
 * @idle: jiffies since somebody last asked for the path
 *
 * A request makes a path before it is known whether anything will come of it. One that is down and has neither
 * a peer nor a flow goes again, or requests from many addresses would fill the memory; so does one that leads back to
 * this node, which has many addresses for itself. Called now and then.
 * Context: process.
 */
void ibr_paths_prune(unsigned long idle);

int ibr_path_init(void);
void ibr_path_exit(void);

extern struct workqueue_struct *ibr_wq;	/* for everything that must be over before the module goes */
extern u8 ibr_instance[16];		/* this module life */
extern u32 ibr_paths_asked_max;		/* paths that there may be because peers asked; tests make it smaller */

/* A flow more: from now on ibr_path_look() is called. Context: path->lock held. */
static inline void ibr_path_add_flow(struct ibr_path *path)
{
	if (!path->flow_count++)
		path->look_at = min(path->look_at, ktime_get_ns() + IBR_LOOK_MS * NSEC_PER_MSEC);
}

#endif /* IBR_PATH_H */
