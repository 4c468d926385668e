//! Owns the check that a signature proves one thing: with the known key an honest notice is signed, then the same
//! signature is sent with something else. What is taken then must say the same of the same order.

mod sides;

use std::sync::LazyLock;

use payfold_partners::directory::Directory;
use payfold_partners::scheme::Said;

use self::sides::{Sides, Spelling, is_plain};
use super::NOW;
use super::known::{KNOWN, Known, PARTNER, chosen};
use super::wire::Wire;

/// What a partner may have for every known profile; by its place in `KNOWN`.
static SIDES: LazyLock<Vec<Option<Sides>>> =
    LazyLock::new(|| KNOWN.iter().map(|known| Sides::of(known.text)).collect());

/// Ends the request where edits follow.
const EDITS: u8 = 0xff;

/// The first byte chooses the profile, the second what is done: a request and edits of it, or values of the signing
/// text, parted by 0, and how the text is parted anew.
pub fn slide(bytes: &[u8]) {
    let [selector, flags, rest @ ..] = bytes else { return };
    let known = chosen(*selector);
    let place = usize::from(*selector) % KNOWN.len();
    match &SIDES[place] {
        Some(sides) if flags & 1 == 1 => parted(known, sides, (*flags, rest)),
        _ => edited(known, rest),
    }
}

/// Order, ref, status, amount and currency of what is taken, in the order of the items; `None` for what is not an
/// event, or counts only when a query has confirmed it.
type Meaning = (String, String, String, i64, String);

fn meanings(directory: &Directory, wire: &Wire) -> Vec<Meaning> {
    let notices = directory.verify_scheme(PARTNER, &wire.request(), NOW).unwrap_or_default();
    let events = notices.iter().filter_map(|notice| match notice.said() {
        Ok(Said::Event(mapped)) if !mapped.policy.unconfirmed => Some(mapped),
        Ok(Said::Event(_) | Said::Ignored) | Err(_) => None,
    });
    events
        .map(|mapped| {
            (
                mapped.order_id.to_string(),
                mapped.provider_ref.to_string(),
                mapped.status.to_string(),
                mapped.money.amount.minor(),
                mapped.money.currency.code().to_owned(),
            )
        })
        .collect()
}

/// A signed request with some of its bytes altered.
fn edited(known: &Known, bytes: &[u8]) {
    let end = bytes.iter().position(|byte| *byte == EDITS).unwrap_or(bytes.len());
    let wire = Wire::read(&bytes[..end]);
    if !wire.has_mark() {
        return;
    }
    let Some(signature) = wire.signature(&known.ours, PARTNER) else { return };
    let wire = wire.with_signature(&signature);
    let honest = meanings(&known.ours, &wire);
    if honest.is_empty() {
        return;
    }
    let mut other = wire.clone();
    for edit in bytes[end..].get(1..).unwrap_or_default().chunks_exact(5) {
        other.alter([edit[0], edit[1], edit[2], edit[3], edit[4]]);
    }
    for taken in meanings(&known.ours, &other) {
        assert!(honest.contains(&taken), "{}: {honest:?} became {taken:?}", known.name);
    }
}

/// Two notices with one signing text.
fn parted(known: &Known, sides: &Sides, (flags, bytes): (u8, &[u8])) {
    let (honest, choices) = sides.values(bytes);
    // Free text may hold anything; what decides is the partner's and ours, and plain.
    if !sides.deciding(&honest).iter().all(|value| is_plain(value)) {
        return;
    }
    let Some((text, signature)) = sides.sign(&honest) else { return };
    let Some(other) = sides.read(&text, choices) else { return };
    let first = sides.wire(&honest, &signature, Spelling::of(flags >> 1));
    let second = sides.wire(&other, &signature, Spelling::of(flags >> 2));
    let (said, taken) = (meanings(&known.ours, &first), meanings(&known.ours, &second));
    let is_same = sides.deciding(&honest) == sides.deciding(&other);
    assert!(
        taken.is_empty() || is_same,
        "{}: {honest:?} was signed, {other:?} is taken: {taken:?}",
        known.name
    );
    if let (Some(said), Some(taken)) = (said.first(), taken.first()) {
        assert_eq!(said, taken, "{}: one text, two meanings", known.name);
    }
}
