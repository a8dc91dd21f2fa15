// SPDX-License-Identifier: GPL-2.0-only
/*
 * Finding peers and connecting to them, by the kernel's RDMA connection manager (CM).
 *
 * Who runs where. The CM calls our handler in its own workqueue, of which there is one thread for
 * all connections, so the handler never waits: it notes the event and queues the path's work. All
 * that follows happens in that work (or in ops->connect, ops->disconnect, or the timer's work) with
 * path->connect_lock held. So rdma_destroy_id(), which waits for a running handler, may be called
 * with connect_lock held. ops->connect only begins: its outcome is reported by ibr_path_connected()
 * or ibr_path_failed(). Nothing under connect_lock waits for the network.
 *
 * A link is one conversation with the CM: one rdma_cm_id, and its queue pair. A path has at most
 *
 *	active	we have called, or are about to
 *	passive	the peer has called; we answered, and wait for the confirmation
 *	up	the connection in use
 *
 * and active and passive never at the same time, but for datagrams.
 *
 * Connections (RC and UC). HELLO travels in the CM's REQ, WELCOME in its REP; the RTU is the third
 * step. Until it is there (or the first packet with the right token and checksum, which proves the
 * same), nothing of the old connection is touched, so an old or forged HELLO costs a queue pair for
 * a few seconds and nothing else. "Mine is lower" compares (instance, local address) with the
 * peer's: in a test with two devices in one kernel both instances are the same.
 *
 *	state    | connect()     | HELLO arrives        | answer to my HELLO      | time over
 *	---------+---------------+----------------------+-------------------------+----------------
 *	idle     | call: active  | answer: passive      | -                       | -
 *	active,  | wanted        | answer: passive, my  | -                       | call again, or
 *	 not     |               | attempt is dropped   |                         | failed
 *	 called  |               |                      |                         |
 *	active,  | wanted        | mine is lower:       | WELCOME: up (old closed)| call again, or
 *	 called  |               |  REJECT SIMULTANEOUS | SIMULTANEOUS: waiting   | failed
 *	         |               | else: answer:        | BUSY, stale, none:      |
 *	         |               |  passive, mine is    |  waiting, then call     |
 *	         |               |  dropped             | other: failed           |
 *	waiting  | wanted        | answer: passive      | -                       | call again, or
 *	         |               |                      |                         | failed
 *	passive  | wanted        | answer, in place of  | -                       | dropped; call,
 *	         |               | the one before       |                         | if wanted
 *
 * In passive the confirmation makes it up, and the old connection is closed. Up is apart from
 * these: while a connection is in use the peer may call again, which means that it lost its queue
 * pair. Why simultaneous calls end in one connection: say that A is lower. If A's HELLO reaches B
 * before B has called, B answers and does not call. If B has called, it drops its call and answers.
 * B's HELLO, if A has called, is rejected, and B, unless it has answered already, waits for A's; if
 * A had not called yet, A answers it and does not call, and A's later wish waits for its outcome.
 * If B's HELLO comes after A is up already (delayed in the network), A answers it beside the
 * connection in use; B's CM knows no such conversation, so the confirmation never comes, and A
 * drops it.
 *
 * Datagrams. Each side looks the other one up for itself (a SIDR exchange), and so learns the peer's
 * token, credits, queue pair number and address from an answer to its own nonce. A HELLO changes
 * nothing; if it comes from a peer that is not known, or says something new, or should not need to
 * ask any more, it makes us look the peer up. Who was looked up first answers only when he is done,
 * so that he knows the caller before its first packet comes; but who wants the connection himself
 * answers at once, so two never wait for each other. The checksum seed is CRC32C of the higher token
 * seeded with the lower, which both know.
 *
 * The checksum seed of a connection is the lower half of both nonces xored.
 *
 * Automatic paths. Their own conversation is that of datagrams. Their lane (lane.c) has another one,
 * by the rules for connections, but that HELLO and WELCOME speak of a life that is up already: with
 * other tokens than that life's they are refused (UNKNOWN), and the checksum seed is that life's. A
 * lane is a favour, so its effort ends with the first refusal but SIMULTANEOUS.
 *
 * The CM repeats a lost message only after about four seconds. So an attempt that has no answer
 * after a second (then two, then four) is torn down and made again with a new id and queue pair,
 * until connect_timeout_ms are over.
 */
#include <linux/module.h>
#include <linux/random.h>
#include <linux/slab.h>
#include <net/net_namespace.h>
#include <rdma/ib.h>
#include <rdma/ib_cm.h>
#include <rdma/rdma_cm.h>

#include "compat.h"
#include "connect.h"
#include "device.h"
#include "drive.h"
#include "params.h"
#include "path.h"
#include "reliability/wire.h"
#include "transport/verbs.h"

#define RESOLVE_MS		3000	/* for an address; ARP itself repeats every second */
#define ANSWER_MS		1000	/* for a HELLO; doubled twice */
#define RETRY_MS		200	/* after a refusal that may pass */
#define YIELD_MS		1500	/* for the peer's HELLO, when ours has given way */
#define CONFIRM_MS		6000	/* for the third step; the second is repeated after 4 s */
#define LOOKUPS_MAX		3	/* attempts that only a peer's HELLO asked for */
#define PASSIVE_MAX		256	/* answers on this node that wait for confirmation */
#define RC_ACK_TIMEOUT		14	/* 4.096 us << 14 = 67 ms, as perftest has it */
#define RC_RETRIES		7
#define LISTEN_BACKLOG		128

static ushort cm_port = 7470;
module_param(cm_port, ushort, 0444);
MODULE_PARM_DESC(cm_port, "port of the RDMA CM for RC and UD; UC has the next one");

static unsigned int connect_timeout_ms = 10000;
module_param(connect_timeout_ms, uint, 0644);
MODULE_PARM_DESC(connect_timeout_ms,
		 "after which a peer that does not answer counts as absent, ms");

enum link_state {
	LINK_RESOLVING,		/* active: address */
	LINK_ROUTING,		/* active: route */
	LINK_CALLING,		/* active: HELLO sent */
	LINK_ASKED,		/* passive: HELLO received */
	LINK_ANSWERED,		/* passive: WELCOME sent */
	LINK_UP,
	LINK_CLOSED,
};

/*
 * struct ibr_link - one conversation with the CM
 * @ref: held by its place in the path's struct ibr_cm, and by each event
 */
struct ibr_link {
	struct kref ref;
	struct ibr_cm *cm;		/* with a reference; immutable */
	bool passive;			/* the rest: path->connect_lock */
	enum link_state state;
	struct rdma_cm_id *id;
	struct ibr_qp *qp;
	struct ibr_dest *dest;
	struct wire_hello hello;	/* passive: the peer's */
	u64 nonce;
	u32 token;			/* ours, as we have told the peer */
	u32 number;			/* of our queue pair, likewise */
	u16 packet_max;			/* what we can take */
	u16 route_max;			/* what the way bears */
	u16 heard_max;			/* active, datagrams: least packet_max of the peer's HELLOs meanwhile, or 0 */
	struct ibr_remote remote;
};

