// SPDX-License-Identifier: GPL-2.0-only
/*
 * The device node and the endpoint's descriptor: copy in, check what is reserved, hand over, copy
 * out. A descriptor becomes visible only when nothing can fail any more, because another thread may
 * use or close it at once.
 *
 * The device can be opened only from the initial network namespace: that is where its traffic goes,
 * whoever sends it. A container gets at it by a descriptor that somebody outside has passed in.
 */
#include <linux/anon_inodes.h>
#include <linux/bits.h>
#include <linux/errno.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/kernel.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/nsproxy.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <net/net_namespace.h>

#include "chardev.h"
#include "command.h"
#include "compat.h"
#include "device.h"
#include "endpoint.h"
#include "params.h"
#include "path.h"
#include "region.h"
#include "ring.h"

#define MODES_NATIVE	(BIT(IBRELK_MODE_RC_NATIVE) | BIT(IBRELK_MODE_UC_NATIVE) | \
			 BIT(IBRELK_MODE_UD_NATIVE))

/* ---- endpoint descriptor --------------------------------------------------------------------- */

static long ibr_endpoint_submit(struct ibr_endpoint *endpoint,
				const struct ibrelk_submit __user *argument)
{
	struct ibrelk_submit submit;

	if (copy_from_user(&submit, argument, sizeof(submit)))
		return -EFAULT;
	if (submit.flags)
		return -EINVAL;
	return ibr_command_batch(endpoint, u64_to_user_ptr(submit.commands), submit.count);
}

static long ibr_endpoint_ioctl_peer(struct ibr_endpoint *endpoint,
				    struct ibrelk_peer __user *argument,
				    int (*call)(struct ibr_endpoint *, struct ibrelk_peer *))
{
	struct ibrelk_peer peer;
	int error;

	if (copy_from_user(&peer, argument, sizeof(peer)))
		return -EFAULT;
	if (peer.reserved)
		return -EINVAL;
	error = call(endpoint, &peer);
	if (error)
		return error;
	return copy_to_user(argument, &peer, sizeof(peer)) ? -EFAULT : 0;
}

static int ibr_endpoint_ioctl_add(struct ibr_endpoint *endpoint, struct ibrelk_peer *peer)
{
	if (!peer->addr.endpoint)
		return -EINVAL;
	return ibr_endpoint_peer_add(endpoint, peer);
}

static long ibr_endpoint_ioctl(struct file *file, unsigned int command, unsigned long argument)
{
	struct ibr_endpoint *endpoint = file->private_data;
	void __user *user = (void __user *)argument;

	switch (command) {
	case IBRELK_IOC_SUBMIT:
		return ibr_endpoint_submit(endpoint, user);
	case IBRELK_IOC_PEER_ADD:
		return ibr_endpoint_ioctl_peer(endpoint, user, ibr_endpoint_ioctl_add);
	case IBRELK_IOC_PEER_QUERY:
		return ibr_endpoint_ioctl_peer(endpoint, user, ibr_endpoint_peer_query);
	default:
		return -ENOTTY;
	}
}

/*
 * The other door. It pins user memory and so may sleep, even when it was asked not to: -EAGAIN
 * would have io_uring try again from a worker thread, and later commands would overtake these.
 */
static int ibr_endpoint_uring_cmd(struct io_uring_cmd *cmd, unsigned int issue_flags)
{
	const struct ibrelk_submit_uring *payload = ibr_uring_payload(cmd);
	u64 commands = READ_ONCE(payload->commands);
	u32 count = READ_ONCE(payload->count);
	u32 flags = READ_ONCE(payload->flags);
	int result;

	if (cmd->cmd_op != IBRELK_IOC_SUBMIT)
		return -ENOTTY;
	if (issue_flags & IO_URING_F_IOPOLL)
		return -EOPNOTSUPP;
	/* The uppermost 8 bits are io_uring's own. */
	if (flags || (cmd->flags & GENMASK(23, 0)))
		return -EINVAL;
	result = ibr_command_batch(cmd->file->private_data, u64_to_user_ptr(commands), count);
	return result < 0 ? result : ibr_uring_done(cmd, result, issue_flags);
}

static __poll_t ibr_endpoint_poll_file(struct file *file, struct poll_table_struct *table)
{
	return ibr_endpoint_poll(file->private_data, file, table);
}

static int ibr_endpoint_release(struct inode *inode, struct file *file)
{
	ibr_endpoint_close(file->private_data);
	return 0;
}

static const struct file_operations ibr_endpoint_fops = {
	.owner = THIS_MODULE,
	.poll = ibr_endpoint_poll_file,
	.unlocked_ioctl = ibr_endpoint_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.uring_cmd = ibr_endpoint_uring_cmd,
	.release = ibr_endpoint_release,
};

/* ---- device descriptor ----------------------------------------------------------------------- */

