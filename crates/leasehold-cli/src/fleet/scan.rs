//! The scan of all keys. It finds holds without waiters that no client reports: Redisson's and dead clients'.
//!
//! Invariant: a scan takes at most its share of a server's time, and each call about a millisecond. It is the most
//! expensive source, so a large database is scanned only on request.
//!
//! # How it works
//! After calls of `t` ms at a share of 5 %, the scan sleeps for `19 t`: once `t` is a millisecond, because timers are no more
//! exact than that. The time of a call is that of its round trip, less the shortest round trip of a `PING`. The number of keys of a call adapts to it. A hash is shown one field at a time, and
//! only one whose field has the form of an owner is described. Of a string 29 bytes are read, and only a value of this library
//! is described: that of another library's lock may be any text.

use std::time::Duration;

use futures_util::future::join_all;
use leasehold_proto::operate::{Kind, is_owner};
use leasehold_proto::recipe::plain::Value;
use leasehold_store::redis::wire::Answer;
use leasehold_store::redis::{Inquiry, Peer};
use leasehold_store::url::Address;

use super::nodes::Master;
use super::object::Scan;
use super::query::{Query, ScanRule};
use super::rows::Rows;
use super::servers::Servers;
use crate::answers::{list, text};
use crate::clock::{Instant, after, now, reached};
use crate::exit::Failure;
use crate::report::Progress;

/// The most keys of databases that are scanned without a request.
const SMALL: u64 = 200_000;
/// The share of a server's time for a small database, whose scan should be over soon.
const SMALL_PACE: f64 = 0.25;
/// The fewest and the most keys of a call.
const COUNT: [u64; 2] = [100, 10_000];
/// The time of a call.
const CALL: Duration = Duration::from_millis(1);
/// The zsets that show an expirable semaphore: a pattern for the server, and what is behind the name.
const ENDS: (&str, &str) = ("*:timeout", ":timeout");
/// The beginning of the strings that show a semaphore.
const PERMIT: &str = "leasehold_permit:";

/// The scan of one server.
struct Scanner {
    inquiry: Inquiry,
    /// The shortest round trip.
    round_trip: Duration,
    pace: f64,
    count: u64,
    /// The time that the server has spent.
    spent: Duration,
    /// The part of it after which the scan has not slept yet.
    owed: Duration,
    found: Vec<(String, Kind)>,
    /// The keys of the server's database.
    keys: u64,
    /// The first failure of a key that may not be read.
    unread: Option<Failure>,
}

impl Servers {
    /// Scans the databases, if they are small or the query asks for it. A server that cannot be scanned is noted as missing.
    pub(super) async fn scan(&self, query: &Query, rows: &mut Rows) {
        if query.scan == ScanRule::Never {
            return;
        }
        let masters = self.masters();
        let opened = join_all(masters.iter().map(|master| self.scanner(master, query.scan))).await;
        let mut is_whole = true;
        let mut miss = |rows: &mut Rows, address: &Address, failure: &Failure| {
            is_whole = false;
            rows.miss(format!("{address} was not scanned to the end: {:#}", failure.reason));
        };
        let mut scanners = Vec::new();
        for (scanner, master) in opened.into_iter().zip(masters.iter()) {
            match scanner {
                Ok(scanner) => scanners.push((&master.address, scanner)),
                Err(failure) => {
                    self.doubt_masters();
                    miss(rows, &master.address, &failure);
                }
            }
        }
        let keys = scanners.iter().fold(0, |sum: u64, (_, scanner)| sum.saturating_add(scanner.keys));
        let is_small = keys <= SMALL;
        if query.scan == ScanRule::Small && !is_small {
            rows.scan = Some(Scan { keys, done: false, share: 0.0, is_declined: true });
            return;
        }
        let begin = now();
        let pace = if is_small { query.pace.max(SMALL_PACE) } else { query.pace };
        let mut progress = Progress::new(query.has_progress, "scanning all keys");
        let largest =
            scanners.iter().enumerate().max_by_key(|(_, (_, one))| one.keys).map(|(place, _)| place);
        let scans = scanners.iter_mut().enumerate().map(|(place, (_, scanner))| {
            scanner.pace = pace;
            // The server with most keys is the last to end.
            let progress = (largest == Some(place)).then_some(&progress);
            scanner.run(&self.prefix, progress)
        });
        let ends = join_all(scans).await;
        progress.end();
        let took = (now() - begin).as_secs_f64().max(f64::MIN_POSITIVE);
        let spent: f64 = scanners.iter().map(|(_, scanner)| scanner.spent.as_secs_f64()).sum();
        let share = spent / took / scanners.len().max(1) as f64;
        for (end, (address, scanner)) in ends.into_iter().zip(scanners) {
            if let Some(failure) = end.err().or(scanner.unread) {
                miss(rows, address, &failure);
            }
            scanner.found.into_iter().for_each(|(key, kind)| rows.row(&key).show(kind));
        }
        rows.scan = Some(Scan { keys, done: is_whole, share, is_declined: false });
    }

