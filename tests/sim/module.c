// SPDX-License-Identifier: GPL-2.0-only
/*
 * See module.h. All nodes live in one module, told apart by their addresses; what is the module's alone, its
 * instance, is exchanged whenever another node's turn comes.
 */
#include "module.h"
#include "command.h"
#include "endpoint.h"
#include "path.h"
#include "region.h"
#include "ring.h"
#include "params.h"
#include "shim.h"

extern int (*const sim_module_init)(void);
extern void (*const sim_module_exit)(void);

#define PARAMS(X) X(window_pkts) X(congestion) X(target_us) X(rto_min_us) X(ud_recv_depth) X(zero_copy_min) X(regions) X(pin_cache_mib) X(peer_timeout_ms) \
	X(connect_timeout_ms) X(linger_ms) X(credit_wait_us) X(coalesce_us) X(auto_uc_rate) X(auto_uc_idle_ms) X(auto_uc_max)
#define X(name) extern void *const sim_param_##name;
PARAMS(X)
#undef X
extern void *const sim_param_bounce_max_mib;
extern bool ibr_aggregate;

struct node {
	struct ib_device device;
	struct ib_gid_attr attr;
	u8 instance[16];
	u32 epoch;
	u32 mtu;	/* 0: as the run begins */
	int pkey;
};

static struct node nodes[SIM_NODES_MAX];
static struct ib_client *client;

/* ---- parts of the module that are not simulated ---- */

int ibr_chardev_init(void);
void ibr_chardev_exit(void);

int ibr_chardev_init(void)
{
	return 0;
}

void ibr_chardev_exit(void)
{
}

/* ---- the module and its nodes ---- */

void sim_set_linger(u32 ms)
{
	*(unsigned int *)sim_param_linger_ms = ms;
}

u32 sim_counters_start;

void sim_module_load(void)
{
	sim_counters_start = -(u32)sim_config.wrap;
#define X(name) *(unsigned int *)sim_param_##name = (unsigned int)sim_config.name;
	PARAMS(X)
#undef X
	/* Many nodes share it here. */
	*(unsigned int *)sim_param_bounce_max_mib = 8192;
	ibr_aggregate = sim_config.aggregate;
	ibr_eager_max = (unsigned int)sim_config.eager_max;
	ibr_allow_native = true;
	/* Another node's address looks like one of the module's own, but shall be reached by the wire. */
	ibr_loopback = false;
	if (sim_module_init())
		sim_fail("load", "the module does not load");
}

void sim_module_unload(void)
{
	sim_module_exit();
}

int ib_register_client(struct ib_client *c)
{
	client = c;
	return 0;
}

void ib_unregister_client(struct ib_client *c)
{
	client = NULL;
}

void sim_gid(u32 node, bool loop, u8 gid[16])
{
	memset(gid, 0, 16);
	gid[10] = 0xff;
	gid[11] = 0xff;
	gid[12] = loop ? 127 : 10;
	gid[15] = node + 1;
}

int sim_node_of_gid(const u8 *gid)
{
	int node = gid[15] - 1;

	return node < 0 || (u64)node >= sim_config.nodes ? -1 : node;
}

u32 sim_epoch(u32 node)
{
	return nodes[node].epoch;
}

u64 sim_instance(u32 node)
{
	u64 half;

	memcpy(&half, nodes[node].instance, sizeof(half));
	return half;
}

struct ib_device *sim_device(u32 node);

struct ib_device *sim_device(u32 node)
{
	return &nodes[node].device;
}

void sim_switch_node(u32 node)
{
	memcpy(ibr_instance, nodes[node].instance, sizeof(ibr_instance));
}

void sim_node_start(u32 node)
{
	struct node *n = &nodes[node];

	snprintf(n->device.dev.name, sizeof(n->device.dev.name), "node%u", node % 1000);
	n->device.attrs.max_qp_wr = (int)sim_config.wr_max;
	n->device.attrs.max_send_sge = (int)sim_config.send_sges;
	n->device.attrs.device_cap_flags = IB_DEVICE_MEM_MGT_EXTENSIONS;
	n->device.attrs.max_fast_reg_page_list_len = 512;
	n->device.phys_port_cnt = 1;
	n->device.node = node;
	sim_gid(node, false, n->attr.gid.raw);
	n->attr.gid_type = IB_GID_TYPE_ROCE_UDP_ENCAP;
	get_random_bytes(n->instance, sizeof(n->instance));
	n->epoch++;
	sim_switch_node(node);
	sim_alloc_calm++;
	if (client->add(&n->device))
		sim_fail("load", "the module does not take a device");
	sim_alloc_calm--;
}

void sim_node_stop(u32 node)
{
	client->remove(&nodes[node].device, nodes[node].device.client_data);
}

void sim_node_twin(u32 node)
{
	struct ib_device twin = nodes[node].device;

	twin.client_data = NULL;
	snprintf(twin.dev.name, sizeof(twin.dev.name), "twin%u", node % 1000);
	sim_alloc_calm++;
	if (client->add(&twin))
		sim_fail("load", "the module does not take a second device");
	sim_alloc_calm--;
	client->remove(&twin, twin.client_data);
}

