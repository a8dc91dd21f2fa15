// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// What the other parts of the library need to know of an open device.
#pragma once

struct ibrelk_device {
	int fd;
};
