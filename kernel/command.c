// SPDX-License-Identifier: GPL-2.0-only
/*
 * Accepting a batch of commands. Each one is copied once and checked here completely, so that the
 * endpoint sees only commands that make sense; then the endpoint accepts it or has no room.
 *
 * Members that an opcode does not use must be zero, like the reserved ones: they may get a meaning.
 */
#include <linux/kernel.h>
#include <linux/sched/signal.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "atomic.h"
#include "command.h"
#include "endpoint.h"
#include "pins.h"
#include "params.h"
#include "ring.h"

#define CHUNK		8	/* commands copied at a time, onto the stack */

#define FLAGS_LATER	IBRELK_CMD_REGION
#define FLAGS_KNOWN	(IBRELK_CMD_NO_SUCCESS | IBRELK_CMD_UNTAGGED | IBRELK_CMD_IMMEDIATE | \
			 IBRELK_CMD_IOVEC | IBRELK_CMD_CLAIMED | FLAGS_LATER)

/* What tells of puts. (A SEND, that has no ignore, cannot say so.) */
static bool ibr_command_wants_notices(const struct ibrelk_command *command)
{
	return command->tag == IBRELK_TAG_WRITTEN && command->ignore == IBRELK_TAG_WRITTEN - 1;
}

static int ibr_command_check_message(const struct ibrelk_command *command)
{
	if (command->length > (command->flags & IBRELK_CMD_IOVEC ? IBRELK_IOVEC_MAX : IBR_MESSAGE_MAX))
		return -EINVAL;
	if ((command->flags & IBRELK_CMD_UNTAGGED) && (command->tag || command->ignore) &&
	    !ibr_command_wants_notices(command))
		return -EINVAL;
	return 0;
}

static int ibr_command_check_send(const struct ibrelk_command *command)
{
	if (command->level > IBRELK_LEVEL_MATCHED || command->ignore)
		return -EINVAL;
	if (command->flags & IBRELK_CMD_CLAIMED)
		return -EINVAL;
	if (command->peer == IBRELK_PEER_ANY)
		return -EINVAL;
	if (command->immediate && !(command->flags & IBRELK_CMD_IMMEDIATE))
		return -EINVAL;
	return ibr_command_check_message(command);
}

static int ibr_command_check_remote(const struct ibrelk_command *command)
{
	u16 known = IBRELK_CMD_NO_SUCCESS | IBRELK_CMD_IOVEC;

	if (command->opcode == IBRELK_OP_PUT)
		known |= IBRELK_CMD_IMMEDIATE;
	if (command->flags & ~known)
		return -EINVAL;
	if (command->level || command->tag)
		return -EINVAL;
	return ibr_command_check_send(command);
}

static int ibr_command_check_atomic(const struct ibrelk_command *command)
{
	u32 op = command->messages & U16_MAX, type = command->messages >> 16;
	u32 size;

	if (command->flags & ~IBRELK_CMD_NO_SUCCESS)
		return -EINVAL;
	if (command->level || command->immediate || command->peer == IBRELK_PEER_ANY)
		return -EINVAL;
	if (op < IBRELK_ATOMIC_MIN || op > IBRELK_ATOMIC_MSWAP)
		return -EINVAL;
	if (type < IBRELK_ATOMIC_S32 || type > IBRELK_ATOMIC_U64)
		return -EINVAL;
	size = ibr_atomic_size(type);
	if (!command->length || command->length > IBRELK_ATOMIC_BYTES || command->length % size ||
	    command->remote_addr % size)
		return -EINVAL;
	if (command->ignore && !ibr_atomic_compares(op))
		return -EINVAL;
	/* To read without being told is of no use. */
	if (op == IBRELK_ATOMIC_READ && (command->addr || !command->tag))
		return -EINVAL;
	return 0;
}

static int ibr_command_check_recv(const struct ibrelk_command *command)
{
	if (command->level || command->immediate || (command->flags & IBRELK_CMD_IMMEDIATE))
		return -EINVAL;
	/* What is claimed has matched already. */
	if ((command->flags & IBRELK_CMD_CLAIMED) &&
	    (command->peer || command->ignore || (command->flags & IBRELK_CMD_UNTAGGED)))
		return -EINVAL;
	return ibr_command_check_message(command);
}

static int ibr_command_check_recv_multi(const struct ibrelk_command *command)
{
	if (command->flags & ~IBRELK_CMD_UNTAGGED)
		return -EINVAL;
	if (!command->length || command->length > IBR_MULTI_MAX || command->room > command->length)
		return -EINVAL;
	if (!command->messages)
		return -EINVAL;
	return ibr_command_check_recv(command);
}

/* PROBE and CLAIM are of use only if they say what they found. */
static int ibr_command_check_probe(const struct ibrelk_command *command)
{
	if (command->flags & ~IBRELK_CMD_UNTAGGED)
		return -EINVAL;
	if (command->addr || command->length)
		return -EINVAL;
	return ibr_command_check_recv(command);
}

