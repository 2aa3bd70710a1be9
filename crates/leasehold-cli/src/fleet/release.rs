//! Releases one hold, if it is still the one that was shown.

use std::fmt;

use anyhow::anyhow;
use leasehold_proto::operate::{Kind, Mode, Release};

use super::object::{AgeIs, Holder, Listing, Object};
use super::servers::Servers;
use crate::exit::Failure;

/// What became of a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Released {
    /// The hold is released.
    Done,
    /// The object had no holder.
    WasFree,
    /// Another owner holds it, or the same one since a later time.
    ChangedHands,
}

/// What tells a hold from an earlier one of the same owner, as far as it is known.
///
/// An owner is no hold: a thread of Redisson acquires again with the same owner, and the holds that a client of this library
/// hands to its own waiters have one owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shown {
    age_ms: Option<u64>,
    token: Option<u64>,
    /// True if the operator says that a string is a lock of another library, and to be released.
    is_foreign: bool,
}

impl Shown {
    pub(crate) fn of(holder: &Holder) -> Self {
        let age_ms = holder.age_ms.filter(|_| holder.age_is == Some(AgeIs::Exact));
        Self { age_ms, token: holder.token, is_foreign: false }
    }

    /// Takes the operator's word that a string is a lock of another library.
    pub(crate) const fn or_foreign(self, is_foreign: bool) -> Self {
        Self { is_foreign, ..self }
    }

    /// Returns the kind that the operator says.
    pub(super) fn said(self) -> Option<Kind> {
        self.is_foreign.then_some(Kind::Plain)
    }

    /// Returns true if another hold of the same owner would be taken for this one.
    pub(crate) const fn is_by_owner_alone(self) -> bool {
        self.age_ms.is_none() && self.token.is_none()
    }

    /// Returns false if the holder has certainly acquired again since.
    fn may_be(self, holder: &Holder) -> bool {
        let now = Self::of(holder);
        let is_younger = self.age_ms.zip(now.age_ms).is_some_and(|(shown, now)| now < shown);
        let has_other_token = self.token.zip(now.token).is_some_and(|(shown, now)| now != shown);
        !is_younger && !has_other_token
    }
}

impl fmt::Display for Released {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Done => "released",
            Self::WasFree => "it was already free",
            Self::ChangedHands => {
                "another owner holds it by now, or this owner acquired it again; that hold was not released"
            }
        })
    }
}

impl Servers {
    /// Releases the hold of an owner, as a listing has just shown it, unless it is not the one that was shown before.
    pub(super) async fn release(
        &self,
        listing: &Listing,
        owner: &str,
        shown: Shown,
    ) -> Result<Released, Failure> {
        let Some(object) = listing.objects.first().filter(|object| has_holders(object)) else {
            return Ok(Released::WasFree);
        };
        let is_shown = |holder: &&Holder| holder.owner == owner && shown.may_be(holder);
        let Some(holder) = object.holders.iter().find(is_shown) else {
            return Ok(Released::ChangedHands);
        };
        let mode = holder.side.map(|side| if side == "write" { Mode::Write } else { Mode::Read });
        let key = self.key(&object.name)?;
        if holder.is_foreign() && !shown.is_foreign {
            return Err(is_foreign(&object.name));
        }
        let release = match &holder.value {
            Some(value) => Some(Release::of_value(&key, value)),
            None => Release::new(&key, object.kind, mode, owner),
        };
        let release =
            release.ok_or_else(|| Failure::usage(anyhow!("a {} has no hold of {owner:?}", object.kind)))?;
        let reply = self.run(release.call()).await?;
        let is_released = release.read(&reply).ok_or_else(|| super::ask::strange(&reply))?;
        Ok(if is_released { Released::Done } else { Released::ChangedHands })
    }
}

/// Returns the failure of an operator who has not said that a string is a lock of another library.
pub(crate) fn is_foreign(name: &str) -> Failure {
    Failure::usage(anyhow!(
        "{name:?} is a string that another library has written, which may not be a lock; if it is one, use --foreign"
    ))
}

fn has_holders(object: &Object) -> bool {
    !object.holders.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(age_ms: Option<u64>, token: Option<u64>) -> Holder {
        Holder { age_ms, age_is: age_ms.map(|_| AgeIs::Exact), token, ..Holder::default() }
    }

    #[test]
    fn a_younger_hold_and_one_with_another_token_are_other_holds_of_the_owner() {
        let shown = Shown::of(&holder(Some(100), Some(7)));
        assert!(shown.may_be(&holder(Some(100), Some(7))) && shown.may_be(&holder(None, None)));
        assert!(!shown.may_be(&holder(Some(99), Some(7))) && !shown.may_be(&holder(Some(100), Some(8))));
        let of_java = Shown::of(&holder(None, None));
        assert!(of_java.is_by_owner_alone() && of_java.may_be(&holder(Some(1), Some(1))));
    }
}
