//! The methods by which a program asks its client for its health, holds and waits.

use std::time::Duration;

use super::Client;
use super::report::{Health, Holds, Pages, ServerState, Waits};

impl Client {
    /// Returns the id of the client: the first part of the owners of its holds, as the server and other clients see them.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let guard = client.lock("order:42").lock().await?;
    /// let hold = client.holds().next().expect("one hold");
    /// assert!(hold.owner.starts_with(&client.id()));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn id(&self) -> String {
        self.handle.client().to_string()
    }

    /// Returns the health of the client. This sends nothing.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let _guard = client.lock("order:42").lock().await?;
    /// let health = client.health();
    /// assert!(health.is_alive() && health.is_ready());
    /// assert_eq!(health.holds, 1);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn health(&self) -> Health {
        let pulse = self.handle.pulse();
        let (mut waiters, mut longest_wait) = (0, Duration::ZERO);
        for wait in self.waits() {
            waiters += 1;
            longest_wait = longest_wait.max(wait.waited);
        }
        let (mut holds, mut thinnest_lease) = (0, None::<Duration>);
        for hold in self.holds() {
            holds += 1;
            thinnest_lease = Some(thinnest_lease.unwrap_or(Duration::MAX).min(hold.remaining));
        }
        let server = match (pulse.is_closed, pulse.failing, pulse.last_answer) {
            (true, ..) => ServerState::Closed,
            (_, Some(since), _) => ServerState::Failing(since),
            (.., Some(_)) => ServerState::Answers,
            _ => ServerState::Unused,
        };
        Health {
            server,
            last_answer: pulse.last_answer,
            round_trips: pulse.trips.map(|trips| [trips.p50, trips.p99, trips.max]),
            holds,
            waiters,
            longest_wait,
            thinnest_lease,
            subscriptions: pulse.subscriptions,
            driver_late: pulse.driver_late,
            facts_dropped: pulse.facts_dropped,
            observers_failed: pulse.observers_failed,
            patience: self.handle.defaults().watchdog,
        }
    }

    /// Returns what the client holds. This sends nothing.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let _guard = client.fair_lock("order:42").lock().await?;
    /// for hold in client.holds() {
    ///     println!("{} {} for {:?}", hold.kind, hold.name, hold.held);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn holds(&self) -> Holds {
        Holds(Pages::new(&self.handle))
    }

    /// Returns what the client waits for. This sends nothing.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// assert_eq!(client.waits().count(), 0);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn waits(&self) -> Waits {
        Waits(Pages::new(&self.handle))
    }
}
