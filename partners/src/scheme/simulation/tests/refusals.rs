//! What a simulated partner can't play or write is reported, and which key it signs with.

use super::*;

#[test]
fn what_can_t_be_played_is_refused_before_it_is_played() {
    let refused = |profile: &str, keys| {
        let directory = directory(profile, keys);
        account(&directory).check_simulation(SANDBOX, NOW).err().unwrap().to_string()
    };
    let midtrans = ShippedProfile::of("midtrans").unwrap().profile;
    let elsewhere = midtrans.replace("\"{c.snap_url}\"", "\"https://app.midtrans.com\"");
    assert_ne!(elsewhere, midtrans);
    assert_eq!(
        refused(&elsewhere, KEYS),
        "[create] base: it leads to https://app.midtrans.com and not to the simulated partner at \
         http://127.0.0.1:8082; give the account that address in the constant that base names"
    );
    let zalopay = ShippedProfile::of("zalopay").unwrap().profile;
    let upper = zalopay.replace("{order|after:ord-|compact}", "{order|after:ord-|compact|upper}");
    assert_ne!(upper, zalopay);
    assert_eq!(refused(&upper, KEYS), "[create]: the order can't be read");
    let pairs = include_str!("../../../../profiles/templates/sorted-pairs.toml");
    assert_eq!(refused(pairs, KEYS), "[create]: the profile makes no call to create a payment");
}

#[test]
fn the_newest_valid_key_signs_and_is_named() {
    let profile = include_str!("../../../../profiles/templates/hmac-body.toml");
    let named = format!("{profile}\n[key]\nid = \"{{h.X-Key}}\"\n");
    let directory = directory(&named, KEYS);
    let account = account(&directory);
    let payment = payment(account, (150_000, "VND"));
    let values = NoticeValues { payment, status: Status::Success, at: NOW, nonce: None };
    let notice = account.write_notice(NOTIFIED, &values, None, NOW).unwrap();
    let name = ("X-Key".to_owned(), "ipn".to_owned());
    assert!(notice.headers.contains(&name), "{:?}", notice.headers);
    directory.verify_scheme("acme", &arrived(&notice), NOW).unwrap();
    let early = account.write_notice(NOTIFIED, &values, None, NOW.plus_ms(-10)).err();
    assert_eq!(early, Some(SimulationError::Signature("no key for notices is valid now")));
}

/// What a condition needs beside the values may be what another event is for.
#[test]
fn a_notice_that_another_event_takes_is_not_written() {
    let earlier = "[[event]]\nwhen = [{ value = \"{f.status}\", starts_with = \"pa\" }]\n\
        outcome = \"ignore\"\n\n[[event]]";
    let profile = include_str!("../../../../profiles/templates/hmac-body.toml").replacen(
        "[[event]]",
        earlier,
        1,
    );
    let directory = directory(&profile, KEYS);
    let payment = payment(account(&directory), (150_000, "VND"));
    let values = NoticeValues { payment, status: Status::Success, at: NOW, nonce: None };
    let refused = account(&directory).write_notice(NOTIFIED, &values, None, NOW).err();
    assert_eq!(refused, Some(SimulationError::OtherEvent("SUCCESS".to_owned())));
}

#[test]
fn a_value_that_its_place_does_not_take_is_reported() {
    let directory = shipped("momo");
    let account = account(&directory);
    let payment = payment(account, (150_000, "VND"));
    let problem = |payment| {
        let values = NoticeValues { payment, status: Status::Success, at: NOW, nonce: None };
        account.write_notice(NOTIFIED, &values, None, NOW).err().unwrap().to_string()
    };
    assert_eq!(
        problem(PaymentValues { provider_ref: "sbx-1", ..payment }),
        "{f.transId} can't be written: the [[field]] of its place takes another text"
    );
    assert_eq!(
        problem(PaymentValues { currency: Currency::parse("USD").unwrap(), ..payment }),
        "VND can't be written: the profile has another text there"
    );
}