u32 sim_mtu(u32 node)
{
	return nodes[node].mtu ?: (u32)sim_config.mtu;
}

/* That of a network device would have all devices looked at, and those of other nodes on behalf of this one. */
static void port_event(u32 node, enum ib_event_type type)
{
	struct ib_event event = { .event = type };
	struct ib_event_handler *events = nodes[node].device.events;

	if (events)
		events->handler(events, &event);
}

void sim_set_mtu(u32 node, u32 bytes)
{
	sim_trace("node %u: packets of %u bytes", node, bytes);
	nodes[node].mtu = bytes;
	port_event(node, IB_EVENT_PORT_ACTIVE);
}

int sim_pkey(u32 node)
{
	return nodes[node].pkey;
}

void sim_set_pkey(u32 node, int index)
{
	sim_trace("node %u: the default partition is number %d", node, index);
	nodes[node].pkey = index;
	port_event(node, IB_EVENT_PKEY_CHANGE);
}

int ib_find_cached_pkey(struct ib_device *device, u32 num, u16 key, u16 *index)
{
	if (nodes[device->node].pkey < 0)
		return -ENOENT;
	*index = nodes[device->node].pkey;
	return 0;
}

enum ib_mtu sim_mtu_enum(u32 node)
{
	u32 mtu = sim_mtu(node);

	return mtu >= 4096 ? IB_MTU_4096 : mtu >= 2048 ? IB_MTU_2048 : mtu >= 1024 ? IB_MTU_1024 :
	       mtu >= 512 ? IB_MTU_512 : IB_MTU_256;
}

int ib_query_port(struct ib_device *device, u32 num, struct ib_port_attr *attr)
{
	attr->active_mtu = sim_mtu_enum(device->node);
	attr->state = IB_PORT_ACTIVE;
	attr->gid_tbl_len = 1;
	return 0;
}

const struct ib_gid_attr *rdma_get_gid_attr(struct ib_device *device, u32 num, u32 index)
{
	return &nodes[device->node].attr;
}

int rdma_read_gid_l2_fields(const struct ib_gid_attr *attr, u16 *vlan, u8 *mac)
{
	memcpy(mac, attr->gid.raw + sizeof(attr->gid) - 6, 6);
	return 0;
}

bool rdma_protocol_roce(const struct ib_device *device, u32 num)
{
	return sim_config.fabric != SIM_FABRIC_IB;
}

bool rdma_protocol_ib(const struct ib_device *device, u32 num)
{
	return sim_config.fabric == SIM_FABRIC_IB;
}

bool ib_uses_virt_dma(const struct ib_device *device)
{
	return sim_config.fabric == SIM_FABRIC_SOFTWARE;
}

int rdma_query_gid(struct ib_device *device, u32 num, u32 index, union ib_gid *gid)
{
	*gid = nodes[device->node].attr.gid;
	return 0;
}

/* ---- descriptors ---- */

int sim_ring_create(u32 entries, struct ibrelk_ring_header **header)
{
	struct ibrelk_ring_create create = { .entries = entries };
	struct file *file = ibr_ring_create(&create);
	struct ibr_ring *ring;
	int fd;

	if (IS_ERR(file))
		return PTR_ERR(file);
	fd = sim_fd_install(file);
	ring = ibr_ring_get_fd(fd);
	*header = ibr_ring_header(ring);
	ibr_ring_put(ring);
	return fd;
}

void sim_ring_drain(int fd)
{
	struct ibrelk_ring_wait wait = { .count = 1 };
	struct file *file = fget(fd);

	file->f_op->unlocked_ioctl(file, IBRELK_IOC_RING_WAIT, (unsigned long)&wait);
	fput(file);
}

int sim_region_create(struct ibrelk_region_create *create)
{
	struct file *file = ibr_region_create(create);

	return IS_ERR(file) ? PTR_ERR(file) : sim_fd_install(file);
}

long sim_endpoint_create(struct ibrelk_endpoint_create *create, struct ibr_endpoint **endpoint)
{
	struct ibr_endpoint *made = ibr_endpoint_create(create);

	if (IS_ERR(made))
		return PTR_ERR(made);
	*endpoint = made;
	return 0;
}

void sim_endpoint_close(struct ibr_endpoint *endpoint)
{
	ibr_endpoint_close(endpoint);
}

int sim_peer_add(struct ibr_endpoint *endpoint, const struct ibrelk_addr *addr, u32 *handle)
{
	struct ibrelk_peer peer = { .addr = *addr };
	int ret = ibr_endpoint_peer_add(endpoint, &peer);

	*handle = peer.handle;
	return ret;
}

int sim_peer_query(struct ibr_endpoint *endpoint, u32 handle, struct ibrelk_addr *addr)
{
	struct ibrelk_peer peer = { .handle = handle };
	int ret = ibr_endpoint_peer_query(endpoint, &peer);

	*addr = peer.addr;
	return ret;
}

int sim_submit(struct ibr_endpoint *endpoint, const struct ibrelk_command *commands, u32 count)
{
	return ibr_command_batch(endpoint, commands, count);
}
