//! Numbers with names: ports, groups, meters and so on, as Ryu writes and reads them.

use sluice_openflow::{PortNo, Version};

use super::literal::integer;

/// Numbers of one kind that have names.
#[derive(Debug)]
pub(super) struct Names {
    /// The prefix of the names in the specification, which may be left out.
    prefix: &'static str,
    rows: &'static [(&'static str, u32)],
}

pub(super) const PORTS: Names = Names {
    prefix: "OFPP_",
    rows: &[
        ("MAX", 0xffff_ff00),
        ("UNSET", 0xffff_fff7),
        ("IN_PORT", 0xffff_fff8),
        ("TABLE", 0xffff_fff9),
        ("NORMAL", 0xffff_fffa),
        ("FLOOD", 0xffff_fffb),
        ("ALL", 0xffff_fffc),
        ("CONTROLLER", 0xffff_fffd),
        ("LOCAL", 0xffff_fffe),
        ("ANY", 0xffff_ffff),
        // Of OpenFlow 1.0.
        ("NONE", 0xffff_ffff),
    ],
};
pub(super) const TABLES: Names = Names { prefix: "OFPTT_", rows: &[("MAX", 254), ("ALL", 255)] };
pub(super) const GROUPS: Names = Names {
    prefix: "OFPG_",
    rows: &[("MAX", 0xffff_ff00), ("ALL", 0xffff_fffc), ("ANY", 0xffff_ffff)],
};
pub(super) const METERS: Names = Names {
    prefix: "OFPM_",
    rows: &[
        ("MAX", 0xffff_0000),
        ("SLOWPATH", 0xffff_fffd),
        ("CONTROLLER", 0xffff_fffe),
        ("ALL", 0xffff_ffff),
    ],
};
pub(super) const QUEUES: Names = Names { prefix: "OFPQ_", rows: &[("ALL", 0xffff_ffff)] };
pub(super) const MAX_LENS: Names =
    Names { prefix: "OFPCML_", rows: &[("MAX", 0xffe5), ("NO_BUFFER", 0xffff)] };
pub(super) const BUFFERS: Names = Names { prefix: "OFP_", rows: &[("NO_BUFFER", 0xffff_ffff)] };
pub(super) const ROLES: Names = Names {
    prefix: "OFPCR_ROLE_",
    rows: &[("NOCHANGE", 0), ("EQUAL", 1), ("MASTER", 2), ("SLAVE", 3)],
};
pub(super) const GROUP_TYPES: Names =
    Names { prefix: "OFPGT_", rows: &[("ALL", 0), ("SELECT", 1), ("INDIRECT", 2), ("FF", 3)] };
pub(super) const METER_FLAGS: Names =
    Names { prefix: "OFPMF_", rows: &[("KBPS", 1), ("PKTPS", 2), ("BURST", 4), ("STATS", 8)] };
pub(super) const GROUP_CAPABILITIES: Names = Names {
    prefix: "OFPGFC_",
    rows: &[("SELECT_WEIGHT", 1), ("SELECT_LIVENESS", 2), ("CHAINING", 4), ("CHAINING_CHECKS", 8)],
};
/// Types of actions; names as bits are those of group features.
pub(super) const ACTION_TYPES: Names = Names {
    prefix: "OFPAT_",
    rows: &[
        ("OUTPUT", 0),
        ("COPY_TTL_OUT", 11),
        ("COPY_TTL_IN", 12),
        ("SET_MPLS_TTL", 15),
        ("DEC_MPLS_TTL", 16),
        ("PUSH_VLAN", 17),
        ("POP_VLAN", 18),
        ("PUSH_MPLS", 19),
        ("POP_MPLS", 20),
        ("SET_QUEUE", 21),
        ("GROUP", 22),
        ("SET_NW_TTL", 23),
        ("DEC_NW_TTL", 24),
        ("SET_FIELD", 25),
        ("PUSH_PBB", 26),
        ("POP_PBB", 27),
        ("COPY_FIELD", 28),
        ("METER", 29),
    ],
};
pub(super) const INSTRUCTION_TYPES: Names = Names {
    prefix: "OFPIT_",
    rows: &[
        ("GOTO_TABLE", 1),
        ("WRITE_METADATA", 2),
        ("WRITE_ACTIONS", 3),
        ("APPLY_ACTIONS", 4),
        ("CLEAR_ACTIONS", 5),
    ],
};
pub(super) const METER_BANDS: Names =
    Names { prefix: "OFPMBT_", rows: &[("DROP", 1), ("DSCP_REMARK", 2)] };

