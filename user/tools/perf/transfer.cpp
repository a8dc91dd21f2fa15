// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// See transfer.hpp.
#include "transfer.hpp"

#include <algorithm>

namespace perf
{

namespace
{

// In native modes, the time after which a message or its answer is given up, beside what it may take at 1
// MB/s.
constexpr std::uint64_t lost_after_ns = 200'000'000;
constexpr std::uint64_t lost_after_ns_per_byte = 1000;

} // namespace

Transfer::Transfer(Side &side, Link &link, ibrelk::Peer peer, const Plan &plan, std::uint32_t run) :
	Run(side, link, peer, plan, run, {.client = true, .sends = true, .receives = true, .answered = true}),
	receives_(plan.flags & plan_receive)
{
}

void Transfer::received(std::uint64_t number) noexcept
{
	answered_ = std::max(answered_, number + 1);
}

// All sends ask for a completion, and those of one flow complete in order.
bool Transfer::complete() const noexcept
{
	return (receives_ ? answered_ : tx_done()) > number_;
}

bool Transfer::going() const noexcept
{
	return !error() && !stalled() && !side_.stopped();
}

template<class F>
bool Transfer::wait_until(F &&done)
{
	while (!done()) {
		if (!going())
			return false;
		if (native() && now_ns() - start_ns_ > lost_after_ns + lost_after_ns_per_byte * plan_.bytes) {
			lost_++;
			return false;
		}
		// What was refused is offered again soon.
		Run::wait(1, batch_.size() ? slice_ns() / 100 : slice_ns());
		// What has come after it was given up has taken a receive that was posted for another.
		if (native())
			push_receives();
		flush();
	}
	return true;
}

bool Transfer::prepare()
{
	start_ns_ = now_ns();
	if (!wait_until([this] { return may_send(false); }))
		return false;
	number_ = tx_next_;
	// The receive first: the empty message says that it is there.
	push_receives();
	push_send(number_, false);
	return true;
}

bool Transfer::post()
{
	start_ns_ = now_ns();
	flush();
	return wait_until([this] { return batch_.size() == 0; });
}

bool Transfer::poll()
{
	look();
	return complete();
}

bool Transfer::wait()
{
	return wait_until([this] { return complete(); });
}

bool Transfer::settle()
{
	return wait_until([this] { return answered_ > number_; });
}

} // namespace perf
