// SPDX-License-Identifier: GPL-2.0-only
//
// Atomics: a peer's kernel computes in a region of a process that has no part in it. With --between, adapters
// carry them.
#include "abi_remote.hpp"

#include <cstring>
#include <limits>
#include <set>
#include <type_traits>

namespace abi
{
namespace
{

Command atomic(std::uint32_t peer, std::uint32_t what, const void *operand, const void *compare, void *before,
	std::uint64_t bytes, const void *at, std::uint64_t key, std::uint64_t user_data = 1)
{
	Command command = put(peer, operand, bytes, at, key, user_data);

	command.opcode = IBRELK_OP_ATOMIC;
	command.messages = what;
	command.ignore = address_of(compare);
	command.tag = address_of(before);
	return command;
}

constexpr std::uint32_t sum_64 = IBRELK_ATOMIC(IBRELK_ATOMIC_SUM, IBRELK_ATOMIC_U64);
constexpr std::uint32_t read_64 = IBRELK_ATOMIC(IBRELK_ATOMIC_READ, IBRELK_ATOMIC_U64);
constexpr std::uint32_t write_64 = IBRELK_ATOMIC(IBRELK_ATOMIC_WRITE, IBRELK_ATOMIC_U64);
constexpr std::uint32_t swap_64 = IBRELK_ATOMIC(IBRELK_ATOMIC_CSWAP, IBRELK_ATOMIC_U64);

template<class T>
constexpr std::uint32_t type_of = 1 + !std::is_signed_v<T> + 2 * (sizeof(T) == 8);

// What libfabric's manual says of each.
template<class T>
T computed(std::uint32_t op, T old, T operand, T compare)
{
	using U = std::make_unsigned_t<T>;
	const U left = static_cast<U>(old), right = static_cast<U>(operand), mask = static_cast<U>(compare);

	switch (op) {
	case IBRELK_ATOMIC_MIN: return std::min(old, operand);
	case IBRELK_ATOMIC_MAX: return std::max(old, operand);
	case IBRELK_ATOMIC_SUM: return static_cast<T>(left + right);
	case IBRELK_ATOMIC_PROD: return static_cast<T>(left * right);
	case IBRELK_ATOMIC_LOR: return old || operand;
	case IBRELK_ATOMIC_LAND: return old && operand;
	case IBRELK_ATOMIC_BOR: return static_cast<T>(left | right);
	case IBRELK_ATOMIC_BAND: return static_cast<T>(left & right);
	case IBRELK_ATOMIC_LXOR: return (old != 0) != (operand != 0);
	case IBRELK_ATOMIC_BXOR: return static_cast<T>(left ^ right);
	case IBRELK_ATOMIC_READ: return old;
	case IBRELK_ATOMIC_WRITE: return operand;
	case IBRELK_ATOMIC_CSWAP: return compare == old ? operand : old;
	case IBRELK_ATOMIC_CSWAP_NE: return compare != old ? operand : old;
	case IBRELK_ATOMIC_CSWAP_LE: return compare <= old ? operand : old;
	case IBRELK_ATOMIC_CSWAP_LT: return compare < old ? operand : old;
	case IBRELK_ATOMIC_CSWAP_GE: return compare >= old ? operand : old;
	case IBRELK_ATOMIC_CSWAP_GT: return compare > old ? operand : old;
	case IBRELK_ATOMIC_MSWAP: return static_cast<T>((right & mask) | (left & ~mask));
	default: KTAP_REQUIRE(false); return old;
	}
}

// Every operation on elements that meet every other kind of number, at a place that goes over the end of a
// page.
template<class T>
void compute_all(Ends &ends)
{
	constexpr std::size_t count = IBRELK_ATOMIC_BYTES / sizeof(T);
	const std::array<T, 8> kinds = {0, 1, 2, std::numeric_limits<T>::max(), std::numeric_limits<T>::min(),
		static_cast<T>(-1), static_cast<T>(0x5a5a5a5a5a5a5a5a),
		static_cast<T>(1ull << (sizeof(T) * 8 - 2))};
	Pages target(2 * page_size());
	Window window(ends, target.data(), target.size());
	T *const there = reinterpret_cast<T *>(target.data() + page_size()) - count / 2;
	std::minstd_rand random(sizeof(T));

	for (std::uint32_t op = IBRELK_ATOMIC_MIN; op <= IBRELK_ATOMIC_MSWAP; op++)
		for (std::size_t round = 0; round < 24; round++) {
			const std::size_t n = round < 16 ? count : 1 + random() % count;
			const bool fetches = round % 2 == 0 || op == IBRELK_ATOMIC_READ;
			std::array<T, count> operand{}, compare{};
			std::array<T, count + 2> old{}, before{};

			for (std::size_t i = 0; i < count; i++) {
				operand[i] = kinds[random() % kinds.size()];
				compare[i] = kinds[random() % kinds.size()];
			}
			before.fill(static_cast<T>(77));
			for (auto &value : old)
				value = kinds[random() % kinds.size()];
			if (round % 3 == 0)
				std::copy(old.begin() + 1, old.begin() + 1 + count, compare.begin());
			std::ranges::copy(old, there - 1);

			const auto command = atomic(ends.self, IBRELK_ATOMIC(op, type_of<T>),
				op == IBRELK_ATOMIC_READ ? nullptr : operand.data(),
				op >= IBRELK_ATOMIC_CSWAP ? compare.data() : nullptr,
				fetches ? before.data() + 1 : nullptr, n * sizeof(T), there, window.key);

			KTAP_EQUAL(put_status(ends, command), 0);
			KTAP_CHECK(there[-1] == old[0]);
			for (std::size_t i = 0; i < count; i++)
				KTAP_EQUAL(there[i],
					i < n ? computed(op, old[i + 1], operand[i], compare[i])
					      : old[i + 1]);
			KTAP_CHECK(there[count] == old[count + 1]);
			for (std::size_t i = 0; i < before.size(); i++)
				KTAP_EQUAL(
					before[i], fetches && i > 0 && i <= n ? old[i] : static_cast<T>(77));
		}
}

} // namespace

KTAP_TEST(remote__atomic_computes)
{
	Ends ends;
	const auto before = endpoint_info(ends).counters;

	compute_all<std::int32_t>(ends);
	compute_all<std::uint32_t>(ends);
	compute_all<std::int64_t>(ends);
	compute_all<std::uint64_t>(ends);
	expect_silence(ends.ring);

	const auto after = endpoint_info(ends).counters;

	KTAP_EQUAL(after.rx_remote - before.rx_remote, 4u * 19 * 24);
	if (!between)
		KTAP_EQUAL(after.tx_remote - before.tx_remote, 4u * 19 * 24);
	KTAP_EQUAL(after.unexpected_messages, before.unexpected_messages);
}

// Some count from endpoints of their own, and some are threads of the process: each number is taken once.
KTAP_TEST(remote__atomic_is_atomic)
{
	Ends ends;
	Pages target(page_size());
	Window window(ends, target.data(), target.size());
	auto *const counter = reinterpret_cast<std::uint64_t *>(target.data());
	constexpr std::size_t peers = 3, locals = 2, times = 400;
	std::array<std::vector<std::uint64_t>, peers + locals> taken;
	std::vector<std::thread> threads;
	std::atomic<std::size_t> counting = peers;
	std::atomic<int> wrong = 0;

	for (std::size_t i = 0; i < peers; i++)
		threads.emplace_back([&, i] {
			Node node;
			ibrelk_peer peer{};
			const std::uint64_t one = 1;
			std::uint64_t before = 0;

			peer.addr = ends.address;
			wrong += control(node.endpoint.get(), IBRELK_IOC_PEER_ADD, &peer) != 0;
			for (std::size_t n = 0; n < times; n++) {
				wrong += submit(Door::ioctl, node.endpoint.get(),
						 atomic(peer.handle, sum_64, &one, nullptr, &before, 8,
							 counter, window.key)) != 1;
				auto completion = node.ring.next();
				wrong += !completion || completion->status;
				taken[i].push_back(before);
			}
			counting--;
		});
	for (std::size_t i = peers; i < peers + locals; i++)
		threads.emplace_back([&, i] {
			while (counting > 0) {
				taken[i].push_back(__atomic_fetch_add(counter, 1, __ATOMIC_SEQ_CST));
				::sched_yield();
			}
		});
	for (auto &thread : threads)
		thread.join();
	KTAP_EQUAL(wrong.load(), 0);

	std::set<std::uint64_t> all;
	std::size_t count = 0;

	for (const auto &numbers : taken) {
		KTAP_CHECK(std::ranges::is_sorted(numbers));
		all.insert(numbers.begin(), numbers.end());
		count += numbers.size();
	}
	KTAP_EQUAL(all.size(), count);
	KTAP_EQUAL(*counter, count);
	KTAP_EQUAL(*all.rbegin(), count - 1);
}

// Many at a time: each finds what the last one left.
KTAP_TEST(remote__atomic_in_order)
{
	Ends ends(256);
	Pages target(page_size());
	Window window(ends, target.data(), target.size());
	constexpr std::size_t count = 40;
	std::array<std::uint64_t, count> written, compare, found, swapped;

	for (std::uint64_t round = 1; round <= 20; round++) {
		std::vector<Command> commands;

		for (std::size_t i = 0; i < count; i++) {
			written[i] = round * 1000 + i;
			compare[i] = written[i];
			found[i] = swapped[i] = 0;
			commands.push_back(atomic(ends.self, write_64, &written[i], nullptr, nullptr, 8,
				target.data() + 8, window.key));
			commands.push_back(atomic(ends.self, read_64, nullptr, nullptr, &found[i], 8,
				target.data() + 8, window.key));
			commands.push_back(atomic(ends.self, swap_64, &round, &compare[i], &swapped[i], 8,
				target.data() + 8, window.key));
		}
		for (std::size_t posted = 0; posted < commands.size();) {
			const int accepted = ends.post(std::vector<Command>(
				commands.begin() + static_cast<std::ptrdiff_t>(posted), commands.end()));

			KTAP_REQUIRE(accepted > 0);
			posted += static_cast<std::size_t>(accepted);
		}
		for (std::size_t i = 0; i < commands.size(); i++) {
			auto completion = ends.ring.next();

			KTAP_REQUIRE(completion.has_value());
			KTAP_EQUAL(completion->status, 0);
		}
		for (std::size_t i = 0; i < count; i++) {
			KTAP_EQUAL(found[i], written[i]);
			KTAP_EQUAL(swapped[i], written[i]);
		}
		KTAP_EQUAL(*reinterpret_cast<std::uint64_t *>(target.data() + 8), round);
	}
	expect_silence(ends.ring);
}

KTAP_TEST(remote__atomic_wrong_place)
{
	Ends ends;
	Pages target(page_size());
	std::byte *const inside = target.data() + 64;
	Window window(ends, inside, 128);
	Window written(ends, inside, 128, IBRELK_REGION_WRITE | IBRELK_REGION_REMOTE_WRITE);
	Window read(ends, inside, 128, IBRELK_REGION_REMOTE_READ);
	const std::uint64_t one[8] = {1, 1, 1, 1, 1, 1, 1, 1};
	std::uint64_t before[8] = {77, 77, 77, 77, 77, 77, 77, 77};
	const auto sum = [&](const void *at, std::uint64_t key, bool fetches, std::uint64_t bytes = 16) {
		return put_status(ends,
			atomic(ends.self, sum_64, one, nullptr, fetches ? before : nullptr, bytes, at, key));
	};
	const auto look = [&](const void *at, std::uint64_t key) {
		return put_status(ends, atomic(ends.self, read_64, nullptr, nullptr, before, 16, at, key));
	};

	std::memset(target.data(), 0xc3, target.size());
	for (bool fetches : {false, true}) {
		KTAP_EQUAL(sum(inside, window.key ^ 1ull << 40, fetches), -EACCES);
		KTAP_EQUAL(sum(inside, 0, fetches), -EACCES);
		KTAP_EQUAL(sum(inside, read.key, fetches), -EACCES);
		KTAP_EQUAL(sum(inside - 8, window.key, fetches), -EFAULT);
		KTAP_EQUAL(sum(inside + 120, window.key, fetches), -EFAULT);
		KTAP_EQUAL(sum(inside + 128, window.key, fetches), -EFAULT);
		KTAP_EQUAL(sum(inside + 72, window.key, fetches, 64), -EFAULT);
		KTAP_EQUAL(sum(pointer_to(~0ull - 7), window.key, fetches), -EFAULT);
		KTAP_EQUAL(sum(pointer_to(kernel_address), window.key, fetches), -EFAULT);
	}
	KTAP_EQUAL(sum(inside, written.key, true), -EACCES);
	KTAP_EQUAL(look(inside, written.key), -EACCES);
	KTAP_CHECK(all_are(target.data(), target.size(), 0xc3));
	KTAP_EQUAL(before[0], 77u);

	KTAP_EQUAL(look(inside + 112, read.key), 0);
	KTAP_EQUAL(before[1], 0xc3c3c3c3c3c3c3c3u);
	KTAP_EQUAL(before[2], 77u);
	KTAP_EQUAL(sum(inside + 112, written.key, false), 0);
	KTAP_EQUAL(look(inside + 112, window.key), 0);
	KTAP_EQUAL(before[1], 0xc3c3c3c3c3c3c3c4u);
	KTAP_EQUAL(sum(inside + 64, window.key, true, 64), 0);
	KTAP_EQUAL(before[7], 0xc3c3c3c3c3c3c3c4u);
	target.unmap();
	KTAP_EQUAL(sum(inside, window.key, false), -EFAULT);
	KTAP_EQUAL(sum(inside, window.key, true), -EFAULT);

	// All of it is there, or nothing is computed.
	Pages halves(2 * page_size());
	Window both(ends, halves.data(), halves.size());
	std::byte *const edge = halves.data() + page_size();

	KTAP_EQUAL(sum(edge - 8, both.key, false), 0);
	KTAP_REQUIRE_EQUAL(::munmap(edge, page_size()), 0);
	KTAP_EQUAL(sum(edge - 8, both.key, false), -EFAULT);
	KTAP_EQUAL(sum(edge - 16, both.key, false), 0);
	KTAP_EQUAL(*reinterpret_cast<std::uint64_t *>(edge - 16), 1u);
	KTAP_EQUAL(*reinterpret_cast<std::uint64_t *>(edge - 8), 2u);
}

DOOR_TEST(remote__atomic_wrong)
{
	Node node;
	Pages pages(page_size()), read_only(page_size(), PROT_READ);
	Window window(node, pages.data(), page_size());
	const Command good = atomic(
		node.self, sum_64, pages.data(), nullptr, pages.data(), 8, pages.data() + 8, window.key);
	const auto wrong = [&](int error, const std::function<void(Command &)> &change) {
		auto command = good;

		change(command);
		KTAP_EQUAL(submit(door, node.endpoint.get(), command), error);
	};

	for (unsigned level = 1; level < 256; level++)
		wrong(-EINVAL, [level](auto &c) { c.level = static_cast<std::uint8_t>(level); });
	for (unsigned op : {0, 20, 21, 31, 32, 33, 35, 63, 67, 128, 131, 255, 256, 259, 4096, 32768, 65535})
		wrong(-EINVAL, [op](auto &c) { c.messages = IBRELK_ATOMIC(op, IBRELK_ATOMIC_U64); });
	for (unsigned type : {0, 5, 6, 7, 8, 16, 256, 32768, 65535})
		wrong(-EINVAL, [type](auto &c) { c.messages = IBRELK_ATOMIC(IBRELK_ATOMIC_SUM, type); });
	for (std::uint64_t length :
		std::initializer_list<std::uint64_t>{0, 1, 4, 7, 9, 12, 60, 65, 72, 1ull << 32, ~0ull})
		wrong(-EINVAL, [length](auto &c) { c.length = length; });
	for (unsigned off = 1; off < 8; off++)
		wrong(-EINVAL, [off](auto &c) { c.remote_addr += off; });
	wrong(-EINVAL, [](auto &c) {
		c.messages = IBRELK_ATOMIC(IBRELK_ATOMIC_SUM, IBRELK_ATOMIC_U32), c.remote_addr += 2;
	});
	wrong(-EINVAL, [](auto &c) {
		c.messages = IBRELK_ATOMIC(IBRELK_ATOMIC_SUM, IBRELK_ATOMIC_S32), c.length = 6;
	});
	wrong(-EINVAL, [](auto &c) { c.ignore = c.addr; });
	wrong(-EINVAL, [](auto &c) { c.messages = read_64; });
	wrong(-EINVAL, [](auto &c) { c.messages = read_64, c.addr = c.tag = 0; });
	wrong(-EINVAL, [](auto &c) { c.immediate = 1; });
	wrong(-EINVAL, [](auto &c) { c.region = 1; });
	wrong(-EINVAL, [](auto &c) { c.room = 1; });
	wrong(-EINVAL, [](auto &c) { c.reserved = 1; });
	wrong(-EOPNOTSUPP, [](auto &c) { c.flags = IBRELK_CMD_REGION; });
	for (unsigned bit = 1; bit < 16; bit++)
		if (1u << bit != IBRELK_CMD_REGION)
			wrong(-EINVAL, [bit](auto &c) { c.flags = static_cast<std::uint16_t>(1u << bit); });
	wrong(-EINVAL, [](auto &c) { c.peer = IBRELK_PEER_ANY; });
	wrong(-ENOENT, [](auto &c) { c.peer += 1000; });
	for (std::uint64_t nowhere :
		std::initializer_list<std::uint64_t>{hole(), kernel_address, ~0ull - 7}) {
		wrong(-EFAULT, [nowhere](auto &c) { c.addr = nowhere; });
		wrong(-EFAULT, [nowhere](auto &c) { c.tag = nowhere; });
		wrong(-EFAULT, [nowhere](auto &c) { c.messages = swap_64, c.ignore = nowhere; });
	}
	wrong(-EFAULT, [](auto &c) { c.addr = 0; });
	wrong(-EFAULT, [](auto &c) { c.messages = swap_64; });
	wrong(-EFAULT, [&](auto &c) { c.tag = address_of(read_only.data()); });
	expect_silence(node.ring);
	KTAP_CHECK(all_are(pages.data(), page_size(), 0));

	auto quiet = good;

	quiet.flags = IBRELK_CMD_NO_SUCCESS;
	KTAP_EQUAL(submit(door, node.endpoint.get(), quiet), 1);
	KTAP_EQUAL(submit(door, node.endpoint.get(), good), 1);
	expect(node.ring, 1, 0);
	expect_silence(node.ring);
}

// The endpoint that asks is closed, or the one that is asked: what was computed was so once.
KTAP_TEST(remote__atomic_and_close)
{
	for (int round = 0; round < 20; round++) {
		Ends ends;
		Pages target(page_size());
		Window window(ends, target.data(), target.size());
		const std::uint64_t one = 1;
		std::uint64_t before[8], good = 0;
		std::set<std::uint64_t> found;

		for (std::uint64_t i = 0; i < 8; i++) {
			before[i] = 77;
			KTAP_REQUIRE_EQUAL(
				ends.post(atomic(ends.self, sum_64, &one, nullptr,
					i % 2 ? &before[i] : nullptr, 8, target.data(), window.key, i)),
				1);
		}
		if (round % 2)
			ends.endpoint.close();
		else
			(between ? ends.sender : ends.endpoint).close();
		for (int i = 0; i < 8; i++) {
			auto completion = ends.ring.next();

			KTAP_REQUIRE(completion && completion->user_data < 8);
			KTAP_CHECK(completion->status == 0 || completion->status == -ECONNRESET ||
				completion->status == -ECONNREFUSED);
			// What was copied is sent all the same, as of a message; it has its answer to wait
			// for.
			if (between && round % 2 == 0 && completion->user_data % 2 == 0)
				KTAP_EQUAL(completion->status, 0);
			good += !completion->status;
			if (!completion->status && completion->user_data % 2)
				KTAP_EQUAL(before[completion->user_data], completion->user_data);
			else
				KTAP_EQUAL(before[completion->user_data], 77u);
		}
		window.fd.close();

		const auto counted = *reinterpret_cast<volatile std::uint64_t *>(target.data());

		KTAP_CHECK(counted >= good && counted <= 8);
	}
}

} // namespace abi
