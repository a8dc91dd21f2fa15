// SPDX-License-Identifier: GPL-2.0-only
//
// Messages that are received without a copy, into a buffer that is the application's again as soon as they
// have come: not one byte of it changes any more, whatever the network still has of what was written there.
// And what was sent is what the buffer held before its completion.
//
// tests/selftests/late keeps RDMA writes and sends them again; tests/selftests/actor (reuse) uses the buffer.
// Of what arrives for a UC queue pair, soft-RoCE counts all packets (rcvd_pkts), and those that it has taken
// (rdma_recvs). The difference are those that it has refused: so a test knows that late writes have arrived,
// and did not get in.
#include "cluster.hpp"

#include <regex>

#include <fmt/format.h>

namespace cluster
{

namespace
{

constexpr int message_bytes = 256 << 10;
constexpr long recorded = 60;          // writes that are kept, of the 66 of a message
constexpr int short_bytes = 128 << 10; // the shortest that is written, and of one registration
constexpr int short_writes = 30;       // at least, for each of those
constexpr int spoiled = 238;           // what a sender's buffer is filled with
constexpr const char *hold_file = "/tmp/hold";
constexpr const char *writes_file = "/tmp/writes.pcap";

long number_of(const std::string &text, const std::string &name)
{
	std::smatch match;

	EXPECT_TRUE(std::regex_search(text, match, std::regex(name + "\"?:? ([0-9]+)")))
		<< name << " in " << text;
	return match.empty() ? -1 : std::stol(match[1]);
}

// What somebody's buffer has gone through.
struct Fate {
	long wrong, changed, looks;
};

class Fence : public ClusterTest
{
protected:
	void SetUp() override
	{
		ClusterTest::SetUp();
		release();
	}

	void TearDown() override
	{
		/* A node that has failed is started anew below. */
		if (!HasFailure()) {
			release();
			set("auto_uc_rate", 2000);
			set("auto_uc_idle_ms", 10000);
		}
		ClusterTest::TearDown();
	}

	// From now on, who has received a message keeps the buffer.
	static void hold()
	{
		lab().run_ok(2, fmt::format("touch {}", hold_file));
	}

	static void release()
	{
		lab().run_ok(2, fmt::format("rm -f {}", hold_file));
	}

	// The path is there, and has a queue pair that can write, and keeps it for so long without traffic.
	static void connect(const std::string &mode, int lane_stays_s = 600)
	{
		need_server();
		perf("latency --iterations 2 --size 8 --mode " + mode);
		if (mode != "auto")
			return;
		set("auto_uc_rate", 1);
		perf("bandwidth --iterations 300 --size 32768 --mode auto");
		for (int node : {1, 2})
			lab().wait_until(node, built("user/tools/ibrelk") + " show paths | grep -q auto+uc");
		/* However slow the emulated nodes are. */
		set("auto_uc_idle_ms", lane_stays_s * 1000);
	}

	static lab::Job start_receiver(
		const std::string &mode, int messages, int looks = 1, int bytes = message_bytes)
	{
		auto job = lab().start(2,
			fmt::format("exec {} reuse --mode {} --bytes {} --expect {} --looks {} --hold {}",
				built("tests/selftests/actor"), mode, bytes, messages, looks, hold_file));

		job.wait_for_output("serving", Duration(60));
		return job;
	}

	static std::string sending(const std::string &mode, int messages, int first, int bytes)
	{
		return fmt::format(
			"{} send --to 10.1.0.2 --mode {} --count {} --first {} --bytes {} --spoil {} ",
			built("tests/selftests/actor"), mode, messages, first, bytes, spoiled);
	}

	static void send(const std::string &mode, int messages, int first, int bytes = message_bytes,
		const std::string &how = "")
	{
		const Result result =
			lab().run(1, sending(mode, messages, first, bytes) + how, Duration(300 + messages));

		EXPECT_EQ(result.status, 0) << result.output;
	}

	static Fate fate_of(lab::Job &receiver, int messages)
	{
		receiver.wait_for_output(fmt::format("received {}, wrong ", messages), Duration(300));

		const std::string output = receiver.output();
		const Fate fate{number_of(output, "wrong"), number_of(output, ", changed"),
			number_of(output, "looks")};

		EXPECT_GE(fate.looks, messages) << output;
		receiver.kill(15);
		receiver.wait(Duration(60));
		return fate;
	}

