// SPDX-License-Identifier: GPL-2.0-only
/*
 * Rendezvous: RTS and receive have met, the receiver asks by CTS for one window after the other (each
 * resident in pinned memory), the sender cuts it into fragments, the receiver ticks them off, and FIN
 * ends it. Some windows are under way at a time, so that preparing the next one overlaps with the data
 * of the last.
 *
 *	sender				receiver
 *	RTS(message) ------------------>  match
 *	    <---------- CTS(window 0 to 3)
 *	WRITE, DATA ... --------------->  tick off
 *	    <---------- CTS(window 4)     when window 0 is complete, and closed
 *	    <---------- FIN               when all are
 *
 * Where both ends have a queue pair that can, the receiver registers a window before he asks for it, and the
 * sender writes the fragments straight from his user's pages into the receiver's. One that is lost goes
 * again as a packet, and is copied; so do those that cannot be written for any other reason, at any time. A
 * window counts as done only when its region is closed, and nothing can write to it any more; so the
 * receive does not complete before, whatever is still under way in the network.
 *
 * What is written to a region that is closed is dropped; but over a reliable connection it ends that, with all that is
 * on it. There a transfer that is given up first tells its sender, by a FIN that is a fence: the sender writes no more
 * from when he has it, and what he has written comes before the ACK of it, by which the regions are closed.
 */
#include <linux/module.h>
#include <linux/slab.h>

#include "drive.h"
#include "flow.h"
#include "transport/mr.h"
#include "transport/transport.h"
#include "transport/verbs.h"

static unsigned int zero_copy_min = 131072;
module_param(zero_copy_min, uint, 0644);
MODULE_PARM_DESC(zero_copy_min, "shortest window that is registered, so that it can be written without a copy, bytes; 0: none is");

/* ---- the receiver -------------------------------------------------------------------------- */

static void transfer_progress(struct ibr_transfer *transfer);

static void transfer_fin(struct ibr_inflow *flow, u32 message, int error, u64 length, u32 fence)
{
	struct wire_frame frame = {
		.type = WIRE_FRAME_FIN,
		.flow = cpu_to_le32(message),
		.fin.status = cpu_to_le32(-error),
		.fin.length = cpu_to_le64(length),
	};

	ibr_inflow_answer(flow, &frame, fence);
}

static void transfer_result(const struct ibr_transfer *transfer, int status, struct ibr_recv_result *result)
{
	result->status = status;
	result->source = transfer->flow->contact;
	result->length = transfer->length;
	result->tag = transfer->tag;
	result->immediate = transfer->immediate;
	result->wire_flags = transfer->wire_flags;
}

/* A dying transfer: if nothing refers to it any more, and nothing can write for it, complete the receive. */
static void transfer_finish(struct ibr_transfer *transfer)
{
	struct ibr_inflow *flow = transfer->flow;
	struct ibr_recv_result result;
	u32 i;

	if (transfer->umem_busy)
		return;
	for (i = 0; i < IBR_WINDOWS; i++)
		if (transfer->window[i].state != IBR_WINDOW_FREE)
			return;
	transfer_result(transfer, transfer->error, &result);
	transfer->recv->transfer = NULL;
	ibr_recv_complete(transfer->recv, &result);
	if (transfer->header)
		ibr_inflow_return_header(flow);
	ibr_inflow_put(flow);
	kfree(transfer);
}

/* No more is expected of the window. It is free at once, or when nothing can write to it any more. */
static void window_close(struct ibr_window *window)
{
	window->state = window->mr ? IBR_WINDOW_CLOSING : IBR_WINDOW_FREE;
	if (window->mr)
		ibr_mr_close(window->mr);
}

/*
 * If the peer's writes have to be awaited, when the transfer is given up, the number of the FIN that asks for that;
 * else 0: nothing is written to it. A connection that breaks is made anew, and the peer goes on by what it was told:
 * it has to know in any case, as long as this life lasts.
 */
