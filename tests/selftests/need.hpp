// SPDX-License-Identifier: GPL-2.0-only
//
// What the library answers, or an exception that says why not.
#pragma once

#include <ibrelk/ibrelk.hpp>

#include <stdexcept>
#include <string>
#include <utility>

struct Failed : std::runtime_error {
	using std::runtime_error::runtime_error;
};

template<class T>
T need(ibrelk::result<T> result, ibrelk_call call, const char *what)
{
	if (!result)
		throw Failed(std::string(what) + ": " + ibrelk_error_text(call, result.error()));
	return *std::move(result);
}
