// SPDX-License-Identifier: GPL-2.0-only
//
// See bench.hpp.

#include "bench.hpp"

#include "node.hpp"
#include "report.hpp"

#include <algorithm>
#include <chrono>
#include <poll.h>
#include <sched.h>
#include <set>
#include <sys/syscall.h>
#include <unistd.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace lab
{

namespace fs = std::filesystem;

namespace
{

const std::vector<std::string> bench_modules = {
	"crc32_generic",
	"crc32c_generic",
	"rdma_rxe",
	"ib_uverbs",
	"rdma_ucm",
	"veth",
	"sch_netem",
};

// What perftest and iproute2 open by name, beside the libraries they name.
const std::vector<std::string> runtime_folders = {"/usr/lib/tc", "/etc/iproute2"};

std::string quoted(const std::string &word)
{
	std::string result = "'";
	for (const char c : word)
		result += c == '\'' ? std::string("'\\''") : std::string(1, c);
	return result + "'";
}

fs::path tool(const std::string &name)
{
	for (const auto *folder : {"/usr/bin", "/usr/sbin", "/bin", "/sbin"})
		if (fs::path path = fs::path(folder) / name; fs::exists(path))
			return path;
	throw Error(fmt::format("{} is not installed", name));
}

void add_folder(Initramfs &initramfs, const fs::path &folder)
{
	const auto through_links = fs::directory_options::follow_directory_symlink;

	for (const auto &entry : fs::recursive_directory_iterator(fs::absolute(folder), through_links))
		if (entry.is_regular_file())
			initramfs.add_program(entry.path(), entry.path());
}

void add_runtime(Initramfs &initramfs)
{
	// Busybox's shell would prefer its own ip and tc.
	initramfs.add_program(tool("dash"), "/bin/sh");
	for (const auto *name : {"ip", "tc", "rdma"})
		initramfs.add_program(tool(name), fmt::format("/sbin/{}", name));
	for (const auto &folder : runtime_folders)
		if (fs::exists(folder))
			add_folder(initramfs, folder);
	// The verbs library loads its providers by name, as files here tell it.
	initramfs.add_text("/etc/libibverbs.d/rxe.driver", "driver rxe\n");
	for (const auto &architecture : fs::directory_iterator("/usr/lib"))
		if (const auto folder = architecture.path() / "libibverbs"; fs::is_directory(folder))
			for (const auto &provider : fs::directory_iterator(folder))
				if (provider.path().filename().string().starts_with("librxe"))
					initramfs.add_program(provider, provider.path());
}

File make_initramfs(const BenchOptions &options, const Kernel &kernel)
{
	Initramfs initramfs;
	add_runtime(initramfs);
	initramfs.add_busybox();
	initramfs.add_file("/init", LAB_SOURCE_DIR "/bench-init.sh");
	auto modules = bench_modules;
	modules.insert(modules.end(), options.modules.begin(), options.modules.end());
	add_modules(initramfs, kernel.module_files(modules));
	for (const auto *folder : {"/proc", "/sys", "/tmp", "/run", "/out"})
		initramfs.add_directory(folder);
	for (const auto &file : options.files)
		initramfs.add_program(file, "/files/" + file.filename().string());
	for (const auto &folder : options.folders)
		add_folder(initramfs, folder);

	std::string words;
	for (const auto &word : options.arguments)
		words += " " + quoted(word);
	initramfs.add_text("/lab/config", fmt::format("MTU={}\nset --{}\n", options.mtu, words));
	initramfs.add_text("/lab/script", options.script, 0755);
	return initramfs.finish();
}

// One thread of the emulator executes the guest; the main thread is woken whenever idle time was skipped, and
// may skip some itself. On several processors it comes sooner or later, as the host likes, and runs with much
// idling were seen to differ, all the more on a busy host. So all threads share a processor, on which any
// other gives way to the main thread at once.
class Order
{
public:
	explicit Order(pid_t emulator) : emulator_(emulator)
	{
		CPU_ZERO(&processor_);
		CPU_SET(static_cast<unsigned>(std::max(sched_getcpu(), 0)), &processor_);
		keep();
	}

	// Also for threads that there were not before.
	void keep()
	{
		const sched_param no_priority{};
		std::error_code gone;

		for (const auto &task :
			fs::directory_iterator(fmt::format("/proc/{}/task", emulator_), gone)) {
			const pid_t thread = std::stoi(task.path().filename().string());

			if (!kept_.insert(thread).second)
				continue;
			sched_setaffinity(thread, sizeof(processor_), &processor_);
			if (thread != emulator_)
				sched_setscheduler(thread, SCHED_IDLE, &no_priority);
		}
	}

private:
	pid_t emulator_;
	cpu_set_t processor_;
	std::set<pid_t> kept_;
};

} // namespace

BenchResult bench(const BenchOptions &options)
{
	const auto begin = std::chrono::steady_clock::now();
	const Kernel kernel = Kernel::find(options.kernel);
	const File initramfs = make_initramfs(options, kernel);
	// Files in memory take whatever is written at once. A pipe or socket might
	// be full now and then, and the guest would notice the difference.
	const File console = File::in_memory("console");
	const File output = File::in_memory("output");
	const File archive = File::in_memory("archive");
	const File errors = File::in_memory("errors");

	std::vector<std::string> command = words(fmt::format(
		"qemu-system-x86_64 -nodefaults -no-user-config -no-reboot -display none -machine q35 "
		"-accel tcg,thread=single -icount shift=0,sleep=off -smp 1 -cpu "
		"max,-rdrand,-rdseed,-erms,-fsrm "
		"-rtc base=2026-01-01,clock=vm -m {} -initrd /proc/self/fd/{}",
		options.memory_mb, initramfs.fd()));
	command.insert(command.end(),
		{"-kernel", kernel.image, "-append",
			std::string(kernel_parameters_common) + "nokaslr " + options.append});
	if (!options.plugin.empty())
		command.insert(command.end(), {"-plugin", options.plugin});
	for (const auto *file : {&console, &output, &archive})
		command.insert(command.end(), {"-serial", fmt::format("file:/proc/self/fd/{}", file->fd())});

	std::size_t shown = 0;
	const auto show = [&] {
		if (!options.on_output)
			return;
		const std::string so_far = output.read_all();
		if (so_far.size() > shown)
			options.on_output(std::string_view(so_far).substr(shown));
		shown = so_far.size();
	};

	Child emulator(command, {initramfs.fd(), console.fd(), output.fd(), archive.fd()}, errors.fd());
	const File process(static_cast<int>(syscall(SYS_pidfd_open, emulator.pid(), 0)));
	const auto deadline = begin + std::chrono::duration_cast<std::chrono::milliseconds>(options.limit);
	Order order(emulator.pid());
	for (pollfd ended{process.fd(), POLLIN, 0}; poll(&ended, 1, 100) == 0; show()) {
		order.keep();
		if (std::chrono::steady_clock::now() < deadline)
			continue;
		emulator.kill();
		throw TimedOut(fmt::format(
			"the benchmark has not ended within {:g} s of real time; output so far:\n{}\n"
			"its console:\n{}",
			options.limit.count(), output.read_all(), console.read_all()));
	}
	emulator.kill();
	show();

	BenchResult result;
	result.output = output.read_all();
	result.console = console.read_all();
	result.reports = kernel_reports(result.console);
	result.duration = std::chrono::steady_clock::now() - begin;

	// The guest ends with an archive of the script's status and of /out.
	const std::string from = fmt::format("/proc/{}/fd/{}", getpid(), archive.fd());
	try {
		result.status = std::stoi(output_of({"tar", "-xOf", from, "lab/status"}));
	} catch (const std::exception &) {
		throw Error(fmt::format("the benchmark's guest died\n{}\nits output:\n{}\nits console:\n{}",
			errors.read_all(), result.output, result.console));
	}
	if (!options.out_dir.empty()) {
		fs::create_directories(options.out_dir);
		output_of({"tar", "-xf", from, "-C", options.out_dir, "--no-same-owner",
			"--strip-components=1", "out"});
	}
	return result;
}

} // namespace lab
