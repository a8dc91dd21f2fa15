// SPDX-License-Identifier: GPL-2.0-only
//
// What a test needs of libfabric to talk: all objects of one side, opened in their order and closed in the
// other.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <sys/mman.h>

#include <gtest/gtest.h>

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

namespace ofi
{

struct CloseFid {
	template<class T>
	void operator()(T *object) const
	{
		// An object that is still used would stay: the order of the tests' members is wrong then.
		EXPECT_EQ(fi_close(&object->fid), 0);
	}
};
template<class T>
using Owned = std::unique_ptr<T, CloseFid>;

struct FreeInfo {
	void operator()(fi_info *info) const
	{
		fi_freeinfo(info);
	}
};
using Info = std::unique_ptr<fi_info, FreeInfo>;

/// What is asked for: the newest interface of the libfabric that is used.
inline const std::uint32_t api = fi_version();

/// Hints for the provider that is tested; everything else is as fi_allocinfo() leaves it.
Info hints();
/// fi_getinfo(), which must give @p expected.
Info get_info(const fi_info *wanted, const char *node = nullptr, const char *service = nullptr,
	std::uint64_t flags = 0, int expected = 0);

/// Bytes that say whose they are.
std::vector<unsigned char> pattern(std::size_t bytes, unsigned seed);

/// Memory of its own pages.
class Pages
{
public:
	explicit Pages(std::size_t bytes, int protection = PROT_READ | PROT_WRITE) :
		bytes_(bytes), first_(::mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))
	{
		EXPECT_NE(first_, MAP_FAILED);
	}
	Pages(const Pages &) = delete;
	Pages &operator=(const Pages &) = delete;
	~Pages()
	{
		::munmap(first_, bytes_);
	}
	[[nodiscard]] void *data() const
	{
		return first_;
	}

private:
	std::size_t bytes_;
	void *first_;
};

/// FI_MR_UNSPEC and its like: newer headers warn of each use of these names.
inline constexpr int mr_unspec = 0;
inline constexpr int mr_basic = 1;
inline constexpr int mr_scalable = 2;

/// What an application must agree to so that others reach its memory.
inline constexpr int memory_mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;

/// How long a test waits for what must come, however slow the machine.
inline constexpr std::chrono::seconds patience(60);

struct Wish {
	fi_cq_format format = FI_CQ_FORMAT_TAGGED;
	fi_wait_obj wait = FI_WAIT_NONE;
	fi_cq_wait_cond condition = FI_CQ_COND_NONE;
	fi_av_type av = FI_AV_TABLE;
	std::uint64_t caps = 0;
	std::uint64_t tx_flags = 0;
	std::uint64_t rx_flags = 0;
	std::uint64_t bind_flags = 0; // FI_SELECTIVE_COMPLETION
	bool counters = false;
	fi_wait_obj counter_wait = FI_WAIT_UNSPEC;
	std::size_t queue_size = 0;    // entries, as a hint
	bool queue = true;             // else there are only counters
	int mr_mode = 0;               // memory_mr_mode: all that there is for memory of others
	const char *service = nullptr; // a certain endpoint number
	std::uint32_t version = api;   // of the interface that it is written for
};

/// A buffer in pieces of the same length, but for the last one.
std::vector<iovec> pieces_of(std::vector<unsigned char> &buffer, std::size_t count);

/// What a completion queue told: one entry, or an error.
struct Told {
	ssize_t result = 0; // 1; -FI_EAVAIL: error is valid; else of fi_cq_read()
	fi_cq_tagged_entry entry{};
	fi_cq_err_entry error{};
	fi_addr_t source = FI_ADDR_NOTAVAIL;
};

class Side
{
public:
	explicit Side(const Wish &wish = {});

	/// Knows another side.
	fi_addr_t add(const Side &other);
	[[nodiscard]] std::vector<unsigned char> name() const;

	/// What there is now.
	Told look();
	/// The next entry, or error. Fails the test if none comes.
	Told next();
	/// The next entry, which must be of that context, and no error.
	fi_cq_tagged_entry done(const void *context);
	/// The next entry, which must be that error, of that context.
	fi_cq_err_entry failed(const void *context, int error);
	/// Lets others do this with its memory.
	Owned<fid_mr> share(void *memory, std::size_t bytes,
		std::uint64_t access = FI_REMOTE_READ | FI_REMOTE_WRITE) const;
	/// Tries as long as there is no room.
	static void post(const std::function<ssize_t()> &operation);

	Info info;
	Owned<fid_fabric> fabric;
	Owned<fid_domain> domain;
	Owned<fid_cq> cq;
	Owned<fid_cntr> sent;
	Owned<fid_cntr> received;
	Owned<fid_cntr> reads;
	Owned<fid_cntr> writes;
	Owned<fid_av> av;
	Owned<fid_ep> ep;
};

/// Two that know each other.
struct Pair {
	explicit Pair(const Wish &wish = {});

	Side a;
	Side b;
	fi_addr_t to_a = FI_ADDR_NOTAVAIL; // b's
	fi_addr_t to_b = FI_ADDR_NOTAVAIL; // a's
};

/// Opens one object.
template<class T, class F>
void open(Owned<T> &owned, F &&call)
{
	T *object = nullptr;

	ASSERT_EQ(call(&object), 0);
	owned.reset(object);
}

} // namespace ofi
