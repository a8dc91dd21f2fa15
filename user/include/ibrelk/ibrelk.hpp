// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/**
 * @file ibrelk.hpp
 * @brief The C++20 face of libibrelk: inline types over the C functions of ibrelk.h.
 *
 * Objects own a handle, move and do not copy. What can fail returns a result<T>, which holds a value or an
 * errno; nothing throws, and the data path (submit, peek, advance, poll, wait) allocates nothing. What the C
 * functions say about errors, lifetimes and threads holds here too, and is not repeated.
 */
#pragma once

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <ibrelk/ibrelk.h>

namespace ibrelk
{

using Command = ::ibrelk_command;
using Completion = ::ibrelk_completion;
using Query = ::ibrelk_query;
using WaitOptions = ::ibrelk_wait_options;

/// A peer as an endpoint knows it: a handle for commands and completions.
using Peer = std::uint32_t;
inline constexpr Peer any_peer = IBRELK_PEER_ANY;

/// Time limit that never runs out.
inline constexpr std::chrono::nanoseconds no_limit = std::chrono::nanoseconds::max();

/// An errno (positive), to be given to a result. Takes either sign, as the C functions return it negative.
struct failure {
	int error;

	constexpr explicit failure(int e) noexcept : error(e < 0 ? -e : e)
	{
	}
};

/// A value, or the errno that says why there is none.
template<class T>
class [[nodiscard]] result
{
public:
	result(T value) noexcept(std::is_nothrow_move_constructible_v<T>) : value_(std::move(value))
	{
	}
	result(failure f) noexcept : error_(f.error)
	{
	}

	explicit operator bool() const noexcept
	{
		return value_.has_value();
	}
	/// The errno, positive; 0 if there is a value.
	[[nodiscard]] int error() const noexcept
	{
		return error_;
	}
	/// The value. Only if there is one.
	T &operator*() &noexcept
	{
		return *value_;
	}
	const T &operator*() const &noexcept
	{
		return *value_;
	}
	T &&operator*() &&noexcept
	{
		return std::move(*value_);
	}
	T *operator->() noexcept
	{
		return &*value_;
	}
	const T *operator->() const noexcept
	{
		return &*value_;
	}
	/// The value, or another one.
	T value_or(T other) const &
	{
		return value_ ? *value_ : other;
	}

private:
	std::optional<T> value_;
	int error_ = 0;
};

/// Success, or the errno that says why not.
template<>
class [[nodiscard]] result<void>
{
public:
	result() noexcept = default;
	result(failure f) noexcept : error_(f.error)
	{
	}
	explicit operator bool() const noexcept
	{
		return error_ == 0;
	}
	[[nodiscard]] int error() const noexcept
	{
		return error_;
	}

private:
	int error_ = 0;
};

namespace detail
{
inline result<void> check(int code) noexcept
{
	if (code < 0)
		return failure(code);
	return {};
}

inline result<std::uint32_t> count(int code) noexcept
{
	if (code < 0)
		return failure(code);
	return static_cast<std::uint32_t>(code);
}

/// Nanoseconds as the C functions take them: negative is none, no_limit stays without limit.
inline std::uint64_t limit(std::chrono::nanoseconds time) noexcept
{
	if (time == no_limit)
		return IBRELK_NO_LIMIT;
	return time.count() < 0 ? 0 : static_cast<std::uint64_t>(time.count());
}

template<class T, void (*destroy)(T *) noexcept>
struct destroyer {
	void operator()(T *handle) const noexcept
	{
		destroy(handle);
	}
};
template<class T, void (*destroy)(T *) noexcept>
using owner = std::unique_ptr<T, destroyer<T, destroy>>;
} // namespace detail

/// Address of an endpoint; a plain value.
class Address
{
public:
	Address() noexcept : raw_{}
	{
	}
	explicit Address(const ::ibrelk_addr &raw) noexcept : raw_(raw)
	{
	}

	/// Reads the text forms of ibrelk_address_from_text(). EINVAL if it is none.
	static result<Address> from_text(const char *text) noexcept
	{
		Address address;
		if (int code = ibrelk_address_from_text(text, &address.raw_); code < 0)
			return failure(code);
		return address;
	}
	static result<Address> from_text(const std::string &text) noexcept
	{
		return from_text(text.c_str());
	}

