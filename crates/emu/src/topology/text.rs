//! Networks as people name them: a shape and its numbers, `tree,2,3` or `tree,depth=2,fanout=3`.

use std::fmt;

use super::{Fault, Topology, TopologyError, Where, shapes};

/// A shape that has a name.
struct Shape {
    name: &'static str,
    arguments: &'static [Argument],
    build: fn(&[u32]) -> Result<Topology, Fault>,
}

/// A number of a shape.
struct Argument {
    name: &'static str,
    min: u32,
    default: Option<u32>,
}

const fn needed(name: &'static str, min: u32) -> Argument {
    Argument { name, min, default: None }
}

const fn or(name: &'static str, min: u32, default: u32) -> Argument {
    Argument { name, min, default: Some(default) }
}

/// Every shape. The arguments that Mininet has are in its order, with its names and defaults.
const SHAPES: [Shape; 8] = [
    Shape { name: "minimal", arguments: &[], build: |_| shapes::single(2) },
    Shape { name: "single", arguments: &[or("k", 1, 2)], build: |n| shapes::single(at(n, 0)) },
    Shape {
        name: "linear",
        arguments: &[or("k", 1, 2), or("n", 0, 1)],
        build: |n| shapes::linear(at(n, 0), at(n, 1)),
    },
    Shape {
        name: "tree",
        arguments: &[or("depth", 1, 1), or("fanout", 1, 2)],
        build: |n| shapes::tree(at(n, 0), at(n, 1)),
    },
    Shape {
        name: "ring",
        arguments: &[needed("k", 3), or("n", 0, 1)],
        build: |n| shapes::ring(at(n, 0), at(n, 1)),
    },
    Shape {
        name: "mesh",
        arguments: &[needed("k", 2), or("n", 0, 1)],
        build: |n| shapes::mesh(at(n, 0), at(n, 1)),
    },
    Shape {
        name: "leafspine",
        arguments: &[needed("spines", 1), needed("leaves", 1), or("hosts", 0, 1)],
        build: |n| shapes::leaf_spine(at(n, 0), at(n, 1), at(n, 2)),
    },
    Shape {
        name: "torus",
        arguments: &[needed("x", 3), needed("y", 3), or("n", 0, 1)],
        build: |n| shapes::torus(at(n, 0), at(n, 1), at(n, 2)),
    },
];

fn at(numbers: &[u32], n: usize) -> u32 {
    numbers.get(n).copied().unwrap_or_default()
}

/// Lists the names of all shapes.
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
    let shape = shape.ok_or_else(|| Fault::UnknownShape(name.into()).whole())?;
    let mut given = vec![None; shape.arguments.len()];
    for (n, word) in words.enumerate() {
        let (n, value) = match word.split_once('=') {
            Some((key, value)) => {
                (shape.arguments.iter().position(|argument| argument.name == key), value)
            }
            None => (Some(n), word),
        };
        let named = n.and_then(|n| shape.arguments.get(n).zip(given.get_mut(n)));
        let (argument, slot) = named
            .ok_or_else(|| Fault::UnknownArgument(word.into()).at(Where::Argument(shape.name)))?;
        *slot = Some(number(argument, value)?);
    }
    let numbers = shape.arguments.iter().zip(given).map(|(argument, given)| {
        let missing = || Fault::Missing(argument.name).at(Where::Argument(shape.name));
        given.or(argument.default).ok_or_else(missing)
    });
    let numbers = numbers.collect::<Result<Vec<_>, _>>()?;
    (shape.build)(&numbers).map_err(|fault| fault.at(Where::Argument(shape.name)))
}

fn number(argument: &Argument, text: &str) -> Result<u32, TopologyError> {
    let place = Where::Argument(argument.name);
    let number: u32 = match text.parse() {
        Ok(number) => number,
        Err(_) => return Err(Fault::NotA("a number", text.into()).at(place)),
    };
    let few = Fault::TooFew { what: argument.name, min: argument.min.into() };
    (number >= argument.min).then_some(number).ok_or_else(|| few.at(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        parse(text).unwrap_err().to_string()
    }

    #[test]
    fn numbers_go_by_place_or_by_name() {
        assert_eq!(parse("tree,2,3"), parse("tree, fanout=3, depth=2"));
        assert_eq!(parse("minimal"), parse("single"));
        assert_eq!(parse("linear,3"), parse("linear,k=3,n=1"));
        assert_ne!(parse("leafspine,2,4").unwrap(), parse("leafspine,2,4,10").unwrap());
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        assert_eq!(
            error("star,3"),
            "no shape is called \"star\"; there are minimal, single, linear, tree, ring, mesh, leafspine, torus"
        );
        assert_eq!(error("tree,2,x"), "fanout: \"x\" is not a number");
        assert_eq!(error("tree,2,-1"), "fanout: \"-1\" is not a number");
        assert_eq!(error("tree,2,3,4"), "tree: no argument for \"4\"");
        assert_eq!(error("tree,width=2"), "tree: no argument for \"width=2\"");
        assert_eq!(error("ring"), "ring: there is no k");
        assert_eq!(error("torus,3,2"), "y: at least 3 y are needed");
        assert_eq!(error("tree,40,40"), "tree: more than 20000 switches");
        assert_eq!(error("single,4000000000"), "single: more than 65279 ports of one switch");
        assert_eq!(error("mesh,19999,0"), "mesh: more than 1048576 links");
    }
}
