//! The deserializer that reads the settings from a layer, each value by the type of its setting.
//!
//! Invariant: no error repeats a text. A file writes each value in its own type. A variable has only text, which is read
//! as the type of the setting.

use std::collections::BTreeSet;
use std::fmt;

use ::config::{Value, ValueKind};
use serde::de::value::{MapDeserializer, SeqDeserializer, StrDeserializer};
use serde::de::{self, Deserialize, Deserializer, Expected, IntoDeserializer, Unexpected, Visitor};
use serde::forward_to_deserialize_any;

use super::error::{ConfigError, GivenValue, Source};
use super::layer::{Layer, is_within, unknown_key};
use super::schema::Settings;

/// Reads the settings of a layer. Moves each value that cannot be used out of it, with its error.
pub(super) fn all_settings(layer: &mut Layer, problems: &mut Vec<ConfigError>) -> Settings {
    loop {
        match settings(layer) {
            Ok(settings) => return settings,
            Err(problem) => {
                let faulty = problem.key().map(str::to_owned);
                let before = layer.len();
                layer.retain(|key, _| faulty.as_deref().is_none_or(|faulty| !is_within(key, faulty)));
                problems.push(problem);
                if layer.len() == before {
                    return Settings::default();
                }
            }
        }
    }
}

/// Reads the settings of a layer.
pub(super) fn settings(layer: &Layer) -> Result<Settings, ConfigError> {
    Settings::deserialize(Node { layer, key: "" }).map_err(|Error { key, problem }| {
        let of_key = layer.iter().find(|(known, _)| is_within(known, &key));
        let set_by = of_key.map_or(Source::Default, |(_, (_, set_by))| set_by.clone());
        match problem {
            Problem::UnknownKey { .. } => unknown_key(key, set_by),
            Problem::Value { expected } => {
                let expected = in_words_of(&set_by, expected);
                ConfigError::Value { set_by, key, expected }
            }
            Problem::Bounds { value, bounds } => {
                ConfigError::Bounds { given: Box::new(GivenValue { key, value, set_by }), bounds }
            }
        }
    })
}

/// Returns the expected value as its source writes it. A variable has no types and no quotes, and quotes that a tool has
/// left in it are the usual mistake.
fn in_words_of(set_by: &Source, expected: String) -> String {
    match set_by {
        Source::Variable(_) => {
            let plain = expected.replace(" in quotes", "").replace(", without quotes", "").replace('"', "");
            if plain == expected || expected.contains(", without quotes") {
                plain
            } else {
                plain + ", without quotes"
            }
        }
        _ => expected,
    }
}

/// Reads a word of the environment as true or false.
pub(super) fn truth(word: &str) -> Option<bool> {
    match word.trim().to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" | "on" => Some(true),
        "false" | "0" | "no" | "off" => Some(false),
        _ => None,
    }
}

/// A value of a layer, or a section. The root has an empty key.
#[derive(Clone, Copy)]
struct Node<'a> {
    layer: &'a Layer,
    key: &'a str,
}

impl<'a> Node<'a> {
    fn given(self) -> Option<&'a (ValueKind, Source)> {
        self.layer.get(self.key).filter(|_| !self.key.is_empty())
    }

    /// Returns the values and sections in this section, each with its name.
    fn children(self) -> impl Iterator<Item = (&'a str, Self)> {
        let begin = if self.key.is_empty() { 0 } else { self.key.len() + 1 };
        let is_inside = |key: &str| begin == 0 || (is_within(key, self.key) && key != self.key);
        let keys = self.layer.keys().filter(|key| is_inside(key));
        let keys = keys.map(|key| key[begin..].find('.').map_or(&key[..], |dot| &key[..begin + dot]));
        let keys: BTreeSet<&str> = keys.collect();
        keys.into_iter().map(move |key| (&key[begin..], Self { key, ..self }))
    }

    /// Names the key in an error of this node. An error of a child has its own key.
    fn named<T>(self, read: Result<T, Error>) -> Result<T, Error> {
        read.map_err(|Error { key, problem }| match &problem {
            _ if !key.is_empty() => Error { key, problem },
            Problem::UnknownKey { name } if !self.key.is_empty() => {
                Error { key: format!("{}.{name}", self.key), problem }
            }
            Problem::UnknownKey { name } => Error { key: name.clone(), problem },
            _ => Error { key: self.key.to_owned(), problem },
        })
    }
}

