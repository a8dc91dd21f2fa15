// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tests of kernel/match.c: each promise of match.h by a scripted example, and then all of them
 * together against a model too simple to be wrong, over many random histories. A failure of the
 * latter names its seed; MATCH_SEED=<seed> repeats that history alone.
 */
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "history.hpp"

namespace
{

/* An empty table, whose entries are checked to have been taken out before it goes. */
class Match : public ::testing::Test
{
protected:
	Match()
	{
		match_init(match.get(), 0x5eed);
	}

	~Match() override
	{
		while (match_recv *recv = match_recv_first(match.get()))
			match_recv_remove(match.get(), recv);
		while (match_message *message = match_message_first(match.get()))
			match_message_remove(match.get(), message);
		EXPECT_EQ(match->recvs, 0u);
		EXPECT_EQ(match->messages, 0u);
	}

	/* Posts a receive that is expected to stay posted. */
	match_recv *post(u32 source, u64 tag, u64 ignore = 0, u8 space = MATCH_TAGGED, u64 cookie = 0)
	{
		match_recv *recv = make(source, tag, ignore, space, cookie);

		EXPECT_EQ(match_recv_post(match.get(), recv), nullptr);
		EXPECT_TRUE(recv->posted);
		return recv;
	}

	/* Posts a receive, and returns the message that it took. */
	match_message *receive(u32 source, u64 tag, u64 ignore = 0, u8 space = MATCH_TAGGED)
	{
		match_recv *recv = make(source, tag, ignore, space, 0);
		match_message *message = match_recv_post(match.get(), recv);

		EXPECT_NE(recv->posted, message != nullptr);
		if (message) {
			EXPECT_FALSE(message->waiting);
		}
		return message;
	}

	/* A message arrives, for which no receive is expected. */
	match_message *keep(u32 source, u64 tag, u8 space = MATCH_TAGGED)
	{
		auto message = std::make_unique<match_message>();

		message->source = source;
		message->tag = tag;
		message->space = space;
		EXPECT_EQ(match_message_take(match.get(), source, space, tag), nullptr);
		match_message_keep(match.get(), message.get());
		EXPECT_TRUE(message->waiting);
		messages.push_back(std::move(message));
		return messages.back().get();
	}

	match_recv *take(u32 source, u64 tag, u8 space = MATCH_TAGGED)
	{
		match_recv *recv = match_message_take(match.get(), source, space, tag);

		if (recv) {
			EXPECT_FALSE(recv->posted);
		}
		return recv;
	}

	match_recv *make(u32 source, u64 tag, u64 ignore, u8 space, u64 cookie, bool stays = false)
	{
		auto recv = std::make_unique<match_recv>();

		recv->source = source;
		recv->tag = tag;
		recv->ignore = ignore;
		recv->space = space;
		recv->cookie = cookie;
		recv->stays = stays;
		recvs.push_back(std::move(recv));
		return recvs.back().get();
	}

	std::unique_ptr<struct match> match = std::make_unique<struct match>();

private:
	std::vector<std::unique_ptr<match_recv>> recvs;
	std::vector<std::unique_ptr<match_message>> messages;
};

} // namespace

TEST_F(Match, match_init__is_empty)
{
	EXPECT_EQ(match->recvs, 0u);
	EXPECT_EQ(match->messages, 0u);
	EXPECT_EQ(match_recv_first(match.get()), nullptr);
	EXPECT_EQ(match_message_first(match.get()), nullptr);
	EXPECT_EQ(take(1, 1), nullptr);
}

TEST_F(Match, match_recv_post__counts_what_it_posts)
{
	post(1, 5);
	post(MATCH_SOURCE_ANY, 5);
	EXPECT_EQ(match->recvs, 2u);
	EXPECT_EQ(match->messages, 0u);
}

TEST_F(Match, match_recv_post__takes_waiting_message_and_is_not_posted)
{
	match_message *message = keep(1, 5);

	EXPECT_EQ(receive(1, 5), message);
	EXPECT_EQ(match->messages, 0u);
	EXPECT_EQ(match->recvs, 0u);
	EXPECT_EQ(match_recv_first(match.get()), nullptr);
}

TEST_F(Match, match_recv_post__takes_oldest_of_equal_messages)
{
	match_message *first = keep(1, 5);
	match_message *second = keep(1, 5);
	match_message *third = keep(1, 5);

	EXPECT_EQ(receive(1, 5), first);
	EXPECT_EQ(receive(1, 5), second);
	EXPECT_EQ(receive(1, 5), third);
	EXPECT_EQ(receive(1, 5), nullptr);
}

