// SPDX-License-Identifier: GPL-2.0-only
//
// Scenes of streams.cpp: messages of a stream wait for others, and share packets.

#include "streams.hpp"

#include <cstdio>

namespace streams
{

namespace
{

constexpr u32 stream_messages = 4; // behind unacknowledged ones: STREAM_MESSAGES
constexpr u32 packet_messages = 16, held_packets = 4;
constexpr u64 by_fabric = -1; // coalesce_us

// @count messages are sent, one in each step, or all at once. A round trip is much longer.
u32 packets_of(Scene &scene, u32 sender, u32 count)
{
	const u32 packets = scene.look(sender, receiver).packets;
	const u64 sent = scene.sent();

	scene.sends = 1ull << sender;
	scene.until("all are sent", ms, [&] { return scene.sent() - sent >= count; });
	scene.sends = 0;
	return scene.look(sender, receiver).packets - packets;
}

void check_packets(const char *what, u32 found, u32 least, u32 most)
{
	std::fprintf(stderr, "%s: %u packets\n", what, found);
	if (found < least || found > most)
		sim_fail("coalesced", "%s: %u packets instead of %u to %u", what, found, least, most);
}

// As begin(), and by messages that come alone the flow forgets that it was a stream.
void begin_calm(Scene &scene, u32 sender)
{
	begin(scene, sender);
	for (u32 i = 0; i < stream_messages; i++) {
		scene.send_one(sender, 8);
		scene.run(10 * ms);
	}
}

// All messages that were sent are there, @wait_ns and a way to the receiver later.
void check_arrived(Scene &scene, u32 sender, u64 wait_ns)
{
	scene.run(wait_ns + sim_config.delay_ns + 20 * us);
	if (scene.received(sender) != scene.sent())
		sim_fail("coalesced", "of %llu messages %llu arrive in time", scene.sent(),
			scene.received(sender));
}

// Messages that are sent one by one fill packets, and the last one is not kept for longer than it may be.
void coalesced(u32 mode, u64 wait_us)
{
	constexpr u32 sender = 1, full = 2 * held_packets * packet_messages;
	Scene scene({.mode = mode,
		.bytes = 1,
		.depth = stream_messages + full + 1,
		.spare = 1,
		.step_ns = us / 10});

	begin_calm(scene, sender);
	check_packets("full", packets_of(scene, sender, stream_messages + full + 1),
		stream_messages + full / packet_messages, stream_messages + full / packet_messages);
	check_arrived(scene, sender, wait_us * us);
	scene.run(10 * ms);
	scene.end();
}

// A message in each microsecond: as many go together as come while the first of them waits, or fill the
// packets that are waited for. That these were full before their time is no reason to send the next ones
// before their time; nor is it a reason to wait for more that the timer is late, but for the last one.
void moments(u32 mode, u64 wait_us, u64 late_us = 0)
{
	constexpr u32 sender = 1, count = 200, full = held_packets * packet_messages;
	const u32 least = std::min<u64>(full, wait_us), most = std::min<u64>(full, wait_us + 2);
	const auto packets = [](u32 together) {
		return (count - stream_messages) / together *
			((together + packet_messages - 1) / packet_messages);
	};
	Scene scene({.mode = mode, .bytes = 8, .depth = 1, .spare = count, .step_ns = us});

	begin_calm(scene, sender);
	check_packets("moments", packets_of(scene, sender, count), stream_messages + packets(most),
		stream_messages + packets(least));
	check_arrived(scene, sender, (wait_us + late_us) * us);
	scene.run(10 * ms);
	scene.end();
}

// Of what comes in one call less than a packet waits; what fills one goes at once, and takes along what
// waits.
void batch(u32 mode)
{
	constexpr u32 sender = 1, some = packet_messages - 1;
	Scene scene({.mode = mode,
		.bytes = 1,
		.depth = stream_messages,
		.spare = 3 * packet_messages,
		.step_ns = us});
	const auto packets = [&](u32 count) {
		const u32 before = scene.look(sender, receiver).packets;
		scene.send_batch(sender, count);
		return scene.look(sender, receiver).packets - before;
	};

	begin_calm(scene, sender);
	packets_of(scene, sender, stream_messages);
	check_packets("less than a packet", packets(some), 0, 0);
	check_packets("a packet", packets(packet_messages), 2, 2);
	check_arrived(scene, sender, 0);
	scene.run(10 * ms);
	scene.end();
}

// What may not wait takes along what does: one for somebody else, which begins with a request.
void urged(u32 mode)
{
	constexpr u32 sender = 1, held = 3;
	Scene scene({.mode = mode, .bytes = 168, .depth = stream_messages + held, .spare = 2, .step_ns = us});

	begin_calm(scene, sender);
	check_packets(
		"held", packets_of(scene, sender, stream_messages + held), stream_messages, stream_messages);
	scene.knock(sender, 1);
	check_arrived(scene, sender, 0);
	scene.until("the other one is refused", second, [&] { return scene.refused() == 1; });
	scene.run(10 * ms);
	scene.end();
}

// Messages that nothing may be done with, or that are too few to be a stream, are sent at once.
void at_once(u32 mode, u32 count, u64 bytes, u32 level = IBRELK_LEVEL_BUFFERED)
{
	constexpr u32 sender = 1;
	Scene scene(
		{.mode = mode, .bytes = bytes, .level = level, .depth = count, .spare = 1, .step_ns = us});

	begin_calm(scene, sender);
	check_packets("at once", packets_of(scene, sender, count), count, count);
	check_arrived(scene, sender, 0);
	scene.run(10 * ms);
	scene.end();
}

// After a pause a stream is one again sooner than it became one.
void paused(u32 mode)
{
	constexpr u32 sender = 1, soon = stream_messages / 2;
	Scene scene({.mode = mode, .bytes = 8, .depth = stream_messages, .spare = 1, .step_ns = us});

	begin(scene, sender);
	check_packets("paused", packets_of(scene, sender, stream_messages), soon, soon);
	check_arrived(scene, sender, 1000 * us);
	scene.run(10 * ms);
	scene.end();
}

// Messages that are not short share packets, too: @together fill those that are waited for, and go in
// @packets; alone each takes @each.
void packed(u32 mode, u64 bytes, u32 together, u32 packets, u32 each)
{
	constexpr u32 sender = 1;
	Scene scene({.mode = mode,
		.bytes = bytes,
		.depth = stream_messages + together,
		.spare = 1,
		.step_ns = us});

	begin_calm(scene, sender);
	check_packets("packed", packets_of(scene, sender, stream_messages + together),
		stream_messages * each + packets, stream_messages * each + packets);
	check_arrived(scene, sender, 0);
	scene.run(10 * ms);
	scene.end();
}

// After a message for which there is the last place nothing can come, so nothing waits.
void last_place(u32 mode)
{
	constexpr u32 sender = 1, count = stream_messages + 5;
	Scene scene({.mode = mode, .bytes = 8, .depth = count, .step_ns = us});

	begin_calm(scene, sender);
	check_packets(
		"last place", packets_of(scene, sender, count), stream_messages + 1, stream_messages + 1);
	check_arrived(scene, sender, 0);
	scene.run(10 * ms);
	scene.end();
}

} // namespace

void coalesced_tests(std::vector<Test> &tests)
{
	for (const Mode &mode : modes) {
		const std::string name = std::string("coalesced-") + mode.name;
		auto config = distant();
		const u64 sges = config.send_sges;
		const auto add = [&](const char *what, u64 wait_us, const std::function<void()> &body) {
			config.coalesce_us = wait_us;
			tests.push_back({name + "-" + what, config, body});
		};

		config.aggregate = 1;
		add("full", 1000, [=] { coalesced(mode.id, 1000); });
		add("most", 5000, [=] { coalesced(mode.id, 1000); });
		add("moments", 5, [=] { moments(mode.id, 5); });
		add("moments-full", 70, [=] { moments(mode.id, 70); });
		add("batch", 1000, [=] { batch(mode.id); });
		add("urged", 1000, [=] { urged(mode.id); });
		add("last", 1000, [=] { last_place(mode.id); });
		add("paused", 1000, [=] { paused(mode.id); });
		add("few", 1000, [=] { at_once(mode.id, stream_messages, 8); });
		// Of 4096 bytes, with headers of 48 and 40: three payloads that are not copied fit into a
		// work request. What does not fit into a packet begins where the one before it ends.
		add("packed", 1000, [=] { packed(mode.id, 1000, 12, 4, 1); });
		add("cut", 1000, [=] { packed(mode.id, 4096, 4, 5, 2); });
		config.send_sges = 2;
		add("narrow", 1000, [=] { packed(mode.id, 1000, 12, 12, 1); });
		config.send_sges = sges;
		add("delivered", 1000, [=] { at_once(mode.id, 12, 8, IBRELK_LEVEL_DELIVERED); });
		add("adapter", by_fabric, [=] { at_once(mode.id, 12, 8); });
		config.fabric = SIM_FABRIC_SOFTWARE;
		add("software", by_fabric, [=] { coalesced(mode.id, 20); });
		add("off", 0, [=] { at_once(mode.id, 12, 8); });
		config.fabric = SIM_FABRIC_ETHERNET;
		const u64 soon_us = config.softirq_us, late_us = 400;
		config.softirq_us = late_us;
		add("late", 5, [=] { moments(mode.id, 5, 4 * late_us); });
		config.softirq_us = soon_us;
		config.aggregate = 0;
		add("alone", 1000, [=] { at_once(mode.id, 12, 8); });
	}
}

} // namespace streams
