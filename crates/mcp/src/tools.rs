//! The tools, in one table: their schemas, their documentation and what a call may say come from here.

mod markdown;
mod table;

pub use self::markdown::tools_markdown;
pub(crate) use self::table::TOOLS;

/// A tool.
#[derive(Debug)]
pub(crate) struct Tool {
    pub(crate) name: &'static str,
    /// A title for people.
    pub(crate) title: &'static str,
    /// What it does, for a model.
    pub(crate) about: &'static str,
    pub(crate) arguments: &'static [Argument],
    /// What it answers, in short.
    pub(crate) answer: &'static str,
    pub(crate) effect: Effect,
}

/// An argument of a tool.
#[derive(Debug)]
pub(crate) struct Argument {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) presence: Presence,
    /// Other names, from tools that models know.
    pub(crate) aliases: &'static [Alias],
    pub(crate) about: &'static str,
}

/// Another name for an argument.
#[derive(Debug)]
pub(crate) struct Alias {
    pub(crate) name: &'static str,
    /// How many units of the argument one of this name's is.
    pub(crate) factor: u64,
}

/// What an argument may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    /// A whole number that is not negative.
    Number,
    Flag,
    /// A list of texts.
    Texts,
    /// A map of texts.
    TextMap,
    Word(&'static [&'static str]),
    /// A flag, or a terminal's size.
    Terminal,
    /// A map of policy fields.
    Limits,
    /// A signal's name or number.
    Signal,
    /// A list of conditions.
    Conditions,
}

/// Whether an argument has to be there, and what holds when it is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presence {
    Required,
    Optional,
    /// The value that holds, as JSON.
    Default(&'static str),
}

/// What a tool does to the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It changes nothing.
    Reads,
    /// It changes something, and twice is once.
    Sets,
    /// It does whatever it is told, each time anew.
    Acts,
    /// It ends something, and twice is once.
    Ends,
}

/// The tool of this name.
pub(crate) fn tool(name: &str) -> Option<&'static Tool> {
    TOOLS.iter().find(|tool| tool.name == name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_name_is_there_once() {
        let names: BTreeSet<_> = TOOLS.iter().map(|tool| tool.name).collect();
        assert_eq!(names.len(), TOOLS.len());
        for tool in &TOOLS {
            let mut seen = BTreeSet::new();
            for argument in tool.arguments {
                assert!(seen.insert(argument.name), "{} {}", tool.name, argument.name);
                for alias in argument.aliases {
                    assert!(seen.insert(alias.name), "{} {}", tool.name, alias.name);
                }
            }
        }
    }

    #[test]
    fn the_defaults_are_json() {
        for argument in TOOLS.iter().flat_map(|tool| tool.arguments) {
            if let Presence::Default(value) = argument.presence {
                assert!(
                    serde_json::from_str::<serde_json::Value>(value).is_ok(),
                    "{}",
                    argument.name
                );
            }
        }
    }
}
