//! Bytes that are no text: they cost nothing where a notice is neither read nor signed, what is
//! signed is verified over them, and a value that is read is refused by its name.

use super::attacks::TEXT;
use super::kinds::altered;
use super::*;

/// A value that is no UTF-8 once it is decoded, written in JSON and in a form.
const ODD: [(&str, &[u8], &[u8]); 4] = [
    ("windows-1252", b"J\xFCrgen", b"J%FCrgen"),
    ("as it came", b"J\xFCrgen", b"J\xFCrgen"),
    ("a cut character", b"x\xF0\x9F\x98", b"x%F0%9F%98"),
    ("half of a pair", b"J\\ud83d", b"J%ED%A0%BD"),
];

/// Every value of `ODD` in JSON and in a form, under every signature: what it is, the content, the
/// signature, the value as written.
fn odd_cases() -> impl Iterator<Item = (&'static str, &'static str, Signed, &'static [u8])> {
    ODD.into_iter().flat_map(|(what, json, form)| {
        let written = [("json", json), ("form", form)].into_iter();
        written.flat_map(move |(content, value)| HOW.map(|how| (what, content, how, value)))
    })
}

/// What a signature is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Signed {
    Body,
    /// Order, ref, amount and state.
    Values,
    /// All members but the signature, decoded.
    Members,
}

const HOW: [Signed; 3] = [Signed::Body, Signed::Values, Signed::Members];

fn profile(content: &str, signed: Signed) -> String {
    let list =
        "[[pairs]]\nname = \"all\"\nof = \"f\"\norder = \"as-is\"\nempty = \"keep\"\n[[sign]]";
    let text = match signed {
        Signed::Body => TEXT.replace("TEXT", "{body}"),
        Signed::Values => TEXT.replace("TEXT", "{f.a}|{f.o}|{f.r}|{f.state}"),
        Signed::Members => altered(TEXT, "[[sign]]", list).replace("TEXT", "{p.all}"),
    };
    HEAD.to_owned() + &altered(&text, "\"json\"", &format!("{content:?}")) + TAIL
}

/// The judgement of a POST with a signature over this text in its header.
fn judged(directory: &Directory, body: &[u8], text: &[u8]) -> String {
    verdict(directory, &post(body, &[("X-Sig", &sha256(text))]))
}

/// A notice: order, ref and state, and one member more.
struct Notice<'n> {
    content: &'n str,
    order: &'n [u8],
    more: (&'n [u8], &'n [u8]),
}

impl Notice<'_> {
    fn body(&self) -> Vec<u8> {
        let (name, value) = self.more;
        let members = [
            (&b"a"[..], &b"100"[..]),
            (b"o", self.order),
            (b"r", b"r-1"),
            (b"state", b"paid"),
            (name, value),
        ];
        let write = |(name, value): (&[u8], &[u8])| match self.content {
            "json" => [b"\"", name, b"\":\"", value, b"\""].concat(),
            _ => [name, b"=", value].concat(),
        };
        let written: Vec<_> = members.into_iter().map(write).collect();
        match self.content {
            "json" => [b"{", &written.join(&b","[..])[..], b"}"].concat(),
            _ => written.join(&b"&"[..]),
        }
    }

    /// What the partner signs; `decoded` are the order and the last value as bytes.
    fn text(&self, signed: Signed, (order, value): (&[u8], &[u8])) -> Vec<u8> {
        let name = decoded(self.more.0, self.content);
        match signed {
            Signed::Body => self.body(),
            Signed::Values => [b"100|", order, b"|r-1|paid"].concat(),
            Signed::Members => {
                [b"a=100&o=", order, b"&r=r-1&state=paid&", &name, b"=", value].concat()
            }
        }
    }

    fn verdict(&self, signed: Signed, decoded: (&[u8], &[u8])) -> String {
        let directory = directory(&profile(self.content, signed));
        judged(&directory, &self.body(), &self.text(signed, decoded))
    }
}

const GOOD: &str = "o-1 SUCCESS 100 VND r-1";

/// The bytes that a name or value is once it is decoded.
fn decoded(written: &[u8], content: &str) -> Vec<u8> {
    let surrogate = written.windows(2).position(|pair| pair == b"\\u");
    match (content, surrogate) {
        ("json", Some(at)) => [&written[..at], b"\xED\xA0\xBD"].concat(),
        ("json", None) => written.to_vec(),
        _ => percent_encoding::percent_decode(written).collect(),
    }
}

