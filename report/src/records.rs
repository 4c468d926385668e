//! Owns the section about the compared records and orders, and the lines that could not be parsed.

use maud::{Markup, html};

use super::report::Report;
use super::text::{count, counted, isolated, len};

/// The counts, and the bad lines.
pub(super) fn section(report: &Report<'_>) -> Markup {
    let (records, compared) = (&report.ended.records, &report.ended.compared);
    let counts = [
        ("Lines in the file", records.lines, "header and totals included"),
        ("Entries", records.entries, "lines about money or the end of a payment"),
        ("Left out", records.ignored, "for reasons that the partner's profile names"),
        ("Not readable", records.bad, "each makes the run incomplete; listed below"),
        ("Orders", compared.orders, "compared with the entries"),
        ("Agree", compared.matched, "lines that agree with their order"),
        ("Pending", compared.pending, "within the grace period: judged by the next run"),
        ("Cut-off", compared.cut_off, "of a neighbouring day, near midnight: no difference"),
    ];
    html! {
        section aria-labelledby="records" {
            h2 #records { "What was compared" }
            table.counts {
                caption { (isolated(&records.name)) ", SHA-256 " code { (records.sha256) } }
                thead.unseen { tr {
                    th scope="col" { "What" }
                    th scope="col" { "Count" }
                    th scope="col" { "Meaning" }
                } }
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
    let not_listed = records.bad.saturating_sub(len(&records.bad_lines));
    html! {
        table.bad {
            caption { "Lines that could not be read" }
            thead { tr { th.num scope="col" { "Line" } th scope="col" { "Problem" } } }
            tbody { @for line in &records.bad_lines {
                tr { th.num scope="row" { (count(line.line)) } td { (isolated(&line.problem)) } }
            } }
        }
        @if not_listed > 0 {
            p.rest {
                (counted(not_listed, "more line")) " could not be read. All of them: "
                code { "payfold partner records " (report.ended.partner) " FILE" }
            }
        }
    }
}
