//! The table of commands.
//!
//! Invariant: each command has one row, which its group defines.

mod expiry;
mod hashes;
mod keys;
mod lists;
mod publishing;
mod scripting;
mod server;
mod strings;
mod zset_ranges;
mod zsets;

use std::collections::HashMap;
use std::sync::LazyLock;

use super::command::Command;

static TABLE: LazyLock<HashMap<&'static [u8], &'static Command>> = LazyLock::new(|| {
    let groups: [&'static [Command]; 10] = [
        keys::COMMANDS,
        expiry::COMMANDS,
        strings::COMMANDS,
        hashes::COMMANDS,
        lists::COMMANDS,
        zsets::COMMANDS,
        zset_ranges::COMMANDS,
        publishing::COMMANDS,
        scripting::COMMANDS,
        server::COMMANDS,
    ];
    groups.into_iter().flatten().map(|command| (command.name.as_bytes(), command)).collect()
});

/// The longest name of a command.
const NAME_MAX: usize = 32;

/// Returns the command of this name, in any case.
pub(super) fn find(name: &[u8]) -> Option<&'static Command> {
    let mut lower = [0; NAME_MAX];
    let lower = lower.get_mut(..name.len())?;
    lower.copy_from_slice(name);
    lower.make_ascii_lowercase();
    TABLE.get(&*lower).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_found_by_its_name_in_any_case() {
        for command in TABLE.values() {
            assert_eq!(command.name, command.name.to_lowercase());
            let found = find(command.name.to_uppercase().as_bytes()).unwrap();
            assert_eq!(found.name, command.name);
        }
        assert!(find(b"rename").is_none() && find(&[b'x'; 99]).is_none());
    }
}
