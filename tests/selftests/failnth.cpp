// SPDX-License-Identifier: GPL-2.0-only
// Lets the n-th allocation (and the n-th copy from or to user memory) of a whole life with ibrelk fail,
// for n = 1, 2 ... until none is left to fail: rings, endpoints, peers, messages by both protocols,
// statistics, the end. Every call must succeed or give a clean error, and every command that was
// accepted must be answered. The kernel's own checks (KASAN, lockdep, kmemleak) look for the rest.
//
// With the arguments "transfer", and a mode, a step in bytes and a length, once or several times: what
// happens outside of system calls, too, in softirqs and workers. Messages of that length go from one
// soft-RoCE device to another one of the same node, and failslab lets one allocation fail that is made by the
// module, or by anybody on its behalf: the first one, then later and later ones, until none is left. Each
// message must arrive intact, or end with an error of those that are documented; the next one must arrive.
// Where messages are written, most of those that something failed for must have been.
//
// Talks to the module without the library, whose own allocations are none of our business. Needs a
// kernel with CONFIG_FAULT_INJECTION_DEBUG_FS and root; see Documentation/fault-injection there.

#include <fcntl.h>
#include <ibrelk/uapi.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace
{

constexpr std::uint64_t wait_ns = 60'000'000'000;
constexpr int faults_max = 100'000;
int nth_file = -1;
int faults = 0;
bool ends_lives = false; // for want of memory, which the other end hears of as a reset

[[noreturn]] void fail(const char *what, int error)
{
	std::printf("failnth: fault %d: %s: %s\n", faults, what, std::strerror(error));
	std::exit(1);
}

// An injected fault shows as one of these; anything else is an error that blames the wrong thing.
bool clean(int error)
{
	return error == ENOMEM || error == EFAULT || error == ENFILE || error == EMFILE ||
		(ends_lives && error == ECONNRESET);
}

// Return: the call succeeded.
bool check(const char *what, long result)
{
	if (result >= 0)
		return true;
	if (!clean(errno))
		fail(what, errno);
	return false;
}

class descriptor
{
public:
	descriptor() = default;
	explicit descriptor(int fd) : fd_(fd)
	{
	}
	descriptor(const descriptor &) = delete;
	descriptor &operator=(const descriptor &) = delete;
	~descriptor()
	{
		reset(-1);
	}
	void reset(int fd)
	{
		if (fd_ >= 0)
			close(fd_);
		fd_ = fd;
	}
	[[nodiscard]] int get() const
	{
		return fd_;
	}

private:
	int fd_ = -1;
};

class ring
{
public:
	ring() = default;
	ring(const ring &) = delete;
	ring &operator=(const ring &) = delete;
	~ring()
	{
		if (header_ != nullptr)
			munmap(header_, bytes_);
	}

	bool open(int device)
	{
		ibrelk_ring_create create{};

		create.entries = 16;
		if (!check("ring create", ioctl(device, IBRELK_IOC_RING_CREATE, &create)))
			return false;
		fd_.reset(create.fd);
		void *map = mmap(nullptr, create.map_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, create.fd, 0);
		if (map == MAP_FAILED)
			return check("ring mmap", -1);
		header_ = static_cast<ibrelk_ring_header *>(map);
		bytes_ = create.map_bytes;
		return true;
	}

	// The next completion's status. The wait itself may be what fails.
	int next()
	{
		ibrelk_ring_wait wait{.count = 1, .flags = 0, .timeout_ns = wait_ns, .busy_poll_ns = 0};

		while (__atomic_load_n(&header_->tail, __ATOMIC_ACQUIRE) == header_->head) {
			const int ready = ioctl(fd_.get(), IBRELK_IOC_RING_WAIT, &wait);

			check("ring wait", ready);
			if (ready == 0)
				fail("an accepted command was never answered", ETIMEDOUT);
		}
		const auto *entries = reinterpret_cast<const ibrelk_completion *>(
			reinterpret_cast<const char *>(header_) + header_->entries_offset);
		const int status = entries[header_->head % header_->entries].status;

		__atomic_store_n(&header_->head, header_->head + 1, __ATOMIC_RELEASE);
		return status;
	}

	[[nodiscard]] int fd() const
	{
		return fd_.get();
	}

private:
	descriptor fd_;
	ibrelk_ring_header *header_ = nullptr;
	std::size_t bytes_ = 0;
};

using ip4 = std::array<unsigned char, 4>;
constexpr ip4 loopback{127, 0, 0, 1};

bool open_endpoint(
	int device, int ring, std::uint32_t mode, const ip4 &ip, descriptor &endpoint, ibrelk_addr &addr)
{
	ibrelk_endpoint_create create{};

	create.mode = mode;
	create.send_ring = ring;
	create.recv_ring = ring;
	create.local.gid[10] = create.local.gid[11] = 0xff;
	std::copy(ip.begin(), ip.end(), create.local.gid + 12);
	if (!check("endpoint create", ioctl(device, IBRELK_IOC_ENDPOINT_CREATE, &create)))
		return false;
	endpoint.reset(create.fd);
	addr = create.local;
	return true;
}

// Return: it was accepted.
bool submit(int endpoint, ibrelk_command command)
{
	ibrelk_submit submit{};

	submit.commands = reinterpret_cast<std::uintptr_t>(&command);
	submit.count = 1;
	return check("submit", ioctl(endpoint, IBRELK_IOC_SUBMIT, &submit));
}

void expect_answer(const char *what, int status)
{
	if (status != 0 && !clean(-status))
		fail(what, -status);
}

// One message. Its buffers are checked if nothing failed. Return: it has arrived.
bool exchange(int sender, int receiver, ring &from_ring, ring &to_ring, std::uint32_t peer, std::size_t size)
{
	// Static, so that the buffers are there before allocations begin to fail. What is sent differs in
	// each packet.
	static std::vector<unsigned char> from, to(10 << 20);
	ibrelk_command send{}, recv{};

	for (std::size_t i = from.size(); i < to.size(); i++)
		from.push_back(static_cast<unsigned char>(0x5a + i / 1000 * 7));
	std::memset(to.data(), 0, size);
	recv.opcode = IBRELK_OP_RECV;
	recv.peer = IBRELK_PEER_ANY;
	recv.addr = reinterpret_cast<std::uintptr_t>(to.data());
	recv.length = size;
	send.opcode = IBRELK_OP_SEND;
	send.peer = peer;
	send.addr = reinterpret_cast<std::uintptr_t>(from.data());
	send.length = size;
	if (!submit(receiver, recv))
		return false;
	int sent = -ENOMEM;
	if (submit(sender, send)) {
		sent = from_ring.next();
		expect_answer("send", sent);
	}
	if (sent == 0) {
		const int received = to_ring.next();

		expect_answer("receive", received);
		if (received == 0 && std::memcmp(from.data(), to.data(), size) != 0)
			fail("data is wrong", EIO);
		return received == 0;
	}
	// The receive is over, too, or still waits for a message.
	ibrelk_command cancel{};

	cancel.opcode = IBRELK_OP_CANCEL;
	while (!submit(receiver, cancel))
		;
	to_ring.next();
	to_ring.next();
	return false;
}

void live()
{
	descriptor device(open(IBRELK_DEVICE_PATH, O_RDWR | O_CLOEXEC));
	ring rings[2];
	descriptor endpoint[2];
	ibrelk_addr addr[2];
	ibrelk_query query{};
	ibrelk_peer peer{};

	if (!check("open", device.get()))
		return;
	check("query", ioctl(device.get(), IBRELK_IOC_QUERY, &query));
	for (int i = 0; i < 2; i++)
		if (!rings[i].open(device.get()) ||
			!open_endpoint(device.get(), rings[i].fd(), IBRELK_MODE_UD_RELIABLE, loopback,
				endpoint[i], addr[i]))
			return;
	peer.addr = addr[1];
	if (!check("peer add", ioctl(endpoint[0].get(), IBRELK_IOC_PEER_ADD, &peer)))
		return;
	for (const std::size_t size : {0, 100, 8000, 100'000, 5 << 20})
		exchange(endpoint[0].get(), endpoint[1].get(), rings[0], rings[1], peer.handle, size);

	std::array<ibrelk_path_info, 8> paths{};
	ibrelk_dump dump{};

	dump.kind = IBRELK_DUMP_PATHS;
	dump.buffer = reinterpret_cast<std::uintptr_t>(paths.data());
	dump.entry_bytes = sizeof(paths[0]);
	dump.entries = paths.size();
	check("dump", ioctl(device.get(), IBRELK_IOC_DUMP, &dump));
}

void put(const char *path, const char *value)
{
	const int fd = open(path, O_WRONLY);

	if (fd < 0 || write(fd, value, std::strlen(value)) < 0) {
		std::printf("failnth: %s: %s\n", path, std::strerror(errno));
		std::exit(4);
	}
	close(fd);
}

// 0: no fault. What was armed before, and has not happened, may hit the copy of this very 0; then nothing is
// armed any more.
void arm(int nth)
{
	std::array<char, 16> text{};
	const int length = std::snprintf(text.data(), text.size(), "%d", nth);

	if (pwrite(nth_file, text.data(), length, 0) != length &&
		(nth != 0 || errno != EFAULT || pwrite(nth_file, text.data(), length, 0) != length))
		fail("arming", errno);
}

// Return: the armed fault has happened.
bool happened()
{
	std::array<char, 16> text{};

	if (pread(nth_file, text.data(), text.size() - 1, 0) < 0) {
		// The copy to this very buffer was the n-th thing: all before it went well.
		if (errno != EFAULT)
			fail("reading", errno);
		return false;
	}
	return std::atoi(text.data()) == 0;
}

// failslab, for what the module does, or has done.
class failslab
{
public:
	failslab()
	{
		std::uint64_t first = 0, bytes = 0;
		std::FILE *modules = std::fopen("/proc/modules", "r");
		std::array<char, 512> line{};

		while (modules != nullptr && std::fgets(line.data(), line.size(), modules) != nullptr)
			if (std::sscanf(line.data(), "ibrelk %" SCNu64 " %*s %*s %*s %" SCNx64, &bytes,
				    &first) == 2)
				break;
		if (first == 0)
			fail("/proc/modules does not say where the module is", ENOENT);
		set("require-start", first);
		set("require-end", first + bytes);
		set("stacktrace-depth", 32);
		set("interval", 1);
	}
	~failslab()
	{
		disarm();
	}
	failslab(const failslab &) = delete;
	failslab &operator=(const failslab &) = delete;

	// The first allocation fails after so many bytes.
	static void arm(std::uint64_t bytes)
	{
		set("space", bytes);
		set("times", 1);
		set("probability", 100);
	}

	static void disarm()
	{
		set("probability", 0);
	}

	static bool happened()
	{
		std::array<char, 16> text{};
		const int fd = open("/sys/kernel/debug/failslab/times", O_RDONLY);

		if (fd < 0 || read(fd, text.data(), text.size() - 1) < 0)
			fail("reading failslab", errno);
		close(fd);
		return std::atoi(text.data()) == 0;
	}

private:
	static void set(const std::string &name, std::uint64_t value)
	{
		const bool hexadecimal = name.rfind("require", 0) == 0;
		std::array<char, 32> text{};

		std::snprintf(text.data(), text.size(), hexadecimal ? "0x%" PRIx64 : "%" PRIu64, value);
		put(("/sys/kernel/debug/failslab/" + name).c_str(), text.data());
	}
};

struct transfer_mode {
	const char *name;
	std::uint32_t mode;
	bool written; // fragments of long messages go into the receiver's memory
};

constexpr std::array<transfer_mode, 6> transfer_modes{{
	{"uc-reliable", IBRELK_MODE_UC_RELIABLE, true},
	{"uc-native", IBRELK_MODE_UC_NATIVE, true},
	{"ud-reliable", IBRELK_MODE_UD_RELIABLE, false},
	{"ud-native", IBRELK_MODE_UD_NATIVE, false},
	{"rc-reliable", IBRELK_MODE_RC_RELIABLE, true},
	{"rc-native", IBRELK_MODE_RC_NATIVE, true},
}};

// Fragments that were written into a receiver's memory so far.
std::uint64_t written(int device)
{
	std::array<ibrelk_path_info, 2 * transfer_modes.size()> paths{}; // of both ends
	ibrelk_dump dump{};
	std::uint64_t all = 0;

	dump.kind = IBRELK_DUMP_PATHS;
	dump.buffer = reinterpret_cast<std::uintptr_t>(paths.data());
	dump.entry_bytes = sizeof(paths[0]);
	dump.entries = paths.size();
	if (!check("dump", ioctl(device, IBRELK_IOC_DUMP, &dump)))
		fail("dump", errno);
	if (dump.total > paths.size())
		fail("there are more paths than modes", E2BIG);
	for (std::uint32_t i = 0; i < dump.entries; i++)
		all += paths[i].counters.rx_written;
	return all;
}

const transfer_mode &mode_of(const std::string &name)
{
	for (const transfer_mode &mode : transfer_modes)
		if (name == mode.name)
			return mode;
	fail("no such mode", EINVAL);
}

// One fault for each @step bytes that are allocated on the way of a message of @size bytes.
int transfers(const transfer_mode &mode, std::uint64_t step, std::size_t size)
{
	const char *const name = mode.name;
	const ip4 ips[] = {{10, 9, 0, 1}, {10, 9, 0, 2}};
	descriptor device(open(IBRELK_DEVICE_PATH, O_RDWR | O_CLOEXEC));
	ring rings[2];
	descriptor endpoint[2];
	ibrelk_addr addr[2];
	ibrelk_peer peer{};
	int arrived = 0, met = 0;

	for (int i = 0; i < 2; i++)
		if (!rings[i].open(device.get()) ||
			!open_endpoint(device.get(), rings[i].fd(), mode.mode, ips[i], endpoint[i], addr[i]))
			fail("opening", errno);
	peer.addr = addr[1];
	if (!check("peer add", ioctl(endpoint[0].get(), IBRELK_IOC_PEER_ADD, &peer)))
		fail("peer add", errno);
	const auto message = [&] {
		return exchange(endpoint[0].get(), endpoint[1].get(), rings[0], rings[1], peer.handle, size);
	};
	if (!message())
		fail("the first message does not arrive", EIO);

	const failslab slab;
	for (faults = 1; faults < faults_max; faults++) {
		const std::uint64_t before = written(device.get());

		failslab::arm((faults - 1) * step);
		arrived += message();
		const bool done = !failslab::happened();
		failslab::disarm();
		if (done)
			break;
		met += written(device.get()) > before;
		if (!message())
			fail("the next message does not arrive", EIO);
	}
	std::printf("failnth: %s: %d faults, one at a time; %d messages of %zu bytes arrived all the same\n",
		name, faults - 1, arrived - 1, size);
	std::printf("failnth: %s: %d of them were written, in part at least\n", name, met);
	if (mode.written ? met < (faults - 1) / 2 : met > 0) {
		std::printf("failnth: %s: that is not its way\n", name);
		return 1;
	}
	return faults > 50 && faults < faults_max ? 0 : 1;
}

} // namespace

int main(int argc, char **argv)
{
	put("/sys/kernel/debug/failslab/ignore-gfp-wait", "N");
	put("/sys/kernel/debug/fail_page_alloc/ignore-gfp-wait", "N");
	put("/sys/kernel/debug/fail_page_alloc/ignore-gfp-highmem", "N");
	// Reports of every fault would take longer than all the rest.
	put("/sys/kernel/debug/failslab/verbose", "0");
	put("/sys/kernel/debug/fail_page_alloc/verbose", "0");
	put("/sys/kernel/debug/fail_usercopy/verbose", "0");
	if (argc > 1 && std::string(argv[1]) == "transfer") {
		ends_lives = true;
		int status = 0;
		for (int i = 2; i + 2 < argc; i += 3)
			status |= transfers(mode_of(argv[i]), std::strtoull(argv[i + 1], nullptr, 0),
				std::strtoull(argv[i + 2], nullptr, 0));
		return status;
	}
	nth_file = open("/proc/self/fail-nth", O_RDWR);
	if (nth_file < 0)
		fail("/proc/self/fail-nth", errno);
	// Of two things to come, looking is the first, and disarming the second.
	arm(2);
	if (happened())
		fail("looking", EIO);
	arm(0);
	live(); // makes the path and all that the C library wants once
	for (faults = 1; faults < faults_max; faults++) {
		arm(faults);
		live();
		const bool done = !happened();
		arm(0);
		if (done)
			break;
	}
	live();
	std::printf("failnth: %d faults, one at a time, all clean\n", faults - 1);
	return faults > 50 && faults < faults_max ? 0 : 1;
}
