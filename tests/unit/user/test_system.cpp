// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// user/lib/system.cpp, the real one: what fails is returned, and errno stays as it was.
#include <cerrno>

#include <poll.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "system.hpp"

namespace sys = ibrelk::system;

namespace
{

constexpr int mark = 4711;

// The value of a call, which must leave errno alone.
template<class Call>
auto kept(const Call &call)
{
	errno = mark;

	const auto value = call();

	EXPECT_EQ(errno, mark);
	return value;
}

} // namespace

TEST(system, returns_errors_and_keeps_errno)
{
	int error = 0;
	int argument = 0;

	EXPECT_EQ(kept([] { return sys::open("/nowhere/at/all"); }), -ENOENT);
	EXPECT_EQ(kept([&] { return sys::ioctl(-1, 0, &argument); }), -EBADF);
	EXPECT_EQ(kept([&] { return sys::map(-1, 4096, &error); }), nullptr);
	EXPECT_EQ(error, -EBADF);
	EXPECT_EQ(kept([] { return sys::poll(-1, POLLIN, 0); }), 0);
	/* What they have to say, nobody is told. */
	kept([] { return sys::close(-1), 0; });
	kept([&] { return sys::unmap(&argument, 1), 0; });
}

TEST(system, works_and_keeps_errno)
{
	const int fd = kept([] { return sys::open("/dev/zero"); });
	int error = 0;

	ASSERT_GE(fd, 0);
	EXPECT_EQ(kept([&] { return sys::poll(fd, POLLIN, UINT64_MAX); }), 1);

	void *page = kept([&] { return sys::map(fd, 4096, &error); });

	ASSERT_NE(page, nullptr);
	kept([&] { return sys::unmap(page, 4096), 0; });
	kept([&] { return sys::close(fd), 0; });

	const std::uint64_t before = kept([] { return sys::now_ns(); });

	EXPECT_LE(before, sys::now_ns());
}

TEST(system, io_uring_keeps_errno)
{
	::io_uring ring;
	::io_uring_cqe *cqe = nullptr;

	EXPECT_LT(kept([&] { return sys::uring_init(0, &ring); }), 0);
	if (kept([&] { return sys::uring_init(4, &ring); }) < 0)
		GTEST_SKIP() << "no io_uring here";
	::io_uring_prep_nop(::io_uring_get_sqe(&ring));
	EXPECT_EQ(kept([&] { return sys::uring_submit(&ring); }), 1);
	EXPECT_EQ(kept([&] { return sys::uring_wait(&ring, &cqe); }), 0);
	::io_uring_cqe_seen(&ring, cqe);
	kept([&] { return sys::uring_exit(&ring), 0; });
}
