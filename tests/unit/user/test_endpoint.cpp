// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// user/lib/device.cpp and endpoint.cpp, and the C++ face over them, on a device that lives in this process.
#include <array>
#include <cerrno>
#include <cstdlib>
#include <thread>
#include <type_traits>
#include <unistd.h>

#include <gtest/gtest.h>

#include <ibrelk/ibrelk.hpp>

#include "fake_kernel.hpp"

using namespace std::chrono_literals;

static_assert(std::is_nothrow_move_constructible_v<ibrelk::Device> &&
	!std::is_copy_constructible_v<ibrelk::Device>);
static_assert(
	std::is_nothrow_move_constructible_v<ibrelk::Ring> && !std::is_copy_constructible_v<ibrelk::Ring>);
static_assert(std::is_nothrow_move_constructible_v<ibrelk::Endpoint> &&
	!std::is_copy_constructible_v<ibrelk::Endpoint>);

namespace
{

class EndpointTest : public testing::Test
{
protected:
	void SetUp() override
	{
		fake::reset();
		::unsetenv("IBRELK_DOOR");
		device.emplace(*ibrelk::Device::open());
		ring.emplace(*ibrelk::Ring::create(*device, 256));
	}
	void TearDown() override
	{
		ring.reset();
		device.reset();
		EXPECT_EQ(fake::calls().open_fds, 0u);
	}

	std::optional<ibrelk::Device> device;
	std::optional<ibrelk::Ring> ring;
};

} // namespace

TEST(device, open_fails)
{
	fake::reset();
	fake::behaviour().open_error = EACCES;
	EXPECT_EQ(ibrelk::Device::open().error(), EACCES);
	fake::behaviour().open_error = 0;
	EXPECT_EQ(ibrelk::Device::open("/dev/other").error(), ENOENT);
	fake::behaviour().abi_version = 2;
	EXPECT_EQ(ibrelk::Device::open().error(), EPROTO);
	EXPECT_EQ(fake::calls().open_fds, 0u);
}

TEST_F(EndpointTest, regions_are_descriptors)
{
	std::array<std::byte, 100> memory{};
	const auto before = fake::calls().open_fds;
	{
		auto writable = ibrelk::Region::to_receive(*device, memory);
		auto readable = ibrelk::Region::to_send(*device, memory);

		ASSERT_TRUE(writable && readable);
		EXPECT_EQ(fake::calls().open_fds, before + 2);
	}
	EXPECT_EQ(fake::calls().open_fds, before);
	EXPECT_EQ(ibrelk::Region::to_send(*device, {}).error(), EINVAL);

	::ibrelk_region *region = nullptr;

	EXPECT_EQ(ibrelk_region_open(device->handle(), memory.data(), memory.size(), 8, &region), -EINVAL);
	EXPECT_EQ(region, nullptr);
	ibrelk_region_close(nullptr);
}

TEST_F(EndpointTest, put__reaches_the_region_of_its_key)
{
	auto endpoint = *ibrelk::Endpoint::create(*device, *ring);
	const auto self = *endpoint.peer_add(endpoint.address());
	std::array<std::byte, 100> memory{};
	const std::array<std::byte, 3> data{std::byte{1}, std::byte{2}, std::byte{3}};
	const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
	auto plain = ibrelk::Region::to_receive(*device, memory);
	auto first = ibrelk::Region::to_put(*device, memory);
	auto second = ibrelk::Region::to_put(*device, std::span(memory).first(10));

	ASSERT_TRUE(plain && first && second);
	EXPECT_EQ(plain->key(), 0u);
	EXPECT_NE(first->key(), 0u);
	EXPECT_NE(first->key(), second->key());

	const auto put = [&](std::uint64_t to, std::uint64_t key) {
		EXPECT_TRUE(endpoint.put(self, data, to, key, 77));

		const auto completion = ring->next();

		EXPECT_TRUE(completion);
		EXPECT_EQ(completion->opcode, IBRELK_OP_PUT);
		EXPECT_EQ(completion->user_data, 77u);
		EXPECT_EQ(completion->length, data.size());
		return completion->status;
	};
	EXPECT_EQ(put(address + 97, first->key()), 0);
	EXPECT_EQ(memory[96], std::byte{0});
	EXPECT_EQ(memory[97], std::byte{1});
	EXPECT_EQ(memory[99], std::byte{3});
	EXPECT_EQ(put(address + 98, first->key()), -EFAULT);
	EXPECT_EQ(put(address + 8, second->key()), -EFAULT);
	EXPECT_EQ(put(address, first->key() + 100), -EACCES);
	EXPECT_EQ(put(address, plain->key()), -EACCES);
}

