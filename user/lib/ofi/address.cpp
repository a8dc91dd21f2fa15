// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// From nodes and services to addresses.
#include "address.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <memory>

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>

namespace ibrelk::ofi
{

namespace
{

constexpr unsigned char mapped_prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

using Found = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Found look_up(const char *node, const char *service, int family, int flags) noexcept
{
	addrinfo hints{};
	addrinfo *list = nullptr;

	hints.ai_family = family;
	hints.ai_socktype = SOCK_STREAM;
	hints.ai_flags = flags;
	if (::getaddrinfo(node, service, &hints, &list) != 0)
		list = nullptr;
	return {list, &::freeaddrinfo};
}

void to_gid(const addrinfo &found, unsigned char gid[16]) noexcept
{
	if (found.ai_family == AF_INET6) {
		sockaddr_in6 address;

		std::memcpy(&address, found.ai_addr, sizeof(address));
		std::memcpy(gid, &address.sin6_addr, 16);
		return;
	}

	sockaddr_in address;

	std::memcpy(&address, found.ai_addr, sizeof(address));
	std::memcpy(gid, mapped_prefix, sizeof(mapped_prefix));
	std::memcpy(gid + sizeof(mapped_prefix), &address.sin_addr, 4);
}

} // namespace

result<std::uint32_t> endpoint_of_service(const char *service) noexcept
{
	std::uint32_t number = 0;

	if (!service)
		return number;

	const char *last = service + std::strlen(service);
	const auto [end, error] = std::from_chars(service, last, number);

	if (error == std::errc() && end == last)
		return number;

	const Found found = look_up(nullptr, service, AF_INET, 0);

	if (!found)
		return failure(EINVAL);

	sockaddr_in address;

	std::memcpy(&address, found->ai_addr, sizeof(address));
	return static_cast<std::uint32_t>(ntohs(address.sin_port));
}

result<std::vector<::ibrelk_addr>> resolve(const char *node, const char *service, bool numeric)
{
	::ibrelk_addr address{};
	std::vector<::ibrelk_addr> addresses;
	const auto number = endpoint_of_service(service);

	if (!number)
		return failure(number.error());
	address.endpoint = *number;
	if (!node)
		return std::vector{address};

	// Both kinds are asked for at once, for the sake of name servers that are slow with one.
	const Found found = look_up(node, nullptr, AF_UNSPEC, numeric ? AI_NUMERICHOST : 0);

	for (const addrinfo *one = found.get(); one; one = one->ai_next) {
		if (one->ai_family != AF_INET && one->ai_family != AF_INET6)
			continue;
		to_gid(*one, address.gid);
		addresses.push_back(address);
	}
	if (addresses.empty())
		return failure(ENODATA);
	std::stable_partition(addresses.begin(), addresses.end(),
		[](const ::ibrelk_addr &one) { return is_ipv4(one.gid); });
	return addresses;
}

::ibrelk_addr seen_from(const ::ibrelk_addr &port, const std::vector<::ibrelk_addr> &addresses) noexcept
{
	const auto rank = [&](const ::ibrelk_addr &address) {
		if (is_any(port) || is_ipv4(address.gid) == is_ipv4(port.gid))
			return 0;
		return is_loopback(address.gid) ? 1 : 2;
	};
	::ibrelk_addr address = *std::min_element(addresses.begin(), addresses.end(),
		[&](const auto &left, const auto &right) { return rank(left) < rank(right); });

	localize(address, port);
	return address;
}

std::string raised(const char *name, std::size_t step)
{
	const std::string whole = name;
	const std::size_t letters = whole.find_last_not_of("0123456789") + 1; // npos + 1 is 0
	const std::string digits = whole.substr(letters);
	std::uint64_t number = 0;
	const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);

	if (error != std::errc() || number + step < number)
		return {};

	std::string text = std::to_string(number + step);

	if (digits.front() == '0' && text.size() < digits.size())
		text.insert(0, digits.size() - text.size(), '0');
	return whole.substr(0, letters) + text;
}

result<std::vector<::ibrelk_addr>> resolve_nth(const char *node, std::size_t nth)
{
	auto addresses = resolve(node, nullptr, true);

	if (!addresses) {
		const std::string name = nth ? raised(node, nth) : node;

		if (name.empty())
			return failure(EINVAL);
		return resolve(name.c_str(), nullptr, false);
	}

	auto &gid = addresses->front().gid;
	const std::size_t first = is_ipv4(gid) ? 12 : 0;
	unsigned carry = 0;

	for (std::size_t byte = 16; nth || carry; nth >>= 8) {
		if (byte-- == first)
			return failure(EINVAL);

		const unsigned sum = gid[byte] + static_cast<unsigned>(nth & 0xff) + carry;

		gid[byte] = static_cast<unsigned char>(sum);
		carry = sum >> 8;
	}
	return addresses;
}

bool is_any(const ::ibrelk_addr &address) noexcept
{
	return std::all_of(std::begin(address.gid) + (is_ipv4(address.gid) ? sizeof(mapped_prefix) : 0),
		std::end(address.gid), [](unsigned char b) { return b == 0; });
}

bool is_ipv4(const unsigned char gid[16]) noexcept
{
	return std::memcmp(gid, mapped_prefix, sizeof(mapped_prefix)) == 0;
}

bool is_link_local(const unsigned char gid[16]) noexcept
{
	return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80;
}

bool is_loopback(const unsigned char gid[16]) noexcept
{
	constexpr unsigned char ipv6[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};

	return std::memcmp(gid, ipv6, sizeof(ipv6)) == 0 || (is_ipv4(gid) && gid[12] == 127);
}

void localize(::ibrelk_addr &address, const ::ibrelk_addr &port) noexcept
{
	if (is_loopback(address.gid) && !is_any(port))
		std::memcpy(address.gid, port.gid, sizeof(address.gid));
}

bool is_peer(const ::ibrelk_addr &address) noexcept
{
	return !is_any(address) && address.endpoint != 0;
}

} // namespace ibrelk::ofi
