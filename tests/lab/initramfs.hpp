// SPDX-License-Identifier: GPL-2.0-only
//
// Makes the initial root file system of a guest, in memory.

#pragma once

#include "process.hpp"

#include <filesystem>
#include <set>
#include <string>
#include <vector>

namespace lab
{

// An archive in the format that the kernel unpacks (cpio "newc"). The same
// contents give the same bytes: no times, owners or inode numbers of the host.
class Initramfs
{
public:
	Initramfs();

	// Parent folders are made as needed; a path given twice is kept once.
	void add_directory(const std::string &path);
	void add_file(const std::string &path, const std::filesystem::path &source);
	void add_text(const std::string &path, std::string_view text, unsigned mode = 0644);
	void add_link(const std::string &path, const std::string &target);

	// Busybox and a link for each of its commands, in /bin.
	void add_busybox();

	// A file, and, if it is a program or library, the libraries that it needs,
	// at their own paths.
	void add_program(const std::filesystem::path &program, const std::string &path);

	[[nodiscard]] File finish();

private:
	bool add(const std::string &path, unsigned mode, std::string_view contents);

	std::string archive_;
	std::set<std::string> paths_;
	unsigned inode_ = 1;
};

// A stock kernel, as unpacked by kernels.sh.
struct Kernel {
	std::filesystem::path image;
	std::filesystem::path modules; // lib/modules
	std::string release;

	static Kernel find(const std::string &series);

	// The files of the named modules and all that they need, in loading order.
	[[nodiscard]] std::vector<std::filesystem::path> module_files(
		const std::vector<std::string> &names) const;
};

// Puts modules into /modules, named so that their order is the loading order.
void add_modules(Initramfs &initramfs, const std::vector<std::filesystem::path> &files);

} // namespace lab
