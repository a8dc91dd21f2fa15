// SPDX-License-Identifier: GPL-2.0-only
/*
 * kernel/command.c, with the simulator's stand-ins for the kernel's headers, but with user memory that may end, and a
 * process that may be told to die: command.cpp says when.
 */
#include "shim.h"

#undef fatal_signal_pending
#define fatal_signal_pending(task)		fuzz_dies()
#define copy_from_user(to, from, bytes)		fuzz_copy(to, from, bytes)

bool fuzz_dies(void);
unsigned long fuzz_copy(void *to, const void *from, unsigned long bytes);

#include "command.h"
#include IBRELK_COMMAND_C

struct ibr_endpoint *fuzz_endpoint(void);
struct ibr_endpoint *fuzz_endpoint(void)
{
	static struct ibr_endpoint endpoint = { .id = 77 };

	return &endpoint;
}

u32 fuzz_batch_max(void);
u32 fuzz_batch_max(void)
{
	return IBR_BATCH_MAX;
}

u64 fuzz_message_max(void);
u64 fuzz_message_max(void)
{
	return IBR_MESSAGE_MAX;
}

u64 fuzz_multi_max(void);
u64 fuzz_multi_max(void)
{
	return IBR_MULTI_MAX;
}
