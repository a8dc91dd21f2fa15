// SPDX-License-Identifier: GPL-2.0-only
//
// A plugin of QEMU that counts the instructions which the guest executes, by where they are. The guest says
// when it wants to know (mark.cpp): each time, what has been executed so far is written to a file FOLDER/0,
// FOLDER/1 ..., a line for each block of instructions: its address and the number. See profile.sh.
//
//	qemu-system-x86_64 ... -plugin profile.so,out=FOLDER
#include <cinttypes>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <unordered_map>

#include "mark.hpp"

// Debian's QEMU has the interface for plugins, but there is no package with its header. This is what is
// needed of version 1 of it.
extern "C" {
struct qemu_plugin_tb;
struct qemu_plugin_insn;
using qemu_plugin_id_t = std::uint64_t;
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t, void (*)(qemu_plugin_id_t, qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_inline(
	qemu_plugin_tb *, int operation, void *counter, std::uint64_t add);
void qemu_plugin_register_vcpu_insn_exec_cb(
	qemu_plugin_insn *, void (*)(unsigned cpu, void *), int registers, void *);
std::size_t qemu_plugin_tb_n_insns(const qemu_plugin_tb *);
std::uint64_t qemu_plugin_tb_vaddr(const qemu_plugin_tb *);
qemu_plugin_insn *qemu_plugin_tb_get_insn(const qemu_plugin_tb *, std::size_t);
const void *qemu_plugin_insn_data(const qemu_plugin_insn *);
std::size_t qemu_plugin_insn_size(const qemu_plugin_insn *);

[[gnu::visibility("default")]] int qemu_plugin_version = 1;
[[gnu::visibility("default")]] int qemu_plugin_install(
	qemu_plugin_id_t id, const void *about, int count, char **arguments);
}

namespace
{

constexpr int add_to_counter = 0; // QEMU_PLUGIN_INLINE_ADD_U64
constexpr int no_registers = 0;   // QEMU_PLUGIN_CB_NO_REGS

std::string folder;
unsigned marks;
// By the address of the first instruction of a block. The generated code adds to the numbers where they are,
// and a map of this kind does not move them.
std::unordered_map<std::uint64_t, std::uint64_t> executed;

void marked(unsigned, void *)
{
	const std::string name = folder + "/" + std::to_string(marks++);
	std::FILE *const file = std::fopen(name.c_str(), "w");

	if (!file) {
		std::perror(name.c_str());
		return;
	}
	for (const auto &[address, count] : executed)
		if (count)
			std::fprintf(file, "%016" PRIx64 " %" PRIu64 "\n", address, count);
	std::fclose(file);
}

void translated(qemu_plugin_id_t, qemu_plugin_tb *block)
{
	const std::size_t count = qemu_plugin_tb_n_insns(block);

	qemu_plugin_register_vcpu_tb_exec_inline(
		block, add_to_counter, &executed[qemu_plugin_tb_vaddr(block)], count);
	for (std::size_t i = 0; i < count; i++) {
		qemu_plugin_insn *const insn = qemu_plugin_tb_get_insn(block, i);

		if (qemu_plugin_insn_size(insn) == sizeof(mark) &&
			std::memcmp(qemu_plugin_insn_data(insn), mark, sizeof(mark)) == 0)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, marked, no_registers, nullptr);
	}
}

} // namespace

int qemu_plugin_install(qemu_plugin_id_t id, const void *, int count, char **arguments)
{
	constexpr std::string_view out = "out=";

	for (int i = 0; i < count; i++)
		if (std::string_view(arguments[i]).starts_with(out))
			folder = arguments[i] + out.size();
	if (folder.empty()) {
		std::fprintf(stderr, "profile: out=FOLDER is missing\n");
		return -1;
	}
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	return 0;
}