static u32 transfer_fence(struct ibr_transfer *transfer)
{
	struct ibr_path *path = transfer->flow->path;
	u32 i;

	if (!path->transport->late_write_breaks || !path->established)
		return 0;
	for (i = 0; i < IBR_WINDOWS; i++)
		if (transfer->window[i].state == IBR_WINDOW_OPEN && transfer->window[i].name)
			break;
	if (i == IBR_WINDOWS)
		return 0;
	path->fence = path->fence + 1 ?: 1;
	transfer->fence = path->fence;
	return transfer->fence;
}

/* @fence: what the peer was told by transfer_fence(); 0: nothing */
static void transfer_end(struct ibr_transfer *transfer, int error, u32 fence)
{
	struct ibr_send *ask = transfer->recv->ask;
	u32 i;

	transfer->dying = true;
	transfer->error = error;
	list_del_init(&transfer->link);
	if (ask) {
		/* It has its answer; the user is told when the receive is complete. */
		ask->fetch = NULL;
		ibr_send_retire(ask, 0);
	}
	ibr_handle_remove(transfer->flow->path, &transfer->h);
	for (i = 0; i < IBR_WINDOWS; i++) {
		struct ibr_window *window = &transfer->window[i];

		if (window->state == IBR_WINDOW_OPEN && window->name && fence)
			window->state = IBR_WINDOW_FENCED;
		else if (window->state == IBR_WINDOW_OPEN)
			window_close(window);
	}
	transfer_finish(transfer);
}

/* Give it up. @tell: say so in any case, and not only if the peer's writes have to be awaited */
static void transfer_give_up(struct ibr_transfer *transfer, int error, bool tell)
{
	u32 fence = transfer_fence(transfer);

	if (tell || fence)
		transfer_fin(transfer->flow, transfer->message, error, 0, fence);
	transfer_end(transfer, error, fence);
}

void ibr_transfer_abort(struct ibr_transfer *transfer, int error, bool known)
{
	lockdep_assert_held(&transfer->flow->path->lock);
	if (transfer->dying)
		return;
	if (known)
		transfer_end(transfer, error, 0);
	else
		transfer_give_up(transfer, error, false);
}

void ibr_transfer_revoke(struct ibr_transfer *transfer)
{
	lockdep_assert_held(&transfer->flow->path->lock);
	if (!transfer->dying)
		transfer_give_up(transfer, -EACCES, true);
}

void ibr_windows_fenced(struct ibr_path *path, u32 fence)
{
	struct ibr_window *window;
	u32 i;

	lockdep_assert_held(&path->lock);
	for (i = 0; i < WIRE_CTS_NAMES; i++) {
		window = path->written[i];
		if (window && window->state == IBR_WINDOW_FENCED && (!fence || window->transfer->fence == fence))
			window_close(window);
	}
}

static void window_cts(const struct ibr_window *window, struct wire_frame *frame)
{
	const struct ibr_transfer *transfer = window->transfer;
	u64 address;

	*frame = (struct wire_frame) {
		.type = WIRE_FRAME_CTS,
		.flags = window->name,
		.flow = cpu_to_le32(transfer->message),
		.cts.transfer = cpu_to_le32(transfer->h.id),
		.cts.offset = cpu_to_le64(window->offset),
		.cts.length = cpu_to_le32(window->length),
		.cts.unit = cpu_to_le32(transfer->unit),
	};
	if (window->name) {
		frame->cts.key = cpu_to_le32(ibr_mr_key(window->mr, &address));
		frame->cts.address = cpu_to_le64(address);
	}
}

/* The window is ready for the data. */
static void window_ask(struct ibr_window *window)
{
	struct ibr_path *path = window->transfer->flow->path;
	struct wire_frame frame;

	window->state = IBR_WINDOW_OPEN;
	window->since = rel_received(&path->rel, path->native ? REL_UNRELIABLE : REL_RELIABLE);
	window_cts(window, &frame);
	ibr_control_send(path, &frame);
}

/* A name by which the peer tells what it has written to; so no path has more regions than names. Return: it has one. */
static bool window_name(struct ibr_window *window)
{
	struct ibr_path *path = window->transfer->flow->path;
	u32 i;

	/* Each in its turn: the longer ago one was used, the less can still come of that. */
	for (i = 0; i < WIRE_CTS_NAMES; i++) {
		u32 name = path->written_next++ % WIRE_CTS_NAMES;

		if (path->written[name])
			continue;
		path->written[name] = window;
		window->name = WIRE_CTS_KEY | name;
		return true;
	}
	return false;
}

