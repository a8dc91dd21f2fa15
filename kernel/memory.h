/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * User memory that the kernel reads or writes after the system call: pinned (pins.h), window by window if it is large,
 * or stood in for by a bounce buffer where it cannot be pinned (RLIMIT_MEMLOCK, file mappings).
 */
#ifndef IBR_MEMORY_H
#define IBR_MEMORY_H

#include <linux/atomic.h>
#include <linux/compiler.h>
#include <linux/types.h>
#include <linux/workqueue.h>
#include <ibrelk/uapi.h>

/* Bytes of a window; at most two are resident at a time, so what is no longer than two always is. */
#define IBR_UMEM_WINDOW		(2u << 20)
#define IBR_UMEM_RESIDENT	(2 * IBR_UMEM_WINDOW)

struct bio_vec;
struct ibr_bounce;
struct ibr_pins;
struct ibr_space;
struct ibr_stretch;
struct mem_cgroup;
struct page;

/**
 * struct ibr_buffer - memory of a user, as a command names it
 * @length: bytes in all
 * @one: the piece, if it is only one; then, and only then, @pieces is NULL
 * @pieces: the pieces, none of them empty; allocated
 * @count: how many there are, at least 1
 */
struct ibr_buffer {
	u64 length;
	struct ibrelk_iovec one;
	struct ibrelk_iovec *pieces;
	u32 count;
};

/**
 * ibr_buffer_import() - which memory is it?
 * @buffer: filled in
 * @command: a send or a receive, checked: its .addr and .length, with IBRELK_CMD_IOVEC an array
 *
 * On success whoever has the buffer gives it to ibr_umem_init() or ibr_buffer_drop().
 * Return: 0; -EFAULT (the array, or a piece, cannot be the process's); -EINVAL (longer than a
 * message may be); -ENOMEM. Context: process.
 */
int ibr_buffer_import(struct ibr_buffer *buffer, const struct ibrelk_command *command);
void ibr_buffer_drop(struct ibr_buffer *buffer);
/** ibr_buffer_read() - copy all of it to @data. Return: 0 or -EFAULT. Context: process, the user's */
int ibr_buffer_read(const struct ibr_buffer *buffer, void *data);

/** struct ibr_umem_window - one resident stretch; private to memory.c */
struct ibr_umem_window {
	u64 offset;			/* a multiple of IBR_UMEM_WINDOW */
	unsigned long length;		/* 0: not resident; published last. Only memory that stands has a long one */
	u32 place;			/* where it begins in the first page, bytes */
	struct page **pages;		/* if it is pinned, and in one piece; part of these: */
	struct ibr_pins *pins;
	struct ibr_stretch *stretches;	/* if it is pinned, and in several pieces: these, and one more */
	struct ibr_bounce *bounce;	/* if it is not pinned */
};

/**
 * struct ibr_umem - a user buffer that a transfer reads or writes
 * @space: its address space, with a reference; NULL if there is nothing to pin
 * @length: bytes
 * @buffer: which memory; its .length is not used
 * @write: the kernel writes it (a receive)
 * @error: first error met by the worker, negative errno; stable when ready() or released() is
 *	called
 * @bounced: bytes that went through a bounce buffer
 * @window: what is resident; the window with index i is always in place i % 2
 * @limit: pages that the process may have pinned, if a worker is going to pin some; else IBR_LIMIT_OWN
 * @want: index of the first window that shall be resident
 * @work: the worker
 * @ready: set by the owner before it calls ibr_umem_advance()
 * @released: set by ibr_umem_finish()
 * @whole: of a part: what it is a part of
 * @standing: all of it is resident as long as it is there, in the first window
 * @readers: work requests for which an adapter may still read it; READERS_STOP while the worker waits for them
 * All but @error, @bounced, @length and @ready is private to memory.c.
 */
struct ibr_umem {
	struct ibr_space *space;
	u64 length;
	struct ibr_buffer buffer;
	bool write;
	int error;
	u64 bounced;
	struct ibr_umem_window window[2];
	unsigned long limit;
	u64 want;
	struct work_struct work;
	void (*ready)(struct ibr_umem *umem);
	void (*released)(struct ibr_umem *umem);
	struct ibr_umem *whole;
	bool standing;
	atomic_t readers;
};

/**
 * ibr_umem_init() - take hold of a user buffer when a command is accepted
 * @umem: zeroed memory of the owner
 * @space: the endpoint's address space; if the caller's is another one, nothing stays pinned for later
 * @buffer: what to take hold of; taken over on success. Length 0 is fine and pins nothing
 * @write: the kernel will write it
 *
 * Pins up to two windows at once; where the memory cannot be pinned (limit, kind of mapping)
 * allocates a bounce buffer for the same stretch (filled from the user's memory unless @write).
 * Context: process, current->mm is the owner.
 * Return: 0; -EFAULT (not mapped, or read-only for @write); -ENOMEM; -EINTR (killed meanwhile).
 */
int ibr_umem_init(struct ibr_umem *umem, struct ibr_space *space, struct ibr_buffer *buffer, bool write);

/**
 * ibr_umem_part() - a stretch of user memory as one of its own
 * @part: zeroed memory of the owner
 * @whole: memory of a receive of at most IBR_UMEM_RESIDENT bytes, in one piece; it must not be
 *	finished before @part is released
 * @offset: where the part starts in it, bytes
 * @length: bytes of the part; 0 is fine
 *
 * The part is resident; ibr_umem_finish() copies what was bounced in it to the user. Parts that do
 * not overlap may be used at the same time. Context: any.
 */
void ibr_umem_part(struct ibr_umem *part, struct ibr_umem *whole, u64 offset, u64 length);

