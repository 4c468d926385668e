//! Every word over HTTP: the call comes to what is expected of it, and so do its notices.

use futures_util::future::join_all;
use payfold_partners::remote::Created;
use payfold_sandbox::expected::expected;
use payfold_sandbox::trouble::{Trouble, Troubles};

use crate::world::{Wanted, World};

/// What the shop would be answered: status and code.
fn answered(created: &Created) -> (u16, Option<String>) {
    match created {
        Created::Opened(_) => (201, None),
        Created::Unknown(_) => (202, None),
        Created::Failed(failure) => (502, Some(failure.code())),
    }
}

#[actix_web::test]
async fn every_word_comes_to_what_is_expected_of_it() {
    let world = World::start();
    let words = Trouble::ALL.map(|trouble| Troubles::new([trouble]).unwrap()).into_iter();
    let combinations = [
        "duplicates+disorder+stale",
        "fail-after-success+disorder+wrong-key",
        "second-ref+duplicates+create-cut",
        "refund-parts+stale+create-500",
        "late+duplicates",
        "before-create+refund-first+stale",
        "wrong-amount+create-slow",
    ];
    let combinations = combinations.iter().map(|words| Troubles::parse(words).unwrap());
    let all: Vec<_> = words.chain(combinations).collect();
    let calls = all.iter().map(|troubles| {
        let wanted =
            Wanted::new(&format!("ord-{troubles}").replace('+', "_"), &format!("x #{troubles}"));
        let world = &world;
        async move { (troubles, wanted.order.clone(), world.call(&wanted).await) }
    });
    let made = join_all(calls).await;
    world.drain().await;
    for (troubles, order, created) in made {
        let expectation = expected(troubles);
        let expected_answer = (expectation.create.status, expectation.create.code.clone());
        assert_eq!(answered(&created), expected_answer, "{troubles}: {created:?}");
        let received = world.sink.of(&order);
        let acked = received.iter().filter(|one| one.answered == 200).count();
        assert_eq!(acked, expectation.acked, "{troubles}");
        let mut refused: Vec<_> =
            received.iter().map(|one| one.answered).filter(|status| *status != 200).collect();
        refused.sort_unstable();
        assert_eq!(refused, expectation.refused, "{troubles}");
        let told = world.json(&format!("/sandbox/deliveries?orderId={order}")).await;
        assert_eq!(told["createCalls"], expectation.calls, "{troubles}");
        assert_eq!(told["finished"], true, "{troubles}");
        let sendings = told["deliveries"].as_array().unwrap();
        let logged = sendings.iter().filter(|sending| sending["acked"] == true).count();
        assert_eq!(logged, expectation.acked, "{troubles}");
    }
    let twice = world.json("/sandbox/creates?min=2").await;
    assert_eq!(twice, serde_json::json!({}), "nobody was called twice");
    assert_eq!(world.sandbox.create_calls(0).len(), all.len());
}
