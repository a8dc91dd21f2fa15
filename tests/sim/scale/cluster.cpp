// SPDX-License-Identifier: GPL-2.0-only

#include "cluster.hpp"
#include "broken.hpp"

namespace scale
{

namespace
{

// A cookie says which segment of which message; it is never NULL.
void *cookie_of(u32 message, u32 segment)
{
	return reinterpret_cast<void *>((static_cast<uintptr_t>(message) + 1) * segments_max + segment);
}

u32 message_of(void *cookie)
{
	return static_cast<u32>(reinterpret_cast<uintptr_t>(cookie) / segments_max - 1);
}

u32 segment_of(void *cookie)
{
	return static_cast<u32>(reinterpret_cast<uintptr_t>(cookie) % segments_max);
}

} // namespace

const rel_ops Cluster::ops = {acked, lost};

Cluster::Cluster(const Wire &wire, const Engine &engine, u32 hosts, u64 seed) :
	engine_(engine), network_(wire, hosts, calendar_, seed), random_(~seed)
{
}

// As path_start_life() of path.c.
u32 Cluster::conn_add(u32 host, u32 number_start, u32 peer_number_start)
{
	rel_config config{};
	Conn &conn = conns_.emplace_back();

	config.congestion = engine_.fixed ? &rel_congestion_fixed : &rel_congestion_delay;
	config.target_us = engine_.target_us;
	config.window_pkts = engine_.window_pkts;
	// As the handshake has it; when the first packet has come, a share is what its sender has.
	config.credit_pkts = 64;
	config.peer_credit_pkts = 64;
	config.number_start = number_start;
	config.peer_number_start = peer_number_start;
	config.ack_every_pkts = 24;
	config.ack_delay_us = 200;
	config.rto_initial_us = 20000;
	config.rto_min_us = 1000;
	config.rto_max_us = 1000000;
	config.seed = static_cast<u32>(random_.next()) | 1;
	conn.cluster = this;
	conn.number = conns() - 1;
	conn.host = host;
	memory_.give(sizeof(conn.rel));
	rel_conn_init(&conn.rel, &config, &ops, now);
	rel_credit_share(&conn.rel, engine_.credit_pkts);
	network_.queue_pair_add();
	return conn.number;
}

u32 Cluster::connect(u32 host, u32 peer)
{
	const u32 mine = static_cast<u32>(random_.next()), others = static_cast<u32>(random_.next());
	const u32 conn = conn_add(host, mine, others);

	conn_add(peer, others, mine);
	return conn;
}

void Cluster::open(u32 number)
{
	Conn &conn = conns_[number];

	if (conn.opening)
		return;
	conn.opening = true;
	message_queue(conn, message_add(conn, Kind::open, 0, none));
}

void Cluster::submit(u32 number, u32 bytes, u32 owner)
{
	Conn &conn = conns_[number];
	const u32 index = message_add(conn, Kind::data, bytes, owner);

	require(messages_[index].segments() <= segments_max, "messages are short");
	totals_.messages++;
	if (conn.opened) {
		message_queue(conn, index);
		return;
	}
	conn.waiting.append(messages_, index);
	open(number);
}

void Cluster::plan(u64 at, u32 object)
{
	calendar_.plan(at, event_work, object);
}

u32 Cluster::message_add(Conn &conn, Kind kind, u32 bytes, u32 owner)
{
	const u32 index = messages_.get();
	Message &message = messages_[index];

	message.conn = conn.number;
	message.serial = serial_++;
	message.bytes = bytes;
	message.owner = owner;
	message.kind = kind;
	message.submitted_ns = now;
	return index;
}

void Cluster::message_queue(Conn &conn, u32 index)
{
	conn.messages.append(messages_, index);
	if (conn.sending == none)
		conn.sending = index;
	drive(conn);
}

// What would be sent next, if it may be?
bool Cluster::packet_next(Conn &conn, u32 &message, u32 &segment)
{
	if (!conn.repeats.empty()) {
		message = repeats_[conn.repeats.first].message;
		segment = repeats_[conn.repeats.first].segment;
		return true;
	}
	message = conn.sending;
	segment = message == none ? 0 : messages_[message].sent;
	return message != none;
}

void Cluster::packet_post(Conn &conn, const wire_header &header, u32 message, u32 segment)
{
	const u32 index = network_.packets.get();
	Packet &packet = network_.packets[index];

	packet.header = header;
	packet.to = conn.number ^ 1;
	packet.host = conns_[packet.to].host;
	packet.message = message;
	packet.segment = segment;
	packet.bytes = sizeof(wire_header);
	if (message != none) {
		const u32 rest = messages_[message].bytes - segment * segment_bytes;

		packet.serial = messages_[message].serial;
		packet.bytes = header_bytes + std::min(rest, segment_bytes);
	}
	network_.post(conn.host, conn.number, index, now);
}

// The memory of what is in flight, for those that have something to send.
void Cluster::ring_give(Conn &conn)
{
	u32 message, segment;

	if (conn.ring || !packet_next(conn, message, segment))
		return;
	if (rings_.empty()) {
		conn.ring = std::make_unique<rel_sent[]>(REL_SPAN_MAX);
	} else {
		conn.ring = std::move(rings_.back());
		rings_.pop_back();
	}
	memory_.give(REL_RING_BYTES);
	memory_.rings_most = std::max(memory_.rings_most, ++memory_.rings);
	rel_ring_give(&conn.rel, conn.ring.get());
}

// At once, where the module waits for some seconds, which are longer than a run.
void Cluster::ring_drop(Conn &conn)
{
	u32 message, segment;

	if (!conn.ring || packet_next(conn, message, segment) || !rel_ring_drop(&conn.rel))
		return;
	memory_.now -= REL_RING_BYTES;
	memory_.rings--;
	rings_.push_back(std::move(conn.ring));
}

// As ibr_path_drive_locked() of drive.c.
void Cluster::drive(Conn &conn)
{
	wire_header header{};
	u32 message, segment;

	ring_give(conn);
	while (packet_next(conn, message, segment) && rel_can_send(&conn.rel, REL_RELIABLE, now)) {
		u32 next_message, next_segment;

		if (!conn.repeats.empty()) {
			repeats_.put(conn.repeats.take(repeats_));
			totals_.repeats++;
		} else if (++messages_[message].sent == messages_[message].segments()) {
			conn.sending = messages_[message].next;
		}
		rel_send(&conn.rel, REL_RELIABLE, cookie_of(message, segment),
			packet_next(conn, next_message, next_segment), now, &header);
		packet_post(conn, header, message, segment);
	}
	while (rel_poll_control(&conn.rel, now, &header))
		packet_post(conn, header, none, 0);

	ring_drop(conn);

	const u64 at = rel_next_timeout(&conn.rel);

	if (at < conn.timer_ns) {
		conn.timer_ns = std::max(at, now);
		calendar_.plan(conn.timer_ns, event_timer, conn.number);
	}
}

void Cluster::acked(rel_conn *rel, void *cookie)
{
	Cluster &cluster = *reinterpret_cast<Conn *>(rel)->cluster;
	const u32 index = message_of(cookie);
	Message &message = cluster.messages_[index];

	require(message.arrived >> segment_of(cookie) & 1, "nothing is acknowledged that has not arrived");
	require(message.acked < message.segments(), "nothing is acknowledged twice");
	if (++message.acked == message.segments() && message.delivered)
		cluster.messages_.put(index);
}

void Cluster::lost(rel_conn *rel, void *cookie, rel_cause)
{
	Conn &conn = *reinterpret_cast<Conn *>(rel);
	Pool<Repeat> &repeats = conn.cluster->repeats_;
	const u32 index = repeats.get();

	repeats[index].message = message_of(cookie);
	repeats[index].segment = segment_of(cookie);
	conn.repeats.append(repeats, index);
}

void Cluster::receive(u32 index)
{
	const Packet packet = network_.packets[index];
	Conn &conn = conns_[packet.to];
	const rel_verdict verdict = rel_handle_header(&conn.rel, &packet.header, now);

	network_.packets.put(index);
	if (packet.message == none) {
		require(verdict == REL_NOTHING, "a packet without frames delivers nothing");
	} else {
		require(verdict == REL_NEW || verdict == REL_DUPLICATE, "an honest packet is taken");
		if (verdict == REL_NEW) {
			rel_commit(&conn.rel, &packet.header, now);
			if (messages_[packet.message].serial == packet.serial)
				segment_take(packet.message, packet.segment);
			else
				totals_.in_vain++;
		}
	}
	drive(conn);
}

void Cluster::segment_take(u32 index, u32 segment)
{
	Message &message = messages_[index];
	const u64 bit = 1ull << segment;

	if (message.arrived & bit) {
		totals_.in_vain++;
		return;
	}
	message.arrived |= bit;
	if (message.complete())
		deliver(conns_[message.conn]);
}

// All that has come completely, and before which nothing is missing.
void Cluster::deliver(Conn &sender)
{
	while (!sender.messages.empty() && messages_[sender.messages.first].complete()) {
		const u32 index = sender.messages.take(messages_);
		Message &kept = messages_[index];

		kept.delivered = true;
		const Message message = kept;

		if (message.acked == message.segments())
			messages_.put(index);
		fingerprint_ =
			(fingerprint_ ^ now ^ (static_cast<u64>(message.serial) << 40)) * 0x100000001b3;
		if (message.kind == Kind::data) {
			last_delivery_ns = now;
			workload_->delivered(*this, message);
		} else if (message.kind == Kind::open) {
			Conn &receiver = conns_[sender.number ^ 1];

			message_queue(receiver, message_add(receiver, Kind::accept, 0, none));
		} else {
			Conn &opener = conns_[sender.number ^ 1];

			opener.opened = true;
			while (!opener.waiting.empty())
				message_queue(opener, opener.waiting.take(messages_));
		}
	}
}

void Cluster::run(Workload &workload, u64 limit_ns)
{
	Event event{};

	workload_ = &workload;
	workload.begin(*this);
	while (calendar_.next(event)) {
		now = event.at;
		require(now < limit_ns, "all is delivered in time");
		switch (event.kind) {
		case event_adapter: network_.adapter_free(event.object, now); break;
		case event_queue: network_.queue(event.object, now); break;
		case event_arrival: receive(event.object); break;
		case event_timer: {
			Conn &conn = conns_[event.object];

			if (event.at != conn.timer_ns)
				break;
			conn.timer_ns = REL_TIME_NEVER;
			rel_handle_timeout(&conn.rel, now);
			drive(conn);
			break;
		}
		default: workload.work(*this, event.object);
		}
	}
	require(workload.done(), "all is delivered");
	rest_check();
}

void Cluster::rest_check()
{
	for (Conn &conn : conns_) {
		require(rel_in_flight(&conn.rel) == 0, "nothing is in flight at the end");
		require(conn.messages.empty() && conn.waiting.empty() && conn.repeats.empty(),
			"nothing waits at the end");
	}
}

u64 Cluster::conn_bytes()
{
	constexpr u64 beside = 768; // queue pair, messages, packets under way, samples, and some have a ring

	return sizeof(Conn) + beside;
}

Cluster::Totals Cluster::totals() const
{
	Totals sum = totals_;

	for (const Conn &conn : conns_) {
		const rel_stats &stats = conn.rel.stats;

		sum.acks_explicit += stats.acks_explicit;
		sum.acks_credit += stats.acks_credit;
		sum.acks_piggybacked += stats.acks_piggybacked;
		sum.probes_sent += stats.probes_sent;
		sum.timeouts += stats.timeouts;
		sum.spurious += stats.spurious;
		sum.window_cuts += stats.window_cuts;
		for (int cause = 0; cause < REL_CAUSES; cause++)
			sum.lost[cause] += stats.lost[cause];
	}
	return sum;
}

} // namespace scale
