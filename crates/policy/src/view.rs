//! Decisions, receipts and capabilities as machines read them: the shapes of JSON, apart from the form on record.

use std::fmt;

use procession_core::{Containment, Field, Value};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error, SeqAccess, Visitor},
    ser::SerializeStruct,
};

use crate::{
    capability::{Capabilities, Capability, Channel, Level},
    decision::{Decision, FieldDecision, RefusalReason},
    receipt::Receipt,
};

#[cfg(test)]
mod tests;

/// A value as such: a number as a number, a flag as a boolean, text as a string, a list as an array.
///
/// Reads the same from any format that tells its types, so that maps of fields in requests and in the configuration
/// are `BTreeMap<Field, PlainValue>`. A fraction is refused, also a whole one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PlainValue(pub Value);

impl Serialize for PlainValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        ValueView(&self.0).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for PlainValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PlainVisitor).map(Self)
    }
}

/// One field's decision: `field`, `requested`, `effective`, `status`, `set_by`, `level`, `channel`, `ceiling`, `note`,
/// and `reason`, which is null unless it was refused.
#[derive(Debug, Clone, Copy)]
pub struct FieldDecisionView<'a>(pub &'a FieldDecision);

impl Serialize for FieldDecisionView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let FieldDecision {
            field,
            requested,
            ceiling,
            effective,
            status,
            set_by,
            level,
            channel,
            note,
            refusal,
        } = self.0;
        let mut view = serializer.serialize_struct("FieldDecision", 10)?;
        view.serialize_field("field", field.name())?;
        view.serialize_field("requested", &requested.as_ref().map(ValueView))?;
        view.serialize_field("effective", &effective.as_ref().map(ValueView))?;
        view.serialize_field("status", status.as_str())?;
        view.serialize_field("set_by", set_by.as_str())?;
        view.serialize_field("level", level.as_str())?;
        view.serialize_field("channel", channel.as_str())?;
        view.serialize_field("ceiling", &ceiling.as_ref().map(ValueView))?;
        view.serialize_field("note", note)?;
        view.serialize_field("reason", &refusal.map(RefusalReason::as_str))?;
        view.end()
    }
}

/// All decisions on a session, in the order of the table: a list of [`FieldDecisionView`].
#[derive(Debug, Clone, Copy)]
pub struct DecisionsView<'a>(pub &'a Decision);

impl Serialize for DecisionsView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.fields().iter().map(FieldDecisionView))
    }
}

/// The decisions that are no plain defaults: a list of [`FieldDecisionView`].
#[derive(Debug, Clone, Copy)]
pub struct NotableView<'a>(pub &'a Decision);

impl Serialize for NotableView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.notable().map(FieldDecisionView))
    }
}

/// A receipt beside its decision: `decisions`, `observed` (a list of `field`, `effective`, `observed`), `struck`
/// (`field`, `at_ms`, or null), `output_bytes`, `peak_memory_bytes`.
#[derive(Debug, Clone, Copy)]
pub struct ReceiptView<'a> {
    /// What was decided.
    pub decision: &'a Decision,
    /// What was observed.
    pub receipt: &'a Receipt,
}

impl Serialize for ReceiptView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let observed: Vec<_> = self
            .receipt
            .observed
            .iter()
            .map(|observed| ObservedView {
                field: observed.field.name(),
                effective: self.decision.effective(observed.field).map(ValueView),
                observed: ValueView(&observed.value),
            })
            .collect();
        let struck = self.receipt.struck.map(|struck| StruckView {
            field: struck.field.name(),
            at_ms: struck.at_ms,
        });
        let mut view = serializer.serialize_struct("Receipt", 5)?;
        view.serialize_field("decisions", &DecisionsView(self.decision))?;
        view.serialize_field("observed", &observed)?;
        view.serialize_field("struck", &struck)?;
        view.serialize_field("output_bytes", &self.receipt.output_bytes)?;
        view.serialize_field("peak_memory_bytes", &self.receipt.peak_memory_bytes)?;
        view.end()
    }
}

/// A containment: `mechanism`, `kill`, `empty`, `crash`.
#[derive(Debug, Clone, Copy)]
pub struct ContainmentView<'a>(pub &'a Containment);

impl Serialize for ContainmentView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut view = serializer.serialize_struct("Containment", 4)?;
        view.serialize_field("mechanism", self.0.mechanism.as_str())?;
        view.serialize_field("kill", &self.0.kill)?;
        view.serialize_field("empty", &self.0.empty)?;
        view.serialize_field("crash", &self.0.crash)?;
        view.end()
    }
}

/// What can be done about a field: `field`, `level`, `channel`, `supported`, `inherited`, `most`, `note`.
#[derive(Debug, Clone, Copy)]
pub struct CapabilityView<'a> {
    /// The field.
    pub field: Field,
    /// What can be done about it; none when nothing can.
    pub capability: Option<&'a Capability>,
}

impl Serialize for CapabilityView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let capability = self.capability;
        let level = capability.map_or(Level::Unsupported, |capability| capability.level);
        let channel = capability.map_or(Channel::None, |capability| capability.channel);
        let value = |of: fn(&Capability) -> Option<&Value>| capability.and_then(of).map(ValueView);
        let mut view = serializer.serialize_struct("Capability", 7)?;
        view.serialize_field("field", self.field.name())?;
        view.serialize_field("level", level.as_str())?;
        view.serialize_field("channel", channel.as_str())?;
        view.serialize_field(
            "supported",
            &capability.and_then(|capability| capability.supported.as_ref()),
        )?;
        view.serialize_field("inherited", &value(|capability| capability.inherited.as_ref()))?;
        view.serialize_field("most", &value(|capability| capability.most.as_ref()))?;
        view.serialize_field(
            "note",
            &capability.and_then(|capability| capability.note.as_ref()),
        )?;
        view.end()
    }
}

/// What can be done on this machine, in the order of the table: a list of [`CapabilityView`], one for each field.
#[derive(Debug, Clone, Copy)]
pub struct CapabilitiesView<'a>(pub &'a Capabilities);

impl Serialize for CapabilitiesView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let views = Field::ALL.iter().map(|field| CapabilityView {
            field: *field,
            capability: self.0.get(*field),
        });
        serializer.collect_seq(views)
    }
}

#[derive(Debug, Clone, Copy)]
struct ValueView<'a>(&'a Value);

impl Serialize for ValueView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Number(number) => serializer.serialize_u64(*number),
            Value::Integer(number) => serializer.serialize_i64(*number),
            Value::Flag(flag) => serializer.serialize_bool(*flag),
            Value::Text(text) => serializer.serialize_str(text),
            Value::List(entries) => serializer.collect_seq(entries),
        }
    }
}

#[derive(Serialize)]
struct ObservedView<'a> {
    field: &'static str,
    effective: Option<ValueView<'a>>,
    observed: ValueView<'a>,
}

#[derive(Serialize)]
struct StruckView {
    field: &'static str,
    at_ms: u64,
}

struct PlainVisitor;

impl<'de> Visitor<'de> for PlainVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number, a boolean, a string, or a list of strings")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Value, E> {
        Ok(Value::Number(number))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Value, E> {
        Ok(u64::try_from(number).map_or(Value::Integer(number), Value::Number))
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<Value, E> {
        Ok(Value::Flag(flag))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Text(text.to_owned()))
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Value, E> {
        Ok(Value::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(entry) = entries.next_element()? {
            list.push(entry);
        }
        Ok(Value::List(list))
    }
}
