//! Owns the page with a payment's QR code, and the drawing of the code. With a real partner the
//! shop shows the code; the sandbox shows it so that a demo has one to scan.

use maud::{Markup, html};
use qrcode::{Color, EcLevel, QrCode};

use crate::layout::Nonce;
use crate::page::{self, PageState, PageView};

/// The quiet zone that a scanner needs, in modules.
const MARGIN: usize = 4;

/// Renders the page of a payment's QR code.
pub(crate) fn render_page(view: &PageView, payload: &str, nonce: &Nonce) -> String {
    let inside = match &view.stage {
        PageState::Open => html! {
            div.code { (draw_code(payload)) }
            (page::render_countdown(view))
            form method="post" action={ (view.page) "/scan" } {
                button.first type="submit" { "Simulate scan and pay" }
            }
            p.quiet { code { (payload) } }
        },
        ended => page::render_outcome(ended),
    };
    page::render_payment_document(view, nonce, &page::render_card(view, &inside))
}

/// Draws a QR code as one SVG path. It is black on white in every colour scheme, because scanners
/// need that.
fn draw_code(payload: &str) -> Markup {
    let Ok(code) = QrCode::with_error_correction_level(payload, EcLevel::M) else {
        return html! { p.quiet { "This is too long for a QR code." } };
    };
    let width = code.width();
    let side = width + 2 * MARGIN;
    html! {
        svg viewBox=(format!("0 0 {side} {side}")) role="img" aria-label="QR code"
            shape-rendering="crispEdges" {
            rect width=(side) height=(side) fill="#fff" {}
            path fill="#000" d=(svg_path(&code.to_colors(), width)) {}
        }
    }
}

/// The SVG path: one rectangle for each run of dark modules in a row.
fn svg_path(modules: &[Color], width: usize) -> String {
    let mut path = String::with_capacity(modules.len() * 4);
    for (row, colors) in modules.chunks(width).enumerate() {
        let mut column = 0;
        for run in colors.chunk_by(|one, other| one == other) {
            if run[0] == Color::Dark {
                let (x, y, length) = (column + MARGIN, row + MARGIN, run.len());
                path.push_str(&format!("M{x} {y}h{length}v1h-{length}z"));
            }
            column += run.len();
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Paints a path into a grid of modules.
    fn paint(path: &str, width: usize) -> Vec<Color> {
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
        assert_eq!(paint(&svg_path(&modules, code.width()), code.width()), modules);
    }

    #[test]
    fn a_text_too_long_for_a_code_is_reported() {
        let text = draw_code(&"x".repeat(4_000)).into_string();
        assert!(text.contains("too long"), "{text}");
    }
}
