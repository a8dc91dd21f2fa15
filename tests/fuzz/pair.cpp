// Two engines and a network that the fuzzer rules over: it delivers in any order, loses, repeats what is as
// old as the connection, lets time pass, and lets owners be slow or short of memory. In the end it is a
// perfect one, and all that was submitted has to arrive and to be acknowledged, and both sides to fall
// silent.

#include <cstring>
#include <deque>
#include <set>
#include <vector>

#include "rules.hpp"

namespace
{

struct Message {
	rel_kind kind;
	bool delivered = false;
	bool acked = false;
	bool in_engine = false;
};

struct Packet {
	int to;
	wire_header header;
	size_t id; // of its message, from 1 on; 0: a control packet
};

struct End {
	rel_conn conn; // the first member, so that the callbacks find the rest
	rel_sent ring[REL_SPAN_MAX];
	Cookies cookies;
	std::vector<Message> messages; // by id - 1
	std::deque<size_t> repeat, fresh, unreliable;
	std::set<u32> received, received_unreliable; // numbers
	size_t unacked = 0;
	bool short_of_memory = false;

	static End &of(rel_conn *conn)
	{
		return *reinterpret_cast<End *>(conn);
	}

	Message &give_back(void *cookie)
	{
		Message &message = messages.at(reinterpret_cast<uintptr_t>(cookie) - 1);

		cookies.give_back(cookie);
		must(message.in_engine, "the engine gives back what it has");
		message.in_engine = false;
		return message;
	}

	void acked(void *cookie)
	{
		Message &message = give_back(cookie);

		must(message.delivered, "nothing is acknowledged that was not delivered");
		must(!message.acked, "a message is acknowledged once");
		message.acked = true;
		unacked--;
	}

	void lost(void *cookie)
	{
		give_back(cookie);
		repeat.push_back(reinterpret_cast<uintptr_t>(cookie));
	}
};

class Fuzz
{
public:
	explicit Fuzz(Input &source) : input(source)
	{
		static const rel_ops ops = {
			[](rel_conn *conn, void *cookie) { End::of(conn).acked(cookie); },
			[](rel_conn *conn, void *cookie, rel_cause) { End::of(conn).lost(cookie); },
		};
		rel_config config[2];

		config[0] = config_drawn(input);
		config[0].peer_credit_pkts += !config[0].peer_credit_pkts;
		config[1] = config[0];
		config[1].window_pkts = input.between(1, REL_SPAN_MAX / 2);
		std::swap(config[1].credit_pkts, config[1].peer_credit_pkts);
		std::swap(config[1].number_start, config[1].peer_number_start);
		for (int i = 0; i < 2; i++) {
			memset(&ends[i].conn, 0xa5, sizeof(ends[i].conn));
			rel_conn_init(&ends[i].conn, &config[i], &ops, now);
			rel_ring_give(&ends[i].conn, ends[i].ring);
			rules.emplace_back(ends[i].conn, now);
		}
	}

	void run()
	{
		while (!input.empty()) {
			step();
			check();
		}
		finish();
	}

private:
	void step()
	{
		u8 what = input.byte();
		int side = what >> 4 & 1;
		End &end = ends[side];
		u8 much = what >> 5;

		switch (what & 15) {
		case 0:
		case 1: deliver(input.byte(), much & 1); break;
		case 2:
			for (int i = 0; i <= much * 4; i++)
				deliver(0, i < much * 4);
			break;
		case 3: lose(input.byte()); break;
		case 4:
			for (int i = 0; i <= much * 4; i++)
				lose(0);
			break;
		case 5: replay(input.half()); break;
		case 6:
		case 7:
			submit(end, REL_RELIABLE, what & 1 ? 1 + much : 8 * (1 + much));
			drive(side);
			break;
		case 8:
			submit(end, end.conn.config.native ? REL_UNRELIABLE : REL_RELIABLE, 1 + much * 4);
			drive(side);
			break;
		case 9: now += (1 + much) * us * input.byte(); break;
		case 10: now += (1 + much) * ms * input.byte(); break;
		case 11: timeout(side, much); break;
		case 12: drive(side); break;
		case 13: rebuild(); break;
		case 14: end.short_of_memory = !end.short_of_memory; break;
		default:
			rel_ask(&end.conn, now);
			drive(side);
			break;
		}
	}

	void check()
	{
		for (int i = 0; i < 2; i++)
			rules[i].check(now, ends[i].cookies);
	}

	void submit(End &end, rel_kind kind, int count)
	{
		for (; count && end.messages.size() < 600; count--) {
			end.messages.push_back({.kind = kind});
			(kind == REL_RELIABLE ? end.fresh : end.unreliable).push_back(end.messages.size());
			end.unacked += kind == REL_RELIABLE;
		}
	}

	// What an owner does after each event.
	void drive(int side)
	{
		End &end = ends[side];

		for (auto *queue : {&end.repeat, &end.fresh, &end.unreliable}) {
			rel_kind kind = queue == &end.unreliable ? REL_UNRELIABLE : REL_RELIABLE;

			while (!queue->empty() && rel_can_send(&end.conn, kind, now)) {
				size_t id = queue->front();

				queue->pop_front();
				send(side, kind, id, !queue->empty());
			}
		}
		Packet packet{1 - side, {}, 0};

		for (int count = 0; rel_poll_control(&end.conn, now, &packet.header); count++) {
			must(count < 2, "control packets come to an end");
			under_way.push_back(packet);
		}
	}

