// SPDX-License-Identifier: GPL-2.0-only
/*
 * The table of paths, and the life of each: made on demand, connected, broken and rebuilt, given up,
 * removed with its port. What happens on a path that is up is in drive.c.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/jhash.h>
#include <linux/module.h>
#include <linux/random.h>
#include <linux/slab.h>

#include "device.h"
#include "drive.h"
#include "flow.h"
#include "memory.h"
#include "params.h"
#include "path.h"
#include "transport/transport.h"
#include "transport/verbs.h"

#define RECONNECT_MS		500
#define MEMORY_RETRY_MS		100	/* ... and where it was memory that there was none of */
#define MEMORY_TRIES		50u
#define TARGET_US		100	/* of delay by queues: 125 kB at 10 Gb/s */
#define TARGET_SOFTWARE_US	50000	/* ... and by processors that do something else, for some turns of theirs */
#define TARGET_MAX_US		100000
#define RTO_MIN_US		4000	/* a node under load answers late */
#define RTO_MIN_ETHERNET_US	1000	/* ... but where queues drop packets, waiting is dearer than asking in vain */
#define PATH_LOOKS		1024	/* flows looked at while the lock is held */
#define PATH_IDLE_S		30	/* after which a path that nobody uses is removed, at most twice this */

static unsigned int window_pkts = 64;
module_param(window_pkts, uint, 0644);
MODULE_PARM_DESC(window_pkts, "packets in flight on a path, 2 to 64 (new connections)");

enum { CONGESTION_AUTO, CONGESTION_FIXED, CONGESTION_DELAY };

static const char *const congestion_names[] = {
	[CONGESTION_AUTO] = "auto",
	[CONGESTION_FIXED] = "fixed",
	[CONGESTION_DELAY] = "delay",
};

static int congestion = CONGESTION_AUTO;

static int congestion_set(const char *name, const struct kernel_param *param)
{
	int index = sysfs_match_string(congestion_names, name);

	if (index < 0) {
		pr_err("congestion: '%s' is not one of auto, fixed, delay\n", name);
		return index;
	}
	WRITE_ONCE(*(int *)param->arg, index);
	return 0;
}

static int congestion_get(char *buffer, const struct kernel_param *param)
{
	return sysfs_emit(buffer, "%s\n", congestion_names[READ_ONCE(*(int *)param->arg)]);
}

static const struct kernel_param_ops congestion_ops = { .set = congestion_set, .get = congestion_get };

module_param_cb(congestion, &congestion_ops, &congestion, 0644);
MODULE_PARM_DESC(congestion, "auto, fixed (window) or delay; auto: delay on RoCE (new connections)");

static unsigned int target_us;
module_param(target_us, uint, 0644);
MODULE_PARM_DESC(target_us, "congestion=delay: delay to aim at, us; 0: by device (new connections)");

static unsigned int peer_timeout_ms = 30000;
module_param(peer_timeout_ms, uint, 0644);
MODULE_PARM_DESC(peer_timeout_ms, "silence after which a peer that owes an answer is given up, ms");

static unsigned int rto_min_us;
module_param(rto_min_us, uint, 0644);
MODULE_PARM_DESC(rto_min_us, "lower bound of the retransmission time-out, us; 0: by the fabric (new connections)");

u32 ibr_paths_asked_max = 64u << 10;
u8 ibr_instance[16];
struct workqueue_struct *ibr_wq;

static const struct rhashtable_params by_key = {
	.head_offset = offsetof(struct ibr_path, node),
	.key_offset = offsetof(struct ibr_path, key),
	.key_len = sizeof(struct ibr_path_key),
	.automatic_shrinking = true,
};

static const struct rhashtable_params by_token = {
	.head_offset = offsetof(struct ibr_path, token_node),
	.key_offset = offsetof(struct ibr_path, token),
	.key_len = sizeof(u32),
	.automatic_shrinking = true,
};

static struct rhashtable paths;
static struct rhashtable tokens;
static DEFINE_MUTEX(table_lock);	/* makes looking up and inserting one step; covers @path_list */
static LIST_HEAD(path_list);
static u32 path_count;			/* in @path_list */
static u32 asked_count;			/* ... because a peer asked */
static bool closing;

static void paths_prune(struct work_struct *work);
static DECLARE_DELAYED_WORK(prune_work, paths_prune);

u64 ibr_peer_timeout_ns(void)
{
	return (u64)READ_ONCE(peer_timeout_ms) * NSEC_PER_MSEC;
}

