// SPDX-License-Identifier: GPL-2.0-only
/*
 * A wire that loses, repeats, reorders and damages packets, and queue pairs that break: in reliable
 * modes every message arrives once, whole and in order; in native ones those that arrive are whole and in
 * order, and nothing gets stuck.
 */
#include <linux/slab.h>

#include "drive.h"
#include "memory.h"
#include "pair.h"
#include "transport/transport.h"

#define COUNT	48
#define STRIDE	(1ul << 20)

struct trouble {
	u32 mode;		/* first member: see world_init() */
	const char *name;
	struct faults faults;
};

#define TROUBLES(mode, what)								\
	{ mode, what " loss", { .seed = 1, .drop = 13 } },				\
	{ mode, what " heavy loss", { .seed = 2, .drop = 64 } },			\
	{ mode, what " duplicates", { .seed = 3, .duplicate = 64 } },			\
	{ mode, what " reordering", { .seed = 4, .hold = 64 } },			\
	{ mode, what " corruption", { .seed = 5, .corrupt = 26 } },			\
	{ mode, what " all", { .seed = 6, .drop = 13, .duplicate = 13, .hold = 26, .corrupt = 13 } }

static const struct trouble troubles[] = {
	TROUBLES(IBRELK_MODE_UC_RELIABLE, "uc-reliable"),
	TROUBLES(IBRELK_MODE_UD_RELIABLE, "ud-reliable"),
	TROUBLES(IBRELK_MODE_RC_RELIABLE, "rc-reliable"),
	TROUBLES(IBRELK_MODE_UC_NATIVE, "uc-native"),
	TROUBLES(IBRELK_MODE_UD_NATIVE, "ud-native"),
};
#define RELIABLE	(3 * 6)

static const void *trouble_range(const void *previous, char *name, u32 first, u32 end)
{
	const struct trouble *trouble = previous ? previous : &troubles[first];

	if (previous)
		trouble++;
	if (trouble == &troubles[end])
		return NULL;
	strscpy(name, trouble->name, KUNIT_PARAM_DESC_SIZE);
	return trouble;
}

static IBR_KUNIT_NEXT(trouble_next_reliable, previous, name)
{
	return trouble_range(previous, name, 0, RELIABLE);
}

static IBR_KUNIT_NEXT(trouble_next_native, previous, name)
{
	return trouble_range(previous, name, RELIABLE, ARRAY_SIZE(troubles));
}

/* Mostly short, some of several fragments, some by rendezvous, one of several windows. */
static u64 draw_length(struct world *world, u32 i)
{
	u64 x = world_random(world);

	if (i == COUNT / 2)
		return 5 * STRIDE + 17;
	switch (i % 8) {
	case 3:
		return x % EAGER_MAX;
	case 5:
		return x % 200000;
	default:
		return x % 400;
	}
}

