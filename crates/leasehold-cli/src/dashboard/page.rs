//! The files of the page, and the headers of every answer.
//!
//! Invariant: the files have no data, and the policy lets a browser load nothing else.

use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};

/// A file of the page.
pub(super) struct File {
    pub(super) kind: &'static str,
    pub(super) text: &'static str,
}

/// Returns the file at this path.
pub(super) fn file(path: &str) -> Option<File> {
    let (kind, text) = match path {
        "/" => ("text/html; charset=utf-8", include_str!("page/index.html")),
        "/app.js" => ("text/javascript; charset=utf-8", include_str!("page/app.js")),
        "/style.css" => ("text/css; charset=utf-8", include_str!("page/style.css")),
        _ => return None,
    };
    Some(File { kind, text })
}

const HEADERS: [(&str, &str); 7] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
    ),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cache-control", "no-store"),
];

/// Adds the headers that every answer has.
pub(super) fn secure(headers: &mut HeaderMap) {
    for (name, value) in HEADERS {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_small_and_writes_texts_only_as_texts() {
        let texts: Vec<_> =
            ["/", "/app.js", "/style.css"].into_iter().map(|path| file(path).unwrap().text).collect();
        assert!(texts.iter().map(|text| text.len()).sum::<usize>() < 60_000);
        for unsafe_word in
            ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "http://", "https://"]
        {
            assert!(texts.iter().all(|text| !text.contains(unsafe_word)), "{unsafe_word}");
        }
        let page = texts[0];
        let has_handler = page.split_whitespace().any(|word| word.starts_with("on") && word.contains('='));
        assert!(!page.contains("style=") && !has_handler, "the policy forbids both");
        assert!(file("/app.js/").is_none() && file("/../Cargo.toml").is_none());
    }
}
