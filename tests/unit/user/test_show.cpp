// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// user/tools/show.cpp: tables and JSON from made-up statistics.
#include <cstring>
#include <string>

#include <gtest/gtest.h>

#include "show.hpp"

namespace
{

ibrelk_path_info path(const char *device, std::uint32_t mode, std::uint8_t instance)
{
	ibrelk_path_info info{};
	auto local = *ibrelk::Address::from_text("10.1.0.1");
	auto remote = *ibrelk::Address::from_text("[fe80::2]");

	std::memcpy(info.local_gid, local.raw().gid, 16);
	std::memcpy(info.remote_gid, remote.raw().gid, 16);
	std::strncpy(info.device, device, sizeof(info.device));
	info.instance[0] = instance;
	info.mode = mode;
	info.state = IBRELK_PATH_UP;
	info.port = 1;
	info.mtu = 1024;
	info.srtt_us = 42;
	info.counters.retransmits_rack = 2;
	info.counters.retransmits_timeout = 3;
	info.counters.drop_token = 1;
	return info;
}

bool has(const std::string &text, const char *part)
{
	return text.find(part) != std::string::npos;
}

} // namespace

TEST(show, nothing_to_show)
{
	EXPECT_EQ(tool::endpoints_table({}, true), "no endpoints\n");
	EXPECT_EQ(tool::paths_table({}, false), "no paths\n");
	EXPECT_EQ(tool::peers_table({}), "no peers\n");
	EXPECT_TRUE(has(tool::ports_table({}, false), "no RDMA ports"));
}

TEST(show, paths)
{
	const ibrelk_path_info paths[] = {path("rxe0", IBRELK_MODE_UC_RELIABLE, 1), path("rxe0", 99, 0)};
	const std::string text = tool::paths_table(paths, true);
	tool::Json json;

	for (const char *part :
		{"10.1.0.1", "fe80::2", "uc-reliable", "rxe0/1", "42", "up", "retransmits_rack=2", "unknown"})
		EXPECT_TRUE(has(text, part)) << part << "\n" << text;
	json.begin_object();
	tool::paths_json(json, paths);
	json.end_object();
	EXPECT_TRUE(has(json.text(), "\"instance\":\"01000000000000000000000000000000\""));
	EXPECT_TRUE(has(json.text(), "\"instance\":\"unknown\""));
	EXPECT_TRUE(has(json.text(), "\"retransmits_timeout\":3"));
}

// A device name that fills its room has no terminating zero to rely on.
TEST(show, names_need_not_be_terminated)
{
	ibrelk_path_info info = path("", IBRELK_MODE_UC_RELIABLE, 1);

	std::memset(info.device, 'x', sizeof(info.device));
	EXPECT_TRUE(has(tool::paths_table({&info, 1}, false), (std::string(64, 'x') + "/1").c_str()));
}

TEST(show, lane_of_an_automatic_path)
{
	ibrelk_path_info info = path("rxe0", IBRELK_MODE_AUTO, 1);

	EXPECT_FALSE(has(tool::paths_table({&info, 1}, false), "auto+uc"));
	info.lane = 1;
	EXPECT_TRUE(has(tool::paths_table({&info, 1}, false), "auto+uc"));
}

TEST(show, peers_are_grouped)
{
	const ibrelk_path_info paths[] = {path("rxe0", IBRELK_MODE_UC_RELIABLE, 7),
		path("rxe1", IBRELK_MODE_UD_RELIABLE, 7), path("rxe0", IBRELK_MODE_UD_RELIABLE, 0)};
	tool::Json json;

	json.begin_object();
	tool::peers_json(json, paths);
	json.end_object();
	EXPECT_EQ(json.text().find("\"instance\":\"07"), json.text().rfind("\"instance\":\"07"));
	EXPECT_TRUE(has(tool::peers_table(paths), "unknown"));
}

TEST(show, endpoints_ports_query)
{
	ibrelk_endpoint_info endpoint{};
	ibrelk_port_info port{};
	ibrelk_query query{};
	tool::Json json;

	endpoint.local = ibrelk::Address::from_text("10.1.0.2:77#3")->raw();
	endpoint.mode = IBRELK_MODE_UD_NATIVE;
	endpoint.counters.tx_bytes = 50'000'000;
	std::strcpy(port.device, "siw0");
	std::strcpy(port.reason, "has no UD");
	port.modes = 1u << IBRELK_MODE_RC_NATIVE;
	port.drop_token = 6;
	port.drop_version = 1;
	query.modes = 0xfe;
	EXPECT_TRUE(has(tool::endpoints_table({&endpoint, 1}, false), "10.1.0.2:77#3"));
	EXPECT_TRUE(has(tool::endpoints_table({&endpoint, 1}, false), "gone"));
	EXPECT_TRUE(has(tool::endpoints_table({&endpoint, 1}, false), "48M"));
	EXPECT_TRUE(has(tool::ports_table({&port, 1}, false), "has no UD"));
	EXPECT_TRUE(has(tool::ports_table({&port, 1}, false), "  7  "));
	EXPECT_FALSE(has(tool::ports_table({&port, 1}, false), "drop_token"));
	EXPECT_TRUE(has(tool::ports_table({&port, 1}, true), "drop_version=1 drop_token=6"));
	EXPECT_TRUE(has(tool::query_text(query),
		"rc-native,uc-native,ud-native,rc-reliable,uc-reliable,ud-reliable,auto"));
	json.begin_object();
	tool::endpoints_json(json, {&endpoint, 1});
	tool::ports_json(json, {&port, 1});
	tool::query_json(json, query);
	json.end_object();
	EXPECT_TRUE(has(json.text(), "\"usable\":false"));
	EXPECT_TRUE(has(json.text(), "\"drop_token\":6"));
	EXPECT_TRUE(has(json.text(), "\"modes\":[\"rc-native\"]"));
}
