//! Requested limits against effective ones: decisions, records, receipts.
//!
//! A session asks for limits, its host, principal and owner set ceilings, the machine can enforce some of them and
//! some not. [`decide`] makes one [`FieldDecision`] of that for every [`procession_core::Field`], so that nothing is
//! clamped in silence and nothing is called enforced that is not. At the end a [`Receipt`] sets beside it what was
//! observed and what struck.
//!
//! - What can be enforced: [`Capabilities`].
//! - What a host allows: [`HostPolicy`], [`Ceilings`].
//! - What holds: [`decide`], [`Decision`].
//! - What was observed: [`Receipt`].
//! - What is kept: [`PolicyBook`] in memory, [`encode_record`] for the log.
//! - What is shown: [`explain_decision`] for people, [`FieldDecisionView`] and its like for machines,
//!   [`limits_markdown`] for the document.
//!
//! Everything here is a value or a function of its arguments: no clock, no file, no environment, no task.
#![forbid(unsafe_code)]

mod capability;

mod freedom;
mod host;

mod decide;
mod decision;

mod receipt;

mod book;
mod codec;

mod explain;
mod limits_document;
mod view;

#[cfg(test)]
mod samples;

pub use book::{BookBounds, NoDecision, PolicyBook, PolicyRecord};
pub use capability::{Capabilities, Capability, Channel, Level};
pub use codec::{
    CodecError, EndRecord, MAX_RECORD_BYTES, RECORD_VERSION, Record, decode_record, encode_record,
};
pub use decide::{
    LEAST_OUTPUT_BUDGET_BYTES, MAX_LIST_BYTES, MAX_TERMINAL_SIDE, MAX_TEXT_BYTES, PolicyRequest, decide,
};
pub use decision::{Decision, FieldDecision, Refusal, RefusalReason, SetBy, Status};
pub use explain::{explain_capabilities, explain_capability, explain_decision, explain_field};
pub use host::{Ceilings, HostPolicy, HostPolicyError, HostPolicySettings, OnExcess};
pub use limits_document::{Bound, limits_markdown};
pub use receipt::{Observation, Observed, Receipt, Struck};
pub use view::{
    CapabilitiesView, CapabilityView, ContainmentView, DecisionsView, FieldDecisionView, NotableView,
    PlainValue, ReceiptView,
};
