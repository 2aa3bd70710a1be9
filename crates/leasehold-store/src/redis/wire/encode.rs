//! Commands as bytes: arrays of bulk strings, the same in RESP2 and RESP3.
//!
//! Invariant: names and owners travel as KEYS and ARGV only.

use leasehold_proto::Call;
use leasehold_proto::native::{Command, Word};

/// Appends a command of these words.
pub(super) fn command(out: &mut Vec<u8>, words: &[&str]) {
    begin(out, words.len());
    for word in words {
        bulk(out, word.as_bytes());
    }
}

/// Appends a call: `EVAL` with the script's text or `EVALSHA` with its hash.
pub(super) fn call(out: &mut Vec<u8>, (name, script): (&str, &str), call: &Call) {
    let (keys, args) = call.encoded();
    begin_script(out, (name, script), call.key_count(), call.arg_count());
    out.extend_from_slice(keys);
    out.extend_from_slice(args);
}

/// Appends a native command for a call.
pub(super) fn native(out: &mut Vec<u8>, command: &Command, call: &Call) {
    begin(out, command.words.len());
    for word in command.words {
        match *word {
            Word::Text(text) => bulk(out, text.as_bytes()),
            Word::Key(at) => out.extend_from_slice(call.encoded_key(at)),
            Word::Arg(at) => out.extend_from_slice(call.encoded_arg(at)),
        }
    }
}

/// Appends a call with other arguments.
pub(super) fn call_with(out: &mut Vec<u8>, (name, script): (&str, &str), call: &Call, args: &[Vec<u8>]) {
    begin_script(out, (name, script), call.key_count(), args.len());
    out.extend_from_slice(call.encoded().0);
    for arg in args {
        bulk(out, arg);
    }
}

/// The inputs that the calls of one script of a batch have in common.
pub(super) struct Common<'a> {
    keys: usize,
    /// Each argument in the form in which it goes to the server, if all calls have it, or `None`.
    args: Vec<Option<&'a [u8]>>,
}

impl<'a> Common<'a> {
    /// Returns what calls of one script and one shape have in common. There is at least one call.
    pub(super) fn of(mut calls: impl Iterator<Item = &'a Call>) -> Self {
        let first = calls.next().expect("a script of a batch has a call");
        let mut args: Vec<_> = first.encoded_args().map(Some).collect();
        for call in calls {
            for (common, arg) in args.iter_mut().zip(call.encoded_args()) {
                *common = common.filter(|common| *common == arg);
            }
        }
        Self { keys: first.key_count(), args }
    }

    /// Returns the arguments that all calls have, the first one in the lowest bit.
    pub(super) fn shared_bits(&self) -> u64 {
        self.args.iter().rev().fold(0, |bits, common| bits << 1 | u64::from(common.is_some()))
    }

    fn shared(&self) -> impl Iterator<Item = &'a [u8]> {
        self.args.iter().copied().flatten()
    }

    /// Returns the arguments of a call that are not common to all.
    fn own(&self, call: &'a Call) -> impl Iterator<Item = &'a [u8]> {
        call.encoded_args().zip(&self.args).filter(|(_, common)| common.is_none()).map(|(arg, _)| arg)
    }
}

