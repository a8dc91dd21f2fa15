// SPDX-License-Identifier: GPL-2.0-only
//
// Descriptors that are inherited, outlive their process, or are closed in any order.
#include "abi.hpp"

namespace abi
{
namespace
{

// ---- processes -----------------------------------------------------------------------------------

DOOR_TEST(process__child_uses_its_own_memory)
{
	Node node;
	std::array<std::uint8_t, 64> got{};
	auto sent = pattern(64, 17);

	got.fill(0xee);
	KTAP_EQUAL(in_child([&] {
		if (submit(door, node.endpoint.get(),
			    {recv(got.data(), 64, 1, 1), send(node.self, sent.data(), 64, 1, 2)}) != 2)
			return 1;
		if (node.ring.wait(2, patience_ns) != 2)
			return 2;
		return std::equal(got.begin(), got.end(), sent.begin()) ? 0 : 3;
	}),
		0);
	KTAP_EQUAL(node.ring.wait(2, patience_ns), 2);
	KTAP_CHECK(std::all_of(got.begin(), got.end(), [](auto byte) { return byte == 0xee; }));
}

KTAP_TEST(process__child_leaves_receives_behind)
{
	Node node;

	for (std::size_t bytes : {64ul, 1ul << 20, 16ul << 20}) {
		auto sent = pattern(bytes, 19);

		KTAP_EQUAL(in_child([&] {
			Pages own(bytes);

			return submit(Door::ioctl, node.endpoint.get(), recv(own.data(), bytes, 1, 1)) == 1
				? 0
				: 1;
		}),
			0);

		// Its memory is gone, the endpoint is not: the message has somewhere to go, or fails.
		KTAP_REQUIRE_EQUAL(
			submit(Door::ioctl, node.endpoint.get(), send(node.self, sent.data(), bytes, 1, 2)),
			1);
		for (int i = 0; i < 2; i++) {
			auto completion = node.ring.next();

			KTAP_REQUIRE(completion.has_value());
			if (bytes <= 4 << 20)
				KTAP_CHECK(completion->status == 0 || completion->status == -EFAULT);
		}
	}
}

KTAP_TEST(process__killed_with_everything_open)
{
	for (int round = 0; round < 3; round++) {
		std::fflush(stdout);

		pid_t child = ::fork();
		int status = 0;

		KTAP_REQUIRE(child >= 0);
		if (child == 0) {
			try {
				Node node;
				Pages target(8 << 20);

				(void)submit(round & 1 ? Door::ioctl : Door::uring, node.endpoint.get(),
					{recv(target.data(), target.size(), 1), recv(target.data(), 100, 2),
						send(node.self, target.data(), target.size(), 3),
						send(node.self, target.data(), target.size(), 1)});
				if (round == 2)
					(void)node.ring.wait(64, forever); // until it is killed
				::raise(SIGKILL);
			} catch (...) {
			}
			::_exit(1);
		}
		if (round == 2) {
			::usleep(200'000);
			::kill(child, SIGKILL);
		}
		KTAP_REQUIRE_EQUAL(::waitpid(child, &status, 0), child);
		if (WIFEXITED(status))
			ktap::skip("the child could not make an endpoint");
		KTAP_EQUAL(WTERMSIG(status), SIGKILL);
	}
}

KTAP_TEST(process__exec_closes)
{
	Node node;
	std::string fds[] = {std::to_string(node.device.get()), std::to_string(node.ring.fd.get()),
		std::to_string(node.endpoint.get())};

	KTAP_REQUIRE_EQUAL(submit(Door::ioctl, node.endpoint.get(), nop(1)), 1);
	KTAP_EQUAL(in_child([&] {
		::execl("/proc/self/exe", "abi", "--closed", fds[0].c_str(), fds[1].c_str(), fds[2].c_str(),
			nullptr);
		return 255;
	}),
		0);
	expect(node.ring, 1, 0);
}

// ---- closing -------------------------------------------------------------------------------------

KTAP_TEST(close__in_every_order)
{
	NoLeak no_leak;
	std::array<int, 4> order = {0, 1, 2, 3};

	do {
		Node node(2);
		std::array<std::byte, 64> data{};

		KTAP_REQUIRE_EQUAL(
			submit(Door::ioctl, node.endpoint.get(),
				{nop(), nop(), nop(), nop(), recv(data.data(), 64, 1),
					recv(data.data(), 64, 2), send(node.self, data.data(), 64, 2),
					send(node.self, data.data(), 64, 3)}),
			8);
		for (int which : order) {
			switch (which) {
			case 0: node.device.close(); break;
			case 1: node.ring.fd.close(); break;
			case 2: node.endpoint.close(); break;
			case 3: node.ring.map->unmap(); break;
			}
		}
	} while (std::next_permutation(order.begin(), order.end()));
}

KTAP_TEST(close__one_of_two_descriptors)
{
	Node node;
	Fd copy(::dup(node.endpoint.get()));

	node.endpoint.close();
	KTAP_EQUAL(submit(Door::ioctl, copy.get(), nop(1)), 1);
	expect(node.ring, 1, 0);
}

KTAP_TEST(close__ring_under_a_sleeper)
{
	Node node;
	std::atomic<int> result = -1;
	std::atomic<bool> ready = false;
	int fd = node.ring.fd.get();
	std::thread sleeper([&] {
		ibrelk_ring_wait wait{};

		wait.count = 1;
		wait.timeout_ns = 300 * ms;
		ready = true;
		result = control(fd, IBRELK_IOC_RING_WAIT, &wait);
	});

	while (!ready)
		std::this_thread::yield();
	node.ring.fd.close();
	node.endpoint.close();
	node.ring.map->unmap();
	sleeper.join();
	KTAP_CHECK(result == 0 || result == -EBADF);
}

DOOR_TEST(close__endpoint_under_a_submitter)
{
	for (int round = 0; round < 5; round++) {
		Node node(64);
		std::atomic<unsigned> rounds = 0;
		std::atomic<int> result = 0;
		std::array<std::byte, 64> data{};
		int fd = node.endpoint.get();
		std::thread submitter([&] {
			const std::vector<Command> batch = {
				nop(), recv(data.data(), 64, 1, 1), cancel(1), recv(data.data(), 64, 2)};

			while ((result = submit(door, fd, batch)) >= 0)
				rounds++;
		});

		while (rounds < 20 && result >= 0)
			(void)node.ring.next(ms);
		node.endpoint.close();
		submitter.join();
		KTAP_EQUAL(result.load(), -EBADF);
	}
}

} // namespace
} // namespace abi