static long ibr_device_query(struct ibrelk_query __user *argument)
{
	static const u8 any_gid[16];
	struct ibrelk_query query = {
		.abi_version = IBRELK_ABI_VERSION,
		.protocol_version = WIRE_VERSION,
		.modes = ibr_device_modes(any_gid),
		.ports = ibr_device_ports(),
		.eager_max = ibr_eager_max,
		.message_max = IBR_MESSAGE_MAX,
		.recvs_max = IBR_RECVS_MAX,
		.sends_max = IBR_SENDS_MAX,
		.ring_entries_max = IBR_RING_ENTRIES_MAX,
		.batch_max = IBR_BATCH_MAX,
		.multi_max = IBR_MULTI_MAX,
	};

	if (!READ_ONCE(ibr_allow_native))
		query.modes &= ~MODES_NATIVE;
	memcpy(query.instance, ibr_instance, sizeof(query.instance));
	return copy_to_user(argument, &query, sizeof(query)) ? -EFAULT : 0;
}

/*
 * Give the user a descriptor: tell him its number, and only then let it be used. @fd is a member of
 * @result, which is copied to @argument. Takes @file over, also when it fails.
 */
static long ibr_install(struct file *file, s32 *fd, void __user *argument, const void *result,
			size_t size)
{
	int number = get_unused_fd_flags(O_CLOEXEC);
	int error = number;

	if (number < 0)
		goto put;
	*fd = number;
	error = -EFAULT;
	if (copy_to_user(argument, result, size))
		goto unuse;
	fd_install(number, file);
	return 0;

unuse:
	put_unused_fd(number);
put:
	fput(file);
	return error;
}

static long ibr_device_ring_create(struct ibrelk_ring_create __user *argument)
{
	struct ibrelk_ring_create create;
	struct file *file;

	if (copy_from_user(&create, argument, sizeof(create)))
		return -EFAULT;
	file = ibr_ring_create(&create);
	if (IS_ERR(file))
		return PTR_ERR(file);
	return ibr_install(file, &create.fd, argument, &create, sizeof(create));
}

static long ibr_device_region_create(struct ibrelk_region_create __user *argument)
{
	struct ibrelk_region_create create;
	struct file *file;

	if (copy_from_user(&create, argument, sizeof(create)))
		return -EFAULT;
	file = ibr_region_create(&create);
	if (IS_ERR(file))
		return PTR_ERR(file);
	return ibr_install(file, &create.fd, argument, &create, sizeof(create));
}

static long ibr_device_endpoint_create(struct ibrelk_endpoint_create __user *argument)
{
	struct ibrelk_endpoint_create create;
	struct ibr_endpoint *endpoint;
	struct file *file;

	if (copy_from_user(&create, argument, sizeof(create)))
		return -EFAULT;
	if (create.flags || create.reserved0)
		return -EINVAL;
	if (memchr_inv(create.reserved, 0, sizeof(create.reserved)))
		return -EINVAL;
	if (create.mode >= IBRELK_MODE_COUNT)
		return -EINVAL;

	endpoint = ibr_endpoint_create(&create);
	if (IS_ERR(endpoint))
		return PTR_ERR(endpoint);
	file = anon_inode_getfile("[ibrelk-endpoint]", &ibr_endpoint_fops, endpoint,
				  O_RDWR | O_CLOEXEC);
	if (IS_ERR(file)) {
		ibr_endpoint_close(endpoint);
		return PTR_ERR(file);
	}
	return ibr_install(file, &create.fd, argument, &create, sizeof(create));
}

static long ibr_device_ioctl_dump(struct ibrelk_dump __user *argument)
{
	struct ibrelk_dump dump;
	int error;

	if (copy_from_user(&dump, argument, sizeof(dump)))
		return -EFAULT;
	if (dump.flags || dump.reserved)
		return -EINVAL;
	error = ibr_stats_dump(&dump);
	if (error)
		return error;
	return copy_to_user(argument, &dump, sizeof(dump)) ? -EFAULT : 0;
}

static long ibr_chardev_ioctl(struct file *file, unsigned int command, unsigned long argument)
{
	void __user *user = (void __user *)argument;

	switch (command) {
	case IBRELK_IOC_QUERY:
		return ibr_device_query(user);
	case IBRELK_IOC_RING_CREATE:
		return ibr_device_ring_create(user);
	case IBRELK_IOC_ENDPOINT_CREATE:
		return ibr_device_endpoint_create(user);
	case IBRELK_IOC_REGION_CREATE:
		return ibr_device_region_create(user);
	case IBRELK_IOC_DUMP:
		return ibr_device_ioctl_dump(user);
	default:
		return -ENOTTY;
	}
}

static int ibr_chardev_open(struct inode *inode, struct file *file)
{
	if (!net_eq(current->nsproxy->net_ns, &init_net))
		return -EPERM;
	return nonseekable_open(inode, file);
}

static const struct file_operations ibr_chardev_fops = {
	.owner = THIS_MODULE,
	.open = ibr_chardev_open,
	.unlocked_ioctl = ibr_chardev_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
};

static struct miscdevice ibr_chardev = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "ibrelk",
	.fops = &ibr_chardev_fops,
	.mode = 0660,		/* group rdma: udev/60-ibrelk.rules */
};

int ibr_chardev_init(void)
{
	return misc_register(&ibr_chardev);
}

void ibr_chardev_exit(void)
{
	misc_deregister(&ibr_chardev);
}