/* Messages in both directions at once, half of them before their receives. */
static void survived(struct kunit *test)
{
	const struct trouble *trouble = test->param_value;
	struct world *world = test->priv;
	struct side *side[2] = { side_open(test, NULL), side_open(test, NULL) };
	u32 peer[2] = { side_add_side(test, side[0], side[1]), side_add_side(test, side[1], side[0]) };
	u32 seen[2][2] = {}, i, k;
	u64 *length = kunit_kcalloc(test, COUNT, sizeof(*length), GFP_KERNEL);
	unsigned long from = user_alloc(test, COUNT * STRIDE + 6 * STRIDE);
	unsigned long to[2] = { user_alloc(test, COUNT * STRIDE + 6 * STRIDE),
				user_alloc(test, COUNT * STRIDE + 6 * STRIDE) };

	KUNIT_ASSERT_NOT_NULL(test, length);
	for (i = 0; i < COUNT; i++)
		length[i] = draw_length(world, i);
	/* The long one has the room of those around it, which are short. */
	length[COUNT / 2 + 1] = 0;
	for (i = 0; i < COUNT; i++)
		if (length[i] <= STRIDE)
			user_fill(test, from + i * STRIDE, length[i], i);
	user_fill(test, from + COUNT * STRIDE, length[COUNT / 2], COUNT / 2);

	faults_set(&trouble->faults);
	for (k = 0; k < 4; k++) {
		for (i = 0; i < COUNT; i++) {
			bool wide = i == COUNT / 2;
			u32 s = k & 1;
			u64 offset = wide ? COUNT * STRIDE : i * STRIDE;
			struct ibrelk_command command = {
				.user_data = i,
				.length = length[i],
				.tag = 1,
			};

			/* 0 receives early ones, then 0 and 1 send, then 1 receives, late. */
			if (k == 0 || k == 3) {
				command.opcode = IBRELK_OP_RECV;
				command.peer = IBRELK_PEER_ANY;
				command.addr = to[s] + offset;
			} else {
				s = k == 1;
				command.opcode = IBRELK_OP_SEND;
				command.flags = IBRELK_CMD_IMMEDIATE;
				command.immediate = i;
				command.peer = peer[s];
				command.addr = from + offset;
			}
			side_accept(test, side[s], &command);
		}
	}
	for (i = 0; i < 4 * COUNT; i++) {
		u32 s = i & 1;
		struct ibrelk_completion done = side_wait(test, side[s]);
		u64 n = done.user_data;

		KUNIT_ASSERT_EQ(test, done.status, 0);
		KUNIT_ASSERT_LT(test, n, (u64)COUNT);
		KUNIT_EXPECT_EQ(test, done.length, length[n]);
		seen[s][done.opcode == IBRELK_OP_RECV]++;
		if (done.opcode != IBRELK_OP_RECV)
			continue;
		/* Receives are alike, so message n is in receive n only if all are in order. */
		KUNIT_EXPECT_EQ(test, done.immediate, n);
		KUNIT_EXPECT_TRUE(test, user_check(test, to[s] + (n == COUNT / 2 ? COUNT : n) * STRIDE,
						   length[n], n));
	}
	for (i = 0; i < 2; i++) {
		KUNIT_EXPECT_EQ(test, seen[i][0], COUNT);
		KUNIT_EXPECT_EQ(test, seen[i][1], COUNT);
	}
	KUNIT_EXPECT_GT(test, wire_faults.seen, 2 * COUNT);
	if (wire_faults.drop)
		KUNIT_EXPECT_GT(test, wire_faults.dropped, 0);
	if (wire_faults.corrupt)
		KUNIT_EXPECT_GT(test, wire_faults.corrupted, 0);
	world_check(test);
}

/* A message that has come is as it was sent; @got: which one each receive got. */
static void got_natively(struct kunit *test, const struct ibrelk_completion *done, const u64 *length, s64 *got)
{
	if (done->status == -EIO)
		return;
	KUNIT_ASSERT_EQ(test, done->status, 0);
	KUNIT_ASSERT_LT(test, done->immediate, 4ull * COUNT);
	KUNIT_ASSERT_LT(test, done->user_data, 4ull * COUNT);
	KUNIT_EXPECT_EQ(test, done->length, length[done->immediate]);
	got[done->user_data] = done->immediate;
}

