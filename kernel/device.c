// SPDX-License-Identifier: GPL-2.0-only
/*
 * RDMA devices: which there are, which of their ports can be used and under which addresses, and
 * what they can do. An address is a RoCE v2 GID that is an IP address, the GID of an InfiniBand
 * port, or an IPv4 address of an iWARP port's network device.
 *
 * Following a device. Events of the device (link, GIDs), and changes of network devices, queue
 * refresh_work, which looks at everything anew: addresses that have come get a listener, for those
 * that have gone the listener and all paths go too. A port whose link is down keeps its addresses
 * and paths: the link may come back before anybody gives up. What fails is tried again, more and more slowly.
 *
 * Letting go of a device (ibr_remove(), for "rdma link del" and when the module goes), in this
 * order: (1) refresh_work and events are over, and the device is not found any more, so no new
 * queue pair can be made on it; (2) the listeners go, which waits for requests being handled, so
 * that no peer can make a new path; (3) ibr_paths_remove_port() takes every path's connection down
 * and waits; (4) the datagram queue pairs go, and with them the last address handles in use; (5)
 * nothing is registered any more, and the reference count says that nothing is left; (6) memory
 * regions and protection domain go.
 *
 * Module exit: the chardev is gone first (no descriptor is open), then ibr_device_exit() does the
 * above for each device, then ibr_path_exit() and the workqueue.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/inetdevice.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/slab.h>
#include <net/ip6_route.h>
#include <net/net_namespace.h>
#include <net/route.h>
#include <rdma/ib_addr.h>
#include <rdma/ib_cache.h>

#include "compat.h"
#include "connect.h"
#include "device.h"
#include "path.h"
#include "transport/mr.h"
#include "transport/verbs.h"

#define ADDRS_MAX	64	/* of a port */
#define SETTLE_MS	20	/* events come in bunches */
#define RETRY_MAX_S	32	/* a refresh that failed is tried again after 1 s, 2 s, and so on up to this */

/* struct ibr_addr - an address of a port */
struct ibr_addr {
	struct list_head link;		/* port->addrs: devices_lock */
	u8 gid[16];
	struct ibr_listener *listener;	/* devices_lock; changed with device->refresh_lock held, too */
	bool seen;			/* likewise */
};

static const u8 zero_gid[16];

static DEFINE_SPINLOCK(devices_lock);	/* softirq-safe; what the structs say */
static LIST_HEAD(devices);

/* ---- lookups ------------------------------------------------------------------------------ */

bool ibr_device_get(struct ibr_device *device)
{
	return refcount_inc_not_zero(&device->users);
}

void ibr_device_put(struct ibr_device *device)
{
	if (refcount_dec_and_test(&device->users))
		complete(&device->idle);
}

void ibr_port_put(struct ibr_port *port)
{
	ibr_device_put(port->device);
}

static u32 device_modes(const struct ibr_device *device)
{
	u32 modes = 0;

	if (device->types & BIT(IB_QPT_RC))
		modes |= BIT(IBRELK_MODE_RC_NATIVE) | BIT(IBRELK_MODE_RC_RELIABLE);
	if (device->types & BIT(IB_QPT_UC))
		modes |= BIT(IBRELK_MODE_UC_NATIVE) | BIT(IBRELK_MODE_UC_RELIABLE);
	if (device->types & BIT(IB_QPT_UD))
		modes |= BIT(IBRELK_MODE_UD_NATIVE) | BIT(IBRELK_MODE_UD_RELIABLE);
	if ((device->types & BIT(IB_QPT_UC)) && (device->types & BIT(IB_QPT_UD)))
		modes |= BIT(IBRELK_MODE_AUTO);
	return modes;
}

static struct ibr_addr *port_addr(struct ibr_port *port, const u8 *gid)
{
	struct ibr_addr *addr;

