//! A network on the terminal.

use std::time::{Duration, Instant};

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Cell, Paragraph, Row, Table, TableState};
use ratatui::{DefaultTerminal, Frame};
use sluice_emu::live::NetworkStatus;
use sluice_emu::net::{DataPlane, LinkState};
use sluice_emu::topology::PortRef;
use sluice_io::clock;

use super::Watched;

/// The time over which packet-ins per second are counted.
const SECOND: Duration = Duration::from_secs(1);

/// What the screen remembers.
struct Drawn<'a> {
    title: &'a str,
    start: Instant,
    /// The link that `l` cuts or joins.
    selected: TableState,
    rate: u64,
    before: (Instant, u64),
}

/// Shows the network until somebody types `q`.
pub(super) fn show(watched: &mut Watched, title: &str) -> Result<(), String> {
    let mut terminal = ratatui::try_init().map_err(|e| format!("cannot draw: {e}"))?;
    let done = draw(&mut terminal, watched, title);
    ratatui::restore();
    done
}

fn draw(terminal: &mut DefaultTerminal, watched: &mut Watched, title: &str) -> Result<(), String> {
    let start = clock::now();
    let selected = TableState::default().with_selected(Some(0));
    let mut drawn = Drawn { title, start, selected, rate: 0, before: (start, 0) };
    while watched.moment()? {
        let (now, glance) = (clock::now(), watched.rounds.status());
        if now >= drawn.before.0 + SECOND {
            drawn.rate = glance.packet_ins - drawn.before.1;
            drawn.before = (now, glance.packet_ins);
        }
        terminal
            .draw(|frame| drawn.paint(frame, watched, glance))
            .map_err(|e| format!("cannot draw: {e}"))?;
        if !drawn.keys(watched)? {
            return Ok(());
        }
    }
    Ok(())
}

impl Drawn<'_> {
    /// Does what was typed; whether to go on.
    fn keys(&mut self, watched: &mut Watched) -> Result<bool, String> {
        let unread = |e: std::io::Error| format!("cannot read keys: {e}");
        while event::poll(Duration::ZERO).map_err(unread)? {
            let Event::Key(key) = event::read().map_err(unread)? else { continue };
            if key.kind != KeyEventKind::Press {
                continue;
            }
            match key.code {
                KeyCode::Char('q') | KeyCode::Esc => return Ok(false),
                // The terminal does not make a signal of it while it is drawn on.
                KeyCode::Char('c') if key.modifiers.contains(event::KeyModifiers::CONTROL) => {
                    return Ok(false);
                }
                KeyCode::Down => self.selected.select_next(),
                KeyCode::Up => self.selected.select_previous(),
                KeyCode::Char('l') => self.toggle(watched)?,
                _ => {}
            }
        }
        Ok(true)
    }

    /// Cuts the link that is selected, or joins it.
    fn toggle(&self, watched: &mut Watched) -> Result<(), String> {
        let Some(link) = self.selected.selected() else { return Ok(()) };
        let (now, fabric) = watched.rounds.network_mut().data_plane_mut();
        let Some((state, _)) = fabric.link(link) else { return Ok(()) };
        let other = if state == LinkState::Up { LinkState::Down } else { LinkState::Up };
        fabric.set_link_state(now, link, other).map_err(|e| e.to_string())
    }

    fn paint(&mut self, frame: &mut Frame<'_>, watched: &Watched, glance: NetworkStatus) {
        let fabric = watched.rounds.network().data_plane();
        let rows = [Constraint::Length(4), Constraint::Min(5), Constraint::Length(1)];
        let [head, body, foot] = Layout::vertical(rows).areas(frame.area());
        let [left, right] = Layout::horizontal([Constraint::Fill(1); 2]).areas(body);
        frame.render_widget(self.head(watched, glance), head);
        frame.render_widget(switches(fabric), left);
        frame.render_stateful_widget(links(fabric), right, &mut self.selected);
        let keys = "q quit   up, down: another link   l cut or join the link";
        frame.render_widget(Paragraph::new(keys).style(Style::new().fg(Color::DarkGray)), foot);
    }

    fn head(&self, watched: &Watched, glance: NetworkStatus) -> Paragraph<'_> {
        let topology = watched.rounds.network().data_plane().topology();
        let seconds = (clock::now() - self.start).as_secs();
        let lost = watched.rounds.lost_in_this_round().len();
        let colour = if lost > 0 { Color::Red } else { Color::Green };
        let of = topology.switches.len();
        let refused =
            watched.rounds.network().connect_error().filter(|_| glance.connected_switches < of);
        let known = match refused {
            Some(why) => format!(
                "{} of {of} switches known, no connection: {why}",
                glance.connected_switches
            ),
            None => format!("{} of {of} switches known", glance.connected_switches),
        };
        let pings = format!(
            "round {}: {lost} of {} pings lost; ever: {} answered, {} lost",
            glance.rounds + 1,
            watched.rounds.pair_count(),
            glance.pings_answered,
            glance.pings_lost
        );
        Paragraph::new(vec![
            Line::from(format!("{}, {seconds} s", self.title)),
            Line::from(format!(
                "{known}, {} hosts, {} rules, {} packet-ins/s",
                topology.hosts.len(),
                glance.flow_entries,
                self.rate
            )),
            Line::from(pings).style(Style::new().fg(colour)),
        ])
    }
}

