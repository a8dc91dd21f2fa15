// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// The application of an overlap test: a processor that computes, and calls nobody.
#pragma once

#include <cstdint>
#include <optional>
#include <sched.h>

namespace perf
{

/// So many rounds of arithmetic in registers: no call, no memory, no clock.
void compute(std::uint64_t rounds) noexcept;

/// How many rounds take about so long where nothing disturbs them. Takes some milliseconds to find out.
std::uint64_t compute_rounds(std::uint64_t time_ns) noexcept;

/// Keeps this thread on the processor on which it is. Throws std::system_error.
class Pinned
{
public:
	Pinned();
	~Pinned();
	Pinned(const Pinned &) = delete;
	Pinned &operator=(const Pinned &) = delete;

	[[nodiscard]] int cpu() const noexcept
	{
		return cpu_;
	}

private:
	int cpu_;
	cpu_set_t before_;
};

/// Counts the instructions that a processor executes in the kernel, whoever they are for: system calls,
/// interrupts, and the kernel's own threads.
class KernelInsns
{
public:
	explicit KernelInsns(int cpu) noexcept;
	~KernelInsns();
	KernelInsns(const KernelInsns &) = delete;
	KernelInsns &operator=(const KernelInsns &) = delete;

	/// Nothing where the processor has no such counter (an emulated one), or this user may not read it.
	[[nodiscard]] std::optional<std::uint64_t> read() const noexcept;

private:
	int fd_;
};

} // namespace perf
