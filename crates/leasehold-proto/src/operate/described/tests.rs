//! Tests of descriptions: replies as the script gives them, and hashes of other applications.

use super::*;
use crate::owner::ClientId;

const OWNER: &str = "7f2a9c1e-0000-4000-8000-000000000001:57";

fn bulk(text: impl AsRef<[u8]>) -> Reply {
    Reply::Text(text.as_ref().to_vec())
}

/// Returns the reply for an object, without waiters.
fn reply(kind: &str, pttl: i64, length: i64, content: Reply) -> Vec<Reply> {
    let numbers = |numbers: &[i64]| Reply::Array(numbers.iter().copied().map(Reply::Int).collect());
    vec![
        Reply::Int(1_000_000),
        bulk(kind),
        Reply::Int(pttl),
        Reply::Int(length),
        content,
        Reply::Array(vec![]),
        Reply::Array(vec![Reply::Nil; 4]),
        numbers(&[0]),
        numbers(&[0]),
        numbers(&[0]),
        numbers(&[0; 5]),
    ]
}

fn hash(pairs: &[(&str, &str)]) -> Vec<Reply> {
    let content = pairs.iter().flat_map(|(field, value)| [bulk(field), bulk(value)]).collect();
    reply("hash", 30_000, pairs.len() as i64, Reply::Array(content))
}

fn described(reply: Vec<Reply>) -> Described {
    read_described(&Reply::Array(reply)).unwrap()
}

fn kind(reply: Vec<Reply>, hint: Option<Kind>) -> Option<Kind> {
    described(reply).kind(hint)
}

#[test]
fn a_lock_has_its_holder_and_its_lease() {
    let lock = described(hash(&[(OWNER, "3")]));
    let hold = Hold { owner: OWNER.into(), count: 3, mode: None, lease: None };
    assert_eq!(lock.content, Content::Lock { mode: None, fields: 1, holds: vec![hold] });
    assert_eq!(lock.left, Some(Remaining::For(Duration::from_secs(30))));
    assert_eq!(lock.kind(None), Some(Kind::Lock));
    assert_eq!(lock.kind(Some(Kind::Spin)), Some(Kind::Spin));
    assert_eq!((lock.contradicts(Kind::Spin), lock.contradicts(Kind::Latch)), (false, true));
    assert!(lock.contradicts(Kind::ReadWrite));
}

#[test]
fn both_sides_of_a_read_write_lock_are_told_apart() {
    let mut of_sides = hash(&[("mode", "write"), (OWNER, "1"), (&format!("{OWNER}:write"), "2")]);
    of_sides[5] = Reply::Array([-2, 5000, -2].map(Reply::Int).to_vec());
    let lock = described(of_sides);
    let hold = |count, mode, lease| Hold { owner: OWNER.into(), count, mode: Some(mode), lease };
    let holds = vec![hold(1, Mode::Read, Some(Duration::from_secs(5))), hold(2, Mode::Write, None)];
    assert_eq!(lock.content, Content::Lock { mode: Some(Mode::Write), fields: 3, holds });
    assert_eq!(lock.kind(Some(Kind::Lock)), Some(Kind::ReadWrite), "the server knows better");
}

#[test]
fn a_queue_has_its_waiters_and_its_dead() {
    let mut of_queue = hash(&[(OWNER, "1")]);
    let waiter = |owner: &str, seen: Option<&str>, due: Option<&str>| {
        [Some(owner), seen, due].map(|text| text.map_or(Reply::Nil, bulk))
    };
    let waiters = [
        waiter("a", Some("999000"), Some("999999")),
        waiter("b", Some("994999"), None),
        waiter("java", None, Some("1000001")),
        waiter("gone", None, Some("999999")),
    ];
    let waiters = [Reply::Int(104)].into_iter().chain(waiters.into_iter().flatten()).collect();
    of_queue[7] = Reply::Array(waiters);
    let lock = described(of_queue);
    assert_eq!((lock.kind(None), lock.queue.length), (Some(Kind::Fair), 104));
    let read: Vec<_> =
        lock.queue.first.iter().map(|waiter| (waiter.owner.as_str(), waiter.is_dead)).collect();
    assert_eq!(read, [("a", false), ("b", true), ("java", false), ("gone", true)]);
    assert_eq!(lock.queue.first[0].silent, Some(Duration::from_secs(1)));
}

#[test]
fn a_number_is_what_somebody_says_it_is() {
    let number = || reply("string", -1, 1, bulk("5"));
    assert_eq!(kind(number(), None), Some(Kind::Counter));
    assert_eq!(kind(number(), Some(Kind::Latch)), Some(Kind::Latch));
    assert_eq!(kind(number(), Some(Kind::Lock)), Some(Kind::Counter), "a lock is no number");
    let mut of_permits = number();
    of_permits[8] = Reply::Array(vec![Reply::Int(1), Reply::Array(vec![bulk([7; 16]), bulk("1005000")])]);
    assert_eq!(described(of_permits.clone()).permits.first[0].1, Duration::from_secs(5));
    assert_eq!(kind(of_permits, None), Some(Kind::Expirable));
    let mut heard = number();
    heard[10] = Reply::Array([0, 0, 0, 2, 0].map(Reply::Int).to_vec());
    assert_eq!(kind(heard, None), Some(Kind::Latch));
    assert_eq!(kind(reply("string", -1, 2, bulk("05")), None), Some(Kind::Text));
    assert_eq!(kind(reply("string", 10, 9, bulk("a-token")), Some(Kind::Lock)), Some(Kind::Text));
    assert_eq!(kind(reply("set", -1, 0, Reply::Nil), None), Some(Kind::Foreign));
}

