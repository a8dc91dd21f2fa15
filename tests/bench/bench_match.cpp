// SPDX-License-Identifier: GPL-2.0-only
/*
 * What matching costs while the lists are empty, and while 10,000 receives are posted or 10,000
 * messages wait. Each step leaves the table as it was, so that the time is that of one round: a
 * receive posted and taken by a message, or a message kept and taken by a receive.
 */
#include <memory>
#include <vector>

#include <benchmark/benchmark.h>

extern "C" {
#include "match.h"
}

namespace
{

constexpr u64 ignore_all = ~0ull;
constexpr u64 other_tag = 1ull << 40;

/* Which tags those in the way have. */
enum class Tags { all_different, all_equal };

class Table
{
public:
	Table() : match_(std::make_unique<struct match>())
	{
		match_init(match_.get(), 0x5eed);
	}

	operator struct match *()
	{
		return match_.get();
	}

	void post_many(size_t count, Tags tags, u64 ignore = 0)
	{
		recvs_.resize(count);
		for (size_t i = 0; i < count; i++) {
			recvs_[i].source = 1;
			recvs_[i].tag = tags == Tags::all_different ? i : 0;
			recvs_[i].ignore = ignore;
			match_recv_post(match_.get(), &recvs_[i]);
		}
	}

	void keep_many(size_t count, Tags tags)
	{
		messages_.resize(count);
		for (size_t i = 0; i < count; i++) {
			messages_[i].source = 1;
			messages_[i].tag = tags == Tags::all_different ? i : 0;
			match_message_keep(match_.get(), &messages_[i]);
		}
	}

private:
	std::unique_ptr<struct match> match_;
	std::vector<match_recv> recvs_;
	std::vector<match_message> messages_;
};

/* A receive is posted behind the others, and its message arrives. */
void recv_round(benchmark::State &state, Table &table, u32 source, u64 tag, u64 ignore)
{
	match_recv recv{};

	while (state.KeepRunning()) {
		recv.source = source;
		recv.tag = tag;
		recv.ignore = ignore;
		match_recv_post(table, &recv);
		benchmark::DoNotOptimize(match_message_take(table, 1, MATCH_TAGGED, tag));
	}
}

/* A message arrives unexpected, behind the others, and its receive is posted. */
void message_round(benchmark::State &state, Table &table, u32 source, u64 tag, u64 ignore)
{
	match_recv recv{};
	match_message message{};

	while (state.KeepRunning()) {
		message.source = 1;
		message.tag = tag;
		benchmark::DoNotOptimize(match_message_take(table, 1, MATCH_TAGGED, tag));
		match_message_keep(table, &message);
		recv.source = source;
		recv.tag = tag;
		recv.ignore = ignore;
		benchmark::DoNotOptimize(match_recv_post(table, &recv));
	}
}

void recv_exact(benchmark::State &state, size_t posted, Tags tags)
{
	Table table;

	table.post_many(posted, tags);
	recv_round(state, table, 1, other_tag, 0);
}
BENCHMARK_CAPTURE(recv_exact, alone, 0, Tags::all_equal);
BENCHMARK_CAPTURE(recv_exact, behind_10000_different_tags, 10000, Tags::all_different);
BENCHMARK_CAPTURE(recv_exact, behind_10000_of_another_tag, 10000, Tags::all_equal);

/* The oldest of many: it is taken from the head and posted again at the tail, 10,000 times over. */
void recv_exact_head(benchmark::State &state, size_t posted, Tags tags)
{
	Table table;
	u64 tag = 0;

	table.post_many(posted, tags);
	while (state.KeepRunning()) {
		match_recv_post(table, match_message_take(table, 1, MATCH_TAGGED, tag));
		if (tags == Tags::all_different)
			tag = tag + 1 == posted ? 0 : tag + 1;
	}
}
BENCHMARK_CAPTURE(recv_exact_head, of_10000_different_tags, 10000, Tags::all_different);
BENCHMARK_CAPTURE(recv_exact_head, of_10000_equal_tags, 10000, Tags::all_equal);

/* The worst case, which is linear: every older wildcard has to be looked at. */
void recv_behind_wildcards(benchmark::State &state, size_t posted)
{
	Table table;

	table.post_many(posted, Tags::all_different, 1ull << 63);
	recv_round(state, table, 1, other_tag, 0);
}
BENCHMARK_CAPTURE(recv_behind_wildcards, 10, 10);
BENCHMARK_CAPTURE(recv_behind_wildcards, 10000, 10000);

void recv_any_source(benchmark::State &state, size_t posted)
{
	Table table;

	table.post_many(posted, Tags::all_different);
	recv_round(state, table, MATCH_SOURCE_ANY, other_tag, 0);
}
BENCHMARK_CAPTURE(recv_any_source, alone, 0);
BENCHMARK_CAPTURE(recv_any_source, behind_10000_exact, 10000);

void message_exact(benchmark::State &state, size_t waiting, Tags tags)
{
	Table table;

	table.keep_many(waiting, tags);
	message_round(state, table, 1, other_tag, 0);
}
BENCHMARK_CAPTURE(message_exact, alone, 0, Tags::all_equal);
BENCHMARK_CAPTURE(message_exact, behind_10000_different_tags, 10000, Tags::all_different);
BENCHMARK_CAPTURE(message_exact, behind_10000_of_another_tag, 10000, Tags::all_equal);

/* The oldest of many: its receive is posted, and it comes again, the youngest now. */
void message_exact_head(benchmark::State &state, size_t waiting, Tags tags)
{
	Table table;
	match_recv recv{};

	table.keep_many(waiting, tags);
	recv.source = 1;
	while (state.KeepRunning()) {
		match_message_keep(table, match_recv_post(table, &recv));
		if (tags == Tags::all_different)
			recv.tag = recv.tag + 1 == waiting ? 0 : recv.tag + 1;
	}
}
BENCHMARK_CAPTURE(message_exact_head, of_10000_different_tags, 10000, Tags::all_different);
BENCHMARK_CAPTURE(message_exact_head, of_10000_equal_tags, 10000, Tags::all_equal);

/* A wildcard that fits the oldest, and (linear) one that fits only the youngest. */
void message_any(benchmark::State &state, size_t waiting)
{
	Table table;
	match_recv recv{};

	table.keep_many(waiting, Tags::all_different);
	recv.source = MATCH_SOURCE_ANY;
	recv.ignore = ignore_all;
	while (state.KeepRunning())
		match_message_keep(table, match_recv_post(table, &recv));
}
BENCHMARK_CAPTURE(message_any, oldest_of_10000, 10000);

void message_any_source(benchmark::State &state, size_t waiting)
{
	Table table;

	table.keep_many(waiting, Tags::all_different);
	message_round(state, table, MATCH_SOURCE_ANY, other_tag, 0);
}
BENCHMARK_CAPTURE(message_any_source, alone, 0);
BENCHMARK_CAPTURE(message_any_source, youngest_of_10000, 10000);

void cancel_all(benchmark::State &state, size_t posted)
{
	Table table;

	table.post_many(posted, Tags::all_different);
	while (state.KeepRunning()) {
		LIST_HEAD(cancelled);
		match_recv *recv, *next;

		match_cancel_all(table, 0, &cancelled);
		list_for_each_entry_safe(recv, next, &cancelled, links.all) match_recv_post(table, recv);
	}
	state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(posted));
}
BENCHMARK_CAPTURE(cancel_all, 10000, 10000);

} // namespace
