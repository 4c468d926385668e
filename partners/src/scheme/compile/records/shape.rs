//! Owns the compiling of how a file is written: delimiter, quote, prefixes, header, comments.

use crate::records::cells::Dialect;
use crate::records::spec::{Header, Shape};
use crate::scheme::compile::Compiler;
use crate::scheme::file::Text;
use crate::scheme::file::records::{FormatFile, RecordsHeadFile};

impl Compiler {
    /// What a file is. `None`: it is not known, and why is noted.
    pub(super) fn shape(&mut self, head: &RecordsHeadFile) -> Option<Shape> {
        match head.format.get_ref() {
            FormatFile::Csv => self.csv(head),
            FormatFile::Jsonl => {
                self.no_csv(head);
                Some(Shape::Jsonl)
            }
        }
    }

    fn csv(&mut self, head: &RecordsHeadFile) -> Option<Shape> {
        let delimiter = match &head.delimiter {
            None => Some(b','),
            Some(text) => self.character(text, "delimiter"),
        };
        let quote = match &head.quote {
            None => Some(Some(b'"')),
            Some(text) if text.get_ref().is_empty() => Some(None),
            Some(text) => self.character(text, "quote").map(Some),
        };
        let prefix = head.cell_prefix.as_ref().map_or("", |text| text.get_ref());
        if let Some(text) = &head.cell_prefix {
            let fits = |c: char| c.is_ascii_punctuation() && !"\"-+.,;|\t".contains(c);
            if prefix.is_empty() || !prefix.chars().all(fits) {
                let problem = "records.cell_prefix lists characters of which one may stand before a value, such as \"`'=\"";
                self.wrong(text.span(), problem);
            }
        }
        let skip_head = self.or_default("records.skip_head", &head.skip_head, (0, 0..=1_000));
        let header = self.columns(head);
        let (delimiter, quote) = (delimiter?, quote?);
        let mut all: Vec<u8> = [delimiter].into_iter().chain(quote).chain(prefix.bytes()).collect();
        all.sort_unstable();
        if all.windows(2).any(|pair| pair[0] == pair[1]) {
            let problem = "delimiter, quote and the characters of cell_prefix must all differ";
            self.wrong(head.format.span(), problem);
        }
        let encoding = head.encoding.as_ref().map(|e| *e.get_ref()).unwrap_or_default();
        let dialect = Dialect { delimiter, quote, prefix: prefix.into(), encoding };
        let skip_head = u64::try_from(skip_head).unwrap_or(0);
        Some(Shape::Csv { dialect, header: header?, skip_head })
    }

    fn columns(&mut self, head: &RecordsHeadFile) -> Option<Header> {
        let has_names = head.header.as_ref().is_none_or(|header| *header.get_ref());
        match (&head.columns, has_names) {
            (None, true) => Some(Header::Names),
            (Some(columns), true) => {
                let problem =
                    "records.columns is for header = false; a header says how many there are";
                self.wrong(columns.span(), problem);
                None
            }
            (None, false) => {
                let span = head.header.as_ref().map_or(0..0, toml::Spanned::span);
                self.wrong(span, "without a header records.columns must say how many there are");
                None
            }
            (Some(columns), false) => {
                Some(Header::Columns(self.within("records.columns", columns, 1..=1_000)))
            }
        }
    }

    /// What JSON lines have none of.
    fn no_csv(&mut self, head: &RecordsHeadFile) {
        let spans = [
            ("delimiter", head.delimiter.as_ref().map(toml::Spanned::span)),
            ("quote", head.quote.as_ref().map(toml::Spanned::span)),
            ("cell_prefix", head.cell_prefix.as_ref().map(toml::Spanned::span)),
            ("encoding", head.encoding.as_ref().map(toml::Spanned::span)),
            ("header", head.header.as_ref().map(toml::Spanned::span)),
            ("columns", head.columns.as_ref().map(toml::Spanned::span)),
            ("skip_head", head.skip_head.as_ref().map(toml::Spanned::span)),
        ];
        for (name, span) in spans {
            if let Some(span) = span {
                self.wrong(span, format!("records.{name} is for format = \"csv\"; remove it"));
            }
        }
    }

    pub(super) fn comment(&mut self, head: &RecordsHeadFile, shape: Option<&Shape>) -> Option<u8> {
        let text = head.comment.as_ref()?;
        let comment = self.character(text, "comment")?;
        let is_taken = match shape {
            Some(Shape::Csv { dialect, .. }) => {
                dialect.delimiter == comment
                    || dialect.quote == Some(comment)
                    || dialect.prefix.contains(&comment)
            }
            Some(Shape::Jsonl) => comment == b'{',
            None => false,
        };
        if is_taken {
            self.wrong(text.span(), "records.comment means something else already");
        }
        Some(comment)
    }

    /// One character that no id, digit or time has.
    fn character(&mut self, text: &Text, name: &str) -> Option<u8> {
        match text.get_ref().as_bytes() {
            [c] if *c == b'\t'
                || *c == b' '
                || (c.is_ascii_punctuation() && !b"-+.:_".contains(c)) =>
            {
                Some(*c)
            }
            _ => {
                let problem = format!(
                    "records.{name} is one ASCII character that ids, digits and times don't contain, such as \",\""
                );
                self.wrong(text.span(), problem);
                None
            }
        }
    }
}
