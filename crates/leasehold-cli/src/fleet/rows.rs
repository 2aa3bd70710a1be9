//! What clients, channels and scans say of names, before the servers describe them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use leasehold_proto::ClientId;
use leasehold_proto::operate::{Answer, Card, Held, Kind, Totals, Waiting};

use super::object::{ClientRow, Clients, Object, Process, Scan, Sources, client_of};
use super::query::{Query, Sort};

/// What is known of a fleet.
#[derive(Debug, Default)]
pub(super) struct Rows {
    /// By key.
    pub(super) names: BTreeMap<String, Row>,
    pub(super) clients: BTreeMap<ClientId, Known>,
    /// The number of clients that listen to questions, if it is known.
    pub(super) listening: Option<usize>,
    /// The names that are waited for.
    pub(super) channels: Option<usize>,
    pub(super) scan: Option<Scan>,
    /// True if the channels may belong to names in another database.
    pub(super) is_shared: bool,
    /// What could not be seen, in words.
    pub(super) missing: BTreeSet<String>,
}

/// What is known of a name.
#[derive(Debug, Default)]
pub(super) struct Row {
    /// The kind that a channel or a helper key shows.
    shown: Option<Kind>,
    pub(super) held: Vec<(ClientId, Held)>,
    pub(super) waiting: Vec<(ClientId, Waiting)>,
}

/// What is known of a client.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) card: Option<Card>,
    totals: Option<Totals>,
    card_left_ms: Option<u64>,
    pub(super) has_answered: bool,
}

/// The names to describe.
#[derive(Debug)]
pub(super) struct Chosen {
    pub(super) names: Vec<String>,
    /// The number of names that a limit left out.
    pub(super) omitted: usize,
}

impl Row {
    /// Returns the kinds that clients name.
    pub(super) fn kinds(&self) -> BTreeSet<Kind> {
        let held = self.held.iter().map(|(_, row)| &row.kind);
        let waiting = self.waiting.iter().map(|(_, row)| &row.kind);
        held.chain(waiting).filter_map(|kind| kind.parse().ok()).collect()
    }

    /// Returns the kind that the object should have. What holds it says more than what waits.
    pub(super) fn hint(&self) -> Option<Kind> {
        let held = self.held.iter().find_map(|(_, row)| row.kind.parse().ok());
        held.or_else(|| self.waiting.iter().find_map(|(_, row)| row.kind.parse().ok())).or(self.shown)
    }

    pub(super) fn show(&mut self, kind: Kind) {
        // Locks, fair locks and fenced locks share a channel.
        if self.shown.is_none_or(|known| known == Kind::Lock) {
            self.shown = Some(kind);
        }
    }

    pub(super) fn longest_hold(&self) -> Duration {
        Duration::from_millis(self.held.iter().map(|(_, row)| row.held_ms).max().unwrap_or(0))
    }

    pub(super) fn longest_wait(&self) -> Duration {
        Duration::from_millis(self.waiting.iter().map(|(_, row)| row.waited_ms).max().unwrap_or(0))
    }

    /// Returns false for a name that is not wanted, by what is known without the server.
    fn may_be_wanted(&self, query: &Query, name: &str) -> bool {
        let is_named = query.names.as_ref().is_none_or(|names| names.matches(name));
        let is_held = query.held_for.is_none_or(|least| self.longest_hold() >= least);
        let is_awaited = query.waited_for.is_none_or(|least| self.longest_wait() >= least);
        is_named && is_held && is_awaited
    }

    fn tasks(&self) -> u64 {
        self.waiting.iter().fold(0, |sum, (_, row)| sum.saturating_add(u64::from(row.tasks)))
    }

    fn add_held(&mut self, client: ClientId, held: Held) {
        // Pages may overlap.
        if !self.held.iter().any(|(_, known)| known.owner == held.owner) {
            self.held.push((client, held));
        }
    }

    fn add_waiting(&mut self, client: ClientId, waiting: Waiting, is_more: bool) {
        let known = self.waiting.iter_mut().find(|(of, known)| *of == client && known.kind == waiting.kind);
        match known {
            Some((_, known)) => {
                let more = if is_more { known.tasks } else { 0 };
                known.tasks = waiting.tasks.saturating_add(more);
                known.waited_ms = known.waited_ms.max(waiting.waited_ms);
            }
            None => self.waiting.push((client, waiting)),
        }
    }
}

