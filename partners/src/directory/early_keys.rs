//! Owns how many keys are not valid yet. They are tried after the valid ones: a notice that such a
//! key has signed shows that this host's clock is behind, or that the partner changed its key too
//! early. Every refusal makes the same number of these checks, so that its time does not reveal
//! which accounts exist.

use payfold_schemas::time::Time;

/// The most keys that are not valid yet, at any time.
#[derive(Clone, Debug, Default)]
pub(crate) struct EarlyKeys {
    /// The latest first. Before the time at place n, some list has n + 1 keys that are not valid
    /// yet.
    begins: Vec<Time>,
}

impl EarlyKeys {
    /// Counts keys by their beginnings. Each list has the keys that are tried for one notice.
    pub(crate) fn count<L: IntoIterator<Item = Time>>(lists: impl Iterator<Item = L>) -> Self {
        let mut begins: Vec<Time> = Vec::new();
        for list in lists {
            let mut list: Vec<_> = list.into_iter().collect();
            list.sort_unstable_by(|a, b| b.cmp(a));
            for (place, begin) in list.into_iter().enumerate() {
                match begins.get_mut(place) {
                    Some(latest) => *latest = begin.max(*latest),
                    None => begins.push(begin),
                }
            }
        }
        Self { begins }
    }

    /// The most keys of one list that are not valid yet at `now`.
    pub(crate) fn most_at(&self, now: Time) -> usize {
        self.begins.partition_point(|begin| *begin > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_with_the_most_counts_at_each_time() {
        let lists = [vec![10, 50, 20], vec![30, 40], vec![]];
        let at = Time::from_unix_ms;
        let early = EarlyKeys::count(lists.iter().map(|list| list.iter().copied().map(at)));
        for now in 0..60 {
            let of_list = |list: &Vec<i64>| list.iter().filter(|begin| **begin > now).count();
            let most = lists.iter().map(of_list).max().unwrap();
            assert_eq!(early.most_at(at(now)), most, "{now}");
        }
        assert_eq!(EarlyKeys::default().most_at(at(0)), 0);
    }
}
