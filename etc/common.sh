# SPDX-License-Identifier: Apache-2.0
# common.sh - what etc/quickstart and tests/run share: packages, configuring, progress lines. Sourced, never run.
say() { printf '\033[1m==>\033[0m %s\n' "$*"; }
fail() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }

# need KIND...: install the packages of etc/packages of these kinds that are missing; as a plain user, name them and stop.
need() {
    local kind name missing=""
    while read -r kind name; do
        case " $* " in *" $kind "*) ;; *) continue ;; esac
        dpkg-query -W -f '${Status}\n' "$name" 2>/dev/null | grep -q '^install ok installed$' || missing="$missing $name"
    done < <(grep -v '^#' "$top/etc/packages")
    [ -z "$missing" ] && return 0
    if [ "$(id -u)" != 0 ]; then
        fail "these packages are missing; ask root for: apt-get install$missing"
    fi
    say "installing packages:$missing"
    export DEBIAN_FRONTEND=noninteractive
    local said
    said=$(mktemp) || fail "cannot make a temporary file"      # a name of its own: root writes here, and others can write the folder
    # shellcheck disable=SC2086
    apt-get install -y --no-install-recommends $missing >"$said" 2>&1 || {
        apt-get update >>"$said" 2>&1
        # shellcheck disable=SC2086
        apt-get install -y --no-install-recommends $missing >>"$said" 2>&1 || { tail -20 "$said" >&2; rm -f "$said"; fail "apt-get install failed"; }
    }
    rm -f "$said"
}

# want KIND...: the same for packages that may stay away: one that cannot be had is named, and its test is skipped.
want() {
    local kind name
    [ "$(id -u)" = 0 ] || return 0
    export DEBIAN_FRONTEND=noninteractive
    while read -r kind name; do
        case " $* " in *" $kind "*) ;; *) continue ;; esac
        dpkg-query -W -f '${Status}\n' "$name" 2>/dev/null | grep -q '^install ok installed$' && continue
        say "installing package: $name"
        timeout 600 apt-get install -y --no-install-recommends "$name" >/dev/null 2>&1 </dev/null || say "$name cannot be had: its test will be skipped"
    done < <(grep -v '^#' "$top/etc/packages")
    return 0
}

# configure_in DIR ARGS...: autoreconf where there is no configure yet, then configure in a build folder beside the source.
configure_in() {
    local dir=$1
    shift
    if [ ! -x "$top/configure" ] || [ "$top/configure.ac" -nt "$top/configure" ]; then
        local said
        said=$(cd "$top" && autoreconf -fi 2>&1 >/dev/null) || { printf '%s\n' "$said" >&2; fail "autoreconf failed"; }
    fi
    mkdir -p "$dir"
    if [ ! -f "$dir/config.status" ] || [ "$top/configure" -nt "$dir/config.status" ] || [ "$(cat "$dir/.configured" 2>/dev/null)" != "$*" ]; then
        (cd "$dir" && "$top/configure" -q "$@" >configure.out 2>&1) || { tail -20 "$dir/configure.out" >&2; fail "configure failed, see $dir/config.log"; }
        printf '%s' "$*" >"$dir/.configured"
    fi
}
