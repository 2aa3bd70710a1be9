//! Tickets: a hold that passes from one process to another.
//!
//! Invariant: a hold has one holder. The giver's is over before its ticket exists, and of all adopters the server lets one have
//! it. A ticket is no hold: until somebody adopts it, only the lease on the server keeps the lock closed.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures_util::FutureExt;
use leasehold_proto::engine::{Event, Outcome, Request, Wait};
use leasehold_proto::recipe::adopt;
use leasehold_proto::{Owner, WireOwner};

use super::acquire::acquire;
use super::fenced::FencedGuard;
use super::guard::Guard;
use super::handle::Lock;
use super::kind::{Claimed, Kind};
use crate::error::{About, AcquireErrorKind, EnsureErrorKind, SubjectKind, TicketError, TicketErrorKind};
use crate::runtime::ticket::Ticket as Pending;

/// The begin of every ticket, with the version of what follows.
const PREFIX: &str = "lh1.";
/// The longest text of a ticket. The longest name has 64 KiB, so no ticket is longer.
const TEXT_MAX: usize = 90_000;

/// The right to adopt a hold, once, as a text that another process can get in any way:
/// [`Guard::into_ticket`] makes it, and [`Client::adopt`](crate::Client::adopt) uses it.
///
/// Whoever has the text can adopt the hold, and so can release it. Treat it like a password until it is used. It contains the
/// lock's name, but not the server or the key prefix, so the adopting client needs the same ones. It protects against nobody
/// who can reach the server: a client that can read who holds a lock can write a ticket for the hold.
///
/// # Examples
/// ```
/// # use std::time::Duration;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = leasehold::Client::connect("memory://").await?;
/// # let other_process = client.clone();
/// let guard = client.lock("upload:42").lock().await?;
/// // ... accept the upload, and leave the rest to a worker ...
/// let text = guard.into_ticket(Duration::from_secs(60)).await?.to_string();
///
/// let ticket: leasehold::Ticket = text.parse()?;
/// let guard = other_process.adopt(&ticket).await?; // renewed from now on
/// assert_eq!(guard.name(), "upload:42");
/// assert!(other_process.adopt(&ticket).await.is_err(), "a ticket is for once");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
#[must_use = "the lock stays closed until its lease ends or somebody adopts the ticket"]
pub struct Ticket {
    kind: SubjectKind,
    name: String,
    giver: WireOwner,
}

/// A text that is no ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "not a ticket of leasehold (`lh1.` and letters); copy the whole text, or get one from a program of this version"
)]
#[non_exhaustive]
pub struct TicketTextError;

/// The kinds whose holds travel, with their letters in tickets.
const KINDS: [(SubjectKind, &str); 4] = [
    (SubjectKind::Lock, "l"),
    (SubjectKind::FairLock, "f"),
    (SubjectKind::FencedLock, "t"),
    (SubjectKind::SpinLock, "s"),
];

impl Ticket {
    /// Returns the name of the lock, without the client's key prefix.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the kind of the lock.
    #[must_use]
    pub const fn kind(&self) -> SubjectKind {
        self.kind
    }
}

/// Writes the text of the ticket, which is the ticket.
impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letter = KINDS.iter().find(|(kind, _)| *kind == self.kind).map_or("", |(_, letter)| letter);
        let text = format!("{letter} {} {}", self.giver, self.name);
        write!(f, "{PREFIX}{}", URL_SAFE_NO_PAD.encode(text))
    }
}

/// Hides what adopts the hold, so that no log has it.
impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket").field("kind", &self.kind).field("name", &self.name).finish_non_exhaustive()
    }
}

impl FromStr for Ticket {
    type Err = TicketTextError;

    fn from_str(text: &str) -> Result<Self, TicketTextError> {
        let read = || {
            let text = text.strip_prefix(PREFIX).filter(|_| text.len() <= TEXT_MAX)?;
            let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
            let mut words = std::str::from_utf8(&bytes).ok()?.splitn(3, ' ');
            let letter = words.next()?;
            let (kind, _) = KINDS.into_iter().find(|(_, known)| *known == letter)?;
            let giver = words.next()?.parse().ok()?;
            Some(Self { kind, giver, name: words.next()?.to_owned() })
        };
        read().ok_or(TicketTextError)
    }
}

impl Guard {
    /// Gives the hold away: ends it here, and returns the ticket with which another process can adopt it within `valid`.
    ///
    /// Until then the lock stays closed and nothing renews it. If nobody adopts the ticket, the lock is free after `valid`, or
    /// when its current lease ends if that is later. This process must not use what the lock protects any more. Locks, fair,
    /// fenced and spin locks can be given away, and only by an owner that holds them once. `valid` is bounded as for
    /// [`extend`](Self::extend).
    ///
    /// # Errors
    /// [`TicketError`], after which the guard is dropped and so the lock released.
    ///
    /// # Cancel safety
    /// Dropping the future releases the lock, unless it is given away already. Then its lease ends it.
    ///
    /// # Losing the lease
    /// A lost hold gives no ticket.
    ///
    /// # Examples
    /// See [`Ticket`].
    pub async fn into_ticket(self, valid: Duration) -> Result<Ticket, TicketError> {
        let given = async {
            let kind = self.subject_kind();
            if !KINDS.iter().any(|(travels, _)| *travels == kind) {
                return Err(TicketErrorKind::Unsupported);
            }
            self.extend(valid).await.map_err(|error| TicketErrorKind::Extend(error.kind))?;
            let ticket = Ticket { kind, name: self.name().to_owned(), giver: self.wire_owner() };
            match Pending::new(self.handle(), |id| Event::Give { id, hold: self.id() }).await? {
                Outcome::Released(Ok(true)) => Ok(ticket),
                // Between the two steps the hold may have been lost.
                _ => Err(self.lost().now_or_never().map_or(TicketErrorKind::Shared, |reason| {
                    TicketErrorKind::Extend(EnsureErrorKind::Lost(reason))
                })),
            }
        };
        given.await.about(|| self.subject())
    }
}

