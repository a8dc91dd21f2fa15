// SPDX-License-Identifier: GPL-2.0-only
//
// Many small things of one kind, named by 32-bit numbers; and lists of them, linked by their member .next.

#pragma once

#include "port_user.h"

#include <vector>

namespace scale
{

constexpr u32 none = ~0u;

template<typename T>
class Pool
{
public:
	// Things move when others are made: keep the number, not the address.
	T &operator[](u32 index)
	{
		return things_[index];
	}

	u32 get()
	{
		const u32 index = free_;

		if (index == none) {
			things_.emplace_back();
			return static_cast<u32>(things_.size() - 1);
		}
		free_ = things_[index].next;
		things_[index] = T{};
		return index;
	}

	void put(u32 index)
	{
		things_[index].next = free_;
		free_ = index;
	}

private:
	std::vector<T> things_;
	u32 free_ = none;
};

struct List {
	u32 first = none;
	u32 last = none;

	[[nodiscard]] bool empty() const
	{
		return first == none;
	}

	template<typename T>
	void append(Pool<T> &pool, u32 index)
	{
		pool[index].next = none;
		(empty() ? first : pool[last].next) = index;
		last = index;
	}

	template<typename T>
	u32 take(Pool<T> &pool)
	{
		const u32 index = first;

		first = pool[index].next;
		return index;
	}
};

} // namespace scale
