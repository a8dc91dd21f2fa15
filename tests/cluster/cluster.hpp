// SPDX-License-Identifier: GPL-2.0-only
//
// What all tests on the two-node cluster share: one lab for the whole run, with the module loaded on
// both nodes, and short ways to move verified traffic between them. Every test starts on a cluster
// without faults, and every test fails if a kernel complains. After one that failed the nodes are booted
// anew.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lab.hpp"

namespace cluster
{

using lab::Duration;
using lab::Lab;
using lab::Result;

/// The lab, booted by the first call.
Lab &the_lab();
/// Ends it.
void end_lab();
/// The same, and the next one has nodes with so many processors.
void end_lab(int next_cpus);

/// Path of something that was built.
std::string built(const std::string &path);
/// Loads the module on a node where it is not loaded.
void load_module(int node, const std::string &parameters = "");
/// Unloads it. Returns what rmmod said.
Result unload_module(int node);
/// Unloads it on both nodes, which nothing there may keep from going, and loads it again.
void renew_modules();

/// All modes, those with the reliability engine first.
inline const std::vector<std::string> reliable_modes = {"uc-reliable", "ud-reliable", "rc-reliable", "auto"};
inline const std::vector<std::string> native_modes = {"uc-native", "ud-native", "rc-native"};

/// "uc-reliable" as the name of a test: "uc_reliable".
std::string test_name(std::string text);

/// How much something that is counted has grown. A path that nobody uses goes, and what it has counted: where
/// the number falls, what it has grown by is counted from there, or, where it can only fall by beginning
/// anew, from 0.
class Growth
{
public:
	/// Counts from now on. @p what is read says @p name.
	Growth(std::string name, std::function<long()> read, bool anew = false);

	long value();
	/// Waits until it has grown by @p count, and does something between looks: if that returns false,
	/// nothing more is waited for. Returns whether it has grown by so much; throws lab::TimedOut.
	bool reaches(long count, Duration limit = Duration(60), const std::function<bool()> &meanwhile = {});

private:
	std::string name_;
	std::function<long()> read_;
	bool anew_;
	long base_;
};

class ClusterTest : public ::testing::Test
{
protected:
	void SetUp() override;
	void TearDown() override;
	/// Both nodes as they were before the first test.
	static void restore();

	/// An ibrelk-perf server for all modes on node 2, started when it is first needed.
	static void need_server();
	static void stop_server();
	/// Runs ibrelk-perf on node 1 against node 2 and expects it to succeed, verified.
	static std::string perf(const std::string &arguments, double limit_s = 240);
	/// The same, whatever comes of it.
	static Result try_perf(const std::string &arguments, double limit_s = 240);
	/// Sets a parameter of the module; it stays so until it is set again, or a test has failed.
	static void set(int node, const std::string &parameter, unsigned value);
	/// Of both nodes.
	static void set(const std::string &parameter, unsigned value);
	/// A counter of a node's path to the other node in a mode; without a mode, the sum over all paths.
	static long counter(int node, const std::string &name, const std::string &mode = "");
	/// The same from that time on.
	static Growth growth(int node, const std::string &name, const std::string &mode = "");
	/// Sum of a counter over all ports of a node.
	static long port_counter(int node, const std::string &name);

	/// How many pages of each node are pinned, by anybody.
	using Pinned = std::array<long, 2>;
	static Pinned pinned_pages();
	/// Starts two processes, one on each node, that send each other so many messages and do at random all
	/// that matching knows (tests/selftests/mingle.cpp). Both have to succeed.
	static std::vector<lab::Job> mingle(const std::string &mode, int messages, unsigned seed);
	/// Waits until no process of either node has an endpoint any more.
	static void wait_for_no_endpoints();
	/// Once the last process has gone, as many pages are pinned as before, and the modules can be
	/// removed; they are loaded again.
	static void expect_all_given_back(const Pinned &before);

	static Lab &lab()
	{
		return the_lab();
	}
};

} // namespace cluster
