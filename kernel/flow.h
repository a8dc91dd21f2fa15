/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Flows: ordered streams of messages from one endpoint to another. The sender's half is an outflow,
 * the receiver's an inflow; each lives on the path that the sender's mode chose and is covered by its
 * connection lock. Also here: the objects of one message, a send, a receive, a message that has
 * arrived, and a transfer (rendezvous).
 */
#ifndef IBR_FLOW_H
#define IBR_FLOW_H

#include <linux/kref.h>
#include <linux/list.h>
#include <linux/rbtree.h>
#include <linux/types.h>
#include "endpoint.h"
#include "frag.h"
#include "match.h"
#include "memory.h"
#include "path.h"
#include "region.h"
#include "ring.h"

struct ibr_mr;

#define IBR_UNPAID_STEP		16u		/* messages more that may go by RTS after a wait for credit */
#define IBR_GRANT_MAX		(512u << 10)	/* unexpected cost bytes granted to one flow: two windows */
#define IBR_GRANT_FIRST		(17u << 10)	/* ... to begin with, and more at a time: an eager message */
#define IBR_HEADERS_FIRST	32u		/* waiting RTS that a new flow may have, if there are as many to give */
#define IBR_HEADERS_MAX		(256u << 10)	/* ... and all flows of an endpoint together, but for one each */
#define IBR_CONTROL_MAX		(256u << 10)	/* fragments that wait on a path; beyond it the peer is no honest one */
#define IBR_CONTROL_CROWD	(IBR_CONTROL_MAX / 2)	/* ... before closed endpoints end their flows at once */
#define IBR_EAGER_FRAGS_MAX	60		/* full ones of an eager message; 64 bits have to tell all apart */
#define IBR_MISSING_MAX		64u	/* native modes: messages passed over that a flow remembers */
#define IBR_UNITS_MAX		1024		/* fragments of one window of a transfer */
#define IBR_WINDOWS		4		/* windows of a transfer that are under way */
#define IBR_BULK_TURNS		4		/* fragments of windows that go before a message that waits */

/* What one eager message costs of a flow's credit; both sides compute the same. */
static inline u32 ibr_message_cost(u32 length)
{
	return ALIGN(length + 256, 256);
}

/** enum ibr_handle_type - what a wire handle of a path stands for */
enum ibr_handle_type {
	IBR_HANDLE_OUTFLOW,
	IBR_HANDLE_INFLOW,
	IBR_HANDLE_SEND,
	IBR_HANDLE_TRANSFER,
};

/** struct ibr_handle - first member of everything in path->handles */
struct ibr_handle {
	enum ibr_handle_type type;
	u32 id;			/* 0: not in the table */
};

/**
 * struct ibr_contact - a remote endpoint that a local one knows; what a peer handle stands for
 * @node: in endpoint->contact_tree, under endpoint->lock
 * @addr: its address; .generation 0: whichever endpoint has the number. Immutable
 * @handle: the peer handle, its place in endpoint->contacts; immutable
 * @out: where sends to it go, with a reference; NULL until the first one, and again after closing. Written under
 *	endpoint->setup_lock, read under RCU
 *
 * Lives as long as its endpoint.
 */
struct ibr_contact {
	struct rb_node node;
	struct ibrelk_addr addr;
	u32 handle;
	struct ibr_outflow __rcu *out;
};

/** enum ibr_outflow_state - life of an outflow; see Documentation/protocol.rst */
enum ibr_outflow_state {
	IBR_OUTFLOW_CLOSED,	/* nothing was asked yet, or it failed and may be asked again */
	IBR_OUTFLOW_OPENING,	/* FLOW_OPEN is sent, or going to be */
	IBR_OUTFLOW_OPEN,
};

