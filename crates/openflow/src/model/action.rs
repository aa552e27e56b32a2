//! Actions. §7.2.5; OpenFlow 1.0.0 §5.2.4; 1.1.0 §A.2.5; 1.5.1 §7.2.6; Open vSwitch `nicira-ext.h`.

use super::bit_range::BitRange;
use super::codec::versions::{V1_0, V1_1, V1_2, V1_3, V1_4, V1_5};
use super::codec::{Choice, Codec, ListItem, Padding, encode_tlv, extended_type, parse_tlv_with};
use super::ct::{CtAction, NumberSource};
use super::encap::EncapProp;
use super::field::Field;
use super::learn::{Learn2Action, LearnAction};
use super::nat::NatAction;
use super::nicira_action::{
    BundleAction, BundleLoadAction, Controller2Prop, MultipathAction, SampleDirection,
};
use super::oxm::{FieldHeader, Oxm};
use super::reader::Reader;
use super::rows::choice;
use super::set_action::{PaddedHeader14, SetFieldOxm, UnmaskedOxm, encode_set, parse_set};
use super::wire_types::Port16;
use crate::error::ErrorContext;
use crate::{EncodeError, Encoder, PortNo, Result, Version};

choice! {
    /// An action of any version.
    ///
    /// In the rows, numbers above 0xffff are experimenter actions: the experimenter ID in the upper bits and a 16-bit
    /// subtype below it (Nicira 0x2320, ONF 0x4f4e4600).
    pub enum Action: "action" {
        /// Sends the packet to a port.
        Output "output" {
            /// Output port.
            port: PortNo,
            /// Bytes to send if the port is [`PortNo::CONTROLLER`]; [`Action::WHOLE`] sends the whole packet.
            max_len: u16,
        } = { V1_0 => 0 [port, max_len,], V1_1.. => 0 [port, max_len, pad 6,] };
        /// Sends the packet to a queue of a port. OpenFlow 1.0 only; in later versions it is encoded as
        /// [`SetQueue`](Self::SetQueue) followed by [`Output`](Self::Output).
        Enqueue "enqueue" {
            /// Output port.
            port: PortNo,
            /// Queue of the port.
            queue_id: u32,
        } = { V1_0 => 11 [port, pad 6, queue_id,] };
        /// Copies the TTL from the next-to-outermost to the outermost header with a TTL.
        CopyTtlOut "copy_ttl_out" = { V1_1.. => 11 [pad 4,] };
        /// Copies the TTL from the outermost to the next-to-outermost header with a TTL.
        CopyTtlIn "copy_ttl_in" = { V1_1.. => 12 [pad 4,] };
        /// Sets the TTL of the outermost MPLS label.
        SetMplsTtl "set_mpls_ttl" {
            /// New TTL.
            mpls_ttl: u8,
        } = { V1_0 => 0x2320_0019 [mpls_ttl, pad 5,], V1_1.. => 15 [mpls_ttl, pad 3,] };
        /// Decrements the TTL of the outermost MPLS label.
        DecMplsTtl "dec_mpls_ttl" = { V1_0 => 0x2320_001a [pad 6,], V1_1.. => 16 [pad 4,] };
        /// Pushes a new outermost VLAN tag.
        PushVlan "push_vlan" {
            /// Ethertype of the tag, 0x8100 or 0x88a8.
            ethertype: u16,
        } = { V1_1.. => 17 [ethertype, pad 2,] };
        /// Removes the outermost VLAN tag. `OFPAT_STRIP_VLAN` in OpenFlow 1.0.
        PopVlan "pop_vlan" = { V1_0 => 3 [pad 4,], V1_1.. => 18 [pad 4,] };
        /// Pushes a new outermost MPLS label.
        PushMpls "push_mpls" {
            /// Ethertype of the packet afterwards, 0x8847 or 0x8848.
            ethertype: u16,
        } = { V1_0 => 0x2320_0017 [ethertype, pad 4,], V1_1.. => 19 [ethertype, pad 2,] };
        /// Removes the outermost MPLS label.
        PopMpls "pop_mpls" {
            /// Ethertype of the payload below the label.
            ethertype: u16,
        } = { V1_0 => 0x2320_0018 [ethertype, pad 4,], V1_1.. => 20 [ethertype, pad 2,] };
        /// Selects the queue that later outputs use.
        SetQueue "set_queue" {
            /// Queue of the output port.
            queue_id: u32,
        } = { V1_0 => 0x2320_0004 [pad 2, queue_id,], V1_1.. => 21 [queue_id,] };
        /// Processes the packet with a group.
        Group "group" {
            /// Group number.
            group_id: u32,
        } = { V1_0 => 0x2320_0028 [pad 2, group_id,], V1_1.. => 22 [group_id,] };
        /// Sets the IPv4 TTL or IPv6 hop limit.
        SetNwTtl "set_nw_ttl" {
            /// New TTL.
            nw_ttl: u8,
        } = { V1_1.. => 23 [nw_ttl, pad 3,] };
        /// Decrements the IPv4 TTL or IPv6 hop limit.
        DecNwTtl "dec_nw_ttl" = { V1_0 => 0x2320_0012 [pad 6,], V1_1.. => 24 [pad 4,] };
        /// Pushes a provider backbone bridging (PBB) service tag.
        PushPbb "push_pbb" {
            /// Ethertype of the tag, 0x88e7.
            ethertype: u16,
        } = { V1_3.. => 26 [ethertype, pad 2,] };
        /// Removes the outermost PBB service tag.
        PopPbb "pop_pbb" = { V1_3.. => 27 [pad 4,] };
        /// Sets a header field. In OpenFlow 1.0 and 1.1 it is encoded as the `OFPAT_SET_*` action of the field.
        SetField "set_field" {
            /// Field and value; masks require OpenFlow 1.5.
            field: Oxm,
        } = { V1_2..=V1_4 => 25 [field as UnmaskedOxm,], V1_5.. => 25 [field as SetFieldOxm,] };
        /// Copies bits from one field to another. ONF extension in 1.3 and 1.4.
        CopyField "copy_field" {
            /// Number of bits to copy.
            n_bits: u16,
            /// First bit in the source field.
            src_offset: u16,
            /// First bit in the destination field.
            dst_offset: u16,
            /// Source field.
            src: FieldHeader,
            /// Destination field.
            dst: FieldHeader,
        } = {
            V1_3..=V1_4 => 0x4f4e_4600_0c80 [pad 2, n_bits, src_offset, dst_offset, pad 2, src, dst,],
            V1_5.. => 28 [n_bits, src_offset, dst_offset, pad 2, src, dst,],
        };
        /// Applies a meter to the packet. In 1.3 and 1.4 metering is [an instruction](super::Instruction::Meter).
        Meter "meter" {
            /// Meter number.
            meter_id: u32,
        } = { V1_5.. => 29 [meter_id,] };

        /// Looks the packet up again in the current table, as if it had been received on another port. Nicira.
        Resubmit "resubmit" {
            /// Ingress port for the lookup.
            in_port: PortNo,
        } = { V1_0.. => 0x2320_0001 [in_port as Port16, pad 4,] };
        /// Looks the packet up in another table, as if it had been received on another port. Nicira.
        ResubmitTable "resubmit_table" {
            /// Ingress port for the lookup.
            in_port: PortNo,
            /// Table to look up; 255 is the current table.
            table: u8,
        } = { V1_0.. => 0x2320_000e [in_port as Port16, table, pad 3,] };
        /// Like [`ResubmitTable`](Self::ResubmitTable), with the connection's original-direction addresses and ports
        /// in place of the packet's. Nicira.
        ResubmitTableCt "resubmit_table_ct" {
            /// Ingress port for the lookup.
            in_port: PortNo,
            /// Table to look up; 255 is the current table.
            table: u8,
        } = { V1_0.. => 0x2320_002c [in_port as Port16, table, pad 3,] };
        /// Sets a 32-bit tunnel ID. Nicira.
        SetTunnel "set_tunnel" {
            /// Tunnel ID.
            tun_id: u32,
        } = { V1_0.. => 0x2320_0002 [pad 2, tun_id,] };
        /// Sets a 64-bit tunnel ID. Nicira.
        SetTunnel64 "set_tunnel64" {
            /// Tunnel ID.
            tun_id: u64,
        } = { V1_0.. => 0x2320_0009 [pad 6, tun_id,] };
        /// Restores the queue from before the first [`SetQueue`](Self::SetQueue). Nicira.
        PopQueue "pop_queue" = { V1_0.. => 0x2320_0005 [pad 6,] };
        /// Does nothing; carries bytes that annotate the flow entry. Nicira.
        Note "note" {
            /// The bytes; they fill the action, so padding is part of them.
            note: Vec<u8>,
        } = { V1_0.. => 0x2320_0008 [note,] };
        /// Stops processing of actions. Nicira.
        Exit "exit" = { V1_0.. => 0x2320_0011 [pad 6,] };
        /// Decrements the IP TTL; if it becomes invalid, notifies the given controllers. Nicira.
        DecTtlCntIds "dec_ttl_cnt_ids" {
            /// Controller IDs.
            cnt_ids: Vec<u16>,
        } = { V1_0.. => 0x2320_0015 [counted, pad 4, cnt_ids in counted,] };
        /// Shortens the timeouts of the flow entry when a TCP connection ends (FIN or RST). Nicira.
        FinTimeout "fin_timeout" {
            /// New idle timeout, seconds; 0 leaves it unchanged.
            fin_idle_timeout: u16,
            /// New hard timeout, seconds; 0 leaves it unchanged.
            fin_hard_timeout: u16,
        } = { V1_0.. => 0x2320_0013 [fin_idle_timeout, fin_hard_timeout, pad 2,] };
        /// Sends the packet to one controller. Nicira.
        Controller "controller" {
            /// Bytes to send; [`Action::WHOLE`] sends the whole packet.
            max_len: u16,
            /// Controller ID.
            controller_id: u16,
            /// Reason for the packet-in, `OFPR_*`.
            reason: u8,
        } = { V1_0.. => 0x2320_0014 [max_len, controller_id, reason, pad 1,] };
        /// Sends the packet to one controller, with options as properties. Nicira.
        Controller2 "controller2" {
            /// Options that differ from their default.
            properties: Vec<Controller2Prop>,
        } = { V1_0.. => 0x2320_0025 [pad 6, properties,] };
        /// Writes metadata bits, like [the instruction](super::Instruction::WriteMetadata). Nicira.
        WriteMetadata "write_metadata" {
            /// Value.
            metadata: u64,
            /// Bits to write.
            mask: u64,
        } = { V1_0.. => 0x2320_0016 [pad 6, metadata, mask,] };
        /// Samples packets for IPFIX. Nicira.
        Sample "sample" {
            /// Sampling probability, in 1/65535.
            probability: u16,
            /// Collector set.
            collector_set_id: u32,
            /// IPFIX observation domain ID.
            obs_domain_id: u32,
            /// IPFIX observation point ID.
            obs_point_id: u32,
        } = { V1_0.. => 0x2320_001d [probability, collector_set_id, obs_domain_id, obs_point_id,] };
        /// Samples packets for IPFIX at a port. Nicira.
        Sample2 "sample2" {
            /// Sampling probability, in 1/65535.
            probability: u16,
            /// Collector set.
            collector_set_id: u32,
            /// IPFIX observation domain ID.
            obs_domain_id: u32,
            /// IPFIX observation point ID.
            obs_point_id: u32,
            /// Port at which packets are sampled.
            sampling_port: PortNo,
        } = { V1_0.. => 0x2320_0026 [probability, collector_set_id, obs_domain_id, obs_point_id,
            sampling_port as Port16, pad 6,] };
        /// Samples packets for IPFIX at a port, in one direction. Nicira.
        Sample3 "sample3" {
            /// Sampling probability, in 1/65535.
            probability: u16,
            /// Collector set.
            collector_set_id: u32,
            /// IPFIX observation domain ID.
            obs_domain_id: u32,
            /// IPFIX observation point ID.
            obs_point_id: u32,
            /// Port at which packets are sampled.
            sampling_port: PortNo,
            /// Direction in which packets are sampled.
            direction: SampleDirection,
        } = { V1_0.. => 0x2320_0029 [probability, collector_set_id, obs_domain_id, obs_point_id,
            sampling_port as Port16, direction, pad 5,] };
        /// Makes the flow entry one clause of a conjunctive match. Nicira.
        Conjunction "conjunction" {
            /// Clause number, from 0.
            clause: u8,
            /// Number of clauses of the conjunction.
            n_clauses: u8,
            /// Conjunction ID, matched through the field `conj_id`.
            id: u32,
        } = { V1_0.. => 0x2320_0022 [clause, n_clauses, id,] };
        /// Copies bits from one field to another. Nicira; encoded as [`CopyField`](Self::CopyField) in 1.5.
        RegMove "reg_move" {
            /// Number of bits to copy.
            n_bits: u16,
            /// First bit in the source field.
            src_ofs: u16,
            /// First bit in the destination field.
            dst_ofs: u16,
            /// Source field.
            src: FieldHeader,
            /// Destination field.
            dst: FieldHeader,
        } = { V1_0..=V1_4 => 0x2320_0006 [n_bits, src_ofs, dst_ofs, src, dst,] };
        /// Writes a number into bits of a field. Nicira; encoded as [`SetField`](Self::SetField) in 1.5.
        RegLoad "reg_load" {
            /// Bits to write.
            bits: BitRange,
            /// Destination field.
            dst: FieldHeader,
            /// Value, in the low bits.
            value: u64,
        } = { V1_0..=V1_4 => 0x2320_0007 [bits, dst, value,] };
        /// Writes a field, optionally masked. Nicira; encoded as [`SetField`](Self::SetField) in 1.5.
        RegLoad2 "reg_load2" {
            /// Field, value and mask.
            field: Oxm,
        } = { V1_0..=V1_4 => 0x2320_0021 [field as SetFieldOxm,] };
        /// Hashes the packet to choose one of several links, and writes the link number into a field. Nicira.
        Multipath "multipath" (Box<MultipathAction>) = { V1_0.. => 0x2320_000a };
        /// Hashes the packet to choose one of several ports, and sends it there. Nicira.
        Bundle "bundle" (Box<BundleAction>) = { V1_0.. => 0x2320_000c };
        /// Hashes the packet to choose one of several ports, and writes the port number into a field. Nicira.
        BundleLoad "bundle_load" (Box<BundleLoadAction>) = { V1_0.. => 0x2320_000d };
        /// Sends the packet to the port whose number is in a field. Nicira.
        OutputReg "output_reg" {
            /// Bits that hold the port number.
            bits: BitRange,
            /// Source field.
            src: FieldHeader,
            /// Bytes to send if the port is [`PortNo::CONTROLLER`]; [`Action::WHOLE`] sends the whole packet.
            max_len: u16,
        } = { V1_0.. => 0x2320_000f [bits, src, max_len, pad 6,] };
        /// Like [`OutputReg`](Self::OutputReg); the field may be an experimenter's. Nicira.
        OutputReg2 "output_reg2" {
            /// Bits that hold the port number.
            bits: BitRange,
            /// Bytes to send if the port is [`PortNo::CONTROLLER`]; [`Action::WHOLE`] sends the whole packet.
            max_len: u16,
            /// Source field.
            src: FieldHeader,
        } = { V1_0.. => 0x2320_0020 [bits, max_len, src,] };
        /// Adds or modifies a flow entry built from the packet. Nicira.
        Learn "learn" (Box<LearnAction>) = { V1_0.. => 0x2320_0010 };
        /// Like [`Learn`](Self::Learn), with a limit on the number of learned flow entries. Nicira.
        Learn2 "learn2" (Box<Learn2Action>) = { V1_0.. => 0x2320_002d };
        /// Pushes bits of a field onto the stack. Nicira.
        StackPush "stack_push" {
            /// First bit.
            offset: u16,
            /// Source field.
            field: FieldHeader,
            /// Number of bits.
            n_bits: u16,
        } = { V1_0.. => 0x2320_001b [offset, field, n_bits,] };
        /// Pops bits from the stack into a field. Nicira.
        StackPop "stack_pop" {
            /// First bit.
            offset: u16,
            /// Destination field.
            field: FieldHeader,
            /// Number of bits.
            n_bits: u16,
        } = { V1_0.. => 0x2320_001c [offset, field, n_bits,] };
        /// Sends the packet through the connection tracker. Nicira.
        Ct "ct" (Box<CtAction>) = { V1_0.. => 0x2320_0023 };
        /// Sets a bit of a field to whether the packet is larger than a given size. Nicira.
        CheckPktLarger "check_pkt_larger" {
            /// Size to compare with, bytes.
            pkt_len: u16,
            /// Bit that receives the result.
            offset: u16,
            /// Field that receives the result.
            dst: FieldHeader,
        } = { V1_0.. => 0x2320_0031 [pkt_len, offset, dst,] };
        /// Removes a field from the packet (tunnel metadata). Nicira.
        DeleteField "delete_field" {
            /// Field to remove.
            field: FieldHeader,
        } = { V1_0.. => 0x2320_0032 [field as PaddedHeader14,] };
        /// Samples packets for IPFIX, with observation domain and point taken from fields or numbers. Nicira.
        Sample4 "sample4" {
            /// Sampling probability, in 1/65535.
            probability: u16,
            /// Collector set.
            collector_set_id: u32,
            /// IPFIX observation domain ID.
            obs_domain: NumberSource<u32>,
            /// IPFIX observation point ID.
            obs_point: NumberSource<u32>,
            /// Port at which packets are sampled.
            sampling_port: PortNo,
            /// Direction in which packets are sampled.
            direction: SampleDirection,
        } = { V1_0.. => 0x2320_0033 [probability, collector_set_id, obs_domain, obs_point,
            sampling_port as Port16, direction, pad 5,] };
        /// Translates addresses and ports; only inside [`Ct`](Self::Ct). Nicira.
        Nat "nat" (Box<NatAction>) = { V1_0.. => 0x2320_0024 };
        /// Clears the connection tracking state of the packet. Nicira.
        CtClear "ct_clear" = { V1_0.. => 0x2320_002b [pad 6,] };
        /// Truncates the packet and sends it to a port. Nicira.
        OutputTrunc "output_trunc" {
            /// Output port.
            port: PortNo,
            /// Bytes to keep.
            max_len: u32,
        } = { V1_0.. => 0x2320_0027 [port as Port16, max_len,] };
        /// Applies actions to a copy of the packet. Nicira.
        Clone "clone" {
            /// Actions for the copy.
            actions: Vec<Self>,
        } = { V1_0.. => 0x2320_002a [pad 6, actions,] };
        /// Pushes a header (encapsulates the packet). Nicira.
        Encap "encap" {
            /// Header size, bytes; 0 leaves it to the switch.
            hdr_size: u16,
            /// Packet type of the new header: namespace in the upper 16 bits, type in the lower.
            new_pkt_type: u32,
            /// Values for fields of the new header.
            properties: Vec<EncapProp>,
        } = { V1_3.. => 0x2320_002e [hdr_size, new_pkt_type, properties,] };
        /// Removes the outermost header (decapsulates the packet). Nicira.
        Decap "decap" {
            /// Packet type of the payload; 0xfffe derives it from the header.
            new_pkt_type: u32,
        } = { V1_3.. => 0x2320_002f [pad 2, new_pkt_type,] };
        /// Decrements the TTL of the NSH header. Nicira.
        DecNshTtl "dec_nsh_ttl" = { V1_3.. => 0x2320_0030 [pad 6,] };
        /// Forces the packet through the slow path; for tests of Open vSwitch. Nicira.
        DebugSlow "debug_slow" = { V1_0.. => 0x2320_00fe [pad 6,] };
        /// Forces a recirculation; for tests of Open vSwitch. Nicira.
        DebugRecirc "debug_recirc" = { V1_0.. => 0x2320_00ff [pad 6,] };

        /// Experimenter action without a row of its own. `OFPAT_VENDOR` in OpenFlow 1.0.
        Experimenter "experimenter" {
            /// Experimenter ID.
            experimenter: u32,
            /// Experimenter-defined data, including padding.
            data: Vec<u8>,
        } = { V1_0.. => 0xffff [experimenter, data,] };
    }
}

