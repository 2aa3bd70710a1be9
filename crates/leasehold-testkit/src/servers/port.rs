//! Ports for servers that tests kill and start again.
//!
//! # How it works
//! Binding port 0 would give a port of the range from which the kernel also takes the source ports of outgoing
//! connections. While such a server is down, any connection can take its port, even a client that tries to reach it
//! and ends up connected to itself. So this module tries ports below the usual ranges (32768 on Linux, 49152
//! elsewhere), and low enough that the same is true of the bus port of a cluster (10000 above).
//!
//! Invariant: a process never gives out one port twice before it has tried all of them. The caller tries another port
//! if a different process takes this port first.

use std::net::{Ipv4Addr, TcpListener};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

const FIRST: u32 = 12_000;
const COUNT: u32 = 10_000;

/// Returns a port of the loopback interface without a listener.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // A stride far larger than the distance of neighboring process ids, so concurrent test processes rarely collide.
    let start = process::id().wrapping_mul(7_919) % COUNT;
    (0..COUNT)
        .map(|_| FIRST + (start + NEXT.fetch_add(1, Ordering::Relaxed)) % COUNT)
        .map(|port| u16::try_from(port).expect("the range lies within 16 bits"))
        .find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
        .expect("one of ten thousand ports is free")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_differ_and_stay_below_the_ephemeral_range() {
        let (first, second) = (free_port(), free_port());
        assert_ne!(first, second);
        // The bus port of a node of a cluster is 10000 above.
        assert!(first.max(second) + 10_000 < 32_768, "{first} {second}");
    }
}
