// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// See pattern.hpp. Eight bytes at a time, since a run may verify gigabytes.
#include "pattern.hpp"

#include <algorithm>
#include <cstring>

namespace perf
{

namespace
{

constexpr std::uint64_t golden = 0x9e3779b97f4a7c15u;

std::uint64_t word(std::uint64_t key, std::size_t index) noexcept
{
	return mix(key + index * golden);
}

std::uint64_t key_of(std::uint64_t seed, std::uint64_t number) noexcept
{
	return mix(mix(seed + golden) + number);
}

} // namespace

void pattern_fill(std::span<std::byte> message, std::uint64_t seed, std::uint64_t number) noexcept
{
	const std::uint64_t key = key_of(seed, number);

	for (std::size_t offset = 0; offset < message.size(); offset += 8) {
		const std::uint64_t value = word(key, offset / 8);

		std::memcpy(&message[offset], &value, std::min<std::size_t>(8, message.size() - offset));
	}
}

std::size_t pattern_check(
	std::span<const std::byte> message, std::uint64_t seed, std::uint64_t number) noexcept
{
	const std::uint64_t key = key_of(seed, number);

	for (std::size_t offset = 0; offset < message.size(); offset += 8) {
		const std::uint64_t value = word(key, offset / 8);
		const std::size_t bytes = std::min<std::size_t>(8, message.size() - offset);

		if (std::memcmp(&message[offset], &value, bytes) == 0)
			continue;

		std::byte wanted[8];

		std::memcpy(wanted, &value, sizeof(wanted));
		return offset +
			static_cast<std::size_t>(
				std::mismatch(wanted, wanted + bytes, &message[offset]).first - wanted);
	}
	return message.size();
}

std::uint64_t mixed_size(std::uint64_t max, std::uint64_t seed, std::uint64_t number) noexcept
{
	const std::uint64_t random = key_of(~seed, number);

	switch (random % 16) {
	case 0: return 0;
	case 1: return max;
	// Small ones as often as large ones.
	case 2 ... 8: return (random >> 8) % (std::min<std::uint64_t>(max, 256) + 1);
	default: return (random >> 8) % (max + 1);
	}
}

} // namespace perf
