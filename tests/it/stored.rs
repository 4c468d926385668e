//! Owns the property of ingest's answers on the real binary: for every request that is answered
//! 200, or refused for good although a key signed it, the log holds what it brought. Notices are
//! drawn from small pools, so that many repeat each other in their signed fields and differ in
//! others. Of a fact the log holds a notice with the same content; of everything else it holds the
//! bytes.

use std::collections::HashSet;
use std::rc::Rc;

use hmac::Hmac;
use payfold_engines::log::Topic;
use payfold_schemas::record::{Parts, Record};
use serde_json::Value;
use sha2::Sha256;

use crate::own_schemes::ITEMS;
use crate::support::dice::Dice;
use crate::support::notice::{self, Notice, text};
use crate::support::pair::{Inside, Names};
use crate::support::system::{Home, System};
use crate::support::wire::request;

const ROUNDS: usize = 250;

/// The key of a partner.
fn secret(partner: &str) -> String {
    format!("a published test key of {partner}, worth nothing at all")
}

/// A partner of this test.
struct Family {
    code: &'static str,
    /// What stands in its profile instead of the lines of `ITEMS`.
    changes: &'static [(&'static str, &'static str)],
    /// The members that its key signs, one by one; none: the whole body.
    signed: &'static [&'static str],
    /// Whether a body is a list of notices.
    is_list: bool,
}

const FAMILIES: [Family; 4] = [
    // Each notice of a list has a signature over all that decides.
    Family {
        code: "each",
        changes: &[],
        signed: &["ref", "order", "amount", "success"],
        is_list: true,
    },
    // Each has a signature without amount and status: a query confirms them.
    Family {
        code: "partly",
        changes: &[
            ("exceptions = [", "confirm = \"always\"\nexceptions = ["),
            ("no_paid_at", "needs_confirmation"),
            (":{i.amount}:{i.success}", ":{i.paid}"),
            ("[map]\n", "[map]\npaid_at = \"{i.paid}\"\npaid_at_format = \"unix_s\"\n"),
        ],
        signed: &["ref", "order", "paid"],
        is_list: true,
    },
    // One signature covers the whole list.
    Family {
        code: "whole",
        changes: &[
            ("text = \"{i.ref}:{i.order}:{i.amount}:{i.success}\"", "text = \"{body}\""),
            ("{i.sig}", "{h.x-sig}"),
        ],
        signed: &[],
        is_list: true,
    },
    // A body is one notice.
    Family {
        code: "alone",
        changes: &[("[items]\nat = \"f.items\"\n", ""), ("{i.", "{f.")],
        signed: &["ref", "order", "amount", "success"],
        is_list: false,
    },
];

/// What stands in every profile of this test instead of the last event of `ITEMS`.
const EVENTS: &str = r#"[[event]]
when = [{ value = "{i.success}", starts_with = "money" }]
outcome = "no_order"
[[event]]
outcome = "refuse"
"#;

/// A request as it is sent, and what it was answered.
struct Sent {
    target: String,
    body: String,
    status: u16,
    items: usize,
}

impl Sent {
    fn partner(&self) -> &str {
        let path = self.target.split('?').next().unwrap_or_default();
        path.strip_prefix("/api/payment/ipn/").unwrap_or("acme")
    }
}

impl Family {
    fn profile(&self) -> String {
        let events = ("[[event]]\noutcome = \"FAILED\"\n", EVENTS);
        let changes = [events].into_iter().chain(self.changes.iter().copied());
        changes.fold(ITEMS.to_owned(), |profile, (from, to)| {
            assert!(profile.contains(from), "{from}");
            profile.replace(from, to)
        })
    }