static void window_unname(struct ibr_window *window)
{
	if (window->name)
		window->transfer->flow->path->written[window->name & ~WIRE_CTS_KEY] = NULL;
	window->name = 0;
}

/* The region is there, or is not to be had: then the data is copied. */
static void window_opened(void *context, int error)
{
	struct ibr_window *window = context;
	struct ibr_path *path = window->transfer->flow->path;

	ibr_path_get(path);
	spin_lock_bh(&path->lock);
	if (error) {
		path->counters.windows_copied++;
		window_unname(window);
	}
	if (window->transfer->dying)
		window_close(window);
	else
		window_ask(window);
	ibr_path_drive_locked(path);
	spin_unlock_bh(&path->lock);
	ibr_path_put(path);
}

/*
 * The adapter writes nothing any more; but that it has written may still have to be told. It would be told of the next
 * window that has the name, which has not got what it says. Context: process.
 */
static void written_drain(struct ibr_path *path)
{
	struct ibr_qp *qp;

	spin_lock_bh(&path->lock);
	qp = path->transport->rdma(path);
	if (qp)
		ibr_qp_get(qp);
	spin_unlock_bh(&path->lock);
	if (!qp)
		return;
	ibr_qp_drain(qp);
	ibr_qp_put(qp);
}

static void window_closed(void *context)
{
	struct ibr_window *window = context;
	struct ibr_transfer *transfer = window->transfer;
	struct ibr_path *path = transfer->flow->path;

	ibr_path_get(path);
	written_drain(path);
	ibr_frag_refill();
	spin_lock_bh(&path->lock);
	/* Only now: as long as it could be written to, the name was needed to tell what had been. */
	window_unname(window);
	window->mr = NULL;
	window->state = IBR_WINDOW_FREE;
	if (transfer->dying)
		transfer_finish(transfer);
	else
		transfer_progress(transfer);
	ibr_path_drive_locked(path);
	spin_unlock_bh(&path->lock);
	ibr_path_put(path);
}

static const struct ibr_mr_ops window_ops = {
	.opened = window_opened,
	.closed = window_closed,
};

/* Let the peer write to the window, if he and his memory can, and it is worth it. Return: it will be open. */
static bool window_open(struct ibr_window *window)
{
	struct ibr_transfer *transfer = window->transfer;
	struct ibr_path *path = transfer->flow->path;
	u32 min_bytes = READ_ONCE(zero_copy_min);
	struct page **pages;
	struct ibr_qp *qp;
	u32 place;

	if (!min_bytes || window->length < min_bytes || !path->transport->rdma)
		return false;
	qp = path->transport->rdma(path);
	if (!qp || !qp->device->mrs)
		return false;
	window->state = IBR_WINDOW_OPENING;
	pages = ibr_umem_pages(&transfer->recv->umem, window->offset, window->length, &place);
	if (pages && window_name(window))
		window->mr = ibr_mr_open(qp->device, pages, place, window->length, &window_ops, window);
	if (!window->mr) {
		path->counters.windows_copied++;
		window_unname(window);
	}
	return window->mr;
}

/* Ask for as many windows as are free and resident; have the next ones pinned if they are not. */
static void transfer_ask(struct ibr_transfer *transfer)
{
	struct ibr_umem *umem = &transfer->recv->umem;
	struct ibr_window *window;
	u32 i, length;

	for (i = 0; i < IBR_WINDOWS && transfer->asked < transfer->want; i++) {
		window = &transfer->window[i];
		if (window->state != IBR_WINDOW_FREE)
			continue;
		/*
		 * Both ends keep no more than so much, from the oldest incomplete window on, in memory:
		 * whatever lies beyond could not become resident before that one is done.
		 */
		if (transfer->asked - transfer->done >= IBR_WINDOWS * (u64)transfer->window_bytes)
			return;
		length = min_t(u64, transfer->window_bytes, transfer->want - transfer->asked);
		if (transfer->umem_busy)
			return;
		if (ibr_umem_resident(umem, transfer->asked) < length) {
			transfer->umem_busy = true;
			ibr_umem_advance(umem, transfer->done);
			return;
		}
		window->offset = transfer->asked;
		window->length = length;
		window->missing = DIV_ROUND_UP(length, transfer->unit);
		bitmap_zero(window->got, IBR_UNITS_MAX);
		transfer->asked += length;
		if (!window_open(window))
			window_ask(window);
	}
}

