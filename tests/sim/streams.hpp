// SPDX-License-Identifier: GPL-2.0-only
//
// Scenes of streams: senders, each on a node of its own, and one receiver that all of them write to.

#ifndef IBRELK_SIM_STREAMS_HPP
#define IBRELK_SIM_STREAMS_HPP

#include "scene.hpp"

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

namespace streams
{

using sim::ms;
using sim::second;
using sim::us;

inline constexpr u64 memory_bytes = 256 << 10;
inline constexpr u32 receiver = 0;

inline constexpr struct Mode {
	const char *name;
	u32 id;
} modes[] = {{"ud", IBRELK_MODE_UD_RELIABLE}, {"uc", IBRELK_MODE_UC_RELIABLE}};

struct Shape {
	u32 mode = IBRELK_MODE_UD_RELIABLE;
	u32 senders = 1;
	u64 bytes = 4096; // of a message
	u32 level = IBRELK_LEVEL_BUFFERED;
	u32 depth = 256;       // messages that each sender has under way
	u32 spare = 0;         // ... of which so many more may be that are complete, and not acknowledged
	u32 receives = 8192;   // posted at a time
	u64 unexpected = 0;    // memory of the receiver for messages that nobody has asked for; 0: default
	u64 step_ns = 20 * us; // between two looks of an application at its ring
	bool apart = false;    // each message has memory of its own, and none comes after the first @depth
};

// A receiver on node 0, and senders on the nodes behind it. A message has its sender's node for a tag.
class Scene : public sim::Stage<sim::Process>
{
public:
	explicit Scene(const Shape &shape) :
		Stage(shape.senders + 1, 1), shape_(shape), received_(shape.senders + 1)
	{
		for (u32 node = 0; node < nodes(); node++)
			open(node, shape_.apart ? shape_.depth * shape_.bytes : memory_bytes,
				{.mode = shape_.mode,
					.entries = 16384,
					.sends = shape_.depth + shape_.spare,
					.recvs = 8192,
					.unexpected = shape_.unexpected},
				node == receiver ? nobody : receiver);
		receives(shape_.receives);
	}

	// Time goes on by @ns. Each process looks around once in a step, and before that, @first is done.
	void run(u64 ns, const std::function<void()> &first = nullptr, u64 step_ns = 0)
	{
		for (const u64 end = sim_now() + ns; sim_now() < end;) {
			sim_run(std::min(end, sim_now() + (step_ns ? step_ns : shape_.step_ns)));
			if (first)
				first();
			for (u32 node = 0; node < nodes(); node++)
				if (!(stands & 1ull << node))
					step(node);
			sim_check_all();
		}
	}

	// Until @done, which must not take longer than @limit_ns.
	template<typename Done>
	void until(const char *what, u64 limit_ns, Done done)
	{
		for (const u64 end = sim_now() + limit_ns; !done(); run(shape_.step_ns))
			if (sim_now() >= end)
				sim_fail("streams", "%s: not within %llu us", what, limit_ns / us);
	}

	void receives(u64 more)
	{
		allowed_ += more;
	}

	[[nodiscard]] u64 received(u32 sender) const
	{
		return received_[sender];
	}

	[[nodiscard]] u64 received_all() const
	{
		u64 sum = 0;
		for (const u64 count : received_)
			sum += count;
		return sum;
	}

	[[nodiscard]] u64 sent() const
	{
		return sent_;
	}

	[[nodiscard]] sim_look look(u32 from, u32 to) const
	{
		sim_look seen;
		sim_look_at(from, to, shape_.mode, &seen);
		return seen;
	}

	// A sender has a message for an endpoint that the receiver's node does not have. Return: as submit().
	int knock_at(u32 sender, u32 number)
	{
		ibrelk_addr other{};
		ibrelk_command command{};

		sim_gid(receiver, false, other.gid);
		other.endpoint = number;
		command.opcode = IBRELK_OP_SEND;
		command.user_data = nobody_there;
		as(SIM_PROCESS, sender, [&] {
			if (sim_peer_add(at(sender).endpoint, &other, &command.peer))
				sim_fail("knock", "a peer cannot be added");
		});
		const int accepted = submit(sender, command);
		at(sender).outstanding += accepted == 1;
		return accepted;
	}

	void knock(u32 sender, u32 count)
	{
		for (u32 i = 0; i < count; i++)
			if (knock_at(sender, 1000 + i) != 1)
				sim_fail("knock", "a message is not accepted");
	}

	// One more message, of another length.
	void send_one(u32 sender, u64 bytes)
	{
		if (!post(sender, bytes))
			sim_fail("send", "a message is not accepted");
		sent_++;
	}

	// How many of those that knock() sent were refused.
	[[nodiscard]] u64 refused() const
	{
		return refused_;
	}

	// @count messages in one call.
	void send_batch(u32 sender, u32 count)
	{
		ibrelk_command command{};

		command.opcode = IBRELK_OP_SEND;
		command.level = shape_.level;
		command.peer = at(sender).peer;
		command.addr = reinterpret_cast<u64>(at(sender).memory);
		command.length = shape_.bytes;
		command.tag = sender;
		const std::vector<ibrelk_command> commands(count, command);
		as(SIM_PROCESS, sender, [&] {
			if (sim_submit(at(sender).endpoint, commands.data(), count) !=
				static_cast<int>(count))
				sim_fail("batch", "not all of it is accepted");
		});
		at(sender).outstanding += count;
		sent_ += count;
	}

