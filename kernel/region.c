// SPDX-License-Identifier: GPL-2.0-only
/*
 * A region is a pinned range that has a user for as long as its descriptor is open. Transfers find it as they find what
 * other transfers have left (pins.c), and like that it is of no use once other memory has come to be there.
 */
#include <linux/anon_inodes.h>
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/pagemap.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <ibrelk/uapi.h>

#include "params.h"
#include "pins.h"
#include "region.h"

#define TRIES	3	/* to pin it while nothing changes */

struct ibr_region {
	struct ibr_space *space;
	struct ibr_pins *pins;
};

static int region_release(struct inode *inode, struct file *file)
{
	struct ibr_region *region = file->private_data;

	ibr_pins_put_region(region->space, region->pins);
	ibr_space_close(region->space);
	kfree(region);
	return 0;
}

static const struct file_operations region_fops = {
	.owner = THIS_MODULE,
	.release = region_release,
};

/* As ibr_pins_get(), but what cannot be found later is an error. */
static struct ibr_pins *region_pin(struct ibr_space *space, unsigned long start, unsigned long length, bool write)
{
	struct ibr_pins *pins = ERR_PTR(-EAGAIN);
	int try;

	for (try = 0; try < TRIES; try++) {
		pins = ibr_pins_get(space, start, length, write, IBR_LIMIT_OWN);
		if (IS_ERR(pins) || ibr_pins_fresh(pins))
			break;
		ibr_pins_put(pins);
		pins = ERR_PTR(-EAGAIN);
	}
	/* What is there, but cannot be pinned, is of a file that is written back. */
	if (pins == ERR_PTR(-EFAULT) && write && !fault_in_safe_writeable((char __user *)start, length))
		return ERR_PTR(-EOPNOTSUPP);
	return pins == ERR_PTR(-EPERM) ? ERR_PTR(-ENOMEM) : pins;
}

struct file *ibr_region_create(const struct ibrelk_region_create *create)
{
	const void __user *user = u64_to_user_ptr(create->addr);
	struct ibr_region *region;
	struct file *file;

	if (create->flags & ~IBRELK_REGION_WRITE || create->reserved || !create->length ||
	    create->length > IBRELK_REGION_MAX)
		return ERR_PTR(-EINVAL);
	if (create->addr != (unsigned long)create->addr || !access_ok(user, create->length))
		return ERR_PTR(-EFAULT);

	region = kzalloc(sizeof(*region), GFP_KERNEL_ACCOUNT);
	if (!region)
		return ERR_PTR(-ENOMEM);
	region->space = ibr_space_open();
	file = ERR_CAST(region->space);
	if (IS_ERR(region->space))
		goto free;
	region->pins = region_pin(region->space, create->addr, create->length, create->flags & IBRELK_REGION_WRITE);
	file = ERR_CAST(region->pins);
	if (IS_ERR(region->pins))
		goto close;
	if (!ibr_pins_region(region->pins)) {
		ibr_pins_put(region->pins);
		file = ERR_PTR(-EAGAIN);	/* nobody sees it */
		goto close;
	}
	file = anon_inode_getfile("[ibrelk-region]", &region_fops, region, O_RDWR | O_CLOEXEC);
	if (!IS_ERR(file))
		return file;

	ibr_pins_put_region(region->space, region->pins);
close:
	ibr_space_close(region->space);
free:
	kfree(region);
	return file;
}
