//! Owns the server that does nothing: an empty POST handler on the same HTTP stack and settings as
//! the public listener. It reads the body, as every server must, and answers 200 with none.

use std::sync::Arc;

use actix_web::{HttpResponse, web};

use crate::args::BenchServerArgs;
use crate::listener::{Routes, listen_public};
use crate::output;
use crate::settings::Settings;

/// Serves until it is killed; prints its address first.
pub(crate) fn run(args: &BenchServerArgs) -> anyhow::Result<()> {
    let settings = Settings { log: args.log.clone().unwrap_or_default(), ..Settings::default() };
    actix_web::rt::System::new().block_on(async {
        let socket = std::net::TcpListener::bind("127.0.0.1:0")?;
        let empty = |_: web::Bytes| async { HttpResponse::Ok().finish() };
        let routes: Routes = Arc::new(move |config| {
            config.service(web::resource("/api/payment/ipn").route(web::post().to(empty)));
        });
        let listener = listen_public(socket, routes, &settings)?;
        output::line(&listener.url);
        std::future::pending().await
    })
}
