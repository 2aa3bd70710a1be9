//! An application's tests of its own code: a small payment service, and the fate of its orders under every fault of
//! the locks.
//!
//! The service is written as an application would write it. It takes a client and a bank. The tests pass a client of
//! [`testing::Server`](leasehold::testing::Server), and a bank whose charges take time on the server's clock.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold::error::AcquireErrorKind;
use leasehold::testing::Server;
use leasehold::{AcquireError, Client, LostReason, RunError};
use tokio::task::JoinHandle;

/// The duration of one charge.
const CHARGING: Duration = Duration::from_secs(20);
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

/// An entry in the bank's journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
    Begun(u64),
    Paid(u64),
}

/// A bank whose charges take time.
#[derive(Clone)]
struct Bank {
    clock: Server,
    entries: Arc<Mutex<Vec<Entry>>>,
}

impl Bank {
    fn new(clock: &Server) -> Self {
        Self { clock: clock.clone(), entries: Arc::default() }
    }

    fn is_paid(&self, order: u64) -> bool {
        self.entries().contains(&Entry::Paid(order))
    }

    async fn charge(&self, order: u64) {
        self.entries.lock().unwrap().push(Entry::Begun(order));
        self.clock.sleep(CHARGING).await;
        self.entries.lock().unwrap().push(Entry::Paid(order));
    }

    fn entries(&self) -> Vec<Entry> {
        self.entries.lock().unwrap().clone()
    }
}

/// The result of a payment.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Payment {
    Paid,
    PaidBefore,
    /// The charge stopped halfway, so an operator must look at the order.
    Stopped(LostReason),
    /// The charge did not begin, so the caller can try again.
    NotNow(AcquireError),
}

/// The code under test, which charges each order once, however many copies of the service run.
#[derive(Clone)]
struct PaymentService {
    locks: Client,
    bank: Bank,
}

impl PaymentService {
    async fn pay(&self, order: u64) -> Payment {
        let lock = self.locks.lock(format!("order:{order}"));
        let outcome = lock.run(async |_guard| {
            if self.bank.is_paid(order) {
                return Payment::PaidBefore;
            }
            self.bank.charge(order).await;
            Payment::Paid
        });
        match outcome.await {
            Ok(payment) => payment,
            Err(RunError::Lost { reason, .. }) => Payment::Stopped(reason),
            Err(RunError::Acquire(error)) => Payment::NotNow(error),
            Err(other) => panic!("{other:?}"),
        }
    }

    /// Starts a payment in a task of its own, as a program would.
    fn start(&self, order: u64) -> JoinHandle<Payment> {
        let service = self.clone();
        tokio::spawn(async move { service.pay(order).await })
    }
}

/// A service with a client of its own.
async fn service(server: &Server, bank: &Bank) -> PaymentService {
    PaymentService { locks: server.client().await.unwrap(), bank: bank.clone() }
}

#[tokio::test]
async fn an_order_is_paid_once_by_any_number_of_services() {
    let server = Server::new();
    let bank = Bank::new(&server);
    let mut payments = Vec::new();
    for _ in 0..5 {
        payments.push(service(&server, &bank).await.start(42));
    }
    server.advance(HOUR).await;
    let mut outcomes = Vec::new();
    for payment in payments {
        outcomes.push(payment.await.unwrap());
    }
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == Payment::Paid).count(), 1, "{outcomes:?}");
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == Payment::PaidBefore).count(), 4);
    assert_eq!(bank.entries(), [Entry::Begun(42), Entry::Paid(42)]);
    assert_eq!(server.holder("order:42"), None);
}

#[tokio::test]
async fn different_orders_are_paid_at_the_same_time() {
    let server = Server::new();
    let bank = Bank::new(&server);
    let service = service(&server, &bank).await;
    let payments = [service.start(1), service.start(2)];
    server.advance(CHARGING).await;
    for payment in payments {
        assert_eq!(payment.await.unwrap(), Payment::Paid);
    }
    assert_eq!(server.elapsed(), CHARGING);
}

#[tokio::test]
async fn a_charge_stops_when_its_lock_is_deleted() {
    let server = Server::new();
    let bank = Bank::new(&server);
    let payment = service(&server, &bank).await.start(42);
    server.advance(SECOND).await;
    server.delete("order:42");
    // The watchdog renews every ten seconds, so it finds the loss before the charge ends.
    server.advance(HOUR).await;
    assert_eq!(payment.await.unwrap(), Payment::Stopped(LostReason::Deleted));
    assert_eq!(bank.entries(), [Entry::Begun(42)]);
}

