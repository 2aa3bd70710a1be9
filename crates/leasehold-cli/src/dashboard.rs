//! `leasehold dashboard`: serves a page on this machine that shows who holds which lock.
//!
//! Invariant: the page is read-only unless the command was told otherwise, and shows nothing to a browser without the token
//! of this start.
//!
//! # How it works
//! One [reader](reader) asks the fleet every two seconds while anybody looks, and the [feed](feed) tells all viewers the
//! difference. The page gets its token from the part of the URL that browsers send to no server.

mod access;
mod feed;
mod listener;
mod metrics;
mod page;
mod reader;
mod site;

use std::sync::Arc;

use anyhow::{Error, anyhow};

use self::access::{Access, new_token};
use self::listener::Listener;
use self::reader::Reader;
use self::site::Site;
use crate::arguments::screens::Dashboard;
use crate::command::fleet;
use crate::exit::Failure;
use crate::fleet::Fleet;
use crate::report::{Report, write_to_stdout};
use crate::signals::Signals;

/// Runs the verb and returns the exit code.
pub(crate) fn run(arguments: &Dashboard) -> u8 {
    fleet::run(&arguments.servers, async |fleet| {
        serve(fleet, arguments, Report::new(false)).await?;
        Ok(0)
    })
}

/// Serves the page until a signal ends the program.
async fn serve(fleet: Fleet, arguments: &Dashboard, report: Report) -> Result<(), Failure> {
    if !arguments.listen.is_local() && !arguments.behind_proxy {
        return Err(Failure::usage(anyhow!(
            "the page has no TLS; listen on loopback or on a Unix socket, or put a TLS proxy in front and use \
             --behind-proxy"
        )));
    }
    let listener = Listener::open(&arguments.listen).await;
    let listener = listener.map_err(|error| {
        Failure::system(Error::new(error).context(format!("cannot listen on {:?}", arguments.listen)))
    })?;
    let token = match &arguments.token_file {
        Some(file) => read_token(file)?,
        None => new_token().map_err(Failure::system)?,
    };
    let mut origins: Vec<String> =
        arguments.allow_host.iter().map(|host| format!("https://{host}")).collect();
    let mut hosts = arguments.allow_host.clone();
    match listener.address() {
        Some(address) => {
            let port = address.port();
            hosts.extend(["127.0.0.1", "localhost", "[::1]"].map(|host| format!("{host}:{port}")));
            // Browsers leave the port of http out.
            hosts.extend(
                ["127.0.0.1", "localhost", "[::1]"].iter().filter(|_| port == 80).map(ToString::to_string),
            );
            hosts.push(address.to_string());
            origins.insert(0, format!("http://{address}"));
        }
        None => hosts.push("localhost".to_owned()),
    }
    for origin in &origins {
        write_to_stdout(&format!("{origin}/#token={token}\n"));
    }
    if origins.is_empty() {
        write_to_stdout(&format!("token {token}\n"));
    }
    if arguments.allow_release {
        report.warn(format_args!("viewers may release locks (--allow-release)"));
    }
    let reader = Arc::new(Reader::new(fleet, arguments.allow_release));
    let site = Site::new(
        Access::new(token, hosts),
        Arc::clone(&reader),
        (arguments.allow_release, arguments.metrics),
    );
    let mut signals = Signals::ending().map_err(Failure::system)?;
    tokio::select! {
        () = listener.serve(&site) => {}
        () = reader.run() => {}
        _ = signals.next() => {}
    }
    Ok(())
}

/// Reads the token of a file, without the end of its line.
fn read_token(file: &std::path::Path) -> Result<String, Failure> {
    let text = std::fs::read_to_string(file).map_err(|error| {
        Failure::usage(Error::new(error).context(format!("cannot read {}", file.display())))
    })?;
    let token = text.trim_end_matches(['\r', '\n']);
    if token.len() < 16 || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        let why = anyhow!("the token in {} is not 16 or more printable characters", file.display());
        return Err(Failure::usage(why));
    }
    Ok(token.to_owned())
}