	void send(int side, rel_kind kind, size_t id, bool more)
	{
		End &end = ends[side];
		Message &message = end.messages[id - 1];
		Packet packet{1 - side, {}, id};
		bool governed = (kind == REL_UNRELIABLE) == end.conn.config.native;

		if (kind == REL_RELIABLE) {
			end.cookies.next();
			end.cookies.lend(Cookies::at(id));
			message.in_engine = true;
		}
		rel_send(&end.conn, kind, Cookies::at(id), more, now, &packet.header);
		must(!governed ||
				rel_seq_before(le32_to_cpu(packet.header.number),
					ends[1 - side].conn.credit.granted),
			"nothing is sent without credit");
		under_way.push_back(packet);
		if (sent.size() < 1000)
			sent.push_back(packet);
	}

	void deliver(size_t which, bool more)
	{
		if (under_way.empty())
			return;
		auto chosen = under_way.begin() + static_cast<ptrdiff_t>(which % under_way.size());
		Packet packet = *chosen;

		under_way.erase(chosen);
		arrive(packet, more);
	}

	void lose(size_t which)
	{
		if (!under_way.empty())
			under_way.erase(under_way.begin() + static_cast<ptrdiff_t>(which % under_way.size()));
	}

	void replay(size_t which)
	{
		if (!sent.empty())
			arrive(sent[which % sent.size()], false);
	}

	void arrive(const Packet &packet, bool more)
	{
		End &end = ends[packet.to];
		End &peer = ends[1 - packet.to];
		rel_verdict verdict = rel_handle_header(&end.conn, &packet.header, now);

		must((verdict == REL_NOTHING) == !packet.id,
			"there is something to deliver if there are frames");
		must(verdict != REL_DROP, "an honest packet is never outside the window");
		must(!end.conn.stats.nonsense && !end.conn.stats.outside_window,
			"an honest peer makes sense");
		must(!rel_seq_after(end.conn.credit.base, end.conn.credit.granted),
			"an honest peer is not ahead of its credit");
		if (verdict == REL_NEW && !end.short_of_memory) {
			Message &message = peer.messages.at(packet.id - 1);
			auto &received =
				message.kind == REL_RELIABLE ? end.received : end.received_unreliable;

			must(received.insert(le32_to_cpu(packet.header.number)).second,
				"a number is delivered once");
			message.delivered = true;
			rel_commit(&end.conn, &packet.header, now);
		}
		if (!more)
			drive(packet.to);
	}

	void timeout(int side, u8 late)
	{
		u64 at = rel_next_timeout(&ends[side].conn);

		if (at != REL_TIME_NEVER && at + late * us > now)
			now = at + late * us;
		rel_handle_timeout(&ends[side].conn, now);
		drive(side);
	}

	void rebuild()
	{
		under_way.clear();
		for (int i = 0; i < 2; i++) {
			rel_conn_requeue(&ends[i].conn, now);
			must(!rel_in_flight(&ends[i].conn), "a rebuilt queue pair has nothing in flight");
			drive(i);
		}
	}

	[[nodiscard]] bool quiet() const
	{
		for (const End &end : ends) {
			if (rel_next_timeout(&end.conn) != REL_TIME_NEVER)
				return false;
		}
		return under_way.empty();
	}

	// A perfect network, on which all comes to its end.
	void finish()
	{
		int steps = 0;

		for (End &end : ends)
			end.short_of_memory = false;
		for (int i = 0; i < 2; i++)
			drive(i);
		while (!quiet()) {
			must(++steps < 100000, "a connection at rest falls silent");
			if (!under_way.empty()) {
				now += us;
				deliver(0, false);
			}
			for (int i = 0; i < 2; i++) {
				u64 at = rel_next_timeout(&ends[i].conn);

				if (under_way.empty() && rel_next_timeout(&ends[1 - i].conn) >= at &&
					at > now && at != REL_TIME_NEVER)
					now = at;
				if (at <= now) {
					rel_handle_timeout(&ends[i].conn, now);
					drive(i);
				}
			}
			check();
		}
		for (int i = 0; i < 2; i++) {
			End &end = ends[i];

			rules[i].check_at_rest(now);
			must(end.repeat.empty() && end.fresh.empty() && end.unreliable.empty(),
				"everything is sent in the end");
			must(!end.unacked, "everything is acknowledged in the end");
			must(rel_in_flight(&end.conn) == 0, "nothing is in flight in the end");
			must(rel_silence_ns(&end.conn, now) == 0, "nothing is waited for in the end");
			rel_conn_drain(&end.conn,
				[](rel_conn *, void *) { must(false, "no cookie is left in the end"); });
		}
	}

	Input &input;
	u64 now = 1000 * ms;
	End ends[2];
	std::vector<Rules> rules;
	std::deque<Packet> under_way;
	std::vector<Packet> sent; // of which each may come again
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	Input input(data, size);

	Fuzz(input).run();
	return 0;
}
