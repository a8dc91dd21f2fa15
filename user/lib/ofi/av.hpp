// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// An address vector: a table of addresses. What libfabric calls fi_addr_t is an index into it, whether the
// application asked for a table or a map. Handles are each endpoint's own, see ep.hpp.
#pragma once

#include <mutex>
#include <optional>
#include <vector>

#include <rdma/fi_domain.h>

#include <ibrelk/ibrelk.hpp>

#include "domain.hpp"
#include "eq.hpp"
#include "support.hpp"

namespace ibrelk::ofi
{

class Endpoint;

class AddressVector : public fid_av
{
public:
	static int open(fid_domain *domain, fi_av_attr *attr, fid_av **av, void *context);

	[[nodiscard]] std::optional<::ibrelk_addr> address(fi_addr_t index);
	/// Where an address is, FI_ADDR_NOTAVAIL if nowhere. An entry without a generation is any.
	[[nodiscard]] fi_addr_t find(const ::ibrelk_addr &address);

	/// Endpoints are told of what is removed.
	void attach(Endpoint &endpoint);
	void detach(Endpoint &endpoint);
	[[nodiscard]] bool is_of(Domain &domain) const noexcept
	{
		return domain_.of(domain.users());
	}

private:
	AddressVector(Domain &domain, const fi_av_attr &attr, void *context);
	fi_addr_t add(const ::ibrelk_addr &address);
	/// An index that is nobody's.
	void skip();
	int finish(int inserted, void *context);

	static int close(Fid *any);
	static int bind(Fid *any, Fid *other, std::uint64_t flags);
	static int insert(fid_av *av, const void *addresses, std::size_t count, fi_addr_t *indices,
		std::uint64_t flags, void *context);
	static int insertsvc(fid_av *av, const char *node, const char *service, fi_addr_t *index,
		std::uint64_t flags, void *context);
	static int insertsym(fid_av *av, const char *node, std::size_t nodes, const char *service,
		std::size_t services, fi_addr_t *indices, std::uint64_t flags, void *context);
	static int remove(fid_av *av, fi_addr_t *indices, std::size_t count, std::uint64_t flags);
	static int lookup(fid_av *av, fi_addr_t index, void *address, std::size_t *length);
	static const char *straddr(fid_av *av, const void *address, char *text, std::size_t *length);

	static fi_ops fid_ops;
	static fi_ops_av av_ops;

	const Domain &of_;
	Use domain_;
	const bool reports_events_;
	EventQueue *events_ = nullptr;
	Use events_use_;
	Users users_;
	std::mutex lock_; // protects what follows
	std::vector<std::optional<::ibrelk_addr>> entries_;
	std::vector<fi_addr_t> holes_; // a heap, the lowest in front
	std::vector<Endpoint *> endpoints_;
};

} // namespace ibrelk::ofi
