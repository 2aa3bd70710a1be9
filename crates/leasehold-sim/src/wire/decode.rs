//! The script of a command, with its names and its owner.
//!
//! Invariant: a script is identified by its text or its hash, and its arguments by its own header.

use std::sync::Arc;

use leasehold_proto::recipe::scripts;
use leasehold_proto::script::Script;
use leasehold_proto::{Call, Verb};

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
        let args: Vec<&[u8]> = call.args().iter().map(Vec::as_slice).collect();
        of_script(call.script(), call.keys().to_vec(), &args)
    }
}

/// Decodes `EVAL text count keys args` and `EVALSHA hash count keys args`.
pub(crate) fn decode(command: &[Vec<u8>]) -> Option<Decoded> {
    let [verb, script, count, rest @ ..] = command else { return None };
    let by_hash = verb.eq_ignore_ascii_case(b"EVALSHA");
    if !by_hash && !verb.eq_ignore_ascii_case(b"EVAL") {
        return None;
    }
    let count: usize = std::str::from_utf8(count).ok()?.parse().ok()?;
    let (keys, args) = rest.split_at_checked(count)?;
    let keys: Vec<Arc<str>> = keys.iter().map(|key| text(key)).collect();
    let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
    let ours = scripts().find(|known| match by_hash {
        true => known.sha1().as_bytes() == script.as_slice(),
        false => known.source().as_bytes() == script.as_slice(),
    });
    if let Some(script) = ours {
        return Some(of_script(script, keys, &args));
    }
    let verb = foreign::verb_of(script)?;
    let wire = args.get(foreign::OWNER_ARG).map_or_else(|| "".into(), |owner| text(owner));
    Some(Decoded { verb, names: keys.into_iter().take(1).collect(), wire, units: 1 })
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
