//! Owns the macros of the tables, for what can't be written in a line: `{x*64}` a text 64 times,
//! `{hex:00 ff}` bytes, `{bomb}` gzip of 10 MB of blanks, `{now-299}` a time so many seconds from
//! now in UTC, `{now+07:00}` now in another offset.

use chrono::{DateTime, FixedOffset};

use crate::support::notice::time;

/// The bytes of a text with its macros.
pub fn expand(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some(open) = rest.find('{') {
        bytes.extend_from_slice(&rest.as_bytes()[..open]);
        let close = rest[open..].find('}').map(|close| open + close);
        match close.and_then(|close| Some((close, expansion(&rest[open + 1..close])?))) {
            Some((close, expanded)) => {
                bytes.extend(expanded);
                rest = &rest[close + 1..];
            }
            None => {
                bytes.push(b'{');
                rest = &rest[open + 1..];
            }
        }
    }
    bytes.extend_from_slice(rest.as_bytes());
    bytes
}

/// The same where the result is text.
pub fn expand_text(text: &str) -> String {
    String::from_utf8(expand(text)).expect("this part of a case is text")
}

/// What a macro stands for; `None` if it is none.
fn expansion(inner: &str) -> Option<Vec<u8>> {
    if inner == "bomb" {
        return Some(include_bytes!("bomb.gz").to_vec());
    }
    if let Some(hex) = inner.strip_prefix("hex:") {
        let byte = |digits| u8::from_str_radix(digits, 16).ok();
        return hex.split(' ').map(byte).collect();
    }
    if let Some(offset) = inner.strip_prefix("now") {
        if offset.contains(':') {
            let zone: FixedOffset = offset.parse().ok()?;
            let now = DateTime::parse_from_rfc3339(&time(0)).ok()?;
            return Some(now.with_timezone(&zone).to_rfc3339().into_bytes());
        }
        let seconds = if offset.is_empty() { 0 } else { offset.parse().ok()? };
        return Some(time(seconds).into_bytes());
    }
    let (text, times) = inner.rsplit_once('*')?;
    Some(text.repeat(times.parse().ok()?).into_bytes())
}

#[test]
fn macros_are_expanded_and_braces_are_left_alone() {
    let text = |macros| String::from_utf8_lossy(&expand(macros)).into_owned();
    assert_eq!(text("a{b*3}c"), "abbbc");
    assert_eq!(text(r#"{"x":{"y*2":{1}}}"#), r#"{"x":{"y*2":{1}}}"#);
    assert_eq!(expand("{hex:00 ff}{"), [0, 255, b'{']);
    assert!(text("{now+07:00}").ends_with("+07:00"));
    assert!(text("{now-299}") < text("{now}"));
}
