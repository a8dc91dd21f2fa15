// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// user/tools/perf: client and server against each other over a device that lives in this process: all tests,
// with and without verification, and with a device that loses, repeats and corrupts.
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <thread>

#include <gtest/gtest.h>

#include "client.hpp"
#include "failure.hpp"
#include "fake_kernel.hpp"
#include "server.hpp"

using namespace perf;

namespace
{

class PerfTest : public testing::Test
{
protected:
	void SetUp() override
	{
		fake::reset();
		::unsetenv("IBRELK_DOOR");
		options.modes = {IBRELK_MODE_UC_RELIABLE};
		options.peer = *ibrelk::Address::from_text("10.1.0.1");
		options.iterations = 500;
		options.warmup = 20;
		options.timeout_s = 20;
		options.wait = {WaitKind::events, 0, 0};
		options.quiet = true;
	}
	void TearDown() override
	{
		EXPECT_EQ(fake::calls().open_fds, 0u);
	}

	// Measures with a server in a thread of its own.
	Row measure(std::uint64_t bytes)
	{
		Options server_options = options;

		server_options.role = Role::server;
		server_options.once = true;

		Server server(server_options, stop);

		server_code = -1;

		std::thread thread([&] {
			try {
				server_code = server.serve();
			} catch (const tool::Failure &failure) {
				server_code = failure.code();
			}
		});
		Row row;

		try {
			Client client(options, options.modes[0], stop);

			row = client.measure(bytes);
			client.bye();
		} catch (const tool::Failure &failure) {
			row.error = failure.what();
			code = failure.code();
			stop = true;
		}
		thread.join();
		stop = false;
		return row;
	}

	// A native ping-pong of which so many are given up for lost, and arrive all the same.
	void expect_all_right_but_late(std::uint64_t late)
	{
		options.modes = {IBRELK_MODE_UD_NATIVE};
		options.verify = true;
		options.iterations = 50;
		options.warmup = 0;

		const Row row = measure(100);

		EXPECT_EQ(row.error, "");
		EXPECT_EQ(row.lost, late);
		EXPECT_EQ(row.messages, 100u);
		EXPECT_EQ(row.verified, 100u);
		EXPECT_EQ(row.mismatched, 0u);
	}

	Options options;
	std::atomic<bool> stop{false};
	int server_code = -1;
	int code = 0;
};

constexpr perf::Test streams[] = {perf::Test::bandwidth, perf::Test::bibandwidth, perf::Test::rate};

} // namespace

