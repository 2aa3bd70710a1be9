//! The tokens of a Rust file, as the lexer of `syn` reads them.
//!
//! Invariant: a comment is no token, and neither is the attribute that a doc comment stands for. The bodies of macros
//! are tokens like all others, so the rules see them too.

use anyhow::{Result, anyhow};
use proc_macro2::{LexError, LineColumn, Span, TokenStream, TokenTree};

/// The kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// An identifier or a keyword.
    Word,
    /// One letter of an operator, or `::`.
    Mark,
    Literal,
    /// An opening bracket.
    Open,
    /// A closing bracket.
    Close,
}

/// A token and its place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind,
    pub(super) text: &'a str,
    /// The byte that it begins with.
    pub(super) start: usize,
    pub(super) line: usize,
}

impl<'a> Token<'a> {
    /// Returns the content of a string, `None` for other tokens.
    pub(super) fn string(&self) -> Option<&'a str> {
        let quoted = (self.kind == Kind::Literal).then(|| self.text.split_once('"'))?;
        Some(quoted?.1.rsplit_once('"')?.0)
    }

    /// Returns the last line of the token.
    pub(super) fn last_line(&self) -> usize {
        let is_long = self.kind == Kind::Literal;
        self.line + if is_long { self.text.matches('\n').count() } else { 0 }
    }
}

/// A path, such as `crate::lock::Guard`, with the line that it begins on.
#[derive(Clone, Debug)]
pub(super) struct Path<'a> {
    pub(super) parts: Vec<&'a str>,
    pub(super) line: usize,
}

/// Reads the tokens of a source. The error names the line that is no Rust.
pub(super) fn read(source: &str) -> Result<Vec<Token<'_>>> {
    let stream: TokenStream =
        source.parse().map_err(|error: LexError| anyhow!("line {}: {error}", error.span().start().line))?;
    let mut begins = 0;
    let lines = source.split_inclusive('\n').map(|line| {
        begins += line.len();
        (begins - line.len(), line)
    });
    let mut reader = Reader { source, lines: lines.collect(), found: Vec::new() };
    reader.read(stream);
    Ok(reader.found)
}

/// The tokens so far.
struct Reader<'a> {
    source: &'a str,
    /// The lines, each with the byte that it begins with.
    lines: Vec<(usize, &'a str)>,
    found: Vec<Token<'a>>,
}

impl<'a> Reader<'a> {
    fn read(&mut self, stream: TokenStream) {
        let mut trees = stream.into_iter();
        while let Some(tree) = trees.next() {
            match tree {
                TokenTree::Ident(word) => self.add(Kind::Word, word.span()),
                TokenTree::Literal(literal) => self.add(Kind::Literal, literal.span()),
                TokenTree::Punct(mark) => {
                    // A doc comment is an attribute, whose tokens all have the span of the comment.
                    if mark.as_char() == '#'
                        && !self.source[self.byte(mark.span().start())..].starts_with('#')
                    {
                        trees.find(|tree| matches!(tree, TokenTree::Group(_)));
                    } else {
                        self.add(Kind::Mark, mark.span());
                    }
                }
                TokenTree::Group(group) => {
                    self.add(Kind::Open, group.span_open());
                    self.read(group.stream());
                    self.add(Kind::Close, group.span_close());
                }
            }
        }
    }

    fn add(&mut self, kind: Kind, span: Span) {
        let (place, end) = (span.start(), self.byte(span.end()));
        let start = self.byte(place);
        let text = &self.source[start..end];
        match self.found.last_mut() {
            Some(last) if text == ":" && last.text == ":" && last.start + 1 == start => {
                last.text = &self.source[last.start..end];
            }
            _ => self.found.push(Token { kind, text, start, line: place.line }),
        }
    }

    /// Returns the byte at a place, whose column counts letters.
    fn byte(&self, place: LineColumn) -> usize {
        let (begins, line) = self.lines[place.line - 1];
        let before = if line.is_ascii() {
            place.column
        } else {
            line.chars().take(place.column).map(char::len_utf8).sum()
        };
        begins + before
    }
}

/// Returns true if tokens begin with these texts.
pub(super) fn begin_with(tokens: &[Token], texts: &[&str]) -> bool {
    // Compares the first texts alone first, because most tokens differ in them.
    tokens.first().map(|token| token.text) == texts.first().copied()
        && tokens.len() >= texts.len()
        && tokens.iter().zip(texts).all(|(token, text)| token.text == *text)
}

/// Returns the number of tokens of the first bracket and its content, or 1 for another token.
pub(super) fn group_length(tokens: &[Token]) -> usize {
    let mut depth = 0_usize;
    let closes = tokens.iter().position(|token| {
        match token.kind {
            Kind::Open => depth += 1,
            Kind::Close => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0
    });
    closes.map_or(tokens.len(), |at| at + 1)
}

/// Skips the attributes that tokens begin with.
pub(super) fn after_attributes<'t, 'a>(mut tokens: &'t [Token<'a>]) -> &'t [Token<'a>] {
    while begin_with(tokens, &["#", "["]) {
        tokens = &tokens[1 + group_length(&tokens[1..])..];
    }
    tokens
}

