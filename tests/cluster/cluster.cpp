// SPDX-License-Identifier: GPL-2.0-only
//
// See cluster.hpp.
#include "cluster.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <regex>

#include <fmt/format.h>

namespace cluster
{

namespace
{

std::unique_ptr<Lab> lab_;
int cpus_ = 1;
std::optional<lab::Job> server_;

std::string show(int node, const std::string &what)
{
	return the_lab().run_ok(node, built("user/tools/ibrelk") + " show " + what + " --json");
}

long sum_of(const std::string &json, const std::string &name)
{
	const std::regex pattern("\"" + name + "\": *([0-9]+)");
	long sum = 0;

	for (std::sregex_iterator it(json.begin(), json.end(), pattern), end; it != end; ++it)
		sum += std::stol((*it)[1]);
	return sum;
}

} // namespace

Lab &the_lab()
{
	if (!lab_) {
		lab::Options options;

		options.cpus = cpus_;
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

void end_lab(int next_cpus)
{
	end_lab();
	cpus_ = next_cpus;
}

std::string built(const std::string &path)
{
	return std::string(IBRELK_BUILD) + "/" + path;
}

void load_module(int node, const std::string &parameters)
{
	lab_->run_ok(node,
		fmt::format("{}/tests/load-module.sh {} allow_native=1 {} && test -c /dev/ibrelk",
			IBRELK_SOURCE, built("module-" + lab_->options().kernel + "/ibrelk.ko"), parameters));
}

Result unload_module(int node)
{
	return the_lab().run(node, "rmmod ibrelk");
}

void renew_modules()
{
	for (int node : {1, 2}) {
		const Result result = unload_module(node);

		EXPECT_EQ(result.status, 0) << result.output;
		load_module(node);
	}
}

std::string test_name(std::string text)
{
	std::replace_if(
		text.begin(), text.end(), [](unsigned char c) { return !std::isalnum(c); }, '_');
	return text;
}

namespace
{

void clear_faults()
{
	for (int node = 1; node <= the_lab().nodes(); node++)
		the_lab().clear_fault(node);
}

} // namespace

void ClusterTest::SetUp()
{
	try {
		clear_faults();
	} catch (const lab::Error &) {
		// A node did not survive the last test, which has said so. That costs no other test its
		// result.
		end_lab();
		clear_faults();
	}
	ASSERT_EQ(the_lab().check(), "") << "a kernel complained before this test";
}

void ClusterTest::TearDown()
{
	Lab &lab = the_lab();

	clear_faults();
	EXPECT_EQ(lab.check(), "") << "a kernel complained";
	if (HasFailure()) {
		if (server_)
			fmt::print("--- server:\n{}\n", server_->output());
		for (int node = 1; node <= lab.nodes(); node++)
			fmt::print("--- node {}:\n{}\n", node,
				// Whether the node's own network still works, too.
				lab.run(node,
					   built("user/tools/ibrelk") +
						   " show; ip -s -s link show eth0; ip neigh; "
						   "grep virtio /proc/interrupts; dmesg | tail -n 20")
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

namespace
{

constexpr const char *pinned_command =
	"echo 1 >/proc/sys/vm/stat_refresh; awk '/^nr_foll_pin_acquired/ { n += $2 } "
	"/^nr_foll_pin_released/ { n -= $2 } END { print n }' "
	"/proc/vmstat";

} // namespace

ClusterTest::Pinned ClusterTest::pinned_pages()
{
	return {std::stol(the_lab().run_ok(1, pinned_command)),
		std::stol(the_lab().run_ok(2, pinned_command))};
}

std::vector<lab::Job> ClusterTest::mingle(const std::string &mode, int messages, unsigned seed)
{
	std::vector<lab::Job> both;

	for (int node : {1, 2}) {
		lab().run_ok(node, "rm -f /tmp/mingle");
		both.push_back(lab().start(node,
			fmt::format("exec {} --to {} --mode {} --count {} --seed {} --go /tmp/mingle{}",
				built("tests/selftests/mingle"), Lab::address(3 - node), mode, messages, seed,
				node == 2 ? " --second" : "")));
	}
	for (auto &job : both)
		job.wait_for_output("open\n", Duration(120));
	for (int node : {1, 2})
		lab().run_ok(node, "touch /tmp/mingle");
	return both;
}

void ClusterTest::wait_for_no_endpoints()
{
	for (int node : {1, 2})
		the_lab().wait_until(node,
			built("user/tools/ibrelk") + " show endpoints | grep -q '^no endpoints'",
			Duration(60));
}

void ClusterTest::expect_all_given_back(const Pinned &before)
{
	wait_for_no_endpoints();
	for (int node : {1, 2})
		the_lab().wait_until(node, fmt::format("test $({}) = {}", pinned_command, before[node - 1]));
	renew_modules();
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
	std::string patience;

	for (const std::string option : {" --timeout", " --connect-timeout"})
		if (arguments.find(option) == std::string::npos)
			patience += option + " 60";

	Result result = try_perf(arguments + " 10.1.0.2 --verify" + patience, limit_s);

	EXPECT_EQ(result.status, 0) << arguments << "\n" << result.output;
	return result.output;
}

long ClusterTest::counter(int node, const std::string &name, const std::string &mode)
{
	const std::string json = show(node, "paths");

	if (mode.empty())
		return sum_of(json, name);

	const std::regex wanted(
		"\"remote\": *\"" + Lab::address(3 - node) + "\",.*\"mode\": *\"" + mode + "\"");
	long sum = 0;

	/* Each path begins with its own address. */
	for (std::size_t at = json.find("\"local\""), next; at != std::string::npos; at = next) {
		next = json.find("\"local\"", at + 1);
		const std::string path = json.substr(at, next - at);

		if (std::regex_search(path, wanted))
			sum += sum_of(path, name);
	}
	return sum;
}

void ClusterTest::set(int node, const std::string &parameter, unsigned value)
{
	lab().run_ok(node, fmt::format("echo {} >/sys/module/ibrelk/parameters/{}", value, parameter));
}

void ClusterTest::set(const std::string &parameter, unsigned value)
{
	for (int node : {1, 2})
		set(node, parameter, value);
}

Growth ClusterTest::growth(int node, const std::string &name, const std::string &mode)
{
	return {fmt::format("{} of node {} ({})", name, node, mode),
		[=] { return counter(node, name, mode); }, true};
}

long ClusterTest::port_counter(int node, const std::string &name)
{
	return sum_of(show(node, "ports"), name);
}

Growth::Growth(std::string name, std::function<long()> read, bool anew) :
	name_(std::move(name)), read_(std::move(read)), anew_(anew), base_(read_())
{
}

long Growth::value()
{
	const long now = read_();

	if (now < base_)
		base_ = anew_ ? 0 : now;
	return now - base_;
}

bool Growth::reaches(long count, Duration limit, const std::function<bool()> &meanwhile)
{
	const auto start = std::chrono::steady_clock::now();

	for (;;) {
		const long grown = value();

		if (grown >= count)
			return true;
		if (std::chrono::steady_clock::now() - start > limit)
			throw lab::TimedOut(fmt::format("{} has not grown by {} within {} s, but by {}",
				name_, count, limit.count(), grown));
		if (meanwhile && !meanwhile())
			return false;
	}
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
