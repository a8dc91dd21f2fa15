// What a fuzzer made up, read from its start to its end; after the end everything is 0.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "port_user.h"

class Input
{
public:
	Input(const uint8_t *data, size_t size) : data_(data), left_(size)
	{
	}

	[[nodiscard]] bool empty() const
	{
		return !left_;
	}
	[[nodiscard]] size_t left() const
	{
		return left_;
	}
	u8 byte()
	{
		if (!left_)
			return 0;
		left_--;
		return *data_++;
	}
	u16 half()
	{
		u16 low = byte();

		return low | byte() << 8;
	}
	u32 word()
	{
		u32 low = half();

		return low | static_cast<u32>(half()) << 16;
	}
	u64 twice()
	{
		u64 low = word();

		return low | static_cast<u64>(word()) << 32;
	}
	u32 between(u32 least, u32 most) // at most 65536 values
	{
		u32 values = most - least + 1;

		return least + (values > 256 ? half() : byte()) % values;
	}
	// The next bytes, or as many as there are.
	const uint8_t *take(size_t *size)
	{
		const uint8_t *taken = data_;

		*size = *size < left_ ? *size : left_;
		data_ += *size;
		left_ -= *size;
		return taken;
	}

private:
	const uint8_t *data_;
	size_t left_;
};

// A broken rule is the end: the fuzzer keeps what led to it.
inline void must(bool holds, const char *rule)
{
	if (holds)
		return;
	std::fprintf(stderr, "broken rule: %s\n", rule);
	std::abort();
}
