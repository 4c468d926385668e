//! Tests that fixed texts and the search of all readings find the same ambiguities.

use std::collections::BTreeMap;

use super::*;
use crate::profile::Profile;
use crate::scheme::message::ParsedMessage;
use crate::scheme::tests::{HEAD, TAIL, attacks::TEXT, partner, post};

/// What a payer may write, with marks and parts of marks.
const PIECES: [&str; 9] = ["", "1", "&", "&y", "&y=", "&y=1", "&o=1&r=", "&r=1", "é\u{1}"];

#[test]
fn fixed_texts_and_all_readings_agree() {
    let text = "x={f.x}&y={f.y}&o={f.o}&r={f.r}&";
    let profile =
        HEAD.to_owned() + &TEXT.replace("TEXT", &format!("{text}a={{f.a}}&s={{f.state}}"));
    let profile = Profile::parse(&partner(), &(profile + TAIL)).unwrap();
    let scheme = profile.scheme();
    let constants = BTreeMap::new();
    let inputs =
        TemplateInputs { merchant: "", constants: &constants, decryption_keys: &[], values: &[] };
    let readings = SignedTextReadings::compile(scheme, &scheme.signs[0], &inputs).unwrap().unwrap();
    let slow = SignedTextReadings { fixed_texts: None, ..readings.clone() };
    let (mut ambiguous, mut separated) = (0, 0);
    for number in 0..PIECES.len().pow(4) {
        let piece = |place: u32| PIECES[number / PIECES.len().pow(place) % PIECES.len()];
        let body = serde_json::json!({
            "x": piece(0), "y": piece(1), "o": piece(2), "r": piece(3), "a": 5, "state": "paid",
        })
        .to_string();
        let request = post(&body, &[]);
        let message = ParsedMessage::new(scheme, &request, profile.limits()).unwrap();
        let context = TemplateContext {
            secret: Some(b""),
            ..TemplateContext::without_key(&message, &inputs)
        };
        let text = String::from_utf8(context.render(&scheme.signs[0].text).unwrap()).unwrap();
        let found = readings.find_ambiguous_token(&text, context);
        assert_eq!(found, slow.find_ambiguous_token(&text, context), "{text}");
        let values: Vec<String> = ["x", "y", "o", "r", "a", "state"]
            .into_iter()
            .map(|name| serde_json::from_str::<serde_json::Value>(&body).unwrap()[name].clone())
            .map(|value| value.as_str().map_or(value.to_string(), str::to_owned))
            .collect();
        ambiguous += usize::from(found.is_some());
        let fixed = readings.fixed_texts.as_ref().unwrap();
        separated += usize::from(fixed.separate(&text, &values));
    }
    assert!(ambiguous > 1_000 && separated > 1_000, "{ambiguous} {separated}");
}
