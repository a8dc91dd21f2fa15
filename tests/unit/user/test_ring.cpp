// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// user/lib/ring.cpp: consuming a ring in a memfd whose kernel side this test plays itself, and one of the
// fake device.
#include <cerrno>
#include <cstddef>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

#include <ibrelk/ibrelk.hpp>

#include "fake_kernel.hpp"
#include "ring.hpp"

namespace
{

// The producer of a ring in a memfd.
struct Memory {
	explicit Memory(std::uint32_t entries, std::uint32_t start = 0) :
		bytes(4096 + entries * sizeof(ibrelk_completion)), mask(entries - 1), tail(start)
	{
		fd = ::memfd_create("ring", MFD_CLOEXEC);
		EXPECT_EQ(::ftruncate(fd, static_cast<off_t>(bytes)), 0);
		base = static_cast<std::byte *>(
			::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
		header = reinterpret_cast<ibrelk_ring_header *>(base);
		header->entries = entries;
		header->entries_offset = 4096;
		header->head = header->tail = start;
	}
	Memory(const Memory &) = delete;
	~Memory()
	{
		::munmap(base, bytes);
		::close(fd);
	}
	void produce(std::uint64_t user_data)
	{
		ibrelk_completion completion{};

		completion.user_data = user_data;
		reinterpret_cast<ibrelk_completion *>(base + 4096)[tail & mask] = completion;
		__atomic_store_n(&header->tail, ++tail, __ATOMIC_RELEASE);
	}
	ibrelk_ring *map()
	{
		ibrelk_ring *ring = nullptr;

		EXPECT_EQ(ibrelk::ring_map(::dup(fd), bytes, &ring), 0);
		return ring;
	}

	std::size_t bytes;
	std::uint32_t mask;
	std::uint32_t tail;
	int fd = -1;
	std::byte *base = nullptr;
	ibrelk_ring_header *header = nullptr;
};

// The descriptor is not one of the fake's, which therefore does not close it.
void destroy(ibrelk_ring *ring)
{
	int fd = ring->fd;

	ibrelk_ring_close(ring);
	::close(fd);
}

} // namespace

TEST(ring_map, mapping_must_make_sense)
{
	ibrelk_ring *ring = nullptr;
	Memory memory(8);

	EXPECT_EQ(ibrelk::ring_map(memory.fd, 64, &ring), -EPROTO);
	EXPECT_EQ(ibrelk::ring_map(memory.fd, 4096, &ring), -EPROTO); // entries lie outside
	memory.header->entries = 7;
	EXPECT_EQ(ibrelk::ring_map(memory.fd, memory.bytes, &ring), -EPROTO);
	memory.header->entries = 0;
	EXPECT_EQ(ibrelk::ring_map(memory.fd, memory.bytes, &ring), -EPROTO);
	memory.header->entries = 1u << 31;
	EXPECT_EQ(ibrelk::ring_map(memory.fd, memory.bytes, &ring), -EPROTO);
	memory.header->entries = 8;
	memory.header->entries_offset = 8;
	EXPECT_EQ(ibrelk::ring_map(memory.fd, memory.bytes, &ring), -EPROTO);
	memory.header->entries_offset = 0xfffffff8;
	EXPECT_EQ(ibrelk::ring_map(memory.fd, memory.bytes, &ring), -EPROTO);
	EXPECT_EQ(ibrelk::ring_map(-1, memory.bytes, &ring), -EBADF);
	EXPECT_EQ(ring, nullptr);
}

TEST(ring_peek, empty)
{
	Memory memory(8);
	ibrelk_ring *ring = memory.map();
	std::uint32_t count = 99;

	EXPECT_EQ(ibrelk_ring_peek(ring, &count), nullptr);
	EXPECT_EQ(count, 0u);
	EXPECT_EQ(ibrelk_ring_entries(ring), 8u);
	destroy(ring);
}

// Start values near the wrap of the 32 bit counters and of the ring itself.
TEST(ring_peek, wraps_around)
{
	for (std::uint32_t start : {0u, 5u, 0xfffffffdu}) {
		Memory memory(8, start);
		ibrelk_ring *ring = memory.map();
		std::uint64_t next = 0;

		for (std::uint64_t i = 0; i < 6; i++)
			memory.produce(i);
		for (std::uint32_t count = 0; ibrelk_ring_peek(ring, &count);
			ibrelk_ring_advance(ring, count)) {
			const ibrelk_completion *first = ibrelk_ring_peek(ring, &count);

			for (std::uint32_t i = 0; i < count; i++)
				EXPECT_EQ(first[i].user_data, next++);
		}
		EXPECT_EQ(next, 6u);
		EXPECT_EQ(memory.header->head, start + 6);
		destroy(ring);
	}
}

TEST(ring_advance, no_further_than_what_is_there)
{
	Memory memory(8);
	ibrelk_ring *ring = memory.map();

	memory.produce(1);
	ibrelk_ring_advance(ring, 5);
	EXPECT_EQ(memory.header->head, 1u);
	destroy(ring);
}

// A module that has gone mad must not make us read beyond the mapping, nor user space that scribbles over
// head.
TEST(ring_peek, nonsense_in_the_shared_page)
{
	Memory memory(8);
	ibrelk_ring *ring = memory.map();
	std::uint32_t count = 0;

	memory.header->head = 12345;
	memory.header->entries = 1u << 30;
	memory.header->tail = 1000;
	EXPECT_NE(ibrelk_ring_peek(ring, &count), nullptr);
	EXPECT_LE(count, 8u);
	destroy(ring);
}

TEST(ring_poll, copies_across_the_wrap)
{
	Memory memory(4, 3);
	ibrelk_ring *ring = memory.map();
	ibrelk_completion completions[8];

	for (std::uint64_t i = 0; i < 4; i++)
		memory.produce(i);
	EXPECT_EQ(ibrelk_ring_poll(ring, completions, 3), 3u);
	EXPECT_EQ(completions[2].user_data, 2u);
	EXPECT_EQ(ibrelk_ring_poll(ring, completions, 8), 1u);
	EXPECT_EQ(completions[0].user_data, 3u);
	EXPECT_EQ(ibrelk_ring_poll(ring, completions, 8), 0u);
	EXPECT_EQ(ibrelk_ring_poll(ring, completions, 0), 0u);
	destroy(ring);
}

TEST(ring_poll, against_a_producing_thread)
{
	constexpr std::uint64_t total = 100'000;
	Memory memory(64);
	ibrelk_ring *ring = memory.map();
	std::uint64_t next = 0;

	std::thread producer([&] {
		for (std::uint64_t i = 0; i < total; i++) {
			while (memory.tail - __atomic_load_n(&memory.header->head, __ATOMIC_ACQUIRE) >
				memory.mask)
				std::this_thread::yield();
			memory.produce(i);
		}
	});

	while (next < total) {
		ibrelk_completion completions[16];
		std::uint32_t count = ibrelk_ring_poll(ring, completions, 16);

		if (!count)
			std::this_thread::yield();
		for (std::uint32_t i = 0; i < count; i++)
			ASSERT_EQ(completions[i].user_data, next++);
	}
	producer.join();
	destroy(ring);
}

TEST(ring_wait, no_system_call_when_enough_is_there)
{
	Memory memory(8);
	ibrelk_ring *ring = memory.map();
	ibrelk_wait_options wait{1, 0, IBRELK_NO_LIMIT, 0, 0};

	fake::reset();
	memory.produce(1);
	EXPECT_EQ(ibrelk_ring_wait_for(ring, &wait), 1);
	wait = {2, 0, 0, 0, 0};
	EXPECT_EQ(ibrelk_ring_wait_for(ring, &wait), 1);
	EXPECT_EQ(fake::calls().ring_wait, 0u);
	destroy(ring);
}

TEST(ring_wait, spins_until_time_is_up_or_something_comes)
{
	Memory memory(8);
	ibrelk_ring *ring = memory.map();
	ibrelk_wait_options wait{1, 0, 2'000'000, 2'000'000, 0};

	fake::reset();
	EXPECT_EQ(ibrelk_ring_wait_for(ring, &wait), 0);
	wait.timeout_ns = wait.spin_ns = IBRELK_NO_LIMIT;

	std::thread producer([&] {
		::usleep(10'000);
		memory.produce(1);
	});

	EXPECT_EQ(ibrelk_ring_wait_for(ring, &wait), 1);
	producer.join();
	EXPECT_EQ(fake::calls().ring_wait, 0u);
	destroy(ring);
}

TEST(ring_wait, wrong_options)
{
	Memory memory(8);
	ibrelk_ring *ring = memory.map();

	for (const ibrelk_wait_options &wait : {ibrelk_wait_options{0, 0, 0, 0, 0},
		     ibrelk_wait_options{9, 0, 0, 0, 0}, ibrelk_wait_options{1, 1, 0, 0, 0}})
		EXPECT_EQ(ibrelk_ring_wait_for(ring, &wait), -EINVAL);
	destroy(ring);
}

TEST(ring, overflow_is_fetched_when_the_ring_looks_empty)
{
	fake::reset();

	auto device = *ibrelk::Device::open();
	auto ring = *ibrelk::Ring::create(device, 4);
	auto endpoint = *ibrelk::Endpoint::create(device, ring);
	std::vector<ibrelk::Command> nops(10);

	for (std::uint64_t i = 0; i < nops.size(); i++)
		nops[i].user_data = i;
	EXPECT_EQ(*endpoint.submit(nops), 10u);

	std::uint64_t next = 0;

	EXPECT_EQ(ring.drain([&](const ibrelk::Completion &c) { EXPECT_EQ(c.user_data, next++); }), 10u);
	EXPECT_EQ(next, 10u);
	// Two more fetches, of four and of two; the third look finds no overflow.
	EXPECT_EQ(fake::calls().ring_wait, 2u);
	EXPECT_FALSE(ring.next());
}

TEST(ring, create_fails_cleanly)
{
	fake::reset();

	auto device = *ibrelk::Device::open();

	EXPECT_EQ(ibrelk::Ring::create(device, 0).error(), EINVAL);
	EXPECT_EQ(ibrelk::Ring::create(device, 1u << 20).error(), EINVAL);
	fake::behaviour().ring_map_bytes = 100;
	EXPECT_EQ(ibrelk::Ring::create(device, 8).error(), EPROTO);
	EXPECT_EQ(fake::calls().open_fds, 1u);
}

TEST(ring, wait_sleeps_in_the_kernel)
{
	fake::reset();

	auto device = *ibrelk::Device::open();
	auto ring = *ibrelk::Ring::create(device, 4);
	auto endpoint = *ibrelk::Endpoint::create(device, ring);

	EXPECT_EQ(*ring.wait(1, std::chrono::milliseconds(1)), 0u);

	std::thread other([&] {
		::usleep(5000);
		ibrelk::Command nop{};
		EXPECT_TRUE(endpoint.submit({&nop, 1}));
	});

	EXPECT_EQ(*ring.wait(), 1u);
	other.join();
	EXPECT_TRUE(ring.next());
}
