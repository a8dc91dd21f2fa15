// SPDX-License-Identifier: GPL-2.0-only
//
// Atomics: what there is, what each operation makes of each type, by every function that begins one, and what
// is refused.
#include "side.hpp"

#include <atomic>
#include <limits>
#include <thread>

namespace ofi
{

namespace
{

constexpr fi_op base_ops[] = {
	FI_MIN, FI_MAX, FI_SUM, FI_PROD, FI_LOR, FI_LAND, FI_BOR, FI_BAND, FI_LXOR, FI_BXOR, FI_ATOMIC_WRITE};
constexpr fi_op compare_ops[] = {
	FI_CSWAP, FI_CSWAP_NE, FI_CSWAP_LE, FI_CSWAP_LT, FI_CSWAP_GE, FI_CSWAP_GT, FI_MSWAP};

template<typename T>
constexpr fi_datatype type_of()
{
	if constexpr (sizeof(T) == 4)
		return std::numeric_limits<T>::is_signed ? FI_INT32 : FI_UINT32;
	else
		return std::numeric_limits<T>::is_signed ? FI_INT64 : FI_UINT64;
}

// What the manual says that becomes of it.
template<typename T>
T result_of(fi_op op, T there, T operand, T compare = 0)
{
	using Unsigned = std::make_unsigned_t<T>; // which wraps around

	switch (op) {
	case FI_MIN: return std::min(there, operand);
	case FI_MAX: return std::max(there, operand);
	case FI_SUM: return static_cast<T>(static_cast<Unsigned>(there) + static_cast<Unsigned>(operand));
	case FI_PROD: return static_cast<T>(static_cast<Unsigned>(there) * static_cast<Unsigned>(operand));
	case FI_LOR: return there || operand;
	case FI_LAND: return there && operand;
	case FI_BOR: return there | operand;
	case FI_BAND: return there & operand;
	case FI_LXOR: return !there != !operand;
	case FI_BXOR: return there ^ operand;
	case FI_ATOMIC_READ: return there;
	case FI_ATOMIC_WRITE: return operand;
	case FI_CSWAP: return compare == there ? operand : there;
	case FI_CSWAP_NE: return compare != there ? operand : there;
	case FI_CSWAP_LE: return compare <= there ? operand : there;
	case FI_CSWAP_LT: return compare < there ? operand : there;
	case FI_CSWAP_GE: return compare >= there ? operand : there;
	case FI_CSWAP_GT: return compare > there ? operand : there;
	case FI_MSWAP: return (operand & compare) | (there & ~compare);
	default: ADD_FAILURE(); return 0;
	}
}

class Atomic : public ::testing::Test
{
protected:
	static Wish wish()
	{
		Wish all;

		all.mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
		return all;
	}
	explicit Atomic(const Wish &all = wish()) : pair(all)
	{
		share();
	}

	void share(std::uint64_t access = FI_REMOTE_READ | FI_REMOTE_WRITE)
	{
		region = pair.b.share(memory.data(), sizeof(memory), access);
		key = fi_mr_key(region.get());
	}
	[[nodiscard]] std::uint64_t place(std::size_t at = 0) const
	{
		return reinterpret_cast<std::uintptr_t>(memory.data()) + at;
	}
	[[nodiscard]] fid_ep *ep() const
	{
		return pair.a.ep.get();
	}
	template<typename T>
	T *there()
	{
		return reinterpret_cast<T *>(memory.data());
	}
	void add(std::uint64_t value, void *context)
	{
		Side::post([&] {
			return fi_atomic(ep(), &value, 1, nullptr, pair.to_b, place(), key, FI_UINT64, FI_SUM,
				context);
		});
	}

