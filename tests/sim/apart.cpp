// SPDX-License-Identifier: GPL-2.0-only
//
// See apart.hpp.

#include "apart.hpp"

#include "module.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

struct sim_config sim_config;
bool sim_troubled;
bool sim_tracing;
struct sim_counts sim_counts;
u64 sim_fingerprint = 0xcbf29ce484222325ull;

namespace
{

constexpr u64 limit_cpu_s = 60; // large messages that are refused are made again and again

// What the child tells the parent.
struct Shared {
	char check[64];
	struct sim_counts counts;
	u64 fingerprint;
	u64 virtual_ns;
	bool failed;
	bool finished;
};

Shared *shared;

void publish()
{
	if (!shared)
		return;
	shared->counts = sim_counts;
	shared->fingerprint = sim_fingerprint;
	shared->virtual_ns = sim_now();
}

} // namespace

void sim_fail(const char *check, const char *format, ...)
{
	va_list arguments;

	std::fflush(stdout);
	std::fprintf(stderr, "FAILED %s at %llu ns: ", check, sim_now());
	va_start(arguments, format);
	std::vfprintf(stderr, format, arguments); // NOLINT(clang-analyzer-valist.Uninitialized): it is
	va_end(arguments);
	std::fputc('\n', stderr);
	if (sim_tracing || !std::strcmp(check, "progress"))
		sim_describe();
	if (shared) {
		std::snprintf(shared->check, sizeof(shared->check), "%s", check);
		shared->failed = true;
		publish();
	}
	std::fflush(stderr);
	if (sim_tracing)
		std::abort();
	_exit(1);
}

#undef sim_trace
void sim_trace(const char *format, ...)
{
	va_list arguments;

	std::fprintf(stderr, "%14.6f %2u ", static_cast<double>(sim_now() - 1'000'000'000) / 1e6, sim_node());
	va_start(arguments, format);
	std::vfprintf(stderr, format, arguments); // NOLINT(clang-analyzer-valist.Uninitialized): it is
	va_end(arguments);
	std::fputc('\n', stderr);
}
#define sim_trace(...) \
	do { \
		if (__builtin_expect(sim_tracing, 0)) \
			(sim_trace)(__VA_ARGS__); \
	} while (0)

void sim_note(u64 value)
{
	sim_fingerprint = (sim_fingerprint ^ value) * 0x100000001b3ull;
	sim_fingerprint ^= sim_fingerprint >> 31;
}

namespace
{

// What it was that crashed, in a word or two.
std::string crash_name(const std::string &report, int status)
{
	for (const char *mark : {"WARN: ", "ERROR: AddressSanitizer: ", "runtime error: "}) {
		const auto at = report.find(mark);
		if (at == std::string::npos)
			continue;
		const auto line = report.rfind('\n', at) + 1;
		auto text = report.substr(line, report.find('\n', at) - line);
		if (*mark == 'E')
			text = report.substr(at, report.find(' ', at + std::strlen(mark)) - at);
		return text.substr(0, 100);
	}
	if (WIFSIGNALED(status))
		return WTERMSIG(status) == SIGXCPU || WTERMSIG(status) == SIGKILL
			? "hang"
			: strsignal(WTERMSIG(status));
	return "exit " + std::to_string(WEXITSTATUS(status));
}

} // namespace

namespace sim
{

Outcome apart(const struct sim_config &config, bool tracing, const std::function<void()> &body)
{
	Outcome outcome;
	const int log = memfd_create("log", 0);

	if (!shared)
		shared = static_cast<Shared *>(mmap(
			nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
	*shared = {};
	std::fflush(stdout);
	const pid_t child = fork();
	if (!child) {
		const rlimit limit{limit_cpu_s, limit_cpu_s + 5};
		setrlimit(RLIMIT_CPU, &limit);
		if (!tracing)
			dup2(log, 2);
		sim_tracing = tracing;
		::sim_config = config;
		body();
		publish();
		shared->finished = true;
		_exit(0);
	}
	int status = 0;
	waitpid(child, &status, 0);
	outcome.counts = shared->counts;
	outcome.fingerprint = shared->fingerprint;
	outcome.virtual_ns = shared->virtual_ns;
	char buffer[4096];
	for (off_t at = 0;;) {
		const auto got = pread(log, buffer, sizeof(buffer), at);
		if (got <= 0)
			break;
		outcome.report.append(buffer, static_cast<std::size_t>(got));
		at += got;
	}
	::close(log);
	if (shared->failed)
		outcome.check = shared->check;
	else if (!shared->finished)
		outcome.check = crash_name(outcome.report, status);
	outcome.failed = !outcome.check.empty();
	return outcome;
}

void use_huge_pages(char **argv)
{
	if (getenv("GLIBC_TUNABLES"))
		return;
	setenv("GLIBC_TUNABLES",
		"glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=33554432:"
		"glibc.malloc.trim_threshold=1073741824:glibc.malloc.top_pad=16777216",
		0);
	execv("/proc/self/exe", argv);
}

} // namespace sim
