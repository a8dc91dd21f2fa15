// SPDX-License-Identifier: GPL-2.0-only

#include "network.hpp"

namespace scale
{

void Network::post(u32 host_number, u32 from, u32 packet, u64 now)
{
	Host &host = hosts_[host_number];
	QueuePair &queue_pair = queue_pairs_[from];

	counts.packets++;
	if (!host.planned && now >= host.adapter_free_ns) {
		transmit(host, packet, now);
		return;
	}
	if (queue_pair.posted.empty()) {
		queue_pair.next = none;
		(host.first == none ? host.first : queue_pairs_[host.last].next) = from;
		host.last = from;
	}
	queue_pair.posted.append(packets, packet);
	if (!host.planned) {
		host.planned = true;
		calendar_.plan(host.adapter_free_ns, event_adapter, host_number);
	}
}

// One packet of each queue pair in turn.
void Network::adapter_free(u32 host_number, u64 now)
{
	Host &host = hosts_[host_number];
	const u32 turn = host.first;
	QueuePair &queue_pair = queue_pairs_[turn];

	transmit(host, queue_pair.posted.take(packets), now);
	host.first = queue_pair.next;
	if (!queue_pair.posted.empty()) {
		queue_pair.next = none;
		(host.first == none ? host.first : queue_pairs_[host.last].next) = turn;
		host.last = turn;
	}
	host.planned = host.first != none;
	if (host.planned)
		calendar_.plan(host.adapter_free_ns, event_adapter, host_number);
}

void Network::transmit(Host &host, u32 index, u64 now)
{
	const u64 time_ns = wire_.time_ns(packets[index].bytes + framing_bytes);

	host.adapter_free_ns = now + time_ns;
	if (random_.next() % 1000000 < wire_.lost_of_million) {
		counts.lost++;
		packets.put(index);
		return;
	}

	// A short one does not overtake a long one of the same queue pair.
	QueuePair &queue_pair = queue_pairs_[packets[index].to ^ 1];

	queue_pair.queue_ns =
		std::max(queue_pair.queue_ns + time_ns, now + links_before_queue * (time_ns + wire_.hop_ns));
	calendar_.plan(queue_pair.queue_ns, event_queue, index);
}

void Network::queue(u32 index, u64 now)
{
	const Packet &packet = packets[index];
	Host &host = hosts_[packet.host];
	const u64 time_ns = wire_.time_ns(packet.bytes + framing_bytes);
	const u64 free_ns = std::max(host.port_free_ns, now) + time_ns;

	if (free_ns - now > queue_ns_) {
		counts.dropped++;
		packets.put(index);
		return;
	}
	counts.queue_peak_ns = std::max(counts.queue_peak_ns, free_ns - now);
	host.port_free_ns = free_ns;

	QueuePair &queue_pair = queue_pairs_[packet.to];

	queue_pair.arrival_ns = std::max(
		queue_pair.arrival_ns, free_ns + wire_.hop_ns + random_.next() % (wire_.notice_ns + 1));
	calendar_.plan(queue_pair.arrival_ns, event_arrival, index);
}

} // namespace scale
