//! `leasehold list`: the locks of a fleet as a table.

use crate::arguments::operator::List;
use crate::command::fleet;
use crate::duration::shown_ms;
use crate::exit::Failure;
use crate::fleet::object::{Holder, Listing, Object};
use crate::report::write_to_stdout;
use crate::table::{Column, Style, table};

/// The exit code of a listing without what could not be seen, such as a silent client.
pub(crate) const INCOMPLETE: u8 = 3;

const COLUMNS: [Column; 9] = [
    Column { title: "NAME", least: 14, gives_way: 0, is_right: false },
    Column { title: "KIND", least: 4, gives_way: 3, is_right: false },
    Column { title: "HOLDER", least: 12, gives_way: 0, is_right: false },
    Column { title: "HELD", least: 4, gives_way: 0, is_right: true },
    Column { title: "LEASE", least: 5, gives_way: 2, is_right: true },
    Column { title: "WAITING", least: 7, gives_way: 0, is_right: true },
    Column { title: "LONGEST", least: 7, gives_way: 1, is_right: true },
    Column { title: "NOTE", least: 8, gives_way: 5, is_right: false },
    Column { title: "!", least: 6, gives_way: 4, is_right: false },
];

/// The table without rows. A string of another library is not told from data that is no lock.
const EMPTY: &str = "no locks, and no waiters; strings of other libraries for which nobody here waits are not listed: \
                     `leasehold show NAME --foreign` shows one\n";

/// Runs the verb and returns the exit code.
pub(crate) fn run(arguments: &List) -> u8 {
    fleet::run(&arguments.servers, async |fleet| {
        let listing = fleet.list(&arguments.query()).await?;
        if arguments.output.json {
            write_to_stdout(&json(&listing));
        } else {
            write_to_stdout(&text(&listing, Style::of_stdout(arguments.output.color)));
        }
        Ok(match (listing.complete, arguments.warnings && !listing.objects.is_empty()) {
            (_, true) => 1,
            (false, _) => INCOMPLETE,
            _ => 0,
        })
    })
}

/// Returns the JSON form of a listing.
pub(crate) fn json(listing: &Listing) -> String {
    let text = serde_json::to_string_pretty(listing).expect("the form has only texts and numbers");
    text + "\n"
}

/// Returns the table, and below it what could not be seen.
pub(crate) fn text(listing: &Listing, style: Style) -> String {
    let rows: Vec<_> = listing.objects.iter().map(row).collect();
    let table = if rows.is_empty() { EMPTY.to_owned() } else { table(&COLUMNS, &rows, style) };
    format!("{table}\n{}\n", seen(listing))
}

fn row(object: &Object) -> Vec<String> {
    let first = object.holders.first();
    let held = object.longest_hold_ms().map(shown_ms).unwrap_or_default();
    let lease = match first {
        Some(holder) => holder.lease_ms.map_or_else(
            || if object.kind.has_lease() { "never".to_owned() } else { String::new() },
            shown_ms,
        ),
        None => String::new(),
    };
    let waiting = match (object.waiting.most(), object.waiting.clients) {
        (0, None) => "?".to_owned(),
        (0, _) => String::new(),
        (count, _) => count.to_string(),
    };
    let longest = object.waiting.longest_ms.map(shown_ms).unwrap_or_default();
    let note = object.holders.iter().find_map(|holder| holder.note.clone()).unwrap_or_default();
    let warnings: Vec<_> = object.warnings.iter().map(|warning| warning.name).collect();
    vec![
        object.name.clone(),
        object.kind.name().to_owned(),
        holders(object),
        held,
        lease,
        waiting,
        longest,
        note,
        warnings.join(" "),
    ]
}

/// Says who holds an object, or what its number is.
fn holders(object: &Object) -> String {
    let more = match object.holders_total.saturating_sub(1) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let permits = object.permits.map(|permits| match permits.total {
        Some(total) => format!("{} of {total} free", permits.available),
        None => format!("{} free", permits.available),
    });
    let holder = object.holders.first().map(|holder| format!("{}{more}", holder_name(holder)));
    let number = object.count.map(|count| format!("at {count}"));
    let value = object.value.as_ref().map(|value| format!("{value:?}"));
    match (permits, holder) {
        (Some(permits), Some(holder)) => format!("{permits}: {holder}"),
        (permits, holder) => permits.or(holder).or(number).or(value).unwrap_or_default(),
    }
}

/// Returns the process of a holder, or its client and number.
pub(crate) fn holder_name(holder: &Holder) -> String {
    let side = holder.side.map(|side| format!(" ({side})")).unwrap_or_default();
    match (&holder.process, holder.owner.split_once(':')) {
        (Some(process), _) => format!("{}{side}", process.short()),
        _ if holder.is_foreign() => format!("another library's \"{}\"", holder.owner),
        (None, Some((client, thread))) => {
            format!("{}… thread {thread}{side}", client.chars().take(8).collect::<String>())
        }
        (None, None) => holder.owner.clone(),
    }
}

/// Says in one line what the listing does not show.
pub(crate) fn seen(listing: &Listing) -> String {
    let clients = &listing.sources.clients;
    let mut parts = vec![format!("{} of {} clients answered", clients.answered, clients.asked)];
    for (what, rows) in [("silent", &clients.silent), ("vanished", &clients.ended)] {
        let names: Vec<_> = rows.iter().take(5).map(|client| client.process.short()).collect();
        let more = rows.len().saturating_sub(5);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        if !names.is_empty() {
            parts.push(format!("{what}: {}{more}", names.join(", ")));
        }
    }
    if listing.sources.quorum > 1 {
        parts.push(format!(
            "{} is only one of {} servers of a quorum",
            listing.server, listing.sources.quorum
        ));
    }
    parts.extend(listing.sources.missing.iter().cloned());
    if listing.sources.channels.is_none() {
        parts.push("a server does not list its channels, so waiters of Redisson may be missing".to_owned());
    }
    match listing.sources.scan {
        Some(scan) if !scan.is_declined => {}
        Some(scan) => parts.push(format!(
            "the {} keys were not scanned, so holds of Redisson without waiters are missing: use --scan",
            scan.keys
        )),
        None => parts.push("no scan, so holds of Redisson without waiters are missing".to_owned()),
    }
    if listing.omitted > 0 {
        parts.push(format!("{} more with --all", listing.omitted));
    }
    crate::table::clean(&parts.join("; "))
}

/// The failure of a name without an object.
pub(crate) fn nothing(name: &str) -> Failure {
    Failure { code: 1, reason: anyhow::anyhow!("the name {name:?} is free and has no waiters") }
}
