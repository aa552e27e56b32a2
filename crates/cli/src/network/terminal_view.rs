//! The full-screen display of a network; it fits a terminal of 80 by 24 characters.

use std::time::{Duration, Instant};

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Cell, Paragraph, Row, Table, TableState};
use ratatui::{DefaultTerminal, Frame};
use sluice_emu::live::NetworkStatus;
use sluice_emu::net::{DataPlane, LinkState};
use sluice_io::clock;
use sluice_openflow::DatapathId;

use super::Emulation;
use super::summary::{host_name, link_ends};

/// Interval at which packet-ins per second are computed.
const RATE_INTERVAL: Duration = Duration::from_secs(1);

/// The width for which the columns are laid out; additional width is given to names.
const WIDTH_MIN: u16 = 80;

/// Lines of a table that are not rows: two borders and the header.
const TABLE_FRAME_LINES: u16 = 3;

/// The state of the display.
struct TerminalView<'a> {
    title: &'a str,
    /// The link that `l` cuts or restores.
    selected: TableState,
    packet_in_rate: u64,
    /// When the rate was last computed, and the number of packet-ins at that time.
    rate_base: (Instant, u64),
}

/// Runs the network and displays it until the user quits.
pub(super) fn run(emulation: &mut Emulation, title: &str) -> Result<(), String> {
    let mut terminal =
        ratatui::try_init().map_err(|e| format!("cannot draw on the terminal: {e}"))?;
    let result = draw_until_quit(&mut terminal, emulation, title);
    ratatui::restore();
    result
}

fn draw_until_quit(
    terminal: &mut DefaultTerminal,
    emulation: &mut Emulation,
    title: &str,
) -> Result<(), String> {
    let selected = TableState::default().with_selected(Some(0));
    let rate_base = (emulation.started_at, 0);
    let mut view = TerminalView { title, selected, packet_in_rate: 0, rate_base };
    while emulation.run_interval()? {
        let (now, status) = (clock::now(), emulation.rounds.status());
        if now >= view.rate_base.0 + RATE_INTERVAL {
            view.packet_in_rate = status.packet_ins - view.rate_base.1;
            view.rate_base = (now, status.packet_ins);
        }
        terminal
            .draw(|frame| view.draw(frame, emulation, status))
            .map_err(|e| format!("cannot draw on the terminal: {e}"))?;
        if !view.handle_keys(emulation)? {
            return Ok(());
        }
    }
    Ok(())
}

