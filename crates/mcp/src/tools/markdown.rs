//! The tools as documentation.

use std::fmt::Write as _;

use super::{Alias, Effect, Kind, Presence, TOOLS};
use crate::failure::Code;

/// The tools as a page of documentation, in Markdown.
#[must_use]
pub fn tools_markdown() -> String {
    let mut page = String::from("# MCP tools\n");
    for tool in &TOOLS {
        let hint = match tool.effect {
            Effect::Reads => "Changes nothing.",
            Effect::Sets => "Changes something; twice is once.",
            Effect::Acts => "Does what it is told, each time anew.",
            Effect::Ends => "Ends something; twice is once.",
        };
        let _ = write!(
            page,
            "\n## `{}`\n{} {hint}\n\n| argument | is | default | also | means |\n| --- | --- | --- | --- | --- |\n",
            tool.name, tool.about
        );
        for argument in tool.arguments {
            let default = match argument.presence {
                Presence::Required => "required".to_owned(),
                Presence::Optional => String::new(),
                Presence::Default(value) => format!("`{value}`"),
            };
            let aliases: Vec<_> = argument.aliases.iter().map(Alias::markdown).collect();
            let _ = writeln!(
                page,
                "| `{}` | {} | {default} | {} | {} |",
                argument.name,
                argument.kind.markdown(),
                aliases.join(", "),
                argument.about
            );
        }
        let _ = write!(page, "\nAnswers {}\n", tool.answer);
    }
    page.push_str("\n## Errors\nA call that could not be done has `isError` and `{ \"error\": { \"code\", \"message\", … } }`.\n\n| code | means |\n| --- | --- |\n");
    for (code, about) in Code::ALL {
        let _ = writeln!(page, "| `{}` | {about} |", code.as_str());
    }
    page
}

impl Alias {
    fn markdown(&self) -> String {
        match self.factor {
            1 => format!("`{}`", self.name),
            factor => format!("`{}` (× {factor})", self.name),
        }
    }
}

impl Kind {
    fn markdown(self) -> String {
        match self {
            Self::Text => "text".to_owned(),
            Self::Number => "number".to_owned(),
            Self::Flag => "flag".to_owned(),
            Self::Texts => "list of texts".to_owned(),
            Self::TextMap => "map of texts".to_owned(),
            Self::Word(words) => format!("`{}`", words.join("`, `")),
            Self::Terminal => "flag, or `{rows, cols}`".to_owned(),
            Self::Limits => "map of policy fields".to_owned(),
            Self::Signal => "name or number".to_owned(),
            Self::Conditions => "list of conditions".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_tells_of_every_tool_argument_and_code() {
        let page = tools_markdown();
        for tool in &TOOLS {
            assert!(page.contains(&format!("\n## `{}`\n", tool.name)), "{}", tool.name);
            for argument in tool.arguments {
                assert!(
                    page.contains(&format!("\n| `{}` | ", argument.name)),
                    "{}",
                    argument.name
                );
            }
        }
        for (code, _) in Code::ALL {
            assert!(
                page.contains(&format!("\n| `{}` | ", code.as_str())),
                "{}",
                code.as_str()
            );
        }
    }

    #[test]
    fn a_tool_is_told_with_its_arguments() {
        let page = tools_markdown();
        let section = page
            .split("\n## ")
            .find(|section| section.starts_with("`session_signal`"))
            .expect("there");
        insta::assert_snapshot!(section, @r"
        `session_signal`
        Sends a signal to what runs in the foreground of a session. To end a session for sure, use `session_stop`. Does what it is told, each time anew.

        | argument | is | default | also | means |
        | --- | --- | --- | --- | --- |
        | `session_id` | text | required | `task_id` | The session's id, as `session_start` gave it. |
        | `signal` | name or number | required |  | `INT`, `SIGINT` or a number from 1 to 64. |

        Answers `session_id`, `signal`, `signal_name`.
        ");
    }
}
