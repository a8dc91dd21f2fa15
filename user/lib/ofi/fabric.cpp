// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fabric.hpp"

#include <cstring>
#include <memory>

#include <rdma/fi_domain.h>
#include <rdma/fi_eq.h>

#include "cntr.hpp"
#include "cq.hpp"
#include "domain.hpp"
#include "eq.hpp"
#include "provider.hpp"

namespace ibrelk::ofi
{

fi_ops Fabric::fid_ops = {
	.size = sizeof(fi_ops),
	.close = Fabric::close,
	.bind = unsupported,
	.control = unsupported,
	.ops_open = unsupported,
	.tostr = unsupported,
	.ops_set = unsupported,
};

fi_ops_fabric Fabric::fabric_ops = {
	.size = sizeof(fi_ops_fabric),
	.domain = Domain::open,
	.passive_ep = unsupported,
	.eq_open = EventQueue::open,
	.wait_open = unsupported,
	.trywait = Fabric::trywait,
	.domain2 = Domain::open_with_flags,
};

Fabric::Fabric(const fi_fabric_attr &attr, void *context) noexcept : fid_fabric{}
{
	fid = {.fclass = FI_CLASS_FABRIC, .context = context, .ops = &fid_ops};
	ops = &fabric_ops;
	api_version = attr.api_version;
}

int Fabric::open(fi_fabric_attr *attr, fid_fabric **fabric, void *context)
{
	if (attr->name && std::strcmp(attr->name, provider.name) != 0)
		return -FI_EINVAL;

	return guarded([&] {
		auto made = std::unique_ptr<Fabric>(new Fabric(*attr, context));

		Opened<Fabric>::add(made.get());
		*fabric = made.release();
		return 0;
	});
}

int Fabric::close(Fid *any)
{
	auto *fabric = object_of<Fabric, fid_fabric>(any);

	if (fabric->users_.any())
		return -FI_EBUSY;
	Opened<Fabric>::remove(fabric);
	delete fabric;
	return 0;
}

// Whether one may sleep on the descriptors of these objects: not while there is something to be read.
int Fabric::trywait(fid_fabric *, Fid **fids, int count)
{
	return guarded([&] {
		for (int i = 0; i < count; i++) {
			bool news = false;

			switch (fids[i]->fclass) {
			case FI_CLASS_CQ:
				news = object_of<CompletionQueue, fid_cq>(fids[i])->has_something();
				break;
			case FI_CLASS_CNTR:
				news = object_of<Counter, fid_cntr>(fids[i])->has_changed();
				break;
			case FI_CLASS_EQ:
				news = object_of<EventQueue, fid_eq>(fids[i])->has_something();
				break;
			default: return -FI_ENOSYS;
			}
			if (news)
				return -FI_EAGAIN;
		}
		return 0;
	});
}

} // namespace ibrelk::ofi