/* Buffered messages may be missing; what comes is whole and in order; the others say what became of them. */
static void survived_natively(struct kunit *test)
{
	const struct trouble *trouble = test->param_value;
	struct world *world = test->priv;
	struct side *a = side_open(test, NULL), *b = side_open(test, NULL);
	u32 peer = side_add_side(test, a, b), i, sent = 0, received = 0;
	u64 *length = kunit_kcalloc(test, COUNT * 4, sizeof(*length), GFP_KERNEL);
	unsigned long from = user_alloc(test, 6 * STRIDE), to = user_alloc(test, COUNT * STRIDE);
	s64 *got = kunit_kcalloc(test, COUNT * 4, sizeof(*got), GFP_KERNEL);
	DECLARE_BITMAP(well, 200) = {};
	struct ibrelk_completion done;
	s64 last = -1;

	KUNIT_ASSERT_NOT_NULL(test, length);
	KUNIT_ASSERT_NOT_NULL(test, got);
	user_fill(test, from, 6 * STRIDE, 8);
	for (i = 0; i < 4 * COUNT; i++) {
		got[i] = -1;
		length[i] = draw_length(world, i % COUNT);
		side_recv(test, b, IBRELK_PEER_ANY, to + i % 40 * STRIDE, 6 * STRIDE, 1, i);
	}
	faults_set(&trouble->faults);
	for (i = 0; i < 4 * COUNT; i++) {
		struct ibrelk_command send = {
			.opcode = IBRELK_OP_SEND,
			.flags = IBRELK_CMD_IMMEDIATE,
			.immediate = i,
			.user_data = i,
			.peer = peer,
			.addr = from,
			.length = length[i],
			.tag = 1,
		};

		side_accept(test, a, &send);
	}
	/* Every send ends: buffered ones at once, long ones when they have been taken, or are given up for lost. */
	for (i = 0; i < 4 * COUNT; i++) {
		done = side_wait(test, a);
		KUNIT_ASSERT_LT(test, done.user_data, 4ull * COUNT);
		sent++;
		if (length[done.user_data] <= EAGER_MAX)
			KUNIT_EXPECT_EQ(test, done.status, 0);
		else
			KUNIT_EXPECT_TRUE(test, !done.status || done.status == -EIO);
	}
	while (side_try(test, b, &done, 200)) {
		received++;
		got_natively(test, &done, length, got);
		if (!done.status && !trouble->faults.drop && !trouble->faults.corrupt && !trouble->faults.hold)
			KUNIT_EXPECT_EQ(test, done.user_data, done.immediate);
	}
	kunit_info(test, "%u of %u arrived, %u packets dropped", received, sent, wire_faults.dropped);
	KUNIT_EXPECT_GT(test, received, COUNT);
	/* The wire is well again: so is the flow, however much credit went down with the losses. */
	faults_set(NULL);
	for (i = 0; i < 200; i++) {
		side_recv(test, b, IBRELK_PEER_ANY, to, 6 * STRIDE, 2, 1000 + i);
		side_send(test, a, peer, from, 3000, 2, 1000 + i);
	}
	for (i = 0; i < 200; i++)
		side_wait_op(test, a, 1000 + i, 0);
	while (!bitmap_full(well, 200)) {
		done = side_wait(test, b);
		/* One that went by RTS, and had to be asked for again and again. */
		if (done.user_data < 4 * COUNT) {
			got_natively(test, &done, length, got);
			continue;
		}
		KUNIT_ASSERT_LT(test, done.user_data - 1000, 200ull);
		KUNIT_EXPECT_EQ(test, done.status, 0);
		KUNIT_EXPECT_FALSE(test, test_and_set_bit(done.user_data - 1000, well));
	}
	/* They may be complete in another order, but are received in that of sending. */
	for (i = 0; i < 4 * COUNT; i++) {
		if (got[i] < 0)
			continue;
		KUNIT_EXPECT_GT(test, got[i], last);
		last = got[i];
	}
	world_check(test);
}

/* All eager messages are lost, and only announced ones follow: the credit comes back all the same. */
static void credit_comes_back(struct kunit *test)
{
	enum { SIZE = 4000, LONG = 20000 };
	struct side *a = side_open(test, NULL), *b = side_open(test, NULL);
	u32 peer = side_add_side(test, a, b), i;
	unsigned long from = user_alloc(test, LONG), to = user_alloc(test, LONG);
	const struct faults no_data = { .drop = 256, .data = true };
	struct ibr_outflow *flow;
	u32 count;
	u64 left;

	side_recv(test, b, IBRELK_PEER_ANY, to, SIZE, 1, 0);
	side_send(test, a, peer, from, SIZE, 1, 0);
	side_wait_op(test, a, 0, 0);
	side_wait_op(test, b, 0, 0);
	rcu_read_lock();
	flow = rcu_dereference(ibr_contact_find(a->endpoint, peer)->out);
	rcu_read_unlock();
	/* What the first message earned may come after it: the limit stands still then. */
	KUNIT_ASSERT_TRUE(test, wait_until(READ_ONCE(flow->limit) - flow->cost > IBR_GRANT_FIRST));
	left = flow->limit - flow->cost;
	/* More than half: less than that is not worth telling. */
	count = div_u64(left, 2 * ibr_message_cost(SIZE)) + 2;

	faults_set(&no_data);
	for (i = 0; i < count; i++)
		side_send(test, a, peer, from, SIZE, 1, i);
	for (i = 0; i < count; i++)
		side_wait_op(test, a, i, 0);
	KUNIT_EXPECT_TRUE(test, wait_until(wire_faults.dropped == count));
	KUNIT_EXPECT_EQ(test, flow->limit - flow->cost, left - count * ibr_message_cost(SIZE));
	faults_set(NULL);
	side_recv(test, b, IBRELK_PEER_ANY, to, LONG, 2, 1);
	side_send(test, a, peer, from, LONG, 2, 1);
	side_wait_op(test, b, 1, 0);
	side_wait_op(test, a, 1, 0);
	KUNIT_EXPECT_TRUE(test, wait_until(READ_ONCE(flow->limit) - flow->cost >= left));
	world_check(test);
}

