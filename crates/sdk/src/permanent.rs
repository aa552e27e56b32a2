//! Flow entries that a switch has as long as it is connected.

use sluice_openflow::{EncodeError, Encoder, FlowMod, FlowModFlags, Version};

use crate::flow_space::TABLE_MISS;
use crate::{App, Ctx};

/// `entry` with the cookie of permanent flow entries, without timeouts, and with the flag by which the switch reports its removal. All
/// permanent entries of the switch are then [written again](restore_tables).
pub fn permanent(entry: FlowMod) -> FlowMod {
    FlowMod {
        cookie: TABLE_MISS.cookie,
        flags: entry.flags | FlowModFlags::SEND_FLOW_REM,
        idle_timeout: 0,
        hard_timeout: 0,
        ..entry
    }
}

/// As [`Encoder::send_misses_up`], with a permanent table-miss entry.
///
/// # Errors
/// Those of [`Encoder::flow_mod`].
pub fn send_misses_up(out: &mut Encoder<'_>, max_len: u16) -> Result<(), EncodeError> {
    if out.version() < Version::V1_3 {
        return Ok(());
    }
    out.flow_mod(&permanent(FlowMod::table_miss(max_len))).map(drop)
}

/// For engines: restores the tables of a switch after changes were lost or permanent entries were removed.
pub fn restore_tables<A: App + ?Sized>(app: &mut A, ctx: &mut Ctx<'_>) {
    app.initial_messages(&mut ctx.switch);
    app.on_changes_lost(ctx);
}
