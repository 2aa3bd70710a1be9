//! The values of options: durations, counts and choices.
//!
//! Invariant: a value that is known at compile time is checked here, with the rules of the library.

use std::time::Duration;

use leasehold_proto::{SpanError, parse_span};
use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, quote_spanned};
use syn::{Error, Expr, ExprCall, ExprLit, ExprPath, ExprUnary, Lit, Path, UnOp};

use crate::nearest::nearest;

/// A duration: known now, or an expression of type `Duration`.
pub(crate) enum Span {
    Known { duration: Duration, written: Lit },
    Computed(Expr),
}

/// The kind of lock.
pub(crate) enum Kind {
    Reentrant,
    Fair,
    Fenced,
    Plain,
    Read,
    Write,
    Semaphore(Expr),
}

/// The reaction to a wait that ended with another owner's hold.
pub(crate) enum OnBusy {
    Error,
    Skip,
    Fallback(Expr),
}

/// The end of the hold when the body has ended.
pub(crate) enum OnFinish {
    Release,
    Detach,
}

/// The reaction of the body to a lost lock.
pub(crate) enum OnLost {
    Cancel,
    Finish,
}

pub(crate) const KINDS: [&str; 7] = ["reentrant", "fair", "fenced", "plain", "read", "write", "semaphore"];

impl Span {
    /// Reads a text as a duration. Any other value is an expression.
    pub(crate) fn read(option: &str, value: Expr) -> syn::Result<Self> {
        let Expr::Lit(ExprLit { lit, .. }) = value else {
            return Ok(Self::Computed(value));
        };
        let Lit::Str(text) = &lit else {
            let problem = format!(
                "a duration is a string with a unit, such as `{option} = \"5s\"` or \"1h30m\", or an expression of \
                 type `Duration`"
            );
            return Err(Error::new_spanned(lit, problem));
        };
        let text = text.value();
        match parse_span(&text) {
            Ok(duration) => Ok(Self::Known { duration, written: lit }),
            Err(SpanError::CapitalM { minutes, .. }) => {
                let problem = format!("`M` stands for months; for minutes, write `{option} = \"{minutes}\"`");
                Err(Error::new_spanned(lit, problem))
            }
            Err(_) => {
                let problem = format!(
                    "\"{text}\" is not a duration; write numbers with the units ms, s, m, h or d, such as \
                     `{option} = \"5s\"` or \"1h30m\""
                );
                Err(Error::new_spanned(lit, problem))
            }
        }
    }

    pub(crate) fn known(&self) -> Option<Duration> {
        match self {
            Self::Known { duration, .. } => Some(*duration),
            Self::Computed(_) => None,
        }
    }
}

