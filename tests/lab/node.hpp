// SPDX-License-Identifier: GPL-2.0-only
//
// One node of a lab: the emulator process, the agent in the guest that it talks
// to, and the jobs that run there. Part of the lab library's inside; lab.hpp is
// what tests use.

#pragma once

#include "lab.hpp"
#include "protocol.hpp"

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

namespace lab
{

using Clock = std::chrono::steady_clock;

// What kernels of all guests are told.
//
// The cmpxchg16b of Debian 12's QEMU takes flags that an interrupt has restored for those of the last
// instruction: any register's bits are in EFLAGS then (VM, NT, DF), and with the next interrupt the kernel's
// allocator of memory ends in a double fault, or jumps nowhere, once in some hours. It does without where
// there is no CX16, which is bit 141. (Open MPI does not, so the processor must have it.)
inline constexpr char kernel_parameters_common[] = "console=ttyS0 loglevel=5 panic=-1 clearcpuid=141 ";

// Covered by the mutex of the node that it runs on.
struct JobState {
	std::uint32_t id = 0;
	std::string command;
	std::string output;
	std::string threads; // where they are, if asked for
	bool ended = false;
	bool lost = false; // its node has died
	int status = 0;
	Clock::time_point begin, end;
};

class Node : public std::enable_shared_from_this<Node>
{
public:
	Node(int number, const Options &options, Kernel kernel, Wire &wire);
	~Node();

	void launch();
	void wait_ready();
	void crash();
	bool alive();

	Job start(const std::string &command, Terminal terminal);
	Result run(const std::string &command, Duration limit);
	std::string run_ok(const std::string &command, Duration limit);

	void set_link(bool up);
	std::string console();
	std::string check();

private:
	friend class Job;

	File make_initramfs() const;
	void listen();
	void receive(const protocol::Frame &frame);
	void hear_console(std::string_view bytes);
	void send(protocol::Type type, std::uint32_t job, std::string_view payload);
	std::string whereabouts(JobState &job);
	std::string last_words(); // mutex_ held
	void end_life(const char *note);

	// Waits under the lock until condition() holds; false when the limit is over.
	template<typename Condition>
	bool wait(std::unique_lock<std::mutex> &lock, Duration limit, Condition condition)
	{
		const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(limit);
		return changed_.wait_until(lock, deadline, condition);
	}

	const int number_;
	const Options options_;
	const Kernel kernel_;
	Wire &wire_;

	// Touched only while no reader runs: at launch and after its end.
	Child emulator_;
	File console_socket_, agent_socket_, monitor_socket_, errors_, stop_;
	File console_log_;
	std::thread reader_;

	std::mutex send_mutex_; // keeps frames to the agent whole
	std::mutex mutex_;      // covers all that follows
	std::condition_variable changed_;
	bool launched_ = false;
	bool ready_ = false;
	bool ending_ = false; // the lab itself puts an end to it
	bool died_ = false;   // without being asked to, and not yet reported
	protocol::Decoder decoder_;
	std::map<std::uint32_t, std::shared_ptr<JobState>> jobs_;
	std::uint32_t next_job_ = 1;
	std::string console_;
	std::size_t checked_ = 0; // how much of the console check() has seen
	unsigned checks_ = 0;
};

} // namespace lab
