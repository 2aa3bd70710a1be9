//! The plain lock: one string key, set if it is absent, as the Redis documentation describes it
//! (docs/protocol.md#25-plain-lock).
//!
//! A waiter of this library marks the value of the holder, so a release without a mark needs no message.
//!
//! # How it works
//! An attempt that may be the last one is a native `SET` with `NX` and `GET`. A waiter that was refused, or that listens,
//! runs a script that acquires or marks. A release that expects no mark is a native compare-and-delete. If it deletes
//! nothing, the script that also knows the mark follows.

use std::time::Duration;

use super::format::Format;
use super::reentrant::{self, MESSAGE, REENTRANT};
use super::rules::{Answer, CallArgs, Holder, Holders, LockCalls, PUBLISH, Recipe, ReleaseAnswer, Renewal};
use crate::call::Call;
use crate::name::Name;
use crate::native::{Arguments, Command, Native, Word};
use crate::outcome::Verb;
use crate::owner::{ClientId, WireOwner};
use crate::reply::Reply;
use crate::script::Script;
use crate::text::{Text, text};

macro_rules! script {
    ($verb:ident, $file:literal) => {
        Script::new(Verb::$verb, include_str!(concat!("../../scripts/plain/", $file)))
    };
}

/// `SET` with `NX` and `GET`, which Redis has from 7.0, or without `GET`.
static SET: Native = Native(&[
    SET_AND_GET,
    Command::new(
        &[SET_WORD, Word::Key(0), Word::Arg(0), Word::Text("NX"), Word::Text("PX"), Word::Arg(1)],
        |_, reply| match reply {
            Reply::Nil => Some(Reply::Text(Vec::new())),
            Reply::Text(text) if text == b"OK" => Some(Reply::Nil),
            _ => None,
        },
    ),
]);
const SET_AND_GET: Command = Command::new(&set_if_absent(1), |_, reply| Some(reply.clone()));
const SET_WORD: Word = Word::Text("SET");

/// `SET` of the value if the key is absent, with the lease of this argument. The reply is what was there.
const fn set_if_absent(lease: usize) -> [Word; 7] {
    let [absent, get, px] = [Word::Text("NX"), Word::Text("GET"), Word::Text("PX")];
    [SET_WORD, Word::Key(0), Word::Arg(0), absent, get, px, Word::Arg(lease)]
}

/// Compare and delete. Nothing but a deletion settles the release.
static DELETE: Native = Native(&[Command::new(&delifeq(0), deleted), Command::new(&delex(0), deleted)]);

/// Compare and delete in Valkey 9.0, with the value in this argument.
const fn delifeq(value: usize) -> [Word; 3] {
    [Word::Text("DELIFEQ"), Word::Key(0), Word::Arg(value)]
}

/// The same in Redis 8.4.
const fn delex(value: usize) -> [Word; 4] {
    [Word::Text("DELEX"), Word::Key(0), Word::Text("IFEQ"), Word::Arg(value)]
}

fn deleted(_: Arguments<'_>, reply: &Reply) -> Option<Reply> {
    (*reply == Reply::Int(1)).then_some(Reply::Int(0))
}

/// The attempt at a server that runs no scripts. No key has the new value, so the first commands only find out whether the
/// server could release the hold.
static SET_IF_RELEASABLE: Native = Native(&[
    Command::new(&delifeq(0), |_, _| None),
    Command::new(&delex(0), |_, _| None),
    SET_AND_GET.following(),
]);

/// The attempt of a waiter at a server that runs no scripts. It marks nothing, so the waiter polls. Its own value is left to
/// run out, because the lease of an earlier call is unknown.
static SET_OR_POLL: Native = Native(&[Command::new(&set_if_absent(2), |_, reply| match reply {
    Reply::Nil => Some(Reply::Nil),
    _ => Some(Reply::Array(vec![Reply::Int(A_DAY_MS)])),
})]);
/// The rest of a lease of which nothing is known. It is longer than each pause, so the pauses of polling decide.
const A_DAY_MS: i64 = 86_400_000;
/// The renewal there: of the value as it is, or with the mark of a client that may run scripts.
static SET_IF_EQUAL: Native = Native(&[
    Command::new(&set_if_equal(Word::Arg(0)), |args, reply| renewed(args, reply, 0)),
    Command::new(&set_if_equal(Word::Arg(1)), |args, reply| renewed(args, reply, 1)),
]);

