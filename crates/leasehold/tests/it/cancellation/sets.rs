//! The waiting methods of locks with several members, and of fenced writes, each as a case.
//!
//! Invariant: a case acquires what it needs without faults. Only its last wait meets the faults.

#![allow(clippy::async_yields_async, reason = "a case is set up, and what that gives is the wait")]

use futures_util::future::{BoxFuture, FutureExt};
use leasehold::fenced_writes::FencedScript;
use leasehold::{Client, MultiLock, QuorumLock, Redlock};

use crate::cancellation::waiting::TIMEOUT;
use crate::support::ms;

type Wait = BoxFuture<'static, ()>;

/// A method, and the set-up that leads to its wait.
pub(crate) struct Case {
    pub(crate) method: &'static str,
    pub(crate) begin: fn(Client, String) -> BoxFuture<'static, Wait>,
}

macro_rules! cases {
    ($($method:literal => |$client:ident, $url:ident| [$($set_up:tt)*] $wait:expr,)*) => {
        /// The table of cases.
        pub(crate) const SETS: &[Case] = &[$(Case {
            method: $method,
            begin: |$client, $url| async move {
                let _ = (&$client, &$url);
                $($set_up)*
                async move { let _ = (&$client, $wait.await); }.boxed()
            }
            .boxed(),
        },)*];
    };
}

fn several(client: &Client) -> MultiLock {
    MultiLock::of([client.lock("job").lease(ms(400)).into(), client.fair_lock("fair").lease(ms(400)).into()])
}

/// A ticket of a hold that ends soon.
async fn given(client: &Client) -> leasehold::Ticket {
    let guard = client.lock("job").lease(ms(400)).lock().await.unwrap();
    guard.into_ticket(ms(400)).await.unwrap()
}

/// A quorum of one node, reached through the proxy.
fn quorum(client: &Client) -> QuorumLock {
    let redlock = Redlock::builder().nodes_persist_every_write().over([client.clone()]);
    redlock.lock("job").lease(ms(400))
}

cases! {
    "MultiLock::lock" => |client, url| [let lock = several(&client);] lock.lock(),
    "MultiLock::try_lock" => |client, url| [let lock = several(&client);] lock.try_lock(),
    "MultiLock::run" => |client, url| [let lock = several(&client);] lock.run(async |_| tokio::task::yield_now().await),
    "MultiLock::try_lock_for" => |client, url| [let lock = several(&client);] lock.try_lock_for(ms(80)),
    "MultiGuard::release" => |client, url| [let guard = several(&client).lock().await.unwrap();] guard.release(),
    "MultiGuard::ensure" => |client, url| [let guard = several(&client).lock().await.unwrap();] guard.ensure(guard.remaining() + ms(1)),
    "MultiGuard::extend" => |client, url| [let guard = several(&client).lock().await.unwrap();] guard.extend(ms(500)),
    "MultiGuard::asked" => |client, url| [let guard = several(&client).lock().await.unwrap();] async move { tokio::select! { _ = guard.asked() => {}, _ = guard.lost() => {} } },
    "MultiGuard::lost" => |client, url| [let guard = several(&client).lock().await.unwrap();] guard.lost(),
    "Section::run" => |client, url| [let section = client.lock("job").lease(ms(400)).section();] section.wait(ms(80)).run(async |_| tokio::task::yield_now().await),
    "Section::enter" => |client, url| [let section = client.lock("job").lease(ms(400)).section();] section.enter(),
    "SectionGuard::run" => |client, url| [let entered = client.lock("job").lease(ms(400)).section().enter().await.unwrap();] entered.run(tokio::task::yield_now()),
    "QuorumLock::lock" => |client, url| [let lock = quorum(&client);] lock.lock(),
    "QuorumLock::try_lock" => |client, url| [let lock = quorum(&client);] lock.try_lock(),
    "QuorumLock::try_lock_for" => |client, url| [let lock = quorum(&client);] lock.try_lock_for(ms(80)),
    "QuorumGuard::release" => |client, url| [let guard = quorum(&client).lock().await.unwrap();] guard.release(),
    "QuorumGuard::ensure" => |client, url| [let guard = quorum(&client).lock().await.unwrap();] guard.ensure(guard.remaining() + ms(1)),
    "QuorumGuard::extend" => |client, url| [let guard = quorum(&client).lock().await.unwrap();] guard.extend(ms(500)),
    "QuorumLock::run" => |client, url| [let lock = quorum(&client);] lock.run(async |_| tokio::task::yield_now().await),
    "QuorumGuard::asked" => |client, url| [let guard = quorum(&client).lock().await.unwrap();] async move { tokio::select! { _ = guard.asked() => {}, _ = guard.lost() => {} } },
    "QuorumGuard::lost" => |client, url| [let guard = quorum(&client).lock().await.unwrap();] guard.lost(),
    "Redlock::connect" => |client, url| [] Redlock::connect([&*url]),
    "RedlockBuilder::connect" => |client, url| [let builder = Redlock::builder().node_timeout(TIMEOUT);] builder.connect([&*url]),
    "Redlock::close" => |client, url| [let redlock = Redlock::builder().over([client.clone()]);] redlock.close(),
    "FencedGuard::release" => |client, url| [let guard = client.fenced_lock("job").lease(ms(400)).lock().await.unwrap();] guard.release(),
    "Guard::into_ticket" => |client, url| [let guard = client.lock("job").lease(ms(400)).lock().await.unwrap();] guard.into_ticket(ms(500)),
    "FencedGuard::into_ticket" => |client, url| [let guard = client.fenced_lock("job").lease(ms(400)).lock().await.unwrap();] guard.into_ticket(ms(500)),
    "Client::adopt" => |client, url| [let ticket = given(&client).await;] client.adopt(&ticket),
    "Lock::adopt" => |client, url| [let ticket = given(&client).await; let lock = client.lock("job").lease(ms(400));] lock.adopt(&ticket),
    "FencedWrites::set" => |client, url| [let writes = client.fenced(7);] writes.set("kept", "x"),
    "FencedWrites::hset" => |client, url| [let writes = client.fenced(7);] writes.hset("kept hash", "f", "x"),
    "FencedWrites::run" => |client, url| [let writes = client.fenced(7);
        let script = FencedScript::new("return redis.call('get', KEYS[1])");] writes.run(&script, ["kept"], ["x"]),
    "Election::campaign" => |client, url| [let election = client.election("job").watchdog(ms(400));] election.campaign(),
    "Election::leader" => |client, url| [let election = client.election("job");] election.leader(),
    "Election::request_resign" => |client, url| [let election = client.election("job");] election.request_resign(),
    "Election::request_transfer" => |client, url| [let election = client.election("job");] election.request_transfer("b"),
    "Term::resign" => |client, url| [let term = client.election("job").watchdog(ms(400)).campaign().await.unwrap();] term.resign(),
    "Term::transfer_to" => |client, url| [let term = client.election("job").watchdog(ms(400)).campaign().await.unwrap();] term.transfer_to("nobody"),
}
