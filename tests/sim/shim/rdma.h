/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The RDMA core as far as ibrelk uses it: verbs (adapter.c), the connection manager (cm.c), and the addresses of
 * an Ethernet port. What the adapters and the network do is the simulator's.
 */
#ifndef SIM_RDMA_H
#define SIM_RDMA_H

#include "alloc.h"
#include "event.h"
#include "process.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- verbs ---- */

enum ib_qp_type { IB_QPT_RC = 2, IB_QPT_UC = 3, IB_QPT_UD = 4 };
enum ib_qp_state { IB_QPS_RESET, IB_QPS_INIT, IB_QPS_RTR, IB_QPS_RTS, IB_QPS_ERR };
enum ib_wc_status { IB_WC_SUCCESS, IB_WC_WR_FLUSH_ERR, IB_WC_RETRY_EXC_ERR, IB_WC_GENERAL_ERR };
enum ib_wr_opcode { IB_WR_SEND, IB_WR_RDMA_WRITE_WITH_IMM, IB_WR_REG_MR };
enum ib_wc_opcode { IB_WC_SEND, IB_WC_RECV, IB_WC_RECV_RDMA_WITH_IMM };
enum ib_poll_context { IB_POLL_SOFTIRQ };
enum ib_mr_type { IB_MR_TYPE_MEM_REG };
enum dma_data_direction { DMA_TO_DEVICE, DMA_FROM_DEVICE };
enum ib_event_type {
	IB_EVENT_QP_FATAL, IB_EVENT_QP_REQ_ERR, IB_EVENT_QP_ACCESS_ERR,
	IB_EVENT_PORT_ACTIVE, IB_EVENT_PORT_ERR, IB_EVENT_GID_CHANGE, IB_EVENT_LID_CHANGE,
	IB_EVENT_CLIENT_REREGISTER, IB_EVENT_DEVICE_FATAL, IB_EVENT_CQ_ERR, IB_EVENT_PKEY_CHANGE,
};
#define IB_SEND_SIGNALED		2
#define IB_SIGNAL_REQ_WR		1
#define IB_CQ_NEXT_COMP			2
#define IB_CQ_REPORT_MISSED_EVENTS	4
#define IB_QP_STATE			1
#define IB_QP_PKEY_INDEX		2
#define IB_QP_PORT			4
#define IB_QP_QKEY			8
#define IB_QP_SQ_PSN			16
#define IB_QP_ACCESS_FLAGS		32
#define IB_QP_AV			64
#define IB_QP_PATH_MTU			128
#define IB_QP_DEST_QPN			256
#define IB_QP_RQ_PSN			512
#define IB_QP_MAX_DEST_RD_ATOMIC	1024
#define IB_QP_MIN_RNR_TIMER		2048
#define IB_QP_TIMEOUT			4096
#define IB_QP_RETRY_CNT			8192
#define IB_QP_RNR_RETRY			16384
#define IB_QP_MAX_QP_RD_ATOMIC		32768
#define IB_ACCESS_LOCAL_WRITE		1
#define IB_ACCESS_REMOTE_WRITE		2
#define IB_DEVICE_MEM_MGT_EXTENSIONS	1
#define IB_AH_GRH			1
#define RDMA_CREATE_AH_SLEEPABLE	1
#define RDMA_DESTROY_AH_SLEEPABLE	1

struct device {
	char name[16];
};

#define dev_name(dev)	((dev)->name)

struct ib_device {
	struct device dev;
	struct ib_device_attr {
		int max_qp_wr;
		int max_send_sge;
		u64 device_cap_flags;
		u32 max_fast_reg_page_list_len;
	} attrs;
	int num_comp_vectors;
	u32 phys_port_cnt;
	u32 node;		/* the simulator's */
	void *client_data;
	struct ib_event_handler *events;
};

struct ib_event {
	enum ib_event_type event;
};

struct ib_pd {
	struct ib_device *device;
	u32 local_dma_lkey;
};

struct ib_cq;
struct ib_qp {
	struct ib_device *device;
	u32 qp_num;
	enum ib_qp_type qp_type;
};

struct ib_sge {
	u64 addr;
	u32 length;
	u32 lkey;
};

