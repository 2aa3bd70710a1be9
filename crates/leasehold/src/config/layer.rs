//! One source of values: a file, the environment, the program.
//!
//! Invariant: every key of a layer is in the table of fields, and every value is of its kind and within its bounds.
//! Equal settings have equal values, in every syntax.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::fs;
use std::path::Path;

use ::config::{Environment, File, FileFormat, Source, Value, ValueKind};

use super::error::{ConfigError, Origin, Said};
use super::fields::{Field, Kind, field, is_section, meant};
use super::span;

/// The prefix of the variables.
pub(super) const PREFIX: &str = "LEASEHOLD_";
/// Variables that the command sets for the programs it runs, and which configure nothing.
const NOT_OURS: [&str; 3] = ["LEASEHOLD_NAME", "LEASEHOLD_OWNER", "LEASEHOLD_TOKEN"];

/// A value of the kind that the table requires. It has no `Debug`, because it may be a secret.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Leaf {
    Flag(bool),
    Number(u32),
    Text(String),
    List(Vec<String>),
}

/// The values of one source, by their keys.
pub(super) type Layer = BTreeMap<String, (Leaf, Origin)>;

/// Reads a file.
pub(super) fn file(path: &Path) -> Result<Layer, ConfigError> {
    let (format, name) = match path.extension().and_then(|end| end.to_str()) {
        Some("toml") => (FileFormat::Toml, "TOML"),
        Some("yaml" | "yml") => (FileFormat::Yaml, "YAML"),
        Some("json") => (FileFormat::Json, "JSON"),
        _ => return Err(ConfigError::Format { path: path.to_owned() }),
    };
    let text =
        fs::read_to_string(path).map_err(|source| ConfigError::File { path: path.to_owned(), source })?;
    // The error repeats a part of the file, which may be a password, so only its place is used.
    let values = File::from_str(&text, format).collect().map_err(|error| {
        let (line, column) = place(&error.to_string());
        ConfigError::Syntax { path: path.to_owned(), format: name, line, column }
    })?;
    let mut layer = Layer::new();
    add_all(&mut layer, "", values, &Origin::File(path.to_owned()))?;
    Ok(layer)
}

/// Returns the numbers behind `line` and `column`.
fn place(said: &str) -> (Option<u64>, Option<u64>) {
    let first = said.lines().next().unwrap_or_default();
    let behind = |word: &str| {
        let (_, rest) = first.split_once(word)?;
        let digits = rest.trim_start().split(|letter: char| !letter.is_ascii_digit()).next()?;
        digits.parse().ok()
    };
    (behind("line"), behind("column"))
}

/// Reads variables whose names begin with [`PREFIX`]. Sections are separated by two underscores.
pub(super) fn environment(
    variables: impl Iterator<Item = (OsString, OsString)>,
) -> Result<Layer, ConfigError> {
    let mut ours = HashMap::new();
    for (name, value) in variables {
        let shown = name.to_string_lossy().into_owned();
        if !shown.starts_with(PREFIX) || NOT_OURS.contains(&shown.as_str()) {
            continue;
        }
        let (Ok(name), Ok(value)) = (name.into_string(), value.into_string()) else {
            return Err(ConfigError::NotUnicode { origin: Origin::Variable(shown) });
        };
        ours.insert(name, value);
    }
    let reader =
        Environment::with_prefix("LEASEHOLD").prefix_separator("_").separator("__").source(Some(ours));
    let values = reader.collect().expect("all names and values are Unicode");
    let mut layer = Layer::new();
    for (key, value) in values {
        let origin = Origin::Variable(variable(&key));
        let Some(field) = field(&key) else {
            let meant = meant(&key).filter(|key| field(key).is_some()).map(variable);
            return Err(ConfigError::UnknownKey { origin, key, meant });
        };
        let value = told_as_text(field, value);
        layer.insert(key, (leaf(field, value, &origin)?, origin));
    }
    Ok(layer)
}

/// Returns the variable of a key.
pub(super) fn variable(key: &str) -> String {
    format!("{PREFIX}{}", key.replace('.', "__").to_uppercase())
}

/// Converts the text of a variable to a number, flag or list, since the environment has only text.
fn told_as_text(field: &Field, value: Value) -> Value {
    let ValueKind::String(text) = &value.kind else {
        return value;
    };
    let kind: ValueKind = match field.kind {
        Kind::Number(_) => match text.parse::<i64>() {
            Ok(number) => number.into(),
            Err(_) => return value,
        },
        Kind::Flag => match text.parse::<bool>() {
            Ok(flag) => flag.into(),
            Err(_) => return value,
        },
        Kind::List | Kind::Urls => text.split(',').map(str::trim).collect::<Vec<_>>().into(),
        _ => return value,
    };
    Value::new(None, kind)
}

/// Returns the default of a field, or `None` for a field without a default.
pub(super) fn default(field: &Field) -> Option<Leaf> {
    let text = (!field.default.is_empty()).then(|| Value::new(None, field.default))?;
    let value = told_as_text(field, text);
    Some(leaf(field, value, &Origin::Default).expect("a test reads every default"))
}

