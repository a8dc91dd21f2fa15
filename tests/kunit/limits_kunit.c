// SPDX-License-Identifier: GPL-2.0-only
/*
 * Full queues, memory that runs out, commands that are wrong: what was accepted is never lost, the rest is
 * turned away, and no message that waits keeps a later one from being delivered.
 */
#include <linux/cred.h>
#include <linux/mman.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "command.h"
#include "memory.h"
#include "pair.h"
#include "params.h"

/* Nobody wants the first messages; later ones, for which there are receives, pass all the same. */
static void unexpected_exhausted(struct kunit *test)
{
	enum { COUNT = 200, SIZE = 4000 };
	struct side_options small = { .unexpected_bytes = 64 << 10 };
	struct side *a = side_open(test, NULL), *b = side_open(test, &small);
	u32 peer = side_add_side(test, a, b), i;
	unsigned long from = user_alloc(test, SIZE * COUNT), to = user_alloc(test, SIZE);
	struct ibr_path *path = world_path(test, a->endpoint->mode);
	u64 before = path->counters.tx_rendezvous;
	struct ibrelk_completion done;

	for (i = 0; i < COUNT; i++) {
		/* Every tenth one is empty: it, too, goes by RTS in the end. */
		user_fill(test, from + SIZE * i, SIZE, i);
		side_send(test, a, peer, from + SIZE * i, i % 10 ? SIZE : 0, 1, i);
	}
	side_recv(test, b, IBRELK_PEER_ANY, to, SIZE, 2, 1000);
	side_send(test, a, peer, from, SIZE, 2, 1001);
	done = side_wait_op(test, b, 1000, 0);
	KUNIT_EXPECT_EQ(test, done.tag, 2ull);
	KUNIT_EXPECT_TRUE(test, user_check(test, to, SIZE, 0));
	KUNIT_EXPECT_EQ(test, b->endpoint->match.messages, COUNT);
	KUNIT_EXPECT_GT(test, path->counters.tx_rendezvous, before);
	KUNIT_EXPECT_LE(test, b->endpoint->unexpected_bytes_peak, small.unexpected_bytes);
	KUNIT_EXPECT_LE(test, b->endpoint->unexpected_granted, small.unexpected_bytes);

	/* All are there, in order; the buffered sends have completed. */
	for (i = 0; i <= COUNT; i++)
		KUNIT_EXPECT_EQ(test, side_wait(test, a).status, 0);
	for (i = 0; i < COUNT; i++) {
		u32 size = i % 10 ? SIZE : 0;

		side_recv(test, b, IBRELK_PEER_ANY, to, SIZE, 1, i);
		done = side_wait_op(test, b, i, 0);
		KUNIT_EXPECT_EQ(test, done.length, (u64)size);
		KUNIT_EXPECT_TRUE(test, user_check(test, to, size, i));
	}
	KUNIT_EXPECT_EQ(test, b->endpoint->unexpected_bytes, 0);

	/* With memory there again, messages are eager again. */
	before = path->counters.tx_eager;
	for (i = 0; i < 4; i++) {
		side_recv(test, b, IBRELK_PEER_ANY, to, SIZE, 3, i);
		side_send(test, a, peer, from, SIZE, 3, i);
		side_wait_op(test, b, i, 0);
		side_wait_op(test, a, i, 0);
	}
	KUNIT_EXPECT_GT(test, path->counters.tx_eager, before);
	ibr_path_put(path);
	world_check(test);
}

/* Without credit messages wait for it, and go eagerly when it comes; they do not wait longer than they shall. */
static void credit_awaited(struct kunit *test)
{
	enum { COUNT = 200, SIZE = 100 };
	struct side_options small = { .unexpected_bytes = 64 << 10 };
	struct side *a = side_open(test, NULL), *b = side_open(test, &small);
	u32 peer = side_add_side(test, a, b), i, wait_us = ibr_credit_wait_us;
	unsigned long from = user_alloc(test, SIZE), to = user_alloc(test, SIZE);
	struct ibr_path *path = world_path(test, a->endpoint->mode);
	u64 waits = path->counters.tx_credit_waits, rendezvous = path->counters.tx_rendezvous;

	user_fill(test, from, SIZE, 1);
	/* As good as for ever. */
	ibr_credit_wait_us = U32_MAX;
	for (i = 0; i < COUNT; i++)
		side_send(test, a, peer, from, SIZE, i, i);
	KUNIT_EXPECT_TRUE(test, wait_until(READ_ONCE(path->counters.tx_credit_waits) > waits));
	KUNIT_EXPECT_LT(test, READ_ONCE(b->endpoint->match.messages), COUNT);
	for (i = 0; i < COUNT; i++) {
		side_recv(test, b, IBRELK_PEER_ANY, to, SIZE, i, i);
		side_wait_op(test, b, i, 0);
		side_wait_op(test, a, i, 0);
		KUNIT_EXPECT_TRUE(test, user_check(test, to, SIZE, 1));
	}
	KUNIT_EXPECT_EQ(test, path->counters.tx_rendezvous, rendezvous);

	/* A few times in vain, each time for more of them (some credit may have been on its way), and not for each. */
	ibr_credit_wait_us = 1000;
	KUNIT_ASSERT_TRUE(test, wait_until(path_is_idle(path)));
	waits = path->counters.tx_credit_waits;
	for (i = 0; i < COUNT; i++)
		side_send(test, a, peer, from, SIZE, i, i);
	KUNIT_EXPECT_TRUE(test, wait_until(READ_ONCE(b->endpoint->match.messages) == COUNT));
	KUNIT_EXPECT_GT(test, path->counters.tx_credit_waits, waits);
	KUNIT_EXPECT_LE(test, path->counters.tx_credit_waits, waits + 8);
	KUNIT_EXPECT_GT(test, path->counters.tx_rendezvous, rendezvous);
	ibr_credit_wait_us = wait_us;
	ibr_path_put(path);
	world_check(test);
}

static struct ibr_outflow *side_outflow(const struct side *side, u32 peer)
{
	return rcu_access_pointer(ibr_contact_find(side->endpoint, peer)->out);
}

static u64 flow_credit(const struct ibr_outflow *flow)
{
	return READ_ONCE(flow->limit) - READ_ONCE(flow->cost);
}

