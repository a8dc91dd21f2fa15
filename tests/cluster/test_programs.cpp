// SPDX-License-Identifier: GPL-2.0-only
//
// Self-tests that run as programs of their own on a node, and attacks on the wire.
#include "cluster.hpp"

#include <regex>

namespace cluster
{

namespace
{

class Programs : public ClusterTest
{
};

// The program reports in KTAP; here it counts as one test.
TEST_F(Programs, abi)
{
	const Result result = lab().run(1, built("tests/selftests/abi"), Duration(240));

	EXPECT_EQ(result.status, 0) << result.output;
	EXPECT_EQ(result.output.find("\nnot ok"), std::string::npos) << result.output;
	EXPECT_NE(result.output.find("\nok 1"), std::string::npos) << result.output;
}

} // namespace

} // namespace cluster
