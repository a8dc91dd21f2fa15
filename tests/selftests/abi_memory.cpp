// SPDX-License-Identifier: GPL-2.0-only
//
// User memory of every kind, within RLIMIT_MEMLOCK and beyond.
#include "abi.hpp"

namespace abi
{
namespace
{

// ---- user memory ---------------------------------------------------------------------------------

// Sends from one place to another, and tells how the receive ended.
int transfer(Node &node, const void *from, void *to, std::size_t bytes)
{
	int status = 1;

	KTAP_REQUIRE_EQUAL(submit(Door::ioctl, node.endpoint.get(),
				   {recv(to, bytes, 1, 2), send(node.self, from, bytes, 1, 1)}),
		2);
	for (int i = 0; i < 2; i++) {
		auto completion = node.ring.next();

		KTAP_REQUIRE(completion.has_value());
		if (completion->user_data == 2)
			status = completion->status;
	}
	return status;
}

KTAP_TEST(memory__of_every_kind)
{
	Node node;
	const std::size_t bytes = 5 << 20;
	auto data = pattern(bytes, 5);
	Fd file(::memfd_create("ibrelk-abi", MFD_CLOEXEC));
	Fd disk(::open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));

	KTAP_REQUIRE_EQUAL(::ftruncate(file.get(), bytes), 0);

	Pages shared(bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get());
	Pages copied(bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, file.get());
	Pages populated(bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE);
	std::vector<Pages *> kinds = {&shared, &copied, &populated};
	std::unique_ptr<Pages> on_disk;

