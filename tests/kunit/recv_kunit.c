// SPDX-License-Identifier: GPL-2.0-only
/*
 * What looks for messages without posting a receive, and receives that take many.
 */
#include <linux/cred.h>
#include <linux/resource.h>
#include <linux/sched/signal.h>

#include "command.h"
#include "pair.h"
#include "params.h"
#include "transport/transport.h"

#define MIB	(1u << 20)

static const u64 sizes[] = { 0, 1, 100, EAGER_MAX, EAGER_MAX + 1, 100000, 3 * MIB };

/* ---- probe, claim, discard ------------------------------------------------------------------- */

static struct ibrelk_completion look(struct kunit *test, struct side *side, u8 opcode, u32 peer, u64 tag,
				     u64 ignore, int status)
{
	struct ibrelk_command command = {
		.opcode = opcode,
		.peer = peer,
		.tag = tag,
		.ignore = ignore,
		.user_data = 777,
	};
	struct ibrelk_completion done;

	side_accept(test, side, &command);
	done = side_wait_op(test, side, 777, status);
	KUNIT_EXPECT_EQ(test, done.opcode, opcode);
	return done;
}

static void recv_claimed(struct kunit *test, struct side *side, u64 claim, u64 addr, u64 length, u64 user_data)
{
	struct ibrelk_command command = {
		.opcode = IBRELK_OP_RECV,
		.flags = IBRELK_CMD_CLAIMED,
		.tag = claim,
		.addr = addr,
		.length = length,
		.user_data = user_data,
	};

	side_accept(test, side, &command);
}

static int discard(struct kunit *test, struct side *side, u64 claim, u64 user_data)
{
	struct ibrelk_command command = {
		.opcode = IBRELK_OP_DISCARD,
		.tag = claim,
		.user_data = user_data,
	};

	return side_submit(test, side, &command);
}

static void messages_wait(struct kunit *test, struct side *side, u32 count)
{
	KUNIT_ASSERT_TRUE(test, wait_until(READ_ONCE(side->endpoint->match.messages) == count));
}

/* A probe says what the next receive will take, and takes nothing itself. */
static void probed(struct kunit *test)
{
	struct side *a = side_open(test, NULL), *b = side_open(test, NULL), *c = side_open(test, NULL);
	u32 ab = side_add_side(test, a, b), ba = side_add_side(test, b, a), bc = side_add_side(test, b, c), i, k;
	unsigned long from = user_alloc(test, 3 * MIB), to = user_alloc(test, 3 * MIB);
	struct ibrelk_command send = {
		.opcode = IBRELK_OP_SEND,
		.flags = IBRELK_CMD_IMMEDIATE,
		.peer = ab,
		.addr = from,
	};
	struct ibrelk_completion done;

	user_fill(test, from, 3 * MIB, 1);
	done = look(test, b, IBRELK_OP_PROBE, IBRELK_PEER_ANY, 0, ~0ull, -ENOMSG);
	KUNIT_EXPECT_EQ(test, done.peer, IBRELK_PEER_ANY);
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		send.length = sizes[i];
		send.tag = 0x500 + i;
		send.immediate = ~(u64)i;
		send.user_data = i;
		side_accept(test, a, &send);
	}
	messages_wait(test, b, ARRAY_SIZE(sizes));
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		look(test, b, IBRELK_OP_PROBE, bc, 0x500 + i, 0, -ENOMSG);
		look(test, b, IBRELK_OP_PROBE, ba, 0x600 + i, 0, -ENOMSG);
		for (k = 0; k < 3; k++) {
			done = look(test, b, IBRELK_OP_PROBE, k ? ba : IBRELK_PEER_ANY, 0x500 + (k == 1 ? 0 : i),
				    k == 1 ? 0xff : 0, 0);
			KUNIT_EXPECT_EQ(test, done.flags, IBRELK_CQE_IMMEDIATE);
			KUNIT_EXPECT_EQ(test, done.peer, ba);
			KUNIT_EXPECT_EQ(test, done.length, sizes[i]);
			KUNIT_EXPECT_EQ(test, done.tag, 0x500ull + i);
			KUNIT_EXPECT_EQ(test, done.immediate, ~(u64)i);
			KUNIT_EXPECT_EQ(test, done.claim, 0ull);
		}
		side_recv(test, b, ba, to, 3 * MIB, 0x500 + i, i);
		done = side_wait_op(test, b, i, 0);
		KUNIT_EXPECT_EQ(test, done.length, sizes[i]);
		KUNIT_EXPECT_TRUE(test, user_check(test, to, sizes[i], 1));
	}
	look(test, b, IBRELK_OP_PROBE, IBRELK_PEER_ANY, 0, ~0ull, -ENOMSG);
	world_check(test);
}

