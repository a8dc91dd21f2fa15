// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// See client.hpp.
#include "client.hpp"

#include <algorithm>
#include <unistd.h>

#include <fmt/format.h>

#include "../failure.hpp"
#include "pattern.hpp"

namespace perf
{

namespace
{

constexpr std::uint64_t ms = 1'000'000;

// Unanswered requests are repeated at first soon, then seldom.
constexpr std::uint64_t repeat_min_ns = 100 * ms;
constexpr std::uint64_t repeat_max_ns = 1000 * ms;
constexpr std::uint64_t busy_pause_ns = 100 * ms;
// A run in a reliable mode ends without being asked for; this is how long it gets before it is, all the same.
constexpr std::uint64_t reliable_patience_ns = 1000 * ms;
constexpr std::uint64_t native_repeat_ns = 50 * ms;
constexpr std::uint64_t native_quiet_ns = 30 * ms;
constexpr std::uint64_t bye_limit_ns = 5000 * ms;

// Most bytes that a window may hold.
constexpr std::uint64_t window_bytes_max = 256u << 20;

bool is_native(std::uint32_t mode)
{
	return mode >= IBRELK_MODE_RC_NATIVE && mode <= IBRELK_MODE_UD_NATIVE;
}

ibrelk::Address server_address(const Options &options, std::uint32_t mode)
{
	ibrelk::Address address = options.peer;

	if (!address.endpoint())
		address.set_endpoint(options.port + mode);
	return address;
}

} // namespace

Client::Client(const Options &options, std::uint32_t mode, const std::atomic<bool> &stop) :
	options_(options), side_(options, tag_reply, stop), link_(side_.add_link(mode, options.local)),
	peer_address_(server_address(options, mode)),
	peer_(tool::need(link_.endpoint.peer_add(peer_address_), IBRELK_CALL_PEER, peer_address_.text())),
	timeout_ns_(static_cast<std::uint64_t>(options.timeout_s * 1e9)),
	session_(static_cast<std::uint32_t>(mix(now_ns() ^ static_cast<std::uint64_t>(::getpid()) << 40)))
{
}

Heading Client::heading() const
{
	const bool uring = link_.endpoint.door() == IBRELK_DOOR_URING;

	return {link_.endpoint.mode(), link_.endpoint.address().text(), peer_address_.text(),
		uring ? "io_uring" : "ioctl"};
}

Plan Client::plan(std::uint64_t bytes, std::uint64_t count) const
{
	Plan plan;
	const std::uint64_t fits =
		std::max<std::uint64_t>(1, window_bytes_max / std::max<std::uint64_t>(bytes, 1));
	const auto limit = [&](std::uint64_t wanted) {
		return static_cast<std::uint32_t>(std::min({wanted, fits, count}));
	};

	plan.test = options_.test;
	plan.flags = (options_.verify ? plan_verify : 0) | (options_.mixed ? plan_mixed : 0) |
		(is_native(link_.endpoint.mode()) ? plan_native : 0);
	plan.bytes = bytes;
	plan.count = count;
	plan.level = options_.level;
	plan.seed = mix(options_.seed + run_);
	plan.timeout_ns = timeout_ns_;
	plan.wait = options_.wait;
	if (options_.test == Test::overlap) {
		plan.window = transfer_window;
		plan.slots = transfer_slots_send;
		plan.batch = transfer_window + transfer_slots_send;
		// A short send that is complete once it is copied would say nothing.
		if (!plan.level && !is_native(link_.endpoint.mode()))
			plan.level = IBRELK_LEVEL_DELIVERED;
	} else if (options_.test == Test::latency) {
		plan.window = limit(latency_window);
		plan.slots = limit(latency_slots);
		plan.batch = latency_window + latency_slots;
	} else {
		plan.window = limit(options_.window);
		plan.slots = limit(2 * static_cast<std::uint64_t>(options_.window));
		plan.batch = options_.batch;
	}
	// An endpoint cannot post more than the module allows, and needs some for control messages.
	plan.slots = std::clamp(plan.slots, 1u, std::max(1u, side_.query().recvs_max - 16));
	return plan;
}

void Client::send(ControlType type, const Plan &plan)
{
	Control message;

	message.type = type;
	message.session = session_;
	message.run = run_;
	message.plan = plan;
	link_.send_control(peer_, message, tag_request);
}

std::optional<Control> Client::answer(ControlType type)
{
	std::optional<Control> found;

	while (auto event = side_.take_control()) {
		const Control &message = event->message;

		if (message.session != session_)
			continue;
		heard_ = true;
		if (message.run != run_)
			continue;
		busy_ = message.type == ControlType::busy;
		if (message.type == type)
			found = message;
	}
	return found;
}

Control Client::request(ControlType type, ControlType wanted, const Plan &plan, std::uint64_t first_ns,
	std::uint64_t limit_ns, const char *what)
{
	const std::uint64_t start_ns = now_ns();
	std::uint64_t next_ns = start_ns + first_ns;
	std::uint64_t repeat_ns = repeat_min_ns;

	busy_ = false;
	for (;;) {
		if (auto found = answer(wanted))
			return *found;

		const std::uint64_t now = now_ns();

		if (side_.stopped() && type != ControlType::bye)
			throw tool::Failure(tool::exit_failed, "interrupted");
		// Who is not there yet may come; another job's key stays that.
		if (link_.control_error() == EACCES)
			throw tool::Failure(
				IBRELK_CALL_COMPLETION, EACCES, peer_address_.text() + " refuses to talk");
		// A server that serves somebody else is there: that may take as long as it takes.
		if (now - start_ns > limit_ns && !busy_) {
			const int error = link_.control_error();

			throw tool::Failure(tool::exit_timeout,
				fmt::format("{} {} within {:.3g} s{}{}", peer_address_.text(), what,
					static_cast<double>(limit_ns) / 1e9, error ? ": " : "",
					error ? ibrelk_error_text(IBRELK_CALL_COMPLETION, error) : ""));
		}
		if (now >= next_ns) {
			send(type, plan);
			next_ns = now + (busy_ ? busy_pause_ns : repeat_ns);
			repeat_ns = std::min(repeat_ns * 2, repeat_max_ns);
		}
		side_.pump(1, std::min(next_ns - std::min(now, next_ns), limit_ns), nullptr);
	}
}

void Client::prepare(const Plan &plan)
{
	const auto limit_ns = static_cast<std::uint64_t>(options_.connect_timeout_s * 1e9);
	const Control ready = request(ControlType::prepare, ControlType::ready, plan, 0, limit_ns,
		"does not answer (is \"ibrelk-perf --server\" running there?)");

	if (ready.report.status)
		throw tool::Failure(tool::exit_failed,
			fmt::format("{} refuses the run: {}", peer_address_.text(),
				ready.report.status == -ENOMEM ? "not enough memory" : "out of its limits"));
}

void Client::check(const Run &run, const char *what) const
{
	if (run.error())
		throw tool::Failure(IBRELK_CALL_COMPLETION, run.error(),
			fmt::format("{} failed ({})", what, run.progress_text()));
	if (side_.stopped())
		throw tool::Failure(tool::exit_failed, "interrupted");
	if (run.stalled())
		throw tool::Failure(tool::exit_timeout,
			fmt::format("no progress for {:.3g} s ({})", static_cast<double>(timeout_ns_) / 1e9,
				run.progress_text()));
}

void Client::take_counters(
	Row &row, const ibrelk_counters &before, const Report &report, unsigned directions) const
{
	auto acks = [](const ibrelk_counters &c) {
		return static_cast<double>(c.tx_acks_explicit + c.tx_acks_credit);
	};
	const double messages = static_cast<double>(row.iterations) * directions;

	row.client = subtract(side_.counters(link_.endpoint.mode()), before);
	row.server = report.counters;
	// With both ends on one node, the client has read the counters of both.
	const bool self = options_.role == Role::self;
	const double sum = acks(row.client) + (self ? 0 : acks(row.server));
	const std::uint64_t frames = row.client.tx_segments + (self ? 0 : row.server.tx_segments);

	row.acks_per_message = sum / messages;
	row.acks_per_frame = frames ? sum / static_cast<double>(frames) : 0;
}

Row Client::measure(std::uint64_t bytes)
{
	try {
		return measure_size(bytes);
	} catch (const tool::Failure &) {
		// The server need not wait for us. Telling it once is not enough where the run is all that
		// the kernel takes for now; but nobody waits for a server that has never been heard.
		if (heard_) {
			bye();
		} else {
			run_++;
			send(ControlType::bye, {});
		}
		throw;
	}
}

Row Client::measure_size(std::uint64_t bytes)
{
	Row row;

	row.mode = link_.endpoint.mode();
	row.bytes = bytes;
	row.iterations = options_.iterations.value_or(default_iterations(options_.test, bytes));

	const std::uint64_t warmup = options_.warmup.value_or(default_warmup(row.iterations));

	if (bytes > side_.query().message_max)
		throw tool::Failure(IBRELK_CALL_SUBMIT, EMSGSIZE, fmt::format("{} bytes", bytes));
	if (options_.test == Test::latency) {
		measure_latency(row, warmup);
		return row;
	}
	if (options_.test == Test::overlap) {
		const ibrelk_counters before = side_.counters(row.mode);

		measure_overlap(row, before, warmup, false);
		measure_overlap(row, before, warmup, true);
		return row;
	}
	if (warmup) {
		Row ignored = row;

		measure_stream(ignored, warmup, false);
	}
	measure_stream(row, row.iterations, true);
	return row;
}

void Client::measure_latency(Row &row, std::uint64_t warmup)
{
	run_++;

	const Plan what = plan(row.bytes, warmup + row.iterations);
	const bool quiet = row.bytes <= side_.query().eager_max && !what.level;
	Pinger pinger(side_, link_, peer_, what, run_, quiet);
	Samples samples;

	samples.reserve(row.iterations);
	prepare(what);

	const ibrelk_counters before = side_.counters(row.mode);

	for (std::uint64_t i = 0; i < what.count; i++) {
		const std::uint64_t time_ns = pinger.ping();

		if (time_ns == 0 || side_.stopped())
			check(pinger, "ping-pong");
		else if (i >= warmup)
			samples.add(time_ns);
	}

	const Control result = request(ControlType::finish, ControlType::result, what,
		pinger.native() ? 0 : reliable_patience_ns, timeout_ns_, "does not tell the result");

	if (result.report.status)
		throw tool::Failure(IBRELK_CALL_COMPLETION, result.report.status, "the server failed");
	take_counters(row, before, result.report, 2);
	pinger.finish();
	row.latency = samples.summarise(2);
	row.lost = pinger.lost();

	const Report own = pinger.report();

	row.messages = own.received + result.report.received;
	row.verified = own.verified + result.report.verified;
	row.mismatched = own.mismatched + result.report.mismatched;
}

void Client::measure_overlap(Row &row, const ibrelk_counters &before, std::uint64_t warmup, bool receive)
{
	run_++;

	Plan what = plan(row.bytes, OverlapMeter::attempts(warmup, row.iterations));

	if (receive) {
		what.flags |= plan_receive;
		what.slots = transfer_slots_receive;
	}

	Transfer transfer(side_, link_, peer_, what, run_);
	OverlapMeter meter(transfer, warmup, row.iterations);

	prepare(what);
	for (std::uint64_t i = 0; i < what.count; i++) {
		if (!meter.attempt() || side_.stopped())
			check(transfer, "overlap");
	}

	Control result = request(ControlType::finish, ControlType::result, what,
		transfer.native() ? 0 : reliable_patience_ns, timeout_ns_, "does not tell the result");

	if (result.report.status)
		throw tool::Failure(IBRELK_CALL_COMPLETION, result.report.status, "the server failed");
	// Of both sides together: the client's own have been counted since before the first.
	result.report.counters = add(result.report.counters, row.server);
	take_counters(row, before, result.report, 2);
	transfer.finish();
	(receive ? row.receive : row.send) = meter.summary();
	row.lost += transfer.lost();

	const Report own = transfer.report();

	row.messages += own.received + result.report.received;
	row.verified += own.verified + result.report.verified;
	row.mismatched += own.mismatched + result.report.mismatched;
}

void Client::measure_stream(Row &row, std::uint64_t count, bool timed)
{
	run_++;

	const bool both = options_.test == Test::bibandwidth;
	const Plan what = plan(row.bytes, count);
	Stream stream(side_, link_, peer_, what, run_, {.client = true, .sends = true, .receives = both});

	prepare(what);

	const ibrelk_counters before = timed ? side_.counters(row.mode) : ibrelk_counters{};
	std::optional<Control> result;
	std::uint64_t finish_ns = 0; // when to ask for the result next; 0: not all is sent yet
	const std::uint64_t start_ns = now_ns();
	std::uint64_t result_ns = 0;

	stream.start_sending();
	for (;;) {
		stream.submit();
		if (!stream.all_sent() || !result || !stream.all_received())
			stream.wait();
		if (!result && (result = answer(ControlType::result)))
			result_ns = now_ns();
		if (result && result->report.status)
			throw tool::Failure(IBRELK_CALL_COMPLETION, result->report.status,
				fmt::format("the server failed ({})", stream.progress_text()));
		if (stream.all_sent() && result) {
			const std::uint64_t quiet_ns = now_ns() - stream.last_progress_ns();

			if (stream.all_received() || (stream.native() && quiet_ns > native_quiet_ns))
				break;
		}
		check(stream, "streaming");
		if (stream.all_sent() && !result && now_ns() >= finish_ns) {
			// The server ends by itself if it got everything, which in native modes it may not.
			if (finish_ns || stream.native())
				send(ControlType::finish, what);
			finish_ns = now_ns() + (stream.native() ? native_repeat_ns : reliable_patience_ns);
		}
	}

	const std::uint64_t end_ns = std::max(result_ns - std::min(result->report.tail_ns, result_ns),
		both ? stream.last_progress_ns() : 0);
	const double elapsed_s = static_cast<double>(end_ns - std::min(start_ns, end_ns)) / 1e9;
	const Report own = stream.report();

	if (timed)
		take_counters(row, before, result->report, both ? 2 : 1);
	stream.finish();
	row.messages = own.received + result->report.received;
	row.lost = count * (both ? 2 : 1) - std::min(count * (both ? 2 : 1), row.messages);
	row.verified = own.verified + result->report.verified;
	row.mismatched = own.mismatched + result->report.mismatched;
	if (elapsed_s > 0) {
		row.mb_per_s = static_cast<double>(own.bytes + result->report.bytes) / elapsed_s / 1e6;
		row.messages_per_s = static_cast<double>(row.messages) / elapsed_s;
	}
	if (!timed && row.mismatched)
		throw tool::Failure(tool::exit_failed,
			fmt::format("{} messages were wrong during warmup", row.mismatched));
}

void Client::bye()
{
	run_++;
	try {
		request(ControlType::bye, ControlType::farewell, {}, 0, bye_limit_ns, "does not say goodbye");
	} catch (const tool::Failure &) {
		// It is gone already.
	}
}

} // namespace perf