TEST_F(EndpointTest, put__ends_with_its_region)
{
	auto endpoint = *ibrelk::Endpoint::create(*device, *ring);
	const auto self = *endpoint.peer_add(endpoint.address());
	std::array<std::byte, 8> memory{};
	const std::byte data{5};
	const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
	::ibrelk_region *region = nullptr;

	EXPECT_EQ(ibrelk_region_open(device->handle(), memory.data(), memory.size(),
			  IBRELK_REGION_REMOTE_WRITE, &region),
		-EINVAL);
	ASSERT_EQ(ibrelk_region_open(device->handle(), memory.data(), memory.size(),
			  IBRELK_REGION_WRITE | IBRELK_REGION_REMOTE_WRITE, &region),
		0);

	const auto key = ibrelk_region_key(region);
	const auto put = [&](std::uint64_t bytes) {
		EXPECT_EQ(ibrelk_endpoint_put(endpoint.handle(), self, &data, bytes, address, key, 0), 0);
		return ring->next().value().status;
	};
	EXPECT_EQ(ibrelk_endpoint_put(endpoint.handle(), self + 1, &data, 1, address, key, 0), -ENOENT);
	EXPECT_FALSE(ring->next());
	EXPECT_EQ(put(0), 0);
	EXPECT_EQ(memory[0], std::byte{0});
	EXPECT_EQ(put(1), 0);
	EXPECT_EQ(memory[0], data);
	memory[0] = std::byte{0};
	ibrelk_region_close(region);
	EXPECT_EQ(put(0), -EACCES);
	EXPECT_EQ(put(1), -EACCES);
	EXPECT_EQ(memory[0], std::byte{0});
}

TEST(commands, put__says_where)
{
	const std::byte data[3]{};
	const auto put = ibrelk_command_put(7, data, 3, 0x123456789abcdef0, 0xfedcba9876543210, 77);
	ibrelk_command expected{};

	expected.opcode = IBRELK_OP_PUT;
	expected.peer = 7;
	expected.user_data = 77;
	expected.addr = reinterpret_cast<std::uintptr_t>(data);
	expected.length = 3;
	expected.remote_addr = 0x123456789abcdef0;
	expected.remote_key = 0xfedcba9876543210;
	EXPECT_EQ(std::memcmp(&put, &expected, sizeof(put)), 0);
}

TEST_F(EndpointTest, get__reads_the_region_of_its_key)
{
	auto endpoint = *ibrelk::Endpoint::create(*device, *ring);
	const auto self = *endpoint.peer_add(endpoint.address());
	std::array<std::byte, 100> memory{};
	std::array<std::byte, 3> back{};
	const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
	auto writable = ibrelk::Region::to_put(*device, memory);
	auto readable = ibrelk::Region::to_get(*device, memory);
	auto shared = ibrelk::Region::to_share(*device, memory);

	ASSERT_TRUE(writable && readable && shared);

	const auto get = [&](std::uint64_t from, std::uint64_t key) {
		EXPECT_TRUE(endpoint.get(self, back, from, key, 78));

		const auto completion = ring->next();

		EXPECT_TRUE(completion);
		EXPECT_EQ(completion->opcode, IBRELK_OP_GET);
		EXPECT_EQ(completion->user_data, 78u);
		return completion->status;
	};
	memory[98] = std::byte{7};
	EXPECT_EQ(get(address + 97, readable->key()), 0);
	EXPECT_EQ(back[1], std::byte{7});
	EXPECT_EQ(get(address + 98, readable->key()), -EFAULT);
	EXPECT_EQ(get(address, writable->key()), -EACCES);
	EXPECT_EQ(get(address + 96, shared->key()), 0);
	EXPECT_EQ(back[2], std::byte{7});
	EXPECT_TRUE(endpoint.put(self, back, address, readable->key()));
	EXPECT_EQ(ring->next()->status, -EACCES);
	EXPECT_TRUE(endpoint.put(self, back, address, shared->key()));
	EXPECT_EQ(ring->next()->status, 0);
	EXPECT_EQ(memory[2], std::byte{7});
}

