// SPDX-License-Identifier: GPL-2.0-only
/*
 * See pair.h.
 */
#include <linux/delay.h>
#include <linux/fdtable.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/mman.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "command.h"
#include "memory.h"
#include "pair.h"
#include "params.h"
#include "reliability/wire.h"

static const u8 loopback[16] = { [10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1 };

/* ---- randomness ------------------------------------------------------------------------------ */

static u64 random_step(u64 *x)
{
	u64 z = *x += 0x9e3779b97f4a7c15ull;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

u64 world_random(struct world *world)
{
	return random_step(&world->random);
}

void world_pause(void)
{
	usleep_range(200, 400);
}

/* ---- life ------------------------------------------------------------------------------------ */

int world_init(struct kunit *test)
{
	const u32 *mode = test->param_value;
	struct world *world = kunit_kzalloc(test, sizeof(*world), GFP_KERNEL);

	if (!world)
		return -ENOMEM;
	world->mode = mode ? *mode : IBRELK_MODE_UD_RELIABLE;
	world->random = 1;
	test->priv = world;
	ibr_allow_native = true;
	ibr_fail_alloc_nth = 0;
	faults_set(NULL);
	world->scratch = kunit_vm_mmap(test, NULL, 0, PAGE_SIZE, PROT_READ | PROT_WRITE,
				       MAP_ANONYMOUS | MAP_PRIVATE, 0);
	if (!world->scratch)
		return -ENOMEM;
	/*
	 * KUnit attaches an address space with kthread_use_mm() and never says kthread_unuse_mm(), so
	 * the reference which that takes is left over when the thread has exited: kmemleak finds it.
	 */
	mmdrop(current->mm);
	return 0;
}

static void side_shut(struct side *side)
{
	if (!side->open)
		return;
	side->open = false;
	ibr_endpoint_close(side->endpoint);
	close_fd(side->fd);
	flush_delayed_fput();
}

void world_exit(struct kunit *test)
{
	struct world *world = test->priv;
	u32 i;

	faults_set(NULL);
	ibr_fail_alloc_nth = 0;
	for (i = 0; world && i < world->sides; i++) {
		struct side *side = &world->side[i];

		if (!side->endpoint)
			continue;
		side_shut(side);
		ibr_ring_put(side->ring);
		ibr_endpoint_put(side->endpoint);
	}
}

struct side *side_open(struct kunit *test, const struct side_options *options)
{
	static const struct side_options usual;
	struct world *world = test->priv;
	struct ibrelk_ring_create ring = {};
	struct ibrelk_endpoint_create create = {};
	struct side *side = &world->side[world->sides];
	struct ibr_endpoint *endpoint;

	KUNIT_ASSERT_LT(test, world->sides, SIDES_MAX);
	options = options ?: &usual;
	ring.entries = options->ring_entries ?: 4096;
	side->ring_file = ibr_ring_create(&ring);
	KUNIT_ASSERT_FALSE(test, IS_ERR(side->ring_file));
	side->fd = get_unused_fd_flags(O_CLOEXEC);
	KUNIT_ASSERT_GE(test, side->fd, 0);
	fd_install(side->fd, side->ring_file);
	side->ring = ibr_ring_get_fd(side->fd);
	KUNIT_ASSERT_FALSE(test, IS_ERR(side->ring));
	side->header = ibr_ring_header(side->ring);

	create.mode = options->mode ?: world->mode;
	create.send_ring = side->fd;
	create.recv_ring = side->fd;
	create.job_key = options->job_key;
	create.unexpected_bytes = options->unexpected_bytes;
	create.sends = options->sends;
	create.recvs = options->recvs;
	memcpy(create.local.gid, loopback, sizeof(loopback));
	endpoint = ibr_endpoint_create(&create);
	KUNIT_ASSERT_FALSE_MSG(test, IS_ERR(endpoint), "endpoint: %ld", PTR_ERR(endpoint));
	ibr_endpoint_get(endpoint);
	side->endpoint = endpoint;
	side->addr = create.local;
	side->open = true;
	world->sides++;
	return side;
}

void side_close(struct kunit *test, struct side *side)
{
	side_shut(side);
}

u32 side_add(struct kunit *test, struct side *side, const struct ibrelk_addr *addr)
{
	struct ibrelk_peer peer = { .addr = *addr };

	KUNIT_ASSERT_EQ(test, ibr_endpoint_peer_add(side->endpoint, &peer), 0);
	return peer.handle;
}

u32 side_add_side(struct kunit *test, struct side *side, const struct side *peer)
{
	return side_add(test, side, &peer->addr);
}

/* ---- commands and completions ---------------------------------------------------------------- */

int side_submit(struct kunit *test, struct side *side, const struct ibrelk_command *command)
{
	struct world *world = test->priv;
	struct ibrelk_command __user *user = (void __user *)world->scratch;

	KUNIT_ASSERT_EQ(test, copy_to_user(user, command, sizeof(*command)), 0ul);
	return ibr_command_batch(side->endpoint, user, 1);
}

void side_submit_sends(struct kunit *test, struct side *side, u32 peer, u64 addr, u64 length, u32 count)
{
	struct world *world = test->priv;
	struct ibrelk_command __user *user = (void __user *)world->scratch;
	u32 i;

	KUNIT_ASSERT_LE(test, count * sizeof(*user), PAGE_SIZE);
	for (i = 0; i < count; i++) {
		struct ibrelk_command command = {
			.opcode = IBRELK_OP_SEND,
			.peer = peer,
			.addr = addr + i * length,
			.length = length,
			.tag = i,
			.user_data = i,
		};

		KUNIT_ASSERT_EQ(test, copy_to_user(user + i, &command, sizeof(command)), 0ul);
	}
	KUNIT_ASSERT_EQ(test, ibr_command_batch(side->endpoint, user, count), (int)count);
}

void side_accept(struct kunit *test, struct side *side, const struct ibrelk_command *command)
{
	KUNIT_ASSERT_EQ(test, side_submit(test, side, command), 1);
}

void side_send(struct kunit *test, struct side *side, u32 peer, u64 addr, u64 length, u64 tag, u64 user_data)
{
	struct ibrelk_command command = {
		.opcode = IBRELK_OP_SEND,
		.peer = peer,
		.addr = addr,
		.length = length,
		.tag = tag,
		.user_data = user_data,
	};

	side_accept(test, side, &command);
}

void side_recv(struct kunit *test, struct side *side, u32 peer, u64 addr, u64 length, u64 tag, u64 user_data)
{
	struct ibrelk_command command = {
		.opcode = IBRELK_OP_RECV,
		.peer = peer,
		.addr = addr,
		.length = length,
		.tag = tag,
		.user_data = user_data,
	};

	side_accept(test, side, &command);
}

bool side_try(struct kunit *test, struct side *side, struct ibrelk_completion *completion, u32 ms)
{
	struct world *world = test->priv;
	struct ibrelk_ring_header *header = side->header;
	const struct ibrelk_completion *entries = (void *)header + header->entries_offset;
	struct ibrelk_ring_wait wait = { .count = 1, .timeout_ns = (u64)ms * NSEC_PER_MSEC };
	void __user *user = (void __user *)world->scratch;
	long ret;

	if (smp_load_acquire(&header->tail) == header->head) {
		KUNIT_ASSERT_EQ(test, copy_to_user(user, &wait, sizeof(wait)), 0ul);
		ret = side->ring_file->f_op->unlocked_ioctl(side->ring_file, IBRELK_IOC_RING_WAIT,
							    world->scratch);
		KUNIT_ASSERT_GE(test, ret, 0l);
		if (!ret)
			return false;
	}
	*completion = entries[header->head & (header->entries - 1)];
	smp_store_release(&header->head, header->head + 1);
	return true;
}

/* Something is stuck: tell what waits for what. */
static void path_describe(struct kunit *test, struct ibr_path *path)
{
	struct ibr_transfer *transfer;
	struct ibr_message *message;
	struct ibr_outflow *out;
	struct ibr_inflow *in;
	struct ibr_send *send;

	spin_lock_bh(&path->lock);
	pr_info("path: state %u error %d now %llu timer %llu next %llu starved %u doomed %d\n", path->state,
		path->error, path->now, path->timer_at, rel_next_timeout(&path->rel), path->starved,
		path->doomed);
	pr_info("control %zu repeat %zu ready %zu bulk %zu in flight %u next %x floor %x blocked %u limit %x cum %x\n",
		list_count_nodes(&path->control), list_count_nodes(&path->repeat),
		list_count_nodes(&path->ready), list_count_nodes(&path->bulk), rel_in_flight(&path->rel),
		path->rel.sender.next, path->rel.sender.floor, path->rel.credit.blocked,
		path->rel.credit.limit, path->rel.receiver.cum);
	pr_info("drops: malformed %llu window %llu flow %llu memory %llu checksum %llu token %llu\n",
		path->counters.drop_malformed, path->counters.drop_window, path->counters.drop_flow,
		path->counters.drop_memory, path->counters.drop_checksum, path->counters.drop_token);
	list_for_each_entry(out, &path->outflows, on_path) {
		pr_info("outflow %u: state %u queue %zu sent %zu cost %llu limit %llu announcing %zu\n", out->h.id,
			out->state, list_count_nodes(&out->queue), list_count_nodes(&out->sent),
			out->cost, out->limit, list_count_nodes(&out->announcing));
		list_for_each_entry(send, &out->sent, link)
			pr_info("  send %u: seq %u length %llu offset %llu windows %u busy %u unacked %u transfer %u\n",
				send->h.id, send->sequence, send->length, send->offset, send->windows,
				send->umem_busy, send->unacked, send->transfer);
	}
	list_for_each_entry(in, &path->inflows, on_path) {
		pr_info("inflow %u: next %u early %zu spent %llu limit %llu\n", in->h.id, in->next,
			list_count_nodes(&in->early), in->spent, in->limit);
		list_for_each_entry(message, &in->early, link)
			pr_info("  early seq %u length %llu received %u rts %u\n", message->sequence,
				message->length, message->received, message->rts);
		list_for_each_entry(transfer, &in->transfers, link)
			pr_info("  transfer %u: length %llu asked %llu done %llu busy %u missing %u+%u\n",
				transfer->h.id, transfer->length, transfer->asked, transfer->done,
				transfer->umem_busy,
				transfer->window[0].state ? transfer->window[0].missing : 0,
				transfer->window[1].state ? transfer->window[1].missing : 0);
	}
	spin_unlock_bh(&path->lock);
}

struct ibrelk_completion side_wait(struct kunit *test, struct side *side)
{
	struct ibrelk_completion completion = {};

	if (!side_try(test, side, &completion, WAIT_S * 1000)) {
		struct ibr_path *path = world_path(test, side->endpoint->mode);

		path_describe(test, path);
		ibr_path_put(path);
		KUNIT_ASSERT_TRUE_MSG(test, false, "no completion");
	}
	KUNIT_ASSERT_EQ(test, completion.endpoint, side->endpoint->id);
	return completion;
}

struct ibrelk_completion side_wait_op(struct kunit *test, struct side *side, u64 user_data, int status)
{
	struct ibrelk_completion completion = side_wait(test, side);

	KUNIT_ASSERT_EQ(test, completion.user_data, user_data);
	KUNIT_ASSERT_EQ(test, completion.status, status);
	return completion;
}

/* ---- user memory ----------------------------------------------------------------------------- */

unsigned long user_alloc(struct kunit *test, size_t bytes)
{
	unsigned long addr = kunit_vm_mmap(test, NULL, 0, PAGE_ALIGN(bytes ?: 1), PROT_READ | PROT_WRITE,
					   MAP_ANONYMOUS | MAP_PRIVATE, 0);

	KUNIT_ASSERT_NE(test, addr, 0ul);
	return addr;
}

static u8 pattern(u64 seed, size_t place)
{
	u64 x = (seed + 1) * 0x9e3779b97f4a7c15ull + place * 0xff51afd7ed558ccdull;

	return (x ^ x >> 29) >> 32;
}

void user_fill(struct kunit *test, unsigned long addr, size_t bytes, u64 seed)
{
	user_fill_at(test, addr, bytes, seed, 0);
}

void user_fill_at(struct kunit *test, unsigned long addr, size_t bytes, u64 seed, size_t first)
{
	u8 *buffer = kmalloc(PAGE_SIZE, GFP_KERNEL);
	unsigned long failed = !buffer;
	size_t at, i;

	for (at = 0; at < bytes && !failed; at += PAGE_SIZE) {
		size_t part = min_t(size_t, bytes - at, PAGE_SIZE);

		for (i = 0; i < part; i++)
			buffer[i] = pattern(seed, first + at + i);
		failed = copy_to_user((void __user *)(addr + at), buffer, part);
	}
	kfree(buffer);
	KUNIT_ASSERT_EQ(test, failed, 0ul);
}

static bool user_compare(struct kunit *test, unsigned long addr, size_t bytes, u64 seed, size_t first, bool zero)
{
	u8 *buffer = kmalloc(PAGE_SIZE, GFP_KERNEL);
	size_t at, i, wrong = 0;
	unsigned long failed = !buffer;

	for (at = 0; at < bytes && !failed && !wrong; at += PAGE_SIZE) {
		size_t part = min_t(size_t, bytes - at, PAGE_SIZE);

		failed = copy_from_user(buffer, (const void __user *)(addr + at), part);
		for (i = 0; i < part && !failed; i++) {
			if (buffer[i] != (zero ? 0 : pattern(seed, first + at + i))) {
				kunit_err(test, "byte %zu of %zu is wrong", at + i, bytes);
				wrong++;
				break;
			}
		}
	}
	kfree(buffer);
	KUNIT_ASSERT_EQ(test, failed, 0ul);
	return !wrong;
}

bool user_check(struct kunit *test, unsigned long addr, size_t bytes, u64 seed)
{
	return user_compare(test, addr, bytes, seed, 0, false);
}

bool user_check_at(struct kunit *test, unsigned long addr, size_t bytes, u64 seed, size_t at)
{
	return user_compare(test, addr, bytes, seed, at, false);
}

bool user_check_zero(struct kunit *test, unsigned long addr, size_t bytes)
{
	return user_compare(test, addr, bytes, 0, 0, true);
}

/* ---- the wire -------------------------------------------------------------------------------- */

struct faults wire_faults;

static enum ibr_loop_fault faults_hook(struct ibr_path *path, void *packet, u32 length)
{
	struct faults *faults = &wire_faults;
	const struct wire_header *header = packet;
	u64 draw;
	u32 luck;

	if (faults->data && header->type != WIRE_PACKET_UNRELIABLE)
		return IBR_LOOP_PASS;
	faults->seen++;
	draw = random_step(&faults->seed);
	luck = draw & 255;
	if (luck < faults->drop) {
		faults->dropped++;
		return IBR_LOOP_DROP;
	}
	luck -= faults->drop;
	if (luck < faults->duplicate)
		return IBR_LOOP_DUPLICATE;
	luck -= faults->duplicate;
	if (luck < faults->hold)
		return IBR_LOOP_HOLD;
	luck -= faults->hold;
	if (luck < faults->corrupt) {
		u32 headers = sizeof(struct wire_header) + sizeof(struct wire_frame);

		/* The payload is the wire's business (ICRC); the headers have a checksum of ours. */
		((u8 *)packet)[(draw >> 16) % min(length, headers)] ^= 1 << ((draw >> 8) & 7);
		faults->corrupted++;
	}
	return IBR_LOOP_PASS;
}

void faults_set(const struct faults *faults)
{
	local_bh_disable();	/* one CPU: the hook, which runs in softirq, does not now */
	if (faults)
		wire_faults = *faults;
	ibr_loop_set_hook(faults ? faults_hook : NULL);
	local_bh_enable();
}

/* ---- the end --------------------------------------------------------------------------------- */

struct ibr_path *world_path(struct kunit *test, u32 mode)
{
	struct ibr_path_key key = { .mode = mode };
	struct ibr_path *path;

	memcpy(key.local_gid, loopback, sizeof(loopback));
	memcpy(key.remote_gid, loopback, sizeof(loopback));
	path = ibr_path_get_key(&key, false);
	KUNIT_ASSERT_FALSE(test, IS_ERR(path));
	return path;
}

bool path_is_idle(struct ibr_path *path)
{
	bool idle;

	spin_lock_bh(&path->lock);
	idle = list_empty(&path->control) && list_empty(&path->repeat) && list_empty(&path->ready) &&
	       list_empty(&path->bulk) && (!path->established || !rel_in_flight(&path->rel));
	spin_unlock_bh(&path->lock);
	return idle;
}

static void path_check(struct kunit *test, struct ibr_path *path)
{
	/* Descriptors are closed, but news of that may be under way. */
	KUNIT_EXPECT_TRUE(test, wait_until(path_is_idle(path)));
	KUNIT_EXPECT_TRUE(test, wait_until(!READ_ONCE(path->flow_count)));
	/* What was read outside the lock is no more than a report: nothing goes on any more. */
	KUNIT_EXPECT_EQ(test, path->queue, 0);
	KUNIT_EXPECT_EQ(test, path->memory, 0);
	KUNIT_EXPECT_TRUE(test, list_empty(&path->outflows));
	KUNIT_EXPECT_TRUE(test, list_empty(&path->inflows));
	KUNIT_EXPECT_TRUE(test, xa_empty(&path->handles));
	KUNIT_EXPECT_EQ(test, path->doomed, 0);
}

void world_check(struct kunit *test)
{
	struct world *world = test->priv;
	struct ibr_path *path;
	u32 i, mode;

	faults_set(NULL);
	ibr_fail_alloc_nth = 0;
	for (i = 0; i < world->sides; i++)
		side_shut(&world->side[i]);
	for (i = 0; i < world->sides; i++) {
		struct ibr_endpoint *endpoint = world->side[i].endpoint;

		KUNIT_EXPECT_TRUE_MSG(test, wait_until(kref_read(&endpoint->ref) == 1),
				      "side %u: %u references left", i, kref_read(&endpoint->ref));
		KUNIT_EXPECT_EQ(test, atomic_read(&endpoint->sends), 0);
		KUNIT_EXPECT_EQ(test, atomic_read(&endpoint->recvs), 0);
		KUNIT_EXPECT_EQ(test, endpoint->match.recvs, 0);
		KUNIT_EXPECT_EQ(test, endpoint->match.messages, 0);
		KUNIT_EXPECT_EQ(test, endpoint->unexpected_granted, 0);
		KUNIT_EXPECT_EQ(test, endpoint->unexpected_bytes, 0);
		KUNIT_EXPECT_EQ(test, endpoint->headers_granted, 0);
		KUNIT_EXPECT_EQ(test, endpoint->sources, 0);
	}
	KUNIT_EXPECT_TRUE(test, wait_until(!ibr_endpoints_dump(NULL, 0)));
	for (mode = IBRELK_MODE_RC_NATIVE; mode < IBRELK_MODE_COUNT; mode++) {
		path = world_path(test, mode);
		path_check(test, path);
		ibr_path_put(path);
	}
}

/* ---- parameters ------------------------------------------------------------------------------ */

struct mode {
	u32 mode;
	const char *name;
};

static const struct mode modes[] = {
	{ IBRELK_MODE_RC_NATIVE, "rc-native" },
	{ IBRELK_MODE_UC_NATIVE, "uc-native" },
	{ IBRELK_MODE_UD_NATIVE, "ud-native" },
	{ IBRELK_MODE_RC_RELIABLE, "rc-reliable" },
	{ IBRELK_MODE_UC_RELIABLE, "uc-reliable" },
	{ IBRELK_MODE_UD_RELIABLE, "ud-reliable" },
};

static const void *mode_range(const void *previous, char *name, u32 first, u32 last)
{
	const struct mode *mode = previous ? previous : &modes[first];

	if (previous)
		mode++;

	if (mode > &modes[last])
		return NULL;
	strscpy(name, mode->name, KUNIT_PARAM_DESC_SIZE);
	return mode;	/* .mode is its first member: see world_init() */
}

IBR_KUNIT_NEXT(mode_next, previous, name)
{
	return mode_range(previous, name, 0, 5);
}

IBR_KUNIT_NEXT(mode_next_native, previous, name)
{
	return mode_range(previous, name, 0, 2);
}

IBR_KUNIT_NEXT(mode_next_reliable, previous, name)
{
	return mode_range(previous, name, 3, 5);
}
