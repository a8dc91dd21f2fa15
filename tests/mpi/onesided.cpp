// SPDX-License-Identifier: GPL-2.0-only
//
// What MPI says of one-sided communication, piece by piece: put, get and accumulate in each kind of epoch
// (fence, post/start/complete/wait, locks), into windows of each kind, of derived datatypes, and by all ranks
// at once. Says "verified N" at the end, of N pieces.
//
//	onesided [PIECE]
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>

#include "check.hpp"

namespace
{

// Of nothing, of one packet and less, of what is eager, of what is not, and of several windows of a transfer.
constexpr std::array<std::size_t, 6> lengths = {0, 1, 4000, 8193, 300000, 3000001};
// Behind them there is a number for all to add to, and what is only read.
constexpr std::size_t number_at = 3000008;
constexpr std::size_t shown_at = number_at + sizeof(std::int64_t);
constexpr std::size_t shown_bytes = 5000;
constexpr std::size_t room = shown_at + shown_bytes;

// Memory that the others may reach, zeroed.
struct Window {
	explicit Window(std::size_t bytes = room) : memory(bytes)
	{
		MPI_Win_create(
			memory.data(), static_cast<MPI_Aint>(bytes), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
	}
	~Window()
	{
		MPI_Win_free(&win);
	}
	Window(const Window &) = delete;
	Window &operator=(const Window &) = delete;

	template<typename T>
	T *as()
	{
		return reinterpret_cast<T *>(memory.data());
	}

	Bytes memory;
	MPI_Win win = MPI_WIN_NULL;
};

bool starts_with(const Bytes &memory, const Bytes &bytes, std::size_t at = 0)
{
	return std::equal(bytes.begin(), bytes.end(), memory.begin() + static_cast<std::ptrdiff_t>(at));
}

void put(const Bytes &bytes, int target, const Window &window, MPI_Aint at = 0)
{
	MPI_Put(bytes.data(), count_of(bytes), MPI_BYTE, target, at, count_of(bytes), MPI_BYTE, window.win);
}

void get(Bytes &bytes, int target, const Window &window, MPI_Aint at = 0)
{
	MPI_Get(bytes.data(), count_of(bytes), MPI_BYTE, target, at, count_of(bytes), MPI_BYTE, window.win);
}

// Adds to the number there.
void add(const std::int64_t &value, int target, const Window &window)
{
	MPI_Accumulate(&value, 1, MPI_INT64_T, target, number_at, 1, MPI_INT64_T, MPI_SUM, window.win);
}

std::int64_t number(const Window &window)
{
	std::int64_t value;

	std::memcpy(&value, &window.memory[number_at], sizeof(value));
	return value;
}

// ---- epochs -----------------------------------------------------------------------------------------------

void fence()
{
	Window window;
	const std::int64_t addend = rank_ + 1;
	int round = 0;

	for (const std::size_t bytes : lengths) {
		const Bytes mine = pattern(bytes, rank_, round);
		Bytes got(bytes);

		MPI_Win_fence(MPI_MODE_NOPRECEDE, window.win);
		put(mine, next_, window);
		add(addend, next_, window);
		MPI_Win_fence(0, window.win);
		require(starts_with(window.memory, pattern(bytes, before_, round)), "what was put");
		require(number(window) == (round + 1) * (before_ + 1), "what was added");
		get(got, next_, window);
		MPI_Win_fence(MPI_MODE_NOSUCCEED, window.win);
		require(got == mine, "what was got");
		round++;
	}
}

// Everybody writes to everybody, oneself included, to a place of his own.
void everybody_to_everybody()
{
	constexpr std::size_t each = 20000;
	Window window(each * static_cast<std::size_t>(ranks_));
	std::vector<Bytes> to;

	MPI_Win_fence(0, window.win);
	for (int rank = 0; rank < ranks_; rank++) {
		to.push_back(pattern(each, rank_, rank));
		put(to.back(), rank, window, static_cast<MPI_Aint>(each) * rank_);
	}
	MPI_Win_fence(0, window.win);
	for (int rank = 0; rank < ranks_; rank++)
		require(starts_with(window.memory, pattern(each, rank, rank_),
				each * static_cast<std::size_t>(rank)),
			"what somebody has put");
}

void post_start_complete_wait()
{
	Window window;
	const Bytes shown = pattern(shown_bytes, rank_, 99), theirs = pattern(shown_bytes, next_, 99);
	const std::int64_t addend = rank_ + 1;
	MPI_Group all, from, to;

	std::copy(shown.begin(), shown.end(), window.memory.begin() + shown_at);
	MPI_Comm_group(MPI_COMM_WORLD, &all);
	MPI_Group_incl(all, 1, &before_, &from);
	MPI_Group_incl(all, 1, &next_, &to);
	for (int round = 0; round < static_cast<int>(lengths.size()); round++) {
		const std::size_t bytes = lengths[static_cast<std::size_t>(round)];
		const Bytes mine = pattern(bytes, rank_, round);
		Bytes got(shown_bytes);

		MPI_Win_post(from, 0, window.win);
		MPI_Win_start(to, 0, window.win);
		put(mine, next_, window);
		get(got, next_, window, shown_at);
		add(addend, next_, window);
		MPI_Win_complete(window.win);
		require(got == theirs, "what was got");
		if (round % 2) {
			MPI_Win_wait(window.win);
		} else {
			int over = 0;

			while (!over)
				MPI_Win_test(window.win, &over);
		}
		require(starts_with(window.memory, pattern(bytes, before_, round)), "what was put");
		require(number(window) == (round + 1) * (before_ + 1), "what was added");
	}
	MPI_Group_free(&to);
	MPI_Group_free(&from);
	MPI_Group_free(&all);
}

// The target does nothing meanwhile but wait for all.
void locks()
{
	Window window;
	const std::int64_t addend = rank_ + 1;
	int round = 0;

	for (const std::size_t bytes : lengths) {
		const Bytes mine = pattern(bytes, rank_, round);
		Bytes got(bytes);

		MPI_Win_lock(MPI_LOCK_EXCLUSIVE, next_, 0, window.win);
		put(mine, next_, window);
		add(addend, next_, window);
		MPI_Win_unlock(next_, window.win);
		MPI_Win_lock(MPI_LOCK_SHARED, next_, 0, window.win);
		get(got, next_, window);
		MPI_Win_unlock(next_, window.win);
		require(got == mine, "what was put is not what was got");
		MPI_Barrier(MPI_COMM_WORLD);
		MPI_Win_lock(MPI_LOCK_SHARED, rank_, 0, window.win);
		require(starts_with(window.memory, pattern(bytes, before_, round)), "what was put");
		require(number(window) == (round + 1) * (before_ + 1), "what was added");
		MPI_Win_unlock(rank_, window.win);
		MPI_Barrier(MPI_COMM_WORLD);
		round++;
	}
}

// Who has the lock for himself reads and writes undisturbed.
void exclusive_locks_exclude()
{
	constexpr int rounds = 20;
	Window window(64);

	for (int round = 0; round < rounds; round++) {
		std::int64_t value = 0;

		MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window.win);
		MPI_Get(&value, 1, MPI_INT64_T, 0, 0, 1, MPI_INT64_T, window.win);
		MPI_Win_flush(0, window.win);
		value++;
		MPI_Put(&value, 1, MPI_INT64_T, 0, 0, 1, MPI_INT64_T, window.win);
		MPI_Win_unlock(0, window.win);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank_ == 0) {
		MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window.win);
		require(*window.as<std::int64_t>() == static_cast<std::int64_t>(rounds) * ranks_,
			"two had the exclusive lock");
		MPI_Win_unlock(0, window.win);
	}
}

