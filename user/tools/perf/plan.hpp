// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// What client and server tell each other. The client decides everything; a run is: PREPARE with a plan, READY
// once the receives are posted, then data, then a RESULT with what the other side saw. Control messages
// travel as ordinary ibrelk messages with tags of their own. They are repeated until answered, since native
// modes may lose them, and carry session and run, so that repeats do no harm.
#pragma once

#include <cstdint>
#include <type_traits>

#include <ibrelk/uapi.h>

namespace perf
{

enum class Test : std::uint32_t { latency = 1, bandwidth = 2, bibandwidth = 3, rate = 4, overlap = 5 };

enum class WaitKind : std::uint32_t {
	hybrid = 0,    // watch the ring a little, then sleep
	events = 1,    // sleep at once
	busy_poll = 2, // let the kernel poll the adapter, then sleep
	spin = 3,      // watch the ring and never sleep
};

struct Wait {
	WaitKind kind = WaitKind::hybrid;
	std::uint32_t reserved = 0;
	std::uint64_t time_ns = 20'000; // hybrid: watching; busy_poll: polling
};

constexpr std::uint32_t plan_verify = 1u << 0;  // compare every byte
constexpr std::uint32_t plan_mixed = 1u << 1;   // sizes from 0 to .bytes instead of .bytes
constexpr std::uint32_t plan_native = 1u << 2;  // messages may be lost: count, do not fail
constexpr std::uint32_t plan_receive = 1u << 3; // overlap: of the client's receives, else of its sends

/// One run, as the client wants it.
struct Plan {
	Test test = Test::latency;
	std::uint32_t flags = 0;
	std::uint64_t bytes = 0;  // of each message, or the most with plan_mixed
	std::uint64_t count = 0;  // messages from the client; with bibandwidth as many from the server
	std::uint32_t window = 1; // sends outstanding
	std::uint32_t slots = 1;  // receives posted
	std::uint32_t batch = 1;  // commands per submission, completions per wait
	std::uint32_t level = 0;  // enum ibrelk_level of the sends
	std::uint64_t seed = 0;
	std::uint64_t timeout_ns = 0; // without progress, until the run has failed
	Wait wait;
};

/// Length of the messages of one direction, or their most. Those that only ask or answer are empty.
constexpr std::uint64_t plan_bytes(const Plan &plan, bool from_client) noexcept
{
	const bool client_sends = !(plan.flags & plan_receive);

	return plan.test != Test::overlap || from_client == client_sends ? plan.bytes : 0;
}

/// Level of the sends of one direction: what only asks or answers need not be waited for.
constexpr std::uint32_t plan_level(const Plan &plan, bool from_client) noexcept
{
	const bool asks = plan.test == Test::overlap && plan_bytes(plan, from_client) == 0;

	return asks ? std::uint32_t{IBRELK_LEVEL_DEFAULT} : plan.level;
}

/// What a side saw of a run.
struct Report {
	std::int32_t status = 0; // 0 or a negative errno: the run failed there
	std::uint32_t reserved = 0;
	std::uint64_t received = 0;   // messages
	std::uint64_t bytes = 0;      // in them
	std::uint64_t verified = 0;   // messages that were compared and right
	std::uint64_t mismatched = 0; // messages with wrong contents, length or number
	std::uint64_t failed_sends = 0;
	std::uint64_t tail_ns = 0; // from the last progress to this report
	ibrelk_counters counters{};
};

enum class ControlType : std::uint16_t {
	prepare = 1, // client: .plan
	ready = 2,   // server: go on; or .report.status
	finish = 3,  // client: all has been sent, tell what came
	result = 4,  // server: .report
	busy = 5,    // server: serving somebody else, ask again
	bye = 6,     // client: no more runs
	farewell = 7 // server: answer to bye
};

constexpr std::uint32_t control_magic = 0x46504249; // "IBPF", or not of our byte order
constexpr std::uint16_t control_version = 1;

struct Control {
	std::uint32_t magic = control_magic;
	std::uint16_t version = control_version;
	ControlType type = ControlType::prepare;
	std::uint32_t session = 0; // of the client's choosing
	std::uint32_t run = 0;
	Plan plan;
	Report report;
};
static_assert(std::is_trivially_copyable_v<Control>);
static_assert(sizeof(Control) <= 1024, "a control message should fit a small packet");

constexpr std::uint64_t tag_request = 0x6962'7066'0000'0001u;
constexpr std::uint64_t tag_reply = 0x6962'7066'0000'0002u;
constexpr std::uint64_t tag_data = 0x6962'7064'0000'0000u; // plus the run

constexpr std::uint32_t default_port = 7471; // 7471 + mode is the endpoint number that serves a mode

} // namespace perf
