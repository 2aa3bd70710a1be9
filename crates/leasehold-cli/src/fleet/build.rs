//! Builds the objects of a listing from what a server and the clients say.

use std::time::Duration;

use leasehold_proto::operate::{Content, Described, Held, Hold, Kind, Mode, Queue};
use leasehold_proto::recipe::plain;
use leasehold_proto::{ClientId, Name, Remaining, WireOwner};

use super::object::{AgeIs, Form, Holder, Object, Permits, Place, Waiter, Waits, client_of};
use super::rows::{Row, Rows};

/// What a server has under a name.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) described: Described,
    /// The kind, or `None` for a free name without waiters.
    pub(crate) kind: Option<Kind>,
}

impl Found {
    /// Returns true if somebody holds the object.
    pub(crate) fn is_held(&self) -> bool {
        match &self.described.content {
            Content::Lock { .. } => true,
            Content::Number(_) | Content::Text { .. } if self.kind == Some(Kind::Plain) => true,
            Content::Number(_) => self.kind == Some(Kind::Semaphore) || self.described.permits.taken > 0,
            _ => false,
        }
    }
}

/// Builds the object of a name.
pub(super) fn object(name: &Name, prefix: &str, node: String, found: &Found, rows: &Rows) -> Object {
    let key = name.as_str();
    let empty = Row::default();
    let row = rows.names.get(key).unwrap_or(&empty);
    let described = &found.described;
    let kind = found.kind.unwrap_or(Kind::Lock);
    let (holders, holders_total) = holders(kind, found, row, rows);
    let number = match &described.content {
        Content::Number(number) => Some(*number),
        _ => None,
    };
    Object {
        name: key.strip_prefix(prefix).unwrap_or(key).to_owned(),
        key: key.to_owned(),
        kind,
        node,
        holders,
        holders_total,
        waiting: waits(kind, found, row, rows),
        permits: number.filter(|_| matches!(kind, Kind::Semaphore | Kind::Expirable)).map(|available| {
            let taken = (kind == Kind::Expirable).then_some(described.permits.taken);
            let total = taken.map(|taken| available.saturating_add_unsigned(taken));
            Permits { available, taken, total }
        }),
        count: number.filter(|_| matches!(kind, Kind::Latch | Kind::Counter)),
        value: match &described.content {
            Content::Text { bytes, .. } if kind != Kind::Plain => {
                Some(String::from_utf8_lossy(bytes).into_owned())
            }
            _ => None,
        },
        stored_as: match &described.content {
            Content::Other(name) => Some(name.clone()),
            _ => None,
        },
        expires_ms: lease(described).map(millis),
        chain: Vec::new(),
        warnings: Vec::new(),
    }
}

fn holders(kind: Kind, found: &Found, row: &Row, rows: &Rows) -> (Vec<Holder>, u64) {
    let described = &found.described;
    match &described.content {
        Content::Text { bytes, is_whole, .. } if kind == Kind::Plain => {
            (vec![of_value(bytes, *is_whole, described, row, rows)], 1)
        }
        Content::Number(number) if kind == Kind::Plain => {
            (vec![of_value(number.to_string().as_bytes(), true, described, row, rows)], 1)
        }
        Content::Lock { mode, fields, holds, .. } => {
            let lease = lease(described);
            let token = described.token.filter(|_| kind == Kind::Fenced);
            let holders = holds.iter().map(|hold| Holder { token, ..of_hold(hold, lease, row, rows) });
            (holders.collect(), fields.saturating_sub(u64::from(mode.is_some())))
        }
        Content::Number(_) if kind == Kind::Expirable => {
            let permits = &described.permits;
            let clients = || rows.clients.keys().copied();
            let holders = permits.first.iter().map(|(id, left)| {
                let owner = id.owner_among(clients());
                let held = owner.and_then(|owner| told(row, &owner.to_string(), owner.client()));
                let mut holder = Holder {
                    owner: id.to_string(),
                    count: 1,
                    lease_ms: Some(millis(*left)),
                    ..Holder::default()
                };
                fill(&mut holder, owner.map(WireOwner::client), held, rows);
                holder
            });
            (holders.collect(), permits.taken)
        }
        Content::Number(_) if kind == Kind::Semaphore => {
            // The server does not know who took plain permits. The clients do.
            let holders: Vec<_> = row
                .held
                .iter()
                .map(|(client, held)| {
                    let mut holder = Holder { owner: held.owner.clone(), count: 1, ..Holder::default() };
                    fill(&mut holder, Some(*client), Some(held), rows);
                    holder
                })
                .collect();
            let total = holders.len() as u64;
            (holders, total)
        }
        _ => (Vec::new(), 0),
    }
}