#[test]
fn a_string_is_a_plain_lock_by_its_form_or_by_those_who_wait_for_it() {
    let string = |value: &str| reply("string", 30_000, value.len() as i64, bulk(value));
    let own = format!("lh1-{}-1", "A".repeat(22));
    assert_eq!(kind(string(&own), None), Some(Kind::Plain));
    assert_eq!(kind(string(&own), Some(Kind::Lock)), Some(Kind::Plain), "the server knows better");
    let cut = reply("string", -1, 1000, bulk(&own));
    assert_eq!(kind(cut, None), Some(Kind::Text), "a longer value that begins so is none");
    for foreign in ["f3ab", "7"] {
        assert_ne!(kind(string(foreign), None), Some(Kind::Plain));
        assert_eq!(kind(string(foreign), Some(Kind::Plain)), Some(Kind::Plain));
        let mut heard = string(foreign);
        heard[10] = Reply::Array([0, 0, 0, 0, 1].map(Reply::Int).to_vec());
        assert_eq!(kind(heard, None), Some(Kind::Plain), "somebody waits for it as a plain lock");
    }
    let lock = described(hash(&[(OWNER, "1")]));
    assert_eq!((lock.kind(Some(Kind::Plain)), lock.contradicts(Kind::Plain)), (Some(Kind::Lock), true));
    assert!(
        !described(string("f3ab")).contradicts(Kind::Plain) && described(string("7")).contradicts(Kind::Lock)
    );
}

#[test]
fn a_free_name_is_of_the_kind_for_which_somebody_waits() {
    let gone = || reply("none", -2, 0, Reply::Nil);
    assert_eq!(kind(gone(), None), None);
    assert_eq!(kind(gone(), Some(Kind::Fenced)), Some(Kind::Fenced));
    let mut unknown = gone();
    unknown[10] = Reply::Array([-1; 5].map(Reply::Int).to_vec());
    assert_eq!(described(unknown).listeners, None);
    let mut heard = gone();
    heard[10] = Reply::Array([0, 1, 0, 0, 0].map(Reply::Int).to_vec());
    assert_eq!(kind(heard, None), Some(Kind::ReadWrite));
}

#[test]
fn a_hash_that_is_almost_a_lock_is_none() {
    let write = format!("{OWNER}:write");
    for pairs in [
        &[(OWNER, "0")][..],
        &[(OWNER, "-1")],
        &[(OWNER, "01")],
        &[(OWNER, "1.5")],
        &[(OWNER, "4294967296")],
        &[(OWNER, "")],
        &[(OWNER, "1"), ("name", "Anna")],
        &[("mode", "read")],
        &[("mode", "dark"), (OWNER, "1")],
        &[(write.as_str(), "1")],
        &[("57", "1")],
        &[],
    ] {
        assert_eq!(kind(hash(pairs), Some(Kind::Lock)), Some(Kind::Foreign), "{pairs:?}");
    }
}

#[test]
fn an_owner_has_one_form() {
    let of = |rest: &str| format!("7f2a9c1e-0000-4000-8000-00000000000{rest}");
    let transaction = format!("1:5:{}", "0a".repeat(16));
    for good in ["1:1", "F:18446744073709551615", "1:-9", transaction.as_str()] {
        assert!(is_owner(&of(good)), "{good}");
    }
    for bad in
        ["1", ":1", "1:", "1:-", "1:1x", "g:1", "1:1:2", "1:1:write", "1:123456789012345678901", "11:1"]
    {
        assert!(!is_owner(&of(bad)), "{bad}");
    }
    assert!(!is_owner("") && !is_owner("mode") && !is_owner(&transaction));
}

#[test]
fn a_reply_that_the_script_cannot_give_is_not_read() {
    let good = hash(&[(OWNER, "1")]);
    for place in 0..good.len() {
        let mut bad = good.clone();
        bad.remove(place);
        assert_eq!(read_described(&Reply::Array(bad)), None, "without part {place}");
    }
    assert_eq!(read_described(&Reply::Nil), None);
}

/// Random texts as applications write them: words, ids of several forms, and numbers.
struct Foreign(u64);

impl Foreign {
    fn below(&mut self, end: u64) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }

    fn letters(&mut self, alphabet: &[u8], most: u64) -> String {
        let length = 1 + self.below(most);
        (0..length).map(|_| char::from(alphabet[self.below(alphabet.len() as u64) as usize])).collect()
    }

    fn uuid(&mut self) -> String {
        let [one, two] = [self.below(u64::MAX), self.below(u64::MAX)];
        ClientId::from_random((u128::from(one) << 64 | u128::from(two)).to_be_bytes()).to_string()
    }

    fn text(&mut self) -> String {
        match self.below(8) {
            0 => self.letters(b"abcdefghijklmnopqrstuvwxyz_", 12),
            1 => self.letters(b"0123456789", 12),
            2 => self.uuid(),
            3 => format!("{}:{}", self.uuid(), self.letters(b"abcdefghij", 8)),
            4 => format!("{}:{}", self.letters(b"abcdefghij", 8), self.below(1_000_000)),
            5 => format!("{:032x}:{}", self.below(u64::MAX), self.below(9999)),
            6 => self.letters(b"aZ09:-_ \t\x7f{}.,\"'", 44),
            _ => "mode".to_owned(),
        }
    }
}

#[test]
fn no_hash_of_another_application_is_a_lock() {
    let mut foreign = Foreign(7);
    for _ in 0..200_000 {
        let pairs: Vec<_> = (0..foreign.below(4)).map(|_| (foreign.text(), foreign.text())).collect();
        let pairs: Vec<_> = pairs.iter().map(|(field, value)| (field.as_str(), value.as_str())).collect();
        assert_eq!(kind(hash(&pairs), Some(Kind::Lock)), Some(Kind::Foreign), "{pairs:?}");
    }
}
