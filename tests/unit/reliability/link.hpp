// Two engines joined by a simulated link in virtual time, with the owners that real ones have: queues of what
// is to be sent, repeats before new things, a timer that may be late. The link loses, duplicates, reorders
// and delays as its settings say. What must hold at every step is checked here; a broken rule throws Broken.

#pragma once

#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <queue>
#include <set>
#include <string>
#include <vector>

#include "broken.hpp"
#include "random.hpp"
#include "side.hpp"

// How one direction of the link treats packets.
struct Weather {
	u64 delay_ns = 10 * us;
	u64 jitter_ns = 0;    // added at random, so packets overtake one another
	u64 serial_ns = 0;    // time that each packet occupies the wire
	u32 loss = 0;         // per million, as the rest
	u32 control_loss = 0; // of ACK and PROBE packets, beyond that
	u32 duplicate = 0;
	u32 straggle = 0; // takes up to 20 times as long
	u32 replay = 0;   // a packet of any age comes once more
	u32 refuse = 0;   // the receiver cannot keep a new packet
	u32 bare = 0;     // the sender sends the first time without a header, if it may
};

struct Message {
	rel_kind kind;
	u32 sent = 0;
	u32 delivered = 0;
	bool acked = false;
	bool in_engine = false;
	u64 submitted_ns = 0;
	u64 delivered_ns = 0; // first time
	u32 since = 0;        // what the other side had received then
};

struct Packet {
	wire_header header;
	uintptr_t id; // of its message; 0: control packet
	bool bare = false;
	u32 number = 0; // then of this number only the low bits
	bool ask = false;
};

class Link;

// One end: the engine and its owner.
struct End {
	rel_conn conn; // the first member, so that the callbacks find the rest
	rel_sent ring[REL_SPAN_MAX];
	Link *link = nullptr;
	int index = 0;
	std::deque<uintptr_t> repeat;
	std::deque<uintptr_t> fresh;
	std::deque<uintptr_t> fresh_unreliable;
	std::vector<Message> messages; // by id - 1
	std::set<u32> received, received_unreliable;
	std::multimap<u64, uintptr_t> plan; // what to submit, by time
	Weather weather;                    // of what this end sends
	std::vector<Packet> captured;       // for replay
	u64 wire_free_ns = 0;
	u64 timer_late_ns = 0;
	u64 timer_at = REL_TIME_NEVER;
	u32 batch = 1; // packets taken in before the owner replies
	u32 unanswered = 0;
	u64 woken_ns = 0;  // when the timer last fired,
	u32 woken = 0;     // and how often at that time
	u64 packets = 0;   // with frames
	u64 bare = 0;      // of them, without header
	u64 dropped = 0;   // of those of the other side
	u64 controls = 0;  // without
	u64 delivered = 0; // messages, first time
	u64 unacked = 0;   // reliable ones
	u32 replies = 0;   // so many messages are answered with one each,
	u64 think_ns = 0;  // after this time

	static End &of(rel_conn *conn)
	{
		return *reinterpret_cast<End *>(conn);
	}
};

class Link
{
public:
	Link(const rel_config &left, const rel_config &right, u64 seed) : random(seed)
	{
		static const rel_ops ops = {
			[](rel_conn *conn, void *cookie) {
				End::of(conn).link->acked(End::of(conn), id_of(cookie));
			},
			[](rel_conn *conn, void *cookie, rel_cause) {
				End::of(conn).link->lost(End::of(conn), id_of(cookie));
			},
		};
		for (int i = 0; i < 2; i++) {
			ends[i].link = this;
			ends[i].index = i;
			rel_conn_init(&ends[i].conn, i ? &right : &left, &ops, now);
			rel_ring_give(&ends[i].conn, ends[i].ring);
		}
	}
	Link(const Link &) = delete;
	Link &operator=(const Link &) = delete;

