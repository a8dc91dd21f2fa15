// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Messages that flow as fast as they can, in one direction or in both: bandwidth, bibandwidth and rate.
#pragma once

#include "run.hpp"

namespace perf
{

class Stream : public Run
{
public:
	using Run::Run;

	/// Submits what can be submitted, receives first.
	void submit();
	/// Waits for as many completions as are sure to come, up to a batch of them, and takes them.
	bool wait();
	/// Sends wait for this, so that both directions begin together.
	void start_sending() noexcept
	{
		sending_ = true;
	}

private:
	[[nodiscard]] std::uint64_t send_bunch() const noexcept;
	[[nodiscard]] std::uint32_t wait_count() const noexcept;
	void submit_receives() noexcept;
	void submit_sends() noexcept;

	bool sending_ = false;
	std::uint64_t refused_slice_ns_ = 100'000;
};

} // namespace perf
