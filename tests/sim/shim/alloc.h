/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Memory: every allocation is counted, may be made to fail, and must be given back by the end of the run
 * (alloc.cpp).
 */
#ifndef SIM_ALLOC_H
#define SIM_ALLOC_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

#define GFP_ATOMIC		0x1u
#define GFP_KERNEL		0x2u		/* may sleep */
#define GFP_KERNEL_ACCOUNT	GFP_KERNEL
#define __GFP_ZERO		0x4u
#define __GFP_NOWARN		0x8u
#define __GFP_ACCOUNT		0x10u
#define NUMA_NO_NODE		(-1)
#define SLAB_HWCACHE_ALIGN	0

static inline bool gfpflags_allow_blocking(gfp_t gfp)
{
	return gfp & GFP_KERNEL;
}

void *sim_alloc(size_t size, gfp_t gfp, const char *who);
/* sim_pages() - whole pages, which are zero whoever asks */
void *sim_pages(size_t size, gfp_t gfp, const char *who);
void sim_free(const void *memory);
/* sim_alloc_refuse() - this allocation is to fail, for the sake of the run; also checks the context */
bool sim_alloc_refuse(gfp_t gfp);
/* sim_alloc_turn() - the same for what is no allocation, but may fail like one: it counts only for sim_alloc_nth */
bool sim_alloc_turn(void);
/* sim_alloc_nth - so many from now on, this one fails, whatever it is; 0: none does, or it has */
extern unsigned long long sim_alloc_nth;
/* sim_alloc_calm - above 0: nothing is refused */
extern int sim_alloc_calm;

#define SIM_WHO			__FILE__ ":" SIM_STR(__LINE__)
#define SIM_STR(x)		SIM_STR2(x)
#define SIM_STR2(x)		#x
#define kmalloc(size, gfp)	sim_alloc(size, gfp, SIM_WHO)
#define kzalloc(size, gfp)	sim_alloc(size, (gfp) | __GFP_ZERO, SIM_WHO)
#define kcalloc(n, size, gfp)	sim_alloc((size_t)(n) * (size), (gfp) | __GFP_ZERO, SIM_WHO)
#define kvzalloc		kzalloc
#define kvmalloc		kmalloc
#define kvcalloc		kcalloc
#define kvmalloc_array(n, size, gfp)	sim_alloc((size_t)(n) * (size), gfp, SIM_WHO)
#define kmalloc_array(n, size, gfp)	sim_alloc((size_t)(n) * (size), gfp, SIM_WHO)
#define __vmalloc(size, gfp)	sim_alloc(size, gfp, SIM_WHO)
#define kfree(p)		sim_free(p)
#define kvfree(p)		sim_free(p)
#define vfree(p)		sim_free(p)
#define get_order(size)		((int)fls64(((size) - 1) >> PAGE_SHIFT))
#define __get_free_pages(gfp, order)	((unsigned long)sim_pages(PAGE_SIZE << (order), gfp, SIM_WHO))
#define free_pages(p, order)	sim_free((void *)(p))

static inline void *kmemdup(const void *from, size_t size, gfp_t gfp)
{
	void *to = kmalloc(size, gfp);

	return to ? memcpy(to, from, size) : NULL;
}

/* Caches. With a constructor, what was freed comes back as it was left. */
struct kmem_cache;
struct kmem_cache *kmem_cache_create(const char *name, unsigned int size, unsigned int align, unsigned int flags,
				     void (*construct)(void *));
#define kmem_cache_create_usercopy(name, size, align, flags, from, bytes, construct)	\
	kmem_cache_create(name, size, align, flags, construct)
#define KMEM_CACHE(type, flags)	kmem_cache_create(#type, sizeof(struct type), 0, flags, NULL)
void *kmem_cache_alloc(struct kmem_cache *cache, gfp_t gfp);
#define kmem_cache_zalloc(cache, gfp)	kmem_cache_alloc(cache, (gfp) | __GFP_ZERO)
void kmem_cache_free(struct kmem_cache *cache, void *object);
void kmem_cache_destroy(struct kmem_cache *cache);

typedef struct mempool {
	int min_nr;
	int curr_nr;
	void **elements;
	struct kmem_cache *cache;
} mempool_t;

mempool_t *mempool_create_slab_pool(int min_nr, struct kmem_cache *cache);
void *mempool_alloc(mempool_t *pool, gfp_t gfp);
void mempool_free(void *element, mempool_t *pool);
void mempool_destroy(mempool_t *pool);

/* genalloc: in granules, found by the user's function; freeing needs the size that was asked for */
struct gen_pool;
typedef unsigned long (*genpool_algo_t)(unsigned long *map, unsigned long granules, unsigned long start,
					unsigned int count, void *data, struct gen_pool *pool, unsigned long memory);
struct gen_pool *gen_pool_create(int order, int node);
void gen_pool_set_algo(struct gen_pool *pool, genpool_algo_t find, void *data);
int gen_pool_add(struct gen_pool *pool, unsigned long start, size_t bytes, int node);
unsigned long gen_pool_alloc(struct gen_pool *pool, size_t bytes);
void gen_pool_free(struct gen_pool *pool, unsigned long start, size_t bytes);
void gen_pool_destroy(struct gen_pool *pool);

/* One processor */
#define DEFINE_PER_CPU(type, name)	type name
#define raw_cpu_ptr(p)		(p)
#define per_cpu_ptr(p, cpu)	((void)(cpu), (p))
#define for_each_possible_cpu(cpu)	for ((cpu) = 0; (cpu) < 1; (cpu)++)
#define raw_smp_processor_id()	0

#ifdef __cplusplus
}
#endif

#endif /* SIM_ALLOC_H */
