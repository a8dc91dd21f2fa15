// One engine and a peer that may say anything: packets of raw bytes, as they come through the parser, and
// headers that are in order but for what they say, with numbers near to those that mean something. Besides,
// what an owner does: send, ask, rebuild, keep a packet or not, look late at the clock.

#include <cstring>
#include <memory>

#include "rules.hpp"

namespace
{

constexpr u32 token = 0x70c3f00d;
constexpr u32 secret = 0x5ec4e700;

struct Owner {
	rel_conn conn; // the first member, so that the callbacks find the rest
	rel_sent ring[REL_SPAN_MAX];
	u64 now = 1000 * ms;
	Cookies cookies;

	static Owner &of(rel_conn *conn)
	{
		return *reinterpret_cast<Owner *>(conn);
	}
};

// A packet as the module would post it: whatever the engine fills in, the peer's parser takes it. (Not each
// one is looked at, since checksums take their time.)
void check_sendable(wire_header header, bool frames)
{
	must(le16_to_cpu(header.floor_delta) < REL_SPAN_MAX, "the span is bounded");
	if (le32_to_cpu(header.number) % 8)
		return;

	struct {
		wire_header header;
		wire_frame frame;
	} packet{header, {}};
	u32 length = frames ? sizeof(packet) : sizeof(packet.header);

	packet.header.token = cpu_to_le32(token);
	packet.header.header_len = cpu_to_le16(length);
	packet.header.frames = cpu_to_le16(frames);
	packet.frame.type = WIRE_FRAME_FIN;
	wire_seal(&packet.header, secret);
	must(wire_parse(&packet, length, token, secret) == WIRE_OK, "what is sent can be received");
}

class Fuzz
{
public:
	explicit Fuzz(Input &source) : input(source), config(config_drawn(source))
	{
		static const rel_ops ops = {
			[](rel_conn *conn, void *cookie) { Owner::of(conn).cookies.give_back(cookie); },
			[](rel_conn *conn, void *cookie, rel_cause) {
				Owner::of(conn).cookies.give_back(cookie);
			},
		};
		memset(&owner.conn, 0xa5, sizeof(owner.conn)); // init must not rely on cleared memory
		rel_conn_init(&owner.conn, &config, &ops, owner.now);
		rel_ring_give(&owner.conn, owner.ring);
	}

	void run()
	{
		Rules rules(owner.conn, owner.now);

		while (!input.empty()) {
			step();
			rules.check(owner.now, owner.cookies);
		}
		for (int i = 0; i < 4; i++)
			rel_handle_timeout(&owner.conn, owner.now);
		if (owner.conn.credit.blocked)
			rel_can_send(&owner.conn, config.native ? REL_UNRELIABLE : REL_RELIABLE, owner.now);
		control();
		rules.check(owner.now, owner.cookies);
		rules.check_at_rest(owner.now);
		rel_conn_drain(&owner.conn,
			[](rel_conn *conn, void *cookie) { Owner::of(conn).cookies.give_back(cookie); });
		must(owner.cookies.lent() == 0, "no cookie is lost");
		must(rel_next_timeout(&owner.conn) == REL_TIME_NEVER, "a drained engine waits for nothing");
	}

private:
	void step()
	{
		u8 what = input.byte();

		switch (what & 15) {
		case 0:
		case 1:
		case 2:
		case 3: header(what >> 4); break;
		case 4:
		case 5: send(1 + (what >> 4), false); break;
		case 6: send(1 + (what >> 4) * 8, true); break;
		case 7: send_unreliable(1 + (what >> 4)); break;
		case 8: pass((what >> 4) * us * input.byte()); break;
		case 9: pass((what >> 4) * ms * input.byte()); break;
		case 10: pass_until_due(what >> 4); break;
		case 11: rel_handle_timeout(&owner.conn, owner.now); break;
		case 12: control(); break;
		case 13: raw(); break;
		case 14: what & 16 ? send_bare() : bare(); break;
		default:
			what & 16 ? rel_ask(&owner.conn, owner.now)
				  : rel_conn_requeue(&owner.conn, owner.now);
			break;
		}
	}

	void pass(u64 ns)
	{
		owner.now += ns;
	}

