//! What is done with a packet. §7.2.5; OpenFlow 1.0.0 §5.2.4; 1.1.0 §A.2.5; 1.5.1 §7.2.6; Open vSwitch, `nicira-ext.h`.

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
    /// One action, of any version.
    ///
    /// Numbers are types; of the actions of Nicira and of the ONF their subtype under the identity.
    pub enum Action: "action" {
        /// Sends the packet out of a port.
        Output "output" {
            /// Where to.
            port: PortNo,
            /// Bytes to send if it is the controller; [`Action::WHOLE`] for all.
            max_len: u16,
        } = { V1_0 => 0 [port, max_len,], V1_1.. => 0 [port, max_len, pad 6,] };
        /// Sends the packet out of a port through one of its queues. Later versions say it with
        /// [`SetQueue`](Self::SetQueue) and [`Output`](Self::Output).
        Enqueue "enqueue" {
            /// Where to.
            port: PortNo,
            /// Through which queue.
            queue_id: u32,
        } = { V1_0 => 11 [port, pad 6, queue_id,] };
        /// Copies the time to live from the next header outwards.
        CopyTtlOut "copy_ttl_out" = { V1_1.. => 11 [pad 4,] };
        /// Copies the time to live inwards to the next header.
        CopyTtlIn "copy_ttl_in" = { V1_1.. => 12 [pad 4,] };
        /// Sets the time to live of the outermost MPLS label.
        SetMplsTtl "set_mpls_ttl" {
            /// Hops.
            mpls_ttl: u8,
        } = { V1_0 => 0x2320_0019 [mpls_ttl, pad 5,], V1_1.. => 15 [mpls_ttl, pad 3,] };
        /// Counts the time to live of the outermost MPLS label down.
        DecMplsTtl "dec_mpls_ttl" = { V1_0 => 0x2320_001a [pad 6,], V1_1.. => 16 [pad 4,] };
        /// Pushes a VLAN tag.
        PushVlan "push_vlan" {
            /// Its ethertype, 0x8100 or 0x88a8.
            ethertype: u16,
        } = { V1_1.. => 17 [ethertype, pad 2,] };
        /// Takes the outermost VLAN tag off; `STRIP_VLAN` of 1.0.
        PopVlan "pop_vlan" = { V1_0 => 3 [pad 4,], V1_1.. => 18 [pad 4,] };
        /// Pushes an MPLS label.
        PushMpls "push_mpls" {
            /// Its ethertype, 0x8847 or 0x8848.
            ethertype: u16,
        } = { V1_0 => 0x2320_0017 [ethertype, pad 4,], V1_1.. => 19 [ethertype, pad 2,] };
        /// Takes the outermost MPLS label off.
        PopMpls "pop_mpls" {
            /// Ethertype of what is below.
            ethertype: u16,
        } = { V1_0 => 0x2320_0018 [ethertype, pad 4,], V1_1.. => 20 [ethertype, pad 2,] };
        /// Chooses the queue for later outputs.
        SetQueue "set_queue" {
            /// Which.
            queue_id: u32,
        } = { V1_0 => 0x2320_0004 [pad 2, queue_id,], V1_1.. => 21 [queue_id,] };
        /// Hands the packet to a group.
        Group "group" {
            /// Which.
            group_id: u32,
        } = { V1_0 => 0x2320_0028 [pad 2, group_id,], V1_1.. => 22 [group_id,] };
        /// Sets the time to live of IP.
        SetNwTtl "set_nw_ttl" {
            /// Hops.
            nw_ttl: u8,
        } = { V1_1.. => 23 [nw_ttl, pad 3,] };
        /// Counts the time to live of IP down.
        DecNwTtl "dec_nw_ttl" = { V1_0 => 0x2320_0012 [pad 6,], V1_1.. => 24 [pad 4,] };
        /// Pushes a header of a provider's backbone bridge.
        PushPbb "push_pbb" {
            /// Its ethertype, 0x88e7.
            ethertype: u16,
        } = { V1_3.. => 26 [ethertype, pad 2,] };
        /// Takes the outermost header of a provider's backbone bridge off.
        PopPbb "pop_pbb" = { V1_3.. => 27 [pad 4,] };
        /// Rewrites a field; the `SET_*` actions of 1.0 and 1.1, one for each of their fields.
        SetField "set_field" {
            /// The field and its value; with a mask since 1.5.
            field: Oxm,
        } = { V1_2..=V1_4 => 25 [field as UnmaskedOxm,], V1_5.. => 25 [field as SetFieldOxm,] };
        /// Copies bits from field to field; an extension of the ONF's before 1.5.
        CopyField "copy_field" {
            /// How many bits.
            n_bits: u16,
            /// From which bit on.
            src_offset: u16,
            /// To which bit on.
            dst_offset: u16,
            /// From which field.
            src: FieldHeader,
            /// To which field.
            dst: FieldHeader,
        } = {
            V1_3..=V1_4 => 0x4f4e_4600_0c80 [pad 2, n_bits, src_offset, dst_offset, pad 2, src, dst,],
            V1_5.. => 28 [n_bits, src_offset, dst_offset, pad 2, src, dst,],
        };
        /// Counts and limits by a meter; before 1.5 an instruction does.
        Meter "meter" {
            /// Which.
            meter_id: u32,
        } = { V1_5.. => 29 [meter_id,] };

        /// Goes through a table again as if the packet had come in elsewhere.
        Resubmit "resubmit" {
            /// As if from where.
            in_port: PortNo,
        } = { V1_0.. => 0x2320_0001 [in_port as Port16, pad 4,] };
        /// Goes through another table as if the packet had come in elsewhere.
        ResubmitTable "resubmit_table" {
            /// As if from where.
            in_port: PortNo,
            /// Which table; 255 is the one that the rule is in.
            table: u8,
        } = { V1_0.. => 0x2320_000e [in_port as Port16, table, pad 3,] };
        /// The same, with the fields of the connection's original direction.
        ResubmitTableCt "resubmit_table_ct" {
            /// As if from where.
            in_port: PortNo,
            /// Which table; 255 is the one that the rule is in.
            table: u8,
        } = { V1_0.. => 0x2320_002c [in_port as Port16, table, pad 3,] };
        /// Sets a tunnel's key of 32 bits.
        SetTunnel "set_tunnel" {
            /// The key.
            tun_id: u32,
        } = { V1_0.. => 0x2320_0002 [pad 2, tun_id,] };
        /// Sets a tunnel's key of 64 bits.
        SetTunnel64 "set_tunnel64" {
            /// The key.
            tun_id: u64,
        } = { V1_0.. => 0x2320_0009 [pad 6, tun_id,] };
        /// Goes back to the queue from before [`SetQueue`](Self::SetQueue).
        PopQueue "pop_queue" = { V1_0.. => 0x2320_0005 [pad 6,] };
        /// Does nothing; bytes for whoever wrote the rule.
        Note "note" {
            /// The bytes, up to the end of the action.
            note: Vec<u8>,
        } = { V1_0.. => 0x2320_0008 [note,] };
        /// Ends the actions.
        Exit "exit" = { V1_0.. => 0x2320_0011 [pad 6,] };
        /// Counts the time to live of IP down and tells some controllers when it runs out.
        DecTtlCntIds "dec_ttl_cnt_ids" {
            /// Which controllers.
            cnt_ids: Vec<u16>,
        } = { V1_0.. => 0x2320_0015 [counted, pad 4, cnt_ids in counted,] };
        /// Shortens the rule's timeouts when a TCP connection ends.
        FinTimeout "fin_timeout" {
            /// Idle timeout from then on, seconds.
            fin_idle_timeout: u16,
            /// Hard timeout from then on, seconds.
            fin_hard_timeout: u16,
        } = { V1_0.. => 0x2320_0013 [fin_idle_timeout, fin_hard_timeout, pad 2,] };
        /// Sends the packet to one controller.
        Controller "controller" {
            /// Bytes to send; [`Action::WHOLE`] for all.
            max_len: u16,
            /// Which controller.
            controller_id: u16,
            /// `OFPR_*`: the reason to give.
            reason: u8,
        } = { V1_0.. => 0x2320_0014 [max_len, controller_id, reason, pad 1,] };
        /// Sends the packet to one controller, with more to say.
        Controller2 "controller2" {
            /// What is not as usual.
            properties: Vec<Controller2Prop>,
        } = { V1_0.. => 0x2320_0025 [pad 6, properties,] };
        /// Writes bits of the metadata, as the instruction does.
        WriteMetadata "write_metadata" {
            /// The bits.
            metadata: u64,
            /// Which of them count.
            mask: u64,
        } = { V1_0.. => 0x2320_0016 [pad 6, metadata, mask,] };
        /// Samples packets for IPFIX.
        Sample "sample" {
            /// How many of 65 535 packets.
            probability: u16,
            /// For which collectors.
            collector_set_id: u32,
            /// Domain of the observation.
            obs_domain_id: u32,
            /// Point of the observation.
            obs_point_id: u32,
        } = { V1_0.. => 0x2320_001d [probability, collector_set_id, obs_domain_id, obs_point_id,] };
        /// The same at a port.
        Sample2 "sample2" {
            /// How many of 65 535 packets.
            probability: u16,
            /// For which collectors.
            collector_set_id: u32,
            /// Domain of the observation.
            obs_domain_id: u32,
            /// Point of the observation.
            obs_point_id: u32,
            /// The port.
            sampling_port: PortNo,
        } = { V1_0.. => 0x2320_0026 [probability, collector_set_id, obs_domain_id, obs_point_id,
            sampling_port as Port16, pad 6,] };
        /// The same at a port in one direction.
        Sample3 "sample3" {
            /// How many of 65 535 packets.
            probability: u16,
            /// For which collectors.
            collector_set_id: u32,
            /// Domain of the observation.
            obs_domain_id: u32,
            /// Point of the observation.
            obs_point_id: u32,
            /// The port.
            sampling_port: PortNo,
            /// Which way.
            direction: SampleDirection,
        } = { V1_0.. => 0x2320_0029 [probability, collector_set_id, obs_domain_id, obs_point_id,
            sampling_port as Port16, direction, pad 5,] };
        /// One clause of several that match together.
        Conjunction "conjunction" {
            /// Which clause, from 0.
            clause: u8,
            /// Of how many.
            n_clauses: u8,
            /// Of which conjunction.
            id: u32,
        } = { V1_0.. => 0x2320_0022 [clause, n_clauses, id,] };
        /// Copies bits from field to field; [`CopyField`](Self::CopyField) in 1.5.
        RegMove "reg_move" {
            /// How many bits.
            n_bits: u16,
            /// From which bit on.
            src_ofs: u16,
            /// To which bit on.
            dst_ofs: u16,
            /// From which field.
            src: FieldHeader,
            /// To which field.
            dst: FieldHeader,
        } = { V1_0..=V1_4 => 0x2320_0006 [n_bits, src_ofs, dst_ofs, src, dst,] };
        /// Writes bits of a field; [`SetField`](Self::SetField) in 1.5.
        RegLoad "reg_load" {
            /// Which bits.
            bits: BitRange,
            /// Of which field.
            dst: FieldHeader,
            /// What, in the low bits.
            value: u64,
        } = { V1_0..=V1_4 => 0x2320_0007 [bits, dst, value,] };
        /// Writes a field, perhaps under a mask; [`SetField`](Self::SetField) in 1.5.
        RegLoad2 "reg_load2" {
            /// The field, its value, its mask.
            field: Oxm,
        } = { V1_0..=V1_4 => 0x2320_0021 [field as SetFieldOxm,] };
        /// Chooses one of many links by a hash and writes its number into a field.
        Multipath "multipath" (Box<MultipathAction>) = { V1_0.. => 0x2320_000a };
        /// Sends the packet out of one of many ports.
        Bundle "bundle" (Box<BundleAction>) = { V1_0.. => 0x2320_000c };
        /// Chooses one of many ports and writes its number into a field.
        BundleLoad "bundle_load" (Box<BundleLoadAction>) = { V1_0.. => 0x2320_000d };
        /// Sends the packet out of the port that a field has the number of.
        OutputReg "output_reg" {
            /// Which bits.
            bits: BitRange,
            /// Of which field.
            src: FieldHeader,
            /// Bytes to send if it is the controller; [`Action::WHOLE`] for all.
            max_len: u16,
        } = { V1_0.. => 0x2320_000f [bits, src, max_len, pad 6,] };
        /// The same; the field may be an experimenter's.
        OutputReg2 "output_reg2" {
            /// Which bits.
            bits: BitRange,
            /// Bytes to send if it is the controller; [`Action::WHOLE`] for all.
            max_len: u16,
            /// Of which field.
            src: FieldHeader,
        } = { V1_0.. => 0x2320_0020 [bits, max_len, src,] };
        /// Learns a rule from the packet.
        Learn "learn" (Box<LearnAction>) = { V1_0.. => 0x2320_0010 };
        /// Learns a rule from the packet, up to a limit.
        Learn2 "learn2" (Box<Learn2Action>) = { V1_0.. => 0x2320_002d };
        /// Puts bits of a field onto the stack.
        StackPush "stack_push" {
            /// From which bit on.
            offset: u16,
            /// Of which field.
            field: FieldHeader,
            /// How many.
            n_bits: u16,
        } = { V1_0.. => 0x2320_001b [offset, field, n_bits,] };
        /// Takes bits of a field off the stack.
        StackPop "stack_pop" {
            /// From which bit on.
            offset: u16,
            /// Of which field.
            field: FieldHeader,
            /// How many.
            n_bits: u16,
        } = { V1_0.. => 0x2320_001c [offset, field, n_bits,] };
        /// Hands the packet to the tracker of connections.
        Ct "ct" (Box<CtAction>) = { V1_0.. => 0x2320_0023 };
        /// Says in a bit whether the packet is larger than something.
        CheckPktLarger "check_pkt_larger" {
            /// Than how many bytes.
            pkt_len: u16,
            /// In which bit.
            offset: u16,
            /// Of which field.
            dst: FieldHeader,
        } = { V1_0.. => 0x2320_0031 [pkt_len, offset, dst,] };
        /// Takes a field out of the packet.
        DeleteField "delete_field" {
            /// Which.
            field: FieldHeader,
        } = { V1_0.. => 0x2320_0032 [field as PaddedHeader14,] };
        /// Samples packets for IPFIX, with domain and point from fields.
        Sample4 "sample4" {
            /// How many of 65 535 packets.
            probability: u16,
            /// For which collectors.
            collector_set_id: u32,
            /// Domain of the observation.
            obs_domain: NumberSource<u32>,
            /// Point of the observation.
            obs_point: NumberSource<u32>,
            /// The port.
            sampling_port: PortNo,
            /// Which way.
            direction: SampleDirection,
        } = { V1_0.. => 0x2320_0033 [probability, collector_set_id, obs_domain, obs_point,
            sampling_port as Port16, direction, pad 5,] };
        /// Translates addresses and ports; within [`Ct`](Self::Ct).
        Nat "nat" (Box<NatAction>) = { V1_0.. => 0x2320_0024 };
        /// Forgets what is known of the packet's connection.
        CtClear "ct_clear" = { V1_0.. => 0x2320_002b [pad 6,] };
        /// Sends the first bytes of the packet out of a port.
        OutputTrunc "output_trunc" {
            /// Where to.
            port: PortNo,
            /// How many bytes.
            max_len: u32,
        } = { V1_0.. => 0x2320_0027 [port as Port16, max_len,] };
        /// Does something with a copy of the packet.
        Clone "clone" {
            /// What.
            actions: Vec<Self>,
        } = { V1_0.. => 0x2320_002a [pad 6, actions,] };
        /// Pushes a header.
        Encap "encap" {
            /// Bytes of the header, 0 for as many as it has.
            hdr_size: u16,
            /// Its packet type: namespace over 16 bits of type.
            new_pkt_type: u32,
            /// What it is made with.
            properties: Vec<EncapProp>,
        } = { V1_3.. => 0x2320_002e [hdr_size, new_pkt_type, properties,] };
        /// Takes the outermost header off.
        Decap "decap" {
            /// Packet type of what is below; 0xfffe to find out.
            new_pkt_type: u32,
        } = { V1_3.. => 0x2320_002f [pad 2, new_pkt_type,] };
        /// Counts the time to live of NSH down.
        DecNshTtl "dec_nsh_ttl" = { V1_3.. => 0x2320_0030 [pad 6,] };
        /// Goes the slow way, to test.
        DebugSlow "debug_slow" = { V1_0.. => 0x2320_00fe [pad 6,] };
        /// Goes through the tables twice, to test.
        DebugRecirc "debug_recirc" = { V1_0.. => 0x2320_00ff [pad 6,] };

        /// An experimenter's own; `VENDOR` in 1.0.
        Experimenter "experimenter" {
            /// Whose.
            experimenter: u32,
            /// The rest, padding included.
            data: Vec<u8>,
        } = { V1_0.. => 0xffff [experimenter, data,] };
    }
}

impl Action {
    /// [`Output`](Self::Output) sends the whole packet to the controller. §7.2.5, `OFPCML_NO_BUFFER`.
    pub const WHOLE: u16 = 0xffff;

    /// Sends the whole packet out of `port`.
    pub const fn output(port: PortNo) -> Self {
        Self::Output { port, max_len: Self::WHOLE }
    }

    /// What a version says instead that has no such action.
    fn instead(&self, version: Version) -> Option<Vec<Self>> {
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
                let value = u128::from(value).checked_shl(bits.offset.into())?;
                let mask = (u128::MAX >> (128 - u32::from(bits.n_bits)))
                    .checked_shl(bits.offset.into())?;
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
            return Err(EncodeError { what, version, needs: None });
        }
        match self.instead(out.version()) {
            Some(others) => others.iter().try_for_each(|it| it.encode(out)),
            None => encode_tlv(self, out, Padding::Inside),
        }
    }
}
