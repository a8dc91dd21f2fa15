// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "domain.hpp"

#include <cstring>
#include <memory>

#include "atomic.hpp"
#include "av.hpp"
#include "cntr.hpp"
#include "cq.hpp"
#include "ep.hpp"
#include "eq.hpp"
#include "info.hpp"
#include "mr.hpp"
#include "provider.hpp"

namespace ibrelk::ofi
{

fi_ops Domain::fid_ops = {
	.size = sizeof(fi_ops),
	.close = Domain::close,
	.bind = Domain::bind,
	.control = Domain::control,
	.ops_open = unsupported,
	.tostr = unsupported,
	.ops_set = unsupported,
};

fi_ops_domain Domain::domain_ops = {
	.size = sizeof(fi_ops_domain),
	.av_open = AddressVector::open,
	.cq_open = CompletionQueue::open,
	.endpoint = Endpoint::open,
	.scalable_ep = unsupported,
	.cntr_open = Counter::open,
	.poll_open = unsupported,
	.stx_ctx = unsupported,
	.srx_ctx = unsupported,
	.query_atomic = Domain::query_atomic,
	.query_collective = unsupported,
	.endpoint2 = Endpoint::open_with_flags,
};

fi_ops_mr Domain::mr_ops = {
	.size = sizeof(fi_ops_mr),
	.reg = MemoryRegion::reg,
	.regv = MemoryRegion::regv,
	.regattr = MemoryRegion::regattr,
};

Domain::Domain(Fabric &fabric, Device device, const Query &query, bool shares, std::string name,
	const ::ibrelk_addr &local, void *context) noexcept :
	fid_domain{},
	fabric_(&fabric), fabric_use_(fabric.users()), api_version_(fabric.api_version),
	device_(std::move(device)), query_(query), shares_(shares), name_(std::move(name)), local_(local)
{
	fid = {.fclass = FI_CLASS_DOMAIN, .context = context, .ops = &fid_ops};
	ops = &domain_ops;
	mr = &mr_ops;
}

int Domain::open(fid_fabric *fabric, fi_info *info, fid_domain **domain, void *context)
{
	if (!is_offered(*info))
		return -FI_EINVAL;

	auto device = Device::open();

	if (!device) {
		FI_WARN(&provider, FI_LOG_DOMAIN, "%s\n",
			ibrelk_error_text(IBRELK_CALL_OPEN, device.error()));
		return -device.error();
	}

	const auto query = device->query();

	if (!query)
		return -query.error();

	const bool shares = info->domain_attr && shares_memory(info->domain_attr->mr_mode);
	return guarded([&] {
		std::string name =
			info->domain_attr && info->domain_attr->name ? info->domain_attr->name : "";
		::ibrelk_addr local{};

		if (info->src_addr && info->src_addrlen == sizeof(local))
			std::memcpy(&local, info->src_addr, sizeof(local));
		auto made = std::unique_ptr<Domain>(new Domain(static_cast<Fabric &>(*fabric),
			std::move(*device), *query, shares, std::move(name), local, context));

		Opened<Domain>::add(made.get());
		*domain = made.release();
		return 0;
	});
}

int Domain::open_with_flags(
	fid_fabric *fabric, fi_info *info, fid_domain **domain, std::uint64_t flags, void *context)
{
	return flags ? -FI_ENOSYS : open(fabric, info, domain, context);
}

int Domain::close(Fid *any)
{
	auto *domain = object_of<Domain, fid_domain>(any);

	if (domain->users_.any())
		return -FI_EBUSY;
	Opened<Domain>::remove(domain);
	delete domain;
	return 0;
}

// What an event queue of a domain is told of (registrations that take long) does not happen here.
int Domain::bind(Fid *any, Fid *other, std::uint64_t flags)
{
	if (other->fclass != FI_CLASS_EQ || flags)
		return -FI_EINVAL;
	object_of<Domain, fid_domain>(any)->events_use_ = Use(object_of<EventQueue, fid_eq>(other)->users());
	return 0;
}

// A raw key is the key, and mapping it nothing that would have to be undone.
int Domain::control(Fid *, int command, void *argument)
{
	switch (command) {
	case FI_MAP_RAW_MR: {
		const auto &map = *static_cast<struct fi_mr_map_raw *>(argument);

		if (map.key_size != sizeof(*map.key))
			return -FI_EINVAL;
		std::memcpy(map.key, map.raw_key, sizeof(*map.key));
		return 0;
	}
	case FI_UNMAP_KEY: return 0;
	default: return -FI_ENOSYS;
	}
}

int Domain::query_atomic(
	fid_domain *, fi_datatype datatype, fi_op op, fi_atomic_attr *attr, std::uint64_t flags)
{
	switch (flags) {
	case 0: return limits_of(AtomicKind::base, datatype, op, *attr);
	case FI_FETCH_ATOMIC: return limits_of(AtomicKind::fetch, datatype, op, *attr);
	case FI_COMPARE_ATOMIC: return limits_of(AtomicKind::compare, datatype, op, *attr);
	// In receives that are posted nothing is computed.
	default: return flags & FI_TAGGED ? -FI_EOPNOTSUPP : -FI_EBADFLAGS;
	}
}

} // namespace ibrelk::ofi
