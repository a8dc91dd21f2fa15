// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "av.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "address.hpp"
#include "ep.hpp"
#include "provider.hpp"

namespace ibrelk::ofi
{

namespace
{

// How many addresses will come is a hint.
constexpr std::size_t expected_max = 65536;

} // namespace

fi_ops AddressVector::fid_ops = {
	.size = sizeof(fi_ops),
	.close = AddressVector::close,
	.bind = AddressVector::bind,
	.control = unsupported,
	.ops_open = unsupported,
	.tostr = unsupported,
	.ops_set = unsupported,
};

fi_ops_av AddressVector::av_ops = {
	.size = sizeof(fi_ops_av),
	.insert = AddressVector::insert,
	.insertsvc = AddressVector::insertsvc,
	.insertsym = AddressVector::insertsym,
	.remove = AddressVector::remove,
	.lookup = AddressVector::lookup,
	.straddr = AddressVector::straddr,
	.av_set = unsupported,
};

AddressVector::AddressVector(Domain &domain, const fi_av_attr &attr, void *context) :
	fid_av{}, of_(domain), domain_(domain.users()), reports_events_((attr.flags & FI_EVENT) != 0)
{
	entries_.reserve(std::min(attr.count, expected_max));
	fid = {.fclass = FI_CLASS_AV, .context = context, .ops = &fid_ops};
	ops = &av_ops;
}

int AddressVector::open(fid_domain *domain, fi_av_attr *attr, fid_av **av, void *context)
{
	// A vector with a name is one that processes share. rx_ctx_bits is for scalable endpoints, of which
	// there are none, and which some set for any (Mercury).
	if (attr->name)
		return -FI_ENOSYS;
	if (attr->flags & ~(FI_EVENT | FI_SYMMETRIC))
		return -FI_EINVAL;
	return guarded([&] {
		auto *made = new AddressVector(static_cast<Domain &>(*domain), *attr, context);

		if (attr->type == FI_AV_UNSPEC)
			attr->type = FI_AV_TABLE;
		*av = made;
		return 0;
	});
}

int AddressVector::close(Fid *any)
{
	auto *av = object_of<AddressVector, fid_av>(any);

	if (av->users_.any())
		return -FI_EBUSY;
	delete av;
	return 0;
}

int AddressVector::bind(Fid *any, Fid *other, std::uint64_t flags)
{
	auto *av = object_of<AddressVector, fid_av>(any);

	if (other->fclass != FI_CLASS_EQ || flags || av->events_)
		return -FI_EINVAL;
	av->events_ = object_of<EventQueue, fid_eq>(other);
	av->events_use_ = Use(av->events_->users());
	return 0;
}

std::optional<::ibrelk_addr> AddressVector::address(fi_addr_t index)
{
	const std::lock_guard guard(lock_);

	return index < entries_.size() ? entries_[index] : std::nullopt;
}

fi_addr_t AddressVector::find(const ::ibrelk_addr &address)
{
	const std::lock_guard guard(lock_);
	fi_addr_t found = FI_ADDR_NOTAVAIL;

	// The endpoint may know it by its service only, and so may we: then its life is any. The same life is
	// better.
	for (fi_addr_t index = 0; index < entries_.size(); index++) {
		const auto &entry = entries_[index];

		if (!entry || std::memcmp(entry->gid, address.gid, sizeof(address.gid)) != 0 ||
			entry->endpoint != address.endpoint)
			continue;
		if (entry->generation == address.generation)
			return index;
		if (found == FI_ADDR_NOTAVAIL && (entry->generation == 0 || address.generation == 0))
			found = index;
	}
	return found;
}

void AddressVector::attach(Endpoint &endpoint)
{
	const std::lock_guard guard(lock_);

	endpoints_.push_back(&endpoint);
	users_.add();
}

void AddressVector::detach(Endpoint &endpoint)
{
	{
		const std::lock_guard guard(lock_);

		std::erase(endpoints_, &endpoint);
	}
	// From now on it may be closed.
	users_.drop();
}

fi_addr_t AddressVector::add(const ::ibrelk_addr &address)
{
	const std::lock_guard guard(lock_);
	fi_addr_t index = entries_.size();

	if (holes_.empty()) {
		entries_.emplace_back();
	} else {
		// The lowest, as FI_AV_TABLE has it.
		index = holes_.front();
		std::pop_heap(holes_.begin(), holes_.end(), std::greater{});
		holes_.pop_back();
	}
	entries_[index] = address;
	for (Endpoint *endpoint : endpoints_)
		endpoint->meet();
	return index;
}

void AddressVector::skip()
{
	const std::lock_guard guard(lock_);

	entries_.emplace_back();
}

// Inserting is done when the call is; who wants to be told by an event is.
int AddressVector::finish(int inserted, void *context)
{
	if (!reports_events_)
		return inserted;

	const fi_eq_entry entry{
		.fid = &fid, .context = context, .data = static_cast<std::uint64_t>(inserted)};

	return static_cast<int>(std::min<ssize_t>(0, events_->add(FI_AV_COMPLETE, &entry, sizeof(entry))));
}

int AddressVector::insert(fid_av *any, const void *addresses, std::size_t count, fi_addr_t *indices,
	std::uint64_t flags, void *context)
{
	auto &av = static_cast<AddressVector &>(*any);
	int *const errors = flags & FI_SYNC_ERR ? static_cast<int *>(context) : nullptr;

	// Where events tell of errors, the context is theirs.
	if ((flags & ~(FI_MORE | FI_SYNC_ERR)) || (av.reports_events_ && (flags & FI_SYNC_ERR)))
		return -FI_EBADFLAGS;
	if ((flags & FI_SYNC_ERR) && !context)
		return -FI_EINVAL;
	if (av.reports_events_ && !av.events_)
		return -FI_ENOEQ;
	return guarded([&] {
		int inserted = 0, lost = 0;

		for (std::size_t i = 0; i < count; i++) {
			::ibrelk_addr address;
			fi_addr_t index = FI_ADDR_NOTAVAIL;

			std::memcpy(&address, static_cast<const std::byte *>(addresses) + i * sizeof(address),
				sizeof(address));
			if (is_peer(address)) {
				index = av.add(address);
				inserted++;
			} else if (!indices) {
				// Who does not ask for indices counts them.
				av.skip();
			}
			if (indices)
				indices[i] = index;
			if (errors)
				errors[i] = index == FI_ADDR_NOTAVAIL ? FI_EINVAL : 0;
			if (index != FI_ADDR_NOTAVAIL || !av.reports_events_)
				continue;
			// Whoever waits for the insertion gets these first.
			const int error = av.events_->add_error({.fid = &any->fid,
				.context = context,
				.data = i,
				.err = FI_EINVAL,
				.prov_errno = FI_EINVAL,
				.err_data = nullptr,
				.err_data_size = 0});
			lost = lost ? lost : error;
		}
		return lost ? lost : av.finish(inserted, context);
	});
}

int AddressVector::insertsvc(fid_av *any, const char *node, const char *service, fi_addr_t *index,
	std::uint64_t flags, void *context)
{
	return guarded([&] {
		const auto addresses = resolve(node, service, false);

		if (!addresses) {
			if (index)
				*index = FI_ADDR_NOTAVAIL;
			return -addresses.error();
		}

		const auto address = seen_from(static_cast<AddressVector &>(*any).of_.local(), *addresses);

		return insert(any, &address, 1, index, flags, context);
	});
}

// Nodes in a row, and of each of them services in a row.
int AddressVector::insertsym(fid_av *any, const char *node, std::size_t nodes, const char *service,
	std::size_t services, fi_addr_t *indices, std::uint64_t flags, void *context)
{
	if (!node || !service || (services && nodes > SIZE_MAX / services))
		return -FI_EINVAL;
	if (!services)
		nodes = 0;
	if (indices)
		std::fill_n(indices, nodes * services, FI_ADDR_NOTAVAIL);
	return guarded([&] {
		std::vector<::ibrelk_addr> addresses;

		for (std::size_t i = 0; i < nodes; i++) {
			const auto found = resolve_nth(node, i);

			if (!found)
				return -found.error();

			auto address = seen_from(static_cast<AddressVector &>(*any).of_.local(), *found);

			for (std::size_t j = 0; j < services; j++) {
				const auto number =
					endpoint_of_service((j ? raised(service, j) : service).c_str());

				if (!number)
					return -number.error();
				address.endpoint = *number;
				addresses.push_back(address);
			}
		}
		return insert(any, addresses.data(), addresses.size(), indices, flags, context);
	});
}

int AddressVector::remove(fid_av *any, fi_addr_t *indices, std::size_t count, std::uint64_t flags)
{
	auto &av = static_cast<AddressVector &>(*any);

	if (flags)
		return -FI_EBADFLAGS;
	return guarded([&] {
		const std::lock_guard guard(av.lock_);

		av.holes_.reserve(av.holes_.size() + count);
		for (std::size_t i = 0; i < count; i++) {
			const fi_addr_t index = indices[i];

			if (index >= av.entries_.size() || !av.entries_[index])
				return -FI_EINVAL;
			av.entries_[index].reset();
			av.holes_.push_back(index);
			std::push_heap(av.holes_.begin(), av.holes_.end(), std::greater{});
			for (Endpoint *endpoint : av.endpoints_)
				endpoint->forget(index);
		}
		return 0;
	});
}

int AddressVector::lookup(fid_av *av, fi_addr_t index, void *address, std::size_t *length)
{
	const auto entry = static_cast<AddressVector &>(*av).address(index);

	if (!entry)
		return -FI_EINVAL;
	std::memcpy(address, &*entry, std::min(*length, sizeof(*entry)));
	*length = sizeof(*entry);
	return 0;
}

const char *AddressVector::straddr(fid_av *, const void *address, char *text, std::size_t *length)
{
	::ibrelk_addr raw;
	char whole[IBRELK_ADDRESS_TEXT_MAX];

	std::memcpy(&raw, address, sizeof(raw));

	const int letters = ibrelk_address_to_text(&raw, whole, sizeof(whole));
	const auto bytes = static_cast<std::size_t>(letters) + 1;

	if (*length > 0) {
		const std::size_t fit = std::min(bytes, *length) - 1;

		std::memcpy(text, whole, fit);
		text[fit] = '\0';
	}
	*length = bytes;
	return text;
}

} // namespace ibrelk::ofi