/// Returns all paths of more than one part, and all imports. The tree of an import gives a path for each branch.
pub(super) fn paths<'a>(tokens: &[Token<'a>]) -> Vec<Path<'a>> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let Token { kind, line, .. } = tokens[at];
        let is_import = at > 0 && tokens[at - 1].text == "use";
        // The path of `pub(in path)` says who sees an item, and names nothing.
        let is_visibility = at > 2 && begin_with(&tokens[at - 3..], &["pub", "(", "in"]);
        at += match kind {
            Kind::Word if is_visibility => {
                path(&tokens[at..], Path { parts: Vec::new(), line }, false, &mut Vec::new())
            }
            Kind::Word => path(&tokens[at..], Path { parts: Vec::new(), line }, is_import, &mut found),
            _ => 1,
        };
    }
    found
}

/// Reads the path that tokens begin with, and returns the number of its tokens. In an import it goes on from the path
/// before the branches.
fn path<'a>(tokens: &[Token<'a>], mut path: Path<'a>, is_import: bool, found: &mut Vec<Path<'a>>) -> usize {
    path.parts.push(tokens[0].text);
    let mut at = 1;
    while begin_with(&tokens[at..], &["::"]) {
        match tokens.get(at + 1) {
            Some(next) if next.kind == Kind::Word => path.parts.push(next.text),
            Some(next) if next.text == "{" => {
                let end = at + 1 + group_length(&tokens[at + 1..]);
                branches(&tokens[at + 2..end - 1], &path, found);
                return end;
            }
            // The items of `module::*` are in the module, and the type of `Type::<u8>` is the whole path.
            _ => {
                found.push(path);
                return at + 1;
            }
        }
        at += 2;
    }
    if path.parts.len() > 1 || is_import {
        found.push(path);
    }
    at
}

/// Reads the branches of an import.
fn branches<'a>(tokens: &[Token<'a>], before: &Path<'a>, found: &mut Vec<Path<'a>>) {
    let mut at = 0;
    while at < tokens.len() {
        if tokens[at].kind == Kind::Word {
            at += path(&tokens[at..], before.clone(), true, found);
        } else {
            found.push(before.clone());
        }
        // Skips the new name after `as`.
        at += tokens[at..].iter().take_while(|token| token.text != ",").count() + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str) -> Vec<&str> {
        read(source).unwrap().into_iter().map(|token| token.text).collect()
    }

    fn strings(source: &str) -> Vec<&str> {
        read(source).unwrap().iter().filter_map(Token::string).collect()
    }

    #[test]
    fn comments_are_not_code() {
        let source = "//! z\na(); // b()\n/* c /* d */ e */ f() /// g\n/** h */ i / j";
        assert_eq!(texts(source), ["a", "(", ")", ";", "f", "(", ")", "i", "/", "j"]);
    }

    #[test]
    fn strings_are_not_code_and_hide_comments() {
        let source = r###"a("x // \" y"); b(r#"p " q"#); c(br"z"); d('"', '\'', 'ä', 7)"###;
        assert_eq!(strings(source), [r#"x // \" y"#, "p \" q", "z"]);
        assert_eq!(texts(source).into_iter().filter(|text| ["x", "p", "z"].contains(text)).count(), 0);
        let long = read("(\"a\n\nb\"\n)").unwrap();
        assert_eq!(
            long.iter().map(|token| (token.line, token.last_line())).collect::<Vec<_>>(),
            [(1, 1), (1, 3), (4, 4)]
        );
    }

    #[test]
    fn lifetimes_are_code() {
        assert_eq!(
            texts("f<'a>(x: &'static str)"),
            ["f", "<", "'", "a", ">", "(", "x", ":", "&", "'", "static", "str", ")"]
        );
    }

    #[test]
    fn a_text_that_is_not_rust_is_an_error_with_its_line() {
        for source in ["a();\n\"abc", "a();\n)"] {
            assert!(read(source).unwrap_err().to_string().starts_with("line 2: "), "{source}");
        }
        assert!(read("/* abc").is_err() && read("(").is_err());
    }

    #[test]
    fn the_path_of_a_visibility_names_nothing() {
        let source =
            "pub(in crate::engine) fn f(at: a::B) {} pub(crate) struct C(pub(in crate::engine) d::E);";
        let paths = paths(&read(source).unwrap());
        assert_eq!(paths.into_iter().map(|path| path.parts.join("::")).collect::<Vec<_>>(), ["a::B", "d::E"]);
    }

    #[test]
    fn the_branches_of_an_import_are_paths() {
        let found = |source| {
            let paths = paths(&read(source).unwrap());
            paths.into_iter().map(|path| path.parts.join("::")).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(found("use a::{b::{self, c as d}, e::*, *, f};"), "a::b::self a::b::c a::e a a::f");
        assert_eq!(
            found("use super::*; use part; x::<crate::A>(); $crate::b!(self::c)"),
            "super part x crate::A crate::b self::c"
        );
    }
}