impl Rows {
    pub(super) fn row(&mut self, key: &str) -> &mut Row {
        if !self.names.contains_key(key) {
            self.names.insert(key.to_owned(), Row::default());
        }
        self.names.get_mut(key).expect("the row was just made")
    }

    pub(super) fn add_card(&mut self, card: Card, left_ms: u64) {
        let known = self.clients.entry(card.client).or_default();
        known.card_left_ms = Some(left_ms);
        known.card = Some(card);
    }

    /// Takes an answer. `is_more` says that its waits are further ones, and not all that the client tells of.
    pub(super) fn add(&mut self, answer: &Answer, is_more: bool) {
        let (client, body) = (answer.client, &answer.body);
        let known = self.clients.entry(client).or_default();
        known.has_answered = true;
        let card = body.card.clone().filter(|card| card.client == client);
        known.card = card.or(known.card.take());
        known.totals = body.totals.or(known.totals);
        // A client must not speak for another one.
        let own = |held: &&Held| client_of(&held.owner) == Some(client);
        for held in body.held.iter().filter(own) {
            self.row(&held.name).add_held(client, held.clone());
        }
        for waiting in &body.waiting {
            self.row(&waiting.name).add_waiting(client, waiting.clone(), is_more);
        }
    }

    /// Returns true for a name that only a channel shows, if the channel may belong to another database.
    pub(super) fn is_elsewhere(&self, object: &Object) -> bool {
        let row = self.names.get(&object.key);
        let is_told = row.is_some_and(|row| !row.held.is_empty() || !row.waiting.is_empty());
        self.is_shared && !is_told && object.is_only_heard()
    }

    /// Notes what could not be seen.
    pub(super) fn miss(&mut self, what: String) {
        self.missing.insert(what);
    }

    /// Notes that a client has stopped in the middle of its answers.
    pub(super) fn has_stopped(&mut self, client: ClientId) {
        if let Some(known) = self.clients.get_mut(&client) {
            known.has_answered = false;
        }
    }

    /// Forgets the waits of a client, for one name or for all, before it tells all of them.
    pub(super) fn forget_waits(&mut self, client: ClientId, name: Option<&str>) {
        let rows = self.names.iter_mut().filter(|(key, _)| name.is_none_or(|name| name == *key));
        rows.for_each(|(_, row)| row.waiting.retain(|(of, _)| *of != client));
    }

    pub(super) fn process(&self, client: ClientId) -> Option<Process> {
        let card = self.clients.get(&client)?.card.as_ref()?;
        Some(Process {
            name: card.name.clone(),
            host: card.host.clone(),
            pid: card.pid,
            program: card.program.clone(),
            library: card.library.clone(),
            labels: card.labels.clone(),
        })
    }

    /// Returns the names that the query may want, those at its limit in the order of the query.
    pub(super) fn chosen(&self, query: &Query, prefix: &str) -> Chosen {
        let of_prefix =
            self.names.iter().filter_map(|(key, row)| Some((key, key.strip_prefix(prefix)?, row)));
        let mut rows: Vec<_> = of_prefix
            .filter(|(_, name, row)| row.may_be_wanted(query, name))
            .map(|(key, _, row)| (key, row))
            .collect();
        match query.sort {
            Sort::Wait => rows.sort_by_key(|(_, row)| {
                Reverse((row.longest_wait(), row.tasks(), row.shown.is_some(), row.longest_hold()))
            }),
            Sort::Held => rows.sort_by_key(|(_, row)| Reverse((row.longest_hold(), row.longest_wait()))),
            Sort::Name => {}
        }
        // A name that is free meanwhile leaves a place in the listing.
        let limit = match query.limit {
            Some(limit) if !query.needs_every_description() => limit.saturating_mul(2),
            _ => usize::MAX,
        };
        let omitted = rows.len().saturating_sub(limit).saturating_add(self.untold(query));
        let names = rows.into_iter().take(limit).map(|(key, _)| key.clone()).collect();
        Chosen { names, omitted }
    }

