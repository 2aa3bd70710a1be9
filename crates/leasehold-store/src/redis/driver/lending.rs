//! The command connections, which the runtime of the callers carries while it is in time.
//!
//! Invariant: the link's own task carries each connection that the callers' runtime does not. A runtime that is late, or
//! that ends, loses the connection to the own task, which loses no byte by that.
//!
//! # How it works
//! A reply that the callers' runtime reads wakes its caller on the same thread. A reply that the client's own thread
//! reads costs two switches of threads more, which is most of the latency of a lone call. So the own task, which dials,
//! lends the command connections to a task on the callers' runtime.
//!
//! The own task looks at the connections that are lent, if one of them awaits replies, after [`GRACE`] without a turn of
//! the borrower, or if callers have left requests to its next turn. If bytes or requests lie there, the runtime is blocked,
//! or nobody drives it, and the connections come back. They are lent again when the borrower has had a turn, and has rested
//! for [`REST`]. They also come back before a timer of the wire, because a reply that has arrived in time counts.

use std::sync::Arc;
use std::task::Context;
use std::time::Duration;

use leasehold_proto::Moment;
use tokio::runtime::RuntimeFlavor::CurrentThread;

use super::super::executor::Executor;
use super::super::notices::Change;
use super::super::wire::{ConnId, Input};
use super::carrier::Carrier;
use super::deliveries::{Deliveries, Turn};
use super::state::State;

/// The time for which a runtime may leave bytes unread.
const GRACE: Duration = Duration::from_millis(20);
/// The outcomes whose tasks soon want further calls, for which another turn is worth it.
const CROWD: usize = 4;
/// The time for which a runtime that was late carries nothing.
const REST: Duration = Duration::from_secs(1);
/// The same for a runtime without threads of its own, which runs only while a thread blocks on it: it is late whenever a
/// guard is dropped and nobody waits, and that says nothing about the next wait.
const SHORT_REST: Duration = GRACE;

impl State {
    /// Takes a turn of the task on the callers' runtime.
    pub(super) fn carry(
        &mut self,
        now: Moment,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
        deliveries: &mut Deliveries,
    ) {
        let Some(carrier) = &mut self.carrier else { return };
        carrier.turns.begin(cx);
        (carrier.is_ready, carrier.is_awaited) = (true, false);
        carrier.look_at = Moment::NEVER;
        let carries: Vec<ConnId> = carrier.carries.iter().copied().collect();
        for id in &carries {
            self.exchange(now, *id, cx, buffer, deliveries);
        }
        if !carries.is_empty() {
            self.step(now, Input::Flush, deliveries);
        }
        if let Some(carrier) = &mut self.carrier {
            carrier.turns.is_awake = false;
        }
    }

    /// Offers another turn of the task on the callers' runtime, after a crowd of outcomes and after such a turn. Returns true if
    /// it does.
    pub(super) fn offer_turn(&mut self, comes_back: bool, deliveries: &mut Deliveries) -> bool {
        let Some(carrier) = &mut self.carrier else { return false };
        let offers = comes_back || deliveries.outcomes.len() >= CROWD;
        if offers {
            // The delivery itself can stand still, so callers are looked after from here on.
            carrier.is_awaited = true;
            deliveries.turn = Turn::OneOfMany;
        }
        offers
    }

    /// Notes whether callers wait for the turn that was offered. A look during the delivery came too early for them.
    pub(super) fn turn_is_awaited(&mut self, is_awaited: bool) {
        if let Some(carrier) = &mut self.carrier {
            carrier.is_awaited = is_awaited;
        }
    }

    /// Sets the time of the next look at the runtime, if it carries calls in flight, or if callers wait for its next turn.
    pub(super) fn watch_carrier(&mut self, now: Moment) {
        let Some(carrier) = &mut self.carrier else { return };
        let awaits_replies = || carrier.carries.iter().any(|id| self.wire.awaits_replies(*id));
        if carrier.look_at == Moment::NEVER && (carrier.is_awaited || awaits_replies()) {
            carrier.look_at = now + GRACE;
        }
    }

