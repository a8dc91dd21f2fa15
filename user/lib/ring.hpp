// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// A completion ring from inside the library.
#pragma once

#include <cstddef>
#include <cstdint>

#include <ibrelk/ibrelk.h>

struct ibrelk_ring {
	int fd;
	std::uint32_t mask;
	std::uint32_t head; // our own copy: what is in the shared page is only ever written
	ibrelk_ring_header *header;
	const ibrelk_completion *entries;
	std::size_t map_bytes;
};

namespace ibrelk
{

/// Maps a ring's descriptor and checks that the mapping makes sense; takes the descriptor over on success.
int ring_map(int fd, std::size_t map_bytes, ibrelk_ring **ring) noexcept;

} // namespace ibrelk
