//! Owns the text on the page: text from partners and shops is cleaned, cut and isolated; numbers
//! get separators; nouns agree with their number. maud escapes. Pure.

use maud::{Markup, html};

use crate::money::grouped;

/// The longest text, in characters; a longer one is cut, because a line's problem may quote the
/// whole line.
const CHARS_MAX: usize = 300;

/// Digits of an id that are shown.
const ID_CHARS: usize = 12;

/// Text from a partner or shop, isolated so that its writing direction does not affect the text
/// around it.
pub fn isolated(text: &str) -> Markup {
    html! { bdi { (shown(text)) } }
}

/// The same with a text of ours, which is not cut: its end says what to do.
pub fn whole(text: &str) -> Markup {
    html! { bdi { (on_one_line(text)) } }
}

/// Replaces control characters, line breaks and marks of writing direction.
pub fn on_one_line(text: &str) -> String {
    text.chars().map(replace_control).collect()
}

/// The beginning of an id: enough digits to name a finding in commands.
pub fn short_id(id: &str) -> &str {
    id.get(..ID_CHARS).unwrap_or(id)
}

/// Replaces control characters and cuts the text to `CHARS_MAX`.
pub fn shown(text: &str) -> String {
    let mut shown: String = text.chars().take(CHARS_MAX).map(replace_control).collect();
    if text.chars().nth(CHARS_MAX).is_some() {
        shown.push('…');
    }
    shown
}

fn replace_control(c: char) -> char {
    match c {
        '\n' | '\t' | '\r' => ' ',
        // Marks, embeddings, overrides and isolates of writing direction.
        '\u{200e}'
        | '\u{200f}'
        | '\u{061c}'
        | '\u{202a}'..='\u{202e}'
        | '\u{2066}'..='\u{2069}' => '\u{fffd}',
        c if c.is_control() => '\u{fffd}',
        c => c,
    }
}

/// An argument of a command on the page, quoted for a shell unless it is plain.
pub(super) fn argument(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | ':' | '_' | '/');
    let text = shown(text);
    if !text.is_empty() && text.chars().all(plain) && !text.starts_with('-') {
        return text;
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// A number with separators: `1,204`.
pub fn count(number: u64) -> String {
    grouped(&number.to_string())
}

/// The number of items.
pub(super) fn len<T>(items: &[T]) -> u64 {
    u64::try_from(items.len()).unwrap_or(u64::MAX)
}

/// A number with its noun: `1 line`, `1,204 lines`.
pub fn counted(number: u64, noun: &str) -> String {
    let many = match noun.strip_suffix('y') {
        Some(stem) if !noun.ends_with("ay") => format!("{stem}ies"),
        _ => format!("{noun}s"),
    };
    format!("{} {}", count(number), if number == 1 { noun.to_owned() } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_and_nouns_agree() {
        for (number, noun, expected) in [
            (0, "line", "0 lines"),
            (1, "line", "1 line"),
            (999, "day", "999 days"),
            (1_204, "entry", "1,204 entries"),
            (u64::MAX, "order", "18,446,744,073,709,551,615 orders"),
        ] {
            assert_eq!(counted(number, noun), expected);
        }
    }

    #[test]
    fn control_characters_are_replaced_and_long_texts_are_cut() {
        assert_eq!(shown("a\u{202e}b\0c\nd"), "a\u{fffd}b\u{fffd}c d");
        assert_eq!(shown("تسوية"), "تسوية", "a language that runs from right to left is no trick");
        let long = shown(&"é".repeat(10_000));
        assert_eq!((long.chars().count(), long.ends_with('…')), (CHARS_MAX + 1, true));
        assert_eq!(shown(&"é".repeat(CHARS_MAX)).chars().count(), CHARS_MAX);
    }

    #[test]
    fn arguments_can_be_pasted() {
        for (text, expected) in [
            ("2026-01-31", "2026-01-31"),
            ("", "''"),
            ("a b", "'a b'"),
            ("$(rm -r x)", "'$(rm -r x)'"),
            ("it's", "'it'\\''s'"),
            ("--all", "'--all'"),
        ] {
            assert_eq!(argument(text), expected);
        }
    }
}