	static void expect_unharmed(lab::Job &receiver, int messages)
	{
		const Fate fate = fate_of(receiver, messages);

		EXPECT_EQ(fate.wrong, 0) << receiver.output();
		EXPECT_EQ(fate.changed, 0) << receiver.output();
	}

	static lab::Job start_late(const std::string &arguments)
	{
		auto job = lab().start(1,
			fmt::format("exec {} {} --to 10.1.0.2 --file {}", built("tests/selftests/late"),
				arguments, writes_file));

		job.wait_for_output("listening", Duration(60));
		return job;
	}

	// What it has done.
	static std::string end_of(lab::Job &late)
	{
		const Result result = late.wait(Duration(300));

		EXPECT_EQ(result.status, 0) << result.output;
		return result.output;
	}

	static std::string stop(lab::Job &late)
	{
		late.kill(15);
		return end_of(late);
	}

	// How many packets node 2's adapter has refused: without a message, only those that are too late.
	static Growth refused()
	{
		return {"packets refused by node 2", [] {
				const std::string folder = "/sys/class/infiniband/rxe0/ports/1/hw_counters/";
				const std::string both = lab().run_ok(
					2, fmt::format("cd {} && cat rdma_recvs rcvd_pkts", folder));

				return std::stol(both.substr(both.find('\n'))) - std::stol(both);
			}};
	}

	// Sends the first message, and keeps its writes, while the buffer that it was received into is in
	// use.
	static void record(lab::Job &receiver, const std::string &mode)
	{
		lab().run_ok(1, fmt::format("rm -f {}", writes_file));
		Growth written = growth(2, "rx_written", mode);
		auto late = start_late(fmt::format("record --packets {}", recorded));

		hold();
		send(mode, 1, 0);
		ASSERT_EQ(number_of(end_of(late), "seen"), recorded);
		ASSERT_GE(written.value(), recorded);
		receiver.wait_for_output("holding 1\n", Duration(60));
	}

	static void expect_refused(Growth &none, const lab::Job &receiver)
	{
		const auto unchanged = [&] {
			return receiver.output().find("CHANGED") == std::string::npos;
		};

		EXPECT_TRUE(none.reaches(recorded, Duration(60), unchanged)) << receiver.output();
	}

	// The writes of a finished transfer arrive once more; the node gets them all, and refuses them all.
	static void replay(const lab::Job &receiver)
	{
		Growth none = refused();
		auto late = start_late("send");

		EXPECT_EQ(number_of(end_of(late), "sent"), recorded);
		expect_refused(none, receiver);
	}

	// The same for the queue pair of the path now, with the PSN that it expects.
	static void replay_redirected(const lab::Job &receiver, const std::string &mode)
	{
		Growth none = refused();
		auto late = start_late("send --redirect");

		/* It learns both from what the node sends. */
		perf("latency --iterations 2 --size 8 --mode " + mode);
		EXPECT_EQ(number_of(end_of(late), "sent"), recorded);
		expect_refused(none, receiver);
	}

	static void release_and_wait(lab::Job &receiver, int received)
	{
		release();
		receiver.wait_for_output(fmt::format("held {}\n", received), Duration(60));
	}

	// While messages are sent, something follows each write. Returns how many somethings.
	static long shadowed(const std::string &with, const std::string &mode, int messages, int bytes)
	{
		auto late = start_late("shadow --gap-us 0 --with " + with);

		send(mode, messages, 1, bytes);
		return number_of(stop(late), "sent");
	}

	// One message that does not come to its end, as its sender is killed.
	static void die_in_the_middle(const std::string &mode, int bytes)
	{
		Growth written = growth(2, "rx_written", mode);
		auto sender = lab().start(1, "exec " + sending(mode, 1, 0, bytes));

		ASSERT_TRUE(written.reaches(20, Duration(60), [&] { return sender.running(); }))
			<< sender.output();
		sender.kill(9);
		EXPECT_NE(sender.wait(Duration(60)).status, 0) << "it has come to its end";
	}

