// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// What must be remembered of an operation until it is complete: the kernel gives 64 bits back, which are the
// address of this. A send, read or write that nobody is to be told of, unless it fails, has none: its 64 bits
// are the context of the application, with the lowest bit set, or Operation::injected.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include <ibrelk/uapi.h>

#include "atomic.hpp"

namespace ibrelk::ofi
{

class Counter;
class Endpoint;

/// What a fetching atomic brings for a buffer that is cut into pieces: the kernel knows of one piece only.
struct Fetched {
	std::array<std::byte, IBRELK_ATOMIC_BYTES> bytes;
	std::vector<fi_ioc> pieces;
	std::size_t element_bytes;

	void scatter() const noexcept
	{
		Elements{pieces.data(), pieces.size()}.scatter(bytes.data(), element_bytes);
	}
};

struct Operation {
	enum class Kind : std::uint8_t {
		none,
		send,
		receive,
		peek,
		discard,
		notices // of writes to this endpoint, with data; it is posted again and again
	};              // a read or write is like a send

	void *context = nullptr;
	Endpoint *endpoint = nullptr; // nullptr: it was closed, and nobody wants to know any more
	Counter *counter = nullptr;
	std::byte *buffer = nullptr;
	std::uint64_t length = 0; // of the buffer, or of what is discarded
	std::uint64_t tag = 0;    // of what is discarded
	std::uint64_t flags = 0;  // of the completion: FI_SEND, FI_TAGGED, FI_RMA ...
	std::unique_ptr<Fetched> fetched;
	Operation *next = nullptr;
	Kind kind = Kind::none;
	bool reported = false; // when it has succeeded
	bool silent = false;   // not even when it has failed
	bool discards = false; // a peek: the message is to be thrown away
	bool multi_receive = false;

	/// What the kernel gives back of what was injected: nobody is told of that at all.
	static constexpr std::uint64_t injected = 3;
	/// Whether this context can be given to the kernel as it is.
	static bool fits(const void *context) noexcept
	{
		const auto bits = reinterpret_cast<std::uintptr_t>(context);

		return !(bits & 1) && bits != (injected & ~std::uint64_t{1});
	}

	[[nodiscard]] std::uint64_t user_data() const noexcept
	{
		return reinterpret_cast<std::uintptr_t>(this);
	}
	static Operation *of(std::uint64_t user_data) noexcept
	{
		return reinterpret_cast<Operation *>(user_data);
	}
};

/// Operations of a completion queue. They stay where they are, and live as long as it does: a send may
/// complete after its endpoint was closed.
class OperationPool
{
public:
	OperationPool() = default;
	OperationPool(const OperationPool &) = delete;
	OperationPool &operator=(const OperationPool &) = delete;
	~OperationPool();
	/// One that nobody uses, and that is like this from now on; nullptr if there are too many, or no
	/// memory.
	Operation *take(Operation &&wanted) noexcept;
	void give_back(Operation &operation) noexcept;
	/// Nobody wants to know what becomes of the operations of an endpoint.
	void orphan(const Endpoint &endpoint) noexcept;
	/// A receive, posted with this context and not known to be complete, but the next one after @p last
	/// unless that is nullptr; nullptr if there is none.
	Operation *find_receive(
		const Endpoint &endpoint, const void *context, const Operation *last) noexcept;

private:
	static constexpr std::size_t chunk_operations = 256;
	// The kernel accepts no more commands than this for a ring of the largest size.
	static constexpr std::size_t chunks_max = 4096;
	using Chunk = std::array<Operation, chunk_operations>;

	bool grow() noexcept;

	std::mutex lock_; // protects all of this
	std::vector<std::unique_ptr<Chunk>> chunks_;
	Operation *free_ = nullptr;
};

} // namespace ibrelk::ofi