/**
 * struct ibr_outflow - sender's half; all but the immutable members under path->lock
 * @h: what frames from the receiver name it by, while it is OPENING or OPEN
 * @ref: held by the contact, by the path's list while the flow is OPENING or OPEN, and by each send
 * @endpoint: the sender, with a reference; immutable
 * @path: that it uses, with a reference; immutable
 * @share: where it is counted, while it is OPENING; else NULL
 * @remote: address of the receiver, as in the contact; immutable
 * @state: may be read without the lock where a guess will do
 * @closing: the endpoint was closed: only what was accepted still goes out
 * @announcing: native modes: sends whose RTS is not acknowledged, by sequence, also if given up meanwhile; eager
 *	messages wait until there is none
 * @remote_handle: what the receiver calls the flow; valid when OPEN
 * @sequence: of the next message; each opening begins with 0
 * @cost: eager cost spent since it was opened, cost bytes
 * @limit: ... and allowed, as the receiver has told
 * @grant: the most that there was at once, lately: a message that costs more would wait for credit in vain
 * @announced: RTS sent since it was opened
 * @announce_limit: ... and allowed, as the receiver has told
 * @queue: sends that are not completely transmitted, nor announced, in order
 * @sent: sends that wait for something from the peer
 * @matching: those of them that wait for MATCHED, by sequence
 * @unpaid: messages that went by RTS for want of credit, and for which nobody has asked
 * @unpaid_max: as many there may be; 0 until it has waited for credit in vain
 * @unpaid_answered: somebody has asked for one since it waits
 * @unpaid_at: ns: when there may be more of them, if it waits then
 * @streak: messages that were queued while another one was not acknowledged, up to STREAM_MESSAGES (flow.c)
 * @patient_until: ns: ... while it waits, in path->patient; 0: it does not
 * @ready: OPEN: in path->ready, while @queue has something and may go on; or in path->patient. OPENING: in
 *	path->opening, until FLOW_OPEN is sent
 * @on_path: in path->outflows, while it is OPENING or OPEN
 * @rcu: frees it, as readers of contact->out may still see it
 */
struct ibr_outflow {
	struct ibr_handle h;
	struct kref ref;
	struct ibr_endpoint *endpoint;
	struct ibr_path *path;
	struct ibr_share *share;
	struct ibrelk_addr remote;
	enum ibr_outflow_state state;
	bool closing;
	struct list_head announcing;
	u32 remote_handle;
	u32 sequence;
	u64 cost;
	u64 limit;
	u64 grant;
	u32 announced;
	u32 announce_limit;
	u32 unpaid;
	u32 unpaid_max;
	bool unpaid_answered;
	u64 unpaid_at;
	u64 patient_until;
	u32 streak;
	struct list_head queue;
	struct list_head sent;
	struct rb_root matching;
	struct list_head ready;
	struct list_head on_path;
	struct rcu_head rcu;
};

/**
 * struct ibr_send - a message on its way out
 * @h: of a rendezvous: what CTS and FIN name it by, from its RTS on
 * @ref: held by the outflow's lists, by each fragment, by the completion until it is written, and by the worker of
 *	@umem
 * @entry: its completion
 * @link: in outflow->queue, then ->sent
 * @bulk: in path->bulk, while a window is to be filled
 * @announcing: in flow->announcing
 * @matching: in outflow->matching, from when all of it was sent, if MATCHED is asked for
 * @flow: with a reference; immutable
 * @opcode: IBRELK_OP_SEND, _PUT, _GET, _ATOMIC; or _NOP: an answer, of which no user knows. Immutable
 * @level: enum ibrelk_level, never the default: what has to happen before the user is told; immutable
 * @wire_flags: WIRE_MSG_*, as its frames carry them; immutable
 * @atomic: WIRE_ATOMIC_*, likewise; the operands are in @frag. 0: it is none. Immutable
 * @no_success: the user does not want to hear of success; immutable
 * @completed: the user knows, or shall not
 * @started: eager: the first fragment is out, so the others follow before any other message of the flow
 * @sent: eager: all of it was transmitted once
 * @finished: nothing more is expected
 * @unpaid: counted in flow->unpaid
 * @pinned: @umem is in use
 * @umem_busy: its worker is running
 * @peer: peer handle, for the completion; immutable
 * @user_data: likewise
 * @sequence: its number in the flow, from when it is in ->sent
 * @unacked: eager, reliable modes: fragments sent and not acknowledged
 * @length: bytes of the message; immutable
 * @offset: bytes: eager: sent so far; rendezvous: asked for so far, without a gap
 * @tag: its tag; of a put, get or atomic, the address there; immutable
 * @immediate: travels with it, if @wire_flags says so; of a put, get or atomic, the key; immutable
 * @window: rendezvous: windows that were asked for and are not sent, in rising order; the first is being sent
 * @window.start: where it begins in the message, bytes
 * @window.offset: sent up to here
 * @window.end: where it ends
 * @window.unit: payload of each fragment but the last, bytes
 * @window.address: where the peer's memory for it begins, if @key
 * @window.key: by which it may be written to; only with WIRE_CTS_KEY in @name
 * @window.asked: the path's next number when it was asked for
 * @window.name: as the CTS has it in its flags; 0: it cannot be written to
 * @windows: how many there are
 * @top: the latest window that was asked for begins here
 * @redo: fragments that were written and lost: to be sent again as packets
 * @released: pinned memory before this offset was let go
 * @transfer: what the receiver calls the transfer, by the last CTS; 0: none
 * @answer: of a get, or an atomic that fetches: where it goes to, until the answer comes; the user is told when that is
 *	complete
 * @fetch: ... the transfer by which a long one comes
 * @serves: of an answer: the flow by which it was asked for, with a reference; immutable
 * @asked: ... and by which handle; immutable
 * @notice: of a put of which the peer's process is to be told: the message that tells it, until that is queued, when
 *	the put is in its place
 * @put: of that message: the put, with a reference. It is what completes
 * @parts: of a put whose notice is queued: which of both are not over
 * @access: ... to the region that @umem is a part of
 * @status: what the user will be told, negative errno or 0
 * @umem: the user's memory, if there is no copy
 * @data: buffered copy: @frag.inline_payload if small; NULL: @umem
 * @frag: the first fragment, or the RTS; last, for its inline payload
 *
 * What may change is under path->lock from the time it is queued until it is finished.
 */