/* A worker has made further windows resident, or failed to. Context: process. */
static void transfer_umem_ready(struct ibr_umem *umem)
{
	struct ibr_recv *recv = container_of(umem, struct ibr_recv, umem);
	struct ibr_transfer *transfer = recv->transfer;
	struct ibr_path *path = transfer->flow->path;

	ibr_frag_refill();
	ibr_path_get(path);
	spin_lock_bh(&path->lock);
	transfer->umem_busy = false;
	if (transfer->dying)
		transfer_finish(transfer);
	else if (umem->error)
		transfer_give_up(transfer, umem->error, true);
	else
		transfer_ask(transfer);
	ibr_path_drive_locked(path);
	spin_unlock_bh(&path->lock);
	ibr_path_put(path);
}

/*
 * The largest power-of-two part of a pinned window that a region can cover and a bitmap can describe: pinned
 * windows then consist of whole transfer windows.
 */
static u32 transfer_window_bytes(u32 unit)
{
	u32 bytes = IBR_MR_MAX;

	while (bytes > unit && DIV_ROUND_UP(bytes, unit) > IBR_UNITS_MAX)
		bytes /= 2;
	return bytes;
}

bool ibr_transfer_start(struct ibr_inflow *flow, const struct ibr_message *message, struct ibr_recv *recv)
{
	bool header = (message->wire_flags & (WIRE_MSG_REMOTE | WIRE_MSG_ANSWER)) == WIRE_MSG_REMOTE;
	struct ibr_path *path = flow->path;
	struct ibr_transfer *transfer = NULL;
	struct ibr_recv_result result;
	u32 i;

	lockdep_assert_held(&path->lock);
	ibr_message_result(message, -ECONNRESET, &result);
	if (flow->gone)
		goto fail;
	result.status = -ENOMEM;
	transfer = ibr_alloc_atomic(flow->endpoint->memcg, sizeof(*transfer));
	if (!transfer)
		goto fail_tell;
	memset(transfer, 0, sizeof(*transfer));
	transfer->message = message->rts_message;
	transfer->unit = path->payload_max;
	transfer->window_bytes = transfer_window_bytes(transfer->unit);
	transfer->length = message->length;
	transfer->want = min(message->length, recv->umem.length);
	transfer->tag = message->match.tag;
	transfer->immediate = message->immediate;
	transfer->wire_flags = message->wire_flags;
	transfer->header = header;
	transfer->recv = recv;
	for (i = 0; i < IBR_WINDOWS; i++)
		transfer->window[i].transfer = transfer;
	if (ibr_handle_add(path, &transfer->h, IBR_HANDLE_TRANSFER))
		goto fail_tell;
	ibr_inflow_get(flow);
	transfer->flow = flow;
	/* Nothing else of the buffer is going to be needed. */
	recv->umem.length = transfer->want;
	recv->transfer = transfer;
	if (recv->ask)
		recv->ask->fetch = transfer;
	recv->umem.ready = transfer_umem_ready;
	list_add_tail(&transfer->link, &flow->transfers);
	if (transfer->want) {
		transfer_ask(transfer);
	} else {
		/* An empty message, which came by RTS for want of credit, fits. */
		result.status = transfer->length ? -EMSGSIZE : 0;
		transfer_fin(flow, transfer->message, result.status, 0, 0);
		transfer_end(transfer, result.status, 0);
	}
	return header;

fail_tell:
	transfer_fin(flow, message->rts_message, result.status, 0, 0);
fail:
	kfree(transfer);
	ibr_recv_complete(recv, &result);
	return false;
}

void ibr_transfer_refuse_handle(struct ibr_inflow *flow, u32 handle, int error)
{
	lockdep_assert_held(&flow->path->lock);
	transfer_fin(flow, handle, error, 0, 0);
}

void ibr_transfer_refuse(struct ibr_inflow *flow, const struct ibr_message *message, int error)
{
	ibr_transfer_refuse_handle(flow, message->rts_message, error);
}

