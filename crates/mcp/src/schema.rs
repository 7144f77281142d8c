//! The tools as the protocol shows them.

use std::sync::Arc;

use rmcp::model::{JsonObject, Tool as ShownTool, ToolAnnotations};
use serde_json::{Value, json};

use crate::{
    arguments::limits_schema,
    tools::{Argument, Effect, Kind, Presence, TOOLS, Tool},
};

/// All tools, with schemas and annotations.
pub(crate) fn shown_tools() -> Vec<ShownTool> {
    TOOLS.iter().map(shown).collect()
}

fn shown(tool: &Tool) -> ShownTool {
    ShownTool::new(
        tool.name,
        format!("{} Answers {}", tool.about, tool.answer),
        Arc::new(input_schema(tool)),
    )
    .with_title(tool.title)
    .with_annotations(annotations(tool))
}

fn annotations(tool: &Tool) -> ToolAnnotations {
    let (read_only, destructive, idempotent, open_world) = match tool.effect {
        Effect::Reads => (true, false, true, false),
        Effect::Sets => (false, false, true, false),
        Effect::Acts => (false, true, false, true),
        Effect::Ends => (false, true, true, false),
    };
    ToolAnnotations::with_title(tool.title)
        .read_only(read_only)
        .destructive(destructive)
        .idempotent(idempotent)
        .open_world(open_world)
}

/// What a call may say; other names of arguments are in the descriptions, so that they stay usable and do not weigh.
fn input_schema(tool: &Tool) -> JsonObject {
    let properties: JsonObject = tool
        .arguments
        .iter()
        .map(|argument| (argument.name.to_owned(), property(argument)))
        .collect();
    let required: Vec<_> = tool
        .arguments
        .iter()
        .filter(|argument| argument.presence == Presence::Required)
        .map(|argument| argument.name)
        .collect();
    JsonObject::from_iter([
        ("type".to_owned(), "object".into()),
        ("properties".to_owned(), properties.into()),
        ("required".to_owned(), json!(required)),
    ])
}

fn property(argument: &Argument) -> Value {
    let mut schema = match argument.kind {
        Kind::Text => json!({ "type": "string" }),
        Kind::Number => json!({ "type": "integer", "minimum": 0 }),
        Kind::Flag => json!({ "type": "boolean" }),
        Kind::Texts => json!({ "type": "array", "items": { "type": "string" } }),
        Kind::TextMap => json!({ "type": "object", "additionalProperties": { "type": "string" } }),
        Kind::Word(words) => json!({ "type": "string", "enum": words }),
        Kind::Terminal => json!({ "anyOf": [
            { "type": "boolean" },
            {
                "type": "object",
                "properties": { "rows": cells(), "cols": cells() },
                "required": ["rows", "cols"],
                "additionalProperties": false,
            },
        ] }),
        Kind::Limits => limits_schema().into(),
        Kind::Signal => {
            json!({ "anyOf": [{ "type": "string" }, { "type": "integer", "minimum": 1, "maximum": 64 }] })
        }
        Kind::Conditions => json!({ "type": "array", "minItems": 1, "items": { "anyOf": [
            { "type": "string", "enum": ["exited", "closed", "quiescent"] },
            { "type": "object" },
        ] } }),
    };
    schema["description"] = described(argument).into();
    if let Presence::Default(value) = argument.presence {
        schema["default"] = serde_json::from_str(value).unwrap_or(Value::Null);
    }
    schema
}

fn cells() -> Value {
    json!({ "type": "integer", "minimum": 1, "maximum": 65_535 })
}

fn described(argument: &Argument) -> String {
    argument
        .aliases
        .iter()
        .fold(argument.about.to_owned(), |about, alias| match alias.factor {
            1 => format!("{about} Also accepted as `{}`.", alias.name),
            factor => format!("{about} Also accepted as `{}`, {factor} bytes each.", alias.name),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_is_shown_with_its_schema_and_hints() {
        let tools = shown_tools();
        assert_eq!(tools.len(), TOOLS.len());
        for tool in tools {
            assert_eq!(tool.input_schema["type"], "object", "{}", tool.name);
            assert!(
                tool.annotations
                    .is_some_and(|hints| hints.read_only_hint.is_some()),
                "{}",
                tool.name
            );
        }
    }

    #[test]
    fn a_schema_tells_types_defaults_and_what_is_required() {
        let schema = |name| Value::Object(input_schema(crate::tools::tool(name).expect("known")));
        let poll = schema("session_poll");
        assert_eq!(poll["required"], json!(["session_id"]));
        assert_eq!(poll["properties"]["yield_time_ms"]["default"], 5000);
        assert_eq!(
            poll["properties"]["render"]["enum"],
            json!(["raw", "plain", "screen"])
        );
        let start = schema("session_start");
        assert_eq!(
            start["properties"]["limits"]["properties"]["wall_time_ms"]["minimum"],
            1
        );
        let tokens = start["properties"]["max_output_bytes"]["description"]
            .as_str()
            .expect("text");
        assert!(
            tokens.ends_with("Also accepted as `max_output_tokens`, 4 bytes each."),
            "{tokens}"
        );
    }
}