static const struct ibr_transport *transport_of(const struct ibr_path_key *key)
{
	if (!memcmp(key->local_gid, key->remote_gid, sizeof(key->local_gid)) &&
	    (ibr_loopback || ibr_gid_loopback(key->remote_gid)))
		return &ibr_transport_loop;
	switch (key->mode) {
	case IBRELK_MODE_RC_NATIVE:
	case IBRELK_MODE_RC_RELIABLE:
		return &ibr_transport_rc;
	case IBRELK_MODE_UC_NATIVE:
	case IBRELK_MODE_UC_RELIABLE:
		return &ibr_transport_uc;
	case IBRELK_MODE_AUTO:
		return &ibr_transport_auto;
	default:
		return &ibr_transport_ud;
	}
}

static void path_connect_work(struct work_struct *work);

/* A path that nobody knows yet. Context: process, without table_lock: his group may let who runs wait for memory. */
static struct ibr_path *path_create(const struct ibr_path_key *key, const struct ibr_transport *transport, bool asked)
{
	struct ibr_path *path;
	int ret;

	path = kzalloc(sizeof(*path), GFP_KERNEL_ACCOUNT);
	if (!path)
		return ERR_PTR(-ENOMEM);
	kref_init(&path->ref);
	path->key = *key;
	path->transport = transport;
	path->asked = asked;
	path->native = ibr_mode_native(key->mode);
	path->hash_seed = get_random_u32();
	mutex_init(&path->connect_lock);
	INIT_DELAYED_WORK(&path->connect_work, path_connect_work);
	spin_lock_init(&path->lock);
	path->state = IBRELK_PATH_DOWN;
	path->timer_at = REL_TIME_NEVER;
	path->look_at = REL_TIME_NEVER;
	path->share = IBR_CREDIT_PKTS;
	ibr_drive_init(path);
	ibr_lane_init(path);
	INIT_LIST_HEAD(&path->control);
	INIT_LIST_HEAD(&path->repeat);
	INIT_LIST_HEAD(&path->opening);
	INIT_LIST_HEAD(&path->ready);
	INIT_LIST_HEAD(&path->patient);
	INIT_LIST_HEAD(&path->bulk);
	INIT_LIST_HEAD(&path->outflows);
	INIT_LIST_HEAD(&path->inflows);
	INIT_LIST_HEAD(&path->shares);
	xa_init_flags(&path->handles, XA_FLAGS_ALLOC1 | XA_FLAGS_LOCK_BH);

	ret = transport->prepare ? transport->prepare(path) : 0;
	if (ret) {
		kfree(path);
		return ERR_PTR(ret);
	}
	return path;
}

static void path_release(struct ibr_path *path)
{
	if (path->transport->release)
		path->transport->release(path);
}

/* Return: 0 or -errno. Context: table_lock held. */
static int path_insert(struct ibr_path *path)
{
	int ret;

	if (path->transport != &ibr_transport_loop)
		path->fabric = ibr_device_fabric(path->key.local_gid);
	/* A token names one path of this node; a clash is drawn again. */
	do {
		path->token = get_random_u32();
		ret = rhashtable_insert_fast(&tokens, &path->token_node, by_token);
	} while (ret == -EEXIST);
	if (ret)
		return ret;
	ret = rhashtable_insert_fast(&paths, &path->node, by_key);
	if (ret) {
		rhashtable_remove_fast(&tokens, &path->token_node, by_token);
		synchronize_rcu();
		return ret;
	}
	path->hashed = true;
	list_add_tail(&path->all, &path_list);
	path_count++;
	asked_count += path->asked;
	queue_delayed_work(ibr_wq, &prune_work, PATH_IDLE_S * HZ);
	return 0;
}

struct ibr_path *ibr_path_find_key(const struct ibr_path_key *key)
{
	struct ibr_path *path;

	mutex_lock(&table_lock);
	path = rhashtable_lookup_fast(&paths, key, by_key);
	if (path)
		ibr_path_get(path);
	mutex_unlock(&table_lock);
	return path;
}

/* May there be such a path, which there is not yet? Return: 0, or as ibr_path_get_key(). Context: table_lock held. */
static int path_admit(const struct ibr_path_key *key, const struct ibr_transport *transport, bool asked)
{
	if (asked && asked_count >= ibr_paths_asked_max)
		return -EUSERS;
	if (transport == &ibr_transport_loop)
		return asked ? -ENODEV : 0;	/* this node reaches itself without asking */
	if (!(ibr_device_modes(key->local_gid) & (1u << key->mode)))
		return -ENODEV;
	/* It has one queue pair, which needs another one. */
	if (transport->type != IB_QPT_UD && !memcmp(key->local_gid, key->remote_gid, sizeof(key->local_gid)))
		return -EHOSTUNREACH;
	return 0;
}

