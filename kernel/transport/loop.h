/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The loop transport's fault hook, for tests: what happens to a packet on its way round.
 */
#ifndef IBR_LOOP_H
#define IBR_LOOP_H

#include <linux/types.h>

struct ibr_path;

/** enum ibr_loop_fault - see ibr_loop_set_hook() */
enum ibr_loop_fault {
	IBR_LOOP_PASS,
	IBR_LOOP_DROP,
	IBR_LOOP_DUPLICATE,
	IBR_LOOP_HOLD,		/* deliver it after the next packet */
};

/**
 * ibr_loop_set_hook() - install a fault hook, or NULL
 * @hook: called for each packet, which it may change, in softirq with no locks held; returns its fate
 */
void ibr_loop_set_hook(enum ibr_loop_fault (*hook)(struct ibr_path *path, void *packet, u32 length));

#endif /* IBR_LOOP_H */
