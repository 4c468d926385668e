//! Previews: how a file is read before anything is compared.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use payfold_schemas::ids::PartnerCode;

use super::*;
use crate::preview::RecordsPreview;
use crate::request::{NamedFile, RecordsSource};
use crate::service::ServiceError;

const DAY: &str = "2026-02-10";

impl TestStage {
    async fn preview(&self, lines: &[String]) -> RecordsPreview {
        let request = self.bed.request(DAY, lines);
        let RecordsSource::File(path) = request.source else { panic!("a file") };
        let file = NamedFile { path, name: "day.csv".to_owned() };
        let (running, read) = (self.bed.start(), Arc::new(AtomicU64::new(0)));
        let preview = running.service.preview(&request.partner, file, Arc::clone(&read)).await;
        let preview = preview.unwrap();
        if preview.trusted {
            let lines = preview.file.lines;
            assert_eq!(read.load(Ordering::Relaxed), lines, "it counts what it has read");
        }
        let unknown = PartnerCode::parse("none").unwrap();
        let file = NamedFile { path: "/none".into(), name: String::new() };
        let refused = running.service.preview(&unknown, file, read).await;
        assert!(matches!(refused, Err(ServiceError::Refused(said)) if said.contains("no account")));
        running.stop().await.unwrap();
        preview
    }
}

/// What a preview counts is what a run counts, and a run is what it announces.
#[tokio::test]
async fn a_preview_reads_a_file_as_a_run_does() {
    let kinds = [Kind::Agrees, Kind::Agrees, Kind::OrderDropped];
    let stage = TestStage::of(MatchKey::Order, &kinds).await;
    let mut lines = stage.lines(0, LineVariant::Original);
    for broken in [false, true] {
        if broken {
            lines.push("nonsense".to_owned());
        }
        let preview = stage.preview(&lines).await;
        let ended = stage.bed.run(DAY, &lines).await.unwrap();
        assert_eq!(preview.file.sha256, ended.records.sha256);
        assert_eq!(preview.file.bad_lines, ended.records.bad_lines);
        assert_eq!(preview.file.entries, ended.records.entries);
        assert_eq!(preview.problems.is_empty(), !broken, "{:?}", preview.problems);
        assert_eq!(preview.problems.is_empty(), ended.result == RunResult::Complete);
        assert_eq!(preview.main_day(), Some(DAY));
        assert_eq!(preview.entries_of(DAY), 3);
        for total in &ended.totals {
            let sum = (preview.sums.iter())
                .find(|sum| (&sum.day, sum.status) == (&total.day, total.status));
            assert_eq!(sum.map(|sum| &sum.sum), Some(&total.partners));
        }
    }
}

#[tokio::test]
async fn nothing_of_a_file_without_trust_is_shown() {
    let stage = TestStage::of(MatchKey::Order, &[Kind::Agrees]).await;
    let mut lines = stage.lines(0, LineVariant::Original);
    lines.push("order,ref,kind,amount,currency,at,event".to_owned());
    let preview = stage.preview(&lines).await;
    assert!(!preview.trusted && !preview.problems.is_empty());
    assert_eq!((preview.sums.len(), preview.first.len(), preview.left_out.len()), (0, 0, 0));
    assert_eq!(preview.main_day(), None);
}

#[tokio::test]
async fn a_preview_does_not_grow_with_its_file() {
    let stage = TestStage::of(MatchKey::Order, &[Kind::Agrees]).await;
    let line = &stage.lines(0, LineVariant::Original)[0];
    let days = (0..260).map(|day| {
        let day = chrono::NaiveDate::from_num_days_from_ce_opt(740_000 + day).unwrap();
        line.replace(DAY, &day.to_string())
    });
    let preview = stage.preview(&days.collect::<Vec<_>>()).await;
    assert_eq!((preview.sums.len(), preview.first.len()), (200, 10));
    let last = preview.days.last().map(|of| &*of.day);
    assert_eq!(preview.days.len(), 260, "each day is counted");
    assert_eq!(preview.main_day(), last, "of days with as many entries it is the last one");
    assert_eq!((preview.not_summed, preview.file.entries), (60, 260));
}