/* What is claimed is nobody else's; claims are received in any order. */
static void claimed(struct kunit *test)
{
	struct side *a = side_open(test, NULL), *b = side_open(test, NULL);
	u32 ab = side_add_side(test, a, b), i;
	unsigned long from = user_alloc(test, 3 * MIB), to = user_alloc(test, 3 * MIB);
	struct ibrelk_command send = { .opcode = IBRELK_OP_SEND, .level = IBRELK_LEVEL_MATCHED, .peer = ab };
	u64 claim[ARRAY_SIZE(sizes)];
	struct ibrelk_completion done;

	user_fill(test, from, 3 * MIB, 1);
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		send.addr = from;
		send.length = sizes[i];
		send.tag = 7;
		send.user_data = i;
		side_accept(test, a, &send);
	}
	messages_wait(test, b, ARRAY_SIZE(sizes));
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		done = look(test, b, IBRELK_OP_CLAIM, IBRELK_PEER_ANY, 7, 0, 0);
		KUNIT_EXPECT_EQ(test, done.length, sizes[i]);
		claim[i] = done.claim;
		KUNIT_EXPECT_NE(test, claim[i], 0ull);
		KUNIT_EXPECT_TRUE(test, !i || claim[i] != claim[i - 1]);
	}
	KUNIT_EXPECT_EQ(test, b->endpoint->claimed, ARRAY_SIZE(sizes));
	look(test, b, IBRELK_OP_CLAIM, IBRELK_PEER_ANY, 7, 0, -ENOMSG);
	/* It still occupies its memory, and has not been received. */
	if (!ibr_mode_native(b->endpoint->mode))
		KUNIT_EXPECT_GT(test, b->endpoint->unexpected_bytes, 0ull);
	KUNIT_EXPECT_FALSE(test, side_try(test, a, &done, 20));
	/* A receive takes what came later. */
	side_recv(test, b, IBRELK_PEER_ANY, to, 100, 7, 50);
	send.length = 99;
	send.user_data = 50;
	side_accept(test, a, &send);
	side_wait_op(test, b, 50, 0);
	side_wait_op(test, a, 50, 0);
	for (i = ARRAY_SIZE(sizes); i-- > 0;) {
		recv_claimed(test, b, claim[i], to, sizes[i], 100 + i);
		done = side_wait_op(test, b, 100 + i, 0);
		KUNIT_EXPECT_EQ(test, done.length, sizes[i]);
		KUNIT_EXPECT_EQ(test, done.tag, 7ull);
		KUNIT_EXPECT_TRUE(test, user_check(test, to, sizes[i], 1));
		side_wait_op(test, a, i, 0);
	}
	KUNIT_EXPECT_EQ(test, b->endpoint->claimed, 0);
	KUNIT_EXPECT_EQ(test, b->endpoint->unexpected_bytes, 0ull);
	world_check(test);
}

