//! The file and line that a finding cites: those of the last run that detected it.

use super::later::compared;
use super::*;
use crate::request::{Replaceable, RunRequest};

const DAY: &str = "2026-02-10";

/// The day's records under another name, with a line of an unknown order in front.
fn moved_down(stage: &TestStage, name: &str) -> RunRequest {
    let lines = stage.lines(0, LineVariant::Original);
    let failed = lines[0].replace(",SUCCESS,", ",FAILED,").replace("o0,r0,", "o9,r9,");
    let lines: Vec<String> = std::iter::once(failed).chain(lines).collect();
    let request = stage.bed.request(DAY, &lines);
    RunRequest { name: name.to_owned(), replace: Replaceable::Any, ..request }
}

fn sources(findings: &[FindingChanged]) -> Vec<(Code, &str)> {
    let mut sources: Vec<_> =
        findings.iter().map(|found| (found.code, found.partners.source.as_str())).collect();
    sources.sort_unstable();
    sources
}

#[tokio::test]
async fn a_finding_cites_the_file_and_line_of_its_last_run() {
    for by in [MatchKey::Order, MatchKey::Ref] {
        let stage = TestStage::of(by, &[Kind::AmountChanged, Kind::LineDropped]).await;
        let running = stage.bed.start();
        compared(&stage, &running).await;
        let cited = [
            (Code::MissingThere, "2026-02-10.csv"),
            (Code::AmountDiffers, "2026-02-10.csv line 2"),
        ];
        let first = stage.bed.uncleared().await;
        assert_eq!(sources(&first), cited);
        let ended = running.service.run(moved_down(&stage, "corrected.csv")).await.unwrap();
        let cited =
            [(Code::MissingThere, "corrected.csv"), (Code::AmountDiffers, "corrected.csv line 3")];
        let uncleared = stage.bed.uncleared().await;
        assert_eq!(sources(&uncleared), cited);
        assert!(uncleared.iter().all(|found| found.version == 2), "{uncleared:?}");
        let amount = uncleared.iter().find(|found| found.code == Code::AmountDiffers).unwrap();
        assert_eq!(amount.lines[0].line, 3, "the lines it carries are those of the file it cites");
        assert_eq!(
            (ended.findings.open, ended.findings.opened),
            (2, 0),
            "a new citation does not open a finding"
        );
        // The same records once more publish nothing.
        running.service.run(moved_down(&stage, "corrected.csv")).await.unwrap();
        assert_eq!(stage.bed.uncleared().await, uncleared);
        running.stop().await.unwrap();
    }
}
