//! Shapes in text form: a name and numbers, `tree,2,3` or `tree,depth=2,fanout=3`.

use std::fmt;

use super::{ErrorLocation, Topology, TopologyError, TopologyErrorKind, shapes};

/// A shape with its name and arguments.
struct NamedShape {
    name: &'static str,
    arguments: &'static [ShapeArgument],
    build: fn(&[u32]) -> Result<Topology, TopologyErrorKind>,
}

/// A numeric argument of a shape.
struct ShapeArgument {
    name: &'static str,
    /// What it counts.
    of: &'static str,
    min: u32,
    default: Option<u32>,
}

const fn needed(name: &'static str, of: &'static str, min: u32) -> ShapeArgument {
    ShapeArgument { name, of, min, default: None }
}

const fn or(name: &'static str, of: &'static str, min: u32, default: u32) -> ShapeArgument {
    ShapeArgument { name, of, min, default: Some(default) }
}

/// Hosts of each switch, in shapes where every switch can have some.
const HOSTS: ShapeArgument = or("n", "hosts of each switch", 0, 1);

/// All shapes. Those that Mininet has use its names, argument order and defaults.
const SHAPES: [NamedShape; 9] = [
    NamedShape { name: "minimal", arguments: &[], build: |_| shapes::single(2) },
    NamedShape {
        name: "single",
        arguments: &[or("k", "hosts", 1, 2)],
        build: |n| shapes::single(at(n, 0)),
    },
    NamedShape {
        name: "linear",
        arguments: &[or("k", "switches", 1, 2), HOSTS],
        build: |n| shapes::linear(at(n, 0), at(n, 1)),
    },
    NamedShape {
        name: "tree",
        arguments: &[
            or("depth", "levels of switches", 1, 1),
            or("fanout", "nodes below each switch", 1, 2),
        ],
        build: |n| shapes::tree(at(n, 0), at(n, 1)),
    },
    NamedShape {
        name: "ring",
        arguments: &[needed("k", "switches", 3), HOSTS],
        build: |n| shapes::ring(at(n, 0), at(n, 1)),
    },
    NamedShape {
        name: "mesh",
        arguments: &[needed("k", "switches", 2), HOSTS],
        build: |n| shapes::mesh(at(n, 0), at(n, 1)),
    },
    NamedShape {
        name: "leafspine",
        arguments: &[
            needed("spines", "spines", 1),
            needed("leaves", "leaves", 1),
            or("hosts", "hosts of each leaf", 0, 1),
        ],
        build: |n| shapes::leaf_spine(at(n, 0), at(n, 1), at(n, 2)),
    },
    NamedShape {
        name: "fattree",
        arguments: &[
            needed("k", "ports of each switch", 2),
            or("hosts", "hosts of each edge switch", 0, 1),
        ],
        build: |n| shapes::fat_tree(at(n, 0), at(n, 1)),
    },
    NamedShape {
        name: "torus",
        arguments: &[needed("x", "rows", 3), needed("y", "columns", 3), HOSTS],
        build: |n| shapes::torus(at(n, 0), at(n, 1), at(n, 2)),
    },
];

fn at(numbers: &[u32], n: usize) -> u32 {
    numbers.get(n).copied().unwrap_or_default()
}

/// Writes the names of all shapes.
pub(super) fn names(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (n, shape) in SHAPES.iter().enumerate() {
        write!(f, "{}{}", if n == 0 { "" } else { ", " }, shape.name)?;
    }
    Ok(())
}

pub(super) fn parse(text: &str) -> Result<Topology, TopologyError> {
    let mut words = text.split(',').map(str::trim);
    let name = words.next().unwrap_or_default();
    let shape = SHAPES.iter().find(|shape| shape.name == name);
    let shape =
        shape.ok_or_else(|| TopologyErrorKind::UnknownShape(name.into()).without_location())?;
    let mut given = vec![None; shape.arguments.len()];
    for (n, word) in words.enumerate() {
        let (n, value) = match word.split_once('=') {
            Some((key, value)) => {
                (shape.arguments.iter().position(|argument| argument.name == key), value)
            }
            None => (Some(n), word),
        };
        let named = n.and_then(|n| shape.arguments.get(n).zip(given.get_mut(n)));
        let (argument, slot) = named.ok_or_else(|| {
            TopologyErrorKind::UnknownArgument { text: word.into(), shape: shape.usage() }
                .without_location()
        })?;
        *slot = Some(shape.number(argument, value)?);
    }
    let numbers = shape.arguments.iter().zip(given).map(|(argument, given)| {
        let missing = || {
            TopologyErrorKind::MissingArgument { name: argument.name, of: argument.of }
                .at(ErrorLocation::Argument(shape.name))
        };
        given.or(argument.default).ok_or_else(missing)
    });
    let numbers = numbers.collect::<Result<Vec<_>, _>>()?;
    (shape.build)(&numbers).map_err(|fault| fault.at(ErrorLocation::Argument(shape.name)))
}

impl NamedShape {
    /// The name of the shape with those of its arguments.
    fn usage(&self) -> String {
        let names = self.arguments.iter().map(|argument| argument.name);
        [self.name].into_iter().chain(names).collect::<Vec<_>>().join(",")
    }

    fn number(&self, argument: &ShapeArgument, text: &str) -> Result<u32, TopologyError> {
        let ShapeArgument { name, of, min, .. } = *argument;
        let number: u32 = match text.parse() {
            Ok(number) => number,
            Err(_) => {
                return Err(TopologyErrorKind::InvalidValue("a number", text.into())
                    .at(ErrorLocation::Argument(name)));
            }
        };
        let few =
            || TopologyErrorKind::TooFew { name, of, min }.at(ErrorLocation::Argument(self.name));
        (number >= min).then_some(number).ok_or_else(few)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        parse(text).unwrap_err().to_string()
    }

    #[test]
    fn arguments_are_positional_or_named() {
        assert_eq!(parse("tree,2,3"), parse("tree, fanout=3, depth=2"));
        assert_eq!(parse("minimal"), parse("single"));
        assert_eq!(parse("linear,3"), parse("linear,k=3,n=1"));
        assert_ne!(parse("leafspine,2,4").unwrap(), parse("leafspine,2,4,10").unwrap());
    }

    #[test]
    fn errors_name_the_shape_or_the_argument() {
        assert_eq!(
            error("star,3"),
            "unknown shape \"star\" (known: minimal, single, linear, tree, ring, mesh, leafspine, fattree, torus)"
        );
        assert_eq!(error("tree,2,x"), "fanout: \"x\" is not a number");
        assert_eq!(error("tree,2,-1"), "fanout: \"-1\" is not a number");
        assert_eq!(error("tree,2,3,4"), "unexpected argument \"4\" (expected tree,depth,fanout)");
        assert_eq!(
            error("tree,width=2"),
            "unexpected argument \"width=2\" (expected tree,depth,fanout)"
        );
        assert_eq!(error("ring"), "ring: k (switches) is missing");
        assert_eq!(error("ring,2"), "ring: k (switches) must be at least 3");
        assert_eq!(error("fattree,5"), "fattree: \"5\" is not an even number");
        assert_eq!(error("torus,3,2"), "torus: y (columns) must be at least 3");
        assert_eq!(error("tree,40,40"), "tree: more than 20000 switches");
        assert_eq!(error("single,4000000000"), "single: more than 65279 ports of one switch");
        assert_eq!(error("mesh,19999,0"), "mesh: more than 1048576 links");
    }
}
