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
}

impl From<&Call> for Decoded {
    fn from(call: &Call) -> Self {
        let args: Vec<&[u8]> = call.args().collect();
        of_script(call.script(), call.keys().map(Arc::from).collect(), &args)
    }
}

/// A command that runs scripts.
pub(super) enum Command {
    Script(Decoded),
    Batch(Vec<Row>),
}

/// A row of a batch, and the command that runs it alone.
pub(super) struct Row {
    pub(super) script: Decoded,
    pub(super) command: Vec<Vec<u8>>,
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
    let text = std::str::from_utf8(batch).ok()?;
    let (kinds, batch) = scripts().find_map(|first| {
        text.contains(first.source()).then_some(())?;
        let others = scripts().filter(|second| text.contains(second.source())).map(Some);
        let mut batches = [None].into_iter().chain(others).map(|second| (second, Batch::of(first, second)));
        let (second, batch) = batches.find(|(_, batch)| batch.source() == text)?;
        Some(([first].into_iter().chain(second).collect::<Kinds>(), batch))
    })?;
    BATCHES.with_borrow_mut(|batches| {
        batches.insert(batch.source().into(), Rc::clone(&kinds));
        batches.insert(batch.sha1().into(), Rc::clone(&kinds));
    });
    Some(kinds)
}

/// Returns true if the command runs scripts of ours or of a foreign client.
pub(crate) fn is_script(command: &[Vec<u8>]) -> bool {
    decode(command).is_some()
}

/// Decodes `EVAL text count keys args` and `EVALSHA hash count keys args`.
pub(super) fn decode(command: &[Vec<u8>]) -> Option<Command> {
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
        return Some(Command::Script(Decoded { verb, names, wire, units: 1 }));
    }
    rows(&kinds_of(script)?, keys, args).map(Command::Batch)
}

/// Decodes the rows of a batch: all keys, a digit for the script of each row, the numbers of keys and of arguments of each
/// script's rows, and all arguments.
fn rows(kinds: &[&'static Script], mut keys: &[Vec<u8>], args: &[Vec<u8>]) -> Option<Vec<Row>> {
    let [order, rest @ ..] = args else { return None };
    let (shapes, mut args) = rest.split_at_checked(2 * kinds.len())?;
    let row = |digit: &u8| {
        let kind = usize::from(digit.checked_sub(b'1')?);
        let script = *kinds.get(kind)?;
        let (keys_each, args_each) = (number_of(&shapes[2 * kind])?, number_of(&shapes[2 * kind + 1])?);
        let (own_keys, other_keys) = keys.split_at_checked(keys_each)?;
        let (own_args, other_args) = args.split_at_checked(args_each)?;
        (keys, args) = (other_keys, other_args);
        let head = ["EVAL".into(), script.source().into(), keys_each.to_string().into_bytes()];
        let command = head.into_iter().chain(own_keys.iter().chain(own_args).cloned()).collect();
        Some(Row { script: of_command(script, own_keys, own_args), command })
    };
    order.iter().map(row).collect()
}

fn number_of(text: &[u8]) -> Option<usize> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn of_command(script: &Script, keys: &[Vec<u8>], args: &[Vec<u8>]) -> Decoded {
    let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
    of_script(script, keys.iter().map(|key| text(key)).collect(), &args)
}

fn of_script(script: &Script, keys: Vec<Arc<str>>, args: &[&[u8]]) -> Decoded {
    let header = script.header();
    let arg = |name: &str| {
        let place = header.args.iter().position(|known| *known == name);
        place.and_then(|place| args.get(place).copied())
    };
    let key = |name: &str| {
        let place = header.keys.iter().position(|known| *known == name);
        place.and_then(|place| keys.get(place).map(|key| &**key))
    };
    // An operation is identified by its own id, for any arguments.
    let given = arg("given").filter(|ids| ids.len() >= 16 && script.verb != Verb::Adjust);
    let (wire, units) = match (arg("owner"), given, key("marker").or_else(|| key("done"))) {
        (Some(owner), _, marker) => {
            let owner = text(owner);
            // The renewals of a writer name its field.
            let owner = owner.strip_suffix(":write").map_or_else(|| owner.clone(), Arc::from);
            let units = marker.and_then(|_| arg("permits")).map_or(1, number);
            (owner, units)
        }
        (None, Some(ids), _) => (hex(&ids[..16]), u32::try_from(ids.len() / 16).unwrap_or(u32::MAX)),
        (None, None, Some(marker)) => {
            // The last two parts of the marker, which are a client and a number of its own.
            let begin = marker.rmatch_indices(':').nth(1).map_or(0, |(at, _)| at + 1);
            let owner = &marker[begin..];
            (owner.into(), arg("permits").map_or(1, number))
        }
        (None, None, None) => ("".into(), 1),
    };
    // A script on several names has only these names as keys.
    let several = arg("prefix").is_some() || script.source().contains("ipairs(KEYS)");
    let names = if several { keys } else { keys.into_iter().take(1).collect() };
    Decoded { verb: script.verb, names, wire, units }
}

fn number(text: &[u8]) -> u32 {
    std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

pub(super) fn text(bytes: &[u8]) -> Arc<str> {
    String::from_utf8_lossy(bytes).into()
}

/// Formats a permit id in hex, as events show it.
pub(super) fn hex(id: &[u8]) -> Arc<str> {
    id.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into()
}
