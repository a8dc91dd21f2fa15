// SPDX-License-Identifier: GPL-2.0-only
//
// The lab's hand inside a guest. It is the guest's first process: started by
// node-init.sh once the node is set up, it takes commands from the virtio serial
// port, runs each as a job in the host's root file system, and sends back what
// the job writes and how it ends. If it dies the guest panics, which the lab
// sees; so an error here is never silent.
//
// usage: lab-agent ROOT

#include "protocol.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

namespace
{

namespace fs = std::filesystem;
using lab::protocol::Type;

struct Job {
	pid_t pid = -1;
	int fd = -1; // what it writes; the terminal's master side if it has one
	bool terminal = false;
	bool running = true;
	std::string input; // typed, but not yet taken by the terminal
};

int port = -1;
const char *root = "/";
std::map<std::uint32_t, Job> jobs;

[[noreturn]] void die(const std::string &what)
{
	std::fprintf(stderr, "lab-agent: %s: %s\n", what.c_str(), std::strerror(errno));
	std::exit(1);
}

int open_port()
{
	for (const auto &entry : fs::directory_iterator("/sys/class/virtio-ports")) {
		std::string name;
		std::getline(std::ifstream(entry.path() / "name"), name);
		if (name == lab::protocol::port_name)
			return open(("/dev" / entry.path().filename()).c_str(), O_RDWR | O_CLOEXEC);
	}
	errno = ENODEV;
	return -1;
}

void send(Type type, std::uint32_t job, std::string_view payload = {})
{
	const std::string bytes = lab::protocol::encode(type, job, payload);
	for (std::size_t sent = 0; sent < bytes.size();) {
		const ssize_t n = write(port, bytes.data() + sent, bytes.size() - sent);
		if (n < 0 && errno != EINTR)
			die("cannot write to the lab");
		sent += static_cast<std::size_t>(std::max<ssize_t>(n, 0));
	}
}

void set_size(int terminal, const std::string &text)
{
	winsize size{};
	if (std::sscanf(text.c_str(), "%hu %hu", &size.ws_row, &size.ws_col) == 2)
		ioctl(terminal, TIOCSWINSZ, &size);
}

[[noreturn]] void run_job(int fd, bool terminal, const std::string &directory, const std::string &command)
{
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, nullptr);
	setsid();
	if (terminal)
		ioctl(fd, TIOCSCTTY, 0);
	const int in = terminal ? fd : open("/dev/null", O_RDONLY);
	dup2(in, 0);
	dup2(fd, 1);
	dup2(fd, 2);
	if (chroot(root) != 0 || (chdir(directory.c_str()) != 0 && chdir("/") != 0))
		die("cannot enter the root file system");
	setenv("HOME", "/root", 1);
	setenv("USER", "root", 1);
	setenv("LANG", "C.UTF-8", 1);
	setenv("TERM", terminal ? "xterm-256color" : "dumb", 1);
	setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/run/busybox", 1);
	execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
	die("cannot run /bin/sh");
}

void start(std::uint32_t id, const std::string &request)
{
	const auto first = request.find('\n');
	const auto second = request.find('\n', first + 1);
	const std::string size = request.substr(0, first);
	const std::string directory = request.substr(first + 1, second - first - 1);
	const std::string command = request.substr(second + 1);
	const bool terminal = std::atoi(size.c_str()) > 0;

	int ours = -1, theirs = -1;
	if (terminal) {
		ours = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
		if (ours < 0 || grantpt(ours) != 0 || unlockpt(ours) != 0)
			die("cannot open a terminal");
		theirs = ioctl(ours, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
		set_size(ours, size);
	} else {
		int ends[2];
		if (pipe2(ends, O_CLOEXEC) != 0)
			die("cannot make a pipe");
		ours = ends[0];
		theirs = ends[1];
	}
	if (theirs < 0)
		die("cannot open the other end");
	fcntl(ours, F_SETFL, O_NONBLOCK);

	const pid_t pid = fork();
	if (pid == 0)
		run_job(theirs, terminal, directory, command);
	close(theirs);
	if (pid < 0) {
		const std::string reason = std::string("lab-agent: cannot fork: ") + std::strerror(errno);
		send(Type::output, id, reason);
		send(Type::exited, id, "126");
		close(ours);
		return;
	}
	jobs[id] = Job{pid, ours, terminal, true, {}};
}

// Forwards what a job has written; at most a few buffers at a time, so that a
// chatty job does not starve the others. Returns whether there may be more.
bool drain(std::uint32_t id, Job &job, int rounds)
{
	static char buffer[65536];
	for (; job.fd >= 0 && rounds > 0; rounds--) {
		const ssize_t n = read(job.fd, buffer, sizeof buffer);
		if (n > 0) {
			send(Type::output, id, {buffer, static_cast<std::size_t>(n)});
		} else if (n == 0 || errno == EIO) {
			close(job.fd);
			job.fd = -1;
		} else if (errno == EAGAIN) {
			return false;
		}
	}
	return job.fd >= 0;
}

void type(Job &job)
{
	while (job.fd >= 0 && !job.input.empty()) {
		const ssize_t n = write(job.fd, job.input.data(), job.input.size());
		if (n <= 0)
			return;
		job.input.erase(0, static_cast<std::size_t>(n));
	}
}

// A job ends when its first process does. What that wrote is forwarded first;
// a daemon that it leaves behind can go on writing, and is heard.
void reap()
{
	int status;
	for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
		const auto it = std::find_if(jobs.begin(), jobs.end(),
			[&](const auto &entry) { return entry.second.running && entry.second.pid == pid; });
		if (it == jobs.end())
			continue;
		auto &[id, job] = *it;
		drain(id, job, 4);
		job.running = false;
		send(Type::exited, id,
			std::to_string(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status)));
	}
}

