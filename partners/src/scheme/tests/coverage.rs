//! Profiles that are refused when they are read: a deciding value is not signed, or a public key
//! signs notices that don't name their account.

use super::attacks::TEXT;
use super::*;

/// `taken`, or the errors of the profile.
fn read(profile: &str) -> String {
    match Profile::parse(&partner(), profile) {
        Ok(_) => "taken".to_owned(),
        Err(error) => error.to_string(),
    }
}

/// A profile that signs `text`, with these replacements.
fn profile(text: &str, changes: &[(&str, &str)]) -> String {
    let plain = HEAD.to_owned() + &TEXT.replace("TEXT", text) + TAIL;
    changes.iter().fold(plain, |profile, (from, to)| {
        assert!(profile.contains(from), "{from} in {profile}");
        profile.replacen(from, to, 1)
    })
}

const REFUND: (&str, &str) = (
    "[[event]]\n",
    "[[event]]\nwhen = [{ value = \"{f.state}\", is = \"back\" }]\noutcome = \"REFUNDED\"\n\
     event = \"{h.X-Event}\"\n[[event]]\n",
);
const ALWAYS: (&str, &str) = ("stage =", "confirm = \"always\"\nstage =");
const CONFIRMED: (&str, &str) = ("\"no_time\"", "\"needs_confirmation\", \"no_time\"");

/// With an unsigned refund id, one signed notice could be sent ten times as ten refunds.
#[test]
fn the_name_of_a_refund_is_signed() {
    let refused = read(&profile("{body}", &[REFUND]));
    assert!(
        refused.contains(
            "[[sign]] sign-1 does not cover {h.X-Event}, which decides which event it is: anybody \
             could make several refunds of one, and no query confirms it; map a signed place, or \
             leave event out"
        ),
        "{refused}"
    );
    // A query confirms the amount refunded, and not which refund it was.
    let confirmed = read(&profile("{body}", &[REFUND, ALWAYS, CONFIRMED]));
    assert!(confirmed.contains("which decides which event it is"), "{confirmed}");
    assert_eq!(read(&profile("{h.X-Event}|{body}", &[REFUND])), "taken");
    let signed = (REFUND.0, REFUND.1.replace("{h.X-Event}", "{f.refund.id}"));
    assert_eq!(read(&profile("{body}", &[(signed.0, &signed.1)])), "taken");
}

#[test]
fn when_it_was_paid_is_signed() {
    let at = |place: &str| {
        format!("currency = \"VND\"\npaid_at = \"{place}\"\npaid_at_format = \"unix_s\"")
    };
    let paid = |place: &str, more: &[(&str, &str)]| {
        let at = at(place);
        let own = [("currency = \"VND\"", at.as_str()), (", \"no_paid_at\"", "")];
        read(&profile("{body}", &[&own, more].concat()))
    };
    let said = "does not cover {q.paid}, which decides when it was paid: anybody could change it, \
        and no query confirms it; map a signed place, or leave paid_at out";
    let refused = paid("{q.paid}", &[]);
    assert!(refused.contains(said), "{refused}");
    let confirmed = paid("{q.paid}", &[ALWAYS, CONFIRMED]);
    assert!(confirmed.contains(said), "{confirmed}");
    assert_eq!(paid("{f.paid}", &[]), "taken");
    assert_eq!(paid("{f.paid}", &[ALWAYS, CONFIRMED]), "taken");

    // With kind = "event" the notice's time is used as paid_at.
    let time =
        "kind = \"event\"\nvalue = \"{h.X-Time}\"\nformat = \"unix_s\"\nskew_s = 5\nmax_age_s = 60";
    let by_time = [
        ("kind = \"none\"", time),
        ("\"no_time\", \"no_paid_at\"", "\"event_time\", \"unsigned_time\""),
    ];
    let refused = read(&profile("{body}", &by_time));
    assert!(
        refused.contains(
            "does not cover {h.X-Time}, which decides when it was paid with time.kind = \"event\""
        ),
        "{refused}"
    );
}

