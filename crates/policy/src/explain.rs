//! Decisions and capabilities as lines for people.

use std::fmt::Write;

use procession_core::{Field, Value, field::Unit};

use crate::{
    capability::{Capabilities, Capability, Channel, Level},
    decision::{Decision, FieldDecision, Status},
};

#[cfg(test)]
mod tests;

/// One decision as one line, without its end.
///
/// `FIELD: [requested VALUE, ]effective VALUE, HOW, LEVEL (CHANNEL)[; NOTE]`. Characters that would move a terminal's
/// cursor are written as escapes.
#[must_use]
pub fn explain_field(decision: &FieldDecision) -> String {
    let unit = decision.field.spec().unit;
    let mut line = format!("{}: ", decision.field);
    if let Some(requested) = &decision.requested {
        // Without its unit, as it was given.
        push(
            &mut line,
            format_args!("requested {}, ", shown(requested, Unit::None)),
        );
    }
    push(
        &mut line,
        format_args!(
            "effective {}, {}, ",
            shown_or_none(decision.effective.as_ref(), unit),
            how(decision)
        ),
    );
    push(
        &mut line,
        format_args!("{}", enforcement(decision.level, decision.channel)),
    );
    if let (Some(_), Some(ceiling)) = (decision.refusal, &decision.ceiling) {
        push(
            &mut line,
            format_args!("; the ceiling is {}", shown(ceiling, unit)),
        );
    }
    if let Some(note) = &decision.note {
        push(&mut line, format_args!("; {}", plain(note)));
    }
    line
}

/// A decision as lines, one for each field, each with its end.
#[must_use]
pub fn explain_decision(decision: &Decision) -> String {
    decision
        .fields()
        .iter()
        .map(|decision| explain_field(decision) + "\n")
        .collect()
}

/// What can be done about a field as one line, without its end.
///
/// `FIELD: LEVEL[ (CHANNEL)][, one of WORDS][, inherited VALUE][, at most VALUE][; NOTE]`.
#[must_use]
pub fn explain_capability(field: Field, capability: Option<&Capability>) -> String {
    let unit = field.spec().unit;
    let Some(capability) = capability else {
        return format!("{field}: {}", Level::Unsupported.as_str());
    };
    let mut line = format!("{field}: {}", enforcement(capability.level, capability.channel));
    if let Some(words) = &capability.supported {
        let words: Vec<_> = words.iter().map(|word| plain(word)).collect();
        push(&mut line, format_args!(", one of {}", words.join(" ")));
    }
    if let Some(inherited) = &capability.inherited {
        push(&mut line, format_args!(", inherited {}", shown(inherited, unit)));
    }
    if let Some(most) = &capability.most {
        push(&mut line, format_args!(", at most {}", shown(most, unit)));
    }
    if let Some(note) = &capability.note {
        push(&mut line, format_args!("; {}", plain(note)));
    }
    line
}

/// What can be done on this machine as lines, one for each field, each with its end.
#[must_use]
pub fn explain_capabilities(capabilities: &Capabilities) -> String {
    Field::ALL
        .iter()
        .map(|field| explain_capability(*field, capabilities.get(*field)) + "\n")
        .collect()
}

fn how(decision: &FieldDecision) -> String {
    let whose = decision.set_by.as_str();
    match decision.status {
        Status::AsRequested => "as requested".to_owned(),
        Status::Advisory => "passed on".to_owned(),
        Status::Unsupported => "left as it is".to_owned(),
        status => format!("{} by {whose}", status.as_str()),
    }
}

fn enforcement(level: Level, channel: Channel) -> String {
    match channel {
        Channel::None => level.as_str().to_owned(),
        channel => format!("{} ({})", level.as_str(), channel.as_str()),
    }
}

fn shown_or_none(value: Option<&Value>, unit: Unit) -> String {
    value.map_or_else(|| "none".to_owned(), |value| shown(value, unit))
}

fn shown(value: &Value, unit: Unit) -> String {
    let text = plain(&value.to_string());
    match (value, unit) {
        (Value::Number(_) | Value::Integer(_), Unit::Milliseconds | Unit::Bytes | Unit::Percent) => {
            format!("{text} {}", unit.name())
        }
        _ => text,
    }
}

/// The text on one line, control characters as escapes.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() {
            plain.extend(character.escape_default());
        } else {
            plain.push(character);
        }
    }
    plain
}

fn push(line: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = line.write_fmt(text);
}
