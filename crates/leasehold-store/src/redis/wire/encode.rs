//! Commands as bytes: arrays of bulk strings, the same in RESP2 and RESP3.
//!
//! Invariant: names and owners travel as KEYS and ARGV only.

use leasehold_proto::Call;

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

/// Appends a call with other arguments.
pub(super) fn call_with(out: &mut Vec<u8>, (name, script): (&str, &str), call: &Call, args: &[Vec<u8>]) {
    begin_script(out, (name, script), call.key_count(), args.len());
    out.extend_from_slice(call.encoded().0);
    for arg in args {
        bulk(out, arg);
    }
}

/// Appends a batch of calls. `order` names the script of each, by a digit, and `shapes` are the numbers of keys and of
/// arguments that the calls of each script have.
pub(super) fn batch<'a>(
    out: &mut Vec<u8>,
    (name, script): (&str, &str),
    (order, shapes): (&[u8], &[(usize, usize)]),
    calls: impl Iterator<Item = &'a Call> + Clone,
) {
    let keys = calls.clone().map(Call::key_count).sum();
    let args: usize = calls.clone().map(Call::arg_count).sum();
    begin_script(out, (name, script), keys, 1 + 2 * shapes.len() + args);
    for call in calls.clone() {
        out.extend_from_slice(call.encoded().0);
    }
    bulk(out, order);
    for (keys_each, args_each) in shapes {
        number(out, *keys_each);
        number(out, *args_each);
    }
    for call in calls {
        out.extend_from_slice(call.encoded().1);
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
        batch(&mut out, ("EVALSHA", "c0ffee"), (b"111", &[(1, 1)]), calls.iter());
        assert_eq!(words(&out), ["EVALSHA", "c0ffee", "3", "k", "l", "m", "111", "1", "1", "v", "w", ""]);
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