	/// Writes the text into a buffer of the caller, for code that must not allocate.
	result<std::string_view> to_text(std::span<char> buffer) const noexcept
	{
		int code = ibrelk_address_to_text(&raw_, buffer.data(), buffer.size());
		if (code < 0)
			return failure(code);
		return std::string_view(buffer.data(), static_cast<std::size_t>(code));
	}
	/// The text; allocates.
	[[nodiscard]] std::string text() const
	{
		char buffer[IBRELK_ADDRESS_TEXT_MAX];
		auto written = to_text(buffer);
		return written ? std::string(*written) : std::string();
	}

	[[nodiscard]] std::uint32_t endpoint() const noexcept
	{
		return raw_.endpoint;
	}
	void set_endpoint(std::uint32_t endpoint) noexcept
	{
		raw_.endpoint = endpoint;
	}
	[[nodiscard]] std::uint32_t generation() const noexcept
	{
		return raw_.generation;
	}
	[[nodiscard]] const ::ibrelk_addr &raw() const noexcept
	{
		return raw_;
	}
	friend bool operator==(const Address &a, const Address &b) noexcept
	{
		return std::memcmp(&a.raw_, &b.raw_, sizeof(a.raw_)) == 0;
	}

private:
	::ibrelk_addr raw_;
};

/// An open /dev/ibrelk.
class Device
{
public:
	static result<Device> open(const char *path = nullptr) noexcept
	{
		::ibrelk_device *handle = nullptr;
		if (int code = ibrelk_device_open(path, &handle); code < 0)
			return failure(code);
		return Device(handle);
	}

	result<Query> query() const noexcept
	{
		Query query{};
		if (int code = ibrelk_device_query(handle_.get(), &query); code < 0)
			return failure(code);
		return query;
	}

	/// All statistics of one kind; T is ibrelk_endpoint_info, ibrelk_path_info or ibrelk_port_info.
	/// Allocates: not for the data path.
	template<class T>
	result<std::vector<T>> dump() const
	{
		std::vector<T> list(16);
		for (;;) {
			auto entries = static_cast<std::uint32_t>(list.size());
			std::uint32_t total = 0;
			int code = ibrelk_device_dump(
				handle_.get(), kind_of<T>(), list.data(), sizeof(T), &entries, &total);
			if (code < 0)
				return failure(code);
			if (total <= list.size()) {
				list.resize(entries);
				return list;
			}
			list.assign(total + total / 4, T{});
		}
	}

	[[nodiscard]] int fd() const noexcept
	{
		return ibrelk_device_fd(handle_.get());
	}
	[[nodiscard]] const ::ibrelk_device *handle() const noexcept
	{
		return handle_.get();
	}

private:
	explicit Device(::ibrelk_device *handle) noexcept : handle_(handle)
	{
	}

	template<class T>
	static constexpr std::uint32_t kind_of() noexcept
	{
		if constexpr (std::is_same_v<T, ::ibrelk_endpoint_info>)
			return IBRELK_DUMP_ENDPOINTS;
		else if constexpr (std::is_same_v<T, ::ibrelk_path_info>)
			return IBRELK_DUMP_PATHS;
		else
			return IBRELK_DUMP_PORTS;
	}

	detail::owner<::ibrelk_device, ibrelk_device_close> handle_;
};

/// A mapped completion ring. One thread at a time consumes it.
class Ring
{
public:
	static result<Ring> create(const Device &device, std::uint32_t entries) noexcept
	{
		::ibrelk_ring *handle = nullptr;
		if (int code = ibrelk_ring_open(device.handle(), entries, &handle); code < 0)
			return failure(code);
		return Ring(handle);
	}

