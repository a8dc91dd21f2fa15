// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// One side of a measurement: the device, one completion ring, and the endpoints that share it. It waits as it
// was told to, keeps receives for control messages posted, and sorts completions: control messages into a
// queue, data to whoever runs the test.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include <ibrelk/ibrelk.hpp>

#include "options.hpp"
#include "plan.hpp"

namespace perf
{

/// CLOCK_MONOTONIC, nanoseconds.
std::uint64_t now_ns() noexcept;

/// What a completion belongs to; travels as user_data.
struct Cookie {
	enum class Kind : std::uint8_t { control_recv = 1, control_send, data_recv, data_send, cancel };

	Kind kind{};
	std::uint8_t link = 0;
	std::uint16_t epoch = 0; // of the run, so that what an aborted one left behind is known
	std::uint32_t slot = 0;

	[[nodiscard]] std::uint64_t pack() const noexcept
	{
		return static_cast<std::uint64_t>(kind) << 56 | static_cast<std::uint64_t>(link) << 48 |
			static_cast<std::uint64_t>(epoch) << 32 | slot;
	}
	static Cookie unpack(std::uint64_t data) noexcept
	{
		return {static_cast<Kind>(data >> 56), static_cast<std::uint8_t>(data >> 48),
			static_cast<std::uint16_t>(data >> 32), static_cast<std::uint32_t>(data)};
	}
};

/// Is given the completions of data sends and receives of the current run.
class DataHandler
{
public:
	virtual void on_data(const Cookie &cookie, const ibrelk::Completion &completion) noexcept = 0;

protected:
	~DataHandler() = default;
};

/// An endpoint of this side, with its buffers for control messages.
class Link
{
public:
	Link(ibrelk::Endpoint endpoint, std::uint8_t index, std::uint64_t recv_tag);

	ibrelk::Endpoint endpoint;
	const std::uint8_t index;

	/// Last error of a control message to anybody, 0 if it got through.
	[[nodiscard]] int control_error() const noexcept
	{
		return control_error_;
	}
	/// Sends a control message, if there is a free buffer; it is repeated anyhow.
	void send_control(ibrelk::Peer peer, const Control &message, std::uint64_t tag) noexcept;

private:
	friend class Side;
	static constexpr std::uint32_t control_slots = 8;

	void post_control(std::uint32_t slot);

	std::uint64_t recv_tag_;
	std::uint32_t sends_free_ = (1u << control_slots) - 1; // one bit for each send buffer
	int control_error_ = 0;
	struct Buffers {
		std::array<Control, control_slots> recv;
		std::array<Control, control_slots> send;
	};
	std::unique_ptr<Buffers> buffers_ = std::make_unique<Buffers>();
};

struct ControlEvent {
	Link *link = nullptr;
	ibrelk::Peer peer = ibrelk::any_peer;
	Control message;
};

class Side
{
public:
	/// @p recv_tag is the tag of the control messages that come to this side.
	Side(const Options &options, std::uint64_t recv_tag, const std::atomic<bool> &stop);

	Link &add_link(std::uint32_t mode, const ibrelk::Address &local);

	[[nodiscard]] const ibrelk::Query &query() const noexcept
	{
		return query_;
	}
	[[nodiscard]] const ibrelk::Device &device() const noexcept
	{
		return device_;
	}
	[[nodiscard]] bool stopped() const noexcept
	{
		return stop_.load(std::memory_order_relaxed);
	}

	/// How to wait from now on.
	void set_wait(const Wait &wait) noexcept
	{
		wait_ = wait;
	}
	/// Waits for @p count completions, at most for @p timeout_ns, and hands out all that are there.
	/// Returns how many of them were data.
	std::uint32_t pump(std::uint32_t count, std::uint64_t timeout_ns, DataHandler *data);

	/// The same with what is there: one look, without a system call.
	std::uint32_t poll(DataHandler *data);

	/// The oldest control message that nobody has taken yet.
	std::optional<ControlEvent> take_control();

	/// A new number for the cookies of a run.
	std::uint16_t next_epoch() noexcept
	{
		return ++epoch_;
	}

	/// Sums of the counters of all paths of this node that the mode uses; all zero if they cannot be
	/// read.
	[[nodiscard]] ibrelk_counters counters(std::uint32_t mode) const;

private:
	void dispatch(const ibrelk::Completion &completion, DataHandler *data);
	void handle_control_recv(Link &link, const Cookie &cookie, const ibrelk::Completion &completion);

	const Options &options_;
	const std::uint64_t recv_tag_;
	const std::atomic<bool> &stop_;
	ibrelk::Device device_;
	ibrelk::Query query_;
	ibrelk::Ring ring_;
	Wait wait_;
	std::uint16_t epoch_ = 0;
	std::uint32_t dispatched_data_ = 0;
	std::deque<Link> links_; // after ring_, so that endpoints go first; their addresses stay
	std::deque<ControlEvent> control_;
};

/// counters a - b, member by member.
ibrelk_counters subtract(const ibrelk_counters &a, const ibrelk_counters &b) noexcept;

/// counters a + b, member by member.
ibrelk_counters add(const ibrelk_counters &a, const ibrelk_counters &b) noexcept;

} // namespace perf
