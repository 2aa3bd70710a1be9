//! The script of a command, with its names and its owner.
//!
//! Invariant: a script is identified by its text or its hash, and its arguments by its own header.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, LazyLock};

use leasehold_proto::recipe::scripts;
use leasehold_proto::script::Script;
use leasehold_proto::{Batch, Call, Verb};

use crate::owner::Wire;
use crate::primitive::plain_wire;
use crate::workload::foreign;

/// One execution of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Decoded {
    pub(crate) verb: Verb,
    /// The names that the script is on.
    pub(crate) names: Vec<Arc<str>>,
    /// The subject: a wire owner, the first of several permit ids, or an operation.
    pub(crate) wire: Wire,
    /// The number of permits.
    pub(crate) units: u32,
    pub(crate) form: Form,
}

/// The form of an execution, which decides what its reply means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Script,
    /// `SET` with `NX`, and with `GET` or without it.
    Set {
        gets: bool,
    },
    /// A native compare-and-delete. If it deletes nothing, a script follows.
    Delete,
}

impl From<&Call> for Decoded {
    fn from(call: &Call) -> Self {
        let (keys, args): (Vec<_>, Vec<_>) = (call.keys().collect(), call.args().collect());
        of_script(call.script(), &keys, &args)
    }
}

/// Returns the subject of a call.
pub(crate) fn subject_of(call: &Call) -> Wire {
    let (keys, args): (Vec<_>, Vec<_>) = (call.keys().collect(), call.args().collect());
    subject(inputs_of(call.script()), &keys, &args).0
}

/// A command that runs scripts.
pub(super) enum Command {
    Script(Decoded),
    Batch(Vec<Row>),
}

/// A row of a batch, and the command that runs it alone.
pub(super) struct Row {
    pub(super) script: Decoded,
    pub(super) call: Call,
}

/// The indexes of the inputs that tell the meaning of a script.
struct Inputs {
    owner: Option<usize>,
    given: Option<usize>,
    permits: Option<usize>,
    /// The key of an acquire or of an operation.
    marker: Option<usize>,
    /// True if all keys of the script are names.
    has_several: bool,
}

impl Inputs {
    fn of(script: &Script) -> Self {
        let place = |names: &[&str], name: &str| names.iter().position(|known| *known == name);
        let arg = |name: &str| place(&script.header().args, name);
        let key = |name: &str| place(&script.header().keys, name);
        Self {
            // A plain lock has a value in place of an owner.
            owner: arg("owner").or_else(|| arg("value")),
            // An operation is identified by its own id, for any arguments.
            given: arg("given").filter(|_| script.verb != Verb::Adjust),
            permits: arg("permits"),
            marker: key("marker").or_else(|| key("done")),
            // A script on several names has only these names as keys.
            has_several: arg("prefix").is_some() || script.source().contains("ipairs(KEYS)"),
        }
    }
}

/// The inputs of the scripts of ours, by the address of the script.
static INPUTS: LazyLock<HashMap<usize, Inputs>> =
    LazyLock::new(|| scripts().map(|script| (address(script), Inputs::of(script))).collect());

fn address(script: &Script) -> usize {
    std::ptr::from_ref(script).addr()
}

fn inputs_of(script: &Script) -> &'static Inputs {
    let inputs = INPUTS.get(&address(script));
    // Two scripts may have one text, and one of them is listed.
    let of_text = || INPUTS.get(&address(KNOWN.get(script.source().as_bytes())?));
    inputs.or_else(of_text).expect("all scripts of ours are listed")
}

/// The scripts of ours by their texts and their hashes.
static KNOWN: LazyLock<HashMap<&'static [u8], &'static Script>> = LazyLock::new(|| {
    let names = |script: &'static Script| [script.source().as_bytes(), script.sha1().as_bytes()];
    scripts().flat_map(|script| names(script).map(|name| (name, script))).collect()
});

/// The scripts of a batch, in the order of their digits.
type Kinds = Rc<[&'static Script]>;

thread_local! {
    /// The batches whose texts this thread has seen, by their texts and their hashes.
    static BATCHES: RefCell<HashMap<Vec<u8>, Kinds>> = RefCell::default();
}

/// Returns the scripts of a batch. The text of a batch comes before its hash, because a server learns it so.
fn kinds_of(batch: &[u8]) -> Option<Kinds> {
    if let Some(known) = BATCHES.with_borrow(|batches| batches.get(batch).cloned()) {
        return Some(known);
    }
    let batch = Batch::read(std::str::from_utf8(batch).ok()?)?;
    let (first, second) = batch.scripts()?;
    let scripts = [first].into_iter().chain(second);
    let kinds: Kinds = scripts.map(|text| KNOWN.get(text.as_bytes()).copied()).collect::<Option<_>>()?;
    BATCHES.with_borrow_mut(|batches| {
        batches.insert(batch.sha1().into(), Rc::clone(&kinds));
        batches.insert(batch.source().into(), Rc::clone(&kinds));
    });
    Some(kinds)
}

/// Returns true if the command runs scripts of ours or of a foreign client.
pub(crate) fn is_script(command: &[Vec<u8>]) -> bool {
    decode(command).is_some()
}

/// Decodes `EVAL text count keys args`, `EVALSHA hash count keys args`, and the native commands of a plain lock.
pub(super) fn decode(command: &[Vec<u8>]) -> Option<Command> {
    if let Some(native) = native(command) {
        return Some(Command::Script(native));
    }
    let [verb, script, count, rest @ ..] = command else { return None };
    if !verb.eq_ignore_ascii_case(b"EVALSHA") && !verb.eq_ignore_ascii_case(b"EVAL") {
        return None;
    }
    let (keys, args) = rest.split_at_checked(number_of(count)?)?;
    if let Some(script) = KNOWN.get(script.as_slice()) {
        return Some(Command::Script(of_command(script, keys, args)));
    }
    if let Some(verb) = foreign::verb_of(script) {
        let wire = args.get(foreign::OWNER_ARG).map_or_else(|| "".into(), |owner| text(owner));
        let names = keys.iter().take(1).map(|key| text(key)).collect();
        return Some(Command::Script(Decoded { verb, names, wire, units: 1, form: Form::Script }));
    }
    rows(&kinds_of(script)?, keys, args).map(Command::Batch)
}

/// Decodes `SET key value NX ..` and `DELIFEQ key value`.
fn native(command: &[Vec<u8>]) -> Option<Decoded> {
    let [verb, key, value, rest @ ..] = command else { return None };
    let has = |word: &str| rest.iter().any(|known| known.eq_ignore_ascii_case(word.as_bytes()));
    let (verb, form) = match &**verb {
        b"SET" if has("NX") => (Verb::Acquire, Form::Set { gets: has("GET") }),
        b"DELIFEQ" => (Verb::Release, Form::Delete),
        _ => return None,
    };
    Some(Decoded { verb, names: vec![text(key)], wire: plain_wire(value), units: 1, form })
}

/// What the calls of one script of a batch have in common: the number of keys, and each argument that all of them have.
type Common<'a> = (usize, Vec<Option<&'a Vec<u8>>>);