	list_for_each_entry(addr, &port->addrs, link)
		if (!memcmp(addr->gid, gid, sizeof(addr->gid)))
			return addr;
	return NULL;
}

/*
 * The usable port with this address; a zero address: the first. One with a listener has proved that it is its own; that
 * of another one may be about to fail. Context: devices_lock held.
 */
static struct ibr_port *port_of_gid(const u8 *gid)
{
	bool any = !memcmp(gid, zero_gid, sizeof(zero_gid));
	struct ibr_port *pending = NULL;
	struct ibr_device *device;
	struct ibr_addr *addr;
	u32 i;

	lockdep_assert_held(&devices_lock);
	list_for_each_entry(device, &devices, link)
		for (i = 0; i < device->port_count; i++) {
			struct ibr_port *port = &device->ports[i];

			addr = any ? list_first_entry_or_null(&port->addrs, struct ibr_addr, link) :
				     port_addr(port, gid);
			if (addr && addr->listener)
				return port;
			if (addr && !pending)
				pending = port;
		}
	return pending;
}

struct ibr_port *ibr_port_find_gid(const u8 gid[16])
{
	struct ibr_port *port;

	spin_lock_bh(&devices_lock);
	port = port_of_gid(gid);
	if (port && !ibr_device_get(port->device))
		port = NULL;
	spin_unlock_bh(&devices_lock);
	return port;
}

struct ibr_port *ibr_port_find(struct ib_device *ib, u32 num)
{
	struct ibr_device *device;
	struct ibr_port *port = NULL;
	u32 i;

	spin_lock_bh(&devices_lock);
	list_for_each_entry(device, &devices, link) {
		if (device->ib != ib)
			continue;
		for (i = 0; i < device->port_count; i++)
			if (device->ports[i].num == num)
				port = &device->ports[i];
	}
	if (port && !ibr_device_get(port->device))
		port = NULL;
	spin_unlock_bh(&devices_lock);
	return port;
}

struct ibr_qp *ibr_port_ud(struct ibr_port *port)
{
	struct ibr_qp *qp;

	spin_lock_bh(&devices_lock);
	qp = port->ud;
	if (qp)
		ibr_qp_get(qp);
	spin_unlock_bh(&devices_lock);
	return qp;
}

bool ibr_device_local(u8 gid[16])
{
	struct ibr_port *port;

	spin_lock_bh(&devices_lock);
	port = port_of_gid(gid);
	if (port && !memcmp(gid, zero_gid, sizeof(zero_gid)))
		memcpy(gid, list_first_entry(&port->addrs, struct ibr_addr, link)->gid, 16);
	spin_unlock_bh(&devices_lock);
	return port;
}

u32 ibr_device_modes(const u8 gid[16])
{
	bool any = !memcmp(gid, zero_gid, sizeof(zero_gid));
	struct ibr_device *device;
	struct ibr_port *port;
	u32 modes = 0;
	u32 i;

	spin_lock_bh(&devices_lock);
	if (!any) {
		port = port_of_gid(gid);
		if (port)
			modes = device_modes(port->device);
	} else {
		list_for_each_entry(device, &devices, link)
			for (i = 0; i < device->port_count; i++)
				if (!list_empty(&device->ports[i].addrs))
					modes |= device_modes(device);
	}
	spin_unlock_bh(&devices_lock);
	return modes;
}

enum ibr_fabric ibr_device_fabric(const u8 gid[16])
{
	enum ibr_fabric fabric = IBR_FABRIC_LOSSLESS;
	struct ibr_port *port;

	spin_lock_bh(&devices_lock);
	port = port_of_gid(gid);
	if (port && port->layer == IBR_LINK_ROCE)
		/* Where the processor moves the data there is nothing to map them for. */
		fabric = ib_uses_virt_dma(port->device->ib) ? IBR_FABRIC_SOFTWARE : IBR_FABRIC_ETHERNET;
	spin_unlock_bh(&devices_lock);
	return fabric;
}