	// Copies that arrive before, while, and after the windows that they were written to are closed.
	static void copies_around_the_end(const std::string &mode, int messages)
	{
		connect(mode);
		auto receiver = start_receiver(mode, messages, 3);
		Growth written = growth(2, "rx_written", mode);
		Growth duplicates = growth(2, "rx_duplicates", mode);
		Growth none = refused();
		const long sent = shadowed("copy --spread-us 10000", mode, messages, short_bytes);

		expect_unharmed(receiver, messages);
		EXPECT_GE(written.value(), messages * short_writes);
		EXPECT_GE(sent, messages * short_writes);
		/* Either side of the end was met. */
		EXPECT_GT(duplicates.value(), 0) << "copies in time";
		EXPECT_GT(none.value(), 0) << "copies too late";
	}

	// A wire that repeats and delays, and either buffer used for other things at once. What is lost as
	// well is sent again later than all copies; so copies come too late where nothing is.
	static void bad_wire(const std::string &mode, int messages)
	{
		const bool writes = !mode.starts_with("ud"), loses = !mode.ends_with("native");
		// Whether a copy is the last of a message, and comes after its end, is chance: few messages
		// may have to be sent again and again.
		const int tries = writes ? 1 + 180 / messages : 1, all = (tries + loses) * messages;
		int first = 0;

		connect(mode);
		auto receiver = start_receiver(mode, all, 3);
		auto watcher = start_late(fmt::format("watch --byte {}", spoiled));
		Growth written = growth(2, "rx_written", mode);

		const auto run = [&](const std::string &loss) {
			Growth duplicates = growth(2, "rx_duplicates", mode);

			for (int node : {1, 2})
				lab().set_fault(node, "duplicate 20% delay 5ms 5ms" + loss);
			send(mode, messages, first);
			first += messages;
			EXPECT_GT(duplicates.value(), 0);
		};
		Growth none = refused();
		do
			run("");
		while (writes && !none.value() && first < tries * messages);
		if (writes) {
			EXPECT_GT(none.value(), 0) << "no copy was too late";
		}
		if (loses) {
			Growth repeated("what node 1 has sent again", [&] {
				return counter(1, "retransmits_rack", mode) +
					counter(1, "retransmits_probe", mode) +
					counter(1, "retransmits_timeout", mode);
			});

			run(" loss 2%");
			EXPECT_GT(repeated.value(), 0);
		}
		for (int node : {1, 2})
			lab().clear_fault(node);
		if (first < all)
			send(mode, all - first, first);

		const std::string watched = stop(watcher);

		expect_unharmed(receiver, all);
		EXPECT_GT(number_of(watched, "seen"), all * recorded) << watched;
		EXPECT_EQ(number_of(watched, "spoiled"), 0) << watched;
		EXPECT_EQ(number_of(watched, "missed"), 0) << watched;
		if (writes) {
			EXPECT_GT(written.value(), all * recorded / 2);
		}
	}
};

class FenceModes : public Fence, public ::testing::WithParamInterface<std::string>
{
};

// After the transfer, during later ones to the same buffer, and after more than 256 registrations.
TEST_P(FenceModes, writes_replayed_after_their_transfer)
{
	constexpr int during = 40, registrations = 300, all = 1 + during + registrations + 1;
	const std::string mode = GetParam();

	connect(mode);
	auto receiver = start_receiver(mode, all);
	Growth written = growth(2, "rx_written", mode);
	Growth copied = growth(2, "windows_copied", mode);
	Growth none = refused();

	ASSERT_NO_FATAL_FAILURE(record(receiver, mode));
	replay(receiver);
	replay_redirected(receiver, mode);
	release_and_wait(receiver, 1);

	auto late = start_late("send --count 0 --gap-us 2000");

	EXPECT_TRUE(none.reaches(3 * recorded)) << "it has not begun";
	const long before = none.value();
	/* Half of them are repeated, reordered and lost, too, by a wire of which native modes bear what does
	 * not lose. */
	send(mode, during / 2, 1);
	for (int node : {1, 2})
		lab().set_fault(node,
			std::string("duplicate 20% delay 5ms 5ms") + (mode == "uc-native" ? "" : " loss 2%"));
	send(mode, during / 2, 1 + during / 2);
	for (int node : {1, 2})
		lab().clear_fault(node);
	EXPECT_GT(none.value() - before, recorded) << "not while messages were sent";
	const long replayed = number_of(stop(late), "sent");

	send(mode, registrations, 1 + during, short_bytes);
	hold();
	send(mode, 1, all - 1);
	receiver.wait_for_output(fmt::format("holding {}\n", all), Duration(120));
	EXPECT_EQ(copied.value(), 0);
	/* What is lost, or comes too late to be told, goes again as a packet. */
	EXPECT_GE(written.value(), (1 + during / 2) * recorded + long{registrations} * short_writes);
	replay(receiver);
	replay_redirected(receiver, mode);
	release_and_wait(receiver, all);
	expect_unharmed(receiver, all);
	EXPECT_GE(none.value(), replayed + 4 * recorded);
}

INSTANTIATE_TEST_SUITE_P(All, FenceModes, ::testing::Values("uc-reliable", "uc-native", "auto"),
	[](const auto &info) { return test_name(info.param); });

// That a key is in use again by the time that an old write comes is played by giving the write that key.
TEST_F(Fence, a_key_in_use_again_is_no_good_without_its_address)
{
	constexpr int messages = 20;
	const std::string mode = "uc-reliable";

	connect(mode);
	auto receiver = start_receiver(mode, 1 + messages);

	ASSERT_NO_FATAL_FAILURE(record(receiver, mode));
	release_and_wait(receiver, 1);

	/* Writes leave one by one, so that what follows one arrives before the next, and the key is alive. */
	Growth none = refused();
	lab().set_fault(1, "rate 20mbit");
	const long sent = shadowed("key", mode, messages, message_bytes);

	EXPECT_GE(sent, messages * recorded);
	expect_unharmed(receiver, 1 + messages);
	EXPECT_TRUE(none.reaches(sent));
}

// The test of this test: with key and address, what follows a write in the same way does its harm. Not
// always: a node that its host stops for as long as a message takes (0.4 s) lets all writes go at once when
// it goes on, and what follows them comes after their end.
TEST_F(Fence, what_has_key_and_address_does_get_in)
{
	constexpr int messages = 10;
	const std::string mode = "uc-reliable";

	connect(mode);
	auto receiver = start_receiver(mode, messages);

	lab().set_fault(1, "rate 5mbit");
	EXPECT_GE(shadowed("damage", mode, messages, message_bytes), messages * recorded);

	const Fate fate = fate_of(receiver, messages);

	EXPECT_GE(fate.wrong, messages / 2) << receiver.output();
	EXPECT_EQ(fate.changed, 0) << receiver.output();
}

// And of that of the sender's buffer: if that is used before its completion, what goes over the wire shows
// it.
TEST_F(Fence, a_buffer_used_too_early_is_seen_on_the_wire)
{
	constexpr int messages = 5;
	const std::string mode = "uc-reliable";

	connect(mode);
	auto receiver = start_receiver(mode, messages);
	auto watcher = start_late(fmt::format("watch --byte {}", spoiled));

	lab().set_fault(1, "rate 20mbit");
	send(mode, messages, 0, message_bytes, "--hasty");
	EXPECT_GT(number_of(stop(watcher), "spoiled"), 0);
	EXPECT_EQ(fate_of(receiver, messages).wrong, messages) << receiver.output();
}

TEST_F(Fence, writes_replayed_after_their_queue_pair)
{
	const std::string mode = "uc-reliable";

	if (lab().options().kernel != "6.1")
		GTEST_SKIP() << "from 6.12 on soft-RoCE drops a packet that is too long, and its queue pair "
				"lives on";
	connect(mode);
	auto receiver = start_receiver(mode, 2);

	ASSERT_NO_FATAL_FAILURE(record(receiver, mode));

	auto traffic = lab().start(1,
		built("user/tools/ibrelk-perf") +
			" bibandwidth 10.1.0.2 --verify --mixed --size 600 --iterations 100000000 --timeout "
			"60 --mode " +
			mode);
	Growth rebuilt = growth(2, "reconnects", mode);

	ASSERT_TRUE(rebuilt.reaches(1, Duration(90), [&] {
		lab().run(1,
			built("tests/selftests/inject") +
				" --interface eth0 --to 10.1.0.2 --replay-mutated --kinds oversized "
				"--packets 4 "
				"--limit 3");
		return traffic.running();
	})) << traffic.output();
	traffic.kill(15);
	traffic.wait(Duration(60));
	replay_redirected(receiver, mode);
	release_and_wait(receiver, 1);
	send(mode, 1, 1);
	expect_unharmed(receiver, 2);
}

// The same on any kernel: a path that is idle gives its queue pair back, and gets another one.
TEST_F(Fence, writes_replayed_after_their_lane)
{
	const std::string mode = "auto";
	constexpr int lane_stays_s = 60;

	/* A lane of an earlier test may have been told to stay for longer. */
	stop_server();
	renew_modules();
	connect(mode, lane_stays_s);
	auto receiver = start_receiver(mode, 2);
	Growth lanes = growth(2, "lanes", mode);

	ASSERT_NO_FATAL_FAILURE(record(receiver, mode));
	set("auto_uc_idle_ms", 100);
	/* A path sees that when the time that it had before is over. */
	for (int node : {1, 2})
		lab().wait_until(node, "! " + built("user/tools/ibrelk") + " show paths | grep -q auto+uc",
			Duration(lane_stays_s + 30));
	set("auto_uc_idle_ms", 10000);
	connect(mode);
	EXPECT_GE(lanes.value(), 1);
	replay_redirected(receiver, mode);
	release_and_wait(receiver, 1);
	send(mode, 1, 1);
	expect_unharmed(receiver, 2);
}

// The receiver's path goes with the sender's module, and its memory does not.
TEST_F(Fence, writes_replayed_after_their_path)
{
	const std::string mode = "uc-reliable";

	connect(mode);
	auto receiver = start_receiver(mode, 2);

	ASSERT_NO_FATAL_FAILURE(record(receiver, mode));
	ASSERT_EQ(unload_module(1).status, 0);
	load_module(1);
	perf("latency --iterations 2 --size 8 --mode " + mode);
	replay_redirected(receiver, mode);
	release_and_wait(receiver, 1);
	send(mode, 1, 1);
	expect_unharmed(receiver, 2);
}

TEST_F(Fence, copies_of_writes_around_the_end_of_their_window)
{
	copies_around_the_end("uc-reliable", 60);
}

class FenceEnds : public Fence, public ::testing::WithParamInterface<std::string>
{
};

// A message is given up while it is written, and more of it is on its way: from when that is said, the buffer
// is the receiver's, too.
TEST_P(FenceEnds, writes_of_a_sender_that_has_died)
{
	constexpr int deaths = 20, bytes = 8 << 20;
	const std::string mode = GetParam();

	connect(mode);
	auto receiver = start_receiver(mode, 1, 5, bytes);
	auto late = start_late("shadow --gap-us 0 --with copy --spread-us 50000");
	Growth none = refused();

	/* A message takes half a minute, and some of it waits in the network when its sender dies, or is lost
	 * and repeated. A queue that is full would break queue pairs from 6.12 on, also that of the
	 * connection manager (transport.rst). */
	lab().set_fault(1, mode.ends_with("native") ? "rate 4mbit" : "rate 4mbit loss 5%");
	for (int i = 1; i <= deaths; i++) {
		ASSERT_NO_FATAL_FAILURE(die_in_the_middle(mode, bytes));
		/* What is written afterwards is the next one's. */
		receiver.wait_for_output(fmt::format("reset {}\n", i), Duration(60));
	}
	lab().clear_fault(1);
	EXPECT_GT(number_of(stop(late), "sent"), deaths * 20);
	EXPECT_GT(none.value(), deaths) << "none was too late";
	send(mode, 1, 0, bytes);
	expect_unharmed(receiver, 1);
	EXPECT_EQ(number_of(receiver.output(), "given up"), deaths) << receiver.output();
}

INSTANTIATE_TEST_SUITE_P(All, FenceEnds, ::testing::Values("uc-reliable", "uc-native", "auto"),
	[](const auto &info) { return test_name(info.param); });

// Over a reliable connection the adapter takes nothing twice, and a write whose key has gone ends the
// connection.
class FenceRc : public Fence, public ::testing::WithParamInterface<std::string>
{
protected:
	static Growth taken_for_copies()
	{
		return {"copies that node 2 has seen", [] {
				return std::stol(lab().run_ok(2,
					"cat "
					"/sys/class/infiniband/rxe0/ports/1/hw_counters/duplicate_request"));
			}};
	}