	/// What is there, not consumed; valid until advance(). More may follow where the ring wraps around.
	[[nodiscard]] std::span<const Completion> peek() noexcept
	{
		std::uint32_t count = 0;
		const Completion *first = ibrelk_ring_peek(handle_.get(), &count);
		return {first, count};
	}
	/// Consumes what peek() showed.
	void advance(std::size_t count) noexcept
	{
		ibrelk_ring_advance(handle_.get(), static_cast<std::uint32_t>(count));
	}
	/// Copies out and consumes as many as there are and fit; returns the part that was filled.
	[[nodiscard]] std::span<Completion> poll(std::span<Completion> buffer) noexcept
	{
		auto room = static_cast<std::uint32_t>(buffer.size());
		return buffer.first(ibrelk_ring_poll(handle_.get(), buffer.data(), room));
	}
	/// Takes one completion, if there is one.
	[[nodiscard]] std::optional<Completion> next() noexcept
	{
		Completion completion;
		if (ibrelk_ring_poll(handle_.get(), &completion, 1) == 0)
			return std::nullopt;
		return completion;
	}
	/// Hands every completion that is there to a function, and consumes it; returns how many.
	template<class F>
	std::uint32_t drain(F &&handle_completion)
	{
		std::uint32_t total = 0;
		for (auto run = peek(); !run.empty(); run = peek()) {
			for (const Completion &completion : run)
				handle_completion(completion);
			advance(run.size());
			total += static_cast<std::uint32_t>(run.size());
		}
		return total;
	}

	/// Waits; returns how many completions are in the ring, fewer than asked if time ran out.
	result<std::uint32_t> wait(const WaitOptions &options) noexcept
	{
		return detail::count(ibrelk_ring_wait_for(handle_.get(), &options));
	}
	result<std::uint32_t> wait(std::uint32_t count = 1, std::chrono::nanoseconds timeout = no_limit,
		std::chrono::nanoseconds busy_poll = {}) noexcept
	{
		return wait(WaitOptions{.count = count,
			.flags = 0,
			.timeout_ns = detail::limit(timeout),
			.spin_ns = 0,
			.busy_poll_ns = detail::limit(busy_poll)});
	}

	[[nodiscard]] int fd() const noexcept
	{
		return ibrelk_ring_fd(handle_.get());
	}
	[[nodiscard]] std::uint32_t entries() const noexcept
	{
		return ibrelk_ring_entries(handle_.get());
	}
	[[nodiscard]] ::ibrelk_ring *handle() const noexcept
	{
		return handle_.get();
	}

private:
	explicit Ring(::ibrelk_ring *handle) noexcept : handle_(handle)
	{
	}

	detail::owner<::ibrelk_ring, ibrelk_ring_close> handle_;
};

/// Memory that stays pinned, for many messages, or for peers to put into and get from: see
/// ibrelk_region_open().
class Region
{
public:
	/// To send from.
	static result<Region> to_send(const Device &device, std::span<const std::byte> memory) noexcept
	{
		return open(device, memory, 0);
	}
	/// To receive into, and to send from.
	static result<Region> to_receive(const Device &device, std::span<std::byte> memory) noexcept
	{
		return open(device, memory, IBRELK_REGION_WRITE);
	}
	/// For peers that know its key to put into, and for all of the above.
	static result<Region> to_put(const Device &device, std::span<std::byte> memory) noexcept
	{
		return open(device, memory, IBRELK_REGION_WRITE | IBRELK_REGION_REMOTE_WRITE);
	}

	/// For peers that know its key to get from, and to send from.
	static result<Region> to_get(const Device &device, std::span<const std::byte> memory) noexcept
	{
		return open(device, memory, IBRELK_REGION_REMOTE_READ);
	}
	/// For all of that.
	static result<Region> to_share(const Device &device, std::span<std::byte> memory) noexcept
	{
		return open(device, memory,
			IBRELK_REGION_WRITE | IBRELK_REGION_REMOTE_WRITE | IBRELK_REGION_REMOTE_READ);
	}

	/// By which peers put into it, or get from it; 0 if they may do neither.
	[[nodiscard]] std::uint64_t key() const noexcept
	{
		return ibrelk_region_key(handle_.get());
	}

private:
	static result<Region> open(
		const Device &device, std::span<const std::byte> memory, std::uint32_t flags) noexcept
	{
		::ibrelk_region *handle = nullptr;
		if (int code = ibrelk_region_open(
			    device.handle(), memory.data(), memory.size(), flags, &handle);
			code < 0)
			return failure(code);
		return Region(handle);
	}
	explicit Region(::ibrelk_region *handle) noexcept : handle_(handle)
	{
	}

