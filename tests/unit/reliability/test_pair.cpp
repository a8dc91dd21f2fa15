// Two engines over a bad link, drawn from a seed: whatever the link does, nothing is acknowledged that was
// not delivered, no number is delivered twice, all bounds hold, and once the link behaves all is delivered,
// without anything left behind. IBRELK_SEED and IBRELK_SEEDS choose the first seed and how many.

#include <cstdlib>

#include <gtest/gtest.h>

#include "link.hpp"

namespace
{

u64 from_environment(const char *name, u64 otherwise)
{
	const char *value = getenv(name);

	return value ? strtoull(value, nullptr, 0) : otherwise;
}

// Each fault exists in about half of the runs, so that each is also met alone.
u32 maybe(Random &random, u32 most)
{
	return random.chance(500000) ? static_cast<u32>(random.upto(most)) : 0;
}

u32 number_drawn(Random &random)
{
	return random.chance(500000) ? 0u - static_cast<u32>(random.upto(300))
				     : static_cast<u32>(random.next());
}

Weather weather_drawn(Random &random)
{
	Weather weather;

	weather.delay_ns = random.between(1, random.chance(300000) ? 2000 : 50) * us;
	weather.jitter_ns = maybe(random, 3 * weather.delay_ns);
	weather.serial_ns = maybe(random, 5 * us);
	weather.loss = maybe(random, random.chance(200000) ? 500000 : 50000);
	weather.control_loss = maybe(random, 500000);
	weather.duplicate = maybe(random, 100000);
	weather.straggle = maybe(random, 50000);
	weather.replay = maybe(random, 20000);
	weather.refuse = maybe(random, 100000);
	return weather;
}

u16 credits_drawn(Random &random)
{
	return random.chance(300000) ? random.between(1, 8) : random.between(1, 300);
}

// Messages of one end, from all at once to a trickle.
void plan_drawn(Link &link, int index, bool native, u64 end_ns)
{
	Random &random = link.random;
	u32 count = random.between(0, 300);
	u32 bursts = random.chance(300000) ? 1 : random.between(1, 300);

	for (u32 i = 0; i < bursts; i++) {
		u64 at = bursts == 1 ? link.now : random.between(link.now, end_ns);
		rel_kind kind = native && random.chance(700000) ? REL_UNRELIABLE : REL_RELIABLE;

		link.plan(index, at, (count + bursts - 1) / bursts, kind);
	}
}

void run(u64 seed)
{
	Random random(seed);
	Random shares(~seed);
	Random bares(seed ^ 0xba5e);
	rel_config config[2]{};
	bool native = random.chance(300000);

	for (rel_config &c : config) {
		c.native = native;
		c.window_pkts = random.chance(500000) ? 64 : random.between(1, 64);
		c.credit_pkts = credits_drawn(random);
		c.number_start = number_drawn(random);
		if (random.chance(500000)) {
			c.congestion = &rel_congestion_delay;
			c.target_us = random.between(1, random.chance(500000) ? 100 : 100000);
		}
		c.ack_every_pkts = random.between(1, 64);
		c.ack_delay_us = random.between(1, 2000);
		c.rto_initial_us = random.between(100, 50000);
		c.rto_min_us = random.between(10, 5000);
		c.rto_max_us = random.between(50000, 200000);
	}
	for (int i = 0; i < 2; i++) {
		config[i].peer_credit_pkts = config[1 - i].credit_pkts;
		config[i].peer_number_start = config[1 - i].number_start;
	}

	Link link(config[0], config[1], random.next());
	u64 better_ns = link.now + random.upto(200) * ms;

	for (int i = 0; i < 2; i++) {
		link.ends[i].weather = weather_drawn(random);
		link.ends[i].timer_late_ns = maybe(random, 500 * us);
		link.ends[i].batch = random.between(1, 20);
		if (random.chance(i ? 500000 : 1000000))
			plan_drawn(link, i, native, better_ns);
	}
	for (u64 n = maybe(random, 3); n; n--) {
		u64 from = random.between(link.now, better_ns);

		link.outages.emplace_back(from, std::min(better_ns, from + random.upto(100) * ms));
	}
	u64 rebuilt_ns = random.chance(200000) ? random.between(link.now, better_ns) : REL_TIME_NEVER;

	if (rebuilt_ns != REL_TIME_NEVER && !link.run(rebuilt_ns))
		link.rebuild();
	link.forgets = shares.chance(300000);
	for (End &end : link.ends)
		end.weather.bare = bares.chance(400000) ? static_cast<u32>(bares.upto(1000000)) : 0;
	// The receivers have now more buffers for this sender, now fewer.
	for (u64 n = shares.chance(300000) ? shares.between(1, 10) : 0; n && link.now < better_ns; n--) {
		rel_credit_share(&link.ends[shares.upto(1)].conn, credits_drawn(shares));
		link.run(shares.between(link.now, better_ns));
	}
	link.run(better_ns);

	// From now on the link behaves: a time-out at most, then steady progress however small the window.
	u64 round_ns = 10 * us;
	u64 count = 10;

	for (End &end : link.ends) {
		u64 delay_ns = end.weather.delay_ns;

		end.weather = {};
		end.weather.delay_ns = delay_ns;
		round_ns += delay_ns + end.timer_late_ns + 3 * ms;
		count += end.messages.size();
		// A window of 1/64 packet: as many round trips for each.
		if (end.conn.config.congestion == &rel_congestion_delay)
			round_ns += 64 * 4 * end.conn.rtt.srtt_ns;
	}
	bool done = link.run(std::max(link.now, better_ns) + 3 * (200 * ms) + count * round_ns);

	require(done, "all is delivered once the link behaves");
	for (End &end : link.ends) {
		for (const Message &message : end.messages) {
			require(message.kind == REL_UNRELIABLE || message.delivered, "reliable is reliable");
			require(message.sent > 0, "all was sent");
			require(message.kind == REL_RELIABLE || message.sent == 1,
				"native data is sent once");
		}
	}
	link.settle(link.now + 10000 * ms);
}

} // namespace

TEST(test_pair, any_weather)
{
	u64 first = from_environment("IBRELK_SEED", 1);
	u64 count = from_environment("IBRELK_SEEDS", 3000);

	for (u64 seed = first; seed < first + count; seed++) {
		try {
			run(seed);
		} catch (const std::exception &broken) {
			FAIL() << "IBRELK_SEED=" << seed << " IBRELK_SEEDS=1: " << broken.what();
		}
	}
}
