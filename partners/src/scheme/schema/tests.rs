//! Compares the schema with the parser on every profile and on thousands of broken ones: the schema
//! accepts what the parser accepts, and refuses what the parser refuses for its structure.

mod walk;

use std::collections::{BTreeMap, BTreeSet};

use payfold_schemas::ids::PartnerCode;
use serde_json::Value;
use toml::{Table, Value as Toml};

use super::*;
use crate::profile::shipped::{SHIPPED, STARTERS};
use crate::profile::{DEFAULT_PROFILE, Profile, SANDBOX_PROFILE};
use crate::scheme::file::call::CallHeadFile;

/// Keys that no other profile here has, so that every key is in some profile.
const RARE: &str = include_str!("../../../tests/schema/rare.toml");
const RARE_LINES: &str = include_str!("../../../tests/schema/rare-lines.toml");

/// The profiles of the fuzz targets.
const FUZZED: [(&str, &str); 6] = [
    ("items", include_str!("../../../tests/fuzzed/profiles/items.toml")),
    ("list", include_str!("../../../tests/fuzzed/profiles/list.toml")),
    ("headers", include_str!("../../../tests/fuzzed/profiles/headers.toml")),
    ("sealed", include_str!("../../../tests/fuzzed/profiles/sealed.toml")),
    ("form", include_str!("../../../tests/fuzzed/profiles/url-encoded.toml")),
    ("digest", include_str!("../../../tests/fuzzed/profiles/digest.toml")),
];

/// The `[records]` sections of the fuzz targets; they are appended to the sandbox's profile.
const SECTIONS: [&str; 4] = [
    include_str!("../../../tests/fuzzed/records/settlement.toml"),
    include_str!("../../../tests/fuzzed/records/numbered.toml"),
    include_str!("../../../tests/fuzzed/records/tail.toml"),
    include_str!("../../../tests/fuzzed/records/lines.toml"),
];

/// Every profile in the repository, with its name.
fn profiles() -> Vec<(String, String)> {
    let named = |(name, text): (&str, &str)| (name.to_owned(), text.to_owned());
    let mut all: Vec<_> = SHIPPED.map(|shipped| named((shipped.name, shipped.profile))).into();
    all.extend(STARTERS.map(|starter| named((starter.name, starter.profile))));
    all.extend(FUZZED.map(named));
    let whole = [("default", DEFAULT_PROFILE), ("sandbox", SANDBOX_PROFILE)];
    all.extend(whole.map(named));
    for (name, profile) in whole {
        let written_out = parse(profile).unwrap().written_out().unwrap();
        all.push((format!("{name} written out"), written_out));
    }
    all.extend([named(("rare", RARE)), named(("rare-lines", RARE_LINES))]);
    let of_event = DEFAULT_PROFILE
        .replace("kind = \"delivery\"", "kind = \"event\"\nmax_age_s = 86400")
        .replacen("stage =", "retry_horizon_s = 60\nstage =", 1);
    all.push(("event".to_owned(), of_event));
    let (head, _) = SANDBOX_PROFILE.split_once("[records]").unwrap();
    all.extend(SECTIONS.map(|section| named((&section[..20], &format!("{head}{section}")))));
    all
}

fn parse(text: &str) -> Result<Profile, String> {
    Profile::parse(&PartnerCode::parse("acme").unwrap(), text).map_err(|error| error.to_string())
}

fn schema_problems(text: &str) -> Vec<String> {
    let table: Table = text.parse().unwrap();
    walk::problems(&profile_schema(), &serde_json::to_value(table).unwrap())
}

#[test]
fn the_published_schema_is_current() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/profile.schema.json");
    let published = std::fs::read_to_string(file).unwrap();
    let published: Value = serde_json::from_str(&published).unwrap();
    assert!(
        published == profile_schema(),
        "run `payfold partner schema > docs/profile.schema.json`"
    );
}

