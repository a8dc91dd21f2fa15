// SPDX-License-Identifier: GPL-2.0-only

#include "scenario.hpp"

#include "broken.hpp"

#include <memory>
#include <numeric>

namespace scale
{

namespace
{

constexpr u64 second_ns = 1000000000;

// The packets of a message, one after the other, on one link.
u64 link_ns(const Wire &wire, u32 bytes)
{
	const u32 full = bytes / segment_bytes, rest = bytes % segment_bytes;

	return full * wire.time_ns(packet_bytes_max + framing_bytes) +
		(rest ? wire.time_ns(rest + header_bytes + framing_bytes) : 0);
}

// What a packet takes through an empty network before the last link begins to carry it, and after.
u64 way_ns(const Wire &wire, u32 message_bytes)
{
	const u32 packet = std::min(message_bytes + header_bytes, packet_bytes_max);

	return links_before_queue * (wire.hop_ns + wire.time_ns(packet + framing_bytes)) + wire.hop_ns;
}

Times times_of(std::vector<u32> &samples, u32 bytes, u64 ideal_ns)
{
	Times times;

	times.bytes = bytes;
	times.count = samples.size();
	times.ideal_ns = ideal_ns;
	if (samples.empty())
		return times;
	std::sort(samples.begin(), samples.end());
	// The smallest that so many of a thousand do not exceed.
	const auto rank = [&](u64 of_thousand) {
		return samples[(samples.size() * of_thousand + 999) / 1000 - 1];
	};
	times.p50_ns = rank(500);
	times.p99_ns = rank(990);
	times.p999_ns = rank(999);
	times.most_ns = samples.back();
	return times;
}

class Measured : public Workload
{
public:
	virtual void report(Outcome &outcome) = 0;
};

// All senders start at one moment, on flows that were opened before.
class Incast : public Measured
{
public:
	explicit Incast(const Scenario &scenario) : scenario_(scenario), missing_(scenario.senders)
	{
	}

	void begin(Cluster &cluster) override
	{
		for (u32 i = 0; i < scenario_.senders; i++) {
			conns_.push_back(cluster.connect(i + 1, 0));
			cluster.plan(i * open_gap_ns, i);
		}
		start_ns_ = scenario_.senders * open_gap_ns + settle_ns;
		cluster.plan(start_ns_, all);
	}

	void work(Cluster &cluster, u32 object) override
	{
		if (object != all) {
			cluster.open(conns_[object]);
			return;
		}
		for (u32 i = 0; i < scenario_.senders; i++) {
			for (u32 left = scenario_.kib; left;) {
				const u32 kib = std::min(left, message_kib);

				cluster.submit(conns_[i], kib * 1024, i);
				missing_[i]++;
				left -= kib;
				bytes_ += kib * 1024ull;
				link_ns_ += link_ns(scenario_.wire, kib * 1024);
			}
		}
	}

	void delivered(Cluster &cluster, const Message &message) override
	{
		if (!--missing_[message.owner]) {
			samples_.push_back(static_cast<u32>(cluster.now - start_ns_));
			last_ns_ = cluster.now;
		}
	}

	[[nodiscard]] bool done() const override
	{
		return samples_.size() == scenario_.senders;
	}

	void report(Outcome &outcome) override
	{
		outcome.ideal_ns = way_ns(scenario_.wire, scenario_.kib * 1024) + link_ns_;
		outcome.elapsed_ns = last_ns_ - start_ns_;
		outcome.bytes = bytes_;
		outcome.times = {times_of(samples_, scenario_.kib * 1024, outcome.ideal_ns)};
	}

private:
	static constexpr u32 all = none;
	static constexpr u32 message_kib = 64;
	static constexpr u64 open_gap_ns = 5000;
	static constexpr u64 settle_ns = 50000000;

	const Scenario &scenario_;
	std::vector<u32> conns_;
	std::vector<u32> missing_; // messages of each sender
	std::vector<u32> samples_;
	u64 start_ns_ = 0, last_ns_ = 0, bytes_ = 0, link_ns_ = 0;
};

// Each node sends messages of all sizes to its neighbours on either side, in an order of its own. It is never
// more than some messages ahead of what it has received, as in an all-to-all of MPI that does a few steps at
// a time.
class Exchange : public Measured
{
public:
	explicit Exchange(const Scenario &scenario) :
		scenario_(scenario), nodes_(scenario.senders),
		conns_(static_cast<u64>(scenario.senders) * scenario.peers, none),
		steps_(scenario.peers * scenario.rounds * sizes)
	{
	}

