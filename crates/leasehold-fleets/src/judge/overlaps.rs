//! More valid holds of one name than the primitive allows.

use std::collections::BTreeMap;

use crate::attempt::Attempt;
use crate::policy::{Kind, PERMITS, Policy};

/// A grant that exceeded the limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overlap {
    /// The policy of the holders.
    pub policy: Policy,
    /// The primitive.
    pub kind: Kind,
    /// The name of the lock.
    pub name: String,
    /// The time of the grant that was one too many.
    pub at: u64,
    /// The time for which the two holds were both valid, at least.
    pub length: u64,
}

/// A lock or semaphore of one policy.
type Subject<'a> = (Policy, Kind, &'a str);

/// Finds each grant at whose time as many other holds of the name were valid as the primitive allows.
#[must_use]
pub fn overlaps(attempts: &[Attempt]) -> Vec<Overlap> {
    let mut names: BTreeMap<Subject<'_>, Vec<(u64, u64)>> = BTreeMap::new();
    for attempt in attempts {
        if let Some(hold) = &attempt.hold {
            let key = (attempt.policy, attempt.kind, attempt.name.as_str());
            names.entry(key).or_default().push((hold.from, hold.seen));
        }
    }
    let mut found = Vec::new();
    for ((policy, kind, name), mut holds) in names {
        holds.sort_unstable();
        let limit = if kind == Kind::Semaphore { PERMITS as usize } else { 1 };
        let mut valid: Vec<u64> = Vec::new();
        for (at, seen) in holds {
            // The end is the last time that was seen, so two holds that touch were both valid then.
            valid.retain(|&end| end > at);
            if valid.len() >= limit && seen > at {
                let first = valid.iter().min().copied().unwrap_or(at);
                let length = first.min(seen) - at;
                found.push(Overlap { policy, kind, name: name.to_owned(), at, length });
            }
            valid.push(seen);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_valid_holds_of_one_lock_overlap() {
        let found = overlaps(&[Attempt::example(0, 10, 50), Attempt::example(1, 30, 40)]);
        assert_eq!(found.iter().map(|one| (one.at, one.length)).collect::<Vec<_>>(), [(30, 10)]);
    }

    #[test]
    fn holds_one_after_the_other_do_not_overlap() {
        assert!(
            overlaps(&[
                Attempt::example(0, 10, 30),
                Attempt::example(1, 30, 40),
                Attempt::example(0, 41, 60)
            ])
            .is_empty()
        );
    }

    #[test]
    fn holds_of_different_names_do_not_overlap() {
        let mut other = Attempt::example(1, 20, 40);
        other.name = "lab:y".into();
        assert!(overlaps(&[Attempt::example(0, 10, 50), other]).is_empty());
    }

    #[test]
    fn a_semaphore_has_as_many_holders_as_permits() {
        let permit = |worker, from, seen| {
            let mut attempt = Attempt::example(worker, from, seen);
            attempt.kind = Kind::Semaphore;
            attempt
        };
        assert!(overlaps(&[permit(0, 10, 50), permit(1, 20, 50)]).is_empty());
        assert_eq!(overlaps(&[permit(0, 10, 50), permit(1, 20, 50), permit(2, 30, 50)]).len(), 1);
    }
}
