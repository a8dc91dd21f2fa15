// SPDX-License-Identifier: GPL-2.0-only
/*
 * Endpoints: made by an ioctl, found by number when a peer asks for one, fed with commands by the
 * doors, and taken apart when their descriptor is closed. What was buffered outlives the descriptor
 * for a while; everything that refers to the process's memory does not.
 */
#include <linux/cred.h>
#include <linux/genalloc.h>
#include <linux/memcontrol.h>
#include <linux/module.h>
#include <linux/poll.h>
#include <linux/random.h>
#include <linux/sched.h>
#include <linux/siphash.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "device.h"
#include "drive.h"
#include "flow.h"
#include "params.h"
#include "pins.h"
#include "transport/transport.h"
#include "user.h"

#define SENDS_DEFAULT		4096
#define RECVS_DEFAULT		65536
#define UNEXPECTED_DEFAULT	(2048u << 10)
#define UNEXPECTED_MIN		(64u << 10)
#define UNEXPECTED_MAX		(1024u << 20)
#define POOL_ORDER		8	/* granules of 256 bytes, the unit of message costs */
#define POOL_LOOK		4096u	/* granules that are looked at for a message, in each of two places */
#define POOL_HOLES		32u	/* ... and holes that are too small */
#define LINGER_POLL_MS		50
#define FIRST_FREE_ID		65536	/* smaller numbers are for well-known services */

static unsigned int linger_ms = 30000;
module_param(linger_ms, uint, 0644);
MODULE_PARM_DESC(linger_ms, "how long buffered sends may still go out after their endpoint was closed, ms");

static DEFINE_XARRAY_FLAGS(endpoints, XA_FLAGS_ALLOC1 | XA_FLAGS_LOCK_BH);	/* open ones, by number */
static u32 next_id;			/* where the search for a free one goes on */
static DEFINE_MUTEX(list_lock);		/* covers @endpoint_list */
static LIST_HEAD(endpoint_list);	/* open and lingering ones */
static bool hurry;			/* the module goes: nothing lingers */

/*
 * Job keys travel hashed, so that the wire does not show them. The default key of a user cannot be
 * asked for by number: it is hashed as another kind.
 */
static u64 endpoint_job(u64 key)
{
	static const siphash_key_t wire_key = { .key = { 0x6962726a6f626b65ull, 0x796861736876312eull } };

	if (key)
		return siphash_2u64(key, 1, &wire_key);
	return siphash_2u64(from_kuid(&init_user_ns, current_euid()), 2, &wire_key);
}

static u32 endpoint_mode(u32 modes)
{
	if (modes & (1u << IBRELK_MODE_AUTO))
		return IBRELK_MODE_AUTO;
	if (modes & (1u << IBRELK_MODE_UD_RELIABLE))
		return IBRELK_MODE_UD_RELIABLE;
	return IBRELK_MODE_RC_RELIABLE;
}

static int endpoint_check(struct ibrelk_endpoint_create *create)
{
	u32 modes;

	if (create->flags || create->reserved0 || memchr_inv(create->reserved, 0, sizeof(create->reserved)) ||
	    create->mode >= IBRELK_MODE_COUNT || create->local.generation || create->sends > IBR_SENDS_MAX ||
	    create->recvs > IBR_RECVS_MAX || create->unexpected_bytes > UNEXPECTED_MAX ||
	    (create->unexpected_bytes && create->unexpected_bytes < UNEXPECTED_MIN))
		return -EINVAL;
	if (ibr_mode_native(create->mode) && !READ_ONCE(ibr_allow_native))
		return -EPERM;
	if (ibr_gid_loopback(create->local.gid)) {
		modes = ~0u;
	} else {
		if (!ibr_device_ports())
			return -ENODEV;
		modes = ibr_device_modes(create->local.gid);
		if (!modes)
			return -EADDRNOTAVAIL;
	}
	if (!create->mode)
		create->mode = endpoint_mode(modes);
	if (!(modes & (1u << create->mode)))
		return -ENODEV;
	if (!create->sends)
		create->sends = SENDS_DEFAULT;
	if (!create->recvs)
		create->recvs = RECVS_DEFAULT;
	if (!create->unexpected_bytes)
		create->unexpected_bytes = UNEXPECTED_DEFAULT;
	create->unexpected_bytes = ALIGN(create->unexpected_bytes, 1u << POOL_ORDER);
	return 0;
}