void mark(const std::string &line)
{
	static const int kmsg = open("/dev/kmsg", O_WRONLY | O_CLOEXEC);
	if (write(kmsg, line.data(), line.size()) < 0)
		die("cannot write to /dev/kmsg");
}

// A file of /proc: nothing if it has gone, or is none.
std::string text_of(const fs::path &path)
{
	const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
	std::string text;
	char buffer[4096];
	for (ssize_t n; (n = read(fd, buffer, sizeof buffer)) > 0;)
		text.append(buffer, static_cast<std::size_t>(n));
	close(fd);
	return text;
}

// What is in a folder of /proc, where things come and go meanwhile.
std::vector<fs::path> entries(const fs::path &folder)
{
	std::vector<fs::path> paths;
	std::error_code gone;
	for (fs::directory_iterator it(folder, gone), end; !gone && it != end; it.increment(gone))
		paths.push_back(it->path());
	return paths;
}

// The threads of a job: name, state, and the kernel functions that they are in.
std::string inspect(const Job &job)
{
	std::string text;
	for (const auto &process : entries("/proc")) {
		// "pid (name) state parent group session ...", and a name can hold anything.
		const std::string stat = text_of(process / "stat");
		const auto name_end = stat.rfind(") ");
		int session = -1;
		if (name_end == stat.npos ||
			std::sscanf(stat.c_str() + name_end, ") %*c %*d %*d %d", &session) != 1 ||
			session != job.pid)
			continue;
		for (const auto &thread : entries(process / "task")) {
			const std::string about = text_of(thread / "stat");
			text += about.substr(0, about.rfind(") ") + 3) + "\n" + text_of(thread / "stack");
		}
	}
	return text;
}

void handle(const lab::protocol::Frame &frame)
{
	if (frame.type == Type::start)
		return start(frame.job, frame.payload);
	if (frame.type == Type::mark)
		return mark(frame.payload);
	const auto it = jobs.find(frame.job);
	if (it == jobs.end())
		return;
	Job &job = it->second;
	switch (frame.type) {
	case Type::input:
		job.input += frame.payload;
		type(job);
		break;
	case Type::resize: set_size(job.fd, frame.payload); break;
	case Type::kill:
		// The job leads a session of that number and, unless it is an
		// interactive shell, a single process group.
		kill(-job.pid, std::atoi(frame.payload.c_str()));
		break;
	case Type::inspect: send(Type::threads, frame.job, inspect(job)); break;
	default: break;
	}
}

void serve()
{
	sigset_t children;
	sigemptyset(&children);
	sigaddset(&children, SIGCHLD);
	sigprocmask(SIG_BLOCK, &children, nullptr);
	const int signals = signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK);

	lab::protocol::Decoder decoder;
	send(Type::hello, 0);
	for (;;) {
		std::vector<pollfd> fds{{port, POLLIN, 0}, {signals, POLLIN, 0}};
		std::vector<std::uint32_t> ids;
		for (const auto &[id, job] : jobs) {
			const short events = job.input.empty() ? POLLIN : POLLIN | POLLOUT;
			fds.push_back({job.fd, events, 0});
			ids.push_back(id);
		}
		if (poll(fds.data(), fds.size(), -1) < 0 && errno != EINTR)
			die("poll");
		for (std::size_t i = 0; i < ids.size(); i++) {
			Job &job = jobs.at(ids[i]);
			if (fds[i + 2].revents & POLLOUT)
				type(job);
			if (fds[i + 2].revents & ~POLLOUT)
				drain(ids[i], job, 4);
		}
		if (fds[1].revents) {
			signalfd_siginfo info;
			while (read(signals, &info, sizeof info) > 0)
				;
			reap();
		}
		if (fds[0].revents) {
			static char buffer[65536];
			const ssize_t n = read(port, buffer, sizeof buffer);
			if (n <= 0 && errno != EINTR)
				die("the lab has hung up");
			decoder.feed(buffer, static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
			while (const auto frame = decoder.next())
				handle(*frame);
		}
		std::erase_if(
			jobs, [](const auto &entry) { return !entry.second.running && entry.second.fd < 0; });
	}
}

} // namespace

int main(int argc, char **argv)
{
	if (argc > 1)
		root = argv[1];
	port = open_port();
	if (port < 0)
		die("no virtio serial port of the lab");
	// Busy-polling jobs must not keep the agent from hearing that they are
	// to be killed. Children start with the ordinary policy.
	const sched_param priority{1};
	sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK, &priority);
	serve();
}
