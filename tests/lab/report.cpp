// SPDX-License-Identifier: GPL-2.0-only
//
// See report.hpp.

#include "report.hpp"

#include <array>
#include <regex>

namespace lab
{

namespace
{

// What opens a report. Lockdep and KASAN say "WARNING:" and "BUG:" too.
const std::regex opening(
	R"(------------\[ cut here \]|\bWARNING:|\bBUG:|\bBUG |\bOops\b|Kernel panic|)"
	R"(\bUBSAN:|\bKASAN:|\bKCSAN:|\bkmemleak:|\bDMA-API:|INFO: task .* blocked for more than|)"
	R"(rcu.*(self-)?detected .*stall|INFO: (possible|inconsistent|lockdep|trying)|)"
	R"(general protection fault|unable to handle|soft lockup|hard LOCKUP|refcount_t:|)"
	R"(list_(add|del) corruption|scheduling while atomic|sleeping function called|)"
	R"(stack-protector|Unknown symbol|Out of memory: Killed process|page allocation failure)");

// What shows that the trace of a report goes on.
constexpr std::size_t lines_max = 80;
constexpr std::size_t quiet_lines_max = 12;
const std::regex trace(
	R"(^\[[^\]]*\] ( |Call Trace|RIP:|R[A-Z0-9]{2}:|Code:|CPU:|Hardware|Modules|[CDEF]S:|CR2:|PKRU|)"
	R"(---|<|Workqueue|Tainted|Read of|Write of|Allocated|Freed|Memory state|The buggy|page:|=====|#[0-9]))");

} // namespace

std::string kernel_reports(std::string_view log)
{
	std::string reports;
	std::size_t left = 0;  // lines that the current report may still have
	std::size_t quiet = 0; // of those, how many may pass without a sign of it
	while (!log.empty()) {
		const auto end = log.find('\n');
		std::string line(log.substr(0, end));
		log.remove_prefix(end == log.npos ? log.size() : end + 1);
		while (!line.empty() && line.back() == '\r')
			line.pop_back();

		if (std::regex_search(line, opening)) {
			if (left == 0)
				left = lines_max;
			quiet = quiet_lines_max;
		} else if (left > 0 && std::regex_search(line, trace)) {
			quiet = quiet_lines_max;
		} else if (left > 0) {
			if (--quiet == 0)
				left = 0;
		}
		if (left > 0) {
			reports += line + '\n';
			left--;
			if (line.find("---[ end ") != line.npos)
				left = 0;
		}
	}
	return reports;
}

} // namespace lab
