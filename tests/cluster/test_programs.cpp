// SPDX-License-Identifier: GPL-2.0-only
//
// Self-tests that run as programs of their own on a node, and attacks on the wire.
#include "cluster.hpp"

#include <cstdlib>
#include <regex>
#include <stdexcept>

#include <fmt/format.h>

namespace cluster
{

namespace
{

class Programs : public ClusterTest
{
};

// A client that is interrupted says so, or its server would serve nobody else for as long as it may be
// silent.
TEST_F(Programs, interrupted_client_leaves_its_server_to_others)
{
	need_server();
	Growth sent = growth(1, "tx_messages", "uc-reliable");
	auto client = lab().start(1,
		"exec " + built("user/tools/ibrelk-perf") +
			" bandwidth 10.1.0.2 --iterations 100000000 --size 8 --timeout 3600 --mode "
			"uc-reliable");

	ASSERT_TRUE(sent.reaches(100));
	client.kill(15);
	EXPECT_NE(client.wait(Duration(60)).output.find("interrupted"), std::string::npos);
	perf("latency --iterations 2 --size 8 --mode uc-reliable", 120);
}

// The program reports in KTAP; here it counts as one test. (A message of more than 4 GiB is sent whole, which
// takes too long in a debug kernel.)
TEST_F(Programs, abi)
{
	const Result result = lab().run(1, "IBRELK_LONG=1 " + built("tests/selftests/abi"), Duration(420));

	EXPECT_EQ(result.status, 0) << result.output;
	EXPECT_EQ(result.output.find("\nnot ok"), std::string::npos) << result.output;
	EXPECT_NE(result.output.find("\nok 1"), std::string::npos) << result.output;
}

// Memory of kinds that the debug kernel does not have: huge pages, and files on a disk.
TEST_F(Programs, memory)
{
	const Result result = lab().run(1,
		std::string(IBRELK_SOURCE) +
			"/tests/selftests/memory.sh memory__of memory__in memory__pinned memory__changed "
			"remote__",
		Duration(240));

	EXPECT_EQ(result.status, 0) << result.output;
	EXPECT_EQ(result.output.find("\nnot ok"), std::string::npos) << result.output;
	EXPECT_EQ(result.output.find("# SKIP"), std::string::npos) << result.output;
	EXPECT_NE(result.output.find("\nok 1"), std::string::npos) << result.output;
}

// All of a message whose length is not kept in 32 bits, from one adapter's pieces into the other's.
TEST_F(Programs, long_more_than_4_gib_are_written)
{
	const Result result = lab().run(1,
		"IBRELK_LONG=1 " + std::string(IBRELK_SOURCE) +
			"/tests/selftests/memory.sh memory__more_than_4_gib",
		Duration(1800));

	EXPECT_EQ(result.status, 0) << result.output;
	EXPECT_EQ(result.output.find("\nnot ok"), std::string::npos) << result.output;
	EXPECT_EQ(result.output.find("# SKIP"), std::string::npos) << result.output;
	EXPECT_NE(result.output.find("\nok 1"), std::string::npos) << result.output;
}

// A node of its own, whose processor is in the first of two NUMA nodes: memory of the second is written,
// copied where there are no regions, and copied by datagrams.
TEST(Numa, memory_of_another_node)
{
	lab::Options options;

	options.nodes = 1;
	options.numa_nodes = 2;
	options.memory_mb = 1024;
	Lab node(options);
	for (const std::string regions : {"128", "0"}) {
		node.run_ok(1,
			fmt::format("{}/tests/load-module.sh {} regions={}", IBRELK_SOURCE,
				built("module-" + options.kernel + "/ibrelk.ko"), regions));
		const Result result = node.run(1,
			std::string(IBRELK_SOURCE) +
				"/tests/selftests/memory.sh memory__on_another_numa_node",
			Duration(240));

		EXPECT_EQ(result.status, 0) << result.output;
		EXPECT_EQ(result.output.find("\nnot ok"), std::string::npos) << result.output;
		EXPECT_EQ(result.output.find("# SKIP"), std::string::npos) << result.output;
		EXPECT_NE(result.output.find("\nok 1"), std::string::npos) << result.output;
		node.run_ok(1, "rmmod ibrelk");
	}
	EXPECT_EQ(node.check(), "") << "a kernel complained";
}

// From each of many endpoints to each of many, by one process on either node, and by many.
TEST_F(Programs, many_endpoints_and_many_processes)
{
	const std::string actor = built("tests/selftests/actor");

	for (const std::string mode : {"uc-reliable", "ud-reliable"}) {
		constexpr int endpoints = 16, processes = 12;
		auto receiver = lab().start(2,
			fmt::format("{} serve --mode {} --endpoints {} --bytes 8192 --expect {}", actor, mode,
				endpoints, endpoints * endpoints * 2 + processes * endpoints));
		std::vector<lab::Job> senders;

		receiver.wait_for_output("serving", Duration(60));
		const Result result = lab().run(1,
			fmt::format("{} send --to 10.1.0.2 --mode {} --endpoints {} --count 2 --bytes 5000",
				actor, mode, endpoints),
			Duration(120));
		EXPECT_EQ(result.status, 0) << result.output;
		senders.reserve(processes);
		for (int i = 0; i < processes; i++)
			senders.push_back(lab().start(1,
				fmt::format("{} send --to 10.1.0.2 --mode {} --count {} --bytes 300", actor,
					mode, endpoints)));
		for (auto &sender : senders) {
			const Result sent = sender.wait(Duration(120));
			EXPECT_EQ(sent.status, 0) << sent.output;
		}
		receiver.wait_for_output("received ", Duration(120));
		EXPECT_NE(receiver.output().find("wrong 0"), std::string::npos) << receiver.output();
		receiver.kill(15);
		receiver.wait(Duration(60));
	}
}

// What is installed, as mpi.rst says, into the system's own folders is all that it takes to use ibrelk there:
// tools and libfabric's plug-in are found where they are looked for, and programs are built against it by
// pkg-config, and by CMake.
TEST_F(Programs, long_use_what_was_installed)
{
	const std::string installed = built("installed"), usr = installed + "/usr",
			  example = std::string(IBRELK_SOURCE) + "/user/examples/hello_c.c";
	const auto on_this_machine = [](const std::string &command) {
		if (std::system(command.c_str()) != 0)
			throw std::runtime_error("on this machine: " + command);
	};

	on_this_machine(fmt::format(
		"rm -rf {0} && cmake -S {1} -B {0}/build -DIBRELK_TESTS=OFF -DCMAKE_INSTALL_PREFIX=/usr "
		">/dev/null && "
		"cmake --build {0}/build -j2 >/dev/null && DESTDIR={0} cmake --install {0}/build >/dev/null",
		installed, IBRELK_SOURCE));
	on_this_machine(fmt::format("export PKG_CONFIG_PATH=$(dirname $(find {0} -name ibrelk.pc)) && "
				    "gcc {1} $(pkg-config --cflags --libs ibrelk) -o {2}/by_pkg_config",
		usr, example, installed));
	on_this_machine(fmt::format(
		"mkdir {0}/project && printf '%s\\n' 'cmake_minimum_required(VERSION 3.20)' 'project(hello "
		"C)' "
		"'find_package(ibrelk 0.1 REQUIRED)' 'add_executable(by_cmake {1})' "
		"'target_link_libraries(by_cmake PRIVATE ibrelk::ibrelk)' >{0}/project/CMakeLists.txt && "
		"cmake -S {0}/project -B {0}/built -DCMAKE_PREFIX_PATH={2} -DCMAKE_SKIP_RPATH=ON >/dev/null "
		"&& "
		"cmake --build {0}/built >/dev/null",
		installed, example, usr));
	for (const std::string page : {"man1/ibrelk.1", "man1/ibrelk-perf.1", "man7/fi_ibrelk.7"})
		on_this_machine(fmt::format("test -s {}/share/man/{}", usr, page));

	for (int node : {1, 2})
		lab().run_ok(node, fmt::format("cp -dR {}/. /usr && ldconfig", usr));
	EXPECT_NE(lab().run_ok(1, "ibrelk show ports").find("10.1.0.1"), std::string::npos);
	EXPECT_NE(lab().run_ok(1, "env -u FI_PROVIDER_PATH fi_info -p ibrelk").find("provider: ibrelk"),
		std::string::npos);
	auto receiver = lab().start(2, installed + "/by_pkg_config");
	lab().wait_until(2, "ibrelk show endpoints | grep -q ':77#'");
	EXPECT_EQ(lab().run_ok(1, installed + "/built/by_cmake 10.1.0.2:77"), "hello\n");
	const Result result = receiver.wait(Duration(60));
	EXPECT_EQ(result.status, 0) << result.output;
	for (int node : {1, 2})
		lab().run_ok(node,
			fmt::format("cd {} && find . ! -type d | (cd /usr && xargs rm) && ldconfig", usr));
}

// What library.rst quotes.
class Examples : public ClusterTest
{
protected:
	// Starts one on node 2, where the last one has gone, and waits for its endpoint.
	static lab::Job start(const std::string &name, lab::Terminal terminal = {})
	{
		const std::string show = built("user/tools/ibrelk") + " show endpoints | grep -q ':77#'";

		lab().wait_until(2, "! " + show);
		auto job = lab().start(2, built("user/examples/" + name), terminal);
		lab().wait_until(2, show);
		return job;
	}
	// Runs one on node 1, which sends there.
	static void run(const std::string &name, const std::string &expected = "")
	{
		const Result result = lab().run(1, built("user/examples/" + name), Duration(120));

		EXPECT_EQ(result.status, 0) << result.output;
		EXPECT_EQ(result.output, expected);
	}
	static std::string output_of(lab::Job &job)
	{
		const Result result = job.wait(Duration(60));

		EXPECT_EQ(result.status, 0) << result.output;
		return result.output;
	}
};

TEST_F(Examples, hello)
{
	auto cpp = start("hello");
	run("hello_c 10.1.0.2:77", "hello\n");
	EXPECT_EQ(output_of(cpp).rfind("hello from 10.1.0.1:", 0), 0u);

	auto c = start("hello_c");
	run("hello 10.1.0.2:77", "hello from 10.1.0.2:77\n");
	EXPECT_EQ(output_of(c), "hello\n");
}

TEST_F(Examples, epoll_receiver)
{
	auto receiver = start("epoll_receiver", {.rows = 24, .columns = 80});

	run("any_length 10.1.0.2:77 100 4096");
	for (const char *line :
		{"100 bytes, tag 1, status 0, from 10.1.0.1:", "4096 bytes, tag 1, status 0, from 10.1.0.1:"})
		receiver.wait_for_output(line, Duration(60));
	receiver.type("\n");
	output_of(receiver);
}

// Among them lengths on both sides of where long messages begin, one that is too long for the receiver, and
// shorter ones in memory that was used before.
TEST_F(Examples, any_length)
{
	auto receiver = start("any_length");

	run("any_length 10.1.0.2:77 100 8192 8193 20000000 70000000 5000000 1");
	run("any_length 10.1.0.2:77 300 0");
	EXPECT_EQ(output_of(receiver),
		"100 bytes: good\n8192 bytes: good\n8193 bytes: good\n20000000 bytes: good\n"
		"70000000 bytes: discarded\n5000000 bytes: good\n1 bytes: good\n300 bytes: good\n"
		"0 bytes: good\n");
}

class Attacks : public Programs
{
protected:
	static inline const std::string injection =
		built("tests/selftests/inject") + " --interface eth0 --to 10.1.0.2 --replay-mutated ";

