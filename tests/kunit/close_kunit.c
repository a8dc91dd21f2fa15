// SPDX-License-Identifier: GPL-2.0-only
/*
 * Peers that are not there, or not for us, and endpoints that are closed with traffic under way in
 * either direction: every command is answered as long as somebody can read the answer, and nothing is
 * left behind.
 */
#include "pair.h"

#define MIB	(1ul << 20)

static void expect_refused(struct kunit *test, struct side *side, const struct ibrelk_addr *addr, int error)
{
	static const u64 sizes[] = { 0, 100, EAGER_MAX, 3 * MIB };
	unsigned long from = user_alloc(test, 3 * MIB);
	u32 peer = side_add(test, side, addr), round, i;

	for (round = 0; round < 2; round++) {
		for (i = 0; i < ARRAY_SIZE(sizes); i++)
			side_send(test, side, peer, from, sizes[i], 0, i);
		for (i = 0; i < ARRAY_SIZE(sizes); i++)
			KUNIT_EXPECT_EQ(test, side_wait(test, side).status, error);
	}
}

static void absent(struct kunit *test)
{
	struct side *a = side_open(test, NULL);
	struct ibrelk_addr addr = a->addr;

	addr.endpoint = 5;
	addr.generation = 0;
	expect_refused(test, a, &addr, -ECONNREFUSED);
	world_check(test);
}

static void other_job(struct kunit *test)
{
	struct side_options mine = { .job_key = 1 }, theirs = { .job_key = 2 };
	struct side *a = side_open(test, &mine), *b = side_open(test, &theirs), *c = side_open(test, NULL);

	expect_refused(test, a, &b->addr, -EACCES);
	expect_refused(test, a, &c->addr, -EACCES);
	expect_refused(test, c, &b->addr, -EACCES);
	KUNIT_EXPECT_EQ(test, b->endpoint->match.messages, 0);
	world_check(test);
}

static void other_generation(struct kunit *test)
{
	struct side *a = side_open(test, NULL), *b = side_open(test, NULL);
	struct ibrelk_addr addr = b->addr;
	unsigned long buffer = user_alloc(test, 100);
	u32 peer;

	addr.generation++;
	if (!addr.generation)
		addr.generation++;
	expect_refused(test, a, &addr, -ESTALE);
	addr.generation = 0;
	peer = side_add(test, a, &addr);
	side_recv(test, b, IBRELK_PEER_ANY, buffer, 100, 0, 1);
	side_send(test, a, peer, buffer, 100, 0, 1);
	side_wait_op(test, a, 1, 0);
	side_wait_op(test, b, 1, 0);
	world_check(test);
}

/* A peer that went and one that came under its number are two. */
static void reincarnated(struct kunit *test)
{
	struct side *a = side_open(test, NULL), *b = side_open(test, NULL);
	u32 peer = side_add_side(test, a, b), i;
	unsigned long buffer = user_alloc(test, MIB);

	side_send(test, a, peer, buffer, 100, 0, 1);
	side_wait_op(test, a, 1, 0);
	side_send(test, a, peer, buffer, MIB, 0, 2);
	KUNIT_EXPECT_TRUE(test, wait_until(b->endpoint->match.messages == 2));
	side_close(test, b);
	/* Its process gave the receive up: whoever waited for it learns so. */
	side_wait_op(test, a, 2, -ECONNRESET);
	for (i = 0; i < 3; i++) {
		side_send(test, a, peer, buffer, 100, 0, 3);
		side_wait_op(test, a, 3, -ECONNREFUSED);
	}
	world_check(test);
}

static struct ibr_message *message_waiting(const struct side *side)
{
	return container_of(match_message_first(&side->endpoint->match), struct ibr_message, match);
}

/*
 * The path begins a new life while a rendezvous waits. In that life its handle names another one, which is none the
 * worse for the end of the endpoint where the first one waits.
 */
static void rendezvous_outlived(struct kunit *test)
{
	struct side *a = side_open(test, NULL), *b = side_open(test, NULL), *c = side_open(test, NULL);
	u32 ab = side_add_side(test, a, b), ac = side_add_side(test, a, c), handle;
	unsigned long from = user_alloc(test, MIB), to = user_alloc(test, MIB);
	struct ibr_path *path = world_path(test, a->endpoint->mode);

	user_fill(test, from, MIB, 1);
	side_send(test, a, ab, from, MIB, 0, 1);
	KUNIT_ASSERT_TRUE(test, wait_until(READ_ONCE(b->endpoint->match.messages) == 1));
	handle = message_waiting(b)->rts_message;
	spin_lock_bh(&path->lock);
	ibr_path_give_up(path, -ECONNRESET);
	spin_unlock_bh(&path->lock);
	side_wait_op(test, a, 1, -ECONNRESET);

	/* Opens the flow; the next handle that is given out is that of the announcement. */
	side_recv(test, c, IBRELK_PEER_ANY, to, MIB, 0, 2);
	side_send(test, a, ac, from, 100, 0, 2);
	side_wait_op(test, a, 2, 0);
	side_wait_op(test, c, 2, 0);
	spin_lock_bh(&path->lock);
	path->handle_next = handle;
	spin_unlock_bh(&path->lock);
	side_send(test, a, ac, from, MIB, 0, 3);
	KUNIT_ASSERT_TRUE(test, wait_until(READ_ONCE(c->endpoint->match.messages) == 1));
	KUNIT_ASSERT_EQ(test, message_waiting(c)->rts_message, handle);

	side_close(test, b);
	side_recv(test, c, IBRELK_PEER_ANY, to, MIB, 0, 3);
	side_wait_op(test, c, 3, 0);
	side_wait_op(test, a, 3, 0);
	KUNIT_EXPECT_TRUE(test, user_check(test, to, MIB, 1));
	ibr_path_put(path);
	world_check(test);
}

