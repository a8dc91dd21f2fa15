/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Memory regions: stretches of pinned pages that a peer may write to by RDMA, each under a key of its own that is
 * never given out again.
 *
 * UC queue pairs cannot register memory, and user-space-like registration would pin the pages once more. So each
 * device has a reliable queue pair that is connected to itself, sends nothing, and only registers
 * (IB_WR_REG_MR). Regions are made beforehand. One that was used is not invalidated and used again: some
 * adapters check a key once and then write for a while, and their keys repeat. Deregistering waits for whatever
 * still writes (IBTA 10.6.7.2.6), and what is made instead has another key.
 */
#ifndef IBR_MR_H
#define IBR_MR_H

#include <linux/types.h>

struct ib_device;
struct ibr_device;
struct ibr_mr;
struct ibr_mrs;
struct page;

#define IBR_MR_MAX	(512u << 10)	/* bytes of a region */

/**
 * struct ibr_mr_ops - what becomes of a region; each is called once
 * @opened: it can be written to, or (@error, negative errno) cannot; either way it has to be closed. Context: softirq
 *	or process, no locks of ours
 * @closed: nothing will be written any more, and @mr is gone. Context: process, no locks
 */
struct ibr_mr_ops {
	void (*opened)(void *context, int error);
	void (*closed)(void *context);
};

/**
 * ibr_mr_open() - let a peer write to some memory
 * @device: by which; the region holds a reference to it
 * @pages: pinned, and so until it is closed
 * @place: of the first byte, from the start of the first page
 * @length: bytes, at most IBR_MR_MAX
 * @ops: told when it is open; maybe before this returns
 * @context: for @ops
 *
 * Return: region; or NULL: the device cannot, has none left, or is being removed. Context: any but hardirq.
 */
struct ibr_mr *ibr_mr_open(struct ibr_device *device, struct page **pages, u32 place, u32 length,
			   const struct ibr_mr_ops *ops, void *context);
/** ibr_mr_key() - what the peer needs, valid from opened() on: the key, and the address of the first byte */
u32 ibr_mr_key(const struct ibr_mr *mr, u64 *address);
/** ibr_mr_close() - after opened(). Context: any but hardirq */
void ibr_mr_close(struct ibr_mr *mr);

/** ibr_mrs_create() - for a device that is taken up. Return: NULL: it cannot register memory so. Context: process */
struct ibr_mrs *ibr_mrs_create(struct ibr_device *device);
/** ibr_mrs_stop() - the device goes: who waits for a region is told so; NULL is fine. Context: process */
void ibr_mrs_stop(struct ibr_mrs *mrs);
/** ibr_mrs_destroy() - nobody uses any region; NULL is fine. Context: process */
void ibr_mrs_destroy(struct ibr_mrs *mrs);

int ibr_mr_init(void);
void ibr_mr_exit(void);

#endif /* IBR_MR_H */
