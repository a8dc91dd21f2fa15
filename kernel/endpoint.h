/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Endpoints: what a process opened. An endpoint has two rings, a match table, and a flow for each
 * remote endpoint that it knows.
 */
#ifndef IBR_ENDPOINT_H
#define IBR_ENDPOINT_H

#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/rbtree.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/uidgid.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>
#include <ibrelk/uapi.h>
#include "match.h"

#define IBR_SOURCES_MAX		(256u << 10)	/* remote endpoints that make contact with one, by themselves */
#define IBR_PEERS_MAX		(1024u << 10)	/* ... that its user adds */

struct ibr_path;
struct ibr_ring;
struct ibr_space;
struct ibr_umem;
struct file;
struct gen_pool;
struct poll_table_struct;

/**
 * struct ibr_endpoint - see Documentation/locking.rst
 * @ref: held by the descriptor (by lingering after that), by each of its flows, and by each receive
 * @id: its number, never 0
 * @generation: random and not 0; tells it from others that have had the same number
 * @mode: enum ibrelk_mode; never the default, which creation has replaced
 * @job: hashed job key; a flow needs the same one at both ends
 * @uid: effective user of who made it; decides who sees it in statistics
 * @user: whose endpoints it is one of, as struct ibr_user tells users apart
 * @pid: process that made it, as seen in its own namespace; 0 (not immutable) once the descriptor is closed
 * @local: .gid: address to which it is bound, zero: any. The other members are what was asked for: use @id and
 *	@generation
 * @space: memory of the process that made it; NULL (not immutable, under @lock) once the descriptor is closed
 * @send_ring: where sends complete, with a reference
 * @recv_ring: where receives complete, and cancellations; with a reference, maybe to the same ring
 * @memcg: memory cgroup of the process that made it, which pays for what waits here; with a reference, maybe NULL
 * @sends_max: how many sends may be outstanding
 * @recvs_max: how many receives may be
 * @unexpected_max: bytes of memory for messages that wait for a receive, and so the sum of all grants
 * @setup_lock: making outflows, and letting go of them: covers the writing of contact->out
 * @contacts: peer handle -> contact; its own lock. A contact stays until the endpoint is freed
 * @sends: sends outstanding; a send counts until it is freed, so until all its fragments are let go too
 * @recvs: completions of accepted receives that are not in the ring yet, also those of messages that a multi-receive
 *	may still take
 * @buffers: buffers of the process that something may still be read from, or written to: of receives, of sends that are
 *	not copied, and of answers
 * @quiet: whoever closes it waits here until there are none
 * @tx_messages: sends accepted
 * @tx_bytes: ... and their bytes
 * @tx_remote: puts, gets and atomics among them
 * @answer_bytes: copies of what was got from the process, on their way out; at most @unexpected_max
 * @bounced_bytes: bytes, sent or received, that went through a bounce buffer
 * @free_work: frees it, because the last reference may go where nobody can sleep
 * @linger_work: after closing: looks whether what was buffered has gone out, and in the end drops the
 *	descriptor's reference
 * @linger_until: after closing: when that is cut short, jiffies64
 * @pool: memory of unexpected messages; lockless allocator
 * @pool_next: where ibr_pool_find() goes on; any value will do
 * @pool_memory: what it allocates from, @unexpected_max bytes
 * @all: in the list of endpoints, open and lingering ones, under its mutex
 * @lock: softirq-safe; covers all that follows it. Inside a path's lock; only those of @contacts and @claims, and
 *	of @recv_ring, are taken inside it
 * @open: the descriptor is still open; once it is not, nothing is matched any more
 * @contact_tree: contacts by address, in any order that is the same for all
 * @flow_count: contacts, which is what statistics give out as flows
 * @learned: contacts that the user did not ask for; at most IBR_SOURCES_MAX, and IBR_PEERS_MAX others
 * @sources: incoming flows, until the last message of each is gone; at most IBR_SOURCES_MAX
 * @headers_granted: waiting RTS granted to flows; at most IBR_HEADERS_MAX, and one for each flow
 * @unexpected_granted: sum of the flows' outstanding grants, cost bytes; at most @unexpected_max
 * @unexpected_bytes: cost bytes of the eager messages that wait for a receive, or are claimed
 * @unexpected_bytes_peak: the most that it ever was
 * @counters: only rx_messages, rx_bytes, rx_remote and unexpected_messages; the others are the atomic ones above
 * @match: posted receives and waiting messages
 * @claims: claimed messages, by the number that the user knows; erased under @lock
 * @claimed: how many there are
 * @claim_next: number of the next
 */
