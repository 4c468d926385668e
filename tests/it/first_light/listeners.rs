//! Owns what the admin listener shows: probes, metrics by the names that are promised, and nothing
//! without a token.

use crate::support::demo::Demo;
use crate::support::notice::Notice;
use crate::support::pair::Pair;
use crate::support::wire::{Answer, request};

/// The names of interface.md that there is something to say about.
const METRICS: [&str; 23] = [
    "payfold_build_info",
    "payfold_ingest_requests_total",
    "payfold_ingest_request_duration_seconds",
    "payfold_ingest_append_duration_seconds",
    "payfold_ingest_append_queue_depth",
    "payfold_ingest_clock_skew_seconds",
    "payfold_ingest_key_uses_total",
    "payfold_ingest_last_accepted_timestamp_seconds",
    "payfold_projector_lag_seconds",
    "payfold_projector_lag_records",
    "payfold_projector_facts_total",
    "payfold_projector_publish_failures_total",
    "payfold_projector_partitions_halted",
    "payfold_projector_ack_to_event_seconds",
    "payfold_quarantine_records_total",
    "payfold_ingest_returns_total",
    "payfold_checkout_streams",
    "payfold_reconciler_pending_past_deadline",
    "payfold_reconciler_deadlines_appended_total",
    "payfold_reconciler_refs_shared_total",
    "payfold_reconciler_queries_waiting",
    "payfold_reconciler_query_oldest_seconds",
    "payfold_engine_sync_duration_seconds",
];

fn problem(answer: &Answer) -> (u16, String) {
    assert_eq!(
        answer.header("content-type"),
        Some("application/problem+json"),
        "{}",
        answer.text()
    );
    (answer.status, answer.code())
}

pub fn probes_and_metrics_say_how_it_is(pair: Pair) {
    let Some(demo) = Demo::on(pair) else { return };
    let system = &demo.system;
    for probe in ["/livez", "/readyz", "/startupz"] {
        let answer = system.get(probe);
        assert_eq!((answer.status, answer.text().as_str()), (200, "ok\n"), "{probe}");
    }
    let [order, provider_ref] = demo.open_order();
    demo.pay(&order, &provider_ref);
    let stale = Notice::paid("DEMO", &order, &provider_ref).sent(-4_000).signed(&demo.secret);
    assert_eq!(system.post_ipn(&stale).status, 403);
    assert_eq!(system.post_ipn(b"{}").status, 401);
    demo.catch_up();
    let metrics = system.get("/metrics");
    assert_eq!(metrics.header("content-type"), Some("text/plain; version=0.0.4"));
    let text = metrics.text();
    for name in METRICS {
        assert!(text.contains(&format!("# TYPE {name} ")), "{name} in\n{text}");
    }
    for sample in [
        "payfold_ingest_requests_total{code=\"accepted\",partner=\"sandbox\"} 1",
        "payfold_ingest_requests_total{code=\"timestamp_out_of_window\",partner=\"sandbox\"} 1",
        "payfold_ingest_requests_total{code=\"unauthenticated\",partner=\"\"} 1",
        "payfold_ingest_key_uses_total{key_id=\"sandbox-1\",partner=\"sandbox\"} 1",
        "payfold_quarantine_records_total{code=\"timestamp_out_of_window\"} 1",
    ] {
        assert!(text.contains(sample), "{sample} in\n{text}");
    }
    for secret in [&order, &provider_ref, &demo.secret, &demo.token] {
        assert!(!text.contains(secret), "{secret}");
    }
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        assert!(line.starts_with("payfold_"), "{line}");
    }
}

#[test]
fn the_admin_listener_takes_one_method_a_path_and_no_change_without_a_token() {
    let demo = Demo::boot();
    let ask = |line: &str| demo.system.ask_admin(&request(line, "", None));
    for path in ["/livez", "/readyz", "/startupz", "/metrics"] {
        let refused = problem(&ask(&format!("POST {path}")));
        assert_eq!(refused, (405, "method_not_allowed".to_owned()), "{path}");
    }
    assert_eq!(problem(&ask("GET /v1/demo/orders")), (405, "method_not_allowed".to_owned()));
    for path in ["/", "/metrics/", "/readyz/x", "/api/payment/ipn"] {
        assert_eq!(problem(&ask(&format!("GET {path}"))), (404, "not_found".to_owned()), "{path}");
    }
    let good = "{\"amount\":1,\"currency\":\"VND\"}";
    for token in ["", "wrong", &demo.token.to_uppercase()] {
        let refused = problem(&demo.system.open_order(token, good));
        assert_eq!(refused, (401, "unauthenticated".to_owned()));
        assert_eq!(problem(&demo.system.open_order(token, "rubbish")), refused);
    }
    for body in ["", "rubbish", "[1]", "{\"amount\":0,\"currency\":\"VND\"}", "{\"amount\":1}"] {
        let refused = demo.system.open_order(&demo.token, body);
        assert_eq!(problem(&refused), (400, "bad_request".to_owned()), "{body}");
        assert!(!refused.text().contains("rubbish"));
    }
    assert_eq!(demo.system.open_order(&demo.token, good).status, 201);
}
