/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Differences between kernels, and the only file that knows of any. The tree is written against the
 * newest kernel; what an older one lacks is supplied here under the new name. Features are probed
 * where the headers allow it, because vendors backport; dropping a kernel is deleting lines here.
 */
#ifndef IBR_COMPAT_H
#define IBR_COMPAT_H

#include <linux/version.h>

/* ---- io_uring commands (chardev.c) ---- */

#ifdef __has_include
#if __has_include(<linux/io_uring/cmd.h>)
#define IBR_HAS_IO_URING_CMD_H
#endif
#elif LINUX_VERSION_CODE >= KERNEL_VERSION(6, 8, 0)	/* sparse cannot probe */
#define IBR_HAS_IO_URING_CMD_H
#endif

#ifdef IBR_HAS_IO_URING_CMD_H
#include <linux/io_uring/cmd.h>

/* The command's payload. It may lie in memory shared with user space: read each member once. */
static inline const void *ibr_uring_payload(const struct io_uring_cmd *cmd)
{
	return cmd->sqe->cmd;
}

/* What .uring_cmd returns for a command that is done, with a result that is not negative. */
static inline int ibr_uring_done(struct io_uring_cmd *cmd, int result, unsigned int issue_flags)
{
	return result;
}
#else /* 6.1 */
#include <linux/io_uring.h>

static inline const void *ibr_uring_payload(const struct io_uring_cmd *cmd)
{
	return cmd->cmd;
}

/* There a positive result that is returned counts as a failure, which breaks chains of commands. */
static inline int ibr_uring_done(struct io_uring_cmd *cmd, int result, unsigned int issue_flags)
{
	io_uring_cmd_done(cmd, result, 0, issue_flags);
	return -EIOCBQUEUED;
}
#endif

/* ---- mappings (ring.c) ---- */

#include <linux/mm.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 3, 0)
static inline void vm_flags_clear(struct vm_area_struct *vma, vm_flags_t flags)
{
	vma->vm_flags &= ~flags;
}
#endif

/* ---- timers (drive.c) ---- */

#include <linux/hrtimer.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
static inline void hrtimer_setup(struct hrtimer *timer, enum hrtimer_restart (*function)(struct hrtimer *),
				 clockid_t clock, enum hrtimer_mode mode)
{
	hrtimer_init(timer, clock, mode);
	timer->function = function;
}
#endif

/* ---- routes (device.c) ---- */

#include <linux/in6.h>
#include <net/dst.h>
#include <net/flow.h>

#ifdef __has_include
#if !__has_include(<net/ipv6_stubs.h>)
#define IBR_IPV6_BUILT_IN	/* IPv6 is no module any more, so it can be called directly */
#endif
#endif

#ifdef IBR_IPV6_BUILT_IN
#include <net/ipv6.h>
#define ibr_route6(net, fl6)	ip6_dst_lookup_flow(net, NULL, fl6, NULL)
#else
#include <net/ipv6_stubs.h>
#define ibr_route6(net, fl6)	ipv6_stub->ipv6_dst_lookup_flow(net, NULL, fl6, NULL)
#endif

/* ---- user memory (pins.c) ---- */

#include <linux/mm.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 5, 0)
#define pin_user_pages(start, count, flags, pages)	pin_user_pages(start, count, flags, pages, NULL)
#endif

/* ---- what adapters write (mr.c) ---- */

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 10, 0) && defined(CONFIG_IOMMU_API) && !defined(CONFIG_SWIOTLB_DYNAMIC)
#include <linux/dma-map-ops.h>
#include <linux/dma-mapping.h>
#include <linux/iommu.h>
#include <linux/swiotlb.h>

/*
 * There it says so of all that goes through an IOMMU. What does need not be synchronized if the device is coherent, and
 * the memory has no bounce buffer. (Where these may be anywhere, modules cannot tell.)
 */
static inline bool ibr_dma_need_sync(struct device *dev, dma_addr_t dma)
{
	struct iommu_domain *domain = iommu_get_domain_for_dev(dev);
	phys_addr_t at;

	if (!domain || !iommu_is_dma_domain(domain) || !dev_is_dma_coherent(dev))
		return dma_need_sync(dev, dma);
	at = iommu_iova_to_phys(domain, dma);
	return !at || is_swiotlb_buffer(dev, at);
}
#define dma_need_sync(dev, dma)	ibr_dma_need_sync(dev, dma)
#endif

/* ---- KUnit (tests/kunit) ---- */

/* Head of a function that generates the parameters of a test. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 18, 0)
#define IBR_KUNIT_NEXT(function, previous, name) \
	const void *function(struct kunit *test, const void *previous, char *name)
#else
#define IBR_KUNIT_NEXT(function, previous, name)	const void *function(const void *previous, char *name)
#endif

#endif /* IBR_COMPAT_H */