/* @count free granules from @at on; or @granules, and @stop says how far the search went. */
static unsigned long pool_look(const unsigned long *map, unsigned long granules, unsigned long at, unsigned int count,
			       unsigned long *stop)
{
	unsigned long limit = min(granules, at + POOL_LOOK), used;
	unsigned int holes;

	for (holes = 0; holes < POOL_HOLES; holes++) {
		at = find_next_zero_bit(map, limit, at);
		if (at >= limit || count > granules - at)
			break;
		used = find_next_bit(map, at + count, at);
		if (used >= at + count)
			return at;
		at = used + 1;
	}
	*stop = min(at, granules);
	return granules;
}

unsigned long ibr_pool_find(unsigned long *map, unsigned long granules, unsigned long start, unsigned int count,
			    void *data, struct gen_pool *pool, unsigned long memory)
{
	unsigned long *next = data, stop = 0, at;

	at = pool_look(map, granules, start, count, &stop);
	if (at < granules)
		return at;
	at = pool_look(map, granules, max(stop, READ_ONCE(*next)), count, &stop);
	if (at < granules)
		stop = at + count;
	WRITE_ONCE(*next, stop < granules && count <= granules - stop ? stop : 0);
	return at;
}

static int endpoint_pool(struct ibr_endpoint *endpoint)
{
	size_t bytes = endpoint->unexpected_max;
	int ret;

	endpoint->pool_memory = __vmalloc(bytes, GFP_KERNEL_ACCOUNT | __GFP_ZERO | __GFP_NOWARN);
	if (!endpoint->pool_memory)
		return -ENOMEM;
	endpoint->pool = gen_pool_create(POOL_ORDER, NUMA_NO_NODE);
	if (!endpoint->pool)
		return -ENOMEM;
	gen_pool_set_algo(endpoint->pool, ibr_pool_find, &endpoint->pool_next);
	ret = gen_pool_add(endpoint->pool, (unsigned long)endpoint->pool_memory, bytes, NUMA_NO_NODE);
	return ret;
}

static void endpoint_free(struct ibr_endpoint *endpoint)
{
	struct ibr_contact *contact;
	unsigned long handle;

	WARN_ON_ONCE(atomic_read(&endpoint->buffers));
	xa_for_each(&endpoint->contacts, handle, contact) {
		kfree(contact);
		cond_resched();
	}
	xa_destroy(&endpoint->contacts);
	xa_destroy(&endpoint->claims);
	if (endpoint->pool)
		gen_pool_destroy(endpoint->pool);
	vfree(endpoint->pool_memory);
	mem_cgroup_put(endpoint->memcg);
	if (endpoint->send_ring)
		ibr_ring_put(endpoint->send_ring);
	if (endpoint->recv_ring)
		ibr_ring_put(endpoint->recv_ring);
	if (endpoint->space)
		ibr_space_close(endpoint->space);
	kvfree(endpoint);
}

static void endpoint_free_work(struct work_struct *work)
{
	endpoint_free(container_of(work, struct ibr_endpoint, free_work));
}

/* The last reference may go in softirq; freeing may sleep. */
static void endpoint_release(struct kref *ref)
{
	struct ibr_endpoint *endpoint = container_of(ref, struct ibr_endpoint, ref);

	queue_work(ibr_wq, &endpoint->free_work);
}

void ibr_endpoint_get(struct ibr_endpoint *endpoint)
{
	kref_get(&endpoint->ref);
}

void ibr_endpoint_put(struct ibr_endpoint *endpoint)
{
	kref_put(&endpoint->ref, endpoint_release);
}

struct ibr_endpoint *ibr_endpoint_find(u32 id)
{
	struct ibr_endpoint *endpoint;

	xa_lock_bh(&endpoints);
	endpoint = xa_load(&endpoints, id);
	if (endpoint && !kref_get_unless_zero(&endpoint->ref))
		endpoint = NULL;
	xa_unlock_bh(&endpoints);
	return endpoint;
}