/* What it takes to look for sends that nobody matches, ns; the best of some rounds. */
static u64 matched_ns(struct ibr_path *path, const struct ibr_outflow *flow)
{
	struct wire_frame frame = { .type = WIRE_FRAME_MATCHED, .flow = cpu_to_le32(flow->h.id) };
	u64 begin, best = U64_MAX;
	u32 round, i;

	for (round = 0; round < 10; round++) {
		spin_lock_bh(&path->lock);
		begin = ktime_get_ns();
		for (i = 0; i < 100; i++) {
			frame.matched.sequence = cpu_to_le32(flow->sequence + i);
			ibr_flow_handle_control(path, &frame, NULL);
		}
		best = min(best, ktime_get_ns() - begin);
		spin_unlock_bh(&path->lock);
	}
	return best;
}

/* MATCHED for sends that there are not costs the same, however many wait for theirs; in any order each gets its own. */
static void matched_flood(struct kunit *test)
{
	enum { FEW = 10, MANY = 1000 };
	struct side *a = side_open(test, NULL), *b = side_open(test, NULL), *c = side_open(test, NULL);
	u32 few = side_add_side(test, a, b), many = side_add_side(test, a, c), i;
	unsigned long to = user_alloc(test, PAGE_SIZE);
	struct ibr_path *path = world_path(test, a->endpoint->mode);
	u64 few_ns, many_ns, announced;

	/* It earns credit enough: only who is sent eagerly tells that it was matched by such a frame. */
	for (i = 0; i < 40; i++) {
		side_recv(test, c, IBRELK_PEER_ANY, to, PAGE_SIZE, i, i);
		side_send(test, a, many, to, 0, i, i);
		side_wait_op(test, c, i, 0);
		side_wait_op(test, a, i, 0);
	}
	KUNIT_ASSERT_TRUE(test, wait_until(flow_credit(side_outflow(a, many)) >= MANY * ibr_message_cost(0)));
	announced = path->counters.tx_rendezvous;
	for (i = 0; i < FEW + MANY; i++) {
		struct ibrelk_command send = {
			.opcode = IBRELK_OP_SEND,
			.level = IBRELK_LEVEL_MATCHED,
			.peer = i < FEW ? few : many,
			.tag = i,
			.user_data = i,
		};

		side_accept(test, a, &send);
	}
	KUNIT_ASSERT_TRUE(test, wait_until(READ_ONCE(b->endpoint->match.messages) == FEW &&
					   READ_ONCE(c->endpoint->match.messages) == MANY));
	KUNIT_EXPECT_EQ(test, path->counters.tx_rendezvous, announced);
	few_ns = matched_ns(path, side_outflow(a, few));
	many_ns = matched_ns(path, side_outflow(a, many));
	KUNIT_EXPECT_LT_MSG(test, many_ns, 8 * few_ns, "%llu ns if %u wait, %llu ns if %u do", many_ns, MANY,
			    few_ns, FEW);
	for (i = MANY; i--; ) {
		u32 which = FEW + i * 7 % MANY;

		side_recv(test, c, IBRELK_PEER_ANY, to, PAGE_SIZE, which, which);
		side_wait_op(test, c, which, 0);
		side_wait_op(test, a, which, 0);
	}
	ibr_path_put(path);
	side_close(test, b);
	world_check(test);
}

/* Give or take what there is of something that @side's endpoint counts. */
static void count_take(struct side *side, u32 *count, s32 more)
{
	spin_lock_bh(&side->endpoint->lock);
	*count += more;
	spin_unlock_bh(&side->endpoint->lock);
}

static void headers_take(struct side *side, s32 headers)
{
	count_take(side, &side->endpoint->headers_granted, headers);
}

/* Headers nobody wants use up what there is: the sender waits, nothing is lost, and other flows go on. */
static void headers_exhausted(struct kunit *test)
{
	enum { COUNT = 100, SIZE = 20000 };
	struct side *a = side_open(test, NULL), *b = side_open(test, NULL), *c = side_open(test, NULL);
	u32 ab = side_add_side(test, a, b), cb = side_add_side(test, c, b), i;
	unsigned long from = user_alloc(test, SIZE), to = user_alloc(test, SIZE);
	struct ibrelk_completion done;

	user_fill(test, from, SIZE, 1);
	headers_take(b, IBR_HEADERS_MAX);
	for (i = 0; i < COUNT; i++)
		side_send(test, a, ab, from, SIZE, i, i);
	/* One is what every flow may have. */
	KUNIT_EXPECT_TRUE(test, wait_until(READ_ONCE(b->endpoint->match.messages) == 1));
	side_recv(test, b, IBRELK_PEER_ANY, to, SIZE, 1000, 1000);
	side_send(test, c, cb, from, SIZE, 1000, 1000);
	side_wait_op(test, b, 1000, 0);
	KUNIT_EXPECT_EQ(test, b->endpoint->match.messages, 1);

	/* A later one is not there to be received before those ahead of it are. */
	side_recv(test, b, IBRELK_PEER_ANY, to, SIZE, COUNT - 1, COUNT - 1);
	KUNIT_EXPECT_FALSE(test, side_try(test, b, &done, 20));
	for (i = 0; i < COUNT; i++) {
		if (i < COUNT - 1)
			side_recv(test, b, IBRELK_PEER_ANY, to, SIZE, i, i);
		done = side_wait_op(test, b, i, 0);
		KUNIT_EXPECT_EQ(test, done.length, (u64)SIZE);
		side_wait_op(test, a, i, 0);
		KUNIT_EXPECT_LE(test, b->endpoint->match.messages, 1);
	}
	headers_take(b, -(s32)IBR_HEADERS_MAX);
	world_check(test);
}

