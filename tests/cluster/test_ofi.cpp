// SPDX-License-Identifier: GPL-2.0-only
//
// The libfabric provider: its conformance tests on a node.
#include "cluster.hpp"

#include <fmt/format.h>

namespace cluster
{

namespace
{

class Ofi : public ClusterTest
{
protected:
	static std::string provider()
	{
		return built("user/lib/ofi");
	}
};

TEST_F(Ofi, fi_info)
{
	const std::string output = lab().run_ok(1, "FI_PROVIDER_PATH=" + provider() + " fi_info -p ibrelk");

	EXPECT_NE(output.find("provider: ibrelk"), std::string::npos) << output;
	EXPECT_NE(output.find("type: FI_EP_RDM"), std::string::npos) << output;
}

// The program has tests of its own; here it counts as one.
TEST_F(Ofi, conformance)
{
	const Result result = lab().run(
		1, fmt::format("FI_PROVIDER_PATH={} {}", provider(), built("tests/ofi/ofi")), Duration(300));

	EXPECT_EQ(result.status, 0) << result.output;
	EXPECT_NE(result.output.find("[  PASSED  ]"), std::string::npos) << result.output;
}

} // namespace

} // namespace cluster