struct ibr_send {
	struct ibr_handle h;
	struct kref ref;
	struct ibr_ring_entry entry;
	struct list_head link;
	struct list_head bulk;
	struct list_head announcing;
	struct rb_node matching;
	struct ibr_outflow *flow;
	u8 opcode;
	u8 level;
	u8 wire_flags;
	u8 atomic;
	bool no_success;
	bool completed;
	bool started;
	bool sent;
	bool finished;
	bool unpaid;
	bool pinned;
	bool umem_busy;
	u32 peer;
	u64 user_data;
	u32 sequence;
	u32 unacked;
	u64 length;
	u64 offset;
	u64 tag;
	u64 immediate;
	struct {
		u64 start;
		u64 offset;
		u64 end;
		u32 unit;
		u64 address;
		u32 key;
		u32 asked;
		u8 name;
	} window[IBR_WINDOWS];
	u32 windows;
	struct list_head redo;
	u64 top;
	u64 released;
	u32 transfer;
	struct ibr_recv *answer;
	struct ibr_transfer *fetch;
	struct ibr_inflow *serves;
	u32 asked;
	struct ibr_send *notice;
	struct ibr_send *put;
	atomic_t parts;
	struct ibr_access access;
	int status;
	struct ibr_umem umem;
	void *data;
	struct ibr_frag frag;
};

/** struct ibr_recv - a receive, a part of a multi-receive, or where a long put or an answer goes. It has one owner */
struct ibr_recv {
	struct ibr_ring_entry entry;
	struct match_recv match;
	struct ibr_endpoint *endpoint;	/* referenced */
	struct ibr_umem umem;
	struct ibr_transfer *transfer;	/* that fills it, or NULL */
	struct ibr_multi *multi;	/* that it is a part of, referenced, or NULL */
	u64 offset;			/* in the buffer of @multi, bytes */
	bool no_success;
	struct ibr_access access;	/* to a region, or none */
	struct ibr_send *ask;		/* whose answer goes here, referenced; or NULL */
	struct ibr_inflow *tells;	/* whose sender is to know how it ends, which is not decided yet; or NULL */
	u32 message;			/* what that one calls its message */
};

/**
 * struct ibr_inflow - receiver's half; under path->lock
 * @h: what the sender's frames name it by, until it is @gone
 * @ref: held by the path until it is @gone, by each message, each transfer and each of @answers
 * @endpoint: the receiver, with a reference; immutable
 * @path: with a reference; immutable
 * @share: where it is counted, until it is @gone
 * @contact: peer handle of the source; immutable
 * @remote_handle: what the sender calls the flow; immutable
 * @src_endpoint: the sender's number; immutable
 * @src_generation: its generation; immutable
 * @gone: off the path
 * @answers: FIN and MATCHED that were sent, or wait to be, and are not acknowledged
 * @tells: @gone, and FLOW_CLOSE waits for the last of these
 * @close: that FLOW_CLOSE
 * @next: sequence expected next
 * @missing: native modes: bit i: message @next - 1 - i was lost; IBR_MISSING_MAX of them
 * @limit: credit: granted in all since it was opened, cost bytes
 * @advertised: ... and told
 * @grant: how much of the endpoint's memory is reserved for this flow, cost bytes; at most IBR_GRANT_MAX
 * @waiting_cost: of it, in use
 * @spent: credit that the sender has used, as far as seen, cost bytes since it was opened
 * @announced: RTS that have come since it was opened
 * @announce_told: ... and that the sender may send in all, as it was told
 * @headers: RTS that may wait for a receive, at least one
 * @headers_waiting: ... and do, or are of puts and gets that are not over
 * @early: messages that are incomplete or ahead of their turn, by sequence
 * @transfers: rendezvous under way
 * @back: by which gets and atomics are answered, with a reference; NULL until the first
 * @on_path: in path->inflows, until it is @gone
 * @node: in path->inflow_hash, likewise
 */