/* A pool in which it is hard to find room: no search goes far, and those that follow each other see all of it. */
static void pool_searched(struct kunit *test)
{
	enum { GRANULES = 1 << 20, ROOM = GRANULES - 1000, COUNT = 40, FAR = 10000 };
	unsigned long *map = kvcalloc(BITS_TO_LONGS(GRANULES), sizeof(*map), GFP_KERNEL), next = 0, last, at;
	u32 i, searches = 0;

	KUNIT_ASSERT_NOT_NULL(test, map);
	/* Memory that is in a cache is preferred: the first that is free. */
	KUNIT_EXPECT_EQ(test, ibr_pool_find(map, GRANULES, 0, COUNT, &next, NULL, 0), 0ul);
	/* Every other granule is in use, but for one place. */
	for (i = 0; i < GRANULES; i += 2)
		if (i < ROOM || i >= ROOM + COUNT)
			set_bit(i, map);
	next = 0;
	do {
		last = next;
		at = ibr_pool_find(map, GRANULES, 0, COUNT, &next, NULL, 0);
		searches++;
		if (at == GRANULES && (next < last || next - last > FAR))
			break;
	} while (at == GRANULES);
	KUNIT_EXPECT_GE(test, at, (unsigned long)ROOM - 1);
	KUNIT_EXPECT_LE(test, at, (unsigned long)ROOM);
	/* No more holes than that were looked at by each. */
	KUNIT_EXPECT_GT(test, searches, ROOM / 2 / 100u);
	/* A single granule is where the pool begins, and what does not fit in is found nowhere. */
	KUNIT_EXPECT_EQ(test, ibr_pool_find(map, GRANULES, 0, 1, &next, NULL, 0), 1ul);
	for (i = 0; i < 3; i++)
		KUNIT_EXPECT_EQ(test, ibr_pool_find(map, 64, 0, 65, &next, NULL, 0), 64ul);
	/* Whatever it was told last. */
	next = ULONG_MAX;
	KUNIT_EXPECT_EQ(test, ibr_pool_find(map, 64, 0, 2, &next, NULL, 0), 64ul);
	KUNIT_EXPECT_LT(test, next, 64ul);
	kvfree(map);
}

/* With enough left, a flow may have as many as its sender may have outstanding. */
static void headers_grow(struct kunit *test)
{
	enum { COUNT = 3000, SIZE = 9000 };
	struct side *a = side_open(test, NULL), *b = side_open(test, NULL);
	u32 peer = side_add_side(test, a, b), i;
	unsigned long from = user_alloc(test, SIZE), to = user_alloc(test, SIZE);

	for (i = 0; i < COUNT; i++)
		side_send(test, a, peer, from, SIZE, 1, i);
	side_recv(test, b, IBRELK_PEER_ANY, to, SIZE, 2, 0);
	side_send(test, a, peer, from, SIZE, 2, COUNT);
	side_wait_op(test, b, 0, 0);
	side_wait_op(test, a, COUNT, 0);
	KUNIT_EXPECT_EQ(test, b->endpoint->match.messages, COUNT);
	/* All that was granted comes back, whichever end goes first. */
	side_close(test, a->endpoint->mode & 1 ? a : b);
	world_check(test);
}

/* A sender that minds no limit: what it sends too much of is dropped and counted. */
static void headers_forged(struct kunit *test)
{
	enum { COUNT = 1000, SIZE = 20000 };
	struct side *a = side_open(test, NULL), *b = side_open(test, NULL);
	struct ibr_path *path = world_path(test, a->endpoint->mode);
	u32 peer = side_add_side(test, a, b), i;
	unsigned long from = user_alloc(test, SIZE);
	struct wire_frame frame = { .type = WIRE_FRAME_RTS, .rts.length = cpu_to_le32(SIZE) };
	u64 before = path->counters.drop_limit;
	struct ibr_inflow *flow;

	side_send(test, a, peer, from, SIZE, 0, 0);
	KUNIT_EXPECT_TRUE(test, wait_until(READ_ONCE(b->endpoint->match.messages) == 1));
	headers_take(b, IBR_HEADERS_MAX);
	spin_lock_bh(&path->lock);
	flow = list_first_entry(&path->inflows, struct ibr_inflow, on_path);
	frame.flow = cpu_to_le32(flow->h.id);
	for (i = 1; i < COUNT; i++) {
		frame.rts.sequence = cpu_to_le32(i);
		ibr_rts_receive(path, &frame, NULL);
	}
	spin_unlock_bh(&path->lock);
	KUNIT_EXPECT_EQ(test, b->endpoint->match.messages, IBR_HEADERS_FIRST);
	KUNIT_EXPECT_EQ(test, path->counters.drop_limit - before, (u64)(COUNT - IBR_HEADERS_FIRST));
	side_close(test, b);
	headers_take(b, -(s32)IBR_HEADERS_MAX);
	side_wait_op(test, a, 0, -ECONNRESET);
	ibr_path_put(path);
	world_check(test);
}

/* A CTS for larger fragments than the path bears: both ends begin anew, nothing of it is sent. */
static void units_forged(struct kunit *test)
{
	enum { SIZE = 20000 };
	struct side *a = side_open(test, NULL), *b = side_open(test, NULL);
	struct ibr_path *path = world_path(test, a->endpoint->mode);
	u32 peer = side_add_side(test, a, b);
	unsigned long from = user_alloc(test, SIZE);
	struct wire_frame frame = { .type = WIRE_FRAME_CTS, .cts.length = cpu_to_le32(SIZE) };
	u64 lives;

	side_send(test, a, peer, from, SIZE, 0, 7);
	KUNIT_EXPECT_TRUE(test, wait_until(READ_ONCE(b->endpoint->match.messages) == 1));
	spin_lock_bh(&path->lock);
	lives = path->counters.lives;
	frame.flow = cpu_to_le32(list_first_entry(&list_first_entry(&path->outflows, struct ibr_outflow, on_path)->sent,
						  struct ibr_send, link)->h.id);
	frame.cts.unit = cpu_to_le32(path->payload_max + 1);
	ibr_rendezvous_receive(path, &frame, NULL);
	spin_unlock_bh(&path->lock);
	ibr_path_drive(path);
	side_wait_op(test, a, 7, -ECONNRESET);

	side_recv(test, b, IBRELK_PEER_ANY, from, SIZE, 1, 8);
	side_send(test, a, peer, from, SIZE, 1, 8);
	side_wait_op(test, a, 8, 0);
	side_wait_op(test, b, 8, 0);
	KUNIT_EXPECT_EQ(test, path->counters.lives, lives + 1);
	ibr_path_put(path);
	world_check(test);
}