#[test]
fn every_profile_is_taken_by_both() {
    for (name, text) in profiles() {
        parse(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(schema_problems(&text), Vec::<String>::new(), "{name}");
    }
}

/// The names of the two definitions in the schema: custom schemes and the default scheme.
const KINDS: [&str; 2] = ["custom", "default"];

/// Every key of a schema by its path, with its own schema.
fn places(schema: &Value) -> BTreeMap<String, &Value> {
    let mut all = BTreeMap::new();
    gather(schema, "", &mut all);
    all
}

fn gather<'s>(schema: &'s Value, at: &str, all: &mut BTreeMap<String, &'s Value>) {
    for (key, schema) in schema["properties"].as_object().into_iter().flatten() {
        let place = below(at, key);
        gather(schema, &place, all);
        all.insert(place, schema);
    }
    for (keyword, mark) in [("items", "[]"), ("additionalProperties", "{}")] {
        if let Some(schema) = schema.get(keyword) {
            gather(schema, &format!("{at}{mark}"), all);
        }
    }
}

fn below(at: &str, key: &str) -> String {
    if at.is_empty() { key.to_owned() } else { format!("{at}.{key}") }
}

#[test]
fn every_key_has_a_one_line_description() {
    let schema = profile_schema();
    for kind in KINDS {
        let places = places(&schema["definitions"][kind]);
        assert!(places.len() > 30, "{kind}: {} keys", places.len());
        for (place, schema) in places {
            let says = schema["description"].as_str().unwrap_or_default();
            let is_sentence = says.ends_with(['.', '…']) && !says.contains('\n');
            assert!(is_sentence, "{kind}: {place} needs a doc comment in one paragraph: {says:?}");
        }
    }
}

/// A key that is in no profile would never be broken below. If several sections share one type of
/// the parser, one of them is enough.
#[test]
fn every_key_is_in_some_profile() {
    let schema = profile_schema();
    let (mut seen, mut known) = (BTreeSet::new(), BTreeSet::new());
    for kind in KINDS {
        let schema = &schema["definitions"][kind];
        for (_, text) in profiles() {
            if crate::scheme::file::is_custom_scheme(&text) == (kind == "custom") {
                note(&Toml::Table(text.parse().unwrap()), "", schema, &mut seen);
            }
        }
        known.extend(places(schema).into_keys().map(|place| kind_of_place(&place)));
    }
    let missing: Vec<_> = known.difference(&seen).collect();
    assert_eq!(missing, Vec::<&String>::new());
}

/// The path of a key, with sections that share a type of the parser mapped to one.
fn kind_of_place(place: &str) -> String {
    for shared in ["when[]", "success[]", "pairs[]", "text[]"] {
        if let Some((_, key)) = place.split_once(&format!("{shared}.")) {
            return format!("{}.{key}", shared.replace("success", "when"));
        }
    }
    for section in ["query.", "create.", "oauth."] {
        if let Some(key) = place.strip_prefix(section)
            && CallHeadFile::KEYS.contains(&key)
        {
            return format!("call.{key}");
        }
    }
    match place.strip_prefix("acks.").and_then(|place| place.split_once('.')) {
        Some((_, key)) => format!("acks.*.{key}"),
        None => place.to_owned(),
    }
}

fn note(value: &Toml, at: &str, schema: &Value, seen: &mut BTreeSet<String>) {
    seen.insert(kind_of_place(at));
    match value {
        Toml::Table(table) => {
            for (key, value) in table {
                match schema["properties"].get(key) {
                    Some(schema) => note(value, &below(at, key), schema, seen),
                    None => {
                        note(value, &format!("{at}{{}}"), &schema["additionalProperties"], seen);
                    }
                }
            }
        }
        Toml::Array(elements) => {
            let place = format!("{at}[]");
            elements.iter().for_each(|element| note(element, &place, &schema["items"], seen));
        }
        _ => {}
    }
}