const fn set_if_equal(value: Word) -> [Word; 8] {
    let [set, if_equal, get, lease] =
        [Word::Text("SET"), Word::Text("IFEQ"), Word::Text("GET"), Word::Text("PX")];
    [set, Word::Key(0), value, if_equal, value, get, lease, Word::Arg(2)]
}

/// Reads the value that was there before a renewal of the value in this argument.
fn renewed(args: Arguments<'_>, before: &Reply, argument: usize) -> Option<Reply> {
    match before {
        Reply::Nil => Some(Reply::Int(0)),
        Reply::Text(value) if args.is(argument, value) => Some(Reply::Int(if argument == 0 { 2 } else { 4 })),
        Reply::Text(value) if argument == 0 && args.is(1, value) => None,
        _ => Some(Reply::Int(-1)),
    }
}

/// The release there: of the value as it is, or with a mark. No waiter is told, since the waiters there poll.
static DELETE_EITHER: Native = Native(&[
    Command::new(&delifeq(0), deleted),
    Command::new(&delex(0), deleted),
    Command::new(&delifeq(1), deleted),
    Command::new(&delex(1), deleted),
]);

/// The release of one hold of several there, which finds out whether the owner has the lock.
static READ: Native = Native(&[Command::new(&[Word::Text("GET"), Word::Key(0)], |args, held| match held {
    Reply::Text(value) if args.is(0, value) || args.is(1, value) => Some(Reply::Int(0)),
    _ => Some(Reply::Nil),
})]);

static ACQUIRE: Script = script!(Acquire, "acquire.lua").or_native(&SET).in_place(&SET_IF_RELEASABLE);
static WAIT: Script = script!(Acquire, "wait.lua").in_place(&SET_OR_POLL);
/// The same script, after a holder that sends no message.
static WATCH: Script = script!(Acquire, "wait.lua").in_place(&SET_OR_POLL).alone().tracked();
static FENCED_ACQUIRE: Script = script!(Acquire, "fenced.lua");
static REDLOCK_ACQUIRE: Script = script!(Acquire, "redlock.lua");
static RENEW: Script = script!(Renew, "renew.lua").in_place(&SET_IF_EQUAL);
static HAND_OFF: Script = script!(HandOff, "renew.lua").in_place(&SET_IF_EQUAL);
static EXPIRE: Script = script!(Renew, "expire.lua").in_place(&SET_IF_EQUAL);
static QUIET_RELEASE: Script = script!(Release, "release.lua").or_native(&DELETE).in_place(&DELETE_EITHER);
static RELEASE: Script = script!(Release, "release.lua").in_place(&DELETE_EITHER);
static KEEP: Script = script!(Release, "keep.lua").in_place(&READ);
static FORCE_RELEASE: Script = script!(ForceRelease, "force_release.lua");
static INSPECT: Script = script!(Inspect, "inspect.lua");
static HOLDER: Script = script!(Inspect, "holder.lua");
static MULTI_ACQUIRE: Script = script!(Acquire, "multi_acquire.lua");
static MULTI_RENEW: Script = script!(Renew, "multi_renew.lua");
static MULTI_RELEASE: Script = script!(Release, "multi_release.lua");

/// The scripts of one lock.
pub static SCRIPTS: [&Script; 11] = [
    &ACQUIRE,
    &WAIT,
    &FENCED_ACQUIRE,
    &REDLOCK_ACQUIRE,
    &RENEW,
    &EXPIRE,
    &RELEASE,
    &KEEP,
    &FORCE_RELEASE,
    &INSPECT,
    &HOLDER,
];
/// The variants of these scripts for which a client uses other commands, too.
pub(crate) static VARIANTS: [&Script; 2] = [&WATCH, &QUIET_RELEASE];
/// The scripts of several locks at once.
pub static MULTI_SCRIPTS: [&Script; 3] = [&MULTI_ACQUIRE, &MULTI_RENEW, &MULTI_RELEASE];

/// The prefix of the names of the lock's channels.
pub(crate) const CHANNEL: &str = "leasehold_plain";

