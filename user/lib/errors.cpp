// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// What errors mean. An errno has thirty letters for all the things that can go wrong; which of them it was
// depends on the call, and what to do about it is what the user wants to know.
#include <cerrno>
#include <cstring>

#include <ibrelk/ibrelk.h>

namespace
{

struct Text {
	ibrelk_call call;
	int error;
	const char *text;
};

constexpr const char *not_loaded = "there is no /dev/ibrelk: is ibrelk.ko loaded? sudo modprobe ibrelk";
constexpr const char *not_allowed = "no permission for /dev/ibrelk: become a member of group rdma "
				    "(sudo adduser $USER rdma, then log in again)";
constexpr const char *too_many_files = "too many open files: raise the limit (ulimit -n)";
constexpr const char *no_memory = "out of memory, or over the memory limit of the control group";

constexpr Text texts[] = {
	{IBRELK_CALL_OPEN, ENOENT, not_loaded},
	{IBRELK_CALL_OPEN, ENXIO, not_loaded},
	{IBRELK_CALL_OPEN, ENODEV, not_loaded},
	{IBRELK_CALL_OPEN, EACCES, not_allowed},
	{IBRELK_CALL_OPEN, EPERM,
		"/dev/ibrelk can be opened only in the initial network namespace: open it there, and pass it "
		"on"},
	{IBRELK_CALL_OPEN, EPROTO,
		"libibrelk and ibrelk.ko are of different versions: install matching ones"},
	{IBRELK_CALL_OPEN, ENOTTY, "the file that was opened is not the device of ibrelk.ko"},
	{IBRELK_CALL_OPEN, EMFILE, too_many_files},

	{IBRELK_CALL_RING_CREATE, EINVAL,
		"a ring cannot have that many entries (ibrelk query shows the limit)"},
	{IBRELK_CALL_RING_CREATE, EMFILE, too_many_files},
	{IBRELK_CALL_RING_CREATE, ENOMEM, no_memory},
	{IBRELK_CALL_RING_CREATE, EPROTO,
		"the module gave a ring that makes no sense: install matching versions"},

	{IBRELK_CALL_ENDPOINT_CREATE, EINVAL,
		"no such mode or door (see also the environment variable IBRELK_DOOR), or a limit is too "
		"high "
		"(ibrelk query shows the limits)"},
	{IBRELK_CALL_ENDPOINT_CREATE, EPERM,
		"native modes may lose messages and are not allowed on this node: load the module with "
		"allow_native=1"},
	{IBRELK_CALL_ENDPOINT_CREATE, EBADF,
		"a ring of the endpoint was made by another user, or has been closed: make it in this "
		"process"},
	{IBRELK_CALL_ENDPOINT_CREATE, EADDRINUSE,
		"the endpoint number is taken by another endpoint of this node"},
	{IBRELK_CALL_ENDPOINT_CREATE, EADDRNOTAVAIL,
		"no usable port of this node has that address (ibrelk show ports)"},
	{IBRELK_CALL_ENDPOINT_CREATE, ENODEV,
		"no usable RDMA port for that mode (ibrelk show ports says why; soft-RoCE: rdma link add "
		"...)"},
	{IBRELK_CALL_ENDPOINT_CREATE, ENOTSUP,
		"io_uring was asked for and does not work here (forbidden, or too old): use the ioctl door"},
	{IBRELK_CALL_ENDPOINT_CREATE, EMFILE, too_many_files},
	{IBRELK_CALL_ENDPOINT_CREATE, ENOMEM, no_memory},

	{IBRELK_CALL_PEER, EINVAL, "the peer's address lacks a host or an endpoint number"},
	{IBRELK_CALL_PEER, ENOENT, "no such peer handle"},
	{IBRELK_CALL_PEER, ENOSPC, "too many peers"},

	{IBRELK_CALL_SUBMIT, EINVAL,
		"a command is wrong (opcode, level, flags, length, or members that it does not use; ibrelk "
		"query "
		"shows the longest message)"},
	{IBRELK_CALL_SUBMIT, ENOENT, "no such peer handle, or no such claim (any more)"},
	{IBRELK_CALL_SUBMIT, EFAULT, "a command's buffer is not in the process's memory"},
	{IBRELK_CALL_SUBMIT, EOPNOTSUPP, "this version of the module does not know that command"},
	{IBRELK_CALL_SUBMIT, EAGAIN, "nothing fits now: take completions first"},
	{IBRELK_CALL_SUBMIT, ETIMEDOUT, "no room for a command came up in time"},
	{IBRELK_CALL_SUBMIT, ENOMEM,
		"out of memory, or the buffer cannot be pinned and bounce memory is used up: raise the limit "
		"of locked memory (ulimit -l), or the module parameter bounce_max_mib; or too many peers of "
		"that node have been sent to and have not answered yet"},
	{IBRELK_CALL_SUBMIT, ENODEV,
		"no usable RDMA port, or none that has the endpoint's mode (ibrelk show ports says why)"},
	{IBRELK_CALL_SUBMIT, EADDRNOTAVAIL,
		"the endpoint's own address is gone: give it back to the interface (ibrelk show ports), or "
		"make another endpoint"},
	{IBRELK_CALL_SUBMIT, ENETUNREACH,
		"no RDMA port of this node has a way to that address: look at ip route get, and at ibrelk "
		"show "
		"ports"},
	{IBRELK_CALL_SUBMIT, EHOSTUNREACH,
		"RC and UC do not connect an address with itself: load the module with loopback=1, or use "
		"UD"},
	{IBRELK_CALL_SUBMIT, EIO, "the endpoint's io_uring broke"},

	{IBRELK_CALL_COMPLETION, ECANCELED, "cancelled"},
	{IBRELK_CALL_COMPLETION, EMSGSIZE,
		"the message is longer than the receive buffer; its start was delivered"},
	{IBRELK_CALL_COMPLETION, ENOENT, "no posted receive to cancel"},
	{IBRELK_CALL_COMPLETION, ENOMSG, "no message waits that a receive like that would take"},
	{IBRELK_CALL_COMPLETION, ECONNREFUSED,
		"the peer refused: no such endpoint number at that address, or ibrelk.ko is not loaded"},
	{IBRELK_CALL_COMPLETION, EACCES,
		"the peer's endpoint has another job key, or is another user's; a put or get: no region of "
		"that process has such a key (any more), or not for that: ask the peer for the key anew"},
	{IBRELK_CALL_COMPLETION, ESTALE,
		"the peer's endpoint number has another generation: the program there was started anew"},
	{IBRELK_CALL_COMPLETION, EIO, "the message was lost on its way, which native modes allow for"},
	{IBRELK_CALL_COMPLETION, EFAULT,
		"the buffer, or the receiver's, was unmapped before the message was done with; a put or get: "
		"not all of it is in the peer's region: check its address and length"},
	{IBRELK_CALL_COMPLETION, ENOMEM, "out of memory, here or at the peer"},
	{IBRELK_CALL_COMPLETION, EBUSY,
		"the peer is out of memory, has too many peers, or its ibrelk.ko is being unloaded"},
	{IBRELK_CALL_COMPLETION, ECONNABORTED, "the connection was broken off while it was made"},
	{IBRELK_CALL_COMPLETION, EREMOTEIO,
		"the peer failed, for a reason that this version of the module does not know"},
	{IBRELK_CALL_COMPLETION, EUSERS,
		"the peer's endpoint, or its node, talks to as many endpoints as it may already"},
	{IBRELK_CALL_COMPLETION, EHOSTUNREACH,
		"the peer does not answer: check its address, the way there, and ibrelk show paths here"},
	{IBRELK_CALL_COMPLETION, ENETUNREACH, "no port of this node has a way to that address"},
	{IBRELK_CALL_COMPLETION, ETIMEDOUT, "the peer stopped answering"},
	{IBRELK_CALL_COMPLETION, ECONNRESET, "the peer restarted, or its endpoint is gone"},
	{IBRELK_CALL_COMPLETION, EPROTO, "the peer's handshake makes no sense"},
	{IBRELK_CALL_COMPLETION, EPROTONOSUPPORT, "the peer speaks another protocol version"},
	{IBRELK_CALL_COMPLETION, ENODEV, "the RDMA device is gone"},
	{IBRELK_CALL_COMPLETION, EOPNOTSUPP, "the peer cannot do that mode, or does not allow it"},

	{IBRELK_CALL_REGION, EINVAL,
		"a region has at least a byte, and at most 64 GiB; what peers put into has to be "
		"written (its flags)"},
	{IBRELK_CALL_REGION, EFAULT, "the region is not in the process's memory, or may not be written"},
	{IBRELK_CALL_REGION, ENOMEM,
		"out of memory, or more than the process may have pinned: raise the limit of locked memory "
		"(ulimit -l)"},
	{IBRELK_CALL_REGION, EOPNOTSUPP,
		"memory of a file cannot be a region that is received into: messages may go there without "
		"one"},
	{IBRELK_CALL_REGION, EAGAIN, "another thread was changing the memory: try again"},
	{IBRELK_CALL_REGION, ENOSPC, "too many regions of this node have a key: close some"},
	{IBRELK_CALL_REGION, EMFILE, too_many_files},

	{IBRELK_CALL_ADDRESS, EINVAL,
		"not an address: write 10.1.0.2:77 or [fd00::1]:77, with #5 for a generation"},
};

} // namespace

extern "C" const char *ibrelk_error_text(enum ibrelk_call call, int error) noexcept
{
	if (error < 0)
		error = -error;
	if (error == 0)
		return "success";
	for (const Text &entry : texts) {
		if (entry.call == call && entry.error == error)
			return entry.text;
	}

	const char *text = ::strerrordesc_np(error);

	return text ? text : "unknown error";
}

extern "C" const char *ibrelk_version(void) noexcept
{
	return IBRELK_LIBRARY_VERSION;
}