bool ibr_endpoint_serves(const struct ibr_endpoint *endpoint, const struct ibr_path *path)
{
	static const u8 any[16];

	/* On its own node every endpoint is reached, by whichever of the node's addresses. */
	return path->transport == &ibr_transport_loop ||
	       !memcmp(endpoint->local.gid, any, sizeof(any)) ||
	       !memcmp(endpoint->local.gid, path->key.local_gid, sizeof(any));
}

/* ---- closing ------------------------------------------------------------------------------- */

static void endpoint_drop_waiting(struct ibr_endpoint *endpoint)
{
	struct match_message *found;
	struct ibr_message *message;
	struct match_recv *posted;
	unsigned long claim;

	xa_for_each(&endpoint->claims, claim, message) {
		spin_lock_bh(&endpoint->lock);
		xa_erase(&endpoint->claims, claim);
		endpoint->claimed--;
		ibr_message_unhold(endpoint, message);
		spin_unlock_bh(&endpoint->lock);
		ibr_message_discard(message, false);
		cond_resched();
	}
	for (;;) {
		cond_resched();
		spin_lock_bh(&endpoint->lock);
		posted = match_recv_first(&endpoint->match);
		if (posted)
			match_recv_remove(&endpoint->match, posted);
		found = posted ? NULL : match_message_first(&endpoint->match);
		message = found ? container_of(found, struct ibr_message, match) : NULL;
		if (message) {
			match_message_remove(&endpoint->match, found);
			ibr_message_unhold(endpoint, message);
		}
		spin_unlock_bh(&endpoint->lock);
		if (posted)
			ibr_recv_cancel(posted);
		else if (message)
			ibr_message_discard(message, false);
		else
			return;
	}
}

/* Every flow of the closed endpoint: @cut gives up what lingers. Return: something still lingers. */
static bool endpoint_close_flows(struct ibr_endpoint *endpoint, bool first, bool cut)
{
	struct ibr_contact *contact;
	struct ibr_outflow *flow;
	unsigned long handle;
	bool lingers = false;

	xa_for_each(&endpoint->contacts, handle, contact) {
		mutex_lock(&endpoint->setup_lock);
		flow = rcu_dereference_protected(contact->out, lockdep_is_held(&endpoint->setup_lock));
		if (flow && first)
			ibr_outflow_close(flow);
		if (flow && cut)
			ibr_outflow_cut(flow);
		if (flow && READ_ONCE(flow->state) == IBR_OUTFLOW_CLOSED) {
			RCU_INIT_POINTER(contact->out, NULL);
			ibr_outflow_put(flow);
		} else if (flow) {
			lingers = true;
		}
		mutex_unlock(&endpoint->setup_lock);
		cond_resched();
	}
	return lingers;
}

static void endpoint_linger_work(struct work_struct *work)
{
	struct ibr_endpoint *endpoint = container_of(to_delayed_work(work), struct ibr_endpoint, linger_work);
	bool cut = READ_ONCE(hurry) || time_after_eq64(get_jiffies_64(), endpoint->linger_until);

	if (endpoint_close_flows(endpoint, false, cut)) {
		queue_delayed_work(ibr_wq, &endpoint->linger_work, msecs_to_jiffies(LINGER_POLL_MS));
		return;
	}
	mutex_lock(&list_lock);
	list_del_init(&endpoint->all);
	/* The module's exit may have queued this once more, which finds the endpoint by the list only. */
	cancel_delayed_work(&endpoint->linger_work);
	mutex_unlock(&list_lock);
	ibr_endpoint_put(endpoint);
}

/*
 * A worker that copies, or an adapter, may not have done with what was given up just now; the process has the memory
 * for something else afterwards. Whoever else has the last descriptor is not to wait for what is not his, and has no
 * say in how long it takes; who ends has no memory any more.
 */
static void endpoint_wait_quiet(struct ibr_endpoint *endpoint)
{
	wait_event_killable(endpoint->quiet, !atomic_read(&endpoint->buffers));
}

/*
 * (1) Unreachable: not found by number, and @open false, so that nothing is matched any more.
 * (2) Incoming flows are dropped, which their senders are told, receives cancelled, and waiting messages
 * discarded. (3) Sends of pinned memory are aborted, buffered ones linger. (4) Nothing uses the process's memory any
 * more.
 */
