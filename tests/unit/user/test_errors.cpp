// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// user/lib/errors.cpp: every error has a text, and the important ones say what to do.
#include <cerrno>
#include <string_view>

#include <gtest/gtest.h>

#include <ibrelk/ibrelk.h>

static std::string_view text(ibrelk_call call, int error)
{
	return ibrelk_error_text(call, error);
}

TEST(errors, say_what_to_do)
{
	EXPECT_NE(text(IBRELK_CALL_OPEN, ENOENT).find("is ibrelk.ko loaded? sudo modprobe ibrelk"),
		std::string_view::npos);
	EXPECT_NE(text(IBRELK_CALL_OPEN, EACCES).find("group rdma"), std::string_view::npos);
	EXPECT_NE(text(IBRELK_CALL_ENDPOINT_CREATE, EPERM).find("allow_native=1"), std::string_view::npos);
	EXPECT_NE(text(IBRELK_CALL_SUBMIT, ENETUNREACH).find("ip route get"), std::string_view::npos);
	EXPECT_NE(text(IBRELK_CALL_SUBMIT, EADDRNOTAVAIL).find("own address"), std::string_view::npos);
	EXPECT_NE(text(IBRELK_CALL_REGION, ENOMEM).find("ulimit -l"), std::string_view::npos);
	EXPECT_NE(text(IBRELK_CALL_SUBMIT, ENOMEM).find("ulimit -l"), std::string_view::npos);
	EXPECT_NE(text(IBRELK_CALL_REGION, ENOSPC).find("close some"), std::string_view::npos);
	EXPECT_NE(text(IBRELK_CALL_COMPLETION, EACCES).find("ask the peer for the key"),
		std::string_view::npos);
	EXPECT_NE(text(IBRELK_CALL_COMPLETION, EFAULT).find("in the peer's region: check its address"),
		std::string_view::npos);
}

TEST(errors, depend_on_the_call)
{
	EXPECT_NE(text(IBRELK_CALL_OPEN, ENODEV), text(IBRELK_CALL_ENDPOINT_CREATE, ENODEV));
}

TEST(errors, either_sign)
{
	EXPECT_EQ(text(IBRELK_CALL_OPEN, -ENOENT), text(IBRELK_CALL_OPEN, ENOENT));
}

TEST(errors, all_have_a_text)
{
	for (int call = IBRELK_CALL_OPEN; call <= IBRELK_CALL_REGION; call++) {
		for (int error = -200; error < 200; error++)
			EXPECT_FALSE(text(static_cast<ibrelk_call>(call), error).empty());
	}
	EXPECT_EQ(text(IBRELK_CALL_WAIT, 12345), "unknown error");
	EXPECT_EQ(text(IBRELK_CALL_WAIT, 0), "success");
}