/* struct link_event - what the handler saw */
struct link_event {
	struct list_head entry;
	struct ibr_link *link;		/* with a reference */
	enum rdma_cm_event_type type;
	int status;
	bool consumer;			/* refused by ibrelk, not by the CM */
	enum wire_verdict verdict;	/* of @hello */
	struct wire_hello hello;
	struct ibr_dest *dest;		/* UD */
};

/*
 * struct ibr_cm - a path's connecting, or that of its lane
 * @ref: held by the path, each link, queued work and the armed timer
 */
struct ibr_cm {
	struct kref ref;
	struct ibr_path *path;		/* with a reference; immutable */
	bool lane;			/* of the path's lane; immutable */
	struct work_struct work;
	struct delayed_work timer;

	struct list_head events;	/* events_lock */
	bool closed;			/* events_lock: no more events */

	struct ibr_link *active;	/* the rest: path->connect_lock */
	struct ibr_link *passive;
	struct ibr_link *up;
	bool wanted;			/* the path waits for the outcome */
	bool refresh;			/* datagrams: the address handle is wanted anew, whatever is known */
	bool told;			/* datagrams: the peer was told something by this effort */
	int breaks;			/* told: the port's, before that */
	unsigned int attempts;
	unsigned int doubts;		/* of this effort: answers that were maybe older than a HELLO */
	unsigned long deadline;		/* jiffies; of the whole effort */
	unsigned long timer_at;		/* jiffies */
	int error;			/* of the last attempt */
};

struct ibr_listener {
	struct rdma_cm_id *rc;
	struct rdma_cm_id *uc;
	struct rdma_cm_id *ud;
};

static DEFINE_SPINLOCK(events_lock);	/* also path->cm and ->lane.cm, for those without connect_lock */
static atomic_t passive_count;

static void cm_call(struct ibr_cm *cm);

/* ---- lifetimes ---------------------------------------------------------------------------- */

static void cm_release(struct kref *ref)
{
	struct ibr_cm *cm = container_of(ref, struct ibr_cm, ref);

	ibr_path_put(cm->path);
	kfree(cm);
}

static void cm_put(struct ibr_cm *cm)
{
	kref_put(&cm->ref, cm_release);
}

static void cm_work(struct work_struct *work);
static void cm_timer(struct work_struct *work);

static enum ib_qp_type cm_type(const struct ibr_cm *cm)
{
	return cm->lane ? IB_QPT_UC : cm->path->transport->type;
}

static struct ibr_cm **cm_place(struct ibr_path *path, bool lane)
{
	return lane ? &path->lane.cm : &path->cm;
}

/* With a reference, or NULL: there is none. */
static struct ibr_cm *cm_find(struct ibr_path *path, bool lane)
{
	struct ibr_cm *cm;

	spin_lock_bh(&events_lock);
	cm = *cm_place(path, lane);
	if (cm)
		kref_get(&cm->ref);
	spin_unlock_bh(&events_lock);
	return cm;
}

/* The path's connecting, with a reference; made on first use. NULL: no memory, or removed. */
static struct ibr_cm *cm_get(struct ibr_path *path, bool lane)
{
	struct ibr_cm *cm, *fresh;

	cm = cm_find(path, lane);
	if (cm)
		return cm;

	fresh = kzalloc(sizeof(*fresh), GFP_KERNEL);
	if (!fresh)
		return NULL;
	kref_init(&fresh->ref);
	INIT_WORK(&fresh->work, cm_work);
	INIT_DELAYED_WORK(&fresh->timer, cm_timer);
	INIT_LIST_HEAD(&fresh->events);
	fresh->path = path;
	fresh->lane = lane;
	ibr_path_get(path);

	spin_lock_bh(&events_lock);
	cm = *cm_place(path, lane);
	/* A path that is being removed gets none: ibr_connect_stop() would not see it. */
	if (!cm && !READ_ONCE(path->removed)) {
		*cm_place(path, lane) = fresh;
		cm = fresh;
		fresh = NULL;
	}
	if (cm)
		kref_get(&cm->ref);
	spin_unlock_bh(&events_lock);
	if (fresh)
		cm_put(fresh);
	return cm;
}

static struct ibr_link *link_create(struct ibr_cm *cm, bool passive)
{
	struct ibr_link *link;

	if (cm->lane && !ibr_lane_reserve())
		return NULL;
	link = kzalloc(sizeof(*link), GFP_KERNEL);
	if (!link) {
		if (cm->lane)
			ibr_lane_release();
		return NULL;
	}
	kref_init(&link->ref);
	kref_get(&cm->ref);
	link->cm = cm;
	link->passive = passive;
	link->state = passive ? LINK_ASKED : LINK_RESOLVING;
	if (passive)
		atomic_inc(&passive_count);
	return link;
}

static void link_release(struct kref *ref)
{
	struct ibr_link *link = container_of(ref, struct ibr_link, ref);

	if (link->passive)
		atomic_dec(&passive_count);
	if (link->cm->lane)
		ibr_lane_release();
	cm_put(link->cm);
	kfree(link);
}

static void link_put(struct ibr_link *link)
{
	kref_put(&link->ref, link_release);
}

/*
 * End a conversation: the CM tells the peer what there is to tell, its handler is over, and the
 * queue pair is gone. Takes the caller's reference. Context: connect_lock held, or the link is in
 * no path.
 */
static void link_close(struct ibr_link *link)
{
	link->state = LINK_CLOSED;
	if (link->id)
		rdma_destroy_id(link->id);
	link->id = NULL;
	if (link->qp) {
		/* The datagram queue pair belongs to the port. */
		if (link->qp->path)
			ibr_qp_stop(link->qp);
		ibr_qp_put(link->qp);
	}
	link->qp = NULL;
	ibr_dest_put(link->dest);
	link->dest = NULL;
	link_put(link);
}

static void link_drop(struct ibr_link **place)
{
	struct ibr_link *link = *place;

	*place = NULL;
	if (link)
		link_close(link);
}

/* ---- events ------------------------------------------------------------------------------- */

static void event_free(struct link_event *event)
{
	ibr_dest_put(event->dest);
	link_put(event->link);
	kfree(event);
}

/* Context: events_lock held. */
static void cm_queue(struct ibr_cm *cm)
{
	kref_get(&cm->ref);
	if (!queue_work(ibr_wq, &cm->work))
		cm_put(cm);
}

/* Return: the path's work will see it. */
static bool event_post(struct link_event *event)
{
	struct ibr_cm *cm = event->link->cm;
	bool closed;

	spin_lock_bh(&events_lock);
	closed = cm->closed;
	if (!closed) {
		list_add_tail(&event->entry, &cm->events);
		cm_queue(cm);
	}
	spin_unlock_bh(&events_lock);
	return !closed;
}

static struct link_event *event_create(struct ibr_link *link, enum rdma_cm_event_type type)
{
	struct link_event *event;

	event = kzalloc(sizeof(*event), GFP_KERNEL);
	if (!event)
		return NULL;
	kref_get(&link->ref);
	event->link = link;
	event->type = type;
	return event;
}

