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
	const char *device = nullptr;
};
Parameters parameters() noexcept;

/// The mode that the environment asks for, or EINVAL, which is logged.
result<std::uint32_t> wanted_mode() noexcept;

/// Addresses are struct ibrelk_addr, as they are. (The highest bit says that it is a provider's own format;
/// libfabric's name for it is gone since 1.21.)
constexpr std::uint32_t address_format = 0x8001b7e1;

constexpr std::uint64_t message_caps = FI_MSG | FI_TAGGED;
constexpr std::uint64_t message_direction_caps = FI_SEND | FI_RECV;
constexpr std::uint64_t memory_caps = FI_RMA | FI_ATOMIC;
constexpr std::uint64_t memory_direction_caps = FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
constexpr std::uint64_t primary_caps = message_caps | memory_caps | FI_DIRECTED_RECV;
constexpr std::uint64_t secondary_caps = FI_MULTI_RECV | FI_SOURCE | FI_LOCAL_COMM | FI_REMOTE_COMM;
/// What others can do with memory of an application, and it with theirs.
constexpr std::uint64_t all_memory_caps = memory_caps | memory_direction_caps;
constexpr std::uint64_t all_caps =
	primary_caps | message_direction_caps | memory_direction_caps | secondary_caps;

/// For that it must agree to this: memory is named by its address, is there when it is registered, and has a
/// key that the kernel makes. FI_MR_BASIC is the older word for the same; it and its like are numbers here,
/// as newer headers warn of each use of their names.
constexpr int mr_unspec = 0;
constexpr int mr_basic = 1;
constexpr int mr_scalable = 2;
constexpr int memory_mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
constexpr bool shares_memory(int mr_mode) noexcept
{
	return mr_mode == mr_basic || (mr_mode & memory_mr_mode) == memory_mr_mode;
}

constexpr std::uint64_t level_flags =
	FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE;
/// Of operations; FI_MORE is a hint that we have no use for.
constexpr std::uint64_t send_flags = FI_COMPLETION | FI_INJECT | FI_MORE | FI_REMOTE_CQ_DATA | level_flags;
/// What a receive has, it has: FI_TRANSMIT_COMPLETE may be said of it, and changes nothing.
constexpr std::uint64_t recv_flags = FI_COMPLETION | FI_MORE | FI_MULTI_RECV | FI_TRANSMIT_COMPLETE;
/// A write completes when it is in its place, so to any level, and an atomic when it is done.
constexpr std::uint64_t write_flags = FI_COMPLETION | FI_INJECT | FI_MORE | level_flags;
constexpr std::uint64_t read_flags = FI_COMPLETION | FI_MORE | level_flags;

/// Pieces of a buffer, and how many are offered to who does not ask: what is usual, as libfabric's ubertest
/// draws lengths for no more that add up.
constexpr std::size_t iov_limit = 64;
constexpr std::size_t iov_default = 4;
/// Bytes that travel beside a message.
constexpr std::size_t cq_data_size = 8;
/// Bytes of the key of a region.
constexpr std::size_t mr_key_size = 8;
/// As many as the kernel takes if nothing else is wished.
constexpr std::size_t sends_default = 4096;
constexpr std::size_t recvs_default = 65536;

} // namespace ibrelk::ofi
