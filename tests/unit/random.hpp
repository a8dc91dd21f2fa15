// SPDX-License-Identifier: GPL-2.0-only
//
// Random numbers of the models of the engine: what a seed stands for does not depend on a library.
#pragma once

#include "port_user.h"

// splitmix64: small, and the same everywhere.
class Random
{
public:
	explicit Random(u64 seed) : state_(seed)
	{
	}

	u64 next()
	{
		u64 z = state_ += 0x9e3779b97f4a7c15;

		z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
		z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
		return z ^ (z >> 31);
	}
	u64 upto(u64 most) // 0 to most
	{
		return next() % (most + 1);
	}
	u64 between(u64 least, u64 most)
	{
		return least + upto(most - least);
	}
	bool chance(u32 per_million)
	{
		return next() % 1000000 < per_million;
	}

private:
	u64 state_;
};
