//! Owns how many keys a refusal tries: as many as any notice may be tried with at that time, so
//! that the time it takes does not reveal which accounts exist.

use payfold_schemas::time::Time;

/// The most keys that one notice is tried with.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyCount {
    /// Keys that are valid at the same time.
    valid: usize,
    /// Where keys that are not valid yet begin, the latest first. Before the time at place n, some
    /// notice is tried with n + 1 of them.
    early_begins: Vec<Time>,
}

impl KeyCount {
    /// Counts the keys that one notice may be tried with: so many that are valid at the same time,
    /// and those with these beginnings before they begin.
    pub(crate) fn add(&mut self, valid: usize, early: impl Iterator<Item = Time>) {
        self.valid = self.valid.max(valid);
        let mut begins: Vec<_> = early.collect();
        begins.sort_unstable_by(|a, b| b.cmp(a));
        for (place, begin) in begins.into_iter().enumerate() {
            match self.early_begins.get_mut(place) {
                Some(latest) => *latest = begin.max(*latest),
                None => self.early_begins.push(begin),
            }
        }
    }

    /// The count of notices that name their key: one of each kind at most.
    pub(crate) fn of_named_key(mut self) -> Self {
        self.early_begins.truncate(1);
        Self { valid: self.valid.min(1), ..self }
    }

    /// The most keys that a notice is tried with at `now`.
    pub(crate) fn most_at(&self, now: Time) -> usize {
        self.valid + self.early_begins.partition_point(|begin| *begin > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_with_the_most_counts_at_each_time() {
        let lists = [vec![10, 50, 20], vec![30, 40], vec![]];
        let at = Time::from_unix_ms;
        let mut count = KeyCount::default();
        for (list, valid) in lists.iter().zip([1, 2, 0]) {
            count.add(valid, list.iter().copied().map(at));
        }
        for now in 0..60 {
            let of_list = |list: &Vec<i64>| list.iter().filter(|begin| **begin > now).count();
            let most = lists.iter().map(of_list).max().unwrap();
            assert_eq!(count.most_at(at(now)), 2 + most, "{now}");
            let named = count.clone().of_named_key();
            assert_eq!(named.most_at(at(now)), 1 + most.min(1), "{now}");
        }
        assert_eq!(KeyCount::default().most_at(at(0)), 0);
    }
}