TEST(commands, atomic__says_what)
{
	const std::byte operand[8]{}, compare[8]{};
	std::byte before[8];
	const auto atomic = ibrelk_command_atomic(7, IBRELK_ATOMIC(IBRELK_ATOMIC_CSWAP, IBRELK_ATOMIC_S64),
		operand, compare, before, 8, 0x123456789abcdef0, 0xfedcba9876543210, 77);
	ibrelk_command expected{};

	expected.opcode = IBRELK_OP_ATOMIC;
	expected.peer = 7;
	expected.user_data = 77;
	expected.addr = reinterpret_cast<std::uintptr_t>(operand);
	expected.length = 8;
	expected.tag = reinterpret_cast<std::uintptr_t>(before);
	expected.ignore = reinterpret_cast<std::uintptr_t>(compare);
	expected.messages = 13 | 3 << 16;
	expected.remote_addr = 0x123456789abcdef0;
	expected.remote_key = 0xfedcba9876543210;
	EXPECT_EQ(std::memcmp(&atomic, &expected, sizeof(atomic)), 0);
}

TEST_F(EndpointTest, atomic__computes_in_the_region_of_its_key)
{
	auto endpoint = *ibrelk::Endpoint::create(*device, *ring);
	const auto self = *endpoint.peer_add(endpoint.address());
	std::array<std::uint64_t, 2> memory{40, 7};
	auto shared = ibrelk::Region::to_share(*device, std::as_writable_bytes(std::span(memory)));
	const std::uint64_t operand = 2;
	std::uint64_t before = 0;

	ASSERT_TRUE(shared);

	const auto sum = [&](std::uint32_t type, std::uint64_t key) {
		return endpoint.atomic(self, IBRELK_ATOMIC(IBRELK_ATOMIC_SUM, type), &operand, nullptr,
			&before, 8, reinterpret_cast<std::uintptr_t>(&memory[0]), key, 79);
	};
	ASSERT_TRUE(sum(IBRELK_ATOMIC_U64, shared->key()));

	const auto completion = ring->next();

	EXPECT_EQ(completion->opcode, IBRELK_OP_ATOMIC);
	EXPECT_EQ(completion->user_data, 79u);
	EXPECT_EQ(completion->status, 0);
	EXPECT_EQ(before, 40u);
	EXPECT_EQ(memory, (std::array<std::uint64_t, 2>{42, 7}));
	ASSERT_TRUE(sum(IBRELK_ATOMIC_U64, shared->key() + 1));
	EXPECT_EQ(ring->next()->status, -EACCES);
	EXPECT_EQ(sum(0, shared->key()).error(), EINVAL);
}

TEST_F(EndpointTest, device_dump__grows_until_all_fit)
{
	fake::behaviour().extra_endpoints = 100;
	EXPECT_EQ(device->dump<ibrelk_endpoint_info>()->size(), 100u);
	fake::behaviour().extra_endpoints = 0;
	EXPECT_TRUE(device->dump<ibrelk_endpoint_info>()->empty());
	EXPECT_EQ(device->dump<ibrelk_path_info>()->size(), 1u);
	EXPECT_EQ(device->query()->eager_max, 8192u);
}

