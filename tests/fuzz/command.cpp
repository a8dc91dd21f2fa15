// What parses commands from user space: batches that the fuzzer makes up, in memory that may end too early,
// for an endpoint that has room or not. What reaches the endpoint, and what the call returns, has to be what
// Documentation/uapi.rst says, which is written out here once more.

#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "input.hpp"
#include <ibrelk/uapi.h>

extern "C" {

struct ibr_endpoint;
struct ibr_path;
struct ibr_ring;

int ibr_command_batch(ibr_endpoint *endpoint, const ibrelk_command *commands, u32 count);
u32 fuzz_batch_max();
u64 fuzz_message_max();
u64 fuzz_multi_max();

/* What command.c calls. */
bool fuzz_dies();
unsigned long fuzz_copy(void *to, const void *from, unsigned long bytes);
int ibr_endpoint_send(ibr_endpoint *endpoint, const ibrelk_command *command, ibr_path **undriven);
int ibr_endpoint_recv(ibr_endpoint *endpoint, const ibrelk_command *command);
int ibr_endpoint_recv_multi(ibr_endpoint *endpoint, const ibrelk_command *command);
int ibr_endpoint_recv_claimed(ibr_endpoint *endpoint, const ibrelk_command *command);
int ibr_endpoint_cancel(ibr_endpoint *endpoint, const ibrelk_command *command);
int ibr_endpoint_probe(ibr_endpoint *endpoint, const ibrelk_command *command);
int ibr_endpoint_discard(ibr_endpoint *endpoint, const ibrelk_command *command);
void ibr_endpoint_flush(ibr_path *undriven);
void ibr_pins_flush();
bool ibr_ring_has_room(ibr_ring *ring);
int ibr_ring_write(ibr_ring *ring, const ibrelk_completion *completion);
ibr_endpoint *fuzz_endpoint();
}

