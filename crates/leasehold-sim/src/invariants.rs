//! The promises, as observers of a history, with one file for each group of ids.
//!
//! Invariant: an observer judges by the observations of users and the actions of the server. It does not read the state
//! of the engine, except for the validity of a guard, which users read too.

mod breaches;
mod claims;
mod deadlines;
mod election;
mod errors;
mod exclusion;
mod fair;
mod forced;
mod hand_off;
mod invariant;
mod latch;
mod leaked_holds;
mod losses;
mod lost_replies;
mod min_holds;
mod multi;
mod permits;
mod read_write;
mod reasons;
mod reentry;
mod renewals;
mod replaced;
mod requests;
mod rivals;
mod server_keeps;
mod tokens;
mod validity;
mod wake_ups;
mod writes;

pub(crate) use self::invariant::Invariant;

use crate::mode::Mode;

/// Returns the observers of a mode, in their initial state.
#[must_use]
pub(crate) fn of(mode: Mode) -> Vec<Box<dyn Invariant>> {
    if mode == Mode::Election {
        return vec![Box::new(election::Election::default())];
    }
    vec![
        Box::new(exclusion::Exclusion::default()),
        Box::new(validity::Validity::default()),
        Box::new(reasons::Reasons::default()),
        Box::new(server_keeps::ServerKeeps::default()),
        Box::new(writes::Writes),
        Box::new(deadlines::Deadlines::default()),
        Box::new(lost_replies::LostReplies::default()),
        Box::new(errors::Errors::default()),
        Box::new(claims::Claims::default()),
        Box::new(leaked_holds::LeakedHolds::default()),
        Box::new(renewals::Renewals::default()),
        Box::new(min_holds::MinHolds::default()),
        Box::new(losses::Losses::default()),
        Box::new(forced::Forced::default()),
        Box::new(wake_ups::WakeUps::default()),
        Box::new(hand_off::HandOff::default()),
        Box::new(rivals::Rivals::default()),
        Box::new(reentry::Reentry::default()),
        Box::new(multi::Multi),
        Box::new(fair::Fair::default()),
        Box::new(tokens::Tokens::default()),
        Box::new(read_write::ReadWrite::default()),
        Box::new(permits::Permits::default()),
        Box::new(latch::Latch::default()),
        Box::new(replaced::Replaced::default()),
    ]
}
