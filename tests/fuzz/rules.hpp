// What must hold of an engine at any time, whatever its peer says: tested after every step.

#pragma once

#include <set>

#include "input.hpp"

extern "C" {
#include "engine.h"
}

constexpr u64 us = 1000;
constexpr u64 ms = 1000 * us;

// What an owner may configure (rel.h), in both kinds of modes, with numbers that start anywhere.
inline rel_config config_drawn(Input &input)
{
	rel_config config{};
	u8 kind = input.byte();

	config.native = kind & 1;
	config.window_pkts = input.between(1, REL_SPAN_MAX / 2);
	config.credit_pkts = kind & 2 ? input.between(1, 32767) : input.between(1, 200);
	config.peer_credit_pkts = kind & 2 ? input.between(0, 32767) : input.between(0, 200);
	// Most start just below the wrap.
	config.number_start = kind & 4 ? input.word() : -static_cast<u32>(input.byte());
	config.peer_number_start = kind & 4 ? input.word() : -static_cast<u32>(input.byte());
	config.ack_every_pkts = input.between(1, 64);
	config.ack_delay_us = input.between(0, 255) * 10;
	config.rto_initial_us = 100 + input.between(0, 255) * 100;
	config.rto_min_us = 100 + input.between(0, 255) * 40;
	config.rto_max_us = config.rto_min_us + 1000 + input.between(0, 255) * 4000;
	config.seed = kind & 8 ? 0 : 1;
	config.congestion = kind & 16 ? &rel_congestion_delay : &rel_congestion_fixed;
	config.target_us = kind & 32 ? 20 : 1000;
	return config;
}

// The cookies of one engine: each is given back once, and only while the engine has it.
class Cookies
{
public:
	void *next()
	{
		return at(++made_);
	}
	[[nodiscard]] u64 made() const
	{
		return made_;
	}
	// The engine is about to get it.
	void lend(void *cookie)
	{
		must(lent_.insert(cookie).second, "a cookie is in the engine once");
	}
	void give_back(void *cookie)
	{
		must(lent_.erase(cookie) == 1, "a cookie is given back once");
	}
	[[nodiscard]] size_t lent() const
	{
		return lent_.size();
	}
	static void *at(uintptr_t id)
	{
		return reinterpret_cast<void *>(id);
	}

private:
	uintptr_t made_ = 0;
	std::set<void *> lent_;
};

class Rules
{
public:
	Rules(const rel_conn &conn, u64 start) : conn_(conn), start_(start)
	{
		remember();
	}

	// The owner has done what is to be done after an event: sent what it may, seen to timers and control
	// packets.
	void check_at_rest(u64 now) const
	{
		must(!rel_control_due(&conn_), "control packets come to an end");
		must(rel_next_timeout(&conn_) > now, "what was due has been done");
		must(!conn_.credit.blocked || rel_in_flight(&conn_) ||
				conn_.timer_ns[REL_TIMER_PROBE] != REL_TIME_NEVER,
			"who is blocked asks");
	}