TEST_F(EndpointTest, create__errors)
{
	ibrelk_endpoint_options options{};
	ibrelk_endpoint *endpoint = nullptr;

	EXPECT_EQ(ibrelk_endpoint_open(device->handle(), &options, &endpoint), -EINVAL); // no ring
	options.send_ring = ring->handle();
	options.reserved[2] = 1;
	EXPECT_EQ(ibrelk_endpoint_open(device->handle(), &options, &endpoint), -EINVAL);
	options.reserved[2] = 0;
	options.mode = IBRELK_MODE_COUNT;
	EXPECT_EQ(ibrelk_endpoint_open(device->handle(), &options, &endpoint), -EINVAL);
	fake::behaviour().endpoint_error = ENODEV;
	EXPECT_EQ(ibrelk::Endpoint::create(*device, *ring).error(), ENODEV);
	fake::behaviour().endpoint_error = 0;
	EXPECT_EQ(endpoint, nullptr);
	ibrelk_endpoint_close(nullptr);
}

TEST_F(EndpointTest, create__tells_address_and_mode)
{
	ibrelk::EndpointOptions options;

	options.local.set_endpoint(77);

	auto endpoint = *ibrelk::Endpoint::create(*device, *ring, options);

	EXPECT_EQ(endpoint.mode(), IBRELK_MODE_UC_RELIABLE);
	EXPECT_EQ(endpoint.address().endpoint(), 77u);
	EXPECT_NE(endpoint.address().generation(), 0u);
	EXPECT_EQ(ibrelk::Endpoint::create(*device, *ring, options).error(), EADDRINUSE);

	ibrelk::Endpoint moved = std::move(endpoint);

	EXPECT_EQ(moved.address().endpoint(), 77u);
}

TEST_F(EndpointTest, peers)
{
	auto endpoint = *ibrelk::Endpoint::create(*device, *ring);
	auto address = *ibrelk::Address::from_text("10.1.0.9:5");
	auto peer = *endpoint.peer_add(address);

	EXPECT_EQ(*endpoint.peer_add(address), peer);
	EXPECT_EQ(*endpoint.peer_query(peer), address);
	EXPECT_EQ(endpoint.peer_query(peer + 1).error(), ENOENT);
	address.set_endpoint(0);
	EXPECT_EQ(endpoint.peer_add(address).error(), EINVAL);
}

TEST_F(EndpointTest, send_recv_cancel)
{
	auto a = *ibrelk::Endpoint::create(*device, *ring);
	auto b = *ibrelk::Endpoint::create(*device, *ring);
	auto peer = *a.peer_add(b.address());
	std::array<std::byte, 8> in{};
	const std::array<std::byte, 4> out{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};

	EXPECT_TRUE(b.recv(ibrelk::any_peer, in, 7, 0, 100));
	EXPECT_TRUE(a.send(peer, out, 7, 200));

	int seen = 0;

	ring->drain([&](const ibrelk::Completion &c) {
		seen++;
		EXPECT_EQ(c.status, 0);
		EXPECT_EQ(c.length, 4u);
		EXPECT_EQ(c.tag, 7u);
		if (c.opcode == IBRELK_OP_RECV) {
			EXPECT_EQ(c.user_data, 100u);
			EXPECT_EQ(b.peer_query(c.peer)->endpoint(), a.address().endpoint());
		}
	});
	EXPECT_EQ(seen, 2);
	EXPECT_EQ(in[3], std::byte{4});

	EXPECT_TRUE(b.recv(ibrelk::any_peer, in, 8, 0, 101));
	EXPECT_TRUE(b.cancel(101, 300));
	EXPECT_EQ(ring->next()->status, -ECANCELED);

	auto cancelled = *ring->next();

	EXPECT_EQ(cancelled.user_data, 300u);
	EXPECT_EQ(cancelled.length, 1u);
	fake::behaviour().accept_max = 0;
	EXPECT_EQ(a.send(peer, out, 7).error(), EAGAIN);
	EXPECT_EQ(b.recv(ibrelk::any_peer, in, 8).error(), EAGAIN);
	EXPECT_EQ(a.send(9999, out, 7).error(), EAGAIN);
	fake::behaviour().accept_max = 10;
	EXPECT_EQ(a.send(9999, out, 7).error(), ENOENT);
}

