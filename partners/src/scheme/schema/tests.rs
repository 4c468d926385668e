//! The schema against the parser, both ways: over every profile there is and thousands of broken ones, what the parser
//! takes the schema takes, and what the parser refuses for its structure the schema refuses.

mod walk;

use std::collections::BTreeSet;

use payfold_schemas::ids::PartnerCode;
use serde_json::Value;
use toml::{Table, Value as Toml};

use super::*;
use crate::profile::{DEFAULT_PROFILE, Profile, SANDBOX_PROFILE, SHIPPED, STARTERS};

/// Keys that no other profile here has, so that each stands in one.
const RARE: &str = include_str!("../../../tests/schema/rare.toml");
const RARE_LINES: &str = include_str!("../../../tests/schema/rare-lines.toml");

/// Profiles of the fuzz targets.
const FUZZED: [(&str, &str); 6] = [
    ("items", include_str!("../../../tests/fuzzed/profiles/items.toml")),
    ("list", include_str!("../../../tests/fuzzed/profiles/list.toml")),
    ("headers", include_str!("../../../tests/fuzzed/profiles/headers.toml")),
    ("sealed", include_str!("../../../tests/fuzzed/profiles/sealed.toml")),
    ("form", include_str!("../../../tests/fuzzed/profiles/form.toml")),
    ("digest", include_str!("../../../tests/fuzzed/profiles/digest.toml")),
];

/// `[records]` sections of the fuzz targets, behind the head of the sandbox's profile.
const SECTIONS: [&str; 4] = [
    include_str!("../../../tests/fuzzed/records/settlement.toml"),
    include_str!("../../../tests/fuzzed/records/numbered.toml"),
    include_str!("../../../tests/fuzzed/records/tail.toml"),
    include_str!("../../../tests/fuzzed/records/lines.toml"),
];

/// Every profile there is.
fn profiles() -> Vec<(String, String)> {
    let named = |(name, text): (&str, &str)| (name.to_owned(), text.to_owned());
    let mut all: Vec<_> = SHIPPED.map(|shipped| named((shipped.name, shipped.profile))).into();
    all.extend(STARTERS.map(|starter| named((starter.name, starter.profile))));
    all.extend(FUZZED.map(named));
    let whole = [("default", DEFAULT_PROFILE), ("sandbox", SANDBOX_PROFILE)];
    all.extend(whole.map(named));
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

fn schema_says(text: &str) -> Vec<String> {
    let table: Table = text.parse().unwrap();
    walk::problems(&profile_schema(), &serde_json::to_value(table).unwrap())
}

#[test]
fn the_published_schema_is_this_one() {
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
        assert_eq!(schema_says(&text), Vec::<String>::new(), "{name}");
    }
}

/// Every place of a schema that has a key's name.
fn places(shape: &Shape) -> Vec<(&String, &Kind)> {
    shape.kinds.iter().filter(|(place, kind)| says::is_told(place, kind)).collect()
}

#[test]
fn every_key_has_its_words_and_no_words_are_left_over() {
    let mut used = vec![false; says::ROWS.len()];
    for (scheme, shape) in [("own", own()), ("contract", contract())] {
        for (place, _) in places(&shape) {
            let row = says::row(scheme, place);
            used[row.unwrap_or_else(|| panic!("nothing is said of {scheme}/{place}"))] = true;
        }
    }
    let rows = says::ROWS.iter().zip(used);
    let unused: Vec<_> = rows.filter(|(_, used)| !used).map(|(row, _)| row.0).collect();
    assert_eq!(unused, Vec::<&str>::new());
}

/// What is broken is worth something only where there is something to break. Where one type of the parser's stands in
/// several places, one of them will do.
#[test]
fn every_key_stands_in_some_profile() {
    let (mut seen, mut told) = (BTreeSet::new(), BTreeSet::new());
    for (scheme, shape) in [("own", own()), ("contract", contract())] {
        for (_, text) in profiles() {
            if super::file::is_own_scheme(&text) == (scheme == "own") {
                note(&Toml::Table(text.parse().unwrap()), "", &shape, &mut seen);
            }
        }
        told.extend(places(&shape).into_iter().map(|(place, _)| kind_of_place(place)));
    }
    let missing: Vec<_> = told.difference(&seen).collect();
    assert_eq!(missing, Vec::<&String>::new());
}

