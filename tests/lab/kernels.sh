#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Provides stock Debian kernels without installing any.
#
#   kernels.sh image SERIES     prints a directory with boot/vmlinuz-RELEASE,
#                               boot/vmlinux-RELEASE (unpacked, where possible)
#                               and lib/modules/RELEASE
#   kernels.sh headers SERIES   prints a directory for `make -C DIR M=...`
#   kernels.sh source SERIES    prints the path of linux-source-SERIES.tar.xz
#
# SERIES is 6.1 or 6.12, and for the source also 7.x: the newest 7 that Debian's
# unstable had when it was first asked for. The packages are downloaded with the machine's own
# apt configuration (mirrors, proxies, keys), from which a private copy is
# derived, and unpacked into a cache; neither that configuration nor the
# machine's list of installed packages is touched. Image and headers are
# fetched together, so they always match. Progress goes to standard error,
# the path alone to standard output.

set -eu

usage()
{
	echo "usage: ${0##*/} image|headers|source 6.1|6.12, or source 7.x" >&2
	exit 2
}

fail()
{
	echo "${0##*/}: $*" >&2
	exit 1
}

say()
{
	echo "${0##*/}: $*" >&2
}

[ $# -eq 2 ] || usage
what=$1
series=$2

. /etc/os-release
case $series in
6.1) suite=${VERSION_CODENAME:-bookworm} ;;
6.12) suite=${VERSION_CODENAME:-bookworm}-backports ;;
7.*) suite=sid ;;
*) usage ;;
esac
case $what-$series in
source-*) ;;
*-7.*) usage ;;
image-* | headers-*) ;;
*) usage ;;
esac

cache=${IBRELK_CACHE:-${XDG_CACHE_HOME:-${HOME:?}/.cache}/ibrelk}
mkdir -p "$cache"
cache=$(cd "$cache" && pwd -P)
packages=$cache/kernel-$series
source=$cache/source-$series
apt=$cache/apt-$suite

