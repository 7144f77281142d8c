//! What host and guard tell one another: one message a packet, numbers in little-endian order.
//!
//! Both are the same program, so that a message has one version, which the first one names: whoever meets another
//! ends the talk.
//!
//! | message | bytes |
//! | --- | --- |
//! | any | kind `u8`, then what follows in the order of the fields below |
//! | option | `u8` that is 0 or 1, then the value where it is 1 |
//! | list | count `u32`, then the entries |
//! | `Spawn` | behind its fields the strings, where they are in no memory file: program, arguments, variables, directory, each ended by a NUL |

use std::{ffi::CStr, time::Duration};

use procession_core::{
    Signal, Status,
    containment::Mechanism,
    outcome::{UnknownStatus, Usage},
};

use super::setup::{ChildSetup, ResourceLimit};

/// The version of all that is here.
pub(super) const VERSION: u32 = 1;
/// The longest message; what does not fit is in a memory file.
pub(super) const MAX_MESSAGE_BYTES: usize = 60 * 1024;
/// The most strings that a start may have, in bytes: more than any system takes.
pub(super) const MAX_STRINGS_BYTES: usize = 16 << 20;
/// The most pids that one list holds.
pub(super) const MAX_PIDS: usize = 2048;

/// A message that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a message is malformed")]
pub(super) struct Malformed;

/// What the host asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Request {
    /// The first message: which rungs are to be probed; none means all.
    Hello { version: u32, only: Option<Mechanism> },
    /// Starts a session; comes with its descriptors.
    Spawn(SpawnMessage),
    /// Sends a signal to the members outside of the leader's group.
    SignalRest { session: u64, number: i32 },
    /// Kills the tree.
    Kill { session: u64 },
    /// Sees who is there.
    Survey { session: u64, ticket: u64 },
    /// Kills who is there.
    Sweep { session: u64, ticket: u64 },
    /// Reaps the leader.
    Reap { session: u64 },
    /// Nobody has charge of the session any more.
    Release { session: u64 },
    /// Lets who is there live on when the guard ends; answered by a report that is exact where that will be so.
    Leave { session: u64, ticket: u64 },
}

/// A start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SpawnMessage {
    /// The host's number for the session, never used twice.
    pub(super) session: u64,
    /// By what means it is held.
    pub(super) rung: Mechanism,
    /// How many arguments there are.
    pub(super) arguments: u32,
    /// How many variables there are.
    pub(super) variables: u32,
    /// What is set in the child besides.
    pub(super) setup: ChildSetup,
    /// The strings; none where they are in a memory file.
    pub(super) strings: Option<Vec<u8>>,
}

/// What the guard tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reply {
    /// The first message.
    Hello { version: u32 },
    /// The answer to the host's first message.
    Ready(Readiness),
    /// A session runs; comes with a pidfd of its leader.
    Spawned {
        session: u64,
        pid: i32,
        cgroup: Option<u64>,
    },
    /// A session could not be started, and nothing is left of it.
    Failed { session: u64, step: Step, errno: i32 },
    /// A leader has ended; it is not reaped.
    Exited(ExitNotice),
    /// Who is left of a tree.
    Report(TreeNotice),
}

/// What a guard can do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Readiness {
    /// All rungs that were probed, strongest first, and why one is not to be had.
    pub(super) rungs: Vec<RungFound>,
    /// The group above those of the sessions.
    pub(super) cgroup: Option<Vec<u8>>,
    /// Whether writing to one file kills a whole group.
    pub(super) has_cgroup_kill: bool,
}

/// Whether a rung is to be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RungFound {
    pub(super) mechanism: Mechanism,
    /// None where it is.
    pub(super) lacks: Option<String>,
}

/// A leader's end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ExitNotice {
    pub(super) session: u64,
    pub(super) status: Status,
    pub(super) usage: Usage,
    /// Whether nobody else was left of the tree at that moment, as a fact.
    pub(super) is_alone: bool,
}

/// The answer to a survey or a sweep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TreeNotice {
    pub(super) ticket: u64,
    pub(super) swept: Vec<i32>,
    pub(super) alive: Vec<i32>,
    /// Whether nobody seen means nobody there.
    pub(super) is_exact: bool,
}

/// Where a start failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// The message could not be understood.
    Message = 0,
    /// No process could be made.
    Process = 1,
    /// The place that holds the tree could not be made.
    Containment = 2,
    /// The session could not be made.
    Session = 3,
    /// The streams could not be put in their places.
    Streams = 4,
    /// The terminal could not be taken.
    Terminal = 5,
    /// The directory could not be entered.
    Directory = 6,
    /// A resource limit could not be set.
    Limits = 7,
    /// The priority could not be set.
    Nice = 8,
    /// The score for the killer of last resort could not be set.
    OomScore = 9,
    /// The filter could not be set.
    Filter = 10,
    /// The program could not be executed.
    Program = 11,
}

