// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// See side.hpp.
#include "side.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <ctime>

#include <fmt/format.h>

#include "../failure.hpp"

namespace perf
{

namespace
{

// Control messages that nobody has looked at yet; more are dropped, their senders repeat them.
constexpr std::size_t control_queue_max = 64;

// A server does not know what windows its clients will ask for.
constexpr std::uint32_t server_ring_entries = 4096;

std::uint32_t ring_entries(const Options &options, const ibrelk::Query &query)
{
	std::uint32_t wanted = options.ring_entries;

	if (!wanted)
		wanted = options.role == Role::server ? server_ring_entries : 4 * options.window + 64;
	return std::min(wanted, query.ring_entries_max);
}

constexpr std::size_t counter_count = sizeof(ibrelk_counters) / sizeof(std::uint64_t);
using CounterArray = std::array<std::uint64_t, counter_count>;

} // namespace

std::uint64_t now_ns() noexcept
{
	timespec time;

	::clock_gettime(CLOCK_MONOTONIC, &time);
	return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000u +
		static_cast<std::uint64_t>(time.tv_nsec);
}

ibrelk_counters subtract(const ibrelk_counters &a, const ibrelk_counters &b) noexcept
{
	auto left = std::bit_cast<CounterArray>(a);
	const auto right = std::bit_cast<CounterArray>(b);

	for (std::size_t i = 0; i < left.size(); i++)
		left[i] -= right[i];
	return std::bit_cast<ibrelk_counters>(left);
}

ibrelk_counters add(const ibrelk_counters &a, const ibrelk_counters &b) noexcept
{
	return subtract(a, subtract({}, b));
}

Link::Link(ibrelk::Endpoint endpoint_, std::uint8_t index_, std::uint64_t recv_tag) :
	endpoint(std::move(endpoint_)), index(index_), recv_tag_(recv_tag)
{
	for (std::uint32_t slot = 0; slot < control_slots; slot++)
		post_control(slot);
}

void Link::post_control(std::uint32_t slot)
{
	const Cookie cookie{Cookie::Kind::control_recv, index, 0, slot};
	auto posted = endpoint.recv(ibrelk::any_peer,
		std::as_writable_bytes(std::span(&buffers_->recv[slot], 1)), recv_tag_, 0, cookie.pack());

	if (!posted)
		throw tool::Failure(IBRELK_CALL_SUBMIT, posted.error(), "cannot post a receive");
}

void Link::send_control(ibrelk::Peer peer, const Control &message, std::uint64_t tag) noexcept
{
	if (!sends_free_)
		return;

	const auto slot = static_cast<std::uint32_t>(std::countr_zero(sends_free_));
	const Cookie cookie{Cookie::Kind::control_send, index, 0, slot};

	buffers_->send[slot] = message;

	auto sent =
		endpoint.send(peer, std::as_bytes(std::span(&buffers_->send[slot], 1)), tag, cookie.pack());

	if (sent)
		sends_free_ &= ~(1u << slot);
	else if (sent.error() != EAGAIN)
		control_error_ = sent.error();
}

Side::Side(const Options &options, std::uint64_t recv_tag, const std::atomic<bool> &stop) :
	options_(options), recv_tag_(recv_tag), stop_(stop),
	device_(tool::need(ibrelk::Device::open(), IBRELK_CALL_OPEN, "cannot open " IBRELK_DEVICE_PATH)),
	query_(tool::need(device_.query(), IBRELK_CALL_DEVICE, "cannot query the module")),
	ring_(tool::need(ibrelk::Ring::create(device_, ring_entries(options, query_)),
		IBRELK_CALL_RING_CREATE, "cannot create a ring")),
	wait_(options.wait)
{
}

Link &Side::add_link(std::uint32_t mode, const ibrelk::Address &local)
{
	ibrelk::EndpointOptions wanted;

	wanted.mode = mode;
	wanted.door = options_.door;
	wanted.local = local;
	wanted.job_key = options_.job_key;
	wanted.unexpected_bytes = options_.unexpected_bytes;
	wanted.sends = options_.sends;
	wanted.recvs = options_.recvs;

	auto endpoint = tool::need(ibrelk::Endpoint::create(device_, ring_, wanted),
		IBRELK_CALL_ENDPOINT_CREATE,
		fmt::format("cannot create a {} endpoint at {}", ibrelk_mode_name(mode), local.text()));

	return links_.emplace_back(std::move(endpoint), static_cast<std::uint8_t>(links_.size()), recv_tag_);
}

std::uint32_t Side::pump(std::uint32_t count, std::uint64_t timeout_ns, DataHandler *data)
{
	ibrelk::WaitOptions wait{};

	wait.count = std::clamp(count, 1u, ring_.entries());
	wait.timeout_ns = timeout_ns;
	switch (wait_.kind) {
	case WaitKind::hybrid: wait.spin_ns = wait_.time_ns; break;
	case WaitKind::events: break;
	case WaitKind::busy_poll: wait.busy_poll_ns = wait_.time_ns; break;
	case WaitKind::spin: wait.spin_ns = timeout_ns; break;
	}
	if (auto there = ring_.wait(wait); !there && there.error() != EINTR)
		throw tool::Failure(IBRELK_CALL_WAIT, there.error(), "cannot wait for completions");
	return poll(data);
}

std::uint32_t Side::poll(DataHandler *data)
{
	dispatched_data_ = 0;
	ring_.drain([&](const ibrelk::Completion &completion) { dispatch(completion, data); });
	return dispatched_data_;
}

void Side::dispatch(const ibrelk::Completion &completion, DataHandler *data)
{
	const Cookie cookie = Cookie::unpack(completion.user_data);

	if (cookie.link >= links_.size())
		return;

	Link &link = links_[cookie.link];

	switch (cookie.kind) {
	case Cookie::Kind::control_recv: handle_control_recv(link, cookie, completion); break;
	case Cookie::Kind::control_send:
		link.sends_free_ |= 1u << cookie.slot;
		link.control_error_ = -completion.status;
		break;
	case Cookie::Kind::data_recv:
	case Cookie::Kind::data_send:
		if (data && cookie.epoch == epoch_) {
			data->on_data(cookie, completion);
			dispatched_data_++;
		}
		break;
	case Cookie::Kind::cancel: break;
	}
}

void Side::handle_control_recv(Link &link, const Cookie &cookie, const ibrelk::Completion &completion)
{
	const Control &message = link.buffers_->recv[cookie.slot];

	if (completion.status == -ECANCELED)
		return;
	// One that failed was of a peer that ended, or was cut off, in the middle of it; others may not, and
	// so may that one later. What is not ours came from another version, or from somebody who guesses
	// tags.
	if (completion.status == 0 && completion.length == sizeof(message) &&
		message.magic == control_magic && message.version == control_version &&
		control_.size() < control_queue_max)
		control_.push_back({&link, completion.peer, message});
	link.post_control(cookie.slot);
}

std::optional<ControlEvent> Side::take_control()
{
	if (control_.empty())
		return std::nullopt;

	std::optional<ControlEvent> event = control_.front();

	control_.pop_front();
	return event;
}

ibrelk_counters Side::counters(std::uint32_t mode) const
{
	CounterArray sum{};

	if (auto paths = device_.dump<ibrelk_path_info>()) {
		for (const ibrelk_path_info &path : *paths) {
			const auto one = std::bit_cast<CounterArray>(path.counters);

			for (std::size_t i = 0; i < sum.size() && path.mode == mode; i++)
				sum[i] += one[i];
		}
	}
	return std::bit_cast<ibrelk_counters>(sum);
}

} // namespace perf