TEST_F(Match, match_recv_post__leaves_messages_of_other_source_tag_and_space)
{
	keep(1, 5);
	EXPECT_EQ(receive(2, 5), nullptr);
	EXPECT_EQ(receive(1, 6), nullptr);
	EXPECT_EQ(receive(1, 5, 0, MATCH_UNTAGGED), nullptr);
	EXPECT_EQ(receive(MATCH_SOURCE_ANY, 0, ignore_all, MATCH_UNTAGGED), nullptr);
	EXPECT_EQ(receive(MATCH_SOURCE_ANY, 6), nullptr);
	EXPECT_EQ(receive(2, 0, ignore_all), nullptr);
	EXPECT_EQ(match->messages, 1u);
}

TEST_F(Match, match_recv_post__compares_all_64_bits_of_a_tag)
{
	for (int bit = 0; bit < 64; bit++) {
		match_message *message = keep(1, 1ull << bit);

		EXPECT_EQ(receive(1, 0), nullptr) << bit;
		match_recv_remove(match.get(), match_recv_first(match.get()));
		EXPECT_EQ(receive(1, 0, ~(1ull << bit)), nullptr) << bit;
		match_recv_remove(match.get(), match_recv_first(match.get()));
		EXPECT_EQ(receive(1, 0, 1ull << bit), message) << bit;
	}
}

TEST_F(Match, match_recv_post__any_source_takes_oldest_message_with_the_tag)
{
	match_message *other = keep(1, 4);
	match_message *older = keep(3, 5);
	match_message *newer = keep(2, 5);

	EXPECT_EQ(receive(MATCH_SOURCE_ANY, 5), older);
	EXPECT_EQ(receive(MATCH_SOURCE_ANY, 5), newer);
	EXPECT_EQ(receive(MATCH_SOURCE_ANY, 0, ignore_all), other);
}

TEST_F(Match, match_recv_post__any_tag_takes_oldest_message_of_the_source)
{
	keep(2, 9);
	match_message *older = keep(1, 7);
	match_message *newer = keep(1, 3);

	EXPECT_EQ(receive(1, 0, ignore_all), older);
	EXPECT_EQ(receive(1, 0, ignore_all), newer);
	EXPECT_EQ(receive(1, 0, ignore_all), nullptr);
}

TEST_F(Match, match_recv_post__ignores_only_the_ignored_bits_even_where_its_own_tag_has_them)
{
	keep(1, 0x1134);
	match_message *fits = keep(1, 0x1234);

	EXPECT_EQ(receive(1, 0x12ff, 0xff), fits);
}

TEST_F(Match, match_recv_post__tag_with_the_bits_of_any_source_is_no_wildcard)
{
	keep(1, MATCH_SOURCE_ANY);
	EXPECT_EQ(receive(2, MATCH_SOURCE_ANY), nullptr);
	EXPECT_EQ(receive(1, ~0ull), nullptr);
}

TEST_F(Match, match_recv_post__chains_stay_short_with_many_tags_and_any_secret)
{
	for (u64 secret : {0ull, 1ull, ~0ull, 0x123456789abcdefull}) {
		/* Tags that differ in low bits, in high bits, and in the layout of an MPI tag. */
		for (int shift : {0, 20, 32, 50}) {
			auto table = std::make_unique<struct match>();
			std::vector<match_recv> many(10000);

			match_init(table.get(), secret);
			for (size_t i = 0; i < many.size(); i++) {
				many[i].source = 1;
				many[i].tag = static_cast<u64>(i) << shift;
				ASSERT_EQ(match_recv_post(table.get(), &many[i]), nullptr);
			}
			EXPECT_LE(chain_max(table->recv_hash), 30u)
				<< "secret " << secret << " shift " << shift;
		}
	}
}

TEST_F(Match, match_recv_post__equal_receives_make_no_chain)
{
	for (int i = 0; i < 1000; i++)
		post(1, 5);
	EXPECT_EQ(chain_max(match->recv_hash), 1u);
}

TEST_F(Match, match_message_take__leaves_what_stays_in_its_place)
{
	match_recv *first = make(1, 5, 0, MATCH_TAGGED, 0, true);
	match_recv *wild = make(MATCH_SOURCE_ANY, 5, 0, MATCH_TAGGED, 0, true);

	EXPECT_EQ(match_recv_post(match.get(), wild), nullptr);
	EXPECT_EQ(match_recv_post(match.get(), first), nullptr);
	post(1, 5);
	for (int i = 0; i < 3; i++)
		EXPECT_EQ(match_message_take(match.get(), 1, MATCH_TAGGED, 5), wild);
	EXPECT_EQ(match->recvs, 3u);
	match_recv_remove(match.get(), wild);
	for (int i = 0; i < 3; i++)
		EXPECT_EQ(match_message_take(match.get(), 1, MATCH_TAGGED, 5), first);
	EXPECT_EQ(match->recvs, 2u);
}

