// SPDX-License-Identifier: GPL-2.0-only
/*
 * Part of the simulator only where coverage is measured (tests/coverage.sh): a run ends by _exit(), which would throw
 * away what it has counted.
 */
void __gcov_dump(void);
void __real__exit(int status) __attribute__((__noreturn__));
void __wrap__exit(int status) __attribute__((__noreturn__));

void __wrap__exit(int status)
{
	__gcov_dump();
	__real__exit(status);
}
