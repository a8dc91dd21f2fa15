/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Completion rings: where the results of commands go. User space maps a ring and reads it without a
 * system call. A completion is never lost: what finds the ring full waits, in order, in a list of
 * entries that are part of the commands themselves, and moves in when there is room.
 */
#ifndef IBR_RING_H
#define IBR_RING_H

#include <linux/poll.h>
#include <linux/list.h>
#include <linux/types.h>
#include <ibrelk/uapi.h>

struct file;
struct ibr_ring;
struct poll_table_struct;

/* What an endpoint's descriptor reports: room for a send, for a receive, for a cancel. */
#define IBR_POLL_SEND	(EPOLLOUT | EPOLLWRNORM)
#define IBR_POLL_RECV	EPOLLWRBAND
#define IBR_POLL_CANCEL	EPOLLPRI

/**
 * struct ibr_ring_entry - a reserved completion, embedded in a command's object
 * @link: in the ring's overflow list
 * @completion: what will be written
 * @release: called once @completion has been written, or can never be read: frees the object, or
 *	drops the reference that the reservation held. In any context, with no lock of the ring
 *	held, but maybe under locks of somebody who delivers another completion to the same ring: it
 *	must take none
 */
struct ibr_ring_entry {
	struct list_head link;
	struct ibrelk_completion completion;
	void (*release)(struct ibr_ring_entry *entry);
};

/**
 * ibr_ring_create() - IBRELK_IOC_RING_CREATE without the descriptor
 * @create: validated here; .entries and .map_bytes are set on success
 *
 * Return: the ring's file, which holds its first reference, for the caller to install or to fput();
 * or ERR_PTR(-EINVAL, -ENOMEM, -ENFILE). Context: process.
 */
struct file *ibr_ring_create(struct ibrelk_ring_create *create);

/**
 * ibr_ring_get_fd() - the ring behind a descriptor, with a reference
 * @fd: descriptor
 *
 * Return: ring; or ERR_PTR(-EBADF): not a descriptor, not a ring, or made by another user. Context:
 * process.
 */
struct ibr_ring *ibr_ring_get_fd(int fd);
void ibr_ring_get(struct ibr_ring *ring);
/** ibr_ring_put() - Context: any; the last put frees from process context (deferred if need be) */
void ibr_ring_put(struct ibr_ring *ring);

/**
 * ibr_ring_complete() - deliver a reserved completion; cannot fail
 * @ring: ring
 * @entry: .completion and .release are filled in
 *
 * Wakes waiters, then calls entry->release (and that of others that had been waiting for room),
 * maybe before it returns: neither @entry nor, unless the caller has a reference, @ring exists
 * afterwards. Context: any with interrupts enabled, softirq included.
 */
void ibr_ring_complete(struct ibr_ring *ring, struct ibr_ring_entry *entry);

/**
 * ibr_ring_entry_alloc() - a reserved completion that is no command's
 *
 * Whoever has it fills in .completion and calls ibr_ring_complete(), or .release() to be rid of it.
 * Return: entry, or NULL: no memory. Context: process.
 */
struct ibr_ring_entry *ibr_ring_entry_alloc(void);

/**
 * ibr_ring_write() - deliver a completion for which nothing was reserved
 * @ring: ring
 * @completion: of a command that is done when it is accepted
 *
 * Whoever accepts the command asks ibr_ring_has_room() before. Return: 0 or -ENOMEM. Context:
 * process, may sleep.
 */
int ibr_ring_write(struct ibr_ring *ring, const struct ibrelk_completion *completion);

/**
 * ibr_ring_has_room() - may another command be accepted for this ring?
 * @ring: ring
 *
 * An accepted command always finds a place. This is back-pressure: with as many completions waiting
 * for room as the ring has entries, its owner had better read some first. Context: any.
 */
bool ibr_ring_has_room(struct ibr_ring *ring);

/**
 * ibr_ring_poll_room() - have a poll woken when ibr_ring_has_room() may say something else
 * @ring: ring
 * @file: the endpoint's descriptor
 * @table: as the poll got it
 *
 * Also moves in what waits and fits. Context: process.
 */
void ibr_ring_poll_room(struct ibr_ring *ring, struct file *file, struct poll_table_struct *table);
/** ibr_ring_wake_room() - have whoever waits look again. Context: any; takes the lock of the ring's wait queue only */
void ibr_ring_wake_room(struct ibr_ring *ring);

/** ibr_ring_header() - the ring's mapping, for those who read it inside the kernel (tests) */
struct ibrelk_ring_header *ibr_ring_header(struct ibr_ring *ring);

int ibr_ring_init(void);
void ibr_ring_exit(void);

#endif /* IBR_RING_H */