impl<'de> Deserializer<'de> for Node<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.named(match self.given() {
            None | Some((ValueKind::Table(_), _)) => visitor.visit_map(MapDeserializer::new(self.children())),
            Some((ValueKind::String(text), _)) => visitor.visit_str(text),
            Some((ValueKind::U128(nanos), _)) => visitor.visit_u128(*nanos),
            Some((ValueKind::I64(number), _)) => visitor.visit_i64(*number),
            Some(_) => Err(de::Error::invalid_type(Unexpected::Other("value"), &visitor)),
        })
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let flag = match self.given() {
            Some((ValueKind::Boolean(flag), _)) => Some(*flag),
            Some((ValueKind::String(text), Source::Variable(_))) => truth(text),
            _ => None,
        };
        let flag = flag.ok_or_else(|| expected("true or false, without quotes"));
        visitor.visit_bool(self.named(flag)?)
    }

    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let number = match self.given() {
            Some((ValueKind::I64(number), _)) => Some(*number),
            Some((ValueKind::String(text), Source::Variable(_))) => text.parse().ok(),
            _ => None,
        };
        let number = number.ok_or_else(|| expected("a whole number, such as 3, without quotes"));
        let number = number.and_then(|number: i64| {
            u32::try_from(number).map_err(|_| outside(&number.to_string(), &format!("0 to {}", u32::MAX)))
        });
        visitor.visit_u32(self.named(number)?)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.given() {
            Some((ValueKind::String(text), _)) => visitor.visit_str(text),
            _ => self.named(Err(expected("text in quotes"))),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        words: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.named(match self.given() {
            Some((ValueKind::String(text), _)) => {
                let text: StrDeserializer<'_, Error> = text.as_str().into_deserializer();
                visitor.visit_enum(text)
            }
            _ => Err(de::Error::unknown_variant("", words)),
        })
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let text = |value: &'de Value| match &value.kind {
            ValueKind::String(text) => Ok(text.as_str()),
            _ => Err(expected("a list of texts in quotes")),
        };
        let texts: Result<Vec<&str>, Error> = match self.given() {
            Some((ValueKind::Array(values), _)) => values.iter().map(text).collect(),
            Some((ValueKind::String(text), Source::Variable(_))) => {
                Ok(text.split(',').map(str::trim).collect())
            }
            _ => Err(expected("a list of texts, such as [\"a:6379\", \"b:6379\"]")),
        };
        visitor.visit_seq(SeqDeserializer::new(self.named(texts)?.into_iter()))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u64 u128 f32 f64 char str bytes byte_buf unit unit_struct newtype_struct tuple
        tuple_struct map struct identifier ignored_any
    }
}

impl<'de> IntoDeserializer<'de, Error> for Node<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

/// A problem with a key. The key is empty until its node names it.
#[derive(Debug)]
struct Error {
    key: String,
    problem: Problem,
}

#[derive(Debug)]
enum Problem {
    UnknownKey { name: String },
    Value { expected: String },
    Bounds { value: String, bounds: String },
}

impl From<Problem> for Error {
    fn from(problem: Problem) -> Self {
        Self { key: String::new(), problem }
    }
}

fn expected(expected: &str) -> Error {
    Problem::Value { expected: expected.to_owned() }.into()
}

fn outside(value: &str, bounds: &str) -> Error {
    Problem::Bounds { value: value.to_owned(), bounds: bounds.to_owned() }.into()
}

impl de::Error for Error {
    /// Leaves out the message, because it may repeat the value.
    fn custom<T: fmt::Display>(_: T) -> Self {
        expected("valid")
    }

    fn invalid_type(_: Unexpected<'_>, wanted: &dyn Expected) -> Self {
        expected(&wanted.to_string())
    }

    /// Repeats a value that its type has read, and no other.
    fn invalid_value(given: Unexpected<'_>, wanted: &dyn Expected) -> Self {
        match given {
            Unexpected::Other(value) => outside(value, &wanted.to_string()),
            _ => expected(&wanted.to_string()),
        }
    }

    fn unknown_variant(_: &str, words: &'static [&'static str]) -> Self {
        expected(&format!("one of \"{}\"", words.join("\", \"")))
    }

    fn unknown_field(name: &str, _: &'static [&'static str]) -> Self {
        Problem::UnknownKey { name: name.to_owned() }.into()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?}", self.key, self.problem)
    }
}

impl std::error::Error for Error {}
