//! A notice leads back to the order that was created, also where the order is sent under another
//! name.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::*;
use crate::scheme::tests::{post, verdict};

fn of_razorpay(event: &str, payload: &Value) -> String {
    let notice = json!({
        "event": event, "account_id": "SHOP", "created_at": NOW.unix_ms() / 1_000,
        "payload": payload,
    })
    .to_string();
    let signature = hmac::<Hmac<Sha256>>(SECRET, &notice);
    let headers = [("X-Razorpay-Signature", signature.as_str())];
    verdict(&directory_of(shipped("razorpay")), &post(&notice, &headers))
}

#[test]
fn razorpay_names_the_order_of_a_link_by_its_reference() {
    let link = json!({"entity": {
        "id": "plink_1", "reference_id": ORDER_ID, "amount": 5_000, "currency": "INR",
        "notes": {"order_id": ORDER_ID},
    }});
    let payment = |notes: Value| {
        let entity = json!({"id": "pay_1", "amount": 5_000, "currency": "INR", "notes": notes});
        json!({"entity": entity})
    };
    let paid = format!("{ORDER_ID} SUCCESS 5000 INR pay_1");
    let of_link = json!({"payment_link": link, "payment": payment(json!([]))});
    assert_eq!(of_razorpay("payment_link.paid", &of_link), paid);
    // The payment is reported as paid once, with or without the link's notes. Without them it names
    // no order.
    let bare = json!({"payment": payment(json!([]))});
    assert_eq!(of_razorpay("payment.captured", &bare), "kept");
    let noted = json!({"payment": payment(json!({"order_id": ORDER_ID}))});
    assert_eq!(of_razorpay("payment.captured", &noted), paid);
    for (event, expected) in [
        ("payment_link.expired", format!("{ORDER_ID} EXPIRED 5000 INR plink_1")),
        ("payment_link.cancelled", format!("{ORDER_ID} FAILED 5000 INR plink_1")),
        ("payment_link.partially_paid", "ignored".to_owned()),
    ] {
        assert_eq!(of_razorpay(event, &json!({"payment_link": link})), expected);
    }
}

#[test]
fn square_names_the_order_of_a_link_by_the_note_of_its_payment() {
    let said = |payment: Value| {
        let notice = json!({
            "merchant_id": "SHOP", "type": "payment.updated", "created_at": "2026-01-31T10:00:00Z",
            "data": {"object": {"payment": payment}},
        })
        .to_string();
        let mut mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).unwrap();
        mac.update(format!("u{notice}").as_bytes());
        let signature = STANDARD.encode(mac.finalize().into_bytes());
        let headers = [("x-square-hmacsha256-signature", signature.as_str())];
        verdict(&directory_of(shipped("square")), &post(&notice, &headers))
    };
    let payment = |status: &str, note: &str| {
        json!({
            "id": "p-1", "status": status, "amount_money": {"amount": 1_050, "currency": "USD"},
            "note": note, "updated_at": "2026-01-31T10:00:00Z",
        })
    };
    let paid = format!("{ORDER_ID} SUCCESS 1050 USD p-1");
    assert_eq!(said(payment("COMPLETED", ORDER_ID)), paid);
    assert_eq!(said(payment("COMPLETED", "a tip for Ana")), "kept", "of another payment");
    assert_eq!(said(payment("FAILED", ORDER_ID)), "ignored", "the payer may try again");
    let mut referred = payment("COMPLETED", "thanks");
    referred["reference_id"] = ORDER_ID.into();
    assert_eq!(said(referred), paid);
}

#[test]
fn zalopay_names_the_order_by_what_it_was_sent_as() {
    let said = |trans: &str| {
        let data = json!({
            "app_id": "SHOP", "app_trans_id": trans, "amount": 150_000, "zp_trans_id": 7,
            "server_time": NOW.unix_ms(),
        })
        .to_string();
        let notice = json!({"data": data, "mac": hmac::<Hmac<Sha256>>(SECRET, &data)}).to_string();
        verdict(&directory_of(shipped("zalopay")), &post(&notice, &[]))
    };
    let paid = format!("{ORDER_ID} SUCCESS 150000 VND 7");
    assert_eq!(said("260131_019c137ec1007abc800000000000000f"), paid);
    // An id that we did not create is used as it is.
    assert_eq!(said("260131_12345"), "260131_12345 SUCCESS 150000 VND 7");
}
