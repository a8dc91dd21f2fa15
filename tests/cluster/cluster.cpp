// SPDX-License-Identifier: GPL-2.0-only
//
// See cluster.hpp.
#include "cluster.hpp"

#include <algorithm>
#include <optional>
#include <regex>

#include <fmt/format.h>

namespace cluster
{

namespace
{

std::unique_ptr<Lab> lab_;
std::optional<lab::Job> server_;

} // namespace

Lab &the_lab()
{
	if (!lab_) {
		lab::Options options;

		options.memory_mb = 2560; // room for a message of 1 GiB, twice
		lab_ = std::make_unique<Lab>(options);
		for (int node = 1; node <= lab_->nodes(); node++)
			load_module(node);
	}
	return *lab_;
}

void end_lab()
{
	server_.reset();
	lab_.reset();
}

std::string built(const std::string &path)
{
	return std::string(IBRELK_BUILD) + "/" + path;
}

void load_module(int node)
{
	lab_->run_ok(node,
		fmt::format("{}/tests/load-module.sh {} allow_native=1 && test -c /dev/ibrelk", IBRELK_SOURCE,
			built("module-" + lab_->options().kernel + "/ibrelk.ko")));
}

Result unload_module(int node)
{
	return the_lab().run(node, "rmmod ibrelk");
}

std::string test_name(std::string text)
{
	std::replace_if(
		text.begin(), text.end(), [](unsigned char c) { return !std::isalnum(c); }, '_');
	return text;
}

void ClusterTest::SetUp()
{
	Lab &lab = the_lab();

	for (int node = 1; node <= lab.nodes(); node++)
		lab.clear_fault(node);
	ASSERT_EQ(lab.check(), "") << "a kernel complained before this test";
}

void ClusterTest::TearDown()
{
	Lab &lab = the_lab();

	for (int node = 1; node <= lab.nodes(); node++)
		lab.clear_fault(node);
	EXPECT_EQ(lab.check(), "") << "a kernel complained";
	if (HasFailure()) {
		if (server_)
			fmt::print("--- server:\n{}\n", server_->output());
		for (int node = 1; node <= lab.nodes(); node++)
			fmt::print("--- node {}:\n{}\n", node,
				lab.run(node, built("user/tools/ibrelk") + " show; dmesg | tail -n 20")
					.output);
		restore();
	}
}

// What a failed test has left: a link that is down, no device, no module or one with other parameters,
// programs that hang. All of that ends with the node.
void ClusterTest::restore()
{
	Lab &lab = the_lab();

	server_.reset();
	for (int node = 1; node <= lab.nodes(); node++) {
		lab.link_up(node);
		lab.reboot(node);
		load_module(node);
	}
}

void ClusterTest::need_server()
{
	if (server_ && server_->running())
		return;
	server_ = the_lab().start(2, built("user/tools/ibrelk-perf") + " --server --modes all --quiet");
	the_lab().wait_until(2, built("user/tools/ibrelk") + " show endpoints | grep -q rc-native");
}

void ClusterTest::stop_server()
{
	if (!server_)
		return;
	server_->kill(15);
	server_->wait(Duration(30));
	server_.reset();
}

Result ClusterTest::try_perf(const std::string &arguments, double limit_s)
{
	return the_lab().run(1, built("user/tools/ibrelk-perf") + " " + arguments, Duration(limit_s));
}

std::string ClusterTest::perf(const std::string &arguments, double limit_s)
{
	need_server();
	const std::string patience = arguments.find("--timeout") == std::string::npos ? " --timeout 60" : "";
	Result result = try_perf(arguments + " 10.1.0.2 --verify" + patience, limit_s);

	EXPECT_EQ(result.status, 0) << arguments << "\n" << result.output;
	return result.output;
}

long ClusterTest::counter(int node, const std::string &name, const std::string &what)
{
	const std::string json =
		the_lab().run_ok(node, built("user/tools/ibrelk") + " show " + what + " --json");
	const std::regex pattern("\"" + name + "\": *([0-9]+)");
	long sum = 0;

	for (std::sregex_iterator it(json.begin(), json.end(), pattern), end; it != end; ++it)
		sum += std::stol((*it)[1]);
	return sum;
}

} // namespace cluster

int main(int argc, char **argv)
{
	::testing::InitGoogleTest(&argc, argv);
	int status = 1;

	try {
		status = RUN_ALL_TESTS();
	} catch (const std::exception &error) {
		fmt::print("the lab failed: {}\n", error.what());
	}
	cluster::end_lab();
	return status;
}
