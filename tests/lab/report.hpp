// SPDX-License-Identifier: GPL-2.0-only
//
// Recognises what a kernel prints when something is wrong with it.

#pragma once

#include <string>
#include <string_view>

namespace lab
{

// Returns the warnings, oopses and other reports in a piece of kernel log, each
// with its trace, or nothing if all is well.
std::string kernel_reports(std::string_view log);

} // namespace lab