/*
 * The path with @key, with a reference. There is none: @made, which is in the table then; or, if that is NULL, NULL: it
 * is to be made.
 */
static struct ibr_path *path_find_or_add(const struct ibr_path_key *key, const struct ibr_transport *transport,
					 bool asked, struct ibr_path *made)
{
	struct ibr_path *path;
	int ret = 0;

	mutex_lock(&table_lock);
	path = rhashtable_lookup_fast(&paths, key, by_key);
	if (closing || (path && asked && path->transport == &ibr_transport_loop)) {
		ret = -ENODEV;
	} else if (!path) {
		ret = path_admit(key, transport, asked);
		if (!ret && made)
			ret = path_insert(made);
		path = made;
	}
	if (!ret && path) {
		ibr_path_get(path);
		path->used = jiffies;
	}
	mutex_unlock(&table_lock);
	return ret ? ERR_PTR(ret) : path;
}

struct ibr_path *ibr_path_get_key(const struct ibr_path_key *key, bool asked)
{
	const struct ibr_transport *transport = transport_of(key);
	struct ibr_path *path, *made;

	path = path_find_or_add(key, transport, asked, NULL);
	if (path)
		return path;
	made = path_create(key, transport, asked);
	if (IS_ERR(made))
		return made;
	path = path_find_or_add(key, transport, asked, made);
	if (path != made) {
		path_release(made);
		kfree(made);
	}
	return path;
}

struct ibr_path *ibr_path_find_token(u32 token)
{
	return rhashtable_lookup(&tokens, &token, by_token);
}

void ibr_path_get(struct ibr_path *path)
{
	kref_get(&path->ref);
}

static void path_free_ring(struct ibr_path *path)
{
	kfree(path->ring);
	path->ring = NULL;
}

static void path_free(struct kref *ref)
{
	struct ibr_path *path = container_of(ref, struct ibr_path, ref);
	struct ibr_share *share, *next;

	list_for_each_entry_safe(share, next, &path->shares, node) {
		list_del(&share->node);
		kfree(share);
	}
	xa_destroy(&path->handles);
	path_free_ring(path);
	kfree_rcu(path, rcu);
}

void ibr_path_put(struct ibr_path *path)
{
	kref_put(&path->ref, path_free);
}

/* Does anything wait for the peer to go on? Context: path->lock held. */
static bool path_waits(const struct ibr_path *path)
{
	struct ibr_outflow *out;
	struct ibr_inflow *in;

	list_for_each_entry(out, &path->outflows, on_path)
		if (!list_empty(&out->queue) || !list_empty(&out->sent))
			return true;
	list_for_each_entry(in, &path->inflows, on_path)
		if (!list_empty(&in->transfers))
			return true;
	return false;
}

/* Is there anything that needs a connection? Context: path->lock held. */
static bool path_wanted(const struct ibr_path *path)
{
	if (!list_empty(&path->control) || !list_empty(&path->repeat) || !list_empty(&path->opening) ||
	    !list_empty(&path->bulk) || !list_empty(&path->ready))
		return true;
	if (path->established && rel_in_flight(&path->rel))
		return true;
	return path_waits(path);
}

/*
 * A path on which nothing happens gives its ring back.
 *
 * A send waits for its FIN, or a receive for its data, for as long as the other side likes. But if that side is not
 * there any more, nothing would ever tell: nothing is in flight whose ACK could be missed. So a peer of
 * whom nothing was heard is asked. Context: path->lock held.
 */
void ibr_path_look(struct ibr_path *path)
{
	const u64 patience_ns = IBR_LOOK_MS * NSEC_PER_MSEC;
	u64 since = path->now;

	lockdep_assert_held(&path->lock);
	if (path->state == IBRELK_PATH_UP) {
		if (path->now - path->rel.heard_ns < patience_ns)
			since = path->rel.heard_ns;
		else if (path_waits(path))
			rel_ask(&path->rel, path->now);
		else if (rel_ring_drop(&path->rel))
			path_free_ring(path);
	}
	path->look_at = path->flow_count || path->ring ? since + patience_ns : REL_TIME_NEVER;
}