	Pair pair;
	alignas(64) std::array<std::uint64_t, 32> memory{};
	Owned<fid_mr> region;
	std::uint64_t key = 0;
};

// The three kinds each have their operations; of types only integers of 32 and 64 bits, and what numbers with
// a point are made of.
TEST_F(Atomic, what_there_is)
{
	const auto of_kind = [](std::uint64_t kind, int op) {
		if (op >= FI_CSWAP)
			return kind == FI_COMPARE_ATOMIC;
		return op == FI_ATOMIC_READ ? kind == FI_FETCH_ATOMIC : kind != FI_COMPARE_ATOMIC;
	};

	for (int type = FI_INT8; type < FI_DATATYPE_LAST; type++) {
		const bool integer = type >= FI_INT32 && type <= FI_UINT64;
		const bool real = type == FI_FLOAT || type == FI_DOUBLE;
		const std::size_t size = type <= FI_UINT32 || type == FI_FLOAT ? 4 : 8;

		for (int op = FI_MIN; op < FI_ATOMIC_OP_LAST; op++) {
			for (const std::uint64_t kind : {0ULL, FI_FETCH_ATOMIC, FI_COMPARE_ATOMIC}) {
				const auto datatype = static_cast<fi_datatype>(type);
				const auto operation = static_cast<fi_op>(op);
				const bool moves = op == FI_ATOMIC_READ || op == FI_ATOMIC_WRITE;
				const bool known = integer || (real && moves);
				const int expected = known && of_kind(kind, op) ? 0 : -FI_EOPNOTSUPP;
				fi_atomic_attr attr{};
				std::size_t count = 0;
				int valid = 0;

				SCOPED_TRACE(std::to_string(type) + " " + std::to_string(op));
				EXPECT_EQ(fi_query_atomic(
						  pair.a.domain.get(), datatype, operation, &attr, kind),
					expected);
				switch (kind) {
				case FI_FETCH_ATOMIC:
					valid = fi_fetch_atomicvalid(ep(), datatype, operation, &count);
					break;
				case FI_COMPARE_ATOMIC:
					valid = fi_compare_atomicvalid(ep(), datatype, operation, &count);
					break;
				default: valid = fi_atomicvalid(ep(), datatype, operation, &count);
				}
				EXPECT_EQ(valid, expected);
				EXPECT_EQ(count, attr.count);
				if (expected == 0) {
					EXPECT_EQ(attr.size, size);
					EXPECT_EQ(attr.count, 64 / size);
				}
			}
		}
	}

	fi_atomic_attr attr{};

	EXPECT_EQ(fi_query_atomic(pair.a.domain.get(), FI_INT32, FI_SUM, &attr, FI_TAGGED), -FI_EOPNOTSUPP);
	EXPECT_EQ(fi_query_atomic(
			  pair.a.domain.get(), FI_INT32, FI_SUM, &attr, FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC),
		-FI_EBADFLAGS);
}

// ---- what is computed -------------------------------------------------------------------------------------

template<typename T>
class AtomicOf : public Atomic
{
protected:
	using Array = std::array<T, 64 / sizeof(T)>;

	// Signs, wrapping around, and what is equal; what is left over is 0.
	static Array values(const std::vector<T> &some)
	{
		Array all{};

		std::copy(some.begin(), some.end(), all.begin());
		return all;
	}
	void put(const Array &before)
	{
		memory.fill(0xeeeeeeeeeeeeeeee);
		std::copy(before.begin(), before.end(), there<T>());
	}
	void expect(fi_op op, const Array &compare = {})
	{
		for (std::size_t i = 0; i < before.size(); i++)
			EXPECT_EQ(there<T>()[i], result_of(op, before[i], operand[i], compare[i])) << i;
		EXPECT_EQ(memory[8], 0xeeeeeeeeeeeeeeee);
	}

