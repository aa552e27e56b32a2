//! Macros that generate the codec from tables ("rows"), which read like the tables of the specification.
//!
//! - [`record!`] is a struct, with the layout of its fields in each range of versions.
//! - [`choice!`] is an enum of alternatives (messages, actions, properties), each with its number and layout in each
//!   range of versions; [`tlv!`] gives it the type-length-value encoding.
//! - [`codes!`] and [`flags!`] are open sets of named numbers and bits.
//!
//! Parsing, encoding, the neutral form ([`Value`](super::Value)), `docs/openflow.md` and the tests of completeness are
//! generated from the rows. [`layout`](super::layout) lists the entries of a layout.
//!
//! # Adding to the model
//!
//! | to add | do this |
//! | --- | --- |
//! | a field of a record | add it to the `record!` with its documentation, and to the layouts of the versions that have it |
//! | an action, instruction, property or multipart body | add a variant with its rows to the `choice!`, and bytes from another implementation to `tests/golden/` |
//! | a message | the same in `message.rs`; its number is that of `MessageType`, or an experimenter ID in the upper 32 bits and its type |
//! | a code or flag | add a row to its `codes!` or `flags!`; if its versions differ from those of other rows, double the width of the type |
//! | a match field | add a row to `field_table.rs`, and its bytes to `tests/golden/fields.txt` |
//! | an error | add a row to `error_table.rs` and lines to `tests/golden/errors.txt` |
//!
//! Then run `SLUICE_BLESS=1 cargo test -p sluice-openflow` and review the diff.

