// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Nodes and services in libfabric's words, addresses in ours: a node is a GID, a service an endpoint number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <ibrelk/ibrelk.hpp>

namespace ibrelk::ofi
{

/// The endpoint number that a service stands for: itself, or the port of a name that the system knows. None:
/// 0, which is any. EINVAL.
result<std::uint32_t> endpoint_of_service(const char *service) noexcept;

/// The addresses of a node, at least one, each with that endpoint number, IPv4 first; of no node in
/// particular: any address. @p numeric: no name service is asked. ENODATA if it has none.
result<std::vector<::ibrelk_addr>> resolve(const char *node, const char *service, bool numeric);

/// That of a node's addresses by which a port reaches it: the first of the port's family, or one of this
/// node. With neither, or a @p port that is any: the first.
::ibrelk_addr seen_from(const ::ibrelk_addr &port, const std::vector<::ibrelk_addr> &addresses) noexcept;

/// A name with the number at its end raised by @p step: node7, node8. As many digits as it had, if it began
/// with a 0. Empty if there is no number to raise, or it becomes too large.
std::string raised(const char *name, std::size_t step);

/// Addresses of the node that is @p nth after this one: addresses are counted on, IPv4's within IPv4, names
/// by the number at their end. EINVAL if there is none, ENODATA as above.
result<std::vector<::ibrelk_addr>> resolve_nth(const char *node, std::size_t nth);

/// No address in particular, of either family (::, 0.0.0.0).
bool is_any(const ::ibrelk_addr &address) noexcept;
bool is_ipv4(const unsigned char gid[16]) noexcept;
/// An IPv6 address that is of use on one link only.
bool is_link_local(const unsigned char gid[16]) noexcept;
/// An address of this node, whichever (127.0.0.1, ::1).
bool is_loopback(const unsigned char gid[16]) noexcept;
/// An address of this node, whichever, becomes that of a port, which is what its endpoints are known by. @p
/// port: nothing changes if it is any.
void localize(::ibrelk_addr &address, const ::ibrelk_addr &port) noexcept;
/// Whether a peer can have that address.
bool is_peer(const ::ibrelk_addr &address) noexcept;

} // namespace ibrelk::ofi