/* The sender's process dies at any moment of a lot of traffic: what it had buffered still arrives, in order. */
static void sender_closed(struct kunit *test)
{
	enum { COUNT = 60 };
	struct world *world = test->priv;
	unsigned long from = user_alloc(test, 5 * MIB), to = user_alloc(test, 5 * MIB);
	u32 round, i;

	user_fill(test, from, 5 * MIB, 6);
	for (round = 0; round < 8; round++) {
		struct side *a = side_open(test, NULL), *b = side_open(test, NULL);
		u32 peer = side_add_side(test, a, b);
		struct ibrelk_completion done;
		u32 recvs = 0;

		faults_set(&(struct faults){ .seed = round, .drop = world->mode > 3 && round & 4 ? 26 : 0 });
		for (i = 0; i < COUNT; i++) {
			side_recv(test, b, IBRELK_PEER_ANY, to, 5 * MIB, i, i);
			side_send(test, a, peer, from, i % 15 == 14 ? 5 * MIB : 50 * i, i, i);
		}
		for (i = 0; i < round * 9; i++)
			side_try(test, a, &done, 5);
		side_close(test, a);
		while (recvs < COUNT && side_try(test, b, &done, recvs < COUNT - 4 ? 5000 : 300)) {
			recvs++;
			if (done.user_data % 15 != 14) {
				KUNIT_EXPECT_EQ(test, done.status, 0);
				KUNIT_EXPECT_EQ(test, done.length, 50 * done.user_data);
			} else {
				KUNIT_EXPECT_TRUE(test, !done.status || done.status == -ECONNRESET);
			}
		}
		/* All buffered ones; of the others those that had begun. */
		KUNIT_EXPECT_GE(test, recvs, COUNT - 4);
		side_close(test, b);
	}
	world_check(test);
}

/* The receiver's process dies: every send ends. */
static void receiver_closed(struct kunit *test)
{
	enum { COUNT = 60 };
	struct world *world = test->priv;
	unsigned long from = user_alloc(test, 5 * MIB), to = user_alloc(test, 5 * MIB);
	u32 round, i;

	for (round = 0; round < 8; round++) {
		struct side *a = side_open(test, NULL), *b = side_open(test, NULL);
		u32 peer = side_add_side(test, a, b);
		struct ibrelk_completion done;

		faults_set(&(struct faults){ .seed = round, .drop = world->mode > 3 && round & 4 ? 26 : 0 });
		for (i = 0; i < COUNT; i++) {
			struct ibrelk_command send = {
				.opcode = IBRELK_OP_SEND,
				.level = i % 4,
				.peer = peer,
				.addr = from,
				.length = i % 5 == 4 ? 3 * MIB : 100 * i,
				.user_data = i,
			};

			if (i % 3)
				side_recv(test, b, IBRELK_PEER_ANY, to, 5 * MIB, 0, i);
			side_accept(test, a, &send);
		}
		for (i = 0; i < round * 9; i++)
			side_try(test, b, &done, 5);
		side_close(test, b);
		for (i = 0; i < COUNT; i++) {
			done = side_wait(test, a);
			KUNIT_EXPECT_TRUE_MSG(test, !done.status || done.status == -ECONNRESET ||
					      done.status == -ECONNREFUSED, "status %d", done.status);
		}
		KUNIT_EXPECT_FALSE(test, side_try(test, a, &done, 0));
		side_close(test, a);
	}
	world_check(test);
}

/* Everybody goes at once, at once after the commands, with the wire at its worst. */
static void all_closed(struct kunit *test)
{
	struct world *world = test->priv;
	unsigned long buffer = user_alloc(test, 5 * MIB);
	u32 round, i, k;

	faults_set(&(struct faults){ .drop = world->mode > 3 ? 26 : 0, .hold = 26 });
	for (round = 0; round < 4; round++) {
		struct side *side[3];
		u32 peer[3][3];

		for (i = 0; i < 3; i++)
			side[i] = side_open(test, NULL);
		for (i = 0; i < 3; i++)
			for (k = 0; k < 3; k++)
				peer[i][k] = side_add_side(test, side[i], side[k]);
		for (i = 0; i < 90; i++) {
			side_send(test, side[i % 3], peer[i % 3][i % 2], buffer, i % 4 ? 99 * i : 3 * MIB, 0, i);
			if (i % 7 < round)
				side_recv(test, side[i % 2], IBRELK_PEER_ANY, buffer, i % 8 * 100000, 0, i);
		}
		for (i = 0; i < 3; i++)
			side_close(test, side[i]);
	}
	world_check(test);
}

static struct kunit_case cases[] = {
	KUNIT_CASE_PARAM(absent, mode_next),
	KUNIT_CASE(other_job),
	KUNIT_CASE(other_generation),
	KUNIT_CASE_PARAM(reincarnated, mode_next),
	KUNIT_CASE_PARAM(rendezvous_outlived, mode_next),
	KUNIT_CASE_PARAM(sender_closed, mode_next),
	KUNIT_CASE_PARAM(receiver_closed, mode_next),
	KUNIT_CASE_PARAM(all_closed, mode_next),
	{}
};

static struct kunit_suite suite = {
	.name = "ibrelk_close",
	.init = world_init,
	.exit = world_exit,
	.test_cases = cases,
};
kunit_test_suite(suite);