u32 ibr_device_ports(void)
{
	struct ibr_device *device;
	u32 count = 0;
	u32 i;

	spin_lock_bh(&devices_lock);
	list_for_each_entry(device, &devices, link)
		for (i = 0; i < device->port_count; i++)
			count += !list_empty(&device->ports[i].addrs);
	spin_unlock_bh(&devices_lock);
	return count;
}

static void port_info(const struct ibr_port *port, const struct ibr_addr *addr,
		      struct ibrelk_port_info *info)
{
	memset(info, 0, sizeof(*info));
	strscpy(info->device, dev_name(&port->device->ib->dev), sizeof(info->device));
	info->port = port->num;
	info->mtu = port->mtu;
	info->modes = device_modes(port->device);
	if (addr) {
		info->usable = 1;
		memcpy(info->gid, addr->gid, sizeof(info->gid));
	} else {
		strscpy(info->reason, port->reason, sizeof(info->reason));
	}
	info->drop_length = atomic64_read(&port->drops[WIRE_BAD_LENGTH]);
	info->drop_version = atomic64_read(&port->drops[WIRE_BAD_VERSION]);
	info->drop_token = atomic64_read(&port->drops[WIRE_BAD_TOKEN]);
	info->drop_checksum = atomic64_read(&port->drops[WIRE_BAD_CHECKSUM]);
	info->drop_malformed = atomic64_read(&port->drops[WIRE_BAD_FRAME]);
}

u32 ibr_device_dump(struct ibrelk_port_info *info, u32 max)
{
	struct ibr_device *device;
	struct ibr_addr *addr;
	u32 count = 0;
	u32 i;

	spin_lock_bh(&devices_lock);
	list_for_each_entry(device, &devices, link)
		for (i = 0; i < device->port_count; i++) {
			struct ibr_port *port = &device->ports[i];

			if (list_empty(&port->addrs) && count++ < max)
				port_info(port, NULL, info++);
			list_for_each_entry(addr, &port->addrs, link)
				if (count++ < max)
					port_info(port, addr, info++);
		}
	spin_unlock_bh(&devices_lock);
	return count;
}

void ibr_device_describe(const u8 gid[16], char name[64], u32 *port_num, u32 *mtu)
{
	struct ibr_port *port;

	spin_lock_bh(&devices_lock);
	port = memcmp(gid, zero_gid, sizeof(zero_gid)) ? port_of_gid(gid) : NULL;
	if (port) {
		strscpy(name, dev_name(&port->device->ib->dev), 64);
		*port_num = port->num;
		*mtu = port->mtu;
	} else {
		name[0] = '\0';
		*port_num = 0;
		*mtu = 0;
	}
	spin_unlock_bh(&devices_lock);
}

int ibr_device_busy_poll(void)
{
	return ibr_qps_poll();
}

/* ---- choosing a port ---------------------------------------------------------------------- */

/* The address that the routing table would send from. */
static int route_source(const u8 *remote, u8 *source)
{
	const struct in6_addr *target = (const struct in6_addr *)remote;

	if (ipv6_addr_v4mapped(target)) {
		struct flowi4 fl4 = { .daddr = target->s6_addr32[3] };
		struct rtable *route;

		route = ip_route_output_key(&init_net, &fl4);
		if (IS_ERR(route))
			return -ENETUNREACH;
		ip_rt_put(route);
		ipv6_addr_set_v4mapped(fl4.saddr, (struct in6_addr *)source);
	} else {
		struct flowi6 fl6 = { .daddr = *target };
		struct dst_entry *dst;

		dst = ibr_route6(&init_net, &fl6);
		if (IS_ERR(dst))
			return -ENETUNREACH;
		dst_release(dst);
		memcpy(source, &fl6.saddr, 16);
	}
	return 0;
}