	// Add an endpoint of node 0 to those that a process knows. Return: 0 or negative errno.
	int know(u32 node, u32 number, u32 generation, u32 &handle)
	{
		ibrelk_addr other{};
		int ret = 0;

		sim_gid(receiver, false, other.gid);
		other.endpoint = number;
		other.generation = generation;
		as(SIM_PROCESS, node, [&] { ret = sim_peer_add(at(node).endpoint, &other, &handle); });
		return ret;
	}

	// What a sender is told when it begins with one more endpoint of the receiver's process.
	int begin(u32 sender, u32 number)
	{
		ibrelk_endpoint_create create{};
		ibr_endpoint *endpoint = nullptr;
		ibrelk_addr other{};
		ibrelk_command command{};
		int status = 1;

		create.mode = shape_.mode;
		create.send_ring = create.recv_ring = at(receiver).fd;
		create.local.endpoint = other.endpoint = number;
		sim_gid(receiver, false, other.gid);
		as(SIM_PROCESS, receiver, [&] {
			if (sim_endpoint_create(&create, &endpoint))
				sim_fail("open", "an endpoint cannot be made");
		});
		as(SIM_PROCESS, sender, [&] {
			if (sim_peer_add(at(sender).endpoint, &other, &command.peer))
				sim_fail("open", "a peer cannot be added");
		});
		command.opcode = IBRELK_OP_SEND;
		if (submit(sender, command) != 1)
			sim_fail("begin", "a message is not accepted");
		sim_run(sim_now() + 10 * ms);
		reap(sender, [&](const ibrelk_completion &completion) { status = completion.status; });
		as(SIM_PROCESS, receiver, [&] { sim_endpoint_close(endpoint); });
		return status;
	}

	// Another endpoint of the receiver's process, for which it asks for no number. Closed at once.
	u32 numbered()
	{
		ibrelk_endpoint_create create{};
		ibr_endpoint *endpoint = nullptr;

		create.mode = shape_.mode;
		create.send_ring = create.recv_ring = at(receiver).fd;
		sim_gid(receiver, false, create.local.gid);
		as(SIM_PROCESS, receiver, [&] {
			if (sim_endpoint_create(&create, &endpoint))
				sim_fail("open", "an endpoint cannot be made");
			sim_endpoint_close(endpoint);
		});
		return create.local.endpoint;
	}

	u64 sends = 0;  // bits of the nodes that send
	u64 stands = 0; // bits of the nodes whose process does nothing
	bool refills = true;

private:
	void step(u32 node)
	{
		look_around(node);
		if (node == receiver)
			while (allowed_ && post(node, shape_.bytes))
				allowed_--;
		else
			while (sends & 1ull << node && at(node).outstanding < shape_.depth &&
				post(node, shape_.bytes))
				sent_++;
	}

	bool post(u32 node, u64 bytes)
	{
		sim::Process &process = at(node);
		ibrelk_command command{};

		command.opcode = node == receiver ? IBRELK_OP_RECV : IBRELK_OP_SEND;
		command.level = node == receiver ? 0 : shape_.level;
		command.peer = node == receiver ? IBRELK_PEER_ANY : process.peer;
		command.addr = reinterpret_cast<u64>(process.memory) +
			(shape_.apart ? process.outstanding * shape_.bytes : 0);
		command.length = node == receiver ? std::max<u64>(bytes, 256) : bytes; // send_one()
		command.tag = node;
		command.ignore = node == receiver ? ~0ull : 0;
		const bool accepted = submit(node, command) == 1;
		process.outstanding += accepted;
		return accepted;
	}

	void look_around(u32 node)
	{
		reap(node, [&](const ibrelk_completion &completion) {
			const bool refused = completion.user_data == nobody_there;

			refused_ += refused;
			if (completion.status != (refused ? -ECONNREFUSED : 0))
				sim_fail("status", "the process of node %u is told %d", node,
					completion.status);
			at(node).outstanding--;
			if (node == receiver) {
				received_[completion.tag]++;
				allowed_ += refills;
			}
		});
	}

	Shape shape_;
	std::vector<u64> received_;
	u64 allowed_ = 0; // receives that are still to be posted
	u64 sent_ = 0;
	u64 refused_ = 0;
	static constexpr u64 nobody_there = 1; // user data of what is sent to nobody
};

inline u64 all(u32 senders)
{
	return ((1ull << senders) - 1) << 1;
}

// A round trip of 1 ms, so that what the receiver grants is what there is: not the wire, nor the adapter.
inline struct sim_config distant()
{
	auto config = sim::config_usual();

	config.memlock_kib = 1 << 20;
	config.delay_ns = 500 * us;
	return config;
}

// Some messages arrive, and then nothing is under way.
inline void begin(Scene &scene, u32 sender)
{
	scene.sends = 1ull << sender;
	scene.until("some arrive", second, [&] { return scene.received(sender) > 100; });
	scene.sends = 0;
	scene.until("all arrive", second, [&] { return scene.received(sender) == scene.sent(); });
	scene.run(10 * ms);
}

struct Test {
	std::string name;
	struct sim_config config;
	std::function<void()> body;
};

// What streams.cpp plays besides its own scenes.
void coalesced_tests(std::vector<Test> &tests);
void datagrams_tests(std::vector<Test> &tests);
void talks_tests(std::vector<Test> &tests);

} // namespace streams

#endif
