// SPDX-License-Identifier: GPL-2.0-only
//
// Attacks the interface between user space and the module: every size, flag, reserved member, pointer,
// descriptor and count that can be wrong, both doors, full rings, nonsense in shared memory, and
// descriptors that are inherited, or closed in any order. It knows the module by uapi.h alone, and runs on a
// single node: messages go to itself. The tests are in abi_*.cpp.
//
//	abi [--between IPV4 IPV4] [--disk FOLDER] [part of a test's name, or '!' and such a part ...]
#include "abi.hpp"

#include <cstdlib>
#include <cstring>

#include <arpa/inet.h>
#include <fcntl.h>

namespace
{

// A child of process__exec_closes: none of these may be open.
int check_closed(int argc, char **argv)
{
	for (int i = 2; i < argc; i++)
		if (::fcntl(std::atoi(argv[i]), F_GETFD) >= 0)
			return 1;
	return 0;
}

abi::Gid gid_of(const char *ipv4)
{
	abi::Gid gid{};

	gid[10] = gid[11] = 0xff;
	if (::inet_pton(AF_INET, ipv4, &gid[12]) != 1) {
		std::fprintf(stderr, "not an IPv4 address: %s\n", ipv4);
		std::exit(2);
	}
	return gid;
}

} // namespace

int main(int argc, char **argv)
{
	if (argc > 1 && !std::strcmp(argv[1], "--closed"))
		return check_closed(argc, argv);
	if (argc > 3 && !std::strcmp(argv[1], "--between")) {
		abi::between = {.from = gid_of(argv[2]), .to = gid_of(argv[3])};
		argc -= 3;
		argv += 3;
	}
	if (argc > 2 && !std::strcmp(argv[1], "--disk")) {
		abi::disk = argv[2];
		argc -= 2;
		argv += 2;
	}
	return ktap::run(argc, argv);
}
