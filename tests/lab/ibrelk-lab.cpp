// SPDX-License-Identifier: GPL-2.0-only
//
// The lab from the command line: one-off commands on a fresh cluster, an
// interactive one, and deterministic benchmarks.

#include "bench.hpp"
#include "lab.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <mutex>
#include <thread>

#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

namespace
{

// Beside the status of the command itself.
constexpr int status_lab_failed = 98;
constexpr int status_kernel_report = 99;

// One word is a shell command; several are a program and its arguments.
std::string shell_command(const std::vector<std::string> &words)
{
	if (words.size() == 1)
		return words[0];
	std::string command;
	for (const auto &word : words) {
		command += command.empty() ? "'" : " '";
		for (const char c : word)
			command += c == '\'' ? std::string("'\\''") : std::string(1, c);
		command += '\'';
	}
	return command;
}

void show(std::string_view text)
{
	std::fwrite(text.data(), 1, text.size(), stdout);
	std::fflush(stdout);
}

// What is the same for every form of a two-node lab.
struct Common {
	lab::Options options;
	std::vector<std::string> setup;
	std::string fault;

	void add_to(CLI::App &command)
	{
		command.add_option("--nodes", options.nodes, "number of nodes")
			->check(CLI::Range(1, 32))
			->capture_default_str();
		command.add_option("--kernel", options.kernel, "Debian kernel series, 6.1 or 6.12")
			->capture_default_str();
		command.add_option("--cpus", options.cpus, "processors of a node")->capture_default_str();
		command.add_option("--memory", options.memory_mb, "memory of a node in MiB")
			->capture_default_str();
		command.add_option("--numa", options.numa_nodes, "NUMA nodes of a node")
			->check(CLI::Range(1, 8))
			->capture_default_str();
		command.add_option("--mtu", options.mtu, "MTU of eth0")->capture_default_str();
		command.add_option("--share", options.shares, "one more host folder to see, also in /tmp");
		command.add_option("--append", options.append, "more for the kernel's command line");
		command.add_option("--logs", options.log_dir, "folder for copies of the consoles");
		command.add_option("--setup", setup, "command to run on every node first")
			->expected(1)
			->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
		command.add_option("--fault", fault, "netem faults on every node, such as \"loss 5%\"");
	}

	void prepare(lab::Lab &lab) const
	{
		for (const auto &command : setup)
			for (int node = 1; node <= lab.nodes(); node++)
				lab.run_ok(node, command);
		for (int node = 1; node <= lab.nodes() && !fault.empty(); node++)
			lab.set_fault(node, fault);
	}
};

int finish(lab::Lab &lab, int status)
{
	const std::string report = lab.check();
	if (report.empty())
		return status;
	std::cerr << "ibrelk-lab: a kernel complains\n" << report;
	return status_kernel_report;
}

struct Run {
	Common common;
	std::vector<std::pair<int, std::string>> others;
	std::vector<std::string> command;
	double limit = 600;

	int operator()()
	{
		lab::Lab lab(common.options);
		common.prepare(lab);
		std::vector<std::pair<int, lab::Job>> jobs;
		jobs.reserve(others.size() + 1);
		for (const auto &[node, text] : others)
			jobs.emplace_back(node, lab.start(node, text));
		// The main command's end is the end of all.
		const bool has_main = !command.empty();
		if (has_main)
			jobs.emplace_back(1, lab.start(1, shell_command(command)));

		const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(limit);
		const auto left = [&] {
			return lab::Duration(deadline - std::chrono::steady_clock::now());
		};
		std::mutex mutex; // keeps lines whole
		std::vector<std::thread> printers;
		printers.reserve(jobs.size());
		const auto print = [&](int node, lab::Job &job) {
			const std::string prefix = jobs.size() > 1 ? fmt::format("node{}| ", node) : "";
			std::string line;
			for (bool running = true; running;) {
				running = job.running();
				line += job.take_output(lab::Duration(0.5));
				const auto end =
					running && !prefix.empty() ? line.rfind('\n') + 1 : line.size();
				std::string text = line.substr(0, end);
				line.erase(0, end);
				if (!prefix.empty() && !text.empty()) {
					if (text.back() == '\n')
						text.pop_back();
					std::string marked = prefix;
					for (const char c : text)
						marked += c == '\n' ? "\n" + prefix : std::string(1, c);
					text = marked + "\n";
				}
				const std::lock_guard lock(mutex);
				show(text);
			}
		};
		for (auto &[node, job] : jobs)
			printers.emplace_back(print, node, std::ref(job));
		const auto stop = [&] {
			for (auto &[node, job] : jobs)
				job.kill(SIGKILL);
			for (auto &printer : printers)
				printer.join();
		};

		int status = 0;
		try {
			if (has_main)
				status = jobs.back().second.wait(left()).status;
			else
				for (auto &[node, job] : jobs)
					if (const int one = job.wait(left()).status; status == 0)
						status = one;
		} catch (const lab::Error &error) {
			stop();
			std::cerr << "ibrelk-lab: " << error.what() << '\n';
			return finish(lab, status_lab_failed);
		}
		stop();
		return finish(lab, status);
	}
};

volatile std::sig_atomic_t resized = 0;

// A shell on every node, one of them on the terminal, as in screen(1). The
// shells' own `node` command asks for another by a control sequence.
class Console
{
public:
	explicit Console(lab::Lab &lab)
	{
		tcgetattr(STDIN_FILENO, &saved_);
		termios raw = saved_;
		cfmakeraw(&raw);
		tcsetattr(STDIN_FILENO, TCSANOW, &raw);
		struct sigaction action {
		};
		action.sa_handler = [](int) {
			resized = 1;
		};
		sigaction(SIGWINCH, &action, nullptr);
		for (int node = 1; node <= lab.nodes(); node++)
			shells_.push_back(lab.start(node, shell(node), size()));
		for (int node = 1; node <= lab.nodes(); node++)
			printers_.emplace_back([this, node] { print(node); });
	}