impl Step {
    const ALL: [Self; 12] = [
        Self::Message,
        Self::Process,
        Self::Containment,
        Self::Session,
        Self::Streams,
        Self::Terminal,
        Self::Directory,
        Self::Limits,
        Self::Nice,
        Self::OomScore,
        Self::Filter,
        Self::Program,
    ];

    /// The step of this number.
    pub(super) fn from_number(number: u8) -> Result<Self, Malformed> {
        Self::ALL.get(usize::from(number)).copied().ok_or(Malformed)
    }
}

/// The rungs, strongest first.
pub(super) const RUNGS: [Mechanism; 5] = [
    Mechanism::Cgroup,
    Mechanism::PidNamespace,
    Mechanism::PgidLock,
    Mechanism::Subreaper,
    Mechanism::ProcessGroup,
];

impl Request {
    /// The message.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Writer::default();
        match self {
            Self::Hello { version, only } => {
                out.u8(0);
                out.u32(*version);
                out.option(only.as_ref(), |out, rung| out.rung(*rung));
            }
            Self::Spawn(spawn) => spawn.encode(&mut out),
            Self::SignalRest { session, number } => {
                out.u8(2);
                out.u64(*session);
                out.i32(*number);
            }
            Self::Kill { session } => out.of_session(3, *session),
            Self::Survey { session, ticket } => {
                out.of_session(4, *session);
                out.u64(*ticket);
            }
            Self::Sweep { session, ticket } => {
                out.of_session(5, *session);
                out.u64(*ticket);
            }
            Self::Reap { session } => out.of_session(6, *session),
            Self::Release { session } => out.of_session(7, *session),
            Self::Leave { session, ticket } => {
                out.of_session(8, *session);
                out.u64(*ticket);
            }
        }
        out.0
    }

    /// The message that these bytes are.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut from = Reader(bytes);
        let request = match from.u8()? {
            0 => Self::Hello {
                version: from.u32()?,
                only: from.option(Reader::rung)?,
            },
            1 => return SpawnMessage::decode(from).map(Self::Spawn),
            2 => Self::SignalRest {
                session: from.u64()?,
                number: from.i32()?,
            },
            3 => Self::Kill { session: from.u64()? },
            4 => Self::Survey {
                session: from.u64()?,
                ticket: from.u64()?,
            },
            5 => Self::Sweep {
                session: from.u64()?,
                ticket: from.u64()?,
            },
            6 => Self::Reap { session: from.u64()? },
            7 => Self::Release { session: from.u64()? },
            8 => Self::Leave {
                session: from.u64()?,
                ticket: from.u64()?,
            },
            _ => return Err(Malformed),
        };
        from.end()?;
        Ok(request)
    }

    /// The session that it is about.
    pub(super) fn session(&self) -> Option<u64> {
        match self {
            Self::Hello { .. } => None,
            Self::Spawn(spawn) => Some(spawn.session),
            Self::SignalRest { session, .. }
            | Self::Kill { session }
            | Self::Survey { session, .. }
            | Self::Sweep { session, .. }
            | Self::Reap { session }
            | Self::Release { session }
            | Self::Leave { session, .. } => Some(*session),
        }
    }
}

impl SpawnMessage {
    fn encode(&self, out: &mut Writer) {
        out.of_session(1, self.session);
        out.rung(self.rung);
        out.u32(self.arguments);
        out.u32(self.variables);
        let ChildSetup {
            terminal,
            limits,
            nice,
            oom_score_adj,
            umask,
        } = &self.setup;
        out.u8(u8::from(*terminal));
        out.list(limits, |out, limit| {
            out.u32(limit.resource);
            out.u64(limit.soft);
            out.u64(limit.hard);
        });
        out.option(nice.as_ref(), |out, nice| out.i32(*nice));
        out.option(oom_score_adj.as_ref(), |out, score| out.i32(*score));
        out.option(umask.as_ref(), |out, umask| out.u32(*umask));
        out.option(self.strings.as_ref(), |out, strings| {
            out.0.extend_from_slice(strings);
        });
    }

