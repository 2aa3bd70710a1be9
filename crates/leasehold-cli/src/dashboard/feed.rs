//! What viewers receive: everything once, and then only changes.
//!
//! Invariant: a message is made once for all viewers. A value that only grows older, such as the age of a hold, does
//! not count as a change.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::Serialize;

use crate::fleet::object::{ClientRow, Holder, Listing, Object, Sources};

/// The difference of two times, in milliseconds, from which on they are two times.
const JITTER: u64 = 1_500;

/// The newest state of the fleet.
#[derive(Debug)]
pub(super) struct Feed {
    server: String,
    may_release: bool,
    at_ms: i64,
    sources: Sources,
    objects: BTreeMap<String, (i64, Object)>,
    problem: Option<String>,
}

/// A message to the page.
#[derive(Serialize)]
struct Message<'a> {
    at_ms: i64,
    /// True if the message replaces everything that was told before.
    whole: bool,
    server: &'a str,
    may_release: bool,
    /// The keys of objects that are gone.
    gone: Vec<&'a str>,
    objects: Vec<&'a Object>,
    /// The clients and what was not seen, if that has changed.
    sources: Option<&'a Sources>,
    problem: Option<&'a str>,
}

impl Feed {
    pub(super) fn new(server: String, may_release: bool) -> Self {
        let (sources, objects) = (Sources::default(), BTreeMap::new());
        Self { server, may_release, at_ms: 0, sources, objects, problem: Some("reading".to_owned()) }
    }

    /// Returns the message for a new viewer.
    pub(super) fn whole(&self) -> String {
        let objects: Vec<_> = self.objects().collect();
        self.message(true, true, Vec::new(), objects.iter().collect())
    }

    /// Takes a new listing. Returns the message for the viewers.
    pub(super) fn update(&mut self, listing: Listing) -> String {
        let at_ms = listing.at_ms;
        let has_news = !are_same(&self.sources, &listing.sources);
        (self.at_ms, self.sources, self.problem) = (at_ms, listing.sources, None);
        let mut objects = BTreeMap::new();
        let mut changed = Vec::new();
        for mut object in listing.objects {
            let key = object.key.clone();
            let old = self.objects.remove(&key);
            if let Some(old) = &old {
                note_renewals((old.0, &old.1), (at_ms, &mut object));
            }
            match old {
                // The old object stays with its time, so that small steps do not add up unnoticed.
                Some(old) if is_same((old.0, &old.1), (at_ms, &object)) => drop(objects.insert(key, old)),
                _ => {
                    changed.push(key.clone());
                    objects.insert(key, (at_ms, object));
                }
            }
        }
        let gone = std::mem::replace(&mut self.objects, objects);
        let changed = changed.iter().map(|key| &self.objects[key].1).collect();
        self.message(has_news, false, gone.keys().map(String::as_str).collect(), changed)
    }

    /// Notes why there is no listing. Returns the message for the viewers.
    pub(super) fn fail(&mut self, at_ms: i64, problem: String) -> String {
        (self.at_ms, self.problem) = (at_ms, Some(problem));
        self.message(false, false, Vec::new(), Vec::new())
    }

    /// Returns the objects as they are now.
    pub(super) fn objects(&self) -> impl Iterator<Item = Object> {
        self.objects.values().map(|(then, object)| older(object, passed(*then, self.at_ms)))
    }

    /// Returns why there is no newer listing, if there is none.
    pub(super) fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    fn message(&self, has_news: bool, whole: bool, gone: Vec<&str>, objects: Vec<&Object>) -> String {
        let Self { server, may_release, at_ms, sources, problem, .. } = self;
        let message = Message {
            at_ms: *at_ms,
            whole,
            server,
            may_release: *may_release,
            gone,
            objects,
            sources: has_news.then_some(sources),
            problem: problem.as_deref(),
        };
        serde_json::to_string(&message).expect("texts and numbers have a JSON form")
    }
}

/// Returns a message as an event of the stream.
pub(super) fn event(message: &str) -> Bytes {
    Bytes::from(format!("data: {message}\n\n"))
}

/// Notes that a hold is renewed whose lease has grown, or that was seen to be renewed before. Clients say so only for their
/// longest holds, and Redisson never does.
fn note_renewals((then, old): (i64, &Object), (now, new): (i64, &mut Object)) {
    let passed = passed(then, now);
    for holder in new.holders.iter_mut().filter(|holder| holder.renewed.is_none()) {
        let Some(before) = old.holders.iter().find(|before| before.owner == holder.owner) else { continue };
        let has_grown = before
            .lease_ms
            .zip(holder.lease_ms)
            .is_some_and(|(before, now)| now > before.saturating_sub(passed).saturating_add(JITTER));
        if before.renewed == Some(true) || has_grown {
            holder.renewed = Some(true);
        }
    }
}

