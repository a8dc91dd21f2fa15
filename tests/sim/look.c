// SPDX-License-Identifier: GPL-2.0-only
/*
 * See look.h.
 */
#include "look.h"
#include "drive.h"
#include "flow.h"
#include "path.h"
#include "shim.h"
#include "transport/mr.h"

static struct ibr_path *path_of(u32 node, u32 peer, u32 mode)
{
	struct ibr_path *path;
	u32 i;

	for (i = 0; (path = sim_path(i)); i++)
		if (path->key.mode == mode && !path->removed && sim_node_of_gid(path->key.local_gid) == (int)node &&
		    sim_node_of_gid(path->key.remote_gid) == (int)peer)
			return path;
	return NULL;
}

static void look_send(const struct ibr_send *send, struct sim_look *look)
{
	look->sends++;
	look->announced += send->h.id != 0;
	look->sender_pins |= send->umem_busy;
	look->asked_for += send->windows;
	look->sent = send->windows ? send->window[0].offset : send->offset;
}

static void look_transfer(const struct ibr_transfer *transfer, struct sim_look *look)
{
	const struct ibr_window *window;
	u64 arrived = transfer->asked;
	u32 i;

	look->transfers++;
	look->receiver_pins |= transfer->umem_busy;
	look->asked = transfer->asked;
	look->want = transfer->want;
	for (i = 0; i < IBR_WINDOWS; i++) {
		window = &transfer->window[i];
		look->opening += window->state == IBR_WINDOW_OPENING;
		look->closing += window->state == IBR_WINDOW_CLOSING;
		if (window->state == IBR_WINDOW_OPENING || window->state == IBR_WINDOW_OPEN)
			arrived -= min(window->length, window->missing * transfer->unit);
		if (window->state != IBR_WINDOW_OPEN)
			continue;
		look->open++;
		look->missing += window->missing;
		look->touched |= window->missing < DIV_ROUND_UP(window->length, transfer->unit);
	}
	look->arrived_least = look->transfers == 1 ? arrived : min(look->arrived_least, arrived);
	look->arrived_most = max(look->arrived_most, arrived);
}

void sim_look_at(u32 sender, u32 receiver, u32 mode, struct sim_look *look)
{
	const struct ibr_path *path = path_of(sender, receiver, mode), *back = path_of(receiver, sender, mode);
	const struct ibr_transfer *transfer;
	const struct ibr_outflow *out;
	const struct ibr_inflow *in;
	const struct ibr_send *send;
	u32 cause, name;

	memset(look, 0, sizeof(*look));
	if (path) {
		look->up = path->state == IBRELK_PATH_UP;
		look->rendezvous = path->counters.tx_rendezvous;
		look->lives = path->counters.lives;
		look->timeouts = path->rel.stats.timeouts;
		for (cause = 0; cause < REL_CAUSES; cause++)
			look->lost += path->rel.stats.lost[cause];
		look->queue = path->queue;
		look->fixed = path->rel.config.congestion == &rel_congestion_fixed;
		look->target_us = path->rel.config.target_us;
		look->packet_max = path->remote.packet_max;
		look->packets = path->rel.sender.next + path->rel.sender.unreliable_next - 2 * IBR_COUNTERS_START;
		list_for_each_entry(out, &path->outflows, on_path) {
			list_for_each_entry(send, &out->queue, link)
				look_send(send, look);
			list_for_each_entry(send, &out->sent, link)
				look_send(send, look);
		}
	}
	if (!back)
		return;
	look->copied = back->counters.windows_copied;
	look->written = back->counters.rx_written;
	for (name = 0; name < WIRE_CTS_NAMES; name++)
		look->fenced += back->written[name] && back->written[name]->state == IBR_WINDOW_FENCED;
	list_for_each_entry(in, &back->inflows, on_path) {
		look->waiting += in->headers_waiting;
		list_for_each_entry(transfer, &in->transfers, link)
			look_transfer(transfer, look);
	}
}

/* ---- regions that are in use: each one that was opened is closed once ---- */

static u32 regions_open;

struct ibr_mr *__real_ibr_mr_open(struct ibr_device *device, struct page **pages, u32 place, u32 length,
				  const struct ibr_mr_ops *ops, void *context);
struct ibr_mr *__wrap_ibr_mr_open(struct ibr_device *device, struct page **pages, u32 place, u32 length,
				  const struct ibr_mr_ops *ops, void *context);
