// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// fi_getinfo(): what there is, held against what is asked for. Hints that cannot be met give -FI_ENODATA, and
// levels that we do better than asked (threads, progress) are given back as they were asked for, or better.
#include "info.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "address.hpp"
#include "domain.hpp"
#include "fabric.hpp"
#include "provider.hpp"
#include "support.hpp"

namespace ibrelk::ofi
{

namespace
{

struct FreeInfo {
	void operator()(fi_info *info) const noexcept
	{
		fi_freeinfo(info);
	}
};
using Info = std::unique_ptr<fi_info, FreeInfo>;

// What a node offers: its limits, and a port for each domain.
struct Port {
	std::string device;
	::ibrelk_addr address;
};
struct Offer {
	Query query;
	std::vector<Port> ports;
};

constexpr std::uint64_t atomic_orders =
	FI_ORDER_ATOMIC_RAR | FI_ORDER_ATOMIC_RAW | FI_ORDER_ATOMIC_WAR | FI_ORDER_ATOMIC_WAW;
constexpr std::uint64_t rma_orders = FI_ORDER_RAR | FI_ORDER_RAW | FI_ORDER_RAS | FI_ORDER_WAR |
	FI_ORDER_WAW | FI_ORDER_WAS | FI_ORDER_SAR | FI_ORDER_SAW | FI_ORDER_RMA_RAR | FI_ORDER_RMA_RAW |
	FI_ORDER_RMA_WAR | FI_ORDER_RMA_WAW;

constexpr std::uint64_t tx_caps = message_caps | FI_SEND | memory_caps | FI_READ | FI_WRITE;
constexpr std::uint64_t rx_caps = message_caps | FI_DIRECTED_RECV | FI_RECV | FI_MULTI_RECV | FI_SOURCE |
	memory_caps | FI_REMOTE_READ | FI_REMOTE_WRITE;
// Queues, counters, regions and the like of a domain.
constexpr std::size_t objects_usual = 1024;

constexpr std::uint64_t domain_caps = FI_LOCAL_COMM | FI_REMOTE_COMM;

bool only(std::uint64_t asked, std::uint64_t offered) noexcept
{
	return (asked & ~offered) == 0;
}

bool same_name(const char *asked, const char *offered) noexcept
{
	return !asked || ::strcasecmp(asked, offered) == 0;
}

// An address that matters only on its own link is the worst to have, and IPv4 the one that people name.
int rank(const ::ibrelk_port_info &port) noexcept
{
	if (is_ipv4(port.gid))
		return 0;
	return is_link_local(port.gid) ? 2 : 1;
}

result<Offer> offer()
{
	auto device = Device::open();

	if (!device)
		return failure(device.error());

	auto query = device->query();
	auto ports = device->dump<::ibrelk_port_info>();

	if (!query || !ports)
		return failure(query ? ports.error() : query.error());

	const auto mode = wanted_mode();

	if (!mode)
		return failure(mode.error());

	const char *wanted = parameters().device;
	Offer made{*query, {}};

	std::erase_if(*ports, [&](const ::ibrelk_port_info &port) {
		return !port.usable || !same_name(wanted, port.device) ||
			(*mode != IBRELK_MODE_DEFAULT && !(port.modes & (1u << *mode)));
	});
	std::stable_sort(ports->begin(), ports->end(),
		[](const auto &left, const auto &right) { return rank(left) < rank(right); });
	for (const auto &port : *ports) {
		::ibrelk_addr address{};

		std::memcpy(address.gid, port.gid, sizeof(address.gid));
		made.ports.push_back({std::string(port.device), address});
	}
	return made;
}

// ---- capabilities -----------------------------------------------------------------------------------------

// Before version 1.5 the modes were numbers, and no wish for any of them left the choice to the provider.
bool may_share_memory(const fi_domain_attr *domain, std::uint32_t version) noexcept
{
	return !domain || shares_memory(domain->mr_mode) ||
		(FI_VERSION_LT(version, FI_VERSION(1, 5)) && domain->mr_mode == mr_unspec);
}

// What may be done in one direction only: without any, all.
std::uint64_t directions_for(std::uint64_t asked, std::uint64_t caps, std::uint64_t directions) noexcept
{
	if (asked & directions)
		return asked & directions;
	return asked & caps ? directions : 0;
}

// Of what is primary only what is asked for, as libfabric demands; what is secondary is there anyway.
std::uint64_t caps_for(std::uint64_t asked, bool memory) noexcept
{
	if (!asked)
		return memory ? all_caps : all_caps & ~all_memory_caps;
	return (asked & primary_caps) | directions_for(asked, message_caps, message_direction_caps) |
		directions_for(asked, memory_caps, memory_direction_caps) | secondary_caps;
}

// All that is said of the order of reads and writes holds where there are none. Where there are, a later one
// may pass another that is long. Atomics are in order.
std::uint64_t orders_for(std::uint64_t caps) noexcept
{
	return FI_ORDER_SAS | atomic_orders | (caps & memory_caps ? 0 : rma_orders);
}

// Bytes up to which their order is that of what they do, too.
std::size_t max_order_size(std::uint64_t caps) noexcept
{
	return caps & FI_ATOMIC ? IBRELK_ATOMIC_BYTES : 0;
}

// What is told even if it was not asked for.
std::uint64_t offered_orders(std::uint64_t caps) noexcept
{
	return FI_ORDER_SAS | (caps & FI_ATOMIC ? atomic_orders : 0);
}

// ---- what the hints ask for -------------------------------------------------------------------------------

bool tx_fits(const fi_tx_attr *tx, std::uint64_t caps, const Query &query) noexcept
{
	return !tx ||
		(only(tx->caps, (caps & tx_caps) | secondary_caps) && only(tx->op_flags, send_flags) &&
			only(tx->msg_order, orders_for(caps)) && tx->comp_order == 0 &&
			tx->inject_size <= query.eager_max && tx->size <= query.sends_max &&
			tx->iov_limit <= iov_limit && tx->rma_iov_limit <= 1);
}

bool rx_fits(const fi_rx_attr *rx, std::uint64_t caps, const Query &query) noexcept
{
	return !rx ||
		(only(rx->caps, (caps & rx_caps) | secondary_caps) && only(rx->op_flags, recv_flags) &&
			only(rx->msg_order, orders_for(caps)) && rx->comp_order == 0 &&
			rx->size <= query.recvs_max && rx->iov_limit <= iov_limit);
}

bool ep_fits(const fi_ep_attr *ep, std::uint64_t caps, const Query &query) noexcept
{
	return !ep ||
		((ep->type == FI_EP_UNSPEC || ep->type == FI_EP_RDM) &&
			(ep->protocol == FI_PROTO_UNSPEC || ep->protocol == address_format) &&
			ep->max_msg_size <= query.message_max && ep->tx_ctx_cnt <= 1 && ep->rx_ctx_cnt <= 1 &&
			ep->auth_key_size == 0 &&
			(!(caps & memory_caps) ||
				std::max({ep->max_order_raw_size, ep->max_order_war_size,
					ep->max_order_waw_size}) <= max_order_size(caps)));
}

// Groups of peers, of which fi_group_addr() makes addresses: there are some since libfabric 2.0.
template<class Attributes>
std::uint32_t groups_of(const Attributes &domain) noexcept
{
	if constexpr (requires { domain.max_group_id; })
		return domain.max_group_id;
	else
		return 0;
}

bool domain_fits(const fi_domain_attr *domain) noexcept
{
	return !domain ||
		(only(domain->caps, domain_caps) && domain->cq_data_size <= cq_data_size &&
			domain->mr_key_size <= mr_key_size && domain->mr_iov_limit <= 1 &&
			domain->max_ep_tx_ctx <= 1 && domain->max_ep_rx_ctx <= 1 &&
			domain->max_ep_stx_ctx == 0 && domain->max_ep_srx_ctx == 0 &&
			domain->auth_key_size == 0 && domain->max_err_data == 0 && groups_of(*domain) == 0);
}

// The fabric that hints name, or that of the domain that they name, if it is one of this provider's and open;
// nothing named: the first, if there is any.
Fabric *opened_fabric(const fi_info *hints)
{
	const fid_fabric *named = hints && hints->fabric_attr ? hints->fabric_attr->fabric : nullptr;
	const fid_domain *domain = hints && hints->domain_attr ? hints->domain_attr->domain : nullptr;

	if (!domain)
		return Opened<Fabric>::first([&](const Fabric *fabric) { return !named || fabric == named; });

	const Domain *found = Opened<Domain>::first(
		[&](const Domain *one) { return one == domain && (!named || one->fabric() == named); });

	return found ? found->fabric() : nullptr;
}

// The same for domains of that fabric, of which some are good for any device, and some not for memory of
// others.
fid_domain *opened_domain(
	const fi_domain_attr *asked, const Fabric *fabric, const std::string &device, std::uint64_t caps)
{
	const fid_domain *named = asked ? asked->domain : nullptr;

	return Opened<Domain>::first([&](const Domain *domain) {
		return domain->fabric() == fabric && (domain->shares() || !(caps & all_memory_caps)) &&
			(named ? domain == named && (domain->name().empty() || domain->name() == device)
			       : domain->name() == device);
	});
}

bool fabric_fits(const fi_fabric_attr *fabric) noexcept
{
	return !fabric || same_name(fabric->name, provider.name);
}

bool hints_fit(const fi_info &hints, std::uint64_t caps, const Query &query) noexcept
{
	return (hints.addr_format == FI_FORMAT_UNSPEC || hints.addr_format == address_format) &&
		tx_fits(hints.tx_attr, caps, query) && rx_fits(hints.rx_attr, caps, query) &&
		ep_fits(hints.ep_attr, caps, query) && domain_fits(hints.domain_attr) &&
		fabric_fits(hints.fabric_attr);
}

// ---- what is answered -------------------------------------------------------------------------------------

std::uint64_t or_default(std::uint64_t asked, std::uint64_t otherwise) noexcept
{
	return asked ? asked : otherwise;
}

void fill_tx(fi_tx_attr &tx, const fi_tx_attr *asked, std::uint64_t caps, const Query &query) noexcept
{
	tx.caps = caps & tx_caps;
	tx.op_flags = asked ? asked->op_flags : 0;
	tx.msg_order = offered_orders(caps) | (asked ? asked->msg_order : 0);
	tx.inject_size = query.eager_max;
	tx.size = asked && asked->size ? asked->size : sends_default;
	tx.iov_limit = std::max(asked ? asked->iov_limit : 0, iov_default);
	tx.rma_iov_limit = caps & memory_caps ? 1 : 0;
}

void fill_rx(fi_rx_attr &rx, const fi_rx_attr *asked, std::uint64_t caps) noexcept
{
	rx.caps = caps & rx_caps;
	rx.op_flags = asked ? asked->op_flags : 0;
	rx.msg_order = offered_orders(caps) | (asked ? asked->msg_order : 0);
	rx.total_buffered_recv = asked ? asked->total_buffered_recv : 0;
	rx.size = asked && asked->size ? asked->size : recvs_default;
	rx.iov_limit = std::max(asked ? asked->iov_limit : 0, iov_default);
}

void fill_ep(fi_ep_attr &ep, const fi_ep_attr *asked, std::uint64_t caps, const Query &query) noexcept
{
	ep.type = FI_EP_RDM;
	ep.protocol = address_format;
	ep.protocol_version = query.protocol_version;
	ep.max_msg_size = query.message_max;
	ep.max_order_raw_size = max_order_size(caps);
	ep.max_order_war_size = max_order_size(caps);
	ep.max_order_waw_size = max_order_size(caps);
	ep.mem_tag_format = or_default(asked ? asked->mem_tag_format : 0, 0xaaaaaaaaaaaaaaaau);
	ep.tx_ctx_cnt = 1;
	ep.rx_ctx_cnt = 1;
}

// Without RMA any mode is as good, and FI_MR_BASIC is not another one.
int mr_mode_for(const fi_domain_attr *asked, std::uint64_t caps, std::uint32_t version) noexcept
{
	if (asked && (asked->mr_mode == mr_basic || asked->mr_mode == mr_scalable))
		return asked->mr_mode;
	if (!(caps & all_memory_caps))
		return 0;
	return FI_VERSION_LT(version, FI_VERSION(1, 5)) ? mr_basic : memory_mr_mode;
}

// It needs no calls. Who means to make them all the same is told, as libfabric's own providers do, what he
// said.
fi_progress progress_for(fi_progress asked) noexcept
{
	return asked == FI_PROGRESS_UNSPEC ? FI_PROGRESS_AUTO : asked;
}

void fill_domain(fi_domain_attr &domain, const fi_domain_attr *asked, std::uint64_t caps,
	std::uint32_t version) noexcept
{
	domain.threading = asked && asked->threading != FI_THREAD_UNSPEC ? asked->threading : FI_THREAD_SAFE;
	domain.control_progress = progress_for(asked ? asked->control_progress : FI_PROGRESS_UNSPEC);
	domain.data_progress = progress_for(asked ? asked->data_progress : FI_PROGRESS_UNSPEC);
	domain.resource_mgmt = FI_RM_ENABLED;
	domain.av_type = asked ? asked->av_type : FI_AV_UNSPEC; // both are supported alike
	domain.mr_mode = mr_mode_for(asked, caps, version);
	domain.mr_key_size = mr_key_size;
	domain.mr_iov_limit = 1;
	domain.cq_data_size = cq_data_size;
	domain.max_ep_tx_ctx = 1;
	domain.max_ep_rx_ctx = 1;
	// Memory is their only limit.
	domain.mr_cnt = std::max<std::size_t>(asked ? asked->mr_cnt : 0, objects_usual);
	domain.cq_cnt = std::max<std::size_t>(asked ? asked->cq_cnt : 0, objects_usual);
	domain.ep_cnt = std::max<std::size_t>(asked ? asked->ep_cnt : 0, objects_usual);
	domain.tx_ctx_cnt = std::max<std::size_t>(asked ? asked->tx_ctx_cnt : 0, domain.ep_cnt);
	domain.rx_ctx_cnt = std::max<std::size_t>(asked ? asked->rx_ctx_cnt : 0, domain.ep_cnt);
	domain.cntr_cnt = std::max<std::size_t>(asked ? asked->cntr_cnt : 0, objects_usual);
	domain.caps = domain_caps;
}

char *copy_of(const char *text)
{
	char *copy = ::strdup(text);

	if (!copy)
		throw std::bad_alloc();
	return copy;
}

void set_address(void *&where, std::size_t &length, const ::ibrelk_addr &address)
{
	std::free(where);
	length = 0;
	where = std::malloc(sizeof(address));
	if (!where)
		throw std::bad_alloc();
	std::memcpy(where, &address, sizeof(address));
	length = sizeof(address);
}

Info info_for(
	const Port &port, const Query &query, const fi_info *hints, std::uint64_t caps, std::uint32_t version)
{
	Info info(fi_allocinfo());

	if (!info)
		throw std::bad_alloc();
	info->caps = caps;
	info->addr_format = address_format;
	fill_tx(*info->tx_attr, hints ? hints->tx_attr : nullptr, info->caps, query);
	fill_rx(*info->rx_attr, hints ? hints->rx_attr : nullptr, info->caps);
	fill_ep(*info->ep_attr, hints ? hints->ep_attr : nullptr, info->caps, query);
	fill_domain(*info->domain_attr, hints ? hints->domain_attr : nullptr, info->caps, version);
	info->domain_attr->name = copy_of(port.device.c_str());
	info->fabric_attr->name = copy_of(provider.name);
	// libfabric itself adds who we are.
	info->fabric_attr->prov_version = provider.version;
	info->fabric_attr->api_version = version;
	set_address(info->src_addr, info->src_addrlen, port.address);
	return info;
}

// The addresses that are asked for, by name or in the hints: those of a node, or none.
struct Ends {
	std::vector<::ibrelk_addr> sources;
	std::vector<::ibrelk_addr> targets;
};

// Whether it is one, if there is any.
bool take(const void *address, std::size_t length, std::vector<::ibrelk_addr> &into)
{
	if (!address)
		return true;
	if (length != sizeof(::ibrelk_addr))
		return false;
	std::memcpy(&into.emplace_back(), address, sizeof(::ibrelk_addr));
	return true;
}

// An address in the hints does not matter where a name is given for the same end.
result<Ends> ends_of(const char *node, const char *service, std::uint64_t flags, const fi_info *hints)
{
	const bool names_source = (node || service) && ((flags & FI_SOURCE) || !node);
	const bool names_target = node && !names_source;
	Ends ends;

	if (hints && !names_source && !take(hints->src_addr, hints->src_addrlen, ends.sources))
		return failure(EINVAL);
	if (hints && !names_target && !take(hints->dest_addr, hints->dest_addrlen, ends.targets))
		return failure(EINVAL);
	if (!names_source && !names_target)
		return ends;

	auto named = resolve(node, service, (flags & FI_NUMERICHOST) != 0);

	if (!named)
		return failure(named.error());
	(names_source ? ends.sources : ends.targets) = std::move(*named);
	return ends;
}

// Whether an end may be at some address: it has one like that, or need not have a certain one.
template<typename Is>
bool may_be(const std::vector<::ibrelk_addr> &addresses, Is is)
{
	return addresses.empty() || std::any_of(addresses.begin(), addresses.end(), is);
}

bool is_source(const Port &port, const Ends &ends) noexcept
{
	return std::any_of(ends.sources.begin(), ends.sources.end(), [&](const ::ibrelk_addr &source) {
		return std::memcmp(port.address.gid, source.gid, sizeof(source.gid)) == 0;
	});
}

// One for each device: of the first address that is the source's or, where any of this node's will do, of the
// target's family.
bool serves(const Port &port, const Ends &ends, bool certain, const fi_info *hints,
	const std::vector<std::string> &seen)
{
	const fi_domain_attr *domain = hints ? hints->domain_attr : nullptr;
	const auto is_here = [](const ::ibrelk_addr &source) {
		return is_any(source) || is_loopback(source.gid);
	};
	const auto reaches = [&](const ::ibrelk_addr &target) {
		return is_loopback(target.gid) || is_ipv4(port.address.gid) == is_ipv4(target.gid);
	};

	if (domain && !same_name(domain->name, port.device.c_str()))
		return false;
	if (certain ? !is_source(port, ends)
		    : !(may_be(ends.sources, is_here) && may_be(ends.targets, reaches)))
		return false;
	return std::find(seen.begin(), seen.end(), port.device) == seen.end();
}

int find(std::uint32_t version, const char *node, const char *service, std::uint64_t flags,
	const fi_info *hints, fi_info **info)
{
	// A layer that asks for an endpoint of another kind is not to open the device.
	if (hints && hints->ep_attr && hints->ep_attr->type != FI_EP_UNSPEC &&
		hints->ep_attr->type != FI_EP_RDM)
		return -FI_ENODATA;

	const std::uint64_t asked = hints ? hints->caps : 0;
	const bool memory = may_share_memory(hints ? hints->domain_attr : nullptr, version);

	if (!only(asked, memory ? all_caps : all_caps & ~all_memory_caps) ||
		((asked & memory_direction_caps) && !(asked & memory_caps)))
		return -FI_ENODATA;

	const std::uint64_t caps = caps_for(asked, memory);
	const auto offered = offer();

	if (!offered) {
		FI_INFO(&provider, FI_LOG_CORE, "%s\n", ibrelk_error_text(IBRELK_CALL_OPEN, offered.error()));
		return -FI_ENODATA;
	}
	if (offered->ports.empty() && parameters().device)
		FI_WARN(&provider, FI_LOG_CORE,
			"FI_IBRELK_DEVICE=%s is no device that can be used: see ibrelk show ports\n",
			parameters().device);
	else if (offered->ports.empty())
		FI_INFO(&provider, FI_LOG_CORE, "no port can be used: see ibrelk show ports\n");
	if (hints && !hints_fit(*hints, caps, offered->query)) {
		FI_INFO(&provider, FI_LOG_CORE, "the hints ask for more than there is\n");
		return -FI_ENODATA;
	}

	const auto ends = ends_of(node, service, flags, hints);

	if (!ends)
		return -FI_ENODATA;

	const fi_domain_attr *wanted = hints ? hints->domain_attr : nullptr;
	const bool names_domain = wanted && wanted->domain;
	Fabric *fabric = opened_fabric(hints);

	if (!fabric && (names_domain || (hints && hints->fabric_attr && hints->fabric_attr->fabric)))
		return -FI_ENODATA;

	const bool certain = std::any_of(offered->ports.begin(), offered->ports.end(),
		[&](const Port &port) { return is_source(port, *ends); });
	std::vector<std::string> seen;
	Info first;
	fi_info *last = nullptr;

	for (Port port : offered->ports) {
		fid_domain *domain = opened_domain(wanted, fabric, port.device, caps);

		if (!serves(port, *ends, certain, hints, seen) || (names_domain && !domain))
			continue;
		seen.push_back(port.device);
		port.address.endpoint = ends->sources.empty() ? 0 : ends->sources.front().endpoint;

		Info made = info_for(port, offered->query, hints, caps, version);

		made->fabric_attr->fabric = fabric;
		made->domain_attr->domain = domain;
		if (!ends->targets.empty())
			set_address(
				made->dest_addr, made->dest_addrlen, seen_from(port.address, ends->targets));
		if (last) {
			last->next = made.release();
			last = last->next;
		} else {
			first = std::move(made);
			last = first.get();
		}
	}
	*info = first.release();
	return *info ? 0 : -FI_ENODATA;
}

} // namespace

bool is_offered(const fi_info &asked) noexcept
{
	const std::uint64_t caps = caps_of(asked);

	return only(asked.caps,
		       asked.domain_attr && shares_memory(asked.domain_attr->mr_mode)
			       ? all_caps
			       : all_caps & ~all_memory_caps) &&
		(!asked.ep_attr ||
			(asked.ep_attr->type == FI_EP_RDM && asked.ep_attr->tx_ctx_cnt <= 1 &&
				asked.ep_attr->rx_ctx_cnt <= 1)) &&
		(!asked.tx_attr ||
			(only(asked.tx_attr->op_flags, send_flags) &&
				only(asked.tx_attr->msg_order, orders_for(caps)))) &&
		(!asked.rx_attr ||
			(only(asked.rx_attr->op_flags, recv_flags) &&
				only(asked.rx_attr->msg_order, orders_for(caps))));
}

std::uint64_t caps_of(const fi_info &asked) noexcept
{
	return caps_for(asked.caps, asked.domain_attr && shares_memory(asked.domain_attr->mr_mode));
}

int get_info(std::uint32_t version, const char *node, const char *service, std::uint64_t flags,
	const fi_info *hints, fi_info **info)
{
	return guarded([&] { return find(version, node, service, flags, hints, info); });
}

} // namespace ibrelk::ofi