	void pass_until_due(u8 late)
	{
		u64 at = rel_next_timeout(&owner.conn);

		if (at != REL_TIME_NEVER && at + late * us > owner.now)
			owner.now = at + late * us;
		rel_handle_timeout(&owner.conn, owner.now);
	}

	void send(int count, bool more)
	{
		for (; count && rel_can_send(&owner.conn, REL_RELIABLE, owner.now); count--) {
			wire_header header{};
			void *cookie = owner.cookies.next();
			u32 number = owner.conn.sender.next;

			owner.cookies.lend(cookie);
			rel_send(&owner.conn, REL_RELIABLE, cookie, more && count > 1, owner.now, &header);
			must(header.type == WIRE_PACKET_RELIABLE && le32_to_cpu(header.number) == number,
				"numbers are used in their order");
			check_sendable(header, true);
		}
	}

	void send_unreliable(int count)
	{
		if (!config.native)
			return;
		for (; count && rel_can_send(&owner.conn, REL_UNRELIABLE, owner.now); count--) {
			wire_header header{};

			rel_send(&owner.conn, REL_UNRELIABLE, nullptr, count > 1, owner.now, &header);
			must(header.type == WIRE_PACKET_UNRELIABLE, "unreliable packets are");
			check_sendable(header, true);
		}
	}

	void control()
	{
		wire_header header{};

		for (int count = 0; rel_control_due(&owner.conn); count++) {
			must(count < 2, "control packets come to an end");
			must(rel_poll_control(&owner.conn, owner.now, &header), "what is due is there");
			check_sendable(header, false);
		}
		must(!rel_poll_control(&owner.conn, owner.now, &header), "what is not due is not there");
	}

	// A number near to one that means something, or any.
	u32 number()
	{
		const rel_conn &conn = owner.conn;
		u8 which = input.byte();
		u32 off =
			which & 16 ? input.half() - 32768u : static_cast<u32>(static_cast<s8>(input.byte()));

		if (which & 32)
			off += 0x80000000u;
		switch (which & 15) {
		case 0: return conn.sender.next + off;
		case 1: return conn.sender.floor + off;
		case 2: return conn.receiver.cum + off;
		case 3: return conn.receiver.end + off;
		case 4: return conn.credit.limit + off;
		case 5: return conn.credit.granted + off;
		case 6: return conn.credit.base + off;
		case 7: return conn.receiver.unreliable_end + off;
		case 8: return conn.sender.unreliable_next + off;
		case 9: return conn.loss.newest + off;
		case 10: return conn.credit.base + conn.config.credit_pkts + off;
		default: return input.word();
		}
	}

	// Bits of choice: a field is as an honest peer that has nothing to say would have it, or not.
	void header(u8 choice)
	{
		const rel_conn &conn = owner.conn;
		wire_header header{};
		u8 kind = input.byte();

		header.version = WIRE_VERSION;
		header.type = 1 + kind % 4;
		header.ack = cpu_to_le32(choice & 1 ? number() : conn.sender.floor);
		header.credit = cpu_to_le32(choice & 2 ? number() : conn.credit.limit);
		header.flags = cpu_to_le16((kind >> 2 & 1) | (kind >> 6 & 2));
		if (kind & 8)
			header.sack[0] = cpu_to_le64(kind & 16 ? input.twice() : 1ull << input.byte() % 64);
		if (kind & 32)
			header.sack[1] = cpu_to_le64(kind & 16 ? input.twice() : 1ull << input.byte() % 64);
		header.number = cpu_to_le32(choice & 4                  ? number()
				: header.type == WIRE_PACKET_UNRELIABLE ? conn.receiver.unreliable_end
				: header.type == WIRE_PACKET_RELIABLE   ? conn.receiver.end
									: conn.credit.base);
		if (header.type == WIRE_PACKET_RELIABLE && (choice & 8))
			header.floor_delta = cpu_to_le16(kind & 128 ? input.half() : input.byte());
		header.ack_delay = cpu_to_le16(kind & 64 ? input.half() : 0);
		take(header, input.byte());
	}

