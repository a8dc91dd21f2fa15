// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// ibrelk: shows what the module does. Reads statistics and changes nothing.
#include <cstdio>
#include <exception>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "failure.hpp"
#include "show.hpp"

namespace
{

struct Options {
	std::string what = "all";
	bool json = false;
	bool counters = false;
};

template<class T>
std::vector<T> dump(const ibrelk::Device &device)
{
	return tool::need(device.dump<T>(), IBRELK_CALL_DEVICE, "cannot read statistics");
}

ibrelk::Device open_device()
{
	return tool::need(ibrelk::Device::open(), IBRELK_CALL_OPEN, "cannot open " IBRELK_DEVICE_PATH);
}

void print(const tool::Json &json)
{
	fmt::print("{}\n", json.text());
}

void show(const Options &options)
{
	const ibrelk::Device device = open_device();
	const bool all = options.what == "all";
	const bool endpoints = all || options.what == "endpoints";
	const bool paths = all || options.what == "paths";
	const bool ports = all || options.what == "ports";

	if (options.json) {
		tool::Json json;

		json.begin_object();
		if (ports)
			tool::ports_json(json, dump<ibrelk_port_info>(device));
		if (paths)
			tool::paths_json(json, dump<ibrelk_path_info>(device));
		if (endpoints)
			tool::endpoints_json(json, dump<ibrelk_endpoint_info>(device));
		print(json.end_object());
		return;
	}
	if (ports)
		fmt::print("{}{}", tool::ports_table(dump<ibrelk_port_info>(device), options.counters),
			all ? "\n" : "");
	if (paths)
		fmt::print("{}{}", tool::paths_table(dump<ibrelk_path_info>(device), options.counters),
			all ? "\n" : "");
	if (endpoints)
		fmt::print("{}", tool::endpoints_table(dump<ibrelk_endpoint_info>(device), options.counters));
}

void show_peers(const Options &options)
{
	const auto paths = dump<ibrelk_path_info>(open_device());

	if (options.json) {
		tool::Json json;

		json.begin_object();
		tool::peers_json(json, paths);
		print(json.end_object());
	} else {
		fmt::print("{}", tool::peers_table(paths));
	}
}

void show_query(const Options &options)
{
	const auto query = tool::need(open_device().query(), IBRELK_CALL_DEVICE, "cannot query the module");

	if (options.json) {
		tool::Json json;

		json.begin_object();
		tool::query_json(json, query);
		print(json.end_object());
	} else {
		fmt::print("{}", tool::query_text(query));
	}
}

// Works without a module too: then it tells only of the library.
void show_version(const Options &options)
{
	auto device = ibrelk::Device::open();
	auto query = device ? device->query() : ibrelk::failure(device.error());

	if (options.json) {
		tool::Json json;

		json.begin_object()
			.member("library", ibrelk_version())
			.member("abi_version", IBRELK_ABI_VERSION);
		if (query)
			tool::query_json(json, *query);
		print(json.end_object());
		return;
	}
	fmt::print("library {}, ABI {}\n", ibrelk_version(), IBRELK_ABI_VERSION);
	if (query)
		fmt::print("module ABI {}, protocol {}\n", query->abi_version, query->protocol_version);
	else
		fmt::print("module: {}\n", ibrelk_error_text(IBRELK_CALL_OPEN, query.error()));
}

} // namespace

int main(int argc, char **argv)
{
	CLI::App app("Shows what the ibrelk kernel module does.", "ibrelk");
	Options options;

	app.require_subcommand(1);
	app.set_version_flag("-V,--version", fmt::format("ibrelk {}", ibrelk_version()));

	auto *show_command = app.add_subcommand("show", "endpoints, paths and ports, with their statistics");
	auto *peers_command = app.add_subcommand("peers", "the nodes that there are paths to");
	auto *query_command = app.add_subcommand("query", "what the module can do, and its limits");
	auto *version_command = app.add_subcommand("version", "versions of library and module");

	show_command->add_option("WHAT", options.what, "endpoints, paths, ports or all")
		->check(CLI::IsMember({"endpoints", "paths", "ports", "all"}));
	show_command->add_flag("-c,--counters", options.counters, "all counters that are not zero");
	for (CLI::App *command : {show_command, peers_command, query_command, version_command})
		command->add_flag("-j,--json", options.json, "print JSON");

	try {
		app.parse(argc, argv);
	} catch (const CLI::ParseError &error) {
		return app.exit(error) == 0 ? tool::exit_ok : tool::exit_usage;
	}

	try {
		if (show_command->parsed())
			show(options);
		else if (peers_command->parsed())
			show_peers(options);
		else if (query_command->parsed())
			show_query(options);
		else
			show_version(options);
	} catch (const tool::Failure &failure) {
		fmt::print(stderr, "ibrelk: {}\n", failure.what());
		return failure.code();
	} catch (const std::exception &error) {
		fmt::print(stderr, "ibrelk: {}\n", error.what());
		return tool::exit_failed;
	}
	return tool::exit_ok;
}