/* A CTS for what has nothing to send, be it a get whose answer is on its way. */
static void asks_forged(struct kunit *test)
{
	struct side *a = side_open(test, NULL), *b = side_open(test, NULL);
	struct ibr_path *path = world_path(test, a->endpoint->mode);
	u32 peer = side_add_side(test, a, b), i;
	unsigned long here = user_alloc(test, PAGE_SIZE);
	const struct ibrelk_command asks[] = {
		{ .opcode = IBRELK_OP_GET, .peer = peer, .addr = here, .length = PAGE_SIZE },
		{ .opcode = IBRELK_OP_ATOMIC, .peer = peer, .addr = here, .length = 8,
		  .messages = IBRELK_ATOMIC(IBRELK_ATOMIC_SUM, IBRELK_ATOMIC_U64) },
		{ .opcode = IBRELK_OP_ATOMIC, .peer = peer, .addr = here, .length = 8, .tag = here,
		  .messages = IBRELK_ATOMIC(IBRELK_ATOMIC_SUM, IBRELK_ATOMIC_U64) },
	};
	struct wire_frame frame = { .type = WIRE_FRAME_CTS, .cts.length = cpu_to_le32(8), .cts.unit = cpu_to_le32(8) };
	struct ibr_outflow *flow = ibr_outflow_get(a->endpoint, ibr_contact_find(a->endpoint, peer));
	struct ibr_recv *answer;
	struct ibr_send *send;
	u64 dropped;

	KUNIT_ASSERT_FALSE(test, IS_ERR(flow));
	for (i = 0; i < ARRAY_SIZE(asks); i++) {
		atomic_inc(&a->endpoint->sends);
		send = ibr_send_create(flow, &asks[i]);
		KUNIT_ASSERT_FALSE(test, IS_ERR(send));
		spin_lock_bh(&path->lock);
		KUNIT_EXPECT_EQ(test, ibr_handle_add(path, &send->h, IBR_HANDLE_SEND), 0);
		answer = send->answer;
		send->answer = NULL;
		frame.flow = cpu_to_le32(send->h.id);
		dropped = path->counters.drop_malformed;
		ibr_rendezvous_receive(path, &frame, NULL);
		KUNIT_EXPECT_EQ(test, path->counters.drop_malformed, dropped + 1);
		KUNIT_EXPECT_EQ(test, send->windows, 0u);
		send->answer = answer;
		ibr_handle_remove(path, &send->h);
		spin_unlock_bh(&path->lock);
		ibr_send_discard(send);
	}
	ibr_outflow_put(flow);
	ibr_path_put(path);
	world_check(test);
}

/* News of a flow that an earlier copy of the request had made, or not made, do not end the one that is open. */
static void answers_to_copies(struct kunit *test)
{
	struct side *a = side_open(test, NULL), *b = side_open(test, NULL);
	struct ibr_path *path = world_path(test, a->endpoint->mode);
	u32 peer = side_add_side(test, a, b);
	unsigned long from = user_alloc(test, 8), to = user_alloc(test, 8);
	struct wire_frame close = { .type = WIRE_FRAME_FLOW_CLOSE };
	struct wire_frame refuse = { .type = WIRE_FRAME_FLOW_REFUSE, .refuse.reason = cpu_to_le32(ESTALE) };
	struct ibr_outflow *flow;

	side_send(test, a, peer, from, 8, 1, 1);
	side_recv(test, b, IBRELK_PEER_ANY, to, 8, 1, 2);
	side_wait_op(test, a, 1, 0);
	side_wait_op(test, b, 2, 0);
	spin_lock_bh(&path->lock);
	flow = list_first_entry(&path->outflows, struct ibr_outflow, on_path);
	close.flow = refuse.flow = cpu_to_le32(flow->h.id);
	close.close.handle = cpu_to_le32(flow->remote_handle + 1);
	ibr_flow_handle_control(path, &close, NULL);
	ibr_flow_handle_control(path, &refuse, NULL);
	KUNIT_EXPECT_EQ(test, flow->state, IBR_OUTFLOW_OPEN);
	close.close.handle = cpu_to_le32(flow->remote_handle);
	ibr_flow_handle_control(path, &close, NULL);
	KUNIT_EXPECT_EQ(test, flow->state, IBR_OUTFLOW_CLOSED);
	spin_unlock_bh(&path->lock);
	ibr_path_put(path);
	world_check(test);
}

/*
 * A peer that makes us answer and takes no answer: so many answers wait, a question too many is not received, and if
 * something must be said all the same, the life ends, and all that waited with it.
 */
static void answers_untaken(struct kunit *test)
{
	enum { SIZE = 20000, BATCH = 4096 };
	const struct faults nothing_passes = { .drop = 256 };
	struct side *a = side_open(test, NULL), *b = side_open(test, NULL);
	struct ibr_path *path = world_path(test, a->endpoint->mode);
	u32 peer = side_add_side(test, a, b), asked, full, after;
	unsigned long from = user_alloc(test, SIZE), to = user_alloc(test, SIZE);
	struct wire_frame open = { .type = WIRE_FRAME_FLOW_OPEN, .open.dst_endpoint = cpu_to_le32(U32_MAX) };
	u32 counted = 0;
	int ret, doomed;
	unsigned long end;
	u64 lives;

	user_fill(test, from, SIZE, 1);
	side_send(test, a, peer, from, SIZE, 0, 7);
	KUNIT_EXPECT_TRUE(test, wait_until(READ_ONCE(b->endpoint->match.messages) == 1 && path_is_idle(path)));
	faults_set(&nothing_passes);
	end = jiffies + 10 * HZ;
	lives = path->counters.lives;
	spin_lock_bh(&path->lock);
	for (asked = 0; asked < 2 * IBR_CONTROL_MAX && path->queue < IBR_CONTROL_MAX; asked++) {
		ibr_flow_handle_control(path, &open, NULL);
		if (asked % BATCH)
			continue;
		spin_unlock_bh(&path->lock);
		ibr_frag_refill();
		cond_resched();
		spin_lock_bh(&path->lock);
		/* A silent peer is waited for 30 s. Where a kernel that debugs takes longer the rest is only counted. */
		if (time_after(jiffies, end) && path->queue < IBR_CONTROL_MAX) {
			counted = IBR_CONTROL_MAX - path->queue;
			path->queue += counted;
		}
	}
	full = path->queue;
	ret = ibr_flow_handle_control(path, &open, NULL);
	after = path->queue;
	doomed = path->doomed;
	spin_unlock_bh(&path->lock);
	/* Packets that were lost while the lock was free bring their answers back in addition. */
	KUNIT_EXPECT_GE(test, full, IBR_CONTROL_MAX);
	KUNIT_EXPECT_LE(test, full, IBR_CONTROL_MAX + REL_SPAN_MAX * WIRE_FRAMES_MAX);
	KUNIT_EXPECT_EQ(test, ret, -ENOMEM);
	KUNIT_EXPECT_EQ(test, after, full);
	KUNIT_EXPECT_EQ(test, doomed, 0);
	KUNIT_EXPECT_EQ(test, path->counters.lives, lives);

	/* The CTS for this one must be said. */
	side_recv(test, b, IBRELK_PEER_ANY, to, SIZE, 0, 8);
	faults_set(NULL);
	side_wait_op(test, a, 7, -ENOMEM);
	side_wait_op(test, b, 8, -ENOMEM);
	spin_lock_bh(&path->lock);
	path->queue -= counted;
	spin_unlock_bh(&path->lock);
	KUNIT_EXPECT_TRUE(test, wait_until(path_is_idle(path)));
	KUNIT_EXPECT_EQ(test, path->queue, 0u);

	side_recv(test, b, IBRELK_PEER_ANY, to, SIZE, 1, 9);
	side_send(test, a, peer, from, SIZE, 1, 9);
	side_wait_op(test, a, 9, 0);
	side_wait_op(test, b, 9, 0);
	KUNIT_EXPECT_TRUE(test, user_check(test, to, SIZE, 1));
	KUNIT_EXPECT_EQ(test, path->counters.lives, lives + 1);
	ibr_path_put(path);
	world_check(test);
}

