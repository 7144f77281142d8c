//! What only the inside of the port can show.

use std::{collections::BTreeSet, sync::Arc};

use procession_core::{
    Environment, SessionId,
    spec::{StdinMode, StreamMode},
};

use super::*;

fn request(command: &str) -> SpawnRequest {
    SpawnRequest {
        session: SessionId::from_random([7; 10]),
        argv: ["sh", "-c", command].map(Into::into).to_vec(),
        environment: Environment::default(),
        cwd: None,
        root: None,
        stdin: StdinMode::Null,
        streams: StreamMode::Merged,
        terminal: None,
        limits: crate::ProcessLimits::default(),
    }
}

/// The short cut against the long way: who is the newest process has nobody in its session.
#[tokio::test(flavor = "multi_thread")]
async fn the_newest_process_has_no_members() {
    let port = UnixPort::start().unwrap();
    let table = Arc::clone(&port.table);
    let (mut newest, mut with_members) = (0, 0);
    for round in 0..4000 {
        let has_job = round % 4 == 0;
        let session = port
            .spawn(request(if has_job { "sleep 60 & exit 0" } else { "exit 0" }))
            .await
            .unwrap();
        session.leader.exited().await.unwrap();
        let pid = i32::try_from(session.pid).unwrap();
        let is_newest = table.is_newest(pid);
        let members = table.members(&BTreeSet::from([pid]));
        assert!(!(is_newest && has_job), "{members:?}");
        // The job may have been killed by nobody, so that it has to be there.
        assert_eq!(members.get(&pid).map_or(0, Vec::len), usize::from(has_job));
        newest += u32::from(is_newest);
        with_members += u32::from(has_job);
        session.tree.sweep().await;
        session.leader.reap();
        if newest > 0 && with_members > 5 {
            return;
        }
    }
    // Other processes that are started on the machine spoil single rounds, not all.
    panic!("nobody was ever the newest");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pinned_leader_is_reaped_when_it_is_let_go() {
    let port = UnixPort::start().unwrap();
    let launched = port.spawner.spawn(request("exit 5")).await.unwrap();
    let process = Arc::clone(launched.process());
    let session = launched.adopt().unwrap();
    session.leader.exited().await.unwrap();
    let is_there = || std::path::Path::new(&format!("/proc/{}", session.pid)).exists();
    let (one, other) = (process.pin().unwrap(), process.pin().unwrap());
    assert!(session.leader.reap().is_some());
    assert_eq!(session.leader.reap(), None);
    assert!(process.pin().is_none() && is_there());
    drop(one);
    assert!(is_there());
    drop(other);
    assert!(!is_there());
    assert!(session.leader.peek().is_some());
}

#[test]
fn a_port_makes_and_ends_its_threads_without_a_runtime() {
    let port = UnixPort::start().unwrap();
    assert_eq!(port.containment(), Containment::PROCESS_GROUP);
    drop(port);
}
