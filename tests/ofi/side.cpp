// SPDX-License-Identifier: GPL-2.0-only
//
// See side.hpp.
#include "side.hpp"

#include <atomic>
#include <cstdlib>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <thread>

namespace ofi
{

Info hints()
{
	Info wanted(fi_allocinfo());

	wanted->fabric_attr->prov_name = ::strdup("ibrelk");
	wanted->ep_attr->type = FI_EP_RDM;
	return wanted;
}

Info get_info(const fi_info *wanted, const char *node, const char *service, std::uint64_t flags, int expected)
{
	fi_info *found = nullptr;

	EXPECT_EQ(fi_getinfo(api, node, service, flags, wanted, &found), expected);
	return Info(found);
}

std::vector<unsigned char> pattern(std::size_t bytes, unsigned seed)
{
	std::vector<unsigned char> all(bytes);

	for (std::size_t i = 0; i < bytes; i++)
		all[i] = static_cast<unsigned char>((i * 131 + (i >> 8) * 7 + seed * 29) & 0xff);
	return all;
}

std::vector<iovec> pieces_of(std::vector<unsigned char> &buffer, std::size_t count)
{
	const std::size_t each = buffer.size() / count;
	std::vector<iovec> pieces;

	for (std::size_t i = 0; i < count; i++)
		pieces.push_back({buffer.data() + i * each, i + 1 < count ? each : buffer.size() - i * each});
	return pieces;
}

// OFI_ADDRESSES: one, or two between which there is a wire. Whoever is made after another is at its other
// end.
static const char *next_address()
{
	static const std::vector<std::string> addresses = [] {
		const char *given = std::getenv("OFI_ADDRESSES");
		std::istringstream words(given ? given : "");
		return std::vector<std::string>(
			std::istream_iterator<std::string>(words), std::istream_iterator<std::string>());
	}();
	static std::atomic<std::size_t> next{0};

	return addresses.empty() ? nullptr : addresses[next++ % addresses.size()].c_str();
}

Side::Side(const Wish &wish)
{
	const Info wanted = hints();

	wanted->caps = wish.caps;
	wanted->tx_attr->op_flags = wish.tx_flags;
	wanted->rx_attr->op_flags = wish.rx_flags;
	wanted->domain_attr->av_type = wish.av;
	wanted->domain_attr->mr_mode = wish.mr_mode;
	const char *node = next_address();
	info = get_info(wanted.get(), node, wish.service, node || wish.service ? FI_SOURCE : 0);
	if (!info)
		throw std::runtime_error("no ibrelk here");
	info->fabric_attr->api_version = wish.version;
	open(fabric, [&](auto **f) { return fi_fabric(info->fabric_attr, f, nullptr); });
	open(domain, [&](auto **d) { return fi_domain(fabric.get(), info.get(), d, nullptr); });

	fi_cq_attr cq_attr{};
	fi_av_attr av_attr{};
	fi_cntr_attr cntr_attr{};

	cq_attr.format = wish.format;
	cq_attr.size = wish.queue_size;
	cq_attr.wait_obj = wish.wait;
	cq_attr.wait_cond = wish.condition;
	cntr_attr.wait_obj = wish.counter_wait;
	av_attr.type = wish.av;
	open(cq, [&](auto **c) { return fi_cq_open(domain.get(), &cq_attr, c, nullptr); });
	open(av, [&](auto **v) { return fi_av_open(domain.get(), &av_attr, v, nullptr); });
	open(ep, [&](auto **e) { return fi_endpoint(domain.get(), info.get(), e, nullptr); });
	EXPECT_EQ(fi_ep_bind(ep.get(), &av->fid, 0), 0);
	if (wish.queue) {
		EXPECT_EQ(fi_ep_bind(ep.get(), &cq->fid, FI_TRANSMIT | FI_RECV | wish.bind_flags), 0);
	}
	if (wish.counters) {
		open(sent, [&](auto **c) { return fi_cntr_open(domain.get(), &cntr_attr, c, nullptr); });
		open(received, [&](auto **c) { return fi_cntr_open(domain.get(), &cntr_attr, c, nullptr); });
		EXPECT_EQ(fi_ep_bind(ep.get(), &sent->fid, FI_SEND), 0);
		EXPECT_EQ(fi_ep_bind(ep.get(), &received->fid, FI_RECV), 0);
		open(reads, [&](auto **c) { return fi_cntr_open(domain.get(), &cntr_attr, c, nullptr); });
		open(writes, [&](auto **c) { return fi_cntr_open(domain.get(), &cntr_attr, c, nullptr); });
		EXPECT_EQ(fi_ep_bind(ep.get(), &reads->fid, FI_READ), 0);
		EXPECT_EQ(fi_ep_bind(ep.get(), &writes->fid, FI_WRITE), 0);
	}
	EXPECT_EQ(fi_enable(ep.get()), 0);
}

std::vector<unsigned char> Side::name() const
{
	std::vector<unsigned char> bytes(64);
	std::size_t length = bytes.size();

	EXPECT_EQ(fi_getname(&ep->fid, bytes.data(), &length), 0);
	bytes.resize(length);
	return bytes;
}

fi_addr_t Side::add(const Side &other)
{
	fi_addr_t index = FI_ADDR_NOTAVAIL;

	EXPECT_EQ(fi_av_insert(av.get(), other.name().data(), 1, &index, 0, nullptr), 1);
	return index;
}

Told Side::look()
{
	Told told;

	told.result = fi_cq_readfrom(cq.get(), &told.entry, 1, &told.source);
	if (told.result == -FI_EAVAIL) {
		EXPECT_EQ(fi_cq_readerr(cq.get(), &told.error, 0), 1);
	}
	return told;
}

Told Side::next()
{
	const auto until = std::chrono::steady_clock::now() + patience;
	Told told = look();

	while (told.result == -FI_EAGAIN && std::chrono::steady_clock::now() < until) {
		std::this_thread::yield();
		told = look();
	}
	EXPECT_NE(told.result, -FI_EAGAIN) << "nothing came";
	return told;
}

fi_cq_tagged_entry Side::done(const void *context)
{
	const Told told = next();

	EXPECT_EQ(told.result, 1) << fi_strerror(told.error.err);
	EXPECT_EQ(told.entry.op_context, context);
	return told.entry;
}

fi_cq_err_entry Side::failed(const void *context, int error)
{
	const Told told = next();

	EXPECT_EQ(told.result, -FI_EAVAIL);
	EXPECT_EQ(told.error.err, error);
	EXPECT_EQ(told.error.op_context, context);
	return told.error;
}

Owned<fid_mr> Side::share(void *memory, std::size_t bytes, std::uint64_t access) const
{
	Owned<fid_mr> region;

	open(region, [&](auto **r) {
		return fi_mr_reg(domain.get(), memory, bytes, access, 0, 0, 0, r, nullptr);
	});
	return region;
}

void Side::post(const std::function<ssize_t()> &operation)
{
	const auto until = std::chrono::steady_clock::now() + patience;
	ssize_t result = operation();

	while (result == -FI_EAGAIN && std::chrono::steady_clock::now() < until) {
		std::this_thread::yield();
		result = operation();
	}
	EXPECT_EQ(result, 0) << fi_strerror(static_cast<int>(-result));
}

Pair::Pair(const Wish &wish) : a(wish), b(wish)
{
	to_b = a.add(b);
	to_a = b.add(a);
}

} // namespace ofi
