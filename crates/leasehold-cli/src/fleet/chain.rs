//! Who blocks whom: the holder of a lock may wait for another lock itself, and so on.
//!
//! Invariant: a chain says what the clients say. While one task of a process waits, another may go on, so a chain is
//! only a hint.

use leasehold_proto::ClientId;

use super::object::{Step, client_of};
use super::rows::Rows;

/// The longest chain.
const STEPS: usize = 5;

/// Returns the waits of the holder, of the holder that it waits for, and so on. The chain ends where a name comes again.
pub(super) fn chain(key: &str, prefix: &str, rows: &Rows) -> Vec<Step> {
    let (mut steps, mut seen) = (Vec::new(), vec![key.to_owned()]);
    let mut at = key.to_owned();
    while let Some(holder) = holder(&at, rows).filter(|_| steps.len() < STEPS) {
        let of_holder = |row: &super::rows::Row| {
            let waits = row.waiting.iter().filter(|(client, _)| *client == holder);
            waits.map(|(_, waiting)| waiting.waited_ms).max()
        };
        let awaited = rows.names.iter().filter(|(other, _)| **other != at);
        let awaited = awaited.filter_map(|(other, row)| Some((of_holder(row)?, other)));
        let Some((longest_ms, next)) = awaited.max() else { break };
        let step = |client: ClientId| (client.to_string(), rows.process(client));
        let (client, process) = step(holder);
        let held_by = self::holder(next, rows).map(step);
        steps.push(Step {
            client,
            process,
            waits_for: next.strip_prefix(prefix).unwrap_or(next).to_owned(),
            longest_ms,
            held_by: held_by.as_ref().map(|(client, _)| client.clone()),
            held_by_process: held_by.and_then(|(_, process)| process),
        });
        if seen.contains(next) {
            break;
        }
        seen.push(next.clone());
        at.clone_from(next);
    }
    steps
}

/// Returns the client that holds a name, as the clients say.
pub(super) fn holder(key: &str, rows: &Rows) -> Option<ClientId> {
    let row = rows.names.get(key)?;
    row.held.first().map(|(client, held)| client_of(&held.owner).unwrap_or(*client))
}

#[cfg(test)]
mod tests {
    use leasehold_proto::operate::{Answer, AnswerText, Held, Waiting};

    use super::*;

    fn client(number: u8) -> ClientId {
        ClientId::from_random([number; 16])
    }

    /// Returns what clients say who each hold one name and wait for another.
    fn rows(clients: &[(u8, &str, &str)]) -> Rows {
        let mut rows = Rows::default();
        for (number, holds, waits) in clients {
            let mut text = AnswerText::new(client(*number));
            let owner = format!("{}:1", client(*number));
            let held = Held { name: (*holds).into(), kind: "lock".into(), owner, ..Held::default() };
            let waiting = Waiting { name: (*waits).into(), kind: "lock".into(), waited_ms: 7, tasks: 1 };
            assert!(text.held(&held) && text.waiting(&waiting));
            rows.add(&Answer::read(text.end(None).as_bytes()).unwrap(), false);
        }
        rows
    }

    fn names(clients: &[(u8, &str, &str)], key: &str) -> Vec<String> {
        chain(key, "app:", &rows(clients)).into_iter().map(|step| step.waits_for).collect()
    }

    #[test]
    fn a_chain_goes_from_holder_to_holder() {
        let clients = [(1, "app:a", "app:b"), (2, "app:b", "app:c")];
        assert_eq!(names(&clients, "app:a"), ["b", "c"]);
        let steps = chain("app:a", "app:", &rows(&clients));
        assert_eq!((steps[0].held_by.clone(), steps[1].held_by.clone()), (Some(client(2).to_string()), None));
    }

    #[test]
    fn a_circle_ends_where_it_began_and_a_long_chain_after_five_steps() {
        assert_eq!(names(&[(1, "app:a", "app:b"), (2, "app:b", "app:a")], "app:a"), ["b", "a"]);
        let letters = ["app:a", "app:b", "app:c", "app:d", "app:e", "app:f", "app:g", "app:h"];
        let clients: Vec<_> =
            letters.windows(2).zip(1..).map(|(pair, number)| (number, pair[0], pair[1])).collect();
        assert_eq!(names(&clients, "app:a").len(), STEPS);
    }
}
