//! Looking at a lock, and taking it away.
//!
//! Invariant: nothing here changes what this client knows of its own holds.
//! Called by: users.

use std::time::Duration;

use leasehold_proto::engine::Subject;
use leasehold_proto::recipe::{Inspection, Remaining};
use leasehold_proto::{Owner, Verb};

use super::{Kind, Lock};
use crate::error::{About, InspectError, InspectErrorKind};

impl<K: Kind> Lock<K> {
    /// Takes the lock away from whoever holds it, and wakes the waiters. The holder finds out at its next renewal.
    /// `false` when it was free.
    ///
    /// # Errors
    /// [`InspectError`]; when its `applied` is unknown the lock may have been freed.
    ///
    /// # Cancel safety
    /// Dropping the future does not take back what was sent.
    ///
    /// # Losing the lease
    /// The holder's guards are not told at once: they find out at their next renewal, and one with a fixed lease, or that
    /// is cut off, trusts its hold to the end of its lease. Until then a new holder may be valid beside it.
    ///
    /// # Examples
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let lock = client.lock("order:42");
    /// lock.lock().await?.detach(); // somebody who does not give it back
    /// assert!(lock.force_unlock().await?);
    /// assert!(!lock.force_unlock().await?, "it was free");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn force_unlock(&self) -> Result<bool, InspectError> {
        let forced = self.force_release().await.about(|| self.subject());
        forced.map_err(|error| InspectError { during: Verb::ForceRelease, ..error })
    }

    async fn force_release(&self) -> Result<bool, InspectErrorKind> {
        let name = self.name.as_ref().map_err(Clone::clone)?;
        let recipe = self.kind.recipe();
        self.handle.ask(recipe.force_release(name), |reply| recipe.read_force_release(reply)).await
    }

    /// Whether anybody holds the lock.
    ///
    /// # Errors
    /// [`InspectError`] when the server did not answer.
    ///
    /// # Cancel safety
    /// Cancel safe.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let lock = client.lock("order:42");
    /// assert!(!lock.is_locked().await?);
    /// let guard = lock.lock().await?;
    /// assert!(lock.is_locked().await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn is_locked(&self) -> Result<bool, InspectError> {
        Ok(self.inspect(None).await?.remaining.is_some())
    }

    /// How long the present hold lasts by the server's clock unless it is renewed; `None` when the lock is free.
    ///
    /// # Errors
    /// [`InspectError`] when the server did not answer, or the key has no expiry.
    ///
    /// # Cancel safety
    /// Cancel safe.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let lock = client.lock("order:42");
    /// assert_eq!(lock.remaining().await?, None);
    /// let guard = lock.lock().await?;
    /// assert!(lock.remaining().await? > Some(guard.remaining()), "a client trusts it for less");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn remaining(&self) -> Result<Option<Duration>, InspectError> {
        match self.inspect(None).await?.remaining {
            None => Ok(None),
            Some(Remaining::For(span)) => Ok(Some(span)),
            Some(Remaining::NoExpiry) => Err(InspectErrorKind::NoExpiry).about(|| self.subject()),
        }
    }

    /// Whether this owner holds the lock, by the server's word.
    ///
    /// Only holds through this client are seen: the same owner's through another one are somebody else's.
    ///
    /// # Errors
    /// [`InspectError`] when the server did not answer.
    ///
    /// # Cancel safety
    /// Cancel safe.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let owner = client.owner();
    /// let lock = client.lock("order:42").owned_by(&owner);
    /// let guard = lock.lock().await?;
    /// assert!(lock.is_held_by(&owner).await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn is_held_by(&self, owner: &Owner) -> Result<bool, InspectError> {
        Ok(self.hold_count(owner).await? > 0)
    }

    /// How often this owner holds the lock, by the server's word.
    ///
    /// Only holds through this client are seen: the same owner's through another one are somebody else's.
    ///
    /// # Errors
    /// [`InspectError`] when the server did not answer.
    ///
    /// # Cancel safety
    /// Cancel safe.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let owner = client.owner();
    /// let lock = client.lock("order:42").owned_by(&owner);
    /// let (outer, inner) = (lock.lock().await?, lock.lock().await?);
    /// assert_eq!(lock.hold_count(&owner).await?, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn hold_count(&self, owner: &Owner) -> Result<u32, InspectError> {
        Ok(self.inspect(Some(*owner)).await?.hold_count)
    }

    async fn inspect(&self, owner: Option<Owner>) -> Result<Inspection, InspectError> {
        self.inspection(owner).await.about(|| self.subject())
    }

    async fn inspection(&self, owner: Option<Owner>) -> Result<Inspection, InspectErrorKind> {
        let (name, recipe) = (self.name.as_ref().map_err(Clone::clone)?, self.kind.recipe());
        let wire = match owner {
            Some(owner) => {
                let subject = Subject::new(name, recipe);
                self.handle.read(|engine, _| engine.wire_owner_of(&subject, owner))?
            }
            None => None,
        };
        self.handle.ask(recipe.inspect(name, wire), |reply| recipe.read_inspect(reply)).await
    }
}