namespace
{

constexpr u32 id = 77;

struct World {
	const ibrelk_command *commands;
	u32 there; // commands that can be read in full
	size_t bytes_there;
	u32 copied = 0;   // commands copied in full
	u32 seen = 0;     // commands that are past
	u32 accepted = 0; // of them
	int answer = 0;   // of the first that was not accepted: 1 no room, or an error
	std::vector<u8> answers;
	int dies_after = -1; // so many looks
	bool died = false;
	bool sent = false;
	int flushes = 0;
};

World *world;

int valid(const ibrelk_command &command)
{
	if (command.opcode > 10)
		return -EINVAL;
	if (command.flags >= 64)
		return -EINVAL;
	if (command.flags & IBRELK_CMD_REGION)
		return -EOPNOTSUPP;

	// What the opcode uses: the rest is zero.
	ibrelk_command used{};
	bool claimed = command.opcode == IBRELK_OP_RECV && command.flags & IBRELK_CMD_CLAIMED;
	// In the untagged space there are no tags, but for what tells of puts.
	bool untagged = command.flags & IBRELK_CMD_UNTAGGED &&
		!(command.tag == 1ull << 63 && command.ignore == (1ull << 63) - 1);
	u64 length_max = command.flags & IBRELK_CMD_IOVEC ? 1024 : fuzz_message_max();

	used.opcode = command.opcode;
	used.user_data = command.user_data;
	switch (command.opcode) {
	case IBRELK_OP_SEND:
		if (command.level > 3 || command.peer == IBRELK_PEER_ANY || command.length > length_max)
			return -EINVAL;
		used.level = command.level;
		used.flags =
			IBRELK_CMD_NO_SUCCESS | IBRELK_CMD_IOVEC | IBRELK_CMD_UNTAGGED | IBRELK_CMD_IMMEDIATE;
		used.peer = command.peer;
		used.addr = command.addr;
		used.length = command.length;
		used.tag = untagged ? 0 : command.tag;
		used.immediate = command.flags & IBRELK_CMD_IMMEDIATE ? command.immediate : 0;
		break;
	case IBRELK_OP_PUT:
	case IBRELK_OP_GET:
		if (command.peer == IBRELK_PEER_ANY || command.length > length_max)
			return -EINVAL;
		used.flags = IBRELK_CMD_NO_SUCCESS | IBRELK_CMD_IOVEC;
		if (command.opcode == IBRELK_OP_PUT && command.flags & IBRELK_CMD_IMMEDIATE) {
			used.flags |= IBRELK_CMD_IMMEDIATE;
			used.immediate = command.immediate;
		}
		used.peer = command.peer;
		used.addr = command.addr;
		used.length = command.length;
		used.remote_addr = command.remote_addr;
		used.remote_key = command.remote_key;
		break;
	case IBRELK_OP_ATOMIC: {
		u32 op = command.messages & 0xffff, type = command.messages >> 16;
		u64 size = type < 3 ? 4 : 8;

		if (op < 1 || op > 19 || type < 1 || type > 4 || command.peer == IBRELK_PEER_ANY)
			return -EINVAL;
		if (!command.length || command.length > 64 || command.length % size ||
			command.remote_addr % size)
			return -EINVAL;
		if (op == IBRELK_ATOMIC_READ && !command.tag)
			return -EINVAL;
		used.flags = IBRELK_CMD_NO_SUCCESS;
		used.peer = command.peer;
		used.addr = op == IBRELK_ATOMIC_READ ? 0 : command.addr;
		used.length = command.length;
		used.tag = command.tag;
		used.ignore = op > 12 ? command.ignore : 0;
		used.messages = command.messages;
		used.remote_addr = command.remote_addr;
		used.remote_key = command.remote_key;
		break;
	}
	case IBRELK_OP_RECV:
		if (command.length > length_max)
			return -EINVAL;
		used.flags = IBRELK_CMD_NO_SUCCESS | IBRELK_CMD_IOVEC | IBRELK_CMD_CLAIMED;
		used.addr = command.addr;
		used.length = command.length;
		used.tag = claimed || !untagged ? command.tag : 0;
		if (claimed)
			break;
		used.flags = IBRELK_CMD_NO_SUCCESS | IBRELK_CMD_IOVEC | IBRELK_CMD_UNTAGGED;
		used.peer = command.peer;
		used.ignore = untagged ? 0 : command.ignore;
		break;
	case IBRELK_OP_RECV_MULTI:
		if (!command.length || command.length > fuzz_multi_max() || !command.messages ||
			command.room > command.length)
			return -EINVAL;
		used.addr = command.addr;
		used.length = command.length;
		used.messages = command.messages;
		used.room = command.room;
		[[fallthrough]];
	case IBRELK_OP_PROBE:
	case IBRELK_OP_CLAIM:
		used.flags = IBRELK_CMD_UNTAGGED;
		used.peer = command.peer;
		used.tag = untagged ? 0 : command.tag;
		used.ignore = untagged ? 0 : command.ignore;
		break;
	case IBRELK_OP_DISCARD:
		used.flags = IBRELK_CMD_NO_SUCCESS;
		used.tag = command.tag;
		break;
	default:
		used.flags = IBRELK_CMD_NO_SUCCESS;
		used.addr = command.opcode == IBRELK_OP_CANCEL ? command.addr : 0;
	}
	used.flags &= command.flags;
	return memcmp(&used, &command, sizeof(used)) ? -EINVAL : 0;
}

// The endpoint's answer to the next command that is right.
int answer_next()
{
	u8 drawn = world->seen < world->answers.size() ? world->answers[world->seen] : 0;

	switch (drawn % 16) {
	case 11: return 1;
	case 12: return -ENOENT;
	case 13: return -EFAULT;
	case 14: return -ENOMEM;
	case 15: return -EAGAIN;
	default: return 0;
	}
}

// Checks that a command is the next one that should get here.
int take(const ibrelk_command *command, u8 opcode)
{
	must(!world->died, "a process that dies has no more commands accepted");
	must(!world->answer, "nothing is accepted after what was not");
	must(world->seen < world->copied, "nothing is made up beyond what was given");
	must(!memcmp(command, &world->commands[world->seen], sizeof(*command)),
		"commands come whole and in their order");
	must((command->opcode == opcode ||
		     (command->opcode == IBRELK_OP_CLAIM && opcode == IBRELK_OP_PROBE)) &&
			valid(*command) == 0,
		"only what is right gets through");

	int answer = answer_next();

	world->seen++;
	world->answer = answer;
	world->accepted += !answer;
	return answer;
}

// NOPs without a completion leave no trace; by the next thing that happens, those that were copied are done.
void pass_silent_nops()
{
	while (world->seen < world->copied && !world->answer) {
		const ibrelk_command &command = world->commands[world->seen];

		if (command.opcode != IBRELK_OP_NOP || !(command.flags & IBRELK_CMD_NO_SUCCESS) ||
			valid(command))
			return;
		world->seen++;
		world->accepted++;
	}
}

} // namespace

