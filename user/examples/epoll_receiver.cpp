// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// A receiver in an event loop: prints every message that arrives at endpoint 77, until a line is typed.
// The ring's descriptor is readable while it holds completions, so it fits into any loop built on epoll.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <sys/epoll.h>
#include <unistd.h>

#include <ibrelk/ibrelk.hpp>

int main()
{
	constexpr std::uint64_t any_tag = ~std::uint64_t{0};
	std::array<std::array<std::byte, 4096>, 8> buffers;
	ibrelk::EndpointOptions options;
	options.local.set_endpoint(77);

	auto device = ibrelk::Device::open();
	if (!device)
		return std::fprintf(stderr, "%s\n", ibrelk_error_text(IBRELK_CALL_OPEN, device.error())), 1;
	auto ring = ibrelk::Ring::create(*device, 64);
	if (!ring)
		return std::fprintf(stderr, "%s\n", ibrelk_error_text(IBRELK_CALL_RING_CREATE, ring.error())),
		       1;
	auto endpoint = ibrelk::Endpoint::create(*device, *ring, options);
	if (!endpoint)
		return std::fprintf(stderr, "%s\n",
			       ibrelk_error_text(IBRELK_CALL_ENDPOINT_CREATE, endpoint.error())),
		       1;

	auto post = [&](std::uint64_t slot) {
		return bool(endpoint->recv(ibrelk::any_peer, buffers[slot], 0, any_tag, slot));
	};
	for (std::uint64_t slot = 0; slot < buffers.size(); slot++)
		post(slot);

	int loop = ::epoll_create1(EPOLL_CLOEXEC);
	for (int fd : {ring->fd(), STDIN_FILENO}) {
		epoll_event interest{.events = EPOLLIN, .data = {.fd = fd}};
		if (::epoll_ctl(loop, EPOLL_CTL_ADD, fd, &interest) < 0)
			return std::perror("epoll_ctl"), 1;
	}
	for (epoll_event event; ::epoll_wait(loop, &event, 1, -1) >= 0 && event.data.fd != STDIN_FILENO;) {
		// Everything that is there is taken: the descriptor stays readable until the ring is empty.
		ring->drain([&](const ibrelk::Completion &received) {
			auto source = endpoint->peer_query(received.peer);
			std::printf("%llu bytes, tag %llu, status %d, from %s\n", received.length,
				received.tag, received.status, source ? source->text().c_str() : "?");
			post(received.user_data);
		});
	}
	return 0;
}