/* Which of the windows that were asked for contains @offset? */
static struct ibr_window *transfer_window(struct ibr_transfer *transfer, u64 offset)
{
	struct ibr_window *window;
	u32 i;

	for (i = 0; i < IBR_WINDOWS; i++) {
		window = &transfer->window[i];
		if (window->state == IBR_WINDOW_OPEN && offset >= window->offset &&
		    offset - window->offset < window->length)
			return window;
	}
	return NULL;
}

void ibr_transfer_tell(struct ibr_recv *recv, int error)
{
	struct ibr_inflow *flow = recv->tells;

	lockdep_assert_held(&flow->path->lock);
	recv->tells = NULL;
	transfer_fin(flow, recv->message, error, !error || error == -EMSGSIZE ? recv->umem.length : 0, 0);
	ibr_inflow_put(flow);
}

static void transfer_progress(struct ibr_transfer *transfer)
{
	int error = transfer->want < transfer->length ? -EMSGSIZE : 0;
	struct ibr_recv *recv = transfer->recv;
	u64 done = transfer->asked;
	u32 i;

	for (i = 0; i < IBR_WINDOWS; i++)
		if (transfer->window[i].state != IBR_WINDOW_FREE)
			done = min(done, transfer->window[i].offset);
	transfer->done = done;
	if (done < transfer->want) {
		transfer_ask(transfer);
		return;
	}
	/* Whoever completes the receive tells the sender the same: that it has reached nobody, too. */
	ibr_inflow_get(transfer->flow);
	recv->tells = transfer->flow;
	recv->message = transfer->message;
	transfer_end(transfer, error, 0);
}

static u32 window_unit_bytes(const struct ibr_window *window, u32 unit)
{
	u32 bytes = window->transfer->unit;

	return min(bytes, window->length - unit * bytes);
}

bool ibr_window_expects(const struct ibr_window *window, u32 unit, u32 bytes)
{
	return unit < DIV_ROUND_UP(window->length, window->transfer->unit) && bytes == window_unit_bytes(window, unit);
}

/* A fragment is in its place. */
static void window_got(struct ibr_window *window)
{
	if (--window->missing)
		return;
	window_close(window);
	if (window->state == IBR_WINDOW_FREE)
		transfer_progress(window->transfer);
}

void ibr_window_written(struct ibr_window *window, u32 unit)
{
	/* Else it has come as a packet, too. */
	if (window->state == IBR_WINDOW_OPEN && !__test_and_set_bit(unit, window->got))
		window_got(window);
}

static void transfer_data(struct ibr_path *path, struct ibr_transfer *transfer,
			  const struct wire_frame *frame, const void *payload)
{
	u64 offset = le64_to_cpu(frame->data.offset);
	u32 bytes = le16_to_cpu(frame->payload_len);
	struct ibr_window *window;
	u32 into, unit;

	window = transfer_window(transfer, offset);
	if (!window) {
		/* A repeat of something in a window that is complete by now. */
		path->counters.rx_duplicates++;
		return;
	}
	into = offset - window->offset;
	unit = into / transfer->unit;
	if (into % transfer->unit || bytes != window_unit_bytes(window, unit)) {
		path->counters.drop_malformed++;
		return;
	}
	if (__test_and_set_bit(unit, window->got)) {
		path->counters.rx_duplicates++;
		return;
	}
	ibr_umem_copy_to(&transfer->recv->umem, offset, payload, bytes);
	window_got(window);
}

/* Native modes: the sender has sent all of a window. What got lost of it is asked for again. */
static int transfer_window_end(struct ibr_transfer *transfer, u64 offset)
{
	struct ibr_window *window = transfer_window(transfer, offset);
	struct wire_frame frame;

	if (!window)
		return 0;
	/* What was written for the last time it was asked for has come, or is lost. */
	window->since = rel_received(&transfer->flow->path->rel, REL_UNRELIABLE);
	window_cts(window, &frame);
	return ibr_control_try(transfer->flow->path, &frame);
}

/* ---- the sender ---------------------------------------------------------------------------- */

