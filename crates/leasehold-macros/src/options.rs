//! The options of one use of the attribute.
//!
//! Invariant: each option occurs once, with a value that is valid by itself, and [`check`](crate::check) finds the
//! conflicts.

use proc_macro2::{Ident, TokenStream};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::{Error, Expr, Lit, Path, Token};

use crate::nearest::nearest;
use crate::problems::Problems;
use crate::value::{KINDS, Kind, OnBusy, OnFinish, OnLost, Span, bare, binding, library, renewals, replicas};

/// Every option, with an example.
const KNOWN: [(&str, &str); 17] = [
    ("name", "name = \"order:{order_id}\""),
    ("kind", "kind = fair"),
    ("wait", "wait = \"5s\""),
    ("lease", "lease = \"10s\""),
    ("watchdog", "watchdog = \"30s\""),
    ("max_renewals", "max_renewals = 360"),
    ("max_hold", "max_hold = \"1h\""),
    ("min_hold", "min_hold = \"5m\""),
    ("margin", "margin = \"2s\""),
    ("replicas", "replicas = Confirm::all(2)"),
    ("on_finish", "on_finish = detach"),
    ("on_busy", "on_busy = skip"),
    ("on_lost", "on_lost = finish"),
    ("client", "client = self.client"),
    ("redlock", "redlock = self.redlock"),
    ("fence", "fence = token"),
    ("crate", "crate = ::locks"),
];

/// An option that was given: its word, and its value unless the value has a problem.
pub(crate) struct Given<T> {
    pub(crate) word: Ident,
    pub(crate) value: Option<T>,
}

/// The given options.
#[derive(Default)]
pub(crate) struct Options {
    pub(crate) name: Option<Given<Expr>>,
    pub(crate) kind: Option<Given<Kind>>,
    pub(crate) wait: Option<Given<Span>>,
    pub(crate) lease: Option<Given<Span>>,
    pub(crate) watchdog: Option<Given<Span>>,
    pub(crate) max_renewals: Option<Given<Expr>>,
    pub(crate) max_hold: Option<Given<Span>>,
    pub(crate) min_hold: Option<Given<Span>>,
    pub(crate) margin: Option<Given<Span>>,
    pub(crate) replicas: Option<Given<Expr>>,
    pub(crate) on_finish: Option<Given<OnFinish>>,
    pub(crate) on_busy: Option<Given<OnBusy>>,
    pub(crate) on_lost: Option<Given<OnLost>>,
    pub(crate) client: Option<Given<Expr>>,
    pub(crate) redlock: Option<Given<Expr>>,
    pub(crate) fence: Option<Given<Ident>>,
    pub(crate) library: Option<Given<Path>>,
    /// True if the parser stopped at a problem, so the options after it are not known.
    pub(crate) is_cut_short: bool,
}

/// Returns the value of an option that was given and has no problem.
pub(crate) fn value<T>(given: Option<&Given<T>>) -> Option<&T> {
    given.and_then(|given| given.value.as_ref())
}

impl Options {
    /// Returns the expressions of the names, several if the option is an array.
    pub(crate) fn names(&self) -> Vec<&Expr> {
        match value(self.name.as_ref()) {
            Some(Expr::Array(array)) => array.elems.iter().collect(),
            Some(one) => vec![one],
            None => Vec::new(),
        }
    }

    /// Returns true if the names are an array, so that the body runs under several locks.
    pub(crate) fn has_several(&self) -> bool {
        matches!(value(self.name.as_ref()), Some(Expr::Array(_)))
    }

    /// Parses the tokens between the parentheses, and continues after a problem as long as it can.
    pub(crate) fn read(tokens: TokenStream, problems: &mut Problems) -> Self {
        let mut options = Self::default();
        let all = |input: ParseStream<'_>| {
            while !input.is_empty() {
                let (word, value) = one(input)?;
                options.take(word, value, problems);
                if !input.is_empty() {
                    input.parse::<Token![,]>()?;
                }
            }
            Ok(())
        };
        let read = all.parse2(tokens);
        options.is_cut_short = problems.ok(read).is_none();
        options
    }

    fn take(&mut self, word: Ident, value: Expr, problems: &mut Problems) {
        let called = word.to_string();
        let span = |value| Span::read(&called, value);
        match called.as_str() {
            "name" => set(&mut self.name, word, Ok(value), problems),
            "kind" => set(&mut self.kind, word, Kind::read(&value), problems),
            "wait" => set(&mut self.wait, word, span(value), problems),
            "lease" => set(&mut self.lease, word, span(value), problems),
            "watchdog" => set(&mut self.watchdog, word, span(value), problems),
            "max_renewals" => set(&mut self.max_renewals, word, renewals(value), problems),
            "max_hold" => set(&mut self.max_hold, word, span(value), problems),
            "min_hold" => set(&mut self.min_hold, word, span(value), problems),
            "margin" => set(&mut self.margin, word, span(value), problems),
            "replicas" => set(&mut self.replicas, word, replicas(value), problems),
            "on_finish" => set(&mut self.on_finish, word, OnFinish::read(&value), problems),
            "on_busy" => set(&mut self.on_busy, word, OnBusy::read(&value), problems),
            "on_lost" => set(&mut self.on_lost, word, OnLost::read(&value), problems),
            "client" => set(&mut self.client, word, Ok(value), problems),
            "redlock" => set(&mut self.redlock, word, Ok(value), problems),
            "fence" => set(&mut self.fence, word, binding(&value), problems),
            "crate" => set(&mut self.library, word, library(&value), problems),
            _ => problems.add(unknown(&word)),
        }
    }
}

