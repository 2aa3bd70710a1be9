//! Every public method that waits, each as a case.
//!
//! Invariant: a case carries the name of its method, as the library's sources have it, and `sources` compares the two.

use std::time::Duration;

use leasehold::{Client, Guard, Lock, RwLock, owner};
use leasehold_store::TokioRuntime;
use leasehold_store::redis::{ConnectOptions, Redis};
use leasehold_store::url::ServerUrl;

use crate::support::ms;

/// The timeout of the clients in these tests.
pub(crate) const TIMEOUT: Duration = ms(300);

/// Builds the table of cases, each with the name of its method.
macro_rules! cases {
    ($($case:ident => $method:literal,)*) => {
        /// One way to wait.
        #[derive(Clone, Copy, Debug)]
        pub(crate) enum Waiting {
            $($case,)*
        }

        /// Every way to wait.
        pub(crate) const ALL: &[Waiting] = &[$(Waiting::$case,)*];

        impl Waiting {
            /// The method, qualified by its type or module.
            pub(crate) const fn method(self) -> &'static str {
                match self {
                    $(Self::$case => $method,)*
                }
            }
        }
    };
}

cases! {
    Lock => "Lock::lock",
    Reenter => "Lock::lock",
    TryLock => "Lock::try_lock",
    TryLockFor => "Lock::try_lock_for",
    Run => "Lock::run",
    Scope => "owner::scope",
    Independent => "owner::independent",
    Release => "Guard::release",
    Ensure => "Guard::ensure",
    Extend => "Guard::extend",
    Lost => "Guard::lost",
    Asked => "Guard::asked",
    IsLocked => "Lock::is_locked",
    Remaining => "Lock::remaining",
    IsHeldBy => "Lock::is_held_by",
    HoldCount => "Lock::hold_count",
    Holder => "Lock::holder",
    ForceUnlock => "Lock::force_unlock",
    Read => "RwLock::read",
    TryRead => "RwLock::try_read",
    TryReadFor => "RwLock::try_read_for",
    Write => "RwLock::write",
    TryWrite => "RwLock::try_write",
    TryWriteFor => "RwLock::try_write_for",
    Upgrade => "RwLock::upgrade",
    TryUpgrade => "RwLock::try_upgrade",
    TryUpgradeFor => "RwLock::try_upgrade_for",
    Close => "Client::close",
    Connect => "ClientBuilder::connect",
    ConnectByDefault => "Client::connect",
    ConnectOver => "ClientBuilder::connect_over",
}

impl Waiting {
    /// Acquires the guard that the case needs, without faults. Its lease is short, so `lost` ends by itself.
    pub(crate) async fn guard(self, client: &Client, lock: &Lock) -> Option<Guard> {
        let guard = match self {
            Self::Release | Self::Ensure | Self::Extend | Self::Lost | Self::Asked | Self::Reenter => {
                lock.clone().lease(ms(400)).lock().await
            }
            Self::Upgrade | Self::TryUpgrade | Self::TryUpgradeFor => {
                client.rw_lock("sides").lease(ms(400)).read().await
            }
            _ => return None,
        };
        Some(guard.expect("all is well"))
    }

    /// Waits in this way. The result does not matter here.
    pub(crate) async fn wait(self, url: String, client: Client, lock: Lock, guard: Option<Guard>) {
        match self {
            Self::Lock | Self::Reenter => drop(lock.lock().await),
            Self::TryLock => drop(lock.try_lock().await),
            Self::TryLockFor => drop(lock.try_lock_for(ms(80)).await),
            Self::Run => drop(lock.run(async |_| tokio::task::yield_now().await).await),
            Self::Scope => nested(&client.lock("job")).await,
            Self::Independent => drop(owner::independent(lock.lock()).await),
            Self::IsLocked => drop(lock.is_locked().await),
            Self::Remaining => drop(lock.remaining().await),
            Self::IsHeldBy => drop(lock.is_held_by(&client.owner()).await),
            Self::HoldCount => drop(lock.hold_count(&client.owner()).await),
            Self::Holder => drop(lock.holder().await),
            Self::ForceUnlock => drop(lock.force_unlock().await),
            Self::Close => {
                let _ = client.close().await;
            }
            Self::Connect => drop(Client::builder().timeout(TIMEOUT).connect(&url).await),
            Self::ConnectByDefault => drop(Client::connect(&url).await),
            Self::ConnectOver => drop(over(url).await),
            Self::Release | Self::Ensure | Self::Extend | Self::Lost | Self::Asked => {
                self.wait_with(guard.expect("its guard was acquired")).await;
            }
            _ => self.wait_for_a_side(&client.rw_lock("sides").prefer_writers(), guard).await,
        }
    }

    async fn wait_with(self, guard: Guard) {
        match self {
            Self::Release => drop(guard.release().await),
            // Nobody asks, and the lease ends.
            Self::Asked => tokio::select! {
                _ = guard.asked() => {}
                _ = guard.lost() => {}
            },
            Self::Ensure => drop(guard.ensure(guard.remaining() + ms(1)).await),
            Self::Extend => drop(guard.extend(ms(500)).await),
            _ => {
                let _ = guard.lost().await;
            }
        }
    }
}

impl Waiting {
    async fn wait_for_a_side(self, lock: &RwLock, reader: Option<Guard>) {
        let reader = || reader.as_ref().expect("its guard was acquired");
        match self {
            Self::Read => drop(lock.read().await),
            Self::TryRead => drop(lock.try_read().await),
            Self::TryReadFor => drop(lock.try_read_for(ms(80)).await),
            Self::Write => drop(lock.write().await),
            Self::TryWrite => drop(lock.try_write().await),
            Self::TryWriteFor => drop(lock.try_write_for(ms(80)).await),
            Self::Upgrade => drop(lock.upgrade(reader()).await),
            Self::TryUpgrade => drop(lock.try_upgrade(reader()).await),
            Self::TryUpgradeFor => drop(lock.try_upgrade_for(reader(), ms(80)).await),
            _ => unreachable!("it is no side's"),
        }
    }
}

/// Two holds of a scope's owner.
async fn nested(lock: &Lock) {
    owner::scope(async {
        let outer = lock.lock().await;
        let inner = lock.lock().await;
        drop((outer, inner));
    })
    .await;
}

/// Connects a client over a custom store, which wraps the usual store.
async fn over(url: String) -> Result<Client, leasehold::ConnectError> {
    let builder = Client::builder().timeout(TIMEOUT);
    let options = ConnectOptions::default().timeout(TIMEOUT);
    let open = async move || Redis::connect(&ServerUrl::parse(&url).expect("it is a URL"), options).await;
    builder.connect_over(&TokioRuntime, "the server", open).await
}
