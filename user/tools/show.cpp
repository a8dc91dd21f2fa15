// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// See show.hpp.
#include "show.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <vector>

#include <fmt/format.h>

#include "counters.hpp"

namespace tool
{

namespace
{

using Instance = std::array<std::uint8_t, 16>;
using Cells = std::vector<std::string>;

const char *state_name(std::uint32_t state)
{
	static constexpr const char *names[] = {"down", "connecting", "up", "broken", "dead"};

	return state < std::size(names) ? names[state] : "unknown";
}

// The kernel terminates its texts, but nobody has to believe that.
template<std::size_t size>
std::string text_of(const char (&text)[size])
{
	return {text, ::strnlen(text, size)};
}

// "10.1.0.2" or "fe80::1", without endpoint.
std::string gid_text(const std::uint8_t (&gid)[16])
{
	ibrelk_addr address{};

	std::memcpy(address.gid, gid, sizeof(address.gid));

	std::string text = ibrelk::Address(address).text();

	text.erase(text.rfind(':'));
	return text.starts_with('[') ? text.substr(1, text.size() - 2) : text;
}

Instance instance_of(const std::uint8_t (&bytes)[16])
{
	Instance instance;

	std::copy(std::begin(bytes), std::end(bytes), instance.begin());
	return instance;
}

std::string instance_text(const Instance &instance)
{
	std::string text;

	if (instance == Instance{})
		return "unknown";
	for (std::uint8_t byte : instance)
		text += fmt::format("{:02x}", byte);
	return text;
}

std::string bytes_text(std::uint64_t bytes)
{
	static constexpr const char *units[] = {"", "k", "M", "G", "T"};
	std::size_t unit = 0;
	auto value = static_cast<double>(bytes);

	for (; value >= 10240 && unit + 1 < std::size(units); unit++)
		value /= 1024;
	return fmt::format("{:.0f}{}", value, units[unit]);
}

std::string modes_text(std::uint32_t modes)
{
	std::string text;

	for (std::uint32_t mode = 0; mode < IBRELK_MODE_COUNT; mode++) {
		if (modes & 1u << mode)
			text += fmt::format("{}{}", text.empty() ? "" : ",", ibrelk_mode_name(mode));
	}
	return text.empty() ? "none" : text;
}

std::string error_text(std::int32_t error)
{
	return error ? ibrelk_error_text(IBRELK_CALL_COMPLETION, error) : "";
}

std::string counters_line(const ibrelk_counters &counters)
{
	std::string text;

	for_each_counter(counters, [&](const char *name, std::uint64_t value) {
		if (value)
			text += fmt::format(" {}={}", name, value);
	});
	return text.empty() ? text : fmt::format("   {}\n", text);
}

// Columns as wide as their widest cell. Numbers to the right, everything else to the left.
class Table
{
public:
	explicit Table(Cells heading)
	{
		rows_.emplace_back(std::move(heading), std::string());
	}
	/// @p below: a text that follows the line.
	void add(Cells cells, std::string below = {})
	{
		rows_.emplace_back(std::move(cells), std::move(below));
	}
	[[nodiscard]] std::string text() const
	{
		std::string text;

		for (const auto &[cells, below] : rows_) {
			std::string line;

			for (std::size_t i = 0; i < cells.size(); i++)
				line += is_number(i) ? fmt::format("{:>{}}  ", cells[i], width(i))
						     : fmt::format("{:<{}}  ", cells[i], width(i));
			line.erase(line.find_last_not_of(' ') + 1);
			text += line;
			text += '\n';
			text += below;
		}
		return text;
	}

private:
	[[nodiscard]] std::size_t width(std::size_t column) const
	{
		std::size_t width = 0;

		for (const auto &row : rows_)
			width = std::max(width, row.first[column].size());
		return width;
	}
	[[nodiscard]] bool is_number(std::size_t column) const
	{
		return std::all_of(rows_.begin() + 1, rows_.end(), [&](const auto &row) {
			return !row.first[column].empty() && std::isdigit(row.first[column][0]) &&
				row.first[column].find_first_of(".:") == std::string::npos;
		});
	}

