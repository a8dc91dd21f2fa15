// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// The client's half of an overlap test: messages to the server, each of which it answers by an empty one, or
// empty ones to the server, each of which it answers by a message. What is measured is the message; the empty
// ones say that its receive is posted. The server's half is Echo (latency.hpp).
#pragma once

#include "overlap.hpp"
#include "run.hpp"

namespace perf
{

/// Sends in flight, as of a ping-pong.
constexpr std::uint32_t transfer_window = 2;
/// Receives: the server's for the next message is there when it answers the last one; a client that receives
/// posts its own when the operation begins.
constexpr std::uint32_t transfer_slots_send = 2;
constexpr std::uint32_t transfer_slots_receive = 1;

class Transfer : public Run, public Operation
{
public:
	Transfer(Side &side, Link &link, ibrelk::Peer peer, const Plan &plan, std::uint32_t run);

	bool prepare() override;
	bool post() override;
	bool poll() override;
	bool wait() override;
	bool settle() override;

	[[nodiscard]] std::uint64_t lost() const noexcept
	{
		return lost_;
	}

private:
	void received(std::uint64_t number) noexcept override;
	[[nodiscard]] bool complete() const noexcept;
	[[nodiscard]] bool going() const noexcept;
	/// Waits until @p done; returns false if it will not be, or not in time.
	template<class F>
	bool wait_until(F &&done);

	const bool receives_;        // or sends
	std::uint64_t number_ = 0;   // of the operation
	std::uint64_t answered_ = 0; // 1 + number of the last answer
	std::uint64_t start_ns_ = 0; // of the operation
	std::uint64_t lost_ = 0;
};

} // namespace perf
