// SPDX-License-Identifier: GPL-2.0-only
//
// See initramfs.hpp.

#include "initramfs.hpp"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>

#include <fmt/format.h>
#include <sys/stat.h>

namespace lab
{

namespace fs = std::filesystem;

namespace
{

std::string read_file(const fs::path &path)
{
	std::ifstream stream(path, std::ios::binary);
	if (!stream)
		throw Error(fmt::format("cannot read {}", path.string()));
	return {std::istreambuf_iterator<char>(stream), {}};
}

// Module names and file names mix '-' and '_' freely.
std::string module_name(const fs::path &file)
{
	std::string name = file.stem();
	std::replace(name.begin(), name.end(), '-', '_');
	return name;
}

} // namespace

Initramfs::Initramfs()
{
	add_directory("/dev");
	// The first process's standard output, before anything is mounted.
	add("/dev/console", S_IFCHR | 0600, {});
}

bool Initramfs::add(const std::string &path, unsigned mode, std::string_view contents)
{
	const std::string name = fs::path(path).lexically_normal().relative_path();
	if (name.empty() || !paths_.insert(name).second)
		return false;
	if (const auto parent = fs::path(name).parent_path(); !parent.empty())
		add("/" + parent.string(), S_IFDIR | 0755, {});

	const bool console = S_ISCHR(mode);
	const auto pad = [this] {
		archive_.resize((archive_.size() + 3) & ~std::size_t{3}, '\0');
	};
	archive_ += fmt::format("070701{:08X}{:08X}{:08X}{:08X}{:08X}{:08X}{:08X}"
				"{:08X}{:08X}{:08X}{:08X}{:08X}{:08X}",
		inode_++, mode, 0, 0, S_ISDIR(mode) ? 2 : 1, 0, contents.size(), 0, 0, console ? 5 : 0,
		console ? 1 : 0, name.size() + 1, 0);
	archive_.append(name).push_back('\0');
	pad();
	archive_.append(contents);
	pad();
	return true;
}

void Initramfs::add_directory(const std::string &path)
{
	add(path, S_IFDIR | 0755, {});
}

void Initramfs::add_file(const std::string &path, const fs::path &source)
{
	const bool executable = (fs::status(source).permissions() & fs::perms::owner_exec) != fs::perms::none;
	add(path, S_IFREG | (executable ? 0755U : 0644U), read_file(source));
}

void Initramfs::add_text(const std::string &path, std::string_view text, unsigned mode)
{
	add(path, S_IFREG | mode, text);
}

void Initramfs::add_link(const std::string &path, const std::string &target)
{
	add(path, S_IFLNK | 0777, target);
}

void Initramfs::add_busybox()
{
	fs::path busybox = "/bin/busybox";
	if (!fs::exists(busybox))
		throw Error("there is no /bin/busybox; install busybox-static");
	add_file("/bin/busybox", busybox);
	for (const auto &command : words(output_of({busybox, "--list"})))
		if (command != "busybox")
			add_link("/bin/" + command, "busybox");
	add_link("/sbin/modprobe", "/bin/busybox");
}

void Initramfs::add_program(const fs::path &program, const std::string &path)
{
	add_file(path, program);
	std::ifstream start(program, std::ios::binary);
	char magic[4] = {};
	start.read(magic, sizeof magic);
	if (std::string_view(magic, 4) !=
		"\x7f"
		"ELF")
		return;
	// What cannot be listed needs none: kernel modules, static programs.
	const std::string listing = output_of({"sh", "-c", "ldd \"$1\" 2>/dev/null || :", "sh", program});
	for (const auto &word : words(listing))
		if (word.starts_with('/') && fs::exists(word))
			add_file(word, fs::canonical(word));
}

File Initramfs::finish()
{
	inode_ = 0;
	add("/TRAILER!!!", 0, {});
	File file = File::in_memory("initramfs");
	file.write_all(archive_);
	return file;
}

Kernel Kernel::find(const std::string &series)
{
	std::string root = output_of({LAB_SOURCE_DIR "/kernels.sh", "image", series});
	root.erase(root.find_last_not_of('\n') + 1);
	Kernel kernel;
	kernel.modules = fs::path(root) / "lib/modules";
	for (const auto &entry : fs::directory_iterator(fs::path(root) / "boot"))
		if (entry.path().filename().string().starts_with("vmlinuz-"))
			kernel.image = entry.path();
	if (kernel.image.empty())
		throw Error(fmt::format("{} holds no kernel image", root));
	kernel.release = kernel.image.filename().string().substr(std::strlen("vmlinuz-"));
	// Unpacked, it boots in half the time.
	const auto unpacked = kernel.image.parent_path() / ("vmlinux-" + kernel.release);
	if (fs::exists(unpacked))
		kernel.image = unpacked;
	return kernel;
}

std::vector<fs::path> Kernel::module_files(const std::vector<std::string> &names) const
{
	const fs::path folder = modules / release;
	std::set<std::string> builtin;
	for (const auto &file : words(read_file(folder / "modules.builtin")))
		builtin.insert(module_name(file));
	std::map<std::string, std::string> lines; // by module name: its file and its needs
	std::istringstream dependencies(read_file(folder / "modules.dep"));
	for (std::string line; std::getline(dependencies, line);)
		lines[module_name(line.substr(0, line.find(':')))] = line;

	std::vector<fs::path> files;
	for (const auto &name : names) {
		if (builtin.contains(module_name(name + ".ko")))
			continue;
		const auto line = lines.find(module_name(name + ".ko"));
		if (line == lines.end())
			throw Error(fmt::format("kernel {} has no module {}", release, name));
		// "file: need need ...", the last need to be loaded first.
		auto chain = words(line->second);
		chain.front().pop_back();
		for (auto file = chain.rbegin(); file != chain.rend(); ++file)
			if (std::find(files.begin(), files.end(), folder / *file) == files.end())
				files.push_back(folder / *file);
	}
	return files;
}

void add_modules(Initramfs &initramfs, const std::vector<fs::path> &files)
{
	initramfs.add_directory("/modules");
	int number = 0;
	for (const auto &file : files)
		initramfs.add_file(
			fmt::format("/modules/{:03}-{}", number++, file.filename().string()), file);
}

} // namespace lab