/// The place by the parser's type.
fn kind_of_place(place: &str) -> String {
    for shared in ["when[]", "success[]", "pairs[]", "text[]"] {
        if let Some((_, key)) = place.split_once(&format!("{shared}.")) {
            return format!("{}.{key}", shared.replace("success", "when"));
        }
    }
    for section in ["query.", "create.", "oauth."] {
        if let Some(key) = place.strip_prefix(section)
            && call::CallHeadFile::KEYS.contains(&key)
        {
            return format!("call.{key}");
        }
    }
    match place.strip_prefix("acks.").and_then(|place| place.split_once('.')) {
        Some((_, key)) => format!("acks.*.{key}"),
        None => place.to_owned(),
    }
}

fn note(value: &Toml, at: &str, shape: &Shape, seen: &mut BTreeSet<String>) {
    seen.insert(kind_of_place(at));
    match value {
        Toml::Table(table) => {
            for (key, value) in table {
                let is_map = shape.kinds.get(at) == Some(&Kind::Map);
                let path = match (is_map, at) {
                    (true, _) => format!("{at}{{}}"),
                    (false, "") => key.clone(),
                    (false, _) => format!("{at}.{key}"),
                };
                note(value, &path, shape, seen);
            }
        }
        Toml::Array(items) => {
            items.iter().for_each(|item| note(item, &format!("{at}[]"), shape, seen));
        }
        _ => {}
    }
}

/// A step into a value.
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

/// What was done at which place, whatever number an element has; and of which kind of scheme.
type Done = BTreeSet<(&'static str, String, String)>;

fn place_of(path: &[Step]) -> String {
    let steps = path.iter().map(|step| match step {
        Step::Key(key) => format!(".{key}"),
        Step::Item(_) => "[]".to_owned(),
    });
    steps.collect()
}

/// Everything a profile can be broken into at one place, and what was done. What is wrong with a value by itself is tried
/// once for each place, in the first profile that has it; what hangs on what else is there, in every profile.
fn broken(whole: &Toml, scheme: &'static str, done: &mut Done) -> Vec<(String, Toml)> {
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
        let others = [-1, 0, 17, 61, 65_537, 1_048_577, 31_536_001];
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

/// What the parser says of a file whose structure is wrong: a key, a type, a word or a bound.
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
        "there is no answer",
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
        "missing: where the answer says what",
        "query.method is missing",
        "query.map takes no",
        "an entry has no nonce",
        "is missing: what a line means",
    ];
    let is_bound = error.lines().any(|line| {
        let words: Vec<_> = line.rsplit(' ').take(4).collect();
        let is_number = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit());
        // The row of a tail hangs on how many lines it has.
        let is_of_itself = !line.contains("records.tail.row");
        matches!(words[..], [most, "to", least, "be"] if is_of_itself && is_number(most) && is_number(least))
    });
    is_bound || said.iter().any(|part| error.contains(part)) || error.contains("the section [")
}

#[test]
fn schema_and_parser_agree_on_broken_profiles() {
    let schema = profile_schema();
    let (mut taken, mut refused, mut missed) = (0, 0, Vec::new());
    let mut done = Done::new();
    for (name, text) in profiles() {
        let scheme = if super::file::is_own_scheme(&text) { "own" } else { "contract" };
        for (what, value) in broken(&Toml::Table(text.parse().unwrap()), scheme, &mut done) {
            let text = toml::to_string(&value).unwrap();
            let problems = walk::problems(&schema, &serde_json::to_value(&value).unwrap());
            match parse(&text) {
                Ok(_) if problems.is_empty() => taken += 1,
                Ok(_) => missed.push(format!("{name} {what}: only the schema says {problems:?}")),
                Err(error) if !is_of_structure(&error) => {}
                Err(_) if !problems.is_empty() => refused += 1,
                Err(error) => missed.push(format!("{name} {what}: only the parser says {error}")),
            }
        }
    }
    missed.truncate(20);
    assert!(missed.is_empty(), "{}", missed.join("\n"));
    assert!(taken > 500 && refused > 6_000, "{taken} taken, {refused} refused");
}
