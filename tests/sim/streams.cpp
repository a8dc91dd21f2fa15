// SPDX-License-Identifier: GPL-2.0-only
//
// Streams of messages: several senders, each on a node of its own, and one receiver that all of them write
// to. How they share what the receiver has to give, and long messages of one of them their path, what becomes
// of them while a process stands still, or others on their path do their worst, how they are posted, what
// becomes of memory that is not registered, or mapped, which congestion control they have, how long their
// packets are, and where the numbers of endpoints wrap around; which of them wait for others, to share
// packets (coalesced.cpp); question and answer (talks.cpp); and what becomes of them if a queue pair of
// datagrams fails (datagrams.cpp). Prints "N passed, N failed".
//
//	ibrelk-streams [--trace] [NAME]		all, or those whose name begins like this

#include "streams.hpp"

#include "wire.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

namespace streams
{

namespace
{

constexpr u64 ample =
	256 << 20; // memory for messages that nobody has asked for, of which no sender has too little
constexpr u64 ring_bytes = 2048; // of what is in flight, REL_RING_BYTES

// ---- fairness ----------------------------------------------------------------------------------

struct Parts {
	u64 least = ~0ull, most = 0, all = 0;
};

// What each of the senders got delivered in the next @ns.
Parts parts(Scene &scene, u32 senders, u64 ns, const std::function<void()> &first = nullptr)
{
	std::vector<u64> before;
	Parts found;

	for (u32 node = 0; node <= senders; node++)
		before.push_back(scene.received(node));
	scene.run(ns, first);
	for (u32 node = 1; node <= senders; node++) {
		const u64 part = scene.received(node) - before[node];
		found.least = std::min(found.least, part);
		found.most = std::max(found.most, part);
		found.all += part;
	}
	return found;
}

// Nobody gets less than @numerator / @denominator of what another one gets.
void alike(const char *what, const Parts &parts, u64 numerator, u64 denominator)
{
	std::fprintf(stderr, "%s: %llu to %llu messages each, %llu in all\n", what, parts.least, parts.most,
		parts.all);
	if (!parts.least || parts.least * denominator < parts.most * numerator)
		sim_fail("fair", "one gets %llu messages delivered, and another one %llu", parts.least,
			parts.most);
}

void nothing_lost(const Scene &scene, u32 senders)
{
	for (u32 node = 1; node <= senders; node++)
		if (const u64 lost = scene.look(node, receiver).lost)
			sim_fail("fair", "node %u: %llu packets were lost", node, lost);
}

// All begin at once, and nothing but packets is scarce. Grants are equal, so what differs is which of the
// round trips at the edges of the time still counts: one of 50, found to be up to 5 %.
void fair(u32 mode, u32 senders, u64 unexpected)
{
	Scene scene({.mode = mode, .senders = senders, .bytes = 64, .unexpected = unexpected});

	scene.sends = all(senders);
	scene.run(300 * ms);
	const auto found = parts(scene, senders, 50 * ms);
	alike("fair", found, 4, 5);
	nothing_lost(scene, senders);
	// Of datagrams, all together have half of the one queue, in each round trip.
	const u64 half = 50 * sim_config.ud_recv_depth / 2;
	if (mode == IBRELK_MODE_UD_RELIABLE && (found.all > half * 21 / 20 || found.all < half * 9 / 10))
		sim_fail("fair", "%llu packets in 50 round trips, with a queue of %llu", found.all,
			sim_config.ud_recv_depth);
	scene.end();
}

// The last one begins when all others stream. After five round trips it has what they have; of 20 round trips
// up to 13 % are at the edges.
void late(u32 mode, u32 senders)
{
	Scene scene({.mode = mode, .senders = senders, .bytes = 64, .unexpected = ample});

	scene.sends = all(senders - 1);
	scene.run(300 * ms);
	scene.sends = all(senders);
	scene.run(5 * ms);
	alike("late", parts(scene, senders, 20 * ms), 3, 4);
	nothing_lost(scene, senders);
	scene.end();
}

// The process takes four messages in 100 us, of whichever sender, and all of these have as many under way as
// they may. So the endpoint's memory is full. Found to be up to 1.4 times as much.
void slow(u32 mode, u32 senders)
{
	Scene scene({.mode = mode, .senders = senders, .receives = 0, .step_ns = 100 * us});

	scene.refills = false;
	scene.sends = all(senders);
	const auto take = [&] {
		scene.receives(4);
	};
	scene.run(400 * ms, take);
	alike("slow", parts(scene, senders, 800 * ms, take), 1, 2);
	scene.end();
}

// Four have streamed, and are idle, with all that they were granted. Who comes then sends as much as they
// did, and nothing by RTS for want of credit.
void newcomer(u32 mode)
{
	constexpr u32 senders = 5, last = 5;
	Scene scene({.mode = mode, .senders = senders});
	const auto rate = [&](u32 sender) {
		scene.run(300 * ms);
		const u64 before = scene.received(sender);
		scene.run(200 * ms);
		return scene.received(sender) - before;
	};

	scene.sends = all(senders - 1);
	const u64 usual = rate(1);
	scene.sends = 1ull << last;
	const u64 found = rate(last), announced = scene.look(last, receiver).rendezvous;
	std::fprintf(
		stderr, "%llu messages, %llu before by another one; %llu by RTS\n", found, usual, announced);
	if (announced || found < usual * 9 / 10)
		sim_fail("newcomer", "%llu messages in 200 round trips, as to %llu; %llu by RTS", found,
			usual, announced);
	scene.end();
}

// Long messages of one process, that begin together and share what one path may have in flight. None is ever
// ahead of another one by more than two windows of a transfer. Half a window is what the first round trip may
// make, in which only one of them has been asked for; and who has more memory pinned, as each does once or
// twice, misses what the others send meanwhile.
void transfers(u32 mode)
{
	constexpr u32 sender = 1, count = 3;
	constexpr u64 bytes = 8 << 20;
	constexpr u64 window = 512 << 10; // of a transfer, IBR_MR_MAX
	Scene scene({.mode = mode, .bytes = bytes, .depth = count, .receives = count, .apart = true});
	u64 ahead = 0;

	scene.refills = false;
	scene.sends = 1ull << sender;
	scene.run(20 * us);
	scene.sends = 0;
	scene.until(
		"all are under way", second, [&] { return scene.look(sender, receiver).transfers == count; });
	const u64 begun = sim_now();
	scene.until("all arrive", second, [&] {
		const auto seen = scene.look(sender, receiver);
		const u64 most = scene.received(sender) ? bytes : seen.arrived_most;
		if (seen.transfers)
			ahead = std::max(ahead, most - seen.arrived_least);
		return scene.received(sender) == count;
	});
	std::fprintf(stderr, "%llu bytes ahead at most, in %llu ms\n", ahead, (sim_now() - begun) / ms);
	if (ahead > 2 * window)
		sim_fail("fair", "one transfer is %llu bytes ahead of another one", ahead);
	scene.end();
}

// ---- processes that stand still ------------------------------------------------------------------

// A path between two nodes: up, in the life that it began with, and nobody was ever late.
void check_calm(const Scene &scene, u32 from, u32 to)
{
	const auto seen = scene.look(from, to);

	if (!seen.up || seen.lives != 1)
		sim_fail("calm", "node %u: the path to node %u is%s up, in its life %llu", from, to,
			seen.up ? "" : " not", seen.lives);
	if (seen.timeouts || seen.lost)
		sim_fail("calm", "node %u: %llu time-outs and %llu losses on the path to node %u", from,
			seen.timeouts, seen.lost, to);
}

// A process that stands still, be it for many times as long as after which a silent peer is given up, is
// none.
void stopped(u32 mode, u64 bytes)
{
	constexpr u32 sender = 1;
	constexpr u64 pause = 12 * second;
	Scene scene({.mode = mode, .bytes = bytes, .receives = 64});
	u64 before = 0;

	scene.sends = 1ull << sender;
	for (const u64 stands : {1ull << receiver, 1ull << sender, 1ull << receiver | 1ull << sender}) {
		scene.until("some arrive", second, [&] { return scene.received(sender) > before + 200; });
		scene.stands = stands;
		scene.run(pause, nullptr, 10 * ms);
		check_calm(scene, sender, receiver);
		check_calm(scene, receiver, sender);
		scene.stands = 0;
		before = scene.received(sender);
	}
	scene.sends = 0;
	scene.until("all arrive", second, [&] { return scene.received(sender) == scene.sent(); });
	check_calm(scene, sender, receiver);
	check_calm(scene, receiver, sender);
	std::fprintf(stderr, "%llu messages\n", scene.sent());
	scene.end();
}

// ---- what others on a path do ---------------------------------------------------------------------

constexpr u32 requests = 16;             // for flows, in a round: WIRE_FRAMES_MAX
constexpr u32 control_crowd = 128 << 10; // IBR_CONTROL_CROWD

void cut(u32 sender, u64 ns)
{
	sim::wire.cut(sender, receiver, sim_now() + ns);
	sim::wire.cut(receiver, sender, sim_now() + ns);
}

// However many flows are being opened on a path that stands still, they take nothing of what all users of the
// path have in common.
void opening(u32 mode)
{
	constexpr u32 sender = 1, count = 4000;
	Scene scene({.mode = mode, .bytes = 64, .depth = 2 * count});

	begin(scene, sender);
	cut(sender, 100 * ms);
	scene.knock(sender, count);
	if (const u32 queue = scene.look(sender, receiver).queue)
		sim_fail("opening", "%u frames wait for %u flows", queue, count);
	scene.until("all are refused", 5 * second, [&] { return scene.refused() == count; });
	scene.sends = 1ull << sender;
	const u64 before = scene.received(sender);
	scene.until("more arrive", second, [&] { return scene.received(sender) > before + 100; });
	if (scene.look(sender, receiver).lives != 1)
		sim_fail("opening", "a life has ended");
	scene.end();
}

// Memory is short while flows are being opened: requests for them wait, and leave control frames the reserve,
// by which those that are in flight are answered. Messages go on.
void starved(u32 mode)
{
	constexpr u32 sender = 1, count = 1000, in_flight = 64;
	Scene scene({.mode = mode, .bytes = 64, .depth = 2 * count});

	begin(scene, sender);
	cut(sender, 100 * ms);
	scene.knock(sender, count);
	scene.sends = 1ull << sender;
	scene.run(ms);
	scene.sends = 0;
	sim_config.alloc = 1'000'000;
	sim_troubled = true;
	scene.run(500 * ms);
	if (scene.refused() != in_flight)
		sim_fail("starved", "%llu flows are refused without memory", scene.refused());
	if (scene.received(sender) != scene.sent())
		sim_fail("starved", "of %llu messages %llu arrive", scene.sent(), scene.received(sender));
	sim_troubled = false;
	scene.until("all are refused", 5 * second, [&] { return scene.refused() == count; });
	scene.end();
}

// Messages of a flow that is open do not wait for all those that are being opened.
void turns(u32 mode)
{
	constexpr u32 sender = 1, count = 4000;
	Scene scene({.mode = mode, .bytes = 64, .depth = 2 * count});

	begin(scene, sender);
	const u64 before = scene.received(sender);
	cut(sender, 100 * ms);
	scene.knock(sender, count);
	scene.sends = 1ull << sender;
	scene.until("half of them are refused", 5 * second, [&] { return scene.refused() >= count / 2; });
	const u64 between = scene.received(sender) - before;
	std::fprintf(stderr, "%llu messages arrive meanwhile\n", between);
	if (between < count / 2 / requests)
		sim_fail("turns", "%llu flows are refused, and %llu messages arrive", scene.refused(),
			between);
	scene.until("all are refused", 5 * second, [&] { return scene.refused() == count; });
	scene.end();
}

// A user's endpoints have no more flows from a node than are left for others, who get some however many he
// has.
void shares(u32 mode)
{
	constexpr u32 sender = 1;
	constexpr s32 most = 128 << 10; // IBR_INFLOWS_MAX
	const struct {
		s32 own, others; // beside the one that there is
		int status;
	} rows[] = {
		{most / 2 - 2, 0, 0},
		{most / 2 - 1, 0, -EUSERS},
		{0, most / 2 - 1, 0},
		{0, most - 3, 0},
		{0, most - 2, -EUSERS},
		{most / 4 - 1, most / 2, -EUSERS},
		{most / 4 - 2, most / 2, 0},
	};
	Scene scene({.mode = mode, .bytes = 64, .depth = 64});
	u32 number = 5000;

	begin(scene, sender);
	for (const auto &row : rows) {
		scene.as(SIM_ADMIN, receiver,
			[&] { sim_forge_inflows(receiver, sender, mode, row.own, row.others); });
		const int status = scene.begin(sender, number++);
		scene.as(SIM_ADMIN, receiver,
			[&] { sim_forge_inflows(receiver, sender, mode, -row.own, -row.others); });
		if (status != row.status)
			sim_fail(
				"shares", "with %d of a user and %d others: %d", row.own, row.others, status);
		scene.run(10 * ms);
	}
	scene.end();
}

// Likewise of the flows to a node that are being opened.
void openings(u32 mode)
{
	constexpr u32 sender = 1;
	constexpr s32 most = 128 << 10; // IBR_OPENINGS_MAX
	const struct {
		s32 own, others; // of those that there are
		int accepted;
	} rows[] = {
		{most / 2 - 1, 0, 1},
		{most / 2, 0, -ENOMEM},
		{most / 4, most / 2 - 1, 1},
		{most / 4, most / 2, -ENOMEM},
		{4, most - 9, 1},
		{4, most - 8, -ENOMEM},
	};
	Scene scene({.mode = mode, .bytes = 64, .depth = 64});
	u32 number = 2000;
	s32 count = 1;

	begin(scene, sender);
	cut(sender, 100 * ms);
	scene.knock(sender, count);
	for (const auto &row : rows) {
		const s32 own = row.own - count;
		scene.as(SIM_ADMIN, sender,
			[&] { sim_forge_openings(sender, receiver, mode, own, row.others); });
		const int accepted = scene.knock_at(sender, number++);
		scene.as(SIM_ADMIN, sender,
			[&] { sim_forge_openings(sender, receiver, mode, -own, -row.others); });
		if (accepted != row.accepted)
			sim_fail("openings", "with %d of a user and %d others: %d", row.own, row.others,
				accepted);
		count += accepted == 1;
	}
	scene.until("all are refused", second, [&] { return scene.refused() == static_cast<u64>(count); });
	scene.end();
}

// A process may add so many addresses; those that make contact by themselves are not among them. Each is
// found again.
void peers()
{
	constexpr u32 sender = 1, count = 500;
	constexpr s32 most = 1 << 20; // IBR_PEERS_MAX
	Scene scene({.bytes = 64, .depth = 64});
	std::vector<u32> known;
	u32 handle = 0;

	for (u32 i = 0; i < count; i++) {
		// In no order.
		if (scene.know(sender, 1000 + i * 7919 % count, i % 3, handle))
			sim_fail("peers", "peer %u cannot be added", i);
		if (handle != scene.at(sender).peer + 1 + i)
			sim_fail("peers", "peer %u has handle %u", i, handle);
		known.push_back(handle);
	}
	scene.as(SIM_ADMIN, sender, [&] { sim_forge_peers(scene.at(sender).endpoint, most - count - 1); });
	if (const int ret = scene.know(sender, 1, 0, handle); ret != -ENOSPC)
		sim_fail("peers", "one too many: %d", ret);
	for (u32 i = 0; i < count; i++)
		if (scene.know(sender, 1000 + i * 7919 % count, i % 3, handle) || handle != known[i])
			sim_fail("peers", "peer %u is not found", i);
	scene.as(SIM_ADMIN, sender, [&] { sim_forge_peers(scene.at(sender).endpoint, -1); });
	if (const int ret = scene.know(sender, 1, 0, handle))
		sim_fail("peers", "the last one: %d", ret);
	scene.as(SIM_ADMIN, receiver, [&] { sim_forge_peers(scene.at(receiver).endpoint, most); });
	scene.sends = 1ull << sender;
	scene.until("who makes contact has a place", second, [&] { return scene.received(sender) > 100; });
	scene.end();
}

// Where a peer has not taken what waits for long, an endpoint that is closed does not tell of each of its
// long messages.
void closing(u32 mode)
{
	constexpr u32 sender = 1, count = 16;
	Scene scene({.mode = mode, .bytes = 200'000, .depth = count, .receives = count});

	scene.refills = false;
	scene.sends = 1ull << sender;
	scene.until("many are asked for", second,
		[&] { return scene.look(sender, receiver).asked_for >= count / 2; });
	cut(sender, 100 * ms);
	scene.as(SIM_ADMIN, sender, [&] { sim_forge_requests(sender, receiver, mode, control_crowd); });
	const u32 before = scene.look(sender, receiver).queue;
	scene.die(sender);
	const u32 after = scene.look(sender, receiver).queue;
	std::fprintf(stderr, "%u frames wait, then %u\n", before, after);
	if (before < control_crowd || after > before + 1)
		sim_fail("closing", "%u frames wait, then %u", before, after);
	scene.end();
}

// ... but what was buffered goes out, as nothing has to be told of it.
void buffered(u32 mode)
{
	constexpr u32 sender = 1, count = 2048; // more than can be in flight
	Scene scene({.mode = mode, .bytes = 64, .depth = count, .step_ns = 10 * ms});

	begin(scene, sender);
	cut(sender, 100 * ms);
	scene.sends = 1ull << sender;
	scene.run(10 * ms);
	scene.as(SIM_ADMIN, sender, [&] { sim_forge_requests(sender, receiver, mode, control_crowd); });
	scene.stands = 1ull << sender;
	scene.die(sender);
	if (scene.received(sender) == scene.sent())
		sim_fail("buffered", "nothing is under way");
	scene.until("all arrive", 10 * second, [&] { return scene.received(sender) == scene.sent(); });
	scene.end();
}

// Fragments that overlap make a message that looks complete. What they leave out is nothing that was there
// before.
void overlap(u32 mode)
{
	constexpr u32 sender = 1;
	constexpr u64 length = 8000, covered = 125 + 4000;
	Scene scene({.mode = mode, .bytes = length, .depth = 16, .receives = 0});

	scene.refills = false;
	std::memset(scene.at(sender).memory, 0xaa, length);
	scene.sends = 1ull << sender;
	scene.run(10 * ms);
	scene.sends = 0;
	scene.receives(scene.sent());
	scene.until("all arrive", second, [&] { return scene.received(sender) == scene.sent(); });
	u8 *memory = scene.at(receiver).memory;
	std::memset(memory, 0x11, length);
	scene.as(SIM_ADMIN, receiver, [&] { sim_forge_overlap(receiver, sender, mode, sender); });
	scene.receives(1);
	scene.until(
		"what is forged arrives", second, [&] { return scene.received(sender) == scene.sent() + 1; });
	for (u64 i = 0; i < length; i++)
		if (memory[i] != (i < covered ? 0x55 : 0))
			sim_fail("overlap", "byte %llu is %02x", i, memory[i]);
	scene.end();
}

// ---- how it is posted ----------------------------------------------------------------------------

// Many messages always wait, so that each ACK lets several packets go: they are given to the adapter in one
// call. One of eight reports its completion, and the last of a call if the adapter reads from a message's own
// memory (verbs.c).
void chains(u32 mode, u64 bytes, bool held)
{
	constexpr u32 sender = 1;
	constexpr u64 signal_every = 8;
	Scene scene({.mode = mode, .bytes = bytes, .unexpected = ample});

	scene.sends = 1ull << sender;
	scene.run(20 * ms);
	const auto before = sim::adapter_posted(sender);
	scene.run(100 * ms);
	const auto after = sim::adapter_posted(sender);
	const u64 calls = after.calls - before.calls, requests = after.requests - before.requests,
		  signalled = after.signalled - before.signalled;
	std::fprintf(
		stderr, "%llu work requests in %llu calls, %llu signalled\n", requests, calls, signalled);
	if (requests < 1000)
		sim_fail("chains", "only %llu packets are sent", requests);
	if (requests < 4 * calls)
		sim_fail("chains", "%llu work requests are posted in %llu calls", requests, calls);
	if (signalled > requests / signal_every + 1 + (held ? calls : 0))
		sim_fail("chains", "%llu of %llu work requests are signalled", signalled, requests);
	scene.end();
}

// ---- credit of native modes ----------------------------------------------------------------------

// All that there is credit for is lost, while the count of what was spent wraps around. What goes by RTS then
// says how much that was, so that the credit comes back, and messages are sent at once again.
void credit_lost(u32 mode)
{
	constexpr u32 sender = 1;
	constexpr u64 least = 64 << 10; // of which the flow is granted a quarter
	Scene scene({.mode = mode, .bytes = 64, .depth = 16, .unexpected = least});

	scene.sends = 1ull << sender;
	scene.until("the first arrives", second, [&] { return scene.received(sender) > 0; });
	sim::wire.lose(sender, least / 4 / 64);
	scene.until(
		"the credit is used up", second, [&] { return scene.look(sender, receiver).rendezvous > 0; });
	sim::wire.lose(sender, 0);
	const u64 before = scene.received(sender), each = 512; // what a message costs
	if (before * each >= sim_config.wrap || before * each + least / 4 <= sim_config.wrap)
		sim_fail("credit", "the wrap is not among what is lost, after %llu messages", before);
	scene.run(100 * ms);
	const u64 announced = scene.look(sender, receiver).rendezvous;
	scene.run(100 * ms);
	std::fprintf(stderr, "%llu messages arrived before, and %llu in all, %llu by RTS\n", before,
		scene.received(sender), scene.look(sender, receiver).rendezvous);
	if (scene.look(sender, receiver).rendezvous != announced)
		sim_fail("credit", "messages go by RTS for ever");
	if (scene.received(sender) < before + 1000)
		sim_fail("credit", "only %llu messages arrive", scene.received(sender));
	scene.end();
}

// ---- memory that is registered -----------------------------------------------------------------

// An adapter refuses to register memory, and to bring back the queue pair that does. Meanwhile long messages
// are copied, and once it does both again, they are written again.
void regions()
{
	constexpr u32 sender = 1;
	Scene scene({.mode = IBRELK_MODE_UC_RELIABLE,
		.bytes = 200'000,
		.depth = 1,
		.receives = 64,
		.step_ns = 5 * ms});

	scene.sends = 1ull << sender;
	scene.until("some are written", second, [&] { return scene.look(sender, receiver).written > 100; });
	sim_config.reg_errors = sim_config.rebuild_errors = 1'000'000;
	sim_troubled = true;
	scene.run(10 * ms);
	const u64 written = scene.look(sender, receiver).written, before = scene.received(sender),
		  copied = scene.look(sender, receiver).copied;
	scene.run(5 * second);
	if (scene.look(sender, receiver).written != written || scene.received(sender) < before + 100)
		sim_fail("regions", "%llu messages are written to memory that is not registered, of %llu",
			scene.look(sender, receiver).written - written, scene.received(sender) - before);
	const u64 messages = scene.received(sender) - before,
		  counted = scene.look(sender, receiver).copied - copied;
	std::fprintf(stderr, "%llu messages are copied\n", messages);
	// Each is one window; the one that is under way at either end of the time may be counted or not.
	if (counted + 1 < messages || counted > messages + 1)
		sim_fail("regions", "%llu messages are copied, and %llu counted", messages, counted);
	sim_troubled = false;
	scene.until("they are written again", 4 * second,
		[&] { return scene.look(sender, receiver).written > written + 100; });
	scene.end();
}

// One registration fails, and for a while the adapter does not give those back that were asked for behind it:
// they may still be done, so nobody takes their queue pair away. What was announced arrives when it does; and
// if the adapter is taken away before, nothing is left of them.
void regions_stuck(bool removed)
{
	constexpr u32 sender = 1;
	Scene scene({.mode = IBRELK_MODE_UC_RELIABLE, .bytes = 200'000, .depth = 16, .receives = 1 << 20});

	scene.sends = 1ull << sender;
	scene.until("some are written, and several registered at once", second, [&] {
		const auto seen = scene.look(sender, receiver);
		return seen.written > 100 && seen.opening > 2;
	});
	sim_config.reg_errors = sim_config.stuck_errors = 1'000'000;
	sim_troubled = true;
	scene.run(10 * second, nullptr, 10 * ms);
	if (!scene.look(sender, receiver).opening)
		sim_fail("regions", "no registration waits");
	if (removed) {
		scene.as(SIM_ADMIN, receiver, [] { sim_node_stop(receiver); });
		scene.as(SIM_ADMIN, receiver, [] { sim_node_start(receiver); });
	}
	sim_troubled = false;
	if (!removed) {
		const u64 written = scene.look(sender, receiver).written;
		scene.sends = 0;
		scene.until(
			"all arrive", 100 * second, [&] { return scene.received(sender) == scene.sent(); });
		scene.sends = 1ull << sender;
		scene.until("they are written again", second,
			[&] { return scene.look(sender, receiver).written > written + 100; });
	}
	scene.end();
}

// Where the processor has to be told of what adapters write, that is found out once: long messages are copied
// then, and nothing is mapped, nor made anew, for each of them.
void synced()
{
	constexpr u32 sender = 1;
	Scene scene({.mode = IBRELK_MODE_UC_RELIABLE, .bytes = 200'000, .depth = 1, .receives = 64});
	const u64 mapped = sim_counts.mapped, regions = sim_counts.regions;

	scene.sends = 1ull << sender;
	scene.until("some arrive", second, [&] { return scene.received(sender) >= 50; });
	if (scene.look(sender, receiver).copied + 1 < scene.received(sender))
		sim_fail("synced", "of %llu messages %llu are counted as copied", scene.received(sender),
			scene.look(sender, receiver).copied);
	if (sim_counts.mapped != mapped + 1 || sim_counts.regions != regions)
		sim_fail("synced", "%llu windows are mapped, and %llu regions made",
			sim_counts.mapped - mapped, sim_counts.regions - regions);
	scene.end();
}

// An adapter has no memory to map one payload of five. Each of these packets is lost, like one that is lost
// on the way, and no queue pair, whose other packets are not concerned, nor a path of others.
void payloads(u32 mode, u64 bytes, bool written)
{
	constexpr u32 sender = 1;
	Scene scene({.mode = mode, .bytes = bytes, .depth = 16, .receives = 1 << 20});

	scene.sends = 1ull << sender;
	scene.until("some arrive", second, [&] { return scene.received(sender) > 10; });
	const u64 connections = sim_counts.connections, resets = sim_counts.resets,
		  writes = scene.look(sender, receiver).written, before = scene.received(sender);
	sim_config.map_errors = 200'000;
	sim_troubled = true;
	scene.until("they arrive nevertheless", 10 * second,
		[&] { return scene.received(sender) > before + 100; });
	sim_troubled = false;
	if (sim_counts.connections != connections || sim_counts.resets != resets)
		sim_fail("payloads", "%llu connections more, and %llu queue pairs are reset",
			sim_counts.connections - connections, sim_counts.resets - resets);
	if (written != (scene.look(sender, receiver).written > writes))
		sim_fail("payloads", "%llu are written", scene.look(sender, receiver).written - writes);
	scene.end();
}

// ---- a peer that cannot be reached for a while ----------------------------------------------------

// A connection fails while nobody has anything to send, and when somebody has, the peer cannot be called for
// a while, which is less than the time after which it is given up: that counts from then on.
void idle_broken()
{
	constexpr u32 sender = 1;
	Scene scene({.mode = IBRELK_MODE_UC_RELIABLE, .bytes = 64, .depth = 1});

	scene.sends = 1ull << sender;
	scene.until("some arrive", second, [&] { return scene.received(sender) > 10; });
	scene.sends = 0;
	scene.run(second);
	while (ib_qp *qp = sim::adapter_pick(true))
		sim::adapter_break(qp);
	scene.run((sim_config.peer_timeout_ms + 10'000) * ms, nullptr, 100 * ms);
	const u64 before = scene.received(sender);
	if (before != scene.sent())
		sim_fail("idle", "of %llu messages %llu arrive", scene.sent(), before);
	sim_config.cm_loss = 1'000'000;
	sim_troubled = true;
	scene.sends = 1ull << sender;
	scene.run((sim_config.connect_timeout_ms + 5000) * ms, nullptr, 100 * ms);
	if (scene.received(sender) != before || scene.sent() == before)
		sim_fail("idle", "%llu messages are sent, and %llu arrive", scene.sent() - before,
			scene.received(sender) - before);
	sim_troubled = false;
	scene.sends = 0;
	scene.until("all have arrived", 20 * second, [&] { return scene.received(sender) == scene.sent(); });
	scene.end();
}

// ---- peers with which there is nothing to do -----------------------------------------------------

// What a node has allocated for its peers, when nothing has happened for a while: as much for each one that
// came later as for each before it. While they stream it is more, by a ring at least.
void idle(u32 mode, u64 most_bytes)
{
	constexpr u32 times = 3, more = 8;
	Scene scene({.mode = mode, .senders = times * more, .bytes = 64, .depth = 64, .unexpected = ample});
	u64 each[times] = {}, before = 0;

	for (u32 i = 0; i < times; i++) {
		const u32 peers = (i + 1) * more;
		scene.sends = all(peers);
		const u64 lanes = sim_counts.lanes; // each has two ends
		scene.until("all of them stream", second, [&] {
			if (mode == IBRELK_MODE_AUTO && sim_counts.lanes - lanes < 2ull * peers)
				return false;
			for (u32 node = 1; node <= peers; node++)
				if (scene.received(node) < (i + 1ull) * 1000)
					return false;
			return true;
		});
		const u64 busy = sim_alloc_bytes(receiver);
		scene.sends = 0;
		scene.run(30 * second, nullptr, 100 * ms);
		const u64 bytes = sim_alloc_bytes(receiver);
		std::fprintf(stderr, "%u peers: %llu bytes of each are given back when they are idle\n",
			peers, (busy - bytes) / peers);
		if (busy < bytes + peers * ring_bytes)
			sim_fail("idle", "%llu bytes are given back by %u peers", busy - bytes, peers);
		each[i] = (bytes - before) / more;
		before = bytes;
	}
	// Among the first are what the node needs for itself.
	std::fprintf(stderr, "%llu and %llu bytes for each peer more\n", each[1], each[2]);
	if (each[2] != each[1])
		sim_fail("idle", "%llu and then %llu bytes for each peer more", each[1], each[2]);
	if (each[2] > most_bytes)
		sim_fail("idle", "%llu bytes for each peer more", each[2]);
	scene.end();
}

// ---- numbers of endpoints -----------------------------------------------------------------------

// Those that nobody asks for by number are counted up, and at the end go on behind the well-known ones.
void numbers()
{
	Scene scene({});

	for (const u32 expected : {0xffff'fffdu, 0xffff'fffeu, 65536u, 65537u})
		if (const u32 number = scene.numbered(); number != expected)
			sim_fail("numbers", "%u instead of %u", number, expected);
	scene.end();
}

// ---- congestion control --------------------------------------------------------------------------

constexpr u32 by_itself = 0, asked_fixed = 1, asked_delay = 2; // module parameter congestion

void congestion(u32 mode, bool fixed, u32 target_us)
{
	constexpr u32 sender = 1;
	Scene scene({.mode = mode, .bytes = 64, .depth = 1});

	scene.sends = 1ull << sender;
	scene.until("some arrive", second, [&] { return scene.received(sender) > 10; });
	for (const auto &seen : {scene.look(sender, receiver), scene.look(receiver, sender)}) {
		if (seen.fixed != fixed)
			sim_fail("congestion", "the window is %sfixed", seen.fixed ? "" : "not ");
		if (!fixed && seen.target_us != target_us)
			sim_fail("congestion", "the delay aimed at is %u us", seen.target_us);
	}
	scene.end();
}

// ---- lengths of packets ---------------------------------------------------------------------------

// The MTU is raised when the ports are in use already, as when a node boots: who connects later has its
// packets.
void raised(u32 mode)
{
	constexpr u32 sender = 1;
	Scene scene({.mode = mode, .bytes = 4096, .depth = 4});

	for (u32 node = 0; node < 2; node++)
		scene.as(SIM_ADMIN, node, [node] { sim_set_mtu(node, 4096); });
	scene.run(100 * ms);
	scene.sends = 1ull << sender;
	scene.until("some arrive", second, [&] { return scene.received(sender) > 10; });
	if (const u32 bytes = scene.look(sender, receiver).packet_max; bytes != 4096)
		sim_fail("packets", "packets have at most %u bytes", bytes);
	scene.end();
}

// It is raised in the middle of a life: what is cut up is cut for the packets that this life began with.
void grown()
{
	constexpr u32 sender = 1;
	Scene scene({.mode = IBRELK_MODE_UC_RELIABLE, .bytes = 1000, .depth = 64});

	begin(scene, sender);
	for (u32 node = 0; node < 2; node++)
		scene.as(SIM_ADMIN, node, [node] { sim_set_mtu(node, 4096); });
	scene.run(100 * ms);
	sim::adapter_break(sim::adapter_of(sender, IB_QPT_UC));
	const u64 before = scene.received(sender);
	scene.sends = 1ull << sender;
	scene.until("packets are longer", 5 * second,
		[&] { return scene.look(sender, receiver).packet_max == 4096; });
	scene.until("many arrive", 5 * second, [&] { return scene.received(sender) > before + 1000; });
	scene.sends = 0;
	scene.until("all arrive", second, [&] { return scene.received(sender) == scene.sent(); });
	if (scene.look(sender, receiver).lives != 1)
		sim_fail("packets", "the life ended");
	scene.end();
}

void fair_tests(std::vector<Test> &tests)
{
	for (u32 senders : {8u, 32u})
		for (u32 mode : {IBRELK_MODE_UD_RELIABLE, IBRELK_MODE_UC_RELIABLE}) {
			const std::string end =
				(mode == IBRELK_MODE_UD_RELIABLE ? "-ud-" : "-uc-") + std::to_string(senders);
			auto config = distant();
			config.nodes = senders + 1;
			// Of datagrams, so that a part of the queue is less than one may have at most: 8,
			// or 16.
			config.ud_recv_depth = senders == 8 ? 128 : 1024;
			tests.push_back({"fair" + end, config, [=] {
						 fair(mode, senders, ample);
					 }});
			tests.push_back({"late" + end, config, [=] {
						 late(mode, senders);
					 }});
			tests.push_back({"slow" + end, config, [=] {
						 slow(mode, senders);
					 }});
			tests.push_back({"memory" + end, config, [=] {
						 fair(mode, senders, 0);
					 }});
		}
	// One packet for each, the least there is.
	auto config = distant();
	config.nodes = 33;
	config.ud_recv_depth = 64;
	tests.push_back({"least-ud-32", config, [] {
				 fair(IBRELK_MODE_UD_RELIABLE, 32, ample);
			 }});
}

void newcomer_tests(std::vector<Test> &tests)
{
	for (const Mode &mode : modes) {
		auto config = distant();
		config.nodes = 6;
		tests.push_back({std::string("newcomer-") + mode.name, config, [=] {
					 newcomer(mode.id);
				 }});
	}
}

void transfers_tests(std::vector<Test> &tests)
{
	for (const Mode &mode : modes)
		tests.push_back({std::string("transfers-") + mode.name, distant(), [=] {
					 transfers(mode.id);
				 }});
}

void stopped_tests(std::vector<Test> &tests)
{
	for (const Mode &mode : modes)
		for (const u64 bytes : {64u, 4096u, 200'000u}) {
			auto config = sim::config_usual();
			config.memlock_kib = 1 << 20;
			config.peer_timeout_ms = 1000;
			tests.push_back({std::string("stopped-") + mode.name + "-" + std::to_string(bytes),
				config, [=] {
					stopped(mode.id, bytes);
				}});
		}
}

void others_tests(std::vector<Test> &tests)
{
	for (const Mode &mode : modes) {
		auto config = sim::config_usual();
		config.memlock_kib = 1 << 20;
		tests.push_back({std::string("opening-") + mode.name, config, [=] {
					 opening(mode.id);
				 }});
		tests.push_back({std::string("starved-") + mode.name, config, [=] {
					 starved(mode.id);
				 }});
		tests.push_back({std::string("turns-") + mode.name, config, [=] {
					 turns(mode.id);
				 }});
		tests.push_back({std::string("shares-") + mode.name, config, [=] {
					 shares(mode.id);
				 }});
		tests.push_back({std::string("openings-") + mode.name, config, [=] {
					 openings(mode.id);
				 }});
		tests.push_back({std::string("overlap-") + mode.name, config, [=] {
					 overlap(mode.id);
				 }});
		config.bandwidth_mbps = 100; // so that messages take a while
		tests.push_back({std::string("closing-") + mode.name, config, [=] {
					 closing(mode.id);
				 }});
		tests.push_back({std::string("buffered-") + mode.name, config, [=] {
					 buffered(mode.id);
				 }});
	}
}

void peers_tests(std::vector<Test> &tests)
{
	tests.push_back({"peers", sim::config_usual(), peers});
}

void chains_tests(std::vector<Test> &tests)
{
	for (const Mode &mode : modes) {
		tests.push_back({std::string("chains-") + mode.name + "-64", distant(), [=] {
					 chains(mode.id, 64, false);
				 }});
		tests.push_back({std::string("chains-") + mode.name + "-4096", distant(), [=] {
					 chains(mode.id, 4096, true);
				 }});
	}
}

void credit_tests(std::vector<Test> &tests)
{
	for (const Mode &mode : {Mode{"ud", IBRELK_MODE_UD_NATIVE}, Mode{"uc", IBRELK_MODE_UC_NATIVE}}) {
		auto config = sim::config_usual();
		config.wrap = 20000; // more than what arrives before, less than that and what is lost
		tests.push_back({std::string("credit-") + mode.name, config, [=] {
					 credit_lost(mode.id);
				 }});
	}
}

void regions_tests(std::vector<Test> &tests)
{
	auto config = sim::config_usual();
	config.memlock_kib = 1 << 20;
	tests.push_back({"regions", config, regions});
	auto slow = config;
	slow.post_ns = 50'000; // to register takes a while
	tests.push_back({"regions-stuck", slow, [] {
				 regions_stuck(false);
			 }});
	tests.push_back({"regions-stuck-removed", slow, [] {
				 regions_stuck(true);
			 }});
	config.dma_sync = 1;
	tests.push_back({"synced", config, synced});
}

void payloads_tests(std::vector<Test> &tests)
{
	const struct {
		const char *name;
		u32 mode;
		u64 bytes;
		bool written;
	} rows[] = {
		{"ud", IBRELK_MODE_UD_RELIABLE, 4096, false},
		{"ud-long", IBRELK_MODE_UD_RELIABLE, 200'000, false},
		{"uc", IBRELK_MODE_UC_RELIABLE, 4096, false},
		{"uc-long", IBRELK_MODE_UC_RELIABLE, 200'000, true},
	};
	for (const auto &row : rows) {
		auto config = sim::config_usual();
		config.memlock_kib = 1 << 20;
		tests.push_back({std::string("payloads-") + row.name, config, [=] {
					 payloads(row.mode, row.bytes, row.written);
				 }});
	}
}

void broken_tests(std::vector<Test> &tests)
{
	tests.push_back({"broken-idle", sim::config_usual(), idle_broken});
}

void raised_tests(std::vector<Test> &tests)
{
	for (const Mode &mode : modes) {
		auto config = sim::config_usual();
		config.mtu = 1024;
		tests.push_back({std::string("raised-") + mode.name, config, [=] {
					 raised(mode.id);
				 }});
	}
	auto config = distant();
	config.mtu = 1024;
	config.aggregate = 1;
	config.coalesce_us = 100;
	tests.push_back({"grown-uc", config, grown});
}

void idle_tests(std::vector<Test> &tests)
{
	const struct {
		const char *name;
		u32 mode;
		u64 most_bytes;
	} rows[] = {
		{"ud", IBRELK_MODE_UD_RELIABLE, 8 << 10}, {"auto", IBRELK_MODE_AUTO, 8 << 10},
		{"uc", IBRELK_MODE_UC_RELIABLE, 1 << 20}, // with the buffers of a queue pair of its own
	};
	for (const auto &row : rows) {
		auto config = sim::config_usual();
		config.nodes = 25;
		config.reuse = 0;
		config.auto_uc_rate = 20;
		config.auto_uc_idle_ms = 100;
		tests.push_back({std::string("idle-") + row.name, config, [=] {
					 idle(row.mode, row.most_bytes);
				 }});
	}
}

void numbers_tests(std::vector<Test> &tests)
{
	auto config = sim::config_usual();
	config.wrap = 3;
	tests.push_back({"numbers", config, numbers});
}

void congestion_tests(std::vector<Test> &tests)
{
	const struct {
		const char *name;
		u32 fabric, asked;
		bool fixed;
		u32 target_us;
	} rows[] = {
		{"ethernet", SIM_FABRIC_ETHERNET, by_itself, false, 100},
		{"software", SIM_FABRIC_SOFTWARE, by_itself, false, 50'000},
		{"infiniband", SIM_FABRIC_IB, by_itself, true, 0},
		{"ethernet-fixed", SIM_FABRIC_ETHERNET, asked_fixed, true, 0},
		{"infiniband-delay", SIM_FABRIC_IB, asked_delay, false, 100},
	};
	for (const auto &row : rows)
		for (const Mode &mode : modes) {
			auto config = sim::config_usual();
			config.fabric = row.fabric;
			config.congestion = row.asked;
			tests.push_back(
				{std::string("congestion-") + row.name + "-" + mode.name, config, [=] {
					 congestion(mode.id, row.fixed, row.target_us);
				 }});
		}
	// What is not repeated has nobody who would make a window smaller for it.
	auto config = sim::config_usual();
	config.congestion = by_itself;
	tests.push_back({"congestion-ethernet-native", config, [] {
				 congestion(IBRELK_MODE_UC_NATIVE, true, 0);
			 }});
}

} // namespace

} // namespace streams

int main(int argc, char **argv)
{
	using namespace streams;

	sim::use_huge_pages(argv);

	std::vector<Test> tests;
	bool trace = false;
	std::string name;
	u64 passed = 0, failed = 0;

	for (int i = 1; i < argc; i++)
		if (std::strcmp(argv[i], "--trace") == 0)
			trace = true;
		else
			name = argv[i];
	fair_tests(tests);
	newcomer_tests(tests);
	transfers_tests(tests);
	stopped_tests(tests);
	others_tests(tests);
	peers_tests(tests);
	chains_tests(tests);
	credit_tests(tests);
	regions_tests(tests);
	payloads_tests(tests);
	broken_tests(tests);
	datagrams_tests(tests);
	raised_tests(tests);
	idle_tests(tests);
	numbers_tests(tests);
	coalesced_tests(tests);
	talks_tests(tests);
	congestion_tests(tests);
	for (const auto &test : tests) {
		if (test.name.compare(0, name.size(), name) != 0)
			continue;
		const auto outcome = sim::apart(test.config, trace, test.body);
		std::printf("%s: %s%s\n", test.name.c_str(),
			outcome.failed ? ("FAILED " + outcome.check + "\n").c_str() : "ok ",
			outcome.report.substr(0, outcome.report.find_last_not_of('\n') + 1).c_str());
		(outcome.failed ? failed : passed)++;
	}
	std::printf("%llu passed, %llu failed\n", passed, failed);
	return failed || !passed ? 1 : 0;
}
