// SPDX-License-Identifier: GPL-2.0-only
//
// Processes, their memory and descriptors: see shim/process.h.

#include "sim.h"

#include "process.h"

#include <vector>

static mm_struct kernel_mm{};
static sim_task kernel_task{&kernel_mm, 0, 0, 0, 0};
sim_task *sim_current = &kernel_task;

void mmdrop(mm_struct *mm)
{
	if (mm->count-- <= 0)
		sim_fail("reference", "an address space is dropped that nobody has");
}

bool mmget_not_zero(mm_struct *mm)
{
	if (!mm->users)
		return false;
	mm->users++;
	return true;
}

void mmput(mm_struct *mm)
{
	mm->users--;
}

static sim_task borrowed[8];
static sim_task *lender[8];
static std::size_t borrowing;

void kthread_use_mm(mm_struct *mm)
{
	lender[borrowing] = sim_current;
	borrowed[borrowing] = kernel_task;
	borrowed[borrowing].mm = mm;
	sim_current = &borrowed[borrowing++];
}

void kthread_unuse_mm(mm_struct *mm)
{
	if (!borrowing || sim_current->mm != mm)
		sim_fail("shim", "an address space is given back that was not borrowed");
	sim_current = lender[--borrowing];
}

int pin_user_pages_fast(unsigned long start, int count, unsigned int, page **pages)
{
	sim_might_sleep("pin_user_pages");
	if (sim_troubled && sim_chance(SIM_RANDOM_ALLOC, sim_config.pin))
		return sim_chance(SIM_RANDOM_ALLOC, 500'000) ? -EFAULT : -ENOMEM;
	if (sim_troubled && count > 1 && sim_chance(SIM_RANDOM_ALLOC, sim_config.pin))
		count = 1 + static_cast<int>(sim_below(SIM_RANDOM_ALLOC, static_cast<u64>(count) - 1));
	for (int i = 0; i < count; i++)
		pages[i] = reinterpret_cast<page *>(start + static_cast<unsigned long>(i) * PAGE_SIZE);
	sim_current->mm->pages += count;
	return count;
}

// Who unpins may be anybody, so only the sum is checked (app.cpp).
static s64 unpinned;

void unpin_user_pages(page **, unsigned long count)
{
	sim_might_sleep("unpin_user_pages");
	unpinned += static_cast<s64>(count);
}

extern "C" s64 sim_unpinned()
{
	return unpinned;
}

bool sim_page_of_file(const page *)
{
	return sim_chance(SIM_RANDOM_ALLOC, sim_config.pin);
}

// ---- descriptors -------------------------------------------------------------------------------

static std::vector<file *> descriptors;

file *anon_inode_getfile(const char *, const file_operations *ops, void *data, int)
{
	auto *made = static_cast<file *>(kzalloc(sizeof(file), GFP_KERNEL));
	if (!made)
		return static_cast<file *>(ERR_PTR(-ENOMEM));
	made->f_op = ops;
	made->private_data = data;
	made->refs = 1;
	return made;
}

int sim_fd_install(file *file)
{
	descriptors.push_back(file);
	return static_cast<int>(descriptors.size()) - 1;
}

file *fget(int fd)
{
	if (fd < 0 || static_cast<std::size_t>(fd) >= descriptors.size() ||
		!descriptors[static_cast<std::size_t>(fd)])
		return nullptr;
	auto *found = descriptors[static_cast<std::size_t>(fd)];
	found->refs++;
	return found;
}

void fput(file *file)
{
	if (--file->refs)
		return;
	file->f_op->release(nullptr, file);
	kfree(file);
}

void sim_fd_close(int fd)
{
	auto *closed = descriptors[static_cast<std::size_t>(fd)];
	descriptors[static_cast<std::size_t>(fd)] = nullptr;
	fput(closed);
}
