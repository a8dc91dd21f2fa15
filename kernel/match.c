// SPDX-License-Identifier: GPL-2.0-only
/*
 * Matching of messages with posted receives; match.h says what is promised.
 *
 * Receives without a wildcard, and all waiting messages, have a key (space, source, tag). Only the
 * oldest entry of a key, its head, is in the hash table; the younger ones form a ring with it. So a
 * chain holds different keys only: ten thousand receives with one tag slow down neither that tag
 * nor another one that happens to share its bucket. The oldest entry that fits is always a head,
 * and when a head leaves, the next of its ring takes its place in the chain.
 *
 * A receive with a wildcard is not in the hash table but in a list of its own, where a message has
 * to look through those that are older than the exact receive found for it: it takes the older of
 * the two. In the other direction, a receive with a wildcard looks through the waiting messages of
 * its space from the oldest on.
 */
#include "match.h"

/*
 * One step of splitmix64: stretches the owner's secret to the independent keys that the hash needs.
 */
static u64 key_next(u64 *state)
{
	u64 z;

	*state += 0x9e3779b97f4a7c15ull;
	z = *state;
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

/*
 * Multilinear hashing (Lemire and Kaser, "Strongly universal string hashing is fast", 2014): any
 * two different keys share a bucket with a probability of 1 / MATCH_BUCKETS over the choice of the
 * secret, whatever tags a peer sends. That takes random keys and the upper bits of the sum, and no
 * further mixing.
 */
static u32 bucket_of(const struct match *match, u32 source, u8 space, u64 tag)
{
	u64 sum = match->key_space[space];

	sum += match->key[0] * source;
	sum += match->key[1] * (u32)tag;
	sum += match->key[2] * (u32)(tag >> 32);
	return sum >> (64 - MATCH_BUCKETS_LOG2);
}

static void links_add(struct match_links *links, struct hlist_head *bucket,
		      struct match_links *head)
{
	if (head) {
		INIT_HLIST_NODE(&links->bucket);
		list_add_tail(&links->same, &head->same);
	} else {
		hlist_add_head(&links->bucket, bucket);
		INIT_LIST_HEAD(&links->same);
	}
}

/* Also right for a wildcard receive, which is in no bucket: it just leaves its list. */
static void links_remove(struct match_links *links)
{
	struct match_links *next = list_first_entry(&links->same, struct match_links, same);

	if (!hlist_unhashed(&links->bucket)) {
		if (next != links)
			hlist_add_behind(&next->bucket, &links->bucket);
		hlist_del_init(&links->bucket);
	}
	list_del_init(&links->same);
	list_del_init(&links->all);
}

static bool recv_is_wild(const struct match_recv *recv)
{
	return recv->source == MATCH_SOURCE_ANY || recv->ignore;
}

static bool recv_fits(const struct match_recv *recv, u32 source, u64 tag)
{
	return !((recv->tag ^ tag) & ~recv->ignore) &&
	       (recv->source == source || recv->source == MATCH_SOURCE_ANY);
}

/* The oldest posted receive for exactly this. */
static struct match_recv *recv_find(const struct hlist_head *bucket, u32 source, u8 space, u64 tag)
{
	struct match_recv *recv;

	hlist_for_each_entry(recv, bucket, links.bucket)
		if (recv->tag == tag && recv->source == source && recv->space == space)
			return recv;
	return NULL;
}

/* The oldest waiting message with exactly this. */
static struct match_message *message_find(const struct hlist_head *bucket, u32 source, u8 space,
					  u64 tag)
{
	struct match_message *message;

	hlist_for_each_entry(message, bucket, links.bucket)
		if (message->tag == tag && message->source == source && message->space == space)
			return message;
	return NULL;
}

static void recv_add(struct match *match, struct match_recv *recv)
{
	struct match_recv *head;
	struct hlist_head *bucket;

	if (recv_is_wild(recv)) {
		INIT_HLIST_NODE(&recv->links.bucket);
		list_add_tail(&recv->links.same, &match->recv_wild[recv->space]);
	} else {
		bucket = &match->recv_hash[bucket_of(match, recv->source, recv->space, recv->tag)];
		head = recv_find(bucket, recv->source, recv->space, recv->tag);
		links_add(&recv->links, bucket, head ? &head->links : NULL);
	}
	list_add_tail(&recv->links.all, &match->recv_all);
	recv->order = match->order++;
	recv->posted = true;
	match->recvs++;
}

void match_init(struct match *match, u64 secret)
{
	u32 i;

	memset(match, 0, sizeof(*match));	/* empty chains are all zero */
	for (i = 0; i < ARRAY_SIZE(match->key); i++)
		match->key[i] = key_next(&secret);
	INIT_LIST_HEAD(&match->recv_all);
	for (i = 0; i < MATCH_SPACES; i++) {
		match->key_space[i] = key_next(&secret);
		INIT_LIST_HEAD(&match->recv_wild[i]);
		INIT_LIST_HEAD(&match->message_all[i]);
	}
}

struct match_message *match_message_find(const struct match *match, const struct match_recv *recv)
{
	struct match_message *message;
	u32 i;

	if (!match->messages)
		return NULL;
	if (!recv_is_wild(recv)) {
		i = bucket_of(match, recv->source, recv->space, recv->tag);
		return message_find(&match->message_hash[i], recv->source, recv->space, recv->tag);
	}
	list_for_each_entry(message, &match->message_all[recv->space], links.all)
		if (recv_fits(recv, message->source, message->tag))
			return message;
	return NULL;
}

struct match_message *match_recv_post(struct match *match, struct match_recv *recv)
{
	struct match_message *message = match_message_find(match, recv);

	if (message)
		match_message_remove(match, message);
	else
		recv_add(match, recv);
	return message;
}

struct match_recv *match_message_take(struct match *match, u32 source, u8 space, u64 tag)
{
	struct match_recv *found, *wild;
	u32 i;

	if (!match->recvs)
		return NULL;

	i = bucket_of(match, source, space, tag);
	found = recv_find(&match->recv_hash[i], source, space, tag);
	list_for_each_entry(wild, &match->recv_wild[space], links.same) {
		if (found && found->order < wild->order)
			break;
		if (recv_fits(wild, source, tag)) {
			found = wild;
			break;
		}
	}
	if (found && !found->stays)
		match_recv_remove(match, found);
	return found;
}

void match_message_keep(struct match *match, struct match_message *message)
{
	u32 i = bucket_of(match, message->source, message->space, message->tag);
	struct hlist_head *bucket = &match->message_hash[i];
	struct match_message *head;

	head = message_find(bucket, message->source, message->space, message->tag);
	links_add(&message->links, bucket, head ? &head->links : NULL);
	list_add_tail(&message->links.all, &match->message_all[message->space]);
	message->waiting = true;
	match->messages++;
}

void match_recv_remove(struct match *match, struct match_recv *recv)
{
	if (rel_assert(recv->posted))
		return;
	links_remove(&recv->links);
	recv->posted = false;
	match->recvs--;
}

void match_message_remove(struct match *match, struct match_message *message)
{
	if (rel_assert(message->waiting))
		return;
	links_remove(&message->links);
	message->waiting = false;
	match->messages--;
}

u32 match_cancel_all(struct match *match, u64 cookie, struct list_head *cancelled)
{
	struct match_recv *recv, *next;
	u32 count = 0;

	list_for_each_entry_safe(recv, next, &match->recv_all, links.all) {
		if (recv->cookie != cookie)
			continue;
		match_recv_remove(match, recv);
		list_add_tail(&recv->links.all, cancelled);
		count++;
	}
	return count;
}

struct match_recv *match_recv_first(struct match *match)
{
	return list_first_entry_or_null(&match->recv_all, struct match_recv, links.all);
}

struct match_message *match_message_first(struct match *match)
{
	struct match_message *message = NULL;
	u32 space;

	for (space = 0; space < MATCH_SPACES && !message; space++)
		message = list_first_entry_or_null(&match->message_all[space],
						   struct match_message, links.all);
	return message;
}
