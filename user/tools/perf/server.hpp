// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// The server: one endpoint for each mode, all on one ring, and one run at a time. It learns everything from
// its clients, and outlives whatever they do.
#pragma once

#include <functional>
#include <memory>

#include "latency.hpp"
#include "options.hpp"
#include "side.hpp"
#include "stream.hpp"

namespace perf
{

class Server
{
public:
	Server(const Options &options, const std::atomic<bool> &stop);

	/// Serves until stopped, or with --once until the first client has said goodbye. Returns the exit
	/// code.
	int serve();

private:
	struct Active {
		ControlEvent origin; // the PREPARE that began it
		std::unique_ptr<Stream> stream;
		std::unique_ptr<Echo> echo;
		bool finish_asked = false;
		ibrelk_counters counters_before;

		[[nodiscard]] Run &run() const
		{
			return stream ? static_cast<Run &>(*stream) : *echo;
		}
	};

	void listen();
	void listen_mode(std::uint32_t mode, bool required);
	void handle(const ControlEvent &event);
	void handle_prepare(const ControlEvent &event);
	void handle_finish(const ControlEvent &event);
	void handle_bye(const ControlEvent &event);
	void begin(const ControlEvent &event);
	[[nodiscard]] bool acceptable(const Plan &plan) const;
	void drive();
	[[nodiscard]] bool finished() const;
	/// The run is over; @p unfinished is its status if it is not whole and nothing else was wrong.
	void complete(int unfinished);
	void reply(const ControlEvent &to, ControlType type, const Report &report = {});
	void note(const ControlEvent &event, const Report &report) const;

	const Options &options_;
	Side side_;
	std::unique_ptr<Active> active_;
	std::optional<ControlEvent> last_; // the last run, and its result, in case that got lost
	std::uint64_t last_heard_ns_ = 0;
	bool served_ = false;
	bool goodbye_ = false;
	bool failed_ = false;
};

} // namespace perf
