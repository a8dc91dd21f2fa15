/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The device node.
 */
#ifndef IBR_CHARDEV_H
#define IBR_CHARDEV_H

/** ibr_chardev_init() - from here on user space can come in: last of all */
int ibr_chardev_init(void);
void ibr_chardev_exit(void);

#endif /* IBR_CHARDEV_H */