static void claimed_untagged(struct kunit *test)
{
	struct side *a = side_open(test, NULL), *b = side_open(test, NULL);
	u32 ab = side_add_side(test, a, b);
	unsigned long buffer = user_alloc(test, PAGE_SIZE);
	struct ibrelk_command command = {
		.opcode = IBRELK_OP_SEND,
		.flags = IBRELK_CMD_UNTAGGED,
		.peer = ab,
		.addr = buffer,
		.length = 10,
	};
	struct ibrelk_completion done;

	side_accept(test, a, &command);
	messages_wait(test, b, 1);
	look(test, b, IBRELK_OP_CLAIM, IBRELK_PEER_ANY, 0, ~0ull, -ENOMSG);
	command = (struct ibrelk_command){
		.opcode = IBRELK_OP_CLAIM,
		.flags = IBRELK_CMD_UNTAGGED,
		.peer = IBRELK_PEER_ANY,
	};
	side_accept(test, b, &command);
	done = side_wait_op(test, b, 0, 0);
	KUNIT_EXPECT_EQ(test, done.flags, IBRELK_CQE_UNTAGGED);
	/* Shorter than the message, at that. */
	recv_claimed(test, b, done.claim, buffer, 9, 1);
	done = side_wait_op(test, b, 1, -EMSGSIZE);
	KUNIT_EXPECT_EQ(test, done.flags, IBRELK_CQE_UNTAGGED);
	KUNIT_EXPECT_EQ(test, done.length, 10ull);
	world_check(test);
}

/* What is discarded counts as received: its sender hears so, and its memory can be used again. */
static void discarded(struct kunit *test)
{
	struct side *a = side_open(test, NULL), *b = side_open(test, NULL);
	u32 ab = side_add_side(test, a, b), i, level;
	unsigned long from = user_alloc(test, 3 * MIB);
	struct ibrelk_completion done;

	for (level = IBRELK_LEVEL_DEFAULT; level <= IBRELK_LEVEL_MATCHED; level++) {
		for (i = 0; i < ARRAY_SIZE(sizes); i++) {
			struct ibrelk_command send = {
				.opcode = IBRELK_OP_SEND,
				.level = level,
				.peer = ab,
				.addr = from,
				.length = sizes[i],
				.user_data = i,
			};

			side_accept(test, a, &send);
			messages_wait(test, b, 1);
			done = look(test, b, IBRELK_OP_CLAIM, IBRELK_PEER_ANY, 0, 0, 0);
			KUNIT_EXPECT_EQ(test, discard(test, b, done.claim, 20), 1);
			side_wait_op(test, b, 20, 0);
			side_wait_op(test, a, i, 0);
			KUNIT_EXPECT_EQ(test, discard(test, b, done.claim, 21), -ENOENT);
		}
	}
	KUNIT_EXPECT_EQ(test, b->endpoint->unexpected_bytes, 0ull);
	world_check(test);
}

static void claims_wrong(struct kunit *test)
{
	struct side *a = side_open(test, NULL), *b = side_open(test, NULL);
	u32 ab = side_add_side(test, a, b);
	unsigned long buffer = user_alloc(test, PAGE_SIZE);
	struct ibrelk_command command = {
		.opcode = IBRELK_OP_RECV,
		.flags = IBRELK_CMD_CLAIMED,
		.addr = buffer,
		.length = 100,
	};
	struct ibrelk_completion done;
	u64 claim;

	side_send(test, a, ab, buffer, 100, 0, 1);
	messages_wait(test, b, 1);
	claim = look(test, b, IBRELK_OP_CLAIM, IBRELK_PEER_ANY, 0, 0, 0).claim;
	command.tag = claim + 1;
	KUNIT_EXPECT_EQ(test, side_submit(test, b, &command), -ENOENT);
	command.tag = claim | 1ull << 32;
	KUNIT_EXPECT_EQ(test, side_submit(test, b, &command), -ENOENT);
	command.tag = claim;
	KUNIT_EXPECT_EQ(test, side_submit(test, a, &command), -ENOENT);
	/* A receive that cannot be does not cost the claim. */
	command.addr = 8;
	KUNIT_EXPECT_EQ(test, side_submit(test, b, &command), -EFAULT);
	command.addr = buffer;
	side_accept(test, b, &command);
	side_wait_op(test, b, 0, 0);
	KUNIT_EXPECT_EQ(test, side_submit(test, b, &command), -ENOENT);
	KUNIT_EXPECT_EQ(test, discard(test, b, 0, 1), -ENOENT);
	command = (struct ibrelk_command){ .opcode = IBRELK_OP_PROBE, .peer = 12345 };
	KUNIT_EXPECT_EQ(test, side_submit(test, b, &command), -ENOENT);
	side_wait_op(test, a, 1, 0);
	KUNIT_EXPECT_FALSE(test, side_try(test, b, &done, 0));
	world_check(test);
}