/// Returns the holder of a plain lock, whose value tells the client if it is one of those that are known.
fn of_value(value: &[u8], is_whole: bool, described: &Described, row: &Row, rows: &Rows) -> Holder {
    let own = plain::Value::read(value).filter(|_| is_whole);
    let owner = own.and_then(|own| {
        let of = |client: &ClientId| Some(WireOwner::new(*client, own.number_of(*client)?));
        rows.clients.keys().find_map(of)
    });
    let [unmarked, _] = if is_whole { plain::forms(value) } else { [value.to_vec(), Vec::new()] };
    let mut holder = Holder {
        owner: owner.map_or_else(|| unmarked.escape_ascii().to_string(), |owner| owner.to_string()),
        count: 1,
        lease_ms: lease(described).map(millis),
        form: Some(match own {
            Some(own) if own.is_marked => Form::Marked,
            Some(_) => Form::Own,
            None => Form::Foreign,
        }),
        value: is_whole.then(|| value.to_vec()),
        ..Holder::default()
    };
    let held = row.held.iter().find(|(_, held)| held.owner == holder.owner).map(|(_, held)| held);
    fill(&mut holder, owner.map(WireOwner::client), held, rows);
    holder
}

/// Returns the time that the key has left, if it ends.
fn lease(described: &Described) -> Option<Duration> {
    match described.left {
        Some(Remaining::For(left)) => Some(left),
        _ => None,
    }
}

fn of_hold(hold: &Hold, lease: Option<Duration>, row: &Row, rows: &Rows) -> Holder {
    let client = client_of(&hold.owner);
    let side = hold.mode.map(|mode| match mode {
        Mode::Write => "write",
        _ => "read",
    });
    let lease_ms = if hold.mode == Some(Mode::Read) { hold.lease.or(lease) } else { lease }.map(millis);
    let mut holder = Holder {
        owner: hold.owner.clone(),
        count: u64::from(hold.count),
        side,
        lease_ms,
        ..Holder::default()
    };
    let held = row.held.iter().find(|(_, held)| held.owner == hold.owner).map(|(_, held)| held);
    fill(&mut holder, client, held, rows);
    holder
}

/// Returns what the client says of the acquisition that this owner, or the one of a few numbers before, made. The permits of
/// one acquisition have consecutive numbers.
fn told<'a>(row: &'a Row, owner: &str, client: ClientId) -> Option<&'a Held> {
    let number = |owner: &str| owner.parse::<WireOwner>().ok().map(WireOwner::number);
    let own = number(owner)?;
    let of_client = row.held.iter().filter(|(of, _)| *of == client).map(|(_, held)| held);
    of_client
        .filter(|held| number(&held.owner).is_some_and(|first| first <= own))
        .max_by_key(|held| number(&held.owner))
}

/// Adds what a client says of its hold.
fn fill(holder: &mut Holder, client: Option<ClientId>, held: Option<&Held>, rows: &Rows) {
    holder.client = client.map(|client| client.to_string());
    holder.process = client.and_then(|client| rows.process(client));
    let Some(held) = held else { return };
    holder.age_ms = Some(held.held_ms);
    holder.age_is = Some(AgeIs::Exact);
    holder.renewed = Some(held.is_renewed);
    holder.whole_lease_ms = held.lease_ms;
    holder.token = held.token.or(holder.token);
    holder.note = Some(held.note.clone()).filter(|note| !note.is_empty());
}

fn waits(kind: Kind, found: &Found, row: &Row, rows: &Rows) -> Waits {
    let described = &found.described;
    let listeners = described.listeners.map(|heard| match kind {
        Kind::ReadWrite => heard.read_write,
        Kind::Semaphore | Kind::Expirable => heard.semaphore,
        Kind::Latch => heard.latch,
        Kind::Plain => heard.plain,
        _ => heard.lock,
    });
    let queue = if described.queue.length > 0 { &described.queue } else { &described.fifo };
    let by: Vec<_> = row
        .waiting
        .iter()
        .map(|(client, waiting)| Waiter {
            client: client.to_string(),
            tasks: u64::from(waiting.tasks),
            longest_ms: waiting.waited_ms,
            process: rows.process(*client),
        })
        .collect();
    let places = places(queue, rows);
    let mut in_queue: Vec<_> =
        places.iter().filter_map(|place| place.owner.split_once(':')).map(|(client, _)| client).collect();
    in_queue.sort_unstable();
    in_queue.dedup();
    let known = (by.len() as u64).max(in_queue.len() as u64);
    let clients = listeners.map(|count| count.max(known)).or(Some(known).filter(|known| *known > 0));
    Waits {
        clients,
        tasks: (!by.is_empty())
            .then(|| by.iter().fold(0, |sum: u64, waiter| sum.saturating_add(waiter.tasks))),
        longest_ms: by.iter().map(|waiter| waiter.longest_ms).max(),
        by,
        queue: places,
        queued: queue.length,
    }
}

fn places(queue: &Queue, rows: &Rows) -> Vec<Place> {
    let place = |(position, waiter): (u64, &leasehold_proto::operate::Queued)| Place {
        position,
        owner: waiter.owner.clone(),
        seen_ms: waiter.silent.map(millis),
        dead: waiter.is_dead,
        process: client_of(&waiter.owner).and_then(|client| rows.process(client)),
    };
    (1..).zip(&queue.first).map(place).collect()
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
