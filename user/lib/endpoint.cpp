// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Endpoints: made, asked, fed with commands. The only thing here that is more than a call is
// ibrelk_endpoint_submit_all(), which waits for room on behalf of programs that do not want to.
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <new>

#include <poll.h>

#include <ibrelk/ibrelk.h>

#include "device.hpp"
#include "door.hpp"
#include "ring.hpp"
#include "system.hpp"

namespace sys = ibrelk::system;

struct ibrelk_endpoint {
	int fd = -1;
	ibrelk_mode mode = IBRELK_MODE_DEFAULT;
	ibrelk_addr local{};
	ibrelk::Door door;
};

namespace
{

// A full endpoint gets room when a command is over. One that leaves no completion wakes nobody who waits for
// the ring, so that we look again now and then: soon at first, then every millisecond.
constexpr std::uint64_t look_again_min_ns = 20'000;
constexpr std::uint64_t look_again_max_ns = 1'000'000;

bool is_zero(const std::uint64_t (&reserved)[4])
{
	return std::all_of(std::begin(reserved), std::end(reserved), [](std::uint64_t r) { return r == 0; });
}

int create_in_kernel(const ibrelk_device *device, const ibrelk_endpoint_options *options,
	const char *environment, ibrelk_endpoint *endpoint)
{
	ibrelk_endpoint_create create{};
	const ibrelk_ring *recv_ring = options->recv_ring ? options->recv_ring : options->send_ring;

	create.mode = options->mode;
	create.send_ring = options->send_ring->fd;
	create.recv_ring = recv_ring->fd;
	create.local = options->local;
	create.job_key = options->job_key;
	create.unexpected_bytes = options->unexpected_bytes;
	create.sends = options->sends;
	create.recvs = options->recvs;
	create.fd = -1;

	int error = sys::ioctl(device->fd, IBRELK_IOC_ENDPOINT_CREATE, &create);

	if (error < 0)
		return error;
	endpoint->fd = create.fd;
	endpoint->mode = static_cast<ibrelk_mode>(create.mode);
	endpoint->local = create.local;
	return endpoint->door.open(create.fd, options->door, environment);
}

int submit_one(ibrelk_endpoint *endpoint, const ibrelk_command &command)
{
	int accepted = endpoint->door.submit(&command, 1);

	if (accepted < 0)
		return accepted;
	return accepted == 1 ? 0 : -EAGAIN;
}

// Hands what is in the ring to the handler; returns how many. No more than fit in it: they may come as fast
// as they are handled.
std::uint32_t drain(ibrelk_ring *ring, ibrelk_completion_handler handler, void *context)
{
	std::uint32_t run = 0;
	std::uint32_t total = 0;

	// The copy lets the handler submit and poll as it likes.
	for (ibrelk_completion completion;
		total <= ring->mask && (run = ibrelk_ring_poll(ring, &completion, 1)) != 0; total += run)
		handler(context, &completion);
	return total;
}

} // namespace

extern "C" int ibrelk_endpoint_open(const struct ibrelk_device *device,
	const struct ibrelk_endpoint_options *options, struct ibrelk_endpoint **endpoint) noexcept
{
	const sys::KeepErrno keep; // new, too

	if (!options->send_ring || !is_zero(options->reserved))
		return -EINVAL;

	auto *made = new (std::nothrow) ibrelk_endpoint;

	if (!made)
		return -ENOMEM;

	int error = create_in_kernel(device, options, std::getenv("IBRELK_DOOR"), made);

	if (error < 0) {
		ibrelk_endpoint_close(made);
		return error;
	}
	*endpoint = made;
	return 0;
}

extern "C" void ibrelk_endpoint_close(struct ibrelk_endpoint *endpoint) noexcept
{
	if (!endpoint)
		return;

	int fd = endpoint->fd;

	delete endpoint;
	if (fd >= 0)
		sys::close(fd);
}

extern "C" int ibrelk_endpoint_fd(const struct ibrelk_endpoint *endpoint) noexcept
{
	return endpoint->fd;
}

extern "C" enum ibrelk_door ibrelk_endpoint_door(const struct ibrelk_endpoint *endpoint) noexcept
{
	return endpoint->door.kind();
}

