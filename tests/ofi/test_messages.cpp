// SPDX-License-Identifier: GPL-2.0-only
//
// Messages, with tags and without, by every function that sends or receives one. Every byte is compared.
#include "side.hpp"

#include <array>
#include <cstdlib>
#include <string>
#include <vector>

namespace ofi
{

namespace
{

// Both kinds of messages by the same names.
class Messages : public ::testing::TestWithParam<bool>
{
protected:
	static bool tagged()
	{
		return GetParam();
	}
	static std::uint64_t space()
	{
		return tagged() ? FI_TAGGED : FI_MSG;
	}

	static ssize_t try_recv(Side &side, void *buffer, std::size_t bytes, void *context,
		std::uint64_t tag = 0, fi_addr_t from = FI_ADDR_UNSPEC)
	{
		return tagged() ? fi_trecv(side.ep.get(), buffer, bytes, nullptr, from, tag, 0, context)
				: fi_recv(side.ep.get(), buffer, bytes, nullptr, from, context);
	}
	static void recv(Side &side, void *buffer, std::size_t bytes, void *context, std::uint64_t tag = 0,
		fi_addr_t from = FI_ADDR_UNSPEC)
	{
		Side::post([&] { return try_recv(side, buffer, bytes, context, tag, from); });
	}
	static void send(Side &side, const void *buffer, std::size_t bytes, fi_addr_t to, void *context,
		std::uint64_t tag = 0)
	{
		Side::post([&] {
			return tagged() ? fi_tsend(side.ep.get(), buffer, bytes, nullptr, to, tag, context)
					: fi_send(side.ep.get(), buffer, bytes, nullptr, to, context);
		});
	}
	static void inject(
		Side &side, const void *buffer, std::size_t bytes, fi_addr_t to, std::uint64_t tag = 0)
	{
		Side::post([&] {
			return tagged() ? fi_tinject(side.ep.get(), buffer, bytes, to, tag)
					: fi_inject(side.ep.get(), buffer, bytes, to);
		});
	}
	// Of the other kind, which no receive of this one takes.
	static void recv_other(Side &side, void *buffer, std::size_t bytes, void *context)
	{
		Side::post([&] {
			return tagged()
				? fi_recv(side.ep.get(), buffer, bytes, nullptr, FI_ADDR_UNSPEC, context)
				: fi_trecv(side.ep.get(), buffer, bytes, nullptr, FI_ADDR_UNSPEC, 0, 0,
					  context);
		});
	}
	static void inject_other(Side &side, const void *buffer, std::size_t bytes, fi_addr_t to)
	{
		Side::post([&] {
			return tagged() ? fi_inject(side.ep.get(), buffer, bytes, to)
					: fi_tinject(side.ep.get(), buffer, bytes, to, 0);
		});
	}
	// Knows another side by node and service only, whichever life that has.
	static fi_addr_t add_by_service(const Side &side, const Side &peer)
	{
		const std::vector<unsigned char> name = peer.name();
		std::array<char, 80> text{};
		std::size_t letters = text.size();
		fi_addr_t index = FI_ADDR_NOTAVAIL;

		/* address:number#life */
		fi_av_straddr(side.av.get(), name.data(), text.data(), &letters);

		const std::string whole = text.data();
		const auto colon = whole.rfind(':');
		const std::string number = whole.substr(colon + 1, whole.find('#') - colon - 1);
		/* Both may be at ports of their own. */
		const bool together = std::equal(name.begin(), name.begin() + 16, side.name().begin());
		const std::string node = together ? "127.0.0.1" : whole.substr(0, colon);

		EXPECT_EQ(fi_av_insertsvc(side.av.get(), node.c_str(), number.c_str(), &index, 0, nullptr), 1)
			<< whole;
		return index;
	}
	// By fi_(t)sendmsg() and fi_(t)recvmsg().
	static ssize_t sendmsg(Side &side, std::vector<iovec> pieces, fi_addr_t to, void *context,
		std::uint64_t flags, std::uint64_t data = 0, std::uint64_t tag = 0)
	{
		if (!tagged()) {
			const fi_msg message{.msg_iov = pieces.data(),
				.desc = nullptr,
				.iov_count = pieces.size(),
				.addr = to,
				.context = context,
				.data = data};

			return fi_sendmsg(side.ep.get(), &message, flags);
		}

		const fi_msg_tagged message{.msg_iov = pieces.data(),
			.desc = nullptr,
			.iov_count = pieces.size(),
			.addr = to,
			.tag = tag,
			.ignore = 0,
			.context = context,
			.data = data};

		return fi_tsendmsg(side.ep.get(), &message, flags);
	}
	static ssize_t recvmsg(Side &side, std::vector<iovec> pieces, void *context, std::uint64_t flags,
		std::uint64_t tag = 0)
	{
		if (!tagged()) {
			const fi_msg message{.msg_iov = pieces.data(),
				.desc = nullptr,
				.iov_count = pieces.size(),
				.addr = FI_ADDR_UNSPEC,
				.context = context,
				.data = 0};

			return fi_recvmsg(side.ep.get(), &message, flags);
		}

		const fi_msg_tagged message{.msg_iov = pieces.data(),
			.desc = nullptr,
			.iov_count = pieces.size(),
			.addr = FI_ADDR_UNSPEC,
			.tag = tag,
			.ignore = 0,
			.context = context,
			.data = 0};

		return fi_trecvmsg(side.ep.get(), &message, flags);
	}
};

// From nothing to a rendezvous in several windows, expected and not.
TEST_P(Messages, of_all_lengths)
{
	Pair pair;
	int sending = 0;
	int receiving = 0;
	unsigned seed = 1;

	for (const std::size_t bytes : {0UL, 1UL, 8UL, 4096UL, 8192UL, 8193UL, 65536UL, 1UL << 20}) {
		for (const bool expected : {true, false}) {
			const auto message = pattern(bytes, ++seed);
			std::vector<unsigned char> buffer(bytes + 1, 0xee);

			SCOPED_TRACE(std::to_string(bytes) + (expected ? " expected" : " unexpected"));
			if (expected)
				recv(pair.b, buffer.data(), bytes, &receiving, bytes);
			send(pair.a, message.data(), bytes, pair.to_b, &sending, bytes);
			if (!expected)
				recv(pair.b, buffer.data(), bytes, &receiving, bytes);

			const auto received = pair.b.done(&receiving);

			EXPECT_EQ(received.len, bytes);
			EXPECT_EQ(received.flags, FI_RECV | space());
			EXPECT_EQ(received.tag, tagged() ? bytes : 0);
			EXPECT_EQ(pair.a.done(&sending).flags, FI_SEND | space());
			EXPECT_TRUE(std::equal(message.begin(), message.end(), buffer.begin()));
			EXPECT_EQ(buffer.back(), 0xee);
		}
	}
}

// The buffer may be used again at once, and nobody is told.
TEST_P(Messages, injected)
{
	Pair pair;
	const std::size_t longest = pair.a.info->tx_attr->inject_size;
	auto message = pattern(longest, 3);
	const auto as_sent = message;
	std::vector<unsigned char> buffer(longest);
	int receiving = 0;

	inject(pair.a, message.data(), longest, pair.to_b, 5);
	std::fill(message.begin(), message.end(), 0);
	recv(pair.b, buffer.data(), longest, &receiving, 5);
	EXPECT_EQ(pair.b.done(&receiving).len, longest);
	EXPECT_EQ(buffer, as_sent);
	EXPECT_EQ(pair.a.look().result, -FI_EAGAIN);

	message.resize(longest + 1);
	EXPECT_EQ(tagged() ? fi_tinject(pair.a.ep.get(), message.data(), message.size(), pair.to_b, 5)
			   : fi_inject(pair.a.ep.get(), message.data(), message.size(), pair.to_b),
		-FI_EMSGSIZE);
}

TEST_P(Messages, with_data)
{
	Pair pair;
	constexpr std::uint64_t data = 0xfedcba9876543210U;
	char buffer = 0;
	int sending = 0;
	int receiving = 0;

	for (const bool injected : {false, true}) {
		recv(pair.b, &buffer, 1, &receiving, 7);
		Side::post([&] {
			fid_ep *ep = pair.a.ep.get();

			if (injected)
				return tagged() ? fi_tinjectdata(ep, "i", 1, data, pair.to_b, 7)
						: fi_injectdata(ep, "i", 1, data, pair.to_b);
			return tagged() ? fi_tsenddata(ep, "s", 1, nullptr, data, pair.to_b, 7, &sending)
					: fi_senddata(ep, "s", 1, nullptr, data, pair.to_b, &sending);
		});

		const auto received = pair.b.done(&receiving);

		EXPECT_EQ(received.flags, FI_RECV | space() | FI_REMOTE_CQ_DATA);
		EXPECT_EQ(received.data, data);
		EXPECT_EQ(buffer, injected ? 'i' : 's');
		if (!injected)
			pair.a.done(&sending);
	}
}

TEST_P(Messages, in_pieces)
{
	Pair pair;

	for (const std::size_t bytes : {3000UL, 100000UL}) {
		const auto message = pattern(bytes, 9);
		std::vector<unsigned char> buffer(bytes);
		auto *from = const_cast<unsigned char *>(message.data());
		const std::size_t a = bytes / 3;
		const std::size_t b = bytes / 7;
		int sending = 0;
		int receiving = 0;
		const std::vector<iovec> sent = {{from, a}, {from + a, 0}, {from + a, bytes - a}};
		const std::vector<iovec> received = {{buffer.data(), b}, {buffer.data() + b, bytes - b}};

		Side::post([&] {
			return tagged() ? fi_trecvv(pair.b.ep.get(), received.data(), nullptr,
						  received.size(), FI_ADDR_UNSPEC, 2, 0, &receiving)
					: fi_recvv(pair.b.ep.get(), received.data(), nullptr, received.size(),
						  FI_ADDR_UNSPEC, &receiving);
		});
		Side::post([&] {
			return tagged() ? fi_tsendv(pair.a.ep.get(), sent.data(), nullptr, sent.size(),
						  pair.to_b, 2, &sending)
					: fi_sendv(pair.a.ep.get(), sent.data(), nullptr, sent.size(),
						  pair.to_b, &sending);
		});
		EXPECT_EQ(pair.b.done(&receiving).len, bytes);
		pair.a.done(&sending);
		EXPECT_EQ(buffer, message);
	}
}

// 64, also of an endpoint that was told of less.
TEST_P(Messages, in_as_many_pieces_as_there_can_be)
{
	Pair pair;
	auto message = pattern(10000, 12);
	std::vector<unsigned char> buffer(message.size());
	int sending = 0;
	int receiving = 0;

	Side::post([&] { return recvmsg(pair.b, pieces_of(buffer, 64), &receiving, 0); });
	Side::post([&] { return sendmsg(pair.a, pieces_of(message, 64), pair.to_b, &sending, 0); });
	EXPECT_EQ(pair.b.done(&receiving).len, message.size());
	pair.a.done(&sending);
	EXPECT_EQ(buffer, message);
	EXPECT_EQ(sendmsg(pair.a, pieces_of(message, 65), pair.to_b, nullptr, 0), -FI_EINVAL);
	EXPECT_EQ(recvmsg(pair.b, pieces_of(buffer, 65), nullptr, 0), -FI_EINVAL);
}

TEST_P(Messages, by_description)
{
	Pair pair;
	auto message = pattern(500, 11);
	std::vector<unsigned char> buffer(500);
	int sending = 0;
	int receiving = 0;

	Side::post([&] { return recvmsg(pair.b, {{buffer.data(), buffer.size()}}, &receiving, 0, 3); });
	Side::post([&] {
		return sendmsg(pair.a, {{message.data(), message.size()}}, pair.to_b, &sending,
			FI_REMOTE_CQ_DATA | FI_INJECT, 99, 3);
	});

	// FI_INJECT: the buffer may be used again, but the send is reported.
	const auto as_sent = message;

	std::fill(message.begin(), message.end(), 0);
	EXPECT_EQ(pair.b.done(&receiving).data, 99U);
	EXPECT_EQ(buffer, as_sent);
	pair.a.done(&sending);
	EXPECT_EQ(sendmsg(pair.a, {}, pair.to_b, &sending, FI_FENCE), -FI_EBADFLAGS);
}

// One after the other, whatever their length.
TEST_P(Messages, in_order)
{
	Pair pair;
	constexpr int count = 60;
	std::vector<std::vector<unsigned char>> sent;
	std::vector<std::vector<unsigned char>> received(count);
	std::vector<int> contexts(count);

	for (int i = 0; i < count; i++) {
		const std::size_t bytes = i % 5 == 0 ? 20000 : static_cast<std::size_t>(i) * 10;

		sent.push_back(pattern(bytes, static_cast<unsigned>(i)));
		received[static_cast<std::size_t>(i)].resize(20000);
	}
	for (std::size_t i = 0; i < count; i++) {
		send(pair.a, sent[i].data(), sent[i].size(), pair.to_b, &contexts[i], 1);
		recv(pair.b, received[i].data(), 20000, &contexts[i], 1);
	}
	for (int i = 0; i < count; i++) {
		const Told told = pair.b.next();

		ASSERT_EQ(told.result, 1);
		const auto which =
			static_cast<std::size_t>(static_cast<int *>(told.entry.op_context) - contexts.data());

		ASSERT_LT(which, static_cast<std::size_t>(count));
		received[which].resize(told.entry.len);
	}
	for (int i = 0; i < count; i++)
		EXPECT_EQ(pair.a.next().result, 1);
	EXPECT_EQ(received, sent);
}

TEST_P(Messages, too_long_are_cut)
{
	for (const std::size_t bytes : {1000UL, 100000UL}) {
		Pair pair;
		const auto message = pattern(bytes, 4);
		std::vector<unsigned char> buffer(400, 0xee);
		int sending = 0;
		int receiving = 0;

		recv(pair.b, buffer.data(), 300, &receiving, 6);
		send(pair.a, message.data(), bytes, pair.to_b, &sending, 6);

		const auto error = pair.b.failed(&receiving, FI_ETRUNC);

		EXPECT_EQ(error.len, 300U);
		EXPECT_EQ(error.olen, bytes - 300);
		EXPECT_EQ(error.flags & (FI_RECV | space()), FI_RECV | space());
		EXPECT_EQ(error.tag, tagged() ? 6U : 0U);
		EXPECT_TRUE(std::equal(message.begin(), message.begin() + 300, buffer.begin()));
		EXPECT_EQ(buffer[300], 0xee);
		pair.a.done(&sending);

		std::array<char, 200> text{};

		EXPECT_NE(std::string(fi_cq_strerror(pair.b.cq.get(), error.prov_errno, error.err_data,
					      text.data(), text.size()))
				  .find("longer than the receive buffer"),
			std::string::npos);
	}
}

// A receive that names its source takes nobody else's message, and each message has a source.
TEST_P(Messages, from_whom)
{
	Pair pair;
	Side third;
	const fi_addr_t to_b = third.add(pair.b);
	const fi_addr_t to_third = pair.b.add(third);
	char from_third = 0;
	char from_a = 0;

	recv(pair.b, &from_third, 1, &from_third, 1, to_third);
	inject(pair.a, "a", 1, pair.to_b, 1);
	recv(pair.b, &from_a, 1, &from_a, 1, pair.to_a);

	Told told = pair.b.next();

	EXPECT_EQ(told.entry.op_context, &from_a);
	EXPECT_EQ(told.source, pair.to_a);
	inject(third, "t", 1, to_b, 1);
	told = pair.b.next();
	EXPECT_EQ(told.entry.op_context, &from_third);
	EXPECT_EQ(told.source, to_third);
	EXPECT_EQ(from_a, 'a');
	EXPECT_EQ(from_third, 't');
}

// A peer that was found by its service, and is then known by its name: what comes is from the name, also what
// is awaited, and a name of this node leads to the port that the peer is known by.
TEST_P(Messages, from_whom_by_service_and_by_name)
{
	Side a;
	Side b;
	const fi_addr_t to_b = a.add(b);
	fi_addr_t by_service = add_by_service(b, a);
	char got = 0;

	inject(b, "s", 1, by_service, 1);
	recv(a, &got, 1, &got, 1, FI_ADDR_UNSPEC);
	EXPECT_EQ(a.next().entry.op_context, &got);
	EXPECT_EQ(got, 's');
	inject(a, "1", 1, to_b, 2);
	recv(b, &got, 1, &got, 2, by_service);
	Told told = b.next();
	EXPECT_EQ(told.entry.op_context, &got);
	EXPECT_EQ(told.source, by_service);
	EXPECT_EQ(got, '1');

	/* The entry is replaced. */
	ASSERT_EQ(fi_av_remove(b.av.get(), &by_service, 1, 0), 0);
	const fi_addr_t by_name = b.add(a);
	recv(b, &got, 1, &got, 3, FI_ADDR_UNSPEC);
	inject(a, "2", 1, to_b, 3);
	told = b.next();
	EXPECT_EQ(told.source, by_name);
	EXPECT_EQ(got, '2');
}

// Who is known by his name as well as by his service before anything comes from him is taken for the name.
TEST_P(Messages, from_whom_of_two_addresses_of_one)
{
	Side a;
	Side b;
	const fi_addr_t to_b = a.add(b);
	const fi_addr_t by_service = add_by_service(b, a);
	const fi_addr_t by_name = b.add(a);
	char got[2] = {};

	/* Both are peers of the endpoint by now. */
	recv(b, &got[0], 1, &got[0], 1, by_service);
	recv(b, &got[1], 1, &got[1], 1, by_name);
	inject(a, "x", 1, to_b, 1);

	const Told told = b.next();

	EXPECT_EQ(told.entry.op_context, &got[1]);
	EXPECT_EQ(told.source, by_name);
	EXPECT_EQ(got[1], 'x');
}

// Who is not in the address vector has no address; afterwards he has.
TEST_P(Messages, from_a_stranger)
{
	Side a;
	Side b;
	const fi_addr_t to_b = a.add(b);
	char buffer = 0;

	for (int i = 0; i < 2; i++) {
		recv(b, &buffer, 1, &buffer);
		inject(a, "1", 1, to_b);
		EXPECT_EQ(b.next().source, FI_ADDR_NOTAVAIL);
	}

	const fi_addr_t to_a = b.add(a);

	recv(b, &buffer, 1, &buffer);
	inject(a, "2", 1, to_b);
	EXPECT_EQ(b.next().source, to_a);
	EXPECT_EQ(buffer, '2');
}

// One receive of several with the same context, and only a receive.
TEST_P(Messages, cancelled)
{
	Pair pair;
	char first = 0;
	char second = 0;
	int context = 0;
	int other = 0;

	EXPECT_EQ(fi_cancel(&pair.b.ep->fid, &context), -FI_ENOENT);
	recv(pair.b, &first, 1, &context, 1);
	recv(pair.b, &second, 1, &context, 1);
	recv(pair.b, &second, 1, &other, 2);
	EXPECT_EQ(fi_cancel(&pair.b.ep->fid, &context), 0);
	pair.b.failed(&context, FI_ECANCELED);
	EXPECT_EQ(pair.b.look().result, -FI_EAGAIN);
	inject(pair.a, "x", 1, pair.to_b, 1);

	const auto until = std::chrono::steady_clock::now() + patience;

	while (*const_cast<volatile char *>(&second) != 'x' && *const_cast<volatile char *>(&first) != 'x' &&
		std::chrono::steady_clock::now() < until)
		std::this_thread::yield();
	// It is complete, although nobody has been told yet.
	EXPECT_EQ(fi_cancel(&pair.b.ep->fid, &context), -FI_ENOENT);
	EXPECT_EQ(pair.b.done(&context).len, 1U);
	EXPECT_EQ(first + second, 'x');
}

// Who waits for what was cancelled would wait in vain for a receive that a message has taken, and is still
// coming.
TEST_P(Messages, too_late_to_be_cancelled)
{
	Pair pair;
	std::vector<char> from(std::size_t{16} << 20, 'x');
	std::vector<char> to(from.size());
	char other = 0;
	int sending = 0;
	int context = 0;

	recv(pair.b, to.data(), to.size(), &context, 1);
	recv(pair.b, &other, 1, &context, 1);
	send(pair.a, from.data(), from.size(), pair.to_b, &sending, 1);

	const auto until = std::chrono::steady_clock::now() + patience;

	while (*const_cast<volatile char *>(to.data()) != 'x' && std::chrono::steady_clock::now() < until)
		std::this_thread::yield();
	EXPECT_EQ(fi_cancel(&pair.b.ep->fid, &context), 0) << "the other one is still there";
	EXPECT_EQ(fi_cancel(&pair.b.ep->fid, &context), -FI_ENOENT);

	// On a slow node the message may have been quicker.
	const std::array<Told, 2> ends{pair.b.next(), pair.b.next()};
	const bool quicker = ends[0].result == 1;
	const Told &arrived = ends[quicker ? 0 : 1];
	const Told &cancelled = ends[quicker ? 1 : 0];

	EXPECT_EQ(arrived.result, 1);
	EXPECT_EQ(arrived.entry.op_context, &context);
	EXPECT_EQ(arrived.entry.len, from.size());
	EXPECT_EQ(to, from);
	EXPECT_EQ(cancelled.result, -FI_EAVAIL);
	EXPECT_EQ(cancelled.error.err, FI_ECANCELED);
	EXPECT_EQ(cancelled.error.op_context, &context);
	pair.a.done(&sending);
}

// A send is complete when it is as far as its level says.
TEST_P(Messages, levels)
{
	for (const std::uint64_t level :
		{FI_INJECT_COMPLETE, FI_TRANSMIT_COMPLETE, FI_DELIVERY_COMPLETE, FI_MATCH_COMPLETE}) {
		Wish wish;

		wish.tx_flags = level;
		SCOPED_TRACE(fi_tostr(&level, FI_TYPE_OP_FLAGS));

		Pair pair(wish);
		char buffer = 0;
		int sending = 0;
		int receiving = 0;

		send(pair.a, "x", 1, pair.to_b, &sending, 1);
		if (level == FI_MATCH_COMPLETE) {
			// What is sent afterwards, if only of the other kind, is not here before the first
			// is.
			recv_other(pair.b, &buffer, 1, &receiving);
			inject_other(pair.a, "y", 1, pair.to_b);
			pair.b.done(&receiving);
			EXPECT_EQ(buffer, 'y');
			EXPECT_EQ(pair.a.look().result, -FI_EAGAIN);
		} else {
			pair.a.done(&sending);
		}
		recv(pair.b, &buffer, 1, &receiving, 1);
		pair.b.done(&receiving);
		EXPECT_EQ(buffer, 'x');
		if (level == FI_MATCH_COMPLETE)
			pair.a.done(&sending);
	}
}

// A long message goes from one process's memory to the other's while that looks at nothing, and while its own
// does not: neither side's part is left to a call.
TEST_P(Messages, a_long_one_needs_no_calls)
{
	Pair pair;
	constexpr std::size_t bytes = 1 << 20;
	std::vector<unsigned char> message = pattern(bytes, 1);
	std::vector<unsigned char> buffer(bytes);
	int sending = 0;
	int receiving = 0;

	recv(pair.b, buffer.data(), bytes, &receiving, 1);
	Side::post([&] {
		return sendmsg(
			pair.a, {{message.data(), bytes}}, pair.to_b, &sending, FI_DELIVERY_COMPLETE, 0, 1);
	});
	pair.a.done(&sending);
	EXPECT_EQ(buffer, message);
	pair.b.done(&receiving);

	message = pattern(bytes, 2);
	recv(pair.b, buffer.data(), bytes, &receiving, 1);
	send(pair.a, message.data(), bytes, pair.to_b, &sending, 1);
	pair.b.done(&receiving);
	EXPECT_EQ(buffer, message);
	pair.a.done(&sending);
}

// The wire is cut for as long as this is there. A command, which gets the percentage that is to be lost, does
// it.
class Cut
{
public:
	explicit Cut(std::string command) : command_(std::move(command))
	{
		lose(100);
	}
	~Cut()
	{
		lose(1);
	}
	Cut(const Cut &) = delete;
	Cut &operator=(const Cut &) = delete;

private:
	void lose(int percent) const
	{
		EXPECT_EQ(std::system((command_ + " " + std::to_string(percent)).c_str()), 0);
	}