/// Parses `word = value`.
fn one(input: ParseStream<'_>) -> syn::Result<(Ident, Expr)> {
    if input.peek(Lit) {
        return Err(input.error("options have names: write `name = \"order:{order_id}\"`"));
    }
    let word = input.call(Ident::parse_any)?;
    let sign: Option<Token![=]> = input.parse()?;
    if sign.is_none() || input.is_empty() || input.peek(Token![,]) {
        return Err(without_value(&word));
    }
    Ok((word, bare(input.parse()?)))
}

fn set<T>(place: &mut Option<Given<T>>, word: Ident, value: syn::Result<T>, problems: &mut Problems) {
    let value = problems.ok(value);
    if place.is_some() {
        problems.at(&word, format!("`{word}` is given twice; leave one of them out"));
    } else {
        *place = Some(Given { word, value });
    }
}

fn without_value(word: &Ident) -> Error {
    let written = word.to_string();
    let problem = match KNOWN.iter().find(|(known, _)| *known == written) {
        Some((_, example)) => format!("`{written}` needs a value: write `{example}`"),
        None if KINDS.contains(&written.as_str()) => format!("options have names: write `kind = {written}`"),
        None => return unknown(word),
    };
    Error::new_spanned(word, problem)
}

fn unknown(word: &Ident) -> Error {
    let written = word.to_string();
    let meant = nearest(&written, KNOWN.iter().map(|(known, _)| *known));
    let problem = match KNOWN.iter().find(|(known, _)| Some(*known) == meant) {
        Some((_, example)) => format!("there is no option `{written}`; did you mean `{example}`?"),
        None => {
            let all = KNOWN.map(|(known, _)| known).join(", ");
            format!("there is no option `{written}`; the options are {all}")
        }
    };
    Error::new_spanned(word, problem)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    fn problems(text: &str) -> Vec<String> {
        let mut problems = Problems::default();
        Options::read(text.parse().unwrap(), &mut problems);
        problems.messages()
    }

    #[test]
    fn every_option_parses_as_in_its_example() {
        for (option, example) in KNOWN {
            assert_eq!(problems(example), Vec::<String>::new(), "{option}");
        }
        let all = KNOWN.map(|(_, example)| example).join(", ");
        assert_eq!(problems(&format!("{all},")), Vec::<String>::new());
    }

    #[test]
    fn all_problems_are_reported_at_once() {
        let found = problems("name = \"a\", name = \"b\", ttl = 5, wait = \"soon\", kind = fare");
        assert_eq!(found.len(), 4, "{found:?}");
    }

    /// Returns the words between backticks, without the values after them.
    fn words(cell: &str) -> impl Iterator<Item = &str> {
        let quoted = cell.split('`').skip(1).step_by(2);
        quoted.map(|text| text.split_once(" =").map_or(text, |(word, _)| word))
    }

    #[test]
    fn every_word_is_translated_as_on_the_page() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/attribute.md");
        let page = std::fs::read_to_string(page).unwrap();
        let (_, from_java) = page.split_once("## From Java").unwrap();
        let known = KNOWN.map(|(known, _)| known);
        let mut translated = BTreeMap::<&str, BTreeSet<&str>>::new();
        for row in from_java.lines().filter_map(|line| line.strip_prefix("| ")) {
            let (theirs, ours) = row.split_once(" | ").unwrap();
            for word in words(theirs) {
                let options = words(ours).filter(|word| known.contains(word));
                translated.entry(word).or_default().extend(options);
            }
        }
        assert!(translated.len() > 25, "{translated:?}");
        for (theirs, ours) in translated.into_iter().filter(|(theirs, _)| !known.contains(theirs)) {
            let meant = nearest(theirs, known);
            // Some words have no counterpart among the options.
            let is_so = meant.map_or(ours.is_empty(), |meant| ours.contains(meant));
            assert!(is_so, "`{theirs}` is {ours:?} on the page and {meant:?} here");
        }
    }

    #[test]
    fn an_option_without_a_value_gets_advice() {
        for (option, example) in KNOWN {
            let found = problems(option);
            assert!(found[0].contains(example), "{found:?}");
        }
    }
}