/* InfiniBand: the port in the remote one's subnet. Context: devices_lock held. */
static bool subnet_source(const u8 *remote, u8 *source)
{
	struct ibr_device *device;
	struct ibr_addr *addr;
	u32 i;

	list_for_each_entry(device, &devices, link)
		for (i = 0; i < device->port_count; i++) {
			if (device->ports[i].layer != IBR_LINK_IB)
				continue;
			list_for_each_entry(addr, &device->ports[i].addrs, link)
				if (!memcmp(addr->gid, remote, 8)) {
					memcpy(source, addr->gid, 16);
					return true;
				}
		}
	return false;
}

int ibr_device_select(const u8 local[16], const u8 remote[16], u8 chosen[16], bool *same_node)
{
	bool any = !memcmp(local, zero_gid, sizeof(zero_gid));
	bool found, same, none;
	u8 source[16];
	int ret;

	if (!memcmp(remote, zero_gid, sizeof(zero_gid)))
		return -EADDRNOTAVAIL;
	spin_lock_bh(&devices_lock);
	none = !port_of_gid(zero_gid);
	same = !!port_of_gid(remote);
	memcpy(source, any ? remote : local, sizeof(source));
	found = any ? same || subnet_source(remote, source) : !!port_of_gid(local);
	spin_unlock_bh(&devices_lock);

	if (none)
		return -ENODEV;
	if (!found && !any)
		return -EADDRNOTAVAIL;
	if (!found) {
		ret = route_source(remote, source);
		if (ret)
			return ret;
		if (!ibr_device_local(source))
			return -ENETUNREACH;
	}
	memcpy(chosen, source, sizeof(source));
	*same_node = same;
	return 0;
}

/* ---- addresses ---------------------------------------------------------------------------- */

/* struct gid_list - addresses that a port has now */
struct gid_list {
	u32 count;
	u8 gid[ADDRS_MAX][16];
};

static void gid_list_add(struct gid_list *list, const u8 *gid)
{
	u32 i;

	for (i = 0; i < list->count; i++)
		if (!memcmp(list->gid[i], gid, 16))
			return;
	if (list->count < ADDRS_MAX)
		memcpy(list->gid[list->count++], gid, 16);
}

/* Link-local addresses mean nothing without an interface, which an address of ours cannot name. */
static bool gid_usable(const struct ib_gid_attr *attr)
{
	const struct in6_addr *addr = (const struct in6_addr *)&attr->gid;

	return attr->gid_type == IB_GID_TYPE_ROCE_UDP_ENCAP && !ipv6_addr_any(addr) &&
	       !(ipv6_addr_type(addr) & (IPV6_ADDR_LINKLOCAL | IPV6_ADDR_LOOPBACK));
}

static void list_roce(struct ibr_port *port, u32 entries, struct gid_list *list)
{
	const struct ib_gid_attr *attr;
	u32 i;

	for (i = 0; i < entries; i++) {
		attr = rdma_get_gid_attr(port->device->ib, port->num, i);
		if (IS_ERR(attr))
			continue;
		if (gid_usable(attr))
			gid_list_add(list, attr->gid.raw);
		rdma_put_gid_attr(attr);
	}
}

static void list_ib(struct ibr_port *port, struct gid_list *list)
{
	union ib_gid gid;

	if (!rdma_query_gid(port->device->ib, port->num, 0, &gid) && gid.global.interface_id)
		gid_list_add(list, gid.raw);
}

/*
 * An iWARP device does not list addresses. Those of all network devices are candidates, and the
 * connection manager says which are its own when a listener is bound to them.
 */
static void list_iwarp(struct gid_list *list)
{
	struct net_device *dev;
	struct in_device *in;
	struct in_ifaddr *ifa;
	u8 gid[16];

	rcu_read_lock();
	for_each_netdev_rcu(&init_net, dev) {
		if (dev->flags & IFF_LOOPBACK)
			continue;
		in = __in_dev_get_rcu(dev);
		if (!in)
			continue;
		in_dev_for_each_ifa_rcu(ifa, in) {
			ipv6_addr_set_v4mapped(ifa->ifa_local, (struct in6_addr *)gid);
			gid_list_add(list, gid);
		}
	}
	rcu_read_unlock();
}

