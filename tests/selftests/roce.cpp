// SPDX-License-Identifier: GPL-2.0-only
/*
 * RoCEv2 frames over IPv4 as bytes; see roce.hpp. Everything is at fixed offsets, because IP options are
 * not taken: soft-RoCE sends none.
 */
#include "roce.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>

namespace roce
{

namespace
{

constexpr std::size_t ethernet_bytes = 14;
constexpr std::size_t ip_bytes = 20;
constexpr std::size_t udp_bytes = 8;
constexpr std::size_t bth_bytes = 12;
constexpr std::size_t reth_bytes = 16;
constexpr std::size_t deth_bytes = 8;
constexpr std::size_t immediate_bytes = 4;
constexpr std::size_t icrc_bytes = 4;

constexpr std::size_t ip = ethernet_bytes;
constexpr std::size_t udp = ip + ip_bytes;
constexpr std::size_t bth = udp + udp_bytes;
constexpr std::size_t extended = bth + bth_bytes;

constexpr std::uint16_t ethertype_ip = 0x0800;
constexpr std::uint8_t protocol_udp = 17;

/* An opcode's lower five bits, which mean the same for all transports. */
struct Operation {
	std::string_view name;
	std::uint8_t code;
	bool reth;
	bool immediate;
};

constexpr Operation operations[] = {
	{"send-first", 0x00, false, false},
	{"send-middle", 0x01, false, false},
	{"send-last", 0x02, false, false},
	{"send-last-immediate", 0x03, false, true},
	{"send-only", 0x04, false, false},
	{"send-only-immediate", 0x05, false, true},
	{"write-first", 0x06, true, false},
	{"write-middle", 0x07, false, false},
	{"write-last", 0x08, false, false},
	{"write-last-immediate", 0x09, false, true},
	{"write-only", 0x0a, true, false},
	{"write-only-immediate", 0x0b, true, true},
};

struct Opcode {
	Transport transport;
	const Operation *operation;