static const struct ibr_path_key unused_key = {
	.local_gid = { [10] = 0xff, [11] = 0xff, [12] = 127, [15] = 99 },
	.remote_gid = { [10] = 0xff, [11] = 0xff, [12] = 127, [15] = 99 },
	.mode = IBRELK_MODE_UC_RELIABLE,
};

/* A path that nobody came to use goes again; one that somebody knows stays. */
static void paths_pruned(struct kunit *test)
{
	u32 before;
	struct ibr_path *path;

	ibr_paths_prune(0);
	before = ibr_paths_dump(NULL, 0);
	path = ibr_path_get_key(&unused_key, false);
	KUNIT_ASSERT_FALSE(test, IS_ERR(path));
	ibr_paths_prune(0);
	KUNIT_EXPECT_EQ(test, ibr_paths_dump(NULL, 0), before + 1);
	KUNIT_EXPECT_FALSE(test, path->removed);
	ibr_path_put(path);
	ibr_paths_prune(HZ * 1000);
	KUNIT_EXPECT_EQ(test, ibr_paths_dump(NULL, 0), before + 1);
	ibr_paths_prune(0);
	KUNIT_EXPECT_EQ(test, ibr_paths_dump(NULL, 0), before);
}

/*
 * One that leads back to this node is up for good; when nobody uses it any more it goes as well, with its queue, which
 * is half a megabyte: there are as many of them as loopback addresses.
 */
static void paths_to_oneself_pruned(struct kunit *test)
{
	struct ibrelk_addr nobody = { .gid = { [10] = 0xff, [11] = 0xff, [12] = 127, [15] = 97 }, .endpoint = 1 };
	struct side *a = side_open(test, NULL);
	struct ibr_path_key key = { .mode = a->endpoint->mode };
	unsigned long from = user_alloc(test, 8);
	struct ibr_path *path;

	memcpy(key.local_gid, nobody.gid, sizeof(key.local_gid));
	memcpy(key.remote_gid, nobody.gid, sizeof(key.remote_gid));
	side_send(test, a, side_add(test, a, &nobody), from, 8, 1, 9);
	side_wait_op(test, a, 9, -ECONNREFUSED);
	ibr_paths_prune(0);
	path = ibr_path_find_key(&key);
	KUNIT_ASSERT_NOT_NULL(test, path);
	KUNIT_EXPECT_EQ(test, path->state, IBRELK_PATH_UP);
	ibr_path_put(path);
	side_close(test, a);
	KUNIT_EXPECT_TRUE(test, wait_until(({
		ibr_paths_prune(0);
		path = ibr_path_find_key(&key);
		if (path)
			ibr_path_put(path);
		!path;
	})));
	world_check(test);
}

/* However many paths processes of this node have made, peers have theirs. */
static void paths_of_peers(struct kunit *test)
{
	struct ibr_path_key peer = unused_key;
	u32 most = ibr_paths_asked_max;
	struct ibr_path *path;

	peer.local_gid[15] = 98;
	path = ibr_path_get_key(&unused_key, false);
	KUNIT_ASSERT_FALSE(test, IS_ERR(path));
	ibr_paths_asked_max = 1;
	/* It gets as far as to be told that the address is nobody's. */
	KUNIT_EXPECT_EQ(test, PTR_ERR(ibr_path_get_key(&peer, true)), -ENODEV);
	ibr_paths_asked_max = 0;
	KUNIT_EXPECT_EQ(test, PTR_ERR(ibr_path_get_key(&peer, true)), -EUSERS);
	ibr_paths_asked_max = most;
	ibr_path_put(path);
	ibr_paths_prune(0);
}

/* What errors a peer may name, and what becomes of others. */
static void named_errors(struct kunit *test)
{
	static const struct {
		u32 said;
		int told;
	} cases[] = {
		{ 0, 0 },
		{ EMSGSIZE, 0 },
		{ ENOMEM, -ENOMEM },
		{ ECONNRESET, -ECONNRESET },
		{ EPERM, -EREMOTEIO },
		{ 512, -EREMOTEIO },
		{ 4096, -EREMOTEIO },
		{ (u32)-ENOMEM, -EREMOTEIO },
	};
	struct side *a = side_open(test, NULL), *b = side_open(test, NULL);
	struct ibr_path *path = world_path(test, a->endpoint->mode);
	u32 peer = side_add_side(test, a, b), i;
	unsigned long from = user_alloc(test, 20000);
	struct ibr_outflow *flow;
	struct ibr_send *send;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		struct wire_frame frame = { .type = WIRE_FRAME_FIN, .fin.status = cpu_to_le32(cases[i].said) };

		side_send(test, a, peer, from, 20000, i, i);
		KUNIT_EXPECT_TRUE(test, wait_until(READ_ONCE(b->endpoint->match.messages) == i + 1));
		spin_lock_bh(&path->lock);
		flow = list_first_entry(&path->outflows, struct ibr_outflow, on_path);
		send = list_first_entry(&flow->sent, struct ibr_send, link);
		frame.flow = cpu_to_le32(send->h.id);
		ibr_rendezvous_receive(path, &frame, NULL);
		spin_unlock_bh(&path->lock);
		side_wait_op(test, a, i, cases[i].told);
	}
	KUNIT_EXPECT_EQ(test, ibr_wire_error(cpu_to_le32(EUSERS)), -EUSERS);
	KUNIT_EXPECT_EQ(test, ibr_wire_error(0), -EREMOTEIO);
	ibr_path_put(path);
	world_check(test);
}

