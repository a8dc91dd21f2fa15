// SPDX-License-Identifier: GPL-2.0-only
//
// The device, and its requests that make nothing.
#include "abi.hpp"

namespace abi
{
namespace
{

// ---- the device ----------------------------------------------------------------------------------

KTAP_TEST(device__opens_read_only_too)
{
	Fd device = open_device();
	Fd reader(::open(IBRELK_DEVICE_PATH, O_RDONLY | O_CLOEXEC));

	KTAP_REQUIRE(reader.get() >= 0);
	KTAP_EQUAL(query(reader.get()).abi_version, IBRELK_ABI_VERSION);
}

KTAP_TEST(device__is_not_for_everybody)
{
	need_root();
	(void)open_device();

	KTAP_EQUAL(in_child([] {
		if (::setgid(nobody) || ::setuid(nobody))
			return 255;
		return ::open(IBRELK_DEVICE_PATH, O_RDWR) < 0 ? errno : 0;
	}),
		EACCES);
}

KTAP_TEST(device__is_not_for_other_network_namespaces)
{
	need_root();
	(void)open_device();

	int status = in_child([] {
		if (::unshare(CLONE_NEWNET))
			return 255;
		return ::open(IBRELK_DEVICE_PATH, O_RDWR) < 0 ? errno : 0;
	});

	if (status == 255)
		ktap::skip("no network namespaces");
	KTAP_EQUAL(status, EPERM);
}

KTAP_TEST(device__has_nothing_to_read_or_map)
{
	Fd device = open_device();
	char byte = 0;

	KTAP_EQUAL(::read(device.get(), &byte, 1), -1);
	KTAP_EQUAL(errno, EINVAL);
	KTAP_EQUAL(::write(device.get(), &byte, 1), -1);
	KTAP_EQUAL(errno, EINVAL);
	KTAP_CHECK(::mmap(nullptr, page_size(), PROT_READ, MAP_SHARED, device.get(), 0) == MAP_FAILED);
	KTAP_EQUAL(errno, ENODEV);
}

KTAP_TEST(device__query_tells_limits)
{
	Fd device = open_device();
	ibrelk_query answer;

	std::memset(&answer, 0xff, sizeof(answer));
	KTAP_EQUAL(control(device.get(), IBRELK_IOC_QUERY, &answer), 0);
	KTAP_EQUAL(answer.abi_version, IBRELK_ABI_VERSION);
	KTAP_CHECK(answer.protocol_version >= 1);
	KTAP_CHECK(answer.recvs_max >= 65536);
	KTAP_CHECK(answer.sends_max >= 1);
	KTAP_CHECK(answer.batch_max >= 1);
	KTAP_CHECK(answer.message_max >= 1u << 30);
	KTAP_CHECK(answer.eager_max < answer.message_max);
	KTAP_EQUAL(answer.modes >> IBRELK_MODE_COUNT, 0);
	KTAP_EQUAL(answer.modes & 1, 0);
	KTAP_CHECK(std::any_of(
		std::begin(answer.instance), std::end(answer.instance), [](auto b) { return b; }));
	for (auto reserved : answer.reserved)
		KTAP_EQUAL(reserved, 0);
	if (answer.ports)
		KTAP_CHECK(answer.modes);
}

KTAP_TEST(device__bad_pointers)
{
	NoLeak no_leak;
	Fd device = open_device();
	Pages read_only(page_size());
	const std::array<std::uint64_t, 4> bad = {0, hole(), kernel_address, ~0ull};
	const std::array<unsigned long, 4> requests = {
		IBRELK_IOC_QUERY, IBRELK_IOC_RING_CREATE, IBRELK_IOC_ENDPOINT_CREATE, IBRELK_IOC_DUMP};

	for (auto request : requests)
		for (auto address : bad)
			KTAP_EQUAL(control(device.get(), request, pointer_to(address)), -EFAULT);

	// What can be read, but not written back, must leave no descriptor behind.
	auto create = ring_request(4);

	std::memcpy(read_only.data(), &create, sizeof(create));
	read_only.protect(PROT_READ);
	KTAP_EQUAL(control(device.get(), IBRELK_IOC_QUERY, read_only.data()), -EFAULT);
	KTAP_EQUAL(control(device.get(), IBRELK_IOC_RING_CREATE, read_only.data()), -EFAULT);
}

KTAP_TEST(device__unknown_requests)
{
	Node node;
	std::array<std::byte, 512> space{};
	const std::array<int, 3> fds = {node.device.get(), node.ring.fd.get(), node.endpoint.get()};
	const std::array<std::pair<int, unsigned long>, 8> known = {{
		{0, IBRELK_IOC_QUERY},
		{0, IBRELK_IOC_RING_CREATE},
		{0, IBRELK_IOC_ENDPOINT_CREATE},
		{0, IBRELK_IOC_DUMP},
		{1, IBRELK_IOC_RING_WAIT},
		{2, IBRELK_IOC_SUBMIT},
		{2, IBRELK_IOC_PEER_ADD},
		{2, IBRELK_IOC_PEER_QUERY},
	}};

	for (int kind = 0; kind < 3; kind++) {
		// Requests of the other kinds of descriptor, and known numbers with another size or
		// direction.
		for (auto [owner, request] : known) {
			if (owner != kind)
				KTAP_EQUAL(control(fds[kind], request, space.data()), -ENOTTY);
			KTAP_EQUAL(
				control(fds[kind], request ^ (1ul << _IOC_SIZESHIFT), space.data()), -ENOTTY);
			KTAP_EQUAL(
				control(fds[kind], request ^ (1ul << _IOC_DIRSHIFT), space.data()), -ENOTTY);
		}
		KTAP_EQUAL(control(fds[kind], _IO(IBRELK_IOC_MAGIC, 0xff), space.data()), -ENOTTY);
		KTAP_EQUAL(control(fds[kind], TCGETS, space.data()), -ENOTTY);
	}
}

KTAP_TEST(device__dump)
{
	Node node;
	ibrelk_dump dump{};

	KTAP_EQUAL(control(node.device.get(), IBRELK_IOC_DUMP, &dump), -EINVAL);
	dump.kind = IBRELK_DUMP_PORTS + 1;
	dump.entry_bytes = sizeof(ibrelk_endpoint_info);
	KTAP_EQUAL(control(node.device.get(), IBRELK_IOC_DUMP, &dump), -EINVAL);
	dump.kind = IBRELK_DUMP_ENDPOINTS;
	dump.flags = 1;
	KTAP_EQUAL(control(node.device.get(), IBRELK_IOC_DUMP, &dump), -EINVAL);
	dump.flags = 0;
	dump.reserved = 1;
	KTAP_EQUAL(control(node.device.get(), IBRELK_IOC_DUMP, &dump), -EINVAL);
	dump.reserved = 0;
	KTAP_EQUAL(control(node.device.get(), IBRELK_IOC_DUMP, &dump), 0);
	KTAP_EQUAL(dump.entries, 0);
	KTAP_REQUIRE(dump.total >= 1);

	std::uint32_t total = dump.total;

	dump.entries = total;
	dump.buffer = hole();
	KTAP_EQUAL(control(node.device.get(), IBRELK_IOC_DUMP, &dump), -EFAULT);
	dump.buffer = kernel_address;
	KTAP_EQUAL(control(node.device.get(), IBRELK_IOC_DUMP, &dump), -EFAULT);

	// A program that knows a shorter entry gets that much of each, and nothing beyond the last.
	std::vector<std::uint8_t> space(total * 32ul + 32, 0xaa);

	dump.buffer = address_of(space.data());
	dump.entry_bytes = 32;
	dump.entries = total;
	KTAP_EQUAL(control(node.device.get(), IBRELK_IOC_DUMP, &dump), 0);
	KTAP_CHECK(dump.entries <= total);
	KTAP_CHECK(std::all_of(space.end() - 32, space.end(), [](auto byte) { return byte == 0xaa; }));

	// And one that knows a longer entry, zeroes.
	struct Longer {
		ibrelk_endpoint_info info;
		std::uint64_t more;
	};
	std::vector<Longer> longer(total);

	for (auto &item : longer)
		item.more = ~0ull;
	dump.buffer = address_of(longer.data());
	dump.entry_bytes = sizeof(Longer);
	dump.entries = total;
	KTAP_EQUAL(control(node.device.get(), IBRELK_IOC_DUMP, &dump), 0);

	auto mine = std::find_if(longer.begin(), longer.begin() + dump.entries,
		[&](const Longer &item) { return item.info.local.endpoint == node.address.endpoint; });

	KTAP_REQUIRE(mine != longer.begin() + dump.entries);
	KTAP_EQUAL(mine->more, 0);
	KTAP_EQUAL(mine->info.pid, ::getpid());
	KTAP_EQUAL(mine->info.uid, ::geteuid());
	KTAP_EQUAL(mine->info.local.generation, node.address.generation);
}

} // namespace
} // namespace abi
