/* SPDX-License-Identifier: (GPL-2.0-only WITH Linux-syscall-note) OR BSD-2-Clause */
/*
 * The interface between user space and ibrelk.ko.
 *
 * There are three kinds of file descriptor:
 *
 *   device    open("/dev/ibrelk"): asks for limits and statistics, and makes the other two;
 *   ring      a completion ring, mapped and polled without a system call;
 *   endpoint  sends and receives messages; every result goes to one of its two rings.
 *
 * Commands enter an endpoint through one of two doors that behave alike: the ioctl
 * IBRELK_IOC_SUBMIT, and an IORING_OP_URING_CMD whose cmd_op is IBRELK_IOC_SUBMIT and whose
 * 16 byte payload is struct ibrelk_submit_uring. Both return how many commands of the batch were
 * accepted, from its start, and never -EAGAIN: 0 means that nothing fits now. An accepted command
 * has its completion reserved, so a full ring never loses one. A command that is wrong stops the
 * batch: the commands before it are accepted, and if it is the first the call fails with its error.
 *
 * Layouts are the same for 32 and 64 bit programs; pointers travel as __u64. Reserved members and
 * unknown flag bits must be zero (else EINVAL), so that they can get a meaning later.
 */
#ifndef IBRELK_UAPI_H
#define IBRELK_UAPI_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define IBRELK_ABI_VERSION	1
#define IBRELK_DEVICE_PATH	"/dev/ibrelk"

/**
 * enum ibrelk_mode - how an endpoint's messages travel
 * @IBRELK_MODE_DEFAULT: what the module recommends; at present automatic where the device has UC and UD,
 *	else UD-reliable, else RC-reliable
 * @IBRELK_MODE_RC_NATIVE: reliable connection, the adapter alone answers for reliability
 * @IBRELK_MODE_UC_NATIVE: unreliable connection without retransmission. Unsafe: a message may be lost
 * @IBRELK_MODE_UD_NATIVE: unreliable datagrams without retransmission. Unsafe: a message may be lost
 * @IBRELK_MODE_RC_RELIABLE: reliable connection under the reliability engine (for comparison)
 * @IBRELK_MODE_UC_RELIABLE: unreliable connection under the reliability engine
 * @IBRELK_MODE_UD_RELIABLE: unreliable datagrams under the reliability engine
 * @IBRELK_MODE_AUTO: likewise, and an unreliable connection to each peer with which there is much traffic, while
 *	there is
 *
 * Native modes are refused with EPERM unless the module parameter allow_native is set.
 */
enum ibrelk_mode {
	IBRELK_MODE_DEFAULT = 0,
	IBRELK_MODE_RC_NATIVE = 1,
	IBRELK_MODE_UC_NATIVE = 2,
	IBRELK_MODE_UD_NATIVE = 3,
	IBRELK_MODE_RC_RELIABLE = 4,
	IBRELK_MODE_UC_RELIABLE = 5,
	IBRELK_MODE_UD_RELIABLE = 6,
	IBRELK_MODE_AUTO = 7,
};
#define IBRELK_MODE_COUNT	8

/**
 * struct ibrelk_addr - names an endpoint
 * @gid: a GID of the endpoint's node; an IPv4 address as ::ffff:a.b.c.d. All zero: any (local side)
 * @endpoint: endpoint number on that node, 1 to 2^32-1; 0: any (local side only)
 * @generation: which life of that endpoint number; 0: any. Learned at contact
 */
struct ibrelk_addr {
	__u8  gid[16];
	__u32 endpoint;
	__u32 generation;
};

/* ---- device descriptor ------------------------------------------------------------------- */

/**
 * struct ibrelk_query - IBRELK_IOC_QUERY: what this module is and can do
 * @abi_version: IBRELK_ABI_VERSION of the module
 * @protocol_version: version of the wire protocol
 * @modes: bit (1 << mode) for each mode that an endpoint can be created with now
 * @ports: usable device ports
 * @instance: random number of this module life
 * @eager_max: longest message sent without a rendezvous, in bytes
 * @message_max: longest message, in bytes
 * @recvs_max: most receives that can be posted on an endpoint
 * @sends_max: most sends that can be outstanding on an endpoint
 * @ring_entries_max: largest completion ring, in entries
 * @batch_max: most commands in one submission
 * @multi_max: longest buffer of a multi-receive, in bytes
 * @reserved: zero
 */
