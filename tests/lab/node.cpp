// SPDX-License-Identifier: GPL-2.0-only
//
// See node.hpp.

#include "node.hpp"

#include "report.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>
#ifdef __x86_64__
#include <x86intrin.h>
#endif

namespace lab
{

namespace fs = std::filesystem;
using protocol::Type;

namespace
{

constexpr std::size_t output_bytes_max = std::size_t{64} << 20;

// Emulated processors share one clock. A guest that has little of the host's time, or none for half a minute,
// is no reason to report a stall or a lockup (after 60 s, of RCU and of a processor, both as in UML), nor to
// take the timer, whose interrupts come late, for a broken one.
const std::string kernel_parameters = std::string(kernel_parameters_common) +
	"tsc=reliable no_timer_check rcupdate.rcu_cpu_stall_timeout=60 watchdog_thresh=30 ";

// How fast the processors' time stamp counter is, which is the nodes', too. A guest finds out by itself, in
// the first milliseconds of its boot: one that the host stopped then was wrong by a factor of 70, and its
// clock ever after.
std::string clock_parameter()
{
#ifdef __x86_64__
	using Clock = std::chrono::steady_clock;
	struct Moment {
		Clock::time_point time;
		std::uint64_t ticks;
	};
	// Of some looks at both clocks the one that nothing came in between.
	const auto now = [] {
		Moment best{};
		Clock::duration shortest = Clock::duration::max();

		for (int look = 0; look < 10; look++) {
			const auto before = Clock::now();
			const std::uint64_t ticks = __rdtsc();
			const auto took = Clock::now() - before;

			if (took >= shortest)
				continue;
			shortest = took;
			best = {before + took / 2, ticks};
		}
		return best;
	};
	static const std::string parameter = [&] {
		const Moment first = now();
		std::this_thread::sleep_for(std::chrono::milliseconds(50));
		const Moment last = now();
		const std::chrono::duration<double, std::milli> passed = last.time - first.time;

		return fmt::format("tsc_early_khz={:.0f} ",
			static_cast<double>(last.ticks - first.ticks) / passed.count());
	}();

	return parameter;
#else
	return "";
#endif
}

// A guest that takes no command for this long is as good as dead.
constexpr int send_seconds_max = 20;
constexpr Duration patience{20};

// All that a node needs before it can see the host's modules, and what every
// test uses anyway. The CRC modules are asked for by soft-RoCE at run time.
const std::vector<std::string> node_modules = {
	"virtio_pci",
	"virtio_console",
	"9p",
	"9pnet_virtio",
	"overlay",
	"virtio_net",
	"crc32_generic",
	"crc32c_generic",
	"configfs",
	"rdma_rxe",
	"ib_uverbs",
	"rdma_ucm",
	"sch_netem",
	"sch_prio",
};

std::string seconds(Duration duration)
{
	return fmt::format("{:g} s", duration.count());
}

std::string tail(std::string_view text, std::size_t bytes)
{
	if (text.size() <= bytes)
		return std::string(text);
	text.remove_prefix(text.size() - bytes);
	return "[...]" + std::string(text.substr(text.find('\n') + 1));
}

// The host folders to mount afresh: none inside another.
std::vector<fs::path> shared_folders(const Options &options)
{
	std::vector<fs::path> wanted = options.shares;
	wanted.insert(wanted.end(), {LAB_SOURCE_TREE, LAB_BINARY_TREE, fs::current_path()});
	for (auto &path : wanted)
		path = fs::canonical(path);
	std::sort(wanted.begin(), wanted.end());
	std::vector<fs::path> folders;
	for (const auto &path : wanted) {
		const auto within = [&](const fs::path &outer) {
			return std::mismatch(outer.begin(), outer.end(), path.begin(), path.end()).first ==
				outer.end();
		};
		if (path != path.root_path() && std::none_of(folders.begin(), folders.end(), within))
			folders.push_back(path);
	}
	return folders;
}

} // namespace

Node::Node(int number, const Options &options, Kernel kernel, Wire &wire) :
	number_(number), options_(options), kernel_(std::move(kernel)), wire_(wire)
{
	if (!options_.log_dir.empty()) {
		fs::create_directories(options_.log_dir);
		const auto path = options_.log_dir / fmt::format("node{}.console", number_);
		console_log_ = File(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
		if (console_log_.fd() < 0)
			throw Error(fmt::format("cannot write to {}", path.string()));
	}
}

Node::~Node()
{
	crash();
}

File Node::make_initramfs() const
{
	Initramfs initramfs;
	initramfs.add_busybox();
	initramfs.add_file("/agent", LAB_AGENT);
	initramfs.add_file("/init", LAB_SOURCE_DIR "/node-init.sh");
	add_modules(initramfs, kernel_.module_files(node_modules));
	for (const auto *folder : {"/proc", "/sys", "/lower", "/writable", "/host", "/lib/modules"})
		initramfs.add_directory(folder);

	initramfs.add_text("/lab/config",
		fmt::format("NODE={}\nADDRESS={}/24\nMTU={}\nSOFT_ROCE={}\nMODULES='{}'\n", number_,
			Lab::address(number_), options_.mtu, options_.soft_roce ? 1 : 0,
			fs::canonical(kernel_.modules).string()));
	std::string hosts = "127.0.0.1 localhost\n::1 localhost\n";
	for (int node = 1; node <= options_.nodes; node++)
		hosts += fmt::format("{} node{}\n", Lab::address(node), node);
	initramfs.add_text("/lab/hosts", hosts);
	std::string shares;
	for (const auto &path : shared_folders(options_))
		shares += path.string() + "\n";
	initramfs.add_text("/lab/shares", shares);
	return initramfs.finish();
}

void Node::launch()
{
	if (alive())
		throw Error(fmt::format("node {} is already up", number_));
	end_life("");

	const File initramfs = make_initramfs();
	auto [console, console_inner] = File::socket_pair(SOCK_STREAM);
	auto [agent, agent_inner] = File::socket_pair(SOCK_STREAM);
	auto [monitor, monitor_inner] = File::socket_pair(SOCK_STREAM);
	errors_ = File::in_memory("errors");
	stop_ = File(eventfd(0, EFD_CLOEXEC));
	const timeval send_limit{send_seconds_max, 0};
	setsockopt(agent.fd(), SOL_SOCKET, SO_SNDTIMEO, &send_limit, sizeof send_limit);

	// Debian 12's QEMU leaves memory barriers out of the code of a machine that can have one processor
	// only (-d op shows it), although its devices run in another thread: the notification of a virtio
	// queue can be lost, and a node's network is dead from then on. So there is always room for a second.
	const int cpus_max = std::max(options_.cpus, 2);
	std::vector<std::string> command = words(fmt::format(
		"qemu-system-x86_64 -nodefaults -no-user-config -no-reboot -display none -machine q35 "
		"-accel tcg,thread=multi -cpu max -smp {},maxcpus={} -m {} -initrd /proc/self/fd/{} "
		"-chardev socket,id=console,fd={} -serial chardev:console "
		"-chardev socket,id=monitor,fd={} -mon chardev=monitor,mode=readline "
		"-device virtio-serial-pci "
		"-chardev socket,id=agent,fd={} -device virtserialport,chardev=agent,name={} "
		"-netdev dgram,id=wire,local.type=fd,local.str={} "
		"-device "
		"virtio-net-pci,id=nic,netdev=wire,mac={},host_mtu=9000,speed=10000,duplex=full,romfile=",
		options_.cpus, cpus_max, options_.memory_mb, initramfs.fd(), console_inner.fd(),
		monitor_inner.fd(), agent_inner.fd(), protocol::port_name, wire_.descriptor(number_),
		Wire::mac(number_)));
	command.insert(command.end(),
		{"-kernel", kernel_.image, "-append",
			kernel_parameters + clock_parameter() + options_.append});
	for (int numa = 0; options_.numa_nodes > 1 && numa < options_.numa_nodes; numa++) {
		const std::string memory = fmt::format("memory-backend-ram,id=ram{},size={}M", numa,
			options_.memory_mb / options_.numa_nodes);
		const std::string place = fmt::format("node,nodeid={0},memdev=ram{0}{1}", numa,
			numa == 0 ? fmt::format(",cpus=0-{}", cpus_max - 1) : "");
		command.insert(command.end(), {"-object", memory, "-numa", place});
	}
	const auto add_folder = [&](const std::string &tag, const fs::path &path) {
		// A comma ends a value in QEMU's options, two are one.
		std::string name;
		for (const char c : path.string())
			name += c == ',' ? std::string(",,") : std::string(1, c);
		const std::string folder = fmt::format(
			"local,id={},path={},security_model=none,readonly=on,multidevs=remap", tag, name);
		const std::string device = fmt::format("virtio-9p-pci,fsdev={},mount_tag={}", tag, tag);
		command.insert(command.end(), {"-fsdev", folder, "-device", device});
	};
	add_folder("root", "/");
	int share = 0;
	for (const auto &path : shared_folders(options_))
		add_folder(fmt::format("share{}", share++), path);

	wire_.connect(number_);
	// Devices are the business of its first thread. Where programs poll on all nodes their processors
	// never rest, and each frame would wait until the host's scheduler lets that thread have its turn.
	emulator_ = Child(command,
		{initramfs.fd(), console_inner.fd(), agent_inner.fd(), monitor_inner.fd(),
			wire_.descriptor(number_)},
		errors_.fd(), true);
	console_socket_ = std::move(console);
	agent_socket_ = std::move(agent);
	monitor_socket_ = std::move(monitor);
	{
		const std::lock_guard lock(mutex_);
		decoder_ = {};
		launched_ = true;
		ending_ = false;
	}
	reader_ = std::thread([this] { listen(); });
}

void Node::wait_ready()
{
	std::unique_lock lock(mutex_);
	const bool in_time = wait(lock, options_.boot_limit, [&] { return ready_ || !launched_; });
	if (!launched_) {
		died_ = false; // reported right here
		throw Error(fmt::format("node {} died while it booted\n{}", number_, last_words()));
	}
	if (!in_time)
		throw TimedOut(fmt::format("node {} has not booted within {}\n{}", number_,
			seconds(options_.boot_limit), last_words()));
}

void Node::crash()
{
	end_life("[the lab cut the power]\n");
}

// Ends the emulator and everything that depends on it. Safe on a dead node.
void Node::end_life(const char *note)
{
	{
		const std::lock_guard lock(mutex_);
		ending_ = true;
	}
	emulator_.kill();
	wire_.disconnect(number_);
	if (!reader_.joinable())
		return;
	eventfd_write(stop_.fd(), 1);
	reader_.join();
	hear_console(note);
}

bool Node::alive()
{
	const std::lock_guard lock(mutex_);
	return launched_;
}

// The reader thread: takes in all that the emulator sends, until its end.
void Node::listen()
{
	static constexpr std::size_t buffer_bytes = 65536;
	std::string buffer(buffer_bytes, '\0');
	bool asked = false;
	pollfd fds[] = {{console_socket_.fd(), POLLIN, 0}, {agent_socket_.fd(), POLLIN, 0},
		{monitor_socket_.fd(), POLLIN, 0}, {stop_.fd(), POLLIN, 0}};
	while (fds[0].fd >= 0 || fds[1].fd >= 0) {
		poll(fds, std::size(fds), asked ? 0 : -1);
		if (fds[3].revents)
			asked = true;
		bool heard = false;
		for (std::size_t i = 0; i < 3; i++) {
			if (fds[i].fd < 0 || !fds[i].revents)
				continue;
			const ssize_t n = read(fds[i].fd, buffer.data(), buffer.size());
			if (n <= 0) {
				fds[i].fd = -1;
				continue;
			}
			heard = true;
			const std::string_view bytes(buffer.data(), static_cast<std::size_t>(n));
			if (i == 0)
				hear_console(bytes);
			if (i != 1)
				continue;
			const std::lock_guard lock(mutex_);
			decoder_.feed(bytes.data(), bytes.size());
			while (const auto frame = decoder_.next())
				receive(*frame);
		}
		if (asked && !heard)
			break;
	}
	const std::lock_guard lock(mutex_);
	launched_ = ready_ = false;
	died_ = died_ || !ending_;
	for (auto &[id, job] : jobs_)
		job->lost = true;
	jobs_.clear();
	changed_.notify_all();
}

void Node::hear_console(std::string_view bytes)
{
	const std::lock_guard lock(mutex_);
	console_ += bytes;
	if (console_log_.fd() >= 0)
		console_log_.write_all(bytes);
	changed_.notify_all();
}

// mutex_ held.
void Node::receive(const protocol::Frame &frame)
{
	if (frame.type == Type::hello)
		ready_ = true;
	const auto found = jobs_.find(frame.job);
	if (found != jobs_.end()) {
		JobState &job = *found->second;
		if (frame.type == Type::threads) {
			job.threads = frame.payload;
		} else if (frame.type == Type::output) {
			if (job.output.size() < output_bytes_max) {
				job.output += frame.payload;
				if (job.output.size() >= output_bytes_max)
					job.output += "\n[the lab keeps no more of this output]\n";
			}
		} else if (frame.type == Type::exited) {
			job.status = std::stoi(frame.payload);
			job.ended = true;
			job.end = Clock::now();
			jobs_.erase(found);
		}
	}
	changed_.notify_all();
}

void Node::send(Type type, std::uint32_t job, std::string_view payload)
{
	const std::lock_guard lock(send_mutex_);
	const std::string bytes = protocol::encode(type, job, payload);
	for (std::size_t sent = 0; sent < bytes.size();) {
		const ssize_t n =
			::send(agent_socket_.fd(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
		if (n < 0 && errno != EINTR)
			throw Error(fmt::format(
				"node {} takes no more commands: {}", number_, std::strerror(errno)));
		sent += static_cast<std::size_t>(std::max<ssize_t>(n, 0));
	}
}

std::string Node::last_words()
{
	std::string words = errors_.read_all();
	if (!words.empty())
		words = "its emulator said:\n" + words + "\n";
	return words + "its console ends with:\n" + tail(console_, 4000);
}

Job Node::start(const std::string &command, Terminal terminal)
{
	auto state = std::make_shared<JobState>();
	{
		const std::lock_guard lock(mutex_);
		if (!ready_)
			throw Error(fmt::format("node {} is down and cannot run `{}`\n{}", number_, command,
				died_ ? last_words() : ""));
		state->id = next_job_++;
		state->command = command;
		state->begin = Clock::now();
		jobs_[state->id] = state;
	}
	send(Type::start, state->id,
		fmt::format("{} {}\n{}\n{}", terminal.rows, terminal.columns, fs::current_path().string(),
			command));
	return {shared_from_this(), state};
}

Result Node::run(const std::string &command, Duration limit)
{
	Job job = start(command, {});
	try {
		return job.wait(limit);
	} catch (const TimedOut &timeout) {
		job.kill(SIGKILL);
		try {
			job.wait(Duration(5));
		} catch (const TimedOut &) {
			throw TimedOut(std::string(timeout.what()) + "it does not even die when killed\n");
		}
		throw;
	}
}

std::string Node::run_ok(const std::string &command, Duration limit)
{
	Result result = run(command, limit);
	if (result.status != 0)
		throw Error(fmt::format("node {}: `{}` ended with status {}:\n{}", number_, command,
			result.status, result.output));
	return std::move(result.output);
}

// Where the threads of a job are, in the kernel's view.
std::string Node::whereabouts(JobState &job)
{
	std::unique_lock lock(mutex_);
	job.threads.clear();
	lock.unlock();
	try {
		send(Type::inspect, job.id, {});
	} catch (const Error &error) {
		return error.what();
	}
	lock.lock();
	wait(lock, Duration(10), [&] { return !job.threads.empty() || job.ended || job.lost; });
	if (!job.threads.empty())
		return "its threads, and where they are in the kernel:\n" + job.threads;
	if (job.ended)
		return "it has ended just now\n";
	return "the node does not answer either\n" + last_words();
}

void Node::set_link(bool up)
{
	const std::string command = fmt::format("set_link nic {}\n", up ? "on" : "off");
	if (!alive() || ::send(monitor_socket_.fd(), command.data(), command.size(), MSG_NOSIGNAL) < 0)
		throw Error(fmt::format("node {} is down and has no link", number_));
	run_ok(fmt::format("until [ \"$(cat /sys/class/net/eth0/carrier)\" = {} ]; do sleep 0.05; done",
		       up ? 1 : 0),
		patience);
}

std::string Node::console()
{
	const std::lock_guard lock(mutex_);
	return console_;
}

std::string Node::check()
{
	std::unique_lock lock(mutex_);
	std::string report;
	const std::string marker = fmt::format("lab: check {} of node{}", ++checks_, number_);
	if (ready_) {
		// The console is slower than the kernel. When this line has come
		// through, all that was said before has.
		lock.unlock();
		try {
			send(Type::mark, 0, "<5>" + marker + "\n");
		} catch (const Error &error) {
			report += fmt::format("{}\n", error.what());
		}
		lock.lock();
		if (!wait(lock, patience,
			    [&] { return !launched_ || console_.find(marker, checked_) != console_.npos; }))
			report += fmt::format("node {} has not answered within {}\n{}\n", number_,
				seconds(patience), last_words());
	}
	report += kernel_reports(std::string_view(console_).substr(checked_));
	checked_ = console_.size();
	if (died_)
		report += fmt::format("node {} died\n{}\n", number_, last_words());
	died_ = false;
	return report.empty() ? report : fmt::format("node{}:\n{}", number_, report);
}

Job::Job(std::shared_ptr<Node> node, std::shared_ptr<JobState> state) :
	node_(std::move(node)), state_(std::move(state))
{
}

Job &Job::operator=(Job &&other) noexcept
{
	std::swap(node_, other.node_);
	std::swap(state_, other.state_);
	return *this;
}

Job::~Job()
{
	try {
		if (node_ && running())
			kill(SIGKILL);
	} catch (const Error &) {
		// The node is gone, and the job with it.
	}
}

Result Job::wait(Duration limit)
{
	std::unique_lock lock(node_->mutex_);
	if (!node_->wait(lock, limit, [&] { return state_->ended || state_->lost; })) {
		lock.unlock();
		const std::string where = node_->whereabouts(*state_);
		throw TimedOut(fmt::format("node {}: `{}` has not ended within {}; output so far:\n{}\n{}",
			node_->number_, state_->command, seconds(limit), tail(output(), 4000), where));
	}
	if (!state_->ended)
		throw Error(fmt::format("node {} went down while `{}` ran; output so far:\n{}\n{}",
			node_->number_, state_->command, tail(state_->output, 4000), node_->last_words()));
	return {state_->status, state_->output, state_->end - state_->begin};
}

void Job::wait_for_output(std::string_view text, Duration limit)
{
	std::unique_lock lock(node_->mutex_);
	bool found = false;
	const bool in_time = node_->wait(lock, limit, [&] {
		found = state_->output.find(text) != std::string::npos;
		return found || state_->ended || state_->lost;
	});
	if (found)
		return;
	const std::string so_far = tail(state_->output, 4000);
	if (in_time)
		throw Error(fmt::format("node {}: `{}` ended without saying \"{}\"; it said:\n{}",
			node_->number_, state_->command, text, so_far));
	lock.unlock();
	throw TimedOut(fmt::format("node {}: `{}` has not said \"{}\" within {}; it said:\n{}\n{}",
		node_->number_, state_->command, text, seconds(limit), so_far, node_->whereabouts(*state_)));
}

void Job::kill(int signal)
{
	if (running())
		node_->send(Type::kill, state_->id, std::to_string(signal));
}

bool Job::running() const
{
	const std::lock_guard lock(node_->mutex_);
	return !state_->ended && !state_->lost;
}

std::string Job::output() const
{
	const std::lock_guard lock(node_->mutex_);
	return state_->output;
}

void Job::type(std::string_view bytes)
{
	node_->send(Type::input, state_->id, bytes);
}

void Job::resize(Terminal size)
{
	node_->send(Type::resize, state_->id, fmt::format("{} {}", size.rows, size.columns));
}

std::string Job::take_output(Duration limit)
{
	std::unique_lock lock(node_->mutex_);
	node_->wait(lock, limit, [&] { return !state_->output.empty() || state_->ended || state_->lost; });
	return std::exchange(state_->output, {});
}

} // namespace lab
