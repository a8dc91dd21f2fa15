// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Results, and how they are printed: a table as perftest and OSU print it, JSON, and rows appended to a CSV
// file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "options.hpp"
#include "overlap.hpp"
#include "plan.hpp"
#include "stats.hpp"

namespace perf
{

/// The result for one size in one mode.
struct Row {
	std::uint32_t mode = 0;
	std::uint64_t bytes = 0;
	std::uint64_t iterations = 0;
	std::uint64_t messages = 0; // that arrived, in both directions
	std::uint64_t lost = 0;     // round trips or messages that did not
	std::uint64_t verified = 0;
	std::uint64_t mismatched = 0;
	LatencySummary latency; // one way
	OverlapSummary send;    // of the client
	OverlapSummary receive;
	double mb_per_s = 0; // 10^6 bytes per second
	double messages_per_s = 0;
	double acks_per_message = 0; // explicit and credit ACKs of both sides
	double acks_per_frame = 0;   // the same for each frame sent: of long messages, a packet
	ibrelk_counters client{};
	ibrelk_counters server{};
	std::string error; // why there is no result
};

/// Error of a row that was not measured because one before it failed.
constexpr const char *not_tried = "not tried";

/// What is the same for all rows of a table.
struct Heading {
	std::uint32_t mode = 0;
	std::string local;
	std::string peer;
	std::string door;
	bool printed = true; // false: nothing could be begun, and the error alone is printed
};

/// "UC-reliable" for "uc-reliable".
std::string display_mode(std::uint32_t mode);

const char *test_name(Test test);

std::string table_heading(const Options &options, const Heading &heading);
std::string table_row(const Options &options, const Row &row);
/// What the module counted, one line; empty if nothing.
std::string counters_text(const char *side, const ibrelk_counters &counters);

/// Lines of the CSV file for a row: mode,metric,size,loss_pct,delay_ms,value,unit. A row that failed has them
/// too, with value 0.
std::string csv_lines(const Options &options, const Row &row);
constexpr const char *csv_heading = "mode,metric,size,loss_pct,delay_ms,value,unit\n";

/// Collects what was measured, and prints it.
class Reporter
{
public:
	explicit Reporter(const Options &options) : options_(options)
	{
	}
	/// A mode begins.
	void begin(const Heading &heading);
	void add(const Row &row);
	/// Prints what is printed at the end.
	void end();

	/// The whole as JSON.
	[[nodiscard]] std::string json() const;
	[[nodiscard]] bool failed() const
	{
		return failed_;
	}

private:
	void append_csv(const std::string &lines) const;

	const Options &options_;
	std::vector<Heading> headings_;
	std::vector<std::vector<Row>> rows_; // by heading
	bool failed_ = false;
};

} // namespace perf
