// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// user/lib/door.cpp: which door is chosen, and that both do the same.
#include <cerrno>
#include <cstdlib>

#include <gtest/gtest.h>

#include <ibrelk/ibrelk.hpp>

#include "door.hpp"
#include "fake_kernel.hpp"

namespace
{

class DoorTest : public testing::Test
{
protected:
	void SetUp() override
	{
		fake::reset();
		::unsetenv("IBRELK_DOOR");
		device = std::make_unique<ibrelk::Device>(*ibrelk::Device::open());
		ring = std::make_unique<ibrelk::Ring>(*ibrelk::Ring::create(*device, 64));
	}
	void TearDown() override
	{
		::unsetenv("IBRELK_DOOR");
		ring.reset();
		device.reset();
		EXPECT_EQ(fake::calls().open_fds, 0u);
		EXPECT_EQ(fake::calls().open_urings, 0u);
	}
	ibrelk::result<ibrelk::Endpoint> create(std::uint32_t door)
	{
		return ibrelk::Endpoint::create(*device, *ring, {.door = door});
	}

	std::unique_ptr<ibrelk::Device> device;
	std::unique_ptr<ibrelk::Ring> ring;
};

} // namespace

TEST_F(DoorTest, auto_is_ioctl)
{
	EXPECT_EQ(create(IBRELK_DOOR_AUTO)->door(), IBRELK_DOOR_IOCTL);
	::setenv("IBRELK_DOOR", "", 1);
	EXPECT_EQ(create(IBRELK_DOOR_AUTO)->door(), IBRELK_DOOR_IOCTL);
	::setenv("IBRELK_DOOR", "auto", 1);
	EXPECT_EQ(create(IBRELK_DOOR_AUTO)->door(), IBRELK_DOOR_IOCTL);
}

TEST_F(DoorTest, environment_chooses)
{
	::setenv("IBRELK_DOOR", "uring", 1);
	EXPECT_EQ(create(IBRELK_DOOR_AUTO)->door(), IBRELK_DOOR_URING);
	EXPECT_EQ(create(IBRELK_DOOR_IOCTL)->door(), IBRELK_DOOR_IOCTL);
	::setenv("IBRELK_DOOR", "ioctl", 1);
	EXPECT_EQ(create(IBRELK_DOOR_AUTO)->door(), IBRELK_DOOR_IOCTL);
	EXPECT_EQ(create(IBRELK_DOOR_URING)->door(), IBRELK_DOOR_URING);
	::setenv("IBRELK_DOOR", "window", 1);
	EXPECT_EQ(create(IBRELK_DOOR_AUTO).error(), EINVAL);
}

TEST_F(DoorTest, unknown_door)
{
	EXPECT_EQ(create(17).error(), EINVAL);
}

TEST_F(DoorTest, io_uring_that_does_not_work)
{
	for (bool *broken : {&fake::behaviour().uring_works, &fake::behaviour().uring_commands}) {
		*broken = false;
		EXPECT_EQ(create(IBRELK_DOOR_URING).error(), ENOTSUP);
		EXPECT_EQ(create(IBRELK_DOOR_PREFER_URING)->door(), IBRELK_DOOR_IOCTL);
		::setenv("IBRELK_DOOR", "uring", 1);
		EXPECT_EQ(create(IBRELK_DOOR_AUTO).error(), ENOTSUP);
		::unsetenv("IBRELK_DOOR");
		*broken = true;
	}
	EXPECT_EQ(create(IBRELK_DOOR_PREFER_URING)->door(), IBRELK_DOOR_URING);
}

TEST_F(DoorTest, both_do_the_same)
{
	for (auto door : {IBRELK_DOOR_IOCTL, IBRELK_DOOR_URING}) {
		auto endpoint = *create(door);
		std::vector<ibrelk::Command> nops(5);
		ibrelk::Command wrong{};

		wrong.opcode = 200;
		for (int round = 0; round < 20; round++)
			ASSERT_EQ(*endpoint.submit(nops), 5u);
		EXPECT_EQ(endpoint.submit({}).error(), EINVAL);
		EXPECT_EQ(endpoint.submit({&wrong, 1}).error(), EINVAL);
		wrong.opcode = IBRELK_OP_ATOMIC;
		EXPECT_EQ(endpoint.submit({&wrong, 1}).error(), ENOENT);
		nops[3] = wrong;
		EXPECT_EQ(*endpoint.submit(nops), 3u);
		fake::behaviour().accept_max = 2;
		EXPECT_EQ(*endpoint.submit(nops), 2u);
		fake::behaviour().accept_max = 0;
		EXPECT_EQ(*endpoint.submit(nops), 0u);
		fake::behaviour().accept_max = 1000;
		EXPECT_EQ(ring->drain([](const auto &) {}), 105u);
	}
	EXPECT_GT(fake::calls().submit_ioctl, 20u);
	EXPECT_GT(fake::calls().submit_uring, 20u);
}
