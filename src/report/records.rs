//! Owns what was looked at: the records, the orders, and every line that could not be read.

use maud::{Markup, html};

use super::Report;
use super::words::{count, counted, len, said};

/// The counts, and the bad lines.
pub(super) fn section(report: &Report<'_>) -> Markup {
    let (records, compared) = (&report.ended.records, &report.ended.compared);
    let counts = [
        ("Lines in the file", records.lines, "header and totals included"),
        ("Entries", records.entries, "lines that speak of money or of a payment's end"),
        ("Left out", records.ignored, "for reasons that the partner's profile names"),
        ("Not readable", records.bad, "each makes the run incomplete; listed below"),
        ("Orders", compared.orders, "that were compared with them"),
        ("Agree", compared.matched, "lines whose order says the same"),
        ("Pending", compared.pending, "too young to be missed: looked at again by the next run"),
        ("Cut-off", compared.cut_off, "of a neighbouring day, near midnight: no difference"),
    ];
    html! {
        section aria-labelledby="records" {
            h2 #records { "What was compared" }
            table.counts {
                caption { (said(&records.name)) ", SHA-256 " code { (records.sha256) } }
                thead.unseen { tr { th scope="col" { "What" } th scope="col" { "Count" } th scope="col" { "Meaning" } } }
                tbody { @for (what, number, meaning) in counts {
                    tr { th scope="row" { (what) } td.num { (count(number)) } td { (meaning) } }
                } }
            }
            @if records.bad > 0 { (bad_lines(report)) }
        }
    }
}

fn bad_lines(report: &Report<'_>) -> Markup {
    let records = &report.ended.records;
    let untold = records.bad.saturating_sub(len(&records.bad_lines));
    html! {
        table.bad {
            caption { "Lines that could not be read" }
            thead { tr { th.num scope="col" { "Line" } th scope="col" { "Problem" } } }
            tbody { @for line in &records.bad_lines {
                tr { th.num scope="row" { (count(line.line)) } td { (said(&line.problem)) } }
            } }
        }
        @if untold > 0 {
            p.rest {
                (counted(untold, "more line")) " could not be read. All of them: "
                code { "payfold partner records " (report.ended.partner) " FILE" }
            }
        }
    }
}
