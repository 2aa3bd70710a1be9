//! What the screen shows, and what keys change.
//!
//! Invariant: pure values. Nothing here reads the terminal, the clock or a server.

use std::collections::{BTreeMap, VecDeque};

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::fleet::Sort;
use crate::fleet::object::{Listing, Object, Process};

/// The samples of a sparkline.
pub(super) const SAMPLES: usize = 60;
/// The shortest and the longest pause between two samples, in tenths of a second.
const PACE: [u64; 2] = [5, 300];

/// What the screen shows in front of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Front {
    List,
    Clients,
    Help,
    /// The report on one name.
    Detail {
        name: String,
        report: String,
    },
    /// The question whether to release a hold.
    Release {
        name: String,
        owner: String,
        typed: String,
    },
}

/// What a key asks the program to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Nothing,
    Quit,
    /// Ask for the report on this name.
    Show(String),
    Release {
        name: String,
        owner: String,
    },
}

/// The samples of one object.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    pub(super) waiters: VecDeque<u64>,
    owner: Option<String>,
    /// The changes of the holder that were seen.
    pub(super) changes: u64,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) listing: Option<Listing>,
    pub(super) histories: BTreeMap<String, History>,
    /// The samples since the start.
    pub(super) samples: u64,
    pub(super) front: Front,
    pub(super) filter: String,
    pub(super) is_filtering: bool,
    pub(super) sort: Sort,
    pub(super) only_warnings: bool,
    pub(super) is_frozen: bool,
    /// The key of the selected object.
    pub(super) selected: Option<String>,
    /// The last problem or outcome, in one line.
    pub(super) message: Option<String>,
    /// The pause between two samples, in tenths of a second.
    pub(super) pace: u64,
    may_release: bool,
}

impl State {
    pub(super) fn new(may_release: bool) -> Self {
        Self {
            listing: None,
            histories: BTreeMap::new(),
            samples: 0,
            front: Front::List,
            filter: String::new(),
            is_filtering: false,
            sort: Sort::Wait,
            only_warnings: false,
            is_frozen: false,
            selected: None,
            message: None,
            pace: 20,
            may_release,
        }
    }

    /// Takes a sample.
    pub(super) fn update(&mut self, listing: Listing) {
        self.samples += 1;
        let mut histories = BTreeMap::new();
        for object in &listing.objects {
            let mut history = self.histories.remove(&object.key).unwrap_or_default();
            if history.waiters.len() == SAMPLES {
                history.waiters.pop_front();
            }
            history.waiters.push_back(object.waiting.most());
            let owner = object.holders.first().map(|holder| holder.owner.clone());
            let is_first = history.waiters.len() == 1;
            history.changes += u64::from(!is_first && owner != history.owner);
            history.owner = owner;
            histories.insert(object.key.clone(), history);
        }
        self.histories = histories;
        self.message = None;
        if !self.is_frozen {
            self.listing = Some(listing);
        }
    }

    /// Returns the objects to show, in their order.
    pub(super) fn rows(&self) -> Vec<&Object> {
        let Some(listing) = &self.listing else { return Vec::new() };
        let words = self.filter.to_lowercase();
        let is_wanted = |object: &&Object| {
            let holder = |object: &Object| {
                object.holders.iter().any(|holder| {
                    let process = holder.process.as_ref().map(Process::short);
                    let note = holder.note.as_deref().unwrap_or_default();
                    process.is_some_and(|process| process.to_lowercase().contains(&words))
                        || note.to_lowercase().contains(&words)
                        || holder.owner.contains(&words)
                })
            };
            (!self.only_warnings || !object.warnings.is_empty())
                && (words.is_empty() || object.name.to_lowercase().contains(&words) || holder(object))
        };
        let mut rows: Vec<_> = listing.objects.iter().filter(is_wanted).collect();
        let wait = |object: &Object| (object.waiting.longest_ms, object.waiting.most());
        match self.sort {
            Sort::Wait => {
                rows.sort_by_key(|object| std::cmp::Reverse((wait(object), object.longest_hold_ms())));
            }
            Sort::Held => {
                rows.sort_by_key(|object| std::cmp::Reverse((object.longest_hold_ms(), wait(object))));
            }
            Sort::Name => rows.sort_by(|one, other| one.name.cmp(&other.name)),
        }
        rows
    }