/* An endpoint that has as many sources as it may refuses one more, and says why. */
static void sources_exhausted(struct kunit *test)
{
	struct side *a = side_open(test, NULL), *b = side_open(test, NULL);
	struct ibr_path *path = world_path(test, a->endpoint->mode);
	u32 peer = side_add_side(test, a, b);
	unsigned long buffer = user_alloc(test, 10);
	/* A request that was repeated in vain may come when there is room: then its source is known, so that is last. */
	u32 *full[] = { &b->endpoint->learned, &b->endpoint->sources };
	u32 i;

	for (i = 0; i < ARRAY_SIZE(full); i++) {
		u64 before = path->counters.drop_limit;

		count_take(b, full[i], IBR_SOURCES_MAX);
		side_send(test, a, peer, buffer, 10, 0, i);
		side_wait_op(test, a, i, -EUSERS);
		KUNIT_EXPECT_GT(test, path->counters.drop_limit, before);
		KUNIT_ASSERT_TRUE(test, wait_until(path_is_idle(path)));
		count_take(b, full[i], -IBR_SOURCES_MAX);
	}
	side_recv(test, b, IBRELK_PEER_ANY, buffer, 10, 0, 2);
	side_send(test, a, peer, buffer, 10, 0, 3);
	side_wait_op(test, a, 3, 0);
	side_wait_op(test, b, 2, 0);
	ibr_path_put(path);
	world_check(test);
}

/* Every endpoint talks to every one, itself included. */
static void many_flows(struct kunit *test)
{
	enum { SIDES = 10, COUNT = 6 };
	struct side *side[SIDES];
	u32 peer[SIDES][SIDES], i, k, n;
	unsigned long from = user_alloc(test, 20000), to = user_alloc(test, 20000);

	user_fill(test, from, 20000, 5);
	for (i = 0; i < SIDES; i++)
		side[i] = side_open(test, NULL);
	for (i = 0; i < SIDES; i++)
		for (k = 0; k < SIDES; k++)
			peer[i][k] = side_add_side(test, side[i], side[k]);
	for (n = 0; n < COUNT; n++)
		for (i = 0; i < SIDES; i++)
			for (k = 0; k < SIDES; k++)
				side_send(test, side[i], peer[i][k], from, n % 3 == 2 ? 20000 : 100 * n,
					  i, 1000);
	for (k = 0; k < SIDES; k++) {
		for (i = 0; i < SIDES; i++) {
			for (n = 0; n < COUNT; n++) {
				struct ibrelk_completion done;

				side_recv(test, side[k], peer[k][i], to, 20000, i, n);
				do
					done = side_wait(test, side[k]);
				while (done.opcode == IBRELK_OP_SEND);
				KUNIT_ASSERT_EQ(test, done.status, 0);
				KUNIT_EXPECT_EQ(test, done.user_data, (u64)n);
				KUNIT_EXPECT_EQ(test, done.peer, peer[k][i]);
				KUNIT_EXPECT_EQ(test, done.length, n % 3 == 2 ? 20000ull : 100ull * n);
				KUNIT_EXPECT_TRUE(test, user_check(test, to, done.length, 5));
			}
		}
	}
	world_check(test);
}

/* Nobody reads the ring: commands are accepted up to a limit, and every one of them is answered. */
static void ring_overflow(struct kunit *test)
{
	enum { MOST = 3000 };
	struct side_options tiny = { .ring_entries = 8 };
	struct side *a = side_open(test, &tiny), *b = side_open(test, NULL);
	u32 peer = side_add_side(test, a, b), accepted = 0, i;
	unsigned long from = user_alloc(test, 100);
	struct ibrelk_command send = {
		.opcode = IBRELK_OP_SEND,
		.peer = peer,
		.addr = from,
		.length = 1,
	};
	struct ibrelk_command recv = {
		.opcode = IBRELK_OP_RECV,
		.flags = IBRELK_CMD_NO_SUCCESS,
		.peer = IBRELK_PEER_ANY,
		.addr = from,
		.length = 1,
	};

	while (accepted < MOST) {
		int ret;

		/* Messages that nobody took would stay outstanding. */
		side_accept(test, b, &recv);
		send.user_data = accepted;
		ret = side_submit(test, a, &send);
		KUNIT_ASSERT_GE(test, ret, 0);
		if (!ret)
			break;
		accepted++;
	}
	KUNIT_EXPECT_GT(test, accepted, 8);
	KUNIT_EXPECT_LT(test, accepted, MOST);
	for (i = 0; i < accepted; i++)
		side_wait_op(test, a, i, 0);
	KUNIT_EXPECT_TRUE(test, wait_until(!atomic_read(&a->endpoint->sends)));
	side_accept(test, b, &recv);
	side_accept(test, a, &send);
	side_wait(test, a);
	world_check(test);
}

/* The same, but the ring's owner goes away instead of reading it. */
static void ring_abandoned(struct kunit *test)
{
	struct side_options tiny = { .ring_entries = 2 };
	struct side *a = side_open(test, &tiny), *b = side_open(test, &tiny);
	u32 peer = side_add_side(test, a, b), i;
	unsigned long buffer = user_alloc(test, 3 << 20);

	for (i = 0; i < 100; i++) {
		side_recv(test, b, IBRELK_PEER_ANY, buffer, 3 << 20, 0, i);
		side_send(test, a, peer, buffer, i % 10 ? i : 100000, 0, i);
	}
	world_check(test);
}

