// SPDX-License-Identifier: GPL-2.0-only
//
// The conversation between the lab on the host and its agent in a guest: frames
// over a virtio serial port. Both are built from this file and run on one
// machine, so numbers travel in its own byte order. A frame belongs to a job,
// numbered by the lab; job 0 is the guest itself.

#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

namespace lab::protocol
{

inline constexpr const char *port_name = "ibrelk.lab.agent";

enum class Type : std::uint32_t {
	hello,   // agent: the node is ready
	start,   // lab: "rows columns\ndirectory\ncommand"; rows 0 means no terminal
	input,   // lab: bytes typed at the terminal of the job
	resize,  // lab: "rows columns"
	output,  // agent: what the job wrote
	kill,    // lab: signal number in decimal, for all processes of the job
	exited,  // agent: exit status, or 128 + signal, in decimal
	mark,    // lab: a line for the guest's kernel log
	inspect, // lab: asks where the job is stuck
	threads, // agent: the job's threads and where in the kernel they are
};

struct Header {
	std::uint32_t length;
	std::uint32_t job;
	Type type;
};

struct Frame {
	std::uint32_t job;
	Type type;
	std::string payload;
};

inline std::string encode(Type type, std::uint32_t job, std::string_view payload = {})
{
	const Header header{static_cast<std::uint32_t>(payload.size()), job, type};
	std::string bytes(sizeof header + payload.size(), '\0');
	std::memcpy(bytes.data(), &header, sizeof header);
	std::memcpy(bytes.data() + sizeof header, payload.data(), payload.size());
	return bytes;
}

// Turns a stream of bytes back into frames.
class Decoder
{
public:
	void feed(const char *bytes, std::size_t length)
	{
		buffer_.append(bytes, length);
	}

	std::optional<Frame> next()
	{
		Header header;
		if (buffer_.size() - position_ < sizeof header)
			return compact();
		std::memcpy(&header, buffer_.data() + position_, sizeof header);
		if (buffer_.size() - position_ - sizeof header < header.length)
			return compact();
		Frame frame{
			header.job, header.type, buffer_.substr(position_ + sizeof header, header.length)};
		position_ += sizeof header + header.length;
		return frame;
	}

private:
	std::nullopt_t compact()
	{
		buffer_.erase(0, position_);
		position_ = 0;
		return std::nullopt;
	}

	std::string buffer_;
	std::size_t position_ = 0;
};

} // namespace lab::protocol