work=
cleanup()
{
	[ -z "$work" ] || rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# One-line entries (`deb [options] uri suite component...`): keeps those of the
# distribution's release, with the suite replaced when backports are wanted.
derive_list()
{
	awk -v release="${VERSION_CODENAME:-bookworm}" -v suite="$suite" '
		function wanted(s) {
			if (suite == release)
				return s == release || index(s, release "-") == 1 ||
				       index(s, release "/") == 1
			return s == release
		}
		/^[ \t]*deb[ \t]/ {
			sub(/#.*/, "")
			line = $0
			sub(/^[ \t]*deb[ \t]+/, "", line)
			options = ""
			if (match(line, /^\[[^]]*\][ \t]*/)) {
				options = substr(line, 1, RLENGTH)
				line = substr(line, RLENGTH + 1)
			}
			n = split(line, word)
			if (n < 3 || !wanted(word[2]))
				next
			print "deb " options word[1] " " \
			      (suite == release ? word[2] : suite) " main"
		}' "$1"
}

# The same for deb822 stanzas. A stanza's Suites field, which may go on over
# several lines, is collected, filtered and printed last.
derive_sources()
{
	awk -v release="${VERSION_CODENAME:-bookworm}" -v suite="$suite" '
		function flush_stanza(   i, n, word, suites) {
			n = split(all, word)
			suites = ""
			for (i = 1; i <= n; i++) {
				if (word[i] == release)
					suites = suites " " suite
				else if (suite == release && index(word[i], release "-") == 1)
					suites = suites " " word[i]
			}
			if (suites != "" && binary)
				printf "%sTypes: deb\nComponents: main\nSuites:%s\n\n", body, suites
			body = all = field = ""
			binary = 0
		}
		/^#/ { next }
		/^[ \t]*$/ { flush_stanza(); next }
		/^[^ \t]/ { field = tolower($1); sub(/:.*/, "", field) }
		{
			text = $0
			if ($0 ~ /^[^ \t]/)
				sub(/^[^:]*:/, "", text)
		}
		field == "types" { if (text ~ /(^|[ \t])deb([ \t]|$)/) binary = 1; next }
		field == "suites" { all = all " " text; next }
		field == "components" { next }
		{ body = body $0 "\n" }
		END { flush_stanza() }' "$1"
}

# Writes the private apt configuration for $suite and fetches its package lists.
apt_setup()
{
	eval "$(apt-config shell list Dir::Etc::sourcelist/f parts Dir::Etc::sourceparts/d)"
	rm -rf "$apt"
	mkdir -p "$apt/sources" "$apt/none" "$apt/lists/partial" "$apt/cache/archives/partial"
	if [ -f "${list:-}" ]; then
		derive_list "$list" >"$apt/sources/main.list"
	fi
	for entry in "${parts:-}"/*.list; do
		[ -f "$entry" ] || continue
		derive_list "$entry" >"$apt/sources/${entry##*/}"
	done
	for entry in "${parts:-}"/*.sources; do
		[ -f "$entry" ] || continue
		derive_sources "$entry" >"$apt/sources/${entry##*/}"
	done
	cat "$apt"/sources/* 2>/dev/null | grep -q . ||
		fail "the machine's apt configuration has no entry for ${VERSION_CODENAME:-bookworm}"
	cat >"$apt/apt.conf" <<-END
		Dir::Etc::sourcelist "/dev/null";
		Dir::Etc::sourceparts "$apt/sources";
		Dir::Etc::preferences "/dev/null";
		Dir::Etc::preferencesparts "$apt/none";
		Dir::State::lists "$apt/lists";
		Dir::Cache "$apt/cache";
		APT::Sandbox::User "root";
		Acquire::Languages "none";
		Acquire::Retries "3";
		#clear APT::Update::Pre-Invoke;
		#clear APT::Update::Post-Invoke;
		#clear APT::Update::Post-Invoke-Success;
	END
	say "fetching the package lists of $suite"
	# A source that is no mirror of Debian may well lack the suite.
	apt-get -c "$apt/apt.conf" -q=2 update >&2 ||
		say "not all package sources have $suite"
}

# Downloads the named packages into the current directory.
apt_download()
{
	say "downloading $*"
	apt-get -c "$apt/apt.conf" -q=2 download "$@" >&2 ||
		fail "cannot download $* from $suite"
}

candidate()
{
	apt-cache -c "$apt/apt.conf" policy "$1" |
		sed -n 's/^  Candidate: \(.*\)/\1/p'
}

# The newest release of the series for which image and headers are in step: the
# signed images of a new version can appear later than its headers.
newest_release()
{
	pattern=$(echo "$series" | sed 's/\./\\./g')
	for release in $(apt-cache -c "$apt/apt.conf" pkgnames "linux-image-$series" |
		sed -n "s/^linux-image-\\($pattern\\.[0-9][0-9.]*\\(+[a-z0-9]*\\)\\{0,1\\}\\(-[0-9]*\\)\\{0,1\\}-amd64\\)\$/\\1/p" |
		sort -rV); do
		version=$(candidate "linux-image-$release")
		if [ -n "$version" ] && [ "$version" = "$(candidate "linux-headers-$release")" ]; then
			echo "$release"
			return
		fi
	done
}

dependencies()
{
	dpkg-deb -f "$1" Depends | tr ',' '\n' |
		sed -n 's/^ *\(linux-\(headers\|kbuild\)-[^ ]*\).*/\1/p'
}

# Headers point at their common part and at kbuild by absolute names; make
# those name the cache instead.
relocate_headers()
{
	find "$1/usr/src" "$1/usr/lib" "$1/lib/modules" -type l | while read -r link; do
		target=$(readlink "$link")
		case $target in
		/usr/src/* | /usr/lib/* | /lib/modules/*) ln -sfn "$2$target" "$link" ;;
		esac
	done
	for file in "$1"/usr/src/*/Makefile "$1"/usr/src/*/.kernelvariables; do
		[ -f "$file" ] || continue
		sed -i "s,\\(^\\|[ =]\\)/usr/src/,\\1$2/usr/src/,g" "$file"
	done
	# Some headers carry the kernel's type information, from which a module
	# build would make its own with a tool that need not be installed.
	rm -f "$1"/usr/src/linux-headers-*/vmlinux
}

