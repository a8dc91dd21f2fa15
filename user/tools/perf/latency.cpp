// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// See latency.hpp.
#include "latency.hpp"

#include <algorithm>

namespace perf
{

namespace
{

// In native modes, the time after which an echo is given up. Long against any round trip that is not lost.
constexpr std::uint64_t lost_after_ns = 200'000'000;

} // namespace

Pinger::Pinger(Side &side, Link &link, ibrelk::Peer peer, const Plan &plan, std::uint32_t run, bool quiet) :
	Run(side, link, peer, plan, run, {.client = true, .sends = true, .receives = true, .answered = true}),
	quiet_(quiet)
{
}

void Pinger::received(std::uint64_t number) noexcept
{
	answered_ = std::max(answered_, number + 1);
}

std::uint64_t Pinger::ping()
{
	const std::uint64_t number = tx_next_;

	// A large message may still be held when its echo has come; its time is not the next one's.
	while (!may_send(quiet_) && !error() && !stalled() && !side_.stopped()) {
		wait(1, slice_ns());
		flush();
	}
	if (!may_send(quiet_))
		return 0;
	push_send(number, quiet_);
	push_receives();

	const std::uint64_t start_ns = now_ns();

	for (;;) {
		flush();
		// What was refused is offered again soon.
		wait(1, batch_.size() ? slice_ns() / 100 : slice_ns());
		if (answered_ > number)
			return std::max<std::uint64_t>(last_progress_ns() - start_ns, 1);
		if (error() || stalled() || side_.stopped())
			return 0;
		if (native() && now_ns() - start_ns > lost_after_ns) {
			lost_++;
			return 0;
		}
	}
}

Echo::Echo(Side &side, Link &link, ibrelk::Peer peer, const Plan &plan, std::uint32_t run, bool quiet) :
	Run(side, link, peer, plan, run, {.client = false, .sends = true, .receives = true}), quiet_(quiet),
	numbers_(plan.slots)
{
}

// There are never more to answer than receives were posted, since answer() posts the next only behind an
// answer.
void Echo::received(std::uint64_t number) noexcept
{
	if (tail_ - head_ < numbers_.size())
		numbers_[tail_++ % numbers_.size()] = number;
}

void Echo::answer()
{
	flush();
	while (head_ != tail_ && may_send(quiet_)) {
		push_send(numbers_[head_++ % numbers_.size()], quiet_);
		if (quiet_ && head_ != tail_)
			flush();
	}
	if (head_ == tail_)
		push_receives();
	flush();
}

} // namespace perf