/* A received packet confirms a connection whose third step is still under way. Context: softirq */
static void link_early(void *context)
{
	struct ibr_link *link = context;
	struct ibr_cm *cm = link->cm;

	/* The work finds it by the state of the queue pair. */
	spin_lock_bh(&events_lock);
	if (!cm->closed)
		cm_queue(cm);
	spin_unlock_bh(&events_lock);
}

/* ---- HELLO and its answers ---------------------------------------------------------------- */

static enum ib_qp_type mode_type(u32 mode)
{
	switch (mode) {
	case IBRELK_MODE_RC_NATIVE:
	case IBRELK_MODE_RC_RELIABLE:
		return IB_QPT_RC;
	case IBRELK_MODE_UC_NATIVE:
	case IBRELK_MODE_UC_RELIABLE:
		return IB_QPT_UC;
	default:
		return IB_QPT_UD;
	}
}

/* A lane, by the listener to which a HELLO has come. */
static bool hello_of_lane(const struct wire_hello *hello, enum ib_qp_type type)
{
	return hello->mode == IBRELK_MODE_AUTO && type == IB_QPT_UC;
}

static void hello_fill(struct wire_hello *hello, u8 step, u32 mode)
{
	memset(hello, 0, sizeof(*hello));
	hello->magic = cpu_to_le32(WIRE_MAGIC);
	hello->version = WIRE_VERSION;
	hello->step = step;
	hello->mode = mode;
	memcpy(hello->instance, ibr_instance, sizeof(hello->instance));
}

static void hello_of_link(struct wire_hello *hello, const struct ibr_link *link)
{
	hello_fill(hello, link->passive ? WIRE_WELCOME : WIRE_HELLO, link->cm->path->key.mode);
	hello->nonce = cpu_to_le64(link->nonce);
	if (link->passive)
		hello->echo = link->hello.nonce;
	hello->token = cpu_to_le32(link->token);
	if (link->qp->type == IB_QPT_UD)
		hello->qpn = cpu_to_le32(link->number);
	hello->credits = cpu_to_le16(link->qp->credits);
	hello->packet_max = cpu_to_le16(link->packet_max);
}

static void id_reject(struct rdma_cm_id *id, const struct wire_hello *theirs, u8 reason)
{
	struct wire_hello hello;

	hello_fill(&hello, WIRE_REJECT, theirs->mode);
	hello.reason = reason;
	hello.echo = theirs->nonce;
	rdma_reject(id, &hello, sizeof(hello), IB_CM_REJ_CONSUMER_DEFINED);
}

/* Could an honest peer say this? */
static bool hello_sane(const struct wire_hello *hello)
{
	return le16_to_cpu(hello->credits) && le16_to_cpu(hello->credits) <= 32767 &&
	       le16_to_cpu(hello->packet_max) >= IBR_PACKET_MIN;
}

/* What the peer says of itself. */
static void hello_remote(const struct wire_hello *hello, struct ibr_remote *remote)
{
	memset(remote, 0, sizeof(*remote));
	memcpy(remote->instance, hello->instance, sizeof(remote->instance));
	remote->token = le32_to_cpu(hello->token);
	remote->credits = le16_to_cpu(hello->credits);
	remote->packet_said = le16_to_cpu(hello->packet_max);
}

/* What both sides said makes the connection. */
static void link_agree(struct ibr_link *link, const struct wire_hello *theirs)
{
	struct ibr_remote *remote = &link->remote;
	u64 nonce = le64_to_cpu(theirs->nonce);
	__le32 high;

	hello_remote(theirs, remote);
	remote->packet_max = min3(link->packet_max, link->route_max, remote->packet_said);
	if (link->cm->path->transport->type == IB_QPT_UD) {
		high = cpu_to_le32(max(link->token, remote->token));
		remote->secret = rel_crc32c(min(link->token, remote->token), &high, sizeof(high));
	} else {
		remote->secret = lower_32_bits(link->nonce ^ nonce);
	}
}

/* ---- addresses ---------------------------------------------------------------------------- */

static enum rdma_ucm_port_space type_space(enum ib_qp_type type)
{
	return type == IB_QPT_UD ? RDMA_PS_UDP : RDMA_PS_TCP;
}

static u16 type_port(enum ib_qp_type type)
{
	return type == IB_QPT_UC ? cm_port + 1 : cm_port;
}

static void addr_fill(struct sockaddr_storage *storage, const u8 *gid, enum ibr_link_layer layer,
		      enum ib_qp_type type, u16 port)
{
	struct sockaddr_ib *ib = (struct sockaddr_ib *)storage;

	memset(storage, 0, sizeof(*storage));
	if (layer == IBR_LINK_IB) {
		ib->sib_family = AF_IB;
		ib->sib_pkey = cpu_to_be16(IB_DEFAULT_PKEY_FULL);
		memcpy(&ib->sib_addr, gid, 16);
		ib->sib_sid = cpu_to_be64((type == IB_QPT_UD ? RDMA_IB_IP_PS_UDP :
							       RDMA_IB_IP_PS_TCP) | port);
		ib->sib_sid_mask = cpu_to_be64(RDMA_IB_IP_PS_MASK | 0xffff);
		return;
	}
	rdma_gid2ip((struct sockaddr *)storage, (const union ib_gid *)gid);
	if (storage->ss_family == AF_INET)
		((struct sockaddr_in *)storage)->sin_port = htons(port);
	else
		((struct sockaddr_in6 *)storage)->sin6_port = htons(port);
}

static int addr_gid(const struct sockaddr_storage *storage, u8 *gid)
{
	if (storage->ss_family == AF_IB) {
		memcpy(gid, &((const struct sockaddr_ib *)storage)->sib_addr, 16);
		return 0;
	}
	return rdma_ip2gid((struct sockaddr *)storage, (union ib_gid *)gid);
}

/* ---- the timer ---------------------------------------------------------------------------- */

static void cm_arm(struct ibr_cm *cm, unsigned int ms)
{
	unsigned long delay = msecs_to_jiffies(ms);

	cm->timer_at = jiffies + delay;
	kref_get(&cm->ref);
	if (mod_delayed_work(ibr_wq, &cm->timer, delay))
		cm_put(cm);
}

/* For an attempt, which ends with the whole effort at the latest. */
static void cm_arm_attempt(struct ibr_cm *cm, unsigned int ms)
{
	long left = cm->deadline - jiffies;

	cm_arm(cm, min(ms, jiffies_to_msecs(max(left, 0L))));
}

static void cm_disarm(struct ibr_cm *cm)
{
	if (cancel_delayed_work(&cm->timer))
		cm_put(cm);
}

/* ---- outcomes ----------------------------------------------------------------------------- */

static bool path_gone(struct ibr_path *path)
{
	bool gone;

	spin_lock_bh(&path->lock);
	gone = path->removed;
	spin_unlock_bh(&path->lock);
	return gone;
}