TEST_F(EndpointTest, probe_claim_discard)
{
	auto a = *ibrelk::Endpoint::create(*device, *ring);
	auto b = *ibrelk::Endpoint::create(*device, *ring);
	auto peer = *a.peer_add(b.address());
	std::array<std::byte, 8> in{};
	const std::array<std::byte, 4> out{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};

	EXPECT_TRUE(b.probe(ibrelk::any_peer, 7, 0, 1));
	EXPECT_EQ(ring->next()->status, -ENOMSG);
	for (int i = 0; i < 2; i++) {
		EXPECT_TRUE(a.send(peer, out, 7));
		EXPECT_EQ(ring->next()->status, 0);
	}
	EXPECT_TRUE(b.probe(ibrelk::any_peer, 0, ~0ull, 2));

	auto found = *ring->next();

	EXPECT_EQ(found.opcode, IBRELK_OP_PROBE);
	EXPECT_EQ(found.user_data, 2u);
	EXPECT_EQ(found.status, 0);
	EXPECT_EQ(found.length, 4u);
	EXPECT_EQ(found.tag, 7u);
	EXPECT_EQ(found.claim, 0u);
	EXPECT_TRUE(b.claim(ibrelk::any_peer, 7, 0, 3));
	found = *ring->next();
	EXPECT_EQ(found.opcode, IBRELK_OP_CLAIM);
	ASSERT_NE(found.claim, 0u);
	EXPECT_TRUE(b.recv_claimed(found.claim, in, 4));

	auto received = *ring->next();

	EXPECT_EQ(received.user_data, 4u);
	EXPECT_EQ(received.tag, 7u);
	EXPECT_EQ(in[3], std::byte{4});
	EXPECT_EQ(b.recv_claimed(found.claim, in).error(), ENOENT);
	EXPECT_TRUE(b.claim(ibrelk::any_peer, 7));
	found = *ring->next();
	EXPECT_TRUE(b.discard(found.claim, 5));
	EXPECT_EQ(ring->next()->user_data, 5u);
	EXPECT_EQ(b.discard(found.claim).error(), ENOENT);
	fake::behaviour().accept_max = 0;
	EXPECT_EQ(b.probe(ibrelk::any_peer, 7).error(), EAGAIN);
}

TEST(command, pieces)
{
	const std::array<ibrelk_iovec, 2> pieces{{{1, 2}, {3, 4}}};
	const auto command = ibrelk_command_pieces(ibrelk_command_send(5, &pieces, 100, 7, 9), pieces.data(),
		static_cast<std::uint32_t>(pieces.size()));

	EXPECT_EQ(command.opcode, IBRELK_OP_SEND);
	EXPECT_EQ(command.flags, IBRELK_CMD_IOVEC);
	EXPECT_EQ(command.addr, reinterpret_cast<std::uintptr_t>(pieces.data()));
	EXPECT_EQ(command.length, 2u);
	EXPECT_EQ(command.tag, 7u);
}

