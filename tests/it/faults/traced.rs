//! The order of things as the kernel saw it: between the reading of a request and the first byte of
//! its 200, the log's write-ahead log is written and synced, and the sync has returned.

mod trace;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::faults::child::{Child, Program};
use crate::faults::load::World;
use crate::faults::planted::Bug;
use crate::faults::trial;
use crate::support::needs::{self, Need};
use crate::support::system::alone;
use crate::support::waits::until;
use crate::support::wire::Connection;
use trace::Proof;

/// Notices posted, one after the other.
const NOTICES: u64 = 12;

const CALLS: &str = "trace=fsync,fdatasync,pwrite64,write,writev,sendto,sendmsg,recvfrom,read";

/// Whether a trace can be made here.
fn can_trace() -> bool {
    let traced = alone(|| Command::new("strace").args(["-o", "/dev/null", "true"]).output());
    let found = match traced {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("strace: {}", String::from_utf8_lossy(&output.stderr).trim())),
        Err(error) => Err(format!("no strace: {error}")),
    };
    needs::require(Need::Tracer, found).is_some()
}

/// Runs a program under strace, posts notices one by one, and judges each.
fn judged(program: Program) -> Vec<Result<Proof, String>> {
    let folder = trial::folder();
    let (data, file) = (folder.path().join("data"), folder.path().join("trace"));
    let mut child = Child::spawn(under_strace(&program.command(&data), &file), &data);
    let addresses = child.ready();
    let world = World::of(&data);
    let mut connection = Connection::open(&addresses.public);
    for number in 0..NOTICES {
        let answer = world.post_fresh(&mut connection, number);
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    child.kill();
    until("strace to write its file", Duration::from_secs(10), || {
        let judged = trace::judge(&std::fs::read_to_string(&file).ok()?);
        (u64::try_from(judged.len()) == Ok(NOTICES)).then_some(judged)
    })
}

fn under_strace(program: &Command, file: &Path) -> Command {
    let mut command = Command::new("strace");
    // -y writes the path behind each descriptor, as /proc/PID/fd shows it.
    command.args(["-f", "-ttt", "-y", "-s", "64", "-e", CALLS, "-e", "signal=none", "-o"]);
    command.arg(file).arg(program.get_program()).args(program.get_args());
    for (name, value) in program.get_envs().filter_map(|(name, value)| Some((name, value?))) {
        command.env(name, value);
    }
    if let Some(folder) = program.get_current_dir() {
        command.current_dir(folder);
    }
    command
}

#[test]
fn the_log_is_synced_before_the_200_is_written() {
    if !can_trace() {
        return;
    }
    for (number, proof) in judged(Program::RealIngest).into_iter().enumerate() {
        let proof = proof.unwrap_or_else(|why| panic!("notice {number}: {why}"));
        trial::print_line(&format!("notice {number}: {proof}"));
    }
}

#[test]
fn an_early_ack_is_seen_in_the_trace() {
    if !can_trace() {
        return;
    }
    // A late write may fall between the read and the 200 of a later notice; before the first notice
    // there is none.
    let judged = judged(Program::Planted(Bug::AckEarly));
    assert!(judged[0].is_err(), "{judged:?}");
}