/* The whole effort has failed. */
static void cm_fail(struct ibr_cm *cm, int error)
{
	cm_disarm(cm);
	link_drop(&cm->active);
	if (cm_type(cm) == IB_QPT_UD)
		link_drop(&cm->passive);
	cm->attempts = 0;
	cm->error = 0;
	cm->refresh = false;
	if (!cm->wanted)
		return;
	cm->wanted = false;
	if (cm->lane)
		ibr_lane_failed(cm->path);
	else
		ibr_path_failed(cm->path, error);
}

/* An attempt has failed in a way that may pass: try again after @ms, unless time is over. */
static void cm_retry(struct ibr_cm *cm, int error, unsigned int ms)
{
	link_drop(&cm->active);
	/* That the last attempt of several was cut short says less than why the others failed. */
	if (error != -ETIMEDOUT || !cm->error)
		cm->error = error;
	if (time_after_eq(jiffies + msecs_to_jiffies(ms), cm->deadline) ||
	    (!cm->wanted && cm->attempts >= LOOKUPS_MAX) || (cm->lane && error != -ETIMEDOUT)) {
		cm_fail(cm, cm->error);
		return;
	}
	cm_arm(cm, ms);
}

/* Take the queue pair and destination away from the path. */
static void path_let_go(struct ibr_path *path)
{
	struct ibr_qp *qp;
	void *dest;

	qp = ibr_path_detach(path, &dest);
	if (qp)
		ibr_qp_put(qp);
	ibr_dest_put(dest);
}

static int cm_answer_ud(struct ibr_cm *cm, struct ibr_link *link);

/* Does a path that is up know all of this already? */
static bool path_knows(struct ibr_path *path, const struct ibr_remote *remote, u32 qpn)
{
	struct ibr_dest *dest;
	bool same;

	spin_lock_bh(&path->lock);
	dest = path->transport_data;
	same = path->state == IBRELK_PATH_UP && dest && dest->qpn == qpn &&
	       path->remote.token == remote->token && path->remote.credits == remote->credits &&
	       path->remote.packet_said == remote->packet_said &&
	       !memcmp(path->remote.instance, remote->instance, sizeof(remote->instance));
	spin_unlock_bh(&path->lock);
	return same;
}

/* Is the last handshake so long ago that silence since then means something? */
static bool path_is_old(struct ibr_path *path)
{
	bool old;

	spin_lock_bh(&path->lock);
	old = ktime_get_ns() - path->up_since > IBR_DEAF_MS * NSEC_PER_MSEC;
	spin_unlock_bh(&path->lock);
	return old;
}

/* The path takes the queue pair of a link that is agreed. Return: false: the life it is for is over. */
static bool link_hand_over(struct ibr_link *link)
{
	struct ibr_path *path = link->cm->path;
	bool taken;

	ibr_qp_get(link->qp);
	if (link->dest)
		ibr_dest_get(link->dest);
	if (link->cm->lane) {
		taken = ibr_lane_up(path, &link->remote, link->qp);
	} else {
		path_let_go(path);
		taken = ibr_path_connected(path, &link->remote, link->qp, link->dest);
	}
	if (!taken) {
		ibr_qp_put(link->qp);
		ibr_dest_put(link->dest);
	}
	return taken;
}

/*
 * A connection is agreed: @link, which is cm->active or cm->passive, replaces what was. Takes over
 * the place's reference.
 */
static void cm_up(struct ibr_cm *cm, struct ibr_link *link)
{
	struct ibr_path *path = cm->path;
	struct ibr_link *old = cm->up;
	bool ud = cm_type(cm) == IB_QPT_UD;

	if (link == cm->active)
		cm->active = NULL;
	else
		cm->passive = NULL;

	/* Our life has ended since we told the peer its token; it must hear the new one. */
	if (path->token != link->token) {
		link_close(link);
		cm_retry(cm, -ECONNRESET, 0);
		return;
	}
	if (!ud || cm->refresh || path->remote.packet_max != link->remote.packet_max ||
	    !path_knows(path, &link->remote, link->dest->qpn)) {
		if (!link_hand_over(link)) {
			if (!cm->lane)
				link_drop(&cm->up);
			link_close(link);
			cm_retry(cm, -ECONNRESET, 0);
			return;
		}
		if (!ud) {
			/* What was written before is dropped as long as it is not live: its window may have gone. */
			ibr_qp_drain(link->qp);
			ibr_qp_start(link->qp);
		}
	}
	/*
	 * What the peer was told does not hold any more, and ibr_paths_break() came before the path was up. Of
	 * datagrams he may know it by a call or by an answer, whichever; of a connection only what made it.
	 */
	if (ud ? cm->breaks != atomic_read(&link->qp->port->breaks) :
		 link->packet_max > READ_ONCE(link->qp->port->mtu))
		ibr_path_broken(path, link->qp, -ECONNRESET);
	link->state = LINK_UP;
	if (link->passive) {
		atomic_dec(&passive_count);
		link->passive = false;
	}
	cm->up = link;
	if (old)
		link_close(old);
	if (ud && link->id) {
		rdma_destroy_id(link->id);
		link->id = NULL;
	}
	cm_disarm(cm);
	link_drop(&cm->active);
	cm->wanted = false;
	cm->refresh = false;
	cm->attempts = 0;
	cm->error = 0;
	if (cm->passive) {
		/* Datagrams: who made us look him up has waited for it. */
		cm_answer_ud(cm, cm->passive);
		link_drop(&cm->passive);
	}
}

/* ---- calling ------------------------------------------------------------------------------ */

static int link_handler(struct rdma_cm_id *id, struct rdma_cm_event *cm_event);

/* The queue pair for a connection, and for the packets that its path bears. */
static int link_open(struct ibr_link *link)
{
	struct ibr_path *path = link->cm->path;
	enum ib_qp_type type = cm_type(link->cm);
	struct rdma_cm_id *id = link->id;
	struct ibr_port *port;
	struct ibr_qp *qp;
	int ret = 0;

	port = ibr_port_find(id->device, id->port_num);
	if (!port)
		return -ENODEV;
	if (!link->cm->told) {
		link->cm->told = true;
		link->cm->breaks = atomic_read(&port->breaks);
		smp_rmb(); /* what is told comes later; pairs with the barrier of atomic_inc_return() */
	}
	link->packet_max = min_t(u32, READ_ONCE(port->mtu), IBR_PACKET_MAX);
	link->route_max = id->route.path_rec ? ib_mtu_enum_to_int(id->route.path_rec->mtu) : IBR_PACKET_MAX;
	/* Who answers a call for datagrams knows no way yet, and both have to tell the same. */
	if (type != IB_QPT_UD)
		link->packet_max = min(link->packet_max, link->route_max);
	link->nonce = get_random_u64();
	/* (A lane speaks of a life that has its token; if it is over, that is found out when the lane is up.) */
	ret = link->cm->lane ? 0 : ibr_path_renew_token(path);
	if (ret)
		goto out;
	link->token = READ_ONCE(path->token);

	if (type == IB_QPT_UD) {
		qp = ibr_port_ud(port);
		if (!qp) {
			ret = -ENODEV;
			goto out;
		}
		link->qp = qp;
		goto out;
	}
	qp = ibr_qp_create(port, path, type, link->packet_max);
	if (IS_ERR(qp)) {
		ret = PTR_ERR(qp);
		goto out;
	}
	link->qp = qp;
	if (link->passive) {
		link_agree(link, &link->hello);
		qp->token = link->token;
		qp->secret = link->remote.secret;
		qp->early = link_early;
		qp->context = link;
	}
	ret = ibr_qp_open_cm(qp, id);
out:
	if (!ret)
		link->number = READ_ONCE(link->qp->number);
	ibr_port_put(port);
	return ret;
}

