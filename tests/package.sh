#!/usr/bin/env bash
# Installs a Debian package, upgrades it to a newer one, removes and purges it, in an overlay over the root file system that only this script
# sees. Run by tests/system/package.rs as
#
#     unshare --mount --propagation private --pid --fork tests/package.sh PACKAGE.deb
set -euo pipefail

. "$(dirname "$0")/overlay.sh"
cp "$1" "$root/tmp/first.deb"
repack "$1" 9.9.9-1 "$root/tmp/second.deb"

inside() { chroot "$root" env DEBIAN_FRONTEND=noninteractive PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"; }

# The service, as its unit starts it, but for systemd: waits until it listens, runs a command, stops it. service_user is its user.
service_user=sluice
with_service() {
    local user=--reuid=$service_user group=--regid=$service_user
    (exec chroot "$root" setpriv "$user" "$group" --clear-groups /usr/bin/sluice run --threads 1) >"$top/service.out" 2>&1 &
    local service=$!
    for _ in $(seq 200); do
        if grep -q '^metrics:' "$top/service.out"; then break; fi
        sleep 0.05
    done
    inside "$@" || fail "failed beside the service: $*: $(cat "$top/service.out")"
    kill "$service"
    wait "$service" || fail "the service ended with an error: $(cat "$top/service.out")"
}

echo '== install'
inside dpkg -i /tmp/first.deb
expect test "$(inside stat -c '%U:%G %a' /var/lib/sluice)" = 'sluice:sluice 750'
expect test "$(inside stat -c '%U:%G %a' /etc/sluice)" = 'root:sluice 750'
expect test "$(inside getent passwd sluice | cut -d: -f6,7)" = /var/lib/sluice:/usr/sbin/nologin
inside sluice --version
for unit in sluice.service sluice.socket sluice-api.socket; do
    expect inside systemctl is-enabled "$unit"
done
expect inside systemd-analyze verify sluice.service sluice.socket sluice-api.socket
# In tenths: an exposure of 1.7 at most. PrivateUsers=, which hides who uses the Unix socket from the audit log, would save 0.2.
expect inside systemd-analyze security --offline=true --threshold=17 sluice.service >/dev/null
expect inside test -e /usr/share/man/man1/sluice-run.1.gz
expect inside bash -c '. /usr/share/bash-completion/completions/sluice && complete -p sluice'
expect inside zsh -c 'autoload -Uz compinit && compinit -u -d /tmp/zcompdump && whence -v _sluice'
expect inside fish -c 'complete --do-complete "sluice ru" | grep -q run'
expect diff -r --exclude short.toml "$(dirname "$0")/../study" "$root/usr/share/sluice/study"
expect inside sluice study list --definitions /usr/share/sluice/study >/dev/null
inside sluice config show | grep '^listen'
expect cmp <(inside sluice config example) "$root/usr/share/doc/sluice-openflow/examples/sluice.toml"
# The file that is installed changes nothing.
expect cmp <(inside sluice config show) <(inside sluice config show --config /dev/null)

echo '== declare an entry, change the configuration, upgrade'
with_service sluice flow add 1 'priority=200,tcp,tp_dst=23,actions=drop' --name block-telnet
expect inside test -s /var/lib/sluice/static.redb
echo 'apps = ["learning"]' >>"$root/etc/sluice.toml"
inside dpkg -i /tmp/second.deb
expect test "$(inside dpkg-query -W -f '${Version}' sluice-openflow)" = 9.9.9-1
expect inside grep -q learning /etc/sluice.toml
inside sluice config show | grep 'apps.*learning' >/dev/null || fail 'the configuration was lost'
sed -i '/learning/d' "$root/etc/sluice.toml"
with_service bash -c 'sluice flow list | grep block-telnet'

echo '== a state directory that root has used'
service_user=root
with_service true
expect grep 'runs as root, and the state directory /var/lib/sluice belongs to sluice' "$top/service.out"
service_user=sluice
inside chown root:root /var/lib/sluice/static.redb
with_service true
problem='/var/lib/sluice/static.redb belongs to root .* the user sluice cannot read and write it'
expect grep "$problem" "$top/service.out"
expect grep 'chown sluice:sluice /var/lib/sluice/static.redb' "$top/service.out"
expect grep "problem .* $problem" <(inside sluice doctor)
inside chown sluice:sluice /var/lib/sluice/static.redb
with_service bash -c 'sluice flow list | grep block-telnet'
refuse grep 'state directory' "$top/service.out"

echo '== remove'
inside dpkg -r sluice-openflow
refuse inside test -e /usr/bin/sluice
refuse inside test -e /lib/systemd/system/sluice.service
expect inside test -e /etc/sluice.toml
expect inside test -d /var/lib/sluice

echo '== install again, remove, purge'
inside dpkg -i /tmp/second.deb
expect inside systemctl is-enabled sluice.service
inside sluice token add dashboard --role read --file /etc/sluice/tokens.json >/dev/null
expect inside test -e /etc/sluice/tokens.json.lock
inside dpkg -P sluice-openflow
for path in /etc/sluice.toml /etc/sluice /var/lib/sluice /run/sluice /etc/systemd/system/multi-user.target.wants/sluice.service \
    /etc/systemd/system/sockets.target.wants/sluice.socket /usr/bin/sluice; do
    refuse inside test -e "$path"
done
refuse inside dpkg-query -W sluice-openflow 2>/dev/null

echo '== purge, with a key of the administrator'
inside dpkg -i /tmp/second.deb
inside touch /etc/sluice/controller.key
inside dpkg -P sluice-openflow
expect inside test -e /etc/sluice/controller.key
echo '== done'