	~Console()
	{
		for (auto &shell : shells_)
			shell.kill(SIGKILL);
		for (auto &printer : printers_)
			printer.join();
		tcsetattr(STDIN_FILENO, TCSANOW, &saved_);
	}

	Console(const Console &) = delete;
	Console &operator=(const Console &) = delete;

	void run()
	{
		bool escaped = false;
		while (!over_) {
			pollfd in{STDIN_FILENO, POLLIN, 0};
			poll(&in, 1, 200);
			if (resized) {
				resized = 0;
				for (auto &shell : shells_)
					shell.resize(size());
			}
			if (!in.revents)
				continue;
			char bytes[4096];
			const ssize_t n = read(STDIN_FILENO, bytes, sizeof bytes);
			if (n <= 0 && errno != EINTR)
				return;
			std::string typed;
			for (ssize_t i = 0; i < n; i++) {
				const char c = bytes[i];
				if (escaped && c >= '1' && c <= '9')
					switch_to(c - '0');
				else if (escaped && c == 'q')
					return;
				else if (c != key_escape || escaped)
					typed += c;
				escaped = c == key_escape && !escaped;
			}
			if (!typed.empty())
				current().type(typed);
		}
	}

private:
	static constexpr char key_escape = 0x1d; // Ctrl-]

	static std::string shell(int node)
	{
		return fmt::format("cat >/run/lab-shell <<'END'\n"
				   "PS1='node{}$ '\n"
				   "node() {{ printf '\\033]lab;%s\\007' \"$1\"; }}\n"
				   "END\n"
				   "exec bash --rcfile /run/lab-shell -i",
			node);
	}

	static lab::Terminal size()
	{
		winsize window{};
		if (ioctl(STDIN_FILENO, TIOCGWINSZ, &window) != 0 || window.ws_row == 0)
			return {24, 80};
		return {window.ws_row, window.ws_col};
	}

	lab::Job &current()
	{
		return shells_[static_cast<std::size_t>(current_ - 1)];
	}

	void switch_to(int node)
	{
		if (node < 1 || node > static_cast<int>(shells_.size()) || node == current_)
			return;
		current_ = node;
		show(fmt::format("\r\n[node {}]\r\n", node));
		current().type("\n");
	}

	// Shows what a shell says while it is the current one; what it says while
	// it is not waits for that.
	void print(int node)
	{
		lab::Job &shell = shells_[static_cast<std::size_t>(node - 1)];
		while (shell.running() && !over_) {
			if (node != current_) {
				std::this_thread::sleep_for(std::chrono::milliseconds(50));
				continue;
			}
			std::string text = shell.take_output(lab::Duration(0.2));
			int target = 0;
			static constexpr std::string_view request = "\033]lab;";
			if (const auto at = text.find(request); at != text.npos) {
				const auto end = text.find('\007', at);
				if (end != text.npos) {
					target = std::atoi(text.c_str() + at + request.size());
					text.erase(at, end - at + 1);
				}
			}
			show(text);
			switch_to(target);
		}
		over_ = true; // the first `exit` ends the session
	}

	termios saved_{};
	std::vector<lab::Job> shells_;
	std::vector<std::thread> printers_;
	std::atomic<int> current_ = 1;
	std::atomic<bool> over_ = false;
};

struct Shell {
	Common common;

	int operator()()
	{
		lab::Lab lab(common.options);
		common.prepare(lab);
		int status = 0;
		if (isatty(STDIN_FILENO)) {
			show(fmt::format("Nodes 1 to {} are up. `node K` or Ctrl-] K goes to node K, `exit` "
					 "or Ctrl-] q ends "
					 "the lab.\n",
				lab.nodes()));
			Console(lab).run();
		} else {
			status = obey(lab);
		}
		return finish(lab, status);
	}

