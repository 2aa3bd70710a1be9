//! A configuration as TOML.
//!
//! Invariant: the text has no secret in it. Except for the secrets, it reads back as the same configuration.

use std::fmt;

use super::fields::{FIELDS, Kind, field};
use super::layer::{Layer, Leaf};
use super::secret::{MASK, masked_url};

/// Writes all values, each with its source.
pub(super) fn write(layer: &Layer, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut current = "";
    for field in FIELDS.iter() {
        let Some((leaf, origin)) = layer.get(&field.key) else { continue };
        let (section, name) = field.key.rsplit_once('.').unwrap_or(("", &field.key));
        if section != current {
            write!(f, "\n[{section}]\n")?;
            current = section;
        }
        writeln!(f, "{name} = {} # {origin}", shown(&field.key, leaf))?;
    }
    Ok(())
}

/// Returns a value as TOML, masked if it is a secret.
pub(super) fn shown(key: &str, leaf: &Leaf) -> String {
    let kind = field(key).map_or(Kind::Secret, |field| field.kind);
    let text = |text: &str| match kind {
        Kind::Secret => quoted(MASK),
        Kind::Url | Kind::Urls => quoted(&masked_url(text)),
        _ => quoted(text),
    };
    match leaf {
        Leaf::Flag(flag) => flag.to_string(),
        Leaf::Number(number) => number.to_string(),
        Leaf::Text(own) => text(own),
        Leaf::List(texts) => {
            format!("[{}]", texts.iter().map(|own| text(own)).collect::<Vec<_>>().join(", "))
        }
    }
}

/// Returns a basic string of TOML.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            control if control.is_control() => quoted += &format!("\\u{:04X}", u32::from(control)),
            plain => quoted.push(plain),
        }
    }
    quoted.push('"');
    quoted
}