struct ibr_endpoint {
	struct kref ref;
	u32 id;				/* immutable from here ... */
	u32 generation;
	u32 mode;
	u64 job;
	kuid_t uid;
	kuid_t user;
	pid_t pid;
	struct ibrelk_addr local;
	struct ibr_space *space;
	struct ibr_ring *send_ring;
	struct ibr_ring *recv_ring;
	struct mem_cgroup *memcg;
	u32 sends_max;
	u32 recvs_max;
	u64 unexpected_max;		/* ... to here */
	struct mutex setup_lock;	/* making outflows */
	struct xarray contacts;
	atomic_t sends;
	atomic_t recvs;
	atomic_t buffers;
	wait_queue_head_t quiet;
	atomic64_t tx_messages;
	atomic64_t tx_bytes;
	atomic64_t tx_remote;
	atomic64_t answer_bytes;
	atomic64_t bounced_bytes;
	struct work_struct free_work;
	struct delayed_work linger_work;
	u64 linger_until;
	struct gen_pool *pool;
	unsigned long pool_next;
	void *pool_memory;
	struct list_head all;

	spinlock_t lock;		/* the rest */
	bool open;
	struct rb_root contact_tree;
	u32 flow_count;
	u32 learned;
	u32 sources;
	u32 headers_granted;
	u64 unexpected_granted;
	u64 unexpected_bytes;
	u64 unexpected_bytes_peak;
	struct ibrelk_counters counters;
	struct match match;
	struct xarray claims;
	u32 claimed;
	u32 claim_next;
};

/** ibr_endpoint_create() - IBRELK_IOC_ENDPOINT_CREATE without the descriptor. Return: endpoint or ERR_PTR */
struct ibr_endpoint *ibr_endpoint_create(struct ibrelk_endpoint_create *create);

/**
 * ibr_endpoint_close() - the descriptor is gone: cancel receives, abort pinned sends, let buffered sends linger
 * @endpoint: endpoint; the descriptor's reference is taken over
 *
 * Returns when nothing reads or writes the memory of the process that made it any more, if that one calls and is not
 * killed meanwhile. Context: process.
 */
void ibr_endpoint_close(struct ibr_endpoint *endpoint);

/** ibr_endpoint_find() - open endpoint with this number, with a reference, or NULL. Context: any */
struct ibr_endpoint *ibr_endpoint_find(u32 id);
/** ibr_endpoint_serves() - may it be reached by this path? Context: any */
bool ibr_endpoint_serves(const struct ibr_endpoint *endpoint, const struct ibr_path *path);
void ibr_endpoint_get(struct ibr_endpoint *endpoint);
void ibr_endpoint_put(struct ibr_endpoint *endpoint);

/**
 * ibr_endpoint_send() - accept one validated command: a send, a put or a get
 * @endpoint: endpoint
 * @command: command
 * @undriven: where the batch keeps what ibr_endpoint_flush() gets at its end; NULL before the first send
 *
 * Return: 0 accepted; 1 no room now (stop the batch, nothing happened); -errno wrong (nothing happened).
 * Context: process.
 */
int ibr_endpoint_send(struct ibr_endpoint *endpoint, const struct ibrelk_command *command,
		      struct ibr_path **undriven);
