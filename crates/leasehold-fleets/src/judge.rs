//! The judge: it reads the attempts of all workers and finds what broke.
//!
//! Invariant: a finding is certain, because it needs only facts that a worker saw.

mod kept;
mod losses;
mod overlaps;
mod probes;
mod tokens;
mod waits;

pub use kept::{KeptLoss, kept_losses};
pub use losses::{Losses, losses};
pub use overlaps::{Overlap, overlaps};
pub use probes::probes;
pub use tokens::{TokenBreach, tokens};
pub use waits::{Waits, waits};