/// Defines a struct and its layout in each range of versions.
///
/// ```text
/// record! {
///     /// Documentation.
///     pub struct MeterMod: "meter_mod" {   // name in errors
///         /// Documentation.
///         pub meter_id: MeterId,
///         …
///     }
///     V1_3.. => [command, flags, meter_id, bands,]
/// }
/// ```
///
/// `viewed by View::take` after the name also generates `View::take`, which parses the same layouts into a borrowed
/// view; fields that a layout lacks keep their value from `View::none()`.
macro_rules! record {
    (
        $(#[$meta:meta])*
        pub struct $name:ident: $what:literal $(, viewed by $view:ident::$take:ident)? {
            $( $(#[$fmeta:meta])* pub $field:ident: $ty:ty, )*
        }
        $( $versions:pat => $layout:tt )*
    ) => {
        $crate::model::rows::record!(@view [$($view $take)?] $what { $($field),* } $( $versions => $layout )*);
        $crate::model::rows::record!(@impl { $($field),* }
            $(#[$meta])* pub struct $name: $what { $( $(#[$fmeta])* pub $field: $ty, )* }
            $( $versions => $layout )*);
    };
    (@view [] $($rest:tt)*) => {};
    (@view [$view:ident $take:ident] $what:literal { $($field:ident),* } $( $versions:pat => [$($layout:tt)*] )*) => {
        #[allow(
            unused_assignments, unused_mut, unused_variables, clippy::unnested_or_patterns,
            reason = "generated code is the same for all records"
        )]
        impl<'a> $view<'a> {
            /// Parses the fields of the record at the front of `r`.
            pub(crate) fn $take(r: &mut $crate::model::reader::Reader<'a>) -> $crate::Result<Self> {
                let mut view = Self::none();
                let Self { $(mut $field,)* .. } = view;
                let (start, mut sized) = (r.at(), 0usize);
                match r.version().0 {
                    $( $versions => { $crate::model::rows::layout!(@parse r start sized $what; $($layout)*); } )*
                    _ => return Err(r.error($what, $crate::ParseErrorKind::Version)),
                }
                $( view.$field = $field; )*
                Ok(view)
            }
        }
    };
    (@impl $names:tt
        $(#[$meta:meta])*
        pub struct $name:ident: $what:literal {
            $( $(#[$fmeta:meta])* pub $field:ident: $ty:ty, )*
        }
        $( $versions:pat => [$($layout:tt)*] )*
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        #[allow(unreachable_pub, reason = "some records are private to their module")]
        pub struct $name {
            $( $(#[$fmeta])* pub $field: $ty, )*
        }

        impl $name {
            /// Whether the layout of `version` has `field`.
            #[allow(dead_code, reason = "not called for records whose versions all have the same fields")]
            fn has(version: u8, field: &str) -> bool {
                match version {
                    $( $versions => $crate::model::codec::layout_contains(&[$(stringify!($layout)),*], field), )*
                    _ => false,
                }
            }
        }

        #[allow(
            unused_assignments, unused_mut, unused_variables, clippy::too_many_lines, clippy::match_same_arms,
            clippy::unnested_or_patterns,
            reason = "generated code is the same for all records"
        )]
        impl $crate::model::codec::Codec for $name {
            fn parse(r: &mut $crate::model::reader::Reader<'_>) -> $crate::Result<Self> {
                let Self { $(mut $field),* } = Self::default();
                let (start, mut sized) = (r.at(), 0usize);
                match r.version().0 {
                    $( $versions => { $crate::model::rows::layout!(@parse r start sized $what; $($layout)*); } )*
                    _ => return Err(r.error($what, $crate::ParseErrorKind::Version)),
                }
                Ok(Self { $($field),* })
            }

            fn encode(&self, out: &mut $crate::Encoder<'_>) -> $crate::Result<(), $crate::EncodeError> {
                let Self { $($field),* } = self;
                let absent = Self::default();
                let (start, mut sized) = (out.len(), 0usize);
                match out.version().0 {
                    $( $versions => {
                        $crate::model::rows::each_field!(@absent_in out absent Self::has; [$($layout)*] $names);
                        $crate::model::rows::layout!(@encode out start sized; $($layout)*);
                    } )*
                    _ => return Err($crate::model::codec::unsupported($what, out.version(), &|v| {
                        matches!(v, $($versions)|*)
                    })),
                }
                Ok(())
            }
        }

        #[allow(unused_mut, unused_variables, clippy::too_many_lines, clippy::match_same_arms, clippy::unnested_or_patterns, reason = "generated code is the same for all records")]
        impl $crate::model::value::NeutralForm for $name {
            fn to_value(&self, version: $crate::Version) -> $crate::model::value::Value {
                let Self { $($field),* } = self;
                let mut map = Vec::new();
                match version.0 {
                    $( $versions => {
                        $crate::model::rows::each_field!(@value map version [$($layout)*] $names);
                    } )*
                    _ => { $(
                        $crate::model::value::push_entry(&mut map, stringify!($field), $crate::model::value::NeutralForm::to_value($field, version));
                    )* }
                }
                $crate::model::value::Value::Map(map)
            }

            fn from_value(
                value: &$crate::model::value::Value,
                version: $crate::Version,
            ) -> Result<Self, $crate::model::value::ValueError> {
                let mut entries = $crate::model::value::Entries::of(value)?;
                let Self { $(mut $field),* } = Self::default();
                $( if let Some(read) = entries.read(stringify!($field), version)? { $field = read; } )*
                entries.finish()?;
                Ok(Self { $($field),* })
            }
        }

        $crate::model::serde_impls::serde_by_value!($name);

        #[cfg(test)]
        impl $crate::model::random_values::Sample for $name {
            fn sample(rng: &mut $crate::model::random_values::Rng) -> Self {
                let Self { $(mut $field),* } = Self::default();
                $( if rng.wants(|v| Self::has(v, stringify!($field))) {
                    $field = $crate::model::random_values::Sample::sample(rng);
                } )*
                Self { $($field),* }
            }

            fn rows(&self, seen: &mut $crate::model::random_values::Rows) {
                $( $crate::model::random_values::Sample::rows(&self.$field, seen); )*
            }
        }
    };
}

/// Defines an enum of alternatives, each with its number and layout in each range of versions.
///
/// A row is `Variant "name" { fields } = { V1_0 => number [layout], V1_1.. => number [layout] };`. A variant may also
/// hold one value, `Variant "name" (Type) = { V1_0.. => number };`, or nothing. Numbers beyond 16 bits are those of an
/// experimenter; how they are encoded depends on the enum. The generated variant `Other` keeps alternatives without a
/// row unparsed.
macro_rules! choice {
    (
        $(#[$meta:meta])*
        pub enum $name:ident: $what:literal {
            $(
                $(#[$vmeta:meta])*
                $variant:ident $text:literal
                $( { $( $(#[$fmeta:meta])* $field:ident: $ty:ty, )* } )?
                $( ( $inner:ty ) )?
                = $rows:tt;
            )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum $name {
            $(
                $(#[$vmeta])*
                $variant
                $( { $( $(#[$fmeta])* $field: $ty, )* } )?
                $( ($inner) )?,
            )*
            /// An alternative without a row, kept unparsed.
            Other {
                /// Number; for experimenters, the experimenter ID is in the upper bits.
                code: u64,
                /// Bytes after the number.
                body: Vec<u8>,
            },
        }

        #[allow(
            unused_assignments, unused_mut, unused_variables, clippy::too_many_lines, clippy::unnested_or_patterns,
            reason = "generated code is the same for all alternatives"
        )]
        impl $crate::model::codec::Choice for $name {
            const TYPE_NAME: &'static str = $what;

            const ROWS: &'static [$crate::model::codec::ChoiceRow] = &[$(
                $crate::model::codec::ChoiceRow {
                    name: $text,
                    code: |version| $crate::model::rows::choice!(@code version.0; $rows),
                }
            ),*];

            fn parse_variant(code: u64, r: &mut $crate::model::reader::Reader<'_>) -> $crate::Result<Self> {
                let (start, mut sized) = (r.at(), 0usize);
                $crate::model::rows::choice!(@parse $name code r start sized $what
                    $( $variant [$( { $( $field: $ty, )* } )? $( ( $inner ) )?] $rows )*)
            }

            fn name(&self) -> &'static str {
                match self {
                    $( Self::$variant $( { $($field: _),* } )? $( ($crate::model::rows::choice!(@any $inner)) )? => $text, )*
                    Self::Other { .. } => "other",
                }
            }

            fn code(&self, version: $crate::Version) -> $crate::Result<u64, $crate::EncodeError> {
                let (what, code): (_, fn(u8) -> Option<u64>) = match self {
                    $( Self::$variant $( { $($field: _),* } )? $( ($crate::model::rows::choice!(@any $inner)) )? => {
                        ($text, |version| $crate::model::rows::choice!(@code version; $rows))
                    } )*
                    Self::Other { code, .. } => {
                        let is_known = Self::ROWS.iter().any(|row| (row.code)(version) == Some(*code));
                        let what = concat!("unknown ", $what);
                        let unsupported = $crate::EncodeError::new(what, version, None);
                        return if is_known { Err(unsupported) } else { Ok(*code) };
                    }
                };
                let unsupported = || $crate::model::codec::unsupported(what, version, &|v| code(v).is_some());
                code(version.0).ok_or_else(unsupported)
            }

            fn encode_body(&self, out: &mut $crate::Encoder<'_>) -> $crate::Result<(), $crate::EncodeError> {
                let (start, mut sized) = (out.len(), 0usize);
                match self {
                    $( Self::$variant $( { $($field),* } )? $( ($crate::model::rows::choice!(@bind inner $inner)) )? => {
                        $crate::model::rows::choice!(@encode $text out start sized inner
                            [$( { $( $field: $ty, )* } )? $( ( $inner ) )?] $rows)
                    } )*
                    Self::Other { body, .. } => out.put(body.as_slice()),
                }
                Ok(())
            }
        }

        #[allow(unused_mut, unused_variables, clippy::too_many_lines, reason = "generated code is the same for all alternatives")]
        impl $crate::model::value::NeutralForm for $name {
            fn to_value(&self, version: $crate::Version) -> $crate::model::value::Value {
                use $crate::model::value::Value;
                let mut map: Vec<(std::borrow::Cow<'static, str>, Value)> = Vec::new();
                match self {
                    $( Self::$variant $( { $($field),* } )? $( ($crate::model::rows::choice!(@bind inner $inner)) )? => {
                        $crate::model::value::push_entry(&mut map, "type", Value::text($text));
                        $( $crate::model::rows::choice!(@fields map version $rows { $($field),* }); )?
                        $( $crate::model::rows::choice!(@nest map version inner $inner); )?
                    } )*
                    Self::Other { code, body } => {
                        $crate::model::value::push_entry(&mut map, "type", Value::text("other"));
                        $crate::model::value::push_entry(&mut map, "code", $crate::model::value::number_to_value(*code));
                        $crate::model::value::push_entry(&mut map, "body", Value::Text($crate::model::value::hex(body)));
                    }
                }
                Value::Map(map)
            }

            fn from_value(
                value: &$crate::model::value::Value,
                version: $crate::Version,
            ) -> Result<Self, $crate::model::value::ValueError> {
                let mut entries = $crate::model::value::Entries::of(value)?;
                let kind = $crate::model::value::take_type(&mut entries)?;
                match kind {
                    $( $text => { $crate::model::rows::choice!(@read entries version $variant
                        $( { $( $field: $ty, )* } )? $( ( $inner ) )?) } )*
                    "other" => {
                        let code = entries.read("code", version)?.unwrap_or_default();
                        let body = entries.read("body", version)?.unwrap_or_default();
                        entries.finish()?;
                        Ok(Self::Other { code, body })
                    }
                    unknown => Err($crate::model::value::ValueError::new(
                        format!("unknown {} `{unknown}`", $what)).under("type")),
                }
            }
        }

        $crate::model::serde_impls::serde_by_value!($name);

        #[cfg(test)]
        #[allow(unused_variables, reason = "generated code is the same for all alternatives")]
        impl $crate::model::random_values::Sample for $name {
            fn sample(rng: &mut $crate::model::random_values::Rng) -> Self {
                use $crate::model::codec::Choice as _;
                let variants: &[(&str, fn(u8) -> bool, fn(&mut $crate::model::random_values::Rng) -> Self)] = &[$( (
                    $text,
                    |version| {
                        let code: Option<u64> = $crate::model::rows::choice!(@code version; $rows);
                        code.is_some()
                    },
                    |rng| $crate::model::rows::choice!(@sample rng $variant
                        [$( { $( $field: $ty, )* } )? $( ( $inner ) )?] $rows),
                ) ),*];
                match rng.variant($what, variants) {
                    Some(sample) => sample(rng),
                    None => {
                        let code = rng.code_without_row(Self::ROWS);
                        Self::Other { code, body: $crate::model::random_values::Sample::sample(rng) }
                    }
                }
            }

            fn rows(&self, seen: &mut $crate::model::random_values::Rows) {
                seen.insert(($what, $crate::model::codec::Choice::name(self)));
                match self {
                    $( Self::$variant $( { $($field),* } )? $( ($crate::model::rows::choice!(@bind inner $inner)) )? => {
                        $( $( $crate::model::random_values::Sample::rows($field, seen); )* )?
                        $( $crate::model::random_values::Sample::rows($crate::model::rows::choice!(@bind inner $inner), seen); )?
                    } )*
                    Self::Other { .. } => {}
                }
            }
        }
    };
    (@sample $rng:ident $variant:ident [] $rows:tt) => { Self::$variant };
    (@sample $rng:ident $variant:ident [( $inner:ty )] $rows:tt) => {
        Self::$variant($crate::model::random_values::Sample::sample($rng))
    };
    (@sample $rng:ident $variant:ident [{ $( $field:ident: $ty:ty, )* }] $rows:tt) => {
        Self::$variant { $( $field: if $rng.wants(|v| {
            $crate::model::rows::choice!(@has v stringify!($field); $rows)
        }) {
            $crate::model::random_values::Sample::sample($rng)
        } else {
            <$ty>::default()
        } ),* }
    };
    (@any $inner:ty) => { _ };
    (@bind $inner:ident $ty:ty) => { $inner };
    (@has $version:ident $field:expr; { $( $versions:pat => $code:literal $([$($layout:tt)*])? ),+ $(,)? }) => {
        match $version {
            $( $versions => $crate::model::codec::layout_contains(&[$( $(stringify!($layout)),* )?], $field), )+
            _ => false,
        }
    };
    (@code $version:expr; { $( $versions:pat => $code:literal $([$($layout:tt)*])? ),+ $(,)? }) => {
        match $version { $( $versions => Some($code), )+ _ => None }
    };

    (@parse $name:ident $code:ident $r:ident $start:ident $sized:ident $what:literal $(
        $variant:ident $shape:tt { $( $versions:pat => $number:literal $([$($layout:tt)*])? ),+ $(,)? }
    )*) => {
        // One match over all rows, numbers first: lab/codec.
        Ok(match ($code, $r.version().0) {
            $($( ($number, $versions) => $crate::model::rows::choice!(
                @one $name $r $start $sized $what $variant $shape $([$($layout)*])?), )+)*
            _ => $name::Other { code: $code, body: $r.rest().to_vec() },
        })
    };
    (@one $name:ident $r:ident $start:ident $sized:ident $what:literal $variant:ident []) => { $name::$variant };
    (@one $name:ident $r:ident $start:ident $sized:ident $what:literal $variant:ident [( $inner:ty )]) => {
        $name::$variant(<$inner as $crate::model::codec::Codec>::parse($r)?)
    };
    (@one $name:ident $r:ident $start:ident $sized:ident $what:literal $variant:ident [] [$($layout:tt)*]) => {{
        $crate::model::rows::layout!(@parse $r $start $sized $what; $($layout)*);
        $name::$variant
    }};
    (@one $name:ident $r:ident $start:ident $sized:ident $what:literal $variant:ident
        [{ $( $field:ident: $ty:ty, )* }] [$($layout:tt)*]) => {{
        $( let mut $field = <$ty>::default(); )*
        $crate::model::rows::layout!(@parse $r $start $sized $what; $($layout)*);
        $name::$variant { $($field),* }
    }};

    (@encode $text:literal $out:ident $start:ident $sized:ident $bound:ident $shape:tt $rows:tt) => {
        $crate::model::rows::choice!(@rows $rows $text $out $start $sized $bound $shape $rows)
    };
    (@rows $all:tt $text:literal $out:ident $start:ident $sized:ident $bound:ident $shape:tt
        { $( $versions:pat => $number:literal $([$($layout:tt)*])? ),+ $(,)? }) => {
        match $out.version().0 {
            $( $versions => { $crate::model::rows::choice!(
                @put $out $start $sized $bound $shape $all $([$($layout)*])?); } )+
            _ => return Err($crate::model::codec::unsupported($text, $out.version(), &|v| {
                matches!(v, $($versions)|+)
            })),
        }
    };
    (@put $out:ident $start:ident $sized:ident $bound:ident [] $all:tt) => {};
    (@put $out:ident $start:ident $sized:ident $bound:ident [( $inner:ty )] $all:tt) => {
        $crate::model::codec::Codec::encode($bound, $out)?;
    };
    (@put $out:ident $start:ident $sized:ident $bound:ident [] $all:tt [$($layout:tt)*]) => {
        $crate::model::rows::layout!(@encode $out $start $sized; $($layout)*);
    };
    (@put $out:ident $start:ident $sized:ident $bound:ident [{ $( $field:ident: $ty:ty, )* }] $all:tt
        [$($layout:tt)*]) => {
        $crate::model::rows::each_field!(@absent $out
            |v: u8, field: &str| $crate::model::rows::choice!(@has v field; $all);
            [$($layout)*] { $($field: <$ty>::default()),* });
        $crate::model::rows::layout!(@encode $out $start $sized; $($layout)*);
    };

    (@fields $map:ident $version:ident $rows:tt { $($field:ident),* }) => {$(
        // All fields, if the version does not have the alternative at all.
        let n = $version.0;
        let code: Option<u64> = $crate::model::rows::choice!(@code n; $rows);
        if code.is_none() || $crate::model::rows::choice!(@has n stringify!($field); $rows) {
            let value = $crate::model::value::NeutralForm::to_value($field, $version);
            $crate::model::value::push_entry(&mut $map, stringify!($field), value);
        }
    )*};
    (@nest $map:ident $version:ident $bound:ident $inner:ty) => {
        match $crate::model::value::NeutralForm::to_value($bound, $version) {
            Value::Map(entries) => $map.extend(entries),
            other => $crate::model::value::push_entry(&mut $map, "value", other),
        }
    };
    (@read $entries:ident $version:ident $variant:ident) => {{
        $entries.finish()?;
        Ok(Self::$variant)
    }};
    (@read $entries:ident $version:ident $variant:ident ( $_inner:ty )) => {{
        let inner = $crate::model::value::variant_body(&$entries.rest(), $version)?;
        Ok(Self::$variant(inner))
    }};
    (@read $entries:ident $version:ident $variant:ident { $( $field:ident: $ty:ty, )* }) => {{
        $( let $field = $entries.read(stringify!($field), $version)?.unwrap_or_default(); )*
        $entries.finish()?;
        Ok(Self::$variant { $($field),* })
    }};
}

/// Encodes the alternatives of a [`choice!`] as type, length and value.
///
/// The second argument is the [`Padding`](super::codec::Padding) to a multiple of eight bytes, the third says which part
/// of a message errors belong to.
macro_rules! tlv {
    ($name:ident, $padding:ident, $part:ident $(, $extended:ident)?) => {
        impl $crate::model::codec::ListItem for $name {}

        impl $crate::model::codec::Codec for $name {
            fn parse(r: &mut $crate::model::reader::Reader<'_>) -> $crate::Result<Self> {
                let code = $crate::model::rows::tlv!(@code $($extended)?);
                let (padding, part) = ($crate::model::codec::Padding::$padding, $crate::error::ErrorContext::$part);
                $crate::model::codec::parse_tlv(r, padding, part, code)
            }

            fn encode(&self, out: &mut $crate::Encoder<'_>) -> $crate::Result<(), $crate::EncodeError> {
                $crate::model::codec::encode_tlv(self, out, $crate::model::codec::Padding::$padding)
            }
        }
    };
    (@code) => { $crate::model::codec::plain_type };
    (@code extended) => { $crate::model::codec::extended_type };
}

pub(crate) use super::layout::{each_field, layout};
pub(crate) use super::named::{codes, flags};
pub(crate) use {choice, record, tlv};
