// SPDX-License-Identifier: GPL-2.0-only
//
// User memory of every kind, within RLIMIT_MEMLOCK and beyond. With --between, all of it is read and written
// by adapters.
#include "abi.hpp"

#include <atomic>
#include <fstream>
#include <linux/capability.h>
#include <linux/mempolicy.h>
#include <linux/userfaultfd.h>
#include <mutex>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <thread>

namespace abi
{
namespace
{

// ---- user memory ---------------------------------------------------------------------------------

// What the way of a long message must be between two adapters.
enum class Way {
	written,
	refused, // the memory is none that can be registered, which is counted
	copied,
	either
};

// Sends from one place to another, and tells how the receive ended.
int transfer(Ends &node, const void *from, void *to, std::size_t bytes, Way way = Way::written)
{
	const bool shown = between && way != Way::either && bytes > query(node.device.get()).eager_max;
	const Written before = shown ? written(node) : Written();
	int status = 1;

	KTAP_REQUIRE_EQUAL(node.post({recv(to, bytes, 1, 2), send(node.self, from, bytes, 1, 1)}), 2);
	for (int i = 0; i < 2; i++) {
		auto completion = node.ring.next();

		KTAP_REQUIRE(completion.has_value());
		if (completion->user_data == 2)
			status = completion->status;
	}
	if (shown) {
		const Written after = written(node);

		KTAP_EQUAL(after.tx > before.tx, way == Way::written);
		KTAP_EQUAL(after.rx > before.rx, way == Way::written);
		KTAP_EQUAL(after.copied > before.copied, way == Way::refused);
	}
	return status;
}

// Waits for the end of a send and of its receive, in either order.
void both_end(Ends &node, int status)
{
	for (int i = 0; i < 2; i++) {
		auto completion = node.ring.next();

		KTAP_REQUIRE(completion.has_value());
		KTAP_EQUAL(completion->status, status);
	}
}

int region(const Node &node, const void *memory, std::size_t bytes, std::uint32_t flags)
{
	ibrelk_region_create create{};

	create.addr = address_of(memory);
	create.length = bytes;
	create.flags = flags;
	const int error = control(node.device.get(), IBRELK_IOC_REGION_CREATE, &create);

	return error ? error : create.fd;
}

// A hundred bytes, less than a window, and more than two, from and to each, at an odd place.
void exchange_sizes(Ends &node, std::byte *memory, std::size_t room, Way way = Way::written)
{
	const std::size_t longest = room - 1;
	const auto data = pattern(longest, 5);

	for (std::size_t size : {std::size_t{100}, std::size_t{20'000}, longest}) {
		std::vector<std::uint8_t> back(size);

		std::memset(memory, 0x11, room);
		KTAP_EQUAL(transfer(node, data.data(), memory + 1, size, way), 0);
		KTAP_CHECK(std::memcmp(data.data(), memory + 1, size) == 0);
		// What is not written in place is read there all the same.
		KTAP_EQUAL(transfer(node, memory + 1, back.data(), size), 0);
		KTAP_CHECK(std::memcmp(data.data(), back.data(), size) == 0);
	}
}

void exchange_sizes(Ends &node, Pages &pages, Way way = Way::written)
{
	exchange_sizes(node, pages.data(), pages.size(), way);
}

constexpr std::size_t kind_bytes = 5 << 20;

// No test of ours, but of the machine's kernel (UML's once failed it): memory that is gone, is gone for the
// process, even if other memory comes to the same place within the same system call.
KTAP_TEST(memory__forgotten_by_the_machine)
{
	constexpr std::size_t table = 2 << 20; // what one page table maps
	const pid_t child = ::fork();
	int status = 0;

	if (!child) {
		// With nothing beside it, so that its page table goes with it.
		Pages room(9 * table);
		auto *memory = room.data() + 4 * table + (table - address_of(room.data()) % table) % table;
		Fd file(::memfd_create("ibrelk-abi", MFD_CLOEXEC));

		room.unmap();
		if (::mmap(memory, table, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
			    0) != memory)
			::_exit(1);
		std::memset(memory, 1, table);
		// Of the file only the first page is there.
		if (::ftruncate(file.get(), static_cast<off_t>(page_size())) ||
			::mmap(memory, table, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_POPULATE,
				file.get(), 0) != memory)
			::_exit(2);
		::_exit(3 + static_cast<int>(static_cast<volatile std::byte *>(memory)[table / 2]));
	}
	KTAP_REQUIRE(child > 0);
	KTAP_REQUIRE_EQUAL(::waitpid(child, &status, 0), child);
	KTAP_CHECK(WIFSIGNALED(status));
	KTAP_EQUAL(WTERMSIG(status), SIGBUS);
}

KTAP_TEST(memory__of_every_kind)
{
	Ends node;
	Fd file(::memfd_create("ibrelk-abi", MFD_CLOEXEC));

	KTAP_REQUIRE_EQUAL(::ftruncate(file.get(), kind_bytes), 0);

	Pages shared(kind_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get());
	Pages copied(kind_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, file.get());
	Pages populated(kind_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE);
	Pages inherited(kind_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS);

	for (Pages *kind : {&shared, &copied, &populated, &inherited})
		exchange_sizes(node, *kind);
}

// What the module has bounced for an endpoint.
std::uint64_t bounced(const Node &node)
{
	return endpoint_info(node).counters.bounced_bytes;
}

// A number that the kernel keeps in a file.
std::size_t number(const char *file)
{
	std::ifstream stream(file);
	std::size_t value = 0;

	return stream >> value ? value : 0;
}

// What a line of a file in /proc says, in KiB, for what is at an address if the file has lines for each
// mapping.
std::size_t proc_kib(const char *file, const std::string &name, const void *address = nullptr)
{
	std::ifstream stream(file);
	bool here = !address;

	for (std::string line; std::getline(stream, line);) {
		unsigned long start = 0, end = 0;

		if (address && std::sscanf(line.c_str(), "%lx-%lx ", &start, &end) == 2)
			here = start <= address_of(address) && address_of(address) < end;
		if (here && line.starts_with(name + ":"))
			return std::stoul(line.substr(name.size() + 1));
	}
	return 0;
}

// Huge pages of hugetlbfs, for as long as it lives.
class Reserved
{
public:
	explicit Reserved(std::size_t count) : bytes(proc_kib("/proc/meminfo", "Hugepagesize") << 10)
	{
		if (::access(setting, F_OK))
			ktap::skip("the kernel has no huge pages");
		need_root();
		before_ = number(setting);
		std::ofstream(setting) << before_ + count;
		KTAP_REQUIRE_EQUAL(number(setting), before_ + count);
	}
	Reserved(const Reserved &) = delete;
	Reserved &operator=(const Reserved &) = delete;
	~Reserved()
	{
		std::ofstream(setting) << before_;
	}

	const std::size_t bytes; // of one

private:
	static constexpr const char *setting = "/proc/sys/vm/nr_hugepages";
	std::size_t before_;
};

constexpr int private_rw = MAP_PRIVATE | MAP_ANONYMOUS;
constexpr int private_huge = private_rw | MAP_HUGETLB;

Fd huge_file(std::size_t bytes)
{
	Fd file(::memfd_create("ibrelk-abi", MFD_CLOEXEC | MFD_HUGETLB));

	KTAP_REQUIRE(file.get() >= 0);
	KTAP_REQUIRE_EQUAL(::ftruncate(file.get(), bytes), 0);
	return file;
}

KTAP_TEST(memory__of_huge_pages)
{
	Reserved reserved(6);
	Ends node;
	const auto bytes = 3 * reserved.bytes;
	Fd file = huge_file(bytes);
	Pages own(bytes, PROT_READ | PROT_WRITE, private_huge);
	Pages shared(bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get());

	exchange_sizes(node, own);
	exchange_sizes(node, shared);
	KTAP_EQUAL(bounced(node), 0u);
}

// The NUMA node of each page; negative: it is not there.
std::vector<int> numa_nodes(const Pages &pages)
{
	std::vector<void *> page;

	for (std::size_t at = 0; at < pages.size(); at += page_size())
		page.push_back(pages.data() + at);

	std::vector<int> node(page.size(), -1);

	KTAP_REQUIRE_EQUAL(
		::syscall(SYS_move_pages, 0, page.size(), page.data(), nullptr, node.data(), 0), 0);
	return node;
}

// Memory of a NUMA node that is not the processor's. Where the module has no regions, as by datagrams, it is
// copied there.
KTAP_TEST(memory__on_another_numa_node)
{
	unsigned here = 0;

	KTAP_REQUIRE_EQUAL(::getcpu(nullptr, &here), 0);

	const unsigned other = 1 - here;
	const unsigned long nodes = 1ul << other;

	if (here > 1 || ::access(("/sys/devices/system/node/node" + std::to_string(other)).c_str(), F_OK))
		ktap::skip("there is no other NUMA node");

	const bool regions = number("/sys/module/ibrelk/parameters/regions");

	for (const std::uint32_t mode : {IBRELK_MODE_UC_RELIABLE, IBRELK_MODE_UD_RELIABLE}) {
		const Way way = mode == IBRELK_MODE_UC_RELIABLE && regions ? Way::written : Way::copied;

		// In huge pages, too, where the kernel makes them by itself.
		for (const int advice : {MADV_NOHUGEPAGE, MADV_HUGEPAGE}) {
			Ends node(64, mode);
			const auto data = pattern(kind_bytes, mode + 53);
			// Bound at once: a huge page of a neighbour could reach into them.
			Pages from(kind_bytes), to(kind_bytes);
			const auto all_there = [&](const Pages &pages) {
				return std::ranges::all_of(
					numa_nodes(pages), [&](int at) { return std::cmp_equal(at, other); });
			};

			for (const Pages *pages : {&from, &to}) {
				const long bound = ::syscall(SYS_mbind, pages->data(), pages->size(),
					MPOL_BIND, &nodes, 8 * sizeof(nodes), MPOL_MF_STRICT);

				KTAP_REQUIRE_EQUAL(bound ? errno : 0, 0);
				::madvise(pages->data(), pages->size(), advice);
			}
			std::memcpy(from.data(), data.data(), kind_bytes);
			KTAP_CHECK(all_there(from));
			for (const std::size_t size :
				{std::size_t{100}, std::size_t{20'000}, kind_bytes - 7}) {
				// What the sender has is what a receiver's kernel brings there, the first
				// time into pages that nobody has touched.
				KTAP_EQUAL(transfer(node, from.data() + 3, to.data() + 5, size, way), 0);
				KTAP_CHECK(std::memcmp(data.data() + 3, to.data() + 5, size) == 0);
			}
			KTAP_EQUAL(transfer(node, data.data(), to.data(), kind_bytes, way), 0);
			KTAP_CHECK(std::memcmp(data.data(), to.data(), kind_bytes) == 0);
			KTAP_CHECK(all_there(from));
			KTAP_CHECK(all_there(to));
		}
	}
}

// Anonymous memory of which the kernel makes huge pages by itself; where there are none, a test is skipped.
struct Transparent {
	static constexpr const char *setting = "/sys/kernel/mm/transparent_hugepage/";

	explicit Transparent(std::size_t count) :
		huge(number((std::string(setting) + "hpage_pmd_size").c_str())),
		room((count + 1) * huge + page_size())
	{
		std::string enabled;

		std::getline(std::ifstream(std::string(setting) + "enabled"), enabled);
		if (!huge || enabled.find("[never]") != std::string::npos)
			ktap::skip("the kernel has no transparent huge pages");
		memory = room.data() + (huge - address_of(room.data()) % huge) % huge;
		bytes = count * huge;
	}
	// How much of it is in huge pages.
	std::size_t huge_bytes() const
	{
		return proc_kib("/proc/self/smaps", "AnonHugePages", memory) << 10;
	}
	// All of it becomes so. Where small pages have been, there would be small ones again, if nothing else
	// was mapped there.
	void inflate()
	{
		KTAP_REQUIRE(::mmap(memory, bytes, PROT_READ | PROT_WRITE, private_rw | MAP_FIXED, -1, 0) ==
			memory);
		KTAP_REQUIRE_EQUAL(::madvise(memory, bytes, MADV_HUGEPAGE), 0);
		std::memset(memory, 1, bytes);
		KTAP_REQUIRE_EQUAL(huge_bytes(), bytes);
	}

	std::size_t huge; // bytes of a huge page
	Pages room;
	std::byte *memory = nullptr;
	std::size_t bytes = 0;
};

KTAP_TEST(memory__of_transparent_huge_pages)
{
	Transparent area(3);
	Ends node;

	area.inflate();
	exchange_sizes(node, area.memory, area.bytes);
	KTAP_EQUAL(area.huge_bytes(), area.bytes);
	KTAP_EQUAL(bounced(node), 0u);
}

// A file system must be told before a page of it is written, and no adapter does that: only a private copy
// is written in place.
KTAP_TEST(memory__of_a_file_that_is_written_back)
{
	if (disk.empty())
		ktap::skip("no --disk");
	need_root();

	Ends node;
	const std::string name = disk + "/ibrelk-abi";
	Fd file(::open(name.c_str(), O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0600));

	KTAP_REQUIRE(file.get() >= 0);
	KTAP_REQUIRE_EQUAL(::ftruncate(file.get(), kind_bytes), 0);

	Pages copied(kind_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, file.get());
	Pages shared(kind_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get());
	auto before = bounced(node);

	exchange_sizes(node, copied);
	KTAP_EQUAL(bounced(node), before);
	exchange_sizes(node, shared, Way::refused);
	KTAP_EQUAL(bounced(node), before + 100 + 20'000 + kind_bytes - 1);
	KTAP_EQUAL(region(node, shared.data(), kind_bytes, IBRELK_REGION_WRITE), -EOPNOTSUPP);

	// A receive is no reason to keep a page dirty, or from being written back.
	const auto data = pattern(kind_bytes, 43);
	std::vector<std::uint8_t> stored(kind_bytes);

	KTAP_REQUIRE_EQUAL(node.post(recv(shared.data(), kind_bytes, 1, 2)), 1);
	KTAP_EQUAL(::msync(shared.data(), kind_bytes, MS_SYNC), 0);
	KTAP_REQUIRE_EQUAL(node.post(send(node.self, data.data(), kind_bytes, 1, 1)), 1);
	both_end(node, 0);
	// What reaches the disk is what came.
	KTAP_EQUAL(::msync(shared.data(), kind_bytes, MS_SYNC), 0);
	shared.unmap();
	copied.unmap();
	KTAP_EQUAL(::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED), 0);
	KTAP_EQUAL(::pread(file.get(), stored.data(), kind_bytes, 0), kind_bytes);
	KTAP_CHECK(stored == data);
	::unlink(name.c_str());
}

// A buffer in pieces that begin and end anywhere, and have something between them.
struct Scattered {
	static constexpr std::uint8_t gap = 0x33;

	// @p first: the length of its first piece; the others have any, up to @p longest
	Scattered(std::mt19937 &random, std::size_t bytes, std::size_t first, std::size_t longest)
	{
		std::size_t at = 1, length = first;

		for (std::size_t done = 0; done < bytes; done += length, length = 1 + random() % longest) {
			length = std::min(length, bytes - done);
			parts.emplace_back(at, length);
			at += length + 1 + random() % 13;
		}
		memory.assign(at, gap);
		for (const auto &[start, size] : parts)
			pieces.push_back({address_of(&memory[start]), size});
	}
	void fill(const std::vector<std::uint8_t> &data)
	{
		auto from = data.begin();

		for (const auto &[start, size] : parts) {
			std::copy_n(from, size, memory.begin() + static_cast<std::ptrdiff_t>(start));
			from += static_cast<std::ptrdiff_t>(size);
		}
	}
	Command apply(Command command) const
	{
		command.addr = address_of(pieces.data());
		command.length = pieces.size();
		command.flags |= IBRELK_CMD_IOVEC;
		return command;
	}

	std::vector<std::pair<std::size_t, std::size_t>> parts;
	std::vector<std::uint8_t> memory;
	std::vector<ibrelk_iovec> pieces;
};

KTAP_TEST(memory__in_pieces)
{
	Ends node;
	std::mt19937 random(1);
	const std::size_t mib = 1 << 20;

	// The windows that are in one piece at the receiver are written, be they in many at the sender.
	for (const auto &[bytes, first, longest] :
		{std::array{9'000ul, 50ul, 100ul}, {300'000ul, 1ul, 9'000ul}, {3 * mib, 4'096ul, 300'000ul},
			{9 * mib, 5 * mib + 17, mib}, {4 * mib, 1ul, 9'000ul}}) {
		const bool whole = bytes == 4 * mib;
		Scattered from(random, bytes, first, longest),
			to(random, bytes, whole ? bytes : first + 4'000, longest), wanted = to;
		const auto data = pattern(bytes, 7);
		const Written before = written(node);

		from.fill(data);
		wanted.fill(data);
		KTAP_REQUIRE_EQUAL(node.post({to.apply(recv(nullptr, 0, 1, 2)),
					   from.apply(send(node.self, nullptr, 0, 1, 1))}),
			2);
		for (int both = 0; both < 2; both++) {
			auto completion = node.ring.next();

			KTAP_REQUIRE(completion.has_value());
			KTAP_EQUAL(completion->status, 0);
		}
		KTAP_CHECK(to.memory == wanted.memory);
		if (!between)
			continue;
		const Written after = written(node);
		if (whole) {
			// Each packet's worth, but for those of more pieces than a work request takes.
			KTAP_CHECK(after.tx - before.tx >= bytes / 4096 * 9 / 10);
			KTAP_CHECK(after.rx - before.rx >= bytes / 4096 * 9 / 10);
		} else if (first > 4 * mib) {
			KTAP_CHECK(after.tx > before.tx);
			KTAP_CHECK(after.rx > before.rx);
		}
	}
}

// A message of many pieces, most of which are the same memory, so that it may be longer than memory is.
struct Huge {
	// What is pinned together (IBR_UMEM_WINDOW) is in one piece: else it would be copied.
	static constexpr std::size_t end_bytes = 2 << 20, filler_bytes = 16 << 20;

	// Message of @p fillers pieces of filler between two ends.
	Huge(std::size_t fillers, std::uint32_t seed) :
		bytes(2 * end_bytes + fillers * filler_bytes), first(pattern(end_bytes, seed)),
		last(pattern(end_bytes, seed + 1))
	{
		pieces.push_back({address_of(first.data()), first.size()});
		pieces.insert(pieces.end(), fillers, {address_of(filler.data()), filler_bytes});
		pieces.push_back({address_of(last.data()), last.size()});
	}
	Command apply(Command command) const
	{
		command.addr = address_of(pieces.data());
		command.length = pieces.size();
		command.flags |= IBRELK_CMD_IOVEC;
		return command;
	}

	std::size_t bytes;
	std::vector<std::uint8_t> first, last;
	Pages filler{filler_bytes};
	std::vector<ibrelk_iovec> pieces;
};

// No length is kept in 32 bits on its way. All of such a message takes minutes on an emulated node, so it is
// sent whole only with IBRELK_LONG in the environment (the lab has it); else the receiver takes no more than
// its begin.
KTAP_TEST(memory__more_than_4_gib)
{
	Ends node;
	const Huge huge(4096 / 16, 1), other(4096 / 16, 3);
	std::vector<std::uint8_t> begin(Huge::end_bytes, 0xee);
	const bool whole = std::getenv("IBRELK_LONG");
	const Written before = written(node);

	KTAP_CHECK(huge.bytes > 1ull << 32);
	KTAP_REQUIRE_EQUAL(node.post({whole ? other.apply(recv(nullptr, 0, 1, 2))
					    : recv(begin.data(), begin.size(), 1, 2),
				   huge.apply(send(node.self, nullptr, 0, 1, 1))}),
		2);
	for (int both = 0; both < 2; both++) {
		auto completion = node.ring.next(whole ? 600 * patience_ns : patience_ns);

		KTAP_REQUIRE(completion.has_value());
		KTAP_EQUAL(completion->status, completion->user_data == 2 && !whole ? -EMSGSIZE : 0);
		KTAP_EQUAL(completion->length, huge.bytes);
	}
	KTAP_CHECK((whole ? other.first : begin) == huge.first);
	if (whole) {
		const Written after = written(node);

		KTAP_CHECK(other.last == huge.last);
		// What was lost on its way goes again as a copy; no fragment is longer than a packet.
		if (between)
			KTAP_CHECK(after.rx - before.rx > huge.bytes / 4096 / 10 * 9);
		KTAP_EQUAL(after.copied, before.copied);
	}

	// One that waits tells its length, too.
	std::optional<Completion> found;

	KTAP_REQUIRE_EQUAL(node.post(huge.apply(send(node.self, nullptr, 0, 1, 1))), 1);
	do {
		KTAP_REQUIRE_EQUAL(node.post(look(IBRELK_OP_CLAIM, 1, 2)), 1);
		found = node.ring.next();
		KTAP_REQUIRE(found.has_value());
	} while (found->status == -ENOMSG);
	KTAP_EQUAL(found->status, 0);
	KTAP_EQUAL(found->length, huge.bytes);
	KTAP_REQUIRE_EQUAL(node.post(discard(found->claim, 3)), 1);
	both_end(node, 0);
}

KTAP_TEST(memory__untouched_zero_pages_and_read_only)
{
	Ends node;
	const std::size_t bytes = 100'000;
	Pages untouched(bytes + 4096), read_only(bytes + 4096, PROT_READ);
	std::vector<std::uint8_t> got(bytes, 0xee);

	KTAP_EQUAL(transfer(node, untouched.data() + 7, got.data(), bytes), 0);
	KTAP_CHECK(std::all_of(got.begin(), got.end(), [](auto byte) { return byte == 0; }));
	got.assign(bytes, 0xee);
	KTAP_EQUAL(transfer(node, read_only.data() + 7, got.data(), bytes), 0);
	KTAP_CHECK(std::all_of(got.begin(), got.end(), [](auto byte) { return byte == 0; }));

	// Pinned for reading only, it must be pinned anew to be written, or all zero pages of the machine
	// are.
	auto data = pattern(bytes, 3);
	Pages another(bytes + 4096);

	KTAP_EQUAL(transfer(node, data.data(), untouched.data() + 7, bytes), 0);
	KTAP_CHECK(std::memcmp(untouched.data() + 7, data.data(), bytes) == 0);
	KTAP_EQUAL(transfer(node, another.data() + 7, got.data(), bytes), 0);
	KTAP_CHECK(std::all_of(got.begin(), got.end(), [](auto byte) { return byte == 0; }));
}

KTAP_TEST(memory__the_ring_itself)
{
	Ends node(4096);
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
	Ends node;
	const std::size_t bytes = 1 << 20;
	auto data = pattern(bytes, 11);
	auto target = std::make_unique<Pages>(bytes);

	KTAP_REQUIRE_EQUAL(node.post(recv(target->data(), bytes, 1, 2)), 1);
	target.reset();
	KTAP_REQUIRE_EQUAL(node.post(send(node.self, data.data(), bytes, 1, 1)), 1);
	both_end(node, -EFAULT);
}

// A small receive, in memory that was pinned as a whole, and of which the rest goes.
KTAP_TEST(memory__trimmed_around_a_receive)
{
	Ends node;
	const std::size_t bytes = 1 << 20, middle = bytes / 2;
	auto data = pattern(bytes, 17);
	Pages pages(bytes);

	KTAP_EQUAL(transfer(node, data.data(), pages.data(), bytes), 0);
	KTAP_REQUIRE_EQUAL(node.post(recv(pages.data() + middle, page_size(), 1, 2)), 1);
	KTAP_EQUAL(::munmap(pages.data(), middle / 2), 0);
	KTAP_EQUAL(::munmap(pages.data() + middle + middle / 2, middle / 2), 0);
	KTAP_REQUIRE_EQUAL(node.post(send(node.self, data.data(), page_size(), 1, 1)), 1);
	both_end(node, 0);
	KTAP_CHECK(std::memcmp(pages.data() + middle, data.data(), page_size()) == 0);
}

// Of a buffer that is longer than the message, what the message does not need may go.
KTAP_TEST(memory__unmapped_behind_the_message)
{
	Ends node;
	const std::size_t bytes = 1 << 20;

	for (std::size_t size : {std::size_t{100}, std::size_t{100'000}}) {
		auto data = pattern(size, 19);
		Pages pages(bytes);

		KTAP_REQUIRE_EQUAL(node.post(recv(pages.data(), bytes, 1, 2)), 1);
		KTAP_EQUAL(::munmap(pages.data() + bytes / 2, bytes / 2), 0);
		KTAP_REQUIRE_EQUAL(node.post(send(node.self, data.data(), size, 1, 1)), 1);
		both_end(node, 0);
		KTAP_CHECK(std::memcmp(pages.data(), data.data(), size) == 0);
	}
}

// Likewise of one that is not pinned as a whole.
KTAP_TEST(memory__unmapped_behind_a_long_message)
{
	Ends node;
	const std::size_t bytes = 12 << 20, size = 9 << 19, left = 5 << 20;
	auto data = pattern(size, 37);
	Pages pages(bytes);

	KTAP_REQUIRE_EQUAL(node.post(recv(pages.data(), bytes, 1, 2)), 1);
	KTAP_EQUAL(::munmap(pages.data() + left, bytes - left), 0);
	KTAP_REQUIRE_EQUAL(node.post(send(node.self, data.data(), size, 1, 1)), 1);
	both_end(node, 0);
	KTAP_CHECK(std::memcmp(pages.data(), data.data(), size) == 0);
}

// What is sent was pinned when it was unmapped, all of it: it arrives as it was.
KTAP_TEST(memory__unmapped_while_it_is_sent)
{
	Ends node;
	const std::size_t bytes = 3 << 20;
	auto data = pattern(bytes, 23);
	std::vector<std::uint8_t> got(bytes);
	auto source = std::make_unique<Pages>(bytes);

	std::memcpy(source->data(), data.data(), bytes);
	KTAP_REQUIRE_EQUAL(node.post(send(node.self, source->data(), bytes, 1, 1)), 1);
	source.reset();
	KTAP_REQUIRE_EQUAL(node.post(recv(got.data(), bytes, 1, 2)), 1);
	both_end(node, 0);
	KTAP_CHECK(got == data);
}

// What is given back, or of a file that ends, is no end of a receive: the message goes to the pages that it
// has, which nobody sees any more, and the next one to those that are there by then.
KTAP_TEST(memory__given_back_while_in_use)
{
	Ends node;
	const std::size_t bytes = 1 << 20;
	auto data = pattern(bytes, 41);
	Fd file(::memfd_create("ibrelk-abi", MFD_CLOEXEC));

	KTAP_REQUIRE_EQUAL(::ftruncate(file.get(), bytes), 0);

	Pages own(bytes), shared(bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get());

	for (Pages *pages : {&own, &shared}) {
		KTAP_REQUIRE_EQUAL(node.post(recv(pages->data(), bytes, 1, 2)), 1);
		if (pages == &own) {
			KTAP_EQUAL(::madvise(pages->data(), bytes, MADV_DONTNEED), 0);
		} else {
			KTAP_EQUAL(::ftruncate(file.get(), 0), 0);
			KTAP_EQUAL(::ftruncate(file.get(), bytes), 0);
		}
		KTAP_REQUIRE_EQUAL(node.post(send(node.self, data.data(), bytes, 1, 1)), 1);
		both_end(node, 0);
		KTAP_CHECK(std::all_of(pages->data(), pages->data() + bytes,
			[](auto byte) { return byte == std::byte{0}; }));
		KTAP_EQUAL(transfer(node, data.data(), pages->data(), bytes), 0);
		KTAP_CHECK(std::memcmp(pages->data(), data.data(), bytes) == 0);
	}
}

// A receive that may only be read is refused. Of a long one that is found out where it begins, or later.
KTAP_TEST(memory__read_only_is_no_target)
{
	Ends node;
	const std::size_t bytes = 12 << 20, part = 1 << 20;
	auto data = pattern(bytes, 43);
	Pages pages(bytes);
	auto *tail = pages.data() + bytes - part;

	KTAP_REQUIRE_EQUAL(::mprotect(tail, part, PROT_READ), 0);
	KTAP_EQUAL(node.post(recv(tail, part, 1, 2)), -EFAULT);
	KTAP_EQUAL(node.post(recv(tail - part, 2 * part, 1, 2)), -EFAULT);
	KTAP_REQUIRE_EQUAL(node.post(recv(pages.data(), bytes, 1, 2)), 1);
	KTAP_REQUIRE_EQUAL(node.post(send(node.self, data.data(), bytes, 1, 1)), 1);
	both_end(node, -EFAULT);
	KTAP_CHECK(std::all_of(tail, tail + part, [](auto byte) { return byte == std::byte{0}; }));
}

// A buffer that goes when a part of it has arrived, so that what is left cannot be pinned: both ends are
// told.
KTAP_TEST(memory__unmapped_in_part)
{
	Ends node;
	const std::size_t bytes = 12 << 20;
	auto data = pattern(bytes, 29);
	Pages pages(bytes);

	KTAP_REQUIRE_EQUAL(node.post(recv(pages.data(), bytes, 1, 2)), 1);
	KTAP_EQUAL(::munmap(pages.data() + bytes - (1 << 20), 1 << 20), 0);
	KTAP_REQUIRE_EQUAL(node.post(send(node.self, data.data(), bytes, 1, 1)), 1);
	both_end(node, -EFAULT);
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

// Pages pinned by anybody, as the kernel counts them.
long pinned_pages()
{
	/* Each processor keeps some of its counts to itself until it is asked. */
	std::ofstream("/proc/sys/vm/stat_refresh") << 1;
	std::ifstream counters("/proc/vmstat");
	std::string name;
	long value = 0, pages = 0;

	while (counters >> name >> value) {
		if (name == "nr_foll_pin_acquired")
			pages += value;
		else if (name == "nr_foll_pin_released")
			pages -= value;
	}
	return pages;
}

// Another thread takes memory away, or puts other memory there, at any moment of a transfer.
class Changer
{
public:
	static constexpr std::byte unused{0xa5};
	static constexpr std::size_t pinned_at_once = 4 << 20;

	Changer(const Ring &ring, std::size_t bytes) : ring_(ring), bytes_(bytes)
	{
	}
	// What the buffers hold when a transfer begins.
	void begin(const std::vector<std::uint8_t> &data)
	{
		std::lock_guard lock(mutex_);

		std::memcpy(source.data(), data.data(), data.size());
		std::memset(target.data(), static_cast<int>(unused), bytes_);
		size_ = data.size();
		tail_ = ring_.tail();
		received_ = changed_ = needed_ = false;
		changes_ = 1 + data.size() % 2;
	}
	// The receive is posted.
	void received()
	{
		received_ = true;
	}
	// All of both is there, and nothing happens to it any more.
	void end()
	{
		std::lock_guard lock(mutex_);

		changes_ = 0;
	}
	// Something has happened.
	bool changed() const
	{
		return changed_;
	}
	// ... to what the receive had pinned, and before either end was complete.
	bool needed() const
	{
		return needed_;
	}

private:
	void change()
	{
		const bool at_target = random_() % 3;
		auto *memory = (at_target ? target : source).data();
		const auto page = page_size(), pages = bytes_ / page;
		const auto first = random_() % pages, count = 1 + random_() % (pages - first);
		const bool needs = at_target && received_ && size_ <= pinned_at_once && first * page < size_;
		const auto map = [&](int protection) {
			return ::mmap(memory + first * page, count * page, protection,
				       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
		};

		changed_ = true;
		if (random_() % 2 && map(PROT_NONE))
			std::this_thread::sleep_for(std::chrono::microseconds(random_() % 3'000));
		if (!map(PROT_READ | PROT_WRITE))
			std::abort();
		needed_ = needed_ || (needs && ring_.tail() == tail_);
	}
	void run(const std::stop_token &stop)
	{
		while (!stop.stop_requested()) {
			std::this_thread::sleep_for(
				std::chrono::microseconds(random_() % (random_() % 2 ? 5'000 : 100'000)));

			std::lock_guard lock(mutex_);

			if (changes_) {
				changes_--;
				change();
			}
		}
	}

	const Ring &ring_;
	std::size_t bytes_;
	std::mt19937 random_{3}; // of the thread alone
	std::atomic<bool> received_ = false;
	std::mutex mutex_; // the rest; held, the memory is there
	std::size_t size_ = 0;
	std::uint32_t tail_ = 0;
	bool changed_ = false, needed_ = false;
	unsigned changes_ = 0; // that are to come

public:
	Pages source{bytes_}, target{bytes_};

private:
	std::jthread thread_{[this](const std::stop_token &stop) {
		run(stop);
	}};
};

// Of pages that were there all the time, none is wrong; one that came meanwhile may be empty, or have come
// with the message.
bool arrived(const std::byte *got, const std::vector<std::uint8_t> &data, bool changed)
{
	for (std::size_t at = 0; at < data.size(); at += page_size()) {
		const auto size = std::min(page_size(), data.size() - at);

		if (std::memcmp(got + at, &data[at], size) == 0)
			continue;
		if (!changed || !std::all_of(got + at, got + at + size, [](auto byte) {
			    return byte == std::byte{0};
		    }))
			return false;
	}
	return true;
}

KTAP_TEST(memory__changed_by_another_thread)
{
	settle(0);

	const long before = pinned_pages();
	unsigned good = 0, bad = 0, refused = 0, rounds = 0, apart = 0, missed = 0;
	{
		constexpr std::size_t most = 6 << 20; // more than is pinned at once
		auto node = std::make_unique<Ends>();
		Changer changer(node->ring, most);
		std::mt19937 random(4);
		const auto give_up = Clock::now() + std::chrono::seconds(60);

		for (; rounds < 30 || ((!good || !bad) && Clock::now() < give_up); rounds++) {
			const auto size = rounds % 4 ? 1 + random() % (4u << 20) : most - random() % 4096;
			const auto data = pattern(size, rounds);
			int status[2] = {1, 1};

			changer.begin(data);
			int posted = node->post(recv(changer.target.data(), size, 1, 2));

			if (posted == 1) {
				changer.received();
				posted = node->post(send(node->self, changer.source.data(), size, 1, 1));
				// There is no message then, so it is taken back.
				if (posted < 0)
					KTAP_REQUIRE_EQUAL(node->post(cancel(2, 1)), 1);
				for (int both = 0; both < 2; both++) {
					auto completion = node->ring.next();

					KTAP_REQUIRE(completion.has_value());
					status[completion->user_data - 1] = completion->status;
				}
			}

			changer.end();
			const bool changed = changer.changed();

			if (posted < 0) {
				KTAP_EQUAL(posted, -EFAULT);
				KTAP_CHECK(changed);
				refused++;
				continue;
			}
			for (int end : status)
				KTAP_CHECK(!end || (end == -EFAULT && changed));
			apart += status[0] != status[1];
			missed += !status[1] && changer.needed();
			if (status[1]) {
				bad++;
			} else {
				KTAP_CHECK(arrived(changer.target.data(), data, changed));
				good++;
			}
			auto *behind = changer.target.data() + size;
			KTAP_CHECK(std::all_of(behind, changer.target.data() + most,
				[](auto byte) { return byte == Changer::unused || byte == std::byte{0}; }));
		}
		KTAP_CHECK(good);
		KTAP_CHECK(bad);
		// Both ends say the same, and right, unless it was after the last look at the memory.
		KTAP_EQUAL(apart, 0);
		KTAP_CHECK(missed * 10 < rounds);
		// Nothing of it is left to disturb another one.
		exchange_sizes(*node, changer.target);
		node.reset();
		settle(0);
	}
	ktap::note(good, " messages arrived, ", bad, " did not, ", refused, " were refused; ", apart,
		" ends differed, ", missed, " changes were too late");
	for (auto give_up = Clock::now() + std::chrono::seconds(20);
		pinned_pages() > before && Clock::now() < give_up;)
		std::this_thread::yield();
	KTAP_CHECK(pinned_pages() <= before);
}

KTAP_TEST(memory__pins_are_charged_and_given_back)
{
	const std::size_t bytes = 1 << 20;

	settle(0); // what tests before this one had pinned

	Ends node;
	Pages target(bytes + page_size());

	KTAP_REQUIRE_EQUAL(node.post(recv(target.data() + 1, bytes, 1, 2)), 1);
	KTAP_EQUAL(pinned_kib(), (bytes + page_size()) / 1024);
	KTAP_REQUIRE_EQUAL(node.post(cancel(2, 3)), 1);
	expect(node.ring, 2, -ECANCELED);
	expect(node.ring, 3, 0);
	// It stays pinned as long as it is there.
	KTAP_EQUAL(pinned_kib(), (bytes + page_size()) / 1024);
	target.unmap();
	settle(0); // with no further system call to do it

	// Of a large buffer only two windows are pinned at a time.
	Pages large(64 << 20);

	KTAP_REQUIRE_EQUAL(node.post(recv(large.data() + 1, large.size() - 1, 1, 4)), 1);
	KTAP_EQUAL(pinned_kib(), (4 << 10) + 2 * page_size() / 1024);
	KTAP_REQUIRE_EQUAL(node.post(cancel(4, 5)), 1);
	expect(node.ring, 4, -ECANCELED);
	expect(node.ring, 5, 0);
	// ... or until nobody has an endpoint open.
	KTAP_EQUAL(pinned_kib(), (4 << 10) + 2 * page_size() / 1024);
	node.endpoint.close();
	settle(0);
}

// ---- pinned memory that changes ------------------------------------------------------------------

constexpr std::size_t kept = 40'000; // more than a message that is copied, in pages of its own

// Sends from, and receives into, a stretch of memory, so that it is pinned, and stays so. The content is as
// after @round.
void exchange(Ends &node, std::byte *memory, unsigned round, Way way = Way::written)
{
	static std::vector<std::uint8_t> data(kept), back(kept);

	std::ranges::copy(pattern(kept, round), data.begin());
	std::memset(memory, 0x11, kept);
	KTAP_EQUAL(transfer(node, data.data(), memory, kept, way), 0);
	KTAP_CHECK(std::memcmp(memory, data.data(), kept) == 0);
	// What is sent is what is there now, not what has come.
	std::ranges::copy(pattern(kept, round + 1000), data.begin());
	std::memcpy(memory, data.data(), kept);
	KTAP_EQUAL(transfer(node, memory, back.data(), kept, way), 0);
	KTAP_CHECK(back == data);
}

// Exchanges by a stretch before and after something has happened to it; tells how often it had to be pinned
// anew then.
template<typename Happens>
std::uint64_t misses(std::byte *memory, Happens &&happens)
{
	Ends node;

	exchange(node, memory, 1);
	exchange(node, memory, 2);
	happens();
	const auto before = endpoint_info(node).pin_misses;
	exchange(node, memory, 3);
	const auto after = endpoint_info(node).pin_misses;
	exchange(node, memory, 4);
	return after - before;
}

template<typename Happens>
std::uint64_t misses(Pages &pages, Happens &&happens)
{
	return misses(pages.data(), std::forward<Happens>(happens));
}

KTAP_TEST(memory__stays_pinned)
{
	Pages pages(kept);

	KTAP_EQUAL(misses(pages, [] {}), 0u);
}

// A process that sends and receives nothing any more keeps nothing, some seconds later.
KTAP_TEST(memory__stays_pinned_not_for_ever)
{
	settle(0);

	Ends node;
	Pages pages(kept);

	exchange(node, pages.data(), 1);
	KTAP_CHECK(pinned_kib() > 0);
	KTAP_CHECK(endpoint_info(node).pinned_idle_bytes > 0);
	settle(0);
	KTAP_EQUAL(endpoint_info(node).pinned_idle_bytes, 0u);
}

// A small receive keeps no more than it needs of what was pinned as a whole.
KTAP_TEST(memory__pinned_in_small)
{
	settle(0);

	Ends node;
	const std::size_t bytes = 1 << 20;
	auto data = pattern(bytes, 31);
	Pages pages(bytes);

	KTAP_EQUAL(transfer(node, data.data(), pages.data(), bytes), 0);
	KTAP_REQUIRE_EQUAL(node.post(recv(pages.data() + 4096, 64, 1, 2)), 1);
	settle(page_size() / 1024);
}

KTAP_TEST(memory__pinned_and_mapped_anew)
{
	Pages pages(kept);

	KTAP_EQUAL(misses(pages,
			   [&] {
				   ::munmap(pages.data(), kept);
				   KTAP_CHECK(::mmap(pages.data(), kept, PROT_READ | PROT_WRITE,
						      private_rw | MAP_FIXED, -1, 0) == pages.data());
			   }),
		1u);
}

KTAP_TEST(memory__pinned_and_mapped_over)
{
	Pages pages(kept);

	KTAP_EQUAL(misses(pages,
			   [&] {
				   KTAP_CHECK(::mmap(pages.data(), kept, PROT_READ | PROT_WRITE,
						      private_rw | MAP_FIXED, -1, 0) == pages.data());
			   }),
		1u);
}

KTAP_TEST(memory__pinned_and_moved_away)
{
	Pages pages(kept), other(kept);

	KTAP_EQUAL(misses(pages,
			   [&] {
				   KTAP_CHECK(
					   ::mremap(pages.data(), kept, kept, MREMAP_MAYMOVE | MREMAP_FIXED,
						   other.data()) == other.data());
				   KTAP_CHECK(::mmap(pages.data(), kept, PROT_READ | PROT_WRITE,
						      private_rw | MAP_FIXED, -1, 0) == pages.data());
			   }),
		1u);
}

KTAP_TEST(memory__pinned_and_given_back)
{
	Pages pages(kept);

	KTAP_EQUAL(misses(pages, [&] { KTAP_EQUAL(::madvise(pages.data(), kept, MADV_DONTNEED), 0); }), 1u);
}

KTAP_TEST(memory__pinned_and_of_a_file_that_ends)
{
	Fd file(::memfd_create("ibrelk-abi", MFD_CLOEXEC));

	KTAP_REQUIRE_EQUAL(::ftruncate(file.get(), kept), 0);
	for (int kind : {MAP_PRIVATE, MAP_SHARED}) {
		Pages pages(kept, PROT_READ | PROT_WRITE, kind, file.get());

		KTAP_EQUAL(misses(pages,
				   [&] {
					   KTAP_EQUAL(::ftruncate(file.get(), 0), 0);
					   KTAP_EQUAL(::ftruncate(file.get(), kept), 0);
				   }),
			1u);
	}
}

// Shared memory stays pinned like any other, until it gets other pages, be it by another mapping.
KTAP_TEST(memory__pinned_and_shared)
{
	Fd file(::memfd_create("ibrelk-abi", MFD_CLOEXEC | MFD_ALLOW_SEALING));

	KTAP_REQUIRE_EQUAL(::ftruncate(file.get(), kept), 0);

	Pages pages(kept, PROT_READ | PROT_WRITE, MAP_SHARED, file.get());
	Pages other(kept, PROT_READ | PROT_WRITE, MAP_SHARED, file.get());

	KTAP_EQUAL(misses(pages, [] {}), 0u);
	KTAP_EQUAL(misses(pages,
			   [&] {
				   KTAP_EQUAL(::fallocate(file.get(),
						      FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, kept),
					   0);
			   }),
		1u);
	KTAP_EQUAL(misses(pages, [&] { KTAP_EQUAL(::madvise(other.data(), kept, MADV_REMOVE), 0); }), 1u);
	KTAP_CHECK(std::memcmp(pages.data(), other.data(), kept) == 0);
	// Nor does what is idle keep the file from being sealed once nobody has it mapped.
	pages.unmap();
	other.unmap();
	KTAP_EQUAL(::fcntl(file.get(), F_ADD_SEALS, F_SEAL_WRITE), 0);
}

// Huge pages of hugetlbfs are pinned each time; so what counts is where the bytes go, now that other ones are
// there.
KTAP_TEST(memory__pinned_huge_pages_that_change)
{
	Reserved reserved(3);
	const auto bytes = reserved.bytes;
	constexpr int rw = PROT_READ | PROT_WRITE;
	Pages pages(bytes, rw, private_huge), room(2 * bytes, PROT_NONE);
	auto *elsewhere = room.data() + (bytes - address_of(room.data()) % bytes) % bytes;
	const auto map_anew = [&] {
		return ::mmap(pages.data(), bytes, rw, private_huge | MAP_FIXED, -1, 0) == pages.data();
	};

	KTAP_EQUAL(misses(pages, [&] { KTAP_CHECK(map_anew()); }), 2u);
	KTAP_EQUAL(misses(pages, [&] { KTAP_EQUAL(::madvise(pages.data(), bytes, MADV_DONTNEED), 0); }), 2u);
	KTAP_EQUAL(misses(pages,
			   [&] {
				   KTAP_CHECK(::mremap(pages.data(), bytes, bytes,
						      MREMAP_MAYMOVE | MREMAP_FIXED, elsewhere) == elsewhere);
				   KTAP_CHECK(map_anew());
			   }),
		2u);
	::munmap(elsewhere, bytes);

	Fd file = huge_file(bytes);
	Pages shared(bytes, rw, MAP_SHARED, file.get());

	KTAP_EQUAL(misses(shared,
			   [&] {
				   KTAP_EQUAL(::ftruncate(file.get(), 0), 0);
				   KTAP_EQUAL(::ftruncate(file.get(), bytes), 0);
			   }),
		2u);
	KTAP_EQUAL(misses(shared,
			   [&] {
				   KTAP_EQUAL(
					   ::fallocate(file.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
						   0, static_cast<off_t>(bytes)),
					   0);
			   }),
		2u);
}

KTAP_TEST(memory__pinned_transparent_huge_pages_that_change)
{
	Transparent area(2);
	auto *last = area.memory + area.huge - kept; // the end of the first
	constexpr int rw = PROT_READ | PROT_WRITE;
	std::byte *elsewhere = nullptr;
	Transparent other(1);

	area.inflate();
	KTAP_EQUAL(
		misses(last, [&] { KTAP_EQUAL(::madvise(area.memory, area.huge, MADV_DONTNEED), 0); }), 1u);
	area.inflate();
	// Split by what happens beside, or to all of it but that.
	misses(last, [&] { KTAP_EQUAL(::mprotect(area.memory, page_size(), PROT_READ), 0); });
	area.inflate();
	misses(last, [&] { KTAP_EQUAL(::madvise(area.memory, area.huge - kept, MADV_DONTNEED), 0); });
	area.inflate();
	elsewhere = other.memory;
	KTAP_EQUAL(misses(last,
			   [&] {
				   KTAP_CHECK(::mremap(area.memory, area.huge, area.huge,
						      MREMAP_MAYMOVE | MREMAP_FIXED, elsewhere) == elsewhere);
				   KTAP_CHECK(::mmap(area.memory, area.huge, rw, private_rw | MAP_FIXED, -1,
						      0) == area.memory);
			   }),
		1u);
}

// Small pages that become a huge one. They do not while they are pinned, be it for a transfer or after one.
KTAP_TEST(memory__pinned_and_collapsed)
{
	constexpr int collapse = 25; // MADV_COLLAPSE, which the C library may not know
	Transparent area(1);
	Ends node;
	const auto data = pattern(area.bytes, 47);

	KTAP_REQUIRE_EQUAL(::madvise(area.memory, area.bytes, MADV_NOHUGEPAGE), 0);
	std::memset(area.memory, 1, area.bytes);
	KTAP_REQUIRE_EQUAL(::madvise(area.memory, area.bytes, MADV_HUGEPAGE), 0);
	KTAP_REQUIRE_EQUAL(area.huge_bytes(), 0u);

	KTAP_REQUIRE_EQUAL(node.post(recv(area.memory, area.bytes, 1, 2)), 1);
	int error = ::madvise(area.memory, area.bytes, collapse) ? errno : 0;
	if (error == EINVAL)
		ktap::skip("the kernel has no MADV_COLLAPSE");
	KTAP_CHECK(error);
	KTAP_REQUIRE_EQUAL(node.post(send(node.self, data.data(), area.bytes, 1, 1)), 1);
	both_end(node, 0);
	KTAP_CHECK(std::memcmp(area.memory, data.data(), area.bytes) == 0);

	const auto give_up = Clock::now() + std::chrono::seconds(20);
	const auto anew = misses(area.memory, [&] {
		do
			error = ::madvise(area.memory, area.bytes, collapse) ? errno : 0;
		while (error && Clock::now() < give_up);
		KTAP_EQUAL(error, 0);
		KTAP_EQUAL(area.huge_bytes(), area.bytes);
	});
	// So do the other buffers of the exchange, which nobody has used meanwhile.
	KTAP_CHECK(anew >= 1);
}

// A child that has a copy must not see what is received afterwards; and who writes first is not to matter.
KTAP_TEST(memory__pinned_and_forked)
{
	Pages pages(kept);
	int ask[2], answer[2];

	KTAP_REQUIRE_EQUAL(::pipe(ask), 0);
	KTAP_REQUIRE_EQUAL(::pipe(answer), 0);
	pid_t child = 0;
	const auto anew = misses(pages, [&] {
		std::memset(pages.data(), 0x77, kept);
		child = ::fork();
		if (!child) {
			char go;

			::close(ask[1]);
			if (::read(ask[0], &go, 1) < 0)
				::_exit(2);
			::_exit(!std::all_of(pages.data(), pages.data() + kept,
				[](auto byte) { return byte == std::byte{0x77}; }));
		}
	});
	KTAP_REQUIRE(child > 0);
	KTAP_CHECK(anew >= 1);
	::close(ask[1]);
	::close(ask[0]);
	::close(answer[0]);
	::close(answer[1]);
	int status = -1;
	KTAP_EQUAL(::waitpid(child, &status, 0), child);
	KTAP_EQUAL(status, 0);
}

KTAP_TEST(memory__pinned_and_made_read_only)
{
	Ends node;
	Pages pages(kept);

	exchange(node, pages.data(), 1);
	KTAP_REQUIRE_EQUAL(::mprotect(pages.data(), kept, PROT_READ), 0);
	KTAP_EQUAL(node.post(recv(pages.data(), kept, 1, 2)), -EFAULT);
	KTAP_REQUIRE_EQUAL(::mprotect(pages.data(), kept, PROT_READ | PROT_WRITE), 0);
	exchange(node, pages.data(), 2);
}

// It is the same memory afterwards. (The kernel does the same now and then, to see which NUMA node uses it.)
KTAP_TEST(memory__pinned_and_protected_for_a_while)
{
	Pages pages(kept);

	for (int protection : {PROT_READ, PROT_NONE})
		KTAP_EQUAL(misses(pages,
				   [&] {
					   pages.protect(protection);
					   pages.protect(PROT_READ | PROT_WRITE);
				   }),
			0u);
	// It may be read all the time.
	Ends node;
	std::vector<std::uint8_t> back(kept);

	exchange(node, pages.data(), 5);
	pages.protect(PROT_READ);
	KTAP_EQUAL(transfer(node, pages.data(), back.data(), kept), 0);
	KTAP_CHECK(std::memcmp(pages.data(), back.data(), kept) == 0);
	// And of a range that may be written only in part, that part.
	KTAP_REQUIRE_EQUAL(::mprotect(pages.data(), page_size(), PROT_READ | PROT_WRITE), 0);
	KTAP_EQUAL(transfer(node, back.data() + 100, pages.data(), page_size()), 0);
	KTAP_CHECK(std::memcmp(pages.data(), back.data() + 100, page_size()) == 0);
	KTAP_EQUAL(node.post(recv(pages.data(), kept, 1, 2)), -EFAULT);
}

bool drop_capability(unsigned capability)
{
	__user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
	__user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

	if (::syscall(SYS_capget, &header, data))
		return false;
	data[capability / 32].effective &= ~(1u << capability % 32);
	return !::syscall(SYS_capset, &header, data);
}

KTAP_TEST(memory__region_stays_pinned)
{
	settle(0);

	auto node = std::make_unique<Ends>();
	const std::size_t bytes = 20 << 20;
	Pages pages(bytes);
	const auto all = bytes / 1024;
	Fd writable(region(*node, pages.data() + 1, bytes - 1, IBRELK_REGION_WRITE));

	KTAP_REQUIRE(writable.get() >= 0);
	KTAP_EQUAL(pinned_kib(), all);

	// Parts of it are found, whichever: short and long ones, also of more than two windows.
	const auto before = endpoint_info(*node);
	for (std::size_t size : {std::size_t{1}, std::size_t{100'000}, std::size_t{9} << 20}) {
		auto data = pattern(size, 8);

		std::memcpy(pages.data() + 777, data.data(), size);
		KTAP_EQUAL(transfer(*node, pages.data() + 777, pages.data() + (10 << 20), size), 0);
		KTAP_CHECK(std::memcmp(pages.data() + (10 << 20), data.data(), size) == 0);
	}
	KTAP_EQUAL(endpoint_info(*node).pin_misses, before.pin_misses);
	KTAP_CHECK(endpoint_info(*node).pin_hits > before.pin_hits);

	// It outlives the endpoint, but not its descriptor, nor the memory.
	node.reset();
	KTAP_EQUAL(pinned_kib(), all);
	writable.close();
	settle(0);

	Ends another;
	Fd readable(region(another, pages.data(), bytes, 0));

	KTAP_REQUIRE(readable.get() >= 0);
	KTAP_EQUAL(pinned_kib(), all);
	pages.unmap();
	readable.close();
	settle(0);
}

void fd_pass(int socket, int fd)
{
	char byte = 0, room[CMSG_SPACE(sizeof(int))] = {};
	iovec vector = {.iov_base = &byte, .iov_len = 1};
	msghdr message = {};

	message.msg_iov = &vector;
	message.msg_iovlen = 1;
	message.msg_control = room;
	message.msg_controllen = sizeof(room);
	cmsghdr *control = CMSG_FIRSTHDR(&message);
	control->cmsg_level = SOL_SOCKET;
	control->cmsg_type = SCM_RIGHTS;
	control->cmsg_len = CMSG_LEN(sizeof(int));
	std::memcpy(CMSG_DATA(control), &fd, sizeof(fd));
	if (::sendmsg(socket, &message, 0) != 1)
		::_exit(3);
}

// Or anybody could keep memory pinned that counts against no process any more.
KTAP_TEST(memory__region_protected_for_a_while)
{
	Ends node;
	const std::size_t bytes = 20 << 20;
	auto data = pattern(kept, 8);
	Pages pages(bytes);
	auto *source = pages.data() + (10 << 20);
	Fd writable(region(node, pages.data(), bytes, IBRELK_REGION_WRITE));

	KTAP_REQUIRE(writable.get() >= 0);
	pages.protect(PROT_NONE);
	KTAP_EQUAL(node.post(recv(pages.data(), kept, 1, 2)), -EFAULT);
	pages.protect(PROT_READ | PROT_WRITE);

	const auto before = endpoint_info(node).pin_misses;
	std::memcpy(source, data.data(), kept);
	KTAP_EQUAL(transfer(node, source, pages.data() + 777, kept), 0);
	KTAP_CHECK(std::memcmp(pages.data() + 777, data.data(), kept) == 0);
	KTAP_EQUAL(endpoint_info(node).pin_misses, before);
}

KTAP_TEST(memory__region_does_not_outlive_its_process)
{
	settle(0);

	const long before = pinned_pages(), pages = (4 << 20) / static_cast<long>(page_size());
	int pair[2];
	char byte = 0;

	KTAP_REQUIRE_EQUAL(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	Fd mine(pair[0]), theirs(pair[1]);
	const pid_t child = ::fork();
	if (!child) {
		Fd device = open_device();
		Pages memory(4 << 20);
		ibrelk_region_create create{};

		std::memset(memory.data(), 1, memory.size());
		create.addr = address_of(memory.data());
		create.length = memory.size();
		if (control(device.get(), IBRELK_IOC_REGION_CREATE, &create))
			::_exit(2);
		fd_pass(theirs.get(), create.fd);
		// Until the parent has looked.
		::_exit(::read(theirs.get(), &byte, 1) != 1);
	}
	KTAP_REQUIRE(child > 0);
	// The descriptor waits in the socket, which keeps it open, too.
	pollfd ready = {.fd = mine.get(), .events = POLLIN, .revents = 0};
	KTAP_REQUIRE_EQUAL(::poll(&ready, 1, 20'000), 1);
	KTAP_CHECK(pinned_pages() >= before + pages);
	KTAP_EQUAL(::write(mine.get(), &byte, 1), 1);
	int status = -1;
	KTAP_EQUAL(::waitpid(child, &status, 0), child);
	KTAP_EQUAL(status, 0);
	auto give_up = Clock::now() + std::chrono::seconds(20);

	while (pinned_pages() > before && Clock::now() < give_up)
		std::this_thread::yield();
	KTAP_CHECK(pinned_pages() <= before);
}

KTAP_TEST(memory__region_may_be_closed_in_use)
{
	Ends node;
	Pages pages(kept);
	Fd writable(region(node, pages.data(), kept, IBRELK_REGION_WRITE));
	auto data = pattern(kept, 1);

	KTAP_REQUIRE(writable.get() >= 0);
	KTAP_REQUIRE_EQUAL(node.post(recv(pages.data(), kept, 1, 2)), 1);
	writable.close();
	KTAP_REQUIRE_EQUAL(node.post(send(node.self, data.data(), kept, 1, 1)), 1);
	both_end(node, 0);
	KTAP_CHECK(std::memcmp(pages.data(), data.data(), kept) == 0);
}

KTAP_TEST(memory__region_of_the_wrong_kind)
{
	Ends node;
	Pages pages(kept), read_only(kept, PROT_READ);
	Fd file(::memfd_create("ibrelk-abi", MFD_CLOEXEC));

	KTAP_EQUAL(region(node, pages.data(), 0, 0), -EINVAL);
	KTAP_EQUAL(region(node, pages.data(), IBRELK_REGION_MAX + 1, 0), -EINVAL);
	KTAP_EQUAL(region(node, pages.data(), kept, 2), -EINVAL);
	KTAP_EQUAL(region(node, nullptr, kept, 0), -EFAULT);
	KTAP_EQUAL(region(node, reinterpret_cast<void *>(~0ul - 4096), kept, 0), -EFAULT);
	KTAP_EQUAL(region(node, pages.data(), 1 << 30, 0), -EFAULT);
	KTAP_EQUAL(region(node, read_only.data(), kept, IBRELK_REGION_WRITE), -EFAULT);
	Fd readable(region(node, read_only.data(), kept, 0));
	KTAP_CHECK(readable.get() >= 0);
	KTAP_REQUIRE_EQUAL(::ftruncate(file.get(), kept), 0);

	// Of a file, but of none that is written back.
	Pages shared(kept, PROT_READ | PROT_WRITE, MAP_SHARED, file.get());
	Fd writable(region(node, shared.data(), kept, IBRELK_REGION_WRITE));
	KTAP_CHECK(writable.get() >= 0);

	// It has nothing to be asked.
	KTAP_EQUAL(control(readable.get(), IBRELK_IOC_SUBMIT, &file), -ENOTTY);
}

KTAP_TEST(memory__region_beyond_the_limit)
{
	need_root();
	KTAP_EQUAL(in_child([&] {
		rlimit tight = {.rlim_cur = 256 << 10, .rlim_max = 256 << 10};

		if (::setrlimit(RLIMIT_MEMLOCK, &tight) || !drop_capability(CAP_IPC_LOCK))
			return 255;
		Ends node;
		Pages pages(1 << 20);

		if (region(node, pages.data(), 1 << 20, 0) != -ENOMEM)
			return 1;
		Fd most(region(node, pages.data(), 200 << 10, IBRELK_REGION_WRITE));
		if (most.get() < 0)
			return 2;
		// What is left is enough for little, and the rest is bounced.
		exchange(node, pages.data() + (300 << 10), 1, Way::either);
		return 0;
	}),
		0);
}

// Another thread changes all kinds of memory, but for what is sent and received, and forks.
KTAP_TEST(memory__pinned_beside_changes)
{
	Ends node;
	Pages pages(kept);
	std::atomic<bool> stop = false;
	std::atomic<unsigned> changes = 0;
	std::thread other([&] {
		while (!stop) {
			Pages passing(kept);

			std::memset(passing.data(), 1, kept);
			::madvise(passing.data(), kept / 2, MADV_DONTNEED);
			passing.protect(PROT_READ);
			const pid_t child = ::fork();
			if (!child)
				::_exit(0);
			::waitpid(child, nullptr, 0);
			changes++;
		}
	});

	for (unsigned round = 0; round < 200 || changes < 50; round++)
		exchange(node, pages.data(), round);
	stop = true;
	other.join();
}

// No more stays pinned than half of what may be, and it makes room for what has to be pinned.
KTAP_TEST(memory__pinned_within_the_limit)
{
	need_root();
	KTAP_EQUAL(in_child([&] {
		rlimit tight = {.rlim_cur = 256 << 10, .rlim_max = 256 << 10};

		if (::setrlimit(RLIMIT_MEMLOCK, &tight) || !drop_capability(CAP_IPC_LOCK))
			return 255;
		Ends node;
		Pages pages(2 << 20);

		for (std::size_t i = 0; i < 32; i++)
			exchange(node, pages.data() + i * (64 << 10), static_cast<unsigned>(i), Way::either);
		if (endpoint_info(node).pinned_idle_bytes > 128 << 10)
			return 1;
		auto data = pattern(200 << 10, 5);
		if (transfer(node, data.data(), pages.data(), 200 << 10, Way::either) ||
			std::memcmp(data.data(), pages.data(), data.size()) != 0)
			return 2;
		return 0;
	}),
		0);
}

// The rest of a page whose memory cannot be pinned must stay as it is, too.
int transfers_with_little_to_pin(Ends &node, std::size_t bytes)
{
	rlimit tight = {.rlim_cur = 64 << 10, .rlim_max = 64 << 10};
	auto data = pattern(bytes, 13);
	std::vector<std::uint8_t> got(bytes + 64, 0xee);

	if (::setrlimit(RLIMIT_MEMLOCK, &tight) || ::setgid(nobody) || ::setuid(nobody))
		return 255;
	if (transfer(node, data.data(), got.data() + 1, bytes, Way::refused))
		return 1;
	if (std::memcmp(got.data() + 1, data.data(), bytes) != 0)
		return 2;
	if (got[0] != 0xee || got[bytes + 1] != 0xee)
		return 3;

	// A message that is shorter than its receive.
	std::fill(got.begin(), got.end(), 0xee);
	if (node.post({recv(got.data(), bytes, 1, 2), send(node.self, data.data(), 10, 1, 1)}) != 2)
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
	if (node.post({recv(got.data(), bytes, 1, 2), cancel(2, 3)}) != 2)
		return 7;
	for (int i = 0; i < 2; i++)
		if (!node.ring.next())
			return 8;
	if (!std::all_of(got.begin(), got.end(), [](auto byte) { return byte == 0xee; }))
		return 9;

	// Memory that is not there is told from memory that cannot be pinned.
	Pages read_only(bytes, PROT_READ);

	return node.post(recv(read_only.data(), bytes, 1, 2)) == -EFAULT ? 0 : 10;
}

KTAP_TEST(memory__beyond_the_limit_is_bounced)
{
	need_root();
	for (std::size_t bytes : {100'000ul, 1ul << 20, 9ul << 20}) {
		Ends node;

		KTAP_EQUAL(in_child([&] { return transfers_with_little_to_pin(node, bytes); }), 0);
		KTAP_CHECK(endpoint_info(node).counters.bounced_bytes >= bytes);
	}
}

KTAP_TEST(memory__many_receives_beyond_the_limit)
{
	need_root();

	Ends node(256);

	KTAP_EQUAL(in_child([&] {
		rlimit tight = {.rlim_cur = 64 << 10, .rlim_max = 64 << 10};
		std::vector<std::uint32_t> got(2000);
		std::vector<Command> batch;
		unsigned good = 0;

		if (::setrlimit(RLIMIT_MEMLOCK, &tight) || ::setgid(nobody) || ::setuid(nobody))
			return 255;
		for (std::uint32_t i = 0; i < got.size(); i++) {
			Command command = recv(&got[i], sizeof(got[i]), i, 1);

			if (node.post(command) != 1)
				return 1;
		}
		for (std::uint32_t i = 0; i < got.size(); i++) {
			std::uint32_t value = i + 1;
			Command command = send(node.self, &value, sizeof(value), i, 2);

			command.flags = IBRELK_CMD_NO_SUCCESS;
			for (;;) {
				int accepted = node.post(command);

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

// ---- who pays ------------------------------------------------------------------------------------

bool write_file(const std::string &path, const std::string &text)
{
	std::ofstream stream(path);

	stream << text << std::flush;
	return stream.good();
}

// A memory cgroup, empty in the end.
class Group
{
public:
	Group()
	{
		write_file(top + "/cgroup.subtree_control", "+memory");
		::mkdir(path.c_str(), 0700);
		if (::access((path + "/memory.current").c_str(), R_OK)) {
			::rmdir(path.c_str());
			ktap::skip("the kernel has no memory cgroups");
		}
	}
	~Group()
	{
		leave();
		::rmdir(path.c_str());
	}
	Group(const Group &) = delete;
	Group &operator=(const Group &) = delete;
	void join() const
	{
		KTAP_REQUIRE(write_file(path + "/cgroup.procs", "0"));
	}
	void leave() const
	{
		write_file(top + "/cgroup.procs", "0");
	}
	std::uint64_t bytes() const
	{
		std::uint64_t value = 0;
		std::ifstream file(path + "/memory.current");

		KTAP_REQUIRE(static_cast<bool>(file >> value));
		return value;
	}

private:
	const std::string top = "/sys/fs/cgroup";
	const std::string path = top + "/ibrelk-abi";
};

// What nobody receives is kept at the receiver's expense, not at everybody's: the room for messages, which is
// there from the beginning, and the headers of longer ones.
KTAP_TEST(memory__of_messages_that_wait_is_paid_by_the_receiver)
{
	constexpr unsigned count = 4096; // a few hundred bytes each; groups are charged in steps of 256 KiB
	constexpr std::uint64_t room = 8 << 20;

	need_root();

	const Group group;
	const Pages pages(128 << 10);

	group.join();
	const std::uint64_t empty = group.bytes();
	Node node(8192, [](auto &create) { create.unexpected_bytes = room; });
	group.leave();
	const std::uint64_t before = group.bytes();
	ktap::note("memory of the group: ", empty, ", with an endpoint ", before);
	KTAP_CHECK(before >= empty + room);
	for (unsigned i = 0; i < count; i++)
		KTAP_REQUIRE_EQUAL(submit(Door::ioctl, node.endpoint.get(),
					   {send(node.self, pages.data(), pages.size(), i)}),
			1);
	for (unsigned i = 0; i < 20'000 && endpoint_info(node).unexpected < count; i++)
		::usleep(1000);
	KTAP_EQUAL(endpoint_info(node).unexpected, count);
	ktap::note("memory of the group: ", before, ", with ", count, " headers ", group.bytes());
	KTAP_CHECK(group.bytes() >= before + (512 << 10));
}

// Each address of the loopback network has a path of its own, with a queue, which its maker pays for.
KTAP_TEST(memory__of_paths_to_oneself_is_paid_by_who_made_them)
{
	constexpr unsigned count = 32;
	constexpr std::uint64_t queue = 512 << 10;

	need_root();

	const Group group;
	Node node;
	const char byte = 0;
	std::vector<std::uint32_t> peers;

	for (unsigned i = 0; i < count; i++) {
		ibrelk_peer peer{};

		peer.addr.gid[10] = peer.addr.gid[11] = 0xff;
		peer.addr.gid[12] = 127;
		/* Those of an earlier run may still be there. */
		peer.addr.gid[13] = static_cast<std::uint8_t>(1 + ::getpid() % 254);
		peer.addr.gid[14] = static_cast<std::uint8_t>(::getpid() / 254);
		peer.addr.gid[15] = static_cast<std::uint8_t>(i);
		peer.addr.endpoint = 1; // nobody's
		KTAP_REQUIRE_EQUAL(control(node.endpoint.get(), IBRELK_IOC_PEER_ADD, &peer), 0);
		peers.push_back(peer.handle);
	}
	group.join();
	const std::uint64_t before = group.bytes();
	for (const std::uint32_t peer : peers)
		KTAP_REQUIRE_EQUAL(submit(Door::ioctl, node.endpoint.get(), {send(peer, &byte, 1, peer)}), 1);
	group.leave();
	for (unsigned i = 0; i < count; i++) {
		const auto completion = node.ring.next();

		KTAP_REQUIRE(completion);
		KTAP_EQUAL(completion->status, -ECONNREFUSED);
	}
	const std::uint64_t after = group.bytes();
	ktap::note("memory of the group: ", before, ", with ", count, " paths ", after);
	KTAP_CHECK(after >= before + count * queue);
}

// ---- memory that nobody brings --------------------------------------------------------------------

// Pages of which each access waits, from now on, until they are brought, or this is closed (userfaultfd).
class Withheld
{
public:
	static bool possible()
	{
		const Fd tried(static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC)));

		return tried.get() >= 0 || errno != ENOSYS;
	}
	Withheld() : fd_(static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK)))
	{
		uffdio_api api{};

		api.api = UFFD_API;
		KTAP_REQUIRE(fd_.get() >= 0);
		KTAP_REQUIRE_EQUAL(control(fd_.get(), UFFDIO_API, &api), 0);
	}
	// Returns 0, or an error.
	int withhold(const Pages &pages)
	{
		uffdio_register range{};

		range.range.start = address_of(pages.data());
		range.range.len = pages.size();
		range.mode = UFFDIO_REGISTER_MODE_MISSING;
		if (const int error = control(fd_.get(), UFFDIO_REGISTER, &range))
			return error;
		return ::madvise(pages.data(), pages.size(), MADV_DONTNEED) ? -errno : 0;
	}
	// Until somebody waits for them.
	void wait() const
	{
		pollfd waiting = {.fd = fd_.get(), .events = POLLIN, .revents = 0};

		KTAP_REQUIRE_EQUAL(::poll(&waiting, 1, patience_ms), 1);
	}
	// All zeroes. Returns 0, or an error.
	int bring(const Pages &pages)
	{
		uffdio_zeropage range{};

		range.range.start = address_of(pages.data());
		range.range.len = pages.size();
		return control(fd_.get(), UFFDIO_ZEROPAGE, &range);
	}

private:
	static constexpr int patience_ms = 20'000;

	Fd fd_;
};

// The device is everybody's meanwhile.
class Opened
{
public:
	Opened()
	{
		KTAP_REQUIRE_EQUAL(::stat(path, &before_), 0);
		KTAP_REQUIRE_EQUAL(::chmod(path, 0666), 0);
	}
	~Opened()
	{
		static_cast<void>(::chmod(path, before_.st_mode & 07777));
	}
	Opened(const Opened &) = delete;
	Opened &operator=(const Opened &) = delete;

private:
	static constexpr const char *path = "/dev/ibrelk";
	struct stat before_ {
	};
};

// Becomes somebody who may pin nothing, so that all that he receives is bounced. False: it cannot.
bool become_bounced(uid_t user)
{
	const rlimit none = {.rlim_cur = 0, .rlim_max = 0};

	return !::setrlimit(RLIMIT_MEMLOCK, &none) && !::setgid(nobody) && !::setuid(user);
}

// Receives into memory that is withheld before the messages come: for each a worker waits for it.
int receive_withheld(Ends &node, unsigned count, Withheld &withheld, const Pages &pages)
{
	std::memset(pages.data(), 1, pages.size());
	for (unsigned i = 0; i < count; i++) {
		if (node.post(recv(pages.data() + i % pages.size(), 1, 1, 2)) != 1)
			return 1;
	}
	if (withheld.withhold(pages))
		return 2;
	for (unsigned i = 0; i < count; i++) {
		Command command = send(node.self, "x", 1, 1, 1);

		command.flags = IBRELK_CMD_NO_SUCCESS;
		if (node.post(command) != 1)
			return 3;
	}
	return node.ring.tail() ? 4 : 0;
}

// A process that does something, says what came of it, and stays as it is until this is closed.
class Neighbour
{
public:
	static constexpr unsigned char ready = 250; // what it says of itself
	// What it returns is 0 to 249. It is told when whoever made it has prepared what there is to prepare
	// for it.
	explicit Neighbour(const std::function<unsigned(const std::function<void()> &prepared)> &function)
	{
		int ends[2];

		KTAP_REQUIRE_EQUAL(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
		mine_ = Fd(ends[0]);
		Fd theirs(ends[1]);
		child_ = ::fork();
		if (!child_) {
			unsigned char byte = ready;

			::alarm(120);
			mine_.close();
			try {
				byte = static_cast<unsigned char>(function([&] {
					if (::write(theirs.get(), &byte, 1) != 1 ||
						::read(theirs.get(), &byte, 1) != 1)
						::_exit(1);
				}));
			} catch (...) {
				::_exit(2);
			}
			::_exit(::write(theirs.get(), &byte, 1) != 1 || ::read(theirs.get(), &byte, 1) != 0);
		}
		KTAP_REQUIRE(child_ > 0);
	}
	~Neighbour()
	{
		int status = -1;

		mine_.close();
		::waitpid(child_, &status, 0);
		KTAP_EQUAL(status, 0);
	}
	Neighbour(const Neighbour &) = delete;
	Neighbour &operator=(const Neighbour &) = delete;
	pid_t pid() const
	{
		return child_;
	}
	// What it says next.
	int said() const
	{
		unsigned char byte = 0;

		return ::read(mine_.get(), &byte, 1) == 1 ? byte : -1;
	}
	void prepared() const
	{
		const unsigned char byte = 0;

		KTAP_REQUIRE_EQUAL(::write(mine_.get(), &byte, 1), 1);
	}

private:
	Fd mine_;
	pid_t child_ = -1;
};

// However many page faults of a user are unanswered: others' messages arrive.
KTAP_TEST(memory__that_nobody_brings_is_one_users_business)
{
	constexpr unsigned count = 2000;

	need_root();
	if (!Withheld::possible())
		ktap::skip("the kernel has no userfaultfd");

	const Opened everybody; // who opens an endpoint is whose memory it is
	// Its end is an answer to all of them.
	const Neighbour waiting([](const std::function<void()> &) -> unsigned {
		static Withheld withheld;
		static const Pages pages(page_size());

		if (!become_bounced(nobody))
			return 248;
		static Ends node(4096);
		return static_cast<unsigned>(receive_withheld(node, count, withheld, pages));
	});

	KTAP_EQUAL(waiting.said(), 0);
	KTAP_EQUAL(in_child([&] {
		std::array<char, 10> got{};

		if (!become_bounced(nobody - 1))
			return 255;

		Ends node;

		if (const int error = transfer(node, "good news", got.data(), got.size(), Way::either))
			return error;
		return std::memcmp(got.data(), "good news", got.size()) ? 1 : 0;
	}),
		0);
}

// What is bounced, and cannot be given to the user, has not arrived: its sender is told, too.
KTAP_TEST(memory__unmapped_and_bounced)
{
	need_root();
	const Opened everybody;

	KTAP_EQUAL(in_child([] {
		if (!become_bounced(nobody))
			return 255;

		Ends node;

		for (std::size_t bytes : {std::size_t{100'000}, std::size_t{3} << 20}) {
			const auto data = pattern(bytes, 41);
			auto target = std::make_unique<Pages>(bytes);

			KTAP_REQUIRE_EQUAL(node.post(recv(target->data(), bytes, 1, 2)), 1);
			target.reset();
			KTAP_REQUIRE_EQUAL(node.post(send(node.self, data.data(), bytes, 1, 1)), 1);
			both_end(node, -EFAULT);
		}
		return 0;
	}),
		0);
}

// The state of a thread, as ps shows it.
char state_of(pid_t thread)
{
	std::ifstream stat("/proc/self/task/" + std::to_string(thread) + "/stat");
	std::string text;

	std::getline(stat, text);

	const auto end = text.rfind(") ");

	return end == std::string::npos ? '?' : text.at(end + 2);
}

// What was received is still being copied when the endpoint is closed: close() returns when it has been.
KTAP_TEST(memory__is_the_users_own_when_the_endpoint_is_closed)
{
	need_root();
	if (!Withheld::possible())
		ktap::skip("the kernel has no userfaultfd");

	const Opened everybody;

	KTAP_EQUAL(in_child([] {
		Withheld withheld;
		const Pages pages(page_size());
		std::atomic<pid_t> closing = 0;
		std::atomic<bool> closed = false;

		if (!become_bounced(nobody))
			return 255;

		Ends node;

		if (const int error = receive_withheld(node, 1, withheld, pages))
			return error;
		withheld.wait();

		std::thread closer([&] {
			closing = static_cast<pid_t>(::syscall(SYS_gettid));
			node.endpoint.close();
			closed = true;
		});

		// It either waits for good, or does not wait.
		while (!closed && (!closing || state_of(closing) != 'D'))
			std::this_thread::yield();
		KTAP_CHECK(!closed);
		KTAP_EQUAL(withheld.bring(pages), 0);
		closer.join();
		KTAP_CHECK(pages.data()[0] == std::byte{'x'});
		return 0;
	}),
		0);
}

// ---- what users share -----------------------------------------------------------------------------

// A parameter of the module, for as long as this is there.
class Parameter
{
public:
	Parameter(const std::string &name, const std::string &value) :
		path_("/sys/module/ibrelk/parameters/" + name)
	{
		std::ifstream(path_) >> before_;
		KTAP_REQUIRE(write_file(path_, value));
	}
	~Parameter()
	{
		write_file(path_, before_);
	}
	Parameter(const Parameter &) = delete;
	Parameter &operator=(const Parameter &) = delete;

private:
	const std::string path_;
	std::string before_;
};

// How many receives of 60 KiB that have to be bounced this process can post; 249: it was not memory that
// ended it.
unsigned bounced_receives()
{
	static const Node node(256); // which keeps them
	constexpr std::size_t size = 60 << 10;
	const Pages pages(size);
	unsigned taken = 0;
	int ret = 1;

	while (taken < 200 &&
		(ret = submit(Door::ioctl, node.endpoint.get(), recv(pages.data(), size, 0))) == 1)
		taken++;
	return ret == -ENOMEM ? taken : 249;
}

// Of what there is for bounced memory a user may have half, by whatever names: others have theirs.
KTAP_TEST(memory__for_bouncing_is_shared_among_users)
{
	constexpr unsigned share = 17; // of 60 KiB, which are half of 2 MiB, and no other fits
	constexpr uid_t one = nobody - 2, other = nobody - 3; // who have nothing left from other tests

	need_root();
	const Opened everybody;
	const Parameter limit("bounce_max_mib", "2");

	const Neighbour first(
		[](const std::function<void()> &) { return become_bounced(one) ? bounced_receives() : 248; });
	KTAP_EQUAL(first.said(), static_cast<int>(share));

	// In a user namespace of his own he may be anybody.
	const Neighbour disguised([](const std::function<void()> &prepared) -> unsigned {
		if (!become_bounced(one) || ::prctl(PR_SET_DUMPABLE, 1) || ::unshare(CLONE_NEWUSER))
			return 247;
		prepared();
		if (::setgid(5) || ::setuid(5))
			return 246;
		return bounced_receives();
	});
	const std::string process = "/proc/" + std::to_string(disguised.pid());

	KTAP_REQUIRE_EQUAL(disguised.said(), Neighbour::ready);
	KTAP_REQUIRE(write_file(process + "/uid_map", "0 70000 10"));
	KTAP_REQUIRE(write_file(process + "/gid_map", "0 70000 10"));
	disguised.prepared();
	KTAP_EQUAL(disguised.said(), 0);

	const Neighbour second([](const std::function<void()> &) {
		return become_bounced(other) ? bounced_receives() : 248;
	});
	KTAP_EQUAL(second.said(), static_cast<int>(share));
}

} // namespace
} // namespace abi