/// A value must be signed whatever part of the request it is read from.
#[test]
fn parts_of_the_request_decide_like_any_other() {
    for (place, covering) in [
        ("{query}", "{query}|{body}"),
        ("{path}", "{path}|{body}"),
        ("{path}", "{url}|{body}"),
        ("{query}", "{url}|{body}"),
        ("{url}", "{url}|{body}"),
        ("{t.asked}", "{query}|{body}"),
    ] {
        let text = "[[text]]\nname = \"asked\"\ntext = \"x-{query}\"\n[[sign]]";
        let changes = [("[[sign]]", text), ("order = \"{f.o}\"", &format!("order = \"{place}\""))];
        let refused = read(&profile("{body}", &changes));
        let said =
            format!("does not cover {place}, which decides the order: anybody could change it");
        assert!(refused.contains(&said), "{place}: {refused}");
        assert_eq!(read(&profile(covering, &changes)), "taken", "{place} in {covering}");
    }
    let whole = [("order = \"{f.o}\"", "order = \"{body}\"")];
    assert!(read(&profile("{f.r}|{f.a}|{f.state}", &whole)).contains("does not cover {body}"));
    assert_eq!(read(&profile("{body}", &whole)), "taken");
    // Values that the sender does not choose need no signature.
    for constant in ["{merchant}", "{method}", "o-1"] {
        let changes = [("order = \"{f.o}\"", format!("order = \"{constant}\""))];
        let changes = changes.each_ref().map(|(from, to)| (*from, to.as_str()));
        assert_eq!(read(&profile("{body}", &changes)), "taken", "{constant}");
    }
}

#[test]
fn items_are_signed_where_their_array_is() {
    let items = |at: &str, text: &str| {
        let section = format!(
            "[[document]]\nname = \"list\"\nfrom = \"{{h.X-List}}\"\ncontent = \"json\"\n[items]\n\
             at = \"{at}\"\n[[sign]]"
        );
        let all = profile(text, &[("[[sign]]", &section)]);
        read(&all.replace("{f.o}", "{i.o}").replace("{f.r}", "{i.r}").replace("{f.a}", "{i.a}"))
    };
    assert_eq!(items("f.all", "{body}"), "taken");
    let unsigned = items("list.all", "{body}");
    assert!(unsigned.contains("does not cover {i.o}, which decides the order"), "{unsigned}");
    assert_eq!(items("list.all", "{h.X-List}|{body}"), "taken");
}

/// `a` and `a.b` are two names of a form, and one object and its member in JSON.
#[test]
fn a_longer_field_name_is_another_name() {
    let form = [("content = \"json\"", "content = \"form\""), ("{f.o}", "{f.r.x}")];
    let refused = read(&profile("{f.r}|{f.a}|{f.state}", &form));
    assert!(refused.contains("does not cover {f.r.x}, which decides the order"), "{refused}");
    let json =
        profile("{f.r|raw}|{f.a}|{f.state}", &[("order = \"{f.o}\"", "order = \"{f.r.x}\"")]);
    assert_eq!(read(&json), "taken");
}

#[test]
fn what_has_to_hold_is_signed() {
    let require = |place: &str| {
        let section = format!("[[require]]\nvalue = \"{place}\"\nequals = \"live\"\n[map]");
        read(&profile("{body}", &[("[map]", &section)]))
    };
    let refused = require("{h.X-Mode}");
    assert!(
        refused.contains("does not cover {h.X-Mode}, which decides whether it is ours"),
        "{refused}"
    );
    assert_eq!(require("{f.mode}"), "taken");
    let nonce = |place: &str| {
        let place = format!("[map]\nnonce = \"{place}\"");
        read(&profile("{body}", &[("stage =", "nonce = \"required\"\nstage ="), ("[map]", &place)]))
    };
    assert!(nonce("{h.X-Nonce}").contains("does not cover {h.X-Nonce}, which decides the nonce"));
    assert_eq!(nonce("{f.nonce}"), "taken");
}

