// SPDX-License-Identifier: GPL-2.0-only
/*
 * Rendezvous by copying: RTS and receive have met, the receiver asks by CTS for one window after the
 * other (each resident in pinned memory), the sender cuts it into fragments that travel like any
 * packet, the receiver ticks them off and copies them into place, and FIN ends it. Two windows are
 * under way at a time, so that pinning the next one overlaps with the data of the last.
 *
 *	sender				receiver
 *	RTS(message) ------------------>  match
 *	    <---------- CTS(window 0), CTS(window 1)
 *	DATA ... ---------------------->  tick off, copy
 *	    <---------- CTS(window 2)     when window 0 is complete
 *	    <---------- FIN               when all is
 */
#include <linux/slab.h>

#include "drive.h"
#include "flow.h"

#define TRANSFER_WINDOWS	2

/* ---- the receiver -------------------------------------------------------------------------- */

static void transfer_fin(struct ibr_inflow *flow, u32 message, int error, u64 length)
{
	struct wire_frame frame = {
		.type = WIRE_FRAME_FIN,
		.flow = cpu_to_le32(message),
		.fin.status = cpu_to_le32(-error),
		.fin.length = cpu_to_le64(length),
	};

	if (!flow->gone)
		ibr_control_send(flow->path, &frame);
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

/* Nothing refers to the transfer any more: complete the receive. */
static void transfer_finish(struct ibr_transfer *transfer)
{
	struct ibr_inflow *flow = transfer->flow;
	struct ibr_recv_result result;

	transfer_result(transfer, transfer->error, &result);
	transfer->recv->transfer = NULL;
	ibr_recv_complete(transfer->recv, &result);
	ibr_inflow_put(flow);
	kfree(transfer);
}

static void transfer_end(struct ibr_transfer *transfer, int error)
{
	transfer->dying = true;
	transfer->error = error;
	list_del_init(&transfer->link);
	ibr_handle_remove(transfer->flow->path, &transfer->h);
	if (!transfer->umem_busy)
		transfer_finish(transfer);
}

void ibr_transfer_abort(struct ibr_transfer *transfer, int error)
{
	lockdep_assert_held(&transfer->flow->path->lock);
	if (!transfer->dying)
		transfer_end(transfer, error);
}

static void transfer_cts(const struct ibr_transfer *transfer, u64 offset, u32 length, struct wire_frame *frame)
{
	*frame = (struct wire_frame) {
		.type = WIRE_FRAME_CTS,
		.flow = cpu_to_le32(transfer->message),
		.cts.transfer = cpu_to_le32(transfer->h.id),
		.cts.offset = cpu_to_le64(offset),
		.cts.length = cpu_to_le32(length),
		.cts.unit = cpu_to_le32(transfer->unit),
	};
}

/* Ask for as many windows as are free and resident; have the next ones pinned if they are not. */
static void transfer_ask(struct ibr_transfer *transfer)
{
	struct ibr_umem *umem = &transfer->recv->umem;
	struct wire_frame frame;
	u32 i, length;

	for (i = 0; i < TRANSFER_WINDOWS && transfer->asked < transfer->want; i++) {
		if (transfer->window[i].length)
			continue;
		/*
		 * Both ends keep no more than two windows, from the oldest incomplete one on, in memory:
		 * whatever lies beyond could not become resident before that one is complete.
		 */
		if (transfer->asked - transfer->done >= TRANSFER_WINDOWS * (u64)transfer->window_bytes)
			return;
		length = min_t(u64, transfer->window_bytes, transfer->want - transfer->asked);
		if (transfer->umem_busy)
			return;
		if (ibr_umem_resident(umem, transfer->asked) < length) {
			transfer->umem_busy = true;
			ibr_umem_advance(umem, transfer->done);
			return;
		}
		transfer_cts(transfer, transfer->asked, length, &frame);
		if (ibr_control_send(transfer->flow->path, &frame))
			return;
		transfer->window[i].offset = transfer->asked;
		transfer->window[i].length = length;
		transfer->window[i].missing = DIV_ROUND_UP(length, transfer->unit);
		bitmap_zero(transfer->window[i].got, IBR_UNITS_MAX);
		transfer->asked += length;
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
	if (transfer->dying) {
		transfer_finish(transfer);
	} else if (umem->error) {
		transfer_fin(transfer->flow, transfer->message, umem->error, 0);
		transfer_end(transfer, umem->error);
	} else {
		transfer_ask(transfer);
	}
	ibr_path_drive_locked(path);
	spin_unlock_bh(&path->lock);
	ibr_path_put(path);
}

/*
 * The largest power-of-two part of a pinned window that a bitmap can describe: pinned windows then
 * consist of whole transfer windows.
 */
static u32 transfer_window_bytes(u32 unit)
{
	u32 bytes = IBR_UMEM_WINDOW;

	while (bytes > unit && DIV_ROUND_UP(bytes, unit) > IBR_UNITS_MAX)
		bytes /= 2;
	return bytes;
}

void ibr_transfer_start(struct ibr_inflow *flow, const struct ibr_message *message, struct ibr_recv *recv)
{
	struct ibr_path *path = flow->path;
	struct ibr_transfer *transfer = NULL;
	struct ibr_recv_result result;

	lockdep_assert_held(&path->lock);
	ibr_message_result(message, -ECONNRESET, &result);
	if (flow->gone)
		goto fail;
	result.status = -ENOMEM;
	transfer = ibr_alloc_atomic(sizeof(*transfer));
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
	transfer->recv = recv;
	if (ibr_handle_add(path, &transfer->h, IBR_HANDLE_TRANSFER))
		goto fail_tell;
	ibr_inflow_get(flow);
	transfer->flow = flow;
	recv->transfer = transfer;
	recv->umem.ready = transfer_umem_ready;
	list_add_tail(&transfer->link, &flow->transfers);
	if (transfer->want) {
		transfer_ask(transfer);
	} else {
		/* An empty message, which came by RTS for want of credit, fits. */
		result.status = transfer->length ? -EMSGSIZE : 0;
		transfer_fin(flow, transfer->message, result.status, 0);
		transfer_end(transfer, result.status);
	}
	return;

fail_tell:
	transfer_fin(flow, message->rts_message, result.status, 0);
fail:
	kfree(transfer);
	ibr_recv_complete(recv, &result);
}

void ibr_transfer_refuse(struct ibr_inflow *flow, const struct ibr_message *message)
{
	lockdep_assert_held(&flow->path->lock);
	transfer_fin(flow, message->rts_message, 0, 0);
}

/* Which of the windows that were asked for contains @offset? */
static int transfer_window(const struct ibr_transfer *transfer, u64 offset)
{
	u32 i;

	for (i = 0; i < TRANSFER_WINDOWS; i++)
		if (transfer->window[i].length && offset >= transfer->window[i].offset &&
		    offset - transfer->window[i].offset < transfer->window[i].length)
			return i;
	return -1;
}

static void transfer_progress(struct ibr_transfer *transfer)
{
	int error = transfer->want < transfer->length ? -EMSGSIZE : 0;
	u64 done = transfer->asked;
	u32 i;

	for (i = 0; i < TRANSFER_WINDOWS; i++)
		if (transfer->window[i].length)
			done = min(done, transfer->window[i].offset);
	transfer->done = done;
	if (done < transfer->want) {
		transfer_ask(transfer);
		return;
	}
	transfer_fin(transfer->flow, transfer->message, error, transfer->want);
	transfer_end(transfer, error);
}

static void transfer_data(struct ibr_path *path, struct ibr_transfer *transfer,
			  const struct wire_frame *frame, const void *payload)
{
	u64 offset = le64_to_cpu(frame->data.offset);
	u32 bytes = le16_to_cpu(frame->payload_len);
	u32 into, index, expected;
	int i;

	i = transfer_window(transfer, offset);
	if (i < 0) {
		/* A repeat of something in a window that is complete by now. */
		path->counters.rx_duplicates++;
		return;
	}
	into = offset - transfer->window[i].offset;
	index = into / transfer->unit;
	expected = min(transfer->unit, transfer->window[i].length - into);
	if (into % transfer->unit || bytes != expected) {
		path->counters.drop_malformed++;
		return;
	}
	if (__test_and_set_bit(index, transfer->window[i].got)) {
		path->counters.rx_duplicates++;
		return;
	}
	ibr_umem_copy_to(&transfer->recv->umem, offset, payload, bytes);
	if (--transfer->window[i].missing)
		return;
	transfer->window[i].length = 0;
	transfer_progress(transfer);
}

/* Native modes: the sender has sent all of a window. What got lost of it is asked for again. */
static int transfer_window_end(struct ibr_transfer *transfer, u64 offset)
{
	int i = transfer_window(transfer, offset);
	struct wire_frame frame;

	if (i < 0)
		return 0;
	transfer_cts(transfer, transfer->window[i].offset, transfer->window[i].length, &frame);
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
bool ibr_send_wanted(const struct ibr_send *send)
{
	return send->windows && send->window[0].start < send->offset;
}

/*
 * The receiver asks for no more than the window after its oldest incomplete one: asking for what starts at
 * @offset, it has all windows but the one just before. (In native modes one may have been asked for
 * again, and have become complete since.)
 */
static void send_forget_windows(struct ibr_send *send, u64 offset)
{
	while (send->windows && 2 * send->window[0].end - send->window[0].start <= offset) {
		send->windows--;
		send->window[0] = send->window[1];
	}
	if (!send->windows)
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
	if (!unit || offset > send->length || length > send->length - offset) {
		path->counters.drop_malformed++;
		return;
	}
	if (unit > path->payload_max) {
		/* The two ends do not agree on how large a packet is; a new handshake makes them. */
		path->counters.drop_malformed++;
		path->doomed = -ECONNRESET;
		return;
	}
	send_forget_windows(send, offset);
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
	send->transfer = le32_to_cpu(frame->cts.transfer);
	/* In rising order, in which memory is made resident; what was lost on its way comes late. */
	i = send->windows++;
	if (i && offset < send->window[0].start) {
		send->window[1] = send->window[0];
		i = 0;
	}
	send->window[i].start = offset;
	send->window[i].offset = offset;
	send->window[i].end = offset + length;
	send->window[i].unit = unit;
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
	send->windows--;
	send->window[0] = send->window[1];
}

/* Have the memory at @offset pinned. Native modes may have to send the window before once more. */
static void send_advance(struct ibr_path *path, struct ibr_send *send, u64 offset)
{
	send->umem_busy = true;
	ibr_send_get(send);
	list_del_init(&send->bulk);
	if (path->native && offset)
		offset--;
	send->released = round_down(offset, IBR_UMEM_WINDOW);
	ibr_umem_advance(&send->umem, offset);
}

bool ibr_bulk_fill(struct ibr_path *path, struct ibr_send *send)
{
	u64 offset = send->window[0].offset;
	struct ibr_frag *frag;
	u32 length;

	length = min_t(u64, send->window[0].unit, send->window[0].end - offset);
	if (!ibr_path_can_emit(path, false, length))
		return false;
	if (!send->data && ibr_umem_resident(&send->umem, offset) < length) {
		send_advance(path, send, offset);
		return true;
	}
	frag = ibr_frag_alloc(length);
	if (!frag) {
		path->starved = true;
		return false;
	}
	if (send->data)
		memcpy(frag->inline_payload, (u8 *)send->data + offset, length);
	else
		ibr_umem_copy_from(&send->umem, offset, frag->inline_payload, length);
	frag->payload_len = length;
	frag->frame.type = WIRE_FRAME_DATA;
	frag->frame.payload_len = cpu_to_le16(length);
	frag->frame.flow = cpu_to_le32(send->transfer);
	frag->frame.data.offset = cpu_to_le64(offset);
	if (!ibr_path_emit(path, frag)) {
		ibr_frag_put(frag);
		return false;
	}
	send->window[0].offset += length;
	if (send->window[0].offset == send->window[0].end)
		send_window_done(path, send);
	if (ibr_send_wanted(send))
		list_move_tail(&send->bulk, &path->bulk);
	else
		list_del_init(&send->bulk);
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
		ibr_transfer_abort(transfer, ibr_wire_error(frame->abort.status));
		break;
	}
	return 0;
}