impl Names {
    pub(super) fn name(&self, number: u32) -> Option<&'static str> {
        self.rows.iter().find(|row| row.1 == number).map(|row| row.0)
    }

    /// The number that `text` writes or names.
    pub(super) fn number(&self, text: &str) -> Option<u64> {
        if let Some(n) = integer(text) {
            return u64::try_from(n).ok();
        }
        let upper = text.trim().to_ascii_uppercase();
        let name = upper.strip_prefix(self.prefix).unwrap_or(&upper);
        self.rows.iter().find(|row| row.0 == name).map(|row| row.1.into())
    }

    /// Whether `name` is one of the names.
    pub(super) fn has(&self, name: &str) -> bool {
        self.rows.iter().any(|row| row.0 == name)
    }

    /// All names, for error messages.
    pub(super) fn known(&self) -> String {
        let names: Vec<_> = self.rows.iter().map(|row| row.0).collect();
        names.join(", ")
    }

    /// The names whose numbers are bits that are set.
    pub(super) fn of_flags(&self, flags: u32) -> Vec<&'static str> {
        self.rows.iter().filter(|row| row.1 & flags != 0).map(|row| row.0).collect()
    }

    /// The names whose numbers are positions of bits that are set.
    pub(super) fn of_bits(&self, bits: u32) -> Vec<&'static str> {
        let is_set =
            |row: &&(&str, u32)| 1u32.checked_shl(row.1).is_some_and(|bit| bit & bits != 0);
        self.rows.iter().filter(is_set).map(|row| row.0).collect()
    }
}

/// The port with this number in `version`: in OpenFlow 1.0 they have 16 bits. `None` if it has more.
pub(super) fn port_of(number: u64, version: Version) -> Option<PortNo> {
    let wide = u32::try_from(number).ok()?;
    match u16::try_from(wide) {
        Ok(narrow) if version == Version::V1_0 => Some(PortNo::from_u16(narrow)),
        Err(_) if version == Version::V1_0 && wide < PortNo::MAX.0 => None,
        _ => Some(PortNo(wide)),
    }
}

/// The number of a port in `version`.
pub(super) fn port_number(port: PortNo, version: Version) -> u32 {
    match port.to_u16() {
        Ok(narrow) if version == Version::V1_0 => narrow.into(),
        _ => port.0,
    }
}

/// The name of a port in `version`, if it has one.
pub(super) fn port_name(port: PortNo, version: Version) -> Option<&'static str> {
    match PORTS.name(port.0) {
        Some("ANY") if version == Version::V1_0 => Some("NONE"),
        name => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_with_and_without_prefix() {
        for text in ["4294967293", "0xfffffffd", "CONTROLLER", "OFPP_CONTROLLER", "controller"] {
            assert_eq!(PORTS.number(text), Some(0xffff_fffd), "{text}");
        }
        for text in ["", "OFPG_ALL", "-1", "1.5", "CONTROL"] {
            assert_eq!(PORTS.number(text), None, "{text}");
        }
        assert_eq!(GROUP_CAPABILITIES.of_flags(5), ["SELECT_WEIGHT", "CHAINING"]);
        assert_eq!(GROUP_TYPES.of_bits(9), ["ALL", "FF"]);
    }

    #[test]
    fn ports_of_1_0_have_16_bits() {
        let (v1_0, v1_3) = (Version::V1_0, Version::V1_3);
        assert_eq!(port_of(0xfffd, v1_0), Some(PortNo::CONTROLLER));
        assert_eq!(port_of(0xfffd, v1_3), Some(PortNo(0xfffd)));
        assert_eq!(port_of(0xffff_fffd, v1_0), Some(PortNo::CONTROLLER));
        assert_eq!(port_of(0x1_0000, v1_0), None);
        assert_eq!(port_number(PortNo::LOCAL, v1_0), 0xfffe);
        assert_eq!(
            (port_name(PortNo::ANY, v1_0), port_name(PortNo(7), v1_0)),
            (Some("NONE"), None)
        );
    }
}
