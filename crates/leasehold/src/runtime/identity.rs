//! How a client introduces itself to operators: its card, and who may see it.

use leasehold_proto::Call;
use leasehold_proto::operate::{self, Audience, Card};

/// A card, and the operators who may see it.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) card: Card,
    pub(crate) audience: Audience,
}

impl Identity {
    /// Returns the call that removes the card.
    pub(crate) fn leave(&self) -> Call {
        operate::leave(&self.audience, &self.card)
    }
}
