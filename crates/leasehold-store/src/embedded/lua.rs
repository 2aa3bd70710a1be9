//! Scripts, run as redis-server runs them.
//!
//! Invariant: a script sees only KEYS, ARGV and the server's API. No script sees the changes that another script made
//! to its virtual machine.
//!
//! # How it works
//! Each thread has one virtual machine, whatever the number of databases, with the functions that this machine
//! compiled. While a script runs, its [`CommandContext`] is in the virtual machine's shared work, where `redis.call`
//! finds it.

mod api;
mod error_handler;
mod errors;
mod math;
mod random;
mod sandbox;
mod structs;
mod values;
mod vm;
mod work;

use std::cell::RefCell;

use super::command_context::CommandContext;
use super::fault::Fault;
use super::frame::Frame;
use vm::Vm;

thread_local! {
    static VM: RefCell<Option<Vm>> = const { RefCell::new(None) };
}

/// Runs a script in a context.
pub(super) fn run<'a>(
    context: &mut CommandContext,
    sha1: &str,
    source: &[u8],
    keys: impl Iterator<Item = &'a [u8]>,
    args: impl Iterator<Item = &'a [u8]>,
) -> Frame {
    let outcome = with_vm(|vm| vm.run(context, sha1, source, keys, args));
    outcome.unwrap_or_else(|fault| Frame::Error(fault.0.into_owned()))
}

/// Checks that a text compiles as a script.
pub(super) fn check(sha1: &str, source: &[u8]) -> Result<(), Fault> {
    with_vm(|vm| vm.compile(sha1, source).map(|_| ()))
}

fn with_vm<R>(act: impl FnOnce(&mut Vm) -> Result<R, Fault>) -> Result<R, Fault> {
    const NONE: Fault = Fault::new("ERR no virtual machine on this thread");
    // A thread that ends has no virtual machine any more.
    let outcome = VM.try_with(|slot| {
        let mut slot = slot.try_borrow_mut().map_err(|_| NONE)?;
        if slot.is_none() {
            *slot = Some(Vm::new().map_err(|error| Fault::of(format!("ERR no virtual machine: {error}")))?);
        }
        slot.as_mut().map_or(Err(NONE), act)
    });
    outcome.unwrap_or(Err(NONE))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scripts and the answers of redis-server 7.0.15. SHA stands for the script's hash.
    const OBSERVED: [(&str, &str); 22] = [
        (
            "return 1 foo",
            "-ERR Error compiling script (new function): user_script:1: '<eof>' expected near 'foo'",
        ),
        (
            "return if",
            "-ERR Error compiling script (new function): user_script:1: unexpected symbol near 'if'",
        ),
        ("error('boom')", "-ERR user_script:1: boom script: SHA, on @user_script:1."),
        ("error('x', 0)", "-ERR x script: SHA, on @user_script:1."),
        ("error({err = 'OWN table'})", "-OWN table script: SHA, on @user_script:1."),
        (
            "\nglobal = 1",
            "-ERR user_script:2: Attempt to modify a readonly table script: SHA, on @user_script:2.",
        ),
        (
            "return rawset(_G, 'y', 1)",
            "-ERR Attempt to modify a readonly table script: SHA, on @user_script:1.",
        ),
        (
            "return zzz",
            "-ERR user_script:1: Script attempted to access nonexistent global variable 'zzz' script: SHA, on \
             @user_script:1.",
        ),
        (
            "return redis.call('nosuch')",
            "-ERR Unknown Redis command called from script script: SHA, on @user_script:1.",
        ),
        ("return redis.pcall('nosuch')", "-ERR Unknown Redis command called from script"),
        (
            "return redis.call('pubsub', 'numpat', 1)",
            "-ERR Wrong number of args calling Redis command from script script: SHA, on @user_script:1.",
        ),
        (
            "return redis.call('client', 'id')",
            "-ERR This Redis command is not allowed from script script: SHA, on @user_script:1.",
        ),
        ("redis.log(9, 'x')", "-ERR Invalid debug level. script: SHA, on @user_script:1."),
        ("return redis.error_reply('one')", "-ERR one"),
        ("return redis.error_reply('-X y\\r\\n')", "-X y"),
        ("return redis.call('echo', 12345678901234567)", "$17\r\n12345678901234568"),
        ("return redis.call('echo', 0.1)", "$19\r\n0.10000000000000001"),
        ("return redis.call('echo', 1e20)", "$5\r\n1e+20"),
        ("return 3.99", ":3"),
        ("return 1e20", ":-9223372036854775808"),
        ("return {1, nil, 3}", "*1\r\n:1"),
        (
            "return struct.pack('q', 1)",
            "-ERR user_script:1: bad argument #1 to 'pack' (invalid format option 'q') script: SHA, on @user_script:1.",
        ),
    ];

    #[test]
    fn scripts_reply_as_recorded_from_a_real_server() {
        for (script, expected) in OBSERVED {
            let sha1 = sha1_smol::Sha1::from(script).hexdigest();
            let none = || std::iter::empty();
            let reply =
                run(&mut CommandContext::default(), &sha1, script.as_bytes(), none(), none()).encode();
            let expected = format!("{}\r\n", expected.replace("SHA", &sha1));
            assert_eq!(String::from_utf8(reply).unwrap(), expected, "{script}");
        }
    }

    #[test]
    fn a_script_leaves_nothing_behind() {
        let attempts = [
            "string.leak = 1",
            "getmetatable('').__index = nil",
            "rawset(string, 'leak', 1)",
            "setmetatable(_G, nil)",
            "setmetatable(redis, {})",
            "_G.leak = 1",
            "string = nil",
        ];
        let run = |script: &str| {
            let sha1 = sha1_smol::Sha1::from(script).hexdigest();
            run(
                &mut CommandContext::default(),
                &sha1,
                script.as_bytes(),
                std::iter::empty(),
                std::iter::empty(),
            )
        };
        for script in attempts {
            assert!(run(script).is_error(), "{script}");
        }
        assert_eq!(run("return {type(rawget(_G, 'leak')), type(string.leak), ('x'):rep(2)}"), {
            Frame::Array(vec![Frame::bulk("nil"), Frame::bulk("nil"), Frame::bulk("xx")])
        });
    }
}
