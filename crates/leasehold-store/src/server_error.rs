//! The classification of a server's error texts, for every store.
//!
//! Invariant: a text means [`Applied::No`] only if the server cannot have executed the script, or refused its first
//! write.

use leasehold_proto::{Applied, StoreErrorKind};

/// The maximum length of a stored error text, in characters. The words behind it are cut.
const TEXT_MAX: usize = 300;
/// The longest word, in bytes, that is left out whole at the cut.
const WORD_MAX: usize = 40;

use Applied::{No, Unknown};
use StoreErrorKind as Kind;

/// Error codes, the first word of the text. In a script, `WRONGTYPE` may come after other writes. The other codes come
/// before the script or instead of its first write.
const CODES: [(&str, Kind, Applied); 20] = [
    ("NOSCRIPT", Kind::Server, No),
    ("BUSY", Kind::Busy, No),
    ("LOADING", Kind::Loading, No),
    ("MASTERDOWN", Kind::MasterDown, No),
    ("READONLY", Kind::ReadOnly, No),
    ("NOREPLICAS", Kind::NoReplicas, No),
    ("OOM", Kind::OutOfMemory, No),
    ("MISCONF", Kind::Misconfigured, No),
    ("CLUSTERDOWN", Kind::ClusterDown, No),
    ("MOVED", Kind::WrongNode, No),
    ("ASK", Kind::WrongNode, No),
    ("CROSSSLOT", Kind::CrossSlot, No),
    ("TRYAGAIN", Kind::TryAgain, No),
    ("NOPERM", Kind::PermissionDenied, No),
    // A server in protected mode lets no client connect from another host until it has a password.
    ("DENIED", Kind::AuthenticationFailed, No),
    ("NOAUTH", Kind::AuthenticationRequired, No),
    ("WRONGPASS", Kind::AuthenticationFailed, No),
    ("WRONGTYPE", Kind::WrongType, Unknown),
    // Our scripts check their own arguments before the first write.
    ("LOCKERR", Kind::Server, No),
    ("NOTBUSY", Kind::Server, No),
];

/// Errors without a code of their own, by the beginning of the text behind `ERR `.
const TEXTS: [(&str, Kind, Applied); 19] = [
    ("max number of clients reached", Kind::TooManyClients, No),
    ("invalid password", Kind::AuthenticationFailed, No),
    ("AUTH <password> called without any password configured", Kind::AuthenticationFailed, No),
    ("Client sent AUTH, but no password is set", Kind::AuthenticationFailed, No),
    // This text is about the whole call. An invalid call inside a script has another text.
    ("unknown command", Kind::Server, No),
    ("wrong number of arguments for", Kind::Server, No),
    ("Error compiling script", Kind::Server, No),
    ("DB index is out of range", Kind::Server, No),
    ("invalid DB index", Kind::Server, No),
    ("SELECT is not allowed in cluster mode", Kind::Server, No),
    // The text is about a command of a script, so the writes before it stay.
    ("The user executing the script can't run this command", Kind::PermissionDenied, Unknown),
    ("The user executing the script can't access at least one of the keys", Kind::PermissionDenied, Unknown),
    ("The user executing the script can't publish to the channel", Kind::PermissionDenied, Unknown),
    ("ACL failure in script", Kind::PermissionDenied, Unknown),
    ("Script attempted to access a non local key", Kind::WrongNode, Unknown),
    ("Attempted to access a non local key", Kind::WrongNode, Unknown),
    ("value is not an integer", Kind::WrongType, Unknown),
    ("hash value is not an integer", Kind::WrongType, Unknown),
    ("increment or decrement would overflow", Kind::WrongType, Unknown),
];

/// A server's error text, cut and escaped, which is the cause below an error.
#[derive(Clone, Debug, thiserror::Error)]
#[error("server reply {0:?}")]
pub(crate) struct ServerText(String);

impl ServerText {
    pub(crate) fn new(text: &str) -> Self {
        let Some((end, _)) = text.char_indices().nth(TEXT_MAX) else { return Self(text.to_owned()) };
        let (cut, rest) = text.split_at(end);
        // A text ends with a whole word, unless that word is too long for one.
        let whole = if rest.starts_with(char::is_whitespace) { None } else { cut.rfind(char::is_whitespace) };
        let whole = whole.filter(|end| cut.len() - end <= WORD_MAX);
        Self(format!("{} ..", whole.map_or(cut, |end| &cut[..end]).trim_end()))
    }
}

