/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The user-space side of kernel/reliability/port.h: the few kernel names that the pure code uses, with
 * the kernel's meaning, so that the same sources run under GoogleTest, the simulator and the fuzzers.
 * It serves C and C++ (tests include the pure headers inside extern "C"). The type-generic min() and
 * max() exist in C only, because as macros they would break the C++ library's headers; so the inline
 * functions of shared headers do without them.
 */
#ifndef PORT_USER_H
#define PORT_USER_H

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Types: the kernel's u64 is unsigned long long on every architecture. */
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char s8;
typedef signed short s16;
typedef signed int s32;
typedef signed long long s64;
typedef u8 __u8;
typedef u16 __u16;
typedef u32 __u32;
typedef u64 __u64;
typedef u16 __le16;
typedef u32 __le32;
typedef u64 __le64;
typedef u16 __be16;
typedef u32 __be32;
typedef u64 __be64;

#define U8_MAX	((u8)~0u)
#define U16_MAX	((u16)~0u)
#define U32_MAX	((u32)~0u)
#define S32_MAX	((s32)(U32_MAX >> 1))
#define U64_MAX	((u64)~0ull)
#define S64_MAX	((s64)(U64_MAX >> 1))

#define USEC_PER_SEC	1000000L
#define NSEC_PER_USEC	1000L
#define NSEC_PER_MSEC	1000000L
#define NSEC_PER_SEC	1000000000L

/* Byte order */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define port_le16(x)	((u16)(x))
#define port_le32(x)	((u32)(x))
#define port_le64(x)	((u64)(x))
#else
#define port_le16(x)	__builtin_bswap16(x)
#define port_le32(x)	__builtin_bswap32(x)
#define port_le64(x)	__builtin_bswap64(x)
#endif
#define cpu_to_le16(x)	port_le16(x)
#define cpu_to_le32(x)	port_le32(x)
#define cpu_to_le64(x)	port_le64(x)
#define le16_to_cpu(x)	port_le16(x)
#define le32_to_cpu(x)	port_le32(x)
#define le64_to_cpu(x)	port_le64(x)

/* Compiler */
#define likely(x)	__builtin_expect(!!(x), 1)
#define unlikely(x)	__builtin_expect(!!(x), 0)
#ifndef __always_inline
#define __always_inline	inline __attribute__((__always_inline__))
#endif
#define noinline	__attribute__((__noinline__))
#define __maybe_unused	__attribute__((__unused__))
#define __must_check	__attribute__((__warn_unused_result__))
#ifndef __cplusplus
#define fallthrough	__attribute__((__fallthrough__))
#endif
#define READ_ONCE(x)		(*(const volatile __typeof__(x) *)&(x))
#define WRITE_ONCE(x, value)	(*(volatile __typeof__(x) *)&(x) = (value))
#define BUILD_BUG_ON(condition)	static_assert(!(condition), #condition)
#define ARRAY_SIZE(array)	(sizeof(array) / sizeof((array)[0]))
#define container_of(pointer, type, member)	\
	((type *)((char *)(pointer) - offsetof(type, member)))

/* A broken invariant is a bug of ours, and a test must not survive it. */
static inline bool port_warn(bool condition, const char *what, const char *file, int line)
{
	if (unlikely(condition)) {
		fprintf(stderr, "%s:%d: WARN: %s\n", file, line, what);
		abort();
	}
	return condition;
}

#define WARN_ON(condition)	port_warn(!!(condition), #condition, __FILE__, __LINE__)
#define WARN_ON_ONCE(condition)	WARN_ON(condition)
#define rel_assert(condition)	port_warn(!(condition), "not: " #condition, __FILE__, __LINE__)

/* Arithmetic */
#define DIV_ROUND_UP(n, d)	(((n) + (d) - 1) / (d))
#define DIV_ROUND_UP_ULL(n, d)	(((u64)(n) + (d) - 1) / (d))
#ifndef __cplusplus
#define port_pick(a, op, b)	({ __typeof__(a) _a = (a); __typeof__(b) _b = (b); \
				   (void)(&_a == &_b); _a op _b ? _a : _b; })
#define min(a, b)		port_pick(a, <, b)
#define max(a, b)		port_pick(a, >, b)
#define clamp(v, lo, hi)	min(max(v, lo), hi)
#define max3(a, b, c)		max(max(a, b), c)
#define swap(a, b)		do { __typeof__(a) _t = (a); (a) = (b); (b) = _t; } while (0)
#endif
#define min_t(type, a, b)	port_min((type)(a), (type)(b))
#define max_t(type, a, b)	port_max((type)(a), (type)(b))
#define clamp_t(type, v, lo, hi)	min_t(type, max_t(type, v, lo), hi)
#define port_min(a, b)		__extension__({ __auto_type _a = (a); __auto_type _b = (b); \
						_a < _b ? _a : _b; })
#define port_max(a, b)		__extension__({ __auto_type _a = (a); __auto_type _b = (b); \
						_a > _b ? _a : _b; })
