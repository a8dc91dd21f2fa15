/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the suites have in common: endpoints on the loopback address with their rings, user memory,
 * commands that go in by the real door, completions that are waited for, a wire that makes trouble,
 * and the look, at the end of each test, whether everything was given back.
 */
#ifndef PAIR_H
#define PAIR_H

#include <kunit/test.h>
#include <linux/types.h>
#include <ibrelk/uapi.h>
#include "compat.h"
#include "endpoint.h"
#include "flow.h"
#include "path.h"
#include "ring.h"
#include "transport/loop.h"

#define SIDES_MAX	40
#define WAIT_S		10		/* more than enough for anything that is not stuck */
#define PAYLOAD_MAX	(4096 - 48 - 40) /* of a packet with one frame, over the loop transport */
#define EAGER_MAX	8192

/** struct side - an endpoint, with one ring for all its completions */
struct side {
	struct ibr_endpoint *endpoint;	/* the test's own reference */
	struct ibr_ring *ring;		/* likewise */
	struct ibrelk_ring_header *header;
	struct file *ring_file;
	struct ibrelk_addr addr;
	bool open;
	int fd;
};

/** struct world - all that a test has made; test->priv */
struct world {
	u32 mode;
	u32 sides;
	struct side side[SIDES_MAX];
	unsigned long scratch;		/* a page of user memory for commands and the like */
	u64 random;
};

/* For test suites: .init and .exit. The latter also cleans up after tests that were broken off. */
int world_init(struct kunit *test);
void world_exit(struct kunit *test);

/** struct side_options - zero: as usual */
struct side_options {
	u32 mode;			/* 0: the world's */
	u32 ring_entries;
	u64 job_key;
	u64 unexpected_bytes;
	u32 sends;
	u32 recvs;
};
struct side *side_open(struct kunit *test, const struct side_options *options);
void side_close(struct kunit *test, struct side *side);
/** side_add() - the handle by which @side knows @addr */
u32 side_add(struct kunit *test, struct side *side, const struct ibrelk_addr *addr);
u32 side_add_side(struct kunit *test, struct side *side, const struct side *peer);

/** side_submit() - one command by the door. Return: as ibr_command_batch() */
int side_submit(struct kunit *test, struct side *side, const struct ibrelk_command *command);
/** side_submit_sends() - @count sends of @length bytes each from @addr on, tagged by number, in one batch */
void side_submit_sends(struct kunit *test, struct side *side, u32 peer, u64 addr, u64 length, u32 count);
/** side_accept() - the same, and it must be accepted */
void side_accept(struct kunit *test, struct side *side, const struct ibrelk_command *command);
void side_send(struct kunit *test, struct side *side, u32 peer, u64 addr, u64 length, u64 tag, u64 user_data);
void side_recv(struct kunit *test, struct side *side, u32 peer, u64 addr, u64 length, u64 tag, u64 user_data);

/** side_wait() - the next completion; the test fails if there is none in time */
struct ibrelk_completion side_wait(struct kunit *test, struct side *side);
/** side_try() - the next completion within @ms. Return: there was one */
bool side_try(struct kunit *test, struct side *side, struct ibrelk_completion *completion, u32 ms);
/** side_wait_op() - the next completion, which must be of this command and have this status */
struct ibrelk_completion side_wait_op(struct kunit *test, struct side *side, u64 user_data, int status);

/** user_alloc() - user memory, zeroed, for the rest of the test */
unsigned long user_alloc(struct kunit *test, size_t bytes);
/** user_fill(), user_check() - a pattern that depends on @seed and the place. Return: as expected */
void user_fill(struct kunit *test, unsigned long addr, size_t bytes, u64 seed);
void user_fill_at(struct kunit *test, unsigned long addr, size_t bytes, u64 seed, size_t at);
bool user_check(struct kunit *test, unsigned long addr, size_t bytes, u64 seed);
/** user_fill_at(), user_check_at() - a stretch of such a pattern, from place @at on */
bool user_check_at(struct kunit *test, unsigned long addr, size_t bytes, u64 seed, size_t at);
/** user_check_zero() - nobody has written there */
bool user_check_zero(struct kunit *test, unsigned long addr, size_t bytes);

/** wait_until() - poll a condition */
#define wait_until(condition)							\
({										\
	unsigned long end_ = jiffies + WAIT_S * HZ;				\
	bool met_;								\
										\
	while (!(met_ = (condition)) && time_before(jiffies, end_))		\
		world_pause();							\
	met_;									\
})
void world_pause(void);

/** struct faults - of 256 packets, how many meet this fate; and what happened */
struct faults {
	u64 seed;
	u32 drop;
	u32 duplicate;
	u32 hold;
	u32 corrupt;
	bool data;			/* native modes: only what nobody repeats is in danger */
	u32 seen, dropped, corrupted;
};
extern struct faults wire_faults;	/* those in force */
/** faults_set() - make this trouble from now on; NULL: no more */
void faults_set(const struct faults *faults);

/** world_check() - close everything that is open; nothing may be left. Last line of each test */
void world_check(struct kunit *test);
/** world_path() - the loop path of a mode, with a reference */
struct ibr_path *world_path(struct kunit *test, u32 mode);
/** path_is_idle() - nothing is to be sent, and all that was sent is acknowledged */
bool path_is_idle(struct ibr_path *path);

u64 world_random(struct world *world);

/** mode_next() - KUNIT_CASE_PARAM() over all modes but auto */
IBR_KUNIT_NEXT(mode_next, previous, name);
IBR_KUNIT_NEXT(mode_next_reliable, previous, name);
IBR_KUNIT_NEXT(mode_next_native, previous, name);

#endif /* PAIR_H */