void ibr_endpoint_close(struct ibr_endpoint *endpoint)
{
	struct ibr_space *space;
	bool own;

	xa_erase_bh(&endpoints, endpoint->id);
	spin_lock_bh(&endpoint->lock);
	endpoint->open = false;
	space = endpoint->space;
	endpoint->space = NULL;
	spin_unlock_bh(&endpoint->lock);
	WRITE_ONCE(endpoint->pid, 0);

	ibr_paths_drop_endpoint(endpoint);
	endpoint_drop_waiting(endpoint);
	endpoint_close_flows(endpoint, true, false);
	own = space->mm == current->mm;
	ibr_space_close(space);
	endpoint->linger_until = get_jiffies_64() + msecs_to_jiffies(READ_ONCE(linger_ms));
	ibr_endpoint_get(endpoint);
	queue_delayed_work(ibr_wq, &endpoint->linger_work, 0);
	if (own)
		endpoint_wait_quiet(endpoint);
	ibr_endpoint_put(endpoint);
}

/* ---- making -------------------------------------------------------------------------------- */

static int endpoint_number(struct ibr_endpoint *endpoint, u32 wanted)
{
	int ret;

	if (wanted) {
		endpoint->id = wanted;
		ret = xa_insert_bh(&endpoints, wanted, endpoint, GFP_KERNEL_ACCOUNT);
		return ret == -EBUSY ? -EADDRINUSE : ret;
	}
	ret = xa_alloc_cyclic_bh(&endpoints, &endpoint->id, endpoint, XA_LIMIT(FIRST_FREE_ID, U32_MAX - 1),
				 &next_id, GFP_KERNEL_ACCOUNT);
	return ret < 0 ? ret : 0;
}

struct ibr_endpoint *ibr_endpoint_create(struct ibrelk_endpoint_create *create)
{
	struct ibr_endpoint *endpoint;
	int ret;

	ret = endpoint_check(create);
	if (ret)
		return ERR_PTR(ret);
	endpoint = kvzalloc(sizeof(*endpoint), GFP_KERNEL_ACCOUNT);
	if (!endpoint)
		return ERR_PTR(-ENOMEM);
	kref_init(&endpoint->ref);
	endpoint->mode = create->mode;
	endpoint->job = endpoint_job(create->job_key);
	endpoint->uid = current_euid();
	endpoint->memcg = get_mem_cgroup_from_mm(current->mm);
	endpoint->pid = task_tgid_vnr(current);
	endpoint->sends_max = create->sends;
	endpoint->recvs_max = create->recvs;
	endpoint->unexpected_max = create->unexpected_bytes;
	do {
		endpoint->generation = get_random_u32();
	} while (!endpoint->generation);
	init_waitqueue_head(&endpoint->quiet);
	mutex_init(&endpoint->setup_lock);
	xa_init_flags(&endpoint->contacts, XA_FLAGS_ALLOC | XA_FLAGS_LOCK_BH | XA_FLAGS_ACCOUNT);
	xa_init_flags(&endpoint->claims, XA_FLAGS_ALLOC1 | XA_FLAGS_LOCK_BH | XA_FLAGS_ACCOUNT);
	endpoint->claim_next = IBR_COUNTERS_START & INT_MAX;
	INIT_WORK(&endpoint->free_work, endpoint_free_work);
	INIT_DELAYED_WORK(&endpoint->linger_work, endpoint_linger_work);
	INIT_LIST_HEAD(&endpoint->all);
	spin_lock_init(&endpoint->lock);
	endpoint->contact_tree = RB_ROOT;
	match_init(&endpoint->match, get_random_u64());
	endpoint->local = create->local;
	endpoint->open = true;

	endpoint->send_ring = ibr_ring_get_fd(create->send_ring);
	if (IS_ERR(endpoint->send_ring)) {
		ret = PTR_ERR(endpoint->send_ring);
		endpoint->send_ring = NULL;
		goto err_free;
	}
	endpoint->recv_ring = ibr_ring_get_fd(create->recv_ring);
	if (IS_ERR(endpoint->recv_ring)) {
		ret = PTR_ERR(endpoint->recv_ring);
		endpoint->recv_ring = NULL;
		goto err_free;
	}
	endpoint->space = ibr_space_open();
	if (IS_ERR(endpoint->space)) {
		ret = PTR_ERR(endpoint->space);
		endpoint->space = NULL;
		goto err_free;
	}
	endpoint->user = endpoint->space->user->uid;
	ret = endpoint_pool(endpoint);
	if (ret)
		goto err_free;
	ret = endpoint_number(endpoint, create->local.endpoint);
	if (ret)
		goto err_free;

