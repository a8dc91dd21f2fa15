// SPDX-License-Identifier: GPL-2.0-only
//
// The doors: batches and commands with everything that can be wrong, limits, and what must come out.
#include "abi.hpp"

namespace abi
{
namespace
{

// ---- the doors -----------------------------------------------------------------------------------

DOOR_TEST(submit__bad_batches)
{
	Node node;
	int fd = node.endpoint.get();
	std::uint32_t max = query(node.device.get()).batch_max;
	std::vector<Command> commands(max + 1, nop());
	std::uint64_t good = address_of(commands.data());

	KTAP_EQUAL(submit_raw(door, fd, good, 0), -EINVAL);
	KTAP_EQUAL(submit_raw(door, fd, good, max + 1), -EINVAL);
	KTAP_EQUAL(submit_raw(door, fd, good, ~0u), -EINVAL);
	KTAP_EQUAL(submit_raw(door, fd, good, 1, 1), -EINVAL);
	KTAP_EQUAL(submit_raw(door, fd, good, 1, 1u << 31), -EINVAL);
	for (std::uint64_t bad :
		{std::uint64_t{0}, hole(), kernel_address, ~std::uint64_t{0}, ~std::uint64_t{0} - 95})
		KTAP_EQUAL(submit_raw(door, fd, bad, 1), -EFAULT);
	expect_silence(node.ring);
}

KTAP_TEST(submit__bad_pointer_to_itself)
{
	Node node;

	for (std::uint64_t bad : {std::uint64_t{0}, hole(), kernel_address})
		KTAP_EQUAL(control(node.endpoint.get(), IBRELK_IOC_SUBMIT, pointer_to(bad)), -EFAULT);
}

DOOR_TEST(submit__largest_batch)
{
	Node node(2048);
	std::uint32_t max = query(node.device.get()).batch_max;
	std::vector<Command> commands;

	for (std::uint32_t i = 0; i < max; i++)
		commands.push_back(nop(i));
	KTAP_EQUAL(submit(door, node.endpoint.get(), commands), max);
	for (std::uint32_t i = 0; i < max; i++) {
		auto completion = node.ring.next();

		KTAP_REQUIRE(completion && completion->user_data == i);
	}
}

// Commands up to the edge of what can be read are accepted, wherever a copy in pieces would end.
DOOR_TEST(submit__array_ends_in_a_hole)
{
	Node node;

	for (std::size_t fit = 0; fit < 20; fit++) {
		Pages pages(2 * page_size());
		std::byte *start = pages.data() + page_size() - fit * sizeof(Command);

		KTAP_REQUIRE_EQUAL(::mprotect(pages.data() + page_size(), page_size(), PROT_NONE), 0);
		for (std::size_t i = 0; i < fit; i++) {
			Command command = nop(i);

			std::memcpy(start + i * sizeof(Command), &command, sizeof(command));
		}
		KTAP_EQUAL(submit_raw(door, node.endpoint.get(), address_of(start), 20),
			fit ? static_cast<int>(fit) : -EFAULT);
		for (std::size_t i = 0; i < fit; i++)
			expect(node.ring, i, 0);
		expect_silence(node.ring);
	}
}

// ---- waiting for room ------------------------------------------------------------------------------

int poll_room(int fd, short events, int timeout_ms)
{
	pollfd entry{fd, events, 0};

	KTAP_REQUIRE(::poll(&entry, 1, timeout_ms) >= 0);
	return entry.revents;
}

DOOR_TEST(submit__room_is_waited_for)
{
	Node node(64, [](ibrelk_endpoint_create &create) {
		create.sends = 4;
		create.recvs = 2;
	});
	int fd = node.endpoint.get();
	std::array<std::uint8_t, 8> data{};
	Command held = send(node.self, data.data(), data.size(), 1);
	const auto patience_ms = static_cast<int>(patience_ns / ms);

	held.level = IBRELK_LEVEL_MATCHED;
	KTAP_EQUAL(poll_room(fd, POLLOUT | POLLIN | POLLWRBAND, 0), POLLOUT | POLLWRBAND);
	KTAP_EQUAL(submit(door, fd, std::vector<Command>(6, held)), 4);
	KTAP_EQUAL(submit(door, fd, held), 0);
	KTAP_EQUAL(poll_room(fd, POLLOUT, 20), 0);
	KTAP_EQUAL(poll_room(fd, POLLWRBAND, 0), POLLWRBAND);

	Fd set(::epoll_create1(EPOLL_CLOEXEC));
	epoll_event event{};

	event.events = EPOLLOUT | EPOLLET;
	KTAP_EQUAL(::epoll_ctl(set.get(), EPOLL_CTL_ADD, fd, &event), 0);
	KTAP_EQUAL(::epoll_wait(set.get(), &event, 1, 0), 0);

	std::thread receiver([&] {
		std::this_thread::sleep_for(std::chrono::milliseconds(20));
		(void)submit(door, fd, recv(data.data(), data.size(), 1));
	});

	KTAP_EQUAL(poll_room(fd, POLLOUT, patience_ms), POLLOUT);
	KTAP_EQUAL(::epoll_wait(set.get(), &event, 1, patience_ms), 1);
	receiver.join();
	KTAP_EQUAL(submit(door, fd, held), 1);

	for (std::uint64_t tag : {2, 3})
		KTAP_EQUAL(submit(door, fd, recv(data.data(), data.size(), tag)), 1);
	KTAP_EQUAL(poll_room(fd, POLLWRBAND, 0), 0);
	KTAP_EQUAL(submit(door, fd, recv(data.data(), data.size(), 4)), 0);
	KTAP_EQUAL(poll_room(fd, POLLPRI, 0), POLLPRI);
}

// Also of those that the kernel may wake one at a time.
KTAP_TEST(submit__room_is_told_to_all)
{
	Node node(64, [](ibrelk_endpoint_create &create) { create.sends = 1; });
	std::array<std::uint8_t, 8> data{};
	Command held = send(node.self, data.data(), data.size(), 1);
	const auto patience_ms = static_cast<int>(patience_ns / ms);
	std::array<Fd, 3> sets;
	std::array<int, 3> told{-1, -1, -1};
	std::vector<std::thread> waiters;

	held.level = IBRELK_LEVEL_MATCHED;
	held.flags |= IBRELK_CMD_NO_SUCCESS;
	KTAP_REQUIRE_EQUAL(submit(Door::ioctl, node.endpoint.get(), held), 1);
	for (std::size_t i = 0; i < sets.size(); i++) {
		epoll_event event{};

		sets[i] = Fd(::epoll_create1(EPOLL_CLOEXEC));
		event.events = EPOLLOUT | EPOLLEXCLUSIVE;
		KTAP_REQUIRE_EQUAL(::epoll_ctl(sets[i].get(), EPOLL_CTL_ADD, node.endpoint.get(), &event), 0);
		waiters.emplace_back([&, i] {
			epoll_event room{};

			told[i] = ::epoll_wait(sets[i].get(), &room, 1, patience_ms);
		});
	}
	// They sleep, most likely.
	std::this_thread::sleep_for(std::chrono::milliseconds(100));

	Command taken = recv(data.data(), data.size(), 1);

	taken.flags |= IBRELK_CMD_NO_SUCCESS;
	KTAP_EQUAL(submit(Door::ioctl, node.endpoint.get(), taken), 1);
	for (auto &waiter : waiters)
		waiter.join();
	for (int events : told)
		KTAP_EQUAL(events, 1);
}

// io_uring takes what a wake-up says for the answer, and polls a file with two wait queues at most.
KTAP_TEST(submit__room_is_polled_by_io_uring)
{
	Node node(2, [](ibrelk_endpoint_create &create) { create.sends = 4; });
	int fd = node.endpoint.get();
	std::array<std::uint8_t, 8> data{};
	const auto wait_for = [&](Uring &uring, short events) {
		io_uring_sqe *sqe = ::io_uring_get_sqe(&uring.ring);

		KTAP_REQUIRE(sqe);
		::io_uring_prep_poll_add(sqe, fd, static_cast<unsigned>(events));
		uring.submit();
	};
	const auto answered = [](Uring &uring) {
		io_uring_cqe *cqe = nullptr;

		return ::io_uring_peek_cqe(&uring.ring, &cqe) == 0;
	};
	Uring sends, others;

	// A receive that is still to be completed, and no room for more.
	KTAP_REQUIRE_EQUAL(submit(Door::ioctl, fd, recv(data.data(), data.size(), 1)), 1);
	while (submit(Door::ioctl, fd, std::vector<Command>(64, nop())) > 0)
		;
	wait_for(sends, POLLOUT);
	wait_for(others, POLLPRI);

	// That makes less room, not more.
	Node sender;
	ibrelk_peer peer{};

	peer.addr = node.address;
	KTAP_REQUIRE_EQUAL(control(sender.endpoint.get(), IBRELK_IOC_PEER_ADD, &peer), 0);

	Command message = send(peer.handle, data.data(), data.size(), 1);

	message.level = IBRELK_LEVEL_MATCHED;
	KTAP_REQUIRE_EQUAL(submit(Door::ioctl, sender.endpoint.get(), message), 1);

	const std::optional<Completion> sent = sender.ring.next();

	KTAP_CHECK(sent && sent->status == 0);
	KTAP_CHECK(!sender.ring.poll());
	KTAP_CHECK(!answered(sends));
	KTAP_CHECK(!answered(others));

	while (node.ring.next(0))
		;
	KTAP_CHECK(sends.result() & POLLOUT);
	KTAP_CHECK(others.result() & POLLPRI);
}

KTAP_TEST(submit__room_in_two_rings_is_polled_by_io_uring)
{
	Fd device = open_device();
	Ring sends(device.get(), 2), receives(device.get(), 2);

	if (!query(device.get()).ports)
		ktap::skip("no usable RDMA port");

	auto create = endpoint_request(sends, receives);

	KTAP_REQUIRE_EQUAL(control(device.get(), IBRELK_IOC_ENDPOINT_CREATE, &create), 0);

	Fd endpoint(create.fd);
	Uring uring;
	io_uring_sqe *sqe = ::io_uring_get_sqe(&uring.ring);

	while (submit(Door::ioctl, endpoint.get(), std::vector<Command>(64, nop())) > 0)
		;
	KTAP_REQUIRE(sqe);
	::io_uring_prep_poll_add(sqe, endpoint.get(), POLLOUT);
	uring.submit();
	while (sends.next(0))
		;
	KTAP_CHECK(uring.result() & POLLOUT);
}

// Nobody reads the ring: who waits for room is woken by whoever does.
DOOR_TEST(submit__room_in_the_ring)
{
	Node node(2);
	int fd = node.endpoint.get();

	while (submit(door, fd, std::vector<Command>(64, nop())) > 0)
		;
	KTAP_EQUAL(poll_room(fd, POLLOUT, 20), 0);
	KTAP_EQUAL(poll_room(fd, POLLPRI, 0), 0);

	std::thread reader([&] {
		std::this_thread::sleep_for(std::chrono::milliseconds(20));
		while (node.ring.next(0))
			;
	});

	KTAP_EQUAL(poll_room(fd, POLLOUT, static_cast<int>(patience_ns / ms)), POLLOUT);
	reader.join();
	KTAP_EQUAL(submit(door, fd, nop()), 1);
}

DOOR_TEST(submit__nop)
{
	Node node;
	Command silent = nop(2);

	silent.flags = IBRELK_CMD_NO_SUCCESS;
	KTAP_EQUAL(submit(door, node.endpoint.get(), {nop(1), silent, nop(~0ull)}), 3);

	auto completion = node.ring.next();

	KTAP_REQUIRE(completion.has_value());
	KTAP_EQUAL(completion->user_data, 1);
	KTAP_EQUAL(completion->status, 0);
	KTAP_EQUAL(completion->opcode, IBRELK_OP_NOP);
	KTAP_EQUAL(completion->flags, 0);
	KTAP_EQUAL(completion->endpoint, node.address.endpoint);
	KTAP_EQUAL(completion->peer, IBRELK_PEER_ANY);
	expect(node.ring, ~0ull, 0);
	expect_silence(node.ring);
}

// A message that waits is looked at, claimed, and received, or thrown away; one buffer takes several.
DOOR_TEST(submit__looking)
{
	Node node;
	int fd = node.endpoint.get();
	std::array<std::uint8_t, 64> from{}, to{};
	Command claimed = recv(to.data(), to.size(), 0, 4);

	from.fill(0x5a);
	KTAP_EQUAL(submit(door, fd, look(IBRELK_OP_PROBE, 7, 1)), 1);
	expect(node.ring, 1, -ENOMSG);
	for (std::uint64_t i = 0; i < 2; i++) {
		KTAP_EQUAL(submit(door, fd, send(node.self, from.data(), 33, 7, 10 + i)), 1);
		expect(node.ring, 10 + i, 0);
	}
	// It is here when it has been acknowledged; a buffered send is complete before.
	std::optional<Completion> found;

	do {
		KTAP_EQUAL(submit(door, fd, look(IBRELK_OP_CLAIM, 7, 2)), 1);
		found = node.ring.next();
		KTAP_REQUIRE(found && found->user_data == 2);
	} while (found->status == -ENOMSG);
	KTAP_EQUAL(found->status, 0);
	KTAP_EQUAL(found->opcode, IBRELK_OP_CLAIM);
	KTAP_EQUAL(found->length, 33);
	KTAP_EQUAL(found->peer, node.self);
	KTAP_REQUIRE(found->claim != 0);
	claimed.flags = IBRELK_CMD_CLAIMED;
	claimed.peer = 0;
	claimed.tag = found->claim;
	KTAP_EQUAL(submit(door, fd, claimed), 1);

	auto received = node.ring.next();

	KTAP_REQUIRE(received && received->user_data == 4);
	KTAP_EQUAL(received->status, 0);
	KTAP_EQUAL(received->tag, 7);
	KTAP_EQUAL(std::count(to.begin(), to.end(), 0x5a), 33);
	KTAP_EQUAL(submit(door, fd, claimed), -ENOENT);
	do {
		KTAP_EQUAL(submit(door, fd, look(IBRELK_OP_CLAIM, 7, 2)), 1);
		found = node.ring.next();
		KTAP_REQUIRE(found && found->user_data == 2);
	} while (found->status == -ENOMSG);
	KTAP_EQUAL(submit(door, fd, discard(found->claim, 5)), 1);
	expect(node.ring, 5, 0);
	KTAP_EQUAL(submit(door, fd, discard(found->claim, 5)), -ENOENT);
	expect_silence(node.ring);
}

// Buffers in pieces, on both sides: any order, empty ones, more than one page.
DOOR_TEST(submit__pieces)
{
	Node node;
	int fd = node.endpoint.get();

	for (std::size_t bytes : {0, 10, 9000, 300000}) {
		const auto from = pattern(bytes, 3);
		std::vector<std::uint8_t> to(bytes), got;
		const std::size_t third = bytes / 3;
		const std::uint64_t f = address_of(from.data()), t = address_of(to.data());
		const std::array<ibrelk_iovec, 4> out{
			{{f, third}, {f, 0}, {f + third, third}, {f + 2 * third, bytes - 2 * third}}};
		const std::array<ibrelk_iovec, 3> in{
			{{t + bytes / 2, bytes - bytes / 2}, {t, bytes / 2}, {t, 0}}};
		Command sent = send(node.self, out.data(), out.size(), 7, 1),
			received = recv(nullptr, in.size(), 7, 2);

		received.addr = address_of(in.data());
		sent.flags = received.flags = IBRELK_CMD_IOVEC;
		KTAP_EQUAL(submit(door, fd, received), 1);
		KTAP_EQUAL(submit(door, fd, sent), 1);
		for (int both = 0; both < 2; both++) {
			auto completion = node.ring.next();

			KTAP_REQUIRE(completion.has_value());
			KTAP_EQUAL(completion->status, 0);
			KTAP_EQUAL(completion->length, bytes);
		}
		for (const auto &piece : in)
			got.insert(got.end(), to.data() + (piece.addr - t),
				to.data() + (piece.addr - t) + piece.length);
		KTAP_EQUAL(got == from, true);
	}
	expect_silence(node.ring);
}

DOOR_TEST(submit__recv_multi)
{
	Node node;
	int fd = node.endpoint.get();
	std::array<std::uint8_t, 64> from{}, to{};

	from.fill(0x5a);
	KTAP_EQUAL(submit(door, fd, recv_multi(to.data(), to.size(), 3, 7, 1)), 1);
	for (std::uint64_t i = 0; i < 3; i++) {
		std::optional<Completion> sent, received;

		KTAP_EQUAL(submit(door, fd, send(node.self, from.data(), 5, 7, 10)), 1);
		for (int both = 0; both < 2; both++) {
			auto completion = node.ring.next();

			KTAP_REQUIRE(completion.has_value());
			(completion->opcode == IBRELK_OP_SEND ? sent : received) = completion;
		}
		KTAP_REQUIRE(sent && received);
		KTAP_EQUAL(received->user_data, 1);
		KTAP_EQUAL(received->opcode, IBRELK_OP_RECV_MULTI);
		KTAP_EQUAL(received->flags, 0);
		KTAP_EQUAL(received->length, 5);
		KTAP_EQUAL(received->offset, 8 * i);
	}

	auto released = node.ring.next();

	KTAP_REQUIRE(released && released->user_data == 1);
	KTAP_EQUAL(released->flags, IBRELK_CQE_RELEASED);
	KTAP_EQUAL(released->status, 0);
	KTAP_EQUAL(released->length, 3);
	KTAP_EQUAL(released->offset, 24);
	KTAP_EQUAL(std::count(to.begin(), to.end(), 0x5a), 15);
	expect_silence(node.ring);
}

DOOR_TEST(submit__wrong_commands)
{
	Node node;
	int fd = node.endpoint.get();
	std::array<std::byte, 64> data{};
	const Command base_nop = nop(), base_cancel = cancel(99);
	const Command base_send = send(node.self, data.data(), data.size(), 1);
	const Command base_recv = recv(data.data(), data.size(), 1);
	const Command base_probe = look(IBRELK_OP_PROBE, 1), base_claim = look(IBRELK_OP_CLAIM, 1);
	const Command base_multi = recv_multi(data.data(), data.size(), 1, 1), base_discard = discard(1);
	struct Case {
		const char *what;
		int error;
		Command command;
	};
	std::vector<Case> wrong;
	auto add = [&](const char *what, int error, Command command,
			   const std::function<void(Command &)> &change) {
		change(command);
		wrong.push_back({what, error, command});
	};

	for (const Command &base :
		{base_nop, base_send, base_recv, base_cancel, base_probe, base_claim, base_discard}) {
		add("messages", EINVAL, base, [](auto &c) { c.messages = 1; });
		add("room", EINVAL, base, [](auto &c) { c.room = 1; });
		add("claimed", EINVAL, base, [](auto &c) { c.flags |= IBRELK_CMD_CLAIMED; });
	}
	for (const Command &base : {base_nop, base_send, base_recv, base_cancel, base_probe, base_claim,
		     base_multi, base_discard}) {
		add("region", EINVAL, base, [](auto &c) { c.region = 1; });
		add("remote_addr", EINVAL, base, [](auto &c) { c.remote_addr = 1; });
		add("remote_key", EINVAL, base, [](auto &c) { c.remote_key = 1ull << 63; });
		add("reserved", EINVAL, base, [](auto &c) { c.reserved = 1ull << 63; });
		add("level 4", EINVAL, base, [](auto &c) { c.level = IBRELK_LEVEL_MATCHED + 1; });
		add("level 255", EINVAL, base, [](auto &c) { c.level = 255; });
		add("region flag", EOPNOTSUPP, base, [](auto &c) { c.flags |= IBRELK_CMD_REGION; });
		for (unsigned bit = 6; bit < 16; bit++)
			add("unknown flag", EINVAL, base, [=](auto &c) { c.flags |= 1u << bit; });
	}
	add("atomic of nothing", EINVAL, base_nop, [](auto &c) { c.opcode = IBRELK_OP_ATOMIC; });
	for (unsigned opcode = IBRELK_OP_ATOMIC + 1; opcode < 256; opcode++)
		add("no opcode", EINVAL, base_nop, [=](auto &c) { c.opcode = opcode; });
	for (const Command &base :
		{base_nop, base_recv, base_cancel, base_probe, base_claim, base_multi, base_discard}) {
		add("level of no send", EINVAL, base, [](auto &c) { c.level = IBRELK_LEVEL_BUFFERED; });
		add("immediate of no send", EINVAL, base, [](auto &c) { c.immediate = 1; });
		add("immediate flag of no send", EINVAL, base,
			[](auto &c) { c.flags |= IBRELK_CMD_IMMEDIATE; });
	}
	for (const Command &base : {base_probe, base_claim, base_multi}) {
		add("silent", EINVAL, base, [](auto &c) { c.flags |= IBRELK_CMD_NO_SUCCESS; });
		add("unknown peer", ENOENT, base, [](auto &c) { c.peer = 123456789; });
		add("tag of untagged", EINVAL, base, [](auto &c) { c.flags |= IBRELK_CMD_UNTAGGED; });
	}
	for (const Command &base : {base_probe, base_claim, base_discard})
		add("addr of what has no buffer", EINVAL, base, [](auto &c) { c.addr = 1; });
	for (const Command &base : {base_nop, base_cancel})
		add("tag", EINVAL, base, [](auto &c) { c.tag = 1; });
	for (const Command &base : {base_nop, base_cancel, base_probe, base_claim, base_multi, base_discard})
		add("pieces of what has none", EINVAL, base, [](auto &c) { c.flags |= IBRELK_CMD_IOVEC; });
	add("no such claim", ENOENT, base_discard, [](auto &) {});
	add("no messages", EINVAL, base_multi, [](auto &c) { c.messages = 0; });
	add("too many messages", EINVAL, base_multi, [](auto &c) { c.messages = ~0u; });
	add("no buffer", EINVAL, base_multi, [](auto &c) { c.length = 0; });
	add("too long", EINVAL, base_multi,
		[&](auto &c) { c.length = query(node.device.get()).multi_max + 1; });
	add("more room than there is", EINVAL, base_multi, [](auto &c) { c.room = c.length + 1; });
	add("no memory there", EFAULT, base_multi, [](auto &c) { c.addr = 0; });
	for (const Command &base : {base_nop, base_cancel, base_discard}) {
		add("peer", EINVAL, base, [](auto &c) { c.peer = IBRELK_PEER_ANY; });
		add("length", EINVAL, base, [](auto &c) { c.length = 1; });
		add("ignore", EINVAL, base, [](auto &c) { c.ignore = 1; });
		add("untagged", EINVAL, base, [](auto &c) { c.flags |= IBRELK_CMD_UNTAGGED; });
	}
	add("addr of a no-op", EINVAL, base_nop, [](auto &c) { c.addr = 1; });
	for (const Command &base : {base_send, base_recv}) {
		add("too long", EINVAL, base,
			[&](auto &c) { c.length = query(node.device.get()).message_max + 1; });
		add("much too long", EINVAL, base, [](auto &c) { c.length = ~0ull; });
		add("tag of untagged", EINVAL, base, [](auto &c) { c.flags |= IBRELK_CMD_UNTAGGED; });
		add("unknown peer", ENOENT, base, [](auto &c) { c.peer = 123456789; });
		add("no memory there", EFAULT, base, [](auto &c) { c.addr = 0; });
		add("kernel memory", EFAULT, base, [](auto &c) { c.addr = kernel_address; });
		add("beyond the end", EFAULT, base, [](auto &c) { c.addr = ~0ull - 8; });
		add("wraps around", EFAULT, base, [](auto &c) { c.addr = ~0ull, c.length = 1 << 20; });
	}
	add("ignore of a send", EINVAL, base_send, [](auto &c) { c.ignore = 1; });
	add("send to any", EINVAL, base_send, [](auto &c) { c.peer = IBRELK_PEER_ANY; });
	add("immediate without its flag", EINVAL, base_send, [](auto &c) { c.immediate = 1; });
	add("ignore of untagged", EINVAL, base_recv, [](auto &c) {
		c.flags |= IBRELK_CMD_UNTAGGED;
		c.tag = 0;
		c.ignore = 1;
	});

	// Pieces: too many, an array that is not there, one that ends in a hole, a piece that is none, too
	// long.
	std::vector<ibrelk_iovec> pieces(IBRELK_IOVEC_MAX + 1, {address_of(data.data()), 1});
	ibrelk_iovec nowhere{0, 1}, kernel{kernel_address, 8}, wraps{~0ull - 8, 8};
	std::array<ibrelk_iovec, 2> long_ones{
		{{address_of(data.data()), ~0ull}, {address_of(data.data()), 2}}};

	for (Command base : {base_send, base_recv}) {
		base.flags |= IBRELK_CMD_IOVEC;
		base.addr = address_of(pieces.data());
		add("too many pieces", EINVAL, base, [&](auto &c) { c.length = pieces.size(); });
		add("much too many pieces", EINVAL, base, [](auto &c) { c.length = ~0ull; });
		add("no array", EFAULT, base, [](auto &c) { c.addr = hole(); });
		for (const ibrelk_iovec *piece : {&nowhere, &kernel, &wraps})
			add("no such piece", EFAULT, base,
				[=](auto &c) { c.addr = address_of(piece), c.length = 1; });
		for (std::uint64_t count : {1, 2})
			add("pieces too long", EINVAL, base, [&, count](auto &c) {
				c.addr = address_of(long_ones.data()), c.length = count;
			});
	}

	for (const auto &item : wrong) {
		bool right = ktap::equal(
			__FILE__, __LINE__, "result alone", submit(door, fd, item.command), -item.error);

		// Behind others it ends the batch, and what comes after it is not looked at.
		right &= ktap::equal(__FILE__, __LINE__, "result as second",
			submit(door, fd, {nop(), item.command, nop()}), 1);
		if (!right)
			ktap::note("opcode ", int{item.command.opcode}, ", wrong: ", item.what);
		expect(node.ring, 0, 0);
		KTAP_EQUAL(node.ring.tail(), node.ring.head);
	}
	expect_silence(node.ring);
}

DOOR_TEST(submit__bad_buffers)
{
	Node node;
	int fd = node.endpoint.get();
	const std::size_t page = page_size();

	for (std::size_t pages : {1ul, 2ul, 3ul, 4ul, 513ul, 1024ul, 1100ul}) {
		std::size_t bytes = pages * page;
		Pages read_only(bytes, PROT_READ), nothing(bytes, PROT_NONE), cut(bytes + page);
		std::byte *middle = cut.data() + (pages > 512 ? (pages - 1) * page : 0);

		KTAP_EQUAL(submit(door, fd, recv(read_only.data(), bytes, 1)), -EFAULT);
		KTAP_EQUAL(submit(door, fd, recv(nothing.data(), bytes, 1)), -EFAULT);
		KTAP_EQUAL(submit(door, fd, send(node.self, nothing.data(), bytes, 1)), -EFAULT);
		if (pages > 1024)
			continue; // beyond two windows a hole is found later
		KTAP_REQUIRE_EQUAL(::mprotect(middle, page, PROT_NONE), 0);
		KTAP_EQUAL(submit(door, fd, recv(cut.data() + 1, bytes, 1)), -EFAULT);
		KTAP_EQUAL(submit(door, fd, send(node.self, cut.data() + 1, bytes, 1)), -EFAULT);
	}
	expect_silence(node.ring);
}

DOOR_TEST(submit__receives_up_to_the_limit)
{
	Node node(64, [](auto &create) { create.recvs = 4; });
	int fd = node.endpoint.get();
	std::array<std::byte, 64> data{};
	std::vector<Command> commands(6, recv(data.data(), data.size(), 1, 5));

	KTAP_EQUAL(submit(door, fd, commands), 4);
	KTAP_EQUAL(submit(door, fd, commands), 0);
	KTAP_EQUAL(submit(door, fd, {nop(6), commands[0]}), 1);
	expect(node.ring, 6, 0);
	KTAP_EQUAL(submit(door, fd, cancel(5, 7)), 1);
	for (int i = 0; i < 4; i++)
		expect(node.ring, 5, -ECANCELED);

	auto completion = node.ring.next();

	KTAP_REQUIRE(completion.has_value());
	KTAP_EQUAL(completion->user_data, 7);
	KTAP_EQUAL(completion->status, 0);
	KTAP_EQUAL(completion->length, 4);
	KTAP_EQUAL(submit(door, fd, commands), 4);
	KTAP_EQUAL(submit(door, fd, cancel(4, 8)), 1);
	expect(node.ring, 8, -ENOENT);
}

DOOR_TEST(submit__sends_up_to_the_limit)
{
	Node node(64, [](auto &create) { create.sends = 2; });
	int fd = node.endpoint.get();
	std::array<std::byte, 64> data{};
	Command waits = send(node.self, data.data(), data.size(), 1, 1);

	waits.level = IBRELK_LEVEL_MATCHED;
	KTAP_EQUAL(submit(door, fd, {waits, waits, waits}), 2);
	KTAP_EQUAL(submit(door, fd, waits), 0);
	KTAP_EQUAL(submit(door, fd,
			   {recv(data.data(), data.size(), 1, 2), recv(data.data(), data.size(), 1, 2)}),
		2);

	unsigned sent = 0, received = 0;

	for (int i = 0; i < 4; i++) {
		auto completion = node.ring.next();

		KTAP_REQUIRE(completion.has_value());
		KTAP_EQUAL(completion->status, 0);
		sent += completion->user_data == 1;
		received += completion->user_data == 2;
	}
	KTAP_EQUAL(sent, 2);
	KTAP_EQUAL(received, 2);
	/* A send that is complete still counts until its last packet is acknowledged. */
	KTAP_EQUAL(poll_room(fd, POLLOUT, static_cast<int>(patience_ns / ms)), POLLOUT);
	KTAP_EQUAL(submit(door, fd, waits), 1);
}

DOOR_TEST(submit__many_receives)
{
	Node node(256);
	std::uint32_t max = query(node.device.get()).batch_max;
	std::array<std::byte, 64> data{};
	std::vector<Command> batch(max, recv(data.data(), data.size(), 1, 3));
	std::uint32_t posted = 0;

	while (posted < 65536) {
		batch.resize(std::min(max, 65536 - posted));

		int accepted = submit(door, node.endpoint.get(), batch);

		KTAP_REQUIRE(accepted > 0);
		posted += static_cast<std::uint32_t>(accepted);
	}
	KTAP_REQUIRE_EQUAL(submit(door, node.endpoint.get(), cancel(3, 4)), 1);
	for (std::uint32_t i = 0; i < posted; i++) {
		auto completion = node.ring.next();

		KTAP_REQUIRE(completion && completion->user_data == 3 && completion->status == -ECANCELED);
	}
	expect(node.ring, 4, 0);
}

DOOR_TEST(submit__message_to_itself)
{
	Node node;
	int fd = node.endpoint.get();

	for (std::size_t bytes : {0ul, 1ul, 4096ul, 8192ul, 8193ul, 3ul << 20}) {
		auto sent = pattern(bytes, static_cast<std::uint32_t>(bytes));
		std::vector<std::uint8_t> got(bytes + 1, 0xee);
		Command message = send(node.self, sent.data(), bytes, 9, 1);

		message.flags = IBRELK_CMD_IMMEDIATE;
		message.immediate = ~bytes;
		message.level = IBRELK_LEVEL_DELIVERED;
		KTAP_REQUIRE_EQUAL(submit(door, fd, {recv(got.data(), bytes, 9, 2), message}), 2);
		for (int i = 0; i < 2; i++) {
			auto completion = node.ring.next();

			KTAP_REQUIRE(completion.has_value());
			KTAP_EQUAL(completion->status, 0);
			KTAP_EQUAL(completion->length, bytes);
			KTAP_EQUAL(completion->tag, 9);
			if (completion->user_data != 2)
				continue;
			KTAP_EQUAL(completion->opcode, IBRELK_OP_RECV);
			KTAP_EQUAL(completion->flags, IBRELK_CQE_IMMEDIATE);
			KTAP_EQUAL(completion->immediate, ~bytes);
		}
		KTAP_EQUAL(got[bytes], 0xee);
		got.resize(bytes);
		KTAP_CHECK(got == sent);
	}
	expect_silence(node.ring);
}

KTAP_TEST(submit__receive_too_short)
{
	Node node;
	int fd = node.endpoint.get();

	for (std::size_t bytes : {100ul, 100'000ul}) {
		auto sent = pattern(bytes, 1);
		std::vector<std::uint8_t> got(bytes, 0xee);
		std::size_t fits = bytes / 3;

		KTAP_REQUIRE_EQUAL(
			submit(Door::ioctl, fd,
				{recv(got.data(), fits, 1, 2), send(node.self, sent.data(), bytes, 1, 1)}),
			2);
		for (int i = 0; i < 2; i++) {
			auto completion = node.ring.next();

			KTAP_REQUIRE(completion.has_value());
			KTAP_EQUAL(completion->status, completion->user_data == 2 ? -EMSGSIZE : 0);
			KTAP_EQUAL(completion->length, bytes);
		}
		KTAP_CHECK(std::equal(
			got.begin(), got.begin() + static_cast<std::ptrdiff_t>(fits), sent.begin()));
		KTAP_CHECK(std::all_of(got.begin() + static_cast<std::ptrdiff_t>(fits), got.end(),
			[](auto byte) { return byte == 0xee; }));
	}
}

// ---- what only io_uring can do -------------------------------------------------------------------

KTAP_TEST(uring__wrong_entries)
{
	Node node;
	Uring uring;
	Command command = nop(1);
	std::uint64_t address = address_of(&command);

	uring.command(node.endpoint.get(), address, 1)->cmd_op = IBRELK_IOC_PEER_ADD;
	uring.submit();
	KTAP_EQUAL(uring.result(), -ENOTTY);
	uring.command(node.endpoint.get(), address, 1)->cmd_op = 0;
	uring.submit();
	KTAP_EQUAL(uring.result(), -ENOTTY);
	for (int fd : {node.device.get(), node.ring.fd.get()}) {
		uring.command(fd, address, 1);
		uring.submit();
		KTAP_EQUAL(uring.result(), -EOPNOTSUPP);
	}
	// Fixed buffers are not for us, registered or not.
	uring.command(node.endpoint.get(), address, 1)->rw_flags = 1;
	uring.submit();
	KTAP_CHECK(uring.result() < 0);
	expect_silence(node.ring);
}

KTAP_TEST(uring__chains_go_on)
{
	Node node;
	Uring uring;
	const std::array<Command, 6> commands = {nop(1), nop(2), nop(3), nop(4), nop(5), nop(6)};

	for (std::size_t i = 0; i < 3; i++) {
		io_uring_sqe *sqe = uring.command(node.endpoint.get(), address_of(&commands[2 * i]), 2);

		if (i < 2)
			sqe->flags |= IOSQE_IO_LINK;
	}
	uring.submit();
	for (int i = 0; i < 3; i++)
		KTAP_EQUAL(uring.result(), 2);
	for (std::uint64_t i = 1; i <= 6; i++)
		expect(node.ring, i, 0);
}

KTAP_TEST(uring__from_a_worker)
{
	Node node;
	Uring uring;
	std::array<std::uint8_t, 64> got{};
	auto sent = pattern(64, 3);
	const std::array<Command, 2> commands = {
		recv(got.data(), got.size(), 1, 1), send(node.self, sent.data(), sent.size(), 1, 2)};

	uring.command(node.endpoint.get(), address_of(commands.data()), 2)->flags |= IOSQE_ASYNC;
	uring.submit();
	KTAP_EQUAL(uring.result(), 2);
	for (int i = 0; i < 2; i++) {
		auto completion = node.ring.next();

		KTAP_REQUIRE(completion.has_value());
		KTAP_EQUAL(completion->status, 0);
	}
	KTAP_CHECK(std::equal(got.begin(), got.end(), sent.begin()));
}

KTAP_TEST(uring__by_a_polling_thread)
{
	Node node;
	Uring uring(16, IORING_SETUP_SQPOLL);
	std::array<std::uint8_t, 64> got{};
	const std::array<Command, 2> commands = {nop(1), recv(got.data(), got.size(), 1, 2)};

	uring.command(node.endpoint.get(), address_of(commands.data()), 2);
	uring.submit();
	KTAP_EQUAL(uring.result(), 2);
	expect(node.ring, 1, 0);
}

// A ring whose completions are polled for takes none of our commands, or (Linux 7.2) does them like any other
// ring.
KTAP_TEST(uring__with_polled_completions)
{
	Node node;
	Uring uring(16, IORING_SETUP_IOPOLL);
	Command command = nop(1);
	io_uring_cqe *cqe = nullptr;
	auto give_up = Clock::now() + std::chrono::seconds(20);

	uring.command(node.endpoint.get(), address_of(&command), 1);
	uring.submit();
	while (::io_uring_peek_cqe(&uring.ring, &cqe) && Clock::now() < give_up)
		std::this_thread::yield();
	KTAP_REQUIRE(cqe);
	if (cqe->res == 1)
		expect(node.ring, 1, 0);
	else
		KTAP_EQUAL(cqe->res, -EOPNOTSUPP);
	expect_silence(node.ring);
}

KTAP_TEST(uring__full_is_no_error)
{
	Node node(64, [](auto &create) { create.recvs = 1; });
	Uring uring;
	std::array<std::byte, 8> data{};
	const std::array<Command, 2> commands = {recv(data.data(), 8, 1, 1), recv(data.data(), 8, 1, 2)};

	// The second entry finds it full; the third, behind it in the queue, must not overtake anything.
	for (int i = 0; i < 3; i++)
		uring.command(node.endpoint.get(), address_of(commands.data()), 2);
	uring.submit();
	KTAP_EQUAL(uring.result(), 1);
	KTAP_EQUAL(uring.result(), 0);
	KTAP_EQUAL(uring.result(), 0);
}

// ---- many at once, and anything at all -----------------------------------------------------------

DOOR_TEST(threads__on_one_endpoint)
{
	constexpr std::uint64_t threads = 4, batches = 200, batch = 8;
	Node node(64);
	std::vector<std::thread> submitters;
	std::array<std::uint64_t, threads> seen{};
	std::atomic<unsigned> wrong = 0;

	for (std::uint64_t thread = 0; thread < threads; thread++)
		submitters.emplace_back([&, thread] {
			std::uint64_t next = 0;

			while (next < batches * batch && !wrong) {
				std::vector<Command> commands;

				for (std::uint64_t i = next;
					i < std::min<std::uint64_t>(next + batch, batches * batch); i++)
					commands.push_back(nop(thread << 32 | i));

				int accepted = submit(door, node.endpoint.get(), commands);

				if (accepted < 0) {
					ktap::note(
						"thread ", thread, ": command ", next, " gives ", accepted);
					wrong++;
					return;
				}
				next += static_cast<std::uint64_t>(accepted);
			}
		});
	for (unsigned i = 0; i < threads * batches * batch && !wrong; i++) {
		auto completion = node.ring.next();

		if (!completion) {
			ktap::note("no completion after ", i, " of them");
			wrong++;
			break;
		}

		std::uint64_t thread = completion->user_data >> 32,
			      number = completion->user_data & 0xffffffff;

		if (thread >= threads || number != seen[thread]++) {
			ktap::note("completion ", i, " is ", number, " of thread ", thread);
			wrong++;
			break;
		}
	}
	for (auto &submitter : submitters)
		submitter.join();
	KTAP_EQUAL(wrong.load(), 0);
	KTAP_EQUAL(node.ring.wait(1, 0), 0);
}

DOOR_TEST(random__commands)
{
	const char *given = std::getenv("IBRELK_SEED");
	std::uint32_t seed =
		given ? static_cast<std::uint32_t>(std::strtoul(given, nullptr, 0)) : std::random_device()();
	std::mt19937 random(seed);
	auto pick = [&](std::uint64_t limit) {
		return random() % limit;
	};

	ktap::note("IBRELK_SEED=", seed);

	Node node(32);
	constexpr std::size_t bytes = 4 << 20, guard = 4 << 20; // behind it nothing can be overwritten
	Pages memory(bytes + guard, PROT_NONE);

	KTAP_REQUIRE_EQUAL(::mprotect(memory.data(), bytes, PROT_READ | PROT_WRITE), 0);
	// What a call needs of the process is there before it is known what may be written to.
	KTAP_REQUIRE_EQUAL(submit(door, node.endpoint.get(), nop(0)), 1);
	KTAP_REQUIRE(node.ring.next());

	// Whether what lies there is the program's own: then nothing is to be received there.
	auto own = [&](std::uint64_t address) {
		auto *page = reinterpret_cast<void *>(address & ~std::uint64_t{page_size() - 1});
		unsigned char resident = 0;

		return address - address_of(memory.data()) >= memory.size() && !::mincore(page, 1, &resident);
	};
	const std::array<std::uint64_t, 6> addresses = {address_of(memory.data()),
		address_of(memory.data()) + 4095, address_of(memory.data()) + (3 << 20), 0, hole(),
		kernel_address};
	const std::array<std::uint64_t, 8> lengths = {0, 1, 64, 4096, 8193, 100'000, 1 << 20, ~0ull};
	const std::array<int, 6> allowed = {EINVAL, EFAULT, ENOENT, EOPNOTSUPP, ENOMEM, EHOSTUNREACH};

	for (int round = 0; round < 1500; round++) {
		std::vector<Command> commands(1 + pick(12));

		for (auto &command : commands) {
			command = {};
			command.opcode = static_cast<std::uint8_t>(pick(5));
			command.level = static_cast<std::uint8_t>(pick(8) ? 0 : pick(5));
			command.flags = static_cast<std::uint16_t>(pick(4) ? 0 : pick(16));
			command.peer = pick(3) ? node.self
				: pick(2)      ? IBRELK_PEER_ANY
					       : static_cast<std::uint32_t>(random());
			command.addr = addresses[pick(pick(4) ? 3 : addresses.size())];
			command.length = lengths[pick(pick(8) ? 5 : lengths.size())];
			command.tag = pick(4);
			command.ignore = pick(2) ? 0 : pick(4);
			command.immediate = pick(8) ? 0 : random();
			if (!pick(3)) { // as a program would fill it in
				command.immediate = 0;
				command.flags &= IBRELK_CMD_NO_SUCCESS;
				command.ignore = command.opcode == IBRELK_OP_RECV ? command.ignore : 0;
				command.level = 0;
			}
			if (!pick(50)) {
				const std::uint64_t addr = command.addr;

				reinterpret_cast<std::uint8_t *>(&command)[pick(sizeof(command))] ^= 1u
					<< pick(8);
				if (own(command.addr))
					command.addr = addr;
			}
		}

		int result = submit(door, node.endpoint.get(), commands);

		if (result < 0 && std::find(allowed.begin(), allowed.end(), -result) == allowed.end()) {
			ktap::fail(__FILE__, __LINE__, "unexpected error " + std::to_string(-result));
			return;
		}
		KTAP_REQUIRE(result <= static_cast<int>(commands.size()));
		while (node.ring.next(0))
			;
	}
}

} // namespace
} // namespace abi
