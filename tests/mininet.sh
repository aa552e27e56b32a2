#!/bin/sh
# Mininet's pingall with an Open vSwitch of its own.
# Usage: mininet.sh OpenFlow13 6653 single,4
# Must run in network, mount and process namespaces of its own, since Open vSwitch and Mininet use fixed names.
set -eu
protocols=$1 port=$2 topology=$3

mount --make-rprivate /
for dir in /run/openvswitch /var/log/openvswitch; do
    mkdir -p $dir
    mount -t tmpfs tmpfs $dir
done
db=/run/openvswitch/conf.db
ovsdb-tool create $db /usr/share/openvswitch/vswitch.ovsschema
ovsdb-server $db --remote=punix:/run/openvswitch/db.sock --pidfile --detach --no-chdir -vconsole:off
ovs-vsctl --no-wait init
ovs-vswitchd --pidfile --detach --no-chdir -vconsole:off

# The userspace datapath needs no kernel module. Mininet writes to standard error.
exec mn --wait --switch ovs,datapath=user,protocols="$protocols" \
    --controller remote,ip=127.0.0.1,port="$port" --topo "$topology" --test pingall 2>&1
