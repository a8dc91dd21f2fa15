// SPDX-License-Identifier: GPL-2.0-only
//
// Tables, hashes and randomness: see shim/table.h.

#include "sim.h"

#include "table.h"

#include <cstring>
#include <map>

// ---- randomness --------------------------------------------------------------------------------

static u64 random_state[SIM_STREAMS];

static u64 mix(u64 z)
{
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

void sim_seed(u64 seed)
{
	for (u64 i = 0; i < SIM_STREAMS; i++)
		random_state[i] = mix(mix(seed + 1) + i * 0x632be59bd9b4e019ull);
}

u64 sim_random(sim_stream stream)
{
	return mix(random_state[stream] += 0x9e3779b97f4a7c15ull);
}

u64 sim_below(sim_stream stream, u64 n)
{
	return n ? sim_random(stream) % n : 0;
}

bool sim_chance(sim_stream stream, u64 ppm)
{
	return ppm && sim_random(stream) % 1'000'000 < ppm;
}

u64 get_random_u64()
{
	return sim_random(SIM_RANDOM_KERNEL);
}

// Tokens of paths are drawn so, and packets are numbered from there on. (Not closer to the wrap: a token
// shall hardly ever be drawn twice.)
u32 get_random_u32()
{
	const u32 drawn = static_cast<u32>(sim_random(SIM_RANDOM_KERNEL));
	return sim_config.wrap ? drawn | ~0x3fffu : drawn;
}

void get_random_bytes(void *to, std::size_t bytes)
{
	for (auto *p = static_cast<u8 *>(to); bytes; bytes--)
		*p++ = static_cast<u8>(sim_random(SIM_RANDOM_KERNEL));
}

// ---- hashes ------------------------------------------------------------------------------------

u32 jhash(const void *key, u32 length, u32 seed)
{
	u64 hash = seed ^ 0xcbf29ce484222325ull;
	for (const auto *p = static_cast<const u8 *>(key); length; length--)
		hash = (hash ^ *p++) * 0x100000001b3ull;
	return static_cast<u32>(hash >> 32 ^ hash);
}

u32 jhash_3words(u32 a, u32 b, u32 c, u32 seed)
{
	return static_cast<u32>(mix(mix(mix(seed + u64{a}) + b) + c));
}

u64 siphash_2u64(u64 a, u64 b, const siphash_key_t *key)
{
	return mix(mix(a ^ key->key[0]) + (b ^ key->key[1]));
}

// ---- trees of intervals ------------------------------------------------------------------------

// By address, and of those that begin at the same one by age.
using Intervals = std::map<std::pair<unsigned long, u64>, interval_tree_node *>;

static Intervals *intervals_of(const rb_root_cached *root)
{
	return static_cast<Intervals *>(root->intervals);
}

void interval_tree_insert(interval_tree_node *node, rb_root_cached *root)
{
	static u64 order;

	if (!root->intervals)
		root->intervals = new Intervals;
	node->order = order++;
	node->root = root;
	(*intervals_of(root))[{node->start, node->order}] = node;
}

void interval_tree_remove(interval_tree_node *node, rb_root_cached *root)
{
	auto *intervals = intervals_of(root);

	if (node->root != root || !intervals || !intervals->erase({node->start, node->order}))
		sim_fail("shim", "an interval is removed that is not in this tree");
	node->root = nullptr;
	if (intervals->empty()) {
		delete intervals;
		root->intervals = nullptr;
	}
}

static interval_tree_node *interval_next(const rb_root_cached *root, std::pair<unsigned long, u64> from,
	unsigned long start, unsigned long last)
{
	const auto *intervals = intervals_of(root);

	if (!intervals)
		return nullptr;
	for (auto it = intervals->lower_bound(from); it != intervals->end() && it->first.first <= last; ++it)
		if (it->second->last >= start)
			return it->second;
	return nullptr;
}

interval_tree_node *interval_tree_iter_first(rb_root_cached *root, unsigned long start, unsigned long last)
{
	return interval_next(root, {0, 0}, start, last);
}

interval_tree_node *interval_tree_iter_next(interval_tree_node *node, unsigned long start, unsigned long last)
{
	return interval_next(node->root, {node->start, node->order + 1}, start, last);
}

// ---- xarrays -----------------------------------------------------------------------------------

using Map = std::map<unsigned long, void *>;

static Map *map_of(const xarray *xa)
{
	return static_cast<Map *>(xa->map);
}

static bool map_room(xarray *xa, gfp_t gfp)
{
	if (sim_alloc_refuse(gfp & ~GFP_KERNEL))
		return false;
	if (!xa->map)
		xa->map = new Map;
	return true;
}

void *xa_load(xarray *xa, unsigned long index)
{
	const auto *map = map_of(xa);
	if (!map)
		return nullptr;
	const auto it = map->find(index);
	return it == map->end() ? nullptr : it->second;
}

void *xa_erase(xarray *xa, unsigned long index)
{
	auto *map = map_of(xa);
	if (!map)
		return nullptr;
	const auto it = map->find(index);
	if (it == map->end())
		return nullptr;
	void *entry = it->second;
	map->erase(it);
	if (map->empty()) {
		delete map;
		xa->map = nullptr;
	}
	return entry;
}

void xa_destroy(xarray *xa)
{
	delete map_of(xa);
	xa->map = nullptr;
}

// The first free index in [from, to]. Return: there is one.
static bool map_free(const Map *map, u32 from, u32 to, u32 *found)
{
	u64 at = from;
	for (auto it = map->lower_bound(from); it != map->end() && it->first == at; ++it)
		at++;
	*found = static_cast<u32>(at);
	return at <= to;
}

int sim_xa_alloc(xarray *xa, u32 *id, void *entry, xa_limit limit, gfp_t gfp)
{
	if (!map_room(xa, gfp))
		return -ENOMEM;
	if (!map_free(map_of(xa), std::max(limit.min, xa->flags & XA_FLAGS_ALLOC1 ? 1u : 0u), limit.max, id))
		return -EBUSY;
	(*map_of(xa))[*id] = entry;
	return 0;
}

int xa_alloc_cyclic(xarray *xa, u32 *id, void *entry, xa_limit limit, u32 *next, gfp_t gfp)
{
	if (!map_room(xa, gfp))
		return -ENOMEM;
	const u32 from = std::max(*next, limit.min);
	int wrapped = 0;
	if (from > limit.max || !map_free(map_of(xa), from, limit.max, id)) {
		if (from == limit.min || !map_free(map_of(xa), limit.min, limit.max, id))
			return -EBUSY;
		wrapped = 1;
	}
	*next = *id + 1;
	(*map_of(xa))[*id] = entry;
	return wrapped;
}

int sim_xa_insert(xarray *xa, unsigned long index, void *entry, gfp_t gfp)
{
	if (!map_room(xa, gfp))
		return -ENOMEM;
	return map_of(xa)->emplace(index, entry).second ? 0 : -EBUSY;
}

void sim_xa_store(xarray *xa, unsigned long index, void *entry)
{
	(*map_of(xa))[index] = entry;
}

void *sim_xa_find(xarray *xa, unsigned long *index, bool after)
{
	const auto *map = map_of(xa);
	if (!map)
		return nullptr;
	auto it = after ? map->upper_bound(*index) : map->lower_bound(*index);
	while (it != map->end() && !it->second)
		++it;
	if (it == map->end())
		return nullptr;
	*index = it->first;
	return it->second;
}

// ---- trees -------------------------------------------------------------------------------------

static void rb_replace(rb_root *root, rb_node *old, rb_node *fresh)
{
	rb_node *parent = old->parent;

	if (!parent)
		root->rb_node = fresh;
	else if (parent->rb_left == old)
		parent->rb_left = fresh;
	else
		parent->rb_right = fresh;
	if (fresh)
		fresh->parent = parent;
}

void rb_link_node(rb_node *node, rb_node *parent, rb_node **place)
{
	*node = {parent, nullptr, nullptr};
	*place = node;
}

void rb_erase(rb_node *node, rb_root *root)
{
	if (!node->rb_left || !node->rb_right) {
		rb_replace(root, node, node->rb_left ? node->rb_left : node->rb_right);
		return;
	}
	rb_node *next = node->rb_right;
	while (next->rb_left)
		next = next->rb_left;
	if (next->parent != node) {
		rb_replace(root, next, next->rb_right);
		next->rb_right = node->rb_right;
		next->rb_right->parent = next;
	}
	rb_replace(root, node, next);
	next->rb_left = node->rb_left;
	next->rb_left->parent = next;
}

// ---- hash tables -------------------------------------------------------------------------------

static constexpr u32 buckets = 256;

static const u8 *key_of(const rhashtable *table, const rhash_head *head)
{
	return reinterpret_cast<const u8 *>(head) - table->params.head_offset + table->params.key_offset;
}

static rhash_head **bucket_of(rhashtable *table, const void *key)
{
	return &table->bucket[jhash(key, table->params.key_len, 0) % buckets];
}

int rhashtable_init(rhashtable *table, const rhashtable_params *params)
{
	table->params = *params;
	table->count = 0;
	// NOLINTNEXTLINE(bugprone-sizeof-expression): they are pointers.
	table->bucket = static_cast<rhash_head **>(kcalloc(buckets, sizeof(rhash_head *), GFP_KERNEL));
	return table->bucket ? 0 : -ENOMEM;
}

void rhashtable_destroy(rhashtable *table)
{
	if (table->count)
		sim_fail("leak", "%u entries are left in a hash table", table->count);
	kfree(table->bucket);
}

void *sim_rhash_find(rhashtable *table, const void *key)
{
	for (auto *head = *bucket_of(table, key); head; head = head->next)
		if (!std::memcmp(key_of(table, head), key, table->params.key_len))
			return reinterpret_cast<u8 *>(head) - table->params.head_offset;
	return nullptr;
}

int sim_rhash_insert(rhashtable *table, rhash_head *head)
{
	const auto *key = key_of(table, head);
	if (sim_rhash_find(table, key))
		return -EEXIST;
	if (sim_alloc_refuse(GFP_ATOMIC))
		return -ENOMEM;
	auto **bucket = bucket_of(table, key);
	head->next = *bucket;
	*bucket = head;
	table->count++;
	return 0;
}

int sim_rhash_remove(rhashtable *table, rhash_head *head)
{
	for (auto **at = bucket_of(table, key_of(table, head)); *at; at = &(*at)->next)
		if (*at == head) {
			*at = head->next;
			table->count--;
			return 0;
		}
	return -ENOENT;
}
