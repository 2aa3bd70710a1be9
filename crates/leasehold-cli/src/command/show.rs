//! `leasehold show`: everything about one name.

use std::fmt::Write;

use leasehold_proto::operate::Kind;

use crate::arguments::operator::Show;
use crate::command::fleet;
use crate::command::list::{holder_name, json, nothing, seen};
use crate::duration::shown_ms;
use crate::fleet::object::{ClientRow, Form, Holder, Listing, Object, Process, Step, Waits};
use crate::report::write_to_stdout;
use crate::table::{Style, clean};

/// The registration of a card, in milliseconds.
const CARD_MS: u64 = 3_600_000;
/// The holders, waiters and places that are shown.
const SHOWN: usize = 20;

/// Runs the verb and returns the exit code.
pub(crate) fn run(arguments: &Show) -> u8 {
    fleet::run(&arguments.servers, async |fleet| {
        let said = arguments.foreign.then_some(Kind::Plain);
        let listing = fleet.show_as(&arguments.name, said).await?;
        if arguments.output.json {
            write_to_stdout(&json(&listing));
        } else if let Some(object) = listing.objects.first() {
            let style = Style::of_stdout(arguments.output.color);
            write_to_stdout(&text(&listing, object, style));
        } else {
            return Err(nothing(&arguments.name));
        }
        Ok(u8::from(listing.objects.is_empty()))
    })
}

/// Returns the description of a name without colors, also of one that has nothing.
#[cfg(any(feature = "dashboard", feature = "top"))]
pub(crate) fn report(name: &str, listing: &Listing) -> String {
    let style = Style { width: None, has_color: false };
    match listing.objects.first() {
        Some(object) => text(listing, object, style),
        None => nothing(name).reason.to_string(),
    }
}

/// Returns the description of an object.
pub(crate) fn text(listing: &Listing, object: &Object, style: Style) -> String {
    let mut text = String::new();
    let _ =
        writeln!(text, "{}  {} on {}", style.bold(&clean(&object.name)), object.kind, clean(&object.node));
    let expiry = match object.expires_ms {
        Some(left) => format!("expires in {}", shown_ms(left)),
        None if object.holders.is_empty() => "no expiry".to_owned(),
        None if object.kind.has_lease() => "never expires".to_owned(),
        None => "no expiry".to_owned(),
    };
    line(&mut text, "key", &format!("{}, {expiry}", object.key));
    if let Some(permits) = object.permits {
        let total = permits.total.map(|total| format!(" of {total}")).unwrap_or_default();
        line(&mut text, "permits", &format!("{}{total} available", permits.available));
    }
    if let Some(count) = object.count {
        line(&mut text, "count", &count.to_string());
    }
    if let Some(stored_as) = &object.stored_as {
        line(
            &mut text,
            "type",
            &format!("a {stored_as} and not a lock; no lock of this name can be acquired while it exists"),
        );
    }
    if let Some(value) = &object.value {
        line(&mut text, "value", &format!("{value:?}, written by another library"));
    }
    if matches!(object.kind, Kind::Text | Kind::Counter) {
        line(
            &mut text,
            "",
            "--foreign shows it as a lock of another library, and lets `release` and `repair` act on it",
        );
    }
    for holder in object.holders.iter().take(SHOWN) {
        of_holder(&mut text, holder);
    }
    let more = object.holders_total.saturating_sub(SHOWN as u64);
    if more > 0 {
        line(&mut text, "", &format!("and {more} more holders"));
    }
    if !matches!(object.kind, Kind::Text | Kind::Counter) {
        of_waits(&mut text, &object.waiting);
    }
    of_chain(&mut text, &object.chain);
    for warning in &object.warnings {
        let _ = writeln!(
            text,
            "  {:9} {}",
            "!",
            style.warning(&clean(&format!("{}: {}", warning.name, warning.text)))
        );
    }
    for advice in advice(listing, object) {
        line(&mut text, "break it?", &advice);
    }
    let _ = writeln!(text, "\n{}", seen_of_clients(listing));
    text
}

fn line(text: &mut String, word: &str, rest: &str) {
    let _ = writeln!(text, "  {word:9} {}", clean(rest));
}

fn of_holder(text: &mut String, holder: &Holder) {
    let mut parts = vec![holder_name(holder)];
    if holder.count > 1 {
        parts.push(format!("{} holds", holder.count));
    }
    match (holder.age_ms, &holder.since) {
        (Some(age), Some(since)) => parts.push(format!("for {} (since {since})", shown_ms(age))),
        (Some(age), None) => parts.push(format!("for at least {}", shown_ms(age))),
        _ => parts.push("since an unknown time".to_owned()),
    }
    let lease = holder.lease_ms.map(|left| format!("{} of the lease left", shown_ms(left)));
    parts.extend(lease);
    parts.extend(holder.renewed.map(|renewed| if renewed { "renewed" } else { "not renewed" }.to_owned()));
    line(text, "holder", &parts.join(", "));
    match holder.form {
        Some(Form::Foreign) => {
            line(text, "", &format!("value \"{}\", written by another library", holder.owner));
        }
        Some(Form::Marked) => line(text, "", &format!("owner {}, marked by a waiter", holder.owner)),
        _ => line(text, "", &format!("owner {}", holder.owner)),
    }
    if let Some(token) = holder.token {
        line(text, "", &format!("token {token}"));
    }
    if let Some(note) = &holder.note {
        line(text, "", &format!("note: {note}"));
    }
    if let Some(Process { program, library, labels, .. }) = &holder.process {
        let labels: String = labels.iter().map(|(name, value)| format!(", {name} {value}")).collect();
        line(text, "", &format!("{program}, {library}{labels}"));
    }
}

