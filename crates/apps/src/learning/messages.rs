//! The messages of a learning switch: flow entries and packet-outs, by templates or by the general encoder.

use sluice_fastpath::{FlowTemplates, MessageTemplate, TemplateValues};
use sluice_openflow::{
    Action, EncodeError, Encoder, Field, FlowMod, Instruction, MacAddr, PacketOutRef, PortNo,
};
use sluice_sdk::flow_space::LEARNED;

use super::{Config, Matching};

/// What the messages to one switch have in common. Functions with `TEMPLATES` patch a template, those without it encode each message
/// anew, which gives the same bytes.
#[derive(Debug)]
pub(super) struct Messages {
    cfg: Config,
    /// Template of the flow entry from one host to another.
    flow: MessageTemplate,
    /// Template of the packet-out with one output.
    packet_out: MessageTemplate,
}

impl Messages {
    /// For the switch that `out` writes to.
    pub(super) fn new(cfg: &Config, out: &Encoder<'_>) -> Result<Self, EncodeError> {
        let actions = [Action::output(PortNo(1))];
        let in_port = PortNo(1);
        let packet = PacketOutRef { buffer_id: None, in_port, actions: &actions, frame: &[] };
        let flow = MessageTemplate::flow_mod(out, &placeholder(cfg))?;
        let packet_out = MessageTemplate::packet_out(out, &packet)?;
        Ok(Self { cfg: cfg.clone(), flow, packet_out })
    }

    pub(super) fn configure(&mut self, cfg: &Config) {
        self.cfg = cfg.clone();
        let encoded = self.flow.set_flow_mod(&placeholder(cfg));
        debug_assert!(encoded.is_ok(), "every version can express it");
    }

    #[inline]
    pub(super) fn templates(&self) -> FlowTemplates<'_> {
        FlowTemplates { flow: &self.flow, packet_out: &self.packet_out }
    }

    /// Installs a flow entry.
    #[expect(clippy::inline_always, reason = "lab/instructions: a call costs a tenth")]
    #[inline(always)]
    pub(super) fn flow<const TEMPLATES: bool>(
        &self,
        out: &mut Encoder<'_>,
        values: &TemplateValues<'_>,
    ) -> Result<u32, EncodeError> {
        if TEMPLATES {
            return self.flow.encode(out, values);
        }
        let vlan = values.vlan.map_or_else(Field::untagged, Field::vlan);
        let (dst, src) = (Field::eth_dst(values.eth.dst), Field::eth_src(values.eth.src));
        let fields = [Field::in_port(values.in_port), src, dst, vlan];
        let buffer_id = values.buffer_id;
        out.flow_mod(&FlowMod { buffer_id, ..flow_mod(&self.cfg, fields, values.out_port) })
    }

    /// Sends a frame that the switch has buffered, or else `frame`.
    #[inline]
    pub(super) fn packet_out<const TEMPLATES: bool>(
        &self,
        out: &mut Encoder<'_>,
        values: &TemplateValues<'_>,
        frame: &[u8],
    ) -> Result<u32, EncodeError> {
        let frame = if values.buffer_id.is_some() { &[] } else { frame };
        if TEMPLATES && values.buffer_id.is_some() {
            return self.packet_out.encode(out, values);
        }
        if TEMPLATES {
            return self.packet_out.encode_with_frame(out, values, frame);
        }
        let actions = [Action::output(values.out_port)];
        let TemplateValues { buffer_id, in_port, .. } = *values;
        out.packet_out(&PacketOutRef { buffer_id, in_port, actions: &actions, frame })
    }
}

/// The flow entry for the template; addresses, VLAN and ports are placeholders.
fn placeholder(cfg: &Config) -> FlowMod {
    let any = MacAddr::BROADCAST;
    let (dst, src) = (Field::eth_dst(any), Field::eth_src(any));
    flow_mod(cfg, [Field::in_port(PortNo(1)), src, dst, Field::untagged()], PortNo(1))
}

/// The flow entry from one host to another. Of the `fields` ingress port, source, destination and VLAN it matches as many as configured.
fn flow_mod(cfg: &Config, fields: [Field; 4], out_port: PortNo) -> FlowMod {
    let skipped = match cfg.matching {
        Matching::PortPair => 0,
        Matching::Pair => 1,
        Matching::Dst => 2,
    };
    FlowMod {
        cookie: LEARNED.cookie,
        idle_timeout: cfg.idle_timeout_s,
        hard_timeout: cfg.hard_timeout_s,
        priority: cfg.priority,
        matching: fields.into_iter().skip(skipped).collect(),
        instructions: vec![Instruction::apply([Action::output(out_port)])],
        ..FlowMod::default()
    }
}
