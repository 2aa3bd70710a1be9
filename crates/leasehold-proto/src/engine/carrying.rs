//! Carries effects: what one machine asks of the parts above it.
//!
//! Invariant: effects are carried in the order in which they arose, before anything else happens to the engine.

use super::Engine;
use super::effect::Effect;
use crate::moment::Moment;

impl Engine {
    /// Carries the effects of what has happened, in their order.
    pub(in crate::engine) fn carry(&mut self, now: Moment) {
        while let Some(effect) = self.waits.holds.cx.effects.pop_front() {
            match effect {
                Effect::Unused(number) => {
                    if !self.hand_off(now, number) {
                        self.waits.holds.end_hold(now, number);
                    }
                }
                Effect::Lost(queue) => self.waits.distrust_order(queue),
                Effect::Releasing { number, queue, units, speaks } => {
                    self.waits.go_on_behind(now, (queue, number), units, speaks);
                }
                Effect::Silent { queue, messages } => self.waits.expect_silence(now, queue, messages),
                Effect::Released(released) => self.waits.go_on_after(now, released),
                Effect::Freed(queue) => self.waits.advance(now, queue),
                Effect::Detached(queue) => self.waits.listen_in_server_queue(now, queue),
                Effect::Undone(number) => self.checks.check_after_undo(&mut self.waits, now, number),
                Effect::Renewed(number) => self.checks.check_after_renewal(&mut self.waits, now, number),
                Effect::CheckDue(number) => self.checks.check(&mut self.waits, now, number),
                Effect::Granted { name, number, sent_at } => {
                    self.checks.check_grant(&self.waits, name, number, sent_at);
                }
                Effect::Strays(name) => self.checks.undo_strays(&mut self.waits, now, name),
            }
        }
    }
}
