// SPDX-License-Identifier: GPL-2.0-only
/*
 * A history of one match table, beside a model too simple to be wrong. Whoever runs it draws what happens:
 * from a seed (test_match.cpp), or from what a fuzzer makes up (tests/fuzz/match.cpp). Where table and model
 * differ, Broken is thrown.
 */

#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "broken.hpp"

extern "C" {
#include "match.h"
}

constexpr u64 ignore_all = ~0ull;

inline size_t chain_max(const hlist_head *buckets)
{
	size_t longest = 0;

	for (size_t i = 0; i < MATCH_BUCKETS; i++) {
		size_t length = 0;

		for (const hlist_node *node = buckets[i].first; node; node = node->next)
			length++;
		longest = std::max(longest, length);
	}
	return longest;
}

/*
 * The model: two vectors in order of age, searched from the start, and the definition of fitting written out
 * once more. Entries are named by index, so that nothing of match.c is trusted.
 */
struct model_recv {
	size_t id;
	u64 tag, ignore, cookie;
	u32 source;
	u8 space;
	bool stays;
};

struct model_message {
	size_t id;
	u64 tag;
	u32 source;
	u8 space;
};

inline bool model_fits(const model_recv &recv, u32 source, u8 space, u64 tag)
{
	if (recv.space != space)
		return false;
	if (recv.source != MATCH_SOURCE_ANY && recv.source != source)
		return false;
	return (recv.tag | recv.ignore) == (tag | recv.ignore);
}

class History
{
public:
	/* Draws one of 0 to n - 1. */
	using Draw = std::function<u64(u64 n)>;

	explicit History(Draw draws) : draw_of(std::move(draws))
	{
		match_init(match.get(), draw_of(1ull << 32));
		sources = 1 + draw(4);
		tags = 1 + draw(6);
		any_source_pct = draw(60);
		wild_tag_pct = draw(60);
		arrive_pct = 30 + draw(40);
		remove_pct = draw(20);
		tag_shift = static_cast<int>(draw(60));
	}

	void step()
	{
		if (chance(remove_pct)) {
			switch (draw(3)) {
			case 0: remove_recv(); break;
			case 1: remove_message(); break;
			default:
				if (chance(20))
					cancel_all();
				break;
			}
		} else if (chance(arrive_pct)) {
			arrive();
		} else {
			post();
		}
		require(match->recvs == model_recvs.size(), "the number of receives is right");
		require(match->messages == model_messages.size(), "the number of messages is right");
	}

	/* Takes all that is left out, in the way of a teardown. */
	void drain()
	{
		size_t left = model_recvs.size();

		while (match_recv *recv = match_recv_first(match.get())) {
			require(left-- > 0, "there are no more receives than were posted");
			match_recv_remove(match.get(), recv);
			forget(*recv);
		}
		require(left == 0, "every receive can be found");
		left = model_messages.size();
		while (match_message *message = match_message_first(match.get())) {
			require(left-- > 0, "there are no more messages than were kept");
			match_message_remove(match.get(), message);
			forget(*message);
		}
		require(left == 0, "every message can be found");
		require(chain_max(match->recv_hash) == 0, "no receive is left in the hash");
		require(chain_max(match->message_hash) == 0, "no message is left in the hash");
	}

private:
	u32 draw(u64 n)
	{
		return static_cast<u32>(draw_of(n));
	}
	bool chance(u64 pct)
	{
		return draw_of(100) < pct;
	}
	u32 any_of_sources()
	{
		return draw(sources) * 7;
	}
	u64 any_of_tags()
	{
		return static_cast<u64>(draw(tags)) << tag_shift;
	}
	u8 any_of_spaces()
	{
		return chance(15) ? MATCH_UNTAGGED : MATCH_TAGGED;
	}

