// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// What of the libfabric provider needs neither libfabric nor a kernel: which job a process belongs to, names
// that are numbered, and operations that are under way.
#include "ofi/address.hpp"
#include "ofi/job.hpp"
#include "ofi/operation.hpp"
#include "ofi/provider.hpp"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>

#include <gtest/gtest.h>

namespace ibrelk::ofi
{

namespace
{

std::optional<std::string> wanted_key;

} // namespace

// In the place of provider.cpp.
Parameters parameters() noexcept
{
	return {.mode = nullptr, .job_key = wanted_key ? wanted_key->c_str() : nullptr};
}

namespace
{

class Job : public ::testing::Test
{
protected:
	static constexpr const char *names[] = {
		"OMPI_MCA_orte_precondition_transports", "PMIX_NAMESPACE", "SLURM_JOB_ID", "SLURM_STEP_ID"};

	void SetUp() override
	{
		wanted_key.reset();
		for (const char *name : names)
			::unsetenv(name);
	}
	void TearDown() override
	{
		SetUp();
	}
	static std::uint64_t with(const char *name, const char *value)
	{
		::setenv(name, value, 1);
		return job_key();
	}
};

TEST_F(Job, nothing_says_which)
{
	EXPECT_EQ(job_key(), 0U);
	EXPECT_EQ(with("SLURM_STEP_ID", "3"), 0U);
	EXPECT_EQ(with("PMIX_NAMESPACE", ""), 0U);
}

TEST_F(Job, is_what_its_user_says)
{
	with("OMPI_MCA_orte_precondition_transports", "0123456789abcdef-fedcba9876543210");
	wanted_key = "77";
	EXPECT_EQ(job_key(), 77U);
	wanted_key = "0x4d";
	EXPECT_EQ(job_key(), 77U);
	wanted_key = "0";
	EXPECT_EQ(job_key(), 0U);
	wanted_key = "18446744073709551615";
	EXPECT_EQ(job_key(), ~std::uint64_t{0});

	// What is no number of 64 bits is a text.
	std::uint64_t before = 0;

	for (const char *text : {"", "a secret", "A secret", "77 ", "0x", "-1", "18446744073709551616"}) {
		wanted_key = text;
		EXPECT_NE(job_key(), 0U) << text;
		EXPECT_NE(job_key(), before) << text;
		EXPECT_EQ(job_key(), job_key_of(text));
		before = job_key();
	}
}

// Children of MPI_Comm_spawn have a namespace of their own, and their mpirun's key.
TEST_F(Job, is_what_its_launcher_says)
{
	const std::uint64_t step = with("SLURM_JOB_ID", "12");
	const std::uint64_t step0 = with("SLURM_STEP_ID", "0");
	const std::uint64_t step1 = with("SLURM_STEP_ID", "1");
	const std::uint64_t other = with("SLURM_JOB_ID", "13");
	const std::uint64_t space = with("PMIX_NAMESPACE", "prterun-n1-42@1");
	const std::uint64_t child = with("PMIX_NAMESPACE", "prterun-n1-42@2");
	const std::uint64_t mpirun = with("OMPI_MCA_orte_precondition_transports", "0123-4567");
	const std::uint64_t spawned = with("PMIX_NAMESPACE", "prterun-n1-42@3");
	const std::uint64_t keys[] = {step, step0, step1, other, space, child, mpirun};

	for (const std::uint64_t key : keys) {
		EXPECT_NE(key, 0U);
		EXPECT_EQ(std::count(std::begin(keys), std::end(keys), key), 1);
	}
	EXPECT_EQ(spawned, mpirun);
}

// The kernel may still write there when the queue of a fetching atomic is gone.
TEST(Operations, what_is_fetched_stays_until_it_has_come)
{
	static Fetched *under_way; // so that the memory is not lost, but left behind
	bool over = false;

	{
		OperationPool pool;
		Operation operation;

		operation.kind = Operation::Kind::send;
		operation.fetched = std::make_unique<Fetched>();
		under_way = operation.fetched.get();
		ASSERT_NE(pool.take(std::move(operation)), nullptr);

		Operation other;

		other.fetched = std::make_unique<Fetched>();

		Operation *complete = pool.take(std::move(other));

		ASSERT_NE(complete, nullptr);
		pool.give_back(*complete);
		over = !complete->fetched;
	}
	EXPECT_TRUE(over);
	/* The address sanitizer knows whether it is still there. */
	under_way->bytes.fill(std::byte{1});
	EXPECT_EQ(under_way->bytes.back(), std::byte{1});
}

TEST(Raised, is_the_last_number)
{
	EXPECT_EQ(raised("node7", 1), "node8");
	EXPECT_EQ(raised("node9", 1), "node10");
	EXPECT_EQ(raised("node009", 1), "node010");
	EXPECT_EQ(raised("node099", 2), "node101");
	EXPECT_EQ(raised("rack2-node7", 3), "rack2-node10");
	EXPECT_EQ(raised("77", 23), "100");
	EXPECT_EQ(raised("7", 0), "7");
	EXPECT_EQ(raised("node", 1), "");
	EXPECT_EQ(raised("node7.cluster", 1), "");
	EXPECT_EQ(raised("", 1), "");
	EXPECT_EQ(raised("node18446744073709551615", 1), "");
	EXPECT_EQ(raised("node18446744073709551616", 1), "");
}

TEST(Nodes, are_counted_on)
{
	const struct {
		const char *node;
		std::size_t nth;
		const char *found;
	} nodes[] = {{"10.1.0.9", 0, "10.1.0.9"}, {"10.1.0.9", 1, "10.1.0.10"}, {"10.1.0.255", 1, "10.1.1.0"},
		{"10.1.255.250", 300, "10.2.1.38"}, {"0.0.0.0", 0xffffffff, "255.255.255.255"},
		{"fd00::9", 1, "fd00::a"}, {"fd00::1a", 0x10000, "fd00::1:1a"},
		{"fd00::ffff:ffff:ffff:ffff", 1, "fd00:0:0:1::"}};

	for (const auto &[node, nth, found] : nodes) {
		const auto address = resolve_nth(node, nth);
		const auto same = resolve(found, nullptr, true);

		ASSERT_TRUE(address) << node;
		ASSERT_TRUE(same) << found;
		ASSERT_EQ(address->size(), 1U) << node;
		EXPECT_EQ(std::memcmp(address->front().gid, same->front().gid, 16), 0) << node;
	}
	for (const auto &[node, nth] : {std::pair{"255.255.255.255", std::size_t{1}}, {"10.1.0.9", SIZE_MAX},
		     {"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", 1}, {"localhost", 1}})
		EXPECT_EQ(resolve_nth(node, nth).error(), EINVAL) << node;
}

// The first of the port's family, or else one of this node, which becomes the port's own; or else the first.
TEST(Nodes, are_seen_from_a_port)
{
	const auto the = [](const char *node) {
		return resolve(node, "77", true)->front();
	};
	const struct {
		const char *port;
		std::vector<const char *> node;
		const char *seen;
	} cases[] = {{"10.1.0.1", {"10.1.0.9", "10.1.0.10", "fd00::9"}, "10.1.0.9"},
		{"fd00::1", {"10.1.0.9", "10.1.0.10", "fd00::9"}, "fd00::9"},
		{"fd00::1", {"10.1.0.9", "10.1.0.10"}, "10.1.0.9"}, {"10.1.0.1", {"fd00::9"}, "fd00::9"},
		{"10.1.0.1", {"127.0.1.1", "10.1.0.9"}, "10.1.0.1"}, {"fd00::1", {"127.0.1.1"}, "fd00::1"},
		{"10.1.0.1", {"fd00::9", "::1"}, "10.1.0.1"},
		{"fd00::1", {"127.0.1.1", "fd00::9"}, "fd00::9"}, {"::", {"fd00::9", "10.1.0.9"}, "fd00::9"},
		{"::", {"127.0.0.1"}, "127.0.0.1"}};

	for (const auto &[port, node, seen] : cases) {
		std::vector<::ibrelk_addr> addresses;

		for (const char *one : node)
			addresses.push_back(the(one));

		const auto found = seen_from(the(port), addresses);

		EXPECT_EQ(std::memcmp(found.gid, the(seen).gid, sizeof(found.gid)), 0) << port << " " << seen;
		EXPECT_EQ(found.endpoint, 77U);
	}
}

TEST(Loopback, is_any_name_of_a_node_for_itself)
{
	for (const char *node : {"127.0.0.1", "127.255.0.9", "::1"}) {
		const auto address = resolve(node, nullptr, true);

		ASSERT_TRUE(address) << node;
		EXPECT_TRUE(is_loopback(address->front().gid)) << node;
	}
	for (const char *node :
		{"10.1.0.1", "128.0.0.1", "126.255.255.255", "::", "::2", "fe80::1", "1::1"}) {
		const auto address = resolve(node, nullptr, true);

		ASSERT_TRUE(address) << node;
		EXPECT_FALSE(is_loopback(address->front().gid)) << node;
	}
}

} // namespace

} // namespace ibrelk::ofi