	detail::owner<::ibrelk_region, ibrelk_region_close> handle_;
};

/// What an endpoint should be like; everything has a good default.
struct EndpointOptions {
	std::uint32_t mode = IBRELK_MODE_DEFAULT;
	std::uint32_t door = IBRELK_DOOR_AUTO;
	Address local{};
	std::uint64_t job_key = 0;
	std::uint64_t unexpected_bytes = 0;
	std::uint32_t sends = 0;
	std::uint32_t recvs = 0;
};

/// An endpoint: sends and receives messages, whose completions go to its rings.
class Endpoint
{
public:
	static result<Endpoint> create(const Device &device, Ring &send_ring, Ring &recv_ring,
		const EndpointOptions &options = {}) noexcept
	{
		::ibrelk_endpoint_options raw{};
		raw.mode = options.mode;
		raw.door = options.door;
		raw.send_ring = send_ring.handle();
		raw.recv_ring = recv_ring.handle();
		raw.local = options.local.raw();
		raw.job_key = options.job_key;
		raw.unexpected_bytes = options.unexpected_bytes;
		raw.sends = options.sends;
		raw.recvs = options.recvs;

		::ibrelk_endpoint *handle = nullptr;
		if (int code = ibrelk_endpoint_open(device.handle(), &raw, &handle); code < 0)
			return failure(code);
		return Endpoint(handle);
	}
	static result<Endpoint> create(
		const Device &device, Ring &ring, const EndpointOptions &options = {}) noexcept
	{
		return create(device, ring, ring, options);
	}

	/// Names a peer; no communication.
	result<Peer> peer_add(const Address &address) noexcept
	{
		Peer peer = any_peer;
		if (int code = ibrelk_endpoint_peer_add(handle_.get(), &address.raw(), &peer); code < 0)
			return failure(code);
		return peer;
	}
	/// Address of a peer, such as the source in a completion.
	result<Address> peer_query(Peer peer) noexcept
	{
		::ibrelk_addr raw{};
		if (int code = ibrelk_endpoint_peer_query(handle_.get(), peer, &raw); code < 0)
			return failure(code);
		return Address(raw);
	}

	/// Submits a batch; returns how many were accepted, 0 if nothing fits now.
	result<std::uint32_t> submit(std::span<const Command> commands) noexcept
	{
		return detail::count(ibrelk_endpoint_submit(
			handle_.get(), commands.data(), static_cast<std::uint32_t>(commands.size())));
	}
	/// Waits until there is room for a command of this kind; false if time ran out.
	result<bool> wait_room(
		std::uint8_t opcode = IBRELK_OP_SEND, std::chrono::nanoseconds timeout = no_limit) noexcept
	{
		int code = ibrelk_endpoint_wait_room(handle_.get(), opcode, detail::limit(timeout));
		if (code < 0)
			return failure(code);
		return code > 0;
	}
	/// Submits a whole batch, handing completions of the ring to a function (which must not throw) to
	/// make room; returns how many were accepted.
	template<class F>
	result<std::uint32_t> submit_all(std::span<const Command> commands, Ring &ring, F &&handle_completion,
		std::chrono::nanoseconds timeout = no_limit) noexcept
	{
		using Function = std::remove_reference_t<F>;
		auto forward = [](void *context, const Completion *completion) noexcept {
			(*static_cast<Function *>(context))(*completion);
		};
		auto *context =
			const_cast<void *>(static_cast<const void *>(std::addressof(handle_completion)));
		return detail::count(ibrelk_endpoint_submit_all(handle_.get(), commands.data(),
			static_cast<std::uint32_t>(commands.size()), ring.handle(), forward, context,
			detail::limit(timeout)));
	}

