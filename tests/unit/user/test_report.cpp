// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// user/tools/perf/report.cpp: table, JSON and CSV.
#include <cstdio>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <unistd.h>

#include <gtest/gtest.h>

#include "report.hpp"

using namespace perf;

namespace
{

Row latency_row()
{
	Row row;

	row.mode = IBRELK_MODE_UC_RELIABLE;
	row.bytes = 8;
	row.iterations = 1000;
	row.latency = {1000, 1.5, 2.25, 2, 3, 4, 5};
	return row;
}

Row overlap_row()
{
	Row row;

	row.mode = IBRELK_MODE_UC_RELIABLE;
	row.bytes = 65536;
	row.iterations = 40;
	row.send = {40, 100, 200, 210, 90, 100, 8, 4, std::nullopt};
	row.receive = {40, 110, 220, 253, 70, 97.5, 30, 12, 5000};
	return row;
}

std::string contents(const std::string &path)
{
	std::ifstream file(path);
	std::stringstream text;

	text << file.rdbuf();
	return text.str();
}

} // namespace

TEST(report, modes_as_people_read_them)
{
	EXPECT_EQ(display_mode(IBRELK_MODE_UC_RELIABLE), "UC-reliable");
	EXPECT_EQ(display_mode(IBRELK_MODE_RC_NATIVE), "RC-native");
	EXPECT_EQ(display_mode(IBRELK_MODE_DEFAULT), "default");
}

TEST(report, csv)
{
	Options options;

	options.csv_loss = "1";
	EXPECT_EQ(csv_lines(options, latency_row()),
		"uc-reliable,latency_us,8,1,0,2.25,us\n"
		"uc-reliable,latency_min_us,8,1,0,1.5,us\n"
		"uc-reliable,latency_p50_us,8,1,0,2,us\n"
		"uc-reliable,latency_p99_us,8,1,0,3,us\n"
		"uc-reliable,latency_p999_us,8,1,0,4,us\n");
	options.test = perf::Test::rate;

	Row row;

	row.mode = IBRELK_MODE_UD_NATIVE;
	row.bytes = 8;
	row.messages_per_s = 12345;
	row.lost = 7;
	EXPECT_EQ(csv_lines(options, row),
		"ud-native,msg_rate_kps,8,1,0,12.345,k/s\nud-native,acks_per_msg,8,1,0,0,1\n"
		"ud-native,lost_msgs,8,1,0,7,1\n");
	row.error = "too bad";
	EXPECT_EQ(csv_lines(options, row).find("12.345"), std::string::npos);
}

TEST(report, csv_of_streams_tells_acks_of_messages_and_of_frames)
{
	Options options;
	Row row;

	options.test = perf::Test::bandwidth;
	row.mode = IBRELK_MODE_UC_RELIABLE;
	row.bytes = 65536;
	row.mb_per_s = 80;
	row.acks_per_message = 0.5;
	row.acks_per_frame = 0.025;
	EXPECT_EQ(csv_lines(options, row),
		"uc-reliable,bandwidth_mbps,65536,0,0,80,MB/s\n"
		"uc-reliable,acks_per_msg,65536,0,0,0.5,1\n"
		"uc-reliable,acks_per_frame,65536,0,0,0.025,1\n");
	options.test = perf::Test::bibandwidth;
	EXPECT_EQ(csv_lines(options, row),
		"uc-reliable,bibandwidth_mbps,65536,0,0,80,MB/s\n"
		"uc-reliable,bibandwidth_acks_per_msg,65536,0,0,0.5,1\n"
		"uc-reliable,bibandwidth_acks_per_frame,65536,0,0,0.025,1\n");
}

TEST(report, overlap)
{
	Options options;

	options.test = perf::Test::overlap;
	EXPECT_EQ(csv_lines(options, overlap_row()),
		"uc-reliable,overlap_send_transfer_us,65536,0,0,100,us\n"
		"uc-reliable,overlap_send_compute_us,65536,0,0,200,us\n"
		"uc-reliable,overlap_send_total_us,65536,0,0,210,us\n"
		"uc-reliable,overlap_send_pct,65536,0,0,90,%\n"
		"uc-reliable,overlap_send_first_pct,65536,0,0,100,%\n"
		"uc-reliable,overlap_send_stolen_us,65536,0,0,8,us\n"
		"uc-reliable,overlap_recv_transfer_us,65536,0,0,110,us\n"
		"uc-reliable,overlap_recv_compute_us,65536,0,0,220,us\n"
		"uc-reliable,overlap_recv_total_us,65536,0,0,253,us\n"
		"uc-reliable,overlap_recv_pct,65536,0,0,70,%\n"
		"uc-reliable,overlap_recv_first_pct,65536,0,0,97.5,%\n"
		"uc-reliable,overlap_recv_stolen_us,65536,0,0,30,us\n");

	const std::string heading = table_heading(options, {IBRELK_MODE_UC_RELIABLE, "a", "b", "ioctl"});
	const std::string names = heading.substr(heading.find('\n') + 1);
	const std::string rows = table_row(options, overlap_row());

	EXPECT_EQ(rows.size(), 2 * names.size()) << names << rows;
	EXPECT_EQ(rows[names.size() - 1], '\n');

	options.json = true;

	Reporter reporter(options);

	reporter.begin({IBRELK_MODE_UC_RELIABLE, "10.1.0.1:1", "10.1.0.2:2", "ioctl"});
	reporter.add(overlap_row());
	for (const char *part : {"\"test\":\"overlap\"", "\"send\":{\"trials\":40", "\"overlap_pct\":70",
		     "\"first_pct\":97.5", "\"kernel_insns\":5000"})
		EXPECT_NE(reporter.json().find(part), std::string::npos) << part << reporter.json();
	EXPECT_EQ(reporter.json().find("mb_per_s"), std::string::npos);
}

