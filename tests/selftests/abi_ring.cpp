// SPDX-License-Identifier: GPL-2.0-only
//
// Completion rings: making, mapping, waiting; full ones, and nonsense in the shared pages.
#include "abi.hpp"

#include <fstream>

namespace abi
{
namespace
{

// ---- making rings --------------------------------------------------------------------------------

KTAP_TEST(ring_create__bad_requests)
{
	NoLeak no_leak;
	Fd device = open_device();
	std::uint32_t max = query(device.get()).ring_entries_max;
	const std::array<std::function<void(ibrelk_ring_create &)>, 7> wrong = {
		[](auto &create) { create.entries = 0; },
		[&](auto &create) { create.entries = max + 1; },
		[](auto &create) { create.entries = ~0u; },
		[](auto &create) { create.flags = 1; },
		[](auto &create) { create.flags = 1u << 31; },
		[](auto &create) { create.reserved0 = 1; },
		[](auto &create) { create.reserved[3] = 1ull << 63; },
	};

	for (std::size_t i = 0; i < wrong.size(); i++) {
		auto create = ring_request(4);

		wrong[i](create);

		auto before = create;

		if (!ktap::equal(__FILE__, __LINE__, "result",
			    control(device.get(), IBRELK_IOC_RING_CREATE, &create), -EINVAL))
			ktap::note("in case ", i);
		KTAP_EQUAL(std::memcmp(&before, &create, sizeof(create)), 0);
	}
}

KTAP_TEST(ring_create__sizes)
{
	Fd device = open_device();
	std::uint32_t max = query(device.get()).ring_entries_max;
	const std::array<std::pair<std::uint32_t, std::uint32_t>, 7> sizes = {
		{{1, 1}, {2, 2}, {3, 4}, {5, 8}, {1000, 1024}, {max - 1, max}, {max, max}}};

	for (auto [wanted, given] : sizes) {
		NoLeak no_leak;
		Ring ring(device.get(), wanted);

		KTAP_EQUAL(ring.size, given);
		KTAP_EQUAL(ring.map->size() % page_size(), 0);
		KTAP_EQUAL(ring.header->entries, given);
		KTAP_EQUAL(ring.header->tail, 0);
		KTAP_EQUAL(ring.header->head, 0);
		KTAP_EQUAL(ring.header->flags, 0);
		KTAP_CHECK(ring.header->entries_offset >= sizeof(ibrelk_ring_header));
		KTAP_CHECK(ring.header->entries_offset + std::uint64_t{given} * sizeof(Completion) <=
			ring.map->size());
		KTAP_EQUAL(::fcntl(ring.fd.get(), F_GETFD), FD_CLOEXEC);
		// Nothing of what was in that memory before may be seen.
		KTAP_CHECK(std::all_of(ring.map->data() + ring.header->entries_offset,
			ring.map->data() + ring.map->size(),
			[](std::byte byte) { return byte == std::byte{}; }));
	}
}

KTAP_TEST(ring_create__no_descriptor_left)
{
	Fd device = open_device();
	NoLeak no_leak;
	rlimit before{};
	int lowest = ::dup(device.get());

	::close(lowest);
	KTAP_REQUIRE_EQUAL(::getrlimit(RLIMIT_NOFILE, &before), 0);

	rlimit tight = before;

	tight.rlim_cur = static_cast<rlim_t>(lowest);
	KTAP_REQUIRE_EQUAL(::setrlimit(RLIMIT_NOFILE, &tight), 0);

	auto create = ring_request(4);
	int result = control(device.get(), IBRELK_IOC_RING_CREATE, &create);

	KTAP_REQUIRE_EQUAL(::setrlimit(RLIMIT_NOFILE, &before), 0);
	KTAP_EQUAL(result, -EMFILE);
}

// ---- mapping rings -------------------------------------------------------------------------------

KTAP_TEST(ring_map__bad_mappings)
{
	Fd device = open_device();
	Ring ring(device.get(), 128);
	const std::size_t page = page_size(), bytes = ring.map->size();
	const int read_write = PROT_READ | PROT_WRITE;
	const struct {
		std::size_t bytes;
		int protection, flags;
		std::size_t offset;
		int error;
	} wrong[] = {
		{bytes - page, read_write, MAP_SHARED, 0, EINVAL},
		{bytes + page, read_write, MAP_SHARED, 0, EINVAL},
		{page, read_write, MAP_SHARED, 0, EINVAL},
		{bytes, read_write, MAP_SHARED, page, EINVAL},
		{bytes - page, read_write, MAP_SHARED, page, EINVAL},
		{bytes, read_write, MAP_SHARED, std::size_t{1} << 40, EINVAL},
		{bytes, read_write, MAP_PRIVATE, 0, EINVAL},
		{bytes, PROT_READ, MAP_PRIVATE, 0, EINVAL},
		{bytes, read_write | PROT_EXEC, MAP_SHARED, 0, EPERM},
	};

	for (const auto &item : wrong) {
		void *map = ::mmap(nullptr, item.bytes, item.protection, item.flags, ring.fd.get(),
			static_cast<off_t>(item.offset));

		KTAP_CHECK(map == MAP_FAILED);
		if (map == MAP_FAILED)
			KTAP_EQUAL(errno, item.error);
	}
}

KTAP_TEST(ring_map__never_becomes_code)
{
	Node node;

	KTAP_EQUAL(::mprotect(node.ring.map->data(), node.ring.map->size(), PROT_READ | PROT_EXEC), -1);
	KTAP_EQUAL(errno, EACCES);
}

KTAP_TEST(ring_map__outlives_descriptors)
{
	Node node;
	Pages second(node.ring.map->size(), PROT_READ, MAP_SHARED, node.ring.fd.get());
	const auto *header = reinterpret_cast<const ibrelk_ring_header *>(second.data());

	KTAP_REQUIRE_EQUAL(submit(Door::ioctl, node.endpoint.get(), nop(1)), 1);
	node.device.close();
	node.ring.fd.close();
	KTAP_REQUIRE_EQUAL(submit(Door::ioctl, node.endpoint.get(), nop(2)), 1);
	KTAP_EQUAL(header->tail, 2);
	node.endpoint.close();
	KTAP_EQUAL(node.ring.poll()->user_data, 1);
	KTAP_EQUAL(node.ring.poll()->user_data, 2);
	KTAP_EQUAL(header->head, 2);
	node.ring.map->unmap();
	KTAP_EQUAL(header->tail, 2);
}

KTAP_TEST(ring_map__survives_mremap_and_fork)
{
	Node node;
	void *moved = ::mremap(node.ring.map->data(), node.ring.map->size(), 2 * node.ring.map->size(), 0);

	if (moved != MAP_FAILED) // beyond the ring there is nothing, whatever the kernel lets us map
		KTAP_REQUIRE(::mremap(moved, 2 * node.ring.map->size(), node.ring.map->size(), 0) == moved);

	KTAP_EQUAL(in_child([&] {
		return submit(Door::ioctl, node.endpoint.get(), nop(7)) == 1 && node.ring.tail() == 1 ? 0 : 1;
	}),
		0);
	expect(node.ring, 7, 0);
}

// ---- waiting -------------------------------------------------------------------------------------

// R, S, D, T, Z ... as in proc(5).
char process_state(pid_t process)
{
	std::ifstream file("/proc/" + std::to_string(process) + "/stat");
	const std::string stat{std::istreambuf_iterator<char>(file), {}};
	const std::size_t end = stat.rfind(')');

	return end != std::string::npos && end + 2 < stat.size() ? stat[end + 2] : '?';
}

KTAP_TEST(ring_wait__bad_requests)
{
	Fd device = open_device();
	Ring ring(device.get(), 4);
	ibrelk_ring_wait wait{};

	KTAP_EQUAL(control(ring.fd.get(), IBRELK_IOC_RING_WAIT, nullptr), -EFAULT);
	KTAP_EQUAL(control(ring.fd.get(), IBRELK_IOC_RING_WAIT, pointer_to(kernel_address)), -EFAULT);
	KTAP_EQUAL(control(ring.fd.get(), IBRELK_IOC_RING_WAIT, &wait), -EINVAL);
	wait.count = 5;
	KTAP_EQUAL(control(ring.fd.get(), IBRELK_IOC_RING_WAIT, &wait), -EINVAL);
	wait.count = ~0u;
	KTAP_EQUAL(control(ring.fd.get(), IBRELK_IOC_RING_WAIT, &wait), -EINVAL);
	wait.count = 4;
	wait.flags = 1;
	KTAP_EQUAL(control(ring.fd.get(), IBRELK_IOC_RING_WAIT, &wait), -EINVAL);
	wait.flags = 0;
	KTAP_EQUAL(control(ring.fd.get(), IBRELK_IOC_RING_WAIT, &wait), 0);
}

KTAP_TEST(ring_wait__time_limits)
{
	Fd device = open_device();
	Ring ring(device.get(), 4);

	for (std::uint64_t busy : {0 * ms, 2 * ms, 1000 * ms, forever}) {
		auto start = Clock::now();

		KTAP_EQUAL(ring.wait(1, 20 * ms, busy), 0);
		KTAP_CHECK(Clock::now() - start >= std::chrono::milliseconds(20));
	}
}

KTAP_TEST(ring_wait__signal)
{
	struct sigaction action {
	}, before{};
	itimerval timer{};
	Fd device = open_device();
	Ring ring(device.get(), 4);

	action.sa_handler = [](int) {
	};
	KTAP_REQUIRE_EQUAL(::sigaction(SIGALRM, &action, &before), 0);
	// Again and again, so that none is lost before we sleep.
	timer.it_value.tv_usec = timer.it_interval.tv_usec = 20'000;
	for (std::uint64_t busy : {0 * ms, forever}) {
		KTAP_REQUIRE_EQUAL(::setitimer(ITIMER_REAL, &timer, nullptr), 0);
		KTAP_EQUAL(ring.wait(1, forever, busy), -EINTR);
	}
	timer = {};
	KTAP_REQUIRE_EQUAL(::setitimer(ITIMER_REAL, &timer, nullptr), 0);
	KTAP_REQUIRE_EQUAL(::sigaction(SIGALRM, &before, nullptr), 0);
}

KTAP_TEST(ring_wait__stopped_and_continued)
{
	Node node;
	const pid_t child = ::fork();
	int status = -1;

	if (!child) {
		::_exit(node.ring.wait(1, forever) == 1 ? 0 : 1);
	}
	KTAP_REQUIRE(child > 0);
	for (int i = 0; i < 3; i++) {
		// It is in the wait: a child sleeps nowhere else. If it is over, it does not wait any more.
		while (process_state(child) != 'S' && process_state(child) != 'Z')
			::usleep(1000);
		KTAP_REQUIRE_EQUAL(::kill(child, SIGSTOP), 0);
		KTAP_REQUIRE_EQUAL(::waitpid(child, &status, WUNTRACED), child);
		if (!WIFSTOPPED(status))
			break;
		KTAP_REQUIRE_EQUAL(::kill(child, SIGCONT), 0);
		KTAP_REQUIRE_EQUAL(::waitpid(child, &status, WCONTINUED), child);
	}
	KTAP_REQUIRE(WIFCONTINUED(status));
	KTAP_REQUIRE_EQUAL(submit(Door::ioctl, node.endpoint.get(), nop(1)), 1);
	KTAP_REQUIRE_EQUAL(::waitpid(child, &status, 0), child);
	KTAP_CHECK(WIFEXITED(status));
	KTAP_EQUAL(WEXITSTATUS(status), 0);
}

KTAP_TEST(ring_wait__for_several)
{
	Node node(8);

	KTAP_REQUIRE_EQUAL(submit(Door::ioctl, node.endpoint.get(), {nop(1), nop(2)}), 2);
	KTAP_EQUAL(node.ring.wait(1, ~0ull), 2);
	KTAP_EQUAL(node.ring.wait(3, 20 * ms), 2);

	std::atomic<int> result = 0;
	std::thread waiter([&] { result = node.ring.wait(4, patience_ns); });

	// One at a time; whoever wakes for less than he waits for would return it.
	KTAP_EQUAL(submit(Door::ioctl, node.endpoint.get(), nop(3)), 1);
	KTAP_EQUAL(submit(Door::ioctl, node.endpoint.get(), nop(4)), 1);
	waiter.join();
	KTAP_EQUAL(result.load(), 4);
}

KTAP_TEST(ring_wait__room_made_by_another_thread)
{
	Node node(2);

	// Four completions, two of which wait in the kernel; the waiter must not sleep on those.
	KTAP_REQUIRE_EQUAL(submit(Door::ioctl, node.endpoint.get(), {nop(1), nop(2), nop(3), nop(4)}), 4);
	KTAP_CHECK(node.ring.overflowed());
	(void)node.ring.poll();
	(void)node.ring.poll();
	KTAP_EQUAL(node.ring.wait(2, forever), 2);
	expect(node.ring, 3, 0);
	expect(node.ring, 4, 0);
	KTAP_CHECK(!node.ring.overflowed());
}

KTAP_TEST(ring_poll__and_epoll)
{
	Node node(4);
	pollfd item = {.fd = node.ring.fd.get(), .events = POLLIN, .revents = 0};
	Fd epoll(::epoll_create1(EPOLL_CLOEXEC));
	epoll_event event{};

	event.events = EPOLLIN | EPOLLET;
	KTAP_REQUIRE_EQUAL(::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, node.ring.fd.get(), &event), 0);
	KTAP_EQUAL(::poll(&item, 1, 0), 0);
	KTAP_EQUAL(::epoll_wait(epoll.get(), &event, 1, 0), 0);

