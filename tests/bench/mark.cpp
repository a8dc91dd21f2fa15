// SPDX-License-Identifier: GPL-2.0-only
//
// See mark.hpp: executes it once.
int main()
{
	asm volatile("nopl 0x6962726b(%rax)");
}