void ibr_path_want(struct ibr_path *path)
{
	lockdep_assert_held(&path->lock);
	if (path->removed || path->state == IBRELK_PATH_UP || path->state == IBRELK_PATH_CONNECTING)
		return;
	if (path->state == IBRELK_PATH_DOWN) {
		path->state = IBRELK_PATH_CONNECTING;
		/* As long as there was nothing to send, nobody has missed the peer. */
		if (path->broken_since)
			path->broken_since = ktime_get_ns();
		if (path->established)
			rel_debt_begin(&path->rel, ktime_get_ns());
	}
	queue_delayed_work(ibr_wq, &path->connect_work, 0);
}

int ibr_path_renew_token(struct ibr_path *path)
{
	int ret = 0;

	lockdep_assert_held(&path->connect_lock);
	spin_lock_bh(&path->lock);
	if (!path->renew || path->removed)
		goto out;
	if (path->hashed)
		rhashtable_remove_fast(&tokens, &path->token_node, by_token);
	do {
		path->token = get_random_u32();
		ret = ibr_alloc_fails() ? -ENOMEM :
					  rhashtable_insert_fast(&tokens, &path->token_node, by_token);
	} while (ret == -EEXIST);
	path->hashed = !ret;
	path->renew = ret;
out:
	spin_unlock_bh(&path->lock);
	return ret;
}

/*
 * The one place that makes and ends connections. Serialised by connect_lock with the transport's own
 * events. A broken path first lets go of what is left of the old connection.
 */
static void path_connect_work(struct work_struct *work)
{
	struct ibr_path *path = container_of(to_delayed_work(work), struct ibr_path, connect_work);
	bool wanted = false, broken;
	int ret;

	mutex_lock(&path->connect_lock);
	spin_lock_bh(&path->lock);
	broken = path->state == IBRELK_PATH_BROKEN;
	spin_unlock_bh(&path->lock);

	if (broken)
		path->transport->disconnect(path);
	ret = ibr_path_renew_token(path);

	/*
	 * Asked and answered under one lock: whoever queues a send later sees the state and asks again. What has
	 * broken only now still holds on to its connection, and has queued this work again.
	 */
	spin_lock_bh(&path->lock);
	if (path->state != IBRELK_PATH_UP && (broken || path->state != IBRELK_PATH_BROKEN) && !path->removed) {
		wanted = path_wanted(path);
		path->state = wanted ? IBRELK_PATH_CONNECTING : IBRELK_PATH_DOWN;
	}
	spin_unlock_bh(&path->lock);

	if (wanted) {
		if (!ret)
			ret = path->transport->connect(path);
		/* A shortage of memory passes, as a rule. */
		if (ret == -ENOMEM && path->connect_tries++ < MEMORY_TRIES) {
			queue_delayed_work(ibr_wq, &path->connect_work, msecs_to_jiffies(MEMORY_RETRY_MS));
		} else {
			path->connect_tries = 0;
			if (ret)
				ibr_path_failed(path, ret);
		}
	} else {
		path->connect_tries = 0;
	}
	mutex_unlock(&path->connect_lock);
}

static void forget(struct rel_conn *conn, void *cookie)
{
	struct ibr_frag *frag, *next;

	for (frag = cookie; frag; frag = next) {
		next = frag->next;
		if (frag->answers)
			ibr_inflow_answered(frag->answers, true);
		ibr_frag_put(frag);
	}
}

/* Drop what waits to be sent. Context: path->lock held. */
static void path_purge(struct ibr_path *path, struct list_head *queue)
{
	struct ibr_frag *frag;

	while ((frag = list_first_entry_or_null(queue, struct ibr_frag, link))) {
		list_del_init(&frag->link);
		path->queue--;
		if (frag->answers)
			ibr_inflow_answered(frag->answers, true);
		ibr_frag_put(frag);
	}
}

/*
 * End this life: what is on the path fails with @error. @restart: a new one begins at once; flows that
 * are only being opened have not met the old one, and are asked for again.
 */