void __real_ibr_mr_close(struct ibr_mr *mr);
void __wrap_ibr_mr_close(struct ibr_mr *mr);

struct ibr_mr *__wrap_ibr_mr_open(struct ibr_device *device, struct page **pages, u32 place, u32 length,
				  const struct ibr_mr_ops *ops, void *context)
{
	struct ibr_mr *mr = __real_ibr_mr_open(device, pages, place, length, ops, context);

	regions_open += !!mr;
	return mr;
}

void __wrap_ibr_mr_close(struct ibr_mr *mr)
{
	regions_open--;
	__real_ibr_mr_close(mr);
}

void sim_look_idle(void)
{
	const struct ibr_handle *handle;
	struct ibr_path *path;
	unsigned long id;
	u32 i, k;

	if (regions_open)
		sim_fail("left", "%u regions are open", regions_open);
	for (i = 0; (path = sim_path(i)); i++) {
		for (k = 0; k < WIRE_CTS_NAMES; k++)
			if (path->written[k])
				sim_fail("left", "a window has name %u", k);
		xa_for_each(&path->handles, id, handle)
			if (handle->type == IBR_HANDLE_SEND || handle->type == IBR_HANDLE_TRANSFER)
				sim_fail("left", "a %s has handle %lu",
					 handle->type == IBR_HANDLE_SEND ? "send" : "transfer", id);
		if (!list_empty(&path->bulk))
			sim_fail("left", "a send is in the list of those that fill windows");
	}
}

void sim_give_up(u32 node, u32 peer, u32 mode, int error)
{
	struct ibr_path *path = path_of(node, peer, mode);

	if (!path)
		return;
	spin_lock_bh(&path->lock);
	path->now = ktime_get_ns();
	ibr_path_give_up(path, error);
	ibr_path_drive_locked(path);
	spin_unlock_bh(&path->lock);
}

void sim_forge_requests(u32 node, u32 peer, u32 mode, u32 count)
{
	struct wire_frame open = { .type = WIRE_FRAME_FLOW_OPEN, .open.dst_endpoint = cpu_to_le32(U32_MAX) };
	struct ibr_path *path = path_of(node, peer, mode);

	spin_lock_bh(&path->lock);
	while (count--)
		ibr_flow_handle_control(path, &open, NULL);
	spin_unlock_bh(&path->lock);
}

void sim_forge_inflows(u32 node, u32 peer, u32 mode, s32 own, s32 others)
{
	struct ibr_path *path = path_of(node, peer, mode);

	spin_lock_bh(&path->lock);
	list_first_entry(&path->inflows, struct ibr_inflow, on_path)->share->inflows += own;
	path->inflow_count += own + others;
	spin_unlock_bh(&path->lock);
}

void sim_forge_openings(u32 node, u32 peer, u32 mode, s32 own, s32 others)
{
	struct ibr_path *path = path_of(node, peer, mode);

	spin_lock_bh(&path->lock);
	list_first_entry(&path->shares, struct ibr_share, node)->openings += own;
	path->opening_count += own + others;
	spin_unlock_bh(&path->lock);
}

void sim_forge_peers(struct ibr_endpoint *endpoint, s32 more)
{
	spin_lock_bh(&endpoint->lock);
	endpoint->flow_count += more;
	spin_unlock_bh(&endpoint->lock);
}

void sim_forge_overlap(u32 node, u32 peer, u32 mode, u64 tag)
{
	struct wire_frame frame = { .type = WIRE_FRAME_EAGER, .payload_len = cpu_to_le16(4000),
				    .eager.length = cpu_to_le32(8000), .eager.tag = cpu_to_le64(tag) };
	struct ibr_path *path = path_of(node, peer, mode);
	struct ibr_inflow *flow;
	u8 payload[4000];

	memset(payload, 0x55, sizeof(payload));
	spin_lock_bh(&path->lock);
	flow = list_first_entry(&path->inflows, struct ibr_inflow, on_path);
	frame.flow = cpu_to_le32(flow->h.id);
	frame.eager.sequence = cpu_to_le32(flow->next);
	ibr_eager_receive(path, &frame, payload);
	frame.eager.offset = cpu_to_le32(125);
	ibr_eager_receive(path, &frame, payload);
	spin_unlock_bh(&path->lock);
}
