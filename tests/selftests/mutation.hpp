// SPDX-License-Identifier: GPL-2.0-only
/*
 * The ways in which a self-test damages one of ibrelk's own packets (the payload of a RoCE packet: a
 * struct wire_header, frames, data; see kernel/reliability/wire.h) before it sends it once more. A
 * receiver that has already had the packet must come to no harm by any of them.
 *
 * Most damage is found by the packet's checksum at the latest. To get past it, the kinds whose name
 * begins with "resealed-" put a right checksum in. They can, because a CRC keeps no secret: who sees one
 * packet can calculate its seed back from it.
 */
#ifndef SELFTESTS_MUTATION_HPP
#define SELFTESTS_MUTATION_HPP

#include <cstdint>
#include <optional>
#include <random>
#include <span>
#include <string_view>
#include <vector>

namespace mutation
{

using Bytes = std::vector<std::uint8_t>;
using Random = std::mt19937_64;

struct Kind {
	std::string_view name;
	/* Damages the packet; says false if there is nothing of that kind in it to damage. */
	bool (*apply)(Bytes &packet, Random &random);
	bool resealed;
	/* Harmful to any receiver, by design or by soft-RoCE's: only if it is asked for by name. */
	bool on_request;
	/* What it should count as at the receiver; for people. */
	std::string_view expected;
};

/* All kinds there are. */
std::span<const Kind> kinds();

const Kind *find(std::string_view name);

/* True if this is a packet of ibrelk, as far as it can be told without knowing a token or seed. */
bool is_packet(std::span<const std::uint8_t> packet);

std::uint32_t token_of(std::span<const std::uint8_t> packet);

/* The seed of the checksum of an intact packet. The same for all packets with one token. */
std::uint32_t seed_of(std::span<const std::uint8_t> packet);

/* A damaged copy, or nothing if the kind does not fit the packet. */
std::optional<Bytes> mutate(const Kind &kind, std::span<const std::uint8_t> packet, Random &random);

} // namespace mutation

#endif