	void check(u64 now, const Cookies &cookies)
	{
		const rel_sender &sender = conn_.sender;
		const rel_receiver &receiver = conn_.receiver;
		const rel_config &config = conn_.config;
		u32 bits = hweight64(sender.flight.word[0]) + hweight64(sender.flight.word[1]);
		u64 next = rel_next_timeout(&conn_);
		u64 silence = rel_silence_ns(&conn_, now);

		must(rel_in_flight(&conn_) <= config.window_pkts, "the window is kept");
		must(bits == rel_in_flight(&conn_), "as many are in flight as are remembered");
		must(cookies.lent() == bits, "the engine has the cookies of what is in flight");
		must(sender.next - sender.floor <= REL_SPAN_MAX, "the span is kept");
		must(bits ? sender.flight.word[0] & 1 : sender.floor == sender.next,
			"the floor is the oldest in flight");
		must(!bits || rel_bits_last(sender.flight) < sender.next - sender.floor,
			"nothing is in flight that was not sent");
		must(sender.in_flight + sender.repeats <= config.window_pkts,
			"repeats are bounded by the window");
		// One that has just become smaller may be full of what was not asked about: the ACK comes a
		// little later.
		must(config.congestion == &rel_congestion_delay ||
				sender.since_ask <= conn_.congestion.window_half,
			"half a window has been asked about");
		check_timers(now, next);
		must(silence <= now - start_, "silence is not older than the connection");
		must(rel_debt_ns(&conn_, now) >= silence, "a debt is not younger than the silence");
		must(rel_debt_ns(&conn_, now) <= now - start_, "nor older than the connection");
		must(silence == 0 || bits || conn_.credit.blocked || conn_.credit.asked,
			"silence is only where something is waited for");

		must(!rel_seq_before(receiver.end, receiver.cum),
			"what was received ends after what is complete");
		must(receiver.end == receiver.cum ? !rel_bits_any(receiver.seen)
						  : rel_bits_any(receiver.seen) &&
					receiver.cum + 2 + rel_bits_last(receiver.seen) == receiver.end,
			"the largest number received is the last that was seen");
		check_growth();
		check_sums(cookies);
		remember();
	}

private:
	void check_timers(u64 now, u64 next) const
	{
		bool tail = conn_.timer_ns[REL_TIMER_TAIL] != REL_TIME_NEVER;
		bool rto = conn_.timer_ns[REL_TIMER_RTO] != REL_TIME_NEVER;
		const rel_config &config = conn_.config;

		must(!(tail && rto), "tail probe and time-out exclude one another");
		must((tail || rto) == (rel_in_flight(&conn_) > 0),
			"a timer runs while something is in flight");
		must(!conn_.loss.silent || rel_in_flight(&conn_), "only what is in flight can be silent");
		// Nothing is put off longer than the largest time-out, or the longest round trip that could
		// be.
		must(next == REL_TIME_NEVER ||
				next <= now + 2 * (now - start_) + config.rto_max_us * us +
						config.ack_delay_us * us + conn_.rtt.srtt_ns,
			"the next time-out is near");
		must(!conn_.credit.asked || conn_.credit.probe_due ||
				conn_.timer_ns[REL_TIMER_PROBE] != REL_TIME_NEVER,
			"who asked asks again");
		must(conn_.rtt.probe_ns <= conn_.rtt.rto_ns && conn_.rtt.rto_ns <= conn_.rtt.rto_max_ns,
			"time-outs are in order");
	}

	void check_growth() const
	{
		const rel_credit &credit = conn_.credit;

		must(!rel_seq_before(credit.limit, limit_), "credit that was given never falls");
		must(!rel_seq_before(credit.granted, granted_), "credit that is given never falls");
		must(!rel_seq_before(credit.base, base_), "what credit is counted from never falls");
		must(!rel_seq_before(conn_.sender.next, next_), "numbers rise");
		must(!rel_seq_before(conn_.sender.floor, floor_), "the floor rises");
		const u32 received =
			rel_received(&conn_, conn_.config.native ? REL_UNRELIABLE : REL_RELIABLE);

		must(!rel_seq_after(received, credit.granted), "nothing arrives without credit");
		// A PROBE may be ahead of that, if somebody has forged a credit.
		must(!rel_seq_after(credit.base, credit.granted) ||
				!rel_seq_after(credit.base, received + REL_AHEAD_MAX),
			"what is believed without credit has a bound");
		must(rel_seq_diff(credit.limit, rel_credit_next(&conn_)) <= 32767, "credit is possible");
		if (!conn_.config.native) {
			// In a native mode, no credit bounds how far a peer's numbers may be off.
			must(!rel_seq_before(conn_.receiver.cum, cum_), "what is acknowledged stays so");
			must(!rel_seq_before(conn_.receiver.end, end_), "what was received stays so");
			must(!rel_seq_after(conn_.receiver.end, credit.base), "what was received is counted");
			must(!rel_seq_after(conn_.sender.next, credit.limit), "credit is kept");
		} else {
			must(!rel_seq_after(conn_.sender.unreliable_next, credit.limit), "credit is kept");
			must(!rel_seq_before(conn_.receiver.unreliable_end, unreliable_end_),
				"what was received stays so");
		}
		must(conn_.receiver.end - conn_.receiver.cum <= REL_SPAN_MAX + 1, "gaps are bounded");
	}

	void check_sums(const Cookies &cookies) const
	{
		u64 lost = 0;

		for (u64 count : conn_.stats.lost)
			lost += count;
		must(lost + conn_.sender.in_flight <= cookies.made(), "no more is lost than was sent");
		must(conn_.stats.spurious <= lost, "no more is spurious than was lost");
	}

	void remember()
	{
		limit_ = conn_.credit.limit;
		granted_ = conn_.credit.granted;
		base_ = conn_.credit.base;
		next_ = conn_.sender.next;
		floor_ = conn_.sender.floor;
		cum_ = conn_.receiver.cum;
		end_ = conn_.receiver.end;
		unreliable_end_ = conn_.receiver.unreliable_end;
	}

	const rel_conn &conn_;
	u64 start_;
	u32 limit_, granted_, base_, next_, floor_, cum_, end_, unreliable_end_;
};