void lock_all_and_flush()
{
	Window window;

	MPI_Win_lock_all(0, window.win);
	for (int round = 0; round < static_cast<int>(lengths.size()); round++) {
		const std::size_t bytes = lengths[static_cast<std::size_t>(round)];
		Bytes mine = pattern(bytes, rank_, round), got(bytes);

		put(mine, next_, window);
		if (round % 2)
			MPI_Win_flush(next_, window.win);
		else
			MPI_Win_flush_all(window.win);
		// One's own may be changed again after a local flush.
		put(mine, next_, window);
		MPI_Win_flush_local(next_, window.win);
		std::fill(mine.begin(), mine.end(), 0);
		MPI_Win_flush(next_, window.win);
		get(got, next_, window);
		MPI_Win_flush(next_, window.win);
		require(got == pattern(bytes, rank_, round), "what was put is not what was got");
		MPI_Barrier(MPI_COMM_WORLD);
	}
	MPI_Win_unlock_all(window.win);
}

void requests()
{
	Window window;

	MPI_Win_lock_all(0, window.win);
	for (const std::size_t bytes : lengths) {
		const Bytes mine = pattern(bytes, rank_, 3);
		Bytes got(bytes);
		MPI_Request request;

		MPI_Rput(mine.data(), count_of(mine), MPI_BYTE, next_, 0, count_of(mine), MPI_BYTE,
			window.win, &request);
		MPI_Wait(&request, MPI_STATUS_IGNORE);
		MPI_Win_flush(next_, window.win);
		MPI_Rget(got.data(), count_of(got), MPI_BYTE, next_, 0, count_of(got), MPI_BYTE, window.win,
			&request);
		MPI_Wait(&request, MPI_STATUS_IGNORE);
		require(got == mine, "what was put is not what was got");
	}
	MPI_Win_unlock_all(window.win);
}

