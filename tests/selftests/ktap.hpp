// SPDX-License-Identifier: GPL-2.0-only
//
// Test programs that speak KTAP, the kernel's test protocol: a plan, one line for each test, diagnostics
// behind '#'. A test is a function; a check that fails is reported and counted, and the test goes on; a
// requirement that fails ends it; ktap::skip() ends it with a reason. The program's exit status is that of
// kselftest: 0 all well, 1 something failed, 4 nothing could be tested.
//
//	KTAP_TEST(ring__has_a_size)
//	{
//		KTAP_EQUAL(ring.size(), 4u);
//	}
//
//	int main(int argc, char **argv) { return ktap::run(argc, argv); }
//
// Arguments name the tests to run, by any part of their name, and after a '!' those not to run; none: all.
#pragma once

#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace ktap
{

struct Skip {
	std::string reason;
};

struct Stop { // a requirement failed; it has been reported
};

struct Test {
	const char *name;
	void (*function)();
};

inline std::vector<Test> &tests()
{
	static std::vector<Test> all;

	return all;
}

inline unsigned &failures()
{
	static unsigned count;

	return count;
}

[[noreturn]] inline void skip(std::string reason)
{
	throw Skip{std::move(reason)};
}

template<typename... Arguments>
void note(const Arguments &...arguments)
{
	std::ostringstream line;

	(line << ... << arguments);
	std::printf("# %s\n", line.str().c_str());
}

inline void fail(const char *file, int line, const std::string &what)
{
	const char *base = std::strrchr(file, '/');

	note(base ? base + 1 : file, ":", line, ": ", what);
	failures()++;
}

template<typename Value>
std::string show(const Value &value)
{
	std::ostringstream text;

	if constexpr (std::is_enum_v<Value>)
		text << +static_cast<std::underlying_type_t<Value>>(value);
	else if constexpr (std::is_integral_v<Value>)
		text << +value;
	else
		text << value;
	return text.str();
}

template<typename Left, typename Right>
bool same(const Left &left, const Right &right)
{
	if constexpr (std::is_integral_v<Left> && std::is_integral_v<Right> && !std::is_same_v<Left, bool> &&
		!std::is_same_v<Right, bool>)
		return std::cmp_equal(left, right);
	else
		return left == right;
}

template<typename Left, typename Right>
bool equal(const char *file, int line, const char *text, const Left &left, const Right &right)
{
	if (same(left, right))
		return true;
	fail(file, line, std::string(text) + " is " + show(left) + ", not " + show(right));
	return false;
}

struct Registration {
	Registration(const char *name, void (*function)())
	{
		tests().push_back({name, function});
	}
};

inline bool wanted(const char *name, int argc, char **argv)
{
	bool named = false, any = true;

	for (int i = 1; i < argc; i++) {
		if (argv[i][0] == '!' && std::strstr(name, argv[i] + 1))
			return false;
		if (argv[i][0] != '!') {
			any = false;
			named |= std::strstr(name, argv[i]) != nullptr;
		}
	}
	return any || named;
}

// Returns whether it was skipped.
inline bool run_one(const Test &test, unsigned number)
{
	auto start = std::chrono::steady_clock::now();
	std::string reason;
	bool skipped = false;

	failures() = 0;
	try {
		test.function();
	} catch (const Skip &skip) {
		skipped = true;
		reason = skip.reason;
	} catch (const Stop &) {
	} catch (const std::exception &error) {
		fail(test.name, 0, error.what());
	}

	auto taken = std::chrono::steady_clock::now() - start;
	auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(taken).count();

	if (ms >= 1000)
		note("took ", ms, " ms");
	if (failures())
		std::printf("not ok %u %s\n", number, test.name);
	else if (skipped)
		std::printf("ok %u %s # SKIP %s\n", number, test.name, reason.c_str());
	else
		std::printf("ok %u %s\n", number, test.name);
	return skipped && !failures();
}

inline int run(int argc, char **argv)
{
	unsigned failed = 0, skipped = 0, number = 0;
	std::vector<Test> chosen;

	std::setvbuf(stdout, nullptr, _IOLBF, 0);
	for (const auto &test : tests())
		if (wanted(test.name, argc, argv))
			chosen.push_back(test);

	std::printf("KTAP version 1\n1..%zu\n", chosen.size());
	for (const auto &test : chosen) {
		skipped += run_one(test, ++number);
		failed += failures() != 0;
	}
	note("Totals: pass:", number - failed - skipped, " fail:", failed, " xfail:0 xpass:0 skip:", skipped,
		" error:0");
	if (failed || chosen.empty())
		return 1;
	return skipped == number ? 4 : 0;
}

} // namespace ktap

#define KTAP_TEST(name) \
	static void name(); \
	static const ktap::Registration registration_##name(#name, name); \
	static void name()

// Is it true? If not, the test has failed, and goes on.
#define KTAP_CHECK(condition) \
	do { \
		if (!(condition)) \
			ktap::fail(__FILE__, __LINE__, "not so: " #condition); \
	} while (0)

#define KTAP_EQUAL(left, right) (void)ktap::equal(__FILE__, __LINE__, #left, (left), (right))

// The same, but without it the rest of the test makes no sense.
#define KTAP_REQUIRE(condition) \
	do { \
		if (!(condition)) { \
			ktap::fail(__FILE__, __LINE__, "not so: " #condition); \
			throw ktap::Stop(); \
		} \
	} while (0)

#define KTAP_REQUIRE_EQUAL(left, right) \
	do { \
		if (!ktap::equal(__FILE__, __LINE__, #left, (left), (right))) \
			throw ktap::Stop(); \
	} while (0)
