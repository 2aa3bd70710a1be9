//! The drawing of the screen.
//!
//! Invariant: a text of a lock is cleaned of control characters before it reaches the terminal.

use std::collections::VecDeque;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style, Stylize};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Block, Clear, Paragraph, Row, Table, TableState, Wrap};

use super::state::{Front, State};
use crate::command::list::holder_name;
use crate::duration::shown_ms;
use crate::fleet::Sort;
use crate::fleet::object::{AgeIs, ClientRow, Listing, Object};
use crate::table::clean;

const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const HELP: &str = "\
j k, arrows   next and previous row       /      filter
g G           first and last row          s      sort by wait, hold, name
Enter         report on the lock          w      warnings only
Space         freeze                      c      clients
+ -           faster, slower              r      release (--allow-release)
Esc           back, clear the filter      q      quit";

/// Draws everything.
pub(super) fn draw(frame: &mut Frame<'_>, state: &State) {
    let [head, body, foot] =
        Layout::vertical([Constraint::Length(2), Constraint::Fill(1), Constraint::Length(1)])
            .areas(frame.area());
    frame.render_widget(Paragraph::new(summary(state)), head);
    match &state.front {
        Front::Clients => draw_clients(frame, state, body),
        _ => draw_list(frame, state, body),
    }
    frame.render_widget(Paragraph::new(footer(state)), foot);
    match &state.front {
        Front::Help => draw_over(frame, " Keys ", HELP.to_owned()),
        Front::Detail { name, report } => {
            let lines: Vec<_> = report.lines().map(clean).collect();
            draw_over(frame, &format!(" {} ", clean(name)), lines.join("\n"));
        }
        Front::Release { name, owner, typed } => {
            let text = format!(
                "This frees the hold of {} and nothing else.\nType the name {} to release it, or Esc: {typed}",
                clean(owner),
                clean(name)
            );
            draw_over(frame, " Release ", text);
        }
        Front::List | Front::Clients => {}
    }
}

fn summary(state: &State) -> Vec<Line<'static>> {
    let Some(listing) = &state.listing else { return vec![Line::from("reading")] };
    let held = listing.objects.iter().filter(|object| !object.holders.is_empty()).count();
    let waited = listing.objects.iter().filter(|object| object.waiting.is_any()).count();
    let warned = listing.objects.iter().filter(|object| !object.warnings.is_empty()).count();
    let sort = match state.sort {
        Sort::Wait => "wait",
        Sort::Held => "hold",
        Sort::Name => "name",
    };
    let frozen = if state.is_frozen { ", frozen" } else { "" };
    let first = format!(
        "{}  every {}.{} s, by {sort}{frozen}",
        clean(&listing.server),
        state.pace / 10,
        state.pace % 10
    );
    let second = format!("{held} held, {waited} waited for, {warned} with warnings{}", missing(listing));
    vec![Line::from(first).bold(), Line::from(second)]
}

fn missing(listing: &Listing) -> String {
    let clients = &listing.sources.clients;
    if clients.silent.is_empty() {
        return String::new();
    }
    let names: Vec<_> = clients.silent.iter().map(|client| client.process.short()).collect();
    clean(&format!(
        "; {} of {} clients answered, silent: {}",
        clients.answered,
        clients.asked,
        names.join(", ")
    ))
}

fn footer(state: &State) -> String {
    if state.is_filtering {
        return format!("filter: {}", clean(&state.filter));
    }
    match (&state.message, state.filter.is_empty()) {
        (Some(message), _) => clean(message),
        (None, false) => format!("filter: {} (Esc clears it)", clean(&state.filter)),
        (None, true) => "? keys   Enter details   / filter   s sort   q quit".to_owned(),
    }
}

fn draw_list(frame: &mut Frame<'_>, state: &State, area: Rect) {
    let rows = state.rows();
    let room = Room::of(area.width);
    let head = ["NAME", "KIND", "HOLDER", "HELD", "LEASE", "WAITING", "LONGEST", "TREND", "CHANGES", "!"];
    let widths = [
        Constraint::Fill(1),
        Constraint::Length(room.kind),
        Constraint::Fill(1),
        Constraint::Length(7),
        Constraint::Length(room.lease),
        Constraint::Length(7),
        Constraint::Length(7),
        Constraint::Length(room.trend),
        Constraint::Length(room.changes),
        Constraint::Length(room.warnings),
    ];
    let made = rows.iter().map(|object| row(object, state, room));
    let table = Table::new(made, widths)
        .header(Row::new(head).style(Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED)))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let mut selection = TableState::new().with_selected(state.place());
    frame.render_stateful_widget(table, area, &mut selection);
}

/// The widths of the columns that a narrow terminal has no room for.
#[derive(Clone, Copy)]
struct Room {
    kind: u16,
    lease: u16,
    trend: u16,
    changes: u16,
    warnings: u16,
}

impl Room {
    const fn of(width: u16) -> Self {
        match width {
            150.. => Self { kind: 15, lease: 8, trend: 20, changes: 8, warnings: 24 },
            100.. => Self { kind: 10, lease: 8, trend: 10, changes: 0, warnings: 16 },
            _ => Self { kind: 6, lease: 0, trend: 0, changes: 0, warnings: 2 },
        }
    }
}