    async fn scanner(&self, master: &Master, rule: ScanRule) -> Result<Scanner, Failure> {
        let mut inquiry = Inquiry::open(&self.url, (Peer::Server, &master.address), &self.options)
            .await
            .map_err(Failure::unavailable)?;
        let database = self.url.database().to_string();
        let mut setup: Vec<&[&str]> = Vec::new();
        let select = ["SELECT", &database];
        if self.url.database() > 0 {
            setup.push(&select);
        }
        setup.push(&["DBSIZE"]);
        let answers = inquiry.ask(&setup).await.map_err(Failure::unavailable)?;
        // Without its size a database may be large, and is scanned only on request.
        let size = usize::from(rule == ScanRule::Always);
        refused(&answers[..answers.len().saturating_sub(size)])?;
        let keys = match answers.last() {
            Some(Answer::Int(keys)) => u64::try_from(*keys).unwrap_or(0),
            _ => 0,
        };
        let mut round_trip = Duration::MAX;
        for _ in 0..3 {
            let begin = now();
            inquiry.ask(&[&["PING"]]).await.map_err(Failure::unavailable)?;
            round_trip = round_trip.min(now() - begin);
        }
        Ok(Scanner {
            inquiry,
            round_trip,
            pace: 1.0,
            count: COUNT[0],
            spent: Duration::ZERO,
            owed: Duration::ZERO,
            found: Vec::new(),
            keys,
            unread: None,
        })
    }
}

impl Scanner {
    async fn run(&mut self, prefix: &str, progress: Option<&Progress>) -> Result<(), Failure> {
        let mut seen = 0;
        let mut cursor = "0".to_owned();
        loop {
            let (next, keys) = self.page(&cursor, "hash", None).await?;
            self.probe(&of_prefix(keys, prefix)).await?;
            seen = self.count.saturating_add(seen);
            if let Some(progress) = progress {
                progress.say(seen.min(self.keys), self.keys);
            }
            if next == "0" {
                break;
            }
            cursor = next;
        }
        let mut cursor = "0".to_owned();
        loop {
            let (next, mut keys) = self.page(&cursor, "string", None).await?;
            let permits = keys.iter().filter_map(|key| name_in(key, PERMIT, ""));
            let permits = permits.filter(|name| name.starts_with(prefix));
            self.found.extend(permits.map(|name| (name.to_owned(), Kind::Semaphore)));
            keys.retain(|key| !key.starts_with(PERMIT));
            self.probe_strings(&of_prefix(keys, prefix)).await?;
            if next == "0" {
                break;
            }
            cursor = next;
        }
        let mut cursor = "0".to_owned();
        loop {
            let (pattern, back) = ENDS;
            let (next, keys) = self.page(&cursor, "zset", Some(pattern)).await?;
            let names = keys.iter().filter_map(|key| name_in(key, "", back));
            let names = names.filter(|name| name.starts_with(prefix));
            self.found.extend(names.map(|name| (name.to_owned(), Kind::Expirable)));
            if next == "0" {
                return Ok(());
            }
            cursor = next;
        }
    }

    /// Returns the next cursor and the keys of a page.
    async fn page(
        &mut self,
        cursor: &str,
        kind: &str,
        pattern: Option<&str>,
    ) -> Result<(String, Vec<String>), Failure> {
        let count = self.count.to_string();
        let mut words = vec!["SCAN", cursor, "TYPE", kind, "COUNT", &count];
        words.extend(pattern.into_iter().flat_map(|pattern| ["MATCH", pattern]));
        let (answers, took) = self.ask(&[&words]).await?;
        refused(&answers)?;
        self.count = if took > CALL { self.count / 2 } else { self.count * 5 / 4 }.clamp(COUNT[0], COUNT[1]);
        let [next, keys] = answers.first().map_or(&[][..], list) else {
            return Err(Failure::unavailable(anyhow::anyhow!("SCAN gave {:?}", answers.first())));
        };
        Ok((text(next).unwrap_or_default(), list(keys).iter().filter_map(text).collect()))
    }

