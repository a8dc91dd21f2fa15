// SPDX-License-Identifier: GPL-2.0-only
//
// The instruction by which a program in the guest tells the plugin (profile.cpp) to write down what was
// executed: one that does nothing, nopl 0x6962726b(%rax), which no compiler makes with this number.
#pragma once

constexpr unsigned char mark[] = {0x0f, 0x1f, 0x80, 0x6b, 0x72, 0x62, 0x69};
