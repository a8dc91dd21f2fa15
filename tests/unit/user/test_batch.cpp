// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// user/tools/perf/batch.hpp: what is not accepted stays, in order.
#include <cerrno>
#include <vector>

#include <gtest/gtest.h>

#include "batch.hpp"

using perf::Batch;

static ibrelk::Command numbered(std::uint64_t number)
{
	ibrelk::Command command{};

	command.user_data = number;
	return command;
}

TEST(batch, limits)
{
	EXPECT_FALSE(Batch(0).full());
	EXPECT_FALSE(Batch(1000).full());

	Batch one(0);

	one.push(numbered(1));
	EXPECT_TRUE(one.full());
}

TEST(batch, keeps_what_is_refused)
{
	Batch batch(8);
	std::vector<std::uint64_t> seen;
	std::uint32_t accept = 3;
	auto submit = [&](std::span<const ibrelk::Command> commands) -> ibrelk::result<std::uint32_t> {
		auto taken = std::min<std::uint32_t>(accept, static_cast<std::uint32_t>(commands.size()));

		for (const auto &command : commands.first(taken))
			seen.push_back(command.user_data);
		return taken;
	};

	for (std::uint64_t i = 0; i < 8; i++)
		batch.push(numbered(i));
	EXPECT_TRUE(batch.full());
	EXPECT_EQ(*batch.flush(submit), 3u);
	EXPECT_EQ(batch.size(), 5u);
	batch.push(numbered(8));
	accept = 0;
	EXPECT_EQ(*batch.flush(submit), 0u);
	accept = 100;
	EXPECT_EQ(*batch.flush(submit), 6u);
	EXPECT_EQ(batch.size(), 0u);
	EXPECT_EQ(seen, (std::vector<std::uint64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8}));
}

TEST(batch, empty_is_not_submitted)
{
	Batch batch(8);
	bool called = false;

	EXPECT_EQ(*batch.flush([&](auto) -> ibrelk::result<std::uint32_t> {
		called = true;
		return 0u;
	}),
		0u);
	EXPECT_FALSE(called);
}

TEST(batch, an_error_leaves_everything)
{
	Batch batch(8);

	batch.push(numbered(1));
	EXPECT_EQ(batch.flush([](auto) -> ibrelk::result<std::uint32_t> {
			       return ibrelk::failure(EINVAL);
		       }).error(),
		EINVAL);
	EXPECT_EQ(batch.size(), 1u);
	batch.clear();
	EXPECT_EQ(batch.size(), 0u);
}

// Two that send each other more than either takes would else wait for each other for ever: a send that is
// refused waits for the peer to receive, and his receives would wait behind such a send.
TEST(batch, receives_pass_what_is_refused)
{
	Batch batch(2);
	std::vector<std::uint64_t> seen;
	auto no_sends = [&](std::span<const ibrelk::Command> commands) -> ibrelk::result<std::uint32_t> {
		std::uint32_t taken = 0;

		for (; taken < commands.size() && commands[taken].opcode == IBRELK_OP_RECV; taken++)
			seen.push_back(commands[taken].user_data);
		return taken;
	};
	const auto push = [&](std::uint8_t opcode, std::uint64_t number) {
		ibrelk::Command command = numbered(number);

		command.opcode = opcode;
		batch.push(command);
	};

	push(IBRELK_OP_SEND, 0);
	EXPECT_EQ(*batch.flush(no_sends), 0u);
	EXPECT_FALSE(batch.receives_first());
	push(IBRELK_OP_SEND, 1);
	EXPECT_TRUE(batch.full());
	/* There is room for them all the same. */
	EXPECT_FALSE(batch.full_of_receives());
	push(IBRELK_OP_RECV, 2);
	push(IBRELK_OP_RECV, 3);
	EXPECT_TRUE(batch.full_of_receives());
	EXPECT_EQ(*batch.flush(no_sends), 0u);
	EXPECT_TRUE(batch.receives_first());
	EXPECT_FALSE(batch.receives_first());
	EXPECT_EQ(*batch.flush(no_sends), 2u);
	EXPECT_EQ(seen, (std::vector<std::uint64_t>{2, 3}));
	EXPECT_FALSE(batch.receives_first());
	EXPECT_FALSE(batch.full_of_receives());
	EXPECT_EQ(batch.size(), 2u);
	/* Each kind stays in order. */
	auto all = [&](std::span<const ibrelk::Command> commands) -> ibrelk::result<std::uint32_t> {
		for (const auto &command : commands)
			seen.push_back(command.user_data);
		return static_cast<std::uint32_t>(commands.size());
	};
	EXPECT_EQ(*batch.flush(all), 2u);
	EXPECT_EQ(seen, (std::vector<std::uint64_t>{2, 3, 0, 1}));
}
