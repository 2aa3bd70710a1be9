//! `leasehold clients`: the clients that answer, and those that do not.

use crate::arguments::operator::Clients;
use crate::command::fleet;
use crate::command::list::{INCOMPLETE, json};
use crate::duration::shown_ms;
use crate::fleet::object::{ClientRow, Listing};
use crate::report::write_to_stdout;
use crate::table::{Column, Style, table};

const COLUMNS: [Column; 7] = [
    Column { title: "PROCESS", least: 16, gives_way: 0, is_right: false },
    Column { title: "CLIENT", least: 9, gives_way: 2, is_right: false },
    Column { title: "AGE", least: 4, gives_way: 0, is_right: true },
    Column { title: "HOLDS", least: 5, gives_way: 0, is_right: true },
    Column { title: "WAITS", least: 5, gives_way: 0, is_right: true },
    Column { title: "PROGRAM", least: 8, gives_way: 1, is_right: false },
    Column { title: "LIBRARY", least: 8, gives_way: 3, is_right: false },
];

/// Runs the verb and returns the exit code.
pub(crate) fn run(arguments: &Clients) -> u8 {
    fleet::run(&arguments.servers, async |fleet| {
        let listing = fleet.clients().await?;
        let text = match arguments.output.json {
            true => json(&listing),
            false => text(&listing, Style::of_stdout(arguments.output.color)),
        };
        write_to_stdout(&text);
        Ok(if listing.complete { 0 } else { INCOMPLETE })
    })
}

fn text(listing: &Listing, style: Style) -> String {
    let clients = &listing.sources.clients;
    let says = |rows: &'_ [ClientRow], says: &'static str| {
        rows.iter().map(move |client| row(client, says)).collect::<Vec<_>>()
    };
    let rows =
        [says(&clients.living, ""), says(&clients.silent, "silent"), says(&clients.ended, "ended")].concat();
    let table = table(&COLUMNS, &rows, style);
    let missing: String =
        listing.sources.missing.iter().map(|what| format!("; {}", crate::table::clean(what))).collect();
    format!("{table}\n{} of {} clients answered{missing}\n", clients.answered, clients.asked)
}

/// Returns the cells of a client, with a word in place of the numbers that it does not tell.
fn row(client: &ClientRow, says: &str) -> Vec<String> {
    let number = |number: Option<u64>| number.map_or_else(|| says.to_owned(), |number| number.to_string());
    vec![
        client.process.short(),
        client.client.clone(),
        client.age_ms.map(shown_ms).unwrap_or_default(),
        number(client.holds),
        number(client.waits),
        client.process.program.clone(),
        client.process.library.clone(),
    ]
}
