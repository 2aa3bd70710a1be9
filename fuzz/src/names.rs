//! Names. Any text is parsed without a panic, and an accepted name is safe on the wire.
//!
//! Invariant: the hashed part of a key or channel is computed here again, by the server's rule.

use leasehold_proto::{Name, NameError, RAW_NAME_BYTES_MAX};

/// Prefixes of helper keys and channels, as recipes of the family use them.
const PREFIXES: [&str; 4] = [
    "redisson_lock__channel",
    "redisson_lock_queue",
    "redisson_rwlock",
    "redisson_countdownlatch__channel__",
];

/// Parses a text as each kind of name. If the text has two lines, the first line is the hash tag.
pub fn names(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let plain = Name::new(&text);
    check(&text, &plain);
    let raw = Name::raw_redisson(&text);
    check(&text, &raw);
    if plain.is_ok() {
        assert_eq!(plain, raw, "a plain name is a name of Redisson's too");
    }
    let (tag, rest) = text.split_once('\n').unwrap_or((&text, &text));
    let tagged = Name::with_hash_tag(tag, rest);
    let whole = format!("{{{tag}}}{rest}");
    check(&whole, &tagged);
    if let Ok(name) = &tagged {
        assert_eq!(Name::raw_redisson(&whole).as_ref(), Ok(name), "a hash tag is Redisson's");
        assert_eq!(hashed(name.as_str()), tag, "the tag chooses the slot");
    }
}

fn check(text: &str, outcome: &Result<Name, NameError>) {
    match outcome {
        Ok(name) => check_name(text, name),
        Err(error) => {
            assert!(!error.to_string().is_empty() && !error.to_string().contains(char::is_control));
            match *error {
                NameError::ControlCharacter { at, found, .. } => {
                    assert!(found.is_control() && text[at..].starts_with(found));
                }
                NameError::Brace { at, .. } => assert!(text[at..].starts_with(['{', '}'])),
                NameError::TooLong { bytes, .. } => assert_eq!(bytes, text.len()),
                NameError::ReservedPrefix { prefix, .. } => assert!(text.starts_with(prefix)),
                _ => {}
            }
        }
    }
}

fn check_name(text: &str, name: &Name) {
    assert_eq!(name.as_str(), text);
    assert_eq!(name.to_string(), text);
    assert!((1..=RAW_NAME_BYTES_MAX).contains(&text.len()) && !text.contains(char::is_control));
    assert!(PREFIXES.iter().all(|prefix| !text.starts_with(prefix)), "{text:?} collides with a helper key");
    for prefix in PREFIXES {
        let helper = name.prefixed(prefix);
        assert!(helper.as_str().starts_with(prefix) && helper.as_str().contains(text));
        assert_eq!(hashed(helper.as_str()), hashed(text), "{helper:?} is in another slot than its lock");
    }
}

/// Returns the part of a key that a cluster hashes, which is the text in the first braces, unless that is empty.
fn hashed(key: &str) -> &str {
    let tag = key.find('{').and_then(|open| {
        let rest = &key[open + 1..];
        rest.find('}').map(|close| &rest[..close])
    });
    tag.filter(|tag| !tag.is_empty()).unwrap_or(key)
}
