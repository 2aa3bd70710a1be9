//! Random commands, most of which make sense.

use leasehold_proto::Script;
use leasehold_proto::operate;
use leasehold_proto::recipe::{adopt, fair, reentrant, semaphore};

use crate::differential::lua;
use crate::differential::random::Random;
use crate::differential::words::{SHAPES, WEIRD, choices};

pub(crate) struct Generator {
    pub(crate) random: Random,
    now_ms: u64,
    /// The kind of key of the present command.
    group: char,
}

/// Words that are not text.
pub(crate) const BINARY: &[&[u8]] = &[b"\xff", b"\0\xfe\x80", b"\xc3(", b"a\xff\0b", b"\xed\xa0\x80"];

/// Returns one of the four keys of a kind, of which one key is not text.
pub(crate) fn key(group: char, random: &mut Random) -> Vec<u8> {
    match random.below(4) {
        3 => [format!("k:{group}").as_bytes(), b"\xff\0\xc3"].concat(),
        number => format!("k:{group}{number}").into_bytes(),
    }
}

/// Returns the name of the command in a shape.
fn name(shape: &str) -> &str {
    shape.split(' ').next().unwrap_or_default()
}

impl Generator {
    pub(crate) const fn new(random: Random) -> Self {
        Self { random, now_ms: 0, group: 's' }
    }

    pub(crate) fn command(&mut self, now_ms: u64) -> Vec<Vec<u8>> {
        self.now_ms = now_ms;
        match self.random.below(100) {
            0..=54 => self.plain(),
            55..=79 => self.shipped(),
            _ => lua::script(self),
        }
    }

    /// Returns a command that is no script.
    pub(crate) fn plain(&mut self) -> Vec<Vec<u8>> {
        let mut words = self.shaped();
        if self.random.one_in(15) {
            let at = self.random.below(words.len());
            match self.random.below(4) {
                0 if words.len() > 1 => drop(words.remove(at)),
                1 => words.insert(at + 1, self.random.pick(WEIRD).as_bytes().to_vec()),
                2 => words.push(self.random.pick(WEIRD).as_bytes().to_vec()),
                _ => words[at] = self.random.pick(WEIRD).as_bytes().to_vec(),
            }
        }
        // The embedded server does not have all server commands, so the others are outside of this test. The error of
        // an unknown command repeats its arguments, which works for text only.
        let is_known = SHAPES.iter().any(|shape| words[0].eq_ignore_ascii_case(name(shape).as_bytes()));
        let is_text = || words.iter().all(|word| str::from_utf8(word).is_ok());
        if words[0].is_empty() || !(is_known || is_text()) { self.shaped() } else { words }
    }

    fn shaped(&mut self) -> Vec<Vec<u8>> {
        let shape = self.random.pick(SHAPES);
        let (name, kinds) = shape.split_once(' ').unwrap();
        self.group = match name.as_bytes() {
            [kind @ (b'h' | b'z' | b'l' | b'r'), ..] => char::from(*kind).to_ascii_lowercase(),
            [b'g' | b's' | b'i' | b'd', ..] if name != "del" => 's',
            _ => ['h', 'z', 'l', 's'][self.random.below(4)],
        };
        let name = if self.random.one_in(4) { name.to_uppercase() } else { name.to_owned() };
        let mut words = vec![name.into_bytes()];
        let kinds = kinds.as_bytes();
        let mut optional = false;
        for (at, kind) in kinds.iter().enumerate() {
            match kind {
                b'|' => optional = true,
                _ if optional && self.random.one_in(2) => return words,
                b'+' => {
                    while self.random.one_in(3) {
                        words.push(self.argument(kinds[at - 1]));
                    }
                }
                b'*' => {
                    while self.random.one_in(3) {
                        words.push(self.argument(kinds[at - 2]));
                        words.push(self.argument(kinds[at - 1]));
                    }
                }
                b'X' | b'S' | b'O' | b'W' | b'B' | b'L' | b'P' | b'Q' | b'C' => {
                    self.options(*kind, &mut words);
                }
                kind => words.push(self.argument(*kind)),
            }
        }
        words
    }