    /// A notice from small pools, signed if its family signs notices.
    fn draw_notice(&self, dice: &mut Dice) -> String {
        let mut members = vec![
            ("ref", text(dice.pick::<&str>(&["r-1", "r-2"]))),
            ("order", text(dice.pick::<&str>(&["o-1", "o-2"]))),
            ("amount", (*dice.pick(&["100", "200", "0"])).to_owned()),
            ("paid", "1700000000".to_owned()),
            (
                "success",
                text(dice.pick::<&str>(&["true", "true", "money back", "money lost", "odd"])),
            ),
        ];
        if !self.signed.is_empty() {
            let value = |wanted: &&str| {
                let (_, source) = members.iter().find(|(name, _)| name == wanted).expect("it is");
                source.trim_matches('"').to_owned()
            };
            let signed = self.signed.iter().map(value).collect::<Vec<_>>().join(":");
            members.push(("sig", text(&notice::hmac::<Hmac<Sha256>>(&secret(self.code), &signed))));
        }
        // Neither read nor signed.
        members.push(("refund", dice.roll(8).to_string()));
        let member = |(name, source): (&str, String)| format!("\"{name}\":{source}");
        format!("{{{}}}", members.into_iter().map(member).collect::<Vec<_>>().join(","))
    }

    fn send(&self, system: &System, dice: &mut Dice) -> Sent {
        let items = if self.is_list { 1 + usize::try_from(dice.roll(3)).expect("few") } else { 1 };
        let notices: Vec<_> = (0..items).map(|_| self.draw_notice(dice)).collect();
        let body = match self.is_list {
            true => format!("{{\"items\":[{}]}}", notices.join(",")),
            false => notices.concat(),
        };
        let signature = notice::hmac::<Hmac<Sha256>>(&secret(self.code), &body);
        let target = format!("/api/payment/ipn/{}{}", self.code, dice.pick(&["", "?again"]));
        let header = format!("x-sig: {signature}\r\n");
        let answer =
            system.ask(&request(&format!("POST {target}"), &header, Some(body.as_bytes())));
        Sent { target, body, status: answer.status, items }
    }
}

/// Sends a notice of the default scheme to the shared path or to its partner's.
fn send_default(system: &System, dice: &mut Dice) -> Sent {
    let shared = [["o-1", "r-1"], ["o-1", "r-2"], ["o-2", "r-1"]];
    let [order, provider_ref] = *dice.pick(&shared);
    let at = [-4_000, 0][usize::try_from(dice.roll(2)).expect("two")];
    // Whole minutes, so that notices repeat each other.
    let time = notice::time(at);
    let (minute, _) = time.rsplit_once(':').expect("it has seconds");
    let time = text(&format!("{minute}:00Z"));
    let sent = Notice::paid("SHOP", order, provider_ref)
        .with("paidAt", &time)
        .with("timestamp", &time)
        .with("amount", *dice.pick(&["100", "\"100\"", "0"]))
        .sign(&secret("acme"))
        .with("refund", dice.roll(8).to_string());
    let target = (*dice.pick(&["/api/payment/ipn", "/api/payment/ipn/acme"])).to_owned();
    let body = sent.body();
    let answer = system.ask(&request(&format!("POST {target}"), "", Some(body.as_bytes())));
    Sent { target, body, status: answer.status, items: 1 }
}

/// The content of a fact: its partner, and all members but those that are not read.
fn said(partner: &str, body: &str, item: usize) -> String {
    let body: Value = serde_json::from_str(body).expect("it is JSON");
    let mut notice = body.get("items").map_or(&body, |items| &items[item]).clone();
    for unread in ["refund", "signature", "sig"] {
        notice.as_object_mut().expect("an object").remove(unread);
    }
    format!("{partner} {notice}")
}

/// The log's notices: what its facts say, and the bytes of everything (target, body, item).
#[derive(Default)]
struct Held {
    facts: HashSet<String>,
    bytes: HashSet<(String, String, usize)>,
}

impl Held {
    fn of(home: &Home) -> Self {
        let mut held = Self::default();
        for topic in [Topic::Intake, Topic::Quarantine] {
            for message in Inside::of(home).messages(topic) {
                held.add(Record::decode(&message.value).expect("a record"));
            }
        }
        held
    }

