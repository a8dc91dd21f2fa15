/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Accepting a batch of commands, whichever door it comes by.
 */
#ifndef IBR_COMMAND_H
#define IBR_COMMAND_H

#include <linux/types.h>

struct ibr_endpoint;
struct ibrelk_command;

/**
 * ibr_command_batch() - accept the commands of a batch, in order, as far as they are right and fit
 * @endpoint: the endpoint
 * @commands: array of struct ibrelk_command in user space
 * @count: commands in it
 *
 * Return: the number of commands accepted, from the start of the batch (0: nothing fits now; never
 * -EAGAIN). If the first one is wrong, its error: -EINVAL (malformed; @count is 0 or above the
 * limit), -EOPNOTSUPP (opcode or flag that is numbered, but not there yet), -ENOENT (unknown peer
 * handle), -EFAULT (the array, or its buffer), -ENOMEM. Context: process, the user's.
 */
int ibr_command_batch(struct ibr_endpoint *endpoint, const struct ibrelk_command __user *commands,
		      u32 count);

#endif /* IBR_COMMAND_H */