struct ibr_inflow {
	struct ibr_handle h;
	struct kref ref;
	struct ibr_endpoint *endpoint;
	struct ibr_path *path;
	struct ibr_share *share;
	u32 contact;
	u32 remote_handle;
	u32 src_endpoint;
	u32 src_generation;
	bool gone;
	bool tells;
	u32 answers;
	struct wire_frame close;
	u32 next;
	u64 missing;
	u64 limit;
	u64 advertised;
	u64 grant;
	u64 waiting_cost;
	u64 spent;
	u32 announced;
	u32 announce_told;
	u32 headers;
	u32 headers_waiting;
	struct list_head early;
	struct list_head transfers;
	struct ibr_outflow *back;
	struct list_head on_path;
	struct hlist_node node;
};

/** struct ibr_message - a message that has arrived, or is arriving */
struct ibr_message {
	struct match_message match;
	struct list_head link;		/* inflow->early */
	struct ibr_inflow *flow;	/* referenced */
	bool rts;			/* or the request of a get or an atomic */
	bool ask;			/* the latter: tag is the address, immediate the key */
	bool pooled;			/* memory is the endpoint's pool */
	u8 wire_flags;
	u8 atomic;			/* WIRE_ATOMIC_*, and data is the operands; or 0 */
	u32 room;			/* bytes of data */
	u32 sequence;
	u32 rts_message;		/* the sender's handle */
	u32 received;			/* eager bytes so far */
	u64 fragments;			/* which, by offset */
	u64 length;
	u64 immediate;
	u8 data[];
};

/**
 * enum ibr_window_state - of one window of a transfer
 * @IBR_WINDOW_FREE: not in use
 * @IBR_WINDOW_OPENING: its memory is being registered, so that it can be written to
 * @IBR_WINDOW_OPEN: asked for
 * @IBR_WINDOW_FENCED: given up; to be closed when what the peer has written for it has come
 * @IBR_WINDOW_CLOSING: complete, or given up; it can still be written to
 */
enum ibr_window_state {
	IBR_WINDOW_FREE,
	IBR_WINDOW_OPENING,
	IBR_WINDOW_OPEN,
	IBR_WINDOW_FENCED,
	IBR_WINDOW_CLOSING,
};

/**
 * struct ibr_window - a part of a transfer, at the receiver; under path->lock
 * @transfer: whose
 * @state: where it is
 * @offset: where it begins in the message, bytes
 * @length: bytes
 * @missing: fragments that have not come
 * @mr: region by which it can be written to, or NULL. Until that is closed it is not FREE
 * @name: its place in path->written, with WIRE_CTS_KEY; 0: it cannot be written to
 * @since: what rel_received() was when it was asked for
 * @got: fragments that have come
 */
struct ibr_window {
	struct ibr_transfer *transfer;
	enum ibr_window_state state;
	u64 offset;
	u32 length;
	u32 missing;
	struct ibr_mr *mr;
	u8 name;
	u32 since;
	DECLARE_BITMAP(got, IBR_UNITS_MAX);
};

/** struct ibr_transfer - the receiver's side of a rendezvous; under path->lock */
struct ibr_transfer {
	struct ibr_handle h;
	struct ibr_inflow *flow;	/* referenced */
	struct ibr_recv *recv;
	struct list_head link;		/* inflow->transfers */
	bool umem_busy;
	bool dying;
	int error;
	u32 fence;			/* of its windows that are FENCED */
	u32 message;			/* the sender's handle */
	u32 unit;			/* payload of each fragment but a window's last */
	u32 window_bytes;
	u64 length;			/* of the message */
	u64 want;			/* of it, what fits */
	u64 asked;			/* CTS was sent up to here */
	u64 done;			/* complete up to here */
	u64 tag;
	u64 immediate;
	u8 wire_flags;
	bool header;			/* it keeps the one that announced it: a put */
	struct ibr_window window[IBR_WINDOWS];
};

