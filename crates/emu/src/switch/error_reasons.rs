//! Error reasons by name, and their replacements in versions that lack them. §7.4.4.

use sluice_openflow::spec::ErrorNumbers;
use sluice_openflow::{ErrorCode, ErrorReason, ErrorType, MatchErrorKind, Version};
use sluice_pipeline::UnusableMatch;

const fn of(kind: ErrorType, code: u32) -> ErrorReason {
    ErrorReason::Standard { kind, code: ErrorCode(code) }
}

macro_rules! error_reasons {
    ($($kind:ident { $($name:ident = $code:literal,)* })*) => {
        $($(pub(crate) const $name: ErrorReason = of(ErrorType::$kind, $code);)*)*
    };
}

error_reasons! {
    BAD_REQUEST {
        BUFFER_EMPTY = 7,
        BUFFER_UNKNOWN = 8,
        BAD_REQUESTED_TABLE_ID = 9,
        IS_SLAVE = 10,
        BAD_REQUESTED_PORT = 11,
        BAD_PACKET = 12,
        MULTIPART_BUFFER_OVERFLOW = 13,
    }
    BAD_ACTION {
        BAD_ACTION_TYPE = 0,
        BAD_ACTION_EXPERIMENTER = 2,
        BAD_OUT_PORT = 4,
        BAD_ARGUMENT = 5,
        BAD_OUT_GROUP = 9,
        MATCH_INCONSISTENT = 10,
        BAD_SET_TYPE = 13,
        BAD_SET_ARGUMENT = 15,
        BAD_METER = 17,
    }
    BAD_INSTRUCTION {
        UNKNOWN_INST = 0,
        UNSUP_INST = 1,
        BAD_GOTO = 2,
        BAD_INSTRUCTION_EXPERIMENTER = 5,
        DUP_INST = 9,
    }
    BAD_MATCH {
        BAD_FIELD = 6,
        BAD_VALUE = 7,
        BAD_MASK = 8,
        BAD_PREREQ = 9,
        DUP_FIELD = 10,
    }
    FLOW_MOD_FAILED {
        TABLE_FULL = 1,
        BAD_TABLE_ID = 2,
        OVERLAP = 3,
        FLOW_EPERM = 4,
        BAD_COMMAND = 6,
        BAD_FLAGS = 7,
        BAD_EMERG_TIMEOUT = 0x1_0003,
    }
    GROUP_MOD_FAILED {
        GROUP_EXISTS = 0,
        INVALID_GROUP = 1,
        OUT_OF_GROUPS = 3,
        OUT_OF_BUCKETS = 4,
        GROUP_LOOP = 7,
        UNKNOWN_GROUP = 8,
        CHAINED_GROUP = 9,
        BAD_GROUP_TYPE = 10,
        BAD_GROUP_COMMAND = 11,
        BAD_WATCH = 13,
        UNKNOWN_BUCKET = 15,
        BUCKET_EXISTS = 16,
    }
    PORT_MOD_FAILED {
        PORT_MOD_BAD_PORT = 0,
        BAD_HW_ADDR = 1,
        BAD_PORT_CONFIG = 2,
    }
    TABLE_MOD_FAILED {
        TABLE_MOD_BAD_TABLE = 0,
        BAD_TABLE_CONFIG = 1,
    }
    QUEUE_OP_FAILED {
        QUEUE_BAD_PORT = 0,
    }
    ASYNC_CONFIG_FAILED {
        ASYNC_UNSUPPORTED = 1,
    }
    TABLE_FEATURES_FAILED {
        TABLE_FEATURES_EPERM = 5,
    }
    ROLE_REQUEST_FAILED {
        STALE = 0,
        BAD_ROLE = 2,
    }
    METER_MOD_FAILED {
        METER_EXISTS = 1,
        INVALID_METER = 2,
        UNKNOWN_METER = 3,
        BAD_METER_COMMAND = 4,
        BAD_METER_FLAGS = 5,
        BAD_RATE = 6,
        BAD_BAND = 8,
        BAD_BAND_VALUE = 9,
        OUT_OF_METERS = 10,
        OUT_OF_BANDS = 11,
    }
}

/// The reason itself if `version` has it, else the closest one that it has.
pub(crate) fn for_version(version: Version, reason: ErrorReason) -> ErrorReason {
    let is_expressible =
        |it: ErrorReason| matches!(it.numbers(version), Ok(ErrorNumbers::Standard(..)));
    if is_expressible(reason) {
        return reason;
    }
    let closest = match (reason.kind(), reason) {
        (_, BAD_FIELD) => FLOW_EPERM,
        (ErrorType::BAD_MATCH | ErrorType::FLOW_MOD_FAILED, _) => BAD_COMMAND,
        (_, BAD_METER) => UNKNOWN_METER,
        (_, MATCH_INCONSISTENT | BAD_SET_ARGUMENT) => BAD_ARGUMENT,
        (ErrorType::BAD_ACTION, _) => BAD_ACTION_TYPE,
        (ErrorType::BAD_INSTRUCTION, _) => UNSUP_INST,
        (ErrorType::GROUP_MOD_FAILED, _) => INVALID_GROUP,
        (_, MULTIPART_BUFFER_OVERFLOW) => ErrorReason::BAD_MULTIPART,
        (_, BAD_REQUESTED_PORT) => BAD_OUT_PORT,
        _ => ErrorReason::BAD_LEN,
    };
    if is_expressible(closest) { closest } else { ErrorReason::BAD_TYPE }
}

/// The error for a match that the switch cannot use.
pub(crate) fn of_match(unusable: UnusableMatch) -> ErrorReason {
    match unusable {
        UnusableMatch::UnsupportedField(_) => BAD_FIELD,
        UnusableMatch::Invalid(error) => match error.why {
            MatchErrorKind::Duplicate => DUP_FIELD,
            MatchErrorKind::MissingPrerequisite(_) => BAD_PREREQ,
            MatchErrorKind::MaskNotAllowed => BAD_MASK,
            MatchErrorKind::ValueTooLarge { .. } => BAD_VALUE,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_can_be_expressed_in_every_version() {
        let error_reasons = [
            BAD_FIELD,
            BAD_PREREQ,
            BAD_TABLE_ID,
            BAD_METER,
            MATCH_INCONSISTENT,
            BAD_SET_TYPE,
            DUP_INST,
            UNKNOWN_BUCKET,
            BAD_REQUESTED_PORT,
            BAD_PACKET,
            IS_SLAVE,
            STALE,
            BAD_EMERG_TIMEOUT,
            OVERLAP,
        ];
        for version in (1..=6).map(Version) {
            for reason in error_reasons {
                let said = for_version(version, reason);
                assert!(
                    matches!(said.numbers(version), Ok(ErrorNumbers::Standard(..))),
                    "{reason} in {version}"
                );
            }
        }
        assert_eq!(for_version(Version::V1_3, BAD_FIELD), BAD_FIELD);
        assert_eq!(for_version(Version::V1_0, BAD_FIELD), FLOW_EPERM);
    }
}
