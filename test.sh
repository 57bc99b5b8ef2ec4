#!/usr/bin/env bash
# Runs every check of this repository: formatting, vet, and all tests with the
# race detector, in the root module and in each nested one. Where tests are
# marked as not for the race detector, their packages run without it too.
#
#   ./test.sh         all of it; minutes on two cores
#   ./test.sh long    the same with ten times the random histories and every proof
#                     of docs/reliability.md at its full length (soaks, restarts,
#                     stale owners, each seeded mistake), then fuzzing and every
#                     benchmark once; an hour or two, with a summary in a file
#   ./test.sh speed   no test: compares the speed of small drains with what
#                     docs/performance/results.json has on record, in two minutes,
#                     and tells what is better or worse than the noise allows. Only
#                     "./test.sh speed -strict" fails where something is worse
#
# What the tests need and the machine lacks is installed where that is possible
# without asking (apt-get as root or by sudo without a password); elsewhere the
# missing things are named and nothing runs. Nothing is written into the
# checkout, but for the input that a fuzz target failed on.
#
# Environment: RAPID_CHECKS (random histories per test), CONSIGN_FUZZTIME (per
# fuzz target, default 30s), CONSIGN_TEST_POSTGRES (see internal/pgtest); of a long
# run CONSIGN_SOAK (of each soak, default 10m) and CONSIGN_SUMMARY (the file for its
# summary, default one in the directory for temporary files).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
exec </dev/null # nothing here may wait for an answer

mode=${1:-short}
case $mode in
short | long | speed) ;;
*)
	echo "usage: ./test.sh [long | speed [-strict]]" >&2
	exit 2
	;;
esac

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

say() { printf '\n==> %s\n' "$*"; }

# --- what the tests need ---

have_compiler() { # one that also finds the C library's headers
	local cc
	cc=$(go env CC)
	printf '#include <stdlib.h>\nint main(void) { return EXIT_SUCCESS; }\n' >"$scratch/probe.c"
	# $cc unquoted: it may carry options
	# shellcheck disable=SC2086
	command -v ${cc%% *} >/dev/null && $cc -o "$scratch/probe" "$scratch/probe.c" 2>/dev/null
}