	// What they have counted, which tells why a connection has ended.
	static std::string adapters()
	{
		std::string all;

		for (int node : {1, 2})
			all += lab().run_ok(
				node, "cd /sys/class/infiniband/rxe0/ports/1/hw_counters && grep . *");
		return all;
	}

	static std::vector<Growth> connections(const std::string &mode)
	{
		std::vector<Growth> all;

		for (int node : {1, 2})
			for (const std::string what : {"lives", "reconnects"})
				all.push_back(growth(node, what, mode));
		return all;
	}
};

TEST_P(FenceRc, writes_replayed_after_their_transfer)
{
	constexpr int during = 40;
	const std::string mode = GetParam();

	connect(mode);
	auto receiver = start_receiver(mode, 1 + during);
	Growth written = growth(2, "rx_written", mode);
	Growth copies = taken_for_copies();
	auto connected = connections(mode);

	ASSERT_NO_FATAL_FAILURE(record(receiver, mode));
	auto late = start_late("send");
	EXPECT_EQ(number_of(end_of(late), "sent"), recorded);
	EXPECT_TRUE(copies.reaches(recorded));
	release_and_wait(receiver, 1);

	auto more = start_late("send --count 0 --gap-us 2000");
	EXPECT_TRUE(copies.reaches(3 * recorded)) << "it has not begun";
	send(mode, during / 2, 1);
	for (auto &what : connected)
		EXPECT_EQ(what.value(), 0) << adapters();
	/* It repeats and loses, whatever that does to the connection. What is reordered the adapter sends
	 * again from there on. */
	for (int node : {1, 2})
		lab().set_fault(node, "duplicate 20% loss 1%");
	send(mode, during / 2, 1 + during / 2);
	for (int node : {1, 2})
		lab().clear_fault(node);
	stop(more);
	expect_unharmed(receiver, 1 + during);
	EXPECT_GE(written.value(), (1 + during / 2) * recorded);
}

// A write that has the PSN that is expected, and a key that has gone: it harms the connection, and nothing
// else.
TEST_P(FenceRc, a_write_by_an_old_key_ends_the_connection)
{
	const std::string mode = GetParam();

	connect(mode);
	auto receiver = start_receiver(mode, 1 + (mode == "rc-reliable"));

	ASSERT_NO_FATAL_FAILURE(record(receiver, mode));

	Growth lost("connections that have ended",
		[&] { return counter(2, "reconnects", mode) + counter(2, "lives", mode); });
	auto late = start_late("send --redirect --gap-us 2000");
	try_perf("latency 10.1.0.2 --iterations 2 --size 8 --mode " + mode);
	end_of(late);
	/* The path is made anew by whoever wants it next. */
	try_perf("latency 10.1.0.2 --iterations 2 --size 8 --mode " + mode);
	EXPECT_GE(lost.value(), 1);
	release_and_wait(receiver, 1);
	if (mode == "rc-reliable")
		send(mode, 1, 1);
	expect_unharmed(receiver, 1 + (mode == "rc-reliable"));
}

// A connection that ends again and again, often as soon as it has been made anew: one that is made by a
// packet that comes before the third step can be given up at any time as well.
TEST_P(FenceRc, ends_again_and_again)
{
	constexpr int ends = 150;
	const std::string mode = GetParam();

	connect(mode);
	auto receiver = start_receiver(mode, 1);

	ASSERT_NO_FATAL_FAILURE(record(receiver, mode));

	Growth lost("connections that have ended",
		[&] { return counter(2, "reconnects", mode) + counter(2, "lives", mode); });
	auto late = start_late("send --redirect --count 0 --gap-us 5000");
	auto traffic = lab().start(1,
		fmt::format("exec {} latency 10.1.0.2 --iterations 100000000 --size 8 --timeout 25 --mode {}",
			built("user/tools/ibrelk-perf"), mode));
	EXPECT_TRUE(lost.reaches(ends, Duration(240), [&] { return traffic.running(); })) << traffic.output();
	stop(late);
	traffic.kill(15);
	traffic.wait(Duration(60));
	release_and_wait(receiver, 1);
	expect_unharmed(receiver, 1);
}

// Whoever dies in the middle of a message, on either side: what is on its way for it is awaited, so that the
// others keep their connection.
TEST_P(FenceRc, long_who_dies_ends_no_connection)
{
	constexpr int deaths = 3;
	const std::string mode = GetParam(), perf_tool = "exec " + built("user/tools/ibrelk-perf");

	stop_server();
	wait_for_no_endpoints();
	const Pinned pinned = pinned_pages();

	connect(mode);
	auto bystander = lab().start(1,
		perf_tool +
			" bibandwidth 10.1.0.2 --verify --mixed --size 600 --iterations 100000000 --events "
			"--timeout "
			"60 --mode " +
			mode);
	Growth traffic = growth(2, "rx_messages", mode);
	ASSERT_TRUE(traffic.reaches(100, Duration(60), [&] { return bystander.running(); }))
		<< bystander.output();

	auto connected = connections(mode);

	for (int i = 0; i < deaths; i++)
		for (int victim : {1, 2}) {
			auto receiver =
				lab().start(2, perf_tool + " --server --local 10.1.0.2:78 --modes " + mode);

			lab().wait_until(
				2, built("user/tools/ibrelk") + " show endpoints | grep -q 10.1.0.2:78");
			Growth written = growth(2, "rx_written", mode);
			auto sender = lab().start(1,
				perf_tool +
					" bandwidth 10.1.0.2:78 --iterations 100000000 --size 4M --events "
					"--timeout "
					"60 --mode " +
					mode);
			ASSERT_TRUE(written.reaches(200, Duration(60), [&] { return sender.running(); }))
				<< sender.output();
			lab::Job &first = victim == 1 ? sender : receiver,
				 &second = victim == 1 ? receiver : sender;
			for (lab::Job *job : {&first, &second}) {
				job->kill(9);
				job->wait(Duration(60));
			}
		}
	Growth on = growth(2, "rx_messages", mode);
	EXPECT_TRUE(on.reaches(100, Duration(60), [&] { return bystander.running(); })) << bystander.output();
	for (auto &what : connected)
		EXPECT_EQ(what.value(), 0) << adapters();
	bystander.kill(15);
	bystander.wait(Duration(60));
	stop_server();
	expect_all_given_back(pinned);
}

INSTANTIATE_TEST_SUITE_P(All, FenceRc, ::testing::Values("rc-reliable", "rc-native"),
	[](const auto &info) { return test_name(info.param); });

class FenceWire : public Fence, public ::testing::WithParamInterface<std::string>
{
};

TEST_P(FenceWire, buffers_used_at_once_on_a_bad_wire)
{
	bad_wire(GetParam(), 20);
}

TEST_P(FenceWire, long_buffers_used_at_once_on_a_bad_wire)
{
	bad_wire(GetParam(), 500);
}

INSTANTIATE_TEST_SUITE_P(All, FenceWire,
	::testing::Values("uc-reliable", "uc-native", "auto", "ud-reliable", "ud-native"),
	[](const auto &info) { return test_name(info.param); });

// On nodes with two processors: a write lands on one while its region goes on the other.
class FenceSmp : public Fence, public ::testing::WithParamInterface<std::string>
{
protected:
	static void SetUpTestSuite()
	{
		end_lab(2);
	}

	static void TearDownTestSuite()
	{
		end_lab(1);
	}
};

TEST_P(FenceSmp, copies_of_writes_around_the_end_of_their_window)
{
	ASSERT_EQ(std::stoi(lab().run_ok(2, "nproc")), 2);
	copies_around_the_end(GetParam(), 300);
}

TEST_P(FenceSmp, long_copies_of_writes_around_the_end_of_their_window)
{
	copies_around_the_end(GetParam(), 2000);
}

TEST_P(FenceSmp, long_buffers_used_at_once_on_a_bad_wire)
{
	bad_wire(GetParam(), 500);
}

INSTANTIATE_TEST_SUITE_P(All, FenceSmp, ::testing::Values("uc-reliable", "uc-native", "auto"),
	[](const auto &info) { return test_name(info.param); });

} // namespace

} // namespace cluster