/* The queue pair breaks again and again, under traffic: the same life goes on. */
static void rebuilt(struct kunit *test)
{
	struct side *a = side_open(test, NULL), *b = side_open(test, NULL);
	struct ibr_path *path = world_path(test, a->endpoint->mode);
	u32 peer = side_add_side(test, a, b), i;
	unsigned long from = user_alloc(test, 3 * STRIDE), to = user_alloc(test, 3 * STRIDE);
	u64 before = path->counters.reconnects;

	user_fill(test, from, 3 * STRIDE, 4);
	for (i = 0; i < 60; i++) {
		u64 length = i % 3 ? 500 * i : 3 * STRIDE;

		side_recv(test, b, IBRELK_PEER_ANY, to, length, i, i);
		side_send(test, a, peer, from, length, i, i);
		ibr_path_broken(path, path->qp, -EIO);
		side_wait_op(test, b, i, 0);
		side_wait_op(test, a, i, 0);
		KUNIT_EXPECT_TRUE(test, user_check(test, to, length, 4));
	}
	KUNIT_EXPECT_GT(test, path->counters.reconnects, before);
	ibr_path_put(path);
	world_check(test);
}

/* struct breaker - breaks a path from softirq, at times that have nothing to do with what the path does */
struct breaker {
	struct hrtimer timer;
	struct ibr_path *path;
	u64 random;
	u32 breaks;
};

static enum hrtimer_restart breaker_break(struct hrtimer *timer)
{
	struct breaker *breaker = container_of(timer, struct breaker, timer);

	ibr_path_broken(breaker->path, NULL, -EIO);
	breaker->breaks++;
	breaker->random = breaker->random * 6364136223846793005ull + 1442695040888963407ull;
	hrtimer_forward_now(timer, ns_to_ktime(5000 + (breaker->random >> 32) % 1000000));
	return HRTIMER_RESTART;
}

/* At the end of the test, however it ends. */
static void breaker_stop(void *data)
{
	struct breaker *breaker = data;

	hrtimer_cancel(&breaker->timer);
	ibr_path_put(breaker->path);
}

/*
 * Also while it is being connected, and when nothing is to be done but the work that connects runs all the same:
 * what it finds broken has something to let go of, or it is lost (ibr_path_connected() would warn, and so would
 * kmemleak).
 */
static void broken_at_any_moment(struct kunit *test)
{
	struct side *a = side_open(test, NULL), *b = side_open(test, NULL);
	u32 peer = side_add_side(test, a, b), i, k;
	unsigned long buffer = user_alloc(test, STRIDE);
	struct breaker *breaker = kunit_kzalloc(test, sizeof(*breaker), GFP_KERNEL);
	struct ibr_path *path;

	KUNIT_ASSERT_NOT_NULL(test, breaker);
	path = world_path(test, a->endpoint->mode);
	breaker->path = path;
	breaker->random = 1;
	hrtimer_setup(&breaker->timer, breaker_break, CLOCK_MONOTONIC, HRTIMER_MODE_REL_SOFT);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, breaker_stop, breaker), 0);
	hrtimer_start(&breaker->timer, 0, HRTIMER_MODE_REL_SOFT);
	for (i = 0; i < 40; i++) {
		side_recv(test, b, IBRELK_PEER_ANY, buffer, STRIDE, i, i);
		side_send(test, a, peer, buffer, 100, i, i);
		for (k = 0; k < 200; k++) {
			mod_delayed_work(ibr_wq, &path->connect_work, 0);
			flush_delayed_work(&path->connect_work);
		}
		side_wait_op(test, b, i, 0);
		side_wait_op(test, a, i, 0);
	}
	kunit_release_action(test, breaker_stop, breaker);
	KUNIT_EXPECT_GT(test, breaker->breaks, 0);
	world_check(test);
}