struct ibrelk_query {
	__u32 abi_version;
	__u32 protocol_version;
	__u32 modes;
	__u32 ports;
	__u8  instance[16];
	__u64 eager_max;
	__u64 message_max;
	__u32 recvs_max;
	__u32 sends_max;
	__u32 ring_entries_max;
	__u32 batch_max;
	__u64 multi_max;
	__u64 reserved[3];
};

/**
 * struct ibrelk_ring_create - IBRELK_IOC_RING_CREATE: make a completion ring
 * @entries: in: entries wanted, 1 to ring_entries_max, rounded up to a power of two; out: entries given
 * @flags: zero
 * @fd: out: the ring's descriptor (close-on-exec)
 * @reserved0: zero
 * @map_bytes: out: bytes to mmap() from offset 0 of @fd, shared, readable and writable
 * @reserved: zero
 *
 * Errors: EINVAL (entries, flags, reserved), EFAULT, EMFILE, ENFILE, ENOMEM.
 */
struct ibrelk_ring_create {
	__u32 entries;
	__u32 flags;
	__s32 fd;
	__u32 reserved0;
	__u64 map_bytes;
	__u64 reserved[4];
};

/**
 * struct ibrelk_endpoint_create - IBRELK_IOC_ENDPOINT_CREATE: make an endpoint
 * @mode: enum ibrelk_mode; out: the mode that was given for IBRELK_MODE_DEFAULT
 * @flags: zero
 * @send_ring: descriptor of the ring for send completions
 * @recv_ring: descriptor of the ring for receive completions; may be the same
 * @local: in: wanted local GID (zero: any) and endpoint number (zero: any; else 1 to 65535 is for well
 *	known services); out: the endpoint's address, with its generation. With a zero GID the
 *	first usable port's GID is reported
 * @job_key: endpoints talk only to endpoints with the same key; 0: the user's own default key
 * @unexpected_bytes: most memory for messages that arrive before their receive; 0: module default
 * @sends: most outstanding sends; 0: module default
 * @recvs: most posted receives; 0: module default. A multi-receive counts as one, and one more for each
 *	message that it may still take; it is accepted while there is room for one
 * @fd: out: the endpoint's descriptor (close-on-exec)
 * @reserved0: zero
 * @reserved: zero
 *
 * Errors: EINVAL (mode, flags, reserved, limits), EPERM (native mode not allowed), EADDRINUSE (endpoint
 * number taken), EADDRNOTAVAIL (no usable port has that GID), ENODEV (no usable port at all, or none
 * that has the mode's queue pair type), EBADF (not a ring of the same user), EMFILE, ENFILE, ENOMEM, EFAULT.
 */
struct ibrelk_endpoint_create {
	__u32 mode;
	__u32 flags;
	__s32 send_ring;
	__s32 recv_ring;
	struct ibrelk_addr local;
	__u64 job_key;
	__u64 unexpected_bytes;
	__u32 sends;
	__u32 recvs;
	__s32 fd;
	__u32 reserved0;
	__u64 reserved[4];
};

#define IBRELK_REGION_WRITE		1u
#define IBRELK_REGION_REMOTE_WRITE	2u
#define IBRELK_REGION_REMOTE_READ	4u
#define IBRELK_REGION_MAX	(64ull << 30)

/**
 * struct ibrelk_region_create - IBRELK_IOC_REGION_CREATE: keep memory pinned, and let peers put into it and get from it
 * @addr: where it begins
 * @length: bytes, 1 to IBRELK_REGION_MAX
 * @flags: IBRELK_REGION_WRITE: messages are going to be received into it; else it is only sent from.
 *	IBRELK_REGION_REMOTE_WRITE, only with the former: whoever can send to an endpoint of this process, and knows
 *	.key, may put into it. IBRELK_REGION_REMOTE_READ: ... may get from it. Atomics need what they do
 * @fd: out: its descriptor; closing it ends the region
 * @key: in: zero; out: with one of IBRELK_REGION_REMOTE_*, its key; else zero
 *
 * Until then, or until other memory comes to be there, sends from it and receives into it, or parts of it, find it
 * pinned. Nothing else differs: commands need not say that they use it.
 *
 * The key is good for what was pinned, as long as that is mapped (a put to, or get from, what is not any more fails with
 * EFAULT).
 * When the process that made the region closes a descriptor of it, also of several, or the last one is closed, the key
 * ends: puts and gets that are under way fail with EACCES, and when close() returns none writes or reads any more.
 * Errors: EINVAL (a member is wrong), EFAULT (not mapped, or not writable), ENOMEM (no memory, or more than the
 * process may pin), EOPNOTSUPP (to be received into, but of a file that is written back), EAGAIN (it was changed
 * meanwhile), ENOSPC (too many keys), EMFILE.
 */
