//! The order of fencing tokens, and of the writes that a resource accepted.

use std::collections::BTreeMap;

use crate::attempt::{Attempt, Held};

/// A broken order of tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenBreach {
    /// A later grant had no higher token. The attempt began after the other grant had returned.
    NotGrowing {
        /// The name of the lock.
        name: String,
        /// The time of the later grant.
        at: u64,
    },
    /// The resource accepted a write of a lower token that was sent after it had answered one of a higher token, or
    /// writes of two holds with one token.
    StaleWrite {
        /// The name of the lock.
        name: String,
        /// The time at which the write was sent.
        at: u64,
    },
}

/// Finds tokens and writes out of order.
#[must_use]
pub fn tokens(attempts: &[Attempt]) -> Vec<TokenBreach> {
    let mut names: BTreeMap<&str, Vec<(u64, &Held, u64)>> = BTreeMap::new();
    for attempt in attempts {
        if let Some(hold) = &attempt.hold
            && let Some(token) = hold.token
        {
            names.entry(attempt.name.as_str()).or_default().push((attempt.at, hold, token));
        }
    }
    let mut found = Vec::new();
    for (name, holds) in names {
        not_growing(name, &holds, &mut found);
        stale_writes(name, &holds, &mut found);
    }
    found
}

fn not_growing(name: &str, holds: &[(u64, &Held, u64)], found: &mut Vec<TokenBreach>) {
    let mut granted: Vec<_> = holds.iter().map(|(_, hold, token)| (hold.from, *token)).collect();
    let mut asked: Vec<_> = holds.iter().map(|(at, hold, token)| (*at, hold.from, *token)).collect();
    granted.sort_unstable();
    asked.sort_unstable();
    let mut granted = granted.into_iter().peekable();
    let mut highest = 0;
    for (at, from, token) in asked {
        while let Some((_, earlier)) = granted.next_if(|(before, _)| *before < at) {
            highest = highest.max(earlier);
        }
        if token <= highest {
            found.push(TokenBreach::NotGrowing { name: name.to_owned(), at: from });
        }
    }
}

fn stale_writes(name: &str, holds: &[(u64, &Held, u64)], found: &mut Vec<TokenBreach>) {
    let accepted = |(index, (_, hold, token)): (usize, &(u64, &Held, u64))| {
        let writes = hold.writes.iter().filter(|(_, _, accepted)| *accepted);
        writes.map(|(sent, answered, _)| (*sent, *answered, *token, index)).collect::<Vec<_>>()
    };
    let mut writes: Vec<_> = holds.iter().enumerate().flat_map(accepted).collect();
    writes.sort_unstable();
    for (place, &(sent, _, token, hold)) in writes.iter().enumerate() {
        let is_stale = writes[..place].iter().any(|&(_, answered, other, holder)| {
            (answered < sent && other > token) || (other == token && holder != hold)
        });
        if is_stale {
            found.push(TokenBreach::StaleWrite { name: name.to_owned(), at: sent });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fenced(from: u64, seen: u64, token: u64) -> Attempt {
        let mut attempt = Attempt::example(0, from, seen);
        attempt.example_hold().token = Some(token);
        attempt
    }

    #[test]
    fn growing_tokens_are_in_order() {
        assert!(tokens(&[fenced(10, 20, 1), fenced(30, 40, 2)]).is_empty());
    }

    #[test]
    fn a_lower_token_after_a_grant_is_found() {
        let found = tokens(&[fenced(10, 20, 5), fenced(30, 40, 5)]);
        assert_eq!(found, [TokenBreach::NotGrowing { name: "lab:x".into(), at: 30 }]);
    }

    #[test]
    fn an_attempt_that_began_before_the_other_grant_may_have_the_lower_token() {
        let mut slow = fenced(30, 40, 1);
        slow.at = 5;
        assert!(tokens(&[fenced(10, 20, 2), slow]).is_empty());
    }

    #[test]
    fn a_write_of_a_lower_token_after_a_higher_one_is_found() {
        let (mut old, mut new) = (fenced(10, 20, 1), fenced(30, 40, 2));
        new.example_hold().writes.push((31, 32, true));
        old.example_hold().writes.push((33, 34, false));
        assert!(tokens(&[old.clone(), new.clone()]).is_empty(), "a rejected write is none");
        old.example_hold().writes.push((35, 36, true));
        assert_eq!(tokens(&[old, new]), [TokenBreach::StaleWrite { name: "lab:x".into(), at: 35 }]);
    }
}