bool fuzz_dies()
{
	pass_silent_nops();
	if (!world->dies_after--)
		world->died = true;
	return world->died;
}

unsigned long fuzz_copy(void *to, const void *from, unsigned long bytes)
{
	size_t at = static_cast<const char *>(from) - reinterpret_cast<const char *>(world->commands);
	size_t can = at < world->bytes_there ? world->bytes_there - at : 0;

	can = can < bytes ? can : bytes;
	pass_silent_nops();
	world->copied = static_cast<u32>((at + can) / sizeof(ibrelk_command));
	if (can)
		memcpy(to, from, can);
	memset(static_cast<char *>(to) + can, 0, bytes - can);
	return bytes - can;
}

int ibr_endpoint_send(ibr_endpoint *endpoint, const ibrelk_command *command, ibr_path **undriven)
{
	pass_silent_nops();
	must(endpoint == fuzz_endpoint(), "commands are for their endpoint");
	must(!*undriven == !world->sent, "what is put off is handed on");

	bool remote = command->opcode >= IBRELK_OP_PUT;
	int answer = take(command, remote ? command->opcode : IBRELK_OP_SEND);

	if (!answer) {
		*undriven = reinterpret_cast<ibr_path *>(world);
		world->sent = true;
	}
	return answer;
}

int ibr_endpoint_recv(ibr_endpoint *, const ibrelk_command *command)
{
	pass_silent_nops();
	must(!(command->flags & IBRELK_CMD_CLAIMED), "what is claimed is not posted");
	return take(command, IBRELK_OP_RECV);
}

int ibr_endpoint_recv_claimed(ibr_endpoint *, const ibrelk_command *command)
{
	pass_silent_nops();
	must(command->flags & IBRELK_CMD_CLAIMED, "what is not claimed is posted");
	return take(command, IBRELK_OP_RECV);
}

int ibr_endpoint_recv_multi(ibr_endpoint *, const ibrelk_command *command)
{
	pass_silent_nops();
	return take(command, IBRELK_OP_RECV_MULTI);
}

int ibr_endpoint_probe(ibr_endpoint *, const ibrelk_command *command)
{
	pass_silent_nops();
	return take(command, IBRELK_OP_PROBE);
}

int ibr_endpoint_discard(ibr_endpoint *, const ibrelk_command *command)
{
	pass_silent_nops();
	return take(command, IBRELK_OP_DISCARD);
}

int ibr_endpoint_cancel(ibr_endpoint *, const ibrelk_command *command)
{
	pass_silent_nops();
	return take(command, IBRELK_OP_CANCEL);
}

bool ibr_ring_has_room(ibr_ring *)
{
	pass_silent_nops();
	if (answer_next() != 1)
		return true;
	must(world->seen < world->copied && world->commands[world->seen].opcode == IBRELK_OP_NOP,
		"room is asked for where it is needed");
	world->seen++;
	world->answer = 1;
	return false;
}

int ibr_ring_write(ibr_ring *, const ibrelk_completion *completion)
{
	ibrelk_completion right{};

	must(world->seen < world->copied, "nothing is made up beyond what was given");
	right.user_data = world->commands[world->seen].user_data;
	right.opcode = IBRELK_OP_NOP;
	right.endpoint = id;
	right.peer = IBRELK_PEER_ANY;
	must(!memcmp(&right, completion, sizeof(right)), "a NOP says what it was");
	return take(&world->commands[world->seen], IBRELK_OP_NOP);
}

void ibr_endpoint_flush(ibr_path *undriven)
{
	must(!undriven == !world->sent, "what was put off is started");
	world->flushes++;
}

void ibr_pins_flush()
{
	world->flushes++;
}