/// A partner signs the notices of all its merchants with one key, so a payment at another
/// merchant's account could count as ours.
#[test]
fn a_notice_under_a_public_key_names_its_account() {
    let public = |text: &str, changes: &[(&str, &str)]| {
        let rsa = [("hmac-sha256", "rsa-sha256"), ("hex-lower", "base64")];
        read(&profile(text, &[&rsa, changes].concat()))
    };
    let merchant = |place: &str| format!("[map]\nmerchant = \"{place}\"");
    let require = |value: &str, equals: &str| {
        format!(
            "[constants]\napp = \"\"\nours = \"A-7\"\n[[require]]\nvalue = \"{value}\"\n\
             equals = \"{equals}\"\n[map]"
        )
    };
    for (text, map, is_taken) in [
        ("{body}", "[map]".to_owned(), false),
        ("{body}", merchant("{f.m}"), true),
        ("{body}", merchant("{h.X-Merchant}"), false),
        ("{h.X-Merchant}|{body}", merchant("{h.X-Merchant}"), true),
        ("{body}", merchant("SHOP"), false),
        ("{body}", merchant("{merchant}"), false),
        ("{body}", merchant("{f.m}{merchant}"), false),
        ("{body}", require("{f.app}", "{c.app}"), true),
        ("{body}", require("{c.app}", "{f.app}"), true),
        ("{body}", require("{f.app}", "{merchant}"), true),
        ("{h.X-App}|{body}", require("{h.X-App}", "{c.app}"), true),
        // The same value for every account, or no constant of the account.
        ("{body}", require("{f.app}", "{c.ours}"), false),
        ("{body}", require("{f.mode}", "live"), false),
        ("{body}", require("{f.app}{c.app}", "{c.app}"), false),
        // The signed text of another account may begin with the same text.
        ("{c.app}|{body}", "[constants]\napp = \"\"\n[map]".to_owned(), false),
    ] {
        let said = public(text, &[("[map]", &map)]);
        assert_eq!(said == "taken", is_taken, "{text} {map}: {said}");
        let why = "the signed text does not name the merchant";
        assert!(is_taken || said.contains(why), "{text} {map}: {said}");
    }
    let by_header = profile("{body}", &[("[map]", &merchant("{h.X-Merchant}"))]);
    assert_eq!(read(&by_header), "taken", "a secret of the account says for which it is");
    assert_eq!(
        public("{body}", &[ALWAYS, CONFIRMED]),
        "taken",
        "a query with the account's own key confirms it"
    );
}

/// XXX is ISO 4217's code for "no currency", XTS its test code, XAU gold: none has minor units.
#[test]
fn a_currency_without_minor_units_is_refused_like_an_unknown_one() {
    let directory =
        directory(&profile("{body}", &[("currency = \"VND\"", "currency = \"{f.c}\"")]));
    let said = |code: &str| {
        let body = format!(r#"{{"o":"o-1","r":"r-1","a":5,"state":"paid","c":"{code}"}}"#);
        let signature = sha256(&body);
        verdict(&directory, &post(&body, &[("X-Sig", signature.as_str())]))
    };
    assert_eq!(said("CLF"), "o-1 SUCCESS 5 CLF r-1", "a fund's code with minor units");
    for code in ["XXX", "XTS", "XAU", "XDR", "XYZ"] {
        assert_eq!(said(code), "fault: currency is no ISO 4217 code with minor units", "{code}");
    }
    let word = profile(
        "{body}",
        &[("currency = \"VND\"", "currency = \"{f.c}\"\ncurrencies = { none = \"XXX\" }")],
    );
    assert!(
        read(&word).contains("currencies.none must be a currency of ISO 4217"),
        "{}",
        read(&word)
    );
}