// Latency and rate of one size, and bandwidth in one and both directions, may stand in one file.
TEST(report, csv_names_tell_tests_apart)
{
	std::map<std::string, std::set<perf::Test>> tests;
	Row row = latency_row();

	row.mode = IBRELK_MODE_UC_NATIVE;
	for (perf::Test test :
		{perf::Test::latency, perf::Test::bandwidth, perf::Test::bibandwidth, perf::Test::overlap}) {
		Options options;
		std::string line;

		options.test = test;

		std::istringstream lines(csv_lines(options, row));

		while (std::getline(lines, line))
			tests[line.substr(0, line.find(",8,"))].insert(test);
	}
	EXPECT_EQ(tests.size(), 6u + 4u + 4u + 13u);
	for (const auto &[name, from] : tests)
		EXPECT_EQ(from.size(), 1u) << name;
}

// What failed has the rows that it would have had, with value 0.
TEST(report, csv_of_a_failure)
{
	for (perf::Test test : {perf::Test::latency, perf::Test::bandwidth, perf::Test::bibandwidth,
		     perf::Test::rate, perf::Test::overlap}) {
		for (std::uint32_t mode : {IBRELK_MODE_UC_NATIVE, IBRELK_MODE_UC_RELIABLE}) {
			Options options;
			Row row = latency_row();

			options.test = test;
			row.mode = mode;
			row.mb_per_s = row.messages_per_s = row.acks_per_message = row.acks_per_frame = 7;
			row.lost = 7;
			row.send = row.receive = {7, 7, 7, 7, 7, 7, 7, 7, std::nullopt};

			std::istringstream good(csv_lines(options, row));

			row.error = "no progress";

			std::istringstream bad(csv_lines(options, row));
			std::string good_line;
			std::string bad_line;

			while (std::getline(good, good_line)) {
				const auto names = good_line.substr(0, good_line.find(",0,0,") + 5);

				ASSERT_TRUE(std::getline(bad, bad_line)) << good_line;
				EXPECT_EQ(bad_line, names + "0" + good_line.substr(good_line.rfind(',')));
				EXPECT_NE(bad_line, good_line);
			}
			EXPECT_FALSE(std::getline(bad, bad_line)) << bad_line;
		}
	}
}

TEST(report, csv_file_gets_one_heading)
{
	char path[] = "/tmp/ibrelk-report-XXXXXX";

	::close(::mkstemp(path));

	Options options;

	options.csv = path;
	options.json = true;
	for (int i = 0; i < 2; i++) {
		Reporter reporter(options);

		reporter.begin({});
		reporter.add(latency_row());
	}

	const std::string text = contents(path);

	EXPECT_EQ(text.find("mode,metric"), 0u);
	EXPECT_EQ(text.rfind("mode,metric"), 0u);
	EXPECT_NE(text.rfind("uc-reliable,latency_us"), text.find("uc-reliable,latency_us"));
	::unlink(path);
}

TEST(report, json)
{
	Options options;

	options.json = true;
	options.counters = true;

	Reporter reporter(options);

	reporter.begin({IBRELK_MODE_UC_RELIABLE, "10.1.0.1:1", "10.1.0.2:2", "ioctl"});
	reporter.add(latency_row());

	const std::string text = reporter.json();

	for (const char *part : {"\"test\":\"latency\"", "\"ok\":true", "\"mode\":\"uc-reliable\"",
		     "\"avg\":2.25", "\"size\":8", "\"tx_acks_explicit\":0"})
		EXPECT_NE(text.find(part), std::string::npos) << part;
	EXPECT_FALSE(reporter.failed());

	Row bad = latency_row();

	bad.mismatched = 1;
	reporter.add(bad);
	EXPECT_TRUE(reporter.failed());
	EXPECT_NE(reporter.json().find("\"ok\":false"), std::string::npos);
}

TEST(report, table_columns_line_up)
{
	for (perf::Test test :
		{perf::Test::latency, perf::Test::bandwidth, perf::Test::bibandwidth, perf::Test::rate}) {
		Options options;

		options.test = test;
		options.verify = true;

		Row row = latency_row();

		row.mode = IBRELK_MODE_UC_NATIVE;

		const std::string heading = table_heading(options, {row.mode, "a", "b", "ioctl"});
		const std::string names = heading.substr(heading.find('\n') + 1);

		EXPECT_EQ(names.size(), table_row(options, row).size()) << names << table_row(options, row);
	}
}

TEST(report, failures_and_counters)
{
	Options options;
	Row row = latency_row();

	row.mismatched = 3;
	EXPECT_NE(table_row(options, row).find("WRONG: 3"), std::string::npos);
	row.error = "no progress";
	EXPECT_NE(table_row(options, row).find("failed: no progress"), std::string::npos);

	ibrelk_counters counters{};

	EXPECT_EQ(counters_text("client", counters), "");
	counters.drop_token = 4;
	EXPECT_EQ(counters_text("client", counters), "#   client: drop_token=4\n");
}
