//! Masks a connection's password in texts of the server, because no error may repeat it.
//!
//! Invariant: a masked text has no part of the password that is longer than [`SHOWN_MAX`] characters. A server quotes the
//! arguments of a command that it does not know, and cuts them, so the beginning of a long token counts too.

use bytes::Bytes;

use super::value::Value;

/// The longest beginning of a password that may stay in a text. So few characters may be in the text by chance.
const SHOWN_MAX: usize = 5;
/// The length to which a text is cut before it is searched, because the search compares the whole password at each
/// place.
const TEXT_MAX: usize = 1_024;
/// What stands in place of the password.
const MASK: &str = "***";

/// The password with which a connection has logged in, if it has.
#[derive(Default)]
pub(super) struct Secret(Option<Box<[char]>>);

impl Secret {
    pub(super) fn new(password: Option<&str>) -> Self {
        Self(password.filter(|password| !password.is_empty()).map(|password| password.chars().collect()))
    }

    /// Masks the password in an error of the server.
    pub(super) fn masked(&self, value: Value) -> Value {
        match (&self.0, value) {
            (Some(password), Value::Error(text)) => Value::Error(mask(&text, password)),
            (_, value) => value,
        }
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(MASK)
    }
}

fn mask(text: &Bytes, password: &[char]) -> Bytes {
    let text: Vec<char> = String::from_utf8_lossy(text).chars().take(TEXT_MAX).collect();
    let mut shown = String::with_capacity(text.len());
    let mut rest = &text[..];
    while let Some(next) = rest.first() {
        let same = rest.iter().zip(password).take_while(|(one, other)| one == other).count();
        if same == password.len() || same > SHOWN_MAX {
            shown.push_str(MASK);
            rest = &rest[same..];
        } else {
            shown.push(*next);
            rest = &rest[1..];
        }
    }
    shown.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked(text: &'static str, password: &str) -> String {
        match Secret::new(Some(password)).masked(Value::Error(text.into())) {
            Value::Error(text) => String::from_utf8(text.into()).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_password_is_masked_wherever_a_server_repeats_it() {
        let unknown = "ERR unknown command 'AUTH', with args beginning with: 'hunter2' ";
        assert_eq!(masked(unknown, "hunter2"), unknown.replace("hunter2", MASK));
        let cut = "ERR unknown command 'AUTH', with args beginning with: 'eyJhbGciOi";
        let shown = masked(cut, "eyJhbGciOiJIUzI1NiJ9.e30.long");
        assert_eq!(
            shown, "ERR unknown command 'AUTH', with args beginning with: '***",
            "a token that was cut"
        );
        assert_eq!(masked("ERR abc", "abc"), "ERR ***");
        assert_eq!(masked("ERR a plain text", "a plan"), "ERR a plain text");
        assert_eq!(masked("ERR \u{e9}t\u{e9}-1234 x", "\u{e9}t\u{e9}-1234"), "ERR *** x");
    }

    #[test]
    fn a_text_stays_as_it_is_without_a_password() {
        for secret in [Secret::new(None), Secret::new(Some(""))] {
            let value = Value::Error("ERR This instance has cluster support disabled".into());
            assert_eq!(secret.masked(value.clone()), value);
        }
    }
}
