// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Two nodes say hello: "hello" waits for a message and answers, "hello 10.1.0.2:77" sends one there.
#include <array>
#include <cstdio>
#include <cstdlib>

#include <ibrelk/ibrelk.hpp>

// Fetches the value of a result, or says what is wrong and ends the program.
template<class T>
static T need(ibrelk::result<T> result, ibrelk_call call)
{
	if (!result) {
		std::fprintf(stderr, "hello: %s\n", ibrelk_error_text(call, result.error()));
		std::exit(1);
	}
	return *std::move(result);
}

static ibrelk::Completion complete(ibrelk::Ring &ring)
{
	need(ring.wait(), IBRELK_CALL_WAIT);
	auto completion = *ring.next();
	need(completion.status ? ibrelk::result<int>(ibrelk::failure(completion.status)) : 0,
		IBRELK_CALL_COMPLETION);
	return completion;
}

int main(int argc, char **argv)
{
	constexpr std::uint64_t tag = 1;
	std::array<std::byte, 64> buffer;
	const auto hello = std::as_bytes(std::span("hello"));
	ibrelk::EndpointOptions options;

	if (argc < 2)
		options.local.set_endpoint(77);

	auto device = need(ibrelk::Device::open(), IBRELK_CALL_OPEN);
	auto ring = need(ibrelk::Ring::create(device, 16), IBRELK_CALL_RING_CREATE);
	auto endpoint = need(ibrelk::Endpoint::create(device, ring, options), IBRELK_CALL_ENDPOINT_CREATE);

	if (!endpoint.recv(ibrelk::any_peer, buffer, tag))
		return 1;
	if (argc > 1) { // speak first, and wait until the message is out
		auto address = need(ibrelk::Address::from_text(argv[1]), IBRELK_CALL_ADDRESS);
		auto peer = need(endpoint.peer_add(address), IBRELK_CALL_PEER);
		if (!endpoint.send(peer, hello, tag))
			return 1;
		complete(ring);
	}
	auto received = complete(ring);
	auto source = need(endpoint.peer_query(received.peer), IBRELK_CALL_PEER);
	std::printf("%s from %s\n", reinterpret_cast<char *>(buffer.data()), source.text().c_str());
	if (argc < 2 && endpoint.send(received.peer, hello, tag))
		complete(ring);
	return 0;
}
