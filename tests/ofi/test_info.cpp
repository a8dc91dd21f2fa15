// SPDX-License-Identifier: GPL-2.0-only
//
// fi_getinfo(): what is offered, and to whom not.
#include "side.hpp"

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

// With hints that name nobody, ours is among what is found.
TEST(Info, without_hints)
{
	const Info all = get_info(nullptr);
	const fi_info *ours = all.get();

	while (ours && std::strcmp(ours->fabric_attr->prov_name, "ibrelk") != 0)
		ours = ours->next;
	ASSERT_NE(ours, nullptr);
	EXPECT_EQ(ours->ep_attr->type, FI_EP_RDM);
	EXPECT_EQ(ours->domain_attr->mr_mode, 0);
	EXPECT_EQ(ours->domain_attr->data_progress, FI_PROGRESS_AUTO);
	EXPECT_EQ(ours->domain_attr->max_ep_tx_ctx, 1U);
	EXPECT_EQ(ours->mode, 0U);

	// What is offered is accepted when it is asked for.
	const Info asked(fi_dupinfo(ours));
	const Info again = get_info(asked.get());

	ASSERT_TRUE(again);
	EXPECT_EQ(again->caps, ours->caps);
	EXPECT_STREQ(again->domain_attr->name, ours->domain_attr->name);
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
		{"RMA",
			[](fi_info &w) {
				w.caps = FI_MSG | FI_RMA;
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
				w.tx_attr->comp_order = FI_ORDER_STRICT;
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

TEST(Info, a_node_and_a_service_are_an_address)
{
	const Side side;
	const Info wanted = hints();
	const std::pair<const char *, const char *> nodes[] = {
		{"10.1.0.9", "10.1.0.9:77"}, {"fd00::9", "[fd00::9]:77"}};

	for (const auto &[node, text] : nodes) {
		fi_info *list = nullptr;

		if (fi_getinfo(api, node, "77", FI_NUMERICHOST, wanted.get(), &list) != 0) {
			// A node without an IPv6 address has no port that reaches one.
			EXPECT_STREQ(node, "fd00::9");
			continue;
		}
		const Info found(list);
		ASSERT_NE(found->dest_addr, nullptr);
		EXPECT_EQ(text_of(side.av.get(), found->dest_addr), text);
		ASSERT_NE(found->src_addr, nullptr);
	}
	EXPECT_FALSE(get_info(wanted.get(), "no.such.node.invalid", "77", FI_NUMERICHOST, -FI_ENODATA));
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