/// Returns one value that the program sets, by itself or from its command line.
pub(super) fn code(
    key: &str,
    value: ValueKind,
    origin: Origin,
) -> Result<(String, (Leaf, Origin)), ConfigError> {
    let Some(field) = field(key) else {
        let meant = meant(key).map(str::to_owned);
        return Err(ConfigError::UnknownKey { origin, key: key.to_owned(), meant });
    };
    Ok((key.to_owned(), (leaf(field, Value::new(None, value), &origin)?, origin)))
}

/// Adds everything under a section.
fn add_all(
    layer: &mut Layer,
    section: &str,
    values: ::config::Map<String, Value>,
    origin: &Origin,
) -> Result<(), ConfigError> {
    for (name, value) in values {
        let key = if section.is_empty() { name.clone() } else { format!("{section}.{name}") };
        let found = field(&key).filter(|_| !name.contains('.'));
        match (found, value.kind) {
            (Some(field), kind) => {
                let leaf = leaf(field, Value::new(None, kind), origin)?;
                layer.insert(key, (leaf, origin.clone()));
            }
            (None, ValueKind::Table(inner)) if is_section(&key) => add_all(layer, &key, inner, origin)?,
            (None, _) if is_section(&key) => return Err(not(origin, &key, "a section")),
            _ => {
                let meant = meant(&key).map(str::to_owned);
                return Err(ConfigError::UnknownKey { origin: origin.clone(), key, meant });
            }
        }
    }
    Ok(())
}

/// Returns the value of a field, if it is of the field's kind and within its bounds.
fn leaf(field: &Field, value: Value, origin: &Origin) -> Result<Leaf, ConfigError> {
    let wrong = |expected: &str| not(origin, &field.key, expected);
    match (field.kind, value.kind) {
        (Kind::Span(least, most), ValueKind::String(text)) => {
            let given = span::parse(&text).ok_or_else(|| wrong(A_SPAN))?;
            let (shown, least_shown, most_shown) =
                (span::shown(given), span::shown(least), span::shown(most));
            if (least..=most).contains(&given) {
                return Ok(Leaf::Text(shown));
            }
            Err(outside(origin, field, shown, least_shown, most_shown))
        }
        (Kind::Span(..), _) => Err(wrong(A_SPAN)),
        (Kind::Number(most), ValueKind::I64(given)) => match u32::try_from(given) {
            Ok(number) if number <= most => Ok(Leaf::Number(number)),
            _ => Err(outside(origin, field, given.to_string(), "0".into(), most.to_string())),
        },
        (Kind::Number(_), _) => Err(wrong("a whole number, such as 3, without quotes")),
        (Kind::Flag, ValueKind::Boolean(flag)) => Ok(Leaf::Flag(flag)),
        (Kind::Flag, _) => Err(wrong("true or false, without quotes")),
        (Kind::Word(words), ValueKind::String(text)) if words.contains(&&*text) => Ok(Leaf::Text(text)),
        (Kind::Word(words), _) => Err(wrong(&format!("one of \"{}\"", words.join("\", \"")))),
        (Kind::List | Kind::Urls, ValueKind::Array(values)) => {
            let text = |value: Value| match value.kind {
                ValueKind::String(text) => Ok(text),
                _ => Err(wrong("a list of texts in quotes")),
            };
            values.into_iter().map(text).collect::<Result<_, _>>().map(Leaf::List)
        }
        (Kind::List | Kind::Urls, _) => Err(wrong("a list of texts, such as [\"a:6379\", \"b:6379\"]")),
        (Kind::Text | Kind::Secret | Kind::Url | Kind::Path, ValueKind::String(text)) => Ok(Leaf::Text(text)),
        _ => Err(wrong("text in quotes")),
    }
}

const A_SPAN: &str = "a duration in quotes, such as \"30s\", \"5m\" or \"1h30m\"";

fn not(origin: &Origin, key: &str, expected: &str) -> ConfigError {
    ConfigError::Value { origin: origin.clone(), key: key.to_owned(), expected: expected.to_owned() }
}

fn outside(origin: &Origin, field: &Field, given: String, least: String, most: String) -> ConfigError {
    let given = Said { key: field.key.clone(), value: given, origin: origin.clone() };
    ConfigError::Bounds { given: Box::new(given), least, most }
}

impl From<Leaf> for ValueKind {
    fn from(leaf: Leaf) -> Self {
        match leaf {
            Leaf::Flag(flag) => flag.into(),
            Leaf::Number(number) => i64::from(number).into(),
            Leaf::Text(text) => text.into(),
            Leaf::List(texts) => texts.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fields::FIELDS;
    use super::super::print;
    use super::*;

    #[test]
    fn every_default_is_a_value_of_its_field_and_is_what_the_table_says() {
        for field in FIELDS.iter() {
            let read = default(field).map(|leaf| print::shown(&field.key, &leaf));
            let written = read.as_deref().unwrap_or_default().trim_matches('"');
            assert_eq!(written, field.default, "{}", field.key);
        }
    }
}
