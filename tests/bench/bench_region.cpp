// SPDX-License-Identifier: GPL-2.0-only
//
// What it costs to have memory pinned and to let go of it again, as a region: with the cache of pinned memory
// (pin_cache_mib, as it is now) all but the first time it is pinned already. An endpoint is open meanwhile,
// as in any process that communicates; the cache is there for as long. To be run in counted time, where a
// nanosecond is an instruction. Prints rows as ibrelk-perf appends to its CSV file.
//
//	bench_region ADDRESS SIZE[,SIZE ...]
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>

#include <sys/mman.h>

#include <ibrelk/ibrelk.hpp>

namespace
{

constexpr unsigned rounds = 64;
constexpr std::size_t bytes_max = std::size_t{1} << 30;

template<class T>
T need(ibrelk::result<T> &&there, const char *what)
{
	if (!there)
		throw std::runtime_error(std::string(what) + ": error " + std::to_string(there.error()));
	return std::move(*there);
}

// Memory that is there, of small pages: what the kernel makes huge pages of is its own affair.
std::span<std::byte> make_memory(std::size_t bytes)
{
	void *start = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (start == MAP_FAILED)
		throw std::runtime_error("no memory");
	::madvise(start, bytes, MADV_NOHUGEPAGE);

	const std::span memory(static_cast<std::byte *>(start), bytes);

	for (std::size_t at = 0; at < bytes; at += 4096)
		memory[at] = std::byte{1};
	return memory;
}

void measure(const ibrelk::Device &device, std::size_t bytes)
{
	const auto memory = make_memory(bytes);
	const auto once = [&] {
		need(ibrelk::Region::to_receive(device, memory), "cannot pin");
	};

	once();

	const auto start = std::chrono::steady_clock::now();

	for (unsigned round = 0; round < rounds; round++)
		once();

	const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - start;

	std::printf(",region_ns,%zu,,,%.6g,\n", bytes, time.count() / rounds);
	::munmap(memory.data(), memory.size());
}

} // namespace

int main(int argc, char **argv)
{
	if (argc != 3) {
		std::fprintf(stderr, "usage: bench_region ADDRESS SIZE[,SIZE ...]\n");
		return 2;
	}
	try {
		auto device = need(ibrelk::Device::open(), "cannot open the device");
		auto ring = need(ibrelk::Ring::create(device, 64), "cannot create a ring");
		ibrelk::EndpointOptions wanted;
		wanted.local = need(ibrelk::Address::from_text(argv[1]), "no address");
		const auto endpoint =
			need(ibrelk::Endpoint::create(device, ring, wanted), "cannot create an endpoint");
		std::istringstream sizes(argv[2]);

		for (std::string size; std::getline(sizes, size, ',');) {
			const std::size_t bytes = std::strtoul(size.c_str(), nullptr, 10);

			if (bytes == 0 || bytes > bytes_max)
				throw std::runtime_error(size + " is no size for this");
			measure(device, bytes);
		}
	} catch (const std::exception &error) {
		std::fprintf(stderr, "bench_region: %s\n", error.what());
		return 1;
	}
	return 0;
}
