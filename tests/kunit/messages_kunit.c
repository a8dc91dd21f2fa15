// SPDX-License-Identifier: GPL-2.0-only
/*
 * What messages are like when nothing goes wrong, in every mode: sizes across each boundary, matching,
 * levels, and what the completions say.
 */
#include "drive.h"
#include "pair.h"
#include "transport/transport.h"

#define MIB	(1ul << 20)
#define BATCH	30

/* Where the path a message takes changes: see IBR_FRAG_SMALL, payload, eager_max, IBR_UMEM_WINDOW. */
static const u64 sizes[] = {
	0, 1, 2, 167, 168, 169, 4000, PAYLOAD_MAX - 1, PAYLOAD_MAX, PAYLOAD_MAX + 1, 4096, 2 * PAYLOAD_MAX,
	2 * PAYLOAD_MAX + 1, EAGER_MAX - 1, EAGER_MAX, EAGER_MAX + 1, 65536, 2 * MIB - 1, 2 * MIB,
	2 * MIB + 1, 4 * MIB - 1, 4 * MIB, 4 * MIB + 1, 7 * MIB + 12345,
};

/* Receives first, so that messages go straight into place; unaligned on both sides. */
static void posted(struct kunit *test)
{
	struct side *a = side_open(test, NULL), *b = side_open(test, NULL);
	u32 peer = side_add_side(test, a, b);
	unsigned long from = user_alloc(test, 8 * MIB), to = user_alloc(test, 8 * MIB + PAGE_SIZE);
	struct ibrelk_completion done;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		u64 size = sizes[i];

		user_fill(test, from + i, size, i);
		side_recv(test, b, IBRELK_PEER_ANY, to + 3 * i, size, i, 100 + i);
		side_send(test, a, peer, from + i, size, i, i);
		done = side_wait_op(test, b, 100 + i, 0);
		KUNIT_EXPECT_EQ(test, done.length, size);
		KUNIT_EXPECT_EQ(test, done.tag, (u64)i);
		KUNIT_EXPECT_EQ(test, done.opcode, IBRELK_OP_RECV);
		KUNIT_EXPECT_TRUE_MSG(test, user_check(test, to + 3 * i, size, i), "size %llu", size);
		done = side_wait_op(test, a, i, 0);
		KUNIT_EXPECT_EQ(test, done.opcode, IBRELK_OP_SEND);
		KUNIT_EXPECT_EQ(test, done.length, size);
		KUNIT_EXPECT_EQ(test, done.peer, peer);
	}
	world_check(test);
}

/* Messages first: they wait as unexpected, or as a bare RTS; all in one flow, taken in order. */
static void unexpected(struct kunit *test)
{
	struct side *a = side_open(test, NULL), *b = side_open(test, NULL);
	u32 peer = side_add_side(test, a, b);
	unsigned long from[ARRAY_SIZE(sizes)];
	unsigned long to = user_alloc(test, 8 * MIB);
	struct ibrelk_completion done;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		from[i] = user_alloc(test, sizes[i]);
		user_fill(test, from[i], sizes[i], i);
		side_send(test, a, peer, from[i], sizes[i], 7, i);
	}
	KUNIT_EXPECT_TRUE(test, wait_until(READ_ONCE(b->endpoint->match.messages) == ARRAY_SIZE(sizes)));
	KUNIT_EXPECT_GT(test, b->endpoint->unexpected_bytes, 0ull);
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		side_recv(test, b, IBRELK_PEER_ANY, to, 8 * MIB, 7, 100 + i);
		done = side_wait_op(test, b, 100 + i, 0);
		KUNIT_EXPECT_EQ(test, done.length, sizes[i]);
		KUNIT_EXPECT_TRUE_MSG(test, user_check(test, to, sizes[i], i), "size %llu", sizes[i]);
	}
	/* Buffered ones complete first; but each exactly once. */
	for (i = 0; i < ARRAY_SIZE(sizes); i++)
		KUNIT_EXPECT_EQ(test, side_wait(test, a).status, 0);
	KUNIT_EXPECT_FALSE(test, side_try(test, a, &done, 20));
	world_check(test);
}

