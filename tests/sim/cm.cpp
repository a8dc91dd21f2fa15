// SPDX-License-Identifier: GPL-2.0-only
//
// The connection manager, as kernel/connect.c sees it: conversations of REQ, REP, RTU, REJ and DREQ for
// connections, SIDR_REQ and SIDR_REP for datagrams. Its messages are delayed, lost and repeated (after four
// seconds, as the real one does). Events are handled in a worker of its own, with the id's handler lock held.

#include "adapter.hpp"

#include <cstring>
#include <map>

extern "C" {
ib_device *sim_device(u32 node);
}

struct net {
	int unused;
};

net init_net;

namespace
{

constexpr auto stream = SIM_RANDOM_CM;
constexpr u64 repeat_ns = 4'000'000'000;
constexpr int repeats_max = 3;

enum class State { idle, listening, calling, asked, answered, up };
enum class Kind { req, rep, rtu, rej, dreq, sidr_req, sidr_rep };

struct Message {
	Kind kind;
	u32 from_node, to_node;
	u64 from, to; // conversations
	ib_qp_type type;
	u16 port;
	u8 from_gid[16], to_gid[16];
	u32 qpn;
	int status;
	std::vector<u8> data;
};

struct Id : rdma_cm_id {
	rdma_cm_event_handler handler;
	mutex lock;
	u64 key;
	u32 node;
	State state = State::idle;
	u64 remote = 0;
	u32 remote_node = 0;
	u32 remote_qpn = 0;
	int repeats = 0;
	Message last; // the one to be repeated
	sa_path_rec path;
	u16 port = 0;
};

std::map<u64, Id *> ids;
std::map<std::pair<u32, u64>, u64> answered; // requests that live conversations came from
u64 next_key = 1;

Id *of(rdma_cm_id *id)
{
	return static_cast<Id *>(id);
}

Id *find(u64 key)
{
	const auto it = ids.find(key);
	return it == ids.end() ? nullptr : it->second;
}

template<typename Function>
void later(u64 delay, sim_context context, u32 node, Function function)
{
	auto *boxed = new Function(std::move(function));
	sim_after(
		delay, context, node,
		[](void *argument) {
			auto *call = static_cast<Function *>(argument);
			(*call)();
			delete call;
		},
		boxed);
}

u64 handler_delay()
{
	return 100 + sim_below(stream, sim_config.work_us * 1000 + 1);
}

void destroy(Id *id);

// What the handler is told, a little later and in a worker.
void tell(u64 key, rdma_cm_event_type type, int status, const std::vector<u8> &data = {}, u32 from_node = 0,
	u32 qpn = 0, const u8 *gid = nullptr)
{
	Id *known = find(key);
	if (!known)
		return;
	std::vector<u8> address(16);
	if (gid)
		address.assign(gid, gid + 16);
	(void)from_node;
	later(handler_delay(), SIM_WORK, known->node, [=] {
		Id *id = find(key);
		if (!id)
			return;
		rdma_cm_event event{};
		event.event = type;
		event.status = status;
		event.param.ud.private_data = data.empty() ? nullptr : data.data();
		event.param.ud.private_data_len = static_cast<u8>(data.size());
		event.param.ud.qp_num = qpn;
		std::memcpy(event.param.ud.ah_attr.gid, address.data(), 16);
		mutex_lock(&id->lock);
		const int refused = id->handler(id, &event);
		mutex_unlock(&id->lock);
		if (refused)
			destroy(id);
	});
}

void receive(const Message &message);

void post(const Message &message)
{
	const auto &config = sim_config;
	// What it repeats by itself is lost only now and then.
	if (!sim::wire.reachable(message.from_node, message.to_node) ||
		(sim_troubled && sim_chance(stream, config.cm_loss)))
		return;
	const int copies = sim_troubled && sim_chance(stream, config.duplicate) ? 2 : 1;
	for (int i = 0; i < copies; i++)
		later(config.delay_ns + sim_below(stream, config.cm_delay_us * 1000 + 1), SIM_WIRE,
			message.to_node, [message] {
				if (sim::wire.reachable(message.from_node, message.to_node))
					receive(message);
			});
}

// Send it, and again until the state is another one.
void post_repeated(Id *id, const Message &message)
{
	id->last = message;
	post(message);
	const auto state = id->state;
	later(repeat_ns, SIM_WIRE, id->node, [key = id->key, state] {
		Id *again = find(key);
		if (!again || again->state != state)
			return;
		if (++again->repeats > repeats_max)
			tell(key, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
		else
			post_repeated(again, Message(again->last));
	});
}

// InfiniBand has addresses of its own kind.
void get_addr(const sockaddr *from, u8 *gid)
{
	if (from->sa_family == AF_IB)
		std::memcpy(gid, reinterpret_cast<const sockaddr_ib *>(from)->sib_addr, 16);
	else
		rdma_ip2gid(const_cast<sockaddr *>(from), reinterpret_cast<ib_gid *>(gid));
}

Message message_of(const Id *id, Kind kind, const void *data, u8 bytes)
{
	Message message{};
	const auto *p = static_cast<const u8 *>(data);
	message.kind = kind;
	message.from_node = id->node;
	message.to_node = id->remote_node;
	message.from = id->key;
	message.to = id->remote;
	message.type = id->qp_type;
	message.port = id->port;
	get_addr(reinterpret_cast<const sockaddr *>(&id->route.addr.src_addr), message.from_gid);
	get_addr(reinterpret_cast<const sockaddr *>(&id->route.addr.dst_addr), message.to_gid);
	if (p)
		message.data.assign(p, p + bytes);
	return message;
}

void set_addr(sockaddr_storage *to, const u8 *gid)
{
	auto *ib = reinterpret_cast<sockaddr_ib *>(to);

	*to = {};
	if (sim_config.fabric == SIM_FABRIC_IB) {
		ib->sib_family = AF_IB;
		std::memcpy(ib->sib_addr, gid, 16);
	} else {
		rdma_gid2ip(reinterpret_cast<sockaddr *>(to), reinterpret_cast<const ib_gid *>(gid));
	}
}

u16 port_of(const sockaddr *addr)
{
	if (addr->sa_family == AF_IB)
		return static_cast<u16>(be64toh(reinterpret_cast<const sockaddr_ib *>(addr)->sib_sid));
	return ntohs(reinterpret_cast<const sockaddr_in6 *>(addr)->sin6_port);
}

void fill_route(Id *id, const u8 *remote_gid)
{
	id->device = sim_device(id->node);
	id->port_num = 1;
	std::memcpy(id->path.dgid.raw, remote_gid, 16);
	id->path.mtu = sim_mtu_enum(id->node);
}

Id *make(rdma_cm_event_handler handler, void *context, ib_qp_type type, u32 node)
{
	Id *id = new Id{};
	mutex_init(&id->lock);
	id->handler = handler;
	id->context = context;
	id->qp_type = type;
	id->node = node;
	id->key = next_key++;
	ids[id->key] = id;
	return id;
}

void destroy(Id *id)
{
	if (id->state == State::asked || id->state == State::answered || id->state == State::up)
		answered.erase({id->remote_node, id->remote});
	ids.erase(id->key);
	delete id;
}

void refuse(const Message &request, int status, const void *data, u8 bytes)
{
	Message message{};
	const auto *p = static_cast<const u8 *>(data);
	message.kind = request.type == IB_QPT_UD ? Kind::sidr_rep : Kind::rej;
	message.from_node = request.to_node;
	message.to_node = request.from_node;
	message.to = request.from;
	message.type = request.type;
	message.status = status;
	if (p)
		message.data.assign(p, p + bytes);
	post(message);
}

// With a listener go the requests that have come for it, and of which its handler has not been told yet.
void drop_requests(const Id *listener)
{
	std::vector<Id *> waiting;

	for (const auto &[key, id] : ids)
		if (id->state == State::asked && id->context == listener->context &&
			id->node == listener->node && id->qp_type == listener->qp_type &&
			id->port == listener->port)
			waiting.push_back(id);
	for (Id *id : waiting)
		destroy(id);
}

constexpr u8 no_gid[16] = {};

void receive_request(const Message &message)
{
	Id *listener = nullptr;

	const auto known = answered.find({message.from_node, message.from});
	if (known != answered.end()) {
		Id *id = find(known->second);
		if (id && id->state == State::answered)
			post(id->last);
		return;
	}
	for (const auto &[key, id] : ids)
		if (id->state == State::listening && id->node == message.to_node &&
			id->qp_type == message.type && id->port == message.port)
			listener = id;
	if (!listener) {
		refuse(message,
			message.type == IB_QPT_UD ? IB_SIDR_UNSUPPORTED : IB_CM_REJ_INVALID_SERVICE_ID,
			nullptr, 0);
		return;
	}
	Id *id = make(listener->handler, listener->context, message.type, message.to_node);
	id->state = State::asked;
	id->remote = message.from;
	id->remote_node = message.from_node;
	id->remote_qpn = message.qpn;
	id->port = message.port;
	set_addr(&id->route.addr.src_addr, message.to_gid);
	set_addr(&id->route.addr.dst_addr, message.from_gid);
	fill_route(id, message.from_gid);
	if (message.type != IB_QPT_UD)
		id->route.path_rec = &id->path;
	else if (sim_config.fabric == SIM_FABRIC_IB)
		set_addr(&id->route.addr.dst_addr, no_gid); // the true one does not know who asks, either
	answered[{message.from_node, message.from}] = id->key;
	tell(id->key, RDMA_CM_EVENT_CONNECT_REQUEST, 0, message.data);
}

void receive(const Message &message)
{
	if (message.kind == Kind::req || message.kind == Kind::sidr_req) {
		receive_request(message);
		return;
	}
	Id *id = find(message.to);
	if (!id) {
		if (message.kind == Kind::rep) {
			// The caller is gone; whoever answered learns it.
			refuse(message, 4, nullptr, 0);
		}
		return;
	}
	switch (message.kind) {
	case Kind::rep:
		if (id->state == State::up) {
			post(message_of(id, Kind::rtu, nullptr, 0));
			return;
		}
		if (id->state != State::calling)
			return;
		id->state = State::up;
		id->remote = message.from;
		if (id->qp)
			sim::adapter_connect(id->qp, message.from_node, message.qpn);
		post(message_of(id, Kind::rtu, nullptr, 0));
		tell(id->key, RDMA_CM_EVENT_ESTABLISHED, 0, message.data);
		return;
	case Kind::rtu:
		if (id->state != State::answered)
			return;
		id->state = State::up;
		tell(id->key, RDMA_CM_EVENT_ESTABLISHED, 0);
		return;
	case Kind::rej:
		// Also of a connection that is up: whoever gives up has not got the third step yet.
		if (id->state != State::calling && id->state != State::answered &&
			id->state != State::asked && id->state != State::up)
			return;
		id->state = State::idle;
		tell(id->key, RDMA_CM_EVENT_REJECTED, message.status, message.data);
		return;
	case Kind::dreq:
		if (id->state != State::up && id->state != State::answered)
			return;
		id->state = State::idle;
		tell(id->key, RDMA_CM_EVENT_DISCONNECTED, 0);
		return;
	case Kind::sidr_rep:
		if (id->state != State::calling)
			return;
		id->state = State::idle;
		if (message.status)
			tell(id->key, RDMA_CM_EVENT_UNREACHABLE, message.status, message.data);
		else
			tell(id->key, RDMA_CM_EVENT_ESTABLISHED, 0, message.data, message.from_node,
				message.qpn, message.from_gid);
		return;
	default: return;
	}
}

} // namespace

rdma_cm_id *rdma_create_id(
	net *, rdma_cm_event_handler handler, void *context, rdma_ucm_port_space, ib_qp_type type)
{
	sim_might_sleep("rdma_create_id");
	if (sim_alloc_refuse(GFP_KERNEL))
		return static_cast<rdma_cm_id *>(ERR_PTR(-ENOMEM));
	return make(handler, context, type, sim_node());
}

void rdma_destroy_id(rdma_cm_id *base)
{
	Id *id = of(base);

	// Waits for a handler that runs.
	mutex_lock(&id->lock);
	mutex_unlock(&id->lock);
	if (id->qp_type != IB_QPT_UD) {
		if (id->state == State::up)
			post(message_of(id, Kind::dreq, nullptr, 0));
		else if (id->state == State::calling || id->state == State::answered ||
			id->state == State::asked) {
			auto message = message_of(id, Kind::rej, nullptr, 0);
			message.status = 4;
			post(message);
		}
	}
	if (id->state == State::listening)
		drop_requests(id);
	destroy(id);
}

int rdma_bind_addr(rdma_cm_id *base, sockaddr *addr)
{
	Id *id = of(base);
	u8 gid[16];

	get_addr(addr, gid);
	const int node = sim_node_of_gid(gid);
	if (node < 0)
		return -EADDRNOTAVAIL;
	id->node = static_cast<u32>(node);
	id->port = port_of(addr);
	fill_route(id, gid);
	return 0;
}

int rdma_listen(rdma_cm_id *base, int)
{
	of(base)->state = State::listening;
	return 0;
}

int rdma_resolve_addr(rdma_cm_id *base, sockaddr *source, const sockaddr *target, unsigned long ms)
{
	Id *id = of(base);
	u8 local[16], remote[16];

	get_addr(source, local);
	get_addr(target, remote);
	const int from = sim_node_of_gid(local), to = sim_node_of_gid(remote);
	if (from < 0 || to < 0)
		return -ENETUNREACH;
	id->node = static_cast<u32>(from);
	id->remote_node = static_cast<u32>(to);
	id->port = port_of(target);
	set_addr(&id->route.addr.src_addr, local);
	set_addr(&id->route.addr.dst_addr, remote);
	fill_route(id, remote);
	if (!sim::wire.reachable(id->node, id->remote_node) ||
		(sim_troubled && sim_chance(stream, sim_config.cm_loss / 4)))
		later(ms * 1'000'000, SIM_WIRE, id->node,
			[key = id->key] { tell(key, RDMA_CM_EVENT_ADDR_ERROR, -ETIMEDOUT); });
	else
		tell(id->key, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	return 0;
}

int rdma_resolve_route(rdma_cm_id *base, unsigned long)
{
	Id *id = of(base);

	id->route.path_rec = &id->path;
	tell(id->key, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	return 0;
}

int rdma_connect(rdma_cm_id *base, rdma_conn_param *param)
{
	Id *id = of(base);

	sim_counts.connections++;
	id->state = State::calling;
	auto message = message_of(id, id->qp_type == IB_QPT_UD ? Kind::sidr_req : Kind::req,
		param->private_data, param->private_data_len);
	// Where it puts a header of its own for IP, it writes the version of that for InfiniBand, too.
	if (sim_config.fabric == SIM_FABRIC_IB && !message.data.empty())
		message.data[0] = 0;
	message.qpn = param->qp_num;
	post_repeated(id, message);
	return 0;
}

int rdma_accept(rdma_cm_id *base, rdma_conn_param *param)
{
	Id *id = of(base);

	if (!id->lock.lock.held)
		sim_fail("lock", "rdma_accept() without the handler lock");
	if (id->state != State::asked)
		return -EINVAL;
	auto message = message_of(id, id->qp_type == IB_QPT_UD ? Kind::sidr_rep : Kind::rep,
		param->private_data, param->private_data_len);
	message.qpn = param->qp_num;
	if (id->qp_type == IB_QPT_UD) {
		post(message);
		return 0;
	}
	sim::adapter_connect(id->qp, id->remote_node, id->remote_qpn);
	id->state = State::answered;
	post_repeated(id, message);
	return 0;
}

int rdma_reject(rdma_cm_id *base, const void *data, u8 bytes, u8 reason)
{
	Id *id = of(base);

	if (id->state != State::asked)
		return -EINVAL;
	auto message = message_of(id, id->qp_type == IB_QPT_UD ? Kind::sidr_rep : Kind::rej, data, bytes);
	message.status = id->qp_type == IB_QPT_UD ? IB_SIDR_REJECT : reason;
	post(message);
	answered.erase({id->remote_node, id->remote});
	id->state = State::idle;
	return 0;
}

int rdma_create_qp(rdma_cm_id *id, ib_pd *pd, ib_qp_init_attr *attr)
{
	ib_qp *qp = ib_create_qp(pd, attr);
	if (IS_ERR(qp))
		return static_cast<int>(PTR_ERR(qp));
	id->qp = qp;
	return 0;
}

const void *rdma_consumer_reject_data(rdma_cm_id *, rdma_cm_event *event, u8 *bytes)
{
	if (event->status != IB_CM_REJ_CONSUMER_DEFINED)
		return nullptr;
	*bytes = event->param.conn.private_data_len;
	return event->param.conn.private_data;
}

void rdma_lock_handler(rdma_cm_id *id)
{
	mutex_lock(&of(id)->lock);
}

void rdma_unlock_handler(rdma_cm_id *id)
{
	mutex_unlock(&of(id)->lock);
}

extern "C" u64 sim_cm_left()
{
	return ids.size();
}
