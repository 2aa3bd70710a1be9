//! Asks all servers whether they still have a hold that its client has lost.
//!
//! Invariant: the question goes around the library, on connections of the kit.

use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

use leasehold_testkit::servers::ask;

/// The time limit for each server, of which some may be frozen.
const ANSWERS_WITHIN: Duration = Duration::from_millis(150);

/// Returns the plain ports of the servers whose hash `key` has the field. A server of a cluster that does not serve the
/// key names another server, which is asked too.
pub(crate) fn kept_by(ports: &[u16], key: &str, field: &str) -> Vec<u16> {
    let mut kept = BTreeSet::new();
    let mut asked: Vec<u16> = ports.to_vec();
    while let Some(port) = asked.pop() {
        match ask(port, &["HEXISTS", key, field], ANSWERS_WITHIN) {
            Ok(reply) if reply.number() == Some(1) => drop(kept.insert(port)),
            Ok(_) => {}
            // A node that joined after this worker started. One redirection is enough.
            Err(error) if ports.contains(&port) => {
                asked.extend(moved_to(&error).filter(|other| !ports.contains(other)));
            }
            Err(_) => {}
        }
    }
    kept.into_iter().collect()
}

/// Returns the fields of the hash on each server that has it.
pub(crate) fn fields(ports: &[u16], key: &str) -> Vec<String> {
    let fields = |port: &u16| {
        let reply = ask(*port, &["HKEYS", key], ANSWERS_WITHIN).ok()?;
        Some(reply.list().iter().map(|field| field.text().to_owned()).collect::<Vec<_>>())
    };
    ports.iter().filter_map(fields).flatten().collect()
}

/// Returns the port in an error such as `MOVED 866 127.0.0.1:7902`.
fn moved_to(error: &io::Error) -> Option<u16> {
    let text = error.to_string();
    let address = text.strip_prefix("MOVED ")?.split(' ').nth(1)?;
    address.rsplit(':').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirection_names_the_port() {
        assert_eq!(moved_to(&io::Error::other("MOVED 866 127.0.0.1:7902")), Some(7902));
        assert_eq!(moved_to(&io::Error::other("NOPERM no")), None);
    }

    #[test]
    fn a_server_that_has_the_field_keeps_the_hold() {
        let server = leasehold_testkit::servers::RedisServer::start();
        server.command(&["HSET", "lab:x", "me:1", "1"]).unwrap();
        assert_eq!(kept_by(&[server.port()], "lab:x", "me:1"), [server.port()]);
        assert!(kept_by(&[server.port()], "lab:x", "me:2").is_empty());
        assert_eq!(fields(&[server.port()], "lab:x"), ["me:1"]);
    }
}