/* Tags, bits to ignore, sources, and the two match spaces. */
static void matching(struct kunit *test)
{
	struct side *a = side_open(test, NULL), *b = side_open(test, NULL), *c = side_open(test, NULL);
	u32 ab = side_add_side(test, a, b), cb = side_add_side(test, c, b);
	u32 ba = side_add_side(test, b, a), bc = side_add_side(test, b, c);
	unsigned long from = user_alloc(test, PAGE_SIZE), to = user_alloc(test, PAGE_SIZE);
	struct ibrelk_command untagged = {
		.opcode = IBRELK_OP_SEND,
		.flags = IBRELK_CMD_UNTAGGED | IBRELK_CMD_IMMEDIATE,
		.immediate = 0x123456789abcdef0,
		.addr = from,
		.length = 5,
		.peer = ab,
		.user_data = 1,
	};
	struct ibrelk_command masked = {
		.opcode = IBRELK_OP_RECV,
		.addr = to,
		.length = 64,
		.peer = IBRELK_PEER_ANY,
		.tag = 0xff00,
		.ignore = 0xff,
		.user_data = 20,
	};
	struct ibrelk_command untagged_recv = {
		.opcode = IBRELK_OP_RECV,
		.flags = IBRELK_CMD_UNTAGGED,
		.addr = to + 64,
		.length = 64,
		.peer = IBRELK_PEER_ANY,
		.user_data = 21,
	};
	struct ibrelk_completion done;

	KUNIT_EXPECT_NE(test, ba, bc);
	side_accept(test, b, &masked);
	side_accept(test, b, &untagged_recv);
	side_recv(test, b, bc, to + 128, 64, 5, 22);
	side_recv(test, b, ba, to + 192, 64, ~0ull, 23);

	user_fill(test, from, 64, 9);
	side_accept(test, a, &untagged);
	done = side_wait_op(test, b, 21, 0);
	KUNIT_EXPECT_EQ(test, done.flags, IBRELK_CQE_IMMEDIATE | IBRELK_CQE_UNTAGGED);
	KUNIT_EXPECT_EQ(test, done.immediate, untagged.immediate);
	KUNIT_EXPECT_EQ(test, done.peer, ba);
	side_wait_op(test, a, 1, 0);

	/* The tag of the receive from c, but not from c: waits. Then the others. */
	side_send(test, a, ab, from, 8, 5, 2);
	side_wait_op(test, a, 2, 0);
	side_send(test, a, ab, from, 8, 0xff77, 3);
	done = side_wait_op(test, b, 20, 0);
	KUNIT_EXPECT_EQ(test, done.tag, 0xff77ull);
	side_send(test, a, ab, from, 8, ~0ull, 4);
	side_wait_op(test, b, 23, 0);
	side_send(test, c, cb, from, 9, 5, 5);
	done = side_wait_op(test, b, 22, 0);
	KUNIT_EXPECT_EQ(test, done.length, 9ull);
	KUNIT_EXPECT_EQ(test, done.peer, bc);
	KUNIT_EXPECT_TRUE(test, user_check(test, to + 128, 9, 9));

	/* What waited is found by its source. */
	side_recv(test, b, ba, to + 256, 64, 5, 24);
	done = side_wait_op(test, b, 24, 0);
	KUNIT_EXPECT_EQ(test, done.peer, ba);
	KUNIT_EXPECT_EQ(test, done.length, 8ull);
	world_check(test);
}

#define PIECES	50

/* How a buffer is cut, in an array in user memory: pieces in any order, some of them empty, with gaps between them. */
struct cut {
	unsigned long array, memory;
	struct ibrelk_iovec piece[PIECES];
	u32 count;
};

