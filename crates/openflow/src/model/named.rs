//! Macros for open sets of named numbers and flags; see [`rows`](super::rows).
//!
//! A row is name, value, versions and documentation. The versions are the first one, `V1_2`, or a range, `V1_0..=V1_2`;
//! several are separated by `|`. If the number on the wire differs from the value, it follows the versions:
//! `V1_0..=V1_0 => 8 | V1_1`.
//!
//! `pub struct Name(u16)` has 16 bits on the wire. All of its rows have the same versions. `pub struct Name(u32 as u16)` has
//! 16 bits on the wire too; the others are for numbers that one version defines and another does not, see
//! [`NameTable`](super::name_table::NameTable).

/// Defines an open set of numbers, some of which have names.
macro_rules! codes {
    (
        $(#[$meta:meta])*
        pub struct $name:ident($repr:ident $(as $wire:ident)?);
        $( $konst:ident = $n:literal, $( $since:ident $(..= $until:ident)? $(=> $number:literal)? )|+, $doc:literal; )*
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
        pub struct $name(pub $repr);

        impl $name {
            $( #[doc = $doc] pub const $konst: Self = Self($n); )*

            /// In each version, the lowest and the highest number that is not the same on the wire.
            const DIFFERENT: [(u128, u128); 6] =
                <Self as $crate::model::name_table::Named>::TABLE.different_numbers();

            /// Name in the specification; `None` for numbers that it does not define.
            pub fn name(self) -> Option<&'static str> {
                Self::ROWS.iter().find(|row| row.0 == self).map(|row| row.1)
            }

            /// Name in `version`, or else in another version.
            pub fn name_in(self, version: $crate::Version) -> Option<&'static str> {
                use $crate::model::name_table::Named;
                Self::TABLE.name_in(self.number(), version)
            }

            /// Whether `n` is the same on the wire in `version`.
            #[inline]
            fn is_same(n: u128, version: $crate::Version) -> bool {
                let index = usize::from(version.0).wrapping_sub(1);
                Self::DIFFERENT.get(index).is_some_and(|&(first, last)| n < first || last < n)
            }
        }

        $crate::model::named::named!(false $name $repr ($($wire)?)
            $( $konst $konst = $n, $( $since ($($until)?) ($($number)?) )+; )*);

        #[cfg(test)]
        impl $crate::model::random_values::Sample for $name {
            fn sample(rng: &mut $crate::model::random_values::Rng) -> Self {
                let wire = $crate::model::random_values::Sample::sample(rng);
                rng.row(Self::ROWS).unwrap_or_else(|| Self::from_wire(wire, rng.version))
            }
        }
    };
}

/// Defines a set of flags: rows are those of [`codes!`], each value is one bit; `as` gives a name that is not an
/// identifier.
///
/// The operators and methods are those of the `bitflags` crate. Bits without a name are kept: the set is open.
macro_rules! flags {
    (
        $(#[$meta:meta])*
        pub struct $name:ident($repr:ident $(as $wire:ident)?);
        $( $konst:ident $(as $text:literal)? = $n:literal,
            $( $since:ident $(..= $until:ident)? $(=> $number:literal)? )|+, $doc:literal; )*
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
        pub struct $name(pub $repr);

        bitflags::bitflags! {
            impl $name: $repr {
                $( #[doc = $doc] const $konst = $n; )*
                const _ = !0;
            }
        }

        impl $name {
            /// Bits that are the same on the wire, in each version.
            const SAME: [u128; 6] = <Self as $crate::model::name_table::Named>::TABLE.same_bits();

            /// Whether all of `bits` are the same on the wire in `version`.
            #[inline]
            fn is_same(bits: u128, version: $crate::Version) -> bool {
                let index = usize::from(version.0).wrapping_sub(1);
                Self::SAME.get(index).is_some_and(|same| bits & !same == 0)
            }
        }

        $crate::model::named::named!(true $name $repr ($($wire)?)
            $( $konst {$($text)?} = $n, $( $since ($($until)?) ($($number)?) )+; )*);

        /// Names of the flags, and other bits in hexadecimal.
        impl core::fmt::Debug for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str(concat!(stringify!($name), "("))?;
                if self.is_empty() {
                    f.write_str("0x0")?;
                }
                bitflags::parser::to_writer(self, &mut *f)?;
                f.write_str(")")
            }
        }

        #[cfg(test)]
        impl $crate::model::random_values::Sample for $name {
            fn sample(rng: &mut $crate::model::random_values::Rng) -> Self {
                let wire = $crate::model::random_values::Sample::sample(rng);
                let Some(mut flags) = rng.row(Self::ROWS) else {
                    return Self::from_wire(wire, rng.version);
                };
                for _ in 0..rng.below(3) {
                    flags |= rng.row(Self::ROWS).unwrap_or_default();
                }
                flags
            }
        }
    };
}