    /// Returns the place of the selected row.
    pub(super) fn place(&self) -> Option<usize> {
        let rows = self.rows();
        let selected = self.selected.as_ref();
        let found = rows.iter().position(|object| Some(&object.key) == selected);
        found.or(if rows.is_empty() { None } else { Some(0) })
    }

    fn select(&mut self, place: impl FnOnce(usize, usize) -> usize) {
        let rows = self.rows();
        let last = rows.len().saturating_sub(1);
        let next = place(self.place().unwrap_or(0), last).min(last);
        self.selected = rows.get(next).map(|object| object.key.clone());
    }

    fn selected_object(&self) -> Option<&Object> {
        let rows = self.rows();
        rows.get(self.place()?).copied()
    }

    /// Takes a key.
    pub(super) fn press(&mut self, key: KeyEvent) -> Wish {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return if key.code == KeyCode::Char('c') { Wish::Quit } else { Wish::Nothing };
        }
        if self.is_filtering {
            self.press_in_filter(key.code);
            return Wish::Nothing;
        }
        match self.front {
            Front::List => self.press_in_list(key.code),
            Front::Release { .. } => self.press_in_release(key.code),
            Front::Clients | Front::Help | Front::Detail { .. } => {
                match key.code {
                    KeyCode::Esc | KeyCode::Char('q' | 'c' | '?') | KeyCode::Enter => {
                        self.front = Front::List;
                    }
                    _ => {}
                }
                Wish::Nothing
            }
        }
    }

    fn press_in_filter(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.is_filtering = false,
            KeyCode::Esc => (self.is_filtering, self.filter) = (false, String::new()),
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(letter) => self.filter.push(letter),
            _ => {}
        }
    }

    fn press_in_list(&mut self, code: KeyCode) -> Wish {
        match code {
            KeyCode::Char('q') => return Wish::Quit,
            KeyCode::Char('j') | KeyCode::Down => self.select(|place, _| place + 1),
            KeyCode::Char('k') | KeyCode::Up => self.select(|place, _| place.saturating_sub(1)),
            KeyCode::PageDown => self.select(|place, _| place + 10),
            KeyCode::PageUp => self.select(|place, _| place.saturating_sub(10)),
            KeyCode::Char('g') | KeyCode::Home => self.select(|_, _| 0),
            KeyCode::Char('G') | KeyCode::End => self.select(|_, last| last),
            KeyCode::Char('/') => self.is_filtering = true,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char('s') => {
                self.sort = match self.sort {
                    Sort::Wait => Sort::Held,
                    Sort::Held => Sort::Name,
                    Sort::Name => Sort::Wait,
                }
            }
            KeyCode::Char('w') => self.only_warnings = !self.only_warnings,
            KeyCode::Char('c') => self.front = Front::Clients,
            KeyCode::Char('?') => self.front = Front::Help,
            KeyCode::Char(' ') => self.is_frozen = !self.is_frozen,
            KeyCode::Char('+') => self.pace = (self.pace / 2).max(PACE[0]),
            KeyCode::Char('-') => self.pace = (self.pace * 2).min(PACE[1]),
            KeyCode::Enter => {
                let name = self.selected_object().map(|object| object.name.clone());
                return name.map_or(Wish::Nothing, Wish::Show);
            }
            KeyCode::Char('r') => self.ask_to_release(),
            _ => {}
        }
        Wish::Nothing
    }

    fn ask_to_release(&mut self) {
        let hold = self.selected_object().map(|object| {
            let owner = object.holders.first().filter(|_| object.holders.len() == 1);
            (object.name.clone(), owner.map(|holder| holder.owner.clone()))
        });
        match hold {
            _ if !self.may_release => {
                self.message = Some("read-only; start with --allow-release to release holds".to_owned());
            }
            Some((name, Some(owner))) => {
                self.front = Front::Release { name, owner, typed: String::new() };
            }
            Some((name, None)) => {
                self.message =
                    Some(format!("{name} does not have exactly one holder; use `leasehold release --owner`"));
            }
            None => {}
        }
    }

    fn press_in_release(&mut self, code: KeyCode) -> Wish {
        let Front::Release { name, owner, typed } = &mut self.front else { return Wish::Nothing };
        match code {
            KeyCode::Esc => self.front = Front::List,
            KeyCode::Backspace => drop(typed.pop()),
            KeyCode::Char(letter) => typed.push(letter),
            KeyCode::Enter if typed == name => {
                let wish = Wish::Release { name: name.clone(), owner: owner.clone() };
                self.front = Front::List;
                return wish;
            }
            _ => {}
        }
        Wish::Nothing
    }

    /// Shows the report that a key has asked for.
    pub(super) fn show(&mut self, name: String, report: String) {
        self.front = Front::Detail { name, report };
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{listing, object, press};
    use super::*;
    use crate::fleet::object::Warning;

    fn state() -> State {
        let mut state = State::new(false);
        state.update(listing(vec![object("a", "x", 1), object("b", "y", 3), object("c", "z", 2)]));
        state
    }

    fn names(state: &State) -> Vec<&str> {
        state.rows().into_iter().map(|object| object.name.as_str()).collect()
    }

    #[test]
    fn the_most_contended_comes_first_and_keys_change_the_order() {
        let mut state = state();
        assert_eq!(names(&state), ["b", "c", "a"]);
        press(&mut state, "ss");
        assert_eq!(names(&state), ["a", "b", "c"]);
    }

    #[test]
    fn the_selection_stays_on_its_object_while_the_order_changes() {
        let mut state = state();
        press(&mut state, "j");
        assert_eq!(press(&mut state, "\n"), [Wish::Show("c".to_owned())]);
        state.update(listing(vec![object("c", "z", 9), object("a", "x", 1)]));
        assert_eq!(
            (state.place(), press(&mut state, "G\n").pop()),
            (Some(0), Some(Wish::Show("a".to_owned())))
        );
        press(&mut state, "kkkkg");
        assert_eq!(state.place(), Some(0));
    }

    #[test]
    fn a_filter_is_typed_and_left() {
        let mut state = state();
        press(&mut state, "/B");
        assert_eq!((names(&state), state.is_filtering), (vec!["b"], true));
        press(&mut state, "\n");
        assert!(!state.is_filtering);
        press(&mut state, "\u{1b}");
        assert_eq!(names(&state).len(), 3);
    }

    #[test]
    fn warnings_alone_and_a_frozen_list() {
        let mut state = state();
        let mut warned = object("d", "w", 0);
        warned.warnings.push(Warning { name: "no-expiry", text: "no expiry".to_owned() });
        press(&mut state, "w ");
        assert!(names(&state).is_empty());
        state.update(listing(vec![warned.clone()]));
        assert!(names(&state).is_empty(), "frozen");
        press(&mut state, " ");
        state.update(listing(vec![warned]));
        assert_eq!(names(&state), ["d"]);
    }

    #[test]
    fn a_release_needs_the_option_and_the_name() {
        let mut reader = state();
        press(&mut reader, "r");
        assert!(reader.front == Front::List && reader.message.is_some());
        let mut state = State::new(true);
        state.update(listing(vec![object("job", "x", 0)]));
        assert!(press(&mut state, "rjo\n").iter().all(|wish| *wish == Wish::Nothing));
        let wish = press(&mut state, "b\n").pop().unwrap();
        assert_eq!(wish, Wish::Release { name: "job".to_owned(), owner: "x".to_owned() });
    }

    #[test]
    fn changes_of_the_holder_and_samples_are_counted() {
        let mut state = state();
        for round in 0..100 {
            let owner = if round % 2 == 0 { "x" } else { "y" };
            state.update(listing(vec![object("a", owner, round)]));
        }
        let history = &state.histories["a"];
        assert_eq!(
            (history.changes, history.waiters.len(), history.waiters.back()),
            (99, SAMPLES, Some(&99))
        );
        assert_eq!(state.histories.len(), 1, "what is gone has no history");
    }

    #[test]
    fn the_program_ends_by_q_and_by_control_c() {
        let mut state = state();
        assert_eq!(press(&mut state, "q"), [Wish::Quit]);
        let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(state.press(interrupt), Wish::Quit);
        press(&mut state, "?q");
        assert_eq!(state.front, Front::List);
    }
}
