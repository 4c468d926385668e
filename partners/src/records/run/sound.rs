//! Owns what must hold of bytes before anything is read of them: a text in its encoding, no longer than a record may be,
//! without NUL; of an object, JSON without a name that comes twice.

use memchr::memchr;

use crate::profile::Limits;
use crate::records::cells::{Cell, Dialect, Encoding, Record};
use crate::records::frame::{Broken, Frame, Frames};
use crate::records::row::Columns;
use crate::records::{Fault, RECORD_BYTES_MAX, Unfit};
use crate::scheme::document::{Document, Json};
use crate::verify::RejectCode;

/// What an object of a line may be.
const OBJECT: Limits = Limits { body_bytes: RECORD_BYTES_MAX, depth: 16, keys: 1_024 };

/// Whether a page or an XML document begins so; a cell may begin with `<`, too.
fn is_markup(head: &[u8]) -> bool {
    const BEGINNINGS: [&str; 6] = ["<!doctype", "<!--", "<?xml", "<html", "<head", "<body"];
    let begins = |word: &&str| {
        head.get(..word.len()).is_some_and(|head| head.eq_ignore_ascii_case(word.as_bytes()))
    };
    BEGINNINGS.iter().any(begins)
}

/// Leaves out the mark of UTF-8, and tells at once what is no text. Errors: `Unfit`.
pub(super) fn begin(frames: &mut Frames<'_>) -> Result<(), Unfit> {
    let problem = match frames.peek()? {
        [] => "the file is empty",
        [0xef, 0xbb, 0xbf, ..] => {
            frames.skip(3);
            if !frames.peek()?.is_empty() {
                return Ok(());
            }
            "the file is empty"
        }
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => "it is UTF-16; convert it to UTF-8",
        [_, 0, _, 0, ..] | [0, _, 0, _, ..] => "it looks like UTF-16; convert it to UTF-8",
        [b'P', b'K', 3 | 5, 4 | 6, ..] => {
            "it is a zip archive or a spreadsheet, no text; unpack it, or export it as CSV"
        }
        [b'%', b'P', b'D', b'F', ..] => "it is a PDF, no text; fetch it in the format of [records]",
        [0xd0, 0xcf, 0x11, 0xe0, ..] => "it is a spreadsheet, no text; export it as CSV",
        [0x1f, 0x8b, ..] => "it is packed twice; unpack it once",
        head if is_markup(head) => {
            "it begins like HTML or XML: an error page in place of the file? Fetch it again"
        }
        _ => return Ok(()),
    };
    Err(Unfit::whole(problem))
}

/// The record, once it is known to be text. Errors: what is wrong.
pub(super) fn sound<'f>(
    frame: &Frame<'f>,
    csv: Option<(&Dialect, &[Cell])>,
    columns: &Columns,
) -> Result<Record<'f>, Fault> {
    match frame.broken {
        None => {}
        Some(Broken::TooLong) => {
            let problem = format!("it is longer than {RECORD_BYTES_MAX} bytes");
            return Err(Fault { column: None, problem });
        }
        Some(Broken::Stray(cell)) => {
            let problem =
                "behind its closing quote stands more; a quote inside a cell is written twice";
            return Err(Fault::of(&columns.label(cell), problem));
        }
    }
    let column = |at: usize| {
        let cells = csv.map_or(&[][..], |(_, cells)| cells);
        cells.iter().position(|cell| cell.holds(at)).map(|cell| columns.label(cell))
    };
    if let Some(at) = memchr(0, frame.bytes) {
        let problem = format!("a NUL stands at byte {}", at + 1);
        return Err(Fault { column: column(at), problem });
    }
    let bytes = frame.bytes;
    let is_latin = csv.is_some_and(|(dialect, _)| dialect.encoding == Encoding::Latin1);
    match std::str::from_utf8(bytes) {
        _ if is_latin && !bytes.is_ascii() => Ok(Record { bytes, text: None }),
        Ok(text) => Ok(Record { bytes, text: Some(text) }),
        Err(error) => {
            let at = error.valid_up_to();
            let problem = format!("it is not UTF-8 at byte {}", at + 1);
            Err(Fault { column: column(at), problem })
        }
    }
}

/// The object a line is. Errors: it is none.
pub(super) fn object(text: &str) -> Result<Document, Fault> {
    let problem = match Json::parse(text, OBJECT).map(Document::Json) {
        Ok(document) if text.trim_ascii_start().starts_with('{') => return Ok(document),
        Ok(_) => "it is JSON, but no object",
        Err(RejectCode::DuplicateField) => "a name comes twice in it",
        Err(RejectCode::TooComplex) => "it is nested too deeply, or has too many names",
        Err(RejectCode::InvalidEncoding) => "half of a surrogate pair stands in it",
        Err(_) => "it is no JSON object",
    };
    Err(Fault { column: None, problem: problem.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::is_markup;

    #[test]
    fn a_page_is_told_from_a_cell_that_begins_with_its_sign() {
        for page in ["<!DOCTYPE html>", "<html lang=en>", "<?xml version=\"1.0\"?>", "<!-- hello"] {
            assert!(is_markup(page.as_bytes()), "{page}");
        }
        for cell in ["<", "<,ord-1,100", "<a>,1", "<!,1", "< html"] {
            assert!(!is_markup(cell.as_bytes()), "{cell}");
        }
    }
}
