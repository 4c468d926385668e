//! Runs on SQLite what the whole program must do on either pair of engines, from the ways of a
//! notice and of a payment; `on_kafka_and_cql` runs the same on the other pair.

use crate::console::apart;
use crate::first_light::{commands, drain, listeners, rotation, story};
use crate::support::pair::Pair::Sqlite;
use crate::{attacks, parked, payments, rebuild, reconcile, refusals};

#[test]
fn a_running_demo_can_be_checked_and_tried() {
    commands::a_running_demo_can_be_checked_and_tried(Sqlite);
}

#[test]
fn a_request_under_way_is_finished_before_the_process_leaves() {
    drain::a_request_under_way_is_finished_before_the_process_leaves(Sqlite);
}

#[test]
fn probes_and_metrics_say_how_it_is() {
    listeners::probes_and_metrics_say_how_it_is(Sqlite);
}

#[test]
#[ignore = "nightly: loads"]
fn a_key_is_rotated_under_load_without_one_refusal() {
    rotation::a_key_is_rotated_under_load_without_one_refusal(Sqlite);
}

#[test]
fn an_order_is_paid_once_whatever_is_resent() {
    story::an_order_is_paid_once_whatever_is_resent(Sqlite);
}

#[test]
fn other_money_is_flagged_and_does_not_settle() {
    story::other_money_is_flagged_and_does_not_settle(Sqlite);
}

#[test]
fn a_notice_before_its_create_request_waits_for_it() {
    story::a_notice_before_its_create_request_waits_for_it(Sqlite);
}

#[test]
fn a_damaged_record_is_skipped_once_two_people_park_it() {
    parked::a_damaged_record_is_skipped_once_two_people_park_it(Sqlite);
}

#[test]
fn a_forged_payment_is_never_folded() {
    attacks::forged_records::a_forged_payment_is_never_folded(Sqlite);
}

#[test]
fn a_forged_finding_is_passed_over() {
    attacks::forged_records::a_forged_finding_is_passed_over(Sqlite);
}

#[test]
fn a_forged_event_is_a_difference() {
    attacks::forged_records::a_forged_event_is_a_difference(Sqlite);
}

#[test]
fn every_trouble_ends_as_it_must() {
    payments::every_trouble_ends_as_it_must(Sqlite);
}

#[test]
fn a_return_settles_nothing_even_when_signed() {
    payments::a_return_settles_nothing_even_when_signed(Sqlite);
}

#[test]
fn every_case_of_the_tables_gets_its_answer_and_its_place() {
    refusals::every_case_of_the_tables_gets_its_answer_and_its_place(Sqlite);
}

#[test]
fn the_tour_of_a_rebuild_can_be_followed() {
    rebuild::the_tour_can_be_followed(Sqlite);
}

#[test]
#[ignore = "nightly: loads"]
fn live_traffic_goes_on_beside_a_rebuild() {
    rebuild::live_traffic_goes_on(Sqlite);
}

#[test]
#[ignore = "nightly: kills"]
fn a_rebuild_is_killed_at_any_moment() {
    rebuild::killed_at_any_moment(Sqlite);
}

#[test]
fn what_the_trouble_made_is_found_decided_and_closed() {
    reconcile::what_the_trouble_made_is_found_decided_and_closed(Sqlite);
}

#[test]
fn two_consoles_are_one() {
    apart::two_consoles_are_one(Sqlite);
}