/* ---- flow.c: contacts, opening, credit, closing ---- */

/** ibr_contact_find() - what a peer handle stands for, or NULL. Context: any */
struct ibr_contact *ibr_contact_find(struct ibr_endpoint *endpoint, u32 handle);
/**
 * ibr_contact_get_addr() - the contact for an address, made if need be
 * @endpoint: the local one, which is to know it
 * @addr: its address
 * @learned: @addr was seen in a packet: a contact for any generation stands for it too
 * @gfp: how to allocate
 *
 * Return: contact, or ERR_PTR(-ENOMEM, -ENOSPC, or, if learned, -EUSERS). Context: as @gfp says.
 */
struct ibr_contact *ibr_contact_get_addr(struct ibr_endpoint *endpoint, const struct ibrelk_addr *addr,
					 bool learned, gfp_t gfp);

/**
 * ibr_outflow_get() - the outflow to a contact, made at the first send
 * @endpoint: who sends
 * @contact: to whom, one of @endpoint's; gets a new one if the path of the last was removed
 *
 * Return: flow with a reference, or ERR_PTR(-ENETUNREACH, -EHOSTUNREACH, -EADDRNOTAVAIL, -ENODEV, -ENOMEM).
 * Context: process.
 */
struct ibr_outflow *ibr_outflow_get(struct ibr_endpoint *endpoint, struct ibr_contact *contact);
void ibr_outflow_put(struct ibr_outflow *flow);
/**
 * ibr_outflow_queue() - queue a send; on success takes over a reference to it
 * @flow: on which; opened if it is CLOSED
 * @send: what; on failure it is still the caller's
 * @undriven: the path that the caller is to give to ibr_endpoint_flush() at the end of its batch (set here, with a
 *	reference, if it is NULL); sends on another path start at once
 *
 * Return: 0; -ENODEV: the path was removed; -ENOMEM, also if as many flows are being opened as may be.
 * Context: process.
 */
int ibr_outflow_queue(struct ibr_outflow *flow, struct ibr_send *send, struct ibr_path **undriven);
/** ibr_outflow_begin() - open it if it is CLOSED. Return: 0 or -ENOMEM. Context: path->lock held */
int ibr_outflow_begin(struct ibr_outflow *flow);
/** ibr_outflow_answer() - queue an answer, on a flow that is not CLOSED; takes it over. Context: path->lock held */
void ibr_outflow_answer(struct ibr_send *send);
/** ibr_inflow_back() - the flow by which it answers, made if need be; or NULL. Context: path->lock held */
struct ibr_outflow *ibr_inflow_back(struct ibr_inflow *flow);
/** ibr_outflow_fail() - all its sends fail; the next one asks anew. Context: path->lock held */
void ibr_outflow_fail(struct ibr_outflow *flow, int error);
/** ibr_outflow_ask() - a flow that is OPENING is to be asked for (again). Context: path->lock held */
void ibr_outflow_ask(struct ibr_outflow *flow);
/**
 * ibr_outflow_request() - send FLOW_OPEN
 * @path: the flow's, UP
 * @flow: OPENING, in path->opening, which it leaves
 *
 * Return: false: it stays there: the path is blocked, or there is no memory. Context: path->lock held, by the drive.
 */
bool ibr_outflow_request(struct ibr_path *path, struct ibr_outflow *flow);
/** ibr_outflow_expect() - the send, which has its sequence, waits for MATCHED. Context: path->lock held */
void ibr_outflow_expect(struct ibr_outflow *flow, struct ibr_send *send);
/** ibr_outflow_wake() - it may have something to send now. Context: path->lock held */
void ibr_outflow_wake(struct ibr_outflow *flow);
/** ibr_outflow_idle() - a closing flow with nothing left says good-bye. Context: path->lock held */
void ibr_outflow_idle(struct ibr_outflow *flow);
/** ibr_outflow_close() - the endpoint is closed: buffered sends still go out, others are given up. Context: process */
void ibr_outflow_close(struct ibr_outflow *flow);
/** ibr_outflow_cut() - give up what lingers. Context: process */
void ibr_outflow_cut(struct ibr_outflow *flow);

