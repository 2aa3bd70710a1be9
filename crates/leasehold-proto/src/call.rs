//! One execution of a script: the script, the keys and arguments, and the reply.
//!
//! Recipes build calls and read replies. Stores run calls and produce replies. A [`Call`] has a value for every input
//! that its script declares.

#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

use std::fmt;
use std::sync::Arc;

use crate::bulks::Bulks;
use crate::confirm::Confirm;
use crate::name::{Channel, Name, Others, slot};
use crate::native::Arguments;
use crate::outcome::Verb;
use crate::owner::WireOwner;
use crate::reply::Reply;
use crate::script::Script;
use crate::text::Text;

/// The bytes to reserve for a key besides the lock's name in it: its prefix, a wire owner, and its length.
const KEY_BYTES: usize = 72;
/// The bytes to reserve for an argument. A wire owner takes more, most other arguments take less.
const ARG_BYTES: usize = 32;

/// A script with its inputs filled in.
///
/// The inputs are written once, in the script's order and in the form in which they go to the server. So a call is one
/// allocation.
#[derive(Clone)]
pub struct Call {
    script: &'static Script,
    /// KEYS, and then ARGV.
    inputs: Bulks,
    // Small, because each step of a recipe moves the call, and moves of up to 128 bytes are the fast ones.
    keys: u32,
    args: u16,
    /// True if keys of further names were given.
    has_several_names: bool,
    wakeups: Option<Wakeups>,
    replicas: Option<Confirm>,
    effects: Option<&'static dyn Effects>,
}

/// How the replies to a primitive's calls tell their effects.
pub(crate) trait Effects: Sync {
    /// Returns true if the reply tells of an effect that a failover must not lose: a grant, a renewal, or the return of
    /// permits that no lease returns. A refusal has none. A renewal that finds no hold counts as well, because a former
    /// master without its replicas finds none either.
    fn must_last(&self, verb: Verb, reply: &Reply) -> bool;

    /// Returns true if what is held does not end by itself, so a lost release would keep it.
    fn has_no_end(&self) -> bool;
}

/// The source of the wake-ups of a call's waiter, from which the channels are computed when a store needs them.
#[derive(Clone)]
pub(crate) struct Wakeups {
    pub(crate) channels: fn(&Name, &[Name], WireOwner) -> Vec<Channel>,
    pub(crate) name: Name,
    pub(crate) others: Others,
    pub(crate) owner: WireOwner,
}

impl Call {
    /// Begins a call. The caller then gives every key and argument that the script's header declares, in the order of
    /// the header.
    #[must_use]
    pub fn of(script: &'static Script) -> Self {
        Self {
            script,
            inputs: Bulks::default(),
            keys: 0,
            args: 0,
            has_several_names: false,
            wakeups: None,
            replicas: None,
            effects: None,
        }
    }

    /// Creates a call with its inputs in the script's order, for scripts whose header declares no inputs.
    #[must_use]
    pub fn with<K: AsRef<str>, A: AsRef<[u8]>>(
        script: &'static Script,
        keys: impl IntoIterator<Item = K>,
        args: impl IntoIterator<Item = A>,
    ) -> Self {
        let mut call = Self::of(script);
        for key in keys {
            call.inputs.push(key.as_ref().as_bytes());
            call.keys += 1;
        }
        for arg in args {
            call.inputs.push(arg.as_ref());
            call.args += 1;
        }
        call
    }

    /// Sets the source of the wake-ups of the call's waiter. The script does not see it.
    pub(crate) fn with_wakeups(self, wakeups: Wakeups) -> Self {
        Self { wakeups: Some(wakeups), ..self }
    }

    /// Sets the replicas that must acknowledge the call before it counts, or `None`, the default, for those of the client.
    /// The script does not see them. The calls on a name that have one policy reach the server in their order.
    #[must_use]
    pub const fn confirmed_by(mut self, replicas: Option<Confirm>) -> Self {
        self.replicas = replicas;
        self
    }

    /// Returns the replicas that must acknowledge the call, or `None` for those of the client.
    #[must_use]
    pub const fn replicas(&self) -> Option<Confirm> {
        self.replicas
    }