	u64 now = 77 * ms;
	End ends[2];
	Random random;
	bool forgets = false;                     // owners take the ring back whenever they may
	std::vector<std::pair<u64, u64>> outages; // nothing gets through from, to
	std::function<bool(const End &from, const Packet &)> drops; // loses this packet
	std::function<u64(const End &from, const Packet &)> queue;  // adds so much to its delay

	void plan(End &end, u64 at, rel_kind kind)
	{
		end.messages.push_back({.kind = kind});
		end.unacked += kind == REL_RELIABLE;
		end.plan.insert({at, end.messages.size()});
	}

	void plan(int index, u64 at, u32 count, rel_kind kind = REL_RELIABLE)
	{
		while (count--)
			plan(ends[index], at, kind);
	}

	// Has everything been sent, and everything reliable acknowledged?
	[[nodiscard]] bool done() const
	{
		for (const End &end : ends) {
			if (!end.plan.empty() || !end.fresh.empty() || !end.fresh_unreliable.empty() ||
				!end.repeat.empty() || end.unacked)
				return false;
		}
		return true;
	}

	// Runs until done, or until nothing happens any more, or until the time is up. Returns done().
	bool run(u64 until)
	{
		while (!done() && step(until))
			;
		return done();
	}

	// Runs until nothing happens any more; a connection that goes on for ever breaks a rule.
	void settle(u64 until)
	{
		while (step(until))
			;
		require(next_event() == REL_TIME_NEVER, "a connection at rest falls silent");
		for (End &end : ends) {
			require(rel_in_flight(&end.conn) == 0, "nothing is in flight at the end");
			require(rel_silence_ns(&end.conn, now) == 0, "nothing is waited for at the end");
			rel_conn_drain(&end.conn,
				[](rel_conn *, void *) { throw Broken("no cookie is left at the end"); });
		}
	}

	// The queue pairs are rebuilt: what is under way is gone.
	void rebuild()
	{
		under_way_.clear();
		for (End &end : ends) {
			rel_conn_requeue(&end.conn, now);
			require(rel_in_flight(&end.conn) == 0, "a rebuilt queue pair has nothing in flight");
			drive(end);
		}
	}

	bool step(u64 until)
	{
		u64 at = next_event();

		if (at > until || at == REL_TIME_NEVER) {
			now = std::max(now, at == REL_TIME_NEVER ? now : until);
			return false;
		}
		now = std::max(now, at);
		for (End &end : ends) {
			bool woken = false;

			while (!end.plan.empty() && end.plan.begin()->first <= now) {
				submit(end, end.plan.begin()->second);
				end.plan.erase(end.plan.begin());
				woken = true;
			}
			if (end.timer_at <= now) {
				// Handling one deadline may leave another that is due; but not for ever.
				end.woken = end.woken_ns == now ? end.woken + 1 : 0;
				end.woken_ns = now;
				require(end.woken < 4, "what was due has been done");
				end.timer_at = REL_TIME_NEVER;
				rel_handle_timeout(&end.conn, now);
				woken = true;
			}
			if (woken)
				drive(end);
		}
		while (!under_way_.empty() && under_way_.begin()->first <= now) {
			auto [index, packet] = under_way_.begin()->second;
			End &end = ends[index];

			under_way_.erase(under_way_.begin());
			receive(end, packet);
			// The owner replies when a batch is full, or nothing more is about to come.
			if (++end.unanswered >= end.batch || under_way_.empty() ||
				under_way_.begin()->first > now) {
				end.unanswered = 0;
				drive(end);
			}
		}
		for (End &end : ends) {
			if (end.unanswered) {
				end.unanswered = 0;
				drive(end);
			}
			check(end);
		}
		return true;
	}

