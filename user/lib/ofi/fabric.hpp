// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// The fabric: all that ibrelk reaches. Makes domains and event queues.
#pragma once

#include <rdma/fabric.h>

#include "support.hpp"

namespace ibrelk::ofi
{

class Fabric : public fid_fabric
{
public:
	static int open(fi_fabric_attr *attr, fid_fabric **fabric, void *context);

	Users &users() noexcept
	{
		return users_;
	}

private:
	Fabric(const fi_fabric_attr &attr, void *context) noexcept;
	static int close(Fid *any);
	static int trywait(fid_fabric *fabric, Fid **fids, int count);

	static fi_ops fid_ops;
	static fi_ops_fabric fabric_ops;
	Users users_;
};

} // namespace ibrelk::ofi