/// The plain lock's rules.
pub static PLAIN: Recipe = Recipe {
    kind: "plain lock",
    channels: |name, _, _| vec![name.prefixed(CHANNEL)],
    acquire,
    read_acquire,
    renew: |args| leased(Call::of(&RENEW).key("lock", args.name), args),
    read_renew,
    hand_off: Some(|args| leased(Call::of(&HAND_OFF).key("lock", args.name), args)),
    expire: Some(|args| publishing(leased(Call::of(&EXPIRE).key("lock", args.name), args), args.name)),
    release,
    read_release,
    ..REENTRANT
};

/// The rules of a plain lock whose waiters leave a share to clients that poll, or whose value takes no mark. Its holds ask
/// nothing, because nothing would tell them of such clients.
pub static BOUNDED: Recipe = Recipe { hand_off: None, ..PLAIN };
/// The rules of a plain lock with fencing tokens.
pub static FENCED: Recipe = Recipe { acquire: fenced_acquire, read_acquire: read_fenced, ..PLAIN };
/// The rules of a plain lock with fencing tokens whose holds ask nothing.
pub static BOUNDED_FENCED: Recipe = Recipe { hand_off: None, ..FENCED };
/// The rules of one node of a Redlock of plain locks.
pub static REDLOCK: Recipe = Recipe {
    kind: "plain redlock",
    acquire: redlock_acquire,
    read_acquire: super::redlock::read_acquire,
    hand_off: None,
    ..PLAIN
};
/// The rules of several plain locks at once.
pub static MULTI: Recipe = Recipe {
    kind: "plain multi-lock",
    channels: |name, others, _| {
        std::iter::once(name).chain(others).map(|name| name.prefixed(CHANNEL)).collect()
    },
    acquire: |args| leased(several(&MULTI_ACQUIRE, args), args).arg("marks", u8::from(args.context.marks)),
    renew: |args| telling_each(leased(several(&MULTI_RENEW, args), args)),
    hand_off: None,
    expire: None,
    release: |args| telling_each(owned(several(&MULTI_RELEASE, args), args)),
    ..PLAIN
};

/// The calls that inspect and free a plain lock that is shared by its key alone.
pub static LOCK_CALLS: LockCalls = LockCalls {
    force_release: |name| force_release(name, &Format::PLAIN),
    inspect: |name, owner| inspect(name, &Format::PLAIN, owner),
};

impl Recipe {
    /// Returns true for the kinds of plain locks, whose key is a string and not a hash.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.kind.starts_with("plain ")
    }
}

/// The value of a hold on the server: `lh1-`, 22 characters of base64url, and `-0`, or `-1` once a waiter has marked it.
fn value(owner: WireOwner, is_marked: bool) -> impl Text {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    text(move |buffer| {
        let number = owner.as_u128();
        let digit = |at: u32| ALPHABET[usize::try_from(at).expect("it has 6 bits")];
        buffer.extend_from_slice(b"lh1-");
        // 21 characters of 6 bits, and one of the last 2.
        buffer.extend((0..21).map(|at| digit((number >> (122 - 6 * at)) as u32 & 63)));
        buffer.push(digit((number as u32 & 3) << 4));
        buffer.extend_from_slice(if is_marked { b"-1" } else { b"-0" });
    })
}

/// Returns the value of the holds of a wire owner, in its two forms, which are equal if it takes no mark.
#[must_use]
pub fn values(format: &Format, owner: WireOwner) -> [Vec<u8>; 2] {
    [false, true].map(|is_marked| {
        let mut bytes = Vec::new();
        match &format.token {
            Some(token) => bytes.extend_from_slice(token.as_bytes()),
            None => value(owner, is_marked).write(&mut bytes),
        }
        bytes
    })
}

/// Adds the value of the hold with and without its mark.
fn owned(call: Call, args: &CallArgs<'_>) -> Call {
    match &args.format.token {
        Some(token) => call.arg("value", &**token).arg("marked", &**token),
        None => call.arg("value", value(args.owner, false)).arg("marked", value(args.owner, true)),
    }
}

/// Adds the value of the hold with and without its mark, and the lease.
fn leased(call: Call, args: &CallArgs<'_>) -> Call {
    owned(call, args).arg("lease_ms", args.lease.as_millis())
}

