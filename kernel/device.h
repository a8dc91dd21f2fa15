/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * RDMA devices and their ports: found as an ib_client, followed through netdev, GID and port events,
 * and let go when they are removed. Properties that differ between devices are detected here.
 */
#ifndef IBR_DEVICE_H
#define IBR_DEVICE_H

#include <linux/types.h>
#include <rdma/ib_verbs.h>
#include <ibrelk/uapi.h>

struct ibr_port;

/**
 * ibr_device_select() - which local port reaches a remote address
 * @local: wanted local GID, or all zero: choose by routing table
 * @remote: remote GID
 * @chosen: set on success
 * @same_node: set to whether @remote is one of this node's own addresses
 * Return: 0; -EADDRNOTAVAIL (no usable port has @local), -ENETUNREACH (no route), -ENODEV. Context: process.
 */
int ibr_device_select(const u8 local[16], const u8 remote[16], u8 chosen[16], bool *same_node);

/**
 * ibr_device_local() - does a usable port have this GID?
 * @gid: GID; zero: the first GID of the first usable port is stored in it
 *
 * Return: whether one has it; for zero: whether there is a usable port. Context: any but hardirq.
 */
bool ibr_device_local(u8 gid[16]);

/**
 * ibr_device_modes() - which modes the port with this GID can do
 * @gid: GID; zero: what any usable port can do
 *
 * Return: bit (1 << enum ibrelk_mode) for each; 0: there is no such port. Context: any but hardirq.
 */
u32 ibr_device_modes(const u8 gid[16]);

/**
 * enum ibr_fabric - what carries the packets of a port
 * @IBR_FABRIC_LOSSLESS: InfiniBand, which waits for room, or iWARP, where TCP sees to congestion
 * @IBR_FABRIC_ETHERNET: Ethernet under an adapter: what does not fit is dropped
 * @IBR_FABRIC_SOFTWARE: Ethernet under an adapter made of software (soft-RoCE)
 */
enum ibr_fabric {
	IBR_FABRIC_LOSSLESS,
	IBR_FABRIC_ETHERNET,
	IBR_FABRIC_SOFTWARE,
};

/**
 * ibr_device_fabric() - what carries the packets of the port with this GID
 * @gid: GID
 *
 * Return: it; IBR_FABRIC_LOSSLESS if there is no such port. Context: any but hardirq.
 */
enum ibr_fabric ibr_device_fabric(const u8 gid[16]);

/** ibr_device_ports() - number of usable ports */
u32 ibr_device_ports(void);

/** ibr_device_dump() - fill up to @max entries; returns how many exist */
u32 ibr_device_dump(struct ibrelk_port_info *info, u32 max);

/** ibr_device_describe() - name, port and MTU of the port with this GID, for statistics */
void ibr_device_describe(const u8 gid[16], char name[64], u32 *port, u32 *mtu);

/** ibr_device_busy_poll() - poll every completion queue once in the caller's context. Return: completions found */
int ibr_device_busy_poll(void);

/** ibr_device_init() - register the client and the listeners of the connection manager */
int ibr_device_init(void);
/** ibr_device_exit() - refuse newcomers, remove every path, unregister; afterwards nothing runs */
void ibr_device_exit(void);

#endif /* IBR_DEVICE_H */
