// SPDX-License-Identifier: GPL-2.0-only
//
// What the tests of the ABI share: the module's three kinds of descriptor and the two doors, as thin as can
// be and made so that everything about them can be got wrong.
#pragma once

#include "ktap.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <liburing.h>

#include <ibrelk/uapi.h>

namespace abi
{

using Clock = std::chrono::steady_clock;
using Command = ibrelk_command;
using Completion = ibrelk_completion;

inline constexpr std::uint64_t ms = 1'000'000;
inline constexpr std::uint64_t forever = ~std::uint64_t{0};
inline constexpr std::uint64_t patience_ns = 20'000 * ms; // for what must happen; a failure otherwise
inline constexpr uid_t nobody = 65534;
inline constexpr std::uint64_t kernel_address = 0xffff888000000000;

// ---- system calls that return -errno -------------------------------------------------------------

inline int control(int fd, unsigned long request, void *argument)
{
	int ret = ::ioctl(fd, request, argument);

	return ret < 0 ? -errno : ret;
}

inline std::uint64_t address_of(const void *pointer)
{
	return reinterpret_cast<std::uintptr_t>(pointer);
}

inline void *pointer_to(std::uint64_t address)
{
	return reinterpret_cast<void *>(static_cast<std::uintptr_t>(address));
}

class Fd
{
public:
	Fd() = default;
	explicit Fd(int fd) : fd_(fd)
	{
	}
	Fd(Fd &&other) noexcept : fd_(std::exchange(other.fd_, -1))
	{
	}
	Fd &operator=(Fd &&other) noexcept
	{
		close();
		fd_ = std::exchange(other.fd_, -1);
		return *this;
	}
	~Fd()
	{
		close();
	}
	int get() const
	{
		return fd_;
	}
	void close()
	{
		if (fd_ >= 0)
			::close(std::exchange(fd_, -1));
	}

private:
	int fd_ = -1;
};

// Memory from mmap(), with whole pages.
class Pages
{
public:
	explicit Pages(std::size_t bytes, int protection = PROT_READ | PROT_WRITE,
		int flags = MAP_PRIVATE | MAP_ANONYMOUS, int fd = -1) :
		bytes_(bytes),
		data_(::mmap(nullptr, bytes, protection, flags, fd, 0))
	{
		KTAP_REQUIRE(data_ != MAP_FAILED);
	}
	Pages(const Pages &) = delete;
	Pages &operator=(const Pages &) = delete;
	~Pages()
	{
		unmap();
	}
	std::byte *data() const
	{
		return static_cast<std::byte *>(data_);
	}
	std::size_t size() const
	{
		return bytes_;
	}
	void protect(int protection)
	{
		KTAP_REQUIRE_EQUAL(::mprotect(data_, bytes_, protection), 0);
	}
	void unmap()
	{
		if (bytes_)
			::munmap(data_, std::exchange(bytes_, 0));
	}

private:
	std::size_t bytes_;
	void *data_;
};

inline std::size_t page_size()
{
	return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

// An address at which nothing can be read or written, ever: what is only unmapped, something else is mapped
// to later, an io_uring for instance.
inline std::uint64_t hole()
{
	static const Pages pages(page_size(), PROT_NONE);

	return address_of(pages.data());
}

inline unsigned open_descriptors()
{
	unsigned count = 0;
	DIR *folder = ::opendir("/proc/self/fd");

	KTAP_REQUIRE(folder);
	while (::readdir(folder))
		count++;
	::closedir(folder);
	return count;
}

// What is opened within must be closed within.
class NoLeak
{
public:
	NoLeak() : before_(open_descriptors())
	{
	}
	NoLeak(const NoLeak &) = delete;
	NoLeak &operator=(const NoLeak &) = delete;
	~NoLeak()
	{
		KTAP_EQUAL(open_descriptors(), before_);
	}

private:
	unsigned before_;
};

inline void need_root()
{
	if (::geteuid() != 0)
		ktap::skip("needs root");
}

// Runs a function in a child process, which it must survive; its result is the exit status.
inline int in_child(const std::function<int()> &function)
{
	std::fflush(stdout);

	pid_t child = ::fork();
	int status = 0;

	KTAP_REQUIRE(child >= 0);
	if (child == 0) {
		const unsigned failures = ktap::failures();
		int result = 250;

		::alarm(120);
		try {
			result = function();
		} catch (...) {
		}
		// The parent does not see those that failed here.
		if (!result && ktap::failures() != failures)
			result = 251;
		std::fflush(stdout);
		::_exit(result);
	}
	KTAP_REQUIRE_EQUAL(::waitpid(child, &status, 0), child);
	KTAP_REQUIRE(WIFEXITED(status));
	return WEXITSTATUS(status);
}

// ---- what the command line says -------------------------------------------------------------------

using Gid = std::array<std::uint8_t, 16>;

// --between A B: two addresses of this node, between which tests of memory send, over UC-reliable. Adapters
// then carry what would be copied by the module alone if it stayed with one endpoint.
struct Between {
	Gid from, to;
};

inline std::optional<Between> between;
inline std::string disk; // --disk FOLDER: on a file system that writes back what is written to mappings

// ---- the module's descriptors --------------------------------------------------------------------

inline Fd open_device()
{
	Fd fd(::open(IBRELK_DEVICE_PATH, O_RDWR | O_CLOEXEC));

	if (fd.get() < 0 && (errno == ENOENT || errno == ENODEV))
		ktap::skip("no " IBRELK_DEVICE_PATH ": the module is not loaded");
	KTAP_REQUIRE(fd.get() >= 0);
	return fd;
}

inline ibrelk_query query(int device)
{
	ibrelk_query answer{};

	KTAP_REQUIRE_EQUAL(control(device, IBRELK_IOC_QUERY, &answer), 0);
	return answer;
}

inline ibrelk_ring_create ring_request(std::uint32_t entries)
{
	ibrelk_ring_create create{};

	create.entries = entries;
	create.fd = -1;
	return create;
}

class Ring
{
public:
	Ring(int device, std::uint32_t entries)
	{
		auto create = ring_request(entries);

		KTAP_REQUIRE_EQUAL(control(device, IBRELK_IOC_RING_CREATE, &create), 0);
		fd = Fd(create.fd);
		map = std::make_unique<Pages>(
			create.map_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, create.fd);
		header = reinterpret_cast<ibrelk_ring_header *>(map->data());
		entry = reinterpret_cast<Completion *>(map->data() + header->entries_offset);
		size = create.entries;
	}

	std::uint32_t tail() const
	{
		return __atomic_load_n(&header->tail, __ATOMIC_ACQUIRE);
	}
	void set_head(std::uint32_t value)
	{
		__atomic_store_n(&header->head, value, __ATOMIC_RELEASE);
	}
	bool overflowed() const
	{
		return __atomic_load_n(&header->flags, __ATOMIC_RELAXED) & IBRELK_RING_OVERFLOW;
	}
	int wait(std::uint32_t count, std::uint64_t timeout_ns, std::uint64_t busy_poll_ns = 0)
	{
		ibrelk_ring_wait wait{};

		wait.count = count;
		wait.timeout_ns = timeout_ns;
		wait.busy_poll_ns = busy_poll_ns;
		return control(fd.get(), IBRELK_IOC_RING_WAIT, &wait);
	}
	std::optional<Completion> poll()
	{
		if (tail() == head)
			return {};

		Completion completion = entry[head & (size - 1)];

		set_head(++head);
		return completion;
	}
	// The next completion, or nothing within the time; which begins anew when a signal, or work that
	// io_uring has for this thread, ends the wait early.
	std::optional<Completion> next(std::uint64_t timeout_ns = patience_ns)
	{
		while (tail() == head && wait(1, timeout_ns) == -EINTR)
			;
		return poll();
	}

	Fd fd;
	std::unique_ptr<Pages> map;
	ibrelk_ring_header *header = nullptr;
	Completion *entry = nullptr;
	std::uint32_t size = 0;
	std::uint32_t head = 0;
};

inline ibrelk_endpoint_create endpoint_request(const Ring &send, const Ring &recv)
{
	ibrelk_endpoint_create create{};

	create.send_ring = send.fd.get();
	create.recv_ring = recv.fd.get();
	create.fd = -1;
	return create;
}

// A device, a ring, and an endpoint that uses it for everything and knows itself as a peer.
struct Node {
	explicit Node(std::uint32_t entries = 64,
		const std::function<void(ibrelk_endpoint_create &)> &change = {}) :
		device(open_device()),
		ring(device.get(), entries)
	{
		if (!query(device.get()).ports)
			ktap::skip("no usable RDMA port");

		auto create = endpoint_request(ring, ring);

		if (change)
			change(create);
		KTAP_REQUIRE_EQUAL(control(device.get(), IBRELK_IOC_ENDPOINT_CREATE, &create), 0);
		endpoint = Fd(create.fd);
		address = create.local;

		ibrelk_peer peer{};

		peer.addr = address;
		KTAP_REQUIRE_EQUAL(control(endpoint.get(), IBRELK_IOC_PEER_ADD, &peer), 0);
		self = peer.handle;
	}

	Fd device;
	Ring ring;
	Fd endpoint;
	ibrelk_addr address{};
	std::uint32_t self = 0;
};

// ---- commands and doors --------------------------------------------------------------------------

inline Command nop(std::uint64_t user_data = 0)
{
	Command command{};

	command.opcode = IBRELK_OP_NOP;
	command.user_data = user_data;
	return command;
}

inline Command send(std::uint32_t peer, const void *data, std::uint64_t bytes, std::uint64_t tag,
	std::uint64_t user_data = 0)
{
	Command command{};

	command.opcode = IBRELK_OP_SEND;
	command.peer = peer;
	command.addr = address_of(data);
	command.length = bytes;
	command.tag = tag;
	command.user_data = user_data;
	return command;
}

inline Command recv(void *data, std::uint64_t bytes, std::uint64_t tag, std::uint64_t user_data = 0)
{
	Command command{};

	command.opcode = IBRELK_OP_RECV;
	command.peer = IBRELK_PEER_ANY;
	command.addr = address_of(data);
	command.length = bytes;
	command.tag = tag;
	command.user_data = user_data;
	return command;
}

inline Command cancel(std::uint64_t target, std::uint64_t user_data = 0)
{
	Command command{};

	command.opcode = IBRELK_OP_CANCEL;
	command.addr = target;
	command.user_data = user_data;
	return command;
}

// What looks for a message with this tag, of whomever: a probe, a claim, or, with more filled in, a
// multi-receive.
inline Command look(std::uint8_t opcode, std::uint64_t tag, std::uint64_t user_data = 0)
{
	Command command{};

	command.opcode = opcode;
	command.peer = IBRELK_PEER_ANY;
	command.tag = tag;
	command.user_data = user_data;
	return command;
}

inline Command recv_multi(void *data, std::uint64_t bytes, std::uint32_t messages, std::uint64_t tag,
	std::uint64_t user_data = 0)
{
	Command command = look(IBRELK_OP_RECV_MULTI, tag, user_data);

	command.addr = address_of(data);
	command.length = bytes;
	command.messages = messages;
	return command;
}

inline Command discard(std::uint64_t claim, std::uint64_t user_data = 0)
{
	Command command{};

	command.opcode = IBRELK_OP_DISCARD;
	command.tag = claim;
	command.user_data = user_data;
	return command;
}

class Uring
{
public:
	explicit Uring(unsigned entries = 16, unsigned flags = 0)
	{
		int error = ::io_uring_queue_init(entries, &ring, flags);

		if (error < 0)
			ktap::skip("no io_uring with flags " + std::to_string(flags) + ": " +
				std::strerror(-error));
	}
	Uring(const Uring &) = delete;
	Uring &operator=(const Uring &) = delete;
	~Uring()
	{
		::io_uring_queue_exit(&ring);
	}

	io_uring_sqe *command(int fd, std::uint64_t commands, std::uint32_t count, std::uint32_t flags = 0)
	{
		io_uring_sqe *sqe = ::io_uring_get_sqe(&ring);
		ibrelk_submit_uring submit{};

		KTAP_REQUIRE(sqe);
		submit.commands = commands;
		submit.count = count;
		submit.flags = flags;
		::io_uring_prep_rw(IORING_OP_URING_CMD, sqe, fd, nullptr, 0, 0);
		sqe->cmd_op = IBRELK_IOC_SUBMIT;
		std::memcpy(sqe->cmd, &submit, sizeof(submit));
		return sqe;
	}
	void submit()
	{
		KTAP_REQUIRE(::io_uring_submit(&ring) >= 0);
	}
	int result()
	{
		__kernel_timespec limit = {.tv_sec = 20, .tv_nsec = 0};
		io_uring_cqe *cqe = nullptr;

		KTAP_REQUIRE_EQUAL(::io_uring_wait_cqe_timeout(&ring, &cqe, &limit), 0);

		int result = cqe->res;

		::io_uring_cqe_seen(&ring, cqe);
		return result;
	}

	io_uring ring{};
};

enum class Door { ioctl, uring };

inline int submit_raw(Door door, int fd, std::uint64_t commands, std::uint32_t count, std::uint32_t flags = 0)
{
	if (door == Door::ioctl) {
		ibrelk_submit submit{};

		submit.commands = commands;
		submit.count = count;
		submit.flags = flags;
		return control(fd, IBRELK_IOC_SUBMIT, &submit);
	}

	// One for each thread, and another one after fork(): the parent's is shared with it.
	thread_local std::unique_ptr<Uring> uring;
	thread_local pid_t owner = 0;

	if (!uring || owner != ::getpid()) {
		(void)uring.release();
		uring = std::make_unique<Uring>();
		owner = ::getpid();
	}
	uring->command(fd, commands, count, flags);
	uring->submit();
	return uring->result();
}

inline int submit(Door door, int fd, const std::vector<Command> &commands)
{
	return submit_raw(door, fd, address_of(commands.data()), static_cast<std::uint32_t>(commands.size()));
}

inline int submit(Door door, int fd, const Command &command)
{
	return submit_raw(door, fd, address_of(&command), 1);
}

// A test that is made once for each door.
#define DOOR_TEST(name) \
	void name(Door door); \
	KTAP_TEST(name##__ioctl) \
	{ \
		name(Door::ioctl); \
	} \
	KTAP_TEST(name##__uring) \
	{ \
		name(Door::uring); \
	} \
	void name(Door door)

// The user_data and status of the next completion; a failed check if there is none.
inline void expect(Ring &ring, std::uint64_t user_data, int status)
{
	auto completion = ring.next();

	if (!completion) {
		ktap::fail(__FILE__, __LINE__, "no completion " + std::to_string(user_data));
		throw ktap::Stop();
	}
	KTAP_EQUAL(completion->user_data, user_data);
	KTAP_EQUAL(completion->status, status);
	KTAP_EQUAL(completion->reserved0, 0);
	KTAP_EQUAL(completion->claim, 0);
}

inline void expect_silence(Ring &ring)
{
	KTAP_EQUAL(ring.wait(1, 0), 0);
	KTAP_EQUAL(ring.tail(), ring.head);
}

inline ibrelk_endpoint_info endpoint_info(const Node &node)
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

// Fragments that RDMA writes stood for, at both ends, of all who send here, and parts of messages that could
// not be registered for them.
struct Written {
	std::uint64_t tx = 0, rx = 0, copied = 0;
};

inline Written written(const Node &node)
{
	// Paths to this node's many addresses for itself stay for up to a minute.
	std::vector<ibrelk_path_info> info(256);
	ibrelk_dump dump{};
	Written all;

	dump.kind = IBRELK_DUMP_PATHS;
	dump.buffer = address_of(info.data());
	dump.entry_bytes = sizeof(info[0]);
	dump.entries = static_cast<std::uint32_t>(info.size());
	KTAP_REQUIRE_EQUAL(control(node.device.get(), IBRELK_IOC_DUMP, &dump), 0);
	KTAP_REQUIRE(dump.total <= info.size());
	for (std::uint32_t i = 0; i < dump.entries; i++) {
		all.tx += info[i].counters.tx_written;
		all.rx += info[i].counters.rx_written;
		all.copied += info[i].counters.windows_copied;
	}
	return all;
}

// The two ends of each message here: the same endpoint, or with --between two, which share a ring.
struct Ends : Node {
	explicit Ends(std::uint32_t entries = 64, std::uint32_t mode = IBRELK_MODE_UC_RELIABLE) :
		Node(entries, change(between ? between->to : Gid{}, mode))
	{
		if (!between)
			return;

		auto create = endpoint_request(ring, ring);
		ibrelk_peer peer{};

		change(between->from, mode)(create);
		KTAP_REQUIRE_EQUAL(control(device.get(), IBRELK_IOC_ENDPOINT_CREATE, &create), 0);
		sender = Fd(create.fd);
		peer.addr = address;
		KTAP_REQUIRE_EQUAL(control(sender.get(), IBRELK_IOC_PEER_ADD, &peer), 0);
		self = peer.handle;
	}
	// Receives, and all but what goes to the other end, first.
	int post(const std::vector<Command> &commands)
	{
		if (!between)
			return submit(Door::ioctl, endpoint.get(), commands);

		std::vector<Command> parts[2];
		int accepted = 0;

		for (const auto &command : commands)
			parts[command.opcode == IBRELK_OP_SEND || command.opcode >= IBRELK_OP_PUT].push_back(
				command);
		for (int part = 0; part < 2; part++) {
			if (parts[part].empty())
				continue;
			int ret = submit(Door::ioctl, part ? sender.get() : endpoint.get(), parts[part]);

			if (ret < 0)
				return accepted ? accepted : ret;
			accepted += ret;
		}
		return accepted;
	}
	int post(const Command &command)
	{
		return post(std::vector<Command>{command});
	}

	Fd sender;

private:
	static std::function<void(ibrelk_endpoint_create &)> change(const Gid &gid, std::uint32_t mode)
	{
		return [gid, mode](ibrelk_endpoint_create &create) {
			if (!between)
				return;
			std::ranges::copy(gid, create.local.gid);
			create.mode = mode;
		};
	}
};

inline std::vector<std::uint8_t> pattern(std::size_t bytes, std::uint32_t seed)
{
	std::vector<std::uint8_t> data(bytes);
	std::minstd_rand random(seed + 1);

	for (auto &byte : data)
		byte = static_cast<std::uint8_t>(random() >> 8);
	return data;
}

} // namespace abi
