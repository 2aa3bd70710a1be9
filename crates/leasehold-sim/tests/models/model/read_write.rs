//! The read-write lock: readers, writers, readers that upgrade, and writers that downgrade.

use std::time::Duration;

use leasehold_proto::engine::{Request, Subject, Wait};
use leasehold_proto::recipe::{Recipe, read_write, upgrade};
use leasehold_proto::{Lease, Name, Owner};
use leasehold_store::embedded::Entry;

use crate::check::{assert_found, assert_sound};
use crate::world::Step::{Give, Take};
use crate::world::{BrokenVariant, Budget, Client, End, Ledger, QUIET, Scene, Step, Verdict, World, count};

/// The mark of a waiting upgrade lives for one tick and not for two.
const TICK_MS: u64 = 1_600;
const READ: u8 = 0;
const WRITE: u8 = 1;
const UPGRADE: u8 = 2;

const TWO_READERS_AND_A_WRITER: &[&[Step]] =
    &[&[Take(READ), Give(READ)], &[Take(READ), Give(READ)], &[Take(WRITE), Give(WRITE)]];
/// One client downgrades from writing to reading. The other client writes, and then reads.
const DOWN: &[&[Step]] = &[
    &[Take(WRITE), Take(READ), Give(WRITE), Give(READ)],
    &[Take(WRITE), Give(WRITE), Take(READ), Give(READ)],
];
/// Two readers upgrade, and release the reader before the writer or after it.
const UP: &[&[Step]] = &[
    &[Take(READ), Take(UPGRADE), Give(READ), Give(UPGRADE)],
    &[Take(READ), Take(UPGRADE), Give(UPGRADE), Give(READ)],
];
const UP_BESIDE_OTHERS: &[&[Step]] =
    &[&[Take(READ), Take(UPGRADE), Give(READ), Give(UPGRADE)], &[Take(WRITE), Give(WRITE)]];

/// Checks the hash of the lock and its timeouts: G1, W3, W4, W5.
fn hash_is_sane(world: &World<Rules>) -> Verdict {
    let server = world.server();
    let Some(lock) = server.entry("x") else { return Ok(()) };
    let fields = server.hash("x").ok_or("the lock is no hash")?;
    let writers = fields.keys().filter(|field| field.ends_with(b":write")).count();
    let writes = fields.get(b"mode".as_slice()).is_some_and(|mode| mode == b"write");
    if writers != usize::from(writes) {
        return Err("W3: the mode and the writers' fields do not agree");
    }
    let timeouts = server.entries().iter().filter(|entry| reader_of(entry).is_some());
    for timeout in timeouts {
        let reader = reader_of(timeout).unwrap_or_default();
        if !fields.contains_key(reader.as_bytes()) {
            return Err("W4: a read hold's timeout without a reader");
        }
        if timeout.expires_at_ms.is_none() || timeout.expires_at_ms > lock.expires_at_ms {
            return Err("W5: a reader outlives the lock");
        }
    }
    if lock.expires_at_ms.is_some() { Ok(()) } else { Err("G1: the lock does not expire") }
}

