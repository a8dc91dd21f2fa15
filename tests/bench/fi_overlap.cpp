// SPDX-License-Identifier: GPL-2.0-only
//
// The yardstick of `ibrelk-perf overlap`: the same trials (perf/overlap.hpp) over tagged messages of a
// libfabric provider. While it computes it does not call libfabric either, and its one look afterwards is one
// fi_cq_read().
//
//	fi_overlap serve PROVIDER ADDRESS [DOMAIN]                  one client
//	fi_overlap run PROVIDER ADDRESS SERVER SIZES COUNT [DOMAIN]
//
// The latter prints a table, and then rows as ibrelk-perf appends to its CSV file. PROVIDER is a name of
// libfabric, as "verbs;ofi_rxd" or "tcp;ofi_rxm"; ADDRESS is the own one. DOMAIN chooses an adapter where the
// address does not. Names and what is wanted go over a TCP connection.
//
// As in ibrelk-perf a message is answered by an empty one, or an empty one by a message. Whoever waits polls,
// since that is what this kind of progress needs, and after a while naps between polls: where both ends share
// a processor, the one that computes should not find it taken by the other that has nothing to do.
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <sys/prctl.h>
#include <vector>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#include "perf/overlap.hpp"
#include "socket.hpp"

namespace
{

constexpr std::uint16_t port = 7469;
constexpr std::uint64_t warmup = 2;
constexpr std::uint64_t tag_message = 1;
constexpr std::uint64_t tag_empty = 2;
constexpr unsigned looks_awake = 100;
constexpr long nap_ns = 20'000;

// What the client wants of one run.
struct Request {
	std::uint64_t bytes = 0;
	std::uint64_t count = 0;
	std::uint64_t client_receives = 0;
};

// A name that fi_getname() gives, of either end.
struct Name {
	std::uint64_t bytes = 0;
	std::array<char, 256> data{};
};

void check(long result, const char *call)
{
	if (result < 0)
		throw std::runtime_error(std::string(call) + ": " + fi_strerror(static_cast<int>(-result)));
}

struct Closer {
	template<class T>
	void operator()(T *object) const
	{
		fi_close(&object->fid);
	}
};
template<class T>
using Owned = std::unique_ptr<T, Closer>;

struct InfoCloser {
	void operator()(fi_info *info) const
	{
		fi_freeinfo(info);
	}
};
using Info = std::unique_ptr<fi_info, InfoCloser>;

// The provider's own kind of progress. A send is complete when the other side has the message, if the
// provider can tell, as ibrelk-perf wants it, too.
Info find(const char *provider, const char *address, const char *domain)
{
	for (std::uint64_t completion : {FI_DELIVERY_COMPLETE, FI_TRANSMIT_COMPLETE}) {
		const Info hints(fi_allocinfo());
		fi_info *found = nullptr;

		hints->ep_attr->type = FI_EP_RDM;
		hints->caps = FI_TAGGED;
		hints->mode = FI_CONTEXT;
		hints->tx_attr->op_flags = completion;
		hints->fabric_attr->prov_name = ::strdup(provider);
		if (domain)
			hints->domain_attr->name = ::strdup(domain);
		if (fi_getinfo(FI_VERSION(1, 17), domain ? nullptr : address, nullptr, domain ? 0 : FI_SOURCE,
			    hints.get(), &found) == 0) {
			found->tx_attr->op_flags = completion;
			return Info(found);
		}
	}
	throw std::runtime_error(std::string(provider) + ": there is no such endpoint");
}

// One message of each kind is under way at most.
enum class Kind : unsigned { send_message, receive_message, send_empty, receive_empty, count };

// An endpoint that is connected to one peer.
class Endpoint
{
public:
	explicit Endpoint(Info info) : info_(std::move(info))
	{
		fi_cq_attr cq{};
		fi_av_attr av{};

		cq.format = FI_CQ_FORMAT_CONTEXT;
		cq.wait_obj = FI_WAIT_NONE;
		check(open(fabric_,
			      [&](fid_fabric **p) { return fi_fabric(info_->fabric_attr, p, nullptr); }),
			"fi_fabric");
		check(open(domain_,
			      [&](fid_domain **p) {
				      return fi_domain(fabric_.get(), info_.get(), p, nullptr);
			      }),
			"fi_domain");
		check(open(cq_, [&](fid_cq **p) { return fi_cq_open(domain_.get(), &cq, p, nullptr); }),
			"fi_cq_open");
		check(open(av_, [&](fid_av **p) { return fi_av_open(domain_.get(), &av, p, nullptr); }),
			"fi_av_open");
		check(open(endpoint_,
			      [&](fid_ep **p) {
				      return fi_endpoint(domain_.get(), info_.get(), p, nullptr);
			      }),
			"fi_endpoint");
		check(fi_ep_bind(endpoint_.get(), &av_->fid, 0), "fi_ep_bind");
		check(fi_ep_bind(endpoint_.get(), &cq_->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind");
		check(fi_enable(endpoint_.get()), "fi_enable");
	}

	void meet(Socket &socket)
	{
		Name own;
		Name other;
		std::size_t bytes = own.data.size();

		check(fi_getname(&endpoint_->fid, own.data.data(), &bytes), "fi_getname");
		own.bytes = bytes;
		socket.send(&own, sizeof(own));
		socket.receive(&other, sizeof(other));
		if (fi_av_insert(av_.get(), other.data.data(), 1, &peer_, 0, nullptr) != 1)
			throw std::runtime_error("fi_av_insert does not take the peer's name");
	}

	void prepare(std::uint64_t bytes)
	{
		buffer_.assign(bytes, 'i');
	}

	// Begins something; while the provider has no room, it is given the chance to make some.
	void post(Kind kind)
	{
		const bool message = kind == Kind::send_message || kind == Kind::receive_message;
		const bool send = kind == Kind::send_message || kind == Kind::send_empty;
		void *const data = message ? buffer_.data() : &nothing_;
		const std::size_t bytes = message ? buffer_.size() : 0;
		const std::uint64_t tag = message ? tag_message : tag_empty;
		fi_context *const context = &contexts_[static_cast<unsigned>(kind)];
		long result;

		done_[static_cast<unsigned>(kind)] = false;
		do {
			result = send
				? fi_tsend(endpoint_.get(), data, bytes, nullptr, peer_, tag, context)
				: fi_trecv(endpoint_.get(), data, bytes, nullptr, peer_, tag, 0, context);
			if (result == -FI_EAGAIN)
				poll();
		} while (result == -FI_EAGAIN);
		check(result, send ? "fi_tsend" : "fi_trecv");
	}

	[[nodiscard]] bool done(Kind kind) const
	{
		return done_[static_cast<unsigned>(kind)];
	}

	// One look.
	void poll()
	{
		std::array<fi_cq_entry, static_cast<std::size_t>(Kind::count)> entries{};
		const ssize_t count = fi_cq_read(cq_.get(), entries.data(), entries.size());

		if (count == -FI_EAVAIL) {
			fi_cq_err_entry error{};

			check(fi_cq_readerr(cq_.get(), &error, 0), "fi_cq_readerr");
			throw std::runtime_error(
				std::string("an operation failed: ") + fi_strerror(error.err));
		}
		if (count != -FI_EAGAIN)
			check(count, "fi_cq_read");
		for (ssize_t i = 0; i < count; i++)
			done_[static_cast<std::size_t>(
				static_cast<fi_context *>(entries[static_cast<std::size_t>(i)].op_context) -
				contexts_.data())] = true;
	}

	void wait(Kind kind)
	{
		wait_until([&] { return done(kind); });
	}

	// For the other end's next word, which may need packets of this one before it says it.
	void wait_for(Socket &socket)
	{
		wait_until([&] { return socket.readable(); });
	}

	[[nodiscard]] std::string about() const
	{
		const auto progress = info_->domain_attr->data_progress;

		return std::string(info_->fabric_attr->prov_name) + ", " + info_->domain_attr->name + ", " +
			(progress == FI_PROGRESS_AUTO                    ? "automatic"
					: progress == FI_PROGRESS_MANUAL ? "manual"
									 : "some") +
			" progress, sends complete when " +
			(info_->tx_attr->op_flags & FI_DELIVERY_COMPLETE ? "delivered" : "transmitted");
	}

private:
	template<class F>
	void wait_until(F &&over)
	{
		const timespec nap{0, nap_ns};

		for (unsigned looks = 0; !over(); looks++) {
			if (looks > looks_awake)
				::nanosleep(&nap, nullptr);
			poll();
		}
	}

	template<class T, class F>
	static int open(Owned<T> &owned, F &&call)
	{
		T *object = nullptr;
		const int result = call(&object);

		owned.reset(object);
		return result;
	}

	Info info_;
	Owned<fid_fabric> fabric_;
	Owned<fid_domain> domain_;
	Owned<fid_cq> cq_;
	Owned<fid_av> av_;
	Owned<fid_ep> endpoint_;
	fi_addr_t peer_ = FI_ADDR_UNSPEC;
	std::vector<char> buffer_;
	char nothing_ = 0;
	std::array<fi_context, static_cast<std::size_t>(Kind::count)> contexts_{};
	std::array<bool, static_cast<std::size_t>(Kind::count)> done_{};
};

class Message : public perf::Operation
{
public:
	Message(Endpoint &endpoint, bool receives) : endpoint_(endpoint), receives_(receives)
	{
	}
	bool prepare() override
	{
		if (!receives_)
			endpoint_.post(Kind::receive_empty);
		return true;
	}
	bool post() override
	{
		if (receives_) {
			endpoint_.post(Kind::receive_message);
			endpoint_.post(Kind::send_empty);
		} else {
			endpoint_.post(Kind::send_message);
		}
		return true;
	}
	bool poll() override
	{
		endpoint_.poll();
		return endpoint_.done(kind());
	}
	bool wait() override
	{
		endpoint_.wait(kind());
		return true;
	}
	bool settle() override
	{
		endpoint_.wait(receives_ ? Kind::send_empty : Kind::receive_empty);
		return true;
	}

private:
	[[nodiscard]] Kind kind() const
	{
		return receives_ ? Kind::receive_message : Kind::send_message;
	}

	Endpoint &endpoint_;
	const bool receives_;
};

// All is said. Of libfabric 1.17, fi_close() of an endpoint of ofi_rxd may wait for ever for a lock.
[[noreturn]] void leave()
{
	std::fflush(stdout);
	std::_Exit(0);
}

[[noreturn]] void serve(const char *provider, const char *address, const char *domain)
{
	Endpoint endpoint(find(provider, address, domain));

	std::printf("serving %s\n", endpoint.about().c_str());
	std::fflush(stdout);

	Socket socket = Socket::accept_one(address, port);
	Request request;

	endpoint.meet(socket);
	for (;;) {
		endpoint.wait_for(socket);
		if (!socket.receive_any(&request, sizeof(request)))
			leave();
		const Kind asked = request.client_receives ? Kind::receive_empty : Kind::receive_message;
		const Kind answer = request.client_receives ? Kind::send_message : Kind::send_empty;

		endpoint.prepare(request.bytes);
		endpoint.post(asked);
		socket.send(&request, sizeof(request));
		for (std::uint64_t i = 0; i < request.count; i++) {
			endpoint.wait(asked);
			if (i + 1 < request.count)
				endpoint.post(asked);
			endpoint.post(answer);
			endpoint.wait(answer);
		}
		socket.send(&request, sizeof(request));
	}
}

perf::OverlapSummary measure(
	Endpoint &endpoint, Socket &socket, std::uint64_t bytes, std::uint64_t trials, bool receives)
{
	const Request request{bytes, perf::OverlapMeter::attempts(warmup, trials), receives};
	Request ready;
	Message message(endpoint, receives);
	perf::OverlapMeter meter(message, warmup, trials);

	endpoint.prepare(bytes);
	socket.send(&request, sizeof(request));
	endpoint.wait_for(socket);
	socket.receive(&ready, sizeof(ready));
	for (std::uint64_t i = 0; i < request.count; i++)
		meter.attempt();
	/* Who leaves at once does not acknowledge the other end's last message. */
	endpoint.wait_for(socket);
	socket.receive(&ready, sizeof(ready));
	return meter.summary();
}

std::vector<std::uint64_t> numbers(const std::string &text)
{
	std::vector<std::uint64_t> all;
	std::istringstream stream(text);

	for (std::string part; std::getline(stream, part, ',');)
		all.push_back(std::stoull(part));
	return all;
}

[[noreturn]] void run(const char *provider, const char *address, const char *server, const char *sizes,
	const char *count, const char *domain)
{
	Endpoint endpoint(find(provider, address, domain));
	Socket socket = Socket::connect_to(server, port);
	std::string rows;

	endpoint.meet(socket);
	std::printf("# fi_overlap: %s\n# %9s %10s%s\n", endpoint.about().c_str(), "bytes", "trials",
		perf::overlap_heading().c_str());
	for (std::uint64_t bytes : numbers(sizes)) {
		for (bool receives : {false, true}) {
			const std::string side = receives ? "recv" : "send";
			const auto summary = measure(endpoint, socket, bytes, std::stoull(count), receives);

			std::printf("%11lu %10lu%s\n", static_cast<unsigned long>(bytes),
				static_cast<unsigned long>(summary.trials),
				perf::overlap_text(side.c_str(), summary).c_str());
			std::fflush(stdout);
			perf::for_each_overlap_metric(side, summary,
				[&](const std::string &metric, double value, const char *unit) {
					std::array<char, 128> row{};

					std::snprintf(row.data(), row.size(), "%s,%s,%lu,0,0,%.6g,%s\n",
						provider, metric.c_str(), static_cast<unsigned long>(bytes),
						value, unit);
					rows += row.data();
				});
		}
	}
	std::printf("%s", rows.c_str());
	leave();
}

} // namespace

int main(int argc, char **argv)
{
	const std::string what = argc > 1 ? argv[1] : "";

	// Naps are as short as they say.
	::prctl(PR_SET_TIMERSLACK, 1UL);
	try {
		if (what == "serve" && (argc == 4 || argc == 5)) {
			serve(argv[2], argv[3], argc == 5 ? argv[4] : nullptr);
		} else if (what == "run" && (argc == 7 || argc == 8)) {
			run(argv[2], argv[3], argv[4], argv[5], argv[6], argc == 8 ? argv[7] : nullptr);
		} else {
			std::fprintf(stderr,
				"usage: fi_overlap serve PROVIDER ADDRESS [DOMAIN] |\n"
				"       fi_overlap run PROVIDER ADDRESS SERVER SIZES COUNT [DOMAIN]\n");
			return 2;
		}
	} catch (const std::exception &error) {
		std::fprintf(stderr, "fi_overlap: %s\n", error.what());
		return 1;
	}
	return 0;
}
