//! Layouts: what a row says of the bytes of a record or of an alternative.
//!
//! The entries of a layout, each with a comma behind it:
//!
//! | entry | on the wire |
//! | --- | --- |
//! | `field` | as its type says |
//! | `field as Adapter` | as the [`Encoding`]er says |
//! | `pad N` | N bytes of zeros, whatever they are when read |
//! | `length` | 16 bits: bytes of the whole record; what follows must end there |
//! | `sized` | 16 bits: bytes of the field that says `in sized` |
//! | `field in sized` | as its type says, in as many bytes as `sized` told |
//! | `field in sized as Adapter` | the same, as the [`Encoding`]er says |
//! | `field and other in sized as JointEncoding` | the two as [`JointEncoding`] says, in as many bytes as `sized` told |
//! | `field by PartialEncoding` | what the [`PartialEncoding`] says of it; other shares of the field stand elsewhere in the layout |
//! | `align N` | zeros until the record so far and N bytes before it are a multiple of eight |
//! | `align before field` | the same if anything follows, then a field that is a list |
//! | `counted` | 16 bits: how many items the list has that says `in counted` |
//! | `field in counted` | a list of as many items as `counted` told |
//! | `field in counted as Adapter` | the same, each as the [`Encoding`]er says |

/// Reads (`@parse`) and writes (`@encode`) the entries of a layout; fields are variables of their names.
macro_rules! layout {
    (@parse $r:ident $start:ident $sized:ident $what:literal;) => {};
    (@parse $r:ident $start:ident $sized:ident $what:literal; pad $n:literal, $($rest:tt)*) => {
        $r.take($what, $n)?;
        $crate::model::rows::layout!(@parse $r $start $sized $what; $($rest)*);
    };
    (@parse $r:ident $start:ident $sized:ident $what:literal; length, $($rest:tt)*) => {
        let claimed = $r.u16($what)?;
        let mut inner = $crate::model::codec::limit_to_length($r, $what, $start, claimed)?;
        {
            let $r = &mut inner;
            $crate::model::rows::layout!(@parse $r $start $sized $what; $($rest)*);
            $r.finish($what)?;
        }
    };
    (@parse $r:ident $start:ident $sized:ident $what:literal; sized, $($rest:tt)*) => {
        $sized = usize::from($r.u16($what)?);
        $crate::model::rows::layout!(@parse $r $start $sized $what; $($rest)*);
    };
    (@parse $r:ident $start:ident $sized:ident $what:literal; $field:ident in sized, $($rest:tt)*) => {
        let mut inner = $r.sub(stringify!($field), $sized)?;
        $field = $crate::model::codec::with_field_name(stringify!($field), $crate::model::codec::Codec::parse(&mut inner))?;
        inner.finish(stringify!($field))?;
        $crate::model::rows::layout!(@parse $r $start $sized $what; $($rest)*);
    };
    (@parse $r:ident $start:ident $sized:ident $what:literal; $field:ident in sized as $adapter:ty, $($rest:tt)*) => {
        let mut inner = $r.sub(stringify!($field), $sized)?;
        $field = $crate::model::codec::with_field_name(
            stringify!($field), <$adapter as $crate::model::codec::Encoding<_>>::parse(&mut inner))?;
        inner.finish(stringify!($field))?;
        $crate::model::rows::layout!(@parse $r $start $sized $what; $($rest)*);
    };
    (@parse $r:ident $start:ident $sized:ident $what:literal; $field:ident and $other:ident in sized as $both:ty,
        $($rest:tt)*) => {
        let mut inner = $r.sub(stringify!($field), $sized)?;
        ($field, $other) = <$both as $crate::model::codec::JointEncoding<_, _>>::parse(&mut inner)?;
        inner.finish(stringify!($field))?;
        $crate::model::rows::layout!(@parse $r $start $sized $what; $($rest)*);
    };
    (@parse $r:ident $start:ident $sized:ident $what:literal; $field:ident by $share:ty, $($rest:tt)*) => {
        $crate::model::codec::with_field_name(
            stringify!($field), <$share as $crate::model::borrowed::ParsePart<_>>::parse_part(&mut $field, $r))?;
        $crate::model::rows::layout!(@parse $r $start $sized $what; $($rest)*);
    };
    (@parse $r:ident $start:ident $sized:ident $what:literal; align before $field:ident, $($rest:tt)*) => {
        if !$r.is_empty() {
            $r.sub(stringify!($field), ($r.at() - $start).next_multiple_of(8) - ($r.at() - $start))?;
            if $r.is_empty() {
                return Err($r.error(stringify!($field), $crate::ParseErrorKind::Length));
            }
        }
        $crate::model::rows::layout!(@parse $r $start $sized $what; $field, $($rest)*);
    };
    (@parse $r:ident $start:ident $sized:ident $what:literal; align $n:literal, $($rest:tt)*) => {
        let so_far = $r.at() - $start + $n;
        $r.sub($what, so_far.next_multiple_of(8) - so_far)?;
        $crate::model::rows::layout!(@parse $r $start $sized $what; $($rest)*);
    };
    (@parse $r:ident $start:ident $sized:ident $what:literal; counted, $($rest:tt)*) => {
        $sized = usize::from($r.u16($what)?);
        $crate::model::rows::layout!(@parse $r $start $sized $what; $($rest)*);
    };
    (@parse $r:ident $start:ident $sized:ident $what:literal; $field:ident in counted, $($rest:tt)*) => {
        $field = $crate::model::codec::parse_counted::<_, $crate::model::codec::DefaultEncoding>($r, $sized)?;
        $crate::model::rows::layout!(@parse $r $start $sized $what; $($rest)*);
    };
    (@parse $r:ident $start:ident $sized:ident $what:literal; $field:ident in counted as $adapter:ty, $($rest:tt)*) => {
        $field = $crate::model::codec::parse_counted::<_, $adapter>($r, $sized)?;
        $crate::model::rows::layout!(@parse $r $start $sized $what; $($rest)*);
    };
    (@parse $r:ident $start:ident $sized:ident $what:literal; $field:ident as $adapter:ty, $($rest:tt)*) => {
        $field = $crate::model::codec::with_field_name(
            stringify!($field), <$adapter as $crate::model::borrowed::ParseBorrowed<'_, _>>::parse_borrowed($r))?;
        $crate::model::rows::layout!(@parse $r $start $sized $what; $($rest)*);
    };
    (@parse $r:ident $start:ident $sized:ident $what:literal; $field:ident, $($rest:tt)*) => {
        $crate::model::rows::layout!(@parse $r $start $sized $what;
            $field as $crate::model::codec::DefaultEncoding, $($rest)*);
    };

    (@encode $out:ident $start:ident $sized:ident;) => {};
    (@encode $out:ident $start:ident $sized:ident; pad $n:literal, $($rest:tt)*) => {
        $out.put(&[0u8; $n]);
        $crate::model::rows::layout!(@encode $out $start $sized; $($rest)*);
    };
    (@encode $out:ident $start:ident $sized:ident; length, $($rest:tt)*) => {
        let length_at = $out.len();
        $out.put(&[0u8; 2]);
        $crate::model::rows::layout!(@encode $out $start $sized; $($rest)*);
        $out.patch(length_at, $out.len() - $start)?;
    };
    (@encode $out:ident $start:ident $sized:ident; sized, $($rest:tt)*) => {
        $sized = $out.len();
        $out.put(&[0u8; 2]);
        $crate::model::rows::layout!(@encode $out $start $sized; $($rest)*);
    };
    (@encode $out:ident $start:ident $sized:ident; $field:ident in sized, $($rest:tt)*) => {
        let sized_from = $out.len();
        $crate::model::codec::Codec::encode($field, $out)?;
        $out.patch($sized, $out.len() - sized_from)?;
        $crate::model::rows::layout!(@encode $out $start $sized; $($rest)*);
    };
    (@encode $out:ident $start:ident $sized:ident; $field:ident in sized as $adapter:ty, $($rest:tt)*) => {
        let sized_from = $out.len();
        <$adapter as $crate::model::codec::Encoding<_>>::encode($field, $out)?;
        $out.patch($sized, $out.len() - sized_from)?;
        $crate::model::rows::layout!(@encode $out $start $sized; $($rest)*);
    };
    (@encode $out:ident $start:ident $sized:ident; $field:ident and $other:ident in sized as $both:ty, $($rest:tt)*) => {
        let sized_from = $out.len();
        <$both as $crate::model::codec::JointEncoding<_, _>>::encode($field, $other, $out)?;
        $out.patch($sized, $out.len() - sized_from)?;
        $crate::model::rows::layout!(@encode $out $start $sized; $($rest)*);
    };
    (@encode $out:ident $start:ident $sized:ident; $field:ident by $share:ty, $($rest:tt)*) => {
        <$share as $crate::model::codec::PartialEncoding<_>>::encode($field, $out)?;
        $crate::model::rows::layout!(@encode $out $start $sized; $($rest)*);
    };
    (@encode $out:ident $start:ident $sized:ident; align before $field:ident, $($rest:tt)*) => {
        if !$field.is_empty() {
            $out.pad_to_8($start);
        }
        $crate::model::rows::layout!(@encode $out $start $sized; $field, $($rest)*);
    };
    (@encode $out:ident $start:ident $sized:ident; align $n:literal, $($rest:tt)*) => {
        let so_far = $out.len() - $start + $n;
        (so_far..so_far.next_multiple_of(8)).for_each(|_| $out.put(&[0u8]));
        $crate::model::rows::layout!(@encode $out $start $sized; $($rest)*);
    };
    (@encode $out:ident $start:ident $sized:ident; counted, $($rest:tt)*) => {
        $sized = $out.len();
        $out.put(&[0u8; 2]);
        $crate::model::rows::layout!(@encode $out $start $sized; $($rest)*);
    };
    (@encode $out:ident $start:ident $sized:ident; $field:ident in counted, $($rest:tt)*) => {
        $crate::model::codec::encode_counted::<_, $crate::model::codec::DefaultEncoding>($field, $sized, $out)?;
        $crate::model::rows::layout!(@encode $out $start $sized; $($rest)*);
    };
    (@encode $out:ident $start:ident $sized:ident; $field:ident in counted as $adapter:ty, $($rest:tt)*) => {
        $crate::model::codec::encode_counted::<_, $adapter>($field, $sized, $out)?;
        $crate::model::rows::layout!(@encode $out $start $sized; $($rest)*);
    };
    (@encode $out:ident $start:ident $sized:ident; $field:ident as $adapter:ty, $($rest:tt)*) => {
        <$adapter as $crate::model::codec::Encoding<_>>::encode($field, $out)?;
        $crate::model::rows::layout!(@encode $out $start $sized; $($rest)*);
    };
    (@encode $out:ident $start:ident $sized:ident; $field:ident, $($rest:tt)*) => {
        $crate::model::codec::Codec::encode($field, $out)?;
        $crate::model::rows::layout!(@encode $out $start $sized; $($rest)*);
    };
}

/// For every field: refuses (`@absent`) what a layout has no place for, adds (`@value`) what it has one for.
macro_rules! each_field {
    (@tokens [$($token:tt)*]) => { &[$(stringify!($token)),*] };
    (@absent $out:ident $has:expr; $layout:tt { $($field:ident : $default:expr),* $(,)? }) => {$(
        if const {
            !$crate::model::codec::layout_contains($crate::model::rows::each_field!(@tokens $layout), stringify!($field))
        } && *$field != $default
        {
            return Err($crate::model::codec::unsupported(stringify!($field), $out.version(), |v| {
                ($has)(v, stringify!($field))
            }));
        }
    )*};
    (@absent_in $out:ident $absent:ident $has:expr; $layout:tt { $($field:ident),* $(,)? }) => {
        $crate::model::rows::each_field!(@absent $out $has; $layout { $($field: $absent.$field),* })
    };
    (@value $map:ident $version:ident $layout:tt { $($field:ident),* $(,)? }) => {$(
        if const {
            $crate::model::codec::layout_contains($crate::model::rows::each_field!(@tokens $layout), stringify!($field))
        } {
            $map.push((
                stringify!($field).into(),
                $crate::model::value::Plain::to_value($field, $version),
            ));
        }
    )*};
}

pub(crate) use {each_field, layout};