static void too_many(struct kunit *test)
{
	struct side_options few = { .sends = 4, .recvs = 5 };
	struct side *a = side_open(test, &few), *b = side_open(test, NULL);
	u32 peer = side_add_side(test, a, b), i;
	unsigned long buffer = user_alloc(test, 100);
	struct ibrelk_command send = {
		.opcode = IBRELK_OP_SEND,
		.level = IBRELK_LEVEL_MATCHED,
		.peer = peer,
		.addr = buffer,
		.length = 1,
	};
	struct ibrelk_command recv = {
		.opcode = IBRELK_OP_RECV,
		.peer = peer,
		.addr = buffer,
		.length = 1,
	};

	for (i = 0; i < 4; i++)
		side_accept(test, a, &send);
	KUNIT_EXPECT_EQ(test, side_submit(test, a, &send), 0);
	for (i = 0; i < 5; i++)
		side_accept(test, a, &recv);
	KUNIT_EXPECT_EQ(test, side_submit(test, a, &recv), 0);
	side_recv(test, b, IBRELK_PEER_ANY, buffer, 1, 0, 0);
	side_wait_op(test, b, 0, 0);
	side_wait_op(test, a, 0, 0);
	KUNIT_EXPECT_TRUE(test, wait_until(atomic_read(&a->endpoint->sends) == 3));
	side_accept(test, a, &send);
	world_check(test);
}

/* Who was turned away can wait for room. */
static void room(struct kunit *test)
{
	struct side_options few = { .sends = 4, .recvs = 5, .ring_entries = 8 };
	struct side *a = side_open(test, &few), *b = side_open(test, NULL);
	struct ibr_endpoint *endpoint = a->endpoint;
	u32 peer = side_add_side(test, a, b), i;
	unsigned long buffer = user_alloc(test, 20000);
	struct ibrelk_command nop = { .opcode = IBRELK_OP_NOP };
	struct ibrelk_completion done;

	KUNIT_EXPECT_EQ(test, ibr_endpoint_poll(endpoint, NULL, NULL),
			IBR_POLL_SEND | IBR_POLL_RECV | IBR_POLL_CANCEL);
	for (i = 0; i < 5; i++)
		side_recv(test, a, IBRELK_PEER_ANY, buffer, 100, i, i);
	KUNIT_EXPECT_EQ(test, ibr_endpoint_poll(endpoint, NULL, NULL), IBR_POLL_SEND | IBR_POLL_CANCEL);
	for (i = 0; i < 4; i++)
		side_send(test, a, peer, buffer, 20000, 1, i);
	KUNIT_EXPECT_EQ(test, ibr_endpoint_poll(endpoint, NULL, NULL), IBR_POLL_CANCEL);
	side_recv(test, b, IBRELK_PEER_ANY, user_alloc(test, 20000), 20000, 1, 0);
	side_wait_op(test, b, 0, 0);
	KUNIT_EXPECT_TRUE(test, wait_until(ibr_endpoint_poll(endpoint, NULL, NULL) ==
					 (IBR_POLL_SEND | IBR_POLL_CANCEL)));
	side_wait_op(test, a, 0, 0);

	/* Unread completions leave no room either, until they are read. */
	while (side_submit(test, a, &nop))
		;
	KUNIT_EXPECT_EQ(test, ibr_endpoint_poll(endpoint, NULL, NULL), (__poll_t)0);
	while (side_try(test, a, &done, 0))
		;
	KUNIT_EXPECT_EQ(test, ibr_endpoint_poll(endpoint, NULL, NULL), IBR_POLL_SEND | IBR_POLL_CANCEL);
	world_check(test);
}

#define READ_ONLY	16	/* stands for an address that is known at run time */

static void wrong_commands(struct kunit *test)
{
	struct side *a = side_open(test, NULL), *b = side_open(test, NULL);
	unsigned long buffer = user_alloc(test, PAGE_SIZE);
	unsigned long read_only = kunit_vm_mmap(test, NULL, 0, PAGE_SIZE, PROT_READ, MAP_ANONYMOUS | MAP_PRIVATE, 0);
	static const struct {
		struct ibrelk_command command;
		int error;
	} cases[] = {
		{ { .opcode = 200 }, -EINVAL },
		{ { .opcode = IBRELK_OP_ATOMIC }, -EINVAL },
		{ { .opcode = IBRELK_OP_ATOMIC, .peer = 12345, .length = 8,
		    .messages = IBRELK_ATOMIC(IBRELK_ATOMIC_SUM, IBRELK_ATOMIC_U64) }, -ENOENT },
		{ { .opcode = IBRELK_OP_ATOMIC, .addr = 8, .length = 8,
		    .messages = IBRELK_ATOMIC(IBRELK_ATOMIC_SUM, IBRELK_ATOMIC_U64) }, -EFAULT },
		{ { .opcode = IBRELK_OP_GET, .tag = 1 }, -EINVAL },
		{ { .opcode = IBRELK_OP_PUT, .peer = 12345 }, -ENOENT },
		{ { .opcode = IBRELK_OP_PUT, .level = 1 }, -EINVAL },
		{ { .opcode = IBRELK_OP_PUT, .tag = 1 }, -EINVAL },
		{ { .opcode = IBRELK_OP_SEND, .remote_key = 1 }, -EINVAL },
		{ { .opcode = IBRELK_OP_SEND, .peer = 12345 }, -ENOENT },
		{ { .opcode = IBRELK_OP_SEND, .peer = IBRELK_PEER_ANY }, -EINVAL },
		{ { .opcode = IBRELK_OP_SEND, .level = 4 }, -EINVAL },
		{ { .opcode = IBRELK_OP_SEND, .flags = 0x8000 }, -EINVAL },
		{ { .opcode = IBRELK_OP_SEND, .flags = IBRELK_CMD_REGION }, -EOPNOTSUPP },
		{ { .opcode = IBRELK_OP_SEND, .flags = IBRELK_CMD_IOVEC, .length = IBRELK_IOVEC_MAX + 1 }, -EINVAL },
		{ { .opcode = IBRELK_OP_RECV, .flags = IBRELK_CMD_IOVEC, .addr = 8, .length = 1 }, -EFAULT },
		{ { .opcode = IBRELK_OP_SEND, .immediate = 1 }, -EINVAL },
		{ { .opcode = IBRELK_OP_SEND, .messages = 1 }, -EINVAL },
		{ { .opcode = IBRELK_OP_SEND, .length = IBR_MESSAGE_MAX + 1 }, -EINVAL },
		{ { .opcode = IBRELK_OP_SEND, .addr = 8, .length = 10 }, -EFAULT },
		{ { .opcode = IBRELK_OP_SEND, .addr = 8, .length = 100000 }, -EFAULT },
		{ { .opcode = IBRELK_OP_SEND, .addr = ~0ull, .length = 100000 }, -EFAULT },
		{ { .opcode = IBRELK_OP_RECV, .peer = 12345 }, -ENOENT },
		{ { .opcode = IBRELK_OP_RECV, .level = 1 }, -EINVAL },
		{ { .opcode = IBRELK_OP_RECV, .addr = 8, .length = 10 }, -EFAULT },
		{ { .opcode = IBRELK_OP_RECV, .addr = READ_ONLY, .length = 10 }, -EFAULT },
		{ { .opcode = IBRELK_OP_CANCEL, .length = 1 }, -EINVAL },
		{ { .opcode = IBRELK_OP_NOP, .addr = 1 }, -EINVAL },
	};

	u32 i;

	/* The table takes the first handle for granted. */
	KUNIT_ASSERT_EQ(test, side_add_side(test, a, b), 0);
	KUNIT_ASSERT_NE(test, read_only, 0ul);
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		struct ibrelk_command command = cases[i].command;

		if (command.addr == READ_ONLY)
			command.addr = read_only;
		KUNIT_EXPECT_EQ_MSG(test, side_submit(test, a, &command), cases[i].error, "case %u", i);
	}
	KUNIT_EXPECT_EQ(test, ibr_command_batch(a->endpoint, (void __user *)8, 1), -EFAULT);
	KUNIT_EXPECT_EQ(test, ibr_command_batch(a->endpoint, (void __user *)buffer, 0), -EINVAL);
	KUNIT_EXPECT_EQ(test, ibr_command_batch(a->endpoint, (void __user *)buffer, IBR_BATCH_MAX + 1), -EINVAL);
	KUNIT_EXPECT_EQ(test, atomic_read(&a->endpoint->sends), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&a->endpoint->recvs), 0);
	world_check(test);
}

