//! The values of `leasehold acl`: primitives and prefixes.

use leasehold_proto::recipe::grants::{NATIVE, Names, PRIMITIVES, Primitive};

/// Reads the name of a primitive.
pub(crate) fn parse_primitive(name: &str) -> Result<&'static Primitive, String> {
    Primitive::named(name).ok_or_else(|| {
        let names: Vec<_> = PRIMITIVES.iter().map(|primitive| primitive.name).collect();
        format!("no such primitive; the primitives are {}", names.join(", "))
    })
}

/// Returns the chosen primitives, or all if none is chosen.
pub(crate) fn chosen_or_all(chosen: &[&'static Primitive]) -> Vec<&'static Primitive> {
    match chosen {
        [] => PRIMITIVES.iter().collect(),
        chosen => chosen.to_vec(),
    }
}

/// Reads the name of a native command.
pub(crate) fn native() -> clap::builder::PossibleValuesParser {
    clap::builder::PossibleValuesParser::new(NATIVE)
}

/// Reads the name of a user.
pub(crate) fn parse_user(name: &str) -> Result<String, String> {
    let is_one_word =
        !name.is_empty() && !name.contains(|letter: char| letter.is_whitespace() || letter.is_control());
    if is_one_word { Ok(name.to_owned()) } else { Err("a user's name is one word".to_owned()) }
}

/// Returns the rights for the questions of `leasehold doctor`, on top of those of a client. Without them it reports that it
/// does not know.
pub(crate) const fn rules_of_doctor(is_cluster: bool) -> &'static str {
    if is_cluster {
        "+acl|dryrun +acl|whoami +cluster|info +cluster|shards +cluster|slots +config|get +info +time"
    } else {
        "+acl|dryrun +acl|whoami +cluster|info +config|get +info +role +time"
    }
}

/// Reads the beginning of names.
pub(crate) fn parse_prefix(prefix: &str) -> Result<Names, String> {
    Names::behind(prefix).ok_or_else(|| "a prefix has no spaces and no control characters".to_owned())
}

/// Reads the beginning of names, as text.
pub(crate) fn checked_prefix(prefix: &str) -> Result<String, String> {
    parse_prefix(prefix).map(|_| prefix.to_owned())
}
