//! Sections of the expirable semaphore, which run a body with one permit.

use std::time::Duration;

use super::expirable::ExpirableSemaphore;
use super::permits::Permits;
use crate::error::{RunError, Subject};
use crate::lock::section::{Acquirable, Acquired, Sealed, Section};
use crate::owner::BodyContext;

impl ExpirableSemaphore {
    /// Creates a section, which runs a body with one permit, at most `most` bodies at a time across all processes.
    ///
    /// The run sets the number of permits to `most` if it was never set, then acquires one permit. Each client makes
    /// the call that sets the number at most once a minute.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let downloads = client.expirable_semaphore("downloads");
    /// downloads.section(3).run(async |_permit| println!("one of three at most")).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn section(&self, most: u32) -> Section<OnePermit> {
        Section::of(OnePermit { semaphore: self.clone(), most })
    }
}

/// One permit of an [`ExpirableSemaphore`] for a body to run under. Permits do not re-enter, so a body that acquires
/// another permit of the same semaphore holds two.
#[derive(Clone, Debug)]
pub struct OnePermit {
    semaphore: ExpirableSemaphore,
    most: u32,
}

impl Sealed for OnePermit {
    type Held = Permits;

    fn subject(&self) -> Subject {
        self.semaphore.subject()
    }

    async fn acquire(&self, wait: Option<Duration>) -> Result<Option<Acquired<Permits>>, RunError> {
        self.semaphore.set_permits_once(self.most).await?;
        let guard = match wait {
            None => Some(self.semaphore.acquire().await?),
            Some(wait) => self.semaphore.try_acquire_for(wait).await?,
        };
        Ok(guard.map(|guard| Acquired { guard, context: BodyContext::nothing() }))
    }
}

impl Acquirable for OnePermit {
    type Guard = Permits;
}