// ---- kinds of windows -------------------------------------------------------------------------------------

void allocated()
{
	unsigned char *memory = nullptr;
	MPI_Win win;
	const Bytes mine = pattern(100000, rank_, 1);

	MPI_Win_allocate(100000, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
	MPI_Win_fence(0, win);
	MPI_Put(mine.data(), count_of(mine), MPI_BYTE, next_, 0, count_of(mine), MPI_BYTE, win);
	MPI_Win_fence(0, win);

	const Bytes theirs = pattern(100000, before_, 1);

	require(std::equal(theirs.begin(), theirs.end(), memory), "what was put");
	MPI_Win_free(&win);
}

void dynamic()
{
	Bytes memory(50000);
	const Bytes mine = pattern(memory.size(), rank_, 2);
	MPI_Win win;
	MPI_Aint here, there;

	MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
	MPI_Win_attach(win, memory.data(), static_cast<MPI_Aint>(memory.size()));
	MPI_Get_address(memory.data(), &here);
	MPI_Sendrecv(&here, 1, MPI_AINT, before_, 0, &there, 1, MPI_AINT, next_, 0, MPI_COMM_WORLD,
		MPI_STATUS_IGNORE);
	MPI_Win_lock(MPI_LOCK_EXCLUSIVE, next_, 0, win);
	MPI_Put(mine.data(), count_of(mine), MPI_BYTE, next_, there, count_of(mine), MPI_BYTE, win);
	MPI_Win_unlock(next_, win);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock(MPI_LOCK_SHARED, rank_, 0, win);
	require(memory == pattern(memory.size(), before_, 2), "what was put");
	MPI_Win_unlock(rank_, win);
	MPI_Win_detach(win, memory.data());
	MPI_Win_free(&win);
}

// Units of its own, and of another size at each end.
void units()
{
	const int unit = rank_ % 2 ? 4 : 8;
	Bytes memory(4096);
	const std::uint64_t mine = 0x0101010101010101ull * static_cast<std::uint64_t>(rank_ + 1);
	MPI_Win win;

	MPI_Win_create(memory.data(), static_cast<MPI_Aint>(memory.size()), unit, MPI_INFO_NULL,
		MPI_COMM_WORLD, &win);
	MPI_Win_fence(0, win);
	MPI_Put(&mine, 1, MPI_UINT64_T, next_, 16, 1, MPI_UINT64_T, win);
	MPI_Win_fence(0, win);
	for (std::size_t i = 0; i < memory.size(); i++) {
		const std::size_t at = static_cast<std::size_t>(16 * unit);

		require(memory[i] == (i >= at && i < at + 8 ? before_ + 1 : 0), "the place of what was put");
	}
	MPI_Win_free(&win);
}

// A column of a matrix at the one end is a row at the other.
void datatypes()
{
	constexpr int side = 64;
	Window window(side * side * sizeof(std::int32_t));
	std::array<std::int32_t, side> row;
	std::array<std::int32_t, side * side> matrix{};
	MPI_Datatype column;

	MPI_Type_vector(side, 1, side, MPI_INT32_T, &column);
	MPI_Type_commit(&column);
	std::iota(row.begin(), row.end(), 1000 * rank_);
	MPI_Win_fence(0, window.win);
	MPI_Put(row.data(), side, MPI_INT32_T, next_, 3 * sizeof(std::int32_t), 1, column, window.win);
	MPI_Win_fence(0, window.win);
	for (int i = 0; i < side * side; i++)
		require(window.as<std::int32_t>()[i] == (i % side == 3 ? 1000 * before_ + i / side : 0),
			"a column that was put");
	MPI_Get(&matrix[5], 1, column, next_, 3 * sizeof(std::int32_t), 1, column, window.win);
	MPI_Win_fence(0, window.win);
	for (int i = 0; i < side * side; i++)
		require(matrix[static_cast<std::size_t>(i)] ==
				(i % side == 5 ? row[static_cast<std::size_t>(i / side)] : 0),
			"a column that was got");
	MPI_Type_free(&column);
}

// ---- accumulate -------------------------------------------------------------------------------------------

template<typename T>
MPI_Datatype type_of();
template<>
MPI_Datatype type_of<std::int32_t>()
{
	return MPI_INT32_T;
}
template<>
MPI_Datatype type_of<std::uint32_t>()
{
	return MPI_UINT32_T;
}
template<>
MPI_Datatype type_of<std::int64_t>()
{
	return MPI_INT64_T;
}
template<>
MPI_Datatype type_of<std::uint64_t>()
{
	return MPI_UINT64_T;
}
template<>
MPI_Datatype type_of<double>()
{
	return MPI_DOUBLE;
}

// All ranks add to the same places of rank 0 at once; nothing is lost.
template<typename T>
void sum(std::size_t count)
{
	constexpr int rounds = 5;
	Window window(count * sizeof(T));
	std::vector<T> mine(count);

	for (std::size_t i = 0; i < count; i++)
		mine[i] = static_cast<T>(i % 97 + static_cast<std::size_t>(rank_));
	MPI_Win_lock_all(0, window.win);
	for (int round = 0; round < rounds; round++)
		MPI_Accumulate(mine.data(), static_cast<int>(count), type_of<T>(), 0, 0,
			static_cast<int>(count), type_of<T>(), MPI_SUM, window.win);
	MPI_Win_unlock_all(window.win);
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank_ == 0) {
		MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window.win);
		for (std::size_t i = 0; i < count; i++) {
			T expected = 0;

			for (int rank = 0; rank < ranks_; rank++)
				expected +=
					static_cast<T>(rounds * (i % 97 + static_cast<std::size_t>(rank)));
			require(window.as<T>()[i] == expected, "a sum");
		}
		MPI_Win_unlock(0, window.win);
	}
}