	void post()
	{
		size_t id = recvs.size();
		auto recv = std::make_unique<match_recv>();

		recv->source = chance(any_source_pct) ? MATCH_SOURCE_ANY : any_of_sources();
		recv->tag = any_of_tags();
		recv->ignore = chance(wild_tag_pct) ? (chance(50) ? ignore_all : any_of_tags()) : 0;
		recv->space = any_of_spaces();
		recv->cookie = draw(5);
		recv->stays = chance(15);

		model_recv wanted{
			id, recv->tag, recv->ignore, recv->cookie, recv->source, recv->space, recv->stays};
		auto oldest = std::ranges::find_if(model_messages,
			[&](const model_message &m) { return model_fits(wanted, m.source, m.space, m.tag); });
		match_message *seen = match_message_find(match.get(), recv.get());

		require(seen == (oldest == model_messages.end() ? nullptr : messages[oldest->id].get()),
			"who only looks sees the oldest that fits");
		require(!seen || seen->waiting, "what is only looked at goes on waiting");
		/* Now and then that was all. */
		if (chance(10))
			return;

		match_message *message = match_recv_post(match.get(), recv.get());

		if (oldest == model_messages.end()) {
			require(!message, "a receive takes no message that does not fit");
			require(recv->posted, "a receive without a message is posted");
			model_recvs.push_back(wanted);
		} else {
			require(message == messages[oldest->id].get(),
				"a receive takes the oldest that fits");
			require(!recv->posted, "a receive with a message is not posted");
			require(!message->waiting, "a message that was taken does not wait");
			forget(*message);
			model_messages.erase(oldest);
		}
		recvs.push_back(std::move(recv));
	}

	void arrive()
	{
		size_t id = messages.size();
		model_message arrived{id, any_of_tags(), any_of_sources(), any_of_spaces()};
		auto oldest = std::ranges::find_if(model_recvs, [&](const model_recv &r) {
			return model_fits(r, arrived.source, arrived.space, arrived.tag);
		});
		match_recv *recv =
			match_message_take(match.get(), arrived.source, arrived.space, arrived.tag);

		if (oldest != model_recvs.end()) {
			require(recv == recvs[oldest->id].get(), "a message takes the oldest that fits");
			require(recv->posted == oldest->stays,
				"a receive that was taken is posted only if it stays");
			if (oldest->stays)
				return;
			forget(*recv);
			model_recvs.erase(oldest);
			return;
		}
		require(!recv, "a message takes no receive that does not fit");
		/* Now and then the owner has no memory to keep it; the table must not mind. */
		if (chance(10))
			return;

		auto message = std::make_unique<match_message>();

		message->source = arrived.source;
		message->tag = arrived.tag;
		message->space = arrived.space;
		match_message_keep(match.get(), message.get());
		require(message->waiting, "a message that is kept waits");
		model_messages.push_back(arrived);
		messages.push_back(std::move(message));
	}

	void remove_recv()
	{
		if (model_recvs.empty())
			return;
		auto chosen = model_recvs.begin() + draw(model_recvs.size());
		match_recv *recv = recvs[chosen->id].get();

		match_recv_remove(match.get(), recv);
		require(!recv->posted, "a receive that was removed is not posted");
		forget(*recv);
		model_recvs.erase(chosen);
	}

	void remove_message()
	{
		if (model_messages.empty())
			return;
		auto chosen = model_messages.begin() + draw(model_messages.size());
		match_message *message = messages[chosen->id].get();

		match_message_remove(match.get(), message);
		require(!message->waiting, "a message that was removed does not wait");
		forget(*message);
		model_messages.erase(chosen);
	}

	void cancel_all()
	{
		u64 cookie = draw(6);
		LIST_HEAD(cancelled);
		u32 count = match_cancel_all(match.get(), cookie, &cancelled);

		for (; count; count--) {
			auto oldest = std::ranges::find(model_recvs, cookie, &model_recv::cookie);

			require(oldest != model_recvs.end(), "no more is cancelled than has the cookie");
			require(!list_empty(&cancelled), "as many are cancelled as it says");
			match_recv *recv = list_first_entry(&cancelled, match_recv, links.all);
			require(recv == recvs[oldest->id].get(), "receives are cancelled in their order");
			require(!recv->posted, "a cancelled receive is not posted");
			list_del(&recv->links.all);
			forget(*recv);
			model_recvs.erase(oldest);
		}
		require(list_empty(&cancelled), "no more are cancelled than it says");
		require(std::ranges::find(model_recvs, cookie, &model_recv::cookie) == model_recvs.end(),
			"all with the cookie are cancelled");
	}

	/* Frees what was taken out, so that the sanitizer sees a table that still points to it. */
	void forget(match_recv &gone)
	{
		for (auto &recv : recvs)
			if (recv.get() == &gone)
				recv.reset();
	}

	void forget(match_message &gone)
	{
		for (auto &message : messages)
			if (message.get() == &gone)
				message.reset();
	}

	Draw draw_of;
	u64 sources, tags, any_source_pct, wild_tag_pct, arrive_pct, remove_pct;
	int tag_shift;
	std::unique_ptr<struct match> match = std::make_unique<struct match>();
	std::vector<std::unique_ptr<match_recv>> recvs;
	std::vector<std::unique_ptr<match_message>> messages;
	std::vector<model_recv> model_recvs;
	std::vector<model_message> model_messages;
};
