//! `GraphML`, as the Internet Topology Zoo writes it. <http://graphml.graphdrawing.org>, <http://www.topology-zoo.org>
//!
//! Every node becomes a switch with one host, every edge a link. A link's rate is its `LinkSpeedRaw`; its delay is that
//! of light in optical fibre along the great circle between its ends, if their coordinates are known.

use std::num::NonZeroU64;
use std::time::Duration;

use roxmltree::{Document, Node as Element, ParsingOptions};
use sluice_base::HashMap;
use sluice_openflow::DatapathId;

use super::{
    ErrorLocation, LINKS_MAX, NodeRef, SWITCHES_MAX, Topology, TopologyBuilder, TopologyError,
    TopologyErrorKind,
};
use crate::link::{LinkImpairments, RATE_MAX};

/// Most XML nodes of one document: twice what the Topology Zoo has per node and edge, at our limits.
const XML_NODES_MAX: u32 = 8_000_000;

/// Speed of light in optical fibre, km/s.
const FIBRE_KM_PER_S: f64 = 200_000.0;

/// Mean radius of the Earth in km.
const EARTH_KM: f64 = 6371.0;

/// Latitude and longitude in degrees.
type Coordinates = (f64, f64);

pub(super) fn parse(contents: &str) -> Result<Topology, TopologyError> {
    let options = ParsingOptions {
        allow_dtd: false,
        nodes_limit: XML_NODES_MAX,
        ..ParsingOptions::default()
    };
    let doc = Document::parse_with_options(contents, options).map_err(|e| {
        TopologyErrorKind::Malformed(message(&e)).at(ErrorLocation::Line(e.pos().row))
    })?;
    let lines = LineIndex::new(contents);
    let keys = AttributeKeys::new(&doc);
    let graph = doc.root_element().children().find(|e| e.tag_name().name() == "graph");
    let graph =
        graph.ok_or_else(|| TopologyErrorKind::MissingElement("graph").without_location())?;
    let mut b = TopologyBuilder::new();
    let mut nodes = HashMap::default();
    for element in graph.children().filter(|e| e.tag_name().name() == "node") {
        let at = |fault: TopologyErrorKind| fault.at(lines.of(element));
        let id = element
            .attribute("id")
            .ok_or_else(|| at(TopologyErrorKind::MissingElement("id of a node")))?;
        let number = nodes.len() + 1;
        if number > SWITCHES_MAX {
            return Err(at(TopologyErrorKind::TooMany { what: "nodes", max: SWITCHES_MAX }));
        }
        let switch = switch(&mut b, number, keys.text(element, "label")).map_err(at)?;
        let host = b.add_host(format!("h{number}"), None).map_err(at)?;
        b.add_link(host, switch, LinkImpairments::default()).map_err(at)?;
        let coordinates = keys.number(element, "Latitude").zip(keys.number(element, "Longitude"));
        if nodes.insert(id, (switch, coordinates)).is_some() {
            return Err(at(TopologyErrorKind::Duplicate(format!("node {id}"))));
        }
    }
    let edges = graph.children().filter(|e| e.tag_name().name() == "edge");
    for (n, element) in edges.enumerate() {
        let at = |fault: TopologyErrorKind| fault.at(lines.of(element));
        if n >= LINKS_MAX {
            return Err(at(TopologyErrorKind::TooMany { what: "edges", max: LINKS_MAX }));
        }
        let end = |name| {
            let id = element
                .attribute(name)
                .ok_or(TopologyErrorKind::MissingElement("end of an edge"))?;
            nodes.get(id).copied().ok_or_else(|| TopologyErrorKind::UnknownNode(id.into()))
        };
        let (a, b_end) = (end("source").map_err(at)?, end("target").map_err(at)?);
        let delay = a.1.zip(b_end.1).map_or(Duration::ZERO, |(a, b)| delay(a, b));
        let rate = keys.number(element, "LinkSpeedRaw").map(whole).unwrap_or_default();
        let rate_bps = NonZeroU64::new(rate.min(RATE_MAX));
        let shape = LinkImpairments { delay, rate_bps, ..LinkImpairments::default() };
        b.add_link(a.0, b_end.0, shape).map_err(at)?;
    }
    b.build().map_err(TopologyErrorKind::without_location)
}