static void send_abort_transfer(struct ibr_path *path, u32 transfer, int error)
{
	struct wire_frame frame = {
		.type = WIRE_FRAME_ABORT,
		.flow = cpu_to_le32(transfer),
		.abort.status = cpu_to_le32(-error),
	};

	ibr_control_send(path, &frame);
}

void ibr_send_tell_abort(struct ibr_send *send, int error)
{
	if (send->transfer)
		send_abort_transfer(send->flow->path, send->transfer, error);
	send->transfer = 0;
	send->windows = 0;
}

/*
 * Is there a window to be sent? One that was asked for ahead of another, whose CTS is still under way, waits
 * for that one.
 */
static bool send_window_wanted(const struct ibr_send *send)
{
	return send->windows && send->window[0].start < send->offset;
}

bool ibr_send_wanted(const struct ibr_send *send)
{
	return !list_empty(&send->redo) || send_window_wanted(send);
}

/* The first window is over. */
static void send_window_drop(struct ibr_send *send)
{
	send->windows--;
	memmove(&send->window[0], &send->window[1], send->windows * sizeof(send->window[0]));
}

/*
 * The receiver asks for no more than IBR_WINDOWS, from its oldest incomplete one on: having asked for what starts at
 * @top, it has all windows that lie so far before. (In native modes one may have been asked for again, and have
 * become complete since.)
 */
static bool send_window_over(const struct ibr_send *send, u64 start, u64 end)
{
	return start + IBR_WINDOWS * (end - start) <= send->top;
}

static void send_forget_windows(struct ibr_send *send)
{
	while (send->windows && send_window_over(send, send->window[0].start, send->window[0].end))
		send_window_drop(send);
	if (!ibr_send_wanted(send))
		list_del_init(&send->bulk);
}

/* A window was asked for. */
static void send_cts(struct ibr_path *path, const struct wire_frame *frame)
{
	struct ibr_send *send = ibr_handle_find(path, le32_to_cpu(frame->flow), IBR_HANDLE_SEND);
	u64 offset = le64_to_cpu(frame->cts.offset);
	u32 length = le32_to_cpu(frame->cts.length);
	u32 unit = le32_to_cpu(frame->cts.unit);
	u32 i;

	if (!send) {
		/* Its process is gone, or the message was given up. */
		send_abort_transfer(path, le32_to_cpu(frame->cts.transfer), -ECONNRESET);
		path->counters.drop_flow++;
		return;
	}
	if (ibr_send_asks(send) || !unit || offset > send->length || length > send->length - offset) {
		path->counters.drop_malformed++;
		return;
	}
	if (unit > path->payload_max) {
		/* The two ends do not agree on how large a packet is; a new handshake makes them. */
		path->counters.drop_malformed++;
		path->doomed = -ECONNRESET;
		return;
	}
	send->top = max(send->top, offset);
	send_forget_windows(send);
	if (send_window_over(send, offset, offset + length)) {
		path->counters.rx_duplicates++;
		return;
	}
	/* Asked for twice: a repeated CTS, or, in native modes, data was lost. */
	for (i = 0; i < send->windows; i++)
		if (send->window[i].start == offset)
			return;
	if (!path->native && offset < send->offset) {
		path->counters.rx_duplicates++;
		return;
	}
	/* An honest receiver does not ask again for what was complete before it asked for more. */
	if (offset < send->released) {
		path->counters.drop_malformed++;
		return;
	}
	if (send->windows == ARRAY_SIZE(send->window)) {
		path->counters.drop_malformed++;
		return;
	}
	/* In rising order, in which memory is made resident; what was lost on its way comes late. */
	for (i = 0; i < send->windows && send->window[i].start < offset; i++)
		if (send->window[i].end > offset)
			break;
	if (i < send->windows && send->window[i].start < offset + length) {
		/* An honest receiver's windows do not overlap. */
		path->counters.drop_malformed++;
		return;
	}
	send->transfer = le32_to_cpu(frame->cts.transfer);
	ibr_send_answered(send);
	memmove(&send->window[i + 1], &send->window[i], (send->windows - i) * sizeof(send->window[0]));
	send->windows++;
	send->window[i].start = offset;
	send->window[i].offset = offset;
	send->window[i].end = offset + length;
	send->window[i].unit = unit;
	/* Where that would do harm, nothing is written twice: it may be complete, and closed, after the first time. */
	send->window[i].name = path->transport->late_write_breaks && offset < send->offset ? 0 : frame->flags;
	send->window[i].key = le32_to_cpu(frame->cts.key);
	send->window[i].address = le64_to_cpu(frame->cts.address);
	send->window[i].asked = rel_next(&path->rel, path->native ? REL_UNRELIABLE : REL_RELIABLE);
	for (i = 0; i < send->windows; i++)
		if (send->window[i].start == send->offset)
			send->offset = send->window[i].end;
	if (ibr_send_wanted(send) && list_empty(&send->bulk) && !send->umem_busy)
		list_add_tail(&send->bulk, &path->bulk);
}

