// SPDX-License-Identifier: GPL-2.0-only
//
// fi_getinfo(): what is offered, and to whom not.
#include "side.hpp"

#include <cstdlib>
#include <tuple>

namespace ofi
{

namespace
{

std::string text_of(fid_av *av, const void *address)
{
	std::array<char, 128> text{};
	std::size_t length = text.size();

	fi_av_straddr(av, address, text.data(), &length);
	return text.data();
}

constexpr std::uint64_t of_atomics =
	FI_ORDER_ATOMIC_RAR | FI_ORDER_ATOMIC_RAW | FI_ORDER_ATOMIC_WAR | FI_ORDER_ATOMIC_WAW;

// With hints that name nobody, ours is among what is found.
TEST(Info, without_hints)
{
	const Info all = get_info(nullptr);
	const fi_info *ours = all.get();

	while (ours && std::strcmp(ours->fabric_attr->prov_name, "ibrelk") != 0)
		ours = ours->next;
	ASSERT_NE(ours, nullptr);
	EXPECT_EQ(ours->ep_attr->type, FI_EP_RDM);
	EXPECT_TRUE(ours->caps & FI_RMA);
	EXPECT_TRUE(ours->caps & FI_ATOMIC);
	EXPECT_EQ(ours->tx_attr->msg_order, FI_ORDER_SAS | of_atomics);
	EXPECT_EQ(ours->rx_attr->msg_order, FI_ORDER_SAS | of_atomics);
	EXPECT_EQ(ours->domain_attr->mr_mode, memory_mr_mode);
	EXPECT_EQ(ours->domain_attr->data_progress, FI_PROGRESS_AUTO);
	EXPECT_EQ(ours->domain_attr->max_ep_tx_ctx, 1U);
	EXPECT_EQ(ours->domain_attr->av_type, FI_AV_UNSPEC);
	EXPECT_EQ(ours->tx_attr->iov_limit, 4U);
	// With less MPICH would read what is longer.
	EXPECT_GE(ours->ep_attr->max_msg_size, std::size_t{1} << 32);
	EXPECT_EQ(ours->mode, 0U);

	// What is offered is accepted when it is asked for.
	const Info asked(fi_dupinfo(ours));
	const Info again = get_info(asked.get());

	ASSERT_TRUE(again);
	EXPECT_EQ(again->caps, ours->caps);
	EXPECT_EQ(again->domain_attr->mr_mode, ours->domain_attr->mr_mode);
	EXPECT_EQ(again->tx_attr->msg_order, ours->tx_attr->msg_order);
	EXPECT_STREQ(again->domain_attr->name, ours->domain_attr->name);

	Owned<fid_fabric> fabric;
	Owned<fid_domain> domain;
	Owned<fid_ep> ep;

	open(fabric, [&](auto **f) { return fi_fabric(again->fabric_attr, f, nullptr); });
	open(domain, [&](auto **d) { return fi_domain(fabric.get(), again.get(), d, nullptr); });
	open(ep, [&](auto **e) { return fi_endpoint(domain.get(), again.get(), e, nullptr); });
}

// Who does not agree to how memory is shared has none that is.
TEST(Info, memory_needs_its_mode)
{
	const Info wanted = hints();
	constexpr std::uint64_t all =
		FI_RMA | FI_ATOMIC | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
	constexpr std::uint64_t directions = all & ~(FI_RMA | FI_ATOMIC);

	EXPECT_EQ(get_info(wanted.get())->caps & all, 0U);
	for (const std::uint64_t caps : {FI_RMA, FI_MSG | FI_RMA, FI_RMA | FI_WRITE, FI_ATOMIC}) {
		wanted->caps = caps;
		for (const int mode : {0, mr_scalable, FI_MR_VIRT_ADDR, FI_MR_VIRT_ADDR | FI_MR_ALLOCATED,
			     FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_LOCAL}) {
			wanted->domain_attr->mr_mode = mode;
			EXPECT_FALSE(get_info(wanted.get(), nullptr, nullptr, 0, -FI_ENODATA)) << mode;
		}
		// More than what is needed is taken back, but for the older word.
		for (const int mode :
			{memory_mr_mode, memory_mr_mode | FI_MR_LOCAL | FI_MR_ENDPOINT, mr_basic}) {
			wanted->domain_attr->mr_mode = mode;

			const Info found = get_info(wanted.get());

			ASSERT_TRUE(found) << mode;
			EXPECT_EQ(found->domain_attr->mr_mode, mode == mr_basic ? mr_basic : memory_mr_mode);
			EXPECT_EQ(found->caps & (FI_RMA | FI_ATOMIC), caps & (FI_RMA | FI_ATOMIC));
			EXPECT_EQ(found->caps & directions, caps & FI_WRITE ? FI_WRITE : directions);
			EXPECT_EQ(found->caps & (FI_SEND | FI_RECV), caps & FI_MSG ? FI_SEND | FI_RECV : 0U);
			EXPECT_EQ(found->domain_attr->mr_key_size, 8U);
			EXPECT_EQ(found->domain_attr->mr_iov_limit, 1U);
			EXPECT_EQ(found->tx_attr->rma_iov_limit, 1U);
			EXPECT_EQ(found->ep_attr->max_order_waw_size, caps & FI_ATOMIC ? 64U : 0U);
		}
	}

	// Before version 1.5 the provider had the choice.
	for (const int mode : {mr_unspec, mr_basic}) {
		fi_info *found = nullptr;

		wanted->domain_attr->mr_mode = mode;
		ASSERT_EQ(fi_getinfo(FI_VERSION(1, 4), nullptr, nullptr, 0, wanted.get(), &found), 0);
		EXPECT_EQ(found->domain_attr->mr_mode, mr_basic);
		fi_freeinfo(found);
	}
}

// What is said of the order of what there is not holds.
TEST(Info, order)
{
	for (const std::uint64_t order : {FI_ORDER_RAR, FI_ORDER_WAW, FI_ORDER_SAW, FI_ORDER_RMA_RAW}) {
		const Info wanted = hints();

		wanted->domain_attr->mr_mode = memory_mr_mode;
		wanted->caps = FI_MSG | FI_TAGGED;
		wanted->tx_attr->msg_order = FI_ORDER_SAS | of_atomics | order;
		wanted->rx_attr->msg_order = wanted->tx_attr->msg_order;
		EXPECT_TRUE(get_info(wanted.get()));
		wanted->caps |= FI_RMA | FI_ATOMIC;
		EXPECT_FALSE(get_info(wanted.get(), nullptr, nullptr, 0, -FI_ENODATA)) << order;
		wanted->tx_attr->msg_order = FI_ORDER_SAS | of_atomics;
		EXPECT_FALSE(get_info(wanted.get(), nullptr, nullptr, 0, -FI_ENODATA)) << order;
		wanted->rx_attr->msg_order = FI_ORDER_SAS;
		EXPECT_TRUE(get_info(wanted.get()));
	}
}

// MPICH takes the capabilities that it was offered first, tries without a mode, and then with ours.
TEST(Info, what_mpich_asks_for)
{
	const Info offered = get_info(hints().get());
	const Info wanted = hints();

	wanted->caps =
		offered->caps | FI_RMA | FI_ATOMIC | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
	wanted->tx_attr->op_flags = FI_COMPLETION | FI_DELIVERY_COMPLETE;
	wanted->rx_attr->op_flags = FI_COMPLETION;
	wanted->tx_attr->msg_order = FI_ORDER_SAS | of_atomics;
	wanted->domain_attr->threading = FI_THREAD_DOMAIN;
	wanted->domain_attr->data_progress = FI_PROGRESS_MANUAL;
	wanted->domain_attr->control_progress = FI_PROGRESS_MANUAL;
	wanted->domain_attr->resource_mgmt = FI_RM_ENABLED;
	wanted->domain_attr->av_type = FI_AV_TABLE;
	EXPECT_FALSE(get_info(wanted.get(), nullptr, nullptr, 0, -FI_ENODATA));
	wanted->domain_attr->mr_mode = memory_mr_mode;

	const Info found = get_info(wanted.get());

	ASSERT_TRUE(found);
	// Or it would make them of messages.
	EXPECT_EQ(found->tx_attr->msg_order & of_atomics, of_atomics);
	EXPECT_GE(found->ep_attr->max_order_waw_size, 8U);
	EXPECT_GE(found->ep_attr->max_order_raw_size, 8U);
	EXPECT_GE(found->ep_attr->max_order_war_size, 8U);
}

// As Open MPI's btl/ofi asks, which has no use for messages.
TEST(Info, what_open_mpi_asks_for_one_sided)
{
	const Info wanted = hints();

	wanted->mode = FI_CONTEXT | FI_CONTEXT2;
	wanted->caps = FI_RMA | FI_ATOMIC;
	wanted->tx_attr->iov_limit = 1;
	wanted->rx_attr->iov_limit = 1;
	wanted->tx_attr->op_flags = FI_DELIVERY_COMPLETE;
	wanted->domain_attr->mr_mode = memory_mr_mode;

	fi_info *list = nullptr;

	ASSERT_EQ(fi_getinfo(FI_VERSION(1, 5), nullptr, nullptr, 0, wanted.get(), &list), 0);

	const Info found(list);

	EXPECT_EQ(found->caps & (FI_RMA | FI_ATOMIC), FI_RMA | FI_ATOMIC);
	EXPECT_EQ(found->domain_attr->mr_mode, memory_mr_mode);
	EXPECT_EQ(found->tx_attr->op_flags, FI_DELIVERY_COMPLETE);
}

TEST(Info, primary_capabilities_are_those_that_were_asked_for)
{
	for (const std::uint64_t asked :
		{FI_MSG, FI_TAGGED, FI_MSG | FI_TAGGED, FI_TAGGED | FI_DIRECTED_RECV}) {
		const Info wanted = hints();

		wanted->caps = asked;

		const Info found = get_info(wanted.get());

		ASSERT_TRUE(found);
		EXPECT_EQ(found->caps & (FI_MSG | FI_TAGGED | FI_DIRECTED_RECV | FI_RMA | FI_ATOMIC), asked);
		EXPECT_TRUE(found->caps & FI_LOCAL_COMM);
		EXPECT_TRUE(found->caps & FI_REMOTE_COMM);
	}
}

// As Open MPI's mtl/ofi asks.
TEST(Info, what_open_mpi_asks_for)
{
	const Info wanted = hints();

	wanted->mode = FI_CONTEXT | FI_CONTEXT2;
	wanted->caps = FI_MSG | FI_TAGGED | FI_LOCAL_COMM | FI_REMOTE_COMM | FI_DIRECTED_RECV;
	wanted->tx_attr->msg_order = FI_ORDER_SAS;
	wanted->rx_attr->msg_order = FI_ORDER_SAS;
	wanted->rx_attr->op_flags = FI_COMPLETION;
	wanted->tx_attr->op_flags = FI_COMPLETION;
	wanted->domain_attr->control_progress = FI_PROGRESS_MANUAL;
	wanted->domain_attr->data_progress = FI_PROGRESS_MANUAL;
	wanted->domain_attr->resource_mgmt = FI_RM_ENABLED;
	wanted->domain_attr->av_type = FI_AV_MAP;
	wanted->domain_attr->threading = FI_THREAD_DOMAIN;

	const Info found = get_info(wanted.get());

	ASSERT_TRUE(found);
	EXPECT_EQ(found->tx_attr->op_flags, FI_COMPLETION);
	EXPECT_EQ(found->domain_attr->av_type, FI_AV_MAP);
	EXPECT_EQ(found->domain_attr->resource_mgmt, FI_RM_ENABLED);
	EXPECT_GE(found->domain_attr->cq_data_size, sizeof(int));
	EXPECT_GE(found->tx_attr->inject_size, 1U);
	// All bits of a tag.
	EXPECT_TRUE(found->ep_attr->mem_tag_format >> 63);
}

TEST(Info, progress_is_what_was_asked_for)
{
	for (const fi_progress asked : {FI_PROGRESS_AUTO, FI_PROGRESS_MANUAL}) {
		const Info wanted = hints();

		wanted->domain_attr->data_progress = asked;
		EXPECT_EQ(get_info(wanted.get())->domain_attr->data_progress, asked);
		EXPECT_EQ(get_info(wanted.get())->domain_attr->control_progress, FI_PROGRESS_AUTO);
		wanted->domain_attr->data_progress = FI_PROGRESS_UNSPEC;
		wanted->domain_attr->control_progress = asked;
		EXPECT_EQ(get_info(wanted.get())->domain_attr->control_progress, asked);
		EXPECT_EQ(get_info(wanted.get())->domain_attr->data_progress, FI_PROGRESS_AUTO);
	}
}

TEST(Info, pieces_are_as_many_as_were_asked_for)
{
	for (const std::size_t asked : {0, 1, 4, 5, 64}) {
		const Info wanted = hints();

		wanted->tx_attr->iov_limit = asked;
		EXPECT_EQ(get_info(wanted.get())->tx_attr->iov_limit, std::max(asked, std::size_t{4}));
		EXPECT_EQ(get_info(wanted.get())->rx_attr->iov_limit, 4U);
		wanted->rx_attr->iov_limit = asked;
		EXPECT_EQ(get_info(wanted.get())->rx_attr->iov_limit, std::max(asked, std::size_t{4}));
		wanted->rx_attr->iov_limit = 65;
		EXPECT_FALSE(get_info(wanted.get(), nullptr, nullptr, 0, -FI_ENODATA));
	}
}

TEST(Info, objects_are_at_least_as_many_as_were_asked_for)
{
	const Info wanted = hints();
	fi_domain_attr &asked = *wanted->domain_attr;

	for (std::size_t *count : {&asked.cq_cnt, &asked.ep_cnt, &asked.tx_ctx_cnt, &asked.rx_ctx_cnt,
		     &asked.cntr_cnt, &asked.mr_cnt}) {
		*count = 100000;

		const Info got = get_info(wanted.get());
		const std::ptrdiff_t offset =
			reinterpret_cast<std::byte *>(count) - reinterpret_cast<std::byte *>(&asked);
		std::size_t there = 0;

		std::memcpy(&there, reinterpret_cast<std::byte *>(got->domain_attr) + offset, sizeof(there));
		EXPECT_GE(there, 100000U);
		*count = 0;
	}
	for (std::size_t *count : {&asked.max_err_data, &asked.max_ep_stx_ctx, &asked.max_ep_srx_ctx}) {
		*count = 1;
		EXPECT_FALSE(get_info(wanted.get(), nullptr, nullptr, 0, -FI_ENODATA));
		*count = 0;
	}
}

#if FI_VERSION_GE(FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION), FI_VERSION(2, 0))
TEST(Info, knows_no_groups_of_peers)
{
	const Info wanted = hints();

	wanted->domain_attr->max_group_id = 1;
	EXPECT_FALSE(get_info(wanted.get(), nullptr, nullptr, 0, -FI_ENODATA));
}
#endif

TEST(Info, receives_may_be_of_any_level)
{
	const Info wanted = hints();

	wanted->rx_attr->op_flags = FI_TRANSMIT_COMPLETE;
	EXPECT_EQ(get_info(wanted.get())->rx_attr->op_flags, FI_TRANSMIT_COMPLETE);
}

TEST(Info, an_address_has_its_length)
{
	const Info wanted = hints();

	wanted->dest_addr = std::calloc(1, 5);
	wanted->dest_addrlen = 5;
	EXPECT_FALSE(get_info(wanted.get(), nullptr, nullptr, 0, -FI_ENODATA));
}

// Who says them himself need not say that both directions are meant.
TEST(Info, capabilities_without_directions_have_both)
{
	Wish wish;

	wish.mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;

	const Side side(wish);
	Owned<fid_ep> ep;
	char byte = 0;

	side.info->caps = FI_MSG | FI_RMA;
	open(ep, [&](auto **e) { return fi_endpoint(side.domain.get(), side.info.get(), e, nullptr); });
	EXPECT_EQ(fi_ep_bind(ep.get(), &side.av->fid, 0), 0);
	EXPECT_EQ(fi_enable(ep.get()), -FI_ENOCQ);
	EXPECT_EQ(fi_ep_bind(ep.get(), &side.cq->fid, FI_TRANSMIT | FI_RECV), 0);
	EXPECT_EQ(fi_enable(ep.get()), 0);
	/* Of nobody. */
	EXPECT_EQ(fi_read(ep.get(), &byte, 1, nullptr, 5, 0, 0, nullptr), -FI_EINVAL);
	ep.reset();
	side.info->caps = FI_MSG;
	open(ep, [&](auto **e) { return fi_endpoint(side.domain.get(), side.info.get(), e, nullptr); });
	EXPECT_EQ(fi_read(ep.get(), &byte, 1, nullptr, 5, 0, 0, nullptr), -FI_EOPNOTSUPP);
}

// An endpoint does what it was made for: of anything else, nobody might be told.
TEST(Info, messages_need_their_capability)
{
	constexpr std::uint64_t both = FI_SEND | FI_RECV;
	const Side side;
	const std::pair<std::uint64_t, std::uint64_t> cases[] = {{FI_MSG, FI_MSG | both},
		{FI_TAGGED, FI_TAGGED | both}, {FI_MSG | FI_TAGGED | FI_SEND, FI_MSG | FI_TAGGED | FI_SEND},
		{FI_MSG | FI_RECV, FI_MSG | FI_RECV}, {0, FI_MSG | FI_TAGGED | both},
		{FI_SEND, FI_MSG | FI_TAGGED | FI_SEND}, {FI_TAGGED | FI_DIRECTED_RECV, FI_TAGGED | both}};

	for (const auto &[asked, there] : cases) {
		Owned<fid_ep> ep;
		char byte = 0;
		const auto expect = [&, has = there](ssize_t result, std::uint64_t wanted) {
			// Nobody is at that index.
			EXPECT_EQ(result, (has & wanted) == wanted ? -FI_EINVAL : -FI_EOPNOTSUPP);
		};
		const iovec piece{&byte, 1};
		const fi_msg_tagged peek{.msg_iov = &piece,
			.desc = nullptr,
			.iov_count = 65,
			.addr = FI_ADDR_UNSPEC,
			.tag = 0,
			.ignore = 0,
			.context = &byte,
			.data = 0};

		SCOPED_TRACE(fi_tostr(&asked, FI_TYPE_CAPS));
		side.info->caps = asked;
		open(ep, [&](auto **e) {
			return fi_endpoint(side.domain.get(), side.info.get(), e, nullptr);
		});
		EXPECT_EQ(fi_ep_bind(ep.get(), &side.av->fid, 0), 0);
		EXPECT_EQ(fi_ep_bind(ep.get(), &side.cq->fid, FI_TRANSMIT | FI_RECV), 0);
		EXPECT_EQ(fi_enable(ep.get()), 0);
		expect(fi_send(ep.get(), &byte, 1, nullptr, 5, &byte), FI_MSG | FI_SEND);
		expect(fi_inject(ep.get(), &byte, 1, 5), FI_MSG | FI_SEND);
		expect(fi_tsend(ep.get(), &byte, 1, nullptr, 5, 1, &byte), FI_TAGGED | FI_SEND);
		expect(fi_tinject(ep.get(), &byte, 1, 5, 1), FI_TAGGED | FI_SEND);
		// Or they are of too many pieces.
		expect(fi_recvv(ep.get(), &piece, nullptr, 65, FI_ADDR_UNSPEC, &byte), FI_MSG | FI_RECV);
		expect(fi_trecvv(ep.get(), &piece, nullptr, 65, FI_ADDR_UNSPEC, 1, 0, &byte),
			FI_TAGGED | FI_RECV);
		expect(fi_trecvmsg(ep.get(), &peek, FI_PEEK), FI_TAGGED | FI_RECV);
	}
}

TEST(Info, threading_is_what_was_asked_for)
{
	for (const fi_threading asked :
		{FI_THREAD_SAFE, FI_THREAD_FID, FI_THREAD_DOMAIN, FI_THREAD_COMPLETION, FI_THREAD_ENDPOINT}) {
		const Info wanted = hints();

		wanted->domain_attr->threading = asked;

		const Info found = get_info(wanted.get());

		ASSERT_TRUE(found);
		EXPECT_EQ(found->domain_attr->threading, asked);
	}
}

TEST(Info, what_there_is_not)
{
	const std::pair<const char *, std::function<void(fi_info &)>> wishes[] = {
		{"connections",
			[](fi_info &w) {
				w.ep_attr->type = FI_EP_MSG;
			}},
		{"datagrams",
			[](fi_info &w) {
				w.ep_attr->type = FI_EP_DGRAM;
			}},
		{"RMA without its mode",
			[](fi_info &w) {
				w.caps = FI_MSG | FI_RMA;
			}},
		{"writes without RMA",
			[](fi_info &w) {
				w.caps = FI_MSG | FI_WRITE;
				w.domain_attr->mr_mode = memory_mr_mode;
			}},
		{"events of RMA",
			[](fi_info &w) {
				w.caps = FI_RMA | FI_RMA_EVENT;
				w.domain_attr->mr_mode = memory_mr_mode;
			}},
		{"several places of an operation",
			[](fi_info &w) {
				w.caps = FI_RMA;
				w.domain_attr->mr_mode = memory_mr_mode;
				w.tx_attr->rma_iov_limit = 2;
			}},
		{"atomics",
			[](fi_info &w) {
				w.caps = FI_ATOMIC;
			}},
		{"multicast",
			[](fi_info &w) {
				w.caps = FI_MULTICAST;
			}},
		{"another domain",
			[](fi_info &w) {
				w.domain_attr->name = ::strdup("nowhere");
			}},
		{"long injections",
			[](fi_info &w) {
				w.tx_attr->inject_size = 1U << 20;
			}},
		{"more CQ data",
			[](fi_info &w) {
				w.domain_attr->cq_data_size = 9;
			}},
		{"contexts",
			[](fi_info &w) {
				w.ep_attr->tx_ctx_cnt = 2;
			}},
		{"other addresses",
			[](fi_info &w) {
				w.addr_format = FI_SOCKADDR_IN;
			}},
		{"completions in order",
			[](fi_info &w) {
				w.tx_attr->comp_order = 0x1ff; // FI_ORDER_STRICT
			}},
	};

	for (const auto &[what, wish] : wishes) {
		const Info wanted = hints();

		SCOPED_TRACE(what);
		wish(*wanted);
		EXPECT_FALSE(get_info(wanted.get(), nullptr, nullptr, 0, -FI_ENODATA));
	}
}

TEST(Info, layers_are_not_put_over_it)
{
	for (const char *layered : {"ibrelk;ofi_rxm", "ibrelk;ofi_rxd"}) {
		const Info wanted(fi_allocinfo());

		wanted->fabric_attr->prov_name = ::strdup(layered);
		EXPECT_FALSE(get_info(wanted.get(), nullptr, nullptr, 0, -FI_ENODATA)) << layered;
	}
}

// What is offered to who has FI_IBRELK_DEVICE in his environment.
Info of_device(const char *name, int expected = 0)
{
	const char *variable = "FI_IBRELK_DEVICE";

	EXPECT_EQ(::setenv(variable, name, 1), 0);

	Info found = get_info(hints().get(), nullptr, nullptr, 0, expected);

	EXPECT_EQ(::unsetenv(variable), 0);
	return found;
}

// Of a node with several devices users may name one. (Over a wire there are two.)
TEST(Info, of_the_device_that_the_environment_names)
{
	const Info all = get_info(hints().get());

	for (const fi_info *one = all.get(); one; one = one->next) {
		const Info found = of_device(one->domain_attr->name);

		ASSERT_TRUE(found);
		EXPECT_STREQ(found->domain_attr->name, one->domain_attr->name);
		EXPECT_EQ(found->next, nullptr);
	}
	EXPECT_FALSE(of_device("no_such_device", -FI_ENODATA));
}

TEST(Info, a_node_and_a_service_are_an_address)
{
	const Side side;
	const Info wanted = hints();
	// A node without an IPv6 address has no port that reaches one.
	const char *addresses = std::getenv("OFI_ADDRESSES");
	const int ipv6 = addresses && std::strchr(addresses, ':') ? 0 : -FI_ENODATA;
	const std::tuple<const char *, const char *, int> nodes[] = {
		{"10.1.0.9", "10.1.0.9:77", 0}, {"fd00::9", "[fd00::9]:77", ipv6}};

	for (const auto &[node, text, expected] : nodes) {
		const Info found = get_info(wanted.get(), node, "77", FI_NUMERICHOST, expected);

		SCOPED_TRACE(node);
		ASSERT_EQ(static_cast<bool>(found), expected == 0);
		if (!found)
			continue;
		ASSERT_NE(found->dest_addr, nullptr);
		EXPECT_EQ(text_of(side.av.get(), found->dest_addr), text);
		ASSERT_NE(found->src_addr, nullptr);
	}
	EXPECT_FALSE(get_info(wanted.get(), "no.such.node.invalid", "77", FI_NUMERICHOST, -FI_ENODATA));
}

// Of a name that stands for addresses of both families, that which the port reaches is taken. (The node's
// /etc/hosts has such a name: 10.1.0.9 and fd00::9.)
TEST(Info, a_name_of_both_families)
{
	const Side side;
	const Info wanted = hints();
	const std::vector<unsigned char> name = side.name();
	const std::string own = text_of(side.av.get(), name.data());
	const std::string expected = own.front() == '[' ? "[fd00::9]:77" : "10.1.0.9:77";
	std::array<unsigned char, 64> found{};
	std::size_t length = found.size();
	fi_addr_t index = FI_ADDR_NOTAVAIL;

	wanted->src_addr = std::malloc(name.size());
	ASSERT_NE(wanted->src_addr, nullptr);
	std::memcpy(wanted->src_addr, name.data(), name.size());
	wanted->src_addrlen = name.size();

	const Info target = get_info(wanted.get(), "twofold", "77");

	ASSERT_TRUE(target);
	EXPECT_EQ(text_of(side.av.get(), target->dest_addr), expected);
	EXPECT_EQ(fi_av_insertsvc(side.av.get(), "twofold", "77", &index, 0, nullptr), 1);
	ASSERT_EQ(fi_av_lookup(side.av.get(), index, found.data(), &length), 0);
	EXPECT_EQ(text_of(side.av.get(), found.data()), expected);
	EXPECT_EQ(fi_av_insertsym(side.av.get(), "twofold", 1, "77", 1, &index, 0, nullptr), 1);
	ASSERT_EQ(fi_av_lookup(side.av.get(), index, found.data(), &length), 0);
	EXPECT_EQ(text_of(side.av.get(), found.data()), expected);
}

// What is in the hints for the same end is ignored, whatever it is.
TEST(Info, a_name_comes_before_an_address)
{
	const Side side;
	const Info wanted = hints();
	const char junk[] = "no address";

	wanted->dest_addr = ::strdup(junk);
	wanted->dest_addrlen = sizeof(junk);
	EXPECT_FALSE(get_info(wanted.get(), nullptr, nullptr, 0, -FI_ENODATA));

	const Info target = get_info(wanted.get(), "10.1.0.9", "77", FI_NUMERICHOST);

	ASSERT_TRUE(target);
	EXPECT_EQ(text_of(side.av.get(), target->dest_addr), "10.1.0.9:77");
	std::swap(wanted->dest_addr, wanted->src_addr);
	std::swap(wanted->dest_addrlen, wanted->src_addrlen);
	EXPECT_FALSE(get_info(wanted.get(), "10.1.0.9", "77", FI_NUMERICHOST, -FI_ENODATA));
	EXPECT_TRUE(get_info(wanted.get(), nullptr, "77", FI_SOURCE));
}

// Names of this node for itself stand for an address of it.
TEST(Info, loopback_is_this_node)
{
	const Side side;
	const Info wanted = hints();

	for (const char *node : {"127.0.0.1", "127.1.2.3"}) {
		const Info target = get_info(wanted.get(), node, "77");

		ASSERT_TRUE(target);
		ASSERT_NE(target->dest_addr, nullptr);

		std::string text = text_of(side.av.get(), target->src_addr);

		/* The own endpoint has no number yet. */
		EXPECT_EQ(text_of(side.av.get(), target->dest_addr), text.substr(0, text.rfind(':')) + ":77");

		const Info source = get_info(wanted.get(), node, "77", FI_SOURCE);

		ASSERT_TRUE(source);
		EXPECT_EQ(source->dest_addr, nullptr);
		EXPECT_EQ(text_of(side.av.get(), source->src_addr), text.substr(0, text.rfind(':')) + ":77");
	}
}

// Whichever address of this node, in either family.
TEST(Info, any_address_is_this_node)
{
	const Side side;
	const Info wanted = hints();

	for (const char *node : {"0.0.0.0", "::"}) {
		const Info source = get_info(wanted.get(), node, "77", FI_SOURCE);

		SCOPED_TRACE(node);
		ASSERT_TRUE(source);

		const std::string text = text_of(side.av.get(), source->src_addr);

		EXPECT_NE(text.rfind(node, 0), 0U) << text;
		EXPECT_NE(text.find(":77"), std::string::npos) << text;
	}
}

// Hints may name a domain that is open.
TEST(Info, a_domain_has_its_device)
{
	Side side;
	const Info wanted = hints();
	fid_domain other{};

	wanted->domain_attr->domain = side.domain.get();

	const Info found = get_info(wanted.get());

	ASSERT_TRUE(found);
	EXPECT_STREQ(found->domain_attr->name, side.info->domain_attr->name);
	EXPECT_EQ(found->next, nullptr);
	/* One of another provider. */
	wanted->domain_attr->domain = &other;
	EXPECT_FALSE(get_info(wanted.get(), nullptr, nullptr, 0, -FI_ENODATA));
	wanted->domain_attr->domain = nullptr;
}

// As fi_getinfo(3) has it: the first that is open; and only what fits to the one that hints name.
TEST(Info, names_what_is_open)
{
	const Info before = get_info(hints().get());

	ASSERT_TRUE(before);
	EXPECT_EQ(before->fabric_attr->fabric, nullptr);
	EXPECT_EQ(before->domain_attr->domain, nullptr);

	const Info wanted = hints();
	fid_fabric *fabric = nullptr, *second = nullptr;
	fid_domain *domain = nullptr;

	ASSERT_EQ(fi_fabric(before->fabric_attr, &fabric, nullptr), 0);
	ASSERT_EQ(fi_fabric(before->fabric_attr, &second, nullptr), 0);
	ASSERT_EQ(fi_domain(fabric, before.get(), &domain, nullptr), 0);

	const Info found = get_info(wanted.get());

	EXPECT_EQ(found->fabric_attr->fabric, fabric);
	for (const fi_info *one = found.get(); one; one = one->next) {
		const bool its = !std::strcmp(one->domain_attr->name, before->domain_attr->name);

		EXPECT_EQ(one->domain_attr->domain, its ? domain : nullptr) << one->domain_attr->name;
	}
	// Of a fabric that is named, or whose domain is; never of two.
	wanted->fabric_attr->fabric = second;

	const Info other = get_info(wanted.get());

	EXPECT_EQ(other->fabric_attr->fabric, second);
	EXPECT_EQ(other->domain_attr->domain, nullptr);
	wanted->domain_attr->domain = domain;
	EXPECT_FALSE(get_info(wanted.get(), nullptr, nullptr, 0, -FI_ENODATA));
	wanted->fabric_attr->fabric = nullptr;
	EXPECT_EQ(get_info(wanted.get())->fabric_attr->fabric, fabric);
	wanted->domain_attr->domain = nullptr;
	wanted->fabric_attr->fabric = second;
	EXPECT_EQ(fi_close(&second->fid), 0);
	EXPECT_FALSE(get_info(wanted.get(), nullptr, nullptr, 0, -FI_ENODATA));
	wanted->fabric_attr->fabric = nullptr;

	EXPECT_EQ(fi_close(&domain->fid), 0);
	EXPECT_EQ(fi_close(&fabric->fid), 0);

	const Info after = get_info(wanted.get());

	EXPECT_EQ(after->fabric_attr->fabric, nullptr);
	EXPECT_EQ(after->domain_attr->domain, nullptr);
}

// Open MPI from 5.0.10 on opens one domain for messages, asks what there is for windows, and takes the domain
// that the answer names.
TEST(Info, names_no_domain_whose_memory_is_not_for_others)
{
	const Side messages;
	const Info wanted = hints();

	wanted->caps = FI_RMA | FI_ATOMIC;
	wanted->domain_attr->mr_mode = memory_mr_mode;
	wanted->domain_attr->domain = messages.domain.get();
	EXPECT_FALSE(get_info(wanted.get(), nullptr, nullptr, 0, -FI_ENODATA));
	wanted->domain_attr->domain = nullptr;
	wanted->domain_attr->name = ::strdup(messages.info->domain_attr->name);

	const Info found = get_info(wanted.get());

	ASSERT_TRUE(found);
	EXPECT_EQ(found->fabric_attr->fabric, messages.fabric.get());
	ASSERT_EQ(found->domain_attr->domain, nullptr);

	Owned<fid_domain> memory;
	Owned<fid_mr> region;
	std::array<unsigned char, 64> window{};

	open(memory, [&](auto **domain) {
		return fi_domain(messages.fabric.get(), found.get(), domain, nullptr);
	});
	ASSERT_TRUE(memory);
	for (const bool named : {true, false}) {
		wanted->domain_attr->domain = named ? memory.get() : nullptr;

		const Info again = get_info(wanted.get());

		ASSERT_TRUE(again) << named;
		EXPECT_EQ(again->domain_attr->domain, memory.get()) << named;
	}
	open(region, [&](auto **mr) {
		return fi_mr_reg(memory.get(), window.data(), window.size(), FI_REMOTE_READ | FI_REMOTE_WRITE,
			0, 0, 0, mr, nullptr);
	});
	// For messages one is as good as the other.
	wanted->caps = FI_TAGGED;
	wanted->domain_attr->mr_mode = 0;
	for (fid_domain *domain : {messages.domain.get(), memory.get()}) {
		wanted->domain_attr->domain = domain;

		const Info again = get_info(wanted.get());

		ASSERT_TRUE(again);
		EXPECT_EQ(again->domain_attr->domain, domain);
	}
	wanted->domain_attr->domain = nullptr;
}

TEST(Info, a_service_alone_is_the_own_endpoint)
{
	Wish wish;

	wish.service = "4242";

	const Side side(wish);
	const std::string text = text_of(side.av.get(), side.name().data());

	EXPECT_NE(text.find(":4242#"), std::string::npos) << text;
}

} // namespace

} // namespace ofi
