//! Topologies of an [`OvsNetwork`]: bridges `s1`, `s2`… with datapath ids 1, 2…, and links between them.

use crate::OpenFlow;
use crate::ovs::OvsNetwork;
use crate::test_env::TestEnv;

impl OvsNetwork {
    /// Bridges `s1` to `s<count>` with datapath ids 1 to `count`, in a line.
    pub fn line(env: TestEnv, version: OpenFlow, count: u16) -> Self {
        let mut network = Self::new(env, version);
        for number in 1..=count {
            network.bridge(&format!("s{number}"), u64::from(number));
        }
        for number in 1..count {
            network.link(&format!("s{number}"), &format!("s{}", number + 1));
        }
        network
    }

    /// Bridges `s1` to `s<count>` in a ring.
    pub fn ring(env: TestEnv, version: OpenFlow, count: u16) -> Self {
        let network = Self::line(env, version, count);
        network.link(&format!("s{count}"), "s1");
        network
    }

    /// Bridges `s1` to `s<count>`, fully meshed.
    pub fn mesh(env: TestEnv, version: OpenFlow, count: u16) -> Self {
        let mut network = Self::new(env, version);
        for number in 1..=count {
            network.bridge(&format!("s{number}"), u64::from(number));
            (1..number).for_each(|other| network.link(&format!("s{other}"), &format!("s{number}")));
        }
        network
    }

    /// Leaves `s1` to `s<leaves>`, each linked to every spine; the spines' numbers follow.
    pub fn leaf_spine(env: TestEnv, version: OpenFlow, spines: u16, leaves: u16) -> Self {
        let mut network = Self::new(env, version);
        for number in 1..=leaves + spines {
            network.bridge(&format!("s{number}"), u64::from(number));
        }
        for spine in leaves + 1..=leaves + spines {
            (1..=leaves).for_each(|leaf| network.link(&format!("s{leaf}"), &format!("s{spine}")));
        }
        network
    }

    /// A binary tree of seven bridges: root `s1`, below it `s2` and `s3`, below them `s4` to `s7`.
    pub fn tree(env: TestEnv, version: OpenFlow) -> Self {
        let mut network = Self::new(env, version);
        for number in 1..=7u16 {
            network.bridge(&format!("s{number}"), u64::from(number));
            if number > 1 {
                network.link(&format!("s{}", number / 2), &format!("s{number}"));
            }
        }
        network
    }

    /// A fat tree of switches with four ports: four pods of two edge switches, `s1` to `s8`, and two aggregation switches, `s9` to
    /// `s16`, below the core switches `s17` to `s20`.
    pub fn fat_tree(env: TestEnv, version: OpenFlow) -> Self {
        let mut network = Self::new(env, version);
        for number in 1..=20u16 {
            network.bridge(&format!("s{number}"), u64::from(number));
        }
        let link =
            |lower: u16, upper: u16| network.link(&format!("s{lower}"), &format!("s{upper}"));
        for (pod, n, m) in
            (0..4).flat_map(|pod| [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(n, m)| (pod, n, m)))
        {
            let aggregation = 9 + 2 * pod + n;
            link(1 + 2 * pod + m, aggregation);
            link(aggregation, 17 + 2 * n + m);
        }
        network
    }
}
