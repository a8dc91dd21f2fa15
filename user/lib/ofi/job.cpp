// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Which job a process belongs to. Launchers say it in the environment, each in its own words; all processes
// of a job have the same, and other jobs have something else.
#include "job.hpp"

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "provider.hpp"

namespace ibrelk::ofi
{

namespace
{

// FNV-1a: the key is as secret as the text, no more.
std::uint64_t digest(std::string_view text, std::uint64_t hash = 0xcbf29ce484222325u) noexcept
{
	for (const unsigned char letter : text)
		hash = (hash ^ letter) * 0x100000001b3u;
	return hash;
}

std::uint64_t never_zero(std::uint64_t key) noexcept
{
	return key ? key : 1;
}

} // namespace

std::uint64_t job_key_of(const char *text) noexcept
{
	std::string_view digits(text);
	int base = 10;
	std::uint64_t number = 0;

	if (digits.starts_with("0x") || digits.starts_with("0X")) {
		digits.remove_prefix(2);
		base = 16;
	}
	const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number, base);

	if (error == std::errc() && end == digits.data() + digits.size())
		return number;
	return never_zero(digest(text));
}

std::uint64_t job_key() noexcept
{
	if (const char *wanted = parameters().job_key)
		return job_key_of(wanted);
	// Open MPI 4 makes a key of 128 random bits; a PMIx namespace is the name of a job.
	for (const char *name : {"OMPI_MCA_orte_precondition_transports", "PMIX_NAMESPACE"}) {
		if (const char *value = std::getenv(name); value && *value)
			return never_zero(digest(value));
	}
	if (const char *job = std::getenv("SLURM_JOB_ID"); job && *job) {
		const char *step = std::getenv("SLURM_STEP_ID");

		return never_zero(digest(step ? step : "", digest(".", digest(job))));
	}
	return 0;
}

} // namespace ibrelk::ofi