/* Say once why a port is not used. Context: refresh_lock held. */
static void port_leave(struct ibr_port *port, const char *reason)
{
	if (!strcmp(port->reason, reason))
		return;
	spin_lock_bh(&devices_lock);
	strscpy(port->reason, reason, sizeof(port->reason));
	spin_unlock_bh(&devices_lock);
	if (*reason)
		pr_info("%s port %u: not used: %s\n", dev_name(&port->device->ib->dev), port->num,
			reason);
}

/* Look at all devices anew, soon. What no event of a device tells: MTU, iWARP ports' addresses, what another had. */
static void refresh_all(void)
{
	struct ibr_device *device;

	spin_lock_bh(&devices_lock);
	list_for_each_entry(device, &devices, link)
		queue_delayed_work(ibr_wq, &device->refresh_work, msecs_to_jiffies(SETTLE_MS));
	spin_unlock_bh(&devices_lock);
}

static void addr_remove(struct ibr_port *port, struct ibr_addr *addr)
{
	spin_lock_bh(&devices_lock);
	list_del(&addr->link);
	spin_unlock_bh(&devices_lock);
	ibr_listener_destroy(addr->listener);
	ibr_paths_remove_port(addr->gid);
	pr_info("%s port %u: address %pI6c gone\n", dev_name(&port->device->ib->dev), port->num,
		addr->gid);
	kfree(addr);
	refresh_all();
}

/* Can another port use it? One that is about to try says nothing. */
static bool addr_taken(const u8 *gid)
{
	struct ibr_port *port;
	bool taken;

	spin_lock_bh(&devices_lock);
	port = port_of_gid(gid);
	taken = port && port_addr(port, gid)->listener;
	spin_unlock_bh(&devices_lock);
	return taken;
}

static int addr_add(struct ibr_port *port, const u8 *gid)
{
	u32 types = port->device->types;
	struct ibr_listener *listener;
	struct ibr_addr *addr;

	addr = kzalloc(sizeof(*addr), GFP_KERNEL);
	if (!addr)
		return -ENOMEM;
	memcpy(addr->gid, gid, sizeof(addr->gid));
	addr->seen = true;
	/* A request may come at once, and must find the address. */
	spin_lock_bh(&devices_lock);
	list_add_tail(&addr->link, &port->addrs);
	spin_unlock_bh(&devices_lock);

	listener = ibr_listener_create(port, gid);
	if (IS_ERR(listener)) {
		spin_lock_bh(&devices_lock);
		list_del(&addr->link);
		spin_unlock_bh(&devices_lock);
		if (!addr_taken(gid))
			ibr_paths_remove_port(gid);
		kfree(addr);
		return PTR_ERR(listener);
	}
	spin_lock_bh(&devices_lock);
	addr->listener = listener;
	spin_unlock_bh(&devices_lock);
	pr_info("%s port %u: address %pI6c, MTU %u,%s%s%s\n", dev_name(&port->device->ib->dev),
		port->num, gid, port->mtu, types & BIT(IB_QPT_RC) ? " RC" : "",
		types & BIT(IB_QPT_UC) ? " UC" : "", types & BIT(IB_QPT_UD) ? " UD" : "");
	return 0;
}

/* The datagram queue pair; made when the port is used for the first time. */
static int port_open_ud(struct ibr_port *port)
{
	struct ibr_qp *qp;
	int ret;

	if (port->ud || !(port->device->types & BIT(IB_QPT_UD)))
		return 0;
	/* Whatever the MTU is now: it may be raised later. */
	qp = ibr_qp_create(port, NULL, IB_QPT_UD, IBR_PACKET_MAX);
	if (IS_ERR(qp))
		return PTR_ERR(qp);
	ret = ibr_qp_open_ud(qp);
	if (ret) {
		ibr_qp_stop(qp);
		ibr_qp_put(qp);
		return ret;
	}
	spin_lock_bh(&devices_lock);
	port->ud = qp;
	spin_unlock_bh(&devices_lock);
	return 0;
}