static void cut_make(struct kunit *test, struct cut *cut, u64 bytes, u32 count)
{
	struct world *world = test->priv;
	u64 place = 0, left = bytes;
	u32 i, k;

	cut->array = user_alloc(test, sizeof(cut->piece));
	cut->memory = user_alloc(test, bytes + PIECES * PAGE_SIZE);
	cut->count = count;
	for (i = 0; i < count; i++) {
		struct ibrelk_iovec *piece = &cut->piece[i];

		piece->length = i == count - 1 ? left : world_random(world) % 4 ? world_random(world) % (left + 1) / 2 : 0;
		piece->addr = cut->memory + place;
		place += piece->length + world_random(world) % PAGE_SIZE;
		left -= piece->length;
	}
	for (i = count - 1; i; i--) {
		k = world_random(world) % (i + 1);
		swap(cut->piece[i], cut->piece[k]);
	}
	KUNIT_ASSERT_EQ(test, copy_to_user((void __user *)cut->array, cut->piece, count * sizeof(cut->piece[0])), 0ul);
}

/* Buffers in pieces at either end, or both, with the receive first or the message; too short, too. */
static void pieces(struct kunit *test)
{
	static const u64 lengths[] = { 0, 1, 300, EAGER_MAX, EAGER_MAX + 1, 100000, 5 * MIB + 11 };
	struct side *a = side_open(test, NULL), *b = side_open(test, NULL);
	struct cut *from = kunit_kzalloc(test, sizeof(*from), GFP_KERNEL);
	struct cut *to = kunit_kzalloc(test, sizeof(*to), GFP_KERNEL);
	u32 peer = side_add_side(test, a, b), i, round, k;
	u64 room, at;

	KUNIT_ASSERT_NOT_NULL(test, from);
	KUNIT_ASSERT_NOT_NULL(test, to);
	for (i = 0; i < ARRAY_SIZE(lengths); i++) {
		for (round = 0; round < 4; round++) {
			struct ibrelk_command send = {
				.opcode = IBRELK_OP_SEND,
				.flags = IBRELK_CMD_IOVEC,
				.peer = peer,
				.user_data = 1,
			};
			struct ibrelk_command recv = {
				.opcode = IBRELK_OP_RECV,
				.flags = IBRELK_CMD_IOVEC,
				.peer = IBRELK_PEER_ANY,
				.user_data = 2,
			};
			struct ibrelk_completion done;

			room = round == 3 ? lengths[i] / 2 : lengths[i];
			cut_make(test, from, lengths[i], round == 1 ? 1 : PIECES);
			cut_make(test, to, room, round == 2 ? 1 : PIECES);
			for (k = 0, at = 0; k < from->count; at += from->piece[k++].length)
				user_fill_at(test, from->piece[k].addr, from->piece[k].length, i, at);
			send.addr = from->array;
			send.length = from->count;
			recv.addr = to->array;
			recv.length = to->count;
			if (round & 1)
				side_accept(test, b, &recv);
			side_accept(test, a, &send);
			if (!(round & 1)) {
				KUNIT_EXPECT_TRUE(test, wait_until(b->endpoint->match.messages == 1));
				side_accept(test, b, &recv);
			}
			done = side_wait_op(test, b, 2, room < lengths[i] ? -EMSGSIZE : 0);
			KUNIT_EXPECT_EQ(test, done.length, lengths[i]);
			done = side_wait_op(test, a, 1, 0);
			KUNIT_EXPECT_EQ(test, done.length, lengths[i]);
			for (k = 0, at = 0; k < to->count; at += to->piece[k++].length)
				KUNIT_EXPECT_TRUE(test, user_check_at(test, to->piece[k].addr, to->piece[k].length, i, at));
		}
	}
	KUNIT_EXPECT_EQ(test, atomic64_read(&a->endpoint->tx_bytes), 4 * (1 + 300 + 2 * EAGER_MAX + 1 + 100000 + 5ll * MIB + 11));
	world_check(test);
}

