// SPDX-License-Identifier: GPL-2.0-only
//
// What the tests of puts, gets and atomics share: regions that peers may use, the commands, and how they
// ended.
#pragma once

#include "abi.hpp"

namespace abi
{

inline constexpr std::uint32_t remote =
	IBRELK_REGION_WRITE | IBRELK_REGION_REMOTE_WRITE | IBRELK_REGION_REMOTE_READ;

// A region that peers may write to.
struct Window {
	Window(const Node &node, const void *memory, std::size_t bytes, std::uint32_t flags = remote)
	{
		ibrelk_region_create create{};

		create.addr = address_of(memory);
		create.length = bytes;
		create.flags = flags;
		create.fd = -1;
		KTAP_REQUIRE_EQUAL(control(node.device.get(), IBRELK_IOC_REGION_CREATE, &create), 0);
		fd = Fd(create.fd);
		key = create.key;
	}

	Fd fd;
	std::uint64_t key = 0;
};

inline Command put(std::uint32_t peer, const void *data, std::uint64_t bytes, const void *to,
	std::uint64_t key, std::uint64_t user_data = 1)
{
	Command command{};

	command.opcode = IBRELK_OP_PUT;
	command.peer = peer;
	command.addr = address_of(data);
	command.length = bytes;
	command.remote_addr = address_of(to);
	command.remote_key = key;
	command.user_data = user_data;
	return command;
}

inline Command get(std::uint32_t peer, void *data, std::uint64_t bytes, const void *from, std::uint64_t key,
	std::uint64_t user_data = 1)
{
	Command command = put(peer, data, bytes, from, key, user_data);

	command.opcode = IBRELK_OP_GET;
	return command;
}

// The same, and the peer's process is told.
inline Command put_and_tell(std::uint32_t peer, const void *data, std::uint64_t bytes, const void *to,
	std::uint64_t key, std::uint64_t immediate, std::uint64_t user_data = 1)
{
	Command command = put(peer, data, bytes, to, key, user_data);

	command.flags = IBRELK_CMD_IMMEDIATE;
	command.immediate = immediate;
	return command;
}

// What takes that.
inline Command notice(Command receive)
{
	receive.flags |= IBRELK_CMD_UNTAGGED;
	receive.tag = IBRELK_TAG_WRITTEN;
	receive.ignore = IBRELK_TAG_WRITTEN - 1;
	return receive;
}

inline void is_notice(const ibrelk_completion &completion, std::uint64_t user_data, std::uint64_t bytes,
	std::uint64_t immediate)
{
	KTAP_EQUAL(completion.user_data, user_data);
	KTAP_EQUAL(completion.status, 0);
	KTAP_EQUAL(completion.flags, IBRELK_CQE_UNTAGGED | IBRELK_CQE_IMMEDIATE);
	KTAP_EQUAL(completion.length, 0u);
	KTAP_EQUAL(completion.tag, IBRELK_TAG_WRITTEN | bytes);
	KTAP_EQUAL(completion.immediate, immediate);
}

// Puts, and tells how it ended.
inline int put_status(Ends &ends, const Command &command)
{
	KTAP_REQUIRE_EQUAL(ends.post(command), 1);

	auto completion = ends.ring.next();

	KTAP_REQUIRE(completion.has_value());
	KTAP_EQUAL(completion->opcode, command.opcode);
	KTAP_EQUAL(completion->user_data, command.user_data);
	KTAP_EQUAL(completion->peer, command.peer);
	KTAP_EQUAL(completion->tag, 0u);
	KTAP_EQUAL(completion->flags, 0);
	KTAP_EQUAL(completion->immediate, 0u);
	if (!(command.flags & IBRELK_CMD_IOVEC))
		KTAP_EQUAL(completion->length, command.length);
	return completion->status;
}

inline bool all_are(const std::byte *memory, std::size_t bytes, int value)
{
	return std::all_of(memory, memory + bytes,
		[value](std::byte byte) { return std::to_integer<int>(byte) == value; });
}

} // namespace abi
