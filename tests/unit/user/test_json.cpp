// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// user/tools/json.hpp.
#include <limits>

#include <gtest/gtest.h>

#include "json.hpp"

TEST(json, nesting_and_commas)
{
	tool::Json json;

	json.begin_object()
		.member("a", 1)
		.begin_array("b")
		.value(1)
		.value(2)
		.begin_object()
		.end_object()
		.end_array();
	json.begin_object("c")
		.member("d", true)
		.member("e", "x")
		.end_object()
		.begin_array("f")
		.end_array()
		.end_object();
	EXPECT_EQ(json.text(), R"({"a":1,"b":[1,2,{}],"c":{"d":true,"e":"x"},"f":[]})");
}

TEST(json, escapes)
{
	tool::Json json;

	json.begin_array().value("a\"b\\c\n\x01").value(std::string("\xc3\xa4")).end_array();
	EXPECT_EQ(json.text(), "[\"a\\\"b\\\\c\\u000a\\u0001\",\"\xc3\xa4\"]");
}

TEST(json, numbers)
{
	tool::Json json;

	json.begin_array().value(UINT64_MAX).value(INT64_MIN).value(1.5).value(1e30).value(0.1);
	json.value(std::numeric_limits<double>::infinity())
		.value(std::numeric_limits<double>::quiet_NaN())
		.end_array();
	EXPECT_EQ(json.text(), "[18446744073709551615,-9223372036854775808,1.5,1e+30,0.1,null,null]");
}