have_postgres() { # the server's programs, where internal/pgtest looks too
	local dir bindir=
	if command -v pg_config >/dev/null; then bindir=$(pg_config --bindir); fi
	local IFS=:
	for dir in $PATH $bindir; do
		[[ -x $dir/initdb && -x $dir/postgres ]] && return
	done
	for dir in /usr/lib/postgresql/*/bin /usr/pgsql-*/bin /opt/postgresql*/bin /opt/postgresql/*/bin \
		/opt/homebrew/opt/postgresql*/bin /usr/local/opt/postgresql*/bin /Library/PostgreSQL/*/bin; do
		[[ -x $dir/initdb && -x $dir/postgres ]] && return
	done
	return 1
}

have_pgbouncer() { # where internal/pgtest looks too
	local dir
	local IFS=:
	for dir in $PATH /usr/sbin /usr/local/sbin /usr/local/bin /usr/bin /opt/homebrew/bin; do
		[[ -f $dir/pgbouncer && -x $dir/pgbouncer ]] && return
	done
	return 1
}

have_chromium() { # where the console's tests look
	local name
	for name in chromium chromium-browser google-chrome google-chrome-stable headless-shell; do
		if command -v "$name" >/dev/null; then return; fi
	done
	[[ -x "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome" ]]
}

# Programs in other languages are run as examples.
have_python() { command -v python3 >/dev/null && python3 -c 'import sqlite3' 2>/dev/null; }

have_git() { [[ ! -e .git ]] || command -v git >/dev/null; }

find_missing() { # sets missing to Debian's names of what is lacking
	missing=()
	if [[ $mode == speed ]]; then # needs the server alone
		have_postgres || missing+=(postgresql)
		return
	fi
	have_compiler || missing+=(gcc libc6-dev)
	have_postgres || missing+=(postgresql)
	have_pgbouncer || missing+=(pgbouncer)
	have_chromium || missing+=(chromium fonts-noto-core)
	have_git || missing+=(git)
	have_python || missing+=(python3)
	command -v node >/dev/null || missing+=(nodejs)
	command -v npm >/dev/null || missing+=(npm) # fetches what judges the console's pages
	command -v sqlite3 >/dev/null || missing+=(sqlite3)
	command -v psql >/dev/null || missing+=(postgresql-client)
}

as_root() { if [[ $(id -u) -eq 0 ]]; then "$@"; else sudo -n "$@"; fi; }

install() {
	say "installing: $*"
	# Debian's packages make a database cluster and start servers as services. The
	# tests start their own, so for this installation that is turned off.
	local dropin=/etc/postgresql-common/createcluster.d/consign-test.conf
	local policy=/usr/sbin/policy-rc.d ours=no
	as_root mkdir -p "${dropin%/*}"
	echo "create_main_cluster = false" | as_root tee "$dropin" >/dev/null
	if [[ ! -e $policy ]]; then
		ours=yes
		printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
		as_root chmod 755 "$policy"
	fi
	local status=0
	as_root apt-get -o DPkg::Lock::Timeout=300 -qq update &&
		as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 \
			-qq -y --no-install-recommends install "$@" || status=$?
	as_root rm -f "$dropin"
	if [[ $ours == yes ]]; then as_root rm -f "$policy"; fi
	return "$status"
}

if ! command -v go >/dev/null || ! command -v gofmt >/dev/null; then
	echo "Go is not in PATH. Install the version that go.mod names, or newer: https://go.dev/dl/" >&2
	exit 1
fi
find_missing
if ((${#missing[@]})); then
	if command -v apt-get >/dev/null && as_root true 2>/dev/null; then
		install "${missing[@]}" || echo "apt-get did not succeed" >&2
		find_missing
	fi
fi
if ((${#missing[@]})); then
	cat >&2 <<-TXT
		The tests need what this machine lacks (Debian's package names): ${missing[*]}
		  Debian, Ubuntu: sudo apt-get install ${missing[*]}
		  Fedora, RHEL:   sudo dnf install gcc glibc-devel postgresql-server postgresql pgbouncer git python3 nodejs npm sqlite chromium
		  macOS:          xcode-select --install; brew install postgresql@17 pgbouncer python node sqlite; brew install --cask google-chrome
	TXT
	exit 1
fi

# --- the guard of speed ---

if [[ $mode == speed ]]; then
	shift
	cd bench
	GOWORK=off go run ./cmd/compare -guard ../docs/performance/results.json "$@"
	exit
fi

# --- the checks ---

export CGO_ENABLED=1         # for the race detector and the SQLite driver in C
export GOWORK=off            # nothing outside the checkout takes part
export RAPID_NOFAILFILE=true # a failure's seed is printed instead
timeout=30m                  # per package: it ends what hangs, however slow the machine
if [[ $mode == long ]]; then
	export RAPID_CHECKS=${RAPID_CHECKS:-1000}
	export CONSIGN_EFFORT=long
	timeout=${CONSIGN_SOAK:+25h} # a soak may go on for a day
	timeout=${timeout:-2h}
	kept=${CONSIGN_SUMMARY:-${TMPDIR:-/tmp}/consign-proof-$(date -u +%Y%m%dT%H%M%SZ).txt}
else
	export CONSIGN_EFFORT=
fi
export CONSIGN_SUMMARY=$scratch/notes # a line from each proof, see internal/effort
: >"$CONSIGN_SUMMARY"

results=()
failures=0

step() { # step NAME COMMAND...: runs it, notes how it ended, goes on
	local name=$1 began=$SECONDS outcome=ok
	shift
	say "$name"
	if ! "$@"; then
		outcome=FAILED
		failures=$((failures + 1))
	fi
	results+=("$(printf '%-8s %5ds  %s' "$outcome" $((SECONDS - began)) "$name")")
}

check_format() {
	local files
	files=$(gofmt -l .) || return 1
	if [[ -n $files ]]; then
		printf 'not formatted:\n%s\n' "$files"
		return 1
	fi
}

# -p 2: two packages at once, each perhaps with a database server of its own.
# -count=1: the tests depend on more than the files that the cache looks at.
test_module() { (cd "$1" && go test -race -p 2 -count=1 -timeout "$timeout" ./... 2>&1 | tee -a "$scratch/tests"); }

# Some proofs search for minutes under the race detector and have nothing to do
# with races. Their files are marked "//go:build !race": the packages that have
# such test files are tested without it as well.
unraced() {
	(cd "$1" && find . -name '*_test.go' -not -path '*/testdata/*' -exec grep -lE '^//go:build .*!race' {} +) |
		while read -r file; do
			dir=$1/${file%/*} # in this module, not in one nested below it
			while [[ ! -e $dir/go.mod ]]; do dir=${dir%/*}; done
			if [[ $dir -ef $1 ]]; then echo "${file%/*}"; fi
		done | sort -u
}

test_unraced() {
	(cd "$1" && shift && go test -p 2 -count=1 -timeout "$timeout" "$@" 2>&1 | tee -a "$scratch/tests")
}

vet_module() { (cd "$1" && go vet ./...); }

fuzz_module() { # each target in turn: go test fuzzes one at a time
	local dir=$1 names=() first rest
	(cd "$dir" && go test -list '^Fuzz' ./...) >"$scratch/fuzz" || return 1
	while read -r first rest; do
		case $first in
		Fuzz*) names+=("$first") ;;
		ok) # the package that the names above it belong to
			for first in ${names[@]+"${names[@]}"}; do
				echo "$first in ${rest%%[[:space:]]*}"
				(cd "$dir" && go test -run '^$' -fuzz "^$first\$" -fuzztime "${CONSIGN_FUZZTIME:-30s}" \
					-timeout "$timeout" "${rest%%[[:space:]]*}") || return 1
			done
			names=()
			;;
		esac
	done <"$scratch/fuzz"
}

bench_module() { (cd "$1" && go test -run '^$' -bench . -benchtime 1x -p 1 -timeout "$timeout" ./...); }

modules=(.)
while read -r file; do
	modules+=("${file%/go.mod}")
done < <(find ./*/ -name go.mod -not -path '*/testdata/*' -not -path '*/.*/*' | sort)

