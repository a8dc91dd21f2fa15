// SPDX-License-Identifier: GPL-2.0-only
//
// What the models of tests/unit throw where the code does what it must not.
#pragma once

#include <stdexcept>

class Broken : public std::runtime_error
{
public:
	using std::runtime_error::runtime_error;
};

inline void require(bool holds, const char *rule)
{
	if (!holds)
		throw Broken(rule);
}
