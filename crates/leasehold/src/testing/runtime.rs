//! The clock and the random numbers of a test's clients.
//!
//! Invariant: the clock is the world's, and identities follow from the order in which clients are made. Nothing here
//! reads the real time.

use std::future::{Future, pending};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use leasehold_proto::Moment;
use leasehold_store::{Alarm, Runtime, Watch};

use super::standstill::Party;
use super::world::World;

/// The runtime of one client.
#[derive(Clone, Debug)]
pub(super) struct VirtualRuntime {
    pub(super) world: Arc<World>,
    /// The number of clients made in this world.
    pub(super) made: Arc<AtomicU64>,
    pub(super) client: Party,
}

impl Runtime for VirtualRuntime {
    type Alarm = VirtualAlarm;

    fn now(&self) -> Moment {
        self.world.now()
    }

    /// Returns the number of the client, spread over all bits (SplitMix64), so that identities do not look alike.
    fn random(&self) -> [u8; 16] {
        let number = self.made.fetch_add(1, Ordering::SeqCst);
        let [high, low] = [2 * number + 1, 2 * number + 2].map(spread);
        (u128::from(high) << 64 | u128::from(low)).to_be_bytes()
    }

    fn start<M, D>(&self, driver: M) -> io::Result<()>
    where
        M: FnOnce() -> D + Send + 'static,
        D: Future<Output = ()> + 'static,
    {
        self.world.start(|| Box::pin(driver()))
    }

    fn alarm(&self) -> io::Result<VirtualAlarm> {
        Ok(VirtualAlarm { world: Arc::clone(&self.world), client: self.client })
    }

    fn watch(&self) -> Option<Watch> {
        let (world, client) = (Arc::clone(&self.world), self.client);
        Some(Box::new(move |wait, waker| world.watch((client, wait), "a client", waker)))
    }
}

/// The alarm of a driver.
#[derive(Debug)]
pub(super) struct VirtualAlarm {
    world: Arc<World>,
    client: Party,
}

impl Alarm for VirtualAlarm {
    async fn wait_until(&mut self, at: Moment) {
        if at == Moment::NEVER {
            pending::<()>().await;
        }
        self.world.sleep_until(at, self.client).await;
    }
}

const fn spread(number: u64) -> u64 {
    let mut bits = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}
