//! Flow entries as `ovs-ofctl` lists them.

use std::fmt;

/// One flow entry, as `ovs-ofctl dump-flows --no-stats` prints it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListedFlow {
    text: String,
}

impl ListedFlow {
    /// Parses a listing; sorted, since the order of a switch may vary.
    pub fn list(listing: &str) -> Vec<Self> {
        let lines = listing.lines().map(str::trim).filter(|line| line.contains("actions="));
        let mut flows: Vec<_> = lines.map(|line| Self { text: line.to_owned() }).collect();
        flows.sort();
        flows
    }

    /// The value of `key` before the actions, for example of `dl_dst`; `None` if it is absent.
    pub fn value(&self, key: &str) -> Option<&str> {
        let head = self.text.rsplit_once(" actions=").map_or("", |(head, _)| head);
        let pairs = head.split([',', ' ']).filter_map(|pair| pair.split_once('='));
        pairs.into_iter().find_map(|(k, value)| (k == key).then_some(value))
    }

    /// The actions, for example `output:1`.
    pub fn actions(&self) -> &str {
        self.text.rsplit_once("actions=").map_or("", |(_, actions)| actions)
    }

    /// Whether this is a table-miss entry that sends packets to the controller. §5.4.
    pub fn is_table_miss(&self) -> bool {
        self.value("priority") == Some("0") && self.actions().starts_with("CONTROLLER")
    }
}

impl fmt::Display for ListedFlow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_is_parsed_into_keys_and_actions() {
        let flows = ListedFlow::list(
            "OFPST_FLOW reply (OF1.3) (xid=0x2):\n \
             idle_timeout=60, priority=1,dl_dst=00:00:00:00:00:02 actions=output:102\n \
             priority=0 actions=CONTROLLER:65535\n",
        );
        assert_eq!(flows.len(), 2);
        assert_eq!(flows[0].value("idle_timeout"), Some("60"));
        assert_eq!(flows[0].value("dl_dst"), Some("00:00:00:00:00:02"));
        assert_eq!(flows[0].value("dl_src"), None);
        assert_eq!(flows[0].actions(), "output:102");
        assert!(flows[1].is_table_miss());
    }
}
