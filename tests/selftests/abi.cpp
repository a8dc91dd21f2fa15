// SPDX-License-Identifier: GPL-2.0-only
//
// Attacks the interface between user space and the module: every size, flag, reserved member, pointer,
// descriptor and count that can be wrong, both doors, full rings, nonsense in shared memory, and
// descriptors that are inherited, or closed in any order. It knows the module by uapi.h alone, and runs on a
// single node: messages go to itself. The tests are in abi_*.cpp.
#include "ktap.hpp"

#include <cstdlib>
#include <cstring>

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

} // namespace

int main(int argc, char **argv)
{
	if (argc > 1 && !std::strcmp(argv[1], "--closed"))
		return check_closed(argc, argv);
	return ktap::run(argc, argv);
}