struct ibrelk_region_create {
	__u64 addr;
	__u64 length;
	__u32 flags;
	__s32 fd;
	__u64 key;
};

/**
 * enum ibrelk_dump_kind - what IBRELK_IOC_DUMP lists
 * @IBRELK_DUMP_ENDPOINTS: array of struct ibrelk_endpoint_info
 * @IBRELK_DUMP_PATHS: array of struct ibrelk_path_info
 * @IBRELK_DUMP_PORTS: array of struct ibrelk_port_info
 */
enum ibrelk_dump_kind {
	IBRELK_DUMP_ENDPOINTS = 1,
	IBRELK_DUMP_PATHS = 2,
	IBRELK_DUMP_PORTS = 3,
};

/**
 * struct ibrelk_dump - IBRELK_IOC_DUMP: read statistics
 * @kind: enum ibrelk_dump_kind
 * @flags: zero
 * @buffer: address of an array of entries of that kind
 * @entry_bytes: size of an entry as the caller knows it; the kernel fills the smaller of both sizes
 * @entries: in: room in @buffer; out: entries written
 * @total: out: entries that exist; more than @entries means that the buffer was too small
 * @reserved: zero
 *
 * Users see their own endpoints, and paths and ports; CAP_NET_ADMIN sees all endpoints.
 * Errors: EINVAL, EFAULT, ENOMEM.
 */
struct ibrelk_dump {
	__u32 kind;
	__u32 flags;
	__u64 buffer;
	__u32 entry_bytes;
	__u32 entries;
	__u32 total;
	__u32 reserved;
};

/** struct ibrelk_counters - what is counted for each path; sums for an endpoint */
struct ibrelk_counters {
	__u64 tx_messages;		/* messages accepted for sending */
	__u64 tx_bytes;			/* their bytes */
	__u64 rx_messages;		/* messages delivered to a receive or to the unexpected queue */
	__u64 rx_bytes;
	__u64 tx_segments;		/* frames sent, the first time */
	__u64 rx_segments;		/* frames accepted */
	__u64 tx_eager;			/* messages sent eagerly */
	__u64 tx_rendezvous;		/* messages that went by RTS/CTS */
	__u64 tx_acks_explicit;		/* packets sent only to acknowledge */
	__u64 tx_acks_piggybacked;	/* data or control packets that carried fresh acknowledgement */
	__u64 tx_acks_credit;		/* packets sent only to convey credits (flow control ACKs) */
	__u64 rx_acks_explicit;
	__u64 retransmits_rack;		/* packets repeated because something sent later was acknowledged */
	__u64 retransmits_probe;	/* packets repeated as tail probe */
	__u64 retransmits_timeout;	/* packets repeated because a peer that had been silent did not know them */
	__u64 rx_duplicates;		/* packets or fragments that had been received before */
	__u64 lost_messages;		/* native modes: messages known to be missing */
	__u64 unexpected_messages;	/* messages that arrived before their receive */
	__u64 bounced_bytes;		/* bytes that went through a bounce buffer, memory not being pinnable */
	__u64 drop_length;		/* received packets dropped: shorter than they say, or too short */
	__u64 drop_version;		/* ... other protocol version */
	__u64 drop_checksum;		/* ... header checksum wrong */
	__u64 drop_token;		/* ... of no live path: forged, or of a former life */
	__u64 drop_window;		/* ... outside the receive window */
	__u64 drop_flow;		/* ... for a flow or transfer that does not exist (any more) */
	__u64 drop_memory;		/* ... no memory to keep it; will be sent again */
	__u64 drop_malformed;		/* ... unknown type, or frame with impossible contents */
	__u64 send_errors;		/* work requests that completed in error */
	__u64 reconnects;		/* queue pairs rebuilt */
	__u64 drop_limit;		/* messages beyond what their sender may have waiting; flows beyond the limit */
	__u64 lives;			/* lives of the path that have begun */
	__u64 tx_credit_waits;		/* times that a flow waited for eager credit */
	__u64 window_cuts;		/* times that the window was made smaller: delay, loss, or silence */
	__u64 lanes;			/* mode auto: UC queue pairs that the path has got */
	__u64 tx_written;		/* frames that an RDMA write from the user's memory stood for */
	__u64 rx_written;		/* ... into the user's memory */
	__u64 windows_copied;		/* parts of messages that could have been written so, but could not be registered */
	__u64 tx_remote;		/* of the messages sent: puts, and requests of gets and atomics */
	__u64 rx_remote;		/* of the messages received: likewise, also such as were refused */
};