static void send_window_done(struct ibr_path *path, struct ibr_send *send)
{
	struct wire_frame frame = {
		.type = WIRE_FRAME_WINDOW_END,
		.flow = cpu_to_le32(send->transfer),
		.data.offset = cpu_to_le64(send->window[0].start),
	};

	if (path->native)
		ibr_control_send(path, &frame);
	send_window_drop(send);
}

/* Have the memory at @offset pinned. Some of what is just before it may have to be sent once more. */
static void send_advance(struct ibr_path *path, struct ibr_send *send, u64 offset)
{
	send->umem_busy = true;
	ibr_send_get(send);
	list_del_init(&send->bulk);
	if (offset)
		offset--;
	send->released = max(send->released, round_down(offset, IBR_UMEM_WINDOW));
	ibr_umem_advance(&send->umem, offset);
}

/* A fragment with a copy of the data, or NULL: no memory, the timer tries again. */
static struct ibr_frag *bulk_copy(struct ibr_path *path, struct ibr_send *send, u64 offset, u32 length)
{
	struct ibr_frag *frag = ibr_frag_alloc(length);

	if (!frag) {
		path->starved = true;
		return NULL;
	}
	if (send->data)
		memcpy(frag->inline_payload, (u8 *)send->data + offset, length);
	else
		ibr_umem_copy_from(&send->umem, offset, frag->inline_payload, length);
	frag->payload_len = length;
	return frag;
}

static void bulk_frame(struct ibr_frag *frag, const struct ibr_send *send, u64 offset, u32 length)
{
	frag->frame.type = WIRE_FRAME_DATA;
	frag->frame.payload_len = cpu_to_le16(length);
	frag->frame.flow = cpu_to_le32(send->transfer);
	frag->frame.data.offset = cpu_to_le64(offset);
}

/*
 * Can the first window be written to, as far as the peer and the user's memory are concerned? The peer believes a write
 * for so many packets after he has asked; with half of that, none is in vain.
 */
static bool send_may_write(const struct ibr_path *path, const struct ibr_send *send)
{
	u32 next = rel_next(&path->rel, path->native ? REL_UNRELIABLE : REL_RELIABLE);

	return send->window[0].name && !send->data && next - send->window[0].asked < BIT(REL_BARE_BITS - 2) &&
	       send->window[0].offset - send->window[0].start < (u64)send->window[0].unit * WIRE_IMMEDIATE_UNITS;
}

/* By RDMA write. Return: it is on its way. */
static bool bulk_write(struct ibr_path *path, struct ibr_send *send, u64 offset, u32 length)
{
	u32 into = offset - send->window[0].start;
	struct ibr_frag *frag;
	u32 immediate;

	frag = ibr_frag_alloc_bulk();
	if (!frag)
		return false;
	ibr_send_get(send);
	frag->send = send;
	bulk_frame(frag, send, offset, length);
	immediate = (send->window[0].name & ~WIRE_CTS_KEY) << WIRE_IMMEDIATE_NAME |
		    into / send->window[0].unit << WIRE_IMMEDIATE_UNIT;
	if (ibr_path_write(path, frag, immediate, send->window[0].address + into, send->window[0].key))
		return true;
	ibr_frag_put(frag);
	return false;
}

