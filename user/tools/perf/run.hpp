// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// One run seen from one side: its buffers, its commands, and the checking of what arrives. What is sent when
// is for the kinds of run to say: streams (stream.hpp) and ping-pong (latency.hpp).
//
// Nothing here allocates once a run has begun. Every message carries its number as immediate. Receives are
// numbered in the order in which they are posted; since all of a run have the same tag and source, messages
// take them in that order, so that each must carry exactly the number of its receive. In native modes
// messages may be missing: numbers may skip ahead, but never come back.
#pragma once

#include <cstdint>
#include <vector>

#include "batch.hpp"
#include "buffers.hpp"
#include "plan.hpp"
#include "side.hpp"

namespace perf
{

class Run : public DataHandler
{
public:
	/// Which part this side has in the run.
	struct Part {
		bool client = false;
		bool sends = false;
		bool receives = false;
		bool answered = false; // what it receives are answers to what it sends
	};

	Run(Side &side, Link &link, ibrelk::Peer peer, const Plan &plan, std::uint32_t run, Part part);
	Run(const Run &) = delete;
	Run &operator=(const Run &) = delete;

	/// Waits for completions, at most for @p timeout_ns, and takes them. Returns whether there were any.
	bool wait(std::uint32_t count, std::uint64_t timeout_ns);
	/// Takes the completions that are there, in one look.
	void look();
	/// Takes back receives that nothing came for, and waits a little for what is still under way.
	void finish();

	[[nodiscard]] std::uint64_t tx_done() const noexcept
	{
		return tx_done_;
	}
	[[nodiscard]] bool all_sent() const noexcept
	{
		return tx_done_ == tx_total_;
	}
	[[nodiscard]] bool all_received() const noexcept
	{
		return report_.received >= rx_total_;
	}
	[[nodiscard]] bool native() const noexcept
	{
		return plan_.flags & plan_native;
	}
	/// 0, or the errno (positive) of the first command that failed and should not have.
	[[nodiscard]] int error() const noexcept
	{
		return error_;
	}
	[[nodiscard]] std::uint64_t last_progress_ns() const noexcept
	{
		return progress_ns_;
	}
	/// Whether nothing has come for too long. Reads the clock only when the last wait was in vain.
	[[nodiscard]] bool stalled() const noexcept
	{
		return idle_ && now_ns() - progress_ns_ > plan_.timeout_ns;
	}
	[[nodiscard]] bool received_any() const noexcept
	{
		return report_.received != 0;
	}
	/// What was seen so far.
	[[nodiscard]] Report report() const noexcept;
	/// "12 of 100 sent, 3 of 100 received", for error texts.
	[[nodiscard]] std::string progress_text() const;
	/// The longest sensible single wait: native runs may wait for messages that never come.
	[[nodiscard]] std::uint64_t slice_ns() const noexcept;

protected:
	~Run() = default;

	/// Posts receives while there are slots and room in the batch.
	void push_receives() noexcept;
	/// Whether there is a slot for a send. Quiet ones share one, which is free again when the kernel has
	/// accepted the send, and not before.
	[[nodiscard]] bool may_send(bool quiet) const noexcept;
	/// Sends a message, if there is a slot. @p quiet: ask for no completion; the message is known to be
	/// copied.
	void push_send(std::uint64_t number, bool quiet) noexcept;
	/// Submits as much of the batch as the kernel takes.
	void flush() noexcept;
	/// Is told of each message that arrived.
	virtual void received(std::uint64_t number) noexcept
	{
		(void)number;
	}

	[[nodiscard]] std::uint64_t sends_left() const noexcept
	{
		return tx_total_ - tx_next_;
	}
	[[nodiscard]] std::uint64_t receives_left() const noexcept
	{
		return rx_total_ - rx_posted_;
	}

	Side &side_;
	const Plan plan_;
	Batch batch_;
	bool refused_ = false; // the kernel has no room for what is left in the batch
	std::uint64_t tx_next_ = 0;
	std::uint32_t tx_outstanding_ = 0;
	std::vector<std::uint32_t> tx_free_;
	std::uint32_t rx_outstanding_ = 0;
	std::vector<std::uint32_t> rx_free_;
	Report report_;

private:
	void on_data(const Cookie &cookie, const ibrelk::Completion &completion) noexcept override;
	void handle_send(const Cookie &cookie, const ibrelk::Completion &completion) noexcept;
	void handle_receive(std::uint32_t slot, const ibrelk::Completion &completion) noexcept;
	[[nodiscard]] bool in_turn(std::uint64_t number, std::uint64_t order) const noexcept;
	[[nodiscard]] bool right(std::uint32_t slot, const ibrelk::Completion &completion) noexcept;
	[[nodiscard]] std::uint64_t size_of(
		std::uint64_t bytes, std::uint64_t seed, std::uint64_t number) const noexcept;
	[[nodiscard]] bool verifies() const noexcept
	{
		return plan_.flags & plan_verify;
	}
	void fail(int error) noexcept
	{
		error_ = error_ ? error_ : error;
	}

	Link &link_;
	const ibrelk::Peer peer_;
	const std::uint64_t tag_;
	const std::uint16_t epoch_;
	const std::uint64_t tx_seed_;
	const std::uint64_t rx_seed_;
	const std::uint64_t tx_bytes_;
	const std::uint64_t rx_bytes_;
	const std::uint32_t tx_level_;
	const bool rx_answers_;
	int error_ = 0;
	bool finishing_ = false;
	bool idle_ = false; // the last wait brought nothing
	std::uint64_t progress_ns_;

	const std::uint64_t tx_total_;
	std::uint64_t tx_done_ = 0;
	Buffers tx_buffers_;

	const std::uint64_t rx_total_;
	std::uint64_t rx_posted_ = 0;
	Buffers rx_buffers_;
	std::vector<std::uint64_t> rx_order_; // of each slot: which receive of the run it is, or not_posted
	std::vector<bool> seen_;              // by number of the message
};

} // namespace perf
