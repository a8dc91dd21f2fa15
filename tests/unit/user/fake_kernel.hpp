// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// A device that does not exist: takes the place of the library's system calls, and behaves as <ibrelk/uapi.h>
// says, in this process. Messages go straight from endpoint to endpoint. It can be told to misbehave.
#pragma once

#include <cstdint>

#include <ibrelk/uapi.h>

namespace fake
{

struct Behaviour {
	int open_error = 0; // of open(), positive; 0: there is a module
	std::uint32_t abi_version = IBRELK_ABI_VERSION;
	std::uint32_t modes = 0xfe;          // that can be used
	std::uint32_t sends_max = 4096;      // outstanding sends, where the endpoint does not say
	bool hold_sends = false;             // sends stay outstanding until release_sends()
	bool lazy_sends = false;             // sends stay outstanding until their process waits
	std::uint32_t accept_max = 1u << 20; // commands accepted of one batch
	std::uint32_t lose_every = 0;        // native modes: every nth message with immediate is lost
	std::uint32_t corrupt_every = 0;     // every nth message with immediate gets a wrong byte
	std::uint32_t repeat_every = 0;      // every nth message with immediate is delivered twice
	std::uint32_t hold_from = 0;         // the wire is down from the nth message with immediate on ...
	std::uint32_t hold_count = 0;        // ... until it holds so many, which arrive then
	std::uint32_t recvs_max = 65536;     // that an endpoint may post
	std::uint32_t unexpected_max = 0;    // messages with immediate that may wait for a receive
	std::uint32_t refuse_from = 0;       // there is no room for the nth message with immediate ...
	std::uint32_t refuse_ms = 0;         // ... until so long after it was first offered
	std::uint64_t ring_map_bytes = 0;    // instead of the right size
	bool uring_works = true;             // io_uring can be set up
	bool uring_commands = true;          // and takes commands
	int endpoint_error = 0;              // of IBRELK_IOC_ENDPOINT_CREATE, positive
	std::uint32_t extra_endpoints = 0;   // that IBRELK_IOC_DUMP reports besides
};

/// Forgets everything and is well-behaved again.
void reset();
Behaviour &behaviour();

/// Number of system calls of each kind since reset().
struct Calls {
	std::uint32_t submit_ioctl = 0;
	std::uint32_t submit_uring = 0;
	std::uint32_t ring_wait = 0;
	std::uint32_t open_fds = 0; // descriptors that are open now
	std::uint32_t open_urings = 0;
};
Calls calls();

/// Completes held sends of all endpoints, oldest first, at most @p count.
void release_sends(std::uint32_t count);

} // namespace fake
