// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// The names of the module's counters, in the one place that both tools take them from.
#pragma once

#include <cstdint>

#include <ibrelk/uapi.h>

namespace tool
{

/// Calls f(name, value) for each counter.
template<class F>
void for_each_counter(const ibrelk_counters &c, F &&f)
{
	struct Entry {
		const char *name;
		__u64 ibrelk_counters::*member;
	};
#define IBRELK_COUNTER(name) \
	{ \
#name, &ibrelk_counters::name \
	}
	static constexpr Entry entries[] = {
		IBRELK_COUNTER(tx_messages),
		IBRELK_COUNTER(tx_bytes),
		IBRELK_COUNTER(rx_messages),
		IBRELK_COUNTER(rx_bytes),
		IBRELK_COUNTER(tx_segments),
		IBRELK_COUNTER(rx_segments),
		IBRELK_COUNTER(tx_eager),
		IBRELK_COUNTER(tx_rendezvous),
		IBRELK_COUNTER(tx_credit_waits),
		IBRELK_COUNTER(tx_acks_explicit),
		IBRELK_COUNTER(tx_acks_piggybacked),
		IBRELK_COUNTER(tx_acks_credit),
		IBRELK_COUNTER(rx_acks_explicit),
		IBRELK_COUNTER(retransmits_rack),
		IBRELK_COUNTER(retransmits_probe),
		IBRELK_COUNTER(retransmits_timeout),
		IBRELK_COUNTER(window_cuts),
		IBRELK_COUNTER(tx_written),
		IBRELK_COUNTER(rx_written),
		IBRELK_COUNTER(windows_copied),
		IBRELK_COUNTER(tx_remote),
		IBRELK_COUNTER(rx_remote),
		IBRELK_COUNTER(lanes),
		IBRELK_COUNTER(rx_duplicates),
		IBRELK_COUNTER(lost_messages),
		IBRELK_COUNTER(unexpected_messages),
		IBRELK_COUNTER(bounced_bytes),
		IBRELK_COUNTER(drop_length),
		IBRELK_COUNTER(drop_version),
		IBRELK_COUNTER(drop_checksum),
		IBRELK_COUNTER(drop_token),
		IBRELK_COUNTER(drop_window),
		IBRELK_COUNTER(drop_flow),
		IBRELK_COUNTER(drop_memory),
		IBRELK_COUNTER(drop_malformed),
		IBRELK_COUNTER(send_errors),
		IBRELK_COUNTER(reconnects),
		IBRELK_COUNTER(drop_limit),
		IBRELK_COUNTER(lives),
	};
#undef IBRELK_COUNTER
	static_assert(sizeof(entries) / sizeof(entries[0]) == sizeof(ibrelk_counters) / sizeof(__u64),
		"a counter is missing here");

	for (const Entry &entry : entries)
		f(entry.name, static_cast<std::uint64_t>(c.*entry.member));
}

} // namespace tool
