/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The module under test, as seen from outside: loading, nodes, the two kinds of descriptors, and what checkers look
 * at inside.
 */
#ifndef SIM_MODULE_H
#define SIM_MODULE_H

#include <ibrelk/uapi.h>
#include "sim.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ibr_endpoint;
struct ibr_path;

/* module.c */
void sim_module_load(void);
void sim_module_unload(void);
/* A node's adapter comes, with a new instance of the module, and goes. Context: SIM_ADMIN, on behalf of it. */
void sim_node_start(u32 node);
void sim_node_stop(u32 node);
/* Another device comes and goes, which shows the node's address but does not own it. Context: as above. */
void sim_node_twin(u32 node);
/* sim_mtu() - bytes of the longest packet that the node's port sends and takes. sim_set_mtu(): as an administrator */
u32 sim_mtu(u32 node);
void sim_set_mtu(u32 node, u32 bytes);
/* sim_pkey() - where in the table of a node's port the default partition is, or -1. sim_set_pkey(): as a subnet manager */
int sim_pkey(u32 node);
void sim_set_pkey(u32 node, int index);
void sim_set_linger(u32 ms);
void sim_gid(u32 node, bool loop, u8 gid[16]);
int sim_node_of_gid(const u8 *gid);
/* How often a node has started, and the first half of the instance that it has now. */
u32 sim_epoch(u32 node);
u64 sim_instance(u32 node);

int sim_ring_create(u32 entries, struct ibrelk_ring_header **header);
void sim_ring_drain(int fd);
/* sim_region_create() - return: descriptor, or negative errno */
int sim_region_create(struct ibrelk_region_create *create);
long sim_endpoint_create(struct ibrelk_endpoint_create *create, struct ibr_endpoint **endpoint);
void sim_endpoint_close(struct ibr_endpoint *endpoint);
int sim_peer_add(struct ibr_endpoint *endpoint, const struct ibrelk_addr *addr, u32 *handle);
int sim_peer_query(struct ibr_endpoint *endpoint, u32 handle, struct ibrelk_addr *addr);
int sim_submit(struct ibr_endpoint *endpoint, const struct ibrelk_command *commands, u32 count);

/* witness.c */
/* sim_check_all() - whatever must hold at any time. Context: nothing is running */
void sim_check_all(void);
void sim_check_endpoint(const struct ibr_endpoint *endpoint);
/* sim_busy() - some receiver has a transfer under way */
bool sim_busy(void);
/* sim_check_quiet() - what must hold when nothing is under way; @gentle: and nothing has ended a flow */
void sim_check_quiet(bool gentle);
/* sim_describe() - what waits for what, for a run that is stuck */
void sim_describe(void);
u64 sim_lost_messages(const u8 local[16], const u8 remote[16], u32 mode);
/* sim_path() - the paths of all nodes, one after the other; then NULL */
struct ibr_path *sim_path(u32 i);
s64 sim_unpinned(void);
u64 sim_cm_left(void);

#ifdef __cplusplus
}
#endif

#endif /* SIM_MODULE_H */
