//! The values of `leasehold acl`: primitives and prefixes.

use leasehold_proto::recipe::grants::{Names, PRIMITIVES, Primitive};

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

/// Reads the beginning of names.
pub(crate) fn parse_prefix(prefix: &str) -> Result<Names, String> {
    Names::behind(prefix).ok_or_else(|| "a prefix has no spaces and no control characters".to_owned())
}

/// Reads the beginning of names, as text.
pub(crate) fn checked_prefix(prefix: &str) -> Result<String, String> {
    parse_prefix(prefix).map(|_| prefix.to_owned())
}
