// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fabric.hpp"

#include <cstring>

#include <rdma/fi_domain.h>
#include <rdma/fi_eq.h>

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

	auto *made = new (std::nothrow) Fabric(*attr, context);

	if (!made)
		return -FI_ENOMEM;
	*fabric = made;
	return 0;
}

int Fabric::close(Fid *any)
{
	auto *fabric = object_of<Fabric, fid_fabric>(any);

	if (fabric->users_.any())
		return -FI_EBUSY;
	delete fabric;
	return 0;
}

// Whether one may sleep on the descriptors of these objects: not while there is something to be read.
int Fabric::trywait(fid_fabric *, Fid **fids, int count)
{
	for (int i = 0; i < count; i++) {
		switch (fids[i]->fclass) {
		case FI_CLASS_CQ:
			if (object_of<CompletionQueue, fid_cq>(fids[i])->has_something())
				return -FI_EAGAIN;
			break;
		case FI_CLASS_EQ:
			if (object_of<EventQueue, fid_eq>(fids[i])->has_something())
				return -FI_EAGAIN;
			break;
		default: return -FI_ENOSYS;
		}
	}
	return 0;
}

} // namespace ibrelk::ofi
