// SPDX-License-Identifier: GPL-2.0-only
/*
 * cmpeer is a peer that does not speak the protocol as it should, on the level of the connection manager:
 *
 *	cmpeer call 10.1.0.2 --say version
 *		asks the module at that address for a connection, with a damaged HELLO, and prints what came
 *		of it: "refused 1" (with the reason in the module's answer), "refused by the CM", "accepted",
 *		"no answer"
 *	cmpeer listen 10.1.0.2 --say welcome-echo
 *		answers those who ask for one, where no module is loaded, until it is killed. It prints what
 *		it was asked for
 *
 * With RC or, by --ud, with datagrams: user space cannot make UC connections by the connection manager. No
 * queue pair is ever made.
 */
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <stdexcept>
#include <string>
#include <system_error>

#include <arpa/inet.h>
#include <poll.h>

#include <rdma/rdma_cma.h>

#include <CLI/CLI.hpp>

extern "C" {
#include "reliability/wire.h"
}

namespace
{

constexpr int patience_ms = 20000; // the connection manager repeats what is lost after seconds

struct Options {
	std::string command;
	std::string address;
	std::string say;
	std::uint16_t port = 7470;
	std::uint64_t seed = 1;
	bool ud = false;
};

[[noreturn]] void fail_errno(const std::string &what)
{
	throw std::system_error(errno, std::generic_category(), what);
}

wire_hello hello_of(std::uint8_t step, const Options &options)
{
	wire_hello hello{};

	hello.magic = cpu_to_le32(WIRE_MAGIC);
	hello.version = WIRE_VERSION;
	hello.step = step;
	hello.mode = options.ud ? 6 : 4; /* ud-reliable, rc-reliable */
	std::memset(hello.instance, 0x5a, sizeof hello.instance);
	hello.nonce = cpu_to_le64(0x1122334455667788);
	hello.token = cpu_to_le32(0xdeadbeef);
	hello.qpn = cpu_to_le32(options.ud ? 77 : 0);
	hello.credits = cpu_to_le16(64);
	hello.packet_max = cpu_to_le16(1024);
	return hello;
}

void damage(wire_hello &hello, const Options &options)
{
	const std::string &say = options.say;

	if (say == "version" || say == "welcome-version") {
		hello.version = WIRE_VERSION + 1;
	} else if (say == "magic" || say == "welcome-magic") {
		hello.magic = cpu_to_le32(WIRE_MAGIC ^ 1);
	} else if (say == "mode" || say == "welcome-mode") {
		hello.mode = 5; /* uc-reliable, which is neither RC nor UD */
	} else if (say == "mode-unknown") {
		hello.mode = 99;
	} else if (say == "credits" || say == "welcome-credits") {
		hello.credits = 0;
	} else if (say == "packet-max") {
		hello.packet_max = cpu_to_le16(1);
	} else if (say == "step") {
		hello.step = WIRE_WELCOME;
	} else if (say == "noise" || say == "welcome-noise") {
		std::mt19937_64 random(options.seed);

		for (std::size_t i = 0; i < sizeof hello; i++)
			reinterpret_cast<std::uint8_t *>(&hello)[i] = static_cast<std::uint8_t>(random());
	} else if (say == "welcome-echo") {
		hello.echo ^= cpu_to_le64(1);
	} else if (say != "hello" && say != "welcome") {
		throw std::invalid_argument("cannot say: " + say);
	}
}

sockaddr_in address_of(const Options &options)
{
	sockaddr_in address{};

	address.sin_family = AF_INET;
	address.sin_port = htons(options.port);
	if (inet_pton(AF_INET, options.address.c_str(), &address.sin_addr) != 1)
		throw std::invalid_argument("not an IPv4 address: " + options.address);
	return address;
}

class Channel
{
public:
	Channel() : channel_(rdma_create_event_channel())
	{
		if (!channel_)
			fail_errno("no connection manager");
	}
	~Channel()
	{
		rdma_destroy_event_channel(channel_);
	}
	Channel(const Channel &) = delete;
	Channel &operator=(const Channel &) = delete;

	rdma_cm_id *create(const Options &options)
	{
		rdma_cm_id *id = nullptr;

		if (rdma_create_id(channel_, &id, nullptr, options.ud ? RDMA_PS_UDP : RDMA_PS_TCP))
			fail_errno("cannot make an id");
		return id;
	}

	/* Nothing, if there is none in time. */
	rdma_cm_event *wait(int limit_ms)
	{
		pollfd ready{channel_->fd, POLLIN, 0};
		rdma_cm_event *event = nullptr;

		if (poll(&ready, 1, limit_ms) <= 0)
			return nullptr;
		if (rdma_get_cm_event(channel_, &event))
			fail_errno("no event");
		return event;
	}