impl FencedGuard {
    /// Gives the hold away. The adopter gets a higher token. See [`Guard::into_ticket`].
    ///
    /// # Errors
    /// As [`Guard::into_ticket`].
    ///
    /// # Cancel safety
    /// As [`Guard::into_ticket`].
    ///
    /// # Losing the lease
    /// As [`Guard::into_ticket`].
    ///
    /// # Examples
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let lock = client.fenced_lock("stock:42");
    /// let guard = lock.lock().await?;
    /// let token = guard.token();
    /// let ticket = guard.into_ticket(Duration::from_secs(60)).await?;
    /// assert!(lock.adopt(&ticket).await?.token() > token);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn into_ticket(self, valid: Duration) -> Result<Ticket, TicketError> {
        Guard::from(self).into_ticket(valid).await
    }
}

impl<K: Kind> Lock<K> {
    /// Adopts the hold of a ticket for this lock, with the lease and the other terms of this handle.
    ///
    /// Of all that adopt a ticket, one gets the hold. It is a hold like any other from then on, with an owner of its own. It
    /// waits for nobody, so the fair lock's queue does not matter.
    ///
    /// # Errors
    /// [`TicketError`]: [`TicketErrorKind::Gone`] if nothing is left to adopt. If the outcome is unknown, the client undoes the
    /// adoption, which uses the ticket up and frees the lock.
    ///
    /// # Cancel safety
    /// Dropping the future before it is done has the client undo an adoption in flight, so the ticket may be used up, and the
    /// lock free.
    ///
    /// # Losing the lease
    /// See [`Guard`](crate::Guard).
    ///
    /// # Examples
    /// See [`Ticket`].
    pub async fn adopt(&self, ticket: &Ticket) -> Result<K::Guard, TicketError> {
        let adopted = async {
            let own = self.kind.subject_kind();
            let request = self.request(|_| Wait::Once).map_err(TicketErrorKind::Acquire)?;
            if own != ticket.kind || self.handle().defaults().as_written(&request.subject.name) != ticket.name
            {
                return Err(TicketErrorKind::OtherLock);
            }
            let recipe = adopt::of(request.subject.recipe).ok_or(TicketErrorKind::Unsupported)?;
            let subject = leasehold_proto::engine::Subject { recipe, ..request.subject };
            // It re-enters nothing, neither an earlier adoption of this ticket nor a hold that was lost. The server says then
            // whether the ticket is used.
            let request = Request {
                subject,
                giver: Some(ticket.giver),
                reenters: false,
                backoff: None,
                share: None,
                ..request
            };
            let alone = Request { owner: Owner::unique(), ..request.clone() };
            let adopted = match acquire(self.handle(), request, own).await {
                Err(AcquireErrorKind::AlreadyHeld) => acquire(self.handle(), alone, own).await,
                adopted => adopted,
            };
            let guard = adopted.map_err(TicketErrorKind::Acquire)?.ok_or(TicketErrorKind::Gone)?;
            self.note_on(&guard);
            Ok(K::guard(Claimed(guard)))
        };
        adopted.await.about(|| self.subject())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticket(name: &str) -> Ticket {
        let giver = "ffffffff-ffff-4fff-bfff-ffffffffffff:7".parse().unwrap();
        Ticket { kind: SubjectKind::FencedLock, name: name.to_owned(), giver }
    }

    #[test]
    fn a_ticket_is_read_as_it_is_written() {
        for name in ["a", "ab", "abc", "order 42", "ä\u{1f512}", &"x".repeat(1_000)] {
            let text = ticket(name).to_string();
            assert!(text.starts_with("lh1.") && text.bytes().all(|byte| byte.is_ascii_graphic()), "{text}");
            assert_eq!(text.parse(), Ok(ticket(name)));
        }
    }

    #[test]
    fn a_changed_text_is_no_ticket() {
        let text = ticket("order:42").to_string();
        for other in [
            "",
            "lh1.",
            "lh2.abcd",
            "lh1.====",
            &text[1..],
            &text[..10],
            &format!("{text}="),
            &format!("{text} "),
        ] {
            assert_eq!(other.parse::<Ticket>(), Err(TicketTextError), "{other}");
        }
    }

    #[test]
    fn a_log_of_a_ticket_does_not_adopt_it() {
        assert!(!format!("{:?}", ticket("order:42")).contains("ffffffff"));
    }
}
