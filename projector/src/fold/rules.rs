//! Owns by which rules a generation is folded: as they stand, or with one that is another on purpose.

use payfold_schemas::order::{KnownFacts, OrderState, Severity, Summary};

use super::summarize;

/// The rules of a fold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rules {
    /// Those of this program.
    #[default]
    Standing,
    /// One of them is broken, to try what a rebuild shows: money that went back in full is not seen to have gone, and
    /// the order stays PAID. Nothing but a drill and a test has them.
    Drill,
}

impl Rules {
    /// What the kept facts come to by these rules.
    pub fn summarize(self, facts: &KnownFacts) -> Summary {
        let summary = summarize(facts);
        match (self, summary.state) {
            (Self::Drill, OrderState::Refunded) => {
                let critical = |raised: &payfold_schemas::order::RaisedFlag| {
                    raised.is_open() && raised.severity == Severity::Critical
                };
                let fulfil = !summary.flags.iter().any(critical);
                Summary { state: OrderState::Paid, fulfil, ..summary }
            }
            (Self::Standing | Self::Drill, _) => summary,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fold::testkit::{facts, known};

    #[test]
    fn a_drill_breaks_one_rule_and_no_other() {
        for (text, standing, drill) in [
            ("C 100; O r; S r 100; R r 100", OrderState::Refunded, OrderState::Paid),
            ("C 100; O r; S r 100", OrderState::Paid, OrderState::Paid),
            ("C 100; O r; F r 100", OrderState::Failed, OrderState::Failed),
        ] {
            let (known, _) = known(&facts(text));
            assert_eq!(Rules::Standing.summarize(&known).state, standing, "{text}");
            assert_eq!(Rules::Drill.summarize(&known).state, drill, "{text}");
            if standing == drill {
                assert_eq!(Rules::Drill.summarize(&known), summarize(&known), "{text}");
            }
        }
    }
}
