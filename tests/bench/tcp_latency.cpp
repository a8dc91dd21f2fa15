// SPDX-License-Identifier: GPL-2.0-only
/*
 * Ping-pong over TCP, as `ibrelk-perf latency` does it over ibrelk: so many messages of so many bytes after a
 * warm-up, both ends sleep while they wait, and percentiles are taken from all round trips in the same way.
 *
 *	tcp_latency serve ADDRESS                           one client
 *	tcp_latency ping ADDRESS SIZE COUNT WARMUP          prints rows as ibrelk-perf appends to its CSV file
 *
 * What Debian has for this measures no message below 14 bytes (sockperf), or tells no percentiles (qperf,
 *NetPIPE).
 */
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "perf/stats.hpp"
#include "socket.hpp"

namespace
{

constexpr std::uint16_t port = 7470;
constexpr unsigned long bytes_max = 1u << 30;

// What the client wants, in front of everything else. Both ends are on one machine.
struct Request {
	std::uint64_t bytes = 0;
	std::uint64_t count = 0;
};

void serve(const char *where)
{
	Socket socket = Socket::accept_one(where, port);
	Request request;

	socket.receive(&request, sizeof(request));

	std::vector<char> message(request.bytes);

	for (std::uint64_t i = 0; i < request.count; i++) {
		socket.receive(message.data(), message.size());
		socket.send(message.data(), message.size());
	}
}

unsigned long number(const char *text)
{
	char *end = nullptr;
	const unsigned long value = std::strtoul(text, &end, 10);

	if (end == text || *end || value > bytes_max)
		throw std::runtime_error(std::string(text) + " is no number for this");
	return value;
}

void ping(const char *where, std::size_t bytes, std::uint64_t count, std::uint64_t warmup)
{
	using Clock = std::chrono::steady_clock;

	const Request request{bytes, warmup + count};
	Socket socket = Socket::connect_to(where, port);
	std::vector<char> message(bytes);
	perf::Samples samples;

	samples.reserve(count);
	socket.send(&request, sizeof(request));
	for (std::uint64_t i = 0; i < request.count; i++) {
		const auto start = Clock::now();

		socket.send(message.data(), message.size());
		socket.receive(message.data(), message.size());
		if (i >= warmup)
			samples.add(static_cast<std::uint64_t>(
				std::chrono::nanoseconds(Clock::now() - start).count()));
	}

	const perf::LatencySummary l = samples.summarise(2);
	const auto row = [&](const char *metric, double value) {
		std::printf("tcp,%s,%zu,,,%.6g,us\n", metric, bytes, value);
	};

	row("latency_us", l.avg_us);
	row("latency_min_us", l.min_us);
	row("latency_p50_us", l.p50_us);
	row("latency_p99_us", l.p99_us);
	row("latency_p999_us", l.p999_us);
}

} // namespace

int main(int argc, char **argv)
{
	const std::string what = argc > 1 ? argv[1] : "";

	try {
		if (what == "serve" && argc == 3) {
			serve(argv[2]);
		} else if (what == "ping" && argc == 6) {
			ping(argv[2], number(argv[3]), number(argv[4]), number(argv[5]));
		} else {
			std::fprintf(stderr,
				"usage: tcp_latency serve ADDRESS | ping ADDRESS SIZE COUNT WARMUP\n");
			return 2;
		}
	} catch (const std::exception &error) {
		std::fprintf(stderr, "tcp_latency: %s\n", error.what());
		return 1;
	}
	return 0;
}
