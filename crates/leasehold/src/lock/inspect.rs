//! Inspection and forced release of a lock.
//!
//! Invariant: these calls do not change this client's knowledge of its own holds.

use std::time::Duration;

use leasehold_proto::recipe::{Holder, Inspection, LockCalls, Remaining};
use leasehold_proto::{Owner, Verb};

use super::handle::Lock;
use super::kind::Kind;
use crate::error::{About, InspectError, InspectErrorKind};

impl<K: Kind> Lock<K> {
    /// Takes the lock away from its holder, whichever client that is, and wakes the waiters. Returns `false` if the
    /// lock was free.
    ///
    /// The holder learns of the loss at its next renewal.
    ///
    /// # Errors
    /// [`InspectError`]. If the `applied` of its store error is unknown, the lock may be free now.
    ///
    /// # Cancel safety
    /// Dropping the future does not cancel a call that was sent.
    ///
    /// # Losing the lease
    /// The holder's guards are not notified immediately. They learn of the loss at their next renewal. A holder with a
    /// fixed lease or without a connection trusts its hold until the end of the lease. Until then, a new holder can be
    /// valid at the same time.
    ///
    /// # Examples
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let lock = client.lock("order:42");
    /// lock.lock().await?.detach(); // a holder that never releases
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
        let call = self.kind.force_release(name).confirmed_by(self.terms.confirmed_by());
        self.handle.query(call, LockCalls::read_force_release).await
    }

    /// Returns true if any owner holds the lock.
    ///
    /// # Errors
    /// [`InspectError`] if the server does not answer.
    ///
    /// # Cancel safety
    /// This method is cancel safe.
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

    /// Returns the time for which the current hold lasts without a renewal, by the server's clock, or `None` if the
    /// lock is free.
    ///
    /// # Errors
    /// [`InspectError`] if the server does not answer, or if the key has no expiry.
    ///
    /// # Cancel safety
    /// This method is cancel safe.
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

    /// Returns who holds the lock, as the server reports it, or `None` if it is free. Of several readers it is one.
    ///
    /// The owner begins with the [client id](crate::Client::id), for Redisson the id of the connection manager. Redisson puts
    /// a thread id behind the colon. Of a plain lock it is the value of the key, unless this client holds it.
    ///
    /// # Errors
    /// [`InspectError`] if the server does not answer.
    ///
    /// # Cancel safety
    /// This method is cancel safe.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let lock = client.lock("order:42");
    /// assert_eq!(lock.holder().await?, None);
    /// let _guard = lock.lock().await?;
    /// let holder = lock.holder().await?.expect("it is held");
    /// assert!(holder.owner.starts_with(&client.id()));
    /// assert_eq!(holder.count, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn holder(&self) -> Result<Option<Holder>, InspectError> {
        self.first_holder().await.about(|| self.subject())
    }

    async fn first_holder(&self) -> Result<Option<Holder>, InspectErrorKind> {
        let name = self.name.as_ref().map_err(Clone::clone)?;
        let call = self.kind.holder(name).confirmed_by(self.terms.confirmed_by());
        let client = self.handle.client();
        self.handle.query(call, |reply| self.kind.read_holder(reply, client)).await
    }

    /// Returns true if this owner holds the lock, as the server reports it.
    ///
    /// The result covers the holds through this client only. The same owner's holds through another client count as
    /// holds of another owner.
    ///
    /// # Errors
    /// [`InspectError`] if the server does not answer.
    ///
    /// # Cancel safety
    /// This method is cancel safe.
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

    /// Returns the number of holds that this owner has of the lock, as the server reports it.
    ///
    /// The result covers the holds through this client only. The same owner's holds through another client count as
    /// holds of another owner.
    ///
    /// # Errors
    /// [`InspectError`] if the server does not answer.
    ///
    /// # Cancel safety
    /// This method is cancel safe.
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
        let name = self.name.as_ref().map_err(Clone::clone)?;
        let wire = match owner {
            Some(owner) => {
                let subject = self.kind.subject(name);
                self.handle.read(|engine, _| engine.wire_owner_of(&subject, owner))?
            }
            None => None,
        };
        let call = self.kind.inspect(name, wire).confirmed_by(self.terms.confirmed_by());
        self.handle.query(call, LockCalls::read_inspect).await
    }
}