static void port_list(struct ibr_port *port, u32 entries, struct gid_list *list)
{
	list->count = 0;
	switch (port->layer) {
	case IBR_LINK_ROCE:
		list_roce(port, entries, list);
		break;
	case IBR_LINK_IB:
		list_ib(port, list);
		break;
	case IBR_LINK_IWARP:
		list_iwarp(list);
		break;
	}
}

/*
 * What is longer than a packet may be now is dropped by adapters and switches, and nobody is told; short ones, which
 * probe, go on. So no path is left to what was agreed before, by either end. Those whose packets are short enough have
 * maybe told their peer of longer ones. Context: refresh_lock held.
 */
static void port_set_mtu(struct ibr_port *port, u32 mtu)
{
	bool less = mtu < port->mtu;

	spin_lock_bh(&devices_lock);
	WRITE_ONCE(port->mtu, mtu);
	spin_unlock_bh(&devices_lock);
	if (less)
		ibr_paths_break(port, NULL, -EMSGSIZE);
}

/* Look at a port anew. Returns whether that has to be tried again. Context: refresh_lock held. */
static bool port_refresh(struct ibr_port *port, struct gid_list *list)
{
	struct ibr_device *device = port->device;
	struct ibr_addr *addr, *next;
	struct ib_port_attr attr;
	const char *reason = "";
	bool again = false;
	u32 mtu;
	u32 i;
	int ret;

	ret = ib_query_port(device->ib, port->num, &attr);
	if (ret) {
		port_leave(port, "port cannot be queried");
		return true;
	}
	mtu = ib_mtu_enum_to_int(attr.active_mtu);
	/* Some adapters tell none while the link is down: what it was, or the least that there is. */
	if ((int)mtu <= 0)
		mtu = port->mtu ?: IBR_PACKET_MIN;
	/* iWARP has no packets that matter to us: it moves a message of any length. */
	if (port->layer == IBR_LINK_IWARP)
		mtu = IBR_PACKET_MAX;
	port_set_mtu(port, mtu);
	if (port->ud)
		ibr_qp_check_pkey(port->ud);
	port_list(port, attr.gid_tbl_len, list);

	list_for_each_entry(addr, &port->addrs, link)
		addr->seen = false;
	for (i = 0; i < list->count; i++) {
		addr = port_addr(port, list->gid[i]);
		if (addr) {
			addr->seen = true;
			continue;
		}
		ret = port_open_ud(port);
		if (!ret)
			ret = addr_add(port, list->gid[i]);
		if (!ret)
			continue;
		if (addr_taken(list->gid[i]) ||
		    (port->layer == IBR_LINK_IWARP && (ret == -EADDRNOTAVAIL || ret == -ENODEV))) {
			reason = "its address belongs to another RDMA device";
		} else {
			/* One of IPv6 cannot be bound before duplicates were looked for, and no event tells of that. */
			reason = "no queue pair or listener could be made";
			again = true;
		}
	}
	list_for_each_entry_safe(addr, next, &port->addrs, link)
		if (!addr->seen)
			addr_remove(port, addr);

	if (!list_empty(&port->addrs))
		reason = "";
	else if (!*reason)
		reason = attr.state == IB_PORT_ACTIVE ? "no IP address (RoCE v2 GID)" :
							"no address, and the link is down";
	port_leave(port, reason);
	return again;
}

