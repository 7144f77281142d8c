use super::*;

fn requests() -> Vec<Request> {
    let spawn = |strings, setup| {
        Request::Spawn(SpawnMessage {
            session: 7,
            rung: Mechanism::PgidLock,
            arguments: 2,
            variables: 1,
            setup,
            strings,
        })
    };
    vec![
        Request::Hello {
            version: VERSION,
            only: Some(Mechanism::Subreaper),
        },
        Request::Hello {
            version: 9,
            only: None,
        },
        spawn(
            Some(b"/bin/echo\0echo\0hi\0A=b\0/\0".to_vec()),
            ChildSetup::default(),
        ),
        spawn(
            None,
            ChildSetup {
                terminal: true,
                limits: vec![ResourceLimit {
                    resource: 7,
                    soft: 1,
                    hard: u64::MAX,
                }],
                nice: Some(-5),
                oom_score_adj: Some(300),
                umask: Some(0o27),
            },
        ),
        Request::SignalRest {
            session: u64::MAX,
            number: 15,
        },
        Request::Kill { session: 1 },
        Request::Survey {
            session: 2,
            ticket: 3,
        },
        Request::Sweep {
            session: 4,
            ticket: 5,
        },
        Request::Reap { session: 6 },
        Request::Release { session: 8 },
        Request::Leave {
            session: 9,
            ticket: 10,
        },
    ]
}

fn replies() -> Vec<Reply> {
    let exited = |status| {
        Reply::Exited(ExitNotice {
            session: 3,
            status,
            usage: Usage {
                user_time: Duration::from_micros(12),
                system_time: Duration::from_secs(9),
                peak_memory_bytes: Some(5),
                minor_faults: 6,
                major_faults: 7,
                ..Usage::default()
            },
            is_alone: true,
        })
    };
    vec![
        Reply::Hello { version: VERSION },
        Reply::Ready(Readiness {
            rungs: vec![
                RungFound {
                    mechanism: Mechanism::Cgroup,
                    lacks: Some("no".to_owned()),
                },
                RungFound {
                    mechanism: Mechanism::ProcessGroup,
                    lacks: None,
                },
            ],
            cgroup: Some(b"/sys/fs".to_vec()),
            has_cgroup_kill: true,
        }),
        Reply::Spawned {
            session: 1,
            pid: 99,
            cgroup: Some(4),
        },
        Reply::Failed {
            session: 2,
            step: Step::Program,
            errno: 2,
        },
        exited(Status::Exited { code: -1 }),
        exited(Status::Signaled {
            signal: Signal::TERM,
            core_dumped: false,
        }),
        exited(Status::Signaled {
            signal: Signal::KILL,
            core_dumped: true,
        }),
        exited(Status::Unknown {
            reason: UnknownStatus::SupervisorDied,
        }),
        Reply::Report(TreeNotice {
            ticket: 1,
            swept: vec![1, 2],
            alive: vec![],
            is_exact: true,
        }),
    ]
}

#[test]
fn a_message_comes_out_as_it_went_in() {
    for request in requests() {
        assert_eq!(Request::decode(&request.encode()), Ok(request));
    }
    for reply in replies() {
        assert_eq!(Reply::decode(&reply.encode()), Ok(reply));
    }
}

#[test]
fn every_shorter_message_is_malformed_and_none_panics() {
    for request in requests() {
        let bytes = request.encode();
        for length in 0..bytes.len() {
            // The strings at the end of a start have no length of their own; they are checked where they are found.
            let has_strings = matches!(&request, Request::Spawn(spawn) if spawn.strings.is_some());
            assert!(
                has_strings || Request::decode(&bytes[..length]).is_err(),
                "{request:?}"
            );
        }
    }
    for reply in replies() {
        let bytes = reply.encode();
        for length in 0..bytes.len() {
            assert!(Reply::decode(&bytes[..length]).is_err(), "{reply:?}");
        }
        let longer = [bytes.as_slice(), &[0]].concat();
        assert!(Reply::decode(&longer).is_err(), "{reply:?}");
    }
}

#[test]
fn a_report_holds_no_more_pids_than_a_message_takes() {
    let report = |swept| {
        Reply::Report(TreeNotice {
            ticket: 1,
            swept,
            alive: Vec::new(),
            is_exact: true,
        })
    };
    let bytes = report(vec![7; MAX_PIDS + 5]).encode();
    assert!(bytes.len() < MAX_MESSAGE_BYTES);
    assert_eq!(Reply::decode(&bytes), Ok(report(vec![7; MAX_PIDS])));
}

#[test]
fn strings_are_found_where_they_lie() {
    let found = Strings::find(b"/bin/x\0x\0\0A=b\0/\0", 2, 1).unwrap();
    assert_eq!(found.argv, [c"x", c""]);
    assert_eq!((found.program, found.directory), (c"/bin/x", c"/"));
    assert_eq!(found.environment, [c"A=b"]);
    for (bytes, arguments, variables) in [
        (&b""[..], 1, 0),
        (b"p\0", 1, 0),
        (b"p\0a\0/\0", 0, 1),
        (b"p\0a\0/", 1, 0),
        (b"p\0a\0/\0x", 1, 0),
        (b"p\0a\0/\0", 2, 0),
        (b"p\0a\0/\0", u32::MAX, 0),
    ] {
        assert!(Strings::find(bytes, arguments, variables).is_err(), "{bytes:?}");
    }
}
