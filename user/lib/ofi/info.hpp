// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>

#include <rdma/fabric.h>

namespace ibrelk::ofi
{

/// fi_getinfo() of the provider: one fi_info for each device with a port that can do what the hints ask for.
int get_info(std::uint32_t version, const char *node, const char *service, std::uint64_t flags,
	const fi_info *hints, fi_info **info);

/// Whether an fi_info that an application passes back asks for nothing that there is not.
bool is_offered(const fi_info &asked) noexcept;

/// Its capabilities: if it names none, all that its mr_mode allows.
std::uint64_t caps_of(const fi_info &asked) noexcept;

} // namespace ibrelk::ofi