fn acquire(args: &CallArgs<'_>) -> Call {
    let Format { fails_endless, holds_others, token, list, .. } = args.format;
    let is_special = *fails_endless || *holds_others || list.is_some();
    let needs_script = args.context.marks || args.context.uncertain || is_special;
    if !needs_script {
        let call = Call::of(&ACQUIRE).key("lock", args.name);
        let call = match token {
            Some(token) => call.arg("value", &**token),
            None => call.arg("value", value(args.owner, false)),
        };
        return call.arg("lease_ms", args.lease.as_millis());
    }
    let script = if args.context.polls { &WATCH } else { &WAIT };
    waiting(signalled(Call::of(script).key("lock", args.name), args.name, args.format), args)
}

fn fenced_acquire(args: &CallArgs<'_>) -> Call {
    let Some(fence) = &args.format.fence else { return acquire(args) };
    let call = Call::of(&FENCED_ACQUIRE).key("lock", args.name).key("fence", fence);
    waiting(signalled(call, args.name, args.format), args).arg("tokens", args.tokens)
}

/// Adds the arguments of a waiter's script. Another hold may have the same chosen value, so it counts as the caller's own
/// only if an earlier call of this acquire may have written it.
fn waiting(call: Call, args: &CallArgs<'_>) -> Call {
    let Format { fails_endless, holds_others, token, .. } = args.format;
    leased(call, args)
        .arg("marks", u8::from(args.context.marks))
        .arg("endless", u8::from(!fails_endless))
        .arg("others", u8::from(*holds_others))
        .arg("repeats", u8::from(token.is_none() || args.context.uncertain))
}

fn redlock_acquire(args: &CallArgs<'_>) -> Call {
    leased(Call::of(&REDLOCK_ACQUIRE).key("lock", args.name), args)
        .arg("marks", u8::from(args.context.marks))
        .arg("uptime_ms", args.uptime.as_millis())
}

fn release(args: &CallArgs<'_>) -> Call {
    if args.count > 0 {
        return owned(Call::of(&KEEP).key("lock", args.name), args);
    }
    let is_quiet = args.context.quiet && args.format.token.is_none() && !args.format.has_signal();
    let script = if is_quiet { &QUIET_RELEASE } else { &RELEASE };
    let call = owned(signalled(Call::of(script).key("lock", args.name), args.name, args.format), args);
    telling(call, args.name, args.format)
}

fn several(script: &'static Script, args: &CallArgs<'_>) -> Call {
    Call::of(script).key("lock", args.name).more_keys(args.others)
}

/// Adds the list on which another library's waiters block. An acquire names it too, so a server that refuses the key does so
/// before there is a hold.
fn signalled(call: Call, name: &Name, format: &Format) -> Call {
    call.key("signal", format.list.as_ref().unwrap_or(name))
}

/// Adds the arguments with which a script wakes waiters.
fn telling(call: Call, name: &Name, format: &Format) -> Call {
    publishing(call, name).arg("other", format.channel.as_deref().unwrap_or_default())
}

/// Adds the message to this library's waiters.
fn publishing(call: Call, name: &Name) -> Call {
    call.arg("publish", PUBLISH).arg("channel", name.prefixed_text(CHANNEL)).arg("message", MESSAGE)
}

fn telling_each(call: Call) -> Call {
    call.arg("publish", PUBLISH).arg("prefix", CHANNEL).arg("message", MESSAGE)
}

/// Creates the call that frees the lock of any holder.
#[must_use]
pub fn force_release(name: &Name, format: &Format) -> Call {
    telling(signalled(Call::of(&FORCE_RELEASE).key("lock", name), name, format), name, format)
}

/// Creates the call that inspects the lock.
#[must_use]
pub fn inspect(name: &Name, format: &Format, owner: Option<WireOwner>) -> Call {
    let [value, marked] = owner.map(|owner| values(format, owner)).unwrap_or_default();
    Call::of(&INSPECT).key("lock", name).bytes("value", value).bytes("marked", marked)
}

/// Creates the call that reads the value of the holder.
#[must_use]
pub fn holder(name: &Name) -> Call {
    Call::of(&HOLDER).key("lock", name)
}

/// Reads the value of the holder, without its mark, or nothing if the lock is free.
#[must_use]
pub fn read_holder(reply: &Reply) -> Option<Option<Vec<u8>>> {
    match reply {
        Reply::Nil => Some(None),
        Reply::Text(value) => Some(Some(forms(value).into_iter().next().unwrap_or_default())),
        _ => None,
    }
}

