// SPDX-License-Identifier: GPL-2.0-only
/*
 * Life of the module: what is brought up in which order, and the parameters that have no better
 * home.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/module.h>

#include "chardev.h"
#include "device.h"
#include "endpoint.h"
#include "flow.h"
#include "frag.h"
#include "memory.h"
#include "params.h"
#include "path.h"
#include "pins.h"
#include "ring.h"
#include "transport/mr.h"

#ifndef IBR_VERSION
#define IBR_VERSION	"0.1"
#endif

bool ibr_allow_native;
module_param_named(allow_native, ibr_allow_native, bool, 0644);
MODULE_PARM_DESC(allow_native, "allow native modes, in which messages may get lost (default: no)");

unsigned int ibr_eager_max = IBR_EAGER_MAX_DEFAULT;
module_param_named(eager_max, ibr_eager_max, uint, 0444);
MODULE_PARM_DESC(eager_max, "longest message sent without a rendezvous, in bytes (default: 8192)");

bool ibr_loopback = true;
module_param_named(loopback, ibr_loopback, bool, 0644);
MODULE_PARM_DESC(loopback, "messages to the own node bypass the adapter (default: yes)");

struct ibr_part {
	const char *name;
	int (*init)(void);
	void (*exit)(void);
};

/* Each part needs only those above it. User space comes in by the last one. */
static const struct ibr_part parts[] = {
	{ "pins", ibr_pins_init, ibr_pins_exit },
	{ "memory", NULL, ibr_memory_exit },
	{ "frag", ibr_frag_init, ibr_frag_exit },
	{ "send", ibr_send_init, ibr_send_exit },
	{ "recv", ibr_recv_init, ibr_recv_exit },
	{ "ring", ibr_ring_init, ibr_ring_exit },
	{ "mr", ibr_mr_init, ibr_mr_exit },
	{ "path", ibr_path_init, ibr_path_exit },
	{ "endpoint", ibr_endpoint_init, ibr_endpoint_exit },
	{ "device", ibr_device_init, ibr_device_exit },
	{ "chardev", ibr_chardev_init, ibr_chardev_exit },
};

static void ibr_parts_exit(unsigned int count)
{
	while (count--)
		parts[count].exit();
}

static int __init ibr_init(void)
{
	unsigned int i;
	int error;

	if (ibr_eager_max > IBR_EAGER_MAX_LIMIT) {
		pr_err("eager_max: %u is above %u\n", ibr_eager_max, IBR_EAGER_MAX_LIMIT);
		return -EINVAL;
	}

	for (i = 0; i < ARRAY_SIZE(parts); i++) {
		error = parts[i].init ? parts[i].init() : 0;
		if (error) {
			pr_err("cannot start %s: %d\n", parts[i].name, error);
			ibr_parts_exit(i);
			return error;
		}
	}
	pr_info("version %s, ABI %u, protocol %u\n", IBR_VERSION, IBRELK_ABI_VERSION, WIRE_VERSION);
	return 0;
}

static void __exit ibr_exit(void)
{
	ibr_parts_exit(ARRAY_SIZE(parts));
}

module_init(ibr_init);
module_exit(ibr_exit);

MODULE_DESCRIPTION("Reliable tagged messages over unreliable InfiniBand and RoCE queue pairs");
MODULE_AUTHOR("The ibrelk authors");
MODULE_LICENSE("GPL");
MODULE_VERSION(IBR_VERSION);