	mutex_lock(&list_lock);
	list_add_tail(&endpoint->all, &endpoint_list);
	mutex_unlock(&list_lock);
	create->local.endpoint = endpoint->id;
	create->local.generation = endpoint->generation;
	ibr_device_local(create->local.gid);
	return endpoint;

err_free:
	endpoint_free(endpoint);
	return ERR_PTR(ret);
}

/* ---- commands ------------------------------------------------------------------------------ */

/* A place for one more send, which ends with ibr_endpoint_send_done(). Several threads may ask at once. */
static bool send_reserve(struct ibr_endpoint *endpoint)
{
	return ibr_ring_has_room(endpoint->send_ring) &&
	       atomic_add_unless(&endpoint->sends, 1, endpoint->sends_max);
}

int ibr_endpoint_send(struct ibr_endpoint *endpoint, const struct ibrelk_command *command,
		      struct ibr_path **undriven)
{
	struct ibr_contact *contact;
	struct ibr_outflow *flow;
	struct ibr_send *send;
	u64 length = 0;
	int ret;

	contact = ibr_contact_find(endpoint, command->peer);
	if (!contact)
		return -ENOENT;
	if (!send_reserve(endpoint))
		return 1;
	flow = ibr_outflow_get(endpoint, contact);
	if (IS_ERR(flow)) {
		ibr_endpoint_send_done(endpoint);
		return PTR_ERR(flow);
	}
	send = ibr_send_create(flow, command);
	if (IS_ERR(send)) {
		ret = PTR_ERR(send);
		ibr_endpoint_send_done(endpoint);
	} else {
		length = ibr_send_asks(send) ? 0 : send->length;
		ret = ibr_outflow_queue(flow, send, undriven);
		if (ret)
			ibr_send_discard(send);
	}
	ibr_outflow_put(flow);
	if (!ret) {
		atomic64_inc(&endpoint->tx_messages);
		atomic64_add(length, &endpoint->tx_bytes);
		if (command->opcode != IBRELK_OP_SEND)
			atomic64_inc(&endpoint->tx_remote);
	}
	return ret;
}

static void endpoint_done(u32 done, atomic_t *count, u32 max, struct ibr_ring *ring)
{
	u32 left = atomic_sub_return(done, count);

	if (left < max && left + done >= max)
		ibr_ring_wake_room(ring);
}

void ibr_endpoint_send_done(struct ibr_endpoint *endpoint)
{
	endpoint_done(1, &endpoint->sends, endpoint->sends_max, endpoint->send_ring);
}

void ibr_endpoint_recvs_done(struct ibr_endpoint *endpoint, u32 done)
{
	endpoint_done(done, &endpoint->recvs, endpoint->recvs_max, endpoint->recv_ring);
}

void ibr_endpoint_buffer_begin(struct ibr_endpoint *endpoint)
{
	atomic_inc(&endpoint->buffers);
}

void ibr_endpoint_buffer_end(struct ibr_endpoint *endpoint)
{
	/* The barrier in here pairs with that of wait_event(). */
	if (atomic_dec_and_test(&endpoint->buffers) && unlikely(waitqueue_active(&endpoint->quiet)))
		wake_up_all(&endpoint->quiet);
}

__poll_t ibr_endpoint_poll(struct ibr_endpoint *endpoint, struct file *file, struct poll_table_struct *table)
{
	__poll_t mask = 0;

	/* Two queues at most: io_uring polls no file that has more. */
	ibr_ring_poll_room(endpoint->send_ring, file, table);
	if (endpoint->recv_ring != endpoint->send_ring)
		ibr_ring_poll_room(endpoint->recv_ring, file, table);
	/* We are in the queue before we look; pairs with endpoint_done(). */
	smp_mb();
	if (atomic_read(&endpoint->sends) < endpoint->sends_max && ibr_ring_has_room(endpoint->send_ring))
		mask |= IBR_POLL_SEND;
	if (ibr_ring_has_room(endpoint->recv_ring)) {
		/* Cancelling only writes a completion; it must not wait for what it is to end. */
		mask |= IBR_POLL_CANCEL;
		if (atomic_read(&endpoint->recvs) < endpoint->recvs_max)
			mask |= IBR_POLL_RECV;
	}
	return mask;
}