    fn decode(mut from: Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            session: from.u64()?,
            rung: from.rung()?,
            arguments: from.u32()?,
            variables: from.u32()?,
            setup: ChildSetup {
                terminal: from.u8()? == 1,
                limits: from.list(16, |from| {
                    Ok(ResourceLimit {
                        resource: from.u32()?,
                        soft: from.u64()?,
                        hard: from.u64()?,
                    })
                })?,
                nice: from.option(Reader::i32)?,
                oom_score_adj: from.option(Reader::i32)?,
                umask: from.option(Reader::u32)?,
            },
            strings: from.option(|from| Ok(std::mem::take(&mut from.0).to_vec()))?,
        })
    }
}

impl Reply {
    /// The message.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Writer::default();
        match self {
            Self::Hello { version } => {
                out.u8(5);
                out.u32(*version);
            }
            Self::Ready(ready) => {
                out.u8(0);
                out.list(&ready.rungs, |out, found| {
                    out.rung(found.mechanism);
                    out.option(found.lacks.as_ref(), |out, why| out.bytes(why.as_bytes()));
                });
                out.option(ready.cgroup.as_ref(), |out, path| out.bytes(path));
                out.u8(u8::from(ready.has_cgroup_kill));
            }
            Self::Spawned { session, pid, cgroup } => {
                out.of_session(1, *session);
                out.i32(*pid);
                out.option(cgroup.as_ref(), |out, number| out.u64(*number));
            }
            Self::Failed { session, step, errno } => {
                out.of_session(2, *session);
                out.u8(*step as u8);
                out.i32(*errno);
            }
            Self::Exited(notice) => {
                out.of_session(3, notice.session);
                out.status(&notice.status);
                out.usage(&notice.usage);
                out.u8(u8::from(notice.is_alone));
            }
            Self::Report(notice) => {
                out.of_session(4, notice.ticket);
                out.pids(&notice.swept);
                out.pids(&notice.alive);
                out.u8(u8::from(notice.is_exact));
            }
        }
        out.0
    }

    /// The message that these bytes are.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut from = Reader(bytes);
        let reply = match from.u8()? {
            0 => Self::Ready(Readiness {
                rungs: from.list(RUNGS.len(), |from| {
                    Ok(RungFound {
                        mechanism: from.rung()?,
                        lacks: from.option(|from| Ok(String::from_utf8_lossy(from.bytes()?).into_owned()))?,
                    })
                })?,
                cgroup: from.option(|from| from.bytes().map(<[u8]>::to_vec))?,
                has_cgroup_kill: from.u8()? == 1,
            }),
            1 => Self::Spawned {
                session: from.u64()?,
                pid: from.i32()?,
                cgroup: from.option(Reader::u64)?,
            },
            2 => Self::Failed {
                session: from.u64()?,
                step: Step::from_number(from.u8()?)?,
                errno: from.i32()?,
            },
            3 => Self::Exited(ExitNotice {
                session: from.u64()?,
                status: from.status()?,
                usage: from.usage()?,
                is_alone: from.u8()? == 1,
            }),
            4 => Self::Report(TreeNotice {
                ticket: from.u64()?,
                swept: from.list(MAX_PIDS, Reader::i32)?,
                alive: from.list(MAX_PIDS, Reader::i32)?,
                is_exact: from.u8()? == 1,
            }),
            5 => Self::Hello { version: from.u32()? },
            _ => return Err(Malformed),
        };
        from.end()?;
        Ok(reply)
    }
}

/// The strings of a start, where they lie.
#[derive(Debug)]
pub(super) struct Strings<'a> {
    pub(super) program: &'a CStr,
    pub(super) argv: Vec<&'a CStr>,
    pub(super) environment: Vec<&'a CStr>,
    pub(super) directory: &'a CStr,
}

impl<'a> Strings<'a> {
    /// Finds them.
    pub(super) fn find(bytes: &'a [u8], arguments: u32, variables: u32) -> Result<Self, Malformed> {
        let mut rest = bytes;
        let mut next = || {
            let found = CStr::from_bytes_until_nul(rest).map_err(|_| Malformed)?;
            rest = rest.get(found.count_bytes() + 1..).ok_or(Malformed)?;
            Ok(found)
        };
        let program = next()?;
        let argv = (0..arguments).map(|_| next()).collect::<Result<Vec<_>, _>>()?;
        let environment = (0..variables).map(|_| next()).collect::<Result<Vec<_>, _>>()?;
        let directory = next()?;
        if argv.is_empty() || !rest.is_empty() {
            return Err(Malformed);
        }
        Ok(Self {
            program,
            argv,
            environment,
            directory,
        })
    }
}

#[derive(Debug, Default)]
struct Writer(Vec<u8>);

