// SPDX-License-Identifier: GPL-2.0-only
//
// The libfabric provider: its conformance tests on a node, also over a wire that loses packets.
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

	void expect_conformance(const std::string &environment, const std::string &filter = "*")
	{
		lab().run_ok(1,
			"grep -q twofold /etc/hosts || "
			"printf '10.1.0.9 twofold\\nfd00::9 twofold\\n' >>/etc/hosts");

		const Result result = lab().run(1,
			fmt::format("{} FI_PROVIDER_PATH={} {} --gtest_filter='{}'", environment, provider(),
				built("tests/ofi/ofi"), filter),
			Duration(300));

		EXPECT_EQ(result.status, 0) << result.output;
		EXPECT_NE(result.output.find("[  PASSED  ]"), std::string::npos) << result.output;
		EXPECT_EQ(result.output.find("[  PASSED  ] 0 tests"), std::string::npos) << result.output;
		EXPECT_EQ(result.output.find("[  SKIPPED ]"), std::string::npos) << result.output;
	}

	void expect_conformance_over_a_wire(const char *mode, const std::string &filter = "*")
	{
		ASSERT_EQ(unload_module(1).status, 0);
		load_module(1, "loopback=0");
		lab().run_ok(1, std::string(IBRELK_SOURCE) + "/tests/ofi/wire.sh 1");
		expect_conformance(fmt::format("FI_IBRELK_MODE={} OFI_ADDRESSES='10.9.0.1 10.9.0.2' "
					       "OFI_SET_LOSS={}/tests/ofi/loss.sh",
					   mode, IBRELK_SOURCE),
			filter);
		for (const char *end : {"v0", "v1"})
			EXPECT_GE(dropped(end), 50) << end;
		ASSERT_EQ(unload_module(1).status, 0);
		lab().run_ok(1, "rdma link del rxev0 && rdma link del rxev1 && ip link del v0");
		load_module(1);
	}

private:
	static long dropped(const std::string &device)
	{
		return std::stol(lab().run_ok(1,
			"tc -s qdisc show dev " + device + " | sed -n 's/.*(dropped \\([0-9]*\\).*/\\1/p'"));
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
	expect_conformance("");
}

TEST_F(Ofi, conformance_by_ipv6)
{
	const std::string ports = built("user/tools/ibrelk") + " show ports";

	lab().run_ok(1, "ip -6 address replace fd00:1b7e::1/64 dev eth0 nodad");
	lab().wait_until(1, ports + " | grep -q fd00:1b7e::1");
	expect_conformance("OFI_ADDRESSES=fd00:1b7e::1");
	lab().run_ok(1, "ip -6 address del fd00:1b7e::1/64 dev eth0");
	lab().wait_until(1, "! " + ports + " | grep -q fd00:1b7e::1");
}

// Each test's two sides are at the two ends of a wire.
TEST_F(Ofi, conformance_while_packets_are_lost)
{
	expect_conformance_over_a_wire("auto");
}

TEST_F(Ofi, long_conformance_over_connections_while_packets_are_lost)
{
	/* Without those that send to themselves, or from one address to itself, which UC does not connect. */
	expect_conformance_over_a_wire("uc-reliable",
		"-Atomic.of_many_at_once:AtomicEndpoint.does_what_it_was_made_for:"
		"*.what_was_removed_is_gone*:*.has_nothing_of_a_former_one*:*.to_oneself*:"
		"Rma.of_oneself:RmaEndpoint.does_what_it_was_made_for:*.of_another_job_are_refused*");
}

TEST_F(Ofi, long_conformance_by_datagrams_while_packets_are_lost)
{
	expect_conformance_over_a_wire("ud-reliable");
}

} // namespace

} // namespace cluster