/* Nothing gets through for long enough that the queue pair is suspected: what was accepted still arrives. */
static void black_out(struct kunit *test)
{
	struct side *a = side_open(test, NULL), *b = side_open(test, NULL);
	u32 peer = side_add_side(test, a, b), i;
	unsigned long from = user_alloc(test, STRIDE), to = user_alloc(test, STRIDE);
	const struct faults nothing_passes = { .drop = 256 };
	struct ibr_path *path = world_path(test, a->endpoint->mode);
	u64 before = path->counters.reconnects;

	user_fill(test, from, STRIDE, 4);
	side_recv(test, b, IBRELK_PEER_ANY, to, STRIDE, 0, 0);
	side_send(test, a, peer, from, 10, 0, 0);
	side_wait_op(test, a, 0, 0);
	side_wait_op(test, b, 0, 0);

	faults_set(&nothing_passes);
	for (i = 1; i < 10; i++) {
		side_recv(test, b, IBRELK_PEER_ANY, to, STRIDE, i, i);
		side_send(test, a, peer, from, i * 9000, i, i);
	}
	KUNIT_EXPECT_TRUE(test, wait_until(READ_ONCE(path->counters.reconnects) > before));
	faults_set(NULL);
	for (i = 1; i < 10; i++) {
		KUNIT_EXPECT_EQ(test, side_wait(test, a).status, 0);
		KUNIT_EXPECT_EQ(test, side_wait(test, b).status, 0);
	}
	ibr_path_put(path);
	world_check(test);
}

/* A send waits for a receive, and nothing is in flight: a peer that says nothing for long is asked. */
static void silent_peer_is_asked(struct kunit *test)
{
	struct side *a = side_open(test, NULL), *b = side_open(test, NULL);
	u32 peer = side_add_side(test, a, b);
	unsigned long from = user_alloc(test, STRIDE), to = user_alloc(test, STRIDE);
	struct ibr_path *path = world_path(test, a->endpoint->mode);
	u64 before, looks = IBR_LOOK_MS * NSEC_PER_MSEC;

	side_send(test, a, peer, from, STRIDE, 1, 1);
	KUNIT_EXPECT_TRUE(test, wait_until(READ_ONCE(b->endpoint->match.messages) == 1));
	KUNIT_EXPECT_TRUE(test, wait_until(!rel_in_flight(&path->rel)));
	spin_lock_bh(&path->lock);
	before = path->rel.stats.probes_sent;
	KUNIT_EXPECT_NE(test, path->look_at, REL_TIME_NEVER);
	/* As if the time had passed. */
	path->rel.heard_ns -= looks;
	path->look_at = ktime_get_ns();
	ibr_path_drive_locked(path);
	spin_unlock_bh(&path->lock);
	KUNIT_EXPECT_TRUE(test, wait_until(READ_ONCE(path->rel.stats.probes_sent) > before));
	KUNIT_EXPECT_TRUE(test, wait_until(!READ_ONCE(path->rel.credit.asked)));
	side_recv(test, b, IBRELK_PEER_ANY, to, STRIDE, 1, 2);
	side_wait_op(test, b, 2, 0);
	side_wait_op(test, a, 1, 0);
	ibr_path_put(path);
	world_check(test);
}