/** struct ibrelk_endpoint_info - entry of IBRELK_DUMP_ENDPOINTS */
struct ibrelk_endpoint_info {
	struct ibrelk_addr local;
	__u32 mode;
	__u32 uid;
	__s32 pid;			/* who created it; 0: gone, its last sends are still under way */
	__u32 flows;			/* remote endpoints known */
	__u32 sends;			/* outstanding sends */
	__u32 recvs;			/* posted receives */
	__u32 unexpected;		/* messages that wait for a receive */
	__u32 claims;			/* messages that are claimed, and neither received nor discarded yet */
	__u64 unexpected_bytes;
	__u64 unexpected_bytes_max;	/* high-water mark */
	/* Of all endpoints of the process that created it: */
	__u64 pin_hits;			/* buffers, or windows of long ones, that were found pinned */
	__u64 pin_misses;		/* ... that had to be */
	__u64 pinned_idle_bytes;	/* what stays pinned for later, at the moment */
	struct ibrelk_counters counters;
};

/** struct ibrelk_path_info - entry of IBRELK_DUMP_PATHS */
struct ibrelk_path_info {
	__u8  local_gid[16];
	__u8  remote_gid[16];
	__u8  instance[16];		/* of the peer; zero until it is known */
	__u32 mode;
	__u32 state;			/* enum ibrelk_path_state */
	char  device[64];
	__u32 port;
	__u32 mtu;			/* path MTU, bytes */
	__u32 srtt_us;
	__u32 rttvar_us;
	__u32 rttmin_us;
	__u32 rto_us;
	__u32 window;			/* packets that may be in flight */
	__u32 in_flight;
	__u32 queue;			/* fragments waiting to be sent */
	__u32 queue_max;
	__u32 flows;
	__s32 error;			/* last error, 0 or negative errno */
	__u64 memory_bytes;		/* reliability memory now: payload of packets in flight */
	__u64 memory_bytes_max;
	struct ibrelk_counters counters;
	__u32 lane;			/* mode auto: 1 while a UC queue pair carries the packets */
	__u32 reserved;
};

/** enum ibrelk_path_state - life of a path; see Documentation/protocol.rst */
enum ibrelk_path_state {
	IBRELK_PATH_DOWN = 0,
	IBRELK_PATH_CONNECTING = 1,
	IBRELK_PATH_UP = 2,
	IBRELK_PATH_BROKEN = 3,
	IBRELK_PATH_DEAD = 4,
};

/**
 * struct ibrelk_port_info - entry of IBRELK_DUMP_PORTS, one for each address of a port
 *
 * The drops are those of received packets that belong to no path, or not yet; they are the port's, so
 * the same in each of its entries.
 */
struct ibrelk_port_info {
	char  device[64];
	__u32 port;
	__u32 usable;			/* 0 or 1 */
	__u8  gid[16];
	__u32 mtu;			/* bytes */
	__u32 modes;			/* bit (1 << mode) */
	char  reason[64];		/* why it is not usable */
	__u64 drop_length;		/* shorter than a header, or than they say */
	__u64 drop_version;		/* other protocol version */
	__u64 drop_token;		/* of no path: forged, or of a former life */
	__u64 drop_checksum;		/* for a connection that is being made: header checksum wrong */
	__u64 drop_malformed;		/* likewise: impossible contents */
};

#define IBRELK_IOC_MAGIC		0xB7
#define IBRELK_IOC_QUERY		_IOR(IBRELK_IOC_MAGIC, 0x00, struct ibrelk_query)
#define IBRELK_IOC_RING_CREATE		_IOWR(IBRELK_IOC_MAGIC, 0x01, struct ibrelk_ring_create)
#define IBRELK_IOC_ENDPOINT_CREATE	_IOWR(IBRELK_IOC_MAGIC, 0x02, struct ibrelk_endpoint_create)
#define IBRELK_IOC_DUMP			_IOWR(IBRELK_IOC_MAGIC, 0x03, struct ibrelk_dump)
#define IBRELK_IOC_REGION_CREATE	_IOWR(IBRELK_IOC_MAGIC, 0x04, struct ibrelk_region_create)

