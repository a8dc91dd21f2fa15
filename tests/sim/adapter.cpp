// SPDX-License-Identifier: GPL-2.0-only
//
// See adapter.hpp.

#include "adapter.hpp"

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <unordered_map>
#include <utility>

using sim::Packet;

struct ib_cq {
	void (*completed)(ib_cq *, void *);
	void *context;
	u32 room;
	bool armed;
	std::deque<ib_wc> entries;
	tasklet_struct poll; // of ib_alloc_cq()
	u64 number;
	u32 node;
	void (*event)(ib_event *, void *) = nullptr;
	bool failed = false;
};

struct ib_ah {
	u32 node;
	u32 place; // of the node: moves it had made then
};

namespace
{

constexpr auto stream = SIM_RANDOM_WIRE;
constexpr u64 grh = sizeof(ib_grh);
constexpr int rc_retries = 7;
constexpr u64 rc_timeout_ns = 67'000'000;
constexpr std::size_t memory_max = 64; // packets kept for being replayed

struct SendRequest {
	u64 wr_id;
	bool signaled;
	std::vector<ib_sge> sges;
	u32 to_node, to_qp;
	std::shared_ptr<sim::Origin> origin;
	bool written;
	u64 address;
	u32 key, immediate;
	struct Mr *registered; // nothing is sent: this is to be done
	bool stale = false;    // it leads nowhere
};

struct Mr : ib_mr {
	std::vector<std::pair<u8 *, u32>> pieces;
	u64 length = 0;
	bool valid = false;
};

struct RecvRequest {
	u64 wr_id, addr;
	u32 length;
};

// A write that has arrived, and of which the module has not said yet what it makes of it.
struct Written {
	u32 immediate, length;
	std::shared_ptr<sim::Origin> origin;
};

constexpr u32 local_key = 77; // of all memory, for the adapter itself

struct Qp : ib_qp {
	ib_cq *send_cq, *recv_cq;
	void (*event)(ib_event *, void *);
	void *context;
	u32 send_room, recv_room;
	ib_qp_state state = IB_QPS_RESET;
	bool deaf = false;
	int pkey = 0;      // its place in the port's table
	bool busy = false; // it will look at the send queue again
	u32 to_node = 0, to_qp = 0;
	int tries = 0;
	std::size_t launched = 0; // RC: those of sends that are on their way
	u64 attempt = 0;          // ... since the last of them was lost
	bool gap = false;         // ... one of them is lost, and nothing leaves before that is known
	u64 last_arrival = 0;
	u64 key; // never used twice, unlike qp_num
	std::deque<SendRequest> sends;
	std::deque<SendRequest> kept; // sent, but not complete
	std::deque<RecvRequest> recvs;
	std::deque<Written> written;
};

std::map<u64, Qp *> by_key;
std::map<std::pair<u32, u32>, Qp *> by_number;
std::map<std::pair<u32, u32>, Mr *> regions; // by node and key
std::vector<u32> free_regions;               // keys
u32 next_region = 1;
std::vector<u32> free_numbers[SIM_NODES_MAX];
std::unordered_map<const void *, Packet> received;
std::deque<Packet> memory; // of the wire, for replays
u64 next_key = 1, next_packet = 1;
std::map<u64, ib_cq *> queues;  // by number
std::map<u64, u32> late_events; // of them, which are still to come
u64 next_queue = 1;
std::map<const scatterlist *, std::vector<unsigned char>> copies; // of memory that is mapped
u32 next_number = 17;
bool holding[SIM_NODES_MAX], untold_node[SIM_NODES_MAX];
u32 places[SIM_NODES_MAX];              // where each node is: moves that it has made
std::vector<u64> untold[SIM_NODES_MAX]; // queues with an event that was kept back
sim::Posted posted_by[SIM_NODES_MAX];

Qp *of(ib_qp *qp)
{
	return static_cast<Qp *>(qp);
}

// An interrupt: what it asks for comes later.
void cq_event(ib_cq *cq)
{
	sim_preempt_off++;
	cq->completed(cq, cq->context);
	sim_preempt_off--;
}

// If it is still there.
void cq_event_of(u64 number)
{
	const auto at = queues.find(number);
	if (at != queues.end())
		cq_event(at->second);
}

template<typename Function>
void later(u64 delay, u32 node, Function function);

void cq_push(ib_cq *cq, const ib_wc &wc)
{
	if (cq->failed)
		return;
	if (cq->entries.size() >= cq->room)
		sim_fail("adapter", "a completion queue of %u entries overruns", cq->room);
	cq->entries.push_back(wc);
	if (!cq->armed)
		return;
	cq->armed = false;
	if (cq->node < SIM_NODES_MAX && untold_node[cq->node]) {
		untold[cq->node].push_back(cq->number);
		return;
	}
	if (!sim_troubled || !sim_chance(stream, sim_config.late_events)) {
		cq_event(cq);
		return;
	}
	late_events[cq->number]++;
	later(sim_below(stream, sim_config.late_events_us * 1000 + 1), sim_node(), [number = cq->number] {
		late_events[number]--;
		cq_event_of(number);
	});
}

ib_wc wc_of(u64 id, ib_wc_status status, u32 bytes = 0, ib_wc_opcode opcode = IB_WC_RECV, u32 immediate = 0)
{
	ib_wc wc{};

	wc.wr_id = id;
	wc.status = status;
	wc.byte_len = bytes;
	wc.opcode = opcode;
	wc.ex.imm_data = htonl(immediate);
	return wc;
}

template<typename Function>
void later(u64 delay, u32 node, Function function)
{
	auto *boxed = new Function(std::move(function));
	sim_after(
		delay, SIM_WIRE, node,
		[](void *argument) {
			auto *call = static_cast<Function *>(argument);
			(*call)();
			delete call;
		},
		boxed);
}

void send_done(Qp *qp, const SendRequest &request, ib_wc_status status)
{
	if (request.signaled || status != IB_WC_SUCCESS)
		cq_push(qp->send_cq, wc_of(request.wr_id, status));
}

void kept_done(Qp *qp)
{
	while (!qp->kept.empty()) {
		const auto request = qp->kept.front();
		qp->kept.pop_front();
		send_done(qp, request, IB_WC_SUCCESS);
	}
}

void qp_flush(Qp *qp)
{
	kept_done(qp);
	for (const auto &send : qp->sends)
		cq_push(qp->send_cq, wc_of(send.wr_id, IB_WC_WR_FLUSH_ERR));
	qp->sends.clear();
	qp->launched = 0;
	qp->gap = false;
	qp->attempt++;
	for (const auto &recv : qp->recvs)
		cq_push(qp->recv_cq, wc_of(recv.wr_id, IB_WC_WR_FLUSH_ERR));
	qp->recvs.clear();
}

void qp_error(Qp *qp)
{
	sim_trace("queue pair %u of node %u: error with %zu receives and %zu completions", qp->qp_num,
		qp->device->node, qp->recvs.size(), qp->recv_cq->entries.size());
	qp->state = IB_QPS_ERR;
	qp_flush(qp);
}

// An adapter whose firmware does not answer.
bool stuck()
{
	return sim_troubled && sim_config.stuck_errors &&
		sim_chance(SIM_RANDOM_FAULT, sim_config.stuck_errors);
}

void break_cq(const Qp *qp, ib_cq *cq)
{
	ib_event event{IB_EVENT_CQ_ERR};
	sim_trace("the %s queue of queue pair %u of node %u fails", cq == qp->send_cq ? "send" : "receive",
		qp->qp_num, qp->device->node);
	cq->failed = true;
	sim_enter(SIM_WIRE, qp->device->node, 0);
	cq->event(&event, cq->context);
	sim_leave();
}

// Writes to memory that was registered for it. Return: there is any.
bool write(const Packet &packet)
{
	const auto it = regions.find({packet.to_node, packet.key});
	if (it == regions.end() || !it->second->valid)
		return false;
	const Mr &mr = *it->second;
	u64 at = packet.address - mr.iova, done = 0;
	if (packet.address < mr.iova || at > mr.length || packet.bytes.size() > mr.length - at)
		return false;
	for (const auto &[memory, bytes] : mr.pieces) {
		if (at < bytes && done < packet.bytes.size()) {
			const u64 part = std::min<u64>(bytes - at, packet.bytes.size() - done);
			std::memcpy(memory + at, packet.bytes.data() + done, part);
			done += part;
			at = 0;
		} else {
			at -= std::min<u64>(at, bytes);
		}
	}
	sim_counts.written++;
	return true;
}

// Return: it was taken, or dropped for good; false: an RC sender has to try again.
bool arrive(const Packet &packet, ib_qp_type type, bool faithful)
{
	const auto it = by_number.find({packet.to_node, packet.to_qp});
	Qp *qp = it == by_number.end() ? nullptr : it->second;

	if (!qp || qp->qp_type != type || (qp->state != IB_QPS_RTS && qp->state != IB_QPS_RTR) || qp->deaf)
		return !faithful;
	if (type != IB_QPT_UD && qp->to_node != packet.from_node)
		return !faithful;
	// A reliable connection has sequence numbers of its own; so nothing of a former one is taken.
	if (faithful && qp->to_qp != packet.from_qp)
		return false;
	if (type == IB_QPT_UD && qp->pkey != sim_pkey(packet.to_node))
		return true;
	if (qp->recvs.empty())
		return !faithful;
	const auto recv = qp->recvs.front();
	if (packet.written) {
		if (!write(packet)) {
			sim_trace("a write by key %x of node %u is refused", packet.key, packet.from_node);
			// Of a connection that is reliable, both ends fail, and so does all that is on it.
			if (faithful && sim_carries(qp->context))
				sim_fail("fence",
					"node %u gets a write that comes too late, and loses a reliable "
					"connection",
					packet.to_node);
			if (faithful)
				qp_error(qp);
			return !faithful;
		}
		qp->recvs.pop_front();
		qp->written.push_back(
			{packet.immediate, static_cast<u32>(packet.bytes.size()), packet.origin});
		sim_note(sim_now() ^ packet.origin->id << 32 ^ packet.bytes.size());
		cq_push(qp->recv_cq,
			wc_of(recv.wr_id, IB_WC_SUCCESS, static_cast<u32>(packet.bytes.size()),
				IB_WC_RECV_RDMA_WITH_IMM, packet.immediate));
		return true;
	}
	const u64 header = type == IB_QPT_UD ? grh : 0;
	if (packet.bytes.size() + header > recv.length)
		return !faithful;
	qp->recvs.pop_front();
	auto *to = reinterpret_cast<u8 *>(recv.addr);
	std::memset(to, 0, header);
	std::memcpy(to + header, packet.bytes.data(), packet.bytes.size());
	received[to + header] = packet;
	sim_note(sim_now() ^ packet.origin->id << 32 ^ packet.bytes.size());
	cq_push(qp->recv_cq,
		wc_of(recv.wr_id, IB_WC_SUCCESS, static_cast<u32>(packet.bytes.size() + header)));
	return true;
}

// Header and frames are covered by a checksum of ours, so damage there must be found.
void damage(Packet &packet)
{
	const auto before = packet.bytes;
	auto &bytes = packet.bytes;
	u16 covered;

	std::memcpy(&covered, &bytes[2], sizeof(covered));
	const std::size_t limit = std::min<std::size_t>(covered, bytes.size());
	switch (sim_below(stream, 4)) {
	case 0: bytes.resize(sim_below(stream, bytes.size())); break;
	case 1:
		for (u64 n = 1 + sim_below(stream, 32); n; n--)
			bytes[sim_below(stream, limit)] = static_cast<u8>(sim_random(stream));
		break;
	case 2: bytes.resize(bytes.size() + 1 + sim_below(stream, 16)); break;
	default: bytes[sim_below(stream, limit)] ^= static_cast<u8>(1 << sim_below(stream, 8)); break;
	}
	// What is written may be what was there.
	packet.damaged = bytes != before;
}

void launch(const Packet &packet, ib_qp_type type, const sim::Fate &fate)
{
	for (const u64 delay : fate.arrivals) {
		later(delay, packet.to_node, [copy = packet, type, hurt = fate.damaged]() mutable {
			// What has no header of ours is the adapters' to check.
			if (hurt && copy.written)
				return;
			if (hurt)
				damage(copy);
			arrive(copy, type, false);
		});
	}
}

void remember(const Packet &packet, ib_qp_type type)
{
	if (!sim_config.replay || !sim_troubled)
		return;
	if (memory.size() == memory_max)
		memory.erase(memory.begin() + static_cast<long>(sim_below(stream, memory_max)));
	memory.push_back(packet);
	if (!sim_chance(stream, sim_config.replay))
		return;
	// Sometimes soon, sometimes when its queue pair, or its node, is another one.
	const auto &old = memory[sim_below(stream, memory.size())];
	const u64 delay = sim_below(stream, sim_chance(stream, 500'000) ? 1'000'000 : 1'000'000'000);
	later(delay, old.to_node, [copy = old, type] { arrive(copy, type, false); });
}

void qp_next(u64 key);

void qp_kick(Qp *qp, u64 delay)
{
	qp->busy = true;
	later(delay, qp->device->node, [key = qp->key] { qp_next(key); });
}

// An RC packet comes to its end. If it was not taken, those behind it were sent in vain, too.
void rc_result(u64 key, u64 attempt, bool arrived)
{
	const auto it = by_key.find(key);
	if (it == by_key.end())
		return;
	Qp *qp = it->second;
	if (qp->state != IB_QPS_RTS || qp->attempt != attempt || qp->sends.empty())
		return;
	if (arrived) {
		qp->tries = 0;
		qp->launched--;
		const auto request = qp->sends.front();
		qp->sends.pop_front();
		if (holding[qp->device->node])
			qp->kept.push_back(request);
		else
			send_done(qp, request, IB_WC_SUCCESS);
		return;
	}
	qp->attempt++;
	qp->launched = 0;
	qp->gap = false;
	// What it keeps is told before.
	if (++qp->tries > rc_retries && qp->kept.empty()) {
		const auto request = qp->sends.front();
		qp->sends.pop_front();
		cq_push(qp->send_cq, wc_of(request.wr_id, IB_WC_RETRY_EXC_ERR));
		qp_error(qp);
	} else {
		qp_kick(qp, rc_timeout_ns);
	}
}

void rc_arrive(u64 key, u64 attempt, const Packet &packet)
{
	const auto it = by_key.find(key);

	if (it != by_key.end() && it->second->attempt == attempt && it->second->state == IB_QPS_RTS)
		rc_result(key, attempt, arrive(packet, IB_QPT_RC, true));
}

// The next work request leaves.
void qp_next(u64 key)
{
	const auto it = by_key.find(key);
	if (it == by_key.end())
		return;
	Qp *qp = it->second;
	qp->busy = false;
	if (qp->state != IB_QPS_RTS || qp->sends.size() <= qp->launched || qp->gap)
		return;
	const auto &request = qp->sends[qp->launched];
	if (request.registered) {
		const auto done = request;
		qp->sends.pop_front();
		if (sim_troubled && sim_chance(stream, sim_config.reg_errors)) {
			send_done(qp, done, IB_WC_GENERAL_ERR);
			if (stuck())
				qp->state = IB_QPS_ERR;
			else
				qp_error(qp);
			return;
		}
		done.registered->valid = true;
		send_done(qp, done, IB_WC_SUCCESS);
		if (!qp->sends.empty() && !qp->busy)
			qp_kick(qp, 50 + sim_below(stream, sim_config.post_ns));
		return;
	}
	Packet packet;
	packet.written = request.written;
	packet.address = request.address;
	packet.key = request.key;
	packet.immediate = request.immediate;
	packet.from_node = qp->device->node;
	packet.from_qp = qp->qp_num;
	packet.to_node = request.to_node;
	packet.to_qp = request.to_qp;
	packet.origin = request.origin;
	for (const auto &sge : request.sges) {
		const auto *from = reinterpret_cast<const u8 *>(sge.addr);
		packet.bytes.insert(packet.bytes.end(), from, from + sge.length);
	}
	const bool faithful = qp->qp_type == IB_QPT_RC;
	const bool carries =
		packet.written || (packet.bytes.size() > 43 && (packet.bytes[42] || packet.bytes[43]));
	auto fate = sim::wire.send(packet.from_node, packet.to_node, packet.bytes.size(), carries, faithful);
	// One that is too long for the port, or for that of the receiver, goes nowhere, and nobody is told.
	if (request.stale || (qp->qp_type == IB_QPT_UD && qp->pkey != sim_pkey(qp->device->node)) ||
		packet.bytes.size() > std::min(sim_mtu(packet.from_node), sim_mtu(packet.to_node)))
		fate.arrivals.clear();
	sim_counts.packets++;
	if (fate.arrivals.empty())
		sim_counts.lost++;
	if (faithful) {
		// The first lost one is found out about when its time is over; those behind it are not taken,
		// and wait for that.
		const u64 attempt = qp->attempt;
		qp->launched++;
		if (fate.arrivals.empty()) {
			if (qp->launched == 1)
				rc_result(key, attempt, false);
			else
				later(rc_timeout_ns, qp->device->node,
					[key, attempt] { rc_result(key, attempt, false); });
			qp->gap = attempt == qp->attempt;
			return;
		}
		const u64 at = std::max(qp->last_arrival + 1, sim_now() + fate.arrivals[0]);
		qp->last_arrival = at;
		const u32 to_node = packet.to_node;
		later(at - sim_now(), to_node,
			[key, attempt, copy = std::move(packet)] { rc_arrive(key, attempt, copy); });
		if (qp->sends.size() > qp->launched && !qp->busy)
			qp_kick(qp, 50 + sim_below(stream, sim_config.post_ns));
		return;
	}
	launch(packet, qp->qp_type, fate);
	remember(packet, qp->qp_type);
	const auto done = request;
	qp->sends.pop_front();
	if (holding[qp->device->node])
		qp->kept.push_back(done);
	else
		send_done(qp, done, IB_WC_SUCCESS);
	if (!qp->sends.empty() && !qp->busy)
		qp_kick(qp, 50 + sim_below(stream, sim_config.post_ns));
}

} // namespace

namespace sim
{

void adapter_connect(ib_qp *base, u32 node, u32 remote_qp)
{
	Qp *qp = of(base);
	qp->to_node = node;
	qp->to_qp = remote_qp;
	if (qp->state != IB_QPS_ERR)
		qp->state = IB_QPS_RTS;
}

ib_qp *adapter_pick(bool connections_only)
{
	std::vector<Qp *> found;
	for (const auto &[key, qp] : by_key)
		if (qp->state == IB_QPS_RTS && !qp->deaf && (!connections_only || qp->qp_type != IB_QPT_UD))
			found.push_back(qp);
	return found.empty() ? nullptr : found[sim_below(SIM_RANDOM_FAULT, found.size())];
}

ib_qp *adapter_of(u32 node, ib_qp_type type)
{
	for (const auto &[key, qp] : by_key)
		if (qp->device->node == node && qp->qp_type == type && qp->to_qp && qp->to_node != node)
			return qp;
	return nullptr;
}

ib_qp *adapter_datagrams(u32 node)
{
	for (const auto &[key, qp] : by_key)
		if (qp->device->node == node && qp->qp_type == IB_QPT_UD)
			return qp;
	return nullptr;
}

void adapter_deafen(ib_qp *qp)
{
	sim_trace("queue pair %u of node %u goes deaf", qp->qp_num, qp->device->node);
	of(qp)->deaf = true;
}

void adapter_move(u32 node)
{
	sim_trace("node %u is somewhere else: nobody's address handle leads there", node);
	places[node]++;
}

void adapter_break(ib_qp *base)
{
	Qp *qp = of(base);
	sim_trace("queue pair %u of node %u fails", qp->qp_num, qp->device->node);
	qp_error(qp);
	if (qp->event && sim_chance(SIM_RANDOM_FAULT, 500'000)) {
		ib_event event{IB_EVENT_QP_FATAL};
		qp->event(&event, qp->context);
	}
}

void adapter_break_cq()
{
	std::vector<Qp *> found;
	for (const auto &[key, qp] : by_key)
		if (qp->state == IB_QPS_RTS && qp->qp_type == IB_QPT_UD)
			found.push_back(qp);
	if (found.empty())
		return;
	const Qp *qp = found[sim_below(SIM_RANDOM_FAULT, found.size())];
	break_cq(qp, sim_chance(SIM_RANDOM_FAULT, 500'000) ? qp->send_cq : qp->recv_cq);
}

std::size_t adapter_left()
{
	return by_key.size() + copies.size();
}

void adapter_hold_events(u32 node, bool hold)
{
	untold_node[node] = hold;
	if (hold)
		return;
	for (u64 number : std::exchange(untold[node], {}))
		cq_event_of(number);
}

void adapter_hold(u32 node, bool hold)
{
	holding[node] = hold;
	for (const auto &[key, qp] : by_key)
		if (!hold && qp->device->node == node)
			kept_done(qp);
}

Posted adapter_posted(u32 node)
{
	return posted_by[node];
}

bool adapter_may_read(const u8 *memory, u64 bytes)
{
	const u64 start = reinterpret_cast<u64>(memory);

	for (const auto &[key, qp] : by_key)
		for (const auto *posted : {&qp->sends, &qp->kept})
			for (const auto &send : *posted)
				for (const auto &sge : send.sges)
					if (sge.addr < start + bytes && start < sge.addr + sge.length)
						return true;
	return false;
}

bool adapter_may_write(const u8 *memory, u64 bytes)
{
	for (const auto &[key, mr] : regions)
		for (const auto &[piece, length] : mr->pieces)
			if (mr->valid && piece < memory + bytes && memory < piece + length)
				return true;
	return false;
}

const Packet *adapter_packet(const void *buffer)
{
	const auto it = received.find(buffer);
	return it == received.end() ? nullptr : &it->second;
}

} // namespace sim

// ---- verbs -------------------------------------------------------------------------------------

ib_pd *ib_alloc_pd(ib_device *device, int)
{
	auto *pd = static_cast<ib_pd *>(kzalloc(sizeof(ib_pd), GFP_KERNEL));
	if (!pd)
		return static_cast<ib_pd *>(ERR_PTR(-ENOMEM));
	pd->device = device;
	pd->local_dma_lkey = local_key;
	return pd;
}

void ib_dealloc_pd(ib_pd *pd)
{
	kfree(pd);
}

ib_cq *ib_create_cq(ib_device *device, void (*completed)(ib_cq *, void *), void (*event)(ib_event *, void *),
	void *context, const ib_cq_init_attr *attr)
{
	sim_might_sleep("ib_create_cq");
	if (sim_alloc_refuse(GFP_KERNEL))
		return static_cast<ib_cq *>(ERR_PTR(-ENOMEM));
	const u64 number = next_queue++;
	auto *cq = new ib_cq{completed, context, attr->cqe, false, {}, {}, number, device->node, event};
	queues[number] = cq;
	return cq;
}

// Completions are handed out by a softirq of the core's.
static void cq_poll(tasklet_struct *tasklet)
{
	ib_cq *cq = container_of(tasklet, ib_cq, poll);

	while (!cq->entries.empty()) {
		ib_wc wc = cq->entries.front();
		cq->entries.pop_front();
		wc.wr_cqe->done(cq, &wc);
	}
	cq->armed = true;
}

ib_cq *ib_alloc_cq(ib_device *, void *, int entries, int, ib_poll_context)
{
	sim_might_sleep("ib_alloc_cq");
	if (sim_alloc_refuse(GFP_KERNEL))
		return static_cast<ib_cq *>(ERR_PTR(-ENOMEM));
	auto *cq = new ib_cq{[](ib_cq *completed, void *) { tasklet_schedule(&completed->poll); }, nullptr,
		static_cast<u32>(entries), true, {}, {}, next_queue++, ~0u};
	queues[cq->number] = cq;
	tasklet_setup(&cq->poll, cq_poll);
	return cq;
}

void ib_free_cq(ib_cq *cq)
{
	sim_might_sleep("ib_free_cq");
	queues.erase(cq->number);
	tasklet_kill(&cq->poll);
	delete cq;
}

// The adapter has a copy of its own, which is the memory's again when it lets go. One of software has the
// memory itself.
int sim_dma_map(const ib_device *device, scatterlist *sg, int count)
{
	if (sim_alloc_refuse(GFP_KERNEL))
		return 0;
	sim_counts.mapped++;
	if (!sim_config.dma_sync || ib_uses_virt_dma(device))
		return count;
	if (copies.contains(sg))
		sim_fail("adapter", "memory is mapped that is mapped already");
	auto &copy = copies[sg];
	for (int i = 0; i < count; i++) {
		const unsigned char *from = sg[i].page->address + sg[i].offset;
		copy.insert(copy.end(), from, from + sg[i].length);
	}
	return count;
}

bool sim_dma_sync()
{
	return sim_config.dma_sync;
}

// Payloads are mapped under the lock of their queue pair, and its own buffers under none.
bool sim_map_refuse()
{
	if (sim_alloc_refuse(GFP_ATOMIC))
		return true;
	return sim_held_now()->locks && sim_troubled && !sim_alloc_calm &&
		sim_chance(SIM_RANDOM_FAULT, sim_config.map_errors);
}

void sim_dma_unmap(scatterlist *sg, int count)
{
	const auto at = copies.find(sg);
	if (at == copies.end())
		return;
	const unsigned char *from = at->second.data();
	for (int i = 0; i < count; from += sg[i++].length)
		std::memcpy(sg[i].page->address + sg[i].offset, from, sg[i].length);
	copies.erase(at);
}

void ib_drain_sq(ib_qp *base)
{
	Qp *qp = of(base);

	sim_might_sleep("ib_drain_sq");
	if (qp->state == IB_QPS_RESET)
		sim_fail("adapter", "a queue pair that is in RESET is drained");
	// The true one warns of it, and does not wait.
	if (stuck())
		return;
	if (qp->state != IB_QPS_ERR || !qp->sends.empty())
		qp_error(qp);
	while (!qp->send_cq->entries.empty())
		if (!sim_run_one())
			sim_fail("progress", "a queue that is drained does not get empty");
}

// Keys come again soon, so that late writes find other memory.
ib_mr *ib_alloc_mr(ib_pd *pd, ib_mr_type, u32)
{
	sim_might_sleep("ib_alloc_mr");
	if (sim_alloc_refuse(GFP_KERNEL))
		return static_cast<ib_mr *>(ERR_PTR(-ENOMEM));
	auto *mr = new Mr;
	sim_counts.regions++;
	mr->device = pd->device;
	if (!free_regions.empty() && sim_chance(stream, 700'000)) {
		mr->rkey = free_regions.back();
		free_regions.pop_back();
	} else {
		mr->rkey = next_region++;
	}
	mr->lkey = mr->rkey;
	regions[{mr->device->node, mr->rkey}] = mr;
	return mr;
}

int ib_dereg_mr(ib_mr *base)
{
	auto *mr = static_cast<Mr *>(base);

	sim_might_sleep("ib_dereg_mr");
	if (sim_alloc_turn())
		return -ENOMEM;
	for (const auto &[key, qp] : by_key)
		for (const auto &send : qp->sends)
			if (send.registered == mr)
				sim_fail("adapter", "a region goes that is being registered");
	regions.erase({mr->device->node, mr->rkey});
	free_regions.push_back(mr->rkey);
	delete mr;
	return 0;
}

int ib_map_mr_sg(ib_mr *base, scatterlist *sg, int entries, unsigned int *, unsigned int)
{
	auto *mr = static_cast<Mr *>(base);

	if (sim_alloc_turn())
		return -ENOMEM;
	if (mr->valid)
		sim_fail("adapter", "a region is made of other memory while it can be written");
	mr->pieces.clear();
	mr->length = 0;
	for (int i = 0; i < entries; i++) {
		const bool first = !i, last = i == entries - 1;
		// What an adapter can take: pages, of which only the first and the last may be cut.
		if ((!first && sg[i].offset) || (!last && sg[i].offset + sg[i].length != PAGE_SIZE))
			return i;
		mr->pieces.emplace_back(sg[i].page->address + sg[i].offset, sg[i].length);
		mr->length += sg[i].length;
	}
	mr->iova = reinterpret_cast<u64>(mr->pieces[0].first);
	return entries;
}

void ib_destroy_cq(ib_cq *cq)
{
	sim_might_sleep("ib_destroy_cq");
	queues.erase(cq->number);
	delete cq;
}

int ib_poll_cq(ib_cq *cq, int count, ib_wc *wc)
{
	int found = 0;
	while (found < count && !cq->entries.empty()) {
		wc[found++] = cq->entries.front();
		cq->entries.pop_front();
	}
	return found;
}

int ib_req_notify_cq(ib_cq *cq, int flags)
{
	if (sim_troubled && sim_chance(stream, sim_config.arm_errors))
		return -EIO;
	cq->armed = true;
	return flags & IB_CQ_REPORT_MISSED_EVENTS ? !cq->entries.empty() : 0;
}

ib_qp *ib_create_qp(ib_pd *pd, ib_qp_init_attr *attr)
{
	sim_might_sleep("ib_create_qp");
	if (sim_alloc_refuse(GFP_KERNEL))
		return static_cast<ib_qp *>(ERR_PTR(-ENOMEM));
	if (attr->cap.max_send_sge > static_cast<u32>(pd->device->attrs.max_send_sge))
		return static_cast<ib_qp *>(ERR_PTR(-EINVAL));
	auto *qp = new Qp;
	auto &numbers = free_numbers[pd->device->node];
	qp->device = pd->device;
	// Numbers come again soon, so that packets to a former queue pair find this one.
	if (!numbers.empty() && sim_chance(stream, 700'000)) {
		qp->qp_num = numbers.back();
		numbers.pop_back();
	} else {
		qp->qp_num = next_number++;
	}
	qp->qp_type = attr->qp_type;
	qp->send_cq = attr->send_cq;
	qp->recv_cq = attr->recv_cq;
	qp->event = attr->event_handler;
	qp->context = attr->qp_context;
	qp->send_room = attr->cap.max_send_wr;
	qp->recv_room = attr->cap.max_recv_wr;
	qp->key = next_key++;
	by_key[qp->key] = qp;
	by_number[{qp->device->node, qp->qp_num}] = qp;
	return qp;
}

int ib_modify_qp(ib_qp *base, ib_qp_attr *attr, int mask)
{
	Qp *qp = of(base);

	sim_might_sleep("ib_modify_qp");
	if (!(mask & IB_QP_STATE))
		return 0;
	if (attr->qp_state != IB_QPS_RESET && attr->qp_state != IB_QPS_ERR && sim_alloc_refuse(GFP_KERNEL))
		return -ENOMEM;
	if (attr->qp_state != IB_QPS_RESET && attr->qp_state != IB_QPS_ERR && sim_troubled &&
		!sim_alloc_calm && sim_chance(SIM_RANDOM_FAULT, sim_config.rebuild_errors))
		return -EIO;
	if (attr->qp_state == IB_QPS_ERR && stuck())
		return -EIO;
	if (mask & IB_QP_PKEY_INDEX)
		qp->pkey = attr->pkey_index;
	// Whom it sends to on Ethernet it has to be told: nobody in the kernel looks that up.
	static constexpr u8 nobody[6] = {};
	if (qp->qp_type == IB_QPT_RC && attr->qp_state == IB_QPS_RTR &&
		sim_config.fabric == SIM_FABRIC_ETHERNET &&
		!std::memcmp(attr->ah_attr.roce.dmac, nobody, sizeof(nobody)))
		return -EINVAL;
	// Some adapters do not begin anew with a reliable queue pair that has begun, though they say so.
	if (qp->qp_type == IB_QPT_RC && qp->state > IB_QPS_INIT) {
		if (attr->qp_state == IB_QPS_RESET)
			return 0;
		if (attr->qp_state == IB_QPS_INIT)
			return -EINVAL;
	}
	// As irdma: it says that it has.
	if (sim_config.final_errors && qp->state == IB_QPS_ERR && attr->qp_state != IB_QPS_ERR)
		return attr->qp_state == IB_QPS_RESET ? 0 : -EINVAL;
	qp->state = attr->qp_state;
	sim_trace("queue pair %u of node %u: state %d with %zu receives and %zu completions", qp->qp_num,
		qp->device->node, qp->state, qp->recvs.size(), qp->recv_cq->entries.size());
	if (qp->state == IB_QPS_ERR)
		qp_flush(qp);
	if (qp->state == IB_QPS_RESET) {
		sim_counts.resets++;
		qp->sends.clear();
		qp->kept.clear();
		qp->launched = 0;
		qp->gap = false;
		qp->attempt++;
		qp->recvs.clear();
		qp->deaf = false;
	}
	return 0;
}

// The one that is to take the place of another one, or null.
static Qp *successor(const Qp *old)
{
	for (const auto &[key, qp] : by_key)
		if (qp->qp_type == IB_QPT_UD && qp->context == old->context && key > old->key)
			return qp;
	return nullptr;
}

int ib_destroy_qp(ib_qp *base)
{
	Qp *qp = of(base);

	sim_might_sleep("ib_destroy_qp");
	const Qp *next = successor(qp);
	if (sim_troubled && next && sim_chance(SIM_RANDOM_FAULT, sim_config.fresh_cq_errors))
		break_cq(next, next->recv_cq);
	if (sim_troubled && next && sim_chance(SIM_RANDOM_FAULT, sim_config.destroy_errors))
		return -EIO;
	by_key.erase(qp->key);
	by_number.erase({qp->device->node, qp->qp_num});
	free_numbers[qp->device->node].push_back(qp->qp_num);
	delete qp;
	return 0;
}

int ib_post_send(ib_qp *base, const ib_send_wr *wr, const ib_send_wr **bad)
{
	Qp *qp = of(base);
	auto &counts = posted_by[qp->device->node];

	counts.calls++;
	for (; wr; wr = wr->next) {
		counts.requests++;
		counts.signalled += wr->send_flags & IB_SEND_SIGNALED ? 1 : 0;
		if (qp->state != IB_QPS_RTS && qp->state != IB_QPS_ERR) {
			*bad = wr;
			return -EINVAL;
		}
		if (sim_alloc_turn() || (sim_troubled && sim_chance(stream, sim_config.post_errors))) {
			*bad = wr;
			return -ENOMEM;
		}
		SendRequest request;
		request.wr_id = wr->wr_id;
		request.signaled = wr->send_flags & IB_SEND_SIGNALED;
		request.sges.assign(wr->sg_list, wr->sg_list + wr->num_sge);
		for (const auto &sge : request.sges)
			if (sge.lkey != local_key)
				sim_fail("adapter", "memory is sent without a key");
		request.to_node = qp->to_node;
		request.to_qp = qp->to_qp;
		if (qp->qp_type == IB_QPT_UD) {
			const auto *ud = container_of(wr, ib_ud_wr, wr);
			request.to_node = ud->ah->node;
			request.stale = ud->ah->place != places[ud->ah->node];
			request.to_qp = ud->remote_qpn;
		}
		request.written = wr->opcode == IB_WR_RDMA_WRITE_WITH_IMM;
		if (request.written) {
			const auto *write = container_of(wr, ib_rdma_wr, wr);
			request.address = write->remote_addr;
			request.key = write->rkey;
			request.immediate = ntohl(wr->ex.imm_data);
		}
		request.registered = nullptr;
		if (wr->opcode == IB_WR_REG_MR) {
			request.registered = static_cast<Mr *>(container_of(wr, ib_reg_wr, wr)->mr);
			if (qp->state == IB_QPS_ERR)
				cq_push(qp->send_cq, wc_of(wr->wr_id, IB_WC_WR_FLUSH_ERR));
			else
				qp->sends.push_back(std::move(request));
			continue;
		}
		request.origin = std::make_shared<sim::Origin>();
		request.origin->id = next_packet++;
		request.origin->node = qp->device->node;
		request.origin->epoch = sim_epoch(qp->device->node);
		request.origin->instance = sim_instance(qp->device->node);
		request.origin->known =
			sim_origin(qp->context, wr, &request.origin->token, &request.origin->to);
		if (qp->state == IB_QPS_ERR) {
			cq_push(qp->send_cq, wc_of(wr->wr_id, IB_WC_WR_FLUSH_ERR));
			continue;
		}
		if (qp->sends.size() >= qp->send_room)
			sim_fail("adapter", "more than %u work requests are posted", qp->send_room);
		qp->sends.push_back(std::move(request));
	}
	if (qp->sends.size() > qp->launched && !qp->busy)
		qp_kick(qp, 50 + sim_below(stream, sim_config.post_ns));
	return 0;
}

int ib_post_recv(ib_qp *base, const ib_recv_wr *wr, const ib_recv_wr **bad)
{
	Qp *qp = of(base);

	for (; wr; wr = wr->next) {
		if (qp->state == IB_QPS_ERR) {
			cq_push(qp->recv_cq, wc_of(wr->wr_id, IB_WC_WR_FLUSH_ERR));
			continue;
		}
		if (qp->recvs.size() >= qp->recv_room) {
			*bad = wr;
			sim_fail("adapter", "more than %u receives are posted", qp->recv_room);
		}
		if (wr->sg_list[0].lkey != local_key)
			sim_fail("adapter", "memory is received into without a key");
		qp->recvs.push_back({wr->wr_id, wr->sg_list[0].addr, wr->sg_list[0].length});
	}
	return 0;
}

ib_ah *rdma_create_ah(ib_pd *, rdma_ah_attr *attr, int)
{
	if (sim_alloc_refuse(GFP_ATOMIC))
		return static_cast<ib_ah *>(ERR_PTR(-ENOMEM));
	auto *ah = static_cast<ib_ah *>(sim_alloc(sizeof(ib_ah), __GFP_ZERO, "address handle"));
	if (!ah)
		return static_cast<ib_ah *>(ERR_PTR(-ENOMEM));
	ah->node = static_cast<u32>(sim_node_of_gid(attr->gid));
	ah->place = places[ah->node];
	return ah;
}

void rdma_destroy_ah(ib_ah *ah, int)
{
	sim_might_sleep("rdma_destroy_ah");
	sim_free(ah);
}

// ---- the checker of packets: see witness.c ------------------------------------------------------

extern "C" bool sim_event_to_come(const ib_cq *cq)
{
	return late_events[cq->number];
}

namespace
{

// By which a path knows the other end now.
bool of_this_life(const sim::Origin &origin, u32 token, u32 remote_token, u64 remote_instance)
{
	return origin.known && origin.instance == remote_instance && origin.token == remote_token &&
		origin.to == token;
}

void check_origin(sim::Origin &origin, u32 token, u32 remote_token, u64 remote_instance, bool is_new)
{
	if (!origin.known || origin.instance != remote_instance)
		sim_fail("epoch", "packet %llu is of epoch %u of node %u, and is taken in epoch %u",
			origin.id, origin.epoch, origin.node, sim_epoch(origin.node));
	if (!of_this_life(origin, token, remote_token, remote_instance))
		sim_fail("epoch",
			"packet %llu of node %u is of another life of its path (%x to %x), and is taken (%x "
			"to %x)",
			origin.id, origin.node, origin.token, origin.to, remote_token, token);
	if (is_new && origin.accepted++)
		sim_fail("twice", "packet %llu of node %u is taken twice", origin.id, origin.node);
	sim_counts.accepted++;
}

} // namespace

// A path has taken a packet: it must be of this life of both ends, undamaged, and, if it has frames, new.
extern "C" bool sim_packet_take(
	const void *buffer, u32 token, u32 remote_token, u64 remote_instance, bool frames)
{
	const Packet *packet = sim::adapter_packet(buffer);
	if (!packet)
		sim_fail("packet", "a packet was taken that never arrived");
	if (packet->damaged)
		sim_fail("damage", "packet %llu of node %u was damaged, and is taken", packet->origin->id,
			packet->origin->node);
	check_origin(*packet->origin, token, remote_token, remote_instance, frames);
	return true;
}

// The same for a write, which has no header: its memory was checked by the adapter, and whose it is by
// nobody. The module learns of writes in the order in which they arrived; those that it was not ready for it
// has passed over. Of two that look alike, it may have taken either.
extern "C" void sim_written(
	ib_qp *base, u32 immediate, u32 length, u32 token, u32 remote_token, u64 remote_instance, bool taken)
{
	auto &written = of(base)->written;
	const auto alike = [&](const Written &one) {
		return one.immediate == immediate && one.length == length;
	};
	const auto first = std::find_if(written.begin(), written.end(), alike);
	const auto good = std::find_if(first, written.end(), [&](const Written &one) {
		return alike(one) && of_this_life(*one.origin, token, remote_token, remote_instance) &&
			!one.origin->accepted;
	});

	if (first == written.end())
		sim_fail("packet", "the path was told of a write that never arrived");
	const auto meant = taken && good != written.end() ? good : first;
	if (taken)
		check_origin(*meant->origin, token, remote_token, remote_instance, true);
	written.erase(written.begin(), meant + 1);
}
