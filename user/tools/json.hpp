// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Writes JSON, and only that: the tools print a few flat objects, for which a library would be a dependency
// without a use. Commas and escapes are taken care of; that brackets match is up to the caller.
#pragma once

#include <charconv>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace tool
{

class Json
{
public:
	Json &begin_object()
	{
		return open('{');
	}
	Json &begin_object(std::string_view name)
	{
		return key(name).open('{');
	}
	Json &end_object()
	{
		return close('}');
	}
	Json &begin_array()
	{
		return open('[');
	}
	Json &begin_array(std::string_view name)
	{
		return key(name).open('[');
	}
	Json &end_array()
	{
		return close(']');
	}

	Json &value(std::string_view text)
	{
		separate();
		quote(text);
		return *this;
	}
	Json &value(const char *text)
	{
		return value(std::string_view(text));
	}
	Json &value(bool flag)
	{
		separate();
		text_ += flag ? "true" : "false";
		return *this;
	}
	template<std::integral T>
	Json &value(T number)
	{
		separate();
		text_ += std::to_string(number);
		return *this;
	}
	Json &value(double number)
	{
		char digits[32];

		separate();
		if (!std::isfinite(number)) {
			text_ += "null";
			return *this;
		}
		auto [end, error] =
			std::to_chars(digits, digits + sizeof(digits), number, std::chars_format::general, 9);
		text_.append(digits, error == std::errc() ? end : digits);
		return *this;
	}
	template<class T>
	Json &member(std::string_view name, T &&thing)
	{
		return key(name).value(std::forward<T>(thing));
	}

	/// The document so far.
	[[nodiscard]] const std::string &text() const
	{
		return text_;
	}

private:
	Json &open(char bracket)
	{
		separate();
		text_ += bracket;
		first_ = true;
		return *this;
	}
	Json &close(char bracket)
	{
		text_ += bracket;
		first_ = false;
		return *this;
	}
	Json &key(std::string_view name)
	{
		separate();
		quote(name);
		text_ += ':';
		first_ = true;
		return *this;
	}
	void separate()
	{
		if (!first_)
			text_ += ',';
		first_ = false;
	}
	void quote(std::string_view text)
	{
		static constexpr char hex[] = "0123456789abcdef";

		text_ += '"';
		for (char c : text) {
			auto byte = static_cast<unsigned char>(c);

			if (c == '"' || c == '\\') {
				text_ += '\\';
				text_ += c;
			} else if (byte < 0x20) {
				text_ += "\\u00";
				text_ += hex[byte >> 4];
				text_ += hex[byte & 15];
			} else {
				text_ += c;
			}
		}
		text_ += '"';
	}

	std::string text_;
	bool first_ = true;
};

} // namespace tool
