//! Layouts: how the fields of a record or of an alternative are encoded.
//!
//! A layout is a list of entries, each followed by a comma:
//!
//! | entry | encoding |
//! | --- | --- |
//! | `field` | that of the field's type |
//! | `field as E` | that of the [`Encoding`] `E` |
//! | `field by P` | the part that the [`PartialEncoding`] `P` encodes; other entries encode the other parts |
//! | `pad N` | N zero bytes, ignored when parsed |
//! | `length` | 16 bits: length of the whole record, which ends there |
//! | `sized` | 16 bits: length of the later entry `in sized` |
//! | `field in sized` | the field, in as many bytes as `sized` says |
//! | `field in sized as E` | the same, encoded by `E` |
//! | `a and b as J` | two fields, encoded together by the [`JointEncoding`] `J` |
//! | `a and b in sized as J` | the same, in as many bytes as `sized` says |
//! | `align N` | zeros up to a multiple of eight bytes, counting the record so far and N bytes before it |
//! | `align before field` | the same unless the list `field` is empty, then the field |
//! | `counted` | 16 bits: number of items of the later entry `in counted` |
//! | `field in counted` | a list of as many items as `counted` says |
//! | `field in counted as E` | the same, each item encoded by `E` |
//!
//! [`Encoding`]: super::codec::Encoding
//! [`JointEncoding`]: super::codec::JointEncoding
//! [`PartialEncoding`]: super::codec::PartialEncoding

/// Parses (`@parse`) or encodes (`@encode`) the entries of a layout; each field is a variable of its name.
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
    (@parse $r:ident $start:ident $sized:ident $what:literal; $field:ident and $other:ident as $both:ty, $($rest:tt)*) => {
        ($field, $other) = <$both as $crate::model::borrowed::ParseJoint<'_, _, _>>::parse_joint($r)?;
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
    (@encode $out:ident $start:ident $sized:ident; $field:ident and $other:ident as $both:ty, $($rest:tt)*) => {
        <$both as $crate::model::codec::JointEncoding<_, _>>::encode($field, $other, $out)?;
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

/// For each field of a record: refuses a value for which the layout has no entry (`@absent`), or adds the field to
/// the neutral form if the layout has an entry for it (`@value`).
macro_rules! each_field {
    (@tokens [$($token:tt)*]) => { &[$(stringify!($token)),*] };
    (@absent $out:ident $has:expr; $layout:tt { $($field:ident : $default:expr),* $(,)? }) => {$(
        if const {
            !$crate::model::codec::layout_contains($crate::model::rows::each_field!(@tokens $layout), stringify!($field))
        } && *$field != $default
        {
            return Err($crate::model::codec::unsupported(stringify!($field), $out.version(), &|v| {
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
            $crate::model::value::push_entry(
                &mut $map,
                stringify!($field),
                $crate::model::value::NeutralForm::to_value($field, $version),
            );
        }
    )*};
}

pub(crate) use {each_field, layout};
