// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Commands that wait to be submitted together. What the kernel does not accept now stays, in order, for the
// next time.
#pragma once

#include <array>
#include <cstdint>

#include <ibrelk/ibrelk.hpp>

namespace perf
{

class Batch
{
public:
	static constexpr std::uint32_t max = 64;

	/// Commands that are submitted at once, 1 to max.
	explicit Batch(std::uint32_t limit) noexcept : limit_(limit < 1 ? 1 : limit > max ? max : limit)
	{
	}

	[[nodiscard]] std::uint32_t size() const noexcept
	{
		return count_;
	}
	[[nodiscard]] bool full() const noexcept
	{
		return count_ >= limit_;
	}
	/// Adds a command. Only if the batch is not full.
	void push(const ibrelk::Command &command) noexcept
	{
		commands_[count_++] = command;
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
		for (std::uint32_t i = *accepted; i < count_; i++)
			commands_[i - *accepted] = commands_[i];
		count_ -= *accepted;
		return accepted;
	}
	void clear() noexcept
	{
		count_ = 0;
	}

private:
	std::uint32_t limit_;
	std::uint32_t count_ = 0;
	std::array<ibrelk::Command, max> commands_;
};

} // namespace perf