/* ---- ring descriptor --------------------------------------------------------------------- */

/**
 * struct ibrelk_ring_header - first page of a mapped ring
 * @tail: entries ever written, by the kernel; read with acquire
 * @flags: IBRELK_RING_OVERFLOW: completions wait in the kernel for room; any IBRELK_IOC_RING_WAIT
 *	(also with a zero time limit) moves them in
 * @reserved0: zero
 * @entries: number of entries, a power of two
 * @entries_offset: where they start in the mapping, bytes
 * @reserved1: zero
 * @head: entries ever consumed, by user space; written with release. The kernel believes only its
 *	own @tail: a nonsensical head makes the ring look full, nothing worse
 * @reserved2: zero
 */
struct ibrelk_ring_header {
	__u32 tail;
	__u32 flags;
	__u32 reserved0[14];
	__u32 entries;
	__u32 entries_offset;
	__u32 reserved1[14];
	__u32 head;
	__u32 reserved2[15];
};
#define IBRELK_RING_OVERFLOW	(1u << 0)

/**
 * struct ibrelk_completion - one entry of a completion ring
 * @user_data: of the command
 * @status: 0, or a negative errno (see Documentation/uapi.rst for each and its cause)
 * @opcode: enum ibrelk_opcode of the command
 * @reserved0: zero
 * @flags: IBRELK_CQE_*
 * @endpoint: number of the endpoint, several of which may share a ring
 * @peer: handle of the other side; for a receive its source. IBRELK_PEER_ANY if there is none
 * @length: bytes of the whole message. With -EMSGSIZE only as many as fit were written. CANCEL: receives that
 *	were cancelled. With IBRELK_CQE_RELEASED: messages that the multi-receive took
 * @tag: tag of the message
 * @immediate: 64 bits that travelled with it, if IBRELK_CQE_IMMEDIATE
 * @offset: RECV_MULTI: where the message starts in the buffer, a multiple of 8. With IBRELK_CQE_RELEASED: bytes
 *	of the buffer that were used
 * @claim: CLAIM: the claim, never 0
 */
struct ibrelk_completion {
	__u64 user_data;
	__s32 status;
	__u8  opcode;
	__u8  reserved0;
	__u16 flags;
	__u32 endpoint;
	__u32 peer;
	__u64 length;
	__u64 tag;
	__u64 immediate;
	__u64 offset;
	__u64 claim;
};
#define IBRELK_CQE_IMMEDIATE	(1u << 0)	/* .immediate is valid */
#define IBRELK_CQE_UNTAGGED	(1u << 1)	/* of the untagged match space */
#define IBRELK_CQE_RELEASED	(1u << 2)	/* of no message: a multi-receive is over, its buffer given back */

/**
 * struct ibrelk_ring_wait - IBRELK_IOC_RING_WAIT: wait until completions are there
 * @count: completions to wait for, at least 1 (the ring's size is the most)
 * @flags: zero
 * @timeout_ns: longest wait; 0: do not sleep; ~0: no limit
 * @busy_poll_ns: how long of it to poll the adapter's completion queues instead of sleeping
 *
 * Returns the number of completions in the ring (maybe less than @count when time ran out).
 * Errors: EINVAL, EFAULT, EINTR (a signal came; without a limit, one that has a handler).
 */
struct ibrelk_ring_wait {
	__u32 count;
	__u32 flags;
	__u64 timeout_ns;
	__u64 busy_poll_ns;
};
#define IBRELK_IOC_RING_WAIT		_IOW(IBRELK_IOC_MAGIC, 0x20, struct ibrelk_ring_wait)

/* ---- endpoint descriptor ----------------------------------------------------------------- */

/*
 * poll() of an endpoint: POLLOUT (and POLLWRNORM) while there is room for a send, POLLWRBAND while there is
 * room for a receive, POLLPRI for a cancel, probe, claim or discard; so whoever had fewer commands accepted than he gave can wait.
 */

#define IBRELK_PEER_ANY		0xffffffffu	/* receive from any source */

/**
 * struct ibrelk_peer - IBRELK_IOC_PEER_ADD and IBRELK_IOC_PEER_QUERY
 * @addr: address (in for ADD, out for QUERY)
 * @handle: handle (out for ADD, in for QUERY). The same address gives the same handle
 * @reserved: zero
 *
 * ADD does not talk to the peer: contact is made by the first command that needs it.
 * Errors: EINVAL (ADD: zero GID or endpoint number; reserved), ENOENT (QUERY: no such handle), ENOMEM, ENOSPC.
 */
