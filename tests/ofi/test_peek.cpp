// SPDX-License-Identifier: GPL-2.0-only
//
// Messages that wait: looked at, claimed, thrown away.
#include "side.hpp"

namespace ofi
{

namespace
{

class Peek : public ::testing::Test
{
protected:
	explicit Peek(const Wish &wish = {}) : pair(wish)
	{
	}

	void send(std::size_t bytes, std::uint64_t tag, std::uint64_t data)
	{
		const auto message = pattern(bytes, static_cast<unsigned>(tag));

		Side::post([&] {
			return fi_tinjectdata(pair.a.ep.get(), message.data(), bytes, data, pair.to_b, tag);
		});
		wait_for(tag);
	}
	// A peek finds what has arrived, so one is repeated until it has.
	void wait_for(std::uint64_t tag)
	{
		int context = 0;
		const auto until = std::chrono::steady_clock::now() + patience;
		Told told;

		do {
			Side::post([&] { return operation(FI_PEEK, tag, &context); });
			told = pair.b.next();
		} while (told.result == -FI_EAVAIL && told.error.err == FI_ENOMSG &&
			std::chrono::steady_clock::now() < until);
		ASSERT_EQ(told.result, 1);
	}
	ssize_t operation(std::uint64_t flags, std::uint64_t tag, void *context,
		std::vector<iovec> pieces = {}, fi_addr_t from = FI_ADDR_UNSPEC)
	{
		const fi_msg_tagged message{.msg_iov = pieces.data(),
			.desc = nullptr,
			.iov_count = pieces.size(),
			.addr = from,
			.tag = tag,
			.ignore = 0,
			.context = context,
			.data = 0};

		return fi_trecvmsg(pair.b.ep.get(), &message, flags);
	}

	Pair pair;
};

// On a queue that reports only those that ask for it.
class SelectivePeek : public Peek
{
protected:
	SelectivePeek() : Peek(wish())
	{
	}

private:
	static Wish wish()
	{
		Wish wish;

		wish.bind_flags = FI_SELECTIVE_COMPLETION;
		return wish;
	}
};

TEST_F(Peek, nothing)
{
	fi_context context{};

	for (const std::uint64_t flags : {FI_PEEK, FI_PEEK | FI_CLAIM, FI_PEEK | FI_DISCARD}) {
		Side::post([&] { return operation(flags, 1, &context); });

		const auto error = pair.b.failed(&context, FI_ENOMSG);

		EXPECT_TRUE(error.flags & FI_TAGGED);
	}
}

TEST_F(Peek, describes_the_message_and_leaves_it)
{
	fi_context context{};
	std::vector<unsigned char> buffer(300);

	send(300, 1, 4711);
	for (int i = 0; i < 2; i++) {
		Side::post([&] { return operation(FI_PEEK, 1, &context); });

		const Told told = pair.b.next();

		ASSERT_EQ(told.result, 1);
		EXPECT_EQ(told.entry.op_context, &context);
		EXPECT_EQ(told.entry.len, 300U);
		EXPECT_EQ(told.entry.tag, 1U);
		EXPECT_EQ(told.entry.data, 4711U);
		EXPECT_EQ(told.entry.flags, FI_RECV | FI_TAGGED | FI_REMOTE_CQ_DATA);
		EXPECT_EQ(told.source, pair.to_a);
		EXPECT_EQ(told.entry.buf, nullptr);
	}
	Side::post([&] {
		return fi_trecv(pair.b.ep.get(), buffer.data(), 300, nullptr, pair.to_a, 1, 0, &context);
	});
	EXPECT_EQ(pair.b.done(&context).len, 300U);
	EXPECT_EQ(buffer, pattern(300, 1));
}

// The context alone says which message: the second of Open MPI's two calls has address 0 and no tag.
TEST_F(Peek, claimed_messages_are_received_by_their_context)
{
	fi_context first{};
	fi_context second{};
	std::vector<unsigned char> buffer(400);
	int context = 0;

	send(300, 1, 0);
	Side::post([&] { return operation(FI_PEEK | FI_CLAIM, 1, &first); });
	EXPECT_EQ(pair.b.done(&first).len, 300U);
	send(400, 1, 0);
	Side::post([&] { return operation(FI_PEEK | FI_CLAIM, 1, &second); });
	EXPECT_EQ(pair.b.done(&second).len, 400U);

	// Nobody else sees them now.
	Side::post([&] { return operation(FI_PEEK, 1, &context); });
	pair.b.failed(&context, FI_ENOMSG);

	Side::post([&] { return operation(FI_CLAIM, 0, &second, {{buffer.data(), 400}}, 0); });
	EXPECT_EQ(pair.b.done(&second).len, 400U);
	EXPECT_EQ(buffer, pattern(400, 1));
	Side::post([&] { return operation(FI_CLAIM, 0, &first, {{buffer.data(), 300}}, 0); });
	EXPECT_EQ(pair.b.done(&first).len, 300U);
	buffer.resize(300);
	EXPECT_EQ(buffer, pattern(300, 1));
}

TEST_F(Peek, discarded_messages_are_gone)
{
	fi_context context{};
	char byte = 0;

	// At once, and after a claim.
	send(1, 1, 0);
	Side::post([&] { return operation(FI_PEEK | FI_DISCARD, 1, &context); });
	EXPECT_EQ(pair.b.done(&context).len, 1U);
	send(1, 1, 1);
	Side::post([&] { return operation(FI_PEEK | FI_CLAIM, 1, &context); });
	EXPECT_EQ(pair.b.done(&context).data, 1U);
	// The context says which message, which the completion tells.
	Side::post([&] { return operation(FI_CLAIM | FI_DISCARD, 0, &context); });

	const fi_cq_tagged_entry discarded = pair.b.done(&context);

	EXPECT_EQ(discarded.tag, 1U);
	EXPECT_EQ(discarded.len, 1U);

	send(1, 1, 2);
	Side::post(
		[&] { return fi_trecv(pair.b.ep.get(), &byte, 1, nullptr, FI_ADDR_UNSPEC, 1, 0, &context); });
	EXPECT_EQ(pair.b.done(&context).data, 2U);
}

// What they find out is all that they are for. (A receive of what was claimed is one like any other.)
TEST_F(SelectivePeek, is_reported_without_being_asked_for)
{
	fi_context context{};
	std::array<unsigned char, 2> buffer{};

	send(1, 1, 0);
	Side::post([&] { return operation(FI_PEEK | FI_DISCARD, 1, &context); });
	EXPECT_EQ(pair.b.done(&context).len, 1U);
	send(2, 2, 0);
	Side::post([&] { return operation(FI_PEEK | FI_CLAIM, 2, &context); });
	EXPECT_EQ(pair.b.done(&context).len, 2U);
	Side::post([&] { return operation(FI_CLAIM | FI_DISCARD, 0, &context); });
	EXPECT_EQ(pair.b.done(&context).len, 2U);
	send(2, 3, 0);
	Side::post([&] { return operation(FI_PEEK | FI_CLAIM, 3, &context); });
	EXPECT_EQ(pair.b.done(&context).len, 2U);
	Side::post([&] { return operation(FI_CLAIM, 0, &context, {{buffer.data(), 2}}); });
	// It is complete when there is another one.
	Side::post([&] { return operation(FI_PEEK, 3, &buffer); });
	pair.b.failed(&buffer, FI_ENOMSG);
	EXPECT_EQ(pair.b.look().result, -FI_EAGAIN);
}

} // namespace

} // namespace ofi