/// Reads who holds the lock, for a client with this id. The owner of a hold of this client reads like that of the other
/// kinds, and any other holder is known by its value alone.
#[must_use]
pub fn read_holders(reply: &Reply, client: ClientId) -> Option<Holders> {
    let holder = read_holder(reply)?.map(|value| {
        let own = Value::read(&value).and_then(|value| value.number_of(client));
        let owner = own.map(|number| WireOwner::new(client, number).to_string());
        Holder { owner: owner.unwrap_or_else(|| value.escape_ascii().to_string()), count: 1 }
    });
    Some(Holders { fields: u32::from(holder.is_some()), holders: holder.into_iter().collect() })
}

/// Returns a value of this library without and with its mark, and any other one twice.
#[must_use]
pub fn forms(value: &[u8]) -> [Vec<u8>; 2] {
    let flagged = |flag: &[u8]| [&value[..value.len() - 1], flag].concat();
    if Value::read(value).is_some() {
        [flagged(b"0"), flagged(b"1")]
    } else {
        [value.to_vec(), value.to_vec()]
    }
}

/// The value of a hold of this library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value {
    /// The number of the wire owner.
    number: u128,
    /// True if a waiter of this library has marked it.
    pub is_marked: bool,
}

impl Value {
    /// Reads the value of a hold of this library, and no other one.
    #[must_use]
    pub fn read(value: &[u8]) -> Option<Self> {
        let [b'l', b'h', b'1', b'-', digits @ .., b'-', flag @ (b'0' | b'1')] = value else { return None };
        let (last, all) = (digits.last()?, &digits[..digits.len() - 1]);
        if all.len() != 21 {
            return None;
        }
        let first =
            all.iter().try_fold(0_u128, |sum, digit| Some(sum << 6 | u128::from(read_digit(*digit)?)))?;
        Some(Self { number: first << 2 | u128::from(read_digit(*last)? >> 4), is_marked: *flag == b'1' })
    }

    /// Returns the number of the client's acquisition with this value, if it is one of this client.
    #[must_use]
    pub fn number_of(self, client: ClientId) -> Option<u64> {
        let number = u64::try_from(self.number.wrapping_sub(client.as_u128())).ok()?;
        // A client counts its acquisitions, so a larger number is another client's by chance.
        (number < 1 << 53).then_some(number)
    }
}

fn read_digit(digit: u8) -> Option<u8> {
    match digit {
        b'A'..=b'Z' => Some(digit - b'A'),
        b'a'..=b'z' => Some(digit - b'a' + 26),
        b'0'..=b'9' => Some(digit - b'0' + 52),
        b'-' => Some(62),
        b'_' => Some(63),
        _ => None,
    }
}

fn read_acquire(reply: &Reply) -> Option<Answer> {
    match reply {
        // The value of the holder, about which nothing else is known.
        Reply::Text(_) => Some(Answer::Refused { remaining: Duration::MAX }),
        Reply::Array(items) => match items.as_slice() {
            [Reply::Int(ms)] => {
                Some(Answer::Polled { remaining: Duration::from_millis((*ms).try_into().ok()?) })
            }
            _ => None,
        },
        _ => reentrant::read_acquire(reply),
    }
}

fn read_fenced(reply: &Reply) -> Option<Answer> {
    let Reply::Array(items) = reply else { return read_acquire(reply) };
    match items.as_slice() {
        [Reply::Int(pttl), Reply::Text(_), Reply::Int(1)] if *pttl >= 0 => {
            read_acquire(&Reply::Array(vec![Reply::Int(*pttl)]))
        }
        [pttl, token, ..] => super::fenced::read_acquire(&Reply::Array(vec![pttl.clone(), token.clone()])),
        _ => None,
    }
}

fn read_renew(reply: &Reply) -> Option<Renewal> {
    match reply {
        Reply::Int(2 | 4) => Some(Renewal::Renewed),
        Reply::Int(0) => Some(Renewal::Gone),
        Reply::Int(-1) => Some(Renewal::TakenOver),
        _ => None,
    }
}

fn read_release(reply: &Reply) -> Option<ReleaseAnswer> {
    match *reply {
        Reply::Nil => Some(ReleaseAnswer::unheard(false)),
        Reply::Int(0) => Some(ReleaseAnswer { is_silent: true, ..ReleaseAnswer::unheard(true) }),
        Reply::Int(more) => {
            Some(ReleaseAnswer { listeners: (more - 1).try_into().ok()?, ..ReleaseAnswer::unheard(true) })
        }
        _ => None,
    }
}