/* What was written and lost goes again, as a packet. Return: false: the path is blocked. */
static bool bulk_again(struct ibr_path *path, struct ibr_send *send)
{
	struct ibr_frag *lost = list_first_entry(&send->redo, struct ibr_frag, link), *frag;
	u64 offset = le64_to_cpu(lost->frame.data.offset);
	u32 length = le16_to_cpu(lost->frame.payload_len);

	/* Of a window that is complete, the memory may be gone. */
	if (offset >= send->released && ibr_umem_resident(&send->umem, offset) >= length) {
		if (!ibr_path_can_emit(path, false, length))
			return false;
		frag = bulk_copy(path, send, offset, length);
		if (!frag)
			return false;
		frag->frame = lost->frame;
		frag->repeated = true;
		if (!ibr_path_emit(path, frag)) {
			ibr_frag_put(frag);
			return false;
		}
	}
	list_del_init(&lost->link);
	ibr_frag_put(lost);
	return true;
}

void ibr_bulk_redo(struct ibr_path *path, struct ibr_frag *frag)
{
	struct ibr_send *send = frag->send;

	if (send->finished) {
		ibr_frag_put(frag);
		return;
	}
	list_add_tail(&frag->link, &send->redo);
	/* Before anything that is new. */
	if (!send->umem_busy)
		list_move(&send->bulk, &path->bulk);
}

static bool bulk_next(struct ibr_path *path, struct ibr_send *send)
{
	u64 offset = send->window[0].offset;
	bool write = send_may_write(path, send);
	struct ibr_frag *frag;
	u32 length;

	length = min_t(u64, send->window[0].unit, send->window[0].end - offset);
	if (!(write ? ibr_path_can_write(path) : ibr_path_can_emit(path, false, length)))
		return false;
	if (!send->data && ibr_umem_resident(&send->umem, offset) < length) {
		send_advance(path, send, offset);
		return true;
	}
	if (!write || !bulk_write(path, send, offset, length)) {
		frag = bulk_copy(path, send, offset, length);
		if (!frag)
			return false;
		bulk_frame(frag, send, offset, length);
		if (!ibr_path_emit(path, frag)) {
			ibr_frag_put(frag);
			return false;
		}
	}
	send->window[0].offset += length;
	if (send->window[0].offset == send->window[0].end)
		send_window_done(path, send);
	return true;
}

bool ibr_bulk_fill(struct ibr_path *path, struct ibr_send *send)
{
	bool again = !list_empty(&send->redo);

	if (!(again ? bulk_again(path, send) : bulk_next(path, send)))
		return false;
	if (!ibr_send_wanted(send) || send->umem_busy)
		list_del_init(&send->bulk);
	else if (!again)
		list_move_tail(&send->bulk, &path->bulk);
	return true;
}

static void send_fin(struct ibr_path *path, const struct wire_frame *frame)
{
	struct ibr_send *send = ibr_handle_find(path, le32_to_cpu(frame->flow), IBR_HANDLE_SEND);
	u32 status = le32_to_cpu(frame->fin.status);

	if (!send) {
		path->counters.drop_flow++;
		return;
	}
	/* That the receiver's buffer was too short is the receiver's business. */
	ibr_send_retire(send, !status || status == EMSGSIZE ? 0 : ibr_wire_error(frame->fin.status));
}

/* ---- frames -------------------------------------------------------------------------------- */

int ibr_rendezvous_receive(struct ibr_path *path, const struct wire_frame *frame, const void *payload)
{
	struct ibr_transfer *transfer;

	if (frame->type == WIRE_FRAME_CTS) {
		send_cts(path, frame);
		return 0;
	}
	if (frame->type == WIRE_FRAME_FIN) {
		send_fin(path, frame);
		return 0;
	}
	transfer = ibr_handle_find(path, le32_to_cpu(frame->flow), IBR_HANDLE_TRANSFER);
	if (!transfer) {
		path->counters.drop_flow++;
		return 0;
	}
	switch (frame->type) {
	case WIRE_FRAME_DATA:
		transfer_data(path, transfer, frame, payload);
		break;
	case WIRE_FRAME_WINDOW_END:
		return transfer_window_end(transfer, le64_to_cpu(frame->data.offset));
	case WIRE_FRAME_ABORT:
		ibr_transfer_abort(transfer, ibr_wire_error(frame->abort.status), true);
		break;
	}
	return 0;
}