/// Returns the owner of the read hold whose timeout a key is.
fn reader_of(entry: &Entry) -> Option<&str> {
    let key = std::str::from_utf8(&entry.key).ok()?;
    key.strip_prefix("{x}:")?.strip_suffix(":rwlock_timeout:1")
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Rules;

impl Ledger for Rules {
    fn always(world: &World<Self>) -> Verdict {
        let mut writers = world.all_valid(WRITE);
        writers.extend(world.all_valid(UPGRADE));
        let readers = world.all_valid(READ);
        if writers.len() > 1 {
            return Err("W2: two writers are valid at one moment");
        }
        if writers.iter().any(|(writer, _)| readers.iter().any(|(reader, _)| reader != writer)) {
            return Err("W1: a writer is valid beside another owner's reader");
        }
        let server = world.server();
        let keeps_writer = |owner: &String| server.has_field("x", &format!("{owner}:write"));
        let keeps_reader = |owner: &String| {
            server.has_field("x", owner) && server.entry(&format!("{{x}}:{owner}:rwlock_timeout:1")).is_some()
        };
        let kept = writers.iter().all(|(_, owner)| keeps_writer(owner))
            && readers.iter().all(|(_, owner)| keeps_reader(owner));
        if !kept {
            return Err("M, W4: a hold is valid that the server does not keep");
        }
        hash_is_sane(world)
    }

    fn at_end(world: &World<Self>) -> Verdict {
        if world.server().entries().is_empty() { Ok(()) } else { Err("G4: a key is left") }
    }
}

/// A request with a watchdog, so no hold ends by itself.
fn watched(what: u8) -> Request {
    let recipe: &'static Recipe = match what {
        READ => &read_write::READ_LOCK,
        WRITE => &read_write::WRITE_LOCK,
        _ => &upgrade::UPGRADE,
    };
    let subject = Subject::new(&Name::new("x").unwrap(), recipe);
    let lease = Lease::new(Duration::from_millis(2 * TICK_MS - 1)).unwrap();
    Request::new(subject, Owner::from_number(7), lease, Wait::Forever)
}

fn request(what: u8) -> Request {
    Request { watchdog: false, ..watched(what) }
}

/// A scene with two upgrades, of which one gets the deadlock error and the other writes.
fn two_upgrades(budget: Budget) -> Scene {
    let wanted = |clients: &[Client]| count(clients, End::Granted) >= 3 && count(clients, End::Deadlock) == 1;
    Scene { request: watched, wanted, ..scene(UP, budget) }
}

fn scene(plans: &'static [&'static [Step]], budget: Budget) -> Scene {
    Scene {
        within: |what| (what == UPGRADE).then_some(READ),
        wanted: |clients| count(clients, End::Granted) >= 3,
        ..Scene::new(plans, budget, TICK_MS, request)
    }
}

#[test]
fn readers_and_a_writer_exclude_each_other() {
    let budget = Budget { ticks: 2, delays: 1, losses: 1, repeats: 1, crashes: 1, ..QUIET };
    assert_sound::<Rules>("read-write, loss", scene(TWO_READERS_AND_A_WRITER, budget));
}

#[test]
fn a_writer_that_reads_on_leaves_no_gap() {
    let budget = Budget { ticks: 2, delays: 1, losses: 1, repeats: 1, cancels: 1, ..QUIET };
    assert_sound::<Rules>("read-write, downgrade", scene(DOWN, budget));
}

#[test]
fn two_upgrades_never_wait_for_each_other() {
    let budget = Budget { ticks: 2, losses: 1, repeats: 1, ..QUIET };
    assert_sound::<Rules>("read-write, upgrades on a bad network", two_upgrades(budget));
}

#[test]
fn an_abandoned_upgrade_blocks_no_client() {
    let budget = Budget { ticks: 2, cancels: 1, crashes: 1, ..QUIET };
    assert_sound::<Rules>("read-write, upgrades that end", two_upgrades(budget));
}

#[test]
fn the_model_detects_a_reader_beside_a_writer() {
    let find = "local within = mode == 'write' and";
    let variant = Some(BrokenVariant { find, put: "local within = mode == 'write' or" });
    let scene = Scene { variant, ..scene(TWO_READERS_AND_A_WRITER, QUIET) };
    assert_found::<Rules>("twin: a reader is admitted beside a writer", scene, &["W1"]);
}

#[test]
fn the_model_detects_a_last_reader_that_deletes_the_writer() {
    let find = " or mode == 'write'";
    let scene = Scene { variant: Some(BrokenVariant { find, put: "" }), ..scene(UP_BESIDE_OTHERS, QUIET) };
    assert_found::<Rules>("twin: the last reader deletes the lock", scene, &["M"]);
}

#[test]
fn the_model_detects_upgrades_that_ignore_the_mark() {
    let find = "if other and string.sub(other, 1, #companion + 1) ~= companion .. ' ' then return -3 end";
    let variant = Some(BrokenVariant { find, put: "" });
    let scene = Scene { variant, ..two_upgrades(QUIET) };
    assert_found::<Rules>("twin: an upgrade ignores the mark", scene, &["L"]);
}
