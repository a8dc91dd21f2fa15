// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// See compute.hpp.
#include "compute.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <system_error>
#include <unistd.h>

namespace perf
{

namespace
{

// A loop that is timed takes at least so long, or the clock itself would be seen.
constexpr std::uint64_t timed_min_ns = 1'000'000;
// The least of so many: what disturbs makes it longer only.
constexpr unsigned timed_loops = 5;

std::uint64_t time_of(std::uint64_t rounds) noexcept
{
	const auto start = std::chrono::steady_clock::now();

	compute(rounds);
	return static_cast<std::uint64_t>(
		std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count());
}

} // namespace

void compute(std::uint64_t rounds) noexcept
{
	std::uint64_t value = rounds;

	for (std::uint64_t i = 0; i < rounds; i++) {
		value = value * 0x5851f42d4c957f2du + i;
		// The compiler is to believe that each value is needed.
		asm volatile("" : "+r"(value));
	}
}

std::uint64_t compute_rounds(std::uint64_t time_ns) noexcept
{
	std::uint64_t rounds = 1024;
	std::uint64_t least_ns;

	while ((least_ns = time_of(rounds)) < timed_min_ns)
		rounds *= 2;
	for (unsigned i = 1; i < timed_loops; i++)
		least_ns = std::min(least_ns, time_of(rounds));

	const double rate =
		static_cast<double>(rounds) / static_cast<double>(std::max<std::uint64_t>(least_ns, 1));

	return static_cast<std::uint64_t>(rate * static_cast<double>(time_ns)) + 1;
}

Pinned::Pinned() : cpu_(std::max(::sched_getcpu(), 0))
{
	cpu_set_t here;

	CPU_ZERO(&here);
	CPU_SET(static_cast<unsigned>(cpu_), &here);
	if (::sched_getaffinity(0, sizeof(before_), &before_) < 0 ||
		::sched_setaffinity(0, sizeof(here), &here) < 0)
		throw std::system_error(errno, std::generic_category(), "cannot stay on one processor");
}

Pinned::~Pinned()
{
	::sched_setaffinity(0, sizeof(before_), &before_);
}

KernelInsns::KernelInsns(int cpu) noexcept
{
	perf_event_attr event{};

	event.type = PERF_TYPE_HARDWARE;
	event.size = sizeof(event);
	event.config = PERF_COUNT_HW_INSTRUCTIONS;
	event.exclude_user = 1;
	event.exclude_hv = 1;
	fd_ = static_cast<int>(::syscall(SYS_perf_event_open, &event, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC));
}

KernelInsns::~KernelInsns()
{
	if (fd_ >= 0)
		::close(fd_);
}

std::optional<std::uint64_t> KernelInsns::read() const noexcept
{
	std::uint64_t count = 0;

	if (fd_ < 0 || ::read(fd_, &count, sizeof(count)) != static_cast<ssize_t>(sizeof(count)))
		return std::nullopt;
	return count;
}

} // namespace perf
