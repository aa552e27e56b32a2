//! The binary against Open vSwitch, Mininet and foreign decoders. These tests and those of `limits` wait for conditions and run
//! beside each other; those that measure the process, `cost`, `connection_cost` and `connection_floods`, have the machine for
//! themselves.

mod abusive_hosts;
mod api_access;
mod broadcast_tree;
mod changes;
mod command_line;
mod decode_follow;
mod dhcp;
mod fat_tree;
mod flow_entries;
mod foreign_decoders;
mod foreign_entries;
mod group_streams;
mod host_moves;
mod hosts;
mod link;
mod link_aggregation;
mod loops;
mod many_conversations;
mod mininet;
mod multicast_snooping;
mod operations;
mod packet_sizes;
mod path_requests;
mod paths;
mod power_cycles;
mod requests;
mod ryu;
mod segments;
mod show;
mod thin_control_link;
mod tls;
mod topology;
mod two_controllers;
mod vlans;