impl ToTokens for Span {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        match self {
            Self::Known { duration, written } => {
                let (seconds, nanos) = (duration.as_secs(), duration.subsec_nanos());
                let code = quote_spanned!(written.span()=> ::core::time::Duration::new(#seconds, #nanos));
                tokens.extend(code);
            }
            Self::Computed(expression) => expression.to_tokens(tokens),
        }
    }
}

impl Kind {
    pub(crate) fn read(value: &Expr) -> syn::Result<Self> {
        let Some((word, arguments)) = word_of(value) else {
            return Err(no_choice(value, "kind", &KINDS));
        };
        match (word.to_string().as_str(), arguments) {
            ("reentrant", None) => Ok(Self::Reentrant),
            ("fair", None) => Ok(Self::Fair),
            ("fenced", None) => Ok(Self::Fenced),
            ("plain", None) => Ok(Self::Plain),
            ("read", None) => Ok(Self::Read),
            ("write", None) => Ok(Self::Write),
            ("semaphore", Some(call)) if call.args.len() == 1 => {
                permits(&bare(call.args[0].clone())).map(Self::Semaphore)
            }
            ("semaphore", _) => {
                let problem =
                    "a semaphore needs the number of bodies that run at a time: `kind = semaphore(10)`";
                Err(Error::new_spanned(value, problem))
            }
            (known, Some(call)) if KINDS.contains(&known) => {
                let problem = format!("this kind has no number: write `kind = {known}`");
                Err(Error::new_spanned(&call.args, problem))
            }
            _ => Err(no_choice(value, "kind", &KINDS)),
        }
    }
}

/// Returns the number of permits. A literal is checked at once.
fn permits(value: &Expr) -> syn::Result<Expr> {
    let problem = match count(value) {
        Count::Known(0) => {
            "without permits nothing ever runs; write the number of bodies that run at a time: `kind = semaphore(10)`"
        }
        Count::Known(_) | Count::Computed => return Ok(value.clone()),
        Count::Wrong => {
            "the number of bodies at a time is a whole number from 1 to 4294967295: `kind = semaphore(10)`"
        }
    };
    Err(Error::new_spanned(value, problem))
}

/// The value of an option of type `u32`.
enum Count {
    Known(u32),
    Computed,
    /// A literal of another kind: negative, too large, of another type.
    Wrong,
}

fn count(value: &Expr) -> Count {
    match value {
        Expr::Lit(ExprLit { lit: Lit::Int(number), .. }) => match number.base10_parse() {
            Ok(known) if matches!(number.suffix(), "" | "u32") => Count::Known(known),
            _ => Count::Wrong,
        },
        Expr::Lit(_) => Count::Wrong,
        Expr::Unary(ExprUnary { op: UnOp::Neg(_), expr, .. }) if matches!(**expr, Expr::Lit(_)) => {
            Count::Wrong
        }
        _ => Count::Computed,
    }
}

impl OnBusy {
    pub(crate) fn read(value: &Expr) -> syn::Result<Self> {
        match word_of(value) {
            Some((word, None)) if word == "error" => Ok(Self::Error),
            Some((word, None)) if word == "skip" => Ok(Self::Skip),
            Some((word, Some(call))) if word == "fallback" && call.args.len() == 1 => {
                Ok(Self::Fallback(bare(call.args[0].clone())))
            }
            Some((word, _)) if word == "fallback" => {
                let problem = "`fallback` needs the function that is called instead, with the same arguments: \
                               `on_busy = fallback(charge_later)`";
                Err(Error::new_spanned(value, problem))
            }
            _ => Err(no_choice(value, "on_busy", &["error", "skip", "fallback(path)"])),
        }
    }
}

impl OnFinish {
    pub(crate) fn read(value: &Expr) -> syn::Result<Self> {
        match word_of(value) {
            Some((word, None)) if word == "release" => Ok(Self::Release),
            Some((word, None)) if word == "detach" => Ok(Self::Detach),
            _ => Err(no_choice(value, "on_finish", &["release", "detach"])),
        }
    }
}

impl OnLost {
    pub(crate) fn read(value: &Expr) -> syn::Result<Self> {
        match word_of(value) {
            Some((word, None)) if word == "cancel" => Ok(Self::Cancel),
            Some((word, None)) if word == "finish" => Ok(Self::Finish),
            _ => Err(no_choice(value, "on_lost", &["cancel", "finish"])),
        }
    }
}

/// Returns the bound on the number of renewals.
pub(crate) fn renewals(value: Expr) -> syn::Result<Expr> {
    if matches!(count(&value), Count::Wrong) {
        let problem = "`max_renewals` is a whole number from 0 to 4294967295, such as `max_renewals = 360`; leave it \
                       out for no bound; a bound in time is `max_hold = \"1h\"`";
        return Err(Error::new_spanned(value, problem));
    }
    Ok(value)
}

/// Returns the policy for the replicas.
pub(crate) fn replicas(value: Expr) -> syn::Result<Expr> {
    if matches!(value, Expr::Lit(_)) {
        let problem = "`replicas` is a value of type `Confirm`, such as `replicas = Confirm::all(2)` or \
                       `Confirm::AtLeast(1)`";
        return Err(Error::new_spanned(value, problem));
    }
    Ok(value)
}

/// Returns the name of the fencing token in the body.
pub(crate) fn binding(value: &Expr) -> syn::Result<Ident> {
    match word_of(value) {
        Some((word, None)) => Ok(word.clone()),
        _ => {
            let problem = "this is the name that the token has in the body, such as `fence = token`";
            Err(Error::new_spanned(value, problem))
        }
    }
}

/// Returns the path of the library in the user's crate.
pub(crate) fn library(value: &Expr) -> syn::Result<Path> {
    match value {
        Expr::Path(ExprPath { qself: None, path, .. })
            if path.segments.iter().all(|segment| segment.arguments.is_none()) =>
        {
            Ok(path.clone())
        }
        _ => {
            let problem =
                "this is the path of the library in this crate, without quotes, such as `crate = ::locks`";
            Err(Error::new_spanned(value, problem))
        }
    }
}

/// Removes the invisible groups around a macro's `$name:literal` and similar fragments. A group that keeps an
/// expression with operators together stays.
pub(crate) fn bare(value: Expr) -> Expr {
    match value {
        Expr::Group(group)
            if matches!(*group.expr, Expr::Group(_) | Expr::Lit(_) | Expr::Path(_) | Expr::Call(_)) =>
        {
            bare(*group.expr)
        }
        value => value,
    }
}

/// Parses `word`, or `word(..)`.
fn word_of(value: &Expr) -> Option<(&Ident, Option<&ExprCall>)> {
    match value {
        Expr::Path(path) => path.path.get_ident().map(|word| (word, None)),
        Expr::Call(call) => match &*call.func {
            Expr::Path(path) => path.path.get_ident().map(|word| (word, Some(call))),
            _ => None,
        },
        _ => None,
    }
}

fn no_choice(value: &Expr, option: &str, choices: &[&str]) -> Error {
    let listed = choices.iter().map(|choice| match *choice {
        "semaphore" => "`semaphore(n)`".to_owned(),
        choice => format!("`{choice}`"),
    });
    let listed = listed.collect::<Vec<_>>().join(", ");
    let words = choices.iter().copied();
    let (written, quotes) = match value {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => (Some(text.value()), ", without quotes"),
        value => (word_of(value).map(|(word, _)| word.to_string()), ""),
    };
    let meant = written.and_then(|written| nearest(&written, words));
    let guess = meant.map(|meant| format!("; did you mean `{meant}`{quotes}?")).unwrap_or_default();
    Error::new_spanned(value, format!("`{option}` is one of {listed}{guess}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(value: &str) -> Result<Option<Duration>, String> {
        let value = syn::parse_str(value).unwrap();
        Span::read("wait", value).map(|span| span.known()).map_err(|problem| problem.to_string())
    }

    #[test]
    fn strings_are_durations_and_expressions_stay_unchanged() {
        for (text, ms) in [
            ("500ms", 500),
            ("30s", 30_000),
            ("5m", 300_000),
            ("1h30m", 5_400_000),
            ("2d", 172_800_000),
            ("0s", 0),
            ("1h 30m", 5_400_000),
        ] {
            assert_eq!(span(&format!("{text:?}")), Ok(Some(Duration::from_millis(ms))), "{text}");
        }
        assert_eq!(span("WAIT"), Ok(None));
        assert_eq!(span("Duration::from_secs(u64::from(seconds))"), Ok(None));
    }

    #[test]
    fn an_invalid_duration_gets_a_suggestion() {
        for text in ["\"\"", "\"5\"", "\"five\"", "\"-5s\"", "\"5s later\"", "\"1y\"", "5", "true", "5.0"] {
            assert!(span(text).unwrap_err().contains("wait = \"5s\""), "{text}");
        }
    }

    #[test]
    fn a_capital_m_is_not_a_unit() {
        let problem = span("\"5M\"").unwrap_err();
        assert!(problem.contains("for minutes, write `wait = \"5m\"`"), "{problem}");
    }

    #[test]
    fn counts_are_whole_numbers_that_fit() {
        let read = |text: &str| renewals(syn::parse_str(text).unwrap()).map(|_| ());
        for right in ["0", "360", "360u32", "4294967295", "1_000", "retries", "-offset", "2 * 3"] {
            assert!(read(right).is_ok(), "{right}");
        }
        for wrong in ["-1", "4294967296", "99999999999999999999", "3u64", "3.0", "\"3\"", "true", "-1.5"] {
            let problem = read(wrong).unwrap_err().to_string();
            assert!(problem.contains("max_renewals = 360"), "{wrong}: {problem}");
        }
    }

    #[test]
    fn the_library_is_a_plain_path() {
        let read = |text: &str| match library(&syn::parse_str(text).unwrap()) {
            Ok(_) => Ok(()),
            Err(problem) => Err(problem.to_string()),
        };
        for right in ["locks", "::locks", "crate::vendor::leasehold", "self::locks"] {
            assert!(read(right).is_ok(), "{right}");
        }
        for wrong in ["\"locks\"", "locks()", "locks::<u8>", "<locks as T>::x", "1"] {
            let problem = read(wrong).unwrap_err();
            assert!(problem.contains("crate = ::locks"), "{wrong}: {problem}");
        }
    }

    #[test]
    fn kinds_are_words_and_a_semaphore_has_a_count() {
        let read =
            |text: &str| Kind::read(&syn::parse_str(text).unwrap()).map_err(|problem| problem.to_string());
        for kind in
            ["reentrant", "fair", "fenced", "plain", "read", "write", "semaphore(3)", "semaphore(self.most)"]
        {
            assert!(read(kind).is_ok(), "{kind}");
        }
        for (bad, says) in [
            ("semaphore", "semaphore(10)"),
            ("semaphore(0)", "nothing ever runs"),
            ("semaphore(-1)", "from 1 to 4294967295: `kind = semaphore(10)`"),
            ("semaphore(99999999999)", "from 1 to 4294967295: `kind = semaphore(10)`"),
            ("semaphore(\"3\")", "from 1 to 4294967295: `kind = semaphore(10)`"),
            ("semaphore(3, 4)", "semaphore(10)"),
            ("fair(3)", "kind = fair"),
            ("fare", "did you mean `fair`"),
            ("\"fair\"", "did you mean `fair`, without quotes?"),
        ] {
            let problem = read(bad).err().unwrap_or_default();
            assert!(problem.contains(says), "{bad}: {problem}");
        }
    }
}