TEST_F(PerfTest, latency)
{
	for (std::uint64_t bytes : {0, 1, 8, 4096, 8192, 8193, 100'000}) {
		for (bool verify : {false, true}) {
			options.verify = verify;

			Row row = measure(bytes);

			EXPECT_EQ(row.error, "");
			EXPECT_EQ(row.latency.samples, 500u);
			EXPECT_EQ(row.messages, 2 * 520u);
			EXPECT_EQ(row.verified, verify ? 2 * 520u : 0u);
			EXPECT_EQ(row.mismatched, 0u);
			EXPECT_EQ(row.lost, 0u);
			EXPECT_EQ(server_code, 0);
		}
	}
}

TEST_F(PerfTest, streams)
{
	options.verify = true;
	for (perf::Test test : streams) {
		for (std::uint32_t window : {1u, 2u, 3u, 64u, 1000u}) {
			for (std::uint32_t batch : {1u, 16u}) {
				const unsigned directions = test == perf::Test::bibandwidth ? 2 : 1;

				options.test = test;
				options.window = window;
				options.batch = batch;

				Row row = measure(3000);

				EXPECT_EQ(row.error, "");
				EXPECT_EQ(row.messages, directions * 500u);
				EXPECT_EQ(row.verified, directions * 500u);
				EXPECT_EQ(row.lost, 0u);
				EXPECT_GT(row.mb_per_s, 0);
				EXPECT_GT(row.messages_per_s, 0);
				EXPECT_EQ(server_code, 0);
			}
		}
	}
}

// The client and the server, submitting and waiting.
TEST_F(PerfTest, four_system_calls_per_round_trip)
{
	options.iterations = 2000;
	EXPECT_EQ(measure(8).error, "");

	const fake::Calls calls = fake::calls();

	EXPECT_LE(calls.submit_ioctl + calls.ring_wait, 4 * 2020u + 100);
}

TEST_F(PerfTest, streams_submit_in_batches)
{
	options.test = perf::Test::bandwidth;
	options.iterations = 4000;
	EXPECT_EQ(measure(8).error, "");
	EXPECT_LE(fake::calls().submit_ioctl, 2 * 4020u / 16 + 300);
}

// Both sides, and the empty messages between them. The device completes a send at once, so that the first
// look after the work must find it.
TEST_F(PerfTest, overlap)
{
	options.test = perf::Test::overlap;
	options.iterations = 20;
	options.warmup = 2;
	for (std::uint32_t mode : {IBRELK_MODE_UC_RELIABLE, IBRELK_MODE_UD_RELIABLE}) {
		options.modes = {mode};
		for (std::uint64_t bytes : {0, 8, 8192, 8193, 100'000}) {
			for (bool verify : {false, true}) {
				options.verify = verify;

				Row row = measure(bytes);
				const std::uint64_t each = OverlapMeter::attempts(2, 20);

				EXPECT_EQ(row.error, "");
				EXPECT_EQ(row.send.trials, 20u);
				EXPECT_EQ(row.receive.trials, 20u);
				EXPECT_EQ(row.send.first_pct, 100);
				EXPECT_GT(row.send.transfer_us, 0);
				EXPECT_GT(row.receive.transfer_us, 0);
				EXPECT_EQ(row.messages, 4 * each);
				EXPECT_EQ(row.verified, verify ? 4 * each : 0u);
				EXPECT_EQ(row.mismatched, 0u);
				EXPECT_EQ(row.lost, 0u);
				EXPECT_EQ(server_code, 0);
			}
		}
	}
}

TEST_F(PerfTest, overlap_where_progress_needs_the_application)
{
	options.test = perf::Test::overlap;
	options.iterations = 20;
	fake::behaviour().lazy_sends = true;
	for (std::uint64_t bytes : {8, 100'000}) {
		Row row = measure(bytes);

		EXPECT_EQ(row.error, "");
		EXPECT_EQ(row.send.trials, 20u);
		EXPECT_EQ(row.send.first_pct, 0);
	}
}

TEST_F(PerfTest, overlap_with_little_room)
{
	options.test = perf::Test::overlap;
	options.iterations = 10;
	options.verify = true;
	fake::behaviour().accept_max = 1;
	options.ring_entries = 2;
	EXPECT_EQ(measure(9000).error, "");
	EXPECT_EQ(code, 0);
}

TEST_F(PerfTest, overlap_goes_on_after_a_loss)
{
	options.test = perf::Test::overlap;
	options.modes = {IBRELK_MODE_UC_NATIVE};
	options.verify = true;
	options.iterations = 20;
	options.warmup = 0;
	fake::behaviour().lose_every = 45;

	Row row = measure(100);

	EXPECT_EQ(row.error, "");
	EXPECT_GT(row.lost, 0u);
	EXPECT_LE(row.send.trials, 20u);
	EXPECT_EQ(row.verified, row.messages);
	EXPECT_EQ(row.mismatched, 0u);
}

// What was given up arrives all at once, with what is waited for behind it: answers if the client sends,
// messages if it receives.
TEST_F(PerfTest, overlap_while_the_wire_is_down)
{
	const auto each = static_cast<std::uint32_t>(OverlapMeter::attempts(0, 10));

	options.test = perf::Test::overlap;
	options.modes = {IBRELK_MODE_UC_NATIVE};
	options.verify = true;
	options.iterations = 10;
	options.warmup = 0;
	for (std::uint32_t before : {0u, 2 * each}) {
		fake::reset();
		fake::behaviour().hold_from = before + 11;
		fake::behaviour().hold_count = 3;

		const Row row = measure(100);

		EXPECT_EQ(row.error, "");
		EXPECT_GE(row.lost, 2u);
		EXPECT_EQ(row.messages, 4 * each);
		EXPECT_EQ(row.verified, 4 * each);
		EXPECT_EQ(row.mismatched, 0u);
	}
}

TEST_F(PerfTest, overlap_finds_wrong_bytes)
{
	options.test = perf::Test::overlap;
	options.verify = true;
	options.iterations = 50;
	fake::behaviour().corrupt_every = 10;
	EXPECT_GE(measure(1000).mismatched, 5u);
}

TEST_F(PerfTest, mixed_sizes)
{
	options.verify = options.mixed = true;
	for (perf::Test test : {perf::Test::latency, perf::Test::bandwidth, perf::Test::bibandwidth}) {
		options.test = test;

		Row row = measure(20'000);

		EXPECT_EQ(row.error, "");
		EXPECT_EQ(row.mismatched, 0u);
		EXPECT_GE(row.verified, 500u);
	}
}

TEST_F(PerfTest, every_way_to_wait)
{
	for (WaitKind kind : {WaitKind::hybrid, WaitKind::busy_poll, WaitKind::spin}) {
		options.wait = {kind, 0, 20'000};
		options.iterations = 50;
		EXPECT_EQ(measure(8).error, "");
		options.test = perf::Test::bibandwidth;
		EXPECT_EQ(measure(8).error, "");
		options.test = perf::Test::latency;
	}
}

// Who polls for one client that wants it does not do so for ever.
TEST_F(PerfTest, a_server_waits_as_before_when_a_run_is_over)
{
	Options server_options = options;

	server_options.role = Role::server;

	Server server(server_options, stop);
	std::thread thread([&] { server_code = server.serve(); });

	options.wait = {WaitKind::spin, 0, 0};
	{
		Client client(options, options.modes[0], stop);

		EXPECT_EQ(client.measure(8).error, "");
		client.bye();
	}

	const auto begun = std::chrono::steady_clock::now();
	const std::uint32_t sleeps = fake::calls().ring_wait;

	while (fake::calls().ring_wait == sleeps &&
		std::chrono::steady_clock::now() - begun < std::chrono::seconds(10))
		std::this_thread::yield();
	EXPECT_GT(fake::calls().ring_wait, sleeps);
	stop = true;
	thread.join();
	EXPECT_EQ(server_code, 0);
}

TEST_F(PerfTest, io_uring)
{
	options.door = IBRELK_DOOR_URING;
	options.test = perf::Test::bibandwidth;
	EXPECT_EQ(measure(64).error, "");
	EXPECT_GT(fake::calls().submit_uring, 50u);
	EXPECT_EQ(fake::calls().submit_ioctl, 0u);
}

TEST_F(PerfTest, a_kernel_that_takes_little_at_a_time)
{
	for (perf::Test test : {perf::Test::latency, perf::Test::bandwidth, perf::Test::bibandwidth}) {
		options.test = test;
		options.verify = true;
		fake::behaviour().accept_max = 1;
		EXPECT_EQ(measure(100).error, "");
		EXPECT_EQ(code, 0);
	}
}

// Each end is refused until the other one receives, which it does while its own sends are refused.
TEST_F(PerfTest, both_ends_send_more_than_either_takes)
{
	options.test = perf::Test::bibandwidth;
	options.verify = true;
	options.iterations = 5000;
	options.window = 64;
	options.batch = 16;
	fake::behaviour().recvs_max = 16 + 8;
	fake::behaviour().unexpected_max = 4;

	const Row row = measure(100);

	EXPECT_EQ(row.error, "");
	EXPECT_EQ(row.mismatched, 0u);
	EXPECT_EQ(server_code, 0);
}

TEST_F(PerfTest, a_tiny_ring)
{
	options.ring_entries = 2;
	options.verify = true;
	for (perf::Test test : {perf::Test::latency, perf::Test::bandwidth, perf::Test::bibandwidth}) {
		options.test = test;

		Row row = measure(100);

		EXPECT_EQ(row.error, "");
		EXPECT_EQ(row.mismatched, 0u);
	}
}

TEST_F(PerfTest, native_counts_what_is_lost)
{
	options.modes = {IBRELK_MODE_UD_NATIVE};
	options.verify = true;
	fake::behaviour().lose_every = 50;
	for (perf::Test test : streams) {
		options.test = test;

		Row row = measure(1000);
		const unsigned directions = test == perf::Test::bibandwidth ? 2 : 1;

		EXPECT_EQ(row.error, "");
		EXPECT_GT(row.lost, 0u);
		EXPECT_EQ(row.lost + row.messages, directions * 500u);
		EXPECT_EQ(row.verified, row.messages);
		EXPECT_EQ(row.mismatched, 0u);
		EXPECT_EQ(server_code, 0);
	}
}

TEST_F(PerfTest, native_latency_goes_on_after_a_loss)
{
	options.modes = {IBRELK_MODE_UC_NATIVE};
	options.verify = true;
	options.iterations = 100;
	options.warmup = 0;
	fake::behaviour().lose_every = 45;

	Row row = measure(100);

	EXPECT_EQ(row.error, "");
	EXPECT_GT(row.lost, 0u);
	EXPECT_EQ(row.lost + row.latency.samples, 100u);
	EXPECT_EQ(row.verified, row.messages);
	EXPECT_EQ(row.mismatched, 0u);
}

// Found by the soak: what was sent while the link was down arrived at once, and the answers were written over
// each other.
TEST_F(PerfTest, native_latency_while_the_wire_is_down)
{
	fake::behaviour().hold_from = 21;
	fake::behaviour().hold_count = 3;
	expect_all_right_but_late(2);
}

// Likewise a ping that the kernel had no room for, given up for lost, and the next one.
TEST_F(PerfTest, native_latency_while_there_is_no_room)
{
	fake::behaviour().refuse_from = 21;
	fake::behaviour().refuse_ms = 300;
	expect_all_right_but_late(1);
}

TEST_F(PerfTest, native_loses_everything)
{
	options.modes = {IBRELK_MODE_UC_NATIVE};
	options.test = perf::Test::bandwidth;
	options.warmup = 0;
	fake::behaviour().lose_every = 1;

	Row row = measure(100);

	EXPECT_EQ(row.error, "");
	EXPECT_EQ(row.lost, 500u);
}

TEST_F(PerfTest, wrong_bytes_are_found)
{
	options.verify = true;
	options.warmup = 0;
	fake::behaviour().corrupt_every = 100;
	for (perf::Test test : {perf::Test::latency, perf::Test::bandwidth, perf::Test::bibandwidth}) {
		options.test = test;

		Row row = measure(1000);

		EXPECT_GE(row.mismatched, 5u);
		EXPECT_EQ(row.mismatched + row.verified, row.messages);
	}
	options.verify = false;
	EXPECT_EQ(measure(1000).mismatched, 0u);
}

TEST_F(PerfTest, repeated_messages_are_found)
{
	options.test = perf::Test::bandwidth;
	options.warmup = 0;
	fake::behaviour().repeat_every = 100;
	EXPECT_GT(measure(1000).mismatched, 0u);
}

TEST_F(PerfTest, no_server)
{
	options.connect_timeout_s = 0.3;

	try {
		Client client(options, IBRELK_MODE_UC_RELIABLE, stop);

		client.measure(8);
		FAIL();
	} catch (const tool::Failure &failure) {
		EXPECT_EQ(failure.code(), tool::exit_timeout);
		EXPECT_NE(std::string(failure.what()).find("the peer refused"), std::string::npos)
			<< failure.what();
		EXPECT_NE(std::string(failure.what()).find("10.1.0.1:7476"), std::string::npos)
			<< failure.what();
	}
}

TEST_F(PerfTest, sends_that_never_complete)
{
	options.test = perf::Test::bandwidth;
	options.timeout_s = 0.3;
	fake::behaviour().hold_sends = true;
	fake::behaviour().sends_max = 100;

	Row row = measure(8);

	EXPECT_NE(row.error.find("no progress for 0.3 s"), std::string::npos) << row.error;
	EXPECT_EQ(code, tool::exit_timeout);
	fake::release_sends(1000);
}

// The kernel takes no more of a client that is interrupted; once it does, the server is told, and need not
// wait for more.
TEST_F(PerfTest, interrupted_while_there_is_no_room)
{
	Options server_options = options;
	std::atomic<bool> interrupted{false}, over{false};

	options.test = perf::Test::bandwidth;
	options.iterations = 1u << 30;
	options.warmup = 0;
	options.timeout_s = 3600;
	server_options.role = Role::server;
	server_options.once = true;
	server_options.timeout_s = 3600;
	fake::behaviour().hold_sends = true;
	fake::behaviour().sends_max = options.window / 2;

	Server server(server_options, stop);
	std::thread serving([&] {
		server_code = server.serve();
		over = true;
	});
	std::thread interrupting([&] {
		// A stream that is refused tries again and again. Room comes up when nobody does any more.
		while (!stop && fake::calls().submit_ioctl < 1000)
			std::this_thread::yield();
		interrupted = true;
		while (!over) {
			const std::uint32_t before = fake::calls().submit_ioctl;

			std::this_thread::sleep_for(std::chrono::milliseconds(50));
			if (fake::calls().submit_ioctl == before)
				fake::release_sends(1000);
		}
	});
	Client client(options, options.modes[0], interrupted);

	EXPECT_THROW(client.measure(8), tool::Failure);
	// Whether it was told or not, it ends.
	stop = true;
	interrupting.join();
	serving.join();
	EXPECT_EQ(server_code, tool::exit_failed);
}

TEST_F(PerfTest, many_sizes_and_modes_on_one_server)
{
	Options server_options = options;

	server_options.role = Role::server;
	server_options.modes = {};

	Server server(server_options, stop);
	std::thread thread([&] { server_code = server.serve(); });

	options.verify = true;
	for (std::uint32_t mode = 0; mode < IBRELK_MODE_COUNT; mode++) {
		Client client(options, mode, stop);

		for (perf::Test test : {perf::Test::latency, perf::Test::bandwidth, perf::Test::bibandwidth,
			     perf::Test::rate, perf::Test::overlap}) {
			options.test = test;
			for (std::uint64_t bytes : {0, 9000})
				EXPECT_EQ(client.measure(bytes).mismatched, 0u);
		}
		client.bye();
	}
	stop = true;
	thread.join();
	EXPECT_EQ(server_code, 0);
}

// Two clients at once: one of them is told that the server is busy, and waits.
TEST_F(PerfTest, two_clients_take_turns)
{
	Options server_options = options;

	server_options.role = Role::server;
	options.test = perf::Test::bandwidth;
	options.iterations = 20'000;
	options.verify = true;

	Server server(server_options, stop);
	std::thread thread([&] { server_code = server.serve(); });
	std::atomic<int> good{0};
	auto measure_once = [&] {
		Client client(options, IBRELK_MODE_UC_RELIABLE, stop);

		good += client.measure(64).verified == 20'000;
	};
	std::thread first(measure_once);
	std::thread second(measure_once);

	first.join();
	second.join();
	stop = true;
	thread.join();
	EXPECT_EQ(good, 2);
}
