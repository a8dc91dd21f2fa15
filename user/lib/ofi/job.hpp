// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>

namespace ibrelk::ofi
{

/// The key that keeps jobs apart; 0 (the user's own) where nothing says which job this is.
std::uint64_t job_key() noexcept;

/// The key that a text stands for: the number that it is, else one made of its letters. Never 0, but of "0".
std::uint64_t job_key_of(const char *text) noexcept;

} // namespace ibrelk::ofi