TEST_F(Match, match_message_find__leaves_the_message)
{
	match_recv *any = make(MATCH_SOURCE_ANY, 0, ignore_all, MATCH_TAGGED, 0);
	match_recv *exact = make(2, 6, 0, MATCH_TAGGED, 0);

	EXPECT_EQ(match_message_find(match.get(), any), nullptr);
	match_message *first = keep(1, 5);
	match_message *second = keep(2, 6);

	for (int i = 0; i < 2; i++) {
		EXPECT_EQ(match_message_find(match.get(), any), first);
		EXPECT_EQ(match_message_find(match.get(), exact), second);
	}
	EXPECT_EQ(match->messages, 2u);
	EXPECT_EQ(match->recvs, 0u);
	EXPECT_FALSE(any->posted);
}

TEST_F(Match, match_message_take__finds_nothing_in_other_source_tag_or_space)
{
	post(1, 5);
	post(MATCH_SOURCE_ANY, 0xf0, 0x0f);
	EXPECT_EQ(take(2, 5), nullptr);
	EXPECT_EQ(take(1, 6), nullptr);
	EXPECT_EQ(take(1, 5, MATCH_UNTAGGED), nullptr);
	EXPECT_EQ(take(1, 0xf3, MATCH_UNTAGGED), nullptr);
	EXPECT_EQ(match->recvs, 2u);
}

TEST_F(Match, match_message_take__takes_equal_receives_in_order_of_posting)
{
	match_recv *first = post(1, 5);
	match_recv *second = post(1, 5);
	match_recv *third = post(1, 5);

	EXPECT_EQ(take(1, 5), first);
	EXPECT_EQ(take(1, 5), second);
	EXPECT_EQ(take(1, 5), third);
	EXPECT_EQ(take(1, 5), nullptr);
}

TEST_F(Match, match_message_take__older_wildcard_wins_over_exact)
{
	match_recv *wild = post(MATCH_SOURCE_ANY, 5);
	match_recv *exact = post(1, 5);

	EXPECT_EQ(take(1, 5), wild);
	EXPECT_EQ(take(1, 5), exact);
}

TEST_F(Match, match_message_take__older_exact_wins_over_wildcard)
{
	match_recv *exact = post(1, 5);
	match_recv *wild = post(1, 0, ignore_all);

	EXPECT_EQ(take(1, 5), exact);
	EXPECT_EQ(take(1, 5), wild);
}

TEST_F(Match, match_message_take__older_wildcard_that_does_not_fit_is_passed_over)
{
	match_recv *other = post(2, 0, ignore_all);
	match_recv *first = post(MATCH_SOURCE_ANY, 5);
	match_recv *exact = post(1, 5);
	match_recv *last = post(MATCH_SOURCE_ANY, 5);

	EXPECT_EQ(take(1, 5), first);
	EXPECT_EQ(take(1, 5), exact);
	EXPECT_EQ(take(1, 5), last);
	EXPECT_EQ(take(2, 5), other);
}

TEST_F(Match, match_message_take__second_of_equal_receives_keeps_its_age)
{
	match_recv *first = post(1, 5);
	match_recv *wild = post(MATCH_SOURCE_ANY, 5);
	match_recv *second = post(1, 5);

	EXPECT_EQ(take(1, 5), first);
	EXPECT_EQ(take(1, 5), wild);
	EXPECT_EQ(take(1, 5), second);
}

TEST_F(Match, match_message_take__spaces_have_wildcards_of_their_own)
{
	match_recv *untagged = post(MATCH_SOURCE_ANY, 0, 0, MATCH_UNTAGGED);
	match_recv *tagged = post(MATCH_SOURCE_ANY, 0, 0, MATCH_TAGGED);

	EXPECT_EQ(take(1, 0, MATCH_TAGGED), tagged);
	EXPECT_EQ(take(1, 0, MATCH_TAGGED), nullptr);
	EXPECT_EQ(take(1, 0, MATCH_UNTAGGED), untagged);
}

TEST_F(Match, match_message_keep__never_lets_a_later_one_of_its_source_overtake)
{
	match_message *a = keep(1, 5);
	match_message *b = keep(1, 6);
	match_message *c = keep(1, 5);

	EXPECT_EQ(receive(MATCH_SOURCE_ANY, 5), a);
	EXPECT_EQ(receive(1, 4, 3), b);
	EXPECT_EQ(receive(1, 5), c);
}

TEST_F(Match, match_recv_remove__head_middle_and_tail_of_equal_ones)
{
	match_recv *recv[5];

	for (match_recv *&r : recv)
		r = post(1, 5);
	match_recv_remove(match.get(), recv[0]);
	match_recv_remove(match.get(), recv[2]);
	match_recv_remove(match.get(), recv[4]);
	EXPECT_FALSE(recv[0]->posted);
	EXPECT_EQ(match->recvs, 2u);

	match_recv *last = post(1, 5);

	EXPECT_EQ(take(1, 5), recv[1]);
	EXPECT_EQ(take(1, 5), recv[3]);
	EXPECT_EQ(take(1, 5), last);
	EXPECT_EQ(take(1, 5), nullptr);
}