static void path_reset(struct ibr_path *path, int error, bool restart)
{
	struct ibr_outflow *out;
	struct ibr_inflow *in;
	LIST_HEAD(ending);
	LIST_HEAD(opening);

	lockdep_assert_held(&path->lock);
	ibr_lane_drop(path);
	path->error = error;
	list_splice_init(&path->outflows, &ending);
	while ((out = list_first_entry_or_null(&ending, struct ibr_outflow, on_path))) {
		if (restart && out->state == IBR_OUTFLOW_OPENING) {
			list_move_tail(&out->on_path, &opening);
			continue;
		}
		list_del_init(&out->on_path);
		path->flow_count--;
		ibr_outflow_fail(out, error);
	}
	list_splice(&opening, &path->outflows);
	while ((in = list_first_entry_or_null(&path->inflows, struct ibr_inflow, on_path)))
		ibr_inflow_drop(in, error, false);
	path_purge(path, &path->control);
	path_purge(path, &path->repeat);
	ibr_windows_fenced(path, 0);
	if (path->established) {
		rel_conn_drain(&path->rel, forget);
		ibr_path_add_engine(path, &path->counters);
		path->renew = true;
	}
	path->doomed = 0;		/* what had no memory to tell the peer of its end has none to tell any more */
	path->established = false;
	path_free_ring(path);
	path->broken_since = 0;
	path->memory = 0;
	list_for_each_entry(out, &path->outflows, on_path)
		ibr_outflow_ask(out);
}

void ibr_path_reset(struct ibr_path *path, int error)
{
	path_reset(path, error, false);
}

static void path_set_congestion(const struct ibr_path *path, struct rel_config *config)
{
	int how = READ_ONCE(congestion);
	u32 target = min_t(u32, READ_ONCE(target_us), TARGET_MAX_US);

	if (how == CONGESTION_AUTO)
		how = path->fabric == IBR_FABRIC_LOSSLESS || path->native ? CONGESTION_FIXED : CONGESTION_DELAY;
	config->congestion = how == CONGESTION_FIXED ? &rel_congestion_fixed : &rel_congestion_delay;
	config->target_us = target ?: path->fabric == IBR_FABRIC_SOFTWARE ? TARGET_SOFTWARE_US : TARGET_US;
}

static u32 path_rto_min_us(const struct ibr_path *path)
{
	u32 rto_min = READ_ONCE(rto_min_us);

	if (!rto_min)
		rto_min = path->fabric == IBR_FABRIC_ETHERNET ? RTO_MIN_ETHERNET_US : RTO_MIN_US;
	return clamp(rto_min, 100u, 1000000u);
}

static void path_start_life(struct ibr_path *path, const struct ibr_remote *remote, const struct ibr_qp *qp)
{
	struct rel_config config = {
		.native = path->native,
		.window_pkts = clamp(READ_ONCE(window_pkts), 2u, 64u),
		.credit_pkts = qp ? qp->credits : IBR_CREDIT_PKTS,	/* as the peer was told */
		.peer_credit_pkts = remote->credits,
		/* Tokens are random, so they serve as first numbers too. */
		.number_start = path->token,
		.peer_number_start = remote->token,
		.ack_every_pkts = 24,
		.ack_delay_us = 200,
		.rto_initial_us = 20000,
		.rto_min_us = path_rto_min_us(path),
		.rto_max_us = 1000000,
		.seed = path->hash_seed,
	};

	path_set_congestion(path, &config);
	rel_conn_init(&path->rel, &config, &ibr_drive_ops, ktime_get_ns());
	rel_credit_share(&path->rel, min(path->share, config.credit_pkts));
	path->established = true;
	path->counters.lives++;
	ibr_lane_start(path);
}

bool ibr_path_connected(struct ibr_path *path, const struct ibr_remote *remote, struct ibr_qp *qp,
			void *transport_data)
{
	u32 payload_max = min_t(u32, remote->packet_max, IBR_FRAG_PAYLOAD_MAX) -
			  sizeof(struct wire_header) - sizeof(struct wire_frame);
	bool same;

	lockdep_assert_held(&path->connect_lock);
	ibr_frag_refill();		/* for the requests of flows that are asked for again */
	spin_lock_bh(&path->lock);
	path->now = ktime_get_ns();
	same = path->established && remote->token == path->remote.token &&
	       !memcmp(remote->instance, path->remote.instance, sizeof(remote->instance));
	/* What was cut for larger packets could never be sent again; and the peer does not learn that they grow. */
	if (same && payload_max < path->payload_max) {
		path_reset(path, -ECONNRESET, true);
		same = false;
	} else if (same) {
		payload_max = path->payload_max;
	}
	/* The peer was told the token of a life that is over. Both begin anew, with another one. */
	if (path->renew && !path->removed) {
		path->state = IBRELK_PATH_DOWN;
		if (path_wanted(path))
			ibr_path_want(path);
		spin_unlock_bh(&path->lock);
		return false;
	}
	/* Whoever has spoken with a former life of the peer learns that it is over. */
	if (!same && path->established)
		path_reset(path, -ECONNRESET, true);
	/* A lane's buffers have the size that packets had when it was made. */
	if (same && remote->packet_max != path->remote.packet_max)
		ibr_lane_drop(path);
	WARN_ON_ONCE(path->qp || path->transport_data);
	path->remote = *remote;
	path->qp = qp;
	path->transport_data = transport_data;
	path->payload_max = payload_max;
	path->renew = false;
	path->state = path->removed ? IBRELK_PATH_BROKEN : IBRELK_PATH_UP;
	path->up_since = path->now;
	path->error = 0;
	path->broken_since = 0;
	if (same) {
		path->counters.reconnects++;
		rel_conn_requeue(&path->rel, path->now);
	} else {
		path_start_life(path, remote, qp);
	}
	ibr_path_drive_locked(path);
	spin_unlock_bh(&path->lock);
	return true;
}

