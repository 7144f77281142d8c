//! Every limit and permission of a session: its name, unit, default and ceiling, in one table.
//!
//! The limits document, the decisions of the policy and the names on all surfaces come from here.

use std::{collections::BTreeMap, fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// A value of a field, requested or effective.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Value {
    /// A number in the field's unit.
    Number(u64),
    /// A number that may be negative.
    Integer(i64),
    /// Yes or no.
    Flag(bool),
    /// One of the field's words, a size as `24x120`, or a path.
    Text(String),
    /// Several words, in order.
    List(Vec<String>),
}

impl Value {
    /// The value as a number, where it is one that is not negative.
    #[must_use]
    pub fn as_number(&self) -> Option<u64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Integer(number) => u64::try_from(*number).ok(),
            _ => None,
        }
    }

    /// The value as text, where it is text.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Integer(number) => write!(f, "{number}"),
            Self::Flag(flag) => write!(f, "{flag}"),
            Self::Text(text) => f.write_str(text),
            Self::List(entries) => write!(f, "[{}]", entries.join(", ")),
        }
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// What a session asks for, by field; what is not named is not requested.
pub type RequestedLimits = BTreeMap<Field, Value>;

/// In what a field is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Milliseconds.
    Milliseconds,
    /// Bytes.
    Bytes,
    /// Things, each one.
    Count,
    /// Hundredths of one processor.
    Percent,
    /// No unit: words, names, flags.
    None,
}

impl Unit {
    /// The unit's name for people; empty where there is none.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Milliseconds => "ms",
            Self::Bytes => "bytes",
            Self::Count => "count",
            Self::Percent => "percent",
            Self::None => "",
        }
    }
}

/// Which values fit a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A number of at least `least`.
    Number {
        /// The smallest number that has a meaning, inclusive.
        least: u64,
    },
    /// A number that may be negative, from `least` to `most`, both inclusive.
    Integer {
        /// The smallest number.
        least: i64,
        /// The largest number.
        most: i64,
    },
    /// Yes or no.
    Flag,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A terminal's size, `ROWSxCOLS`.
    Size,
    /// Any text, for example a path.
    Text,
    /// A list of texts.
    List,
}

/// A default or a ceiling in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fixed {
    /// None: no default holds, or there is no ceiling.
    None,
    /// This number.
    Number(u64),
    /// This number, which may be negative.
    Integer(i64),
    /// This flag.
    Flag(bool),
    /// This word.
    Word(&'static str),
    /// The empty list.
    EmptyList,
}

impl Fixed {
    /// The value, where there is one.
    #[must_use]
    pub fn value(self) -> Option<Value> {
        match self {
            Self::None => None,
            Self::Number(number) => Some(Value::Number(number)),
            Self::Integer(number) => Some(Value::Integer(number)),
            Self::Flag(flag) => Some(Value::Flag(flag)),
            Self::Word(word) => Some(Value::Text(word.to_owned())),
            Self::EmptyList => Some(Value::List(Vec::new())),
        }
    }
}

/// A row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldSpec {
    /// The field's name on every surface, in `snake_case`, with its unit as suffix.
    pub name: &'static str,
    /// In what it is counted.
    pub unit: Unit,
    /// Which values fit.
    pub kind: Kind,
    /// What holds when nothing is requested and the host says nothing.
    pub default: Fixed,
    /// The most that can be had unless the host says less or more.
    pub ceiling: Fixed,
    /// What the field means, in one line.
    pub about: &'static str,
}

