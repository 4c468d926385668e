//! Owns the rules by which a build is folded: the current ones, or those of a drill with one rule
//! broken on purpose.

use payfold_schemas::order::{KnownFacts, OrderState, Summary};

use super::summary::{is_open_critical, summarize};

/// The rules of a fold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FoldRules {
    /// The rules of this program.
    #[default]
    Current,
    /// The rules of this program with one broken, to try what a rebuild shows: an order stays PAID
    /// after a full refund. Only drills and tests use them.
    Drill,
}

impl FoldRules {
    /// Computes the summary of the kept facts by these rules.
    pub fn summarize(self, facts: &KnownFacts) -> Summary {
        let summary = summarize(facts);
        match (self, summary.state) {
            (Self::Drill, OrderState::Refunded) => {
                let fulfil = !summary.flags.iter().any(is_open_critical);
                Summary { state: OrderState::Paid, fulfil, ..summary }
            }
            (Self::Current | Self::Drill, _) => summary,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fold::testkit::{facts, known};

    #[test]
    fn a_drill_breaks_one_rule_and_no_other() {
        for (text, current, drill) in [
            ("C 100; O r; S r 100; R r 100", OrderState::Refunded, OrderState::Paid),
            ("C 100; O r; S r 100", OrderState::Paid, OrderState::Paid),
            ("C 100; O r; F r 100", OrderState::Failed, OrderState::Failed),
        ] {
            let (known, _) = known(&facts(text));
            assert_eq!(FoldRules::Current.summarize(&known).state, current, "{text}");
            assert_eq!(FoldRules::Drill.summarize(&known).state, drill, "{text}");
            if current == drill {
                assert_eq!(FoldRules::Drill.summarize(&known), summarize(&known), "{text}");
            }
        }
    }
}