struct ib_wc;
struct ib_cqe {
	void (*done)(struct ib_cq *cq, struct ib_wc *wc);
};

struct ib_send_wr {
	struct ib_send_wr *next;
	union {
		u64 wr_id;
		struct ib_cqe *wr_cqe;
	};
	struct ib_sge *sg_list;
	int num_sge;
	enum ib_wr_opcode opcode;
	int send_flags;
	struct {
		__be32 imm_data;
	} ex;
};

struct ib_rdma_wr {
	struct ib_send_wr wr;
	u64 remote_addr;
	u32 rkey;
};

struct ib_mr {
	struct ib_device *device;
	u32 lkey, rkey;
	u64 iova;
};

struct ib_reg_wr {
	struct ib_send_wr wr;
	struct ib_mr *mr;
	u32 key;
	int access;
};

struct ib_ah;
struct ib_ud_wr {
	struct ib_send_wr wr;
	struct ib_ah *ah;
	u32 remote_qpn;
	u32 remote_qkey;
};

struct ib_recv_wr {
	struct ib_recv_wr *next;
	u64 wr_id;
	struct ib_sge *sg_list;
	int num_sge;
};

struct ib_wc {
	union {
		u64 wr_id;
		struct ib_cqe *wr_cqe;
	};
	enum ib_wc_status status;
	u32 byte_len;
	enum ib_wc_opcode opcode;
	struct {
		__be32 imm_data;
	} ex;
};

struct ib_grh {
	u8 raw[40];
};

enum rdma_ah_attr_type { RDMA_AH_ATTR_TYPE_IB = 1, RDMA_AH_ATTR_TYPE_ROCE };

struct rdma_ah_attr {
	u8 gid[16];
	int type;
	struct {
		u8 dmac[6];
	} roce;
};

struct ib_qp_attr {
	enum ib_qp_state qp_state;
	u16 pkey_index;
	u32 port_num;
	u32 qkey;
	u32 sq_psn;
	int path_mtu;
	u32 dest_qp_num;
	u8 min_rnr_timer, timeout, retry_cnt, rnr_retry;
	struct rdma_ah_attr ah_attr;
};

struct ib_qp_init_attr {
	void (*event_handler)(struct ib_event *event, void *context);
	void *qp_context;
	struct ib_cq *send_cq, *recv_cq;
	struct {
		u32 max_send_wr, max_recv_wr, max_send_sge, max_recv_sge;
	} cap;
	int sq_sig_type;
	enum ib_qp_type qp_type;
	u32 port_num;
};

struct ib_cq_init_attr {
	u32 cqe;
	u32 comp_vector;
};

struct ib_pd *ib_alloc_pd(struct ib_device *device, int flags);
void ib_dealloc_pd(struct ib_pd *pd);
struct ib_cq *ib_create_cq(struct ib_device *device, void (*completed)(struct ib_cq *, void *),
			   void (*failed)(struct ib_event *, void *), void *context, const struct ib_cq_init_attr *attr);
void ib_destroy_cq(struct ib_cq *cq);
struct ib_cq *ib_alloc_cq(struct ib_device *device, void *context, int entries, int vector,
			  enum ib_poll_context poll_context);
void ib_free_cq(struct ib_cq *cq);
void ib_drain_sq(struct ib_qp *qp);
struct ib_mr *ib_alloc_mr(struct ib_pd *pd, enum ib_mr_type type, u32 max_pages);
int ib_dereg_mr(struct ib_mr *mr);
struct scatterlist;
int ib_map_mr_sg(struct ib_mr *mr, struct scatterlist *sg, int entries, unsigned int *offset, unsigned int page_size);
int ib_poll_cq(struct ib_cq *cq, int count, struct ib_wc *wc);
int ib_req_notify_cq(struct ib_cq *cq, int flags);
struct ib_qp *ib_create_qp(struct ib_pd *pd, struct ib_qp_init_attr *attr);
int ib_modify_qp(struct ib_qp *qp, struct ib_qp_attr *attr, int mask);
int ib_destroy_qp(struct ib_qp *qp);
int ib_post_send(struct ib_qp *qp, const struct ib_send_wr *wr, const struct ib_send_wr **bad);
int ib_post_recv(struct ib_qp *qp, const struct ib_recv_wr *wr, const struct ib_recv_wr **bad);
struct ib_ah *rdma_create_ah(struct ib_pd *pd, struct rdma_ah_attr *attr, int flags);
void rdma_destroy_ah(struct ib_ah *ah, int flags);

