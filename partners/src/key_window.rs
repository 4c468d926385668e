//! Owns when a key counts: while it is valid, and, to know who has signed a notice, before that. A
//! notice that a key which is not valid yet has signed shows that this host's clock is behind, or
//! that the partner changed its key too early.

use payfold_schemas::time::Time;

/// When a key is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyWindow {
    /// Its beginning, inclusive.
    pub(crate) begins: Time,
    /// Its end, exclusive; `None` if it has none.
    pub(crate) ends: Option<Time>,
}

impl KeyWindow {
    /// Whether the key is valid at `now`.
    pub(crate) fn is_valid_at(self, now: Time) -> bool {
        self.begins <= now && self.ends.is_none_or(|ends| now < ends)
    }

    /// Whether the key is valid at some time from `from` on: it may end before it begins, or have
    /// ended.
    pub(crate) fn is_valid_after(self, from: Time) -> bool {
        self.ends.is_none_or(|ends| ends > self.begins.max(from))
    }

    /// Whether the key is not valid yet at `now`, and will be.
    pub(crate) fn is_early_at(self, now: Time) -> bool {
        now < self.begins && self.is_valid_after(now)
    }
}

/// The most keys of an account that are tried although they are not valid yet: its last ones. Each
/// costs a check for a forged notice.
pub(crate) const EARLY_TRIED_MAX: usize = 8;

fn last<K>(keys: &[K]) -> &[K] {
    &keys[keys.len().saturating_sub(EARLY_TRIED_MAX)..]
}

/// The keys of an account that a notice is tried with at `now`: those that are valid, then those
/// that are not valid yet.
pub(crate) fn tried_at<K>(
    keys: &[K],
    window: impl Fn(&K) -> KeyWindow + Copy,
    now: Time,
) -> impl Iterator<Item = &K> {
    let valid = keys.iter().filter(move |key| window(key).is_valid_at(now));
    valid.chain(last(keys).iter().filter(move |key| window(key).is_early_at(now)))
}

/// The beginnings of the keys that are tried before they begin.
pub(crate) fn early_begins<K>(
    keys: &[K],
    window: impl Fn(&K) -> KeyWindow,
) -> impl Iterator<Item = Time> {
    let windows = last(keys).iter().map(window);
    windows.filter(|window| window.is_valid_after(window.begins)).map(|window| window.begins)
}
