// SPDX-License-Identifier: GPL-2.0-only
//
// What scenes are played on (steps.cpp, behind.cpp, streams.cpp): the module on some nodes of the simulated
// world, and on each of them a process with an endpoint, a ring and some memory. In the end all is closed,
// and nothing may be left.

#pragma once

#include "apart.hpp"

#include "adapter.hpp"
#include "look.h"
#include "process.h"

#include <memory>
#include <vector>

#include <sys/mman.h>

namespace sim
{

constexpr u64 us = 1000;
constexpr u64 ms = 1000 * us;
constexpr u64 second = 1000 * ms;

struct Process {
	explicit Process(u64 bytes) :
		memory_bytes(bytes), memory(static_cast<u8 *>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
					     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)))
	{
		/* All of it is written: a page fault for each small page costs more than that. */
		madvise(memory, bytes, MADV_HUGEPAGE);
	}
	Process(const Process &) = delete;
	Process &operator=(const Process &) = delete;
	~Process()
	{
		munmap(memory, memory_bytes);
	}

	sim_task task{};
	mm_struct mm{};
	ibr_endpoint *endpoint = nullptr;
	ibrelk_ring_header *ring = nullptr;
	int fd = -1;
	u32 peer = 0;
	const u64 memory_bytes;
	u8 *const memory;
	u32 outstanding = 0; // commands that are not complete, if the scene counts them
	bool dead = false;
};

// What an endpoint is made with; 0: the module's default.
struct Shape {
	u32 mode = 0;
	u32 entries = 64; // of the ring
	u32 sends = 0;
	u32 recvs = 0;
	u64 unexpected = 0;
};

// @Actor: a Process, and what else a scene wants to know of it.
template<typename Actor>
class Stage
{
public:
	static constexpr u32 nobody = ~0u;

	Stage(u32 nodes, u64 seed) : actors_(nodes)
	{
		sim_seed(seed);
		as(SIM_ADMIN, 0, [] { sim_module_load(); });
		for (u32 node = 0; node < nodes; node++)
			as(SIM_ADMIN, node, [node] { sim_node_start(node); });
	}
	virtual ~Stage() = default;

	Actor &at(u32 node)
	{
		return *actors_[node];
	}
	[[nodiscard]] const Actor &at(u32 node) const
	{
		return *actors_[node];
	}
	[[nodiscard]] u32 nodes() const
	{
		return static_cast<u32>(actors_.size());
	}

	// On behalf of a node, and of its process once that is there.
	template<typename Function>
	void as(sim_context context, u32 node, Function function)
	{
		sim_enter(context, node, 0);
		if (actors_[node])
			sim_current = &at(node).task;
		function();
		sim_leave();
	}

	// A process ends, with what it has under way: its memory first, then its descriptors.
	void die(u32 node)
	{
		Actor &actor = at(node);

		actor.dead = true;
		as(SIM_PROCESS, node, [&] {
			sim_mm_end(&actor.mm);
			sim_endpoint_close(actor.endpoint);
			sim_fd_close(actor.fd);
		});
	}

	// Everything is closed, and nothing may be left, neither while the module is there nor when it is
	// gone.
	void end()
	{
		for (u32 node = 0; node < nodes(); node++)
			if (!at(node).dead)
				die(node);
		pass(12 * second);
		for (const auto &actor : all_)
			if (const u64 pages = sim_pages_pinned(&actor->mm))
				sim_fail("left", "%llu pages are pinned for a process that is gone", pages);
		sim_look_idle();
		sim_check_all();
		for (u32 node = 0; node < nodes(); node++)
			as(SIM_ADMIN, node, [node] { sim_node_stop(node); });
		pass(100 * ms);
		as(SIM_ADMIN, 0, [] { sim_module_unload(); });
		sim_run(sim_now() + 100 * ms);
		sim_rcu_flush();
		if (adapter_left() || sim_cm_left())
			sim_fail("leak", "%zu queue pairs and %llu conversations are left", adapter_left(),
				sim_cm_left());
		all_.clear();
		sim_alloc_check();
	}

protected:
	// A process of @node, in the place of one that is dead; the endpoint of each node is number 100 +
	// node, and this one knows that of @peer.
	Actor &open(u32 node, u64 memory_bytes, const Shape &shape, u32 peer = nobody)
	{
		all_.push_back(std::make_unique<Actor>(memory_bytes));
		actors_[node] = all_.back().get();
		Actor &actor = at(node);

		actor.task = {&actor.mm, nullptr, 1000 + node, 100, 1ul << 30, 0, 0, 0};
		actor.mm.users = 1;
		as(SIM_PROCESS, node, [&] {
			ibrelk_endpoint_create create{};
			ibrelk_addr other{};

			sim_alloc_calm++;
			actor.fd = sim_ring_create(shape.entries, &actor.ring);
			create.mode = shape.mode;
			create.send_ring = create.recv_ring = actor.fd;
			create.sends = shape.sends;
			create.recvs = shape.recvs;
			create.unexpected_bytes = shape.unexpected;
			sim_gid(node, false, create.local.gid);
			create.local.endpoint = 100 + node;
			if (sim_endpoint_create(&create, &actor.endpoint))
				sim_fail("open", "an endpoint cannot be made");
			if (peer != nobody) {
				sim_gid(peer, false, other.gid);
				other.endpoint = 100 + peer;
				if (sim_peer_add(actor.endpoint, &other, &actor.peer))
					sim_fail("open", "a peer cannot be added");
			}
			sim_alloc_calm--;
		});
		return actor;
	}

	// Return: how many were accepted, 1 or 0, or negative errno.
	int submit(u32 node, const ibrelk_command &command)
	{
		int accepted = 0;

		as(SIM_PROCESS, node, [&] { accepted = sim_submit(at(node).endpoint, &command, 1); });
		return accepted;
	}

	// What has come to the ring of a node's process.
	template<typename Done>
	void reap(u32 node, Done done)
	{
		auto *ring = at(node).ring;
		const auto *entries = reinterpret_cast<const ibrelk_completion *>(
			reinterpret_cast<const u8 *>(ring) + ring->entries_offset);

		for (; ring->head != ring->tail; ring->head++)
			done(entries[ring->head & (ring->entries - 1)]);
	}

	// Time goes on.
	virtual void pass(u64 ns)
	{
		sim_run(sim_now() + ns);
	}

	// All that there ever were, and the one of each node.
	std::vector<std::unique_ptr<Actor>> all_;

private:
	std::vector<Actor *> actors_;
};

} // namespace sim