/* Claims that nobody comes back to. */
static void claims_abandoned(struct kunit *test)
{
	struct side *a = side_open(test, NULL), *b = side_open(test, NULL);
	u32 ab = side_add_side(test, a, b), i;
	unsigned long from = user_alloc(test, 3 * MIB);

	for (i = 0; i < ARRAY_SIZE(sizes); i++)
		side_send(test, a, ab, from, sizes[i], i, i);
	messages_wait(test, b, ARRAY_SIZE(sizes));
	for (i = 0; i < ARRAY_SIZE(sizes); i++)
		look(test, b, IBRELK_OP_CLAIM, IBRELK_PEER_ANY, i, 0, 0);
	side_close(test, b);
	for (i = 0; i < ARRAY_SIZE(sizes); i++)
		side_wait(test, a);
	KUNIT_EXPECT_EQ(test, b->endpoint->claimed, 0);
	world_check(test);
}

/* ---- receives of many messages --------------------------------------------------------------- */

static struct ibrelk_command multi(u64 addr, u64 length, u32 messages, u64 room)
{
	return (struct ibrelk_command){
		.opcode = IBRELK_OP_RECV_MULTI,
		.peer = IBRELK_PEER_ANY,
		.ignore = ~0ull,
		.addr = addr,
		.length = length,
		.messages = messages,
		.room = room,
		.user_data = 5,
	};
}

/* The next message of the multi-receive: returns where it starts. */
static u64 part_wait(struct kunit *test, struct side *side, u64 length, int status)
{
	struct ibrelk_completion done = side_wait_op(test, side, 5, status);

	KUNIT_EXPECT_EQ(test, done.opcode, IBRELK_OP_RECV_MULTI);
	KUNIT_EXPECT_EQ(test, done.flags & IBRELK_CQE_RELEASED, 0);
	KUNIT_EXPECT_EQ(test, done.length, length);
	return done.offset;
}

static void released_check(struct kunit *test, const struct ibrelk_completion *done, u64 messages, u64 used)
{
	KUNIT_EXPECT_EQ(test, done->opcode, IBRELK_OP_RECV_MULTI);
	KUNIT_EXPECT_EQ(test, done->flags, IBRELK_CQE_RELEASED);
	KUNIT_EXPECT_EQ(test, done->length, messages);
	KUNIT_EXPECT_EQ(test, done->offset, used);
	KUNIT_EXPECT_EQ(test, done->peer, IBRELK_PEER_ANY);
}

static void released_wait(struct kunit *test, struct side *side, u64 messages, u64 used, int status)
{
	struct ibrelk_completion done = side_wait_op(test, side, 5, status);

	released_check(test, &done, messages, used);
}

/* Its end, and that of the cancel which ended it: either may be first. Returns how many the cancel has found. */
static u64 cancelled_wait(struct kunit *test, struct side *side, u64 messages, u64 used)
{
	struct ibrelk_completion done, found = {};
	u32 i, released = 0;

	for (i = 0; i < 2; i++) {
		done = side_wait(test, side);
		if (done.user_data == 9) {
			KUNIT_EXPECT_EQ(test, done.status, 0);
			found = done;
			continue;
		}
		KUNIT_EXPECT_EQ(test, done.user_data, 5ull);
		KUNIT_EXPECT_EQ(test, done.status, -ECANCELED);
		released_check(test, &done, messages, used);
		released++;
	}
	KUNIT_EXPECT_EQ(test, released, 1);
	return found.length;
}

