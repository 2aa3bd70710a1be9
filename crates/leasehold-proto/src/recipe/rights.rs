//! The right to a call's channels, checked by the server before the call's script begins.
//!
//! Stores use the check for servers whose user may lack the right, for the first call of a script on a connection. A
//! call that releases or renews a hold is never refused because of a channel.

use crate::call::Call;
use crate::name::Channel;
use crate::outcome::Verb;
use crate::script::Script;

const CHECK: &str = include_str!("../../scripts/check/channels.lua");

static SUBSCRIBE: Script = Script::new(Verb::Connect, include_str!("../../scripts/check/subscribe.lua"));

/// Creates a call that asks a server whether its user may subscribe to this channel by both commands. The reply is 1,
/// 0, or nil when the server has no such check.
#[must_use]
pub fn may_subscribe(channel: &str) -> Call {
    Call::of(&SUBSCRIBE).arg("plain", "SUBSCRIBE").arg("sharded", "SSUBSCRIBE").arg("channel", channel)
}

/// A call with the check before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// The source to send.
    pub source: String,
    /// ARGV.
    pub args: Vec<Vec<u8>>,
}

/// Adds a check of a call's channels by these commands. Returns `None` when the call has no channels, or when it
/// releases or renews a hold.
///
/// ```
/// use leasehold_proto::engine::Subject;
/// use leasehold_proto::recipe::{reentrant::REENTRANT, rights::checked};
/// use leasehold_proto::{Call, ClientId, Name, Script, Verb, WireOwner};
///
/// static TAKE: Script = Script::new(Verb::Acquire, "return ARGV[1]");
/// let call = Call::with(&TAKE, ["job"], ["1"]);
/// assert_eq!(checked(&call, "PUBLISH", "SUBSCRIBE"), None);
/// let (subject, owner) = (Subject::new(&Name::new("job")?, &REENTRANT), WireOwner::new(ClientId::from_random([0; 16]), 1));
/// let checked = checked(&call.woken_by(&subject, owner), "PUBLISH", "SUBSCRIBE").expect("it has a channel");
/// assert_eq!(checked.args, [&b"1"[..], b"redisson_lock__channel:{job}", b"PUBLISH", b"SUBSCRIBE", b"1"]);
/// # Ok::<(), leasehold_proto::NameError>(())
/// ```
#[must_use]
pub fn checked(call: &Call, publish: &str, subscribe: &str) -> Option<Checked> {
    if matches!(
        call.verb(),
        Verb::Release | Verb::ForceRelease | Verb::Renew | Verb::HandOff | Verb::KeepAlive
    ) {
        return None;
    }
    let woken_by = call.channels();
    let channels: Vec<_> = woken_by.iter().map(Channel::as_str).chain(call.argument("channel")).collect();
    if channels.is_empty() {
        return None;
    }
    let count = channels.len().to_string();
    let more = channels.into_iter().chain([publish, subscribe, &*count]);
    let args = call.args().chain(more.map(str::as_bytes)).map(<[u8]>::to_vec).collect();
    Some(Checked { source: format!("{CHECK}{}", call.script().source()), args })
}
