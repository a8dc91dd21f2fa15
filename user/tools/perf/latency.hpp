// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Ping-pong: the client sends a message and waits for its echo. Each half costs two system calls, one that
// submits the message together with the next receive, and one that waits.
#pragma once

#include <vector>

#include "run.hpp"
#include "stats.hpp"

namespace perf
{

/// Sends in flight of a ping-pong: more than one only if messages are lost, or complete late.
constexpr std::uint32_t latency_window = 2;
constexpr std::uint32_t latency_slots = 4;

/// The client's half.
class Pinger : public Run
{
public:
	/// @p quiet: sends need no completion, being copied at once.
	Pinger(Side &side, Link &link, ibrelk::Peer peer, const Plan &plan, std::uint32_t run, bool quiet);

	/// One round trip. Returns its time; 0 if the message or its echo was lost (native), or on an error
	/// or when time is up (see error() and stalled()).
	std::uint64_t ping();
	[[nodiscard]] std::uint64_t lost() const noexcept
	{
		return lost_;
	}

private:
	void received(std::uint64_t number) noexcept override;

	const bool quiet_;
	std::uint64_t answered_ = 0; // 1 + number of the last message that came back
	std::uint64_t lost_ = 0;
};

/// The server's half: sends each message back.
class Echo : public Run
{
public:
	Echo(Side &side, Link &link, ibrelk::Peer peer, const Plan &plan, std::uint32_t run, bool quiet);

	/// Answers what has come.
	void answer();
	bool wait()
	{
		return Run::wait(1, slice_ns());
	}

private:
	void received(std::uint64_t number) noexcept override;

	const bool quiet_;
	std::vector<std::uint64_t> numbers_; // to be answered: a ring of as many as there are receives
	std::uint64_t head_ = 0;
	std::uint64_t tail_ = 0;
};

} // namespace perf