	bool acknowledges_what_was_sent(const wire_header &header) const
	{
		const u32 ack = le32_to_cpu(header.ack), next = owner.conn.sender.next;
		u32 bit = 128;

		while (bit && !(le64_to_cpu(header.sack[(bit - 1) / 64]) >> (bit - 1) % 64 & 1))
			bit--;
		return rel_seq_diff(ack, next) <= 0 && rel_seq_diff(bit ? ack + bit : ack - 1, next) < 0;
	}

	void take(const wire_header &header, u8 choice)
	{
		rel_conn &conn = owner.conn;
		bool frames = header.type == WIRE_PACKET_RELIABLE || header.type == WIRE_PACKET_UNRELIABLE;
		const u64 silence = acknowledges_what_was_sent(header) ? 0 : rel_silence_ns(&conn, owner.now);
		rel_verdict verdict = rel_handle_header(&conn, &header, owner.now);

		must(frames == (verdict != REL_NOTHING), "there is something to deliver if there are frames");
		must(rel_silence_ns(&conn, owner.now) == silence,
			"whoever was just heard is not silent, unless he said what cannot be");
		if (verdict != REL_NEW || choice == 255)
			return;
		rel_commit(&conn, &header, owner.now);
		if (choice >= 240)
			rel_commit(&conn, &header, owner.now); // a confused owner
		wire_header again = header;

		// What was acknowledged in it is old by now.
		verdict = choice & 128 ? rel_handle_header(&conn, &again, owner.now) : REL_DUPLICATE;
		must(verdict == REL_DUPLICATE, "what was received is known");
	}

	void send_bare()
	{
		bool ask = false;

		if (!rel_can_send(&owner.conn, REL_RELIABLE, owner.now) || !rel_can_send_bare(&owner.conn))
			return;
		void *cookie = owner.cookies.next();
		u32 number = owner.conn.sender.next;

		owner.cookies.lend(cookie);
		must(rel_send_bare(&owner.conn, REL_RELIABLE, cookie, false, owner.now, &ask) == number,
			"numbers are used in their order");
	}

	// A packet without a header, of which the peer says only some bits.
	void bare()
	{
		rel_conn &conn = owner.conn;
		u8 choice = input.byte();
		rel_kind kind = config.native && (choice & 1) ? REL_UNRELIABLE : REL_RELIABLE;
		u32 low = (choice & 2 ? number() : conn.receiver.end) & ((1u << REL_BARE_BITS) - 1);
		u32 since = choice & 4 ? number() : conn.receiver.end - input.byte();
		wire_header header{};
		rel_verdict verdict =
			rel_handle_bare(&conn, kind, low, since, choice & 8, owner.now, &header);

		must(verdict != REL_NOTHING, "there is something to deliver");
		if (verdict != REL_NEW)
			return;
		must((le32_to_cpu(header.number) & ((1u << REL_BARE_BITS) - 1)) == low,
			"the number has these bits");
		rel_commit(&conn, &header, owner.now);
		if (kind == REL_RELIABLE)
			must(rel_handle_bare(&conn, kind, low, since, false, owner.now, &header) != REL_NEW,
				"what was received is known");
	}

	void raw()
	{
		u8 repairs = input.byte();
		size_t length = input.byte();
		const u8 *bytes = input.take(&length);
		std::unique_ptr<u8[]> packet(new u8[length]);
		u32 bytes_left = static_cast<u32>(length);

		if (length)
			memcpy(packet.get(), bytes, length);
		if (length >= sizeof(wire_header)) {
			auto *header = reinterpret_cast<wire_header *>(packet.get());

			if (repairs & 1)
				header->version = WIRE_VERSION;
			if (repairs & 2)
				header->token = cpu_to_le32(token);
			if (repairs & 4)
				header->frames = cpu_to_le16(le16_to_cpu(header->frames) % 5);
			if (repairs & 8)
				header->header_len = cpu_to_le16(
					sizeof(*header) + le16_to_cpu(header->frames) * sizeof(wire_frame));
			if ((repairs & 16) && le16_to_cpu(header->header_len) <= length)
				wire_seal(header, secret);
		}
		if (wire_parse(packet.get(), bytes_left, token, secret) == WIRE_OK)
			take(*reinterpret_cast<wire_header *>(packet.get()), repairs >> 5);
	}

	Input &input;
	rel_config config;
	Owner owner;
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	Input input(data, size);

	Fuzz(input).run();
	return 0;
}