/* The receive is too short: the real length, the prefix that fits, and not a byte more. */
static void truncated(struct kunit *test)
{
	static const struct {
		u64 sent, room;
	} cases[] = {
		{ 1, 0 }, { 200, 199 }, { PAYLOAD_MAX + 10, PAYLOAD_MAX }, { EAGER_MAX, 1 }, { 65536, 0 },
		{ 65536, 10000 }, { 5 * MIB, 2 * MIB + 7 }, { 5 * MIB, 5 * MIB - 1 },
	};
	struct side *a = side_open(test, NULL), *b = side_open(test, NULL);
	u32 peer = side_add_side(test, a, b), i, late;
	unsigned long from = user_alloc(test, 6 * MIB);

	user_fill(test, from, 6 * MIB, 3);
	for (late = 0; late < 2; late++) {
		for (i = 0; i < ARRAY_SIZE(cases); i++) {
			unsigned long to = user_alloc(test, cases[i].room + PAGE_SIZE);
			struct ibrelk_completion done;

			if (!late)
				side_recv(test, b, IBRELK_PEER_ANY, to, cases[i].room, 1, i);
			side_send(test, a, peer, from, cases[i].sent, 1, i);
			if (late) {
				KUNIT_EXPECT_TRUE(test, wait_until(b->endpoint->match.messages == 1));
				side_recv(test, b, IBRELK_PEER_ANY, to, cases[i].room, 1, i);
			}
			done = side_wait_op(test, b, i, -EMSGSIZE);
			KUNIT_EXPECT_EQ(test, done.length, cases[i].sent);
			KUNIT_EXPECT_TRUE(test, user_check(test, to, cases[i].room, 3));
			KUNIT_EXPECT_TRUE(test, user_check_zero(test, to + cases[i].room, PAGE_SIZE));
			side_wait_op(test, a, i, 0);
		}
	}
	/* And the flow goes on. */
	side_recv(test, b, IBRELK_PEER_ANY, from, 10, 2, 50);
	side_send(test, a, peer, from, 10, 2, 51);
	side_wait_op(test, b, 50, 0);
	side_wait_op(test, a, 51, 0);
	world_check(test);
}

static void cancelled(struct kunit *test)
{
	struct ibrelk_command cancel = { .opcode = IBRELK_OP_CANCEL, .addr = 5, .user_data = 99 };
	struct side *a = side_open(test, NULL), *b = side_open(test, NULL);
	u32 peer = side_add_side(test, a, b), i;
	unsigned long to = user_alloc(test, PAGE_SIZE), from = user_alloc(test, PAGE_SIZE);
	struct ibrelk_completion done;

	side_accept(test, b, &cancel);
	done = side_wait_op(test, b, 99, -ENOENT);
	for (i = 0; i < 3; i++)
		side_recv(test, b, IBRELK_PEER_ANY, to, 100, i, 5);
	side_recv(test, b, IBRELK_PEER_ANY, to, 100, 1, 6);
	side_accept(test, b, &cancel);
	for (i = 0; i < 3; i++)
		side_wait_op(test, b, 5, -ECANCELED);
	done = side_wait_op(test, b, 99, 0);
	KUNIT_EXPECT_EQ(test, done.length, 3ull);
	KUNIT_EXPECT_EQ(test, done.opcode, IBRELK_OP_CANCEL);

	/* Only what was not cancelled takes anything. */
	user_fill(test, from, 100, 1);
	side_send(test, a, peer, from, 50, 1, 1);
	side_wait_op(test, b, 6, 0);
	KUNIT_EXPECT_TRUE(test, user_check(test, to, 50, 1));
	side_send(test, a, peer, from, 50, 2, 2);
	KUNIT_EXPECT_TRUE(test, wait_until(b->endpoint->match.messages == 1));
	world_check(test);
}

static void to_itself(struct kunit *test)
{
	static const u64 own[] = { 0, 100, EAGER_MAX, 3 * MIB };
	struct side *a = side_open(test, NULL);
	u32 peer = side_add_side(test, a, a), i, k;
	unsigned long from = user_alloc(test, 3 * MIB), to = user_alloc(test, 3 * MIB);

	for (i = 0; i < ARRAY_SIZE(own); i++) {
		bool sent = false, received = false;

		user_fill(test, from, own[i], i);
		side_recv(test, a, peer, to, own[i], i, 2);
		side_send(test, a, peer, from, own[i], i, 1);
		for (k = 0; k < 2; k++) {
			struct ibrelk_completion done = side_wait(test, a);

			KUNIT_EXPECT_EQ(test, done.status, 0);
			KUNIT_EXPECT_EQ(test, done.peer, peer);
			if (done.opcode == IBRELK_OP_SEND)
				sent = true;
			else
				received = true;
		}
		KUNIT_EXPECT_TRUE(test, sent && received);
		KUNIT_EXPECT_TRUE(test, user_check(test, to, own[i], i));
	}
	world_check(test);
}

