/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Matching of messages with posted receives, by the rules of MPI: per match space (tagged or
 * untagged), a receive names a source or any, and a tag with bits to ignore; the oldest receive
 * that fits takes a message, and the oldest message that fits satisfies a receive; messages of one
 * source are never overtaken by later ones of the same source.
 *
 * Pure code: no lock, allocation or kernel call. The owner embeds the entries in its own objects
 * and serialises all calls on one struct match (the endpoint lock). Cost: a receive with an exact
 * source and tag, and a message, are found by hash, so the cost for exact matches does not grow
 * with the length of the lists; receives with a wildcard are kept in order of posting in a list of
 * their own.
 */
#ifndef IBR_MATCH_H
#define IBR_MATCH_H

#include "reliability/port.h"

#define MATCH_SOURCE_ANY	0xffffffffu
#define MATCH_BUCKETS_LOG2	11
#define MATCH_BUCKETS		BIT(MATCH_BUCKETS_LOG2)	/* in each table, 8 bytes each */

/** enum match_space - the two spaces never mix */
enum match_space {
	MATCH_TAGGED = 0,
	MATCH_UNTAGGED = 1,
	MATCH_SPACES
};

/**
 * struct match_links - where an entry hangs; private to match.c
 * @bucket: in its hash bucket, if it is the oldest of its (space, source, tag); else unhashed
 * @same: ring of all entries with the same (space, source, tag), oldest first;
 *	of a receive with a wildcard: in its space's list of these
 * @all: in the list of all receives, or of all messages of the space, oldest first
 */
struct match_links {
	struct hlist_node bucket;
	struct list_head same;
	struct list_head all;
};

/**
 * struct match_recv - a posted receive, embedded in its owner's object
 * @tag: wanted tag
 * @ignore: bits of it that need not match
 * @cookie: the user's name for it, for match_cancel_all()
 * @source: wanted source handle, or MATCH_SOURCE_ANY
 * @space: match space
 * @stays: a message that takes it leaves it posted; also later ones may
 * @posted: it is in the table (set by match.c)
 * @order: private to match.c: its place among all receives
 * @links: private to match.c
 *
 * While it is posted, the owner changes none of this.
 */
struct match_recv {
	u64 tag;
	u64 ignore;
	u64 cookie;
	u32 source;
	u8 space;
	bool stays;
	bool posted;
	u64 order;
	struct match_links links;
};

/**
 * struct match_message - an unexpected message, embedded in its owner's object
 * @tag: its tag
 * @source: its source handle
 * @space: match space
 * @waiting: it is in the table (set by match.c)
 * @links: private to match.c
 *
 * While it is waiting, the owner changes none of this.
 */
struct match_message {
	u64 tag;
	u32 source;
	u8 space;
	bool waiting;
	struct match_links links;
};

/**
 * struct match - the two tables of an endpoint; members are private to match.c but for the counts
 * @recvs: posted receives
 * @messages: waiting messages
 * @order: receives ever posted
 * @key: keys of the hash, so that a peer cannot choose collisions
 * @key_space: one key for each space
 * @recv_all: every posted receive, in order of posting
 * @recv_wild: posted receives with a wildcard, in order of posting
 * @message_all: waiting messages, in order of arrival
 * @recv_hash: posted receives without a wildcard, the oldest of each (space, source, tag)
 * @message_hash: waiting messages, the oldest of each (space, source, tag)
 */
struct match {
	u32 recvs;
	u32 messages;
	u64 order;
	u64 key[3];
	u64 key_space[MATCH_SPACES];
	struct list_head recv_all;
	struct list_head recv_wild[MATCH_SPACES];
	struct list_head message_all[MATCH_SPACES];
	struct hlist_head recv_hash[MATCH_BUCKETS];
	struct hlist_head message_hash[MATCH_BUCKETS];
};

/**
 * match_init() - start with empty tables
 * @match: the tables; 32 KiB
 * @secret: random
 */
void match_init(struct match *match, u64 secret);

/**
 * match_message_find() - the oldest waiting message that fits a receive
 * @match: the tables
 * @recv: with .tag, .ignore, .source, .space filled in; not posted
 *
 * Return: it, still in; or NULL.
 */
struct match_message *match_message_find(const struct match *match, const struct match_recv *recv);

/**
 * match_recv_post() - post a receive, or take the oldest waiting message that fits
 * @match: the tables
 * @recv: with .tag, .ignore, .source, .space, .cookie, .stays filled in
 *
 * Return: the message, taken out of the table, and @recv is not posted; or NULL, and @recv is
 * posted.
 */
struct match_message *match_recv_post(struct match *match, struct match_recv *recv);

/**
 * match_message_take() - a message has arrived: take the oldest receive that fits
 * @match: the tables
 * @source: where it is from; never MATCH_SOURCE_ANY
 * @space: its match space
 * @tag: its tag
 *
 * Return: the receive, taken out of the table unless it stays; or NULL: the owner may then keep the
 * message by match_message_keep().
 */
struct match_recv *match_message_take(struct match *match, u32 source, u8 space, u64 tag);

/**
 * match_message_keep() - keep a message until it is wanted
 * @match: the tables
 * @message: with .tag, .source, .space filled in; match_message_take() has just found nothing for
 *	it
 */
void match_message_keep(struct match *match, struct match_message *message);

/**
 * match_recv_remove() - take a posted receive out, wherever it is
 * @match: the tables
 * @recv: it must be in
 */
void match_recv_remove(struct match *match, struct match_recv *recv);

/**
 * match_message_remove() - take a waiting message out, wherever it is
 * @match: the tables
 * @message: it must be in
 */
void match_message_remove(struct match *match, struct match_message *message);

/**
 * match_cancel_all() - take out every posted receive with this cookie
 * @match: the tables
 * @cookie: the user's name for them
 * @cancelled: an initialised list; they are added at its tail by their .links.all, in order of
 *	posting
 *
 * Return: how many. Cost grows with the number of posted receives.
 */
u32 match_cancel_all(struct match *match, u64 cookie, struct list_head *cancelled);

/**
 * match_recv_first() - any receive that is still posted, for tearing down
 * @match: the tables
 *
 * Return: it, still in; or NULL.
 */
struct match_recv *match_recv_first(struct match *match);

/**
 * match_message_first() - any message that is still waiting, for tearing down
 * @match: the tables
 *
 * Return: it, still in; or NULL.
 */
struct match_message *match_message_first(struct match *match);

#endif /* IBR_MATCH_H */
