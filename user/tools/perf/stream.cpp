// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// See stream.hpp. Commands are submitted in bunches and completions awaited in bunches, to spread the cost of
// the system calls; but never so many that one side would wait for what the other holds back.
#include "stream.hpp"

#include <algorithm>

namespace perf
{

namespace
{

// After the kernel has refused commands, a look at the endpoint follows this soon even if nothing completes:
// buffered sends have completed long before the kernel is rid of them. Sooner if that finds much room, later
// if little.
constexpr std::uint64_t refused_slice_min_ns = 25'000;
constexpr std::uint64_t refused_slice_max_ns = 1'000'000;

} // namespace

// Half of a small window, so that the other half is under way meanwhile.
std::uint64_t Stream::send_bunch() const noexcept
{
	return std::min<std::uint64_t>({plan_.batch, (plan_.window + 1) / 2, sends_left()});
}

void Stream::submit()
{
	do {
		submit_receives();
		submit_sends();
		if (batch_.size() == 0)
			return;
		const std::uint32_t offered = batch_.size();

		flush();
		if (!refused_)
			refused_slice_ns_ = std::max(refused_slice_ns_ / 2, refused_slice_min_ns);
		else if (batch_.size() > offered / 2)
			refused_slice_ns_ = std::min(refused_slice_ns_ * 2, refused_slice_max_ns);
	} while (!refused_ && !error());
}

void Stream::submit_receives() noexcept
{
	const std::uint64_t bunch =
		std::min<std::uint64_t>({plan_.batch, (plan_.slots + 1) / 2, receives_left()});

	if (bunch && rx_free_.size() >= bunch)
		push_receives();
}

void Stream::submit_sends() noexcept
{
	const std::uint64_t bunch = send_bunch();

	if (!sending_ || bunch == 0 || tx_free_.size() < bunch)
		return;
	while (!batch_.full() && !tx_free_.empty() && sends_left())
		push_send(tx_next_, false);
}

// Outstanding sends complete without anybody's help. Posted receives are filled without ours as long as this
// side is not what the other waits for, which is so once all is sent.
std::uint32_t Stream::wait_count() const noexcept
{
	if (refused_)
		return 1;
	if (tx_outstanding_) {
		const std::uint64_t enough = sends_left() ? send_bunch() : tx_outstanding_;

		return static_cast<std::uint32_t>(
			std::min<std::uint64_t>({plan_.batch, tx_outstanding_, enough}));
	}
	return std::clamp(std::min(plan_.batch, rx_outstanding_), 1u, std::max(1u, plan_.slots / 2));
}

bool Stream::wait()
{
	return Run::wait(wait_count(), refused_ ? refused_slice_ns_ : slice_ns());
}

} // namespace perf