/* When a send completes is what its level says; a receive's completion is none of its business. */
static void levels(struct kunit *test)
{
	static const u64 some[] = { 0, 100, EAGER_MAX, EAGER_MAX + 1, 100000 };
	struct side *a = side_open(test, NULL), *b = side_open(test, NULL);
	u32 peer = side_add_side(test, a, b), i;
	unsigned long from = user_alloc(test, MIB), to = user_alloc(test, MIB);
	struct ibrelk_command send = {
		.opcode = IBRELK_OP_SEND,
		.peer = peer,
		.addr = from,
	};
	struct ibrelk_completion done;

	user_fill(test, from, MIB, 2);
	for (i = 0; i < ARRAY_SIZE(some); i++) {
		bool native = ibr_mode_native(a->endpoint->mode);

		send.length = some[i];
		send.tag = i;
		if (some[i] <= EAGER_MAX) {
			send.level = IBRELK_LEVEL_BUFFERED;
			send.user_data = 1;
			side_accept(test, a, &send);
			side_wait_op(test, a, 1, 0);
			send.level = IBRELK_LEVEL_DELIVERED;
			send.user_data = 2;
			side_accept(test, a, &send);
			/* Without acknowledgements, that it was delivered is known only when it is matched. */
			if (!native)
				side_wait_op(test, a, 2, 0);
			KUNIT_EXPECT_TRUE(test, wait_until(b->endpoint->match.messages == 2));
			side_recv(test, b, IBRELK_PEER_ANY, to, MIB, i, 12);
			side_wait_op(test, b, 12, 0);
			side_recv(test, b, IBRELK_PEER_ANY, to, MIB, i, 13);
			side_wait_op(test, b, 13, 0);
			if (native)
				side_wait_op(test, a, 2, 0);
		}
		/* What goes by rendezvous is not buffered, and is complete when all of it is there, whatever was asked. */
		send.level = some[i] > EAGER_MAX ? IBRELK_LEVEL_BUFFERED : IBRELK_LEVEL_MATCHED;
		send.user_data = 3;
		side_accept(test, a, &send);
		KUNIT_EXPECT_TRUE(test, wait_until(b->endpoint->match.messages == 1));
		KUNIT_EXPECT_FALSE(test, side_try(test, a, &done, 20));
		side_recv(test, b, IBRELK_PEER_ANY, to, MIB, i, 11);
		side_wait_op(test, a, 3, 0);
		side_wait_op(test, b, 11, 0);
		KUNIT_EXPECT_TRUE(test, user_check(test, to, some[i], 2));

		/* The same with the receive there already. */
		send.level = IBRELK_LEVEL_MATCHED;
		side_recv(test, b, IBRELK_PEER_ANY, to, MIB, i, 14);
		side_accept(test, a, &send);
		side_wait_op(test, a, 3, 0);
		side_wait_op(test, b, 14, 0);
	}
	world_check(test);
}

/*
 * Of a message up to the eager threshold the buffer may be used again when the command has been taken, whatever
 * becomes of the message: here none leaves before that, where losses are made good.
 */
