//! Numbers and bits with names, read off rows: see [`rows`](super::rows).

/// An open set of numbers, some with names.
///
/// A row is name, number, first version, what it means; `..= V1_2` behind the first version names the last one.
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

            /// Every number with a name: the number, the name, the first and the last version that have it.
            pub const ROWS: &'static [(Self, &'static str, $crate::Version, $crate::Version)] = &[$( (
                Self($n),
                stringify!($konst),
                $crate::Version::$since,
                $crate::model::named::until!($($until)?),
            ) ),*];

            /// The specification's name, `None` for what it does not define.
            pub fn name(self) -> Option<&'static str> {
                Self::ROWS.iter().find(|row| row.0 == self).map(|row| row.1)
            }

            /// The name in `version`, that of another one if it has none there.
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

        #[cfg(test)]
        impl $crate::model::random_values::Sample for $name {
            fn sample(rng: &mut $crate::model::random_values::Rng) -> Self {
                rng.row(Self::ROWS).unwrap_or_else(|| Self($crate::model::random_values::Sample::sample(rng)))
            }
        }
    };
}

/// The last version of a row: all known later ones if it names none.
macro_rules! until {
    () => {
        $crate::Version::V1_5
    };
    ($until:ident) => {
        $crate::Version::$until
    };
}

/// A set of flags: like [`codes!`], each number being one bit. A name that is no identifier stands behind `as`.
macro_rules! flags {
    (
        $(#[$meta:meta])*
        pub struct $name:ident($repr:ty);
        $( $konst:ident $(as $text:literal)? = $n:literal, $since:ident $(..= $until:ident)?, $doc:literal; )*
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
        pub struct $name(pub $repr);

        impl $name {
            $( #[doc = $doc] pub const $konst: Self = Self($n); )*

            /// Every bit with a name: the bit, the name, the first and the last version that have it.
            pub const ROWS: &'static [(Self, &'static str, $crate::Version, $crate::Version)] = &[$( (
                Self($n),
                $crate::model::rows::flags!(@name $konst $($text)?),
                $crate::Version::$since,
                $crate::model::named::until!($($until)?),
            ) ),*];

            /// Whether all bits of `flags` are set.
            pub const fn contains(self, flags: Self) -> bool {
                self.0 & flags.0 == flags.0
            }
        }

        impl core::ops::BitOr for $name {
            type Output = Self;

            fn bitor(self, other: Self) -> Self {
                Self(self.0 | other.0)
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

        #[cfg(test)]
        impl $crate::model::random_values::Sample for $name {
            fn sample(rng: &mut $crate::model::random_values::Rng) -> Self {
                let Some(mut flags) = rng.row(Self::ROWS) else {
                    return Self($crate::model::random_values::Sample::sample(rng));
                };
                for _ in 0..rng.below(3) {
                    flags = flags | rng.row(Self::ROWS).unwrap_or_default();
                }
                flags
            }
        }
    };
    (@name $konst:ident) => { stringify!($konst) };
    (@name $konst:ident $text:literal) => { $text };
}

pub(crate) use {codes, flags, until};