bool ibr_path_overdue(const struct ibr_path *path)
{
	return path->established && rel_debt_ns(&path->rel, path->now) > ibr_peer_timeout_ns();
}

void ibr_path_failed(struct ibr_path *path, int error)
{
	spin_lock_bh(&path->lock);
	path->now = ktime_get_ns();
	if (path->state == IBRELK_PATH_UP)
		goto out;
	path->error = error;
	/*
	 * A peer that was there may come back: what was accepted waits for it, up to the limit, which counts from
	 * its last sign of life, and not from the last handshake. A peer that was never there is an error at once.
	 */
	if (!path->removed && path->established && path->broken_since && path_wanted(path) &&
	    path->now - path->broken_since < ibr_peer_timeout_ns() && !ibr_path_overdue(path)) {
		path->state = IBRELK_PATH_CONNECTING;
		queue_delayed_work(ibr_wq, &path->connect_work, msecs_to_jiffies(RECONNECT_MS));
		goto out;
	}
	if (path->established && path->broken_since && path_wanted(path))
		ibr_path_mourn(path);
	path->state = IBRELK_PATH_DOWN;
	ibr_path_reset(path, error);
out:
	spin_unlock_bh(&path->lock);
}

/* Context: path->lock held. */
static void path_break(struct ibr_path *path, int error)
{
	/* It was made anew again and again, and nothing has ever come by it. */
	if (ibr_path_overdue(path)) {
		ibr_path_mourn(path);
		ibr_path_reset(path, -ETIMEDOUT);
	}
	path->state = IBRELK_PATH_BROKEN;
	path->error = error;
	if (!path->broken_since)
		path->broken_since = path->now;
	queue_delayed_work(ibr_wq, &path->connect_work, 0);
}

void ibr_path_broken(struct ibr_path *path, struct ibr_qp *qp, int error)
{
	spin_lock_bh(&path->lock);
	path->now = ktime_get_ns();
	if (path->lane.qp == qp && qp) {
		ibr_lane_lose(path, qp, true);
		ibr_path_drive_locked(path);
	} else if (path->state == IBRELK_PATH_UP && path->qp == qp && !path->removed) {
		path_break(path, error);
	}
	spin_unlock_bh(&path->lock);
}

void ibr_paths_break(struct ibr_port *port, const struct ibr_qp *qp, int error)
{
	struct ibr_path *path;

	/* Between the change, which is made, and the path's lock: whoever is not up yet sees that it has come. */
	atomic_inc_return(&port->breaks);
	mutex_lock(&table_lock);
	list_for_each_entry(path, &path_list, all) {
		spin_lock_bh(&path->lock);
		path->now = ktime_get_ns();
		if (path->state == IBRELK_PATH_UP && path->qp && path->qp->port == port && (!qp || path->qp == qp) &&
		    !path->removed)
			path_break(path, error);
		spin_unlock_bh(&path->lock);
	}
	mutex_unlock(&table_lock);
}

/*
 * Nothing was heard for a while although something is owed: the queue pair may have gone deaf, or the
 * peer may have been restarted. A new handshake tells, and repairs both. Context: path->lock held.
 */
void ibr_path_suspect(struct ibr_path *path)
{
	lockdep_assert_held(&path->lock);
	if (path->lane.qp)
		ibr_lane_lose(path, path->lane.qp, true);
	else if (path->state == IBRELK_PATH_UP && path->now - path->up_since > IBR_DEAF_MS * NSEC_PER_MSEC)
		path_break(path, -ETIMEDOUT);
}