/* Lists of pages */
struct scatterlist {
	struct page *page;
	u32 offset, length;
};

struct bio_vec {
	struct page *bv_page;
	u32 bv_len, bv_offset;
};

#define sg_init_table(sg, n)		memset(sg, 0, (n) * sizeof(*(sg)))
#define sg_next(sg)			((sg) + 1)
#define sg_set_page(sg, p, l, o)	((sg)->page = (p), (sg)->length = (l), (sg)->offset = (o))
int sim_dma_map(const struct ib_device *device, struct scatterlist *sg, int count);
void sim_dma_unmap(struct scatterlist *sg, int count);
bool sim_dma_sync(void);
/* sim_map_refuse() - a payload cannot be mapped */
bool sim_map_refuse(void);

#define ib_dma_map_sg(ib, sg, n, direction)	sim_dma_map(ib, sg, (int)(n))
#define dma_need_sync(device, address)	sim_dma_sync()
#define ib_dma_unmap_sg(ib, sg, n, direction)	sim_dma_unmap(sg, (int)(n))
#define ib_dma_map_page(ib, p, offset, bytes, direction)	\
	(sim_map_refuse() ? 0 : (dma_addr_t)(uintptr_t)(p)->address + (offset))
#define ib_dma_unmap_page(ib, dma, bytes, direction)	do { } while (0)
#define rdma_ah_find_type(ib, port)	\
	(rdma_protocol_roce(ib, port) ? RDMA_AH_ATTR_TYPE_ROCE : RDMA_AH_ATTR_TYPE_IB)
#define rdma_ah_set_port_num(ah, port)		((void)(ah))
#define rdma_ah_set_grh(ah, gid, a, i, b, c)	((void)(ah), (void)(gid))
#define rdma_ah_set_ah_flags(ah, flags)		((void)(ah))
#define rdma_ah_set_dlid(ah, lid)		((void)(ah))

/* An adapter reads and writes where the address says. */
#define ib_dma_map_single(ib, p, bytes, direction)	\
	(sim_map_refuse() ? 0 : (dma_addr_t)(uintptr_t)(p))
#define ib_dma_unmap_single(ib, dma, bytes, direction)	do { } while (0)
#define ib_dma_mapping_error(ib, dma)			(!(dma))
#define ib_dma_sync_single_for_device(ib, dma, bytes, direction)	do { } while (0)
#define ib_dma_sync_single_for_cpu(ib, dma, bytes, direction)		do { } while (0)

/* ---- devices and addresses ---- */

struct net;
extern struct net init_net;
struct ib_client {
	const char *name;
	int (*add)(struct ib_device *device);
	void (*remove)(struct ib_device *device, void *data);
};

struct ib_event_handler {
	struct ib_device *device;
	void (*handler)(struct ib_event_handler *handler, struct ib_event *event);
};

enum ib_mtu { IB_MTU_256 = 1, IB_MTU_512, IB_MTU_1024, IB_MTU_2048, IB_MTU_4096 };
enum { IB_PORT_ACTIVE = 4 };
enum { IB_GID_TYPE_ROCE_UDP_ENCAP = 2 };
union ib_gid {
	u8 raw[16];
	struct {
		u64 subnet_prefix, interface_id;
	} global;
};

struct ib_gid_attr {
	union ib_gid gid;
	int gid_type;
};

struct ib_port_attr {
	enum ib_mtu active_mtu;
	int state;
	u32 gid_tbl_len;
};