fn row(object: &Object, state: &State, room: Room) -> Row<'static> {
    let holder = object.holders.first();
    let at_least = holder.is_some_and(|holder| holder.age_is == Some(AgeIs::AtLeast));
    let held =
        object.longest_hold_ms().map(|age| format!("{}{}", if at_least { ">" } else { "" }, shown_ms(age)));
    let lease = holder.map(|holder| match (holder.renewed, holder.lease_ms) {
        (Some(true), _) => "renewed".to_owned(),
        (_, Some(left)) => shown_ms(left),
        (_, None) => "no end".to_owned(),
    });
    let history = state.histories.get(&object.key);
    let trend = history.map(|history| sparkline(&history.waiters, room.trend.into())).unwrap_or_default();
    let changes = history.map(|history| history.changes.to_string()).unwrap_or_default();
    let warnings = match object.warnings.as_slice() {
        [] => String::new(),
        _ if room.warnings < 10 => "!".to_owned(),
        warnings => warnings.iter().map(|warning| warning.name).collect::<Vec<_>>().join(" "),
    };
    let waiting = object.waiting.most();
    let waiting = if waiting == 0 { String::new() } else { waiting.to_string() };
    let longest = object.waiting.longest_ms.map(shown_ms).unwrap_or_default();
    let cells = [
        clean(&object.name),
        object.kind.name().to_owned(),
        clean(&holder.map(holder_name).unwrap_or_default()),
        held.unwrap_or_default(),
        lease.unwrap_or_default(),
        waiting,
        longest,
        trend,
        changes,
        warnings,
    ];
    let row = Row::new(cells);
    if object.warnings.is_empty() { row } else { row.yellow() }
}

/// Returns the last samples as bars.
fn sparkline(samples: &VecDeque<u64>, width: usize) -> String {
    let most = samples.iter().copied().max().unwrap_or(0).max(1);
    let bar = |value: &u64| match *value {
        0 => ' ',
        value => BARS[usize::try_from(value * 7 / most).unwrap_or(7).min(7)],
    };
    samples.iter().skip(samples.len().saturating_sub(width)).map(bar).collect()
}

fn draw_clients(frame: &mut Frame<'_>, state: &State, area: Rect) {
    let Some(listing) = &state.listing else { return };
    let clients = &listing.sources.clients;
    let row = |client: &ClientRow, says: &'static str| {
        let number = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
        let process = clean(&client.process.short());
        Row::new([process, number(client.holds), number(client.waits), says.to_owned()])
    };
    let silent = clients.silent.iter().map(|client| row(client, "silent").yellow());
    let ended = clients.ended.iter().map(|client| row(client, "ended"));
    let rows = silent.chain(ended).chain(clients.living.iter().map(|client| row(client, "answers")));
    let widths = [Constraint::Fill(1), Constraint::Length(8), Constraint::Length(8), Constraint::Length(8)];
    let head = Row::new(["CLIENT", "HOLDS", "WAITS", "STATE"]).bold().underlined();
    frame.render_widget(Table::new(rows, widths).header(head), area);
}

/// Draws a text in front of everything.
fn draw_over(frame: &mut Frame<'_>, title: &str, text: String) {
    let area = frame.area();
    let lines = u16::try_from(text.lines().count()).unwrap_or(u16::MAX);
    let (width, height) = (area.width.saturating_sub(4).min(100), lines.saturating_add(2).min(area.height));
    let over = Rect::new((area.width - width) / 2, (area.height - height) / 2, width, height);
    frame.render_widget(Clear, over);
    let block = Block::bordered().title(title.to_owned());
    frame.render_widget(Paragraph::new(Text::from(text)).wrap(Wrap { trim: false }).block(block), over);
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::fixture::{listing, object, press};
    use super::*;

    fn screen(state: &State, (width, height): (u16, u16)) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, state)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn a_screen_of_any_size_shows_what_fits() {
        let mut state = State::new(true);
        state.update(listing(vec![object("order:42", "x", 3), object("a\u{1b}[2Jb", "y", 0)]));
        for size in [(1, 1), (20, 3), (60, 10), (80, 24), (200, 50)] {
            for keys in ["", "?", "\u{1b}c", "\u{1b}r"] {
                press(&mut state, keys);
                let shown = screen(&state, size);
                assert!(!shown.contains('\u{1b}'), "{shown}");
            }
            press(&mut state, "\u{1b}\u{1b}");
        }
        let shown = screen(&state, (120, 10));
        for word in ["order:42", "2 held, 1 waited for", "NAME", "redis://localhost"] {
            assert!(shown.contains(word), "{word}: {shown}");
        }
    }

    #[test]
    fn a_sparkline_has_the_last_samples() {
        let samples = VecDeque::from([9, 0, 1, 7, 14]);
        assert_eq!(sparkline(&samples, 4), " ▁▄█");
        assert_eq!(sparkline(&VecDeque::new(), 4), "");
    }
}
