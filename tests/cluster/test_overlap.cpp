// SPDX-License-Identifier: GPL-2.0-only
//
// A process that computes and calls nobody for twice the time of a transfer, and then finds it complete: the
// peer's part, and its own kernel's, have been done without it. As yardsticks, what libfabric's providers
// make of the same.
#include "cluster.hpp"

#include <algorithm>
#include <regex>

#include <fmt/format.h>

namespace cluster
{

namespace
{

class Overlap : public ClusterTest, public testing::WithParamInterface<std::string>
{
protected:
	// If it needed a call, the first look would never find an operation complete. How often it does where
	// two emulated nodes share a machine is chance; `make bench` asks for 95 %.
	static void first_look_finds(const std::string &arguments, unsigned sizes, double limit_s)
	{
		static const std::regex side(
			"\"(send|receive)\":\\{\"trials\":([0-9]+),.*?\"first_pct\":([0-9.]+)");
		std::vector<bool> found(std::size_t{2} * sizes);

		need_server();
		/* A machine that became slower after the work was measured out may miss all of one kind. */
		for (int tries = 0; tries < 3 && std::ranges::count(found, false); tries++) {
			const Result result = try_perf(
				"overlap 10.1.0.2 --json --mode " + GetParam() + " " + arguments, limit_s);
			std::size_t at = 0;

			ASSERT_EQ(result.status, 0) << result.output;
			for (std::sregex_iterator it(result.output.begin(), result.output.end(), side), end;
				it != end && at < found.size(); ++it, at++)
				found[at] = found[at] || std::stod((*it)[3]) > 0;
			ASSERT_EQ(at, found.size()) << result.output;
		}
		for (std::size_t at = 0; at < found.size(); at++)
			EXPECT_TRUE(found[at]) << (at % 2 ? "receives" : "sends") << " of size " << at / 2
					       << " in " << arguments;
	}
};

TEST_P(Overlap, transfers_need_no_call)
{
	perf("overlap --size 4096,1M --iterations 3 --mode " + GetParam());
	first_look_finds("--size 4096,64k,1M --iterations 40", 3, 240);
}

TEST_P(Overlap, long_up_to_64_mib)
{
	first_look_finds("--size 64k,1M,16M,64M --iterations 5 --timeout 120", 4, 1800);
}

INSTANTIATE_TEST_SUITE_P(modes, Overlap, testing::Values("uc-reliable", "ud-reliable", "auto"),
	[](const auto &info) { return test_name(info.param); });

class OverlapProvider : public ClusterTest
{
};

// By libfabric, too, a message comes to its end without a call, and without a thread that would make up for
// calls.
TEST_F(OverlapProvider, long_needs_neither_calls_nor_threads)
{
	static const std::regex first("ibrelk,overlap_(send|recv)_first_pct,([0-9]+),0,0,([0-9.]+),");
	const std::string program = "FI_IBRELK_MODE=uc-reliable FI_PROVIDER_PATH=" + built("user/lib/ofi") +
		" " + built("tests/bench/fi_overlap");
	lab::Job server = lab().start(2, "exec env " + program + " serve ibrelk 10.1.0.2");

	// It listens on TCP port 7469.
	lab().wait_until(2, "grep -q ':1D2D .* 0A ' /proc/net/tcp");

	lab::Job client = lab().start(1, program + " run ibrelk 10.1.0.1 10.1.0.2 4096,65536,1048576 40");

	// Once there are figures it has all that it is going to have.
	client.wait_for_output("4096 ", Duration(120));
	EXPECT_EQ(lab().run_ok(2, "ls /proc/$(pidof fi_overlap)/task | wc -l"), "1\n");
	EXPECT_EQ(lab().run_ok(1, "ls /proc/$(pidof fi_overlap)/task | wc -l"), "1\n");

	const Result result = client.wait(Duration(240));
	unsigned sides = 0;

	EXPECT_EQ(result.status, 0) << result.output;
	EXPECT_EQ(server.wait(Duration(60)).status, 0) << server.output();
	for (std::sregex_iterator it(result.output.begin(), result.output.end(), first), end; it != end;
		++it, sides++)
		EXPECT_GT(std::stod((*it)[3]), 0) << (*it)[1] << " of " << (*it)[2] << " bytes";
	EXPECT_EQ(sides, 6u) << result.output;
}

struct Provider {
	const char *name;
	const char *domain; // where the address says nothing
};

class OverlapYardstick : public ClusterTest, public testing::WithParamInterface<Provider>
{
};

// What they find is printed, for the table in the documentation, and not judged.
TEST_P(OverlapYardstick, long_runs)
{
	const auto &[name, domain] = GetParam();
	const std::string program = built("tests/bench/fi_overlap");
	const std::string where = domain ? std::string(" ") + domain : "";

	lab::Job server = lab().start(2, fmt::format("{} serve '{}' 10.1.0.2{}", program, name, where));
	// It listens on TCP port 7469.
	lab().wait_until(2, "grep -q ':1D2D .* 0A ' /proc/net/tcp");

	const Result result = lab().run(1,
		fmt::format("timeout -s KILL 300 {} run '{}' 10.1.0.1 10.1.0.2 4096,65536,1048576 40{}",
			program, name, where),
		Duration(360));

	fmt::print("{}", result.output);
	/* SIGKILL by timeout, or what the program says of no progress. */
	if (domain && result.status == 137) {
		server.kill(9);
		server.wait(Duration(60));
		GTEST_SKIP() << "verbs;ofi_rxd does not come to its end now and then (testing.rst)";
	}
	EXPECT_EQ(result.status, 0) << result.output;
	EXPECT_EQ(server.wait(Duration(60)).status, 0) << server.output();
}

INSTANTIATE_TEST_SUITE_P(providers, OverlapYardstick,
	testing::Values(Provider{"verbs;ofi_rxd", "rxe0-dgram"}, Provider{"tcp;ofi_rxm", nullptr}),
	[](const auto &info) { return test_name(info.param.name); });

} // namespace
} // namespace cluster
