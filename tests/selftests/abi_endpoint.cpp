// SPDX-License-Identifier: GPL-2.0-only
//
// Endpoints and peers: making them with everything that can be wrong.
#include "abi.hpp"

#include <barrier>

namespace abi
{
namespace
{

// ---- making endpoints ----------------------------------------------------------------------------

bool native_allowed()
{
	std::ifstream parameter("/sys/module/ibrelk/parameters/allow_native");
	char value = 'N';

	parameter >> value;
	return value == 'Y' || value == '1';
}

KTAP_TEST(endpoint_create__bad_requests)
{
	Node node;
	NoLeak no_leak;
	auto limits = query(node.device.get());
	Fd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
	Fd closed(::dup(null.get()));
	int number = closed.get();

	closed.close();

	const struct {
		const char *what;
		int error;
		std::function<void(ibrelk_endpoint_create &)> change;
	} wrong[] = {
		{"mode", EINVAL,
			[](auto &create) {
				create.mode = IBRELK_MODE_COUNT;
			}},
		{"mode -1", EINVAL,
			[](auto &create) {
				create.mode = ~0u;
			}},
		{"flags", EINVAL,
			[](auto &create) {
				create.flags = 1;
			}},
		{"reserved0", EINVAL,
			[](auto &create) {
				create.reserved0 = 1;
			}},
		{"reserved", EINVAL,
			[](auto &create) {
				create.reserved[0] = 1;
			}},
		{"last reserved", EINVAL,
			[](auto &create) {
				create.reserved[3] = 1ull << 63;
			}},
		{"sends", EINVAL,
			[&](auto &create) {
				create.sends = limits.sends_max + 1;
			}},
		{"recvs", EINVAL,
			[&](auto &create) {
				create.recvs = limits.recvs_max + 1;
			}},
		{"unexpected", EINVAL,
			[](auto &create) {
				create.unexpected_bytes = ~0ull;
			}},
		{"no send ring", EBADF,
			[](auto &create) {
				create.send_ring = -1;
			}},
		{"no receive ring", EBADF,
			[](auto &create) {
				create.recv_ring = -1;
			}},
		{"ring is closed", EBADF,
			[&](auto &create) {
				create.send_ring = number;
			}},
		{"ring is a file", EBADF,
			[&](auto &create) {
				create.recv_ring = null.get();
			}},
		{"ring is a device", EBADF,
			[&](auto &create) {
				create.send_ring = node.device.get();
			}},
		{"ring is an endpoint", EBADF,
			[&](auto &create) {
				create.recv_ring = node.endpoint.get();
			}},
		{"foreign GID", EADDRNOTAVAIL,
			[](auto &create) {
				const std::uint8_t gid[16] = {
					0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 203, 0, 113, 77};

				std::memcpy(create.local.gid, gid, sizeof(gid));
			}},
		{"number taken", EADDRINUSE,
			[&](auto &create) {
				create.local.endpoint = node.address.endpoint;
			}},
	};

	for (const auto &item : wrong) {
		auto create = endpoint_request(node.ring, node.ring);

		item.change(create);

		auto before = create;

		if (!ktap::equal(__FILE__, __LINE__, "result",
			    control(node.device.get(), IBRELK_IOC_ENDPOINT_CREATE, &create), -item.error))
			ktap::note("with a wrong one of: ", item.what);
		KTAP_EQUAL(std::memcmp(&before, &create, sizeof(create)), 0);
	}
}

KTAP_TEST(endpoint_create__result_cannot_be_told)
{
	Node node;
	NoLeak no_leak;
	Pages page(page_size());
	auto create = endpoint_request(node.ring, node.ring);

	create.local.endpoint = 4711;
	std::memcpy(page.data(), &create, sizeof(create));
	page.protect(PROT_READ);
	KTAP_EQUAL(control(node.device.get(), IBRELK_IOC_ENDPOINT_CREATE, page.data()), -EFAULT);

	// Neither a descriptor nor the number is taken.
	KTAP_EQUAL(control(node.device.get(), IBRELK_IOC_ENDPOINT_CREATE, &create), 0);
	::close(create.fd);
}

KTAP_TEST(endpoint_create__native_needs_permission)
{
	Node node;

	if (native_allowed())
		ktap::skip("native modes are allowed");
	for (auto mode : {IBRELK_MODE_RC_NATIVE, IBRELK_MODE_UC_NATIVE, IBRELK_MODE_UD_NATIVE}) {
		auto create = endpoint_request(node.ring, node.ring);

		create.mode = mode;
		KTAP_EQUAL(control(node.device.get(), IBRELK_IOC_ENDPOINT_CREATE, &create), -EPERM);
		KTAP_EQUAL(query(node.device.get()).modes & (1u << mode), 0);
	}
}

KTAP_TEST(endpoint_create__every_mode)
{
	Node node;
	auto modes = query(node.device.get()).modes;

	for (std::uint32_t mode = 1; mode < IBRELK_MODE_COUNT; mode++) {
		auto create = endpoint_request(node.ring, node.ring);

		create.mode = mode;

		int result = control(node.device.get(), IBRELK_IOC_ENDPOINT_CREATE, &create);

		if (modes & (1u << mode)) {
			KTAP_EQUAL(result, 0);
			KTAP_EQUAL(create.mode, mode);
			::close(create.fd);
		} else {
			KTAP_CHECK(result == -EPERM || result == -ENODEV);
		}
	}
}

KTAP_TEST(endpoint_create__address)
{
	Node node;

	KTAP_CHECK(node.address.endpoint != 0);
	KTAP_CHECK(node.address.generation != 0);
	KTAP_CHECK(std::any_of(
		std::begin(node.address.gid), std::end(node.address.gid), [](auto b) { return b; }));
	KTAP_EQUAL(::fcntl(node.endpoint.get(), F_GETFD), FD_CLOEXEC);

	// A number is free again once its endpoint is closed, and its next life has another generation.
	auto create = endpoint_request(node.ring, node.ring);

	create.local.endpoint = node.address.endpoint;
	node.endpoint.close();
	KTAP_REQUIRE_EQUAL(control(node.device.get(), IBRELK_IOC_ENDPOINT_CREATE, &create), 0);
	KTAP_EQUAL(create.local.endpoint, node.address.endpoint);
	KTAP_CHECK(create.local.generation != node.address.generation);
	::close(create.fd);
}

KTAP_TEST(endpoint_create__ring_of_another_user)
{
	need_root();

	Node node;

	KTAP_EQUAL(in_child([&] {
		if (::setgid(nobody) || ::setuid(nobody))
			return 255;

		auto create = endpoint_request(node.ring, node.ring);

		return -control(node.device.get(), IBRELK_IOC_ENDPOINT_CREATE, &create);
	}),
		EBADF);
}

KTAP_TEST(endpoint_create__many)
{
	Node node;
	NoLeak no_leak;
	std::vector<Fd> all;

	for (int i = 0; i < 100; i++) {
		auto create = endpoint_request(node.ring, node.ring);

		KTAP_REQUIRE_EQUAL(control(node.device.get(), IBRELK_IOC_ENDPOINT_CREATE, &create), 0);
		all.emplace_back(create.fd);
		KTAP_REQUIRE_EQUAL(submit(Door::ioctl, create.fd, nop(create.local.endpoint)), 1);

		auto completion = node.ring.next();

		KTAP_REQUIRE(completion.has_value());
		KTAP_EQUAL(completion->endpoint, create.local.endpoint);
		KTAP_EQUAL(completion->user_data, create.local.endpoint);
	}
}

// ---- peers ---------------------------------------------------------------------------------------

KTAP_TEST(peer__bad_requests)
{
	Node node;
	int fd = node.endpoint.get();
	ibrelk_peer peer{};

	for (auto request : {IBRELK_IOC_PEER_ADD, IBRELK_IOC_PEER_QUERY}) {
		KTAP_EQUAL(control(fd, request, nullptr), -EFAULT);
		KTAP_EQUAL(control(fd, request, pointer_to(kernel_address)), -EFAULT);
		peer.addr = node.address;
		peer.handle = node.self;
		peer.reserved = 1;
		KTAP_EQUAL(control(fd, request, &peer), -EINVAL);
		peer.reserved = 0;
	}
	peer.addr.endpoint = 0;
	KTAP_EQUAL(control(fd, IBRELK_IOC_PEER_ADD, &peer), -EINVAL);
	for (std::uint32_t handle : {node.self + 1000, 0x7fffffffu, IBRELK_PEER_ANY}) {
		peer.handle = handle;
		KTAP_EQUAL(control(fd, IBRELK_IOC_PEER_QUERY, &peer), -ENOENT);
	}
}

// Who is bound to an address is known by it, also to one that he reaches by another address of the node.
KTAP_TEST(peer__of_the_same_node_by_its_own_address)
{
	const std::uint8_t loopback[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 127, 0, 0, 1};
	const Node any;
	Node receiver(64, [&](auto &create) { std::ranges::copy(loopback, create.local.gid); });
	Node sender(64, [&](auto &create) { std::ranges::copy(any.address.gid, create.local.gid); });
	ibrelk_peer to{}, from{};
	std::uint64_t sent = 4711, received = 0;

	to.addr = receiver.address;
	from.addr = sender.address;
	KTAP_REQUIRE_EQUAL(control(sender.endpoint.get(), IBRELK_IOC_PEER_ADD, &to), 0);
	KTAP_REQUIRE_EQUAL(control(receiver.endpoint.get(), IBRELK_IOC_PEER_ADD, &from), 0);

	auto directed = recv(&received, sizeof(received), 1, 1);

	directed.peer = from.handle;
	KTAP_REQUIRE_EQUAL(submit(Door::ioctl, receiver.endpoint.get(), directed), 1);

	auto message = send(to.handle, &sent, sizeof(sent), 1, 2);

	KTAP_REQUIRE_EQUAL(submit(Door::ioctl, sender.endpoint.get(), message), 1);

	auto completion = receiver.ring.next();

	KTAP_REQUIRE(completion);
	KTAP_EQUAL(completion->status, 0);
	KTAP_EQUAL(completion->peer, from.handle);
	KTAP_EQUAL(received, sent);
}

// Of those who are the first to reach an address at the same time one makes the path, and all use it.
KTAP_TEST(peer__that_many_reach_first)
{
	constexpr unsigned many = 4, rounds = 20;
	const auto start = static_cast<unsigned>(::getpid());
	std::vector<std::unique_ptr<Node>> nodes;
	std::atomic<unsigned> good = 0;

	for (unsigned i = 0; i < many; i++)
		nodes.push_back(std::make_unique<Node>());
	for (unsigned round = 0; round < rounds; round++) {
		std::barrier together(many);
		std::vector<std::jthread> threads;

		for (const auto &node : nodes)
			threads.emplace_back([&] {
				ibrelk_peer peer{};
				const char byte = 0;

				peer.addr.gid[10] = peer.addr.gid[11] = 0xff;
				peer.addr.gid[12] = 127;
				// Those of an earlier run may still be there.
				peer.addr.gid[13] = static_cast<std::uint8_t>(1 + start % 254);
				peer.addr.gid[14] = static_cast<std::uint8_t>(start / 254);
				peer.addr.gid[15] = static_cast<std::uint8_t>(100 + round);
				peer.addr.endpoint = 1; // nobody's
				const int added = control(node->endpoint.get(), IBRELK_IOC_PEER_ADD, &peer);

				together.arrive_and_wait();
				good += added == 0 &&
					submit(Door::ioctl, node->endpoint.get(),
						{send(peer.handle, &byte, 1, round)}) == 1;
			});
	}
	KTAP_EQUAL(good.load(), many * rounds);
	for (const auto &node : nodes)
		for (unsigned round = 0; round < rounds; round++) {
			const auto completion = node->ring.next();

			KTAP_REQUIRE(completion);
			KTAP_EQUAL(completion->status, -ECONNREFUSED);
		}
}

KTAP_TEST(peer__handles)
{
	Node node;
	int fd = node.endpoint.get();
	ibrelk_peer peer{};
	std::vector<std::uint32_t> handles;

	for (std::uint32_t i = 0; i < 100; i++) {
		peer.addr = node.address;
		peer.addr.endpoint = 100 + i;
		peer.addr.generation = 0;
		KTAP_REQUIRE_EQUAL(control(fd, IBRELK_IOC_PEER_ADD, &peer), 0);
		KTAP_CHECK(peer.handle != IBRELK_PEER_ANY);
		handles.push_back(peer.handle);
	}
	for (std::uint32_t i = 0; i < 100; i++) {
		peer.addr.endpoint = 100 + i;
		KTAP_EQUAL(control(fd, IBRELK_IOC_PEER_ADD, &peer), 0);
		KTAP_EQUAL(peer.handle, handles[i]);
		peer.addr = {};
		KTAP_EQUAL(control(fd, IBRELK_IOC_PEER_QUERY, &peer), 0);
		KTAP_EQUAL(peer.addr.endpoint, 100 + i);
		KTAP_EQUAL(std::memcmp(peer.addr.gid, node.address.gid, sizeof(peer.addr.gid)), 0);
	}
	std::sort(handles.begin(), handles.end());
	KTAP_CHECK(std::adjacent_find(handles.begin(), handles.end()) == handles.end());
}

} // namespace
} // namespace abi