void ibr_endpoint_flush(struct ibr_path *undriven)
{
	if (!undriven)
		return;
	ibr_path_drive_soon(undriven);
	ibr_path_put(undriven);
}

int ibr_endpoint_peer_add(struct ibr_endpoint *endpoint, struct ibrelk_peer *peer)
{
	static const u8 any[16];
	struct ibr_contact *contact;

	if (peer->reserved || !peer->addr.endpoint || !memcmp(peer->addr.gid, any, sizeof(any)))
		return -EINVAL;
	contact = ibr_contact_get_addr(endpoint, &peer->addr, false, GFP_KERNEL_ACCOUNT);
	if (IS_ERR(contact))
		return PTR_ERR(contact);
	peer->handle = contact->handle;
	return 0;
}

int ibr_endpoint_peer_query(struct ibr_endpoint *endpoint, struct ibrelk_peer *peer)
{
	struct ibr_contact *contact;

	if (peer->reserved)
		return -EINVAL;
	contact = ibr_contact_find(endpoint, peer->handle);
	if (!contact)
		return -ENOENT;
	peer->addr = contact->addr;
	return 0;
}

/* ---- statistics ---------------------------------------------------------------------------- */

u32 ibr_endpoints_dump(struct ibrelk_endpoint_info *info, u32 max)
{
	bool all = capable(CAP_NET_ADMIN);
	struct ibr_endpoint *endpoint;
	u32 count = 0;

	mutex_lock(&list_lock);
	list_for_each_entry(endpoint, &endpoint_list, all) {
		if (!all && !uid_eq(endpoint->uid, current_euid()))
			continue;
		if (count++ >= max)
			continue;
		memset(info, 0, sizeof(*info));
		info->local = endpoint->local;
		info->local.endpoint = endpoint->id;
		info->local.generation = endpoint->generation;
		ibr_device_local(info->local.gid);
		info->mode = endpoint->mode;
		info->uid = from_kuid_munged(current_user_ns(), endpoint->uid);
		info->pid = READ_ONCE(endpoint->pid);
		info->sends = atomic_read(&endpoint->sends);
		spin_lock_bh(&endpoint->lock);
		info->flows = endpoint->flow_count;
		info->recvs = endpoint->match.recvs;
		info->unexpected = endpoint->match.messages;
		info->claims = endpoint->claimed;
		info->unexpected_bytes = endpoint->unexpected_bytes;
		info->unexpected_bytes_max = endpoint->unexpected_bytes_peak;
		info->counters = endpoint->counters;
		if (endpoint->space)
			ibr_space_info(endpoint->space, info);
		spin_unlock_bh(&endpoint->lock);
		info->counters.tx_messages = atomic64_read(&endpoint->tx_messages);
		info->counters.tx_bytes = atomic64_read(&endpoint->tx_bytes);
		info->counters.tx_remote = atomic64_read(&endpoint->tx_remote);
		info->counters.bounced_bytes = atomic64_read(&endpoint->bounced_bytes);
		info++;
	}
	mutex_unlock(&list_lock);
	return count;
}

int ibr_endpoint_init(void)
{
	next_id = IBR_COUNTERS_START;
	return 0;
}

/* No descriptor is open any more; what lingers is cut short. Afterwards no endpoint exists. */
void ibr_endpoint_exit(void)
{
	struct ibr_endpoint *endpoint;

	WRITE_ONCE(hurry, true);
	for (;;) {
		mutex_lock(&list_lock);
		endpoint = list_first_entry_or_null(&endpoint_list, struct ibr_endpoint, all);
		if (endpoint)
			mod_delayed_work(ibr_wq, &endpoint->linger_work, 0);
		mutex_unlock(&list_lock);
		if (!endpoint)
			break;
		flush_workqueue(ibr_wq);
	}
	flush_workqueue(ibr_wq);
	xa_destroy(&endpoints);
}
