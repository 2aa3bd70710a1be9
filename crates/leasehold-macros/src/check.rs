//! Checks of the options against each other and against the function.
//!
//! Invariant: options that pass can be expanded, and each does what it says.

use std::fmt::Display;

use leasehold_proto::{LEASE_MAX, LEASE_MIN};
use quote::ToTokens;

use crate::function::Function;
use crate::options::{Given, Options, value};
use crate::problems::Problems;
use crate::value::{Kind, OnBusy, OnFinish, OnLost, Span};

/// Reports every conflict.
pub(crate) fn check(options: &Options, function: &Function, problems: &mut Problems) {
    if options.name.is_none() && !options.is_cut_short {
        let message = "a lock needs a name: `#[locked(name = \"order:{order_id}\")]`";
        problems.add(syn::Error::new(proc_macro2::Span::call_site(), message));
    }
    leases(options, problems);
    holds(options, problems);
    outcomes(options, function, problems);
    fence(options, function, problems);
    several(options, problems);
    redlock(options, problems);
}

/// Checks the lease and its renewal.
fn leases(options: &Options, problems: &mut Problems) {
    if options.lease.is_some() {
        let clash = |word: &dyn ToTokens, message: &str, problems: &mut Problems| problems.at(word, message);
        if let Some(Given { word, .. }) = &options.watchdog {
            let message = "`lease` is never renewed and `watchdog` always is; leave one of them out";
            clash(word, message, problems);
        }
        if let Some(Given { word, .. }) = &options.max_renewals {
            let message = "`lease` is never renewed, so there is nothing to bound; leave `max_renewals` out, or write \
                           `watchdog` in place of `lease`";
            clash(word, message, problems);
        }
        if let Some(Given { word, .. }) = &options.max_hold {
            let message = "`lease` is never renewed and bounds the hold by itself; leave `max_hold` out, or write \
                           `watchdog` in place of `lease`";
            clash(word, message, problems);
        }
    }
    for given in [&options.lease, &options.watchdog].into_iter().flatten() {
        let Some(lease) = given.value.as_ref().and_then(Span::known) else {
            continue;
        };
        if !(LEASE_MIN..=LEASE_MAX).contains(&lease) {
            let message = format!("a lease must be from 3ms to 365d, such as `{} = \"30s\"`", given.word);
            at_value(given, message, problems);
        }
    }
}

/// Checks the bounds on the hold.
fn holds(options: &Options, problems: &mut Problems) {
    let known = |given: &Option<Given<Span>>| value(given.as_ref()).and_then(Span::known);
    let lease = known(&options.lease).or_else(|| known(&options.watchdog));
    if let (Some(given), Some(margin), Some(lease)) = (&options.margin, known(&options.margin), lease)
        && margin >= lease
    {
        at_value(given, "`margin` leaves nothing of the lease; make it shorter than the lease", problems);
    }
    let (min_hold, max_hold) = (known(&options.min_hold), known(&options.max_hold));
    if let Some(given) = &options.max_hold
        && max_hold.is_some_and(|most| most < LEASE_MIN)
    {
        at_value(given, "`max_hold` must be at least 3ms, such as `max_hold = \"1h\"`", problems);
    }
    let Some(given) = &options.min_hold else {
        return;
    };
    if min_hold.is_some_and(|least| least > LEASE_MAX) {
        at_value(given, "`min_hold` must be at most 365d, such as `min_hold = \"5m\"`", problems);
    }
    if let (Some(least), Some(most)) = (min_hold, max_hold)
        && least > most
    {
        let message = "`min_hold` is longer than `max_hold`; make it shorter, or leave one of them out";
        at_value(given, message, problems);
    }
    if let (Some(least), Some(lease)) = (min_hold, known(&options.lease))
        && least > lease
    {
        let message = "`min_hold` is longer than the fixed `lease`, which ends the hold; make it shorter, or set \
                       `watchdog` instead of `lease`";
        at_value(given, message, problems);
    }
    if matches!(value(options.on_finish.as_ref()), Some(OnFinish::Detach)) {
        let message = "`on_finish = detach` leaves the lock to its lease, whatever `min_hold` says; leave one of them out";
        problems.at(&given.word, message);
    }
}