/// Returns the kind of an error text, and whether the script may have run.
pub(crate) fn classify(text: &str) -> (Kind, Applied) {
    find(text).unwrap_or((Kind::Server, Unknown))
}

fn find(text: &str) -> Option<(Kind, Applied)> {
    if let Some(inner) = inside_script_of_6(text) {
        let code = inner.split(' ').next().unwrap_or_default();
        let of_code = CODES.iter().find(|(known, ..)| *known == code);
        // The texts of Redis 6 for whole calls say nothing of a command within a script.
        let of_text =
            || TEXTS.iter().find(|(start, _, applied)| *applied == Unknown && inner.starts_with(start));
        return of_code.or_else(of_text).map(|&(_, kind, applied)| (kind, applied));
    }
    let (code, rest) = text.split_once(' ').unwrap_or((text, ""));
    let row = match code {
        "ERR" => TEXTS.iter().find(|(beginning, ..)| rest.starts_with(beginning)),
        _ => CODES.iter().find(|(known, ..)| *known == code),
    };
    row.map(|&(_, kind, applied)| (kind, applied))
}

/// Returns the error of a command of a script, which Redis 6 wraps: `ERR Error running script (call to f_c0ffee):
/// @user_script:1: @user_script: 1: -READONLY You can't ..`. Later versions report it as it is.
fn inside_script_of_6(text: &str) -> Option<&str> {
    let (_, report) =
        text.strip_prefix("ERR Error running script (call to f_")?.split_once("): @user_script:")?;
    let (_, inner) = report.split_once(": ")?;
    let inner = inner
        .strip_prefix("@user_script: ")
        .and_then(|rest| rest.split_once(": "))
        .map_or(inner, |(_, rest)| rest);
    let inner = inner.strip_prefix('-').unwrap_or(inner);
    Some(inner.strip_prefix("ERR ").unwrap_or(inner))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts of redis-server 7.0.15, except where a comment names another version.
    const SAID: [(&str, Kind, Applied); 46] = [
        ("NOSCRIPT No matching script. Please use EVAL.", Kind::Server, No),
        (
            "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
            Kind::Busy,
            No,
        ),
        ("LOADING Redis is loading the dataset in memory", Kind::Loading, No),
        (
            "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
            Kind::MasterDown,
            No,
        ),
        (
            "READONLY You can't write against a read only replica. script: c0ffee, on @user_script:1.",
            Kind::ReadOnly,
            No,
        ),
        (
            "NOREPLICAS Not enough good replicas to write. script: c0ffee, on @user_script:1.",
            Kind::NoReplicas,
            No,
        ),
        ("OOM command not allowed when used memory > 'maxmemory'. script: c0ffee", Kind::OutOfMemory, No),
        (
            "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist",
            Kind::Misconfigured,
            No,
        ),
        ("CLUSTERDOWN The cluster is down", Kind::ClusterDown, No),
        ("CLUSTERDOWN Hash slot not served", Kind::ClusterDown, No),
        ("MOVED 866 127.0.0.1:7001", Kind::WrongNode, No),
        ("ASK 866 127.0.0.1:7001", Kind::WrongNode, No),
        ("TRYAGAIN Multiple keys request during rehashing of slot", Kind::TryAgain, No),
        ("CROSSSLOT Keys in request don't hash to the same slot", Kind::CrossSlot, No),
        ("NOPERM this user has no permissions to run the 'evalsha' command", Kind::PermissionDenied, No),
        (
            "DENIED Redis is running in protected mode because protected mode is enabled",
            Kind::AuthenticationFailed,
            No,
        ),
        ("NOAUTH Authentication required.", Kind::AuthenticationRequired, No),
        ("WRONGPASS invalid username-password pair or user is disabled.", Kind::AuthenticationFailed, No),
        (
            "WRONGTYPE Operation against a key holding the wrong kind of value script: c0ffee",
            Kind::WrongType,
            Unknown,
        ),
        ("LOCKERR acquire: lease_ms and count must be whole and positive", Kind::Server, No),
        ("ERR max number of clients reached", Kind::TooManyClients, No),
        (
            "ERR AUTH <password> called without any password configured for the default user. Are you sure",
            Kind::AuthenticationFailed,
            No,
        ),
        (
            "ERR The user executing the script can't run this command or subcommand script: c0ffee",
            Kind::PermissionDenied,
            Unknown,
        ),
        (
            "ERR The user executing the script can't access at least one of the keys mentioned",
            Kind::PermissionDenied,
            Unknown,
        ),
        // Valkey 9.1.2.
        (
            "ERR Attempted to access a non local key in a cluster node script: on @user_script:3.",
            Kind::WrongNode,
            Unknown,
        ),
        // Redis 7.2 and later.
        (
            "ERR ACL failure in script: User lock has no permissions to run the 'set' command",
            Kind::PermissionDenied,
            Unknown,
        ),
        (
            "ERR Script attempted to access a non local key in a cluster node script: c0ffee",
            Kind::WrongNode,
            Unknown,
        ),
        ("ERR hash value is not an integer script: c0ffee, on @user_script:1.", Kind::WrongType, Unknown),
        ("ERR increment or decrement would overflow script: c0ffee", Kind::WrongType, Unknown),
        (
            "ERR value is not an integer or out of range script: 7a79, on @user_script:1.",
            Kind::WrongType,
            Unknown,
        ),
        (
            "ERR The user executing the script can't publish to the channel mentioned in the command script: afb2",
            Kind::PermissionDenied,
            Unknown,
        ),
        ("ERR unknown command 'EVALSHA', with args beginning with: 'c0ffee' '1' ", Kind::Server, No),
        ("ERR Unknown Redis command called from script script: c0ffee", Kind::Server, Unknown),
        ("ERR wrong number of arguments for 'evalsha' command", Kind::Server, No),
        ("ERR Wrong number of args calling Redis command from script script: c0ffee", Kind::Server, Unknown),
        (
            "ERR Error compiling script (new function): user_script:1: unexpected symbol near 'if'",
            Kind::Server,
            No,
        ),
        ("ERR invalid expire time in 'pexpire' command script: c0ffee", Kind::Server, Unknown),
        (
            "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)",
            Kind::Server,
            Unknown,
        ),
        // Redis 6.2.14.
        (
            "ERR Error running script (call to f_9cd9): @user_script:1: WRONGTYPE Operation against a key holding the wrong kind of value",
            Kind::WrongType,
            Unknown,
        ),
        (
            "ERR Error running script (call to f_2d2f): @user_script:1: @user_script: 1: -READONLY You can't write against a read only replica.",
            Kind::ReadOnly,
            No,
        ),
        (
            "ERR Error running script (call to f_2d2f): @user_script:1: ERR value is not an integer or out of range",
            Kind::WrongType,
            Unknown,
        ),
        (
            "ERR Error running script (call to f_2d2f): @user_script:1: user_script:1: attempt to index",
            Kind::Server,
            Unknown,
        ),
        ("ERR WAIT cannot be used with replica instances. Please also note", Kind::Server, Unknown),
        ("ERR SELECT is not allowed in cluster mode", Kind::Server, No),
        ("ERR", Kind::Server, Unknown),
        ("", Kind::Server, Unknown),
    ];

    #[test]
    fn every_error_text_of_the_table_has_its_kind_and_applied_value() {
        for (text, kind, applied) in SAID {
            assert_eq!(classify(text), (kind, applied), "{text}");
        }
    }

    #[test]
    fn a_long_text_is_cut_between_words() {
        let text = format!("MISCONF {}", "unable to persist ".repeat(40));
        let ServerText(cut) = ServerText::new(&text);
        assert!(cut.ends_with(" ..") && cut.len() <= TEXT_MAX + 3, "{cut}");
        assert!(
            cut.trim_end_matches(" ..").split(' ').all(|word| text.contains(&format!("{word} "))),
            "{cut}"
        );
        assert_eq!(ServerText::new("ERR short").0, "ERR short");
        assert_eq!(ServerText::new(&"x".repeat(TEXT_MAX + 9)).0.len(), TEXT_MAX + 3);
    }

    #[test]
    fn a_code_is_a_whole_word() {
        assert_eq!(classify("BUSYKEY Target key name already exists."), (Kind::Server, Unknown));
        assert_eq!(classify("BUSYGROUP Consumer Group name already exists"), (Kind::Server, Unknown));
    }
}
