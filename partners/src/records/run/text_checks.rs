//! Owns the checks of bytes before they are read as values: text in the file's encoding, without
//! NUL or text after a closing quote, and not longer than a record may be. A JSON line must be an
//! object without duplicate names.

use memchr::memchr;

use crate::limits::BodyLimits;
use crate::records::cells::{Cells, TextEncoding};
use crate::records::frame::{Frame, FrameFault, FrameReader};
use crate::records::row::Columns;
use crate::records::types::{RECORD_BYTES_MAX, RowFault, UnfitFile};
use crate::rejection::RejectCode;
use crate::scheme::document::Document;
use crate::scheme::json_document::JsonDocument;

/// The limits on the object of a JSON line.
const OBJECT: BodyLimits = BodyLimits { body_bytes: RECORD_BYTES_MAX, depth: 16, keys: 1_024 };

/// Whether these bytes begin an HTML page or an XML document. A cell may also begin with
/// `<`, so that character alone is not enough.
fn is_markup(head: &[u8]) -> bool {
    const BEGINNINGS: [&str; 6] = ["<!doctype", "<!--", "<?xml", "<html", "<head", "<body"];
    let begins = |tag: &&str| {
        head.get(..tag.len()).is_some_and(|head| head.eq_ignore_ascii_case(tag.as_bytes()))
    };
    BEGINNINGS.iter().any(begins)
}

/// Skips the byte-order mark of UTF-8, and refuses empty files and files of another
/// format, such as HTML. Errors: `UnfitFile`.
pub(super) fn check_start(frames: &mut FrameReader<'_>) -> Result<(), UnfitFile> {
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
            "it is a zip archive or a spreadsheet, not text; unpack it, or export it as CSV"
        }
        [b'%', b'P', b'D', b'F', ..] => {
            "it is a PDF, not text; fetch it in the format of the profile's [records]"
        }
        [0xd0, 0xcf, 0x11, 0xe0, ..] => "it is a spreadsheet, not text; export it as CSV",
        // One layer of gzip is unpacked already.
        [0x1f, 0x8b, ..] => "it is packed twice; unpack it once",
        head if is_markup(head) => {
            "it begins like HTML or XML: an error page in place of the file? Fetch it again"
        }
        _ => return Ok(()),
    };
    Err(UnfitFile::whole(problem))
}

/// Checks a record and returns its text: the content of its cells, or the whole line if it has
/// none. `None` for latin-1 with other characters than ASCII: the caller decodes each byte as a
/// character. Errors: the fault.
pub(super) fn check_text<'f>(
    frame: &Frame<'f>,
    cells: Option<&'f Cells<'_>>,
    columns: &Columns,
) -> Result<Option<&'f str>, RowFault> {
    match frame.broken {
        None => {}
        Some(FrameFault::TooLong) => {
            let problem = format!("it is longer than {RECORD_BYTES_MAX} bytes");
            return Err(RowFault { column: None, problem });
        }
        Some(FrameFault::Stray(cell)) => {
            let problem =
                "there is text after its closing quote; a quote inside a cell must be doubled";
            return Err(RowFault::of(&columns.label(cell), problem));
        }
    }
    let bytes = frame.bytes;
    // Names the column of the first cell that has the fault.
    let fault = |has: &dyn Fn(&[u8]) -> bool, problem: String| {
        let column = cells.and_then(|cells| cells.iter().position(has));
        RowFault { column: column.map(|column| columns.label(column)), problem }
    };
    if let Some(at) = memchr(0, bytes) {
        return Err(fault(&|cell| cell.contains(&0), format!("there is a NUL at byte {}", at + 1)));
    }
    let is_latin = cells.is_some_and(|cells| cells.dialect.encoding == TextEncoding::Latin1);
    match std::str::from_utf8(bytes) {
        _ if is_latin && !bytes.is_ascii() => Ok(None),
        Ok(line) => Ok(cells.map_or(Some(line), |cells| std::str::from_utf8(cells.content()).ok())),
        Err(error) => {
            let problem = format!("it is not UTF-8 at byte {}", error.valid_up_to() + 1);
            Err(fault(&|cell| std::str::from_utf8(cell).is_err(), problem))
        }
    }
}

/// Parses the JSON object of a line. Errors: the line is not one, has a name twice, or breaks a
/// limit of `OBJECT`.
pub(super) fn parse_object(text: &str) -> Result<Document, RowFault> {
    let problem = match JsonDocument::parse(text.as_bytes(), OBJECT).map(Document::Json) {
        Ok(document) if text.trim_ascii_start().starts_with('{') => return Ok(document),
        Ok(_) => "it is JSON, but not an object",
        Err(RejectCode::DuplicateField) => "it has a name twice",
        Err(RejectCode::TooComplex) => "it is nested too deeply, or has too many names",
        Err(_) => "it is not a JSON object",
    };
    Err(RowFault { column: None, problem: problem.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::is_markup;

    #[test]
    fn a_page_is_distinguished_from_a_cell_that_begins_with_an_angle_bracket() {
        for page in ["<!DOCTYPE html>", "<html lang=en>", "<?xml version=\"1.0\"?>", "<!-- hello"] {
            assert!(is_markup(page.as_bytes()), "{page}");
        }
        for cell in ["<", "<,ord-1,100", "<a>,1", "<!,1", "< html"] {
            assert!(!is_markup(cell.as_bytes()), "{cell}");
        }
    }
}
