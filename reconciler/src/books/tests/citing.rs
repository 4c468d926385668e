//! Which file and line a finding cites: those of the run that last saw it.

use super::later::compared;
use super::*;
use crate::books::day::Request;

const DAY: &str = "2026-02-10";

/// The records of the day under another name, a line of nobody's before them.
fn moved_down(stage: &Stage, name: &str) -> Request {
    let lines = stage.lines(0, Given::AsToldByStories);
    let failed = lines[0].replace(",SUCCESS,", ",FAILED,").replace("o0,r0,", "o9,r9,");
    let lines: Vec<String> = std::iter::once(failed).chain(lines).collect();
    let request = stage.bed.request(DAY, &lines);
    Request { name: name.to_owned(), replace: true, ..request }
}

fn sources(findings: &[FindingChanged]) -> Vec<(Code, &str)> {
    let mut sources: Vec<_> =
        findings.iter().map(|found| (found.code, found.partners.source.as_str())).collect();
    sources.sort_unstable();
    sources
}

#[tokio::test]
async fn a_finding_cites_the_file_and_line_of_the_run_that_last_saw_it() {
    for by in [By::Order, By::Ref] {
        let stage = Stage::of(by, &[Kind::AmountChanged, Kind::LineDropped]).await;
        let running = stage.bed.start();
        compared(&stage, &running).await;
        let cited = [
            (Code::MissingThere, "2026-02-10.csv"),
            (Code::AmountDiffers, "2026-02-10.csv line 2"),
        ];
        let first = stage.bed.standing().await;
        assert_eq!(sources(&first), cited);
        let ended = running.desk.run(moved_down(&stage, "corrected.csv")).await.unwrap();
        let cited =
            [(Code::MissingThere, "corrected.csv"), (Code::AmountDiffers, "corrected.csv line 3")];
        let standing = stage.bed.standing().await;
        assert_eq!(sources(&standing), cited);
        assert!(standing.iter().all(|found| found.version == 2), "{standing:?}");
        let amount = standing.iter().find(|found| found.code == Code::AmountDiffers).unwrap();
        assert_eq!(amount.lines[0].line, 3, "the lines it carries are those of the file it cites");
        assert_eq!(
            (ended.findings.open, ended.findings.opened),
            (2, 0),
            "cited anew is not found anew"
        );
        // The same records once more tell nothing.
        running.desk.run(moved_down(&stage, "corrected.csv")).await.unwrap();
        assert_eq!(stage.bed.standing().await, standing);
        running.stop().await.unwrap();
    }
}
