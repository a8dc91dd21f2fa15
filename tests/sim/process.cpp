// SPDX-License-Identifier: GPL-2.0-only
//
// Processes, their memory and descriptors: see shim/process.h.

#include "sim.h"

#include "process.h"

#include <cstdlib>
#include <cstring>
#include <map>
#include <vector>

user_namespace init_user_ns{};
static mm_struct kernel_mm{};
static sim_task kernel_task{&kernel_mm, nullptr, 0, 0, 0, 0, 0, 0};
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

// ---- memory ------------------------------------------------------------------------------------

// Pages that are pinned now, by process and address. The order in which they are kept is never asked for.
static std::map<std::pair<mm_struct *, u64>, page *> pages_pinned;

static page *page_pin(mm_struct *mm, u64 address)
{
	auto &page = pages_pinned[{mm, address}];
	if (!page)
		page = new ::page{mm, reinterpret_cast<u8 *>(address), 0, true};
	page->pins++;
	return page;
}

static void page_unpin(page *page)
{
	if (--page->pins)
		return;
	if (page->mapped)
		pages_pinned.erase({page->mm, reinterpret_cast<u64>(page->address)});
	else
		std::free(page->address);
	delete page;
}

// What has it pinned keeps it, and nobody else sees it.
static void page_unmap(page *page)
{
	auto *own = static_cast<u8 *>(std::aligned_alloc(PAGE_SIZE, PAGE_SIZE));
	std::memcpy(own, page->address, PAGE_SIZE);
	page->address = own;
	page->mapped = false;
}

void sim_mm_change(mm_struct *mm, void *start, u64 bytes, mmu_notifier_event event)
{
	const u64 from = reinterpret_cast<u64>(start);
	const mmu_notifier_range range{mm, from, from + bytes, event};

	if (mm->notifier)
		mm->notifier->ops->invalidate_range_start(mm->notifier, &range);
	for (auto it = pages_pinned.lower_bound({mm, from}); event == MMU_NOTIFY_UNMAP &&
		it != pages_pinned.end() && it->first < std::pair{mm, from + bytes};) {
		page_unmap(it->second);
		it = pages_pinned.erase(it);
	}
	if (mm->notifier)
		mm->notifier->ops->invalidate_range_end(mm->notifier, &range);
}

u64 sim_pages_pinned(const mm_struct *mm)
{
	u64 pages = 0;

	for (const auto &[key, page] : pages_pinned)
		pages += key.first == mm;
	return pages;
}

void sim_mm_end(mm_struct *mm)
{
	if (mm->notifier)
		mm->notifier->ops->release(mm->notifier, mm);
	mm->users = 0;
}

mmu_notifier *mmu_notifier_get(const mmu_notifier_ops *ops, mm_struct *mm)
{
	sim_might_sleep("mmu_notifier_get");
	if (!mm->notifier) {
		auto *made = ops->alloc_notifier(mm);
		if (IS_ERR(made))
			return made;
		made->ops = ops;
		made->mm = mm;
		made->users = 0;
		mm->notifier = made;
		mmgrab(mm);
	}
	mm->notifier->users++;
	return mm->notifier;
}

void mmu_notifier_put(mmu_notifier *notifier)
{
	sim_might_sleep("mmu_notifier_put");
	if (--notifier->users)
		return;
	mm_struct *mm = notifier->mm;
	mm->notifier = nullptr;
	notifier->ops->free_notifier(notifier);
	mmdrop(mm);
}

int pin_user_pages_fast(unsigned long start, int count, unsigned int, page **pages)
{
	sim_might_sleep("pin_user_pages");
	if (sim_alloc_turn())
		return -ENOMEM;
	if (sim_troubled && sim_chance(SIM_RANDOM_ALLOC, sim_config.pin))
		return sim_chance(SIM_RANDOM_ALLOC, 500'000) ? -EFAULT : -ENOMEM;
	if (sim_troubled && count > 1 && sim_chance(SIM_RANDOM_ALLOC, sim_config.pin))
		count = 1 + static_cast<int>(sim_below(SIM_RANDOM_ALLOC, static_cast<u64>(count) - 1));
	for (int i = 0; i < count; i++)
		pages[i] = page_pin(sim_current->mm, start + static_cast<unsigned long>(i) * PAGE_SIZE);
	sim_current->mm->pages += count;
	return count;
}

long pin_user_pages(unsigned long start, unsigned long count, unsigned int flags, page **pages)
{
	return pin_user_pages_fast(start, static_cast<int>(count), flags, pages);
}

// Who unpins may be anybody, so only the sum is checked (app.cpp).
static s64 unpinned;

void unpin_user_pages(page **pages, unsigned long count)
{
	sim_might_sleep("unpin_user_pages");
	for (unsigned long i = 0; i < count; i++)
		page_unpin(pages[i]);
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
	if (closed->f_op->flush)
		closed->f_op->flush(closed, sim_current->files);
	fput(closed);
}