static void conn_param_fill(struct rdma_conn_param *param, const struct ibr_link *link,
			    const struct wire_hello *hello)
{
	bool rc = link->qp->type == IB_QPT_RC;

	*param = (struct rdma_conn_param) {
		.private_data = hello,
		.private_data_len = sizeof(*hello),
		/* We neither read nor do atomics, but some devices refuse none. */
		.responder_resources = rc,
		.initiator_depth = rc,
		.retry_count = RC_RETRIES,
		.rnr_retry_count = RC_RETRIES,
		.qp_num = link->number,
	};
}

static int link_call(struct ibr_link *link)
{
	u8 call[sizeof(struct wire_caller) + sizeof(struct wire_hello)];
	struct wire_caller caller = {};
	struct rdma_conn_param param;
	struct wire_hello hello;
	int ret;

	ret = link_open(link);
	if (ret)
		return ret;
	hello_of_link(&hello, link);
	conn_param_fill(&param, link, &hello);
	if (link->id->route.addr.src_addr.ss_family == AF_IB) {
		memcpy(caller.gid, link->cm->path->key.local_gid, sizeof(caller.gid));
		memcpy(call, &caller, sizeof(caller));
		memcpy(call + sizeof(caller), &hello, sizeof(hello));
		param.private_data = call;
		param.private_data_len = sizeof(call);
	}
	ret = rdma_connect(link->id, &param);
	if (!ret)
		link->state = LINK_CALLING;
	return ret;
}

static int link_resolve(struct ibr_link *link)
{
	struct ibr_path *path = link->cm->path;
	enum ib_qp_type type = cm_type(link->cm);
	struct sockaddr_storage source, target;
	struct rdma_cm_id *id;
	struct ibr_port *port;
	enum ibr_link_layer layer;

	port = ibr_port_find_gid(path->key.local_gid);
	if (!port)
		return -ENODEV;
	layer = port->layer;
	ibr_port_put(port);

	id = rdma_create_id(&init_net, link_handler, link, type_space(type), type);
	if (IS_ERR(id))
		return PTR_ERR(id);
	link->id = id;
	if (type == IB_QPT_RC && layer != IBR_LINK_IWARP)
		rdma_set_ack_timeout(id, RC_ACK_TIMEOUT);
	addr_fill(&source, path->key.local_gid, layer, type, 0);
	addr_fill(&target, path->key.remote_gid, layer, type, type_port(type));
	if (source.ss_family != target.ss_family)
		return -ENETUNREACH;
	return rdma_resolve_addr(id, (struct sockaddr *)&source, (struct sockaddr *)&target,
				 RESOLVE_MS);
}

/* Make an attempt, unless one is under way, or the peer's is. */
static void cm_call(struct ibr_cm *cm)
{
	bool ud = cm_type(cm) == IB_QPT_UD;
	struct ibr_link *link;
	int ret;

	if (cm->active || (cm->passive && !ud) || path_gone(cm->path))
		return;
	if (time_after_eq(jiffies, cm->deadline)) {
		cm_fail(cm, cm->error ?: -ETIMEDOUT);
		return;
	}
	link = link_create(cm, false);
	if (!link) {
		cm_retry(cm, -ENOMEM, RETRY_MS);
		return;
	}
	cm->active = link;
	cm->attempts++;
	ret = link_resolve(link);
	if (!ret)
		cm_arm_attempt(cm, RESOLVE_MS + ANSWER_MS);
	else if (ret == -ENODEV || ret == -ENETUNREACH)
		cm_fail(cm, ret);
	else
		cm_retry(cm, ret, RETRY_MS);
}

/* An effort begins; the peer's HELLO, or the path, asks for it. An attempt that is under way is its first. */
static void cm_begin(struct ibr_cm *cm)
{
	cm->deadline = jiffies + msecs_to_jiffies(READ_ONCE(connect_timeout_ms));
	cm->attempts = !!cm->active;
	if (!cm->active) /* whose call has told already */
		cm->told = false;
	cm->doubts = 0;
	cm->error = 0;
	cm_call(cm);
}

static int connect_start(struct ibr_path *path, bool lane)
{
	struct ibr_link *waiting = NULL;
	struct ibr_cm *cm;

	lockdep_assert_held(&path->connect_lock);
	cm = cm_get(path, lane);
	if (!cm)
		return -ENOMEM;
	if (!cm->wanted) {
		cm->wanted = true;
		/* Datagrams: whoever wants it himself waits for nobody, who may be waiting for us. */
		if (cm_type(cm) == IB_QPT_UD)
			swap(waiting, cm->passive);
		cm_begin(cm);
		if (waiting) {
			cm_answer_ud(cm, waiting);
			link_close(waiting);
		}
	}
	cm_put(cm);
	return 0;
}

int ibr_connect_start(struct ibr_path *path)
{
	return connect_start(path, false);
}

int ibr_connect_start_lane(struct ibr_path *path)
{
	return connect_start(path, true);
}

/* ---- answering ---------------------------------------------------------------------------- */

static bool mine_is_lower(const struct ibr_path *path, const struct wire_hello *theirs)
{
	int order = memcmp(ibr_instance, theirs->instance, sizeof(ibr_instance));

	if (!order)
		order = memcmp(path->key.local_gid, path->key.remote_gid,
			       sizeof(path->key.local_gid));
	return order < 0;
}

static int link_accept(struct ibr_link *link)
{
	struct rdma_conn_param param;
	struct wire_hello hello;
	int ret;

	hello_of_link(&hello, link);
	conn_param_fill(&param, link, &hello);
	/* The CM wants it to look as if it came from the handler. */
	rdma_lock_handler(link->id);
	ret = rdma_accept(link->id, &param);
	rdma_unlock_handler(link->id);
	if (!ret)
		link->state = LINK_ANSWERED;
	return ret;
}

/* Datagrams: tell the peer where we are. */
static int cm_answer_ud(struct ibr_cm *cm, struct ibr_link *link)
{
	int ret;

	ret = link_open(link);
	if (!ret)
		ret = link_accept(link);
	if (ret)
		id_reject(link->id, &link->hello, WIRE_REJECT_BUSY);
	return ret;
}

