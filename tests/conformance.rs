//! Our own actors keep the promises that a replacement has to keep.

use std::sync::Arc;

use procession_actors::{LogActor, PolicyActor, SessionActor, actor};
use procession_testkit::conformance;

#[tokio::test(start_paused = true)]
async fn our_policy_keeps_its_promises() {
    conformance::policy::all(&actor(|arguments| (PolicyActor, arguments))).await;
}

#[tokio::test(start_paused = true)]
async fn our_log_keeps_its_promises() {
    conformance::log::all(&actor(|arguments| (LogActor, arguments))).await;
}

#[tokio::test(start_paused = true)]
async fn our_session_keeps_its_promises() {
    let service: conformance::session::Service =
        Arc::new(actor(|arguments| (SessionActor::default(), arguments)));
    conformance::session::all(&service).await;
}