namespace
{

// One command; mostly of the kinds that exist, with a member in two or three that is not 0.
ibrelk_command command_drawn(Input &input)
{
	ibrelk_command command{};
	u8 kind = input.byte();

	if (kind >= 0xf0) {
		size_t size = sizeof(command);
		const u8 *bytes = input.take(&size);

		if (size)
			memcpy(&command, bytes, size);
		return command;
	}
	command.opcode = kind & 8 ? input.byte() % 16 : kind & 7;
	command.user_data = kind;

	u16 members = input.half();

	if (members & 1)
		command.flags = 1u << input.byte() % 16;
	if (members & 2)
		command.flags |= input.byte() % 8;
	if (command.opcode == IBRELK_OP_RECV_MULTI) {
		command.messages = input.byte() % 4;
		command.length = input.byte() & 1 ? fuzz_multi_max() - 2 + input.byte() % 4 : input.byte();
		command.room = input.byte();
	}
	if (members & 4)
		command.level = input.byte() % 8;
	if (members & 8)
		command.peer = input.byte() == 255 ? IBRELK_PEER_ANY : input.byte();
	if (members & 16)
		command.addr = input.twice();
	if (members & 32)
		command.length =
			(command.flags & IBRELK_CMD_IOVEC ? 1024 : fuzz_message_max()) - 128 + input.byte();
	if (members & 64)
		command.length = input.twice();
	if (members & 128)
		command.tag = 1ull << input.byte() % 64;
	if (members & 256)
		command.ignore = 1ull << input.byte() % 64;
	if (members & 512)
		command.immediate = 1ull << input.byte() % 64;
	if (members & 2048) {
		command.flags |= IBRELK_CMD_UNTAGGED;
		command.tag = 1ull << 63;
		command.ignore = command.tag - 1 - input.byte() % 2;
	}
	if (members & 1024) {
		u8 which = input.byte();
		u64 bit = 1ull << which % 32;

		switch (which >> 5) {
		case 0: command.region = bit; break;
		case 1: command.messages = bit; break;
		case 2: command.remote_addr = bit << 32; break;
		case 3: command.remote_addr = bit; break;
		case 4: command.remote_key = bit << 32; break;
		case 5: command.remote_key = bit; break;
		case 6: command.room = bit; break;
		default: command.reserved = bit << 32; break;
		}
	}
	return command;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	Input input(data, size);
	World here{};
	u8 how = input.byte();
	u32 missing = how & 1 ? input.byte() : 0; // bytes at the end that cannot be read
	int excess = how & 2 ? input.half() : 0;  // commands that are said to be there, and are not
	u32 repeats = how & 4 ? 1 + input.byte() : 1;

	world = &here;
	here.dies_after = how & 8 ? input.byte() % 8 : -1;
	if (how & 16) {
		for (u8 count = input.byte() % 64; count; count--)
			here.answers.push_back(input.byte());
	}
	std::vector<ibrelk_command> made;

	while (!input.empty() && made.size() < 64)
		made.push_back(command_drawn(input));
	size_t count = made.size() * repeats;
	size_t bytes = count * sizeof(ibrelk_command);

	if (bytes > fuzz_batch_max() * sizeof(ibrelk_command) * 2)
		return -1;
	missing = missing < bytes ? missing : static_cast<u32>(bytes);
	// Of exactly the size that can be read.
	std::unique_ptr<char[]> memory(new char[bytes - missing]);

	for (size_t at = 0; at < bytes - missing; at++)
		memory[at] =
			reinterpret_cast<const char *>(made.data())[at % (made.size() * sizeof(made[0]))];
	here.commands = reinterpret_cast<const ibrelk_command *>(memory.get());
	here.bytes_there = bytes - missing;
	here.there = static_cast<u32>(here.bytes_there / sizeof(ibrelk_command));

	u32 said = static_cast<u32>(count) + excess;
	int result = ibr_command_batch(fuzz_endpoint(), here.commands, said);

	if (!said || said > fuzz_batch_max()) {
		must(result == -EINVAL && !here.seen && !here.flushes, "a batch has a size");
		return 0;
	}
	pass_silent_nops();
	must(here.flushes == 2, "a batch ends once");
	must(here.accepted == 0 || result == static_cast<int>(here.accepted),
		"what was accepted is returned");
	if (here.accepted == said) {
		must(result > 0, "all was accepted");
		return 0;
	}
	// Why no more than that: the endpoint, the process, a command that is wrong, or memory that is not
	// there.
	int reason = here.answer;

	if (!reason && here.died)
		reason = -EINTR;
	if (!reason && here.seen < here.there) {
		reason = valid(here.commands[here.seen]);
		must(reason, "what is right is accepted");
	}
	if (!reason)
		reason = -EFAULT;
	if (!here.accepted)
		must(result == (reason == 1 || reason == -EAGAIN ? 0 : reason),
			"the first one's error is returned");
	return 0;
}