void ibr_inflow_get(struct ibr_inflow *flow);
void ibr_inflow_put(struct ibr_inflow *flow);
/** ibr_inflow_return() - cost of a message that is held no more. Context: path->lock held */
void ibr_inflow_return(struct ibr_inflow *flow, u32 cost);
/** ibr_inflow_return_header() - of an RTS that waits no more. Context: path->lock held */
void ibr_inflow_return_header(struct ibr_inflow *flow);
/**
 * ibr_inflow_announced() - an RTS has come: more may follow, as far as the endpoint has room
 * @flow: on which; one that is gone grants nothing
 *
 * Context: path->lock held.
 */
void ibr_inflow_announced(struct ibr_inflow *flow);
/** ibr_inflow_drop() - the flow is over; @tell: say so to the sender. Context: path->lock held */
void ibr_inflow_drop(struct ibr_inflow *flow, int error, bool tell);

/**
 * ibr_inflow_answer() - queue a frame that tells the sender how a message fared
 * @flow: on which; one that is gone answers nothing, but for fences
 * @frame: FIN or MATCHED; copied
 * @fence: what ibr_windows_fenced() is to be told when it is acknowledged; 0: nothing
 *
 * As ibr_control_send(). Context: path->lock held.
 */
void ibr_inflow_answer(struct ibr_inflow *flow, const struct wire_frame *frame, u32 fence);
/** ibr_inflow_answered() - an answer has arrived, or the path's life is @over. Context: path->lock held */
void ibr_inflow_answered(struct ibr_inflow *flow, bool over);

/** ibr_flow_handle_control() - frames about flows. Return: 0, or -ENOMEM: not received. Context: path->lock held */
int ibr_flow_handle_control(struct ibr_path *path, const struct wire_frame *frame, const void *payload);

/* Wire handles. Context: path->lock held. */
int ibr_handle_add(struct ibr_path *path, struct ibr_handle *handle, enum ibr_handle_type type);
void ibr_handle_remove(struct ibr_path *path, struct ibr_handle *handle);
void *ibr_handle_find(struct ibr_path *path, u32 id, enum ibr_handle_type type);

/**
 * ibr_control_try() - queue a control frame, if the caller can do without
 * @path: where
 * @frame: what; copied
 *
 * Return: 0, or -ENOMEM: no memory, or IBR_CONTROL_MAX wait already. Context: path->lock held.
 */
int ibr_control_try(struct ibr_path *path, const struct wire_frame *frame);
/**
 * ibr_control_send() - queue a control frame
 * @path: where
 * @frame: what; copied
 *
 * Who takes the lock in process context calls ibr_frag_refill() before. Return: 0, or -ENOMEM: the path's life ends.
 * Context: path->lock held.
 */
int ibr_control_send(struct ibr_path *path, const struct wire_frame *frame);
/**
 * ibr_wire_error() - what an error that the peer names means here
 * @status: errno (positive), as it travels
 *
 * Return: negative errno; -EREMOTEIO: one that the peer should not name. Context: any.
 */
int ibr_wire_error(__le32 status);

/* ---- send.c: a message on its way out, by either protocol ---- */

/**
 * ibr_send_create() - make a send and take hold of its data
 * @flow: that it is going to be queued on; the send holds a reference
 * @command: as the user gave it, validated
 *
 * Up to @eager_max the data is copied; above, the user's memory is pinned. Return: send with one reference, or
 * ERR_PTR(-ENOMEM, -EFAULT). Context: process.
 */
struct ibr_send *ibr_send_create(struct ibr_outflow *flow, const struct ibrelk_command *command);
/**
 * ibr_send_answer() - a get, or an atomic that fetches, has come, whose turn it is: do it, and send what it asks for
 * @flow: by which it came
 * @space: of the process whose memory it is
 * @message: it; its header is returned when the answer is over
 *
 * Return: 0; -ENOMEM, or as ibr_access_begin(): nothing was computed. Context: path->lock held.
 */
int ibr_send_answer(struct ibr_inflow *flow, struct ibr_space *space, const struct ibr_message *message);
/** ibr_send_asks() - is it a get or an atomic, which sends no data but its request? */
static inline bool ibr_send_asks(const struct ibr_send *send)
{
	return send->opcode == IBRELK_OP_GET || send->opcode == IBRELK_OP_ATOMIC;
}