/// Decodes the rows of a batch: all keys, a digit for the script of each row, the number of keys and the mask of each
/// script, the arguments that all rows of a script have, and the other arguments.
fn rows(kinds: &[&'static Script], mut keys: &[Vec<u8>], args: &[Vec<u8>]) -> Option<Vec<Row>> {
    let [order, rest @ ..] = args else { return None };
    let (heads, rest) = rest.split_at_checked(2 * kinds.len())?;
    let mut rest = rest.iter();
    let common = |head: &[Vec<u8>]| {
        let args =
            head[1].iter().map(|digit| if *digit == b'1' { rest.next().map(Some) } else { Some(None) });
        Some((number_of(&head[0])?, args.collect::<Option<_>>()?))
    };
    let scripts = heads.chunks(2).map(common).collect::<Option<Vec<Common<'_>>>>()?;
    let row = |digit: &u8| {
        let kind = usize::from(digit.checked_sub(b'1')?);
        let (script, (keys_each, args)) = (*kinds.get(kind)?, scripts.get(kind)?);
        let (own_keys, other_keys) = keys.split_at_checked(*keys_each)?;
        keys = other_keys;
        let args = args.iter().map(|common| common.or_else(|| rest.next()).cloned());
        let args = args.collect::<Option<Vec<_>>>()?;
        let names: Vec<&str> = own_keys.iter().map(|key| str::from_utf8(key).ok()).collect::<Option<_>>()?;
        let call = Call::with(script, names, &args);
        Some(Row { script: of_command(script, own_keys, &args), call })
    };
    order.iter().map(row).collect()
}

fn number_of(text: &[u8]) -> Option<usize> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn of_command(script: &Script, keys: &[Vec<u8>], args: &[Vec<u8>]) -> Decoded {
    let keys: Vec<_> = keys.iter().map(|key| String::from_utf8_lossy(key)).collect();
    let keys: Vec<&str> = keys.iter().map(|key| &**key).collect();
    let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
    of_script(script, &keys, &args)
}

fn of_script(script: &Script, keys: &[&str], args: &[&[u8]]) -> Decoded {
    let inputs = inputs_of(script);
    let (wire, units) = subject(inputs, keys, args);
    let names = if inputs.has_several { keys } else { &keys[..keys.len().min(1)] };
    let names = names.iter().map(|name| Arc::from(*name)).collect();
    Decoded { verb: script.verb, names, wire, units, form: Form::Script }
}

/// Returns the subject of a script, and the number of permits.
fn subject(inputs: &Inputs, keys: &[&str], args: &[&[u8]]) -> (Wire, u32) {
    let arg = |place: Option<usize>| place.and_then(|place| args.get(place).copied());
    let permits = || arg(inputs.permits).map_or(1, number);
    let given = arg(inputs.given).filter(|ids| ids.len() >= 16);
    let marker = inputs.marker.and_then(|place| keys.get(place).copied());
    match (arg(inputs.owner), given, marker) {
        (Some(owner), _, marker) => {
            let owner = plain_wire(owner);
            // The renewals of a writer name its field.
            let owner = owner.strip_suffix(":write").unwrap_or(&owner);
            (owner.into(), marker.map_or(1, |_| permits()))
        }
        (None, Some(ids), _) => (hex(&ids[..16]), u32::try_from(ids.len() / 16).unwrap_or(u32::MAX)),
        (None, None, Some(marker)) => {
            // The last two parts of the marker, which are a client and a number of its own.
            let begin = marker.rmatch_indices(':').nth(1).map_or(0, |(at, _)| at + 1);
            (marker[begin..].into(), permits())
        }
        (None, None, None) => ("".into(), 1),
    }
}

fn number(text: &[u8]) -> u32 {
    std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

pub(super) fn text(bytes: &[u8]) -> Arc<str> {
    match str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => String::from_utf8_lossy(bytes).into(),
    }
}

/// Formats a permit id in hex, as events show it.
pub(super) fn hex(id: &[u8]) -> Arc<str> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = id.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect::<String>().into()
}
