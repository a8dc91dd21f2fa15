// SPDX-License-Identifier: GPL-2.0-only
/*
 * Statistics, as IBRELK_IOC_DUMP hands them out.
 */
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "device.h"
#include "endpoint.h"
#include "path.h"
#include "transport/transport.h"

#define ENTRIES_MAX	65536

/* The engine keeps its own counts, of one life; they are added to those of former lives. */
void ibr_path_add_engine(const struct ibr_path *path, struct ibrelk_counters *counters)
{
	const struct rel_stats *stats = &path->rel.stats;

	counters->tx_acks_explicit += stats->acks_explicit;
	counters->tx_acks_piggybacked += stats->acks_piggybacked;
	counters->tx_acks_credit += stats->acks_credit;
	counters->rx_acks_explicit += stats->acks_received;
	counters->window_cuts += stats->window_cuts;
	counters->retransmits_rack += stats->lost[REL_LOST_RACK];
	counters->retransmits_probe += stats->lost[REL_LOST_PROBE];
	counters->retransmits_timeout += stats->lost[REL_LOST_TIMEOUT] + stats->lost[REL_LOST_RESET];
}

void ibr_path_info(struct ibr_path *path, struct ibrelk_path_info *info)
{
	memset(info, 0, sizeof(*info));
	memcpy(info->local_gid, path->key.local_gid, sizeof(info->local_gid));
	memcpy(info->remote_gid, path->key.remote_gid, sizeof(info->remote_gid));
	info->mode = path->key.mode;
	if (path->transport == &ibr_transport_loop)
		strscpy(info->device, "loop", sizeof(info->device));
	else
		ibr_device_describe(path->key.local_gid, info->device, &info->port, &info->mtu);

	spin_lock_bh(&path->lock);
	memcpy(info->instance, path->remote.instance, sizeof(info->instance));
	info->state = path->state;
	info->error = path->error;
	info->queue = path->queue;
	info->queue_max = path->queue_peak;
	info->flows = path->flow_count;
	info->memory_bytes = path->memory;
	info->memory_bytes_max = path->memory_peak;
	info->counters = path->counters;
	info->lane = !!path->lane.qp;
	if (path->established) {
		info->srtt_us = path->rel.rtt.srtt_ns / NSEC_PER_USEC;
		info->rttvar_us = path->rel.rtt.var_ns / NSEC_PER_USEC;
		info->rttmin_us = path->rel.rtt.min_ns / NSEC_PER_USEC;
		info->rto_us = path->rel.rtt.rto_ns / NSEC_PER_USEC;
		info->window = DIV_ROUND_UP(rel_window_256(&path->rel), 256);
		info->in_flight = rel_in_flight(&path->rel);
		ibr_path_add_engine(path, &info->counters);
	}
	spin_unlock_bh(&path->lock);
}

static u32 dump_count(u32 kind)
{
	switch (kind) {
	case IBRELK_DUMP_ENDPOINTS:
		return ibr_endpoints_dump(NULL, 0);
	case IBRELK_DUMP_PATHS:
		return ibr_paths_dump(NULL, 0);
	default:
		return ibr_device_dump(NULL, 0);
	}
}

static u32 dump_fill(u32 kind, void *buffer, u32 max)
{
	switch (kind) {
	case IBRELK_DUMP_ENDPOINTS:
		return ibr_endpoints_dump(buffer, max);
	case IBRELK_DUMP_PATHS:
		return ibr_paths_dump(buffer, max);
	default:
		return ibr_device_dump(buffer, max);
	}
}

int ibr_stats_dump(struct ibrelk_dump *dump)
{
	static const size_t sizes[] = {
		[IBRELK_DUMP_ENDPOINTS] = sizeof(struct ibrelk_endpoint_info),
		[IBRELK_DUMP_PATHS] = sizeof(struct ibrelk_path_info),
		[IBRELK_DUMP_PORTS] = sizeof(struct ibrelk_port_info),
	};
	u32 max, filled, i;
	size_t size, copy;
	u8 *entries;
	int ret = 0;

	if (dump->kind < IBRELK_DUMP_ENDPOINTS || dump->kind > IBRELK_DUMP_PORTS || dump->flags ||
	    dump->reserved || !dump->entry_bytes || dump->entry_bytes > PAGE_SIZE)
		return -EINVAL;
	size = sizes[dump->kind];
	copy = min_t(size_t, size, dump->entry_bytes);
	max = min3(dump->entries, dump_count(dump->kind), (u32)ENTRIES_MAX);
	entries = kvcalloc(max ?: 1, size, GFP_KERNEL_ACCOUNT);
	if (!entries)
		return -ENOMEM;
	dump->total = dump_fill(dump->kind, entries, max);
	filled = min(dump->total, max);
	for (i = 0; i < filled && !ret; i++) {
		void __user *to = u64_to_user_ptr(dump->buffer + (u64)i * dump->entry_bytes);

		/* An entry that the caller believes to be longer is filled up with zeroes. */
		if (copy_to_user(to, entries + i * size, copy) ||
		    clear_user(to + copy, dump->entry_bytes - copy))
			ret = -EFAULT;
	}
	kvfree(entries);
	dump->entries = filled;
	return ret;
}
