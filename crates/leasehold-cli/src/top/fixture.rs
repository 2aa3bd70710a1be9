//! Listings and keys for the tests of the screen.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use leasehold_proto::operate::Kind;

use super::state::{State, Wish};
use crate::fleet::object::{Holder, Listing, Object, Sources, Waits};

pub(super) fn object(name: &str, owner: &str, waiting: u64) -> Object {
    let holder = Holder { owner: owner.to_owned(), count: 1, age_ms: Some(1_000), ..Holder::default() };
    Object {
        name: name.to_owned(),
        key: name.to_owned(),
        kind: Kind::Lock,
        node: "127.0.0.1:6379".to_owned(),
        holders: vec![holder],
        holders_total: 1,
        waiting: Waits { clients: Some(waiting), ..Waits::default() },
        permits: None,
        count: None,
        value: None,
        stored_as: None,
        expires_ms: None,
        chain: Vec::new(),
        warnings: Vec::new(),
    }
}

pub(super) fn listing(objects: Vec<Object>) -> Listing {
    Listing::new(0, "redis://localhost".to_owned(), Sources::default(), objects, 0)
}

pub(super) fn press(state: &mut State, keys: &str) -> Vec<Wish> {
    let codes = keys.chars().map(|letter| match letter {
        '\n' => KeyCode::Enter,
        '\u{1b}' => KeyCode::Esc,
        letter => KeyCode::Char(letter),
    });
    codes.map(|code| state.press(KeyEvent::new(code, KeyModifiers::NONE))).collect()
}
