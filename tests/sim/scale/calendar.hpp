// SPDX-License-Identifier: GPL-2.0-only
//
// What is going to happen, in order of time, and at one time in the order in which it was planned. What is
// due soon lies in buckets of a wheel, of which only the current one is sorted; what is due later than the
// wheel reaches, which is little, in a heap. So planning something costs the same whether there are a
// thousand nodes or ten thousand.

#pragma once

#include "port_user.h"

#include <algorithm>
#include <vector>

namespace scale
{

struct Event {
	u64 at;
	u64 order;
	u32 kind;
	u32 object;
};

class Calendar
{
public:
	void plan(u64 at, u32 kind, u32 object)
	{
		const Event event{at, order_++, kind, object};

		if (bucket_of(at) <= current_)
			push(now_, event);
		else if (bucket_of(at) - current_ < buckets)
			wheel_put(event);
		else
			push(later_, event);
	}

	// The next event, unless there is none.
	bool next(Event &event)
	{
		while (now_.empty()) {
			if (!in_wheel_ && later_.empty())
				return false;
			current_ = in_wheel_ ? current_ + 1 : bucket_of(later_.front().at);
			bucket_open();
		}
		event = now_.front();
		std::pop_heap(now_.begin(), now_.end(), comes_after);
		now_.pop_back();
		return true;
	}

private:
	static constexpr u32 bucket_bits = 7;   // 128 ns: a packet of 4 KiB takes three of them at 100 Gb/s
	static constexpr u64 buckets = 1 << 14; // 2 ms: only time-outs are farther away
	static constexpr u32 none = ~0u;

	struct Node {
		Event event;
		u32 next;
	};

	u64 order_ = 0;
	u64 current_ = 0;
	u64 in_wheel_ = 0;
	std::vector<Event> now_;
	std::vector<Event> later_;
	std::vector<u32> wheel_ = std::vector<u32>(buckets, none);
	std::vector<Node> nodes_;
	u32 free_ = none;

	static u64 bucket_of(u64 at)
	{
		return at >> bucket_bits;
	}

	static bool comes_after(const Event &a, const Event &b)
	{
		return a.at != b.at ? a.at > b.at : a.order > b.order;
	}

	static void push(std::vector<Event> &heap, const Event &event)
	{
		heap.push_back(event);
		std::push_heap(heap.begin(), heap.end(), comes_after);
	}

	void wheel_put(const Event &event)
	{
		u32 &bucket = wheel_[bucket_of(event.at) % buckets];
		u32 index = free_;

		if (index == none) {
			index = static_cast<u32>(nodes_.size());
			nodes_.emplace_back();
		} else {
			free_ = nodes_[index].next;
		}
		nodes_[index] = {event, bucket};
		bucket = index;
		in_wheel_++;
	}

	void bucket_open()
	{
		u32 &bucket = wheel_[current_ % buckets];

		while (bucket != none) {
			const u32 index = bucket;

			now_.push_back(nodes_[index].event);
			bucket = nodes_[index].next;
			nodes_[index].next = free_;
			free_ = index;
			in_wheel_--;
		}
		std::make_heap(now_.begin(), now_.end(), comes_after);
		while (!later_.empty() && bucket_of(later_.front().at) <= current_) {
			push(now_, later_.front());
			std::pop_heap(later_.begin(), later_.end(), comes_after);
			later_.pop_back();
		}
	}
};

} // namespace scale