struct ibrelk_peer {
	struct ibrelk_addr addr;
	__u32 handle;
	__u32 reserved;
};

/**
 * enum ibrelk_opcode - what a command asks for
 * @IBRELK_OP_NOP: completes at once with status 0
 * @IBRELK_OP_SEND: send a message
 * @IBRELK_OP_RECV: post a receive
 * @IBRELK_OP_CANCEL: cancel the posted receives whose user_data equals .addr; each completes with
 *	-ECANCELED, and this command, in the receive ring, with their number in .length, and status
 *	-ENOENT if that is 0. A receive that a message has taken is posted no more; a multi-receive takes
 *	no more messages, and completes when those that it has are complete
 * @IBRELK_OP_PROBE: what would a receive take now? Completes at once, in the receive ring: with the peer, length,
 *	tag and immediate value of the oldest message that waits and fits, or with -ENOMSG
 * @IBRELK_OP_CLAIM: the same, and the message waits no more: it is kept for whoever names .claim of the completion
 * @IBRELK_OP_DISCARD: the message of claim .tag counts as received, and is gone. Completes in the receive ring
 * @IBRELK_OP_RECV_MULTI: post a receive that takes many messages, one after the other in its buffer. A completion
 *	for each, and a last one, with IBRELK_CQE_RELEASED, when it is over and all of them are complete: it
 *	has taken .messages messages, or fewer than .room bytes are left, or a message came that does not fit
 *	into what is left (the next receive takes it), or it was cancelled (with -ECANCELED). A message that is
 *	longer than the whole buffer is cut
 * @IBRELK_OP_PUT: write the buffer to .remote_addr of the peer's process, into a region of it that has .remote_key.
 *	Completes in the send ring when it is there, seen by whoever looks, or was refused: -EACCES (no such key),
 *	-EFAULT (not in the region, or not mapped any more). The peer's process has no part in it, and gets no
 *	completion, but with IBRELK_CMD_IMMEDIATE a message when it is there: of no bytes, in the untagged space, with
 *	.immediate and a tag of IBRELK_TAG_WRITTEN and the put's length. Then it completes when that has been delivered,
 *	too. Puts and sends to the same endpoint go in order, but one that goes by rendezvous (a long one, or for
 *	want of credit) may be passed by later ones until it is complete
 * @IBRELK_OP_GET: read .remote_addr of the peer's process, of a region of it that has .remote_key, into the buffer.
 *	Completes in the send ring when the buffer is full, or with the errors of a PUT. It takes its turn after what
 *	was sent and put before it, but a long PUT may still be under way; what comes after it does not wait for it
 * @IBRELK_OP_ATOMIC: the peer's kernel computes in .remote_addr of the peer's process, of a region of it that has
 *	.remote_key, element by element, each of them at once for whoever uses atomic instructions on it. Completes
 *	in the send ring when it is done, and what was there before has been written to .tag, if that is wanted; or
 *	with the errors of a PUT. Those between the same two endpoints are computed in their order. One that fails
 *	with another error than -EACCES may have been computed, but no more than once
 */
enum ibrelk_opcode {
	IBRELK_OP_NOP = 0,
	IBRELK_OP_SEND = 1,
	IBRELK_OP_RECV = 2,
	IBRELK_OP_CANCEL = 3,
	IBRELK_OP_PROBE = 4,
	IBRELK_OP_CLAIM = 5,
	IBRELK_OP_DISCARD = 6,
	IBRELK_OP_RECV_MULTI = 7,
	IBRELK_OP_PUT = 8,
	IBRELK_OP_GET = 9,
	IBRELK_OP_ATOMIC = 10,
};

