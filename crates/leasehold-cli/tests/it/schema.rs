//! The JSON form of listings against `docs/schema/list.json`.
//!
//! The check knows the words of JSON Schema that the file uses, and refuses others. A field that the schema does not have is
//! an error here, so that a new field is described.

use std::path::Path;

use serde_json::Value;

/// A schema.
pub(crate) struct Schema(Value);

impl Schema {
    /// Reads the schema of listings.
    pub(crate) fn of_listings() -> Self {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema/list.json");
        Self(serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap())
    }

    /// Fails if the value has not this form.
    #[track_caller]
    pub(crate) fn check(&self, value: &Value) {
        let mut faults = Vec::new();
        self.compare(&self.0, value, "listing", &mut faults);
        assert!(faults.is_empty(), "{faults:?}");
    }

    fn compare(&self, schema: &Value, value: &Value, at: &str, faults: &mut Vec<String>) {
        let mut is_of_type = true;
        for (word, rule) in schema.as_object().unwrap() {
            match word.as_str() {
                "$ref" => {
                    let place = rule.as_str().unwrap().strip_prefix('#').unwrap();
                    self.compare(self.0.pointer(place).unwrap(), value, at, faults);
                }
                "type" => {
                    let types = rule.as_array().cloned().unwrap_or_else(|| vec![rule.clone()]);
                    is_of_type = types.iter().any(|name| has_type(name.as_str().unwrap(), value));
                }
                "const" => is_of_type = rule == value,
                "enum" => is_of_type = rule.as_array().unwrap().contains(value),
                "required" if value.is_object() => {
                    let missing = rule
                        .as_array()
                        .unwrap()
                        .iter()
                        .filter(|name| value.get(name.as_str().unwrap()).is_none());
                    faults.extend(missing.map(|name| format!("{at} has no {name}")));
                }
                "properties" if value.is_object() => {
                    for (name, value) in value.as_object().unwrap() {
                        match rule.get(name) {
                            Some(rule) => self.compare(rule, value, &format!("{at}.{name}"), faults),
                            None => faults.push(format!("{at}.{name} is not in the schema")),
                        }
                    }
                }
                "items" if value.is_array() => {
                    for item in value.as_array().unwrap() {
                        self.compare(rule, item, &format!("{at}[]"), faults);
                    }
                }
                "required" | "properties" | "items" | "description" | "title" | "$schema" | "$defs" => {}
                other => panic!("the check does not know {other}"),
            }
        }
        if !is_of_type {
            faults.push(format!("{at} is {value}"));
        }
    }
}

fn has_type(name: &str, value: &Value) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("the check does not know the type {other}"),
    }
}

#[test]
fn the_check_finds_what_is_missing_unknown_or_of_another_type() {
    let schema = Schema::of_listings();
    let faults = |text: &str| {
        let mut faults = Vec::new();
        schema.compare(&schema.0, &serde_json::from_str(text).unwrap(), "listing", &mut faults);
        faults.join("; ")
    };
    let found = faults(r#"{ "schema": 2, "at": 7, "more": 1, "objects": [{ "kind": "mutex" }] }"#);
    for fault in [
        "listing.schema is 2",
        "listing.at is 7",
        "listing.more is not",
        "no \"sources\"",
        "kind is \"mutex\"",
    ] {
        assert!(found.contains(fault), "{fault} in {found}");
    }
}
