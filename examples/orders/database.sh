#!/usr/bin/env bash
# Starts a private PostgreSQL in a new folder and prints its address. Installs it first if it is missing and root runs this.
# The server stops, and its folder is removed, when this script ends (Ctrl-C) or the pipe on its standard input closes.
#
# The server listens on a socket in its folder and on no port.
set -euo pipefail

fail() {
    echo "database.sh: $*" >&2
    exit 1
}

# Prints the folder of the newest installed server's programs.
programs() {
    local initdb
    initdb=$(ls -d /usr/lib/postgresql/*/bin/initdb /usr/pgsql-*/bin/initdb 2>/dev/null | sort -V | tail -n 1 || true)
    [[ -n $initdb ]] || initdb=$(command -v initdb || true)
    [[ -n $initdb ]] && dirname "$(readlink -f "$initdb")"
}

# Installs the server, and keeps Debian from starting one on port 5432.
install_server() {
    [[ $(id -u) == 0 ]] || fail "PostgreSQL is missing, and installing it needs root: install the package" \
        "postgresql (postgresql-server on dnf), or use SQLite: --database sqlite:///tmp/orders.db?mode=rwc"
    command -v apt-get >/dev/null || fail "PostgreSQL is missing: install it with the system's package manager"
    echo "database.sh: PostgreSQL is missing: installing it" >&2
    local no_cluster=/etc/postgresql-common/createcluster.d/orders-example.conf
    mkdir -p "$(dirname "$no_cluster")"
    echo "create_main_cluster = false" >"$no_cluster"
    export DEBIAN_FRONTEND=noninteractive
    # An outdated package list may suffice. If not, the installation fails with a message.
    apt-get update >&2 || true
    local status=0
    apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends postgresql >&2 || status=$?
    rm -f "$no_cluster"
    ((status == 0)) || fail "apt-get could not install postgresql"
}

bin=$(programs) || { install_server && bin=$(programs); } || fail "no initdb was found after the installation"

# Not below TMPDIR, because the path of a socket has at most 107 characters.
folder=$(mktemp -d /tmp/orders-database.XXXXXX)
as_owner=()
if [[ $(id -u) == 0 ]]; then
    # PostgreSQL refuses to run as root.
    id postgres >/dev/null 2>&1 || fail "there is no user postgres, as whom to run the server"
    chown postgres "$folder"
    as_owner=(setpriv --reuid=postgres --regid=postgres --clear-groups)
fi
server=
reader=
# shellcheck disable=SC2329 # called by the trap
stop() {
    trap - EXIT INT TERM
    # SIGQUIT stops at once, without a checkpoint.
    [[ -z $server ]] || { kill -QUIT "$server" 2>/dev/null && wait "$server"; } || true
    [[ -z $reader ]] || kill "$reader" 2>/dev/null || true
    rm -rf -- "$folder"
}
trap stop EXIT
trap 'exit 130' INT TERM

cd "$folder"
"${as_owner[@]}" "$bin/initdb" --pgdata=data --username=orders --auth=trust --encoding=UTF8 --no-sync >log 2>&1 \
    || fail "initdb failed: $(cat log)"
# The server has its own process group, so that Ctrl-C reaches this script alone. No fsync, since the data live as long
# as it runs.
setsid "${as_owner[@]}" "$bin/postgres" -D data -k "$folder" -c listen_addresses= -c fsync=off \
    -c max_connections=200 >>log 2>&1 </dev/null &
server=$!
for _ in $(seq 600); do
    "$bin/pg_isready" --quiet --host="$folder" && break
    kill -0 "$server" 2>/dev/null || fail "the server did not start: $(cat log)"
    sleep 0.1
done
"$bin/pg_isready" --quiet --host="$folder" || fail "the server does not answer: $(cat log)"

echo "postgres://orders@localhost/postgres?host=$folder"
if [[ -p /dev/stdin ]]; then
    # Reads until the parent process is gone. A background process has no standard input unless it gets one.
    exec 3<&0
    cat <&3 >/dev/null &
    reader=$!
else
    echo "database.sh: Ctrl-C stops it" >&2
fi
# Waits in the background, because a foreground process would delay the trap of a signal.
wait -n
