// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// The way in: libfabric loads this library for its name, and calls fi_prov_ini().
#include "provider.hpp"

#include <algorithm>

#include "fabric.hpp"
#include "info.hpp"
#include "support.hpp"

namespace ibrelk::ofi
{

namespace
{

// The newest interface that the tests have used (by hand: the packages are older), though the structures are
// of the version that this is built with. libfabric skips providers that are older than what an application
// asks for, and believes what they say.
constexpr std::uint32_t tested_api = FI_VERSION(2, 6);

const char *parameter(const char *name) noexcept
{
	char *value = nullptr;

	return fi_param_get_str(&provider, name, &value) == 0 ? value : nullptr;
}

void cleanup()
{
}

} // namespace

fi_provider provider = {
	.version = FI_VERSION(0, 1),
	.fi_version = tested_api,
	.context = {},
	.name = "ibrelk",
	.getinfo = get_info,
	.fabric = Fabric::open,
	.cleanup = cleanup,
};

Parameters parameters() noexcept
{
	return {.mode = parameter("mode"), .job_key = parameter("job_key"), .device = parameter("device")};
}

result<std::uint32_t> wanted_mode() noexcept
{
	const char *name = parameters().mode;

	if (!name)
		return static_cast<std::uint32_t>(IBRELK_MODE_DEFAULT);

	const int mode = ibrelk_mode_from_name(name);

	if (mode < 0) {
		FI_WARN(&provider, FI_LOG_CORE, "FI_IBRELK_MODE=%s is no mode\n", name);
		return failure(EINVAL);
	}
	return static_cast<std::uint32_t>(mode);
}

} // namespace ibrelk::ofi

extern "C" FI_EXT_INI
{
	using ibrelk::ofi::provider;

	provider.fi_version = std::min(fi_version(), ibrelk::ofi::tested_api);
	fi_param_define(&provider, "mode", FI_PARAM_STRING,
		"how messages travel: auto, ud-reliable, uc-reliable, rc-reliable, or a native mode where "
		"the "
		"module allows it (default: what the module recommends)");
	fi_param_define(&provider, "job_key", FI_PARAM_STRING,
		"processes talk only to processes with the same key: a number, or any text (default: the "
		"job that "
		"the launcher names, else the user's own)");
	fi_param_define(&provider, "device", FI_PARAM_STRING,
		"which RDMA device to use, as ibrelk show ports names it, where a node has several (default: "
		"whichever the application takes)");
	return &provider;
}
