//! One line of fields, separated by tabs.
//!
//! Invariant: a field has no control character, so neither the separators nor a terminal need an escape.

/// The longest text of a field that a user chooses, in bytes: the longest name of a lock fits.
pub(super) const FIELD_MAX: usize = 512;

/// Returns the text without control characters, cut to [`FIELD_MAX`] bytes.
pub(super) fn cleaned(text: &str) -> String {
    let mut clean = String::with_capacity(text.len().min(FIELD_MAX));
    for letter in text.chars() {
        if clean.len() + letter.len_utf8() > FIELD_MAX {
            break;
        }
        clean.push(if letter.is_control() { ' ' } else { letter });
    }
    clean
}

/// Returns the fields of a line, or `None` if the line has another control character than its tabs.
pub(super) fn fields(line: &str) -> Option<Vec<&str>> {
    let fields: Vec<_> = line.split('\t').collect();
    let is_clean = fields.iter().all(|field| !field.contains(char::is_control));
    is_clean.then_some(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_has_no_control_character_and_a_bounded_length() {
        assert_eq!(cleaned("a\tb\n\u{1b}[31mc\u{9b}"), "a b  [31mc ");
        let long = cleaned(&"ü".repeat(FIELD_MAX));
        assert_eq!(long.len(), FIELD_MAX);
        assert_eq!(fields("a\tb\u{7}"), None);
        assert_eq!(fields("a\t\tb"), Some(vec!["a", "", "b"]));
    }
}
