// SPDX-License-Identifier: GPL-2.0-only
//
// File descriptors and child processes that clean up after themselves.

#pragma once

#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sys/types.h>

namespace lab
{

class Error : public std::runtime_error
{
public:
	using std::runtime_error::runtime_error;
};

// A wait has reached its limit; the message says what was waited for.
class TimedOut : public Error
{
public:
	using Error::Error;
};

// An open file descriptor, closed on destruction.
class File
{
public:
	File() = default;
	explicit File(int fd) : fd_(fd)
	{
	}
	File(File &&other) noexcept : fd_(std::exchange(other.fd_, -1))
	{
	}
	File &operator=(File &&other) noexcept
	{
		std::swap(fd_, other.fd_);
		return *this;
	}
	~File();

	[[nodiscard]] int fd() const
	{
		return fd_;
	}
	[[nodiscard]] std::string read_all() const; // from the start, for files in memory
	void write_all(std::string_view bytes) const;

	static File in_memory(const char *name);
	static std::pair<File, File> socket_pair(int type);

private:
	int fd_ = -1;
};

// A child that is killed and reaped on destruction, and dies with its parent
// thread whatever happens to that. Only the given descriptors are passed on,
// under their own numbers. Its first thread, but not those that it starts, can
// get a processor at once whenever it has something to do.
class Child
{
public:
	Child() = default;
	Child(const std::vector<std::string> &command, const std::vector<int> &passed_on, int error_fd,
		bool at_once = false);
	Child(Child &&other) noexcept : pid_(std::exchange(other.pid_, -1)), status_(other.status_)
	{
	}
	Child &operator=(Child &&other) noexcept
	{
		std::swap(pid_, other.pid_);
		std::swap(status_, other.status_);
		return *this;
	}
	~Child();

	[[nodiscard]] pid_t pid() const
	{
		return pid_;
	}
	bool ended(); // reaps it if so
	void kill();  // and reaps it

private:
	pid_t pid_ = -1;
	int status_ = 0;
};

// Splits a text at blanks.
std::vector<std::string> words(const std::string &text);

// Runs a command to its end and returns what it wrote to standard output;
// throws if it fails.
std::string output_of(const std::vector<std::string> &command);

} // namespace lab
