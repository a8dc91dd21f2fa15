// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Commands that wait to be submitted together. What the kernel does not accept now stays, in order, for the
// next time. Receives have room of their own, and may pass what is not accepted.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include <ibrelk/ibrelk.hpp>

namespace perf
{

class Batch
{
public:
	static constexpr std::uint32_t max = 64;

	/// Commands that are submitted at once, 1 to max; and as many receives.
	explicit Batch(std::uint32_t limit) noexcept : limit_(limit < 1 ? 1 : limit > max ? max : limit)
	{
	}

	[[nodiscard]] std::uint32_t size() const noexcept
	{
		return count_;
	}
	[[nodiscard]] bool full() const noexcept
	{
		return count_ - receives_ >= limit_;
	}
	[[nodiscard]] bool full_of_receives() const noexcept
	{
		return receives_ >= limit_;
	}
	/// Adds a command. Only if the batch is not full, of receives if it is one.
	void push(const ibrelk::Command &command) noexcept
	{
		commands_[count_++] = command;
		receives_ += is_receive(command);
	}
	/// Puts receives before everything else. A send that is refused may wait for the peer, and he for
	/// these. Returns whether the first command is another one now.
	bool receives_first() noexcept
	{
		if (receives_ == 0 || is_receive(commands_[0]))
			return false;
		std::stable_partition(commands_.begin(), commands_.begin() + count_, is_receive);
		return true;
	}
	/// Submits; @p submit takes a span and returns result<std::uint32_t>. Returns how many were accepted.
	template<class F>
	ibrelk::result<std::uint32_t> flush(F &&submit) noexcept
	{
		if (count_ == 0)
			return 0u;

		auto accepted = submit(std::span<const ibrelk::Command>(commands_.data(), count_));

		if (!accepted)
			return accepted;
		const auto rest = commands_.begin() + *accepted;

		receives_ -= static_cast<std::uint32_t>(std::count_if(commands_.begin(), rest, is_receive));
		std::copy(rest, commands_.begin() + count_, commands_.begin());
		count_ -= *accepted;
		return accepted;
	}
	void clear() noexcept
	{
		count_ = 0;
		receives_ = 0;
	}

private:
	static bool is_receive(const ibrelk::Command &command) noexcept
	{
		return command.opcode == IBRELK_OP_RECV;
	}

	std::uint32_t limit_;
	std::uint32_t count_ = 0;
	std::uint32_t receives_ = 0; // of them
	std::array<ibrelk::Command, std::size_t{2} * max> commands_;
};

} // namespace perf