fn of_waits(text: &mut String, waits: &Waits) {
    if !waits.is_any() {
        let unknown = waits.clients.is_none();
        line(text, "waiting", if unknown { "unknown: the server does not count listeners" } else { "none" });
        return;
    }
    let mut parts = Vec::new();
    parts.extend(waits.tasks.map(|tasks| counted(tasks, "acquire")));
    parts.extend(waits.clients.map(|clients| counted(clients, "client")));
    parts.extend((waits.queued > 0).then(|| format!("{} in the queue", waits.queued)));
    parts.extend(waits.longest_ms.map(|longest| format!("the longest for {}", shown_ms(longest))));
    line(text, "waiting", &parts.join(", "));
    for waiter in waits.by.iter().take(SHOWN) {
        let name = waiter.process.as_ref().map_or_else(|| waiter.client.clone(), Process::short);
        line(
            text,
            "",
            &format!(
                "{name}: {}, the longest for {}",
                counted(waiter.tasks, "acquire"),
                shown_ms(waiter.longest_ms)
            ),
        );
    }
    for place in waits.queue.iter().take(SHOWN) {
        let name = place.process.as_ref().map(|process| format!(" {}", process.short())).unwrap_or_default();
        let seen =
            place.seen_ms.map(|seen| format!(", last call {} ago", shown_ms(seen))).unwrap_or_default();
        let dead = if place.dead { ", dead" } else { "" };
        line(text, "", &format!("{}. {}{name}{seen}{dead}", place.position, place.owner));
    }
    let more = waits.queued.saturating_sub(SHOWN as u64);
    if more > 0 {
        line(text, "", &format!("and {more} more in the queue"));
    }
}

/// Says for what the holder waits itself.
fn of_chain(text: &mut String, chain: &[Step]) {
    let name =
        |process: Option<&Process>, client: &str| process.map_or_else(|| client.to_owned(), Process::short);
    for (place, step) in chain.iter().enumerate() {
        let Step { client, process, waits_for, longest_ms, held_by, held_by_process } = step;
        let holder =
            held_by.as_ref().map(|holder| format!(", held by {}", name(held_by_process.as_ref(), holder)));
        let waits = format!("waits for {waits_for:?} for {}", shown_ms(*longest_ms));
        let who = name(process.as_ref(), client);
        let indent = "  ".repeat(place);
        let word = if place == 0 { "blocked" } else { "" };
        line(text, word, &format!("{indent}{who} {waits}{}", holder.unwrap_or_default()));
    }
}

/// Returns a number with its noun.
fn counted(count: u64, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

/// Says what releasing the object would mean.
pub(crate) fn advice(listing: &Listing, object: &Object) -> Vec<String> {
    let mut advice = Vec::new();
    let Some(holder) = object.holders.first() else { return advice };
    let clients = &listing.sources.clients;
    let of = |rows: &[ClientRow], client: &str| {
        rows.iter().find(|row| row.client == client).map(|row| row.card_left_ms.unwrap_or(0))
    };
    let left = holder.lease_ms.map(|left| format!("{} of lease left", shown_ms(left)));
    let left = left.unwrap_or_else(|| "no end of its own".to_owned());
    let client = holder.client.as_deref().unwrap_or_default();
    let (silent, ended) = (of(&clients.silent, client), of(&clients.ended, client));
    let card = |left: u64| format!("card of {} ago", shown_ms(CARD_MS.saturating_sub(left)));
    advice.push(match (silent, ended, holder.renewed) {
        (Some(card_left), ..) => {
            format!("no answer, {}, {left}: safe if that process is dead", card(card_left))
        }
        (_, Some(card_left), _) => {
            format!(
                "its client does not listen any more, {}, {left}: safe if that process is dead",
                card(card_left)
            )
        }
        _ if holder.is_foreign() => {
            format!("another library has written it, {left}: ask the owners of that program; --foreign releases it")
        }
        _ if holder.process.is_none() => format!("its process is not known, {left}"),
        (.., Some(true)) => format!("its process answers and renews it, {left}: ask its owners first"),
        _ => format!("its process answers and does not renew it, {left}"),
    });
    if object.kind == Kind::Fenced {
        advice.push(
            "the lock is fenced: a resource that checks tokens refuses this holder after the next grant"
                .to_owned(),
        );
    }
    if object.kind.has_lease() && object.expires_ms.is_none() {
        let told = if holder.is_foreign() { " --foreign" } else { "" };
        advice.push(format!("it never ends: leasehold repair {:?} --fix no-expiry{told}", object.name));
    } else if object.kind != Kind::Latch {
        advice.push(notices(holder));
    }
    advice
}

/// Says when a holder notices that its hold is gone.
pub(crate) fn notices(holder: &Holder) -> String {
    match (holder.renewed, holder.lease_ms) {
        _ if holder.is_foreign() => {
            "the holder notices a release if its library renews, or compares its value when it releases"
                .to_owned()
        }
        (Some(true), _) => {
            "the holder notices a release at its next renewal, within a third of its lease".to_owned()
        }
        (Some(false), Some(left)) => {
            format!("the holder notices a release when its lease ends, in {}", shown_ms(left))
        }
        _ => "the holder notices a release at its next renewal, or at its own release".to_owned(),
    }
}

fn seen_of_clients(listing: &Listing) -> String {
    seen(listing)
        .split("; ")
        .filter(|part| !part.starts_with("no scan") && !part.contains("channels"))
        .collect::<Vec<_>>()
        .join("; ")
}