	// When something happens next, if nothing is submitted before.
	[[nodiscard]] u64 next_event() const
	{
		u64 at = under_way_.empty() ? REL_TIME_NEVER : under_way_.begin()->first;

		for (const End &end : ends) {
			at = std::min(at, end.timer_at);
			if (!end.plan.empty())
				at = std::min(at, end.plan.begin()->first);
		}
		return at;
	}

private:
	std::multimap<u64, std::pair<int, Packet>> under_way_;

	End &other(const End &end)
	{
		return ends[1 - end.index];
	}

	void submit(End &end, uintptr_t id)
	{
		Message &message = end.messages[id - 1];

		message.submitted_ns = now;
		message.since = rel_received(&other(end).conn, message.kind);
		(message.kind == REL_RELIABLE ? end.fresh : end.fresh_unreliable).push_back(id);
	}

	void acked(End &end, uintptr_t id)
	{
		Message &message = end.messages.at(id - 1);

		require(message.in_engine, "only cookies that the engine holds are acknowledged");
		require(message.delivered > 0, "nothing is acknowledged that was not delivered");
		require(!message.acked, "a cookie is acknowledged once");
		message.in_engine = false;
		message.acked = true;
		end.unacked--;
	}

	void lost(End &end, uintptr_t id)
	{
		Message &message = end.messages.at(id - 1);

		require(message.in_engine, "only cookies that the engine holds are lost");
		message.in_engine = false;
		end.repeat.push_back(id);
	}

	// What an owner does after each event: send, acknowledge, arm the timer.
	void drive(End &end)
	{
		if (forgets && rel_ring_drop(&end.conn)) {
			std::memset(end.ring, 0xa5, sizeof(end.ring));
			rel_ring_give(&end.conn, end.ring);
		}
		for (std::deque<uintptr_t> *queue : {&end.repeat, &end.fresh, &end.fresh_unreliable}) {
			rel_kind kind = queue == &end.fresh_unreliable ? REL_UNRELIABLE : REL_RELIABLE;

			while (!queue->empty() && rel_can_send(&end.conn, kind, now)) {
				uintptr_t id = queue->front();

				queue->pop_front();
				send(end, kind, id, !queue->empty());
			}
		}
		Packet packet{};

		for (int count = 0; rel_poll_control(&end.conn, now, &packet.header); count++) {
			require(count < 2, "control packets come to an end");
			require(le16_to_cpu(packet.header.frames) == 0, "control packets have no frames");
			end.controls++;
			transmit(end, packet);
		}
		u64 at = rel_next_timeout(&end.conn);

		if (at != REL_TIME_NEVER)
			at += random.upto(end.timer_late_ns);
		end.timer_at = at;
	}

	void send(End &end, rel_kind kind, uintptr_t id, bool more)
	{
		Message &message = end.messages.at(id - 1);
		Packet packet{{}, id};
		bool governed = (kind == REL_UNRELIABLE) == end.conn.config.native;

		if (end.weather.bare && !message.sent && rel_can_send_bare(&end.conn) &&
			random.chance(end.weather.bare)) {
			packet.bare = true;
			packet.number = rel_send_bare(&end.conn, kind, cookie_of(id), more, now, &packet.ask);
			packet.header.number = cpu_to_le32(packet.number);
			end.bare++;
		} else {
			rel_send(&end.conn, kind, cookie_of(id), more, now, &packet.header);
		}
		message.sent++;
		message.in_engine = kind == REL_RELIABLE;
		end.packets++;
		if (governed)
			require(rel_seq_before(number_of(packet.header), other(end).conn.credit.granted),
				"nothing is sent without credit");
		require(le16_to_cpu(packet.header.floor_delta) < REL_SPAN_MAX, "the span is bounded");
		check(end);
		transmit(end, packet);
	}