/// Returns true if the second object is the first one, grown older.
fn is_same((then, old): (i64, &Object), (now, new): (i64, &Object)) -> bool {
    let passed = passed(then, now);
    let is_older = |old: Option<u64>, new: Option<u64>| match (old, new) {
        (Some(old), Some(new)) => old.saturating_add(passed).abs_diff(new) < JITTER,
        (old, new) => old == new,
    };
    let is_shorter = |old: Option<u64>, new: Option<u64>| match (old, new) {
        (Some(old), Some(new)) => old.saturating_sub(passed).abs_diff(new) < JITTER,
        (old, new) => old == new,
    };
    let is_same_holder = |old: &Holder, new: &Holder| {
        let lease = new.renewed == Some(true) || is_shorter(old.lease_ms, new.lease_ms);
        is_older(old.age_ms, new.age_ms) && lease && timeless(old) == timeless(new)
    };
    let holders = old.holders.len() == new.holders.len()
        && old.holders.iter().zip(&new.holders).all(|(old, new)| is_same_holder(old, new));
    let queue = |object: &Object| -> Vec<_> {
        object.waiting.queue.iter().map(|place| (place.owner.clone(), place.dead)).collect()
    };
    holders
        && is_older(old.waiting.longest_ms, new.waiting.longest_ms)
        && (old.waiting.clients, old.waiting.tasks, old.waiting.queued)
            == (new.waiting.clients, new.waiting.tasks, new.waiting.queued)
        && queue(old) == queue(new)
        && (old.kind, &old.name, &old.node, old.holders_total)
            == (new.kind, &new.name, &new.node, new.holders_total)
        && (old.permits, old.count, &old.value, &old.warnings)
            == (new.permits, new.count, &new.value, &new.warnings)
}

/// Returns true if the same clients say the same of themselves, and as much is seen.
fn are_same(old: &Sources, new: &Sources) -> bool {
    let timeless = |rows: &[ClientRow]| -> Vec<_> {
        rows.iter().map(|row| (row.client.clone(), row.holds, row.waits)).collect()
    };
    let clients = |of: &Sources| {
        let clients = &of.clients;
        (clients.asked, timeless(&clients.silent), timeless(&clients.ended), timeless(&clients.living))
    };
    old.scan == new.scan && old.channels.is_some() == new.channels.is_some() && clients(old) == clients(new)
}

fn passed(then: i64, now: i64) -> u64 {
    u64::try_from(now.saturating_sub(then)).unwrap_or(0)
}

/// Returns an object this many milliseconds later.
fn older(object: &Object, passed: u64) -> Object {
    let mut object = object.clone();
    let add = |age: &mut Option<u64>| *age = age.map(|age| age.saturating_add(passed));
    add(&mut object.waiting.longest_ms);
    for holder in &mut object.holders {
        add(&mut holder.age_ms);
        // A renewed lease does not get shorter.
        let is_renewed = holder.renewed == Some(true);
        holder.lease_ms =
            holder.lease_ms.map(|left| if is_renewed { left } else { left.saturating_sub(passed) });
    }
    object
}

/// Returns a holder without what changes with time.
fn timeless(holder: &Holder) -> Holder {
    Holder { since: None, age_ms: None, lease_ms: None, ..holder.clone() }
}

#[cfg(test)]
mod tests {
    use leasehold_proto::operate::Kind;
    use serde_json::Value;

    use super::*;

    fn lock(name: &str, owner: &str, age_ms: u64) -> Object {
        let holder = Holder {
            owner: owner.to_owned(),
            count: 1,
            age_ms: Some(age_ms),
            lease_ms: Some(20_000),
            renewed: Some(true),
            ..Holder::default()
        };
        Object {
            name: name.to_owned(),
            key: name.to_owned(),
            kind: Kind::Lock,
            node: "127.0.0.1:6379".to_owned(),
            holders: vec![holder],
            holders_total: 1,
            waiting: crate::fleet::object::Waits::default(),
            permits: None,
            count: None,
            value: None,
            stored_as: None,
            expires_ms: None,
            chain: Vec::new(),
            warnings: Vec::new(),
        }
    }

    fn listing(at_ms: i64, objects: Vec<Object>) -> Listing {
        Listing::new(at_ms, "server".to_owned(), Sources::default(), objects, 0)
    }