/// What [`codes!`] and [`flags!`] have in common: table, encoding and neutral form.
macro_rules! named {
    (
        $is_flags:literal $name:ident $repr:ident $wire:tt
        $( $konst:ident $text:tt = $n:literal, $( $since:ident $until:tt $number:tt )+; )*
    ) => {
        impl $name {
            /// All named values: value, name, versions that have it.
            pub const ROWS: &'static [(Self, &'static str, $crate::Versions)] = &[$( (
                Self($n),
                $crate::model::named::named!(@name $konst $text),
                $crate::Versions::NONE $( .with(
                    $crate::Version::$since,
                    $crate::model::named::named!(@until $until),
                ) )+,
            ) ),*];

            /// Whether every value is the same on the wire in every version: then it is only loaded and stored.
            const IS_IDENTITY: bool = <Self as $crate::model::name_table::Named>::TABLE.is_identity();

            /// Parses the number `n` of a message of `version`.
            #[inline]
            pub(crate) fn from_wire(
                n: $crate::model::named::named!(@wire $repr $wire),
                version: $crate::Version,
            ) -> Self {
                use $crate::model::name_table::Named;
                if Self::IS_IDENTITY || Self::is_same(n.into(), version) {
                    return Self(n.into());
                }
                Self::from_number(Self::TABLE.parse(n.into(), version))
            }

            /// The number in a message of `version`.
            #[inline]
            pub(crate) fn to_wire(
                self,
                version: $crate::Version,
            ) -> $crate::Result<$crate::model::named::named!(@wire $repr $wire), $crate::EncodeError> {
                use $crate::model::name_table::Named;
                let n = self.number();
                let is_same = Self::IS_IDENTITY
                    || n <= Self::TABLE.wire_mask() && Self::is_same(n, version);
                let n = if is_same { n } else { Self::TABLE.encode(n, version)? };
                Ok(n.try_into().unwrap_or_default())
            }
        }

        impl $crate::model::name_table::Named for $name {
            const TABLE: &'static $crate::model::name_table::NameTable = &$crate::model::name_table::NameTable {
                unknown: concat!("unknown ", stringify!($name)),
                rows: &[$( $crate::model::name_table::NamedRow {
                    value: $n,
                    name: $crate::model::named::named!(@name $konst $text),
                    constant: concat!(stringify!($name), "::", stringify!($konst)),
                    wire: &[$( (
                        $crate::Version::$since,
                        $crate::model::named::named!(@until $until),
                        $crate::model::named::named!(@number $n $number),
                    ) ),+],
                } ),*],
                is_flags: $is_flags,
                wire_bits: <$crate::model::named::named!(@wire $repr $wire)>::BITS,
                bits: <$repr>::BITS,
            };

            fn number(self) -> u128 {
                self.0.into()
            }

            fn from_number(n: u128) -> Self {
                Self(n.try_into().unwrap_or_default())
            }
        }

        impl $crate::model::codec::Codec for $name {
            fn parse(r: &mut $crate::model::reader::Reader<'_>) -> $crate::Result<Self> {
                let n = $crate::model::codec::Codec::parse(r)?;
                Ok(Self::from_wire(n, r.version()))
            }

            fn encode(&self, out: &mut $crate::Encoder<'_>) -> $crate::Result<(), $crate::EncodeError> {
                $crate::model::codec::Codec::encode(&self.to_wire(out.version())?, out)
            }
        }

        impl $crate::model::value::NeutralForm for $name {
            fn to_value(&self, version: $crate::Version) -> $crate::model::value::Value {
                use $crate::model::name_table::Named;
                Self::TABLE.to_value(self.number(), version)
            }

            fn from_value(
                value: &$crate::model::value::Value,
                version: $crate::Version,
            ) -> Result<Self, $crate::model::value::ValueError> {
                use $crate::model::name_table::Named;
                Self::TABLE.parse_value(value, version).map(Self::from_number)
            }
        }

        $crate::model::serde_impls::serde_by_value!($name);
    };
    (@name $konst:ident $same:ident) => { stringify!($konst) };
    (@name $konst:ident {}) => { stringify!($konst) };
    (@name $konst:ident {$text:literal}) => { $text };
    (@until ()) => { $crate::Version::V1_5 };
    (@until ($until:ident)) => { $crate::Version::$until };
    (@number $n:literal ()) => { $n };
    (@number $n:literal ($number:literal)) => { $number };
    (@wire $repr:ident ()) => { $repr };
    (@wire $repr:ident ($wire:ident)) => { $wire };
}

pub(crate) use {codes, flags, named};