/**
 * ibr_umem_stand() - user memory that is pinned already, all of it
 * @umem: zeroed memory of the owner
 * @pins: a range that contains it, of which the caller's use is taken over
 * @address: where it begins
 * @length: bytes; 0 is fine
 *
 * No worker and no process is needed for it. Context: any.
 */
void ibr_umem_stand(struct ibr_umem *umem, struct ibr_pins *pins, unsigned long address, unsigned long length);

/**
 * ibr_umem_resident() - how many bytes from an offset on are resident now
 * @umem: user memory
 * @offset: in the buffer, bytes
 *
 * Return: bytes; 0: ask ibr_umem_advance(). Context: any.
 */
u64 ibr_umem_resident(const struct ibr_umem *umem, u64 offset);

/**
 * ibr_umem_copy_to() - copy into resident user memory
 * @umem: user memory, of a receive
 * @offset: where to in the buffer, bytes
 * @data: from here
 * @length: bytes, all of them resident
 *
 * Context: any, softirq included; the owner serialises.
 */
void ibr_umem_copy_to(struct ibr_umem *umem, u64 offset, const void *data, u32 length);

/**
 * ibr_umem_copy_from() - copy out of resident user memory
 * @umem: user memory
 * @offset: where from in the buffer, bytes
 * @data: to here
 * @length: bytes, all of them resident
 *
 * Context: any, softirq included; the owner serialises.
 */
void ibr_umem_copy_from(struct ibr_umem *umem, u64 offset, void *data, u32 length);

/**
 * ibr_umem_segments() - where resident user memory lies, for an adapter to read
 * @umem: user memory, in use by nobody's worker
 * @offset: where from in the buffer, bytes
 * @length: bytes, all of them resident
 * @segment: filled in
 * @max: room there
 *
 * Return: segments; 0: bounced, or more than @max. Context: any; the owner serialises.
 */
int ibr_umem_segments(const struct ibr_umem *umem, u64 offset, u32 length, struct bio_vec *segment, int max);

/**
 * ibr_umem_pages() - the pages of resident user memory that is in one piece
 * @umem: user memory
 * @offset: where from in the buffer, bytes
 * @length: bytes, all of them resident
 * @place: set: where it begins, in bytes from the start of the first page
 *
 * Return: the pages, pinned as long as they are resident; NULL: bounced, or in pieces. Context: any.
 */
struct page **ibr_umem_pages(const struct ibr_umem *umem, u64 offset, u32 length, u32 *place);

/** ibr_umem_read_begin(), _end() - an adapter reads it: neither goes on nor ends until it is done. Context: any */
void ibr_umem_read_begin(struct ibr_umem *umem);
void ibr_umem_read_end(struct ibr_umem *umem);

/**
 * ibr_umem_advance() - the owner is done with everything before an offset
 * @umem: user memory
 * @offset: in the buffer, bytes
 *
 * A worker releases those windows (bounced receive data is copied to the user) and makes the next
 * ones resident. Each call leads to exactly one call of umem->ready (set by the owner) from the
 * worker, when it is done or failed (umem->error); until then this must not be called again. No
 * copy may touch the released windows afterwards; the window at @offset, if resident, stays and may
 * be used meanwhile. Context: any.
 */
void ibr_umem_advance(struct ibr_umem *umem, u64 offset);

/**
 * ibr_umem_gone() - was some of what is resident unmapped since it was pinned?
 * @umem: user memory, in use by nobody's worker
 * @length: bytes from the start that matter
 *
 * Then what was written there has reached nobody. Context: any.
 */
bool ibr_umem_gone(const struct ibr_umem *umem, u64 length);

/**
 * ibr_umem_bounced() - does the user still have to get something that is in a bounce buffer?
 * @umem: user memory, of a receive
 *
 * Then ibr_umem_finish() leaves that to a worker, which may fail. Context: any.
 */
bool ibr_umem_bounced(const struct ibr_umem *umem);

/**
 * ibr_umem_finish() - the transfer is over
 * @umem: user memory; also one of length 0
 * @keep_bounced: false: throw bounced data away (cancel, exit, a transfer that failed half-way)
 * @released: called when nothing refers to the user's memory any more and bounced data has been
 *	copied into it: at once, in the caller's context, where that needs no process (then
 *	unpinning is put off, batched, to process context: it delays neither the completion nor the
 *	caller); otherwise from a worker, where umem->error may have been set. It may free @umem
 *
 * Context: any, also under spinlocks if @released bears it; no ibr_umem_advance() may be pending
 * (the owner has seen ready()).
 */
void ibr_umem_finish(struct ibr_umem *umem, bool keep_bounced,
		     void (*released)(struct ibr_umem *umem));

/**
 * ibr_memory_drain() - wait until every umem has been released that a worker has, or is about to have
 *
 * For the end of the module: nobody else may be left who has one. Context: process.
 */
void ibr_memory_drain(void);
/** ibr_memory_exit() - every umem must have been released */
void ibr_memory_exit(void);

extern unsigned int ibr_fail_alloc_nth;
bool ibr_alloc_fails_now(void);

/**
 * ibr_alloc_fails() - shall this allocation fail for the sake of a test?
 *
 * The one counted injection hook for allocations in interrupt context, where the kernel's own fault
 * injection cannot be aimed at us: with the module parameter fail_alloc_nth = n, each n-th one
 * fails. Code that allocates from a cache of its own in softirq asks here first. Context: any.
 */
static inline bool ibr_alloc_fails(void)
{
	return unlikely(READ_ONCE(ibr_fail_alloc_nth)) && ibr_alloc_fails_now();
}

/** ibr_alloc_atomic() - kmalloc() for interrupt context, with that hook; @payer may be NULL. Context: any */
void *ibr_alloc_atomic(struct mem_cgroup *payer, size_t size);

#endif /* IBR_MEMORY_H */
