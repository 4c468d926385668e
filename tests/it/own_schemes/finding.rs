//! Where notices are looked for: partners on the shared route, and money that names no order.

use base64::Engine as _;

use super::*;

/// A partner that knows one address for everybody is found by the account its notice names and
/// signs for.
#[test]
fn a_notice_on_the_shared_route_is_found_by_its_merchant() {
    let home = Home::new();
    home.write("momo.toml", &momo_profile());
    // Notices that anybody could have made are not looked for there.
    let anybodys = ITEMS
        .replace("exceptions = [", "confirm = \"always\"\nexceptions = [\"needs_confirmation\", ")
        .replace(
            "algorithm = \"hmac-sha256\"\ntext = \"{i.ref}:{i.order}:{i.amount}:{i.success}\"",
            "algorithm = \"none\"",
        )
        .replace("signature = \"{i.sig}\"\noutput = \"hex-lower\"\n", "")
        .replace("[map]", "[map]\nmerchant = \"{f.for}\"");
    home.write("anybody.toml", &anybodys);
    let system = boot_with(
        &home,
        &[("momo", "momo.toml")],
        "[partners.anybody]\nprofile = \"anybody.toml\"\n",
    );
    system.payfold(&["key", "add", "anybody", "--merchant", "SHOP"]).ok();
    let path = "POST /api/payment/ipn";
    let paid = momo(0);
    let answer = ask(&system, path, &[], &paid);
    assert_eq!((answer.status, answer.body.len()), (204, 0), "{}", answer.text());
    assert_eq!(facts(&system, ["momo", "o-1"], 1), ["SUCCESS 150000 4014083433"]);
    let forged = ask(&system, path, &[], &paid.replace("150000", "150001"));
    assert_eq!((forged.status, forged.code().as_str()), (401, "unauthenticated"));
    let other = ask(&system, path, &[], &paid.replace("SHOP", "SHOP-2"));
    assert_eq!(other.status, 401, "{}", other.text());
    let unsigned =
        r#"{"for":"SHOP","items":[{"ref":"r","order":"o-9","amount":1,"success":true}]}"#;
    until("the account is known", Duration::from_secs(20), || {
        let own = ask(&system, "POST /api/payment/ipn/anybody", &[], unsigned);
        (own.status == 200).then_some(())
    });
    assert_eq!(ask(&system, path, &[], unsigned).status, 401);
}

/// Money without an order of ours is stored whole and then acknowledged, so that the partner does
/// not retry; where it can't be stored it is not acknowledged.
#[test]
fn money_of_no_order_is_kept_before_it_is_acknowledged() {
    early_in_hour(Duration::from_secs(20));
    let home = Home::new();
    let square = shipped("square").replacen(
        "notification_url = \"\"",
        "notification_url = \"https://n.example/\"",
        1,
    );
    home.write("square.toml", &square);
    let system = boot_with(
        &home,
        &[("square", "square.toml")],
        "[ingest]\nquarantine_bytes_per_hour = 500\n",
    );
    let post = |body: &str| {
        let mac = hmac::<Hmac<Sha256>>(&format!("https://n.example/{body}"));
        let mac = hex::decode(mac).expect("hex");
        let signature = base64::engine::general_purpose::STANDARD.encode(mac);
        let headers = [("x-square-hmacsha256-signature", signature.as_str())];
        ask(&system, "POST /api/payment/ipn/square", &headers, body)
    };
    let notice = |kind: &str, object: &str| {
        let at = SystemClock.now().to_rfc3339();
        let data = format!(r#"{{"object":{{{object}}}}}"#);
        format!(r#"{{"merchant_id":"SHOP","type":"{kind}","created_at":"{at}","data":{data}}}"#)
    };
    let money = r#""amount_money":{"amount":500,"currency":"USD"}"#;
    let elsewhere = notice(
        "payment.updated",
        &format!(r#""payment":{{"id":"p-1","status":"COMPLETED",{money}}}"#),
    );
    let refund = notice(
        "refund.updated",
        &format!(r#""refund":{{"id":"r-1","payment_id":"p-1","status":"COMPLETED",{money}}}"#),
    );
    let under_way = notice("payment.updated", r#""payment":{"id":"p-1","status":"PENDING"}"#);
    for body in [&elsewhere, &refund, &under_way] {
        let answer = post(body);
        assert_eq!((answer.status, answer.body.len()), (200, 0), "{}", answer.text());
    }
    let listed = || system.payfold(&["quarantine", "list", "--output", "json"]).json();
    let kept = listed();
    let codes: Vec<_> = kept.as_array().expect("a list").iter().map(|one| &one["code"]).collect();
    assert_eq!(codes, ["no_order", "no_order"], "{kept}");
    let position = kept[0]["position"].as_str().expect("a position").to_owned();
    let raw = system.payfold(&["quarantine", "show", &position, "--raw", "--reason", "to see"]);
    assert_eq!(raw.stdout.trim_end(), elsewhere);
    // The account's hour is full now: a notice that is not stored is not acknowledged either.
    let full = post(&notice(
        "payment.updated",
        &format!(
            r#""payment":{{"id":"p-2","note":"{}","status":"COMPLETED",{money}}}"#,
            "x".repeat(99)
        ),
    ));
    assert_eq!((full.status, full.code().as_str()), (503, "quarantine_full"));
    assert_eq!(full.header("retry-after"), Some("60"));
    assert_eq!(listed().as_array().expect("a list").len(), 2);
}

/// The ninth account of a partner gets its notices where they name it, and is refused where they
/// name no account.
#[test]
fn a_ninth_account_is_found_by_its_merchant_or_refused() {
    let starters = payfold_partners::profile::STARTERS;
    let starter = starters.iter().find(|starter| starter.name == "hmac-body").expect("it is there");
    let named = starter.profile;
    let unnamed = named.replace("merchant = \"{f.merchant_id}\"\n", "");
    assert_ne!(named, unnamed);
    let home = Home::configured("[partners.many]\nprofile = \"many.toml\"\n");
    home.write("many.toml", &unnamed);
    let secret = |n: usize| format!("{SECRET}, of account {n}");
    let add = |n: usize| {
        home.write("secret.txt", &format!("text:{}\n", secret(n)));
        let merchant = format!("M-{n}");
        home.payfold(&[
            "key",
            "add",
            "many",
            "--merchant",
            &merchant,
            "--secret-file",
            "secret.txt",
        ])
    };
    for n in 1..=8 {
        add(n).ok();
    }
    let said = "partner many has 9 enabled accounts, \
        and its profile reads no merchant before a key is tried";
    add(9).fails(&[said]);

    home.write("many.toml", named);
    add(9).ok();
    let system = home.boot();
    let body = json!({
        "merchant_id": "M-9", "order_id": "o-1", "transaction_id": "t-1", "amount": 100,
        "currency": "EUR", "status": "paid", "created_at": now_ms() / 1_000,
    });
    let body = body.to_string();
    let signature = notice::hmac::<Hmac<Sha256>>(&secret(9), &body);
    let (path, signed) = ("POST /api/payment/ipn/many", [("X-Signature", signature.as_str())]);
    let answer = ask(&system, path, &signed, &body);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let unknown = ask(&system, path, &signed, &body.replace("M-9", "M-10"));
    assert_eq!((unknown.status, unknown.code().as_str()), (401, "unauthenticated"));

    let (home, _) = system.stop();
    home.write("many.toml", &unnamed);
    let check = home.payfold(&["check"]);
    let shown = format!("{}{}", check.stdout, check.stderr);
    assert!(check.code() != 0 && shown.contains(said), "{shown}");
}