/// Adds a switch named by its label, or `s1`, `s2`, … if it has none or the label is in use.
fn switch(
    b: &mut TopologyBuilder,
    number: usize,
    label: Option<&str>,
) -> Result<NodeRef, TopologyErrorKind> {
    let id = DatapathId(number as u64);
    let label = label.map(str::trim).filter(|label| !label.is_empty());
    match label {
        Some(label) if !b.has_name(label) => b.add_switch(label, id),
        _ => b.add_switch(format!("s{number}"), id),
    }
}

/// Key identifiers by attribute name.
struct AttributeKeys<'a>(HashMap<&'a str, Vec<&'a str>>);

impl<'a> AttributeKeys<'a> {
    fn new(doc: &'a Document<'_>) -> Self {
        let mut keys: HashMap<_, Vec<_>> = HashMap::default();
        let elements = doc.root_element().children().filter(|e| e.tag_name().name() == "key");
        for (name, id) in elements.filter_map(|e| e.attribute("attr.name").zip(e.attribute("id"))) {
            keys.entry(name).or_default().push(id);
        }
        Self(keys)
    }

    /// The text that `element` has under the key `name`.
    fn text<'d>(&self, element: Element<'d, '_>, name: &str) -> Option<&'d str> {
        let ids = self.0.get(name)?;
        let mut data = element.children().filter(|e| e.tag_name().name() == "data");
        data.find(|e| e.attribute("key").is_some_and(|key| ids.contains(&key)))?.text()
    }

    /// The number under the key `name`; text that is not a number, such as the ranges in some Zoo files, is ignored.
    fn number(&self, element: Element<'_, '_>, name: &str) -> Option<f64> {
        let number = self.text(element, name)?.trim().parse().ok();
        number.filter(|number: &f64| number.is_finite())
    }
}

/// Byte offsets of line ends. Asking the XML document for each element's line would scan it every time.
struct LineIndex(Vec<usize>);

impl LineIndex {
    fn new(contents: &str) -> Self {
        Self(contents.match_indices('\n').map(|(at, _)| at).collect())
    }

    fn of(&self, element: Element<'_, '_>) -> ErrorLocation {
        let before = self.0.partition_point(|&at| at < element.range().start);
        ErrorLocation::Line(u32::try_from(before + 1).unwrap_or(u32::MAX))
    }
}

/// The parser's message without its position, which is reported separately.
fn message(error: &roxmltree::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at ").map_or(text.as_str(), |(why, _)| why).into()
}

/// Propagation delay in optical fibre along the great circle.
fn delay(a: Coordinates, b: Coordinates) -> Duration {
    let (lat_a, lat_b) = (a.0.to_radians(), b.0.to_radians());
    let (lat, lon) = (lat_b - lat_a, (b.1 - a.1).to_radians());
    let h = (lat / 2.0).sin().powi(2) + lat_a.cos() * lat_b.cos() * (lon / 2.0).sin().powi(2);
    let km = 2.0 * EARTH_KM * h.clamp(0.0, 1.0).sqrt().asin();
    Duration::try_from_secs_f64(km / FIBRE_KM_PER_S).unwrap_or_default()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "what is negative becomes 0, what is too large the largest"
)]
fn whole(number: f64) -> u64 {
    number.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(contents: &str) -> String {
        parse(contents).unwrap_err().to_string()
    }

    #[test]
    fn errors_are_reported_with_their_line() {
        assert_eq!(
            error("<graphml>\n<graph>\n</graphml>"),
            "line 3: expected 'graph' tag, not 'graphml'"
        );
        assert_eq!(error("<graphml/>"), "missing graph");
        let graph = |inner: &str| format!("<graphml><graph>\n{inner}\n</graph></graphml>");
        assert_eq!(error(&graph("<node/>")), "line 2: missing id of a node");
        assert_eq!(
            error(&graph("<node id='a'/>\n<edge source='a' target='b'/>")),
            "line 3: unknown node \"b\""
        );
        assert_eq!(error(&graph("<node id='a'/>\n<node id='a'/>")), "line 3: duplicate node a");
        let bomb = "<!DOCTYPE g [<!ENTITY a 'aaaa'>]>\n<graphml>&a;</graphml>";
        assert!(error(bomb).starts_with("line 1: "));
    }

    #[test]
    fn the_delay_is_that_of_light_in_fibre() {
        let (berlin, new_york) = ((52.52, 13.40), (40.71, -74.01));
        let ms = delay(berlin, new_york).as_millis();
        assert!((31..=33).contains(&ms), "{ms} ms for some 6 390 km");
        assert_eq!(delay(berlin, berlin), Duration::ZERO);
    }
}
