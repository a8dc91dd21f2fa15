// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// See server.hpp.
#include "server.hpp"

#include <cstdio>

#include <fmt/format.h>

#include "../failure.hpp"

namespace perf
{

namespace
{

constexpr std::uint64_t ms = 1'000'000;
constexpr std::uint64_t idle_slice_ns = 200 * ms;

// In native modes, this long after the client has sent everything and nothing more came, it is lost. Messages
// that go by rendezvous are still being moved when the client has done its part.
constexpr std::uint64_t quiet_eager_ns = 20 * ms;
constexpr std::uint64_t quiet_rendezvous_ns = 300 * ms;

bool same_session(const ControlEvent &a, const ControlEvent &b)
{
	return a.link == b.link && a.peer == b.peer && a.message.session == b.message.session;
}

bool same_run(const ControlEvent &a, const ControlEvent &b)
{
	return same_session(a, b) && a.message.run == b.message.run;
}

} // namespace

Server::Server(const Options &options, const std::atomic<bool> &stop) :
	options_(options), side_(options, tag_request, stop)
{
	listen();
}

void Server::listen()
{
	if (!options_.modes.empty()) {
		for (std::uint32_t mode : options_.modes)
			listen_mode(mode, true);
		return;
	}

	const std::uint32_t usable = side_.query().modes | 1u << IBRELK_MODE_DEFAULT;

	for (std::uint32_t mode = 0; mode < IBRELK_MODE_COUNT; mode++) {
		if (usable & 1u << mode)
			listen_mode(mode, mode == IBRELK_MODE_DEFAULT);
	}
}

void Server::listen_mode(std::uint32_t mode, bool required)
{
	ibrelk::Address local = options_.local;

	if (!local.endpoint() || options_.modes.size() != 1)
		local.set_endpoint(options_.port + mode);
	try {
		Link &link = side_.add_link(mode, local);

		if (!options_.quiet)
			fmt::print(
				"serving {} at {}\n", ibrelk_mode_name(mode), link.endpoint.address().text());
	} catch (const tool::Failure &failure) {
		if (required)
			throw;
		if (!options_.quiet)
			fmt::print("not serving {}: {}\n", ibrelk_mode_name(mode), failure.what());
	}
	std::fflush(stdout);
}

int Server::serve()
{
	const auto idle_limit_ns = static_cast<std::uint64_t>(options_.timeout_s * 1e9);

	while (!side_.stopped() && !(goodbye_ && options_.once)) {
		if (active_)
			drive();
		else
			side_.pump(1, idle_slice_ns, nullptr);
		while (auto event = side_.take_control())
			handle(*event);
		if (options_.once && served_ && !active_ && now_ns() - last_heard_ns_ > idle_limit_ns)
			throw tool::Failure(tool::exit_timeout, "the client is gone without a goodbye");
	}
	return options_.once && failed_ ? tool::exit_failed : tool::exit_ok;
}

void Server::handle(const ControlEvent &event)
{
	last_heard_ns_ = now_ns();
	switch (event.message.type) {
	case ControlType::prepare: handle_prepare(event); break;
	case ControlType::finish: handle_finish(event); break;
	case ControlType::bye: handle_bye(event); break;
	default: break;
	}
}

void Server::handle_bye(const ControlEvent &event)
{
	// In the middle of a run, it has failed over there, or was interrupted: nothing more will come of it.
	if (active_ && same_session(event, active_->origin))
		complete(-ECANCELED);
	reply(event, ControlType::farewell);
	goodbye_ = served_;
}

void Server::handle_prepare(const ControlEvent &event)
{
	if (active_)
		reply(event, same_run(event, active_->origin) ? ControlType::ready : ControlType::busy);
	else if (!last_ || !same_run(event, *last_))
		begin(event);
}

void Server::handle_finish(const ControlEvent &event)
{
	if (active_ && same_run(event, active_->origin)) {
		active_->finish_asked = true;
	} else if (last_ && same_run(event, *last_)) {
		reply(event, ControlType::result, last_->message.report);
	} else {
		Report unknown;

		unknown.status = -ESTALE;
		reply(event, ControlType::result, unknown);
	}
}

bool Server::acceptable(const Plan &plan) const
{
	const auto test = static_cast<std::uint32_t>(plan.test);

	return test >= static_cast<std::uint32_t>(Test::latency) &&
		test <= static_cast<std::uint32_t>(Test::overlap) && plan.window >= 1 &&
		plan.window <= 1u << 16 && plan.slots >= 1 && plan.slots <= 1u << 17 && plan.batch >= 1 &&
		plan.bytes <= side_.query().message_max && plan.count >= 1 && plan.count <= 1u << 30 &&
		plan.timeout_ns >= 1 && plan.timeout_ns <= UINT64_MAX / 2;
}

void Server::begin(const ControlEvent &event)
{
	const Plan &plan = event.message.plan;
	Report refusal;

	served_ = true;
	if (!acceptable(plan)) {
		refusal.status = -EINVAL;
		reply(event, ControlType::ready, refusal);
		return;
	}
	try {
		auto active = std::make_unique<Active>();

		active->origin = event;
		active->counters_before = side_.counters(event.link->endpoint.mode());
		if (plan.test == Test::latency || plan.test == Test::overlap) {
			const bool quiet = plan_bytes(plan, false) <= side_.query().eager_max &&
				!plan_level(plan, false);

			active->echo = std::make_unique<Echo>(
				side_, *event.link, event.peer, plan, event.message.run, quiet);
		} else {
			const Run::Part part{
				.client = false, .sends = plan.test == Test::bibandwidth, .receives = true};

			active->stream = std::make_unique<Stream>(
				side_, *event.link, event.peer, plan, event.message.run, part);
		}
		active_ = std::move(active);
		if (!options_.wait_given)
			side_.set_wait(plan.wait);
	} catch (const std::exception &) {
		refusal.status = -ENOMEM;
		reply(event, ControlType::ready, refusal);
		return;
	}
	reply(event, ControlType::ready);
}

void Server::drive()
{
	if (active_->echo) {
		active_->echo->answer();
		active_->echo->wait();
	} else {
		Stream &stream = *active_->stream;

		if (active_->finish_asked || stream.received_any())
			stream.start_sending();
		stream.submit();
		stream.wait();
	}
	if (finished())
		complete(active_->run().stalled() ? -ETIMEDOUT : 0);
}

bool Server::finished() const
{
	const Run &run = active_->run();

	if (run.error() || run.stalled() || (run.all_received() && run.all_sent()))
		return true;
	if (!run.native() || !active_->finish_asked)
		return false;

	const Plan &plan = active_->origin.message.plan;
	const bool eager = plan.bytes <= side_.query().eager_max;
	// An echo, or a stream of the client alone, has sent what it will ever send.
	const bool sent = run.all_sent() || plan.test != Test::bibandwidth;

	return sent && now_ns() - run.last_progress_ns() > (eager ? quiet_eager_ns : quiet_rendezvous_ns);
}

void Server::complete(int unfinished)
{
	const std::unique_ptr<Active> active = std::move(active_);
	const Run &run = active->run();
	Report report = run.report();
	const bool whole = run.all_received() && run.all_sent();

	report.counters =
		subtract(side_.counters(active->origin.link->endpoint.mode()), active->counters_before);
	if (!report.status && !whole)
		report.status = unfinished;
	report.tail_ns = now_ns() - run.last_progress_ns();
	reply(active->origin, ControlType::result, report);
	if (report.status || report.mismatched)
		failed_ = true;
	active->run().finish();
	side_.set_wait(options_.wait);
	last_ = active->origin;
	last_->message.report = report;
	last_heard_ns_ = now_ns();
	note(active->origin, report);
}

void Server::reply(const ControlEvent &to, ControlType type, const Report &report)
{
	Control message = to.message;

	message.type = type;
	message.report = report;
	to.link->send_control(to.peer, message, tag_reply);
}

void Server::note(const ControlEvent &event, const Report &report) const
{
	if (options_.quiet)
		return;

	static constexpr const char *tests[] = {
		"?", "latency", "bandwidth", "bibandwidth", "rate", "overlap"};
	const Plan &plan = event.message.plan;
	auto source = event.link->endpoint.peer_query(event.peer);
	std::string text = fmt::format("{} {} from {}: {} of {} messages of {} bytes",
		ibrelk_mode_name(event.link->endpoint.mode()), tests[static_cast<unsigned>(plan.test)],
		source ? source->text() : "?", report.received, plan.count, plan.bytes);

	if (plan.flags & plan_verify)
		text += fmt::format(", {} verified", report.verified);
	if (report.mismatched)
		text += fmt::format(", {} WRONG", report.mismatched);
	if (report.status)
		text += fmt::format(", failed: {}", ibrelk_error_text(IBRELK_CALL_COMPLETION, report.status));
	fmt::print("{}\n", text);
	std::fflush(stdout);
}

} // namespace perf