	void begin(Cluster &cluster) override
	{
		Random random(scenario_.senders);

		for (u32 i = 0; i < scenario_.senders; i++) {
			Node &node = nodes_[i];

			node.first = static_cast<u32>(random.next() % steps_);
			do
				node.stride = static_cast<u32>(random.next() % steps_) | 1;
			while (std::gcd(node.stride, steps_) != 1);
			cluster.plan(random.next() % spread_ns, i);
		}
	}

	void work(Cluster &cluster, u32 object) override
	{
		nodes_[object].started = true;
		go_on(cluster, object);
	}

	void delivered(Cluster &cluster, const Message &message) override
	{
		const u32 size = message.bytes == exchange_sizes[0] ? 0
			: message.bytes == exchange_sizes[1]        ? 1
								    : 2;

		samples_[size].push_back(static_cast<u32>(cluster.now - message.submitted_ns));
		nodes_[message.owner].received++;
		last_ns_ = cluster.now;
		if (nodes_[message.owner].started)
			go_on(cluster, message.owner);
	}

	[[nodiscard]] bool done() const override
	{
		u64 count = 0;

		for (const auto &samples : samples_)
			count += samples.size();
		return count == static_cast<u64>(steps_) * scenario_.senders;
	}

	void report(Outcome &outcome) override
	{
		const u64 count = static_cast<u64>(scenario_.peers) * scenario_.rounds;
		const Wire &wire = scenario_.wire;

		outcome.ideal_ns = way_ns(wire, packet_bytes_max);
		outcome.elapsed_ns = last_ns_;
		for (u32 i = 0; i < sizes; i++) {
			const u32 size = exchange_sizes[i];

			outcome.bytes += count * size * scenario_.senders;
			outcome.ideal_ns += count * link_ns(wire, size);
			outcome.times.push_back(
				times_of(samples_[i], size, way_ns(wire, size) + link_ns(wire, size)));
		}
	}

private:
	static constexpr u32 sizes = std::size(exchange_sizes);
	static constexpr u32 ahead_max = 32;
	static constexpr u64 spread_ns = 10000; // within which all begin

	struct Node {
		u32 first = 0, stride = 1; // step s is message (first + s * stride) % steps
		u32 sent = 0;
		u32 received = 0;
		bool started = false;
	};

	const Scenario &scenario_;
	std::vector<Node> nodes_;
	std::vector<u32> conns_; // of each node, to its peers
	std::vector<u32> samples_[sizes];
	u32 steps_;
	u64 last_ns_ = 0;

	void go_on(Cluster &cluster, u32 index)
	{
		Node &node = nodes_[index];

		while (node.sent < steps_ && node.sent < node.received + ahead_max) {
			const u64 step = node.first + static_cast<u64>(node.sent++) * node.stride;
			const u32 which = static_cast<u32>(step % steps_);
			const u32 side = which / sizes % scenario_.peers;
			const u32 peer = peer_of(index, side);

			cluster.submit(
				conn_of(cluster, index, side, peer), exchange_sizes[which % sizes], peer);
		}
	}

	// Half of the peers follow, and half precede a node, in a circle of all.
	[[nodiscard]] u32 peer_of(u32 index, u32 side) const
	{
		const u32 n = scenario_.senders, half = scenario_.peers / 2;

		return side < half ? (index + side + 1) % n : (index + n - (side - half) - 1) % n;
	}

	u32 conn_of(Cluster &cluster, u32 index, u32 side, u32 peer)
	{
		const u32 half = scenario_.peers / 2;
		u32 &conn = conns_[static_cast<u64>(index) * scenario_.peers + side];

		if (conn == none) {
			conn = cluster.connect(index, peer);
			conns_[static_cast<u64>(peer) * scenario_.peers + (side + half) % scenario_.peers] =
				conn + 1;
		}
		return conn;
	}
};

} // namespace

Outcome simulate(const Scenario &scenario, u64 seed)
{
	Cluster cluster(scenario.wire, scenario.engine, scenario.senders + !scenario.exchange, seed);
	std::unique_ptr<Measured> workload;
	Outcome outcome;

	if (scenario.exchange)
		workload = std::make_unique<Exchange>(scenario);
	else
		workload = std::make_unique<Incast>(scenario);
	try {
		cluster.run(*workload, 60 * second_ns);
	} catch (const Broken &broken) {
		outcome.broken = broken.what();
	}
	if (outcome.broken.empty())
		workload->report(outcome);
	outcome.conns = cluster.conns();
	outcome.totals = cluster.totals();
	outcome.counts = cluster.counts();
	outcome.memory = cluster.memory();
	outcome.fingerprint = cluster.fingerprint();
	return outcome;
}

} // namespace scale