static void device_refresh(struct ibr_device *device, bool retry)
{
	struct gid_list *list;
	bool again;
	u32 i;

	list = kmalloc(sizeof(*list), GFP_KERNEL);
	again = !list;
	mutex_lock(&device->refresh_lock);
	for (i = 0; list && i < device->port_count && !device->removing; i++)
		again |= port_refresh(&device->ports[i], list);
	/* After an event it may be something else that fails. */
	device->retry_s = retry ? min_t(u32, 2 * device->retry_s, RETRY_MAX_S) : 1;
	if (again && !device->removing)
		mod_delayed_work(ibr_wq, &device->retry_work, device->retry_s * HZ);
	mutex_unlock(&device->refresh_lock);
	kfree(list);
}

static void device_refresh_work(struct work_struct *work)
{
	device_refresh(container_of(to_delayed_work(work), struct ibr_device, refresh_work), false);
}

static void device_retry_work(struct work_struct *work)
{
	device_refresh(container_of(to_delayed_work(work), struct ibr_device, retry_work), true);
}

/* ---- events ------------------------------------------------------------------------------- */

static void device_event(struct ib_event_handler *handler, struct ib_event *event)
{
	struct ibr_device *device = container_of(handler, struct ibr_device, events);

	switch (event->event) {
	case IB_EVENT_PORT_ACTIVE:
	case IB_EVENT_PORT_ERR:
	case IB_EVENT_GID_CHANGE:
	case IB_EVENT_LID_CHANGE:
	case IB_EVENT_PKEY_CHANGE:
	case IB_EVENT_CLIENT_REREGISTER:
	case IB_EVENT_DEVICE_FATAL:
		queue_delayed_work(ibr_wq, &device->refresh_work, msecs_to_jiffies(SETTLE_MS));
		break;
	default:
		break;
	}
}

static int netdev_event(struct notifier_block *block, unsigned long event, void *data)
{
	if (event == NETDEV_CHANGEMTU || event == NETDEV_UP)
		refresh_all();
	return NOTIFY_DONE;
}

static int inetaddr_event(struct notifier_block *block, unsigned long event, void *data)
{
	refresh_all();
	return NOTIFY_DONE;
}

static struct notifier_block netdev_block = { .notifier_call = netdev_event };
static struct notifier_block inetaddr_block = { .notifier_call = inetaddr_event };

/* ---- the client --------------------------------------------------------------------------- */

static void device_detect(struct ibr_device *device)
{
	static const enum ib_qp_type types[] = { IB_QPT_RC, IB_QPT_UC, IB_QPT_UD };
	struct ib_device *ib = device->ib;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(types); i++)
		if (ibr_qp_probe(ib, device->pd, types[i]))
			device->types |= BIT(types[i]);
}

static bool layer_of(struct ib_device *ib, u32 num, enum ibr_link_layer *layer)
{
	if (rdma_protocol_roce_udp_encap(ib, num))
		*layer = IBR_LINK_ROCE;
	else if (rdma_protocol_ib(ib, num) && rdma_cap_ib_cm(ib, num))
		*layer = IBR_LINK_IB;
	else if (rdma_protocol_iwarp(ib, num))
		*layer = IBR_LINK_IWARP;
	else
		return false;
	return true;
}

static struct ib_client ibr_client;