extern "C" enum ibrelk_mode ibrelk_endpoint_mode(const struct ibrelk_endpoint *endpoint) noexcept
{
	return endpoint->mode;
}

extern "C" void ibrelk_endpoint_address(
	const struct ibrelk_endpoint *endpoint, struct ibrelk_addr *address) noexcept
{
	*address = endpoint->local;
}

extern "C" int ibrelk_endpoint_peer_add(
	struct ibrelk_endpoint *endpoint, const struct ibrelk_addr *address, uint32_t *handle) noexcept
{
	ibrelk_peer peer{};

	peer.addr = *address;

	int error = sys::ioctl(endpoint->fd, IBRELK_IOC_PEER_ADD, &peer);

	if (error < 0)
		return error;
	*handle = peer.handle;
	return 0;
}

extern "C" int ibrelk_endpoint_peer_query(
	struct ibrelk_endpoint *endpoint, uint32_t handle, struct ibrelk_addr *address) noexcept
{
	ibrelk_peer peer{};

	peer.handle = handle;

	int error = sys::ioctl(endpoint->fd, IBRELK_IOC_PEER_QUERY, &peer);

	if (error < 0)
		return error;
	*address = peer.addr;
	return 0;
}

extern "C" int ibrelk_endpoint_submit(
	struct ibrelk_endpoint *endpoint, const struct ibrelk_command *commands, uint32_t count) noexcept
{
	return endpoint->door.submit(commands, count);
}

extern "C" int ibrelk_endpoint_wait_room(
	struct ibrelk_endpoint *endpoint, uint8_t opcode, uint64_t timeout_ns) noexcept
{
	switch (opcode) {
	case IBRELK_OP_RECV:
	case IBRELK_OP_RECV_MULTI: return sys::poll(endpoint->fd, POLLWRBAND, timeout_ns);
	case IBRELK_OP_PROBE:
	case IBRELK_OP_CLAIM:
	case IBRELK_OP_DISCARD:
	case IBRELK_OP_CANCEL: return sys::poll(endpoint->fd, POLLPRI, timeout_ns);
	default: return sys::poll(endpoint->fd, POLLOUT, timeout_ns);
	}
}

extern "C" int ibrelk_endpoint_submit_all(struct ibrelk_endpoint *endpoint,
	const struct ibrelk_command *commands, uint32_t count, struct ibrelk_ring *ring,
	ibrelk_completion_handler handler, void *context, uint64_t timeout_ns) noexcept
{
	// A part at a time: the kernel limits batches, and each is at least this long.
	constexpr std::uint32_t part_max = 64;
	const std::uint64_t start_ns = sys::now_ns();
	std::uint64_t pause_ns = look_again_min_ns;
	std::uint32_t done = 0;
	bool stalled = false;
	bool late = false;

	if (count == 0 || (ring && !handler))
		return -EINVAL;
	for (;;) {
		const int accepted = endpoint->door.submit(commands + done, std::min(count - done, part_max));

		if (accepted < 0)
			return done ? static_cast<int>(done) : accepted;
		done += static_cast<std::uint32_t>(accepted);
		if (done == count)
			return static_cast<int>(done);
		if (accepted > 0) {
			pause_ns = look_again_min_ns;
			stalled = false;
		}

		const bool drained = ring && drain(ring, handler, context) > 0;

		if (accepted > 0)
			continue;

		const std::uint64_t waited_ns = sys::now_ns() - start_ns;

		// What was taken from the ring may have made room: that is tried once more, and once only.
		if (waited_ns >= timeout_ns && (late || !drained))
			return done ? static_cast<int>(done) : -ETIMEDOUT;
		late = waited_ns >= timeout_ns;
		if (drained)
			continue;
		pause_ns = std::min(pause_ns, timeout_ns - waited_ns);
		if (ring) {
			const ibrelk_wait_options wait{1, 0, pause_ns, 0, 0};
			const int error = ibrelk_ring_wait_for(ring, &wait);

			if (error < 0)
				return done ? static_cast<int>(done) : error;
		} else {
			const int room = ibrelk_endpoint_wait_room(endpoint, commands[done].opcode,
				timeout_ns == IBRELK_NO_LIMIT ? IBRELK_NO_LIMIT : timeout_ns - waited_ns);

			if (room < 0)
				return done ? static_cast<int>(done) : room;
			// Room, and yet nothing is accepted: the kernel is short of something else.
			if (stalled)
				sys::sleep_ns(pause_ns);
			stalled = room > 0;
		}
		pause_ns = std::min(pause_ns * 2, look_again_max_ns);
	}
}