changes() { if [[ -e .git ]]; then git -c "safe.directory=*" status --porcelain; fi; }

check_checkout() {
	local now
	now=$(changes)
	if [[ -n $now ]]; then
		printf 'the checks changed the checkout:\n%s\n' "$now"
		return 1
	fi
}

clean_before=no
if [[ -z $(changes) ]]; then clean_before=yes; fi
: >"$scratch/tests"

say "$(go version), $mode run, modules: ${modules[*]}"
step "gofmt" check_format
for dir in "${modules[@]}"; do
	step "go vet in $dir" vet_module "$dir"
	step "go test -race in $dir" test_module "$dir"
	packages=()
	while read -r package; do packages+=("$package"); done < <(unraced "$dir")
	if ((${#packages[@]})); then
		step "go test without -race in $dir: ${packages[*]}" test_unraced "$dir" "${packages[@]}"
	fi
done
if [[ $mode == long ]]; then
	for dir in "${modules[@]}"; do
		step "fuzzing in $dir" fuzz_module "$dir"
		step "each benchmark once in $dir" bench_module "$dir"
	done
fi
if [[ $clean_before == yes ]]; then step "the checkout is as it was" check_checkout; fi

# --- the summary ---

passed=$(grep -c '^ok[[:space:]]' "$scratch/tests" || true)
failed=$(grep -c '^FAIL[[:space:]]' "$scratch/tests" || true)
summary() {
	printf '%s\n' "${results[@]}"
	if [[ $mode == long ]]; then sort "$CONSIGN_SUMMARY"; else grep 'NOT SHOWN HERE' "$CONSIGN_SUMMARY" || true; fi
}

say "summary after $SECONDS s"
summary
if ((passed == 0)); then
	echo "no package was tested"
	failures=$((failures + 1))
fi
echo "packages: $passed passed, $failed failed"
if [[ $mode == long ]]; then
	if (($(wc -l <"$CONSIGN_SUMMARY") < 20)); then
		echo "the proofs have told too little of what they did"
		failures=$((failures + 1))
	fi
	{
		echo "$(go version), $(nproc 2>/dev/null || echo '?') cores, $(date -u), $SECONDS s, $failures steps failed"
		if [[ -e .git ]]; then git -c "safe.directory=*" log -1 --format='commit %H'; fi
		summary
	} >"$kept"
	echo "the summary is in $kept"
fi
if ((failures)); then
	echo "NOT GREEN: $failures of the steps above failed"
	exit 1
fi
echo "all green"