#ifdef __cplusplus
#define __auto_type	auto
#endif

/* Bits */
#define BIT(n)			(1ul << (n))
#define BIT_ULL(n)		(1ull << (n))
#define BITS_PER_LONG		((int)sizeof(long) * 8)
#define GENMASK_ULL(h, l)	((~0ull << (l)) & (~0ull >> (63 - (h))))

/* __ffs(), __ffs64(): index of the lowest set bit; the word must not be 0 */
static inline unsigned long __ffs(unsigned long word)
{
	return (unsigned long)__builtin_ctzl(word);
}

static inline unsigned long __ffs64(u64 word)
{
	return (unsigned long)__builtin_ctzll(word);
}

/* fls(), fls64(): 1 + the index of the highest set bit, or 0 */
static inline int fls(unsigned int x)
{
	return x ? 32 - __builtin_clz(x) : 0;
}

static inline int fls64(u64 x)
{
	return x ? 64 - __builtin_clzll(x) : 0;
}

/* The integer part of the square root, by Newton's method from above. */
static inline unsigned long int_sqrt(unsigned long x)
{
	unsigned long root = x, next = (x + 1) / 2;

	while (next < root) {
		root = next;
		next = (root + x / root) / 2;
	}
	return root;
}

static inline unsigned int hweight64(u64 x)
{
	return (unsigned int)__builtin_popcountll(x);
}

static inline u32 rol32(u32 x, unsigned int shift)
{
	return (x << (shift & 31)) | (x >> (-shift & 31));
}

static inline u64 rol64(u64 x, unsigned int shift)
{
	return (x << (shift & 63)) | (x >> (-shift & 63));
}

/*
 * crc32c() gives exactly what the kernel's does: the reflected Castagnoli polynomial, with neither the
 * seed nor the result inverted. A nibble at a time, so that the table stays readable.
 */
static inline u32 crc32c(u32 crc, const void *data, size_t len)
{
	static const u32 table[16] = {
		0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
		0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9, 0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
	};
	const u8 *p = (const u8 *)data;

	while (len--) {
		crc ^= *p++;
		crc = table[crc & 15] ^ (crc >> 4);
		crc = table[crc & 15] ^ (crc >> 4);
	}
	return crc;
}

static inline u32 rel_crc32c(u32 seed, const void *data, u32 len)
{
	return crc32c(seed, data, len);
}

/* Doubly linked lists, as linux/list.h. A deleted entry is poisoned, so that using it faults. */
struct list_head {
	struct list_head *next, *prev;
};

#define LIST_POISON1	((struct list_head *)0x100)
#define LIST_POISON2	((struct list_head *)0x122)

#define LIST_HEAD_INIT(name)	{ &(name), &(name) }
#define LIST_HEAD(name)		struct list_head name = LIST_HEAD_INIT(name)

static inline void INIT_LIST_HEAD(struct list_head *list)
{
	list->next = list;
	list->prev = list;
}

static inline void port_list_insert(struct list_head *entry, struct list_head *prev,
				    struct list_head *next)
{
	next->prev = entry;
	entry->next = next;
	entry->prev = prev;
	prev->next = entry;
}

static inline void port_list_unlink(struct list_head *entry)
{
	if (WARN_ON(entry->next->prev != entry || entry->prev->next != entry))
		return;
	entry->next->prev = entry->prev;
	entry->prev->next = entry->next;
}

static inline void list_add(struct list_head *entry, struct list_head *head)
{
	port_list_insert(entry, head, head->next);
}

static inline void list_add_tail(struct list_head *entry, struct list_head *head)
{
	port_list_insert(entry, head->prev, head);
}

static inline void list_del(struct list_head *entry)
{
	port_list_unlink(entry);
	entry->next = LIST_POISON1;
	entry->prev = LIST_POISON2;
}

static inline void list_del_init(struct list_head *entry)
{
	port_list_unlink(entry);
	INIT_LIST_HEAD(entry);
}

static inline void list_move(struct list_head *entry, struct list_head *head)
{
	port_list_unlink(entry);
	list_add(entry, head);
}

static inline void list_move_tail(struct list_head *entry, struct list_head *head)
{
	port_list_unlink(entry);
	list_add_tail(entry, head);
}

static inline int list_empty(const struct list_head *head)
{
	return head->next == head;
}

static inline int list_is_first(const struct list_head *entry, const struct list_head *head)
{
	return entry->prev == head;
}

static inline int list_is_last(const struct list_head *entry, const struct list_head *head)
{
	return entry->next == head;
}

static inline int list_is_singular(const struct list_head *head)
{
	return !list_empty(head) && head->next == head->prev;
}

static inline void port_list_splice(struct list_head *list, struct list_head *prev,
				    struct list_head *next)
{
	list->next->prev = prev;
	prev->next = list->next;
	list->prev->next = next;
	next->prev = list->prev;
}