static void cm_asked_ud(struct ibr_cm *cm, struct ibr_link *link, const struct ibr_remote *remote)
{
	bool known = path_knows(cm->path, remote, le32_to_cpu(link->hello.qpn));

	if (cm->active && cm->active->state == LINK_CALLING)
		cm->active->heard_max = min_not_zero(cm->active->heard_max, remote->packet_said);
	if (cm->wanted || known) {
		cm_answer_ud(cm, link);
		link_close(link);
		/*
		 * Whom we know asks again since he hears nothing of us: he may have come to another place (a LID, a MAC
		 * address), where only a look-up finds him. He has just looked us up, and will not ask once more for
		 * that.
		 */
		if (known && !cm->wanted && !cm->active && !cm->refresh && path_is_old(cm->path)) {
			cm->refresh = true;
			cm_begin(cm);
		}
		return;
	}
	link_drop(&cm->passive);
	cm->passive = link;
	/* Also if there was one: who calls again shall not share the end of what he called for before. */
	cm_begin(cm);
}

/* A HELLO. Takes over the caller's reference to the link. */
static void cm_asked(struct ibr_cm *cm, struct ibr_link *link)
{
	struct ibr_path *path = cm->path;
	struct ibr_remote remote;
	int ret;

	hello_remote(&link->hello, &remote);
	if (cm_type(cm) == IB_QPT_UD) {
		cm_asked_ud(cm, link, &remote);
		return;
	}
	if (cm->lane && !ibr_lane_knows(path, &remote)) {
		id_reject(link->id, &link->hello, WIRE_REJECT_UNKNOWN);
		link_close(link);
		return;
	}
	if (cm->active && cm->active->state == LINK_CALLING && mine_is_lower(path, &link->hello)) {
		id_reject(link->id, &link->hello, WIRE_REJECT_SIMULTANEOUS);
		link_close(link);
		return;
	}
	link_drop(&cm->active);
	link_drop(&cm->passive);

	ret = link_open(link);
	if (!ret)
		ret = link_accept(link);
	if (ret) {
		id_reject(link->id, &link->hello, WIRE_REJECT_BUSY);
		link_close(link);
		if (cm->wanted)
			cm_retry(cm, ret, RETRY_MS);
		return;
	}
	cm->passive = link;
	cm_arm(cm, CONFIRM_MS);
}

/* ---- what the CM said --------------------------------------------------------------------- */

static void cm_established(struct ibr_cm *cm, struct ibr_link *link, struct link_event *event)
{
	const struct wire_hello *hello = &event->hello;

	if (link == cm->passive) {
		cm_up(cm, link);
		return;
	}
	if (event->verdict == WIRE_BAD_VERSION) {
		cm_fail(cm, -EPROTONOSUPPORT);
		return;
	}
	if (event->verdict != WIRE_OK || hello->step != WIRE_WELCOME || !hello_sane(hello) ||
	    hello->mode != cm->path->key.mode || le64_to_cpu(hello->echo) != link->nonce) {
		cm_retry(cm, -EPROTO, RETRY_MS);
		return;
	}
	/*
	 * Nothing says whether this was sent before the HELLO that has come meanwhile. Whatever else has changed, he
	 * will not hear us, and that is noticed; but only what is longer than he takes now would never arrive.
	 */
	if (link->heard_max && link->heard_max < le16_to_cpu(hello->packet_max) && cm->doubts < LOOKUPS_MAX) {
		cm->doubts++;
		cm_retry(cm, -ECONNRESET, 0);
		return;
	}
	link_agree(link, hello);
	if (cm_type(cm) == IB_QPT_UD) {
		if (!event->dest) {
			cm_retry(cm, -ENOMEM, RETRY_MS);
			return;
		}
		link->dest = event->dest;
		event->dest = NULL;
	}
	cm_up(cm, link);
}

static void cm_refused(struct ibr_cm *cm, struct link_event *event)
{
	if (!event->consumer) {
		cm_fail(cm, -ECONNREFUSED);
		return;
	}
	if (event->verdict == WIRE_BAD_VERSION) {
		cm_fail(cm, -EPROTONOSUPPORT);
		return;
	}
	if (event->verdict != WIRE_OK || event->hello.step != WIRE_REJECT ||
	    le64_to_cpu(event->hello.echo) != cm->active->nonce) {
		cm_retry(cm, -ECONNABORTED, RETRY_MS);
		return;
	}
	switch (event->hello.reason) {
	case WIRE_REJECT_VERSION:
		cm_fail(cm, -EPROTONOSUPPORT);
		break;
	case WIRE_REJECT_MODE:
		cm_fail(cm, -EOPNOTSUPP);
		break;
	case WIRE_REJECT_SIMULTANEOUS:
		cm_retry(cm, -ETIMEDOUT, YIELD_MS);
		break;
	case WIRE_REJECT_BUSY:
		cm_retry(cm, -EBUSY, RETRY_MS);
		break;
	default:
		cm_fail(cm, -EPROTO);
		break;
	}
}

/* Is it a word from the CM that nobody listens there? */
static bool status_no_listener(const struct ibr_cm *cm, const struct link_event *event)
{
	if (cm_type(cm) == IB_QPT_UD)
		return event->status == IB_SIDR_UNSUPPORTED;
	return event->status == IB_CM_REJ_INVALID_SERVICE_ID || event->status == -ECONNREFUSED;
}

static void cm_handle_active(struct ibr_cm *cm, struct ibr_link *link, struct link_event *event)
{
	int ret = 0;

	switch (event->type) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		ret = rdma_resolve_route(link->id, RESOLVE_MS);
		link->state = LINK_ROUTING;
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		ret = link_call(link);
		if (!ret)
			cm_arm_attempt(cm, ANSWER_MS << min(cm->attempts - 1, 2u));
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		cm_established(cm, link, event);
		return;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
		cm_retry(cm, -EHOSTUNREACH, RETRY_MS);
		return;
	case RDMA_CM_EVENT_REJECTED:
	case RDMA_CM_EVENT_UNREACHABLE:
		if (event->consumer || status_no_listener(cm, event))
			cm_refused(cm, event);
		else
			cm_retry(cm, -ETIMEDOUT, RETRY_MS);
		return;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		cm_fail(cm, -ENODEV);
		return;
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_DISCONNECTED:
	case RDMA_CM_EVENT_ADDR_CHANGE:
		cm_retry(cm, -ECONNABORTED, RETRY_MS);
		return;
	default:
		return;
	}
	if (ret == -ENODEV)
		cm_fail(cm, ret);
	else if (ret)
		cm_retry(cm, ret, RETRY_MS);
}

static void cm_handle_passive(struct ibr_cm *cm, struct ibr_link *link, struct link_event *event)
{
	switch (event->type) {
	case RDMA_CM_EVENT_ESTABLISHED:
		cm_established(cm, link, event);
		return;
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_REJECTED:
	case RDMA_CM_EVENT_DISCONNECTED:
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		link_drop(&cm->passive);
		if (cm->wanted)
			cm_call(cm);
		return;
	default:
		return;
	}
}

/* The peer needs it no more, or is gone. */
static void lane_closed(struct ibr_path *path, struct ibr_qp *qp)
{
	spin_lock_bh(&path->lock);
	ibr_lane_lose(path, qp, false);
	ibr_path_drive_locked(path);
	spin_unlock_bh(&path->lock);
}