void sums()
{
	for (const std::size_t count :
		{std::size_t{1}, std::size_t{7}, std::size_t{1000}, std::size_t{50000}}) {
		sum<std::int32_t>(count);
		sum<std::uint64_t>(count);
		sum<double>(count);
	}
}

// What each operation makes of what is there, and of what comes, for whole numbers.
template<typename T>
void operations_of()
{
	struct Operation {
		MPI_Op op;
		T (*result)(T there, T comes);
	};
	const std::array<Operation, 11> operations = {{
		{MPI_SUM,
			[](T a, T b) -> T {
				return a + b;
			}},
		{MPI_PROD,
			[](T a, T b) -> T {
				return a * b;
			}},
		{MPI_MIN,
			[](T a, T b) -> T {
				return std::min(a, b);
			}},
		{MPI_MAX,
			[](T a, T b) -> T {
				return std::max(a, b);
			}},
		{MPI_BAND,
			[](T a, T b) -> T {
				return a & b;
			}},
		{MPI_BOR,
			[](T a, T b) -> T {
				return a | b;
			}},
		{MPI_BXOR,
			[](T a, T b) -> T {
				return a ^ b;
			}},
		{MPI_LAND,
			[](T a, T b) -> T {
				return a && b;
			}},
		{MPI_LOR,
			[](T a, T b) -> T {
				return a || b;
			}},
		{MPI_LXOR,
			[](T a, T b) -> T {
				return !a != !b;
			}},
		{MPI_REPLACE,
			[](T, T b) -> T {
				return b;
			}},
	}};
	const std::array<T, 5> comes = {0, 1, 5, static_cast<T>(-3), std::numeric_limits<T>::max() / 2};
	const std::array<T, 5> there = {3, static_cast<T>(-1), 6, 2, 1};
	Window window(sizeof(there));

	for (const Operation &operation : operations) {
		std::array<T, 5> before{};

		std::copy(there.begin(), there.end(), window.as<T>());
		MPI_Win_fence(0, window.win);
		MPI_Get_accumulate(comes.data(), 5, type_of<T>(), before.data(), 5, type_of<T>(), next_, 0, 5,
			type_of<T>(), operation.op, window.win);
		MPI_Win_fence(0, window.win);
		require(before == there, "what was there before");
		for (std::size_t i = 0; i < there.size(); i++)
			require(window.as<T>()[i] == operation.result(there[i], comes[i]),
				"what an operation makes");
		// One by one, too.
		std::copy(there.begin(), there.end(), window.as<T>());
		MPI_Win_fence(0, window.win);
		for (std::size_t i = 0; i < there.size(); i++)
			MPI_Fetch_and_op(&comes[i], &before[i], type_of<T>(), next_,
				static_cast<MPI_Aint>(i * sizeof(T)), operation.op, window.win);
		MPI_Win_fence(0, window.win);
		require(before == there, "what was there before, one by one");
		for (std::size_t i = 0; i < there.size(); i++)
			require(window.as<T>()[i] == operation.result(there[i], comes[i]),
				"what an operation makes, one by one");
	}
}