    /// Sets the replicas as [`confirmed_by`](Self::confirmed_by) does, and how the replies tell the effects of the call.
    /// Without the latter, every reply counts as an effect.
    pub(crate) fn set_confirmation(&mut self, replicas: Option<Confirm>, effects: &'static dyn Effects) {
        (self.replicas, self.effects) = (replicas, Some(effects));
    }

    /// Returns true if the call counts only once replicas have acknowledged its effect. A release needs none where what
    /// comes back after it ends with its lease.
    #[must_use]
    pub fn needs_replicas(&self) -> bool {
        match self.verb() {
            Verb::Acquire | Verb::Renew | Verb::HandOff | Verb::Adjust => true,
            Verb::Release => self.effects.is_some_and(Effects::has_no_end),
            _ => false,
        }
    }

    /// Returns true if this reply counts only once replicas have acknowledged the effect of the call.
    #[must_use]
    pub fn needs_replicas_for(&self, reply: &Reply) -> bool {
        self.needs_replicas() && self.effects.is_none_or(|effects| effects.must_last(self.verb(), reply))
    }

    /// Gives the next key, which has this name.
    ///
    /// # Panics
    /// Panics if the script declares another key there, which is a mistake in a recipe and found by the first test that
    /// runs it.
    #[must_use]
    #[track_caller]
    pub fn key(mut self, name: &str, value: impl Text) -> Self {
        let header = self.script.header();
        assert_eq!(header.keys.get(self.keys_given()), Some(&name), "keys are given in the script's order");
        assert_eq!(self.args, 0, "the key `{name}` is given before the arguments");
        if self.keys == 0 {
            // The first key is the lock's name, which most other keys contain, and the channel as well.
            let (keys, args) = (header.keys.len(), header.args.len());
            let names = (keys + 1) * value.least_length();
            self.inputs.reserve(names + keys * KEY_BYTES + args * ARG_BYTES);
        }
        self.inputs.print(value);
        self.keys += 1;
        self
    }

