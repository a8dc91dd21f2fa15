// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// The contents of verified messages. Every byte depends on the seed, the number of the message and the
// offset, so that a byte that is lost, moved, repeated or taken from another message shows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace perf
{

/// Mixes bits well; the finaliser of splitmix64.
constexpr std::uint64_t mix(std::uint64_t x) noexcept
{
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

/// Fills a message.
void pattern_fill(std::span<std::byte> message, std::uint64_t seed, std::uint64_t number) noexcept;

/// Returns the offset of the first wrong byte, or the length of the message if all are right.
std::size_t pattern_check(
	std::span<const std::byte> message, std::uint64_t seed, std::uint64_t number) noexcept;

/// Length of a message in a run with mixed sizes: 0 to @p max, with 0 and max themselves often among them.
std::uint64_t mixed_size(std::uint64_t max, std::uint64_t seed, std::uint64_t number) noexcept;

} // namespace perf
