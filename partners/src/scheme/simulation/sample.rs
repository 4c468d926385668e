//! Writes a short text that matches a pattern, for a signed value that means nothing to us.

use regex::Regex;
use regex_syntax::hir::{Class, Hir, HirKind};

/// A text that the pattern matches. `None` if none was found.
pub(super) fn sample(pattern: &Regex) -> Option<String> {
    let mut text = String::new();
    write(&regex_syntax::parse(pattern.as_str()).ok()?, &mut text)?;
    pattern.is_match(&text).then_some(text)
}

fn write(hir: &Hir, text: &mut String) -> Option<()> {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => Some(()),
        HirKind::Literal(literal) => {
            text.push_str(std::str::from_utf8(&literal.0).ok()?);
            Some(())
        }
        HirKind::Class(Class::Unicode(class)) => {
            let usual = ['0', '1', 'a', 'A'];
            let holds =
                |c: &char| class.iter().any(|range| (range.start()..=range.end()).contains(c));
            let first = || class.iter().next().map(|range| range.start());
            text.push(usual.into_iter().find(holds).or_else(first)?);
            Some(())
        }
        HirKind::Class(Class::Bytes(_)) => None,
        HirKind::Repetition(repetition) => {
            (0..repetition.min).try_for_each(|_| write(&repetition.sub, text))
        }
        HirKind::Capture(capture) => write(&capture.sub, text),
        HirKind::Concat(all) => all.iter().try_for_each(|one| write(one, text)),
        HirKind::Alternation(all) => write(all.first()?, text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_fits_its_pattern() {
        for (pattern, expected) in [
            ("^(?:[0-9]{3})$", Some("000")),
            ("^(?:[1-9][0-9]*\\.[0-9]{2})$", Some("1.00")),
            ("^(?:ok|failed)$", Some("ok")),
            ("^(?:[A-Za-z0-9._:-]{1,64})$", Some("0")),
            ("^(?:[x-z]+é?)$", Some("x")),
            ("^(?:)$", Some("")),
            ("a\\bc", None),
        ] {
            let sample = sample(&Regex::new(pattern).unwrap());
            assert_eq!(sample.as_deref(), expected, "{pattern}");
        }
    }
}
