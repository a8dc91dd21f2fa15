// SPDX-License-Identifier: GPL-2.0-only
//
// One long message, and what becomes of it if something happens at a given step of its way: a process ends, a
// path or a device goes, an allocation fails. Which step it is, is seen inside the module (look.h), so that
// it is hit exactly; what is right is the table below. Prints "N passed, N failed".
//
//	ibrelk-steps				all that follows
//	ibrelk-steps table [STEP [CAUSE [MODE]]]	the table, or one row, or one cell of it
//	ibrelk-steps alloc [MODE [N]]		each allocation fails once; or only the Nth
//	ibrelk-steps slow [MODE]		a process loses its memory, and its descriptors later
//	ibrelk-steps fenced [CAUSE|copied [MODE]]	a receiver has died, and waits for what was written
//	ibrelk-steps --rst			the table, for the documentation
//	... --trace				says what happens
//	... --stride K				of the allocations only each Kth
//	... --seeds N				each with as many seeds, which decide who is faster
//	... --failures F			ends after so many failures (20)

#include "scene.hpp"

#include "wire.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace
{

using sim::ms;
using sim::second;

constexpr u64 length = (5u << 20) + 12'345; // so long that both ends have to pin some of it on the way
constexpr u64 before = 2000;                // bytes before the message in memory
constexpr u64 memory_bytes = length + 3 * PAGE_SIZE;
constexpr u64 limit_ns = 60 * second; // and more than the time after which a peer is given up
constexpr u64 settle_ns = 5 * second;

enum { sender, receiver };

// ---- what can happen, when, and what comes of it ----------------------------------------------

enum Cause {
	sender_dies,
	receiver_dies,
	sender_gives_up,
	receiver_gives_up,
	sender_device,
	receiver_device,
	network,
	causes
};

const char *const cause_name[] = {"sender-dies", "receiver-dies", "sender-gives-up", "receiver-gives-up",
	"sender-device", "receiver-device", "network"};

enum Step {
	posted,
	rts_sent,
	rts_waits,
	opening,
	cts_sent,
	first_sent,
	receiver_pins,
	sender_pins,
	lost,
	closing,
	fin_sent,
	fin_lost,
	still_read,
	complete,
	steps
};

// Matched, and not over.
#define UNDER_WAY \
	{ \
		"-/ECONNRESET", "ECONNRESET/-", "ETIMEDOUT/ECONNRESET", "ECONNRESET/ETIMEDOUT", \
			"ENODEV/ECONNREFUSED", "ECONNREFUSED/ENODEV", "EHOSTUNREACH/EHOSTUNREACH" \
	}

struct Row {
	const char *name;
	const char *what;
	bool written; // only where the message is written to the receiver's memory
	std::array<const char *, causes> cell;
};

// "sender / receiver", of each what it may be. "-": it is dead. "waits": not complete, and may still be.
// Where both ends tell each other at the same time, it is who was faster.
const Row table[steps] = {
	{"posted", "posted, no connection yet", false,
		{"-/waits", "ECONNREFUSED/-", "ETIMEDOUT/waits", "ok/ok", "ENODEV/waits",
			"ECONNREFUSED/waits", "EHOSTUNREACH/waits"}},
	{"rts-sent", "RTS sent, not arrived", false,
		{"-/ECONNRESET", "ECONNRESET/-", "ETIMEDOUT/ECONNRESET|waits", "ECONNRESET/waits",
			"ENODEV/waits", "ECONNREFUSED/waits", "EHOSTUNREACH/waits"}},
	{"rts-waits", "RTS waits; received afterwards", false,
		{"-/ECONNRESET", "ECONNRESET/-", "ETIMEDOUT/ECONNRESET", "ECONNRESET/ECONNRESET",
			"ENODEV/ECONNREFUSED", "ECONNREFUSED/ECONNRESET",
			"EHOSTUNREACH/ECONNRESET|EHOSTUNREACH"}},
	{"opening", "matched, regions opening", true, UNDER_WAY},
	{"cts-sent", "CTS sent, not arrived", false, UNDER_WAY},
	{"first-sent", "first fragments sent, none arrived", false, UNDER_WAY},
	{"receiver-pins", "receiver pins more of it", false, UNDER_WAY},
	{"sender-pins", "sender pins more of it", false, UNDER_WAY},
	{"lost", "in the middle, one fragment lost", false, UNDER_WAY},
	{"closing", "all arrived, regions closing", true,
		{"-/ok|ECONNRESET", "ECONNRESET/-", "ETIMEDOUT/ok", "ECONNRESET/ETIMEDOUT", "ENODEV/ok",
			"ECONNREFUSED/ENODEV", "EHOSTUNREACH/ok"}},
	{"fin-sent", "FIN sent, not arrived", false,
		{"-/ok", "ok/-", "ETIMEDOUT/ok", "ok|ECONNRESET/ok", "ENODEV/ok", "ECONNREFUSED/ok",
			"EHOSTUNREACH/ok"}},
	{"fin-lost", "FIN lost, not repeated yet", false,
		{"-/ok", "ok/-", "ETIMEDOUT/ok", "ECONNRESET/ok", "ENODEV/ok", "ECONNREFUSED/ok",
			"EHOSTUNREACH/ok"}},
	{"still-read", "FIN arrived, adapter may still read", true,
		{"-/ok", "ok/-", "ok/ok", "ok/ok", "ok/ok", "ok/ok", "ok/ok"}},
	{"complete", "complete at both ends", false,
		{"-/ok", "ok/-", "ok/ok", "ok/ok", "ok/ok", "ok/ok", "ok/ok"}},
};

// The modes, and whether a message is written there.
struct Mode {
	const char *name;
	u32 mode;
	bool written;
};

const Mode modes[] = {{"uc-reliable", IBRELK_MODE_UC_RELIABLE, true},
	{"uc-native", IBRELK_MODE_UC_NATIVE, true}, {"ud-reliable", IBRELK_MODE_UD_RELIABLE, false},
	{"ud-native", IBRELK_MODE_UD_NATIVE, false}, {"rc-reliable", IBRELK_MODE_RC_RELIABLE, true},
	{"rc-native", IBRELK_MODE_RC_NATIVE, true}, {"auto", IBRELK_MODE_AUTO, false}};

// ---- two processes on two nodes ----------------------------------------------------------------

u64 word(u64 seed, u64 i)
{
	u64 z = seed * 0x9e3779b97f4a7c15ull + i;
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	return z ^ (z >> 27);
}

void fill(u8 *to, u64 seed)
{
	for (u64 i = 0; i * 8 < length; i++) {
		const u64 w = word(seed, i);
		std::memcpy(to + i * 8, &w, std::min<u64>(8, length - i * 8));
	}
}

bool check(const u8 *data, u64 seed)
{
	for (u64 i = 0; i * 8 < length; i++) {
		const u64 w = word(seed, i);
		if (std::memcmp(data + i * 8, &w, std::min<u64>(8, length - i * 8)) != 0)
			return false;
	}
	return true;
}

constexpr u8 untouched = 0x5a; // memory in which nobody has any business

struct Process : sim::Process {
	using sim::Process::Process;
	u8 *message = nullptr; // in its memory
	bool posted = false;   // a command that is not complete
	std::optional<int> status;
};

class Scene : public sim::Stage<Process>
{
public:
	Scene(const Mode &mode, u64 seed) : Stage(2, seed), mode_(mode)
	{
		for (u32 node : {sender, receiver})
			begin(node);
	}

	void begin(u32 node)
	{
		Process &process = open(node, memory_bytes, {.mode = mode_.mode}, 1 - node);

		process.message = process.memory + before;
		std::memset(process.memory, untouched, memory_bytes);
	}

	// Sends, or receives, bytes that nobody else has. Return: it was accepted.
	bool post(u32 node, u64 bytes = length)
	{
		Process &process = at(node);
		ibrelk_command command{};

		command.opcode = node == sender ? IBRELK_OP_SEND : IBRELK_OP_RECV;
		command.peer = node == sender ? process.peer : IBRELK_PEER_ANY;
		command.addr = reinterpret_cast<u64>(process.message);
		command.length = bytes;
		command.tag = 1;
		command.user_data = node;
		if (node == sender)
			fill(process.message, ++seed_);
		const int accepted = submit(node, command);
		process.posted = accepted == 1;
		process.status.reset();
		if (accepted < 0)
			process.status = accepted;
		if (accepted < 0 && node == sender)
			std::memset(process.message, untouched, length);
		return process.posted;
	}

	[[nodiscard]] struct sim_look look() const
	{
		struct sim_look seen;
		sim_look_at(sender, receiver, mode_.mode, &seen);
		return seen;
	}

	// What is complete. The memory of what is belongs to the process again, and nobody else may come near
	// it.
	void look_around()
	{
		for (u32 node : {sender, receiver})
			if (!at(node).dead)
				reap(node,
					[&](const ibrelk_completion &completion) { done(node, completion); });
	}

	// Lets things happen until something is so. Return: it is.
	template<typename Function>
	bool until(Function function, u64 most_ns = limit_ns)
	{
		const u64 end = sim_now() + most_ns;

		for (;;) {
			look_around();
			if (function())
				return true;
			if (sim_now() > end || !sim_run_one())
				return false;
			if (++events_ % 64 == 0)
				check_all();
		}
	}

	void run(u64 ns)
	{
		until([end = sim_now() + ns] { return sim_now() >= end; }, ns);
	}

	[[nodiscard]] bool over(u32 node)
	{
		return at(node).dead || !at(node).posted;
	}

	// One short message, so that there is a connection, and flows.
	void connect()
	{
		Process &from = at(sender), &to = at(receiver);

		if (!post(receiver) || !post(sender, 100) ||
			!until([&] { return over(sender) && over(receiver); }))
			sim_fail("connect", "the first message does not arrive");
		if (*from.status || *to.status)
			sim_fail("connect", "the first message: %d/%d", *from.status, *to.status);
		from.status.reset();
		to.status.reset();
	}

	// How far a process is, as in the table.
	[[nodiscard]] std::string text(u32 node) const
	{
		const Process &process = at(node);

		if (process.dead)
			return "-";
		if (process.posted)
			return "waits";
		return process.status ? *process.status ? strerrorname_np(-*process.status) : "ok" : "none";
	}

	// What is left of those who are dead, and what nobody may have touched.
	void check_quiet()
	{
		for (const auto &process : all_) {
			if (process->dead && sim_pages_pinned(&process->mm))
				sim_fail("left", "%llu pages are pinned for a process that is dead",
					sim_pages_pinned(&process->mm));
			if (process->dead || process->posted)
				continue;
			for (u64 i = 0; i < memory_bytes; i++)
				if (process->memory[i] != untouched)
					sim_fail("bytes", "byte %llu was written after it was over", i);
		}
	}

protected:
	void pass(u64 ns) override
	{
		run(ns);
	}

private:
	void check_all()
	{
		sim_check_all();
		for (u32 node : {sender, receiver})
			if (!at(node).dead)
				sim_check_endpoint(at(node).endpoint);
	}

	void done(u32 node, const ibrelk_completion &completion)
	{
		Process &process = at(node);

		if (completion.user_data != node || !process.posted)
			sim_fail("completion", "process %u: a completion of what it has not posted", node);
		process.posted = false;
		process.status = completion.status;
		if (node == sender ? sim::adapter_may_read(process.message, length)
				   : sim::adapter_may_write(process.memory, memory_bytes))
			sim_fail("fence", "process %u: complete, and an adapter may still come near", node);
		if (node == receiver && !completion.status && completion.length == length &&
			!check(process.message, seed_))
			sim_fail("bytes", "not what was sent");
		if (node == receiver && !completion.status && completion.length != length &&
			completion.length != 100)
			sim_fail("bytes", "%llu bytes arrive", static_cast<u64>(completion.length));
		std::memset(process.message, untouched, length);
	}

	const Mode &mode_;
	u64 seed_ = 0;
	u64 events_ = 0;
};

// ---- the steps ---------------------------------------------------------------------------------

void must(bool reached, const char *what)
{
	if (!reached)
		sim_fail("step", "never: %s", what);
}

bool all_sent(const Scene &scene)
{
	const auto now = scene.look();

	return now.transfers && now.sent == length;
}

void go_to(Scene &scene, Step step)
{
	const auto both = [&] {
		must(scene.post(receiver) && scene.post(sender), "accepted");
	};
	const auto until = [&](auto predicate) {
		must(scene.until(predicate), table[step].what);
	};

	if (step != posted)
		scene.connect();
	switch (step) {
	case posted:
		both();
		if (scene.look().up)
			sim_fail("step", "connected already");
		break;
	case rts_sent:
		both();
		until([&] { return scene.look().announced && !scene.look().transfers; });
		break;
	case rts_waits:
		must(scene.post(sender), "accepted");
		until([&] { return scene.look().waiting; });
		break;
	case opening:
		both();
		until([&] { return scene.look().opening && !scene.look().open; });
		break;
	case cts_sent:
		both();
		until([&] { return scene.look().open && !scene.look().asked_for && !scene.look().sent; });
		break;
	case first_sent:
		both();
		until([&] { return scene.look().sent; });
		if (scene.look().touched)
			sim_fail("step", "some have arrived");
		break;
	case receiver_pins:
		both();
		until([&] { return scene.look().receiver_pins; });
		break;
	case sender_pins:
		both();
		until([&] { return scene.look().sender_pins; });
		break;
	case lost: {
		both();
		until([&] { return scene.look().sent >= 3u << 20; });
		const u64 count = sim_counts.lost;
		sim::wire.lose(sender, 1);
		until([&] { return sim_counts.lost > count; });
		break;
	}
	case closing:
		both();
		// By some seeds the last fragment arrives while a worker closes regions, which closes the
		// last one in the same event: there is no such step, and the message is complete.
		if (!scene.until([&] {
			    const auto now = scene.look();
			    return now.transfers && now.asked == now.want && now.closing && !now.open &&
				    !now.opening;
		    }))
			sim_fail(
				scene.text(sender) == "ok" && scene.text(receiver) == "ok" ? "unmet" : "step",
				"never: %s", table[step].what);
		break;
	case fin_sent:
	case fin_lost:
		both();
		until([&] { return all_sent(scene); });
		// All of it was asked for: what the receiver has to say next is FIN.
		if (step == fin_lost)
			sim::wire.lose(receiver, 1);
		until([&, count = sim_counts.lost] {
			return !scene.look().transfers && (step == fin_sent || sim_counts.lost > count);
		});
		if (!scene.look().sends)
			sim_fail("step", "it has arrived");
		break;
	case still_read:
		both();
		/* Early enough for the last fragments to be among what it keeps. */
		until([&] { return scene.look().transfers && scene.look().sent >= length - 65'536; });
		sim::adapter_hold(sender, true);
		until([&] { return !scene.look().sends; });
		if (!scene.at(sender).posted)
			sim_fail("fence", "complete, although the adapter may still read");
		break;
	default: both(); until([&] { return scene.over(sender) && scene.over(receiver); });
	}
}

void happen(Scene &scene, Cause cause, const Mode &mode)
{
	switch (cause) {
	case sender_dies:
	case receiver_dies: scene.die(cause == sender_dies ? sender : receiver); break;
	case sender_gives_up:
	case receiver_gives_up: {
		const u32 node = cause == sender_gives_up ? sender : receiver;
		scene.as(SIM_ADMIN, node, [&] { sim_give_up(node, 1 - node, mode.mode, -ETIMEDOUT); });
		break;
	}
	case sender_device:
	case receiver_device: {
		const u32 node = cause == sender_device ? sender : receiver;
		scene.as(SIM_ADMIN, node, [&] { sim_node_stop(node); });
		break;
	}
	default: sim::wire.cut(sender, receiver, ~0ull); sim::wire.cut(receiver, sender, ~0ull);
	}
}

// What has happened is over: a process is started anew, a device comes back, the network is there.
void recover(Scene &scene, Cause cause)
{
	sim::adapter_hold(sender, false);
	sim::wire.heal();
	if (cause == sender_device || cause == receiver_device) {
		const u32 node = cause == sender_device ? sender : receiver;
		scene.as(SIM_ADMIN, node, [&] { sim_node_start(node); });
	}
	for (u32 node : {sender, receiver})
		if (scene.at(node).dead)
			scene.begin(node);
}

// The next message must arrive, all of it by the way that the mode has. A sender who had nothing under way
// when his path came to its end at the other side may be told only now, once.
void again(Scene &scene, const Mode &mode, bool untold = false)
{
	if (!scene.over(sender))
		sim_fail("again", "the send is not over");
	if ((scene.over(receiver) && !scene.post(receiver)) || !scene.post(sender))
		sim_fail("again", "the next message is not accepted");
	u64 written = 0, copied = 0;
	bool begun = false;
	const auto arrives = [&] {
		const auto now = scene.look();
		if (now.transfers && !begun) {
			begun = true;
			copied = now.copied;
			written = now.written;
		}
		if (untold && scene.over(sender) && scene.text(sender) == "ECONNRESET") {
			untold = false;
			scene.post(sender);
		}
		return scene.over(sender) && (scene.over(receiver) || scene.text(sender) != "ok");
	};
	must(scene.until(arrives), "the next message is over");
	if (scene.text(sender) != "ok" || scene.text(receiver) != "ok")
		sim_fail("again", "the next message: %s/%s", scene.text(sender).c_str(),
			scene.text(receiver).c_str());
	const auto now = scene.look();
	if (mode.written && (now.copied != copied || now.written <= written))
		sim_fail("again", "of the next message %llu windows were copied, %llu fragments written",
			now.copied - copied, now.written - written);
}

// Is it one of what the table says of this end?
bool may_be(const std::string &expected, u32 node, const std::string &text)
{
	const auto slash = expected.find('/');
	const auto side = node == sender ? expected.substr(0, slash) : expected.substr(slash + 1);

	return ("|" + side + "|").find("|" + text + "|") != std::string::npos;
}

void play(u64 seed, const Mode &mode, Step step, Cause cause, const std::string &expected)
{
	Scene scene(mode, seed);

	go_to(scene, step);
	happen(scene, cause, mode);
	scene.until([&] { return scene.over(sender) && scene.over(receiver); },
		step == still_read ? second : limit_ns);
	if (step == still_read) {
		if (cause == network && scene.over(sender))
			sim_fail("fence", "complete, although the adapter may still read");
		sim::adapter_hold(sender, false);
	}
	scene.run(settle_ns);
	if (step == rts_waits && !scene.at(receiver).dead) {
		scene.post(receiver);
		scene.until([&] { return scene.over(receiver); });
		scene.run(settle_ns);
	}
	for (u32 node : {sender, receiver})
		if (!may_be(expected, node, scene.text(node)))
			sim_fail("outcome", "%s/%s, and not %s", scene.text(sender).c_str(),
				scene.text(receiver).c_str(), expected.c_str());
	recover(scene, cause);
	scene.run(settle_ns);
	scene.check_quiet();
	again(scene, mode, cause == receiver_gives_up || cause == receiver_device);
	scene.run(settle_ns);
	scene.check_quiet();
	scene.end();
}

// A process that ends loses its memory before its descriptors are closed, and on a busy node well before:
// what needs more of it meanwhile ends like what is under way when they are.
void play_slow_death(const Mode &mode, u32 node)
{
	Scene scene(mode, 1);
	const u32 other = 1 - node;

	go_to(scene, first_sent);
	scene.as(SIM_PROCESS, node, [&] { sim_mm_end(&scene.at(node).mm); });
	must(scene.until([&] { return scene.over(other); }), "the other end is told");
	if (scene.text(other) != "ECONNRESET")
		sim_fail("outcome", "the other end is told %s", scene.text(other).c_str());
	scene.die(node);
	scene.run(settle_ns);
	scene.begin(node);
	scene.check_quiet();
	again(scene, mode);
	scene.end();
}

// Over a reliable connection a transfer that is given up is not over before what was written for it has come.
// Whatever happens meanwhile, it does not wait for more than that, nor for longer than a path lasts. @breaks:
// which queue pair has failed by then, or fails then; and is made anew, with most of the message still to be
// written.
void play_fenced(u64 seed, const Mode &mode, Cause cause, int breaks)
{
	Scene scene(mode, seed);

	go_to(scene, first_sent);
	if (breaks == 1)
		sim::adapter_break(sim::adapter_of(sender, IB_QPT_RC));
	if (breaks == 2)
		sim::adapter_break(sim::adapter_of(receiver, IB_QPT_RC));
	scene.die(receiver);
	if (!scene.look().fenced)
		sim_fail("fence", "nothing waits for what was written");
	if (breaks == 3)
		sim::adapter_break(sim::adapter_of(sender, IB_QPT_RC));
	if (breaks == 4)
		sim::adapter_break(sim::adapter_of(receiver, IB_QPT_RC));
	const u64 lives = scene.look().lives;
	if (cause == receiver_dies) // nothing else
		must(scene.until([&] { return !scene.look().fenced; }, breaks ? second : ms),
			"the sender's word has come");
	else
		happen(scene, cause, mode);
	scene.until([&] { return scene.over(sender) && !scene.look().fenced; });
	scene.run(settle_ns);
	if (scene.look().fenced)
		sim_fail("fence", "%u windows wait for ever", scene.look().fenced);
	scene.check_quiet();
	if (cause == receiver_dies && scene.look().lives != lives)
		sim_fail("fence", "the connection has ended");
	recover(scene, cause);
	scene.run(settle_ns);
	again(scene, mode, cause == receiver_gives_up || cause == receiver_device);
	scene.run(settle_ns);
	scene.check_quiet();
	scene.end();
}

// What could not be registered is copied, and nothing has to be awaited.
void play_copied(u64 seed, const Mode &mode)
{
	Scene scene(mode, seed);

	scene.connect();
	sim_troubled = true;
	must(scene.post(receiver) && scene.post(sender), "accepted");
	must(scene.until([&] { return scene.look().touched; }), "some have arrived");
	if (!scene.look().copied)
		sim_fail("step", "all windows were registered");
	scene.die(receiver);
	sim_troubled = false;
	if (scene.look().fenced)
		sim_fail("fence", "%u windows wait for nothing", scene.look().fenced);
	must(scene.until([&] { return scene.over(sender); }), "the sender is told");
	scene.run(settle_ns);
	scene.check_quiet();
	scene.end();
}

// ---- allocations -------------------------------------------------------------------------------

// What may come of a message for which one allocation has failed, at whichever end: what describes the
// transfer is the one thing that a receiver cannot do without, and he says so.
const char *const alloc_outcomes[] = {"ok/ok", "ENOMEM/ENOMEM"};

// One that is refused is posted again: there is memory now.
void post_somehow(Scene &scene, u32 node)
{
	if (!scene.post(node) && (scene.text(node) != "ENOMEM" || !scene.post(node)))
		sim_fail("accepted", "%s", scene.text(node).c_str());
}

// The @nth allocation fails, wherever it is; so does what a driver may refuse like one. With @connects, also
// those that connecting needs. Says what came of it.
void play_alloc(const Mode &mode, u64 nth, bool connects)
{
	Scene scene(mode, 1);

	if (!connects)
		scene.connect();
	sim_alloc_nth = nth;
	post_somehow(scene, receiver);
	post_somehow(scene, sender);
	scene.until([&] { return scene.over(sender) && scene.over(receiver); });
	scene.run(settle_ns);
	sim_alloc_nth = 0;
	const auto outcome = scene.text(sender) + "/" + scene.text(receiver);
	std::fprintf(stderr, "%s\n", outcome.c_str());
	if (!sim_counts.refused_allocs && outcome != "ok/ok")
		sim_fail("outcome", "nothing has failed, and yet %s", outcome.c_str());
	if (std::find(std::begin(alloc_outcomes), std::end(alloc_outcomes), outcome) ==
		std::end(alloc_outcomes))
		sim_fail("outcome", "%s", outcome.c_str());
	scene.check_quiet();
	again(scene, mode);
	scene.run(settle_ns);
	scene.check_quiet();
	scene.end();
}

struct Options {
	bool trace = false;
	u64 stride = 1;
	u64 seeds = 1;
	u64 failures = 20;
	std::vector<std::string> words;

	[[nodiscard]] bool wants(std::size_t i, const std::string &name) const
	{
		return words.size() <= i || words[i] == name;
	}
};

// The table as Documentation/zero-copy.rst has it, some columns at a time.
void print_rst(Cause first, Cause last)
{
	static const char *const title[] = {"sender dies", "receiver dies", "sender gives up",
		"receiver gives up", "sender's device", "receiver's device", "network"};
	std::vector<std::vector<std::string>> lines(1, {"step"});
	std::vector<std::size_t> width;
	std::string rule;

	for (int cause = first; cause <= last; cause++)
		lines[0].emplace_back(title[cause]);
	for (const auto &row : table) {
		lines.push_back({row.what});
		for (int cause = first; cause <= last; cause++)
			lines.back().emplace_back(row.cell[static_cast<std::size_t>(cause)]);
	}
	for (std::size_t column = 0; column < lines[0].size(); column++) {
		width.push_back(0);
		for (const auto &line : lines)
			width.back() = std::max(width.back(), line[column].size());
		rule += (column ? " " : "") + std::string(width.back(), '=');
	}
	std::printf("%s\n", rule.c_str());
	for (const auto &line : lines) {
		std::string text;
		for (std::size_t column = 0; column < line.size(); column++) {
			text += (column ? " " : "") + line[column];
			if (column + 1 < line.size())
				text.append(width[column] - line[column].size(), ' ');
		}
		std::printf("%s\n", text.c_str());
		if (&line == &lines.front())
			std::printf("%s\n", rule.c_str());
	}
	std::printf("%s\n", rule.c_str());
}

struct Tally {
	u64 passed = 0, failed = 0;
};

struct sim_config config()
{
	auto c = sim::config_usual();

	c.memlock_kib = 1 << 20;
	c.regions = 8;
	c.jitter_ns = 0;
	return c;
}

void run_table(const Options &options, Tally &tally)
{
	for (const auto &mode : modes)
		for (int step = 0; step < steps; step++)
			for (int cause = 0; cause < causes; cause++) {
				const Row &row = table[step];
				if (!options.wants(1, row.name) || !options.wants(2, cause_name[cause]) ||
					!options.wants(3, mode.name) || (row.written && !mode.written))
					continue;
				u64 unmet = 0;
				for (u64 seed = 1; seed <= options.seeds && tally.failed < options.failures;
					seed++) {
					const auto outcome = sim::apart(config(), options.trace, [&] {
						play(seed, mode, static_cast<Step>(step),
							static_cast<Cause>(cause),
							row.cell[static_cast<std::size_t>(cause)]);
					});
					// Some seed has to come to this step.
					if (outcome.failed && outcome.check == "unmet" &&
						++unmet < options.seeds)
						continue;
					(outcome.failed ? tally.failed : tally.passed)++;
					if (outcome.failed)
						std::printf("%s %s %s, seed %llu: %s", row.name,
							cause_name[cause], mode.name, seed,
							outcome.report.empty() ? outcome.check.c_str()
									       : outcome.report.c_str());
					std::fflush(stdout);
				}
			}
}

void run_slow_deaths(const Options &options, Tally &tally)
{
	for (const auto &mode : modes)
		for (const u32 node : {sender, receiver}) {
			if (!options.wants(1, mode.name))
				continue;
			const auto outcome =
				sim::apart(config(), options.trace, [&] { play_slow_death(mode, node); });
			(outcome.failed ? tally.failed : tally.passed)++;
			if (outcome.failed)
				std::printf("slow %s, %s: FAILED %s\n%s",
					node == sender ? "sender" : "receiver", mode.name,
					outcome.check.c_str(), outcome.report.c_str());
		}
}

void run_fenced(const Options &options, Tally &tally)
{
	for (const auto &mode : modes)
		for (int cause = 0; cause < causes; cause++) {
			const bool reliable =
				mode.mode == IBRELK_MODE_RC_RELIABLE || mode.mode == IBRELK_MODE_RC_NATIVE;
			if (!reliable || !options.wants(1, cause_name[cause]) || !options.wants(2, mode.name))
				continue;
			for (u64 run = 0; run < 5 * options.seeds; run++) {
				const u64 seed = 1 + run / 5;
				const auto outcome = sim::apart(config(), options.trace, [&] {
					play_fenced(seed, mode, static_cast<Cause>(cause),
						static_cast<int>(run % 5));
				});
				(outcome.failed ? tally.failed : tally.passed)++;
				if (outcome.failed)
					std::printf("fenced %s %s, seed %llu: FAILED %s\n%s",
						cause_name[cause], mode.name, seed, outcome.check.c_str(),
						outcome.report.c_str());
				std::fflush(stdout);
			}
		}
	auto broken = config();
	broken.reg_errors = 1'000'000;
	for (const auto &mode : modes) {
		if (!mode.written || !options.wants(1, "copied") || !options.wants(2, mode.name))
			continue;
		const auto outcome = sim::apart(broken, options.trace, [&] { play_copied(1, mode); });
		(outcome.failed ? tally.failed : tally.passed)++;
		if (outcome.failed)
			std::printf("fenced copied %s: FAILED %s\n%s", mode.name, outcome.check.c_str(),
				outcome.report.c_str());
	}
}

void run_alloc(const Options &options, Tally &tally)
{
	for (const auto &mode : modes)
		for (bool connects : {false, true}) {
			std::map<std::string, u64> seen;
			u64 nth = options.words.size() > 2
				? std::strtoull(options.words[2].c_str(), nullptr, 0)
				: 1;
			if (!options.wants(1, mode.name))
				continue;
			for (;; nth += options.stride) {
				const auto outcome = sim::apart(
					config(), options.trace, [&] { play_alloc(mode, nth, connects); });
				(outcome.failed ? tally.failed : tally.passed)++;
				seen[outcome.report.substr(0, outcome.report.find('\n'))]++;
				if (outcome.failed)
					std::printf("alloc %s %llu%s: %s: %s", mode.name, nth,
						connects ? ", connecting" : "", outcome.check.c_str(),
						outcome.report.c_str());
				std::fflush(stdout);
				if (!outcome.counts.refused_allocs || options.words.size() > 2 ||
					tally.failed >= options.failures)
					break;
			}
			std::printf("%s%s, %llu allocations:", mode.name, connects ? ", connecting" : "",
				nth - 1);
			for (const auto &[text, count] : seen)
				std::printf(" %s %llu", text.c_str(), count);
			std::printf("\n");
		}
}

} // namespace

int main(int argc, char **argv)
{
	sim::use_huge_pages(argv);

	Options options;
	Tally tally;

	for (int i = 1; i < argc; i++) {
		const std::string text = argv[i];
		if (text == "--trace")
			options.trace = true;
		else if (text == "--rst") {
			print_rst(sender_dies, receiver_gives_up);
			std::printf("\n");
			print_rst(sender_device, network);
			return 0;
		} else if (text == "--stride" && i + 1 < argc)
			options.stride = std::strtoull(argv[++i], nullptr, 0);
		else if (text == "--failures" && i + 1 < argc)
			options.failures = std::strtoull(argv[++i], nullptr, 0);
		else if (text == "--seeds" && i + 1 < argc)
			options.seeds = std::strtoull(argv[++i], nullptr, 0);
		else
			options.words.push_back(text);
	}
	if (options.wants(0, "table"))
		run_table(options, tally);
	if (options.wants(0, "slow"))
		run_slow_deaths(options, tally);
	if (options.wants(0, "fenced"))
		run_fenced(options, tally);
	if (options.wants(0, "alloc"))
		run_alloc(options, tally);
	std::printf("%llu passed, %llu failed\n", tally.passed, tally.failed);
	return tally.failed || !tally.passed ? 1 : 0;
}
