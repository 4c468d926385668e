//! Owns the page that shows a QR code, and the drawing of one. What a real partner leaves to the shop, shown here so
//! that there is something to scan.

use maud::{Markup, html};
use qrcode::{Color, EcLevel, QrCode};

use crate::look::Nonce;
use crate::page::{self, Shown, Stage};

/// The quiet margin a scanner needs, in modules.
const MARGIN: usize = 4;

/// The page of a payment's code.
pub(crate) fn page(shown: &Shown, payload: &str, nonce: &Nonce) -> String {
    let inside = match &shown.stage {
        Stage::Open => html! {
            div.code { (drawing(payload)) }
            (page::countdown(shown))
            form method="post" action={ (shown.page) "/scan" } {
                button.first type="submit" { "Simulate scan and pay" }
            }
            p.quiet { code { (payload) } }
        },
        ended => page::outcome(ended),
    };
    page::document(shown, nonce, &page::card(shown, &inside))
}

/// A code as one SVG path: black on white, whatever the page's colours, or scanners miss it.
fn drawing(payload: &str) -> Markup {
    let Ok(code) = QrCode::with_error_correction_level(payload, EcLevel::M) else {
        return html! { p.quiet { "This is too long for a code." } };
    };
    let width = code.width();
    let side = width + 2 * MARGIN;
    html! {
        svg viewBox=(format!("0 0 {side} {side}")) role="img" aria-label="QR code" shape-rendering="crispEdges" {
            rect width=(side) height=(side) fill="#fff" {}
            path fill="#000" d=(outline(&code.to_colors(), width)) {}
        }
    }
}

/// A rectangle for every run of dark modules of a row.
fn outline(modules: &[Color], width: usize) -> String {
    let mut path = String::with_capacity(modules.len() * 4);
    for (row, colors) in modules.chunks(width).enumerate() {
        let mut column = 0;
        for run in colors.chunk_by(|one, other| one == other) {
            if run[0] == Color::Dark {
                let (x, y, long) = (column + MARGIN, row + MARGIN, run.len());
                path.push_str(&format!("M{x} {y}h{long}v1h-{long}z"));
            }
            column += run.len();
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fills what the path draws into a grid again.
    fn painted(path: &str, width: usize) -> Vec<Color> {
        let mut modules = vec![Color::Light; width * width];
        for piece in path.split('M').skip(1) {
            let (at, run) = piece.split_once('h').unwrap();
            let (x, y) = at.split_once(' ').unwrap();
            let long: usize = run.split_once('v').unwrap().0.parse().unwrap();
            let [x, y] = [x, y].map(|text| text.parse::<usize>().unwrap() - MARGIN);
            modules[y * width + x..y * width + x + long].fill(Color::Dark);
        }
        modules
    }

    #[test]
    fn the_drawing_has_every_module_of_the_code() {
        let payload = "payfold-sandbox:sbx-0198?amount=150000&currency=VND";
        let code = QrCode::with_error_correction_level(payload, EcLevel::M).unwrap();
        let modules = code.to_colors();
        assert!(modules.contains(&Color::Dark) && modules.contains(&Color::Light));
        assert_eq!(painted(&outline(&modules, code.width()), code.width()), modules);
    }

    #[test]
    fn what_no_code_can_carry_is_said() {
        let text = drawing(&"x".repeat(4_000)).into_string();
        assert!(text.contains("too long"), "{text}");
    }
}