void ibr_path_mourn(const struct ibr_path *path)
{
	const struct rel_conn *rel = &path->rel;
	u64 repeats = 0;
	u32 i;

	lockdep_assert_held(&path->lock);
	for (i = 0; i < REL_CAUSES; i++)
		repeats += rel->stats.lost[i];
	pr_info_ratelimited("%s-%s %pI6c to %pI6c: peer given up: heard %llu ms ago, epoch %8phN, life %08x, acknowledged up to %08x, sent up to %08x, in flight %016llx%016llx, RTT %u us, time-outs %llu, repeats %llu, handshakes %llu\n",
			    path->transport->name, path->native ? "native" : "reliable", path->key.local_gid,
			    path->key.remote_gid, div_u64(path->now - rel->heard_ns, NSEC_PER_MSEC),
			    path->remote.instance, path->remote.token, rel->sender.floor - 1, rel->sender.next - 1,
			    rel->sender.flight.word[1], rel->sender.flight.word[0],
			    rel->rtt.srtt_ns / (u32)NSEC_PER_USEC, rel->stats.timeouts, repeats,
			    path->counters.reconnects);
}

/* The peer has owed ACKs for too long. Context: path->lock held. */
void ibr_path_give_up(struct ibr_path *path, int error)
{
	lockdep_assert_held(&path->lock);
	ibr_path_reset(path, error);
	if (path->state == IBRELK_PATH_UP)
		path_break(path, error);
}

struct ibr_qp *ibr_path_detach(struct ibr_path *path, void **transport_data)
{
	struct ibr_qp *qp;

	spin_lock_bh(&path->lock);
	qp = path->qp;
	*transport_data = path->transport_data;
	path->qp = NULL;
	path->transport_data = NULL;
	if (path->state == IBRELK_PATH_UP) {
		path->state = IBRELK_PATH_BROKEN;
		if (!path->broken_since)
			path->broken_since = ktime_get_ns();
	}
	spin_unlock_bh(&path->lock);
	return qp;
}

/*
 * Take a path out of the world: unreachable for new work, then nothing of it running, then dropped.
 * (1) the table no longer finds it; (2) cancelling connect_work and the timer, and disconnecting,
 * wait for whatever still runs; (3) the table's reference goes.
 */
static void path_remove(struct ibr_path *path)
{
	spin_lock_bh(&path->lock);
	path->removed = true;
	spin_unlock_bh(&path->lock);
	cancel_delayed_work_sync(&path->connect_work);
	cancel_work_sync(&path->lane.work);

	mutex_lock(&path->connect_lock);
	path->transport->disconnect(path);
	mutex_unlock(&path->connect_lock);

	spin_lock_bh(&path->lock);
	if (path->hashed)
		rhashtable_remove_fast(&tokens, &path->token_node, by_token);
	path->hashed = false;
	path->state = IBRELK_PATH_DEAD;
	ibr_path_reset(path, -ENODEV);
	spin_unlock_bh(&path->lock);
	hrtimer_cancel(&path->timer);
	cancel_delayed_work_sync(&path->connect_work);
	path_release(path);
	ibr_path_put(path);
}

/* Take a path off the table, for paths_finish(). Context: table_lock held. */
static void path_unlist(struct ibr_path *path, struct list_head *doomed)
{
	list_move_tail(&path->all, doomed);
	path_count--;
	asked_count -= path->asked;
	rhashtable_remove_fast(&paths, &path->node, by_key);
}

static void paths_finish(struct list_head *doomed)
{
	struct ibr_path *path;

	while ((path = list_first_entry_or_null(doomed, struct ibr_path, all))) {
		list_del_init(&path->all);
		path_remove(path);
	}
}

static void paths_remove(const u8 *gid)
{
	struct ibr_path *path, *next;
	LIST_HEAD(doomed);

	mutex_lock(&table_lock);
	list_for_each_entry_safe(path, next, &path_list, all)
		if (!gid || !memcmp(path->key.local_gid, gid, sizeof(path->key.local_gid)))
			path_unlist(path, &doomed);
	mutex_unlock(&table_lock);
	paths_finish(&doomed);
	/* What it took off the table before us is waited for, too. */
	flush_work(&prune_work.work);
}

/*
 * Is it down, and does nobody but the table and connect.c know it? Nobody can come to know it while the
 * table is locked. One that leads back to this node has no peer that could leave, and so is up for good.
 * Context: table_lock held.
 */
