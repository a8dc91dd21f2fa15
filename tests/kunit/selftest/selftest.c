// SPDX-License-Identifier: GPL-2.0-only
/*
 * A KUnit module that misbehaves on request, so that selftest/run.sh can prove
 * that the runner notices: "what" names the misbehaviour of its middle test.
 */
#include <kunit/test.h>
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>

static char *what = "pass";
module_param(what, charp, 0);

static DEFINE_MUTEX(lock_a);
static DEFINE_MUTEX(lock_b);
static DEFINE_SPINLOCK(spin);
static DECLARE_COMPLETION(never);
static int *volatile victim;
static volatile int shift = 40;

static void use_after_free(void)
{
	victim = kmalloc(sizeof(*victim), GFP_KERNEL);
	kfree(victim);
	*victim = 1;
}

static void sleep_in_atomic(void)
{
	spin_lock(&spin);
	msleep(1);
	spin_unlock(&spin);
}

/* Never blocks here; lockdep sees that it could. */
static void deadlock(void)
{
	mutex_lock(&lock_a);
	mutex_lock(&lock_b);
	mutex_unlock(&lock_b);
	mutex_unlock(&lock_a);

	mutex_lock(&lock_b);
	mutex_lock(&lock_a);
	mutex_unlock(&lock_a);
	mutex_unlock(&lock_b);
}

static noinline void forget_memory(void)
{
	int i;

	/* Many, because the last pointers may linger in registers or stacks. */
	for (i = 0; i < 16; i++)
		victim = kmalloc(1234, GFP_KERNEL);
	victim = NULL;
}

static void free_armed_work(void)
{
	struct delayed_work *work = kzalloc(sizeof(*work), GFP_KERNEL);

	INIT_DELAYED_WORK(work, NULL);
	schedule_delayed_work(work, HZ * 1000);
	kfree(work);
}

/* Not even the guest's own watchdog gets to run then. */
static void spin_forever(void)
{
	local_irq_disable();
	for (;;)
		cpu_relax();
}

static void first(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, 1, 1);
}

static void middle(struct kunit *test)
{
	if (!strcmp(what, "fail"))
		KUNIT_EXPECT_EQ(test, 1, 2);
	else if (!strcmp(what, "skip"))
		kunit_skip(test, "because it was asked to");
	else if (!strcmp(what, "kasan"))
		use_after_free();
	else if (!strcmp(what, "atomic"))
		sleep_in_atomic();
	else if (!strcmp(what, "deadlock"))
		deadlock();
	else if (!strcmp(what, "leak"))
		forget_memory();
	else if (!strcmp(what, "odebug"))
		free_armed_work();
	else if (!strcmp(what, "ubsan"))
		victim = (int *)(long)(1 << shift);
	else if (!strcmp(what, "warn"))
		WARN_ON(1);
	else if (!strcmp(what, "die"))
		*(volatile int *)8 = 1;
	else if (!strcmp(what, "panic"))
		panic("asked to");
	else if (!strcmp(what, "hang"))
		wait_for_completion(&never);
	else if (!strcmp(what, "spin"))
		spin_forever();
}

static const int numbers[] = { 1, 2, 3 };

static const void *next_number(const void *prev, char *name)
{
	const int *next = prev ? (const int *)prev + 1 : numbers;

	if (next == numbers + ARRAY_SIZE(numbers))
		return NULL;
	snprintf(name, KUNIT_PARAM_DESC_SIZE, "number %d", *next);
	return next;
}

static void each_number(struct kunit *test)
{
	KUNIT_EXPECT_TRUE(test, strcmp(what, "param") ||
				*(const int *)test->param_value != 2);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(first),
	KUNIT_CASE(middle),
	KUNIT_CASE_PARAM(each_number, next_number),
	{}
};

static struct kunit_suite suite = {
	.name = "selftest",
	.test_cases = cases,
};

static struct kunit_case other_cases[] = {
	KUNIT_CASE(first),
	{}
};

static struct kunit_suite other_suite = {
	.name = "selftest_other",
	.test_cases = other_cases,
};

kunit_test_suites(&suite, &other_suite);

/* A document that promises nothing, and one that promises too much. */
static int __init selftest_init(void)
{
	if (!strcmp(what, "noplan"))
		pr_info("KTAP version 1\n"
			"    KTAP version 1\n"
			"    # Subtest: noplan\n"
			"    ok 1 alone\n"
			"ok 1 noplan\n");
	if (!strcmp(what, "short"))
		pr_info("KTAP version 1\n1..1\n"
			"    KTAP version 1\n"
			"    # Subtest: short\n"
			"    1..2\n"
			"    ok 1 alone\n"
			"ok 1 short\n");
	if (!strcmp(what, "noload"))
		return -EIO;
	return 0;
}
module_init(selftest_init);

static void __exit selftest_exit(void)
{
}
module_exit(selftest_exit);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Misbehaves so that the test runner can be tested");