	void expect(rdma_cm_event_type type, const char *what)
	{
		rdma_cm_event *event = wait(patience_ms);

		if (!event || event->event != type)
			throw std::runtime_error(std::string(what) + ": " +
				(event ? rdma_event_str(event->event) : "no answer"));
		rdma_ack_cm_event(event);
	}

private:
	rdma_event_channel *channel_;
};

rdma_conn_param param_of(const wire_hello &hello)
{
	rdma_conn_param param{};

	param.private_data = &hello;
	param.private_data_len = sizeof hello;
	param.responder_resources = 1;
	param.initiator_depth = 1;
	param.retry_count = 7;
	param.rnr_retry_count = 7;
	// Soft-RoCE gives out numbers below 2^20. Of one that is in use the CM says that the connection is
	// stale.
	param.qp_num = 0xfffff0;
	return param;
}

const void *data_of(const rdma_cm_event *event, const Options &options, std::size_t &bytes)
{
	bytes = options.ud ? event->param.ud.private_data_len : event->param.conn.private_data_len;
	return options.ud ? event->param.ud.private_data : event->param.conn.private_data;
}

void call(const Options &options)
{
	Channel channel;
	rdma_cm_id *id = channel.create(options);
	sockaddr_in address = address_of(options);
	wire_hello hello = hello_of(WIRE_HELLO, options);
	wire_hello answer{};
	std::size_t bytes = 0;

	damage(hello, options);
	if (rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr *>(&address), patience_ms))
		fail_errno("cannot resolve the address");
	channel.expect(RDMA_CM_EVENT_ADDR_RESOLVED, "address");
	if (rdma_resolve_route(id, patience_ms))
		fail_errno("cannot resolve the route");
	channel.expect(RDMA_CM_EVENT_ROUTE_RESOLVED, "route");

	rdma_conn_param param = param_of(hello);

	if (rdma_connect(id, &param))
		fail_errno("cannot connect");

	rdma_cm_event *event = channel.wait(patience_ms);

	if (!event) {
		std::printf("no answer\n");
		return;
	}

	const void *data = data_of(event, options, bytes);
	const bool refused =
		event->event == RDMA_CM_EVENT_REJECTED || event->event == RDMA_CM_EVENT_UNREACHABLE;

	if (data && bytes >= sizeof answer)
		std::memcpy(&answer, data, sizeof answer);
	if (refused && le32_to_cpu(answer.magic) == WIRE_MAGIC && answer.step == WIRE_REJECT)
		std::printf("refused %u\n", answer.reason);
	else if (refused)
		std::printf("refused by the CM, status %d\n", event->status);
	else if (le32_to_cpu(answer.magic) == WIRE_MAGIC && answer.step == WIRE_WELCOME)
		std::printf("accepted\n");
	else
		std::printf("%s\n", rdma_event_str(event->event));
	rdma_ack_cm_event(event);
	rdma_destroy_id(id);
}

void answer(const Options &options, rdma_cm_id *id, const wire_hello &asked)
{
	const bool welcome = options.say.starts_with("welcome");
	wire_hello hello = hello_of(welcome ? WIRE_WELCOME : WIRE_REJECT, options);

	hello.mode = asked.mode;
	hello.echo = asked.nonce;
	if (options.say == "silence")
		return;
	if (welcome) {
		damage(hello, options);

		rdma_conn_param param = param_of(hello);

		if (rdma_accept(id, &param))
			fail_errno("cannot accept");
		return;
	}
	if (options.say == "refuse-version")
		hello.version = WIRE_VERSION + 1;
	if (options.say.starts_with("refuse-"))
		hello.reason = static_cast<std::uint8_t>(options.say == "refuse-version"
				? +WIRE_REJECT_VERSION
				: std::atoi(options.say.c_str() + 7));
	else if (options.say != "refuse")
		throw std::invalid_argument("cannot say: " + options.say);
	/* "refuse" alone says nothing of ours. */
	if (rdma_reject(id, options.say == "refuse" ? nullptr : &hello,
		    options.say == "refuse" ? 0 : sizeof hello))
		fail_errno("cannot refuse");
}

void listen(const Options &options)
{
	Channel channel;
	rdma_cm_id *id = channel.create(options);
	sockaddr_in address = address_of(options);

	if (rdma_bind_addr(id, reinterpret_cast<sockaddr *>(&address)) || rdma_listen(id, 16))
		fail_errno("cannot listen");
	std::printf("listening\n");
	std::fflush(stdout);
	for (;;) {
		rdma_cm_event *event = channel.wait(-1);
		wire_hello asked{};
		std::size_t bytes = 0;

		if (!event)
			continue;

		const void *data = data_of(event, options, bytes);
		const bool request = event->event == RDMA_CM_EVENT_CONNECT_REQUEST;
		rdma_cm_id *who = event->id;

		std::printf("%s\n", rdma_event_str(event->event));
		std::fflush(stdout);
		if (data && bytes >= sizeof asked)
			std::memcpy(&asked, data, sizeof asked);
		rdma_ack_cm_event(event);
		if (request)
			answer(options, who, asked);
	}
}

} // namespace

int main(int argc, char **argv)
{
	CLI::App app("A peer that does not speak the protocol as it should.");
	Options options;

	app.add_option("COMMAND", options.command, "call or listen")
		->required()
		->check(CLI::IsMember({"call", "listen"}));
	app.add_option("ADDRESS", options.address, "of the peer, or to listen at")->required();
	app.add_option("--say", options.say,
		   "call: hello, version, magic, mode, mode-unknown, credits, packet-max, step, noise; "
		   "listen: "
		   "welcome, welcome-version, -magic, -mode, -credits, -echo, -noise, refuse, "
		   "refuse-version, "
		   "refuse-REASON, silence")
		->required();
	app.add_option("--port", options.port, "of the connection manager");
	app.add_option("--seed", options.seed, "of noise");
	app.add_flag("--ud", options.ud, "datagrams; else RC");
	CLI11_PARSE(app, argc, argv);
	try {
		if (options.command == "call")
			call(options);
		else
			listen(options);
	} catch (const std::exception &error) {
		std::printf("cmpeer: %s\n", error.what());
		return 1;
	}
	return 0;
}