static void buffer_used_again(struct kunit *test)
{
	static const u64 some[] = { 1, 8, 100, PAYLOAD_MAX, PAYLOAD_MAX + 1, EAGER_MAX };
	const struct faults nothing_passes = { .drop = 256 };
	struct side *a = side_open(test, NULL), *b = side_open(test, NULL);
	u32 peer = side_add_side(test, a, b), i;
	unsigned long from = user_alloc(test, EAGER_MAX), to = user_alloc(test, EAGER_MAX);
	bool native = ibr_mode_native(a->endpoint->mode);
	struct ibrelk_command send = {
		.opcode = IBRELK_OP_SEND,
		.level = IBRELK_LEVEL_BUFFERED,
		.peer = peer,
		.addr = from,
	};

	/* A send completes when there is a flow for it. */
	side_recv(test, b, IBRELK_PEER_ANY, to, EAGER_MAX, 0, 1);
	side_accept(test, a, &send);
	side_wait_op(test, a, 0, 0);
	side_wait_op(test, b, 1, 0);
	for (i = 0; i < 2 * ARRAY_SIZE(some); i++) {
		bool waits = i & 1;	/* a receive waits for it */

		send.length = some[i / 2];
		send.tag = send.user_data = i;
		if (waits)
			side_recv(test, b, IBRELK_PEER_ANY, to, EAGER_MAX, i, 100 + i);
		if (!native)
			faults_set(&nothing_passes);
		user_fill(test, from, send.length, i);
		side_accept(test, a, &send);
		user_fill(test, from, send.length, 99);
		side_wait_op(test, a, i, 0);
		faults_set(NULL);
		if (!waits)
			side_recv(test, b, IBRELK_PEER_ANY, to, EAGER_MAX, i, 100 + i);
		KUNIT_EXPECT_EQ(test, side_wait_op(test, b, 100 + i, 0).length, send.length);
		KUNIT_EXPECT_TRUE(test, user_check(test, to, send.length, i));
	}
	world_check(test);
}

static void no_success(struct kunit *test)
{
	struct side *a = side_open(test, NULL), *b = side_open(test, NULL);
	u32 peer = side_add_side(test, a, b), i;
	unsigned long buffer = user_alloc(test, MIB);
	struct ibrelk_command command = { .flags = IBRELK_CMD_NO_SUCCESS, .addr = buffer };
	struct ibrelk_completion done;

	for (i = 0; i < 3; i++) {
		command.opcode = IBRELK_OP_RECV;
		command.peer = IBRELK_PEER_ANY;
		command.length = i == 2 ? 5 : MIB;
		command.user_data = 10 + i;
		side_accept(test, b, &command);
		command.opcode = IBRELK_OP_SEND;
		command.peer = peer;
		command.length = i == 1 ? MIB : 10;
		command.user_data = i;
		side_accept(test, a, &command);
	}
	/* Only the one that failed is reported, and a NOP that asks for it. */
	side_wait_op(test, b, 12, -EMSGSIZE);
	command = (struct ibrelk_command){ .opcode = IBRELK_OP_NOP, .user_data = 77 };
	side_accept(test, a, &command);
	side_wait_op(test, a, 77, 0);
	KUNIT_EXPECT_TRUE(test, wait_until(!atomic_read(&a->endpoint->sends)));
	KUNIT_EXPECT_EQ(test, atomic_read(&b->endpoint->recvs), 0);
	KUNIT_EXPECT_FALSE(test, side_try(test, a, &done, 0));
	KUNIT_EXPECT_FALSE(test, side_try(test, b, &done, 0));
	world_check(test);
}

/* Many messages of mixed sizes at once: in order, each whole. */
static void stream(struct kunit *test)
{
	enum { COUNT = 300 };
	struct world *world = test->priv;
	struct side *a = side_open(test, NULL), *b = side_open(test, NULL);
	u32 peer = side_add_side(test, a, b), i;
	unsigned long from = user_alloc(test, COUNT * PAGE_SIZE * 3);
	unsigned long to = user_alloc(test, COUNT * PAGE_SIZE * 3);
	u32 *length = kunit_kcalloc(test, COUNT, sizeof(*length), GFP_KERNEL);
	struct ibrelk_completion done;

	KUNIT_ASSERT_NOT_NULL(test, length);
	for (i = 0; i < COUNT; i++) {
		length[i] = world_random(world) % (i % 3 ? 300 : 3 * PAGE_SIZE);
		user_fill(test, from + i * 3 * PAGE_SIZE, length[i], i);
	}
	for (i = 0; i < COUNT; i++) {
		side_recv(test, b, IBRELK_PEER_ANY, to + i * 3 * PAGE_SIZE, 3 * PAGE_SIZE, 0, i);
		side_send(test, a, peer, from + i * 3 * PAGE_SIZE, length[i], 0, i);
	}
	for (i = 0; i < COUNT; i++) {
		done = side_wait(test, b);
		KUNIT_ASSERT_LT(test, done.user_data, (u64)COUNT);
		KUNIT_EXPECT_EQ(test, done.status, 0);
		/* The first receive takes the first message, although a long one may end later. */
		KUNIT_EXPECT_EQ(test, done.length, length[done.user_data]);
		KUNIT_EXPECT_TRUE(test, user_check(test, to + done.user_data * 3 * PAGE_SIZE,
						   length[done.user_data], done.user_data));
		KUNIT_EXPECT_EQ(test, side_wait(test, a).status, 0);
	}
	world_check(test);
}