/* Buffers in two pieces, of which the second comes first. */
static void bounced_pieces(struct kunit *test, struct side *a, struct side *b, u32 peer, u64 from, u64 to)
{
	struct ibrelk_iovec piece[2] = { { from + 70000, 30000 }, { from, 70000 } };
	unsigned long array = user_alloc(test, PAGE_SIZE);
	struct ibrelk_command command = {
		.opcode = IBRELK_OP_SEND,
		.flags = IBRELK_CMD_IOVEC,
		.peer = peer,
		.addr = array,
		.length = 2,
		.tag = 12,
	};

	user_fill(test, from, 100000, 12);
	KUNIT_ASSERT_EQ(test, copy_to_user((void __user *)array, piece, sizeof(piece)), 0ul);
	side_accept(test, a, &command);
	piece[0].addr = to + 70000;
	piece[1].addr = to;
	KUNIT_ASSERT_EQ(test, copy_to_user((void __user *)array, piece, sizeof(piece)), 0ul);
	command.opcode = IBRELK_OP_RECV;
	command.peer = IBRELK_PEER_ANY;
	side_accept(test, b, &command);
	side_wait_op(test, b, 0, 0);
	side_wait_op(test, a, 0, 0);
	KUNIT_EXPECT_TRUE(test, user_check(test, to, 100000, 12));
}

/* Memory that may not be pinned is stood in for by bounce buffers, on both sides. */
static void bounced(struct kunit *test)
{
	static const u64 sizes[] = { 1, 5000, 100000, (5 << 20) + 3 };
	struct side *a = side_open(test, NULL), *b = side_open(test, NULL);
	u32 peer = side_add_side(test, a, b), i;
	unsigned long from = user_alloc(test, 6 << 20), to = user_alloc(test, 6 << 20);
	struct cred *poor = prepare_creds();
	const struct cred *old;

	KUNIT_ASSERT_NOT_NULL(test, poor);
	cap_clear(poor->cap_effective);
	old = override_creds(poor);
	current->signal->rlim[RLIMIT_MEMLOCK].rlim_cur = 0;
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		user_fill(test, from, sizes[i], i);
		side_recv(test, b, IBRELK_PEER_ANY, to, sizes[i], 0, i);
		KUNIT_EXPECT_EQ(test, atomic64_read(&current->mm->pinned_vm), 0ll);
		side_send(test, a, peer, from, sizes[i], 0, i);
		side_wait_op(test, b, i, 0);
		side_wait_op(test, a, i, 0);
		KUNIT_EXPECT_TRUE(test, user_check(test, to, sizes[i], i));
	}
	/* One that waits, one that is too long, one that is cancelled. */
	side_send(test, a, peer, from, 100000, 1, 10);
	KUNIT_EXPECT_TRUE(test, wait_until(b->endpoint->match.messages == 1));
	side_recv(test, b, IBRELK_PEER_ANY, to, 999, 1, 10);
	side_wait_op(test, b, 10, -EMSGSIZE);
	KUNIT_EXPECT_TRUE(test, user_check(test, to, 999, ARRAY_SIZE(sizes) - 1));
	side_wait_op(test, a, 10, 0);
	side_recv(test, b, IBRELK_PEER_ANY, to, 999, 1, 11);
	bounced_pieces(test, a, b, peer, from, to);
	revert_creds(old);
	put_cred(poor);
	world_check(test);
}

static struct kunit_case cases[] = {
	KUNIT_CASE_PARAM(unexpected_exhausted, mode_next),
	KUNIT_CASE_PARAM(credit_awaited, mode_next),
	KUNIT_CASE(matched_flood),
	KUNIT_CASE_PARAM(headers_exhausted, mode_next),
	KUNIT_CASE(pool_searched),
	KUNIT_CASE_PARAM(headers_grow, mode_next),
	KUNIT_CASE_PARAM(headers_forged, mode_next),
	KUNIT_CASE_PARAM(units_forged, mode_next),
	KUNIT_CASE(asks_forged),
	KUNIT_CASE_PARAM(answers_to_copies, mode_next),
	KUNIT_CASE(answers_untaken),
	KUNIT_CASE(paths_pruned),
	KUNIT_CASE(paths_to_oneself_pruned),
	KUNIT_CASE(paths_of_peers),
	KUNIT_CASE(sources_exhausted),
	KUNIT_CASE(named_errors),
	KUNIT_CASE_PARAM(many_flows, mode_next),
	KUNIT_CASE(ring_overflow),
	KUNIT_CASE(ring_abandoned),
	KUNIT_CASE(too_many),
	KUNIT_CASE(room),
	KUNIT_CASE(wrong_commands),
	KUNIT_CASE_PARAM(bounced, mode_next_reliable),
	{}
};

static struct kunit_suite suite = {
	.name = "ibrelk_limits",
	.init = world_init,
	.exit = world_exit,
	.test_cases = cases,
};
kunit_test_suite(suite);
