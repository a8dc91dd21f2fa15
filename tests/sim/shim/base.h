/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The kernel's small change, for kernel/ compiled in user space: types, bits, errors, lists (from
 * tests/unit/port_user.h), module parameters. Everything here means what it means in the kernel.
 */
#ifndef SIM_BASE_H
#define SIM_BASE_H

#include <limits.h>
#include <netinet/in.h>
#include "port_user.h"

#ifdef __cplusplus
#undef noinline	/* which the C++ library spells as an attribute */
#endif

#define LINUX_VERSION_CODE	KERNEL_VERSION(6, 18, 0)
#define KERNEL_VERSION(a, b, c)	(((a) << 16) + ((b) << 8) + (c))
#define KBUILD_MODNAME		"ibrelk"

/* What sparse reads, and the compiler does not. */
#ifndef __cplusplus
#define __user
#define __rcu
#define __init
#define __exit
#define __percpu
#define __aligned(x)	__attribute__((__aligned__(x)))
#define ____cacheline_aligned_in_smp
#define __cold
#define __force
#endif

typedef s32 __s32;
typedef s64 __s64;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned int gfp_t;
typedef u64 dma_addr_t;
typedef unsigned int __poll_t;
typedef s64 ktime_t;

struct rcu_head {
	u64 unused;
};

/* Numbers */
#define PAGE_SHIFT	12
#define PAGE_SIZE	(1ul << PAGE_SHIFT)
#define PAGE_MASK	(~(PAGE_SIZE - 1))
#define ALIGN(x, a)	(((x) + ((__typeof__(x))(a) - 1)) & ~((__typeof__(x))(a) - 1))
#define PAGE_ALIGN(x)	ALIGN(x, PAGE_SIZE)
#define offset_in_page(p)	((unsigned long)(p) & ~PAGE_MASK)
#define round_down(x, y)	((x) & ~((__typeof__(x))((y) - 1)))
#define min3(a, b, c)	min((typeof(a))min(a, b), c)
#define min_not_zero(a, b)	((a) && (b) ? min(a, b) : (a) ? (a) : (b))
#define lower_32_bits(n)	((u32)(n))
#define div_u64(a, b)	((u64)(a) / (u32)(b))
#define u64_to_user_ptr(x)	((void *)(uintptr_t)(x))
#define struct_size(p, member, n)	(sizeof(*(p)) + sizeof(*(p)->member) * (size_t)(n))

static inline unsigned long roundup_pow_of_two(unsigned long n)
{
	return n <= 1 ? 1 : 1ul << fls64(n - 1);
}

static inline unsigned long rounddown_pow_of_two(unsigned long n)
{
	return 1ul << (fls64(n) - 1);
}

/* Bits */
#define BITS_TO_LONGS(bits)	DIV_ROUND_UP(bits, BITS_PER_LONG)
#define DECLARE_BITMAP(name, bits)	unsigned long name[DIV_ROUND_UP(bits, BITS_PER_LONG)]

static inline void bitmap_zero(unsigned long *map, unsigned int bits)
{
	memset(map, 0, DIV_ROUND_UP(bits, 64) * sizeof(*map));
}

static inline bool test_bit(unsigned int bit, const unsigned long *map)
{
	return map[bit / 64] >> bit % 64 & 1;
}

static inline void set_bit(unsigned int bit, unsigned long *map)
{
	map[bit / 64] |= 1ul << bit % 64;
}

static inline void clear_bit(unsigned int bit, unsigned long *map)
{
	map[bit / 64] &= ~(1ul << bit % 64);
}

static inline void bitmap_set(unsigned long *map, unsigned long first, unsigned long bits)
{
	while (bits--)
		set_bit(first++, map);
}

/* The next bit that is set in @map, each word with @turned bits turned over. */
static inline unsigned long find_next(const unsigned long *map, unsigned long size, unsigned long bit, unsigned long turned)
{
	unsigned long word;

	while (bit < size) {
		word = (map[bit / 64] ^ turned) >> bit % 64;
		if (word) {
			bit += (unsigned long)__builtin_ctzl(word);
			break;
		}
		bit = (bit / 64 + 1) * 64;
	}
	return bit < size ? bit : size;
}

static inline unsigned long find_next_bit(const unsigned long *map, unsigned long size, unsigned long bit)
{
	return find_next(map, size, bit, 0);
}

static inline unsigned long find_next_zero_bit(const unsigned long *map, unsigned long size, unsigned long bit)
{
	return find_next(map, size, bit, ~0ul);
}