    fn told(message: &str) -> (Vec<String>, Vec<String>) {
        let message: Value = serde_json::from_str(message).unwrap();
        let texts = |values: &Value, of: fn(&Value) -> &Value| {
            values.as_array().unwrap().iter().map(|value| of(value).as_str().unwrap().to_owned()).collect()
        };
        (texts(&message["objects"], |object| &object["name"]), texts(&message["gone"], |key| key))
    }

    #[test]
    fn viewers_are_told_what_has_changed_and_not_what_has_grown_older() {
        let mut feed = Feed::new("server".to_owned(), false);
        let first = feed.update(listing(10_000, vec![lock("a", "x", 100), lock("b", "y", 100)]));
        assert_eq!(told(&first).0, ["a", "b"]);
        let older = feed.update(listing(12_000, vec![lock("a", "x", 2_100), lock("b", "y", 2_090)]));
        assert_eq!(told(&older), (vec![], vec![]));
        let passed_on = feed.update(listing(14_000, vec![lock("a", "z", 10), lock("b", "y", 4_100)]));
        assert_eq!(told(&passed_on), (vec!["a".to_owned()], vec![]));
        let mut renewed = lock("b", "y", 6_100);
        renewed.holders[0].lease_ms = Some(30_000);
        let mut waited = lock("a", "z", 2_010);
        waited.waiting.clients = Some(1);
        let more = feed.update(listing(16_000, vec![waited, renewed]));
        assert_eq!(told(&more), (vec!["a".to_owned()], vec![]));
        let gone = feed.update(listing(18_000, vec![lock("b", "y", 8_100)]));
        assert_eq!(told(&gone), (vec![], vec!["a".to_owned()]));
        assert_eq!(told(&feed.whole()).0, ["b"]);
    }

    #[test]
    fn a_lease_that_grows_is_told_once_as_a_renewed_one() {
        let mut feed = Feed::new("server".to_owned(), false);
        let of_java = |lease_ms: u64| {
            let mut object = lock("a", "java", 0);
            object.holders[0] =
                Holder { age_ms: None, renewed: None, lease_ms: Some(lease_ms), ..object.holders[0].clone() };
            object
        };
        assert_eq!(told(&feed.update(listing(0, vec![of_java(30_000)]))).0, ["a"]);
        assert_eq!(told(&feed.update(listing(10_000, vec![of_java(20_000)]))).0, [""; 0]);
        let grown = feed.update(listing(12_000, vec![of_java(30_000)]));
        assert!(grown.contains(r#""renewed":true"#), "{grown}");
        for (at, lease) in [(22_000, 20_000), (24_000, 30_000), (34_000, 20_000)] {
            assert_eq!(told(&feed.update(listing(at, vec![of_java(lease)]))).0, [""; 0], "{at}");
        }
    }

    #[test]
    fn a_new_hold_of_the_same_owner_is_a_change() {
        let mut feed = Feed::new("server".to_owned(), false);
        feed.update(listing(10_000, vec![lock("a", "x", 60_000)]));
        assert_eq!(told(&feed.update(listing(12_000, vec![lock("a", "x", 500)]))).0, ["a"]);
    }

    #[test]
    fn a_viewer_that_comes_later_sees_the_ages_of_its_time() {
        let mut feed = Feed::new("server".to_owned(), false);
        let mut fixed = lock("b", "y", 5_000);
        fixed.holders[0].renewed = Some(false);
        feed.update(listing(10_000, vec![lock("a", "x", 5_000), fixed.clone()]));
        let mut later = fixed;
        (later.holders[0].age_ms, later.holders[0].lease_ms) = (Some(15_000), Some(10_000));
        feed.update(listing(20_000, vec![lock("a", "x", 15_000), later]));
        let ages: Vec<_> =
            feed.objects().map(|object| (object.holders[0].age_ms, object.holders[0].lease_ms)).collect();
        assert_eq!(ages, [(Some(15_000), Some(20_000)), (Some(15_000), Some(10_000))]);
        assert!(feed.whole().contains(r#""age_ms":15000"#));
    }

    #[test]
    fn a_problem_is_told_and_ends_with_the_next_listing() {
        let mut feed = Feed::new("server".to_owned(), true);
        let problem = |message: &str| serde_json::from_str::<Value>(message).unwrap()["problem"].clone();
        assert_eq!(problem(&feed.fail(1, "no connection".to_owned())), "no connection");
        assert_eq!(problem(&feed.update(listing(2, Vec::new()))), Value::Null);
    }
}