fn switches(fabric: &DataPlane) -> Table<'static> {
    let nodes = fabric.topology().switches.iter().enumerate();
    let rows = nodes.filter_map(|(n, node)| {
        let switch = fabric.switch(n)?;
        let (session, colour) = match switch.version().filter(|_| switch.is_connected()) {
            Some(version) => (version.to_string(), Color::Green),
            None => ("none".to_owned(), Color::Red),
        };
        Some(Row::new([
            Cell::from(node.name.clone()),
            Cell::from(node.datapath_id.to_string()),
            Cell::from(session).style(Style::new().fg(colour)),
            Cell::from(switch.flow_entry_count().to_string()),
            Cell::from(switch.counters().packet_ins.to_string()),
        ]))
    });
    let widths = [8, 16, 8, 6, 10].map(Constraint::Length);
    let header = Row::new(["switch", "datapath id", "session", "rules", "packet-ins"]);
    let bold = Style::new().add_modifier(Modifier::BOLD);
    Table::new(rows, widths).header(header.style(bold)).block(Block::bordered().title("switches"))
}

fn links(fabric: &DataPlane) -> Table<'static> {
    let topology = fabric.topology();
    let place = |place: PortRef| {
        let switch = topology.switches.get(place.switch);
        format!("{}:{}", switch.map_or("?", |switch| switch.name.as_str()), place.port)
    };
    let between = topology.links.iter().map(|link| (place(link.a), place(link.b)));
    let hosts = topology.hosts.iter().map(|host| (place(host.port), host.name.clone()));
    let rows = between.chain(hosts).enumerate().filter_map(|(n, (a, b))| {
        let (state, counts) = fabric.link(n)?;
        let (state, colour) = match state {
            LinkState::Up => ("up", Color::Green),
            LinkState::Down => ("cut", Color::Red),
        };
        Some(Row::new([
            Cell::from(a),
            Cell::from(b),
            Cell::from(state).style(Style::new().fg(colour)),
            Cell::from(counts.delivered.to_string()),
            Cell::from(counts.dropped.to_string()),
        ]))
    });
    let widths = [12, 12, 5, 10, 10].map(Constraint::Length);
    let header = Row::new(["from", "to", "state", "frames", "dropped"]);
    let bold = Style::new().add_modifier(Modifier::BOLD);
    Table::new(rows, widths)
        .header(header.style(bold))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED))
        .block(Block::bordered().title("links"))
}