/* Messages of all sizes, some of which wait already, one after the other in the buffer. */
static void many(struct kunit *test)
{
	struct side *a = side_open(test, NULL), *b = side_open(test, NULL);
	u32 ab = side_add_side(test, a, b), i, waiting;
	unsigned long from = user_alloc(test, 4 * MIB), to = user_alloc(test, 4 * MIB);
	struct ibrelk_command command = multi(to, 4 * MIB, ARRAY_SIZE(sizes), 0);

	user_fill(test, from, 4 * MIB, 1);
	for (waiting = 0; waiting <= ARRAY_SIZE(sizes); waiting += 3) {
		u64 used = 0;

		for (i = 0; i < waiting; i++)
			side_send(test, a, ab, from + i, sizes[i], 1000 + i, i);
		messages_wait(test, b, waiting);
		side_accept(test, b, &command);
		for (i = 0; i < ARRAY_SIZE(sizes); i++) {
			if (i >= waiting)
				side_send(test, a, ab, from + i, sizes[i], 1000 + i, i);
			KUNIT_EXPECT_EQ(test, part_wait(test, b, sizes[i], 0), used);
			KUNIT_EXPECT_TRUE(test, user_check_at(test, to + used, sizes[i], 1, i));
			used += ALIGN(sizes[i], 8);
		}
		released_wait(test, b, ARRAY_SIZE(sizes), used, 0);
		for (i = 0; i < ARRAY_SIZE(sizes); i++)
			KUNIT_EXPECT_EQ(test, side_wait(test, a).status, 0);
	}
	KUNIT_EXPECT_EQ(test, atomic_read(&b->endpoint->recvs), 0);
	world_check(test);
}

/* The ends that a multi-receive can have. */
static void many_end(struct kunit *test)
{
	struct side *a = side_open(test, NULL), *b = side_open(test, NULL);
	u32 ab = side_add_side(test, a, b), big;
	unsigned long from = user_alloc(test, MIB), to = user_alloc(test, MIB);
	struct ibrelk_command cancel = { .opcode = IBRELK_OP_CANCEL, .addr = 5, .user_data = 9 };
	struct ibrelk_command command;

	user_fill(test, from, MIB, 1);
	/* Both for messages that go eagerly and for those that do not. */
	for (big = 1; big <= 1000; big *= 1000) {
		/* Too little room left. */
		command = multi(to, 400 * big, 10, 50 * big);
		side_accept(test, b, &command);
		side_send(test, a, ab, from, 300 * big, 0, 1);
		KUNIT_EXPECT_EQ(test, part_wait(test, b, 300 * big, 0), 0);
		side_wait_op(test, a, 1, 0);
		side_send(test, a, ab, from, 60 * big, 0, 2);
		KUNIT_EXPECT_EQ(test, part_wait(test, b, 60 * big, 0), ALIGN(300 * big, 8));
		released_wait(test, b, 2, ALIGN(300 * big, 8) + ALIGN(60 * big, 8), 0);
		side_wait_op(test, a, 2, 0);

		/* One that does not fit: it is the next receive's. */
		command = multi(to, 400 * big, 10, 0);
		side_accept(test, b, &command);
		side_recv(test, b, IBRELK_PEER_ANY, to + 400 * big, 500 * big, 0, 6);
		side_send(test, a, ab, from, 8, 0, 1);
		KUNIT_EXPECT_EQ(test, part_wait(test, b, 8, 0), 0);
		side_wait_op(test, a, 1, 0);
		side_send(test, a, ab, from, 400 * big - 7, 0, 2);
		released_wait(test, b, 1, 8, 0);
		KUNIT_EXPECT_EQ(test, side_wait_op(test, b, 6, 0).length, 400 * big - 7);
		side_wait_op(test, a, 2, 0);
		KUNIT_EXPECT_TRUE(test, user_check(test, to + 400 * big, 400 * big - 7, 1));

		/* One that is longer than all of it is cut. */
		side_accept(test, b, &command);
		side_send(test, a, ab, from, 400 * big + 1, 0, 1);
		KUNIT_EXPECT_EQ(test, part_wait(test, b, 400 * big + 1, -EMSGSIZE), 0);
		released_wait(test, b, 1, 400 * big, 0);
		side_wait_op(test, a, 1, 0);
		KUNIT_EXPECT_TRUE(test, user_check(test, to, 400 * big, 1));

		/* Cancelled, with and without a message. */
		side_accept(test, b, &command);
		side_accept(test, b, &cancel);
		KUNIT_EXPECT_EQ(test, cancelled_wait(test, b, 0, 0), 1ull);
		side_accept(test, b, &command);
		side_send(test, a, ab, from, 100 * big, 0, 1);
		KUNIT_EXPECT_EQ(test, part_wait(test, b, 100 * big, 0), 0);
		side_wait_op(test, a, 1, 0);
		side_accept(test, b, &cancel);
		KUNIT_EXPECT_EQ(test, cancelled_wait(test, b, 1, ALIGN(100 * big, 8)), 1ull);
		side_accept(test, b, &cancel);
		side_wait_op(test, b, 9, -ENOENT);
	}
	world_check(test);
}

