//! Owns taking a partner's file from a browser: it is passed on as it comes, to be read.

use std::io;

use actix_multipart::{Field, Multipart};
use actix_web::web::Bytes;
use actix_web::{Error, HttpResponse};
use futures_util::{StreamExt as _, TryStreamExt as _, future, stream};
use payfold_api::reconcile::{PREVIEW, PreviewFile, Ticket};
use tokio::sync::mpsc;

use crate::compare::path_of_file;
use crate::failure;
use crate::field::{day_given, partner_of};
use crate::redirect;
use crate::visit::Visit;

/// The longest value beside the file, in bytes.
const VALUE_BYTES_MAX: usize = 1_024;
/// Parts of a file on their way.
const PARTS: usize = 4;

/// What is sent beside the file.
#[derive(Debug, Default)]
struct BesideFile {
    post_token: String,
    partner: String,
    day: String,
}

/// Takes a file and has it read. The fields before it name the partner.
pub(crate) async fn take(visit: Visit, mut parts: Multipart) -> Result<HttpResponse, Error> {
    let unread = |error: &dyn std::fmt::Display| {
        failure::unfit(&visit.request, &format!("The file can't be read: {error}."))
    };
    let mut beside = BesideFile::default();
    while let Some(mut part) = parts.try_next().await.map_err(|error| unread(&error))? {
        let name = part.name().unwrap_or_default().to_owned();
        if name == "records" {
            return visit.pass_on(&beside, part).await;
        }
        let value =
            part.bytes(VALUE_BYTES_MAX).await.map_err(|_| unread(&"a field is too long"))?;
        let value = value.map_err(|error| unread(&error))?;
        let value = String::from_utf8_lossy(&value).into_owned();
        match &*name {
            "post_token" => beside.post_token = value,
            "partner" => beside.partner = value,
            "day" => beside.day = value,
            _ => {}
        }
    }
    Err(failure::unfit(&visit.request, "No file was sent: choose the partner's file."))
}

impl Visit {
    /// Passes a file on as it comes.
    async fn pass_on(&self, beside: &BesideFile, mut file: Field) -> Result<HttpResponse, Error> {
        self.assert_own_page(&beside.post_token)?;
        let partner = self.selected(partner_of(&beside.partner))?;
        let day = self.selected(day_given(&beside.day))?.unwrap_or_default();
        let disposition = file.content_disposition().and_then(|it| it.get_filename());
        let name = disposition.unwrap_or_default().to_owned();
        if name.is_empty() {
            let problem = "No file is chosen: go back and choose the partner's file.";
            return Err(failure::unfit(&self.request, problem));
        }
        // What reqwest sends has to be able to change threads, and a form's part can't.
        let (parts, passed) = mpsc::channel::<io::Result<Bytes>>(PARTS);
        let passed = stream::unfold(passed, |mut passed| async {
            passed.recv().await.map(|part| (part, passed))
        });
        let reading = async move {
            while let Some(part) = file.next().await {
                let broken = part.as_ref().err().map(ToString::to_string);
                let part = part.map_err(|error| io::Error::other(error.to_string()));
                if parts.send(part).await.is_err() || broken.is_some() {
                    return broken;
                }
            }
            None
        };
        let (client, body) = (self.client(), reqwest::Body::wrap_stream(passed));
        let (names, request) = ([partner.as_str()], PreviewFile { name });
        let sending = client.upload(&PREVIEW, &names, &request, body);
        let (answer, broken) = future::join(sending, reading).await;
        if let Some(why) = broken {
            let problem = format!("The file did not arrive whole: {why}. Send it once more.");
            return Err(failure::unfit(&self.request, &problem));
        }
        let Ticket { ticket } = answer.map_err(|error| failure::failed(&self.request, &error))?;
        Ok(redirect::to(path_of_file(&ticket, &day)))
    }
}
