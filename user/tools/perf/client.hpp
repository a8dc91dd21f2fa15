// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// The client: asks a server for runs and measures them.
#pragma once

#include "latency.hpp"
#include "options.hpp"
#include "report.hpp"
#include "side.hpp"
#include "stream.hpp"
#include "transfer.hpp"

namespace perf
{

class Client
{
public:
	Client(const Options &options, std::uint32_t mode, const std::atomic<bool> &stop);

	[[nodiscard]] Heading heading() const;
	/// Measures one size. Throws a Failure if that does not succeed; wrong data is in the row.
	Row measure(std::uint64_t bytes);
	/// Tells the server that there are no more runs, even if interrupted, and waits for its answer for a
	/// few seconds; does not mind if it is gone.
	void bye();

private:
	/// Iterations, and with them all that the server has to know.
	[[nodiscard]] Plan plan(std::uint64_t bytes, std::uint64_t count) const;
	Row measure_size(std::uint64_t bytes);
	void measure_latency(Row &row, std::uint64_t warmup);
	void measure_overlap(Row &row, const ibrelk_counters &before, std::uint64_t warmup, bool receive);
	void measure_stream(Row &row, std::uint64_t count, bool timed);

	/// Sends a request, at once or after @p first_ns, and again until it is answered.
	Control request(ControlType type, ControlType answer, const Plan &plan, std::uint64_t first_ns,
		std::uint64_t limit_ns, const char *what);
	void send(ControlType type, const Plan &plan);
	/// The answer among the control messages that have come, if it is there.
	std::optional<Control> answer(ControlType type);
	void prepare(const Plan &plan);
	void check(const Run &run, const char *what) const;
	void take_counters(
		Row &row, const ibrelk_counters &before, const Report &report, unsigned directions) const;

	const Options &options_;
	Side side_;
	Link &link_;
	ibrelk::Address peer_address_;
	ibrelk::Peer peer_;
	const std::uint64_t timeout_ns_;
	const std::uint32_t session_;
	std::uint32_t run_ = 0;
	bool busy_ = false;
	bool heard_ = false; // anything of the server
};

} // namespace perf
