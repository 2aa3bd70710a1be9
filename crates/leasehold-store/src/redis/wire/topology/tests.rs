//! Tests of the topologies over the answers of their servers.

mod cluster;
mod sentinel;

use crate::redis::connect::ConnectOptions;
use crate::redis::wire::harness::Driver;
use crate::url::{Address, ServerUrl, Servers};

fn at(host: &str) -> Address {
    Address::Tcp { host: host.to_owned(), port: 1 }
}

/// Returns the driver of a wire to these servers, on RESP2.
fn driver(servers: Servers) -> Driver {
    let url = ServerUrl { servers, tls: false, credentials: None, db: 0 };
    Driver::of(url, ConnectOptions::default().resp3(false).at_once(1))
}

/// Returns the items as an array of RESP.
fn array(items: &[&str]) -> String {
    let items: String = items.iter().map(|item| format!("${}\r\n{item}\r\n", item.len())).collect();
    let count = items.matches('$').count();
    format!("*{count}\r\n{items}")
}