/**
 * enum ibrelk_atomic_op - what an ATOMIC makes of each element there
 * @IBRELK_ATOMIC_MIN: the smaller one of it and the operand; and so on: all are those of libfabric
 * @IBRELK_ATOMIC_MAX: the larger one
 * @IBRELK_ATOMIC_SUM: the sum, which wraps around
 * @IBRELK_ATOMIC_PROD: the product, likewise
 * @IBRELK_ATOMIC_LOR: 1 if one of them is not 0, else 0
 * @IBRELK_ATOMIC_LAND: 1 if none of them is 0, else 0
 * @IBRELK_ATOMIC_BOR: bits of either
 * @IBRELK_ATOMIC_BAND: bits of both
 * @IBRELK_ATOMIC_LXOR: 1 if just one of them is not 0, else 0
 * @IBRELK_ATOMIC_BXOR: bits of just one
 * @IBRELK_ATOMIC_READ: what it was; has no operand
 * @IBRELK_ATOMIC_WRITE: the operand
 * @IBRELK_ATOMIC_CSWAP: the operand, if what it is compared with equals it
 * @IBRELK_ATOMIC_CSWAP_NE: ... does not equal it
 * @IBRELK_ATOMIC_CSWAP_LE: ... is less, or equals it
 * @IBRELK_ATOMIC_CSWAP_LT: ... is less
 * @IBRELK_ATOMIC_CSWAP_GE: ... is greater, or equals it
 * @IBRELK_ATOMIC_CSWAP_GT: ... is greater
 * @IBRELK_ATOMIC_MSWAP: the operand's bits where those of the second operand are set
 */
enum ibrelk_atomic_op {
	IBRELK_ATOMIC_MIN = 1,
	IBRELK_ATOMIC_MAX = 2,
	IBRELK_ATOMIC_SUM = 3,
	IBRELK_ATOMIC_PROD = 4,
	IBRELK_ATOMIC_LOR = 5,
	IBRELK_ATOMIC_LAND = 6,
	IBRELK_ATOMIC_BOR = 7,
	IBRELK_ATOMIC_BAND = 8,
	IBRELK_ATOMIC_LXOR = 9,
	IBRELK_ATOMIC_BXOR = 10,
	IBRELK_ATOMIC_READ = 11,
	IBRELK_ATOMIC_WRITE = 12,
	IBRELK_ATOMIC_CSWAP = 13,
	IBRELK_ATOMIC_CSWAP_NE = 14,
	IBRELK_ATOMIC_CSWAP_LE = 15,
	IBRELK_ATOMIC_CSWAP_LT = 16,
	IBRELK_ATOMIC_CSWAP_GE = 17,
	IBRELK_ATOMIC_CSWAP_GT = 18,
	IBRELK_ATOMIC_MSWAP = 19,
};

/** enum ibrelk_atomic_type - of the elements of an ATOMIC: signed and unsigned integers of 32 and 64 bits */
enum ibrelk_atomic_type {
	IBRELK_ATOMIC_S32 = 1,
	IBRELK_ATOMIC_U32 = 2,
	IBRELK_ATOMIC_S64 = 3,
	IBRELK_ATOMIC_U64 = 4,
};

#define IBRELK_ATOMIC(op, type)	((op) | (type) << 16)	/* .messages of an ATOMIC */
#define IBRELK_ATOMIC_BYTES	64			/* the most that one works on */

/**
 * enum ibrelk_level - when a send counts as complete
 * @IBRELK_LEVEL_DEFAULT: BUFFERED up to the eager threshold, DELIVERED above
 * @IBRELK_LEVEL_BUFFERED: the user's buffer may be used again
 * @IBRELK_LEVEL_DELIVERED: the peer's kernel has acknowledged all of it
 * @IBRELK_LEVEL_MATCHED: a receive has taken it (synchronous send)
 */
enum ibrelk_level {
	IBRELK_LEVEL_DEFAULT = 0,
	IBRELK_LEVEL_BUFFERED = 1,
	IBRELK_LEVEL_DELIVERED = 2,
	IBRELK_LEVEL_MATCHED = 3,
};

#define IBRELK_CMD_NO_SUCCESS	(1u << 0)	/* no completion unless it fails */
#define IBRELK_CMD_UNTAGGED	(1u << 1)	/* the untagged match space; tag and ignore must be 0, but see IBRELK_TAG_WRITTEN */
#define IBRELK_CMD_IMMEDIATE	(1u << 2)	/* .immediate travels with the message; PUT: the peer's process is told */
#define IBRELK_CMD_IOVEC	(1u << 3)	/* SEND, RECV, PUT, GET: .addr is an array of .length struct ibrelk_iovec */
#define IBRELK_CMD_REGION	(1u << 4)	/* reserved: .addr is an offset in region .region */
#define IBRELK_CMD_CLAIMED	(1u << 5)	/* RECV: .tag is a claim: the message of that */

/*
 * With IBRELK_CMD_UNTAGGED: tag of a receive, probe or claim, whose .ignore has to be all lower bits, for messages that
 * tell of puts; the lower bits of the completion's tag are the put's length, bytes.
 */