/// One step of a path into a TOML value.
#[derive(Clone, Debug)]
enum Step {
    Key(String),
    Item(usize),
}

fn paths(value: &Toml, at: &[Step], all: &mut Vec<Vec<Step>>) {
    let steps: Vec<(Step, &Toml)> = match value {
        Toml::Table(table) => table.iter().map(|(k, v)| (Step::Key(k.clone()), v)).collect(),
        Toml::Array(items) => items.iter().enumerate().map(|(n, v)| (Step::Item(n), v)).collect(),
        _ => Vec::new(),
    };
    for (step, value) in steps {
        let path = [at, &[step]].concat();
        paths(value, &path, all);
        all.push(path);
    }
}

fn at<'v>(value: &'v mut Toml, path: &[Step]) -> &'v mut Toml {
    path.iter().fold(value, |value, step| match step {
        Step::Key(key) => &mut value[key.as_str()],
        Step::Item(n) => &mut value[*n],
    })
}

fn remove(value: &mut Toml, path: &[Step]) {
    let (last, above) = path.split_last().unwrap();
    match (at(value, above), last) {
        (Toml::Table(table), Step::Key(key)) => drop(table.remove(key)),
        (Toml::Array(items), Step::Item(n)) => drop(items.remove(*n)),
        _ => unreachable!("a path leads through what it was made of"),
    }
}

/// The changes made so far: scheme, place (without element numbers), change.
type TriedChanges = BTreeSet<(&'static str, String, String)>;

fn place_of(path: &[Step]) -> String {
    let steps = path.iter().map(|step| match step {
        Step::Key(key) => format!(".{key}"),
        Step::Item(_) => "[]".to_owned(),
    });
    steps.collect()
}

/// Every change of a profile at one place, with a description. A wrong value is tried once for each
/// place, in the first profile that has it; a missing key is tried in every profile.
fn broken(whole: &Toml, scheme: &'static str, done: &mut TriedChanges) -> Vec<(String, Toml)> {
    let mut all = Vec::new();
    paths(whole, &[], &mut all);
    let mut broken = Vec::new();
    for path in std::iter::once(Vec::new()).chain(all) {
        let mut with = |what: &str, value: Option<Toml>| {
            let form = value.as_ref().map_or(String::new(), |value| match value {
                Toml::Table(_) | Toml::Array(_) => what.to_owned(),
                value => format!("{what} {value}"),
            });
            if value.is_some() && !done.insert((scheme, place_of(&path), form)) {
                return;
            }
            let mut other = whole.clone();
            match value {
                Some(value) => *at(&mut other, &path) = value,
                None => remove(&mut other, &path),
            }
            broken.push((format!("{path:?} {what}"), other));
        };
        let old = at(&mut whole.clone(), &path).clone();
        if let Toml::Table(table) = &old {
            let mut more = table.clone();
            more.insert("zz".to_owned(), Toml::Integer(1));
            with("and zz", Some(Toml::Table(more)));
        }
        if path.is_empty() {
            continue;
        }
        with("left out", None);
        let others = [-1, 0, 17, 61, 512, 65_537, 1_048_577, 31_536_001];
        for number in others {
            with("another number", Some(Toml::Integer(number)));
        }
        with("a word", Some(Toml::String("zz".to_owned())));
        with("true", Some(Toml::Boolean(true)));
        with("a fraction", Some(Toml::Float(1.5)));
        with("an empty table", Some(Toml::Table(Table::new())));
        with("an empty list", Some(Toml::Array(Vec::new())));
        with("a list of it", Some(Toml::Array(vec![old])));
    }
    broken
}

/// Whether an error is one of structure: a key, a type, an enum value or a bound.
fn is_of_structure(error: &str) -> bool {
    let said = [
        "unknown field",
        "missing field",
        "invalid type",
        "invalid value",
        "invalid length",
        "unknown variant",
        "there is no section",
        "is a section; write",
        "is a list; write",
        "version starts at 1",
        "this program reads language",
        "an answer's status is",
        "outcome is SUCCESS",
        "is SUCCESS, FAILED",
        "notice.methods may have",
        "records.lists takes",
        "a condition has one of",
        "signature.field must be",
        "retry_horizon_s must be",
        "missing: where the answer holds the values",
        "query.method is missing",
        "query.map takes no",
        "an entry has no nonce",
        "is missing: what a line means",
    ];
    let is_bound = error.lines().any(|line| {
        let words: Vec<_> = line.rsplit(' ').take(4).collect();
        let is_number = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit());
        // The bound of a tail's row depends on its number of lines.
        let is_of_itself = !line.contains("records.tail.row");
        let is_range =
            |most: &str, least: &str| is_of_itself && is_number(most) && is_number(least);
        matches!(words[..], [most, "to", least, "be"] if is_range(most, least))
    });
    is_bound || said.iter().any(|part| error.contains(part)) || error.contains("the section [")
}

