//! Protocol versions and sets of them. §6.3.1.

use core::fmt;

use crate::{Expected, ParseError, ParseErrorKind, Result};

/// A version of OpenFlow, as the byte in the header. An open set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u8);

impl Version {
    /// OpenFlow 1.0.
    pub const V1_0: Self = Self(1);
    /// OpenFlow 1.1.
    pub const V1_1: Self = Self(2);
    /// OpenFlow 1.2.
    pub const V1_2: Self = Self(3);
    /// OpenFlow 1.3.
    pub const V1_3: Self = Self(4);
    /// OpenFlow 1.4.
    pub const V1_4: Self = Self(5);
    /// OpenFlow 1.5.
    pub const V1_5: Self = Self(6);

    /// The error that this is not a supported version.
    pub(crate) const fn unsupported(self) -> ParseError {
        let expected = Expected::Between(Self::V1_0.0, Self::V1_5.0);
        ParseError::new("version", 0, ParseErrorKind::Version).with_value(self.0 as u32, expected)
    }

    /// Checks that this is one of 1.0 to 1.5.
    ///
    /// # Errors
    /// `Version` if it is not.
    pub(crate) fn known(self) -> Result<Self> {
        let known = (Self::V1_0..=Self::V1_5).contains(&self);
        if known { Ok(self) } else { Err(self.unsupported()) }
    }

    /// Parses `1.0` to `1.5`.
    pub fn from_text(text: &str) -> Option<Self> {
        let minor: u8 = text.strip_prefix("1.")?.parse().ok()?;
        (minor <= 5).then_some(Self(minor + 1))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            n @ 1..=6 => write!(f, "1.{}", n - 1),
            n => write!(f, "{n:#04x}"),
        }
    }
}

/// A set of versions, as in the bitmap of a `HELLO`. §7.5.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Versions(pub u32);

impl Versions {
    /// No version.
    pub const NONE: Self = Self(0);
    /// The supported versions: 1.0 to 1.5.
    pub const SUPPORTED: Self = Self(0b111_1110);

    /// The set of `versions`; those above 31 are ignored.
    pub fn of(versions: &[Version]) -> Self {
        Self(versions.iter().fold(0, |set, v| set | 1u32.checked_shl(v.0.into()).unwrap_or(0)))
    }

    /// The set with the versions from `first` to `last`, which are at most 31.
    #[must_use]
    pub(crate) const fn with(self, first: Version, last: Version) -> Self {
        // For 31 the upper bound is 0, which wraps around to the right bits.
        Self(self.0 | (2_u32 << last.0).wrapping_sub(1 << first.0))
    }

    /// Whether `version` is in the set.
    pub fn contains(self, version: Version) -> bool {
        self.0.checked_shr(version.0.into()).is_some_and(|bits| bits & 1 == 1)
    }

    /// The versions that are in both sets.
    #[must_use]
    pub const fn both(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The versions in the set, lowest first.
    pub fn iter(self) -> impl Iterator<Item = Version> {
        (0..32).map(Version).filter(move |&version| self.contains(version))
    }

    /// The highest version in the set; `None` if it is empty.
    pub fn highest(self) -> Option<Version> {
        #[expect(clippy::cast_possible_truncation, reason = "31 at most")]
        self.0.checked_ilog2().map(|bit| Version(bit as u8))
    }

    /// The version that this set and the peer's `HELLO` lead to; `None` if there is none.
    ///
    /// If both sides sent a bitmap, the highest common version. Otherwise the smaller of the two header versions,
    /// if it is in this set. §6.3.1.
    pub fn negotiate(self, theirs: Version, bitmap: Option<Self>) -> Option<Version> {
        match bitmap {
            Some(bitmap) if self.highest() > Some(Version::V1_0) => self.both(bitmap).highest(),
            _ => Some(theirs.min(self.highest()?)).filter(|&v| self.contains(v)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A set as a configuration may restrict it.
    const SOME: Versions = Versions(1 << 1 | 1 << 4);

    #[test]
    fn all_versions_with_a_name_are_supported() {
        let named: Vec<_> = (0..32).map(Version).filter(|v| !v.to_string().contains('x')).collect();
        assert_eq!(Versions::SUPPORTED.iter().collect::<Vec<_>>(), named);
        assert_eq!(named.len(), 6);
    }

    #[test]
    fn ranges_extend_to_the_last_bit() {
        assert_eq!(Versions::NONE.with(Version(30), Version(31)), Versions(0b11 << 30));
        assert_eq!(Versions::NONE.with(Version(0), Version(31)), Versions(u32::MAX));
        assert_eq!(Versions::NONE.with(Version::V1_0, Version::V1_5), Versions::SUPPORTED);
    }

    #[test]
    fn without_a_bitmap_the_smaller_header_version_wins() {
        for version in Versions::SUPPORTED.iter() {
            assert_eq!(Versions::SUPPORTED.negotiate(version, None), Some(version));
        }
        assert_eq!(Versions::SUPPORTED.negotiate(Version(7), None), Some(Version::V1_5));
        assert_eq!(Versions::SUPPORTED.negotiate(Version(0), None), None);
        assert_eq!(SOME.negotiate(Version::V1_0, None), Some(Version::V1_0));
        assert_eq!(SOME.negotiate(Version::V1_5, None), Some(Version::V1_3));
        assert_eq!(SOME.negotiate(Version::V1_2, None), None);
    }

    #[test]
    fn with_a_bitmap_the_highest_common_version_wins() {
        let theirs = Versions::of(&[Version::V1_0, Version::V1_1, Version::V1_4]);
        assert_eq!(Versions::SUPPORTED.negotiate(Version::V1_4, Some(theirs)), Some(Version::V1_4));
        assert_eq!(SOME.negotiate(Version::V1_4, Some(theirs)), Some(Version::V1_0));
        let none = Versions::of(&[Version::V1_1]);
        assert_eq!(SOME.negotiate(Version::V1_1, Some(none)), None);
        let later = Versions::of(&[Version::V1_2, Version(9)]);
        assert_eq!(Versions::SUPPORTED.negotiate(Version(9), Some(later)), Some(Version::V1_2));
    }

    #[test]
    fn versions_have_names() {
        assert_eq!(Version::V1_3.to_string(), "1.3");
        assert_eq!(Version(0x99).to_string(), "0x99");
        assert_eq!(Version::from_text("1.5"), Some(Version::V1_5));
        assert_eq!(Version::from_text("1.6"), None);
    }
}
