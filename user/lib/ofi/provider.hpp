// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// The provider as libfabric knows it, what the environment says, and what it can do.
#pragma once

#include <cstdint>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>

#include <ibrelk/ibrelk.hpp>

namespace ibrelk::ofi
{

/// What fi_prov_ini() gave to libfabric.
extern fi_provider provider;

/// What users may say in the environment, as FI_IBRELK_MODE and so on.
struct Parameters {
	const char *mode = nullptr;
	const char *job_key = nullptr;
};
Parameters parameters() noexcept;

/// The mode that the environment asks for, or EINVAL, which is logged.
result<std::uint32_t> wanted_mode() noexcept;

/// Addresses are struct ibrelk_addr, as they are.
constexpr std::uint32_t address_format = FI_PROV_SPECIFIC | 0x1b7e1;

constexpr std::uint64_t primary_caps = FI_MSG | FI_TAGGED | FI_DIRECTED_RECV;
constexpr std::uint64_t direction_caps = FI_SEND | FI_RECV;
constexpr std::uint64_t secondary_caps = FI_MULTI_RECV | FI_SOURCE | FI_LOCAL_COMM | FI_REMOTE_COMM;
constexpr std::uint64_t all_caps = primary_caps | direction_caps | secondary_caps;

constexpr std::uint64_t level_flags =
	FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE;
/// Of operations; FI_MORE is a hint that we have no use for.
constexpr std::uint64_t send_flags = FI_COMPLETION | FI_INJECT | FI_MORE | FI_REMOTE_CQ_DATA | level_flags;
constexpr std::uint64_t recv_flags = FI_COMPLETION | FI_MORE | FI_MULTI_RECV;

/// Pieces of a buffer.
constexpr std::size_t iov_limit = 64;
/// Bytes that travel beside a message.
constexpr std::size_t cq_data_size = 8;
/// As many as the kernel takes if nothing else is wished.
constexpr std::size_t sends_default = 4096;
constexpr std::size_t recvs_default = 65536;

} // namespace ibrelk::ofi