static inline void list_splice(struct list_head *list, struct list_head *head)
{
	if (!list_empty(list))
		port_list_splice(list, head, head->next);
}

static inline void list_splice_tail(struct list_head *list, struct list_head *head)
{
	if (!list_empty(list))
		port_list_splice(list, head->prev, head);
}

static inline void list_splice_init(struct list_head *list, struct list_head *head)
{
	list_splice(list, head);
	INIT_LIST_HEAD(list);
}

static inline void list_splice_tail_init(struct list_head *list, struct list_head *head)
{
	list_splice_tail(list, head);
	INIT_LIST_HEAD(list);
}

#define list_entry(pointer, type, member)	container_of(pointer, type, member)
#define list_first_entry(head, type, member)	list_entry((head)->next, type, member)
#define list_last_entry(head, type, member)	list_entry((head)->prev, type, member)
#define list_first_entry_or_null(head, type, member)	\
	(list_empty(head) ? NULL : list_first_entry(head, type, member))
#define list_next_entry(pos, member)	list_entry((pos)->member.next, __typeof__(*(pos)), member)
#define list_prev_entry(pos, member)	list_entry((pos)->member.prev, __typeof__(*(pos)), member)
#define list_entry_is_head(pos, head, member)	(&(pos)->member == (head))
#define list_for_each(pos, head)	\
	for (pos = (head)->next; pos != (head); pos = pos->next)
#define list_for_each_safe(pos, n, head)	\
	for (pos = (head)->next, n = pos->next; pos != (head); pos = n, n = pos->next)
#define list_for_each_entry(pos, head, member)	\
	for (pos = list_first_entry(head, __typeof__(*pos), member);	\
	     !list_entry_is_head(pos, head, member); pos = list_next_entry(pos, member))
#define list_for_each_entry_reverse(pos, head, member)	\
	for (pos = list_last_entry(head, __typeof__(*pos), member);	\
	     !list_entry_is_head(pos, head, member); pos = list_prev_entry(pos, member))
#define list_for_each_entry_safe(pos, n, head, member)	\
	for (pos = list_first_entry(head, __typeof__(*pos), member), n = list_next_entry(pos, member); \
	     !list_entry_is_head(pos, head, member); pos = n, n = list_next_entry(n, member))

/* Lists with a single-pointer head, for hash tables */
struct hlist_node {
	struct hlist_node *next, **pprev;
};

struct hlist_head {
	struct hlist_node *first;
};

#define HLIST_HEAD_INIT		{ NULL }
#define HLIST_HEAD(name)	struct hlist_head name = HLIST_HEAD_INIT
#define INIT_HLIST_HEAD(head)	((head)->first = NULL)

static inline void INIT_HLIST_NODE(struct hlist_node *node)
{
	node->next = NULL;
	node->pprev = NULL;
}

static inline int hlist_unhashed(const struct hlist_node *node)
{
	return !node->pprev;
}

static inline int hlist_empty(const struct hlist_head *head)
{
	return !head->first;
}

static inline void port_hlist_unlink(struct hlist_node *node)
{
	*node->pprev = node->next;
	if (node->next)
		node->next->pprev = node->pprev;
}

static inline void hlist_del(struct hlist_node *node)
{
	port_hlist_unlink(node);
	node->next = (struct hlist_node *)LIST_POISON1;
	node->pprev = (struct hlist_node **)LIST_POISON2;
}

static inline void hlist_del_init(struct hlist_node *node)
{
	if (hlist_unhashed(node))
		return;
	port_hlist_unlink(node);
	INIT_HLIST_NODE(node);
}

static inline void hlist_add_head(struct hlist_node *node, struct hlist_head *head)
{
	node->next = head->first;
	if (head->first)
		head->first->pprev = &node->next;
	head->first = node;
	node->pprev = &head->first;
}

static inline void hlist_add_behind(struct hlist_node *node, struct hlist_node *prev)
{
	node->next = prev->next;
	prev->next = node;
	node->pprev = &prev->next;
	if (node->next)
		node->next->pprev = &node->next;
}

#define hlist_entry(pointer, type, member)	container_of(pointer, type, member)
#define port_hlist_entry_safe(pointer, type, member)	__extension__	\
	({ struct hlist_node *_p = (pointer); _p ? hlist_entry(_p, type, member) : NULL; })
#define hlist_for_each_entry(pos, head, member)	\
	for (pos = port_hlist_entry_safe((head)->first, __typeof__(*(pos)), member); pos;	\
	     pos = port_hlist_entry_safe((pos)->member.next, __typeof__(*(pos)), member))
#define hlist_for_each_entry_safe(pos, n, head, member)	\
	for (pos = port_hlist_entry_safe((head)->first, __typeof__(*(pos)), member);	\
	     pos && ((n = (pos)->member.next), 1);	\
	     pos = port_hlist_entry_safe(n, __typeof__(*(pos)), member))

#endif /* PORT_USER_H */
