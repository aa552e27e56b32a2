#!/usr/bin/env bash
# Boots systemd in namespaces of its own, on an overlay over the root file system, and has it run the service of the Debian package: start, reload,
# upgrade, watchdog, removal. Run by tests/system/package.rs as
#
#     tests/systemd.sh PACKAGE.deb
set -euo pipefail

# The first process of the new namespaces.
if [ "${1:-}" = --boot ]; then
    . "$(dirname "$0")/overlay.sh"
    cp "$2" "$root/srv/first.deb"
    repack "$2" 9.9.9-1 "$root/srv/second.deb"
    cp "$(dirname "$0")/connect_until.py" "$root/srv/"
    mount -t sysfs -o ro sysfs "$root/sys"
    if [ "$(stat -f -c %T /sys/fs/cgroup)" = cgroup2fs ]; then
        mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
    else
        mount -t tmpfs tmpfs "$root/sys/fs/cgroup"
        mkdir "$root"/sys/fs/cgroup/{systemd,unified}
        mount -t cgroup -o none,name=systemd cgroup "$root/sys/fs/cgroup/systemd"
        mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup/unified"
    fi
    # Nothing but what systemd itself needs: no units, and no init scripts, of which one may have our port.
    rm -rf "$root"/etc/systemd/system/*.wants "$root"/etc/rc?.d
    mkdir -p "$root/etc/systemd/journald.conf.d"
    printf '[Journal]\nStorage=volatile\n' >"$root/etc/systemd/journald.conf.d/volatile.conf"
    ip link set lo up
    # Not by chroot: a service in a chroot could not have a user namespace of its own.
    mkdir "$root/srv/old"
    cd "$root"
    pivot_root . srv/old
    cd /
    umount --lazy /srv/old
    exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin \
        /lib/systemd/systemd --system --log-target=null --show-status=no --unit=multi-user.target
fi

folder=$(mktemp -d)
group=sluice-test-$$
# The service gets groups below one of this script.
for hierarchy in /sys/fs/cgroup /sys/fs/cgroup/systemd /sys/fs/cgroup/unified; do
    if [ -w "$hierarchy/cgroup.procs" ]; then mkdir "$hierarchy/$group"; fi
done
(
    for procs in /sys/fs/cgroup/"$group" /sys/fs/cgroup/*/"$group"; do
        if [ -d "$procs" ]; then echo "$BASHPID" >"$procs/cgroup.procs"; fi
    done
    exec setpriv --pdeathsig KILL unshare --mount --propagation private --pid --fork --kill-child --uts --ipc --net --cgroup "$0" --boot "$1"
) >"$folder/boot.log" 2>&1 </dev/null &
boot=$!
finish() {
    kill -KILL "$boot" 2>/dev/null || true
    wait "$boot" 2>/dev/null || true
    # Empty as soon as the last process of the namespaces has ended.
    for path in /sys/fs/cgroup/"$group" /sys/fs/cgroup/*/"$group"; do
        for _ in $(seq 50); do
            if [ ! -d "$path" ] || find "$path" -depth -type d -exec rmdir {} + 2>/dev/null; then break; fi
            sleep 0.1
        done
    done
    rm -rf "$folder"
}
trap finish EXIT

init() { pgrep -P "$boot" | head -n 1; }
inside() { nsenter --target "$(init)" --mount --pid --uts --ipc --net --cgroup --root --wd env DEBIAN_FRONTEND=noninteractive PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"; }

fail() {
    echo "systemd.sh: $*" >&2
    cat "$folder/boot.log" >&2
    inside systemctl --no-pager --full --lines 40 status sluice.service sluice.socket sluice-api.socket >&2 || true
    exit 1
}
expect() { "$@" || fail "failed: $*"; }

# Waits until a command succeeds.
await() {
    for _ in $(seq 300); do
        if "$@" >/dev/null 2>&1; then return; fi
        sleep 0.1
    done
    fail "still failing after 30 s: $*"
}
property() { inside systemctl show --value --property "$1" "${2:-sluice.service}"; }
has_status() { [ "$(property StatusText)" = "$1" ]; }
logs() { inside journalctl --no-pager --unit sluice.service | grep -q -- "$1"; }
is_running() { [[ $(inside systemctl is-system-running) =~ running|degraded ]]; }

await is_running

echo '== install'
inside dpkg -i /srv/first.deb
expect inside systemctl is-active sluice.service sluice.socket sluice-api.socket
expect has_status '0 switches connected'
await logs 'the service manager has opened \[::\]:6653, \[::\]:6633, 127.0.0.1:8653'
[ "$(property User)" = sluice ] || fail 'the service runs as another user'
inside sluice flow add 1 'priority=200,tcp,tp_dst=23,actions=drop' --name block-telnet

echo '== switches'
inside sluice emu --topo linear,3 --controller 127.0.0.1:6653 --plain >"$folder/emu.log" 2>&1 &
await has_status '3 switches connected'
inside sluice show switches
expect grep 'ok .* sluice.service runs' <(inside sluice doctor)
expect grep 'ok .* sluice.socket.* listen where the configuration says' <(inside sluice doctor)
inside sh -c 'echo "listen = [\"127.0.0.1:6653\", \"[::]:6633\"]" >/tmp/other.toml'
expect grep 'sluice.socket listens on \[::\]:6653, which is not in listen' <(inside sluice doctor --config /tmp/other.toml)

echo '== reload'
inside systemctl reload sluice
expect inside systemctl is-active sluice.service
await logs 'configuration reloaded'

echo '== upgrade, with connections all the time'
old=$(property MainPID)
inside python3 /srv/connect_until.py /tmp/stop 6653 8653 >"$folder/connections" &
connections=$!
inside dpkg -i /srv/second.deb
await has_status '3 switches connected'
inside touch /tmp/stop
expect wait "$connections"
cat "$folder/connections"
[ "$(property MainPID)" != "$old" ] || fail 'the old process still runs'
expect grep -q ' 0 refused' "$folder/connections"
inside sluice flow list | grep block-telnet

echo '== the watchdog'
inside mkdir -p /etc/systemd/system/sluice.service.d
inside sh -c "printf '[Service]\nWatchdogSec=4\nTimeoutAbortSec=1\n' >/etc/systemd/system/sluice.service.d/test.conf"
inside systemctl daemon-reload
inside systemctl restart sluice
await has_status '3 switches connected'
old=$(property MainPID)
inside kill -STOP "$old"
restarted() { [ "$(property NRestarts)" -ge 1 ] && [ "$(property MainPID)" != "$old" ]; }
await restarted
await has_status '3 switches connected'

echo '== exposure'
inside systemd-analyze --no-pager security sluice.service | tail -n 1

echo '== an error in the configuration'
inside cp /etc/sluice.toml /tmp/sluice.toml
inside sh -c 'echo "nonsense = 1" >>/etc/sluice.toml'
inside systemctl restart --no-block sluice
failing() { [ "$(property NRestarts)" -ge 8 ]; }
await failing
expect inside systemctl is-active sluice.socket sluice-api.socket
# The process has ended or is about to.
loop_is_reported() { grep -q 'restarts in a loop.*unknown key `nonsense`' <(inside sluice doctor); }
await loop_is_reported
inside cp /tmp/sluice.toml /etc/sluice.toml
await has_status '3 switches connected'

echo '== remove and install'
inside dpkg -r sluice-openflow
inside dpkg -i /srv/second.deb
expect inside systemctl is-active sluice.service sluice.socket sluice-api.socket

echo '== remove'
inside dpkg -r sluice-openflow
if inside curl -s http://127.0.0.1:8653/; then fail 'the API still answers'; fi
inside dpkg -P sluice-openflow
for path in /etc/sluice.toml /etc/sluice /var/lib/sluice /run/sluice /run/sluice.was-running; do
    if inside test -e "$path"; then fail "left after a purge: $path"; fi
done
echo '== done'