impl Action {
    /// `max_len` of [`Output`](Self::Output) that sends the whole packet to the controller. `OFPCML_NO_BUFFER`,
    /// §7.2.5.
    pub const WHOLE: u16 = 0xffff;

    /// Sends the packet to `port`; to the controller, without truncation.
    pub const fn output(port: PortNo) -> Self {
        Self::Output { port, max_len: Self::WHOLE }
    }

    /// Equivalent actions for a `version` that does not have this one; `None` if the action is encoded as it is.
    fn equivalent_in(&self, version: Version) -> Option<Vec<Self>> {
        Some(match *self {
            Self::Enqueue { port, queue_id } if version > Version::V1_0 => {
                vec![Self::SetQueue { queue_id }, Self::output(port)]
            }
            Self::CopyField { n_bits, src_offset, dst_offset, src, dst }
                if version < Version::V1_3 =>
            {
                vec![Self::RegMove { n_bits, src_ofs: src_offset, dst_ofs: dst_offset, src, dst }]
            }
            Self::RegMove { n_bits, src_ofs, dst_ofs, src, dst } if version > Version::V1_4 => {
                vec![Self::CopyField { n_bits, src_offset: src_ofs, dst_offset: dst_ofs, src, dst }]
            }
            Self::RegLoad2 { ref field } if version > Version::V1_4 => {
                vec![Self::SetField { field: field.clone() }]
            }
            Self::RegLoad { bits, dst, value } if version > Version::V1_4 => {
                let value = u128::from(value).checked_shl(bits.offset().into())?;
                let mask = bits.low_bits().checked_shl(bits.offset().into())?;
                vec![Self::SetField { field: Field::new(dst.id, value).masked(mask).into() }]
            }
            _ => return None,
        })
    }
}

impl ListItem for Action {}

impl Codec for Action {
    fn parse(r: &mut Reader<'_>) -> Result<Self> {
        parse_tlv_with(
            r,
            Self::TYPE_NAME,
            Padding::Inside,
            ErrorContext::Action,
            extended_type,
            |code, r| parse_set(code, r).unwrap_or_else(|| Self::parse_variant(code, r)),
        )
    }

    fn encode(&self, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        if let Self::SetField { field } = self
            && out.version() < Version::V1_2
        {
            return encode_set(field, out);
        }
        if let Self::Other { code, body } = self
            && let Some(read) = parse_set(*code, &mut Reader::new(out.version(), body, 0))
            && read.as_ref() != Ok(self)
        {
            let (what, version) = ("unknown action", out.version());
            return Err(EncodeError::new(what, version, None));
        }
        match self.equivalent_in(out.version()) {
            Some(actions) => actions.iter().try_for_each(|action| action.encode(out)),
            None => encode_tlv(self, out, Padding::Inside),
        }
    }
}
