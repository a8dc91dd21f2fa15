// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// The command line of ibrelk-perf. The names are those that users of perftest and the OSU benchmarks look
// for.
#include "options.hpp"

#include <charconv>
#include <map>
#include <sstream>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "../failure.hpp"

namespace perf
{

namespace
{

constexpr std::uint64_t large_message = 8192;

const std::map<std::string, Test> test_names = {{"latency", Test::latency}, {"lat", Test::latency},
	{"bandwidth", Test::bandwidth}, {"bw", Test::bandwidth}, {"bibandwidth", Test::bibandwidth},
	{"bibw", Test::bibandwidth}, {"rate", Test::rate}, {"overlap", Test::overlap}};

const std::map<std::string, std::uint32_t> door_names = {{"auto", IBRELK_DOOR_AUTO},
	{"ioctl", IBRELK_DOOR_IOCTL}, {"uring", IBRELK_DOOR_URING},
	{"prefer-uring", IBRELK_DOOR_PREFER_URING}};

const std::map<std::string, std::uint32_t> level_names = {{"default", IBRELK_LEVEL_DEFAULT},
	{"buffered", IBRELK_LEVEL_BUFFERED}, {"delivered", IBRELK_LEVEL_DELIVERED},
	{"matched", IBRELK_LEVEL_MATCHED}};

std::vector<std::string> split(const std::string &text, char separator)
{
	std::vector<std::string> parts;
	std::istringstream stream(text);

	for (std::string part; std::getline(stream, part, separator);)
		parts.push_back(part);
	return parts;
}

ibrelk::Address parse_address(const std::string &text, const std::string &option)
{
	auto address = ibrelk::Address::from_text(text);

	if (!address)
		throw CLI::ValidationError(
			option, text + ": " + ibrelk_error_text(IBRELK_CALL_ADDRESS, address.error()));
	return *address;
}

// What CLI11 collects as text, before it is understood.
struct Texts {
	std::string test;
	std::string peer;
	std::string local;
	std::string mode = "default";
	std::string modes;
	std::string size;
	std::string sizes;
	std::string unexpected;
	std::pair<std::string, std::string> self;
	std::string job_key;
	std::uint64_t busy_poll_us = 0;
	bool server = false;
	bool events = false;
	bool spin = false;
};

void understand_role(const Texts &texts, Options &options)
{
	const bool self = !texts.self.first.empty();

	if (texts.server + self + !texts.peer.empty() != 1)
		throw CLI::ValidationError("role",
			"give one of: PEER (client), --server, --self A B (both ends in this process)");
	if (!texts.server && texts.test.empty())
		throw CLI::ValidationError(
			"TEST", "give a test: latency, bandwidth, bibandwidth, rate or overlap");
	if (texts.server && !texts.test.empty())
		throw CLI::ValidationError("TEST", "a server takes the test from its clients");
	options.role = texts.server ? Role::server : self ? Role::self : Role::client;
	if (!texts.test.empty())
		options.test = test_names.at(texts.test);
	if (self) {
		options.local = parse_address(texts.self.first, "--self");
		options.peer = parse_address(texts.self.second, "--self");
	}
	if (!texts.peer.empty())
		options.peer = parse_address(texts.peer, "PEER");
	if (!texts.local.empty())
		options.local = parse_address(texts.local, "--local");
}

void understand_modes(const Texts &texts, bool mode_given, Options &options)
{
	const std::string everything = options.role == Role::server && !mode_given ? "all" : texts.mode;
	auto modes = parse_modes(texts.modes.empty() ? everything : texts.modes);

	if (!modes)
		throw CLI::ValidationError(
			"--mode", "no such mode; there are default, auto, {rc,uc,ud}-{native,reliable}");
	options.modes = *modes;
}

void understand_sizes(const Texts &texts, Options &options)
{
	const std::string fallback = options.test == Test::rate ? "8"
		: options.test == Test::latency                 ? "1:64k"
		: options.test == Test::overlap                 ? "64k:64M"
								: "64:1M";
	const std::string &text = !texts.size.empty() ? texts.size
		: !texts.sizes.empty()                ? texts.sizes
						      : fallback;

	options.sizes = parse_sizes(text);
	if (options.sizes.empty())
		throw CLI::ValidationError("--size", text + ": write 4096, 4k, 8,64,1k or 8:64k");
	if (!texts.unexpected.empty()) {
		auto bytes = parse_size(texts.unexpected);

		if (!bytes)
			throw CLI::ValidationError("--unexpected", texts.unexpected + ": not a size");
		options.unexpected_bytes = *bytes;
	}
}

void understand_wait(const Texts &texts, Options &options)
{
	if (texts.events + texts.spin + (texts.busy_poll_us != 0) > 1)
		throw CLI::ValidationError("--events", "--events, --busy-poll and --spin exclude each other");
	options.wait_given = texts.events || texts.spin || texts.busy_poll_us;
	if (texts.events)
		options.wait = {WaitKind::events, 0, 0};
	if (texts.spin)
		options.wait = {WaitKind::spin, 0, 0};
	if (texts.busy_poll_us)
		options.wait = {WaitKind::busy_poll, 0, texts.busy_poll_us * 1000};
}

void understand_job_key(const Texts &texts, Options &options)
{
	if (texts.job_key.empty())
		return;

	const bool hex = texts.job_key.starts_with("0x");
	const char *first = texts.job_key.data() + (hex ? 2 : 0);
	const char *last = texts.job_key.data() + texts.job_key.size();
	auto [end, error] = std::from_chars(first, last, options.job_key, hex ? 16 : 10);

	if (error != std::errc() || end != last)
		throw CLI::ValidationError("--job-key", texts.job_key + ": write a number, as 42 or 0x2a");
}

void declare(CLI::App &app, Texts &texts, Options &options)
{
	app.add_option(
		   "TEST", texts.test, "latency, bandwidth, bibandwidth, rate or overlap (or lat, bw, bibw)")
		->check(CLI::IsMember(test_names));
	app.add_option("PEER", texts.peer, "address of the server: 10.1.0.2 or 10.1.0.2:7471");
	app.add_flag("-s,--server", texts.server, "serve clients until interrupted");
	app.add_flag("--once", options.once, "server: end after the first client");
	app.add_option("--self", texts.self, "both ends in this process, with these two local addresses")
		->type_name("A B");

	app.add_option("-m,--mode", texts.mode, "default, auto, or {rc,uc,ud}-{native,reliable}");
	app.add_option("--modes", texts.modes, "several modes with commas, or all");
	app.add_option("--local", texts.local, "own address: which port to use, and endpoint number");
	app.add_option("-p,--port", options.port, "endpoint number of mode 0; mode n is served at number + n")
		->check(CLI::Range(1u, 0xfffffff0u))
		->capture_default_str();
	app.add_option("--job-key", texts.job_key, "talk only to endpoints with this key");
	app.add_option("--door", options.door, "auto, ioctl, uring or prefer-uring")
		->transform(CLI::CheckedTransformer(door_names, CLI::ignore_case));
	app.add_option(
		   "--level", options.level, "when a send is complete: default, buffered, delivered, matched")
		->transform(CLI::CheckedTransformer(level_names, CLI::ignore_case));
	app.add_option("--sends", options.sends, "limit of outstanding sends of the endpoint");
	app.add_option("--recvs", options.recvs, "limit of posted receives of the endpoint");
	app.add_option("--unexpected", texts.unexpected, "limit of memory for unexpected messages");
	app.add_option("--ring", options.ring_entries, "entries of the completion ring");

	app.add_option("--size", texts.size, "bytes per message, with k, M, G; several with commas");
	app.add_option("--sizes", texts.sizes, "A:B: sizes from A, doubling, to B");
	app.add_option("-n,--iterations", options.iterations, "messages per size")
		->check(CLI::PositiveNumber);
	app.add_option("--warmup", options.warmup, "messages before the clock runs");
	app.add_option("-w,--window", options.window, "sends outstanding at a time")
		->check(CLI::Range(1, 16384))
		->capture_default_str();
	app.add_option("-b,--batch", options.batch, "commands per submission and completions per wait")
		->check(CLI::Range(1, 64))
		->capture_default_str();
	app.add_flag("--verify", options.verify, "compare every byte of every message");
	app.add_flag("--mixed", options.mixed, "sizes at random from 0 to the size given");
	app.add_option("--seed", options.seed, "of contents and mixed sizes")->capture_default_str();

	app.add_flag("-e,--events", texts.events, "sleep at once when there is nothing to do");
	app.add_option(
		"--busy-poll", texts.busy_poll_us, "microseconds of polling in the kernel before sleeping");
	app.add_flag("--spin", texts.spin, "never sleep");
	app.add_option("--timeout", options.timeout_s, "seconds without progress until a run has failed")
		->check(CLI::Range(0.001, 1e6))
		->capture_default_str();
	app.add_option("--connect-timeout", options.connect_timeout_s, "seconds to wait for the server")
		->check(CLI::Range(0.001, 1e6))
		->capture_default_str();

	app.add_flag("--json", options.json, "print JSON instead of a table");
	app.add_option("--csv", options.csv, "append results to this file");
	app.add_option("--csv-loss", options.csv_loss, "what to write into its column loss_pct");
	app.add_option("--csv-delay", options.csv_delay, "what to write into its column delay_ms");
	app.add_flag("--counters", options.counters, "print what the module counted during each run");
	app.add_flag("-q,--quiet", options.quiet, "no headings and no notes");
	app.set_version_flag("-V,--version", fmt::format("ibrelk-perf {}", ibrelk_version()));
}

} // namespace

std::optional<std::uint64_t> parse_size(const std::string &text)
{
	static constexpr std::string_view units = "kmg";
	std::uint64_t value = 0;
	auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
	const std::string_view unit(end, text.data() + text.size());

	if (error != std::errc())
		return std::nullopt;
	if (unit.empty())
		return value;

	const auto power = units.find(static_cast<char>(std::tolower(unit[0])));

	if (unit.size() != 1 || power == std::string_view::npos)
		return std::nullopt;

	const unsigned shift = 10 * (static_cast<unsigned>(power) + 1);

	if (value > (UINT64_MAX >> shift))
		return std::nullopt;
	return value << shift;
}

std::vector<std::uint64_t> parse_sizes(const std::string &text)
{
	std::vector<std::uint64_t> sizes;

	if (auto colon = text.find(':'); colon != std::string::npos) {
		auto first = parse_size(text.substr(0, colon));
		auto last = parse_size(text.substr(colon + 1));

		if (!first || !last || *first > *last)
			return {};
		// From 0 the next is 1; the last is always among them.
		for (std::uint64_t size = *first; size < *last; size = size ? size * 2 : 1) {
			sizes.push_back(size);
			if (size > UINT64_MAX / 2)
				break;
		}
		sizes.push_back(*last);
		return sizes;
	}
	for (const std::string &part : split(text, ',')) {
		auto size = parse_size(part);

		if (!size)
			return {};
		sizes.push_back(*size);
	}
	return sizes;
}

std::optional<std::vector<std::uint32_t>> parse_modes(const std::string &text)
{
	std::vector<std::uint32_t> modes;

	if (text == "all")
		return modes;
	for (const std::string &name : split(text, ',')) {
		int mode = ibrelk_mode_from_name(name.c_str());

		if (mode < 0)
			return std::nullopt;
		modes.push_back(static_cast<std::uint32_t>(mode));
	}
	if (modes.empty())
		return std::nullopt;
	return modes;
}

std::uint64_t default_iterations(Test test, std::uint64_t bytes)
{
	// Trials of a percentage; each takes three times as long as its transfer.
	if (test == Test::overlap)
		return std::clamp<std::uint64_t>((64u << 20) / std::max<std::uint64_t>(bytes, 1), 10, 100);

	const std::uint64_t small = test == Test::rate ? 100'000 : test == Test::latency ? 1000 : 10'000;

	// Some hundred megabytes are enough for anybody.
	return bytes <= large_message
		? small
		: std::max<std::uint64_t>(10, std::min(small / 10, (256u << 20) / bytes));
}

std::uint64_t default_warmup(std::uint64_t iterations)
{
	return std::min<std::uint64_t>(iterations / 10, 1000);
}

std::optional<Options> parse_options(int argc, const char *const *argv, int &code)
{
	CLI::App app("Measures latency, bandwidth and message rate of ibrelk endpoints, and verifies data.\n"
		     "One node runs \"ibrelk-perf --server\", the other for example "
		     "\"ibrelk-perf latency 10.1.0.2 --mode uc-reliable\".",
		"ibrelk-perf");
	Texts texts;
	Options options;

	declare(app, texts, options);
	try {
		app.parse(argc, argv);
		understand_role(texts, options);
		understand_modes(texts, app.count("--mode") > 0, options);
		understand_sizes(texts, options);
		understand_wait(texts, options);
		if (options.mixed && options.test == Test::overlap)
			throw CLI::ValidationError("--mixed", "overlap is of messages of one size");
		understand_job_key(texts, options);
	} catch (const CLI::ParseError &error) {
		code = app.exit(error) == 0 ? tool::exit_ok : tool::exit_usage;
		return std::nullopt;
	}
	return options;
}

} // namespace perf