	[[nodiscard]] std::size_t header_bytes() const
	{
		return (transport == ud ? deth_bytes : 0) + (operation->reth ? reth_bytes : 0) +
			(operation->immediate ? immediate_bytes : 0);
	}
};

bool is_send_only(std::uint8_t operation)
{
	return operation == 0x04 || operation == 0x05;
}

bool is_write_only(std::uint8_t operation)
{
	return operation == 0x0a || operation == 0x0b;
}

std::optional<Opcode> opcode_find(std::uint8_t opcode)
{
	const Transport transport = transport_of(opcode);
	const auto *operation = std::ranges::find(operations, opcode & 0x1f, &Operation::code);

	if (operation == std::end(operations) || (transport != rc && transport != uc && transport != ud))
		return std::nullopt;
	if (transport == ud && !is_send_only(operation->code))
		return std::nullopt;
	return Opcode{transport, operation};
}

struct TransportName {
	Transport transport;
	std::string_view name;
};

constexpr TransportName transports[] = {{rc, "rc-"}, {uc, "uc-"}, {ud, "ud-"}};

std::uint64_t get(View bytes, std::size_t offset, std::size_t count)
{
	std::uint64_t value = 0;

	for (std::size_t i = 0; i < count; i++)
		value = value << 8 | bytes[offset + i];
	return value;
}

void put(std::span<std::uint8_t> bytes, std::size_t offset, std::size_t count, std::uint64_t value)
{
	for (std::size_t i = count; i-- > 0; value >>= 8)
		bytes[offset + i] = static_cast<std::uint8_t>(value);
}

/* What CRC-32 of Ethernet makes of one byte. */
constexpr auto crc32_table = [] {
	std::array<std::uint32_t, 256> table{};

	for (std::uint32_t byte = 0; byte < table.size(); byte++) {
		table[byte] = byte;
		for (int bit = 0; bit < 8; bit++)
			table[byte] = (table[byte] >> 1) ^ (table[byte] & 1 ? 0xedb88320u : 0);
	}
	return table;
}();

std::uint32_t crc32(std::uint32_t crc, View bytes)
{
	for (const std::uint8_t byte : bytes)
		crc = (crc >> 8) ^ crc32_table[(crc ^ byte) & 0xff];
	return crc;
}

std::uint16_t internet_checksum(View bytes)
{
	std::uint32_t sum = 0;

	for (std::size_t i = 0; i < bytes.size(); i += 2)
		sum += static_cast<std::uint32_t>(get(bytes, i, 2));
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return static_cast<std::uint16_t>(~sum);
}

/* It is the one field of the frame that goes out with its lowest byte first. */
void put_icrc(Bytes &frame)
{
	const std::uint32_t crc = icrc(frame);

	for (std::size_t i = 0; i < icrc_bytes; i++)
		frame[frame.size() - icrc_bytes + i] = static_cast<std::uint8_t>(crc >> (8 * i));
}

/* Makes true what depends on a frame's length and contents; the pad and the room for the ICRC are there. */
void seal(Bytes &frame, std::size_t pad)
{
	put(frame, ip + 2, 2, frame.size() - ip);
	put(frame, ip + 10, 2, 0);
	put(frame, ip + 10, 2, internet_checksum(View(frame).subspan(ip, ip_bytes)));
	put(frame, udp + 4, 2, frame.size() - udp);
	put(frame, udp + 6, 2, 0); /* no UDP checksum, as soft-RoCE does */
	frame[bth + 1] = static_cast<std::uint8_t>((frame[bth + 1] & ~0x30) | pad << 4);
	put_icrc(frame);
}

void append_payload(Bytes &frame, View payload)
{
	const std::size_t pad = -payload.size() & 3;

	frame.insert(frame.end(), payload.begin(), payload.end());
	frame.resize(frame.size() + pad + icrc_bytes);
	seal(frame, pad);
}

} // namespace

bool Layout::is_send_only() const
{
	return roce::is_send_only(opcode & 0x1f);
}

bool Layout::is_write_only() const
{
	return roce::is_write_only(opcode & 0x1f);
}

std::optional<Layout> parse(View frame)
{
	if (frame.size() < extended + icrc_bytes || get(frame, 12, 2) != ethertype_ip || frame[ip] != 0x45 ||
		frame[ip + 9] != protocol_udp || get(frame, udp + 2, 2) != udp_port)
		return std::nullopt;
	/* An Ethernet frame may be longer than what it carries, by its own padding. */
	if (get(frame, ip + 2, 2) != frame.size() - ip || get(frame, udp + 4, 2) != frame.size() - udp)
		return std::nullopt;

	const auto opcode = opcode_find(frame[bth]);

	if (!opcode)
		return std::nullopt;

	const std::size_t payload = extended + opcode->header_bytes();
	const std::size_t pad = frame[bth + 1] >> 4 & 3;

	if (frame.size() < payload + pad + icrc_bytes)
		return std::nullopt;

	const bool reth = opcode->operation->reth;

	return Layout{
		.opcode = frame[bth],
		.qpn = static_cast<std::uint32_t>(get(frame, bth + 5, 3)),
		.psn = static_cast<std::uint32_t>(get(frame, bth + 9, 3)),
		.source = static_cast<std::uint32_t>(get(frame, ip + 12, 4)),
		.destination = static_cast<std::uint32_t>(get(frame, ip + 16, 4)),
		.payload = payload,
		.payload_bytes = frame.size() - payload - pad - icrc_bytes,
		.address = reth ? get(frame, extended, 8) : 0,
		.rkey = reth ? static_cast<std::uint32_t>(get(frame, extended + 8, 4)) : 0,
	};
}

/*
 * The annex of the InfiniBand specification on RoCEv2 says: as for InfiniBand, the sum is over the local
 * routing header (not there: eight bytes of ones), the network headers and all that follows, where the
 * fields that may change on the way count as ones. With IPv4 these are the type of service, the time to
 * live, and the header and UDP checksums; in the BTH the byte before the QPN (congestion bits).
 */
std::uint32_t icrc(View frame)
{
	Bytes masked(8, 0xff);

	masked.insert(masked.end(), frame.begin() + ip, frame.end() - icrc_bytes);

	const std::span<std::uint8_t> from_ip = std::span(masked).subspan(8);

	from_ip[1] = 0xff;
	from_ip[8] = 0xff;
	put(from_ip, 10, 2, 0xffff);
	put(from_ip, udp - ip + 6, 2, 0xffff);
	from_ip[bth - ip + 4] = 0xff;
	return ~crc32(~0u, masked);
}

std::uint32_t icrc_sent(View frame)
{
	std::uint32_t crc = 0;

	for (std::size_t i = icrc_bytes; i-- > 0;)
		crc = crc << 8 | frame[frame.size() - icrc_bytes + i];
	return crc;
}

Bytes with_payload(View frame, View payload)
{
	const auto layout = parse(frame);

	if (!layout)
		throw std::invalid_argument("not a RoCEv2 frame");

	Bytes result(frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(layout->payload));

	append_payload(result, payload);
	return result;
}

Bytes with_changes(View frame, const Changes &changes)
{
	const auto layout = parse(frame);
	Bytes result(frame.begin(), frame.end());

	if (!layout)
		throw std::invalid_argument("not a RoCEv2 frame");
	if ((changes.address || changes.rkey) && !opcode_find(layout->opcode)->operation->reth)
		throw std::invalid_argument("no address and key in this frame");
	if (changes.qpn)
		put(result, bth + 5, 3, *changes.qpn);
	if (changes.psn)
		put(result, bth + 9, 3, *changes.psn);
	if (changes.address)
		put(result, extended, 8, *changes.address);
	if (changes.rkey)
		put(result, extended + 8, 4, *changes.rkey);
	put_icrc(result);
	return result;
}

Bytes build(const Headers &headers, View payload)
{
	const auto opcode = opcode_find(headers.opcode);

	if (!opcode)
		throw std::invalid_argument("unknown opcode");

	Bytes frame(extended + opcode->header_bytes());

	std::ranges::copy(headers.destination_mac, frame.begin());
	std::ranges::copy(headers.source_mac, frame.begin() + 6);
	put(frame, 12, 2, ethertype_ip);
	frame[ip] = 0x45;
	put(frame, ip + 6, 2, 0x4000); /* don't fragment */
	frame[ip + 8] = 64;
	frame[ip + 9] = protocol_udp;
	put(frame, ip + 12, 4, headers.source);
	put(frame, ip + 16, 4, headers.destination);
	put(frame, udp, 2, headers.source_port);
	put(frame, udp + 2, 2, udp_port);
	frame[bth] = headers.opcode;
	put(frame, bth + 2, 2, headers.pkey);
	put(frame, bth + 5, 3, headers.qpn);
	if (opcode->transport == rc)
		frame[bth + 8] = 0x80; /* asks for an acknowledgement */
	put(frame, bth + 9, 3, headers.psn);

	std::size_t next = extended;

	if (opcode->transport == ud) {
		put(frame, next, 4, headers.qkey);
		put(frame, next + 5, 3, headers.source_qpn);
		next += deth_bytes;
	}
	if (opcode->operation->reth) {
		put(frame, next, 8, headers.address);
		put(frame, next + 8, 4, headers.rkey);
		put(frame, next + 12, 4, payload.size());
		next += reth_bytes;
	}
	if (opcode->operation->immediate)
		put(frame, next, 4, headers.immediate);
	append_payload(frame, payload);
	return frame;
}

std::optional<std::uint8_t> opcode_of(std::string_view name)
{
	for (const TransportName &transport : transports) {
		if (!name.starts_with(transport.name))
			continue;
		for (const Operation &operation : operations) {
			const auto opcode = static_cast<std::uint8_t>(transport.transport | operation.code);

			if (name.substr(transport.name.size()) == operation.name && opcode_find(opcode))
				return opcode;
		}
	}
	return std::nullopt;
}

std::vector<std::string> opcode_names()
{
	std::vector<std::string> names;

	for (const TransportName &transport : transports)
		for (const Operation &operation : operations)
			if (opcode_find(static_cast<std::uint8_t>(transport.transport | operation.code)))
				names.push_back(std::string(transport.name) + std::string(operation.name));
	return names;
}

} // namespace roce
