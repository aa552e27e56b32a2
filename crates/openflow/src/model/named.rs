//! Macros for open sets of named numbers and flags; see [`rows`](super::rows).

/// Defines an open set of numbers, some of which have names.
///
/// A row is name, number, first version and documentation. `V1_0..=V1_2` instead of the first version adds the last one.
macro_rules! codes {
    (
        $(#[$meta:meta])*
        pub struct $name:ident($repr:ty);
        $( $konst:ident = $n:literal, $since:ident $(..= $until:ident)?, $doc:literal; )*
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
        pub struct $name(pub $repr);

        impl $name {
            $( #[doc = $doc] pub const $konst: Self = Self($n); )*

            /// All named numbers: number, name, first and last version that have it.
            pub const ROWS: &'static [(Self, &'static str, $crate::Version, $crate::Version)] = &[$( (
                Self($n),
                stringify!($konst),
                $crate::Version::$since,
                $crate::model::named::until!($($until)?),
            ) ),*];

            /// Name in the specification; `None` for numbers that it does not define.
            pub fn name(self) -> Option<&'static str> {
                Self::ROWS.iter().find(|row| row.0 == self).map(|row| row.1)
            }

            /// Name in `version`, or else in another version.
            pub fn name_in(self, version: $crate::Version) -> Option<&'static str> {
                let mut named = Self::ROWS.iter().filter(|row| row.0 == self);
                let here = named.clone().find(|row| (row.2..=row.3).contains(&version));
                here.or_else(|| named.next()).map(|row| row.1)
            }
        }

        impl $crate::model::codec::Codec for $name {
            fn parse(r: &mut $crate::model::reader::Reader<'_>) -> $crate::Result<Self> {
                <$repr as $crate::model::codec::Codec>::parse(r).map(Self)
            }

            fn encode(&self, out: &mut $crate::Encoder<'_>) -> $crate::Result<(), $crate::EncodeError> {
                $crate::model::codec::Codec::encode(&self.0, out)
            }
        }

        impl $crate::model::value::NeutralForm for $name {
            fn to_value(&self, version: $crate::Version) -> $crate::model::value::Value {
                $crate::model::value::code_to_value(self.name_in(version), self.0.into())
            }

            fn from_value(
                value: &$crate::model::value::Value,
                version: $crate::Version,
            ) -> Result<Self, $crate::model::value::ValueError> {
                let here = Self::ROWS.iter().filter(|row| (row.2..=row.3).contains(&version));
                let rows = here.chain(Self::ROWS).map(|row| (row.1, u64::from(row.0.0)));
                let n = $crate::model::value::code_from_value(value, rows)?;
                <$repr as $crate::model::value::NeutralForm>::from_value(
                    &$crate::model::value::number_to_value(n), version).map(Self)
            }
        }

        $crate::model::serde_impls::serde_by_value!($name);

        #[cfg(test)]
        impl $crate::model::random_values::Sample for $name {
            fn sample(rng: &mut $crate::model::random_values::Rng) -> Self {
                rng.row(Self::ROWS).unwrap_or_else(|| Self($crate::model::random_values::Sample::sample(rng)))
            }
        }
    };
}

/// The last version of a row, 1.5 by default.
macro_rules! until {
    () => {
        $crate::Version::V1_5
    };
    ($until:ident) => {
        $crate::Version::$until
    };
}

/// Defines a set of flags. Rows are those of [`codes!`], each number is one bit; `as` gives a name that is not an
/// identifier.
///
/// The operators and methods are those of the `bitflags` crate. Bits without a name are kept: the set is open.
macro_rules! flags {
    (
        $(#[$meta:meta])*
        pub struct $name:ident($repr:ty);
        $( $konst:ident $(as $text:literal)? = $n:literal, $since:ident $(..= $until:ident)?, $doc:literal; )*
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
            /// All named flags: bit, name, first and last version that have it.
            pub const ROWS: &'static [(Self, &'static str, $crate::Version, $crate::Version)] = &[$( (
                Self($n),
                $crate::model::rows::flags!(@name $konst $($text)?),
                $crate::Version::$since,
                $crate::model::named::until!($($until)?),
            ) ),*];
        }

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

        impl $crate::model::codec::Codec for $name {
            fn parse(r: &mut $crate::model::reader::Reader<'_>) -> $crate::Result<Self> {
                <$repr as $crate::model::codec::Codec>::parse(r).map(Self)
            }

            fn encode(&self, out: &mut $crate::Encoder<'_>) -> $crate::Result<(), $crate::EncodeError> {
                $crate::model::codec::Codec::encode(&self.0, out)
            }
        }

        impl $crate::model::value::NeutralForm for $name {
            fn to_value(&self, version: $crate::Version) -> $crate::model::value::Value {
                let rows = Self::ROWS.iter().filter(|row| (row.2..=row.3).contains(&version));
                $crate::model::value::flags_to_value(self.0.into(), rows.map(|row| (row.1, row.0.0.into())))
            }

            fn from_value(
                value: &$crate::model::value::Value,
                version: $crate::Version,
            ) -> Result<Self, $crate::model::value::ValueError> {
                let here = Self::ROWS.iter().filter(|row| (row.2..=row.3).contains(&version));
                let rows = here.chain(Self::ROWS).map(|row| (row.1, u64::from(row.0.0)));
                let n = $crate::model::value::flags_from_value(value, &rows)?;
                <$repr as $crate::model::value::NeutralForm>::from_value(
                    &$crate::model::value::number_to_value(n), version).map(Self)
            }
        }

        $crate::model::serde_impls::serde_by_value!($name);

        #[cfg(test)]
        impl $crate::model::random_values::Sample for $name {
            fn sample(rng: &mut $crate::model::random_values::Rng) -> Self {
                let Some(mut flags) = rng.row(Self::ROWS) else {
                    return Self($crate::model::random_values::Sample::sample(rng));
                };
                for _ in 0..rng.below(3) {
                    flags |= rng.row(Self::ROWS).unwrap_or_default();
                }
                flags
            }
        }
    };
    (@name $konst:ident) => { stringify!($konst) };
    (@name $konst:ident $text:literal) => { $text };
}

pub(crate) use {codes, flags, until};