TEST_F(EndpointTest, recv_multi)
{
	auto a = *ibrelk::Endpoint::create(*device, *ring);
	auto b = *ibrelk::Endpoint::create(*device, *ring);
	auto peer = *a.peer_add(b.address());
	std::array<std::byte, 64> in{};
	const std::array<std::byte, 5> out{
		std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}, std::byte{5}};

	EXPECT_TRUE(b.recv_multi(ibrelk::any_peer, in, 10, 7, 0, 100, 50));
	for (std::uint64_t i = 0; i < 2; i++) {
		EXPECT_TRUE(a.send(peer, out, 7));

		auto received = *ring->next();

		EXPECT_EQ(received.opcode, IBRELK_OP_RECV_MULTI);
		EXPECT_EQ(received.user_data, 100u);
		EXPECT_EQ(received.offset, 8 * i);
		EXPECT_EQ(received.length, 5u);
		EXPECT_EQ(in[8 * i + 4], std::byte{5});
		if (i) {
			auto released = *ring->next();

			EXPECT_EQ(released.flags, IBRELK_CQE_RELEASED);
			EXPECT_EQ(released.length, 2u);
			EXPECT_EQ(released.offset, 16u);
		}
		EXPECT_EQ(ring->next()->opcode, IBRELK_OP_SEND);
	}
	EXPECT_FALSE(ring->next());
	fake::behaviour().accept_max = 0;
	EXPECT_EQ(b.recv_multi(ibrelk::any_peer, in, 10, 7).error(), EAGAIN);
}

TEST_F(EndpointTest, submit_all__takes_completions_to_make_room)
{
	fake::behaviour().sends_max = 4;
	fake::behaviour().hold_sends = true;

	auto a = *ibrelk::Endpoint::create(*device, *ring);
	auto b = *ibrelk::Endpoint::create(*device, *ring);
	auto peer = *a.peer_add(b.address());
	std::vector<ibrelk::Command> sends(200, ibrelk_command_send(peer, nullptr, 0, 1, 0));
	std::uint32_t completed = 0;
	std::atomic<bool> stop{false};

	std::thread wire([&] {
		while (!stop) {
			fake::release_sends(3);
			::usleep(100);
		}
	});

	auto accepted = a.submit_all(
		sends, *ring, [&](const ibrelk::Completion &) { completed++; }, 30s);

	stop = true;
	wire.join();
	ASSERT_TRUE(accepted);
	EXPECT_EQ(*accepted, 200u);
	EXPECT_GE(completed, 180u);
	ring->drain([](const auto &) {});
}

TEST_F(EndpointTest, submit_all__time_runs_out)
{
	fake::behaviour().sends_max = 4;
	fake::behaviour().hold_sends = true;

	auto a = *ibrelk::Endpoint::create(*device, *ring);
	auto b = *ibrelk::Endpoint::create(*device, *ring);
	auto peer = *a.peer_add(b.address());
	std::vector<ibrelk::Command> sends(6, ibrelk_command_send(peer, nullptr, 0, 1, 0));
	auto ignore = [](const ibrelk::Completion &) {
	};

	EXPECT_EQ(*a.submit_all(sends, *ring, ignore, 5ms), 4u);
	EXPECT_EQ(a.submit_all(sends, *ring, ignore, 5ms).error(), ETIMEDOUT);
	EXPECT_EQ(
		ibrelk_endpoint_submit_all(a.handle(), sends.data(), 6, nullptr, nullptr, nullptr, 3'000'000),
		-ETIMEDOUT);
	EXPECT_EQ(
		ibrelk_endpoint_submit_all(a.handle(), sends.data(), 6, ring->handle(), nullptr, nullptr, 0),
		-EINVAL);
	EXPECT_EQ(ibrelk_endpoint_submit_all(a.handle(), sends.data(), 0, nullptr, nullptr, nullptr, 0),
		-EINVAL);
	fake::release_sends(100);
}

