//! Names in files and ids.

use std::collections::BTreeSet;

use sluice_base::ordered;

/// The names, of which no two are the same: the first of several equal ones keeps its name, the others have a number at the end. Names that are
/// there once do not change.
pub(crate) fn unique(names: impl Iterator<Item = String>) -> Vec<String> {
    let names: Vec<String> = names.collect();
    let mut used: BTreeSet<String> = ordered(names.iter().cloned());
    let mut earlier = BTreeSet::new();
    let one = |name: String| {
        if earlier.insert(name.clone()) {
            return name;
        }
        let mut numbered = (2_u32..).map(|number| format!("{name}-{number}"));
        numbered.find(|it| used.insert(it.clone())).unwrap_or_default()
    };
    names.into_iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_of_two_equal_names_has_a_number_that_no_other_name_has() {
        let named = |names: &[&str]| unique(names.iter().map(|&it| it.to_owned()));
        assert_eq!(named(&["a", "b"]), ["a", "b"]);
        assert_eq!(named(&["a", "a", "b", "a"]), ["a", "a-2", "b", "a-3"]);
        assert_eq!(named(&["a", "a", "a-2"]), ["a", "a-3", "a-2"]);
    }
}
