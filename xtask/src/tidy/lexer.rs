//! Separates the code, comments and strings of Rust, as far as the rules need it.
//!
//! Invariant: every view has the lines of the source, so line numbers agree.

/// The kind of a byte.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Code,
    Comment,
    Text,
}

/// Returns the source with all other kinds blank. Delimiters of strings count as code.
pub(super) fn only(kind: Kind, source: &str, kinds: &[Kind]) -> String {
    let keep = |(at, letter)| {
        if letter == '\n' || kinds[at] == kind { letter } else { ' ' }
    };
    source.char_indices().map(keep).collect()
}

/// Returns the kind of each byte.
pub(super) fn classify(source: &str) -> Vec<Kind> {
    let bytes = source.as_bytes();
    let mut kinds = vec![Kind::Code; bytes.len()];
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let (opening, content, closing, kind) = match rest {
            [b'/', b'/', ..] => (0, line_length(rest), 0, Kind::Comment),
            [b'/', b'*', ..] => (0, block_length(rest), 0, Kind::Comment),
            [b'"', ..] => (1, quoted_length(&rest[1..], b'"'), 1, Kind::Text),
            [b'\'', ..] if is_char_literal(rest) => (1, quoted_length(&rest[1..], b'\''), 1, Kind::Text),
            [b'r', ..] if !follows_word(bytes, at) => match raw_string(rest) {
                Some((opening, content)) => (opening, content, opening - 1, Kind::Text),
                None => (1, 0, 0, Kind::Code),
            },
            _ => (1, 0, 0, Kind::Code),
        };
        let from = (at + opening).min(bytes.len());
        let to = (from + content).min(bytes.len());
        kinds[from..to].fill(kind);
        at = to + closing;
    }
    kinds
}

fn line_length(rest: &[u8]) -> usize {
    rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len())
}

/// The length of a block comment. Block comments nest.
fn block_length(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < rest.len() {
        match &rest[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

/// The length up to the closing quote. A backslash escapes a quote.
fn quoted_length(rest: &[u8], quote: u8) -> usize {
    let mut at = 0;
    while at < rest.len() && rest[at] != quote {
        at += if rest[at] == b'\\' { 2 } else { 1 };
    }
    at.min(rest.len())
}

/// Tells `'a'` and `'\n'` from the lifetime `'a`.
fn is_char_literal(rest: &[u8]) -> bool {
    let letter = std::str::from_utf8(&rest[1..rest.len().min(5)])
        .or_else(|error| std::str::from_utf8(&rest[1..=error.valid_up_to()]))
        .ok()
        .and_then(|text| text.chars().next());
    letter.is_some_and(|letter| letter == '\\' || rest.get(1 + letter.len_utf8()) == Some(&b'\''))
}

/// The lengths of `r##"` and of the content after it, or `None` if no raw string begins here.
fn raw_string(rest: &[u8]) -> Option<(usize, usize)> {
    let hashes = rest[1..].iter().take_while(|byte| **byte == b'#').count();
    let opening = hashes + 2;
    if rest.get(opening - 1) != Some(&b'"') {
        return None;
    }
    let closing = [b"\"".as_slice(), &b"#".repeat(hashes)].concat();
    let content = &rest[opening..];
    let length = content.windows(closing.len()).position(|window| window == closing).unwrap_or(content.len());
    Some((opening, length))
}

/// Returns true if the byte at this place continues a word, other than the `b` of `br"..."` and the `c` of `cr"..."`.
fn follows_word(bytes: &[u8], at: usize) -> bool {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    match bytes[..at] {
        [.., before, b'b' | b'c'] => is_word(&before),
        [.., before] => is_word(&before),
        [] => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn views(source: &str) -> [String; 3] {
        let kinds = classify(source);
        [Kind::Code, Kind::Comment, Kind::Text].map(|kind| {
            let view = only(kind, source, &kinds);
            view.split_whitespace().collect::<Vec<_>>().join(" ")
        })
    }

    #[test]
    fn comments_are_no_code() {
        let source = "a(); // b()\n/* c /* d */ e */ f() /// g\n";
        assert_eq!(views(source), ["a(); f()", "// b() /* c /* d */ e */ /// g", ""]);
    }

    #[test]
    fn strings_are_no_code_and_hide_comments() {
        let source = r###"a("x // \" y"); b(r#"p " q"#); c(br"z"); d('"', '\'', 'ä')"###;
        assert_eq!(
            views(source),
            [r###"a(" "); b(r#" "#); c(br" "); d(' ', ' ', ' ')"###, "", r#"x // \" y p " q z " \' ä"#]
        );
    }

    #[test]
    fn lifetimes_are_code() {
        assert_eq!(
            views("fn f<'a>(x: &'a str, y: &'static str) {}")[0],
            "fn f<'a>(x: &'a str, y: &'static str) {}"
        );
    }

    #[test]
    fn what_is_cut_off_does_not_confuse() {
        for source in ["\"abc", "/* abc", "r#\"abc", "'", "'\\", "r", "\"\\"] {
            assert_eq!(classify(source).len(), source.len());
        }
    }
}