// Each completion that is handled leads to the next one, and none makes room.
TEST_F(EndpointTest, submit_all__time_runs_out_while_completions_keep_coming)
{
	fake::behaviour().sends_max = 4;
	fake::behaviour().hold_sends = true;

	auto a = *ibrelk::Endpoint::create(*device, *ring);
	auto b = *ibrelk::Endpoint::create(*device, *ring);
	auto peer = *a.peer_add(b.address());
	std::vector<ibrelk::Command> sends(6, ibrelk_command_send(peer, nullptr, 0, 1, 0));
	const ibrelk::Command nop{};
	std::uint32_t handled = 0;
	auto again = [&](const ibrelk::Completion &) {
		handled++;
		EXPECT_EQ(*b.submit({&nop, 1}), 1u);
	};

	EXPECT_EQ(*a.submit(sends), 4u);
	EXPECT_EQ(*b.submit({&nop, 1}), 1u);
	EXPECT_EQ(a.submit_all(sends, *ring, again, 5ms).error(), ETIMEDOUT);
	EXPECT_GT(handled, 256u);
	fake::release_sends(100);
	ring->drain([](const auto &) {});
}

// No time to wait, but room as soon as the ring has been read.
TEST_F(EndpointTest, submit_all__tries_once_more_after_making_room)
{
	fake::behaviour().sends_max = 4;
	fake::behaviour().hold_sends = true;

	auto a = *ibrelk::Endpoint::create(*device, *ring);
	auto b = *ibrelk::Endpoint::create(*device, *ring);
	auto peer = *a.peer_add(b.address());
	std::vector<ibrelk::Command> sends(4, ibrelk_command_send(peer, nullptr, 0, 1, 0));
	const ibrelk::Command nop{};

	EXPECT_EQ(*a.submit(sends), 4u);
	EXPECT_EQ(*b.submit({&nop, 1}), 1u);
	EXPECT_EQ(*a.submit_all(
			  sends, *ring, [](const ibrelk::Completion &) { fake::release_sends(100); }, 0ms),
		4u);
	fake::release_sends(100);
	ring->drain([](const auto &) {});
}

TEST_F(EndpointTest, wait_room__sleeps_until_a_send_is_over)
{
	fake::behaviour().sends_max = 4;
	fake::behaviour().hold_sends = true;

	auto a = *ibrelk::Endpoint::create(*device, *ring);
	auto b = *ibrelk::Endpoint::create(*device, *ring);
	auto peer = *a.peer_add(b.address());
	std::vector<ibrelk::Command> sends(6, ibrelk_command_send(peer, nullptr, 0, 1, 0));

	EXPECT_EQ(*a.submit(sends), 4u);
	EXPECT_FALSE(*a.wait_room(IBRELK_OP_SEND, 1ms));
	EXPECT_TRUE(*a.wait_room(IBRELK_OP_RECV, 0ms));

	std::thread wire([] {
		::usleep(1000);
		fake::release_sends(100);
	});

	EXPECT_TRUE(*a.wait_room());
	EXPECT_EQ(*a.submit(sends), 4u);
	wire.join();
	fake::release_sends(100);
	ring->drain([](const auto &) {});
}

TEST_F(EndpointTest, submit_all__a_wrong_command_ends_it)
{
	auto a = *ibrelk::Endpoint::create(*device, *ring);
	std::vector<ibrelk::Command> commands(100);
	auto ignore = [](const ibrelk::Completion &) {
	};

	commands[70].opcode = 99;
	EXPECT_EQ(*a.submit_all(commands, *ring, ignore), 70u);
	EXPECT_EQ(a.submit_all(std::span(commands).subspan(70), *ring, ignore).error(), EINVAL);
	ring->drain(ignore);
}

TEST(result, value_or_errno)
{
	ibrelk::result<int> good = 5;
	ibrelk::result<int> bad = ibrelk::failure(-ENOENT);
	ibrelk::result<void> fine;
	ibrelk::result<void> broken = ibrelk::failure(EIO);

	EXPECT_TRUE(good);
	EXPECT_EQ(*good, 5);
	EXPECT_EQ(good.error(), 0);
	EXPECT_FALSE(bad);
	EXPECT_EQ(bad.error(), ENOENT);
	EXPECT_EQ(bad.value_or(7), 7);
	EXPECT_TRUE(fine);
	EXPECT_EQ(broken.error(), EIO);
	EXPECT_STREQ(ibrelk_version(), "0.1.0");
}