/// Checks the reactions to a busy lock and to a loss.
fn outcomes(options: &Options, function: &Function, problems: &mut Problems) {
    if let Some(given) = &options.on_busy {
        if options.wait.is_none() {
            let message = "without `wait` the call waits as long as it takes, so the lock is never busy; add \
                           `wait = \"5s\"`, or `wait = \"0s\"` for one attempt";
            problems.at(&given.word, message);
        }
        if let Some(OnBusy::Fallback(path)) = &given.value {
            if !matches!(path, syn::Expr::Path(_)) {
                let message =
                    "`fallback` needs the path of a function, such as `on_busy = fallback(charge_later)`";
                problems.at(path, message);
            }
            problems.ok(function.handed_on());
        }
    }
    if let Some(given) = &options.on_lost
        && !function.is_async()
        && matches!(given.value, Some(OnLost::Cancel))
    {
        let message = "a function that is not async cannot be canceled; without `on_lost` it runs to its end, and \
                       its result is replaced by the error";
        problems.at(&given.word, message);
    }
}

/// Checks the fencing token.
fn fence(options: &Options, function: &Function, problems: &mut Problems) {
    let Some(given) = &options.fence else {
        return;
    };
    // A kind that could not be parsed has its own problem.
    let is_fenced = options.kind.as_ref().is_some_and(|kind| matches!(kind.value, Some(Kind::Fenced) | None));
    if !is_fenced {
        problems.at(&given.word, "only a fenced lock has tokens; add `kind = fenced`");
    }
    if let Some(token) = &given.value
        && function.values().iter().any(|name| token == name)
    {
        problems
            .at(token, format!("`{token}` is already the name of an argument; give the token another name"));
    }
}

/// Checks several names.
fn several(options: &Options, problems: &mut Problems) {
    let Some(Given { word, .. }) = options.name.as_ref().filter(|_| options.has_several()) else {
        return;
    };
    if options.names().is_empty() {
        problems.at(word, "several locks need names: `name = [\"account:{from}\", \"account:{to}\"]`");
    }
    if let Some(Given { word, value: Some(Kind::Semaphore(_)) }) = &options.kind {
        problems.at(word, "permits are acquired one by one; several names are names of locks");
    }
    if let Some(Given { word, .. }) = &options.fence {
        let message = "several locks have several tokens; write a `MultiLock` of fenced locks by hand, and ask each guard";
        problems.at(word, message);
    }
}

/// Checks what a lock over several servers can do.
fn redlock(options: &Options, problems: &mut Problems) {
    if options.redlock.is_none() {
        return;
    }
    if let Some(Given { word, .. }) = &options.client {
        problems.at(word, "a `redlock` has clients of its own; leave one of them out");
    }
    if let Some(Given { word, .. }) = options.name.as_ref().filter(|_| options.has_several()) {
        problems.at(word, "a `redlock` locks one name; leave `redlock` out for several names of one server");
    }
    if let Some(Given { word, value: Some(kind) }) = &options.kind
        && !matches!(kind, Kind::Reentrant | Kind::Plain)
    {
        problems.at(word, "a `redlock` has the kinds `reentrant` and `plain`");
    }
    let bounds = [&options.max_hold, &options.min_hold, &options.margin].into_iter().flatten();
    let words = bounds.map(|given| &given.word).chain(options.max_renewals.as_ref().map(|given| &given.word));
    for word in words {
        problems.at(
            word,
            format!("a `redlock` has no `{word}`; its options are `lease`, `watchdog` and `replicas`"),
        );
    }
}

/// Reports a problem with a known duration, at its literal.
fn at_value(given: &Given<Span>, message: impl Display, problems: &mut Problems) {
    match &given.value {
        Some(Span::Known { written, .. }) => problems.at(written, message),
        _ => problems.at(&given.word, message),
    }
}
