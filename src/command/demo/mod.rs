//! `payfold demo`: plays shop and partner against a running demo.

mod acked;
mod ipn;
mod pay;
mod report;
mod shop;

use crate::args::{DemoCommand, Global};

/// Runs one of its commands.
pub(crate) fn run(global: &Global, command: &DemoCommand) -> anyhow::Result<()> {
    match command {
        DemoCommand::Ipn(args) => ipn::run(global, args),
        DemoCommand::Pay(args) => pay::run(global, args),
    }
}