static int ibr_command_check_plain(const struct ibrelk_command *command)
{
	if (command->flags & ~IBRELK_CMD_NO_SUCCESS)
		return -EINVAL;
	if (command->level || command->peer || command->immediate)
		return -EINVAL;
	if (command->length || command->ignore)
		return -EINVAL;
	if (command->opcode != IBRELK_OP_CANCEL && command->addr)
		return -EINVAL;
	if (command->opcode != IBRELK_OP_DISCARD && command->tag)
		return -EINVAL;
	return 0;
}

static int ibr_command_check(const struct ibrelk_command *command)
{
	/* First of all, so that a program can find out what there is. */
	if (command->opcode > IBRELK_OP_ATOMIC)
		return -EINVAL;
	if (command->flags & ~FLAGS_KNOWN)
		return -EINVAL;
	if (command->flags & FLAGS_LATER)
		return -EOPNOTSUPP;
	if (command->region || command->reserved)
		return -EINVAL;
	if (command->opcode < IBRELK_OP_PUT && (command->remote_addr || command->remote_key))
		return -EINVAL;
	if (command->opcode != IBRELK_OP_RECV_MULTI && command->room)
		return -EINVAL;
	if (command->opcode != IBRELK_OP_RECV_MULTI && command->opcode != IBRELK_OP_ATOMIC && command->messages)
		return -EINVAL;

	switch (command->opcode) {
	case IBRELK_OP_SEND:
		return ibr_command_check_send(command);
	case IBRELK_OP_PUT:
	case IBRELK_OP_GET:
		return ibr_command_check_remote(command);
	case IBRELK_OP_ATOMIC:
		return ibr_command_check_atomic(command);
	case IBRELK_OP_RECV:
		return ibr_command_check_recv(command);
	case IBRELK_OP_RECV_MULTI:
		return ibr_command_check_recv_multi(command);
	case IBRELK_OP_PROBE:
	case IBRELK_OP_CLAIM:
		return ibr_command_check_probe(command);
	default:
		return ibr_command_check_plain(command);
	}
}

static int ibr_command_nop(struct ibr_endpoint *endpoint, const struct ibrelk_command *command)
{
	struct ibrelk_completion completion = {
		.user_data = command->user_data,
		.opcode = IBRELK_OP_NOP,
		.endpoint = endpoint->id,
		.peer = IBRELK_PEER_ANY,
	};

	if (command->flags & IBRELK_CMD_NO_SUCCESS)
		return 0;
	if (!ibr_ring_has_room(endpoint->send_ring))
		return 1;
	return ibr_ring_write(endpoint->send_ring, &completion);
}

/* Return: 0 accepted; 1 no room now; -errno wrong. */
static int ibr_command_accept(struct ibr_endpoint *endpoint, const struct ibrelk_command *command,
			      struct ibr_path **undriven)
{
	int error = ibr_command_check(command);

	if (error)
		return error;
	switch (command->opcode) {
	case IBRELK_OP_SEND:
	case IBRELK_OP_PUT:
	case IBRELK_OP_GET:
	case IBRELK_OP_ATOMIC:
		return ibr_endpoint_send(endpoint, command, undriven);
	case IBRELK_OP_RECV:
		if (command->flags & IBRELK_CMD_CLAIMED)
			return ibr_endpoint_recv_claimed(endpoint, command);
		return ibr_endpoint_recv(endpoint, command);
	case IBRELK_OP_RECV_MULTI:
		return ibr_endpoint_recv_multi(endpoint, command);
	case IBRELK_OP_CANCEL:
		return ibr_endpoint_cancel(endpoint, command);
	case IBRELK_OP_PROBE:
	case IBRELK_OP_CLAIM:
		return ibr_endpoint_probe(endpoint, command);
	case IBRELK_OP_DISCARD:
		return ibr_endpoint_discard(endpoint, command);
	default:
		return ibr_command_nop(endpoint, command);
	}
}

int ibr_command_batch(struct ibr_endpoint *endpoint, const struct ibrelk_command __user *commands,
		      u32 count)
{
	struct ibrelk_command chunk[CHUNK];
	struct ibr_path *undriven = NULL;
	u32 accepted = 0;
	int error = 0;

	if (!count || count > IBR_BATCH_MAX)
		return -EINVAL;

	while (!error && accepted < count) {
		u32 want = min_t(u32, count - accepted, CHUNK);
		u32 bytes = want * sizeof(chunk[0]);
		u32 got, i;

		bytes -= copy_from_user(chunk, commands + accepted, bytes);
		got = bytes / sizeof(chunk[0]);
		for (i = 0; i < got && !error; i++) {
			error = ibr_command_accept(endpoint, &chunk[i], &undriven);
			if (!error)
				accepted++;
		}
		if (!error && got < want)
			error = -EFAULT;
		/* Pinning can take long, and a dying process need not see it through. */
		if (!error && fatal_signal_pending(current))
			error = -EINTR;
		cond_resched();
	}

	ibr_endpoint_flush(undriven);
	ibr_pins_flush();
	if (accepted)
		return accepted;
	/* "No room" is no error; and io_uring would take -EAGAIN for a wish to be called again. */
	return error > 0 || error == -EAGAIN ? 0 : error;
}
