//! When a day can be closed: once it is over in the partner's zone, and a run has judged all its
//! payments.

use payfold_schemas::ids::PartnerCode;

use super::later::{author, compared, refused};
use super::story::MINUTE;
use super::*;
use crate::close::CloseDayRequest;

fn closing() -> CloseDayRequest {
    CloseDayRequest {
        partner: PartnerCode::parse("p").unwrap(),
        day: "2026-02-10".parse().unwrap(),
        author: author("ann"),
    }
}

/// The day ends at 17:00 UTC; its payments are judged after a margin of 30 minutes and a grace
/// period of an hour.
#[tokio::test]
async fn a_day_can_be_closed_once_it_is_over_and_compared_after_that() {
    let stage = TestStage::of(MatchKey::Order, &[Kind::Agrees]).await;
    let close_at = async |time| {
        stage.bed.clock.set(time);
        let running = stage.bed.start();
        let closed = running.service.close(closing()).await;
        running.stop().await.unwrap();
        closed
    };
    let run_at = async |time| {
        stage.bed.clock.set(time);
        let running = stage.bed.start();
        compared(&stage, &running).await;
        running.stop().await.unwrap();
    };
    let end = stage.calendar.at(1, 0);
    run_at(end.plus_ms(-2 * HOUR)).await;
    for early in [end.plus_ms(-2 * HOUR), end, end.plus_ms(90 * MINUTE - 1)] {
        let problem = refused(close_at(early).await);
        for part in ["2026-02-10 of p", "2026-02-10T17:00:00Z", "from 2026-02-10T18:30:00Z"] {
            assert!(problem.contains(part), "{part}: {problem}");
        }
    }
    let problem = refused(close_at(end.plus_ms(90 * MINUTE)).await);
    assert!(problem.contains("run it again, then close it"), "{problem}");
    run_at(end.plus_ms(90 * MINUTE)).await;
    assert_eq!(close_at(end.plus_ms(91 * MINUTE)).await.unwrap().day, "2026-02-10");
}