extern "C" int ibrelk_endpoint_send(struct ibrelk_endpoint *endpoint, uint32_t peer, const void *buffer,
	uint64_t bytes, uint64_t tag, uint64_t user_data) noexcept
{
	return submit_one(endpoint, ibrelk_command_send(peer, buffer, bytes, tag, user_data));
}

extern "C" int ibrelk_endpoint_put(struct ibrelk_endpoint *endpoint, uint32_t peer, const void *buffer,
	uint64_t bytes, uint64_t address, uint64_t key, uint64_t user_data) noexcept
{
	return submit_one(endpoint, ibrelk_command_put(peer, buffer, bytes, address, key, user_data));
}

extern "C" int ibrelk_endpoint_atomic(struct ibrelk_endpoint *endpoint, uint32_t peer, uint32_t what,
	const void *operand, const void *compare, void *before, uint64_t bytes, uint64_t address,
	uint64_t key, uint64_t user_data) noexcept
{
	return submit_one(endpoint,
		ibrelk_command_atomic(peer, what, operand, compare, before, bytes, address, key, user_data));
}

extern "C" int ibrelk_endpoint_get(struct ibrelk_endpoint *endpoint, uint32_t peer, void *buffer,
	uint64_t bytes, uint64_t address, uint64_t key, uint64_t user_data) noexcept
{
	return submit_one(endpoint, ibrelk_command_get(peer, buffer, bytes, address, key, user_data));
}

extern "C" int ibrelk_endpoint_recv(struct ibrelk_endpoint *endpoint, uint32_t peer, void *buffer,
	uint64_t bytes, uint64_t tag, uint64_t ignore, uint64_t user_data) noexcept
{
	return submit_one(endpoint, ibrelk_command_recv(peer, buffer, bytes, tag, ignore, user_data));
}

extern "C" int ibrelk_endpoint_cancel(
	struct ibrelk_endpoint *endpoint, uint64_t target, uint64_t user_data) noexcept
{
	return submit_one(endpoint, ibrelk_command_cancel(target, user_data));
}

extern "C" int ibrelk_endpoint_recv_multi(struct ibrelk_endpoint *endpoint, uint32_t peer, void *buffer,
	uint64_t bytes, uint32_t messages, uint64_t tag, uint64_t ignore, uint64_t user_data) noexcept
{
	return submit_one(
		endpoint, ibrelk_command_recv_multi(peer, buffer, bytes, messages, tag, ignore, user_data));
}

extern "C" int ibrelk_endpoint_probe(struct ibrelk_endpoint *endpoint, uint32_t peer, uint64_t tag,
	uint64_t ignore, uint64_t user_data) noexcept
{
	return submit_one(endpoint, ibrelk_command_probe(peer, tag, ignore, user_data));
}

extern "C" int ibrelk_endpoint_claim(struct ibrelk_endpoint *endpoint, uint32_t peer, uint64_t tag,
	uint64_t ignore, uint64_t user_data) noexcept
{
	return submit_one(endpoint, ibrelk_command_claim(peer, tag, ignore, user_data));
}

extern "C" int ibrelk_endpoint_recv_claimed(struct ibrelk_endpoint *endpoint, uint64_t claim, void *buffer,
	uint64_t bytes, uint64_t user_data) noexcept
{
	return submit_one(endpoint, ibrelk_command_recv_claimed(claim, buffer, bytes, user_data));
}

extern "C" int ibrelk_endpoint_discard(
	struct ibrelk_endpoint *endpoint, uint64_t claim, uint64_t user_data) noexcept
{
	return submit_one(endpoint, ibrelk_command_discard(claim, user_data));
}
