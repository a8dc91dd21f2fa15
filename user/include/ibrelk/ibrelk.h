/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/**
 * @file ibrelk.h
 * @brief The C interface of libibrelk: reliable, ordered, tagged messages through /dev/ibrelk.
 *
 * The library is thin: the kernel module does the protocol, this library opens its descriptors, hands
 * over batches of commands, and reads completions from a mapped ring without a system call. A program
 *
 *   1. opens the device, makes a ring and an endpoint that is bound to it;
 *   2. names its peers (ibrelk_endpoint_peer_add()), which costs no communication;
 *   3. submits sends and receives, and takes their completions from the ring.
 *
 * Conventions, unless a function says otherwise:
 *   - Functions that return int return 0 or a count, or a negative errno; errno itself stays as it was.
 *     ibrelk_error_text() says what an error means and what to do about it.
 *   - A buffer named in a command belongs to the kernel from its submission to its completion.
 *   - An endpoint may be used by several threads at once. A ring has one consumer at a time: peek,
 *     advance, poll and wait on one ring must not run in two threads at once.
 *   - Opening and closing allocates and may sleep; submitting, peeking and polling allocates nothing in user
 * space.
 *   - After fork() only the parent may go on using an object; the child may only exec or exit.
 *   - No function may be called from a signal handler, except ibrelk_ring_peek().
 *
 * <ibrelk/ibrelk.hpp> is the C++20 face of the same functions.
 */
#ifndef IBRELK_H
#define IBRELK_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <ibrelk/uapi.h>

