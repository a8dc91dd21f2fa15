// SPDX-License-Identifier: GPL-2.0-only
//
// What must be true of messages, whatever the code does: a naive model that knows the rules of protocol.rst
// and uapi.rst, and nothing of how they are kept.

#pragma once

#include "app.hpp"

namespace sim
{

// Nothing in this run may end a flow: what is accepted must arrive.
bool model_gentle();
// Must this message still arrive?
bool model_arrives(const Send &send);
// May a right command be refused with this error?
bool model_may_refuse(const Life &life, int error);
// A put, or a send, has completed: with what it may?
void model_put(const Put &put);
void model_sent(Send &send);
// A completion describes a message that a receive, or a probe, has found.
void model_described(const Receive &receive, const Send &send, const ibrelk_completion &completion);
// A probe has found nothing.
void model_nothing(const Receive &probe);
void model_received(Receive &receive, Send &send, const ibrelk_completion &completion, const u8 *data);
// When all has been said: what was matched with what, and what is missing.
void model_check();
// When everything is closed: each command has had its completion.
void model_check_closed();

} // namespace sim