#[test]
fn a_value_that_is_no_text_costs_nothing_where_it_is_not_read() {
    for (what, content, signed, written) in odd_cases() {
        let value = decoded(written, content);
        let notice = Notice { content, order: b"o-1", more: (b"z", written) };
        let said = notice.verdict(signed, (b"o-1", &value));
        assert_eq!(said, GOOD, "{what}, {content}, {signed:?}");
        // Signed bytes are these bytes: what is no text either is another text.
        if signed == Signed::Members {
            let forged = [&value[..value.len() - 1], b"\xFE"].concat();
            let said = notice.verdict(signed, (b"o-1", &forged));
            assert_eq!(said, "unauthenticated", "{what}, {content}");
        }
    }
}

#[test]
fn a_value_that_is_no_text_is_refused_by_name_where_it_is_read() {
    for (what, content, signed, written) in odd_cases() {
        let order = decoded(written, content);
        let notice = Notice { content, order: written, more: (b"z", b"1") };
        let said = notice.verdict(signed, (&order, b"1"));
        assert_eq!(said, "fault: {f.o} is not UTF-8", "{what}, {content}, {signed:?}");
    }
}

/// A name that is no text is no name of the profile, and no other name becomes it.
#[test]
fn a_name_that_is_no_text_is_no_name_of_the_profile() {
    for (content, name) in [("json", &b"o\xFC"[..]), ("form", b"o%FC"), ("json", b"\\ud83d")] {
        let notice = Notice { content, order: b"o-1", more: (name, b"o-2") };
        for signed in HOW {
            assert_eq!(notice.verdict(signed, (b"o-1", b"o-2")), GOOD, "{content} {signed:?}");
        }
    }
}

/// Some editors and .NET write a byte order mark; it belongs to the bytes that are signed.
#[test]
fn a_byte_order_mark_is_signed_and_not_read() {
    for content in ["json", "form"] {
        let notice = Notice { content, order: b"o-1", more: (b"z", b"1") };
        let body = [b"\xEF\xBB\xBF", &notice.body()[..]].concat();
        for (text, expected) in [(&body[..], GOOD), (&body[3..], "unauthenticated")] {
            let directory = directory(&profile(content, Signed::Body));
            assert_eq!(judged(&directory, &body, text), expected, "{content}");
        }
    }
}

/// The same where another value stands beside the body in the signed text.
#[test]
fn a_byte_order_mark_is_signed_beside_another_value() {
    let notice = Notice { content: "json", order: b"o-1", more: (b"z", b"1") };
    let body = [b"\xEF\xBB\xBF", &notice.body()[..]].concat();
    for (text, before) in [("{q.t}.{body}", "17."), ("{path}{body}", "/n")] {
        let signed = TEXT.replace("TEXT", text);
        let directory = directory(&(HEAD.to_owned() + &signed + TAIL));
        let signature = sha256(&[before.as_bytes(), &body[..]].concat());
        let signed = post(&body, &[("X-Sig", &signature)]);
        let request = NoticeRequest { query: "t=17", path: "/n", ..signed };
        assert_eq!(verdict(&directory, &request), GOOD, "{text}");
    }
}

/// A merchant that can't be read names no other account: the key that signed it keeps the notice.
#[test]
fn a_notice_with_an_unreadable_merchant_is_kept() {
    let named =
        |content| altered(&profile(content, Signed::Body), "[map]", "[map]\nmerchant = \"{f.m}\"");
    let paid = |content, more| Notice { content, order: b"o-1", more }.body();
    for (content, body, expected) in [
        ("form", paid("form", (b"m", b"SHOP&m=SHOP")), "fault: {f.m} occurs more than once"),
        ("form", paid("form", (b"m", b"SH%FF")), "fault: {f.m} is not UTF-8"),
        ("json", paid("json", (b"m", b"\xFF")), "fault: {f.m} is not UTF-8"),
        ("json", paid("json", (b"m", b"SHOP")), GOOD),
        ("json", paid("json", (b"m", b"SHIP")), "unauthenticated"),
        // The profile ignores this kind, and so nothing else of it is read.
        ("form", b"state=ping&m=SHOP".to_vec(), "ignored"),
        ("form", b"state=ping".to_vec(), "ignored"),
        ("form", b"state=ping&m=SHOP&m=SHOP".to_vec(), "fault: {f.m} occurs more than once"),
    ] {
        let shown = String::from_utf8_lossy(&body);
        assert_eq!(judged(&directory(&named(content)), &body, &body), expected, "{shown}");
    }
}

