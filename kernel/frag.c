// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory of fragments. Two sizes cover everything: frames without or with little payload, and full
 * packets. A small reserve keeps control frames going when memory is short.
 */
#include <linux/mempool.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "flow.h"
#include "frag.h"

#define FRAG_RESERVE	(4 * IBR_FRAG_BATCH)

static struct kmem_cache *small_cache;
static struct kmem_cache *full_cache;
static mempool_t *reserve;

static void frag_setup(struct ibr_frag *frag)
{
	refcount_set(&frag->ref, 1);
	frag->payload_len = 0;
	frag->embedded = false;
	frag->control = false;
	frag->repeated = false;
	frag->written = false;
	frag->small = false;
	INIT_LIST_HEAD(&frag->link);
	frag->next = NULL;
	frag->send = NULL;
	frag->answers = NULL;
	frag->fence = 0;
	frag->payload = frag->inline_payload;
	memset(&frag->frame, 0, sizeof(frag->frame));
}

static struct ibr_frag *frag_alloc(struct kmem_cache *cache, mempool_t *otherwise)
{
	struct ibr_frag *frag = NULL;

	if (!ibr_alloc_fails())
		frag = kmem_cache_alloc(cache, GFP_ATOMIC | __GFP_NOWARN);
	if (!frag && otherwise)
		frag = mempool_alloc(otherwise, GFP_ATOMIC);
	if (!frag)
		return NULL;
	frag_setup(frag);
	frag->small = cache == small_cache;
	return frag;
}

struct ibr_frag *ibr_frag_alloc(u32 payload)
{
	return payload <= IBR_FRAG_SMALL ? frag_alloc(small_cache, reserve) : frag_alloc(full_cache, NULL);
}

struct ibr_frag *ibr_frag_alloc_bulk(void)
{
	return frag_alloc(small_cache, NULL);
}

void ibr_frag_refill(void)
{
	struct ibr_frag *frag;

	might_sleep();
	while (READ_ONCE(reserve->curr_nr) < FRAG_RESERVE / 2) {
		frag = kmem_cache_alloc(small_cache, GFP_KERNEL);
		if (!frag)
			return;
		mempool_free(frag, reserve);
	}
}

void ibr_frag_setup(struct ibr_frag *frag, struct ibr_send *send)
{
	frag_setup(frag);
	frag->embedded = true;
	ibr_send_get(send);
	frag->send = send;
	frag->payload = NULL;
}

void ibr_frag_get(struct ibr_frag *frag)
{
	refcount_inc(&frag->ref);
}

void ibr_frag_put(struct ibr_frag *frag)
{
	struct ibr_send *send;

	if (!refcount_dec_and_test(&frag->ref))
		return;
	send = frag->send;
	if (frag->embedded)
		; /* its memory goes with the send's last reference */
	else if (frag->small)
		mempool_free(frag, reserve);
	else
		kmem_cache_free(full_cache, frag);
	if (send)
		ibr_send_put(send);
}

/* Memory with a constructor is not zeroed at each allocation, which for a full packet costs more than its copy. */
static void frag_construct(void *frag)
{
	memset(frag, 0, sizeof(struct ibr_frag));
}

int ibr_frag_init(void)
{
	small_cache = kmem_cache_create("ibrelk_frag_small",
					sizeof(struct ibr_frag) + IBR_FRAG_SMALL, 0, 0, NULL);
	full_cache = kmem_cache_create("ibrelk_frag_full",
				       sizeof(struct ibr_frag) + IBR_FRAG_PAYLOAD_MAX, 0, 0,
				       frag_construct);
	if (!small_cache || !full_cache)
		goto err;
	reserve = mempool_create_slab_pool(FRAG_RESERVE, small_cache);
	if (!reserve)
		goto err;
	return 0;
err:
	ibr_frag_exit();
	return -ENOMEM;
}

void ibr_frag_exit(void)
{
	mempool_destroy(reserve);
	kmem_cache_destroy(full_cache);
	kmem_cache_destroy(small_cache);
	reserve = NULL;
	full_cache = NULL;
	small_cache = NULL;
}