/* It counts for as many receives as it can have completions; what never fits is wrong. */
static void many_limits(struct kunit *test)
{
	struct side *b = side_open(test, &(struct side_options){ .recvs = 16 });
	unsigned long to = user_alloc(test, PAGE_SIZE);
	struct ibrelk_command command = multi(to, PAGE_SIZE, 15, 0);
	struct ibrelk_command cancel = { .opcode = IBRELK_OP_CANCEL, .addr = 5, .user_data = 9 };

	side_accept(test, b, &command);
	KUNIT_EXPECT_EQ(test, atomic_read(&b->endpoint->recvs), 16);
	KUNIT_EXPECT_EQ(test, side_submit(test, b, &command), 0);
	side_accept(test, b, &cancel);
	released_wait(test, b, 0, 0, -ECANCELED);
	side_wait_op(test, b, 9, 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&b->endpoint->recvs), 0);
	command.messages = 16;
	KUNIT_EXPECT_EQ(test, side_submit(test, b, &command), -EINVAL);
	command.messages = 0;
	KUNIT_EXPECT_EQ(test, side_submit(test, b, &command), -EINVAL);
	command = multi(to, IBR_MULTI_MAX + 1, 1, 0);
	KUNIT_EXPECT_EQ(test, side_submit(test, b, &command), -EINVAL);
	command = multi(to, 0, 1, 0);
	KUNIT_EXPECT_EQ(test, side_submit(test, b, &command), -EINVAL);
	command = multi(to, 10, 1, 11);
	KUNIT_EXPECT_EQ(test, side_submit(test, b, &command), -EINVAL);
	command = multi(to, 10, 1, 0);
	command.flags = IBRELK_CMD_NO_SUCCESS;
	KUNIT_EXPECT_EQ(test, side_submit(test, b, &command), -EINVAL);
	command = multi(8, 10, 1, 0);
	KUNIT_EXPECT_EQ(test, side_submit(test, b, &command), -EFAULT);
	command = multi(to, 10, 1, 0);
	command.peer = 12345;
	KUNIT_EXPECT_EQ(test, side_submit(test, b, &command), -ENOENT);
	KUNIT_EXPECT_EQ(test, atomic_read(&b->endpoint->recvs), 0);
	world_check(test);
}