/* Short messages of one batch share packets; what is sent alone, or not allowed to, does not. */
static void together(struct kunit *test)
{
	struct side *a = side_open(test, NULL), *b = side_open(test, NULL);
	const struct faults none = { .seed = 1 }, lossy = { .seed = 1, .drop = 96 };
	struct ibr_path *path = world_path(test, a->endpoint->mode);
	u32 peer = side_add_side(test, a, b), round, i;
	unsigned long from = user_alloc(test, PAGE_SIZE), to = user_alloc(test, PAGE_SIZE);
	u32 seen[2];

	user_fill(test, from, PAGE_SIZE, 1);
	for (round = 0; round < 3; round++) {
		bool native = ibr_mode_native(a->endpoint->mode);

		if (round == 2 && native)
			break;
		/* The flow is open, and nothing is under way. */
		side_recv(test, b, IBRELK_PEER_ANY, to, 8, 99, 99);
		side_send(test, a, peer, from, 8, 99, 99);
		side_wait_op(test, a, 99, 0);
		side_wait_op(test, b, 99, 0);
		for (i = 0; i < BATCH; i++)
			side_recv(test, b, IBRELK_PEER_ANY, to + 8 * i, 8, i, i);
		user_fill(test, to, 8 * BATCH, 2);
		KUNIT_ASSERT_TRUE(test, wait_until(path_is_idle(path)));
		WRITE_ONCE(ibr_aggregate, round);
		faults_set(round == 2 ? &lossy : &none);
		side_submit_sends(test, a, peer, from, 8, BATCH);
		for (i = 0; i < BATCH; i++) {
			KUNIT_EXPECT_EQ(test, side_wait(test, a).status, 0);
			/* Those of a lost packet come later, but all come. */
			KUNIT_EXPECT_EQ(test, side_wait(test, b).status, 0);
		}
		if (round < 2)
			seen[round] = READ_ONCE(wire_faults.seen);
		KUNIT_EXPECT_TRUE(test, user_check(test, to, 8 * BATCH, 1));
	}
	WRITE_ONCE(ibr_aggregate, true);
	faults_set(NULL);
	/* Sixteen, as many as there may be, fit into a slot; but there are ACKs, probes, and what the timers cut in parts. */
	if (ibr_mode_native(a->endpoint->mode))
		KUNIT_EXPECT_GE(test, seen[1], BATCH);
	else
		KUNIT_EXPECT_LT(test, seen[1], BATCH / 2);
	KUNIT_EXPECT_GE(test, seen[0], BATCH);
	ibr_path_put(path);
	world_check(test);
}

/* Has as much been sent since @before as may be in flight? */
static bool window_is_full(struct ibr_path *path, u32 before)
{
	bool full;

	spin_lock_bh(&path->lock);
	full = path->rel.sender.next - before >= rel_window_256(&path->rel) / 256;
	spin_unlock_bh(&path->lock);
	return full;
}

/*
 * One short message of each of several endpoints waits, since nothing of what fills the window arrives. When that is
 * repaired they go in fewer packets than there are senders.
 */