static void cm_handle_up(struct ibr_cm *cm, struct ibr_link *link, struct link_event *event)
{
	switch (event->type) {
	case RDMA_CM_EVENT_DISCONNECTED:
	case RDMA_CM_EVENT_REJECTED:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
	case RDMA_CM_EVENT_ADDR_CHANGE:
		if (cm->lane)
			lane_closed(cm->path, link->qp);
		else
			ibr_path_broken(cm->path, link->qp, -ECONNRESET);
		return;
	default:
		return;
	}
}

static void cm_handle(struct ibr_cm *cm, struct link_event *event)
{
	struct ibr_link *link = event->link;

	if (event->type == RDMA_CM_EVENT_CONNECT_REQUEST) {
		kref_get(&link->ref);
		cm_asked(cm, link);
	} else if (link == cm->active) {
		cm_handle_active(cm, link, event);
	} else if (link == cm->passive) {
		cm_handle_passive(cm, link, event);
	} else if (link == cm->up) {
		cm_handle_up(cm, link, event);
	}
}

static struct link_event *cm_next(struct ibr_cm *cm)
{
	struct link_event *event;

	spin_lock_bh(&events_lock);
	event = list_first_entry_or_null(&cm->events, struct link_event, entry);
	if (event)
		list_del(&event->entry);
	spin_unlock_bh(&events_lock);
	return event;
}

static void cm_work(struct work_struct *work)
{
	struct ibr_cm *cm = container_of(work, struct ibr_cm, work);
	struct link_event *event;

	mutex_lock(&cm->path->connect_lock);
	while ((event = cm_next(cm))) {
		cm_handle(cm, event);
		event_free(event);
	}
	/*
	 * A packet has confirmed what the third step would. The CM is not told (rdma_notify()): only a worker of its own
	 * would stop its repeating the second step then, and not if the id is destroyed first, which would wait for the
	 * last repeat, a minute. By itself it repeats that step until it gets the third one.
	 */
	if (cm->passive && cm->passive->qp && READ_ONCE(cm->passive->qp->early_called))
		cm_up(cm, cm->passive);
	mutex_unlock(&cm->path->connect_lock);
	cm_put(cm);
}

static void cm_timer(struct work_struct *work)
{
	struct ibr_cm *cm = container_of(to_delayed_work(work), struct ibr_cm, timer);

	mutex_lock(&cm->path->connect_lock);
	/* It may have been armed anew, or disarmed, while this one waited for the lock. */
	if (READ_ONCE(cm->closed) || time_before(jiffies, cm->timer_at))
		goto out;
	if (cm->active) {
		int error = cm->active->state == LINK_CALLING ? -ETIMEDOUT : -EHOSTUNREACH;

		cm_retry(cm, error, 0);
	} else if (cm->passive && cm_type(cm) != IB_QPT_UD) {
		link_drop(&cm->passive);
		if (cm->wanted)
			cm_call(cm);
	} else if (cm->wanted || cm->passive || cm->refresh) {
		cm_call(cm);
	}
out:
	mutex_unlock(&cm->path->connect_lock);
	cm_put(cm);
}

/* ---- stopping ----------------------------------------------------------------------------- */

static void cm_close(struct ibr_cm *cm)
{
	struct link_event *event, *next;
	LIST_HEAD(events);

	spin_lock_bh(&events_lock);
	cm->closed = true;
	*cm_place(cm->path, cm->lane) = NULL;
	list_splice_init(&cm->events, &events);
	spin_unlock_bh(&events_lock);

	cm_disarm(cm);
	link_drop(&cm->active);
	link_drop(&cm->passive);
	list_for_each_entry_safe(event, next, &events, entry) {
		list_del(&event->entry);
		if (event->type == RDMA_CM_EVENT_CONNECT_REQUEST) {
			kref_get(&event->link->ref);
			id_reject(event->link->id, &event->hello, WIRE_REJECT_BUSY);
			link_close(event->link);
		}
		event_free(event);
	}
}

static void connect_stop(struct ibr_path *path, bool lane)
{
	struct ibr_cm *cm;

	lockdep_assert_held(&path->connect_lock);
	cm = cm_find(path, lane);
	if (!cm)
		return;
	link_drop(&cm->up);
	if (path_gone(path)) {
		cm_close(cm);
		cm_put(cm); /* the path's */
	}
	cm_put(cm);
}

void ibr_connect_stop_lane(struct ibr_path *path)
{
	connect_stop(path, true);
}

void ibr_connect_stop(struct ibr_path *path)
{
	path_let_go(path);
	connect_stop(path, false);
	if (!path_gone(path))
		return;
	spin_lock_bh(&path->lock);
	ibr_lane_drop(path);
	spin_unlock_bh(&path->lock);
	connect_stop(path, true);
}

/* ---- the handler -------------------------------------------------------------------------- */

/* Answer from the handler: the CM destroys the id when it returns. */
static int request_reject(struct rdma_cm_id *id, const struct wire_hello *hello, u8 reason)
{
	id_reject(id, hello, reason);
	return -ECONNREFUSED;
}

/* What a HELLO says, and, on InfiniBand, who says it: else @gid is 0. */
static enum wire_verdict request_parse(const struct rdma_cm_id *id, const struct rdma_cm_event *cm_event,
				       struct wire_hello *hello, u8 gid[16])
{
	const void *data = cm_event->param.conn.private_data;
	u32 length = cm_event->param.conn.private_data_len;
	struct wire_caller caller = {};

	if (id->route.addr.src_addr.ss_family == AF_IB) {
		if (length < sizeof(caller))
			return WIRE_BAD_LENGTH;
		memcpy(&caller, data, sizeof(caller));
		if (!memchr_inv(caller.gid, 0, sizeof(caller.gid)))
			return WIRE_BAD_FRAME;
		data += sizeof(caller);
		length -= sizeof(caller);
	}
	memcpy(gid, caller.gid, sizeof(caller.gid));
	return wire_hello_parse(data, length, hello);
}

/* From whom, to whom, and how. @gid: whom the caller calls himself, or 0: the CM knows. */
static int request_path_key(struct rdma_cm_id *id, const struct wire_hello *hello, const u8 gid[16],
			    struct ibr_path_key *key)
{
	struct sa_path_rec *rec = id->route.path_rec;

	memset(key, 0, sizeof(*key));
	key->mode = hello->mode;
	if (addr_gid(&id->route.addr.src_addr, key->local_gid) ||
	    addr_gid(&id->route.addr.dst_addr, key->remote_gid))
		return -EINVAL;
	/* Who asks for datagrams is looked up before he is believed. */
	if (id->qp_type == IB_QPT_UD && memchr_inv(gid, 0, 16))
		memcpy(key->remote_gid, gid, sizeof(key->remote_gid));
	/* The address is only what the caller says it is; the queue pair will speak to this one. */
	if (rec && rdma_protocol_roce(id->device, id->port_num) &&
	    memcmp(&rec->dgid, key->remote_gid, sizeof(key->remote_gid)))
		return -EINVAL;
	return 0;
}

/*
 * The path that a HELLO is about: of a lane, the one whose life it names; else one is made if there is none.
 * Return: path with a reference, or NULL, and @reason.
 */
