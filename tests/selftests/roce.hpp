// SPDX-License-Identifier: GPL-2.0-only
/*
 * RoCEv2 frames over IPv4 as bytes: taking one apart, putting one together, and the ICRC, the checksum
 * over the parts of a packet that no router changes, without which soft-RoCE throws a frame away before
 * the module sees it. For the self-tests that send what no well-behaved sender would.
 *
 *	Ethernet | IPv4 | UDP, port 4791 | BTH | more headers, by opcode | payload | pad | ICRC
 *	   14    |  20  |       8        | 12  |                         |         | 0-3 |  4
 */
#ifndef SELFTESTS_ROCE_HPP
#define SELFTESTS_ROCE_HPP

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace roce
{

using Bytes = std::vector<std::uint8_t>;
using View = std::span<const std::uint8_t>;
using Mac = std::array<std::uint8_t, 6>;

constexpr std::uint16_t udp_port = 4791;

/* What the queue pair types' opcodes begin with. */
enum Transport : std::uint8_t { rc = 0x00, uc = 0x20, ud = 0x60 };

constexpr Transport transport_of(std::uint8_t opcode)
{
	return static_cast<Transport>(opcode & 0xe0);
}

/* Where things are in a frame, as far as its receiver can know. */
struct Layout {
	std::uint8_t opcode;
	std::uint32_t qpn;
	std::uint32_t psn;
	std::uint32_t source, destination; /* IPv4 addresses, host byte order */
	std::size_t payload;               /* offset */
	std::size_t payload_bytes;         /* without pad */
	std::uint64_t address;             /* WRITE, first or only: where to, by which key; else 0 */
	std::uint32_t rkey;

	[[nodiscard]] bool is_send_only() const;
	/* The RDMA write of one packet, with or without an immediate. */
	[[nodiscard]] bool is_write_only() const;
};

/* Takes a frame apart. Nothing, if it is no whole RoCEv2 frame or its opcode is unknown. The ICRC is not
 * looked at. */
std::optional<Layout> parse(View frame);

/* The ICRC that a frame, whole but for the ICRC at its end, should have. */
std::uint32_t icrc(View frame);

/* The ICRC that a frame does have. */
std::uint32_t icrc_sent(View frame);

/* The frame with another payload: lengths, pad, IP checksum and ICRC are put right, all else is kept.
 * It must be one that parse() takes. */
Bytes with_payload(View frame, View payload);

/* What with_changes() is to put in place of what a frame has. */
struct Changes {
	std::optional<std::uint32_t> qpn{}, psn{};
	std::optional<std::uint64_t> address{}; /* WRITE, first or only */
	std::optional<std::uint32_t> rkey{};    /* likewise */
};

/* The frame with other numbers, and an ICRC that is right for them. It must be one that parse() takes. */
Bytes with_changes(View frame, const Changes &changes);

/* What build() is told. Addresses in host byte order. */
struct Headers {
	Mac source_mac{}, destination_mac{};
	std::uint32_t source = 0, destination = 0;
	std::uint16_t source_port = 0xc000;
	std::uint8_t opcode = 0;
	std::uint32_t qpn = 0;
	std::uint32_t psn = 0;
	std::uint16_t pkey = 0xffff;
	std::uint32_t qkey = 0;       /* UD */
	std::uint32_t source_qpn = 0; /* UD */
	std::uint64_t address = 0;    /* WRITE */
	std::uint32_t rkey = 0;       /* WRITE */
	std::uint32_t immediate = 0;  /* opcodes with an immediate */
};

/* A frame from nothing. The opcode must have a name. */
Bytes build(const Headers &headers, View payload);

/* The opcode of a name such as "uc-send-only", and the names that there are. */
std::optional<std::uint8_t> opcode_of(std::string_view name);
std::vector<std::string> opcode_names();

} // namespace roce

#endif