	static constexpr T least = std::numeric_limits<T>::min();
	static constexpr T most = std::numeric_limits<T>::max();
	static constexpr T minus = static_cast<T>(-3);
	const Array before = values({5, minus, 0, most, least, 7, 1, 12});
	const Array operand = values({minus, 5, 1, 2, minus, 0, 1, 10});
};

using Types = ::testing::Types<std::int32_t, std::uint32_t, std::int64_t, std::uint64_t>;
TYPED_TEST_SUITE(AtomicOf, Types);

TYPED_TEST(AtomicOf, base)
{
	int context = 0;

	for (const fi_op op : base_ops) {
		SCOPED_TRACE(op);
		this->put(this->before);
		Side::post([&] {
			return fi_atomic(this->ep(), this->operand.data(), this->operand.size(), nullptr,
				this->pair.to_b, this->place(), this->key, type_of<TypeParam>(), op,
				&context);
		});
		EXPECT_EQ(this->pair.a.done(&context).flags, FI_ATOMIC | FI_WRITE);
		this->expect(op);
	}
	EXPECT_EQ(this->pair.b.look().result, -FI_EAGAIN);
}

TYPED_TEST(AtomicOf, fetch)
{
	std::vector<fi_op> ops(std::begin(base_ops), std::end(base_ops));
	int context = 0;

	ops.push_back(FI_ATOMIC_READ);
	for (const fi_op op : ops) {
		typename TestFixture::Array result{};

		SCOPED_TRACE(op);
		this->put(this->before);
		Side::post([&] {
			return fi_fetch_atomic(this->ep(),
				op == FI_ATOMIC_READ ? nullptr : this->operand.data(), result.size(), nullptr,
				result.data(), nullptr, this->pair.to_b, this->place(), this->key,
				type_of<TypeParam>(), op, &context);
		});
		EXPECT_EQ(this->pair.a.done(&context).flags, FI_ATOMIC | FI_READ);
		this->expect(op);
		EXPECT_EQ(result, this->before);
	}
}

TYPED_TEST(AtomicOf, compare)
{
	const auto compare = this->values(
		{5, 5, this->minus, this->most, static_cast<TypeParam>(this->least + 1), 6, 2, 12});
	int context = 0;

	for (const fi_op op : compare_ops) {
		typename TestFixture::Array result{};

		SCOPED_TRACE(op);
		this->put(this->before);
		Side::post([&] {
			return fi_compare_atomic(this->ep(), this->operand.data(), result.size(), nullptr,
				compare.data(), nullptr, result.data(), nullptr, this->pair.to_b,
				this->place(), this->key, type_of<TypeParam>(), op, &context);
		});
		EXPECT_EQ(this->pair.a.done(&context).flags, FI_ATOMIC | FI_READ);
		this->expect(op, compare);
		EXPECT_EQ(result, this->before);
	}
}

// ---- by which functions -----------------------------------------------------------------------------------

// One of each by every function; each adds, or swaps what it finds.
TEST_F(Atomic, by_every_function)
{
	const std::uint64_t three = 3;
	std::uint64_t was = 0;
	std::uint64_t value = 0;
	int context = 0;
	fi_ioc operand{.addr = const_cast<std::uint64_t *>(&three), .count = 1};
	fi_ioc compare{.addr = &value, .count = 1};
	fi_ioc result{.addr = &was, .count = 1};
	fi_rma_ioc target{.addr = place(), .count = 1, .key = key};
	fi_msg_atomic message{.msg_iov = &operand,
		.desc = nullptr,
		.iov_count = 1,
		.addr = pair.to_b,
		.rma_iov = &target,
		.rma_iov_count = 1,
		.datatype = FI_UINT64,
		.op = FI_SUM,
		.context = &context,
		.data = 0};
	const std::function<ssize_t()> adds[] = {
		[&] {
			return fi_atomic(ep(), &three, 1, nullptr, pair.to_b, place(), key, FI_UINT64, FI_SUM,
				&context);
		},
		[&] {
			return fi_atomicv(ep(), &operand, nullptr, 1, pair.to_b, place(), key, FI_UINT64,
				FI_SUM, &context);
		},
		[&] { return fi_atomicmsg(ep(), &message, FI_DELIVERY_COMPLETE | FI_INJECT); },
	};
	const std::function<ssize_t()> fetches[] = {
		[&] {
			return fi_fetch_atomic(ep(), &three, 1, nullptr, &was, nullptr, pair.to_b, place(),
				key, FI_UINT64, FI_SUM, &context);
		},
		[&] {
			return fi_fetch_atomicv(ep(), &operand, nullptr, 1, &result, nullptr, 1, pair.to_b,
				place(), key, FI_UINT64, FI_SUM, &context);
		},
		[&] { return fi_fetch_atomicmsg(ep(), &message, &result, nullptr, 1, FI_DELIVERY_COMPLETE); },
	};
	const std::function<ssize_t()> swaps[] = {
		[&] {
			return fi_compare_atomic(ep(), &three, 1, nullptr, &value, nullptr, &was, nullptr,
				pair.to_b, place(), key, FI_UINT64, FI_CSWAP, &context);
		},
		[&] {
			return fi_compare_atomicv(ep(), &operand, nullptr, 1, &compare, nullptr, 1, &result,
				nullptr, 1, pair.to_b, place(), key, FI_UINT64, FI_CSWAP, &context);
		},
		[&] {
			return fi_compare_atomicmsg(ep(), &message, &compare, nullptr, 1, &result, nullptr, 1,
				FI_DELIVERY_COMPLETE);
		},
	};

	for (const auto &add : adds) {
		Side::post(add);
		EXPECT_EQ(pair.a.done(&context).flags, FI_ATOMIC | FI_WRITE);
		EXPECT_EQ(memory[0], value += 3);
	}
	for (const auto &fetch : fetches) {
		Side::post(fetch);
		EXPECT_EQ(pair.a.done(&context).flags, FI_ATOMIC | FI_READ);
		EXPECT_EQ(was, value);
		EXPECT_EQ(memory[0], value += 3);
	}
	message.op = FI_CSWAP;
	for (const auto &swap : swaps) {
		memory[0] = value = 77;
		Side::post(swap);
		EXPECT_EQ(pair.a.done(&context).flags, FI_ATOMIC | FI_READ);
		EXPECT_EQ(was, 77U);
		EXPECT_EQ(memory[0], 3U);
		value = 4;
		Side::post(swap);
		pair.a.done(&context);
		EXPECT_EQ(was, 3U);
		EXPECT_EQ(memory[0], 3U);
	}
	// Who only reads needs no operand.
	message.op = FI_ATOMIC_READ;
	message.msg_iov = nullptr;
	message.iov_count = 0;
	memory[0] = 99;
	Side::post([&] { return fi_fetch_atomicmsg(ep(), &message, &result, nullptr, 1, 0); });
	pair.a.done(&context);
	EXPECT_EQ(was, 99U);
}

// Buffers may be cut into pieces, each in its own way, of which some are empty.
TEST_F(Atomic, of_buffers_in_pieces)
{
	std::array<std::uint32_t, 6> operands{1, 2, 3, 4, 5, 6};
	std::array<std::uint32_t, 6> compares{10, 20, 30, 40, 50, 0};
	std::array<std::uint32_t, 10> was{};
	fi_ioc operand[] = {{.addr = operands.data(), .count = 2}, {.addr = nullptr, .count = 0},
		{.addr = operands.data() + 2, .count = 4}};
	fi_ioc compare[] = {{.addr = compares.data() + 3, .count = 3}, {.addr = compares.data(), .count = 3}};
	// With a gap, which stays as it is.
	fi_ioc result[] = {{.addr = was.data(), .count = 1}, {.addr = was.data() + 2, .count = 2},
		{.addr = was.data() + 6, .count = 3}};
	const auto put = [&](const std::array<std::uint32_t, 6> &values) {
		std::memcpy(memory.data(), values.data(), sizeof(values));
	};
	const auto now = [&] {
		std::array<std::uint32_t, 6> values;

		std::memcpy(values.data(), memory.data(), sizeof(values));
		return values;
	};
	int context = 0;

	put({10, 20, 30, 40, 50, 60});
	Side::post([&] {
		return fi_atomicv(
			ep(), operand, nullptr, 3, pair.to_b, place(), key, FI_UINT32, FI_SUM, &context);
	});
	// They have been read.
	operands = {100, 200, 300, 400, 500, 600};
	EXPECT_EQ(pair.a.done(&context).flags, FI_ATOMIC | FI_WRITE);
	EXPECT_EQ(now(), (std::array<std::uint32_t, 6>{11, 22, 33, 44, 55, 66}));

	Side::post([&] {
		return fi_fetch_atomicv(ep(), operand, nullptr, 3, result, nullptr, 3, pair.to_b, place(),
			key, FI_UINT32, FI_SUM, &context);
	});
	// The list of pieces need not last, but for what it names.
	const std::array<fi_ioc, 3> kept{result[0], result[1], result[2]};
	std::memset(static_cast<void *>(result), 0, sizeof(result));
	EXPECT_EQ(pair.a.done(&context).flags, FI_ATOMIC | FI_READ);
	EXPECT_EQ(now(), (std::array<std::uint32_t, 6>{111, 222, 333, 444, 555, 666}));
	EXPECT_EQ(was, (std::array<std::uint32_t, 10>{11, 0, 22, 33, 0, 0, 44, 55, 66, 0}));

	// In two pieces the comparison is 40, 50, 0, 10, 20, 30.
	std::copy(kept.begin(), kept.end(), result);
	put({40, 1, 0, 10, 2, 30});
	was.fill(7);
	Side::post([&] {
		return fi_compare_atomicv(ep(), operand, nullptr, 3, compare, nullptr, 2, result, nullptr, 3,
			pair.to_b, place(), key, FI_UINT32, FI_CSWAP, &context);
	});
	EXPECT_EQ(pair.a.done(&context).flags, FI_ATOMIC | FI_READ);
	EXPECT_EQ(now(), (std::array<std::uint32_t, 6>{100, 1, 300, 400, 2, 600}));
	EXPECT_EQ(was, (std::array<std::uint32_t, 10>{40, 7, 1, 0, 7, 7, 10, 2, 30, 7}));

	// What has failed brings nothing.
	was.fill(7);
	Side::post([&] {
		return fi_fetch_atomicv(ep(), operand, nullptr, 3, result, nullptr, 3, pair.to_b, place(),
			key + 1, FI_UINT32, FI_SUM, &context);
	});
	pair.a.failed(&context, FI_EACCES);
	EXPECT_EQ(was, (std::array<std::uint32_t, 10>{7, 7, 7, 7, 7, 7, 7, 7, 7, 7}));
}

TEST_F(Atomic, injected)
{
	std::array<std::uint64_t, 8> operands{1, 2, 3, 4, 5, 6, 7, 8};
	const auto as_sent = operands;
	std::array<std::uint64_t, 8> now{};
	int context = 0;

	Side::post([&] {
		return fi_inject_atomic(
			ep(), operands.data(), operands.size(), pair.to_b, place(), key, FI_UINT64, FI_SUM);
	});
	operands.fill(0);
	// Of what has failed nobody is told either.
	Side::post([&] {
		return fi_inject_atomic(
			ep(), operands.data(), 1, pair.to_b, place(), key + 1, FI_UINT64, FI_SUM);
	});
	Side::post([&] {
		return fi_fetch_atomic(ep(), nullptr, now.size(), nullptr, now.data(), nullptr, pair.to_b,
			place(), key, FI_UINT64, FI_ATOMIC_READ, &context);
	});
	pair.a.done(&context);
	EXPECT_EQ(now, as_sent);
	EXPECT_EQ(pair.a.look().result, -FI_EAGAIN);
}

// ---- what is refused --------------------------------------------------------------------------------------

TEST_F(Atomic, of_what_is_wrong)
{
	std::array<std::uint64_t, 32> buffer{};
	const auto base = [&](std::size_t count, std::uint64_t address, fi_datatype type, fi_op op) {
		return fi_atomic(
			ep(), buffer.data(), count, nullptr, pair.to_b, address, key, type, op, nullptr);
	};

	EXPECT_EQ(base(0, place(), FI_UINT64, FI_SUM), -FI_EINVAL);
	EXPECT_EQ(base(9, place(), FI_UINT64, FI_SUM), -FI_EMSGSIZE);
	EXPECT_EQ(base(17, place(), FI_INT32, FI_SUM), -FI_EMSGSIZE);
	EXPECT_EQ(base(1, place(4), FI_UINT64, FI_SUM), -FI_EINVAL);
	EXPECT_EQ(base(1, place(2), FI_UINT32, FI_SUM), -FI_EINVAL);
	EXPECT_EQ(base(1, place(), FI_FLOAT, FI_SUM), -FI_EOPNOTSUPP);
	EXPECT_EQ(base(1, place(), FI_UINT8, FI_SUM), -FI_EOPNOTSUPP);
	EXPECT_EQ(base(1, place(), FI_UINT64, FI_ATOMIC_READ), -FI_EOPNOTSUPP);
	EXPECT_EQ(base(1, place(), FI_UINT64, FI_CSWAP), -FI_EOPNOTSUPP);
	EXPECT_EQ(fi_fetch_atomic(ep(), buffer.data(), 1, nullptr, nullptr, nullptr, pair.to_b, place(), key,
			  FI_UINT64, FI_SUM, nullptr),
		-FI_EINVAL);
	EXPECT_EQ(fi_fetch_atomic(ep(), buffer.data(), 1, nullptr, buffer.data(), nullptr, pair.to_b, place(),
			  key, FI_UINT64, FI_CSWAP, nullptr),
		-FI_EOPNOTSUPP);
	EXPECT_EQ(fi_compare_atomic(ep(), buffer.data(), 1, nullptr, buffer.data(), nullptr, buffer.data(),
			  nullptr, pair.to_b, place(), key, FI_UINT64, FI_SUM, nullptr),
		-FI_EOPNOTSUPP);

	// All buffers are as long as the place.
	fi_ioc two[] = {{.addr = buffer.data(), .count = 1}, {.addr = buffer.data() + 1, .count = 1}};
	fi_ioc other{.addr = buffer.data(), .count = 2};
	fi_rma_ioc places[] = {
		{.addr = place(), .count = 1, .key = key}, {.addr = place(8), .count = 1, .key = key}};
	fi_msg_atomic message{.msg_iov = two,
		.desc = nullptr,
		.iov_count = 1,
		.addr = pair.to_b,
		.rma_iov = places,
		.rma_iov_count = 1,
		.datatype = FI_UINT64,
		.op = FI_SUM,
		.context = nullptr,
		.data = 0};

	std::vector<fi_ioc> many(65, two[0]);

	EXPECT_EQ(fi_atomicv(ep(), many.data(), nullptr, 65, pair.to_b, place(), key, FI_UINT64, FI_SUM,
			  nullptr),
		-FI_EINVAL);
	EXPECT_EQ(fi_atomicv(
			  ep(), many.data(), nullptr, 9, pair.to_b, place(), key, FI_UINT64, FI_SUM, nullptr),
		-FI_EMSGSIZE);
	EXPECT_EQ(fi_atomicv(ep(), nullptr, nullptr, 0, pair.to_b, place(), key, FI_UINT64, FI_SUM, nullptr),
		-FI_EINVAL);
	EXPECT_EQ(fi_fetch_atomicmsg(ep(), &message, &other, nullptr, 1, 0), -FI_EINVAL);
	EXPECT_EQ(fi_fetch_atomicmsg(ep(), &message, two, nullptr, 2, 0), -FI_EINVAL);
	fi_ioc nowhere[] = {{.addr = buffer.data(), .count = 1}, {.addr = nullptr, .count = 1}};

	EXPECT_EQ(fi_atomicv(ep(), nowhere, nullptr, 2, pair.to_b, place(), key, FI_UINT64, FI_SUM, nullptr),
		-FI_EINVAL);
	places[0].count = 2;
	message.msg_iov = &other;
	EXPECT_EQ(fi_fetch_atomicmsg(ep(), &message, nowhere, nullptr, 2, 0), -FI_EINVAL);
	places[0].count = 1;
	message.msg_iov = two;
	for (const std::uint64_t flag : {FI_TAGGED, FI_FENCE, FI_REMOTE_CQ_DATA})
		EXPECT_EQ(fi_atomicmsg(ep(), &message, flag), -FI_EBADFLAGS);
	message.rma_iov_count = 2;
	EXPECT_EQ(fi_atomicmsg(ep(), &message, 0), -FI_EINVAL);
	message.rma_iov_count = 1;
	message.iov_count = 2;
	EXPECT_EQ(fi_atomicmsg(ep(), &message, 0), -FI_EINVAL);
	message.iov_count = 0;
	places[0].count = 0;
	EXPECT_EQ(fi_atomicmsg(ep(), &message, 0), -FI_EINVAL);
	message.iov_count = 1;
	message.msg_iov = &other;
	places[0].count = 1;
	EXPECT_EQ(fi_atomicmsg(ep(), &message, 0), -FI_EINVAL);
	message.op = FI_CSWAP;
	message.msg_iov = two;
	EXPECT_EQ(fi_compare_atomicmsg(ep(), &message, &other, nullptr, 1, two, nullptr, 1, 0), -FI_EINVAL);
	EXPECT_EQ(pair.a.look().result, -FI_EAGAIN);
	EXPECT_EQ(memory[0], 0U);
}

// What it does needs what the region is open for.
TEST_F(Atomic, of_what_may_not_be)
{
	std::uint64_t one = 1;
	std::uint64_t was = 0;
	int context = 0;
	const auto base = [&](std::uint64_t address, std::uint64_t with, int error) {
		Side::post([&] {
			return fi_atomic(ep(), &one, 1, nullptr, pair.to_b, address, with, FI_UINT64, FI_SUM,
				&context);
		});
		EXPECT_EQ(pair.a.failed(&context, error).flags, FI_ATOMIC | FI_WRITE);
	};
	const auto fetch = [&](std::uint64_t address, std::uint64_t with, fi_op op, int error) {
		Side::post([&] {
			return fi_fetch_atomic(ep(), &one, 1, nullptr, &was, nullptr, pair.to_b, address,
				with, FI_UINT64, op, &context);
		});
		if (error)
			EXPECT_EQ(pair.a.failed(&context, error).flags, FI_ATOMIC | FI_READ);
		else
			pair.a.done(&context);
	};

	base(place(), key + 1, FI_EACCES);
	base(place(sizeof(memory)), key, FI_EFAULT);
	fetch(place(), key + 1, FI_SUM, FI_EACCES);
	fetch(place(sizeof(memory)), key, FI_SUM, FI_EFAULT);
	share(FI_REMOTE_WRITE);
	fetch(place(), key, FI_SUM, FI_EACCES);
	fetch(place(), key, FI_ATOMIC_READ, FI_EACCES);
	share(FI_REMOTE_READ);
	base(place(), key, FI_EACCES);
	fetch(place(), key, FI_SUM, FI_EACCES);
	EXPECT_EQ(memory[0], 0U);
	memory[0] = 12;
	fetch(place(), key, FI_ATOMIC_READ, 0);
	EXPECT_EQ(was, 12U);
	region.reset();
	base(place(), key, FI_EACCES);
	EXPECT_EQ(memory[0], 12U);
}

// ---- many -------------------------------------------------------------------------------------------------

// Each one counts, whoever else does.
TEST_F(Atomic, of_many_at_once)
{
	constexpr std::uint64_t each = 500;
	Side third(wish());
	const fi_addr_t from_third = third.add(pair.b);
	const fi_addr_t self = pair.b.add(pair.b);
	std::vector<std::thread> all;
	std::vector<std::uint64_t> tickets(3 * each);
	const std::uint64_t one = 1;
	const auto take = [&](Side &side, fi_addr_t to, std::uint64_t *first) {
		for (std::uint64_t i = 0; i < each; i++) {
			Side::post([&] {
				return fi_fetch_atomic(side.ep.get(), &one, 1, nullptr, first + i, nullptr,
					to, place(), key, FI_UINT64, FI_SUM, first + i);
			});
			side.done(first + i);
		}
	};

	all.emplace_back([&] { take(pair.a, pair.to_b, tickets.data()); });
	all.emplace_back([&] { take(third, from_third, tickets.data() + each); });
	all.emplace_back([&] { take(pair.b, self, tickets.data() + 2 * each); });
	// The processor here, too.
	for (std::uint64_t i = 0; i < each; i++)
		std::atomic_ref(memory[0]).fetch_add(1U << 20);
	for (auto &thread : all)
		thread.join();
	EXPECT_EQ(memory[0], 3 * each + (each << 20));
	for (std::uint64_t &ticket : tickets)
		ticket &= (1U << 20) - 1;
	std::sort(tickets.begin(), tickets.end());
	for (std::uint64_t i = 0; i < tickets.size(); i++)
		ASSERT_EQ(tickets[i], i);
}

// As they are, to the last bit: -0 and what is no number, too.
TEST_F(Atomic, of_numbers_with_a_point)
{
	const auto both = [&](auto first, auto second) {
		using T = decltype(first);
		const fi_datatype type = sizeof(T) == 4 ? FI_FLOAT : FI_DOUBLE;
		std::array<T, 2> values{first, second}, before{}, after{};
		int context = 0;

		memory.fill(0xeeeeeeeeeeeeeeee);
		Side::post([&] {
			return fi_atomic(ep(), values.data(), 2, nullptr, pair.to_b, place(), key, type,
				FI_ATOMIC_WRITE, &context);
		});
		pair.a.done(&context);
		std::swap(values[0], values[1]);
		Side::post([&] {
			return fi_fetch_atomic(ep(), values.data(), 2, nullptr, before.data(), nullptr,
				pair.to_b, place(), key, type, FI_ATOMIC_WRITE, &context);
		});
		pair.a.done(&context);
		Side::post([&] {
			return fi_fetch_atomic(ep(), nullptr, 2, nullptr, after.data(), nullptr, pair.to_b,
				place(), key, type, FI_ATOMIC_READ, &context);
		});
		pair.a.done(&context);
		EXPECT_EQ(std::memcmp(after.data(), values.data(), sizeof(after)), 0);
		EXPECT_EQ(std::memcmp(memory.data(), values.data(), sizeof(values)), 0);
		EXPECT_EQ(memory[2], 0xeeeeeeeeeeeeeeee);
		std::swap(values[0], values[1]);
		EXPECT_EQ(std::memcmp(before.data(), values.data(), sizeof(before)), 0);
	};

	both(1.5F, -0.0F);
	both(-2.25, std::numeric_limits<double>::quiet_NaN());
}

// Of one endpoint, each sees what those before it have done.
TEST_F(Atomic, in_order)
{
	constexpr std::uint64_t count = 300;
	std::vector<std::uint64_t> was(count);
	int context = 0;

	for (std::uint64_t i = 0; i < count; i++) {
		const std::uint64_t next = i + 1;

		Side::post([&] {
			return fi_inject_atomic(
				ep(), &next, 1, pair.to_b, place(), key, FI_UINT64, FI_ATOMIC_WRITE);
		});
		Side::post([&] {
			return fi_fetch_atomic(ep(), nullptr, 1, nullptr, &was[i], nullptr, pair.to_b,
				place(), key, FI_UINT64, FI_ATOMIC_READ, &context);
		});
	}
	for (std::uint64_t i = 0; i < count; i++)
		pair.a.done(&context);
	for (std::uint64_t i = 0; i < count; i++)
		ASSERT_EQ(was[i], i + 1);
	EXPECT_EQ(memory[0], count);
}

// ---- who is told ------------------------------------------------------------------------------------------

class SelectiveAtomic : public Atomic
{
protected:
	static Wish selective()
	{
		Wish all = wish();

		all.bind_flags = FI_SELECTIVE_COMPLETION;
		return all;
	}
	SelectiveAtomic() : Atomic(selective())
	{
	}
};

TEST_F(SelectiveAtomic, only_what_is_asked_for_or_fails)
{
	const std::uint64_t one = 1;
	std::uint64_t was = 0;
	std::array<int, 3> contexts{};
	fi_ioc operand{.addr = const_cast<std::uint64_t *>(&one), .count = 1};
	fi_ioc result{.addr = &was, .count = 1};
	fi_rma_ioc target{.addr = place(), .count = 1, .key = key};
	const fi_msg_atomic message{.msg_iov = &operand,
		.desc = nullptr,
		.iov_count = 1,
		.addr = pair.to_b,
		.rma_iov = &target,
		.rma_iov_count = 1,
		.datatype = FI_UINT64,
		.op = FI_SUM,
		.context = &contexts[1],
		.data = 0};

	add(1, &contexts[0]);
	Side::post([&] { return fi_fetch_atomicmsg(ep(), &message, &result, nullptr, 1, 0); });
	Side::post([&] { return fi_fetch_atomicmsg(ep(), &message, &result, nullptr, 1, FI_COMPLETION); });
	EXPECT_EQ(pair.a.done(&contexts[1]).flags, FI_ATOMIC | FI_READ);
	EXPECT_EQ(was, 2U);
	target.key++;
	Side::post([&] { return fi_atomicmsg(ep(), &message, 0); });
	EXPECT_EQ(pair.a.failed(&contexts[1], FI_EACCES).flags, FI_ATOMIC | FI_WRITE);
	Side::post([&] { return fi_fetch_atomicmsg(ep(), &message, &result, nullptr, 1, 0); });
	EXPECT_EQ(pair.a.failed(&contexts[1], FI_EACCES).flags, FI_ATOMIC | FI_READ);
	EXPECT_EQ(pair.a.look().result, -FI_EAGAIN);
	EXPECT_EQ(memory[0], 3U);
}

class CountedAtomic : public Atomic
{
protected:
	static Wish counted()
	{
		Wish all = wish();

		all.counters = true;
		return all;
	}
	CountedAtomic() : Atomic(counted())
	{
	}
};

// Those that give something back as reads, the others as writes.
TEST_F(CountedAtomic, counts)
{
	std::uint64_t was = 0;
	const std::uint64_t one = 1;
	int context = 0;

	for (int i = 0; i < 5; i++)
		add(1, &context);
	Side::post(
		[&] { return fi_inject_atomic(ep(), &one, 1, pair.to_b, place(), key, FI_UINT64, FI_SUM); });
	EXPECT_EQ(fi_cntr_wait(pair.a.writes.get(), 6, 60000), 0);
	EXPECT_EQ(memory[0], 6U);
	EXPECT_EQ(fi_cntr_read(pair.a.reads.get()), 0U);
	Side::post([&] {
		return fi_fetch_atomic(ep(), &one, 1, nullptr, &was, nullptr, pair.to_b, place(), key,
			FI_UINT64, FI_SUM, &context);
	});
	Side::post([&] {
		return fi_compare_atomic(ep(), &one, 1, nullptr, &one, nullptr, &was, nullptr, pair.to_b,
			place(), key, FI_UINT64, FI_CSWAP, &context);
	});
	EXPECT_EQ(fi_cntr_wait(pair.a.reads.get(), 2, 60000), 0);
	EXPECT_EQ(fi_cntr_read(pair.a.writes.get()), 6U);
	EXPECT_EQ(fi_cntr_read(pair.a.sent.get()), 0U);
	EXPECT_EQ(fi_cntr_read(pair.b.writes.get()), 0U);
	for (int i = 0; i < 7; i++)
		pair.a.done(&context);
}

// ---- endpoints --------------------------------------------------------------------------------------------

TEST(AtomicEndpoint, does_what_it_was_made_for)
{
	Wish wish;
	std::uint64_t value = 5;
	std::uint64_t was = 0;
	std::size_t count = 0;
	int context = 0;

	wish.mr_mode = memory_mr_mode;
	wish.caps = FI_MSG | FI_RMA;

	const Side without(wish);

	EXPECT_EQ(fi_atomicvalid(without.ep.get(), FI_UINT64, FI_SUM, &count), -FI_EOPNOTSUPP);
	EXPECT_EQ(fi_atomic(without.ep.get(), &value, 1, nullptr, 0, 0, 0, FI_UINT64, FI_SUM, nullptr),
		-FI_EOPNOTSUPP);

	wish.caps = FI_ATOMIC | FI_READ | FI_REMOTE_READ;

	Side side(wish);
	const fi_addr_t self = side.add(side);
	const auto region = side.share(&value, sizeof(value));
	const auto address = reinterpret_cast<std::uintptr_t>(&value);

	EXPECT_EQ(fi_atomic(side.ep.get(), &value, 1, nullptr, self, address, fi_mr_key(region.get()),
			  FI_UINT64, FI_SUM, &context),
		-FI_EOPNOTSUPP);
	Side::post([&] {
		return fi_fetch_atomic(side.ep.get(), nullptr, 1, nullptr, &was, nullptr, self, address,
			fi_mr_key(region.get()), FI_UINT64, FI_ATOMIC_READ, &context);
	});
	side.done(&context);
	EXPECT_EQ(was, 5U);
	EXPECT_EQ(fi_write(side.ep.get(), &value, 1, nullptr, self, address, 0, &context), -FI_EOPNOTSUPP);
}

} // namespace

} // namespace ofi