	std::vector<std::pair<Cells, std::string>> rows_;
};

std::string number(std::uint64_t value)
{
	return fmt::format("{}", value);
}

std::uint64_t retransmits(const ibrelk_counters &c)
{
	return c.retransmits_rack + c.retransmits_probe + c.retransmits_timeout;
}

std::uint64_t drops(const ibrelk_counters &c)
{
	return c.drop_length + c.drop_version + c.drop_checksum + c.drop_token + c.drop_window + c.drop_flow +
		c.drop_memory + c.drop_malformed + c.drop_limit;
}

// Packets that reached a port and belong to none of its paths.
struct PortDrop {
	const char *name;
	__u64 ibrelk_port_info::*member;
};
constexpr PortDrop port_drops[] = {
	{"drop_length", &ibrelk_port_info::drop_length},
	{"drop_version", &ibrelk_port_info::drop_version},
	{"drop_token", &ibrelk_port_info::drop_token},
	{"drop_checksum", &ibrelk_port_info::drop_checksum},
	{"drop_malformed", &ibrelk_port_info::drop_malformed},
};

std::uint64_t drops(const ibrelk_port_info &port)
{
	std::uint64_t sum = 0;

	for (const PortDrop &drop : port_drops)
		sum += port.*drop.member;
	return sum;
}

std::string drops_line(const ibrelk_port_info &port)
{
	std::string text;

	for (const PortDrop &drop : port_drops) {
		if (port.*drop.member)
			text += fmt::format(" {}={}", drop.name, port.*drop.member);
	}
	return text.empty() ? text : fmt::format("   {}\n", text);
}

// What carries the packets of an automatic path differs with time.
std::string mode_text(const ibrelk_path_info &path)
{
	return std::string(ibrelk_mode_name(path.mode)) + (path.lane ? "+uc" : "");
}

// Paths by the node they lead to; of nodes that are not known yet, by address.
std::map<std::string, std::vector<const ibrelk_path_info *>> by_peer(Paths paths)
{
	std::map<std::string, std::vector<const ibrelk_path_info *>> peers;

	for (const ibrelk_path_info &path : paths) {
		const Instance instance = instance_of(path.instance);
		const bool known = instance != Instance{};

		peers[known ? instance_text(instance) : "unknown " + gid_text(path.remote_gid)].push_back(
			&path);
	}
	return peers;
}

void counters_json(Json &json, const ibrelk_counters &counters)
{
	json.begin_object("counters");
	for_each_counter(counters, [&](const char *name, std::uint64_t value) { json.member(name, value); });
	json.end_object();
}

void modes_json(Json &json, std::uint32_t modes)
{
	json.begin_array("modes");
	for (std::uint32_t mode = 0; mode < IBRELK_MODE_COUNT; mode++) {
		if (modes & 1u << mode)
			json.value(ibrelk_mode_name(mode));
	}
	json.end_array();
}

} // namespace

std::string endpoints_table(Endpoints endpoints, bool counters)
{
	Table table({"ENDPOINT", "MODE", "PID", "UID", "PEERS", "SENDS", "RECVS", "UNEXP", "UNEXP-MAX",
		"TX-MSGS", "TX-BYTES", "RX-MSGS", "RX-BYTES"});

	for (const ibrelk_endpoint_info &e : endpoints) {
		table.add({ibrelk::Address(e.local).text(), ibrelk_mode_name(e.mode),
				  e.pid ? fmt::format("{}", e.pid) : "gone", number(e.uid), number(e.flows),
				  number(e.sends), number(e.recvs), number(e.unexpected),
				  bytes_text(e.unexpected_bytes_max), number(e.counters.tx_messages),
				  bytes_text(e.counters.tx_bytes), number(e.counters.rx_messages),
				  bytes_text(e.counters.rx_bytes)},
			counters ? counters_line(e.counters) : "");
	}
	return endpoints.empty() ? "no endpoints\n" : table.text();
}

std::string paths_table(Paths paths, bool counters)
{
	Table table({"LOCAL", "REMOTE", "MODE", "STATE", "DEVICE", "MTU", "RTT-US", "RTO-US", "WINDOW",
		"FLIGHT", "QUEUE", "MEMORY", "MEM-MAX", "SEGMENTS", "RESENT", "DUPS", "DROPS", "ACKS",
		"PIGGYB", "ERROR"});

	for (const ibrelk_path_info &p : paths) {
		const ibrelk_counters &c = p.counters;

		table.add({gid_text(p.local_gid), gid_text(p.remote_gid), mode_text(p), state_name(p.state),
				  fmt::format("{}/{}", text_of(p.device), p.port), number(p.mtu),
				  number(p.srtt_us), number(p.rto_us), number(p.window), number(p.in_flight),
				  number(p.queue), bytes_text(p.memory_bytes), bytes_text(p.memory_bytes_max),
				  number(c.tx_segments), number(retransmits(c)), number(c.rx_duplicates),
				  number(drops(c)), number(c.tx_acks_explicit + c.tx_acks_credit),
				  number(c.tx_acks_piggybacked), error_text(p.error)},
			counters ? counters_line(c) : "");
	}
	return paths.empty() ? "no paths\n" : table.text();
}

std::string ports_table(Ports ports, bool counters)
{
	Table table({"PORT", "USABLE", "ADDRESS", "MTU", "DROPS", "MODES", "REASON"});

	for (const ibrelk_port_info &p : ports) {
		table.add({fmt::format("{}/{}", text_of(p.device), p.port), p.usable ? "yes" : "no",
				  gid_text(p.gid), number(p.mtu), number(drops(p)), modes_text(p.modes),
				  text_of(p.reason)},
			counters ? drops_line(p) : "");
	}
	return ports.empty() ? "no RDMA ports (soft-RoCE: sudo rdma link add rxe0 type rxe netdev eth0)\n"
			     : table.text();
}

std::string peers_table(Paths paths)
{
	Table table(
		{"PEER", "ADDRESS", "MODE", "STATE", "RTT-US", "TX-MSGS", "RX-MSGS", "RESENT", "RECONNECTS"});

	for (const auto &[name, list] : by_peer(paths)) {
		for (const ibrelk_path_info *p : list) {
			// Long numbers say little; the whole is in the JSON.
			table.add({name.starts_with("unknown") ? "unknown" : name.substr(0, 12),
				gid_text(p->remote_gid), mode_text(*p), state_name(p->state),
				number(p->srtt_us), number(p->counters.tx_messages),
				number(p->counters.rx_messages), number(retransmits(p->counters)),
				number(p->counters.reconnects)});
		}
	}
	return paths.empty() ? "no peers\n" : table.text();
}

std::string query_text(const ibrelk::Query &q)
{
	std::string text;
	auto line = [&](const char *name, const std::string &value) {
		text += fmt::format("{:<20}{}\n", name, value);
	};

	line("abi version", number(q.abi_version));
	line("protocol version", number(q.protocol_version));
	line("instance", instance_text(instance_of(q.instance)));
	line("modes", modes_text(q.modes));
	line("usable ports", number(q.ports));
	line("eager up to", number(q.eager_max) + " bytes");
	line("longest message", number(q.message_max) + " bytes");
	line("posted receives", number(q.recvs_max));
	line("outstanding sends", number(q.sends_max));
	line("ring entries", number(q.ring_entries_max));
	line("batch", number(q.batch_max) + " commands");
	line("multi-receive", number(q.multi_max) + " bytes");
	return text;
}

void endpoints_json(Json &json, Endpoints endpoints)
{
	json.begin_array("endpoints");
	for (const ibrelk_endpoint_info &e : endpoints) {
		json.begin_object().member("address", ibrelk::Address(e.local).text());
		json.member("mode", ibrelk_mode_name(e.mode)).member("uid", e.uid).member("pid", e.pid);
		json.member("flows", e.flows).member("sends", e.sends).member("recvs", e.recvs);
		json.member("unexpected", e.unexpected)
			.member("claims", e.claims)
			.member("pin_hits", e.pin_hits)
			.member("pin_misses", e.pin_misses)
			.member("pinned_idle_bytes", e.pinned_idle_bytes)
			.member("unexpected_bytes", e.unexpected_bytes);
		json.member("unexpected_bytes_max", e.unexpected_bytes_max);
		counters_json(json, e.counters);
		json.end_object();
	}
	json.end_array();
}

void paths_json(Json &json, Paths paths)
{
	json.begin_array("paths");
	for (const ibrelk_path_info &p : paths) {
		json.begin_object()
			.member("local", gid_text(p.local_gid))
			.member("remote", gid_text(p.remote_gid));
		json.member("instance", instance_text(instance_of(p.instance)));
		json.member("mode", ibrelk_mode_name(p.mode)).member("state", state_name(p.state));
		json.member("device", text_of(p.device)).member("port", p.port).member("mtu", p.mtu);
		json.member("srtt_us", p.srtt_us)
			.member("rttvar_us", p.rttvar_us)
			.member("rttmin_us", p.rttmin_us);
		json.member("rto_us", p.rto_us).member("window", p.window).member("in_flight", p.in_flight);
		json.member("queue", p.queue).member("queue_max", p.queue_max).member("flows", p.flows);
		json.member("lane", p.lane != 0);
		json.member("error", p.error).member("memory_bytes", p.memory_bytes);
		json.member("memory_bytes_max", p.memory_bytes_max);
		counters_json(json, p.counters);
		json.end_object();
	}
	json.end_array();
}

void ports_json(Json &json, Ports ports)
{
	json.begin_array("ports");
	for (const ibrelk_port_info &p : ports) {
		json.begin_object().member("device", text_of(p.device)).member("port", p.port);
		json.member("usable", p.usable != 0).member("address", gid_text(p.gid)).member("mtu", p.mtu);
		modes_json(json, p.modes);
		json.member("reason", text_of(p.reason));
		for (const PortDrop &drop : port_drops)
			json.member(drop.name, std::uint64_t{p.*drop.member});
		json.end_object();
	}
	json.end_array();
}

void peers_json(Json &json, Paths paths)
{
	json.begin_array("peers");
	for (const auto &[name, list] : by_peer(paths)) {
		json.begin_object().member("instance", name.starts_with("unknown") ? "unknown" : name);
		json.begin_array("paths");
		for (const ibrelk_path_info *p : list) {
			json.begin_object().member("remote", gid_text(p->remote_gid));
			json.member("mode", ibrelk_mode_name(p->mode)).member("state", state_name(p->state));
			json.member("srtt_us", p->srtt_us).end_object();
		}
		json.end_array().end_object();
	}
	json.end_array();
}

void query_json(Json &json, const ibrelk::Query &q)
{
	json.begin_object("query").member("abi_version", q.abi_version);
	json.member("protocol_version", q.protocol_version);
	json.member("instance", instance_text(instance_of(q.instance)));
	modes_json(json, q.modes);
	json.member("ports", q.ports).member("eager_max", q.eager_max).member("message_max", q.message_max);
	json.member("recvs_max", q.recvs_max).member("sends_max", q.sends_max);
	json.member("ring_entries_max", q.ring_entries_max)
		.member("batch_max", q.batch_max)
		.member("multi_max", q.multi_max)
		.end_object();
}

} // namespace tool
