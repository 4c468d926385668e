//! No acknowledged notice is lost, none is applied twice: the whole program, killed at random
//! moments under load. `PAYFOLD_KILLS=200` for the long run.

use crate::faults::trial::{self, Plan};
use crate::support::dice::Dice;
use crate::support::knobs;

#[test]
#[ignore = "nightly: kills"]
fn no_acked_notice_is_lost_and_none_is_applied_twice() {
    let seed = knobs::seed().unwrap_or_else(Dice::any_seed);
    let kills = knobs::kills();
    trial::print_line(&format!("PAYFOLD_SEED={seed} PAYFOLD_KILLS={kills}"));
    let report = trial::run(&Plan::real(kills, seed));
    trial::print_line(&report);
    report.assert_clean();
}