/* Likewise the others, which are in recv.c. Return, Context: as ibr_endpoint_send(). */
/** ibr_endpoint_recv() - post a receive */
int ibr_endpoint_recv(struct ibr_endpoint *endpoint, const struct ibrelk_command *command);
/** ibr_endpoint_recv_multi() - post a receive of many messages */
int ibr_endpoint_recv_multi(struct ibr_endpoint *endpoint, const struct ibrelk_command *command);
/** ibr_endpoint_recv_claimed() - receive a message that was claimed */
int ibr_endpoint_recv_claimed(struct ibr_endpoint *endpoint, const struct ibrelk_command *command);
/** ibr_endpoint_cancel() - cancel receives by their user data */
int ibr_endpoint_cancel(struct ibr_endpoint *endpoint, const struct ibrelk_command *command);
/** ibr_endpoint_probe() - look for a message that waits, and, if the command is a CLAIM, claim it */
int ibr_endpoint_probe(struct ibr_endpoint *endpoint, const struct ibrelk_command *command);
/** ibr_endpoint_discard() - throw away a message that was claimed */
int ibr_endpoint_discard(struct ibr_endpoint *endpoint, const struct ibrelk_command *command);

/** ibr_endpoint_buffer_begin() - there is one more to wait for; ends with ibr_endpoint_buffer_end(). Context: any */
void ibr_endpoint_buffer_begin(struct ibr_endpoint *endpoint);
/** ibr_endpoint_buffer_end() - nothing refers to it any more. Context: any; takes the lock of @quiet only */
void ibr_endpoint_buffer_end(struct ibr_endpoint *endpoint);
/** ibr_endpoint_send_done() - one is outstanding no more. Context: any; locks as ibr_ring_wake_room() */
void ibr_endpoint_send_done(struct ibr_endpoint *endpoint);
/** ibr_endpoint_recvs_done() - so many are outstanding no more. Context: as above */
void ibr_endpoint_recvs_done(struct ibr_endpoint *endpoint, u32 done);
/** ibr_endpoint_poll() - which commands there is room for: IBR_POLL_SEND, _RECV, _CANCEL. Context: process */
__poll_t ibr_endpoint_poll(struct ibr_endpoint *endpoint, struct file *file, struct poll_table_struct *table);

/**
 * ibr_endpoint_flush() - end of a batch: what was put off is sent, at once or soon
 * @undriven: what ibr_endpoint_send() left: NULL, or a path with a reference. The sends of one batch to one
 *	path are posted together, so that the adapter is told once; those of a stream may wait for the next batch
 *	(ibr_path_drive_soon()). Context: process
 */
void ibr_endpoint_flush(struct ibr_path *undriven);

int ibr_endpoint_peer_add(struct ibr_endpoint *endpoint, struct ibrelk_peer *peer);
int ibr_endpoint_peer_query(struct ibr_endpoint *endpoint, struct ibrelk_peer *peer);

/** ibr_endpoints_dump() - fill up to @max entries. Return: how many the caller may see. Context: process */
u32 ibr_endpoints_dump(struct ibrelk_endpoint_info *info, u32 max);

/** ibr_stats_dump() - IBRELK_IOC_DUMP. Return: 0 or -errno (stats.c) */
int ibr_stats_dump(struct ibrelk_dump *dump);

/**
 * ibr_pool_find() - a genpool_algo_t: where in the pool of an endpoint a message finds room
 * @map: a bit for each granule, set if it is in use
 * @granules: of the pool
 * @start: where to begin
 * @count: granules in one piece that are wanted
 * @data: unsigned long, where the last search in the rest of the pool ended
 * @pool: not looked at, nor is @memory
 * @memory: where it is
 *
 * First fit where the pool begins, so that memory is used again that is in a cache, and then where the last search
 * ended. Of either no more than a piece is looked at: in a pool of which every other granule is in use the search for
 * two would else go through all of it, for each message, under the locks of path and endpoint. Who finds nothing tries
 * another piece next time, and allocates the message elsewhere.
 *
 * Return: the first granule, or @granules: none was found. Context: any but hardirq.
 */
unsigned long ibr_pool_find(unsigned long *map, unsigned long granules, unsigned long start, unsigned int count,
			    void *data, struct gen_pool *pool, unsigned long memory);

int ibr_endpoint_init(void);
void ibr_endpoint_exit(void);

#endif /* IBR_ENDPOINT_H */
