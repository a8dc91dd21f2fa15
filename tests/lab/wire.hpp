// SPDX-License-Identifier: GPL-2.0-only
//
// The Ethernet between the nodes of a lab.

#pragma once

#include "process.hpp"

#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace lab
{

// Two nodes are joined directly, by a pair of sockets, one in each emulator;
// more are joined by a switch, a thread that forwards frames. The thread also
// swallows what is sent to a node that is down, so that neither does a sender
// get stuck on it nor a node come back to frames meant for its former life.
class Wire
{
public:
	explicit Wire(int nodes);
	~Wire();
	Wire(const Wire &) = delete;
	Wire &operator=(const Wire &) = delete;

	static std::string mac(int node);

	// Nodes count from 1. The descriptor is for the node's emulator.
	[[nodiscard]] int descriptor(int node) const
	{
		return ports_[index(node)].inner.fd();
	}
	void connect(int node);
	void disconnect(int node);

private:
	struct Port {
		File inner; // the emulator's end
		File outer; // the switch's end, if there is one
		bool up = false;
		std::deque<std::string> queue; // for the emulator, when it is slow
	};

	static std::size_t index(int node)
	{
		return static_cast<std::size_t>(node - 1);
	}
	void wake() const;
	void work();
	void forward(std::size_t from, const std::string &frame);
	void flush(Port &port);

	std::mutex mutex_; // covers the ports' state and queues
	std::vector<Port> ports_;
	bool switched_;
	bool stop_ = false;
	File wake_;
	std::thread thread_;
};

} // namespace lab