	if (disk.get() >= 0 && ::ftruncate(disk.get(), bytes) == 0) {
		on_disk = std::make_unique<Pages>(bytes, PROT_READ | PROT_WRITE, MAP_SHARED, disk.get());
		kinds.push_back(on_disk.get());
	}
	for (Pages *kind : kinds) {
		for (std::size_t size : {100ul, 20'000ul, bytes - 1}) {
			std::vector<std::uint8_t> back(size);

			KTAP_EQUAL(transfer(node, data.data(), kind->data() + 1, size), 0);
			KTAP_CHECK(std::memcmp(data.data(), kind->data() + 1, size) == 0);
			KTAP_EQUAL(transfer(node, kind->data() + 1, back.data(), size), 0);
			KTAP_CHECK(std::memcmp(data.data(), back.data(), size) == 0);
		}
	}
}

KTAP_TEST(memory__untouched_zero_pages_and_read_only)
{
	Node node;
	const std::size_t bytes = 100'000;
	Pages untouched(bytes + 4096), read_only(bytes + 4096, PROT_READ);
	std::vector<std::uint8_t> got(bytes, 0xee);

	KTAP_EQUAL(transfer(node, untouched.data() + 7, got.data(), bytes), 0);
	KTAP_CHECK(std::all_of(got.begin(), got.end(), [](auto byte) { return byte == 0; }));
	got.assign(bytes, 0xee);
	KTAP_EQUAL(transfer(node, read_only.data() + 7, got.data(), bytes), 0);
	KTAP_CHECK(std::all_of(got.begin(), got.end(), [](auto byte) { return byte == 0; }));
}

KTAP_TEST(memory__the_ring_itself)
{
	Node node(4096);
	Ring other(node.device.get(), 4096);
	std::size_t bytes = other.size * sizeof(Completion);
	auto data = pattern(bytes, 9);

	// Not a good idea, but nobody's harm but one's own.
	KTAP_EQUAL(transfer(node, data.data(), other.entry, bytes), 0);
	KTAP_CHECK(std::memcmp(other.entry, data.data(), bytes) == 0);
	other.map->unmap();
	other.fd.close();
}

KTAP_TEST(memory__unmapped_while_in_use)
{
	Node node;
	const std::size_t bytes = 1 << 20;
	auto data = pattern(bytes, 11);
	auto target = std::make_unique<Pages>(bytes);

	KTAP_REQUIRE_EQUAL(submit(Door::ioctl, node.endpoint.get(), recv(target->data(), bytes, 1, 2)), 1);
	target.reset();
	KTAP_REQUIRE_EQUAL(
		submit(Door::ioctl, node.endpoint.get(), send(node.self, data.data(), bytes, 1, 1)), 1);
	for (int i = 0; i < 2; i++) {
		auto completion = node.ring.next();

		KTAP_REQUIRE(completion.has_value());
		KTAP_CHECK(completion->status == 0 || completion->status == -EFAULT);
	}
}

// What the module pins of ours, in KiB.
unsigned long pinned_kib()
{
	std::ifstream status("/proc/self/status");
	std::string word;
	unsigned long value = 0;

	while (status >> word)
		if (word == "VmPin:")
			status >> value;
	return value;
}

// Unpinning is put off: waits until no more than so much is pinned.
void settle(unsigned long kib)
{
	auto give_up = Clock::now() + std::chrono::seconds(20);

	while (pinned_kib() > kib && Clock::now() < give_up)
		std::this_thread::yield();
	KTAP_EQUAL(pinned_kib(), kib);
}

KTAP_TEST(memory__pins_are_charged_and_given_back)
{
	const std::size_t bytes = 1 << 20;

	settle(0); // what tests before this one had pinned

	Node node;
	Pages target(bytes + page_size());

	KTAP_REQUIRE_EQUAL(submit(Door::ioctl, node.endpoint.get(), recv(target.data() + 1, bytes, 1, 2)), 1);
	KTAP_EQUAL(pinned_kib(), (bytes + page_size()) / 1024);
	KTAP_REQUIRE_EQUAL(submit(Door::ioctl, node.endpoint.get(), cancel(2, 3)), 1);
	expect(node.ring, 2, -ECANCELED);
	expect(node.ring, 3, 0);
	settle(0); // with no further system call to do it

	// Of a large buffer only two windows are pinned at a time.
	Pages large(64 << 20);

	KTAP_REQUIRE_EQUAL(
		submit(Door::ioctl, node.endpoint.get(), recv(large.data() + 1, large.size() - 1, 1, 4)), 1);
	KTAP_EQUAL(pinned_kib(), (4 << 10) + 2 * page_size() / 1024);
	KTAP_REQUIRE_EQUAL(submit(Door::ioctl, node.endpoint.get(), cancel(4, 5)), 1);
	expect(node.ring, 4, -ECANCELED);
	expect(node.ring, 5, 0);
	settle(0);
}

ibrelk_endpoint_info endpoint_info(const Node &node)
{
	std::vector<ibrelk_endpoint_info> info(256);
	ibrelk_dump dump{};

	dump.kind = IBRELK_DUMP_ENDPOINTS;
	dump.buffer = address_of(info.data());
	dump.entry_bytes = sizeof(info[0]);
	dump.entries = static_cast<std::uint32_t>(info.size());
	KTAP_REQUIRE_EQUAL(control(node.device.get(), IBRELK_IOC_DUMP, &dump), 0);
	for (std::uint32_t i = 0; i < dump.entries; i++)
		if (info[i].local.endpoint == node.address.endpoint)
			return info[i];
	ktap::fail(__FILE__, __LINE__, "the endpoint is not listed");
	throw ktap::Stop();
}

// The rest of a page whose memory cannot be pinned must stay as it is, too.
int transfers_with_little_to_pin(Node &node, std::size_t bytes)
{
	rlimit tight = {.rlim_cur = 64 << 10, .rlim_max = 64 << 10};
	auto data = pattern(bytes, 13);
	std::vector<std::uint8_t> got(bytes + 64, 0xee);

	if (::setrlimit(RLIMIT_MEMLOCK, &tight) || ::setgid(nobody) || ::setuid(nobody))
		return 255;
	if (transfer(node, data.data(), got.data() + 1, bytes))
		return 1;
	if (std::memcmp(got.data() + 1, data.data(), bytes) != 0)
		return 2;
	if (got[0] != 0xee || got[bytes + 1] != 0xee)
		return 3;

	// A message that is shorter than its receive.
	std::fill(got.begin(), got.end(), 0xee);
	if (submit(Door::ioctl, node.endpoint.get(),
		    {recv(got.data(), bytes, 1, 2), send(node.self, data.data(), 10, 1, 1)}) != 2)
		return 4;
	for (int i = 0; i < 2; i++) {
		auto completion = node.ring.next();

		if (!completion || completion->status || completion->length != 10)
			return 5;
	}
	if (std::memcmp(got.data(), data.data(), 10) != 0 || got[10] != 0xee || got[bytes - 1] != 0xee)
		return 6;

	// A receive that is cancelled.
	std::fill(got.begin(), got.end(), 0xee);
	if (submit(Door::ioctl, node.endpoint.get(), {recv(got.data(), bytes, 1, 2), cancel(2, 3)}) != 2)
		return 7;
	for (int i = 0; i < 2; i++)
		if (!node.ring.next())
			return 8;
	if (!std::all_of(got.begin(), got.end(), [](auto byte) { return byte == 0xee; }))
		return 9;

	// Memory that is not there is told from memory that cannot be pinned.
	Pages read_only(bytes, PROT_READ);

	return submit(Door::ioctl, node.endpoint.get(), recv(read_only.data(), bytes, 1, 2)) == -EFAULT ? 0
													: 10;
}

KTAP_TEST(memory__beyond_the_limit_is_bounced)
{
	need_root();
	for (std::size_t bytes : {100'000ul, 1ul << 20, 9ul << 20}) {
		Node node;

		KTAP_EQUAL(in_child([&] { return transfers_with_little_to_pin(node, bytes); }), 0);
		KTAP_CHECK(endpoint_info(node).counters.bounced_bytes >= bytes);
	}
}

KTAP_TEST(memory__many_receives_beyond_the_limit)
{
	need_root();

	Node node(256);

	KTAP_EQUAL(in_child([&] {
		rlimit tight = {.rlim_cur = 64 << 10, .rlim_max = 64 << 10};
		std::vector<std::uint32_t> got(2000);
		std::vector<Command> batch;
		unsigned good = 0;

		if (::setrlimit(RLIMIT_MEMLOCK, &tight) || ::setgid(nobody) || ::setuid(nobody))
			return 255;
		for (std::uint32_t i = 0; i < got.size(); i++) {
			Command command = recv(&got[i], sizeof(got[i]), i, 1);

			if (submit(Door::ioctl, node.endpoint.get(), command) != 1)
				return 1;
		}
		for (std::uint32_t i = 0; i < got.size(); i++) {
			std::uint32_t value = i + 1;
			Command command = send(node.self, &value, sizeof(value), i, 2);

			command.flags = IBRELK_CMD_NO_SUCCESS;
			for (;;) {
				int accepted = submit(Door::ioctl, node.endpoint.get(), command);

				if (accepted == 1)
					break;
				if (accepted < 0)
					return 2;
				if (node.ring.next())
					good++;
			}
		}
		while (good < got.size()) {
			auto completion = node.ring.next();

			if (!completion || completion->status)
				return 3;
			good++;
		}
		for (std::uint32_t i = 0; i < got.size(); i++)
			if (got[i] != i + 1)
				return 4;
		return 0;
	}),
		0);
}

} // namespace
} // namespace abi
