// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// See report.hpp.
#include "report.hpp"

#include <cctype>
#include <cstdio>
#include <unistd.h>

#include <fmt/format.h>

#include "../counters.hpp"
#include "../failure.hpp"
#include "../json.hpp"

namespace perf
{

namespace
{

constexpr const char *wait_names[] = {"watch, then sleep", "events", "busy-poll", "spin"};
constexpr const char *wait_keys[] = {"hybrid", "events", "busy-poll", "spin"};

bool native(std::uint32_t mode)
{
	return mode >= IBRELK_MODE_RC_NATIVE && mode <= IBRELK_MODE_UD_NATIVE;
}

void json_counters(tool::Json &json, const char *name, const ibrelk_counters &counters)
{
	json.begin_object(name);
	tool::for_each_counter(
		counters, [&](const char *key, std::uint64_t value) { json.member(key, value); });
	json.end_object();
}

void json_overlap(tool::Json &json, const char *side, const OverlapSummary &s)
{
	json.begin_object(side).member("trials", s.trials).member("transfer_us", s.transfer_us);
	json.member("compute_us", s.compute_us).member("total_us", s.total_us);
	json.member("overlap_pct", s.overlap_pct).member("first_pct", s.first_pct);
	json.member("stolen_us", s.stolen_us).member("stolen_pct", s.stolen_pct);
	if (s.kernel_insns)
		json.member("kernel_insns", *s.kernel_insns);
	json.end_object();
}

// What is the same for all lines of a row.
std::string row_end(const Options &options, const Row &row)
{
	std::string text;

	if (native(row.mode))
		text += fmt::format("{:>8}", row.lost);
	if (options.verify)
		text += fmt::format("{:>11}", row.verified);
	if (row.mismatched)
		text += fmt::format("  WRONG: {}", row.mismatched);
	return text + "\n";
}

void json_row(tool::Json &json, const Options &options, const Row &row)
{
	json.begin_object();
	json.member("size", row.bytes).member("iterations", row.iterations).member("messages", row.messages);
	json.member("lost", row.lost).member("verified", row.verified).member("mismatched", row.mismatched);
	if (options.test == Test::latency) {
		const LatencySummary &l = row.latency;

		json.begin_object("latency_us").member("min", l.min_us).member("avg", l.avg_us);
		json.member("p50", l.p50_us).member("p99", l.p99_us).member("p99_9", l.p999_us);
		json.member("max", l.max_us).end_object();
	} else if (options.test == Test::overlap) {
		json_overlap(json, "send", row.send);
		json_overlap(json, "receive", row.receive);
	} else {
		json.member("mb_per_s", row.mb_per_s).member("messages_per_s", row.messages_per_s);
	}
	if (options.test != Test::overlap)
		json.member("acks_per_message", row.acks_per_message)
			.member("acks_per_frame", row.acks_per_frame);
	if (options.counters) {
		json.begin_object("counters");
		json_counters(json, "client", row.client);
		if (options.role != Role::self)
			json_counters(json, "server", row.server);
		json.end_object();
	}
	if (!row.error.empty())
		json.member("error", row.error);
	json.end_object();
}

} // namespace

std::string display_mode(std::uint32_t mode)
{
	std::string name = ibrelk_mode_name(mode);

	if (name.find('-') != std::string::npos) {
		for (std::size_t i = 0; i < 2; i++)
			name[i] = static_cast<char>(std::toupper(name[i]));
	}
	return name;
}

const char *test_name(Test test)
{
	static constexpr const char *names[] = {
		"?", "latency", "bandwidth", "bibandwidth", "rate", "overlap"};

	return names[static_cast<unsigned>(test)];
}

std::string table_heading(const Options &options, const Heading &heading)
{
	std::string text = fmt::format("# ibrelk-perf {}: {}, {} -> {}, door {}, wait {}{}\n",
		test_name(options.test), display_mode(heading.mode), heading.local, heading.peer,
		heading.door, wait_names[static_cast<unsigned>(options.wait.kind)],
		options.verify ? ", verified" : "");

	if (options.test == Test::latency) {
		text += fmt::format("{:<12}{:>10}{:>11}{:>10}{:>10}{:>10}{:>10}{:>11}{:>11}", "# mode",
			"bytes", "iterations", "min[us]", "avg[us]", "p50[us]", "p99[us]", "p99.9[us]",
			"max[us]");
	} else if (options.test == Test::overlap) {
		text += fmt::format(
			"{:<12}{:>10}{:>11}{}", "# mode", "bytes", "iterations", overlap_heading());
	} else {
		text += fmt::format(
			"{:<12}{:>10}{:>11}{:>12}{:>14}", "# mode", "bytes", "iterations", "MB/s", "msg/s");
	}
	if (native(heading.mode))
		text += fmt::format("{:>8}", "lost");
	if (options.verify)
		text += fmt::format("{:>11}", "verified");
	return text + "\n";
}

std::string table_row(const Options &options, const Row &row)
{
	std::string text =
		fmt::format("{:<12}{:>10}{:>11}", display_mode(row.mode), row.bytes, row.iterations);

	if (!row.error.empty())
		return text + "  failed: " + row.error + "\n";
	if (options.test == Test::overlap) {
		const std::string end = row_end(options, row);

		return text + overlap_text("send", row.send) + end + text +
			overlap_text("recv", row.receive) + end;
	}
	if (options.test == Test::latency) {
		const LatencySummary &l = row.latency;

		text += fmt::format("{:>10.2f}{:>10.2f}{:>10.2f}{:>10.2f}{:>11.2f}{:>11.2f}", l.min_us,
			l.avg_us, l.p50_us, l.p99_us, l.p999_us, l.max_us);
	} else {
		text += fmt::format("{:>12.2f}{:>14.0f}", row.mb_per_s, row.messages_per_s);
	}
	return text + row_end(options, row);
}

std::string counters_text(const char *side, const ibrelk_counters &counters)
{
	std::string text;

	tool::for_each_counter(counters, [&](const char *name, std::uint64_t value) {
		if (value)
			text += fmt::format(" {}={}", name, value);
	});
	return text.empty() ? text : fmt::format("#   {}:{}\n", side, text);
}

std::string csv_lines(const Options &options, const Row &row)
{
	std::string text;
	const bool good = row.error.empty() && row.mismatched == 0;
	auto add = [&](const char *metric, double value, const char *unit) {
		text += fmt::format("{},{},{},{},{},{:.6g},{}\n", ibrelk_mode_name(row.mode), metric,
			row.bytes, options.csv_loss, options.csv_delay, good ? value : 0.0, unit);
	};

	// No two runs of different kinds share a name: a file that many have appended to says which is which.
	switch (options.test) {
	case Test::latency:
		add("latency_us", row.latency.avg_us, "us");
		add("latency_min_us", row.latency.min_us, "us");
		add("latency_p50_us", row.latency.p50_us, "us");
		add("latency_p99_us", row.latency.p99_us, "us");
		add("latency_p999_us", row.latency.p999_us, "us");
		break;
	case Test::bandwidth:
		add("bandwidth_mbps", row.mb_per_s, "MB/s");
		add("acks_per_msg", row.acks_per_message, "1");
		add("acks_per_frame", row.acks_per_frame, "1");
		break;
	case Test::bibandwidth:
		add("bibandwidth_mbps", row.mb_per_s, "MB/s");
		add("bibandwidth_acks_per_msg", row.acks_per_message, "1");
		add("bibandwidth_acks_per_frame", row.acks_per_frame, "1");
		break;
	case Test::rate:
		add("msg_rate_kps", row.messages_per_s / 1000, "k/s");
		add("acks_per_msg", row.acks_per_message, "1");
		break;
	case Test::overlap:
		for (const auto &[side, summary] :
			{std::pair("send", row.send), std::pair("recv", row.receive)})
			for_each_overlap_metric(side, summary,
				[&](const std::string &metric, double value, const char *unit) {
					add(metric.c_str(), value, unit);
				});
		break;
	}
	if (native(row.mode)) {
		const char *metric = options.test == Test::latency ? "latency_lost_msgs"
			: options.test == Test::bibandwidth        ? "bibandwidth_lost_msgs"
			: options.test == Test::overlap            ? "overlap_lost_msgs"
								   : "lost_msgs";

		add(metric, static_cast<double>(row.lost), "1");
	}
	return text;
}

void Reporter::begin(const Heading &heading)
{
	headings_.push_back(heading);
	rows_.emplace_back();
	if (!options_.json && !options_.quiet && heading.printed) {
		fmt::print("{}", table_heading(options_, heading));
		std::fflush(stdout);
	}
}

void Reporter::add(const Row &row)
{
	rows_.back().push_back(row);
	failed_ |= !row.error.empty() || row.mismatched;
	if (!options_.json && headings_.back().printed && row.error != not_tried) {
		fmt::print("{}", table_row(options_, row));
		if (options_.counters) {
			const bool self = options_.role == Role::self;

			fmt::print("{}", counters_text(self ? "both" : "client", row.client));
			if (!self)
				fmt::print("{}", counters_text("server", row.server));
		}
		std::fflush(stdout);
	}
	if (!options_.csv.empty())
		append_csv(csv_lines(options_, row));
}

void Reporter::end()
{
	if (options_.json)
		fmt::print("{}\n", json());
	std::fflush(stdout);
}

std::string Reporter::json() const
{
	tool::Json json;

	json.begin_object().member("tool", "ibrelk-perf").member("version", ibrelk_version());
	json.member("test", test_name(options_.test)).member("verify", options_.verify);
	json.member("mixed", options_.mixed)
		.member("window", options_.window)
		.member("batch", options_.batch);
	json.member("seed", options_.seed)
		.member("wait", wait_keys[static_cast<unsigned>(options_.wait.kind)]);
	json.member("ok", !failed_);
	json.begin_array("modes");
	for (std::size_t i = 0; i < headings_.size(); i++) {
		json.begin_object().member("mode", ibrelk_mode_name(headings_[i].mode));
		json.member("local", headings_[i].local).member("peer", headings_[i].peer);
		json.member("door", headings_[i].door).begin_array("results");
		for (const Row &row : rows_[i])
			json_row(json, options_, row);
		json.end_array().end_object();
	}
	json.end_array().end_object();
	return json.text();
}

void Reporter::append_csv(const std::string &lines) const
{
	std::FILE *file = std::fopen(options_.csv.c_str(), "a");

	if (!file)
		throw tool::Failure(tool::exit_usage, fmt::format("cannot write {}", options_.csv));
	std::fseek(file, 0, SEEK_END);
	if (std::ftell(file) == 0)
		fmt::print(file, "{}", csv_heading);
	fmt::print(file, "{}", lines);
	std::fclose(file);
}

} // namespace perf