impl TerminalView<'_> {
    /// Handles pending key presses; `false` if the user quits.
    fn handle_keys(&mut self, emulation: &mut Emulation) -> Result<bool, String> {
        let error = |e: std::io::Error| format!("cannot read keys: {e}");
        while event::poll(Duration::ZERO).map_err(error)? {
            let Event::Key(key) = event::read().map_err(error)? else { continue };
            if key.kind != KeyEventKind::Press {
                continue;
            }
            match key.code {
                KeyCode::Char('q') | KeyCode::Esc => return Ok(false),
                // In raw mode the terminal sends no SIGINT.
                KeyCode::Char('c') if key.modifiers.contains(event::KeyModifiers::CONTROL) => {
                    return Ok(false);
                }
                KeyCode::Down => self.selected.select_next(),
                KeyCode::Up => self.selected.select_previous(),
                KeyCode::Char('l') => self.toggle_link(emulation)?,
                _ => {}
            }
        }
        Ok(true)
    }

    /// Cuts the selected link, or restores it.
    fn toggle_link(&self, emulation: &mut Emulation) -> Result<(), String> {
        let Some(link) = self.selected.selected() else { return Ok(()) };
        let (now, data_plane) = emulation.rounds.network_mut().data_plane_mut();
        let Some((state, _)) = data_plane.link(link) else { return Ok(()) };
        let new = if state == LinkState::Up { LinkState::Down } else { LinkState::Up };
        data_plane.set_link_state(now, link, new).map_err(|e| e.to_string())?;
        emulation.links_cut += u32::from(new == LinkState::Down);
        Ok(())
    }

    fn draw(&mut self, frame: &mut Frame<'_>, emulation: &Emulation, status: NetworkStatus) {
        let data_plane = emulation.rounds.network().data_plane();
        let rows = [Constraint::Length(4), Constraint::Min(5), Constraint::Length(1)];
        let [head, body, foot] = Layout::vertical(rows).areas(frame.area());
        let columns = Columns::new(body.width);
        let widths = [Constraint::Length(columns.switches_width()), Constraint::Fill(1)];
        let [left, right] = Layout::horizontal(widths).areas(body);
        let rows_max = usize::from(body.height.saturating_sub(TABLE_FRAME_LINES));
        frame.render_widget(self.head(emulation, status, head.width), head);
        frame.render_widget(switch_table(data_plane, &columns, rows_max), left);
        frame.render_stateful_widget(link_table(data_plane, &columns), right, &mut self.selected);
        let keys = "q quit   up, down select a link   l cut or restore it";
        frame.render_widget(Paragraph::new(keys).style(Style::new().fg(Color::DarkGray)), foot);
    }

    fn head(&self, emulation: &Emulation, status: NetworkStatus, width: u16) -> Paragraph<'_> {
        let network = emulation.rounds.network();
        let topology = network.data_plane().topology();
        let width = usize::from(width);
        let seconds = format!("  {} s", (clock::now() - emulation.started_at).as_secs());
        let title = shorten(self.title, width.saturating_sub(seconds.len()));
        let n_switches = topology.switches.len();
        let failure =
            network.connection_failure().filter(|_| status.connected_switches < n_switches);
        let network_line = match failure {
            Some(failure) => {
                format!(
                    "{} of {n_switches} switches connected: {failure}",
                    status.connected_switches
                )
            }
            None => format!(
                "{} of {n_switches} switches connected, {} hosts, {} flow entries, {} packet-ins/s",
                status.connected_switches,
                topology.hosts.len(),
                status.flow_entries,
                self.packet_in_rate
            ),
        };
        let is_this_round = !emulation.rounds.lost_in_this_round().is_empty();
        let lost = if is_this_round {
            emulation.rounds.lost_in_this_round()
        } else {
            emulation.rounds.lost_in_last_round()
        };
        let pings = format!(
            "pings: round {} of {} pairs; in total {} answered, {} lost",
            status.rounds + 1,
            emulation.rounds.pair_count(),
            status.pings_answered,
            status.pings_lost
        );
        let round = if is_this_round { "this" } else { "the last" };
        let pairs = lost.iter().map(|&(from, to)| {
            format!("{}→{}", host_name(topology, from), host_name(topology, to))
        });
        let failing = if lost.is_empty() {
            "no pair failed in the last round".to_owned()
        } else {
            join_within(&format!("failed in {round} round: "), pairs, width)
        };
        let color = if lost.is_empty() { Color::Green } else { Color::Red };
        Paragraph::new(vec![
            Line::from(title + &seconds),
            Line::from(network_line),
            Line::from(pings),
            Line::from(failing).style(Style::new().fg(color)),
        ])
    }
}

/// The column widths of both tables.
struct Columns {
    switch: usize,
    datapath_id: usize,
    /// Each end of a link.
    end: usize,
}

impl Columns {
    fn new(width: u16) -> Self {
        let extra = usize::from(width.saturating_sub(WIDTH_MIN)) / 4;
        Self { switch: 7 + extra.min(13), datapath_id: 8 + extra.min(8), end: 8 + extra.min(16) }
    }

    /// The width of the switch table: columns, gaps between them, borders.
    fn switches_width(&self) -> u16 {
        u16::try_from(self.switch + self.datapath_id + 4 + 5 + 7 + 4 + 2).unwrap_or(WIDTH_MIN / 2)
    }
}

fn switch_table(data_plane: &DataPlane, columns: &Columns, rows_max: usize) -> Table<'static> {
    let nodes = data_plane.topology().switches.iter().enumerate();
    let n_switches = nodes.len();
    let rows = nodes.take(rows_max).filter_map(|(n, node)| {
        let switch = data_plane.switch(n)?;
        let (version, color) = match switch.version().filter(|_| switch.is_connected()) {
            Some(version) => (version.to_string(), Color::Green),
            None => ("-".to_owned(), Color::Red),
        };
        Some(Row::new([
            Cell::from(shorten(&node.name, columns.switch)),
            Cell::from(datapath_id(node.datapath_id, columns.datapath_id)),
            Cell::from(version).style(Style::new().fg(color)),
            Cell::from(switch.flow_entry_count().to_string()),
            Cell::from(switch.counters().packet_ins.to_string()),
        ]))
    });
    let length = |width: usize| Constraint::Length(u16::try_from(width).unwrap_or(u16::MAX));
    let widths =
        [length(columns.switch), length(columns.datapath_id), length(4), length(5), length(7)];
    let title = if n_switches > rows_max {
        format!("switches ({rows_max} of {n_switches})")
    } else {
        "switches".to_owned()
    };
    Table::new(rows, widths)
        .header(header(["switch", "dpid", "OF", "flows", "pkt-ins"]))
        .block(Block::bordered().title(title))
}

