//! Owns compiling the format of a payment file: delimiter, quote, prefixes, header, comments.

use crate::profile::bounds;
use crate::profile::spanned::Spanned;
use crate::records::cells::CsvDialect;
use crate::records::spec::{CsvHeader, FileFormat};
use crate::scheme::compile::compiler::ProfileCompiler;
use crate::scheme::file::records::{FormatFile, RecordsHeadFile};
use crate::scheme::file::tables::SpannedText;

impl ProfileCompiler {
    /// The format of the file. `None` after reporting a mistake.
    pub(super) fn compile_shape(&mut self, head: &RecordsHeadFile) -> Option<FileFormat> {
        match head.format.get_ref() {
            FormatFile::Csv => self.compile_csv(head),
            FormatFile::Jsonl => {
                self.check_no_csv_keys(head);
                Some(FileFormat::Jsonl)
            }
        }
    }

    fn compile_csv(&mut self, head: &RecordsHeadFile) -> Option<FileFormat> {
        let delimiter = match &head.delimiter {
            None => Some(b','),
            Some(text) => self.parse_character(text, "delimiter"),
        };
        let quote = match &head.quote {
            None => Some(Some(b'"')),
            Some(text) if text.get_ref().is_empty() => Some(None),
            Some(text) => self.parse_character(text, "quote").map(Some),
        };
        let prefix = head.cell_prefix.as_ref().map_or("", |text| text.get_ref());
        if let Some(text) = &head.cell_prefix {
            let fits = |c: char| c.is_ascii_punctuation() && !"\"-+.,;|\t".contains(c);
            if prefix.is_empty() || !prefix.chars().all(fits) {
                let problem = "records.cell_prefix lists characters of which one may stand before \
                    a value, such as \"`'=\"";
                self.report(text.span(), problem);
            }
        }
        let skip_head =
            self.bounded_or_default("records.skip_head", &head.skip_head, (0, bounds::SKIP_HEAD));
        let header = self.compile_columns(head);
        let (delimiter, quote) = (delimiter?, quote?);
        let mut all: Vec<u8> = [delimiter].into_iter().chain(quote).chain(prefix.bytes()).collect();
        all.sort_unstable();
        if all.windows(2).any(|pair| pair[0] == pair[1]) {
            let problem = "delimiter, quote and the characters of cell_prefix must all differ";
            self.report(head.format.span(), problem);
        }
        let encoding = head.encoding.as_ref().map(|e| *e.get_ref()).unwrap_or_default();
        let dialect = CsvDialect { delimiter, quote, prefix: prefix.into(), encoding };
        let skip_head = u64::try_from(skip_head).unwrap_or(0);
        Some(FileFormat::Csv { dialect, header: header?, skip_head })
    }

    fn compile_columns(&mut self, head: &RecordsHeadFile) -> Option<CsvHeader> {
        let has_names = head.header.as_ref().is_none_or(|header| *header.get_ref());
        match (&head.columns, has_names) {
            (None, true) => Some(CsvHeader::Names),
            (Some(columns), true) => {
                let problem =
                    "records.columns is for header = false; a header says how many there are";
                self.report(columns.span(), problem);
                None
            }
            (None, false) => {
                let span = head.header.as_ref().map_or(0..0, Spanned::span);
                self.report(span, "without a header records.columns must say how many there are");
                None
            }
            (Some(columns), false) => Some(CsvHeader::Columns(self.check_bounds(
                "records.columns",
                columns,
                bounds::COLUMNS,
            ))),
        }
    }

    /// Checks that a JSONL file sets no key that is for CSV.
    fn check_no_csv_keys(&mut self, head: &RecordsHeadFile) {
        let spans = [
            ("delimiter", head.delimiter.as_ref().map(Spanned::span)),
            ("quote", head.quote.as_ref().map(Spanned::span)),
            ("cell_prefix", head.cell_prefix.as_ref().map(Spanned::span)),
            ("encoding", head.encoding.as_ref().map(Spanned::span)),
            ("header", head.header.as_ref().map(Spanned::span)),
            ("columns", head.columns.as_ref().map(Spanned::span)),
            ("skip_head", head.skip_head.as_ref().map(Spanned::span)),
        ];
        for (name, span) in spans {
            if let Some(span) = span {
                self.report(span, format!("records.{name} is for format = \"csv\"; remove it"));
            }
        }
    }

    pub(super) fn compile_comment(
        &mut self,
        head: &RecordsHeadFile,
        shape: Option<&FileFormat>,
    ) -> Option<u8> {
        let text = head.comment.as_ref()?;
        let comment = self.parse_character(text, "comment")?;
        let is_taken = match shape {
            Some(FileFormat::Csv { dialect, .. }) => {
                dialect.delimiter == comment
                    || dialect.quote == Some(comment)
                    || dialect.prefix.contains(&comment)
            }
            Some(FileFormat::Jsonl) => comment == b'{',
            None => false,
        };
        if is_taken {
            self.report(
                text.span(),
                "records.comment is already the delimiter, the quote or a prefix; choose another \
                 character",
            );
        }
        Some(comment)
    }

    /// Parses one character that ids, digits and times don't contain.
    fn parse_character(&mut self, text: &SpannedText, name: &str) -> Option<u8> {
        match text.get_ref().as_bytes() {
            [c] if *c == b'\t'
                || *c == b' '
                || (c.is_ascii_punctuation() && !b"-+.:_".contains(c)) =>
            {
                Some(*c)
            }
            _ => {
                let problem = format!(
                    "records.{name} is one ASCII character that ids, digits and times don't \
                     contain, such as \",\""
                );
                self.report(text.span(), problem);
                None
            }
        }
    }
}