#ifdef __cplusplus
#define IBRELK_NOEXCEPT noexcept
extern "C" {
#else
#define IBRELK_NOEXCEPT
#endif

/* The library is compiled with hidden visibility; what this header declares is what it shows. */
#pragma GCC visibility push(default)

/** Time limit that never runs out, in nanoseconds. */
#define IBRELK_NO_LIMIT UINT64_MAX

/** Room for the longest address text with its terminating zero, in bytes. */
#define IBRELK_ADDRESS_TEXT_MAX 80

/** An open /dev/ibrelk. */
struct ibrelk_device;
/** A completion ring, mapped. */
struct ibrelk_ring;
/** An endpoint, and the door by which commands reach it. */
struct ibrelk_endpoint;
/** Memory that stays pinned. */
struct ibrelk_region;

/* ---- errors, names, version ---------------------------------------------------------------------- */

/** @brief What was tried when an error came back; the same errno means different things. */
enum ibrelk_call {
	IBRELK_CALL_OPEN = 0,            /**< ibrelk_device_open() */
	IBRELK_CALL_DEVICE = 1,          /**< ibrelk_device_query(), ibrelk_device_dump() */
	IBRELK_CALL_RING_CREATE = 2,     /**< ibrelk_ring_open() */
	IBRELK_CALL_ENDPOINT_CREATE = 3, /**< ibrelk_endpoint_open() */
	IBRELK_CALL_PEER = 4,            /**< ibrelk_endpoint_peer_add(), ibrelk_endpoint_peer_query() */
	IBRELK_CALL_SUBMIT = 5,          /**< ibrelk_endpoint_submit() and its relatives */
	IBRELK_CALL_WAIT = 6,            /**< ibrelk_ring_wait_for() */
	IBRELK_CALL_COMPLETION = 7,      /**< the status of a completion */
	IBRELK_CALL_ADDRESS = 8,         /**< ibrelk_address_from_text() */
	IBRELK_CALL_REGION = 9,          /**< ibrelk_region_open() */
};

/**
 * @brief Says in a sentence what an error means, and what to do about it where that is known.
 * @param call  what was tried
 * @param error an errno, positive or negative
 * @return static text, never NULL; for an error that is not in our tables the text of strerror()
 *
 * Thread safe; does not allocate.
 */
const char *ibrelk_error_text(enum ibrelk_call call, int error) IBRELK_NOEXCEPT;

/**
 * @brief Name of a mode, such as "uc-reliable".
 * @param mode enum ibrelk_mode
 * @return static text; "unknown" for a number that is no mode
 */
const char *ibrelk_mode_name(uint32_t mode) IBRELK_NOEXCEPT;

/**
 * @brief Mode of a name; upper and lower case are the same.
 * @param name such as "uc-reliable" or "default"
 * @return enum ibrelk_mode, or -EINVAL (no such mode, or NULL)
 */
int ibrelk_mode_from_name(const char *name) IBRELK_NOEXCEPT;

/** @brief Version of this library, such as "0.1.0". */
const char *ibrelk_version(void) IBRELK_NOEXCEPT;

/* ---- addresses ----------------------------------------------------------------------------------- */

/**
 * @brief Reads an address from its text.
 * @param text    HOST, HOST:ENDPOINT, either followed by #GENERATION. HOST is an IPv4 address
 *                (10.1.0.2), an IPv6 address or GID in brackets ([fd00::1]), or * for any. ENDPOINT
 *                and GENERATION are decimal, 0 to 4294967295; missing, they are 0, which means any.
 * @param address where it goes; unchanged on error
 * @return 0, or -EINVAL (no such form, number out of range, or a NULL argument)
 *
 * Thread safe; does not allocate, and asks no name service.
 */
int ibrelk_address_from_text(const char *text, struct ibrelk_addr *address) IBRELK_NOEXCEPT;

/**
 * @brief Writes an address as text: 10.1.0.2:77, [fd00::1]:77, with #5 if it has a generation.
 * @param address the address
 * @param text    where the text goes, zero-terminated
 * @param bytes   room there; IBRELK_ADDRESS_TEXT_MAX is always enough
 * @return length of the text without the zero, or -ENOSPC (too little room), -EINVAL (NULL argument)
 */
int ibrelk_address_to_text(const struct ibrelk_addr *address, char *text, size_t bytes) IBRELK_NOEXCEPT;

/* ---- device -------------------------------------------------------------------------------------- */

/**
 * @brief Opens the device.
 * @param path   NULL for /dev/ibrelk
 * @param device where the handle goes; close it with ibrelk_device_close()
 * @return 0, or -ENOENT, -ENXIO, -ENODEV (module not loaded), -EACCES (not in group rdma), -EPERM (not in the
 * initial network namespace), -EMFILE, -ENFILE, -ENOMEM, -EPROTO (the module speaks another ABI version)
 */
int ibrelk_device_open(const char *path, struct ibrelk_device **device) IBRELK_NOEXCEPT;

/**
 * @brief Closes the device. Rings and endpoints made with it live on.
 * @param device the handle, or NULL
 */
void ibrelk_device_close(struct ibrelk_device *device) IBRELK_NOEXCEPT;

/** @brief The device's file descriptor; it stays the library's. */
int ibrelk_device_fd(const struct ibrelk_device *device) IBRELK_NOEXCEPT;

/**
 * @brief What the module is and can do: versions, modes, limits.
 * @param device the device
 * @param query  where it goes
 * @return 0, or -EFAULT (bad pointer)
 */
int ibrelk_device_query(const struct ibrelk_device *device, struct ibrelk_query *query) IBRELK_NOEXCEPT;

/**
 * @brief Reads statistics.
 * @param device      the device
 * @param kind        enum ibrelk_dump_kind
 * @param buffer      array of struct ibrelk_endpoint_info, ibrelk_path_info or ibrelk_port_info
 * @param entry_bytes size of one entry as the caller knows it; what a module of another version does
 *                    not fill is zero
 * @param entries     in: room in the array, in entries; out: entries written
 * @param total       out: entries that exist; more than *entries means the array was too small
 * @return 0, or -EINVAL (kind), -EFAULT (buffer), -ENOMEM
 */
int ibrelk_device_dump(const struct ibrelk_device *device, uint32_t kind, void *buffer, uint32_t entry_bytes,
	uint32_t *entries, uint32_t *total) IBRELK_NOEXCEPT;

/* ---- memory that stays pinned -------------------------------------------------------------------- */

/**
 * @brief Pins memory that many messages are going to be sent from, or received into. Never needed for that:
 * what is used again and again stays pinned by itself, as far as there is room. A region is not pushed out by
 * anything else, and is pinned before it is used first. It can also have a key, by which peers put into it
 * (ibrelk_command_put()), get from it (ibrelk_command_get()), and compute in it (ibrelk_command_atomic()).
 * @param device  the device
 * @param address where it begins
 * @param length  bytes, 1 to IBRELK_REGION_MAX
 * @param flags   IBRELK_REGION_WRITE if messages are going to be received into it; with
 * IBRELK_REGION_REMOTE_WRITE also if peers may put into it; IBRELK_REGION_REMOTE_READ if they may get from
 * it; else 0
 * @param region  out: the region; ibrelk_region_close() ends it
 * @return 0, or -EINVAL (length, flags), -EFAULT (not mapped, or not writable), -ENOMEM (no memory, or more
 * than the process may have pinned: ulimit -l), -EOPNOTSUPP (to be received into, but of a file that is
 * written back to a disk or a server), -EAGAIN (another thread was changing the memory), -ENOSPC (too many
 * regions with a key on this node), -EMFILE
 *
 * Commands of this process do not mention it. When other memory comes to be there (munmap(), fork(), ...) it
 * is of no more use, but does no harm. Commands that use its memory may be under way when it is closed.
 * Thread safe.
 */
int ibrelk_region_open(const struct ibrelk_device *device, const void *address, size_t length, uint32_t flags,
	struct ibrelk_region **region) IBRELK_NOEXCEPT;

/**
 * @brief The key by which peers put into the region, or get from it: good for every endpoint of this process,
 * and for no other.
 * @param region the region
 * @return the key, never 0; 0 if the region was made without IBRELK_REGION_REMOTE_WRITE or _READ
 */
uint64_t ibrelk_region_key(const struct ibrelk_region *region) IBRELK_NOEXCEPT;

/**
 * @brief Ends a region: its memory is pinned no longer than messages need it. NULL is fine. Its key ends
 * first: puts and gets that are under way fail for those who sent them, mostly with -EACCES (-ECONNRESET: the
 * answer to a get had begun), and when this returns none writes or reads any more. (It waits for that, which
 * takes no peer; only who is killed meanwhile does not.)
 */
void ibrelk_region_close(struct ibrelk_region *region) IBRELK_NOEXCEPT;

/* ---- completion ring ----------------------------------------------------------------------------- */

/**
 * @brief Makes a completion ring and maps it.
 * @param device  the device
 * @param entries entries wanted, 1 to ibrelk_query.ring_entries_max; rounded up to a power of two
 * @param ring    where the handle goes; close it with ibrelk_ring_close()
 * @return 0, or -EINVAL (entries), -EMFILE, -ENOMEM, -EPROTO (the module gave a ring that makes no sense)
 */
int ibrelk_ring_open(
	const struct ibrelk_device *device, uint32_t entries, struct ibrelk_ring **ring) IBRELK_NOEXCEPT;

/**
 * @brief Unmaps and closes the ring. Endpoints bound to it should be closed before; if not, their
 *        further completions are lost, but nothing worse happens.
 * @param ring the handle, or NULL
 */
void ibrelk_ring_close(struct ibrelk_ring *ring) IBRELK_NOEXCEPT;

/**
 * @brief The ring's file descriptor, for poll, epoll or io_uring: readable (POLLIN) while there are
 *        completions. It stays the library's.
 */
int ibrelk_ring_fd(const struct ibrelk_ring *ring) IBRELK_NOEXCEPT;

/** @brief Number of entries that the ring got. */
uint32_t ibrelk_ring_entries(const struct ibrelk_ring *ring) IBRELK_NOEXCEPT;

/**
 * @brief Looks at the completions that are there, without consuming them.
 * @param ring  the ring
 * @param count out: completions in the returned run; more may follow when the ring wraps around
 * @return the first of them, valid until ibrelk_ring_advance(); NULL if there is none
 *
 * No system call, except one if the ring is empty and the kernel holds completions that did not fit.
 */
const struct ibrelk_completion *ibrelk_ring_peek(struct ibrelk_ring *ring, uint32_t *count) IBRELK_NOEXCEPT;

/**
 * @brief Consumes completions, so that the kernel can use their room again.
 * @param ring  the ring
 * @param count how many, at most what ibrelk_ring_peek() returned (more is cut to what is there)
 */
void ibrelk_ring_advance(struct ibrelk_ring *ring, uint32_t count) IBRELK_NOEXCEPT;

/**
 * @brief Copies completions out and consumes them. No system call, except as for ibrelk_ring_peek().
 * @param ring        the ring
 * @param completions where they go
 * @param count       room there
 * @return number of completions, 0 if there are none
 */
uint32_t ibrelk_ring_poll(
	struct ibrelk_ring *ring, struct ibrelk_completion *completions, uint32_t count) IBRELK_NOEXCEPT;

/** @brief How to wait; zero members mean none of that. */
struct ibrelk_wait_options {
	uint32_t count;        /**< completions to wait for, 1 to the ring's entries */
	uint32_t flags;        /**< zero */
	uint64_t timeout_ns;   /**< longest wait; 0: only look; IBRELK_NO_LIMIT: no limit */
	uint64_t spin_ns;      /**< how long of it to watch the mapped ring, in user space, before sleeping */
	uint64_t busy_poll_ns; /**< how long of the rest the kernel polls the adapter before sleeping */
};

/**
 * @brief Waits until completions are there.
 * @param ring    the ring
 * @param options how
 * @return number of completions in the ring: fewer than count if time ran out; or -EINVAL (count, flags),
 *         -EINTR (a signal came; without a time limit, one that has a handler: a process that was stopped and
 *         goes on, waits on)
 *
 * Returns without a system call if enough are there already, or come while it spins.
 */
int ibrelk_ring_wait_for(struct ibrelk_ring *ring, const struct ibrelk_wait_options *options) IBRELK_NOEXCEPT;

/* ---- commands ------------------------------------------------------------------------------------ */

/**
 * @brief Fills in a tagged send.
 * @param peer      handle of the destination
 * @param buffer    the message; the kernel's until the completion
 * @param bytes     its length, 0 to ibrelk_query.message_max
 * @param tag       any 64 bits
 * @param user_data comes back in the completion
 * @return the command; set .level and .flags for other than the defaults
 */
static inline struct ibrelk_command ibrelk_command_send(
	uint32_t peer, const void *buffer, uint64_t bytes, uint64_t tag, uint64_t user_data) IBRELK_NOEXCEPT
{
	struct ibrelk_command command;

	memset(&command, 0, sizeof(command));
	command.opcode = IBRELK_OP_SEND;
	command.peer = peer;
	command.user_data = user_data;
	command.addr = (uint64_t)(uintptr_t)buffer;
	command.length = bytes;
	command.tag = tag;
	return command;
}

/**
 * @brief Fills in a put: the buffer is written into a region of the peer's process, which has no part in it.
 * @param peer      handle of an endpoint of that process
 * @param buffer    what is written; the kernel's until the completion
 * @param bytes     its length, 0 to ibrelk_query.message_max; 0 only tells whether it might be done
 * @param address   where to, in the peer's process
 * @param key       ibrelk_region_key() of a region there that contains all of it
 * @param user_data comes back in the completion
 * @return the command
 *
 * It completes when all of it is there, with 0, or with an error of a send, or with -EACCES (no such key, or
 * the region has ended), -EFAULT (not all of it in the region, or not mapped any more, there or here). The
 * peer gets no completion, unless IBRELK_CMD_IMMEDIATE and .immediate are set: then a message of no bytes is
 * sent there, with that value, when the put is in its place, and the put completes when it has been delivered,
 * too. A receive that takes such messages has IBRELK_CMD_UNTAGGED, tag IBRELK_TAG_WRITTEN, and ignores all lower
 * bits; these tell, in the completion, how long the put was. (Any other message that is sent before the put is
 * complete may be received before it is in its place, if it is longer than ibrelk_query.eager_max, or has no
 * credit.)
 */
static inline struct ibrelk_command ibrelk_command_put(uint32_t peer, const void *buffer, uint64_t bytes,
	uint64_t address, uint64_t key, uint64_t user_data) IBRELK_NOEXCEPT
{
	struct ibrelk_command command;

	memset(&command, 0, sizeof(command));
	command.opcode = IBRELK_OP_PUT;
	command.peer = peer;
	command.user_data = user_data;
	command.addr = (uint64_t)(uintptr_t)buffer;
	command.length = bytes;
	command.remote_addr = address;
	command.remote_key = key;
	return command;
}

/**
 * @brief Fills in a get: a part of a region of the peer's process, which has no part in it, is read into the
 * buffer.
 * @param peer      handle of an endpoint of that process
 * @param buffer    where it goes; the kernel's until the completion
 * @param bytes     how much, 0 to ibrelk_query.message_max
 * @param address   where from, in the peer's process
 * @param key       ibrelk_region_key() of a region there that contains all of it
 * @param user_data comes back in the completion
 * @return the command
 *
 * It completes when all of it is here, with 0, or with the errors of a put. It sees every put to the same
 * endpoint that was complete when it was submitted.
 */
static inline struct ibrelk_command ibrelk_command_get(uint32_t peer, void *buffer, uint64_t bytes,
	uint64_t address, uint64_t key, uint64_t user_data) IBRELK_NOEXCEPT
{
	struct ibrelk_command command = ibrelk_command_put(peer, buffer, bytes, address, key, user_data);

	command.opcode = IBRELK_OP_GET;
	return command;
}

/**
 * @brief Fills in an atomic: the peer's kernel computes in a region of the peer's process, which has no part
 * in it.
 * @param peer      handle of an endpoint of that process
 * @param what      IBRELK_ATOMIC(operation, type of the elements): enum ibrelk_atomic_op, enum
 * ibrelk_atomic_type
 * @param operand   the elements' operands, read before this is accepted; NULL with IBRELK_ATOMIC_READ
 * @param compare   likewise what those that compare (IBRELK_ATOMIC_CSWAP and the like) compare with, and the
 * mask of IBRELK_ATOMIC_MSWAP; else NULL
 * @param before    where it goes what was there, the kernel's until the completion; NULL: not wanted
 * @param bytes     length of each of them, 1 to IBRELK_ATOMIC_BYTES, a multiple of an element's size
 * @param address   where, in the peer's process; a multiple of an element's size
 * @param key       ibrelk_region_key() of a region there that contains all of it, and that peers may put into
 * (but for IBRELK_ATOMIC_READ), and get from, if @p before is wanted
 * @param user_data comes back in the completion
 * @return the command
 *
 * Each element is replaced at once for whoever uses atomic instructions on it, and for all other atomics.
 * Those between the same two endpoints are computed in their order. It completes when it is done, with 0, or
 * with the errors of a put. If it fails with another error than -EACCES, it was computed once, or not at all.
 */
static inline struct ibrelk_command ibrelk_command_atomic(uint32_t peer, uint32_t what, const void *operand,
	const void *compare, void *before, uint64_t bytes, uint64_t address, uint64_t key,
	uint64_t user_data) IBRELK_NOEXCEPT
{
	struct ibrelk_command command = ibrelk_command_put(peer, operand, bytes, address, key, user_data);

	command.opcode = IBRELK_OP_ATOMIC;
	command.messages = what;
	command.tag = (uint64_t)(uintptr_t)before;
	command.ignore = (uint64_t)(uintptr_t)compare;
	return command;
}

/**
 * @brief Fills in a tagged receive.
 * @param peer      handle of the wanted source, or IBRELK_PEER_ANY
 * @param buffer    where the message goes; the kernel's until the completion
 * @param bytes     room there; a longer message completes with -EMSGSIZE and the prefix that fits
 * @param tag       wanted tag
 * @param ignore    bits of the tag that need not match
 * @param user_data comes back in the completion
 * @return the command
 */
static inline struct ibrelk_command ibrelk_command_recv(uint32_t peer, void *buffer, uint64_t bytes,
	uint64_t tag, uint64_t ignore, uint64_t user_data) IBRELK_NOEXCEPT
{
	struct ibrelk_command command;

	memset(&command, 0, sizeof(command));
	command.opcode = IBRELK_OP_RECV;
	command.peer = peer;
	command.user_data = user_data;
	command.addr = (uint64_t)(uintptr_t)buffer;
	command.length = bytes;
	command.tag = tag;
	command.ignore = ignore;
	return command;
}

/**
 * @brief Makes a send, put, get or receive one of a buffer in several pieces.
 * @param command as ibrelk_command_send(), _put(), _get(), _recv() or _recv_claimed() made it;
 * its buffer is replaced
 * @param pieces  where the parts of the message are, in its order; read when the command is submitted
 * @param count   how many, 0 to IBRELK_IOVEC_MAX
 * @return the command
 */
static inline struct ibrelk_command ibrelk_command_pieces(
	struct ibrelk_command command, const struct ibrelk_iovec *pieces, uint32_t count) IBRELK_NOEXCEPT
{
	command.flags |= IBRELK_CMD_IOVEC;
	command.addr = (uint64_t)(uintptr_t)pieces;
	command.length = count;
	return command;
}

/**
 * @brief Fills in the cancelling of posted receives.
 * @param target    user_data of the receives to cancel; each completes with -ECANCELED
 * @param user_data of this command; its completion's length says how many were cancelled, its status is
 *                  -ENOENT if none was
 * @return the command
 */
static inline struct ibrelk_command ibrelk_command_cancel(uint64_t target, uint64_t user_data) IBRELK_NOEXCEPT
{
	struct ibrelk_command command;

	memset(&command, 0, sizeof(command));
	command.opcode = IBRELK_OP_CANCEL;
	command.user_data = user_data;
	command.addr = target;
	return command;
}

/**
 * @brief Fills in a tagged receive of many messages, which come one after the other in one buffer.
 * @param peer      handle of the wanted source, or IBRELK_PEER_ANY
 * @param buffer    where the messages go; the kernel's until the completion with IBRELK_CQE_RELEASED
 * @param bytes     room there, 1 to ibrelk_query.multi_max
 * @param messages  most messages that it takes, at least 1; each of them counts as a posted receive
 * @param tag       wanted tag
 * @param ignore    bits of the tag that need not match
 * @param user_data comes back in each completion
 * @return the command; with .room set it ends as soon as fewer bytes than that are left
 *
 * Each message has a completion, whose .offset says where in the buffer it is. The last completion has
 * IBRELK_CQE_RELEASED, and belongs to no message.
 */
static inline struct ibrelk_command ibrelk_command_recv_multi(uint32_t peer, void *buffer, uint64_t bytes,
	uint32_t messages, uint64_t tag, uint64_t ignore, uint64_t user_data) IBRELK_NOEXCEPT
{
	struct ibrelk_command command = ibrelk_command_recv(peer, buffer, bytes, tag, ignore, user_data);

	command.opcode = IBRELK_OP_RECV_MULTI;
	command.messages = messages;
	return command;
}

/**
 * @brief Fills in a look for a message that a receive would take now.
 * @param peer      handle of the wanted source, or IBRELK_PEER_ANY
 * @param tag       wanted tag
 * @param ignore    bits of the tag that need not match
 * @param user_data comes back in the completion, which describes the message; its status is -ENOMSG if none
 * waits
 * @return the command
 */
static inline struct ibrelk_command ibrelk_command_probe(
	uint32_t peer, uint64_t tag, uint64_t ignore, uint64_t user_data) IBRELK_NOEXCEPT
{
	/* NOLINTNEXTLINE(modernize-use-nullptr): also C */
	struct ibrelk_command command = ibrelk_command_recv(peer, NULL, 0, tag, ignore, user_data);

	command.opcode = IBRELK_OP_PROBE;
	return command;
}

/**
 * @brief Fills in a claim: as ibrelk_command_probe(), but the message is kept for who names the completion's
 * .claim.
 * @return the command
 */
static inline struct ibrelk_command ibrelk_command_claim(
	uint32_t peer, uint64_t tag, uint64_t ignore, uint64_t user_data) IBRELK_NOEXCEPT
{
	struct ibrelk_command command = ibrelk_command_probe(peer, tag, ignore, user_data);

	command.opcode = IBRELK_OP_CLAIM;
	return command;
}

/**
 * @brief Fills in the receive of a message that was claimed.
 * @param claim     from the completion of the claim
 * @param buffer    where the message goes; the kernel's until the completion
 * @param bytes     room there; a longer message completes with -EMSGSIZE and the prefix that fits
 * @param user_data comes back in the completion
 * @return the command
 */
static inline struct ibrelk_command ibrelk_command_recv_claimed(
	uint64_t claim, void *buffer, uint64_t bytes, uint64_t user_data) IBRELK_NOEXCEPT
{
	struct ibrelk_command command = ibrelk_command_recv(0, buffer, bytes, claim, 0, user_data);

	command.flags = IBRELK_CMD_CLAIMED;
	return command;
}

/**
 * @brief Fills in the throwing away of a message that was claimed; for its sender it has been received.
 * @param claim     from the completion of the claim
 * @param user_data comes back in the completion
 * @return the command
 */
static inline struct ibrelk_command ibrelk_command_discard(uint64_t claim, uint64_t user_data) IBRELK_NOEXCEPT
{
	struct ibrelk_command command;

	memset(&command, 0, sizeof(command));
	command.opcode = IBRELK_OP_DISCARD;
	command.user_data = user_data;
	command.tag = claim;
	return command;
}

/* ---- endpoint ------------------------------------------------------------------------------------ */

/**
 * @brief By which door commands enter the kernel. Both do the same.
 *
 * IBRELK_DOOR_AUTO obeys the environment variable IBRELK_DOOR (auto, ioctl, uring or prefer-uring), and
 * is the ioctl without it: a batch is accepted before either call returns, so io_uring has nothing to
 * overlap and only adds the cost of its two queues. An explicit choice beats the environment.
 */
enum ibrelk_door {
	IBRELK_DOOR_AUTO = 0,         /**< the environment's choice, else the faster one: ioctl */
	IBRELK_DOOR_IOCTL = 1,        /**< ioctl */
	IBRELK_DOOR_URING = 2,        /**< io_uring; creating the endpoint fails where it does not work */
	IBRELK_DOOR_PREFER_URING = 3, /**< io_uring where it works, else quietly ioctl */
};

/** @brief What an endpoint should be like. All zero, except a send ring, is a good endpoint. */
struct ibrelk_endpoint_options {
	uint32_t mode;                 /**< enum ibrelk_mode */
	uint32_t door;                 /**< enum ibrelk_door */
	struct ibrelk_ring *send_ring; /**< where sends complete; required */
	struct ibrelk_ring *recv_ring; /**< where receives and cancels complete; NULL: the send ring */
	struct ibrelk_addr local;      /**< wanted GID (zero: any) and endpoint number (0: any) */
	uint64_t job_key;              /**< only endpoints with the same key talk; 0: the user's own */
	uint64_t unexpected_bytes;     /**< most memory for early messages, bytes; 0: module default */
	uint32_t sends;                /**< most outstanding sends; 0: module default */
	uint32_t recvs;                /**< most posted receives; 0: module default */
	uint64_t reserved[4];          /**< zero */
};

/**
 * @brief Makes an endpoint.
 * @param device   the device
 * @param options  what it should be like
 * @param endpoint where the handle goes; close it with ibrelk_endpoint_close()
 * @return 0, or
 *         -EINVAL (mode, door, limits, reserved members, no ring, or IBRELK_DOOR has no known value),
 *         -EPERM (native modes are not allowed on this node), -EADDRINUSE (endpoint number taken),
 *         -EADDRNOTAVAIL (no usable port has that GID), -ENODEV (no usable port for the mode),
 *         -EBADF (a ring was made by another user), -EMFILE, -ENFILE, -ENOMEM,
 *         -ENOTSUP (io_uring was forced and does not work here)
 */
int ibrelk_endpoint_open(const struct ibrelk_device *device, const struct ibrelk_endpoint_options *options,
	struct ibrelk_endpoint **endpoint) IBRELK_NOEXCEPT;

/**
 * @brief Closes the endpoint. Buffered sends still go out, receives are cancelled; completions still go to
 *        rings that are open.
 * @param endpoint the handle, or NULL. No other thread may use it any more
 */
void ibrelk_endpoint_close(struct ibrelk_endpoint *endpoint) IBRELK_NOEXCEPT;

/** @brief The endpoint's file descriptor, for poll, epoll or one's own io_uring; it stays the library's. */
int ibrelk_endpoint_fd(const struct ibrelk_endpoint *endpoint) IBRELK_NOEXCEPT;

/** @brief The door in use: IBRELK_DOOR_IOCTL or IBRELK_DOOR_URING. */
enum ibrelk_door ibrelk_endpoint_door(const struct ibrelk_endpoint *endpoint) IBRELK_NOEXCEPT;

/** @brief The mode in use, never IBRELK_MODE_DEFAULT. */
enum ibrelk_mode ibrelk_endpoint_mode(const struct ibrelk_endpoint *endpoint) IBRELK_NOEXCEPT;

/**
 * @brief The endpoint's own address, with its generation, to be told to others.
 * @param endpoint the endpoint
 * @param address  where it goes
 */
void ibrelk_endpoint_address(
	const struct ibrelk_endpoint *endpoint, struct ibrelk_addr *address) IBRELK_NOEXCEPT;

/**
 * @brief Names a peer. Does not talk to it: contact is made by the first command that needs it.
 * @param endpoint the endpoint
 * @param address  the peer's address; neither its GID nor its endpoint number may be zero
 * @param handle   out: its handle; the same address gives the same handle
 * @return 0, or -EINVAL (GID or endpoint number is zero), -ENOMEM, -ENOSPC (too many peers)
 */
int ibrelk_endpoint_peer_add(struct ibrelk_endpoint *endpoint, const struct ibrelk_addr *address,
	uint32_t *handle) IBRELK_NOEXCEPT;

/**
 * @brief Address of a peer handle, such as the source in a completion.
 * @param endpoint the endpoint
 * @param handle   the handle
 * @param address  where the address goes
 * @return 0, or -ENOENT (no such handle)
 */
int ibrelk_endpoint_peer_query(
	struct ibrelk_endpoint *endpoint, uint32_t handle, struct ibrelk_addr *address) IBRELK_NOEXCEPT;

/**
 * @brief Submits a batch of commands, in order.
 * @param endpoint the endpoint
 * @param commands the commands; they may be overwritten once this returns
 * @param count    how many, 1 to ibrelk_query.batch_max
 * @return how many were accepted, from the start of the batch; 0: nothing fits now. Each accepted command
 *         completes exactly once (or not at all if it has IBRELK_CMD_NO_SUCCESS and succeeds).
 *         A wrong command ends the batch before it; if it is the first:
 *         -EINVAL (opcode, level, flags, members that the opcode does not use, length above message_max,
 *         count), -ENOENT (no such peer handle), -EFAULT (a bad pointer), -EOPNOTSUPP (opcode or flag of a
 *         later version), -ENOMEM (also: the buffer cannot be pinned, and bounce memory is used up; or a
 *         send is the first to its peer while 65536 flows to that node are being opened);
 *         for a send also -ENETUNREACH (no route to the peer by an RDMA port), -EHOSTUNREACH (RC or UC
 *         to the very address that it goes out by, without loopback), -EADDRNOTAVAIL (the endpoint's own
 *         address is gone), -ENODEV (no usable port, or none that has the mode). -EINTR if the process is
 *         being killed; -EIO if the endpoint's io_uring broke
 *
 * Thread safe; does not allocate. Nothing is retried.
 */
int ibrelk_endpoint_submit(struct ibrelk_endpoint *endpoint, const struct ibrelk_command *commands,
	uint32_t count) IBRELK_NOEXCEPT;

/**
 * @brief Waits until there is room for a command, after fewer were accepted than were given.
 * @param endpoint   the endpoint
 * @param opcode     enum ibrelk_opcode of the first command that was not accepted
 * @param timeout_ns longest wait; 0: only look; IBRELK_NO_LIMIT: no limit
 * @return 1: there is room; 0: time ran out; or -EINTR (a signal came)
 *
 * Thread safe. The same in an event loop: poll or epoll on ibrelk_endpoint_fd(), with POLLOUT for sends,
 * POLLWRBAND for receives and POLLPRI for all others. Room that is lacking because nobody reads a ring does
 * not come by waiting.
 */
int ibrelk_endpoint_wait_room(
	struct ibrelk_endpoint *endpoint, uint8_t opcode, uint64_t timeout_ns) IBRELK_NOEXCEPT;

/** @brief Is given each completion that ibrelk_endpoint_submit_all() takes from a ring. */
typedef void (*ibrelk_completion_handler)(void *context, const struct ibrelk_completion *completion);

/**
 * @brief Submits a whole batch, of any length, waiting for room as often as it takes.
 * @param endpoint   the endpoint
 * @param commands   the commands
 * @param count      how many
 * @param ring       a ring of the endpoint whose completions are handed to @p handler to make room, or NULL
 *                   to leave them alone (another thread consumes them)
 * @param handler    called for each, in this thread; required if there is a ring
 * @param context    first argument of the handler
 * @param timeout_ns longest wait, or IBRELK_NO_LIMIT
 * @return how many were accepted: fewer than count if time ran out or a command is wrong after others were
 *         accepted (submitting the rest then tells); -ETIMEDOUT (none fitted in time), -EINTR (a signal
 *         came before any was accepted), or an error of ibrelk_endpoint_submit() for the first command
 *
 * Waits for completions rather than in a loop. Counts as a consumer of the ring.
 */
int ibrelk_endpoint_submit_all(struct ibrelk_endpoint *endpoint, const struct ibrelk_command *commands,
	uint32_t count, struct ibrelk_ring *ring, ibrelk_completion_handler handler, void *context,
	uint64_t timeout_ns) IBRELK_NOEXCEPT;

/**
 * @brief Submits one tagged send; parameters as for ibrelk_command_send().
 * @return 0, -EAGAIN (nothing fits now), or an error of ibrelk_endpoint_submit()
 */
int ibrelk_endpoint_send(struct ibrelk_endpoint *endpoint, uint32_t peer, const void *buffer, uint64_t bytes,
	uint64_t tag, uint64_t user_data) IBRELK_NOEXCEPT;

/**
 * @brief Submits one put; parameters as for ibrelk_command_put().
 * @return 0, -EAGAIN (nothing fits now), or an error of ibrelk_endpoint_submit()
 */
int ibrelk_endpoint_put(struct ibrelk_endpoint *endpoint, uint32_t peer, const void *buffer, uint64_t bytes,
	uint64_t address, uint64_t key, uint64_t user_data) IBRELK_NOEXCEPT;

/**
 * @brief Submits one get; parameters as for ibrelk_command_get().
 * @return 0, -EAGAIN (nothing fits now), or an error of ibrelk_endpoint_submit()
 */
int ibrelk_endpoint_get(struct ibrelk_endpoint *endpoint, uint32_t peer, void *buffer, uint64_t bytes,
	uint64_t address, uint64_t key, uint64_t user_data) IBRELK_NOEXCEPT;

/**
 * @brief Submits one atomic; parameters as for ibrelk_command_atomic().
 * @return 0, -EAGAIN (nothing fits now), or an error of ibrelk_endpoint_submit()
 */
int ibrelk_endpoint_atomic(struct ibrelk_endpoint *endpoint, uint32_t peer, uint32_t what,
	const void *operand, const void *compare, void *before, uint64_t bytes, uint64_t address,
	uint64_t key, uint64_t user_data) IBRELK_NOEXCEPT;

/**
 * @brief Submits one tagged receive; parameters as for ibrelk_command_recv().
 * @return 0, -EAGAIN (nothing fits now), or an error of ibrelk_endpoint_submit()
 */
int ibrelk_endpoint_recv(struct ibrelk_endpoint *endpoint, uint32_t peer, void *buffer, uint64_t bytes,
	uint64_t tag, uint64_t ignore, uint64_t user_data) IBRELK_NOEXCEPT;

/**
 * @brief Submits the cancelling of receives; parameters as for ibrelk_command_cancel().
 * @return 0, -EAGAIN (nothing fits now), or an error of ibrelk_endpoint_submit()
 */
int ibrelk_endpoint_cancel(
	struct ibrelk_endpoint *endpoint, uint64_t target, uint64_t user_data) IBRELK_NOEXCEPT;

/**
 * @brief Submits one receive of many messages; parameters as for ibrelk_command_recv_multi().
 * @return 0, -EAGAIN (nothing fits now), or an error of ibrelk_endpoint_submit()
 */
int ibrelk_endpoint_recv_multi(struct ibrelk_endpoint *endpoint, uint32_t peer, void *buffer, uint64_t bytes,
	uint32_t messages, uint64_t tag, uint64_t ignore, uint64_t user_data) IBRELK_NOEXCEPT;

/**
 * @brief Submits a probe; parameters as for ibrelk_command_probe().
 * @return 0, -EAGAIN (nothing fits now), or an error of ibrelk_endpoint_submit()
 */
int ibrelk_endpoint_probe(struct ibrelk_endpoint *endpoint, uint32_t peer, uint64_t tag, uint64_t ignore,
	uint64_t user_data) IBRELK_NOEXCEPT;

/**
 * @brief Submits a claim; parameters as for ibrelk_command_claim().
 * @return 0, -EAGAIN (nothing fits now), or an error of ibrelk_endpoint_submit()
 */
int ibrelk_endpoint_claim(struct ibrelk_endpoint *endpoint, uint32_t peer, uint64_t tag, uint64_t ignore,
	uint64_t user_data) IBRELK_NOEXCEPT;

/**
 * @brief Submits the receive of what was claimed; parameters as for ibrelk_command_recv_claimed().
 * @return 0, -EAGAIN (nothing fits now), -ENOENT (no such claim), or an error of ibrelk_endpoint_submit()
 */
int ibrelk_endpoint_recv_claimed(struct ibrelk_endpoint *endpoint, uint64_t claim, void *buffer,
	uint64_t bytes, uint64_t user_data) IBRELK_NOEXCEPT;

/**
 * @brief Submits the throwing away of what was claimed; parameters as for ibrelk_command_discard().
 * @return 0, -EAGAIN (nothing fits now), -ENOENT (no such claim), or an error of ibrelk_endpoint_submit()
 */
int ibrelk_endpoint_discard(
	struct ibrelk_endpoint *endpoint, uint64_t claim, uint64_t user_data) IBRELK_NOEXCEPT;

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif /* IBRELK_H */