static int ibr_add(struct ib_device *ib)
{
	const char *name = dev_name(&ib->dev);
	struct ibr_device *device;
	u32 num;
	int ret;

	device = kzalloc(sizeof(*device), GFP_KERNEL);
	if (!device)
		return -ENOMEM;
	device->ib = ib;
	refcount_set(&device->users, 1);
	init_completion(&device->idle);
	mutex_init(&device->refresh_lock);
	INIT_DELAYED_WORK(&device->refresh_work, device_refresh_work);
	INIT_DELAYED_WORK(&device->retry_work, device_retry_work);

	ret = -ENOMEM;
	device->ports = kcalloc(ib->phys_port_cnt, sizeof(*device->ports), GFP_KERNEL);
	if (!device->ports)
		goto err_free;
	rdma_for_each_port(ib, num) {
		struct ibr_port *port = &device->ports[device->port_count];

		if (!layer_of(ib, num, &port->layer)) {
			pr_info("%s port %u: not used: neither RoCE v2 nor InfiniBand nor iWARP\n",
				name, num);
			continue;
		}
		port->device = device;
		port->num = num;
		INIT_LIST_HEAD(&port->addrs);
		device->port_count++;
	}
	ret = -EOPNOTSUPP;
	if (!device->port_count)
		goto err_free;

	device->pd = ib_alloc_pd(ib, 0);
	if (IS_ERR(device->pd)) {
		ret = PTR_ERR(device->pd);
		pr_info("%s: not used: no protection domain (%d)\n", name, ret);
		goto err_free;
	}
	device_detect(device);
	if (!device->types) {
		pr_info("%s: not used: it makes no queue pair of type RC, UC or UD\n", name);
		goto err_pd;
	}

	device->mrs = ibr_mrs_create(device);
	ib_set_client_data(ib, &ibr_client, device);
	spin_lock_bh(&devices_lock);
	list_add_tail(&device->link, &devices);
	spin_unlock_bh(&devices_lock);
	INIT_IB_EVENT_HANDLER(&device->events, ib, device_event);
	ib_register_event_handler(&device->events);
	device_refresh(device, false);
	return 0;

err_pd:
	ib_dealloc_pd(device->pd);
err_free:
	kfree(device->ports);
	kfree(device);
	return ret;
}

static void ibr_remove(struct ib_device *ib, void *data)
{
	struct ibr_device *device = data;
	struct ibr_addr *addr, *next;
	u32 i;

	/* (1) */
	ib_unregister_event_handler(&device->events);
	spin_lock_bh(&devices_lock);
	list_del(&device->link);
	spin_unlock_bh(&devices_lock);
	mutex_lock(&device->refresh_lock);
	device->removing = true;
	mutex_unlock(&device->refresh_lock);
	cancel_delayed_work_sync(&device->refresh_work);
	cancel_delayed_work_sync(&device->retry_work);

	/* (2), (3) */
	for (i = 0; i < device->port_count; i++)
		list_for_each_entry_safe(addr, next, &device->ports[i].addrs, link)
			addr_remove(&device->ports[i], addr);

	/* (4) */
	for (i = 0; i < device->port_count; i++) {
		struct ibr_qp *qp = device->ports[i].ud;

		if (!qp)
			continue;
		spin_lock_bh(&devices_lock);
		device->ports[i].ud = NULL;
		spin_unlock_bh(&devices_lock);
		ibr_qp_stop(qp);
		ibr_qp_put(qp);
	}

	/* (5) */
	ibr_mrs_stop(device->mrs);
	ibr_device_put(device);
	wait_for_completion(&device->idle);

	/* (6) */
	ibr_mrs_destroy(device->mrs);
	ib_dealloc_pd(device->pd);
	kfree(device->ports);
	kfree(device);
}

static struct ib_client ibr_client = {
	.name = "ibrelk",
	.add = ibr_add,
	.remove = ibr_remove,
};

int ibr_device_init(void)
{
	int ret;

	ret = ib_register_client(&ibr_client);
	if (ret)
		return ret;
	ret = register_inetaddr_notifier(&inetaddr_block);
	if (ret)
		goto err_client;
	ret = register_netdevice_notifier(&netdev_block);
	if (ret)
		goto err_inetaddr;
	return 0;

err_inetaddr:
	unregister_inetaddr_notifier(&inetaddr_block);
err_client:
	ib_unregister_client(&ibr_client);
	return ret;
}

void ibr_device_exit(void)
{
	unregister_netdevice_notifier(&netdev_block);
	unregister_inetaddr_notifier(&inetaddr_block);
	ib_unregister_client(&ibr_client);
}