void ibr_send_get(struct ibr_send *send);
void ibr_send_put(struct ibr_send *send);
/** ibr_send_complete() - tell the user, once; of a put and its notice, when both are over. Context: any */
void ibr_send_complete(struct ibr_send *send, int status);
/** ibr_send_answered() - a CTS has come, or nothing more will. Context: path->lock held */
void ibr_send_answered(struct ibr_send *send);
/** ibr_send_retire() - it is over: off all lists, memory let go, the user told. Context: path->lock held */
void ibr_send_retire(struct ibr_send *send, int status);
/** ibr_send_discard() - one that was never queued goes without a word. Context: process */
void ibr_send_discard(struct ibr_send *send);
/** ibr_send_abort() - the same, and tell the peer's transfers. Context: path->lock held */
void ibr_send_abort(struct ibr_send *send, int status);
/** ibr_send_acked() - one of its fragments has arrived. Context: path->lock held */
void ibr_send_acked(struct ibr_send *send);
/**
 * ibr_send_start() - send the first message of a flow's queue, or go on with it
 * @path: the flow's, UP
 * @flow: OPEN, its queue not empty; taken out of path->ready if it has to wait for the peer
 *
 * Return: false: the path is blocked. Context: path->lock held, by the drive.
 */
bool ibr_send_start(struct ibr_path *path, struct ibr_outflow *flow);

int ibr_send_init(void);
void ibr_send_exit(void);

/* ---- message.c: messages that arrive ---- */

/** ibr_eager_receive(), ibr_rts_receive() - frames. Return: 0, or -ENOMEM: not received. Context: path->lock held */
int ibr_eager_receive(struct ibr_path *path, const struct wire_frame *frame, const void *payload);
int ibr_rts_receive(struct ibr_path *path, const struct wire_frame *frame, const void *payload);
void ibr_message_free(struct ibr_message *message);
/**
 * ibr_message_compute() - do what an atomic asks for
 * @message: it
 * @space: of the process whose memory it is
 * @before: set to what was there; or NULL
 *
 * Return: as ibr_region_atomic(). Context: path->lock held.
 */
int ibr_message_compute(const struct ibr_message *message, struct ibr_space *space, void *before);
/**
 * ibr_message_discard() - a message that waited, or was claimed, is thrown away
 * @message: out of the match table
 * @received: its sender is told that it was received. If not, the endpoint is closed: so is the sender's flow, which
 *	fails the send; or that is of a life that is over, in which case its handle may name another message by now
 *
 * Context: process, no locks.
 */
void ibr_message_discard(struct ibr_message *message, bool received);
/** ibr_message_give() - a message that had to wait meets its receive. Context: process, no locks */
void ibr_message_give(struct ibr_message *message, struct ibr_recv *recv);
/** ibr_message_unhold() - it counts as unexpected no more. Context: endpoint->lock held */
static inline void ibr_message_unhold(struct ibr_endpoint *endpoint, const struct ibr_message *message)
{
	if (!message->rts)
		endpoint->unexpected_bytes -= ibr_message_cost(message->length);
}

/* ---- recv.c: receives ---- */

/** struct ibr_recv_result - what a receive completes with */
struct ibr_recv_result {
	int status;
	u32 source;
	u64 length;
	u64 tag;
	u64 immediate;
	u8 wire_flags;
};

/** ibr_message_result() - what a receive completes with that takes this message. Context: any (message.c) */
void ibr_message_result(const struct ibr_message *message, int status, struct ibr_recv_result *result);

/** ibr_recv_complete() - a receive is over; @result->status -ECANCELED throws bounced data away. Context: any */
void ibr_recv_complete(struct ibr_recv *recv, const struct ibr_recv_result *result);
/**
 * ibr_recv_take() - a message has arrived, and it is its turn: what receives it?
 * @endpoint: open
 * @source: peer handle of its sender
 * @space: match space
 * @tag: its tag
 * @length: of the message, bytes; a multi-receive with too little room for it ends
 *
 * Return: the receive, now the caller's; or NULL. Context: endpoint->lock held.
 */
struct ibr_recv *ibr_recv_take(struct ibr_endpoint *endpoint, u32 source, u8 space, u64 tag, u64 length);
/**
 * ibr_recv_remote() - what a long put is received into
 * @flow: by which it came
 * @space: of the process whose memory it is
 * @message: its RTS
 *
 * Return: receive; ERR_PTR: -ENOMEM, or as ibr_access_begin(). Context: path->lock held.
 */