static inline bool test_and_set_bit(unsigned int bit, unsigned long *map)
{
	bool was = test_bit(bit, map);

	set_bit(bit, map);
	return was;
}

static inline bool test_and_clear_bit(unsigned int bit, unsigned long *map)
{
	bool was = test_bit(bit, map);

	clear_bit(bit, map);
	return was;
}

#define __test_and_set_bit	test_and_set_bit
#define clear_bit_unlock	clear_bit

/* Errors in pointers */
#define ERESTARTNOINTR	513
#define ERESTARTNOHAND	514
#define MAX_ERRNO	4095

static inline bool IS_ERR(const void *p)
{
	return (unsigned long)p >= (unsigned long)-MAX_ERRNO;
}

static inline long PTR_ERR(const void *p)
{
	return (long)p;
}

static inline void *ERR_PTR(long error)
{
	return (void *)error;
}

#define ERR_CAST(p)		((void *)(p))
#define PTR_ERR_OR_ZERO(p)	(IS_ERR(p) ? (int)PTR_ERR(p) : 0)

/* Lists that port_user.h lacks */
#define list_add_tail_rcu	list_add_tail
#define list_del_rcu		list_del
#define list_for_each_entry_rcu	list_for_each_entry

struct llist_node {
	struct llist_node *next;
};

struct llist_head {
	struct llist_node *first;
};

#define LLIST_HEAD(name)	struct llist_head name

static inline void init_llist_head(struct llist_head *head)
{
	head->first = NULL;
}

static inline bool llist_empty(const struct llist_head *head)
{
	return !head->first;
}

static inline bool llist_add(struct llist_node *node, struct llist_head *head)
{
	node->next = head->first;
	head->first = node;
	return !node->next;
}

static inline struct llist_node *llist_del_all(struct llist_head *head)
{
	struct llist_node *first = head->first;

	head->first = NULL;
	return first;
}

#define llist_entry_safe(p, type, member)	\
	({ struct llist_node *_l = (p); _l ? container_of(_l, type, member) : NULL; })
#define llist_for_each_entry_safe(pos, n, node, member)				\
	for (pos = llist_entry_safe(node, __typeof__(*pos), member);		\
	     pos && (n = llist_entry_safe(pos->member.next, __typeof__(*pos), member), true); pos = n)

/* Text */
#define pr_info(...)		do { } while (0)
#define pr_err(...)		do { } while (0)
#define pr_warn(...)		do { } while (0)
#define pr_err_ratelimited(...)	do { } while (0)
#define pr_warn_ratelimited(...)	do { } while (0)
#define pr_info_ratelimited(...)	do { } while (0)

static inline void *memchr_inv(const void *start, int c, size_t bytes)
{
	const u8 *p = (const u8 *)start;

	for (; bytes; bytes--, p++)
		if (*p != (u8)c)
			return (void *)p;
	return NULL;
}

static inline long strscpy(char *to, const char *from, size_t size)
{
	snprintf(to, size, "%s", from);
	return (long)strlen(to);
}

/* The module. The simulator sets parameters by sim_param_NAME. */
struct module;
struct kernel_param {
	void *arg;
};
struct kernel_param_ops {
	int (*set)(const char *text, const struct kernel_param *param);
	int (*get)(char *buffer, const struct kernel_param *param);
};

#define THIS_MODULE			((struct module *)0)
#define module_param(name, type, mode)	extern void *const sim_param_##name; void *const sim_param_##name = &name
#define module_param_named(name, value, type, mode)	\
	extern void *const sim_param_##name; void *const sim_param_##name = &value
#define module_param_cb(name, ops, arg, mode)	\
	extern const void *const sim_cb_##name; const void *const sim_cb_##name = ops; \
	extern void *const sim_param_##name; void *const sim_param_##name = arg
#define sysfs_match_string(names, text)	((void)(names), (void)(text), -EINVAL)
#define sysfs_emit(buffer, ...)		sprintf(buffer, __VA_ARGS__)
#define MODULE_PARM_DESC(name, text)	struct sim_unused
#define MODULE_DESCRIPTION(x)		struct sim_unused
#define MODULE_AUTHOR(x)		struct sim_unused
#define MODULE_LICENSE(x)		struct sim_unused
#define MODULE_VERSION(x)		struct sim_unused
#define module_init(function)	extern int (*const sim_module_init)(void); int (*const sim_module_init)(void) = function
#define module_exit(function)	extern void (*const sim_module_exit)(void); void (*const sim_module_exit)(void) = function

#endif /* SIM_BASE_H */
