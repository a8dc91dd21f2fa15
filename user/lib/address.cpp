// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Addresses as people write them, and the names of the modes. No name service is asked: a GID is the identity
// of a port, and which of a host's many addresses is meant is for the user to say.
#include <arpa/inet.h>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <strings.h>

#include <ibrelk/ibrelk.h>

namespace
{

constexpr unsigned char mapped_prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

constexpr const char *mode_names[IBRELK_MODE_COUNT] = {"default", "rc-native", "uc-native", "ud-native",
	"rc-reliable", "uc-reliable", "ud-reliable", "auto"};

bool parse_number(std::string_view text, std::uint32_t &value)
{
	auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 10);

	return error == std::errc() && end == text.data() + text.size();
}

// inet_pton wants a terminated string, and the host is a part of one.
bool parse_host(int family, std::string_view host, void *bytes)
{
	char copy[INET6_ADDRSTRLEN];

	if (host.size() >= sizeof(copy))
		return false;
	std::memcpy(copy, host.data(), host.size());
	copy[host.size()] = '\0';
	return ::inet_pton(family, copy, bytes) == 1;
}

// Reads the host and cuts it from the text.
bool take_host(std::string_view &text, unsigned char gid[16])
{
	if (text.starts_with('[')) {
		auto end = text.find(']');

		if (end == std::string_view::npos || !parse_host(AF_INET6, text.substr(1, end - 1), gid))
			return false;
		text.remove_prefix(end + 1);
		return true;
	}

	auto host = text.substr(0, text.find(':'));

	text.remove_prefix(host.size());
	if (host == "*")
		return true;
	std::memcpy(gid, mapped_prefix, sizeof(mapped_prefix));
	return parse_host(AF_INET, host, gid + sizeof(mapped_prefix));
}

} // namespace

extern "C" int ibrelk_address_from_text(const char *text, struct ibrelk_addr *address) noexcept
{
	ibrelk_addr parsed{};

	if (!text || !address)
		return -EINVAL;

	std::string_view rest(text);

	if (auto mark = rest.find('#'); mark != std::string_view::npos) {
		if (!parse_number(rest.substr(mark + 1), parsed.generation))
			return -EINVAL;
		rest = rest.substr(0, mark);
	}
	if (!take_host(rest, parsed.gid))
		return -EINVAL;
	if (!rest.empty() && (rest.front() != ':' || !parse_number(rest.substr(1), parsed.endpoint)))
		return -EINVAL;
	*address = parsed;
	return 0;
}

extern "C" int ibrelk_address_to_text(const struct ibrelk_addr *address, char *text, size_t bytes) noexcept
{
	static constexpr unsigned char any[16] = {};
	char host[INET6_ADDRSTRLEN + 2] = "*";
	char generation[16] = "";

	if (!address || !text)
		return -EINVAL;
	if (std::memcmp(address->gid, mapped_prefix, sizeof(mapped_prefix)) == 0) {
		::inet_ntop(AF_INET, address->gid + sizeof(mapped_prefix), host, sizeof(host));
	} else if (std::memcmp(address->gid, any, sizeof(any)) != 0) {
		char inner[INET6_ADDRSTRLEN];

		::inet_ntop(AF_INET6, address->gid, inner, sizeof(inner));
		std::snprintf(host, sizeof(host), "[%s]", inner);
	}
	if (address->generation)
		std::snprintf(generation, sizeof(generation), "#%u", address->generation);

	int length = std::snprintf(text, bytes, "%s:%u%s", host, address->endpoint, generation);

	return length < 0 || static_cast<size_t>(length) >= bytes ? -ENOSPC : length;
}

extern "C" const char *ibrelk_mode_name(uint32_t mode) noexcept
{
	return mode < IBRELK_MODE_COUNT ? mode_names[mode] : "unknown";
}

extern "C" int ibrelk_mode_from_name(const char *name) noexcept
{
	for (int mode = 0; name && mode < IBRELK_MODE_COUNT; mode++) {
		if (::strcasecmp(name, mode_names[mode]) == 0)
			return mode;
	}
	return -EINVAL;
}