struct ibr_recv *ibr_recv_remote(struct ibr_inflow *flow, struct ibr_space *space, const struct ibr_message *message);
/**
 * ibr_recv_answer() - where a get goes to
 * @ask: the get, queued nowhere yet
 * @endpoint: its endpoint
 * @buffer: taken over on success
 *
 * Return: receive, which has a reference to @ask; ERR_PTR: as ibr_umem_init(), -ENOMEM. Context: process.
 */
struct ibr_recv *ibr_recv_answer(struct ibr_send *ask, struct ibr_endpoint *endpoint, struct ibr_buffer *buffer);
/** ibr_recv_cancel() - a receive that was taken out of the match table completes with -ECANCELED. Context: any */
void ibr_recv_cancel(struct match_recv *posted);

int ibr_recv_init(void);
void ibr_recv_exit(void);

/* ---- rendezvous.c ---- */

/**
 * ibr_transfer_start() - RTS and receive have met
 * @flow: on which the RTS came
 * @message: the RTS
 * @recv: the receive
 *
 * Takes @recv over in any case. A put has no receive that its user has paid for, and so keeps its header meanwhile.
 * Context: path->lock held. Return: the header is returned by the transfer, when it is over
 */
bool ibr_transfer_start(struct ibr_inflow *flow, const struct ibr_message *message, struct ibr_recv *recv);
/**
 * ibr_transfer_refuse() - RTS and nothing at all have met
 * @flow: on which
 * @message: the RTS
 * @error: why, negative errno; 0: it counts as received
 *
 * Context: path->lock held.
 */
void ibr_transfer_refuse(struct ibr_inflow *flow, const struct ibr_message *message, int error);
/** ibr_transfer_refuse_handle() - the same for what its sender knows by a handle. Context: path->lock held */
void ibr_transfer_refuse_handle(struct ibr_inflow *flow, u32 handle, int error);
/** ibr_transfer_revoke() - its memory is given back: -EACCES, also for the sender. Context: path->lock held */
void ibr_transfer_revoke(struct ibr_transfer *transfer);
/** ibr_transfer_tell() - recv->tells learns how the receive has ended. Context: recv->tells->path->lock held */
void ibr_transfer_tell(struct ibr_recv *recv, int error);
/**
 * ibr_transfer_abort() - the receive completes with an error
 * @transfer: which
 * @error: why, negative errno
 * @known: the peer sends nothing more for it, as what has come from it, or the end of the path, tells
 *
 * Context: path->lock held.
 */
void ibr_transfer_abort(struct ibr_transfer *transfer, int error, bool known);
/**
 * ibr_windows_fenced() - close windows that are FENCED
 * @path: whose
 * @fence: of which the peer has acknowledged the FIN; 0: all, as this life of the path has ended
 *
 * Context: path->lock held.
 */
void ibr_windows_fenced(struct ibr_path *path, u32 fence);
/** ibr_rendezvous_receive() - frames. Return: 0, or -ENOMEM: not received. Context: path->lock held */
int ibr_rendezvous_receive(struct ibr_path *path, const struct wire_frame *frame, const void *payload);
/**
 * ibr_bulk_fill() - send one fragment of a window
 * @path: the send's, UP
 * @send: the first in path->bulk; unless blocked, it goes to its end, or leaves it if nothing can be sent now
 *
 * Return: false: the path is blocked. Context: path->lock held, by the drive.
 */
bool ibr_bulk_fill(struct ibr_path *path, struct ibr_send *send);
/** ibr_send_tell_abort() - forget what was asked for, and tell the transfer. Context: path->lock held */
void ibr_send_tell_abort(struct ibr_send *send, int error);
/** ibr_send_wanted() - is there something of a window to be sent? Context: path->lock held */
bool ibr_send_wanted(const struct ibr_send *send);
/** ibr_bulk_redo() - a fragment that was written is lost; takes the reference over. Context: path->lock held */
void ibr_bulk_redo(struct ibr_path *path, struct ibr_frag *frag);
/** ibr_window_written() - the peer has written a fragment. Context: path->lock held */
void ibr_window_written(struct ibr_window *window, u32 unit);
/** ibr_window_expects() - is @bytes what this unit of the window has? Context: path->lock held */
bool ibr_window_expects(const struct ibr_window *window, u32 unit, u32 bytes);
/** ibr_send_umem_ready() - the worker of a send's memory is done */
void ibr_send_umem_ready(struct ibr_umem *umem);

#endif /* IBR_FLOW_H */
