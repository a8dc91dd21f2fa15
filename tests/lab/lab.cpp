// SPDX-License-Identifier: GPL-2.0-only
//
// See lab.hpp.

#include "lab.hpp"

#include "node.hpp"

#include <cstdlib>

#include <fmt/format.h>

namespace lab
{

std::string Options::default_kernel()
{
	const char *series = std::getenv("IBRELK_LAB_KERNEL");
	return series && *series ? series : "6.1";
}

Lab::Lab(Options options) : options_(std::move(options)), wire_(options_.nodes)
{
	const Kernel kernel = Kernel::find(options_.kernel);
	for (int number = 1; number <= options_.nodes; number++)
		nodes_.push_back(std::make_shared<Node>(number, options_, kernel, wire_));
	for (const auto &node : nodes_)
		node->launch();
	for (const auto &node : nodes_)
		node->wait_ready();
}

// Jobs may live on, and keep what remains of their nodes; so the nodes must be
// down before the wire goes.
Lab::~Lab()
{
	for (const auto &node : nodes_)
		node->crash();
}

std::shared_ptr<Node> Lab::node(int number) const
{
	if (number < 1 || number > nodes())
		throw Error(fmt::format("there is no node {}: nodes are 1 to {}", number, nodes()));
	return nodes_[static_cast<std::size_t>(number - 1)];
}

std::string Lab::address(int node)
{
	return fmt::format("10.1.0.{}", node);
}

Result Lab::run(int node, const std::string &command, Duration limit)
{
	return this->node(node)->run(command, limit);
}

std::string Lab::run_ok(int node, const std::string &command, Duration limit)
{
	return this->node(node)->run_ok(command, limit);
}

void Lab::wait_until(int node, const std::string &condition, Duration limit)
{
	run_ok(node, fmt::format("until {{ {}\n}}; do sleep 0.1; done", condition), limit);
}

Job Lab::start(int node, const std::string &command, Terminal terminal)
{
	return this->node(node)->start(command, terminal);
}

std::string Lab::dmesg(int node)
{
	return run_ok(node, "dmesg");
}

std::string Lab::console(int node) const
{
	return this->node(node)->console();
}

void Lab::set_fault(int node, const std::string &netem)
{
	// Not changed: what the new faults do not mention would stay.
	run_ok(node,
		fmt::format("tc qdisc del dev eth0 parent 1:1 2>/dev/null; "
			    "tc qdisc add dev eth0 parent 1:1 netem limit 10000 {}",
			netem));
}

void Lab::clear_fault(int node)
{
	// There may be none.
	run_ok(node, "tc qdisc del dev eth0 parent 1:1 2>/dev/null; ! tc qdisc show dev eth0 | grep netem");
}

void Lab::link_down(int node)
{
	this->node(node)->set_link(false);
}

void Lab::link_up(int node)
{
	this->node(node)->set_link(true);
}

void Lab::crash(int node)
{
	this->node(node)->crash();
}

void Lab::boot(int node)
{
	this->node(node)->launch();
	this->node(node)->wait_ready();
}

void Lab::reboot(int node)
{
	crash(node);
	boot(node);
}

bool Lab::alive(int node) const
{
	return this->node(node)->alive();
}

std::string Lab::check()
{
	std::string reports;
	for (const auto &node : nodes_)
		reports += node->check();
	return reports;
}

} // namespace lab
