// SPDX-License-Identifier: GPL-2.0-only
//
// Puts and gets: a peer writes to a region of a process that has no part in it, or reads from it. With
// --between, adapters carry them.
#include "abi_remote.hpp"

#include <cstring>
#include <fstream>
#include <sstream>

#include <spawn.h>

namespace abi
{
namespace
{

int window_error(const Node &node, const ibrelk_region_create &wanted)
{
	ibrelk_region_create create = wanted;
	const int error = control(node.device.get(), IBRELK_IOC_REGION_CREATE, &create);

	if (!error)
		::close(create.fd);
	return error;
}

// Short ones, which are copied, and long ones, which go by rendezvous.
std::vector<std::size_t> sizes(const Node &node)
{
	const auto eager = query(node.device.get()).eager_max;

	return {1, 8, 100, 4096, eager - 1, eager, eager + 1, 100'000, (1 << 20) + 3, 5 << 20};
}

// User Mode Linux maps each page of a process by a mapping of its host's, which allows 65530 of them.
bool maps_few_pages()
{
	std::ifstream cpuinfo("/proc/cpuinfo");
	std::stringstream text;

	text << cpuinfo.rdbuf();
	return text.str().find("User Mode Linux") != std::string::npos;
}

// Between two adapters what is long is written by them, and nothing of it copied for want of anything.
class LongIsWritten
{
public:
	LongIsWritten(const Node &node, std::size_t bytes) :
		node_(node), long_(between && bytes > query(node.device.get()).eager_max),
		before_(long_ ? written(node) : Written())
	{
	}
	void check() const
	{
		if (!long_)
			return;

		const Written after = written(node_);

		KTAP_CHECK(after.tx > before_.tx);
		KTAP_CHECK(after.rx > before_.rx);
		KTAP_EQUAL(after.copied, before_.copied);
	}

private:
	const Node &node_;
	bool long_;
	Written before_;
};

} // namespace

KTAP_TEST(remote__put_lands)
{
	Ends ends;
	const std::size_t room = 6 << 20;
	Pages target(room);
	Window window(ends, target.data(), room);
	const auto before = endpoint_info(ends).counters;
	std::uint64_t puts = 0;

	KTAP_CHECK(window.key != 0);
	// Such receives take whatever message comes; a put is none.
	std::vector<std::uint8_t> receive(room);
	Command any_tag = recv(receive.data(), room, 0, 99), untagged = any_tag;
	any_tag.ignore = ~0ull;
	untagged.flags = IBRELK_CMD_UNTAGGED;
	KTAP_REQUIRE_EQUAL(ends.post({any_tag, untagged}), 2);
	for (std::size_t bytes : sizes(ends)) {
		for (std::size_t into :
			{std::size_t{0}, std::size_t{4095}, room - bytes - 4000, room - bytes}) {
			const auto data = pattern(bytes, static_cast<std::uint32_t>(into));

			const LongIsWritten way(ends, bytes);

			std::memset(target.data(), 0xc3, room);
			KTAP_EQUAL(
				put_status(ends,
					put(ends.self, data.data(), bytes, target.data() + into, window.key)),
				0);
			way.check();
			puts++;
			KTAP_CHECK(std::memcmp(target.data() + into, data.data(), bytes) == 0);
			KTAP_CHECK(all_are(target.data(), into, 0xc3));
			KTAP_CHECK(all_are(target.data() + into + bytes, room - into - bytes, 0xc3));
		}
	}
	// One of nothing only tells whether it might.
	KTAP_EQUAL(put_status(ends, put(ends.self, nullptr, 0, target.data() + room, window.key)), 0);
	puts++;
	expect_silence(ends.ring);

	const auto after = endpoint_info(ends).counters;
	KTAP_EQUAL(after.rx_remote - before.rx_remote, puts);
	KTAP_EQUAL(after.rx_messages - before.rx_messages, puts);
	if (!between)
		KTAP_EQUAL(after.tx_remote - before.tx_remote, puts);
	KTAP_EQUAL(after.unexpected_messages, before.unexpected_messages);
	KTAP_REQUIRE_EQUAL(ends.post(cancel(99, 100)), 1);
	expect(ends.ring, 99, -ECANCELED);
	expect(ends.ring, 99, -ECANCELED);
	expect(ends.ring, 100, 0);
}

// No offset in a region is kept in 32 bits. Its beginning is one piece of memory over and over, its end is
// another one.
KTAP_TEST(remote__region_of_more_than_4_gib)
{
	constexpr std::size_t piece = 2 << 20, pieces = (std::size_t{4} << 30) / piece,
			      room = (pieces + 1) * piece;

	if (maps_few_pages())
		ktap::skip("User Mode Linux maps too few pages");

	Ends ends;
	const Pages memory(room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
	const Fd first(::memfd_create("ibrelk-abi", MFD_CLOEXEC)),
		last(::memfd_create("ibrelk-abi", MFD_CLOEXEC));

	for (const Fd *file : {&first, &last})
		KTAP_REQUIRE_EQUAL(::ftruncate(file->get(), piece), 0);
	for (std::size_t i = 0; i <= pieces; i++)
		KTAP_REQUIRE(
			::mmap(memory.data() + i * piece, piece, PROT_READ | PROT_WRITE,
				MAP_SHARED | MAP_FIXED, (i < pieces ? first : last).get(), 0) != MAP_FAILED);
	std::memset(memory.data(), 0x55, piece);
	std::memset(memory.data() + pieces * piece, 0xaa, piece);

	const Window window(ends, memory.data(), room);
	std::byte *const end = memory.data() + pieces * piece;

	for (const std::size_t bytes : {std::size_t{8}, std::size_t{5000}, std::size_t{1'000'000}}) {
		const auto data = pattern(bytes, static_cast<std::uint32_t>(bytes));
		std::vector<std::uint8_t> back(bytes);

		std::memset(end, 0xaa, piece);
		KTAP_EQUAL(put_status(ends, put(ends.self, data.data(), bytes, end + 12345, window.key)), 0);
		KTAP_CHECK(std::memcmp(end + 12345, data.data(), bytes) == 0);
		KTAP_CHECK(all_are(end, 12345, 0xaa));
		KTAP_CHECK(all_are(end + 12345 + bytes, piece - 12345 - bytes, 0xaa));
		KTAP_EQUAL(put_status(ends, get(ends.self, back.data(), bytes, end + 12345, window.key)), 0);
		KTAP_CHECK(back == data);
		// Across what is 4 GiB from the beginning.
		KTAP_EQUAL(
			put_status(ends, put(ends.self, data.data(), bytes, end - bytes / 2, window.key)), 0);
		KTAP_CHECK(std::memcmp(end - bytes / 2, data.data(), bytes) == 0);
		std::memset(memory.data(), 0x55, piece);
	}
	KTAP_EQUAL(put_status(ends, put(ends.self, end, 2, end + piece - 1, window.key)), -EFAULT);
	KTAP_CHECK(all_are(memory.data(), piece, 0x55));
}

KTAP_TEST(remote__put_in_pieces_and_silent)
{
	Ends ends;
	const std::size_t room = 1 << 20;
	Pages source(room), target(room);
	Window window(ends, target.data(), room);

	for (std::size_t piece : {std::size_t{50}, std::size_t{1000}, std::size_t{100'000}}) {
		const auto data = pattern(3 * piece, 7);
		ibrelk_iovec pieces[3];

		// The last of them comes first in memory.
		for (std::size_t i = 0; i < 3; i++) {
			pieces[i] = {
				.addr = address_of(source.data() + (2 - i) * (piece + 77)), .length = piece};
			std::memcpy(pointer_to(pieces[i].addr), data.data() + i * piece, piece);
		}
		std::memset(target.data(), 0, room);

		auto command = put(ends.self, pieces, 3, target.data() + 5, window.key);

		command.flags = IBRELK_CMD_IOVEC;
		KTAP_EQUAL(put_status(ends, command), 0);
		KTAP_CHECK(std::memcmp(target.data() + 5, data.data(), data.size()) == 0);

		// Only failure is told, and the next one's success.
		auto quiet = put(ends.self, data.data(), data.size(), target.data() + 9, window.key);

		quiet.flags = IBRELK_CMD_NO_SUCCESS;
		KTAP_REQUIRE_EQUAL(ends.post(quiet), 1);
		quiet.remote_key++;
		KTAP_EQUAL(put_status(ends, quiet), -EACCES);
		KTAP_EQUAL(put_status(ends, put(ends.self, data.data(), 1, target.data(), window.key)), 0);
	}
}

KTAP_TEST(remote__put_before_send)
{
	Ends ends;
	Pages target(page_size());
	Window window(ends, target.data(), page_size());
	std::uint64_t got = 0;

	// Who gets the message sees what was put before it.
	for (std::uint64_t i = 1; i <= 200; i++) {
		KTAP_REQUIRE_EQUAL(ends.post({recv(&got, sizeof(got), 7, 3),
					   put(ends.self, &i, sizeof(i), target.data(), window.key, 1),
					   send(ends.self, &i, sizeof(i), 7, 2)}),
			3);
		bool put_done = false, received = false;

		for (int n = 0; n < 3; n++) {
			auto completion = ends.ring.next();

			KTAP_REQUIRE(completion.has_value());
			KTAP_EQUAL(completion->status, 0);
			put_done |= completion->user_data == 1;
			if (completion->user_data == 3) {
				received = true;
				KTAP_EQUAL(*reinterpret_cast<volatile std::uint64_t *>(target.data()), i);
				KTAP_EQUAL(got, i);
			}
		}
		KTAP_CHECK(put_done && received);
	}
}

namespace
{

// Who is told of a put sees it; who puts knows then that the other one has been told.
void puts_tell(std::uint32_t mode, const std::vector<std::size_t> &lengths)
{
	Ends ends(64, mode);
	const std::size_t room = 6 << 20;
	Pages target(room);
	Window window(ends, target.data(), room);
	std::uint64_t number = ~0ull;

	// It is another message than those without a tag.
	Command other = recv(nullptr, 0, 0, 99);
	other.flags = IBRELK_CMD_UNTAGGED;
	KTAP_REQUIRE_EQUAL(ends.post(other), 1);
	for (std::size_t bytes : lengths) {
		for (bool quiet : {false, true}) {
			const auto data = pattern(bytes, static_cast<std::uint32_t>(number));
			auto command = put_and_tell(
				ends.self, data.data(), bytes, target.data(), window.key, --number, 1);
			bool told = false, done = quiet;

			command.flags |= quiet ? IBRELK_CMD_NO_SUCCESS : 0;
			std::memset(target.data(), 0xc3, bytes);
			KTAP_REQUIRE_EQUAL(ends.post({notice(recv(nullptr, 0, 0, 2)), command}), 2);
			while (!told || !done) {
				auto completion = ends.ring.next();

				KTAP_REQUIRE(completion.has_value());
				if (completion->user_data == 1) {
					KTAP_CHECK(!done);
					done = true;
					KTAP_EQUAL(completion->status, 0);
					KTAP_EQUAL(completion->opcode, IBRELK_OP_PUT);
					KTAP_EQUAL(completion->length, bytes);
					continue;
				}
				KTAP_CHECK(!told);
				told = true;
				is_notice(*completion, 2, bytes, number);
				KTAP_CHECK(std::memcmp(target.data(), data.data(), bytes) == 0);
			}
			expect_silence(ends.ring);
		}
	}
	KTAP_REQUIRE_EQUAL(ends.post(cancel(99, 100)), 1);
	expect(ends.ring, 99, -ECANCELED);
	expect(ends.ring, 100, 0);
}

} // namespace

KTAP_TEST(remote__put_tells)
{
	Node node;
	const auto modes = query(node.device.get()).modes;
	auto lengths = sizes(node);

	lengths.push_back(0);
	for (std::uint32_t mode = 1; mode < IBRELK_MODE_COUNT; mode++) {
		if (!(modes & (1u << mode)))
			continue;
		ktap::note("mode " + std::to_string(mode));
		puts_tell(mode,
			mode == IBRELK_MODE_UC_RELIABLE ? lengths : std::vector<std::size_t>{0, 8, 100'000});
	}
}

// What nobody waits for yet waits; it is told in the order of the puts.
KTAP_TEST(remote__put_tells_later)
{
	constexpr std::uint64_t puts = 100, at_once = 30;
	Ends ends(512);
	Pages target(page_size());
	Window window(ends, target.data(), page_size());
	std::byte nowhere[8];
	std::uint64_t told = 0;

	for (std::uint64_t i = 0; i < puts; i++) {
		KTAP_REQUIRE_EQUAL(
			ends.post(put_and_tell(ends.self, &i, sizeof(i), target.data(), window.key, i)), 1);
		expect(ends.ring, 1, 0);
	}
	KTAP_EQUAL(*reinterpret_cast<volatile std::uint64_t *>(target.data()), puts - 1);
	while (told < puts) {
		const auto more = std::min(at_once, puts - told);

		KTAP_REQUIRE_EQUAL(ends.post(notice(recv_multi(nowhere, sizeof(nowhere), at_once, 0, 2))), 1);
		for (std::uint64_t i = 0; i < more; i++) {
			auto completion = ends.ring.next();

			KTAP_REQUIRE(completion.has_value());
			is_notice(*completion, 2, sizeof(i), told++);
		}
		// The last one still waits for more.
		if (more < at_once)
			KTAP_REQUIRE_EQUAL(ends.post(cancel(2, 3)), 1);

		auto released = ends.ring.next();

		KTAP_REQUIRE(released.has_value());
		KTAP_EQUAL(released->status, more < at_once ? -ECANCELED : 0);
		KTAP_CHECK(released->flags & IBRELK_CQE_RELEASED);
		KTAP_EQUAL(released->length, more);
	}
	expect(ends.ring, 3, 0);
}

// Of one that has failed, short or long, only who has tried is told.
KTAP_TEST(remote__put_tells_nothing)
{
	Ends ends;
	const std::size_t room = 1 << 20;
	Pages target(room);
	Window window(ends, target.data(), room);
	const auto data = pattern(room, 3);

	KTAP_REQUIRE_EQUAL(ends.post(notice(recv(nullptr, 0, 0, 2))), 1);
	for (std::size_t bytes : {std::size_t{0}, std::size_t{9}, room}) {
		KTAP_EQUAL(put_status(ends,
				   put_and_tell(
					   ends.self, data.data(), bytes, target.data(), window.key + 1, 5)),
			-EACCES);
		KTAP_EQUAL(put_status(ends,
				   put_and_tell(
					   ends.self, data.data(), bytes, target.data() - 1, window.key, 6)),
			-EFAULT);
	}
	expect_silence(ends.ring);
	// The way is as good as before.
	KTAP_EQUAL(put_status(ends, put(ends.self, data.data(), 9, target.data(), window.key)), 0);
	expect_silence(ends.ring);
}

// The peer's endpoint ends with some of them untold, and the sender's while it tells.
KTAP_TEST(remote__put_tells_and_closes)
{
	for (int round = 0; round < 20; round++) {
		auto target = std::make_unique<Node>();
		auto node = std::make_unique<Node>();
		Pages pages(1 << 20);
		Window window(*target, pages.data(), pages.size());
		const auto data = pattern(pages.size(), 2);
		ibrelk_peer peer{};

		peer.addr = target->address;
		KTAP_REQUIRE_EQUAL(control(node->endpoint.get(), IBRELK_IOC_PEER_ADD, &peer), 0);
		std::uint64_t number = 0;
		for (std::size_t bytes : {std::size_t{9}, pages.size(), std::size_t{0}})
			KTAP_EQUAL(submit(Door::ioctl, node->endpoint.get(),
					   put_and_tell(peer.handle, data.data(), bytes, pages.data(),
						   window.key, 7, number++)),
				1);
		if (round % 2 == 0) {
			node.reset();
			continue;
		}
		target.reset();
		// Each is told once how it ended.
		unsigned puts = 0;

		while (puts != 7) {
			auto completion = node->ring.next();

			KTAP_REQUIRE(completion.has_value());
			KTAP_EQUAL(puts & 1u << completion->user_data, 0u);
			puts |= 1u << completion->user_data;
		}
		expect_silence(node->ring);
	}

	Ends ends;
	Pages pages(page_size());
	Window window(ends, pages.data(), page_size());

	KTAP_EQUAL(put_status(ends, put(ends.self, pages.data(), 9, pages.data(), window.key)), 0);
}

DOOR_TEST(remote__notice_wrong)
{
	Node node;
	const auto wrong = [&](Command command, const std::function<void(Command &)> &change) {
		command = notice(command);
		change(command);
		KTAP_EQUAL(submit(door, node.endpoint.get(), command), -EINVAL);
	};
	std::byte nowhere[8];

	for (const Command &receive : {recv(nowhere, 8, 0), recv_multi(nowhere, 8, 3, 0),
		     look(IBRELK_OP_PROBE, 0), look(IBRELK_OP_CLAIM, 0)}) {
		wrong(receive, [](auto &c) { c.tag++; });
		wrong(receive, [](auto &c) { c.tag = 0; });
		wrong(receive, [](auto &c) { c.ignore = 0; });
		wrong(receive, [](auto &c) { c.ignore = ~0ull; });
		wrong(receive, [](auto &c) { c.ignore--; });
	}
	// Nobody else says so.
	wrong(send(node.self, nowhere, 8, 0), [](auto &) {});
	wrong(send(node.self, nowhere, 8, 0), [](auto &c) { c.ignore = 0; });
	KTAP_EQUAL(submit(door, node.endpoint.get(), notice(look(IBRELK_OP_PROBE, 0, 5))), 1);
	expect(node.ring, 5, -ENOMSG);
}

KTAP_TEST(remote__put_wrong_place)
{
	Ends ends;
	const std::size_t room = 1 << 20;
	Pages target(room + 2 * page_size());
	std::byte *inside = target.data() + page_size();
	Window window(ends, inside, room);
	Window local(ends, inside, room, IBRELK_REGION_WRITE);
	Window second(ends, inside, room);
	const auto data = pattern(room, 3);

	KTAP_EQUAL(local.key, 0u);
	KTAP_CHECK(second.key != window.key);
	std::memset(target.data(), 0xc3, target.size());
	for (std::size_t bytes :
		{std::size_t{1}, std::size_t{100}, std::size_t{5000}, std::size_t{200'000}, room}) {
		for (std::uint64_t key :
			std::initializer_list<std::uint64_t>{0, window.key + 1, window.key ^ 1ull << 63,
				window.key & 0xffffffff, ~window.key, 0x1234567812345678}) {
			if (key == second.key)
				continue;
			KTAP_EQUAL(
				put_status(ends, put(ends.self, data.data(), bytes, inside, key)), -EACCES);
		}
		for (const std::byte *to : {inside - 1, inside - bytes, inside + room - bytes + 1,
			     inside + room, inside + room + 1, static_cast<std::byte *>(nullptr)})
			KTAP_EQUAL(put_status(ends, put(ends.self, data.data(), bytes, to, window.key)),
				-EFAULT);
		for (std::uint64_t to : std::initializer_list<std::uint64_t>{
			     ~0ull, ~0ull - bytes + 1, kernel_address, address_of(inside) + (1ull << 63)})
			KTAP_EQUAL(put_status(ends,
					   put(ends.self, data.data(), bytes, pointer_to(to), window.key)),
				-EFAULT);
		KTAP_CHECK(all_are(target.data(), target.size(), 0xc3));
	}
	KTAP_EQUAL(put_status(ends, put(ends.self, nullptr, 0, inside + room + 1, window.key)), -EFAULT);
	KTAP_EQUAL(put_status(ends, put(ends.self, nullptr, 0, inside, window.key + (1ull << 40))), -EACCES);
	// The way is as good as before.
	KTAP_EQUAL(put_status(ends, put(ends.self, data.data(), room, inside, window.key)), 0);
	KTAP_CHECK(std::memcmp(inside, data.data(), room) == 0);
}

KTAP_TEST(remote__region_wrong)
{
	Node node;
	Pages pages(page_size());
	Pages read_only(page_size(), PROT_READ);
	ibrelk_region_create good{};

	good.addr = address_of(pages.data());
	good.length = page_size();
	good.flags = remote;
	KTAP_EQUAL(window_error(node, good), 0);

	const auto wrong = [&](int error, const std::function<void(ibrelk_region_create &)> &change) {
		auto create = good;

		change(create);
		KTAP_EQUAL(window_error(node, create), error);
	};
	wrong(-EINVAL, [](auto &c) { c.flags = IBRELK_REGION_REMOTE_WRITE; });
	wrong(-EINVAL, [](auto &c) { c.flags = IBRELK_REGION_REMOTE_WRITE | IBRELK_REGION_REMOTE_READ; });
	for (unsigned bit = 3; bit < 32; bit++)
		wrong(-EINVAL, [bit](auto &c) { c.flags |= 1u << bit; });
	for (unsigned bit = 0; bit < 64; bit++)
		wrong(-EINVAL, [bit](auto &c) { c.key = 1ull << bit; });
	wrong(-EINVAL, [](auto &c) { c.length = 0; });
	wrong(-EINVAL, [](auto &c) { c.length = IBRELK_REGION_MAX + 1; });
	wrong(-EFAULT, [&](auto &c) { c.addr = address_of(read_only.data()); });
	wrong(-EFAULT, [](auto &c) { c.addr = kernel_address; });
	wrong(-EFAULT, [](auto &c) { c.addr = hole(); });
}

DOOR_TEST(remote__put_wrong)
{
	Node node;
	Pages pages(page_size());
	Window window(node, pages.data(), page_size());
	const Command good = put(node.self, pages.data(), 8, pages.data(), window.key);
	const auto wrong = [&](int error, const std::function<void(Command &)> &change) {
		auto command = good;

		change(command);
		KTAP_EQUAL(submit(door, node.endpoint.get(), command), error);
	};

	for (unsigned level = 1; level < 256; level++)
		wrong(-EINVAL, [level](auto &c) { c.level = static_cast<std::uint8_t>(level); });
	wrong(-EINVAL, [](auto &c) { c.tag = 1; });
	wrong(-EINVAL, [](auto &c) { c.ignore = 1; });
	wrong(-EINVAL, [](auto &c) { c.immediate = 1; });
	wrong(-EINVAL, [](auto &c) { c.region = 1; });
	wrong(-EINVAL, [](auto &c) { c.messages = 1; });
	wrong(-EINVAL, [](auto &c) { c.room = 1; });
	wrong(-EINVAL, [](auto &c) { c.reserved = 1; });
	wrong(-EINVAL, [](auto &c) { c.flags = IBRELK_CMD_UNTAGGED; });
	wrong(-EINVAL, [](auto &c) { c.opcode = IBRELK_OP_GET, c.flags = IBRELK_CMD_IMMEDIATE; });
	wrong(-EINVAL, [](auto &c) { c.flags = IBRELK_CMD_CLAIMED; });
	wrong(-EOPNOTSUPP, [](auto &c) { c.flags = IBRELK_CMD_REGION; });
	for (unsigned bit = 6; bit < 16; bit++)
		wrong(-EINVAL, [bit](auto &c) { c.flags = static_cast<std::uint16_t>(1u << bit); });
	wrong(-EINVAL, [](auto &c) { c.peer = IBRELK_PEER_ANY; });
	wrong(-ENOENT, [](auto &c) { c.peer += 1000; });
	wrong(-EFAULT, [](auto &c) { c.addr = hole(); });
	wrong(-EFAULT, [](auto &c) { c.addr = kernel_address, c.length = 100'000; });
	wrong(-EINVAL, [](auto &c) { c.length = ~0ull; });
	expect_silence(node.ring);
	KTAP_EQUAL(submit(door, node.endpoint.get(), good), 1);
	expect(node.ring, 1, 0);
}

// A key says nothing about the memory of another process, though it is good there.
KTAP_TEST(remote__region_of_another_process)
{
	Ends ends;
	Pages pages(1 << 20);
	const auto data = pattern(pages.size(), 4);
	int to_parent[2], to_child[2];

	KTAP_REQUIRE_EQUAL(::pipe(to_parent), 0);
	KTAP_REQUIRE_EQUAL(::pipe(to_child), 0);
	std::fflush(stdout);
	const pid_t child = ::fork();
	KTAP_REQUIRE(child >= 0);
	if (child == 0) {
		ibrelk_region_create create{};
		char byte;

		::alarm(120);
		create.addr = address_of(pages.data());
		create.length = pages.size();
		create.flags = remote;
		const int device = ::open(IBRELK_DEVICE_PATH, O_RDWR | O_CLOEXEC);
		if (control(device, IBRELK_IOC_REGION_CREATE, &create))
			create.key = 0;
		if (::write(to_parent[1], &create.key, sizeof(create.key)) != sizeof(create.key) ||
			::read(to_child[0], &byte, 1) != 1)
			::_exit(1);
		::_exit(all_are(pages.data(), pages.size(), 0) ? 0 : 2);
	}

	std::uint64_t key = 0;
	int status = 0;

	KTAP_REQUIRE_EQUAL(::read(to_parent[0], &key, sizeof(key)), static_cast<ssize_t>(sizeof(key)));
	KTAP_CHECK(key != 0);
	for (std::size_t bytes : {std::size_t{100}, pages.size()})
		KTAP_EQUAL(put_status(ends, put(ends.self, data.data(), bytes, pages.data(), key)), -EACCES);
	KTAP_EQUAL(::write(to_child[1], "x", 1), 1);
	KTAP_REQUIRE_EQUAL(::waitpid(child, &status, 0), child);
	KTAP_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	KTAP_CHECK(all_are(pages.data(), pages.size(), 0));
	for (int fd : {to_parent[0], to_parent[1], to_child[0], to_child[1]})
		::close(fd);
}

// Its user closes a descriptor, be it one of several: that is the end. What another process does with the
// ones that it has inherited, and that it forks at all, is not.
KTAP_TEST(remote__region_ends)
{
	Ends ends;
	Pages target(1 << 20);
	const auto data = pattern(target.size(), 5);

	for (std::size_t bytes : {std::size_t{64}, target.size()}) {
		Window window(ends, target.data(), target.size());
		const auto command = put(ends.self, data.data(), bytes, target.data(), window.key);
		const int child = in_child([&] {
			::close(window.fd.get());
			return 0;
		});

		KTAP_EQUAL(child, 0);

		// So do some that are about to start a program, while they share this one's memory.
		posix_spawn_file_actions_t actions;
		char name[] = "/nowhere", *arguments[] = {name, nullptr};
		pid_t other;

		KTAP_REQUIRE_EQUAL(::posix_spawn_file_actions_init(&actions), 0);
		KTAP_REQUIRE_EQUAL(::posix_spawn_file_actions_addclose(&actions, window.fd.get()), 0);
		KTAP_EQUAL(::posix_spawn(&other, name, &actions, nullptr, arguments, arguments), ENOENT);
		::posix_spawn_file_actions_destroy(&actions);
		KTAP_EQUAL(put_status(ends, command), 0);
		KTAP_CHECK(std::memcmp(target.data(), data.data(), bytes) == 0);

		Fd twin(::dup(window.fd.get()));

		twin.close();
		std::memset(target.data(), 0xc3, target.size());
		KTAP_EQUAL(put_status(ends, command), -EACCES);
		window.fd.close();
		KTAP_EQUAL(put_status(ends, command), -EACCES);
		KTAP_CHECK(all_are(target.data(), target.size(), 0xc3));
	}
}

KTAP_TEST(remote__region_unmapped)
{
	Ends ends;
	const auto data = pattern(1 << 20, 6);

	for (std::size_t bytes : {std::size_t{64}, data.size()}) {
		Pages target(1 << 20);
		Window window(ends, target.data(), target.size());
		const auto command = put(ends.self, data.data(), bytes, target.data(), window.key);

		KTAP_EQUAL(put_status(ends, command), 0);
		target.unmap();
		KTAP_EQUAL(put_status(ends, command), -EFAULT);
	}
}

// Where adapters work one may be too late in each round, and in 40 of them all may happen to be in time.
static bool enough(int rounds, int late)
{
	return rounds >= 40 && (!between || late > 0 || rounds >= 1000);
}

// However the end of the region and the puts meet, nothing is written after it.
KTAP_TEST(remote__region_ends_under_way)
{
	Ends ends(1024);
	const std::size_t bytes = 300'000;
	const auto data = pattern(bytes, 9);
	int done[2] = {};

	for (int round = 0; !enough(round, done[1]); round++) {
		Pages target(bytes);
		Window window(ends, target.data(), bytes);
		const std::size_t length = round % 4 == 3 ? 1000 : bytes;
		const int puts = 12;

		for (int i = 0; i < puts; i++)
			KTAP_REQUIRE_EQUAL(
				ends.post(put(ends.self, data.data(), length, target.data(), window.key)), 1);
		// Some of them have been written, in most rounds.
		for (int spin = 0; spin < round % 40 * 20'000; spin++)
			__asm__ volatile("");
		window.fd.close();
		std::memset(target.data(), 0xc3, bytes);
		for (int i = 0; i < puts; i++) {
			auto completion = ends.ring.next();

			KTAP_REQUIRE(completion.has_value());
			KTAP_CHECK(completion->status == 0 || completion->status == -EACCES);
			done[completion->status != 0]++;
		}
		KTAP_CHECK(all_are(target.data(), bytes, 0xc3));
	}
	std::printf("# %d puts arrived, %d were too late\n", done[0], done[1]);
	// What stays on the node is done when it is accepted.
	if (between)
		KTAP_CHECK(done[1] > 0);
}

// The same while another thread goes on with its puts: from some moment on they are refused, and what the
// memory holds after close() stays.
KTAP_TEST(remote__region_ends_beside_a_thread)
{
	Ends ends(1024);
	const std::size_t bytes = 300'000;
	const auto data = pattern(bytes, 8);
	std::atomic<unsigned> arrived = 0;

	for (unsigned round = 0; round < 25; round++) {
		Pages target(bytes);
		Window window(ends, target.data(), bytes);
		std::atomic<bool> closed = false, over = false;
		unsigned wrong = 0, late = 0;
		const unsigned before = arrived;
		std::thread writer([&] {
			unsigned under_way = 0;
			bool stop = false;

			// A few more after close(): they must find nothing, either.
			while (!stop || under_way) {
				const bool was_closed = closed;

				while (!stop && under_way < 6) {
					const std::size_t length = under_way % 3 == 2 ? 900 : bytes;

					wrong += ends.post(put(ends.self, data.data(), length, target.data(),
							 window.key)) != 1;
					under_way++;
				}
				stop = was_closed || wrong;

				auto completion = ends.ring.next();

				if (!completion) {
					wrong++;
					break;
				}
				under_way--;
				wrong += completion->status && completion->status != -EACCES;
				arrived += !completion->status;
				late += completion->status == -EACCES;
			}
			over = true;
		});

		// In every other round one at least has arrived.
		while (round % 2 && arrived == before && !over)
			std::this_thread::yield();
		std::this_thread::sleep_for(std::chrono::microseconds(round * 400));
		window.fd.close();
		std::memset(target.data(), 0xc3, bytes);
		closed = true;
		writer.join();
		KTAP_EQUAL(wrong, 0u);
		KTAP_CHECK(late > 0);
		KTAP_CHECK(all_are(target.data(), bytes, 0xc3));
	}
	KTAP_CHECK(arrived >= 12);
}

KTAP_TEST(remote__put_to_closed_endpoint)
{
	auto target = std::make_unique<Node>();
	Node node;
	Pages pages(1 << 20);
	Window window(*target, pages.data(), pages.size());
	ibrelk_peer peer{};
	const auto data = pattern(pages.size(), 2);

	peer.addr = target->address;
	KTAP_REQUIRE_EQUAL(control(node.endpoint.get(), IBRELK_IOC_PEER_ADD, &peer), 0);
	KTAP_EQUAL(submit(Door::ioctl, node.endpoint.get(),
			   put(peer.handle, data.data(), 9, pages.data(), window.key)),
		1);
	expect(node.ring, 1, 0);
	target.reset();
	for (std::size_t bytes : {std::size_t{9}, pages.size()}) {
		KTAP_EQUAL(submit(Door::ioctl, node.endpoint.get(),
				   put(peer.handle, data.data(), bytes, pages.data(), window.key)),
			1);
		auto completion = node.ring.next();

		KTAP_REQUIRE(completion.has_value());
		KTAP_CHECK(completion->status == -ECONNRESET || completion->status == -ECONNREFUSED);
	}

	// By now it is known, and a send ends in no other way.
	for (const Command &command : {put(peer.handle, data.data(), 9, pages.data(), window.key),
		     send(peer.handle, data.data(), 9, 1, 1)}) {
		KTAP_EQUAL(submit(Door::ioctl, node.endpoint.get(), command), 1);
		expect(node.ring, 1, -ECONNREFUSED);
	}
}

// A process that ends while others put into its memory: they are told.
KTAP_TEST(remote__target_is_killed)
{
	Node node;
	int fds[2];

	KTAP_REQUIRE_EQUAL(::pipe(fds), 0);
	struct {
		ibrelk_addr address;
		std::uint64_t place, key;
	} there{};
	std::fflush(stdout);
	const pid_t child = ::fork();
	KTAP_REQUIRE(child >= 0);
	if (child == 0) {
		::alarm(120);
		Node target;
		Pages pages(4 << 20);
		Window window(target, pages.data(), pages.size());

		there = {.address = target.address, .place = address_of(pages.data()), .key = window.key};
		if (::write(fds[1], &there, sizeof(there)) != sizeof(there))
			::_exit(1);
		for (;;)
			::pause();
	}
	KTAP_REQUIRE_EQUAL(::read(fds[0], &there, sizeof(there)), static_cast<ssize_t>(sizeof(there)));

	ibrelk_peer peer{};
	const auto data = pattern(4 << 20, 1);
	int failed = 0;

	peer.addr = there.address;
	KTAP_REQUIRE_EQUAL(control(node.endpoint.get(), IBRELK_IOC_PEER_ADD, &peer), 0);
	for (int i = 0; i < 40; i++) {
		const auto bytes = i % 2 ? data.size() : 500;

		if (i == 20)
			::kill(child, SIGKILL);
		KTAP_REQUIRE_EQUAL(
			submit(Door::ioctl, node.endpoint.get(),
				put(peer.handle, data.data(), bytes, pointer_to(there.place), there.key)),
			1);
		auto completion = node.ring.next();

		KTAP_REQUIRE(completion.has_value());
		if (i < 20)
			KTAP_EQUAL(completion->status, 0);
		failed += completion->status != 0;
	}
	int status = 0;
	KTAP_REQUIRE_EQUAL(::waitpid(child, &status, 0), child);
	auto command = put(peer.handle, data.data(), 5, pointer_to(there.place), there.key);
	KTAP_REQUIRE_EQUAL(submit(Door::ioctl, node.endpoint.get(), command), 1);
	auto completion = node.ring.next();
	KTAP_REQUIRE(completion.has_value());
	KTAP_CHECK(completion->status != 0);
	::close(fds[0]);
	::close(fds[1]);
}

KTAP_TEST(remote__threads)
{
	Ends ends;
	const std::size_t stretch = 400'000, count = 4;
	Pages target(stretch * count);
	Window window(ends, target.data(), target.size());
	std::vector<std::thread> threads;
	std::atomic<int> wrong = 0;

	// Each from an endpoint of its own.
	for (std::size_t i = 0; i < count; i++)
		threads.emplace_back([&, i] {
			Node node;
			ibrelk_peer peer{};
			std::minstd_rand random(static_cast<std::uint32_t>(i) + 1);
			std::vector<std::uint8_t> is(stretch);
			std::byte *mine = target.data() + i * stretch;

			peer.addr = ends.address;
			wrong += control(node.endpoint.get(), IBRELK_IOC_PEER_ADD, &peer) != 0;
			for (std::uint32_t n = 0; n < 60; n++) {
				const std::size_t from = random() % stretch;
				const std::size_t bytes =
					random() % 3 ? random() % 3000 % (stretch - from) : stretch - from;
				const auto data = pattern(bytes, n);

				std::ranges::copy(data, is.begin() + static_cast<std::ptrdiff_t>(from));
				wrong += submit(Door::ioctl, node.endpoint.get(),
						 put(peer.handle, data.data(), bytes, mine + from,
							 window.key)) != 1;
				auto completion = node.ring.next();
				wrong += !completion || completion->status;
				wrong += std::memcmp(mine, is.data(), stretch) != 0;
			}
		});
	for (auto &thread : threads)
		thread.join();
	KTAP_EQUAL(wrong.load(), 0);
}

// Of many that are under way together each is told what became of it, and counts, refused or not.
KTAP_TEST(remote__put_right_among_wrong)
{
	Ends ends(256);
	const std::size_t count = 30, stretch = 100'000;
	Pages target(count * stretch);
	Window window(ends, target.data(), target.size());
	const auto data = pattern(stretch, 11);
	const auto before = endpoint_info(ends).counters;
	const std::array<int, 3> ending = {0, -EACCES, -EFAULT};
	const auto length = [&](std::size_t i) {
		return i % 2 ? stretch : 100 + i;
	};
	std::vector<Command> commands;

	std::memset(target.data(), 0xc3, target.size());
	for (std::size_t i = 0; i < count; i++) {
		Command command =
			put(ends.self, data.data(), length(i), target.data() + i * stretch, window.key, i);

		if (ending[i % 3] == -EACCES)
			command.remote_key ^= 1ull << 40;
		if (ending[i % 3] == -EFAULT)
			command.remote_addr = address_of(target.data()) + target.size() - length(i) + 1;
		commands.push_back(command);
	}
	for (std::size_t posted = 0; posted < count;) {
		const int accepted = ends.post(std::vector<Command>(
			commands.begin() + static_cast<std::ptrdiff_t>(posted), commands.end()));

		KTAP_REQUIRE(accepted > 0);
		posted += static_cast<std::size_t>(accepted);
	}

	std::vector<bool> seen(count);

	for (std::size_t n = 0; n < count; n++) {
		auto completion = ends.ring.next();

		KTAP_REQUIRE(completion && completion->user_data < count && !seen[completion->user_data]);
		seen[completion->user_data] = true;
		KTAP_EQUAL(completion->status, ending[completion->user_data % 3]);
	}
	expect_silence(ends.ring);
	for (std::size_t i = 0; i < count; i++) {
		const std::size_t written = ending[i % 3] ? 0 : length(i);
		const std::byte *there = target.data() + i * stretch;

		KTAP_CHECK(std::memcmp(there, data.data(), written) == 0);
		KTAP_CHECK(all_are(there + written, stretch - written, 0xc3));
	}
	KTAP_EQUAL(endpoint_info(ends).counters.rx_remote - before.rx_remote, count);
}

// A child has the memory as it was at fork(), the parent what is put, while the child is there and after.
KTAP_TEST(remote__put_beside_a_child)
{
	Ends ends;
	Pages target(1 << 20);
	Window window(ends, target.data(), target.size());
	const auto data = pattern(target.size(), 12);
	int fds[2], status = 0;
	const auto put_all = [&] {
		for (std::size_t bytes : {std::size_t{100}, target.size()}) {
			std::memset(target.data(), 0x11, target.size());
			KTAP_EQUAL(put_status(ends,
					   put(ends.self, data.data(), bytes, target.data(), window.key)),
				0);
			KTAP_CHECK(std::memcmp(target.data(), data.data(), bytes) == 0);
			KTAP_CHECK(all_are(target.data() + bytes, target.size() - bytes, 0x11));
		}
	};

	std::memset(target.data(), 0xc3, target.size());
	KTAP_REQUIRE_EQUAL(::pipe(fds), 0);
	std::fflush(stdout);
	const pid_t child = ::fork();
	KTAP_REQUIRE(child >= 0);
	if (child == 0) {
		char byte;

		::alarm(120);
		if (::read(fds[0], &byte, 1) != 1)
			::_exit(1);
		::_exit(all_are(target.data(), target.size(), 0xc3) ? 0 : 2);
	}
	put_all();
	KTAP_EQUAL(::write(fds[1], "x", 1), 1);
	KTAP_REQUIRE_EQUAL(::waitpid(child, &status, 0), child);
	KTAP_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	put_all();
	::close(fds[0]);
	::close(fds[1]);
}

// The process that has the memory does nothing at all meanwhile.
KTAP_TEST(remote__put_to_stopped_process)
{
	const std::size_t bytes = (1 << 20) + 3, small = 100;
	const auto data = pattern(bytes, 13);
	int to_parent[2], to_child[2], status = 0;
	struct {
		ibrelk_addr address;
		std::uint64_t place, key;
	} there{};

	{
		Node skips_without_a_port;
	}
	KTAP_REQUIRE_EQUAL(::pipe(to_parent), 0);
	KTAP_REQUIRE_EQUAL(::pipe(to_child), 0);
	std::fflush(stdout);
	const pid_t child = ::fork();
	KTAP_REQUIRE(child >= 0);
	if (child == 0) {
		int result = 250;

		::alarm(120);
		try {
			Node target;
			Pages pages(2 << 20);
			Window window(target, pages.data(), pages.size());
			const std::byte *end = pages.data() + 7 + bytes;
			char byte;

			there = {.address = target.address,
				.place = address_of(pages.data()),
				.key = window.key};
			if (::write(to_parent[1], &there, sizeof(there)) != sizeof(there) ||
				::read(to_child[0], &byte, 1) != 1)
				::_exit(1);
			result = std::memcmp(pages.data() + 7, data.data(), bytes) ? 2
				: std::memcmp(end, data.data(), small)             ? 3
				: !all_are(pages.data(), 7, 0)                     ? 4
				: target.ring.tail()                               ? 5
										   : 0;
		} catch (...) {
		}
		::_exit(result);
	}
	::close(to_parent[1]);
	::close(to_child[0]);
	if (::read(to_parent[0], &there, sizeof(there)) != sizeof(there)) {
		::kill(child, SIGKILL);
		::waitpid(child, &status, 0);
		KTAP_REQUIRE(!"the other process has an endpoint");
	}
	KTAP_EQUAL(::kill(child, SIGSTOP), 0);
	KTAP_REQUIRE_EQUAL(::waitpid(child, &status, WUNTRACED), child);
	KTAP_CHECK(WIFSTOPPED(status));
	{
		Node node;
		ibrelk_peer peer{};

		peer.addr = there.address;
		KTAP_EQUAL(control(node.endpoint.get(), IBRELK_IOC_PEER_ADD, &peer), 0);
		KTAP_EQUAL(
			submit(Door::ioctl, node.endpoint.get(),
				{put(peer.handle, data.data(), bytes, pointer_to(there.place + 7), there.key),
					put(peer.handle, data.data(), small,
						pointer_to(there.place + 7 + bytes), there.key)}),
			2);
		for (int both = 0; both < 2; both++) {
			auto completion = node.ring.next();

			KTAP_CHECK(completion && !completion->status);
		}
	}
	KTAP_EQUAL(::kill(child, SIGCONT), 0);
	KTAP_EQUAL(::write(to_child[1], "x", 1), 1);
	KTAP_REQUIRE_EQUAL(::waitpid(child, &status, 0), child);
	KTAP_CHECK(WIFEXITED(status));
	KTAP_EQUAL(WEXITSTATUS(status), 0);
	::close(to_parent[0]);
	::close(to_child[1]);
}

KTAP_TEST(remote__get_fetches)
{
	Ends ends;
	const std::size_t room = 6 << 20;
	Pages source(room), target(room + 2);
	Window window(ends, source.data(), room, IBRELK_REGION_REMOTE_READ);
	const auto before = endpoint_info(ends).counters;
	std::uint64_t gets = 0;

	for (std::size_t bytes : sizes(ends)) {
		for (std::size_t from :
			{std::size_t{0}, std::size_t{4095}, room - bytes - 4000, room - bytes}) {
			const auto data = pattern(bytes, static_cast<std::uint32_t>(from));

			std::memset(target.data(), 0xc3, bytes + 2);
			const LongIsWritten way(ends, bytes);

			std::memcpy(source.data() + from, data.data(), bytes);
			KTAP_EQUAL(put_status(ends,
					   get(ends.self, target.data() + 1, bytes, source.data() + from,
						   window.key)),
				0);
			way.check();
			gets++;
			KTAP_CHECK(std::memcmp(target.data() + 1, data.data(), bytes) == 0);
			KTAP_CHECK(target.data()[0] == std::byte{0xc3} &&
				target.data()[bytes + 1] == std::byte{0xc3});
			KTAP_CHECK(std::memcmp(source.data() + from, data.data(), bytes) == 0);
		}
	}
	KTAP_EQUAL(put_status(ends, get(ends.self, nullptr, 0, source.data() + room, window.key)), 0);
	gets++;
	expect_silence(ends.ring);
	KTAP_EQUAL(endpoint_info(ends).counters.rx_remote - before.rx_remote, gets);

	// In pieces, and without a word.
	const auto data = pattern(300'000, 3);
	std::vector<std::byte> back(data.size());
	const ibrelk_iovec pieces[] = {{.addr = address_of(back.data() + 100'000), .length = 200'000},
		{.addr = address_of(back.data()), .length = 100'000}};
	auto command = get(ends.self, const_cast<ibrelk_iovec *>(pieces), 2, source.data() + 7, window.key);

	std::memcpy(source.data() + 7, data.data(), data.size());
	command.flags = IBRELK_CMD_IOVEC;
	KTAP_EQUAL(put_status(ends, command), 0);
	KTAP_CHECK(std::memcmp(back.data() + 100'000, data.data(), 200'000) == 0);
	KTAP_CHECK(std::memcmp(back.data(), data.data() + 200'000, 100'000) == 0);
	command = get(ends.self, back.data(), 8, source.data(), window.key);
	command.flags = IBRELK_CMD_NO_SUCCESS;
	KTAP_REQUIRE_EQUAL(ends.post(command), 1);
	command.remote_key ^= 1ull << 50;
	KTAP_EQUAL(put_status(ends, command), -EACCES);
}

// What the process writes after the region was made is what others read, also of memory that it had not
// written yet, or shares with a child; and memory that nobody can write may be a region, too.
KTAP_TEST(remote__get_what_was_written_since)
{
	Ends ends;
	const std::size_t bytes = 200'000;
	Pages source(bytes);
	std::vector<std::byte> target(bytes);
	int fds[2];

	KTAP_REQUIRE_EQUAL(::pipe(fds), 0);
	for (int value : {1, 2}) {
		Window window(ends, source.data(), bytes, IBRELK_REGION_REMOTE_READ);
		const pid_t child = ::fork();

		KTAP_REQUIRE(child >= 0);
		if (child == 0) {
			char byte;

			::close(fds[1]);
			::_exit(::read(fds[0], &byte, 1) == 1 && all_are(source.data(), bytes, value - 1)
					? 0
					: 1);
		}
		std::memset(source.data(), value, bytes);
		for (std::size_t size : {std::size_t{100}, bytes}) {
			KTAP_EQUAL(put_status(ends,
					   get(ends.self, target.data(), size, source.data(), window.key)),
				0);
			KTAP_CHECK(all_are(target.data(), size, value));
		}

		int status = 0;

		KTAP_EQUAL(::write(fds[1], "x", 1), 1);
		KTAP_REQUIRE_EQUAL(::waitpid(child, &status, 0), child);
		KTAP_EQUAL(status, 0);
	}
	source.protect(PROT_READ);

	Window fixed(ends, source.data(), bytes, IBRELK_REGION_REMOTE_READ);

	std::ranges::fill(target, std::byte{0});
	KTAP_EQUAL(put_status(ends, get(ends.self, target.data(), bytes, source.data(), fixed.key)), 0);
	KTAP_CHECK(all_are(target.data(), bytes, 2));
	::close(fds[0]);
	::close(fds[1]);
}

KTAP_TEST(remote__get_after_put)
{
	Ends ends;
	Pages target(page_size());
	Window window(ends, target.data(), page_size());

	for (std::uint64_t i = 1; i <= 100; i++) {
		std::uint64_t got = 0;

		KTAP_REQUIRE_EQUAL(ends.post({put(ends.self, &i, sizeof(i), target.data(), window.key, 1),
					   get(ends.self, &got, sizeof(got), target.data(), window.key, 2)}),
			2);
		for (int n = 0; n < 2; n++) {
			auto completion = ends.ring.next();

			KTAP_REQUIRE(completion.has_value());
			KTAP_EQUAL(completion->status, 0);
		}
		KTAP_EQUAL(got, i);
	}
}

KTAP_TEST(remote__get_wrong_place)
{
	Ends ends;
	const std::size_t room = 1 << 20;
	Pages source(room + 2 * page_size()), read_only(page_size(), PROT_READ);
	std::byte *inside = source.data() + page_size();
	Window window(ends, inside, room);
	Window writable(ends, inside, room, IBRELK_REGION_WRITE | IBRELK_REGION_REMOTE_WRITE);
	Window readable(ends, inside, room, IBRELK_REGION_REMOTE_READ);
	std::vector<std::byte> target(room, std::byte{0xc3});

	std::memset(source.data(), 0x11, source.size());
	for (std::size_t bytes :
		{std::size_t{1}, std::size_t{100}, std::size_t{5000}, std::size_t{200'000}, room}) {
		for (std::uint64_t key :
			std::initializer_list<std::uint64_t>{0, window.key ^ 1ull << 63, writable.key})
			KTAP_EQUAL(
				put_status(ends, get(ends.self, target.data(), bytes, inside, key)), -EACCES);
		for (const std::byte *from : {inside - 1, inside + room - bytes + 1, inside + room + 1,
			     static_cast<std::byte *>(nullptr)})
			KTAP_EQUAL(put_status(ends, get(ends.self, target.data(), bytes, from, window.key)),
				-EFAULT);
		KTAP_CHECK(all_are(target.data(), room, 0xc3));
		KTAP_EQUAL(put_status(ends, put(ends.self, target.data(), bytes, inside, readable.key)),
			-EACCES);
		KTAP_CHECK(all_are(inside, room, 0x11));
	}
	KTAP_EQUAL(ends.post(get(ends.self, read_only.data(), 8, inside, window.key)), -EFAULT);
	KTAP_EQUAL(put_status(ends, get(ends.self, target.data(), room, inside, window.key)), 0);
	KTAP_CHECK(all_are(target.data(), room, 0x11));
}

KTAP_TEST(remote__get_region_ends)
{
	Ends ends(1024);
	const std::size_t bytes = 300'000;
	std::vector<std::vector<std::byte>> targets(12, std::vector<std::byte>(bytes));
	int done[2] = {};

	for (int round = 0; !enough(round, done[1]); round++) {
		Pages source(bytes);
		Window window(ends, source.data(), bytes);
		const std::size_t length = round % 4 == 3 ? 1000 : bytes;

		std::memset(source.data(), 0x11, bytes);
		for (auto &target : targets)
			KTAP_REQUIRE_EQUAL(
				ends.post(get(ends.self, target.data(), length, source.data(), window.key)),
				1);
		for (int spin = 0; spin < round % 40 * 20'000; spin++)
			__asm__ volatile("");
		window.fd.close();
		// Nobody reads this.
		std::memset(source.data(), 0x22, bytes);
		for (std::size_t i = 0; i < targets.size(); i++) {
			auto completion = ends.ring.next();

			KTAP_REQUIRE(completion.has_value());
			KTAP_CHECK(completion->status == 0 || completion->status == -EACCES);
			done[completion->status != 0]++;
		}
		for (auto &target : targets) {
			KTAP_CHECK(std::ranges::find(target, std::byte{0x22}) == target.end());
			std::ranges::fill(target, std::byte{0});
		}
	}
	std::printf("# %d gets were answered, %d were too late\n", done[0], done[1]);
	if (between)
		KTAP_CHECK(done[1] > 0);
}

KTAP_TEST(remote__get_unmapped)
{
	Ends ends;
	std::vector<std::byte> target(1 << 20);

	for (std::size_t bytes : {std::size_t{64}, target.size()}) {
		Pages source(1 << 20);
		Window window(ends, source.data(), source.size());
		const auto command = get(ends.self, target.data(), bytes, source.data(), window.key);

		KTAP_EQUAL(put_status(ends, command), 0);
		source.unmap();
		KTAP_EQUAL(put_status(ends, command), -EFAULT);
	}
}

// The endpoint that asks is closed before the answers have come, and the one that is asked.
KTAP_TEST(remote__get_and_close)
{
	const std::size_t bytes = 500'000;
	Pages source(bytes), target(bytes);

	for (int round = 0; round < 20; round++) {
		Ends ends;
		Window window(ends, source.data(), bytes);

		for (int i = 0; i < 8; i++)
			KTAP_REQUIRE_EQUAL(ends.post(get(ends.self, target.data(), i % 2 ? bytes : 100,
						   source.data(), window.key)),
				1);
		if (round % 2)
			ends.endpoint.close();
		else
			(between ? ends.sender : ends.endpoint).close();
		for (int i = 0; i < 8; i++) {
			auto completion = ends.ring.next();

			KTAP_REQUIRE(completion.has_value());
			KTAP_CHECK(completion->status == 0 || completion->status == -ECONNRESET ||
				completion->status == -ECONNREFUSED);
		}
	}
}

} // namespace abi
