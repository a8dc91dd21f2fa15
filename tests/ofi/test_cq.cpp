// SPDX-License-Identifier: GPL-2.0-only
//
// Completion queues: formats, waiting; counters; what cannot be closed or bound.
#include "side.hpp"

#include <atomic>
#include <thread>

#include <csignal>
#include <poll.h>
#include <rdma/fi_collective.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace
{

std::atomic<int> yields{0};

} // namespace

extern "C" int sched_yield() noexcept
{
	yields++;
	return static_cast<int>(syscall(SYS_sched_yield));
}

namespace ofi
{

namespace
{

using Clock = std::chrono::steady_clock;

void receive(Side &side, char *byte)
{
	Side::post([&] { return fi_trecv(side.ep.get(), byte, 1, nullptr, FI_ADDR_UNSPEC, 1, 0, byte); });
}

void inject(Pair &pair, std::uint64_t data = 0)
{
	Side::post([&] { return fi_tinjectdata(pair.a.ep.get(), "x", 1, data, pair.to_b, 1); });
}

// Who reads in vain keeps the processor from nobody for long; who finds something, or has just begun, does
// not wait.
TEST(Cq, who_reads_in_vain_gives_way)
{
	Pair pair;
	fi_cq_tagged_entry entry{};
	const auto read_in_vain = [&](int times) {
		for (int i = 0; i < times; i++)
			ASSERT_EQ(fi_cq_read(pair.b.cq.get(), &entry, 1), -FI_EAGAIN);
	};
	char byte = 0;

	yields = 0;
	read_in_vain(249);
	EXPECT_EQ(yields, 0);
	read_in_vain(1);
	EXPECT_EQ(yields, 1);
	read_in_vain(1000);
	EXPECT_EQ(yields, 5);

	read_in_vain(249);
	receive(pair.b, &byte);
	inject(pair);
	EXPECT_EQ(pair.b.next().result, 1);
	yields = 0;
	read_in_vain(249);
	EXPECT_EQ(yields, 0) << "it begins anew";
	read_in_vain(1);
	EXPECT_EQ(yields, 1);
}

TEST(Cq, formats)
{
	for (const fi_cq_format format : {FI_CQ_FORMAT_UNSPEC, FI_CQ_FORMAT_CONTEXT, FI_CQ_FORMAT_MSG,
		     FI_CQ_FORMAT_DATA, FI_CQ_FORMAT_TAGGED}) {
		Wish wish;

		wish.format = format;

		Pair pair(wish);
		std::array<char, 2> bytes{};
		// Behind the two entries nothing is written.
		union {
			std::array<unsigned char, 3 * sizeof(fi_cq_tagged_entry)> raw;
			std::array<fi_cq_entry, 3> context;
			std::array<fi_cq_msg_entry, 3> msg;
			std::array<fi_cq_data_entry, 3> data;
			std::array<fi_cq_tagged_entry, 3> tagged;
		} entries;
		std::size_t size = 0;
		std::size_t got = 0;

		entries.raw.fill(0xee);
		receive(pair.b, &bytes[0]);
		receive(pair.b, &bytes[1]);
		inject(pair, 10);
		inject(pair, 11);
		switch (format) {
		case FI_CQ_FORMAT_TAGGED: size = sizeof(fi_cq_tagged_entry); break;
		case FI_CQ_FORMAT_DATA: size = sizeof(fi_cq_data_entry); break;
		case FI_CQ_FORMAT_MSG: size = sizeof(fi_cq_msg_entry); break;
		default: size = sizeof(fi_cq_entry);
		}

		const auto until = Clock::now() + patience;

		while (got < 2 && Clock::now() < until) {
			const ssize_t count =
				fi_cq_read(pair.b.cq.get(), entries.raw.data() + got * size, 2 - got);

			ASSERT_TRUE(count > 0 || count == -FI_EAGAIN);
			got += count > 0 ? static_cast<std::size_t>(count) : 0;
		}
		ASSERT_EQ(got, 2U);
		EXPECT_EQ(entries.raw[2 * size], 0xee);
		for (std::size_t i = 0; i < 2; i++) {
			fi_cq_tagged_entry entry{};

			std::memcpy(&entry, entries.raw.data() + i * size, size);
			EXPECT_EQ(entry.op_context, &bytes[i]);
			if (size >= sizeof(fi_cq_msg_entry)) {
				EXPECT_EQ(entry.flags, FI_RECV | FI_TAGGED | FI_REMOTE_CQ_DATA);
				EXPECT_EQ(entry.len, 1U);
			}
			if (size >= sizeof(fi_cq_data_entry)) {
				EXPECT_EQ(entry.data, 10 + i);
			}
			if (size == sizeof(fi_cq_tagged_entry)) {
				EXPECT_EQ(entry.tag, 1U);
			}
		}
	}
}

// An error is reported in its place, and stays until it is read.
TEST(Cq, errors_in_their_place)
{
	Pair pair;
	std::array<fi_cq_tagged_entry, 8> entries{};
	fi_cq_err_entry error{};
	int context = 0;
	char byte = 0;

	receive(pair.b, &byte);
	inject(pair);

	const auto until = Clock::now() + patience;

	while (byte != 'x' && Clock::now() < until)
		std::this_thread::yield();
	Side::post([&] {
		return fi_trecv(pair.b.ep.get(), &context, 4, nullptr, FI_ADDR_UNSPEC, 9, 0, &context);
	});
	EXPECT_EQ(fi_cancel(&pair.b.ep->fid, &context), 0);
	EXPECT_EQ(pair.b.done(&byte).len, 1U);

	ssize_t result = -FI_EAGAIN;

	while (result == -FI_EAGAIN && Clock::now() < until)
		result = fi_cq_read(pair.b.cq.get(), entries.data(), entries.size());
	EXPECT_EQ(result, -FI_EAVAIL);
	EXPECT_EQ(fi_cq_read(pair.b.cq.get(), entries.data(), entries.size()), -FI_EAVAIL);
	// The buffer for more about the error is the caller's, and stays so.
	error.err_data = &context;
	error.err_data_size = sizeof(context);
	EXPECT_EQ(fi_cq_readerr(pair.b.cq.get(), &error, 0), 1);
	EXPECT_EQ(error.err, FI_ECANCELED);
	EXPECT_EQ(error.err_data, &context);
	EXPECT_EQ(error.err_data_size, 0U);
	EXPECT_EQ(fi_cq_readerr(pair.b.cq.get(), &error, 0), -FI_EAGAIN);
	EXPECT_EQ(fi_cq_read(pair.b.cq.get(), entries.data(), entries.size()), -FI_EAGAIN);
}

// They give no buffer for more, and know nothing of its size, the last member.
TEST(Cq, errors_of_old_applications_are_shorter)
{
	Wish wish;
	fi_cq_err_entry error{};
	int context = 0;

	wish.version = FI_VERSION(1, 4);

	const Side side(wish);

	Side::post([&] {
		return fi_trecv(side.ep.get(), &context, 4, nullptr, FI_ADDR_UNSPEC, 9, 0, &context);
	});
	EXPECT_EQ(fi_cancel(&side.ep->fid, &context), 0);
	error.err_data = &context;
	error.err_data_size = 77;

	const auto until = Clock::now() + patience;
	ssize_t result = -FI_EAGAIN;

	while (result == -FI_EAGAIN && Clock::now() < until)
		result = fi_cq_readerr(side.cq.get(), &error, 0);
	EXPECT_EQ(result, 1);
	EXPECT_EQ(error.err, FI_ECANCELED);
	EXPECT_EQ(error.err_data, nullptr);
	EXPECT_EQ(error.err_data_size, 77U);
}

TEST(Cq, waiting)
{
	for (const fi_wait_obj wait : {FI_WAIT_UNSPEC, FI_WAIT_FD}) {
		Wish wish;

		wish.wait = wait;

		Pair pair(wish);
		fi_cq_tagged_entry entry{};
		char byte = 0;
		const auto begun = Clock::now();

		EXPECT_EQ(fi_cq_sread(pair.b.cq.get(), &entry, 1, nullptr, 30), -FI_EAGAIN);
		EXPECT_GE(Clock::now() - begun, std::chrono::milliseconds(30));
		receive(pair.b, &byte);

		std::thread sender([&] { inject(pair); });

		EXPECT_EQ(fi_cq_sread(pair.b.cq.get(), &entry, 1, nullptr, -1), 1);
		EXPECT_EQ(entry.op_context, &byte);
		sender.join();
	}
}

TEST(Cq, waiting_tells_from_whom)
{
	Wish wish;

	wish.wait = FI_WAIT_UNSPEC;

	Pair pair(wish);
	fi_cq_tagged_entry entry{};
	fi_addr_t source = FI_ADDR_NOTAVAIL;
	char byte = 0;

	receive(pair.b, &byte);
	inject(pair);
	EXPECT_EQ(fi_cq_sreadfrom(pair.b.cq.get(), &entry, 1, &source, nullptr, -1), 1);
	EXPECT_EQ(entry.op_context, &byte);
	EXPECT_EQ(source, pair.to_a);
	EXPECT_EQ(fi_cq_sreadfrom(pair.b.cq.get(), &entry, 1, &source, nullptr, 1), -FI_EAGAIN);
}

TEST(Cq, waiting_is_ended_by_a_signal)
{
	Wish wish;

	wish.wait = FI_WAIT_UNSPEC;

	Side side(wish);
	fi_cq_tagged_entry entry{};
	std::thread other([&] { EXPECT_EQ(fi_cq_signal(side.cq.get()), 0); });

	EXPECT_EQ(fi_cq_sread(side.cq.get(), &entry, 1, nullptr, -1), -FI_EAGAIN);
	other.join();
}

// Two that sleep, and a signal for each of them.
TEST(Cq, each_signal_ends_a_wait)
{
	constexpr int rounds = 200;
	Wish wish;

	wish.wait = FI_WAIT_UNSPEC;

	Side side(wish);

	for (int i = 0; i < rounds && !HasFailure(); i++) {
		std::atomic<int> over = 0;
		const auto wait = [&] {
			fi_cq_tagged_entry entry{};

			EXPECT_EQ(fi_cq_sread(side.cq.get(), &entry, 1, nullptr, -1), -FI_EAGAIN);
			over++;
		};
		std::thread one(wait);
		std::thread other(wait);

		EXPECT_EQ(fi_cq_signal(side.cq.get()), 0);
		EXPECT_EQ(fi_cq_signal(side.cq.get()), 0);

		const auto until = Clock::now() + patience;

		while (over < 2 && Clock::now() < until)
			std::this_thread::yield();
		EXPECT_EQ(over, 2);
		if (over < 2)
			fi_cq_signal(side.cq.get());
		one.join();
		other.join();
	}
}

// A descriptor to sleep on, once fi_trywait() has allowed it.
TEST(Cq, descriptor)
{
	Wish wish;

	wish.wait = FI_WAIT_FD;

	Pair pair(wish);
	fid *waits = &pair.b.cq->fid;
	int fd = -1;
	char byte = 0;

	ASSERT_EQ(fi_control(&pair.b.cq->fid, FI_GETWAIT, &fd), 0);

	pollfd waiting{fd, POLLIN, 0};

	EXPECT_EQ(fi_trywait(pair.b.fabric.get(), &waits, 1), 0);
	EXPECT_EQ(poll(&waiting, 1, 0), 0);
	receive(pair.b, &byte);
	inject(pair);
	EXPECT_EQ(poll(&waiting, 1, 60000), 1);
	EXPECT_EQ(fi_trywait(pair.b.fabric.get(), &waits, 1), -FI_EAGAIN);
	pair.b.done(&byte);
	EXPECT_EQ(fi_trywait(pair.b.fabric.get(), &waits, 1), 0);
	EXPECT_EQ(poll(&waiting, 1, 0), 0);
}

// The condition is the number itself.
const void *threshold(std::size_t count)
{
	return reinterpret_cast<const void *>(count); // NOLINT(performance-no-int-to-ptr): so says fi_cq(3)
}

// More than the queue holds cannot be waited for.
TEST(Cq, waiting_for_many)
{
	Wish wish;

	wish.wait = FI_WAIT_UNSPEC;
	wish.condition = FI_CQ_COND_THRESHOLD;

	Pair pair(wish);
	constexpr std::size_t sent = 1500; // more than one ring, less than two
	std::vector<fi_cq_tagged_entry> entries(sent);
	std::size_t got = 0;
	char byte = 0;

	for (std::size_t i = 0; i < sent; i++) {
		receive(pair.b, &byte);
		inject(pair);
	}

	const ssize_t first = fi_cq_sread(pair.b.cq.get(), entries.data(), sent, threshold(sent + 1), -1);

	EXPECT_GE(first, 1000);
	got = first > 0 ? static_cast<std::size_t>(first) : 0;
	while (got < sent) {
		const std::size_t rest = std::min<std::size_t>(sent - got, 500);
		const ssize_t more =
			fi_cq_sread(pair.b.cq.get(), entries.data(), rest, threshold(rest), 60000);

		ASSERT_EQ(more, static_cast<ssize_t>(rest));
		got += static_cast<std::size_t>(more);
	}
	EXPECT_EQ(pair.b.look().result, -FI_EAGAIN);
}

// Of two that wait, each gets something: none gives up because the other one was faster.
TEST(Cq, waiting_in_threads)
{
	Wish wish;

	wish.wait = FI_WAIT_UNSPEC;

	Pair pair(wish);
	char byte = 0;

	for (int round = 0; round < 200; round++) {
		std::array<ssize_t, 2> results{};
		std::vector<std::thread> threads;

		threads.reserve(results.size());
		for (ssize_t &result : results) {
			threads.emplace_back([&] {
				fi_cq_tagged_entry entry{};

				result = fi_cq_sread(pair.b.cq.get(), &entry, 1, nullptr, 60000);
			});
		}
		for (std::size_t i = 0; i < results.size(); i++) {
			receive(pair.b, &byte);
			inject(pair);
		}
		for (std::thread &thread : threads)
			thread.join();
		for (const ssize_t result : results)
			ASSERT_EQ(result, 1);
	}
}

// What one thread leaves in the queue, another one that sleeps is woken by.
TEST(Cq, what_is_left_wakes)
{
	Wish wish;

	wish.wait = FI_WAIT_FD;

	Pair pair(wish);
	std::array<fi_cq_tagged_entry, 8> entries{};
	std::array<char, 2> bytes{};
	int context = 0;
	int fd = -1;

	ASSERT_EQ(fi_control(&pair.b.cq->fid, FI_GETWAIT, &fd), 0);
	receive(pair.b, &bytes[0]);
	Side::post([&] {
		return fi_trecv(pair.b.ep.get(), &context, 4, nullptr, FI_ADDR_UNSPEC, 9, 0, &context);
	});
	inject(pair);

	const auto until = Clock::now() + patience;

	while (*const_cast<volatile char *>(&bytes[0]) != 'x' && Clock::now() < until)
		std::this_thread::yield();
	EXPECT_EQ(fi_cancel(&pair.b.ep->fid, &context), 0);

	// Which takes both from the kernel as soon as both are there, and gives one.
	ssize_t result = -FI_EAGAIN;
	pollfd descriptor{fd, POLLIN, 0};

	while (result == -FI_EAGAIN && Clock::now() < until)
		result = fi_cq_read(pair.b.cq.get(), entries.data(), entries.size());
	EXPECT_EQ(result, 1);
	EXPECT_EQ(::poll(&descriptor, 1, 60000), 1);
	pair.b.failed(&context, FI_ECANCELED);
	EXPECT_EQ(::poll(&descriptor, 1, 0), 0);
}

TEST(Counters, count)
{
	Wish wish;

	wish.counters = true;

	Pair pair(wish);
	constexpr std::size_t count = 20;
	std::array<char, count> bytes{};

	for (char &byte : bytes)
		receive(pair.b, &byte);
	for (std::size_t i = 0; i < count; i++)
		inject(pair);
	EXPECT_EQ(fi_cntr_wait(pair.b.received.get(), count, 60000), 0);
	EXPECT_EQ(fi_cntr_wait(pair.a.sent.get(), count, 60000), 0);
	EXPECT_EQ(fi_cntr_read(pair.b.received.get()), count);
	EXPECT_EQ(fi_cntr_read(pair.a.sent.get()), count);
	EXPECT_EQ(fi_cntr_read(pair.a.received.get()), 0U);
	for (char &byte : bytes)
		pair.b.done(&byte);
	// Injected messages are counted, and not reported.
	EXPECT_EQ(pair.a.look().result, -FI_EAGAIN);
	EXPECT_EQ(fi_cntr_wait(pair.b.received.get(), count + 1, 20), -FI_ETIMEDOUT);
	EXPECT_EQ(fi_cntr_add(pair.b.received.get(), 1), 0);
	EXPECT_EQ(fi_cntr_wait(pair.b.received.get(), count + 1, 0), 0);
	EXPECT_EQ(fi_cntr_set(pair.b.received.get(), 3), 0);
	EXPECT_EQ(fi_cntr_read(pair.b.received.get()), 3U);
}

TEST(Counters, count_failures)
{
	Wish wish;

	wish.counters = true;

	Side side(wish);
	char byte = 0;

	receive(side, &byte);
	EXPECT_EQ(fi_cancel(&side.ep->fid, &byte), 0);
	EXPECT_EQ(fi_cntr_wait(side.received.get(), 1, 60000), -FI_EAVAIL);
	EXPECT_EQ(fi_cntr_readerr(side.received.get()), 1U);
	EXPECT_EQ(fi_cntr_read(side.received.get()), 0U);
	side.failed(&byte, FI_ECANCELED);
}

// Each of two that wait is woken when it is time.
TEST(Counters, wait_in_threads)
{
	Wish wish;

	wish.counters = true;

	Pair pair(wish);
	char byte = 0;

	for (std::uint64_t round = 0; round < 200; round++) {
		std::array<int, 2> results{-1, -1};
		std::vector<std::thread> threads;

		for (std::size_t i = 0; i < results.size(); i++) {
			threads.emplace_back([&, i] {
				results[i] = fi_cntr_wait(pair.b.received.get(), 2 * round + 1 + i, 60000);
			});
		}
		for (std::size_t i = 0; i < results.size(); i++) {
			receive(pair.b, &byte);
			inject(pair);
		}
		for (std::thread &thread : threads)
			thread.join();
		for (const int result : results)
			ASSERT_EQ(result, 0);
		pair.b.done(&byte);
		pair.b.done(&byte);
	}
}

// Nobody reads the queue of an endpoint that has only counters: neither failures nor sends fill it.
TEST(Counters, without_a_queue)
{
	Wish wish;

	wish.counters = true;
	wish.queue = false;

	Pair pair(wish);
	constexpr int failures = 3000;
	constexpr int messages = 12000;
	char byte = 0;

	for (int i = 0; i < failures; i++) {
		receive(pair.b, &byte);
		ASSERT_EQ(fi_cancel(&pair.b.ep->fid, &byte), 0);
	}

	const auto until = Clock::now() + patience;

	while (fi_cntr_readerr(pair.b.received.get()) < failures && Clock::now() < until)
		std::this_thread::yield();
	EXPECT_EQ(fi_cntr_readerr(pair.b.received.get()), static_cast<std::uint64_t>(failures));
	for (int i = 0; i < messages; i++) {
		receive(pair.b, &byte);
		inject(pair);
	}
	EXPECT_EQ(fi_cntr_wait(pair.b.received.get(), messages, 60000), 0);
	EXPECT_EQ(fi_cntr_wait(pair.a.sent.get(), messages, 60000), 0);
}

// What is counted does not wait for somebody who reads the queue, which loses nothing meanwhile.
TEST(Counters, of_a_queue_that_nobody_reads)
{
	Wish wish;

	wish.counters = true;

	Pair pair(wish);
	constexpr std::uint64_t messages = 5000;
	std::vector<char> bytes(messages);

	for (std::uint64_t i = 0; i < messages; i++) {
		receive(pair.b, &bytes[i]);
		inject(pair, i);
		ASSERT_EQ(fi_cntr_wait(pair.b.received.get(), i + 1, 60000), 0);
	}
	EXPECT_EQ(fi_cntr_read(pair.b.received.get()), messages);
	for (std::uint64_t i = 0; i < messages; i++)
		ASSERT_EQ(pair.b.done(&bytes[i]).data, i);
}

// The queue grows while a thread sleeps on it.
TEST(Counters, beside_somebody_who_reads)
{
	Wish wish;

	wish.counters = true;
	wish.wait = FI_WAIT_UNSPEC;

	Pair pair(wish);
	constexpr std::uint64_t messages = 5000;
	std::vector<std::uint64_t> found;
	char byte = 0;
	std::thread reads([&] {
		std::array<fi_cq_tagged_entry, 7> entries{};

		while (found.size() < messages) {
			const ssize_t count =
				fi_cq_sread(pair.b.cq.get(), entries.data(), entries.size(), nullptr, 60000);

			if (count <= 0)
				break;
			for (ssize_t i = 0; i < count; i++)
				found.push_back(entries[static_cast<std::size_t>(i)].data);
		}
	});

	for (std::uint64_t i = 0; i < messages; i++) {
		receive(pair.b, &byte);
		inject(pair, i);
		(void)fi_cntr_read(pair.b.received.get());
	}
	EXPECT_EQ(fi_cntr_wait(pair.b.received.get(), messages, 60000), 0);
	reads.join();
	ASSERT_EQ(found.size(), messages);
	for (std::uint64_t i = 0; i < messages; i++)
		ASSERT_EQ(found[i], i);
}

TEST(Cq, of_an_unknown_format)
{
	const Side side;
	fid_cq *none = nullptr;
	fi_cq_attr attr{};

	attr.format = static_cast<fi_cq_format>(FI_CQ_FORMAT_TAGGED + 1);
	EXPECT_EQ(fi_cq_open(side.domain.get(), &attr, &none, nullptr), -FI_EINVAL);
}

TEST(Cq, with_flags_and_conditions_that_nobody_knows)
{
	const Side side;
	const auto refused = [&](auto change) {
		fid_cq *none = nullptr;
		fi_cq_attr attr{};

		change(attr);
		return fi_cq_open(side.domain.get(), &attr, &none, nullptr) == -FI_EINVAL;
	};

	EXPECT_TRUE(refused([](fi_cq_attr &attr) { attr.flags = 1ULL << 40; }));
	EXPECT_TRUE(refused([](fi_cq_attr &attr) { attr.wait_obj = static_cast<fi_wait_obj>(99); }));
	EXPECT_TRUE(refused([](fi_cq_attr &attr) { attr.wait_cond = static_cast<fi_cq_wait_cond>(2); }));

	fid_cntr *none = nullptr;
	fi_cntr_attr attr{};

	attr.flags = 1;
	EXPECT_EQ(fi_cntr_open(side.domain.get(), &attr, &none, nullptr), -FI_EINVAL);
}

TEST(Counters, without_a_wait_object_of_their_own)
{
	const Side side;
	Owned<fid_cntr> counter;
	fid_cntr *none = nullptr;
	fi_cntr_attr attr{};

	attr.wait_obj = FI_WAIT_YIELD;
	open(counter, [&](auto **c) { return fi_cntr_open(side.domain.get(), &attr, c, nullptr); });
	EXPECT_EQ(fi_cntr_wait(counter.get(), 1, 1), -FI_ETIMEDOUT);
	attr.wait_obj = FI_WAIT_MUTEX_COND;
	EXPECT_EQ(fi_cntr_open(side.domain.get(), &attr, &none, nullptr), -FI_ENOSYS);

	int fd = -1;

	EXPECT_EQ(fi_control(&counter->fid, FI_GETWAIT, &fd), -FI_ENOSYS);
}

// A counter's descriptor is for what it counts, whoever takes it from the kernel.
TEST(Counters, descriptor)
{
	Wish wish;

	wish.counters = true;
	wish.counter_wait = FI_WAIT_FD;

	Pair pair(wish);
	fid_cntr *counter = pair.b.received.get();
	fid *waits = &counter->fid;
	fi_wait_obj object = FI_WAIT_NONE;
	int fd = -1;
	char byte = 0;

	ASSERT_EQ(fi_control(waits, FI_GETWAITOBJ, &object), 0);
	EXPECT_EQ(object, FI_WAIT_FD);
	ASSERT_EQ(fi_control(waits, FI_GETWAIT, &fd), 0);

	pollfd waiting{fd, POLLIN, 0};
	const auto quiet = [&] {
		while (fi_trywait(pair.b.fabric.get(), &waits, 1) == -FI_EAGAIN)
			;
		EXPECT_EQ(poll(&waiting, 1, 0), 0);
	};

	EXPECT_EQ(fi_trywait(pair.b.fabric.get(), &waits, 1), 0);
	EXPECT_EQ(poll(&waiting, 1, 0), 0);

	// What is in the kernel's ring yet.
	receive(pair.b, &byte);
	inject(pair);
	EXPECT_EQ(poll(&waiting, 1, 60000), 1);
	EXPECT_EQ(fi_trywait(pair.b.fabric.get(), &waits, 1), -FI_EAGAIN);
	EXPECT_EQ(fi_cntr_read(counter), 1u);
	quiet();

	// What another thread takes from it, or says, while this one sleeps.
	receive(pair.b, &byte);
	inject(pair);
	pair.b.done(&byte);
	pair.b.done(&byte);
	EXPECT_EQ(poll(&waiting, 1, 60000), 1);
	EXPECT_EQ(fi_trywait(pair.b.fabric.get(), &waits, 1), -FI_EAGAIN);
	EXPECT_EQ(fi_cntr_read(counter), 2u);
	quiet();
	EXPECT_EQ(fi_cntr_adderr(counter, 1), 0);
	EXPECT_EQ(poll(&waiting, 1, 0), 1);
	EXPECT_EQ(fi_trywait(pair.b.fabric.get(), &waits, 1), -FI_EAGAIN);
	quiet();

	// What was counted between the last look and the question.
	EXPECT_EQ(fi_cntr_add(counter, 1), 0);
	EXPECT_EQ(fi_trywait(pair.b.fabric.get(), &waits, 1), -FI_EAGAIN);
	quiet();
	EXPECT_EQ(fi_cntr_wait(counter, 3, 0), 0);

	// What is as it was before, but was not meanwhile; and who slept already is woken, whoever asks then.
	EXPECT_EQ(fi_cntr_set(counter, 0), 0);
	EXPECT_EQ(fi_cntr_set(counter, 3), 0);
	EXPECT_EQ(poll(&waiting, 1, 0), 1);
	EXPECT_EQ(fi_trywait(pair.b.fabric.get(), &waits, 1), -FI_EAGAIN);
	EXPECT_EQ(poll(&waiting, 1, 0), 1);
	quiet();
}

TEST(Counters, are_set)
{
	const Side side;
	Owned<fid_cntr> counter;
	fi_cntr_attr attr{};

	open(counter, [&](auto **c) { return fi_cntr_open(side.domain.get(), &attr, c, nullptr); });
	EXPECT_EQ(fi_cntr_set(counter.get(), 7), 0);
	EXPECT_EQ(fi_cntr_add(counter.get(), 3), 0);
	EXPECT_EQ(fi_cntr_read(counter.get()), 10U);
	EXPECT_EQ(fi_cntr_wait(counter.get(), 10, -1), 0);
	EXPECT_EQ(fi_cntr_wait(counter.get(), 11, 1), -FI_ETIMEDOUT);
	EXPECT_EQ(fi_cntr_seterr(counter.get(), 2), 0);
	EXPECT_EQ(fi_cntr_adderr(counter.get(), 3), 0);
	EXPECT_EQ(fi_cntr_readerr(counter.get()), 5U);
	EXPECT_EQ(fi_cntr_read(counter.get()), 10U);
}

// Whoever does not say what is to be counted counts nothing, and uses the counter all the same.
TEST(Counters, of_nothing)
{
	Pair pair;
	Owned<fid_cntr> counter;
	Owned<fid_ep> ep;
	fi_cntr_attr attr{};
	char byte = 0;

	open(counter, [&](auto **c) { return fi_cntr_open(pair.b.domain.get(), &attr, c, nullptr); });
	open(ep, [&](auto **e) { return fi_endpoint(pair.b.domain.get(), pair.b.info.get(), e, nullptr); });
	ASSERT_EQ(fi_ep_bind(ep.get(), &counter->fid, 0), 0);
	EXPECT_EQ(fi_close(&counter->fid), -FI_EBUSY);
	EXPECT_EQ(fi_ep_bind(ep.get(), &pair.b.av->fid, 0), 0);
	// Nor is it told of failures.
	EXPECT_EQ(fi_enable(ep.get()), -FI_ENOCQ);
	EXPECT_EQ(fi_ep_bind(ep.get(), &pair.b.cq->fid, FI_TRANSMIT | FI_RECV), 0);
	EXPECT_EQ(fi_enable(ep.get()), 0);
	pair.b.ep = std::move(ep);
	pair.to_b = pair.a.add(pair.b);
	receive(pair.b, &byte);
	inject(pair);
	pair.b.done(&byte);
	EXPECT_EQ(fi_cntr_read(counter.get()), 0U);
	pair.b.ep.reset();
}

// Counters alone may be bound to what is enabled: they count from then on.
TEST(Counters, of_what_is_enabled)
{
	Pair pair;
	Owned<fid_cntr> sent, received;
	fi_cntr_attr attr{};
	char byte = 0, before = 0;

	// What was posted before is not counted.
	receive(pair.b, &before);
	open(sent, [&](auto **c) { return fi_cntr_open(pair.a.domain.get(), &attr, c, nullptr); });
	open(received, [&](auto **c) { return fi_cntr_open(pair.b.domain.get(), &attr, c, nullptr); });
	ASSERT_EQ(fi_ep_bind(pair.a.ep.get(), &sent->fid, FI_SEND), 0);
	ASSERT_EQ(fi_ep_bind(pair.b.ep.get(), &received->fid, FI_RECV), 0);
	EXPECT_EQ(fi_ep_bind(pair.b.ep.get(), &received->fid, FI_RECV), -FI_EINVAL);
	EXPECT_EQ(fi_ep_bind(pair.b.ep.get(), &pair.b.cq->fid, FI_RECV), -FI_EOPBADSTATE);
	inject(pair);
	pair.b.done(&before);
	for (int i = 0; i < 10; i++) {
		receive(pair.b, &byte);
		inject(pair);
	}
	EXPECT_EQ(fi_cntr_wait(received.get(), 10, 60000), 0);
	EXPECT_EQ(fi_cntr_wait(sent.get(), 11, 60000), 0);
	for (int i = 0; i < 10; i++)
		pair.b.done(&byte);
	EXPECT_EQ(fi_cntr_read(received.get()), 10U);
	EXPECT_EQ(fi_close(&received->fid), -FI_EBUSY);
	pair.a.ep.reset();
	pair.b.ep.reset();
}

// Who sleeps on it until it has counted all of them does not miss the last one.
TEST(Counters, descriptor_of_a_program_that_sleeps)
{
	Wish wish;

	wish.counters = true;
	wish.counter_wait = FI_WAIT_FD;
	wish.queue = false;

	Pair pair(wish);
	constexpr std::uint64_t messages = 2000;
	fid_cntr *counter = pair.b.received.get();
	int fd = -1;
	char byte = 0;

	ASSERT_EQ(fi_control(&counter->fid, FI_GETWAIT, &fd), 0);

	std::thread sender([&] {
		for (std::uint64_t i = 0; i < messages; i++) {
			receive(pair.b, &byte);
			inject(pair);
		}
	});

	for (std::uint64_t seen = 0; seen < messages; seen = fi_cntr_read(counter)) {
		fid *waits = &counter->fid;
		pollfd waiting{fd, POLLIN, 0};

		if (fi_trywait(pair.b.fabric.get(), &waits, 1) == -FI_EAGAIN)
			continue;
		ASSERT_EQ(poll(&waiting, 1, 60000), 1) << "after " << seen;
	}
	sender.join();
}

// Who waits may have been told by a signal's handler to do something else.
TEST(Cq, a_signal_ends_waiting)
{
	static std::atomic<int> signals;
	Wish wish;

	wish.wait = FI_WAIT_YIELD;

	Side side(wish);
	struct sigaction old;
	struct sigaction action {
	};
	std::atomic<bool> over{false};
	ssize_t result = 0;
	fi_cq_tagged_entry entry{};

	action.sa_handler = [](int) {
		signals++;
	};
	signals = 0;
	ASSERT_EQ(::sigaction(SIGUSR1, &action, &old), 0);

	std::thread waits([&] {
		result = fi_cq_sread(side.cq.get(), &entry, 1, nullptr, -1);
		over = true;
	});
	const auto until = Clock::now() + patience;

	/* One that comes before it sleeps is not for it. */
	while (!over && Clock::now() < until) {
		::pthread_kill(waits.native_handle(), SIGUSR1);
		std::this_thread::yield();
	}
	EXPECT_TRUE(over);
	fi_cq_signal(side.cq.get());
	waits.join();
	EXPECT_EQ(result, -FI_EAGAIN);
	EXPECT_GT(signals, 0);
	EXPECT_EQ(::sigaction(SIGUSR1, &old, nullptr), 0);
}

TEST(Endpoint, is_bound_to_what_is_of_its_domain)
{
	Wish wish;

	wish.counters = true;

	const Side side(wish);
	const Side other(wish);
	Owned<fid_ep> ep;

	open(ep, [&](auto **e) { return fi_endpoint(side.domain.get(), side.info.get(), e, nullptr); });
	EXPECT_EQ(fi_ep_bind(ep.get(), &other.cq->fid, FI_TRANSMIT | FI_RECV), -FI_EDOMAIN);
	EXPECT_EQ(fi_ep_bind(ep.get(), &other.av->fid, 0), -FI_EDOMAIN);
	EXPECT_EQ(fi_ep_bind(ep.get(), &other.sent->fid, FI_SEND), -FI_EDOMAIN);
	/* Which direction? */
	EXPECT_EQ(fi_ep_bind(ep.get(), &side.cq->fid, 0), -FI_EINVAL);
	EXPECT_EQ(fi_ep_bind(ep.get(), &side.cq->fid, FI_SELECTIVE_COMPLETION), -FI_EINVAL);
	EXPECT_EQ(fi_ep_bind(ep.get(), &side.cq->fid, FI_TRANSMIT | FI_RECV), 0);
	EXPECT_EQ(fi_ep_bind(ep.get(), &side.av->fid, 0), 0);
	EXPECT_EQ(fi_ep_bind(ep.get(), &side.sent->fid, FI_SEND), 0);
}

// Else this send would wait for its receive.
TEST(Endpoint, flags_of_a_call_replace_its_own)
{
	Wish wish;

	wish.tx_flags = FI_MATCH_COMPLETE | FI_COMPLETION;

	Pair pair(wish);
	char byte = 'x';
	int first = 0, second = 0;
	iovec whole{&byte, 1};
	fi_msg_tagged message{};

	message.msg_iov = &whole;
	message.iov_count = 1;
	message.addr = pair.to_b;
	message.tag = 1;
	message.context = &first;
	Side::post([&] { return fi_tsend(pair.a.ep.get(), &byte, 1, nullptr, pair.to_b, 1, &second); });
	Side::post([&] { return fi_tsendmsg(pair.a.ep.get(), &message, FI_COMPLETION); });
	pair.a.done(&first);
	EXPECT_EQ(pair.a.look().result, -FI_EAGAIN);
	receive(pair.b, &byte);
	pair.a.done(&second);
}

TEST(Endpoint, flags_are_of_one_direction)
{
	Wish wish;

	wish.tx_flags = FI_DELIVERY_COMPLETE;

	const Side side(wish);
	std::uint64_t flags = FI_TRANSMIT;

	EXPECT_EQ(fi_control(&side.ep->fid, FI_GETOPSFLAG, &flags), 0);
	EXPECT_EQ(flags, FI_DELIVERY_COMPLETE);
	flags = FI_TRANSMIT | FI_RECV;
	EXPECT_EQ(fi_control(&side.ep->fid, FI_GETOPSFLAG, &flags), -FI_EINVAL);
}

// ... and are set of one direction. From then on a send waits for its receive.
TEST(Endpoint, flags_are_set)
{
	Pair pair;
	char byte = 'x';
	int sent = 0;
	std::uint64_t flags = FI_TRANSMIT | FI_MATCH_COMPLETE | FI_COMPLETION;

	EXPECT_EQ(fi_control(&pair.a.ep->fid, FI_SETOPSFLAG, &flags), 0);
	flags = FI_TRANSMIT;
	EXPECT_EQ(fi_control(&pair.a.ep->fid, FI_GETOPSFLAG, &flags), 0);
	EXPECT_EQ(flags, FI_MATCH_COMPLETE | FI_COMPLETION);
	flags = FI_RECV | FI_COMPLETION;
	EXPECT_EQ(fi_control(&pair.a.ep->fid, FI_SETOPSFLAG, &flags), 0);
	flags = FI_RECV;
	EXPECT_EQ(fi_control(&pair.a.ep->fid, FI_GETOPSFLAG, &flags), 0);
	EXPECT_EQ(flags, FI_COMPLETION);
	flags = FI_COMPLETION;
	EXPECT_EQ(fi_control(&pair.a.ep->fid, FI_SETOPSFLAG, &flags), -FI_EINVAL);
	flags = FI_TRANSMIT | FI_RECV;
	EXPECT_EQ(fi_control(&pair.a.ep->fid, FI_SETOPSFLAG, &flags), -FI_EINVAL);

	Side::post([&] { return fi_tsend(pair.a.ep.get(), &byte, 1, nullptr, pair.to_b, 1, &sent); });
	fi_cq_tagged_entry entry{};
	EXPECT_EQ(fi_cq_read(pair.a.cq.get(), &entry, 1), -FI_EAGAIN);
	receive(pair.b, &byte);
	pair.a.done(&sent);
}

// With flags for whose it is, of which there are none here.
TEST(Endpoint, is_opened_with_flags)
{
	const Side side;
	Owned<fid_domain> domain;
	Owned<fid_ep> ep;
	fid_domain *no_domain = nullptr;
	fid_ep *none = nullptr;

	open(domain, [&](auto **d) { return fi_domain2(side.fabric.get(), side.info.get(), d, 0, nullptr); });
	EXPECT_LT(fi_domain2(side.fabric.get(), side.info.get(), &no_domain, FI_PEER, nullptr), 0);
	open(ep, [&](auto **e) { return fi_endpoint2(domain.get(), side.info.get(), e, 0, nullptr); });
	EXPECT_LT(fi_endpoint2(domain.get(), side.info.get(), &none, FI_PEER, nullptr), 0);
}

// The name of one that was closed is a name like any other.
TEST(Endpoint, may_have_the_name_of_a_former_one)
{
	std::vector<unsigned char> name;
	Wish wish;

	wish.service = "4444";
	{
		const Side gone(wish);

		name = gone.name();
	}

	const Side side;
	Owned<fid_ep> ep;

	open(ep, [&](auto **e) { return fi_endpoint(side.domain.get(), side.info.get(), e, nullptr); });
	EXPECT_EQ(fi_setname(&ep->fid, name.data(), name.size()), 0);
	EXPECT_EQ(fi_ep_bind(ep.get(), &side.av->fid, 0), 0);
	EXPECT_EQ(fi_ep_bind(ep.get(), &side.cq->fid, FI_TRANSMIT | FI_RECV), 0);
	EXPECT_EQ(fi_enable(ep.get()), 0);
}

TEST(Endpoint, has_no_collectives)
{
	const Side side;

	EXPECT_EQ(fi_barrier(side.ep.get(), 0, nullptr), -FI_ENOSYS);
}

TEST(Endpoint, that_cannot_be_enabled_leaves_nothing)
{
	Wish wish;

	wish.service = "4242";
	wish.counters = true;
	wish.queue = false;

	const Side side(wish);
	Owned<fid_ep> ep;
	Owned<fid_cntr> counter;
	fi_cntr_attr attr{};

	open(counter, [&](auto **c) { return fi_cntr_open(side.domain.get(), &attr, c, nullptr); });
	open(ep, [&](auto **e) { return fi_endpoint(side.domain.get(), side.info.get(), e, nullptr); });
	EXPECT_EQ(fi_ep_bind(ep.get(), &side.av->fid, 0), 0);
	/* Nobody writes or reads here, and none of it is counted. */
	EXPECT_EQ(fi_ep_bind(ep.get(), &counter->fid, FI_REMOTE_READ | FI_REMOTE_WRITE), 0);
	EXPECT_EQ(fi_ep_bind(ep.get(), &counter->fid, FI_SEND | FI_RECV), 0);
	for (int i = 0; i < 3; i++)
		EXPECT_EQ(fi_enable(ep.get()), -FI_EADDRINUSE);
	EXPECT_EQ(fi_cntr_read(counter.get()), 0U);
	ep.reset();
	EXPECT_EQ(fi_cntr_read(counter.get()), 0U);
}

// What is bound to it and to others stays theirs.
TEST(Endpoint, that_was_not_enabled_leaves_counters_to_others)
{
	Wish wish;

	wish.counters = true;

	Pair pair(wish);
	Owned<fid_ep> ep;
	char byte = 0;

	for (const bool tried : {false, true}) {
		SCOPED_TRACE(tried ? "tried" : "not tried");
		open(ep, [&](auto **e) {
			return fi_endpoint(pair.b.domain.get(), pair.b.info.get(), e, nullptr);
		});
		EXPECT_EQ(fi_ep_bind(ep.get(), &pair.b.av->fid, 0), 0);
		EXPECT_EQ(fi_ep_bind(ep.get(), &pair.b.cq->fid, FI_TRANSMIT | FI_RECV), 0);
		EXPECT_EQ(fi_ep_bind(ep.get(), &pair.b.received->fid, FI_RECV), 0);
		if (tried) {
			auto name = pair.b.name();

			// Its number is taken.
			EXPECT_EQ(fi_setname(&ep->fid, name.data(), name.size()), 0);
			EXPECT_EQ(fi_enable(ep.get()), -FI_EADDRINUSE);
		}
		ep.reset();
		receive(pair.b, &byte);
		inject(pair);
		EXPECT_EQ(fi_cntr_wait(pair.b.received.get(), tried ? 2 : 1, 10000), 0);
	}
}

// Of one that has the number of a former one, nothing of that one is told: also if it could have been given
// to whoever asks for none.
class Renamed : public ::testing::TestWithParam<const char *>
{
};

TEST_P(Renamed, has_nothing_of_a_former_one)
{
	Wish wish;

	wish.service = GetParam();
	wish.bind_flags = FI_SELECTIVE_COMPLETION;

	Side side(wish);
	std::array<int, 20> contexts{};
	fi_addr_t nobody = FI_ADDR_NOTAVAIL;
	char byte = 0;

	{
		const Side gone;

		nobody = side.add(gone);
	}
	for (int &context : contexts)
		Side::post([&] { return fi_tsend(side.ep.get(), "x", 1, nullptr, nobody, 1, &context); });
	side.ep.reset();
	open(side.ep, [&](auto **e) { return fi_endpoint(side.domain.get(), side.info.get(), e, nullptr); });
	EXPECT_EQ(fi_ep_bind(side.ep.get(), &side.av->fid, 0), 0);
	EXPECT_EQ(fi_ep_bind(side.ep.get(), &side.cq->fid, FI_TRANSMIT | FI_RECV), 0);

	// The number is free as soon as the former one is closed.
	const auto until = Clock::now() + patience;
	int error = -FI_EADDRINUSE;

	while (error == -FI_EADDRINUSE && Clock::now() < until)
		error = fi_enable(side.ep.get());
	ASSERT_EQ(error, 0);

	const fi_addr_t self = side.add(side);

	receive(side, &byte);
	Side::post([&] { return fi_tinject(side.ep.get(), "x", 1, self, 1); });
	EXPECT_EQ(side.done(&byte).len, 1U);
	EXPECT_EQ(side.look().result, -FI_EAGAIN);
}

INSTANTIATE_TEST_SUITE_P(Endpoint, Renamed, ::testing::Values("4343", "70000"));

TEST(Endpoint, needs_what_it_works_with)
{
	const Side side;
	Owned<fid_av> av;
	Owned<fid_ep> ep;
	fi_av_attr attr{};
	std::array<char, 64> name{};
	std::size_t length = name.size();

	open(av, [&](auto **v) { return fi_av_open(side.domain.get(), &attr, v, nullptr); });
	open(ep, [&](auto **e) { return fi_endpoint(side.domain.get(), side.info.get(), e, nullptr); });
	EXPECT_EQ(fi_getname(&ep->fid, name.data(), &length), -FI_EOPBADSTATE);
	EXPECT_EQ(fi_enable(ep.get()), -FI_ENOAV);
	EXPECT_EQ(fi_ep_bind(ep.get(), &av->fid, 0), 0);
	EXPECT_EQ(fi_enable(ep.get()), -FI_ENOCQ);
	EXPECT_EQ(
		fi_trecv(ep.get(), name.data(), 1, nullptr, FI_ADDR_UNSPEC, 0, 0, nullptr), -FI_EOPBADSTATE);
	EXPECT_EQ(fi_ep_bind(ep.get(), &side.cq->fid, FI_TRANSMIT | FI_RECV), 0);
	EXPECT_EQ(fi_enable(ep.get()), 0);
	EXPECT_EQ(fi_enable(ep.get()), -FI_EOPBADSTATE);

	// As much as there is room for.
	std::array<char, 64> start{};

	length = 20;
	EXPECT_EQ(fi_getname(&ep->fid, start.data(), &length), -FI_ETOOSMALL);
	EXPECT_LE(length, 64U);
	EXPECT_EQ(fi_getname(&ep->fid, name.data(), &length), 0);
	EXPECT_TRUE(std::equal(start.begin(), start.begin() + 20, name.begin()));
	EXPECT_TRUE(std::all_of(start.begin() + 20, start.end(), [](char byte) { return byte == 0; }));
}

// Limits that one may ask for, and lower for what one needs oneself, which changes nothing. (Names that
// libfabric has since 1.22; in its order.)
TEST(Endpoint, tells_its_limits)
{
	const Side side;
	const std::size_t message = side.info->ep_attr->max_msg_size;
	const std::size_t injected = side.info->tx_attr->inject_size;
	const std::array<std::size_t, 8> limits = {
		message, message, message, 64, injected, injected, injected, 64};

	for (std::size_t i = 0; i < limits.size(); i++) {
		const int option = 12 + static_cast<int>(i);
		std::size_t value = 0;
		std::size_t length = sizeof(value);

		EXPECT_EQ(fi_getopt(&side.ep->fid, FI_OPT_ENDPOINT, option, &value, &length), 0) << option;
		EXPECT_EQ(value, limits[i]) << option;
		for (const std::size_t less : {limits[i], std::size_t{1}}) {
			EXPECT_EQ(fi_setopt(&side.ep->fid, FI_OPT_ENDPOINT, option, &less, sizeof(less)), 0)
				<< option;
		}
		value++;
		EXPECT_EQ(
			fi_setopt(&side.ep->fid, FI_OPT_ENDPOINT, option, &value, sizeof(value)), -FI_EINVAL)
			<< option;
		EXPECT_EQ(fi_setopt(&side.ep->fid, FI_OPT_ENDPOINT, option, &value, 1), -FI_EINVAL) << option;
		length = 1;
		EXPECT_EQ(fi_getopt(&side.ep->fid, FI_OPT_ENDPOINT, option, &value, &length), -FI_ETOOSMALL)
			<< option;
	}
}

// Of what nobody was offered there is none, and not what is left of its lowest bits.
TEST(Endpoint, is_not_larger_than_it_can_be)
{
	const Side side;

	for (std::size_t *size : {&side.info->tx_attr->size, &side.info->rx_attr->size}) {
		const std::size_t offered = *size;

		for (const std::size_t too_large : {std::size_t{1} << 31, std::size_t{1} << 32, SIZE_MAX}) {
			fid_ep *none = nullptr;

			*size = too_large;
			EXPECT_EQ(
				fi_endpoint(side.domain.get(), side.info.get(), &none, nullptr), -FI_EINVAL);
			if (none)
				fi_close(&none->fid);
		}
		*size = offered;
	}
	// Nor does it share what it works with.
	for (std::size_t *count : {&side.info->ep_attr->tx_ctx_cnt, &side.info->ep_attr->rx_ctx_cnt}) {
		fid_ep *none = nullptr;

		*count = FI_SHARED_CONTEXT;
		EXPECT_EQ(fi_endpoint(side.domain.get(), side.info.get(), &none, nullptr), -FI_EINVAL);
		*count = 1;
	}
}

TEST(Endpoint, what_it_works_with_stays_open)
{
	const Side side;

	EXPECT_EQ(fi_close(&side.cq->fid), -FI_EBUSY);
	EXPECT_EQ(fi_close(&side.av->fid), -FI_EBUSY);
	EXPECT_EQ(fi_close(&side.domain->fid), -FI_EBUSY);
	EXPECT_EQ(fi_close(&side.fabric->fid), -FI_EBUSY);
}

// Who has not asked for it.
TEST(Endpoint, has_no_rma)
{
	const Side side;
	char byte = 0;
	fid_mr *region = nullptr;

	EXPECT_EQ(fi_write(side.ep.get(), &byte, 1, nullptr, 0, 0, 0, nullptr), -FI_EOPNOTSUPP);
	EXPECT_EQ(fi_mr_reg(side.domain.get(), &byte, 1, FI_REMOTE_READ, 0, 0, 0, &region, nullptr),
		-FI_EOPNOTSUPP);
}

// A queue that several endpoints use goes on when one of them is closed in the middle of something.
TEST(Endpoint, closed_with_receives_posted)
{
	Pair pair;
	Owned<fid_ep> ep;
	std::array<char, 100> bytes{};
	char byte = 0;

	open(ep, [&](auto **e) { return fi_endpoint(pair.b.domain.get(), pair.b.info.get(), e, nullptr); });
	EXPECT_EQ(fi_ep_bind(ep.get(), &pair.b.av->fid, 0), 0);
	EXPECT_EQ(fi_ep_bind(ep.get(), &pair.b.cq->fid, FI_TRANSMIT | FI_RECV), 0);
	EXPECT_EQ(fi_enable(ep.get()), 0);
	for (char &b : bytes)
		Side::post([&] { return fi_trecv(ep.get(), &b, 1, nullptr, FI_ADDR_UNSPEC, 1, 0, &b); });
	ep.reset();
	receive(pair.b, &byte);
	inject(pair);
	pair.b.done(&byte);
	EXPECT_EQ(pair.b.look().result, -FI_EAGAIN);
}

// Several threads send and receive at once, and read the same queue.
TEST(Threads, share_an_endpoint)
{
	Pair pair;
	constexpr int threads = 4;
	constexpr int each = 250;
	std::vector<std::thread> all;
	std::atomic<int> received{0};
	std::atomic<int> bad{0};
	std::vector<std::uint64_t> buffers(std::size_t{threads} * each);

	all.reserve(threads);
	for (int t = 0; t < threads; t++) {
		all.emplace_back([&, t] {
			for (int i = 0; i < each; i++) {
				const auto number =
					static_cast<std::uint64_t>(t) * each + static_cast<std::uint64_t>(i);

				Side::post([&] {
					return fi_trecv(pair.b.ep.get(), &buffers[number], 8, nullptr,
						FI_ADDR_UNSPEC, number, 0, &buffers[number]);
				});
				Side::post([&] {
					return fi_tinject(
						pair.a.ep.get(), &number, sizeof(number), pair.to_b, number);
				});
			}

			const auto until = Clock::now() + patience;

			while (received < threads * each && Clock::now() < until) {
				fi_cq_tagged_entry entry{};
				const ssize_t result = fi_cq_read(pair.b.cq.get(), &entry, 1);

				if (result == 1) {
					received++;
					bad += *static_cast<std::uint64_t *>(entry.op_context) != entry.tag;
				}
			}
		});
	}
	for (auto &thread : all)
		thread.join();
	EXPECT_EQ(received, threads * each);
	EXPECT_EQ(bad, 0);
}

} // namespace

} // namespace ofi
