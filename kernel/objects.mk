# SPDX-License-Identifier: GPL-2.0-only
# What the module consists of: for ../Kbuild, and for the KUnit module, which is the same with the
# suites added.

ibr-objects := main.o chardev.o command.o ring.o memory.o pins.o user.o region.o atomic.o
ibr-objects += endpoint.o flow.o send.o recv.o message.o rendezvous.o
ibr-objects += match.o frag.o path.o drive.o stats.o
ibr-objects += device.o connect.o lane.o
ibr-objects += $(addprefix transport/,verbs.o mr.o rc.o uc.o ud.o auto.o loop.o)
ibr-objects += $(addprefix reliability/,conn.o send.o receive.o ack.o loss.o rtt.o timer.o credit.o)
ibr-objects += $(addprefix reliability/,congestion.o wire.o)
