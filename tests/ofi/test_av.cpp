// SPDX-License-Identifier: GPL-2.0-only
//
// Address vectors, and the event queue that may be told of insertions.
#include "side.hpp"

#include <poll.h>

namespace ofi
{

namespace
{

class AddressVector : public ::testing::TestWithParam<fi_av_type>
{
};

TEST_P(AddressVector, what_was_inserted_is_found)
{
	Wish wish;

	wish.av = GetParam();

	Side side(wish);
	Side other(wish);
	const fi_addr_t index = side.add(other);
	std::array<unsigned char, 64> found{};
	std::size_t length = found.size();

	ASSERT_EQ(fi_av_lookup(side.av.get(), index, found.data(), &length), 0);
	EXPECT_EQ(std::vector<unsigned char>(found.begin(), found.begin() + static_cast<long>(length)),
		other.name());
	// Too little room: what fits, and how much there is.
	length = 4;
	EXPECT_EQ(fi_av_lookup(side.av.get(), index, found.data(), &length), 0);
	EXPECT_EQ(length, other.name().size());
}

TEST_P(AddressVector, what_was_removed_is_gone)
{
	Wish wish;

	wish.av = GetParam();

	Pair pair(wish);
	std::array<unsigned char, 64> found{};
	std::size_t length = found.size();
	fi_addr_t index = pair.to_b;
	int context = 0;
	char byte = 0;

	// The endpoint knows it already.
	EXPECT_EQ(fi_trecv(pair.b.ep.get(), &byte, 1, nullptr, FI_ADDR_UNSPEC, 1, 0, &byte), 0);
	Side::post([&] { return fi_tinject(pair.a.ep.get(), "b", 1, index, 1); });
	pair.b.done(&byte);
	EXPECT_EQ(fi_av_remove(pair.a.av.get(), &index, 1, 0), 0);
	EXPECT_EQ(fi_av_lookup(pair.a.av.get(), index, found.data(), &length), -FI_EINVAL);
	EXPECT_EQ(fi_av_remove(pair.a.av.get(), &index, 1, 0), -FI_EINVAL);
	EXPECT_EQ(fi_tsend(pair.a.ep.get(), &byte, 1, nullptr, index, 1, &context), -FI_EINVAL);

	// It may stand for somebody else then: here for the sender himself.
	const fi_addr_t self = pair.a.add(pair.a);
	EXPECT_EQ(fi_trecv(pair.a.ep.get(), &byte, 1, nullptr, FI_ADDR_UNSPEC, 1, 0, &byte), 0);
	Side::post([&] { return fi_tinject(pair.a.ep.get(), "x", 1, self, 1); });
	EXPECT_EQ(pair.a.done(&byte).len, 1U);
	EXPECT_EQ(byte, 'x');
}

INSTANTIATE_TEST_SUITE_P(Types, AddressVector, ::testing::Values(FI_AV_MAP, FI_AV_TABLE),
	[](const auto &info) { return info.param == FI_AV_MAP ? "map" : "table"; });

TEST(Av, what_is_no_address_is_not_inserted)
{
	Side side;
	const auto good = side.name();
	std::vector<unsigned char> two(good.size());
	std::array<fi_addr_t, 2> indices{};
	std::array<int, 2> errors = {-1, -1};

	two.insert(two.end(), good.begin(), good.end());
	EXPECT_EQ(fi_av_insert(side.av.get(), two.data(), 2, indices.data(), FI_SYNC_ERR, errors.data()), 1);
	EXPECT_EQ(indices[0], FI_ADDR_NOTAVAIL);
	EXPECT_NE(indices[1], FI_ADDR_NOTAVAIL);
	EXPECT_EQ(errors[0], FI_EINVAL);
	EXPECT_EQ(errors[1], 0);
}

TEST(Av, any_address_is_no_peer)
{
	const Side side;

	for (const char *node : {"0.0.0.0", "::"}) {
		fi_addr_t index = 0;

		EXPECT_EQ(fi_av_insertsvc(side.av.get(), node, "77", &index, 0, nullptr), 0) << node;
		EXPECT_EQ(index, FI_ADDR_NOTAVAIL) << node;
	}
}

// Who is not told the indices knows them from the order.
TEST(Av, what_is_no_address_has_an_index_all_the_same)
{
	Side side;
	const auto good = side.name();
	std::vector<unsigned char> three = good;
	std::vector<unsigned char> found(good.size());
	std::size_t length = found.size();

	three.resize(2 * good.size());
	three.insert(three.end(), good.begin(), good.end());
	EXPECT_EQ(fi_av_insert(side.av.get(), three.data(), 3, nullptr, 0, nullptr), 2);
	for (const fi_addr_t index : {0, 2}) {
		EXPECT_EQ(fi_av_lookup(side.av.get(), index, found.data(), &length), 0) << index;
		EXPECT_EQ(found, good);
	}
	EXPECT_EQ(fi_av_lookup(side.av.get(), 1, found.data(), &length), -FI_EINVAL);
}

// How many there will be is a hint.
TEST(Av, of_unknown_size)
{
	const Side side;
	Owned<fid_av> av;
	fi_av_attr attr{};

	attr.count = SIZE_MAX;
	open(av, [&](auto **v) { return fi_av_open(side.domain.get(), &attr, v, nullptr); });
}

TEST(Av, text)
{
	const Side side;
	const auto name = side.name();
	std::array<char, 80> text{};
	std::size_t length = text.size();

	EXPECT_EQ(fi_av_straddr(side.av.get(), name.data(), text.data(), &length), text.data());
	EXPECT_EQ(length, std::strlen(text.data()) + 1);
	EXPECT_NE(std::string(text.data()).find(':'), std::string::npos);

	// Too little room: what fits, terminated.
	const std::string whole = text.data();

	length = 5;
	fi_av_straddr(side.av.get(), name.data(), text.data(), &length);
	EXPECT_EQ(std::string(text.data()), whole.substr(0, 4));
	EXPECT_EQ(length, whole.size() + 1);
}

TEST(Av, by_node_and_service)
{
	const Side side;
	fi_addr_t index = FI_ADDR_NOTAVAIL;
	std::array<unsigned char, 64> found{};
	std::array<char, 80> text{};
	std::size_t length = found.size();
	std::size_t letters = text.size();

	EXPECT_EQ(fi_av_insertsvc(side.av.get(), "10.1.0.9", "77", &index, 0, nullptr), 1);
	ASSERT_EQ(fi_av_lookup(side.av.get(), index, found.data(), &length), 0);
	fi_av_straddr(side.av.get(), found.data(), text.data(), &letters);
	EXPECT_STREQ(text.data(), "10.1.0.9:77");
}

// Nodes with numbers, and for each of them services with numbers.
TEST(Av, by_nodes_and_services_in_a_row)
{
	Side side;
	std::array<fi_addr_t, 6> indices{};
	const char *texts[] = {
		"10.1.0.9:77", "10.1.0.9:78", "10.1.0.9:79", "10.1.0.10:77", "10.1.0.10:78", "10.1.0.10:79"};

	EXPECT_EQ(fi_av_insertsym(side.av.get(), "10.1.0.9", 2, "77", 3, indices.data(), 0, nullptr), 6);
	for (std::size_t i = 0; i < indices.size(); i++) {
		std::array<unsigned char, 64> found{};
		std::array<char, 100> text{};
		std::size_t length = found.size();
		std::size_t letters = text.size();

		ASSERT_EQ(fi_av_lookup(side.av.get(), indices[i], found.data(), &length), 0);
		fi_av_straddr(side.av.get(), found.data(), text.data(), &letters);
		EXPECT_STREQ(text.data(), texts[i]);
	}
	/* There is nothing after the last, nothing to count in a name without a number, and no such service.
	 */
	EXPECT_LT(
		fi_av_insertsym(side.av.get(), "255.255.255.255", 2, "77", 1, indices.data(), 0, nullptr), 0);
	EXPECT_EQ(indices[0], FI_ADDR_NOTAVAIL);
	EXPECT_EQ(fi_av_insertsym(side.av.get(), "localhost", 2, "77", 1, nullptr, 0, nullptr), -FI_EINVAL);
	EXPECT_EQ(fi_av_insertsym(side.av.get(), "10.1.0.9", 1, nullptr, 1, nullptr, 0, nullptr), -FI_EINVAL);
	EXPECT_EQ(fi_av_insertsym(side.av.get(), "10.1.0.9", SIZE_MAX, "77", 2, nullptr, 0, nullptr),
		-FI_EINVAL);
	EXPECT_EQ(fi_av_insertsym(side.av.get(), "10.1.0.9", SIZE_MAX, "77", 0, nullptr, 0, nullptr), 0);
	EXPECT_EQ(fi_av_insertsym(side.av.get(), "10.1.0.9", 0, "77", 1, nullptr, 0, nullptr), 0);
}

TEST(Av, insertions_are_events)
{
	const Side side;
	Owned<fid_eq> eq;
	Owned<fid_av> av;
	fi_eq_attr eq_attr{};
	fi_av_attr av_attr{};
	fi_eq_entry entry{};
	std::uint32_t event = 0;
	fi_addr_t index = FI_ADDR_NOTAVAIL;
	int context = 0;

	eq_attr.wait_obj = FI_WAIT_UNSPEC;
	av_attr.type = FI_AV_TABLE;
	av_attr.flags = FI_EVENT;
	open(eq, [&](auto **e) { return fi_eq_open(side.fabric.get(), &eq_attr, e, nullptr); });
	open(av, [&](auto **v) { return fi_av_open(side.domain.get(), &av_attr, v, nullptr); });
	EXPECT_EQ(fi_av_insert(av.get(), side.name().data(), 1, &index, 0, &context), -FI_ENOEQ);
	EXPECT_EQ(fi_av_bind(av.get(), &eq->fid, 0), 0);
	EXPECT_EQ(fi_eq_read(eq.get(), &event, &entry, sizeof(entry), 0), -FI_EAGAIN);
	EXPECT_EQ(fi_av_insert(av.get(), side.name().data(), 1, &index, 0, &context), 0);
	EXPECT_EQ(fi_eq_sread(eq.get(), &event, &entry, sizeof(entry), 1000, 0),
		static_cast<ssize_t>(sizeof(entry)));
	EXPECT_EQ(event, FI_AV_COMPLETE);
	EXPECT_EQ(entry.fid, &av->fid);
	EXPECT_EQ(entry.context, &context);
	EXPECT_EQ(entry.data, 1U);
}

// Each that fails is one, and comes before the end.
TEST(Av, failures_are_events)
{
	const Side side;
	const auto good = side.name();
	std::vector<unsigned char> two(good);
	Owned<fid_eq> eq;
	Owned<fid_av> av;
	fi_eq_attr eq_attr{};
	fi_av_attr av_attr{};
	fi_eq_entry entry{};
	fi_eq_err_entry error{};
	std::uint32_t event = 0;
	std::array<fi_addr_t, 2> indices{};
	int context = 0;

	two.resize(2 * good.size());
	av_attr.flags = FI_EVENT;
	open(eq, [&](auto **e) { return fi_eq_open(side.fabric.get(), &eq_attr, e, nullptr); });
	open(av, [&](auto **v) { return fi_av_open(side.domain.get(), &av_attr, v, nullptr); });
	EXPECT_EQ(fi_av_bind(av.get(), &eq->fid, 0), 0);
	EXPECT_EQ(fi_eq_readerr(eq.get(), &error, 0), -FI_EAGAIN);
	EXPECT_EQ(fi_av_insert(av.get(), two.data(), 2, indices.data(), 0, &context), 0);
	EXPECT_EQ(fi_eq_sread(eq.get(), &event, &entry, sizeof(entry), 1000, 0), -FI_EAVAIL);
	error.err_data = two.data();
	error.err_data_size = two.size();
	EXPECT_EQ(fi_eq_readerr(eq.get(), &error, 0), static_cast<ssize_t>(sizeof(error)));
	EXPECT_EQ(error.err_data, two.data());
	EXPECT_EQ(error.err_data_size, 0U);
	EXPECT_EQ(error.fid, &av->fid);
	EXPECT_EQ(error.context, &context);
	EXPECT_EQ(error.data, 1U);
	EXPECT_EQ(error.err, FI_EINVAL);
	EXPECT_EQ(fi_eq_readerr(eq.get(), &error, 0), -FI_EAGAIN);
	EXPECT_EQ(
		fi_eq_read(eq.get(), &event, &entry, sizeof(entry), 0), static_cast<ssize_t>(sizeof(entry)));
	EXPECT_EQ(event, FI_AV_COMPLETE);
	EXPECT_EQ(entry.data, 1U);
	EXPECT_EQ(indices[1], FI_ADDR_NOTAVAIL);
}

// Errors have one place only, and one to be in.
TEST(Av, failures_are_told_where_there_is_room_for_them)
{
	const Side side;
	const auto name = side.name();
	Owned<fid_eq> eq;
	Owned<fid_av> av;
	fi_eq_attr eq_attr{};
	fi_av_attr av_attr{};
	fi_addr_t index = FI_ADDR_NOTAVAIL;
	int context = 4711;

	EXPECT_EQ(fi_av_insert(side.av.get(), name.data(), 1, &index, FI_SYNC_ERR, nullptr), -FI_EINVAL);
	av_attr.flags = FI_EVENT;
	open(eq, [&](auto **e) { return fi_eq_open(side.fabric.get(), &eq_attr, e, nullptr); });
	open(av, [&](auto **v) { return fi_av_open(side.domain.get(), &av_attr, v, nullptr); });
	EXPECT_EQ(fi_av_bind(av.get(), &eq->fid, 0), 0);
	EXPECT_EQ(fi_av_insert(av.get(), name.data(), 1, &index, FI_SYNC_ERR, &context), -FI_EBADFLAGS);
	EXPECT_EQ(context, 4711);
}

TEST(Av, the_lowest_free_index_is_used)
{
	const Side side;
	Owned<fid_av> av;
	fi_av_attr attr{};
	const auto insert = [&] {
		fi_addr_t index = FI_ADDR_NOTAVAIL;

		EXPECT_EQ(fi_av_insert(av.get(), side.name().data(), 1, &index, 0, nullptr), 1);
		return index;
	};

	attr.type = FI_AV_TABLE;
	open(av, [&](auto **v) { return fi_av_open(side.domain.get(), &attr, v, nullptr); });
	for (fi_addr_t i = 0; i < 6; i++)
		EXPECT_EQ(insert(), i);
	for (const fi_addr_t gone : {1, 4, 0, 3}) {
		fi_addr_t index = gone;

		EXPECT_EQ(fi_av_remove(av.get(), &index, 1, 0), 0);
	}
	for (const fi_addr_t next : {0, 1, 3, 4, 6})
		EXPECT_EQ(insert(), next);
}

TEST(Av, what_cannot_be)
{
	const Side side;
	fid_av *av = nullptr;
	fi_av_attr attr{};
	fi_addr_t index = 0;

	EXPECT_LT(fi_av_insertsvc(side.av.get(), "no such node", "77", &index, 0, nullptr), 0);
	EXPECT_EQ(index, FI_ADDR_NOTAVAIL);
	/* Only one with a name, which others share, is not written. */
	for (const std::uint64_t flags : {FI_READ, FI_TAGGED}) {
		attr.flags = flags;
		EXPECT_EQ(fi_av_open(side.domain.get(), &attr, &av, nullptr), -FI_EINVAL);
	}
}

TEST(Av, bits_for_scalable_endpoints_do_not_matter)
{
	const Side side;
	Owned<fid_av> av;
	fi_av_attr attr{};
	fi_addr_t index = FI_ADDR_NOTAVAIL;

	attr.rx_ctx_bits = 8;
	open(av, [&](auto **v) { return fi_av_open(side.domain.get(), &attr, v, nullptr); });
	EXPECT_EQ(fi_av_insert(av.get(), side.name().data(), 1, &index, 0, nullptr), 1);
	EXPECT_EQ(index, 0U);
}

TEST(Eq, of_a_domain_is_in_use)
{
	Side side;
	Owned<fid_domain> domain;
	Owned<fid_eq> eq;
	fi_eq_attr attr{};

	attr.wait_obj = FI_WAIT_YIELD;
	open(eq, [&](auto **e) { return fi_eq_open(side.fabric.get(), &attr, e, nullptr); });
	open(domain, [&](auto **d) { return fi_domain(side.fabric.get(), side.info.get(), d, nullptr); });
	EXPECT_EQ(fi_domain_bind(domain.get(), &eq->fid, 0), 0);
	EXPECT_EQ(fi_close(&eq->fid), -FI_EBUSY);
	domain.reset();
}

TEST(Eq, what_was_written_is_read)
{
	const Side side;
	Owned<fid_eq> eq;
	fi_eq_attr attr{};
	fi_eq_entry entry{};
	fi_eq_entry found{};
	std::uint32_t event = 0;

	attr.wait_obj = FI_WAIT_FD;
	attr.flags = FI_WRITE;
	open(eq, [&](auto **e) { return fi_eq_open(side.fabric.get(), &attr, e, nullptr); });

	fid *waits = &eq->fid;

	int descriptor = -1;

	EXPECT_EQ(fi_control(&eq->fid, FI_GETWAIT, &descriptor), 0);
	EXPECT_EQ(fi_trywait(side.fabric.get(), &waits, 1), 0);
	entry.data = 4711;
	EXPECT_EQ(fi_eq_write(eq.get(), FI_NOTIFY, &entry, sizeof(entry), 0),
		static_cast<ssize_t>(sizeof(entry)));
	EXPECT_EQ(fi_trywait(side.fabric.get(), &waits, 1), -FI_EAGAIN);

	pollfd waiting{.fd = descriptor, .events = POLLIN, .revents = 0};

	EXPECT_EQ(::poll(&waiting, 1, -1), 1);
	EXPECT_EQ(fi_eq_read(eq.get(), &event, &found, 4, 0), -FI_ETOOSMALL);
	EXPECT_EQ(fi_eq_read(eq.get(), &event, &found, sizeof(found), FI_PEEK),
		static_cast<ssize_t>(sizeof(found)));
	EXPECT_EQ(
		fi_eq_read(eq.get(), &event, &found, sizeof(found), 0), static_cast<ssize_t>(sizeof(found)));
	EXPECT_EQ(event, FI_NOTIFY);
	EXPECT_EQ(found.data, 4711U);
	EXPECT_EQ(fi_eq_read(eq.get(), &event, &found, sizeof(found), 0), -FI_EAGAIN);
}

TEST(Eq, says_what_an_error_is)
{
	const Side side;
	Owned<fid_eq> eq;
	fi_eq_attr attr{};
	std::array<char, 8> text{};

	open(eq, [&](auto **e) { return fi_eq_open(side.fabric.get(), &attr, e, nullptr); });

	const std::string whole = fi_eq_strerror(eq.get(), FI_EINVAL, nullptr, nullptr, 0);

	EXPECT_EQ(whole, fi_strerror(FI_EINVAL));
	fi_eq_strerror(eq.get(), FI_EINVAL, nullptr, text.data(), text.size());
	EXPECT_EQ(std::string(text.data()), whole.substr(0, text.size() - 1));
}

// Of addresses that are the same everywhere there is nothing to be made.
TEST(Av, symmetric)
{
	Side side;
	Owned<fid_av> av;
	fi_av_attr attr{};
	fi_addr_t index = FI_ADDR_NOTAVAIL;

	attr.flags = FI_SYMMETRIC;
	open(av, [&](auto **a) { return fi_av_open(side.domain.get(), &attr, a, nullptr); });
	EXPECT_EQ(fi_av_insert(av.get(), side.name().data(), 1, &index, 0, nullptr), 1);
	EXPECT_EQ(index, 0U);
}

} // namespace

} // namespace ofi