/// How schema and parser judge one profile.
#[derive(Clone, Debug, PartialEq)]
enum Agreement {
    Taken,
    Refused,
    /// Refused by the parser for a reason that a schema can't express.
    OfNoStructure,
    /// Only one of them refuses the profile.
    Missed(String),
}

fn judge(schema: &serde_json::Value, (what, value): &(String, Toml)) -> Agreement {
    let problems = walk::problems(schema, &serde_json::to_value(value).unwrap());
    match parse(&toml::to_string(value).unwrap()) {
        Ok(_) if problems.is_empty() => Agreement::Taken,
        Ok(_) => Agreement::Missed(format!("{what}: only the schema says {problems:?}")),
        Err(error) if !is_of_structure(&error) => Agreement::OfNoStructure,
        Err(_) if !problems.is_empty() => Agreement::Refused,
        Err(error) => Agreement::Missed(format!("{what}: only the parser says {error}")),
    }
}

#[test]
fn schema_and_parser_agree_on_broken_profiles() {
    let schema = profile_schema();
    let mut done = TriedChanges::new();
    let mut cases = Vec::new();
    for (name, text) in profiles() {
        let scheme =
            if crate::scheme::file::is_custom_scheme(&text) { "custom" } else { "default" };
        let all = broken(&Toml::Table(text.parse().unwrap()), scheme, &mut done);
        cases.extend(all.into_iter().map(|(what, value)| (format!("{name} {what}"), value)));
    }
    // `PROPTEST_CASES` is of generated cases; where it is low, these are only a sample, too.
    let generated = proptest::test_runner::Config::default().cases as usize;
    let step = (256 / generated.max(1)).clamp(1, 8);
    let cases: Vec<_> = cases.into_iter().step_by(step).collect();
    // One thread would need nine seconds.
    let judged = std::thread::scope(|scope| {
        let judging = cases.chunks(cases.len().div_ceil(4));
        let judging: Vec<_> = judging
            .map(|cases| {
                scope.spawn(|| cases.iter().map(|case| judge(&schema, case)).collect::<Vec<_>>())
            })
            .collect();
        judging
            .into_iter()
            .flat_map(|thread| thread.join().expect("no case panics"))
            .collect::<Vec<_>>()
    });
    let count = |which: Agreement| judged.iter().filter(|one| **one == which).count();
    let (taken, refused) = (count(Agreement::Taken), count(Agreement::Refused));
    let mut missed: Vec<_> = judged
        .iter()
        .filter_map(|one| match one {
            Agreement::Missed(what) => Some(what.as_str()),
            Agreement::Taken | Agreement::Refused | Agreement::OfNoStructure => None,
        })
        .collect();
    missed.truncate(20);
    assert!(missed.is_empty(), "{}", missed.join("\n"));
    let enough = taken > 500 / step && refused > 6_000 / step;
    assert!(enough, "{taken} taken, {refused} refused");
}