	// Without a terminal: a command per line, `K: command` for node K.
	static int obey(lab::Lab &lab)
	{
		int current = 1, status = 0;
		for (std::string line; std::getline(std::cin, line);) {
			int node = current, length = 0;
			if (std::sscanf(line.c_str(), "node %d", &node) == 1) {
				current = node;
				continue;
			}
			if (std::sscanf(line.c_str(), "%d:%n", &node, &length) != 1 || length == 0) {
				node = current;
				length = 0;
			}
			const auto result = lab.run(
				node, line.substr(static_cast<std::size_t>(length)), lab::Duration(600));
			show(result.output);
			status = result.status;
		}
		return status;
	}
};

struct Bench {
	lab::BenchOptions options;
	std::vector<std::string> script;
	std::string text;
	double limit = options.limit.count();
	bool console = false;

	int operator()()
	{
		options.limit = lab::Duration(limit);
		options.on_output = show;
		if (!text.empty()) {
			options.script = "#!/bin/sh\n" + text + "\n";
			options.arguments = script;
		} else {
			std::ifstream file(script.at(0), std::ios::binary);
			if (!file)
				throw lab::Error(fmt::format("cannot read {}", script[0]));
			options.script.assign(std::istreambuf_iterator<char>(file), {});
			options.arguments.assign(script.begin() + 1, script.end());
		}
		const auto result = lab::bench(options);
		if (console)
			std::cerr << result.console;
		if (result.reports.empty())
			return result.status;
		std::cerr << "ibrelk-lab: the kernel complains\n" << result.reports;
		return status_kernel_report;
	}
};

} // namespace

int main(int argc, char **argv)
{
	CLI::App app{"Boots emulated nodes with soft-RoCE, joined by a virtual wire, and uses them."};
	app.require_subcommand(1);
	app.footer(fmt::format(
		"Ends with the command's status; {} if the lab failed, {} if a kernel complained.",
		status_lab_failed, status_kernel_report));

	Run run;
	auto *run_command =
		app.add_subcommand("run", "run [OPTIONS] -- COMMAND: run it on node 1 of a fresh lab");
	run.common.add_to(*run_command);
	std::vector<std::string> on;
	run_command
		->add_option("--on", on, "K CMD: run CMD on node K, beside the main command if there is one")
		->type_size(2)
		->expected(1)
		->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
	run_command->add_option("--timeout", run.limit, "limit for the commands, in seconds")
		->capture_default_str();

	Shell shell;
	auto *shell_command = app.add_subcommand("shell", "a shell on every node of a fresh lab");
	shell.common.add_to(*shell_command);

	Bench bench;
	auto *bench_command = app.add_subcommand("bench",
		"bench [OPTIONS] -- SCRIPT ARGUMENTS: run it on one node in instruction-counted time");
	bench_command->add_option("--kernel", bench.options.kernel, "Debian kernel series, 6.1 or 6.12")
		->capture_default_str();
	bench_command->add_option("--files", bench.options.files, "programs, modules and data for /files");
	bench_command
		->add_option("--folder", bench.options.folders,
			"folders whose files the guest has in the same places")
		->check(CLI::ExistingDirectory);
	bench_command->add_option("--modules", bench.options.modules, "more of the kernel's modules to load");
	bench_command->add_option(
		"--out", bench.options.out_dir, "folder for what the script leaves in /out");
	bench_command->add_option("--memory", bench.options.memory_mb, "memory in MiB")
		->capture_default_str();
	bench_command->add_option("--mtu", bench.options.mtu, "MTU of v0 and v1")->capture_default_str();
	bench_command->add_option("--append", bench.options.append, "more for the kernel's command line");
	bench_command->add_option(
		"--plugin", bench.options.plugin, "plugin of the emulator, as for QEMU's -plugin");
	bench_command->add_option("--timeout", bench.limit, "limit in seconds of real time")
		->capture_default_str();
	bench_command->add_flag("--console", bench.console, "show the kernel's console afterwards");
	auto *text = bench_command->add_option("-c", bench.text, "script text, instead of a script file");

	// What follows "--" is not for us to understand.
	const auto words = std::find(argv + 1, argv + argc, std::string_view("--"));
	if (words != argv + argc)
		run.command = bench.script = {words + 1, argv + argc};
	CLI11_PARSE(app, static_cast<int>(words - argv), argv);
	try {
		if (bench_command->parsed()) {
			if (text->count() == 0 && bench.script.empty())
				throw lab::Error("bench needs a script");
			return bench();
		}
		if (shell_command->parsed())
			return shell();
		for (std::size_t i = 0; i + 1 < on.size(); i += 2)
			run.others.emplace_back(std::stoi(on[i]), on[i + 1]);
		if (run.others.empty() && run.command.empty())
			throw lab::Error("run needs a command");
		return run();
	} catch (const std::exception &error) {
		std::cerr << "ibrelk-lab: " << error.what() << '\n';
		return status_lab_failed;
	}
}