/// Appends a batch of calls. `order` names the script of each, by a digit, and `scripts` are what the calls of each script
/// have in common.
pub(super) fn batch<'a>(
    out: &mut Vec<u8>,
    (name, script): (&str, &str),
    (order, scripts): (&[u8], &[Common<'a>]),
    calls: impl Iterator<Item = &'a Call> + Clone,
) {
    let rows = || order.iter().map(|digit| &scripts[usize::from(digit - b'1')]).zip(calls.clone());
    let keys = rows().map(|(common, _)| common.keys).sum();
    let shared: usize = scripts.iter().map(|common| common.shared().count()).sum();
    let own: usize =
        rows().map(|(common, _)| common.args.iter().filter(|common| common.is_none()).count()).sum();
    begin_script(out, (name, script), keys, 1 + 2 * scripts.len() + shared + own);
    for (_, call) in rows() {
        out.extend_from_slice(call.encoded().0);
    }
    bulk(out, order);
    for Common { keys, args } in scripts {
        number(out, *keys);
        header(out, b'$', args.len());
        out.extend(args.iter().map(|common| if common.is_some() { b'1' } else { b'0' }));
        out.extend_from_slice(b"\r\n");
    }
    scripts.iter().flat_map(Common::shared).for_each(|arg| out.extend_from_slice(arg));
    for (common, call) in rows() {
        common.own(call).for_each(|arg| out.extend_from_slice(arg));
    }
}

fn begin_script(out: &mut Vec<u8>, (name, script): (&str, &str), keys: usize, args: usize) {
    begin(out, 3 + keys + args);
    bulk(out, name.as_bytes());
    bulk(out, script.as_bytes());
    number(out, keys);
}

/// Begins a command of this number of words.
pub(super) fn begin(out: &mut Vec<u8>, words: usize) {
    header(out, b'*', words);
}

/// Appends a word.
pub(super) fn bulk(out: &mut Vec<u8>, word: &[u8]) {
    header(out, b'$', word.len());
    out.extend_from_slice(word);
    out.extend_from_slice(b"\r\n");
}

/// Appends a number as a word.
fn number(out: &mut Vec<u8>, number: usize) {
    bulk(out, itoa::Buffer::new().format(number).as_bytes());
}

fn header(out: &mut Vec<u8>, kind: u8, number: usize) {
    out.push(kind);
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use leasehold_proto::{Script, Verb};

    use super::*;

    static SET: Script =
        Script::new(Verb::Acquire, "-- KEYS[1] key string any\n-- ARGV[1] value string any\n");

    static TAKE: Script = Script::new(Verb::Acquire, "");

    fn words(bytes: &[u8]) -> Vec<String> {
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        text.split("\r\n").skip(2).step_by(2).map(str::to_owned).collect()
    }

    fn set(key: &str, value: &str) -> Call {
        Call::of(&SET).key("key", key).arg("value", value)
    }

    #[test]
    fn a_command_is_an_array_of_its_words() {
        let mut out = Vec::new();
        command(&mut out, &["SELECT", "12"]);
        assert_eq!(out, b"*2\r\n$6\r\nSELECT\r\n$2\r\n12\r\n");
    }

    #[test]
    fn a_call_is_its_script_its_keys_and_its_arguments() {
        let mut out = Vec::new();
        call(&mut out, ("EVALSHA", "c0ffee"), &set("k", "v"));
        assert_eq!(out, b"*5\r\n$7\r\nEVALSHA\r\n$6\r\nc0ffee\r\n$1\r\n1\r\n$1\r\nk\r\n$1\r\nv\r\n");
        out.clear();
        call_with(&mut out, ("EVAL", "return 1"), &set("k", "v"), &[b"a".to_vec(), b"".to_vec()]);
        assert_eq!(words(&out), ["EVAL", "return 1", "1", "k", "a", ""]);
    }

    #[test]
    fn a_batch_has_all_keys_and_then_all_arguments() {
        let calls = [set("k", "v"), set("l", "w"), set("m", "")];
        let mut out = Vec::new();
        batch(&mut out, ("EVALSHA", "c0ffee"), (b"111", &[Common::of(calls.iter())]), calls.iter());
        assert_eq!(words(&out), ["EVALSHA", "c0ffee", "3", "k", "l", "m", "111", "1", "0", "v", "w", ""]);
    }

    #[test]
    fn arguments_that_all_calls_of_a_script_have_travel_once() {
        let take = |key: &str, lease: &str, owner: &str| Call::with(&TAKE, [key], [lease, owner]);
        let calls = [take("k", "9", "a"), set("l", "w"), take("m", "9", "b"), set("n", "w")];
        let (takes, sets) = ([&calls[0], &calls[2]], [&calls[1], &calls[3]]);
        let scripts = [Common::of(takes.into_iter()), Common::of(sets.into_iter())];
        let mut out = Vec::new();
        batch(&mut out, ("EVALSHA", "c0ffee"), (b"1212", &scripts), calls.iter());
        let inputs = ["4", "k", "l", "m", "n", "1212", "1", "10", "1", "1", "9", "w", "a", "b"];
        assert_eq!(words(&out), [&["EVALSHA", "c0ffee"][..], &inputs].concat());
        // The header counts all words.
        assert!(out.starts_with(format!("*{}\r\n", 2 + inputs.len()).as_bytes()));
    }

    #[test]
    fn numbers_have_their_own_length() {
        for (given, expected) in
            [(0, "$1\r\n0\r\n"), (9, "$1\r\n9\r\n"), (10, "$2\r\n10\r\n"), (100, "$3\r\n100\r\n")]
        {
            let mut out = Vec::new();
            number(&mut out, given);
            assert_eq!(out, expected.as_bytes());
        }
    }
}