#[tokio::test]
async fn a_charge_stops_when_its_lease_expired_and_another_service_has_the_lock() {
    let server = Server::new();
    let bank = Bank::new(&server);
    let (one, other) = (service(&server, &bank).await, service(&server, &bank).await);
    let stopped = one.start(42);
    server.advance(SECOND).await;
    server.expire("order:42");
    let paid = other.start(42);
    server.advance(HOUR).await;
    assert_eq!(stopped.await.unwrap(), Payment::Stopped(LostReason::TakenOver));
    assert_eq!(paid.await.unwrap(), Payment::Paid);
    assert_eq!(bank.entries(), [Entry::Begun(42), Entry::Begun(42), Entry::Paid(42)]);
}

#[tokio::test]
async fn a_charge_continues_through_a_short_outage() {
    let server = Server::new();
    let bank = Bank::new(&server);
    let payment = service(&server, &bank).await.start(42);
    server.advance(9 * SECOND).await;
    server.set_reachable(false);
    server.advance(5 * SECOND).await;
    server.set_reachable(true);
    server.advance(HOUR).await;
    assert_eq!(payment.await.unwrap(), Payment::Paid);
    assert_eq!(server.holder("order:42"), None);
}

#[tokio::test]
async fn a_disconnected_service_does_not_charge_an_order_of_another_service() {
    let server = Server::new();
    let bank = Bank::new(&server);
    let (one, other) = (service(&server, &bank).await, service(&server, &bank).await);
    // The service holds the lock, and a fault stops it before it begins.
    let held_up = one.locks.lock("order:42").lock().await.unwrap();
    server.connection(&one.locks).set_reachable(false);
    let paid = other.start(42);
    server.advance(29 * SECOND).await;
    assert!(held_up.is_held() && !paid.is_finished(), "no other owner acquires while the hold is trusted");
    server.advance(SECOND).await;
    assert!(!held_up.is_held(), "it stops trusting before the other begins");
    server.advance(HOUR).await;
    assert_eq!(paid.await.unwrap(), Payment::Paid);
}

#[tokio::test]
async fn a_lost_reply_costs_time_and_no_second_charge() {
    let server = Server::new();
    let bank = Bank::new(&server);
    let service = service(&server, &bank).await;
    // The server grants the lock, but the service never receives the reply.
    server.lose_replies(true);
    let payment = service.start(42);
    server.advance(SECOND).await;
    assert!(server.holder("order:42").is_some());
    // The wait goes on after the first lost reply, for a timeout more.
    server.advance(6 * SECOND).await;
    let Payment::NotNow(AcquireError { kind: AcquireErrorKind::Unknown { free_within, .. }, .. }) =
        payment.await.unwrap()
    else {
        panic!("the outcome is unknown")
    };
    server.lose_replies(false);
    server.advance(free_within.bound().expect("the lease bounds it")).await;
    assert_eq!(server.holder("order:42"), None, "free again within the time that the error says");
    let payment = service.start(42);
    server.advance(CHARGING).await;
    assert_eq!(payment.await.unwrap(), Payment::Paid);
    assert_eq!(bank.entries(), [Entry::Begun(42), Entry::Paid(42)]);
}

#[tokio::test]
async fn a_connection_dropped_during_a_charge_affects_no_service() {
    let server = Server::new();
    let bank = Bank::new(&server);
    let (one, other) = (service(&server, &bank).await, service(&server, &bank).await);
    let (paid, waiting) = (one.start(42), other.start(42));
    for _ in 0..5 {
        server.advance(3 * SECOND).await;
        server.drop_connection();
    }
    server.advance(HOUR).await;
    assert_eq!(paid.await.unwrap(), Payment::Paid);
    assert_eq!(waiting.await.unwrap(), Payment::PaidBefore);
}

#[tokio::test]
async fn a_service_without_a_server_reports_that_nothing_started() {
    let server = Server::new();
    let bank = Bank::new(&server);
    let service = service(&server, &bank).await;
    server.set_reachable(false);
    let payment = service.start(42);
    server.advance(HOUR).await;
    let outcome = payment.await.unwrap();
    assert!(
        matches!(&outcome, Payment::NotNow(error) if error.is_unavailable() && error.is_retryable()),
        "{outcome:?}"
    );
    assert_eq!(bank.entries(), []);
}

#[tokio::test]
async fn a_batch_that_takes_hours_keeps_its_lock() {
    let server = Server::new();
    let client = server.client().await.unwrap();
    let batch = tokio::spawn({
        let server = server.clone();
        async move { client.lock("batch").run(async |_guard| server.sleep(6 * HOUR).await).await }
    });
    server.settle().await;
    let owner = server.holder("batch").unwrap().wire_owner;
    for _ in 0..5 {
        server.advance(HOUR).await;
        assert_eq!(server.holder("batch").unwrap().wire_owner, owner);
    }
    server.advance(HOUR).await;
    assert_eq!(batch.await.unwrap(), Ok(()));
    assert_eq!(server.holder("batch"), None);
}
