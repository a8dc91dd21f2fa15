// SPDX-License-Identifier: GPL-2.0-only
//
// A cluster to test in: nodes that run a stock Debian kernel in QEMU without
// hardware virtualisation, joined by a virtual wire, each with soft-RoCE. A node
// sees the host's files (its own changes to them vanish with it), so what was
// just built can be run there. Nodes count from 1: node K is called nodeK, has
// the address 10.1.0.K on eth0 and the RDMA device rxe0.
//
// Every wait has a limit, and throws TimedOut saying what it waited for. What
// goes wrong in the lab itself is thrown as Error. A Lab and its jobs may be
// used from several threads; the thread that boots a node must outlive it.

#pragma once

#include "initramfs.hpp"
#include "process.hpp"
#include "wire.hpp"

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lab
{

using Duration = std::chrono::duration<double>;

struct Options {
	int nodes = 2;
	std::string kernel = default_kernel(); // series, 6.1 or 6.12
	int cpus = 1;                          // of each node
	int memory_mb = 768;                   // of each node
	int numa_nodes = 1; // of each node: equal parts of its memory, all processors in the first
	int mtu = 4500;     // of eth0; gives RoCE a path MTU of 4096
	bool soft_roce = true;
	// Host folders that change while the lab runs, or lie in /tmp or /run, which
	// are private to a node. The source and build trees always are among them.
	std::vector<std::filesystem::path> shares;
	std::string append; // more for the kernel's command line
	Duration boot_limit{180};
	std::filesystem::path log_dir; // if set, consoles are copied to nodeK.console there

	// IBRELK_LAB_KERNEL from the environment, or 6.1.
	static std::string default_kernel();
};

struct Result {
	int status = 0;     // exit status, or 128 + signal
	std::string output; // standard output and error together
	Duration duration{};
};

struct Terminal {
	int rows = 0; // 0: no terminal
	int columns = 0;
};

class Node;
struct JobState;

// A command that runs on a node. It is killed when the Job is destroyed.
class Job
{
public:
	Job() = default;
	Job(Job &&) = default;
	Job &operator=(Job &&other) noexcept;
	~Job();

	// Waits until the job ends. It goes on running if that takes too long.
	Result wait(Duration limit);
	// Waits until the job has written text, and throws if it ends without.
	void wait_for_output(std::string_view text, Duration limit);
	// Sends a signal to all processes of the job.
	void kill(int signal = 15);

	[[nodiscard]] bool running() const;
	[[nodiscard]] std::string output() const; // so far

	// For jobs with a terminal.
	void type(std::string_view bytes);
	void resize(Terminal size);
	// Waits for output or the end of the job. Returns what has come, and forgets
	// it; nothing if there is none within the limit.
	std::string take_output(Duration limit);

private:
	friend class Node;
	Job(std::shared_ptr<Node> node, std::shared_ptr<JobState> state);

	std::shared_ptr<Node> node_;
	std::shared_ptr<JobState> state_;
};

class Lab
{
public:
	explicit Lab(Options options = {}); // boots all nodes
	~Lab();
	Lab(const Lab &) = delete;
	Lab &operator=(const Lab &) = delete;

	[[nodiscard]] const Options &options() const
	{
		return options_;
	}
	[[nodiscard]] int nodes() const
	{
		return options_.nodes;
	}
	static std::string address(int node);

	// Runs a shell command to its end; kills it and throws TimedOut, with its
	// output and where in the kernel its processes are, if that takes too long.
	Result run(int node, const std::string &command, Duration limit = Duration(60));
	// The same, but a status other than 0 is thrown as Error. Returns the output.
	std::string run_ok(int node, const std::string &command, Duration limit = Duration(60));
	// Waits until a shell command succeeds on the node, trying it again and again.
	void wait_until(int node, const std::string &condition, Duration limit = Duration(30));
	// Starts a shell command.
	Job start(int node, const std::string &command, Terminal terminal = {});

	std::string dmesg(int node);
	// What the kernel has printed, over all boots of the node.
	[[nodiscard]] std::string console(int node) const;

	// Sends what leaves the node through netem, for example "loss 5% delay 1ms".
	void set_fault(int node, const std::string &netem);
	void clear_fault(int node);

	// Pulls the cable out of the node, or puts it back in.
	void link_down(int node);
	void link_up(int node);

	void crash(int node); // as by loss of power
	void boot(int node);
	void reboot(int node); // crash and boot
	[[nodiscard]] bool alive(int node) const;

	// What any node's kernel has reported since the last check (warnings, oopses,
	// hung tasks, stalls, a death that was not asked for), or an empty text.
	std::string check();

private:
	[[nodiscard]] std::shared_ptr<Node> node(int number) const;

	Options options_;
	Wire wire_;
	std::vector<std::shared_ptr<Node>> nodes_;
};

} // namespace lab