	std::thread submitter([&] { KTAP_EQUAL(submit(Door::ioctl, node.endpoint.get(), nop(1)), 1); });

	KTAP_EQUAL(::epoll_wait(epoll.get(), &event, 1, 20'000), 1);
	submitter.join();
	KTAP_EQUAL(::poll(&item, 1, 0), 1);
	KTAP_EQUAL(item.revents, POLLIN);
	expect(node.ring, 1, 0);
	KTAP_EQUAL(::poll(&item, 1, 0), 0);

	// poll() moves in what waits for room, or its caller would sleep beside it.
	KTAP_REQUIRE_EQUAL(
		submit(Door::ioctl, node.endpoint.get(), {nop(2), nop(3), nop(4), nop(5), nop(6)}), 5);
	for (int i = 0; i < 4; i++)
		(void)node.ring.poll();
	KTAP_EQUAL(::poll(&item, 1, 20'000), 1);
	expect(node.ring, 6, 0);
}

KTAP_TEST(ring_poll__by_io_uring)
{
	Node node(4);
	Uring uring;
	io_uring_sqe *sqe = ::io_uring_get_sqe(&uring.ring);

	KTAP_REQUIRE(sqe);
	::io_uring_prep_poll_add(sqe, node.ring.fd.get(), POLLIN);
	uring.submit();
	KTAP_EQUAL(submit(Door::ioctl, node.endpoint.get(), nop(1)), 1);
	KTAP_CHECK(uring.result() & POLLIN);
}

// ---- full rings and nonsense in them -------------------------------------------------------------

DOOR_TEST(ring_full__loses_nothing)
{
	Node node(4);
	std::vector<Command> batch(256);
	std::uint64_t accepted = 0, seen = 0;
	int result = 0;

	for (int round = 0; round < 64; round++) {
		for (std::size_t i = 0; i < batch.size(); i++)
			batch[i] = nop(accepted + i);
		result = submit(door, node.endpoint.get(), batch);
		KTAP_REQUIRE(result >= 0);
		accepted += static_cast<std::uint64_t>(result);
		if (!result)
			break;
	}
	KTAP_EQUAL(result, 0);
	KTAP_CHECK(accepted > 4);
	KTAP_CHECK(node.ring.overflowed());
	KTAP_EQUAL(node.ring.tail(), 4);

	while (auto completion = node.ring.next(0)) {
		if (completion->user_data != seen)
			KTAP_REQUIRE_EQUAL(completion->user_data, seen);
		seen++;
	}
	KTAP_EQUAL(seen, accepted);
	KTAP_CHECK(!node.ring.overflowed());
	KTAP_EQUAL(submit(door, node.endpoint.get(), nop(1)), 1);
	expect(node.ring, 1, 0);
}

KTAP_TEST(ring_full__goes_with_its_descriptors)
{
	NoLeak no_leak;
	Node node(1);

	// Completions that wait for room when nobody can read them any more hold nothing back.
	for (int i = 0; i < 500; i++)
		KTAP_REQUIRE_EQUAL(submit(Door::ioctl, node.endpoint.get(), nop(1)), 1);
	node.ring.map->unmap();
	node.ring.fd.close();
	for (int i = 0; i < 2000; i++)
		KTAP_REQUIRE_EQUAL(submit(Door::ioctl, node.endpoint.get(), nop(2)), 1);
}

KTAP_TEST(ring_nonsense__head)
{
	const std::array<std::uint32_t, 6> heads = {5, 1000, 0x7fffffff, 0x80000000, 0xfffffff0, ~0u};

	for (auto head : heads) {
		Node node(4);

		KTAP_REQUIRE_EQUAL(
			submit(Door::ioctl, node.endpoint.get(), {nop(1), nop(2), nop(3), nop(4)}), 4);
		node.ring.set_head(head);
		KTAP_EQUAL(submit(Door::ioctl, node.endpoint.get(), {nop(5), nop(6)}), 2);
		KTAP_EQUAL(node.ring.tail(), 4);
		KTAP_CHECK(node.ring.overflowed());
		KTAP_EQUAL(node.ring.wait(4, forever), 4);
		KTAP_EQUAL(node.ring.entry[0].user_data, 1);

		// With sense restored, all of them are there, in order.
		node.ring.set_head(0);
		KTAP_EQUAL(node.ring.wait(4, 0), 4);
		for (std::uint64_t i = 1; i <= 6; i++)
			expect(node.ring, i, 0);
		expect_silence(node.ring);
	}
}

KTAP_TEST(ring_nonsense__everywhere)
{
	Node node(4);
	Ring &ring = node.ring;

	for (std::uint32_t i = 0; i < 16; i++) {
		std::memset(ring.map->data(), i & 1 ? 0xff : 0x55, ring.map->size());
		ring.set_head(i);
		KTAP_REQUIRE_EQUAL(submit(Door::ioctl, node.endpoint.get(), nop(i)), 1);
		KTAP_EQUAL(ring.tail(), i + 1);
		KTAP_EQUAL(ring.entry[i & 3].user_data, i);
		KTAP_EQUAL(ring.entry[i & 3].status, 0);
	}
}

KTAP_TEST(ring_nonsense__while_the_kernel_writes)
{
	Node node(64);
	std::atomic<bool> stop = false;
	std::thread scribbler([&] {
		std::minstd_rand random(1);

		while (!stop) {
			__atomic_store_n(&node.ring.header->head, random(), __ATOMIC_RELAXED);
			__atomic_store_n(&node.ring.header->tail, random(), __ATOMIC_RELAXED);
		}
	});
	int result = 0;

	for (int i = 0; i < 2000 && result >= 0; i++) {
		result = submit(Door::ioctl, node.endpoint.get(), {nop(1), nop(2), nop(3), nop(4)});
		if (!(i % 16))
			(void)node.ring.wait(64, 0);
	}
	stop = true;
	scribbler.join();
	KTAP_CHECK(result >= 0);
}

} // namespace
} // namespace abi
