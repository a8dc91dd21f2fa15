// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// How the tools end when something is wrong: one exception with a text for people and an exit code for
// scripts. It is thrown while things are set up and when a run has failed, never while messages flow.
#pragma once

#include <stdexcept>
#include <string>

#include <ibrelk/ibrelk.hpp>

namespace tool
{

enum Exit : int {
	exit_ok = 0,
	exit_failed = 1, // the run failed: data wrong, messages missing, a command refused
	exit_usage = 2,
	exit_unavailable = 3, // no module, no permission, no usable port
	exit_timeout = 4,     // the peer does not answer, or the run made no progress
};

class Failure : public std::runtime_error
{
public:
	Failure(Exit code, const std::string &text) : std::runtime_error(text), code_(code)
	{
	}
	Failure(ibrelk_call call, int error, const std::string &what) :
		std::runtime_error(what + ": " + ibrelk_error_text(call, error)),
		code_(call == IBRELK_CALL_OPEN || call == IBRELK_CALL_ENDPOINT_CREATE ? exit_unavailable
										      : exit_failed)
	{
	}
	[[nodiscard]] Exit code() const
	{
		return code_;
	}

private:
	Exit code_;
};

/// The value of a result; throws a Failure if there is none.
template<class T>
T need(ibrelk::result<T> result, ibrelk_call call, const std::string &what)
{
	if (!result)
		throw Failure(call, result.error(), what);
	return *std::move(result);
}

} // namespace tool