    fn add(&mut self, record: Record) {
        let body = String::from_utf8(record.raw).expect("UTF-8");
        let source = match record.parts {
            Parts::Fact(fact) => {
                let Some(source) = fact.source else { return };
                let item = source.request.item.unwrap_or(0);
                let item = usize::try_from(item).expect("few");
                self.facts.insert(said(fact.order.partner.as_str(), &body, item));
                source
            }
            Parts::Quarantine(record) => record.source,
            Parts::Switch(_) | Parts::Parked(_) | Parts::ParkingProposed(_) => return,
        };
        let item = usize::try_from(source.request.item.unwrap_or(0)).expect("few");
        self.bytes.insert((source.request.target, body, item));
    }

    /// Whether the log holds what this request brought.
    fn has(&self, sent: &Sent) -> bool {
        (0..sent.items).all(|item| {
            self.bytes.contains(&(sent.target.clone(), sent.body.clone(), item))
                || self.facts.contains(&said(sent.partner(), &sent.body, item))
        })
    }
}

/// The partners of this test and their keys.
fn fill(home: &Home) {
    let mut settings = "[partners.acme]\nprofile = \"default\"\n".to_owned();
    for family in &FAMILIES {
        let (code, file) = (family.code, format!("{}.toml", family.code));
        settings.push_str(&format!("[partners.{code}]\nprofile = \"{file}\"\n"));
        home.write(&file, &family.profile());
    }
    home.write("payfold.toml", &settings);
    for code in FAMILIES.iter().map(|family| family.code).chain(["acme"]) {
        home.add_key(code, &secret(code), &["--merchant", "SHOP"]);
    }
}

#[test]
fn what_is_answered_for_good_is_in_the_log() {
    try_in(&[Home::new()]);
}

#[test]
#[ignore = "nightly: servers"]
fn what_is_answered_for_good_is_in_kafka_whichever_process_answers() {
    let Some(names) = Names::new() else { return };
    let homes = [names.home(), names.home()];
    homes[0].payfold(&["topics", "apply"]).ok();
    homes[0].payfold(&["schema", "apply"]).ok();
    try_in(&homes);
}

/// Sends notices to a process in each of these folders, restarts them, and sends more.
fn try_in(homes: &[Rc<Home>]) {
    homes.iter().for_each(|home| fill(home));
    let mut dice = Dice::new(19, 0);
    let mut sent = Vec::new();
    for _ in ["first", "after a restart"] {
        let systems: Vec<_> = homes.iter().map(|home| home.boot_as("ingest", &[])).collect();
        for _ in 0..ROUNDS {
            let system = dice.pick(&systems);
            sent.extend(FAMILIES.iter().map(|family| family.send(system, &mut dice)));
            sent.push(send_default(system, &mut dice));
        }
        for system in systems {
            system.stop();
        }
    }
    let held = Held::of(&homes[0]);
    let is_final = |sent: &&Sent| matches!(sent.status, 200 | 400 | 403);
    let lost: Vec<_> = sent.iter().filter(is_final).filter(|sent| !held.has(sent)).collect();
    let lost = lost.iter().map(|sent| format!("{} {} {}", sent.status, sent.target, sent.body));
    assert_eq!(lost.collect::<Vec<_>>(), [""; 0]);
    for code in ["each", "partly", "whole", "alone", "acme"] {
        let of_family = |sent: &&Sent| sent.partner() == code;
        let count = |status| sent.iter().filter(of_family).filter(|s| s.status == status).count();
        let counts = [count(200), count(400), count(503)];
        assert!(counts[0] > 30 && counts[1] > 30, "{code}: {counts:?}");
        // Notices that differ in nothing that decides are not kept without an end; others are. Of
        // several processes each has room of its own, which these notices may not fill.
        let is_as_expected = match code {
            "whole" => true,
            "partly" => counts[2] == 0,
            _ => counts[2] > 0 || homes.len() > 1,
        };
        assert!(is_as_expected, "{code}: {counts:?}");
    }
}
