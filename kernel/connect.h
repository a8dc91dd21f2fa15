/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Finding and connecting peers by the RDMA connection manager: what the transports and device.c
 * call. The state machine is described in connect.c.
 */
#ifndef IBR_CONNECT_H
#define IBR_CONNECT_H

#include <linux/types.h>

struct ibr_listener;
struct ibr_path;
struct ibr_port;

/**
 * ibr_connect_start() - ops->connect of rc, uc, ud and auto: begin to connect
 * @path: whose connection; an attempt that is under way, the peer's too, is joined
 *
 * Asynchronous: ibr_path_connected() or ibr_path_failed() follows, as a rule within connect_timeout_ms, unless
 * the path is removed meanwhile.
 *
 * Return: 0, or -ENOMEM: it could not even begin. Context: process, path->connect_lock held; never
 * waits for the network.
 */
int ibr_connect_start(struct ibr_path *path);

/**
 * ibr_connect_stop() - ops->disconnect of rc, uc, ud and auto: let go of the connection
 * @path: whose
 *
 * If the path is being removed, also of its lane and of every attempt; afterwards none begins. Context: process,
 * path->connect_lock held.
 */
void ibr_connect_stop(struct ibr_path *path);

/** ibr_connect_start_lane() - begin to connect the lane; as above, but ibr_lane_up() or ibr_lane_failed() follows */
int ibr_connect_start_lane(struct ibr_path *path);
/** ibr_connect_stop_lane() - close the lane's connection, which is out of use. Context: as above */
void ibr_connect_stop_lane(struct ibr_path *path);

/**
 * ibr_listener_create() - answer requests that come to an address
 * @port: whose address it is
 * @gid: the address
 * Return: listener, or ERR_PTR: -EADDRNOTAVAIL: the connection manager takes the address for
 * another device's. Context: process.
 */
struct ibr_listener *ibr_listener_create(struct ibr_port *port, const u8 gid[16]);
/** ibr_listener_destroy() - returns when no request is being handled any more. Context: process */
void ibr_listener_destroy(struct ibr_listener *listener);

#endif /* IBR_CONNECT_H */
