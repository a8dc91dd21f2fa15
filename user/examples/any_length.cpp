// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Messages of any length: "any_length" receives them until an empty one has come, and
// "any_length 10.1.0.2:77 100 20000000 0" sends some there, of these lengths.
//
// A claim does not wait for a message. So each message is followed by a note, its checksum: what an endpoint
// sends to another arrives in order, and whoever has received the note finds the message.
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include <ibrelk/ibrelk.hpp>

constexpr std::uint64_t message_tag = 1, note_tag = 2;
constexpr std::uint64_t longest = 64 << 20; // that is received: a sender may announce any length

static void say(ibrelk_call call, int error)
{
	std::fprintf(stderr, "any_length: %s\n", ibrelk_error_text(call, error));
}

// Fetches the value of a result, if it has any, or says what is wrong and ends the program.
template<class T>
static T need(ibrelk::result<T> result, ibrelk_call call)
{
	if (!result) {
		say(call, result.error());
		std::exit(1);
	}
	if constexpr (!std::is_void_v<T>)
		return *std::move(result);
}

// A region saves time where the same memory is used often. Without one, everything works as well.
static std::optional<ibrelk::Region> wish(ibrelk::result<ibrelk::Region> region)
{
	if (region)
		return *std::move(region);
	say(IBRELK_CALL_REGION, region.error());
	return std::nullopt;
}

// Waits for the next completion; nothing if it is of a command that failed.
static std::optional<ibrelk::Completion> complete(ibrelk::Ring &ring)
{
	need(ring.wait(), IBRELK_CALL_WAIT);
	auto completion = ring.next();
	if (completion->status == 0)
		return completion;
	say(IBRELK_CALL_COMPLETION, completion->status);
	return std::nullopt;
}

static std::uint64_t checksum(std::span<const std::byte> message)
{
	std::uint64_t sum = message.size();
	for (std::byte byte : message)
		sum = sum * 31 + std::to_integer<std::uint64_t>(byte);
	return sum;
}

static void receive(const ibrelk::Device &device, ibrelk::Ring &ring, ibrelk::Endpoint &endpoint)
{
	std::vector<std::byte> memory; // used again and again, until a longer message comes
	std::optional<ibrelk::Region> region;
	auto run = [&](ibrelk::result<void> submitted) {
		need(submitted, IBRELK_CALL_SUBMIT);
		return complete(ring);
	};

	for (bool over = false; !over;) {
		std::uint64_t sum = 0;
		auto note = run(endpoint.recv(
			ibrelk::any_peer, std::as_writable_bytes(std::span(&sum, 1)), note_tag));
		if (!note)
			continue;
		auto claimed = run(endpoint.claim(note->peer, message_tag));
		if (!claimed)
			continue;
		if (claimed->length > longest) {
			std::printf("%llu bytes: discarded\n", claimed->length);
			run(endpoint.discard(claimed->claim));
			continue;
		}
		if (claimed->length > memory.size()) {
			region.reset();
			memory = std::vector<std::byte>(claimed->length);
			region = wish(ibrelk::Region::to_receive(device, memory));
		}
		auto message = std::span(memory).first(claimed->length);
		if (!run(endpoint.recv_claimed(claimed->claim, message)))
			continue;
		std::printf("%zu bytes: %s\n", message.size(), checksum(message) == sum ? "good" : "BAD");
		over = message.empty();
	}
}

static void send(const ibrelk::Device &device, ibrelk::Ring &ring, ibrelk::Endpoint &endpoint,
	ibrelk::Peer peer, std::span<char *> lengths)
{
	std::vector<std::byte> memory(1);

	for (const char *length : lengths)
		memory.resize(std::max<std::size_t>(memory.size(), std::strtoull(length, nullptr, 10)));
	for (std::size_t i = 0; i < memory.size(); i++)
		memory[i] = static_cast<std::byte>(i + i / 251);
	auto region = wish(ibrelk::Region::to_send(device, memory));
	for (const char *length : lengths) {
		auto message = std::span(memory).first(std::strtoull(length, nullptr, 10));
		auto sum = checksum(message);
		need(endpoint.send(peer, message, message_tag), IBRELK_CALL_SUBMIT);
		need(endpoint.send(peer, std::as_bytes(std::span(&sum, 1)), note_tag), IBRELK_CALL_SUBMIT);
		// Of both, in any order. A long message has been received when it is complete.
		if (!complete(ring) || !complete(ring))
			std::exit(1);
	}
}

int main(int argc, char **argv)
{
	ibrelk::EndpointOptions options;

	if (argc < 2)
		options.local.set_endpoint(77);

	auto device = need(ibrelk::Device::open(), IBRELK_CALL_OPEN);
	auto ring = need(ibrelk::Ring::create(device, 16), IBRELK_CALL_RING_CREATE);
	auto endpoint = need(ibrelk::Endpoint::create(device, ring, options), IBRELK_CALL_ENDPOINT_CREATE);

	if (argc < 2) {
		receive(device, ring, endpoint);
	} else {
		auto address = need(ibrelk::Address::from_text(argv[1]), IBRELK_CALL_ADDRESS);
		auto peer = need(endpoint.peer_add(address), IBRELK_CALL_PEER);
		send(device, ring, endpoint, peer, std::span(argv, argc).subspan(2));
	}
	return 0;
}