    /// Returns the number of holds that clients have and were not asked for.
    fn untold(&self, query: &Query) -> usize {
        if query.needs_every_row() {
            return 0;
        }
        let told: usize = self.names.values().map(|row| row.held.len()).sum();
        let totals = self.clients.values().filter_map(|known| known.totals);
        let all = totals.fold(0, |sum: u64, totals| sum.saturating_add(totals.holds));
        usize::try_from(all).unwrap_or(usize::MAX).saturating_sub(told)
    }

    /// Returns the sources of the knowledge.
    pub(super) fn into_sources(self) -> Sources {
        let (mut living, mut silent) = (Vec::new(), Vec::new());
        for (client, known) in &self.clients {
            let row = ClientRow {
                client: client.to_string(),
                process: self.process(*client).unwrap_or_default(),
                holds: known.totals.map(|totals| totals.holds),
                waits: known.totals.map(|totals| totals.waits),
                age_ms: known.totals.map(|totals| totals.age_ms),
                card_left_ms: known.card_left_ms,
            };
            if known.has_answered { living.push(row) } else { silent.push(row) }
        }
        // All that listen have answered, so the others do not listen any more.
        let have_ended = self.listening.is_some_and(|listening| listening <= living.len());
        let ended = if have_ended { std::mem::take(&mut silent) } else { Vec::new() };
        let asked = self.listening.unwrap_or(0).max(living.len() + silent.len());
        Sources {
            clients: Clients { asked, answered: living.len(), silent, ended, living },
            channels: self.channels,
            scan: self.scan,
            missing: self.missing.into_iter().collect(),
            quorum: 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use leasehold_proto::operate::AnswerText;

    use super::*;
    use crate::fleet::object::Listing;

    fn client(number: u8) -> ClientId {
        ClientId::from_random([number; 16])
    }

    #[test]
    fn no_client_has_ended_where_nobody_counts_who_listens() {
        let silent = |listening| {
            let mut rows = Rows { listening, ..Rows::default() };
            rows.add_card(Card::new(client(1), "orders", ("host", 1), ("orders", "leasehold")), 1000);
            let clients = rows.into_sources().clients;
            (clients.silent.len(), clients.ended.len())
        };
        assert_eq!(silent(Some(0)), (0, 1));
        assert_eq!(silent(None), (1, 0));
    }

    /// Returns the answer of a client that says that it is this owner's.
    fn answer(number: u8, owner: &str, huge: u64) -> Answer {
        let mut text = AnswerText::new(client(number));
        text.totals(Totals { holds: huge, waits: huge, age_ms: huge });
        let (name, kind) = ("job".to_owned(), "lock".to_owned());
        let held = Held {
            name: name.clone(),
            kind: kind.clone(),
            owner: owner.into(),
            held_ms: huge,
            ..Held::default()
        };
        assert!(text.held(&held));
        assert!(text.waiting(&Waiting { name, kind, waited_ms: huge, tasks: u32::MAX }));
        Answer::read(text.end(None).as_bytes()).unwrap()
    }

    #[test]
    fn a_client_does_not_speak_for_another() {
        let mut rows = Rows::default();
        rows.add(&answer(1, &format!("{}:7", client(2)), 1), false);
        assert!(rows.names.get("job").is_none_or(|row| row.held.is_empty()));
        rows.add(&answer(2, &format!("{}:7", client(2)), 1), false);
        assert_eq!(rows.names["job"].held.len(), 1);
    }

    #[test]
    fn hostile_numbers_overflow_nothing() {
        let mut rows = Rows::default();
        for number in 1..4 {
            rows.add(&answer(number, &format!("{}:7", client(number)), u64::MAX), false);
        }
        let chosen = rows.chosen(&Query::default(), "");
        assert_eq!((chosen.names.as_slice(), chosen.omitted), (&["job".to_owned()][..], usize::MAX - 3));
    }

    #[test]
    fn a_listing_of_which_something_is_missing_is_not_complete() {
        let mut rows = Rows::default();
        let is_complete =
            |rows: Rows| Listing::new(0, String::new(), rows.into_sources(), Vec::new(), 0).complete;
        rows.miss("a node".to_owned());
        assert!(is_complete(Rows::default()) && !is_complete(rows));
    }
}