#define IBRELK_TAG_WRITTEN	(1ull << 63)

/**
 * struct ibrelk_iovec - one piece of a buffer that is in several
 * @addr: its first byte
 * @length: bytes; may be 0
 *
 * The pieces may lie anywhere, in any order. A receive's pieces that overlap end with some of what is written to
 * them. The array is read when the command is accepted, and not afterwards.
 */
struct ibrelk_iovec {
	__u64 addr;
	__u64 length;
};
#define IBRELK_IOVEC_MAX	1024		/* pieces of a buffer */

/**
 * struct ibrelk_command - one command
 * @opcode: enum ibrelk_opcode
 * @level: SEND: enum ibrelk_level; else 0
 * @flags: IBRELK_CMD_*; PUT: only IBRELK_CMD_NO_SUCCESS, IBRELK_CMD_IOVEC and IBRELK_CMD_IMMEDIATE; GET: only the first
 *	two; ATOMIC: only the first
 * @peer: SEND, PUT, GET, ATOMIC: destination handle; RECV, RECV_MULTI, PROBE, CLAIM: source handle or IBRELK_PEER_ANY, but zero
 *	with IBRELK_CMD_CLAIMED
 * @user_data: comes back in the completion
 * @addr: buffer; CANCEL: user_data of the receives to cancel; ATOMIC: operands, zero with IBRELK_ATOMIC_READ
 * @length: bytes of the buffer; ATOMIC: of all elements, at most IBRELK_ATOMIC_BYTES; with IBRELK_CMD_IOVEC: pieces, at most IBRELK_IOVEC_MAX
 * @tag: SEND: of the message; RECV, RECV_MULTI, PROBE, CLAIM: wanted; DISCARD, and with IBRELK_CMD_CLAIMED: the
 *	claim; ATOMIC: address of a buffer for what was there, as long as the operands; zero: it is not wanted
 * @ignore: RECV, RECV_MULTI, PROBE, CLAIM: bits of @tag that need not match; ATOMIC: address of the second operands, of
 *	those that compare, and IBRELK_ATOMIC_MSWAP
 * @immediate: SEND, PUT: with IBRELK_CMD_IMMEDIATE
 * @region: zero (reserved for region objects)
 * @messages: RECV_MULTI: most messages that it takes, at least 1; ATOMIC: IBRELK_ATOMIC()
 * @remote_addr: PUT, GET, ATOMIC: address in the peer's process; ATOMIC: a multiple of an element's size
 * @remote_key: PUT, GET, ATOMIC: .key of a region that contains all of it. ATOMIC: peers have to be allowed to write to
 *	it, unless it is IBRELK_ATOMIC_READ, and to read from it, if what was there is wanted
 * @room: RECV_MULTI: it ends when fewer bytes than this are left; 0 is as 1
 * @reserved: zero
 *
 * Members that an opcode does not use are zero.
 */
struct ibrelk_command {
	__u8  opcode;
	__u8  level;
	__u16 flags;
	__u32 peer;
	__u64 user_data;
	__u64 addr;
	__u64 length;
	__u64 tag;
	__u64 ignore;
	__u64 immediate;
	__u32 region;
	__u32 messages;
	__u64 remote_addr;
	__u64 remote_key;
	__u64 room;
	__u64 reserved;
};

/**
 * struct ibrelk_submit - IBRELK_IOC_SUBMIT by ioctl
 * @commands: address of an array of struct ibrelk_command
 * @count: commands in it, 1 to batch_max
 * @flags: zero
 *
 * The call returns the number of accepted commands.
 */
struct ibrelk_submit {
	__u64 commands;
	__u32 count;
	__u32 flags;
};

/** struct ibrelk_submit_uring - payload of an IORING_OP_URING_CMD; as struct ibrelk_submit */
struct ibrelk_submit_uring {
	__u64 commands;
	__u32 count;
	__u32 flags;
};

#define IBRELK_IOC_SUBMIT		_IOW(IBRELK_IOC_MAGIC, 0x40, struct ibrelk_submit)
#define IBRELK_IOC_PEER_ADD		_IOWR(IBRELK_IOC_MAGIC, 0x41, struct ibrelk_peer)
#define IBRELK_IOC_PEER_QUERY		_IOWR(IBRELK_IOC_MAGIC, 0x42, struct ibrelk_peer)

#endif /* IBRELK_UAPI_H */
