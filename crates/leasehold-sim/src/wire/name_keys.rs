//! The keys that belong to a name, and their meaning.
//!
//! Invariant: a key outside of the rules of a name's primitive belongs to no name (promise G2).

use std::sync::Arc;
use std::time::Duration;

use leasehold_store::embedded::{Entry, Value};

use super::decode::{hex, text};
use crate::name_state::{Holder, NameState, Side};
use crate::owner::Wire;
use crate::primitive::{Primitive, fence_of, name_of, plain_wire};

/// A key of the server with its value and its expiry.
pub(super) type Key<'a> = (&'a [u8], &'a Value, Option<u64>);

/// The role of a key for its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// The key that is the name itself.
    Itself,
    Queue,
    Due,
    Seen,
    Token,
    WriterMark,
    UpgradeMark,
    /// The ids of permits.
    Ids,
    /// The note of how the rounds of a latch have ended.
    Note,
    /// The lease of a reader's hold. The owner and the number follow.
    Lease,
    /// An acquire of permits. The owner follows.
    Acquisition,
    /// An operation. The number of the operation follows.
    Operation,
    /// What a leader says of itself.
    Announcement,
}

/// The keys of a name.
#[derive(Clone, Debug)]
pub(super) struct NameKeys {
    pub(super) name: Arc<str>,
    primitive: Primitive,
    exact: Vec<(String, Role)>,
    beginning: Vec<(String, Role)>,
}

impl NameKeys {
    pub(super) fn of(name: &Arc<str>) -> Self {
        let primitive = Primitive::of(name);
        let known = name_of(name);
        let at = |prefix: &str| known.prefixed(prefix).as_str().to_owned();
        let tagged = known.tagged();
        let mut exact = vec![(name.to_string(), Role::Itself)];
        let mut beginning = Vec::new();
        match primitive {
            Primitive::Lock | Primitive::Spin | Primitive::Plain | Primitive::Redlock => {}
            Primitive::PlainFenced => exact.push((fence_of(name).to_string(), Role::Token)),
            Primitive::Fair => exact.extend([
                (at("redisson_lock_queue"), Role::Queue),
                (at("redisson_lock_timeout"), Role::Due),
                (at("leasehold_lock_seen"), Role::Seen),
            ]),
            Primitive::Fenced | Primitive::Hybrid => exact.push((at("redisson_lock_token"), Role::Token)),
            Primitive::Election => exact.extend([
                (at("redisson_lock_token"), Role::Token),
                (at("leasehold_leader"), Role::Announcement),
            ]),
            Primitive::ReadWrite => {
                exact.push((at("leasehold_rw_writer"), Role::WriterMark));
                exact.push((at("leasehold_rw_upgrade"), Role::UpgradeMark));
                beginning.push((format!("{tagged}:"), Role::Lease));
            }
            Primitive::Semaphore | Primitive::Fifo => {
                if primitive == Primitive::Fifo {
                    exact.push((at("leasehold_sc_queue"), Role::Queue));
                    exact.push((at("leasehold_sc_seen"), Role::Seen));
                }
                beginning.push((at("leasehold_permit") + ":", Role::Acquisition));
            }
            Primitive::Permits => exact.push((format!("{tagged}:timeout"), Role::Ids)),
            Primitive::Latch => exact.push((at("leasehold_latch_ended"), Role::Note)),
        }
        if primitive.has_permits() || primitive == Primitive::Latch {
            beginning.push((at("leasehold_op") + ":", Role::Operation));
        }
        Self { name: Arc::clone(name), primitive, exact, beginning }
    }

    /// Returns true if the name belongs to a plain lock.
    pub(super) const fn is_plain(&self) -> bool {
        self.primitive.is_plain()
    }

    /// Returns true if a key belongs to the name.
    pub(super) fn has(&self, key: &[u8]) -> bool {
        self.role(key).is_some()
    }

