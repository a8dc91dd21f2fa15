// SPDX-License-Identifier: GPL-2.0-only
//
// See process.hpp.

#include "process.hpp"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <iterator>
#include <sstream>

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace lab
{

namespace
{

// As exec() wants it; points into the command.
std::vector<char *> argument_vector(const std::vector<std::string> &command)
{
	std::vector<char *> argv;
	argv.reserve(command.size() + 1);
	for (const auto &word : command)
		argv.push_back(const_cast<char *>(word.c_str()));
	argv.push_back(nullptr);
	return argv;
}

} // namespace

File::~File()
{
	if (fd_ >= 0)
		close(fd_);
}

std::string File::read_all() const
{
	struct stat about {
	};
	fstat(fd_, &about);
	std::string contents(static_cast<std::size_t>(about.st_size), '\0');
	const ssize_t n = pread(fd_, contents.data(), contents.size(), 0);
	contents.resize(static_cast<std::size_t>(n < 0 ? 0 : n));
	return contents;
}

void File::write_all(std::string_view bytes) const
{
	while (!bytes.empty()) {
		const ssize_t n = write(fd_, bytes.data(), bytes.size());
		if (n < 0 && errno != EINTR)
			throw Error(fmt::format("cannot write: {}", std::strerror(errno)));
		if (n > 0)
			bytes.remove_prefix(static_cast<std::size_t>(n));
	}
}

File File::in_memory(const char *name)
{
	File file(memfd_create(name, MFD_CLOEXEC));
	if (file.fd() < 0)
		throw Error(fmt::format("cannot create a file in memory: {}", std::strerror(errno)));
	return file;
}

std::pair<File, File> File::socket_pair(int type)
{
	int ends[2];
	if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends) != 0)
		throw Error(fmt::format("cannot make a pair of sockets: {}", std::strerror(errno)));
	return {File(ends[0]), File(ends[1])};
}

Child::Child(const std::vector<std::string> &command, const std::vector<int> &passed_on, int error_fd,
	bool at_once)
{
	std::vector<char *> argv = argument_vector(command);

	const pid_t parent = getpid();
	pid_ = fork();
	if (pid_ < 0)
		throw Error(fmt::format("cannot fork: {}", std::strerror(errno)));
	if (pid_ > 0)
		return;
	// Between fork and exec nothing may allocate: other threads may have
	// held the allocator's lock.
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(127);
	setsid(); // an interrupt from the terminal is for the lab to handle
	if (at_once) {
		const sched_param priority{1};

		// Threads begin as others do. Who may not do this does without.
		sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK, &priority);
	}
	for (const int fd : passed_on)
		fcntl(fd, F_SETFD, 0);
	dup2(open("/dev/null", O_RDWR | O_CLOEXEC), 0);
	dup2(error_fd, 1);
	dup2(error_fd, 2);
	execvp(argv[0], argv.data());
	dprintf(2, "cannot run %s: %s\n", argv[0], std::strerror(errno));
	_exit(127);
}

Child::~Child()
{
	kill();
}

bool Child::ended()
{
	if (pid_ < 0)
		return true;
	if (waitpid(pid_, &status_, WNOHANG) != pid_)
		return false;
	pid_ = -1;
	return true;
}

void Child::kill()
{
	if (ended())
		return;
	::kill(pid_, SIGKILL);
	while (waitpid(pid_, &status_, 0) < 0 && errno == EINTR)
		;
	pid_ = -1;
}

std::vector<std::string> words(const std::string &text)
{
	std::istringstream stream(text);
	return {std::istream_iterator<std::string>(stream), {}};
}

std::string output_of(const std::vector<std::string> &command)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) != 0)
		throw Error(fmt::format("cannot make a pipe: {}", std::strerror(errno)));
	File ours(ends[0]), theirs(ends[1]);
	std::vector<char *> argv = argument_vector(command);
	const pid_t pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(theirs.fd(), 1);
		execvp(argv[0], argv.data());
		_exit(127);
	}
	if (pid < 0)
		throw Error(fmt::format("cannot fork: {}", std::strerror(errno)));
	theirs = File();
	std::string output;
	char buffer[4096];
	for (ssize_t n; (n = read(ours.fd(), buffer, sizeof buffer)) != 0;) {
		if (n > 0)
			output.append(buffer, static_cast<std::size_t>(n));
		else if (errno != EINTR)
			break;
	}
	int status = 0;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		throw Error(fmt::format("`{}` failed", fmt::join(command, " ")));
	return output;
}

} // namespace lab