#define INIT_IB_EVENT_HANDLER(h, ib, f)	((h)->device = (ib), (h)->handler = (f))
#define ib_register_event_handler(h)	((h)->device->events = (h))
#define ib_unregister_event_handler(h)	((h)->device->events = NULL)
#define ib_set_client_data(ib, client, data)	((ib)->client_data = (data))
#define rdma_start_port(ib)		1
#define rdma_for_each_port(ib, num)	for (num = 1; num <= (ib)->phys_port_cnt; num++)
#define rdma_protocol_roce_udp_encap(ib, num)	rdma_protocol_roce(ib, num)
bool rdma_protocol_roce(const struct ib_device *device, u32 num);
bool rdma_protocol_ib(const struct ib_device *device, u32 num);
bool ib_uses_virt_dma(const struct ib_device *device);
#define rdma_cap_ib_cm(ib, num)		true
#define rdma_protocol_iwarp(ib, num)	false
int rdma_query_gid(struct ib_device *device, u32 num, u32 index, union ib_gid *gid);
int ib_register_client(struct ib_client *client);
void ib_unregister_client(struct ib_client *client);
enum ib_mtu sim_mtu_enum(u32 node);
#define IB_DEFAULT_PKEY_FULL		0xffff
int ib_find_cached_pkey(struct ib_device *device, u32 num, u16 key, u16 *index);
int ib_query_port(struct ib_device *device, u32 num, struct ib_port_attr *attr);
const struct ib_gid_attr *rdma_get_gid_attr(struct ib_device *device, u32 num, u32 index);
int rdma_read_gid_l2_fields(const struct ib_gid_attr *attr, u16 *vlan, u8 *mac);
#define rdma_put_gid_attr(attr)		do { } while (0)

static inline int ib_mtu_enum_to_int(enum ib_mtu mtu)
{
	return 128 << mtu;
}

struct notifier_block {
	int (*notifier_call)(struct notifier_block *block, unsigned long event, void *data);
};

enum { NOTIFY_DONE, NETDEV_UP, NETDEV_CHANGEMTU };
#define register_netdevice_notifier(block)	((void)(block), 0)
#define unregister_netdevice_notifier(block)	do { } while (0)
#define register_inetaddr_notifier(block)	((void)(block), 0)
#define unregister_inetaddr_notifier(block)	do { } while (0)

/* Routes lead from the only address of whoever asks; the simulator's endpoints are bound, so none is asked for. */
struct in_ifaddr {
	u32 ifa_local;
};
struct in_device;
struct net_device {
	unsigned int flags;
};
#define IFF_LOOPBACK			8
#define for_each_netdev_rcu(net, dev)	for (dev = NULL; dev;)
#define __in_dev_get_rcu(dev)		NULL
#define in_dev_for_each_ifa_rcu(ifa, in)	for (ifa = NULL; ifa;)
struct flowi4 {
	u32 daddr, saddr;
};
struct flowi6 {
	struct in6_addr daddr, saddr;
};
struct rtable;
struct dst_entry;
#define ip_route_output_key(net, fl)	((struct rtable *)ERR_PTR(-ENETUNREACH))
#define ip_rt_put(route)		((void)(route))
#define ip6_dst_lookup_flow(net, sk, fl, p)	((struct dst_entry *)ERR_PTR(-ENETUNREACH))
#define dst_release(dst)		((void)(dst))
#define ipv6_addr_v4mapped(a)		IN6_IS_ADDR_V4MAPPED(a)
#define ipv6_addr_any(a)		IN6_IS_ADDR_UNSPECIFIED(a)
#define ipv6_addr_type(a)		(IN6_IS_ADDR_LOOPBACK(a) ? IPV6_ADDR_LOOPBACK : IN6_IS_ADDR_LINKLOCAL(a) ? IPV6_ADDR_LINKLOCAL : 0)
#define IPV6_ADDR_LOOPBACK		1
#define IPV6_ADDR_LINKLOCAL		2

static inline void ipv6_addr_set_v4mapped(u32 address, struct in6_addr *to)
{
	memset(to, 0, sizeof(*to));
	to->s6_addr[10] = 0xff;
	to->s6_addr[11] = 0xff;
	memcpy(&to->s6_addr[12], &address, 4);
}

/* ---- the connection manager ---- */

#ifndef AF_IB
#define AF_IB 27
#endif
#define cpu_to_be16(x)		htons(x)
#define cpu_to_be32(x)		htonl(x)
#define be32_to_cpu(x)		ntohl(x)
#define cpu_to_be64(x)		__builtin_bswap64(x)
#define RDMA_IB_IP_PS_TCP	0x0000000001060000ull
#define RDMA_IB_IP_PS_UDP	0x0000000001110000ull
#define RDMA_IB_IP_PS_MASK	0xffffffffffff0000ull
#define IB_CM_REJ_CONSUMER_DEFINED	28
#define IB_CM_REJ_INVALID_SERVICE_ID	8
#define IB_SIDR_UNSUPPORTED	1
#define IB_SIDR_REJECT		2