void operations()
{
	operations_of<std::int32_t>();
	operations_of<std::uint32_t>();
	operations_of<std::int64_t>();
	operations_of<std::uint64_t>();
}

// Everybody takes numbers; nobody gets one that another has.
void tickets()
{
	constexpr int each = 50;
	Window window(64);
	std::vector<std::int64_t> mine(each), all(static_cast<std::size_t>(each * ranks_));
	const std::int64_t one = 1;

	MPI_Win_lock_all(0, window.win);
	for (std::int64_t &ticket : mine) {
		MPI_Fetch_and_op(&one, &ticket, MPI_INT64_T, 0, 0, MPI_SUM, window.win);
		MPI_Win_flush(0, window.win);
	}
	MPI_Win_unlock_all(window.win);
	require(std::is_sorted(mine.begin(), mine.end()), "tickets in order");
	MPI_Gather(mine.data(), each, MPI_INT64_T, all.data(), each, MPI_INT64_T, 0, MPI_COMM_WORLD);
	if (rank_ == 0) {
		std::sort(all.begin(), all.end());
		for (std::size_t i = 0; i < all.size(); i++)
			require(all[i] == static_cast<std::int64_t>(i),
				"a ticket was given twice, or not at all");
	}
}

// A lock made of compare-and-swap, around what is not atomic.
void compare_and_swap()
{
	constexpr int rounds = 10;
	Window window(64);
	const std::int32_t free = 0, taken = rank_ + 1;

	MPI_Win_lock_all(0, window.win);
	for (int round = 0; round < rounds; round++) {
		std::int32_t was = -1, count = 0;

		do {
			MPI_Compare_and_swap(&taken, &free, &was, MPI_INT32_T, 0, 0, window.win);
			MPI_Win_flush(0, window.win);
		} while (was != free);
		MPI_Get(&count, 1, MPI_INT32_T, 0, 16, 1, MPI_INT32_T, window.win);
		MPI_Win_flush(0, window.win);
		count++;
		MPI_Put(&count, 1, MPI_INT32_T, 0, 16, 1, MPI_INT32_T, window.win);
		MPI_Win_flush(0, window.win);
		MPI_Compare_and_swap(&free, &taken, &was, MPI_INT32_T, 0, 0, window.win);
		MPI_Win_flush(0, window.win);
		require(was == taken, "the lock was taken away");
	}
	MPI_Win_unlock_all(window.win);
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank_ == 0) {
		MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window.win);
		require(window.as<std::int32_t>()[4] == rounds * ranks_, "two had the lock");
		MPI_Win_unlock(0, window.win);
	}
}

// Operations of one rank on the same place are done in order.
void in_order()
{
	Window window(64);
	std::array<std::int32_t, 30> values;

	std::iota(values.begin(), values.end(), 1);
	MPI_Win_lock_all(0, window.win);
	for (const std::int32_t &value : values)
		MPI_Accumulate(&value, 1, MPI_INT32_T, next_, 0, 1, MPI_INT32_T, MPI_REPLACE, window.win);
	MPI_Win_unlock_all(window.win);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock(MPI_LOCK_SHARED, rank_, 0, window.win);
	require(*window.as<std::int32_t>() == values.back(), "an earlier one was done last");
	MPI_Win_unlock(rank_, window.win);
}

const Pieces pieces = {
	{"fence", fence},
	{"everybody to everybody", everybody_to_everybody},
	{"post, start, complete, wait", post_start_complete_wait},
	{"locks", locks},
	{"exclusive locks exclude", exclusive_locks_exclude},
	{"lock all and flush", lock_all_and_flush},
	{"requests", requests},
	{"allocated", allocated},
	{"dynamic", dynamic},
	{"units", units},
	{"datatypes", datatypes},
	{"sums", sums},
	{"operations", operations},
	{"tickets", tickets},
	{"compare and swap", compare_and_swap},
	{"in order", in_order},
};

} // namespace

int main(int argc, char **argv)
{
	return run_pieces(argc, argv, MPI_THREAD_SINGLE, pieces);
}