number_at()
{
	od -An "-tu$3" "-j$2" "-N$3" "$1" | tr -d ' '
}

# Takes the kernel proper out of its compressed image, as the x86 boot protocol
# describes it. QEMU can start that directly, which halves the time of a boot:
# an emulated machine is slow to decompress. Without the right tool on this
# machine, the image has to do.
extract_kernel()
{
	start=$((($(number_at "$1" 497 1) + 1) * 512 + $(number_at "$1" 584 4)))
	# The last four bytes of the payload are its uncompressed size.
	length=$(($(number_at "$1" 588 4) - 4))
	for tool in xz zstd gzip lz4; do
		if tail -c +$((start + 1)) "$1" | head -c $length | $tool -dc >"$2" 2>/dev/null; then
			return
		fi
	done
	rm -f "$2"
	say "cannot unpack ${1##*/} (is zstd missing?); nodes will boot more slowly"
}

fetch_packages()
{
	PATH=$PATH:/usr/sbin:/sbin
	command -v depmod >/dev/null || fail "needs depmod: install kmod"
	command -v xz >/dev/null || fail "needs xz: install xz-utils"
	apt_setup
	work=$(mktemp -d "$cache/.kernel-$series.XXXXXX")
	release=$(newest_release)
	[ -n "$release" ] || fail "$suite has no linux-image-$series.* with matching headers"
	mkdir "$work/debs"
	cd "$work/debs"
	apt_download "linux-image-$release" "linux-headers-$release"
	# Dependencies are names of packages and hold no spaces.
	# shellcheck disable=SC2046
	apt_download $(dependencies linux-headers-*.deb)
	say "unpacking kernel $release"
	for deb in *.deb; do
		dpkg-deb -x "$deb" "$work/tree"
	done
	cd "$cache"
	relocate_headers "$work/tree" "$packages"
	extract_kernel "$work/tree/boot/vmlinuz-$release" "$work/tree/boot/vmlinux-$release"
	# A guest under emulation is slow to decompress what it loads.
	find "$work/tree/lib/modules" -name '*.ko.xz' -print0 | xargs -0r -n 100 -P "$(nproc)" xz -d
	depmod -b "$work/tree" "$release"
	echo "$release" >"$work/tree/release"
	chmod 755 "$work/tree"
	mv -T "$work/tree" "$packages"
	rm -rf "$apt"
}

# Of the suite, where the series is not told to the last digit.
newest_source()
{
	case $series in
	*.x)
		apt-cache -c "$apt/apt.conf" pkgnames "linux-source-${series%x}" |
			grep -x "linux-source-${series%%.*}\.[0-9]*" | sort -V | tail -n 1
		;;
	*) echo "linux-source-$series" ;;
	esac
}

source_tarball()
{
	for file in "$source"/usr/src/linux-source-*.tar.xz; do
		[ ! -f "$file" ] || echo "$file"
	done
}

fetch_source()
{
	apt_setup
	work=$(mktemp -d "$cache/.source-$series.XXXXXX")
	mkdir "$work/debs"
	cd "$work/debs"
	package=$(newest_source)
	[ -n "$package" ] || fail "$suite has no linux-source-$series"
	apt_download "$package"
	dpkg-deb -x ./*.deb "$work/tree"
	cd "$cache"
	chmod 755 "$work/tree"
	mv -T "$work/tree" "$source"
	rm -rf "$apt"
}

# Two callers may want the same thing at once: the second waits and finds it done.
locked()
{
	exec 9>"$cache/.lock"
	flock 9
}

case $what in
source)
	tarball=$(source_tarball)
	if [ -z "$tarball" ]; then
		locked
		tarball=$(source_tarball)
		[ -n "$tarball" ] || {
			fetch_source
			tarball=$(source_tarball)
		}
		[ -n "$tarball" ] || fail "linux-source-$series holds no source"
	fi
	echo "$tarball"
	;;
*)
	if [ ! -f "$packages/release" ]; then
		locked
		[ -f "$packages/release" ] || fetch_packages
	fi
	if [ "$what" = image ]; then
		echo "$packages"
	else
		echo "$packages/usr/src/linux-headers-$(cat "$packages/release")"
	fi
	;;
esac