	const std::string command_;
};

class CutWire : public ::testing::TestWithParam<std::string>
{
protected:
	static void send(const Pair &pair, const char &byte, void *context, std::uint64_t flags)
	{
		const iovec piece{const_cast<char *>(&byte), 1};
		const fi_msg message{.msg_iov = &piece,
			.desc = nullptr,
			.iov_count = 1,
			.addr = pair.to_b,
			.context = context,
			.data = 0};

		Side::post([&] { return fi_sendmsg(pair.a.ep.get(), &message, flags); });
	}
	static void receive(Pair &pair, char &byte)
	{
		Side::post(
			[&] { return fi_recv(pair.b.ep.get(), &byte, 1, nullptr, FI_ADDR_UNSPEC, &byte); });
		pair.b.done(&byte);
	}
};

// What cannot arrive is copied, and not delivered.
TEST_P(CutWire, what_is_delivered_has_arrived)
{
	for (const std::uint64_t level : {FI_DELIVERY_COMPLETE, FI_TRANSMIT_COMPLETE}) {
		Pair pair;
		const std::array<char, 3> expected{'1', '2', '3'};
		std::array<char, 3> message = expected;
		std::array<char, 3> buffer{};
		std::array<int, 3> contexts{};

		SCOPED_TRACE(fi_tostr(&level, FI_TYPE_OP_FLAGS));
		// Now they have met.
		send(pair, message[0], &contexts[0], level);
		receive(pair, buffer[0]);
		pair.a.done(&contexts[0]);
		{
			const Cut cut(GetParam());

			send(pair, message[1], &contexts[1], level);
			send(pair, message[2], &contexts[2], FI_INJECT_COMPLETE);
			pair.a.done(&contexts[2]);
			// It may be used again.
			message[2] = 'x';
			EXPECT_EQ(pair.a.look().result, -FI_EAGAIN);
		}
		receive(pair, buffer[1]);
		receive(pair, buffer[2]);
		pair.a.done(&contexts[1]);
		EXPECT_EQ(buffer, expected);
	}
}

// OFI_SET_LOSS: the command, where there is a wire.
std::vector<std::string> commands()
{
	const char *command = std::getenv("OFI_SET_LOSS");

	return command ? std::vector<std::string>{command} : std::vector<std::string>();
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(CutWire);
INSTANTIATE_TEST_SUITE_P(
	Of, CutWire, ::testing::ValuesIn(commands()), [](const auto &) { return "Messages"; });

TEST_P(Messages, only_those_that_ask_are_reported)
{
	Wish wish;

	wish.bind_flags = FI_SELECTIVE_COMPLETION;

	Pair pair(wish);
	char first = 0;
	char second = 0;
	int sending = 0;
	int receiving = 0;

	recv(pair.b, &first, 1, &first, 1);
	Side::post([&] { return recvmsg(pair.b, {{&second, 1}}, &receiving, FI_COMPLETION, 1); });
	send(pair.a, "1", 1, pair.to_b, &first, 1);
	char two = '2';
	Side::post([&] { return sendmsg(pair.a, {{&two, 1}}, pair.to_b, &sending, FI_COMPLETION, 0, 1); });
	pair.b.done(&receiving);
	pair.a.done(&sending);
	EXPECT_EQ(first, '1');
	EXPECT_EQ(second, '2');
	EXPECT_EQ(pair.a.look().result, -FI_EAGAIN);
	EXPECT_EQ(pair.b.look().result, -FI_EAGAIN);
}

// Failures are reported even so, with the context.
TEST_P(Messages, failures_are_reported_always)
{
	Wish wish;

	wish.bind_flags = FI_SELECTIVE_COMPLETION;

	Side a(wish);
	int context = 0;
	fi_addr_t nobody = FI_ADDR_NOTAVAIL;

	{
		const Side gone(wish);

		nobody = a.add(gone);
	}
	send(a, "x", 1, nobody, &context, 1);

	const auto error = a.failed(&context, FI_ECONNREFUSED);

	EXPECT_EQ(error.flags & (FI_SEND | space()), FI_SEND | space());
}

// ... but what was injected has no context, and nobody is told of it but the log.
TEST_P(Messages, injections_that_fail_are_not_reported)
{
	for (const bool counters : {false, true}) {
		Wish wish;

		wish.counters = counters;

		Side a(wish);
		int context = 0;
		fi_addr_t nobody = FI_ADDR_NOTAVAIL;

		{
			const Side gone;

			nobody = a.add(gone);
		}
		inject(a, "x", 1, nobody, 1);
		inject(a, "y", 1, nobody, 1);
		// They fail in order.
		send(a, "z", 1, nobody, &context, 1);
		a.failed(&context, FI_ECONNREFUSED);
		EXPECT_EQ(a.look().result, -FI_EAGAIN);
		if (counters) {
			EXPECT_EQ(fi_cntr_readerr(a.sent.get()), 3U);
		}
	}
}

// Memory that is not there: what is sent from it is refused, what comes for it fails, and nobody waits.
TEST_P(Messages, of_memory_that_is_not_there)
{
	Pair pair;
	const std::size_t inject_size = pair.a.info->tx_attr->inject_size;
	fid_ep *ep = pair.a.ep.get();
	constexpr std::size_t most = 4 << 20;
	// Of a long message, when it is accepted: two pinned windows.
	constexpr std::size_t looked_at = 4 << 20;
	const Pages gone(most, PROT_NONE);

	for (const std::size_t bytes : {1UL, 4096UL, 8192UL, 8193UL, 65536UL, most}) {
		auto message = pattern(bytes, 21);
		std::vector<unsigned char> buffer(2 * bytes);
		int sending = 0;
		int receiving = 0;

		for (void *nowhere : {static_cast<void *>(nullptr), gone.data()}) {
			SCOPED_TRACE(std::to_string(bytes) + (nowhere ? " unmapped" : " at null"));
			EXPECT_EQ(tagged() ? fi_tsend(ep, nowhere, bytes, nullptr, pair.to_b, 1, &sending)
					   : fi_send(ep, nowhere, bytes, nullptr, pair.to_b, &sending),
				-FI_EFAULT);
			if (bytes <= inject_size) {
				EXPECT_EQ(tagged() ? fi_tinject(ep, nowhere, bytes, pair.to_b, 1)
						   : fi_inject(ep, nowhere, bytes, pair.to_b),
					-FI_EFAULT);
			}

			// Of a long message only the start is looked at.
			recv(pair.b, buffer.data(), buffer.size(), &receiving, 2);
			if (const ssize_t sent = sendmsg(pair.a, {{message.data(), bytes}, {nowhere, bytes}},
				    pair.to_b, &sending, FI_COMPLETION, 0, 2);
				sent != -FI_EFAULT) {
				ASSERT_EQ(sent, 0);
				EXPECT_GT(2 * bytes, looked_at);
				pair.a.failed(&sending, FI_EFAULT);
				pair.b.failed(&receiving, FI_EFAULT);
			} else {
				send(pair.a, message.data(), bytes, pair.to_b, &sending, 2);
				pair.a.done(&sending);
				pair.b.done(&receiving);
			}

			// A receive may be refused at once, but a short one's memory need not be there yet.
			if (const ssize_t posted = try_recv(pair.b, nowhere, bytes, &receiving, 2);
				posted != -FI_EFAULT) {
				ASSERT_EQ(posted, 0);
				send(pair.a, message.data(), bytes, pair.to_b, &sending, 2);
				pair.b.failed(&receiving, FI_EFAULT);
				pair.a.next();
			}

			// Nothing of all that is left, at either end.
			recv(pair.b, buffer.data(), bytes, &receiving, 3);
			send(pair.a, message.data(), bytes, pair.to_b, &sending, 3);
			EXPECT_EQ(pair.b.done(&receiving).len, bytes);
			pair.a.done(&sending);
			EXPECT_TRUE(std::equal(message.begin(), message.end(), buffer.begin()));
		}
	}
}

// The provider takes the key of the job from the environment: who has another one is refused.
TEST_P(Messages, of_another_job_are_refused)
{
	const char *variable = "FI_IBRELK_JOB_KEY";
	Side outside;

	ASSERT_EQ(::setenv(variable, "another job's", 1), 0);

	Pair pair;

	ASSERT_EQ(::unsetenv(variable), 0);

	char buffer = 0;
	int sending = 0;
	int receiving = 0;
	const fi_addr_t to_b = outside.add(pair.b);

	recv(pair.b, &buffer, 1, &receiving, 1);
	send(outside, "x", 1, to_b, &sending, 1);
	outside.failed(&sending, FI_EACCES);
	send(pair.a, "y", 1, pair.to_b, &sending, 1);
	pair.a.done(&sending);
	pair.b.done(&receiving);
	EXPECT_EQ(buffer, 'y');
}

// How many entries a completion queue has is a hint: as many are kept as can be under way.
TEST_P(Messages, more_at_once_than_the_queue_was_asked_to_hold)
{
	Wish wish;

	wish.queue_size = 1;

	Pair pair(wish);
	constexpr std::size_t count = 200;
	std::vector<int> sending(count);
	std::vector<int> receiving(count);
	std::vector<char> received(count);

	// Nobody looks at the queues before all of them are posted.
	for (std::size_t i = 0; i < count; i++)
		ASSERT_EQ(try_recv(pair.b, &received[i], 1, &receiving[i], 1), 0);
	for (std::size_t i = 0; i < count; i++) {
		const char byte = static_cast<char>(i);

		ASSERT_EQ(tagged() ? fi_tsend(pair.a.ep.get(), &byte, 1, nullptr, pair.to_b, 1, &sending[i])
				   : fi_send(pair.a.ep.get(), &byte, 1, nullptr, pair.to_b, &sending[i]),
			0);
	}
	for (std::size_t i = 0; i < count; i++) {
		pair.a.done(&sending[i]);
		pair.b.done(&receiving[i]);
		EXPECT_EQ(received[i], static_cast<char>(i));
	}
}

TEST_P(Messages, to_oneself)
{
	Side side;
	const fi_addr_t self = side.add(side);
	const auto message = pattern(50000, 2);
	std::vector<unsigned char> buffer(message.size());
	int sending = 0;
	int receiving = 0;

	recv(side, buffer.data(), buffer.size(), &receiving, 1);
	send(side, message.data(), message.size(), self, &sending, 1);

	std::array<void *, 2> told = {side.next().entry.op_context, side.next().entry.op_context};

	std::sort(told.begin(), told.end());

	std::array<void *, 2> wanted = {&sending, &receiving};

	std::sort(wanted.begin(), wanted.end());
	EXPECT_EQ(told, wanted);
	EXPECT_EQ(buffer, message);
}

// As many as are accepted: then there is -FI_EAGAIN, and after reading it goes on. None is lost.
TEST_P(Messages, more_than_fit)
{
	Pair pair;
	constexpr int count = 10000;
	std::vector<int> received;
	std::vector<int> buffers(count);
	int sent = 0;
	int posted = 0;
	bool full = false;
	const auto until = std::chrono::steady_clock::now() + patience;

	while (received.size() < count && std::chrono::steady_clock::now() < until) {
		if (sent < count) {
			const ssize_t result = tagged()
				? fi_tinject(pair.a.ep.get(), &sent, sizeof(sent), pair.to_b, 1)
				: fi_inject(pair.a.ep.get(), &sent, sizeof(sent), pair.to_b);

			ASSERT_TRUE(result == 0 || result == -FI_EAGAIN) << result;
			full = full || result == -FI_EAGAIN;
			if (result == 0) {
				sent++;
				continue;
			}
		}
		// Whoever is full of what was not received yet receives.
		for (int i = 0; i < 100 && posted < sent; i++, posted++) {
			int *buffer = &buffers[static_cast<std::size_t>(posted)];

			recv(pair.b, buffer, sizeof(*buffer), buffer, 1);
		}
		for (Told told = pair.b.look(); told.result == 1; told = pair.b.look())
			received.push_back(*static_cast<int *>(told.entry.op_context));
	}
	ASSERT_EQ(received.size(), static_cast<std::size_t>(count));
	EXPECT_TRUE(full);
	for (int i = 0; i < count; i++)
		EXPECT_EQ(buffers[static_cast<std::size_t>(i)], i);
}

INSTANTIATE_TEST_SUITE_P(Kinds, Messages, ::testing::Bool(),
	[](const auto &info) { return std::string(info.param ? "tagged" : "untagged"); });

// Open MPI tries again until there is room.
TEST(Tags, more_receives_than_are_kept)
{
	Pair pair;
	constexpr int most = 1 << 20;
	char buffer = 0;
	int posted = 0;
	const auto post = [&] {
		return fi_trecv(pair.b.ep.get(), &buffer, 1, nullptr, FI_ADDR_UNSPEC, 1, 0, &buffer);
	};
	ssize_t result = 0;

	while (posted < most && (result = post()) == 0)
		posted++;
	EXPECT_EQ(result, -FI_EAGAIN);
	EXPECT_GE(static_cast<std::size_t>(posted), pair.b.info->rx_attr->size);
	Side::post([&] { return fi_tinject(pair.a.ep.get(), "x", 1, pair.to_b, 1); });
	pair.b.done(&buffer);
	EXPECT_EQ(buffer, 'x');
	Side::post(post);
}

TEST(Tags, of_all_64_bits_but_those_that_are_ignored)
{
	Pair pair;
	constexpr std::uint64_t tag = 0x8000000000000001U;
	char exact = 0;
	char any_low = 0;

	Side::post([&] {
		return fi_trecv(pair.b.ep.get(), &exact, 1, nullptr, FI_ADDR_UNSPEC, tag, 0, &exact);
	});
	Side::post([&] {
		return fi_trecv(pair.b.ep.get(), &any_low, 1, nullptr, FI_ADDR_UNSPEC, tag, 0xffff, &any_low);
	});
	Side::post([&] { return fi_tinject(pair.a.ep.get(), "i", 1, pair.to_b, tag ^ 0x1234); });
	EXPECT_EQ(pair.b.done(&any_low).tag, tag ^ 0x1234);
	Side::post([&] { return fi_tinject(pair.a.ep.get(), "e", 1, pair.to_b, tag); });
	EXPECT_EQ(pair.b.done(&exact).tag, tag);
	EXPECT_EQ(exact, 'e');
	EXPECT_EQ(any_low, 'i');
}

TEST(Tags, are_nothing_to_messages_without)
{
	Pair pair;
	char tagged = 0;
	char plain = 0;

	Side::post([&] {
		return fi_trecv(pair.b.ep.get(), &tagged, 1, nullptr, FI_ADDR_UNSPEC, 0, ~0ULL, &tagged);
	});
	Side::post([&] { return fi_recv(pair.b.ep.get(), &plain, 1, nullptr, FI_ADDR_UNSPEC, &plain); });
	Side::post([&] { return fi_inject(pair.a.ep.get(), "p", 1, pair.to_b); });
	pair.b.done(&plain);
	Side::post([&] { return fi_tinject(pair.a.ep.get(), "t", 1, pair.to_b, 0); });
	pair.b.done(&tagged);
	EXPECT_EQ(plain, 'p');
	EXPECT_EQ(tagged, 't');
}

// Many messages in one buffer, until less than the minimum is left; then it is given back.
TEST(MultiReceive, fills_a_buffer)
{
	Pair pair;
	std::vector<unsigned char> buffer(4096);
	std::size_t minimum = 1000;
	std::size_t length = sizeof(minimum);
	int context = 0;

	EXPECT_EQ(
		fi_setopt(&pair.b.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &minimum, sizeof(minimum)),
		0);
	minimum = 0;
	EXPECT_EQ(fi_getopt(&pair.b.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &minimum, &length), 0);
	EXPECT_EQ(minimum, 1000U);

	const iovec piece{buffer.data(), buffer.size()};
	const fi_msg message{.msg_iov = &piece,
		.desc = nullptr,
		.iov_count = 1,
		.addr = FI_ADDR_UNSPEC,
		.context = &context,
		.data = 0};

	Side::post([&] { return fi_recvmsg(pair.b.ep.get(), &message, FI_MULTI_RECV); });

	std::size_t taken = 0;
	unsigned seed = 0;
	bool released = false;

	while (!released && seed < 10) {
		const auto sent = pattern(900 + seed, seed);

		seed++;

		Side::post([&] { return fi_inject(pair.a.ep.get(), sent.data(), sent.size(), pair.to_b); });

		const auto told = pair.b.done(&context);

		ASSERT_EQ(told.flags, FI_RECV | FI_MSG);
		const auto *at = static_cast<unsigned char *>(told.buf);

		ASSERT_GE(at, buffer.data() + taken);
		ASSERT_LE(at + told.len, buffer.data() + buffer.size());
		EXPECT_EQ(std::vector<unsigned char>(at, at + told.len), sent);
		taken = static_cast<std::size_t>(at - buffer.data()) + told.len;
		if (buffer.size() - taken < minimum) {
			// The buffer is given back by an entry of its own, of no message.
			EXPECT_EQ(pair.b.done(&context).flags, FI_MULTI_RECV);
			released = true;
		}
	}
	EXPECT_TRUE(released);
	EXPECT_EQ(seed, 4U);
}

// As many as fit, however short they are.
TEST(MultiReceive, takes_many_short_messages)
{
	for (const std::size_t bytes : {8U, 16U, 32U, 64U}) {
		Pair pair;
		constexpr std::size_t count = 16;
		std::vector<unsigned char> buffer(count * bytes);
		const auto sent = pattern(bytes, 1);
		const iovec piece{buffer.data(), buffer.size()};
		const fi_msg message{.msg_iov = &piece,
			.desc = nullptr,
			.iov_count = 1,
			.addr = FI_ADDR_UNSPEC,
			.context = &buffer,
			.data = 0};

		SCOPED_TRACE(bytes);
		EXPECT_EQ(fi_setopt(&pair.b.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &bytes,
				  sizeof(bytes)),
			0);
		Side::post([&] { return fi_recvmsg(pair.b.ep.get(), &message, FI_MULTI_RECV); });
		for (std::size_t i = 0; i < count; i++) {
			Side::post([&] { return fi_inject(pair.a.ep.get(), sent.data(), bytes, pair.to_b); });

			const auto told = pair.b.done(&buffer);

			ASSERT_EQ(told.flags, FI_RECV | FI_MSG) << "after " << i;
			EXPECT_EQ(told.buf, buffer.data() + i * bytes);
		}
		EXPECT_EQ(pair.b.done(&buffer).flags, FI_MULTI_RECV);
	}
}

// What they reserve leaves the application as many receives as it was promised.
TEST(MultiReceive, leave_room_for_others)
{
	const Side side;
	constexpr std::size_t buffers = 32;
	const std::size_t receives = side.info->rx_attr->size;
	std::vector<unsigned char> buffer(65536);
	char byte = 0;

	for (std::size_t i = 0; i < buffers; i++) {
		const iovec piece{buffer.data(), buffer.size()};
		const fi_msg message{.msg_iov = &piece,
			.desc = nullptr,
			.iov_count = 1,
			.addr = FI_ADDR_UNSPEC,
			.context = &buffer,
			.data = 0};

		ASSERT_EQ(fi_recvmsg(side.ep.get(), &message, FI_MULTI_RECV), 0);
	}
	for (std::size_t i = 0; i < receives; i++)
		ASSERT_EQ(fi_trecv(side.ep.get(), &byte, 1, nullptr, FI_ADDR_UNSPEC, 1, 0, &byte), 0) << i;
}

// That its buffer is given back is told of in any case.
TEST(MultiReceive, gives_its_buffer_back)
{
	Wish wish;

	wish.bind_flags = FI_SELECTIVE_COMPLETION;

	Pair pair(wish);
	std::array<char, 100> buffer{};
	const iovec piece{buffer.data(), buffer.size()};
	const fi_msg message{.msg_iov = &piece,
		.desc = nullptr,
		.iov_count = 1,
		.addr = FI_ADDR_UNSPEC,
		.context = &buffer,
		.data = 0};

	Side::post([&] { return fi_recvmsg(pair.b.ep.get(), &message, FI_MULTI_RECV); });
	Side::post([&] { return fi_inject(pair.a.ep.get(), buffer.data(), 50, pair.to_b); });
	EXPECT_EQ(pair.b.done(&buffer).flags, FI_MULTI_RECV);
	EXPECT_EQ(pair.b.look().result, -FI_EAGAIN);
}

// They are of messages without tags.
TEST(MultiReceive, have_no_tags)
{
	Wish wish;

	wish.caps = FI_MSG | FI_TAGGED | FI_MULTI_RECV;
	wish.rx_flags = FI_MULTI_RECV;

	Pair pair(wish);
	std::array<char, 4> buffer{};
	const iovec piece{buffer.data(), buffer.size()};
	const fi_msg_tagged message{.msg_iov = &piece,
		.desc = nullptr,
		.iov_count = 1,
		.addr = FI_ADDR_UNSPEC,
		.tag = 1,
		.ignore = 0,
		.context = &buffer,
		.data = 0};

	EXPECT_EQ(fi_trecvmsg(pair.b.ep.get(), &message, FI_MULTI_RECV), -FI_EBADFLAGS);
	// That all receives are such is not meant of these.
	Side::post([&] {
		return fi_trecv(pair.b.ep.get(), buffer.data(), 4, nullptr, FI_ADDR_UNSPEC, 1, 0, &buffer);
	});
	Side::post([&] { return fi_tinject(pair.a.ep.get(), "tag", 4, pair.to_b, 1); });

	const auto told = pair.b.done(&buffer);

	EXPECT_EQ(told.flags, FI_RECV | FI_TAGGED);
	EXPECT_EQ(told.len, 4U);
	EXPECT_EQ(pair.b.look().result, -FI_EAGAIN);
}

TEST(MultiReceive, cancelled)
{
	Side side;
	std::vector<unsigned char> buffer(4096);
	int context = 0;
	const iovec piece{buffer.data(), buffer.size()};
	const fi_msg message{.msg_iov = &piece,
		.desc = nullptr,
		.iov_count = 1,
		.addr = FI_ADDR_UNSPEC,
		.context = &context,
		.data = 0};

	Side::post([&] { return fi_recvmsg(side.ep.get(), &message, FI_MULTI_RECV); });
	EXPECT_EQ(fi_cancel(&side.ep->fid, &context), 0);
	EXPECT_TRUE(side.failed(&context, FI_ECANCELED).flags & FI_MULTI_RECV);
}

} // namespace

} // namespace ofi
