//! One source of values: a file, the environment, the program.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::Path;

use ::config::{File, FileFormat, Map, Source as _, Value, ValueKind};
use strsim::levenshtein;

use super::error::{ConfigError, Source};
use super::schema::{ENCRYPTIONS, LOGINS, Settings};

/// The values of one source, by their keys with sections. An empty section has a value of its own, an empty table.
pub(super) type Layer = BTreeMap<String, (ValueKind, Source)>;

/// The prefix of the environment variables that configure a client.
const PREFIX: &str = "LEASEHOLD_";
/// Variables that the command sets for the programs it runs, and which configure nothing.
const NOT_OURS: [&str; 3] = ["LEASEHOLD_NAME", "LEASEHOLD_OWNER", "LEASEHOLD_TOKEN"];

/// Reads a file.
pub(super) fn file(path: &Path) -> Result<Layer, ConfigError> {
    let (parser, format) = match path.extension().and_then(|end| end.to_str()) {
        Some("toml") => (FileFormat::Toml, "TOML"),
        Some("yaml" | "yml") => (FileFormat::Yaml, "YAML"),
        Some("json") => (FileFormat::Json, "JSON"),
        _ => return Err(ConfigError::Format { path: path.to_owned() }),
    };
    let text =
        fs::read_to_string(path).map_err(|cause| ConfigError::File { path: path.to_owned(), cause })?;
    let values = File::from_str(&text, parser).collect().map_err(|error| {
        // The error repeats a part of the file, which may be a password, so only its position is used.
        let first = error.to_string().lines().next().unwrap_or_default().to_owned();
        let (line, column) = (number_behind("line", &first), number_behind("column", &first));
        ConfigError::Syntax { path: path.to_owned(), format, line, column }
    })?;
    let mut layer = Layer::new();
    add(&mut layer, "", values, &Source::File(path.to_owned()))?;
    Ok(layer)
}

fn number_behind(word: &str, text: &str) -> Option<u64> {
    let (_, rest) = text.split_once(word)?;
    rest.trim_start().split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
}

/// Adds all values of a section.
fn add(
    layer: &mut Layer,
    section: &str,
    values: Map<String, Value>,
    set_by: &Source,
) -> Result<(), ConfigError> {
    for (name, value) in values {
        let key = if section.is_empty() { name.clone() } else { format!("{section}.{name}") };
        match value.kind {
            // Only the program and the environment join the names of sections and settings.
            _ if name.contains('.') => return Err(unknown_key(key, set_by.clone())),
            ValueKind::Table(inner) if !inner.is_empty() => add(layer, &key, inner, set_by)?,
            kind => drop(layer.insert(key, (kind, set_by.clone()))),
        }
    }
    Ok(())
}

/// Reads variables whose names begin with [`PREFIX`]. Sections are separated by two underscores. Returns the names of the
/// variables that are left out because Kubernetes has set them.
pub(super) fn environment(
    variables: impl Iterator<Item = (OsString, OsString)>,
) -> (Layer, Vec<String>, Vec<ConfigError>) {
    let (mut layer, mut ignored, mut problems) = (Layer::new(), Vec::new(), Vec::new());
    for (name, value) in variables {
        let shown = name.to_string_lossy();
        let Some(key) = shown.strip_prefix(PREFIX).filter(|_| !NOT_OURS.contains(&&*shown)) else { continue };
        if is_of_a_service(key, &value.to_string_lossy()) {
            ignored.push(shown.into_owned());
            continue;
        }
        let set_by = Source::Variable(shown.clone().into_owned());
        match (name.to_str(), value.into_string()) {
            (Some(_), Ok(text)) => {
                layer.insert(key.to_lowercase().replace("__", "."), (text.into(), set_by));
            }
            _ => problems.push(ConfigError::NotUnicode { set_by }),
        }
    }
    (layer, ignored, problems)
}

/// Returns true for a variable that Kubernetes sets in every pod beside a service whose name begins with `leasehold`, such
/// as `LEASEHOLD_REDIS_PORT=tcp://10.96.0.7:6379`. Without this rule such a service would stop all pods of its namespace.
fn is_of_a_service(key: &str, value: &str) -> bool {
    /// The protocols that a Kubernetes service can have.
    const PROTOCOLS: [&str; 3] = ["TCP", "UDP", "SCTP"];
    let is_address =
        || PROTOCOLS.iter().any(|name| value.starts_with(&format!("{}://", name.to_lowercase())));
    let words: Vec<&str> = key.split('_').collect();
    let is_port =
        |number: &str, protocol: &str| number.parse::<u16>().is_ok() && PROTOCOLS.contains(&protocol);
    match words[..] {
        // Only a key has two underscores side by side.
        _ if words.contains(&"") => false,
        [.., "SERVICE", "HOST" | "PORT"] => true,
        [.., "PORT", number, protocol] if is_port(number, protocol) => is_address(),
        [.., "PORT", number, protocol, "ADDR" | "PORT" | "PROTO"] if is_port(number, protocol) => true,
        [.., "PORT"] => is_address(),
        // A port of a service can have a name.
        _ => words.windows(2).any(|pair| pair == ["SERVICE", "PORT"]),
    }
}

/// Returns true if the key is the section or inside it.
pub(super) fn is_within(key: &str, section: &str) -> bool {
    key.strip_prefix(section).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Creates the error for a key outside the schema, with the known key that is closest to it.
pub(super) fn unknown_key(key: String, set_by: Source) -> ConfigError {
    let mut known: Vec<String> = Settings::default().rows().into_iter().map(|(key, _)| key).collect();
    let is_variable = matches!(set_by, Source::Variable(_));
    if !is_variable {
        known.extend(Settings::default().holds().map(|(section, ..)| section.to_owned()));
        known.push("sentinel.sentinel_tls".to_owned());
        known.extend(LOGINS.into_iter().chain(ENCRYPTIONS).map(str::to_owned));
    }
    let written = key.to_lowercase();
    let nearest = known.into_iter().map(|known| (levenshtein(&written, &known), known)).min();
    let nearest = nearest.filter(|(distance, _)| *distance <= 1 + key.len() / 6).map(|(_, known)| known);
    let variable = |known: String| format!("{PREFIX}{}", known.replace('.', "__").to_uppercase());
    let suggestion = if is_variable { nearest.map(variable) } else { nearest };
    ConfigError::UnknownKey { set_by, key, suggestion }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelled_key_is_recognized() {
        for (written, known) in [
            ("timout", Some("timeout")),
            ("lock.maxhold", Some("lock.max_hold")),
            ("Timeout", Some("timeout")),
            ("standalon", Some("standalone")),
            ("colour", None),
        ] {
            let ConfigError::UnknownKey { suggestion, .. } = unknown_key(written.into(), Source::Code) else {
                panic!("{written}")
            };
            assert_eq!(suggestion.as_deref(), known, "{written}");
        }
    }
}
