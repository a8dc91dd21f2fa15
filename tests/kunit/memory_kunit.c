// SPDX-License-Identifier: GPL-2.0-only
/*
 * Each n-th allocation in softirq fails: messages still arrive, or fail with an error that says so;
 * nothing hangs, nothing is left behind.
 */
#include <linux/slab.h>

#include "memory.h"
#include "pair.h"
#include "transport/transport.h"

#define MIB	(1ul << 20)
#define COUNT	60

struct failing {
	u32 mode;		/* first member: see world_init() */
	u32 nth;
};

static const struct failing failings[] = {
	{ IBRELK_MODE_UD_RELIABLE, 1 },	{ IBRELK_MODE_UD_RELIABLE, 2 },	{ IBRELK_MODE_UD_RELIABLE, 3 },
	{ IBRELK_MODE_UD_RELIABLE, 4 },	{ IBRELK_MODE_UD_RELIABLE, 5 },	{ IBRELK_MODE_UD_RELIABLE, 7 },
	{ IBRELK_MODE_UD_RELIABLE, 11 }, { IBRELK_MODE_UD_RELIABLE, 23 }, { IBRELK_MODE_UC_NATIVE, 2 },
	{ IBRELK_MODE_UC_NATIVE, 3 }, { IBRELK_MODE_UC_NATIVE, 5 }, { IBRELK_MODE_UC_NATIVE, 11 },
};

static IBR_KUNIT_NEXT(failing_next, previous, name)
{
	const struct failing *failing = previous ? previous : failings;

	if (previous)
		failing++;
	if (failing == failings + ARRAY_SIZE(failings))
		return NULL;
	snprintf(name, KUNIT_PARAM_DESC_SIZE, "mode %u, each %u.", failing->mode, failing->nth);
	return failing;
}

static bool fair(int status)
{
	return !status || status == -ENOMEM || status == -ECONNRESET || status == -EIO;
}

static void allocations_fail(struct kunit *test)
{
	const struct failing *failing = test->param_value;
	struct side *a = side_open(test, NULL), *b = side_open(test, NULL);
	u32 peer = side_add_side(test, a, b), accepted = 0, whole = 0, i;
	unsigned long from = user_alloc(test, 5 * MIB), to = user_alloc(test, 5 * MIB);
	u64 *length = kunit_kcalloc(test, COUNT, sizeof(*length), GFP_KERNEL);
	struct ibrelk_completion done;

	KUNIT_ASSERT_NOT_NULL(test, length);
	user_fill(test, from, 5 * MIB, 1);
	ibr_fail_alloc_nth = failing->nth;
	for (i = 0; i < COUNT; i++) {
		struct ibrelk_command send = {
			.opcode = IBRELK_OP_SEND,
			.flags = IBRELK_CMD_IMMEDIATE,
			.immediate = i,
			.peer = peer,
			.addr = from,
			.level = i % 4,
		};
		u32 tries;
		int ret = -ENOMEM;

		length[i] = i % 10 == 9 ? 5 * MIB : i % 3 ? 10 * i : 150 * i;
		send.length = length[i];
		/* Every other one is unexpected, to the end. */
		if (i & 1)
			side_recv(test, b, IBRELK_PEER_ANY, to, 5 * MIB, 0, i);
		for (tries = 0; tries < 3 && ret == -ENOMEM; tries++)
			ret = side_submit(test, a, &send);
		KUNIT_EXPECT_TRUE(test, ret == 1 || ret == -ENOMEM);
		accepted += ret == 1;
	}
	KUNIT_EXPECT_EQ(test, accepted > 0, failing->nth > 1);
	/* With the memory's return, whatever has not failed goes on. */
	for (i = 0; i < COUNT && side_try(test, b, &done, 500); i++) {
		KUNIT_EXPECT_TRUE_MSG(test, fair(done.status), "status %d", done.status);
		if (done.status)
			continue;
		KUNIT_ASSERT_LT(test, done.immediate, (u64)COUNT);
		KUNIT_EXPECT_EQ(test, done.length, length[done.immediate]);
		whole++;
	}
	ibr_fail_alloc_nth = 0;
	for (i = 0; i < COUNT; i++)
		side_recv(test, b, IBRELK_PEER_ANY, to, 5 * MIB, 0, 1000 + i);
	for (i = 0; i < accepted; i++) {
		done = side_wait(test, a);
		KUNIT_EXPECT_TRUE_MSG(test, fair(done.status), "status %d", done.status);
	}
	KUNIT_EXPECT_FALSE(test, side_try(test, a, &done, 0));
	while (side_try(test, b, &done, 100)) {
		KUNIT_EXPECT_TRUE_MSG(test, fair(done.status), "status %d", done.status);
		whole += !done.status;
	}
	kunit_info(test, "%u of %u accepted, %u arrived", accepted, COUNT, whole);
	/* Natively what is not received is lost. */
	if (failing->nth > 2)
		KUNIT_EXPECT_GT(test, whole, ibr_mode_native(a->endpoint->mode) ? 0 : COUNT / 2);
	/* And it is all as before. */
	side_recv(test, b, IBRELK_PEER_ANY, to, 5 * MIB, 3, 2000);
	side_send(test, a, peer, from, 5 * MIB, 3, 2000);
	side_wait_op(test, a, 2000, 0);
	do {
		done = side_wait(test, b);
		KUNIT_EXPECT_TRUE_MSG(test, fair(done.status), "status %d", done.status);
	} while (done.user_data != 2000);
	KUNIT_EXPECT_EQ(test, done.status, 0);
	KUNIT_EXPECT_TRUE(test, user_check(test, to, 5 * MIB, 1));
	world_check(test);
}

static struct kunit_case cases[] = {
	KUNIT_CASE_PARAM(allocations_fail, failing_next),
	{}
};

static struct kunit_suite suite = {
	.name = "ibrelk_memory",
	.init = world_init,
	.exit = world_exit,
	.test_cases = cases,
};
kunit_test_suite(suite);