fn link_table(data_plane: &DataPlane, columns: &Columns) -> Table<'static> {
    let rows = (0..data_plane.link_count()).filter_map(|link| {
        let (a, b) = link_ends(data_plane.topology(), link)?;
        let (state, counters) = data_plane.link(link)?;
        let (state, color) = match state {
            LinkState::Up => ("up", Color::Green),
            LinkState::Down => ("cut", Color::Red),
        };
        Some(Row::new([
            Cell::from(shorten(&a, columns.end)),
            Cell::from(shorten(&b, columns.end)),
            Cell::from(state).style(Style::new().fg(color)),
            Cell::from(counters.delivered.to_string()),
            Cell::from(counters.dropped.to_string()),
        ]))
    });
    let end = Constraint::Length(u16::try_from(columns.end).unwrap_or(u16::MAX));
    let [state, number] = [5, 7].map(Constraint::Length);
    Table::new(rows, [end, end, state, number, number])
        .header(header(["from", "to", "state", "frames", "dropped"]))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED))
        .block(Block::bordered().title("links"))
}

fn header(names: [&'static str; 5]) -> Row<'static> {
    Row::new(names).style(Style::new().add_modifier(Modifier::BOLD))
}

/// The significant hexadecimal digits of a datapath id; of too many, the last ones.
fn datapath_id(id: DatapathId, width: usize) -> String {
    let digits = format!("{:x}", id.0);
    match digits.len().checked_sub(width).filter(|&excess| excess > 0) {
        Some(excess) => format!("…{}", digits.get(excess + 1..).unwrap_or_default()),
        None => digits,
    }
}

/// `text`, cut to `width` characters with an ellipsis.
fn shorten(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    kept + "…"
}

/// `prefix`, as many items as fit into `width` characters, and the number of the other ones.
fn join_within(prefix: &str, items: impl ExactSizeIterator<Item = String>, width: usize) -> String {
    let (total, mut text) = (items.len(), prefix.to_owned());
    for (n, item) in items.enumerate() {
        let rest = format!(" and {} more", total - n);
        let separator = if n == 0 { "" } else { ", " };
        let is_last = n + 1 == total;
        let needed = text.chars().count() + separator.len() + item.chars().count();
        if n > 0 && needed + if is_last { 0 } else { rest.len() } > width {
            return text + &rest;
        }
        text = text + separator + &item;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datapath_id_shows_its_significant_digits() {
        assert_eq!(datapath_id(DatapathId(1), 8), "1");
        assert_eq!(datapath_id(DatapathId(0xdead_beef), 8), "deadbeef");
        assert_eq!(
            datapath_id(DatapathId(0x0001_23de_adbe_ef01), 8),
            "…adbeef01".replacen("…a", "…", 1)
        );
        assert_eq!(datapath_id(DatapathId(u64::MAX), 16), "f".repeat(16));
    }

    #[test]
    fn both_tables_fit_80_columns() {
        let columns = Columns::new(80);
        let links_width = 2 * columns.end + 5 + 7 + 7 + 4 + 2;
        assert!(usize::from(columns.switches_width()) + links_width <= 80);
        assert_eq!(shorten("Frankfurt", columns.switch), "Frankf…");
    }

    #[test]
    fn failing_pairs_are_listed_as_far_as_they_fit() {
        let pairs = |n: usize| (1..=n).map(|n| format!("h{n}→h9")).collect::<Vec<_>>().into_iter();
        assert_eq!(join_within("failed: ", pairs(2), 40), "failed: h1→h9, h2→h9");
        let many = join_within("failed: ", pairs(9), 40);
        assert_eq!(many, "failed: h1→h9, h2→h9, h3→h9 and 6 more");
        assert!(many.chars().count() <= 40);
    }
}
