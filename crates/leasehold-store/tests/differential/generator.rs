//! Random commands, most of which make sense.

use leasehold_proto::recipe::reentrant::SCRIPTS;

use crate::lua;
use crate::random::Random;

pub(crate) struct Generator {
    pub(crate) random: Random,
    now_ms: u64,
    /// The kind of key that the present command is for.
    group: char,
}

/// The commands and the kinds of their arguments: `k` key, `f` field or member, `v` value, `i` integer, `t` a short time,
/// `T` a point in time, `s` score, `r` end of a score range, `c` channel; what follows `|` may be left out, `*` repeats
/// the last group of two letters, `+` the last letter.
pub(crate) const SHAPES: &[&str] = &[
    "del k+",
    "exists k+",
    "type k",
    "persist k",
    "pttl k",
    "ttl k",
    "pexpiretime k",
    "expiretime k",
    "pexpire kt|X",
    "pexpireat kT|X",
    "expire kt|X",
    "expireat kT|X",
    "get k",
    "set kv|S",
    "set kv|S",
    "setnx kv",
    "incr k",
    "decr k",
    "incrby ki",
    "decrby ki",
    "hset kfv*",
    "hmset kfv*",
    "hsetnx kfv",
    "hincrby kfi",
    "hdel kf+",
    "hget kf",
    "hmget kf+",
    "hexists kf",
    "hlen k",
    "hkeys k",
    "hvals k",
    "hgetall k",
    "hstrlen kf",
    "rpush kf+",
    "lpush kf+",
    "lpop k|i",
    "rpop k|i",
    "llen k",
    "lindex ki",
    "lrange kii",
    "lrem kif",
    "zadd ksf*",
    "zadd kOsf*",
    "zincrby ksf",
    "zrem kf+",
    "zscore kf",
    "zcard k",
    "zcount krr",
    "zrange kii|W",
    "zrange krrB",
    "zrevrange kii|W",
    "zrangebyscore krr|L",
    "zrevrangebyscore krr|L",
    "zremrangebyscore krr",
    "publish cv",
    "spublish cv",
    "pubsub P",
];

const WEIRD: &[&str] = &[
    "",
    " ",
    "0",
    "-0",
    "-1",
    "+1",
    "01",
    "1 ",
    " 1",
    "1.5",
    "1e2",
    "abc",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "-9223372036854775807",
    "nan",
    "inf",
    "-inf",
    "+inf",
    "infinity",
    "0x10",
    "1e400",
    "(1",
    "((1",
    "(inf",
    "3.0",
    "0.1",
    "1e-5",
    "123456789012345678",
    "1e17",
    "nx",
    "xx",
    "withscores",
    "limit",
    "k:1",
    "\r\n",
    "-0.0",
    "2.5e-320",
    "1e-400",
    "1_000",
    "0x1p3",
    ".5",
    "5.",
    "e5",
    "99999999999999999999",
];

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

    /// A command that is no script.
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
        // Other server commands than ours are no business of this test.
        if words[0].is_empty() { self.shaped() } else { words }
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
                b'X' | b'S' | b'O' | b'W' | b'B' | b'L' | b'P' => self.options(*kind, &mut words),
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
            // Most keys have a kind of their own, so that most commands find what they are for.
            b'k' => {
                let group =
                    if random.one_in(12) { ['h', 'z', 'l', 's'][random.below(4)] } else { self.group };
                let group = if group == 'r' { 'l' } else { group };
                format!("k:{group}{}", random.below(4))
            }
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
        let choices: &[&str] = match kind {
            b'X' => &["NX", "XX", "GT", "lt", "nx gt", "xx gt", "GT LT", "xx LT", "ZZ"],
            b'S' => &[
                "PX 20",
                "PX 5000",
                "EX 1",
                "nx",
                "XX",
                "GET",
                "KEEPTTL",
                "NX PX 30",
                "xx px 3",
                "GET PX 10",
                "NX GET",
                "NX XX",
                "PX",
                "PX 0",
                "EX -1",
                "PX abc",
                "PX 1 EX 1",
                "KEEPTTL PX 1",
                "EXAT 1",
                "PXAT 8007199254740000",
                "EX 9223372036854775807",
                "PX 9223372036854775807",
                "GET KEEPTTL",
                "FOO",
            ],
            b'O' => &[
                "nx", "XX", "GT", "lt", "CH", "incr", "xx ch", "NX XX", "gt lt", "GT CH", "nx incr",
                "lt incr", "xx incr",
            ],
            b'W' => {
                &["WITHSCORES", "withscores", "REV", "rev withscores", "LIMIT 0 1", "withscores withscores"]
            }
            b'B' => &[
                "BYSCORE",
                "byscore limit 0 2",
                "byscore rev",
                "BYSCORE WITHSCORES",
                "byscore limit 1 -1 withscores",
                "rev byscore limit 0 -2",
                "BYSCORE LIMIT -1 2",
                "byscore limit 0",
                "byscore limit a 1",
            ],
            b'L' => &[
                "WITHSCORES",
                "LIMIT 0 1",
                "limit 1 2",
                "LIMIT 0 -1",
                "LIMIT -1 1",
                "limit 0 0 withscores",
                "LIMIT 1",
                "withscores limit 0 1",
                "rev",
                "LIMIT x 1",
            ],
            _ => &[
                "numpat",
                "numsub c:1 x",
                "shardnumsub s:1",
                "channels",
                "channels c*",
                "shardchannels",
                "numsub",
                "what",
                "numpat 1",
                "CHANNELS a b",
            ],
        };
        let chosen = self.random.pick(choices);
        words.extend(chosen.split(' ').map(|word| word.as_bytes().to_vec()));
    }

    /// A script of ours.
    fn shipped(&mut self) -> Vec<Vec<u8>> {
        let script = SCRIPTS[self.random.below(SCRIPTS.len())];
        let mut words: Vec<Vec<u8>> = vec![b"EVAL".to_vec(), script.source().into(), b"1".to_vec()];
        let group = if self.random.one_in(12) { ['z', 'l', 's'][self.random.below(3)] } else { 'h' };
        words.push(format!("k:{group}{}", self.random.below(4)).into_bytes());
        for name in &script.header().args {
            let random = &mut self.random;
            let value = match *name {
                _ if random.one_in(40) => random.pick(WEIRD),
                "lease_ms" => random.pick(&["1", "4", "15", "60", "30000", "0", "1.5", "9007199254740991"]),
                "owner" => random.pick(&["u:1", "u:2", "u:3"]),
                "count" | "remaining" => random.pick(&["0", "0", "1", "2", "-1"]),
                "publish" => random.pick(&["PUBLISH", "SPUBLISH"]),
                "channel" => random.pick(&["c:1", "c:2", "s:1"]),
                _ => "0",
            };
            words.push(value.into());
        }
        words
    }
}
