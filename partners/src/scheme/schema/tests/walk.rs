//! Owns a small JSON Schema validator: exactly the keywords that this schema uses; any other
//! keyword panics.

use serde_json::Value;

/// The problems of a value under a schema, each with its place.
pub fn problems(root: &Value, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    Walk { root }.node(root, value, "", &mut found);
    found
}

struct Walk<'s> {
    root: &'s Value,
}

impl Walk<'_> {
    fn holds(&self, schema: &Value, value: &Value) -> bool {
        let mut found = Vec::new();
        self.node(schema, value, "", &mut found);
        found.is_empty()
    }

    fn node(&self, schema: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
        for (keyword, wanted) in schema.as_object().expect("a schema is an object") {
            let holds = match keyword.as_str() {
                "$schema" | "title" | "description" | "definitions" | "then" | "else" => true,
                "$ref" => {
                    let path = wanted.as_str().unwrap().strip_prefix('#').unwrap();
                    let there = self.root.pointer(path).expect("a reference leads somewhere");
                    self.node(there, value, at, found);
                    true
                }
                "if" => {
                    let branch = if self.holds(wanted, value) { "then" } else { "else" };
                    self.node(&schema[branch], value, at, found);
                    true
                }
                "anyOf" => {
                    wanted.as_array().unwrap().iter().any(|schema| self.holds(schema, value))
                }
                "properties" => {
                    for (key, schema) in wanted.as_object().unwrap() {
                        if let Some(value) = value.get(key) {
                            self.node(schema, value, &format!("{at}.{key}"), found);
                        }
                    }
                    true
                }
                "additionalProperties" => self.others(schema, value, at, found),
                "items" => {
                    for (n, value) in value.as_array().into_iter().flatten().enumerate() {
                        self.node(wanted, value, &format!("{at}[{n}]"), found);
                    }
                    true
                }
                _ => alone(keyword, wanted, value),
            };
            if !holds {
                found.push(format!("{at}: {keyword} {wanted}"));
            }
        }
    }

    /// Checks the keys that `properties` does not name.
    fn others(&self, schema: &Value, value: &Value, at: &str, found: &mut Vec<String>) -> bool {
        let others = value.as_object().into_iter().flatten();
        let mut others = others.filter(|(key, _)| schema["properties"].get(key.as_str()).is_none());
        match &schema["additionalProperties"] {
            Value::Bool(false) => others.next().is_none(),
            wanted => {
                others.for_each(|(key, value)| {
                    self.node(wanted, value, &format!("{at}.{key}"), found);
                });
                true
            }
        }
    }
}

/// A keyword that checks the value itself; it passes for values of another type.
fn alone(keyword: &str, wanted: &Value, value: &Value) -> bool {
    let count = |count: Option<usize>, holds: fn(u64, u64) -> bool| {
        let wanted = wanted.as_u64().unwrap();
        count.is_none_or(|count| holds(u64::try_from(count).unwrap(), wanted))
    };
    let keys = value.as_object().map(serde_json::Map::len);
    match keyword {
        "type" => match wanted.as_str().unwrap() {
            "object" => value.is_object(),
            "array" => value.is_array(),
            "string" => value.is_string(),
            "boolean" => value.is_boolean(),
            "integer" => value.is_i64() || value.is_u64(),
            other => panic!("type {other} is not read here"),
        },
        "enum" => wanted.as_array().unwrap().contains(value),
        "required" => {
            let mut keys = wanted.as_array().unwrap().iter().map(|key| key.as_str().unwrap());
            value.as_object().is_none_or(|table| keys.all(|key| table.contains_key(key)))
        }
        "minimum" => value.as_i64().is_none_or(|value| value >= wanted.as_i64().unwrap()),
        "maximum" => value.as_i64().is_none_or(|value| value <= wanted.as_i64().unwrap()),
        "minItems" => count(value.as_array().map(Vec::len), |count, least| count >= least),
        "minProperties" => count(keys, |count, least| count >= least),
        "maxProperties" => count(keys, |count, most| count <= most),
        other => panic!("the keyword {other} is not read here"),
    }
}