	// Verified traffic in the background while damaged copies of its own packets are sent along.
	static void attack(const std::string &mode, const std::string &inject_arguments, int rounds,
		const std::string &traffic = "rate 10.1.0.2 --mixed --size 600 --iterations 10000")
	{
		need_server();
		perf("latency --iterations 2 --size 8 --mode " + mode);
		lab().run_ok(1, "rm -f /tmp/enough");
		auto job = lab().start(1,
			fmt::format("until test -e /tmp/enough; do {} {} --verify "
				    "--timeout 60 --connect-timeout 60 --mode {} || exit 1; done",
				built("user/tools/ibrelk-perf"), traffic, mode));
		job.wait_for_output("# mode", Duration(60));
		for (int i = 0; i < rounds && job.running(); i++)
			lab().run_ok(1, injection + inject_arguments, Duration(60));
		lab().run_ok(1, "touch /tmp/enough");

		const Result result = job.wait(Duration(240));
		EXPECT_EQ(result.status, 0) << result.output;
	}
};

TEST_F(Attacks, damaged_packets_are_dropped_and_counted)
{
	attack("uc-reliable", "--packets 10 --limit 20", 2);
	for (const char *cause : {"drop_checksum", "drop_version", "drop_length", "rx_duplicates"})
		EXPECT_GT(counter(2, cause, "uc-reliable"), 0) << cause;
	attack("ud-reliable", "--packets 10 --limit 20", 2);
	for (const char *cause : {"drop_checksum", "rx_duplicates"})
		EXPECT_GT(counter(2, cause, "ud-reliable"), 0) << cause;
}

// A datagram's path is found by its token: what has none is counted by the port, and the port lives on.
TEST_F(Attacks, datagrams_of_no_path_are_counted_by_the_port)
{
	attack("ud-reliable", "--packets 10 --limit 20", 2);
	for (const char *cause : {"drop_token", "drop_version", "drop_length"})
		EXPECT_GT(port_counter(2, cause), 0) << cause;
	perf("latency --iterations 10 --size 8 --mode ud-reliable");
}

// Where no credit bounds the numbers of control packets.
TEST_F(Attacks, numbers_that_cannot_be_are_dropped_without_credit)
{
	for (const std::string mode : {"uc-native", "ud-native"}) {
		Growth dropped = growth(2, "drop_window", mode);

		attack(mode, "--kinds resealed-number-far --packets 8 --limit 3", 4,
			"bandwidth 10.1.0.2 --size 30000 --iterations 300");
		EXPECT_GT(dropped.value(), 0) << mode;
	}
}

// And numbers that could be: from then on the deceived node acknowledges what was never sent, and takes what
// is sent for repeated. The other one gives it up, as if it said nothing, and both begin anew.
TEST_F(Attacks, numbers_that_can_be_cost_the_life_of_the_path_without_credit)
{
	need_server();
	perf("latency --iterations 2 --size 8 --mode ud-native");
	set(1, "peer_timeout_ms", 4000);
	Growth given_up("how often node 1 has given its peer up",
		[] { return std::stol(lab().run(1, "dmesg | grep -c 'peer given up'").output); });
	auto job = lab().start(1,
		fmt::format("while true; do {} bandwidth 10.1.0.2 --size 30000 --iterations 300 --timeout 20 "
			    "--connect-timeout 20 --quiet --mode ud-native; done",
			built("user/tools/ibrelk-perf")));
	EXPECT_TRUE(given_up.reaches(1, Duration(120), [&] {
		/* While the connection is being made anew, there may be no packet to change. */
		lab().run(1, injection + "--kinds resealed-number-ahead --packets 8 --limit 3");
		return job.running();
	})) << job.output();
	job.kill(9);
	job.wait(Duration(30));
	set(1, "peer_timeout_ms", 30000);
	/* It waits for what the killed one owes. */
	stop_server();
	need_server();
	perf("latency --iterations 10 --size 8 --mode ud-native");
}

// Packets of a former life, byte by byte as they were: counted and dropped. The life ends with node 1's
// module.
TEST_F(Attacks, packets_of_a_former_life_are_dropped_and_counted)
{
	const std::string inject = built("tests/selftests/inject") + " --interface eth0 --to 10.1.0.2 ";

	for (const std::string mode : {"uc-reliable", "ud-reliable"}) {
		need_server();
		const std::string endless = built("user/tools/ibrelk-perf") +
			" rate 10.1.0.2 --mixed --size 600 --iterations 100000000 --timeout 60 --mode " +
			mode;
		perf("latency --iterations 2 --size 8 --mode " + mode);
		auto job = lab().start(1, endless);
		lab().run_ok(1,
			inject +
				"--replay-mutated --kinds verbatim --packets 32 --limit 10 --save "
				"/tmp/old.pcap");
		job.kill(9);
		job.wait(Duration(30));
		/* It waits for what the killed one owes. */
		stop_server();
		const Result unloaded = unload_module(1);
		ASSERT_EQ(unloaded.status, 0) << unloaded.output;
		load_module(1);

		need_server();
		perf("latency --iterations 2 --size 8 --mode " + mode);
		/* The path that was just made is used, or idle for a moment, until the end. */
		Growth drops("drops of node 2", [&] {
			return counter(2, "drop_checksum", mode) + counter(2, "drop_token", mode) +
				port_counter(2, "drop_token");
		});
		auto traffic = lab().start(1,
			built("user/tools/ibrelk-perf") +
				" rate 10.1.0.2 --verify --mixed --size 600 --iterations 30000 --timeout 60 "
				"--mode " +
				mode);
		const std::string sent =
			lab().run_ok(1, inject + "--corrupt-of /tmp/old.pcap --redirect --kinds verbatim");
		const Result result = traffic.wait(Duration(240));
		EXPECT_EQ(result.status, 0) << result.output;
		std::smatch match;
		ASSERT_TRUE(std::regex_search(sent, match, std::regex("\"sent\": .\"verbatim\": ([0-9]+)")))
			<< sent;
		EXPECT_GE(std::stol(match[1]), 8) << sent;
		EXPECT_TRUE(drops.reaches(std::stol(match[1])));
		EXPECT_EQ(drops.value(), std::stol(match[1])) << sent;
	}
}

} // namespace

} // namespace cluster