	void transmit(End &end, const Packet &packet)
	{
		const Weather &weather = end.weather;
		bool control = !packet.id;

		end.wire_free_ns = std::max(end.wire_free_ns, now) + weather.serial_ns;
		for (auto [from, to] : outages) {
			if (now >= from && now < to)
				return;
		}
		if (drops && drops(end, packet))
			return;
		for (int copies = random.chance(weather.duplicate) ? 2 : 1; copies; copies--) {
			u64 delay = weather.delay_ns + random.upto(weather.jitter_ns) +
				(queue ? queue(end, packet) : 0);

			if (random.chance(weather.loss) || (control && random.chance(weather.control_loss)))
				continue;
			if (random.chance(weather.straggle))
				delay += random.upto(19 * weather.delay_ns);
			under_way_.insert({end.wire_free_ns + delay, {1 - end.index, packet}});
		}
		if (!weather.replay)
			return;
		end.captured.push_back(packet);
		if (random.chance(weather.replay)) {
			const Packet &old = end.captured[random.upto(end.captured.size() - 1)];

			under_way_.insert({end.wire_free_ns + weather.delay_ns, {1 - end.index, old}});
		}
	}

	void receive(End &end, const Packet &packet)
	{
		wire_header bare;
		const wire_header *header = packet.bare ? &bare : &packet.header;
		End &sender = other(end);
		rel_verdict verdict;

		if (packet.bare) {
			const Message &message = sender.messages.at(packet.id - 1);

			verdict = rel_handle_bare(&end.conn, message.kind,
				packet.number & ((1u << REL_BARE_BITS) - 1), message.since, packet.ask, now,
				&bare);
			// A peer that is too far behind, or too far ahead, gets it again with a header.
			if (verdict == REL_DROP) {
				end.dropped++;
				return;
			}
			require(verdict != REL_NEW || number_of(bare) == packet.number,
				"a new packet's number is found by its low bits");
		} else {
			verdict = rel_handle_header(&end.conn, header, now);
		}

		if (!packet.id) {
			require(verdict == REL_NOTHING, "a control packet delivers nothing");
			return;
		}
		require(verdict != REL_NOTHING, "a packet with frames is something");
		require(verdict != REL_DROP, "an honest packet is never outside the window");
		if (verdict != REL_NEW || random.chance(sender.weather.refuse))
			return;

		Message &message = sender.messages.at(packet.id - 1);
		auto &received = message.kind == REL_RELIABLE ? end.received : end.received_unreliable;

		require(received.insert(number_of(*header)).second, "a number is delivered once");
		if (!message.delivered++) {
			message.delivered_ns = now;
			sender.delivered++;
			if (end.replies) {
				end.replies--;
				plan(end, now + end.think_ns, message.kind);
			}
		}
		rel_commit(&end.conn, header, now);
	}

	void check(const End &end) const
	{
		const rel_sender &sender = end.conn.sender;
		u32 bits = hweight64(sender.flight.word[0]) + hweight64(sender.flight.word[1]);

		require(rel_in_flight(&end.conn) <= end.conn.config.window_pkts, "the window is kept");
		require(sender.next - sender.floor <= REL_SPAN_MAX, "the span is kept");
		require(bits == sender.in_flight, "as many are in flight as are remembered");
		require(sender.in_flight ? sender.flight.word[0] & 1 : sender.floor == sender.next,
			"the floor is the oldest in flight");
		require(end.conn.timer_ns[REL_TIMER_TAIL] == REL_TIME_NEVER ||
				end.conn.timer_ns[REL_TIMER_RTO] == REL_TIME_NEVER,
			"tail probe and time-out exclude one another");
		require(!sender.in_flight || end.conn.timer_ns[REL_TIMER_TAIL] != REL_TIME_NEVER ||
				end.conn.timer_ns[REL_TIMER_RTO] != REL_TIME_NEVER,
			"a timer runs while something is in flight");
		require(!rel_seq_after(end.conn.credit.base, end.conn.credit.granted),
			"an honest peer is not ahead of its credit");
		require(sender.in_flight + sender.repeats <= end.conn.config.window_pkts,
			"repeats are bounded by the window");
	}
};
