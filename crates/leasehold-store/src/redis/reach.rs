//! How far away an address is (this machine, a private network, or public), because that decides who can read plain
//! text on the way.
//!
//! Invariant: an address counts as public unless it certainly belongs to this machine or to a private network.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The distance of an address, from the nearest.
///
/// # Examples
/// ```
/// use leasehold_store::redis::Reach;
///
/// let [near, far] = ["10.1.2.3", "8.8.8.8"].map(|address| Reach::of(address.parse().unwrap()));
/// assert_eq!((near, far), (Reach::Private, Reach::Public));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// The same machine.
    Loopback,
    /// A private network, or one between a provider and its customers.
    Private,
    /// Every other network.
    Public,
}

impl Reach {
    /// Returns the distance of an address.
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        let (is_own, is_private) = match address.to_canonical() {
            IpAddr::V4(address) => {
                // The addresses between a provider and its customers, 100.64.0.0/10, which overlay networks use.
                let is_shared =
                    Ipv4Addr::from_bits(address.to_bits() & 0xFFC0_0000) == Ipv4Addr::new(100, 64, 0, 0);
                (
                    address.is_loopback() || address.is_unspecified(),
                    is_shared || address.is_private() || address.is_link_local(),
                )
            }
            IpAddr::V6(address) => (
                address.is_loopback() || address == Ipv6Addr::UNSPECIFIED,
                address.is_unique_local() || address.is_unicast_link_local(),
            ),
        };
        match (is_own, is_private) {
            (true, _) => Self::Loopback,
            (false, true) => Self::Private,
            (false, false) => Self::Public,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_of_this_machine_and_private_ones_are_not_public() {
        for (address, expected) in [
            ("127.0.0.1", Reach::Loopback),
            ("127.8.0.1", Reach::Loopback),
            ("0.0.0.0", Reach::Loopback),
            ("10.1.2.3", Reach::Private),
            ("172.16.0.1", Reach::Private),
            ("172.32.0.1", Reach::Public),
            ("192.168.1.1", Reach::Private),
            ("169.254.1.1", Reach::Private),
            ("100.64.0.1", Reach::Private),
            ("100.127.255.255", Reach::Private),
            ("100.128.0.1", Reach::Public),
            ("8.8.8.8", Reach::Public),
            ("::1", Reach::Loopback),
            ("::", Reach::Loopback),
            ("fd00::1", Reach::Private),
            ("fe80::1", Reach::Private),
            ("::ffff:127.0.0.1", Reach::Loopback),
            ("::ffff:10.0.0.1", Reach::Private),
            ("::ffff:8.8.8.8", Reach::Public),
            ("2001:4860:4860::8888", Reach::Public),
        ] {
            assert_eq!(Reach::of(address.parse().unwrap()), expected, "{address}");
        }
    }
}