static bool path_unused(struct ibr_path *path)
{
	unsigned int known;
	bool unused;

	spin_lock_bh(&path->lock);
	unused = path->state == IBRELK_PATH_DOWN ||
		 (path->state == IBRELK_PATH_UP && path->transport == &ibr_transport_loop);
	unused = unused && !path->flow_count && !path_wanted(path);
	spin_unlock_bh(&path->lock);
	known = !!READ_ONCE(path->cm) + !!READ_ONCE(path->lane.cm);
	smp_rmb(); /* seen first: one that comes between is a reference too many */
	return unused && kref_read(&path->ref) <= 1 + known;
}

void ibr_paths_prune(unsigned long idle)
{
	struct ibr_path *path, *next;
	LIST_HEAD(doomed);

	mutex_lock(&table_lock);
	list_for_each_entry_safe(path, next, &path_list, all)
		if (time_after_eq(jiffies, path->used + idle) && path_unused(path))
			path_unlist(path, &doomed);
	if (path_count && !closing)
		queue_delayed_work(ibr_wq, &prune_work, PATH_IDLE_S * HZ);
	mutex_unlock(&table_lock);
	paths_finish(&doomed);
}

static void paths_prune(struct work_struct *work)
{
	ibr_paths_prune(PATH_IDLE_S * HZ);
}

void ibr_paths_remove_port(const u8 gid[16])
{
	paths_remove(gid);
}

/*
 * End the endpoint's incoming flows among the next @left ones of the path, as many as there is certainly memory
 * for, if all windows that there can be are fenced, too. What was looked at goes to the end of the list, so that
 * nothing is looked at twice. Return: flows left.
 */
static u32 path_drop_some(struct ibr_path *path, const struct ibr_endpoint *endpoint, u32 left)
{
	u32 budget = IBR_FRAG_BATCH - WIRE_CTS_NAMES, looks = PATH_LOOKS;
	struct ibr_inflow *flow;

	ibr_frag_refill();
	spin_lock_bh(&path->lock);
	path->now = ktime_get_ns();
	for (left = min(left, path->inflow_count); left && budget && looks; left--, looks--) {
		flow = list_first_entry(&path->inflows, struct ibr_inflow, on_path);
		list_move_tail(&flow->on_path, &path->inflows);
		if (flow->endpoint == endpoint) {
			ibr_inflow_drop(flow, -ECONNRESET, true);
			budget--;
		}
	}
	ibr_path_drive_locked(path);
	spin_unlock_bh(&path->lock);
	return left;
}

void ibr_paths_drop_endpoint(const struct ibr_endpoint *endpoint)
{
	struct ibr_path *path;
	u32 left;

	mutex_lock(&table_lock);
	list_for_each_entry(path, &path_list, all)
		for (left = U32_MAX; left; left = path_drop_some(path, endpoint, left))
			cond_resched();
	mutex_unlock(&table_lock);
}

u32 ibr_paths_dump(struct ibrelk_path_info *info, u32 max)
{
	struct ibr_path *path;
	u32 count = 0;

	mutex_lock(&table_lock);
	list_for_each_entry(path, &path_list, all) {
		if (count++ < max)
			ibr_path_info(path, info++);
	}
	mutex_unlock(&table_lock);
	return count;
}

int ibr_path_init(void)
{
	int ret;

	get_random_bytes(ibr_instance, sizeof(ibr_instance));
	/* Nothing frees memory by it; and what runs on it may wait for others that do (a refresh for the prune). */
	ibr_wq = alloc_workqueue("ibrelk", WQ_UNBOUND, 0);
	if (!ibr_wq)
		return -ENOMEM;
	ret = rhashtable_init(&paths, &by_key);
	if (ret)
		goto err_wq;
	ret = rhashtable_init(&tokens, &by_token);
	if (ret)
		goto err_paths;
	return 0;

err_paths:
	rhashtable_destroy(&paths);
err_wq:
	destroy_workqueue(ibr_wq);
	return ret;
}

void ibr_path_exit(void)
{
	mutex_lock(&table_lock);
	closing = true;
	mutex_unlock(&table_lock);
	cancel_delayed_work_sync(&prune_work);
	paths_remove(NULL);
	/*
	 * Transfers and sends that are over, but for a worker that has their memory, are its own. It needs everything
	 * that goes now, and may drop the last reference to an endpoint. Nothing begins any more, so no other will.
	 */
	ibr_memory_drain();
	/* Waits for endpoints that were freed last, then for what RCU still frees. */
	destroy_workqueue(ibr_wq);
	rcu_barrier();
	rhashtable_destroy(&tokens);
	rhashtable_destroy(&paths);
}