impl Writer {
    fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn i32(&mut self, value: i32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn of_session(&mut self, kind: u8, session: u64) {
        self.u8(kind);
        self.u64(session);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        let length = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
        self.u32(length.into());
        self.0.extend_from_slice(&bytes[..length.into()]);
    }

    fn duration(&mut self, duration: Duration) {
        self.u64(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX));
    }

    fn rung(&mut self, rung: Mechanism) {
        let place = RUNGS.iter().position(|known| *known == rung);
        self.u8(place
            .and_then(|place| u8::try_from(place).ok())
            .unwrap_or(u8::MAX));
    }

    fn option<T>(&mut self, value: Option<&T>, write: impl FnOnce(&mut Self, &T)) {
        self.u8(u8::from(value.is_some()));
        if let Some(value) = value {
            write(self, value);
        }
    }

    fn list<T>(&mut self, values: &[T], write: impl Fn(&mut Self, &T)) {
        self.u32(u32::try_from(values.len()).unwrap_or(u32::MAX));
        for value in values {
            write(self, value);
        }
    }

    fn pids(&mut self, pids: &[i32]) {
        let some = &pids[..pids.len().min(MAX_PIDS)];
        self.list(some, |out, pid| out.i32(*pid));
    }

    fn status(&mut self, status: &Status) {
        match status {
            Status::Exited { code } => {
                self.u8(0);
                self.i32(*code);
            }
            Status::Signaled { signal, core_dumped } => {
                self.u8(1 + u8::from(*core_dumped));
                self.i32(signal.number());
            }
            Status::Unknown {
                reason: UnknownStatus::ObservationFailed { errno },
            } => {
                self.u8(3);
                self.i32(*errno);
            }
            Status::Unknown {
                reason: UnknownStatus::SupervisorDied,
            } => {
                self.u8(4);
                self.i32(0);
            }
            Status::Unknown { .. } => {
                self.u8(5);
                self.i32(0);
            }
        }
    }

    fn usage(&mut self, usage: &Usage) {
        self.duration(usage.user_time);
        self.duration(usage.system_time);
        self.option(usage.peak_memory_bytes.as_ref(), |out, bytes| out.u64(*bytes));
        self.u64(usage.minor_faults);
        self.u64(usage.major_faults);
    }
}

#[derive(Debug)]
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.take(N)?.try_into().map_err(|_| Malformed)
    }

    fn u8(&mut self) -> Result<u8, Malformed> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    fn i32(&mut self) -> Result<i32, Malformed> {
        self.array().map(i32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }

    fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let length = usize::try_from(self.u32()?).map_err(|_| Malformed)?;
        self.take(length)
    }

    fn duration(&mut self) -> Result<Duration, Malformed> {
        self.u64().map(Duration::from_micros)
    }

    fn rung(&mut self) -> Result<Mechanism, Malformed> {
        RUNGS.get(usize::from(self.u8()?)).copied().ok_or(Malformed)
    }

    fn option<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Option<T>, Malformed> {
        match self.u8()? {
            0 => Ok(None),
            1 => read(self).map(Some),
            _ => Err(Malformed),
        }
    }

    fn list<T>(
        &mut self,
        most: usize,
        read: impl Fn(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        let count = usize::try_from(self.u32()?).map_err(|_| Malformed)?;
        if count > most {
            return Err(Malformed);
        }
        (0..count).map(|_| read(self)).collect()
    }

    fn status(&mut self) -> Result<Status, Malformed> {
        let (kind, number) = (self.u8()?, self.i32()?);
        let unknown = |reason| Status::Unknown { reason };
        Ok(match kind {
            0 => Status::Exited { code: number },
            1 | 2 => Status::Signaled {
                signal: Signal::from_number(number).map_err(|_| Malformed)?,
                core_dumped: kind == 2,
            },
            3 => unknown(UnknownStatus::ObservationFailed { errno: number }),
            4 => unknown(UnknownStatus::SupervisorDied),
            5 => unknown(UnknownStatus::TakenElsewhere),
            _ => return Err(Malformed),
        })
    }

    fn usage(&mut self) -> Result<Usage, Malformed> {
        Ok(Usage {
            user_time: self.duration()?,
            system_time: self.duration()?,
            peak_memory_bytes: self.option(Self::u64)?,
            minor_faults: self.u64()?,
            major_faults: self.u64()?,
            // The guard tells of leaders; what is counted of a whole tree is read by the host.
            ..Usage::default()
        })
    }

    fn end(&self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed) }
    }
}

#[cfg(test)]
mod tests;
