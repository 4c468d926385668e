//! How answers to create calls are judged.

use payfold_schemas::fact::Presentation;

use super::*;

/// The profile, the presentation that is asked for (`-`, `qr`), a part of its good answer, its
/// replacement => the judgement.
const ANSWERS: &str = r#"
    momo - | - | - => page https://test-payment.momo.vn/v2/gateway/pay?t=1 as ORDER for 6000 s
    momo qr | - | - => qr 00020101 as ORDER for 6000 s
    momo qr | "qrCodeUrl":"00020101" | "x":1 => no_presentation
    momo - | "qrCodeUrl":"00020101" | "x":1 => page https://test-payment.momo.vn/v2/gateway/pay?t=1 as ORDER for 6000 s
    momo - | "resultCode":0 | "resultCode":41 => declined 41
    momo - | "resultCode":0 | "resultCode":"\u0001<b>é" => declined <b>
    momo - | "resultCode":0 | "x":0 => declined 
    momo - | "resultCode":0 | "resultCode":0,"resultCode":1 => not_json
    momo - | https://test | http://test => redirect_url_not_https
    momo - | https://test | https://me@test => redirect_url_userinfo
    momo - | https://test-payment.momo.vn | https://10.0.0.1 => redirect_url_private
    momo - | https://test | /test => redirect_url
    zalopay - | - | - => page https://qcgateway.zalopay.vn/openinapp?order=e as ORDER for 900 s
    zalopay - | "return_code":1 | "return_code":2 => declined 2 -401
    midtrans - | - | - => page https://app.midtrans.com/snap/v2/vtweb/66e4fa55 as ORDER for 900 s
    midtrans - | "token":"66e4fa55", |  => declined 
    square - | - | - => page https://square.link/u/jUjglZiR as ORDER for 3600 s
    square - | "url":"https://square.link/u/jUjglZiR" | "x":1 => no_presentation
    razorpay - | - | - => page https://rzp.io/i/nxrHnLJ as ORDER for 1800 s
    razorpay - | "created" | "cancelled" => declined 
    in_s - | - | - => page https://pay.example/s/a%2Fb as t-9 for 300 s
    in_s - | "in":300 | "in":0 => expires_at_past
    in_s - | "in":300 | "in":-1 => expires_at
    in_s - | "in":300 | "in":3e2 => expires_at
    in_s - | "in":300 | "in":null => expires_at
    in_s - | "id":"t-9" | "id":"" => provider_ref
    in_s - | "id":"t-9" | "id":"é" => provider_ref
    at - | - | - => page https://pay.example/s/a%2Fb as t-9 for 60 s
    at - | 17:01:00 | 17:00:00 => expires_at_past
    at - | 17:01:00 | soon => expires_at
"#;

/// A profile with transaction and expiry in its answer: a number of seconds, or a time.
fn profile_with_expiry(expires: &str) -> String {
    let profile = vnpay()
        .replace("kind = \"signed_url\"", "kind = \"call\"\nmethod = \"POST\"\ncontent = \"form\"")
        .replace("expiry = \"request\"", "expiry = \"response\"");
    format!(
        "{profile}[create.answer]\nref = \"{{a.id}}\"\n\
         redirect = \"https://pay.example/s/{{a.token}}\"\n{expires}\n"
    )
}

fn good(name: &str) -> &'static str {
    match name {
        "momo" => {
            r#"{"partnerCode":"SHOP","resultCode":0,"message":"ok","payUrl":"https://test-payment.momo.vn/v2/gateway/pay?t=1","deeplink":"momo://x","qrCodeUrl":"00020101"}"#
        }
        "zalopay" => {
            r#"{"return_code":1,"return_message":"","sub_return_code":-401,"zp_trans_token":"t","order_url":"https://qcgateway.zalopay.vn/openinapp?order=e","order_token":"o"}"#
        }
        "midtrans" => {
            r#"{"token":"66e4fa55","redirect_url":"https://app.midtrans.com/snap/v2/vtweb/66e4fa55"}"#
        }
        "square" => {
            r#"{"payment_link":{"id":"FWT463MU2JIG7S3D","version":1,"order_id":"C0DM","url":"https://square.link/u/jUjglZiR"},"related_resources":{"orders":[{"id":"C0DM"}]}}"#
        }
        "razorpay" => {
            r#"{"id":"plink_1","status":"created","short_url":"https://rzp.io/i/nxrHnLJ","notes":{"order_id":"x"}}"#
        }
        _ => r#"{"id":"t-9","token":"a/b","in":300,"until":"2026-01-31 17:01:00"}"#,
    }
}

fn judge_text(profile: &str, presentation: Option<PresentationKind>, body: &str) -> String {
    let account = account_of(profile);
    let mut wanted = request(15_000_000, "VND");
    for currency in ["VND", "IDR", "INR"] {
        wanted.currency = Currency::parse(currency).unwrap();
        if put(&account, &wanted).is_ok() {
            break;
        }
    }
    wanted.presentation = presentation;
    let (_, asked) = put(&account, &wanted).unwrap_or_else(|why| panic!("{why}"));
    match account.judge_offer(&asked, body.as_bytes(), NOW) {
        Err(OfferError::Declined(code)) => format!("declined {code}"),
        Err(OfferError::Violation(rule)) => rule.name().to_owned(),
        Ok(offer) => {
            let shown = match offer.presentation {
                Presentation::RedirectUrl(url) => format!("page {url}"),
                Presentation::QrPayload(text) => format!("qr {text}"),
            };
            let named = offer.provider_ref.to_string().replace(ORDER_ID, "ORDER");
            let seconds = offer.expires_at.nanos_since(NOW) / 1_000_000_000;
            format!("{shown} as {named} for {seconds} s")
        }
    }
}

#[test]
fn answers_of_shipped_profiles_are_judged() {
    let mut wrong = Vec::new();
    for case in ANSWERS.lines().map(str::trim_start).filter(|line| !line.is_empty()) {
        let (given, expected) = case.rsplit_once(" => ").unwrap();
        let [head, from, to] = given
            .split(" | ")
            .collect::<Vec<_>>()
            .try_into()
            .unwrap_or_else(|parts| panic!("{case}: {parts:?}"));
        let (name, requested) = head.split_once(' ').unwrap();
        let good = good(name);
        assert!(from == "-" || good.contains(from), "{case}");
        let body = if from == "-" { good.to_owned() } else { good.replacen(from, to, 1) };
        let profile = match name {
            "in_s" => profile_with_expiry("expires = \"{a.in}\"\nexpires_format = \"in_s\""),
            "at" => profile_with_expiry(
                "expires = \"{a.until}\"\nexpires_format = \"%Y-%m-%d %H:%M:%S\"\n\
                 expires_zone = \"+07:00\"",
            ),
            name => shipped(name).to_owned(),
        };
        let judged =
            judge_text(&profile, Some(PresentationKind::Qr).filter(|_| requested == "qr"), &body);
        if judged != expected {
            wrong.push(format!("{case}\n  {judged}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
