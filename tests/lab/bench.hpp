// SPDX-License-Identifier: GPL-2.0-only
//
// The second form of the lab: one node in which time is counted in instructions.
// The emulator advances the guest's clock by 1 ns per instruction, so that two
// runs of the same thing give the same numbers to the last bit, on any machine,
// and waiting costs nothing. Two soft-RoCE devices, rxe0 on v0 (10.9.0.1) and
// rxe1 on v1 (10.9.0.2), the ends of a veth pair, stand for two nodes.

#pragma once

#include "lab.hpp"

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace lab
{

struct BenchOptions {
	std::string kernel = Options::default_kernel();
	int memory_mb = 1024;
	int mtu = 4500;      // of v0 and v1; gives RoCE a path MTU of 4096
	Duration limit{900}; // of real time
	// More kernel modules to load, by name.
	std::vector<std::string> modules;
	// Found in the guest in /files, which is in the search path. Programs bring
	// the libraries that they need.
	std::vector<std::filesystem::path> files;
	// Each file in these is found in the guest in the same place, programs and plugins with the
	// libraries that they need.
	std::vector<std::filesystem::path> folders;
	// A shell script (busybox), and its arguments. What it writes to /out ends
	// up in out_dir.
	std::string script;
	std::vector<std::string> arguments;
	std::filesystem::path out_dir;
	std::string append; // more for the kernel's command line
	std::string plugin; // of the emulator, with its arguments
	// If set, is given the output as it appears.
	std::function<void(std::string_view)> on_output;
};

struct BenchResult {
	int status = 0;
	std::string output;
	std::string console; // of the kernel
	std::string reports; // warnings and worse on it
	Duration duration{}; // real time
};

BenchResult bench(const BenchOptions &options);

} // namespace lab