	/// Sends one message. EAGAIN: nothing fits now.
	result<void> send(Peer peer, std::span<const std::byte> message, std::uint64_t tag,
		std::uint64_t user_data = 0) noexcept
	{
		return detail::check(ibrelk_endpoint_send(
			handle_.get(), peer, message.data(), message.size(), tag, user_data));
	}
	/// Writes into a region of the peer's process, by its key. EAGAIN: nothing fits now.
	result<void> put(Peer peer, std::span<const std::byte> data, std::uint64_t address, std::uint64_t key,
		std::uint64_t user_data = 0) noexcept
	{
		return detail::check(ibrelk_endpoint_put(
			handle_.get(), peer, data.data(), data.size(), address, key, user_data));
	}
	/// Reads from a region of the peer's process, by its key. EAGAIN: nothing fits now.
	result<void> get(Peer peer, std::span<std::byte> buffer, std::uint64_t address, std::uint64_t key,
		std::uint64_t user_data = 0) noexcept
	{
		return detail::check(ibrelk_endpoint_get(
			handle_.get(), peer, buffer.data(), buffer.size(), address, key, user_data));
	}
	/// Computes in a region of the peer's process, by its key: see ibrelk_command_atomic(). EAGAIN:
	/// nothing fits now.
	result<void> atomic(Peer peer, std::uint32_t what, const void *operand, const void *compare,
		void *before, std::size_t bytes, std::uint64_t address, std::uint64_t key,
		std::uint64_t user_data = 0) noexcept
	{
		return detail::check(ibrelk_endpoint_atomic(
			handle_.get(), peer, what, operand, compare, before, bytes, address, key, user_data));
	}
	/// Posts one receive. EAGAIN: nothing fits now.
	result<void> recv(Peer peer, std::span<std::byte> buffer, std::uint64_t tag, std::uint64_t ignore = 0,
		std::uint64_t user_data = 0) noexcept
	{
		return detail::check(ibrelk_endpoint_recv(
			handle_.get(), peer, buffer.data(), buffer.size(), tag, ignore, user_data));
	}
	/// Posts a receive of up to `messages` messages, one after the other in one buffer. It ends when
	/// fewer than `room` bytes are left. EAGAIN: nothing fits now.
	result<void> recv_multi(Peer peer, std::span<std::byte> buffer, std::uint32_t messages,
		std::uint64_t tag, std::uint64_t ignore = 0, std::uint64_t user_data = 0,
		std::uint64_t room = 0) noexcept
	{
		Command command = ibrelk_command_recv_multi(
			peer, buffer.data(), buffer.size(), messages, tag, ignore, user_data);
		command.room = room;
		auto accepted = submit({&command, 1});
		if (accepted && *accepted == 1)
			return {};
		return failure(accepted ? EAGAIN : accepted.error());
	}
	/// Looks for a message that a receive would take now; the completion describes it, or says ENOMSG.
	result<void> probe(
		Peer peer, std::uint64_t tag, std::uint64_t ignore = 0, std::uint64_t user_data = 0) noexcept
	{
		return detail::check(ibrelk_endpoint_probe(handle_.get(), peer, tag, ignore, user_data));
	}
	/// The same, and the message is kept for whoever names the completion's claim.
	result<void> claim(
		Peer peer, std::uint64_t tag, std::uint64_t ignore = 0, std::uint64_t user_data = 0) noexcept
	{
		return detail::check(ibrelk_endpoint_claim(handle_.get(), peer, tag, ignore, user_data));
	}
	/// Receives a message that was claimed. ENOENT: no such claim.
	result<void> recv_claimed(
		std::uint64_t claim, std::span<std::byte> buffer, std::uint64_t user_data = 0) noexcept
	{
		return detail::check(ibrelk_endpoint_recv_claimed(
			handle_.get(), claim, buffer.data(), buffer.size(), user_data));
	}
	/// Throws away a message that was claimed; for its sender it has been received.
	result<void> discard(std::uint64_t claim, std::uint64_t user_data = 0) noexcept
	{
		return detail::check(ibrelk_endpoint_discard(handle_.get(), claim, user_data));
	}
	/// Cancels the posted receives that carry this user_data.
	result<void> cancel(std::uint64_t target, std::uint64_t user_data = 0) noexcept
	{
		return detail::check(ibrelk_endpoint_cancel(handle_.get(), target, user_data));
	}

	[[nodiscard]] Address address() const noexcept
	{
		::ibrelk_addr raw{};
		ibrelk_endpoint_address(handle_.get(), &raw);
		return Address(raw);
	}
	[[nodiscard]] ::ibrelk_mode mode() const noexcept
	{
		return ibrelk_endpoint_mode(handle_.get());
	}
	[[nodiscard]] ::ibrelk_door door() const noexcept
	{
		return ibrelk_endpoint_door(handle_.get());
	}
	[[nodiscard]] int fd() const noexcept
	{
		return ibrelk_endpoint_fd(handle_.get());
	}
	[[nodiscard]] ::ibrelk_endpoint *handle() const noexcept
	{
		return handle_.get();
	}

private:
	explicit Endpoint(::ibrelk_endpoint *handle) noexcept : handle_(handle)
	{
	}

	detail::owner<::ibrelk_endpoint, ibrelk_endpoint_close> handle_;
};

} // namespace ibrelk