    /// Returns the time at which the own task looks at the runtime, or lends it the connection.
    pub(super) fn carrier_timer(&self) -> Moment {
        let Some(carrier) = &self.carrier else { return Moment::NEVER };
        let lends = carrier.is_ready && self.lendable().next().is_some();
        carrier.look_at.min(if lends { carrier.rests_until } else { Moment::NEVER })
    }

    /// Returns the connections to lend.
    fn lendable(&self) -> impl Iterator<Item = ConnId> {
        let is_own = |id: &ConnId| {
            let carrier = self.carrier.as_ref();
            carrier.is_some_and(|carrier| !carrier.carries.contains(id)) && self.streams.contains_key(id)
        };
        self.wire.command_connections().filter(is_own)
    }

    /// Returns true if a connection is to be lent now.
    pub(super) fn can_lend(&self, now: Moment) -> bool {
        let may_carry = |carrier: &Carrier| carrier.is_ready && carrier.rests_until <= now;
        self.carrier.as_ref().is_some_and(may_carry) && self.lendable().next().is_some()
    }

    /// Lends the connections that are to be lent now.
    pub(super) fn lend(&mut self, now: Moment, deliveries: &mut Deliveries) {
        if !self.can_lend(now) {
            return;
        }
        let ids: Vec<ConnId> = self.lendable().collect();
        let Some(carrier) = &mut self.carrier else { return };
        carrier.carries.extend(&ids);
        carrier.turns.wake(deliveries);
        let runtime = Arc::clone(&carrier.runtime);
        for id in ids {
            self.move_stream(now, id, &*runtime, deliveries);
        }
    }

    /// Takes the connections back from a runtime that is late, and from any runtime when a timer of the wire is due.
    pub(super) fn recall_if_due(&mut self, now: Moment, deliveries: &mut Deliveries) {
        let is_due = self.wire.timer() <= now;
        let Some(carrier) = &mut self.carrier else { return };
        let was_awaited = carrier.look_at <= now && std::mem::take(&mut carrier.is_awaited);
        if was_awaited {
            // What callers have left to the runtime's next turn waits no longer.
            deliveries.turn = Turn::Last;
        }
        if carrier.carries.is_empty() && carrier.look_at <= now {
            carrier.look_at = Moment::NEVER;
        }
        if carrier.carries.is_empty() || (!is_due && now < carrier.look_at) {
            return;
        }
        let waits = |id: &ConnId| {
            self.streams.get(id).is_some_and(|stream| stream.is_unflushed || stream.socket.has_bytes())
                || !self.wire.unwritten(*id).is_empty()
        };
        let is_late = was_awaited
            || (carrier.look_at <= now && (carrier.carries.iter().any(waits) || self.wire.wants_flush()));
        if carrier.look_at <= now || !carrier.is_awaited {
            carrier.look_at = Moment::NEVER;
        }
        if is_late {
            carrier.is_ready = false;
            let is_driven =
                carrier.runtime.tokio().is_some_and(|tokio| tokio.runtime_flavor() == CurrentThread);
            carrier.rests_until = now + if is_driven { SHORT_REST } else { REST };
            // Its next turn shows that the runtime goes on.
            carrier.turns.wake(deliveries);
        }
        if is_late || is_due {
            self.recall(now, deliveries);
        }
    }

    /// Takes the connections back.
    pub(super) fn recall(&mut self, now: Moment, deliveries: &mut Deliveries) {
        let Some(carrier) = &mut self.carrier else { return };
        let ids = std::mem::take(&mut carrier.carries);
        if ids.is_empty() {
            return;
        }
        let own = Arc::clone(&self.runtime);
        for id in ids {
            self.move_stream(now, id, &*own, deliveries);
        }
        self.own.wake(deliveries);
    }

    /// Moves a stream to a runtime. A stream that the runtime does not take has ended.
    fn move_stream(&mut self, now: Moment, id: ConnId, runtime: &dyn Executor, deliveries: &mut Deliveries) {
        let (Some(stream), Some(runtime)) = (self.streams.get_mut(&id), runtime.tokio()) else { return };
        if stream.socket.move_to(runtime).is_err() {
            self.drop_stream(id, Change::GivenUp, deliveries);
            self.step(now, Input::Closed(id), deliveries);
        }
    }
}
