// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// ibrelk-perf: measures latency, bandwidth and message rate between two endpoints, and verifies the data.
#include <csignal>
#include <cstdio>
#include <exception>
#include <memory>
#include <optional>
#include <thread>

#include <fmt/format.h>

#include "../failure.hpp"
#include "client.hpp"
#include "options.hpp"
#include "report.hpp"
#include "server.hpp"

namespace
{

std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free, "it is set by a signal handler");

void interrupt(int)
{
	interrupted.store(true, std::memory_order_relaxed);
}

// No SA_RESTART: a signal should end the wait for completions.
void catch_signals()
{
	struct sigaction action {
	};

	action.sa_handler = interrupt;
	::sigaction(SIGINT, &action, nullptr);
	::sigaction(SIGTERM, &action, nullptr);
}

// The server of a client in the same process. It listens once it is constructed.
class SelfServer
{
public:
	SelfServer(const perf::Options &client, std::uint32_t mode) : options_(client)
	{
		options_.role = perf::Role::server;
		options_.modes = {mode};
		options_.local = client.peer;
		options_.once = true;
		options_.quiet = true;
		server_ = std::make_unique<perf::Server>(options_, stop_);
		thread_ = std::thread([this] { run(); });
	}
	SelfServer(const SelfServer &) = delete;
	SelfServer &operator=(const SelfServer &) = delete;
	~SelfServer()
	{
		stop_ = true;
		thread_.join();
	}

private:
	void run() noexcept
	{
		try {
			server_->serve();
		} catch (const std::exception &error) {
			fmt::print(stderr, "ibrelk-perf: server: {}\n", error.what());
		}
	}

	perf::Options options_;
	std::atomic<bool> stop_{false};
	std::unique_ptr<perf::Server> server_;
	std::thread thread_;
};

// Rows for sizes that were not measured any more, so that a table of many runs has no holes.
void add_missing(perf::Reporter &reporter, const perf::Options &options, std::uint32_t mode,
	std::size_t first, const std::string &why)
{
	for (std::size_t i = first; i < options.sizes.size(); i++) {
		perf::Row row;

		row.mode = mode;
		row.bytes = options.sizes[i];
		row.error = i == first ? why : perf::not_tried;
		reporter.add(row);
	}
}

// Measures all sizes in one mode. Returns an exit code.
int measure_mode(const perf::Options &options, std::uint32_t mode, perf::Reporter &reporter)
{
	std::size_t done = 0;
	bool begun = false;
	std::uint32_t real_mode = mode;

	try {
		std::optional<SelfServer> server;

		if (options.role == perf::Role::self)
			server.emplace(options, mode);

		perf::Client client(options, mode, interrupted);

		real_mode = client.heading().mode;
		reporter.begin(client.heading());
		begun = true;
		for (; done < options.sizes.size(); done++)
			reporter.add(client.measure(options.sizes[done]));
		client.bye();
		return tool::exit_ok;
	} catch (const tool::Failure &failure) {
		if (!begun)
			reporter.begin({mode, options.local.text(), options.peer.text(), "none", false});
		add_missing(reporter, options, real_mode, done, failure.what());
		fmt::print(stderr, "ibrelk-perf: {}: {}\n", perf::display_mode(real_mode), failure.what());
		return failure.code();
	}
}

// The modes that this node can do, for --modes all.
std::vector<std::uint32_t> usable_modes()
{
	auto device = tool::need(ibrelk::Device::open(), IBRELK_CALL_OPEN, "cannot open " IBRELK_DEVICE_PATH);
	auto query = tool::need(device.query(), IBRELK_CALL_DEVICE, "cannot query the module");
	std::vector<std::uint32_t> modes;

	for (std::uint32_t mode = 1; mode < IBRELK_MODE_COUNT; mode++) {
		if (query.modes & 1u << mode)
			modes.push_back(mode);
	}
	if (modes.empty())
		throw tool::Failure(IBRELK_CALL_ENDPOINT_CREATE, ENODEV, "no mode can be used");
	return modes;
}

int run_client(const perf::Options &options)
{
	perf::Reporter reporter(options);
	int code = tool::exit_ok;

	for (std::uint32_t mode : options.modes.empty() ? usable_modes() : options.modes) {
		const int result = interrupted ? tool::exit_failed : measure_mode(options, mode, reporter);

		code = code ? code : result;
	}
	reporter.end();
	return code ? code : reporter.failed() ? tool::exit_failed : tool::exit_ok;
}

} // namespace

int main(int argc, char **argv)
{
	int code = tool::exit_ok;

	try {
		auto options = perf::parse_options(argc, argv, code);

		if (!options)
			return code;
		catch_signals();
		if (options->role == perf::Role::server)
			return perf::Server(*options, interrupted).serve();
		return run_client(*options);
	} catch (const tool::Failure &failure) {
		fmt::print(stderr, "ibrelk-perf: {}\n", failure.what());
		return failure.code();
	} catch (const std::exception &error) {
		fmt::print(stderr, "ibrelk-perf: {}\n", error.what());
		return tool::exit_failed;
	}
}