/// On the shared path the contract's scheme reads the body first, and refuses it.
#[test]
fn bytes_that_are_no_text_are_found_by_their_merchant_on_the_shared_path() {
    let named = altered(&profile("json", Signed::Body), "[map]", "[map]\nmerchant = \"{f.m}\"");
    let directory = directory(&named);
    let paid = Notice { content: "json", order: b"o-1", more: (b"m", b"SHOP\",\"z\":\"J\xFC") };
    let marked = [b"\xEF\xBB\xBF", &paid.body()[..]].concat();
    for body in [paid.body(), marked] {
        for (sent, is_found) in [(sha256(&body).as_str(), true), ("00", false)] {
            let request = post(&body, &[("X-Sig", sent)]);
            assert_eq!(directory.authenticate(None, &request, NOW).is_ok(), is_found);
        }
    }
}

/// A value of the notice in an acknowledgement is echoed as it came. What can't be is left out: the
/// partner still reads that the notice is stored.
#[test]
fn an_acknowledgement_is_written_whatever_the_notice_has() {
    let ack = "[acks.accepted]\nstatus = 200\ntemplate = '00 {f.z|json}[ {f.z}]!'\n[limits]";
    let profile = altered(&profile("form", Signed::Body), "[limits]", ack);
    let directory = directory(&altered(&profile, "[\"no_time\"", "[\"custom_ack\", \"no_time\""));
    for (value, body) in [
        (&b"J%FC"[..], &b"00 J\xFC J\xFC!"[..]),
        (b"J%22%FC", b"00 J\\\"\xFC J\"\xFC!"),
        (b"1&z=2", b"00 !"),
    ] {
        let sent = Notice { content: "form", order: b"o-1", more: (b"z", value) }.body();
        let signature = sha256(&sent);
        let request = post(&sent, &[("X-Sig", &signature)]);
        let verified = directory.verify_scheme("acme", &request, NOW).unwrap();
        assert_eq!(said(&verified.notices[0]), GOOD);
        let answer = verified.notices[0].answer(crate::scheme::ack::AckKind::Accepted).unwrap();
        assert_eq!((answer.status, answer.body.as_slice()), (200, body));
    }
}

/// A proxy, a tracker or a typing error in our address adds a query to it.
#[test]
fn a_query_that_is_not_read_may_be_odd() {
    let notice = Notice { content: "json", order: b"o-1", more: (b"z", b"1") };
    let body = notice.body();
    let signature = sha256(&body);
    let directory = directory(&profile("json", Signed::Body));
    for query in ["x=%ff", "a=1&a=2", "a&a", "%", "=", "%zz=%", "&&="] {
        let request = NoticeRequest { query, ..post(&body, &[("X-Sig", &signature)]) };
        assert_eq!(verdict(&directory, &request), GOOD, "{query}");
    }
}

/// Of a name that comes twice neither value is read; where it is not read it may.
#[test]
fn a_repeated_name_is_refused_where_it_is_read() {
    for (more, expected) in [
        ((&b"z"[..], &b"1&z=2"[..]), GOOD),
        ((b"o", b"o-1"), "fault: {f.o} occurs more than once"),
        ((b"%6F", b"o-2"), "fault: {f.o} occurs more than once"),
    ] {
        let notice = Notice { content: "form", order: b"o-1", more };
        assert_eq!(notice.verdict(Signed::Body, (b"o-1", b"")), expected, "{more:?}");
    }
    let twice = Notice { content: "form", order: b"o-1", more: (b"o", b"o-2") };
    assert_eq!(twice.verdict(Signed::Values, (b"o-1", b"")), "unauthenticated");
    assert_eq!(twice.verdict(Signed::Values, (b"o-2", b"")), "unauthenticated");
    let json = Notice { content: "json", order: b"o-1", more: (b"o", b"o-2") };
    assert_eq!(json.verdict(Signed::Body, (b"o-1", b"")), "duplicate_field");
}

/// What can't be parsed is refused with its place.
#[test]
fn a_body_that_is_neither_json_nor_text_is_refused_at_a_byte() {
    let directory = directory(&profile("json", Signed::Body));
    let request = post(b"{\"a\":1}\xFC", &[]);
    let rejection = directory.verify_scheme("acme", &request, NOW).unwrap_err();
    assert_eq!(rejection.detail(), Some("not JSON, and not UTF-8 at byte 7"));
}
