//! The release of a hold.

use std::fmt;

use anyhow::anyhow;
use leasehold_proto::operate::{Mode, Release};

use super::object::{Listing, Object};
use super::servers::Servers;
use crate::exit::Failure;

/// What became of a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Released {
    /// The hold is released.
    Done,
    /// The object had no holder.
    WasFree,
    /// Another owner holds it.
    ChangedHands,
}

impl fmt::Display for Released {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Done => "released",
            Self::WasFree => "it was free already",
            Self::ChangedHands => "another owner holds it, which was not released",
        })
    }
}

impl Servers {
    /// Releases the hold of an owner, as a listing has just shown it.
    pub(super) async fn release(&self, listing: &Listing, owner: &str) -> Result<Released, Failure> {
        let Some(object) = listing.objects.first().filter(|object| has_holders(object)) else {
            return Ok(Released::WasFree);
        };
        let Some(holder) = object.holders.iter().find(|holder| holder.owner == owner) else {
            return Ok(Released::ChangedHands);
        };
        let mode = holder.side.map(|side| if side == "write" { Mode::Write } else { Mode::Read });
        let key = self.key(&object.name)?;
        let release = Release::new(&key, object.kind, mode, owner)
            .ok_or_else(|| Failure::usage(anyhow!("a {} has no hold of {owner:?}", object.kind)))?;
        let reply = self.run(release.call()).await?;
        let is_released = release.read(&reply).ok_or_else(|| super::ask::strange(&reply))?;
        Ok(if is_released { Released::Done } else { Released::ChangedHands })
    }
}

fn has_holders(object: &Object) -> bool {
    !object.holders.is_empty()
}
