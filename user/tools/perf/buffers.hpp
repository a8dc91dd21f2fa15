// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Memory for messages: slots in one anonymous mapping, touched before the clock runs. Without verification
// all slots are one and the same, as in other benchmarks: what is measured is the transport, not the cache.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <sys/mman.h>
#include <utility>

#include "../failure.hpp"

namespace perf
{

class Buffers
{
public:
	/// @p shared: all slots are the same memory.
	Buffers(std::uint32_t slots, std::uint64_t bytes, bool shared) : bytes_(bytes), shared_(shared)
	{
		stride_ = (bytes + guard + 63) / 64 * 64;
		total_ = stride_ * (shared ? 1 : std::max(slots, 1u));
		void *address = ::mmap(nullptr, total_, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
		if (address == MAP_FAILED)
			throw tool::Failure(
				tool::exit_failed, "not enough memory for messages: use a smaller --window");
		base_ = static_cast<std::byte *>(address);
		std::memset(base_, guard_byte, shared ? 0 : total_);
	}
	Buffers(const Buffers &) = delete;
	Buffers &operator=(const Buffers &) = delete;
	~Buffers()
	{
		::munmap(base_, total_);
	}

	[[nodiscard]] std::span<std::byte> slot(std::uint32_t index) const noexcept
	{
		return {base_ + (shared_ ? 0 : index * stride_), bytes_};
	}
	/// Whether the bytes behind a message of this length, up to a limit, are as they were.
	[[nodiscard]] bool guard_intact(std::uint32_t index, std::uint64_t length) const noexcept
	{
		const std::byte *first = base_ + (shared_ ? 0 : index * stride_) + length;

		return shared_ || std::all_of(first, first + guard, [](std::byte b) {
			return b == std::byte{guard_byte};
		});
	}
	/// Makes a slot ready to show whether it is written again.
	void reset(std::uint32_t index, std::uint64_t length) const noexcept
	{
		if (!shared_)
			std::memset(base_ + index * stride_, guard_byte, length);
	}

private:
	static constexpr std::size_t guard = 64;
	static constexpr unsigned char guard_byte = 0xa5;

	std::byte *base_ = nullptr;
	std::uint64_t bytes_;
	std::uint64_t stride_ = 0;
	std::uint64_t total_ = 0;
	bool shared_;
};

} // namespace perf
