# Sourced by scripts that run in a mount namespace of their own: an overlay over the root file system, at $root. What is changed there is lost
# with the namespace.
# In the mount namespace only, so that nothing is left behind.
mount -t tmpfs tmpfs /mnt
top=/mnt
mkdir "$top"/{upper,work,root}
mount -t overlay overlay -o "lowerdir=/,upperdir=$top/upper,workdir=$top/work" "$top/root"
root=$top/root
mount -t proc proc "$root/proc"
mount -o bind "$root/proc/sys" "$root/proc/sys"
mount -o remount,bind,ro "$root/proc/sys"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/run"
mount -t tmpfs tmpfs "$root/tmp"
# Where this machine keeps services from starting, the package would not start its own.
rm -f "$root/usr/sbin/policy-rc.d"
# It would take longer than everything else.
rm -f "$root/var/lib/man-db/auto-update"

fail() {
    echo "$0: $*" >&2
    exit 1
}
expect() { "$@" || fail "failed: $*"; }
refuse() { if "$@"; then fail "should have failed: $*"; fi; }

# Writes a copy of the package $1 with version $2 as the file $3.
repack() {
    local files=$top/repack
    dpkg-deb --raw-extract "$1" "$files"
    sed -i "s/^Version: .*/Version: $2/" "$files/DEBIAN/control"
    dpkg-deb -Zgzip -z1 --build "$files" "$3" >/dev/null
    rm -r "$files"
}