macro_rules! fields {
    ($( $variant:ident, $name:literal, $unit:ident, $kind:expr, $default:expr, $ceiling:expr, $about:literal; )*) => {
        /// A limit or permission of a session.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        #[non_exhaustive]
        pub enum Field {
            $( #[doc = $about] $variant, )*
        }

        impl Field {
            /// All fields, in the order of the table.
            pub const ALL: &'static [Self] = &[ $( Self::$variant, )* ];

            /// The field's row in the table.
            #[must_use]
            pub const fn spec(self) -> FieldSpec {
                match self {
                    $( Self::$variant => FieldSpec {
                        name: $name, unit: Unit::$unit, kind: $kind, default: $default, ceiling: $ceiling, about: $about,
                    }, )*
                }
            }
        }
    };
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const HOUR_MS: u64 = 3_600_000;

fields! {
    WallTime, "wall_time_ms", Milliseconds, Kind::Number { least: 1 }, Fixed::Number(600_000), Fixed::Number(24 * HOUR_MS),
        "Time from the spawn after which the session is ended.";
    IdleTime, "idle_time_ms", Milliseconds, Kind::Number { least: 1 }, Fixed::None, Fixed::Number(24 * HOUR_MS),
        "Time without output after which the session is ended.";
    Grace, "grace_ms", Milliseconds, Kind::Number { least: 0 }, Fixed::Number(2_000), Fixed::Number(60_000),
        "Time between asking the tree to terminate and killing it.";
    DrainGrace, "drain_grace_ms", Milliseconds, Kind::Number { least: 0 }, Fixed::Number(1_000), Fixed::Number(10_000),
        "Time for which output is read on after the leader's exit while somebody holds it open.";
    YieldTime, "yield_time_ms", Milliseconds, Kind::Number { least: 0 }, Fixed::Number(10_000), Fixed::Number(30_000),
        "Time for which a start waits for the end of the session.";
    OutputBudget, "output_budget_bytes", Bytes, Kind::Number { least: 0 }, Fixed::Number(32 * KIB), Fixed::Number(256 * KIB),
        "Text that one answer returns, both streams together; less than 128 counts as 128.";
    Capture, "capture_bytes", Bytes, Kind::Number { least: 4 * KIB }, Fixed::Number(MIB), Fixed::Number(16 * MIB),
        "Output kept in memory for each stream, one half from its beginning and one half from its end.";
    LogBytes, "log_bytes", Bytes, Kind::Number { least: 64 * KIB }, Fixed::Number(32 * MIB), Fixed::Number(1024 * MIB),
        "Disk that the session's log takes, all of its files together.";
    LogMode, "log_mode", None, Kind::Word(&["rolling", "keep_head", "off"]), Fixed::Word("rolling"), Fixed::None,
        "What the log keeps at its cap: head and rolling tail, the head alone, or there is no log.";
    WriteBytes, "write_bytes", Bytes, Kind::Number { least: 1 }, Fixed::Number(64 * MIB), Fixed::Number(64 * MIB),
        "Input that one write may hold.";
    Stdin, "stdin", None, Kind::Word(&["null", "piped"]), Fixed::Word("null"), Fixed::None,
        "Whether the session's standard input is a pipe that can be written to.";
    Tty, "tty", None, Kind::Flag, Fixed::Flag(false), Fixed::None,
        "Whether the session runs on a terminal of its own.";
    TerminalSize, "terminal_size", None, Kind::Size, Fixed::Word("24x120"), Fixed::None,
        "The terminal's rows and columns.";
    EnvKeys, "env_keys", None, Kind::List, Fixed::EmptyList, Fixed::Number(256),
        "Configured variables that the session gets, by name.";
    EnvLiteral, "env_literal", None, Kind::List, Fixed::EmptyList, Fixed::Number(256),
        "Variables that the caller gave, by name.";
    CwdRoot, "cwd_root", None, Kind::Text, Fixed::None, Fixed::None,
        "The folder that the working directory has to lie in.";
    Leftovers, "leftovers", None, Kind::Word(&["sweep", "keep"]), Fixed::Word("sweep"), Fixed::None,
        "What happens to processes that are left after the leader's exit.";
    DiesWithHost, "dies_with_host", None, Kind::Flag, Fixed::Flag(true), Fixed::None,
        "Whether the whole tree ends when the host dies without a word.";
    Containment, "containment", None,
        Kind::Word(&["auto", "cgroup", "pid_namespace", "pgid_lock", "subreaper", "process_group"]), Fixed::Word("auto"), Fixed::None,
        "By what means the tree can be found and killed.";
    Retention, "retention_ms", Milliseconds, Kind::Number { least: 0 }, Fixed::Number(300_000), Fixed::Number(24 * HOUR_MS),
        "Time for which an ended session can still be read.";
    CpuTime, "cpu_time_ms", Milliseconds, Kind::Number { least: 1 }, Fixed::None, Fixed::None,
        "Processor time that a process may use.";
    AddressSpace, "address_space_bytes", Bytes, Kind::Number { least: 1 }, Fixed::None, Fixed::None,
        "Address space that a process may have.";
    OpenFiles, "open_files", Count, Kind::Number { least: 8 }, Fixed::None, Fixed::None,
        "Descriptors that a process may have open.";
    FileSize, "file_size_bytes", Bytes, Kind::Number { least: 0 }, Fixed::None, Fixed::None,
        "Largest file that a process may write.";
    Processes, "processes", Count, Kind::Number { least: 1 }, Fixed::None, Fixed::None,
        "Processes that the session's user may have.";
    Core, "core_bytes", Bytes, Kind::Number { least: 0 }, Fixed::None, Fixed::None,
        "Largest core file that a process may leave.";
    Nice, "nice", None, Kind::Integer { least: -20, most: 19 }, Fixed::None, Fixed::None,
        "Scheduling priority, the higher the more yielding.";
    OomScoreAdj, "oom_score_adj", None, Kind::Integer { least: -1000, most: 1000 }, Fixed::None, Fixed::None,
        "How soon the kernel kills the session when memory is short.";
    Umask, "umask", None, Kind::Text, Fixed::None, Fixed::None,
        "Permission bits that new files do not get, in octal.";
    TreeMemory, "tree_memory_bytes", Bytes, Kind::Number { least: MIB }, Fixed::None, Fixed::None,
        "Memory of the whole tree.";
    TreeProcesses, "tree_processes", Count, Kind::Number { least: 1 }, Fixed::None, Fixed::None,
        "Processes of the whole tree.";
    TreeCpu, "tree_cpu_percent", Percent, Kind::Number { least: 1 }, Fixed::None, Fixed::None,
        "Processor share of the whole tree, 100 being one processor.";
    ReadableRoots, "readable_roots", None, Kind::List, Fixed::None, Fixed::None,
        "Folders that the session may read.";
    WritableRoots, "writable_roots", None, Kind::List, Fixed::None, Fixed::None,
        "Folders that the session may write to.";
    Network, "network", None, Kind::Flag, Fixed::None, Fixed::None,
        "Whether the session may use the network.";
}

impl Field {
    /// The field's name on every surface.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.spec().name
    }
}

/// There is no field of this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no policy field `{name}`")]
pub struct UnknownField {
    /// What was given.
    pub name: String,
}

impl FromStr for Field {
    type Err = UnknownField;

    fn from_str(name: &str) -> Result<Self, UnknownField> {
        Self::ALL
            .iter()
            .copied()
            .find(|field| field.name() == name)
            .ok_or_else(|| UnknownField {
                name: name.chars().take(64).collect(),
            })
    }
}

impl TryFrom<String> for Field {
    type Error = UnknownField;

    fn try_from(name: String) -> Result<Self, UnknownField> {
        name.parse()
    }
}

impl From<Field> for String {
    fn from(field: Field) -> Self {
        field.name().to_owned()
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A value does not fit its field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` cannot be `{given}`: {expected}")]
pub struct UnfitValue {
    /// The field.
    pub field: Field,
    /// What was given, cut to 64 characters.
    pub given: String,
    /// What fits, in words.
    pub expected: &'static str,
}

impl Field {
    /// Whether the value is of the field's kind; ceilings are not looked at.
    ///
    /// # Errors
    /// [`UnfitValue`] with what would fit.
    pub fn check(self, value: &Value) -> Result<(), UnfitValue> {
        let unfit = |expected| UnfitValue {
            field: self,
            given: value.to_string().chars().take(64).collect(),
            expected,
        };
        match (self.spec().kind, value) {
            (Kind::Number { least }, value) => match value.as_number() {
                None => Err(unfit("it is a whole number that is not negative")),
                Some(0) if least > 0 => Err(unfit("zero has no meaning here")),
                Some(number) if number < least => Err(unfit("it is below the least value that works")),
                Some(_) => Ok(()),
            },
            (Kind::Integer { least, most }, value) => {
                let number = match value {
                    Value::Number(number) => i64::try_from(*number).ok(),
                    Value::Integer(number) => Some(*number),
                    _ => None,
                };
                match number {
                    Some(number) if (least..=most).contains(&number) => Ok(()),
                    Some(_) => Err(unfit("it is outside of what the system knows")),
                    None => Err(unfit("it is a whole number")),
                }
            }
            (Kind::Flag, Value::Flag(_)) | (Kind::Text, Value::Text(_)) | (Kind::List, Value::List(_)) => {
                Ok(())
            }
            (Kind::Flag, _) => Err(unfit("it is `true` or `false`")),
            (Kind::Word(words), Value::Text(word)) if words.contains(&word.as_str()) => Ok(()),
            (Kind::Word(_), _) => Err(unfit("it is none of the field's words")),
            (Kind::Size, Value::Text(size)) if parse_size(size).is_some() => Ok(()),
            (Kind::Size, _) => Err(unfit("it is a size such as `24x120`, rows first")),
            (Kind::Text, _) => Err(unfit("it is text")),
            (Kind::List, _) => Err(unfit("it is a list")),
        }
    }
}

/// Rows and columns of a size such as `24x120`.
#[must_use]
pub fn parse_size(text: &str) -> Option<(u16, u16)> {
    let (rows, cols) = text.split_once('x')?;
    Some((rows.parse().ok()?, cols.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_field_reads_back_by_its_name() {
        let names: BTreeSet<_> = Field::ALL.iter().map(|field| field.name()).collect();
        assert_eq!(names.len(), Field::ALL.len());
        for field in Field::ALL {
            assert_eq!(field.name().parse(), Ok(*field));
        }
        assert_eq!(
            "nonsense".parse::<Field>(),
            Err(UnknownField {
                name: "nonsense".to_owned()
            })
        );
    }

    #[test]
    fn every_default_fits_its_field_and_its_ceiling() {
        for field in Field::ALL {
            let spec = field.spec();
            if let Some(default) = spec.default.value() {
                assert_eq!(field.check(&default), Ok(()), "{field}");
                if let (Value::Number(default), Fixed::Number(ceiling)) = (default, spec.ceiling) {
                    assert!(default <= ceiling, "{field}");
                }
            }
        }
    }

    #[test]
    fn a_name_ends_in_its_unit() {
        for field in Field::ALL {
            let suffix = match field.spec().unit {
                Unit::Milliseconds => "_ms",
                Unit::Bytes => "_bytes",
                Unit::Percent => "_percent",
                Unit::Count | Unit::None => "",
            };
            assert!(field.name().ends_with(suffix), "{field}");
        }
    }

    #[test]
    fn a_value_that_does_not_fit_is_named_with_what_would() {
        let check = |field: Field, value: Value, expected: Option<&str>| {
            assert_eq!(
                field.check(&value).err().map(|error| error.expected),
                expected,
                "{field} = {value}"
            );
        };
        check(Field::WallTime, Value::Number(1), None);
        check(Field::WallTime, Value::Number(u64::MAX), None);
        check(
            Field::WallTime,
            Value::Number(0),
            Some("zero has no meaning here"),
        );
        check(
            Field::WallTime,
            Value::Integer(-1),
            Some("it is a whole number that is not negative"),
        );
        check(Field::Grace, Value::Number(0), None);
        check(Field::Nice, Value::Number(5), None);
        check(
            Field::Nice,
            Value::Integer(-21),
            Some("it is outside of what the system knows"),
        );
        check(Field::Leftovers, Value::from("keep"), None);
        check(
            Field::Leftovers,
            Value::from("kept"),
            Some("it is none of the field's words"),
        );
        check(Field::TerminalSize, Value::from("24x80"), None);
        check(
            Field::TerminalSize,
            Value::from("24"),
            Some("it is a size such as `24x120`, rows first"),
        );
        check(Field::Tty, Value::from("yes"), Some("it is `true` or `false`"));
        check(Field::EnvKeys, Value::from("A"), Some("it is a list"));
        check(
            Field::LogBytes,
            Value::Number(1),
            Some("it is below the least value that works"),
        );
    }
}