/* Either process goes while messages are on their way into the buffer. */
static void many_closed(struct kunit *test)
{
	unsigned long from = user_alloc(test, 4 * MIB), to = user_alloc(test, 4 * MIB);
	u32 round, i;

	for (round = 0; round < 4; round++) {
		struct side *a = side_open(test, NULL), *b = side_open(test, NULL);
		struct ibrelk_command command = multi(to, 4 * MIB, 20, 0);
		u32 ab = side_add_side(test, a, b), parts = 0;
		struct ibrelk_completion done;

		side_accept(test, b, &command);
		for (i = 0; i < 12; i++)
			side_send(test, a, ab, from, i % 3 ? 500000 : 100, 0, i);
		for (i = 0; i < round; i++)
			side_try(test, a, &done, 5);
		side_close(test, round & 1 ? a : b);
		if (round & 1) {
			struct ibrelk_command cancel = { .opcode = IBRELK_OP_CANCEL, .addr = 5, .user_data = 9 };

			/* What had begun ends; then the buffer is given back. */
			side_accept(test, b, &cancel);
			do {
				done = side_wait(test, b);
				parts += done.user_data == 5 && !(done.flags & IBRELK_CQE_RELEASED);
			} while (!(done.flags & IBRELK_CQE_RELEASED));
			KUNIT_EXPECT_EQ(test, done.length, (u64)parts);
			side_close(test, b);
		} else {
			side_close(test, a);
		}
	}
	world_check(test);
}

/* The buffer may not be pinned: each message is copied when it is complete. */
static void many_bounced(struct kunit *test)
{
	struct side *a = side_open(test, NULL), *b = side_open(test, NULL);
	u32 ab = side_add_side(test, a, b), i;
	unsigned long from = user_alloc(test, 4 * MIB), to = user_alloc(test, 4 * MIB);
	struct ibrelk_command command = multi(to, 4 * MIB, ARRAY_SIZE(sizes), 0);
	struct cred *poor = prepare_creds();
	const struct cred *old;
	u64 used = 0;

	KUNIT_ASSERT_NOT_NULL(test, poor);
	user_fill(test, from, 4 * MIB, 1);
	cap_clear(poor->cap_effective);
	old = override_creds(poor);
	current->signal->rlim[RLIMIT_MEMLOCK].rlim_cur = 0;
	side_accept(test, b, &command);
	KUNIT_EXPECT_EQ(test, atomic64_read(&current->mm->pinned_vm), 0ll);
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		side_send(test, a, ab, from + i, sizes[i], 0, i);
		KUNIT_EXPECT_EQ(test, part_wait(test, b, sizes[i], 0), used);
		KUNIT_EXPECT_TRUE(test, user_check_at(test, to + used, sizes[i], 1, i));
		/* The user may do with it what he likes; what comes later does not touch it. */
		user_fill(test, to + used, sizes[i], 99);
		side_wait_op(test, a, i, 0);
		used += ALIGN(sizes[i], 8);
	}
	released_wait(test, b, ARRAY_SIZE(sizes), used, 0);
	for (i = 0, used = 0; i < ARRAY_SIZE(sizes); used += ALIGN(sizes[i++], 8))
		KUNIT_EXPECT_TRUE(test, user_check(test, to + used, sizes[i], 99));
	revert_creds(old);
	put_cred(poor);
	world_check(test);
}

static struct kunit_case cases[] = {
	KUNIT_CASE_PARAM(probed, mode_next),
	KUNIT_CASE_PARAM(claimed, mode_next),
	KUNIT_CASE(claimed_untagged),
	KUNIT_CASE_PARAM(discarded, mode_next),
	KUNIT_CASE(claims_wrong),
	KUNIT_CASE_PARAM(claims_abandoned, mode_next),
	KUNIT_CASE_PARAM(many, mode_next),
	KUNIT_CASE_PARAM(many_end, mode_next),
	KUNIT_CASE(many_limits),
	KUNIT_CASE_PARAM(many_closed, mode_next),
	KUNIT_CASE_PARAM(many_bounced, mode_next_reliable),
	{}
};

static struct kunit_suite suite = {
	.name = "ibrelk_recv",
	.init = world_init,
	.exit = world_exit,
	.test_cases = cases,
};
kunit_test_suite(suite);