    fn role<'a>(&self, key: &'a [u8]) -> Option<(Role, &'a [u8])> {
        if let Some((_, role)) = self.exact.iter().find(|(known, _)| known.as_bytes() == key) {
            return Some((*role, b""));
        }
        let mut known = self.beginning.iter();
        known.find_map(|(prefix, role)| key.strip_prefix(prefix.as_bytes()).map(|rest| (*role, rest)))
    }

    /// Returns the state of the name.
    pub(super) fn state(&self, keys: &[Key<'_>]) -> NameState {
        let mut state = NameState::default();
        for (key, value, expires_at_ms) in keys {
            if let Some((role, rest)) = self.role(key) {
                self.read(&mut state, (role, rest), value, *expires_at_ms);
            }
        }
        if self.primitive == Primitive::ReadWrite {
            for holder in state.holders.iter_mut().filter(|holder| holder.side == Side::Reader) {
                let own = state.leases.iter().filter(|(wire, ..)| *wire == holder.wire);
                holder.until_ms = Some(own.map(|(_, _, until)| *until).max().unwrap_or_default());
            }
        }
        state
    }

    fn read(
        &self,
        state: &mut NameState,
        (role, rest): (Role, &[u8]),
        value: &Value,
        expires_at_ms: Option<u64>,
    ) {
        match (role, value) {
            (Role::Itself, Value::String(value)) if self.primitive.is_plain() => {
                state.is_there = true;
                state.expires_at_ms = expires_at_ms;
                let (wire, side) = (plain_wire(value), Side::Alone);
                state.holders.push(Holder { wire, side, count: 1, until_ms: expires_at_ms });
            }
            (Role::Itself, Value::Hash(fields)) if self.primitive.is_lock() && !self.primitive.is_plain() => {
                state.is_there = true;
                state.expires_at_ms = expires_at_ms;
                for (field, value) in fields {
                    self.read_field(state, &text(field), value, expires_at_ms);
                }
            }
            (Role::Itself | Role::Token, Value::String(value))
                if !(role == Role::Itself && self.primitive.is_lock()) =>
            {
                state.is_there |= role == Role::Itself;
                state.value = Some(number(value));
            }
            (Role::Queue, Value::List(list)) => state.queue = list.iter().map(|owner| text(owner)).collect(),
            (Role::Due, Value::SortedSet(set)) => {
                state.redisson_deadlines =
                    set.iter().map(|(owner, score)| (text(owner), score as i64)).collect();
            }
            (Role::Seen, Value::SortedSet(set)) => {
                state.last_seen = set.iter().map(|(owner, score)| (text(owner), score as i64)).collect();
            }
            (Role::Ids, Value::SortedSet(set)) => {
                let holder = |(id, until): (&[u8], f64)| Holder {
                    wire: hex(id),
                    side: Side::Permits,
                    count: 1,
                    until_ms: Some(until as u64),
                };
                state.holders = set.iter().map(holder).collect();
                state.holders.sort_by(|one, other| one.wire.cmp(&other.wire));
            }
            (Role::WriterMark | Role::UpgradeMark, Value::String(mark)) => state.marks.push(text(mark)),
            (Role::Lease, Value::String(_)) => state.leases.extend(lease(rest, expires_at_ms)),
            (Role::Acquisition, Value::String(taken)) => match number(taken).unsigned_abs() {
                0 => state.undone.push(text(rest)),
                count => {
                    let (wire, side) = (text(rest), Side::Permits);
                    state.holders.push(Holder { wire, side, count, until_ms: None });
                }
            },
            (Role::Operation, Value::String(answer)) => state.answered.push((text(rest), number(answer))),
            (Role::Note, Value::String(_)) | (Role::Announcement, Value::Hash(_)) => {}
            _ => state.foreign_type = true,
        }
    }

    fn read_field(&self, state: &mut NameState, field: &str, value: &[u8], until_ms: Option<u64>) {
        if self.primitive == Primitive::ReadWrite && field == "mode" {
            state.mode = Some(text(value));
            return;
        }
        let count = number(value).unsigned_abs();
        let (wire, side): (Wire, Side) = match (self.primitive, field.strip_suffix(":write")) {
            (Primitive::ReadWrite, Some(writer)) => (writer.into(), Side::Writer),
            (Primitive::ReadWrite, None) => (field.into(), Side::Reader),
            _ => (field.into(), Side::Alone),
        };
        state.holders.push(Holder { wire, side, count, until_ms });
    }

    /// Returns true if a key is left behind by design. Counters stay forever, and answers and acquires are remembered
    /// for a stated time.
    pub(super) fn may_stay(&self, entry: &Entry, timeout: Duration, now_ms: u64) -> bool {
        let lasts = |most: Duration| {
            let latest = now_ms + u64::try_from(most.as_millis()).unwrap_or(u64::MAX);
            entry.expires_at_ms.is_some_and(|at| at <= latest)
        };
        match self.role(&entry.key) {
            Some((Role::Itself, _)) => !self.primitive.is_lock(),
            Some((Role::Token, _)) => entry.expires_at_ms.is_none(),
            // The ids of detached permits stay until the next request.
            Some((Role::Ids, _)) => true,
            Some((Role::Announcement, _)) => lasts(Duration::from_secs(7 * 24 * 3_600)),
            Some((Role::Acquisition, _)) => lasts(Duration::from_secs(3_600)),
            Some((Role::Operation | Role::Note, _)) => lasts(timeout + Duration::from_secs(60)),
            _ => false,
        }
    }
}

fn number(text: &[u8]) -> i64 {
    std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).unwrap_or(i64::MIN)
}

/// Parses `owner:rwlock_timeout:number`.
fn lease(rest: &[u8], until_ms: Option<u64>) -> Option<(Wire, u32, u64)> {
    let rest = std::str::from_utf8(rest).ok()?;
    let (owner, hold) = rest.split_once(":rwlock_timeout:")?;
    Some((owner.into(), hold.parse().ok()?, until_ms.unwrap_or(u64::MAX)))
}