static struct ibr_path *request_path(const struct ibr_path_key *key, const struct wire_hello *hello, bool lane,
				     u8 *reason)
{
	struct ibr_remote remote;
	struct ibr_path *path;

	if (lane) {
		*reason = WIRE_REJECT_UNKNOWN;
		path = ibr_path_find_key(key);
		if (!path)
			return NULL;
		hello_remote(hello, &remote);
		if (ibr_lane_knows(path, &remote))
			return path;
		ibr_path_put(path);
		return NULL;
	}
	path = ibr_path_get_key(key, true);
	*reason = path == ERR_PTR(-ENODEV) ? WIRE_REJECT_MODE : WIRE_REJECT_BUSY;
	if (IS_ERR(path))
		return NULL;
	return path;
}

static int link_request(struct rdma_cm_id *id, struct rdma_cm_event *cm_event)
{
	struct wire_hello hello = {};
	struct link_event *event;
	struct ibr_path_key key;
	struct ibr_link *link;
	struct ibr_path *path;
	struct ibr_cm *cm;
	bool lane;
	u8 reason;
	u8 gid[16];

	switch (request_parse(id, cm_event, &hello, gid)) {
	case WIRE_OK:
		break;
	case WIRE_BAD_VERSION:
		return request_reject(id, &hello, WIRE_REJECT_VERSION);
	default:
		return request_reject(id, &hello, WIRE_REJECT_MALFORMED);
	}
	if (hello.step != WIRE_HELLO || !hello_sane(&hello))
		return request_reject(id, &hello, WIRE_REJECT_MALFORMED);
	lane = hello_of_lane(&hello, id->qp_type);
	if ((mode_type(hello.mode) != id->qp_type && !lane) ||
	    (ibr_mode_native(hello.mode) && !READ_ONCE(ibr_allow_native)))
		return request_reject(id, &hello, WIRE_REJECT_MODE);
	if (request_path_key(id, &hello, gid, &key))
		return request_reject(id, &hello, WIRE_REJECT_MALFORMED);
	if (atomic_read(&passive_count) >= PASSIVE_MAX)
		return request_reject(id, &hello, WIRE_REJECT_BUSY);

	path = request_path(&key, &hello, lane, &reason);
	if (!path)
		return request_reject(id, &hello, reason);
	cm = cm_get(path, lane);
	ibr_path_put(path);
	if (!cm)
		return request_reject(id, &hello, WIRE_REJECT_BUSY);
	link = link_create(cm, true);
	cm_put(cm);
	if (!link)
		return request_reject(id, &hello, WIRE_REJECT_BUSY);
	event = event_create(link, RDMA_CM_EVENT_CONNECT_REQUEST);
	if (!event) {
		link_put(link);
		return request_reject(id, &hello, WIRE_REJECT_BUSY);
	}
	link->hello = hello;
	link->id = id;
	event->hello = hello;
	id->context = link;
	if (!event_post(event)) {
		event_free(event);
		link_put(link);
		return request_reject(id, &hello, WIRE_REJECT_BUSY);
	}
	/* The event's reference keeps it until the work takes it over. */
	link_put(link);
	return 0;
}

/* Context: one of the CM's workqueues, the id's handler lock held; see the top of this file. */
static int link_handler(struct rdma_cm_id *id, struct rdma_cm_event *cm_event)
{
	struct ibr_link *link = id->context;
	struct link_event *event;
	const void *data = cm_event->param.conn.private_data;
	u8 length = cm_event->param.conn.private_data_len;

	if (cm_event->event == RDMA_CM_EVENT_CONNECT_REQUEST)
		return link_request(id, cm_event);
	/* Listeners have no link; those of a device are gone before the device is. */
	if (!link)
		return 0;
	/* Without memory the event is lost; the timers, or the peer's silence, make up for it. */
	event = event_create(link, cm_event->event);
	if (!event)
		return 0;
	event->status = cm_event->status;
	event->verdict = WIRE_BAD_LENGTH;
	switch (cm_event->event) {
	case RDMA_CM_EVENT_REJECTED:
		data = rdma_consumer_reject_data(id, cm_event, &length);
		event->consumer = data && length;
		break;
	case RDMA_CM_EVENT_UNREACHABLE:
		/* Datagrams: a refusal comes as this, with the CM's own status. */
		event->consumer = id->qp_type == IB_QPT_UD && cm_event->status == IB_SIDR_REJECT;
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		if (id->qp_type == IB_QPT_UD && !link->passive) {
			struct ibr_port *port = ibr_port_find(id->device, id->port_num);

			if (port) {
				event->dest = ibr_dest_create(port, link->cm->path,
							      &cm_event->param.ud.ah_attr,
							      cm_event->param.ud.qp_num);
				if (IS_ERR(event->dest))
					event->dest = NULL;
				ibr_port_put(port);
			}
		}
		break;
	default:
		break;
	}
	if (data && length)
		event->verdict = wire_hello_parse(data, length, &event->hello);
	if (!event_post(event))
		event_free(event);
	return 0;
}

/* ---- listening ---------------------------------------------------------------------------- */

static struct rdma_cm_id *listener_open(struct ibr_port *port, const u8 *gid, enum ib_qp_type type)
{
	struct sockaddr_storage addr;
	struct rdma_cm_id *id;
	int ret;

	id = rdma_create_id(&init_net, link_handler, NULL, type_space(type), type);
	if (IS_ERR(id))
		return id;
	addr_fill(&addr, gid, port->layer, type, type_port(type));
	ret = rdma_bind_addr(id, (struct sockaddr *)&addr);
	if (ret)
		goto err_destroy;
	if (id->device != port->device->ib || id->port_num != port->num) {
		ret = -EADDRNOTAVAIL;
		goto err_destroy;
	}
	ret = rdma_listen(id, LISTEN_BACKLOG);
	if (ret)
		goto err_destroy;
	return id;

err_destroy:
	rdma_destroy_id(id);
	return ERR_PTR(ret);
}

struct ibr_listener *ibr_listener_create(struct ibr_port *port, const u8 gid[16])
{
	static const enum ib_qp_type types[] = { IB_QPT_RC, IB_QPT_UC, IB_QPT_UD };
	struct ibr_listener *listener;
	unsigned int i;

	listener = kzalloc(sizeof(*listener), GFP_KERNEL);
	if (!listener)
		return ERR_PTR(-ENOMEM);
	for (i = 0; i < ARRAY_SIZE(types); i++) {
		struct rdma_cm_id *id;

		if (!(port->device->types & BIT(types[i])))
			continue;
		id = listener_open(port, gid, types[i]);
		if (IS_ERR(id)) {
			ibr_listener_destroy(listener);
			return ERR_CAST(id);
		}
		if (types[i] == IB_QPT_RC)
			listener->rc = id;
		else if (types[i] == IB_QPT_UC)
			listener->uc = id;
		else
			listener->ud = id;
	}
	return listener;
}

void ibr_listener_destroy(struct ibr_listener *listener)
{
	if (listener->rc)
		rdma_destroy_id(listener->rc);
	if (listener->uc)
		rdma_destroy_id(listener->uc);
	if (listener->ud)
		rdma_destroy_id(listener->ud);
	kfree(listener);
}