    /// Gives further keys behind the keys that the script declares.
    ///
    /// # Panics
    /// Panics if a declared key is missing, or if an argument was given before.
    #[must_use]
    #[track_caller]
    pub fn more_keys<'a>(mut self, names: impl IntoIterator<Item = &'a Name>) -> Self {
        assert!(
            self.keys_given() >= self.script.header().keys.len(),
            "further keys are given behind the declared keys"
        );
        assert_eq!(self.args, 0, "further keys are given before the arguments");
        for name in names {
            self.inputs.push(name.as_str().as_bytes());
            self.keys += 1;
            self.has_several_names = true;
        }
        self
    }

    /// Gives the next argument, which has this name.
    ///
    /// # Panics
    /// Panics if a declared key is missing, or if the script declares another argument there, which is a mistake in a
    /// recipe and found by the first test that runs it.
    #[must_use]
    #[track_caller]
    pub fn arg(mut self, name: &str, value: impl Text) -> Self {
        self.begin_arg(name);
        self.inputs.print(value);
        self
    }

    /// Gives the next argument, which has this name, as bytes, which need not be text.
    ///
    /// # Panics
    /// Panics like [`arg`](Self::arg).
    #[must_use]
    #[track_caller]
    pub fn bytes(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.begin_arg(name);
        self.inputs.push(value.as_ref());
        self
    }

    /// Gives the next argument, which has this name, as bytes in parts.
    ///
    /// # Panics
    /// Panics like [`arg`](Self::arg).
    #[must_use]
    #[track_caller]
    pub fn parts(mut self, name: &str, parts: impl Iterator<Item: AsRef<[u8]>> + Clone) -> Self {
        self.begin_arg(name);
        self.inputs.join(parts);
        self
    }

    #[track_caller]
    fn begin_arg(&mut self, name: &str) {
        let header = self.script.header();
        assert!(self.keys_given() >= header.keys.len(), "the argument `{name}` is given behind the keys");
        assert_eq!(
            header.args.get(self.args_given()),
            Some(&name),
            "arguments are given in the script's order"
        );
        self.args += 1;
    }

    /// Returns the purpose of the call.
    #[must_use]
    pub const fn verb(&self) -> Verb {
        self.script.verb
    }

    /// Returns the script.
    #[must_use]
    pub const fn script(&self) -> &'static Script {
        self.script
    }

    /// Returns KEYS.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.expect_complete();
        let keys = self.inputs.iter().take(self.keys_given());
        keys.map(|key| std::str::from_utf8(key).expect("a key is given as text"))
    }

    /// Returns the cluster slot of the call, which is that of its first key, or `None` without keys.
    #[must_use]
    pub fn slot(&self) -> Option<u16> {
        self.keys().next().map(slot)
    }

    /// Returns two keys in two slots of a cluster, if there are two.
    #[must_use]
    pub fn keys_of_two_slots(&self) -> Option<(&str, &str)> {
        let mut keys = self.keys();
        let first = keys.next().filter(|_| self.keys > 1)?;
        let other = keys.find(|other| slot(other) != slot(first))?;
        Some((first, other))
    }

    /// Returns true if the call is about several names, and not about one name with its helper keys.
    #[must_use]
    pub const fn has_several_names(&self) -> bool {
        self.has_several_names
    }

    /// Returns the number of KEYS.
    #[must_use]
    pub fn key_count(&self) -> usize {
        self.expect_complete();
        self.keys_given()
    }

    /// Returns ARGV.
    pub fn args(&self) -> impl Iterator<Item = &[u8]> {
        self.expect_complete();
        self.inputs.iter().skip(self.keys_given())
    }

    /// Returns ARGV by their places.
    #[must_use]
    pub fn arguments(&self) -> Arguments<'_> {
        self.expect_complete();
        Arguments::new(&self.inputs, self.keys_given())
    }

    /// Returns the number of ARGV.
    #[must_use]
    pub fn arg_count(&self) -> usize {
        self.expect_complete();
        self.args_given()
    }

    /// Returns KEYS and ARGV, each as bulk strings of RESP behind each other, in the form in which they go to the
    /// server.
    #[must_use]
    pub fn encoded(&self) -> (&[u8], &[u8]) {
        self.expect_complete();
        self.inputs.split(self.keys_given())
    }

    /// Returns ARGV, each as a bulk string of RESP.
    pub fn encoded_args(&self) -> impl Iterator<Item = &[u8]> {
        self.expect_complete();
        self.inputs.encoded().skip(self.keys_given())
    }

    /// Returns a key as a bulk string of RESP.
    ///
    /// # Panics
    /// Panics if there are fewer keys.
    #[must_use]
    pub fn encoded_key(&self, at: usize) -> &[u8] {
        self.inputs.encoded().nth(at).filter(|_| at < self.keys_given()).expect("the call has the key")
    }

    /// Returns an argument as a bulk string of RESP.
    ///
    /// # Panics
    /// Panics if there are fewer arguments.
    #[must_use]
    pub fn encoded_arg(&self, at: usize) -> &[u8] {
        self.encoded_args().nth(at).expect("the call has the argument")
    }

    const fn keys_given(&self) -> usize {
        self.keys as usize
    }

    const fn args_given(&self) -> usize {
        self.args as usize
    }

    fn expect_complete(&self) {
        let header = self.script.header();
        debug_assert!(
            self.keys_given() >= header.keys.len() && self.args_given() >= header.args.len(),
            "inputs are missing in {self:?}"
        );
    }

    /// Returns the channels that bring a wake-up after the call is refused.
    #[must_use]
    pub fn channels(&self) -> Vec<Channel> {
        let Some(Wakeups { channels, name, others, owner }) = &self.wakeups else { return Vec::new() };
        channels(name, others, *owner)
    }

    /// Returns the argument of this name, if the script has such an argument and the value is text. Stores that answer
    /// without Lua use it.
    #[must_use]
    pub fn argument(&self, name: &str) -> Option<&str> {
        std::str::from_utf8(self.args().nth(self.place(name)?)?).ok()
    }

    /// Replaces the argument of this name, and returns true if the script has such an argument. Stores use it to give a
    /// script a fact about the server that recipes do not know, such as the server's command for publishing.
    pub fn set_arg(&mut self, name: &str, value: impl AsRef<[u8]>) -> bool {
        self.expect_complete();
        let place = self.place(name);
        if let Some(place) = place {
            self.inputs.replace(self.keys_given() + place, value.as_ref());
        }
        place.is_some()
    }

    /// Returns the index of the argument of this name.
    fn place(&self, name: &str) -> Option<usize> {
        self.script.header().args.iter().position(|declared| *declared == name)
    }

    /// Returns the key that the call is about, which is the first key.
    #[must_use]
    pub fn subject(&self) -> Arc<str> {
        self.keys().next().unwrap_or_default().into()
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inputs: Vec<_> = self.inputs.iter().map(String::from_utf8_lossy).collect();
        let (keys, args) = inputs.split_at(self.keys_given());
        write!(f, "{} {keys:?} {args:?}", self.script.verb)
    }
}

