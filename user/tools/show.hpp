// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// What the module tells about endpoints, paths, ports and itself, as tables for people and JSON for programs.
// Apart from the program that fetches it, so that it can be tested without a module.
#pragma once

#include <span>
#include <string>

#include <ibrelk/ibrelk.hpp>

#include "json.hpp"

namespace tool
{

using Endpoints = std::span<const ibrelk_endpoint_info>;
using Paths = std::span<const ibrelk_path_info>;
using Ports = std::span<const ibrelk_port_info>;

/// @p counters: below each line, the counters that are not zero.
std::string endpoints_table(Endpoints endpoints, bool counters);
std::string paths_table(Paths paths, bool counters);
std::string ports_table(Ports ports, bool counters);
/// Paths grouped by the node they lead to.
std::string peers_table(Paths paths);
std::string query_text(const ibrelk::Query &query);

/// Each adds an array, or for the query an object, under its own name.
void endpoints_json(Json &json, Endpoints endpoints);
void paths_json(Json &json, Paths paths);
void ports_json(Json &json, Ports ports);
void peers_json(Json &json, Paths paths);
void query_json(Json &json, const ibrelk::Query &query);

} // namespace tool