/* The peer is given up: all that is under way fails, nothing hangs, and the next message finds a new life. */
static void given_up(struct kunit *test)
{
	struct side *a = side_open(test, NULL), *b = side_open(test, NULL);
	u32 peer = side_add_side(test, a, b), i, round;
	unsigned long from = user_alloc(test, 3 * STRIDE), to = user_alloc(test, 3 * STRIDE);
	struct ibr_path *path = world_path(test, a->endpoint->mode);
	struct ibrelk_path_info before, after;
	u64 lives = path->counters.lives;

	user_fill(test, from, 3 * STRIDE, 4);
	for (round = 0; round < 10; round++) {
		u32 sends = 0, recvs = 0;
		struct ibrelk_completion done;

		/* A life that works, to be given up: what is counted below has happened in it, however slow this is. */
		ibr_path_info(path, &before);
		side_recv(test, b, IBRELK_PEER_ANY, to, 3 * STRIDE, 88, 88);
		side_send(test, a, peer, from, 3 * STRIDE, 88, 88);
		do {
			done = side_wait(test, b);
			KUNIT_EXPECT_TRUE(test, !done.status || done.status == -ETIMEDOUT);
		} while (done.user_data != 88);
		for (i = 0; i < 20; i++) {
			if (i & 1)
				side_recv(test, b, IBRELK_PEER_ANY, to, 3 * STRIDE, i, i);
			side_send(test, a, peer, from, i & 2 ? 3 * STRIDE : 2000, i, i);
			if (i == 10 + round) {
				spin_lock_bh(&path->lock);
				ibr_path_give_up(path, -ETIMEDOUT);
				ibr_path_drive_locked(path);
				spin_unlock_bh(&path->lock);
			}
		}
		/* Every send of a former life is over; those of the new one whose receive is there, too. */
		while (side_try(test, b, &done, 100)) {
			KUNIT_EXPECT_TRUE(test, !done.status || done.status == -ETIMEDOUT);
			recvs++;
		}
		while (side_try(test, a, &done, 0)) {
			KUNIT_EXPECT_TRUE(test, !done.status || done.status == -ETIMEDOUT);
			sends += done.user_data != 88;
		}
		KUNIT_EXPECT_GT(test, sends, 0);
		KUNIT_EXPECT_GT(test, recvs, 0);
		/* What was counted in a life that is over stays counted. */
		ibr_path_info(path, &after);
		KUNIT_EXPECT_GT(test, after.counters.tx_acks_piggybacked,
				before.counters.tx_acks_piggybacked);
	}
	side_recv(test, b, IBRELK_PEER_ANY, to, 3 * STRIDE, 77, 77);
	side_send(test, a, peer, from, 3 * STRIDE, 77, 77);
	side_wait_op(test, b, 77, 0);
	side_wait_op(test, a, 77, 0);
	KUNIT_EXPECT_GE(test, path->counters.lives - lives, 10ull);
	KUNIT_EXPECT_TRUE(test, user_check(test, to, 3 * STRIDE, 4));
	ibr_path_put(path);
	world_check(test);
}

/* No memory for a new token: what waits fails, and the next message tries again. */
static void no_token(struct kunit *test)
{
	struct side *a = side_open(test, NULL), *b = side_open(test, NULL);
	struct ibr_path *path = world_path(test, a->endpoint->mode);
	u32 peer = side_add_side(test, a, b);
	unsigned long buffer = user_alloc(test, 10);
	struct ibrelk_completion done;

	side_recv(test, b, IBRELK_PEER_ANY, buffer, 10, 0, 0);
	side_send(test, a, peer, buffer, 10, 0, 0);
	side_wait_op(test, b, 0, 0);
	side_wait_op(test, a, 0, 0);

	mutex_lock(&path->connect_lock);
	spin_lock_bh(&path->lock);
	ibr_path_give_up(path, -ETIMEDOUT);
	spin_unlock_bh(&path->lock);
	side_send(test, a, peer, buffer, 10, 0, 1);
	ibr_fail_alloc_nth = 1;
	mutex_unlock(&path->connect_lock);
	/* After all its tries, 100 ms from each other. */
	KUNIT_ASSERT_TRUE(test, side_try(test, a, &done, 60000));
	KUNIT_EXPECT_EQ(test, done.user_data, 1ull);
	KUNIT_EXPECT_EQ(test, done.status, -ENOMEM);
	KUNIT_EXPECT_FALSE(test, path->hashed);
	ibr_fail_alloc_nth = 0;

	side_recv(test, b, IBRELK_PEER_ANY, buffer, 10, 0, 2);
	side_send(test, a, peer, buffer, 10, 0, 2);
	side_wait_op(test, b, 2, 0);
	side_wait_op(test, a, 2, 0);
	ibr_path_put(path);
	world_check(test);
}

static struct kunit_case cases[] = {
	KUNIT_CASE_PARAM(survived, trouble_next_reliable),
	KUNIT_CASE_PARAM(survived_natively, trouble_next_native),
	KUNIT_CASE_PARAM(credit_comes_back, mode_next_native),
	KUNIT_CASE_PARAM(rebuilt, mode_next_reliable),
	KUNIT_CASE_PARAM(broken_at_any_moment, mode_next_reliable),
	KUNIT_CASE_PARAM(black_out, mode_next_reliable),
	KUNIT_CASE_PARAM(given_up, mode_next),
	KUNIT_CASE_PARAM(silent_peer_is_asked, mode_next),
	KUNIT_CASE(no_token),
	{}
};

static struct kunit_suite suite = {
	.name = "ibrelk_faults",
	.init = world_init,
	.exit = world_exit,
	.test_cases = cases,
};
kunit_test_suite(suite);