    /// Keeps the hashes of which a field has the form of a lock's.
    async fn probe(&mut self, keys: &[String]) -> Result<(), Failure> {
        let answers = self.ask_each(keys, |key| vec!["HRANDFIELD", key]).await?;
        for (answer, key) in answers.iter().zip(keys) {
            if let Answer::Text(field) = answer
                && (field == "mode" || is_owner(field.strip_suffix(":write").unwrap_or(field)))
            {
                self.found.push((key.clone(), Kind::Lock));
            } else if let Answer::Error(error) = answer {
                self.note_unread(key, error);
            }
        }
        Ok(())
    }

    /// Keeps the strings with the value of a plain lock of this library. One character more than such a value has tells it
    /// from a longer one.
    async fn probe_strings(&mut self, keys: &[String]) -> Result<(), Failure> {
        let answers = self.ask_each(keys, |key| vec!["GETRANGE", key, "0", "28"]).await?;
        for (answer, key) in answers.iter().zip(keys) {
            match answer {
                Answer::Text(value) if Value::read(value.as_bytes()).is_some() => {
                    self.found.push((key.clone(), Kind::Plain));
                }
                Answer::Error(error) => self.note_unread(key, error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Asks one question about each key, a few at a time.
    async fn ask_each(
        &mut self,
        keys: &[String],
        question: impl Fn(&str) -> Vec<&str>,
    ) -> Result<Vec<Answer>, Failure> {
        let mut all = Vec::with_capacity(keys.len());
        for keys in keys.chunks(COUNT[0] as usize) {
            let commands: Vec<_> = keys.iter().map(|key| question(key)).collect();
            let commands: Vec<&[&str]> = commands.iter().map(Vec::as_slice).collect();
            all.extend(self.ask(&commands).await?.0);
        }
        Ok(all)
    }

    /// Notes a key that could not be read, unless it has become one of another type meanwhile, and so no lock.
    fn note_unread(&mut self, key: &str, error: &str) {
        if !error.starts_with("WRONGTYPE") {
            let reason = anyhow::anyhow!("{key:?} could not be read ({error})");
            self.unread.get_or_insert(Failure::unavailable(reason));
        }
    }

    /// Asks, and then leaves the server alone for as long as the pace says. Returns the time that the server has spent.
    async fn ask(&mut self, commands: &[&[&str]]) -> Result<(Vec<Answer>, Duration), Failure> {
        let begin: Instant = now();
        let answers = self.inquiry.ask(commands).await.map_err(Failure::unavailable)?;
        let took = (now() - begin).saturating_sub(self.round_trip);
        self.spent += took;
        self.owed += took;
        if self.owed >= CALL {
            let pause = self.owed.mul_f64((1.0 / self.pace - 1.0).max(0.0));
            self.owed = Duration::ZERO;
            reached(Some(after(pause))).await;
        }
        Ok((answers, took))
    }
}

/// Returns the keys that begin with the key prefix.
fn of_prefix(mut keys: Vec<String>, prefix: &str) -> Vec<String> {
    keys.retain(|key| key.starts_with(prefix));
    keys
}

/// Returns the name in a helper key, without the braces around it.
fn name_in<'a>(key: &'a str, front: &str, back: &str) -> Option<&'a str> {
    let rest = key.strip_prefix(front)?.strip_suffix(back)?;
    // An owner is behind the name of a permit's marker.
    let rest = if back.is_empty() {
        let (at, _) = rest.rmatch_indices(':').nth(1)?;
        &rest[..at]
    } else {
        rest
    };
    let braced = rest.strip_prefix('{').and_then(|name| name.strip_suffix('}'));
    let name = braced.filter(|name| !name.contains(['{', '}'])).unwrap_or(rest);
    (name != rest || rest.contains('{')).then_some(name)
}

/// Fails if the server refuses a command.
fn refused(answers: &[Answer]) -> Result<(), Failure> {
    match answers.iter().find_map(|answer| if let Answer::Error(error) = answer { Some(error) } else { None })
    {
        Some(error) => Err(Failure::unavailable(anyhow::anyhow!("the scan was refused: {error}"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_helper_key_has_the_name_of_its_object() {
        let owner = "7f2a9c1e-0000-4000-8000-000000000001:57";
        let of_permit = |key: &str| name_in(key, "leasehold_permit:", "").map(str::to_owned);
        assert_eq!(of_permit(&format!("leasehold_permit:{{seats}}:{owner}")).as_deref(), Some("seats"));
        assert_eq!(of_permit(&format!("leasehold_permit:{{a}}:b:{owner}")).as_deref(), Some("{a}:b"));
        assert_eq!(of_permit("leasehold_permit:x"), None);
        assert_eq!(name_in("{seats}:timeout", "", ":timeout"), Some("seats"));
        assert_eq!(name_in("session:timeout", "", ":timeout"), None, "a key of somebody else");
    }
}
