// SPDX-License-Identifier: GPL-2.0-only
//
// Memory that others read and write: how it is registered, every function that reads or writes it, and what
// is refused. Every byte is compared.
#include "side.hpp"

#include <atomic>
#include <thread>

#include <linux/capability.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace ofi
{

namespace
{

Wish remote_wish()
{
	Wish wish;

	wish.mr_mode = memory_mr_mode;
	return wish;
}

std::uint64_t address_of(const void *memory)
{
	return reinterpret_cast<std::uintptr_t>(memory);
}

using Bytes = std::vector<unsigned char>;

bool all_are(const Bytes &memory, std::size_t from, std::size_t to, unsigned char value)
{
	return std::all_of(memory.begin() + static_cast<long>(from), memory.begin() + static_cast<long>(to),
		[value](unsigned char byte) { return byte == value; });
}

// ---- registration -----------------------------------------------------------------------------------------

int try_reg(const Side &side, const void *memory, std::size_t bytes, std::uint64_t access,
	std::uint64_t offset = 0, std::uint64_t flags = 0)
{
	fid_mr *region = nullptr;
	const int result =
		fi_mr_reg(side.domain.get(), memory, bytes, access, offset, 0, flags, &region, nullptr);

	if (result == 0) {
		EXPECT_EQ(fi_close(&region->fid), 0);
	}
	return result;
}

TEST(Registration, keys)
{
	const Side side(remote_wish());
	Bytes memory(10000);
	const auto first = side.share(memory.data(), memory.size());
	const auto second = side.share(memory.data() + 100, 1, FI_REMOTE_WRITE);
	const auto third = side.share(memory.data(), memory.size(), FI_REMOTE_READ | FI_READ | FI_WRITE);

	for (const auto *region : {&first, &second, &third}) {
		EXPECT_NE(fi_mr_key(region->get()), FI_KEY_NOTAVAIL);
		EXPECT_NE(fi_mr_key(region->get()), 0U);
	}
	EXPECT_NE(fi_mr_key(first.get()), fi_mr_key(second.get()));
	EXPECT_NE(fi_mr_key(first.get()), fi_mr_key(third.get()));
	// It is ready.
	EXPECT_EQ(fi_mr_enable(first.get()), 0);
}

// A user who may pin little, as long as this is there.
class LittleToPin
{
public:
	explicit LittleToPin(rlim_t bytes)
	{
		works_ = ::getrlimit(RLIMIT_MEMLOCK, &limit_) == 0 &&
			::syscall(SYS_capget, &header_, caps_.data()) == 0;
		if (!works_)
			return;

		const rlimit little{std::min(bytes, limit_.rlim_max), limit_.rlim_max};
		auto fewer = caps_; // of this thread, which are those that count

		fewer[0].effective &= ~(1u << CAP_IPC_LOCK);
		works_ = ::setrlimit(RLIMIT_MEMLOCK, &little) == 0 &&
			::syscall(SYS_capset, &header_, fewer.data()) == 0;
	}

	LittleToPin(const LittleToPin &) = delete;
	LittleToPin &operator=(const LittleToPin &) = delete;

	~LittleToPin()
	{
		::syscall(SYS_capset, &header_, caps_.data());
		::setrlimit(RLIMIT_MEMLOCK, &limit_);
	}

	[[nodiscard]] bool works() const noexcept
	{
		return works_;
	}

private:
	__user_cap_header_struct header_ = {.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
	std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> caps_{};
	rlimit limit_{};
	bool works_ = false;
};

// What fits into a user's limit can be registered, before and after what does not.
TEST(Registration, more_than_may_be_pinned)
{
	const Side side(remote_wish());
	Bytes memory(std::size_t{1} << 20);
	const auto reg = [&](std::size_t bytes) {
		return try_reg(side, memory.data(), bytes, FI_REMOTE_WRITE);
	};

	{
		const LittleToPin user(std::size_t{256} << 10);

		ASSERT_TRUE(user.works());
		EXPECT_EQ(reg(std::size_t{100} << 10), 0);
		EXPECT_EQ(reg(memory.size()), -FI_ENOMEM);
		EXPECT_EQ(reg(std::size_t{100} << 10), 0);
	}
	EXPECT_EQ(reg(memory.size()), 0);
}

// Whoever registers all that can be registered can still open files.
TEST(Registration, leaves_descriptors)
{
	const Side side(remote_wish());
	std::vector<Owned<fid_mr>> regions;
	std::vector<int> files;
	char byte = 0;
	rlimit before{};
	int error = 0;

	ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);

	const rlimit few{200, before.rlim_max};

	ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
	while (error == 0) {
		fid_mr *region = nullptr;

		error = fi_mr_reg(side.domain.get(), &byte, 1, FI_REMOTE_READ, 0, 0, 0, &region, nullptr);
		if (error == 0)
			regions.emplace_back(region);
	}
	EXPECT_EQ(error, -FI_EMFILE);
	EXPECT_GE(regions.size(), 100U);
	for (int file = ::dup(0); file >= 0; file = ::dup(0))
		files.push_back(file);
	EXPECT_GE(files.size(), 50U);
	for (const int file : files)
		::close(file);
	EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
	EXPECT_EQ(try_reg(side, &byte, 1, FI_REMOTE_READ), 0);
}

// Operations of one's own need no registration, but may have one; and there may be nothing to register.
TEST(Registration, without_a_key)
{
	const Side side(remote_wish());
	const Side without;
	Bytes memory(100);

	for (const Side *one : {&side, &without}) {
		const auto local =
			one->share(memory.data(), memory.size(), FI_SEND | FI_RECV | FI_READ | FI_WRITE);

		ASSERT_TRUE(local);
		EXPECT_EQ(fi_mr_key(local.get()), FI_KEY_NOTAVAIL);
	}

	const auto empty = side.share(memory.data(), 0);

	ASSERT_TRUE(empty);
	EXPECT_EQ(fi_mr_key(empty.get()), FI_KEY_NOTAVAIL);
}

TEST(Registration, by_attributes)
{
	const Side side(remote_wish());
	Bytes memory(100);
	const iovec pieces[] = {{memory.data(), 50}, {memory.data() + 50, 50}};
	fi_mr_attr attr{};
	Owned<fid_mr> region;
	fid_mr *none = nullptr;
	int context = 0;

	attr.mr_iov = pieces;
	attr.iov_count = 1;
	attr.access = FI_REMOTE_READ;
	attr.requested_key = 1;
	attr.context = &context;
	open(region, [&](auto **r) { return fi_mr_regattr(side.domain.get(), &attr, 0, r); });
	EXPECT_EQ(region->fid.context, &context);
	EXPECT_EQ(region->fid.fclass, std::size_t{FI_CLASS_MR});
	EXPECT_EQ(fi_mr_regv(side.domain.get(), pieces, 2, FI_REMOTE_READ, 0, 0, 0, &none, nullptr),
		-FI_EINVAL);
	EXPECT_EQ(fi_mr_regv(side.domain.get(), pieces, 0, FI_REMOTE_READ, 0, 0, 0, &none, nullptr),
		-FI_EINVAL);
	region.reset();
	open(region, [&](auto **r) {
		return fi_mr_regv(side.domain.get(), pieces, 1, FI_REMOTE_READ, 0, 0, 0, r, nullptr);
	});
}

// Authorization keys came with version 1.5; who is older has something else behind his attributes.
TEST(Registration, authorization_key)
{
	Wish wish;
	char byte = 0;
	const iovec piece{&byte, 1};
	fi_mr_attr attr{};

	attr.mr_iov = &piece;
	attr.iov_count = 1;
	attr.access = FI_SEND;
	attr.auth_key_size = 8;
	for (const std::uint32_t version : {FI_VERSION(1, 4), FI_VERSION(1, 5)}) {
		fid_mr *region = nullptr;

		wish.version = version;

		const Side side(wish);

		if (version == FI_VERSION(1, 4)) {
			ASSERT_EQ(fi_mr_regattr(side.domain.get(), &attr, 0, &region), 0);
			EXPECT_EQ(fi_close(&region->fid), 0);
		} else {
			EXPECT_EQ(fi_mr_regattr(side.domain.get(), &attr, 0, &region), -FI_EINVAL);
		}
	}
}

TEST(Registration, wrong)
{
	const Side side(remote_wish());
	const Pages pages(4096);
	const Pages read_only(4096, PROT_READ);
	const Pages gone(4096, PROT_NONE);

	EXPECT_EQ(try_reg(side, pages.data(), 4096, FI_REMOTE_WRITE), 0);
	EXPECT_EQ(try_reg(side, pages.data(), 4096, FI_REMOTE_WRITE, 1), -FI_EINVAL);
	EXPECT_EQ(try_reg(side, pages.data(), 4096, FI_REMOTE_WRITE | FI_ATOMIC), -FI_EINVAL);
	EXPECT_EQ(try_reg(side, pages.data(), 4096, FI_REMOTE_WRITE, 0, FI_RMA_EVENT), -FI_EBADFLAGS);
	EXPECT_EQ(try_reg(side, read_only.data(), 4096, FI_REMOTE_READ), 0);
	EXPECT_EQ(try_reg(side, read_only.data(), 4096, FI_REMOTE_WRITE), -FI_EFAULT);
	EXPECT_EQ(try_reg(side, gone.data(), 4096, FI_REMOTE_READ), -FI_EFAULT);
	EXPECT_EQ(try_reg(side, pages.data(), (std::size_t{64} << 30) + 1, FI_REMOTE_READ), -FI_EINVAL);
}

TEST(Registration, keeps_the_domain_open)
{
	const Side side(remote_wish());
	Owned<fid_domain> domain;
	char byte = 0;

	open(domain, [&](auto **d) { return fi_domain(side.fabric.get(), side.info.get(), d, nullptr); });
	for (const std::uint64_t access : {FI_REMOTE_READ, FI_SEND}) {
		Owned<fid_mr> region;

		open(region, [&](auto **r) {
			return fi_mr_reg(domain.get(), &byte, 1, access, 0, 0, 0, r, nullptr);
		});
		EXPECT_EQ(fi_close(&domain->fid), -FI_EBUSY);
	}
}

// ---- reads and writes -------------------------------------------------------------------------------------

class Rma : public ::testing::Test
{
protected:
	explicit Rma(const Wish &wish = remote_wish()) : pair(wish)
	{
		share();
	}

	void share(std::uint64_t access = FI_REMOTE_READ | FI_REMOTE_WRITE)
	{
		region = pair.b.share(memory.data(), memory.size(), access);
		key = fi_mr_key(region.get());
	}
	[[nodiscard]] std::uint64_t place(std::size_t at) const
	{
		return address_of(memory.data() + at);
	}
	void write(const void *data, std::size_t bytes, std::size_t at, void *context)
	{
		Side::post([&] {
			return fi_write(
				pair.a.ep.get(), data, bytes, nullptr, pair.to_b, place(at), key, context);
		});
	}
	void read(void *data, std::size_t bytes, std::size_t at, void *context)
	{
		Side::post([&] {
			return fi_read(
				pair.a.ep.get(), data, bytes, nullptr, pair.to_b, place(at), key, context);
		});
	}
	ssize_t message(bool writes, std::vector<iovec> pieces, std::vector<fi_rma_iov> places,
		std::uint64_t flags, void *context)
	{
		const fi_msg_rma described{.msg_iov = pieces.data(),
			.desc = nullptr,
			.iov_count = pieces.size(),
			.addr = pair.to_b,
			.rma_iov = places.data(),
			.rma_iov_count = places.size(),
			.context = context,
			.data = 0};

		return writes ? fi_writemsg(pair.a.ep.get(), &described, flags)
			      : fi_readmsg(pair.a.ep.get(), &described, flags);
	}
	[[nodiscard]] std::string text_of(const fi_cq_err_entry &error) const
	{
		std::array<char, 300> text{};

		return fi_cq_strerror(
			pair.a.cq.get(), error.prov_errno, error.err_data, text.data(), text.size());
	}
	[[nodiscard]] bool arrives(const Bytes &expected, std::size_t at) const
	{
		const auto until = std::chrono::steady_clock::now() + patience;
		const auto there = [&] {
			// The compiler does not know who writes.
			std::atomic_signal_fence(std::memory_order_seq_cst);
			return std::equal(
				expected.begin(), expected.end(), memory.begin() + static_cast<long>(at));
		};

		while (!there() && std::chrono::steady_clock::now() < until)
			std::this_thread::yield();
		return there();
	}

	Pair pair;
	Bytes memory = Bytes(6U << 20, 0xee);
	Owned<fid_mr> region;
	std::uint64_t key = 0;
};

constexpr std::size_t lengths[] = {0, 1, 8, 4096, 8192, 8193, 65536, (5U << 20) + 3};

// From nothing to several windows of a rendezvous; what is complete is there.
TEST_F(Rma, of_all_lengths)
{
	int writing = 0;
	int reading = 0;
	unsigned seed = 0;

	for (const std::size_t bytes : lengths) {
		const auto data = pattern(bytes, ++seed);
		Bytes back(bytes + 1, 0xdd);

		SCOPED_TRACE(bytes);
		std::fill(memory.begin(), memory.end(), 0xee);
		write(data.data(), bytes, 77, &writing);

		const auto written = pair.a.done(&writing);

		EXPECT_EQ(written.flags, FI_RMA | FI_WRITE);
		EXPECT_TRUE(std::equal(data.begin(), data.end(), memory.begin() + 77));
		EXPECT_TRUE(all_are(memory, 0, 77, 0xee));
		EXPECT_TRUE(all_are(memory, 77 + bytes, memory.size(), 0xee));
		read(back.data(), bytes, 77, &reading);
		EXPECT_EQ(pair.a.done(&reading).flags, FI_RMA | FI_READ);
		EXPECT_TRUE(std::equal(data.begin(), data.end(), back.begin()));
		EXPECT_EQ(back.back(), 0xdd);
	}
	// The other one is told nothing.
	EXPECT_EQ(pair.b.look().result, -FI_EAGAIN);
}

TEST_F(Rma, in_pieces)
{
	for (const std::size_t bytes : {3000UL, 100000UL}) {
		auto data = pattern(bytes, 5);
		Bytes back(bytes);
		const std::size_t a = bytes / 3;
		const std::size_t b = bytes / 7;
		const std::vector<iovec> out = {
			{data.data(), a}, {data.data() + a, 0}, {data.data() + a, bytes - a}};
		const std::vector<iovec> in = {{back.data(), b}, {back.data() + b, bytes - b}};
		int context = 0;

		Side::post([&] {
			return fi_writev(pair.a.ep.get(), out.data(), nullptr, out.size(), pair.to_b,
				place(9), key, &context);
		});
		EXPECT_EQ(pair.a.done(&context).flags, FI_RMA | FI_WRITE);
		EXPECT_TRUE(std::equal(data.begin(), data.end(), memory.begin() + 9));
		Side::post([&] {
			return fi_readv(pair.a.ep.get(), in.data(), nullptr, in.size(), pair.to_b, place(9),
				key, &context);
		});
		EXPECT_EQ(pair.a.done(&context).flags, FI_RMA | FI_READ);
		EXPECT_EQ(back, data);
	}

	auto data = pattern(10000, 8);
	const auto as_written = data;
	Bytes back(data.size());
	auto pieces = pieces_of(data, 64);
	int context = 0;

	Side::post([&] {
		return fi_writev(pair.a.ep.get(), pieces.data(), nullptr, pieces.size(), pair.to_b, place(0),
			key, &context);
	});
	pair.a.done(&context);
	pieces = pieces_of(back, 64);
	Side::post([&] {
		return fi_readv(pair.a.ep.get(), pieces.data(), nullptr, pieces.size(), pair.to_b, place(0),
			key, &context);
	});
	pair.a.done(&context);
	EXPECT_EQ(back, as_written);

	const auto many = pieces_of(data, 65);

	EXPECT_EQ(fi_writev(pair.a.ep.get(), many.data(), nullptr, many.size(), pair.to_b, place(0), key,
			  nullptr),
		-FI_EINVAL);
	EXPECT_EQ(fi_readv(pair.a.ep.get(), many.data(), nullptr, many.size(), pair.to_b, place(0), key,
			  nullptr),
		-FI_EINVAL);
}

TEST_F(Rma, by_description)
{
	auto data = pattern(500, 6);
	const auto as_written = data;
	Bytes back(500);
	int context = 0;

	Side::post([&] {
		return message(true, {{data.data(), 200}, {data.data() + 200, 300}}, {{place(3), 500, key}},
			FI_INJECT | FI_DELIVERY_COMPLETE, &context);
	});
	// FI_INJECT: the buffer may be used again, but the write is reported.
	std::fill(data.begin(), data.end(), 0);
	EXPECT_EQ(pair.a.done(&context).flags, FI_RMA | FI_WRITE);
	EXPECT_TRUE(std::equal(as_written.begin(), as_written.end(), memory.begin() + 3));
	Side::post([&] {
		return message(
			false, {{back.data(), 500}}, {{place(3), 500, key}}, FI_DELIVERY_COMPLETE, &context);
	});
	EXPECT_EQ(pair.a.done(&context).flags, FI_RMA | FI_READ);
	EXPECT_EQ(back, as_written);

	for (const bool writes : {true, false}) {
		const iovec whole{back.data(), 500};

		// One place, as long as all pieces.
		EXPECT_EQ(message(writes, {whole}, {{place(0), 499, key}}, 0, nullptr), -FI_EINVAL);
		EXPECT_EQ(message(writes, {whole}, {{place(0), 501, key}}, 0, nullptr), -FI_EINVAL);
		EXPECT_EQ(message(writes, {whole}, {}, 0, nullptr), -FI_EINVAL);
		EXPECT_EQ(
			message(writes, {whole}, {{place(0), 250, key}, {place(250), 250, key}}, 0, nullptr),
			-FI_EINVAL);
		for (const std::uint64_t flag : {FI_FENCE, FI_COMMIT_COMPLETE})
			EXPECT_EQ(message(writes, {whole}, {{place(0), 500, key}}, flag, nullptr),
				-FI_EBADFLAGS);
	}
	EXPECT_EQ(message(false, {{back.data(), 500}}, {{place(0), 500, key}}, FI_REMOTE_CQ_DATA, nullptr),
		-FI_EBADFLAGS);
	EXPECT_EQ(message(false, {{back.data(), 500}}, {{place(0), 500, key}}, FI_INJECT, nullptr),
		-FI_EBADFLAGS);
	EXPECT_EQ(pair.a.look().result, -FI_EAGAIN);
}

TEST_F(Rma, injected)
{
	const std::size_t longest = pair.a.info->tx_attr->inject_size;
	auto data = pattern(longest, 7);
	const auto as_written = data;

	Side::post([&] {
		return fi_inject_write(pair.a.ep.get(), data.data(), longest, pair.to_b, place(5), key);
	});
	std::fill(data.begin(), data.end(), 0);
	EXPECT_TRUE(arrives(as_written, 5));
	data.resize(longest + 1);
	EXPECT_EQ(fi_inject_write(pair.a.ep.get(), data.data(), data.size(), pair.to_b, place(5), key),
		-FI_EMSGSIZE);
	EXPECT_EQ(message(true, {{data.data(), data.size()}}, {{place(5), data.size(), key}}, FI_INJECT,
			  nullptr),
		-FI_EMSGSIZE);
	// Nobody is told, and of what has failed neither.
	Side::post([&] {
		return fi_inject_write(pair.a.ep.get(), data.data(), 1, pair.to_b, place(5), key + 1);
	});

	int context = 0;

	read(data.data(), 1, 5, &context);
	EXPECT_EQ(pair.a.done(&context).flags, FI_RMA | FI_READ);
	EXPECT_EQ(data[0], as_written[0]);
	EXPECT_EQ(pair.a.look().result, -FI_EAGAIN);
}

// The other one is told of it when it is there, whatever he receives otherwise.
TEST_F(Rma, with_data)
{
	constexpr std::uint64_t data = 0xfedcba9876543210;
	char byte = 0;
	int writing = 0;
	int receiving = 0;
	unsigned seed = 0;

	Side::post([&] { return fi_recv(pair.b.ep.get(), &byte, 1, nullptr, FI_ADDR_UNSPEC, &receiving); });
	for (const std::size_t bytes : lengths) {
		const auto sent = pattern(bytes, ++seed);
		const auto told = [&](std::uint64_t expected) {
			const Told event = pair.b.next();

			EXPECT_EQ(event.entry.flags, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA);
			EXPECT_EQ(event.entry.data, expected);
			EXPECT_EQ(event.entry.len, bytes);
			EXPECT_EQ(event.entry.op_context, nullptr);
			EXPECT_EQ(event.entry.buf, nullptr);
			EXPECT_EQ(event.entry.tag, 0U);
			EXPECT_EQ(event.source, pair.to_a);
			EXPECT_TRUE(std::equal(sent.begin(), sent.end(), memory.begin() + 77));
			std::fill(memory.begin(), memory.end(), 0xee);
		};

		SCOPED_TRACE(bytes);
		Side::post([&] {
			return fi_writedata(pair.a.ep.get(), sent.data(), bytes, nullptr, data + bytes,
				pair.to_b, place(77), key, &writing);
		});
		told(data + bytes);
		EXPECT_EQ(pair.a.done(&writing).flags, FI_RMA | FI_WRITE);

		auto piece = sent;
		const iovec whole{piece.data(), bytes};
		const fi_rma_iov to{place(77), bytes, key};
		const fi_msg_rma described{.msg_iov = &whole,
			.desc = nullptr,
			.iov_count = 1,
			.addr = pair.to_b,
			.rma_iov = &to,
			.rma_iov_count = 1,
			.context = &writing,
			.data = data};

		Side::post([&] { return fi_writemsg(pair.a.ep.get(), &described, FI_REMOTE_CQ_DATA); });
		told(data);
		EXPECT_EQ(pair.a.done(&writing).flags, FI_RMA | FI_WRITE);
		if (bytes > pair.a.info->tx_attr->inject_size)
			continue;
		Side::post([&] {
			return fi_inject_writedata(
				pair.a.ep.get(), sent.data(), bytes, 0, pair.to_b, place(77), key);
		});
		told(0);
	}
	EXPECT_EQ(pair.a.look().result, -FI_EAGAIN);
	EXPECT_EQ(pair.b.look().result, -FI_EAGAIN);
	Side::post([&] { return fi_inject(pair.a.ep.get(), "m", 1, pair.to_b); });
	pair.b.done(&receiving);
	EXPECT_EQ(byte, 'm');
}

// Nobody who is told looks for a while; and of what has failed he is not told.
TEST_F(Rma, with_data_of_many)
{
	constexpr std::uint64_t count = 1000;
	int context = 0;

	for (std::uint64_t i = 0; i < count; i++) {
		Side::post([&] {
			return fi_writedata(pair.a.ep.get(), &i, sizeof(i), nullptr, i, pair.to_b, place(0),
				key + i % 2, &context);
		});
		if (i % 2)
			EXPECT_EQ(pair.a.failed(&context, FI_EACCES).flags, FI_RMA | FI_WRITE);
		else
			pair.a.done(&context);
	}
	for (std::uint64_t i = 0; i < count; i += 2) {
		const Told event = pair.b.next();

		EXPECT_EQ(event.entry.flags, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA);
		EXPECT_EQ(event.entry.data, i);
	}
	EXPECT_EQ(pair.b.look().result, -FI_EAGAIN);
}

// Short and long ones fail alike, and say why; the memory is as before.
TEST_F(Rma, of_what_may_not_be)
{
	int context = 0;

	for (const std::size_t bytes : {8UL, 100000UL}) {
		Bytes data(bytes, 0x11);
		const auto fails = [&](bool writes, std::uint64_t address, std::uint64_t with, int error,
					   const char *why) {
			SCOPED_TRACE(std::to_string(bytes) + (writes ? " write " : " read ") + why);
			Side::post([&] {
				return writes ? fi_write(pair.a.ep.get(), data.data(), bytes, nullptr,
							pair.to_b, address, with, &context)
					      : fi_read(pair.a.ep.get(), data.data(), bytes, nullptr,
							pair.to_b, address, with, &context);
			});

			const auto told = pair.a.failed(&context, error);

			EXPECT_EQ(told.flags, FI_RMA | (writes ? FI_WRITE : FI_READ));
			EXPECT_EQ(told.prov_errno, error);
			EXPECT_NE(text_of(told).find(why), std::string::npos) << text_of(told);
		};

		share();
		for (const bool writes : {true, false}) {
			fails(writes, place(0), key + 1, FI_EACCES, "key");
			fails(writes, place(0), FI_KEY_NOTAVAIL, FI_EACCES, "key");
			fails(writes, place(0) - 1, key, FI_EFAULT, "not all of it is in the peer's region");
			fails(writes, place(memory.size()) - bytes + 1, key, FI_EFAULT,
				"not all of it is in the peer's region");
		}
		share(FI_REMOTE_READ);
		fails(true, place(0), key, FI_EACCES, "key");
		share(FI_REMOTE_WRITE);
		fails(false, place(0), key, FI_EACCES, "key");
		region.reset();
		fails(true, place(0), key, FI_EACCES, "key");
		fails(false, place(0), key, FI_EACCES, "key");
		EXPECT_TRUE(all_are(memory, 0, memory.size(), 0xee));
		EXPECT_TRUE(all_are(data, 0, bytes, 0x11));
	}

	// The way is as good as before.
	share();
	write("x", 1, 0, &context);
	pair.a.done(&context);
	EXPECT_EQ(memory[0], 'x');
}

// When it is closed, nobody writes any more.
TEST_F(Rma, closed_while_it_is_written)
{
	constexpr std::size_t each = 1U << 20;
	constexpr std::size_t count = 5;
	const Bytes data(each, 0x22);
	std::array<int, count> contexts{};

	for (std::size_t i = 0; i < count; i++)
		write(data.data(), each, i * each, &contexts[i]);
	region.reset();
	std::fill(memory.begin(), memory.end(), 0xee);
	for (std::size_t i = 0; i < count; i++) {
		const Told told = pair.a.next();

		if (told.result != 1) {
			EXPECT_EQ(told.error.err, FI_EACCES);
		}
	}
	EXPECT_TRUE(all_are(memory, 0, memory.size(), 0xee));
}

// A message that is sent after a short write comes when it is there.
TEST_F(Rma, before_a_message)
{
	for (std::uint64_t i = 1; i <= 100; i++) {
		std::uint64_t received = 0;
		std::uint64_t seen = 0;
		int context = 0;

		Side::post([&] {
			return fi_trecv(pair.b.ep.get(), &received, sizeof(received), nullptr, FI_ADDR_UNSPEC,
				1, 0, &context);
		});
		Side::post([&] {
			return fi_inject_write(pair.a.ep.get(), &i, sizeof(i), pair.to_b, place(0), key);
		});
		Side::post([&] { return fi_tinject(pair.a.ep.get(), &i, sizeof(i), pair.to_b, 1); });
		pair.b.done(&context);
		std::memcpy(&seen, memory.data(), sizeof(seen));
		ASSERT_EQ(received, i);
		ASSERT_EQ(seen, i);
	}
}

TEST_F(Rma, of_oneself)
{
	const fi_addr_t self = pair.b.add(pair.b);

	for (const std::size_t bytes : lengths) {
		const auto data = pattern(bytes, 8);
		Bytes back(bytes);
		int context = 0;

		Side::post([&] {
			return fi_write(
				pair.b.ep.get(), data.data(), bytes, nullptr, self, place(1), key, &context);
		});
		pair.b.done(&context);
		EXPECT_TRUE(std::equal(data.begin(), data.end(), memory.begin() + 1));
		Side::post([&] {
			return fi_read(
				pair.b.ep.get(), back.data(), bytes, nullptr, self, place(1), key, &context);
		});
		pair.b.done(&context);
		EXPECT_EQ(back, data);
	}
}

// A registration that its memory was taken from, as caches of them keep it, matters to nobody whose buffer
// lies at the same addresses now.
TEST_F(Rma, with_buffers_where_a_stale_region_was)
{
	constexpr std::size_t bytes = 2U << 20;
	constexpr std::size_t half = bytes / 2;
	constexpr int kind = MAP_PRIVATE | MAP_ANONYMOUS;
	auto *const mapped =
		static_cast<unsigned char *>(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, kind, -1, 0));

	ASSERT_NE(mapped, MAP_FAILED);

	const auto stale = pair.a.share(mapped, bytes);
	const auto stale_half = pair.a.share(mapped + half, 300000);

	for (int round = 0; round < 3; round++) {
		const auto data = pattern(bytes, round);
		int context = 0;

		std::copy(data.begin(), data.end(), mapped);
		for (const std::size_t at : {std::size_t{0}, half, half - 5000}) {
			const std::size_t length = std::min(bytes - at, std::size_t{300000});

			Side::post([&] {
				return fi_write(pair.a.ep.get(), mapped + at, length, fi_mr_desc(stale.get()),
					pair.to_b, place(1), key, &context);
			});
			pair.a.done(&context);
			EXPECT_TRUE(std::equal(mapped + at, mapped + at + length, memory.begin() + 1)) << at;
			std::fill(mapped + at, mapped + at + length, 0);
			read(mapped + at, length, 1, &context);
			pair.a.done(&context);
			EXPECT_TRUE(std::equal(mapped + at, mapped + at + length, memory.begin() + 1)) << at;
		}
		// The upper half is another one from now on, as when a heap shrinks and grows.
		ASSERT_EQ(::munmap(mapped + half, half), 0);
		ASSERT_EQ(::mmap(mapped + half, half, PROT_READ | PROT_WRITE, kind | MAP_FIXED, -1, 0),
			mapped + half);
	}
	EXPECT_EQ(::munmap(mapped, bytes), 0);
}

// Long ones to and fro at once, from memory that is registered, too, as Open MPI's btl/ofi does it.
TEST_F(Rma, both_ways_at_once)
{
	constexpr std::size_t bytes = 300000;
	Bytes other(memory.size());
	const auto region_a = pair.a.share(other.data(), other.size());

	for (unsigned round = 0; round < 30; round++) {
		Bytes from_a = pattern(bytes, round);
		Bytes from_b = pattern(bytes, round + 100);
		const auto source_a = pair.a.share(from_a.data(), bytes);
		const auto source_b = pair.b.share(from_b.data(), bytes);
		int context = 0;

		SCOPED_TRACE(round);
		std::fill(memory.begin(), memory.end(), 0);
		std::fill(other.begin(), other.end(), 0);
		write(from_a.data(), bytes, 16, &context);
		Side::post([&] {
			return fi_write(pair.b.ep.get(), from_b.data(), bytes, nullptr, pair.to_a,
				address_of(other.data() + 16), fi_mr_key(region_a.get()), &context);
		});
		pair.a.done(&context);
		EXPECT_TRUE(std::equal(from_a.begin(), from_a.end(), memory.begin() + 16));
		pair.b.done(&context);
		EXPECT_TRUE(std::equal(from_b.begin(), from_b.end(), other.begin() + 16));
	}
}

// More than there is room for, from several threads, each to a place of its own.
TEST_F(Rma, of_many_at_once)
{
	constexpr std::size_t threads = 4;
	constexpr std::size_t each = 1500;
	constexpr std::size_t bytes = 200;
	const auto sent = pattern(threads * each * bytes, 9);
	Bytes back(sent.size());
	fid_ep *ep = pair.a.ep.get();

	for (const bool writes : {true, false}) {
		std::vector<std::thread> all;
		std::atomic<std::size_t> done{0};
		std::atomic<int> failed{0};
		const auto until = std::chrono::steady_clock::now() + patience;
		const auto look = [&] {
			std::array<fi_cq_tagged_entry, 16> entries{};
			const ssize_t count = fi_cq_read(pair.a.cq.get(), entries.data(), entries.size());

			if (count > 0)
				done += static_cast<std::size_t>(count);
			else if (count != -FI_EAGAIN || std::chrono::steady_clock::now() > until)
				failed++;
		};
		const auto start = [&](std::size_t at) {
			return writes ? fi_write(ep, sent.data() + at, bytes, nullptr, pair.to_b, place(at),
						key, nullptr)
				      : fi_read(ep, back.data() + at, bytes, nullptr, pair.to_b, place(at),
						key, nullptr);
		};

		for (std::size_t t = 0; t < threads; t++) {
			all.emplace_back([&, t] {
				for (std::size_t i = 0; i < each && failed == 0;) {
					const ssize_t result = start((t * each + i) * bytes);

					if (result == 0)
						i++;
					else if (result == -FI_EAGAIN)
						look(); // that makes room
					else
						failed++;
				}
				while (done < threads * each && failed == 0)
					look();
			});
		}
		for (auto &thread : all)
			thread.join();
		ASSERT_EQ(failed, 0);
		EXPECT_EQ(done, threads * each);
	}
	EXPECT_TRUE(std::equal(sent.begin(), sent.end(), memory.begin()));
	EXPECT_EQ(back, sent);
}

class SleepingRma : public Rma
{
protected:
	static Wish wish()
	{
		Wish all = remote_wish();

		all.wait = FI_WAIT_FD;
		return all;
	}
	SleepingRma() : Rma(wish())
	{
	}
};

// Who sleeps is woken by each, as many as there are, by either way to sleep.
TEST_F(SleepingRma, with_data)
{
	constexpr std::uint64_t count = 200;
	std::atomic<std::uint64_t> told = 0;
	std::atomic<bool> gone = false;
	int descriptor = -1;

	ASSERT_EQ(fi_control(&pair.b.cq->fid, FI_GETWAIT, &descriptor), 0);

	std::thread reader([&] {
		const auto until = std::chrono::steady_clock::now() + patience;
		const auto leave = [](std::atomic<bool> *left) {
			*left = true;
		};
		const std::unique_ptr<std::atomic<bool>, decltype(leave)> leaving(&gone, leave);
		fid *queue = &pair.b.cq->fid;

		while (told < count && std::chrono::steady_clock::now() < until) {
			fi_cq_tagged_entry entry{};
			ssize_t result = 0;

			if (told % 2) {
				result = fi_cq_sread(pair.b.cq.get(), &entry, 1, nullptr, 60000);
			} else {
				pollfd waiting{descriptor, POLLIN, 0};

				if (fi_trywait(pair.b.fabric.get(), &queue, 1) == 0)
					poll(&waiting, 1, 60000);
				result = fi_cq_read(pair.b.cq.get(), &entry, 1);
			}
			if (result == -FI_EAGAIN)
				continue;
			ASSERT_EQ(result, 1);
			EXPECT_EQ(entry.data, told);
			told++;
		}
	});
	int context = 0;

	for (std::uint64_t i = 0; i < count; i++) {
		// The reader is to sleep, or to be about to.
		while (told < i && !gone)
			std::this_thread::yield();
		if (told < i)
			break;
		Side::post([&] {
			return fi_writedata(pair.a.ep.get(), &i, sizeof(i), nullptr, i, pair.to_b, place(0),
				key, &context);
		});
		pair.a.done(&context);
	}
	reader.join();
	EXPECT_EQ(told, count);
}

// Both are told in one queue, of which one is closed meanwhile.
TEST_F(Rma, with_data_of_one_that_closes)
{
	int context = 0;

	for (int round = 0; round < 3; round++) {
		Owned<fid_ep> other;
		std::array<unsigned char, 64> name{};
		std::size_t length = name.size();
		fi_addr_t to_other = FI_ADDR_NOTAVAIL;

		open(other, [&](auto **e) {
			return fi_endpoint(pair.b.domain.get(), pair.b.info.get(), e, nullptr);
		});
		ASSERT_EQ(fi_ep_bind(other.get(), &pair.b.av->fid, 0), 0);
		ASSERT_EQ(fi_ep_bind(other.get(), &pair.b.cq->fid, FI_TRANSMIT | FI_RECV), 0);
		ASSERT_EQ(fi_enable(other.get()), 0);
		ASSERT_EQ(fi_getname(&other->fid, name.data(), &length), 0);
		ASSERT_EQ(fi_av_insert(pair.a.av.get(), name.data(), 1, &to_other, 0, nullptr), 1);
		for (std::uint64_t i = 0; i < 80; i++) {
			Side::post([&] {
				return fi_writedata(pair.a.ep.get(), &i, sizeof(i), nullptr, i,
					i % 2 ? pair.to_b : to_other, place(0), key, &context);
			});
			pair.a.done(&context);

			const Told event = pair.b.next();

			ASSERT_EQ(event.result, 1);
			EXPECT_EQ(event.entry.flags, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA);
			EXPECT_EQ(event.entry.data, i);
		}
	}
	EXPECT_EQ(pair.b.look().result, -FI_EAGAIN);
	// There is nothing that could be cancelled.
	EXPECT_EQ(fi_cancel(&pair.b.ep->fid, nullptr), -FI_ENOENT);
}

// ---- who is told ------------------------------------------------------------------------------------------

class SelectiveRma : public Rma
{
protected:
	static Wish wish()
	{
		Wish all = remote_wish();

		all.bind_flags = FI_SELECTIVE_COMPLETION;
		return all;
	}
	SelectiveRma() : Rma(wish())
	{
	}
};

TEST_F(SelectiveRma, only_what_is_asked_for_or_fails)
{
	const auto data = pattern(300, 10);
	Bytes back(300);
	std::array<int, 4> contexts{};

	write(data.data(), data.size(), 0, &contexts[0]);
	EXPECT_TRUE(arrives(data, 0));
	read(back.data(), back.size(), 0, &contexts[1]);
	Side::post([&] {
		return message(
			true, {{back.data(), 1}}, {{place(1000), 1, key}}, FI_COMPLETION, &contexts[2]);
	});
	EXPECT_EQ(pair.a.done(&contexts[2]).flags, FI_RMA | FI_WRITE);
	for (const bool writes : {true, false}) {
		Side::post([&] {
			return message(writes, {{back.data(), 1}}, {{place(0), 1, key + 1}}, 0, &contexts[3]);
		});
		EXPECT_EQ(
			pair.a.failed(&contexts[3], FI_EACCES).flags, FI_RMA | (writes ? FI_WRITE : FI_READ));
	}
	EXPECT_EQ(pair.a.look().result, -FI_EAGAIN);
	EXPECT_EQ(back, data);
}

class CountedRma : public Rma, public ::testing::WithParamInterface<bool>
{
protected:
	static Wish wish(bool queue)
	{
		Wish all = remote_wish();

		all.counters = true;
		all.queue = queue;
		return all;
	}
	CountedRma() : Rma(wish(GetParam()))
	{
	}
};

// Each in its own counter, what is injected too, with a queue and without.
TEST_P(CountedRma, counts)
{
	constexpr std::uint64_t count = 20;
	const auto data = pattern(20000, 11);
	Bytes back(20000);
	int context = 0;

	for (std::uint64_t i = 0; i < count; i++) {
		write(data.data(), data.size(), 0, &context);
		Side::post([&] {
			return fi_inject_write(pair.a.ep.get(), "x", 1, pair.to_b, place(30000), key);
		});
	}
	EXPECT_EQ(fi_cntr_wait(pair.a.writes.get(), 2 * count, 60000), 0);
	EXPECT_TRUE(std::equal(data.begin(), data.end(), memory.begin()));
	EXPECT_EQ(fi_cntr_read(pair.a.reads.get()), 0U);
	read(back.data(), back.size(), 0, &context);
	EXPECT_EQ(fi_cntr_wait(pair.a.reads.get(), 1, 60000), 0);
	EXPECT_EQ(back, data);
	Side::post([&] { return fi_inject_write(pair.a.ep.get(), "x", 1, pair.to_b, place(0), key + 1); });
	EXPECT_EQ(fi_cntr_wait(pair.a.writes.get(), 2 * count + 1, 60000), -FI_EAVAIL);
	EXPECT_EQ(fi_cntr_readerr(pair.a.writes.get()), 1U);
	EXPECT_EQ(fi_cntr_read(pair.a.writes.get()), 2 * count);
	EXPECT_EQ(fi_cntr_read(pair.a.reads.get()), 1U);
	EXPECT_EQ(fi_cntr_read(pair.a.sent.get()), 0U);
	for (const auto *counter : {&pair.b.reads, &pair.b.writes, &pair.b.received})
		EXPECT_EQ(fi_cntr_read(counter->get()), 0U);
	if (!GetParam())
		return;
	for (std::uint64_t i = 0; i < count + 1; i++)
		pair.a.done(&context);
	EXPECT_EQ(pair.a.look().result, -FI_EAGAIN);
}

INSTANTIATE_TEST_SUITE_P(Queue, CountedRma, ::testing::Bool(),
	[](const auto &info) { return info.param ? "with" : "without"; });

// There is no FI_RMA_EVENT, without which counters of what others do are taken, and stay as they are.
TEST(RmaEndpoint, does_not_count_what_others_do)
{
	const Side side(remote_wish());
	Owned<fid_cntr> counter;
	Owned<fid_ep> ep;
	fi_cntr_attr attr{};

	open(counter, [&](auto **c) { return fi_cntr_open(side.domain.get(), &attr, c, nullptr); });
	open(ep, [&](auto **e) { return fi_endpoint(side.domain.get(), side.info.get(), e, nullptr); });
	for (const std::uint64_t flag : {FI_REMOTE_READ, FI_REMOTE_WRITE})
		EXPECT_EQ(fi_ep_bind(ep.get(), &counter->fid, flag), 0);
	EXPECT_EQ(fi_ep_bind(ep.get(), &counter->fid, FI_SELECTIVE_COMPLETION), -FI_EBADFLAGS);
	EXPECT_EQ(fi_ep_bind(ep.get(), &counter->fid, FI_READ), 0);
	EXPECT_EQ(fi_ep_bind(ep.get(), &counter->fid, FI_READ | FI_WRITE), -FI_EINVAL);
	EXPECT_EQ(fi_ep_bind(ep.get(), &counter->fid, FI_WRITE), 0);
	EXPECT_EQ(fi_close(&counter->fid), -FI_EBUSY);
}

// Without messages there is nothing to be received, and only what was asked for can be done.
TEST(RmaEndpoint, does_what_it_was_made_for)
{
	Wish wish = remote_wish();

	wish.caps = FI_RMA | FI_WRITE | FI_REMOTE_WRITE;

	Side side(wish);
	const fi_addr_t self = side.add(side);
	std::array<char, 2> bytes = {'a', 'b'};
	const auto region = side.share(bytes.data(), bytes.size());
	int context = 0;

	EXPECT_EQ(side.info->caps & (FI_MSG | FI_TAGGED | FI_SEND | FI_RECV | FI_READ), 0U);
	EXPECT_EQ(fi_read(side.ep.get(), &bytes[0], 1, nullptr, self, address_of(&bytes[1]),
			  fi_mr_key(region.get()), &context),
		-FI_EOPNOTSUPP);
	Side::post([&] {
		return fi_write(side.ep.get(), &bytes[0], 1, nullptr, self, address_of(&bytes[1]),
			fi_mr_key(region.get()), &context);
	});
	side.done(&context);
	EXPECT_EQ(bytes[1], 'a');

	// As Open MPI's btl/ofi binds its queue, and MPICH only counters.
	Owned<fid_ep> ep;

	open(ep, [&](auto **e) { return fi_endpoint(side.domain.get(), side.info.get(), e, nullptr); });
	EXPECT_EQ(fi_ep_bind(ep.get(), &side.av->fid, 0), 0);
	EXPECT_EQ(fi_enable(ep.get()), -FI_ENOCQ);
	EXPECT_EQ(fi_ep_bind(ep.get(), &side.cq->fid, FI_TRANSMIT | FI_SEND | FI_RECV), 0);
	EXPECT_EQ(fi_enable(ep.get()), 0);
}

TEST(RmaEndpoint, is_not_enabled_at_first)
{
	const Side side(remote_wish());
	Owned<fid_ep> ep;
	char byte = 0;

	open(ep, [&](auto **e) { return fi_endpoint(side.domain.get(), side.info.get(), e, nullptr); });
	EXPECT_EQ(fi_write(ep.get(), &byte, 1, nullptr, 0, 0, 0, nullptr), -FI_EOPBADSTATE);
	EXPECT_EQ(fi_read(ep.get(), &byte, 1, nullptr, 0, 0, 0, nullptr), -FI_EOPBADSTATE);
}

TEST(Mr, raw_keys_are_keys)
{
	Side side(remote_wish());
	Bytes memory(100);
	const Owned<fid_mr> mr = side.share(memory.data(), memory.size());
	std::uint64_t base = 0;
	std::uint64_t key = 0;
	std::array<std::uint8_t, 16> raw{};
	std::size_t length = 4;

	EXPECT_EQ(fi_mr_raw_attr(mr.get(), &base, raw.data(), &length, 0), -FI_ETOOSMALL);
	ASSERT_EQ(length, sizeof(key));
	EXPECT_EQ(fi_mr_raw_attr(mr.get(), &base, raw.data(), &length, 0), 0);
	EXPECT_EQ(base, address_of(memory.data()));
	EXPECT_EQ(fi_mr_map_raw(side.domain.get(), base, raw.data(), 5, &key, 0), -FI_EINVAL);
	EXPECT_EQ(fi_mr_map_raw(side.domain.get(), base, raw.data(), length, &key, 0), 0);
	EXPECT_EQ(key, fi_mr_key(mr.get()));
	EXPECT_EQ(fi_mr_unmap_key(side.domain.get(), key), 0);
}

} // namespace

} // namespace ofi