    fn argument(&mut self, kind: u8) -> Vec<u8> {
        if self.random.one_in(40) && kind != b'k' {
            return self.random.pick(WEIRD).as_bytes().to_vec();
        }
        let random = &mut self.random;
        match kind {
            // Most keys have a kind of their own, so that most commands find a value of their kind.
            b'k' => {
                let group =
                    if random.one_in(12) { ['h', 'z', 'l', 's'][random.below(4)] } else { self.group };
                let group = if group == 'r' { 'l' } else { group };
                return key(group, random);
            }
            b'f' if random.one_in(8) => return random.pick(BINARY).to_vec(),
            b'v' if random.one_in(6) => return random.pick(BINARY).to_vec(),
            b'f' => ["a", "b", "c", "d", "e", "1", "", "ünï"][random.below(8)].to_owned(),
            b'v' => ["v", "w", "10", "-3", "0", "3.5", "x y", "\r\n\0"][random.below(8)].to_owned(),
            b'i' => ["0", "1", "-1", "2", "-2", "5", "100", "-100"][random.below(8)].to_owned(),
            b't' => ["0", "1", "3", "8", "20", "60", "1000", "30000", "-1", "100000000"][random.below(10)]
                .to_owned(),
            b'T' => (self.now_ms as i64 + [0, 1, 2, -1, 10, 50, 5000][random.below(7)]).to_string(),
            b's' => ["0", "1", "-1", "2", "1.5", "0.1", "3e10", "inf", "-inf", "1e300", "-0"]
                [random.below(11)]
            .to_owned(),
            b'r' => ["-inf", "+inf", "0", "(0", "1", "(1", "1.5", "(2", "-1", "3e10", "inf"]
                [random.below(11)]
            .to_owned(),
            _ => ["c:1", "c:2", "s:1", "other"][random.below(4)].to_owned(),
        }
        .into_bytes()
    }

    fn options(&mut self, kind: u8, words: &mut Vec<Vec<u8>>) {
        let choices = choices(kind);
        let chosen = self.random.pick(choices);
        for word in chosen.split(' ') {
            words.push(if word == "@" { self.argument(b'T') } else { word.into() });
        }
    }

    /// Returns a call of one of our scripts.
    fn shipped(&mut self) -> Vec<Vec<u8>> {
        let scripts: &[&Script] = match self.random.below(8) {
            0 | 1 => &fair::SCRIPTS,
            2 | 3 => &semaphore::SCRIPTS,
            4 | 5 => &reentrant::SCRIPTS,
            6 => &adopt::SCRIPTS,
            _ => &[&operate::DESCRIBE],
        };
        let script = scripts[self.random.below(scripts.len())];
        let keys = &script.header().keys;
        let mut words: Vec<Vec<u8>> =
            vec![b"EVAL".to_vec(), script.source().into(), keys.len().to_string().into()];
        for name in keys {
            let group = match *name {
                _ if self.random.one_in(12 * keys.len()) => ['h', 'z', 'l', 's'][self.random.below(4)],
                "queue" | "fifo" => 'l',
                "timeout" | "seen" | "ids" | "called" => 'z',
                "lock" => 'h',
                _ => 's',
            };
            words.push(key(group, &mut self.random));
        }
        for name in &script.header().args {
            let random = &mut self.random;
            let value = match *name {
                _ if random.one_in(40) => random.pick(WEIRD),
                "owner" if random.one_in(8) => {
                    words.push(random.pick(BINARY).to_vec());
                    continue;
                }
                "lease_ms" => random.pick(&["1", "4", "15", "60", "30000", "0", "1.5", "9007199254740991"]),
                "owner" | "giver" => random.pick(&["u:1", "u:2", "u:3"]),
                "tokens" => random.pick(&["1", "2", "0"]),
                "client" => random.pick(&["u:", "u:", "", "a"]),
                "from" => random.pick(&["0", "0", "1", "2", "-1"]),
                "once" | "expired" | "uncertain" => random.pick(&["0", "1"]),
                "permits" => random.pick(&["0", "1", "2", "-1"]),
                "done_ms" | "lifetime_ms" => random.pick(&["0", "30", "60000"]),
                "count" | "remaining" => random.pick(&["0", "0", "1", "2", "-1"]),
                "publish" => random.pick(&["PUBLISH", "SPUBLISH"]),
                "numsub" => random.pick(&["NUMSUB", "SHARDNUMSUB", "", "numsub"]),
                "channel" | "plain" | "sides" | "latch" => random.pick(&["c:1", "c:2", "s:1"]),
                _ => "0",
            };
            words.push(value.into());
        }
        words
    }
}
