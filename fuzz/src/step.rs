//! The engine, stepped with events in any order, at any times, with replies of any shape.
//!
//! Invariant: callers keep their side. An id is used once, and only a claimed hold is released. Servers may misbehave,
//! except in the half of the inputs with an honest server, which models the scripts. Only in that half, the target
//! checks that a valid hold is held on the server.
//!
//! # How it works
//! Bytes choose events until they are used up. After each event the target checks the promises that hold for any server.
//! Then the callers end. Half of the tickets are canceled and the others polled to their end, every hold is released,
//! and the client is closed. The engine must then finish.

mod server;
mod watch;

use std::time::Duration;

use arbitrary::{Result, Unstructured};
use leasehold_proto::engine::{Event, Id, Request, Settings, Subject, Wait};
use leasehold_proto::recipe::reentrant::REENTRANT;
use leasehold_proto::{Applied, ClientId, Lease, Name, Owner, WireOwner};

use server::{any_error, any_reply};
use watch::Watch;

/// The largest number of events of one input.
const EVENTS: usize = 400;
const NAMES: [&str; 3] = ["a", "b", "{c}d"];

/// Steps an engine with events that the bytes choose.
pub fn step(data: &[u8]) {
    let mut u = Unstructured::new(data);
    let Ok(mut watch) = begin(&mut u) else { return };
    for _ in 0..EVENTS {
        if u.is_empty() || event(&mut u, &mut watch).is_err() {
            break;
        }
    }
    watch.quiesce();
}

fn begin(u: &mut Unstructured<'_>) -> Result<Watch> {
    let honest = u.arbitrary()?;
    let least = Duration::from_millis(1);
    let settings = match u.arbitrary::<bool>()? {
        true => Settings::default(),
        false => {
            Settings { timeout: span(u)?.max(least), poll_interval: span(u)?.max(least), hand_off: span(u)? }
        }
    };
    Ok(Watch::new(settings, honest))
}

/// Brings one event of any kind.
fn event(u: &mut Unstructured<'_>, watch: &mut Watch) -> Result<()> {
    match u.int_in_range(0..=15)? {
        0 | 1 => {
            let request = request(u, watch)?;
            let id = watch.fresh();
            watch.acquire(id, request);
        }
        2 | 3 => {
            let id = known(u, watch.waiting(), watch)?;
            watch.claim(id);
        }
        4 => {
            let id = known(u, watch.waiting(), watch)?;
            watch.cancel(id);
        }
        5 => {
            let hold = known(u, watch.holds(), watch)?;
            let report = u.arbitrary::<bool>()?.then(|| watch.fresh());
            watch.release(hold, report);
        }
        6 => {
            let hold = known(u, watch.holds(), watch)?;
            watch.keep(hold);
        }
        7 => {
            let (hold, least) = (known(u, watch.holds(), watch)?, span(u)?);
            let id = watch.fresh();
            watch.ensure(id, hold, least);
        }
        8 => watch.pass(span(u)?),
        9 | 10 => watch.execute(u.arbitrary()?),
        11 | 12 => answer(u, watch)?,
        13 => watch.hear(u.arbitrary()?),
        14 => other_client(u, watch)?,
        _ => rare(u, watch)?,
    }
    Ok(())
}

/// Brings a reply, or a failure instead of a reply.
fn answer(u: &mut Unstructured<'_>, watch: &mut Watch) -> Result<()> {
    let place = u.arbitrary()?;
    let Some(call) = watch.outstanding(place) else { return Ok(()) };
    match u.int_in_range(0..=5)? {
        0 => {
            let error = any_error(u, &call, Applied::Unknown)?;
            watch.fail(place, error);
        }
        1 => {
            let error = any_error(u, &call, Applied::No)?;
            watch.refuse(place, error);
        }
        2 if !watch.is_honest() => {
            let reply = any_reply(u)?;
            watch.lie(place, reply);
        }
        _ => watch.answer(place),
    }
    Ok(())
}

/// Brings an action of other clients, on the server or on the channels.
fn other_client(u: &mut Unstructured<'_>, watch: &mut Watch) -> Result<()> {
    let name = *u.choose(&NAMES)?;
    match u.int_in_range(0..=3)? {
        0 => {
            let lease = span(u)?;
            watch.server_takes(name, lease);
        }
        1 => watch.repeat(u.arbitrary()?),
        kind => {
            let subject = Subject::new(&a_name(name), &REENTRANT);
            let owner = WireOwner::new(ClientId::from_random([3; 16]), 1);
            let channel = subject.channels(owner).pop().expect("the lock has a channel");
            let event = if kind == 2 { Event::Listening(channel) } else { Event::Message(channel) };
            watch.bring(event);
        }
    }
    Ok(())
}

/// Brings a rare event: the client closes, time leaps, or an answer repeats.
fn rare(u: &mut Unstructured<'_>, watch: &mut Watch) -> Result<()> {
    match u.int_in_range(0..=4)? {
        0 => {
            let id = watch.fresh();
            watch.close(id);
        }
        1 => watch.pass(Duration::from_nanos(u.arbitrary()?)),
        2 => {
            let (place, reply) = (u.arbitrary()?, any_reply(u)?);
            watch.answer_again(place, reply);
        }
        _ => watch.pass_to_next_timer(),
    }
    Ok(())
}

fn request(u: &mut Unstructured<'_>, watch: &Watch) -> Result<Request> {
    let name = a_name(u.choose(&NAMES)?);
    let wait = match u.int_in_range(0..=2)? {
        0 => Wait::Once,
        1 => Wait::Until(watch.now() + span(u)?),
        _ => Wait::Forever,
    };
    let (subject, owner) = (Subject::new(&name, &REENTRANT), Owner::from_number(u.int_in_range(0..=2)?));
    Ok(Request {
        watchdog: u.arbitrary()?,
        max_renewals: u.arbitrary::<Option<u8>>()?.map(u32::from),
        max_hold: match u.arbitrary()? {
            true => Some(span(u)?.max(leasehold_proto::LEASE_MIN)),
            false => None,
        },
        ..Request::new(subject, owner, Lease::clamped(span(u)?), wait)
    })
}

fn a_name(name: &str) -> Name {
    Name::raw_redisson(name).expect("it is a name")
}

/// Chooses a duration, most often one of a relevant size.
fn span(u: &mut Unstructured<'_>) -> Result<Duration> {
    Ok(match u.int_in_range(0..=4)? {
        0 => Duration::from_millis(u.int_in_range(0..=20)?),
        1 => Duration::from_millis(u.arbitrary::<u16>()?.into()),
        2 => Duration::from_secs(u.arbitrary::<u8>()?.into()),
        3 => Duration::from_nanos(u.arbitrary::<u32>()?.into()),
        _ => Duration::from_millis(u.arbitrary()?),
    })
}

/// Chooses one of these ids, or an unknown id.
fn known(u: &mut Unstructured<'_>, ids: Vec<Id>, watch: &Watch) -> Result<Id> {
    let place = usize::from(u.arbitrary::<u8>()?);
    Ok(if ids.is_empty() || place == 255 { watch.unused_id() } else { ids[place % ids.len()] })
}