struct sockaddr_ib {
	unsigned short sib_family;
	__be16 sib_pkey;
	__be32 sib_flowinfo;
	u8 sib_addr[16];
	__be64 sib_sid;
	__be64 sib_sid_mask;
	__u64 sib_scope_id;
};

enum rdma_ucm_port_space { RDMA_PS_TCP = 0x106, RDMA_PS_UDP = 0x111 };
enum rdma_cm_event_type {
	RDMA_CM_EVENT_ADDR_RESOLVED, RDMA_CM_EVENT_ADDR_ERROR, RDMA_CM_EVENT_ROUTE_RESOLVED,
	RDMA_CM_EVENT_ROUTE_ERROR, RDMA_CM_EVENT_CONNECT_REQUEST, RDMA_CM_EVENT_CONNECT_RESPONSE,
	RDMA_CM_EVENT_CONNECT_ERROR, RDMA_CM_EVENT_UNREACHABLE, RDMA_CM_EVENT_REJECTED,
	RDMA_CM_EVENT_ESTABLISHED, RDMA_CM_EVENT_DISCONNECTED, RDMA_CM_EVENT_DEVICE_REMOVAL,
	RDMA_CM_EVENT_ADDR_CHANGE,
};

struct rdma_conn_param {
	const void *private_data;
	u8 private_data_len;
	u8 responder_resources, initiator_depth, retry_count, rnr_retry_count;
	u32 qp_num;
};

struct rdma_cm_event {
	enum rdma_cm_event_type event;
	int status;
	union {
		struct {
			const void *private_data;
			u8 private_data_len;
		} conn;
		struct {
			const void *private_data;
			u8 private_data_len;
			struct rdma_ah_attr ah_attr;
			u32 qp_num;
		} ud;
	} param;
};

struct sa_path_rec {
	union ib_gid dgid;
	u8 mtu;
};

struct rdma_cm_id {
	struct ib_device *device;
	void *context;
	struct ib_qp *qp;
	struct {
		struct {
			struct sockaddr_storage src_addr, dst_addr;
		} addr;
		struct sa_path_rec *path_rec;
	} route;
	u32 port_num;
	enum ib_qp_type qp_type;
};

typedef int (*rdma_cm_event_handler)(struct rdma_cm_id *id, struct rdma_cm_event *event);

struct rdma_cm_id *rdma_create_id(struct net *net, rdma_cm_event_handler handler, void *context,
				  enum rdma_ucm_port_space space, enum ib_qp_type type);
void rdma_destroy_id(struct rdma_cm_id *id);
int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr);
int rdma_listen(struct rdma_cm_id *id, int backlog);
int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *source, const struct sockaddr *target, unsigned long ms);
int rdma_resolve_route(struct rdma_cm_id *id, unsigned long ms);
int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param);
int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *param);
int rdma_reject(struct rdma_cm_id *id, const void *data, u8 bytes, u8 reason);
int rdma_create_qp(struct rdma_cm_id *id, struct ib_pd *pd, struct ib_qp_init_attr *attr);
const void *rdma_consumer_reject_data(struct rdma_cm_id *id, struct rdma_cm_event *event, u8 *bytes);
void rdma_lock_handler(struct rdma_cm_id *id);
void rdma_unlock_handler(struct rdma_cm_id *id);
#define rdma_set_ack_timeout(id, timeout)	do { } while (0)

static inline void rdma_gid2ip(struct sockaddr *out, const union ib_gid *gid)
{
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)out;

	in6->sin6_family = AF_INET6;
	memcpy(&in6->sin6_addr, gid->raw, 16);
}

static inline int rdma_ip2gid(struct sockaddr *addr, union ib_gid *gid)
{
	if (addr->sa_family != AF_INET6)
		return -EINVAL;
	memcpy(gid->raw, &((struct sockaddr_in6 *)addr)->sin6_addr, 16);
	return 0;
}

#ifdef __cplusplus
}
#endif

#endif /* SIM_RDMA_H */
