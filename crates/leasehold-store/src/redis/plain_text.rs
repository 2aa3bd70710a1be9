//! The notice that a password travels in plain text over a network that strangers may read.
//!
//! Invariant: a client tells it at most once, by the address to which it has connected and not by a name.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::url::Address;

/// The function that hears of the first connection that carries a password in plain text to a host that is neither
/// loopback nor private.
#[derive(Clone)]
pub struct PlainTextNotice(Arc<Notice>);

struct Notice {
    tell: fn(&Address),
    is_told: AtomicBool,
}

impl PlainTextNotice {
    /// Creates a notice. The function is called on the thread of the client and must not block.
    pub fn new(tell: fn(&Address)) -> Self {
        Self(Arc::new(Notice { tell, is_told: AtomicBool::new(false) }))
    }

    /// Notes a connection to a server by its name and its address.
    pub(super) fn connected(&self, server: &Address, to: IpAddr) {
        if is_public(to) && !self.0.is_told.swap(true, Ordering::Relaxed) {
            (self.0.tell)(server);
        }
    }
}

impl fmt::Debug for PlainTextNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PlainTextNotice")
    }
}

/// Returns true if the address is neither of this machine nor of a private network.
fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            // The addresses between a provider and its customers, 100.64.0.0/10, which overlay networks use.
            let is_shared =
                Ipv4Addr::from_bits(address.to_bits() & 0xFFC0_0000) == Ipv4Addr::new(100, 64, 0, 0);
            let is_own = address.is_loopback() || address.is_unspecified();
            !(is_own || is_shared || address.is_private() || address.is_link_local())
        }
        IpAddr::V6(address) => {
            let is_own = address.is_loopback() || address == Ipv6Addr::UNSPECIFIED;
            !(is_own || address.is_unique_local() || address.is_unicast_link_local())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn networks_of_this_machine_and_private_ones_are_not_public() {
        for (address, expected) in [
            ("127.0.0.1", false),
            ("127.8.0.1", false),
            ("0.0.0.0", false),
            ("10.1.2.3", false),
            ("172.16.0.1", false),
            ("172.32.0.1", true),
            ("192.168.1.1", false),
            ("169.254.1.1", false),
            ("100.64.0.1", false),
            ("100.127.255.255", false),
            ("100.128.0.1", true),
            ("8.8.8.8", true),
            ("::1", false),
            ("::", false),
            ("fd00::1", false),
            ("fe80::1", false),
            ("::ffff:10.0.0.1", false),
            ("::ffff:8.8.8.8", true),
            ("2001:4860:4860::8888", true),
        ] {
            assert_eq!(is_public(address.parse().unwrap()), expected, "{address}");
        }
    }

    #[test]
    fn the_first_public_connection_is_told_once() {
        static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());
        let notice = PlainTextNotice::new(|server| TOLD.lock().unwrap().push(server.to_string()));
        let server = |host: &str| Address::Tcp { host: host.to_owned(), port: 6379 };
        for (host, address) in [("a", "127.0.0.1"), ("b", "8.8.8.8"), ("c", "8.8.4.4")] {
            notice.connected(&server(host), address.parse().unwrap());
        }
        assert_eq!(*TOLD.lock().unwrap(), ["b:6379"]);
    }
}