static void together_whoever_sends(struct kunit *test)
{
	enum { SENDERS = SIDES_MAX - 2, FILL = 100, SIZE = 200 };
	const struct faults black = { .seed = 1, .drop = 256 };
	struct side *filler = side_open(test, NULL), *b = side_open(test, NULL), *a[SENDERS];
	struct ibr_path *path = world_path(test, filler->endpoint->mode);
	unsigned long from = user_alloc(test, FILL * SIZE), to = user_alloc(test, FILL * SIZE);
	u32 peer[SENDERS], fills = side_add_side(test, filler, b), before, sent, filled, i;

	for (i = 0; i <= SENDERS; i++) {
		struct side *one = filler;
		u32 to_b = fills;

		if (i < SENDERS) {
			one = a[i] = side_open(test, NULL);
			to_b = peer[i] = side_add_side(test, one, b);
		}
		/* The flow is open. */
		side_recv(test, b, IBRELK_PEER_ANY, to, 8, 1000, 1000);
		side_send(test, one, to_b, from, 8, 1000, 1000);
		side_wait_op(test, one, 1000, 0);
		side_wait_op(test, b, 1000, 0);
	}
	KUNIT_ASSERT_TRUE(test, wait_until(path_is_idle(path)));
	for (i = 0; i < FILL; i++)
		side_recv(test, b, IBRELK_PEER_ANY, to + SIZE * i, SIZE, i, i);
	for (i = 0; i < SENDERS; i++)
		side_recv(test, b, IBRELK_PEER_ANY, to, 8, 1000, 1000);
	faults_set(&black);
	before = READ_ONCE(path->rel.sender.next);
	/* Where somebody else sends them, later, they would share packets instead of filling the window. */
	WRITE_ONCE(ibr_aggregate, false);
	for (i = 0; i < FILL; i++)
		side_send(test, filler, fills, from, SIZE, i, i);
	KUNIT_EXPECT_TRUE(test, wait_until(window_is_full(path, before)));
	WRITE_ONCE(ibr_aggregate, true);
	filled = READ_ONCE(path->rel.sender.next) - before;
	KUNIT_EXPECT_LT(test, filled, (u32)FILL);
	KUNIT_EXPECT_GE(test, filled, (u32)SENDERS / 2);
	for (i = 0; i < SENDERS; i++)
		side_send(test, a[i], peer[i], from, 8, 1000, 1000);
	faults_set(NULL);
	for (i = 0; i < SENDERS; i++)
		side_wait_op(test, a[i], 1000, 0);
	for (i = 0; i < FILL; i++)
		KUNIT_EXPECT_EQ(test, side_wait(test, filler).status, 0);
	for (i = 0; i < FILL + SENDERS; i++)
		KUNIT_EXPECT_EQ(test, side_wait(test, b).status, 0);
	sent = READ_ONCE(path->rel.sender.next) - before;
	kunit_info(test, "%u senders: %u packets, of which %u filled the window", SENDERS, sent, filled);
	/* What filled the window went twice, and then, as it waited, three in a packet. */
	KUNIT_EXPECT_LT(test, sent, filled + DIV_ROUND_UP(FILL, 3) + SENDERS / 2);
	ibr_path_put(path);
	world_check(test);
}

static struct kunit_case cases[] = {
	KUNIT_CASE_PARAM(posted, mode_next),
	KUNIT_CASE_PARAM(unexpected, mode_next),
	KUNIT_CASE_PARAM(pieces, mode_next),
	KUNIT_CASE_PARAM(matching, mode_next),
	KUNIT_CASE_PARAM(truncated, mode_next),
	KUNIT_CASE_PARAM(cancelled, mode_next),
	KUNIT_CASE_PARAM(to_itself, mode_next),
	KUNIT_CASE_PARAM(levels, mode_next),
	KUNIT_CASE_PARAM(buffer_used_again, mode_next),
	KUNIT_CASE_PARAM(no_success, mode_next),
	KUNIT_CASE_PARAM(stream, mode_next),
	KUNIT_CASE_PARAM(together, mode_next),
	KUNIT_CASE_PARAM(together_whoever_sends, mode_next_reliable),
	{}
};

static struct kunit_suite suite = {
	.name = "ibrelk_messages",
	.init = world_init,
	.exit = world_exit,
	.test_cases = cases,
};
kunit_test_suite(suite);
