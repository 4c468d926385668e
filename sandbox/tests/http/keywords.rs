//! Every keyword over HTTP: the create response and the notices are as expected.

use futures_util::future::join_all;
use payfold_partners::remote::CreateOutcome;
use payfold_sandbox::expectation::expect_outcome;
use payfold_sandbox::trouble::Trouble;
use payfold_sandbox::troubles::Troubles;

use crate::world::{TestCall, TestWorld};

/// The status and code that the shop would get.
fn shop_answer(created: &CreateOutcome) -> (u16, Option<String>) {
    match created {
        CreateOutcome::Opened(_) => (201, None),
        CreateOutcome::Unknown(_) => (202, None),
        CreateOutcome::Failed(failure) => (502, Some(failure.code())),
    }
}

#[actix_web::test]
async fn every_keyword_has_the_expected_result() {
    let world = TestWorld::start();
    let single = Trouble::ALL.map(|trouble| Troubles::new([trouble]).unwrap()).into_iter();
    let combinations = [
        "duplicates+disorder+stale",
        "fail-after-success+disorder+wrong-key",
        "second-ref+duplicates+create-cut",
        "refund-parts+stale+create-500",
        "late+duplicates",
        "before-create+refund-first+stale",
        "wrong-amount+create-slow",
    ];
    let combinations = combinations.iter().map(|keywords| Troubles::parse(keywords).unwrap());
    let all: Vec<_> = single.chain(combinations).collect();
    let calls = all.iter().map(|troubles| {
        let call =
            TestCall::new(&format!("ord-{troubles}").replace('+', "_"), &format!("x #{troubles}"));
        let world = &world;
        async move { (troubles, call.order.clone(), world.call(&call).await) }
    });
    let made = join_all(calls).await;
    world.drain().await;
    for (troubles, order, created) in made {
        let expectation = expect_outcome(troubles);
        let expected_answer = (expectation.create.status, expectation.create.code.clone());
        assert_eq!(shop_answer(&created), expected_answer, "{troubles}: {created:?}");
        let received = world.sink.received(&order);
        let acked = received.iter().filter(|one| one.answered == 200).count();
        assert_eq!(acked, expectation.acked, "{troubles}");
        let mut refused: Vec<_> =
            received.iter().map(|one| one.answered).filter(|status| *status != 200).collect();
        refused.sort_unstable();
        assert_eq!(refused, expectation.refused, "{troubles}");
        let body = world.json(&format!("/sandbox/deliveries?orderId={order}")).await;
        assert_eq!(body["createCalls"], expectation.calls, "{troubles}");
        assert_eq!(body["finished"], true, "{troubles}");
        let sendings = body["deliveries"].as_array().unwrap();
        let logged = sendings.iter().filter(|sending| sending["acked"] == true).count();
        assert_eq!(logged, expectation.acked, "{troubles}");
    }
    let twice = world.json("/sandbox/creates?min=2").await;
    assert_eq!(twice, serde_json::json!({}), "no order had two create calls");
    assert_eq!(world.sandbox.create_calls(0).len(), all.len());
}