TEST_F(Match, match_recv_remove__wildcard)
{
	match_recv *first = post(MATCH_SOURCE_ANY, 5);
	match_recv *second = post(MATCH_SOURCE_ANY, 5);

	match_recv_remove(match.get(), first);
	EXPECT_EQ(take(1, 5), second);
	EXPECT_EQ(take(1, 5), nullptr);
}

TEST_F(Match, match_recv_remove__can_be_posted_again_as_the_youngest)
{
	match_recv *first = post(1, 5);
	match_recv *second = post(1, 5);

	match_recv_remove(match.get(), first);
	EXPECT_EQ(match_recv_post(match.get(), first), nullptr);
	EXPECT_EQ(take(1, 5), second);
	EXPECT_EQ(take(1, 5), first);
}

TEST_F(Match, match_message_remove__head_middle_and_tail_of_equal_ones)
{
	match_message *message[5];

	for (match_message *&m : message)
		m = keep(1, 5);
	match_message_remove(match.get(), message[0]);
	match_message_remove(match.get(), message[2]);
	match_message_remove(match.get(), message[4]);
	EXPECT_FALSE(message[0]->waiting);
	EXPECT_EQ(match->messages, 2u);
	EXPECT_EQ(receive(1, 5), message[1]);
	EXPECT_EQ(receive(1, 0, ignore_all), message[3]);
	EXPECT_EQ(receive(1, 5), nullptr);
}

TEST_F(Match, match_cancel_all__takes_all_with_the_cookie_in_order)
{
	std::vector<match_recv *> mine;
	LIST_HEAD(cancelled);

	for (u64 i = 0; i < 30; i++) {
		u64 ignore = i % 5 == 0 ? 3 : 0;
		match_recv *recv = post(1 + i % 2, i % 4, ignore, MATCH_TAGGED, i % 3);

		if (i % 3 == 1)
			mine.push_back(recv);
	}
	EXPECT_EQ(match_cancel_all(match.get(), 1, &cancelled), mine.size());
	for (match_recv *expected : mine) {
		match_recv *recv = list_first_entry(&cancelled, match_recv, links.all);

		EXPECT_EQ(recv, expected);
		EXPECT_FALSE(recv->posted);
		list_del(&recv->links.all);
	}
	EXPECT_TRUE(list_empty(&cancelled));
	EXPECT_EQ(match->recvs, 20u);
	EXPECT_EQ(match_cancel_all(match.get(), 1, &cancelled), 0u);
}

TEST_F(Match, match_recv_first__tears_down_both_kinds)
{
	post(1, 5);
	post(MATCH_SOURCE_ANY, 5, 0, MATCH_UNTAGGED);
	for (int i = 0; i < 2; i++) {
		match_recv *recv = match_recv_first(match.get());

		ASSERT_NE(recv, nullptr);
		match_recv_remove(match.get(), recv);
	}
	EXPECT_EQ(match_recv_first(match.get()), nullptr);
}

TEST_F(Match, match_message_first__tears_down_both_spaces)
{
	keep(1, 5, MATCH_UNTAGGED);
	keep(1, 5, MATCH_TAGGED);
	for (int i = 0; i < 2; i++) {
		match_message *message = match_message_first(match.get());

		ASSERT_NE(message, nullptr);
		match_message_remove(match.get(), message);
	}
	EXPECT_EQ(match_message_first(match.get()), nullptr);
}

// There is no end of receives, but there was of 32 bits.
TEST_F(Match, match_message_take__order_of_more_than_32_bits)
{
	match->order = 0xffffffff;

	match_recv *wild = post(MATCH_SOURCE_ANY, 5);
	match_recv *exact = post(1, 5);
	match_recv *last = post(1, 4, 1);

	EXPECT_EQ(match->order, 0x100000002u);
	EXPECT_EQ(take(1, 5), wild);
	EXPECT_EQ(take(1, 5), exact);
	EXPECT_EQ(take(1, 5), last);
}

TEST(MatchProperty, behaves_as_the_model__over_many_histories)
{
	const char *only = std::getenv("MATCH_SEED");
	u64 first = only ? std::strtoull(only, nullptr, 0) : 1;
	u64 last = only ? first : 2000;

	for (u64 seed = first; seed <= last; seed++) {
		std::mt19937_64 random(seed);
		History history([&random](u64 n) { return random() % n; });

		try {
			for (int i = 0; i < 400; i++)
				history.step();
			history.drain();
		} catch (const Broken &broken) {
			FAIL() << "MATCH_SEED=" << seed << ": " << broken.what();
		}
	}
}
