// SPDX-License-Identifier: GPL-2.0-only
//
// Memory with a memory: see shim/alloc.h.

#include "sim.h"

#include "alloc.h"

#include <cstdlib>
#include <cstring>
#include <map>
#include <sys/mman.h>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

namespace
{

constexpr std::size_t path_bytes_min = 2500; // smaller things need not be looked for among the paths
constexpr u32 magic_live = 0x5eed11fe;
constexpr u32 magic_dead = 0xdeadbeef;

struct alignas(64) Header {
	list_head link;
	std::size_t size;
	const char *who;
	u32 magic;
	u32 node; // for which it was allocated
	bool pages;
};

list_head live{&live, &live};
u64 live_count;
u64 live_bytes[SIM_NODES_MAX];

// Whole pages are the buffers of queue pairs, most of which no packet reaches before the run is over. They
// are taken from here, where what was never used is zero, and costs little before it is touched: its header
// is, and with that a huge page.
class Pages
{
public:
	void *get(std::size_t bytes)
	{
		auto &free = free_[bytes];

		if (!free.empty()) {
			void *memory = free.back();
			free.pop_back();
			ASAN_UNPOISON_MEMORY_REGION(memory, bytes);
			return std::memset(memory, 0, bytes);
		}
		if (!base_) {
			void *got = mmap(nullptr, reserved, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
			if (got == MAP_FAILED)
				std::abort();
			base_ = static_cast<std::byte *>(got);
			madvise(base_, reserved, MADV_HUGEPAGE);
		}
		std::byte *memory = base_ + used_;
		used_ += bytes + gap;
		if (used_ > reserved)
			std::abort();
		ASAN_POISON_MEMORY_REGION(memory + bytes, gap);
		return memory;
	}

	void put(void *memory, std::size_t bytes)
	{
		ASAN_POISON_MEMORY_REGION(memory, bytes);
		free_[bytes].push_back(memory);
	}

private:
	static constexpr std::size_t reserved = 64ull << 30;
	static constexpr std::size_t gap = 64; // nobody's, which the sanitizer knows

	std::byte *base_ = nullptr;
	std::size_t used_ = 0;
	std::map<std::size_t, std::vector<void *>> free_;
};

Pages pages;

} // namespace

int sim_alloc_calm;
unsigned long long sim_alloc_nth;

bool sim_alloc_turn()
{
	if (sim_alloc_calm || !sim_alloc_nth || --sim_alloc_nth)
		return false;
	sim_counts.refused_allocs++;
	return true;
}

bool sim_alloc_refuse(gfp_t gfp)
{
	if (gfp & GFP_KERNEL)
		sim_might_sleep("allocation");
	if (sim_alloc_turn())
		return true;
	if (!sim_troubled || sim_alloc_calm || !sim_chance(SIM_RANDOM_ALLOC, sim_config.alloc))
		return false;
	sim_counts.refused_allocs++;
	return true;
}

// What follows is the caller's.
static void *alloc_counted(void *memory, std::size_t size, const char *who, bool pages)
{
	if (!memory)
		std::abort();
	auto *header = new (memory) Header{};
	header->size = size;
	header->who = who;
	header->magic = magic_live;
	header->node = sim_node();
	header->pages = pages;
	live_bytes[header->node] += size;
	list_add_tail(&header->link, &live);
	live_count++;
	return header + 1;
}

void *sim_alloc(std::size_t size, gfp_t gfp, const char *who)
{
	if (sim_alloc_refuse(gfp))
		return nullptr;
	const std::size_t all = sizeof(Header) + size;
	void *memory =
		alloc_counted(gfp & __GFP_ZERO ? std::calloc(1, all) : std::malloc(all), size, who, false);
	if (!(gfp & __GFP_ZERO))
		std::memset(memory, 0xa5, std::min<std::size_t>(size, 512));
	return memory;
}

void *sim_pages(std::size_t size, gfp_t gfp, const char *who)
{
	if (sim_alloc_refuse(gfp))
		return nullptr;
	return alloc_counted(pages.get(sizeof(Header) + size), size, who, true);
}

void sim_free(const void *memory)
{
	if (!memory || IS_ERR(memory))
		return;
	auto *header = static_cast<Header *>(const_cast<void *>(memory)) - 1;
	if (header->magic != magic_live)
		sim_fail("memory", "freed twice, or never allocated");
	if (header->size > path_bytes_min)
		sim_forget(memory);
	list_del(&header->link);
	live_count--;
	live_bytes[header->node] -= header->size;
	header->magic = magic_dead;
	std::memset(header + 1, 0x6b, std::min<std::size_t>(header->size, 512));
	if (header->pages)
		pages.put(header, sizeof(Header) + header->size);
	else
		std::free(header);
}

u64 sim_alloc_live()
{
	return live_count;
}

u64 sim_alloc_bytes(u32 node)
{
	return live_bytes[node];
}

void sim_alloc_check()
{
	if (list_empty(&live))
		return;
	const auto *first = container_of(live.next, Header, link);
	sim_fail("leak", "%llu allocations are left, the first of %zu bytes from %s", live_count, first->size,
		first->who);
}

// ---- caches ------------------------------------------------------------------------------------

struct kmem_cache {
	const char *name;
	unsigned int size;
	u64 live;
	void (*construct)(void *);
	std::vector<void *> *free;
};

kmem_cache *kmem_cache_create(
	const char *name, unsigned int size, unsigned int, unsigned int, void (*construct)(void *))
{
	auto *cache = static_cast<kmem_cache *>(kzalloc(sizeof(kmem_cache), GFP_KERNEL));
	if (!cache)
		return nullptr;
	cache->name = name;
	cache->size = size;
	cache->construct = construct;
	cache->free = new std::vector<void *>;
	return cache;
}

void *kmem_cache_alloc(kmem_cache *cache, gfp_t gfp)
{
	void *object;

	if (!cache->free->empty()) {
		if (sim_alloc_refuse(gfp))
			return nullptr;
		object = cache->free->back();
		cache->free->pop_back();
		ASAN_UNPOISON_MEMORY_REGION(object, cache->size);
		if (gfp & __GFP_ZERO)
			std::memset(object, 0, cache->size);
	} else {
		object = sim_alloc(cache->size, gfp, cache->name);
		if (object && cache->construct)
			cache->construct(object);
	}
	cache->live += !!object;
	return object;
}

void kmem_cache_free(kmem_cache *cache, void *object)
{
	cache->live--;
	if (!sim_config.reuse) {
		sim_free(object);
		return;
	}
	// Without a constructor nobody may rely on what was there.
	if (!cache->construct)
		std::memset(object, 0x6b, cache->size);
	cache->free->push_back(object);
	ASAN_POISON_MEMORY_REGION(object, cache->size);
}

void kmem_cache_destroy(kmem_cache *cache)
{
	if (!cache)
		return;
	if (cache->live)
		sim_fail("leak", "%llu objects are left in the cache %s", cache->live, cache->name);
	for (void *object : *cache->free) {
		ASAN_UNPOISON_MEMORY_REGION(object, cache->size);
		sim_free(object);
	}
	delete cache->free;
	kfree(cache);
}

// ---- a reserve ---------------------------------------------------------------------------------

mempool_t *mempool_create_slab_pool(int min_nr, kmem_cache *cache)
{
	auto *pool = static_cast<mempool_t *>(kzalloc(sizeof(mempool_t), GFP_KERNEL));
	if (!pool)
		return nullptr;
	pool->cache = cache;
	pool->min_nr = min_nr;
	pool->elements =
		static_cast<void **>(kcalloc(static_cast<std::size_t>(min_nr), sizeof(void *), GFP_KERNEL));
	while (pool->elements && pool->curr_nr < min_nr) {
		void *element = kmem_cache_alloc(cache, GFP_KERNEL);
		if (!element)
			break;
		pool->elements[pool->curr_nr++] = element;
	}
	if (pool->curr_nr < min_nr) {
		mempool_destroy(pool);
		return nullptr;
	}
	return pool;
}

void *mempool_alloc(mempool_t *pool, gfp_t gfp)
{
	void *element = kmem_cache_alloc(pool->cache, gfp);
	return element ? element : pool->curr_nr ? pool->elements[--pool->curr_nr] : nullptr;
}

void mempool_free(void *element, mempool_t *pool)
{
	if (pool->curr_nr < pool->min_nr)
		pool->elements[pool->curr_nr++] = element;
	else
		kmem_cache_free(pool->cache, element);
}

void mempool_destroy(mempool_t *pool)
{
	if (!pool)
		return;
	while (pool->curr_nr)
		kmem_cache_free(pool->cache, pool->elements[--pool->curr_nr]);
	kfree(pool->elements);
	kfree(pool);
}

// ---- pools of granules -------------------------------------------------------------------------

struct gen_pool {
	int order;
	unsigned long start;
	std::size_t granules;
	std::vector<unsigned long> *used;
	genpool_algo_t find;
	void *data;
};

gen_pool *gen_pool_create(int order, int)
{
	auto *pool = static_cast<gen_pool *>(kzalloc(sizeof(gen_pool), GFP_KERNEL));
	if (pool)
		pool->order = order;
	return pool;
}

void gen_pool_set_algo(gen_pool *pool, genpool_algo_t find, void *data)
{
	pool->find = find;
	pool->data = data;
}

int gen_pool_add(gen_pool *pool, unsigned long start, std::size_t bytes, int)
{
	if (sim_alloc_refuse(GFP_KERNEL))
		return -ENOMEM;
	pool->start = start;
	pool->granules = bytes >> pool->order;
	pool->used = new std::vector<unsigned long>(BITS_TO_LONGS(pool->granules));
	return 0;
}

static std::size_t granules_of(const gen_pool *pool, std::size_t bytes)
{
	return (bytes + (1ul << pool->order) - 1) >> pool->order;
}

unsigned long gen_pool_alloc(gen_pool *pool, std::size_t bytes)
{
	const auto want = static_cast<unsigned int>(granules_of(pool, bytes));
	unsigned long *used = pool->used->data();
	const unsigned long at = pool->find(used, pool->granules, 0, want, pool->data, pool, pool->start);

	if (at >= pool->granules)
		return 0;
	if (at + want > pool->granules || find_next_bit(used, at + want, at) < at + want)
		sim_fail("memory", "allocated twice in a pool");
	bitmap_set(used, at, want);
	return pool->start + (at << pool->order);
}

void gen_pool_free(gen_pool *pool, unsigned long start, std::size_t bytes)
{
	const std::size_t from = (start - pool->start) >> pool->order;

	for (std::size_t i = from; i < from + granules_of(pool, bytes); i++) {
		if (start < pool->start || i >= pool->granules ||
			!test_and_clear_bit(static_cast<unsigned int>(i), pool->used->data()))
			sim_fail("memory", "freed twice in a pool");
	}
}

void gen_pool_destroy(gen_pool *pool)
{
	if (pool->used)
		if (find_next_bit(pool->used->data(), pool->granules, 0) < pool->granules)
			sim_fail("leak", "memory of an endpoint's pool is left");
	delete pool->used;
	kfree(pool);
}