impl PartialEq for Call {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.script, other.script)
            && self.keys == other.keys
            && self.replicas == other.replicas
            && self.inputs == other.inputs
    }
}

impl Eq for Call {}

impl std::hash::Hash for Call {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        // Two scripts may have one text, with other verbs or native commands.
        let script = (self.script.source(), self.script.verb, self.script.native().is_some());
        (script, self.keys, self.replicas, &self.inputs).hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::joined;

    const SOURCE: &str =
        "-- Does it.\n-- KEYS[1] lock\n-- KEYS[2] mark\n-- ARGV[1] owner\n-- ARGV[2] publish\n";
    static SCRIPT: Script = Script::new(Verb::Acquire, SOURCE);

    fn call() -> Call {
        Call::of(&SCRIPT).key("lock", "l").key("mark", joined([&"m:", &7_u64])).arg("owner", 12)
    }

    #[test]
    fn inputs_are_read_as_they_were_given() {
        let mut call = call().bytes("publish", [0xff]);
        assert_eq!(call.keys().collect::<Vec<_>>(), ["l", "m:7"]);
        assert_eq!(call.args().collect::<Vec<_>>(), [&b"12"[..], &[0xff]]);
        assert_eq!((call.argument("owner"), call.argument("publish")), (Some("12"), None), "it is no text");
        assert!(call.set_arg("publish", "SPUBLISH") && !call.set_arg("message", "0"));
        assert_eq!(call.argument("publish"), Some("SPUBLISH"));
        assert_eq!((call.key_count(), call.arg_count(), &*call.subject()), (2, 2, "l"));
        let (keys, args) = (b"$1\r\nl\r\n$3\r\nm:7\r\n", b"$2\r\n12\r\n$8\r\nSPUBLISH\r\n");
        assert_eq!(call.encoded(), (&keys[..], &args[..]));
        assert_eq!(call.encoded_args().collect::<Vec<_>>(), [&args[..8], &args[8..]]);
        assert_eq!(format!("{call:?}"), r#"acquire ["l", "m:7"] ["12", "SPUBLISH"]"#);
    }

    #[test]
    #[should_panic(expected = "keys are given in the script's order")]
    fn a_key_out_of_order_is_refused() {
        let _ = Call::of(&SCRIPT).key("mark", "m");
    }

    #[test]
    #[should_panic(expected = "arguments are given in the script's order")]
    fn an_argument_out_of_order_is_refused() {
        let _ = call().arg("owner", 12);
    }

    #[test]
    #[should_panic(expected = "the argument `owner` is given behind the keys")]
    fn an_argument_before_a_key_is_refused() {
        let _ = Call::of(&SCRIPT).key("lock", "l").arg("owner", 12);
    }

    #[test]
    #[should_panic(expected = "inputs are missing")]
    #[cfg_attr(not(debug_assertions), ignore = "the check is for debug builds")]
    fn a_call_without_an_input_is_not_read() {
        let _ = call().key_count();
    }
}
