/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tables: xarrays (an ordered map) and rhashtables (fixed buckets), hashing, randomness (table.cpp).
 */
#ifndef SIM_TABLE_H
#define SIM_TABLE_H

#include "alloc.h"
#include "lock.h"

#ifdef __cplusplus
extern "C" {
#endif

struct xarray {
	spinlock_t xa_lock;
	unsigned int flags;
	void *map;
};

struct xa_limit {
	u32 max, min;
};

#define XA_FLAGS_ALLOC		1u
#define XA_FLAGS_ALLOC1		2u
#define XA_FLAGS_LOCK_BH	0u
#define XA_FLAGS_ACCOUNT	0u
#define XA_LIMIT(low, high)	((struct xa_limit) { .max = (high), .min = (low) })
#define DEFINE_XARRAY_FLAGS(x, f)	struct xarray x = { { { .name = #x } }, (f), NULL }
#define xa_init_flags(xa, f)	do { spin_lock_init(&(xa)->xa_lock); (xa)->flags = (f); (xa)->map = NULL; } while (0)
#define xa_lock_bh(xa)		spin_lock_bh(&(xa)->xa_lock)
#define xa_unlock_bh(xa)	spin_unlock_bh(&(xa)->xa_lock)
void *xa_load(struct xarray *xa, unsigned long index);
void *xa_erase(struct xarray *xa, unsigned long index);
void xa_destroy(struct xarray *xa);
int xa_alloc_cyclic(struct xarray *xa, u32 *id, void *entry, struct xa_limit limit, u32 *next, gfp_t gfp);
int sim_xa_alloc(struct xarray *xa, u32 *id, void *entry, struct xa_limit limit, gfp_t gfp);
int sim_xa_insert(struct xarray *xa, unsigned long index, void *entry, gfp_t gfp);
void sim_xa_store(struct xarray *xa, unsigned long index, void *entry);
void *sim_xa_find(struct xarray *xa, unsigned long *index, bool after);

#define xa_with_lock(xa, call)	({ xa_lock_bh(xa); __typeof__(call) _r = (call); xa_unlock_bh(xa); _r; })
#define xa_erase_bh(xa, index)	xa_with_lock(xa, xa_erase(xa, index))
#define xa_alloc_bh(xa, id, entry, limit, gfp)	xa_with_lock(xa, sim_xa_alloc(xa, id, entry, limit, gfp))
#define xa_alloc_cyclic_bh(xa, id, entry, limit, next, gfp)	\
	xa_with_lock(xa, xa_alloc_cyclic(xa, id, entry, limit, next, gfp))
#define xa_insert_bh(xa, index, entry, gfp)	xa_with_lock(xa, sim_xa_insert(xa, index, entry, gfp))
#define xa_store(xa, index, entry, gfp)	sim_xa_store(xa, index, entry)
#define xa_store_bh(xa, index, entry, gfp)	\
	do { xa_lock_bh(xa); sim_xa_store(xa, index, entry); xa_unlock_bh(xa); } while (0)
#define xa_for_each(xa, index, entry)	\
	for (index = 0, entry = sim_xa_find(xa, &index, false); entry; entry = sim_xa_find(xa, &index, true))

/* Trees, which are not balanced here */
struct rb_node {
	struct rb_node *parent, *rb_left, *rb_right;
};

struct rb_root {
	struct rb_node *rb_node;
};

#define RB_ROOT			((struct rb_root) { NULL })
#define RB_CLEAR_NODE(node)	((node)->parent = (node))
#define RB_EMPTY_NODE(node)	((node)->parent == (node))
#define rb_entry(node, type, member)	container_of(node, type, member)
#define rb_insert_color(node, root)	do { } while (0)
void rb_link_node(struct rb_node *node, struct rb_node *parent, struct rb_node **place);
void rb_erase(struct rb_node *node, struct rb_root *root);

/* Trees of intervals: any order that is the same everywhere (table.cpp) */
struct rb_root_cached {
	void *intervals;
};

struct interval_tree_node {
	unsigned long start, last;
	u64 order;
	struct rb_root_cached *root;
};

#define RB_ROOT_CACHED		((struct rb_root_cached) { NULL })
void interval_tree_insert(struct interval_tree_node *node, struct rb_root_cached *root);
void interval_tree_remove(struct interval_tree_node *node, struct rb_root_cached *root);
struct interval_tree_node *interval_tree_iter_first(struct rb_root_cached *root, unsigned long start, unsigned long last);
struct interval_tree_node *interval_tree_iter_next(struct interval_tree_node *node, unsigned long start,
						   unsigned long last);

/* Hash tables */
struct rhash_head {
	struct rhash_head *next;
};

struct rhashtable_params {
	u16 head_offset, key_offset, key_len;
	bool automatic_shrinking;
};

struct rhashtable {
	struct rhashtable_params params;
	u32 count;
	struct rhash_head **bucket;
};

int rhashtable_init(struct rhashtable *table, const struct rhashtable_params *params);
void rhashtable_destroy(struct rhashtable *table);
int sim_rhash_insert(struct rhashtable *table, struct rhash_head *head);
int sim_rhash_remove(struct rhashtable *table, struct rhash_head *head);
void *sim_rhash_find(struct rhashtable *table, const void *key);
#define rhashtable_insert_fast(table, head, params)	((void)(params), sim_rhash_insert(table, head))
#define rhashtable_remove_fast(table, head, params)	((void)(params), sim_rhash_remove(table, head))
#define rhashtable_lookup_fast(table, key, params)	((void)(params), sim_rhash_find(table, key))
#define rhashtable_lookup	rhashtable_lookup_fast

/* Hashes: any will do, as long as it is the same everywhere */
u32 jhash(const void *key, u32 length, u32 seed);
u32 jhash_3words(u32 a, u32 b, u32 c, u32 seed);
typedef struct {
	u64 key[2];
} siphash_key_t;
u64 siphash_2u64(u64 a, u64 b, const siphash_key_t *key);

/* Randomness, from the seed */
u64 get_random_u64(void);
u32 get_random_u32(void);
void get_random_bytes(void *to, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif /* SIM_TABLE_H */
